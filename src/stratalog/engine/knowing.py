"""The documents of one tenant, opened beside its memory.

    with Stratalog("data") as memory, knowledge_of(memory) as knowledge:
        knowledge.put("handbook", "leave.md", data)
        knowledge.search("how many days of leave")

They are no stratum: they come from elsewhere, no log has them, and no rebuild makes them.
"""

from __future__ import annotations

from stratalog.engine.core import Stratalog
from stratalog.keys import tenant_path
from stratalog.recall.knowledge import DEFAULT, FILE, FORMATS, MAX_BYTES, Describe, Knowledge
from stratalog.recall.knowledge_values import Chunk, Document, Passage, Put, Shelf
from stratalog.recall.reading.formats import Format
from stratalog.recall.reading.text import is_binary

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
    return Knowledge(tenant_path(memory.data, memory.tenant) / FILE)
