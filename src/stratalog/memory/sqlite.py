"""Records in SQLite: one file for a tenant, with their history and the index of their words.

A write is one transaction, taken for writing from its start (`BEGIN IMMEDIATE`), with `synchronous` FULL:
what `writing` has ended is on the disk, and with it the record's terms and its line of the history. Within a
process writers wait for one another at a lock, in turn; between processes at SQLite's. Reading uses a
connection of its own, so that no reader waits for a writer's disk. The few connections that are idle are
kept; none crosses a fork, and none outlives the file that it was opened on.

Scopes are `places`, each a row with a number, compared whole and exactly. The words are an FTS5 table without
content, over terms that are made in Python, with the place as one more term: a search within a scope costs
what the scope costs. Taking a row out of it needs the terms that were put in, so a record's row keeps them.

`terms_of` says what the function that made them makes of a sample. When it is another, as after an update of
the program, the first search makes all of them anew, in one transaction.

The history refuses to be changed or deleted, by triggers that only a purge's mark lets through. `purge`
deletes in transactions of bounded size and then rewrites the file; marks say that this is still to be done,
so that a purge which was killed is finished by the same call.
"""

from __future__ import annotations

import hashlib
import os
import sqlite3
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from operator import itemgetter
from pathlib import Path
from types import TracebackType
from typing import Any, Final, NamedTuple

from stratalog.errors import (
    InvalidInput,
    LogError,
    StorageFailed,
    StoreBusy,
)
from stratalog.ids import new_ulid
from stratalog.memory.codec import Written, already_noted, decode_event, decode_record, moved, settle
from stratalog.memory.contract import (
    Capabilities,
    Change,
    Event,
    Found,
    Record,
    RecordPage,
    Scope,
    Tombstone,
    Where,
)
from stratalog.memory.database import NOWHERE, Form, Typed, begin, busy, connect, inode, translated
from stratalog.memory.matching import (
    Terms,
    all_of_slots,
    askable,
    asked,
    asks_what_lasts,
    by_prefix,
    indexed,
    is_text,
    matches,
    positive,
)
from stratalog.points import reach

FILE: Final = "memory.sqlite3"
_APPLICATION: Final = 0x5374_6C6D  # "Stlm"
_WHAT: Final = "the store of records"
_CACHE_KIB: Final = 8_000
_WAIT_S: Final = 10.0
_IDLE: Final = 4
_BATCH: Final = 200
_MERGE_PAGES: Final = 1000
_LOOK: Final = 1000  # hits of a search whose records are looked at together, at most
_MOST: Final = 2**62
_MOST_VALUES: Final = 10_000
_COUNTED: Final = ("records", "events", "sources", "index", "tombstones", "idempotency")

# What leads from each version to the next; the first from nothing. Statements end with a semicolon and a line
# break, which stand nowhere else.
MIGRATIONS: Final = (
    """
CREATE TABLE places (
    id INTEGER PRIMARY KEY, environment TEXT NOT NULL, kind TEXT NOT NULL, scope TEXT NOT NULL,
    UNIQUE (environment, kind, scope));
CREATE TABLE records (
    row INTEGER PRIMARY KEY, id TEXT NOT NULL, place INTEGER NOT NULL, key TEXT NOT NULL,
    layer TEXT NOT NULL, status TEXT NOT NULL, valid_from INTEGER, valid_to INTEGER,
    expires_at INTEGER NOT NULL, body BLOB NOT NULL, terms TEXT NOT NULL);
CREATE UNIQUE INDEX records_by_id ON records (id);
CREATE INDEX records_in_order ON records (place, id);
CREATE INDEX records_by_key ON records (place, key);
CREATE TABLE sources (
    entry TEXT NOT NULL, record INTEGER NOT NULL, PRIMARY KEY (entry, record)) WITHOUT ROWID;
CREATE INDEX sources_by_record ON sources (record);
CREATE TABLE events (
    seq INTEGER PRIMARY KEY AUTOINCREMENT, place INTEGER NOT NULL, record INTEGER NOT NULL,
    body BLOB NOT NULL);
CREATE INDEX events_by_place ON events (place);
CREATE INDEX events_by_record ON events (record);
CREATE TABLE tombstones (
    place INTEGER NOT NULL, key TEXT NOT NULL, at INTEGER NOT NULL, content TEXT NOT NULL,
    PRIMARY KEY (place, key, at, content)) WITHOUT ROWID;
CREATE TABLE results (key TEXT PRIMARY KEY, result TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE result_places (
    result TEXT NOT NULL, place INTEGER NOT NULL, key TEXT NOT NULL, record INTEGER NOT NULL,
    PRIMARY KEY (result, place, key, record)) WITHOUT ROWID;
CREATE INDEX result_places_by_place ON result_places (place, key);
CREATE INDEX result_places_by_record ON result_places (record);
CREATE TABLE marks (name TEXT PRIMARY KEY) WITHOUT ROWID;
CREATE VIRTUAL TABLE words USING fts5 (
    terms, place, content='', tokenize="ascii tokenchars '!""#$%&''()*+,-./:;<=>?@[\\]^_`{|}~'");
CREATE TRIGGER events_stay BEFORE UPDATE ON events BEGIN
    SELECT RAISE (ABORT, 'the history is not changed'); END;
CREATE TRIGGER events_are_kept BEFORE DELETE ON events
    WHEN NOT EXISTS (SELECT 1 FROM marks WHERE name = 'purge') BEGIN
    SELECT RAISE (ABORT, 'the history is not deleted'); END;
""",
    """
CREATE TABLE terms_of (sample TEXT NOT NULL);
INSERT INTO terms_of VALUES ('');
""",
)
# What the terms are that a function makes of this tells it from another, and from itself before a change.
SAMPLE: Final = (
    "Ann's cats ran to ABC-123 on May 4th, 2023 (2023-05-04, 05/04/2023) for $1,000,000; see src/foo_bar.py,"
    " getUserName and v1.2.3. Café, ＡＢＣ, дом, 도서관에서. 2023年5月4日，我在上海花了三百元买笔记本电脑。"
)


