"""What a model sees of a log: a pure fold of its entries.

The last compaction stands for what it covers. Beside its summary are seen the entries that it names as kept,
and every entry from the first kept one on. Turns stand in the order in which they were started (or given up
unstarted), the unanswered messages that wait last. What the system said stays however old it is. A call and
its result are never parted: a call without a result gets one that says so, a result without a call is left
out. Only the view is mended; the log keeps what was said.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeAlias, TypeVar

import msgspec

from stratalog.types import (
    AnyEntry,
    Assistant,
    Compaction,
    System,
    ToolCall,
    ToolResult,
    TurnEnd,
    TurnStart,
    User,
)

Seen: TypeAlias = User | Assistant | ToolCall | ToolResult
_E = TypeVar("_E", bound=System | Compaction | User | Assistant | ToolCall | ToolResult)
NO_RESULT = "[no result: the call was interrupted]"


class TurnView(msgspec.Struct, frozen=True):
    """One turn as a model sees it. `turn` is its id, "" for entries that belong to none; `waiting` is a
    message that nobody has begun to answer; `running` is a turn that was started and has no end."""

    turn: str
    entries: tuple[Seen, ...]
    waiting: bool = False
    running: bool = False


class View(msgspec.Struct, frozen=True):
    """A log as a model may see it: the system's words, the summary of what is folded, and the turns after."""

    system: tuple[System, ...]
    summary: Compaction | None
    turns: tuple[TurnView, ...]

    def with_entries(self, by_seq: Mapping[int, AnyEntry]) -> View:
        """The same view with these entries in place of those of the same `seq`."""

        def new(entry: _E) -> _E:
            found = by_seq.get(entry.seq) if entry.seq else None
            return found if isinstance(found, type(entry)) else entry

        return View(
            tuple(map(new, self.system)),
            new(self.summary) if self.summary is not None else None,
            tuple(
                msgspec.structs.replace(turn, entries=tuple(map(new, turn.entries))) for turn in self.turns
            ),
        )


def view(entries: Iterable[AnyEntry]) -> View:
    """The view of entries given in order, from the log's beginning or from where `starts_at` says."""
    listed = list(entries)
    system = tuple(entry for entry in listed if isinstance(entry, System))
    summary, first, kept = _after_compaction(listed)
    return View(system, summary, tuple(_turns(listed, first, kept)))


def starts_at(newest_first: Iterable[AnyEntry]) -> list[AnyEntry]:
    """The entries that a view needs, in order, read from the end only as far back as that is."""
    needed: list[AnyEntry] = []
    wanted: set[str] | None = None
    for entry in newest_first:
        if isinstance(entry, Compaction) and wanted is None:
            wanted = {_seen_from(entry), *entry.kept}
        needed.append(entry)
        if wanted is not None:
            wanted.discard(entry.id)
            if not wanted:
                break
    return needed[::-1]


def split_rounds(entries: Iterable[Seen]) -> tuple[list[Seen], list[list[Seen]]]:
    """The messages that open a turn, and what follows cut where no call is parted from its result."""
    head: list[Seen] = []
    rounds: list[list[Seen]] = []
    answered = True
    for entry in entries:
        if not rounds and isinstance(entry, User):
            head.append(entry)
            continue
        starts = isinstance(entry, Assistant | User) or (isinstance(entry, ToolCall) and answered)
        if not rounds or (starts and not (isinstance(entry, ToolCall) and _calls_still(rounds[-1]))):
            rounds.append([])
        answered = isinstance(entry, ToolResult)
        rounds[-1].append(entry)
    return head, rounds


def _calls_still(entries: list[Seen]) -> bool:
    """Whether a round so far is a reply whose calls are still to come."""
    return not any(isinstance(entry, ToolResult) for entry in entries)


def _seen_from(compaction: Compaction) -> str:
    """The entry with which, or after which, everything is seen."""
    return compaction.first_kept or compaction.covers[1] or compaction.id


def _after_compaction(entries: list[AnyEntry]) -> tuple[Compaction | None, int, frozenset[str]]:
    """The latest compaction, the place from which all is seen, and the ids of what is seen before it.

    Earlier compactions are part of what the latest covers. What the view does not need, as `starts_at` says,
    is taken off the list, so that the view is the same with it and without.
    """
    last = next((entry for entry in reversed(entries) if isinstance(entry, Compaction)), None)
    if last is None:
        return None, 0, frozenset()
    needed = starts_at(reversed(entries))
    del entries[: len(entries) - len(needed)]
    mark = _seen_from(last)
    first = next((at for at, entry in enumerate(entries) if entry.id == mark), -1)
    if not last.first_kept:
        # The mark itself is covered. Where there is none, nothing before the compaction is seen.
        first = first + 1 if first >= 0 else entries.index(last)
    return last, max(first, 0), frozenset(last.kept)


