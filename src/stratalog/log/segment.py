"""Reading one segment: a header line, then entries, split on the byte `\\n` and on nothing else.

Everything here reads and nothing writes. A line that is not whole is looked at once more for whole entries
within it, so that a run of NULs, half a line before a good one, or a lost line break costs only what was
damaged.
"""

from __future__ import annotations

import os
import re
import zlib
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import NamedTuple

from stratalog.errors import ForeignFile, NewerFormat
from stratalog.log.codec import (
    FORMAT,
    BadLine,
    Header,
    body_of,
    decode,
    decode_header,
    format_of,
    goes_on,
)
from stratalog.types import AnyEntry, TurnStart

_CHUNK = 65_536
_NEAR = 8_192
_BIG_CHUNK = 1_048_576
_MAX_HEADER = 131_072  # four ids of 1,024 characters, which take up to 12 bytes each

TORN = "the end of the log is torn: an append did not finish"


class Line(NamedTuple):
    """One line without its newline, and the byte offset at which it starts."""

    offset: int
    data: bytes


class Found(NamedTuple):
    """A span of a line: an entry with an empty `reason`, or why there is none; offsets are in the file."""

    entry: AnyEntry | None
    reason: str
    start: int
    stop: int


# An entry's beginning. It can also stand within one: free JSON may have a member `crc` of its own.
_START = re.compile(rb'\{"crc":"([0-9a-f]{8})",')
_END = re.compile(rb"\}")
_EFFORT = 64  # a damaged line is looked at as if it were that many times as long, and no more


def found_in(line: Line) -> list[Found]:
    """What the line holds, in order: one entry; after damage, every whole entry and each damaged span."""
    stop = line.offset + len(line.data)
    try:
        return [Found(decode(line.data), "", line.offset, stop)]
    except BadLine as error:
        reason = str(error)
    found: list[Found] = []
    done = 0
    left = _EFFORT * (len(line.data) + 10_000)
    for start in _START.finditer(line.data):
        if left <= 0:
            break
        if start.start() < done:
            continue
        entry, end, cost = _entry_at(line.data, start, left)
        left -= cost
        if entry is None:
            continue
        if done or start.start():
            found.append(_damaged(line, done, start.start()))
        found.append(Found(entry, "", line.offset + start.start(), line.offset + end))
        done = end
    if not found:
        return [Found(None, reason, line.offset, stop)]
    if done < len(line.data):
        found.append(_damaged(line, done, len(line.data)))
    return found


def entries_of(line: Line) -> list[AnyEntry]:
    """The whole entries in a line."""
    return [found.entry for found in found_in(line) if found.entry is not None]


def _entry_at(data: bytes, start: re.Match[bytes], left: int) -> tuple[AnyEntry | None, int, int]:
    """The entry that begins at `start`, where it ends, and the bytes that were looked at to find it."""
    crc, at, want = zlib.crc32(b"{"), start.end(), int(start[1], 16)
    view = memoryview(data)
    cost = 0
    for brace in _END.finditer(data, at):
        cost += brace.end() - at + _EFFORT
        if cost > left:
            break
        crc, at = zlib.crc32(view[at : brace.end()], crc), brace.end()
        if crc == want:
            try:
                return decode(data[start.start() : at]), at, cost
            except BadLine:
                continue
    return None, 0, cost + len(data) - at


def _damaged(line: Line, start: int, stop: int) -> Found:
    try:
        body_of(line.data[start:stop])
        reason = "not an entry"
    except BadLine as error:
        reason = str(error) if stop > start else "a line break is missing"
    return Found(None, reason, line.offset + start, line.offset + stop)


def header_of(fd: int, path: str, key: str | None) -> tuple[Header, int]:
    """The segment's header and where its entries start.

    Raises `NewerFormat`, and `ForeignFile` for a file that is no log or is another session's.
    """
    data = os.pread(fd, 4096, 0)
    if b"\n" not in data:
        data = os.pread(fd, _MAX_HEADER, 0)
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
    size = _CHUNK // 8  # who wants one line reads little, who wants all reads in large steps
    while at < end:
        chunk = os.pread(fd, min(size, end - at), at)
        if not chunk:
            break
        size = min(size * 2, _CHUNK * 4)
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


