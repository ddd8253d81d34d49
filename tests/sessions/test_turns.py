"""sessions/turns.py: which turns are not finished is a fold over the log."""

from __future__ import annotations

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from stratalog.sessions.meta import RESTART
from stratalog.sessions.turns import TurnBook
from stratalog.types import AnyEntry, Assistant, Note, TurnEnd, TurnStart, User


def book(*entries: AnyEntry) -> TurnBook:
    made = TurnBook()
    for seq, entry in enumerate(entries, 1):
        made.advance(msgspec.structs.replace(entry, seq=seq))
    return made


def test_a_message_waits_until_it_is_started_and_is_open_until_it_ends() -> None:
    """Queued, then started with its holder's fence, then gone."""
    said, start = User(content="a", turn="A"), TurnStart(turn="A", fence=7)
    assert [turn.turn for turn in book(said).queued] == ["A"]
    started = book(said, start)
    assert ([turn.fence for turn in started.started], started.queued) == ([7], [])
    assert (
        book(said, start, Assistant(content="b", turn="A"), TurnEnd(turn="A", status="answered")).open == []
    )


def test_the_oldest_message_is_first() -> None:
    """Messages wait in the order in which they came, whatever ran meanwhile."""
    waiting = book(
        User(content="a", turn="A"),
        TurnStart(turn="A", fence=1),
        User(content="b", turn="B"),
        User(content="c", turn="C"),
        TurnEnd(turn="A", status="answered"),
    )
    assert [turn.message.content for turn in waiting.queued] == ["b", "c"]


def test_more_words_in_a_turn_open_none() -> None:
    """A second message of the user within a turn does not replace the one that opened it."""
    turns = book(User(content="a", turn="A"), User(content="more", turn="A"))
    assert [turn.message.content for turn in turns.open] == ["a"]


def test_what_belongs_to_no_turn_opens_none() -> None:
    """Messages without a turn, and starts and ends of unknown turns, change nothing."""
    assert (
        book(
            User(content="x"),
            TurnStart(turn="Z", fence=1),
            TurnStart(fence=2),
            TurnEnd(turn="Y", status="aborted"),
        ).open
        == []
    )


def test_an_entry_counts_once() -> None:
    """An entry that was seen does not open its turn again."""
    turns = book(User(content="a", turn="A"), TurnEnd(turn="A", status="answered"))
    turns.advance(User(content="a", turn="A", seq=1))
    assert turns.open == []


def test_a_restart_leaves_no_turn() -> None:
    """What waited before a restart waits no more, and what comes after it does."""
    turns = book(User(content="a", turn="A"), Note(kind=RESTART), User(content="b", turn="B"))
    assert [turn.turn for turn in turns.open] == ["B"]


@given(st.lists(st.tuples(st.sampled_from("usen"), st.sampled_from("ABC")), max_size=40))
def test_turns_are_open_exactly_between_message_and_end(steps: list[tuple[str, str]]) -> None:
    """For any history, a turn is open if its message came after its last end, and started if a start did."""
    entries: list[AnyEntry] = []
    opened: dict[str, int] = {}
    started: set[str] = set()
    for kind, turn in steps:
        if kind == "u":
            entries.append(User(content="x", turn=turn))
            opened.setdefault(turn, len(entries))
        elif kind == "s":
            entries.append(TurnStart(turn=turn, fence=len(entries) + 1))
            started |= {turn} & set(opened)
        elif kind == "e":
            entries.append(TurnEnd(turn=turn, status="answered"))
            opened.pop(turn, None)
            started.discard(turn)
        else:
            entries.append(Assistant(content="x", turn=turn))
    turns = book(*entries)
    assert [turn.turn for turn in turns.open] == sorted(opened, key=lambda name: opened[name])
    assert {turn.turn for turn in turns.started} == started
