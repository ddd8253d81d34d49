"""What one request works with: its tenant's memory, who asks, and how to say how far it is.

A request runs in a thread. It is stopped where it says how far it is (`Desk.reached`), and nowhere else: what
it writes it writes to the end.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import CancelledError
from typing import TypeAlias

from stratalog.engine.consulting import Sight
from stratalog.engine.core import Stratalog
from stratalog.engine.keeping import begin
from stratalog.engine.remembering import Records
from stratalog.engine.session import Session
from stratalog.errors import AccessDenied
from stratalog.surfaces.mcp.identity import Identity

# Tells the client how much is done, of how much in all.
Report: TypeAlias = Callable[[int, int], None]

_TITLE = "Kept by an MCP client"
_STEPS = 50  # of which a client is told at most


class Desk:
    """One request's. Use it in the thread of the request alone."""

    def __init__(
        self,
        memory: Stratalog,
        records: Records,
        identity: Identity,
        *,
        report: Report = lambda done, total: None,
        stop: threading.Event | None = None,
    ) -> None:
        self.memory = memory
        self.records = records
        self.identity = identity
        self._report = report
        self._stop = stop or threading.Event()
        self._told = -1

    def sight(self, key: str = "") -> Sight:
        """What may be looked up, asking in the session of this key, or the asker's own; it need not exist.

        A session that is named must be in the sight of the own one: naming one that may not leave the machine
        shows nothing that the own one does not. Of the sessions in which users ask that name none, which are
        called after them, nobody begins another's. Raises `InvalidKey`, and `AccessDenied` for a session of
        somebody else or of another environment.
        """
        own = self._sight(self.memory.session(self.identity.session))
        if not own.session.exists or own.holds(own.session.meta.metadata):
            named = self.memory.session(key) if key else own.session
            if named.key == own.session.key:
                return own
            there = named.exists
            if own.holds(named.meta.metadata) if there else self.identity.may_begin(named.key):
                return self._sight(named)
        raise AccessDenied("this session is not yours to ask in", key=key or self.identity.session)

    def _sight(self, session: Session) -> Sight:
        who = self.records.caller(
            user=self.identity.asker.user,
            session=str(session.key),
            roles=self.identity.asker.record_roles,
            token=self.identity.asker.principal.id,
        )
        confined = self.identity.asker.confined
        return Sight(self.memory, session, who, self.identity.sees, confined=confined)

    def begun(self, key: str = "") -> Sight:
        """The same, in a session that exists from now on, as the asker's."""
        begin(self.sight(key).session, self.identity.asker.signature(), _TITLE)
        return self.sight(key)

    def prepare(self) -> None:
        """Brings the index up to date, which may take long, so that what is new is found. Raises
        `CancelledError` when it is stopped."""
        self.memory.bring_up_to_date(self.reached)

    def reached(self, done: int, total: int) -> None:
        """Says how far it is. Raises `CancelledError` when nobody waits any more."""
        if self._stop.is_set():
            raise CancelledError
        step = done * _STEPS // max(1, total)
        if step != self._told:
            self._told = step
            self._report(done, total)
