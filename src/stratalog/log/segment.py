"""Reading one segment: a header line, then entries, split on the byte `\\n` and on nothing else.

Everything here reads and nothing writes. A line that is not whole is looked at once more for a whole one at
its end, so that a run of NULs or half a line before a good line costs only what was damaged.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

from stratalog.errors import ForeignFile, NewerFormat
from stratalog.log.codec import FORMAT, BadLine, Header, decode, decode_header, format_of
from stratalog.types import AnyEntry, TurnStart

_CHUNK = 65_536
_BIG_CHUNK = 1_048_576


class Line(NamedTuple):
    """One line without its newline, and the byte offset at which it starts."""

    offset: int
    data: bytes


class Found(NamedTuple):
    """What a line holds: an entry, or why it has none; `reason` is also set when a part of it was damaged."""

    entry: AnyEntry | None
    reason: str
    start: int


def entry_in(line: Line) -> Found:
    """The entry in a line; after damage at the line's start, the entry that ends it."""
    try:
        return Found(decode(line.data), "", line.offset)
    except BadLine as error:
        reason = str(error)
    at = line.data.rfind(b'{"crc":"', 1)
    if at > 0:
        try:
            return Found(decode(line.data[at:]), reason, line.offset + at)
        except BadLine:
            pass
    return Found(None, reason, line.offset)


def header_of(fd: int, path: str, key: str | None) -> tuple[Header, int]:
    """The segment's header and where its entries start.

    Raises `NewerFormat`, and `ForeignFile` for a file that is no log or is another session's.
    """
    data = os.pread(fd, 16_384, 0)
    end = data.find(b"\n")
    line = data[:end] if end >= 0 else data
    claimed = format_of(line)
    if claimed is not None and claimed > FORMAT:
        raise NewerFormat(
            f"this log is of format {claimed}; this version knows up to {FORMAT}; it was left untouched",
            path=path,
            hint="upgrade stratalog to open it",
        )
    try:
        if end < 0:
            raise BadLine("the first line has no end")
        header = decode_header(line)
    except BadLine as error:
        raise ForeignFile(
            f"this file does not begin as a log does ({error}); it was left untouched",
            path=path,
            line=1,
            hint="move it away, or run `stratalog doctor` to see what can be read of it",
        ) from None
    if key is not None and header.key != key:
        raise ForeignFile(
            "this file holds the log of another session; it was left untouched",
            path=path,
            holds=ascii(header.key),
            expected=ascii(key),
            hint="was it renamed or copied? Put it back under its own name",
        )
    return header, end + 1


def last_newline(fd: int, start: int, end: int) -> int:
    """The offset after the last newline in `[start, end)`; `start` if there is none."""
    while end > start:
        begin = max(start, end - _CHUNK)
        at = os.pread(fd, end - begin, begin).rfind(b"\n")
        if at >= 0:
            return begin + at + 1
        end = begin
    return start


def lines(fd: int, start: int, end: int) -> Iterator[Line]:
    """The lines in `[start, end)`, first to last; what follows the last newline is a line too."""
    rest: list[bytes] = []
    at = begin = start
    while at < end:
        chunk = os.pread(fd, min(_CHUNK * 4, end - at), at)
        if not chunk:
            break
        at += len(chunk)
        first, newline, more = chunk.partition(b"\n")
        rest.append(first)
        if not newline:
            continue
        pieces = more.split(b"\n")
        yield Line(begin, b"".join(rest))
        begin = at - len(more)
        for piece in pieces[:-1]:
            yield Line(begin, piece)
            begin += len(piece) + 1
        rest = [pieces[-1]]
    tail = b"".join(rest)
    if tail:
        yield Line(begin, tail)


def lines_of(data: bytes) -> list[Line]:
    """The lines in `data`; what follows the last newline is a line too."""
    found: list[Line] = []
    at = 0
    for piece in data.split(b"\n"):
        found.append(Line(at, piece))
        at += len(piece) + 1
    if found and not found[-1].data:
        found.pop()
    return found


def lines_back(fd: int, start: int, end: int) -> Iterator[Line]:
    """The lines in `[start, end)`, last to first; `end` is the end of the file or just after a newline."""
    rest = b""
    at = end
    first = True
    while at > start:
        # A long line is taken in doubling steps, so that it is not copied once for every chunk.
        begin = max(start, at - max(_CHUNK, len(rest)))
        chunk = os.pread(fd, at - begin, begin) + rest
        if first and chunk.endswith(b"\n"):
            chunk = chunk[:-1]
        first = False
        at = begin
        pieces = chunk.split(b"\n")
        stop = begin + len(chunk)
        for piece in reversed(pieces[1:]):
            stop -= len(piece)
            yield Line(stop, piece)
            stop -= 1
        rest = pieces[0]
        if begin == start:
            yield Line(start, rest)


def entries_back(fd: int, start: int, end: int) -> Iterator[tuple[Line, Found]]:
    for line in lines_back(fd, start, end):
        yield line, entry_in(line)


def offset_of(fd: int, start: int, end: int, seq: int) -> int:
    """Where the first line begins whose seq is `seq` or more, in `[start, end)`; found by bisection."""
    low, high = start, end
    while high - low > _CHUNK:
        middle = (low + high) // 2
        found = next((f for f in map(entry_in, islice(lines(fd, middle, high), 1, None)) if f.entry), None)
        if found is None or found.entry is None or found.entry.seq >= seq:
            high = middle
        else:
            low = found.start
    for line in lines(fd, low, end):
        entry = entry_in(line).entry
        if entry is not None and entry.seq >= seq:
            return line.offset
    return end


def latest_fence(fd: int, start: int, end: int, otherwise: int) -> int:
    """The fence of the last `TurnStart` in `[start, end)`; `otherwise` if there is none."""
    needle = b'"type":"turn_start"'
    at = end
    while at > start:
        begin = max(start, at - _BIG_CHUNK)
        chunk = os.pread(fd, min(end, at + len(needle)) - begin, begin)
        place = chunk.rfind(needle)
        while place >= 0:
            line_start = last_newline(fd, start, begin + place)
            entry = entry_in(next(lines(fd, line_start, end))).entry
            if isinstance(entry, TurnStart):
                return entry.fence
            place = chunk.rfind(needle, 0, place)
        at = begin
    return otherwise
