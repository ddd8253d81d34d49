"""Records in mem0: a lane that leaves the machine, or at least leaves our own store.

    with open_mem0(config, "data/mem0") as mem0:
        store = mem0.records("acme")

Each event is one memory of mem0, added with `infer=False`, so that no language model is asked: its words are
those of its record, its metadata the event whole. A record is what its latest event says, and nothing is ever
changed in place: what a process leaves half-way is events that are missing, never a record between two
states. Tombstones, noted results and the last number of a purged history are memories too.

Every memory carries a digest of its tenant, environment and scope (`run_id`, `agent_id`, `user_id`), every
call has at least one of them as its filter, and what comes back is held against the question again. Lists
are read until mem0 has no more. mem0's own trail, which keeps the words of what is deleted, is emptied after
every write.

What mem0 cannot: it has no transactions. One block of `writing()` at a time is in a tenant, within one
process; its memories are added one by one when it ends, and readers may see some of them earlier than others.
When adding fails, those that were added are deleted again; when the process dies, or deleting fails too, they
stay: tombstones first, then what is current, then what is closed, then the noted result, so that nothing is
lost that was there, and the same call again adds what is missing. Two processes that write one tenant on one
server may both win. Reading costs what the scopes hold, with every step of their history, and writing one
embedding a memory. What the vector store leaves of deleted rows in its files is its own matter.
"""

from __future__ import annotations

import hashlib
import os
import sqlite3
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, Self, TypeAlias

import msgspec

from stratalog.errors import DamagedLog, InvalidConfig, InvalidInput, StorageFailed, StoreBusy
from stratalog.memory.codec import already_noted, decode_event, moved, settle
from stratalog.memory.contract import (
    Capabilities,
    Change,
    Event,
    Found,
    Record,
    RecordPage,
    Scope,
    Tombstone,
    Where,
)
from stratalog.memory.matching import all_of_slots, askable, inside, matches, positive

if TYPE_CHECKING:
    from mem0 import Memory

_WAIT_S: Final = 10.0
_PAGE: Final = 1_000
_LEAST_HITS: Final = 100
# Embedders refuse what is over some 8,000 tokens; the record itself is whole in the metadata.
_WORDS: Final = 4_000
_NO_WORDS: Final = "-"
_CAUSE: Final = "its own error is the cause"
_DIGITS: Final = 6  # of a score: equal words give equal scores, whatever the machine's last bits are

_Kind: TypeAlias = Literal["event", "tombstone", "noted", "mark"]
_Filters: TypeAlias = dict[str, Any]


class _Item(NamedTuple):
    """A memory of mem0. `seq` is an event's number or a mark's, `record` an event's record's id."""

    id: str
    tenant: str
    kind: str
    seq: int
    record: str
    body: str
    score: float


class _Step(NamedTuple):
    """An event, and the memory that holds it; "" while it is still to be written."""

    item: str
    event: Event

    @property
    def place(self) -> tuple[int, str]:
        return self.event.seq, self.item


class _Place(msgspec.Struct, frozen=True, array_like=True):
    """A slot; with an empty key, any in its scope."""

    environment: str
    scope: Scope
    key: str = ""
    record: str = ""


class _Noted(msgspec.Struct, frozen=True):
    """A result, and what it belongs to."""

    result: str
    places: tuple[_Place, ...]


class _Draft(NamedTuple):
    """A memory that is to be added: whose it is, its words and its metadata."""

    owner: dict[str, str]
    words: str
    metadata: dict[str, Any]


class _Doomed(NamedTuple):
    """What a purge would delete, in this order, and its rows of each kind."""

    items: tuple[str, ...]
    counts: dict[str, int]


