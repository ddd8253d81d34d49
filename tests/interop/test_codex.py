"""Codex rollouts: items once though events repeat them, prompts, responses and their tokens."""

from __future__ import annotations

from typing import Any

from interop.samples import chats, grows, jsonl, of, outline, read
from stratalog.context.shapes.contract import Prompt
from stratalog.context.shapes.openai_responses import OpenAIResponsesShape
from stratalog.interop.contract import Transcript
from stratalog.testing.model_server import refusal_of
from stratalog.types import (
    Assistant,
    Compaction,
    Data,
    Note,
    Reasoning,
    System,
    ToolCall,
    ToolResult,
    TurnEnd,
    Usage,
    User,
)


def line(kind: str, payload: dict[str, Any], second: int = 0) -> dict[str, Any]:
    return {"timestamp": f"2026-02-23T11:40:{second:02}.000Z", "type": kind, "payload": payload}


def item(**payload: Any) -> dict[str, Any]:
    return line("response_item", payload)


def event(kind: str, **payload: Any) -> dict[str, Any]:
    return line("event_msg", {"type": kind, **payload})


def message(role: str, words: str) -> dict[str, Any]:
    kind = "output_text" if role == "assistant" else "input_text"
    return item(type="message", role=role, content=[{"type": kind, "text": words}])


def tokens(total: int, last: int) -> dict[str, Any]:
    used = {"input_tokens": last, "cached_input_tokens": 2, "output_tokens": 5, "reasoning_output_tokens": 1}
    return event("token_count", info={"total_token_usage": {"total_tokens": total}, "last_token_usage": used})


META = line(
    "session_meta",
    {
        "id": "c1",
        "cwd": "/work",
        "cli_version": "0.104",
        "base_instructions": {"text": "Be good."},
        "git": {"branch": "main", "commit_hash": "abc"},
    },
)
ROLLOUT = [
    META,
    message("developer", "rules"),
    message("user", "files and folders"),
    message("user", "fix it"),
    event("user_message", message="fix it"),
    line("turn_context", {"cwd": "/work", "model": "gpt-x"}),
    event("token_count", info=None),
    event("agent_reasoning", text="Thinking"),
    item(type="reasoning", summary=[{"type": "summary_text", "text": "Thinking"}], encrypted_content="gA"),
    event("agent_message", message="looking"),
    message("assistant", "looking"),
    item(type="function_call", name="run", arguments='{"cmd":"ls"}', call_id="1"),
    item(type="function_call", name="run", arguments="not json", call_id="2"),
    tokens(10, 7),
    item(type="function_call_output", call_id="1", output="a.py"),
    item(type="function_call_output", call_id="2", output={"content": "no", "success": False}),
    tokens(10, 7),
    item(type="custom_tool_call", name="apply_patch", input="*** Begin", call_id="3"),
    item(type="custom_tool_call_output", call_id="3", output="ok"),
    message("assistant", "fixed"),
    tokens(30, 9),
    event("task_complete", last_agent_message="fixed"),
]


def load(*values: Any) -> Transcript:
    return read("codex", jsonl(*values), "rollout.jsonl")


def test_rollout() -> None:
    """What was said is there once, in order, and only what a person asked opens a turn."""
    transcript = load(*ROLLOUT)
    (session,) = transcript.sessions
    assert outline(session) == [
        ("system", "Be good."),
        ("system", "rules"),
        ("user", "files and folders"),
        ("user", "fix it"),
        ("assistant", ""),
        ("assistant", "looking"),
        ("tool_call", "run"),
        ("tool_call", "run"),
        ("tool_result", "a.py"),
        ("tool_result", "no"),
        ("tool_call", "apply_patch"),
        ("tool_result", "ok"),
        ("assistant", "fixed"),
        ("turn_end", "answered"),
    ]
    assert [(one.meta or {}).get("injected", False) for one in of(User, session)] == [True, False]
    assert of(Assistant, session)[0].content == (Reasoning(text="Thinking", redacted="gA"),)
    assert [one.args for one in of(ToolCall, session)] == [{"cmd": "ls"}, "not json", "*** Begin"]
    assert [one.error for one in of(ToolResult, session)] == [False, True, False]
    assert session.chat == "c1"
    assert session.meta["git_commit"] == "abc"
    assert not transcript.report.skipped


def test_sealed_reasoning_goes_back() -> None:
    """A reasoning item keeps its id beside its seal, as the responses API wants it back; without a seal
    nobody takes it back, so its id is not kept."""
    values = [
        META,
        message("user", "add"),
        item(type="reasoning", id="rs_1", summary=[], encrypted_content="gAAAAx"),
        item(type="function_call", name="run", arguments="{}", call_id="1"),
        item(type="function_call_output", call_id="1", output="3"),
        item(type="reasoning", id="rs_2", summary=[{"type": "summary_text", "text": "Hm."}]),
        message("assistant", "3"),
    ]
    (session,) = load(*values).sessions
    thoughts = [one.content[0] for one in of(Assistant, session) if one.content != "3"]
    assert thoughts == [Reasoning(signature="rs_1", redacted="gAAAAx"), Reasoning(text="Hm.")]
    told = tuple(one for one in session.entries if isinstance(one, User | Assistant | ToolCall | ToolResult))
    body = OpenAIResponsesShape().body(Prompt(entries=told))
    sealed = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAAAx"}
    assert [each for each in body["input"] if each["type"] == "reasoning"] == [sealed]
    assert refusal_of("openai_responses", body) == ""


