"""The one door to records: every path asks here first, and nobody gets past with another's name.

Each call takes a `Caller`. What it may see is worked out from that alone, before any store is asked; a scope
that is not among it is refused with `AccessDenied` and a line in the audit. What it did not name cannot come
back either: each store is of one tenant, and every question to it carries the caller's environment and
scopes. A record of somebody else's is told apart from none by nothing: the same words, the same work.

The service decides nothing about records (`policy`) and keeps nothing (`contract.RecordStore`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import Final, Literal, NamedTuple, NoReturn, TypeAlias

import msgspec
from msgspec.structs import replace

from stratalog.errors import (
    AccessDenied,
    Conflict,
    InvalidInput,
    InvalidKey,
    LaneDenied,
    LogError,
    NotFound,
    StorageFailed,
    StratalogError,
)
from stratalog.ids import derived_ulid, new_ulid, now_ms, ulid_ts
from stratalog.keys import parse_key
from stratalog.memory import bundle, policy
from stratalog.memory.audit import Audit, AuditLine, Ending, mark_of
from stratalog.memory.caller import ADMIN, Caller, caller, scopes_of
from stratalog.memory.contract import (
    PRODUCTION,
    Change,
    Event,
    Found,
    Layer,
    Record,
    RecordPage,
    RecordStore,
    Scope,
    ScopeKind,
    Status,
    Tombstone,
    Transaction,
    Where,
)
from stratalog.memory.lanes import Lanes
from stratalog.memory.policy import Draft, Outcome

MAX_FOUND: Final = 100
MAX_PAGE: Final = 1_000
MAX_QUERY: Final = 16_000
MAX_NAMED: Final = 1_000
_BATCH: Final = 200
_EVERY: Final[tuple[Status, ...]] = ("current", "superseded", "forgotten")
_SAID: Final[tuple[Status, ...]] = ("current", "superseded")

StoreOf: TypeAlias = Callable[[str, str], RecordStore]


class Remembered(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a draft. `record` says now what it said; None when it was refused, or when it was
    forgotten since. `again`: this call was made before, and nothing was done now."""

    outcome: Outcome
    record: Record | None = None
    reason: str = ""
    again: bool = False


class Recalled(msgspec.Struct, frozen=True):
    """The best first. `more`: there were more than asked for."""

    found: tuple[Found, ...]
    more: bool = False


class HistoryPage(msgspec.Struct, frozen=True):
    """Events, oldest first; `next` goes on after them, 0 at the end."""

    events: tuple[Event, ...]
    next: int = 0


class Forgotten(msgspec.Struct, frozen=True, kw_only=True):
    """How many records say nothing any more, how many others were put right, and what the store cannot do
    about it ("tombstones": a late write may bring it back)."""

    forgotten: int = 0
    repaired: int = 0
    unsupported: tuple[str, ...] = ()


class Selector(msgspec.Struct, frozen=True):
    """What to purge: a user, session, agent or run by its `id`; the caller's environment; or the tenant, in
    all its environments. The last two have no id."""

    kind: Literal["tenant", "environment", "user", "session", "agent", "run"]
    id: str = ""


class StoreCount(msgspec.Struct, frozen=True, kw_only=True):
    """The rows of each kind in one store, before and after."""

    store: str
    before: dict[str, int]
    after: dict[str, int]


class Receipt(msgspec.Struct, frozen=True, kw_only=True):
    """What a purge destroyed, or, as a `dry_run`, would have. `unsupported` are lanes without transactions,
    where what was on its way may still arrive."""

    tenant: str
    environment: str
    selector: Selector
    dry_run: bool
    at: int
    stores: tuple[StoreCount, ...]
    unsupported: tuple[str, ...] = ()


class Purging(NamedTuple):
    """A purge that is allowed: which records it means, the store of each lane, and the counts of its line in
    the audit."""

    where: Where
    stores: dict[str, RecordStore]
    counts: dict[str, int]

    def note(self, stores: Iterable[StoreCount]) -> None:
        """Puts what was counted into the line."""
        for each in stores:
            self.counts.update({f"{each.store}.{name}.before": count for name, count in each.before.items()})
            self.counts.update({f"{each.store}.{name}.after": count for name, count in each.after.items()})


class Imported(msgspec.Struct, frozen=True, kw_only=True):
    """How the records of a bundle ended. `denied` are those of scopes that the caller may not write, or of
    another environment; `refused` those that were forgotten here since. `complete`: the bundle has its end,
    with the counts it tells."""

    stored: int = 0
    merged: int = 0
    conflict: int = 0
    unchanged: int = 0
    refused: int = 0
    denied: int = 0
    tombstones: int = 0
    complete: bool = False


