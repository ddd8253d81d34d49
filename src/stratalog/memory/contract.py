"""What a record is, and what every store of records does.

A record is one remembered thing in a slot: its environment, its scope and its key. A slot has one current
record, or several that contradict one another and say so. Nothing is overwritten: what is superseded is
closed, what is forgotten leaves a tombstone, and every step is a line of the history, which only grows.

A store is of one tenant: no call names another's. Which records a caller may see is a predicate that the
service makes (`Where.scopes`, `Where.environment`); a store applies it exactly, and where it is empty gives
nothing.

Times are milliseconds UTC. `valid_from` and `valid_to` say when a thing holds in the world, `created_at` and
`updated_at` when it was written down.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from enum import StrEnum
from typing import Any, Literal, Protocol, TypeAlias

import msgspec

Origin: TypeAlias = Literal["user", "agent", "tool", "import", "model"]
ScopeKind: TypeAlias = Literal["session", "run", "agent", "user", "tenant"]
Precision: TypeAlias = Literal["year", "month", "day", "hour", "minute", "second"]
Status: TypeAlias = Literal["current", "superseded", "forgotten"]
Action: TypeAlias = Literal[
    "remember", "merge", "supersede", "conflict", "promote", "repair", "forget", "expire", "import"
]

PRODUCTION = "production"


class Layer(StrEnum):
    """How long a record is meant to last: a turn's preview, a session's matters, what is true beyond."""

    SHORT = "short"
    MID = "mid"
    LONG = "long"


class Scope(msgspec.Struct, frozen=True, order=True):
    """Whose a record is within its tenant. `id` is the session's key, the run, the agent or the user; empty
    for what is the tenant's own, and for nothing else."""

    kind: ScopeKind
    id: str = ""


class When(msgspec.Struct, frozen=True, omit_defaults=True):
    """A moment as it was told: `at` is where it begins, `precision` how much of it was said, `zone` the IANA
    name of the zone in which it was meant."""

    at: int
    precision: Precision = "second"
    zone: str = "UTC"


class Source(msgspec.Struct, frozen=True, omit_defaults=True):
    """Where it was said: the session's key, the entry's id, and the characters [start, stop) of its words
    (0, 0: all of them)."""

    session: str
    entry: str
    start: int = 0
    stop: int = 0


class Record(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`id` is a ULID. `key` is normalised (`policy.normal_key`). `payload` is JSON, `text` the same in words,
    for searching and for a prompt. `confidence` is from 0 to 1; `evidence` counts how often it was said.
    `supersedes` and `conflict_with` are ids of records of the same slot. `expires_at` 0: never."""

    id: str
    environment: str = PRODUCTION
    layer: Layer
    scope: Scope
    key: str
    payload: Any = None
    text: str = ""
    confidence: float = 0.5
    origin: Origin = "user"
    sources: tuple[Source, ...] = ()
    valid_from: When | None = None
    valid_to: When | None = None
    supersedes: tuple[str, ...] = ()
    conflict_with: tuple[str, ...] = ()
    evidence: int = 1
    status: Status = "current"
    created_at: int = 0
    updated_at: int = 0
    expires_at: int = 0


class Tombstone(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Something was forgotten at `at`: what was said before that does not come back into the slot, however
    late it is written. With a `content` (`policy.content_of`) only that payload; "" for the whole slot.

    Under the key "", which no slot has, `content` is the id of an entry: nothing is drawn from it again into
    this scope.
    """

    environment: str
    scope: Scope
    key: str
    at: int
    content: str = ""


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """One step in a record's life: `record` as it was after it. `seq` counts from 1 within the tenant;
    `actor` is who did it."""

    seq: int = 0
    at: int
    action: Action
    actor: str
    record: Record
    reason: str = ""


class Where(msgspec.Struct, frozen=True, kw_only=True):
    """Which records are meant: those for which all of it holds. An empty `scopes` is none; an empty `layers`,
    `keys`, `ids`, `entries` (of sources) is any. `valid_at` asks for what held then; `now` leaves out what
    has expired by then (0: leaves out nothing). `whole` is for who may see everything: "environment" is
    every scope of the environment, "tenant" every scope of every environment, and `scopes` is not looked at.
    """

    environment: str
    scopes: tuple[Scope, ...]
    layers: tuple[Layer, ...] = ()
    keys: tuple[str, ...] = ()
    ids: tuple[str, ...] = ()
    entries: tuple[str, ...] = ()
    statuses: tuple[Status, ...] = ("current",)
    valid_at: int | None = None
    now: int = 0
    whole: Literal["", "environment", "tenant"] = ""


class Found(msgspec.Struct, frozen=True):
    """A record that a search found; a higher `score` is better, within one search."""

    record: Record
    score: float


class RecordPage(msgspec.Struct, frozen=True):
    """Some records, oldest id first; `next` goes on after them, "" at the end."""

    records: tuple[Record, ...]
    next: str = ""


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """What a transaction writes, all or none: the events, whose records replace those of the same id, and
    tombstones."""

    events: tuple[Event, ...] = ()
    tombstones: tuple[Tombstone, ...] = ()


class Capabilities(msgspec.Struct, frozen=True, kw_only=True):
    """What a store can do. What it cannot is declared here and told to the caller, not made up."""

    name: str
    external: bool = False  # whether records leave the machine
    transactions: bool = True
    history: bool = True
    tombstones: bool = True
    validity: bool = True
    search: bool = True


class Transaction(Protocol):
    """Reads and writes of one writer, while no other writes."""

    def find(self, where: Where) -> tuple[Record, ...]:
        """All records, oldest id first."""
        ...

    def tombstones(self, environment: str, scope: Scope, key: str) -> tuple[Tombstone, ...]: ...

    def done(self, idempotency: str) -> str | None:
        """What an earlier transaction noted under this key; None when none did."""
        ...

    def write(self, change: Change, *, idempotency: str = "", result: str = "") -> None:
        """Writes at the transaction's end; what is written is found by its later calls.

        With an `idempotency` key, `result` is noted under it, once: it belongs to the slots that the change
        writes, or, where it writes none, to those that the transaction read. A record stays in its slot.
        Raises `Conflict` for a key that is noted already and for a record that would move; the whole
        transaction is void then. Raises `InvalidInput` for what cannot be stored as it is."""
        ...


class RecordStore(Protocol):
    """The records of one tenant. Safe to use from several threads, and from several processes where
    its kind can be."""

    @property
    def capabilities(self) -> Capabilities: ...

    def writing(self) -> AbstractContextManager[Transaction]:
        """One transaction, to be used in a `with` block: written when the block ends, and not at all when it
        raises. Raises `StorageFailed`, `StorageFull`, and `StoreBusy` when another writes for too long."""
        ...

    def find(self, where: Where, *, limit: int = 100, after: str = "") -> RecordPage:
        """A page of records, after the id `after`. Raises `InvalidInput` for a limit under 1."""
        ...

    def search(self, where: Where, query: str, *, limit: int = 10) -> tuple[Found, ...]:
        """The records whose words fit the query, best first."""
        ...

    def history(self, where: Where, *, limit: int = 100, after: int = 0) -> tuple[Event, ...]:
        """Events, oldest first, of records for which `where` holds or held (its `statuses` aside)."""
        ...

    def purge(self, where: Where, *, dry_run: bool = False) -> dict[str, int]:
        """Destroys records of any status with their history and index; the rows of each kind that there were.
        What is freed is overwritten. One by scope or key destroys tombstones and noted results too; one that
        is narrowed by anything else leaves tombstones. Killed in the middle, the same call finishes it."""
        ...

    def close(self) -> None: ...
