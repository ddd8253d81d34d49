"""The list of a tenant's sessions: one row for each, so that listing reads no log.

A stratum: derived from the logs, brought up to date before it is read, deleted and made anew at will, also
under the hands of one who has it open. `stale` in a row is 0 once the full-text index has all of the session;
else it is a number that each change of the row draws anew, so that who indexed what was there before cannot
call the change indexed. `whose` is the user of a session as bytes, as `whose` tells it, and `words` its title
as it is searched. A list of an older form is emptied when it is opened, and so made anew.
"""

from __future__ import annotations

import base64
import os
import sqlite3
import threading
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import msgspec

from stratalog import osfiles
from stratalog.errors import DamagedLog, InvalidInput, LogBusy, NewerFormat, StorageFailed
from stratalog.keys import SessionKey, parse_key
from stratalog.sessions.meta import SessionMeta, short_meta

FILE = "catalog.sqlite3"
_VERSION = 4  # raised with that of the meta, for a row does not say its own
_SCHEMA = """
DROP TABLE IF EXISTS sessions;
DROP TABLE IF EXISTS facts;
CREATE TABLE sessions (
    key TEXT NOT NULL, agent TEXT NOT NULL, channel TEXT NOT NULL, pinned INTEGER NOT NULL,
    updated_at INTEGER NOT NULL, seq INTEGER NOT NULL, stale INTEGER NOT NULL, meta BLOB NOT NULL,
    whose BLOB, words TEXT NOT NULL,
    PRIMARY KEY (pinned DESC, updated_at DESC, key)) WITHOUT ROWID;
CREATE UNIQUE INDEX by_key ON sessions (key);
CREATE INDEX by_whose ON sessions (whose, pinned DESC, updated_at DESC, key);
CREATE TABLE facts (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
"""
_NEW = "(random() | 1)"  # never 0
_MOST = 2**62
_Int = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
_decode = msgspec.json.Decoder(SessionMeta).decode


class Page(msgspec.Struct, frozen=True):
    """Some sessions of a list, and the cursor for those after them (empty: there are none)."""

    sessions: tuple[SessionMeta, ...]
    cursor: str = ""


def whose(metadata: Mapping[str, Any]) -> str | None:
    """The user whose alone a session is of which this is said; "" where it is nobody's, and None where it is
    of several, or nothing can be read: nobody must see by a slip of the pen what is somebody's."""
    told = metadata.get("users")
    if not told:
        return ""
    only = told[0] if isinstance(told, list | tuple) and len(told) == 1 else told
    return only if isinstance(only, str) and only else None


