"""context/shapes/openai_chat.py: chat completions, there and back."""

from __future__ import annotations

import pytest

from context.shapes.conversations import signed
from models.asking import ask, completed
from stratalog.context.invariants import Seen
from stratalog.context.shapes.calls import UNPARSED
from stratalog.context.shapes.contract import Prompt, Tool
from stratalog.context.shapes.openai_chat import OpenAIChatShape, chat_messages
from stratalog.context.shapes.table import SHAPES, shape_of
from stratalog.models.contract import Request
from stratalog.models.openai import OpenAIChat
from stratalog.testing.model_server import ModelServer, Strictness, refusal_of
from stratalog.testing.scripted import Call, Reply, ScriptedModel
from stratalog.types import (
    Assistant,
    Audio,
    Data,
    File,
    Image,
    Reasoning,
    Text,
    ToolCall,
    ToolResult,
    User,
)

SHAPE = OpenAIChatShape()


def test_a_whole_request() -> None:
    """One system message with the summary in it, the words and calls of a response in one message, results
    after it, tools and the limit of the output."""
    prompt = Prompt(
        system=("One.", "Two."),
        summary="They talked.",
        entries=(
            User(content="Add."),
            Assistant(content=(Reasoning(text="hm"), Text(text="I add.")), response="r"),
            ToolCall(call_id="c1", name="add", args={"a": 1}, response="r"),
            ToolCall(call_id="c2", name="add", args="nonsense", response="r"),
            ToolResult(call_id="c1", content="1"),
            ToolResult(call_id="c2", content=(Text(text="no"), Image(url="https://x/y.png")), error=True),
        ),
        tools=(Tool("add", "Adds.", {"type": "object"}),),
        max_output=50,
    )
    function = {"name": "add", "description": "Adds.", "parameters": {"type": "object"}}
    assert SHAPE.body(prompt) == {
        "messages": [
            {
                "role": "system",
                "content": "One.\n\nTwo.\n\nSummary of the conversation so far:\nThey talked.",
            },
            {"role": "user", "content": "Add."},
            {
                "role": "assistant",
                "content": "I add.",
                "tool_calls": [
                    {"id": "c1", "type": "function", "function": {"name": "add", "arguments": '{"a":1}'}},
                    {
                        "id": "c2",
                        "type": "function",
                        "function": {"name": "add", "arguments": f'{{"{UNPARSED}":"nonsense"}}'},
                    },
                ],
            },
            {"role": "tool", "tool_call_id": "c1", "content": "1"},
            {"role": "tool", "tool_call_id": "c2", "content": "no\n\n[https://x/y.png not shown]"},
        ],
        "tools": [{"type": "function", "function": function}],
        "max_completion_tokens": 50,
    }


def test_parts_of_a_message() -> None:
    """Images, WAV and MP3, PDF and text are given; what this shape cannot give is told in words; a part of
    the provider's own kind is passed through."""
    own = {"type": "file", "file": {"file_id": "file-1"}}
    parts = (
        Image(data=b"\xff\xd8\xff\xe0"),
        Image(url="https://x/y.png"),
        Audio(media_type="audio/mpeg", data=b"\x01"),
        Audio(media_type="audio/ogg", data=b"\x01"),
        File(media_type="application/pdf", name="a.pdf", data=b"%PDF"),
        File(media_type="text/csv", name="a.csv", data=b"1,2"),
        File(url="https://x/a.pdf"),
        Data(kind="file", value=own),
        Data(kind="video", value={}),
    )
    (message,) = SHAPE.body(Prompt(entries=(User(content=parts),)))["messages"]
    assert message["content"] == [
        {"type": "image_url", "image_url": {"url": "data:image/jpeg;base64,/9j/4A=="}},
        {"type": "image_url", "image_url": {"url": "https://x/y.png"}},
        {"type": "input_audio", "input_audio": {"data": "AQ==", "format": "mp3"}},
        {"type": "text", "text": "[audio/ogg not shown]"},
        {
            "type": "file",
            "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,JVBERg=="},
        },
        {"type": "text", "text": "[a.csv]\n1,2"},
        {"type": "text", "text": "[https://x/a.pdf not shown]"},
        own,
        {"type": "text", "text": "[video not shown]"},
    ]


def test_a_reply() -> None:
    """Reasoning of compatible servers, text, and calls whose arguments are no JSON, or nothing."""
    message = {
        "role": "assistant",
        "content": "I add.",
        "reasoning_content": "hm",
        "tool_calls": [
            {"id": "1", "type": "function", "function": {"name": "add", "arguments": '{"a": 1}'}},
            {"id": "2", "type": "function", "function": {"name": "add", "arguments": "{a"}},
            {"id": "3", "type": "function", "function": {"name": "add", "arguments": ""}},
            {"id": "4", "type": "custom", "custom": {"name": "sh", "input": "ls"}},
        ],
    }
    assert SHAPE.entries(message, "r") == [
        Assistant(content=(Reasoning(text="hm"), Text(text="I add.")), response="r"),
        ToolCall(call_id="1", name="add", args={"a": 1}, response="r"),
        ToolCall(call_id="2", name="add", args="{a", response="r"),
        ToolCall(call_id="3", name="add", args={}, response="r"),
        ToolCall(call_id="4", name="sh", args="ls", response="r"),
    ]


