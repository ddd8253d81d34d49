"""The contract of a store of records as cases that run: give each a `Lab` around your store.

    @pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
    def test_my_records(case, tmp_path):
        lab = Lab(lambda: MyRecords(tmp_path))
        if missing := lacking(case, lab.store.capabilities):
            pytest.skip(f"declared: no {', '.join(missing)}")
        case(lab)

A case raises `AssertionError` where a promise is broken. `Lab.make` opens the same data again each time it is
called; a store that keeps nothing (in memory) is declared with `durable=False`. Searching is tested with
plain lower-case words, as any function of terms gives them. What a case needs stands in `NEEDS`: a store that
declares not to have it skips the case, visibly.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from typing import Any, Final

import msgspec

from stratalog.errors import Conflict, InvalidInput, StorageFailed, StratalogError
from stratalog.ids import derived_ulid, new_ulid
from stratalog.memory.contract import (
    PRODUCTION,
    Action,
    Capabilities,
    Change,
    Event,
    Layer,
    Record,
    RecordStore,
    Scope,
    Source,
    Status,
    Tombstone,
    Transaction,
    When,
    Where,
)

ANN: Final = Scope("user", "ann")
TENANT: Final = Scope("tenant")
EVERY: Final[tuple[Status, ...]] = ("current", "superseded", "forgotten")
_T0: Final = 1_700_000_000_000


class Lab:
    """A store under test. `make` opens it; `reopen` closes it and opens the same data again."""

    def __init__(self, make: Callable[[], RecordStore], *, durable: bool = True) -> None:
        self._make = make
        self._durable = durable
        self.store = make()

    def reopen(self) -> RecordStore:
        if self._durable:
            self.store.close()
            self.store = self._make()
        return self.store

    def again(self) -> RecordStore:
        """Another store on the same data, as another process has it."""
        return self._make() if self._durable else self.store


class Broken(Exception):
    """What a test raises within a transaction."""


def record(number: int = 1, **fields: Any) -> Record:
    """A record; those of a higher number have a higher id."""
    given: dict[str, Any] = {
        "id": derived_ulid(_T0 + number, "records"),
        "layer": Layer.LONG,
        "scope": ANN,
        "key": f"key {number}",
        "payload": {"number": number},
        "text": f"number {number}",
        "created_at": _T0,
        "updated_at": _T0,
    }
    return Record(**(given | fields))


def event(kept: Record, action: Action = "remember", at: int = _T0) -> Event:
    return Event(at=at, action=action, actor="test", record=kept)


def change(*records: Record) -> Change:
    return Change(events=tuple([event(kept) for kept in records]))


def where(*scopes: Scope, **fields: Any) -> Where:
    """All in the scopes, Ann's by default."""
    return Where(**({"environment": PRODUCTION, "scopes": scopes or (ANN,)} | fields))


def write(store: RecordStore, *records: Record, **how: Any) -> None:
    with store.writing() as transaction:
        transaction.write(change(*records), **how)


def _all(store: RecordStore, asked: Where | None = None) -> list[Record]:
    page = store.find(asked or where(), limit=1000)
    assert page.next == ""
    return list(page.records)


def _ids(records: Iterable[Record]) -> list[str]:
    return [kept.id for kept in records]


def _numbers(records: Iterable[Record]) -> list[int]:
    return [kept.payload["number"] for kept in records]


def _refused(error: type[Exception], act: Callable[[], Any]) -> None:
    try:
        act()
    except error:
        return
    raise AssertionError(f"{error.__name__} should have been raised")


def full() -> Record:
    """A record with every field set."""
    return record(
        environment="staging",
        layer=Layer.MID,
        scope=Scope("session", "a:b:c"),
        payload={"deep": [1, 2.5, None, True, {"ü": "\0\u2028"}], "big": 2**70},
        text="é 中文 🎉 \0 'quoted' \"twice\"",
        confidence=0.25,
        origin="tool",
        sources=(Source("a:b:c", new_ulid(), 3, 9), Source("a:b:d", new_ulid())),
        valid_from=When(_T0, "day", "Europe/Zurich"),
        valid_to=When(_T0 + 5, "year"),
        supersedes=(new_ulid(),),
        conflict_with=(new_ulid(), new_ulid()),
        evidence=7,
        status="superseded",
        created_at=1,
        updated_at=2,
        expires_at=_T0 + 9,
    )


# --- writing and finding ---


def what_is_written_is_found(lab: Lab) -> None:
    """Every field of a record comes back equal, also after reopening, by `find` and within a transaction."""
    kept = full()
    write(lab.store, kept)
    asked = where(kept.scope, environment="staging", statuses=("superseded",))
    for later in (False, True):
        store = lab.reopen() if later else lab.store
        assert _all(store, asked) == [kept]
        with store.writing() as transaction:
            assert transaction.find(asked) == (kept,)


