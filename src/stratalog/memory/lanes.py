"""Where a session's records live: `native`, or an external memory that its metadata asks for.

`memory_plugin` names the lane, `residency` says whether anything may leave. Where it may not, an external
lane is never taken: not when it was asked for, and not because native is missing. What cannot be read as a
known residency counts as one that forbids. Privacy comes first, then what was asked for; a lane is never
replaced by another that leaves the machine.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from stratalog.errors import LaneDenied
from stratalog.memory.caller import Caller
from stratalog.memory.contract import Capabilities
from stratalog.memory.residency import RESIDENCY, allowed_reach, forbids_remote, permits

__all__ = [
    "NATIVE",
    "PLUGIN",
    "RESIDENCY",
    "Lane",
    "Lanes",
    "allowed_reach",
    "forbids_remote",
    "lane_for",
    "log_line",
    "permits",
]

NATIVE: Final = "native"
PLUGIN: Final = "memory_plugin"

_log = logging.getLogger("stratalog.memory.lanes")


class Lane(msgspec.Struct, frozen=True):
    """The lane that was chosen, what was asked for, and why it is this one. `forced`: privacy decided."""

    name: str
    asked: str
    reason: str
    forced: bool = False


def lane_for(metadata: Mapping[str, Any], available: Mapping[str, Capabilities]) -> Lane:
    """The lane of a session with this metadata, of those that are configured.

    Raises `LaneDenied` when the one that it must have is not among them. Nothing else is taken in its place.
    """
    asked = metadata.get(PLUGIN) or NATIVE
    if not isinstance(asked, str):
        raise LaneDenied(f"{PLUGIN} is not a name", hint=f"name one of: {_names(available)}")
    if forbids_remote(metadata):
        return _at_home(asked, metadata, available)
    if asked not in available:
        raise LaneDenied(
            "the lane that was asked for is not configured",
            lane=ascii(asked),
            hint=f"configure it, or name one of: {_names(available)}",
        )
    return Lane(asked, asked, "asked for" if metadata.get(PLUGIN) else "default")


def _at_home(asked: str, metadata: Mapping[str, Any], available: Mapping[str, Capabilities]) -> Lane:
    if asked in available and not available[asked].external:
        return Lane(asked, asked, "stays on the machine" if metadata.get(PLUGIN) else "default")
    if NATIVE in available and not available[NATIVE].external:
        return Lane(NATIVE, asked, "residency forbids an external lane", forced=True)
    raise LaneDenied(
        "residency forbids an external lane, and native is not configured",
        lane=ascii(asked),
        hint="configure the native lane; nothing was sent anywhere",
    )


def _names(available: Mapping[str, Capabilities]) -> str:
    return ", ".join(sorted(available)) or "none is configured"


Emit = Callable[[Mapping[str, Any]], None]


def log_line(line: Mapping[str, Any]) -> None:
    """One JSON object as a line of the logger `stratalog.memory.lanes`: a warning when privacy decided."""
    level = logging.INFO if line["outcome"] == "chosen" and not line["forced"] else logging.WARNING
    if _log.isEnabledFor(level):
        _log.log(level, "%s", msgspec.json.encode(line).decode())


class Lanes:
    """Chooses for callers, and tells each choice in one structured line: who, what was asked for, what was
    chosen and why.

    `available` are the configured lanes; `metadata_of` gives the metadata of the caller's session, empty
    where it has none.
    """

    def __init__(
        self,
        available: Mapping[str, Capabilities],
        metadata_of: Callable[[Caller], Mapping[str, Any]] = lambda caller: {},
        emit: Emit = log_line,
    ) -> None:
        self.available = dict(available)
        self._metadata_of = metadata_of
        self._emit = emit

    def choose(self, caller: Caller) -> Lane:
        """The caller's lane. Raises `LaneDenied`."""
        metadata = self._metadata_of(caller)
        line: dict[str, Any] = {
            "event": "memory.lane",
            "tenant": caller.tenant,
            "session": caller.session,
            "asked": str(metadata.get(PLUGIN) or NATIVE),
            "residency": str(metadata.get(RESIDENCY) or ""),
        }
        try:
            lane = lane_for(metadata, self.available)
        except LaneDenied as error:
            self._emit({**line, "outcome": "denied", "lane": "", "forced": False, "reason": error.what})
            raise
        self._emit(
            {**line, "outcome": "chosen", "lane": lane.name, "forced": lane.forced, "reason": lane.reason}
        )
        return lane
