"""The tables of the lexical index, and what is asked and changed in them within a transaction.

`docs` holds the documents (see `documents`) under numbers by which neighbours are found, with their terms.
`lex` is an FTS5 table without content that names the documents with a term: a word of theirs, of their day or
of their scope (see `scopes`). `words` says of each term how many documents have it as a word or as a scope
(`said`) and how many have it of their day (`dated`), and of each word of a name (with `=n` before it) how
many it said. Taking a row out of `lex` needs the terms that went in: they are computed by one pure function
from what is stored, for insertion and removal alike.
"""

from __future__ import annotations

import json
import secrets
import sqlite3
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from stratalog.errors import InvalidInput
from stratalog.keys import SessionKey
from stratalog.recall.documents import PLACES, Document, date_terms, numbered, talk_of
from stratalog.recall.ranking import Brief, Row
from stratalog.recall.scopes import scope_terms

TABLES: Final = """
CREATE TABLE sessions (
    id INTEGER PRIMARY KEY,
    tenant TEXT NOT NULL, agent TEXT NOT NULL, channel TEXT NOT NULL, chat TEXT NOT NULL,
    generation INTEGER NOT NULL, seq INTEGER NOT NULL,
    docs INTEGER NOT NULL, last INTEGER NOT NULL, made TEXT NOT NULL,
    UNIQUE (tenant, agent, channel, chat)
);
CREATE TABLE docs (
    id INTEGER PRIMARY KEY,
    session INTEGER NOT NULL,
    seq INTEGER NOT NULL, ts INTEGER NOT NULL, role TEXT NOT NULL, injected INTEGER NOT NULL,
    entry_id TEXT NOT NULL, turn TEXT NOT NULL,
    start INTEGER NOT NULL, stop INTEGER NOT NULL, preview TEXT NOT NULL,
    speaker TEXT NOT NULL, asks INTEGER NOT NULL, size INTEGER NOT NULL, terms TEXT NOT NULL
);
CREATE INDEX docs_of_session ON docs (session, entry_id, start);
CREATE TABLE words (term TEXT PRIMARY KEY, said INTEGER NOT NULL, dated INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE totals (docs INTEGER NOT NULL, turns INTEGER NOT NULL, size INTEGER NOT NULL);
INSERT INTO totals VALUES (0, 0, 0);
CREATE VIRTUAL TABLE lex USING fts5 (
    terms, content='', detail='none', columnsize=0, tokenize="ascii tokenchars '._-/\\:@#&+='"
);
"""
DOC: Final = ", ".join(Document._fields)
NAME: Final = "=n"
_BRIEF: Final = (
    "SELECT docs.id, size, role, injected, speaker, session, entry_id, start FROM json_each(?) AS wanted"
    " CROSS JOIN docs ON docs.id = wanted.value"
)
_WITH_NEAR: Final = (
    f"SELECT docs.id, session, seq, role, docs.id >> {PLACES}, speaker, asks, size, injected, ts,"
    " ' ' || terms || ' ' FROM json_each(?) AS wanted"
    " CROSS JOIN docs ON docs.id BETWEEN wanted.value - ? AND wanted.value + ?"
    f" WHERE docs.id >> {PLACES} = wanted.value >> {PLACES}"
)
_KEY: Final = "(tenant, agent, channel, chat) = (?, ?, ?, ?)"
_TALKING: Final = ("user", "assistant")
_INSERT: Final = "INSERT INTO lex (rowid, terms) VALUES (?, ?)"
_REMOVE: Final = "INSERT INTO lex (lex, rowid, terms) VALUES ('delete', ?, ?)"
_COUNT: Final = """
INSERT INTO words VALUES (?, ?, ?)
ON CONFLICT (term) DO UPDATE SET said = said + excluded.said, dated = dated + excluded.dated
"""


class Having(NamedTuple):
    """How many documents have a term as a word or a scope, and how many of their day."""

    said: int
    dated: int


class Totals(NamedTuple):
    """How many documents there are; of them the messages of persons and models, and the size of these."""

    docs: int
    turns: int
    size: int

    @property
    def mean_size(self) -> float:
        return max(self.size / self.turns, 1.0) if self.turns else 10.0


def session_id(db: sqlite3.Connection, session: SessionKey) -> int | None:
    row = db.execute(f"SELECT id FROM sessions WHERE {_KEY}", session).fetchone()
    return row[0] if row else None


