"""context/shapes/anthropic.py: blocks and cache marks, there and back."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

from hypothesis import given

from context.shapes.conversations import PNG, prompts, sealed, searched, signed, without_marks
from stratalog.context.invariants import Seen
from stratalog.context.shapes.anthropic import DEFAULT_MAX_OUTPUT, AnthropicShape
from stratalog.context.shapes.calls import UNPARSED
from stratalog.context.shapes.contract import Prompt, Tool
from stratalog.testing.model_server import refusal_of
from stratalog.types import (
    Assistant,
    Data,
    File,
    Image,
    Reasoning,
    Text,
    ToolCall,
    ToolResult,
    User,
)

SHAPE = AnthropicShape()
ADD = Tool("add", "Adds.", {"type": "object"})
MARK = {"type": "ephemeral"}


def test_a_whole_request() -> None:
    """The system's blocks and the summary, thinking first in the message of its calls, all results in the
    one message after it, marks at the four places."""
    prompt = Prompt(
        system=("One.", "Two."),
        summary="They talked.",
        entries=(
            User(content="Add."),
            Assistant(
                content=(signed("hm"), Reasoning(redacted="opaque"), Text(text="I add.")), response="r"
            ),
            ToolCall(call_id="c1", name="add", args={"a": 1}, response="r"),
            ToolCall(call_id="c2", name="add", args="nonsense", response="r"),
            ToolResult(call_id="c1", content="1"),
            ToolResult(
                call_id="c2", content=(Text(text="no"), Image(media_type="image/png", data=PNG)), error=True
            ),
        ),
        tools=(Tool("add", "Adds.", {"type": "object"}),),
        max_output=50,
    )
    thinking = signed("hm")
    picture = {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgogcmVzdA=="}
    assert SHAPE.body(prompt) == {
        "max_tokens": 50,
        "system": [
            {"type": "text", "text": "One."},
            {"type": "text", "text": "Two.", "cache_control": MARK},
            {
                "type": "text",
                "text": "Summary of the conversation so far:\nThey talked.",
                "cache_control": MARK,
            },
        ],
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "Add.", "cache_control": MARK}]},
            {
                "role": "assistant",
                "content": [
                    {"type": "thinking", "thinking": "hm", "signature": thinking.signature},
                    {"type": "redacted_thinking", "data": "opaque"},
                    {"type": "text", "text": "I add."},
                    {"type": "tool_use", "id": "c1", "name": "add", "input": {"a": 1}},
                    {"type": "tool_use", "id": "c2", "name": "add", "input": {UNPARSED: "nonsense"}},
                ],
            },
            {
                "role": "user",
                "content": [
                    {"type": "tool_result", "tool_use_id": "c1", "content": "1"},
                    {
                        "type": "tool_result",
                        "tool_use_id": "c2",
                        "content": [
                            {"type": "text", "text": "no"},
                            {"type": "image", "source": picture},
                        ],
                        "is_error": True,
                        "cache_control": MARK,
                    },
                ],
            },
        ],
        "tools": [{"name": "add", "description": "Adds.", "input_schema": {"type": "object"}}],
    }


@given(prompts())
def test_marks(prompt: Prompt) -> None:
    """At most four; the summary's and the last system block's, and the ends of the user's last two turns."""
    body = SHAPE.body(prompt)
    system: list[dict[str, Any]] = body.get("system", [])
    own = [block for block in system if not block["text"].startswith("Summary")]
    assert [block for block in system if "cache_control" in block] == [*own[-1:], *system[len(own) :]]
    listed = body["messages"]
    blocks = [(place, block) for place, message in enumerate(listed) for block in message["content"]]
    marked = [place for place, block in blocks if "cache_control" in block]
    ends = [
        place
        for place, message in enumerate(listed)
        if message["role"] == "user" and [each["role"] for each in listed[place + 1 : place + 2]] != ["user"]
    ]
    assert marked == ends[-2:]
    assert all("cache_control" in listed[place]["content"][-1] for place in marked)