def test_responses() -> None:
    """All output between two inputs is one response; its tokens are counted once, not when repeated."""
    session = load(*ROLLOUT).sessions[0]
    calls = of(ToolCall, session)
    said = of(Assistant, session)
    assert said[0].response == said[1].response == calls[0].response == calls[1].response
    assert calls[2].response not in (calls[0].response, said[2].response)
    assert [one.usage for one in said] == [
        Usage(input=7, output=5, cache_read=2, reasoning=1),
        None,
        Usage(input=9, output=5, cache_read=2, reasoning=1),
    ]
    assert {one.model for one in said} == {"gpt-x"}


def test_rewritten_events() -> None:
    """An event beside its item is the same even where both were rewritten differently."""
    values = [
        META,
        message("user", "[TEXT 1]"),
        event("user_message", message="[MESSAGE 1]"),
        message("user", "a skill"),
        event("agent_message", message="[MESSAGE 2]"),
        message("assistant", "[TEXT 2]"),
    ]
    transcript = load(*values)
    assert [one.text for one in of(User, transcript)] == ["[TEXT 1]", "a skill"]
    assert [one.text for one in of(Assistant, transcript)] == ["[TEXT 2]"]
    assert [(one.meta or {}).get("injected", False) for one in of(User, transcript)] == [False, True]


def test_events_alone() -> None:
    """An event that repeats nothing is what was said."""
    transcript = load(
        META,
        event("user_message", message="hi"),
        event("agent_reasoning", text="hm"),
        event("agent_message", message="yo"),
    )
    assert outline(transcript.sessions[0])[1:] == [
        ("user", "hi"),
        ("assistant", ""),
        ("assistant", "yo"),
        ("turn_end", "answered"),
    ]


def test_without_events() -> None:
    """Where there are no events, the words themselves tell a prompt from what the program sent."""
    transcript = load(
        META,
        message("user", "<environment_context>x</environment_context>"),
        message("user", "hi"),
        message("assistant", "yo"),
    )
    assert [(one.meta or {}).get("injected", False) for one in of(User, transcript)] == [True, False]


def test_aborted() -> None:
    """A turn that was aborted is interrupted, with the reason."""
    transcript = load(
        META, message("user", "go"), message("assistant", "well"), event("turn_aborted", reason="interrupted")
    )
    end = of(TurnEnd, transcript)[0]
    assert (end.status, end.detail) == ("interrupted", "interrupted")


def test_compacted() -> None:
    """A readable summary is a compaction; one that only the vendor can read hides no history."""
    transcript = load(
        META,
        message("user", "go"),
        line("compacted", {"message": "so far", "replacement_history": [{}, {}]}),
        line("compacted", {"message": "", "replacement_history": [{}]}),
    )
    assert [one.summary for one in of(Compaction, transcript)] == ["so far"]
    assert [one.kind for one in of(Note, transcript)] == ["compacted"]


def test_others() -> None:
    """Searches at the vendor are data, screen events are skipped, unknown things are kept as notes."""
    transcript = load(
        META,
        item(type="web_search_call", status="completed"),
        item(type="ghost_snapshot"),
        event("exec_command_end", stdout="x"),
        event("something_new", message="hm"),
        line("new_record", {"x": 1}),
        {"type": "odd"},
        line("session_meta", {"id": "older"}),
    )
    assert of(Assistant, transcript)[0].content == (
        Data(kind="web_search_call", value={"type": "web_search_call", "status": "completed"}),
    )
    assert [one.kind for one in of(Note, transcript)] == ["something_new", "new_record", "session_meta"]
    assert len(transcript.report.skipped) == 3
    assert chats(transcript) == ["c1"]


def test_first_version() -> None:
    """Rollouts without envelopes are read the same way."""
    transcript = load(
        {"id": "old", "timestamp": "2025-05-01T00:00:00Z", "instructions": "Be brief."},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hi"}]},
        {"record_type": "state"},
        {"type": "local_shell_call", "call_id": "1", "action": {"command": ["ls"]}},
    )
    assert of(System, transcript)[0].text == "Be brief."
    assert of(ToolCall, transcript)[0].name == "local_shell"
    assert chats(transcript) == ["old"]


def test_growth() -> None:
    """A rollout that has grown gives the ids of its old part again, even cut between event and item."""
    grows("codex", ROLLOUT)


def test_a_prompt_whose_event_is_not_written_yet() -> None:
    """Read in between, the item waits, and is not held to be put in by a program; then it is a prompt."""
    begun = [line("session_meta", {"id": "s"}), event("task_started")]
    first = [message("user", "What is it?"), event("user_message", message="What is it?")]
    answer = [message("assistant", "A test."), event("agent_message", message="A test.")]
    second = [message("user", "And now?"), event("user_message", message="And now?")]
    between = load(*begun, *first, *answer, second[0])
    assert [entry.text for entry in of(User, between)] == ["What is it?"]
    assert [skip.reason for skip in between.report.skipped] == [
        "who said it is told by what follows, which is not there yet"
    ]
    whole = load(*begun, *first, *answer, *second)
    assert [(entry.text, entry.meta) for entry in of(User, whole)] == [
        ("What is it?", None),
        ("And now?", None),
    ]
    assert [entry.id for entry in of(User, between)] == [entry.id for entry in of(User, whole)][:1]
