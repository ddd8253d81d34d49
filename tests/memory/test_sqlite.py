"""What is special to records in SQLite: the file, its versions, damage, full disks, forks, kills, erasure."""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import stat
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from crash.processes import Child, Say, child, run
from stratalog import points
from stratalog.conformance.records import ANN, EVERY, change, event, full, record, where, write
from stratalog.errors import (
    DamagedLog,
    ForeignFile,
    InvalidInput,
    LogError,
    NewerFormat,
    StorageFailed,
    StorageFull,
    StoreBusy,
)
from stratalog.ids import new_ulid
from stratalog.memory import sqlite
from stratalog.memory.contract import PRODUCTION, Change, Record, RecordStore, Scope, Source, Tombstone
from stratalog.memory.sqlite import FILE, MIGRATIONS, SqliteRecords
from stratalog.recall.terms import query_terms, terms

FIXTURES = Path(__file__).parent.parent / "fixtures" / "memory"
APPLICATION = 0x5374_6C6D


def _store(path: Path, **how: Any) -> SqliteRecords:
    return SqliteRecords(path / FILE, terms=str.split, **how)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteRecords]:
    made = _store(tmp_path)
    yield made
    made.close()


def _database(path: Path, *statements: str) -> list[Any]:
    database = sqlite3.connect(path, isolation_level=None)
    try:
        return [database.execute(statement).fetchone() for statement in statements]
    finally:
        database.close()


def _sound(path: Path) -> None:
    """SQLite finds nothing wrong, nor FTS5 with the index."""
    checked = _database(
        path,
        "PRAGMA integrity_check",
        "INSERT INTO words (words) VALUES ('integrity-check')",
        "SELECT count(*) FROM records",
        "SELECT count(*) FROM words",
    )
    assert checked[0] == ("ok",)
    assert checked[2] == checked[3]


def _acts(store: RecordStore) -> list[Callable[[], Any]]:
    return [
        lambda: write(store, record()),
        lambda: store.find(where()),
        lambda: store.search(where(), "number"),
        lambda: store.history(where()),
        lambda: store.purge(where()),
        lambda: store.purge(where(), dry_run=True),
    ]


def test_it_is_a_store_of_records(store: SqliteRecords) -> None:
    """It has what the contract names; mypy holds the assignment."""
    contract: RecordStore = store
    assert contract.capabilities.name == "sqlite"


# --- the file ---


def test_reading_makes_nothing(tmp_path: Path) -> None:
    """No question leaves a file or a directory behind."""
    store = _store(tmp_path / "tenant")
    for act in _acts(store)[1:]:
        act()
    assert list(tmp_path.iterdir()) == []


def test_an_empty_file_is_an_empty_store(tmp_path: Path) -> None:
    """What a crash leaves that made the file and nothing in it: reading finds nothing, writing goes on."""
    store = _store(tmp_path)
    (tmp_path / FILE).touch(0o600)
    assert store.find(where()).records == ()
    assert (tmp_path / FILE).read_bytes() == b""
    write(store, record())
    assert store.find(where()).records == (record(),)


def test_every_file_is_its_owners_alone(tmp_path: Path) -> None:
    """Under umask 022: the database, its journal and shared memory 0600, directories 0700."""
    before = os.umask(0o022)
    try:
        store = _store(tmp_path / "data" / "tenant")
        write(store, record())
        found = list((tmp_path / "data" / "tenant").iterdir())
        assert sorted(file.name for file in found) == [FILE, f"{FILE}-shm", f"{FILE}-wal"]
        assert {stat.S_IMODE(file.stat().st_mode) for file in found} == {0o600}
        assert stat.S_IMODE((tmp_path / "data" / "tenant").stat().st_mode) == 0o700
        assert stat.S_IMODE((tmp_path / "data").stat().st_mode) == 0o700
    finally:
        os.umask(before)


