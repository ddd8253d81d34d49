"""What of a conversation that a client sends is in the log already: pure, and decided message by message.

A client of a stateless API sends its whole history each time, or the end of it, or its newest message alone.
What is logged and what is sent are brought into one form, `Said`; the sent messages that stand at the log's
end are old, and those after them are new. Where what is sent goes another way than the log (a message was
edited, a reply is to be made anew), nothing logged is changed: the conversation parts there, see `Branch`.

Two are the same when their words are, but for white space. A reply that a client cut short is the same as the
whole one; a tool's result is told by the id of its call alone, for clients shorten old ones. What the client
need not know (what other surfaces said in the session, what nobody answered) may be missing in what it sends.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import Final, Literal, TypeAlias

import msgspec

from stratalog.engine.running import ELSEWHERE
from stratalog.errors import InvalidInput
from stratalog.types import (
    AnyEntry,
    Assistant,
    Content,
    Text,
    ToolCall,
    ToolResult,
    TurnEnd,
    User,
    is_injected,
)

_MOST: Final = 60_000  # comparisons for one request
COMPLETION: Final = "completion"  # in the meta of a message that came so: how it was asked


class Said(msgspec.Struct, frozen=True, kw_only=True):
    """A message in the form in which two are compared. `calls` are ids and names, `media` a hash of all that
    is no words, `call_id` the call that a result is of."""

    role: Literal["user", "assistant", "tool"]
    text: str = ""
    media: str = ""
    calls: tuple[tuple[str, str], ...] = ()
    call_id: str = ""


class Sent(msgspec.Struct, frozen=True):
    """A message that a client sent, and the entries that it is in a log, without turn."""

    said: Said
    entries: tuple[AnyEntry, ...]


class Logged(msgspec.Struct, frozen=True, kw_only=True):
    """A message in the log: the turn that it is of, the numbers of its first and last entry, its time, and
    whether a client that sends its history must have it."""

    said: Said
    turn: str
    first: int
    last: int
    ts: int = 0
    needed: bool = True


class Extend(msgspec.Struct, frozen=True):
    """The messages from `start` on are new; those before are the log's end."""

    start: int


class Replay(msgspec.Struct, frozen=True):
    """All was sent and answered before: the reply is what came after the entry `after` in the turn."""

    turn: str
    after: int


class Branch(msgspec.Struct, frozen=True):
    """The messages from `start` on go on from the entry `at`, after which the log goes on otherwise; from
    nothing where both are 0."""

    at: int
    start: int


Plan: TypeAlias = Extend | Replay | Branch


class Awaited(msgspec.Struct, frozen=True):
    """Calls that the client performs, by id with their turn: those without a result, and those with one,
    with the number of the result too."""

    waiting: dict[str, str]
    answered: dict[str, tuple[str, int]]


def said_of(entries: Sequence[AnyEntry]) -> Said | None:
    """What the entries of one message say; None for nothing."""
    words: list[str] = []
    calls: list[tuple[str, str]] = []
    for entry in entries:
        match entry:
            case User():
                return Said(role="user", text=_folded(entry.text), media=_media(entry.content))
            case ToolResult():
                return Said(role="tool", text=_folded(entry.text), call_id=entry.call_id)
            case Assistant():
                words.append(entry.text)
            case ToolCall():
                calls.append((entry.call_id, entry.name))
            case _:
                pass
    text = _folded(" ".join(words))
    return Said(role="assistant", text=text, calls=tuple(calls)) if text or calls else None


