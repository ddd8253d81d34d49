"""Records in the real mem0, over a local Qdrant and an embedder that is a server of ours."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from msgspec.structs import replace

from memory.embedder import Embedder, need_mem0, quick_directory
from stratalog.conformance.records import ANN, EVERY, TENANT, change, event, record, where, write
from stratalog.errors import InvalidConfig, StorageFailed, StoreBusy
from stratalog.memory.audit import MemoryAudit
from stratalog.memory.caller import ADMIN, caller
from stratalog.memory.contract import PRODUCTION, Change, Layer, RecordStore, Scope, Source, Tombstone
from stratalog.memory.lanes import Lanes
from stratalog.memory.mem0 import Mem0, Mem0Records, open_mem0
from stratalog.memory.policy import Draft
from stratalog.memory.service import MemoryService, Selector


@pytest.fixture(scope="module")
def embedder() -> Iterator[Embedder]:
    need_mem0()
    with Embedder() as server:
        yield server


@pytest.fixture
def home(embedder: Embedder, tmp_path: Path) -> Iterator[Mem0]:
    embedder.start_over()
    with quick_directory(tmp_path) as path, open_mem0(embedder.config(), path) as opened:
        yield opened


def _service(home: Mem0) -> MemoryService:
    lanes = Lanes({"mem0": Mem0Records.capabilities}, lambda caller: {"memory_plugin": "mem0"})

    def store_of(tenant: str, lane: str) -> RecordStore:
        assert lane == "mem0"
        return home.records(tenant)

    return MemoryService(store_of, MemoryAudit(), lanes)


def test_it_says_what_it_is() -> None:
    """Records leave; there are no transactions; the rest is there."""
    can = Mem0Records.capabilities
    assert (can.name, can.external, can.transactions) == ("mem0", True, False)
    assert can.history
    assert can.tombstones
    assert can.validity
    assert can.search


def test_a_record_through_the_service(home: Mem0) -> None:
    """Remembered, recalled, got, listed, superseded and forgotten, with its history; a late write of what was
    forgotten is refused; the same idempotency key does nothing twice."""
    service = _service(home)
    ana = caller("acme", user="ana", agent="bot", session="bot:cli:1")
    mine = Scope("user", "ana")
    draft = Draft(
        layer=Layer.LONG,
        scope=mine,
        key="home",
        payload={"city": "Lisbon", "since": [2019, None, 0.5]},
        text="Ana lives in Lisbon é 中 🎉",
        sources=(Source("acme/bot:cli:1", "e1"),),
    )
    done = service.remember(ana, draft, idempotency="one")
    again = service.remember(ana, draft, idempotency="one")
    kept = done.record
    assert kept is not None
    assert (again.again, again.record, again.outcome) == (True, kept, "stored")
    assert service.get(ana, kept.id) == kept
    assert service.list(ana).records == (kept,)
    assert [each.record for each in service.recall(ana, "where in Lisbon").found] == [kept]
    assert service.recall(ana, "bicycle").found == ()
    bob = caller("acme", user="bob")
    assert service.list(bob).records == service.recall(bob, "Lisbon").found == ()

    assert service.forget(ana, scope=mine, key="home").forgotten == 1
    assert service.list(ana).records == service.recall(ana, "Lisbon").found == ()
    steps = service.history(ana, id=kept.id).events
    assert [(step.seq, step.action) for step in steps] == [(1, "remember"), (2, "forget")]
    late = replace(draft, said_at=1)
    assert service.remember(ana, late).outcome == "refused"


def test_no_language_model_is_asked(home: Mem0, embedder: Embedder) -> None:
    """Writing, finding, forgetting and purging ask for embeddings and for nothing else."""
    embedder.paths.clear()
    store = home.records("acme")
    write(store, record(1), record(2), idempotency="k", result="r")
    assert len(store.search(where(), "number")) == 2
    store.purge(where())
    assert set(embedder.paths) == {"/v1/embeddings"}


def test_hostile_tenants_in_one_collection(home: Mem0) -> None:
    """Tenants whose names look alike have the same ids, scopes and keys in one collection; each finds its
    own, and a purge of one leaves the others'."""
    names = [
        "a",
        "ab",
        "A",
        "a%",
        "a_",
        "*",
        "a ",
        " a",
        "",
        "á",
        "a\u0301",
        '"',
        "' OR 1=1 --",
        "a\0b",
        "tenant",
    ]
    for name in names:
        mine = record(1, text=f"words of {name!a}")
        stone = Tombstone(environment=PRODUCTION, scope=ANN, key="gone", at=1, content=ascii(name))
        with home.records(name).writing() as transaction:
            transaction.write(
                Change(events=(event(mine),), tombstones=(stone,)), idempotency="k", result=name
            )
    left = list(names)
    while left:
        for name in left:
            store = home.records(name)
            (mine,) = store.find(where()).records
            assert mine.text == f"words of {name!a}"
            assert [each.record for each in store.search(where(), "words")] == [mine]
            assert [step.seq for step in store.history(where())] == [1]
            with store.writing() as transaction:
                assert transaction.done("k") == name
                (stone,) = transaction.tombstones(PRODUCTION, ANN, "gone")
                assert stone.content == ascii(name)
        store = home.records(left.pop())
        asked = replace(where(), scopes=(), whole="tenant")
        counts = store.purge(asked)
        assert counts == {"records": 1, "events": 1, "tombstones": 1, "idempotency": 1}
        assert store.find(asked).records == ()


