"""The context as the messages of an OpenAI chat request.

One system message comes first, with the summary in it; each assistant message with calls is followed by
exactly their results.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable
from typing import Any

import msgspec

from stratalog.context.view import Seen
from stratalog.types import (
    Assistant,
    Audio,
    Compaction,
    Content,
    File,
    Image,
    System,
    Text,
    ToolCall,
    ToolResult,
    User,
)


def chat_messages(
    system: Iterable[System], summary: Compaction | None, entries: Iterable[Seen]
) -> list[dict[str, Any]]:
    """The messages. Reasoning is left out, for this shape has no place for it."""
    messages: list[dict[str, Any]] = []
    words = [entry.text for entry in system]
    if summary is not None:
        words.append(f"Summary of the conversation so far:\n{summary.summary}")
    if words:
        messages.append({"role": "system", "content": "\n\n".join(words)})
    for entry in entries:
        match entry:
            case User():
                messages.append({"role": "user", "content": _content(entry.content)})
            case Assistant():
                messages.append({"role": "assistant", "content": entry.text})
            case ToolCall():
                if not messages or messages[-1]["role"] != "assistant":
                    messages.append({"role": "assistant", "content": None})
                messages[-1].setdefault("tool_calls", []).append(_call(entry))
            case ToolResult():
                messages.append({"role": "tool", "tool_call_id": entry.call_id, "content": entry.text})
    return messages


def _call(call: ToolCall) -> dict[str, Any]:
    text = call.args if isinstance(call.args, str) else msgspec.json.encode(call.args or {}).decode()
    return {"id": call.call_id, "type": "function", "function": {"name": call.name, "arguments": text}}


def _content(content: Content) -> str | list[dict[str, Any]]:
    if isinstance(content, str):
        return content
    parts: list[dict[str, Any]] = []
    for part in content:
        match part:
            case Text():
                parts.append({"type": "text", "text": part.text})
            case Image():
                url = part.url or _data_url(part.media_type, part.data)
                parts.append({"type": "image_url", "image_url": {"url": url}})
            case Audio() | File():
                parts.append({"type": "text", "text": f"[{part.media_type or 'file'} not shown]"})
            case _:
                pass
    return parts


def _data_url(media_type: str, data: bytes) -> str:
    return f"data:{media_type or 'image/png'};base64,{base64.b64encode(data).decode()}"