def ids_of(db: sqlite3.Connection, sessions: Iterable[SessionKey]) -> list[int]:
    """The row ids of those of the sessions that are here."""
    found = (session_id(db, session) for session in sessions)
    return sorted(sid for sid in found if sid is not None)


def enter_session(db: sqlite3.Connection, session: SessionKey) -> tuple[int, int]:
    """The session's row id and watermark, made when missing. Raises `InvalidInput` for another tenant's."""
    other = db.execute("SELECT tenant FROM sessions LIMIT 1").fetchone()
    if other and other[0] != session.tenant:
        raise InvalidInput(
            "this index belongs to another tenant", key=session, tenant=other[0],
            hint="use one index for each tenant",
        )  # fmt: skip
    db.execute(
        "INSERT OR IGNORE INTO sessions (tenant, agent, channel, chat, generation, seq, docs, last, made)"
        " VALUES (?, ?, ?, ?, 0, 0, 0, 0, ?)",
        (*session, secrets.token_hex(4)),
    )
    row = db.execute(f"SELECT id, seq FROM sessions WHERE {_KEY}", session).fetchone()
    return row[0], row[1]


def append(db: sqlite3.Connection, sid: int, session: SessionKey, new: Sequence[Document]) -> None:
    """Store `new` after the session's other documents."""
    if not new:
        return
    (highest,) = db.execute("SELECT coalesce(max(id), 0) FROM docs").fetchone()
    last = _document(db, "id = (SELECT last FROM sessions WHERE id = ?)", sid)
    # In the order of their numbers: FTS5 writes out what it has when one is lower than the one before.
    made = numbered(new, last, highest)
    db.executemany(
        f"INSERT INTO docs (session, {DOC}) VALUES (?{', ?' * len(Document._fields)})",
        ((sid, *document) for document in made),
    )
    db.executemany(_INSERT, ((document.id, terms_of(sid, session, document)) for document in made))
    _count(db, sid, session, made, 1)
    plain = [document for document in made if not document.injected]
    newest = max(plain, key=lambda document: document.seq).id if plain else 0
    db.execute(
        "UPDATE sessions SET docs = docs + ?, last = max(last, ?) WHERE id = ?", (len(made), newest, sid)
    )


def take_out(db: sqlite3.Connection, sid: int, session: SessionKey) -> None:
    """Remove the session with its documents."""
    found = db.execute(f"SELECT {DOC} FROM docs WHERE session = ? ORDER BY id", (sid,))
    gone = [Document(*row) for row in found]
    db.executemany(_REMOVE, ((document.id, terms_of(sid, session, document)) for document in gone))
    _count(db, sid, session, gone, -1)
    db.execute("DELETE FROM docs WHERE session = ?", (sid,))
    db.execute("DELETE FROM sessions WHERE id = ?", (sid,))


def terms_of(sid: int, session: SessionKey, document: Document) -> str:
    """What `lex` holds of a document."""
    scope = scope_terms(sid, session, document.role, document.ts)
    return " ".join([document.terms, *date_terms(document.ts), *scope])


def having(db: sqlite3.Connection, terms: Collection[str]) -> dict[str, Having]:
    """Of each term that any document has, how many have it."""
    found = db.execute(
        "SELECT term, said, dated FROM words WHERE term IN (SELECT value FROM json_each(?))",
        (json.dumps(list(terms)),),
    )
    return {term: Having(said, dated) for term, said, dated in found}


def beginning(db: sqlite3.Connection, start: str) -> Having:
    """How many times, at most, documents have terms that begin with this one character."""
    found = db.execute(
        "SELECT coalesce(sum(said), 0), coalesce(sum(dated), 0) FROM words WHERE term >= ? AND term < ?",
        (start, chr(ord(start) + 1)),
    ).fetchone()
    return Having(*found)


def totals(db: sqlite3.Connection) -> Totals:
    return Totals(*db.execute("SELECT docs, turns, size FROM totals").fetchone())


def matching(
    db: sqlite3.Connection, match: str, conditions: Sequence[tuple[str, int | str]], most: int
) -> list[int]:
    """The numbers of at most so many documents that match and meet the conditions, SQL on `docs` with a value
    each; the highest first."""
    joined = "CROSS JOIN docs ON docs.id = lex.rowid" if conditions else ""
    # One value, for to step through so many rows takes longer.
    (found,) = db.execute(
        f"SELECT json_group_array(at) FROM (SELECT lex.rowid AS at FROM lex {joined} WHERE lex MATCH ?"
        f" {''.join(f' AND {sql}' for sql, _ in conditions)} ORDER BY lex.rowid DESC LIMIT ?)",
        (match, *(value for _, value in conditions), most),
    ).fetchone()
    return sorted(json.loads(found), reverse=True)


