"""The process in which pypdf reads one PDF, for `read_pdf`. It is run as a file, and imports nothing of
Stratalog.

`pdf_worker.py SECONDS BYTES` takes the PDF from its input and may use so many seconds of the processor and
bytes of memory, where the system has limits. It answers in JSON: `{"title": str, "pages": [str]}`, or
`{"trouble": "encrypted" | "undecryptable" | "damaged" | "large", "reason": str}`.
"""

from __future__ import annotations

import json
import logging
import sys
import zlib
from contextlib import suppress
from io import BytesIO
from struct import error as StructError
from typing import Any, Final

from pypdf import PdfReader
from pypdf.errors import DependencyError, LimitReachedError, PyPdfError

try:
    import resource
except ImportError:  # Windows
    resource = None  # type: ignore[assignment]

# What reading a damaged file raises beside pypdf's own errors.
DAMAGED: Final = (
    *(ArithmeticError, AssertionError, AttributeError, LookupError, TypeError, ValueError),
    *(EOFError, NotImplementedError, RecursionError, StructError, zlib.error),
)
# pypdf copies what a page has said so far at each of its operators: so many characters of all pages, which it
# does in seconds. A page of 5,000 characters, each placed by itself, takes 25 million.
COPIED: Final = 20_000_000_000
_SHOW: Final = frozenset((b"Tj", b"TJ", b"'", b'"'))


class TooLarge(Exception):
    """What is in the file would take too long to read."""


class Work:
    """What pypdf has copied, in characters; a visitor of the operators of a page."""

    def __init__(self, most: int) -> None:
        self.copied = 0
        self._most = most
        self._said = 0

    def next_page(self) -> None:
        self._said = 0

    def visit(self, operator: Any, operands: Any, *_: Any) -> None:
        """Notes an operator. Raises `TooLarge` once there were too many for what they say."""
        times = 1
        if operator in _SHOW and operands:
            shown = operands[-1]
            parts = shown if isinstance(shown, list) else [shown]
            times = max(1, len(parts))
            self._said += times + sum(len(part) for part in parts if isinstance(part, str | bytes))
        self.copied += times * self._said
        if self.copied > self._most:
            raise TooLarge("one page says too much at too many places")


def main() -> None:
    limit(int(sys.argv[1]), int(sys.argv[2]))
    logging.getLogger("pypdf").setLevel(logging.CRITICAL)
    try:
        found = answer(sys.stdin.buffer.read())
    except MemoryError as error:  # of the file itself
        found = _trouble("large", error)
    json.dump(found, sys.stdout)


def limit(seconds: int, memory: int) -> None:
    """Bounds what this process may use; where it cannot, it stays as it was."""
    if resource is None:
        return
    for kind, most in ((resource.RLIMIT_CPU, seconds), (resource.RLIMIT_AS, memory)):
        with suppress(OSError, ValueError):
            hard = resource.getrlimit(kind)[1]
            resource.setrlimit(kind, (most if hard < 0 else min(most, hard), hard))


def answer(data: bytes, most: int = COPIED) -> dict[str, Any]:
    """The title and the text of each page, or why there are none; see above."""
    try:
        reader = PdfReader(BytesIO(data))
        if reader.is_encrypted and not reader.decrypt(""):
            return {"trouble": "encrypted", "reason": "it has a password"}
        work = Work(most)
        pages = []
        for page in reader.pages:
            work.next_page()
            pages.append(page.extract_text(visitor_operand_before=work.visit))
        told = reader.metadata.title if reader.metadata else None
        return {"title": str(told) if told else "", "pages": pages}
    except DependencyError as error:
        return _trouble("undecryptable", error)
    except (LimitReachedError, MemoryError, TooLarge) as error:
        return _trouble("large", error)
    except (PyPdfError, *DAMAGED) as error:
        return _trouble("damaged", error)


def _trouble(trouble: str, error: Exception) -> dict[str, Any]:
    return {"trouble": trouble, "reason": f"{type(error).__name__}: {error}"[:200]}


if __name__ == "__main__":
    main()
