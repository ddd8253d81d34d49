"""Logs in SQLite, one database for each tenant: the same lines as in the files, as rows.

For those who want one file to back up, or filesystems where many small files are dear. A write is one
transaction; with `sync="always"` it is on the disk when the call returns. Payloads too large for a line are
rows of their own. Sealing has no meaning here: reopening costs the same at any age. What is deleted is
overwritten where it stood; copies that SQLite made as it moved rows leave the file with `scrub`.
"""

from __future__ import annotations

import os
import sqlite3
import threading
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Literal, NamedTuple, get_args

from stratalog import osfiles
from stratalog.errors import (
    DamagedLog,
    ForeignFile,
    InvalidConfig,
    LogBusy,
    LogError,
    NewerFormat,
    StorageFailed,
    StorageFull,
)
from stratalog.ids import now_ms
from stratalog.keys import SessionKey, parse_key, tenant_path
from stratalog.log import codec
from stratalog.log.contract import Head, OnWrite, Problem, Reading, Sync, Verification
from stratalog.log.fences import first_fence, gone, refuse_stale
from stratalog.types import AnyEntry, Blob, TurnStart

FILE = "log.sqlite3"
_VERSION = 1
_APPLICATION = 0x5374_7261
_PAGE = 500
_SCHEMA = """
CREATE TABLE sessions (
    id INTEGER PRIMARY KEY AUTOINCREMENT, key TEXT NOT NULL UNIQUE, seq INTEGER NOT NULL,
    fence INTEGER NOT NULL, generation INTEGER NOT NULL, first INTEGER NOT NULL);
CREATE TABLE entries (
    session INTEGER NOT NULL REFERENCES sessions ON DELETE CASCADE, seq INTEGER NOT NULL, line BLOB NOT NULL,
    PRIMARY KEY (session, seq)) WITHOUT ROWID;
CREATE TABLE blobs (
    session INTEGER NOT NULL REFERENCES sessions ON DELETE CASCADE, sha256 TEXT NOT NULL,
    payload BLOB NOT NULL, PRIMARY KEY (session, sha256));
"""


class _Row(NamedTuple):
    id: int
    seq: int
    fence: int
    generation: int
    first: int


class _Connection(NamedTuple):
    """An open database, and which file it is."""

    database: sqlite3.Connection
    ino: tuple[int, int]


class _Open:
    """What one process has open. A connection must not cross a fork, nor a mutex that was held then."""

    def __init__(self) -> None:
        self.mutex = threading.RLock()
        self.connections: OrderedDict[Path, _Connection] = OrderedDict()
        self.left: list[_Connection] = []  # of a file that is gone: to close one would harm the next


