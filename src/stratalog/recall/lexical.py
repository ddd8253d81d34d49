"""The lexical index: one SQLite file for a tenant, a stratum over its logs that can be deleted at any time.

`docs` holds the documents (see `documents`) with their terms; `lex` is an FTS5 table without content, with
a column for a document's own terms, its neighbours' and its day's, weighted in BM25. A fourth column names
session, agent and channel; a filter on them becomes one more term of the query, so that a search within one
session costs what the session costs and not what the tenant does. The same filters are SQL conditions too:
the term is the shortcut, the condition is the rule. Terms come from Python, and the tokenizer is set to leave
them alone. A row of a contentless table is removed by giving its terms again, so rows are computed by one
pure function, from what is stored, for insertion, removal and search alike.

Text becomes documents before a transaction, and a transaction only writes. Every write is one BEGIN
IMMEDIATE, together with the session's watermark (the last `seq` indexed): any number of threads and processes
may add the same entries, and each is indexed once. `synchronous` is NORMAL: a power cut may take the last
transactions, but takes their watermarks with them, so the next `add` repairs it. SQLite's errors come out as
errors of the tree, with the path. A connection must not be used on both sides of a fork.
"""

from __future__ import annotations

import hashlib
import os
import sqlite3
import threading
import time
from collections.abc import Collection, Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Final, NamedTuple, Self

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
from stratalog.recall.contract import Hit
from stratalog.recall.documents import Document, Row, documents, rows
from stratalog.recall.terms import is_spaceless, query_terms
from stratalog.types import AnyEntry

SCHEMA: Final = 1
MAX_QUERY_TERMS: Final = 64
_APPLICATION: Final = 0x53746C78  # "Stlx"
_BUSY_S: Final = 5.0
_REBUILD: Final = "`stratalog rebuild` makes it anew from the logs"
READ_ONLY: Final = "searching brings the index up to date: copy the data to where it can be written"
_TABLES: Final = """
CREATE TABLE sessions (
    id INTEGER PRIMARY KEY,
    tenant TEXT NOT NULL, agent TEXT NOT NULL, channel TEXT NOT NULL, chat TEXT NOT NULL,
    generation INTEGER NOT NULL, seq INTEGER NOT NULL,
    UNIQUE (tenant, agent, channel, chat)
);
CREATE TABLE docs (
    id INTEGER PRIMARY KEY,
    session INTEGER NOT NULL,
    seq INTEGER NOT NULL, ts INTEGER NOT NULL, role TEXT NOT NULL, injected INTEGER NOT NULL,
    entry_id TEXT NOT NULL, turn TEXT NOT NULL,
    start INTEGER NOT NULL, stop INTEGER NOT NULL, preview TEXT NOT NULL, terms TEXT NOT NULL
);
CREATE INDEX docs_of_session ON docs (session);
CREATE VIRTUAL TABLE lex USING fts5 (
    body, window, date, scope, content='', tokenize="ascii tokenchars '._-/\\:@#&+'"
);
"""
_KEY: Final = "(tenant, agent, channel, chat) = (?, ?, ?, ?)"
_DOC: Final = "id, seq, ts, role, injected, entry_id, turn, start, stop, preview, terms"
_INSERT: Final = "INSERT INTO lex (rowid, body, window, date, scope) VALUES (?, ?, ?, ?, ?)"
_REMOVE: Final = "INSERT INTO lex (lex, rowid, body, window, date, scope) VALUES ('delete', ?, ?, ?, ?, ?)"
_SEARCH: Final = """
SELECT docs.id, docs.session, lex.rank, bm25(lex, {body}, 0, 0, 0), bm25(lex, 0, {window}, 0, 0),
       bm25(lex, 0, 0, {date}, 0)
FROM lex CROSS JOIN docs ON docs.id = lex.rowid
WHERE lex MATCH ? AND rank MATCH 'bm25({body}, {window}, {date}, 0)' {conditions}
ORDER BY rank
"""


class Weights(NamedTuple):
    """How much a term counts in a document's own words, in its neighbours' and in its date."""

    body: float
    window: float
    date: float


# From a coarse grid on conversations 1-7 of LoCoMo, where the optimum is flat: recall at 10 is .71 to .73 for
# a window of .35 to .65 and a date of .5 to 2 times the body. test_quality.py holds it to 8-10.
WEIGHTS: Final = Weights(body=1.5, window=0.5, date=1.5)


