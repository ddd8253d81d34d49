"""Random lists of entries, and what every invariant owes on any of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from hypothesis import strategies as st

from stratalog.context.invariants import Entries, Invariant
from stratalog.testing.scripted import signature_of
from stratalog.types import (
    Assistant,
    Compaction,
    Content,
    Image,
    Reasoning,
    System,
    Text,
    ToolCall,
    ToolResult,
    User,
)

TURNS = ("", "", "A", "B")
CALLS = ("c1", "c2", "c3")
RESPONSES = ("", "", "r1", "r2")


def said(seq: int, kind: int) -> Content:
    """Words, reasoning, both, several parts, or nothing."""
    thought = Reasoning(text=f"t{seq}", signature=signature_of(f"t{seq}"))
    kinds: list[Content] = [
        f"a{seq}",
        (thought, Text(text=f"a{seq}")),
        (thought,),
        "",
        (Text(text=f"a{seq}"), Text(text=f"b{seq}")),
    ]
    return kinds[kind]


@st.composite
def soups(draw: st.DrawFn, *, most: int = 24, strangers: bool = False) -> Entries:
    """Entries of a conversation in any order; with `strangers` others too, which a list may not have."""
    entries: list[Any] = []
    for seq in range(1, draw(st.integers(0, most)) + 1):
        common: dict[str, Any] = {"seq": seq, "turn": draw(st.sampled_from(TURNS))}
        match draw(st.integers(0, 9 if strangers else 8)):
            case 0 | 1:
                content: Content = f"u{seq}"
                if draw(st.integers(0, 3)) == 0:
                    content = (Text(text=f"u{seq}"), Image(url="https://x/y.png"))
                entries.append(User(content=content, **common))
            case 2 | 3:
                content = said(seq, draw(st.integers(0, 4)))
                response = draw(st.sampled_from(RESPONSES))
                entries.append(Assistant(content=content, response=response, **common))
            case 4 | 5 | 6:
                call, response = draw(st.sampled_from(CALLS)), draw(st.sampled_from(RESPONSES))
                entries.append(ToolCall(call_id=call, name="t", args=seq, response=response, **common))
            case 7 | 8:
                call = draw(st.sampled_from(CALLS))
                entries.append(ToolResult(call_id=call, content=f"res{seq}", **common))
            case _:
                entries.append(draw(st.sampled_from([System(content="s"), Compaction(summary="c")])))
    return tuple(entries)


def keeps_its_promises(
    entries: Entries,
    mended: Callable[[Entries], Entries],
    violations: Callable[[Entries], list[str]],
    safe_cuts: Callable[[Entries], frozenset[int]],
) -> None:
    """Mending leaves no violation, is idempotent, adds only what is marked, loses no words of user or
    assistant, and shows nothing twice; a safe cut makes no violation that was not there."""
    whole = mended(entries)
    assert violations(whole) == []
    assert mended(whole) is whole
    if not violations(entries):
        assert whole is entries
    given = {id(entry) for entry in entries}
    added = [entry for entry in whole if id(entry) not in given]
    for entry in added:
        assert entry.seq == 0
        assert getattr(entry, "synthetic", False) or entry.meta, entry
    shown = Counter(id(entry) for entry in whole if entry.seq)
    assert not shown or max(shown.values()) == 1
    assert words(whole) == words(entries)
    for listed in (entries, whole):
        there = Counter(violations(listed))
        cuts = safe_cuts(listed)
        assert {0, len(listed)} <= cuts <= set(range(len(listed) + 1))
        for cut in cuts:
            halves = Counter(violations(listed[:cut])) + Counter(violations(listed[cut:]))
            assert halves <= there, (cut, halves - there)


def words(entries: Entries) -> Counter[str]:
    """Every part of a message that is somebody's, however the messages are cut."""
    found: Counter[str] = Counter()
    for entry in entries:
        if isinstance(entry, User | Assistant) and not (entry.meta or {}).get("synthetic"):
            parts = (Text(text=entry.content),) if isinstance(entry.content, str) else entry.content
            found.update(f"{entry.role} {part}" for part in parts if part != Text(text=""))
    return found


def holds(rule: Invariant, entries: Entries) -> None:
    keeps_its_promises(entries, rule.mended, rule.violations, rule.safe_cuts)


def short(entries: Sequence[object]) -> list[str]:
    """A list of entries to read: `c1` a call, `c1!` its result, `c1?` one that says there is none."""
    found = []
    for entry in entries:
        match entry:
            case ToolCall():
                found.append(entry.call_id)
            case ToolResult():
                found.append(entry.call_id + ("?" if entry.synthetic else "!"))
            case User() | Assistant():
                found.append(entry.text or "-")
            case _:
                found.append(type(entry).__name__)
    return found


def user(text: str = "q", **more: Any) -> User:
    return User(content=text, **more)


def call(name: str, response: str = "", **more: Any) -> ToolCall:
    return ToolCall(call_id=name, name="t", response=response, **more)


def result(name: str, text: str = "ok", **more: Any) -> ToolResult:
    return ToolResult(call_id=name, content=text, **more)


def reply(text: str = "a", response: str = "", *, thought: str = "", **more: Any) -> Assistant:
    content: Content = text
    if thought:
        content = (Reasoning(text=thought, signature="sig"), *((Text(text=text),) if text else ()))
    return Assistant(content=content, response=response, **more)
