"""OpenHands' events of both generations: calls with their results, folders, trajectories, condensations."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from interop.samples import check, grows, ids, jsonl, of, outline, read
from stratalog.interop.contract import Transcript
from stratalog.interop.detect import find_transcripts, read_transcript
from stratalog.types import (
    Assistant,
    Compaction,
    Image,
    Note,
    Reasoning,
    Text,
    ToolCall,
    ToolResult,
    Usage,
    User,
)


def event(number: int, source: str, **more: Any) -> dict[str, Any]:
    base = {"id": number, "timestamp": f"2025-06-01T10:00:{number:02}.000000", "source": source}
    return base | {"message": ""} | more


def called(number: int, call_id: str, name: str, args: dict[str, Any]) -> dict[str, Any]:
    function = {"name": name, "arguments": json.dumps(args)}
    message = {"role": "assistant", "content": "Look.", "tool_calls": [{"id": call_id, "function": function}]}
    response = {"id": "r1", "model": "claude-x", "choices": [{"message": message}]}
    return {
        "tool_call_metadata": {"function_name": name, "tool_call_id": call_id, "model_response": response},
        "llm_metrics": {"token_usages": [{"response_id": "r1", "prompt_tokens": 90, "completion_tokens": 7}]},
    }


FIRST = [
    event(0, "agent", action="system", args={"content": "You are OpenHands."}),
    event(1, "user", action="message", args={"content": "Fix it", "image_urls": ["https://x/p.png"]}),
    event(2, "agent", action="recall", args={"query": "Fix it"}),
    event(3, "environment", observation="agent_state_changed", content="", extras={"agent_state": "running"}),
    event(
        4,
        "agent",
        action="run",
        args={"command": "ls", "thought": "Look."},
        **called(4, "c1", "execute_bash", {"command": "ls"}),
    ),
    event(5, "agent", cause=4, observation="run", content="a.py", extras={"command": "ls"}, success=True),
    event(6, "agent", action="read", args={"path": "a.py", "thought": ""}),
    event(7, "environment", cause=6, observation="error", content="no such file", extras={}),
    event(8, "agent", action="finish", args={"final_thought": "Done.", "thought": ""}),
]


def sdk(name: str, kind: str, source: str, **more: Any) -> dict[str, Any]:
    return {"id": name, "timestamp": "2026-01-01T10:00:00.000000", "source": source, "kind": kind} | more


def text(words: str) -> list[dict[str, str]]:
    return [{"type": "text", "text": words}]


SECOND = [
    sdk("e0", "SystemPromptEvent", "agent", system_prompt={"type": "text", "text": "Be brief."}, tools=[]),
    sdk(
        "e1",
        "MessageEvent",
        "user",
        llm_message={"role": "user", "content": text("Fix it")},
        extended_content=text("Skill: be kind"),
    ),
    sdk(
        "e2",
        "ActionEvent",
        "agent",
        thought=text("Look."),
        reasoning_content="hm",
        tool_name="terminal",
        tool_call_id="c1",
        tool_call={"id": "c1", "name": "terminal", "arguments": '{"command": "ls"}'},
        llm_response_id="r1",
        action={"kind": "TerminalAction", "command": "ls"},
    ),
    sdk(
        "e3",
        "ObservationEvent",
        "environment",
        tool_name="terminal",
        tool_call_id="c1",
        action_id="e2",
        observation={"kind": "TerminalObservation", "content": text("a.py"), "is_error": True},
    ),
    sdk("e4", "ConversationStateUpdateEvent", "environment", key="execution_status", value="running"),
    sdk(
        "e5",
        "Condensation",
        "environment",
        summary="looked",
        forgotten_event_ids=["e1", "e3"],
        llm_response_id="r",
    ),
    sdk(
        "e6",
        "ActionEvent",
        "agent",
        thought=[],
        tool_name="finish",
        tool_call_id="c2",
        tool_call={"id": "c2", "name": "finish", "arguments": '{"message": "Done."}'},
        llm_response_id="r2",
        action={"kind": "FinishAction", "message": "Done."},
    ),
    sdk(
        "e7",
        "ObservationEvent",
        "environment",
        tool_name="finish",
        tool_call_id="c2",
        observation={"content": []},
    ),
]


def load(value: Any, name: str = "trajectory.json") -> Transcript:
    return read("openhands", value, name)


def test_first_generation() -> None:
    """Actions are calls as the model made them, observations their results, and the end is said."""
    (session,) = load(FIRST).sessions
    assert outline(session) == [
        ("system", "You are OpenHands."),
        ("user", "Fix it"),
        ("assistant", "Look."),
        ("tool_call", "execute_bash"),
        ("tool_result", "a.py"),
        ("tool_call", "read"),
        ("tool_result", "no such file"),
        ("assistant", "Done."),
        ("turn_end", "answered"),
    ]
    first, second = of(ToolCall, session)
    assert (first.call_id, first.args, second.args) == ("c1", {"command": "ls"}, {"path": "a.py"})
    assert [one.error for one in of(ToolResult, session)] == [False, True]
    said = of(Assistant, session)[0]
    assert (said.model, said.response, said.usage) == ("claude-x", "r1", Usage(input=90, output=7))
    assert of(User, session)[0].content == (Text(text="Fix it"), Image(url="https://x/p.png"))


def test_second_generation() -> None:
    """Events of the SDK give the same: reasoning, calls, results, what was added to the prompt, the end."""
    (session,) = load(SECOND).sessions
    assert outline(session) == [
        ("system", "Be brief."),
        ("user", "Fix it"),
        ("user", "Skill: be kind"),
        ("assistant", "Look."),
        ("tool_call", "terminal"),
        ("tool_result", "a.py"),
        ("compaction", "looked"),
        ("assistant", "Done."),
        ("turn_end", "answered"),
    ]
    assert [(one.meta or {}).get("injected") for one in of(User, session)] == [None, True]
    assert of(Assistant, session)[0].content == (Reasoning(text="hm"), Text(text="Look."))
    assert of(ToolResult, session)[0].error
    made = of(Compaction, session)[0]
    assert made.covers == (session.entries[2].id, of(ToolResult, session)[0].id)


def test_by_hand() -> None:
    """A command that a person ran stands in the user's place and opens no turn; so does its output."""
    transcript = load(
        [
            event(1, "user", action="run", args={"command": "pwd"}),
            event(2, "user", cause=1, observation="run", content="/work", extras={}),
            event(
                3,
                "agent",
                observation="recall",
                content="Added",
                extras={"repo_name": "x", "screenshot": "s"},
            ),
        ]
    )
    assert [(one.text, (one.meta or {})["injected"]) for one in of(User, transcript)] == [
        ("Ran `pwd`", True),
        ("/work", True),
    ]
    assert of(Note, transcript)[0].data == {"repo_name": "x"}


