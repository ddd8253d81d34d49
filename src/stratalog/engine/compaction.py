"""Compaction of one session, from the plan to the entry that it appends.

    result = await compact(session, policy=preset("default", window=200_000), summarise=ask, by="gpt-5")

What is folded is decided by `context.compact`; here it is summarised and written. Only the summariser is
awaited, and nothing is written before all else is done: one entry, under the fence of who holds the session,
or nothing. A message that arrives meanwhile is in the log as ever, is seen after the summary, and waits for
its turn. Who wants the session while a compaction is past its deadline takes it; the late entry is refused.

The extractive summariser stands in where there is no model, the session's residency forbids it, the model
fails, or what it wrote twice cannot stand for what it replaces. Two passes in a row that free little stop
further ones until something is said.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

import msgspec

from stratalog.context.compact import (
    PRESETS,
    Count,
    Nothing,
    Plan,
    Policy,
    assembled,
    chunks,
    cleaned,
    plan,
    preset,
    prompt,
    refused,
)
from stratalog.context.cutting import CountText, capped
from stratalog.context.shapes.contract import Prompt
from stratalog.context.shapes.table import shape_of
from stratalog.context.view import View
from stratalog.engine.leaving import refusal
from stratalog.engine.outcomes import outcome_of
from stratalog.engine.session import Session
from stratalog.errors import CompactionStuck, ModelReplyUnusable, NotFound, words_of
from stratalog.models import extractive
from stratalog.models.contract import Completed, Model, Reach, Request
from stratalog.tokens.rough import count_entry, count_text
from stratalog.tokens.windows import DEFAULT_WINDOW
from stratalog.types import AnyEntry, Assistant, Compaction, System, ToolCall, ToolResult, User, is_injected

if TYPE_CHECKING:
    from stratalog.models.configured import Configured  # what it brings is loaded by who runs a model

__all__ = [
    "DEFAULT_WINDOW",
    "PRESETS",
    "Compacted",
    "Looked",
    "Nothing",
    "Plan",
    "Policy",
    "Reaching",
    "Summariser",
    "Summary",
    "closing_summariser",
    "compact",
    "compact_now",
    "planned",
    "preset",
    "summariser_of",
    "summary_of_all",
]

# Answers one prompt with a text; raises `ModelError`, or anything.
Summariser: TypeAlias = Callable[[str], Awaitable[str]]

R = TypeVar("R")
_SEEN = (User, Assistant, ToolCall, ToolResult)
PROGRESS: Final = 0.1  # the part of a context that a pass should free
_PASSES = 2
_TRIES = 2
_SHORTEST_CHUNK = 200
_STOPS: Final = {"length": "it was cut", "refusal": "the model refused", "tools": "it calls tools"}
_NOTHING_SAID = "Nothing that words could keep was said."


class Reaching(msgspec.Struct, frozen=True):
    """A summariser of which it is known how far what it is asked goes; any other may reach anywhere."""

    ask: Summariser
    reach: Reach

    async def __call__(self, text: str) -> str:
        return await self.ask(text)


class Compacted(msgspec.Struct, frozen=True):
    """What a compaction wrote: its entry, how many entries that stands for, why the extractive summariser
    stood in for another ("": it did not), and the session's key."""

    entry: Compaction
    covered: int
    stood_in: str = ""
    key: str = ""


class Looked(msgspec.Struct, frozen=True):
    """What is to be compacted, as a model is shown it: the view, how its entries are counted, the tokens that
    a request has besides, and what is known of all its tokens from elsewhere (0: nothing)."""

    seen: View
    count: Count = count_entry
    count_text: CountText = count_text
    fixed: int = 0
    measured: int = 0


def planned(
    session: Session, policy: Policy, *, looked: Looked | None = None, force: bool = False
) -> Plan | Nothing:
    """What a compaction would do now. Raises `NotFound`."""
    if not session.exists:
        raise NotFound("there is no such session", key=str(session.key))
    look = looked or _look(session)
    return plan(look.seen, policy, look.count, fixed=look.fixed, measured=look.measured, force=force)


def is_large(session: Session, messages: int) -> bool:
    """Whether a model would see more than so many messages and results of the session."""
    kinds = (User, Assistant, ToolResult)
    turns = session.view().turns
    return sum(isinstance(entry, kinds) for turn in turns for entry in turn.entries) > messages


