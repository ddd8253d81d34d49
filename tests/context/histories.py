"""Random histories of a session, and what every view of one must hold."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import strategies as st

from stratalog.context.view import View, withdrawal
from stratalog.ids import derived_ulid
from stratalog.types import (
    AnyEntry,
    Assistant,
    Compaction,
    Note,
    System,
    ToolCall,
    ToolResult,
    TurnEnd,
    TurnStart,
    User,
)

TURNS = ("", "", "A", "B", "C")
SAID = (System, User, Assistant, ToolCall, ToolResult)
CALLS = ("c1", "c2", "c3", "c4")


@st.composite
def histories(draw: st.DrawFn, *, most: int = 30) -> list[AnyEntry]:
    """Entries of any kind in any order, stamped as a log stamps them."""
    entries: list[AnyEntry] = []
    for seq in range(1, draw(st.integers(0, most)) + 1):
        turn = draw(st.sampled_from(TURNS))
        common: dict[str, Any] = {"seq": seq, "id": derived_ulid(seq, "test"), "ts": seq, "turn": turn}
        match draw(st.integers(0, 9)):
            case 0 | 1:
                entries.append(User(content=f"u{seq}", **common))
            case 2:
                words = draw(st.sampled_from([f"a{seq}", ""]))
                response = draw(st.sampled_from(["", "r1", "r2"]))
                entries.append(Assistant(content=words, response=response, **common))
            case 3 | 4:
                call, response = draw(st.sampled_from(CALLS)), draw(st.sampled_from(["", "r1", "r2"]))
                entries.append(ToolCall(call_id=call, name="t", args={"n": seq}, response=response, **common))
            case 5 | 6:
                call = draw(st.sampled_from(CALLS))
                entries.append(ToolResult(call_id=call, content=f"res{seq}", **common))
            case 7:
                entries.append(System(content=f"s{seq}", **common))
            case 8:
                kept = draw(st.sampled_from(["", *(entry.id for entry in entries), "nowhere"]))
                entries.append(Compaction(summary=f"sum{seq}", first_kept=kept, **common))
            case _:
                kind = draw(st.integers(0, 3))
                made: AnyEntry = TurnStart(fence=seq, **common)
                if kind == 1:
                    made = TurnEnd(status="answered", **common)
                elif kind == 2:
                    made = Note(kind="n", **common)
                elif kind == 3:
                    said = [each for each in entries if isinstance(each, SAID)]
                    gone = draw(st.lists(st.sampled_from(said), max_size=4)) if said else []
                    made = msgspec.structs.replace(withdrawal(gone), **common)
                entries.append(made)
    return entries


def well_formed(seen: View, entries: list[AnyEntry]) -> None:
    """Every call is followed by exactly its results before anything else; nothing is invented but marked
    synthetic results; no result is an orphan; the user's messages keep their order within a turn."""
    given = {id(entry) for entry in entries}
    by_seq = {entry.seq: entry for entry in entries}
    used: list[int] = []
    for turn in seen.turns:
        assert turn.entries
        open_calls: list[str] = []
        answered: set[str] = set()
        last = None
        for entry in turn.entries:
            if isinstance(entry, ToolResult) and entry.synthetic:
                assert entry.seq == 0
                assert entry.error
            else:
                assert id(entry) in given or by_seq[entry.seq] == entry
                used.append(entry.seq)
            match entry:
                case ToolCall():
                    if not isinstance(last, ToolCall):
                        assert not open_calls
                        answered = set()
                    open_calls.append(entry.call_id)
                case ToolResult():
                    assert entry.call_id in open_calls
                    open_calls.remove(entry.call_id)
                    assert entry.call_id not in answered
                    answered.add(entry.call_id)
                case _:
                    assert not open_calls
            last = entry
        assert not open_calls
        users = [entry.seq for entry in turn.entries if isinstance(entry, User)]
        assert users == sorted(users)
    assert len(used) == len(set(used)), "an entry is shown twice"


def chat_is_strict(messages: list[dict[str, Any]]) -> None:
    """What a strict provider asks of a chat: one system message, first; every tool message answers a call of
    the assistant message before it; every call is answered at once; no message is empty."""
    roles = [message["role"] for message in messages]
    assert "system" not in roles[1:]
    waiting: list[str] = []
    for message in messages:
        if message["role"] == "tool":
            assert message["tool_call_id"] in waiting
            waiting.remove(message["tool_call_id"])
            assert isinstance(message["content"], str)
            continue
        assert not waiting
        if message["role"] == "assistant":
            waiting = [call["id"] for call in message.get("tool_calls", [])]
            assert len(waiting) == len(set(waiting))
            assert waiting or message["content"]
            for call in message.get("tool_calls", []):
                assert isinstance(call["function"]["arguments"], str)
                assert isinstance(msgspec.json.decode(call["function"]["arguments"]), dict)
        else:
            assert message["content"]
    assert not waiting