def open_mem0(config: Mapping[str, Any], directory: str | Path) -> Mem0:
    """mem0 with this configuration (that of `mem0.Memory.from_config`), everything on disk in `directory`.

    What `config` does not name is: a local Qdrant store there, as wide as the embedder's `embedding_dims`; no
    trail of mem0's own; a language model that is nowhere, for mem0 insists on having one. Sets
    `MEM0_TELEMETRY` off and, where it is not set, `MEM0_DIR` to the directory, for the whole process: mem0
    reads them when it is first imported, and writes there then.

    Raises `InvalidConfig`, also when mem0 is not installed, when it was imported before with its telemetry
    on, and when its server does not answer; and `StoreBusy` when another has the local store open.
    """
    home = Path(directory).absolute()
    home.mkdir(parents=True, exist_ok=True)
    os.environ["MEM0_TELEMETRY"] = "False"
    os.environ.setdefault("MEM0_DIR", str(home))
    try:
        from mem0 import Memory
    except ImportError as error:
        hint = "pip install 'stratalog[mem0]'"
        raise InvalidConfig("this lane needs the package `mem0ai`", hint=hint) from error
    settled = _settled(config, home)
    _check(settled["vector_store"]["provider"])
    failures: tuple[type[Exception], ...] = (*_failures(), ImportError)
    try:
        memory = Memory.from_config(settled)
    except failures as error:
        # Only the kind: mem0's own words may repeat what was configured, keys too.
        kind = type(error).__name__
        if "already accessed" in str(error):
            raise StoreBusy(
                "another has mem0's local store open",
                path=str(home),
                hint="one process at a time has it; a Qdrant server takes several",
            ) from error
        raise InvalidConfig("mem0 cannot be made of this configuration", kind=kind, hint=_CAUSE) from error
    return Mem0(memory)


def _settled(config: Mapping[str, Any], home: Path) -> dict[str, Any]:
    """The configuration with what it does not name."""
    vectors = {"provider": "qdrant", **config.get("vector_store", {})}
    store = dict(vectors.get("config") or {})
    if vectors["provider"] == "qdrant" and not store.keys() & {"path", "host", "url", "client"}:
        store["path"] = str(home / "qdrant")
    width = (config.get("embedder", {}).get("config") or {}).get("embedding_dims")
    if width:
        store.setdefault("embedding_model_dims", width)
    nobody = {"provider": "openai", "config": {"api_key": "none", "openai_base_url": "http://127.0.0.1:9"}}
    return {
        "llm": nobody,
        "history_db_path": ":memory:",
        **config,
        "vector_store": {**vectors, "config": store},
    }


class Mem0:
    """One `mem0.Memory`, for the records of any number of tenants; safe to use from several threads.

    Its vector store is Qdrant, local or a server: others of mem0's ignore some filters or cap their lists.
    A local one is asked by one thread at a time. A writer waits `wait` seconds for another of its tenant.
    Raises `InvalidConfig` for another vector store, and when mem0's telemetry is on.
    """

    def __init__(self, memory: Memory, *, wait: float = _WAIT_S) -> None:
        vectors = memory.config.vector_store
        _check(vectors.provider)
        self._memory = memory
        self._wait = wait
        self._failures = _failures()
        local = memory.vector_store.is_local or vectors.config.client is not None
        self._turn: AbstractContextManager[Any] = threading.RLock() if local else nullcontext()
        self._mutex = threading.Lock()
        self._stores: dict[str, Mem0Records] = {}
        self._closed = False
        with self._calling():
            memory.db.connection.execute("PRAGMA secure_delete = ON")

    def records(self, tenant: str) -> Mem0Records:
        """The records of a tenant: the same store each time."""
        with self._mutex:
            if tenant not in self._stores:
                self._stores[tenant] = Mem0Records(self, tenant, wait=self._wait)
            return self._stores[tenant]

    def close(self) -> None:
        """Closes mem0 and its vector store. The second time does nothing."""
        with self._mutex:
            if not self._closed:
                with self._calling():
                    self._memory.close()
                    self._memory.vector_store.client.close()
                self._closed = True

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # --- all that is asked of mem0 ---

    def add(self, draft: _Draft) -> str:
        """Adds one memory; its id."""
        with self._calling():
            done = self._memory.add(draft.words, **draft.owner, metadata=draft.metadata, infer=False)
            ids = [each["id"] for each in done["results"]]
            self._without_trail(ids)
        if len(ids) != 1:
            raise StorageFailed("mem0 did not add what it was given", added=len(ids))
        return str(ids[0])

    def items(self, filters: _Filters) -> list[_Item]:
        """All memories for which the filters hold: asked for more until fewer come than were asked for."""
        most = _PAGE
        while True:
            found = self._listed(filters, most)
            if len(found) < most:
                return found
            most *= 8

    def any(self, filters: _Filters) -> bool:
        return bool(self._listed(filters, 1))

    def nearest(self, filters: _Filters, query: str, most: int) -> list[_Item]:
        """At most so many, best first; fewer only when there are no more."""
        with self._calling():
            found = self._memory.search(query, filters=filters, top_k=most, show_expired=True)["results"]
        return [_item(each) for each in found]

    def delete(self, ids: Iterable[str]) -> None:
        """One by one, in this order."""
        for id in ids:
            with self._calling():
                self._memory.delete(id)
                self._without_trail([id])

    def _listed(self, filters: _Filters, most: int) -> list[_Item]:
        with self._calling():
            found = self._memory.get_all(filters=filters, top_k=most, show_expired=True)["results"]
        return [_item(each) for each in found]

    def _without_trail(self, ids: list[str]) -> None:
        """Takes out of mem0's trail the words, old and new, that it notes of all that it is told to do."""
        trail = self._memory.db
        with trail._lock, trail.connection:
            trail.connection.executemany("DELETE FROM history WHERE memory_id = ?", [(id,) for id in ids])

    @contextmanager
    def _calling(self) -> Iterator[None]:
        if self._closed:
            raise StorageFailed("mem0 is closed", hint="open it again with `open_mem0`")
        try:
            with self._turn:
                yield
        except self._failures as error:
            # Only the kind: what the words of mem0's errors hold is not ours to promise.
            raise StorageFailed("mem0 failed", kind=type(error).__name__, hint=_CAUSE) from error


