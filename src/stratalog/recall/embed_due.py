"""What is still to be embedded, and embedding some of it: for a worker in the background, never for a search.

There is no queue that could lose anything: what is due is what the source has and the store lacks. So that
not all of it is compared each time, the store keeps how far each scope was embedded, as the source's own mark
of it; a scope is looked at again when its mark has changed. A crash costs the batch under way.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

import msgspec

from stratalog.errors import Conflict, ModelRejected, ModelReplyUnusable

if TYPE_CHECKING:  # who plans this work need not have numpy
    from stratalog.recall.embed import Embedder, Space
    from stratalog.recall.vectors import Kept, VectorStore

_AT_ONCE: Final = 16
_HARMLESS: Final = "hello"


class Document(NamedTuple):
    """A text to be embedded. `id` is its own within its scope, and is another when the text is."""

    id: str
    text: str


class Source(Protocol):
    """What can be embedded, by scope."""

    def marks(self) -> Mapping[str, str]:
        """Every scope, with a mark that is another whenever its documents are."""
        ...

    def documents(self, scope: str) -> Iterable[Document]:
        """All documents of a scope, at least as new as the mark that was given before; none when it is
        gone meanwhile."""
        ...


class Done(msgspec.Struct, frozen=True, kw_only=True):
    """What one pass came to: texts embedded, texts that the model refused, and whether more are due."""

    embedded: int
    refused: int
    left: bool


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """`answers` is the space to be searched, None when words alone must do; `fill` the one to be embedded
    into; `drop` those that nobody needs any more."""

    answers: Space | None
    fill: Space | None
    drop: tuple[Space, ...]


def plan(kept: Sequence[Kept], wanted: Space | None, able: Collection[Space] = ()) -> Plan:
    """What to do with the spaces that there are, when `wanted` is the embedder's.

    A new space answers once it is complete. Until then the newest complete one does for which there still is
    an embedder (`able`), or none; and what was complete is dropped only when the new one is. Without an
    embedder nothing is dropped.
    """
    if wanted is None:
        return Plan(answers=None, fill=None, drop=())
    complete = [one.space for one in kept if one.complete]
    if wanted in complete:
        drop = tuple(one.space for one in kept if one.space != wanted)
        return Plan(answers=wanted, fill=wanted, drop=drop)
    answers = next((space for space in reversed(complete) if space in able), None)
    return Plan(answers=answers, fill=wanted, drop=())


def embed_due(embedder: Embedder, store: VectorStore, source: Source, most: int = 256) -> Done:
    """Embeds some `most` texts of what is due; when nothing is left, the space is complete.

    Within a scope, vectors of documents that are there no more are removed. Scopes that the source does not
    name keep theirs: only `remove_scope` takes those. A text that alone has no vector is noted as refused
    and not asked again. What was removed while it was embedded is not added. Raises what the embedder and
    the store do; what was embedded before stays.
    """
    space = embedder.space
    store.mend()
    done = Done(embedded=0, refused=0, left=False)
    known = store.marks(space)
    for scope, mark in source.marks().items():
        if known.get(scope) == mark:
            continue
        room = most - done.embedded - done.refused
        if room <= 0:
            return Done(embedded=done.embedded, refused=done.refused, left=True)
        one = _embed_scope(embedder, store, source, (scope, mark), room)
        done = Done(
            embedded=done.embedded + one.embedded,
            refused=done.refused + one.refused,
            left=done.left or one.left,
        )
    if not done.left:
        store.set_complete(space)
    store.tidy(space)
    return done


def _embed_scope(
    embedder: Embedder, store: VectorStore, source: Source, scope: tuple[str, str], most: int
) -> Done:
    name, mark = scope
    space, since = embedder.space, store.removals()
    texts = dict(source.documents(name))
    gone = [one for one in store.ids(space, name) if one not in texts]
    if gone:
        store.remove(name, gone)
        since = store.removals()
    missing = store.missing(space, name, list(texts))
    due = iter(missing[:most])
    embedded = refused = 0
    try:
        while ids := list(islice(due, _AT_ONCE)):
            bad = _embed(embedder, store, name, [Document(one, texts[one]) for one in ids], since)
            embedded, refused = embedded + len(ids) - bad, refused + bad
        if len(missing) <= most:
            store.set_mark(space, name, mark, since=since)
    except Conflict:
        return Done(embedded=embedded, refused=refused, left=True)
    return Done(embedded=embedded, refused=refused, left=len(missing) > most)


def _embed(
    embedder: Embedder, store: VectorStore, scope: str, documents: Sequence[Document], since: int
) -> int:
    """Embeds and keeps these; says how many the model refused."""
    space, ids = embedder.space, [document.id for document in documents]
    try:
        vectors = embedder.embed_passages([document.text for document in documents])
    except (ModelRejected, ModelReplyUnusable):
        if len(documents) > 1:
            return sum(_embed(embedder, store, scope, [document], since) for document in documents)
        # It may be the text that has no vector, or all may: a wrong key, another model, none at all.
        embedder.embed_passages([_HARMLESS])
        store.refuse(space, scope, ids)
        return 1
    store.add(space, scope, ids, vectors, since=since)
    return 0