def briefs(db: sqlite3.Connection, numbers: Sequence[int]) -> list[Brief]:
    """What candidates are chosen by, of the documents with these numbers, in their order."""
    return [Brief._make(values) for values in db.execute(_BRIEF, (json.dumps(numbers),))]


def sessions_of(db: sqlite3.Connection, numbers: Iterable[int]) -> dict[int, int]:
    """The row ids of the sessions of the talks of the documents with these numbers."""
    one = {talk_of(number): number for number in numbers}
    found = db.execute(
        "SELECT id, session FROM docs WHERE id IN (SELECT value FROM json_each(?))",
        (json.dumps(list(one.values())),),
    )
    return {talk_of(number): sid for number, sid in found}


def with_near(db: sqlite3.Connection, numbers: Iterable[int], reach: int) -> dict[int, Row]:
    """The documents with these numbers and as many before and after each in its talk, in order."""
    found = db.execute(_WITH_NEAR, (json.dumps(sorted(numbers)), reach, reach))
    rows = {values[0]: Row._make(values) for values in found}
    return dict(sorted(rows.items()))


def documents_at(db: sqlite3.Connection, numbers: Iterable[int]) -> dict[int, Document]:
    """The documents with these numbers."""
    found = db.execute(
        f"SELECT {DOC} FROM docs WHERE id IN (SELECT value FROM json_each(?))", (json.dumps(list(numbers)),)
    )
    return {row[0]: Document(*row) for row in found}


def named_at(db: sqlite3.Connection, numbers: Iterable[int]) -> dict[int, tuple[str, int]]:
    """Of the documents with these numbers the entry's id and where their passage starts."""
    found = db.execute(
        "SELECT id, entry_id, start FROM docs WHERE id IN (SELECT value FROM json_each(?))",
        (json.dumps(list(numbers)),),
    )
    return {number: (entry_id, start) for number, entry_id, start in found}


def number_of(db: sqlite3.Connection, sid: int, entry_id: str, start: int) -> int | None:
    """The number of a document of the session."""
    row = db.execute(
        "SELECT id FROM docs WHERE (session, entry_id, start) = (?, ?, ?)", (sid, entry_id, start)
    ).fetchone()
    return row[0] if row else None


def keys_of(db: sqlite3.Connection, sids: Collection[int]) -> dict[int, SessionKey]:
    """The sessions with these row ids."""
    found = db.execute(
        "SELECT id, tenant, agent, channel, chat FROM sessions WHERE id IN (SELECT value FROM json_each(?))",
        (json.dumps(sorted(sids)),),
    )
    return {sid: SessionKey(*key) for sid, *key in found}


def _document(db: sqlite3.Connection, where: str, *values: Any) -> Document | None:
    row = db.execute(f"SELECT {DOC} FROM docs WHERE {where}", values).fetchone()
    return Document(*row) if row else None


def _count(
    db: sqlite3.Connection, sid: int, session: SessionKey, documents: Sequence[Document], sign: int
) -> None:
    said, dated = _counted(sid, session, documents)
    every = sorted({*said, *dated})
    db.executemany(_COUNT, ((term, sign * said[term], sign * dated[term]) for term in every))
    if sign < 0:
        db.executemany("DELETE FROM words WHERE (term, said, dated) = (?, 0, 0)", ((term,) for term in every))
    turns = [document for document in documents if document.role in _TALKING and not document.injected]
    size = sum(document.size for document in turns)
    db.execute(
        "UPDATE totals SET docs = docs + ?, turns = turns + ?, size = size + ?",
        (sign * len(documents), sign * len(turns), sign * size),
    )


def _counted(
    sid: int, session: SessionKey, documents: Iterable[Document]
) -> tuple[Mapping[str, int], Mapping[str, int]]:
    said: Counter[str] = Counter()
    dated: Counter[str] = Counter()
    for document in documents:
        said.update(set(document.terms.split(" ")))
        said.update(scope_terms(sid, session, document.role, document.ts))
        said.update({NAME + word for word in document.speaker.split(" ") if word})
        dated.update(date_terms(document.ts))
    return said, dated
