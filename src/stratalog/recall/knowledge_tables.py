"""The tables of documents, and what is asked and changed in them within a transaction.

`words` is an FTS5 table without content over terms that are made in Python, with the collection as one more
term: a search within a collection costs what the collection costs. Taking a row out of it needs the terms
that were put in, so a chunk's row keeps them. `terms_of` says which version of the function made them.
"""

from __future__ import annotations

import math
import re
import sqlite3
from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Final, NamedTuple

import msgspec

from stratalog.ids import new_ulid
from stratalog.recall.ranking import by_prefix
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
# A question's rarest words find; beyond so many chunks that have them, the others only rank.
_BUDGET: Final = 6_000
_RANKED: Final = 100  # chunks, and more where more are wanted
_K1: Final = 1.2  # as FTS5 has them
_B: Final = 0.75
_PLACE: Final = re.compile("c[0-9]+")
_AVERAGES: Final = "SELECT block FROM words_data WHERE id = 1"
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


def having(db: sqlite3.Connection, words: Iterable[str]) -> dict[str, int]:
    """How many chunks have each of the words, at most for one that is asked for as a beginning; a word that
    none has may be missing."""
    found: dict[str, int] = {}
    # It stores nothing, and goes with the transaction.
    db.execute("CREATE VIRTUAL TABLE IF NOT EXISTS temp.vocabulary USING fts5vocab (main, words, row)")
    for word in words:
        if by_prefix(word):
            asked = "SELECT coalesce(sum(doc), 0) FROM vocabulary WHERE term >= ? AND term < ?"
            values: tuple[str, ...] = (word, chr(ord(word) + 1))
        elif _PLACE.fullmatch(word):  # every chunk of a collection has its term
            asked, values = "SELECT count(*) FROM words WHERE words MATCH ?", (_match([word]),)
        else:
            asked, values = "SELECT doc FROM vocabulary WHERE term = ?", (word,)
        row = db.execute(asked, values).fetchone()
        if row is not None:
            found[word] = int(row[0])
    return found


def ranked(
    db: sqlite3.Connection,
    asked: Sequence[str],
    known: Mapping[str, int],
    collections: Sequence[int] | None,
    limit: int,
) -> list[tuple[float, int]]:
    """Score and row of the chunks that have most of these words, by BM25, the best first; of those that say
    the same under the same headings one. `known` is what `having` gives of the words.

    The chunks are found by the rarest words, as many as stand in a bounded number of chunks together, and one
    always; the best of these are ranked by all the words.
    """
    words = [word for word in asked if known.get(word)]
    if not words:
        return []
    narrowed, share = "", 1.0
    if collections is not None:
        narrowed = f" AND place : ({' OR '.join(f'c{each}' for each in collections)})"
        share = _share(db, collections)
    rarest = _rarest(words, known, share)
    found = db.execute(
        "SELECT -rank, rowid FROM words"
        f" WHERE words MATCH ? AND rank MATCH 'bm25({_PREFIX_WEIGHT}, 1.0, 0)' ORDER BY rank",
        (f"{_match(rarest)}{narrowed}",),
    )
    if len(rarest) == len(words):
        return list(islice(_distinct(db, found), limit))
    few = list(islice(_distinct(db, found), max(_RANKED, 3 * limit)))
    return _by_all(db, [row for _, row in few], words, known)[:limit]


def chunk_values(db: sqlite3.Connection, condition: str, values: Sequence[Any]) -> list[tuple[Any, ...]]:
    """The columns `CHUNK` of the chunks for which `condition` holds."""
    found = db.execute(f"SELECT {CHUNK} FROM chunks WHERE {condition}", values)
    return [(*row[:3], tuple(msgspec.json.decode(row[3])), *row[4:]) for row in found]


def _rarest(words: Sequence[str], known: Mapping[str, int], share: float) -> list[str]:
    """The rarest, of which as many as are to find chunks, when these are such a share of all."""
    chosen: list[str] = []
    left = float(_BUDGET)
    for word in sorted(words, key=known.__getitem__):
        left -= known[word] * share
        if chosen and left < 0:
            break
        chosen.append(word)
    return chosen


def _share(db: sqlite3.Connection, collections: Sequence[int]) -> float:
    """Which part of all chunks is in these collections."""
    marks = ", ".join("?" * len(collections))
    (some, every) = db.execute(
        f"SELECT coalesce(sum(chunks) FILTER (WHERE collection IN ({marks})), 0), sum(chunks) FROM documents",
        list(collections),
    ).fetchone()
    return some / every if every else 1.0


def _distinct(db: sqlite3.Connection, found: Iterable[tuple[float, int]]) -> Iterator[tuple[float, int]]:
    """Those of the rows that do not say under the same headings what one before them says."""
    seen: set[tuple[str, str]] = set()
    for score, row in found:
        said = db.execute("SELECT path, text FROM chunks WHERE row = ?", (row,)).fetchone()
        if said not in seen:
            seen.add(said)
            yield score, row


def _by_all(
    db: sqlite3.Connection, rows: Sequence[int], words: Sequence[str], known: Mapping[str, int]
) -> list[tuple[float, int]]:
    """The rows by what FTS5's `bm25` would give them for all the words, the best first, of equal ones the
    lower."""
    every, size = _totals(db)
    known = {word: min(known[word], every) for word in words}
    idf = {word: math.log((every - known[word] + 0.5) / (known[word] + 0.5)) for word in words}
    idf = {word: max(value, 1e-6) for word, value in idf.items()}
    scored = []
    for row in rows:
        held = db.execute("SELECT prefix_terms, text_terms FROM chunks WHERE row = ?", (row,)).fetchone()
        around, own = (Counter(terms.split(" ")) if terms else Counter[str]() for terms in held)
        length = around.total() + own.total() + 1  # and the term of its collection
        much = _K1 * (1 - _B + _B * length * every / size)
        score = 0.0
        for word in words:
            count = _PREFIX_WEIGHT * _count(around, word) + _count(own, word)
            if count:
                score += idf[word] * count * (_K1 + 1) / (count + much)
        scored.append((score, row))
    return sorted(scored, key=lambda each: (-each[0], each[1]))


def _count(held: Mapping[str, int], word: str) -> int:
    if len(word) == 1 and by_prefix(word):
        return sum(count for term, count in held.items() if term.startswith(word))
    return held.get(word, 0)


def _totals(db: sqlite3.Connection) -> tuple[int, int]:
    """How many rows `words` has, and of how many terms: FTS5 keeps both, as varints."""
    numbers, number = [], 0
    for byte in db.execute(_AVERAGES).fetchone()[0]:
        number = number << 7 | byte & 0x7F
        if byte < 0x80:
            numbers.append(number)
            number = 0
    return numbers[0], sum(numbers[1:])


def _match(words: Iterable[str]) -> str:
    """The FTS5 condition. Terms have no quotes, and in quotes nothing is an operator."""
    asked = " OR ".join(f'"{word}"*' if by_prefix(word) else f'"{word}"' for word in words)
    return f"{{prefix text}} : ({asked})"


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
