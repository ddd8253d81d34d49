"""A view that grows with its log: what is settled is folded once, and not again for every request.

A log is settled up to the end of a turn at which no other turn was open: what comes later changes nothing
before it. Where it would after all (a result that comes late, a turn that is gone on with), all is folded
anew; so it is where something is withdrawn. What this gives is always what `view` gives of the same entries.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from stratalog.context.view import (
    TurnView,
    View,
    going_on,
    needs,
    standing,
    starts_at,
    view,
    withdrawn_by,
)
from stratalog.types import AnyEntry, Compaction, System, ToolCall, ToolResult, TurnEnd

_STEP: Final = 64  # entries that are folded anew each time, before it pays to settle them


class Folding:
    """Made of what `starts_at` gives, and told every entry that the log has after it. Not for two threads at
    once."""

    def __init__(self, entries: Iterable[AnyEntry] = ()) -> None:
        self._entries: list[AnyEntry] = standing(entries)
        self.size = sum(map(_size, self._entries))  # bytes, about
        self._settled = 0  # the place before which all is settled
        self._turns: tuple[TurnView, ...] = ()
        self._summary: Compaction | None = None
        self._names: set[str] = set()
        self._withdrawn = False  # something was withdrawn that is among the entries still

    def __len__(self) -> int:
        return len(self.entries)

    @property
    def seq(self) -> int:
        """The number of the last entry it knows; 0 for none."""
        return self._entries[-1].seq if self._entries else 0

    @property
    def entries(self) -> Sequence[AnyEntry]:
        if self._withdrawn:  # all of it at once: many may be withdrawn one by one before anybody looks
            self._entries = standing(self._entries)
            self.size = sum(map(_size, self._entries))
            self._withdrawn = False
        return self._entries

    def add(self, entry: AnyEntry) -> bool:
        """One more entry; one that it knows changes nothing. False when its view needs entries that are not
        here, for a compaction shows again what an earlier one had folded: then it is of no more use."""
        if entry.seq <= self.seq:
            return True
        self._entries.append(entry)
        self.size += _size(entry)
        if isinstance(entry, Compaction):
            known = {each.id for each in self._entries}
            self._entries = starts_at(reversed(self.entries))
            self.size = sum(map(_size, self._entries))
            self._forget()
            return known.issuperset(needs(entry))
        if withdrawn_by(entry):
            self._withdrawn = True
            self._forget()
        return True

    def view(self) -> View:
        """The view of all its entries."""
        entries = self.entries
        new = entries[self._settled :]
        if self._settled and not _goes_on(self._names, new):
            self._forget()
            new = entries
        at = _settled_at(new)
        if at >= _STEP:
            self._settle(self._settled + at)
            new = entries[self._settled :]
        if not self._settled:
            return view(entries)
        system = tuple(entry for entry in entries if isinstance(entry, System))
        return View(system, self._summary, (*self._turns, *going_on(new, self._summary)))

    def _settle(self, at: int) -> None:
        """Folds what is settled before the place `at`, where there is no more than that."""
        if self._settled:
            more = self._entries[self._settled : at]
            self._turns += going_on(more, self._summary)
            self._names |= {entry.turn for entry in more}
        else:
            whole = view(self._entries[:at])
            self._turns, self._summary = whole.turns, whole.summary
            self._names = {entry.turn for entry in self._entries[:at]}
        self._settled = at
        if not _goes_on(self._names, self._entries[at:]):
            self._forget()

    def _forget(self) -> None:
        self._settled = 0
        self._turns, self._summary, self._names = (), None, set()


def _settled_at(entries: Sequence[AnyEntry]) -> int:
    """The last place before which every turn has ended, and no entry before it can still be gone on with."""
    opened: set[str] = set()
    found, compaction = 0, -1
    for at, entry in enumerate(entries):
        if isinstance(entry, Compaction):
            compaction = at
        if not entry.turn:
            continue
        if isinstance(entry, TurnEnd):
            opened.discard(entry.turn)
            if not opened:
                found = at + 1
        else:
            opened.add(entry.turn)
    # A view without its compaction is another.
    return found if found > compaction else 0


def _goes_on(names: set[str], entries: Sequence[AnyEntry]) -> bool:
    """Whether these entries, after what is settled with turns of these names, leave that as it is."""
    calls = {(entry.turn, entry.call_id) for entry in entries if isinstance(entry, ToolCall)}
    for entry in entries:
        if entry.turn and entry.turn in names:
            return False
        if isinstance(entry, ToolResult) and not (entry.turn and (entry.turn, entry.call_id) in calls):
            return False
    return True


def _size(entry: AnyEntry) -> int:
    return len(msgspec.json.encode(entry))