class LexicalIndex:
    """Full-text search over the sessions of one tenant. Safe for threads; a context manager.

    Opening makes the file (0600) and its directory where they are missing, and empties an index of an older
    form: `sessions()` then has no watermarks, and everything is to be added again. Every method, and
    opening, raises `DamagedLog` when the file is not readable as a database, `LogBusy` when others kept it
    locked for five seconds, `StorageFull` and `StorageFailed` for what the system refuses. Opening raises
    `NewerFormat` for an index of a later version and `ForeignFile` for another program's database.
    """

    def __init__(self, path: Path, *, weights: Weights = WEIGHTS) -> None:
        self._path = path
        self._weights = weights
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
            sid, seen = _session(db, session)
            if seen < before:
                raise Conflict(
                    "the session was removed from the index meanwhile",
                    key=session,
                    hint="add all of it again",
                )
            # Or another process may have come first.
            new = [document for document in found if document.seq > seen]
            _append(db, sid, session, new)
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
            sid = _session_id(db, session)
            if sid is None:
                return
            every = db.execute(f"SELECT {_DOC} FROM docs WHERE session = ? ORDER BY id", (sid,))
            gone = rows([Document(*row) for row in every])
            db.executemany(_REMOVE, _scoped(gone, _scope(sid, session)))
            db.execute("DELETE FROM docs WHERE session = ?", (sid,))
            db.execute("DELETE FROM sessions WHERE id = ?", (sid,))

    def rows_of(self, session: SessionKey) -> int:
        """How many documents of `session` there are."""
        with self._transaction() as db:
            sid = _session_id(db, session)
            row = db.execute("SELECT count(*) FROM docs WHERE session = ?", (sid,)).fetchone()
        return int(row[0])

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
    ) -> list[Hit]:
        """The `limit` best entries that have any of the query's terms, best first; an entry comes once.

        `query` is plain words: no character in it is an operator, and one without terms finds nothing. Of a
        long one the first 64 distinct terms count. Filters narrow what is searched, each exactly: `agent`,
        `channel` and `session` by identity, `roles` by entry type tag (an empty collection allows none), time
        by `after_ts` <= ts < `before_ts` in milliseconds. `limit` is as large as you like; raises
        `InvalidInput` when it is negative.
        """
        if limit < 0:
            raise InvalidInput("limit cannot be negative", limit=limit)
        asked = query_terms(query)[:MAX_QUERY_TERMS]
        if not asked or not limit:
            return []
        conditions: list[tuple[str, list[Any]]] = []
        if roles is not None:
            wanted = [role for role in roles if role.isascii()]  # no tag is anything else
            conditions.append((f"docs.role IN ({', '.join('?' * len(wanted))})", wanted))
        if after_ts is not None:
            conditions.append(("docs.ts >= ?", [_int64(after_ts)]))
        if before_ts is not None:
            conditions.append(("docs.ts < ?", [_int64(before_ts)]))
        for column, value in (("agent", agent), ("channel", channel)):
            if value is not None:
                # As bytes: a lone surrogate cannot be bound as text, and equals no stored id.
                same = f"docs.session IN (SELECT id FROM sessions WHERE CAST({column} AS BLOB) = ?)"
                conditions.append((same, [value.encode("utf-8", "surrogatepass")]))
        with self._transaction() as db:
            scope = _named("a", agent) + _named("c", channel)
            if session is not None:
                sid = _session_id(db, session)
                if sid is None:
                    return []
                scope = [f"s{sid}"]
                conditions.append(("docs.session = ?", [sid]))
            statement = _SEARCH.format(
                **self._weights._asdict(), conditions="".join(f" AND {sql}" for sql, _ in conditions)
            )
            values = [_match(asked, scope), *(value for _, values in conditions for value in values)]
            return _best(db, db.execute(statement, values), asked, limit)

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
                for statement in _TABLES.split(";"):
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


def _session_id(db: sqlite3.Connection, session: SessionKey) -> int | None:
    row = db.execute(f"SELECT id FROM sessions WHERE {_KEY}", session).fetchone()
    return row[0] if row else None


def _session(db: sqlite3.Connection, session: SessionKey) -> tuple[int, int]:
    """The session's row id and watermark, made when missing."""
    other = db.execute("SELECT tenant FROM sessions LIMIT 1").fetchone()
    if other and other[0] != session.tenant:
        raise InvalidInput(
            "this index belongs to another tenant", key=session, tenant=other[0],
            hint="use one index for each tenant",
        )  # fmt: skip
    db.execute(
        "INSERT OR IGNORE INTO sessions (tenant, agent, channel, chat, generation, seq)"
        " VALUES (?, ?, ?, ?, 0, 0)",
        session,
    )
    row = db.execute(f"SELECT id, seq FROM sessions WHERE {_KEY}", session).fetchone()
    return row[0], row[1]