def reading_an_empty_store(lab: Lab) -> None:
    """Where nothing was written, nothing is found, and that is no error."""
    store = lab.store
    assert _all(store) == []
    assert store.search(where(), "word") == ()
    assert store.history(where()) == ()
    assert set(store.purge(where()).values()) <= {0}
    assert set(store.purge(where(), dry_run=True).values()) <= {0}
    with store.writing() as transaction:
        assert transaction.find(where()) == ()
        assert transaction.tombstones(PRODUCTION, ANN, "key") == ()
        assert transaction.done("key") is None


def the_same_id_is_replaced(lab: Lab) -> None:
    """A record written again is the latest one, once, also within one change."""
    first = record()
    second = msgspec.structs.replace(first, text="second", status="superseded")
    third = msgspec.structs.replace(first, text="third", sources=(Source("s", "e"),))
    write(lab.store, first)
    write(lab.store, second, third)
    assert _all(lab.reopen(), where(statuses=EVERY)) == [third]
    assert _all(lab.store, where(entries=("e",))) == [third]
    write(lab.store, msgspec.structs.replace(third, sources=(Source("s", "f"),)))
    assert _all(lab.reopen(), where(entries=("e",))) == []
    assert _ids(_all(lab.store, where(entries=("f", "e")))) == [third.id]


def a_record_stays_in_its_slot(lab: Lab) -> None:
    """An id that is known in another scope, environment or key is refused, and nothing of the change is
    written: nobody replaces what is not his."""
    write(lab.store, record())
    for moved in (
        record(scope=Scope("user", "bob")),
        record(environment="other"),
        record(key="another"),
        record(scope=TENANT),
    ):
        _refused(Conflict, partial(write, lab.store, record(2), moved))
    assert _all(lab.reopen()) == [record()]


def what_cannot_be_kept_is_refused(lab: Lab) -> None:
    """NaN, bytes, names that are no text, lone surrogates, wrong types, ids that are no ULIDs: refused with
    `InvalidInput`, and nothing of the change is written."""
    deep: Any = 0
    for _ in range(200):
        deep = [deep]
    bad = [float("nan"), float("-inf"), b"x", {1: 2}, {"a": {None: 1}}, object(), {1, 2}, deep, "\ud800"]
    wrong: list[dict[str, Any]] = [{"payload": value} for value in bad]
    wrong += [{"id": "mine"}, {"text": "\udfff"}, {"key": "\ud800"}, {"text": 7}, {"expires_at": 2**63}]
    wrong += [{"valid_from": When(2**70)}, {"scope": Scope("user", "\ud800")}, {"confidence": "high"}]
    for fields in wrong:
        _refused(InvalidInput, partial(write, lab.store, record(2), record(**fields)))
    stone = Tombstone(environment=PRODUCTION, scope=ANN, key="\ud800", at=1)

    def bury() -> None:
        with lab.store.writing() as transaction:
            transaction.write(Change(tombstones=(stone,)))

    _refused(InvalidInput, bury)
    assert _all(lab.reopen()) == []


def what_was_given_may_change_afterwards(lab: Lab) -> None:
    """A store keeps no reference to what the caller may still change, nor gives one."""
    payload = {"list": [1]}
    write(lab.store, record(payload=payload))
    payload["list"].append(2)
    _all(lab.store)[0].payload["list"].append(3)
    lab.store.search(where(), "number")[0].record.payload["list"].append(4)
    assert _all(lab.store)[0].payload == {"list": [1]}


def pages_are_complete(lab: Lab) -> None:
    """Pages in order of ids, over several scopes, with nothing twice or missing, `next` empty at the end."""
    scopes = [ANN, Scope("agent", "x"), TENANT]
    records = [record(number, scope=scopes[number % 3]) for number in range(250)]
    write(lab.store, *records[::-1])
    for limit in (1, 7, 50, 125, 249, 250, 251, 2**70):
        found: list[Record] = []
        after = ""
        while True:
            page = lab.store.find(where(*scopes), limit=limit, after=after)
            assert len(page.records) <= limit
            found += page.records
            after = page.next
            if not after:
                break
        assert found == records, limit
    assert len(lab.store.find(where(*scopes)).records) == 100
    with lab.store.writing() as transaction:
        assert transaction.find(where(*scopes)) == tuple(records)
    assert _all(lab.store, where(ANN, ANN)) == records[::3]


def a_limit_is_positive(lab: Lab) -> None:
    """A page of nothing is refused."""
    for limit in (0, -1):
        _refused(InvalidInput, partial(lab.store.find, where(), limit=limit))
        _refused(InvalidInput, partial(lab.store.search, where(), "a", limit=limit))
        _refused(InvalidInput, partial(lab.store.history, where(), limit=limit))


# --- who sees what ---

NAMES: Final = (
    "a",
    "ab",
    "A",
    "á",
    "a\u0301",
    "a%",
    "a_",
    "%",
    "_",
    "",
    "*",
    "a\0",
    "a\0b",
    " a",
    "a ",
    "1",
    "01",
    "' OR 1=1 --",
    '"; DROP TABLE records; --',
    "a' UNION SELECT * FROM records --",
    "$.a",
    "中",
    "🎉",
    "p1",
)


