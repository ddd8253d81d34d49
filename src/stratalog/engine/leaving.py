"""Whether a model may be sent words of a session: by the residency of the one and the reach of the other.

Every path that asks a model for a session asks here first, each time, so that a residency that is set
meanwhile counts from the next request on. Each answer is one line of JSON on the logger
`stratalog.engine.leaving`, a warning where it is no.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

import msgspec

from stratalog.engine.session import Session
from stratalog.errors import LaneDenied
from stratalog.memory.residency import RESIDENCY, permits
from stratalog.models.contract import Reach

if TYPE_CHECKING:
    from stratalog.models.configured import Configured  # what it brings is loaded by who runs a model

REASON: Final = "the session's residency forbids a model that reaches so far"
_HINT: Final = (
    "name a model on this machine or, for on_prem, on the premises; if it is there, say so with the setting "
    "`reach`, or with Configured(model, name, reach=...)"
)

_log = logging.getLogger("stratalog.engine.leaving")


def refusal(session: Session, name: str, reach: Reach) -> LaneDenied | None:
    """Why a model of this name and reach may not be sent words of the session; None where it may."""
    metadata = session.meta.metadata
    residency = metadata.get(RESIDENCY)
    allowed = permits(metadata, reach)
    line = {
        "event": "model.lane",
        "tenant": session.key.tenant,
        "session": str(session.key),
        "model": name,
        "reach": reach,
        "residency": "" if residency is None else str(residency),
        "outcome": "allowed" if allowed else "denied",
        "reason": "the session's residency allows it" if allowed else REASON,
    }
    _log.log(logging.INFO if allowed else logging.WARNING, "%s", msgspec.json.encode(line).decode())
    if allowed:
        return None
    return LaneDenied(
        REASON,
        hint=f"{_HINT}; nothing was sent",
        key=str(session.key),
        model=name,
        reach=reach,
        residency=ascii(residency),
    )


def reason(session: Session, who: Configured) -> str:
    """Why this model may not be sent words of the session; "" where it may."""
    denied = refusal(session, who.name, who.reach)
    return "" if denied is None else str(denied)


def check(session: Session, who: Configured) -> None:
    """Raises `LaneDenied` where this model may not be sent words of the session."""
    denied = refusal(session, who.name, who.reach)
    if denied is not None:
        raise denied
