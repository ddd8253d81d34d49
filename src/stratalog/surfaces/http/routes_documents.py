"""Documents: what there is to read up, of the whole tenant. Who asks may read them; admins add and remove."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

import msgspec
from litestar import Request, delete, get, post
from litestar.params import PathParameter, QueryParameter, RawBody

from stratalog.engine import serving_knowledge as knowledge
from stratalog.engine.knowing import DEFAULT, Chunk, Document, Format, Shelf
from stratalog.engine.searching import FoundPassage, documents_found
from stratalog.surfaces.http.asking import changing
from stratalog.surfaces.http.bodies import body_of, kind_of
from stratalog.surfaces.http.errors import problems
from stratalog.surfaces.http.fields import Best, Cursor, Limit, Words, WordsAlone
from stratalog.surfaces.http.queries import strict
from stratalog.surfaces.http.service import FromDesk, needs

_DOCUMENTS = "/v1/kb/documents"
_ONE = _DOCUMENTS + "/{document:str}"
_COLLECTIONS = "/v1/kb/collections"
_TAGS = ("documents",)
_ADMIN = (needs("admin"),)
# What the media type of a body says of its format; of the last two, name and content tell it.
_FORMATS: Final[dict[str, Format | None]] = {
    "text/markdown": "markdown",
    "text/html": "html",
    "application/pdf": "pdf",
    "text/plain": None,
    "application/octet-stream": None,
}

DocumentId = Annotated[str, PathParameter(description="The id of a document.", max_length=64)]
_Collection = Annotated[
    str, QueryParameter(description="The collection; made when new.", min_length=1, max_length=1024)
]
_Only = Annotated[
    str | None, QueryParameter(description="Only in this collection.", min_length=1, max_length=1024)
]


class DocumentView(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a document; `bytes` and `sha256` are of what was added, `unit` is what its chunks are
    numbered by: lines, pages, or "" for neither."""

    id: str
    collection: str
    name: str
    format: Format
    media_type: str
    sha256: str
    bytes: int
    title: str
    unit: str
    added_at: int
    updated_at: int
    chunks: int


class DocumentPage(msgspec.Struct, frozen=True, kw_only=True):
    """Documents by collection and name; `cursor` goes on after them, "" at the end."""

    documents: list[DocumentView]
    cursor: str = ""


class CollectionView(msgspec.Struct, frozen=True, kw_only=True):
    """A collection and how much is in it; `bytes` are those that were added."""

    name: str
    documents: int
    chunks: int
    bytes: int


class CollectionPage(msgspec.Struct, frozen=True, kw_only=True):
    """Collections by name; `cursor` goes on after them, "" at the end."""

    collections: list[CollectionView]
    cursor: str = ""


class ChunkView(msgspec.Struct, frozen=True, kw_only=True):
    """A piece of a document: its place among the chunks from 0, the headings it is under, its first and last
    line or page (0 where there is neither), what says where it stands, and its text."""

    id: str
    document: str
    ordinal: int
    path: list[str]
    first: int
    last: int
    prefix: str
    sentence: str
    text: str


class ChunkPage(msgspec.Struct, frozen=True, kw_only=True):
    """Chunks of a document in order; `cursor` goes on after them, "" at the end."""

    chunks: list[ChunkView]
    cursor: str = ""


