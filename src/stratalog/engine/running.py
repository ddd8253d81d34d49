"""The turn that runs a model: from a user's message to the reply.

    agent = Agent(model=model_from("openai:gpt-5"), system="Be brief.", tools=(tool(weather),))
    async with AsyncStratalog.open("data") as memory:
        async for event in run(memory.session("assistant:cli:me"), agent, "Will it rain in Bergen?"):
            ...

The session is taken and the message logged; before every call of the model the session is compacted if that
is due, and its context built anew; every reply, call and result is logged before what follows from it. The
session is let go before the last event, `Replied`; what is to be done after a turn is done after that event,
also for one who reads no further.

A tool whose `run` is `elsewhere` is performed by who asked. Where the model calls one, the turn stops there,
unfinished, with the event `Handed`; once the results are logged in it, `resume` goes on.

Who stops reading closes the generator, or cancels the task: the request ends on the wire, and the turn as
aborted, with all that was finished and the words that had come. A turn that is taken away (an abort, a
restart, a deadline, in this process or another) is noticed within about a second: it raises `TurnClosed`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing, suppress
from itertools import count
from typing import Any, Final, TypeAlias, TypeVar

import msgspec

from stratalog.config import Settings
from stratalog.context.budget import Context
from stratalog.context.shapes.contract import Prompt
from stratalog.context.shapes.table import shape_of
from stratalog.engine import leaving
from stratalog.engine.agents import Agent, configured, offered, policy_of, tools_of
from stratalog.engine.aio import AsyncSession, AsyncTurn
from stratalog.engine.compaction import Compacted, Looked, Summariser, compact, summariser_of
from stratalog.engine.minding import beginning_notes, freezing_notes, remember_due
from stratalog.engine.notes import ASKER
from stratalog.engine.outcomes import outcome_of
from stratalog.engine.seeing import Memo, Prepared, Room, Seeing, Wants, limits_of, room_of
from stratalog.engine.session import Session
from stratalog.engine.tools import content_of
from stratalog.engine.turn import lost
from stratalog.errors import (
    CompactionStuck,
    Conflict,
    InvalidConfig,
    InvalidInput,
    LaneDenied,
    ModelInputTooLong,
    ModelRejected,
    ModelReplyUnusable,
    StaleFence,
    StratalogError,
    words_of,
)
from stratalog.ids import new_ulid
from stratalog.log.contract import Problem
from stratalog.models import extractive
from stratalog.models.configured import Configured
from stratalog.models.contract import Completed, ReasoningDelta, Request, Retrying, TextDelta
from stratalog.tokens.calibrated import Calibrated, anchor, calibrate, ratio_of
from stratalog.tokens.contract import Counter
from stratalog.types import AnyEntry, Assistant, Content, ToolCall, ToolResult

__all__ = [
    "Answered",
    "Called",
    "Compacted",
    "Completed",
    "Event",
    "Handed",
    "ReasoningDelta",
    "Replied",
    "Retrying",
    "TextDelta",
    "Warned",
    "ask",
    "elsewhere",
    "proceed",
    "resume",
    "run",
]

R = TypeVar("R")
ELSEWHERE: Final = "elsewhere"  # in the meta of a call: who asked performs it
_LOOK: Final = 0.1  # seconds between two looks whether the turn was taken away in this process,
_LOOK_OUTSIDE: Final = 1.0  # and between two at what other processes did
_SHRINKS: Final = 5  # times that a request is made smaller because the provider finds it too long
_SHRINK: Final = 2, 3
_SUMMARY: Final = 4_096  # tokens that a summariser may answer with


class Called(msgspec.Struct, frozen=True):
    """A tool is called; the call is in the log."""

    call: ToolCall


class Answered(msgspec.Struct, frozen=True):
    """A tool has answered; the result is in the log."""

    result: ToolResult


class Handed(msgspec.Struct, frozen=True):
    """Calls that who asked performs. It is the last event: the turn is left unfinished, and the session is
    let go."""

    calls: tuple[ToolCall, ...]

    @property
    def reason(self) -> str:
        return "the turn waits for the results of tools that are not performed here"


class Warned(msgspec.Struct, frozen=True):
    """Something is not as it was asked for, and the turn goes on."""

    reason: str


class Replied(msgspec.Struct, frozen=True):
    """The turn is over. `tokens` is what the last request was counted for, before the provider did."""

    reply: Assistant
    tokens: int


Event: TypeAlias = (
    TextDelta | ReasoningDelta | Retrying | Called | Answered | Compacted | Warned | Handed | Replied
)


async def elsewhere(args: dict[str, Any]) -> Content:
    """The `run` of a tool that is performed by who asked."""
    raise InvalidInput("this tool is not performed here")


async def run(
    session: AsyncSession,
    agent: Agent,
    content: Content,
    *,
    model: Configured | str | None = None,
    meta: dict[str, Any] | None = None,
    wait: float | None = None,
    deadline: float | None = None,
) -> AsyncGenerator[Event, None]:
    """One turn, as it happens. Close it (`contextlib.aclosing`) when it is not read to its end.

    `model` answers instead of the agent's in this turn; one that cannot be had, that the session's residency
    forbids, or that refuses its first request, is replaced by the agent's with a warning. `wait` and
    `deadline` are those of `Session.turn`.

    Raises what `Session.turn` raises, `LaneDenied` where the residency forbids the agent's model too,
    `ContextOverflow`, a `ModelError`, `TurnClosed`, and what an append raises. The message and every finished
    step are in the log then.
    """
    if agent.mind is not None and agent.mind.user:
        meta = {ASKER: agent.mind.user, **(meta or {})}
    turn = session.turn(content, meta=meta, wait=wait, deadline=deadline)
    async with aclosing(_run(session, agent, turn, model)) as events:
        async for event in events:
            yield event


async def resume(
    session: AsyncSession,
    agent: Agent,
    turn: str,
    *,
    model: Configured | str | None = None,
    wait: float | None = None,
    deadline: float | None = None,
    again: bool = False,
) -> AsyncGenerator[Event, None]:
    """Goes on with the unfinished turn of this id: one that waits, or that a crash cut short. See `run`.

    What was logged of it stands; a call that nobody answered is told to the model as interrupted. A turn that
    has its reply, and lacks only its end, is ended. One that fails is left unfinished, to be gone on with
    `again`, where that is said. Raises `NotFound` when there is no such turn, and
    `LaneDenied` with the turn left as it is.
    """
    await session.call(_answering, session.sync, agent, model)
    resumed = session.resume(turn, wait=wait, deadline=deadline)
    async with aclosing(_run(session, agent, resumed, model, again=again)) as events:
        async for event in events:
            yield event


async def proceed(
    session: AsyncSession, agent: Agent, turn: AsyncTurn, *, model: Configured | str | None = None
) -> AsyncGenerator[Event, None]:
    """Answers in a turn whose message is logged, and which is entered here; see `run`."""
    async with aclosing(_run(session, agent, turn, model)) as events:
        async for event in events:
            yield event


async def ask(session: AsyncSession, agent: Agent, content: Content, **how: Any) -> Assistant:
    """The reply of one turn; see `run`, whose options it takes."""
    reply: Assistant | None = None
    async with aclosing(run(session, agent, content, **how)) as events:
        async for event in events:
            if isinstance(event, Replied):
                reply = event.reply
    assert reply is not None
    return reply


async def _run(
    session: AsyncSession,
    agent: Agent,
    turn: AsyncTurn,
    model: Configured | str | None,
    *,
    again: bool = False,
) -> AsyncGenerator[Event, None]:
    async with turn:
        running = _Running(session, agent, turn)
        replied = False
        watching = asyncio.create_task(running.watch())
        try:
            async with aclosing(running.events(model)) as events:
                async for event in events:
                    if isinstance(event, Replied):
                        await turn.end("answered")
                        replied = True
                    elif isinstance(event, Handed):
                        await turn.call_sync(turn.sync.leave)
                    yield event
        except StaleFence as error:
            raise lost(turn.sync.id, turn.sync.lost or "taken") from error
        except StratalogError:
            if again:
                await turn.call_sync(turn.sync.leave)
            raise
        finally:
            watching.cancel()
            if replied:  # nobody waits for it to see the reply, and nobody who stops there takes it away
                await _after(session, agent, turn.sync.id)


async def _after(session: AsyncSession, agent: Agent, turn: str) -> None:
    outcomes: list[object] = []
    if agent.mind is not None:
        outcomes.append(await outcome_of(session.call(remember_due, session.sync, agent.mind)))
    for work in agent.after:
        outcomes.append(await outcome_of(session.call(work, session.sync, turn)))
    for outcome in outcomes:
        told = [words_of(outcome)] if isinstance(outcome, Exception) else outcome
        for what in told if isinstance(told, list) else ():
            session.note(Problem(f"after a turn: {what}", key=str(session.key)))


def _answering(session: Session, agent: Agent, model: Configured | str | None) -> tuple[Configured, str]:
    """The model that answers, and why it is the agent's where another was asked for. Raises `LaneDenied`."""
    why = ""
    if model is not None:
        try:
            made = configured(model, session.settings) if isinstance(model, str) else model
            leaving.check(session, made)
            return made, ""
        except (InvalidConfig, LaneDenied) as error:
            why = f"the agent's own model answers instead: {error}"
    leaving.check(session, agent.model)
    return agent.model, why


