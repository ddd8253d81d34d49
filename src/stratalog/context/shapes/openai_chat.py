"""OpenAI's chat completions, and what compatible servers take of them.

One system message comes first, with the summary in it; each assistant message with calls is followed by
exactly their results.

Reasoning is left out, unless the server wants its own back (`sends_reasoning`): then it goes with every
message that has any, and empty with calls that have none. (DeepSeek, Kimi and GLM demand it while they call
tools, and ignore it elsewhere; sent with every message, it leaves the bytes of earlier ones as they were.)

This shape has no place for: reasoning with a provider's seal (left out); a tool result's error flag, and its
images (told in words); several texts in one reply (they become one, a blank line between); files other than
PDF and text, sounds other than WAV and MP3, and any of them by address (told in words). Arguments that are no
JSON object are put under a key, for compatible servers parse them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from stratalog.context.invariants import Seen
from stratalog.context.shapes.calls import CallIds, as_object, from_object, from_text, tool_name
from stratalog.context.shapes.contract import Prompt
from stratalog.context.shapes.conversation import (
    NO_WORDS,
    Reply,
    Results,
    content_of,
    conversation,
    messages,
    parts_of,
    summary_words,
    system_block,
)
from stratalog.context.shapes.media import PDF, image, inline, link, not_shown, words_in
from stratalog.context.shapes.reasoning import of_chat
from stratalog.types import (
    Assistant,
    Audio,
    Compaction,
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

_LONGEST_ID = 40
_LONGEST_NAME = 64
_SOUNDS = {"audio/wav": "wav", "audio/x-wav": "wav", "audio/mpeg": "mp3", "audio/mp3": "mp3"}
_OWN = ("text", "image_url", "input_audio", "file")


class OpenAIChatShape:
    """See `contract.ShapeOf`."""

    def __init__(self, *, sends_reasoning: bool = False) -> None:
        self._sends_reasoning = sends_reasoning

    def body(self, prompt: Prompt) -> dict[str, Any]:
        words, summary = system_block(prompt)
        block = "\n\n".join([*words, *([summary] if summary else [])])
        leading = [{"role": "system", "content": block}] if block else []
        body: dict[str, Any] = {
            "messages": [*leading, *_messages(conversation(prompt), self._sends_reasoning)]
        }
        if prompt.tools:
            body["tools"] = [
                {"type": "function", "function": msgspec.structs.asdict(tool)} for tool in prompt.tools
            ]
        if prompt.max_output:
            body["max_completion_tokens"] = prompt.max_output
        return body

    def entries(self, message: dict[str, Any], response: str) -> list[Assistant | ToolCall]:
        """A refusal is text, marked in `meta`. What compatible servers send beside, but for reasoning, is
        left out."""
        thought = message.get("reasoning_content") or message.get("reasoning")
        parts: list[Part] = [Reasoning(text=thought)] if isinstance(thought, str) and thought else []
        parts += _said(message.get("content"))
        refusal = message.get("refusal")
        if isinstance(refusal, str) and refusal:
            parts.append(Text(text=refusal))
        found: list[Assistant | ToolCall] = []
        if parts:
            meta = {"refusal": True} if refusal else None
            found.append(Assistant(content=content_of(parts), response=response, meta=meta))
        return found + [_called(call, response) for call in message.get("tool_calls") or ()]


def chat_messages(
    system: Iterable[System],
    summary: Compaction | None,
    entries: Iterable[Seen],
    *,
    sends_reasoning: bool = False,
) -> list[dict[str, Any]]:
    """The messages of entries that are mended already."""
    words = [entry.text for entry in system]
    if summary is not None:
        words.append(summary_words(summary.summary))
    leading = [{"role": "system", "content": "\n\n".join(words)}] if words else []
    return [*leading, *_messages(entries, sends_reasoning)]


def _messages(entries: Iterable[Seen], sends_reasoning: bool) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    ids = CallIds(_LONGEST_ID)
    for message in messages(entries):
        match message:
            case User():
                found.append({"role": "user", "content": _content(message.content)})
            case Results():
                found += [
                    {
                        "role": "tool",
                        "tool_call_id": ids.of_result(each.call_id),
                        "content": _told(each.content),
                    }
                    for each in message.results
                ]
            case Reply():
                found += _reply(message, ids, sends_reasoning)
    return found


def _reply(reply: Reply, ids: CallIds, sends_reasoning: bool) -> list[dict[str, Any]]:
    """The assistant's message; none when nothing in it can be sent."""
    words = "\n\n".join(filter(None, (_told(said.content) for said in reply.said)))
    if not words and not reply.calls:
        return []
    message: dict[str, Any] = {"role": "assistant", "content": words or None}
    if sends_reasoning:
        parts = (part for said in reply.said for part in parts_of(said.content))
        thought = "\n\n".join(part.text for part in parts if isinstance(part, Reasoning) and of_chat(part))
        if thought or reply.calls:
            message["reasoning_content"] = thought
    if reply.calls:
        message["tool_calls"] = [_call(call, ids) for call in reply.calls]
    return [message]


