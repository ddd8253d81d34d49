"""Settings: `stratalog.toml` in the data directory, and `agent.toml` beside an agent's sessions over it.

Both are flat TOML with the fields of `Settings`; what is not said keeps its default. A field that does not
exist is an error that names the file, so that a slip of the pen is not silently without effect.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, Literal

import msgspec

from stratalog.errors import InvalidConfig

FILE = "stratalog.toml"
AGENT_FILE = "agent.toml"
_HINT = "docs/configuration.md lists every setting"


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Durations are seconds, sizes bytes, budgets tokens.

    `store`, `sync` and `blob_threshold` are the log's and are read from `stratalog.toml` alone.
    `lock_deadline` is how long a turn may hold its session; `idle_ttl` how long an unused session stays in
    memory; `restart_window` how long a restart of a busy session may be confirmed; `title_length` in
    characters as a person counts them; `context_budget` what `context()` fits when not told otherwise.
    """

    store: Literal["jsonl", "sqlite"] = "jsonl"
    sync: Literal["always", "turn", "interval", "never"] = "always"
    blob_threshold: int = 65_536
    lock_deadline: float = 120.0
    idle_ttl: float = 3600.0
    restart_window: float = 30.0
    title_length: int = 40
    context_budget: int = 8_000


def load_settings(data: Path) -> Settings:
    """The settings of a data directory; the defaults when it has none. Raises `InvalidConfig`."""
    return _checked(_table(data / FILE), data / FILE)


def agent_settings(base: Settings, agent_dir: Path) -> Settings:
    """`base` with what the agent's own file says. Raises `InvalidConfig`."""
    path = agent_dir / AGENT_FILE
    own = _table(path)
    for name in ("store", "sync", "blob_threshold"):
        if name in own:
            raise InvalidConfig(
                f"`{name}` cannot be set for one agent", path=str(path), hint=f"set it in {FILE}"
            )
    return _checked({**msgspec.structs.asdict(base), **own}, path)


def _table(path: Path) -> dict[str, Any]:
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


def _checked(table: dict[str, Any], path: Path) -> Settings:
    try:
        settings = msgspec.convert(table, Settings)
    except msgspec.ValidationError as error:
        raise InvalidConfig(f"a setting is wrong: {error}", path=str(path), hint=_HINT) from error
    for name, value in msgspec.structs.asdict(settings).items():
        if isinstance(value, int | float) and not 0 < value < math.inf:
            raise InvalidConfig(f"`{name}` must be a number above 0", path=str(path), hint=_HINT)
    return settings