class _Noted(msgspec.Struct, frozen=True, kw_only=True):
    """What is kept under an idempotency key."""

    draft: str
    outcome: Outcome
    record: str = ""
    reason: str = ""


class MemoryService:
    """Records for many tenants.

    `store_of(tenant, lane)` opens the store of a tenant in a lane; it is asked for each call and may keep
    stores open. `lanes` says which lanes there are and chooses. `evaluation` tells of a tenant whether it is
    for evaluations, which no caller in production may use. Methods may be called from several threads.

    Every method raises `AccessDenied` for a scope that the caller may not see or write (a tuple of no scopes
    too), `LaneDenied`, `InvalidInput` for what is over a limit, and `LogError` of the store.
    """

    def __init__(
        self,
        store_of: StoreOf,
        audit: Audit,
        lanes: Lanes,
        clock: Callable[[], int] = now_ms,
        evaluation: Callable[[str], bool] = lambda tenant: False,
    ) -> None:
        self._store_of = store_of
        self._audit = audit
        self._lanes = lanes
        self._clock = clock
        self._evaluation = evaluation

    # --- writing ---

    def remember(self, caller: Caller, draft: Draft, *, idempotency: str = "") -> Remembered:
        """Remembers, merges, supersedes or marks, as `policy.decide` says; or refuses what was forgotten.

        With an `idempotency` key (at most 1,000 characters; the caller's scope has its own), the same call
        again does nothing and returns the same. Raises `InvalidInput`, and `Conflict` for a key that was used
        for another draft, and for a slot that is full.
        """
        scopes = self._scopes(
            caller, "remember", (draft.scope,) if isinstance(draft, Draft) else (), write=True
        )
        draft = policy.checked(draft)
        _at_most("an idempotency key", len(idempotency), MAX_NAMED)
        with self._told(caller, "remember", scopes, key=draft.key) as counts:
            store = self._store(caller)
            noted = _idempotency_key(caller, draft.scope, idempotency)
            with store.writing() as writing:
                before = writing.done(noted) if noted else None
                if before is not None:
                    return self._again(writing, caller, draft, before)
                done = self._decided(writing, caller, draft, noted)
            counts[done.outcome] = 1
        return done

    def _decided(self, writing: Transaction, caller: Caller, draft: Draft, noted: str) -> Remembered:
        now = self._clock()
        slot = Where(
            environment=caller.environment,
            scopes=(draft.scope,),
            keys=(draft.key,),
            statuses=_SAID if draft.valid_from else ("current",),
            now=now,
        )
        decision = policy.decide_checked(
            draft,
            environment=caller.environment,
            slot=writing.find(slot),
            tombstones=_tombstones(writing, caller.environment, draft.scope, draft.key),
            now=now,
            new_id=new_ulid(now),
            actor=caller.actor,
        )
        writing.write(decision.change, idempotency=noted, result=_result(draft, decision) if noted else "")
        return Remembered(outcome=decision.outcome, record=decision.record, reason=decision.reason)

    def _again(self, writing: Transaction, caller: Caller, draft: Draft, before: str) -> Remembered:
        noted = msgspec.json.decode(before, type=_Noted)
        if noted.draft != _digest(draft):
            raise Conflict(
                "this idempotency key was used for something else", hint="give each write a key of its own"
            )
        where = Where(
            environment=caller.environment, scopes=(draft.scope,), ids=(noted.record,), statuses=_SAID
        )
        found = writing.find(where) if noted.record else ()
        return Remembered(
            outcome=noted.outcome, record=found[0] if found else None, reason=noted.reason, again=True
        )

    def forget(
        self, caller: Caller, *, id: str = "", scope: Scope | None = None, key: str = "", reason: str = ""
    ) -> Forgotten:
        """Forgets one record by its id, or all that a slot says by scope and key. What was said before now
        does not come back, however late it is written.

        A slot may be forgotten before anything is in it. Raises `NotFound` for an id that is not there.
        """
        if bool(id) == bool(scope is not None and key) or (id and (scope is not None or key)):
            raise InvalidInput("what to forget is an id, or a scope and a key", hint="give one of the two")
        _at_most("a reason", len(policy.storable(reason)), MAX_NAMED)
        if scope is not None:
            scopes = self._scopes(caller, "forget", (scope,), write=True)
            with self._told(caller, "forget", scopes, key=key) as counts:
                done = self._forget_slot(caller, scope, policy.slot_key(key), reason)
                counts["records"] = done.forgotten
            return done
        scopes = self._scopes(caller, "forget", None)
        with self._told(caller, "forget", scopes, id=id) as counts:
            done = self._forget_record(caller, scopes, id, reason)
            counts["records"] = done.forgotten
        return done

    def _forget_slot(self, caller: Caller, scope: Scope, key: str, reason: str) -> Forgotten:
        store = self._store(caller)
        now = self._clock()
        where = Where(environment=caller.environment, scopes=(scope,), keys=(key,), statuses=_SAID)
        stone = Tombstone(environment=caller.environment, scope=scope, key=key, at=now)
        with store.writing() as writing:
            gone = writing.find(where)
            change = policy.forgotten(gone, (), at=now, actor=caller.actor, reason=reason, whole=True)
            writing.write(replace(change, tombstones=(stone,)))
        return Forgotten(forgotten=len(gone), unsupported=_unsupported(store))

    def _forget_record(self, caller: Caller, scopes: tuple[Scope, ...], id: str, reason: str) -> Forgotten:
        store = self._store(caller)
        now = self._clock()
        where = Where(
            environment=caller.environment,
            scopes=scopes,
            ids=(id,),
            statuses=_SAID,
            whole="environment" if ADMIN in caller.roles else "",
        )
        with store.writing() as writing:
            found = writing.find(where)
            if not found:
                raise _not_found(id)
            record = found[0]
            self._scopes(caller, "forget", (record.scope,), write=True)
            slot = Where(environment=caller.environment, scopes=(record.scope,), keys=(record.key,))
            rest = [each for each in writing.find(slot) if each.id != id]
            writing.write(policy.forgotten(found, rest, at=now, actor=caller.actor, reason=reason))
        return Forgotten(forgotten=1, unsupported=_unsupported(store))

    def forget_source(self, caller: Caller, entries: Iterable[str], *, reason: str = "") -> Forgotten:
        """Forgets what was drawn from these entries of logs (at most 1,000): a record that an agent, a
        model, a tool or an import drew from them alone is forgotten, and what it had closed holds again;
        others keep their other sources. Nothing is drawn from them again into the caller's scopes.

        It reaches the scopes that the caller may write; in what the tenant shares, only sources of the
        caller's own session. An admin reaches every scope of the environment.
        """
        asked = tuple(dict.fromkeys(islice(entries, MAX_NAMED + 1)))
        _at_most("the list of entries", len(asked), MAX_NAMED)
        _at_most("a reason", len(policy.storable(reason)), MAX_NAMED)
        if isinstance(entries, str) or not all(isinstance(each, str) and each for each in asked):
            raise InvalidInput("entries are given by their ids")
        readable = self._scopes(caller, "forget_source", None)
        writable = scopes_of(caller).write
        admin = ADMIN in caller.roles
        with self._told(caller, "forget_source", readable) as counts:
            store = self._store(caller)
            now = self._clock()
            where = Where(
                environment=caller.environment,
                scopes=readable,
                entries=asked,
                statuses=_SAID,
                whole="environment" if admin else "",
            )
            # What may be forgotten in which scope: all in its own, elsewhere what its own session said.
            reach: dict[Scope, set[str]] = {scope: set(asked) for scope in writable}
            slots: set[tuple[Scope, str]] = set()
            events: list[Event] = []
            with store.writing() as writing:
                for record in writing.find(where) if asked else ():
                    free = admin or record.scope in writable
                    entries_of = set(asked) if free else _said_in(caller.session, record).intersection(asked)
                    if entries_of:
                        reach.setdefault(record.scope, set()).update(entries_of)
                        slots.add((record.scope, record.key))
                for scope, key in sorted(slots):
                    slot = Where(environment=caller.environment, scopes=(scope,), keys=(key,), statuses=_SAID)
                    gone = frozenset(reach[scope])
                    change = policy.without_entries(
                        writing.find(slot), gone, at=now, actor=caller.actor, reason=reason
                    )
                    events += change.events
                    writing.write(change)
                stones = [
                    Tombstone(environment=caller.environment, scope=scope, key="", at=now, content=entry)
                    for scope in sorted(reach)
                    for entry in sorted(reach[scope])
                ]
                writing.write(Change(tombstones=tuple(stones)))
            forgotten = sum(event.action == "forget" for event in events)
            counts |= {"records": forgotten, "repaired": len(events) - forgotten, "entries": len(asked)}
        return Forgotten(
            forgotten=forgotten, repaired=len(events) - forgotten, unsupported=_unsupported(store)
        )

    # --- reading ---

    def recall(
        self,
        caller: Caller,
        query: str,
        *,
        scopes: Sequence[Scope] | None = None,
        layers: Sequence[Layer] = (),
        limit: int = 10,
        as_of: int | None = None,
        everyone: bool = False,
    ) -> Recalled:
        """The current records whose words fit the query, best first, of those that hold now, or held at
        `as_of`. At most 100; a query of at most 16,000 characters. `everyone` is every scope of the
        environment, for admins."""
        allowed = self._scopes(caller, "recall", scopes, everyone=everyone)
        _between("limit", limit, MAX_FOUND)
        _at_most("a query", len(query), MAX_QUERY)
        with self._told(caller, "recall", allowed, note=_whom(everyone), query=query) as counts:
            store = self._store(caller)
            _can(store, "search")
            now = self._clock()
            where = Where(
                environment=caller.environment,
                scopes=allowed,
                layers=tuple(layers),
                statuses=("current",) if as_of is None else _SAID,
                valid_at=now if as_of is None else as_of,
                now=now,
                whole="environment" if everyone else "",
            )
            found = store.search(where, query, limit=limit + 1)
            counts["found"] = min(len(found), limit)
        return Recalled(found[:limit], len(found) > limit)

    def get(self, caller: Caller, id: str) -> Record:
        """The record of this id, current or superseded. Raises `NotFound`, in the same words whether there is
        none, it was forgotten, or it is not the caller's."""
        scopes = self._scopes(caller, "get", None)
        with self._told(caller, "get", scopes, id=str(id)):
            where = Where(
                environment=caller.environment,
                scopes=scopes,
                ids=(str(id),),
                statuses=_SAID,
                now=self._clock(),
                whole="environment" if ADMIN in caller.roles else "",
            )
            found = self._store(caller).find(where, limit=1).records
            if not found:
                raise _not_found(id)
        return found[0]

    def list(
        self,
        caller: Caller,
        *,
        scopes: Sequence[Scope] | None = None,
        layers: Sequence[Layer] = (),
        keys: Sequence[str] = (),
        statuses: Sequence[Status] = ("current",),
        everyone: bool = False,
        limit: int = 100,
        after: str = "",
    ) -> RecordPage:
        """A page of records, oldest id first, after the id `after`; at most 1,000 a page and 1,000 keys.
        `everyone` is every scope of the environment, for admins."""
        return self._page(
            caller, "list", scopes, layers, keys, limit, after, statuses=statuses, everyone=everyone
        )

    def current(
        self,
        caller: Caller,
        *,
        scopes: Sequence[Scope] | None = None,
        layers: Sequence[Layer] = (),
        keys: Sequence[str] = (),
        limit: int = 100,
        after: str = "",
    ) -> RecordPage:
        """What holds now: the current records that have begun and not ended. Pages as `list` does."""
        return self._page(caller, "current", scopes, layers, keys, limit, after, valid_at=self._clock())

    def as_of(
        self,
        caller: Caller,
        at: int,
        *,
        scopes: Sequence[Scope] | None = None,
        layers: Sequence[Layer] = (),
        keys: Sequence[str] = (),
        limit: int = 100,
        after: str = "",
    ) -> RecordPage:
        """What held at the moment `at` (milliseconds UTC), as far as is known now: current and superseded
        records. Pages as `list` does."""
        return self._page(caller, "as_of", scopes, layers, keys, limit, after, statuses=_SAID, valid_at=at)

    def _page(
        self,
        caller: Caller,
        call: str,
        scopes: Sequence[Scope] | None,
        layers: Sequence[Layer],
        keys: Sequence[str],
        limit: int,
        after: str,
        *,
        statuses: Sequence[Status] = ("current",),
        valid_at: int | None = None,
        everyone: bool = False,
    ) -> RecordPage:
        allowed = self._scopes(caller, call, scopes, everyone=everyone)
        _between("limit", limit, MAX_PAGE)
        _at_most("the list of keys", len(keys), MAX_NAMED)
        with self._told(caller, call, allowed, note=_whom(everyone)) as counts:
            store = self._store(caller)
            if valid_at is not None:
                _can(store, "validity")
            where = Where(
                environment=caller.environment,
                scopes=allowed,
                layers=tuple(layers),
                keys=tuple(policy.slot_key(key) for key in keys),
                statuses=tuple(statuses),
                valid_at=valid_at,
                now=self._clock(),
                whole="environment" if everyone else "",
            )
            page = store.find(where, limit=limit, after=after)
            counts["found"] = len(page.records)
        return page

    def history(
        self,
        caller: Caller,
        *,
        id: str = "",
        scopes: Sequence[Scope] | None = None,
        keys: Sequence[str] = (),
        limit: int = 100,
        after: int = 0,
        everyone: bool = False,
    ) -> HistoryPage:
        """Every step that was taken with records: of one by its id, of slots by their keys, or of all that
        the caller sees; oldest first, at most 1,000 a page. Empty for an id that is not there. `everyone` is
        every scope of the environment, for admins."""
        allowed = self._scopes(caller, "history", scopes, everyone=everyone)
        _between("limit", limit, MAX_PAGE)
        _at_most("the list of keys", len(keys), MAX_NAMED)
        with self._told(caller, "history", allowed, note=_whom(everyone), id=id) as counts:
            store = self._store(caller)
            _can(store, "history")
            where = Where(
                environment=caller.environment,
                scopes=allowed,
                keys=tuple(policy.slot_key(key) for key in keys),
                ids=(id,) if id else (),
                whole="environment" if everyone else "",
            )
            events = store.history(where, limit=limit + 1, after=after)
            counts["found"] = min(len(events), limit)
        return HistoryPage(events[:limit], events[limit - 1].seq if len(events) > limit else 0)

    # --- destroying ---

    def purge(self, caller: Caller, selector: Selector, *, dry_run: bool = False) -> Receipt:
        """Destroys records with their history, tombstones and index, in every lane, and says how many rows
        of each kind there were before and are left.

        A caller may purge its own user, session and run; an admin any of its environment, and the whole of
        it; an admin of production the tenant, with all its environments. The audit stays, with the receipt.
        """
        stores = []
        unsupported = []
        with self.purging(caller, selector, dry_run=dry_run) as purging:
            for lane, store in purging.stores.items():
                if not store.capabilities.transactions:
                    unsupported.append(lane)
                before = store.purge(purging.where, dry_run=True)
                if not dry_run:
                    store.purge(purging.where)
                after = before if dry_run else store.purge(purging.where, dry_run=True)
                stores.append(StoreCount(store=lane, before=before, after=after))
            purging.note(stores)
        return Receipt(
            tenant=caller.tenant,
            environment=caller.environment,
            selector=selector,
            dry_run=dry_run,
            at=self._clock(),
            stores=tuple(stores),
            unsupported=tuple(unsupported),
        )

    @contextmanager
    def purging(self, caller: Caller, selector: Selector, *, dry_run: bool = False) -> Iterator[Purging]:
        """For who destroys more than records: what the selector means, if the caller may purge it, with a
        line in the audit when the block ends. Raises `AccessDenied` before any store is asked."""
        where = self._purgeable(caller, selector)
        note = f"{selector.kind}, as a dry run" if dry_run else selector.kind
        with self._told(caller, "purge", where.scopes, note=note) as counts:
            stores = {lane: self._store_of(caller.tenant, lane) for lane in self._lanes.available}
            yield Purging(where, stores, counts)

    def _purgeable(self, caller: Caller, selector: Selector) -> Where:
        """What the selector means, if the caller may purge it."""
        scopes = self._scopes(caller, "purge", None)
        admin = ADMIN in caller.roles
        if not isinstance(selector, Selector):
            raise InvalidInput("what to purge is a Selector")
        shared = selector.kind in ("tenant", "environment")
        if shared == bool(selector.id):
            raise InvalidInput(
                "this selects nothing",
                kind=selector.kind,
                hint="tenant and environment have no id, the others need one",
            )
        if selector.kind == "tenant" or selector.kind == "environment":
            if not admin or (selector.kind == "tenant" and caller.environment != PRODUCTION):
                self._refuse(caller, "purge", (), "only an admin may purge what is shared")
            return Where(environment=caller.environment, scopes=(), statuses=_EVERY, whole=selector.kind)
        scope = _scope_named(caller, selector.kind, selector.id)
        own = scope in scopes and scope.kind in ("user", "session", "run")
        if scope is None or not (admin or own):
            self._refuse(caller, "purge", (scope,) if scope else (), "it is not the caller's own")
        return Where(environment=caller.environment, scopes=(scope,), statuses=_EVERY)

    # --- bundles ---

    def export(
        self, caller: Caller, *, scopes: Sequence[Scope] | None = None, everyone: bool = False
    ) -> Iterator[bytes]:
        """The lines of a bundle (`memory.bundle`) of the records that the caller sees, of every status, and
        the tombstones of their slots. `everyone` is the whole environment, for admins.

        Read in pages: what is written meanwhile is in it or not. No limit.
        """
        allowed = self._scopes(caller, "export", scopes, everyone=everyone)
        with self._told(caller, "export", allowed, note=f"begun{', ' * everyone}{_whom(everyone)}"):
            store = self._store(caller)
        where = Where(
            environment=caller.environment,
            scopes=allowed,
            statuses=_EVERY,
            whole="environment" if everyone else "",
        )
        return self._exported(caller, store, where)

    def _exported(self, caller: Caller, store: RecordStore, where: Where) -> Iterator[bytes]:
        head = bundle.Head(tenant=caller.tenant, environment=caller.environment, at=self._clock())
        records = tombstones = 0
        done: set[tuple[Scope, str]] = set()
        with self._told(caller, "export", where.scopes, note="ended") as counts:
            yield bundle.encoded(head)
            after = ""
            while True:
                page = store.find(where, limit=_BATCH, after=after)
                slots = {(each.scope, key) for each in page.records for key in ("", each.key)} - done
                done |= slots
                for stone in _stones_of(store, caller.environment, slots):
                    tombstones += 1
                    yield bundle.encoded(bundle.Gone(tombstone=stone))
                for record in page.records:
                    records += 1
                    yield bundle.encoded(bundle.Kept(record=record))
                after = page.next
                if not after:
                    break
            counts |= {"records": records, "tombstones": tombstones}
            yield bundle.encoded(bundle.End(records=records, tombstones=tombstones))

    def import_(self, caller: Caller, lines: Iterable[bytes]) -> Imported:
        """Takes in a bundle; the same again changes nothing. Written in batches of 200 lines: what came
        before a damaged line stays, and importing the mended bundle goes on from there.

        A bundle belongs to its tenant and its environment, and is refused (`AccessDenied`) by others. Of its
        records the caller takes in those of scopes that it may write. Records keep their ids and times, their
        sources and their evidence; only for a caller who is no admin, one that is not here yet gets an id
        made of its old one. What was forgotten here later stays forgotten, and nothing that is here is
        closed. Raises `InvalidInput` with the number of a damaged line, and `NewerFormat`.
        """
        scopes = self._scopes(caller, "import", None)
        counts: dict[str, int] = {}
        read = {"record": 0, "tombstone": 0}
        complete = False
        with self._told(caller, "import", scopes) as told:
            reading = bundle.lines_of(lines)
            head = next(reading, None)
            if isinstance(head, bundle.Head) and (
                (head.tenant, head.environment) != (caller.tenant, caller.environment)
            ):
                self._refuse(caller, "import", (), "the bundle is of another tenant or environment")
            store = self._store(caller)
            batch: list[Record | Tombstone] = []
            own: set[Tombstone] = set()
            for line in reading:
                match line:
                    case bundle.Kept():
                        read["record"] += 1
                        batch.append(line.record)
                    case bundle.Gone():
                        read["tombstone"] += 1
                        batch.append(line.tombstone)
                    case bundle.End():
                        complete = (line.records, line.tombstones) == tuple(read.values())
                if len(batch) >= _BATCH:
                    self._take_in(store, caller, batch, own, counts)
                    batch.clear()
            self._take_in(store, caller, batch, own, counts)
            told |= counts
        return Imported(complete=complete, **counts)

    def _take_in(
        self,
        store: RecordStore,
        caller: Caller,
        batch: Sequence[Record | Tombstone],
        own: set[Tombstone],
        counts: dict[str, int],
    ) -> None:
        """`own` are the bundle's tombstones so far. They bar nothing of it: what it holds beside them was
        said, or holds again, in spite of them."""
        if not batch:
            return
        now = self._clock()
        with store.writing() as writing:
            for each in batch:
                if each.environment != caller.environment or not _writable(caller, each.scope):
                    ending = "denied"
                elif isinstance(each, Tombstone):
                    stone = _stone(each, now)
                    own.add(stone)
                    ending = _buried(writing, stone)
                else:
                    ending = self._taken(writing, caller, policy.arrived(each, now), own, now)
                counts[ending] = counts.get(ending, 0) + 1

    def _taken(
        self, writing: Transaction, caller: Caller, record: Record, own: set[Tombstone], now: int
    ) -> str:
        admin = ADMIN in caller.roles
        here = Where(
            environment=caller.environment,
            scopes=(record.scope,),
            statuses=_EVERY,
            whole="tenant" if admin else "",
        )
        existing = next(iter(writing.find(replace(here, ids=(record.id,)))), None)
        if (existing is None and not admin) or (existing is not None and _place(existing) != _place(record)):
            record = _renamed(record)
            existing = next(iter(writing.find(replace(here, ids=(record.id,)))), None)
        slot = Where(environment=caller.environment, scopes=(record.scope,), keys=(record.key,), now=now)
        decision = policy.imported(
            record,
            existing=existing,
            slot=writing.find(slot),
            tombstones=set(_tombstones(writing, caller.environment, record.scope, record.key)) - own,
            now=now,
            actor=caller.actor,
        )
        writing.write(decision.change)
        return (
            "unchanged" if decision.outcome == "merged" and not decision.change.events else decision.outcome
        )

    # --- who may ---

    def _scopes(
        self,
        who: Caller,
        call: str,
        wanted: Sequence[Scope] | None,
        *,
        write: bool = False,
        everyone: bool = False,
    ) -> tuple[Scope, ...]:
        """The scopes that are meant, all of which the caller may see; None: all of its own. Refuses, before
        any store is asked, whatever is not certain."""
        if type(who) is not Caller:
            raise AccessDenied(
                "no caller was given", hint="make one with `caller(...)` where requests come in"
            )
        if who.environment == PRODUCTION and self._evaluation(who.tenant):
            self._refuse(who, call, (), "its tenant is for evaluations, and its environment is production")
        own = scopes_of(who)
        if everyone and (wanted is not None or ADMIN not in who.roles):
            self._refuse(who, call, (), "only an admin may ask for everyone")
        if wanted is None:
            return own.write if write else own.read
        wanted = tuple(wanted)
        if not wanted or not all(isinstance(each, Scope) for each in wanted):
            self._refuse(who, call, (), "no scope was given")
        allowed = own.write if write else own.read
        if not all(each in allowed or _administers(who, each) for each in wanted):
            self._refuse(who, call, wanted, "the scope is not the caller's")
        return wanted

    def _refuse(self, who: Caller, call: str, scopes: tuple[Scope, ...], reason: str) -> NoReturn:
        self._write(who, call, "refused", scopes, reason=reason)
        refused = AccessDenied(
            f"this caller may not {call.replace('_', ' ')} that: {reason}",
            hint="a caller sees its own session, run, user and agent, and what its tenant shares",
        )
        refused.noted = True
        raise refused

    # --- what happened ---

    @contextmanager
    def _told(
        self, who: Caller, call: str, scopes: tuple[Scope, ...], *, note: str = "", **asked: str
    ) -> Iterator[dict[str, int]]:
        """Writes the call's line in the audit when the block ends, with the counts that it noted."""
        counts: dict[str, int] = {}
        marks = {name: mark_of(text) for name, text in asked.items() if text}
        try:
            yield counts
        except AccessDenied:
            raise  # it has its line
        except StratalogError as error:
            ending: Ending = "refused" if isinstance(error, LaneDenied) else "failed"
            self._write(who, call, ending, scopes, counts, marks, type(error).__name__)
            raise
        try:
            self._write(who, call, "done", scopes, counts, marks, note)
        except LogError as error:
            raise StorageFailed(
                f"what was asked for (`{call}`) is done, but its line in the audit could not be written",
                hint=f"see to the audit: {error}",
            ) from error

    def _write(
        self,
        who: Caller,
        call: str,
        ending: Ending,
        scopes: tuple[Scope, ...],
        counts: dict[str, int] | None = None,
        asked: dict[str, str] | None = None,
        reason: str = "",
    ) -> None:
        line = AuditLine(
            at=self._clock(),
            call=call,
            ending=ending,
            environment=who.environment,
            user=who.user,
            agent=who.agent,
            session=who.session,
            run=who.run,
            roles=tuple(sorted(who.roles)),
            scopes=scopes,
            counts=counts or {},
            asked=asked or {},
            reason=reason,
            token=who.token,
        )
        self._audit.write(who.tenant, line)

    def _store(self, who: Caller) -> RecordStore:
        return self._store_of(who.tenant, self._lanes.choose(who).name)


