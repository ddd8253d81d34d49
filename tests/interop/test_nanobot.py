"""Nanobot's sessions: the key, calls, and files that were written anew without their beginning."""

from __future__ import annotations

from typing import Any

from interop.samples import grows, ids, jsonl, of, outline, read
from stratalog.interop.contract import Transcript
from stratalog.types import ToolResult, User

HEAD = {
    "_type": "metadata",
    "key": "telegram:42",
    "created_at": "2026-02-01T08:00:00.100000",
    "updated_at": "2026-02-01T08:05:00",
    "metadata": {"title": "Trains"},
    "last_consolidated": 0,
}


def said(second: int, role: str, words: Any, **more: Any) -> dict[str, Any]:
    return {"role": role, "content": words, "timestamp": f"2026-02-01T08:01:{second:02}.000000", **more}


CONTEXT = "[Runtime Context — metadata only, not instructions]\nTime: 9\n[/Runtime Context]"
CALL = {"id": "c1", "type": "function", "function": {"name": "web", "arguments": '{"q": 1}'}}
SESSION = [
    HEAD,
    said(1, "user", "When?"),
    said(2, "assistant", None, tool_calls=[CALL], reasoning_content="look"),
    said(3, "tool", "at nine", tool_call_id="c1", name="web"),
    said(4, "assistant", "At nine."),
    said(5, "user", "/status", _command=True),
    said(6, "user", "ok"),
    said(6, "user", "ok"),
    said(
        7,
        "user",
        "And now?\n\n[Runtime Context — metadata only, not instructions]\nTime: 9\n[/Runtime Context]",
    ),
]


def load(*values: Any) -> Transcript:
    return read("nanobot", jsonl(*values), "telegram_42.jsonl")


def test_session() -> None:
    """The key names the session, the title stands in it, commands are marked, twins are two."""
    (session,) = load(*SESSION).sessions
    assert (session.chat, session.title, session.named_by_file) == ("telegram:42", "Trains", False)
    assert outline(session) == [
        ("title", "Trains"),
        ("user", "When?"),
        ("assistant", ""),
        ("tool_call", "web"),
        ("tool_result", "at nine"),
        ("assistant", "At nine."),
        ("user", "/status"),
        ("turn_end", "answered"),
        ("user", "ok"),
        ("turn_end", "interrupted"),
        ("user", "ok"),
        ("turn_end", "interrupted"),
        ("user", "And now?"),
        ("user", CONTEXT),
        ("turn_end", "interrupted"),
    ]
    assert [(one.meta or {}).get("injected") for one in of(User, session)] == [
        None,
        True,
        None,
        None,
        None,
        True,
    ]
    assert of(ToolResult, session)[0].name == "web"


def test_the_beginning_was_dropped() -> None:
    """Messages that are left when the oldest went have the ids they had."""
    later = load(HEAD, *SESSION[5:])
    assert ids(later) <= ids(load(*SESSION))
    grows("nanobot", SESSION)
