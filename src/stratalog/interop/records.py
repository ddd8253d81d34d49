"""From bytes to records: the only place of this room that knows about damaged files.

Lines are split on `\\n` bytes alone, so that U+2028 and its like stay inside their strings. A run of NUL
bytes parts a line, several objects may stand on one, and what cannot be read is a `Skip` with its line and
offset while the lines after it load. A line that the fast parser refuses gets a second chance with the
slow one, because lone surrogates and NaN are common in the wild.

Values that no log can store are changed by rule: a lone surrogate and a byte that is not UTF-8 become
U+FFFD, NaN and the infinities become their names as text, and anything nested deeper than 100 levels
becomes its JSON text. `Tally` keeps the account: a record that nobody used, merged or skipped is a skip.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import msgspec

from stratalog.errors import ImportFailed
from stratalog.interop.contract import ImportedSession, Report, Skip, Source, Transcript

_MAX_DEPTH = 100
_PROGRESS_EVERY = 1 << 20
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SURROGATE = re.compile("[\ud800-\udfff]")
_FRAGMENT = re.compile(rb"[^\x00]+")
_SLOW = json.JSONDecoder()


class Record(NamedTuple):
    """One object of the source. `ordinal` counts from 0 within the file."""

    value: dict[str, Any]
    ordinal: int
    line: int = 0
    offset: int = 0

    def key(self, place: int | None = None) -> str:
        """Names a record that has no id of its own: its place (in the file by default) and its content."""
        digest = hashlib.sha256(msgspec.json.encode(self.value)).hexdigest()[:16]
        return f"#{self.ordinal if place is None else place}:{digest}"


class Tally:
    """Counts what becomes of the records of one file."""

    def __init__(self, format: str, source: Source) -> None:
        self.format = format
        self._path = str(source.path)
        self._places: list[tuple[int, int, str]] = []
        self._used: set[int] = set()
        self._merged: dict[int, str] = {}
        self._skipped: dict[int, Skip] = {}
        self._notes: list[str] = []

    def record(self, value: dict[str, Any], line: int = 0, offset: int = 0) -> Record:
        kind = value.get("type")
        ordinal = self._place(line, offset, kind if isinstance(kind, str) and kind else "record")
        return Record(value, ordinal, line, offset)

    def damage(self, reason: str, line: int = 0, offset: int = 0) -> None:
        ordinal = self._place(line, offset, "damage")
        self._skipped[ordinal] = self._skip(ordinal, reason)

    def use(self, record: Record) -> None:
        self._used.add(record.ordinal)

    def merge(self, record: Record, kind: str = "") -> None:
        self._merged[record.ordinal] = kind or self._places[record.ordinal][2]

    def skip(self, record: Record, reason: str) -> None:
        self._skipped[record.ordinal] = self._skip(record.ordinal, reason)

    def note(self, text: str) -> None:
        self._notes.append(text)

    def transcript(self, sessions: Iterable[ImportedSession | None]) -> Transcript:
        """The sessions that have entries, with the report. Each record is counted once."""
        made = tuple(session for session in sessions if session is not None)
        merged = {ordinal: kind for ordinal, kind in self._merged.items() if ordinal not in self._used}
        settled = self._used | merged.keys()
        skipped = [
            self._skipped.get(ordinal) or self._skip(ordinal, "nothing in it to keep")
            for ordinal in range(len(self._places))
            if ordinal not in settled
        ]
        kept = Counter(str(entry.__struct_config__.tag) for session in made for entry in session.entries)
        report = Report(
            format=self.format,
            path=self._path,
            read=len(self._places),
            used=len(self._used),
            merged=dict(Counter(merged.values())),
            kept=dict(kept),
            skipped=skipped,
            notes=list(self._notes),
        )
        return Transcript(sessions=made, report=report)

    def _place(self, line: int, offset: int, kind: str) -> int:
        self._places.append((line, offset, kind))
        return len(self._places) - 1

    def _skip(self, ordinal: int, reason: str) -> Skip:
        line, offset, kind = self._places[ordinal]
        where = reason if line else f"record {ordinal + 1}: {reason}"
        return Skip(path=self._path, line=line, offset=offset, reason=where, kind=kind)


def lines(source: Source) -> Iterator[tuple[int, int, bytes]]:
    """Each line's number from 1, its offset in bytes and its bytes without the newline."""
    data, total = source.data, len(source.data)
    start = 3 if data.startswith(b"\xef\xbb\xbf") else 0
    number, told = 0, 0
    while start < total:
        end = data.find(b"\n", start)
        end = total if end < 0 else end
        number += 1
        yield number, start, data[start:end]
        start = end + 1
        if source.progress is not None and (start - told >= _PROGRESS_EVERY or start >= total):
            told = min(start, total)
            source.progress(told, total)


