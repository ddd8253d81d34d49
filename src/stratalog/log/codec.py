"""One entry, one line: stamping, encoding, checking. Pure; docs/format.md is the specification.

A line is `{"crc":"xxxxxxxx",` and then the rest of the entry's JSON object, so that it is valid JSON with its
checksum at a fixed place. The checksum is the CRC-32 of the object without that member. Every line of an
append but its last begins with `"more":1`, so that a torn append is told from a whole one.

What is stored is what is read: an entry is decoded again before it is written, and one that would come back
different (a NaN, a date, a key that is no text) is refused with the path to the culprit. One rule alone
changes a value: a lone surrogate, which no UTF-8 can hold, becomes U+FFFD, and `meta.replaced_surrogates`
counts them.
"""

from __future__ import annotations

import hashlib
import math
import re
import zlib
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import msgspec

from stratalog.errors import DamagedLog, InvalidEntry
from stratalog.ids import ULID, new_ulid
from stratalog.types import (
    AnyEntry,
    Assistant,
    Audio,
    Blob,
    Compaction,
    Data,
    Entry,
    File,
    Image,
    Note,
    Part,
    Pin,
    Reasoning,
    System,
    Text,
    Title,
    ToolCall,
    ToolResult,
    TurnEnd,
    TurnStart,
    Unknown,
    User,
    WorkingMemory,
)

FORMAT = 1
BLOB_THRESHOLD = 65_536
_PREVIEW = 2_000
_MAX_DEPTH = 100
_MAX_TS = 2**48
_PREFIX = b'{"crc":"'
_BODY = len(_PREFIX) + 10
_MORE = b'"more":1,'
_SHA256 = re.compile(r"[0-9a-f]{64}\Z")

_Known = (
    User
    | Assistant
    | System
    | ToolCall
    | ToolResult
    | Compaction
    | WorkingMemory
    | Title
    | Pin
    | TurnStart
    | TurnEnd
    | Note
)
_ANY_FIELDS = ("meta", "args", "value", "data", "working_memory")
_ANY_OF = {
    cls: tuple(name for name in _ANY_FIELDS if name in cls.__struct_fields__) for cls in _Known.__args__
}
_STORABLE = frozenset((*_Known.__args__, Unknown))
_TEXT_FIELDS = ("content", "summary", "text")
_E = TypeVar("_E", bound=Entry)


class Header(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="stratalog"):
    """The first line of every segment. `base` is the seq of its first entry; `fence` the latest before it."""

    format: int
    key: str
    segment: int
    generation: int
    base: int
    fence: int
    created: int
    first: int = 1


NO_HEADER = Header(format=0, key="", segment=0, generation=0, base=1, fence=0, created=0)


class _Envelope(msgspec.Struct, frozen=True):
    type: str
    seq: int
    id: str = ""
    ts: int = 0
    turn: str = ""
    meta: dict[str, Any] | None = None


class BadLine(ValueError):
    """A line that is not a whole entry; the message says why."""


_encode = msgspec.json.Encoder().encode
_decode_known = msgspec.json.Decoder(_Known).decode
_decode_header = msgspec.json.Decoder(Header).decode
_decode_envelope = msgspec.json.Decoder(_Envelope).decode
_decode_fields = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_TAGS = frozenset(str(cls.__struct_config__.tag) for cls in _Known.__args__)


def stamp(entry: _E, seq: int, now: int, fence: int = 0) -> _E:
    """The entry as it will stand in the log; `fence` is for a `TurnStart`. Raises `InvalidEntry`."""
    if type(entry) not in _STORABLE:
        raise InvalidEntry(
            f"a {type(entry).__name__} is not an entry", hint="use an entry class of stratalog.types"
        )
    if blobs_of(entry):
        raise InvalidEntry(
            "the entry has a reference in place of its payload, which only a store may set",
            id=ascii(entry.id)[:80],
            hint="read it with its payloads; where one is damaged, say so in its place",
        )
    changes: dict[str, Any] = {"seq": seq}
    if type(entry.ts) is not int or not 0 <= entry.ts < _MAX_TS:
        raise InvalidEntry("an entry's ts must be milliseconds since 1970, or 0", ts=ascii(entry.ts)[:80])
    if not entry.id:
        changes["id"] = new_ulid(entry.ts or now)
    elif not (isinstance(entry.id, str) and ULID.match(entry.id)):
        raise InvalidEntry("an entry's id must be a ULID, or empty", id=ascii(entry.id)[:80])
    if not entry.ts:
        changes["ts"] = now
    if isinstance(entry, TurnStart):
        changes["fence"] = fence
    return msgspec.structs.replace(entry, **changes)