def _form() -> Form:
    return Form(_WHAT, _APPLICATION, MIGRATIONS, _CACHE_KIB)


_WORDS: Final = "INSERT INTO words (rowid, terms, place) VALUES (?, ?, ?)"
_NO_WORDS: Final = "INSERT INTO words (words, rowid, terms, place) VALUES ('delete', ?, ?, ?)"


class _Sql(NamedTuple):
    """A condition and the values for its question marks."""

    text: str
    values: list[Any]


class _Span(NamedTuple):
    """Of which places, as a condition on a column; or of which record, where `column` says so."""

    condition: str
    values: list[Any]
    column: str = ""

    def of(self, column: str) -> str:
        return self.condition.format(self.column or column)


class _Row(NamedTuple):
    """Where a record is: its row, its place, and the terms that it is indexed under."""

    row: int
    place: int
    terms: str


class _Connection(NamedTuple):
    """An open database: of which file, and of which time between two calls of `close`."""

    database: sqlite3.Connection
    ino: tuple[int, int]
    epoch: int


class _Open:
    """What one process has open. A connection must not cross a fork, nor a lock that was held then."""

    def __init__(self) -> None:
        self.writer = threading.Lock()
        self.mutex = threading.Lock()
        self.idle: list[_Connection] = []
        self.left: list[_Connection] = []  # of a file that is gone: to close them would harm its successor
        self.epoch = 0


