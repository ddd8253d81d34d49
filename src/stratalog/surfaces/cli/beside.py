"""Records and documents that a search finds beside what was said, and the three lists as one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

from rich.text import Text

from stratalog import Stratalog
from stratalog.engine.core import Found
from stratalog.engine.knowing import Passage
from stratalog.engine.recalling import fused, passages_of
from stratalog.engine.remembering import Found as FoundRecord
from stratalog.engine.remembering import Records
from stratalog.surfaces.cli import record_views as views
from stratalog.surfaces.cli.output import Output
from stratalog.surfaces.cli.plain import parts_line

Hit: TypeAlias = Found | FoundRecord | Passage


def searched(
    memory: Stratalog, query: str, turns: Sequence[Found], *, limit: int, records: bool, documents: bool
) -> list[Hit]:
    """The best of what was said and of what is asked for beside it, by reciprocal rank fusion: the first of
    each list, then the second of each, and so on. Records are those of the user whom the settings name."""
    return fused(
        list[Hit](turns),
        list[Hit](_records(memory, query, limit) if records else []),
        list[Hit](passages_of(memory, query, limit) if documents else []),
        key=id,
    )[:limit]


def value_of(found: FoundRecord | Passage) -> dict[str, Any]:
    """As JSON has it, with its `kind`."""
    if isinstance(found, Passage):
        document, chunk = found.document, found.chunk
        return {
            "kind": "document",
            "collection": document.collection,
            "document": document.name,
            "title": document.title,
            "chunk": chunk.id,
            "first": chunk.first,
            "last": chunk.last,
            "snippet": found.snippet,
            "terms": list(found.terms),
            "score": found.score,
            "parts": _parts(found.score),
        }
    whole = views.whole(found.record)
    return {"kind": "record", **whole, "score": found.score, "parts": _parts(found.score)}


def print_beside(out: Output, number: int, found: FoundRecord | Passage, explain: bool) -> None:
    dot = f" {out.glyphs.dot} "
    if isinstance(found, Passage):
        facts = ["document", found.document.title or found.document.name, found.chunk.prefix]
        words = found.snippet
        more = f"stratalog kb show {found.document.id}"
    else:
        facts = ["record", found.record.layer.value, found.record.key]
        words = found.record.text
        more = f"stratalog memory show {found.record.id}"
    head = f"{number}. {dot.join(out.line(each) for each in facts if each)}"
    if number > 1:
        out.print()
    out.print(Text(out.clip(head, out.width), "bold"))
    out.print(out.wrap(out.line(words), 3), indent=3)
    if explain:
        out.print(Text(parts_line(_parts(found.score)), "dim"), indent=3)
    out.print(Text(more, "dim"), indent=3)


def _parts(score: float) -> dict[str, float]:
    return {"words": score} if score else {}


def _records(memory: Stratalog, query: str, limit: int) -> list[FoundRecord]:
    with Records(memory) as records:
        who = records.caller(user=records.settings.memory.user)
        return list(records.service.recall(who, query, limit=min(limit, 100)).found)