def encode(entry: AnyEntry) -> tuple[AnyEntry, bytes]:
    """The entry in its stored form, and the JSON object of it. Raises `InvalidEntry`."""
    if isinstance(entry, Unknown):
        return _encode_unknown(entry)
    for name in _ANY_OF[type(entry)]:
        # What is nested too deeply may be written by one caller and not be readable by another.
        if not _shallow(getattr(entry, name), _MAX_DEPTH):
            raise InvalidEntry(f"{name} is nested deeper than {_MAX_DEPTH} levels")
    try:
        body = _encode(entry)
        stored: AnyEntry = _decode_known(body)
        if stored == entry:
            return stored, body
    except (UnicodeEncodeError, msgspec.MsgspecError, TypeError, RecursionError, ValueError, OverflowError):
        pass
    entry = _normalised(entry)
    try:
        body = _encode(entry)
        stored = _decode_known(body)
    except (msgspec.MsgspecError, TypeError, ValueError, OverflowError) as error:
        raise InvalidEntry(
            f"an entry of type {type(entry).__name__} has a field of the wrong type: {error}",
            hint="see stratalog.types for the fields of each entry",
        ) from error
    if stored != entry:
        raise InvalidEntry(f"an entry of type {type(entry).__name__} would not be read as it was given")
    return stored, body


def line_of(body: bytes, *, more: bool = False) -> bytes:
    """The line for an entry's JSON object; `more` when another line of the same append follows."""
    if more:
        body = b"{%b%b" % (_MORE, body[1:])
    return b'%b%08x",%b\n' % (_PREFIX, zlib.crc32(body), body[1:])


def lines_of_append(bodies: Sequence[bytes]) -> list[bytes]:
    """The lines of one append, of which all or none are read."""
    last = len(bodies) - 1
    return [line_of(body, more=number < last) for number, body in enumerate(bodies)]


def goes_on(line: bytes) -> bool:
    """Whether another line of the same append must follow this one."""
    return line.startswith(_PREFIX) and line.startswith(_MORE, _BODY)


def body_of(line: bytes) -> bytes:
    """The entry's JSON object in a line (without its newline). Raises `BadLine` unless the checksum holds."""
    if not line.startswith(_PREFIX) or line[16:18] != b'",':
        raise BadLine("NUL bytes" if line.count(0) else "not a line of a log")
    body = b"{" + line[_BODY:]
    if line[8:16] != b"%08x" % zlib.crc32(body):
        raise BadLine("the checksum does not match")
    return body


def decode(line: bytes) -> AnyEntry:
    """The entry in a line (without its newline). Raises `BadLine`."""
    body = body_of(line)
    if body.startswith(_MORE, 1):
        body = b"{" + body[1 + len(_MORE) :]
    try:
        return _decode_known(body)
    except (msgspec.MsgspecError, RecursionError) as error:
        reason = str(error)
    try:
        envelope = _decode_envelope(body)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise BadLine(f"not an entry: {error}") from None
    if envelope.type in _TAGS:
        raise BadLine(f"not an entry: {reason}")
    return _unknown(envelope, body)


def header_line(header: Header) -> bytes:
    return line_of(_encode(header))


def decode_header(line: bytes) -> Header:
    """The header in a segment's first line. Raises `BadLine`."""
    try:
        return _decode_header(body_of(line))
    except msgspec.MsgspecError as error:
        raise BadLine(f"not a header: {error}") from None


def format_of(line: bytes) -> int | None:
    """The format number that a header line claims, readable in any version; None when it is no header."""
    try:
        fields = msgspec.json.decode(line)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None
    if (
        isinstance(fields, dict)
        and fields.get("type") == "stratalog"
        and isinstance(fields.get("format"), int)
    ):
        return int(fields["format"])
    return None


# --- payloads out of line ---


def externalise(entry: AnyEntry, threshold: int) -> tuple[AnyEntry, dict[str, bytes]]:
    """The entry with payloads over `threshold` bytes replaced by references, and these payloads by hash."""
    blobs: dict[str, bytes] = {}

    def keep(payload: bytes, chars: int = 0, field: str = "") -> Blob:
        digest = hashlib.sha256(payload).hexdigest()
        blobs[digest] = payload
        return Blob(sha256=digest, size=len(payload), chars=chars, field=field)

    def part_of(part: Part) -> Part:
        if isinstance(part, Image | Audio | File):
            if len(part.data) > threshold:
                return msgspec.structs.replace(part, data=b"", blob=keep(part.data))
            if len(part.url) > threshold:  # a data: URL
                payload = part.url.encode()
                return msgspec.structs.replace(part, url="", blob=keep(payload, len(part.url), "url"))
        elif isinstance(part, Text | Reasoning) and len(part.text) > threshold // 4:
            payload = part.text.encode()
            if len(payload) > threshold:
                return msgspec.structs.replace(
                    part, text=part.text[:_PREVIEW], blob=keep(payload, len(part.text))
                )
        elif isinstance(part, Data):
            payload = _encode(part.value)
            if len(payload) > threshold:
                return msgspec.structs.replace(part, value=None, blob=keep(payload))
        return part

    content = getattr(entry, "content", None)
    if isinstance(content, tuple):
        entry = msgspec.structs.replace(entry, content=tuple(part_of(part) for part in content))
    elif (text_field := _large_text(entry, threshold)) is not None:
        text = getattr(entry, text_field)
        blob = keep(text.encode(), len(text), text_field)
        return msgspec.structs.replace(entry, **{text_field: text[:_PREVIEW], "blob": blob}), blobs
    for name in ("args", "value", "data", "working_memory"):
        value = getattr(entry, name, None)
        if value is not None:
            payload = _encode(value)
            if len(payload) > threshold:
                entry = msgspec.structs.replace(entry, **{name: None, "blob": keep(payload, 0, name)})
                break
    return entry, blobs


