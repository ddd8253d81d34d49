"""The lexical index: one SQLite file for a tenant, a stratum over its logs that can be deleted at any time.

A search has two steps, both of bounded cost: the full-text table names some 40 documents by the rarest of the
question's words, within its filters, and with `meaning` some more are named by that; these and their
neighbours are then ranked (see `lexical_search` and `ranking`). The tables are in `lexical_tables`.

Text becomes documents before a transaction, and a transaction only writes. Every write is one BEGIN
IMMEDIATE, together with the session's watermark (the last `seq` indexed): any number of threads and processes
may add the same entries, and each is indexed once. `synchronous` is NORMAL: a power cut may take the last
transactions, but takes their watermarks with them, so the next `add` repairs it. SQLite's errors come out as
errors of the tree, with the path. A connection must not be used on both sides of a fork.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from stratalog.errors import (
    Conflict,
    DamagedLog,
    ForeignFile,
    InvalidInput,
    LogBusy,
    LogError,
    NewerFormat,
    StorageFailed,
    StorageFull,
)
from stratalog.keys import SessionKey
from stratalog.recall import lexical_tables as tables
from stratalog.recall.contract import Hit, Meaning
from stratalog.recall.documents import document_id, documents
from stratalog.recall.lexical_search import Filters, Search
from stratalog.recall.ranking import MOST_READ, Recent, ends
from stratalog.recall.terms import VERSION, query_terms
from stratalog.types import AnyEntry

_TABLES: Final = 2  # the version of the tables
SCHEMA: Final = 100 * _TABLES + VERSION  # and of the terms in them
_APPLICATION: Final = 0x53746C78  # "Stlx"
_BUSY_S: Final = 5.0
_KEY: Final = "(tenant, agent, channel, chat) = (?, ?, ?, ?)"
_REBUILD: Final = "`stratalog rebuild` makes it anew from the logs"
READ_ONLY: Final = "searching brings the index up to date: copy the data to where it can be written"


class LexicalIndex:
    """Full-text search over the sessions of one tenant. Safe for threads; a context manager.

    Opening makes the file (0600) and its directory where they are missing, and empties an index of an older
    form: `sessions()` then has no watermarks, and everything is to be added again. Every method, and
    opening, raises `DamagedLog` when the file is not readable as a database, `LogBusy` when others kept it
    locked for five seconds, `StorageFull` and `StorageFailed` for what the system refuses. Opening raises
    `NewerFormat` for an index of a later version and `ForeignFile` for another program's database.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        with _typed(path):
            _create(path)
            self._db = sqlite3.connect(path, timeout=_BUSY_S, isolation_level=None, check_same_thread=False)
        try:
            with _typed(path):
                self._prepare()
        except LogError:
            self._db.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the file. Closing twice is allowed; any other use after it raises `StorageFailed`."""
        with self._lock, _typed(self._path):
            self._db.close()

    def add(self, session: SessionKey, entries: Iterable[AnyEntry], *, upto_seq: int, generation: int) -> int:
        """Index the entries after the session's watermark, up to `upto_seq`, and move the watermark there.

        `entries` must hold all that come after the watermark; those at or below it and those above
        `upto_seq` are ignored, so that repeating a call changes nothing. Payloads kept out of line must be in
        the entries. Returns how many entries were indexed; those without words are not counted. One
        transaction: all or nothing. Raises `InvalidInput` for a session of another tenant, and `Conflict`
        when the session is removed while its entries are read.
        """
        before = self.watermark(session)[1]
        found = documents(entry for entry in entries if before < entry.seq <= upto_seq)
        with self._transaction("IMMEDIATE") as db:
            sid, seen = tables.enter_session(db, session)
            if seen < before:
                raise Conflict(
                    "the session was removed from the index meanwhile",
                    key=session,
                    hint="add all of it again",
                )
            # Or another process may have come first.
            new = [document for document in found if document.seq > seen]
            tables.append(db, sid, session, new)
            db.execute(
                "UPDATE sessions SET seq = ?, generation = ? WHERE id = ? AND seq <= ?",
                (upto_seq, generation, sid, upto_seq),
            )
        return len({document.seq for document in new})

    def watermark(self, session: SessionKey) -> tuple[int, int]:
        """The generation and the seq up to which `session` is indexed; (0, 0) when it is not."""
        with self._transaction() as db:
            row = db.execute(f"SELECT generation, seq FROM sessions WHERE {_KEY}", session).fetchone()
        return (row[0], row[1]) if row else (0, 0)

    def sessions(self) -> dict[SessionKey, int]:
        """Every session that has been added, with the seq up to which it is indexed."""
        with self._transaction() as db:
            found = db.execute("SELECT tenant, agent, channel, chat, seq FROM sessions").fetchall()
        return {SessionKey(*row[:4]): row[4] for row in found}

    def remove(self, session: SessionKey) -> None:
        """Forget `session` and its watermark; nothing happens when it is not there.

        It is found no more at once; `scrub` makes its words leave the disk too.
        """
        with self._transaction("IMMEDIATE") as db:
            sid = tables.session_id(db, session)
            if sid is None:
                return
            tables.take_out(db, sid, session)

    def rows_of(self, session: SessionKey) -> int:
        """How many documents of `session` there are."""
        with self._transaction() as db:
            row = db.execute(f"SELECT docs FROM sessions WHERE {_KEY}", session).fetchone()
        return int(row[0]) if row else 0

    def marks(self) -> dict[str, str]:
        """Every session that has been added, in writing, with a mark that is another whenever its documents
        are."""
        with self._transaction() as db:
            found = db.execute("SELECT tenant, agent, channel, chat, made, docs FROM sessions").fetchall()
        return {str(SessionKey(*key)): f"{made}-{docs}" for *key, made, docs in found}

    def document_keys(self, session: SessionKey) -> list[tuple[str, int, int, int]]:
        """The documents of `session`: the id of each (see `document_id`), the start and stop of its passage
        in `words_of(entry)` and the entry's seq; in the order of the log, none when it is not there."""
        with self._transaction() as db:
            sid = tables.session_id(db, session)
            found = db.execute(
                "SELECT entry_id, start, stop, seq FROM docs WHERE session = ? ORDER BY seq, start", (sid,)
            ).fetchall()
        return [(document_id(entry_id, start), start, stop, seq) for entry_id, start, stop, seq in found]

    def scrub(self) -> None:
        """Leave nothing in the file of what was removed. Rewrites it: seconds for a large index.

        Raises `LogBusy` also when another reads it so long that the bytes stay.
        """
        with self._transaction("IMMEDIATE") as db:
            db.execute("INSERT INTO lex (lex) VALUES ('optimize')")
        with self._lock, _typed(self._path):
            self._db.execute("VACUUM")
            (busy, _, _) = self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        if busy:
            raise LogBusy(
                "what was removed is still in the file, for another reads it", path=self._path,
                hint="try again once it has ended",
            )  # fmt: skip

    def search(
        self,
        query: str,
        *,
        limit: int = 10,
        agent: str | None = None,
        channel: str | None = None,
        session: SessionKey | None = None,
        roles: Collection[str] | None = None,
        after_ts: int | None = None,
        before_ts: int | None = None,
        times: Sequence[tuple[int, int]] = (),
        per_session: int | None = None,
        sessions: Collection[SessionKey] | None = None,
        meaning: Meaning | None = None,
        recent: Recent | None = None,
    ) -> list[Hit]:
        """The `limit` best entries that have any of the query's terms or stand near one that has, best first;
        an entry comes once. With `meaning`, also those that are near in it.

        `query` is plain words: no character in it is an operator, and one without terms finds nothing. Of a
        long one 64 distinct terms count, those at its ends and the rarest. Filters narrow what is searched,
        each exactly: `agent`, `channel` and `session` by identity, `roles` by entry type tag (an empty
        collection allows none), time by `after_ts` <= ts < `before_ts` in milliseconds; `sessions` are those
        of which a hit must be one. `times` are spans [start, stop) that the query speaks of, in milliseconds:
        what is of them is preferred, as is what is `recent`.

        `per_session` is how many entries of one session come at most; without it three quarters of the hits,
        or more where the others have no more. An entry that several sessions have, as forks do, comes once.
        `limit` is as large as you like, and what lies behind the best of it costs; raises `InvalidInput` when
        it is negative.
        """
        if limit < 0:
            raise InvalidInput("limit cannot be negative", limit=limit)
        words = ends(query_terms(query), MOST_READ)
        if not words or not limit:
            return []
        wanted = None if roles is None else frozenset(roles)
        among = None if sessions is None else frozenset(sessions)
        filters = Filters(agent, channel, session, wanted, after_ts, before_ts, among)
        with self._transaction() as db:
            return Search(db, words, tuple(times), filters, recent).hits(limit, per_session, meaning)

    def _prepare(self) -> None:
        db = self._db
        db.execute("BEGIN")  # one state of it: another may be making it just now
        version = _own_version(db, self._path)
        db.execute("COMMIT")
        if version > SCHEMA:
            raise NewerFormat(
                "this index was written by a later version", path=self._path, version=version,
                hint=f"use that version, or {_REBUILD}",
            )  # fmt: skip
        _use_wal(db)
        db.execute("PRAGMA synchronous = NORMAL")
        if version == SCHEMA:
            return
        with db:
            db.execute("BEGIN IMMEDIATE")
            if _own_version(db, self._path) != SCHEMA:  # nobody else has made it meanwhile
                _drop_everything(db)
                for statement in tables.TABLES.split(";"):
                    db.execute(statement)
                db.execute(f"PRAGMA application_id = {_APPLICATION}")
                db.execute(f"PRAGMA user_version = {SCHEMA}")

    @contextmanager
    def _transaction(self, kind: str = "DEFERRED") -> Iterator[sqlite3.Connection]:
        # The connection as a context commits, or rolls back on any error.
        with self._lock, _typed(self._path), self._db as db:
            db.execute(f"BEGIN {kind}")
            yield db


