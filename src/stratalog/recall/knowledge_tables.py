"""The tables of documents, and what is asked and changed in them within a transaction.

`words` is an FTS5 table without content over terms that are made in Python, with the collection as one more
term: a search within a collection costs what the collection costs. Taking a row out of it needs the terms
that were put in, so a chunk's row keeps them. `terms_of` says which version of the function made them.
"""

from __future__ import annotations

import sqlite3
from collections import defaultdict, deque
from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from stratalog.ids import new_ulid
from stratalog.recall.terms import VERSION, terms

FILE: Final = "knowledge.sqlite3"
APPLICATION: Final = 0x5374_6C64  # "Stld"
MIGRATIONS: Final = (
    """
CREATE TABLE collections (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, mark TEXT NOT NULL);
CREATE TABLE documents (
    row INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, collection INTEGER NOT NULL, name TEXT NOT NULL,
    format TEXT NOT NULL, media_type TEXT NOT NULL, sha256 TEXT NOT NULL, bytes INTEGER NOT NULL,
    reading INTEGER NOT NULL, title TEXT NOT NULL, unit TEXT NOT NULL,
    added_at INTEGER NOT NULL, updated_at INTEGER NOT NULL, chunks INTEGER NOT NULL,
    UNIQUE (collection, name));
CREATE TABLE chunks (
    row INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, document INTEGER NOT NULL, ordinal INTEGER NOT NULL,
    path TEXT NOT NULL, start INTEGER NOT NULL, stop INTEGER NOT NULL,
    first INTEGER NOT NULL, last INTEGER NOT NULL,
    prefix TEXT NOT NULL, sentence TEXT NOT NULL, text TEXT NOT NULL,
    prefix_terms TEXT NOT NULL, text_terms TEXT NOT NULL);
CREATE INDEX chunks_in_order ON chunks (document, ordinal);
CREATE VIRTUAL TABLE words USING fts5 (
    prefix, text, place, content='', tokenize="ascii tokenchars '._-/\\:@#&+'")""",
    """
CREATE TABLE terms_of (version INTEGER NOT NULL);
INSERT INTO terms_of VALUES (1)""",
)
_BATCH: Final = 200
# The title of a document is in the prefix of each of its chunks, where it says less than the chunk itself.
_PREFIX_WEIGHT: Final = 0.7
_ADD: Final = "INSERT INTO words (rowid, prefix, text, place) VALUES (?, ?, ?, ?)"
_TAKE: Final = "INSERT INTO words (words, rowid, prefix, text, place) VALUES ('delete', ?, ?, ?, ?)"
DOCUMENT: Final = (
    "documents.id, collections.name, documents.name, documents.format, media_type, sha256, bytes, title,"
    " unit, added_at, updated_at, documents.chunks"
)
CHUNK: Final = (
    "chunks.id, (SELECT id FROM documents WHERE row = document), ordinal, path, start, stop, first, last,"
    " prefix, sentence, text"
)
JOINED: Final = "documents JOIN collections ON collections.id = documents.collection"


class Draft(NamedTuple):
    """A chunk that is to be stored. It has no id: one that says the same may have it. Terms are joined by
    spaces; both are "" where one that says the same was there when they would have been made."""

    path: tuple[str, ...]
    start: int
    stop: int
    first: int
    last: int
    prefix: str
    sentence: str
    text: str
    prefix_terms: str = ""
    text_terms: str = ""

    def with_terms(self) -> Draft:
        """The same with its terms."""
        around, own = _terms(self.prefix, self.sentence, self.text)
        return self._replace(prefix_terms=around, text_terms=own)


class Head(NamedTuple):
    """What is to be stored of a document beside its chunks."""

    format: str
    media_type: str
    sha256: str
    bytes: int
    reading: int
    title: str
    unit: str


class Stored(NamedTuple):
    """What became of a document's chunks; `new` says that there was no such document, `same` that nothing
    was written."""

    id: str
    new: bool
    same: bool
    added: int
    kept: int
    removed: int


def collection_id(db: sqlite3.Connection, name: str) -> int | None:
    row = db.execute("SELECT id FROM collections WHERE name = ?", (name,)).fetchone()
    return row[0] if row else None


