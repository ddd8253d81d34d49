"""What a model sees of a log: a pure fold of its entries.

The last compaction stands for what it covers. Beside its summary are seen the entries that it names as kept,
and every entry from the first kept one on. Turns stand in the order in which they were started (or given up
unstarted), the unanswered messages that wait last. What the system said stays however old it is. A call and
its result are never parted: a call without a result gets one that says so, a result without a call is left
out. What a later note withdraws is not seen, as if it had not been said. Only the view is mended; the log
keeps what was said.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeVar

import msgspec

from stratalog.context.invariants import NO_RESULT, WITHIN, Seen, mend
from stratalog.context.invariants.responses import one_response, response_of
from stratalog.context.memory_words import by_model, change_rendered
from stratalog.errors import InvalidInput
from stratalog.types import (
    AnyEntry,
    Assistant,
    Compaction,
    Note,
    System,
    ToolCall,
    ToolResult,
    TurnEnd,
    TurnStart,
    User,
    WorkingMemory,
)

__all__ = [
    "NO_RESULT",
    "Seen",
    "TurnView",
    "View",
    "split_rounds",
    "standing",
    "starts_at",
    "view",
    "withdrawal",
    "withdrawn_by",
]

WITHDRAWN: Final = "withdrawn"
_SAID = (System, User, Assistant, ToolCall, ToolResult)
_TOLD = {"injected": True}
_E = TypeVar("_E", bound=System | Compaction | User | Assistant | ToolCall | ToolResult)


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

    def quoting(self, recalled: Mapping[str, User]) -> View:
        """The same view with what was recalled for turns, by their ids, before the message that each begins
        with; but not for the newest. It has no place in the log: its `seq` is 0."""
        turns = [
            msgspec.structs.replace(turn, entries=(recalled[turn.turn], *turn.entries))
            if turn.turn in recalled and turn.entries and isinstance(turn.entries[0], User)
            else turn
            for turn in self.turns[:-1]
        ]
        return msgspec.structs.replace(self, turns=(*turns, *self.turns[-1:]))


def view(entries: Iterable[AnyEntry]) -> View:
    """The view of entries given in order, from the log's beginning or from where `starts_at` says."""
    listed = standing(entries)
    system = tuple(entry for entry in listed if isinstance(entry, System))
    summary, first, kept = _after_compaction(listed)
    at = summary.seq if summary is not None else 0
    return View(system, summary, tuple(_turns(listed, first, kept, at)))


def going_on(entries: Iterable[AnyEntry], summary: Compaction | None) -> tuple[TurnView, ...]:
    """The turns of entries that come after those of a view with this summary, and leave its turns as they
    are."""
    return tuple(_turns(list(entries), 0, frozenset(), summary.seq if summary is not None else 0))


def starts_at(newest_first: Iterable[AnyEntry]) -> list[AnyEntry]:
    """The entries that a view needs, in order, read from the end only as far back as that is."""
    needed: list[AnyEntry] = []
    wanted: set[str] | None = None
    for entry in newest_first:
        if isinstance(entry, Compaction) and wanted is None:
            wanted = needs(entry)
        needed.append(entry)
        if wanted is not None:
            wanted.discard(entry.id)
            if not wanted:
                break
    return needed[::-1]


def needs(compaction: Compaction) -> set[str]:
    """The ids of the entries without which what a compaction leaves in view cannot be told."""
    return {_seen_from(compaction), *compaction.kept}


def withdrawal(entries: Iterable[AnyEntry], meta: dict[str, Any] | None = None) -> Note:
    """A note that takes these entries out of what a model sees, from its place in their log on. They are
    messages, calls and results as they are stored. Raises `InvalidInput` for any other."""
    listed = list(entries)
    for entry in listed:
        if not entry.id or not isinstance(entry, _SAID):
            raise InvalidInput(
                "only messages, calls and results that are in the log can be withdrawn",
                entry=type(entry).__name__,
            )
    data = {"entries": [entry.id for entry in listed]}
    system = [entry.id for entry in listed if isinstance(entry, System)]
    return Note(kind=WITHDRAWN, data=data | ({"system": system} if system else {}), meta=meta)


def withdrawn_by(entry: AnyEntry) -> frozenset[str]:
    """The ids of the entries that a note withdraws; of one that somebody else wrote what can be read."""
    if not isinstance(entry, Note) or entry.kind != WITHDRAWN or not isinstance(entry.data, dict):
        return frozenset()
    told = entry.data.get("entries")
    listed = told if isinstance(told, list | tuple) else ()
    return frozenset(each for each in listed if isinstance(each, str))


