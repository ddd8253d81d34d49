"""Anthropic's messages: the system prompt beside them, content in blocks, and marks for its prompt cache.

The system's words and the summary are blocks of the `system` list. Cached up to are (at most four marks) the
last of the system's own blocks, the summary, and the ends of the last two of the user's turns, so that what
one request wrote the next one reads. Without those marks a prompt that goes on from another begins with the
same bytes, unless it gives up a call of the provider's own tools that the other left open. (A mark that moves
on takes 37 bytes out of an earlier message; the provider's cache does not look at marks.)

This shape has no place for: reasoning without Anthropic's own signature or seal, and signed reasoning that
nothing follows (left out); calls of the provider's own tools without their result, unless the turn goes on,
results without their call, and both with a foreign id (left out); blank texts (left out); white space at the
end of a reply without calls; sounds (told in words); citations of a text. Arguments are an object, so others
are put under a key. An image or a file by address is fetched by the provider; of files it takes PDF and text.
"""

from __future__ import annotations

import re
from typing import Any, Final

from stratalog.context.invariants import Entries
from stratalog.context.shapes.calls import CallIds, as_object, from_object, tool_name
from stratalog.context.shapes.contract import Prompt
from stratalog.context.shapes.conversation import (
    NO_WORDS,
    Reply,
    Results,
    content_of,
    conversation,
    messages,
    parts_of,
    system_block,
)
from stratalog.context.shapes.media import PDF, image, inline, link, not_shown, words_in
from stratalog.context.shapes.reasoning import of_anthropic
from stratalog.types import (
    Assistant,
    Audio,
    Content,
    Data,
    File,
    Image,
    Part,
    Reasoning,
    Text,
    ToolCall,
    ToolResult,
    User,
)

DEFAULT_MAX_OUTPUT: Final = 8_192
"""The output allowed when a prompt says nothing, for this provider asks for a number."""

_LONGEST_ID = 64
_LONGEST_NAME = 128
_MARK: Final = {"type": "ephemeral"}
_THINKING = ("thinking", "redacted_thinking")
_OWN_GIVEN = ("image", "document", "search_result", "container_upload")
_SERVER_USE = "server_tool_use"
_SERVER_RESULTS = (
    "web_search_tool_result",
    "web_fetch_tool_result",
    "code_execution_tool_result",
    "bash_code_execution_tool_result",
    "text_editor_code_execution_tool_result",
    "tool_search_tool_result",
)
_SERVER_ID = re.compile(r"srvtoolu_[a-zA-Z0-9_]+\Z")
Blocks = list[dict[str, Any]]


class AnthropicShape:
    """See `contract.ShapeOf`."""

    def body(self, prompt: Prompt) -> dict[str, Any]:
        """A conversation that has calls and a prompt without tools: the tools called are declared, for the
        provider wants them to be, and the choice of any is forbidden."""
        entries = conversation(prompt)
        listed = _messages(entries)
        _mark_turns(listed)
        body: dict[str, Any] = {"max_tokens": prompt.max_output or DEFAULT_MAX_OUTPUT, "messages": listed}
        system = _system(prompt)
        if system:
            body["system"] = system
        if prompt.tools:
            body["tools"] = [
                {"name": tool.name, "description": tool.description, "input_schema": tool.parameters}
                for tool in prompt.tools
            ]
        else:
            called = _called_tools(entries)
            if called:
                body["tools"] = called
                body["tool_choice"] = {"type": "none"}
        return body

    def entries(self, message: dict[str, Any], response: str) -> list[Assistant | ToolCall]:
        """Each run of blocks that are no calls is one message; blocks of the provider's own tools are
        `Data`."""
        found: list[Assistant | ToolCall] = []
        parts: list[Part] = []

        def close() -> None:
            if parts:
                found.append(Assistant(content=content_of(parts), response=response))
            parts.clear()

        content = message.get("content")
        for block in [{"type": "text", "text": content}] if isinstance(content, str) else content or ():
            match block.get("type"):
                case "text":
                    if block.get("text"):
                        parts.append(Text(text=block["text"]))
                case "thinking":
                    signature = block.get("signature") or ""
                    parts.append(Reasoning(text=block.get("thinking") or "", signature=signature))
                case "redacted_thinking":
                    parts.append(Reasoning(redacted=block.get("data") or ""))
                case "tool_use":
                    close()
                    found.append(
                        ToolCall(
                            call_id=str(block.get("id") or ""),
                            name=str(block.get("name") or ""),
                            args=from_object(block.get("input")),
                            response=response,
                        )
                    )
                case kind:
                    parts.append(Data(kind=str(kind or "block"), value=block))
        close()
        return found


def _system(prompt: Prompt) -> Blocks:
    words, summary = system_block(prompt)
    blocks: Blocks = [{"type": "text", "text": each} for each in words]
    if blocks:
        blocks[-1]["cache_control"] = _MARK
    if summary:
        blocks.append({"type": "text", "text": summary, "cache_control": _MARK})
    return blocks


def _messages(entries: Entries) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    ids = CallIds(_LONGEST_ID, safe=True, unique=True)
    told = list(messages(entries))
    served = _served(told)
    for message in told:
        match message:
            case User():
                blocks = _given(message.content) or [_text(NO_WORDS)]
                found.append({"role": "user", "content": blocks})
            case Results():
                found.append({"role": "user", "content": [_result(each, ids) for each in message.results]})
            case Reply():
                blocks = _reply(message, ids, served)
                if blocks:
                    found.append({"role": "assistant", "content": blocks})
    return found


