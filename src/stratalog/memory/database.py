"""Opening a small SQLite file that threads, processes and forks share, and that is written with care.

A write is one transaction, taken for writing from its start and on the disk when it ends. Within a process
one connection serves all, one after another; none crosses a fork, and none outlives the file that it was
opened on.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Final, NamedTuple

import msgspec

from stratalog import osfiles
from stratalog.errors import (
    DamagedLog,
    ForeignFile,
    LogBusy,
    LogError,
    NewerFormat,
    StorageFailed,
    StorageFull,
    StoreBusy,
)

NOWHERE: Final = (0, 0)


class Form(NamedTuple):
    """A kind of file: what it is called in errors, the application that it is of, what leads from each
    version to the next, the first from nothing, and the cache of a connection in KiB (0: SQLite's own).
    Statements of migrations end with a semicolon and a line break, which stand nowhere else."""

    what: str
    application: int
    migrations: Sequence[str]
    cache_kib: int = 0


class _Open:
    """What one process has open."""

    def __init__(self) -> None:
        self.mutex = threading.Lock()
        self.database: sqlite3.Connection | None = None
        self.ino = NOWHERE
        self.left: list[sqlite3.Connection] = []  # of a file that is gone: to close one would harm the next


class Database:
    """The file `path`, called `what` in errors, of the application `application`. `migrations` lead from each
    version to the next, the first from nothing; their statements end with a semicolon and a line break, which
    stand nowhere else. Who must wait longer than `wait` seconds for another gets `StoreBusy`.

    The file is made, 0600, when it is first written to; reading makes nothing. Its blocks raise `DamagedLog`
    for a file that cannot be read, `NewerFormat` for one of a later version and `ForeignFile` for another
    program's, both left untouched, and `StorageFull` and `StorageFailed` for what the system refuses.
    """

    def __init__(
        self, path: Path, what: str, application: int, migrations: Sequence[str], *, wait: float = 10.0
    ) -> None:
        self.path = path
        self._form = Form(what, application, migrations)
        self._wait = wait
        self._open: dict[int, _Open] = {}

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """A transaction that ends with the block; nothing of it is written when the block raises."""
        with self._connected(make=True) as database:
            assert database is not None
            begin(database, time.monotonic() + self._wait)
            try:
                yield database
                database.execute("COMMIT")
            finally:
                if database.in_transaction:
                    database.execute("ROLLBACK")

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection | None]:
        """One state of the file; None when there is none."""
        with self._connected() as database:
            if database is None:
                yield None
                return
            database.execute("BEGIN")
            try:
                yield database
            finally:
                if database.in_transaction:
                    database.execute("ROLLBACK")

    def rewrite(self) -> None:
        """Leaves nothing in the files of what was deleted. Raises `StoreBusy` when another reads it so long
        that its bytes stay."""
        with self._connected() as database:
            if database is None:
                return
            database.execute("VACUUM")
            (busy, _, _) = database.execute("PRAGMA wal_checkpoint (TRUNCATE)").fetchone()
        if busy:
            raise StoreBusy(
                "what was purged is deleted, but its bytes are still in the file, for another reads it",
                path=str(self.path),
                hint="purge again once it has ended",
            )

    def close(self) -> None:
        """Closes what is open. It may be used again."""
        here = self._here()
        with here.mutex:
            self._look_again(here)
            if here.database is not None:
                here.database.close()
                here.database = None

    def _here(self) -> _Open:
        """What this process has open. What its parent had is left to the parent, and never closed."""
        pid = os.getpid()
        return self._open.get(pid) or self._open.setdefault(pid, _Open())

    @contextmanager
    def _connected(self, *, make: bool = False) -> Iterator[sqlite3.Connection | None]:
        here = self._here()
        if not here.mutex.acquire(timeout=self._wait):
            raise busy(self.path, self._form.what)
        try:
            with Typed(self.path, self._form.what):
                self._look_again(here)
                if here.database is None and (make or self.path.exists()):
                    here.database, here.ino = connect(self.path, self._form, self._wait, make)
                yield here.database
        finally:
            here.mutex.release()

    def _look_again(self, here: _Open) -> None:
        """Lets go of a connection to a file that is not the one at the path any more."""
        if here.database is not None and here.ino != inode(self.path):
            here.left.append(here.database)
            here.database = None


# --- for who keeps connections of its own ---


def connect(
    path: Path, form: Form, wait: float, make: bool
) -> tuple[sqlite3.Connection | None, tuple[int, int]]:
    """A connection to the file, brought to the present version, and which file it is to; None when there is
    none of the form yet and it is not to be made."""
    if make:
        osfiles.make_dir(path.parent)
    # Turning to WAL does not wait for others as all else does, so opening is done by one at a time.
    with osfiles.locked_dir(path.parent, wait):
        if make and not path.exists():
            # Only a new file: to close one that is in use would end this process's locks on it.
            os.close(osfiles.open_new(path))
            osfiles.sync_dir(path.parent)
        ino = inode(path)
        database = sqlite3.connect(
            f"{path.absolute().as_uri()}?mode=rw",  # it makes no file of its own
            uri=True,
            isolation_level=None,
            timeout=wait,
            check_same_thread=False,
        )
        ready = False
        try:
            ready = _prepare(database, path, form, make)
        finally:
            if not ready:
                database.close()
    return (database if ready else None), ino


def _prepare(database: sqlite3.Connection, path: Path, form: Form, make: bool) -> bool:
    """Whether it is a file of the form now; an empty one is not, unless it is to be made."""
    (application,) = database.execute("PRAGMA application_id").fetchone()
    (version,) = database.execute("PRAGMA user_version").fetchone()
    (tables,) = database.execute("SELECT count(*) FROM sqlite_master").fetchone()
    if application != form.application and (tables or application or version):
        raise ForeignFile(f"this database is not {form.what}; it was left untouched", path=str(path))
    known = len(form.migrations)
    if version > known:
        raise NewerFormat(
            f"{form.what} is of format {version} here; this version knows up to {known};"
            " it was left untouched",
            path=str(path),
            hint="upgrade stratalog to open it",
        )
    if not version and not make:
        return False
    database.execute("PRAGMA journal_mode = WAL")
    database.execute("PRAGMA synchronous = FULL")
    database.execute("PRAGMA fullfsync = ON")  # where a sync may stop at the disk's cache: macOS
    database.execute("PRAGMA secure_delete = ON")
    if form.cache_kib:
        database.execute(f"PRAGMA cache_size = -{form.cache_kib}")  # KiB, for a negative number
    if version < known:
        _migrate(database, form)
    return True


def _migrate(database: sqlite3.Connection, form: Form) -> None:
    """From the version that is there to the present one, all or nothing."""
    database.execute("BEGIN IMMEDIATE")
    try:
        (version,) = database.execute("PRAGMA user_version").fetchone()
        for script in form.migrations[version:]:
            for statement in script.split(";\n"):
                database.execute(statement)
        database.execute(f"PRAGMA application_id = {form.application}")
        database.execute(f"PRAGMA user_version = {len(form.migrations)}")
        database.execute("COMMIT")
    finally:
        if database.in_transaction:
            database.execute("ROLLBACK")


def begin(database: sqlite3.Connection, until: float) -> None:
    """Begins to write. SQLite waits by itself, but not in every case in which it says that it is busy."""
    while True:
        try:
            database.execute("BEGIN IMMEDIATE")
            return
        except sqlite3.OperationalError as error:
            if _code(error) != sqlite3.SQLITE_BUSY or time.monotonic() >= until:
                raise
            time.sleep(0.005)


def inode(path: Path) -> tuple[int, int]:
    """Which file is at the path; `NOWHERE` for none."""
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return NOWHERE
    return (found.st_dev, found.st_ino)


# --- errors ---


class Typed:
    """Turns what SQLite, the system and the codec raise in its block into errors that say where and what to
    do. A class, for entering a generator takes three times as long, and a write has many."""

    __slots__ = ("_path", "_what")

    def __init__(self, path: Path, what: str) -> None:
        self._path = path
        self._what = what

    def __enter__(self) -> None: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        typed = translated(error, self._path, self._what) if error is not None else None
        if typed is not None:
            raise typed from error


def busy(path: Path, what: str) -> StoreBusy:
    return StoreBusy(
        f"another writes to {what} for too long; nothing was written",
        path=str(path),
        hint="try again; if it persists, look for a stopped or hung process",
    )


def translated(error: BaseException, path: Path, what: str) -> LogError | None:
    """What the error means for the file called `what`; None for one that is none of SQLite, the system and
    the codec."""
    match error:
        case sqlite3.Error():
            return _refused(error, path, what)
        case msgspec.MsgspecError():
            return DamagedLog(
                f"a row of {what} is damaged", path=str(path), reason=error, hint="restore a backup"
            )
        case LogBusy():
            return busy(path, what)
        case OSError():
            return osfiles.failed(error, f"opening {what}", path)
        case _:
            return None


def _refused(error: sqlite3.Error, path: Path, what: str) -> LogError:
    code = _code(error)
    if code == sqlite3.SQLITE_FULL:
        return StorageFull("no space left; nothing was changed", path=str(path), hint="free some space")
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return busy(path, what)
    if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
        return DamagedLog(f"{what} is damaged: {error}", path=str(path), hint="restore a backup")
    return StorageFailed(
        f"{what} cannot be used: {error}", path=str(path), hint="check the disk and the permissions"
    )


def _code(error: sqlite3.Error) -> int:
    """SQLite's primary result code; 0 for an error of the Python module itself."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF
