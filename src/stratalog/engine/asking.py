"""The times that a question speaks of. Apart from `core`, which loads nothing of what memory is."""

from __future__ import annotations

import time

from stratalog.errors import InvalidInput
from stratalog.memory.times import spans


def times_in(query: str, zone: str, now_ms: int | None = None) -> list[tuple[int, int]]:
    """The spans [start, stop) that `query` names (`last May`, 上周), in milliseconds UTC; what is relative
    counts from `now_ms`, None for the clock, in the zone (IANA name). None where there is no such zone: a
    search needs none, and what remembers dates tells of it."""
    now = time.time_ns() // 1_000_000 if now_ms is None else now_ms
    try:
        return spans(query, now, zone)
    except InvalidInput:
        return []
