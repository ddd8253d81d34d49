"""Messages of the OpenAI chat API."""

from __future__ import annotations

from interop.samples import jsonl, of, outline, read
from stratalog.types import Assistant, Image, Reasoning, System, Text, ToolCall, ToolResult, Usage, User

CALLS = [
    {"id": "c1", "type": "function", "function": {"name": "look", "arguments": '{"at": "sky"}'}},
    {"id": "c2", "type": "function", "function": {"name": "look", "arguments": "{broken"}},
]


def test_conversation() -> None:
    """Prompts, calls, results and replies, with arguments parsed where they are JSON."""
    transcript = read(
        "openai",
        jsonl(
            {"role": "system", "content": "Be kind."},
            {"role": "developer", "content": [{"type": "text", "text": "And short."}]},
            {"role": "user", "content": "look", "name": "ann"},
            {"role": "assistant", "content": None, "tool_calls": CALLS, "reasoning_content": "hm"},
            {"role": "tool", "tool_call_id": "c1", "content": "blue"},
            {"role": "tool", "tool_call_id": "c2", "content": [{"type": "text", "text": "grey"}]},
            {
                "role": "assistant",
                "content": "blue and grey",
                "model": "gpt",
                "usage": {
                    "prompt_tokens": 9,
                    "completion_tokens": 4,
                    "prompt_tokens_details": {"cached_tokens": 2},
                    "completion_tokens_details": {"reasoning_tokens": 1},
                },
            },
        ),
    )
    (session,) = transcript.sessions
    assert outline(session) == [
        ("system", "Be kind."),
        ("system", "And short."),
        ("user", "look"),
        ("assistant", ""),
        ("tool_call", "look"),
        ("tool_call", "look"),
        ("tool_result", "blue"),
        ("tool_result", "grey"),
        ("assistant", "blue and grey"),
        ("turn_end", "answered"),
    ]
    assert [one.args for one in of(ToolCall, session)] == [{"at": "sky"}, "{broken"]
    assert of(Assistant, session)[0].content == (Reasoning(text="hm"),)
    assert {one.response for one in of(ToolCall, session)} == {of(Assistant, session)[0].response}
    assert of(Assistant, session)[1].usage == Usage(input=9, output=4, cache_read=2, reasoning=1)
    assert (of(User, session)[0].meta or {}) == {"name": "ann"}
    assert (of(System, session)[1].meta or {}) == {"role": "developer"}


def test_older_functions() -> None:
    """The older function calls have no ids; the function's name pairs them."""
    transcript = read(
        "openai",
        jsonl(
            {"role": "user", "content": "look"},
            {"role": "assistant", "content": None, "function_call": {"name": "look", "arguments": "{}"}},
            {"role": "function", "name": "look", "content": "blue"},
        ),
    )
    assert of(ToolResult, transcript)[0].call_id == of(ToolCall, transcript)[0].call_id
    assert not transcript.report.notes


def test_consecutive_replies() -> None:
    """Every assistant message is a response of its own."""
    transcript = read(
        "openai", jsonl({"role": "assistant", "content": "a"}, {"role": "assistant", "content": "b"})
    )
    one, two = of(Assistant, transcript)
    assert one.response != two.response


def test_parts_and_refusals() -> None:
    """Pictures are parts, and a refusal is what the model said."""
    picture = {"type": "image_url", "image_url": {"url": "https://x/y.png"}}
    transcript = read(
        "openai",
        jsonl(
            {"role": "user", "content": [{"type": "text", "text": "this?"}, picture]},
            {"role": "assistant", "content": None, "refusal": "I will not."},
            {"role": "martian", "content": "?"},
            {"role": "user", "content": ""},
        ),
    )
    assert of(User, transcript)[0].content == (Text(text="this?"), Image(url="https://x/y.png"))
    assert of(Assistant, transcript)[0].text == "I will not."
    assert [skip.line for skip in transcript.report.skipped] == [3, 4]
