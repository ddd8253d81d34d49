"""A call is answered by exactly its result, right after the round of calls that it is of, in their order.

Every provider refuses a call without its result and a result without its call. A result is the call's that
has its id in the same turn: the last one before it that still waits, or the first of the turn when the
result was logged too early. One whose turn has no such call is late, as when the user spoke while a tool
ran: it is the last waiting call's with its id before it, in the order of the log.

What nothing answers gets a result that says so, marked synthetic and an error; what answers nothing is left
out, and so is a call that was logged twice: one of the same response, or one that nothing answers and whose
id its turn has had.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TypeAlias

from stratalog.context.invariants.contract import Entries, Seen, named, outside
from stratalog.context.invariants.responses import Response, one_response, response_of
from stratalog.types import Assistant, ToolCall, ToolResult, User

NO_RESULT = "[no result: the call was interrupted]"

_Answers: TypeAlias = dict[int, int | None]
_Key: TypeAlias = tuple[str | int, str]


class PairSafety:
    """See `contract.Invariant`."""

    name = "pair_safety"

    def violations(self, entries: Entries) -> list[str]:
        found: list[str] = []
        waiting: dict[str, ToolCall] = {}
        before: Seen | None = None
        for entry in entries:
            if isinstance(entry, ToolResult):
                if entry.call_id not in waiting:
                    found.append(f"{named(entry)} answers no call of the round before it")
                elif next(iter(waiting)) != entry.call_id:
                    found.append(f"{named(entry)} stands before that of an earlier call")
                waiting.pop(entry.call_id, None)
            else:
                same = isinstance(entry, ToolCall) and isinstance(before, ToolCall)
                if not (same and _of_one(before, entry)):
                    found += map(_unanswered, waiting.values())
                    waiting.clear()
                if isinstance(entry, ToolCall):
                    if entry.call_id in waiting:
                        found.append(f"{named(entry)} is made twice in one round")
                    waiting[entry.call_id] = entry
            before = entry
        return found + [_unanswered(call) for call in waiting.values()]

    def mended(self, entries: Entries) -> Entries:
        return _rounds(entries, _paired(entries)) if self.violations(entries) else entries

    def safe_cuts(self, entries: Entries) -> frozenset[int]:
        """A call and the result that is or would be its own are on one side."""
        pairs = [
            (min(call, result), max(call, result))
            for call, result in _paired(entries).items()
            if result is not None
        ]
        near = [
            (place - 1, place)
            for place in range(1, len(entries))
            if isinstance(entries[place - 1], ToolCall) or isinstance(entries[place], ToolResult)
        ]
        return outside(len(entries), [*pairs, *near])


def _of_one(earlier: object, later: object) -> bool:
    return isinstance(earlier, ToolCall) and isinstance(later, ToolCall) and one_response(earlier, later)


def _unanswered(call: ToolCall) -> str:
    return f"{named(call)} has no result right after its round"


def _paired(entries: Entries) -> _Answers:
    """The place of each call that is to be shown, and the place of its result, None when there is none."""
    answers: _Answers = {}
    turns = _Turns()
    last: ToolCall | None = None  # the last call that is shown, while nothing came after it
    run: set[str] = set()
    known: set[tuple[Response, str]] = set()
    for place, entry in enumerate(entries):
        key = turns.key(entry)
        if not isinstance(entry, ToolCall):
            last = None
            if isinstance(entry, ToolResult):
                turns.result(key, place, answers)
            continue
        if last is None or not one_response(last, entry):
            run.clear()
        response = response_of(entry)
        if entry.call_id in run or (response is not None and (response, entry.call_id) in known):
            continue
        last = entry
        run.add(entry.call_id)
        if response is not None:
            known.add((response, entry.call_id))
        turns.call(key, place, answers)
    _match_late(entries, answers, turns.late())
    for calls in turns.calls.values():
        for earlier, place in pairwise(calls):
            if answers[place] is None and not _two_responses(entries[earlier], entries[place]):
                del answers[place]
    return answers


class _Turns:
    """The calls of each turn by id, and the results that wait for one.

    Entries without a turn are of one turn from one message of the user to the next.
    """

    def __init__(self) -> None:
        self.calls: dict[_Key, list[int]] = {}
        self._waiting: dict[_Key, list[int]] = {}
        self._early: dict[_Key, list[int]] = {}
        self._users = 0

    def key(self, entry: Seen) -> _Key:
        self._users += isinstance(entry, User)
        call_id = entry.call_id if isinstance(entry, ToolCall | ToolResult) else ""
        return entry.turn or self._users, call_id

    def call(self, key: _Key, place: int, answers: _Answers) -> None:
        first = key not in self.calls
        self.calls.setdefault(key, []).append(place)
        early = self._early.pop(key, []) if first else []
        answers[place] = early[0] if early else None
        if not early:
            self._waiting.setdefault(key, []).append(place)

    def result(self, key: _Key, place: int, answers: _Answers) -> None:
        if key not in self.calls:
            self._early.setdefault(key, []).append(place)
        elif self._waiting.get(key):
            answers[self._waiting[key].pop()] = place

    def late(self) -> set[int]:
        """The results whose turn has no such call."""
        return {place for places in self._early.values() for place in places}


def _match_late(entries: Entries, answers: _Answers, late: set[int]) -> None:
    """In the order of the log where all have a place in it: a turn may stand before an older one."""
    waiting: dict[str, list[int]] = {}
    left = late | {call for call, result in answers.items() if result is None}
    logged = all(entries[place].seq for place in left)
    for place in sorted(left, key=lambda place: (entries[place].seq if logged else 0, place)):
        entry = entries[place]
        if isinstance(entry, ToolCall):
            waiting.setdefault(entry.call_id, []).append(place)
        elif isinstance(entry, ToolResult) and waiting.get(entry.call_id):
            answers[waiting[entry.call_id].pop()] = place


def _two_responses(earlier: Seen, later: Seen) -> bool:
    """Whether two calls say that they are of different responses."""
    one, other = response_of(earlier), response_of(later)
    return one is not None and other is not None and one != other


def _rounds(entries: Entries, answers: _Answers) -> Entries:
    """The entries with each round of calls followed by exactly its results."""
    seen: list[Seen] = []
    calls: dict[str, tuple[ToolCall, int | None]] = {}  # of the round that is open; the last in `seen`
    last: ToolCall | None = None
    answered = False  # whether a result came since the last call

    def close() -> None:
        for call, result in calls.values():
            seen.append(entries[result] if result is not None else _no_result(call))
        calls.clear()

    for place, entry in enumerate(entries):
        if isinstance(entry, ToolResult):
            answered = True
            continue
        if isinstance(entry, ToolCall):
            if place not in answers:
                continue
            going_on = _of_one(last, entry) and (bool(entry.response) or not answered)
            if not going_on or entry.call_id in calls:
                close()
            calls[entry.call_id] = (entry, answers[place])
            last, answered = entry, False
        elif calls and isinstance(entry, Assistant) and _words_of(entry, last):
            # The words of a response stand before its calls, for its results come right after those.
            seen.insert(len(seen) - len(calls), entry)
            continue
        else:
            close()
        seen.append(entry)
    close()
    return tuple(seen)


def _words_of(message: Assistant, call: ToolCall | None) -> bool:
    response = response_of(message)
    return response is not None and response == response_of(call)


def _no_result(call: ToolCall) -> ToolResult:
    return ToolResult(
        call_id=call.call_id,
        name=call.name,
        content=NO_RESULT,
        error=True,
        synthetic=True,
        turn=call.turn,
        ts=call.ts,
    )
