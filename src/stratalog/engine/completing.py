"""What a request of a client comes to in a session's log: pure, by the log's entries and the request alone.

See `reconciling` for how the two are compared, and `proxying` for who does what is decided here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import msgspec
from msgspec.structs import replace

from stratalog.context.shapes.contract import Tool as Tool
from stratalog.engine.notes import ASKER
from stratalog.engine.reconciling import (
    COMPLETION,
    Branch,
    Extend,
    Plan,
    Replay,
    Sent,
    awaited,
    check_results,
    is_elsewhere,
    logged_of,
    reconcile,
    same,
)
from stratalog.engine.tuning import Options
from stratalog.errors import InvalidInput
from stratalog.ids import new_ulid
from stratalog.types import AnyEntry, Assistant, Note, ToolCall, ToolResult, TurnEnd, Usage, User

AGAIN_MS: Final = 900_000  # how long after a reply a request that is sent again is answered with it
KEYS_MS: Final = 86_400_000  # how long a key of a request is looked for
BRANCH: Final = "branch"  # notes in a session: which others part from it, and
SYSTEM: Final = "client_system"  # what the client's system messages say


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """A request. `system` is None where it has no system message; `again` says that it was sent before, `key`
    and `digest` which one it is; `named` that the client chose the session; `memory` that the model is
    offered the tools of its memory too; `model` answers instead of the agent's."""

    messages: tuple[Sent, ...]
    system: str | None = None
    tools: tuple[Tool, ...] = ()
    options: Options = Options()
    model: str = ""
    key: str = ""
    digest: str = ""
    again: bool = False
    named: bool = True
    memory: bool = False


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """A reply: its words of all rounds, and the calls that the client performs. `at` is milliseconds UTC."""

    turn: str
    entry: str
    at: int
    text: str
    model: str
    calls: tuple[ToolCall, ...] = ()
    stop: str = "end"
    refusal: bool = False
    usage: Usage | None = None


class Go(NamedTuple):
    """The turn to go on with once these are logged."""

    turn: str
    entries: list[AnyEntry]


def plan_of(entries: Sequence[AnyEntry], asked: Asked, now: int) -> Plan:
    """What to do with the request in a session whose log ends so. Raises `InvalidInput` for a key that was
    used for another request."""
    if asked.key:
        known = _keyed(entries, asked.key, now)
        if known is not None:
            mark = (known.meta or {})[COMPLETION]
            if mark.get("digest") != asked.digest:
                raise InvalidInput("this key was used for another request", hint="give each its own")
            return Replay(known.turn, known.seq)
    logged = logged_of(entries)
    again = asked.again and bool(logged) and logged[-1].ts > now - AGAIN_MS
    return reconcile(logged, [each.said for each in asked.messages], again=again)


def decide(entries: Sequence[AnyEntry], asked: Asked, user: str, now: int) -> Go | Answer | Branch:
    """The turn that answers the request, with what is to be logged for it; or the reply, which is there; or
    where it parts from this log.

    Raises `InvalidInput`, also for results that nobody waits for any more.
    """
    plan = plan_of(entries, asked, now)
    sent = asked.messages
    if isinstance(plan, Branch):
        return plan
    if isinstance(plan, Extend) and plan.start < len(sent):
        new = [each.said for each in sent[plan.start :]]
        plan = check_results(new, awaited(entries)) or plan
    # Said once more what was said before: it is new, unless that waits for its reply still.
    anew = Extend(max(place for place, each in enumerate(sent) if each.said.role == "user" or not place))
    if isinstance(plan, Extend) and plan.start == len(sent):
        last = [each for each in logged_of(entries) if same(each.said, sent[-1].said)][-1]
        plan = Replay(last.turn, last.last) if last.turn in open_ours(entries) else anew
    if isinstance(plan, Replay):
        found = reply_in(entries, plan.turn, plan.after)
        if found is not None:
            return found
        if _open(entries, plan.turn):
            return Go(plan.turn, [])
        plan = anew
    return _appended(entries, sent[plan.start :], asked, user)


