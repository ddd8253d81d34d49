"""A reply that is under way, between the turn that makes it and the request that waits for it."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable
from contextlib import suppress

from stratalog.engine.completing import Answer
from stratalog.errors import StratalogError
from stratalog.models.contract import Retrying, TextDelta


class Run:
    """The reply that is under way, for one reader; `read` says whether it is there. `warnings` are what was
    not as it was asked for. `over` is called once it has ended."""

    def __init__(self, over: Callable[[], None]) -> None:
        self.warnings: list[str] = []
        self.read = False
        self._events: deque[TextDelta | Retrying | None] = deque()
        self._answer: Answer | None = None
        self._error: StratalogError | None = None
        self._ended = False
        self._over = over
        self._changed = asyncio.Event()
        self._begun = asyncio.Event()

    def tell(self, event: TextDelta | Retrying | None) -> None:
        """None is the end of a round: what comes after are the words of another."""
        self._events.append(event)
        self._changed.set()
        if isinstance(event, TextDelta):
            self._begun.set()

    def end(self, answer: Answer | None, error: StratalogError | None = None) -> None:
        """The first time counts. Without either nothing may be told of it."""
        if not self._ended:
            self._ended, self._answer, self._error = True, answer, error
            self._changed.set()
            self._begun.set()
            self._over()

    @property
    def failed(self) -> bool:
        """Whether it has ended without a reply."""
        return self._ended and self._answer is None

    async def begun(self, seconds: float) -> None:
        """Waits for the first words or the end, at most so long."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._begun.wait()

    async def follow(self, beat: float) -> AsyncGenerator[TextDelta | Retrying | str | None, None]:
        """The words as they come, None between two rounds, "" whenever nothing came for `beat` seconds."""
        self.read = True
        try:
            while True:
                while self._events:
                    yield self._events.popleft()
                if self._ended:
                    return
                self._changed.clear()
                try:
                    async with asyncio.timeout(beat):
                        await self._changed.wait()
                except TimeoutError:
                    yield ""
        finally:
            self.read = False

    async def ended(self) -> Answer | None:
        """The reply; None where there is none, and nothing to be told. Raises what the turn raised."""
        while not self._ended:
            self._changed.clear()
            await self._changed.wait()
        if self._error is not None:
            raise self._error
        return self._answer
