"""ShareGPT's form: who speaks, reasoning and calls inside a reply as Hermes writes them, plain call turns."""

from __future__ import annotations

import json
from typing import Any

import pytest

from interop.samples import chats, jsonl, of, outline, read
from stratalog.interop.contract import Transcript
from stratalog.types import Assistant, Data, Reasoning, Text, ToolCall, ToolResult


def turn(who: str, value: str) -> dict[str, str]:
    return {"from": who, "value": value}


def tagged(tag: str, value: Any) -> str:
    return f"<{tag}>\n{value if isinstance(value, str) else json.dumps(value)}\n</{tag}>"


HERMES = {
    "conversations": [
        turn("system", "You are a function calling AI model."),
        turn("human", "Which version?"),
        turn(
            "gpt",
            f"{tagged('think', 'run it')}\nLet me see.\n"
            f"{tagged('tool_call', {'name': 'terminal', 'arguments': {'command': 'python -V'}})}\n"
            f"{tagged('tool_call', {'name': 'read', 'arguments': {}})}",
        ),
        turn(
            "tool",
            f"{tagged('tool_response', {'tool_call_id': 'call_a', 'name': 'terminal', 'content': '3.11'})}\n"
            f"{tagged('tool_response', {'tool_call_id': 'call_b', 'name': 'read', 'content': {'n': 1}})}",
        ),
        turn("gpt", "<think>\n</think>\nIt is 3.11."),
    ],
    "timestamp": "2026-03-30T14:22:31.456789",
    "model": "hermes-4",
    "completed": True,
}
PLAIN = {
    "id": "talk-1",
    "title": "Trains",
    "conversations": [
        turn("human", "When? <think> is a tag"),
        turn("function_call", '{"name": "look", "arguments": {"q": "</tool_call>"}}'),
        turn("observation", "nine"),
        turn("gpt", "At nine, says a <tool_call>note</tool_call>."),
    ],
}


def load(value: Any, name: str = "samples.jsonl") -> Transcript:
    return read("sharegpt", value, name)


def test_hermes() -> None:
    """Reasoning, words, calls and results come apart; results give the calls their ids."""
    (session,) = load(jsonl(HERMES)).sessions
    assert outline(session) == [
        ("system", "You are a function calling AI model."),
        ("user", "Which version?"),
        ("assistant", "Let me see."),
        ("tool_call", "terminal"),
        ("tool_call", "read"),
        ("tool_result", "3.11"),
        ("tool_result", ""),
        ("assistant", "It is 3.11."),
        ("turn_end", "answered"),
    ]
    assert of(Assistant, session)[0].content == (Reasoning(text="run it"), Text(text="Let me see."))
    assert [one.call_id for one in of(ToolCall, session)] == ["call_a", "call_b"]
    assert of(ToolResult, session)[1].content == (Data(kind="response", value={"n": 1}),)
    assert {one.model for one in of(Assistant, session)} == {"hermes-4"}
    assert session.entries[0].ts == 1_774_880_551_456


def test_plain() -> None:
    """Calls with turns of their own are answered in order; words that speak of tags stay words."""
    (session,) = load([PLAIN], "samples.json").sessions
    assert (session.chat, session.title, session.named_by_file) == ("talk-1", "Trains", False)
    assert outline(session)[1:] == [
        ("user", "When? <think> is a tag"),
        ("tool_call", "look"),
        ("tool_result", "nine"),
        ("assistant", "At nine, says a <tool_call>note</tool_call>."),
        ("turn_end", "answered"),
    ]
    (call,) = of(ToolCall, session)
    assert call.args == {"q": "</tool_call>"}
    assert of(ToolResult, session)[0].call_id == call.call_id


@pytest.mark.parametrize("name", ["a.jsonl", "a.json"])
def test_several(name: str) -> None:
    """Conversations without ids are numbered from the second on; what is none is told."""
    values = [HERMES, HERMES, {"odd": 1}]
    transcript = load(jsonl(*values) if name.endswith("l") else values, name)
    assert chats(transcript) == ["a", "a:2"]
    assert "no list of conversations" in transcript.report.skipped[0].reason
