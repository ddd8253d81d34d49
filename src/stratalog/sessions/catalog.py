"""The list of a tenant's sessions: one row for each, so that listing reads no log.

A stratum: derived from the logs, brought up to date before it is read, deleted and made anew at will. `stale`
in a row says that the full-text index has not seen the session's last entries yet.
"""

from __future__ import annotations

import base64
import os
import sqlite3
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from stratalog import osfiles
from stratalog.errors import DamagedLog, InvalidInput, NewerFormat, StorageFailed
from stratalog.keys import SessionKey, parse_key
from stratalog.sessions.meta import SessionMeta

FILE = "catalog.sqlite3"
_VERSION = 1
_SCHEMA = """
CREATE TABLE sessions (
    key TEXT PRIMARY KEY, agent TEXT NOT NULL, channel TEXT NOT NULL, pinned INTEGER NOT NULL,
    updated_at INTEGER NOT NULL, stale INTEGER NOT NULL, meta BLOB NOT NULL) WITHOUT ROWID;
CREATE INDEX by_time ON sessions (pinned DESC, updated_at DESC, key);
CREATE TABLE facts (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
"""
_decode = msgspec.json.Decoder(SessionMeta).decode


class Page(msgspec.Struct, frozen=True):
    """Some sessions of a list, and the cursor for those after them (empty: there are none)."""

    sessions: tuple[SessionMeta, ...]
    cursor: str = ""


class Catalog:
    """The catalog in one tenant's directory. Safe for threads and processes."""

    def __init__(self, tenant_dir: Path) -> None:
        self.path = tenant_dir / FILE
        self._mutex = threading.RLock()
        self._database: sqlite3.Connection | None = None
        self._pid = os.getpid()

    def get(self, key: SessionKey) -> SessionMeta | None:
        with self._open() as database:
            row = database.execute("SELECT meta FROM sessions WHERE key = ?", (str(key),)).fetchone()
        return _decode(row[0]) if row else None

    def put(self, metas: Iterable[SessionMeta]) -> None:
        """Enters the sessions as they are now; an older state never replaces a newer one."""
        rows = []
        for meta in metas:
            key = parse_key(meta.key)
            rows.append(
                (
                    meta.key,
                    key.agent,
                    key.channel,
                    meta.pinned,
                    meta.updated_at,
                    msgspec.json.encode(meta),
                    meta.seq,
                )
            )
        with self._open() as database, _transaction(database):
            database.executemany(
                "INSERT INTO sessions (key, agent, channel, pinned, updated_at, stale, meta)"
                " VALUES (?1, ?2, ?3, ?4, ?5, 1, ?6) ON CONFLICT (key) DO UPDATE SET"
                " pinned = ?4, updated_at = ?5, stale = 1, meta = ?6 WHERE json_extract(meta, '$.seq') <= ?7",
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
        limit: int | None = None,
        cursor: str = "",
    ) -> Page:
        """Pinned sessions first, then the newest by their last message. Raises `InvalidInput` for a cursor
        that this did not give, or a limit under 1."""
        if limit is not None and limit < 1:
            raise InvalidInput("a limit must be at least 1", limit=limit)
        where: list[str] = ["1"]
        values: list[str | int] = []
        for name, value in (("agent", agent), ("channel", channel)):
            if value is not None:
                where.append(f"{name} = ?")
                values.append(value)
        if cursor:
            # SQLite compares rows in one direction only, so the descending columns are negated.
            where.append("(-pinned, -updated_at, key) > (?, ?, ?)")
            values += _open_cursor(cursor)
        with self._open() as database:
            rows = database.execute(
                f"SELECT meta FROM sessions WHERE {' AND '.join(where)}"
                " ORDER BY pinned DESC, updated_at DESC, key LIMIT ?",
                (*values, -1 if limit is None else limit + 1),
            ).fetchall()
        found = tuple(_decode(meta) for (meta,) in rows[:limit])
        more = limit is not None and len(rows) > limit
        return Page(found, _cursor(found[-1]) if more else "")

    def stale(self) -> list[SessionKey]:
        """The sessions with entries that the full-text index has not seen."""
        with self._open() as database:
            rows = database.execute("SELECT key FROM sessions WHERE stale ORDER BY key").fetchall()
        return [parse_key(key) for (key,) in rows]

    def indexed(self, key: SessionKey, seq: int) -> None:
        """The index now has the session up to `seq`."""
        with self._open() as database, _transaction(database):
            database.execute(
                "UPDATE sessions SET stale = 0 WHERE key = ? AND json_extract(meta, '$.seq') <= ?",
                (str(key), seq),
            )

    def all_stale(self) -> None:
        """The index is gone: it has to see every session again."""
        with self._open() as database, _transaction(database):
            database.execute("UPDATE sessions SET stale = 1")

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

    def close(self) -> None:
        with self._mutex:
            if self._database is not None:
                self._database.close()
                self._database = None

    def drop(self) -> None:
        """Deletes the catalog; the next use makes it anew, empty."""
        with self._mutex:
            self.close()
            for suffix in ("", "-wal", "-shm"):
                osfiles.remove(self.path.with_name(self.path.name + suffix))

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        with self._mutex:
            try:
                if self._database is None or self._pid != os.getpid():
                    osfiles.make_dir(self.path.parent)
                    self._database, self._pid = _connect(self.path), os.getpid()
                yield self._database
            except sqlite3.DatabaseError as error:
                kind = StorageFailed if isinstance(error, sqlite3.OperationalError) else DamagedLog
                raise kind(
                    f"the list of sessions cannot be used: {error}",
                    path=str(self.path),
                    hint="`stratalog rebuild` makes it anew from the logs",
                ) from error
            except OSError as error:
                raise osfiles.failed(error, "opening the list of sessions", self.path) from error


def _connect(path: Path) -> sqlite3.Connection:
    os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
    # Turning to WAL does not wait for others as all else does, so opening is done by one at a time.
    with osfiles.locked_dir(path.parent, 10.0):
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
            if version < _VERSION:
                with _transaction(database):
                    for statement in _SCHEMA.split(";"):
                        database.execute(statement)
                    database.execute(f"PRAGMA user_version = {_VERSION}")
        except (sqlite3.Error, NewerFormat):
            database.close()
            raise
    return database


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


def _cursor(last: SessionMeta) -> str:
    return base64.urlsafe_b64encode(
        msgspec.json.encode((-int(last.pinned), -last.updated_at, last.key))
    ).decode()


def _open_cursor(cursor: str) -> tuple[int, int, str]:
    try:
        return msgspec.json.decode(base64.urlsafe_b64decode(cursor.encode()), type=tuple[int, int, str])
    except (ValueError, msgspec.MsgspecError) as error:
        raise InvalidInput(
            "this cursor was not given by a list of sessions", hint="begin without a cursor"
        ) from error