def _whom(everyone: bool) -> str:
    """What the audit says of a call beside the caller's scopes."""
    return "everyone" if everyone else ""


def _administers(who: Caller, scope: Scope) -> bool:
    """Whether an admin may use the scope: any of its tenant's, named in its normal form."""
    if ADMIN not in who.roles:
        return False
    if scope.kind == "tenant":
        return not scope.id
    return bool(scope.id) and _scope_named(who, scope.kind, scope.id) == scope


def _writable(who: Caller, scope: Scope) -> bool:
    return scope in scopes_of(who).write or _administers(who, scope)


def _scope_named(who: Caller, kind: ScopeKind, id: str) -> Scope | None:
    """The scope of this id in the caller's tenant; None when no id is written like that there."""
    try:
        if kind == "session":
            key = parse_key(id, who.tenant)
            return Scope(kind, str(key)) if key.tenant == who.tenant else None
        return Scope(kind, getattr(caller(who.tenant, **{kind: id}), kind))
    except InvalidKey:
        return None


def _place(record: Record) -> tuple[str, Scope, str]:
    return record.environment, record.scope, record.key


def _renamed(record: Record) -> Record:
    """The record under an id that nobody else's can have: made of its own and of its slot."""
    scope = record.scope

    def renamed(id: str) -> str:
        return derived_ulid(ulid_ts(id), record.environment, scope.kind, scope.id, id)

    return replace(record, id=renamed(record.id), supersedes=tuple(map(renamed, record.supersedes)))


