"""The live state of sessions: who holds which, who waits, what was asked. It is memory only.

Serial within a session, parallel across. Threads that want the same session wait in the order in which they
came; other processes are seen through the session's lock file. A holder past its deadline loses the session
to the next one that wants it. What is idle for longer than its time to live leaves memory, but never while it
is held or waited for. Nothing here writes a log: the engine does, with what this returns.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import msgspec

from stratalog.errors import SessionBusy
from stratalog.keys import SessionKey
from stratalog.sessions.locks import Held, Hold, take, watch_forks
from stratalog.sessions.meta import SessionMeta
from stratalog.sessions.turns import TurnBook

Status = Literal["idle", "processing", "error"]
_POLL = 0.05


class Tenure:
    """One holder's time with a session. `lost` says why it ended before its holder ended it."""

    def __init__(self, turn: str, until: float, hold: Hold | None) -> None:
        self.turn = turn
        self.until = until
        self.fence = 0
        self.lost: Literal["", "timed_out", "aborted", "restarted", "deleted"] = ""
        self.hold = hold
        self.ended = threading.Event()


class Live:
    """What is known of one session while it is in memory."""

    def __init__(self, key: SessionKey, meta: SessionMeta, created_at: float) -> None:
        self.key = key
        self.meta = meta
        self.turns = TurnBook()
        self.turns_known = False
        self.saved = False  # whether meta.json says what `meta` says
        self.created_at = created_at
        self.last_active = created_at
        self.status: Status = "idle"
        self.tenure: Tenure | None = None
        self.waiting: deque[object] = deque()
        self.restart_asked: float | None = None
        self.changed = threading.Condition()
        self.ttl = 0.0

    @property
    def in_use(self) -> bool:
        return self.tenure is not None or bool(self.waiting)


class Taken(msgspec.Struct, frozen=True):
    """A session that was taken, and the tenure it was taken from because that was past its time."""

    tenure: Tenure
    from_overdue: Tenure | None
    took_over: bool


class SessionManager:
    """Live sessions. `lock_path` says where a session's lock file is, None where no other process can be.

    `clock` gives seconds for idleness and confirmation; deadlines use the machine's own clock.
    """

    def __init__(
        self,
        *,
        lock_path: Callable[[SessionKey], Path] | None,
        clock: Callable[[], float] = time.monotonic,
        on_evict: Callable[[Live], None] = lambda live: None,
    ) -> None:
        watch_forks()
        self._lock_path = lock_path
        self._clock = clock
        self._on_evict = on_evict
        self._live: OrderedDict[SessionKey, Live] = OrderedDict()
        self._mutex = threading.RLock()
        self._swept = clock()

    def __len__(self) -> int:
        return len(self._live)

    def find(self, key: SessionKey) -> Live | None:
        return self._live.get(key)

    def touch(self, key: SessionKey, meta: Callable[[], SessionMeta], ttl: float) -> Live:
        """The live session, made if it is not in memory, with its idle time begun anew."""
        with self._mutex:
            now = self._clock()
            live = self._live.get(key)
            if live is None:
                live = self._live[key] = Live(key, meta(), now)
            live.last_active = now
            live.ttl = ttl
            self._live.move_to_end(key)
            if now - self._swept > min(60.0, ttl):
                self.sweep()
            return live

    def sweep(self) -> int:
        """Lets what was idle for its time to live leave memory; returns how many did."""
        with self._mutex:
            now = self._swept = self._clock()
            idle = [
                live for live in self._live.values() if now - live.last_active > live.ttl and not live.in_use
            ]
            for live in idle:
                self._on_evict(live)
                del self._live[live.key]
            return len(idle)

    def drop(self, key: SessionKey) -> None:
        """The session is gone: who holds it has lost it."""
        with self._mutex:
            live = self._live.pop(key, None)
        if live is not None:
            self.revoke(live, "deleted", "idle")

    def take(self, live: Live, turn: str, deadline: float, wait: float | None) -> Taken:
        """The session, for at most `deadline` seconds, waiting at most `wait` (None: as long as it takes).

        Raises `SessionBusy`.
        """
        ticket = object()
        give_up = None if wait is None else time.monotonic() + wait
        with live.changed:
            live.waiting.append(ticket)
            try:
                while True:
                    pause: float | None = None
                    if live.waiting[0] is ticket:
                        taken, pause, holder = self._try(live, turn, deadline)
                        if taken is not None:
                            return taken
                    else:
                        holder = live.tenure.turn if live.tenure else ""
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
                live.waiting.remove(ticket)
                live.changed.notify_all()

    def _try(self, live: Live, turn: str, deadline: float) -> tuple[Taken | None, float | None, str]:
        """Takes the session if it can be had now; else for how long to wait, and for whom."""
        now = time.monotonic()
        old = live.tenure
        if old is not None:
            if old.until > now:
                return None, old.until - now, old.turn
            old.lost = "timed_out"
            live.status = "error"
            hold, took_over = old.hold, False
            old.hold = None
        elif self._lock_path is not None:
            got = take(self._lock_path(live.key), turn, deadline, _POLL)
            if isinstance(got, Held):
                return None, _POLL, got.holder or "another process"
            hold, took_over = got, got.took_over
        else:
            hold, took_over = None, False
        if hold is not None:
            hold.extend(turn, deadline)
        live.tenure = Tenure(turn, now + deadline, hold)
        live.status = "processing"
        return Taken(live.tenure, old, took_over), None, ""

    def release(self, live: Live, tenure: Tenure, status: Status = "idle") -> None:
        """Ends a tenure; one that was lost already changes nothing."""
        with live.changed:
            if live.tenure is tenure:
                live.tenure = None
                live.status = status
                live.last_active = self._clock()
            if tenure.hold is not None:
                tenure.hold.release()
            tenure.ended.set()
            live.changed.notify_all()

    def revoke(
        self, live: Live, why: Literal["aborted", "restarted", "deleted", "timed_out"], status: Status
    ) -> Tenure | None:
        """Takes the session from its holder in this process, if there is one, and returns that tenure."""
        with live.changed:
            tenure = live.tenure
            if tenure is None:
                return None
            tenure.lost = why
            self.release(live, tenure, status)
            return tenure

    def overdue(self) -> list[tuple[Live, Tenure]]:
        """The tenures in this process that are past their time."""
        with self._mutex:
            now = time.monotonic()
            return [
                (live, live.tenure)
                for live in self._live.values()
                if live.tenure is not None and live.tenure.until <= now
            ]

    def confirm_restart(self, live: Live, window: float) -> bool:
        """Whether a restart was asked for within `window` seconds before; if not, it is now."""
        now = self._clock()
        asked, live.restart_asked = live.restart_asked, now
        if asked is not None and now - asked <= window:
            live.restart_asked = None
            return True
        return False

    def close(self) -> None:
        """Releases every session and forgets them all."""
        with self._mutex:
            lives = list(self._live.values())
            self._live.clear()
        for live in lives:
            self.revoke(live, "aborted", "idle")
            self._on_evict(live)
