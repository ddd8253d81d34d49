"""What of an ADK object is told by entries of the log, and the rest: pure, and exact in both directions.

An event is one append. Its first entry, the carrier, has the event's JSON in `meta.adk`, but for what the
entries after it say: words, payloads, calls, results and changes of state stand there once, and the carrier
says where each is to be put back.

    note            meta.adk: {"n": 2, "event": {…}, "from": [[1, 0, ["content", "parts", 0, "text"]]]}
    assistant       "It rains."
    turn_start

`n` is how many entries after the carrier are the event's. A place is the number of the entry after the
carrier, the number of the part within it, and the path in the JSON; a fourth member `1` says that the text
there is JSON itself.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple, TypeAlias, TypeGuard

import msgspec

from stratalog.types import (
    AnyEntry,
    Assistant,
    Audio,
    Content,
    Data,
    File,
    Image,
    Note,
    Part,
    Reasoning,
    Text,
    ToolCall,
    ToolResult,
    Usage,
    User,
    WorkingMemory,
)

ADK: Final = "adk"  # in the meta of a carrier, and in the metadata of a session: its ids
CARRIER: Final = "metadata"  # what its data says is said of the session
Json: TypeAlias = dict[str, Any]
Path: TypeAlias = list[str | int]
_WORDS_OF_RESULT: Final = ("result", "output", "error")
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode


class Woven(NamedTuple):
    """The JSON without what the entries say, the entries after the carrier, and the places."""

    rest: Json
    entries: list[AnyEntry]
    places: list[list[Any]]


class Group(NamedTuple):
    """A carrier and the entries that belong to it, as they were read; what is damaged is missing."""

    carrier: Note
    entries: tuple[AnyEntry, ...]

    @property
    def told(self) -> Json:
        """The carrier's `meta.adk`."""
        return told_by(self.carrier)

    @property
    def end(self) -> int:
        """The number of its last entry."""
        return self.carrier.seq + int(self.told["n"])


def woven(dump: Json, *, of_user: bool, turn: str = "", ts: int = 0, response: str = "") -> Woven:
    """`dump` is the JSON of an object with a genai `content`, `author` and perhaps `actions`, which is not
    changed. `ts` is milliseconds, 0 for now; `response` is the response that calls and words came in."""
    weaver = _Weaver(dump, of_user, turn, ts, response)
    for at, part in enumerate(dump.get("content", {}).get("parts") or ()):
        weaver.part(at, part)
    weaver.message()
    compaction = dump.get("actions", {}).get("compaction") or {}
    for at, part in enumerate(compaction.get("compacted_content", {}).get("parts") or ()):
        if isinstance(part.get("text"), str) and not part.get("thought"):
            path: Path = ["actions", "compaction", "compacted_content", "parts", at, "text"]
            weaver.put(Note(kind="summary", text=part["text"], turn=turn, ts=ts), path)
    return Woven(weaver.rest, weaver.entries, weaver.places)


def with_memory(found: Woven, delta: Mapping[str, Any], path: Path, turn: str = "") -> Woven:
    """The same, with the values of `delta` at `path` told as changes of working memory."""
    entries, places, rest = list(found.entries), list(found.places), found.rest
    for key, value in delta.items():
        entries.append(WorkingMemory(op="set", key=key, value=value, turn=turn))
        places.append([len(entries), 0, [*path, key]])
        rest = _put(rest, [*path, key], None)
    return Woven(rest, entries, places)


def groups(newest_first: Iterable[AnyEntry]) -> Iterator[Group]:
    """The groups among entries that are read backwards, the newest first. What is in none is passed over."""
    after: list[AnyEntry] = []
    for entry in newest_first:
        if is_carrier(entry):
            end = Group(entry, ()).end
            yield Group(entry, tuple(each for each in reversed(after) if each.seq <= end))
            after = []
        else:
            after.append(entry)


def told_by(carrier: Note) -> Json:
    """What a carrier says of what it carries."""
    told: Json = (carrier.meta or {})[ADK]
    return told


def is_carrier(entry: AnyEntry) -> TypeGuard[Note]:
    told = entry.meta.get(ADK) if entry.meta is not None else None
    return isinstance(entry, Note) and isinstance(told, dict) and isinstance(told.get("n"), int)


def filled(group: Group, name: str) -> bytes | None:
    """The JSON that was woven, as text; `name` is where the carrier has it. None when entries are missing."""
    told = group.told
    rest: Json = told[name]
    by_place = {entry.seq - group.carrier.seq: entry for entry in group.entries}
    for place in told["from"]:
        number, part, path, *is_json = place
        try:
            value = _said(by_place[number], part)
        except (KeyError, IndexError, TypeError):
            return None
        rest = _put(rest, path, _decode(value) if is_json else value)
    return _encode(rest)


def usage_of(dump: Json) -> Usage | None:
    """The tokens of an event, as the log counts them."""
    told = dump.get("usage_metadata")
    if not told:
        return None
    thoughts = told.get("thoughts_token_count") or 0
    return Usage(
        input=told.get("prompt_token_count") or 0,
        output=(told.get("candidates_token_count") or 0) + thoughts,
        cache_read=told.get("cached_content_token_count") or 0,
        reasoning=thoughts,
    )


