"""context/folding.py: a view that grows with its log is the view of all of it, at every step."""

from __future__ import annotations

from unittest.mock import patch

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from context.histories import histories
from stratalog.context import folding
from stratalog.context.folding import Folding
from stratalog.context.view import starts_at, view
from stratalog.types import AnyEntry, Assistant, Compaction, ToolCall, ToolResult, TurnEnd, TurnStart, User


def turn_of(number: int, seq: int) -> list[AnyEntry]:
    name = f"T{number}"
    entries: list[AnyEntry] = [
        User(content="q", turn=name),
        TurnStart(turn=name),
        ToolCall(call_id=f"c{number}", name="t", turn=name),
        ToolResult(call_id=f"c{number}", content="r", turn=name),
        Assistant(content="a", turn=name),
        TurnEnd(turn=name, status="answered"),
    ]
    return [
        msgspec.structs.replace(entry, seq=seq + at, id=f"e{seq + at}") for at, entry in enumerate(entries)
    ]


@pytest.fixture(autouse=True)
def _settles_at_once():
    """Settles after two entries, so that short histories do."""
    with patch.object(folding, "_STEP", 2):
        yield


@given(histories(most=40), st.sets(st.integers(0, 40)))
def test_it_is_the_view_of_all_at_every_step(entries: list[AnyEntry], looks: set[int]) -> None:
    """Whatever is said in whatever order, and whenever it is looked at."""
    growing = Folding()
    for at, entry in enumerate(entries):
        if not growing.add(entry):
            growing = Folding(starts_at(reversed(entries[: at + 1])))
        if at in looks:
            assert growing.view() == view(starts_at(reversed(entries[: at + 1])))
    assert growing.view() == view(starts_at(reversed(entries)))


@given(st.lists(st.integers(0, 3), max_size=12), histories(most=8))
def test_turns_then_anything(counts: list[int], after: list[AnyEntry]) -> None:
    """Turns that end settle; what follows, whatever it is, is seen as it would be in all."""
    growing, entries = Folding(), list[AnyEntry]()
    for count in counts:
        for _ in range(count):
            entries += turn_of(len(entries), len(entries) + 1)
        for entry in entries:
            growing.add(entry)
        assert growing.view() == view(entries)
    for each in after:
        entry = msgspec.structs.replace(each, seq=len(entries) + 1, id=f"e{len(entries) + 1}")
        entries.append(entry)
        if not growing.add(entry):
            growing = Folding(starts_at(reversed(entries)))
        assert growing.view() == view(starts_at(reversed(entries)))


def test_a_late_result_for_a_settled_call() -> None:
    """A result without a turn that answers a call of a settled turn is shown with its call."""
    growing = Folding()
    entries = turn_of(1, 1)
    del entries[3]
    entries += turn_of(2, 7)
    for entry in entries:
        growing.add(entry)
    before = growing.view()
    assert isinstance(before.turns[0].entries[2], ToolResult)
    assert before.turns[0].entries[2].synthetic
    late = ToolResult(seq=20, id="late", call_id="c1", content="at last")
    growing.add(late)
    assert growing.view().turns[0].entries[2] is late


def test_what_is_settled_is_not_folded_again() -> None:
    """The turns of the earlier view are the same objects in the later one."""
    growing = Folding(turn_of(1, 1))
    first = growing.view()
    for entry in turn_of(2, 7):
        growing.add(entry)
    second = growing.view()
    assert len(second.turns) == 2
    assert second.turns[0] is first.turns[0]


def test_a_compaction_that_shows_again_what_was_folded() -> None:
    """Then it says that it does not know enough, rather than to show less."""
    first, second = turn_of(1, 1), turn_of(2, 7)
    growing = Folding(first)
    assert growing.add(Compaction(seq=7, id="one", summary="s"))
    assert growing.add(msgspec.structs.replace(second[0], seq=8, id="e8"))
    assert not growing.add(Compaction(seq=9, id="two", summary="s", first_kept="e1"))