class SqliteStore:
    """Logs under the data directory `root`, in `<tenant>/log.sqlite3`.

    `sync`: `always` puts a write on the disk before it returns; with `turn` and `interval` a power cut may
    take the last moments; `never` leaves it to the system. `blob_threshold` in bytes, `on_write` as in
    `JsonlStore`. `max_open` is how many databases are kept open.
    """

    def __init__(
        self,
        root: Path | str,
        *,
        sync: Sync = "always",
        blob_threshold: int = codec.BLOB_THRESHOLD,
        max_open: int = 64,
        on_write: OnWrite | None = None,
    ) -> None:
        if sync not in get_args(Sync):
            raise InvalidConfig(f"sync is one of {', '.join(get_args(Sync))}", sync=ascii(sync))
        self.root = Path(root)
        self.max_open = max_open
        self._sync = sync
        self._threshold = blob_threshold
        self._on_write = on_write or (lambda key: None)
        self._open: dict[int, _Open] = {}

    # --- the contract ---

    def append(
        self, key: SessionKey, entries: Sequence[AnyEntry], *, fence: int | None = None
    ) -> list[AnyEntry]:
        if not entries:
            return []
        with self._writing(key) as database:
            row = _row(database, key)
            if fence is not None:
                if row is None:
                    raise gone(key, fence)
                refuse_stale(key, fence, row.fence)
            row = row or _new_row(database, key)
            return self._insert(database, key, row, entries)

    def read(
        self,
        key: SessionKey,
        *,
        after: int = 0,
        before: int | None = None,
        reverse: bool = False,
        blobs: bool = True,
        generations: Literal["current", "all"] = "current",
    ) -> Reading:
        with self._reading(key) as database:
            row = _row(database, key) if database is not None else None
        problems: list[Problem] = []
        if row is None:
            return Reading(iter(()), problems)
        after = max(after, row.first - 1 if generations == "current" else 0)
        stop = row.seq + 1 if before is None else min(before, row.seq + 1)
        return Reading(self._read(key, row, after, stop, reverse, blobs, problems), problems)

    def head(self, key: SessionKey) -> Head | None:
        if not self._path(key.tenant).exists():
            return None
        with self._writing(key) as database:
            row = _row(database, key)
            return None if row is None else Head(row.seq, row.fence, row.generation, row.first)

    def replace(self, key: SessionKey, entries: Iterable[AnyEntry], *, fence: int | None = None) -> Head:
        with self._writing(key) as database:
            row = _row(database, key)
            if fence is not None:
                if row is None:
                    raise gone(key, fence)
                refuse_stale(key, fence, row.fence)
            if row is None:
                row = _new_row(database, key)
            else:
                row = row._replace(fence=row.fence + 1, generation=row.generation + 1, first=row.seq + 1)
            self._insert(database, key, row, entries)
            now = _row(database, key)
            assert now is not None
            return Head(now.seq, now.fence, now.generation, now.first)

    def delete(self, key: SessionKey) -> bool:
        if not self._path(key.tenant).exists():
            return False
        with self._writing(key) as database:
            self._on_write(key)
            return database.execute("DELETE FROM sessions WHERE key = ?", (str(key),)).rowcount > 0

    def sessions(self, tenant: str | None = None) -> Iterator[SessionKey]:
        paths = [self._path(tenant)] if tenant is not None else sorted(self.root.glob(f"*/{FILE}"))
        for path in paths:
            if path.exists():
                with self._here().mutex, _typed(path):
                    rows = self._connection(path).execute("SELECT key FROM sessions ORDER BY id").fetchall()
                yield from (parse_key(key) for (key,) in rows)

    # --- capabilities ---

    def blob(self, key: SessionKey, blob: Blob) -> bytes:
        """The payload that `blob` names, checked. Raises `DamagedLog`."""
        path = self._path(key.tenant)
        with self._reading(key) as database:
            found = (
                database.execute(
                    "SELECT payload FROM blobs JOIN sessions ON session = id WHERE key = ? AND sha256 = ?",
                    (str(key), blob.sha256),
                ).fetchone()
                if database is not None
                else None
            )
        if found is None:
            raise DamagedLog("a payload kept beside the log is missing", path=str(path), sha256=blob.sha256)
        return codec.check_blob(blob, found[0], str(path))

    def verify(self, key: SessionKey) -> Verification:
        """Reads every row of the session again, and lets SQLite check its own file."""
        path = self._path(key.tenant)
        problems: list[Problem] = []
        entries = size = 0

        def say(reason: str) -> None:
            problems.append(Problem(reason, path=str(path), key=str(key)))

        try:
            with self._reading(key) as database:
                row = None
                if database is not None:
                    for (text,) in database.execute("PRAGMA quick_check").fetchall():
                        if text != "ok":
                            say(text)
                    row = _row(database, key)
                    size = path.stat().st_size
            if row is None:
                say("there is no log")
            else:
                expected = 1
                for entry in self._read(key, row, 0, row.seq + 1, False, True, problems):
                    entries += 1
                    if entry.seq != expected:
                        say(f"entry {expected} should be here, not entry {entry.seq}")
                    expected = entry.seq + 1
                if expected != row.seq + 1:
                    say(f"the last entry should be {row.seq}, not {expected - 1}")
        except LogError as error:
            say(str(error))
        return Verification(str(key), entries, 1 if entries else 0, size, tuple(problems))

    def weigh(self, key: SessionKey) -> int:
        """The bytes of the session's lines and payloads."""
        with self._reading(key) as database:
            if database is None:
                return 0
            sizes = [
                database.execute(
                    f"SELECT coalesce(sum(length({what})), 0) FROM {table} JOIN sessions ON session = id"
                    " WHERE key = ?",
                    (str(key),),
                ).fetchone()[0]
                for table, what in (("entries", "line"), ("blobs", "payload"))
            ]
        return sum(sizes)

    def scrub(self, tenant: str) -> None:
        """Leaves nothing in the tenant's files of what was deleted. Rewrites the database, which takes as
        much space again. Raises `LogBusy` when another reads it so long that the bytes stay."""
        path = self._path(tenant)
        if not path.exists():
            return
        with self._here().mutex, _typed(path):
            database = self._connection(path)
            database.execute("VACUUM")
            (busy, _, _) = database.execute("PRAGMA wal_checkpoint (TRUNCATE)").fetchone()
        if busy:
            raise LogBusy(
                "what was deleted is still in the file, for another reads it",
                path=str(path),
                hint="try again once it has ended",
            )

    def let_go(self, tenant: str) -> None:
        """Closes the tenant's database, which is opened again when it is used."""
        here = self._here()
        with here.mutex:
            self._close(here, self._path(tenant))

    def close(self) -> None:
        """Closes the databases. The store may be used again."""
        here = self._here()
        with here.mutex:
            for path in list(here.connections):
                self._close(here, path)

    # --- how ---

    def _insert(
        self, database: sqlite3.Connection, key: SessionKey, row: _Row, entries: Iterable[AnyEntry]
    ) -> list[AnyEntry]:
        self._on_write(key)
        stored: list[AnyEntry] = []
        seq, fence, now = row.seq, row.fence, now_ms()
        for entry in entries:
            seq += 1
            if isinstance(entry, TurnStart):
                fence += 1
            whole, body = codec.encode(codec.stamp(entry, seq, now, fence))
            if len(body) > self._threshold:
                short, payloads = codec.externalise(whole, self._threshold)
                if payloads:
                    body = codec.encode(short)[1]
                    database.executemany(
                        "INSERT OR IGNORE INTO blobs VALUES (?, ?, ?)",
                        [(row.id, digest, payload) for digest, payload in payloads.items()],
                    )
            database.execute("INSERT INTO entries VALUES (?, ?, ?)", (row.id, seq, codec.line_of(body)))
            stored.append(whole)
        database.execute(
            "UPDATE sessions SET seq = ?, fence = ?, generation = ?, first = ? WHERE id = ?",
            (seq, fence, row.generation, row.first, row.id),
        )
        return stored

    def _read(
        self,
        key: SessionKey,
        row: _Row,
        after: int,
        stop: int,
        reverse: bool,
        blobs: bool,
        problems: list[Problem],
    ) -> Iterator[AnyEntry]:
        """Pages, so that no read stays open while the caller works."""
        path = str(self._path(key.tenant))
        order = "DESC" if reverse else "ASC"
        while after + 1 < stop:
            with self._reading(key) as database:
                if database is None:
                    return
                page = database.execute(
                    "SELECT seq, CAST(line AS BLOB) FROM entries WHERE session = ? AND seq > ? AND seq < ?"
                    f" ORDER BY seq {order} LIMIT ?",
                    (row.id, after, stop, _PAGE),
                ).fetchall()
            for seq, line in page:
                try:
                    entry = codec.decode(line[:-1])
                    if blobs and codec.blobs_of(entry):
                        entry = codec.resolve(entry, lambda blob: self.blob(key, blob))
                except codec.BadLine as error:
                    problems.append(Problem(str(error), path=path, line=seq, length=len(line), key=str(key)))
                    continue
                except DamagedLog as error:
                    problems.append(Problem(str(error), path=path, line=seq, key=str(key)))
                yield entry
            if len(page) < _PAGE:
                return
            if reverse:
                stop = page[-1][0]
            else:
                after = page[-1][0]

    def _path(self, tenant: str) -> Path:
        return tenant_path(self.root, tenant) / FILE

    @contextmanager
    def _writing(self, key: SessionKey) -> Iterator[sqlite3.Connection]:
        """A transaction that is taken for writing from its start, and ends with the block."""
        path = self._path(key.tenant)
        with self._here().mutex, _typed(path):
            database = self._connection(path)
            database.execute("BEGIN IMMEDIATE")
            done = False
            try:
                yield database
                database.execute("COMMIT")
                done = True
            finally:
                if not done and database.in_transaction:
                    database.execute("ROLLBACK")

    @contextmanager
    def _reading(self, key: SessionKey) -> Iterator[sqlite3.Connection | None]:
        path = self._path(key.tenant)
        with self._here().mutex, _typed(path):
            yield self._connection(path) if path.exists() else None

    def _here(self) -> _Open:
        """What this process has open. What its parent had is left to the parent, and never closed."""
        return self._open.get(os.getpid()) or self._open.setdefault(os.getpid(), _Open())

    def _close(self, here: _Open, path: Path) -> None:
        connection = here.connections.pop(path, None)
        if connection is None:
            return
        if connection.ino == _inode(path):
            connection.database.close()
        else:
            here.left.append(connection)

    def _connection(self, path: Path) -> sqlite3.Connection:
        """The connection to the file that is at the path now: a purge of the tenant deletes it."""
        here = self._here()
        connections = here.connections
        found = connections.get(path)
        if found is not None and found.ino == _inode(path):
            connections.move_to_end(path)
            return found.database
        self._close(here, path)
        osfiles.make_dir(path.parent)
        # Turning to WAL does not wait for others as all else does, so it is done by one at a time.
        with osfiles.locked_dir(path.parent, 10.0):
            if not path.exists():
                # Only a new file: to close one that is in use would end this process's locks on it.
                os.close(osfiles.open_new(path))
            ino = _inode(path)
            database = sqlite3.connect(path, isolation_level=None, timeout=10.0, check_same_thread=False)
            try:
                level = {"always": "FULL", "never": "OFF"}.get(self._sync, "NORMAL")
                _prepare(database, path, level)
            except (sqlite3.Error, LogError, OSError):
                database.close()
                raise
        connections[path] = _Connection(database, ino)
        if len(connections) > self.max_open:
            self._close(here, next(iter(connections)))
        return database