class SqliteRecords:
    """The records in the file `path`, of one tenant. Safe for threads, processes and forks.

    The file is made, 0600, when something is first written; reading makes nothing. `terms` gives the words of
    a text to search by, `query_terms` those of a query where they differ. A writer waits `wait` seconds for
    another, then raises `StoreBusy`.

    Every method raises `DamagedLog` for a file that cannot be read as a store, `NewerFormat` for one of a
    later version and `ForeignFile` for another program's, both left untouched, `StorageFull` and
    `StorageFailed` for what the system refuses, and `InvalidInput` for more than ten thousand values in a
    `Where`.
    """

    capabilities = Capabilities(name="sqlite")

    def __init__(
        self, path: Path | str, *, terms: Terms, query_terms: Terms | None = None, wait: float = _WAIT_S
    ) -> None:
        self.path = Path(path)
        self._terms = terms
        self._query_terms = query_terms or terms
        self._sample: str | None = None
        self._wait = wait
        self._open: dict[int, _Open] = {}

    # --- the contract ---

    @contextmanager
    def writing(self) -> Iterator[_Transaction]:
        with self._alone() as database:
            transaction = _Transaction(database, self.path, self._terms, self._terms_of_sample())
            try:
                yield transaction
            finally:
                transaction.end()
            if transaction.broken is not None:
                raise transaction.broken

    def find(self, where: Where, *, limit: int = 100, after: str = "") -> RecordPage:
        positive(limit)
        with self._reading() as database:
            places = _Places(database) if database else None
            found = _find(places, askable(where), limit=min(limit, _MOST) + 1, after=after) if places else []
        page = tuple(found[:limit])
        return RecordPage(page, page[-1].id if len(found) > limit else "")

    def search(self, where: Where, query: str, *, limit: int = 10) -> tuple[Found, ...]:
        positive(limit)
        terms = asked(query, self._query_terms)
        if not terms:
            return ()
        sample = self._terms_of_sample()
        with self._reading() as database:
            if database is None:
                return ()
            if not _made_by_another(database, sample):
                return _search(database, where, terms, min(limit, _MOST))
        self._make_terms_anew(sample)
        with self._reading() as database:
            return _search(database, where, terms, min(limit, _MOST)) if database else ()

    def history(self, where: Where, *, limit: int = 100, after: int = 0) -> tuple[Event, ...]:
        positive(limit)
        with self._reading() as database:
            return _history(database, where, min(limit, _MOST), after) if database else ()

    def purge(self, where: Where, *, dry_run: bool = False) -> dict[str, int]:
        """As the contract says. While it runs others may read and write between its transactions. At its
        end the whole file is rewritten, which takes as much space again; when that fails, everything is
        deleted all the same, and the same call tries again."""
        counts = dict.fromkeys(_COUNTED, 0)
        if dry_run:
            with self._reading() as database:
                if database:
                    _add(counts, _counted(database, where))
            return counts
        if not self._exists():
            return counts
        while True:
            with self._alone() as database, Typed(self.path, _WHAT):
                gone = _purge_records(database, where)
            reach("purge.batch")
            _add(counts, gone)
            if not gone["records"]:
                break
        with self._alone() as database, Typed(self.path, _WHAT):
            _add(counts, _purge_slots(database, where))
            marks = _marks_of(database)
        reach("purge.deleted")
        if marks:
            self._rewrite(marks)
        return counts

    def close(self) -> None:
        """Closes what is open. The store may be used again."""
        here = self._here()
        with here.mutex:
            here.epoch += 1
            idle, here.idle = here.idle, []
        for connection in idle:
            self._give_back(here, connection)

    # --- how ---

    def _terms_of_sample(self) -> str:
        """What terms the function makes of the sample, in short; it is asked when this is first wanted."""
        if self._sample is None:
            made = "\n".join(self._terms(SAMPLE))
            self._sample = hashlib.sha256(made.encode("utf-8", "replace")).hexdigest()
        return self._sample

    def _make_terms_anew(self, sample: str) -> None:
        """Has the records found under what the function makes of them, not under what another made."""
        with self._alone() as database, Typed(self.path, _WHAT):
            if _made_by_another(database, sample):  # nobody else has done it meanwhile
                _make_anew(database, self._terms, sample)

    def _rewrite(self, marks: list[tuple[str]]) -> None:
        """Leaves nothing in the files of what was deleted, and takes these marks of it away; those that
        another purge has set meanwhile stay."""
        first = True
        while self._merge(first):
            first = False
        reach("purge.merged")
        with self._writer(), self._connected() as database:
            assert database is not None
            with Typed(self.path, _WHAT):
                database.execute("VACUUM")
                reach("purge.vacuumed")
                (busy, _, _) = database.execute("PRAGMA wal_checkpoint (TRUNCATE)").fetchone()
        if busy:
            raise StoreBusy(
                "what was purged is deleted, but its bytes are still in the file, for another reads it",
                path=str(self.path),
                hint="purge again once it has ended",
            )
        reach("purge.truncated")
        with self._alone() as database, Typed(self.path, _WHAT):
            database.executemany("DELETE FROM marks WHERE name = ?", marks)

    def _merge(self, first: bool) -> bool:
        """Some of the work of merging the index into one, in which no deleted term is left; whether there is
        more."""
        with self._alone() as database, Typed(self.path, _WHAT):
            before = database.total_changes
            pages = -_MERGE_PAGES if first else _MERGE_PAGES
            database.execute("INSERT INTO words (words, rank) VALUES ('merge', ?)", (pages,))
            return database.total_changes - before >= 2

    @contextmanager
    def _alone(self) -> Iterator[sqlite3.Connection]:
        """A transaction that is taken for writing from its start, and ends with the block."""
        with self._writer(), self._connected(make=True) as database:
            assert database is not None
            with Typed(self.path, _WHAT):
                begin(database, time.monotonic() + self._wait)
            done = False
            try:
                yield database
                with Typed(self.path, _WHAT):
                    database.execute("COMMIT")
                done = True
            finally:
                if not done and database.in_transaction:
                    with Typed(self.path, _WHAT):
                        database.execute("ROLLBACK")

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection | None]:
        """One state of the store; None when there is none."""
        with self._connected() as database, Typed(self.path, _WHAT):
            if database is None:
                yield None
                return
            database.execute("BEGIN")
            try:
                yield database
            finally:
                if database.in_transaction:
                    database.execute("ROLLBACK")

    @contextmanager
    def _writer(self) -> Iterator[None]:
        writer = self._here().writer
        if not writer.acquire(timeout=self._wait):
            raise busy(self.path, _WHAT)
        try:
            yield
        finally:
            writer.release()

    @contextmanager
    def _connected(self, *, make: bool = False) -> Iterator[sqlite3.Connection | None]:
        """A connection that nobody else uses meanwhile; None when there is no store, unless to `make` it."""
        here = self._here()
        connection = self._take(here, make)
        try:
            yield connection.database if connection else None
        finally:
            if connection is not None:
                self._give_back(here, connection)

    def _take(self, here: _Open, make: bool) -> _Connection | None:
        ino = inode(self.path)
        with here.mutex:
            while here.idle:
                connection = here.idle.pop()
                if connection.ino == ino:
                    return connection
                here.left.append(connection)
            epoch = here.epoch
        if ino == NOWHERE and not make:
            return None
        with Typed(self.path, _WHAT):
            database, ino = connect(self.path, _form(), self._wait, make)
        return _Connection(database, ino, epoch) if database else None

    def _give_back(self, here: _Open, connection: _Connection) -> None:
        with here.mutex:
            if connection.epoch == here.epoch and len(here.idle) < _IDLE:
                here.idle.append(connection)
                return
            if connection.ino != inode(self.path):
                here.left.append(connection)
                return
        connection.database.close()

    def _here(self) -> _Open:
        """What this process has open. What its parent had is left to the parent, and never closed."""
        pid = os.getpid()
        return self._open.get(pid) or self._open.setdefault(pid, _Open())

    def _exists(self) -> bool:
        with self._connected() as database:
            return database is not None