def scopes_are_exact(lab: Lab) -> None:
    """No scope's name is a pattern, a prefix or a piece of a query: each sees its own records alone."""
    scopes = [Scope(kind, name) for kind in ("user", "agent", "session", "run") for name in NAMES]
    scopes.append(TENANT)
    records = [record(number, scope=scope, text="same words") for number, scope in enumerate(scopes)]
    write(lab.store, *records)
    store = lab.reopen()
    for scope, mine in zip(scopes, records, strict=True):
        assert _all(store, where(scope)) == [mine], scope
        assert [step.record for step in store.history(where(scope))] == [mine]
        if store.capabilities.search:
            assert [found.record for found in store.search(where(scope), "same")] == [mine]
    assert _all(store, where(*scopes)) == records


def no_scope_is_nothing(lab: Lab) -> None:
    """An empty predicate gives nothing and destroys nothing, whatever else it says."""
    write(lab.store, record())
    for asked in (
        Where(environment=PRODUCTION, scopes=()),
        Where(environment=PRODUCTION, scopes=(), ids=(record().id,), statuses=EVERY),
        where(statuses=()),
    ):
        assert _all(lab.store, asked) == []
        assert lab.store.search(asked, "number") == ()
    nobody = Where(environment=PRODUCTION, scopes=())
    assert lab.store.history(nobody) == ()
    assert set(lab.store.purge(nobody).values()) <= {0}
    assert _all(lab.store) == [record()]


def environments_are_apart(lab: Lab) -> None:
    """What is in one environment is in no other: not found, searched, remembered as done or purged there."""
    here, there = record(1), record(2, environment="test", key="key 1")
    write(lab.store, here, there)
    for environment, mine in ((PRODUCTION, here), ("test", there)):
        asked = where(environment=environment)
        assert _all(lab.store, asked) == [mine]
        assert [step.record for step in lab.store.history(asked)] == [mine]
        assert [found.record for found in lab.store.search(asked, "number")] == [mine]
    for environment in ("", "prod", "Production", "%", "production\0"):
        assert _all(lab.store, where(environment=environment)) == []
    lab.store.purge(where(environment="test"))
    assert _all(lab.reopen(), where(statuses=EVERY)) == [here]


def who_may_see_everything(lab: Lab) -> None:
    """`whole` reaches every scope of the environment, or of all environments, whatever `scopes` says, in
    pages, by every filter; and nothing beyond. Purging everything leaves nothing at all."""
    store = lab.store
    _fill(store)
    write(store, record(50, scope=TENANT), record(51, scope=Scope("session", "s"), environment="other"))
    with store.writing() as transaction:
        transaction.write(Change(), idempotency="of nobody", result="r")
    staged = where(environment="test", whole="environment", statuses=EVERY)
    everything = where(environment="none", whole="tenant", statuses=EVERY)
    here = where(whole="environment", statuses=EVERY)
    every = [
        (here, [0, 1, 2, 10, 11, 12, 50]),
        (staged, [20, 21, 22]),
        (where(environment="none", whole="environment", statuses=EVERY), []),
        (everything, [0, 1, 2, 10, 11, 12, 20, 21, 22, 50, 51]),
    ]
    for asked, expected in every:
        asked = msgspec.structs.replace(asked, scopes=())
        assert _numbers(_all(store, asked)) == expected
        found = store.search(asked, "number", limit=99)
        assert sorted(_numbers(one.record for one in found)) == expected
        steps = store.history(asked, limit=99)
        assert set(_numbers(step.record for step in steps)) == set(expected)
        assert [step.seq for step in steps] == sorted(step.seq for step in steps)
        assert store.history(asked, limit=3) == steps[:3]
        paged: list[Record] = []
        page = store.find(asked, limit=2)
        while page.next:
            paged += page.records
            page = store.find(asked, limit=2, after=page.next)
        assert _numbers((*paged, *page.records)) == expected
        by_key = msgspec.structs.replace(asked, keys=("key 1",))
        by_id = msgspec.structs.replace(asked, ids=(record(11).id, record(21).id))
        by_entry = msgspec.structs.replace(asked, entries=("e 2",))
        for narrow, wanted in ((by_key, (1, 11, 21)), (by_id, (11, 21)), (by_entry, (2, 12, 22))):
            assert _numbers(_all(store, narrow)) == [number for number in expected if number in wanted]
            assert {step.record.id for step in store.history(narrow)} == set(_ids(_all(store, narrow)))
    narrow = msgspec.structs.replace(here, keys=("key 0",))
    assert store.purge(narrow, dry_run=True) == store.purge(narrow)
    assert _numbers(_all(store, here)) == [1, 2, 11, 12, 50]
    dry = store.purge(here, dry_run=True)
    assert store.purge(here) == dry
    assert (dry["records"], dry["tombstones"]) == (5, 2)
    with store.writing() as transaction:
        assert _left(store, transaction) == [0, 0, 5, 0, 0, 1]
    store.purge(everything)
    with lab.reopen().writing() as transaction:
        assert transaction.find(everything) == ()
        assert _left(lab.store, transaction) == [0] * 6
        assert transaction.done("of nobody") is None
    assert lab.store.history(everything) == ()