def _said_in(session: str, record: Record) -> set[str]:
    """The entries of the session that the record was drawn from."""
    return {each.entry for each in record.sources if session and each.session == session}


def _tombstones(writing: Transaction, environment: str, scope: Scope, key: str) -> tuple[Tombstone, ...]:
    """Those of the slot, and those of the entries that were forgotten for its scope."""
    return (*writing.tombstones(environment, scope, key), *writing.tombstones(environment, scope, ""))


def _stones_of(
    store: RecordStore, environment: str, slots: Iterable[tuple[Scope, str]]
) -> tuple[Tombstone, ...]:
    slots = sorted(slots)
    if not slots or not store.capabilities.tombstones:
        return ()
    with store.writing() as writing:
        return tuple(stone for scope, key in slots for stone in writing.tombstones(environment, scope, key))


def _stone(stone: Tombstone, now: int) -> Tombstone:
    """A bundle's tombstone as it is kept."""
    if len(stone.content) > policy.MAX_NAME:
        raise InvalidInput("a tombstone of this bundle is too long")
    return replace(stone, at=min(stone.at, now), key=policy.slot_key(stone.key) if stone.key else "")


def _buried(writing: Transaction, stone: Tombstone) -> str:
    if stone in writing.tombstones(stone.environment, stone.scope, stone.key):
        return "unchanged"
    writing.write(Change(tombstones=(stone,)))
    return "tombstones"


