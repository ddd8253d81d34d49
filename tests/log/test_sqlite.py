"""What is special to logs in SQLite: other people's databases, damage, full disks, modes, forks."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import stat
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from stratalog.errors import (
    DamagedLog,
    ForeignFile,
    InvalidConfig,
    LogBusy,
    LogError,
    NewerFormat,
    StorageFull,
)
from stratalog.keys import SessionKey, session_key
from stratalog.log.sqlite import FILE, SqliteStore
from stratalog.testing.temporary import temporary_store, unsound
from stratalog.types import AnyEntry, User

KEY = session_key("agent", "channel", "chat")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    place = tmp_path / "local" / FILE
    place.parent.mkdir()
    return place


def _texts(store: SqliteStore, key: SessionKey = KEY) -> list[str]:
    return [entry.text for entry in store.read(key) if isinstance(entry, User)]


def _acts(store: SqliteStore) -> list[Callable[[], Any]]:
    return [
        lambda: store.append(KEY, [User(content="a")]),
        lambda: store.replace(KEY, [User(content="a")]),
        lambda: list(store.read(KEY)),
        lambda: store.head(KEY),
        lambda: store.delete(KEY),
        lambda: list(store.sessions()),
    ]


def _database(path: Path, *statements: str) -> None:
    database = sqlite3.connect(path)
    for statement in statements:
        database.execute(statement)
    database.commit()
    database.close()


@pytest.mark.parametrize(
    ("statements", "error"),
    [
        (["CREATE TABLE mine (a)", "INSERT INTO mine VALUES (1)"], ForeignFile),
        (["PRAGMA application_id = 7"], ForeignFile),
        (["CREATE TABLE sessions (a)"], ForeignFile),
        (
            [f"PRAGMA application_id = {0x5374_7261}", "PRAGMA user_version = 2", "CREATE TABLE a (b)"],
            NewerFormat,
        ),
    ],
)
def test_another_database_is_never_touched(
    statements: list[str], error: type[LogError], tmp_path: Path, path: Path
) -> None:
    """A database that is not a log, or a newer one: a typed error for all, and every byte as it was."""
    _database(path, *statements)
    before = path.read_bytes()
    store = SqliteStore(tmp_path)
    for act in _acts(store):
        with pytest.raises(error) as raised:
            act()
        assert str(path) in str(raised.value)
    assert len(store.verify(KEY).problems) == 1
    store.close()
    assert path.read_bytes() == before
    assert [file.name for file in path.parent.iterdir()] == [FILE]


def test_a_file_that_is_no_database_is_never_touched(tmp_path: Path, path: Path) -> None:
    """Text or rubbish in the database's place: ForeignFile, and every byte as it was."""
    data = b"this is a text, longer than a header of SQLite\n" * 100
    path.write_bytes(data)
    store = SqliteStore(tmp_path)
    for act in _acts(store):
        with pytest.raises(ForeignFile):
            act()
    assert len(store.verify(KEY).problems) == 1
    assert path.read_bytes() == data


def test_a_damaged_row_is_skipped_and_told(tmp_path: Path, path: Path) -> None:
    """One damaged line, or one of the wrong type, costs one entry; verify names it."""
    store = SqliteStore(tmp_path)
    store.append(KEY, [User(content=str(number)) for number in range(1, 6)])
    store.close()
    _database(
        path,
        "UPDATE entries SET line = replace(line, '\"2\"', '\"9\"') WHERE seq = 2",
        "UPDATE entries SET line = 7 WHERE seq = 4",
    )
    for reverse in (False, True):
        reading = store.read(KEY, reverse=reverse)
        assert sorted(entry.seq for entry in reading) == [1, 3, 5]
        assert sorted(problem.line for problem in reading.problems) == [2, 4]
    assert len(store.verify(KEY).problems) >= 2
    assert store.append(KEY, [User(content="6")])[0].seq == 6


def test_a_row_that_is_gone_is_missed(tmp_path: Path, path: Path) -> None:
    """verify says which entries are missing, also the last."""
    store = SqliteStore(tmp_path)
    store.append(KEY, [User(content=str(number)) for number in range(1, 6)])
    store.close()
    _database(path, "DELETE FROM entries WHERE seq IN (2, 5)")
    assert [problem.reason for problem in store.verify(KEY).problems] == [
        "entry 2 should be here, not entry 3",
        "the last entry should be 5, not 4",
    ]