def logged_of(entries: Iterable[AnyEntry]) -> list[Logged]:
    """The messages of a log, in order, as a client saw them: what was called and answered here is not in
    them, and the words around it are one message."""
    listed = list(entries)
    ours = {each.turn for each in listed if isinstance(each, User) and COMPLETION in (each.meta or {})}
    answered = {each.turn for each in listed if isinstance(each, TurnEnd) and each.status == "answered"}
    known = awaited(listed).answered
    found: list[Logged] = []
    reply: list[AnyEntry] = []

    def take(part: Sequence[AnyEntry]) -> None:
        said = said_of(part)
        if said is not None:
            turn = part[0].turn
            partial = any((each.meta or {}).get("partial") for each in part)
            needed = turn in ours and turn in answered and not partial
            found.append(
                Logged(
                    said=said,
                    turn=turn,
                    first=part[0].seq,
                    last=part[-1].seq,
                    ts=part[-1].ts,
                    needed=needed,
                )
            )

    for entry in listed:
        own = isinstance(entry, User) and not is_injected(entry)
        result = isinstance(entry, ToolResult) and entry.call_id in known
        if reply and (own or result or entry.turn != reply[0].turn):
            take(reply)
            reply = []
        if own or result:
            take([entry])
        elif isinstance(entry, Assistant) or (isinstance(entry, ToolCall) and is_elsewhere(entry)):
            reply.append(entry)
    if reply:
        take(reply)
    return _ordered(found)


def awaited(entries: Iterable[AnyEntry]) -> Awaited:
    """The calls in these entries that the client performs."""
    waiting: dict[str, str] = {}
    answered: dict[str, tuple[str, int]] = {}
    for entry in entries:
        if isinstance(entry, ToolCall) and is_elsewhere(entry):
            waiting[entry.call_id] = entry.turn
            answered.pop(entry.call_id, None)
        elif isinstance(entry, ToolResult) and entry.call_id in waiting:
            answered[entry.call_id] = waiting.pop(entry.call_id), entry.seq
    return Awaited(waiting, answered)


def is_elsewhere(call: ToolCall) -> bool:
    """Whether the client performs the call."""
    return bool((call.meta or {}).get(ELSEWHERE))


def reconcile(logged: Sequence[Logged], sent: Sequence[Said], *, again: bool = False) -> Plan:
    """What to do with the messages that were sent, in a session with this log. `again`: they are of a request
    that may have been answered before, its reply lost.

    Messages without any reply among them are new where the log's end is none of them: so speaks a client that
    sends its newest alone. Others that do not go on from the log's end part from it, where most is shared.
    """
    sent = _ordered_said(sent)
    meeting = _Meeting(logged, sent)
    if again and logged and logged[-1].said.role == "assistant" and meeting.at(len(logged) - 1, len(sent)):
        return Replay(logged[-1].turn, logged[-1].first - 1)
    starts = range(len(sent), 0, -1)
    start = next((start for start in starts if meeting.at(len(logged), start)), 0)
    if start >= len(sent) - 1 or not any(each.role == "assistant" for each in sent):
        return Extend(start)
    branch = _branch(logged, sent, meeting)
    if branch is not None and branch.start > start:
        return branch
    known = any(each.needed for each in logged)
    return Branch(0, 0) if known and not start else Extend(start)


def _branch(logged: Sequence[Logged], sent: Sequence[Said], meeting: _Meeting) -> Branch | None:
    """Where the two part after the most that they share; it is opened by the user."""
    ends: dict[object, list[int]] = {}
    for end in range(len(logged) - 1, 0, -1):
        ends.setdefault(_mark(logged[end - 1].said), []).append(end)
    for start in range(len(sent) - 1, 0, -1):
        if sent[start].role == "user" and sent[start - 1].role != "user":
            for end in ends.get(_mark(sent[start - 1]), ()):
                if meeting.at(end, start, whole=True):
                    return Branch(logged[end - 1].last, start)
    return None


def check_sent(sent: Sequence[Said]) -> None:
    """Raises `InvalidInput` where the messages are no conversation that can be gone on with: the last is the
    user's or a tool's, each call has its result right after it, each result its call before it. Results may
    come first, for calls that are in the log."""
    if not sent or sent[-1].role == "assistant":
        raise InvalidInput(
            "the last message is to be the user's, or a tool's result", hint="a reply cannot be begun here"
        )
    waiting: set[str] = set()
    first = True
    for each in sent:
        if each.role == "tool":
            if not first and each.call_id not in waiting:
                raise _orphan(each.call_id)
            waiting.discard(each.call_id)
            continue
        if waiting:
            raise _unanswered(waiting)
        first = False
        waiting = {call_id for call_id, _ in each.calls}
    if waiting:
        raise _unanswered(waiting)