def test_marks_move_and_nothing_else_does() -> None:
    """Round after round the system, the tools and the messages before are the same bytes, but for one mark
    that leaves a message; what one request marked last, where the provider wrote its cache, the next one
    marks still, and finds."""
    entries: list[Seen] = [User(content="q")]
    bodies = []
    for number in range(6):
        prompt = Prompt(system=("Be kind.",), summary="They talked.", entries=tuple(entries), tools=(ADD,))
        bodies.append(SHAPE.body(prompt))
        call = ToolCall(call_id=f"c{number}", name="add", response=f"r{number}")
        entries += [call, ToolResult(call_id=f"c{number}", content="3")]
    mark = json.dumps({"cache_control": MARK})[1:-1]
    for earlier, later in pairwise(bodies):
        sent, then = earlier["messages"], later["messages"][: len(earlier["messages"])]
        assert (earlier["system"], earlier["tools"]) == (later["system"], later["tools"])
        assert without_marks(sent) == without_marks(then)
        assert then[-1] == sent[-1]
        gone = len(json.dumps(sent)) - len(json.dumps(then))
        assert gone == (len(f", {mark}") if len(sent) > 1 else 0)


def test_a_mark_of_a_part_does_not_count() -> None:
    """A part that was passed through loses a mark of its own, so that there are never more than four."""
    block = {
        "type": "document",
        "source": {"type": "file", "file_id": "f"},
        "cache_control": {"type": "ephemeral"},
    }
    message = User(content=(Data(kind="document", value=block), Text(text="q")))
    (sent,) = SHAPE.body(Prompt(entries=(message,)))["messages"]
    assert sent["content"][0] == {"type": "document", "source": {"type": "file", "file_id": "f"}}


def test_calls_without_tools() -> None:
    """A history of calls is sent with the tools that it names, and none may be called."""
    entries = (User(content="q"), ToolCall(call_id="c", name="add"), ToolResult(call_id="c", content="1"))
    body = SHAPE.body(Prompt(entries=entries))
    assert [tool["name"] for tool in body["tools"]] == ["add"]
    assert body["tool_choice"] == {"type": "none"}
    assert body["max_tokens"] == DEFAULT_MAX_OUTPUT
    assert "tools" not in SHAPE.body(Prompt(entries=entries[:1]))


def test_reasoning_that_it_does_not_take() -> None:
    """Another provider's, one without a signature, and its own with nothing after it are left out, as are
    blank texts and the white space at the end."""
    said = (
        Reasoning(text="a"),
        sealed("b"),
        Reasoning(redacted="gAAAAAx"),
        Text(text=" "),
        Text(text="Hi. \n"),
        signed("c"),
    )
    body = SHAPE.body(Prompt(entries=(User(content="q"), Assistant(content=said))))
    assert body["messages"][1]["content"] == [{"type": "text", "text": "Hi."}]


def sent_of(*entries: Seen) -> list[list[str]]:
    """The kinds of the blocks in each of the assistant's messages, of a request that the rules accept."""
    body = SHAPE.body(Prompt(entries=(User(content="q"), *entries)))
    assert refusal_of("anthropic", body) == ""
    return [
        [block["type"] for block in message["content"]]
        for message in body["messages"]
        if message["role"] == "assistant"
    ]


