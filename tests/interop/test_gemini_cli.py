"""Gemini CLI's chats: thoughts, words, calls and results of a message are one response."""

from __future__ import annotations

from typing import Any

import pytest

from interop.samples import MTIME, ids, jsonl, of, outline, read
from stratalog.errors import ImportFailed
from stratalog.interop.contract import Transcript
from stratalog.types import Assistant, Data, Note, Reasoning, Text, ToolCall, ToolResult, Usage

HEADER = {"sessionId": "g1", "projectHash": "ff", "startTime": "2026-01-15T20:51:48Z"}


def call(call_id: str, response: Any, status: str = "success") -> dict[str, Any]:
    answer = {"functionResponse": {"id": call_id, "name": "ls", "response": response}}
    stamp = "2026-01-15T20:51:55Z"
    return {"id": call_id, "name": "ls", "args": {}, "result": [answer], "status": status, "timestamp": stamp}


ASKED = {"id": "m1", "timestamp": "2026-01-15T20:51:48Z", "type": "user", "content": "list"}
REPLIED: dict[str, Any] = {
    "id": "m2",
    "timestamp": "2026-01-15T20:51:52Z",
    "type": "gemini",
    "content": "listing",
    "model": "gemini-x",
    "thoughts": [{"subject": "Plan", "description": "use ls"}],
    "tokens": {"input": 100, "output": 10, "cached": 90, "thoughts": 5, "tool": 1, "total": 116},
    "toolCalls": [call("c1", {"output": "a b"}), call("c2", {"error": "denied"}, "error")],
}
INFO = {"id": "m3", "timestamp": "2026-01-15T20:51:56Z", "type": "info", "content": "update!"}
DONE = {"id": "m4", "timestamp": "2026-01-15T20:51:58Z", "type": "gemini", "content": [{"text": "done"}]}


def load(*messages: Any) -> Transcript:
    return read("gemini_cli", HEADER | {"messages": list(messages)}, "chat.json")


def test_chat() -> None:
    """A message's thoughts and words, then its calls, then their results."""
    (session,) = load(ASKED, REPLIED, INFO, DONE).sessions
    assert outline(session) == [
        ("user", "list"),
        ("assistant", "listing"),
        ("tool_call", "ls"),
        ("tool_call", "ls"),
        ("tool_result", "a b"),
        ("tool_result", "denied"),
        ("note", "info"),
        ("assistant", "done"),
        ("turn_end", "answered"),
    ]
    said = of(Assistant, session)[0]
    assert said.content == (Reasoning(text="**Plan**\nuse ls"), Text(text="listing"))
    assert said.usage == Usage(input=101, output=15, cache_read=90, reasoning=5)
    assert {said.response} == {one.response for one in of(ToolCall, session)}
    assert [one.error for one in of(ToolResult, session)] == [False, True]
    assert (session.chat, session.meta) == ("g1", {"project": "ff"})


def test_other_results() -> None:
    """A result that is no text is data; a call without a result is open, a cancelled one failed."""
    pending = {"id": "c3", "name": "ls", "args": {}, "status": "executing"}
    cancelled = {"id": "c4", "name": "ls", "args": {}, "status": "cancelled"}
    transcript = load(ASKED, REPLIED | {"toolCalls": [call("c1", {"files": 3}), pending, cancelled]})
    results = of(ToolResult, transcript)
    assert [(one.call_id, one.error) for one in results] == [("c1", False), ("c4", True)]
    assert results[0].content == (Data(kind="response", value={"files": 3}),)


def test_lines() -> None:
    """As JSON lines a message may be written again as it grows; its last form counts."""
    early = REPLIED | {"toolCalls": [], "content": "lis"}
    data = jsonl(HEADER, ASKED, early, REPLIED, {"$set": {"lastUpdated": "later"}})
    transcript = read("gemini_cli", data, "chat.jsonl")
    assert [one.text for one in of(Assistant, transcript)] == ["listing"]
    assert transcript.report.merged == {"header": 2, "earlier form of a message": 1}


def test_growth() -> None:
    """A chat that has grown, by messages or by calls of one, gives the old ids again."""
    whole = ids(load(ASKED, REPLIED, INFO, DONE))
    for part in ([ASKED], [ASKED, REPLIED | {"toolCalls": REPLIED["toolCalls"][:1]}], [ASKED, REPLIED, INFO]):
        assert ids(load(*part)) <= whole


def test_unknown() -> None:
    """Messages of unknown types are notes, and what is no object is reported."""
    transcript = load(ASKED, {"type": "aside", "content": {"x": 1}}, 7)
    assert (of(Note, transcript)[0].kind, of(Note, transcript)[0].data) == ("aside", {"x": 1})
    assert transcript.report.skipped[0].reason == "record 4: a int, not an object"


def test_refused() -> None:
    """A document without messages cannot be read."""
    with pytest.raises(ImportFailed, match="no messages"):
        read("gemini_cli", HEADER, "chat.json", MTIME)
