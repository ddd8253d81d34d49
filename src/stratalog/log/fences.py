"""The rules on fences, for every store: where they start, and that a write names the latest or none."""

from __future__ import annotations

import os
import time

from stratalog.errors import StaleFence
from stratalog.keys import SessionKey


def first_fence() -> int:
    """The fence that a new log starts from: by its time and by chance unlike those of a deleted log of the
    same key, and below 2**53, so that every reader of JSON gets it right."""
    # The system's chance, not the `random` module's, which a program may seed the same again and again.
    return (int(time.time()) << 20) | (int.from_bytes(os.urandom(3), "big") >> 5)


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