class _Running:
    """One turn under way."""

    def __init__(self, session: AsyncSession, agent: Agent, turn: AsyncTurn) -> None:
        self.session = session.sync
        self.agent = agent
        self.turn = turn
        self.seeing: Seeing = turn.sync.seeing
        self.settings: Settings = session.sync.settings
        self.model = agent.model
        self.tools = tools_of(agent, session.sync, turn, self._result_room)
        self.offered = offered(agent)
        self.elsewhere = {each.name for each in agent.tools if each.run is elsewhere}
        self.recalled: tuple[str, ...] = ()
        self.stands: Mapping[str, str] = {}
        self.said = ""  # the words that have come of a reply that is not logged yet
        self.stuck_at = 0  # tokens, at which compaction freed nothing
        self.narrowed: dict[str, int] = {}  # windows for this turn, of models whose count was too low
        self.away: Exception | None = None  # what the turn ends with, for it was taken away
        self.held: asyncio.Timeout | None = None  # over what is waited for now

    async def events(self, model: Configured | str | None) -> AsyncGenerator[Event, None]:
        """All events of the turn, `Replied` last."""
        self.model, warning = await self.turn.call_sync(_answering, self.session, self.agent, model)
        if warning:
            yield Warned(warning)
        for reason in await self._minded():
            yield Warned(reason)
        calls = shrinks = 0
        while True:
            if calls == self.settings.model_calls:
                raise ModelReplyUnusable(
                    f"the model asks for tools still, after {calls} replies in one turn",
                    model=self.model.name,
                    hint="raise the setting `model_calls`, or see what its tools answer",
                )
            prepared, room = await self.turn.call_sync(self._prepare)
            replied = self._replied(prepared) if not calls else None
            if replied is not None:
                yield Replied(replied, 0)
                return
            async with aclosing(self._compacted(prepared, room, force=shrinks > 0)) as events:
                async for event in events:
                    yield event
                    if isinstance(event, Compacted):
                        for reason in [*await self._noted(freezing_notes), *await self._recall()]:
                            yield Warned(reason)
                        prepared, room = await self.turn.call_sync(self._prepare)
            context = await self.turn.call_sync(self.seeing.fitted, prepared)
            try:
                async with aclosing(self._asked(context, prepared, room)) as replying:
                    async for delta in replying:
                        if isinstance(delta, Completed):
                            completed = delta
                        else:
                            yield delta
            except ModelInputTooLong as error:
                if shrinks == _SHRINKS:
                    raise
                shrinks += 1
                await self.turn.call_sync(self._shrink, room, context, error)
                yield Warned(f"the request was too long for the model, and is made shorter: {error}")
                continue
            except ModelRejected as error:
                if self.model is self.agent.model or calls or await self._forbidden(self.agent.model):
                    raise
                self.model, shrinks = self.agent.model, 0
                yield Warned(f"the agent's own model answers instead: {error}")
                continue
            calls, shrinks = calls + 1, 0
            stored = await self.turn.append(*self._entries(completed))
            self.said = ""
            if completed.stop == "length":
                yield Warned(
                    f"the reply was cut at {room.reserve:,} tokens; the setting `max_output` allows more"
                )
            wanted = [entry for entry in stored if isinstance(entry, ToolCall)]
            if not wanted:
                reply = next(entry for entry in stored if isinstance(entry, Assistant))
                yield Replied(reply, context.tokens)
                return
            for call in wanted:
                yield Called(call)
            handed = tuple(call for call in wanted if call.name in self.elsewhere)
            async with aclosing(self._answers([call for call in wanted if call not in handed])) as answers:
                async for result in answers:
                    yield Answered(result)
            if handed:
                yield Handed(handed)
                return

    # --- what is sent ---

    async def _minded(self) -> list[str]:
        """What the agent's mind has to do before the model is asked; tells what went wrong of it."""
        begun = await self._noted(beginning_notes, self.turn.sync.message.seq)
        return [*begun, *await self._noted(freezing_notes), *await self._recall()]

    async def _noted(self, notes_of: Callable[..., list[AnyEntry]], *about: int) -> list[str]:
        """Logs what a mind wants noted; tells what went wrong, for that is no reason to lose a turn."""
        if self.agent.mind is None:
            return []
        asked = self.turn.call_sync(notes_of, self.session, self.agent.mind, *about)
        notes = await outcome_of(asked)
        if isinstance(notes, Exception):
            return [f"what is known cannot be shown: {words_of(notes)}"]
        if notes:
            await self.turn.append(*notes)
        return []

    async def _forbidden(self, who: Configured) -> bool:
        """Whether the session's residency forbids this model."""
        return bool(await self.turn.call_sync(leaving.reason, self.session, who))

    def _body(self, prompt: Prompt) -> dict[str, Any]:
        """The body of the model's next request. Raises `LaneDenied`."""
        leaving.check(self.session, self.model)
        return shape_of(self.model.model).body(prompt)

    async def _recall(self) -> list[str]:
        """Asks for what may matter beside what stands; tells what went wrong, which costs nobody the turn."""
        if self.agent.mind is None:
            return []
        self.recalled, told = (), []
        stands = await outcome_of(self.turn.call_sync(self._standing))
        if isinstance(stands, Exception):
            told = [f"what was recalled before is left out: {words_of(stands)}"]
        self.stands = {} if isinstance(stands, Exception) else stands
        found = await outcome_of(self.turn.call_sync(self._recalled))
        if isinstance(found, Exception):
            return [*told, f"nothing was recalled: {words_of(found)}"]
        self.recalled = found
        return told

    def _standing(self) -> Mapping[str, str]:
        """What was recalled for turns before and is shown in this one."""
        mind, turn = self.agent.mind, self.turn.sync.id
        stands = mind.stands(self.session, turn) if mind is not None else {}
        return self.seeing.standing(turn, msgspec.structs.replace(self._wants(), stands=stands))

    def _recalled(self) -> tuple[str, ...]:
        mind, said = self.agent.mind, self.turn.sync.message.text
        return tuple(mind.recall(self.session, said, self.stands.keys())) if mind is not None else ()

    def _memo(self) -> Memo:
        return self.seeing.memo

    def _prepare(self) -> tuple[Prepared, Room]:
        """What the context is made of, counted as the provider was seen to count."""
        first = self.seeing.prepared(self.turn.sync.id, self._wants())
        prepared = msgspec.structs.replace(first, counter=self._calibrated(first.counter))
        return prepared, self._room(self.model.name)

    def _wants(self) -> Wants:
        name = self.model.name
        return Wants(
            budget=self._room(name).tokens,
            system=self.agent.system,
            model=name,
            tools=self.offered,
            memory=self.agent.memory,
            recalled=self.recalled,
            stands=self.stands,
        )

    def _result_room(self) -> tuple[int, Callable[[str], int]]:
        """The tokens that one result is shown with, and how they are counted."""
        name = self.model.name
        limits = limits_of(self.settings.budget, self._room(name).tokens)
        return limits.tool_result or 0, self.seeing.counter(name).count_text

    def _room(self, name: str) -> Room:
        """What the model takes, as far as it was found to."""
        counter = self.seeing.counter(name)
        room = room_of(name, self.settings, counter)
        learned = self._memo().learned.get(name, room.window.window)
        learned = min(learned, self.narrowed.get(name, learned))
        if learned >= room.window.window:
            return room
        windows = {**self.settings.windows, name: learned}
        return room_of(name, msgspec.structs.replace(self.settings, windows=windows), counter)

    def _shrink(self, room: Room, context: Context, error: ModelInputTooLong) -> None:
        """Takes the model's window for what the refusal tells, or else for less than what was sent."""
        part, whole = _SHRINK
        told = error.where.get("window")
        smaller = min(room.window.window, context.tokens + room.reserve) * part // whole
        if isinstance(told, int) and told > 0:
            if told >= room.window.window:
                # The window was right and the count was not: so it is only in this turn.
                self.narrowed[self.model.name] = max(1, smaller)
                return
            smaller = told
        self._memo().learned[self.model.name] = max(1, smaller)

    def _replied(self, prepared: Prepared) -> Assistant | None:
        """The turn's reply, where it has one already: a crash came between that and its end."""
        mine = [turn for turn in prepared.seen.turns if turn.turn == self.turn.sync.id]
        last = mine[-1].entries[-1] if mine else None
        return last if isinstance(last, Assistant) and not (last.meta or {}).get("partial") else None

    def _calibrated(self, counter: Counter) -> Counter:
        """The counter, scaled where the provider was seen to count more than it."""
        known = self._memo().anchors.get(self.model.name)
        return Calibrated(counter, known) if known is not None and ratio_of(known) > 1 else counter

    def _measured(self, prepared: Prepared) -> int:
        """The tokens by the provider's last report and what came after; 0 where that tells nothing."""
        memo = self._memo()
        pieces = memo.pieces(self.model.name, self.offered, prepared.entries(), _bare(prepared.counter))
        estimate = calibrate(memo.anchors.get(self.model.name), pieces)
        return estimate.tokens if estimate.basis == "reported" else 0

    async def _compacted(
        self, prepared: Prepared, room: Room, *, force: bool
    ) -> AsyncGenerator[Compacted | Warned, None]:
        """Compacts the session if that is due."""
        memo = await self.turn.call_sync(self._memo)
        if room.window.warning and room.window.warning not in memo.warned:
            memo.warned.add(room.window.warning)
            yield Warned(room.window.warning)
        looked, tokens = await self.turn.call_sync(self._looked, prepared)
        if tokens < self.stuck_at:
            return
        theirs = await self.turn.call_sync(self._summariser_room, room)
        summarise, by = self._summariser(theirs)
        try:
            made = await self._held(
                compact(
                    self.session,
                    policy=policy_of(self.settings, room),
                    looked=looked,
                    summarise=summarise,
                    by=by,
                    summariser_window=theirs.tokens,
                    force=force,
                    fence=self.turn.sync.fence,
                )
            )
        except CompactionStuck as error:
            # It may fit even so; if not, fitting says what does not. It is tried again when there is more.
            self.stuck_at = tokens * 11 // 10
            yield Warned(str(error))
            return
        if isinstance(made, Compacted):
            yield made

    def _looked(self, prepared: Prepared) -> tuple[Looked, int]:
        """What a compaction has before it, the messages that wait too; and the tokens of the context."""
        seen = prepared.seen
        if any(turn.waiting for turn in self.seeing.view().turns):
            seen = self.seeing.prepared(None, prepared.wants).seen
        counter = prepared.counter
        fixed, measured = prepared.fixed(), self._measured(prepared)
        tokens = max(measured, fixed + sum(map(counter.count_entry, prepared.said())))
        return Looked(seen, counter.count_entry, counter.count_text, fixed, measured), tokens

    def _summariser(self, room: Room) -> tuple[Summariser | None, str]:
        who = self.agent.summariser or self.model
        if who.name == extractive.NAME:
            return None, ""
        most = min(_SUMMARY, room.reserve)
        return summariser_of(
            who.model, who.name, most=most, silence=self.settings.silence, reach=who.reach
        ), who.name

    def _summariser_room(self, room: Room) -> Room:
        who = self.agent.summariser or self.model
        return room if who is self.model else self._room(who.name)

    # --- what comes back ---

    async def _asked(
        self, context: Context, prepared: Prepared, room: Room
    ) -> AsyncGenerator[TextDelta | ReasoningDelta | Retrying | Completed, None]:
        """The model's reply to the context, `Completed` last."""
        body = await self.turn.call_sync(self._body, context.prompt(max_output=room.reserve))
        request = Request(model=self.model.name, body=body, timeout=self.settings.silence)
        self.said = ""
        try:
            async with aclosing(self.model.model.stream(request)) as events:
                while (event := await self._held(_next(events))) is not None:
                    if isinstance(event, TextDelta):
                        self.said += event.text
                    elif isinstance(event, Retrying):
                        self.said = ""
                    yield event
                    if isinstance(event, Completed):
                        await self.turn.call_sync(self._learn, context, prepared, event)
                        return
        except (asyncio.CancelledError, GeneratorExit):
            await self._keep_words()
            raise
        raise ModelReplyUnusable("the model's stream ended without a reply", model=self.model.name)

    def _learn(self, context: Context, prepared: Prepared, completed: Completed) -> None:
        """Keeps what the provider counted for what it was sent."""
        memo = self._memo()
        sent = memo.pieces(self.model.name, self.offered, context.shown(), _bare(prepared.counter))
        known = anchor(sent, completed.usage)
        if known is not None:
            memo.anchors[self.model.name] = known

    def _entries(self, completed: Completed) -> list[AnyEntry]:
        """The reply as it is logged: its words, which carry what it cost, then its calls."""
        response = new_ulid()
        made = shape_of(self.model.model).entries(completed.message, response)
        calls = _named([entry for entry in made if isinstance(entry, ToolCall)])
        calls = [_marked(call) if call.name in self.elsewhere else call for call in calls]
        words = [entry for entry in made if isinstance(entry, Assistant)]
        if not calls and not any(entry.content for entry in words):
            raise ModelReplyUnusable("the model's reply is empty", model=self.model.name)
        meta: dict[str, Any] = {}
        if completed.stop not in ("end", "tools"):
            meta["stop"] = completed.stop
        if completed.response_id:
            meta["response_id"] = completed.response_id
        first = words[0] if words else Assistant(response=response)
        first = msgspec.structs.replace(
            first,
            model=completed.model or self.model.name,
            usage=completed.usage,
            meta={**(first.meta or {}), **meta} or None,
        )
        return [first, *words[1:], *calls]

    async def _answers(self, calls: Sequence[ToolCall]) -> AsyncGenerator[ToolResult, None]:
        """Runs the calls side by side; each result is logged when it comes."""
        tasks = {asyncio.create_task(self._logged(call)) for call in calls}
        try:
            waiting = tasks
            while waiting:
                done, waiting = await self._held(asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED))
                for result in sorted((task.result() for task in done), key=lambda result: result.seq):
                    yield result
        finally:
            for task in tasks:
                task.cancel()
            # Several may have failed, and one of them is raised; the others are told nowhere else.
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _answer(self, call: ToolCall) -> Content:
        tool = self.tools.get(call.name)
        if tool is None:
            known = ", ".join(self.tools) or "none"
            raise InvalidInput("there is no such tool", tool=call.name, hint=f"there are: {known}")
        if call.args is not None and not isinstance(call.args, dict):
            raise InvalidInput("the arguments are not a JSON object", tool=call.name)
        return content_of(await tool.run(call.args or {}))

    async def _logged(self, call: ToolCall) -> ToolResult:
        """Logs what the tool answers. A tool is anybody's code: what it raises is its answer to the model."""
        (answer,) = await asyncio.gather(self._answer(call), return_exceptions=True)
        if not isinstance(answer, BaseException):
            return await self.turn.result(call, answer)
        if not isinstance(answer, Exception | asyncio.CancelledError):
            raise answer
        return await self.turn.result(call, words_of(answer), error=True)

    # --- while it lasts ---

    async def watch(self) -> None:
        """Looks from time to time whether the turn was taken away; what is waited for is given up then."""
        looks = round(_LOOK_OUTSIDE / _LOOK)
        for number in count(1):
            await asyncio.sleep(_LOOK)
            if number % looks == 0:
                away = await outcome_of(self.turn.call_sync(self.turn.sync.look))
                self.away = away if isinstance(away, Exception) else None
            if self._away() is not None:
                if self.held is not None:
                    self.held.reschedule(asyncio.get_running_loop().time())
                return

    def _away(self) -> Exception | None:
        """What the turn ends with where it was taken away, or where that cannot be known."""
        away = self.turn.sync.lost
        return lost(self.turn.sync.id, away) if away else self.away

    async def _held(self, work: Awaitable[R]) -> R:
        """What the work comes to, given up when the turn is taken away. Raises `TurnClosed` then.

        No task is made for it, for it is called for every word of a reply.
        """
        limit = asyncio.timeout(None if self._away() is None else 0)
        self.held = limit
        try:
            async with limit:
                result = await work
        except TimeoutError:
            if not limit.expired():
                raise
        finally:
            self.held = None
        away = self._away()
        if away is not None:
            raise away
        return result

    async def _keep_words(self) -> None:
        """Logs the words of a reply that was broken off, for somebody has read them."""
        said, self.said = self.said, ""
        if said:
            entry = Assistant(
                content=said, model=self.model.name, response=new_ulid(), meta={"partial": True}
            )
            with suppress(Conflict):  # the turn was taken away: nothing of it is written any more
                await self.turn.append(entry)


def _bare(counter: Counter) -> Counter:
    return counter.under if isinstance(counter, Calibrated) else counter


def _named(calls: list[ToolCall]) -> list[ToolCall]:
    """The calls of one reply, each with an id of its own, also where a server gave none or one twice."""
    named: dict[str, ToolCall] = {}
    for call in calls:
        call_id = call.call_id if call.call_id not in ("", *named) else f"call_{new_ulid()}"
        named[call_id] = msgspec.structs.replace(call, call_id=call_id)
    return list(named.values())


def _marked(call: ToolCall) -> ToolCall:
    return msgspec.structs.replace(call, meta={**(call.meta or {}), ELSEWHERE: True})


async def _next(events: AsyncGenerator[R, None]) -> R | None:
    return await anext(events, None)
