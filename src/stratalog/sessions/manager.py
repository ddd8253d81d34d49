"""The live state of sessions: who holds which, who waits, what was asked. It is memory only.

Serial within a session, parallel across. Threads that want the same session wait in the order in which they
came; other processes are seen through the session's lock file. A holder past its deadline loses the session
to the next one that wants it. What is idle for longer than its time to live leaves memory, and before that
what was not used for longest where there are too many sessions or they weigh too much; but never one that is
waited for or held by one who may still hold it, nor one of which a restart may be confirmed. A forked child
begins with nothing: what is held is its parent's. Nothing here writes a log: the engine does, with what this
returns.
"""

from __future__ import annotations

import os
import sys
import threading
import time
import weakref
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from stratalog.errors import LogBusy, SessionBusy
from stratalog.keys import SessionKey
from stratalog.sessions import locks
from stratalog.sessions.locks import Held, Hold, Outsider
from stratalog.sessions.meta import SessionMeta
from stratalog.sessions.turns import TurnBook

Status = Literal["idle", "processing", "error"]
Lost = Literal["", "timed_out", "aborted", "restarted", "deleted", "taken", "forked"]
_POLL = 0.05


class Tenure:
    """One holder's time with a session, begun by `SessionManager.take` and ended by `release`.

    `lost` says why it ended before its holder ended it. `after_overdue` is the turn in this process that was
    past its time and from which the session was taken; `took_over` tells of one in another process.
    """

    def __init__(self, turn: str, deadline: float) -> None:
        self.turn = turn
        self.deadline = deadline
        self.until = 0.0
        self.fence = 0
        self.lost: Lost = ""
        self.hold: Hold | None = None
        self.live: Live | None = None  # that it is a tenure of, once it was asked for
        self.after_overdue = ""
        self.took_over = False


class Live:
    """What is known of one session while it is in memory."""

    def __init__(self, key: SessionKey, meta: SessionMeta, created_at: float) -> None:
        self.key = key
        self.created_at = created_at
        self.last_active = created_at
        self.status: Status = "idle"
        self.tenure: Tenure | None = None
        self.waiting: deque[Tenure] = deque()
        self.restart_asked: float | None = None
        self.restart_until = 0.0
        self.weight = 0
        self.changed = threading.Condition()
        self.ttl = 0.0
        self.learn_anew(meta)

    def learn_anew(self, meta: SessionMeta) -> None:
        """Forgets what was learned of the log, to begin again from `meta`."""
        self.meta = meta
        self.turns = TurnBook()
        self.turns_known = False
        self.saved = False  # whether meta.json says what `meta` says
        self.memo: object = None  # what the engine remembers of the log, to be quick