class _Transaction:
    """Each of its calls is a block of itself, which guards the connection that it gives."""

    def __init__(self, database: sqlite3.Connection, path: Path, terms: Terms, sample: str) -> None:
        self._database: sqlite3.Connection | None = database
        self._places = _Places(database)
        self._path = path
        self._terms = terms
        self._sample = sample
        self._asked: set[tuple[str, Scope, str]] = set()
        self.broken: LogError | None = None

    def find(self, where: Where) -> tuple[Record, ...]:
        known = askable(where, any_status=True)
        if known is not None:
            self._asked |= {
                (known.environment, scope, key) for scope in known.scopes for key in known.keys or ("",)
            }
        with self:
            return tuple(_find(self._places, known, limit=_MOST))

    def tombstones(self, environment: str, scope: Scope, key: str) -> tuple[Tombstone, ...]:
        if not (is_text(environment) and is_text(scope.id) and is_text(key)):
            return ()
        self._asked.add((environment, scope, key))
        with self as database:
            place = self._places.find(environment, scope)
            found = database.execute(
                "SELECT at, content FROM tombstones WHERE place = ? AND key = ? ORDER BY at, content",
                (place, key),
            ).fetchall()
        return tuple(
            [
                Tombstone(environment=environment, scope=scope, key=key, at=at, content=content)
                for at, content in found
            ]
        )

    def done(self, idempotency: str) -> str | None:
        with self as database:
            return _result(database, idempotency)

    def write(self, change: Change, *, idempotency: str = "", result: str = "") -> None:
        written, stones = settle(change)
        terms = [" ".join(indexed(one.event.record, self._terms)) for one in written]
        _storable(result, "a result")
        with self as database:
            # Of a store without records nothing is to be made anew.
            database.execute(
                "UPDATE terms_of SET sample = ? WHERE sample != ? AND NOT EXISTS (SELECT 1 FROM records)",
                (self._sample, self._sample),
            )
            rows = _rows_of(self._places, written)
            if idempotency and _result(database, idempotency) is not None:
                raise already_noted(idempotency)
            links = {_put(self._places, rows, *pair) for pair in zip(written, terms, strict=True)}
            links |= {_bury(self._places, stone) for stone in stones}
            if idempotency:
                _note(database, idempotency, result, links or self._asked_about())

    def _asked_about(self) -> set[tuple[int, str, int]]:
        return {(self._places.make(environment, scope), key, 0) for environment, scope, key in self._asked}

    def end(self) -> None:
        self._database = None

    def __enter__(self) -> sqlite3.Connection:
        """The transaction's connection. What fails halfway is not written, also when the caller goes on."""
        if self._database is None:
            raise StorageFailed("this transaction has ended", hint="begin another with `writing()`")
        if self.broken is not None:
            raise self.broken
        return self._database

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            return
        typed = translated(error, self._path, _WHAT)
        if typed is not None:
            self.broken = typed
            raise typed from error
        if isinstance(error, LogError):
            self.broken = error


