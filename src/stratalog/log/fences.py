"""The rules on fences, for every store: where they start, and that a write that names one names the latest."""

from __future__ import annotations

import random
import time

from stratalog.errors import StaleFence
from stratalog.keys import SessionKey


def first_fence() -> int:
    """The fence that a new log starts from: by its time and by chance unlike those of a deleted log of the
    same key, and below 2**53, so that every reader of JSON gets it right."""
    return (int(time.time()) << 20) | random.getrandbits(19)


def refuse_stale(key: SessionKey, fence: int, latest: int) -> None:
    """Raises `StaleFence` unless `fence` is the latest."""
    if fence != latest:
        raise StaleFence(
            "the session was taken over; this holder may not write any more",
            key=str(key),
            fence=fence,
            latest=latest,
            hint="begin a new turn; what was written before is kept",
        )


def gone(key: SessionKey, fence: int) -> StaleFence:
    """The error for a holder whose session was deleted."""
    return StaleFence(
        "the session was deleted; this holder may not write any more",
        key=str(key),
        fence=fence,
        hint="begin a new turn to start the session anew",
    )