def test_what_is_written_is_on_the_disk(store: SqliteRecords) -> None:
    """Each connection syncs at every commit, overwrites what it deletes, and waits for others."""
    write(store, record())
    with store.writing():
        store.find(where())
    connections = store._here().idle
    assert len(connections) == 2
    for connection in connections:
        for pragma, value in (
            ("synchronous", 2), ("journal_mode", "wal"), ("secure_delete", 1), ("busy_timeout", 10_000),
        ):  # fmt: skip
            assert connection.database.execute(f"PRAGMA {pragma}").fetchone() == (value,)


def test_a_path_is_a_path(tmp_path: Path) -> None:
    """Characters that mean something in the URI of a database are those of a name."""
    store = _store(tmp_path / "a?mode=memory#x%20 é")
    write(store, record())
    assert (tmp_path / "a?mode=memory#x%20 é" / FILE).exists()
    store.close()


def test_a_store_may_be_used_after_it_was_closed(store: SqliteRecords, tmp_path: Path) -> None:
    """Closing leaves one file, closes what is still in use once that ends, and opening is by itself."""
    with store.writing() as transaction:
        transaction.write(change(record()))
        store.close()
    assert [file.name for file in tmp_path.iterdir()] == [FILE]
    assert store.find(where()).records == (record(),)


def test_a_deleted_file_is_not_written_to(store: SqliteRecords, tmp_path: Path) -> None:
    """When the file was deleted or another was put in its place, the next call uses what is there now."""
    write(store, record(1))
    for file in tmp_path.iterdir():
        file.unlink()
    assert store.find(where()).records == ()
    write(store, record(2))
    store.close()
    assert _store(tmp_path).find(where()).records == (record(2),)


def test_the_history_defends_itself(store: SqliteRecords, tmp_path: Path) -> None:
    """Whoever has the database can neither change nor delete a line of the history by mistake."""
    write(store, record())
    store.close()
    for statement in ("UPDATE events SET body = ''", "DELETE FROM events", "UPDATE events SET seq = 9"):
        with pytest.raises(sqlite3.IntegrityError, match="the history is not"):
            _database(tmp_path / FILE, statement)
    store.purge(where())
    assert _database(tmp_path / FILE, "SELECT count(*) FROM events", "SELECT count(*) FROM marks") == [
        (0,),
        (0,),
    ]


def test_the_page_describes_the_file(store: SqliteRecords, tmp_path: Path) -> None:
    """docs/records.md names every table, the application and the version."""
    write(store, record())
    database = sqlite3.connect(tmp_path / FILE)
    tables = {
        name
        for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        if not name.startswith(("words_", "sqlite_"))
    }
    (application,) = database.execute("PRAGMA application_id").fetchone()
    database.close()
    page = (Path(__file__).parents[2] / "docs" / "records.md").read_text()
    section = page.partition("## On disk")[2].partition("\n## ")[0]
    rows = [line.split("|")[1] for line in section.splitlines() if line.startswith("| `")]
    assert {name.strip(" `") for row in rows for name in row.split(",")} == tables
    assert f"`0x{application:X}`" in section
    assert f"version of the form, now **{len(MIGRATIONS)}**" in section


def test_too_many_values(store: SqliteRecords) -> None:
    """Ten thousand values may be asked for at once; more are refused and not cut."""
    write(store, record())
    ids = tuple(new_ulid() for _ in range(9_999))
    assert store.find(where(ids=(*ids, record().id))).records == (record(),)
    with pytest.raises(InvalidInput):
        store.find(where(ids=(*ids, *ids)))


