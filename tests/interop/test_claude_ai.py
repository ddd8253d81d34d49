"""Claude.ai's export: blocks and old plain text, tools inside a reply, attachments, branches, its archive."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

from interop.samples import chats, check, ids, notes, of, outline, read
from stratalog.interop.contract import Transcript
from stratalog.interop.detect import detect, read_transcript
from stratalog.types import Assistant, Data, File, Reasoning, Text, ToolCall, ToolResult, User

ROOT = "00000000-0000-4000-8000-000000000000"


def message(key: str, sender: str, said: Any, parent: str | None = None, **more: Any) -> dict[str, Any]:
    blocks = [{"type": "text", "text": said}] if isinstance(said, str) else said
    base = {
        "uuid": key,
        "text": said if isinstance(said, str) else "",
        "content": blocks,
        "sender": sender,
        "created_at": f"2026-02-14T10:04:{len(key):02}.500000Z",
        "attachments": [],
        "files": [],
    }
    return base | ({"parent_message_uuid": parent} if parent else {}) | more


def talk(*messages: dict[str, Any], **more: Any) -> dict[str, Any]:
    base = {"uuid": "k1", "name": "A talk", "created_at": "2026-02-14T10:04:00Z", "account": {"uuid": "a"}}
    return base | {"chat_messages": list(messages)} | more


SEARCHED = [
    {"type": "thinking", "thinking": "look it up"},
    {"type": "text", "text": "Let me see."},
    {"type": "tool_use", "id": "t1", "name": "web_search", "input": {"query": "ferry"}},
    {"type": "token_budget"},
    {
        "type": "tool_result",
        "tool_use_id": "t1",
        "name": "web_search",
        "content": [{"type": "text", "text": "9:00"}],
    },
    {"type": "text", "text": "At nine."},
]
CONVERSATION = talk(
    message("u1", "human", "When does the ferry leave?", ROOT),
    message("a1", "assistant", SEARCHED, "u1"),
    message("u2", "human", "And on Sunday?", "a1"),
    message("a2", "assistant", "Not at all.", "u2"),
)


def load(value: Any) -> Transcript:
    return read("claude_ai", value, "conversations.json")


def test_conversation() -> None:
    """Calls of tools stand between the words with their results; title, time and id are the source's."""
    (session,) = load([CONVERSATION]).sessions
    assert outline(session) == [
        ("title", "A talk"),
        ("user", "When does the ferry leave?"),
        ("assistant", "Let me see."),
        ("tool_call", "web_search"),
        ("tool_result", "9:00"),
        ("assistant", "At nine."),
        ("turn_end", "answered"),
        ("user", "And on Sunday?"),
        ("assistant", "Not at all."),
        ("turn_end", "answered"),
    ]
    first = of(Assistant, session)[0]
    assert first.content == (Reasoning(text="look it up"), Text(text="Let me see."))
    assert (of(ToolCall, session)[0].args, of(ToolResult, session)[0].name) == (
        {"query": "ferry"},
        "web_search",
    )
    assert (session.chat, session.title) == ("k1", "A talk")
    assert of(User, session)[0].ts == 1_771_063_442_500


def test_first_years() -> None:
    """Messages without blocks and parents are one line, by their text."""
    plain = [message("u", "human", "hello"), message("a", "assistant", "hi")]
    transcript = load([talk(*({k: v for k, v in one.items() if k != "content"} for one in plain))])
    assert [text for _, text in outline(transcript.sessions[0])] == ["A talk", "hello", "hi", "answered"]


def test_attachments() -> None:
    """Text of an attachment is a file, a long paste is the user's words, of a file there is the name."""
    given = message(
        "u",
        "human",
        "Read these",
        attachments=[
            {"file_name": "a.md", "file_type": "text/markdown", "extracted_content": "# A"},
            {"file_name": "", "file_type": "txt", "extracted_content": "pasted"},
        ],
        files=[{"file_name": "p.png", "file_uuid": "f"}],
    )
    (asked,) = of(User, load([talk(given)]))
    assert asked.content == (
        Text(text="Read these"),
        File(media_type="text/markdown", name="a.md", data=b"# A"),
        Text(text="pasted"),
        Data(kind="file", value={"file_name": "p.png", "file_uuid": "f"}),
    )


def test_branches() -> None:
    """The main line ends at the current leaf; what was edited away is a session that says where it left."""
    edited = [message("u1", "human", "a", ROOT), message("a1", "assistant", "b", "u1")]
    edited += [message("u2", "human", "left", "a1"), message("u22", "human", "kept", "a1")]
    transcript = load([talk(*edited, current_leaf_message_uuid="u22")])
    assert chats(transcript) == ["k1", "k1:branch-u2"]
    assert [one.text for one in of(User, transcript.sessions[0])] == ["a", "kept"]
    assert transcript.sessions[1].meta["after"] == of(Assistant, transcript.sessions[0])[0].id
    assert "kept as k1:branch-u2" in notes(transcript)


def test_several_and_damage() -> None:
    """Each conversation is a session; one that stands twice counts once, and what is none is told."""
    transcript = load([CONVERSATION, CONVERSATION, talk(message("u", "human", "b"), uuid="k2"), {"odd": 1}])
    assert chats(transcript) == ["k1", "k2"]
    assert [skip.reason for skip in transcript.report.skipped] == [
        "record 6: the conversation k1 stands in this file before",
        "record 9: not a conversation with chat_messages",
    ]


def test_growth() -> None:
    """A conversation that went on has the ids of its old part."""
    whole = ids(load([CONVERSATION]))
    for count in range(1, 4):
        assert ids(load([talk(*CONVERSATION["chat_messages"][:count])])) <= whole


def test_archive(tmp_path: Path) -> None:
    """The zip as it comes by mail is read like the file in it; other files of it are left."""
    path = tmp_path / "data-2026.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("users.json", "[{}]")
        archive.writestr("conversations.json", json.dumps([CONVERSATION]))
    assert detect(path) == "claude_ai"
    transcript = read_transcript(path)
    check(transcript)
    assert ids(transcript) == ids(load([CONVERSATION]))
