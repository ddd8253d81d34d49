"""A whole session as one line of JSON: OpenAI's chat messages, Anthropic's messages, or ShareGPT's turns.

    {"id": "7c1f0a52", "title": "Parcel times", "messages": [{"role": "user", "content": "…"}, …]}

`messages` (and Anthropic's `system`) are what the official client of the provider takes, with tool calls and
their results; `id` is the session's chat. One object is one line, so the exports of several sessions in one
file are JSON lines. Each comes back through the importer of its name with the same messages; times, ids of
entries and all that is no message do not.

ShareGPT has a word for who speaks and a text: calls are JSON, `{"name": …, "arguments": …}`, each followed by
what it came to, so that the sides alternate there. Pictures, sounds and files are told in words.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from stratalog.engine.exporting import whole_messages
from stratalog.keys import SessionKey
from stratalog.types import AnyEntry

_WHO = {"system": "system", "user": "human"}
_MEDIA = {"image_url": "image", "input_audio": "sound", "file": "file"}


def to_openai(key: SessionKey, title: str, entries: Iterable[AnyEntry]) -> Iterator[bytes]:
    """`{"id", "title", "messages"}`; the system's words are the first message."""
    yield _line(key, title, whole_messages(entries, "openai_chat"))


def to_anthropic(key: SessionKey, title: str, entries: Iterable[AnyEntry]) -> Iterator[bytes]:
    """`{"id", "title", "system", "messages"}`, both in blocks; `system` is there even when it has none, for
    by it the format is known."""
    yield _line(key, title, {"system": [], **whole_messages(entries, "anthropic")})


def to_sharegpt(key: SessionKey, title: str, entries: Iterable[AnyEntry]) -> Iterator[bytes]:
    """`{"id", "title", "conversations": [{"from", "value"}]}`; `from` is system, human, gpt, function_call
    or observation."""
    messages = whole_messages(entries, "openai_chat")["messages"]
    yield _line(key, title, {"conversations": list(_turns(messages))})


def _line(key: SessionKey, title: str, body: dict[str, Any]) -> bytes:
    named = {"title": title} if title else {}
    return msgspec.json.encode({"id": key.chat, **named, **body}) + b"\n"


def _turns(messages: list[dict[str, Any]]) -> Iterator[dict[str, str]]:
    results: dict[str, str] = {}
    for place, message in enumerate(messages):
        if message["role"] == "assistant":
            if message["content"]:
                yield _turn("gpt", message["content"])
            calls = message.get("tool_calls", ())
            results = {
                each["tool_call_id"]: each["content"] for each in messages[place + 1 : place + 1 + len(calls)]
            }
            for call in calls:
                yield _turn("function_call", _called(call["function"]))
                yield _turn("observation", results[call["id"]])
        elif message["role"] != "tool":
            yield _turn(_WHO[message["role"]], _words(message["content"]))


def _turn(who: str, value: str) -> dict[str, str]:
    return {"from": who, "value": value}


def _called(function: dict[str, str]) -> str:
    arguments = msgspec.Raw(function["arguments"].encode())
    return msgspec.json.encode({"name": function["name"], "arguments": arguments}).decode()


def _words(content: str | list[dict[str, Any]]) -> str:
    if isinstance(content, str):
        return content
    return "\n\n".join(map(_told, content))


def _told(part: dict[str, Any]) -> str:
    words = part.get("text")
    return words if isinstance(words, str) else f"[{_MEDIA.get(part['type'], 'text')}]"