async def compact(
    session: Session,
    *,
    policy: Policy,
    looked: Looked | None = None,
    summarise: Summariser | None = None,
    by: str = "model",
    summariser_window: int = 0,
    force: bool = False,
    fence: int | None = None,
) -> Compacted | Nothing:
    """Compacts the session if the policy asks for it, or with `force` below its trigger too.

    `looked` is what is compacted; without it what a model sees of the session, roughly counted. `summarise`,
    called `by` in the log, is asked with at most `summariser_window` tokens (0: as many as the policy's
    window), and not at all where the session's residency forbids it. With a `fence` it is done under it, in a
    running turn; else the session is held meanwhile.

    Raises `NotFound`, `SessionBusy` while a turn runs, `StaleFence` when the session was taken meanwhile,
    `CompactionStuck`, and what an append raises; nothing is written then.
    """
    if fence is None:
        with session.held() as own:
            return await compact(
                session,
                policy=policy,
                looked=looked,
                summarise=summarise,
                by=by,
                summariser_window=summariser_window,
                force=force,
                fence=own,
            )
    looked = looked or _look(session)
    count, count_text = looked.count, looked.count_text
    decided = await asyncio.to_thread(planned, session, policy, looked=looked, force=force)
    if not isinstance(decided, Nothing) or decided.stuck:
        _must_not_be_stuck(session)
    if isinstance(decided, Nothing):
        _passed(session, fruitful=not decided.stuck, reason=decided.reason)
        return decided
    made = await _summary(session, decided, summarise, by, summariser_window or policy.window, count_text)
    entry = Compaction(
        summary=made.text or capped(_NOTHING_SAID, decided.limit, count_text),
        first_kept=decided.first_kept,
        kept=decided.kept,
        covers=decided.covers,
        by=made.by,
        tokens_before=decided.before,
        meta={"stood_in": made.stood_in} if made.stood_in else None,
    )
    after = decided.remaining + count(entry)
    freed = 1 - after / decided.before
    _passed(session, fruitful=freed >= PROGRESS, reason=f"it frees {max(0.0, freed):.1%} of the context")
    memory = session.meta.working_memory
    entry = msgspec.structs.replace(entry, tokens_after=after, working_memory=memory)
    (written,) = await _finished(asyncio.to_thread(session.append, entry, fence=fence))
    assert isinstance(written, Compaction)
    _passed(session, fruitful=freed >= PROGRESS, again=True)
    return Compacted(written, len(decided.covered), made.stood_in, str(session.key))