def _idempotency_key(who: Caller, scope: Scope, idempotency: str) -> str:
    """The key as it is noted: of the environment and scope, so that nobody meets another's."""
    if not idempotency:
        return ""
    parts = [who.environment, scope.kind, scope.id, idempotency]
    return hashlib.sha256(msgspec.json.encode(parts)).hexdigest()


def _result(draft: Draft, decision: policy.Decision) -> str:
    noted = _Noted(
        draft=_digest(draft),
        outcome=decision.outcome,
        record=decision.record.id if decision.record else "",
        reason=decision.reason,
    )
    return msgspec.json.encode(noted).decode()


def _digest(draft: Draft) -> str:
    return hashlib.sha256(msgspec.json.encode(draft, order="sorted")).hexdigest()


def _unsupported(store: RecordStore) -> tuple[str, ...]:
    return () if store.capabilities.tombstones else ("tombstones",)


def _can(store: RecordStore, what: Literal["search", "validity", "history"]) -> None:
    if not getattr(store.capabilities, what):
        raise InvalidInput(
            f"this lane has no {what}", lane=store.capabilities.name, hint="take the native lane for it"
        )


def _not_found(id: str) -> NotFound:
    return NotFound("no such record", id=ascii(id), hint="ids come from `remember`, `recall` and `list`")


def _between(what: str, number: int, most: int) -> None:
    if not 1 <= number <= most:
        raise InvalidInput(f"{what} is from 1 to {most}", given=number, hint="go on with the next page")


def _at_most(what: str, number: int, most: int) -> None:
    if number > most:
        raise InvalidInput(f"{what} has {number}; {most} are allowed")
