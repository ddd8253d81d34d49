"""What an agent keeps in mind beside the conversation, in the words that a model reads.

Pure and the same for the same values, so that a provider's prompt cache holds what was rendered before.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from stratalog.types import Note, WorkingMemory

# The `meta` of a change that a model made by its own tool: it has seen it, and need not be told.
BY_MODEL: Final[Mapping[str, str]] = {"by": "model"}
_FACT = "fact"


def by_model(entry: WorkingMemory | Note) -> bool:
    """Whether a model made the change by its own tool."""
    return all((entry.meta or {}).get(name) == value for name, value in BY_MODEL.items())


def rendered(memory: Mapping[str, Any], facts: Iterable[str]) -> str:
    """The block of memory: each fact on a line after a dash, then `key: json` for each key, in the order in
    which they came. Empty when there is neither."""
    lines = [f"- {_one_line(fact)}" for fact in facts]
    lines += [f"{_one_line(key)}: {_json(value)}" for key, value in memory.items()]
    return "\n".join(lines)


def change_rendered(entry: WorkingMemory | Note) -> str:
    """One line that tells of a change somebody else than the model made; empty for a note of another kind.

    A value that is kept out of line, and is not at hand, is not told.
    """
    if isinstance(entry, Note):
        wanted = entry.data.get("pinned") if isinstance(entry.data, dict) else None
        if entry.kind != _FACT or not isinstance(wanted, bool) or not entry.text:
            return ""
        return f"[{'pinned' if wanted else 'unpinned'}: {_one_line(entry.text)}]"
    if entry.op == "clear":
        return "[working memory: cleared]"
    key = _one_line(entry.key)
    if entry.op == "delete":
        return f"[working memory: {key} deleted]"
    if entry.blob is not None:
        return f"[working memory: {key} changed, {entry.blob.size} bytes]"
    return f"[working memory: {key} = {_json(entry.value)}]"


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def _one_line(text: str) -> str:
    return " ".join(text.split())