def input_is_never_a_query(lab: Lab) -> None:
    """Names, keys and ids that look like SQL or JSON paths are text; lone surrogates are nobody's."""
    records = [record(number, key=name, sources=(Source("s", name),)) for number, name in enumerate(NAMES)]
    write(lab.store, *records)
    store = lab.reopen()
    for name, mine in zip(NAMES, records, strict=True):
        assert _all(store, where(keys=(name,))) == [mine], name
        assert _all(store, where(entries=(name,))) == [mine], name
        assert _all(store, where(ids=(name,))) == []
        assert _all(store, where(environment=name)) == []
        store.find(where(), after=name)
        with store.writing() as transaction:
            assert transaction.done(name) is None
            assert transaction.tombstones(PRODUCTION, ANN, name) == ()
    lone = "\ud800"
    for asked in (where(Scope("user", lone)), where(environment=lone), where(keys=(lone,))):
        assert _all(store, asked) == []
        assert store.history(asked) == ()
        assert set(store.purge(asked).values()) <= {0}
    assert _all(store, where(ids=(lone,))) == _all(store, where(entries=(lone,))) == []
    assert _all(store, where(keys=(lone, "ab"))) == [records[1]]
    assert _all(store) == records


def no_query_is_an_error(lab: Lab) -> None:
    """A query is words: what looks like an operator finds its words or nothing."""
    write(lab.store, record(text="plain words"))
    hostile = (
        *NAMES,
        "AND",
        "a OR",
        "NOT x",
        "NEAR(a b)",
        "terms:x",
        "place : p1",
        '"',
        "(",
        "^a",
        "a*",
        "{",
    )
    for query in (*hostile, "\ud800", "word " * 5000, "-", "p1"):
        assert lab.store.search(where(Scope("user", "nobody")), query) == ()
        lab.store.search(where(), query)
    assert lab.store.search(where(), "p1") == ()


# --- which records ---


def each_filter_narrows(lab: Lab) -> None:
    """Layers, keys, ids, entries and statuses: any of a list, all of the lists, an empty one is any."""
    records = [
        record(1, layer=Layer.SHORT, sources=(Source("s", "e1"), Source("s", "e2"))),
        record(2, layer=Layer.MID, status="superseded", sources=(Source("t", "e1"),)),
        record(3, layer=Layer.LONG, status="forgotten"),
        record(4, layer=Layer.LONG, key="key 1", sources=(Source("s", "e1", 0, 1), Source("s", "e1", 2, 3))),
    ]
    write(lab.store, *records)
    one, two, three, four = records
    store = lab.reopen()
    cases: list[tuple[dict[str, Any], list[Any]]] = [
        ({}, [one, two, three, four]),
        ({"statuses": ("current",)}, [one, four]),
        ({"statuses": ("superseded", "forgotten")}, [two, three]),
        ({"layers": (Layer.SHORT, Layer.MID)}, [one, two]),
        ({"layers": (Layer.LONG,)}, [three, four]),
        ({"keys": ("key 1",)}, [one, four]),
        ({"keys": ("key 1", "key 2", "key 9")}, [one, two, four]),
        ({"keys": ("key 9",)}, []),
        ({"ids": (three.id, one.id, "nobody")}, [one, three]),
        ({"entries": ("e1",)}, [one, two, four]),
        ({"entries": ("e2", "e3")}, [one]),
        ({"entries": ("e1",), "keys": ("key 1",), "ids": (four.id,)}, [four]),
        ({"layers": (Layer.LONG,), "statuses": ("current",)}, [four]),
        ({"ids": (one.id,), "statuses": ("forgotten",)}, []),
    ]
    for asked, expected in cases:
        assert _all(store, where(**({"statuses": EVERY} | asked))) == expected, asked
    many = tuple(str(number) for number in range(3000))
    assert _all(store, where(keys=(*many, "key 1"), ids=(*many, one.id), entries=(*many, "e1"))) == [one]


def many_scopes(lab: Lab) -> None:
    """Thousands of scopes may be asked for at once."""
    scopes = [Scope("session", str(number)) for number in range(1500)]
    records = [record(number, scope=scope) for number, scope in enumerate(scopes)]
    write(lab.store, *records)
    asked = where(*scopes)
    assert lab.store.find(asked, limit=3000).records == tuple(records)
    if lab.store.capabilities.search:
        assert len(lab.store.search(asked, "number", limit=3000)) == 1500
        assert [found.record for found in lab.store.search(asked, "1234", limit=3000)] == [records[1234]]
    if lab.store.capabilities.history:
        assert len(lab.store.history(asked, limit=3000)) == 1500
    assert lab.store.purge(asked, dry_run=True) == lab.store.purge(asked)
    assert _all(lab.store, asked) == []


