"""The documents of one tenant: added as bytes, kept in chunks, updated by content, found by their words.

    <tenant>/knowledge.sqlite3      collections, documents, chunks, and the index of their words

A document is of a collection and has a name there, by which it is known again; the name is never opened. It
is read and cut before anything is written, and written in one transaction. A chunk that says the same as
before keeps its id, and what else was made of it, a vector, by that id; the others go with everything that
was made of them: `Derived` is told. `texts` is what is to be embedded of a collection, and `marks` say when
that has changed.

What is kept is what was read of a document, not its bytes, and the whole of that: nothing is cut off.
"""

from __future__ import annotations

import hashlib
import sqlite3
import unicodedata
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Protocol, Self, TypeAlias

from stratalog.errors import (
    Ambiguous,
    InvalidInput,
    ModelUnavailable,
    NotFound,
    SpendLimit,
    StratalogError,
    words_of,
)
from stratalog.ids import now_ms
from stratalog.memory.database import Database
from stratalog.points import reach
from stratalog.recall import knowledge_tables as tables
from stratalog.recall.chunks import chunked, prefix_of
from stratalog.recall.documents import storable
from stratalog.recall.excerpt import excerpt
from stratalog.recall.knowledge_tables import FILE as FILE
from stratalog.recall.knowledge_tables import Draft, Head
from stratalog.recall.knowledge_values import Chunk, Document, Passage, Put, Shelf
from stratalog.recall.ranking import MOST_READ, by_prefix, ends, telling
from stratalog.recall.reading.contract import Parsed
from stratalog.recall.reading.formats import FORMATS as FORMATS
from stratalog.recall.reading.formats import READING, Format, format_of, media_type_of, read
from stratalog.recall.terms import query_terms

Describe: TypeAlias = Callable[[str, str], str]
DEFAULT: Final = "default"
MAX_BYTES: Final = 64 * 1024 * 1024
_MAX_NAME: Final = 1024
_SENTENCE: Final = 400
_MOST_VALUES: Final = 500


class Derived(Protocol):
    """What keeps something that was made of chunks, by their ids. It raises nothing for what it cannot do at
    once."""

    def forget(self, collection: str, ids: Collection[str] | None) -> object:
        """Forgets what was made of these chunks, which are there no more; None is all of the collection."""
        ...

    def scrub(self) -> object:
        """Leaves no byte on the disk of what was forgotten."""
        ...


