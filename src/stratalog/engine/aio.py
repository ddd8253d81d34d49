"""The same engine for asyncio: each call runs in a thread of this front's own pool; no code is written twice.

A write that began is finished even when the task that awaits it is cancelled. Waiting for a busy session
holds no thread: tasks of one loop queue on an asyncio lock, and the first asks again from time to time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, ParamSpec, Self, TypeVar
from weakref import WeakValueDictionary

from stratalog.config import Settings
from stratalog.context.budget import Context
from stratalog.engine.core import Found, Stratalog
from stratalog.engine.session import Arrival, Restart, Session
from stratalog.engine.turn import Status, Turn
from stratalog.errors import SessionBusy
from stratalog.keys import SessionKey
from stratalog.sessions.catalog import Page
from stratalog.sessions.meta import SessionMeta
from stratalog.sessions.turns import OpenTurn
from stratalog.types import AnyEntry, Assistant, Content, ToolCall, ToolResult, Usage

P = ParamSpec("P")
R = TypeVar("R")
_THREADS = 16
_FIRST_PAUSE, _LONGEST_PAUSE = 0.005, 0.1


class AsyncStratalog:
    """`Stratalog` for asyncio; see there. Closing it waits for what is being written."""

    def __init__(
        self, data: Path | str | None = None, *, tenant: str = "local", settings: Settings | None = None
    ) -> None:
        self.sync = Stratalog(data, tenant=tenant, settings=settings)
        self._pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="stratalog")
        self._locks: WeakValueDictionary[SessionKey, asyncio.Lock] = WeakValueDictionary()

    @classmethod
    def open(cls, data: Path | str | None = None, *, tenant: str = "local") -> Self:
        """The same as calling the class."""
        return cls(data, tenant=tenant)

    async def run(self, call: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Runs any call of the engine in a thread, and to its end even if the awaiting task is cancelled."""
        loop = asyncio.get_running_loop()
        return await asyncio.shield(loop.run_in_executor(self._pool, partial(call, *args, **kwargs)))

    def session(self, key: str | SessionKey) -> AsyncSession:
        found = self.sync.session(key)
        lock = self._locks.get(found.key)
        if lock is None:
            lock = self._locks[found.key] = asyncio.Lock()
        return AsyncSession(self, found, lock)

    async def sessions(self, **how: Any) -> Page:
        return await self.run(self.sync.sessions, **how)

    async def search(self, query: str, **how: Any) -> list[Found]:
        return await self.run(self.sync.search, query, **how)

    async def close(self) -> None:
        await self.run(self.sync.close)
        self._pool.shutdown()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


class AsyncSession:
    """`Session` for asyncio. What is not here is at `.sync`, to be called by `AsyncStratalog.run`."""

    def __init__(self, front: AsyncStratalog, session: Session, lock: asyncio.Lock) -> None:
        self.sync = session
        self.key = session.key
        self._run = front.run
        self._lock = lock

    def turn(self, content: Content, *, meta: dict[str, Any] | None = None, **how: Any) -> AsyncTurn:
        """A turn to be entered by `async with`; `wait` and `deadline` as in `Session.turn`."""
        return AsyncTurn(self, content, meta, how)

    async def append(self, *entries: AnyEntry) -> list[AnyEntry]:
        return await self._run(self.sync.append, *entries)

    async def submit(self, content: Content, *, meta: dict[str, Any] | None = None) -> Arrival:
        return await self._run(self.sync.submit, content, meta=meta)

    async def entries(self, **how: Any) -> list[AnyEntry]:
        return await self._run(lambda: list(self.sync.entries(**how)))

    async def context(self, budget: int | None = None, *, system: str | None = None) -> Context:
        return await self._run(self.sync.context, budget, system=system)

    async def meta(self) -> SessionMeta:
        return await self._run(lambda: self.sync.meta)

    async def unfinished(self) -> list[OpenTurn]:
        return await self._run(self.sync.unfinished)

    async def abort(self) -> bool:
        return await self._run(self.sync.abort)

    async def restart(self, *, force: bool = False) -> Restart:
        return await self._run(self.sync.restart, force=force)

    async def set_title(
        self, title: str, *, by: Literal["user", "auto", "model", "import"] = "user"
    ) -> SessionMeta:
        return await self._run(self.sync.set_title, title, by=by)

    async def pin(self, pinned: bool = True) -> SessionMeta:
        return await self._run(self.sync.pin, pinned)

    async def delete(self) -> bool:
        return await self._run(self.sync.delete)

    async def _begin(
        self, content: Content, meta: dict[str, Any] | None, wait: float | None, deadline: float | None
    ) -> Turn:
        """Begins the turn at once when that can be; else the message is logged and its turn waited for."""
        loop = asyncio.get_running_loop()
        give_up = None if wait is None else loop.time() + wait
        if self._lock.locked():
            arrival = await self.submit(content, meta=meta)
        else:
            try:
                return await self._run(self.sync.turn_now, content, meta=meta, deadline=deadline)
            except SessionBusy:
                arrival = await self.submit(content, meta=meta)
        pause = _FIRST_PAUSE
        async with self._lock:
            while True:
                try:
                    return await self._run(self.sync.start, arrival.turn, wait=0, deadline=deadline)
                except SessionBusy:
                    if give_up is not None and loop.time() + pause > give_up:
                        raise
                await asyncio.sleep(pause)
                pause = min(pause * 1.5, _LONGEST_PAUSE)


class AsyncTurn:
    """`Turn` for asyncio, begun when its block is entered and ended when it is left."""

    def __init__(
        self, session: AsyncSession, content: Content, meta: dict[str, Any] | None, how: dict[str, Any]
    ) -> None:
        self._session = session
        self._run = session._run
        self._content = content
        self._meta = meta
        self._how = how
        self.sync: Turn

    async def reply(
        self, content: Content, *, model: str = "", usage: Usage | None = None, response: str = ""
    ) -> Assistant:
        return await self._run(self.sync.reply, content, model=model, usage=usage, response=response)

    async def call(self, name: str, args: Any = None, *, call_id: str = "", response: str = "") -> ToolCall:
        return await self._run(self.sync.call, name, args, call_id=call_id, response=response)

    async def result(self, call: ToolCall | str, content: Content, *, error: bool = False) -> ToolResult:
        return await self._run(self.sync.result, call, content, error=error)

    async def append(self, *entries: AnyEntry) -> list[AnyEntry]:
        return await self._run(self.sync.append, *entries)

    async def context(self, budget: int | None = None, *, system: str | None = None) -> Context:
        return await self._run(self.sync.context, budget, system=system)

    async def end(self, status: Status = "answered", detail: str = "") -> None:
        await self._run(self.sync.end, status, detail)

    async def __aenter__(self) -> Self:
        wait, deadline = self._how.pop("wait", None), self._how.pop("deadline", None)
        if self._how:
            raise TypeError(f"a turn takes no {', '.join(self._how)}")
        self.sync = await self._session._begin(self._content, self._meta, wait, deadline)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._run(self.sync.__exit__, kind, error, trace)