def _append(db: sqlite3.Connection, sid: int, session: SessionKey, new: list[Document]) -> None:
    """Store `new` after the session's other documents; the last of those gets its neighbour."""
    first = db.execute("SELECT coalesce(max(id), 0) + 1 FROM docs").fetchone()[0]
    stored = [document._replace(id=first + at) for at, document in enumerate(new)]
    scope = _scope(sid, session)
    tail = _plain(db, sid, "<", first, 2)[::-1]
    after = rows([*tail, *stored])[max(len(tail) - 1, 0) :]
    if tail:
        before = rows(tail)[-1]
        if before == after[0]:
            del after[0]
        else:
            db.executemany(_REMOVE, _scoped([before], scope))
    db.executemany(
        f"INSERT INTO docs (session, {_DOC}) VALUES (?{', ?' * len(Document._fields)})",
        ((sid, *document) for document in stored),
    )
    db.executemany(_INSERT, _scoped(after, scope))


def _plain(db: sqlite3.Connection, sid: int, side: str, place: int, count: int) -> list[Document]:
    """The `count` nearest documents on one side of `place` that were not injected, nearest first."""
    order = "DESC" if side == "<" else "ASC"
    found = db.execute(
        f"SELECT {_DOC} FROM docs WHERE session = ? AND id {side} ? AND NOT injected"
        f" ORDER BY id {order} LIMIT ?",
        (sid, place, count),
    )
    return [Document(*row) for row in found]


def _best(db: sqlite3.Connection, ranked: sqlite3.Cursor, asked: list[str], limit: int) -> list[Hit]:
    hits: dict[tuple[int, int], Hit] = {}
    with closing(ranked):
        for place, sid, rank, *parts in ranked:
            document = Document(*db.execute(f"SELECT {_DOC} FROM docs WHERE id = ?", (place,)).fetchone())
            if (sid, document.seq) not in hits:  # a better passage of the same entry came before
                hits[sid, document.seq] = _hit(db, sid, document, asked, rank, parts)
            if len(hits) == limit:
                break
    return list(hits.values())


def _hit(
    db: sqlite3.Connection, sid: int, document: Document, asked: list[str], rank: float, parts: list[float]
) -> Hit:
    key = db.execute("SELECT tenant, agent, channel, chat FROM sessions WHERE id = ?", (sid,)).fetchone()
    around = [*_plain(db, sid, "<", document.id, 1), document, *_plain(db, sid, ">", document.id, 1)]
    row = next(row for row in rows(around) if row.id == document.id)
    there = f"{row.body} {row.window} {row.date}"
    words = set(there.split(" "))
    return Hit(
        session=SessionKey(*key),
        entry_id=document.entry_id,
        seq=document.seq,
        turn=document.turn,
        ts=document.ts,
        role=document.role,
        score=-rank,
        parts={name: -part for name, part in zip(Weights._fields, parts, strict=True) if part},
        snippet=document.preview,
        terms=tuple(term for term in asked if term in words or (_by_prefix(term) and term in there)),
        start=document.start,
        stop=document.stop,
        injected=bool(document.injected),
    )


def _match(asked: list[str], scope: list[str]) -> str:
    """The FTS5 query. Terms have no quotes, and in quotes nothing is an operator."""
    words = " OR ".join(f'"{term}"*' if _by_prefix(term) else f'"{term}"' for term in asked)
    narrowed = "".join(f' AND scope : "{name}"' for name in scope)
    return f"{{body window date}} : ({words}){narrowed}"


def _by_prefix(term: str) -> bool:
    """One character of a script without spaces begins the bigram that it stands in."""
    return len(term) == 1 and is_spaceless(term)


def _scope(sid: int, session: SessionKey) -> str:
    return " ".join([f"s{sid}", *_named("a", session.agent), *_named("c", session.channel)])


def _named(kind: str, value: str | None) -> list[str]:
    """A term for an id: a digest, since an id may hold what ends a term."""
    if value is None:
        return []
    return [kind + hashlib.blake2b(value.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()]


def _scoped(made: list[Row], scope: str) -> Iterator[tuple[int, str, str, str, str]]:
    return ((*row, scope) for row in made)


def _int64(value: int) -> int:
    return max(-(2**63), min(value, 2**63 - 1))


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