def _check(provider: str) -> None:
    from mem0.memory import telemetry

    if telemetry.MEM0_TELEMETRY:
        raise InvalidConfig(
            "mem0 was imported with its telemetry on", hint="set MEM0_TELEMETRY=False before the import"
        )
    if provider != "qdrant":
        raise InvalidConfig("records are kept in mem0 over Qdrant only", given=provider, hint='take "qdrant"')


def _failures() -> tuple[type[Exception], ...]:
    """What mem0, its vector store and an embedder over HTTP raise."""
    from httpx import HTTPError
    from mem0.exceptions import MemoryError as Mem0Error
    from openai import OpenAIError
    from qdrant_client.http.exceptions import ApiException

    named = (Mem0Error, OpenAIError, ApiException, HTTPError)
    return (*named, sqlite3.Error, OSError, ValueError, TypeError, LookupError, RuntimeError)


class Mem0Records:
    """The records of one tenant in mem0; made by `Mem0.records`.

    It searches by mem0's vectors: a record is found by what its words mean to the embedder, from mem0's least
    similarity on, and by its first 4,000 characters.
    """

    capabilities = Capabilities(name="mem0", external=True, transactions=False)

    def __init__(self, home: Mem0, tenant: str, *, wait: float = _WAIT_S) -> None:
        self._home = home
        self._tenant = tenant
        self._run = _digest("tenant", tenant)
        self._wait = wait
        self._writer = threading.Lock()
        self._seen = 0  # a number of the history that is known to be given

    @contextmanager
    def writing(self) -> Iterator[_Transaction]:
        with self._alone():
            transaction = _Transaction(self)
            try:
                yield transaction
            finally:
                transaction.ended = True
            self._add_all(transaction.drafts())
            self._seen = max(self._seen, transaction.last)

    def find(self, where: Where, *, limit: int = 100, after: str = "") -> RecordPage:
        positive(limit)
        found = [record for record in self.current(where) if record.id > after]
        page = tuple(found[:limit])
        return RecordPage(page, page[-1].id if len(found) > limit else "")

    def search(self, where: Where, query: str, *, limit: int = 10) -> tuple[Found, ...]:
        positive(limit)
        asked = askable(where)
        words = query.encode("utf-8", "replace").decode()[:_WORDS].strip()
        if asked is None or not words:
            return ()
        filters = self._filters("event", asked)
        most = max(_LEAST_HITS, min(4 * limit, _PAGE))
        while True:
            hits = self._home.nearest(filters, words, most)
            found = self._fitting(asked, hits)
            # What is as good as the last may come yet, and be later.
            if len(hits) < most or (len(found) >= limit and found[limit - 1].score > hits[-1].score):
                return tuple(found[:limit])
            most *= 4

    def history(self, where: Where, *, limit: int = 100, after: int = 0) -> tuple[Event, ...]:
        positive(limit)
        events = [step.event for step in self.steps(where)]
        ids = {event.record.id for event in events if matches(where, event.record, any_status=True)}
        return tuple([event for event in events if event.seq > after and event.record.id in ids][:limit])

    def purge(self, where: Where, *, dry_run: bool = False) -> dict[str, int]:
        """See the contract. It lists and deletes until nothing is left, oldest events first, so that what is
        left in between still says what the record said. Raises `StorageFailed` when mem0 deletes nothing."""
        asked = askable(where, any_status=True)
        if asked is None:
            return dict.fromkeys(("records", "events", "tombstones", "idempotency"), 0)
        with self._alone():
            doomed = first = self._doomed(asked)
            if doomed.counts["events"] and not dry_run:
                self._mark()
            while doomed.items and not dry_run:
                self._home.delete(doomed.items)
                left = self._doomed(asked)
                if len(left.items) >= len(doomed.items):
                    raise StorageFailed("mem0 did not delete what it was told to", left=len(left.items))
                doomed = left
        return first.counts

    def close(self) -> None:
        """Nothing to let go of: who made the `Mem0` closes it."""

    # --- what is there ---

    def steps(self, where: Where) -> list[_Step]:
        """Every step of the records in the reach of `where`, by its keys and ids, oldest first."""
        asked = askable(where, any_status=True)
        if asked is None:
            return []
        return self._steps_of(self._filters("event", asked))

    def current(self, where: Where, pending: Iterable[_Step] = ()) -> list[Record]:
        """The records for which `where` holds, after the `pending` steps; oldest id first."""
        latest = _latest((*self.steps(where), *pending))
        return [latest[id].event.record for id in sorted(latest) if matches(where, latest[id].event.record)]

    def known(self, ids: Iterable[str]) -> dict[str, _Step]:
        """The latest steps of the tenant's records of these ids."""
        named = sorted(set(ids))
        found = self._steps_of(self._owned("event", record={"in": named})) if named else []
        return _latest(found)

    def stones(self, environment: str, scope: Scope, key: str) -> set[Tombstone]:
        filters = {
            "user_id": self._user(environment, scope),
            "key": _digest("key", key),
            "kind": "tombstone",
        }
        found = {_stone(item) for item in self._items(filters)}
        return {
            each for each in found if (each.environment, each.scope, each.key) == (environment, scope, key)
        }

    def noted(self, idempotency: str) -> _Noted | None:
        found = self._items(self._owned("noted", noted=_digest("noted", idempotency)))
        return _noted(found[0]) if found else None

    def last(self) -> int:
        """The highest number of the history, now: mem0 cannot sort, so it is sought in halves."""
        low = high = self._seen
        step = 1
        while self._beyond(high):
            low, high, step = high, high + step, 2 * step
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self._beyond(middle) else (low, middle)
        self._seen = high
        return high

    def _beyond(self, seq: int) -> bool:
        return self._home.any({"seq": {"gt": seq}, "run_id": self._run})

    def _steps_of(self, filters: _Filters) -> list[_Step]:
        return sorted(map(_step, self._items(filters)), key=lambda step: step.place)

    def _items(self, filters: _Filters) -> list[_Item]:
        found = self._home.items(filters)
        return [each for each in found if (each.tenant, each.kind) == (self._run, filters["kind"])]

    def _fitting(self, where: Where, hits: list[_Item]) -> list[Found]:
        """What of the hits a record says still, best first and among equals the latest."""
        latest = self.known(hit.record for hit in hits if hit.tenant == self._run)
        found = [
            Found(latest[hit.record].event.record, hit.score)
            for hit in hits
            if hit.record in latest and latest[hit.record].item == hit.id
        ]
        fitting = [each for each in found if matches(where, each.record)]
        return sorted(fitting, key=lambda each: (each.score, each.record.id), reverse=True)

    # --- whose it is ---

    def _user(self, environment: str, scope: Scope) -> str:
        return _digest("scope", self._tenant, environment, scope.kind, scope.id)

    def _agent(self, environment: str) -> str:
        return _digest("environment", self._tenant, environment)

    def _owned(self, kind: _Kind, **narrowed: Any) -> _Filters:
        """What is of the tenant. The narrowest comes first: a local store looks at filters one by one."""
        return {**narrowed, "kind": kind, "run_id": self._run}

    def _filters(self, kind: _Kind, where: Where) -> _Filters:
        """What is within the reach of `where`, and in its slots and of its records if it names them."""
        filters: _Filters = {}
        if where.ids:
            filters["record"] = {"in": list(where.ids)}
        if where.keys:
            filters["key"] = {"in": [_digest("key", key) for key in where.keys]}
        if where.whole == "tenant":
            return {**filters, "kind": kind, "run_id": self._run}
        agent = self._agent(where.environment)
        if where.whole:
            return {**filters, "kind": kind, "agent_id": agent}
        users = [self._user(where.environment, scope) for scope in where.scopes]
        if len(users) == 1:
            return {**filters, "user_id": users[0], "kind": kind}
        # `user_id` takes one name only; `place` is the same one.
        return {**filters, "place": {"in": users}, "kind": kind, "agent_id": agent}

    # --- writing ---

    def draft_event(self, event: Event, body: bytes) -> _Draft:
        record = event.record
        words = f"{record.key}: {record.text}" if record.text else record.key
        return self._draft_in(
            record.environment,
            record.scope,
            record.key,
            words,
            {"kind": "event", "seq": event.seq, "record": record.id, "body": body.decode()},
        )

    def draft_stone(self, stone: Tombstone) -> _Draft:
        body = msgspec.json.encode(stone).decode()
        return self._draft_in(
            stone.environment, stone.scope, stone.key, "", {"kind": "tombstone", "body": body}
        )

    def draft_noted(self, idempotency: str, noted: _Noted) -> _Draft:
        body = msgspec.json.encode(noted).decode()
        metadata = {"kind": "noted", "noted": _digest("noted", idempotency), "body": body}
        return _Draft({"run_id": self._run}, _NO_WORDS, metadata)

    def _draft_in(
        self, environment: str, scope: Scope, key: str, words: str, metadata: dict[str, Any]
    ) -> _Draft:
        user = self._user(environment, scope)
        owner = {"user_id": user, "agent_id": self._agent(environment), "run_id": self._run}
        return _Draft(
            owner,
            words[:_WORDS].strip() or _NO_WORDS,
            {**metadata, "place": user, "key": _digest("key", key)},
        )

    def _add_all(self, drafts: list[_Draft]) -> None:
        """Adds all, or, as far as mem0 lets it, none."""
        added: list[str] = []
        try:
            for draft in drafts:
                added.append(self._home.add(draft))
        finally:
            if len(added) < len(drafts):
                with suppress(StorageFailed):
                    self._home.delete(reversed(added))

    # --- destroying ---

    def _doomed(self, where: Where) -> _Doomed:
        steps = self.steps(where)
        latest = _latest(steps)
        gone = {id for id, step in latest.items() if matches(where, step.event.record, any_status=True)}
        events = [step.item for step in steps if step.event.record.id in gone]
        slots = all_of_slots(where)
        stones = self._stones_in(where) if slots else {}
        notes = [
            item.id
            for item in self._items(self._owned("noted"))
            if _goes_with(where, gone, _noted(item), slots=slots)
        ]
        counts = {
            "records": len(gone),
            "events": len(events),
            "tombstones": len(set(stones.values())),
            "idempotency": len(notes),
        }
        return _Doomed((*notes, *stones, *events), counts)

    def _stones_in(self, where: Where) -> dict[str, Tombstone]:
        found = {item.id: _stone(item) for item in self._items(self._filters("tombstone", where))}
        return {
            id: stone
            for id, stone in found.items()
            if inside(where, stone.environment, stone.scope) and (not where.keys or stone.key in where.keys)
        }

    def _mark(self) -> None:
        """Keeps the last number of the history, so that none is given twice when its event is gone."""
        last = self.last()
        marks = self._items(self._owned("mark"))
        if all(mark.seq < last for mark in marks):
            mark = {"kind": "mark", "seq": last, "body": ""}
            self._home.add(_Draft({"run_id": self._run}, _NO_WORDS, mark))
        self._home.delete(mark.id for mark in marks if mark.seq < last)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        if not self._writer.acquire(timeout=self._wait):
            raise StoreBusy(
                f"another writes records for more than {self._wait:g} s",
                hint="end the other transaction first",
            )
        try:
            yield
        finally:
            self._writer.release()