class _Weaver:
    """Makes entries of the parts of one content, and takes out of its JSON what they say."""

    def __init__(self, dump: Json, of_user: bool, turn: str, ts: int, response: str) -> None:
        self.rest = dump
        self.entries: list[AnyEntry] = []
        self.places: list[list[Any]] = []
        self._of_user = of_user
        self._stamps: Json = {"turn": turn, "ts": ts}
        self._response = response
        self._model = str(dump.get("model_version") or "")
        self._usage = usage_of(dump)
        self._name = str(dump.get("author") or "")
        self._parts: list[Part] = []

    def put(self, entry: AnyEntry, path: Path, *, is_json: bool = False) -> None:
        """Adds an entry, which says what is at `path`."""
        self.entries.append(entry)
        self._take(len(self.entries), 0, path, is_json)

    def part(self, at: int, part: Json) -> None:
        """Adds one part of the content."""
        path: Path = ["content", "parts", at]
        match part:
            case {"function_call": dict(call)}:
                self._call(at, call, [*path, "function_call", "args"])
            case {"function_response": dict(result)}:
                self._result(at, result, [*path, "function_response", "response"])
            case {"text": str(text), "thought": True}:
                self._within(Reasoning(text=text), [*path, "text"])
            case {"text": str(text)}:
                self._within(Text(text=text), [*path, "text"])
            case {"inline_data": {"data": str(data), **_blob}} if (raw := _bytes(data)) is not None:
                made = _payload(part["inline_data"], data=raw)
                self._within(made, [*path, "inline_data", "data"])
            case {"file_data": {"file_uri": str(uri), **_file}}:
                self._within(_payload(part["file_data"], url=uri), [*path, "file_data", "file_uri"])
            case _:
                for kind, value in part.items():
                    self._within(Data(kind=kind, value=value), [*path, kind])

    def message(self) -> None:
        """Makes one message of the parts so far."""
        if not self._parts:
            return
        only = self._parts[0]
        single = len(self._parts) == 1 and isinstance(only, Text)
        content: Content = only.text if single and isinstance(only, Text) else tuple(self._parts)
        if self._of_user:
            self.entries.append(User(content=content, **self._stamps))
        else:
            said = Assistant(
                content=content,
                model=self._model,
                usage=self._usage,
                response=self._response,
                meta={"name": self._name} if self._name else None,
                **self._stamps,
            )
            self.entries.append(said)
            self._usage = None  # tokens are counted once
        self._parts = []

    def _within(self, part: Part, path: Path) -> None:
        self._take(len(self.entries) + 1, len(self._parts), path, False)
        self._parts.append(part)

    def _call(self, at: int, call: Json, path: Path) -> None:
        self.message()
        made = ToolCall(
            call_id=str(call.get("id") or at),
            name=str(call.get("name") or ""),
            args=call.get("args"),
            response=self._response,
            **self._stamps,
        )
        if made.args is None:
            self.entries.append(made)
        else:
            self.put(made, path)

    def _result(self, at: int, result: Json, path: Path) -> None:
        self.message()
        response: Json = result.get("response") or {}
        word = next(iter(response)) if len(response) == 1 else ""
        plain = word in _WORDS_OF_RESULT and isinstance(response[word], str)
        made = ToolResult(
            call_id=str(result.get("id") or at),
            name=str(result.get("name") or ""),
            content=response[word] if plain else json.dumps(response, ensure_ascii=False),
            error="error" in response,
            **self._stamps,
        )
        if "response" in result:
            self.put(made, [*path, word] if plain else path, is_json=not plain)
        else:
            self.entries.append(made)

    def _take(self, entry: int, part: int, path: Path, is_json: bool) -> None:
        self.places.append([entry, part, path, *([1] if is_json else [])])
        self.rest = _put(self.rest, path, None)


def _said(entry: AnyEntry, part: int) -> Any:
    """What an entry says in its part of this number. Raises `TypeError`, `IndexError` if it says nothing."""
    match entry:
        case ToolCall():
            return entry.args
        case WorkingMemory():
            return entry.value
        case Note(kind="summary"):
            return entry.text
        case User() | Assistant() | ToolResult() if isinstance(entry.content, str):
            return entry.content
        case User() | Assistant() | ToolResult():
            return _of_part(entry.content[part])
        case _:
            raise TypeError(f"an entry of type {type(entry).__name__} is not of an event")


def _of_part(part: Any) -> Any:
    match part:
        case Text() | Reasoning():
            return part.text
        case Data():
            return part.value
        case _:
            return part.url or base64.urlsafe_b64encode(part.data).decode()


def _payload(told: Json, *, data: bytes = b"", url: str = "") -> Part:
    media, name = str(told.get("mime_type") or ""), str(told.get("display_name") or "")
    if media.startswith("image/"):
        return Image(media_type=media, data=data, url=url)
    if media.startswith("audio/"):
        return Audio(media_type=media, data=data, url=url)
    return File(media_type=media, name=name, data=data, url=url)


def _bytes(text: str) -> bytes | None:
    """The bytes of base64; None where they would not be written as this text again."""
    try:
        raw = base64.urlsafe_b64decode(text)
    except (binascii.Error, ValueError):
        return None
    return raw if base64.urlsafe_b64encode(raw).decode() == text else None


def _put(value: Any, path: Path, new: Any) -> Any:
    """A copy of the JSON value with `new` at `path`."""
    if not path:
        return new
    step, *more = path
    copy: Any = dict(value) if isinstance(value, dict) else list(value)
    copy[step] = _put(copy[step], more, new)
    return copy
