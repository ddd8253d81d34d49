"""How far what a session has may go, by its metadata: `residency`. What cannot be read forbids the most."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from stratalog.models.contract import Reach

RESIDENCY: Final = "residency"
_FREE: Final = (None, "", "any", "cloud")
_ON_PREMISES: Final = ("on_prem", "on-prem")
_WITHIN: Final[dict[Reach, tuple[Reach, ...]]] = {
    "machine": ("machine",),
    "premises": ("machine", "premises"),
    "world": ("machine", "premises", "world"),
}


def forbids_remote(metadata: Mapping[str, Any]) -> bool:
    """Whether there is anywhere that nothing of the session may go: then no external lane is taken.

    A residency that is not known forbids; only none, "any" and "cloud" allow.
    """
    residency = _residency(metadata)
    return not any(residency is free or residency == free for free in _FREE)


def allowed_reach(metadata: Mapping[str, Any]) -> Reach:
    """How far a model may reach that is sent anything of the session: anywhere without a residency, not
    beyond the premises with `on_prem`, not beyond the machine with `local_only` and with all that is not
    known."""
    if not forbids_remote(metadata):
        return "world"
    return "premises" if _residency(metadata) in _ON_PREMISES else "machine"


def permits(metadata: Mapping[str, Any], reach: Reach) -> bool:
    """Whether what reaches so far may be sent anything of the session."""
    return reach in _WITHIN[allowed_reach(metadata)]


def _residency(metadata: Mapping[str, Any]) -> object:
    residency = metadata.get(RESIDENCY)
    return residency.strip().lower() if isinstance(residency, str) else residency
