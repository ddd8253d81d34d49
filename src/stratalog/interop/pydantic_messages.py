"""Pydantic AI's messages as entries of a log, and back.

A request is an entry for each prompt and each return in it; a response is one message of the assistant, with
its words, reasoning and files, and then its calls. The first entry carries in its `meta` what they do not say
(see `exact`) and a digest of the message; each says which parts it stands for. Messages of a run are a turn.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple

import msgspec
from pydantic_ai.messages import (
    CompactionPart,
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelResponse,
    SystemPromptPart,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_core import PydanticSerializationError

from stratalog.errors import InvalidInput
from stratalog.ids import derived_ulid, new_ulid
from stratalog.interop.build import items, table, text, usage_of
from stratalog.interop.content import content_of
from stratalog.interop.exact import kept, restored
from stratalog.interop.records import parse, storable
from stratalog.types import (
    AnyEntry,
    Assistant,
    Audio,
    Compaction,
    Content,
    Data,
    File,
    Image,
    Note,
    Part,
    Reasoning,
    System,
    Text,
    ToolCall,
    ToolResult,
    TurnEnd,
    User,
    text_of,
)

MARK: Final = "pydantic_ai"
SAID: Final = (System, User, Assistant, ToolCall, ToolResult)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_SUMMARY: Final = "stratalog_summary"
_FAILED: Final = ("failed", "retried")


class Group(NamedTuple):
    """The entries of one message, all of them, and its digest; of somebody else's entry, that one and ""."""

    entries: tuple[AnyEntry, ...]
    digest: str


# --- from messages to entries ---


def as_json(message: ModelMessage) -> dict[str, Any]:
    """The message as the SDK's own adapter writes one that it has read. Raises `InvalidInput`."""
    (value,) = json.loads(_written(message))
    assert isinstance(value, dict)
    return value


def digest_of(message: ModelMessage) -> str:
    """The same for the same message, also when it was stored and loaded meanwhile, and for no other. Raises
    `InvalidInput`."""
    return hashlib.sha256(_written(message)).hexdigest()[:32]


def _written(message: ModelMessage) -> bytes:
    """The message as it is when it was stored and loaded: parts of old kinds become what the SDK has in their
    place, and lone surrogates, which it cannot write, U+FFFD. Raises `InvalidInput` for what has no JSON."""
    adapter = ModelMessagesTypeAdapter
    try:
        try:
            raw = adapter.dump_json([message])
        except PydanticSerializationError:
            raw = json.dumps(storable(adapter.dump_python([message], mode="json"))).encode()
        return adapter.dump_json(adapter.validate_json(raw))
    except ValueError as error:  # pydantic's errors are ValueErrors
        raise InvalidInput(f"the message cannot be kept, for it has no JSON: {error}") from error


def entries_of(message: ModelMessage, digest: str) -> list[AnyEntry]:
    """The entries of a message, at least one, to be appended together."""
    value = as_json(message)
    parts = [table(part) for part in items(value.get("parts"))]
    made = list(_of_response(value, parts) if isinstance(message, ModelResponse) else _of_request(parts))
    if not made:
        made = [(Note(kind=MARK), [])]
    entries = [entry for entry, _ in made]
    turn = derived_ulid(0, MARK, message.run_id) if message.run_id else ""
    whole = {**kept(value, entries), "digest": digest, "entries": len(entries)}
    marks = [{"place": place, "parts": of} for place, (_, of) in enumerate(made)]
    marks[0] |= whole
    return [
        msgspec.structs.replace(entry, turn=turn, meta={**(entry.meta or {}), MARK: mark})
        for entry, mark in zip(entries, marks, strict=True)
    ]


def with_ends(entries: Sequence[AnyEntry]) -> Iterator[AnyEntry]:
    """The entries, with the end of each turn after the last one of it."""
    last = {entry.turn: place for place, entry in enumerate(entries) if entry.turn}
    waiting: dict[str, set[str]] = {}
    for place, entry in enumerate(entries):
        calls = waiting.setdefault(entry.turn, set())
        if isinstance(entry, ToolCall):
            calls.add(entry.call_id)
        elif isinstance(entry, ToolResult):
            calls.discard(entry.call_id)
        yield entry
        if entry.turn and last[entry.turn] == place:
            # A run may end with the return of the tool that gave its output.
            answered = isinstance(entry, Assistant | ToolResult) and not calls
            yield TurnEnd(turn=entry.turn, status="answered" if answered else "interrupted")


