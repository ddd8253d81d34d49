"""Records as a portable file: JSON lines, with where each record came from, and without vectors.

    {"kind": "bundle", "format": "stratalog.records", "version": 1, "tenant": …, "environment": …, "at": …}
    {"kind": "tombstone", "tombstone": {…}}
    {"kind": "record", "record": {…}}
    {"kind": "end", "records": 12, "tombstones": 3}

The first line says whose it is, the last how much there was, so that a bundle that was cut is known. Records
stand in the order of their ids; those of a slot have its tombstones before them. Vectors and indexes are made
anew from the text.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, TypeAlias

import msgspec

from stratalog.errors import InvalidInput, NewerFormat
from stratalog.memory.contract import Record, Tombstone

FORMAT: Final = "stratalog.records"
VERSION: Final = 1
MAX_LINE: Final = 4 * 1024 * 1024


class Head(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="bundle"):
    """Whose records follow. `at` is when they were written out, milliseconds UTC."""

    format: str = FORMAT
    version: int = VERSION
    tenant: str
    environment: str
    at: int = 0


class Kept(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="record"):
    """A record, of any status."""

    record: Record


class Gone(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="tombstone"):
    """A tombstone of a slot that has records in the bundle."""

    tombstone: Tombstone


class End(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="end"):
    """How many there were."""

    records: int
    tombstones: int


Line: TypeAlias = Head | Kept | Gone | End
_decode = msgspec.json.Decoder(Line).decode


def encoded(line: Line) -> bytes:
    """The line, with its line break."""
    return msgspec.json.encode(line) + b"\n"


def lines_of(data: Iterable[bytes]) -> Iterator[Line]:
    """The lines of a bundle, the head first. Empty lines are left out.

    Raises `InvalidInput`, with the number of the line, for what is no line of a bundle, is longer than 4 MiB,
    comes before the head or after the end; `NewerFormat` for a later version.
    """
    head: Head | None = None
    ended = False
    for number, raw in enumerate(data, 1):
        if not raw.strip():
            continue
        line = _line(raw, number)
        if isinstance(line, Head) is not (head is None) or ended:
            raise InvalidInput("this line is out of place in a bundle", line=number, hint=_WHOLE)
        if isinstance(line, Head):
            head = line
        ended = isinstance(line, End)
        yield line


_WHOLE: Final = "a bundle is what `export` wrote, whole and in its order"


def _line(raw: bytes, number: int) -> Line:
    if not isinstance(raw, bytes) or len(raw) > MAX_LINE:
        raise InvalidInput(f"a line of a bundle is at most {MAX_LINE} bytes", line=number, hint=_WHOLE)
    try:
        line = _decode(raw)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise InvalidInput(f"this is no line of a bundle: {error}", line=number, hint=_WHOLE) from error
    if isinstance(line, Head) and line.format != FORMAT:
        raise InvalidInput("this is no bundle of records", line=number, hint=_WHOLE)
    if isinstance(line, Head) and line.version > VERSION:
        raise NewerFormat(
            f"this bundle is of version {line.version}; this program reads up to {VERSION}",
            hint="take a later version of Stratalog",
        )
    return line
