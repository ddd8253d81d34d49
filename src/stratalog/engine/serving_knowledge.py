"""Documents that are served: added and removed without a byte left behind, and listed a page at a time."""

from __future__ import annotations

from typing import NamedTuple, TypeVar

import msgspec

from stratalog.engine.core import Stratalog
from stratalog.engine.knowing import Chunk, Document, Format, Passage, Put, Shelf, knowledge_of
from stratalog.errors import InvalidInput

__all__ = [
    "Chunk",
    "ChunkPage",
    "Document",
    "DocumentPage",
    "Format",
    "Passage",
    "Put",
    "Shelf",
    "ShelfPage",
    "added",
    "chunks_page",
    "document",
    "documents_page",
    "removed",
    "removed_collection",
    "shelves_page",
]

P = TypeVar("P")


class ShelfPage(NamedTuple):
    """Collections by name; `next` goes on after them, "" at the end."""

    shelves: list[Shelf]
    next: str = ""


class DocumentPage(NamedTuple):
    """Documents by collection and name; `next` goes on after them, "" at the end."""

    documents: list[Document]
    next: str = ""


class ChunkPage(NamedTuple):
    """Chunks of a document in order; `next` goes on after them, "" at the end."""

    chunks: list[Chunk]
    next: str = ""


def added(
    memory: Stratalog, collection: str, name: str, data: bytes, *, format: Format | None, title: str = ""
) -> Put:
    """`Knowledge.put`; what the document does not say any more leaves the disk too."""
    with knowledge_of(memory) as knowledge:
        put = knowledge.put(collection, name, data, format=format, title=title)
        if put.removed:
            knowledge.scrub()
    return put


def removed(memory: Stratalog, id: str) -> Document:
    """Deletes a document, also from the disk; what it was. Raises `NotFound`."""
    with knowledge_of(memory) as knowledge:
        gone = knowledge.remove(id)
        knowledge.scrub()
    return gone


def removed_collection(memory: Stratalog, name: str) -> Shelf:
    """Deletes a collection with all its documents, also from the disk; what it was. Raises `NotFound`."""
    with knowledge_of(memory) as knowledge:
        gone = knowledge.remove_collection(name)
        knowledge.scrub()
    return gone


def document(memory: Stratalog, id: str) -> Document:
    """The document of this id. Raises `NotFound`."""
    with knowledge_of(memory) as knowledge:
        return knowledge.get(id)


def shelves_page(memory: Stratalog, *, limit: int, cursor: str = "") -> ShelfPage:
    """A page of the collections. Raises `InvalidInput` for a cursor that is none."""
    after = _opened(cursor, tuple[str])
    with knowledge_of(memory) as knowledge:
        rest = [each for each in knowledge.collections() if after is None or (each.name,) > after]
    return ShelfPage(rest[:limit], _cursor(rest[limit - 1].name) if len(rest) > limit else "")


def documents_page(
    memory: Stratalog, *, collection: str | None = None, limit: int, cursor: str = ""
) -> DocumentPage:
    """A page of the documents. Raises `NotFound` for a collection that is not there, and `InvalidInput` for a
    cursor that is none."""
    after = _opened(cursor, tuple[str, str])
    with knowledge_of(memory) as knowledge:
        rest = [
            each
            for each in knowledge.documents(collection)
            if after is None or (each.collection, each.name) > after
        ]
    last = rest[limit - 1] if len(rest) > limit else None
    return DocumentPage(rest[:limit], _cursor(last.collection, last.name) if last is not None else "")


def chunks_page(memory: Stratalog, id: str, *, limit: int, cursor: str = "") -> ChunkPage:
    """A page of a document's chunks. Raises `NotFound`, and `InvalidInput` for a cursor that is none."""
    after = _opened(cursor, tuple[int])
    with knowledge_of(memory) as knowledge:
        rest = [each for each in knowledge.chunks(id) if after is None or (each.ordinal,) > after]
    return ChunkPage(rest[:limit], _cursor(rest[limit - 1].ordinal) if len(rest) > limit else "")


def _cursor(*place: str | int) -> str:
    return msgspec.json.encode(place).decode()


def _opened(cursor: str, kind: type[P]) -> P | None:
    """The place that a cursor tells; None for the beginning."""
    if not cursor:
        return None
    try:
        return msgspec.json.decode(cursor.encode("utf-8", "surrogatepass"), type=kind)
    except (msgspec.MsgspecError, UnicodeError) as error:
        raise InvalidInput("this place was not given by a list", hint="begin without a cursor") from error