def check_results(sent: Sequence[Said], known: Awaited) -> Replay | None:
    """What becomes of the results with which new messages begin: None where they are waited for, all those
    of one turn; a `Replay` where they came before, and nothing after them. Raises `InvalidInput` for others,
    and where some are missing."""
    ids: list[str] = []
    for each in sent:
        if each.role != "tool":
            break
        ids.append(each.call_id)
    if not ids:
        return None
    for id in ids:
        if id not in known.waiting and id not in known.answered:
            raise _orphan(id)
    new = [id for id in ids if id in known.waiting]
    if not new:
        if len(ids) < len(sent):
            return None
        turn = known.answered[ids[-1]][0]
        return Replay(turn, max(known.answered[id][1] for id in ids))
    turn = known.waiting[new[0]]
    missing = {id for id, of in known.waiting.items() if of == turn} - set(new)
    if missing:
        raise _unanswered(missing)
    return None


class _Meeting:
    """Finds whether sent messages are the end of a log. After `_MOST` comparisons it finds nothing more, so
    that no request holds a thread for long."""

    def __init__(self, logged: Sequence[Logged], sent: Sequence[Said]) -> None:
        self._logged, self._sent = logged, sent
        self._left = _MOST

    def at(self, end: int, start: int, *, whole: bool = False) -> bool:
        """Whether those before `start` are the end of the log before `end`, at least one of them. There may
        be older ones in the log, and unless the `whole` of these is to be there, older ones than the log's
        too."""
        places = {start}
        for place in range(end - 1, -1, -1):
            each = self._logged[place]
            self._left -= len(places)
            if self._left < 0:
                return False
            before = {at - 1 for at in places if same(each.said, self._sent[at - 1])}
            if 0 in before:
                return True
            places = before | (places if not each.needed else set())
            if not places:
                return False
        return not whole and min(places) < start


def _mark(said: Said) -> object:
    """What a message is found by."""
    return said.call_id if said.role == "tool" else (said.role, said.text, said.calls)


def same(logged: Said, sent: Said) -> bool:
    """Whether the message that was sent is the one in the log."""
    if logged.role != sent.role:
        return False
    match sent.role:
        case "user":
            return logged.text == sent.text and logged.media == sent.media
        case "tool":
            return logged.call_id == sent.call_id
        case "assistant":
            cut = bool(sent.text) and logged.text.startswith(sent.text)
            return logged.calls == sent.calls and (cut or logged.text == sent.text)


def _ordered(found: list[Logged]) -> list[Logged]:
    """Results that come one after the other in the order of their calls' ids, for it means nothing."""
    ordered: list[Logged] = []
    for each in found:
        place = len(ordered)
        if each.said.role == "tool":
            while place and ordered[place - 1].said.role == "tool":
                if ordered[place - 1].said.call_id <= each.said.call_id:
                    break
                place -= 1
        ordered.insert(place, each)
    return ordered


def _ordered_said(sent: Sequence[Said]) -> list[Said]:
    wrapped = [Logged(said=each, turn="", first=0, last=0) for each in sent]
    return [each.said for each in _ordered(wrapped)]


def _folded(text: str) -> str:
    return " ".join(text.split())


def _media(content: Content) -> str:
    if isinstance(content, str):
        return ""
    others = [part for part in content if not isinstance(part, Text)]
    return hashlib.sha256(msgspec.json.encode(others)).hexdigest() if others else ""


def _orphan(call_id: str) -> InvalidInput:
    return InvalidInput(
        "a tool's result is of no call that is waited for",
        call=ascii(call_id)[:80],
        hint="send it after the message that made the call, in the same session",
    )


def _unanswered(missing: Iterable[str]) -> InvalidInput:
    hint = "send a message of the role `tool` for each"
    return InvalidInput("calls have no result", calls=ascii(sorted(missing))[:200], hint=hint)
