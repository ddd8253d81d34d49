"""What is told of documents: values, which hold nothing open."""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from stratalog.recall.reading.contract import Unit
from stratalog.recall.reading.formats import Format

Outcome: TypeAlias = Literal["added", "updated", "unchanged"]


class Document(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a document. `bytes` and `sha256` are of the bytes that were added, times are
    milliseconds UTC, `truncated` the characters of it that are in no chunk: always 0."""

    id: str
    collection: str
    name: str
    format: Format
    media_type: str
    sha256: str
    bytes: int
    title: str
    unit: Unit
    added_at: int
    updated_at: int
    chunks: int
    truncated: int = 0


class Chunk(msgspec.Struct, frozen=True, kw_only=True):
    """A piece of a document, `start` to `stop` in the text that was read of it, under the headings `path`.

    `first` and `last` are lines or pages, as the document's `unit` says, from 1; 0 where it has neither.
    `prefix` says where the chunk stands, `sentence` what a model said of that ("" for none). Its `id` is
    another when prefix, sentence or text are."""

    id: str
    document: str
    ordinal: int
    path: tuple[str, ...]
    start: int
    stop: int
    first: int
    last: int
    prefix: str
    sentence: str
    text: str

    @property
    def whole(self) -> str:
        """What is to be embedded, or shown to a model: the text with what situates it."""
        before = "\n".join(filter(None, (self.prefix, self.sentence)))
        return f"{before}\n\n{self.text}" if before else self.text


class Passage(msgspec.Struct, frozen=True, kw_only=True):
    """A chunk that was found. `score` is higher for a better one, comparable within one search; `terms` are
    those of the query that it has, `snippet` its text around the first of them, on one line. `before` and
    `after` are its neighbours, as far as they were asked for."""

    chunk: Chunk
    document: Document
    score: float
    snippet: str
    terms: tuple[str, ...]
    before: tuple[Chunk, ...] = ()
    after: tuple[Chunk, ...] = ()


class Put(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a document that was put: chunks added, kept and removed. `notes` are what could not be
    read or said of it, in words."""

    outcome: Outcome
    document: Document
    added: int
    kept: int
    removed: int
    notes: tuple[str, ...] = ()


class Shelf(msgspec.Struct, frozen=True, kw_only=True):
    """A collection and how much is in it. `bytes` are those that were added."""

    name: str
    documents: int
    chunks: int
    bytes: int