@pytest.mark.parametrize("look", [1, 8, 1000])
def test_the_best_of_many_hits(
    look: int, store: SqliteRecords, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However few are asked for, and however many of the hits are not wanted or equally good, they are the
    first of all that are wanted, by points and then the newest; in whatever portions they are looked at."""
    monkeypatch.setattr(sqlite, "_LOOK", look)
    texts = ("tea", "tea tea cup", "a cup of tea", "cup", "milk and tea and a cup", "nothing of it")
    kept = [
        record(
            number,
            text=texts[number % 6],
            status="superseded" if number % 5 == 0 or 60 <= number < 160 else "current",
        )
        for number in range(200)
    ]
    write(store, *kept, record(1000, scope=Scope("user", "bob"), text="tea cup"))
    database = sqlite3.connect(tmp_path / FILE)
    wanted = database.execute(
        "SELECT id, -bm25(words, 1.0, 0.0) FROM words JOIN records ON row = words.rowid"
        " WHERE words MATCH ? AND status = 'current' ORDER BY 2 DESC, 1 DESC",
        ('{terms} : ("tea" OR "cup") AND {place} : ("p1")',),
    ).fetchall()
    database.close()
    assert len(wanted) > 50
    for limit in (1, 2, 7, 40, len(wanted), 10_000):
        found = store.search(where(), "tea cup", limit=limit)
        assert [(each.record.id, each.score) for each in found] == wanted[:limit]


# --- versions ---


@pytest.mark.parametrize("version", range(1, len(MIGRATIONS) + 1))
def test_every_version(version: int, tmp_path: Path) -> None:
    """The file that each version wrote is read, searched, written to and purged."""
    shutil.copy(FIXTURES / f"version-{version}.sqlite3", tmp_path / FILE)
    assert _database(tmp_path / FILE, "PRAGMA user_version") == [(version,)]
    store = _store(tmp_path)
    staged = where(full().scope, environment="staging", statuses=EVERY)
    (kept,) = store.find(staged).records
    told = {"payload", "text", "confidence", "origin", "valid_from", "valid_to", "evidence", "expires_at"}
    for field in told:
        assert getattr(kept, field) == getattr(full(), field), field
    assert [source.session for source in kept.sources] == ["a:b:c", "a:b:d"]
    assert [found.record for found in store.search(where(), "number")] == [record(3), record(2)]
    assert [step.seq for step in store.history(where())] == [2, 3, 4]
    with store.writing() as transaction:
        assert transaction.done("once") == "noted"
        assert [stone.content for stone in transaction.tombstones(PRODUCTION, ANN, "gone")] == ["digest"]
        transaction.write(change(record(4)))
    assert [step.seq for step in store.history(where(), after=4)] == [5]
    counts = store.purge(where())
    assert counts == {
        "records": 3, "events": 4, "sources": 0, "index": 3, "tombstones": 1, "idempotency": 1,
    }  # fmt: skip
    assert store.find(staged).records == (kept,)
    store.close()
    _sound(tmp_path / FILE)


def test_an_older_file_is_migrated(
    store: SqliteRecords, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Opening brings a file to the present version in one transaction, once, with what is in it kept."""
    shutil.copy(FIXTURES / "version-1.sqlite3", tmp_path / FILE)
    broken = (*MIGRATIONS, "CREATE TABLE more (a);\nCREATE TABLE more (b);\n")
    monkeypatch.setattr(sqlite, "MIGRATIONS", broken)
    with pytest.raises(StorageFailed):
        store.find(where())
    assert _database(tmp_path / FILE, "PRAGMA user_version") == [(1,)]
    monkeypatch.setattr(sqlite, "MIGRATIONS", (*MIGRATIONS, "CREATE TABLE more (a);\n"))
    for _ in range(2):
        assert len(store.find(where()).records) == 2
        store.close()
    assert _database(tmp_path / FILE, "PRAGMA user_version", "SELECT count(*) FROM more") == [
        (len(MIGRATIONS) + 1,),
        (0,),
    ]


# --- another function for terms ---

MET = "We met on May 4th, 2023"


def _by_letters(text: str) -> list[str]:
    """A function for terms that finds a text by its letters alone."""
    return list(text.replace(" ", ""))


def test_terms_are_made_anew(tmp_path: Path) -> None:
    """What was written with another function is found by the first search with this one, and no more by the
    other's terms; what is written between is found too, and the history stays as it was."""
    before = SqliteRecords(tmp_path / FILE, terms=_by_letters)
    write(before, *[record(number) for number in range(450)], record(500, text=MET))
    before.close()
    now = SqliteRecords(tmp_path / FILE, terms=terms, query_terms=query_terms)
    history = now.history(where(), limit=1000)
    write(now, record(501, text="2023年5月4日我们见面"))
    found = [hit.record.payload["number"] for hit in now.search(where(), "what was on 2023-05-04?")]
    assert sorted(found) == [500, 501]
    assert now.search(where(), "y") == ()
    assert now.history(where(), limit=1000)[:-1] == history
    now.close()
    _sound(tmp_path / FILE)
    refusing = "CREATE TRIGGER no_more BEFORE UPDATE ON records BEGIN SELECT RAISE (ABORT, ''); END"
    _database(tmp_path / FILE, refusing)
    again = SqliteRecords(tmp_path / FILE, terms=terms, query_terms=query_terms)
    assert len(again.search(where(), "2023-05-04")) == 2  # nothing is made a second time
    again.close()


def test_a_new_store_has_nothing_to_make_anew(tmp_path: Path) -> None:
    """What a store wrote from its beginning is not gone through by its first search."""
    made: list[str] = []

    def counting(text: str) -> list[str]:
        made.append(text)
        return text.split()

    store = SqliteRecords(tmp_path / FILE, terms=counting)
    write(store, *[record(number) for number in range(20)])
    asked = len(made)
    assert len(store.search(where(), "number")) == 10
    assert len(made) == asked + 1
    store.close()


@pytest.mark.crash
@pytest.mark.parametrize("nth", [2, 300, 451])
def test_killed_while_terms_are_made_anew(nth: int, tmp_path: Path) -> None:
    """After kill -9 in the middle the store is as it was, and the next search does it all."""
    before = SqliteRecords(tmp_path / FILE, terms=_by_letters)
    write(before, *[record(number) for number in range(450)], record(500, text=MET))
    before.close()
    asked: list[str] = []

    def dying(text: str) -> list[str]:
        asked.append(text)
        if len(asked) > nth:
            os.kill(os.getpid(), signal.SIGKILL)
        return terms(text)

    def work(say: Say) -> None:
        SqliteRecords(tmp_path / FILE, terms=dying, query_terms=query_terms).search(where(), "May")

    assert run(work) == -signal.SIGKILL
    old = SqliteRecords(tmp_path / FILE, terms=_by_letters)
    assert len(old.search(where(), "W")) == 1
    old.close()
    now = SqliteRecords(tmp_path / FILE, terms=terms, query_terms=query_terms)
    assert [hit.record.payload["number"] for hit in now.search(where(), "May")] == [500]
    now.close()
    _sound(tmp_path / FILE)


@pytest.mark.parametrize(
    ("statements", "error"),
    [
        (["CREATE TABLE mine (a)", "INSERT INTO mine VALUES (1)"], ForeignFile),
        (["PRAGMA application_id = 7"], ForeignFile),
        (["PRAGMA user_version = 1"], ForeignFile),
        (["CREATE TABLE records (a)"], ForeignFile),
        ([f"PRAGMA application_id = {APPLICATION}", "PRAGMA user_version = 99"], NewerFormat),
    ],
)
def test_another_database_is_never_touched(
    statements: list[str], error: type[LogError], tmp_path: Path, store: SqliteRecords
) -> None:
    """A database that is no store of records, or a newer one: a typed error, and every byte as it was."""
    path = tmp_path / FILE
    _database(path, *statements)
    before = path.read_bytes()
    for act in _acts(store):
        with pytest.raises(error) as raised:
            act()
        assert str(path) in str(raised.value)
    store.close()
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == [FILE]


# --- damage and full disks ---


def test_a_file_that_is_no_database(store: SqliteRecords, tmp_path: Path) -> None:
    """Rubbish in the database's place: DamagedLog, and every byte as it was."""
    data = b"this is a text, longer than a header of SQLite\n" * 100
    (tmp_path / FILE).write_bytes(data)
    for act in _acts(store):
        with pytest.raises(DamagedLog):
            act()
    assert (tmp_path / FILE).read_bytes() == data


def test_damaged_pages(store: SqliteRecords, tmp_path: Path) -> None:
    """A database with overwritten pages raises DamagedLog and is not made anew."""
    write(store, *[record(number) for number in range(200)])
    store.close()
    data = bytearray((tmp_path / FILE).read_bytes())
    data[4096:] = b"\xa5" * (len(data) - 4096)
    (tmp_path / FILE).write_bytes(data)
    for act in _acts(store):
        with pytest.raises(DamagedLog) as raised:
            act()
        assert str(tmp_path / FILE) in str(raised.value)


def test_a_damaged_record(store: SqliteRecords, tmp_path: Path) -> None:
    """A row that does not decode raises DamagedLog where it is read; others are read."""
    write(store, record(1), record(2))
    store.close()
    _database(tmp_path / FILE, "UPDATE records SET body = '{' WHERE row = 1")
    with pytest.raises(DamagedLog):
        store.find(where())
    assert store.find(where(ids=(record(2).id,))).records == (record(2),)


def test_a_full_disk(tmp_path: Path) -> None:
    """On a disk that is really full: StorageFull, with all that was written; with space again, all works."""
    place = tmp_path / "disk"
    place.mkdir()
    mounted = (
        os.geteuid() == 0
        and not subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(place)], capture_output=True, check=False
        ).returncode
    )
    if not mounted:
        pytest.skip("only root can mount a small file system, and not everywhere")
    store = _store(place / "data")
    try:
        ballast = place / "ballast"
        ballast.write_bytes(b"x" * 1_000_000)
        stored: list[Record] = []

        def fill() -> None:
            for number in range(10_000):
                new = record(number, text="word " * 500)
                write(store, new)
                stored.append(new)

        with pytest.raises(StorageFull):
            fill()
        assert len(stored) > 5
        assert list(store.find(where(), limit=10_000).records) == stored
        with pytest.raises(StorageFull):
            write(store, record(20_000, text="word " * 500_000))
        ballast.unlink()
        write(store, record(20_001))
        assert list(store.find(where(), limit=10_000).records) == [*stored, record(20_001)]
        store.close()
        _sound(place / "data" / FILE)
    finally:
        store.close()
        subprocess.run(["umount", str(place)], check=False)