def what_held_then(lab: Lab) -> None:
    """`valid_at` asks for [valid_from, valid_to): the beginning belongs to it and the end does not; who has
    no beginning always held, who has no end still does."""
    records = [
        record(1, valid_from=When(10), valid_to=When(20)),
        record(2, valid_from=When(20)),
        record(3, valid_to=When(10)),
        record(4),
        record(5, valid_from=When(20), valid_to=When(20)),
        record(6, valid_from=When(-5), valid_to=When(0)),
    ]
    write(lab.store, *records)
    store = lab.reopen()
    for at, expected in (
        (-(2**70), [3, 4]),
        (-5, [3, 4, 6]),
        (0, [3, 4]),
        (9, [3, 4]),
        (10, [1, 4]),
        (19, [1, 4]),
        (20, [2, 4]),
        (2**70, [2, 4]),
    ):
        found = [kept.payload["number"] for kept in _all(store, where(valid_at=at))]
        assert found == expected, at


def what_has_expired(lab: Lab) -> None:
    """With `now`, what expires then or earlier is left out of finding and searching; without, nothing is."""
    write(lab.store, record(1, expires_at=100), record(2, expires_at=101), record(3))
    for now, expected in ((0, [1, 2, 3]), (99, [1, 2, 3]), (100, [2, 3]), (101, [3]), (2**70, [3])):
        asked = where(now=now)
        assert [kept.payload["number"] for kept in _all(lab.store, asked)] == expected, now
        if lab.store.capabilities.search:
            found = lab.store.search(asked, "number")
            assert sorted(one.record.payload["number"] for one in found) == expected, now


# --- transactions ---


def all_or_nothing(lab: Lab) -> None:
    """A block that raises has written nothing: no record, history, tombstone, result or index."""
    stone = Tombstone(environment=PRODUCTION, scope=ANN, key="key 1", at=1)
    write(lab.store, record(1))
    with suppress(Broken), lab.store.writing() as transaction:
        transaction.write(change(record(1, text="changed"), record(2)))
        transaction.write(Change(tombstones=(stone,)), idempotency="k", result="r")
        raise Broken
    store = lab.reopen()
    assert _all(store) == [record(1)]
    assert len(store.history(where())) == 1
    assert store.search(where(), "changed") == ()
    with store.writing() as transaction:
        assert transaction.tombstones(PRODUCTION, ANN, "key 1") == ()
        assert transaction.done("k") is None
    write(store, record(2))
    assert _all(store) == [record(1), record(2)]


def others_see_it_at_the_end(lab: Lab) -> None:
    """A transaction reads what it has written; others read it once the block has ended."""
    other = lab.again()
    stone = Tombstone(environment=PRODUCTION, scope=ANN, key="key 1", at=1)
    with lab.store.writing() as transaction:
        transaction.write(change(record()), idempotency="k", result="r")
        transaction.write(Change(tombstones=(stone,)))
        assert transaction.find(where()) == (record(),)
        assert transaction.tombstones(PRODUCTION, ANN, "key 1") == (stone,)
        assert transaction.done("k") == "r"
        for reader in (other, lab.store):
            assert _all(reader) == []
            assert reader.search(where(), "number") == ()
            assert reader.history(where()) == ()
    for reader in (other, lab.store):
        assert _all(reader) == [record()]
        assert len(reader.history(where())) == 1


def a_transaction_ends_with_its_block(lab: Lab) -> None:
    """Whoever keeps it can neither write nor read with it."""
    with lab.store.writing() as transaction:
        pass
    _refused(StorageFailed, lambda: transaction.write(change(record())))
    _refused(StorageFailed, lambda: transaction.find(where()))
    assert _all(lab.store) == []


def an_effect_happens_once(lab: Lab) -> None:
    """A result noted under an idempotency key is told to who asks later, also one that changed nothing; it
    cannot be noted twice, and a change that tries is not written."""
    write(lab.store, record(1), idempotency="k", result="first")
    with lab.store.writing() as transaction:
        transaction.find(where())
        transaction.write(Change(), idempotency="nothing", result="")
    with lab.reopen().writing() as transaction:
        assert transaction.done("k") == "first"
        assert transaction.done("nothing") == ""
        assert transaction.done("K") is None
    _refused(Conflict, lambda: write(lab.store, record(2), idempotency="k", result="second"))
    assert _all(lab.store) == [record(1)]


def two_with_one_key(lab: Lab) -> None:
    """Many threads that ask and write under one idempotency key: one effect, and all have its result."""
    stores = [lab.store, lab.again()]
    results: list[str] = []

    def work(worker: int) -> None:
        with stores[worker % 2].writing() as transaction:
            done = transaction.done("once")
            if done is None:
                done = str(worker)
                transaction.write(change(record(worker)), idempotency="once", result=done)
        results.append(done)

    _together(8, work)
    assert len(results) == 8
    assert len(set(results)) == 1
    assert [kept.payload["number"] for kept in _all(lab.reopen())] == [int(results[0])]