# --- reading ---


def _find(places: _Places, known: Where | None, *, limit: int, after: str = "") -> list[Record]:
    """Of what `askable` returned."""
    if known is None or not known.statuses:
        return []
    condition = _condition(known)
    found: list[tuple[str, bytes]] = []
    for span in _spans(places, known):
        found += places.database.execute(
            f"SELECT id, body FROM records {_index(known)}"
            f" WHERE {span.of('place')} AND id > ?{condition.text} ORDER BY id LIMIT ?",
            (*span.values, after.encode("utf-8", "replace").decode(), *condition.values, limit),
        )
    return [decode_record(body) for _, body in sorted(found)[:limit]]


def _search(database: sqlite3.Connection, where: Where, terms: list[str], limit: int) -> tuple[Found, ...]:
    known = askable(where)
    spans = _spans(_Places(database), known) if known else []
    if known is None or not spans:
        return ()
    condition = _condition(known)
    places = [] if known.whole else [place for span in spans for place in span.values]
    reached = f"place IN ({_marks(places)})" if places else spans[0].of("place")
    wanted = _Sql(
        f" AND {reached}{condition.text}",
        [value for span in spans for value in span.values] + condition.values,
    )
    hits = database.execute(
        "SELECT rowid, bm25(words, 1.0, 0.0) AS points FROM words WHERE words MATCH ? ORDER BY points",
        (_match(terms, places),),
    )
    with closing(hits):
        best = _best(database, hits, wanted, limit)
    return tuple([Found(decode_record(body), -points) for points, _, body in best])


def _best(
    database: sqlite3.Connection, hits: sqlite3.Cursor, wanted: _Sql, limit: int
) -> list[tuple[float, str, bytes]]:
    """The points, id and body of the first `limit` of the hits that are wanted, the newest first of those
    with the same points. Most hits are not among the best: their records are not looked at."""
    best: list[tuple[float, str, bytes]] = []
    size = min(2 * limit, _LOOK)
    while chunk := hits.fetchmany(size):
        points = dict(chunk)
        best += [
            (points[row], id, body)
            for row, id, body in database.execute(
                f"SELECT row, id, body FROM records NOT INDEXED WHERE row IN ({_marks(chunk)}){wanted.text}",
                (*points, *wanted.values),
            )
        ]
        best.sort(key=itemgetter(1), reverse=True)
        best.sort(key=itemgetter(0))
        del best[limit:]
        if len(best) == limit and best[-1][0] < chunk[-1][1]:
            break
        size = min(2 * size, _LOOK)
    return best


def _match(terms: list[str], places: list[int]) -> str:
    """The FTS5 query; without places, over all. In quotes nothing is an operator, and a quote is doubled."""
    quoted = ['"{}"{}'.format(term.replace('"', '""'), "*" if by_prefix(term) else "") for term in terms]
    inside = " OR ".join(f'"p{place}"' for place in places)
    return f"{{terms}} : ({' OR '.join(quoted)})" + (f" AND {{place}} : ({inside})" if places else "")


def _history(database: sqlite3.Connection, where: Where, limit: int, after: int) -> tuple[Event, ...]:
    known = askable(where, any_status=True)
    if known is None:
        return ()
    spans = _spans(_Places(database), known)
    if known.keys or known.ids:
        # What never changes is asked of the records, whose history then has an index of its own.
        lasting = Where(
            environment=known.environment, scopes=(), keys=known.keys, ids=known.ids, whole=known.whole
        )
        spans = [_Span("{} = ?", [row], "record") for row in _rows(database, spans, lasting)]
    if not asks_what_lasts(known):
        held = _held(database, spans, known)
        spans = [_Span("{} = ?", [row], "record") for row in sorted(held)]
    # Of everything, the order of their numbers is the shortest way.
    index = "NOT INDEXED" if known.whole and spans and not spans[0].column else ""
    found: list[tuple[int, bytes]] = []
    for span in spans:
        found += database.execute(
            f"SELECT seq, body FROM events {index} WHERE {span.of('place')} AND seq > ? ORDER BY seq LIMIT ?",
            (*span.values, _int64(after), limit),
        )
    return tuple([decode_event(seq, body) for seq, body in sorted(found)[:limit]])


def _held(database: sqlite3.Connection, spans: list[_Span], where: Where) -> set[int]:
    """The rows of the records for which `where` holds or held."""
    held: set[int] = set()
    for span in spans:
        for record, body in database.execute(
            f"SELECT record, body FROM events WHERE {span.of('place')}", span.values
        ):
            if record not in held and matches(where, decode_event(0, body).record, any_status=True):
                held.add(record)
    return held


