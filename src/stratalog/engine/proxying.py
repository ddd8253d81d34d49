"""Completions with a memory: a client's messages become a turn of a session, and its reply is the client's.

    completions = Completions(turns)
    completion = await completions.complete(tenancy, begin, chat, asked, user="ana")
    async for event in completion.run.follow(15.0): ...
    answer = await completion.run.ended()

What is sent is brought together with the log (`reconciling`), and only what is new is appended; then the
engine's turn runs as for any other message. A reply that calls the client's own tools leaves the turn open;
the client's next request brings the results and goes on in it. A turn that failed stays open too: the same
request sent again goes on with it. Either is ended when another message comes, or its time is over.

A turn runs in a task of the service, which `Turns` keeps: who leaves does not end it, and where the service
ends before it does, it is unfinished, for the same request to go on with. Requests for one session go one by
one, so one that is sent again waits for the first, and finds its reply in the log.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack, aclosing, asynccontextmanager, suppress
from functools import partial
from typing import Final, NamedTuple, TypeAlias
from weakref import WeakSet, WeakValueDictionary

from msgspec.structs import replace

from stratalog.config import Settings
from stratalog.context.shapes.contract import Tool
from stratalog.engine.agents import Agent, Mind, configured
from stratalog.engine.aio import AsyncSession
from stratalog.engine.completing import (
    BRANCH,
    Answer,
    Asked,
    added,
    answer_of,
    decide,
    open_ours,
    parting,
    plan_of,
    rank,
    system_of,
)
from stratalog.engine.notes import Blocks
from stratalog.engine.outcomes import outcome_of
from stratalog.engine.reconciling import Branch, Extend, Plan, awaited
from stratalog.engine.replies import Run
from stratalog.engine.running import (
    Called,
    Event,
    Handed,
    Replied,
    Retrying,
    TextDelta,
    Warned,
    elsewhere,
    resume,
)
from stratalog.engine.serving import Tenancy
from stratalog.engine.serving_streams import Done, Ending, Failed, Paused, Warning, told_of
from stratalog.engine.serving_turns import Turns
from stratalog.engine.session import Session
from stratalog.engine.tools import AgentTool
from stratalog.engine.tuning import left_out, with_options
from stratalog.errors import Conflict, InvalidConfig, NotFound, SessionBusy, StratalogError, TurnClosed
from stratalog.ids import new_ulid, now_ms
from stratalog.keys import SessionKey
from stratalog.models.configured import Configured
from stratalog.types import AnyEntry, Assistant, Note, TurnEnd, User

WAIT: Final = 120.0  # seconds that a request waits for its session
PATIENCE: Final = 3_600.0  # seconds that a turn waits for the results of the client's tools
_BRANCHES: Final = 16  # of a session that are looked at, the newest
_READ: Final = 500  # entries of a log that are read, and so many more
_READ_EACH: Final = 20  # for each message
_PAUSE: Final = 0.05
_LONGEST: Final = 900  # characters of a chat's name that are in the names of those that part from it
_log = logging.getLogger("stratalog.engine.proxying")

Begin: TypeAlias = Callable[[str], Awaitable[AsyncSession]]


class Completion(NamedTuple):
    """A request that was accepted: its session, its turn, its reply, and the options that are left out."""

    session: AsyncSession
    turn: str
    run: Run
    left_out: list[str]


class Placed(NamedTuple):
    """Where a request stands in the log: the turn to go on with, or its reply, which is there already; and
    the system's words."""

    turn: str
    answer: Answer | None
    system: str


class _Work(NamedTuple):
    """What a turn is answered with; `opened` is to be closed after it."""

    tenancy: Tenancy
    session: AsyncSession
    placed: Placed
    asked: Asked
    other: Configured | None
    opened: AsyncExitStack
    user: str
    run: Run

    def over(self, task: asyncio.Task[None]) -> None:
        """Once the turn is over, however that was: nobody waits for it any more."""
        self.run.end(None)


