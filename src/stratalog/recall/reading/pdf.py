"""PDF, by pypdf: the text of each page, in its order.

pypdf is in Python and under the BSD licence, and needs nothing else. A few kilobytes of PDF can keep it busy
for hours, in many ways. So it runs in a process of its own (`pdf_worker`), which has only so much time and
memory, and in which nothing of ours is held up.
"""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import regex

from stratalog.errors import InvalidConfig, InvalidInput
from stratalog.recall.reading.contract import Block, Parsed, paragraphs
from stratalog.recall.reading.text import unified

_ODD_SPACE: Final = regex.compile(r"[ \t\u00a0]+(?=\n|\Z)")
_SECONDS: Final = 30  # of the processor, for any file, and as many for each megabyte of it
_MOST_SECONDS: Final = 600
_WAITED: Final = 4  # times that: where the process gets no processor, or the system has no such limit
_MEMORY: Final = 2 * 2**30
_OUT_OF_TIME: Final = getattr(signal, "SIGXCPU", None)  # Windows has none
_WORKER: Final = Path(__file__).with_name("pdf_worker.py")
_CUT: Final = regex.compile(r"(?<=\p{Ll})[-\u2010\u00ad][ \t]*\n[ \t]*(?=\p{Ll})")
_WORD_BEFORE: Final = regex.compile(r"[\p{L}\p{M}]+(?:[-\u2010][\p{L}\p{M}]+)*$")
_WORD_AFTER: Final = regex.compile(r"\p{Ll}+")
_COMPOUND: Final = regex.compile(r"[\p{L}\p{M}]+(?:[-\u2010][\p{L}\p{M}]+)+")
_LONGEST_WORD: Final = 60
# What words are made of that keep their hyphen.
_FIRST_PARTS: Final = frozenset(
    ("all", "cross", "ex", "half", "long", "non", "quasi", "self", "short", "well")
)


def read_pdf(data: bytes, *, seconds: int = 0, memory: int = _MEMORY) -> Parsed:
    """The text, with the pages of each block; pages without text are told in the notes. `seconds` of the
    processor and bytes of `memory` bound the reading; 0 seconds are 30 and 30 for each megabyte of the file,
    up to 10 minutes.

    Raises `InvalidInput` for a file that is encrypted with a password, damaged, takes more than that to read,
    or has no text at all, and `InvalidConfig` when pypdf is not installed, or what it needs to decrypt a file
    that has no password."""
    if importlib.util.find_spec("pypdf") is None:
        raise InvalidConfig("reading PDF needs the package `pypdf`", hint="pip install 'stratalog[kb]'")
    if not sys.executable:
        raise InvalidConfig("reading PDF needs a Python to run, and none is known here")
    seconds = seconds or min(_MOST_SECONDS, _SECONDS + _SECONDS * len(data) // 2**20)
    found = _answer(data, seconds, memory)
    reason = found.get("reason", "")
    match found.get("trouble"):
        case None:
            title = " ".join(unified(found["title"]).split())
            return _parsed(title, [_whole_words(unified(page)) for page in found["pages"]])
        case "encrypted":
            raise InvalidInput("this PDF is encrypted", hint="save it without a password and add it again")
        case "undecryptable":
            raise InvalidConfig("this PDF is encrypted", hint="pip install cryptography", reason=reason)
        case "large":
            hint = "split it, or save its text, and add that"
            raise InvalidInput("this PDF takes too much time or memory to read", hint=hint, reason=reason)
        case _:
            raise InvalidInput("this PDF is damaged", hint="save it anew", reason=reason)


def _answer(data: bytes, seconds: int, memory: int) -> dict[str, Any]:
    """What the worker says, or what is to be said of it."""
    try:
        done = subprocess.run(
            (sys.executable, "-P", str(_WORKER), str(seconds), str(memory)),
            input=data,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
            timeout=seconds * _WAITED,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return {"trouble": "large", "reason": f"over {seconds * _WAITED} s"}
    except OSError as error:
        raise InvalidConfig(f"the reader of PDF cannot be started: {error.strerror}") from error
    if done.returncode < 0:  # the system has ended it: for its time, or as it does when memory is short
        late = -done.returncode == _OUT_OF_TIME
        reason = f"over {seconds} s of the processor" if late else f"ended by signal {-done.returncode}"
        return {"trouble": "large", "reason": reason}
    if done.returncode:
        return {"trouble": "damaged", "reason": f"its reader failed with {done.returncode}"}
    answer: dict[str, Any] = json.loads(done.stdout)  # surrogates may stand alone in it
    return answer


def _whole_words(page: str) -> str:
    """The page with the words in one that were cut at the end of a line. A hyphen stays where it belongs to
    the word: it has another, begins as such words do, or stands within a line elsewhere on the page."""
    if not _CUT.search(page):
        return page.replace("\u00ad", "")
    compounds = {found.casefold() for found in _COMPOUND.findall(page)}

    def joined(cut: regex.Match[str]) -> str:
        before = _WORD_BEFORE.search(page, max(0, cut.start() - _LONGEST_WORD), cut.start())
        after = _WORD_AFTER.match(page, cut.end(), cut.end() + _LONGEST_WORD)
        if cut[0][0] == "\u00ad" or before is None or after is None:
            return ""
        first = before[0].casefold()
        own = "-" in first or first in _FIRST_PARTS or f"{first}-{after[0]}".casefold() in compounds
        return "-" if own else ""

    return str(_CUT.sub(joined, page)).replace("\u00ad", "")


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