def _rows(database: sqlite3.Connection, spans: list[_Span], where: Where, limit: int = -1) -> list[int]:
    """The rows of the records that are reached, of any status, of which the rest of `where` holds; up to
    `limit` of each span."""
    condition = _condition(where, any_status=True)
    found: list[int] = []
    for span in spans:
        found += [
            row
            for (row,) in database.execute(
                f"SELECT row FROM records {_index(where)} WHERE {span.of('place')}{condition.text} LIMIT ?",
                (*span.values, *condition.values, limit),
            )
        ]
    return found


def _spans(places: _Places, where: Where) -> list[_Span]:
    """One for each of the scopes that have anything; one for all, where `where` is for all."""
    if where.whole == "tenant":
        return [_Span("{} > 0", [])]
    if where.whole:
        return [_Span("{} IN (SELECT id FROM places WHERE environment = ?)", [where.environment])]
    found = [places.find(where.environment, scope) for scope in where.scopes]
    return [_Span("{} = ?", [place]) for place in found if place is not None]


class _Places:
    """The numbers of scopes within one transaction, where nobody else makes any: each is looked up once."""

    __slots__ = ("_known", "database")

    def __init__(self, database: sqlite3.Connection) -> None:
        self.database = database
        self._known: dict[tuple[str, str, str], int | None] = {}

    def find(self, environment: str, scope: Scope) -> int | None:
        name = (environment, scope.kind, scope.id)
        if name not in self._known:
            row = self.database.execute(
                "SELECT id FROM places WHERE environment = ? AND kind = ? AND scope = ?", name
            ).fetchone()
            self._known[name] = row[0] if row else None
        return self._known[name]

    def make(self, environment: str, scope: Scope) -> int:
        """The scope's number; it is given one where it has none."""
        place = self.find(environment, scope)
        if place is None:
            name = (environment, scope.kind, scope.id)
            (place,) = self.database.execute(
                "INSERT INTO places (environment, kind, scope) VALUES (?, ?, ?) RETURNING id", name
            ).fetchone()
            self._known[name] = place
        assert place is not None
        return place


def _index(where: Where) -> str:
    """Which way to the records is the shortest. SQLite, which keeps no statistics, would rather not sort."""
    if where.ids:
        return "INDEXED BY records_by_id"
    if where.entries:
        return "NOT INDEXED"  # but by their rows
    if where.whole:
        return "INDEXED BY records_by_id"
    return "INDEXED BY records_by_key" if where.keys else "INDEXED BY records_in_order"


def _condition(where: Where, *, any_status: bool = False) -> _Sql:
    """What `where` says besides its scopes, as SQL that begins with AND. Input stands in the values only."""
    text: list[str] = []
    values: list[Any] = []

    def add(condition: str, given: Sequence[Any]) -> None:
        if len(given) > _MOST_VALUES:
            raise InvalidInput("too many values to ask for at once", most=_MOST_VALUES, hint="ask in parts")
        text.append(" AND " + condition.format(_marks(given)))
        values.extend(given)

    if where.statuses and not any_status:
        add("status IN ({})", where.statuses)
    if where.layers:
        add("layer IN ({})", [str(layer) for layer in where.layers])
    if where.keys:
        add("key IN ({})", where.keys)
    if where.ids:
        add("id IN ({})", where.ids)
    if where.entries:
        add("row IN (SELECT record FROM sources WHERE entry IN ({}))", where.entries)
    if where.valid_at is not None:
        at = _int64(where.valid_at)
        add("(valid_from IS NULL OR valid_from <= ?) AND (valid_to IS NULL OR valid_to > ?)", [at, at])
    if where.now:
        add("(expires_at = 0 OR expires_at > ?)", [_int64(where.now)])
    return _Sql("".join(text), values)


def _marks(values: Sequence[Any]) -> str:
    return ", ".join("?" * len(values))


def _int64(value: int) -> int:
    return max(-(2**63), min(value, 2**63 - 1))


def _result(database: sqlite3.Connection, idempotency: str) -> str | None:
    key = _storable(idempotency, "an idempotency key")
    row = database.execute("SELECT result FROM results WHERE key = ?", (key,)).fetchone()
    return row[0] if row else None


# --- writing ---