def _mark_turns(listed: list[dict[str, Any]]) -> None:
    """Marks the ends of the last two runs of the user's messages; a run is one turn to the provider."""
    marks = 0
    for place in range(len(listed) - 1, -1, -1):
        last = place == len(listed) - 1 or listed[place + 1]["role"] == "assistant"
        if listed[place]["role"] == "user" and last:
            listed[place]["content"][-1]["cache_control"] = _MARK
            marks += 1
        if marks == 2:
            return


def _served(told: list[User | Reply | Results]) -> frozenset[str]:
    """The ids of the provider's own tools whose blocks it takes back: one call, and one result later in the
    same round, which begins with a message of the user; in the last round the call alone too."""
    called: set[str] = set()
    open_calls: set[str] = set()
    spoilt: set[str] = set()
    for message in told:
        if isinstance(message, User):
            spoilt |= open_calls
            open_calls.clear()
        said = message.said if isinstance(message, Reply) else ()
        for kind, name in (_server_block(part) for each in said for part in parts_of(each.content)):
            if kind in _SERVER_RESULTS:
                if name not in open_calls:
                    spoilt.add(name)
                open_calls.discard(name)
            elif kind:
                if name in called:
                    spoilt.add(name)
                called.add(name)
                open_calls.add(name)
    return frozenset(name for name in called - spoilt if _SERVER_ID.match(name))


def _server_block(part: Part) -> tuple[str, str]:
    """The kind of a block of the provider's own tools, and its id; "" for any other part."""
    if not isinstance(part, Data) or not _own(part, (_SERVER_USE, *_SERVER_RESULTS)):
        return "", ""
    return part.kind, str(part.value.get("id" if part.kind == _SERVER_USE else "tool_use_id") or "")


def _reply(reply: Reply, ids: CallIds, served: frozenset[str]) -> Blocks:
    """The assistant's blocks; none when nothing in it can be sent. Thinking does not come last."""
    parts = [part for said in reply.said for part in parts_of(said.content)]
    blocks = [block for part in parts for block in _said(part, served)]
    if not reply.calls:
        while blocks and blocks[-1]["type"] in _THINKING:
            blocks.pop()
        if blocks and blocks[-1]["type"] == "text":
            blocks[-1]["text"] = blocks[-1]["text"].rstrip()
    return blocks + [
        {
            "type": "tool_use",
            "id": ids.of_call(call.call_id),
            "name": tool_name(call.name, _LONGEST_NAME),
            "input": as_object(call.args),
        }
        for call in reply.calls
    ]


def _said(part: Part, served: frozenset[str]) -> Blocks:
    match part:
        case Text():
            return [_text(part.text)] if part.text.strip() else []
        case Reasoning(redacted="") if of_anthropic(part):
            return [{"type": "thinking", "thinking": part.text, "signature": part.signature}]
        case Reasoning() if of_anthropic(part):
            return [{"type": "redacted_thinking", "data": part.redacted}]
        case Data() if _own(part, ("container_upload",)) or _server_block(part)[1] in served:
            return [_unmarked(part.value)]
        case Image() | Audio() | File():
            return [_text(not_shown(part))]
        case _:
            return []


def _result(result: ToolResult, ids: CallIds) -> dict[str, Any]:
    block: dict[str, Any] = {"type": "tool_result", "tool_use_id": ids.of_result(result.call_id)}
    content = _given(result.content)
    if len(content) == 1 and content[0]["type"] == "text":
        block["content"] = content[0]["text"]
    elif content:
        block["content"] = content
    elif result.error:
        block["content"] = "[error]"  # an error without a word is refused
    if result.error:
        block["is_error"] = True
    return block


def _given(content: Content) -> Blocks:
    return [block for block in map(_block, parts_of(content)) if block]


def _block(part: Part) -> dict[str, Any]:
    """A block of a user's message or of a result; empty for a part that is nothing."""
    match part:
        case Text():
            return _text(part.text) if part.text.strip() else {}
        case Image():
            found = image(part)
            if found is not None:
                source = {"type": "base64", "media_type": found.media_type, "data": found.data}
                return {"type": "image", "source": source}
            if link(part):
                return {"type": "image", "source": {"type": "url", "url": part.url}}
            return _text(not_shown(part))
        case File():
            return _document(part)
        case Audio():
            return _text(not_shown(part))
        case Data():
            return _unmarked(part.value) if _own(part, _OWN_GIVEN) else _text(not_shown(part))
        case Reasoning():
            return {}


def _document(part: File) -> dict[str, Any]:
    found, words = inline(part), words_in(part)
    source: dict[str, Any] = {}
    if found is not None and found.media_type == PDF:
        source = {"type": "base64", "media_type": PDF, "data": found.data}
    elif words.strip():
        source = {"type": "text", "media_type": "text/plain", "data": words}
    elif link(part) and part.media_type in ("", PDF):
        source = {"type": "url", "url": part.url}
    if not source:
        return _text(not_shown(part))
    return {"type": "document", "source": source, **({"title": part.name} if part.name else {})}


def _own(part: Data, kinds: tuple[str, ...]) -> bool:
    return part.kind in kinds and isinstance(part.value, dict) and part.value.get("type") == part.kind


def _unmarked(block: dict[str, Any]) -> dict[str, Any]:
    """The block without a mark of its own, for only so many are allowed."""
    return {key: value for key, value in block.items() if key != "cache_control"}


def _text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def _called_tools(entries: Entries) -> Blocks:
    names = dict.fromkeys(
        tool_name(entry.name, _LONGEST_NAME) for entry in entries if isinstance(entry, ToolCall)
    )
    return [
        {"name": name, "description": "Not available any more.", "input_schema": {"type": "object"}}
        for name in names
    ]