async def _finished(work: Coroutine[Any, Any, R]) -> R:
    """What the work comes to, which is waited for also by one who is cancelled meanwhile."""
    task = asyncio.create_task(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait({task})
        raise


def compact_now(
    session: Session,
    *,
    policy: Policy,
    summarise: Summariser | None = None,
    by: str = "model",
    force: bool = False,
) -> Compacted | Nothing:
    """`compact` for one who is in no event loop."""
    return asyncio.run(compact(session, policy=policy, summarise=summarise, by=by, force=force))


def summariser_of(
    model: Model, name: str, *, most: int = 4_096, silence: float = 120.0, reach: Reach = "world"
) -> Summariser:
    """A summariser that asks the model `name` for at most `most` tokens, its reasoning left out; it may say
    nothing for `silence` seconds. `reach` is how far what it is sent goes."""
    shape = shape_of(model)

    async def ask(text: str) -> str:
        body = shape.body(Prompt(entries=(User(content=text),), max_output=most))
        async with aclosing(model.stream(Request(model=name, body=body, timeout=silence))) as events:
            async for event in events:
                if isinstance(event, Completed):
                    if event.stop not in ("end", "other"):
                        raise ModelReplyUnusable(
                            f"the summary is no whole reply: {_STOPS.get(event.stop, event.stop)}", model=name
                        )
                    said = [each for each in shape.entries(event.message, "") if isinstance(each, Assistant)]
                    return "\n".join(each.text for each in said)
        raise ModelReplyUnusable("the model's stream ended without a reply", model=name)

    return Reaching(ask, reach)


def closing_summariser(who: Configured, *, most: int = 4_096) -> Reaching:
    """`summariser_of` a model that is asked from event loops that end: it leaves no connection open."""
    ask = summariser_of(who.model, who.name, most=most)

    async def once(text: str) -> str:
        try:
            return await ask(text)
        finally:
            await who.close()

    return Reaching(once, who.reach)


# --- the summary ---


class Summary(msgspec.Struct, frozen=True):
    """A summary (empty when there was nothing that words could keep), who wrote it, and why that is the
    extractive summariser although another was asked. `covers` are the first and last entry that it is of,
    `replaced` the tokens that these and the summary before them have."""

    text: str
    by: str
    stood_in: str = ""
    covers: tuple[str, str] = ("", "")
    replaced: int = 0


async def summary_of_all(
    session: Session,
    *,
    policy: Policy,
    upto: int,
    count: Count = count_entry,
    count_text: CountText = count_text,
    summarise: Summariser | None = None,
    by: str = "model",
) -> Summary | None:
    """One summary of all that a model sees of the session up to the entry numbered `upto`, its last summary
    too; it has what the policy allows a summary. None when nothing was said. Writes nothing."""
    seen = _view(session)
    entries = [each for turn in seen.turns for each in turn.entries if 0 < each.seq <= upto]
    said = tuple(each for each in entries if not is_injected(each))
    if not said:
        earlier = seen.summary
        return Summary(earlier.summary, earlier.by) if earlier is not None and earlier.summary else None
    replaced = sum(map(count, said)) + (count(seen.summary) if seen.summary is not None else 0)
    previous = seen.summary.summary if seen.summary is not None else ""
    whole = Plan(said, previous, "", (), replaced, 0, replaced, policy.summary_limit)
    made = await _summary(session, whole, summarise, by, policy.window, count_text)
    if not made.text:
        return None
    return msgspec.structs.replace(made, covers=whole.covers, replaced=replaced)


def _look(session: Session) -> Looked:
    """What a model sees of the session with its working memory as it will be, roughly counted."""
    memory = sum(count_entry(System(content=block)) for block in session.memory_blocks())
    return Looked(_view(session), fixed=memory)


def _view(session: Session) -> View:
    """The session's view with its summary in place."""
    seen = session.view()
    if seen.summary is not None and seen.summary.blob is not None:
        (summary,) = session.with_payloads([seen.summary])
        seen = seen.with_entries({summary.seq: summary})
    return seen


async def _summary(
    session: Session,
    decided: Plan,
    summarise: Summariser | None,
    by: str,
    window: int,
    count: CountText,
) -> Summary:
    covered = await asyncio.to_thread(_covered, session, decided)
    why = ""
    if summarise is not None:
        # A summariser may be anybody's code: whatever it raises, another stands in, and the log says why.
        asked = _asked(covered, decided, _allowed(session, summarise, by), window, count)
        text = await outcome_of(asked)
        if isinstance(text, Exception):
            why = words_of(text)
        else:
            share = decided.limit * 2 // 5
            standing = await asyncio.to_thread(extractive.standing, covered, decided.previous, share, count)
            return Summary(assembled(standing, text, decided.limit, count), by)
    text = await asyncio.to_thread(extractive.extract, covered, decided.previous, decided.limit, count)
    return Summary(text, extractive.NAME, why)


def _allowed(session: Session, summarise: Summariser, by: str) -> Summariser:
    """The summariser, which raises `LaneDenied` instead of being asked what it may not be sent."""
    reach = summarise.reach if isinstance(summarise, Reaching) else "world"

    async def ask(text: str) -> str:
        denied = await asyncio.to_thread(refusal, session, by, reach)
        if denied is not None:
            raise denied
        return await summarise(text)

    return ask


def _covered(session: Session, decided: Plan) -> list[AnyEntry]:
    """What is to be summarised, with its payloads."""
    covered: list[AnyEntry] = []
    for entry in decided.covered:
        covered += session.with_payloads([entry]) if entry.blob is not None else [entry]
    return covered


async def _asked(
    covered: list[AnyEntry], decided: Plan, summarise: Summariser, window: int, count: CountText
) -> str:
    """What the summariser makes of the previous summary and of one chunk after the other."""
    limit = decided.limit
    text = capped(decided.previous, max(limit, window // 4), count)
    # A tenth is left for what counting misses; the reply needs room too, and the summary is sent again.
    room = window * 9 // 10 - count(prompt("", "", limit)) - max(limit, count(text)) - limit
    if room < _SHORTEST_CHUNK:
        raise ModelReplyUnusable("the summariser's window has no room for a transcript", window=window)
    replaced = count(text)
    seen = [entry for entry in covered if isinstance(entry, _SEEN)]
    for chunk in await asyncio.to_thread(lambda: list(chunks(seen, room, count))):
        replaced += count(chunk)
        text = capped(await _answer(summarise, prompt(text, chunk, limit), replaced, count), limit, count)
    return text


async def _answer(summarise: Summariser, text: str, replaced: int, count: CountText) -> str:
    """The summariser's reply when it can stand for what it replaces; asked once more when it cannot."""
    why = ""
    for _ in range(_TRIES):
        answer = cleaned(await summarise(text))
        why = refused(answer, replaced, count)
        if not why:
            return answer
    raise ModelReplyUnusable(f"the summary was refused: {why}")


# --- passes that free nothing ---


def _must_not_be_stuck(session: Session) -> None:
    passes, end = session.stalls.get(session.key, (0, 0))
    if passes >= _PASSES and end == session.end:
        raise _stuck(session, "nothing was said since")


def _passed(session: Session, *, fruitful: bool, reason: str = "", again: bool = False) -> None:
    """Notes a pass (with `again` only where its end is now). Raises `CompactionStuck` at the second in a row
    that frees little."""
    if fruitful:
        session.stalls.pop(session.key, None)
        return
    passes, _ = session.stalls.get(session.key, (0, 0))
    passes = min(_PASSES, passes + (0 if again else 1))
    session.stalls[session.key] = (passes, session.end)
    if passes >= _PASSES and not again:
        raise _stuck(session, reason)


def _stuck(session: Session, reason: str) -> CompactionStuck:
    return CompactionStuck(
        f"compaction frees too little: {reason}",
        key=str(session.key),
        hint="shorten the system's words or the tools, give a larger window, or restart the session",
    )