def _put(places: _Places, rows: dict[str, _Row], written: Written, terms: str) -> tuple[int, str, int]:
    """Writes an event, its record and the index; the record's place, key and row. `rows` are those that
    there are, by their ids; it is kept up to date."""
    database = places.database
    record = written.event.record
    now = (
        record.layer,
        record.status,
        record.valid_from and record.valid_from.at,
        record.valid_to and record.valid_to.at,
        record.expires_at,
        written.record_body,
        terms,
    )
    entries = {source.entry for source in record.sources}
    found = rows.get(record.id)
    if found:
        row, place, before = found
        database.execute(
            "UPDATE records SET layer = ?, status = ?, valid_from = ?, valid_to = ?, expires_at = ?,"
            " body = ?, terms = ? WHERE row = ?",
            (*now, row),
        )
        if terms != before:
            database.execute(_NO_WORDS, (row, before, f"p{place}"))
            database.execute(_WORDS, (row, terms, f"p{place}"))
        known = {entry for (entry,) in database.execute("SELECT entry FROM sources WHERE record = ?", (row,))}
        database.executemany(
            "DELETE FROM sources WHERE entry = ? AND record = ?", [(entry, row) for entry in known - entries]
        )
        entries -= known
    else:
        place = places.make(record.environment, record.scope)
        made = database.execute(
            "INSERT INTO records (id, place, key, layer, status, valid_from, valid_to, expires_at, body,"
            " terms) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (record.id, place, record.key, *now),
        ).lastrowid
        assert made is not None
        row = made
        database.execute(_WORDS, (row, terms, f"p{place}"))
    if entries:
        database.executemany("INSERT INTO sources VALUES (?, ?)", [(entry, row) for entry in entries])
    database.execute("INSERT INTO events (place, record, body) VALUES (?, ?, ?)", (place, row, written.body))
    rows[record.id] = _Row(row, place, terms)
    return place, record.key, row


def _bury(places: _Places, stone: Tombstone) -> tuple[int, str, int]:
    place = places.make(stone.environment, stone.scope)
    places.database.execute(
        "INSERT OR IGNORE INTO tombstones VALUES (?, ?, ?, ?)", (place, stone.key, stone.at, stone.content)
    )
    return place, stone.key, 0


def _note(
    database: sqlite3.Connection, idempotency: str, result: str, links: set[tuple[int, str, int]]
) -> None:
    database.execute("INSERT INTO results VALUES (?, ?)", (idempotency, result))
    database.executemany(
        "INSERT INTO result_places VALUES (?, ?, ?, ?)", [(idempotency, *link) for link in links]
    )


def _made_by_another(database: sqlite3.Connection, sample: str) -> bool:
    """Whether there are records, and what made their terms makes something else of the sample."""
    asked = "SELECT sample != ? AND EXISTS (SELECT 1 FROM records) FROM terms_of"
    return bool(database.execute(asked, (sample,)).fetchone()[0])


def _make_anew(database: sqlite3.Connection, terms: Terms, sample: str) -> None:
    """Makes the terms of all records, and puts those in the index that are others than before."""
    after = -1
    while True:
        found = database.execute(
            "SELECT row, place, terms, body FROM records WHERE row > ? ORDER BY row LIMIT ?", (after, _BATCH)
        ).fetchall()
        if not found:
            break
        for row, place, before, body in found:
            now = " ".join(indexed(decode_record(body), terms))
            if now != before:
                database.execute(_NO_WORDS, (row, before, f"p{place}"))
                database.execute(_WORDS, (row, now, f"p{place}"))
                database.execute("UPDATE records SET terms = ? WHERE row = ?", (now, row))
        after = found[-1][0]
    database.execute("UPDATE terms_of SET sample = ?", (sample,))


def _rows_of(places: _Places, written: list[Written]) -> dict[str, _Row]:
    """The rows that there are of the records, by their ids. Raises `Conflict` for one in another slot."""
    rows: dict[str, _Row] = {}
    slots: dict[str, tuple[str, Scope, str]] = {}
    for one in written:
        record = one.event.record
        slot = (record.environment, record.scope, record.key)
        if record.id not in slots:
            slots[record.id] = slot
            found = places.database.execute(
                "SELECT row, place, terms, key FROM records WHERE id = ?", (record.id,)
            ).fetchone()
            if found:
                rows[record.id] = _Row(*found[:3])
                if (found[1], found[3]) != (places.find(record.environment, record.scope), record.key):
                    raise moved(record)
        if slots[record.id] != slot:
            raise moved(record)
    return rows