def test_what_fails_halfway_is_not_written(store: SqliteRecords, tmp_path: Path) -> None:
    """A caller that goes on after a failed write cannot end the transaction with half of it."""
    write(store, record(1))
    _database(
        tmp_path / FILE,
        "CREATE TRIGGER no BEFORE INSERT ON sources WHEN NEW.entry = 'no' BEGIN"
        " SELECT RAISE (ABORT, 'no'); END",
    )

    def go_on_regardless() -> None:
        with store.writing() as transaction:
            transaction.write(change(record(2)))
            with pytest.raises(StorageFailed):
                transaction.write(change(record(3), record(4, sources=(Source("s", "no"),))))
            with pytest.raises(StorageFailed):
                transaction.write(change(record(5)))

    with pytest.raises(StorageFailed, match="no"):
        go_on_regardless()
    assert store.find(where()).records == (record(1),)
    assert len(store.history(where())) == 1


def test_a_writer_that_does_not_end(store: SqliteRecords, tmp_path: Path) -> None:
    """Another process's, or another thread's, transaction: StoreBusy after `wait`; reading goes on."""
    write(store, record(1))
    hasty = _store(tmp_path, wait=0.02)
    other = sqlite3.connect(tmp_path / FILE, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    for act in (lambda: write(hasty, record(2)), lambda: hasty.purge(where())):
        with pytest.raises(StoreBusy) as raised:
            act()
        assert str(tmp_path / FILE) in str(raised.value)
    assert hasty.find(where()).records == (record(1),)
    other.execute("ROLLBACK")
    other.close()
    with hasty.writing(), pytest.raises(StoreBusy):
        write(hasty, record(2))
    write(hasty, record(2))
    assert hasty.find(where()).records == (record(1), record(2))
    hasty.close()


# --- processes ---


@pytest.mark.crash
def test_eight_processes_write_one_file(tmp_path: Path) -> None:
    """Eight processes that make one file together, read and write at once: no write is lost, none fails."""
    counter = record(10_000, payload=0)

    def worker(number: int) -> Callable[[Say], None]:
        def work(say: Say) -> None:
            store = _store(tmp_path / "tenant")
            for step in range(25):
                with store.writing() as transaction:
                    (now,) = transaction.find(where(ids=(counter.id,))) or (counter,)
                    more = msgspec.structs.replace(now, payload=now.payload + 1)
                    transaction.write(change(more, record(100 * number + step)))
                assert store.search(where(), f"{100 * number + step}")
            say("done")

        return work

    children = [Child(worker(number)) for number in range(8)]
    said = [each.hear_all() for each in children]
    assert [each.wait() for each in children] == [0] * 8
    assert said == [["done"]] * 8
    found = _store(tmp_path / "tenant").find(where(), limit=1000).records
    assert found[-1].payload == 200
    expected = [100 * number + step for number in range(8) for step in range(25)]
    assert [kept.payload["number"] for kept in found[:-1]] == expected
    _sound(tmp_path / "tenant" / FILE)


@pytest.mark.crash
@pytest.mark.parametrize("after", [1, 2, 30, 75])
def test_killed_while_writing(after: int, tmp_path: Path) -> None:
    """After kill -9 every record that was acknowledged is there, with its history and index, once."""

    def work(say: Say) -> None:
        store = _store(tmp_path)
        for number in range(5_000):
            write(store, record(number), idempotency=str(number), result="written")
            say(str(number))

    with child(work) as writer:
        heard = [writer.hear() for _ in range(after)]
        writer.signal(signal.SIGKILL)
        heard += writer.hear_all()
    store = _store(tmp_path)
    found = store.find(where(), limit=100_000).records
    assert heard[-1] is not None
    assert len(found) in (len(heard), len(heard) + 1)
    assert [kept.payload["number"] for kept in found] == list(range(len(found)))
    assert [step.record for step in store.history(where(), limit=100_000)] == list(found)
    assert [hit.record for hit in store.search(where(), heard[-1])] == [record(int(heard[-1]))]
    with store.writing() as transaction:
        assert transaction.done(heard[-1]) == "written"
    store.close()
    _sound(tmp_path / FILE)


@pytest.mark.crash
def test_a_fork_uses_its_own_connections(store: SqliteRecords) -> None:
    """A child writes and reads with the store that its parent has open, and the parent goes on."""
    write(store, record(1))

    def work(say: Say) -> None:
        write(store, record(2))
        say(str(len(store.find(where()).records)))

    with child(work) as other:
        assert other.hear_all() == ["2"]
        assert other.wait() == 0
    write(store, record(3))
    assert store.find(where()).records == (record(1), record(2), record(3))


# --- erasure ---

SECRET = "zq7secret"


def _secrets(store: SqliteRecords) -> None:
    """Many records of Ann with the secret in every field that holds text, among those of Bob."""
    mine = Scope("user", f"{SECRET}-scope")
    for number in range(0, 900, 2):
        secret = record(
            number,
            scope=mine,
            key=f"{SECRET}-key {number}",
            payload={SECRET: f"{SECRET}-payload"},
            text=f"{SECRET} {SECRET}{number} " + "words " * (number % 50),
            sources=(Source(f"{SECRET}-session", f"{SECRET}-entry {number}"),),
        )
        stone = Tombstone(environment=PRODUCTION, scope=mine, key=f"{SECRET}-stone", at=number)
        with store.writing() as transaction:
            transaction.write(
                Change(events=(event(secret), event(record(number + 1))), tombstones=(stone,)),
                idempotency=f"{SECRET}-idempotency {number}",
                result=f"{SECRET}-result",
            )
            if number % 3 == 0:
                later = msgspec.structs.replace(secret, text=f"{SECRET}-later", status="forgotten")
                transaction.write(Change(events=(event(later),)))


MINE = where(Scope("user", f"{SECRET}-scope"))
ALL = {"records": 450, "events": 600, "sources": 450, "index": 450, "tombstones": 450, "idempotency": 450}


def _bytes(path: Path) -> int:
    """How often the secret stands in the files."""
    return sum(file.read_bytes().count(SECRET.encode()) for file in path.iterdir())


def test_purged_bytes_are_gone(store: SqliteRecords, tmp_path: Path) -> None:
    """After a purge no file has a piece of what was purged, with the store open all the while; the rest is
    sound."""
    _secrets(store)
    assert _bytes(tmp_path) > 1000
    assert store.purge(MINE, dry_run=True) == ALL
    assert store.purge(MINE) == ALL
    assert _bytes(tmp_path) == 0
    assert len(store.find(where(), limit=1000).records) == 450
    assert [hit.record for hit in store.search(where(), "601")] == [record(601)]
    store.close()
    _sound(tmp_path / FILE)


def test_a_name_without_records_is_purged_too(store: SqliteRecords, tmp_path: Path) -> None:
    """After a purge by id the scope's name is still there; a purge of the scope takes it out of the files."""
    mine = MINE.scopes[0]
    write(store, record(1, scope=mine), record(2))
    store.purge(where(mine, ids=(record(1).id,)))
    assert _bytes(tmp_path) == 1 + 1  # the table and its index
    assert set(store.purge(MINE).values()) == {0}
    assert _bytes(tmp_path) == 0


@pytest.mark.crash
@pytest.mark.parametrize(
    ("point", "nth"),
    [
        *[("purge.batch", nth) for nth in (1, 2, 3, 4)],
        ("purge.deleted", 1),
        ("purge.merged", 1),
        ("purge.vacuumed", 1),
        ("purge.truncated", 1),
    ],
)
def test_killed_while_purging(point: str, nth: int, tmp_path: Path) -> None:
    """Killed at any point, others' records are there, and the same call finishes: nothing is left of it."""
    store = _store(tmp_path)
    _secrets(store)
    store.close()

    def work(say: Say) -> None:
        points.arm(point, nth)
        _store(tmp_path).purge(MINE)

    assert run(work) == -9
    assert len(store.find(where(), limit=1000).records) == 450
    left = store.purge(MINE, dry_run=True)
    assert left == store.purge(MINE)
    done = {"purge.batch": min(200 * nth, 450)}.get(point, 450)
    assert (left["records"], left["index"], left["sources"]) == (450 - done,) * 3
    assert _bytes(tmp_path) == 0
    assert store.find(msgspec.structs.replace(MINE, statuses=EVERY)).records == ()
    assert len(store.find(where(), limit=1000).records) == 450
    store.close()
    _sound(tmp_path / FILE)
    assert _database(tmp_path / FILE, "SELECT count(*) FROM marks") == [(0,)]


def test_every_point_of_a_purge_is_tested() -> None:
    """Each point that `points.POINTS` names for a purge has a case here."""
    mark = next(mark for mark in test_killed_while_purging.pytestmark if mark.name == "parametrize")  # type: ignore[attr-defined]
    assert {point for point, _ in mark.args[1]} == {p for p in points.POINTS if p.startswith("purge.")}


def test_a_reader_holds_up_the_end_of_a_purge(store: SqliteRecords, tmp_path: Path) -> None:
    """Where another reads all the while, the records are deleted and StoreBusy says that bytes are left; the
    same call finishes."""
    _secrets(store)
    hasty = _store(tmp_path, wait=0.05)
    reader = sqlite3.connect(tmp_path / FILE, isolation_level=None)
    reader.execute("BEGIN")
    reader.execute("SELECT count(*) FROM records").fetchone()
    with pytest.raises(StoreBusy):
        hasty.purge(MINE)
    assert hasty.purge(MINE, dry_run=True)["records"] == 0
    reader.execute("COMMIT")
    reader.close()
    hasty.purge(MINE)
    assert _bytes(tmp_path) == 0
    hasty.close()
