"""Another program's JSON beside the entries that were made of it, so that it comes back exactly.

An entry says what was said in a log's own terms, which search, transcripts and context read. Of the JSON that
it came from the rest is kept in its `meta`: a copy in which what the entry has itself is only pointed at, so
that no text is in the log twice. What would not come back exactly that way (a lone surrogate, a key of the
same name as the pointer, what is nested too deeply for a log) is kept as JSON text.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from stratalog.errors import InvalidInput
from stratalog.interop.records import parse
from stratalog.types import (
    AnyEntry,
    Assistant,
    Audio,
    Content,
    Data,
    File,
    Image,
    Part,
    Reasoning,
    System,
    Text,
    ToolCall,
    ToolResult,
    User,
)

_POINTER: Final = "$of"
_SHORT: Final = 16  # characters; a pointer is not shorter than such a text
_DEEPEST: Final = 90  # levels; a log takes 100 of an entry's meta
_ENTRIES: Final = msgspec.json.Decoder(list[AnyEntry])


def as_json(value: Any) -> Any:
    """The value as JSON brings it back. Raises `InvalidInput` where it is none."""
    try:
        return json.loads(json.dumps(value, allow_nan=False))
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInput(f"this cannot be kept, for it is no JSON: {error}") from error


def kept(value: Any, entries: Sequence[AnyEntry]) -> dict[str, Any]:
    """What `restored` needs beside these entries to give back the value, which is JSON. Raises `InvalidInput`
    for what is nested too deeply to be written."""
    try:
        whole = json.dumps(value)
    except RecursionError as error:
        raise InvalidInput("this cannot be kept, for it is nested too deeply") from error
    try:
        rest = {"rest": _cut(value, _Pieces(entries))}
        logged = _ENTRIES.decode(msgspec.json.encode(list(entries)))
        if json.dumps(restored(msgspec.json.decode(msgspec.json.encode(rest)), logged)) == whole:
            return rest
    except (LookupError, TypeError, ValueError, RecursionError, msgspec.MsgspecError):
        pass  # then the text itself; a lone surrogate is a UnicodeEncodeError, and that a ValueError
    return {"json": whole}


def restored(rest: Any, entries: Sequence[AnyEntry]) -> Any:
    """The value that `kept` was given, from what that gave and the entries. Raises `LookupError`, `TypeError`
    or `ValueError` where `rest` is not of `kept`, or not of these entries."""
    if "json" in rest:
        return json.loads(rest["json"])
    return _filled(rest["rest"], [piece for entry in entries for piece in pieces_of(entry)])


def pieces_of(entry: AnyEntry) -> list[Any]:
    """What of an entry may stand in another program's JSON, in a fixed order."""
    match entry:
        case ToolResult(content=str() as text):
            return [text, parse(text)]  # what a tool returned may have been JSON
        case User() | Assistant() | System() | ToolResult():
            return _of_content(entry.content)
        case ToolCall(args=str() as text):
            return [text]
        case ToolCall(args=args):
            return [args, json.dumps(args), json.dumps(args, separators=(",", ":"), ensure_ascii=False)]
        case _:
            return []


def _of_content(content: Content) -> list[Any]:
    if isinstance(content, str):
        return [content]
    return [piece for part in content for piece in _of_part(part)]


def _of_part(part: Part) -> list[Any]:
    match part:
        case Text():
            return [part.text]
        case Reasoning():
            return [part.text, part.signature, part.redacted]
        case Image() | Audio() | File():
            data = base64.b64encode(part.data).decode()
            return [part.url, data, f"data:{part.media_type};base64,{data}"]
        case Data():
            return [part.value]


class _Pieces:
    """The pieces of some entries, to be found by what they are."""

    def __init__(self, entries: Sequence[AnyEntry]) -> None:
        found = [piece for entry in entries for piece in pieces_of(entry)]
        self._texts: dict[str, list[int]] = {}  # the places of each text, the first one last
        for at, piece in reversed(list(enumerate(found))):
            if isinstance(piece, str):
                self._texts.setdefault(piece, []).append(at)
        self._values = [
            (at, piece) for at, piece in enumerate(found) if isinstance(piece, dict | list) and piece
        ]

    def place(self, value: Any) -> int | None:
        if isinstance(value, str):
            places = self._texts.get(value) if len(value) >= _SHORT else None
            if places is None:
                return None
            # Each of several equal texts has a piece of its own, which may come to be shortened.
            return places.pop() if len(places) > 1 else places[0]
        return next((at for at, piece in self._values if piece is value or piece == value), None)


def _cut(value: Any, pieces: _Pieces, depth: int = 0) -> Any:
    """The value with pointers in place of what the pieces have. Raises `LookupError` where it has pointers of
    its own, or is nested deeper than a log takes."""
    if not isinstance(value, str | dict | list):
        return value
    if depth > _DEEPEST:
        raise LookupError("nested too deeply")
    place = pieces.place(value)
    if place is not None:
        return {_POINTER: place}
    if isinstance(value, list):
        return [_cut(each, pieces, depth + 1) for each in value]
    if isinstance(value, dict):
        if _POINTER in value:
            raise LookupError(_POINTER)
        return {name: _cut(each, pieces, depth + 1) for name, each in value.items()}
    return value


def _filled(value: Any, pieces: list[Any]) -> Any:
    if isinstance(value, list):
        return [_filled(each, pieces) for each in value]
    if isinstance(value, dict):
        if _POINTER in value:
            return pieces[value[_POINTER]]
        return {name: _filled(each, pieces) for name, each in value.items()}
    return value