def _appended(entries: Sequence[AnyEntry], new: Sequence[Sent], asked: Asked, user: str) -> Go:
    """The new messages as entries: each of a user opens a turn, the last of which stays open."""
    known = awaited(entries)
    turn, replied = "", False
    made: list[AnyEntry] = []
    for place, each in enumerate(new):
        mark: dict[str, Any] = {COMPLETION: {}}
        if place == len(new) - 1 and asked.key:
            mark = {COMPLETION: {"key": asked.key, "digest": asked.digest}}
        for entry in each.entries:
            match entry:
                case User():
                    if turn:
                        made.append(TurnEnd(turn=turn, status="answered" if replied else "interrupted"))
                    turn, replied = new_ulid(), False
                    meta = {**(entry.meta or {}), **mark, **({ASKER: user} if user else {})}
                    made.append(replace(entry, id=turn, turn=turn, meta=meta))
                case ToolResult():
                    if entry.call_id in known.answered:
                        continue
                    turn = turn or known.waiting.get(entry.call_id, "")
                    made.append(replace(entry, turn=turn, meta={**(entry.meta or {}), **mark}))
                    replied = True
                case _:
                    made.append(replace(entry, turn=turn))
                    replied = replied or bool(turn)
    ends = [
        TurnEnd(turn=each, status="interrupted")
        for each in open_ours(entries)
        if each != turn and not any(other.turn == each for other in made)
    ]
    last = new[-1].said
    if last.role == "tool" and not any(isinstance(each, User) for each in made) and not _open(entries, turn):
        raise InvalidInput(
            "nobody waits for these results any more",
            hint="send a message of the user after them",
        )
    return Go(turn, [*ends, *made])


def reply_in(entries: Sequence[AnyEntry], turn: str, after: int) -> Answer | None:
    """The turn's reply after the entry of this number, where it has one that is whole: up to the next result
    of a client's tool."""
    part: list[AnyEntry] = []
    calls = {each.call_id for each in entries if isinstance(each, ToolCall) and is_elsewhere(each)}
    for entry in entries:
        if entry.turn != turn or entry.seq <= after:
            continue
        if isinstance(entry, ToolResult) and entry.call_id in calls:
            if part and _handed(part):
                break
            continue
        part.append(entry)
    done = any(isinstance(each, TurnEnd) and each.status == "answered" for each in part)
    return answer_of(turn, part) if done or _handed(part) else None


def parting(entry: AnyEntry) -> str:
    """The chat that a note tells of, which parts from this one; "" for any other entry."""
    told = entry.data if isinstance(entry, Note) and entry.kind == BRANCH else None
    chat = told.get("chat") if isinstance(told, dict) else None
    return chat if isinstance(chat, str) else ""


def answer_of(turn: str, part: Sequence[AnyEntry]) -> Answer | None:
    """The reply that these entries of a turn are; None for none."""
    said = [each for each in part if isinstance(each, Assistant)]
    if not said:
        return None
    meta = said[-1].meta or {}
    calls = tuple(each for each in part if isinstance(each, ToolCall) and is_elsewhere(each))
    stop = "tools" if calls else str(meta.get("stop", "end"))
    return Answer(
        turn=turn,
        entry=said[-1].id,
        at=said[0].ts,
        text="\n\n".join(each.text for each in said if each.text),
        model=said[-1].model,
        calls=calls,
        stop=stop,
        refusal=bool(meta.get("refusal")),
        usage=added([each.usage for each in said if each.usage is not None]),
    )


def system_of(entries: Sequence[AnyEntry], system: str | None, *, cut: bool) -> tuple[str, list[AnyEntry]]:
    """The client's system's words: those that it sent, or sent last. And what is to be noted of them, anew
    where the note would soon be too far back in a log that is not read whole."""
    notes = [place for place, each in enumerate(entries) if isinstance(each, Note) and each.kind == SYSTEM]
    note = entries[notes[-1]] if notes else None
    known = note.text if isinstance(note, Note) else ""
    words = known if system is None else system
    far = cut and bool(words) and (not notes or notes[-1] < len(entries) // 2)
    return words, [Note(kind=SYSTEM, text=words)] if words != known or far else []


def _handed(part: Sequence[AnyEntry]) -> bool:
    return any(isinstance(each, ToolCall) and is_elsewhere(each) for each in part)


def _open(entries: Sequence[AnyEntry], turn: str) -> bool:
    """Whether the turn has no end."""
    return bool(turn) and not any(isinstance(each, TurnEnd) and each.turn == turn for each in entries)


def open_ours(entries: Sequence[AnyEntry]) -> list[str]:
    """The turns of completions that have no end."""
    ours = [each.turn for each in entries if isinstance(each, User) and COMPLETION in (each.meta or {})]
    return [turn for turn in ours if _open(entries, turn)]


def _keyed(entries: Sequence[AnyEntry], key: str, now: int) -> User | ToolResult | None:
    for each in entries:
        if isinstance(each, User | ToolResult) and each.ts > now - KEYS_MS:
            mark = (each.meta or {}).get(COMPLETION)
            if isinstance(mark, dict) and mark.get("key") == key:
                return each
    return None


def rank(plan: Plan) -> tuple[int, int]:
    """How well the log goes with what was sent: the higher, the better."""
    match plan:
        case Replay():
            return 3, 0
        case Extend(start=start):
            return (2, start) if start else (0, 0)
        case Branch(start=start):
            return 1, start


def added(counted: Sequence[Usage]) -> Usage | None:
    """All of it together; None for nothing."""
    if not counted:
        return None
    return Usage(**{name: sum(getattr(each, name) for each in counted) for name in Usage.__struct_fields__})
