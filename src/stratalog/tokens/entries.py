"""What an entry takes in a request, whoever counts its text: its content, its media, and its envelope.

A provider wraps each message in a few tokens of its own (role, separators). OpenAI documents 3 and 1 for a
name (cookbook, "How to count tokens with tiktoken"); others tell nothing. A call carries its name and its id
besides, and a result the id: no provider tells whether it counts those, so they are counted. Tools are
counted as the JSON that is sent, though a provider rewrites it to something shorter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import msgspec

from stratalog.tokens.media import AUDIO, FILE, ImageRule, image_tokens
from stratalog.types import (
    AnyEntry,
    Assistant,
    Audio,
    Compaction,
    Content,
    Data,
    File,
    Image,
    Part,
    Reasoning,
    System,
    Text,
    ToolCall,
    ToolResult,
    User,
)

CountText = Callable[[str], int]

ENVELOPE: Final = 4
SUMMARY_ENVELOPE: Final = 12  # a summary is introduced in a few words


def json_tokens(value: Any, count: CountText) -> int:
    """What a JSON value takes; a string is taken to be JSON already."""
    return count(value if isinstance(value, str) else msgspec.json.encode(value).decode())


def tools_tokens(tools: Iterable[Mapping[str, Any]], count: CountText, preamble: int = 0) -> int:
    """What the schemas of tools take, and `preamble` once if there are any."""
    each = [json_tokens(tool, count) + ENVELOPE for tool in tools]
    return sum(each) + (preamble if each else 0)


def content_tokens(content: Content, count: CountText, images: ImageRule) -> int:
    """What the content of a message takes without its envelope."""
    if isinstance(content, str):
        return count(content)
    return sum(part_tokens(part, count, images) for part in content)


def part_tokens(part: Part, count: CountText, images: ImageRule) -> int:
    """What a part takes. Reasoning in the provider's own form alone is taken for text of its length."""
    match part:
        case Text():
            return whole(count(part.text), len(part.text), part.blob.chars if part.blob else 0)
        case Reasoning():
            text = whole(count(part.text), len(part.text), part.blob.chars if part.blob else 0)
            return text or -(-len(part.redacted) // 4)
        case Image():
            return image_tokens(images, part)
        case Audio():
            return AUDIO
        case File():
            return FILE
        case Data():
            return -(-part.blob.size // 3) if part.blob is not None else json_tokens(part.value, count)


def entry_tokens(entry: AnyEntry, count: CountText, images: ImageRule) -> int:
    """What the entry takes in what a model is sent; 0 for one that no model sees."""
    match entry:
        case User() | Assistant() | System() | ToolResult():
            counted = content_tokens(entry.content, count, images)
            if entry.blob is not None:
                counted = whole(counted, len(entry.text), entry.blob.chars)
            named = count(entry.call_id) if isinstance(entry, ToolResult) else 0
            return counted + named + ENVELOPE
        case ToolCall():
            args = -(-entry.blob.size // 3) if entry.blob is not None else json_tokens(entry.args, count)
            return args + count(entry.name) + count(entry.call_id) + 2 * ENVELOPE
        case Compaction():
            counted = count(entry.summary)
            if entry.blob is not None:
                counted = whole(counted, len(entry.summary), entry.blob.chars)
            return counted + SUMMARY_ENVELOPE
        case _:
            return 0


def whole(counted: int, shown: int, chars: int) -> int:
    """The count for a text of `chars` characters of which only `shown`, counted so, were at hand."""
    if chars <= shown:
        return counted
    return -(-counted * chars // shown) if counted and shown else chars
