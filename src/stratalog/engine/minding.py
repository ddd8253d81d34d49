"""When a mind is told of turns, and when its words are frozen: decided by the session's log alone.

The notes are those of docs/decisions/0012. A turn begins with a note of from where on turns are to be
remembered, once a session, one of the memory blocks that stand before the conversation until the next
compaction, and one of what was recalled, as hashes, so that the turn after it, in another process too, has it
in its place and not once more. After a turn all that is due is done in order, and noted: what a crash left
undone, the next turn or the next pass in the background does.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Final, Protocol
from weakref import WeakValueDictionary

import msgspec
from msgspec.structs import replace

from stratalog.engine.notes import (
    RECALLED,
    Blocks,
    blocks_note,
    blocks_of,
    recalled_note,
    remembered_note,
    tag_of,
    tags_in,
)
from stratalog.engine.session import Session
from stratalog.errors import StaleFence
from stratalog.keys import SessionKey
from stratalog.types import AnyEntry, Note, TurnEnd, TurnStart, User

_TRIES: Final = 5


class Knows(Protocol):
    """What is asked of a mind here; see `agents.Mind`."""

    def blocks(self, session: Session, shown: Blocks | None) -> Blocks | None: ...

    def after(self, session: Session, turn: str) -> str: ...


def frozen(session: Session) -> Blocks | None:
    """What the session's model is shown since the last compaction; None when that is to be frozen anew."""
    meta = session.meta
    if not meta.blocks or meta.blocks < meta.compacted:
        return None
    note = next(session.entries(after=meta.blocks - 1, before=meta.blocks + 1), None)
    return blocks_of(note) if isinstance(note, Note) else None


def beginning_notes(session: Session, mind: Knows, message: int) -> list[AnyEntry]:
    """What is to be logged before the session's first turn that a mind is told of, whose message has the
    number `message`."""
    return [] if session.meta.remembered else [remembered_note(message)]


def freezing_notes(session: Session, mind: Knows) -> list[AnyEntry]:
    """What is to be logged where memory blocks are to be frozen, or say what does not hold any more."""
    shown = frozen(session)
    blocks = mind.blocks(session, shown)
    if blocks is None or blocks == shown:
        return []
    return [blocks_note(blocks)]


class Before(msgspec.Struct, frozen=True):
    """The start of the turn under way, None where none is; the turn before it, its message, and what it was
    shown of what is remembered, as tags."""

    start: TurnStart | None = None
    turn: str = ""
    said: str = ""
    tags: frozenset[str] = frozenset()


def shown_before(session: Session) -> Before:
    """Read from the end of the log, no further back than the turn before. What the turn under way was shown
    itself does not count: begun again after a crash, it is shown the same."""
    start = before = None
    ended = False
    said = ""
    tags: dict[str, frozenset[str]] = {}
    for entry in session.entries(reverse=True, blobs=False):
        if isinstance(entry, TurnEnd):
            ended = True
        elif isinstance(entry, Note) and entry.kind == RECALLED:
            tags.setdefault(entry.turn, tags_in(entry))
        elif isinstance(entry, TurnStart) and entry.turn and (start is None or entry.turn != start.turn):
            if before is None:
                start, before = (start, entry) if start is not None or ended else (entry, None)
            elif entry.turn != before.turn and not tags.get(before.turn):
                break  # else its message is sought on: it may have waited for other turns
        elif isinstance(entry, User) and before is not None and entry.turn == before.turn:
            said = entry.text
            break
    if before is None:
        return Before(start)
    return Before(start, before.turn, said, tags.get(before.turn, frozenset()))


def note_shown(session: Session, start: TurnStart, ids: Iterable[str]) -> None:
    """Logs what the turn that began there is shown. Raises `StaleFence` once the session was taken from
    it."""
    note = replace(recalled_note(map(tag_of, ids)), turn=start.turn)
    session.append(note, fence=start.fence)


def due(session: Session) -> list[TurnEnd]:
    """The ends of the answered turns that are still to be remembered, in order."""
    meta = session.meta
    if not 0 < meta.remembered < meta.answered:
        return []
    return _answered(session.entries(after=meta.remembered, blobs=False, generations="all"))


def _answered(entries: Iterable[AnyEntry]) -> list[TurnEnd]:
    return [each for each in entries if isinstance(each, TurnEnd) and each.status == "answered"]


def remember_due(session: Session, mind: Knows) -> Sequence[str]:
    """Tells the mind of each turn that is due, and notes that it was; what went wrong that the mind itself
    keeps to be tried again. What it raises ends it there: that turn stays due."""
    with _lock_of(session.key):
        told = []
        for end in due(session):
            told.append(mind.after(session, end.turn))
            _note(session, end)
    return [each for each in told if each]


def _note(session: Session, end: TurnEnd) -> None:
    """Notes that the turn is remembered, if it is still there: a log that was purged meanwhile is not made
    anew for it. Where others begin turns again and again, it stays due, which does no harm."""
    for _ in range(_TRIES):
        fence = session.fence
        place = session.entries(after=end.seq - 1, before=end.seq + 1, blobs=False, generations="all")
        there = next(place, None)
        if there is None or there.id != end.id:
            return
        with suppress(StaleFence):
            session.append(remembered_note(end.seq), fence=fence)
            return


_locks: WeakValueDictionary[SessionKey, threading.Lock] = WeakValueDictionary()


def _lock_of(key: SessionKey) -> threading.Lock:
    """One for each session: of two turns that end together one does what is due of both."""
    return _locks.setdefault(key, threading.Lock())
