"""One session as its user has it: messages, turns, context, and what a list shows of it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import Literal

import msgspec

from stratalog.config import Settings
from stratalog.context.budget import Context, fit
from stratalog.context.view import starts_at, view
from stratalog.engine.strata import Strata
from stratalog.engine.turn import Status, Turn
from stratalog.errors import NotFound, SessionBusy, SessionExists
from stratalog.ids import new_ulid
from stratalog.keys import SessionKey
from stratalog.log.contract import LogStore, Reading, Seals
from stratalog.sessions.manager import Live, SessionManager, Taken, Tenure
from stratalog.sessions.meta import FORK, RESTART, SessionMeta, advance
from stratalog.sessions.turns import OpenTurn, TurnBook
from stratalog.tokens.rough import count_entry
from stratalog.types import (
    AnyEntry,
    Compaction,
    Content,
    Note,
    Pin,
    System,
    Title,
    TurnEnd,
    TurnStart,
    User,
    WorkingMemory,
)

_SHOWN = (Title, Pin, TurnEnd, WorkingMemory)


class Restart(msgspec.Struct, frozen=True):
    """Whether a restart took place; if not, within how many seconds to ask again to confirm it."""

    done: bool
    confirm_within: float = 0.0


class Arrival(msgspec.Struct, frozen=True):
    """A message that is in the log: the turn it opens, and how many turns are before it."""

    turn: str
    message: User
    ahead: int


class Session:
    """Got from `Stratalog.session`; costs nothing until it is used. Safe to use from several threads."""

    def __init__(
        self, key: SessionKey, store: LogStore, manager: SessionManager, strata: Strata, settings: Settings
    ) -> None:
        self.key = key
        self._store = store
        self._manager = manager
        self._strata = strata
        self._settings = settings

    # --- writing ---

    def append(self, *entries: AnyEntry) -> list[AnyEntry]:
        """Appends entries as they are, outside any turn unless they name one; durable on return."""
        return self._write(list(entries), None)

    def submit(self, content: Content, *, meta: dict[str, object] | None = None) -> Arrival:
        """Logs a user's message at once, whoever holds the session; it waits to be taken by `next`."""
        (message,) = self._write([_opening(content, meta)], None)
        assert isinstance(message, User)
        live = self._caught_up()
        ahead = sum(1 for turn in live.turns.open if turn.message.seq < message.seq)
        return Arrival(message.turn, message, ahead)

    def turn(
        self,
        content: Content,
        *,
        meta: dict[str, object] | None = None,
        wait: float | None = None,
        deadline: float | None = None,
    ) -> Turn:
        """A turn that this message opens. The message is in the log before any wait.

        Waits until the turn that holds the session ends, at most `wait` seconds (None: as long as it takes,
        for a holder loses it at its deadline anyhow). `deadline`, seconds, is how long this one may hold it.
        Raises `SessionBusy` when the wait is over; the message stays queued.
        """
        try:
            return self.turn_now(content, meta=meta, deadline=deadline)
        except SessionBusy:
            arrival = self.submit(content, meta=meta)
        return self.start(arrival.turn, wait=wait, deadline=deadline)

    def turn_now(
        self, content: Content, *, meta: dict[str, object] | None = None, deadline: float | None = None
    ) -> Turn:
        """A turn that this message opens, if nobody holds the session or waits for it.

        Raises `SessionBusy`, with nothing written.
        """
        message = _opening(content, meta)
        live = self._live()
        taken = self._manager.take(live, message.turn, deadline or self._settings.lock_deadline, 0)
        return self._begin(live, taken, message)

    def next(self, *, wait: float = 0, deadline: float | None = None) -> Turn | None:
        """The turn that the oldest waiting message opens; None when none waits. Raises `SessionBusy`."""
        if not self._caught_up().turns.queued:
            return None
        live = self._live()
        taken = self._manager.take(live, "", deadline or self._settings.lock_deadline, wait)
        return self._begin_held(live, taken, None)

    def start(self, turn: str, *, wait: float | None = None, deadline: float | None = None) -> Turn:
        """Begins, or resumes, the unfinished turn with this id. Raises `NotFound`, `SessionBusy`."""
        live = self._live()
        taken = self._manager.take(live, turn, deadline or self._settings.lock_deadline, wait)
        begun = self._begin_held(live, taken, turn)
        if begun is None:
            raise NotFound("the session has no such unfinished turn", key=str(self.key), turn=turn)
        return begun

    def abort(self) -> bool:
        """Ends the running turn: what it wrote is kept, what it would write is refused. False: none ran."""
        live = self._caught_up()
        running = live.turns.started
        if live.tenure is None and not running:
            return False
        # A TurnStart that belongs to no turn takes the session from whoever has it, in any process.
        ends: list[AnyEntry] = [TurnEnd(turn=turn.turn, status="aborted") for turn in running]
        self._write([*ends, TurnStart(holder="abort")], None)
        self._manager.revoke(live, "aborted", "idle")
        return True

    def restart(self, *, force: bool = False) -> Restart:
        """Starts the history anew; title and pin stay, and the old history stays readable in the archive.

        While a turn runs, the first call only asks: the second within `restart_window` seconds, or `force`,
        aborts the turn. Raises `NotFound`.
        """
        live = self._caught_up()
        self._must_exist()
        busy = live.tenure is not None or bool(live.turns.started)
        if busy and not force and not self._manager.confirm_restart(live, self._settings.restart_window):
            return Restart(False, self._settings.restart_window)
        ends: list[AnyEntry] = [
            TurnEnd(turn=turn.turn, status="aborted" if turn.started else "interrupted")
            for turn in live.turns.open
        ]
        self._write([*ends, TurnStart(holder="restart")], None)
        self._store.replace(self.key, [Note(kind=RESTART)])
        live.turns.clear()
        self._manager.revoke(live, "restarted", "idle")
        self._save(self._caught_up())
        return Restart(True)

    def close_unfinished(self) -> list[str]:
        """Ends as interrupted the turns that a crash left, queued ones too; returns their ids.

        Raises `SessionBusy` while a turn runs.
        """
        live = self._live()
        taken = self._manager.take(live, "", self._settings.lock_deadline, 0)
        try:
            left = [turn.turn for turn in self._caught_up().turns.open]
            self._write([TurnEnd(turn=turn, status="interrupted") for turn in left], None)
        finally:
            self._manager.release(live, taken.tenure)
        return left

    def set_title(
        self, title: str, *, by: Literal["user", "auto", "model", "import"] = "user"
    ) -> SessionMeta:
        """Names the session. What the user chose is never replaced by another's choice. Raises `NotFound`."""
        self._must_exist()
        self._write([Title(title=title, by=by)], None)
        return self.meta

    def pin(self, pinned: bool = True) -> SessionMeta:
        """Lists the session before those that are not pinned. Raises `NotFound`."""
        self._must_exist()
        self._write([Pin(pinned=pinned)], None)
        return self.meta

    def fork(self, to: SessionKey, *, at: str | int | None = None) -> Session:
        """A new session with this one's current history up to the entry `at` (its id or seq; all of it).

        Entries keep their ids and times. Turns that are not finished there end as interrupted.
        Raises `NotFound`, `SessionExists`.
        """
        self._must_exist()
        if self._store.head(to) is not None:
            raise SessionExists("there is a session already", key=str(to), hint="choose another key")
        last = self._find(at) if at is not None else None
        self._store.replace(to, self._forked(last))
        return Session(to, self._store, self._manager, self._strata, self._settings)

    def delete(self) -> bool:
        """Removes the session with all that belongs to it, and from every stratum. False: there was none."""
        there = self._store.delete(self.key)
        self._manager.drop(self.key)
        self._strata.forget(self.key)
        return there

    # --- reading ---

    @property
    def exists(self) -> bool:
        return self._store.head(self.key) is not None

    @property
    def status(self) -> Literal["idle", "processing", "error"]:
        """`processing` while a turn of this process holds it; `error` after one was taken for its deadline."""
        live = self._manager.find(self.key)
        return live.status if live is not None else "idle"

    @property
    def meta(self) -> SessionMeta:
        """Title, pin, times and counts, as of now."""
        return self._caught_up().meta

    def entries(
        self,
        *,
        after: int = 0,
        before: int | None = None,
        reverse: bool = False,
        blobs: bool = True,
        generations: Literal["current", "all"] = "current",
    ) -> Reading:
        """The session's entries; see `LogStore.read`."""
        return self._store.read(
            self.key, after=after, before=before, reverse=reverse, blobs=blobs, generations=generations
        )

    def unfinished(self) -> list[OpenTurn]:
        """The turns that have no end: those that wait, and those that run or were cut short by a crash."""
        return self._caught_up().turns.open

    def context(self, budget: int | None = None, *, system: str | None = None) -> Context:
        """What a model should see, within `budget` tokens (roughly counted; the agent's setting by default).

        `system` goes before the system messages in the log. Raises `ContextOverflow`.
        """
        reading = self._store.read(self.key, reverse=True, blobs=False)
        seen = view(starts_at(reading))
        if system:
            seen = msgspec.structs.replace(seen, system=(System(content=system), *seen.system))
        return fit(seen, budget or self._settings.context_budget, count_entry)

    # --- how ---

    def _live(self) -> Live:
        return self._manager.touch(
            self.key, lambda: self._strata.load_meta(self.key), self._settings.idle_ttl
        )

    def _write(self, entries: list[AnyEntry], fence: int | None) -> list[AnyEntry]:
        live = self._live()
        stored = self._store.append(self.key, entries, fence=fence)
        with live.changed:
            if stored and stored[0].seq == live.meta.seq + 1:
                self._learn(live, stored)
            if any(isinstance(entry, _SHOWN) for entry in stored):
                self._save(self._caught_up())
        compaction = next((entry for entry in reversed(stored) if isinstance(entry, Compaction)), None)
        if compaction is not None and isinstance(self._store, Seals):
            # What it covers is out of the way of the next opening, and still readable.
            self._store.seal(self.key, compaction.first_kept or compaction.id)
            self._store.compress(self.key)
        return stored

    def _learn(self, live: Live, entries: Iterable[AnyEntry]) -> None:
        for entry in entries:
            live.meta = advance(live.meta, entry, self._settings.title_length)
            if live.turns_known:
                live.turns.advance(entry)
        live.saved = False

    def _caught_up(self) -> Live:
        """The live session with what any process has written."""
        live = self._live()
        with live.changed:
            if not live.turns_known:
                book = TurnBook()
                for entry in starts_at(self._store.read(self.key, reverse=True, blobs=False)):
                    book.advance(entry)
                live.turns, live.turns_known = book, True
            new = self._store.read(self.key, after=live.meta.seq, blobs=False, generations="all")
            self._learn(live, new)
        return live

    def _save(self, live: Live) -> None:
        if not live.saved and live.meta.seq:
            self._strata.save_meta(live.meta, self.key)
            live.saved = True

    def _begin_held(self, live: Live, taken: Taken, turn: str | None) -> Turn | None:
        """The unfinished turn `turn`, or the first that waits, begun under a session that is held."""
        done = False
        try:
            turns = self._caught_up().turns
            waiting = turns.queued if turn is None else [open for open in turns.open if open.turn == turn]
            if not waiting:
                return None
            begun = self._begin(live, taken, waiting[0].message)
            done = True
            return begun
        finally:
            if not done:
                self._manager.release(live, taken.tenure)

    def _begin(self, live: Live, taken: Taken, message: User) -> Turn:
        """Logs the end of what was cut short, the message if it is new, and the start, all at once."""
        tenure = taken.tenure
        done = False
        try:
            late = taken.from_overdue.turn if taken.from_overdue is not None else None
            entries: list[AnyEntry] = []
            for cut in self._caught_up().turns.started:
                if cut.turn != message.turn:
                    timed_out = taken.took_over or cut.turn == late
                    status: Status = "timed_out" if timed_out else "interrupted"
                    entries.append(TurnEnd(turn=cut.turn, status=status))
            if not message.seq:
                entries.append(message)
            entries.append(TurnStart(turn=message.turn, holder=f"pid {os.getpid()}"))
            stored = self._write(entries, None)
            start = stored[-1]
            assert isinstance(start, TurnStart)
            tenure.fence, tenure.turn = start.fence, message.turn
            if not message.seq:
                opened = stored[-2]
                assert isinstance(opened, User)
                message = opened
            done = True
        finally:
            if not done:
                self._manager.release(live, tenure)
        return Turn(message, tenure, self._write, self._end, self._turn_context)

    def _end(self, tenure: Tenure, status: Status) -> None:
        live = self._live()
        self._manager.release(live, tenure, "idle" if status != "timed_out" else "error")

    def _turn_context(self, budget: int | None, system: str | None) -> Context:
        return self.context(budget, system=system)

    def _forked(self, last: int | None) -> Iterator[AnyEntry]:
        book = TurnBook()
        seq = 0
        before = None if last is None else last + 1
        for entry in self._store.read(self.key, before=before):
            book.advance(entry)
            seq = entry.seq
            yield entry
        yield from (TurnEnd(turn=turn.turn, status="interrupted") for turn in book.open)
        yield Note(kind=FORK, data={"parent": str(self.key), "seq": seq})

    def _find(self, at: str | int) -> int:
        """The seq of the entry with this id or seq, in the current history."""
        for entry in self._store.read(self.key, reverse=True, blobs=False):
            if at in (entry.seq, entry.id):
                return entry.seq
        raise NotFound("the session has no such entry now", key=str(self.key), entry=at)

    def _must_exist(self) -> None:
        if self._store.head(self.key) is None:
            raise NotFound(
                "there is no such session", key=str(self.key), hint="`stratalog sessions` lists them"
            )


def _opening(content: Content, meta: dict[str, object] | None) -> User:
    turn = new_ulid()
    return User(id=turn, turn=turn, content=content, meta=meta)
