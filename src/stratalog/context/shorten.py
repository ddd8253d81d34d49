"""A tool's result as a model is shown it when it is too long, and any piece of the whole on request.

The log keeps the whole; what is made here is only how it is shown. It depends on the entry and the limit
alone, so the same prefix is sent each time. JSON stays JSON, for a model reads what it knows the form of;
text keeps its beginning and its end. Every cut says how much is left out, and the result says once how to
read it: with the tool `READ_TOOL` and the entry's id.

How much fits is found by trying: characters for tokens at first, by a sample, then corrected by what was
counted, at most `_TRIES` times. Only beginnings and results are counted, never a long text as a whole unless
its beginning takes so few tokens that it may fit.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Callable
from itertools import chain, islice
from typing import Any, Final, TypeAlias

import msgspec

from stratalog.context.shapes.contract import Tool
from stratalog.errors import InvalidInput
from stratalog.types import Part, Text, ToolResult

READ_TOOL: Final = "read_result"
DEFAULT_PIECE: Final = 8_000
LONGEST_PIECE: Final = 20_000
SMALLEST_LIMIT: Final = 64
"""Tokens within which the smallest form of any result is, with an id of ours."""

TOOL: Final = Tool(
    name=READ_TOOL,
    description=(
        "Reads a piece of a tool result that was shortened. "
        "Gives the characters from `offset` on and where to go on reading."
    ),
    parameters={
        "type": "object",
        "properties": {
            "ref": {"type": "string", "description": "The reference given where the result was shortened."},
            "offset": {
                "type": "integer",
                "minimum": 0,
                "default": 0,
                "description": "The first character to read.",
            },
            "length": {
                "type": "integer",
                "minimum": 1,
                "maximum": LONGEST_PIECE,
                "default": DEFAULT_PIECE,
                "description": "How many characters to read.",
            },
        },
        "required": ["ref"],
        "additionalProperties": False,
    },
)

Count: TypeAlias = Callable[[str], int]

_TRIES: Final = 12
_ENOUGH: Final = 0.95  # of the limit; what is nearer is not worth another count
_SAMPLE: Final = 4_096  # characters
_LEAST: Final = 40  # bytes: about what a marker takes, so what is no longer is never replaced by one
_DEEPEST: Final = 64  # levels of JSON that are shown
_ITEMS: Final = 4  # of an array too long are shown, if need be by cutting them, before others are left out
_MEMBERS: Final = 32  # the same for an object
_ROUNDS: Final = 8
_LONGEST_LINE: Final = 100_000  # characters of a line that is looked at for being JSON
_CLUSTER: Final = 32  # characters that one on the screen may have
_SURROGATE = re.compile("[\ud800-\udfff]")
_NO_JSON: Final = object()


class Piece(msgspec.Struct, frozen=True):
    """`text` is what stands at `offset` in a whole of `total` characters; `next` is where to go on, None at
    the end."""

    text: str
    offset: int
    total: int
    next: int | None


def shortened(entry: ToolResult, limit: int, count: Count) -> ToolResult:
    """The result with at most `limit` tokens of text as `count` counts them; the same object when it has no
    more already.

    JSON stays JSON of the same top-level type (a number too long becomes a string); it is written without
    spaces, and says nothing of a cut when that alone was enough. Several text parts share the limit, or
    become one when their shares are too small to say anything. Other parts stay and are not counted.

    A limit under `SMALLEST_LIMIT` may be less than the reference takes; the smallest form is given then.
    """
    whole = entry.text
    if _measured(whole, limit, count) <= limit:
        return entry
    if isinstance(entry.content, str):
        return msgspec.structs.replace(entry, content=_cut(whole, entry.id, limit, count), blob=None)
    content = _shared(entry.content, entry.id, limit, count)
    if content is None:
        content = _in_one(entry.content, _cut(whole, entry.id, limit, count))
    return msgspec.structs.replace(entry, content=content, blob=None)


def piece_of(entry: ToolResult, offset: int, length: int) -> Piece:
    """Characters from `offset` on of the result's text, at most `length`; a character of several code points
    is not parted unless it is longer than that. At the very end the piece is empty.

    Raises `InvalidInput` for an offset that is negative or beyond the end, and for a length below 1.
    """
    whole = entry.text
    total = len(whole)
    if not 0 <= offset <= total:
        hint = f"give an offset from 0 to {total}"
        raise InvalidInput("the result has no such place", ref=entry.id, offset=offset, hint=hint)
    if length < 1:
        raise InvalidInput("a piece has at least one character", ref=entry.id, length=length)
    end = min(offset + length, total)
    parted = _edge(whole, end)
    end = parted if parted > offset else end
    return Piece(whole[offset:end], offset, total, end if end < total else None)


def _shared(parts: tuple[Part, ...], ref: str, limit: int, count: Count) -> tuple[Part, ...] | None:
    """The parts, each text cut to its share; None when a share is too small to be worth it."""
    texts = {at: part.text for at, part in enumerate(parts) if isinstance(part, Text) and part.text}
    places = list(texts)
    for room in (limit, limit * 9 // 10) if len(texts) > 1 else (limit,):
        # A blank line stands between two texts.
        shares = _shares(
            len(places),
            room - 2 * (len(places) - 1),
            lambda number, most: _measured(texts[places[number]], most, count),
        )
        found = list(parts)
        for at, share in zip(places, shares, strict=True):
            if _measured(texts[at], share, count) <= share:
                continue
            if len(places) > 1 and share < SMALLEST_LIMIT:
                return None
            found[at] = Text(text=_cut(texts[at], ref, share, count))
        said = "\n\n".join(part.text for part in found if isinstance(part, Text) and part.text)
        if len(places) == 1 or count(said) <= limit:
            return tuple(found)
    return None


def _in_one(parts: tuple[Part, ...], text: str) -> tuple[Part, ...]:
    """The parts with one text, where the first was."""
    first = next(at for at, part in enumerate(parts) if isinstance(part, Text))
    rest = [part for part in parts[first:] if not isinstance(part, Text)]
    return (*parts[:first], Text(text=text), *rest)


def _cut(text: str, ref: str, limit: int, count: Count) -> str:
    """A text that is over the limit, within it."""
    value = _json(text)
    guess = limit * len(text) // max(1, _measured(text, limit, count))
    if value is _NO_JSON:
        ends = _is_json_lines(text)
        return _widest(lambda room: _cut_text(text, room, ref, ends), limit, count, guess, len(text))
    return _widest(
        lambda room: _written(_cut_root(value, room, ref)), limit, count, guess, 4 * len(text) + _LEAST
    )


def _widest(make: Callable[[int], str], limit: int, count: Count, guess: int, most: int) -> str:
    """The longest within the limit that was found of `make(0)` to `make(most)`; `make(0)` when none was."""
    best, low, high, at = "", 0, most + 1, guess
    for tried in range(_TRIES):
        if high - low <= 1:
            break
        at = min(max(at, low + 1), high - 1)
        made = make(at)
        counted = _measured(made, limit, count)
        if counted <= limit:
            best, low = made, at
            if counted >= _ENOUGH * limit:
                break
        else:
            high = at
        likely = round(at * 0.98 * limit / max(1, counted))
        at = likely if tried < _TRIES // 2 and low < likely < high else (low + high) // 2
    return best or make(0)


def _measured(text: str, most: int, count: Count) -> int:
    """The count of a text that has at most `most` tokens; for any other an estimate above that, from as
    little of its beginning as shows it."""
    size = max(_SAMPLE, 16 * most)
    while size < len(text):
        counted = count(text[:size])
        # Where a beginning is cut it may take some tokens more than within the whole.
        if counted > most + most // 8 + 16:
            return max(most + 1, counted * len(text) // size)
        size *= 8
    return count(text)


def _shares(parts: int, room: int, takes: Callable[[int, int], int]) -> list[int]:
    """What each part gets of the room: all it takes when that is at most an equal share of what the smaller
    ones leave, or else that share. `takes(part, most)` is what it takes, or anything above `most`."""
    shares = [0] * parts
    waiting = list(range(parts))
    for _ in range(_ROUNDS):
        if not waiting:
            break
        equal = max(0, room) // len(waiting)
        taken = {part: takes(part, equal) for part in waiting}
        small = [part for part in waiting if taken[part] <= equal]
        if not small:
            break
        for part in small:
            shares[part] = taken[part]
            room -= taken[part]
        waiting = [part for part in waiting if taken[part] > equal]
    for part in waiting:
        shares[part] = max(0, room) // len(waiting)
    return shares


# Text.


def _cut_text(text: str, room: int, ref: str, ends: bool) -> str:
    """The text's beginning and end, about `room` characters in all, at line ends where one is near or, for
    `ends`, wherever it is."""
    total = len(text)
    stop, start = room * 2 // 3, total - room // 3
    near = total if ends else room // 6
    line = text.rfind("\n", max(0, stop - near), stop)
    stop = line + 1 if line >= 0 else _edge(text, stop)
    line = text.find("\n", start - 1, min(total, start + near)) if start > 0 else -1
    start = line + 1 if line >= 0 else _edge(text, start)
    if start <= stop:
        return text
    left_out = f"{start - stop:,} characters left out"
    marker = f'[… {left_out}; `{READ_TOOL}` with ref "{ref}" gives the whole]'
    before, after = text[:stop], text[start:]
    if before and not before.endswith("\n"):
        before += "\n"
    return f"{before}{marker}\n{after}" if after else before + marker


def _is_json_lines(text: str) -> bool:
    first = text.find("\n")
    second = text.find("\n", first + 1)
    if not 0 < first < second < _LONGEST_LINE:
        return False
    return _json(text[:first]) is not _NO_JSON and _json(text[first + 1 : second]) is not _NO_JSON


def _edge(text: str, at: int) -> int:
    """`at`, or where the character begins that it would part."""
    for back in range(at, max(-1, at - _CLUSTER), -1):
        if back in (0, len(text)) or not _joins(text[back - 1], text[back]):
            return back
    return at


def _joins(before: str, char: str) -> bool:
    """Whether the two are seen as one: marks, joiners, skin tones, halves of a pair, a line break of two."""
    if char.isascii():
        return before == "\r" and char == "\n"
    return (
        unicodedata.category(char) in ("Mn", "Mc", "Me")
        or char == "\u200d"
        or before == "\u200d"
        or "\U0001f3fb" <= char <= "\U0001f3ff"
        or ("\ud800" <= before <= "\udbff" and "\udc00" <= char <= "\udfff")
    )


# JSON. Rooms and sizes are bytes of UTF-8, written without spaces; escapes are left to the count.


def _json(text: str) -> Any:
    """The value of the text, or `_NO_JSON`."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):  # RecursionError: nested too deep to be read
        return _NO_JSON


