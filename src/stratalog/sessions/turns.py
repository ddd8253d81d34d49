"""Which turns of a session are not finished: a fold over its log.

A user's message opens a turn and waits (`queued`) until a holder starts it (`started`). A started turn whose
holder is gone was interrupted by a crash; the log alone cannot tell it from one that is running. A restart
leaves none.
"""

from __future__ import annotations

from typing import NamedTuple

from stratalog.sessions.meta import RESTART
from stratalog.types import AnyEntry, Note, TurnEnd, TurnStart, User


class OpenTurn(NamedTuple):
    """A turn without an end: its id, the message that opened it, and the fence of its holder (0: queued)."""

    turn: str
    message: User
    fence: int

    @property
    def started(self) -> bool:
        return self.fence > 0


class TurnBook:
    """The unfinished turns, oldest first. Advanced entry by entry; entries it has seen change nothing."""

    def __init__(self) -> None:
        self.seq = 0
        self._open: dict[str, OpenTurn] = {}

    def advance(self, entry: AnyEntry) -> None:
        if entry.seq <= self.seq:
            return
        self.seq = entry.seq
        if isinstance(entry, Note) and entry.kind == RESTART:
            self._open.clear()
            return
        turn = entry.turn
        if not turn:
            return
        if isinstance(entry, User) and turn not in self._open:
            self._open[turn] = OpenTurn(turn, entry, 0)
        elif isinstance(entry, TurnStart) and turn in self._open:
            self._open[turn] = self._open[turn]._replace(fence=entry.fence)
        elif isinstance(entry, TurnEnd):
            self._open.pop(turn, None)

    @property
    def open(self) -> list[OpenTurn]:
        return list(self._open.values())

    @property
    def queued(self) -> list[OpenTurn]:
        return [turn for turn in self._open.values() if not turn.started]

    @property
    def started(self) -> list[OpenTurn]:
        return [turn for turn in self._open.values() if turn.started]
