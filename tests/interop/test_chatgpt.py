"""ChatGPT's conversations: the current branch, the others, tools without ids, and lists of conversations."""

from __future__ import annotations

from typing import Any

from interop.samples import chats, notes, of, outline, read
from stratalog.interop.contract import Transcript
from stratalog.types import Assistant, Data, Reasoning, System, Text, ToolCall, ToolResult, User


def node(key: str, parent: str | None, role: str, content: Any, **more: Any) -> dict[str, Any]:
    body = {"content_type": "text", "parts": [content]} if isinstance(content, str) else content
    name = more.pop("name", None)
    message = {
        "id": key,
        "author": {"role": role, "name": name},
        "create_time": 1_700_000_100.5 + len(key),
        "content": body,
        "recipient": "all",
        "metadata": {"model_slug": "gpt-4"} if role == "assistant" else {},
    }
    return {"id": key, "parent": parent, "children": [], "message": message | more}


def talk(*nodes: dict[str, Any], current: str = "", **more: Any) -> dict[str, Any]:
    mapping: dict[str, dict[str, Any]] = {
        "root": {"id": "root", "message": None, "parent": None, "children": []}
    }
    mapping |= {one["id"]: one for one in nodes}
    for one in nodes:
        if one["parent"] in mapping:
            mapping[one["parent"]]["children"].append(one["id"])
    base = {"title": "A talk", "create_time": 1_700_000_000.25, "conversation_id": "k1", "mapping": mapping}
    return base | {"current_node": current or nodes[-1]["id"]} | more


def load(value: Any) -> Transcript:
    return read("chatgpt", value, "conversations.json")


def test_line() -> None:
    """The way to the current node is the conversation; thoughts and the answer are one response."""
    thoughts = {"content_type": "thoughts", "thoughts": [{"summary": "Plan", "content": "be kind"}]}
    recap = {"content_type": "reasoning_recap", "content": "Thought for 10s"}
    transcript = load(
        talk(
            node("s", "root", "system", ""),
            node("s2", "s", "system", "Be kind."),
            node("u", "s2", "user", "hello"),
            node("t", "u", "assistant", thoughts),
            node("r", "t", "assistant", recap),
            node("a", "r", "assistant", "hi"),
        )
    )
    (session,) = transcript.sessions
    assert outline(session) == [
        ("title", "A talk"),
        ("system", "Be kind."),
        ("user", "hello"),
        ("assistant", ""),
        ("note", "reasoning_recap"),
        ("assistant", "hi"),
        ("turn_end", "answered"),
    ]
    thought, said = of(Assistant, session)
    assert thought.content == (Reasoning(text="Plan\nbe kind"),)
    assert thought.response == said.response
    assert (said.model, said.ts) == ("gpt-4", 1_700_000_101_500)
    assert (session.title, session.chat) == ("A talk", "k1")
    assert [skip.reason for skip in transcript.report.skipped] == ["record 3: nothing in it to keep"]


def test_branches() -> None:
    """Answers that were regenerated are branches, wherever in the mapping they stand."""
    first = node("a1", "u", "assistant", "first try")
    nodes = [node("u", "root", "user", "joke?"), node("a2", "u", "assistant", "second try"), first]
    transcript = load(talk(*nodes, node("v", "a1", "user", "no"), current="a2"))
    assert chats(transcript) == ["k1", "k1:branch-a1"]
    assert [one.text for one in of(Assistant, transcript.sessions[0])] == ["second try"]
    branch = transcript.sessions[1]
    assert [kind for kind, _ in outline(branch)] == ["assistant", "user", "turn_end"]
    assert (branch.meta["parent"], branch.meta["after"]) == ("k1", of(User, transcript.sessions[0])[0].id)
    assert "kept as k1:branch-a1" in notes(transcript)


def test_tools() -> None:
    """A message to a tool is a call under the message's id, answered by the next message of that tool."""
    code = {"content_type": "code", "text": '{"q": 1}'}
    output = {"content_type": "execution_output", "text": "1"}
    transcript = load(
        talk(
            node("u", "root", "user", "count"),
            node("c", "u", "assistant", code, recipient="python"),
            node("o", "c", "tool", output, name="python"),
            node("a", "o", "assistant", "one"),
            node("x", "a", "tool", "odd", name="bio"),
        )
    )
    (call,) = of(ToolCall, transcript)
    assert (call.name, call.call_id, call.args) == ("python", "c", {"q": 1})
    assert [(one.call_id, one.text) for one in of(ToolResult, transcript)] == [("c", "1"), ("x", "odd")]
    assert "1 tool results answer no call" in notes(transcript)


def test_instructions_and_pictures() -> None:
    """Custom instructions are marked as injected; a picture that is not in the file is named as data."""
    context = {
        "content_type": "user_editable_context",
        "user_profile": "a cook",
        "user_instructions": "short",
    }
    pointer = {"content_type": "image_asset_pointer", "asset_pointer": "file-service://x"}
    picture = {"content_type": "multimodal_text", "parts": [pointer, "what is it?"]}
    transcript = load(talk(node("c", "root", "user", context), node("u", "c", "user", picture)))
    instructions, asked = of(User, transcript)
    assert instructions.content == "a cook\n\nshort"
    assert (instructions.meta or {})["injected"] is True
    assert asked.content == (Data(kind="image_asset_pointer", value=pointer), Text(text="what is it?"))


def test_list() -> None:
    """A file with a list gives a session for each conversation, and reports what is none."""
    one = talk(node("u", "root", "user", "a"))
    two = talk(node("u", "root", "user", "b"), conversation_id=None, title="")
    transcript = load([one, two, {"odd": 1}])
    assert chats(transcript) == ["k1", "conversations:2"]
    assert [session.title for session in transcript.sessions] == ["A talk", ""]
    assert transcript.report.skipped[0].reason == "record 7: not a conversation with a mapping"


def test_broken_mapping() -> None:
    """Circles, lost parents and nodes that are no objects cost only themselves."""
    value = talk(node("u", "root", "user", "a"), node("p", "q", "user", "p"), node("q", "p", "system", "q"))
    value["mapping"]["bad"] = 7
    value["mapping"]["u"]["children"] = ["gone", None]
    transcript = load(value)
    assert {one.text for one in [*of(User, transcript), *of(System, transcript)]} == {"a", "p", "q"}
    assert "'bad' is a int" in transcript.report.skipped[0].reason
