"""The documents of one tenant, opened beside its memory.

    with Stratalog("data") as memory, knowledge_of(memory) as knowledge:
        knowledge.put("handbook", "leave.md", data)
        knowledge.search("how many days of leave")

They are no stratum: they come from elsewhere, no log has them, and no rebuild makes them. Their vectors are
one, and go with them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING

from stratalog.engine.core import Stratalog
from stratalog.errors import StratalogError, words_of
from stratalog.keys import tenant_path
from stratalog.log.contract import Problem
from stratalog.recall.knowledge import DEFAULT, FILE, FORMATS, MAX_BYTES, Describe, Knowledge
from stratalog.recall.knowledge_values import Chunk, Document, Passage, Put, Shelf
from stratalog.recall.reading.formats import Format
from stratalog.recall.reading.text import is_binary

if TYPE_CHECKING:
    from stratalog.recall.vectors import VectorStore

__all__ = [
    "DEFAULT",
    "FORMATS",
    "MAX_BYTES",
    "Chunk",
    "Describe",
    "Document",
    "Format",
    "Knowledge",
    "Passage",
    "Put",
    "Shelf",
    "is_binary",
    "knowledge_of",
]


def knowledge_of(memory: Stratalog) -> Knowledge:
    """The documents of the memory's tenant. Close them, or use them in a `with` block."""
    return Knowledge(tenant_path(memory.data, memory.tenant) / FILE, derived=_Vectors(memory))


class _Vectors:
    """The vectors of the chunks. What cannot be forgotten at once, while another process writes to them, is
    told as a problem: the next pass of embedding does it."""

    def __init__(self, memory: Stratalog) -> None:
        self._memory = memory

    def forget(self, collection: str, ids: Collection[str] | None) -> None:
        if ids is None:
            self._each(lambda store: store.remove_scope(collection))
        else:
            self._each(lambda store: store.remove(collection, ids))

    def scrub(self) -> None:
        self._each(lambda store: store.scrub())

    def _each(self, act: Callable[[VectorStore], object]) -> None:
        vectors = self._memory.strata.vectors
        try:
            for what, store in vectors.existing():
                if what == "documents":
                    act(store)
        except StratalogError as error:
            reason = f"vectors of removed documents may still be there: {words_of(error)}"
            self._memory.note(Problem(reason, path=str(vectors.directory)))