def _result(result: ToolResult, ids: CallIds) -> dict[str, Any]:
    words = [_told(result.content)]
    words += [not_shown(part) for part in parts_of(result.content) if isinstance(part, Data)]
    content = "\n\n".join(filter(None, words))
    return {"role": "tool", "tool_call_id": ids.of_result(result.call_id), "content": content}


def _call(call: ToolCall, ids: CallIds) -> dict[str, Any]:
    arguments = msgspec.json.encode(as_object(call.args)).decode()
    function = {"name": tool_name(call.name, _LONGEST_NAME), "arguments": arguments}
    return {"id": ids.of_call(call.call_id), "type": "function", "function": function}


def _told(content: Content) -> str:
    """The content of a message that holds only words."""
    found: list[str] = []
    for part in parts_of(content):
        match part:
            case Text():
                found.append(part.text)
            case Image() | Audio() | File():
                found.append(not_shown(part))
            case _:
                pass
    return "\n\n".join(filter(None, found))


def _content(content: Content) -> str | list[dict[str, Any]]:
    if isinstance(content, str):
        return content or NO_WORDS
    return [part for part in map(_part, content) if part] or NO_WORDS


def _part(part: Part) -> dict[str, Any]:
    """A part of a user's message; empty for one that is nothing."""
    match part:
        case Text():
            return _text(part.text)
        case Image():
            found = image(part)
            url = found.url if found else link(part)
            return {"type": "image_url", "image_url": {"url": url}} if url else _text(not_shown(part))
        case Audio():
            found = inline(part)
            form = _SOUNDS.get(found.media_type) if found else None
            if found is None or form is None:
                return _text(not_shown(part))
            return {"type": "input_audio", "input_audio": {"data": found.data, "format": form}}
        case File():
            found = inline(part)
            if found is not None and found.media_type == PDF:
                file = {"filename": part.name or "file.pdf", "file_data": found.url}
                return {"type": "file", "file": file}
            words = words_in(part)
            return _text(f"[{part.name or 'file'}]\n{words}" if words else not_shown(part))
        case Data():
            own = isinstance(part.value, dict) and part.value.get("type") == part.kind and part.kind in _OWN
            return dict(part.value) if own else _text(not_shown(part))
        case Reasoning():
            return {}


def _text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words} if words else {}


def _said(content: Any) -> list[Part]:
    found: list[Part] = []
    for part in content if isinstance(content, list) else [content]:
        words = part if isinstance(part, str) else None
        if isinstance(part, dict):
            words = part.get("text") or part.get("refusal")
        if isinstance(words, str) and words:
            found.append(Text(text=words))
        elif isinstance(part, dict) and part.get("type") not in ("text", "refusal"):
            found.append(Data(kind=str(part.get("type") or "object"), value=part))
    return found


def _called(call: dict[str, Any], response: str) -> ToolCall:
    function = call.get("function") or call.get("custom") or {}
    written = function.get("arguments", function.get("input"))
    return ToolCall(
        call_id=str(call.get("id") or ""),
        name=str(function.get("name") or ""),
        args=from_object(from_text(written)),
        response=response,
    )