def tombstones_are_kept(lab: Lab) -> None:
    """A tombstone is of one slot, exactly; the same one is there once; others lie beside it, oldest first."""
    stones = [
        Tombstone(environment=PRODUCTION, scope=ANN, key="a", at=20),
        Tombstone(environment=PRODUCTION, scope=ANN, key="a", at=10, content="digest"),
        Tombstone(environment=PRODUCTION, scope=ANN, key="ab", at=1),
        Tombstone(environment=PRODUCTION, scope=TENANT, key="a", at=2),
        Tombstone(environment="other", scope=ANN, key="a", at=3),
    ]
    for _ in range(2):
        with lab.store.writing() as transaction:
            transaction.write(Change(tombstones=tuple(stones)))
    with lab.reopen().writing() as transaction:
        assert transaction.tombstones(PRODUCTION, ANN, "a") == (stones[1], stones[0])
        assert transaction.tombstones(PRODUCTION, ANN, "ab") == (stones[2],)
        assert transaction.tombstones(PRODUCTION, TENANT, "a") == (stones[3],)
        assert transaction.tombstones("other", ANN, "a") == (stones[4],)
        for scope, key in ((ANN, "A"), (ANN, "a%"), (Scope("agent", "ann"), "a"), (Scope("user", "an"), "a")):
            assert transaction.tombstones(PRODUCTION, scope, key) == ()


def threads_write_together(lab: Lab) -> None:
    """Eight threads through two stores, each reading before it writes: no write is lost, no number of the
    history comes twice, and who reads meanwhile sees whole transactions."""
    stores = [lab.store, lab.again()]
    counter = record(1000, payload=0)
    write(lab.store, counter)

    def work(worker: int) -> None:
        store = stores[worker % 2]
        for number in range(10):
            with store.writing() as transaction:
                (now,) = transaction.find(where(ids=(counter.id,)))
                more = msgspec.structs.replace(now, payload=now.payload + 1)
                transaction.write(change(more, record(worker * 10 + number)))
            (seen,) = _all(store, where(ids=(counter.id,)))
            assert seen.payload >= more.payload
            assert len(_all(store)) >= seen.payload

    _together(8, work)
    found = _all(lab.reopen())
    assert found[-1].payload == 80
    assert [kept.payload["number"] for kept in found[:-1]] == list(range(80))
    assert [step.seq for step in lab.store.history(where(), limit=1000)] == list(range(1, 162))


