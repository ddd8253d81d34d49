"""The twin in memory does what the store on disk does: both are given the same, and say the same."""

from __future__ import annotations

import itertools
import shutil
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from stratalog.conformance.records import ANN, TENANT, Broken, change, record, where, write
from stratalog.errors import StoreBusy, StratalogError
from stratalog.ids import derived_ulid
from stratalog.memory.contract import (
    PRODUCTION,
    Change,
    Event,
    Layer,
    Record,
    RecordStore,
    Scope,
    Source,
    Tombstone,
    When,
    Where,
)
from stratalog.memory.inmemory import InMemoryRecords
from stratalog.memory.sqlite import FILE, SqliteRecords

IDS = tuple(derived_ulid(number, "twin") for number in range(6))
SCOPES = (ANN, Scope("user", "an"), Scope("agent", "ann"), TENANT)
ENVIRONMENTS = (PRODUCTION, "test")
KEYS = ("a", "b", "")
SLOTS = tuple(itertools.product(ENVIRONMENTS, SCOPES, KEYS))
ENTRIES = ("e1", "e2", "e3")
STATUSES = ("current", "superseded", "forgotten")
WORDS = ("tea", "noon", "train", "茶", "茶色", "a", "")
TIMES = st.integers(-2, 6)


def _some(values: Any, most: int = 3) -> st.SearchStrategy[tuple[Any, ...]]:
    return st.lists(st.sampled_from(values), max_size=most).map(tuple)


def _slot(id: str) -> tuple[str, Scope, str]:
    number = IDS.index(id)
    return ENVIRONMENTS[number % 5 == 4], SCOPES[number % 3], KEYS[number % 2]


@st.composite
def records(draw: st.DrawFn) -> Record:
    """A record of a few ids, mostly in its slot."""
    id = draw(st.sampled_from(IDS))
    environment, scope, key = _slot(id)
    if draw(st.integers(0, 9)) == 0:
        scope = draw(st.sampled_from(SCOPES))
    bound = st.none() | TIMES.map(When)
    return Record(
        id=id,
        environment=environment,
        scope=scope,
        key=key,
        layer=draw(st.sampled_from(tuple(Layer))),
        payload=draw(st.none() | st.integers() | st.text(max_size=3)),
        text=" ".join(draw(_some(WORDS, 6))),
        sources=tuple([Source("s", entry) for entry in draw(_some(ENTRIES))]),
        valid_from=draw(bound),
        valid_to=draw(bound),
        status=draw(st.sampled_from(STATUSES)),
        expires_at=draw(TIMES),
    )


events = st.builds(
    Event,
    at=TIMES,
    action=st.sampled_from(("remember", "merge", "forget")),
    actor=st.just("test"),
    record=records(),
)
stones = st.builds(
    Tombstone,
    environment=st.sampled_from(ENVIRONMENTS),
    scope=st.sampled_from(SCOPES),
    key=st.sampled_from(KEYS),
    at=TIMES,
    content=st.sampled_from(("", "digest")),
)
changes = st.builds(
    Change,
    events=st.lists(events, max_size=4).map(tuple),
    tombstones=st.lists(stones, max_size=2).map(tuple),
)


@st.composite
def questions(draw: st.DrawFn) -> Where:
    """A question that mostly has an answer: one or two of all that may narrow it."""
    narrow: dict[str, st.SearchStrategy[Any]] = {
        "layers": _some(tuple(Layer), 2),
        "keys": _some((*KEYS, "\ud800"), 2),
        "ids": _some(IDS, 3),
        "entries": _some(ENTRIES, 2),
        "statuses": _some(STATUSES, 2),
        "valid_at": TIMES,
        "now": TIMES,
        "scopes": _some(SCOPES, 2),
        "whole": st.sampled_from(("environment", "tenant")),
        "environment": st.sampled_from(("test", "\ud800")),
    }
    chosen = draw(st.sets(st.sampled_from(sorted(narrow)), max_size=2))
    fields = {name: draw(narrow[name]) for name in sorted(chosen)}
    return Where(**({"environment": PRODUCTION, "scopes": SCOPES, "statuses": STATUSES} | fields))


idempotencies = st.sampled_from(("", "k1", "k2"))


def _said(act: Callable[[], Any]) -> Any:
    """What it gives, or the kind of error it raises."""
    try:
        return act()
    except StratalogError as error:
        return type(error)