def test_a_damaged_payload_costs_only_itself(tmp_path: Path, path: Path) -> None:
    """A payload that is damaged or gone is reported; its entry comes with the reference."""
    store = SqliteStore(tmp_path, blob_threshold=1000)
    store.append(KEY, [User(content="1"), User(content="a" * 5000), User(content="b" * 5000)])
    store.close()
    _database(path, "UPDATE blobs SET payload = 'x' WHERE substr(payload, 1, 1) = CAST('a' AS BLOB)")
    reading = store.read(KEY)
    assert [len(text) for text in [entry.text for entry in reading if isinstance(entry, User)]] == [
        1,
        2000,
        5000,
    ]
    assert len(reading.problems) == 1
    assert len(store.verify(KEY).problems) == 1
    (_, light, _) = store.read(KEY, blobs=False)
    assert isinstance(light, User)
    assert light.blob is not None
    with pytest.raises(DamagedLog):
        store.blob(KEY, light.blob)


def test_a_damaged_file_is_told(tmp_path: Path, path: Path) -> None:
    """Pages of rubbish: a typed error or a shorter reading, never another; verify reports it."""
    store = SqliteStore(tmp_path)
    for number in range(200):
        store.append(KEY, [User(content=f"{number} " + "x" * 500)])
    store.close()
    data = bytearray(path.read_bytes())
    data[8192:-8192] = b"\xff" * (len(data) - 16384)
    path.write_bytes(data)
    store = SqliteStore(tmp_path)
    assert store.verify(KEY).problems != ()
    with pytest.raises(LogError):
        list(store.read(KEY))


def test_a_full_disk(tmp_path: Path) -> None:
    """On a disk that is really full: StorageFull, the log as before; with space again, all works."""
    place = tmp_path / "disk"
    place.mkdir()
    if (
        os.geteuid() != 0
        or subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(place)], capture_output=True, check=False
        ).returncode
    ):
        pytest.skip("only root can mount a small file system, and not everywhere")
    try:
        ballast = place / "ballast"
        ballast.write_bytes(b"x" * 500_000)
        store = SqliteStore(place / "data")
        stored: list[AnyEntry] = []

        def fill() -> None:
            while True:
                stored.extend(store.append(KEY, [User(content="y" * 3000), User(content="z" * 3000)]))

        with pytest.raises(StorageFull):
            fill()
        assert list(store.read(KEY)) == stored
        ballast.unlink()
        assert unsound(store) == []
        with temporary_store(store):
            stored += store.append(KEY, [User(content="after")])
            assert list(store.read(KEY)) == stored
    finally:
        subprocess.run(["umount", str(place)], check=False)


def test_every_file_is_its_owners_alone(tmp_path: Path) -> None:
    """Under umask 022: the database, its journal and shared memory 0600, directories 0700."""
    before = os.umask(0o022)
    try:
        with temporary_store(SqliteStore(tmp_path / "data")) as store:
            store.append(KEY, [User(content="a")])
            names = set()
            for path in [tmp_path / "data", *(tmp_path / "data").rglob("*")]:
                names.add(path.name)
                mode = stat.S_IMODE(path.stat().st_mode)
                assert mode == (0o700 if path.is_dir() else 0o600), path
            assert {FILE, f"{FILE}-wal", f"{FILE}-shm"} <= names
    finally:
        os.umask(before)