def _together(count: int, work: Callable[[int], None]) -> None:
    """Runs `work` in `count` threads at once; raises what one of them raised."""
    failed: list[BaseException] = []
    start = threading.Barrier(count)

    def guarded(worker: int) -> None:
        start.wait()
        try:
            work(worker)
        except (StratalogError, AssertionError, ValueError) as error:
            failed.append(error)

    threads = [threading.Thread(target=guarded, args=(worker,)) for worker in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failed:
        raise failed[0]


# --- the history ---


def the_history_only_grows(lab: Lab) -> None:
    """Each step is there as it was, oldest first, numbered from 1 without gaps, in pages, after reopening."""
    first = record(1)
    steps = [
        event(first),
        event(msgspec.structs.replace(first, text="other"), "merge", _T0 + 1),
        event(record(2), "import", _T0 + 2),
        event(msgspec.structs.replace(first, status="superseded"), "supersede", _T0 - 5),
    ]
    expected = []
    for number, step in enumerate(steps, 1):
        with lab.store.writing() as transaction:
            transaction.write(Change(events=(msgspec.structs.replace(step, reason="because", seq=99),)))
        expected.append(msgspec.structs.replace(step, reason="because", seq=number))
    store = lab.reopen()
    assert list(store.history(where())) == expected
    assert list(store.history(where(), limit=2)) == expected[:2]
    assert list(store.history(where(), limit=2, after=2)) == expected[2:]
    assert store.history(where(), after=4) == store.history(where(), after=2**70) == ()
    assert list(store.history(where(), limit=2**70, after=-(2**70))) == expected


def the_history_of_what_held(lab: Lab) -> None:
    """All steps of the records for which the question holds or once held; their status does not matter."""
    first = record(1, layer=Layer.SHORT, sources=(Source("s", "e1"),), valid_to=When(50))
    write(lab.store, first)
    write(
        lab.store,
        msgspec.structs.replace(first, layer=Layer.LONG, sources=(Source("s", "e2"),), valid_to=When(10)),
    )
    write(lab.store, msgspec.structs.replace(first, layer=Layer.LONG, status="forgotten", expires_at=5))
    write(lab.store, record(2, key="key 1", valid_from=When(100)))
    cases: list[tuple[dict[str, Any], list[Any]]] = [
        ({}, [1, 2, 3, 4]),
        ({"statuses": ()}, [1, 2, 3, 4]),
        ({"ids": (first.id,)}, [1, 2, 3]),
        ({"keys": ("key 1",)}, [1, 2, 3, 4]),
        ({"keys": ("key 2",)}, []),
        ({"layers": (Layer.SHORT,)}, [1, 2, 3]),
        ({"layers": (Layer.MID,)}, []),
        ({"entries": ("e1",)}, [1, 2, 3]),
        ({"entries": ("e2",)}, [1, 2, 3]),
        ({"entries": ("e3",)}, []),
        ({"valid_at": 20}, [1, 2, 3]),
        ({"valid_at": 60}, []),
        ({"valid_at": 100}, [4]),
        ({"now": 9}, [1, 2, 3, 4]),
    ]
    for asked, expected in cases:
        found = [step.seq for step in lab.store.history(where(**asked))]
        assert found == expected, asked


# --- searching ---


def words_are_found(lab: Lab) -> None:
    """Any word of the query in the text or the key finds a record; more and rarer words come first; among
    equals the latest."""
    write(
        lab.store,
        record(1, text="green tea in the morning", key="drink"),
        record(2, text="black tea at noon", key="drink"),
        record(3, text="the train leaves at noon", key="travel"),
        record(4, text="nothing of the kind", key="other"),
        record(5, text="", key="zebra"),
        *[record(number, text="filler words here", key="filler") for number in range(6, 20)],
    )
    store = lab.reopen()

    def found(query: str, **asked: Any) -> list[int]:
        return [one.record.payload["number"] for one in store.search(where(**asked), query)]

    assert found("green tea") == [1, 2]
    assert found("noon train") == [3, 2]
    assert found("zebra") == [5]
    assert sorted(found("travel green")) == [1, 3]
    assert found("absent") == []
    assert found("") == []
    assert found("filler") == list(range(19, 9, -1))
    assert [one.record.payload["number"] for one in store.search(where(), "tea", limit=1)] == found("tea")[:1]
    scores = [one.score for one in store.search(where(), "noon train tea")]
    assert scores == sorted(scores, reverse=True)
    assert found("tea", keys=("drink",), ids=(record(2).id,)) == [2]
    assert found("tea", layers=(Layer.SHORT,)) == []


def the_index_follows(lab: Lab) -> None:
    """What is written is found by its words at once; what is changed, by its new words only; by default
    nothing that is not current."""
    store = lab.store
    write(store, record(1, text="apple"), record(2, text="apple", valid_from=When(100)))
    write(store, record(1, text="banana"))
    assert [one.record.id for one in store.search(where(), "banana")] == [record(1).id]
    assert [one.record.id for one in store.search(where(), "apple")] == [record(2).id]
    assert store.search(where(valid_at=50), "apple") == ()
    write(store, record(1, text="banana", status="superseded"))
    store = lab.reopen()
    assert store.search(where(), "banana") == ()
    assert [one.record.id for one in store.search(where(statuses=EVERY), "banana")] == [record(1).id]


# --- purging ---


def _fill(store: RecordStore) -> None:
    """Slots of Ann and Bob in two environments: records of every status, tombstones, results."""
    for index, (scope, environment) in enumerate(
        ((ANN, PRODUCTION), (Scope("user", "bob"), PRODUCTION), (ANN, "test"))
    ):
        with store.writing() as transaction:
            for number, status in enumerate(EVERY):
                kept = record(
                    10 * index + number,
                    scope=scope,
                    environment=environment,
                    key=f"key {number}",
                    sources=(Source("s", "e1"), Source("s", f"e {number}")),
                )
                transaction.write(change(kept))
                later = msgspec.structs.replace(kept, status=status)
                transaction.write(change(later), idempotency=f"{index} {number}", result="done")
            stone = Tombstone(environment=environment, scope=scope, key="key 9", at=1)
            transaction.write(Change(tombstones=(stone,)), idempotency=f"{index} stone", result="buried")
        with store.writing() as transaction:
            transaction.find(where(scope, environment=environment))
            transaction.write(Change(), idempotency=f"{index} nothing", result="nothing to do")


def _left(store: RecordStore, transaction: Transaction) -> list[int]:
    """How many results and tombstones there are for each of the three."""
    names = ("0", "1", "2", "stone", "nothing")
    results = [sum(transaction.done(f"{index} {name}") is not None for name in names) for index in range(3)]
    stones = [
        len(transaction.tombstones(environment, scope, "key 9"))
        for scope, environment in ((ANN, PRODUCTION), (Scope("user", "bob"), PRODUCTION), (ANN, "test"))
    ]
    return [*results, *stones]


def a_purge_leaves_nothing(lab: Lab) -> None:
    """Records of any status, their history, tombstones and results: all of the scope, none of another, and
    counted; a dry run counts the same and changes nothing; a second finds nothing; numbers go on."""
    store = lab.store
    _fill(store)
    before = store.history(where(Scope("user", "bob")))
    dry = store.purge(where(statuses=("current",)), dry_run=True)
    assert len(_all(store, where(statuses=EVERY))) == 3
    assert store.purge(where(statuses=("current",))) == dry
    assert (dry["records"], dry["events"], dry["tombstones"], dry["idempotency"]) == (3, 6, 1, 5)
    store = lab.reopen()
    assert _all(store, where(statuses=EVERY)) == []
    assert store.history(where()) == ()
    assert store.search(where(statuses=EVERY), "number") == ()
    with store.writing() as transaction:
        assert _left(store, transaction) == [0, 5, 5, 0, 1, 1]
    assert store.history(where(Scope("user", "bob"))) == before
    for asked in (where(Scope("user", "bob"), statuses=EVERY), where(environment="test", statuses=EVERY)):
        assert len(_all(store, asked)) == 3
        assert len(store.search(asked, "number")) == 3
    assert set(store.purge(where()).values()) == {0}
    write(store, record(1))
    assert [step.seq for step in store.history(where())] == [19]


def a_purge_may_be_narrow(lab: Lab) -> None:
    """By id, entry, layer or time only the records that match go, with their history and results: the slot
    keeps its tombstones. By key all that the slot has goes."""
    cases: list[tuple[dict[str, Any], int, int, int]] = [
        ({"ids": (record(0).id,)}, 1, 0, 1),
        ({"entries": ("e 1",)}, 1, 0, 1),
        ({"entries": ("e1",)}, 3, 0, 3),
        ({"layers": (Layer.LONG,)}, 3, 0, 3),
        ({"layers": (Layer.MID,)}, 0, 0, 0),
        ({"keys": ("key 2",)}, 1, 0, 2),  # its own, and that of who asked about the whole scope
        ({"keys": ("key 9",)}, 0, 1, 2),
        ({"valid_at": 7}, 3, 0, 3),
        ({"now": 7}, 3, 0, 3),
    ]
    for asked, records, stones, results in cases:
        store = lab.store
        store.purge(where(ANN, Scope("user", "bob")))
        store.purge(where(environment="test"))
        _fill(store)
        dry = store.purge(where(**asked), dry_run=True)
        counts = store.purge(where(**asked))
        assert counts == dry, asked
        assert (counts["records"], counts["events"], counts["tombstones"]) == (records, 2 * records, stones)
        assert counts["idempotency"] == results
        left = _all(store, where(statuses=EVERY))
        assert len(left) == 3 - records, asked
        assert [step.record.id for step in store.history(where())] == [
            id for kept in left for id in (kept.id, kept.id)
        ]
        with store.writing() as transaction:
            assert len(transaction.tombstones(PRODUCTION, ANN, "key 9")) == 1 - stones
            assert _left(store, transaction)[:3] == [5 - results, 5, 5]


def a_purge_has_no_limit(lab: Lab) -> None:
    """However many there are, all are gone, and counted."""
    records = [record(number, text=f"secret {number}") for number in range(1050)]
    write(lab.store, *records)
    write(lab.store, record(2000, scope=TENANT))
    counts = lab.store.purge(where(ANN, TENANT))
    assert (counts["records"], counts["events"]) == (1051, 1051)
    assert _all(lab.reopen(), where(ANN, TENANT, statuses=EVERY)) == []
    assert lab.store.search(where(), "secret") == ()


CASES: Final[tuple[Callable[[Lab], None], ...]] = (
    what_is_written_is_found,
    reading_an_empty_store,
    the_same_id_is_replaced,
    a_record_stays_in_its_slot,
    what_cannot_be_kept_is_refused,
    what_was_given_may_change_afterwards,
    pages_are_complete,
    a_limit_is_positive,
    scopes_are_exact,
    no_scope_is_nothing,
    environments_are_apart,
    who_may_see_everything,
    input_is_never_a_query,
    no_query_is_an_error,
    each_filter_narrows,
    many_scopes,
    what_held_then,
    what_has_expired,
    all_or_nothing,
    others_see_it_at_the_end,
    a_transaction_ends_with_its_block,
    an_effect_happens_once,
    two_with_one_key,
    tombstones_are_kept,
    threads_write_together,
    the_history_only_grows,
    the_history_of_what_held,
    words_are_found,
    the_index_follows,
    a_purge_leaves_nothing,
    a_purge_may_be_narrow,
    a_purge_has_no_limit,
)

# What a case needs of `Capabilities`; a store that declares not to have it is not held to the case.
NEEDS: Final[dict[Callable[[Lab], None], tuple[str, ...]]] = {
    scopes_are_exact: ("history",),
    what_was_given_may_change_afterwards: ("search",),
    environments_are_apart: ("history", "search"),
    who_may_see_everything: ("transactions", "history", "tombstones", "search"),
    no_query_is_an_error: ("search",),
    what_held_then: ("validity",),
    all_or_nothing: ("transactions", "history", "tombstones"),
    others_see_it_at_the_end: ("transactions", "history", "tombstones"),
    a_transaction_ends_with_its_block: ("transactions",),
    an_effect_happens_once: ("transactions",),
    two_with_one_key: ("transactions",),
    tombstones_are_kept: ("tombstones",),
    threads_write_together: ("transactions", "history"),
    the_history_only_grows: ("history",),
    the_history_of_what_held: ("history", "validity"),
    words_are_found: ("search",),
    the_index_follows: ("search", "validity"),
    a_purge_leaves_nothing: ("transactions", "history", "tombstones", "search"),
    a_purge_may_be_narrow: ("transactions", "history", "tombstones", "validity"),
    a_purge_has_no_limit: ("search",),
}


def lacking(case: Callable[[Lab], None], capabilities: Capabilities) -> tuple[str, ...]:
    """What the case needs and the store declares not to have; a runner skips the case and says so."""
    return tuple(name for name in NEEDS.get(case, ()) if not getattr(capabilities, name))
