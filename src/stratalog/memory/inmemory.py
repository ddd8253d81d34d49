"""Records in memory: for tests, for agents that must leave no trace; the contract in its least form.

The whole state is one value, and a transaction works on its own copy, which becomes the state when the block
ends. Who reads meanwhile has the state of before. So a transaction costs what the store holds.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, NamedTuple

import msgspec

from stratalog.errors import StorageFailed, StoreBusy
from stratalog.memory.codec import Written, already_noted, decode_event, decode_record, moved, settle
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
from stratalog.memory.matching import (
    Terms,
    all_of_slots,
    asked,
    by_prefix,
    indexed,
    inside,
    matches,
    positive,
)

_WAIT_S: Final = 10.0
_K1, _B = 1.2, 0.75  # those of SQLite's bm25


class _Place(NamedTuple):
    """A slot; with an empty key, any in its scope."""

    environment: str
    scope: Scope
    key: str = ""
    record: str = ""


class _Kept(NamedTuple):
    """A record as JSON, which nobody can change, and its terms."""

    record: Record
    body: bytes
    terms: tuple[str, ...]

    def fresh(self) -> Record:
        return decode_record(self.body)


class _Step(NamedTuple):
    """An event with its number."""

    event: Event
    body: bytes

    def fresh(self) -> Event:
        return decode_event(self.event.seq, self.body)


class _Result(NamedTuple):
    text: str
    places: frozenset[_Place]


class _State:
    def __init__(self, other: _State | None = None) -> None:
        self.records: dict[str, _Kept] = dict(other.records) if other else {}
        self.events: list[_Step] = list(other.events) if other else []
        self.stones: set[Tombstone] = set(other.stones) if other else set()
        self.results: dict[str, _Result] = dict(other.results) if other else {}
        self.last: int = other.last if other else 0

    def find(self, where: Where, after: str = "") -> list[_Kept]:
        found = [kept for id, kept in self.records.items() if id > after and matches(where, kept.record)]
        return sorted(found, key=lambda kept: kept.record.id)


class InMemoryRecords:
    """The records of one tenant, which end with the process. `terms` gives the words of a text to search by,
    `query_terms` those of a query where they differ. A writer waits `wait` seconds for another."""

    capabilities = Capabilities(name="inmemory")

    def __init__(self, *, terms: Terms, query_terms: Terms | None = None, wait: float = _WAIT_S) -> None:
        self._terms = terms
        self._query_terms = query_terms or terms
        self._wait = wait
        self._writer = threading.Lock()
        self._state = _State()

    @contextmanager
    def writing(self) -> Iterator[_Transaction]:
        with self._alone():
            state = _State(self._state)
            transaction = _Transaction(state, self._terms)
            try:
                yield transaction
            finally:
                transaction.ended = True
            self._state = state

    def find(self, where: Where, *, limit: int = 100, after: str = "") -> RecordPage:
        found = self._state.find(where, after)
        page = tuple([kept.fresh() for kept in found[: positive(limit)]])
        return RecordPage(page, page[-1].id if len(found) > limit else "")

    def search(self, where: Where, query: str, *, limit: int = 10) -> tuple[Found, ...]:
        state = self._state
        score = _scorer(state, asked(query, self._query_terms))
        scored = [(score(kept), kept) for kept in state.find(where)]
        best = sorted(
            [(points, kept) for points, kept in scored if points is not None],
            key=lambda pair: (pair[0], pair[1].record.id),
            reverse=True,
        )
        return tuple([Found(kept.fresh(), points) for points, kept in best[: positive(limit)]])

    def history(self, where: Where, *, limit: int = 100, after: int = 0) -> tuple[Event, ...]:
        events = self._state.events
        ids = {step.event.record.id for step in events if matches(where, step.event.record, any_status=True)}
        found = [step for step in events if step.event.seq > after and step.event.record.id in ids]
        return tuple([step.fresh() for step in found[: positive(limit)]])

    def purge(self, where: Where, *, dry_run: bool = False) -> dict[str, int]:
        with self._alone():
            state = _State(self._state)
            counts = _purged(state, where)
            if not dry_run:
                self._state = state
        return counts

    def close(self) -> None:
        """Nothing to let go of; the store may be used again."""

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
    def __init__(self, state: _State, terms: Terms) -> None:
        self._state = state
        self._terms = terms
        self._asked: set[_Place] = set()
        self.ended = False

    def find(self, where: Where) -> tuple[Record, ...]:
        self._check()
        self._asked |= {
            _Place(where.environment, scope, key) for scope in where.scopes for key in where.keys or ("",)
        }
        return tuple([kept.fresh() for kept in self._state.find(where)])

    def tombstones(self, environment: str, scope: Scope, key: str) -> tuple[Tombstone, ...]:
        self._check()
        self._asked.add(_Place(environment, scope, key))
        found = [
            stone
            for stone in self._state.stones
            if (stone.environment, stone.scope, stone.key) == (environment, scope, key)
        ]
        return tuple(sorted(found, key=lambda stone: (stone.at, stone.content)))

    def done(self, idempotency: str) -> str | None:
        self._check()
        found = self._state.results.get(idempotency)
        return found.text if found else None

    def write(self, change: Change, *, idempotency: str = "", result: str = "") -> None:
        self._check()
        written, stones = settle(change)
        state = self._state
        _refuse_moves(state, written)
        if idempotency and idempotency in state.results:
            raise already_noted(idempotency)
        for event, body, record_body in written:
            state.last += 1
            record = event.record
            state.events.append(_Step(msgspec.structs.replace(event, seq=state.last), body))
            state.records[record.id] = _Kept(record, record_body, tuple(indexed(record, self._terms)))
        state.stones.update(stones)
        if idempotency:
            places = {
                _Place(event.record.environment, event.record.scope, event.record.key, event.record.id)
                for event, _, _ in written
            }
            places |= {_Place(stone.environment, stone.scope, stone.key) for stone in stones}
            state.results[idempotency] = _Result(result, frozenset(places or self._asked))

    def _check(self) -> None:
        if self.ended:
            raise StorageFailed("this transaction has ended", hint="begin another with `writing()`")


def _purged(state: _State, where: Where) -> dict[str, int]:
    """Takes out of `state` what `where` means, and counts it."""
    gone = {id: kept for id, kept in state.records.items() if matches(where, kept.record, any_status=True)}
    slots = all_of_slots(where)
    everything = slots and where.whole == "tenant" and not where.keys

    def means(place: _Place, *keys: str) -> bool:
        return slots and inside(where, place.environment, place.scope) and (not keys or place.key in keys)

    def of_what_goes(place: _Place) -> bool:
        return place.record in gone or means(place, *("", *where.keys) if where.keys else ())

    events = [step for step in state.events if step.event.record.id not in gone]
    stones = {
        stone
        for stone in state.stones
        if not means(_Place(stone.environment, stone.scope, stone.key), *where.keys)
    }
    results = {
        key: found
        for key, found in state.results.items()
        if not (everything or any(of_what_goes(place) for place in found.places))
    }
    counts = {
        "records": len(gone),
        "events": len(state.events) - len(events),
        "sources": sum(len({source.entry for source in kept.record.sources}) for kept in gone.values()),
        "index": len(gone),
        "tombstones": len(state.stones) - len(stones),
        "idempotency": len(state.results) - len(results),
    }
    state.records = {id: kept for id, kept in state.records.items() if id not in gone}
    state.events, state.stones, state.results = events, stones, results
    return counts


def _scorer(state: _State, terms: list[str]) -> Callable[[_Kept], float | None]:
    """The bm25 of SQLite over all records, for those that have any of the terms."""
    kept = list(state.records.values())
    # A record counts one term more than it has: in the other store, that is its place.
    average = sum(len(one.terms) + 1 for one in kept) / max(len(kept), 1)

    def frequency(term: str, one: _Kept) -> int:
        if by_prefix(term):
            return sum(word.startswith(term) for word in one.terms)
        return one.terms.count(term)

    weights = {}
    for term in terms:
        hits = sum(1 for one in kept if frequency(term, one))
        weights[term] = max(math.log((len(kept) - hits + 0.5) / (hits + 0.5)), 1e-6)

    def score(one: _Kept) -> float | None:
        found = [(frequency(term, one), weights[term]) for term in terms]
        longer = _K1 * (1 - _B + _B * (len(one.terms) + 1) / average)
        points = [weight * (times * (_K1 + 1)) / (times + longer) for times, weight in found if times]
        return sum(points) if points else None

    return score


def _refuse_moves(state: _State, written: list[Written]) -> None:
    slots: dict[str, _Place] = {}
    for event, _, _ in written:
        record = event.record
        kept = state.records.get(record.id)
        if slots.setdefault(record.id, _slot(kept.record if kept else record)) != _slot(record):
            raise moved(record)


def _slot(record: Record) -> _Place:
    return _Place(record.environment, record.scope, record.key)
