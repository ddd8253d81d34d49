"""Messages of the Anthropic API."""

from __future__ import annotations

from interop.samples import of, outline, read
from stratalog.types import Assistant, Data, Reasoning, Text, ToolCall, ToolResult, Usage


def test_conversation() -> None:
    """Blocks become messages, calls and results; words beside a result are the user's."""
    transcript = read(
        "anthropic",
        {
            "system": [{"type": "text", "text": "Be kind."}],
            "messages": [
                {"role": "user", "content": "look"},
                {
                    "role": "assistant",
                    "id": "msg_1",
                    "model": "claude-x",
                    "usage": {"input_tokens": 1, "cache_read_input_tokens": 8, "output_tokens": 3},
                    "content": [
                        {"type": "thinking", "thinking": "hm", "signature": "s"},
                        {"type": "text", "text": "looking"},
                        {"type": "tool_use", "id": "t1", "name": "look", "input": {"at": "sky"}},
                    ],
                },
                {
                    "role": "user",
                    "content": [
                        {"type": "tool_result", "tool_use_id": "t1", "is_error": True, "content": "fog"},
                        {"type": "text", "text": "and the sea?"},
                    ],
                },
            ],
        },
        "talk.json",
    )
    (session,) = transcript.sessions
    assert outline(session) == [
        ("system", "Be kind."),
        ("user", "look"),
        ("assistant", "looking"),
        ("tool_call", "look"),
        ("tool_result", "fog"),
        ("turn_end", "interrupted"),
        ("user", "and the sea?"),
        ("turn_end", "interrupted"),
    ]
    said = of(Assistant, session)[0]
    assert said.content == (Reasoning(text="hm", signature="s"), Text(text="looking"))
    assert (said.response, said.model) == ("msg_1", "claude-x")
    assert said.usage == Usage(input=9, output=3, cache_read=8)
    assert of(ToolCall, session)[0].args == {"at": "sky"}
    assert of(ToolResult, session)[0].error


def test_tools_at_the_vendor() -> None:
    """A tool that ran at the vendor stays inside the message; nobody has to answer it."""
    block = {"type": "server_tool_use", "id": "x", "name": "web_search", "input": {}}
    transcript = read("anthropic", [{"role": "assistant", "content": [block]}], "a.json")
    assert of(Assistant, transcript)[0].content == (Data(kind="server_tool_use", value=block),)
    assert not of(ToolCall, transcript)