class _Transaction:
    def __init__(self, store: Mem0Records) -> None:
        self._store = store
        self._events: list[tuple[Event, bytes]] = []
        self._stones: list[Tombstone] = []
        self._results: dict[str, _Noted] = {}
        self._asked: set[_Place] = set()
        self.last = 0  # the number of its last event
        self.ended = False

    def find(self, where: Where) -> tuple[Record, ...]:
        self._check()
        self._asked |= {
            _Place(where.environment, scope, key) for scope in where.scopes for key in where.keys or ("",)
        }
        return tuple(self._store.current(where, self._pending()))

    def tombstones(self, environment: str, scope: Scope, key: str) -> tuple[Tombstone, ...]:
        self._check()
        self._asked.add(_Place(environment, scope, key))
        mine = {each for each in self._stones if _slot(each) == (environment, scope, key)}
        found = self._store.stones(environment, scope, key) | mine
        return tuple(sorted(found, key=lambda stone: (stone.at, stone.content)))

    def done(self, idempotency: str) -> str | None:
        self._check()
        noted = self._results.get(idempotency) or self._store.noted(idempotency)
        return noted.result if noted else None

    def write(self, change: Change, *, idempotency: str = "", result: str = "") -> None:
        self._check()
        written, stones = settle(change)
        events = [(event, body) for event, body, _ in written]
        self._refuse_moves([event.record for event, _ in events])
        if idempotency and self.done(idempotency) is not None:
            raise already_noted(idempotency)
        noted = _Noted(result, tuple(_places(events, stones) or self._asked))
        try:
            msgspec.json.encode(noted)
        except (msgspec.MsgspecError, UnicodeEncodeError) as error:
            raise InvalidInput("a result cannot be noted", reason=error) from error
        if events and not self.last:
            self.last = self._store.last()
        for event, body in events:
            self.last += 1
            self._events.append((msgspec.structs.replace(event, seq=self.last), body))
        slots = {_slot(stone) for stone in stones}
        kept = set(self._stones).union(*(self._store.stones(*slot) for slot in slots))
        self._stones += [stone for stone in dict.fromkeys(stones) if stone not in kept]
        if idempotency:
            self._results[idempotency] = noted

    def drafts(self) -> list[_Draft]:
        """What is to be added, in the order in which it is best lost from the end."""
        events = sorted(self._events, key=lambda pair: pair[0].record.status != "current")
        return [
            *(self._store.draft_stone(stone) for stone in self._stones),
            *(self._store.draft_event(event, body) for event, body in events),
            *(self._store.draft_noted(key, noted) for key, noted in self._results.items()),
        ]

    def _pending(self) -> list[_Step]:
        # Read anew: nobody gets hold of what is to be written.
        return [_Step("", decode_event(event.seq, body)) for event, body in self._events]

    def _refuse_moves(self, records: list[Record]) -> None:
        known = {id: step.event.record for id, step in self._store.known(each.id for each in records).items()}
        known |= {event.record.id: event.record for event, _ in self._events}
        for record in records:
            if _slot(known.setdefault(record.id, record)) != _slot(record):
                raise moved(record)

    def _check(self) -> None:
        if self.ended:
            raise StorageFailed("this transaction has ended", hint="begin another with `writing()`")