def test_few_databases_stay_open(tmp_path: Path) -> None:
    """However many tenants there are, only `max_open` databases are open; all of them can be read."""
    keys = [session_key("agent", "channel", "chat", tenant=f"t{number}") for number in range(20)]
    with temporary_store(SqliteStore(tmp_path, max_open=3)) as store:
        for key in keys:
            store.append(key, [User(content=key.tenant)])
        opened = {os.readlink(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd") if _is_open(fd)}
        assert len({path for path in opened if path.startswith(str(tmp_path)) and path.endswith(FILE)}) <= 3
        for key in keys:
            assert _texts(store, key) == [key.tenant]


def _is_open(fd: str) -> bool:
    return os.path.lexists(f"/proc/self/fd/{fd}")


def test_a_second_store_does_not_end_the_locks_of_the_first(tmp_path: Path, path: Path) -> None:
    """Opening the database again in the same process leaves its locks: another process still waits."""
    first = SqliteStore(tmp_path)
    first.append(KEY, [User(content="1")])
    held = first._connection(path)
    held.execute("PRAGMA journal_mode = DELETE")  # whose lock is on the database file itself
    held.execute("BEGIN IMMEDIATE")
    second = SqliteStore(tmp_path)
    with contextlib.suppress(LogError, sqlite3.Error):
        second._connection(path)
    tried = subprocess.run(
        [
            "python3",
            "-c",
            f"import sqlite3; sqlite3.connect({str(path)!r}, timeout=0).execute('BEGIN IMMEDIATE')",
        ],
        capture_output=True,
        check=False,
    )
    assert b"locked" in tried.stderr
    held.execute("ROLLBACK")
    held.execute("PRAGMA journal_mode = WAL")
    first.close()
    second.close()


def test_what_was_deleted_leaves_the_file(tmp_path: Path, path: Path) -> None:
    """After `scrub` no byte of a deleted session is in the database or its journal; the others are whole."""
    store = SqliteStore(tmp_path, blob_threshold=2000)
    other = session_key("agent", "channel", "other")
    for number in range(300):  # so that rows were moved from page to page
        store.append(KEY, [User(content=f"quince {number} " + "q" * 300)])
        store.append(other, [User(content=f"medlar {number} " + "m" * 200)])
    store.append(KEY, [User(content="quince " + "q" * 3000)])
    assert store.weigh(KEY) > 300 * 300 + 3000
    store.delete(KEY)
    assert store.weigh(KEY) == 0
    store.scrub("local")
    content = b"".join(file.read_bytes() for file in path.parent.iterdir())
    assert b"quince" not in content
    assert b"qqqqq" not in content
    assert content.count(b"medlar") >= 300
    assert len(_texts(store, other)) == 300
    assert unsound(store) == []
    store.close()


def test_nothing_is_scrubbed_where_nothing_is(tmp_path: Path) -> None:
    """A tenant without a database gets none."""
    store = SqliteStore(tmp_path)
    store.scrub("local")
    store.let_go("local")
    assert store.weigh(KEY) == 0
    assert list(tmp_path.iterdir()) == []


def test_who_reads_keeps_the_bytes_and_is_told_of(tmp_path: Path, path: Path) -> None:
    """A reader in the way is an error of the tree; once it has gone, the same call does it."""
    store = SqliteStore(tmp_path)
    store.append(KEY, [User(content="quince")])
    reader = sqlite3.connect(path, isolation_level=None)
    reader.execute("BEGIN")
    reader.execute("SELECT * FROM entries").fetchall()
    store.delete(KEY)
    with contextlib.closing(sqlite3.connect(path)):
        store._here().connections[path].database.execute("PRAGMA busy_timeout = 10")
        with pytest.raises(LogBusy):
            store.scrub("local")
    reader.close()
    store.scrub("local")
    assert b"quince" not in b"".join(file.read_bytes() for file in path.parent.iterdir())
    store.close()


def test_a_database_that_was_deleted_is_made_anew(tmp_path: Path, path: Path) -> None:
    """Whoever had it open, this process too, goes on with the one that is at the path, and harms it not."""
    stores = [SqliteStore(tmp_path), SqliteStore(tmp_path)]
    for store in stores:
        store.append(KEY, [User(content="before")])
    for file in list(path.parent.iterdir()):
        file.unlink()
    assert [store.head(KEY) for store in stores] == [None, None]
    stores[0].append(KEY, [User(content="after")])
    stores[1].append(KEY, [User(content="after it")])
    stores[0].close()
    assert _texts(stores[1]) == ["after", "after it"]
    stores[1].close()
    assert _texts(SqliteStore(tmp_path)) == ["after", "after it"]


def test_an_unknown_policy_is_refused(tmp_path: Path) -> None:
    """A misspelt policy is no silent other one."""
    with pytest.raises(InvalidConfig):
        SqliteStore(tmp_path, sync="full")  # type: ignore[arg-type] - on purpose