class Knowledge:
    """The documents in the file `path`. Safe for threads, processes and forks; a context manager.

    Every method raises what `memory.database.Database` does. The file is made by the first `put`. `derived`
    is told of chunks that are gone, once they are.
    """

    def __init__(
        self, path: Path, *, clock: Callable[[], int] = now_ms, derived: Derived | None = None
    ) -> None:
        self.path = path
        self._clock = clock
        self._derived = derived
        self._database = Database(path, "the store of documents", tables.APPLICATION, tables.MIGRATIONS)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Closes the file. It may be used again."""
        self._database.close()

    # --- changing ---

    def put(
        self,
        collection: str,
        name: str,
        data: bytes,
        *,
        format: Format | None = None,
        title: str = "",
        describe: Describe | None = None,
    ) -> Put:
        """Adds the document, or makes the one of this name in the collection what `data` says now; all or
        nothing. The collection is made when there is none. What is there already is not read again.

        The format is told by name and content unless it is said, the title by the document. `describe` gives
        a sentence that situates a chunk, from the document's text and the chunk's; it is asked for chunks
        that have none, its errors are told in the notes, and it is asked again by the next `put`.

        Raises `InvalidInput` for a document that is too large, of no known format, damaged or encrypted, and
        for a name that cannot be one; `InvalidConfig` when the package that reads it is not installed.
        """
        _checked("collection", collection)
        _checked("name", name)
        if len(data) > MAX_BYTES:
            raise InvalidInput(
                "this document is too large; nothing of it was added", name=name, bytes=len(data),
                most=MAX_BYTES, hint="split it",
            )  # fmt: skip
        how = format if format is not None else format_of(name, data)
        if how not in FORMATS:
            raise InvalidInput(
                "there is no such format", format=ascii(how)[:80], hint=f"formats are {', '.join(FORMATS)}"
            )
        digest = hashlib.sha256(data).hexdigest()
        known = self._head(collection, name)
        same = known is not None and _is_same(known[2], digest, how, title)
        said = self._sentences(known) if known is not None and (describe is not None or not same) else {}
        if known is not None and same and all(said.values()):
            there = self._look(known[1])
            if there is not None:  # nobody removed it meanwhile
                return Put(outcome="unchanged", document=there, added=0, kept=there.chunks, removed=0)
        parsed = read(name, data, how)
        head = Head(
            how, media_type_of(how, name), digest, len(data), READING, title or parsed.title, parsed.unit
        )
        drafts, notes = _drafts(parsed, head.title or _stem(name), said, describe)
        reach("knowledge.read")
        with self._database.writing() as db:
            known = tables.head_of(db, collection, name)
            before = _ids(db, known[1]) if known is not None else set()
            stored = tables.store(db, collection, name, head, drafts, self._clock())
            reach("knowledge.stored")
            document = _documents(db, "documents.id = ?", (stored.id,))[0]
            gone = before - _ids(db, stored.id) if stored.removed else set()
        self._forget(collection, gone)
        return Put(
            outcome="added" if stored.new else "unchanged" if stored.same else "updated",
            document=document,
            added=stored.added,
            kept=stored.kept,
            removed=stored.removed,
            notes=(*parsed.notes, *notes),
        )

    def remove(self, id: str) -> Document:
        """Deletes a document and everything that was made of it, and says what it was; `scrub` makes its
        bytes leave the disk too. Raises `NotFound`."""
        self.get(id)  # so that nothing is made where nothing is
        with self._database.writing() as db:
            found = _one(_documents(db, "documents.id = ?", (id,)), id)
            gone = _ids(db, id)
            tables.drop(db, id, self._clock())
        self._forget(found.collection, gone)
        return found

    def remove_collection(self, name: str) -> Shelf:
        """Deletes a collection with all its documents, as `remove` does each. Raises `NotFound`."""
        self._must_be(name)
        with self._database.writing() as db:
            shelf = next((each for each in _shelves(db) if each.name == name), None)
            if shelf is None:
                raise _no_collection(name)
            for document in _documents(db, "collections.name = ?", (name,)):
                tables.drop(db, document.id, self._clock())
            db.execute("DELETE FROM collections WHERE name = ?", (name,))
        self._forget(name, None)
        return shelf

    def scrub(self) -> None:
        """Leaves nothing in the file of what was removed or replaced, nor of what was made of it. Rewrites
        it: seconds for a large one. Raises `StoreBusy` also when another reads it so long that the bytes
        stay."""
        if not self.path.exists():
            return
        with self._database.writing() as db:
            db.execute("INSERT INTO words (words) VALUES ('optimize')")
        self._database.rewrite()
        if self._derived is not None:
            self._derived.scrub()

    def purge(self, *, dry_run: bool = False) -> dict[str, int]:
        """Deletes every document of the tenant, and leaves nothing of them in the file; the counts of what
        there was. With `dry_run` only these. Killed in the middle, the same call does the rest."""
        counts = self.counts()
        if not dry_run and self.path.exists():
            with self._database.writing() as db:
                for table in ("chunks", "documents", "collections"):
                    db.execute(f"DELETE FROM {table}")
                db.execute("INSERT INTO words (words) VALUES ('delete-all')")
            reach("knowledge.purged")
            self.scrub()
        return counts

    # --- looking ---

    def collections(self) -> list[Shelf]:
        """The collections by name, each with what it has."""
        with self._database.reading() as db:
            return [] if db is None else _shelves(db)

    def documents(self, collection: str | None = None) -> list[Document]:
        """The documents by collection and name. Raises `NotFound` for a collection that is not there."""
        if collection is not None:
            self._must_be(collection)
        with self._database.reading() as db:
            if db is None:
                return []
            if collection is None:
                return _documents(db, "1", ())
            return _documents(db, "collections.name = ?", (collection,))

    def get(self, id: str) -> Document:
        """The document of this id. Raises `NotFound`."""
        found = self._look(id)
        return _one([] if found is None else [found], id)

    def find(self, text: str, collection: str | None = None) -> Document:
        """The document that is called so, by its id or its name. Raises `NotFound`, and `Ambiguous` for a
        name that several collections have."""
        found = self.documents(collection)
        named = [each for each in found if text in (each.id, each.name)]
        if len(named) > 1:
            raise Ambiguous(
                "several collections have a document of this name", name=ascii(text)[1:-1],
                collections=[each.collection for each in named], hint="say which collection",
            )  # fmt: skip
        return _one(named, text)

    def chunks(self, id: str) -> list[Chunk]:
        """The chunks of a document, in order. Raises `NotFound`."""
        with self._database.reading() as db:
            _one([] if db is None else _documents(db, "documents.id = ?", (storable(id),)), id)
            assert db is not None
            return _chunks(db, "document = (SELECT row FROM documents WHERE id = ?) ORDER BY ordinal", (id,))

    def search(
        self,
        query: str,
        *,
        collections: Collection[str] | None = None,
        limit: int = 10,
        neighbours: int = 0,
    ) -> list[Passage]:
        """The `limit` best chunks that have any of the query's words, best first, each with so many chunks
        before and after it. `collections` narrow it exactly; None is all of the tenant's.

        Of chunks that say the same under the same headings one comes. `query` is plain words: no character in
        it is an operator, and of a long one 64 distinct terms count, those at its ends and the rarest. Raises
        `NotFound` for a collection that is not there, and `InvalidInput` for a negative limit.
        """
        if limit < 0 or neighbours < 0:
            raise InvalidInput("a limit cannot be negative", limit=limit, neighbours=neighbours)
        asked = ends(query_terms(query), MOST_READ)
        self._bring_up_to_date()
        with self._database.reading() as db:
            places = None if collections is None else [_place(db, name) for name in collections]
            if db is None or not asked or not limit or places == []:
                return []
            known = tables.having(db, asked)
            asked = list(telling(asked, known))
            found = tables.ranked(db, asked, known, places, limit)
            return [_passage(db, row, score, asked, neighbours) for score, row in found]

    def passages(self, ids: Sequence[str], *, neighbours: int = 0) -> list[Passage]:
        """The chunks of these ids, in their order, with a score of 0: those that are still there, each with
        so many chunks before and after it."""
        found: dict[str, Passage] = {}
        with self._database.reading() as db:
            for at in range(0, len(ids) if db is not None else 0, _MOST_VALUES):
                assert db is not None
                asked = [storable(each) for each in ids[at : at + _MOST_VALUES]]
                marks = ", ".join("?" * len(asked))
                for (row,) in db.execute(f"SELECT row FROM chunks WHERE id IN ({marks})", asked).fetchall():
                    passage = _passage(db, row, 0.0, [], neighbours)
                    found[passage.chunk.id] = passage
        return [found[each] for each in ids if each in found]

    def there(self, ids: Sequence[str]) -> set[str]:
        """Those of these ids of which the chunks are still there."""
        found: set[str] = set()
        with self._database.reading() as db:
            for at in range(0, len(ids) if db is not None else 0, _MOST_VALUES):
                assert db is not None
                asked = [storable(each) for each in ids[at : at + _MOST_VALUES]]
                marks = ", ".join("?" * len(asked))
                found.update(
                    id for (id,) in db.execute(f"SELECT id FROM chunks WHERE id IN ({marks})", asked)
                )
        return found

    def counts(self) -> dict[str, int]:
        """How many collections, documents and chunks there are, and of how many bytes."""
        shelves = self.collections()
        return {"collections": len(shelves)} | {
            name: sum(getattr(each, name) for each in shelves) for name in ("documents", "chunks", "bytes")
        }

    # --- for what is made of chunks ---

    def marks(self) -> Mapping[str, str]:
        """Every collection, with a mark that is another whenever its chunks are."""
        with self._database.reading() as db:
            return {} if db is None else dict(db.execute("SELECT name, mark FROM collections").fetchall())

    def texts(self, collection: str) -> Iterator[tuple[str, str]]:
        """The id of every chunk of a collection and what is to be embedded of it, at least as new as the
        mark that was given before; none when the collection is gone."""
        after = 0
        while True:
            with self._database.reading() as db:
                rows = [] if db is None else _next_rows(db, collection, after)
                found = [] if db is None else [_chunks(db, "row = ?", (row,))[0] for row in rows]
            if not rows:
                return
            yield from ((chunk.id, chunk.whole) for chunk in found)
            after = rows[-1]

    # --- how ---

    def _forget(self, collection: str, ids: Collection[str] | None) -> None:
        if self._derived is not None and (ids is None or ids):
            self._derived.forget(collection, ids)

    def _bring_up_to_date(self) -> None:
        """Has the chunks found under the terms that texts have now, when an earlier version made theirs."""
        with self._database.reading() as db:
            if db is None or tables.of_present_terms(db):
                return
        with self._database.writing() as db:
            if not tables.of_present_terms(db):  # nobody else has done it meanwhile
                tables.make_terms_anew(db)

    def _look(self, id: str) -> Document | None:
        with self._database.reading() as db:
            found = [] if db is None else _documents(db, "documents.id = ?", (storable(id),))
        return found[0] if found else None

    def _head(self, collection: str, name: str) -> tuple[int, str, Head] | None:
        with self._database.reading() as db:
            return None if db is None else tables.head_of(db, collection, name)

    def _sentences(self, known: tuple[int, str, Head]) -> dict[tuple[str, str], str]:
        with self._database.reading() as db:
            return {} if db is None else tables.sentences(db, known[0])

    def _must_be(self, collection: str) -> None:
        with self._database.reading() as db:
            _place(db, collection)


# --- decided beforehand ---


def _is_same(known: Head, digest: str, format: str, title: str) -> bool:
    """Whether what is stored is what would be read of these bytes."""
    same = (known.sha256, known.format, known.reading) == (digest, format, READING)
    return same and (not title or title == known.title)


def _drafts(
    parsed: Parsed, title: str, known: Mapping[tuple[str, str], str], describe: Describe | None
) -> tuple[list[Draft], list[str]]:
    """The chunks to be stored, and what could not be said of them."""
    drafts: list[Draft] = []
    failed: dict[str, int] = {}
    stopped = ""
    for piece in chunked(parsed):
        text = parsed.text[piece.start : piece.stop]
        prefix = prefix_of(title, piece.path)
        sentence = known.get((prefix, text), "")
        if describe is not None and not sentence:
            reason = stopped
            if not stopped:
                sentence, reason, ended = _described(describe, parsed.text, text)
                stopped = reason if ended else ""
            if reason:
                failed[reason] = failed.get(reason, 0) + 1
        draft = Draft(*piece, prefix, sentence, text)
        drafts.append(draft if known.get((prefix, text)) == sentence else draft.with_terms())
    return drafts, [f"no sentence for {number:,} of the chunks: {why}" for why, number in failed.items()]


def _described(describe: Describe, document: str, text: str) -> tuple[str, str, bool]:
    """The sentence, else why there is none, and whether to ask no more."""
    try:
        said = " ".join(storable(describe(document, text)).split())
    except StratalogError as error:
        return "", words_of(error), isinstance(error, SpendLimit | ModelUnavailable)
    return said[:_SENTENCE], "" if said else "the model said nothing", False


def _stem(name: str) -> str:
    """What to call a document that has no title: the last part of its name."""
    return name.replace("\\", "/").rstrip("/").rpartition("/")[2] or name


def _checked(what: str, name: str) -> None:
    """Raises `InvalidInput` for what cannot be a name."""
    told = {what: ascii(name)[:80]}
    if not isinstance(name, str) or not name.strip():
        raise InvalidInput("a collection and a document have a name", **told)
    if len(name) > _MAX_NAME:
        raise InvalidInput(f"the {what} is longer than {_MAX_NAME:,} characters", **told)
    if any(unicodedata.category(char) in ("Cc", "Cs") for char in name):
        raise InvalidInput(f"the {what} has a control character or a lone surrogate", **told)


# --- rows ---


def _place(db: sqlite3.Connection | None, collection: str) -> int:
    found = None if db is None else tables.collection_id(db, storable(collection))
    if found is None:
        raise _no_collection(collection)
    return found


def _no_collection(name: str) -> NotFound:
    return NotFound(
        "there is no such collection", collection=ascii(name)[1:-1], hint="`stratalog kb list` lists them"
    )


def _one(found: Sequence[Document], name: str) -> Document:
    if not found:
        raise NotFound(
            "there is no such document", document=ascii(name)[1:-1], hint="`stratalog kb list` lists them"
        )
    return found[0]


def _documents(db: sqlite3.Connection, condition: str, values: Sequence[Any]) -> list[Document]:
    found = db.execute(
        f"SELECT {tables.DOCUMENT} FROM {tables.JOINED} WHERE {condition}"
        " ORDER BY collections.name, documents.name",
        values,
    )
    return [Document(**dict(zip(Document.__struct_fields__, row, strict=False))) for row in found]


def _chunks(db: sqlite3.Connection, condition: str, values: Sequence[Any]) -> list[Chunk]:
    found = tables.chunk_values(db, condition, values)
    return [Chunk(**dict(zip(Chunk.__struct_fields__, row, strict=True))) for row in found]


def _shelves(db: sqlite3.Connection) -> list[Shelf]:
    found = db.execute(
        "SELECT collections.name, count(documents.id), coalesce(sum(documents.chunks), 0),"
        " coalesce(sum(documents.bytes), 0) FROM collections LEFT JOIN documents"
        " ON documents.collection = collections.id GROUP BY collections.id ORDER BY collections.name"
    )
    return [Shelf(name=row[0], documents=row[1], chunks=row[2], bytes=row[3]) for row in found]


def _passage(
    db: sqlite3.Connection, row: int, score: float, asked: Sequence[str], neighbours: int
) -> Passage:
    chunk = _chunks(db, "row = ?", (row,))[0]
    held = db.execute(
        "SELECT prefix_terms || ' ' || text_terms FROM chunks WHERE row = ?", (row,)
    ).fetchone()[0]
    there = set(held.split(" "))
    near = (
        _chunks(
            db,
            "document = (SELECT row FROM documents WHERE id = ?) AND ordinal BETWEEN ? AND ?"
            " ORDER BY ordinal",
            (chunk.document, chunk.ordinal - min(neighbours, 2**31), chunk.ordinal + min(neighbours, 2**31)),
        )
        if neighbours
        else []
    )
    return Passage(
        chunk=chunk,
        document=_documents(db, "documents.id = ?", (chunk.document,))[0],
        score=score,
        snippet=excerpt(chunk.text, asked),
        terms=tuple(term for term in asked if term in there or (by_prefix(term) and term in held)),
        before=tuple(each for each in near if each.ordinal < chunk.ordinal),
        after=tuple(each for each in near if each.ordinal > chunk.ordinal),
    )


def _ids(db: sqlite3.Connection, document: str) -> set[str]:
    """The ids of a document's chunks."""
    where = "SELECT id FROM chunks WHERE document = (SELECT row FROM documents WHERE id = ?)"
    return {id for (id,) in db.execute(where, (document,))}


def _next_rows(db: sqlite3.Connection, collection: str, after: int) -> list[int]:
    found = db.execute(
        "SELECT chunks.row FROM collections JOIN documents ON documents.collection = collections.id"
        " JOIN chunks ON chunks.document = documents.row WHERE collections.name = ? AND chunks.row > ?"
        " ORDER BY chunks.row LIMIT ?",
        (collection, after, _MOST_VALUES),
    )
    return [row for (row,) in found]