def standing(entries: Iterable[AnyEntry]) -> list[AnyEntry]:
    """The entries, with a blank note in the place of each that a later one of them withdraws: nothing is seen
    there, and what is named by an id still finds its place."""
    listed = list(entries)
    gone: set[str] = set()
    for place in range(len(listed) - 1, -1, -1):
        entry = listed[place]
        if entry.id in gone and isinstance(entry, _SAID):
            listed[place] = Note(seq=entry.seq, id=entry.id, ts=entry.ts, turn=entry.turn, kind=WITHDRAWN)
        elif isinstance(entry, Note):
            gone |= withdrawn_by(entry)
    return listed


def split_rounds(entries: Iterable[Seen]) -> tuple[list[Seen], list[list[Seen]]]:
    """The messages that open a turn, and what follows cut where no call is parted from its result, and no
    response from its reasoning."""
    head: list[Seen] = []
    rounds: list[list[Seen]] = []
    answered = True
    for entry in entries:
        if not rounds and isinstance(entry, User):
            head.append(entry)
            continue
        starts = isinstance(entry, Assistant | User) or (isinstance(entry, ToolCall) and answered)
        if not rounds or (starts and not _same_response(rounds[-1], entry)):
            rounds.append([])
        answered = isinstance(entry, ToolResult)
        rounds[-1].append(entry)
    return head, rounds


def _same_response(entries: list[Seen], entry: Seen) -> bool:
    """Whether the entry is of the reply that a round is so far: a call of it, or what says so itself."""
    if isinstance(entry, ToolCall):
        return not any(isinstance(each, ToolResult) for each in entries)
    return response_of(entry) is not None and response_of(entry) == response_of(entries[-1])


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


def _turns(entries: list[AnyEntry], first: int, kept: frozenset[str], at_compaction: int) -> list[TurnView]:
    """The entries by turn. A turn stands where it was started, or else where its first entry is.

    Those before the place `first` count for the order, but only those of `kept` are seen. Changes of memory
    up to the entry numbered `at_compaction` are in the blocks that were made then.
    """
    groups: dict[str | int, list[Seen]] = {}  # by the turn, or by the place of the first entry
    order: dict[str | int, int] = {}
    waiting: set[str | int] = set()
    running: set[str | int] = set()
    alone: int | None = None
    for at, entry in enumerate(entries):
        if isinstance(entry, Compaction) or (isinstance(entry, Note) and entry.kind == WITHDRAWN):
            continue
        shown = _shown(entry, at_compaction)
        name: str | int
        if entry.turn:
            alone, name = None, entry.turn
        elif isinstance(shown, User) or alone is None:
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
        if shown is not None and (at >= first or entry.id in kept):
            groups[name].append(shown)
    ordered = sorted(groups, key=lambda name: (name in waiting, order[name]))
    mended = _mended([(name, entry) for name in ordered for entry in groups[name]])
    return [
        TurnView(name if isinstance(name, str) else "", tuple(mended[name]), name in waiting, name in running)
        for name in ordered
        if name in mended
    ]


def _shown(entry: AnyEntry, at_compaction: int) -> Seen | None:
    """The entry as a model sees it among the turns; None for one that it does not see there."""
    match entry:
        case Assistant():
            return entry if entry.content else None
        case User() | ToolCall() | ToolResult():
            return entry
        case WorkingMemory() | Note() if entry.seq > at_compaction:
            # What the model changed by its own tools it has seen; of the rest it must be told.
            words = "" if by_model(entry) else change_rendered(entry)
            told = User(seq=entry.seq, id=entry.id, ts=entry.ts, turn=entry.turn, content=words, meta=_TOLD)
            return told if words else None
        case _:
            return None


def _mended(listed: list[tuple[str | int, Seen]]) -> dict[str | int, list[Seen]]:
    """What is listed in its groups, each call with its result. What came late is in its call's group."""
    home = {id(entry): name for name, entry in listed}
    groups: dict[str | int, list[Seen]] = {}
    before: Seen | None = None
    name: str | int = ""
    for entry in mend(tuple(entry for _, entry in listed), WITHIN):
        if not isinstance(entry, ToolResult) and not _same_round(before, entry):
            name = home[id(entry)]
        groups.setdefault(name, []).append(entry)
        before = entry
    return groups


def _same_round(earlier: Seen | None, later: Seen) -> bool:
    """Whether a provider takes two neighbours for parts of one response, which no group may part."""
    if isinstance(earlier, ToolCall) and isinstance(later, ToolCall):
        return one_response(earlier, later)
    return response_of(later) is not None and response_of(later) == response_of(earlier)
