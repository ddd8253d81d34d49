"""How often one may ask: a bucket of tokens for each who asks, refilled as time goes by."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

_MOST: Final = 10_000  # who is remembered; the one longest quiet is forgotten, and has a full bucket anyway


class Buckets:
    """`burst` requests at once, and `rate` in a minute. For one event loop. `clock` gives seconds."""

    def __init__(self, rate: float, burst: int, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._each = rate / 60
        self._burst = float(burst)
        self._clock = clock
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, who: str) -> float:
        """0 when `who` may ask now, which is counted; else the seconds until it may."""
        now = self._clock()
        left, since = self._left.pop(who, (self._burst, now))
        left = min(self._burst, left + (now - since) * self._each)
        wait = 0.0 if left >= 1 else (1 - left) / self._each
        self._left[who] = (left if wait else left - 1, now)
        if len(self._left) > _MOST:
            self._left.popitem(last=False)
        return wait