def resolve(entry: AnyEntry, load: Callable[[Blob], bytes]) -> AnyEntry:
    """The entry with its payloads back in place; `load` gives a payload and raises `DamagedLog`."""
    blob = getattr(entry, "blob", None)
    if blob is not None:
        if blob.field not in entry.__struct_fields__:
            raise DamagedLog(f"a payload stands for the field {blob.field!a}, which there is not")
        payload = load(blob)
        value = payload.decode() if blob.field in _TEXT_FIELDS else msgspec.json.decode(payload)
        entry = msgspec.structs.replace(entry, **{blob.field: value, "blob": None})
    content = getattr(entry, "content", None)
    if isinstance(content, tuple) and any(part.blob for part in content):
        entry = msgspec.structs.replace(entry, content=tuple(_resolve_part(part, load) for part in content))
    return entry


def blobs_of(entry: Entry) -> list[Blob]:
    """The references that an entry as stored has."""
    own = getattr(entry, "blob", None)
    content = getattr(entry, "content", None)
    parts = content if isinstance(content, tuple) else ()
    return [blob for blob in (own, *(getattr(part, "blob", None) for part in parts)) if blob is not None]


def has_blobs(entry: Entry) -> bool:
    """Whether there are any, told in a quarter of the time."""
    if getattr(entry, "blob", None) is not None:
        return True
    content = getattr(entry, "content", None)
    return isinstance(content, tuple) and any(getattr(part, "blob", None) is not None for part in content)


def blob_name(blob: Blob) -> str:
    """The file name of a payload. Raises `DamagedLog` for a reference that no store made."""
    if not _SHA256.match(blob.sha256):
        raise DamagedLog("a reference to a payload is no SHA-256", sha256=ascii(blob.sha256)[:80])
    return blob.sha256


def check_blob(blob: Blob, payload: bytes, path: str) -> bytes:
    """The payload, if it is the one that `blob` names. Raises `DamagedLog`."""
    if len(payload) != blob.size or hashlib.sha256(payload).hexdigest() != blob.sha256:
        raise DamagedLog(
            "a payload kept beside the log is damaged", path=path, hint="`stratalog doctor` lists it"
        )
    return payload


def _resolve_part(part: Part, load: Callable[[Blob], bytes]) -> Part:
    if part.blob is None:
        return part
    payload = load(part.blob)
    if isinstance(part, Data):
        return msgspec.structs.replace(part, value=msgspec.json.decode(payload), blob=None)
    if isinstance(part, Text | Reasoning):
        return msgspec.structs.replace(part, text=payload.decode(), blob=None)
    if part.blob.field == "url":
        return msgspec.structs.replace(part, url=payload.decode(), blob=None)
    return msgspec.structs.replace(part, data=payload, blob=None)


def _large_text(entry: AnyEntry, threshold: int) -> str | None:
    for name in _TEXT_FIELDS:
        value = getattr(entry, name, None)
        if isinstance(value, str) and len(value) > threshold // 4 and len(value.encode()) > threshold:
            return name
    return None


# --- what may be stored ---


def _shallow(value: Any, depth: int) -> bool:
    if isinstance(value, dict):
        return depth > 0 and all(_shallow(item, depth - 1) for item in value.values())
    if isinstance(value, list | tuple):
        return depth > 0 and all(_shallow(item, depth - 1) for item in value)
    return True


def plain(value: Any, path: str) -> Any:
    """A copy of `value` made of JSON's own types. Raises `InvalidEntry` naming the part that has none."""
    if value is None or isinstance(value, bool | str):
        return str(value) if isinstance(value, str) else value
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise InvalidEntry(f"{path} is {value}, which JSON cannot hold", hint="store it as text or null")
        return float(value)
    if isinstance(value, list | tuple):
        return [plain(item, f"{path}[{number}]") for number, item in enumerate(value)]
    if isinstance(value, dict):
        for name in value:
            if not isinstance(name, str):
                raise InvalidEntry(f"{path} has the key {name!r}, which is not text")
        return {str(name): plain(item, f"{path}.{name}") for name, item in value.items()}
    raise InvalidEntry(
        f"{path} is a {type(value).__name__}, which JSON cannot hold",
        hint="use text, numbers, booleans, None, lists and dictionaries",
    )


