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
_FOR_ALL = (
    *("store", "sync", "blob_threshold", "live_sessions", "live_bytes", "evaluation_tenants"),
    *("background", "recall"),
)


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
    recalled: int | None = 4_000
    standing: int | None = None
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


class BackgroundSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is done while nobody waits for it. `consolidate_every`, `profiles_every` and `idle_every` are the
    times from the end of one run to the next; records older than `promote_after` are promoted; `tick` is how
    often it is looked whether something is due.

    `calls_per_day` and `tokens_per_day` are what it may ask of models for one tenant in a day of UTC, then it
    stops until the next; too much of them costs money while nobody looks. `most_removed` is the part of a
    profile's lines that one pass may remove."""

    consolidate_every: float = 300.0
    profiles_every: float = 7_200.0
    idle_every: float = 600.0
    promote_after: float = 300.0
    calls_per_day: int = 2_000
    tokens_per_day: int = 2_000_000
    most_removed: float = 0.3
    tick: float = 30.0


class MemorySettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is remembered beyond a session, if `enabled`. `user` is who talks on this machine; `model` draws
    facts from what was said: "" for the one that answers, `extractive` for none. Dates are meant in `zone`,
    an IANA name."""

    enabled: bool = True
    user: str = ""
    model: str = ""
    zone: str = "UTC"


class RecallSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What finds by meaning, beside words. `embedder` makes the vectors: "" for none, `local`, or
    `openai:MODEL`, at `base_url` with the key in the variable `api_key_env`. `dimensions` are those of its
    vectors, None to ask it; `reach` is how far what it is sent goes, where `base_url` looks otherwise.
    `query_prefix` and `passage_prefix` are put before what it is sent, where its model wants that; another
    one makes other vectors, so all is embedded anew."""

    embedder: str = ""
    base_url: str = ""
    api_key_env: str = ""
    dimensions: int | None = None
    reach: Literal["", "machine", "premises", "world"] = ""
    query_prefix: str = ""
    passage_prefix: str = ""


Origin: TypeAlias = Literal["user", "agent", "model", "import", "tool", "web"]
Trust: TypeAlias = Literal[1, 2, 3, "never"]


class GateSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What recall may put before a message: at most so many texts, and so many tokens of all of it.

    `trust` says over the gate's own table from which level on what somebody said waits for a person to look
    at it: 1 a hint of an attack, 2 likely one, 3 several signs at once; "never": nothing of theirs comes in.
    """

    most: int = 12
    tokens: int = 2_000
    trust: dict[Origin, Trust] = {}


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Durations are seconds, sizes bytes, budgets tokens.

    `store`, `sync` and `blob_threshold`, which are the log's, `live_sessions`, `live_bytes`, `background` and
    `recall` are read from `stratalog.toml` alone.
    `lock_deadline` is how long a turn may hold its session; `idle_ttl` how long an unused session stays in
    memory, where at most `live_sessions` are, with `live_bytes` of their logs: less than what is used at the
    same time, and each turn reads its log anew. `restart_window` is how long a restart of a busy session may
    be confirmed; `title_length` in characters as a person counts them; `context_budget` what `context()` fits
    when not told otherwise.

    `system` is what the system says to the model before every conversation; `models` are shell patterns of
    models that a user's request to a service may name for one turn, besides the agent's own.

    `model` is `provider:name`, `base_url` and `api_key_env` where it is and which variable holds its key;
    `sends_reasoning` that its server wants what it thought back; `reach` how far what it is sent goes, where
    that is not as `base_url` looks ("": as it looks): said too near, words leave that must not;
    `windows` is said over the table of models' windows; `max_output` bounds one reply, `silence` is how long
    a model may say nothing, `model_calls` how often it is called in one turn. `working_memory_limit` bounds
    what an agent keeps in its dictionary. `evaluation_tenants` are shell patterns of tenants whose records no
    caller in production may use; they are read from `stratalog.toml` alone.
    """

    store: Literal["jsonl", "sqlite"] = "jsonl"
    sync: Literal["always", "turn", "interval", "never"] = "always"
    blob_threshold: int = 65_536
    lock_deadline: float = 120.0
    idle_ttl: float = 3600.0
    live_sessions: int = 1_000
    live_bytes: int = 32_000_000
    restart_window: float = 30.0
    title_length: int = 40
    context_budget: int = 8_000
    system: str = ""
    model: str = ""
    models: tuple[str, ...] = ()
    base_url: str = ""
    api_key_env: str = ""
    sends_reasoning: bool = False
    reach: Literal["", "machine", "premises", "world"] = ""
    windows: dict[str, int | dict[str, int]] = {}
    max_output: int = 4_096
    silence: float = 120.0
    model_calls: int = 50
    working_memory_limit: int = 16_384
    evaluation_tenants: tuple[str, ...] = ("eval-*",)
    budget: BudgetSettings = BudgetSettings()
    compaction: CompactionSettings = CompactionSettings()
    idle: IdleSettings = IdleSettings()
    continuing: ContinueSettings = ContinueSettings()
    memory: MemorySettings = MemorySettings()
    background: BackgroundSettings = BackgroundSettings()
    recall: RecallSettings = RecallSettings()
    gate: GateSettings = GateSettings()


_TRIGGERS = {"default": 0.8, "fixed-80k": 1.0}
_TARGET = 0.3
_LONGEST_PREFIX = 1_000
_FIGURES = ("window", "input", "output")
_Table: TypeAlias = dict[str, Any]


def load_settings(data: Path) -> Settings:
    """The settings of a data directory; the defaults when it has none. Raises `InvalidConfig`."""
    return _checked(_table(data / FILE), data / FILE)


def agent_settings(base: Settings, agent_dir: Path) -> Settings:
    """`base` with what the agent's own file says. Raises `InvalidConfig`."""
    path = agent_dir / AGENT_FILE
    own = _table(path)
    for name in _FOR_ALL:
        if name in own:
            raise InvalidConfig(
                f"`{name}` cannot be set for one agent", path=str(path), hint=f"set it in {FILE}"
            )
    if "base_url" in own:  # another server, of which what was said of the first is not true
        own.setdefault("reach", "")
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
    if settings.reach and not settings.base_url:
        return "`reach` is said of the server at `base_url`, which is not set"
    finding = settings.recall
    kind, _, name = finding.embedder.partition(":")
    if finding.embedder not in ("", "local") and (kind, bool(name.strip())) != ("openai", True):
        return f'`recall.embedder` is "", "local" or "openai:MODEL", and not {finding.embedder!a}'
    if finding.reach and not finding.base_url:
        return "`recall.reach` is said of the server at `recall.base_url`, which is not set"
    prefixes = (finding.query_prefix, finding.passage_prefix)
    if any(prefixes) and kind != "openai":
        return "`recall.query_prefix` and `recall.passage_prefix` are for an embedder `openai:MODEL` alone"
    if max(map(len, prefixes)) > _LONGEST_PREFIX:
        return f"`recall.query_prefix` and `recall.passage_prefix` have at most {_LONGEST_PREFIX} characters"
    own = settings.compaction
    trigger = own.trigger if own.trigger is not None else _TRIGGERS[own.preset]
    target = own.target if own.target is not None else _TARGET
    if not target < trigger <= 1:
        figures = f"{target:g} and {trigger:g}"
        parts = "`compaction.target` must be less than `compaction.trigger`, and both parts of 1"
        return f"{parts}; they are {figures}"
    if settings.background.most_removed > 1:
        return "`background.most_removed` must be a part of 1"
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