def _written(value: Any) -> str:
    made = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    # Halves of a pair stand only in strings, where they can be escaped; as they are they cannot be sent.
    return made if made.isascii() else _SURROGATE.sub(lambda half: f"\\u{ord(half.group()):04x}", made)


def _cut_root(value: Any, room: int, ref: str) -> Any:
    """The value with a reference in it, within the room if it can be; the value itself when that fits."""
    if _size(value, room) <= room:
        return value
    whole = f"{READ_TOOL} {ref}"
    match value:
        case dict():
            key = "_whole"
            while key in value:
                key = f"_{key}"
            left = room - len(key) - len(whole) - 6
            return {**_cut_object(value, left, 0), key: whole}
        case list():
            return [*_cut_array(value, room - len(whole) - 3, 0), whole]
        case str():
            return _cut_string(value, room, whole)
        case _:
            return _cut_string(json.dumps(value), room, whole)


def _cut_value(value: Any, room: int, depth: int) -> Any:
    least = max(room, _LEAST)
    if _size(value, least, depth) <= least:
        return value
    match value:
        case dict():
            return _cut_object(value, room, depth)
        case list():
            return _cut_array(value, room, depth)
        case str():
            return _cut_string(value, room)
        case _:
            return _cut_string(json.dumps(value), room)