def _storable(text: str, what: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InvalidInput(f"{what} is text that UTF-8 can hold", got=ascii(text)) from error
    return text


# --- purging ---


def _counted(database: sqlite3.Connection, where: Where) -> dict[str, int]:
    """What `purge` would delete, row by row as it does it."""
    known = askable(where, any_status=True)
    if known is None:
        return {}
    spans = _spans(_Places(database), known)
    rows = _rows(database, spans, known)
    results: set[str] = set()
    counts = dict.fromkeys(_COUNTED, 0) | {"records": len(rows), "index": len(rows)}
    for row in rows:
        for name in ("events", "sources"):
            counts[name] += database.execute(
                f"SELECT count(*) FROM {name} WHERE record = ?", (row,)
            ).fetchone()[0]
        results.update(_results_of(database, "record = ?", (row,)))
    if all_of_slots(known):
        stones = _slot_keys(known)
        for span in spans:
            results |= _results_in(database, span, known)
            counts["tombstones"] += database.execute(
                f"SELECT count(*) FROM tombstones WHERE {span.of('place')}{stones.text}",
                (*span.values, *stones.values),
            ).fetchone()[0]
    return counts | {"idempotency": len(results)}


def _purge_records(database: sqlite3.Connection, where: Where) -> dict[str, int]:
    """Deletes up to a batch of records with all that hangs on them; how many rows of each kind."""
    counts = dict.fromkeys(_COUNTED, 0)
    known = askable(where, any_status=True)
    if known is None:
        return counts
    rows = _rows(database, _spans(_Places(database), known), known, _BATCH)[:_BATCH]
    if not rows:
        return counts
    database.execute("INSERT INTO marks VALUES ('purge')")
    _mark(database)
    for row in rows:
        place, terms = database.execute("SELECT place, terms FROM records WHERE row = ?", (row,)).fetchone()
        counts["idempotency"] += _drop_results(database, _results_of(database, "record = ?", (row,)))
        counts["events"] += database.execute("DELETE FROM events WHERE record = ?", (row,)).rowcount
        counts["sources"] += database.execute("DELETE FROM sources WHERE record = ?", (row,)).rowcount
        database.execute(_NO_WORDS, (row, terms, f"p{place}"))
        database.execute("DELETE FROM records WHERE row = ?", (row,))
    counts["records"] = counts["index"] = len(rows)
    database.execute("DELETE FROM marks WHERE name = 'purge'")
    return counts


def _purge_slots(database: sqlite3.Connection, where: Where) -> dict[str, int]:
    """Deletes what slots have besides records, when `where` means all of them."""
    counts = {"tombstones": 0, "idempotency": 0}
    known = askable(where, any_status=True)
    if known is None or not all_of_slots(known):
        return counts
    stones = _slot_keys(known)
    empty = " AND ".join(
        f"NOT EXISTS (SELECT 1 FROM {table} WHERE {table}.place = places.id)"
        for table in ("records", "events", "tombstones", "result_places")
    )
    for span in _spans(_Places(database), known):
        counts["idempotency"] += _drop_results(database, _results_in(database, span, known))
        counts["tombstones"] += database.execute(
            f"DELETE FROM tombstones WHERE {span.of('place')}{stones.text}", (*span.values, *stones.values)
        ).rowcount
        if database.execute(f"DELETE FROM places WHERE {span.of('id')} AND {empty}", span.values).rowcount:
            _mark(database)  # its name is somebody's too
    if any(counts.values()):
        _mark(database)
    return counts


def _slot_keys(where: Where, *more: str) -> _Sql:
    """Of which keys, where `where` names any."""
    keys = (*where.keys, *more) if where.keys else ()
    return _condition(Where(environment="", scopes=(), keys=keys), any_status=True)


def _results_in(database: sqlite3.Connection, span: _Span, where: Where) -> set[str]:
    """The results of slots: of their keys, and of transactions that asked about a whole scope."""
    if where.whole == "tenant" and not where.keys:
        return {result for (result,) in database.execute("SELECT key FROM results")}
    keys = _slot_keys(where, "")
    return _results_of(database, span.of("place") + keys.text, (*span.values, *keys.values))


def _results_of(database: sqlite3.Connection, condition: str, values: tuple[Any, ...]) -> set[str]:
    found = database.execute(f"SELECT DISTINCT result FROM result_places WHERE {condition}", values)
    return {result for (result,) in found}


def _drop_results(database: sqlite3.Connection, results: set[str]) -> int:
    for result in results:
        database.execute("DELETE FROM result_places WHERE result = ?", (result,))
        database.execute("DELETE FROM results WHERE key = ?", (result,))
    return len(results)


def _mark(database: sqlite3.Connection) -> None:
    """Notes that there are bytes to be overwritten."""
    database.execute("INSERT INTO marks VALUES (?)", (f"rewrite {new_ulid()}",))


def _marks_of(database: sqlite3.Connection) -> list[tuple[str]]:
    """All that is noted outside a purge's transactions."""
    return database.execute("SELECT name FROM marks").fetchall()


def _add(counts: dict[str, int], more: dict[str, int]) -> None:
    for name, number in more.items():
        counts[name] += number
