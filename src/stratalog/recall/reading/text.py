"""Plain text: paragraphs, and bytes that become text."""

from __future__ import annotations

import codecs
from typing import Final

from stratalog.errors import InvalidInput
from stratalog.recall.documents import storable
from stratalog.recall.reading.contract import Block, Parsed, paragraphs

_MARKS: Final = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),  # before UTF-16's, which it begins with
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_LOOK: Final = 8192


def read_text(text: str) -> Parsed:
    """A block for each paragraph."""
    blocks = tuple(Block("text", (), start, stop) for start, stop in paragraphs(text, 0, len(text)))
    return Parsed(title="", text=text, blocks=blocks)


def decoded(data: bytes, encoding: str = "") -> str:
    """The text of `data`, which says its encoding by a byte order mark or else is in `encoding`, UTF-8 when
    that is "" or unknown; lines end in a line feed, and NUL is left out. Raises `InvalidInput` for what is
    no text, and for another encoding, for one that was guessed would be wrong unnoticed."""
    mark, named = next(((mark, named) for mark, named in _MARKS if data.startswith(mark)), (b"", encoding))
    try:
        codec = codecs.lookup(named or "utf-8").name
    except (LookupError, ValueError):
        codec = "utf-8"
    try:
        text = data[len(mark) :].decode(codec)
    except (UnicodeDecodeError, LookupError) as error:  # LookupError: a codec that is not one of text
        if is_binary(data):
            raise InvalidInput("this is no text", hint="say its format if it has one that is read") from error
        raise InvalidInput(
            f"this is not {codec.upper()}, and does not say what else",
            hint="convert it to UTF-8 and add it again",
        ) from error
    return unified(text)


def unified(text: str) -> str:
    """The text with one kind of line break and only what can be stored."""
    return storable(text.replace("\r\n", "\n").replace("\r", "\n"))


def is_binary(data: bytes) -> bool:
    """Whether the beginning of `data` is that of no text."""
    return b"\0" in data[:_LOOK] and not any(data.startswith(mark) for mark, _ in _MARKS)
