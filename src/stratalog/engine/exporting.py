"""A whole session as the messages of a provider: all that was said, without a budget, for an export.

What a compaction folds is there in its own words, so its summary is left out; only one that the log begins
with stands for what another log holds. All else is as a model would be sent it: the turns one after another,
without what was withdrawn, each call with its result, and what a provider has no place for left out or told
in words, as its shape says.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from stratalog.context.shapes.contract import Prompt
from stratalog.context.shapes.table import SHAPES
from stratalog.context.view import view, withdrawn_by
from stratalog.models.contract import Shape
from stratalog.types import (
    AnyEntry,
    Assistant,
    Compaction,
    Content,
    System,
    Text,
    ToolCall,
    ToolResult,
    TurnEnd,
    TurnStart,
    User,
)

_SAID = (System, User, Assistant, ToolCall, ToolResult, TurnStart, TurnEnd)


def whole_prompt(entries: Iterable[AnyEntry]) -> Prompt:
    """The prompt with all that these entries say, in the order of their turns."""
    summary = ""
    said: list[AnyEntry] = []
    for entry in entries:
        if isinstance(entry, Compaction):
            summary = summary if said else entry.summary
        elif isinstance(entry, _SAID) or withdrawn_by(entry):
            said.append(entry)
    seen = view(said)
    return Prompt(
        system=tuple(words for entry in seen.system for words in _texts(entry.content)),
        summary=summary,
        entries=tuple(entry for turn in seen.turns for entry in turn.entries),
    )


def _texts(content: Content) -> Iterator[str]:
    if isinstance(content, str):
        yield content
    else:
        yield from (part.text for part in content if isinstance(part, Text))


def whole_messages(entries: Iterable[AnyEntry], shape: Shape) -> dict[str, Any]:
    """`messages` of this shape, and `system` where the shape has it beside them, as the provider's official
    client takes them. Marks for a prompt cache are not in it."""
    body = SHAPES[shape].body(whole_prompt(entries))
    return {name: _unmarked(body[name]) for name in ("system", "messages") if name in body}


def _unmarked(value: Any) -> Any:
    """The blocks of messages without the marks that the shape puts on them; what is in a call's arguments
    is not looked at."""
    if isinstance(value, list):
        return [_unmarked(each) for each in value]
    if isinstance(value, dict):
        return {
            name: _unmarked(each) if name in ("content", "system") else each
            for name, each in value.items()
            if name != "cache_control"
        }
    return value