def _turns(entries: list[AnyEntry], first: int, kept: frozenset[str]) -> list[TurnView]:
    """The entries by turn. A turn stands where it was started, or else where its first entry is.

    Those before the place `first` count for the order, but only those of `kept` are seen.
    """
    groups: dict[str | int, list[AnyEntry]] = {}  # by the turn, or by the place of the first entry
    order: dict[str | int, int] = {}
    waiting: set[str | int] = set()
    running: set[str | int] = set()
    alone: int | None = None
    for at, entry in enumerate(entries):
        if isinstance(entry, Compaction):
            continue
        name: str | int
        if entry.turn:
            alone, name = None, entry.turn
        elif isinstance(entry, User) or alone is None:
            # Entries without a turn: each message of the user begins a group.
            alone = name = at
        else:
            name = alone
        if name not in groups:
            groups[name] = []
            order[name] = at
            if isinstance(entry, User) and entry.turn:
                waiting.add(name)
        if name in waiting and not isinstance(entry, User):
            waiting.discard(name)
            if isinstance(entry, TurnStart | TurnEnd):
                order[name] = at
        if isinstance(entry, TurnStart) and entry.turn:
            running.add(name)
        elif isinstance(entry, TurnEnd):
            running.discard(name)
        if at >= first or entry.id in kept:
            groups[name].append(entry)
    ordered = sorted(groups, key=lambda name: (name in waiting, order[name]))
    late = _late_results(groups)
    turns = [
        TurnView(
            name if isinstance(name, str) else "",
            _paired(groups[name], late),
            name in waiting,
            name in running,
        )
        for name in ordered
    ]
    return [turn for turn in turns if turn.entries]


def _late_results(groups: Mapping[str | int, list[AnyEntry]]) -> dict[str, ToolResult]:
    """Results that came outside their call's group, as when the user spoke while a tool ran."""
    late: dict[str, ToolResult] = {}
    for entries in groups.values():
        called = {entry.call_id for entry in entries if isinstance(entry, ToolCall)}
        for entry in entries:
            if isinstance(entry, ToolResult) and entry.call_id not in called:
                late.setdefault(entry.call_id, entry)
    return late


def _paired(entries: list[AnyEntry], late: dict[str, ToolResult]) -> tuple[Seen, ...]:
    """The turn's entries with each round of calls followed by exactly its results.

    A result found in `late` is taken from there, so that it answers one call.
    """
    results: dict[str, ToolResult] = {}
    for entry in entries:
        if isinstance(entry, ToolResult):
            results.setdefault(entry.call_id, entry)
    seen: list[Seen] = []
    calls: list[ToolCall] = []  # of the round that is open; they are the last in `seen`
    called: set[str] = set()
    answered = False  # whether a result came since the last call

    def close_round() -> None:
        for call in calls:
            answer = results.get(call.call_id)
            if answer is None and call.call_id in late and late[call.call_id].seq > call.seq:
                answer = late.pop(call.call_id)
            seen.append(answer if answer is not None else _unanswered(call))
        calls.clear()

    for entry in entries:
        match entry:
            case ToolCall():
                if entry.call_id in called:
                    continue
                if calls and not _one_response(calls[-1], entry, answered):
                    close_round()
                called.add(entry.call_id)
                calls.append(entry)
                seen.append(entry)
                answered = False
            case ToolResult():
                answered = True
            case Assistant() if entry.content:
                if calls and entry.response and entry.response == calls[-1].response:
                    # The words of a response stand before its calls, for its results come right after those.
                    seen.insert(len(seen) - len(calls), entry)
                else:
                    close_round()
                    seen.append(entry)
            case User():
                close_round()
                seen.append(entry)
            case _:
                pass
    close_round()
    return tuple(seen)


def _one_response(earlier: ToolCall, later: ToolCall, answered: bool) -> bool:
    """Whether two calls came in one response: by what they say, or by no result between them."""
    if earlier.response or later.response:
        return earlier.response == later.response
    return not answered


def _unanswered(call: ToolCall) -> ToolResult:
    return ToolResult(
        call_id=call.call_id,
        name=call.name,
        content=NO_RESULT,
        error=True,
        synthetic=True,
        turn=call.turn,
        ts=call.ts,
    )
