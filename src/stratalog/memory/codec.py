"""Events and records as JSON. What is written is what will be read, or it is refused before anything is."""

from __future__ import annotations

import math
from typing import Any, Final, NamedTuple

import msgspec

from stratalog.errors import Conflict, InvalidInput
from stratalog.ids import ULID
from stratalog.memory.contract import Change, Event, Record, Tombstone

_DEEPEST: Final = 100
_LEAST, _MOST = -(2**63), 2**63 - 1
_encode = msgspec.json.Encoder().encode
_event = msgspec.json.Decoder(Event).decode
_record = msgspec.json.Decoder(Record).decode
_tombstone = msgspec.json.Decoder(Tombstone).decode


class Written(NamedTuple):
    """An event as it is read back, its JSON, and that of its record. Its `seq` is the store's to give."""

    event: Event
    body: bytes
    record_body: bytes


def settle(change: Change) -> tuple[list[Written], list[Tombstone]]:
    """What of `change` is to be written. Raises `InvalidInput`, naming the record and the place in it, for
    what JSON cannot hold, values of a wrong type, times that are no 64-bit integers, and ids that are no
    ULIDs."""
    return [_settled(event) for event in change.events], [_buried(stone) for stone in change.tombstones]


def _settled(event: Event) -> Written:
    record = event.record
    _plain(record.payload, "payload")
    try:
        body = _encode(msgspec.structs.replace(event, seq=0))
        read = _event(body)
    except (msgspec.MsgspecError, UnicodeEncodeError, TypeError) as error:
        raise InvalidInput("a record cannot be written", record=ascii(record.id), reason=error) from error
    if not ULID.match(record.id):
        raise InvalidInput("the id of a record is a ULID", record=ascii(record.id))
    bounds = (record.valid_from, record.valid_to)
    _in_range(event.at, record.expires_at, *(when.at for when in bounds if when is not None))
    return Written(read, body, _encode(record))


def _buried(stone: Tombstone) -> Tombstone:
    try:
        read = _tombstone(_encode(stone))
    except (msgspec.MsgspecError, UnicodeEncodeError, TypeError) as error:
        raise InvalidInput("a tombstone cannot be written", key=ascii(stone.key), reason=error) from error
    _in_range(read.at)
    return read


def _in_range(*times: int) -> None:
    for time in times:
        if not _LEAST <= time <= _MOST:
            raise InvalidInput("a time is milliseconds in 64 bits", time=time)


def _plain(value: Any, path: str, depth: int = 0) -> None:
    """Raises `InvalidInput` for what msgspec would write as something else."""
    if value is None or isinstance(value, str | bool | int):
        return
    if isinstance(value, float) and math.isfinite(value):
        return
    if depth > _DEEPEST:
        raise InvalidInput("a payload is nested too deeply", place=path, most=_DEEPEST)
    if isinstance(value, list | tuple):
        for number, item in enumerate(value):
            _plain(item, f"{path}[{number}]", depth + 1)
        return
    if isinstance(value, dict) and all(isinstance(name, str) for name in value):
        for name, item in value.items():
            _plain(item, f"{path}.{name}", depth + 1)
        return
    raise InvalidInput(
        "a payload is JSON: text, finite numbers, true, false, null, lists, and objects named by text",
        place=ascii(path),
        got=type(value).__name__,
    )


def decode_record(body: bytes) -> Record:
    """Raises `msgspec.MsgspecError` when it is damaged."""
    return _record(body)


def decode_event(seq: int, body: bytes) -> Event:
    """Raises `msgspec.MsgspecError` when it is damaged."""
    return msgspec.structs.replace(_event(body), seq=seq)


def already_noted(idempotency: str) -> Conflict:
    return Conflict(
        "a result is noted under this idempotency key already",
        idempotency=ascii(idempotency),
        hint="ask `done` before writing",
    )


def moved(record: Record) -> Conflict:
    return Conflict(
        "a record of this id is in another slot; nothing was written",
        record=record.id,
        hint="a record in another scope or under another key is another record: give it an id of its own",
    )