def time_of(message: ModelMessage) -> int | None:
    """When the message was made, milliseconds UTC; None where nothing of it says that, or in no zone."""
    told = (
        [message.timestamp]
        if message.timestamp
        else [getattr(each, "timestamp", None) for each in message.parts]
    )
    times = [each for each in told if isinstance(each, datetime)]
    if not times or any(each.tzinfo is None for each in times):
        return None
    return (min(times) - _EPOCH) // timedelta(milliseconds=1)


def _of_request(parts: Sequence[dict[str, Any]]) -> Iterator[tuple[AnyEntry, list[int]]]:
    for place, part in enumerate(parts):
        match part.get("part_kind"):
            case "system-prompt":
                yield System(content=text(part.get("content"))), [place]
            case "user-prompt":
                yield User(content=_prompt(part.get("content"))), [place]
            case "tool-return" if text(part.get("tool_call_id")):
                name, failed = text(part.get("tool_name")), part.get("outcome") in _FAILED
                said = _returned(part.get("content"))
                yield ToolResult(call_id=part["tool_call_id"], name=name, content=said, error=failed), [place]
            case "retry-feedback" | "compaction" if part.get("content"):
                yield User(content=_returned(part["content"]), meta={"injected": True}), [place]
            case _:
                pass


def _of_response(
    value: dict[str, Any], parts: Sequence[dict[str, Any]]
) -> Iterator[tuple[AnyEntry, list[int]]]:
    response = new_ulid()
    calls = [place for place, part in enumerate(parts) if part.get("part_kind") == "tool-call"]
    said = [place for place in range(len(parts)) if place not in calls]
    counted = table(value.get("usage"))
    usage = usage_of(
        input=counted.get("input_tokens"),
        output=counted.get("output_tokens"),
        cache_read=counted.get("cache_read_tokens"),
        cache_write=counted.get("cache_write_tokens"),
        reasoning=counted.get("output_reasoning_tokens"),
    )
    words = content_of(_told(parts[place]) for place in said)
    yield Assistant(content=words, model=text(value.get("model_name")), response=response, usage=usage), said
    for place in calls:
        args = parts[place].get("args")
        call = ToolCall(
            call_id=text(parts[place].get("tool_call_id")) or f"call_{new_ulid()}",
            name=text(parts[place].get("tool_name")),
            args=parse(args) if isinstance(args, str) else storable(args),
            response=response,
        )
        yield call, [place]


def _told(part: dict[str, Any]) -> Part:
    match part.get("part_kind"):
        case "text":
            return Text(text=text(part.get("content")))
        case "thinking":
            return Reasoning(text=text(part.get("content")), signature=text(part.get("signature")))
        case "file":
            return _shown(part.get("content"))
        case kind:
            return Data(kind=str(kind), value=part)


def _prompt(value: Any) -> Content:
    return value if isinstance(value, str) else content_of(map(_shown, items(value)))


def _returned(value: Any) -> Content:
    """What a tool returned: text as it is, files as such, anything else as JSON text."""
    if isinstance(value, str):
        return value
    listed = value if isinstance(value, list) else [value]
    if any(isinstance(each, dict) and "kind" in each for each in listed):
        return content_of(map(_shown, listed))
    return json.dumps(value, ensure_ascii=False)


def _shown(value: Any) -> Part:
    """A part of a prompt or of what was returned."""
    if isinstance(value, str):
        return Text(text=value)
    part = table(value)
    media, url = text(part.get("media_type")), text(part.get("url"))
    match part.get("kind"):
        case "text-content" | "text" if isinstance(part.get("content"), str):
            return Text(text=part["content"])
        case "image-url":
            return Image(media_type=media, url=url)
        case "audio-url":
            return Audio(media_type=media, url=url)
        case "document-url" | "video-url":
            return File(media_type=media, url=url)
        case "binary":
            try:
                data = base64.b64decode(text(part.get("data")), validate=True)
            except (binascii.Error, ValueError):
                return Data(kind="binary", value=value)
            if media.startswith("image/"):
                return Image(media_type=media, data=data)
            kind_of = Audio if media.startswith("audio/") else File
            return kind_of(media_type=media, data=data)
        case kind:
            return Data(kind=str(kind or "value"), value=value)


# --- from entries to messages ---


def place_of(entry: AnyEntry) -> int | None:
    """The entry's place in its message; None for one that is of none."""
    place = _mark(entry).get("place")
    return place if isinstance(place, int) and 0 <= place < entry.seq else None


def stored_digest(entry: AnyEntry) -> str:
    """The digest of the message that the entry carries; "" for none."""
    return text(_mark(entry).get("digest"))


