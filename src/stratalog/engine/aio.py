"""The same engine for asyncio: each call runs in a thread of this front's own pool; no code is written twice.

A write that began is finished even when the task that awaits it is cancelled; a turn that began for a task
that is no more is ended as aborted. Waiting for a busy session holds no thread: the tasks of one loop stand
in line, in the order in which they came, and the first asks again from time to time.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import wait as done_with
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, ParamSpec, Self, TypeVar, Unpack
from weakref import WeakValueDictionary

from stratalog.config import Settings
from stratalog.context.budget import Context
from stratalog.engine.core import Found, Stratalog
from stratalog.engine.seeing import ContextOptions
from stratalog.engine.session import Arrival, Restart, Session
from stratalog.engine.turn import Status, Turn
from stratalog.errors import Conflict, SessionBusy
from stratalog.keys import SessionKey
from stratalog.log.contract import Problem
from stratalog.sessions.catalog import Page
from stratalog.sessions.meta import SessionMeta
from stratalog.sessions.turns import OpenTurn
from stratalog.types import AnyEntry, Assistant, Content, ToolCall, ToolResult, Usage

P = ParamSpec("P")
R = TypeVar("R")
_FIRST_PAUSE, _LONGEST_PAUSE = 0.005, 0.1


class _Line:
    """The tasks that want one session: they arrive one by one, and go in that order."""

    def __init__(self) -> None:
        self.arriving = asyncio.Lock()
        self.waiting: deque[asyncio.Event] = deque()

    def join(self) -> asyncio.Event:
        """A place at the end, which is told when it is the first."""
        place = asyncio.Event()
        self.waiting.append(place)
        self.waiting[0].set()
        return place

    def leave(self, place: asyncio.Event) -> None:
        self.waiting.remove(place)
        if self.waiting:
            self.waiting[0].set()


class AsyncStratalog:
    """`Stratalog` for asyncio; see there. Closing it waits for what is being written. For one event loop.
    `threads` is how many calls run at the same time."""

    def __init__(
        self,
        data: Path | str | None = None,
        *,
        tenant: str = "local",
        settings: Settings | None = None,
        threads: int = 16,
    ) -> None:
        self.sync = Stratalog(data, tenant=tenant, settings=settings)
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="stratalog")
        self._lines: WeakValueDictionary[SessionKey, _Line] = WeakValueDictionary()

    @classmethod
    def open(
        cls, data: Path | str | None = None, *, tenant: str = "local", settings: Settings | None = None
    ) -> Self:
        """The same as calling the class."""
        return cls(data, tenant=tenant, settings=settings)

    def as_tenant(self, tenant: str) -> Self:
        """The same for another tenant, as `Stratalog.as_tenant`, with the same threads."""
        other = object.__new__(type(self))
        other.sync = self.sync.as_tenant(tenant)
        other._pool, other._lines = self._pool, self._lines
        return other

    async def run(self, call: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Runs any call of the engine in a thread, and to its end even if the awaiting task is cancelled."""
        return await _awaited(self.started(call, *args, **kwargs))

    def started(self, call: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> Future[R]:
        """The call, begun in a thread. Calls begin in the order in which they are given here."""
        return self._pool.submit(call, *args, **kwargs)

    async def begin(self, call: Callable[P, Turn], *args: P.args, **kwargs: P.kwargs) -> Turn:
        """The same for a call that begins a turn; one that nobody waits for any more is ended."""
        began = self.started(call, *args, **kwargs)
        try:
            return await _awaited(began)
        except asyncio.CancelledError:
            began.add_done_callback(_give_up)
            raise

    def session(self, key: str | SessionKey) -> AsyncSession:
        found = self.sync.session(key)
        line = self._lines.get(found.key)
        if line is None:
            line = self._lines[found.key] = _Line()
        return AsyncSession(self, found, line)

    async def sessions(self, **how: Any) -> Page:
        return await self.run(self.sync.sessions, **how)

    async def search(self, query: str, **how: Any) -> list[Found]:
        return await self.run(self.sync.search, query, **how)

    async def close(self) -> None:
        """Finishes what was asked for, then closes. The second time does nothing."""
        closer = ThreadPoolExecutor(1, thread_name_prefix="stratalog-close")
        closed = closer.submit(self._close)
        try:
            await asyncio.shield(asyncio.wrap_future(closed))
        finally:
            closer.shutdown(wait=closed.done())

    def _close(self) -> None:
        self._pool.shutdown()
        self.sync.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


class AsyncSession:
    """`Session` for asyncio. What is not here is at `.sync`, to be called by `AsyncStratalog.run`."""

    def __init__(self, front: AsyncStratalog, session: Session, line: _Line) -> None:
        self.sync = session
        self.key = session.key
        self._front = front
        self._run = front.run
        self._line = line

    def turn(self, content: Content, *, meta: dict[str, Any] | None = None, **how: Any) -> AsyncTurn:
        """A turn to be entered by `async with`; `wait` and `deadline` as in `Session.turn`."""
        return AsyncTurn(self, content, meta, how)

    def resume(self, turn: str, **how: Any) -> AsyncTurn:
        """The unfinished turn of this id, to be entered and gone on with; see `Session.start`."""
        return AsyncTurn(self, "", None, how, resumed=turn)

    async def call(self, call: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Runs any call in a thread of the front; see `AsyncStratalog.run`."""
        return await self._run(call, *args, **kwargs)

    def note(self, problem: Problem) -> None:
        """See `Stratalog.note`."""
        self._front.sync.note(problem)

    async def append(self, *entries: AnyEntry) -> list[AnyEntry]:
        return await self._run(self.sync.append, *entries)

    async def submit(self, content: Content, *, meta: dict[str, Any] | None = None) -> Arrival:
        return await self._run(self.sync.submit, content, meta=meta)

    async def entries(self, **how: Any) -> list[AnyEntry]:
        return await self._run(lambda: list(self.sync.entries(**how)))

    async def context(self, budget: int | None = None, **options: Unpack[ContextOptions]) -> Context:
        return await self._run(self.sync.context, budget, **options)

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
        line = self._line
        async with line.arriving:
            if not line.waiting:
                try:
                    return await self._front.begin(self.sync.turn_now, content, meta=meta, deadline=deadline)
                except SessionBusy:
                    pass  # then it waits, and is in the log meanwhile
            arrival = await self.submit(content, meta=meta)
            place = line.join()
        return await self._in_line(place, arrival.turn, give_up, deadline)

    async def _start(self, turn: str, wait: float | None, deadline: float | None) -> Turn:
        """Begins, or resumes, the unfinished turn with this id."""
        loop = asyncio.get_running_loop()
        give_up = None if wait is None else loop.time() + wait
        return await self._in_line(self._line.join(), turn, give_up, deadline)

    async def _in_line(
        self, place: asyncio.Event, turn: str, give_up: float | None, deadline: float | None
    ) -> Turn:
        try:
            return await self._started(place, turn, give_up, deadline)
        finally:
            self._line.leave(place)

    async def _started(
        self, place: asyncio.Event, turn: str, give_up: float | None, deadline: float | None
    ) -> Turn:
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout_at(give_up):
                await place.wait()
        except TimeoutError:
            raise SessionBusy(
                "other turns wait for the session",
                key=str(self.key),
                hint="the message stays queued; wait longer, or take it with `next`",
            ) from None
        pause = _FIRST_PAUSE
        while True:
            try:
                return await self._front.begin(self.sync.start, turn, wait=0, deadline=deadline)
            except SessionBusy:
                if give_up is not None and loop.time() + pause > give_up:
                    raise
            await asyncio.sleep(pause)
            pause = min(pause * 1.5, _LONGEST_PAUSE)


class AsyncTurn:
    """`Turn` for asyncio, begun when its block is entered and ended when it is left.

    What was asked of it is done before it ends, also what a cancelled task no longer waits for.
    """

    def __init__(
        self,
        session: AsyncSession,
        content: Content,
        meta: dict[str, Any] | None,
        how: dict[str, Any],
        *,
        resumed: str = "",
    ) -> None:
        self._resumed = resumed
        self._session = session
        self._front = session._front
        self._asked: set[Future[Any]] = set()
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

    async def context(self, budget: int | None = None, **options: Unpack[ContextOptions]) -> Context:
        return await self._run(self.sync.context, budget, **options)

    async def call_sync(self, call: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Runs any call in a thread; it is done before the turn ends."""
        return await self._run(call, *args, **kwargs)

    async def end(self, status: Status = "answered", detail: str = "") -> None:
        await self._last(self.sync.end, status, detail)

    async def __aenter__(self) -> Self:
        wait, deadline = self._how.pop("wait", None), self._how.pop("deadline", None)
        if self._how:
            raise TypeError(f"a turn takes no {', '.join(self._how)}")
        if self._resumed:
            self.sync = await self._session._start(self._resumed, wait, deadline)
        else:
            self.sync = await self._session._begin(self._content, self._meta, wait, deadline)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._last(self.sync.__exit__, kind, error, trace)

    async def _run(self, call: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        asked = self._front.started(call, *args, **kwargs)
        self._asked.add(asked)
        asked.add_done_callback(self._asked.discard)
        return await _awaited(asked)

    async def _last(self, call: Callable[P, None], *args: P.args, **kwargs: P.kwargs) -> None:
        # Those before it began before it, and so wait for no thread that this one holds.
        before = list(self._asked)

        def after_all() -> None:
            done_with(before)
            call(*args, **kwargs)

        await self._front.run(after_all)


async def _awaited(future: Future[R]) -> R:
    """What the future comes to. Cancelling the one who waits does not cancel what it waits for."""
    return await asyncio.shield(asyncio.wrap_future(future))


def _give_up(began: Future[Turn]) -> None:
    if not began.cancelled() and began.exception() is None:
        with suppress(Conflict):  # it was taken away already
            began.result().end("aborted", "the task that began it was cancelled")
