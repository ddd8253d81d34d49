"""Sessions of pi: both versions, its own kinds of message, branches and compactions."""

from __future__ import annotations

from typing import Any

from interop.samples import chats, grows, jsonl, notes, of, outline, read
from stratalog.interop.contract import Transcript
from stratalog.types import Assistant, Compaction, Note, ToolResult, TurnEnd, Usage, User

HEADER = {
    "type": "session",
    "id": "p1",
    "timestamp": "2025-11-20T23:33:50Z",
    "cwd": "/work",
    "provider": "anthropic",
    "modelId": "claude-x",
}


def entry(kind: str, second: int, **more: Any) -> dict[str, Any]:
    return {"type": kind, "timestamp": f"2025-11-20T23:34:{second:02}.000Z", **more}


def message(
    second: int, role: str, said: Any, node: str = "", parent: str | None = None, **more: Any
) -> dict[str, Any]:
    value = entry("message", second, message={"role": role, "content": said, **more})
    return value | ({"id": node, "parentId": parent} if node else {})


def words(*texts: str) -> list[dict[str, str]]:
    return [{"type": "text", "text": text} for text in texts]


USED = {"input": 3, "output": 5, "cacheRead": 100, "cacheWrite": 20}
CALL = {"type": "toolCall", "id": "t1", "name": "read", "arguments": {"path": "a"}}
FLAT = [
    HEADER,
    message(1, "user", words("go")),
    message(2, "assistant", [*words("reading"), CALL], model="m", usage=USED, stopReason="toolUse"),
    message(3, "toolResult", words("text"), toolCallId="t1", toolName="read", isError=True),
    entry("model_change", 4, provider="openai", modelId="gpt"),
    message(5, "assistant", words("done"), model="m", stopReason="stop"),
]
TREE = [
    HEADER,
    message(1, "user", words("go"), "a"),
    message(2, "assistant", words("one"), "b", "a"),
    message(3, "user", words("left"), "c", "b"),
    message(4, "assistant", words("behind"), "d", "c"),
    message(5, "user", words("instead"), "e", "b"),
    message(6, "assistant", words("two"), "f", "e"),
]


def load(*values: Any) -> Transcript:
    return read("pi", jsonl(*values), "pi.jsonl")


def test_flat() -> None:
    """The first version is one line; its header names the session and its facts."""
    (session,) = load(*FLAT).sessions
    assert outline(session) == [
        ("user", "go"),
        ("assistant", "reading"),
        ("tool_call", "read"),
        ("tool_result", "text"),
        ("note", "model_change"),
        ("assistant", "done"),
        ("turn_end", "answered"),
    ]
    assert of(Assistant, session)[0].usage == Usage(input=123, output=5, cache_read=100, cache_write=20)
    assert of(ToolResult, session)[0].error
    assert session.chat == "p1"
    assert session.meta == {"cwd": "/work", "model": "claude-x", "provider": "anthropic"}


def test_aborted() -> None:
    """A reply that was aborted interrupts its turn; with nothing said it is only a note."""
    transcript = load(
        HEADER,
        message(1, "user", words("go")),
        message(2, "assistant", [], stopReason="aborted", errorMessage="stopped"),
    )
    assert [(one.kind, one.text) for one in of(Note, transcript)] == [("aborted", "stopped")]
    assert of(TurnEnd, transcript)[0].detail == "stopped"


def test_tree() -> None:
    """Later versions are trees: the newest entry ends the main line, the other branch is a session."""
    transcript = load(*TREE)
    assert chats(transcript) == ["p1", "p1:branch-c"]
    assert [one.text for one in of(User, transcript.sessions[0])] == ["go", "instead"]
    branch = transcript.sessions[1]
    assert (branch.meta["parent"], branch.meta["after"]) == ("p1", transcript.sessions[0].entries[1].id)


def test_missing_parent() -> None:
    """An entry whose parent is missing follows the one before it, and the report says so."""
    transcript = load(*TREE[:3], message(9, "user", words("on"), "z", "gone"))
    assert chats(transcript) == ["p1"]
    assert "1 entries follow one that is not there" in notes(transcript)


def test_one_id_twice() -> None:
    """Entries with one id are kept both, as entries and as branches of their own."""
    twins = [message(7, "user", words("x"), "c", "a"), message(8, "user", words("y"), "z", "b")]
    transcript = load(*TREE, *twins)
    assert len(chats(transcript)) == 4
    assert {one.text for one in of(User, transcript)} == {"go", "left", "instead", "x", "y"}


def test_compaction() -> None:
    """A compaction keeps its summary and names the first entry that is still seen, in either version."""
    later = entry(
        "compaction", 9, id="x", parentId="f", summary="so far", firstKeptEntryId="e", tokensBefore=900
    )
    transcript = load(*TREE, later)
    (made,) = of(Compaction, transcript)
    assert (made.summary, made.tokens_before) == ("so far", 900)
    assert made.first_kept == of(User, transcript.sessions[0])[1].id
    first = load(*FLAT, entry("compaction", 9, summary="so far", firstKeptEntryIndex=4))
    assert of(Compaction, first)[0].first_kept == of(Assistant, first)[1].id


def test_own_kinds() -> None:
    """What pi shows its model in the user's place is marked; the rest of its own entries are notes."""
    transcript = load(
        HEADER,
        entry("message", 1, message={"role": "bashExecution", "command": "ls", "output": "a", "exitCode": 1}),
        entry("message", 2, message={"role": "bashExecution", "command": "pw", "excludeFromContext": True}),
        entry("message", 3, message={"role": "custom", "customType": "ext", "content": "shown"}),
        entry("message", 3, message={"role": "branchSummary", "summary": "went wrong"}),
        entry("message", 3, message={"role": "martian", "content": "?"}),
        entry("custom_message", 4, customType="ext", content=words("also")),
        entry("branch_summary", 5, summary="other branch"),
        entry("custom", 6, customType="state", data={"n": 1}),
        entry("label", 7, targetId="a", label="here"),
        entry("session_info", 8, name="My session"),
    )
    assert [(one.text, (one.meta or {})["injected"]) for one in of(User, transcript)] == [
        ("Ran `ls`\na", True),
        ("shown", True),
        ("went wrong", True),
        ("also", True),
        ("other branch", True),
    ]
    assert [one.kind for one in of(Note, transcript)] == ["bash", "message:martian", "custom", "label"]
    assert transcript.sessions[0].title == "My session"


def test_growth() -> None:
    """A file that has grown gives the ids of its old part again, in either version."""
    grows("pi", FLAT)
    grows("pi", TREE)
