"""Records and documents that a search finds beside what was said, and the three lists as one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.text import Text

from stratalog import Stratalog
from stratalog.engine.core import Found
from stratalog.engine.remembering import MAX_FOUND, Records
from stratalog.engine.searching import (
    FoundPassage,
    FoundRecord,
    Hit,
    documents_found,
    records_found,
    together,
)
from stratalog.surfaces.cli import record_views as views
from stratalog.surfaces.cli.output import Output
from stratalog.surfaces.cli.plain import parts_line


def searched(
    memory: Stratalog, query: str, turns: Sequence[Found], *, limit: int, records: bool, documents: bool
) -> list[Hit]:
    """The best of what was said and of what is asked for beside it. Records are those of the user whom the
    settings name."""
    passages = documents_found(memory, query, limit=limit) if documents else []
    return together(turns, _records(memory, query, limit) if records else [], passages)[:limit]


def value_of(found: FoundRecord | FoundPassage) -> dict[str, Any]:
    """As JSON has it, with its `kind`."""
    score = {"score": found.score, "parts": found.parts}
    if isinstance(found, FoundRecord):
        return {"kind": "record", **views.whole(found.record), **score}
    document, chunk = found.passage.document, found.passage.chunk
    return {
        "kind": "document",
        "collection": document.collection,
        "document": document.name,
        "title": document.title,
        "chunk": chunk.id,
        "first": chunk.first,
        "last": chunk.last,
        "snippet": found.passage.snippet,
        "terms": list(found.passage.terms),
        **score,
    }


def print_beside(out: Output, number: int, found: FoundRecord | FoundPassage, explain: bool) -> None:
    dot = f" {out.glyphs.dot} "
    if isinstance(found, FoundRecord):
        facts = ["record", found.record.layer.value, found.record.key]
        words = found.record.text
        more = f"stratalog memory show {found.record.id}"
    else:
        document, chunk = found.passage.document, found.passage.chunk
        facts = ["document", document.title or document.name, chunk.prefix]
        words = found.passage.snippet
        more = f"stratalog kb show {document.id}"
    head = f"{number}. {dot.join(out.line(each) for each in facts if each)}"
    if number > 1:
        out.print()
    out.print(Text(out.clip(head, out.width), "bold"))
    out.print(out.wrap(out.line(words), 3), indent=3)
    if explain:
        out.print(Text(f"{found.score:.3f} = {parts_line(found.parts)}", "dim"), indent=3)
    out.print(Text(more, "dim"), indent=3)


def _records(memory: Stratalog, query: str, limit: int) -> list[FoundRecord]:
    with Records(memory) as records:
        who = records.caller(user=records.settings.memory.user)
        return records_found(records, who, query, limit=min(limit, MAX_FOUND)).found