def test_folder(tmp_path: Path) -> None:
    """A folder of events is one session of its conversation's id, in the order of the numbers."""
    folder = tmp_path / "sessions" / "abc" / "events"
    folder.mkdir(parents=True)
    (tmp_path / "sessions" / "abc" / "event_cache").mkdir()
    (tmp_path / "sessions" / "abc" / "event_cache" / "0-25.json").write_text(json.dumps(FIRST))
    for one in [*FIRST, event(10, "user", action="message", args={"content": "Thanks"})]:
        (folder / f"{one['id']}.json").write_text(json.dumps(one, indent=1))
    assert find_transcripts([tmp_path]) == [folder]
    assert find_transcripts([folder]) == [folder]
    transcript = read_transcript(folder)
    check(transcript)
    (session,) = transcript.sessions
    assert (session.chat, session.named_by_file, transcript.report.format) == ("abc", False, "openhands")
    assert [one.text for one in of(User, session)] == ["Fix it", "Thanks"]


def test_evaluation_output() -> None:
    """Lines that each hold a history are sessions by their instance."""
    lines = jsonl({"instance_id": "a-1", "history": FIRST}, {"instance_id": "a-2", "history": [FIRST[:2]]})
    transcript = load(lines, "output.jsonl")
    assert [session.chat for session in transcript.sessions] == ["a-1", "a-2"]
    assert [one.text for one in of(User, transcript.sessions[1])] == ["Fix it"]


def test_growth() -> None:
    """Events that come later change no id of the events before them."""
    for events in (FIRST, SECOND):
        grows("openhands", events)
    assert ids(load(FIRST)) == ids(load({"trajectory": FIRST}))
