"""The memory records of one tenant: the service over the store on disk.

    with Stratalog("data") as memory, Records(memory) as records:
        me = records.caller(user="ana", agent="assistant")
        home = Draft(layer=Layer.LONG, scope=Scope("user", "ana"), key="home", text="Ana lives in Lisbon")
        records.service.remember(me, home)

Apart from `Stratalog` itself, so that who keeps conversations alone does not load it. Records are their own
ledger: they are no stratum, and no rebuild makes them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from fnmatch import fnmatchcase
from types import TracebackType
from typing import Any, Self, TypeAlias

from stratalog.engine.core import Stratalog
from stratalog.errors import AccessDenied, InvalidInput, LaneDenied, StorageFailed
from stratalog.ids import now_ms
from stratalog.keys import SessionKey, tenant_path
from stratalog.memory.audit import AuditLine, FileAudit
from stratalog.memory.bundle import MAX_LINE
from stratalog.memory.caller import ADMIN, CURATOR, Caller, caller
from stratalog.memory.consolidate import Consolidated, consolidate
from stratalog.memory.contract import (
    PRODUCTION,
    Capabilities,
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
    Where,
)
from stratalog.memory.governor import Limits
from stratalog.memory.jobs import FILE as JOBS
from stratalog.memory.jobs import Jobs
from stratalog.memory.lanes import NATIVE, Lanes, forbids_remote
from stratalog.memory.policy import Draft, Outcome
from stratalog.memory.residency import permits
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
from stratalog.models.contract import Reach
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

MetadataOf: TypeAlias = Callable[[Caller], Mapping[str, Any]]
MakeStore: TypeAlias = Callable[[str], RecordStore]


class Records:
    """Close it, or use it in a `with` block. Safe to use from several threads, and several processes may have
    the same directory open.

    `lanes` are further places for records, each a name and what makes its store for a tenant, which is asked
    when a session first needs it. A lane counts as external unless its maker has `capabilities` that say
    otherwise. Without `native` there is no store on disk, and a session that must have it gets `LaneDenied`.
    `metadata_of` tells a caller's session's `memory_plugin` and `residency`; else the session's log does.
    """

    def __init__(
        self,
        memory: Stratalog,
        *,
        lanes: Mapping[str, MakeStore] = {},
        native: bool = True,
        metadata_of: MetadataOf | None = None,
    ) -> None:
        if NATIVE in lanes:
            raise InvalidInput("native is the lane on disk", hint="give this lane another name")
        self.tenant = memory.tenant
        self.data = memory.data
        self.settings = memory.settings_of()
        self.jobs = Jobs(tenant_path(memory.data, memory.tenant) / JOBS)
        self._memory = memory
        self._makers = dict(lanes)
        self._made: dict[str, RecordStore] = {}
        self._mutex = threading.Lock()
        self._closed = False
        path = tenant_path(memory.data, memory.tenant) / FILE
        self._native = SqliteRecords(path, terms=terms, query_terms=query_terms) if native else None
        self._audit = FileAudit(memory.data)
        self._metadata_of = metadata_of or self._told
        own = {NATIVE: SqliteRecords.capabilities} if native else {}
        available = own | {name: _capabilities(name, make) for name, make in self._makers.items()}
        self.service = MemoryService(
            self._store, self._audit, Lanes(available, self._metadata_of), evaluation=self._for_evaluations
        )

    def caller(
        self,
        *,
        user: str = "",
        agent: str = "",
        session: str = "",
        run: str = "",
        environment: str = PRODUCTION,
        roles: Iterable[str] = (),
        token: str = "",
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
            token=token,
        )

    def forbids_remote(self, who: Caller) -> bool:
        """Whether there is anywhere that nothing of the caller's session may go: see `memory.residency`."""
        return forbids_remote(self._metadata_of(who))

    def permits(self, who: Caller, reach: Reach) -> bool:
        """Whether what reaches so far may be sent anything of the caller's session."""
        return permits(self._metadata_of(who), reach)

    @property
    def memory(self) -> Stratalog:
        """The memory that they are beside."""
        return self._memory

    def audit(self) -> Iterator[AuditLine]:
        """What was asked of the tenant's records, the oldest first, by whom and how it ended. It is for who
        keeps the data directory: nobody's rights are looked at."""
        return self._audit.read(self.tenant)

    @property
    def limits(self) -> Limits:
        """What may be asked of models for the tenant in a day."""
        own = self.settings.background
        return Limits(calls_per_day=own.calls_per_day, tokens_per_day=own.tokens_per_day)

    @property
    def store(self) -> RecordStore:
        """The native store itself, which looks at nobody's rights. Raises `LaneDenied` where none is."""
        return self._own()

    def consolidate(
        self,
        *,
        environment: str = PRODUCTION,
        now: int | None = None,
        older_than: float = 300.0,
        after: str = "",
    ) -> Consolidated:
        """Merges what is said twice, promotes SHORT records that lasted `older_than` seconds, marks what
        contradicts, ends what has expired, in the whole environment; see `memory.consolidate`. `now` is
        milliseconds UTC. A pass that stops early says so (`more`): the next goes on `after` its `next`. It is
        for who keeps the data directory: nobody's rights are looked at. Only what is native is consolidated;
        raises `LaneDenied` where that is not configured."""
        at = now_ms() if now is None else now
        age = int(older_than * 1000)
        return consolidate(self._own(), environment, now=at, older_than_ms=age, after=after)

    def drop_session(self, key: SessionKey, environment: str = PRODUCTION) -> int:
        """Destroys the native records of the scope of a session that was deleted, for another of its name is
        another session; how many. It is for who keeps the data directory: nobody's rights are looked at."""
        statuses: tuple[Status, ...] = ("current", "superseded", "forgotten")
        where = Where(environment=environment, scopes=(Scope("session", str(key)),), statuses=statuses)
        return self._own().purge(where)["records"]

    def close(self) -> None:
        """Closes every store. The second time does nothing."""
        with self._mutex:
            self._closed = True
            stores = list(self._made.values())
            self._made.clear()
        with ExitStack() as closing:
            closing.callback(self.jobs.close)
            for store in (*stores, *((self._native,) if self._native is not None else ())):
                closing.callback(store.close)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _told(self, who: Caller) -> Mapping[str, Any]:
        """What the log of the caller's session says of it; nothing for one who is in none."""
        self._must_be_ours(who.tenant)
        return self._memory.session(who.session).meta.metadata if who.session else {}

    def _store(self, tenant: str, lane: str) -> RecordStore:
        """The tenant's store in a lane; native is one file for all environments."""
        self._must_be_ours(tenant)
        if lane == NATIVE:
            return self._own()
        with self._mutex:
            if self._closed:
                raise StorageFailed("the records are closed", hint="open them again")
            if lane not in self._made:
                self._made[lane] = self._makers[lane](tenant)
            return self._made[lane]

    def _own(self) -> SqliteRecords:
        if self._native is None:
            raise LaneDenied("the native lane is not configured", hint="make `Records` with it")
        return self._native

    def _for_evaluations(self, tenant: str) -> bool:
        return any(fnmatchcase(tenant, pattern) for pattern in self.settings.evaluation_tenants)

    def _must_be_ours(self, tenant: str) -> None:
        if tenant != self.tenant:
            raise AccessDenied("this caller is of another tenant", hint="make callers with `Records.caller`")


def _capabilities(name: str, make: MakeStore) -> Capabilities:
    """What a maker says of its lane; of one that says nothing, that it is external."""
    told = getattr(make, "capabilities", None)
    return told if isinstance(told, Capabilities) else Capabilities(name=name, external=True)