def head_of(db: sqlite3.Connection, collection: str, name: str) -> tuple[int, str, Head] | None:
    """The row, the id and the head of a document; None when there is none."""
    row = db.execute(
        "SELECT row, documents.id, format, media_type, sha256, bytes, reading, title, unit"
        f" FROM {JOINED} WHERE collections.name = ? AND documents.name = ?",
        (collection, name),
    ).fetchone()
    return (row[0], row[1], Head(*row[2:])) if row else None


def sentences(db: sqlite3.Connection, document: int) -> dict[tuple[str, str], str]:
    """The sentences of a document's chunks, by prefix and text."""
    found = db.execute("SELECT prefix, text, sentence FROM chunks WHERE document = ?", (document,))
    return {(prefix, text): sentence for prefix, text, sentence in found}


def store(
    db: sqlite3.Connection, collection: str, name: str, head: Head, drafts: Sequence[Draft], now: int
) -> Stored:
    """Makes the document what is given. A chunk that says the same as one before keeps its id; a sentence
    that a chunk has is not taken from it."""
    place = _collection(db, collection)
    old = head_of(db, collection, name)
    if old is None:
        document, id = _document(db, place, name, head, now)
        was: dict[tuple[str, str], deque[tuple[int, str]]] = {}
    else:
        document, id = old[:2]
        was = _chunks_by_words(db, document)
    fresh, kept = [], 0
    for ordinal, draft in enumerate(drafts):
        there = was.get((draft.prefix, draft.text))
        if there and (there[0][1] or not draft.sentence):
            row, _ = there.popleft()
            kept += 1
            _move(db, row, ordinal, draft)
        else:
            fresh.append((ordinal, draft))
    gone = [row for rows in was.values() for row, _ in rows]
    take_out(db, gone)
    # Of a store without chunks nothing is to be made anew.
    db.execute("UPDATE terms_of SET version = ? WHERE NOT EXISTS (SELECT 1 FROM chunks)", (VERSION,))
    for ordinal, draft in fresh:
        _insert(db, place, document, ordinal, draft, now)
    same = old is not None and old[2] == head and not fresh and not gone
    if not same:
        values = (*head, now, len(drafts), document)
        names = ", ".join(f"{field} = ?" for field in Head._fields)
        db.execute(f"UPDATE documents SET {names}, updated_at = ?, chunks = ? WHERE row = ?", values)
        _changed(db, place, now)
    return Stored(id, old is None, same, len(fresh), kept, len(gone))


def of_present_terms(db: sqlite3.Connection) -> bool:
    """Whether all chunks have the terms that texts have now."""
    asked = "SELECT version = ? OR NOT EXISTS (SELECT 1 FROM chunks) FROM terms_of"
    return bool(db.execute(asked, (VERSION,)).fetchone()[0])


def make_terms_anew(db: sqlite3.Connection) -> None:
    """Makes the terms of all chunks, and puts those in the index that are others than before."""
    after = -1
    while found := db.execute(
        "SELECT chunks.row, 'c' || collection, prefix, sentence, text, prefix_terms, text_terms FROM chunks"
        " JOIN documents ON documents.row = document WHERE chunks.row > ? ORDER BY chunks.row LIMIT ?",
        (after, _BATCH),
    ).fetchall():
        for row, place, prefix, sentence, text, *before in found:
            now = _terms(prefix, sentence, text)
            if list(now) != before:
                db.execute(_TAKE, (row, *before, place))
                db.execute(_ADD, (row, *now, place))
                db.execute("UPDATE chunks SET prefix_terms = ?, text_terms = ? WHERE row = ?", (*now, row))
        after = found[-1][0]
    db.execute("UPDATE terms_of SET version = ?", (VERSION,))


def take_out(db: sqlite3.Connection, rows: Iterable[int]) -> None:
    """Deletes chunks with what was made of them."""
    for row in rows:
        words = db.execute(
            "SELECT chunks.row, prefix_terms, text_terms, 'c' || collection FROM chunks"
            " JOIN documents ON documents.row = document WHERE chunks.row = ?",
            (row,),
        ).fetchone()
        db.execute(_TAKE, words)
        db.execute("DELETE FROM chunks WHERE row = ?", (row,))


def drop(db: sqlite3.Connection, id: str, now: int) -> None:
    """Deletes a document."""
    document, place = db.execute("SELECT row, collection FROM documents WHERE id = ?", (id,)).fetchone()
    rows = db.execute("SELECT row FROM chunks WHERE document = ?", (document,)).fetchall()
    take_out(db, [row for (row,) in rows])
    db.execute("DELETE FROM documents WHERE row = ?", (document,))
    _changed(db, place, now)


