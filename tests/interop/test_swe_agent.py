"""SWE-agent's trajectories: function calls, commands in the text, demonstrations, steps without a history."""

from __future__ import annotations

import json
from typing import Any

from interop.samples import of, outline, read
from stratalog.interop.contract import Transcript
from stratalog.types import Note, ToolCall, TurnEnd, User


def said(role: str, words: str, **more: Any) -> dict[str, Any]:
    kind = {"system": "system_prompt", "assistant": "action"}.get(role, "observation")
    return {"role": role, "content": words, "agent": "main", "message_type": kind} | more


CALL = {"id": "c1", "type": "function", "function": {"name": "bash", "arguments": '{"command": "ls"}'}}
RUN = {
    "environment": "swe_main",
    "trajectory": [
        {
            "action": "ls",
            "observation": "a.py",
            "response": "Look.",
            "thought": "Look.",
            "execution_time": 0.1,
        },
        {"action": "submit", "observation": "", "response": "Submit it.", "thought": "Submit it."},
    ],
    "history": [
        said("system", "SETTING: a shell"),
        said("user", "Fix the issue"),
        said("assistant", "Look.", thought="Look.", action="ls", tool_calls=[CALL]),
        said("tool", "a.py", tool_call_ids=["c1"]),
    ],
    "info": {"exit_status": "submitted", "submission": "diff --git", "model_stats": {"tokens_sent": 9}},
    "replay_config": json.dumps({"agent": {"model": {"name": "gpt-x"}}}),
}
TEXT_RUN = {
    "history": [
        said("system", "SETTING"),
        said("user", "A demonstration of how", is_demo=True),
        said("user", "Fix the issue"),
        said("assistant", "Look.\n```\nls\n```", thought="Look.", action="ls\n"),
        said("user", "a.py\nbash-$"),
        said("assistant", "I give up."),
    ],
    "info": {"exit_status": "exit_cost"},
}


def load(value: Any) -> Transcript:
    return read("swe_agent", value, "owner__repo-1.traj")


def test_function_calls() -> None:
    """Calls and results are those of the messages; the last step and the patch come after them."""
    (session,) = load(RUN).sessions
    assert outline(session) == [
        ("system", "SETTING: a shell"),
        ("user", "Fix the issue"),
        ("assistant", "Look."),
        ("tool_call", "bash"),
        ("tool_result", "a.py"),
        ("assistant", "Submit it."),
        ("tool_call", "command"),
        ("tool_result", ""),
        ("note", "submission"),
        ("turn_end", "interrupted"),
    ]
    assert of(ToolCall, session)[0].args == {"command": "ls"}
    assert of(Note, session)[0].text == "diff --git"
    assert (session.chat, session.named_by_file) == ("owner__repo-1", True)
    assert session.meta == {"model": "gpt-x", "exit_status": "submitted", "environment": "swe_main"}
    assert load(RUN).report.merged == {"step that the history has": 1}


def test_commands_in_the_text() -> None:
    """A command is a call and what comes back in the user's place its result; the cost ends the turn."""
    (session,) = load(TEXT_RUN).sessions
    assert outline(session)[1:] == [
        ("user", "A demonstration of how"),
        ("user", "Fix the issue"),
        ("assistant", "Look."),
        ("tool_call", "command"),
        ("tool_result", "a.py\nbash-$"),
        ("assistant", "I give up."),
        ("turn_end", "interrupted"),
    ]
    assert [(one.meta or {}).get("injected") for one in of(User, session)] == [True, None]
    assert of(ToolCall, session)[0].args == {"command": "ls"}
    assert of(TurnEnd, session)[0].detail == "exit_cost"


def test_without_history() -> None:
    """A file that has only steps gives the calls and results of them all."""
    transcript = load({"trajectory": RUN["trajectory"], "info": {}})
    assert [kind for kind, _ in outline(transcript.sessions[0])] == [
        *("assistant", "tool_call", "tool_result"),
        *("assistant", "tool_call", "tool_result"),
    ]