class SessionManager:
    """Live sessions. `lock_path` says where a session's lock file is, None where no other process can be.

    Idle ones stay while there are at most `most` sessions that together weigh at most `heaviest`, as `weigh`
    says when each is used. `clock` gives seconds for idleness and confirmation; deadlines use the machine's
    own clock.
    """

    def __init__(
        self,
        *,
        lock_path: Callable[[SessionKey], Path] | None,
        clock: Callable[[], float] = time.monotonic,
        on_evict: Callable[[Live], None] = lambda live: None,
        most: int = 1_000,
        heaviest: int = sys.maxsize,
        weigh: Callable[[Live], int] = lambda live: 0,
    ) -> None:
        self._lock_path = lock_path
        self._clock = clock
        self._on_evict = on_evict
        self._most, self._heaviest, self._weigh = most, heaviest, weigh
        self._weight = 0
        self._live: OrderedDict[SessionKey, Live] = OrderedDict()
        self._mutex = threading.RLock()
        self._swept = clock()
        _watch_forks(self)

    def __len__(self) -> int:
        return len(self._live)

    @property
    def weight(self) -> int:
        """What the sessions in memory weighed when each was used last."""
        return self._weight

    def find(self, key: SessionKey) -> Live | None:
        return self._live.get(key)

    def touch(self, key: SessionKey, meta: Callable[[], SessionMeta], ttl: float) -> Live:
        """The live session, made if it is not in memory, with its idle time begun anew.

        To be called by one who is in no live session's `changed`.
        """
        now = self._clock()
        live = self._live.get(key) or Live(key, meta(), now)
        with self._mutex:
            live = self._live.setdefault(key, live)
            live.last_active = now
            live.ttl = ttl
            self._live.move_to_end(key)
            weight = self._weigh(live)
            self._weight += weight - live.weight
            live.weight = weight
            due = now - self._swept > min(60.0, ttl)
            gone = self._make_room(live)
        for each in gone:
            self._on_evict(each)
        if due:
            self.sweep()
        return live

    def _make_room(self, used: Live) -> list[Live]:
        """Takes out of memory what was not used for longest until the bounds are kept, but never `used`, and
        nothing that is busy. The mutex is held."""
        gone: list[Live] = []
        if len(self._live) <= self._most and self._weight <= self._heaviest:
            return gone
        count, weight, now = len(self._live), self._weight, self._clock()
        for live in self._live.values():
            if count <= self._most and weight <= self._heaviest:
                break
            if live is not used and not live.waiting and live.tenure is None and live.restart_until < now:
                gone.append(live)
                count, weight = count - 1, weight - live.weight
        for live in gone:
            self._let_go(live)
        return gone

    def _let_go(self, live: Live) -> None:
        """Takes it out of memory. The mutex is held."""
        if self._live.get(live.key) is live:
            del self._live[live.key]
            self._weight -= live.weight
            live.weight = 0

    def sweep(self) -> int:
        """Lets what was idle for its time to live leave memory; returns how many did."""
        with self._mutex:
            now = self._swept = self._clock()
            idle = [live for live in self._live.values() if now - live.last_active > live.ttl]
        for live in idle:
            tenure = live.tenure
            if tenure is not None and tenure.until <= time.monotonic():
                # Its holder is gone without a word, and nobody wanted the session since.
                self.revoke(live, "timed_out", "error", tenure)
        gone = []
        with self._mutex:
            for live in idle:
                still = self._clock() - live.last_active > live.ttl
                if still and live.tenure is None and not live.waiting:
                    gone.append(live)
                    self._let_go(live)
        for live in gone:
            self._on_evict(live)
        return len(gone)

    def drop(self, key: SessionKey) -> None:
        """The session is gone: who holds it has lost it, and nothing is known of it."""
        live = self._live.get(key)
        if live is not None:
            with live.changed:
                live.learn_anew(SessionMeta(key=str(key)))
                live.restart_asked, live.restart_until = None, 0.0
                self.revoke(live, "deleted", "idle")

    def take(self, live: Live, tenure: Tenure, wait: float | None) -> None:
        """Gives the session to `tenure`, waiting at most `wait` seconds (None: as long as it takes).

        Raises `SessionBusy`, `StorageFailed`. The caller releases the tenure whatever happens.
        """
        give_up = None if wait is None else time.monotonic() + wait
        while not self._taken(live, tenure, give_up):
            live = self._live.get(live.key, live)

    def _taken(self, live: Live, tenure: Tenure, give_up: float | None) -> bool:
        """Gives the session to `tenure`; False when this is not what is known of it any more, for it was let
        go, and used again since."""
        with live.changed:
            live.waiting.append(tenure)
            try:
                with self._mutex:
                    if self._live.setdefault(live.key, live) is not live:
                        return False
                tenure.live = live
                while True:
                    pause: float | None = None
                    holder = live.tenure.turn if live.tenure is not None else ""
                    if live.waiting[0] is tenure:
                        busy = self._try(live, tenure)
                        if busy is None:
                            return True
                        pause, holder = busy
                    if give_up is not None:
                        left = give_up - time.monotonic()
                        if left <= 0:
                            raise SessionBusy(
                                "another turn holds the session",
                                key=str(live.key),
                                holder=holder,
                                hint="wait for it, abort it, or submit the message to be taken next",
                            )
                        pause = left if pause is None else min(pause, left)
                    live.changed.wait(pause)
            finally:
                live.waiting.remove(tenure)
                live.changed.notify_all()

    def _try(self, live: Live, tenure: Tenure) -> tuple[float, str] | None:
        """Gives the session to `tenure` if it can be had now; else for how long to wait, and for whom."""
        now = time.monotonic()
        old = live.tenure
        if old is not None and old.until > now:
            return old.until - now, old.turn
        hold = old.hold if old is not None else None
        try:
            kept = hold is not None and hold.renew(tenure.turn, tenure.deadline)
        except LogBusy:
            return _POLL, tenure.turn
        if old is not None:
            # Another process may have taken the name meanwhile; lost it is in any case.
            old.lost, old.hold = old.lost or "timed_out", None
            live.tenure, live.status = None, "error"
            tenure.after_overdue = old.turn
        if not kept:
            if hold is not None:
                hold.drop()
            hold = None
            if self._lock_path is not None:
                got = locks.take(self._lock_path(live.key), tenure.turn, tenure.deadline)
                if isinstance(got, Held):
                    return _POLL, got.holder or "another process"
                hold = got
        tenure.hold = hold
        tenure.took_over = hold is not None and hold.took_over and not kept
        tenure.until = time.monotonic() + tenure.deadline
        live.tenure = tenure
        live.status = "processing"
        return None

    def release(self, live: Live, tenure: Tenure, status: Status = "idle") -> None:
        """Ends a tenure; one that was lost already, or never began, changes nothing."""
        live = tenure.live or live
        with live.changed:
            if live.tenure is tenure:
                live.tenure = None
                live.status = status
                if not tenure.lost:
                    live.last_active = self._clock()
            hold, tenure.hold = tenure.hold, None
            if hold is not None:
                hold.release()
            live.changed.notify_all()

    def revoke(self, live: Live, why: Lost, status: Status, only: Tenure | None = None) -> bool:
        """Takes the session from its holder in this process (if that is `only`); False if it had none."""
        with live.changed:
            tenure = live.tenure
            if tenure is None or only not in (None, tenure):
                return False
            tenure.lost = why
            self.release(live, tenure, status)
            return True

    @contextmanager
    def outsider(self, live: Live) -> Iterator[Outsider | None]:
        """Who in another process holds the session, if anybody does."""
        own = live.tenure.hold if live.tenure is not None else None
        if self._lock_path is None or (own is not None and own.in_place):
            yield None
            return
        with locks.outsider(self._lock_path(live.key)) as found:
            yield found

    def confirm_restart(self, live: Live, window: float) -> bool:
        """Whether a restart was asked for within `window` seconds before; if not, it is now."""
        now = self._clock()
        with live.changed:
            asked, live.restart_asked, live.restart_until = live.restart_asked, now, now + window
            if asked is not None and now - asked <= window:
                live.restart_asked, live.restart_until = None, 0.0
                return True
            return False

    def close(self) -> None:
        """Releases every session and forgets them all."""
        with self._mutex:
            lives = list(self._live.values())
            for live in lives:
                self._let_go(live)
        for live in lives:
            self.revoke(live, "aborted", "idle")
            self._on_evict(live)

    def begin_in_child(self) -> None:
        """Forgets everything, in a process that was forked from the one this is of."""
        for live in self._live.values():
            if live.tenure is not None:
                live.tenure.lost = "forked"
        # Locks may have been held by threads that there are not here.
        self._mutex = threading.RLock()
        self._live = OrderedDict()
        self._weight = 0


_managers: weakref.WeakSet[SessionManager] = weakref.WeakSet()
_watching: list[int] = []


def _watch_forks(manager: SessionManager) -> None:
    _managers.add(manager)
    if not _watching:
        _watching.append(os.getpid())
        os.register_at_fork(after_in_child=_begin_in_child)


def _begin_in_child() -> None:
    locks.drop_all()
    for manager in list(_managers):
        manager.begin_in_child()