@pytest.mark.long
def test_more_than_any_page(home: Mem0) -> None:
    """1,010 records, more than mem0 lists by itself (20), a client's page (100) and our own first one
    (1,000): all are listed, counted, and purged; another scope's stays."""
    store = home.records("acme")
    records = [record(number) for number in range(1_010)]
    write(store, *records)
    other = record(5_000, scope=Scope("user", "bob"))
    write(store, other)
    assert store.find(where(), limit=2_000).records == tuple(records)
    assert len(store.history(where(), limit=2_000)) == 1_010
    assert len(store.search(where(), "number", limit=2_000)) == 1_010
    dry = store.purge(where(), dry_run=True)
    assert (dry["records"], dry["events"]) == (1_010, 1_010)
    assert store.purge(where()) == dry
    assert set(store.purge(where()).values()) == {0}
    assert store.find(where(other.scope)).records == (other,)


def test_reopening_keeps_all(embedder: Embedder, tmp_path: Path) -> None:
    """Records, history, tombstones and results are there after closing; the numbers of the history go on,
    also when the last of it was purged in between."""
    stone = Tombstone(environment=PRODUCTION, scope=ANN, key="gone", at=1)
    with open_mem0(embedder.config(), tmp_path) as home:
        store = home.records("acme")
        write(store, record(1), record(2, scope=Scope("user", "bob")), idempotency="k", result="r")
        with store.writing() as transaction:
            transaction.write(Change(tombstones=(stone,)))
    with open_mem0(embedder.config(), tmp_path) as home:
        store = home.records("acme")
        assert store.find(where()).records == (record(1),)
        with store.writing() as transaction:
            assert transaction.done("k") == "r"
            assert transaction.tombstones(PRODUCTION, ANN, "gone") == (stone,)
        store.purge(where(Scope("user", "bob")))
    for number in (3, 4):
        with open_mem0(embedder.config(), tmp_path) as home:
            store = home.records("acme")
            write(store, record(number))
            assert store.history(where())[-1].seq == number
            store.purge(where(ids=(record(number).id,)))


def test_what_fails_half_way_is_taken_back(home: Mem0, embedder: Embedder) -> None:
    """When mem0 fails at the third of four, the first two go too, and the same call succeeds later."""
    store = home.records("acme")
    write(store, record(1))
    embedder.refused.add("poison")
    bad = [record(1, text="changed"), record(2), record(3, text="poison here"), record(4)]
    with pytest.raises(StorageFailed):
        write(store, *bad, idempotency="k", result="r")
    assert store.find(where()).records == (record(1),)
    assert len(store.history(where())) == 1
    with store.writing() as transaction:
        assert transaction.done("k") is None
    embedder.refused.clear()
    write(store, *bad, idempotency="k", result="r")
    assert store.find(where()).records == tuple(bad)
    assert [step.seq for step in store.history(where())] == [1, 2, 3, 4, 5]