def ranked(
    db: sqlite3.Connection, words: str, collections: Sequence[int] | None, limit: int
) -> list[tuple[float, int]]:
    """Score and row of the chunks that match best, the best first. `words` is a condition of FTS5."""
    narrowed, condition, values = "", "", []
    if collections is not None:
        narrowed = f" AND place : ({' OR '.join(f'c{each}' for each in collections)})"
        condition = f"AND documents.collection IN ({', '.join('?' * len(collections))})"
        values = list(collections)
    found = db.execute(
        "SELECT -words.rank, chunks.row FROM words CROSS JOIN chunks ON chunks.row = words.rowid"
        " CROSS JOIN documents ON documents.row = chunks.document"
        f" WHERE words MATCH ? AND rank MATCH 'bm25({_PREFIX_WEIGHT}, 1.0, 0)' {condition}"
        " ORDER BY words.rank LIMIT ?",
        (f"{{prefix text}} : ({words}){narrowed}", *values, limit),
    )
    return found.fetchall()


def chunk_values(db: sqlite3.Connection, condition: str, values: Sequence[Any]) -> list[tuple[Any, ...]]:
    """The columns `CHUNK` of the chunks for which `condition` holds."""
    found = db.execute(f"SELECT {CHUNK} FROM chunks WHERE {condition}", values)
    return [(*row[:3], tuple(msgspec.json.decode(row[3])), *row[4:]) for row in found]


def _collection(db: sqlite3.Connection, name: str) -> int:
    """The collection's number, made when there is none."""
    db.execute("INSERT OR IGNORE INTO collections (name, mark) VALUES (?, '')", (name,))
    made = collection_id(db, name)
    assert made is not None
    return made


def _changed(db: sqlite3.Connection, collection: int, now: int) -> None:
    db.execute("UPDATE collections SET mark = ? WHERE id = ?", (new_ulid(now), collection))


def _document(db: sqlite3.Connection, place: int, name: str, head: Head, now: int) -> tuple[int, str]:
    id = new_ulid(now)
    row = db.execute(
        "INSERT INTO documents (id, collection, name, format, media_type, sha256, bytes, reading, title,"
        " unit, added_at, updated_at, chunks) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 0)",
        (id, place, name, *head, now, now),
    ).lastrowid
    assert row is not None
    return row, id


def _chunks_by_words(db: sqlite3.Connection, document: int) -> dict[tuple[str, str], deque[tuple[int, str]]]:
    """Row and sentence of the document's chunks, by prefix and text, in order."""
    found: dict[tuple[str, str], deque[tuple[int, str]]] = defaultdict(deque)
    query = "SELECT prefix, text, row, sentence FROM chunks WHERE document = ? ORDER BY ordinal"
    for prefix, text, row, sentence in db.execute(query, (document,)):
        found[prefix, text].append((row, sentence))
    return found


def _move(db: sqlite3.Connection, row: int, ordinal: int, draft: Draft) -> None:
    """Notes where the chunk stands now."""
    db.execute(
        "UPDATE chunks SET ordinal = ?, path = ?, start = ?, stop = ?, first = ?, last = ? WHERE row = ?",
        (ordinal, _json(draft.path), draft.start, draft.stop, draft.first, draft.last, row),
    )


def _insert(db: sqlite3.Connection, place: int, document: int, ordinal: int, draft: Draft, now: int) -> None:
    if not (draft.prefix_terms or draft.text_terms):
        draft = draft.with_terms()
    row = db.execute(
        "INSERT INTO chunks (id, document, ordinal, path, start, stop, first, last, prefix, sentence, text,"
        " prefix_terms, text_terms) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (new_ulid(now), document, ordinal, _json(draft.path), *draft[1:]),
    ).lastrowid
    db.execute(_ADD, (row, draft.prefix_terms, draft.text_terms, f"c{place}"))


def _terms(prefix: str, sentence: str, text: str) -> tuple[str, str]:
    """The terms of what is around a chunk and of its text, joined by spaces."""
    return " ".join(terms(f"{prefix}\n{sentence}")), " ".join(terms(text))


def _json(path: tuple[str, ...]) -> str:
    return msgspec.json.encode(path).decode()
