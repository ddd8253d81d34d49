"""Calls of the engine for frameworks that are asynchronous, whichever front their user has opened."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeAlias, TypeVar

from stratalog.engine.aio import AsyncStratalog
from stratalog.engine.core import Stratalog

R = TypeVar("R")
Memory: TypeAlias = Stratalog | AsyncStratalog


def engine_of(memory: Memory) -> Stratalog:
    """The engine under either front."""
    return memory.sync if isinstance(memory, AsyncStratalog) else memory


async def finished(memory: Memory, call: Callable[[], R]) -> R:
    """What the call comes to, in a thread. Who is cancelled meanwhile waits for it all the same, and is
    cancelled then: so it is known that what was to be written is written."""
    run = memory.run(call) if isinstance(memory, AsyncStratalog) else asyncio.to_thread(call)
    task = asyncio.ensure_future(run)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError as error:
            cancelled = cancelled or error
    if cancelled is not None:
        task.exception()
        raise cancelled
    return task.result()
