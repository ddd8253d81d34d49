"""Asking again: one policy for every provider, pure, and the loop that carries it out.

`Policy.pause` decides from values alone: what the fault is, how many attempts were made, how long it all
took so far, and a number drawn by chance. It honours what the provider asks (Retry-After), never pauses for
less, and gives up at once when that is longer than what is left. Both bounds hold: no more than `attempts`,
and no attempt begins later than `total` seconds after the first.

What was streamed before a fault is not taken back and not continued: a cut reply is asked for anew, whole,
after a `Retrying` event, which makes all earlier deltas void. Whoever shows deltas clears them then.
Nothing is asked again after `Completed`.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import aclosing
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from math import inf, isfinite

import msgspec

from stratalog.models.contract import Event, Retrying
from stratalog.models.endpoint import Endpoint
from stratalog.models.faults import Fault, Faulted, error_of


class Policy(msgspec.Struct, frozen=True, kw_only=True):
    """`first` and `longest` bound the pause that doubles, in seconds; `empties` the attempts at a reply that
    comes back empty. The numbers may be 0: then nothing is asked twice."""

    attempts: int = 4
    empties: int = 2
    first: float = 0.5
    longest: float = 30.0
    total: float = 240.0

    def pause(self, fault: Fault, attempt: int, elapsed: float, chance: float) -> float | None:
        """Seconds to wait after the `attempt`-th attempt failed so, `elapsed` after the first began; None
        to give up. `chance` is drawn from [0, 1): the pause lies between half of the doubled one and all of
        it."""
        most = {"passing": self.attempts, "empty": min(self.attempts, self.empties)}.get(fault.kind, 1)
        if attempt >= most:
            return None
        doubled = min(self.longest, self.first * 2.0 ** min(attempt - 1, 60))
        asked = fault.wait if fault.wait is not None and isfinite(fault.wait) else 0.0
        pause = max(doubled * (0.5 + chance / 2), asked)
        return pause if elapsed + pause <= self.total else None


class Retry(msgspec.Struct, frozen=True, kw_only=True):
    """A policy and what it needs of the world; tests give their own clock, sleep and chance."""

    policy: Policy = Policy()
    sleep: Callable[[float], Awaitable[object]] = asyncio.sleep
    clock: Callable[[], float] = time.monotonic
    chance: Callable[[], float] = random.random

    async def run(
        self, once: Callable[[], AsyncGenerator[Event, None]], *, model: str, endpoint: Endpoint
    ) -> AsyncGenerator[Event, None]:
        """The events of `once`, made again after each passing fault. Raises a `ModelError` for the last
        fault. Closing this closes the attempt under way."""
        began = self.clock()
        attempt = 0
        while True:
            attempt += 1
            fault = None
            try:
                async with aclosing(once()) as events:
                    async for event in events:
                        yield event
            except Faulted as faulted:
                fault = faulted.fault.hidden(endpoint.hide)
            if fault is None:
                return
            pause = self.policy.pause(fault, attempt, self.clock() - began, self.chance())
            if pause is None:
                raise error_of(fault, model=model, endpoint=endpoint.place, attempts=attempt)
            yield Retrying(attempt=attempt, pause=pause, reason=fault.reason)
            await self.sleep(pause)


def asked_pause(headers: Mapping[str, str]) -> float | None:
    """The seconds that a response's headers ask to wait, or None. A date counts from the response's own."""
    for name, unit in (("retry-after-ms", 1000.0), ("retry-after", 1.0)):
        seconds = _number(headers.get(name, "")) / unit
        if isfinite(seconds):
            return max(0.0, seconds)
    until = _date(headers.get("retry-after", ""))
    if until is None:
        return None
    return max(0.0, (until - (_date(headers.get("date", "")) or datetime.now(UTC))).total_seconds())


def asked_again(headers: Mapping[str, str]) -> bool | None:
    """What `x-should-retry` says, or None."""
    return {"true": True, "false": False}.get(headers.get("x-should-retry", "").lower())


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return inf


def _date(text: str) -> datetime | None:
    try:
        found = parsedate_to_datetime(text)
    except ValueError:
        return None
    return found if found.tzinfo else found.replace(tzinfo=UTC)
