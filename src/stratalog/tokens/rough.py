"""The first of three levels of counting: from the characters alone, at once, for any model.

Fitted by eye to the common byte-pair vocabularies: English words take about four letters a token, digits
three, runs of punctuation two; a Chinese, Japanese or Korean character takes about one; other scripts about
two letters a token. It is never meant to be exact; it is meant not to be far under. Media cost a flat number
that does not depend on their size, for a provider scales them down before it looks.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec
import regex

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

IMAGE: Final = 1_600
AUDIO: Final = 1_000
FILE: Final = 2_000
ENVELOPE: Final = 4

_PIECES = regex.compile(
    r"(?P<cjk>[\p{Han}\p{Hiragana}\p{Katakana}\p{Hangul}])"
    r"|(?P<latin>[A-Za-z]+)"
    r"|(?P<digits>[0-9]+)"
    r"|(?P<space>[ \t]{2,}|\n+)"
    r"|(?P<other>[^\sA-Za-z0-9\p{Han}\p{Hiragana}\p{Katakana}\p{Hangul}]+)"
)


def count_text(text: str) -> int:
    """About how many tokens the text takes; 0 only for no text."""
    if not text:
        return 0
    total = 0.0
    for piece in _PIECES.finditer(text):
        length = piece.end() - piece.start()
        match piece.lastgroup:
            case "cjk":
                total += 1.0
            case "latin":
                total += 1 if length <= 6 else length / 4.5
            case "digits":
                total += (length + 2) // 3
            case "space":
                total += 1.0 if length < 20 else length / 16
            case _:
                wide = not piece.group().isascii()
                total += max(1.0, length / (1.5 if wide else 2.0))
    return max(1, round(total))


def count_json(value: Any) -> int:
    """About how many tokens a JSON value takes."""
    return count_text(value if isinstance(value, str) else msgspec.json.encode(value).decode())


def count_content(content: Content) -> int:
    """About how many tokens the content of a message takes."""
    if isinstance(content, str):
        return count_text(content)
    return sum(count_part(part) for part in content)


def count_part(part: Part) -> int:
    match part:
        case Text() | Reasoning():
            return _with_blob(count_text(part.text), len(part.text), part.blob.chars if part.blob else 0)
        case Image():
            return IMAGE
        case Audio():
            return AUDIO
        case File():
            return FILE
        case Data():
            return count_json(part.value)


def count_entry(entry: AnyEntry) -> int:
    """About how many tokens the entry takes in what a model is sent; 0 for one that no model sees."""
    match entry:
        case User() | Assistant() | System() | ToolResult():
            counted = count_content(entry.content)
            if entry.blob is not None:
                counted = _with_blob(counted, len(entry.text), entry.blob.chars)
            return counted + ENVELOPE
        case ToolCall():
            args = entry.blob.size // 3 if entry.blob is not None else count_json(entry.args)
            return args + count_text(entry.name) + 2 * ENVELOPE
        case Compaction():
            return count_text(entry.summary) + ENVELOPE
        case _:
            return 0


def _with_blob(counted: int, shown: int, whole: int) -> int:
    """The count for a text of `whole` characters of which only `shown` were at hand."""
    return counted if whole <= shown else -(-counted * whole // max(1, shown))