def _inode(path: Path) -> tuple[int, int]:
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return (0, 0)
    return (found.st_dev, found.st_ino)


def _prepare(database: sqlite3.Connection, path: Path, level: str) -> None:
    (application,) = database.execute("PRAGMA application_id").fetchone()
    (version,) = database.execute("PRAGMA user_version").fetchone()
    (tables,) = database.execute("SELECT count(*) FROM sqlite_master").fetchone()
    if application != _APPLICATION and (tables or application):
        raise ForeignFile("this database is not a log; it was left untouched", path=str(path))
    if version > _VERSION:
        raise NewerFormat(
            f"this log is of format {version}; this version knows up to {_VERSION}; it was left untouched",
            path=str(path),
            hint="upgrade stratalog to open it",
        )
    database.execute("PRAGMA journal_mode = WAL")
    database.execute(f"PRAGMA synchronous = {level}")
    database.execute("PRAGMA foreign_keys = ON")
    database.execute("PRAGMA secure_delete = ON")
    if not tables:
        database.execute("BEGIN IMMEDIATE")
        if not database.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
            for statement in _SCHEMA.split(";"):
                database.execute(statement)
            database.execute(f"PRAGMA application_id = {_APPLICATION}")
            database.execute(f"PRAGMA user_version = {_VERSION}")
        database.execute("COMMIT")
        osfiles.sync_dir(path.parent)


