"""The memory records of one tenant: the service over the store on disk.

    with Stratalog("data") as memory, Records(memory) as records:
        me = records.caller(user="ana", agent="assistant")
        home = Draft(layer=Layer.LONG, scope=Scope("user", "ana"), key="home", text="Ana lives in Lisbon")
        records.service.remember(me, home)

Apart from `Stratalog` itself, so that who keeps conversations alone does not load it. Records are their own
ledger: they are no stratum, and no rebuild makes them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from types import TracebackType
from typing import Any, Self

from stratalog.engine.core import Stratalog
from stratalog.errors import AccessDenied
from stratalog.ids import now_ms
from stratalog.keys import tenant_path
from stratalog.memory.audit import AuditLine, FileAudit
from stratalog.memory.bundle import MAX_LINE
from stratalog.memory.caller import ADMIN, CURATOR, Caller, caller
from stratalog.memory.consolidate import Consolidated, consolidate
from stratalog.memory.contract import (
    PRODUCTION,
    Event,
    Found,
    Layer,
    Precision,
    Record,
    RecordPage,
    RecordStore,
    Scope,
    ScopeKind,
    Source,
    Status,
    When,
)
from stratalog.memory.lanes import NATIVE, Lanes, forbids_remote
from stratalog.memory.policy import Draft, Outcome
from stratalog.memory.service import (
    MAX_FOUND,
    MAX_PAGE,
    Forgotten,
    HistoryPage,
    Imported,
    MemoryService,
    Recalled,
    Receipt,
    Remembered,
    Selector,
    StoreCount,
)
from stratalog.memory.sqlite import FILE, SqliteRecords
from stratalog.recall.terms import query_terms, terms

__all__ = [
    "ADMIN",
    "CURATOR",
    "MAX_FOUND",
    "MAX_LINE",
    "MAX_PAGE",
    "PRODUCTION",
    "AuditLine",
    "Caller",
    "Consolidated",
    "Draft",
    "Event",
    "Forgotten",
    "Found",
    "HistoryPage",
    "Imported",
    "Layer",
    "MemoryService",
    "MetadataOf",
    "Outcome",
    "Precision",
    "Recalled",
    "Receipt",
    "Record",
    "RecordPage",
    "Records",
    "Remembered",
    "Scope",
    "ScopeKind",
    "Selector",
    "Source",
    "Status",
    "StoreCount",
    "When",
]

MetadataOf = Callable[[Caller], Mapping[str, Any]]


class Records:
    """Close it, or use it in a `with` block. Safe to use from several threads, and several processes may have
    the same directory open. `metadata_of` tells a caller's session's `memory_plugin` and `residency`."""

    def __init__(self, memory: Stratalog, *, metadata_of: MetadataOf | None = None) -> None:
        self.tenant = memory.tenant
        path = tenant_path(memory.data, memory.tenant) / FILE
        self._records = SqliteRecords(path, terms=terms, query_terms=query_terms)
        self._audit = FileAudit(memory.data)
        self._metadata_of = metadata_of or (lambda caller: {})
        lanes = Lanes({NATIVE: SqliteRecords.capabilities}, self._metadata_of)
        self.service = MemoryService(self._store, self._audit, lanes)

    def caller(
        self,
        *,
        user: str = "",
        agent: str = "",
        session: str = "",
        run: str = "",
        environment: str = PRODUCTION,
        roles: Iterable[str] = (),
    ) -> Caller:
        """Who asks, of this tenant; see `memory.caller.caller`. Make it where it was proved who that is."""
        return caller(
            self.tenant,
            user=user,
            agent=agent,
            session=session,
            run=run,
            environment=environment,
            roles=roles,
        )

    def forbids_remote(self, who: Caller) -> bool:
        """Whether nothing of the caller's session may leave: no external lane, no model that is asked."""
        return forbids_remote(self._metadata_of(who))

    def audit(self) -> Iterator[AuditLine]:
        """What was asked of the tenant's records, the oldest first, by whom and how it ended. It is for who
        keeps the data directory: nobody's rights are looked at."""
        return self._audit.read(self.tenant)

    def consolidate(
        self, *, environment: str = PRODUCTION, now: int | None = None, older_than: float = 300.0
    ) -> Consolidated:
        """Merges what is said twice, promotes SHORT records that lasted `older_than` seconds, marks what
        contradicts, ends what has expired, in the whole environment; see `memory.consolidate`. `now` is
        milliseconds UTC. A pass that stops early says so (`more`): the next goes on. It is for who keeps the
        data directory: nobody's rights are looked at."""
        at = now_ms() if now is None else now
        return consolidate(self._records, environment, now=at, older_than_ms=int(older_than * 1000))

    def close(self) -> None:
        """Closes every file. The second time does nothing."""
        self._records.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _store(self, tenant: str, lane: str) -> RecordStore:
        """The tenant's store; there is one lane, and one file for all environments."""
        if tenant != self.tenant:
            raise AccessDenied("this caller is of another tenant", hint="make callers with `Records.caller`")
        return self._records
