"""Random conversations for the shapes, and replies of each provider."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import strategies as st

from stratalog.context.invariants import Entries, Seen
from stratalog.context.shapes.contract import Prompt, Tool
from stratalog.models.contract import Shape
from stratalog.testing.scripted import signature_of
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

PNG = b"\x89PNG\r\n\x1a\n rest"
TOOL = Tool("add", "Adds.", {"type": "object", "properties": {"a": {"type": "integer"}}})
SHAPES: tuple[Shape, ...] = ("openai_chat", "openai_responses", "anthropic")

texts = st.one_of(
    st.sampled_from(["", " ", "\n", "hello", "你好。", "a\n\nb ", "\x00"]), st.text(max_size=12)
)
ids = st.sampled_from(["c1", "c2", "c3", "functions.add:0", "x" * 70, "", "呼叫", "c1_2"])
names = st.sampled_from(["add", "mcp.server/tool", "", "工具", "y" * 200])
args = st.one_of(
    st.none(),
    st.text(max_size=8),
    st.sampled_from(['{"a": 1}', "[1]", '"x"', "{"]),
    st.dictionaries(
        st.text(max_size=4), st.one_of(st.integers(-9, 9), st.text(max_size=4), st.booleans()), max_size=3
    ),
    st.lists(st.integers(0, 9), max_size=2),
)


def signed(text: str) -> Reasoning:
    """Thinking as Anthropic gives it."""
    return Reasoning(text=text, signature=signature_of(text))


def sealed(text: str, name: str = "rs_1") -> Reasoning:
    """A reasoning item of OpenAI's responses."""
    return Reasoning(text=text, signature=name, redacted=f"sealed {text}")


def searched(name: str, *, found: bool = False) -> Data:
    """A block of Anthropic's own search: the call, or what it found."""
    if found:
        kind = "web_search_tool_result"
        return Data(kind=kind, value={"type": kind, "tool_use_id": name, "content": []})
    kind = "server_tool_use"
    return Data(kind=kind, value={"type": kind, "id": name, "name": "web_search", "input": {}})


thoughts = st.one_of(
    texts.map(lambda text: Reasoning(text=text)),
    texts.map(signed),
    st.just(Reasoning(redacted="opaque")),
    st.just(Reasoning(redacted="gAAAAABimported")),
)
searches = st.builds(searched, st.sampled_from(["srvtoolu_1", "srvtoolu_2", "call_1"]), found=st.booleans())
media: st.SearchStrategy[Part] = st.sampled_from(
    [
        Image(media_type="image/png", data=PNG),
        Image(data=b"?"),
        Image(media_type="image/tiff", data=b"II*"),
        Image(url="https://x/y.png"),
        Image(url="data:image/png;base64,iVBORw0KGgo="),
        Image(url="y.png"),
        Image(),
        Audio(media_type="audio/wav", data=b"RIFF"),
        Audio(media_type="audio/ogg", data=b"Ogg"),
        Audio(url="https://x/y.wav"),
        File(media_type="application/pdf", name="a.pdf", data=b"%PDF"),
        File(media_type="text/plain", name="a.txt", data=b"words"),
        File(media_type="text/plain", data=b"\xff"),
        File(url="https://x/a.pdf"),
        File(media_type="application/zip", name="a.zip", data=b"PK"),
        Data(kind="video", value={"type": "video"}),
        Data(kind="note", value=5),
    ]
)


@st.composite
def contents(draw: st.DrawFn, others: st.SearchStrategy[Part] = media) -> Content:
    """A text, or texts and other parts."""
    if draw(st.booleans()):
        return draw(texts)
    words = texts.map(lambda text: Text(text=text))
    return tuple(draw(st.lists(st.one_of(words, others), max_size=3)))


@st.composite
def conversations(draw: st.DrawFn, *, most: int = 14, searching: bool = False) -> Entries:
    """What an agent might have logged: messages, rounds of calls and most of their results, of any provider;
    with halves of searches that a provider made, when they are wanted. Not mended."""
    said = contents(thoughts | searches if searching else thoughts)
    entries: list[Seen] = []
    for number in range(1, draw(st.integers(0, most)) + 1):
        match draw(st.integers(0, 5)):
            case 0 | 1:
                entries.append(User(content=draw(contents()), seq=number))
            case 2:
                response = draw(st.sampled_from(["", "r"])) and f"r{number}"
                entries.append(Assistant(content=draw(said), response=response, seq=number))
            case _:
                response = draw(st.sampled_from(["", "r"])) and f"r{number}"
                if draw(st.booleans()):
                    content = draw(said)
                    entries.append(Assistant(content=content, response=response, seq=number))
                calls = [
                    ToolCall(
                        call_id=draw(ids), name=draw(names), args=draw(args), response=response, seq=number
                    )
                    for _ in range(draw(st.integers(1, 3)))
                ]
                entries += calls
                entries += [
                    ToolResult(
                        call_id=call.call_id, content=draw(contents()), error=draw(st.booleans()), seq=number
                    )
                    for call in calls
                    if draw(st.integers(0, 5))
                ]
    return tuple(entries)


@st.composite
def prompts(draw: st.DrawFn) -> Prompt:
    return Prompt(
        system=draw(st.sampled_from([(), ("Be kind.",), ("One.", " ", "Two.")])),
        summary=draw(st.sampled_from(["", "They talked."])),
        entries=draw(conversations(searching=True)),
        tools=draw(st.sampled_from([(), (TOOL,)])),
        max_output=draw(st.sampled_from([0, 5, 500])),
    )


def messages_of(shape: Shape, body: dict[str, Any]) -> list[Any]:
    found: list[Any] = body["input" if shape == "openai_responses" else "messages"]
    return found


def as_bytes(shape: Shape, body: dict[str, Any]) -> bytes:
    """The messages as JSON without the end of the list; without Anthropic's marks, which move."""
    return json.dumps(without_marks(messages_of(shape, body))).encode().removesuffix(b"]")


def without_marks(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: without_marks(item) for key, item in value.items() if key != "cache_control"}
    return [without_marks(item) for item in value] if isinstance(value, list) else value


def reply_in(shape: Shape, body: dict[str, Any]) -> dict[str, Any]:
    """What the assistant said in a request, in the form in which it was given."""
    listed = messages_of(shape, body)
    if shape == "openai_responses":
        return {"output": [item for item in listed if item.get("role") != "user" and "output" not in item]}
    (found,) = [message for message in listed if message["role"] == "assistant"]
    return dict(found)
