"""Settings: `stratalog.toml` in the data directory, and `agent.toml` beside an agent's sessions over it.

Both are TOML with the fields of `Settings`; what is not said keeps its default, in a table too. A field that
does not exist is an error that names the file, so that a slip of the pen is not silently without effect.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, TypeAlias

import msgspec

from stratalog.errors import InvalidConfig

FILE = "stratalog.toml"
AGENT_FILE = "agent.toml"
_HINT = "docs/configuration.md lists every setting"
_OF_THE_LOG = ("store", "sync", "blob_threshold")


class BudgetSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How a context is shared out, in tokens; None is no limit of its own.

    `soft` is where whole oldest turns begin to be left out, down to the newest `keep_turns`; past what a
    model's window allows, `over` says whether to degrade to what fits or to raise. A section over its own
    limit is shortened where it may be (memory blocks, the summary, recent turns, recalled records), and an
    error where it may not (the system's words, the new message). `tool_result` is for one result, which is
    shown shortened past it.
    """

    soft: int | None = None
    keep_turns: int = 2
    over: Literal["degrade", "raise"] = "degrade"
    system: int | None = None
    memory: int | None = 4_000
    summary: int | None = None
    recent: int | None = None
    recalled: int | None = 2_000
    message: int | None = None
    tool_result: int = 8_000


class CompactionSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """When and how far a session is compacted; None is what `preset` says. `trigger` and `target` are parts
    of the window, `cap` tokens. `summariser` is the model that is asked, written as `model`; "" for the one
    that answers, `extractive` for none."""

    preset: Literal["default", "fixed-80k"] = "default"
    trigger: float | None = None
    target: float | None = None
    cap: int | None = None
    keep_turns: int | None = None
    keep_messages: int | None = None
    summariser: str = ""


class IdleSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Sessions of which nothing was said for `after` seconds and of which a model would see more than
    `messages` messages are compacted down to the last `keep_messages`."""

    after: float = 600.0
    messages: int = 100
    keep_messages: int = 20


class ContinueSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a session that continues another inherits, by the seconds since that was last written to: up to
    `history` all of it, up to `summary` its summary, later its working memory alone."""

    history: float = 1_800.0
    summary: float = 86_400.0


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Durations are seconds, sizes bytes, budgets tokens.

    `store`, `sync` and `blob_threshold` are the log's and are read from `stratalog.toml` alone.
    `lock_deadline` is how long a turn may hold its session; `idle_ttl` how long an unused session stays in
    memory; `restart_window` how long a restart of a busy session may be confirmed; `title_length` in
    characters as a person counts them; `context_budget` what `context()` fits when not told otherwise.

    `model` is `provider:name`, `base_url` and `api_key_env` where it is and which variable holds its key;
    `sends_reasoning` that its server wants what it thought back;
    `windows` is said over the table of models' windows; `max_output` bounds one reply, `silence` is how long
    a model may say nothing, `model_calls` how often it is called in one turn. `working_memory_limit` bounds
    what an agent keeps in its dictionary.
    """

    store: Literal["jsonl", "sqlite"] = "jsonl"
    sync: Literal["always", "turn", "interval", "never"] = "always"
    blob_threshold: int = 65_536
    lock_deadline: float = 120.0
    idle_ttl: float = 3600.0
    restart_window: float = 30.0
    title_length: int = 40
    context_budget: int = 8_000
    model: str = ""
    base_url: str = ""
    api_key_env: str = ""
    sends_reasoning: bool = False
    windows: dict[str, int | dict[str, int]] = {}
    max_output: int = 4_096
    silence: float = 120.0
    model_calls: int = 50
    working_memory_limit: int = 16_384
    budget: BudgetSettings = BudgetSettings()
    compaction: CompactionSettings = CompactionSettings()
    idle: IdleSettings = IdleSettings()
    continuing: ContinueSettings = ContinueSettings()


_TRIGGERS = {"default": 0.8, "fixed-80k": 1.0}
_TARGET = 0.3
_FIGURES = ("window", "input", "output")
_Table: TypeAlias = dict[str, Any]


def load_settings(data: Path) -> Settings:
    """The settings of a data directory; the defaults when it has none. Raises `InvalidConfig`."""
    return _checked(_table(data / FILE), data / FILE)


def agent_settings(base: Settings, agent_dir: Path) -> Settings:
    """`base` with what the agent's own file says. Raises `InvalidConfig`."""
    path = agent_dir / AGENT_FILE
    own = _table(path)
    for name in _OF_THE_LOG:
        if name in own:
            raise InvalidConfig(
                f"`{name}` cannot be set for one agent", path=str(path), hint=f"set it in {FILE}"
            )
    return _checked(_over(_plain(base), own), path) if own else base


def _table(path: Path) -> _Table:
    try:
        text = path.read_bytes()
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise InvalidConfig(f"the settings cannot be read: {error.strerror}", path=str(path)) from error
    try:
        table = msgspec.toml.decode(text)
    except msgspec.DecodeError as error:
        raise InvalidConfig(f"the settings are not TOML: {error}", path=str(path), hint=_HINT) from error
    return dict(table)


def _plain(settings: Settings) -> _Table:
    plain = msgspec.to_builtins(settings)
    assert isinstance(plain, dict)
    return plain


def _over(base: Mapping[str, Any], own: Mapping[str, Any]) -> _Table:
    """`base` with what `own` says, in tables too."""
    merged = dict(base)
    for name, value in own.items():
        below = merged.get(name)
        if isinstance(below, dict) and isinstance(value, dict):
            value = _over(below, value)
        merged[name] = value
    return merged


def _checked(table: _Table, path: Path) -> Settings:
    try:
        settings = msgspec.convert(table, Settings)
    except msgspec.ValidationError as error:
        raise InvalidConfig(f"a setting is wrong: {error}", path=str(path), hint=_HINT) from error
    for name, value in _numbers(_plain(settings)):
        if not 0 < value < math.inf:
            raise InvalidConfig(f"`{name}` must be a number above 0", path=str(path), hint=_HINT)
    wrong = _contradiction(settings)
    if wrong:
        raise InvalidConfig(wrong, path=str(path), hint=_HINT)
    return settings


def _contradiction(settings: Settings) -> str:
    """What settings that are right one by one have against one another; "" for nothing."""
    own = settings.compaction
    trigger = own.trigger if own.trigger is not None else _TRIGGERS[own.preset]
    target = own.target if own.target is not None else _TARGET
    if not target < trigger <= 1:
        figures = f"{target:g} and {trigger:g}"
        parts = "`compaction.target` must be less than `compaction.trigger`, and both parts of 1"
        return f"{parts}; they are {figures}"
    for model, said in settings.windows.items():
        given = said if isinstance(said, dict) else {"window": said}
        for name in given:
            if name not in _FIGURES:
                return f"`windows.{model}` has no figure {name!r}: it has {', '.join(_FIGURES)}"
        most = given.get("window")
        if most is not None and max(given.values()) > most:
            return f"`windows.{model}`: a model cannot be sent, or say, more than its window holds"
    return ""


def _numbers(table: _Table, prefix: str = "") -> Iterator[tuple[str, int | float]]:
    for name, value in table.items():
        if isinstance(value, dict):
            yield from _numbers(value, f"{prefix}{name}.")
        elif isinstance(value, int | float) and not isinstance(value, bool):
            yield f"{prefix}{name}", value
