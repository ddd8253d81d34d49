"""Turns that are served: taken from anybody, answered in order, and finished whether or not anybody listens.

A message is in the log before it is accepted, with what is needed to answer it after a crash: the key under
which it was asked, and the model. Each session has a line; its messages are answered one by one in tasks of
this process, which no connection owns. The log is the queue: what it has of accepted messages without an end
is put into the line when a session is first used, and `recover` does so for all that were used lately. Other
processes may use, and serve, the same sessions meanwhile: who holds one is waited for, and a turn that
another finished is told as the log has it.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Coroutine
from contextlib import aclosing, nullcontext, suppress
from typing import Any, Final, Literal, NamedTuple, Self, TypeVar

import msgspec

from stratalog.engine.agent_memory import users_of
from stratalog.engine.aio import AsyncSession, AsyncTurn
from stratalog.engine.notes import ASKER, asker_of
from stratalog.engine.outcomes import outcome_of
from stratalog.engine.running import proceed, resume
from stratalog.engine.serving import Serving, Tenancy
from stratalog.engine.serving_log import (
    LATELY_MS,
    REQUEST,
    Request,
    TurnState,
    close,
    digest_of,
    left_in,
    requests_of,
    turn_state,
)
from stratalog.engine.serving_streams import (
    Done,
    Ending,
    Failed,
    Paused,
    Queued,
    Started,
    Stream,
    told_of,
)
from stratalog.engine.session import Arrival, Session
from stratalog.engine.turn import Turn
from stratalog.engine.upkeep import tenants
from stratalog.errors import Conflict, NotFound, SessionBusy, StratalogError, words_of
from stratalog.ids import ULID, now_ms, ulid_ts
from stratalog.keys import SessionKey
from stratalog.log.contract import Problem
from stratalog.types import Content, TurnEnd

R = TypeVar("R")
_LINES: Final = 1_000
_KEYS: Final = 1_000  # of requests to one session, before the old ones are looked for
_KEPT: Final = 8_000_000  # bytes of memory of events of turns that ended
_NOTICE: Final = 5.0  # seconds, within which a turn notices that its session was taken
_log = logging.getLogger("stratalog.engine.serving")


class Accepted(NamedTuple):
    """A message in the log: the turn that it opens, how many turns are before it, its events (None: they are
    not kept any more, see `Turns.state`), and whether the same request was accepted before."""

    turn: str
    position: int
    stream: Stream | None
    before: bool = False


class Ended(NamedTuple):
    """A turn that ended here: in which session, how, and after how many seconds from its start."""

    key: SessionKey
    ending: Ending
    seconds: float


class _Begun(AsyncTurn):
    """A turn that began when its message was accepted."""

    def __init__(self, session: AsyncSession, turn: Turn) -> None:
        super().__init__(session, turn.message.content, None, {})
        self.sync = turn
        self.entered = False

    async def __aenter__(self) -> Self:
        self.entered = True
        return self


class _Waiting(NamedTuple):
    """`begun`, where the session was free, holds it, and one place in the room."""

    turn: str
    user: str
    model: str
    stream: Stream
    begun: _Begun | None = None


class _Line:
    """The accepted messages of one session, the first of which is being answered."""

    def __init__(self, tenancy: Tenancy, session: AsyncSession) -> None:
        self.tenancy = tenancy
        self.session = session
        self.waiting: deque[_Waiting] = deque()
        self.arriving = asyncio.Lock()
        self.seeded = False
        self.requests: dict[str, tuple[str, str]] = {}  # by its key, the turn and the digest of each
        self.most = _KEYS
        self.seen: int | None = None  # the last entry that is in there
        self.work: asyncio.Task[None] | None = None
        self.running: asyncio.Task[None] | None = None

    def remember(self, found: dict[str, tuple[str, str]]) -> None:
        """Requests that were found in the log; those of more than a day ago are given up."""
        self.requests |= found
        if len(self.requests) > self.most:
            since = now_ms() - LATELY_MS
            self.requests = {
                key: (turn, digest)
                for key, (turn, digest) in self.requests.items()
                if ULID.match(turn) and ulid_ts(turn) >= since
            }
            self.most = max(_KEYS, 2 * len(self.requests))

    @property
    def ahead(self) -> int:
        """How many are not answered yet; the first may be that already, and only be remembered still."""
        return sum(each.stream.ending is None for each in self.waiting)

    @property
    def idle(self) -> bool:
        return not self.waiting and not self.arriving.locked()


class Turns:
    """The turns of all tenants. For one event loop. `keep` is for how many seconds the events of a turn that
    ended can be had again, `most` how many bytes of each. `at_once` turns are answered at the same time; the
    sessions of others wait for one of them to end. `unfinished` says whether turns that a crash left
    are gone on with or closed. `words` says of an error what may be told to who asked; `ended` is told of
    each turn."""

    def __init__(
        self,
        serving: Serving,
        *,
        keep: float = 300.0,
        most: int = 1_000_000,
        at_once: int = 256,
        unfinished: Literal["resume", "close"] = "resume",
        words: Callable[[StratalogError], str] = lambda error: error.what,
        ended: Callable[[Ended], None] = lambda ended: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.draining = False
        self._serving = serving
        self._keep, self._most, self._unfinished = keep, most, unfinished
        self._words, self._told_end, self._clock = words, ended, clock
        self._lines: OrderedDict[SessionKey, _Line] = OrderedDict()
        self._streams: dict[tuple[SessionKey, str], Stream] = {}
        self._over: OrderedDict[tuple[SessionKey, str], float] = OrderedDict()
        self._over_size = 0
        self._room = asyncio.Semaphore(at_once)
        self._tasks: set[asyncio.Task[Any]] = set()
        self._apart: set[asyncio.Task[None]] = set()

    # --- what surfaces ask ---

    async def say(
        self,
        tenancy: Tenancy,
        session: AsyncSession,
        content: Content,
        *,
        user: str = "",
        model: str = "",
        key: str = "",
    ) -> Accepted | None:
        """Accepts a message: it is in the log, and is answered when those before it are. With a `key` that a
        message of the last day had it is that one, and nothing is written; `Conflict` where that said
        something else. None when the service is about to end.

        Raises `InvalidConfig` where the agent has no model, and what an append raises; nothing is accepted
        then.
        """
        if self.draining:
            return None
        asked = Request(key=key, digest=digest_of(content, model) if key else "", model=model)
        kept = {REQUEST: msgspec.to_builtins(asked), **({ASKER: user} if user else {})}
        # Whoever asked may be gone before it is done, and what is in the log must get into the line.
        return await asyncio.shield(self._task(self._say(tenancy, session, content, asked, user, kept)))

    def stream(self, key: SessionKey, turn: str) -> Stream | None:
        """The events of a turn of the session, as long as they are kept."""
        self._forget_old()
        return self._streams.get((key, turn))

    def position(self, key: SessionKey, turn: str) -> int:
        """How many turns are before this one in the line of its session."""
        line = self._lines.get(key)
        waiting = line.waiting if line is not None else ()
        left = [each.turn for each in waiting if each.stream.ending is None]
        return left.index(turn) if turn in left else 0

    async def state(self, session: AsyncSession, turn: str) -> TurnState:
        """What the log says of a turn. Raises `NotFound`."""
        return await session.call(turn_state, session.sync, turn)

    async def taken_up(self, tenancy: Tenancy, session: AsyncSession) -> None:
        """Puts into the line what the log has of accepted messages without an end, if that was not done."""
        line = self._line(tenancy, session)
        async with line.arriving:
            await self._seed(line)
            self._go_on(line)

    async def abort(self, session: AsyncSession) -> bool:
        """Ends the session's running turn, whoever runs it, and keeps what it wrote and the words that came;
        False when none runs. Those that wait go on."""
        line = self._lines.get(session.key)
        running = line.running if line is not None else None
        if line is not None and running is not None and not running.done():
            head = line.waiting[0]
            unfinished = await session.unfinished()
            if any(each.started and each.turn == head.turn for each in unfinished):
                running.cancel()
                await asyncio.wait({running})
                return not isinstance(head.stream.ending, Done)
        return await session.abort()

    @property
    def open(self) -> int:
        """How many read a stream."""
        return sum(stream.readers for stream in self._streams.values())

    @property
    def running(self) -> int:
        """How many turns are being answered."""
        return sum(line.running is not None for line in self._lines.values()) + len(self._apart)

    @property
    def queued(self) -> int:
        """How many messages wait behind another."""
        return sum(max(0, len(line.waiting) - 1) for line in self._lines.values())

    # --- how the service begins and ends ---

    async def recover(self) -> int:
        """Takes up what was accepted and not finished, of all sessions that were used within a day; returns
        how many turns that are."""
        memory, since, found = self._serving.memory, now_ms() - LATELY_MS, 0
        for tenant in await self._serving.front.run(lambda: list(tenants(memory))):
            tenancy = self._serving.of(tenant)
            page = await tenancy.front.sessions()
            for meta in page.sessions:
                if self.draining:
                    return found
                if meta.updated_at < since:
                    continue
                session = tenancy.front.session(meta.key)
                done = await outcome_of(self.taken_up(tenancy, session))
                if isinstance(done, Exception):  # what is wrong with one keeps no other from being finished
                    reason = f"what was accepted could not be taken up: {words_of(done)}"
                    session.note(Problem(reason, key=meta.key))
                    _log.error("%s: %s", meta.key, reason)
                found += len(self._lines[session.key].waiting) if session.key in self._lines else 0
        return found

    async def drain(self, grace: float) -> None:
        """Accepts nothing more and lets the turns that run finish within so many seconds. The others stay in
        the log as they are, unfinished, to be gone on with by who serves next. Every stream has its ending
        afterwards."""
        self.draining = True
        for line in self._lines.values():
            self._go_on(line)
        work = {line.work for line in self._lines.values() if line.work is not None} | self._apart
        if work:
            _, work = await asyncio.wait(work, timeout=grace)
        if work:
            await self._serving.let_go()
            _, work = await asyncio.wait(work, timeout=_NOTICE)
        for line in self._lines.values():
            if line.running is not None:  # it waits for another process, or for a thread that hangs
                line.running.cancel()
        for each in self._apart:
            each.cancel()
        if work:
            await asyncio.wait(work, timeout=_NOTICE)
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=_NOTICE)

    # --- how it is done ---

    async def _say(
        self,
        tenancy: Tenancy,
        session: AsyncSession,
        content: Content,
        asked: Request,
        user: str,
        meta: dict[str, Any],
    ) -> Accepted:
        line = self._line(tenancy, session)
        async with line.arriving:
            await self._seed(line)
            if asked.key:
                known = await self._known(line, asked.key)
                if known is not None:
                    return self._again(line, asked, *known)
            begun, busy, turn = await self._logged(tenancy, line, content, meta)
            stream = self._opened(session.key, Stream(turn, most=self._most))
            position = line.ahead or int(busy)
            line.waiting.append(_Waiting(turn, user, asked.model, stream, begun))
            if position:
                stream.tell(Queued(turn=turn, position=position))
            self._go_on(line)
        return Accepted(turn, position, stream)

    async def _logged(
        self, tenancy: Tenancy, line: _Line, content: Content, meta: dict[str, Any]
    ) -> tuple[_Begun | None, bool, str]:
        """Logs the message, and its turn's start with it where that can begin at once, which saves an append;
        whether somebody held the session, where that was looked at; the turn."""
        session, alone = line.session, not line.waiting
        now = alone and not self._room.locked() and not session._line.waiting
        if now:
            await self._room.acquire()
        begun: _Begun | None = None
        try:
            arrived = await session.call(_arrived, tenancy, session.sync, content, meta, look=alone, now=now)
            if isinstance(arrived, Turn):
                begun = _Begun(session, arrived)
                return begun, False, arrived.id
            busy, arrival = arrived
            return None, busy, arrival.turn
        finally:
            if now and begun is None:
                self._room.release()

    def _again(self, line: _Line, asked: Request, turn: str, digest: str) -> Accepted:
        if digest != asked.digest:
            raise Conflict("this key was used for another message", turn=turn, hint="give each its own")
        key = line.session.key
        return Accepted(turn, self.position(key, turn), self.stream(key, turn), before=True)

    async def _known(self, line: _Line, key: str) -> tuple[str, str] | None:
        """The turn and the digest of the message that was accepted under this key, if one was."""
        for _ in range(2):
            found, line.seen = await line.session.call(requests_of, line.session.sync, line.seen)
            line.remember(found)
            if key not in line.requests:
                return None
            there = await outcome_of(self.state(line.session, line.requests[key][0]))
            if not isinstance(there, NotFound):
                return line.requests[key]
            line.requests, line.seen = {}, None  # the session was deleted, and this is another of its name
        return None

    async def _seed(self, line: _Line) -> None:
        if line.seeded:
            return
        known = {each.turn for each in line.waiting}
        left = await line.session.call(left_in, line.session.sync)
        if left is None:
            return  # it is looked for again with the next request
        if self._unfinished == "close":
            await line.session.call(close, line.session.sync, [each.turn for each in left])
            left = []
        for each in left:
            if each.turn not in known:
                made = Stream(each.turn, attempt=each.attempts, most=self._most)
                stream = self._opened(line.session.key, made)
                line.waiting.append(_Waiting(each.turn, each.user, each.model, stream))
        line.seeded = True

    def _line(self, tenancy: Tenancy, session: AsyncSession) -> _Line:
        line = self._lines.get(session.key)
        if line is None:
            line = self._lines[session.key] = _Line(tenancy, session)
        self._lines.move_to_end(session.key)
        if len(self._lines) > _LINES:
            quiet = next((key for key, each in self._lines.items() if each.idle and each is not line), None)
            if quiet is not None:
                del self._lines[quiet]
        return line

    def _go_on(self, line: _Line) -> None:
        """Sees to it that what waits in the line is answered, or told that it is not any more."""
        if not self.draining:
            if line.waiting and line.work is None:
                line.work = self._task(self._work(line))
            return
        for each in list(line.waiting)[1 if line.running is not None else 0 :]:
            if each.stream.ending is None:
                status = "queued" if each.begun is None else "started"
                self._end(line, each, Paused(turn=each.turn, status=status))

    async def _work(self, line: _Line) -> None:
        """Answers what waits in the line, one by one."""
        while line.waiting and not self.draining:
            head, began = line.waiting[0], self._clock()
            line.running = self._task(self._answer(line, head))
            await asyncio.wait({line.running})
            if head.begun is not None:
                self._room.release()
                await self._never_entered(line, head.begun, line.running)
            ending = head.stream.ending or await self._settled_safely(line, head, line.running)
            line.running = None
            line.waiting.popleft()
            self._end(line, head, ending, self._clock() - began)
            for place, each in enumerate(line.waiting):
                if place:
                    each.stream.tell(Queued(turn=each.turn, position=place))
        line.work = None

    async def _answer(self, line: _Line, head: _Waiting) -> None:
        async with self._room if head.begun is None else nullcontext():
            if not self.draining:
                await self._run(line.session, line.tenancy, head)

    async def _never_entered(self, line: _Line, begun: _Begun, task: asyncio.Task[None]) -> None:
        """Lets go of the session where something came between the turn's start and who would answer in it."""
        if begun.entered:
            return
        turn = begun.sync
        if self.draining:
            ended = line.session.call(turn.leave)
        else:
            ended = line.session.call(turn.end, "aborted" if task.cancelled() else "interrupted")
        failed = await outcome_of(ended)
        if isinstance(failed, Exception):
            line.session.note(Problem(f"a turn was not ended: {words_of(failed)}", key=str(line.session.key)))

    async def _run(self, session: AsyncSession, tenancy: Tenancy, head: _Waiting) -> None:
        user = head.user or await session.call(lambda: asker_of(None, users_of(session.sync)))
        agent = await tenancy.agent(session.key.agent, session=session.sync, user=user)
        began, model = False, head.model or None
        answering = (
            resume(session, agent, head.turn, model=model)
            if head.begun is None
            else proceed(session, agent, head.begun, model=model)
        )
        async with aclosing(answering) as events:
            async for event in events:
                if not began:
                    head.stream.tell(Started(turn=head.turn))
                    began = True
                head.stream.tell(told_of(event, head.turn))

    async def _settled_safely(self, line: _Line, head: _Waiting, task: asyncio.Task[None]) -> Ending:
        """`_settled`, whose own defects keep nobody in the line waiting."""
        ending = await outcome_of(self._settled(line, head, task))
        if not isinstance(ending, Exception):
            return ending
        _log.error("a turn could not be ended: %s", line.session.key, exc_info=ending)
        return _failed(head, "interrupted", ending, self._words)

    async def _settled(self, line: _Line, head: _Waiting, task: asyncio.Task[None]) -> Ending:
        """How a turn ended that was not answered here; one that nobody can go on with is ended in the log."""
        error = None if task.cancelled() else task.exception()
        if error is not None and not isinstance(error, StratalogError):
            _log.error("a turn failed: %s", line.session.key, exc_info=error)
        state = await self.state(line.session, head.turn)
        if state.status in ("queued", "started"):
            if self.draining or await line.session.call(lambda: line.session.sync.busy):
                return state.ending  # who serves next, or who holds the session now, finishes it
            await line.session.append(TurnEnd(turn=head.turn, status="interrupted"))
            state = msgspec.structs.replace(state, status="interrupted")
        if state.status == "answered":
            return state.ending
        return _failed(head, state.status, error, self._words)

    def _end(self, line: _Line, each: _Waiting, ending: Ending, seconds: float = 0.0) -> None:
        if each.stream.ending is None:
            each.stream.tell(ending)
        self._over[line.session.key, each.turn] = self._clock()
        self._over_size += each.stream.size
        self._told_end(Ended(line.session.key, ending, seconds))
        self._forget_old()

    def _opened(self, key: SessionKey, stream: Stream) -> Stream:
        before = self._streams.pop((key, stream.turn), None)
        if before is not None and self._over.pop((key, stream.turn), None) is not None:
            self._over_size -= before.size
        self._streams[key, stream.turn] = stream
        return stream

    def _forget_old(self) -> None:
        """Lets go of the events of turns that ended long ago, or of the oldest where there are too many."""
        while self._over:
            which, at = next(iter(self._over.items()))
            if at > self._clock() - self._keep and self._over_size <= _KEPT:
                return
            self._over_size -= self._streams.pop(which).size
            del self._over[which]

    def _task(self, work: Coroutine[Any, Any, R]) -> asyncio.Task[R]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    # --- turns that are in no line ---

    def keep(
        self, key: SessionKey, work: Callable[[], Coroutine[Any, Any, Ending | None]]
    ) -> asyncio.Task[None]:
        """Sees to the end of a turn of this session that is in no line, when there is room for it. It counts
        as one that runs; `drain` waits for it, lets go of it, and cancels what is left then; `ended` is told
        how the work says that it ended (None: not here)."""
        task = self._task(self._seen_to(key, work))
        self._apart.add(task)
        task.add_done_callback(self._apart.discard)
        return task

    async def _seen_to(self, key: SessionKey, work: Callable[[], Coroutine[Any, Any, Ending | None]]) -> None:
        began = self._clock()
        async with self._room:
            ending = await work()
        if ending is not None:
            self._told_end(Ended(key, ending, self._clock() - began))


def _arrived(
    tenancy: Tenancy, session: Session, content: Content, meta: dict[str, Any], *, look: bool, now: bool
) -> Turn | tuple[bool, Arrival]:
    """Logs the message: begins its turn, where that is to be `now` and nobody has the session; or else says
    whether somebody held it, where that is to be looked at. Raises `InvalidConfig` where nobody could answer
    it."""
    tenancy.agent_now(session.key.agent)
    if now and session.exists:  # where there is none, a turn needs two appends, and the second could fail
        with suppress(SessionBusy):
            return session.turn_now(content, meta=meta)
    busy = look and session.busy
    return busy, session.submit(content, meta=meta)


def _failed(
    head: _Waiting, status: str, error: BaseException | None, words: Callable[[StratalogError], str]
) -> Failed:
    known = isinstance(error, StratalogError)
    return Failed(
        turn=head.turn,
        status=status,
        error=type(error).__name__ if known else "" if error is None else "Defect",
        reason=words(error) if isinstance(error, StratalogError) else "",
        text=head.stream.text,
    )
