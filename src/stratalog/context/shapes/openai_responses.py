"""OpenAI's responses: items in order, with nothing stored at the provider.

The system's words and the summary are `instructions`. Reasoning goes back as the sealed item that it was,
before what came of it. The ids of other items are not sent: with them the provider looks for items that it
does not keep, and without them it takes the items as they are.

This shape has no place for: reasoning without the provider's seal, and sealed reasoning that nothing follows
(left out); sounds (told in words); a tool result's error flag; the bounds between the summaries of one
reasoning item (they become one); that a reply was a refusal (it is text). Text and PDF are the files that it
takes, a file by its address, whatever it is.
"""

from __future__ import annotations

from typing import Any

import msgspec

from stratalog.context.shapes.calls import CallIds, as_text, from_text, tool_name
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
from stratalog.context.shapes.reasoning import of_openai
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
    User,
)

_LONGEST_ID = 64
_LONGEST_NAME = 64
_LEAST_OUTPUT = 16
_OWN_GIVEN = ("input_text", "input_image", "input_file")
_OWN_ITEMS = (
    "web_search_call",
    "file_search_call",
    "code_interpreter_call",
    "image_generation_call",
    "mcp_call",
    "mcp_list_tools",
)
Items = list[dict[str, Any]]


class OpenAIResponsesShape:
    """See `contract.ShapeOf`. Whether the seals must be asked for depends on the server and the model: see
    `models.openai.seals_asked`."""

    def body(self, prompt: Prompt) -> dict[str, Any]:
        words, summary = system_block(prompt)
        instructions = "\n\n".join([*words, *([summary] if summary else [])])
        body: dict[str, Any] = {"input": _input(prompt), "store": False}
        if instructions:
            body["instructions"] = instructions
        if prompt.tools:
            body["tools"] = [
                {"type": "function", **msgspec.structs.asdict(tool), "strict": False} for tool in prompt.tools
            ]
        if prompt.max_output:
            body["max_output_tokens"] = max(_LEAST_OUTPUT, prompt.max_output)
        return body

    def entries(self, message: dict[str, Any], response: str) -> list[Assistant | ToolCall]:
        """Each run of items that are no calls is one message. The phase that the provider names is in
        `meta`, and so is that it refused; items of the provider's own tools are `Data`."""
        found: list[Assistant | ToolCall] = []
        parts: list[Part] = []
        meta: dict[str, Any] = {}

        def close() -> None:
            if parts:
                found.append(Assistant(content=content_of(parts), response=response, meta=dict(meta) or None))
            parts.clear()
            meta.clear()

        for item in message.get("output") or ():
            match item.get("type"):
                case "message":
                    phase = item.get("phase")
                    if any(isinstance(part, Text) for part in parts) and meta.get("phase") != phase:
                        close()
                    if phase:
                        meta["phase"] = phase
                    for part in item.get("content") or ():
                        words = part.get("text") or part.get("refusal")
                        if words:
                            parts.append(Text(text=words))
                        if part.get("refusal"):
                            meta["refusal"] = True
                case "reasoning":
                    parts.append(_thought(item))
                case "function_call" | "custom_tool_call":
                    close()
                    found.append(_called(item, response))
                case kind:
                    parts.append(Data(kind=str(kind or "item"), value=item))
        close()
        return found


def _input(prompt: Prompt) -> Items:
    items: Items = []
    ids = CallIds(_LONGEST_ID, unique=True)
    for message in messages(conversation(prompt)):
        match message:
            case User():
                given = _given(message.content) or [_text(NO_WORDS)]
                items.append({"type": "message", "role": "user", "content": given})
            case Results():
                items += [
                    {
                        "type": "function_call_output",
                        "call_id": ids.of_result(each.call_id),
                        "output": _output(each.content),
                    }
                    for each in message.results
                ]
            case Reply():
                items += _reply(message, ids)
    return items