class Completions:
    """The completions of all tenants. For one event loop. `wait` is how many seconds a request waits for its
    session, `patience` how many a turn waits for the results of the client's tools."""

    def __init__(self, turns: Turns, *, wait: float = WAIT, patience: float = PATIENCE) -> None:
        self.wait, self.patience = wait, patience
        self._turns = turns
        self._lines: WeakValueDictionary[SessionKey, asyncio.Lock] = WeakValueDictionary()
        self._choosing: WeakValueDictionary[SessionKey, asyncio.Lock] = WeakValueDictionary()
        self._runs: WeakSet[Run] = WeakSet()
        self.waiting = 0  # requests that are not in a log yet

    @property
    def open(self) -> int:
        """How many replies are read as they come."""
        return sum(run.read for run in self._runs)

    async def complete(
        self, tenancy: Tenancy, begin: Begin, chat: str, asked: Asked, *, user: str = ""
    ) -> Completion | None:
        """Accepts a request in the session of this chat, or in one that parts from it: what is new of it is
        in the log, and is being answered. None when the service is about to end.

        `begin` gives the session of a chat, begun where there is none. Raises what it raises, `SessionBusy`
        when the session had no time for it, `InvalidInput` for what cannot be gone on with or done,
        and `InvalidConfig`; nothing of the request is in the log then.
        """
        give_up = asyncio.get_running_loop().time() + self.wait
        base = await begin(chat)
        plain = await tenancy.agent(base.key.agent)
        other = await base.call(_other, asked.model, base.sync.settings)
        async with AsyncExitStack() as opened:
            if other is not None:
                opened.push_async_callback(other.close)
            lost = left_out((other or plain.model).model.shape, asked.options)
            shaped(plain, asked, "")  # raises for tools that it cannot have
            taken = await self._place(tenancy, base, begin, asked, user, give_up)
            if taken is None:
                return None
            session, placed, line = taken
            run = Run(line.release)
            self._runs.add(run)
            if asked.model and other is None:
                run.warnings.append("the agent's own model answers: the one that was named cannot be had")
            if placed.answer is not None:
                run.end(placed.answer)
            else:
                work = _Work(tenancy, session, placed, asked, other, opened.pop_all(), user, run)
                self._turns.keep(session.key, partial(self._settled, work)).add_done_callback(work.over)
        return Completion(session, placed.turn, run, lost)

    # --- where it belongs ---

    async def _place(
        self,
        tenancy: Tenancy,
        base: AsyncSession,
        begin: Begin,
        asked: Asked,
        user: str,
        give_up: float,
    ) -> tuple[AsyncSession, Placed, asyncio.Lock] | None:
        """`_taken`, as often as the log went on meanwhile; None when the service is about to end."""
        self.waiting += 1
        try:
            while not self._turns.draining:
                taken = await self._taken(tenancy, base, begin, asked, user, give_up)
                if taken is not None:
                    return taken
            return None
        finally:
            self.waiting -= 1

    async def _taken(
        self,
        tenancy: Tenancy,
        base: AsyncSession,
        begin: Begin,
        asked: Asked,
        user: str,
        give_up: float,
    ) -> tuple[AsyncSession, Placed, asyncio.Lock] | None:
        """The session with the request in its log, and its line, which is to be released; None when the log
        is another than it was when the session was chosen, or the service is about to end. Who waits for a
        session keeps nobody from others that part from the same."""
        async with _held(_line(self._choosing, base.key), base, give_up):
            session = await self._session(tenancy, base, begin, asked)
            line = _line(self._lines, session.key)
            if not line.locked():
                return await self._in_line(line, session, asked, user, give_up)
        return await self._in_line(line, session, asked, user, give_up)

    async def _in_line(
        self, line: asyncio.Lock, session: AsyncSession, asked: Asked, user: str, give_up: float
    ) -> tuple[AsyncSession, Placed, asyncio.Lock] | None:
        async with _held(line, session, give_up) as held:
            placed = await self._placed(session, asked, user, give_up)
            if placed is None:
                return None
            held.pop_all()
            return session, placed, line

    async def _session(
        self, tenancy: Tenancy, base: AsyncSession, begin: Begin, asked: Asked
    ) -> AsyncSession:
        """The session whose log the messages go on: the one that is named, or one that parts from it. Where
        none is named, a first message begins a conversation of its own."""
        chats = await base.call(_parting, tenancy, base.sync, asked)
        best, plan = base, await base.call(_planned, base.sync, asked)
        for other in chats:
            if rank(plan) >= (2, len(asked.messages) - 1):
                break  # no other goes better with it
            session = await begin(other)
            found = await session.call(_planned, session.sync, asked)
            if rank(found) > rank(plan):
                best, plan = session, found
        if isinstance(plan, Branch) and plan.at:
            return await begin(await base.call(_forked, base.sync, best.sync, plan))
        first = all(each.said.role == "user" for each in asked.messages) and not (asked.again or asked.key)
        anew = isinstance(plan, Extend) and not asked.named and (first or plan.start == 0)
        if isinstance(plan, Branch) or (anew and await base.call(_has_messages, base.sync)):
            made = _part_of(base.key.chat)
            session = await begin(made)
            await base.append(Note(kind=BRANCH, data={"chat": made}))
            return session
        return best

    async def _placed(self, session: AsyncSession, asked: Asked, user: str, give_up: float) -> Placed | None:
        loop = asyncio.get_running_loop()
        while not self._turns.draining:
            try:
                return await session.call(place, session.sync, asked, user)
            except SessionBusy:
                if loop.time() + _PAUSE > give_up:
                    raise _busy(session) from None
            await asyncio.sleep(_PAUSE)
        return None

    # --- how it is answered ---

    async def _settled(self, work: _Work) -> Ending | None:
        """Answers, and tells how that ended; None where the turn waits for the client."""
        turn = work.placed.turn
        async with work.opened:
            if self._turns.draining:  # it waited for room until then
                return Paused(turn=turn, status="started")
            outcome = await outcome_of(self._answer(work))
        if not isinstance(outcome, Exception):
            return outcome
        known = isinstance(outcome, StratalogError)
        if not known:
            _log.error("a turn failed: %s", work.session.key, exc_info=outcome)
        gone = self._turns.draining and isinstance(outcome, TurnClosed)  # it was let go
        work.run.end(None, outcome if isinstance(outcome, StratalogError) and not gone else None)
        status = await self._status(work.session, turn)
        if gone or status == "":
            return Paused(turn=turn, status="started")
        return Failed(turn=turn, status=status, error=type(outcome).__name__ if known else "Defect")

    async def _status(self, session: AsyncSession, turn: str) -> str:
        """How a turn that failed is to be counted: as its end in the log, where it has one. One that is left
        for the client to ask again counts as others do that failed so; "" where somebody else is at it."""
        try:
            status = (await self._turns.state(session, turn)).status
        except NotFound:  # the session was deleted
            return "aborted"
        if status not in ("queued", "started"):
            return status
        return "" if await session.call(lambda: session.sync.busy) else "interrupted"

    async def _answer(self, work: _Work) -> Ending | None:
        session, turn = work.session, work.placed.turn
        whole = await work.tenancy.agent(session.key.agent, session=session.sync, user=work.user)
        agent = shaped(whole, work.asked, work.placed.system)
        model = with_options(work.other, work.asked.options) if work.other is not None else None
        since = await session.call(lambda: session.sync.end)
        going = resume(session, agent, turn, model=model, wait=self.wait, again=True)
        done: Ending | None = None
        async with aclosing(going) as events:
            async for event in events:
                _tell(event, turn, work.run)
                if isinstance(event, Handed):
                    self._expect(session, turn)
                if isinstance(event, Replied | Handed):
                    work.run.end(await session.call(_answer_after, session.sync, turn, since))
                if isinstance(event, Replied):
                    done = await session.call(_done, session.sync, turn, event.reply)
        return done

    def _expect(self, session: AsyncSession, turn: str) -> None:
        """Ends the turn when the results have not come in time."""

        def over() -> None:
            if not self._turns.draining:
                self._turns.keep(session.key, partial(self._expire, session, turn))

        asyncio.get_running_loop().call_later(self.patience, over)

    async def _expire(self, session: AsyncSession, turn: str) -> Ending | None:
        with suppress(Conflict, NotFound):  # then somebody else is at it
            if await session.call(_expired, session.sync, turn):
                return Failed(turn=turn, status="timed_out")
        return None