class Twins(RuleBasedStateMachine):
    """Both stores, given the same calls."""

    def __init__(self) -> None:
        super().__init__()
        self.root = Path(tempfile.mkdtemp())
        self.disk = self._opened()
        self.memory = InMemoryRecords(terms=str.split)

    def _opened(self) -> SqliteRecords:
        return SqliteRecords(self.root / FILE, terms=str.split)

    def same(self, ask: Callable[[RecordStore], Any]) -> Any:
        disk = _said(lambda: ask(self.disk))
        assert _said(lambda: ask(self.memory)) == disk
        return disk

    @rule(given=st.lists(changes, max_size=3), asked=questions(), key=idempotencies, fails=st.booleans())
    def transaction(self, given: list[Change], asked: Where, key: str, fails: bool) -> None:
        def act(store: RecordStore) -> list[Any]:
            said: list[Any] = []
            with store.writing() as transaction:
                said.append(transaction.find(asked))
                for number, one in enumerate(given):
                    transaction.write(one, idempotency=key if number == 0 else "", result=key)
                    said += [transaction.find(asked), transaction.done("k1")]
                    said += [
                        transaction.tombstones(e, s, k) for e in ENVIRONMENTS for s in SCOPES for k in KEYS
                    ]
                if fails:
                    raise Broken
            return said

        def tried(store: RecordStore) -> Any:
            try:
                return act(store)
            except Broken:
                return Broken

        self.same(tried)

    @rule(asked=questions(), limit=st.integers(0, 4), after=st.sampled_from(("", *IDS)))
    def find(self, asked: Where, limit: int, after: str) -> None:
        self.same(lambda store: store.find(asked, limit=limit, after=after))

    @rule(asked=questions(), limit=st.integers(1, 9), after=st.integers(-1, 9))
    def history(self, asked: Where, limit: int, after: int) -> None:
        self.same(lambda store: store.history(asked, limit=limit, after=after))

    @rule(asked=questions(), query=_some(WORDS, 4).map(" ".join))
    def search(self, asked: Where, query: str) -> None:
        disk, memory = (
            {found.record.id: found.score for found in store.search(asked, query, limit=99)}
            for store in (self.disk, self.memory)
        )
        assert disk == pytest.approx(memory)

    @rule(asked=questions())
    def purge(self, asked: Where) -> None:
        dry = self.same(lambda store: store.purge(asked, dry_run=True))
        assert self.same(lambda store: store.purge(asked)) == dry
        assert set(self.same(lambda store: store.purge(asked)).values()) == {0}

    @rule()
    def reopen(self) -> None:
        self.disk.close()
        self.disk = self._opened()

    @invariant()
    def all_is_the_same(self) -> None:
        for environment in ENVIRONMENTS:
            every = Where(environment=environment, scopes=SCOPES, statuses=STATUSES)  # type: ignore[arg-type]
            self.same(lambda store, every=every: store.find(every, limit=1000))
            self.same(lambda store, every=every: store.history(every, limit=1000))

    def teardown(self) -> None:
        self.disk.close()
        shutil.rmtree(self.root)


Twins.TestCase.settings = settings(
    max_examples=40, stateful_step_count=15, deadline=None, suppress_health_check=list(HealthCheck)
)
TestTwins = Twins.TestCase


def test_it_ends_with_its_object() -> None:
    """Two stores in memory have nothing in common; closing one leaves it usable."""
    one, two = (InMemoryRecords(terms=str.split) for _ in range(2))
    write(one, record())
    one.close()
    assert one.find(where()).records == (record(),)
    assert two.find(where()).records == ()


def test_a_writer_that_does_not_end() -> None:
    """Another thread's transaction: StoreBusy after `wait`; reading goes on."""
    store = InMemoryRecords(terms=str.split, wait=0.01)
    write(store, record(1))
    said: list[Any] = []
    with store.writing() as transaction:
        transaction.write(change(record(2)))

        def work() -> None:
            said.append(_said(lambda: write(store, record(3))))
            said.append(_said(lambda: store.purge(where())))
            said.append(store.find(where()).records)

        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    assert said == [StoreBusy, StoreBusy, (record(1),)]
    assert store.find(where()).records == (record(1), record(2))