def found_back(fd: int, start: int, end: int) -> Iterator[tuple[Line, Found]]:
    """What the lines in `[start, end)` hold, last to first."""
    for line in lines_back(fd, start, end):
        for found in reversed(found_in(line)):
            yield line, found


def settled(fd: int, start: int, size: int) -> int:
    """Where the last append that was written whole ends: at `size`, unless the end of the file is torn.

    A last line that lacks nothing but its line break is whole.
    """
    end = last_newline(fd, start, size)
    if end < size:
        tail = os.pread(fd, size - end, end)
        if not goes_on(tail) and [found.reason for found in found_in(Line(end, tail))] == [""]:
            return size
    for line in lines_back(fd, start, end):
        if not goes_on(line.data):
            break
        end = line.offset
    return end


def offset_of(fd: int, start: int, end: int, seq: int, *, beyond: bool = False) -> int:
    """Where the first line begins that has a seq of `seq` or more, in `[start, end)`; found by bisection.

    With `beyond`, the first that has no smaller one either; they differ only where lines ran together.
    """
    # Mostly asked for what was appended last: a look at the end answers that.
    near = max(start, end - _NEAR)
    tail = list(lines(fd, near, end))[1 if near > start else 0 :]  # the first may be the end of a line
    whole = near == start
    if tail and (whole or _is_before(tail[0], seq, beyond=beyond)):
        return _first(tail, seq, end, beyond=beyond)
    low, high = start, end
    while high - low > _NEAR:
        middle = (low + high) // 2
        found = next(
            ((line, got) for line in islice(lines(fd, middle, high), 1, None) if (got := entries_of(line))),
            None,
        )
        if found is None or found[1][0].seq >= seq:
            high = middle
        else:
            low = found[0].offset
    few: list[Line] = []
    more = lines(fd, low, end)
    for line in more:
        few.append(line)
        if line.offset >= high:
            break
    at = _first(few, seq, -1, beyond=beyond)
    if at >= 0:
        return at
    return next((line.offset for line in more if _is_before(line, seq, beyond=beyond) is False), end)


def _first(found: Sequence[Line], seq: int, otherwise: int, *, beyond: bool) -> int:
    """Where the first of these lines begins for which `_is_before` is false."""
    if found and _is_before(found[-1], seq, beyond=beyond):
        return otherwise
    low, high = 0, len(found)
    while low < high:
        middle = at = (low + high) // 2
        before = _is_before(found[at], seq, beyond=beyond)
        while before is None and at + 1 < high:
            at += 1
            before = _is_before(found[at], seq, beyond=beyond)
        if before:
            low = at + 1
        else:
            high = middle
    return next(
        (line.offset for line in found[low:] if _is_before(line, seq, beyond=beyond) is False), otherwise
    )


def _is_before(line: Line, seq: int, *, beyond: bool) -> bool | None:
    """Whether the line's last entry (with `beyond` its first) is before number `seq`; None where it has
    none."""
    got = entries_of(line)
    return got[0 if beyond else -1].seq < seq if got else None


def latest_fence(fd: int, start: int, end: int, otherwise: int) -> int:
    """The fence of the last `TurnStart` in `[start, end)`; `otherwise` if there is none.

    A damaged line that names a `TurnStart` took a fence too, which nobody may take again.
    """
    needle = b'"type":"turn_start"'
    at = end
    lost = 0
    size = _CHUNK
    while at > start:
        begin = max(start, at - size)
        size = min(size * 2, _BIG_CHUNK)
        chunk = os.pread(fd, min(end, at + len(needle)) - begin, begin)
        place = chunk.rfind(needle)
        at = begin
        while place >= 0:
            line = next(lines(fd, last_newline(fd, start, begin + place), end))
            for found in reversed(found_in(line)):
                if isinstance(found.entry, TurnStart):
                    return found.entry.fence + lost
                if found.entry is None:
                    lost += line.data.count(needle, found.start - line.offset, found.stop - line.offset)
            at = min(at, line.offset)
            place = chunk.rfind(needle, 0, max(0, line.offset - begin))
    return otherwise + lost