def _row(database: sqlite3.Connection, key: SessionKey) -> _Row | None:
    found = database.execute(
        "SELECT id, seq, fence, generation, first FROM sessions WHERE key = ?", (str(key),)
    ).fetchone()
    return _Row(*found) if found else None


def _new_row(database: sqlite3.Connection, key: SessionKey) -> _Row:
    fence = first_fence()
    made = database.execute(
        "INSERT INTO sessions (key, seq, fence, generation, first) VALUES (?, 0, ?, 1, 1)", (str(key), fence)
    )
    return _Row(made.lastrowid or 0, 0, fence, 1, 1)


@contextmanager
def _typed(path: Path) -> Iterator[None]:
    """Turns what SQLite and the system raise into errors that say where and what to do."""
    try:
        yield
    except sqlite3.Error as error:
        raise _translated(error, path) from error
    except OSError as error:
        raise osfiles.failed(error, "opening a database", path) from error


def _translated(error: sqlite3.Error, path: Path) -> LogError:
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code == sqlite3.SQLITE_FULL:
        return StorageFull("no space left; nothing was changed", path=str(path), hint="free some space")
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return LogBusy("another process keeps the database locked", path=str(path), hint="try again")
    if code == sqlite3.SQLITE_NOTADB:
        return ForeignFile("this file is not a database; it was left untouched", path=str(path))
    if code == sqlite3.SQLITE_CORRUPT:
        return DamagedLog(f"the database is damaged: {error}", path=str(path), hint="restore a backup")
    return StorageFailed(f"the database refused: {error}", path=str(path), hint="check the disk")