class PutView(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a document, in chunks added, kept and removed. `notes` are what could not be read."""

    outcome: Literal["added", "updated", "unchanged"]
    document: DocumentView
    added: int
    kept: int
    removed: int
    notes: list[str]


class PassageView(msgspec.Struct, frozen=True, kw_only=True):
    """A chunk that was found, with its neighbours. `parts` are what words and meaning gave to the score."""

    document: DocumentView
    chunk: ChunkView
    score: float
    parts: dict[str, float]
    snippet: str
    terms: list[str]
    before: list[ChunkView]
    after: list[ChunkView]


class Passages(msgspec.Struct, frozen=True, kw_only=True):
    """Passages, the best first; `more`: there were more than asked for."""

    found: list[PassageView]
    more: bool


@get(
    _COLLECTIONS,
    operation_id="listCollections",
    tags=_TAGS,
    summary="The collections of documents",
    responses=problems(),
)
async def list_collections(desk: FromDesk, limit: Limit = 50, cursor: Cursor = "") -> CollectionPage:
    page = await desk.run(knowledge.shelves_page, desk.front.sync, limit=limit, cursor=cursor)
    return CollectionPage(collections=[_shelf(each) for each in page.shelves], cursor=page.next)


@delete(
    _COLLECTIONS,
    operation_id="removeCollection",
    tags=_TAGS,
    guards=_ADMIN,
    summary="Remove a collection with all its documents",
    status_code=200,
    responses=problems(404),
)
async def remove_collection(
    desk: FromDesk,
    collection: Annotated[
        str, QueryParameter(description="The name of the collection.", min_length=1, max_length=1024)
    ],
) -> CollectionView:
    def removed() -> Shelf:
        with changing(desk, "remove_collection", collection=collection):
            return knowledge.removed_collection(desk.front.sync, collection)

    return _shelf(await desk.run(removed))


@get(
    _DOCUMENTS,
    operation_id="listDocuments",
    tags=_TAGS,
    summary="The documents, by collection and name",
    responses=problems(404),
)
async def list_documents(
    desk: FromDesk, collection: _Only = None, limit: Limit = 50, cursor: Cursor = ""
) -> DocumentPage:
    page = await desk.run(
        knowledge.documents_page, desk.front.sync, collection=collection, limit=limit, cursor=cursor
    )
    return DocumentPage(documents=[_document(each) for each in page.documents], cursor=page.next)


@post(
    _DOCUMENTS,
    operation_id="addDocument",
    tags=_TAGS,
    guards=_ADMIN,
    summary="Add a document, or bring the one of this name up to date",
    status_code=200,
    operation_class=body_of(tuple(_FORMATS), "The document itself."),
    responses=problems(),
)
async def add_document(
    request: Request[Any, Any, Any],
    desk: FromDesk,
    body: RawBody,
    name: Annotated[
        str, QueryParameter(description="What to call it; nothing is opened.", min_length=1, max_length=1024)
    ],
    collection: _Collection = DEFAULT,
    format: Annotated[
        Format | None, QueryParameter(description="What it is, where the media type does not say.")
    ] = None,
    title: Annotated[str, QueryParameter(description="Its title; else its own.", max_length=1024)] = "",
) -> PutView:
    told = _FORMATS[kind_of(request, tuple(_FORMATS))]

    def added() -> knowledge.Put:
        with changing(desk, "add_document", collection=collection, name=name):
            memory = desk.front.sync
            return knowledge.added(memory, collection, name, body, format=format or told, title=title)

    put = await desk.run(added)
    return PutView(
        outcome=put.outcome,
        document=_document(put.document),
        added=put.added,
        kept=put.kept,
        removed=put.removed,
        notes=list(put.notes),
    )


@get(_ONE, operation_id="getDocument", tags=_TAGS, summary="One document", responses=problems(404))
async def get_document(desk: FromDesk, document: DocumentId) -> DocumentView:
    return _document(await desk.run(knowledge.document, desk.front.sync, document))


@get(
    _ONE + "/chunks",
    operation_id="listChunks",
    tags=_TAGS,
    summary="What a document says, chunk by chunk",
    responses=problems(404),
)
async def list_chunks(
    desk: FromDesk, document: DocumentId, limit: Limit = 50, cursor: Cursor = ""
) -> ChunkPage:
    page = await desk.run(knowledge.chunks_page, desk.front.sync, document, limit=limit, cursor=cursor)
    return ChunkPage(chunks=[_chunk(each) for each in page.chunks], cursor=page.next)


@delete(
    _ONE,
    operation_id="removeDocument",
    tags=_TAGS,
    guards=_ADMIN,
    summary="Remove a document with all that was made of it",
    status_code=200,
    responses=problems(404),
)
async def remove_document(desk: FromDesk, document: DocumentId) -> DocumentView:
    def removed() -> Document:
        with changing(desk, "remove_document", id=document):
            return knowledge.removed(desk.front.sync, document)

    return _document(await desk.run(removed))


@get(
    "/v1/kb/search",
    operation_id="searchDocuments",
    tags=_TAGS,
    summary="Passages of documents, the best first",
    responses=problems(404),
)
async def search_documents(
    desk: FromDesk,
    text: Words,
    collection: Annotated[
        list[str] | None, QueryParameter(description="Only in these collections.", max_items=100)
    ] = None,
    limit: Best = 10,
    neighbours: Annotated[
        int, QueryParameter(description="With so many chunks around each.", ge=0, le=20)
    ] = 0,
    words: WordsAlone = False,
) -> Passages:
    found = await desk.run(
        documents_found,
        desk.front.sync,
        text,
        limit=limit + 1,
        collections=collection,
        neighbours=neighbours,
        meaning=not words,
    )
    return Passages(found=[passage_view(each) for each in found[:limit]], more=len(found) > limit)


ROUTES = strict(
    list_collections,
    remove_collection,
    list_documents,
    add_document,
    get_document,
    list_chunks,
    remove_document,
    search_documents,
)


def passage_view(found: FoundPassage) -> PassageView:
    """A passage as a search shows it."""
    passage = found.passage
    return PassageView(
        document=_document(passage.document),
        chunk=_chunk(passage.chunk),
        score=found.score,
        parts=found.parts,
        snippet=passage.snippet,
        terms=list(passage.terms),
        before=[_chunk(each) for each in passage.before],
        after=[_chunk(each) for each in passage.after],
    )


def _document(document: Document) -> DocumentView:
    told = {name: getattr(document, name) for name in DocumentView.__struct_fields__}
    return DocumentView(**told)


def _shelf(shelf: Shelf) -> CollectionView:
    return CollectionView(**msgspec.structs.asdict(shelf))


def _chunk(chunk: Chunk) -> ChunkView:
    told = {name: getattr(chunk, name) for name in ChunkView.__struct_fields__}
    return ChunkView(**(told | {"path": list(chunk.path)}))