def _cut_object(value: dict[str, Any], room: int, depth: int) -> dict[str, Any]:
    """The first members, long ones cut, and how many more there are."""
    marker = "…"
    while marker in value:
        marker += "…"
    claims: list[int] = []
    left = room - 2
    if depth < _DEEPEST:
        least = max(left // _MEMBERS, _LEAST)
        for key, member in value.items():
            claim = _size(key, left) + 2 + min(_size(member, least, depth + 1), least)
            if claim > left:
                break
            claims.append(claim)
            left -= claim
    if len(claims) < len(value):
        _give_up(claims, left, _LEAST)
    keys = list(islice(value, len(claims)))
    left = room - 2 - sum(_size(key, room) + 2 for key in keys) - (_LEAST if len(keys) < len(value) else 0)
    shares = _shares(len(keys), left, lambda at, most: _size(value[keys[at]], most, depth + 1))
    found = {key: _cut_value(value[key], share, depth + 1) for key, share in zip(keys, shares, strict=True)}
    more = len(value) - len(keys)
    return {**found, marker: f"{more:,} more {_plural('member', more)}"} if more else found


def _cut_array(value: list[Any], room: int, depth: int) -> list[Any]:
    """The first items and the last, long ones cut, and how many there are between."""
    left = room - 2
    claims: list[int] = []
    if depth < _DEEPEST:
        least = max(left // _ITEMS, _LEAST)
        for item in chain(value[-1:], islice(value, len(value) - 1)):
            claim = min(_size(item, least, depth + 1), least) + 1
            if claim > left:
                break
            claims.append(claim)
            left -= claim
    if len(claims) < len(value):
        _give_up(claims, left, _LEAST)
    if not claims:
        return [f"… [{len(value):,} {_plural('item', len(value))} left out]"]
    shown = [*value[: len(claims) - 1], value[-1]]
    more = len(value) - len(shown)
    left = room - 2 - len(shown) - (_LEAST if more else 0)
    shares = _shares(len(shown), left, lambda at, most: _size(shown[at], most, depth + 1))
    found = [_cut_value(item, share, depth + 1) for item, share in zip(shown, shares, strict=True)]
    between = [f"… [{more:,} {_plural('item', more)} left out]"] if more else []
    return [*found[:-1], *between, found[-1]]


def _give_up(claims: list[int], left: int, room: int) -> None:
    """Takes the latest claims back until there is room beside those that stay."""
    while claims and left < room:
        left += claims.pop()


def _cut_string(text: str, room: int, whole: str = "") -> str:
    """The string's beginning and end, and between them how much is left out and where it is."""
    told = f"; {whole}" if whole else ""
    left = room - len(f"… [{len(text):,} characters left out{told}] …") - 6
    stop = start = 0
    if left > 0:
        stop = _edge(text, _characters(text[:left], left * 2 // 3))
        start = _edge(text, len(text) - _characters(text[-left:], left // 3))
        if start <= stop:
            return text
        marker = f"… [{start - stop:,} characters left out{told}] …"
        return text[:stop] + marker + text[start:]
    return f"… [{len(text):,} characters left out{told}]"


def _characters(sample: str, room: int) -> int:
    """How many characters of text like the sample about fill the room."""
    return room * len(sample) // max(1, len(sample.encode("utf-8", "surrogatepass")))


def _size(value: Any, most: int, depth: int = 0) -> int:
    """What the value takes; anything above `most` once it is known to take more, or is nested too deep to be
    shown. Looks at no more than about `most` values."""
    total = 0
    waiting = [(value, depth)]
    while waiting:
        each, level = waiting.pop()
        if isinstance(each, str):
            fits = len(each) <= most - total
            total += 2 + (len(each.encode("utf-8", "surrogatepass")) if fits else len(each))
        elif isinstance(each, dict | list):
            total += 2 + (2 if isinstance(each, dict) else 1) * len(each)
            if total > most or level >= _DEEPEST:
                return max(total, most + 1)
            if isinstance(each, dict):
                waiting += [(key, level) for key in each]
                each = list(each.values())
            waiting += [(inner, level + 1) for inner in each]
        else:
            total += len(json.dumps(each))
        if total > most:
            return total
    return total


def _plural(word: str, number: int) -> str:
    return word if number == 1 else f"{word}s"