def test_a_reply_in_parts_and_a_refusal() -> None:
    """Several texts stay several; a refusal is text, and marked; a part of another kind is kept as data."""
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}, {"type": "odd", "x": 1}]
    (several,) = SHAPE.entries({"content": parts}, "r")
    assert isinstance(several, Assistant)
    assert several.content == (
        Text(text="a"),
        Text(text="b"),
        Data(kind="odd", value={"type": "odd", "x": 1}),
    )
    assert SHAPE.entries({"content": None, "refusal": "No."}, "r") == [
        Assistant(content="No.", response="r", meta={"refusal": True})
    ]
    assert SHAPE.entries({"content": None}, "r") == []


THINKING = Strictness(wants_reasoning=True)
ROUND = (
    User(content="Add."),
    Assistant(content=(Reasoning(text="Two to add."), Reasoning(text="So."), signed("x")), response="r1"),
    ToolCall(call_id="c1", name="add", response="r1"),
    ToolResult(call_id="c1", content="3"),
    ToolCall(call_id="c2", name="add", response="r2"),
    ToolResult(call_id="c2", content="4"),
    Assistant(content=(Reasoning(text="Done."), Text(text="7")), response="r3"),
    User(content="Thanks."),
    Assistant(content="Welcome."),
    User(content="Bye."),
)


def test_reasoning_goes_back_where_it_is_wanted() -> None:
    """With each message that has any, and empty with calls that have none; another provider's never. The
    server that wants it takes that and nothing less; one that does not know the field refuses it."""
    with_it = OpenAIChatShape(sends_reasoning=True).body(Prompt(entries=ROUND))
    said = [message for message in with_it["messages"] if message["role"] == "assistant"]
    thoughts = ["Two to add.\n\nSo.", "", "Done.", None]
    assert [message.get("reasoning_content") for message in said] == thoughts
    assert refusal_of("openai_chat", with_it, THINKING) == ""
    assert "'reasoning_content' was unexpected" in refusal_of("openai_chat", with_it)
    without = SHAPE.body(Prompt(entries=ROUND))
    missing = "Missing `reasoning_content` field in the assistant message at message index 1."
    assert refusal_of("openai_chat", without, THINKING) == missing
    assert refusal_of("openai_chat", without) == ""


def test_reasoning_is_sent_as_the_model_wants() -> None:
    """The shape for a model follows what its adapter was told; the messages alone can be made so too."""
    pytest.importorskip("openai", reason="the SDK `openai` is not installed")
    prompt = Prompt(entries=ROUND)
    plain = OpenAIChat(api_key="k", base_url="http://127.0.0.1:9/v1")
    wants = OpenAIChat(api_key="k", base_url="http://127.0.0.1:9/v1", sends_reasoning=True)
    assert shape_of(plain).body(prompt) == SHAPE.body(prompt)
    assert shape_of(wants).body(prompt) == OpenAIChatShape(sends_reasoning=True).body(prompt)
    assert chat_messages((), None, ROUND, sends_reasoning=True) == shape_of(wants).body(prompt)["messages"]
    assert shape_of(ScriptedModel([], shape="anthropic")) is SHAPES["anthropic"]


def test_a_round_with_a_server_that_wants_its_reasoning() -> None:
    """Over HTTP: what the model thought before a call is sent back with it, and the request is taken."""
    pytest.importorskip("openai", reason="the SDK `openai` is not installed")
    replies = [
        Reply(reasoning="Two to add.", calls=(Call("add", {"a": 1}),)),
        Reply(calls=(Call("add"),)),
        "3",
    ]
    entries: list[Seen] = [User(content="Add.")]
    tool = Tool("add", "Adds.", {"type": "object"})
    with ModelServer(replies, strict=THINKING) as server:
        model = OpenAIChat(api_key="k", base_url=server.openai_url, sends_reasoning=True)
        for number in range(len(replies)):
            body = shape_of(model).body(Prompt(entries=tuple(entries), tools=(tool,)))
            reply = completed(ask(model, Request(model="m", body=body)))
            given = shape_of(model).entries(reply.message, f"r{number}")
            entries += given
            calls = [entry for entry in given if isinstance(entry, ToolCall)]
            entries += [ToolResult(call_id=call.call_id, content="3") for call in calls]
    assert server.refusals == []
    sent = server.requests[-1].body["messages"]
    assert [message.get("reasoning_content") for message in sent[1::2]] == ["Two to add.", ""]