def records(source: Source, tally: Tally) -> Iterator[Record]:
    """The objects of a JSONL file in order; everything else is counted as damage."""
    for number, offset, line in lines(source):
        if b"\x00" in line:
            tally.damage(f"{line.count(0)} NUL bytes", number, offset + line.index(0))
        for fragment in _FRAGMENT.finditer(line):
            for at, value in _values(fragment.group()):
                place = offset + fragment.start() + at
                if isinstance(value, dict):
                    yield tally.record(value, number, place)
                else:
                    tally.damage(_complaint(value), number, place)


def document(source: Source) -> Any:
    """The value of a file that is one JSON document. Raises `ImportFailed` with the line that is wrong."""
    data = source.data.removeprefix(b"\xef\xbb\xbf").strip(b"\x00")
    if source.progress is not None:
        source.progress(len(source.data), len(source.data))
    values = list(_values(data))
    at, value = values[0] if values else (0, _Broken("the file is empty"))
    if len(values) > 1 and not isinstance(value, _Broken):
        at, value = values[1][0], _Broken("there is something after the end of the document")
    if isinstance(value, _Broken):
        raise ImportFailed(
            f"this is not a JSON document: {value.reason}",
            path=source.path,
            line=data.count(b"\n", 0, at) + 1,
            hint="the file may be cut short; a copy from the program that wrote it may be whole",
        )
    return value


def parse(text: str) -> Any:
    """The JSON in `text`, storable; `text` itself when it is not JSON."""
    found = [value for _, value in _values(text.encode("utf-8", "surrogatepass"))]
    return found[0] if len(found) == 1 and not isinstance(found[0], _Broken) else text


def storable(value: Any, depth: int = 0) -> Any:
    """`value` with all that a log cannot store changed by the rules of this module."""
    if isinstance(value, str):
        return _SURROGATE.sub("\ufffd", value)
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else ("Infinity" if value > 0 else "-Infinity")
    if depth >= _MAX_DEPTH and isinstance(value, dict | list):
        return _SURROGATE.sub("\ufffd", json.dumps(value, ensure_ascii=False))
    if isinstance(value, dict):
        return {storable(str(key)): storable(item, depth + 1) for key, item in value.items()}
    if isinstance(value, list):
        return [storable(item, depth + 1) for item in value]
    return value


def utc_ms(value: Any) -> int | None:
    """A source's time in milliseconds since the epoch, UTC; None when it says none.

    Takes ISO 8601 text (without a zone it is UTC) and numbers in seconds, milli-, micro- or nanoseconds,
    told apart by their size.
    """
    if isinstance(value, str):
        try:
            moment = datetime.fromisoformat(value.strip())
        except ValueError:
            return None
        moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        return max(0, (moment - _EPOCH) // timedelta(milliseconds=1)) or None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1e20:
        return None
    for limit, scale in ((1e11, 1000), (1e14, 1), (1e17, 1e-3)):
        if value < limit:
            return int(round(value * scale, 3))
    return int(value // 1_000_000)


class _Broken(NamedTuple):
    reason: str


def _values(data: bytes) -> Iterator[tuple[int, Any]]:
    """Each value in `data` with its offset; a `_Broken` for what cannot be read, which ends it."""
    if not data.strip():
        return
    try:
        value = msgspec.json.decode(data)
        # Only a value with many brackets can be deep, so most lines are not walked.
        if data.count(b"[") + data.count(b"{") > _MAX_DEPTH:
            value = storable(value)
    except (msgspec.MsgspecError, RecursionError):
        yield from _slow_values(data)
        return
    yield 0, value


def _slow_values(data: bytes) -> Iterator[tuple[int, Any]]:
    text = data.decode("utf-8", "replace")
    at = place = told = 0
    while at < len(text):
        if text[at].isspace():
            at += 1
            continue
        place += len(text[told:at].encode("utf-8", "replace"))
        told = at
        try:
            value, at = _SLOW.raw_decode(text, at)
            value = storable(value)
        except json.JSONDecodeError as error:
            yield place, _Broken(f"not JSON: {error.msg} at character {error.pos + 1}")
            return
        except RecursionError:
            yield place, _Broken("nested too deeply")
            return
        except ValueError:
            # The one other refusal of the parser: a whole number of more than 4,300 digits.
            yield place, _Broken("a number is too long")
            return
        yield place, value


def _complaint(value: Any) -> str:
    return value.reason if isinstance(value, _Broken) else f"a {type(value).__name__}, not an object"