class Catalog:
    """The catalog in one tenant's directory. Safe for threads and processes."""

    def __init__(self, tenant_dir: Path) -> None:
        self.path = tenant_dir / FILE
        self._mutex = threading.RLock()
        self._database: sqlite3.Connection | None = None
        self._ino = (0, 0)
        self._pid = os.getpid()
        self._left: list[sqlite3.Connection] = []

    def get(self, key: SessionKey) -> SessionMeta | None:
        with self._open() as database:
            row = database.execute("SELECT meta FROM sessions WHERE key = ?", (str(key),)).fetchone()
            return _decode(row[0]) if row else None

    def put(self, metas: Iterable[SessionMeta]) -> None:
        """Enters the sessions as they are now; an older state never replaces a newer one."""
        rows = []
        for meta in metas:
            key, user = parse_key(meta.key), whose(meta.metadata)
            rows.append(
                (
                    meta.key,
                    key.agent,
                    key.channel,
                    meta.pinned,
                    meta.updated_at,
                    meta.seq,
                    short_meta(meta),
                    _bytes(user) if user is not None else None,
                    _folded(meta.title),
                )
            )
        with self._open() as database, _transaction(database):
            database.executemany(
                "INSERT INTO sessions"
                " (key, agent, channel, pinned, updated_at, seq, stale, meta, whose, words)"
                f" VALUES (?1, ?2, ?3, ?4, ?5, ?6, {_NEW}, ?7, ?8, ?9) ON CONFLICT (key) DO UPDATE SET"
                f" pinned = ?4, updated_at = ?5, seq = ?6, stale = {_NEW}, meta = ?7, whose = ?8, words = ?9"
                " WHERE seq <= ?6",
                rows,
            )

    def remove(self, keys: Iterable[SessionKey]) -> None:
        with self._open() as database, _transaction(database):
            database.executemany("DELETE FROM sessions WHERE key = ?", [(str(key),) for key in keys])

    def page(
        self,
        *,
        agent: str | None = None,
        channel: str | None = None,
        user: str | None = None,
        title: str = "",
        limit: int | None = None,
        cursor: str = "",
    ) -> Page:
        """Pinned sessions first, then the newest by their last message: of this agent and channel, of this
        user alone ("": nobody's), with these words in the title, in any case. Raises `InvalidInput` for a
        cursor that this did not give, or a limit under 1."""
        if limit is not None and limit < 1:
            raise InvalidInput("a limit must be at least 1", limit=limit)
        where: list[str] = ["1"]
        values: list[str | int | bytes] = []
        for name, value in (("agent", agent), ("channel", channel)):
            if value is not None:
                # As bytes: a lone surrogate cannot be bound as text, and equals no stored id.
                where.append(f"CAST({name} AS BLOB) = ?")
                values.append(_bytes(value))
        if user is not None:
            where.append("whose = ?")
            values.append(_bytes(user))
        if title.strip():
            where.append("instr(words, ?)")
            values.append(_folded(title.strip()))
        if cursor:
            # SQLite compares rows in one direction only, so the descending columns are negated.
            where.append("(-pinned, -updated_at, key) > (?, ?, ?)")
            values += _open_cursor(cursor)
        with self._open() as database:
            rows = database.execute(
                f"SELECT meta FROM sessions WHERE {' AND '.join(where)}"
                " ORDER BY pinned DESC, updated_at DESC, key LIMIT ?",
                (*values, -1 if limit is None else min(limit, _MOST) + 1),
            ).fetchall()
            found = tuple([_decode(meta) for (meta,) in rows[:limit]])
        more = limit is not None and len(rows) > limit
        return Page(found, _cursor(found[-1]) if more else "")

    def counted(self, user: str | None = None) -> dict[tuple[str, str], int]:
        """How many sessions each agent has in each channel, in order; of this user alone, or of all."""
        whom, values = ("whose = ?", (_bytes(user),)) if user is not None else ("1", ())
        with self._open() as database:
            rows = database.execute(
                f"SELECT agent, channel, count(*) FROM sessions WHERE {whom} GROUP BY 1, 2 ORDER BY 1, 2",
                values,
            ).fetchall()
        return {(agent, channel): number for agent, channel, number in rows}

    def stale(self) -> list[tuple[SessionKey, int]]:
        """The sessions with entries that the full-text index may not have seen, and the mark of each."""
        with self._open() as database:
            rows = database.execute("SELECT key, stale FROM sessions WHERE stale ORDER BY key").fetchall()
        return [(parse_key(key), mark) for key, mark in rows]

    def indexed(self, key: SessionKey, mark: int) -> None:
        """The index now has all that the session had when `stale` gave this mark for it."""
        with self._open() as database, _transaction(database):
            database.execute("UPDATE sessions SET stale = 0 WHERE key = ? AND stale = ?", (str(key), mark))

    def only_indexed(self, watermarks: Mapping[SessionKey, int]) -> None:
        """The index has the sessions up to these numbers and nothing else."""
        known = {str(key): seq for key, seq in watermarks.items()}
        with self._open() as database, _transaction(database):
            rows = database.execute("SELECT key, seq FROM sessions WHERE NOT stale").fetchall()
            database.executemany(
                f"UPDATE sessions SET stale = {_NEW} WHERE key = ?",
                [(key,) for key, seq in rows if known.get(key, 0) < seq],
            )

    def keys(self) -> set[SessionKey]:
        with self._open() as database:
            return {parse_key(key) for (key,) in database.execute("SELECT key FROM sessions")}

    def fact(self, name: str) -> str:
        """A note that the catalog keeps for its owner; empty when there is none."""
        with self._open() as database:
            row = database.execute("SELECT value FROM facts WHERE name = ?", (name,)).fetchone()
        return row[0] if row else ""

    def note(self, name: str, value: str) -> None:
        with self._open() as database, _transaction(database):
            database.execute("INSERT OR REPLACE INTO facts VALUES (?, ?)", (name, value))

    def scrub(self) -> None:
        """Leaves nothing in the file of what was removed. Raises `LogBusy` when another reads it so long that
        the bytes stay."""
        with self._open() as database:
            database.execute("VACUUM")
            (busy, _, _) = database.execute("PRAGMA wal_checkpoint (TRUNCATE)").fetchone()
        if busy:
            raise LogBusy(
                "what was removed is still in the file, for another reads it",
                path=str(self.path),
                hint="try again once it has ended",
            )

    def close(self) -> None:
        with self._mutex:
            if self._database is not None:
                self._database.close()
                self._database = None

    def clear(self) -> None:
        """Empties the catalog; a damaged one is deleted. Raises `StorageFailed`, `LogBusy`, `NewerFormat`."""
        try:
            with self._open() as database, _transaction(database):
                database.execute("DELETE FROM sessions")
                database.execute("DELETE FROM facts")
        except DamagedLog:
            with self._mutex:
                self.close()
                remove_database(self.path)

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        with self._mutex:
            try:
                yield self._connected()
            except (sqlite3.DatabaseError, msgspec.MsgspecError) as error:
                if getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_READONLY:
                    raise StorageFailed(
                        "the list of sessions cannot be written",
                        path=str(self.path),
                        hint="reading brings it up to date: copy the data to where it can be written",
                    ) from error
                kind = StorageFailed if isinstance(error, sqlite3.OperationalError) else DamagedLog
                raise kind(
                    f"the list of sessions cannot be used: {error}",
                    path=str(self.path),
                    hint="`stratalog rebuild` makes it anew from the logs",
                ) from error
            except OSError as error:
                raise osfiles.failed(error, "opening the list of sessions", self.path) from error

    def _connected(self) -> sqlite3.Connection:
        """The connection to the file that is at the path now, in this process."""
        if self._pid != os.getpid():
            # A connection must not be used on both sides of a fork, nor closed on the wrong one.
            self._leave()
            self._pid = os.getpid()
        if self._database is not None and _inode(self.path) != self._ino:
            # Somebody deleted it. Closing it would delete what belongs to the file that is there now.
            self._leave()
        if self._database is None:
            osfiles.make_dir(self.path.parent)
            self._database, self._ino = _connect(self.path)
        return self._database

    def _leave(self) -> None:
        """Lets go of the connection without closing it."""
        if self._database is not None:
            self._left.append(self._database)
            self._database = None


