"""A model that asks before each call whether the tenant's budget for the day allows it.

A call is written down before it is made, at what its body comes to, and put right when its cost is known: so
one that is cancelled, fails or dies with its process has been counted, and calls that several processes make
at once are not more than the budget allows.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Any

from stratalog.errors import SpendLimit
from stratalog.ids import now_ms
from stratalog.memory.governor import Limits, day_of
from stratalog.memory.jobs import Jobs
from stratalog.models.configured import Configured
from stratalog.models.contract import (
    Completed,
    Event,
    Model,
    ReasoningDelta,
    Request,
    Retrying,
    Shape,
    TextDelta,
)
from stratalog.models.endpoint import encoded
from stratalog.models.extractive import NAME as EXTRACTIVE
from stratalog.tokens.rough import count_text


class Governed:
    """The model `under`, within the limits of the tenant whose jobs these are. `clock` gives milliseconds
    UTC. It may be used from several event loops; what it writes, it writes in a thread."""

    def __init__(
        self, under: Model, jobs: Jobs, limits: Limits, *, tenant: str, clock: Callable[[], int] = now_ms
    ) -> None:
        self._under = under
        self._jobs = jobs
        self._limits = limits
        self._tenant = tenant
        self._clock = clock

    @property
    def shape(self) -> Shape:
        return self._under.shape

    @property
    def sends_reasoning(self) -> bool:
        """Whether what the model thought is sent back, as of the model under it."""
        return bool(getattr(self._under, "sends_reasoning", False))

    async def stream(self, request: Request) -> AsyncGenerator[Event, None]:
        """See `models.contract.Model`. Raises `SpendLimit` when the budget does not allow the call, or one
        that is made again after a fault, and what a store raises that cannot be written."""
        asked = count_text(encoded(request.body).decode())
        day = await self._charge(asked)
        said = lost = 0
        cost: int | None = None
        try:
            async with aclosing(self._under.stream(request)) as events:
                async for event in events:
                    match event:
                        case TextDelta() | ReasoningDelta():
                            said += count_text(event.text)
                        case Retrying():
                            # No usage is told for a reply that was cut, and yet it is paid for.
                            lost, said = lost + (asked + said if said else 0), 0
                            await self._charge(0)
                        case Completed():
                            cost = cost_of(event)
                    yield event
        finally:
            more = lost + (asked + said if cost is None else cost) - asked
            if more:
                await asyncio.to_thread(self._jobs.spend, day, 0, more)

    async def close(self) -> None:
        """Ends the connections of the model under it in the running event loop, if it has any."""
        close: Any = getattr(self._under, "close", None)
        if close is not None:
            await close()

    async def _charge(self, tokens: int) -> str:
        """Writes one call of so many tokens down; the day on which it was."""
        day = day_of(self._clock())
        reason = await asyncio.to_thread(self._jobs.charge, day, self._limits, tokens=tokens)
        if reason:
            raise SpendLimit(
                f"the tenant's budget for the day is spent: {reason}",
                tenant=self._tenant,
                day=day,
                hint="it goes on the next day (UTC); a larger budget is set in stratalog.toml",
            )
        return day


def cost_of(completed: Completed) -> int | None:
    """The tokens of a call as the provider reports them; None when it does not."""
    usage = completed.usage
    return usage.input + usage.output if usage is not None and usage.input + usage.output > 0 else None


def governed(
    configured: Configured, jobs: Jobs, limits: Limits, clock: Callable[[], int] = now_ms, *, tenant: str
) -> Configured:
    """The same model within the tenant's limits. `extractive`, which costs nothing, stays as it is, and so
    does one that is governed already."""
    if configured.name == EXTRACTIVE or isinstance(configured.model, Governed):
        return configured
    return configured._replace(model=Governed(configured.model, jobs, limits, tenant=tenant, clock=clock))