def _digest(*parts: str) -> str:
    """A name that mem0 takes for every list of parts, and that no other list has."""
    return hashlib.sha256(ascii(parts).encode()).hexdigest()


def _item(raw: Mapping[str, Any]) -> _Item:
    metadata = raw.get("metadata") or {}
    return _Item(
        id=str(raw["id"]),
        tenant=str(raw.get("run_id")),
        kind=str(metadata.get("kind")),
        seq=metadata.get("seq", 0),
        record=metadata.get("record", ""),
        body=metadata.get("body", ""),
        score=round(raw.get("score") or 0.0, _DIGITS),
    )


@contextmanager
def _reading(item: _Item) -> Iterator[None]:
    try:
        yield
    except msgspec.MsgspecError as error:
        raise DamagedLog("a memory in mem0 is damaged", memory=item.id, hint="delete it in mem0") from error


def _step(item: _Item) -> _Step:
    with _reading(item):
        return _Step(item.id, decode_event(item.seq, item.body.encode()))


def _stone(item: _Item) -> Tombstone:
    with _reading(item):
        return msgspec.json.decode(item.body, type=Tombstone)


def _noted(item: _Item) -> _Noted:
    with _reading(item):
        return msgspec.json.decode(item.body, type=_Noted)


def _latest(steps: Iterable[_Step]) -> dict[str, _Step]:
    """The last step of each record, by its id."""
    return {step.event.record.id: step for step in sorted(steps, key=lambda step: step.place)}


def _slot(each: Record | Tombstone) -> tuple[str, Scope, str]:
    return each.environment, each.scope, each.key


def _places(events: list[tuple[Event, bytes]], stones: list[Tombstone]) -> set[_Place]:
    places = {_Place(*_slot(event.record), event.record.id) for event, _ in events}
    return places | {_Place(*_slot(stone)) for stone in stones}


def _goes_with(where: Where, gone: set[str], noted: _Noted, *, slots: bool) -> bool:
    """Whether a noted result is destroyed with what `where` means: `gone` are its records, `slots` says
    whether it means all that is in its slots."""
    if slots and where.whole == "tenant" and not where.keys:
        return True
    keys = ("", *where.keys) if where.keys else ()
    return any(
        place.record in gone
        or (slots and inside(where, place.environment, place.scope) and (not keys or place.key in keys))
        for place in noted.places
    )