def _create(path: Path) -> None:
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # Only a file that is not there is opened here: closing one would drop the locks that another
        # connection of this process holds on it.
        with suppress(FileExistsError):
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    except OSError as error:
        raise StorageFailed("the search index cannot be made", path=path, reason=error.strerror) from error


def _own_version(db: sqlite3.Connection, path: Path) -> int:
    """The index's version, 0 for an empty file. Raises `ForeignFile`."""
    version: int = db.execute("PRAGMA user_version").fetchone()[0]
    if db.execute("PRAGMA application_id").fetchone()[0] == _APPLICATION:
        return version
    if version or db.execute("SELECT 1 FROM sqlite_master").fetchone():
        raise ForeignFile("this database is not a search index", path=path, hint="move it elsewhere")
    return 0


def _use_wal(db: sqlite3.Connection) -> None:
    """Switch to WAL. SQLite does not wait for others here, whatever its timeout, so we do."""
    until = time.monotonic() + _BUSY_S
    while True:
        try:
            db.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if _code(error) != sqlite3.SQLITE_BUSY or time.monotonic() > until:
                raise
            time.sleep(0.01)


def _drop_everything(db: sqlite3.Connection) -> None:
    # The virtual table first: its shadow tables go with it.
    found = "SELECT name FROM sqlite_master WHERE type = 'table' AND sql LIKE ? AND name NOT LIKE 'sqlite%'"
    for kind in ("CREATE VIRTUAL%", "%"):
        for (name,) in db.execute(found, (kind,)).fetchall():
            db.execute(f'DROP TABLE "{name}"')


def _code(error: sqlite3.Error) -> int:
    """SQLite's primary result code; 0 for an error of the Python module itself."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF


@contextmanager
def _typed(path: Path) -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        code = _code(error)
        if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
            raise DamagedLog("the search index is damaged", path=path, reason=error, hint=_REBUILD) from error
        if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            raise LogBusy("the search index is locked", path=path, hint="try again") from error
        if code == sqlite3.SQLITE_READONLY:
            raise StorageFailed("the search index cannot be written", path=path, hint=READ_ONLY) from error
        if code == sqlite3.SQLITE_FULL:
            raise StorageFull("no space for the search index", path=path, hint="make space") from error
        raise StorageFailed(
            "the search index cannot be used", path=path, reason=error, hint=f"if it persists, {_REBUILD}"
        ) from error