def shaped(agent: Agent, asked: Asked, system: str) -> Agent:
    """The agent with what the client asks of it. Summaries are asked for without the client's options. Raises
    `InvalidInput` where a tool of the client has the name of another."""
    mind: Mind | None = agent.mind
    tools = tuple(AgentTool(each, elsewhere) for each in asked.tools)
    made: Agent = replace(
        agent,
        model=with_options(agent.model, asked.options),
        summariser=agent.summariser or agent.model,
        system="\n\n".join(filter(None, (agent.system, system))),
        tools=(*agent.tools, *tools),
        remembers=agent.remembers and asked.memory,
        mind=mind if mind is None or asked.memory else _Quiet(mind),
    )
    return made


class _Quiet:
    """A mind that recalls and remembers, and whose tools are not offered. See `agents.Mind`."""

    def __init__(self, under: Mind) -> None:
        self.tools: tuple[Tool, ...] = ()
        self.user = under.user
        self.recall = under.recall
        self.stands = under.stands
        self.answer = under.answer
        self.after = under.after
        self._under = under

    def blocks(self, session: Session, shown: Blocks | None) -> Blocks | None:
        return self._under.blocks(session, shown)


def _tell(event: Event, turn: str, run: Run) -> None:
    match event:
        case TextDelta() | Retrying():
            run.tell(event)
        case Called():
            run.tell(None)
        case Warned():
            told = told_of(event, turn)
            if isinstance(told, Warning):
                run.warnings.append(told.reason)
        case _:
            pass