def _normalised(entry: AnyEntry) -> AnyEntry:
    """The entry with its free JSON copied, its content a tuple, and lone surrogates replaced by the rule."""
    changes: dict[str, Any] = {}
    replaced = 0
    for name in entry.__struct_fields__:
        value = getattr(entry, name)
        if name in _ANY_FIELDS and value is not None:
            value = plain(value, name)
        elif name == "content" and isinstance(value, list | tuple):
            value = tuple(_normalised_part(part, number) for number, part in enumerate(value))
        value, count = _without_surrogates(value)
        replaced += count
        changes[name] = value
    if replaced and isinstance(changes["meta"], dict | None):
        changes["meta"] = {**(changes["meta"] or {}), "replaced_surrogates": replaced}
    return msgspec.structs.replace(entry, **changes)


def _normalised_part(part: Any, number: int) -> Part:
    if isinstance(part, Data):
        return msgspec.structs.replace(part, value=plain(part.value, f"content[{number}].value"))
    if not isinstance(part, Text | Image | Audio | File | Reasoning):
        raise InvalidEntry(
            f"content[{number}] is a {type(part).__name__}, not a part",
            hint="use stratalog.types.Text, Image, Audio, File, Reasoning or Data",
        )
    return part


def _without_surrogates(value: Any) -> tuple[Any, int]:
    if isinstance(value, str):
        if value.isascii():
            return value, 0
        try:
            value.encode()
        except UnicodeEncodeError:
            clean = _SURROGATE.sub("\ufffd", value)
            return clean, sum(1 for char in value if "\ud800" <= char <= "\udfff")
        return value, 0
    if isinstance(value, dict):
        pairs = [(_without_surrogates(name), _without_surrogates(item)) for name, item in value.items()]
        whole = {name[0]: item[0] for name, item in pairs}
        if len(whole) < len(pairs):
            raise InvalidEntry("two keys of a dictionary differ only in lone surrogates, which become U+FFFD")
        return whole, sum(name[1] + item[1] for name, item in pairs)
    if isinstance(value, list | tuple):
        items = [_without_surrogates(item) for item in value]
        return type(value)(item[0] for item in items), sum(item[1] for item in items)
    if isinstance(value, msgspec.Struct):
        fields = {name: _without_surrogates(getattr(value, name)) for name in value.__struct_fields__}
        count = sum(item[1] for item in fields.values())
        if count:
            value = msgspec.structs.replace(value, **{name: item[0] for name, item in fields.items()})
        return value, count
    return value, 0


_SURROGATE = re.compile("[\ud800-\udfff]")


def _encode_unknown(entry: Unknown) -> tuple[AnyEntry, bytes]:
    if not isinstance(entry.raw, bytes) or not entry.raw.startswith(b"{") or entry.raw.startswith(_MORE, 1):
        raise InvalidEntry("the raw form of an unknown entry must be the bytes of a JSON object")
    try:
        entry.raw.decode()
        fields = _decode_fields(entry.raw)
        was = _decode_envelope(entry.raw)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidEntry(f"the raw form of an unknown entry is not an entry: {error}") from error
    if was.type in _TAGS or b"\n" in entry.raw:
        raise InvalidEntry(f"the raw form of an unknown entry is of type {was.type}, or has a line break")
    if entry.kind not in ("", was.type):
        raise InvalidEntry(f"the raw form of an unknown entry is of type {was.type}, not {entry.kind!r}")
    # Only what differs changes; every other member keeps its bytes.
    changed = [name for name in _ENVELOPE if getattr(entry, name) != getattr(was, name)]
    if not changed:
        return _unknown(was, entry.raw), entry.raw
    try:
        for name in changed:
            value, _ = _without_surrogates(plain(getattr(entry, name), name))
            fields[name] = msgspec.Raw(_encode(value))
        body = _encode(fields)
        return _unknown(_decode_envelope(body), body), body
    except (msgspec.MsgspecError, ValueError, OverflowError, RecursionError) as error:
        raise InvalidEntry(f"an unknown entry has a field of the wrong type: {error}") from error


_ENVELOPE = ("seq", "id", "ts", "turn", "meta")


def _unknown(envelope: _Envelope, body: bytes) -> Unknown:
    return Unknown(
        kind=envelope.type,
        raw=body,
        seq=envelope.seq,
        id=envelope.id,
        ts=envelope.ts,
        turn=envelope.turn,
        meta=envelope.meta,
    )
