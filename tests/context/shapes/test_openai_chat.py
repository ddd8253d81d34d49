"""context/shapes/openai_chat.py: chat completions, there and back."""

from __future__ import annotations

from stratalog.context.shapes.calls import UNPARSED
from stratalog.context.shapes.contract import Prompt, Tool
from stratalog.context.shapes.openai_chat import OpenAIChatShape
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