def _other(spec: str, settings: Settings) -> Configured | None:
    """The model that is to answer instead of the agent's; None where none is named, or it cannot be had."""
    try:
        return configured(spec, settings) if spec else None
    except InvalidConfig:
        return None


def _line(lines: WeakValueDictionary[SessionKey, asyncio.Lock], key: SessionKey) -> asyncio.Lock:
    return lines.setdefault(key, asyncio.Lock())


@asynccontextmanager
async def _held(
    line: asyncio.Lock, session: AsyncSession, give_up: float
) -> AsyncGenerator[AsyncExitStack, None]:
    """Holds the line for a block, or longer where what is yielded is emptied. Raises `SessionBusy`."""
    try:
        async with asyncio.timeout_at(give_up):
            await line.acquire()
    except TimeoutError:
        raise _busy(session) from None
    async with AsyncExitStack() as stack:
        stack.callback(line.release)
        yield stack


def _part_of(chat: str) -> str:
    return f"{chat.partition('~')[0][:_LONGEST]}~{new_ulid()}"


def _busy(session: AsyncSession) -> SessionBusy:
    return SessionBusy(
        "the session is busy with other turns", hint="ask again in a moment", key=str(session.key)
    )


# --- in threads ---


def place(session: Session, asked: Asked, user: str) -> Placed | None:
    """Logs what is new of the request; None where it parts from this log. Raises as `decide`, and
    `SessionBusy` while a turn runs."""
    with session.held() as fence:
        entries = _recent(session, asked)
        decision = decide(entries, asked, user, now_ms())
        if isinstance(decision, Answer):
            return Placed(decision.turn, decision, "")
        if isinstance(decision, Branch):
            return None
        cut = bool(entries) and entries[0].seq > 1
        system, notes = system_of(entries, asked.system, cut=cut)
        if notes or decision.entries:
            session.append(*notes, *decision.entries, fence=fence)
    return Placed(decision.turn, None, system)


def _planned(session: Session, asked: Asked) -> Plan:
    return plan_of(_recent(session, asked), asked, now_ms())


def _recent(session: Session, asked: Asked) -> list[AnyEntry]:
    """The end of the log, from the beginning of a turn on: as much as the messages can be told by."""
    most = _READ + _READ_EACH * len(asked.messages)
    found: list[AnyEntry] = []
    for entry in session.entries(reverse=True):
        found.append(entry)
        if len(found) >= most and isinstance(entry, User):
            break
    return found[::-1]


def _has_messages(session: Session) -> bool:
    return any(isinstance(each, User) for each in session.entries(reverse=True, blobs=False))


def _parting(tenancy: Tenancy, base: Session, asked: Asked) -> list[str]:
    """The chats that part from this one and are there still, the newest first."""
    chats = [chat for each in reversed(_recent(base, asked)) if (chat := parting(each))][:_BRANCHES]
    return [
        chat
        for chat in dict.fromkeys(chats)
        if chat != base.key.chat and tenancy.front.sync.session(base.key._replace(chat=chat)).exists
    ]


def _forked(base: Session, source: Session, plan: Branch) -> str:
    """Makes a session with the log of `source` up to where the plan parts, of which the first tells."""
    turn = source.entry(plan.at).turn
    after = source.entries(after=plan.at, blobs=False)
    ends = (each.seq for each in after if isinstance(each, TurnEnd) and each.turn == turn and turn)
    chat = _part_of(base.key.chat)
    source.fork(base.key._replace(chat=chat), at=next(ends, plan.at))
    base.append(Note(kind=BRANCH, data={"chat": chat}))
    return chat


def _answer_after(session: Session, turn: str, since: int) -> Answer | None:
    return answer_of(turn, [each for each in session.entries(after=since) if each.turn == turn])


def _done(session: Session, turn: str, reply: Assistant) -> Done:
    """How an answered turn ended, with what all of it cost."""
    counted = []
    for entry in session.entries(reverse=True, blobs=False):
        if entry.turn == turn and isinstance(entry, Assistant) and entry.usage is not None:
            counted.append(entry.usage)
        elif entry.turn == turn and isinstance(entry, User):
            break
    return Done(turn=turn, text=reply.text, entry=reply.id, model=reply.model, usage=added(counted))


def _expired(session: Session, turn: str) -> bool:
    """Ends the turn where it waits for results still; says whether it did."""
    with session.held() as fence:
        entries = list(session.entries(reverse=True, blobs=False))[::-1]
        due = turn in open_ours(entries) and turn in awaited(entries).waiting.values()
        if due:
            detail = "the results of its tools did not come"
            session.append(TurnEnd(turn=turn, status="timed_out", detail=detail), fence=fence)
    return due