def _reply(reply: Reply, ids: CallIds) -> Items:
    items: Items = []
    for said in reply.said:
        items += _said(said)
    if not reply.calls:
        while items and items[-1]["type"] == "reasoning":
            items.pop()  # refused without what came of it
    return items + [
        {
            "type": "function_call",
            "call_id": ids.of_call(call.call_id),
            "name": tool_name(call.name, _LONGEST_NAME),
            "arguments": as_text(call.args),
        }
        for call in reply.calls
    ]


def _said(said: Assistant) -> Items:
    """The items of one entry: its texts in a row are one message."""
    items: Items = []
    for part in parts_of(said.content):
        match part:
            case Reasoning() if of_openai(part):
                items.append(_sealed(part))
            case Data() if _own(part, _OWN_ITEMS):
                items.append(dict(part.value))
            case Text() | Image() | Audio() | File():
                words = part.text if isinstance(part, Text) else not_shown(part)
                if not words:
                    continue
                if not items or items[-1]["type"] != "message":
                    items.append({"type": "message", "role": "assistant", "content": []})
                    if said.meta and isinstance(said.meta.get("phase"), str):
                        items[-1]["phase"] = said.meta["phase"]
                items[-1]["content"].append({"type": "output_text", "text": words})
            case _:
                pass
    return items


def _sealed(part: Reasoning) -> dict[str, Any]:
    named = {"id": part.signature} if part.signature else {}
    summary = [{"type": "summary_text", "text": part.text}] if part.text else []
    return {"type": "reasoning", **named, "summary": summary, "encrypted_content": part.redacted}


def _output(content: Content) -> str | Items:
    """A result: text alone as a string, else its parts."""
    if isinstance(content, str):
        return content
    given = _given(content)
    if len(given) == 1 and given[0]["type"] == "input_text":
        return str(given[0]["text"])
    return given or ""


def _given(content: Content) -> Items:
    return [part for part in map(_part, parts_of(content)) if part]


def _part(part: Part) -> dict[str, Any]:
    """A part of a user's message or of a result; empty for one that is nothing."""
    match part:
        case Text():
            return _text(part.text)
        case Image():
            found = image(part)
            url = found.url if found else link(part)
            return (
                {"type": "input_image", "image_url": url, "detail": "auto"} if url else _text(not_shown(part))
            )
        case File():
            found = inline(part)
            if found is not None and found.media_type == PDF:
                return {"type": "input_file", "filename": part.name or "file.pdf", "file_data": found.url}
            if link(part):
                return {"type": "input_file", "file_url": part.url}
            words = words_in(part)
            return _text(f"[{part.name or 'file'}]\n{words}" if words else not_shown(part))
        case Audio():
            return _text(not_shown(part))
        case Data():
            return dict(part.value) if _own(part, _OWN_GIVEN) else _text(not_shown(part))
        case Reasoning():
            return {}


def _own(part: Data, kinds: tuple[str, ...]) -> bool:
    return part.kind in kinds and isinstance(part.value, dict) and part.value.get("type") == part.kind


def _text(words: str) -> dict[str, Any]:
    return {"type": "input_text", "text": words} if words else {}


def _thought(item: dict[str, Any]) -> Reasoning:
    """A reasoning item. Its id is kept with the seal alone, for without it nobody takes it back."""
    told = [part.get("text") or "" for part in [*(item.get("content") or ()), *(item.get("summary") or ())]]
    sealed = item.get("encrypted_content") or ""
    return Reasoning(
        text="\n\n".join(filter(None, told)),
        signature=str(item.get("id") or "") if sealed else "",
        redacted=sealed,
    )


def _called(item: dict[str, Any], response: str) -> ToolCall:
    written = item.get("arguments") if item.get("type") == "function_call" else item.get("input")
    return ToolCall(
        call_id=str(item.get("call_id") or item.get("id") or ""),
        name=str(item.get("name") or ""),
        args=from_text(written),
        response=response,
    )