def grouped(entries: Iterable[AnyEntry]) -> Iterator[Group]:
    """The messages that entries, in the order of their log, are of."""
    listed = list(entries)
    place = 0
    while place < len(listed):
        entry = listed[place]
        count = _mark(entry).get("entries") if place_of(entry) == 0 else None
        group = tuple(listed[place : place + count]) if isinstance(count, int) and count > 0 else ()
        if group and [place_of(each) for each in group] == list(range(len(group))) and len(group) == count:
            yield Group(group, stored_digest(entry))
            place += len(group)
            continue
        if isinstance(entry, SAID):
            yield Group((entry,), "")
        place += 1


def message_of(group: Group, seen: Collection[str]) -> ModelMessage | None:
    """The message of which the entries with these ids are seen: all of it, or the parts that they stand for;
    None when nothing is left, or nothing of it can be said."""
    first, *_ = group.entries
    if group.digest or place_of(first) == 0:
        try:
            value = restored(_mark(first), group.entries)
            (message,) = ModelMessagesTypeAdapter.validate_json(json.dumps([value]))
        except (LookupError, TypeError, ValueError):
            return _foreign(first)  # damaged, or somebody else's mark; pydantic's errors are ValueErrors
        return only(message, group.entries, [each if each.id in seen else None for each in group.entries])
    return _foreign(first)


def only(
    message: ModelMessage, entries: Sequence[AnyEntry], shown: Sequence[AnyEntry | None]
) -> ModelMessage | None:
    """The message with the parts that the entries `shown` stand for, a return as it is shown there; the same
    object where that is all of it. None for no parts. `shown` has None for what is not."""
    lost = [place for place, entry in enumerate(shown) if entry is None and _counts(entries[place])]
    if len(lost) == sum(map(_counts, entries)) and lost:
        return None
    gone = {part for place in lost for part in _parts_of(entries[place])}
    changed = {
        part: text_of(entry.content)
        for entry, was in zip(shown, entries, strict=True)
        if isinstance(entry, ToolResult) and isinstance(was, ToolResult) and entry.content != was.content
        for part in _parts_of(was)
    }
    if not gone and not changed:
        return message
    parts = [_changed(part, changed.get(at)) for at, part in enumerate(message.parts) if at not in gone]
    made: ModelMessage = replace(message, parts=parts)  # type: ignore[arg-type] # parts of one and the same
    return made if parts else None


def _changed(part: Any, words: str | None) -> Any:
    return part if words is None else replace(part, content=words)


def _counts(entry: AnyEntry) -> bool:
    """Whether a model is shown the entry at all: a reply without words is there for its calls, and a message
    without entries has a note."""
    return not isinstance(entry, Note) and not (isinstance(entry, Assistant) and not entry.content)


def summarised(summary: Compaction) -> ModelRequest:
    """The summary as the SDK has one that the application wrote."""
    told = {_SUMMARY: summary.id or "cut"}
    return ModelRequest(parts=[CompactionPart(content=summary.summary, metadata=told)])


def summary_of(message: ModelMessage) -> bool:
    """Whether `summarised` made the message."""
    return any(
        isinstance(part, CompactionPart) and _SUMMARY in (part.metadata or {}) for part in message.parts
    )


def opened(messages: list[ModelMessage], told: Iterable[ModelMessage]) -> list[ModelMessage]:
    """The messages with what is told of those that are not among them after the system's prompts, which the
    SDK takes for such only where nothing is before them."""
    lead = 0
    while lead < len(messages) and all(isinstance(part, SystemPromptPart) for part in messages[lead].parts):
        lead += 1
    return [*messages[:lead], *told, *messages[lead:]]


def notice(entry: AnyEntry) -> ModelRequest:
    """What a context says itself, as a prompt."""
    return ModelRequest(parts=[UserPromptPart(content=text_of(getattr(entry, "content", "")))])


def _foreign(entry: AnyEntry) -> ModelMessage | None:
    """A message that says what an entry says that was not made of one."""
    match entry:
        case User() if entry.text:
            return ModelRequest(parts=[UserPromptPart(content=entry.text)])
        case Assistant() if entry.text:
            return ModelResponse(parts=[TextPart(content=entry.text)], model_name=entry.model or None)
        case ToolCall():
            args = entry.args if isinstance(entry.args, str | dict) else json.dumps(entry.args)
            return ModelResponse(parts=[ToolCallPart(entry.name, args, entry.call_id)])
        case ToolResult():
            outcome: Any = "failed" if entry.error else "success"
            return ModelRequest(
                parts=[ToolReturnPart(entry.name, entry.text, entry.call_id, outcome=outcome)]
            )
        case _:
            return None


def _parts_of(entry: AnyEntry) -> list[int]:
    return [part for part in items(_mark(entry).get("parts")) if isinstance(part, int)]


def _mark(entry: AnyEntry) -> dict[str, Any]:
    return table((entry.meta or {}).get(MARK))
