"""PDF, by pypdf: the text of each page, in its order.

pypdf is in Python and under the BSD licence, needs nothing else, and bounds what a stream may unpack to. What
it stumbles over in damaged files comes out as many kinds of errors, which are named here.
"""

from __future__ import annotations

import re
import zlib
from io import BytesIO
from struct import error as StructError
from typing import TYPE_CHECKING, Final

from stratalog.errors import InvalidConfig, InvalidInput
from stratalog.recall.reading.contract import Block, Parsed, paragraphs
from stratalog.recall.reading.text import unified

if TYPE_CHECKING:
    from pypdf import PdfReader

# What reading a damaged file raises beside pypdf's own errors.
_DAMAGED: Final = (
    *(ArithmeticError, AssertionError, AttributeError, LookupError, TypeError, ValueError),
    *(EOFError, MemoryError, NotImplementedError, RecursionError, StructError, zlib.error),
)
_ODD_SPACE: Final = re.compile(r"[ \t\u00a0]+(?=\n|\Z)")


def read_pdf(data: bytes) -> Parsed:
    """The text, with the pages of each block; pages without text are told in the notes.

    Raises `InvalidInput` for a file that is encrypted with a password, damaged, or has no text at all, and
    `InvalidConfig` when pypdf is not installed, or what it needs to decrypt a file that has no password."""
    try:
        from pypdf import PdfReader
        from pypdf.errors import DependencyError, PyPdfError
    except ImportError as error:
        hint = "pip install 'stratalog[kb]'"
        raise InvalidConfig("reading PDF needs the package `pypdf`", hint=hint) from error
    try:
        reader = PdfReader(BytesIO(data))
        if reader.is_encrypted and not reader.decrypt(""):
            raise InvalidInput("this PDF is encrypted", hint="save it without a password and add it again")
        pages = [unified(page.extract_text()) for page in reader.pages]
        title = _title(reader)
    except DependencyError as error:
        raise InvalidConfig("this PDF is encrypted", hint="pip install cryptography", reason=error) from error
    except (PyPdfError, *_DAMAGED) as error:
        reason = f"{type(error).__name__}: {error}"
        raise InvalidInput("this PDF is damaged", hint="save it anew", reason=reason[:200]) from error
    return _parsed(title, pages)


def _title(reader: PdfReader) -> str:
    told = reader.metadata.title if reader.metadata else None
    return " ".join(unified(str(told)).split()) if told else ""


def _parsed(title: str, pages: list[str]) -> Parsed:
    empty = [number for number, page in enumerate(pages, 1) if not page.strip()]
    if len(empty) == len(pages):
        raise InvalidInput("no page of this PDF has text", hint="a scan needs text recognition (OCR) first")
    blocks: list[Block] = []
    parts: list[str] = []
    at = 0
    for number, page in enumerate(pages, 1):
        words = _ODD_SPACE.sub("", page) + "\n\n"
        spans = paragraphs(words, 0, len(words))
        blocks += [Block("text", (), at + start, at + stop, page=number) for start, stop in spans]
        parts.append(words)
        at += len(words)
    notes = (f"no text on page {', '.join(map(str, empty))}",) if empty else ()
    return Parsed(title=title, text="".join(parts), blocks=tuple(blocks), notes=notes, unit="page")