def _connect(path: Path) -> tuple[sqlite3.Connection, tuple[int, int]]:
    # Turning to WAL does not wait for others as all else does, so opening is done by one at a time.
    with osfiles.locked_dir(path.parent, 10.0):
        if not path.exists():
            # Only a new file: to close one that is in use would end this process's locks on it.
            os.close(osfiles.open_new(path))
        inode = _inode(path)
        database = sqlite3.connect(path, isolation_level=None, timeout=10.0, check_same_thread=False)
        try:
            (version,) = database.execute("PRAGMA user_version").fetchone()
            if version > _VERSION:
                raise NewerFormat(
                    f"the list of sessions is of format {version}; this version knows up to {_VERSION}",
                    path=str(path),
                    hint="upgrade stratalog, or delete the file and run `stratalog rebuild`",
                )
            database.execute("PRAGMA journal_mode = WAL")
            database.execute("PRAGMA synchronous = NORMAL")
            # Some twenty thousand sessions stay in memory between two lists; KiB, for a negative number.
            database.execute("PRAGMA cache_size = -16000")
            if version < _VERSION:
                with _transaction(database):
                    for statement in _SCHEMA.split(";"):
                        database.execute(statement)
                    database.execute(f"PRAGMA user_version = {_VERSION}")
        except (sqlite3.Error, NewerFormat):
            database.close()
            raise
    return database, inode


def remove_database(path: Path) -> None:
    """Deletes a damaged SQLite file with what belongs to it, while nobody opens it.

    Not for a sound one, which others may have open: when they close it they would delete by its name what
    belongs to its successor. Raises `StorageFailed`, `LogBusy`.
    """
    try:
        if path.parent.is_dir():
            with osfiles.locked_dir(path.parent, 10.0):
                for suffix in ("", "-wal", "-shm"):
                    osfiles.remove(path.with_name(path.name + suffix))
    except OSError as error:
        raise osfiles.failed(error, "deleting what is derived", path) from error


def _inode(path: Path) -> tuple[int, int]:
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return (0, 0)
    return (found.st_dev, found.st_ino)


@contextmanager
def _transaction(database: sqlite3.Connection) -> Iterator[None]:
    database.execute("BEGIN IMMEDIATE")
    done = False
    try:
        yield
        database.execute("COMMIT")
        done = True
    finally:
        if not done and database.in_transaction:
            database.execute("ROLLBACK")


def _bytes(text: str) -> bytes:
    """The text as it is compared; a lone surrogate has no other way in."""
    return text.encode("utf-8", "surrogatepass")


def _folded(text: str) -> str:
    """A title, or words of one, as they are compared."""
    folded = unicodedata.normalize("NFKC", text).casefold()
    return folded.encode("utf-8", "replace").decode()


def _cursor(last: SessionMeta) -> str:
    return base64.urlsafe_b64encode(
        msgspec.json.encode((-int(last.pinned), -last.updated_at, last.key))
    ).decode()


def _open_cursor(cursor: str) -> tuple[int, int, str]:
    try:
        return msgspec.json.decode(base64.urlsafe_b64decode(cursor.encode()), type=tuple[_Int, _Int, str])
    except (ValueError, msgspec.MsgspecError) as error:
        raise InvalidInput(
            "this cursor was not given by a list of sessions", hint="begin without a cursor"
        ) from error