def test_a_record_is_found_behind_its_past(home: Mem0) -> None:
    """What a record said before does not find it, and 120 old steps that fit better hide nothing."""
    store = home.records("acme")
    for number in range(120):
        said = change(record(1, text="tea", evidence=number + 1))
        with store.writing() as transaction:
            transaction.write(said)
    write(store, record(1, text="coffee"), record(2, text="tea in the afternoon with some milk"))
    assert [each.record.id for each in store.search(where(), "tea", limit=1)] == [record(2).id]
    assert [each.record.text for each in store.search(where(), "coffee")] == ["coffee"]


def test_long_words_are_cut_and_the_record_is_not(home: Mem0, embedder: Embedder) -> None:
    """An embedder gets at most 4,000 characters of a record and of a query; the record comes back whole."""
    embedder.texts.clear()
    store = home.records("acme")
    long = record(1, text="word " * 3_000, payload=["x" * 60_000])
    write(store, long)
    assert store.search(where(), "word " * 3_000)[0].record == long
    assert max(map(len, embedder.texts)) <= 4_000


def test_every_memory_says_whose_it_is(embedder: Embedder, tmp_path: Path) -> None:
    """By digests of the tenant, of its environment and of the scope: the same scope of another tenant or
    environment has others, so that mem0's own filters keep them apart."""
    places = [(tenant, environment) for tenant in ("a", "ab") for environment in (PRODUCTION, "test")]
    with open_mem0(embedder.config(), tmp_path) as home:
        for number, (tenant, environment) in enumerate(places):
            write(home.records(tenant), record(number, environment=environment))
            write(home.records(tenant), record(100 + number, environment=environment, scope=TENANT))
    from qdrant_client import QdrantClient

    with closing(QdrantClient(path=str(tmp_path / "qdrant"))) as client:
        found = [point.payload or {} for point in client.scroll("mem0", limit=100)[0]]
    assert len(found) == 8
    for name, distinct in (("user_id", 8), ("agent_id", 4), ("run_id", 2)):
        owners = {each[name] for each in found}
        assert len(owners) == distinct
        assert all(len(owner) == 64 for owner in owners)


def test_what_others_keep_in_mem0_is_not_ours(embedder: Embedder, tmp_path: Path) -> None:
    """Memories that somebody else added to the collection are neither found nor purged."""
    open_mem0(embedder.config(), tmp_path / "first").close()
    from mem0 import Memory

    config = embedder.config()
    config["history_db_path"] = str(tmp_path / "history.db")
    local = {"path": str(tmp_path / "qdrant"), "embedding_model_dims": embedder.dims}
    config["vector_store"] = {"provider": "qdrant", "config": local}
    memory = Memory.from_config(config)
    memory.add("number of somebody", user_id="ann", agent_id="a", run_id="acme", infer=False)
    with Mem0(memory) as home:
        store = home.records("acme")
        write(store, record(1))
        everything = replace(where(), scopes=(), whole="tenant", statuses=EVERY)
        assert store.find(everything).records == (record(1),)
        assert len(store.search(everything, "number")) == 1
        store.purge(everything)
        (kept,) = memory.get_all(filters={"user_id": "ann"})["results"]
        assert kept["memory"] == "number of somebody"


def test_mem0s_own_trail_has_none_of_our_words(embedder: Embedder, tmp_path: Path) -> None:
    """mem0 notes the words of all that it adds and deletes in its history file; ours are taken out of it."""
    config = {**embedder.config(), "history_db_path": str(tmp_path / "history.db")}
    with open_mem0(config, tmp_path) as home:
        store = home.records("acme")
        write(store, record(1, text="unmistakable"))
        write(store, record(1, text="changed"))
        with closing(sqlite3.connect(tmp_path / "history.db")) as trail:
            assert trail.execute("SELECT count(*) FROM history").fetchone() == (0,)
        store.purge(where())
    assert b"unmistakable" not in (tmp_path / "history.db").read_bytes()


def test_a_writer_waits_and_tells(embedder: Embedder, tmp_path: Path) -> None:
    """Who waits too long for a writer of its tenant gets `StoreBusy`; for another tenant's nobody waits."""
    open_mem0(embedder.config(), tmp_path / "first").close()
    from mem0 import Memory

    config = embedder.config()
    local = {"path": str(tmp_path / "qdrant"), "embedding_model_dims": embedder.dims}
    config |= {"history_db_path": ":memory:", "vector_store": {"provider": "qdrant", "config": local}}
    with Mem0(Memory.from_config(config), wait=0.01) as home, home.records("acme").writing():
        with pytest.raises(StoreBusy), home.records("acme").writing():
            pass
        with home.records("other").writing():
            pass


def test_what_is_closed_or_taken_says_so(embedder: Embedder, tmp_path: Path) -> None:
    """A second opening of a local store is refused, and so is asking what is closed; closing twice is not."""
    home = open_mem0(embedder.config(), tmp_path)
    with pytest.raises(StoreBusy):
        open_mem0(embedder.config(), tmp_path)
    home.close()
    home.close()
    with pytest.raises(StorageFailed):
        home.records("acme").find(where())


@pytest.mark.parametrize(
    "part",
    [
        {"embedder": {"provider": "nobody"}},
        {"vector_store": {"provider": "nobody"}},
        {"vector_store": {"config": {"nobody": 1}}},
        {"vector_store": {"provider": "faiss", "config": {"embedding_model_dims": 8}}},
    ],
)
def test_a_configuration_that_does_not_fit(
    part: dict[str, object], embedder: Embedder, tmp_path: Path
) -> None:
    """What mem0 cannot be made of, and a vector store whose filters are not known to be exact, is refused."""
    with pytest.raises(InvalidConfig):
        open_mem0({**embedder.config(), **part}, tmp_path)


def test_an_admin_purges_the_lane(home: Mem0) -> None:
    """The receipt has the counts of before and after, and says that mem0 has no transactions."""
    service = _service(home)
    ana, boss = caller("acme", user="ana"), caller("acme", roles=[ADMIN])
    draft = Draft(layer=Layer.LONG, scope=Scope("user", "ana"), key="home", text="Lisbon")
    service.remember(ana, draft, idempotency="k")
    receipt = service.purge(boss, Selector("tenant"))
    (counts,) = receipt.stores
    assert counts.before == {"records": 1, "events": 1, "tombstones": 0, "idempotency": 1}
    assert set(counts.after.values()) == {0}
    assert receipt.unsupported == ("mem0",)


def test_nothing_is_written_elsewhere(embedder: Embedder, tmp_path: Path) -> None:
    """In a fresh process: `import stratalog` loads no mem0; opening, writing and closing write nothing into
    the user's home or the working directory, and mem0's telemetry is off."""
    script = """
        import json, sys
        import stratalog, stratalog.memory.mem0
        assert not {"mem0", "qdrant_client", "openai"} & set(sys.modules)
        from stratalog.conformance.records import record, where, write
        with stratalog.memory.mem0.open_mem0(json.loads(sys.argv[1]), sys.argv[2]) as home:
            write(home.records("acme"), record(1))
            assert home.records("acme").find(where()).records == (record(1),)
        from mem0.memory import telemetry
        assert telemetry.MEM0_TELEMETRY is False
        assert telemetry.client_telemetry.posthog is None
    """
    data, user, here = (tmp_path / name for name in ("data", "user", "here"))
    user.mkdir()
    here.mkdir()
    kept = {name: value for name, value in os.environ.items() if not name.startswith("MEM0_")}
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script), json.dumps(embedder.config()), str(data)],
        cwd=here,
        env={**kept, "HOME": str(user), "TMPDIR": str(here)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert list(user.iterdir()) == list(here.iterdir()) == []
    assert {each.name for each in data.iterdir()} == {"config.json", "qdrant"}