def test_the_providers_own_tools() -> None:
    """A call and its result go together, even with another tool's result between; what lost its other half,
    or has a foreign id, is left out, with the thinking that led to it."""
    call, found, text = searched("srvtoolu_1"), searched("srvtoolu_1", found=True), Text(text="Hi.")
    use, hits = "server_tool_use", "web_search_tool_result"
    more = User(content="and?")
    assert sent_of(Assistant(content=(call, found, text)), more) == [[use, hits, "text"]]
    assert sent_of(Assistant(content=(call, text)), more) == [["text"]]
    assert sent_of(Assistant(content=(found, text)), more) == [["text"]]
    assert sent_of(Assistant(content=(found, call, text)), more) == [["text"]]
    assert sent_of(Assistant(content=(call, text)), more, Assistant(content=(found, text))) == [["text"]] * 2
    assert sent_of(Assistant(content=(call, found, found, text)), more) == [["text"]]
    assert sent_of(Assistant(content=(signed("hm"), call)), more) == []
    assert sent_of(Assistant(content=(searched("c"), searched("c", found=True), text))) == [["text"]]
    # It paused: the request that lets it go on ends with the call.
    assert sent_of(Assistant(content=(text, call))) == [["text", use]]
    called = ToolCall(call_id="a", name="add", response="r")
    round_ = (Assistant(content=(call,), response="r"), called, ToolResult(call_id="a", content="1"))
    assert sent_of(*round_) == [[use, "tool_use"]]
    assert sent_of(*round_, Assistant(content=(found, text))) == [[use, "tool_use"], [hits, "text"]]
    assert sent_of(*round_, more) == [["tool_use"]]


def test_results() -> None:
    """Empty ones have no content, an empty error says that it is one, blank text is nothing."""
    entries: list[Any] = [User(content="q")]
    for number, (content, error) in enumerate([("", False), ("", True), ((Text(text=" "),), False)]):
        entries += [
            ToolCall(call_id=f"c{number}", name="add"),
            ToolResult(call_id=f"c{number}", content=content, error=error),
        ]
    sent = [message["content"][0] for message in SHAPE.body(Prompt(entries=tuple(entries)))["messages"][2::2]]
    assert [(block.get("content"), block.get("is_error")) for block in sent] == [
        (None, None),
        ("[error]", True),
        (None, None),
    ]


def test_documents() -> None:
    """PDF by bytes or by address, text as text; others are told in words."""
    parts = (
        File(media_type="application/pdf", name="a.pdf", data=b"%PDF"),
        File(url="https://x/a.pdf"),
        File(media_type="text/plain", data=b"words"),
        File(media_type="application/zip", name="a.zip", data=b"PK"),
    )
    (sent,) = SHAPE.body(Prompt(entries=(User(content=parts),)))["messages"]
    pdf, linked, words, told = sent["content"]
    assert pdf == {
        "type": "document",
        "title": "a.pdf",
        "source": {"type": "base64", "media_type": "application/pdf", "data": "JVBERg=="},
    }
    assert linked["source"] == {"type": "url", "url": "https://x/a.pdf"}
    assert words["source"] == {"type": "text", "media_type": "text/plain", "data": "words"}
    assert told["text"] == "[a.zip application/zip not shown]"


def test_a_reply() -> None:
    """Thinking shown and sealed, texts, calls, and blocks of the provider's own tools, in order; those blocks
    go back as they came."""
    search = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}}
    found = {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []}
    content = [
        {"type": "thinking", "thinking": "hm", "signature": "sig"},
        {"type": "redacted_thinking", "data": "opaque"},
        search,
        found,
        {"type": "text", "text": "One."},
        {"type": "text", "text": ""},
        {"type": "text", "text": "Two."},
        {"type": "tool_use", "id": "c1", "name": "add", "input": {"a": 1}},
        {"type": "tool_use", "id": "c2", "name": "add", "input": "{a"},
    ]
    given = SHAPE.entries({"role": "assistant", "content": content}, "r")
    assert given == [
        Assistant(
            content=(
                Reasoning(text="hm", signature="sig"),
                Reasoning(redacted="opaque"),
                Data(kind="server_tool_use", value=search),
                Data(kind="web_search_tool_result", value=found),
                Text(text="One."),
                Text(text="Two."),
            ),
            response="r",
        ),
        ToolCall(call_id="c1", name="add", args={"a": 1}, response="r"),
        ToolCall(call_id="c2", name="add", args="{a", response="r"),
    ]
    entries = (User(content="q"), *given)
    sent = SHAPE.body(Prompt(entries=entries))["messages"][1]["content"]
    assert sent[:5] == content[:5]
    assert SHAPE.entries({"content": "plain"}, "r") == [Assistant(content="plain", response="r")]
