"""context/view.py: what a model sees of a log is a pure fold, mended where the log is not whole."""

from __future__ import annotations

import time

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from context.histories import histories, well_formed
from stratalog.context.view import View, split_rounds, standing, starts_at, view, withdrawal
from stratalog.errors import InvalidInput
from stratalog.types import (
    AnyEntry,
    Assistant,
    Compaction,
    Note,
    Reasoning,
    System,
    ToolCall,
    ToolResult,
    TurnEnd,
    TurnStart,
    User,
)


def stamped(*entries: AnyEntry) -> list[AnyEntry]:
    return [
        msgspec.structs.replace(entry, seq=seq, id=entry.id or f"e{seq}")
        for seq, entry in enumerate(entries, 1)
    ]


def shown(seen: View) -> list[str]:
    """The view's entries in short: the text of a message, `call id`, `id: result`."""
    found = []
    for turn in seen.turns:
        for entry in turn.entries:
            match entry:
                case ToolCall():
                    found.append(f"call {entry.call_id}")
                case ToolResult():
                    found.append(f"{entry.call_id}: {'?' if entry.synthetic else entry.text}")
                case _:
                    found.append(entry.text)
    return found


def call(name: str, turn: str = "A", response: str = "") -> ToolCall:
    return ToolCall(call_id=name, name="t", turn=turn, response=response)


def result(name: str, text: str = "ok", turn: str = "A") -> ToolResult:
    return ToolResult(call_id=name, content=text, turn=turn)


@given(histories())
def test_any_history_gives_a_well_formed_view(entries: list[AnyEntry]) -> None:
    """Calls and results are paired, nothing is invented, nothing shown twice, for any order of anything."""
    well_formed(view(entries), entries)


@given(histories())
def test_every_message_is_seen(entries: list[AnyEntry]) -> None:
    """Without a compaction each message of the user and each reply that has words is in the view, but for
    those that a later note withdraws."""
    entries = [entry for entry in entries if not isinstance(entry, Compaction)]
    seen = [
        entry.seq
        for turn in view(entries).turns
        for entry in turn.entries
        if isinstance(entry, User | Assistant)
    ]
    assert sorted(seen) == [
        entry.seq
        for entry in standing(entries)
        if isinstance(entry, User) or (isinstance(entry, Assistant) and entry.content)
    ]


@given(histories())
def test_the_view_of_a_view_is_the_view(entries: list[AnyEntry]) -> None:
    """Folding is idempotent: a turn as it is shown, folded again, is shown the same.

    A late result that belongs to no turn, or to another, is by then of the turn in which it is shown.
    """
    once = view(entries)
    assert view(entries) == once
    for turn in once.turns:
        shown = [msgspec.structs.replace(entry, turn=turn.turn) for entry in turn.entries]
        again = [entry for each in view(shown).turns for entry in each.entries]
        assert again == shown


@given(histories())
def test_reading_back_from_the_end_is_enough(entries: list[AnyEntry]) -> None:
    """A view of the entries that `starts_at` says are needed is the view of all, the system's words aside."""
    needed = starts_at(reversed(entries))
    assert needed == entries[len(entries) - len(needed) :]
    whole, part = view(entries), view(needed)
    assert (part.summary, part.turns) == (whole.summary, whole.turns)
    before = [entry for entry in standing(entries)[: len(entries) - len(needed)] if isinstance(entry, System)]
    assert view([*before, *needed]) == whole


@given(histories(), st.data())
def test_raw_entries_are_untouched(entries: list[AnyEntry], data: st.DataObject) -> None:
    """A view changes none of the entries it was given."""
    copies = [msgspec.structs.replace(entry) for entry in entries]
    view(entries)
    assert entries == copies


# --- pairs ---


def test_a_call_without_a_result_gets_one_that_says_so() -> None:
    """An interrupted call is answered by a result marked synthetic and an error, for the view alone."""
    seen = view(stamped(User(content="q", turn="A"), call("c"), TurnEnd(turn="A", status="interrupted")))
    assert shown(seen) == ["q", "call c", "c: ?"]
    made = seen.turns[0].entries[2]
    assert isinstance(made, ToolResult)
    assert (made.synthetic, made.error, made.seq, made.turn) == (True, True, 0, "A")


def test_an_orphan_result_is_left_out() -> None:
    """A result whose call is gone is not shown."""
    assert shown(
        view(stamped(User(content="q", turn="A"), result("c"), Assistant(content="a", turn="A")))
    ) == ["q", "a"]


def test_duplicates_are_shown_once() -> None:
    """What was stored twice, as after a resumption, is shown once; of two results the first counts."""
    entries = stamped(
        User(content="q", turn="A"), call("c"), call("c"), result("c", "1"), result("c", "2"), call("c")
    )
    assert shown(view(entries)) == ["q", "call c", "c: 1"]


def test_parallel_calls_stand_together() -> None:
    """Calls of one response come first, then their results in the order of the calls."""
    entries = stamped(
        User(content="q", turn="A"),
        call("c1"),
        call("c2"),
        result("c2", "2"),
        result("c1", "1"),
        call("c3"),
        result("c3", "3"),
    )
    assert shown(view(entries)) == ["q", "call c1", "call c2", "c1: 1", "c2: 2", "call c3", "c3: 3"]


def test_calls_of_one_response_that_were_answered_one_by_one() -> None:
    """Calls that say that they are of one response stay together though results came between them."""
    entries = stamped(
        call("c1", response="r"), result("c1", "1"), call("c2", response="r"), result("c2", "2")
    )
    assert shown(view(entries)) == ["call c1", "call c2", "c1: 1", "c2: 2"]


def test_the_words_of_a_response_do_not_part_its_calls_from_their_results() -> None:
    """Words that were logged after the calls of the same response are shown before them."""
    entries = stamped(
        User(content="q", turn="A"),
        call("c", response="r"),
        Assistant(content="let me look", response="r", turn="A"),
        result("c"),
        Assistant(content="done", turn="A"),
    )
    assert shown(view(entries)) == ["q", "let me look", "call c", "c: ok", "done"]


def test_a_result_that_came_late_still_answers_its_call() -> None:
    """When the user spoke while a tool ran, the result is shown with its call, and only there."""
    entries = stamped(
        User(content="q"), call("c", ""), User(content="hurry"), result("c", turn=""), Assistant(content="a")
    )
    assert shown(view(entries)) == ["q", "call c", "c: ok", "hurry", "a"]


def test_an_id_used_in_every_turn_is_paired_within_its_turn() -> None:
    """Models that call everything `c` in each turn get each turn's own result."""
    entries: list[AnyEntry] = []
    for turn in ("A", "B"):
        entries += [User(content=turn, turn=turn), call("c", turn), result("c", f"of {turn}", turn)]
    assert shown(view(stamped(*entries))) == ["A", "call c", "c: of A", "B", "call c", "c: of B"]


# --- the order of turns ---


def test_turns_stand_in_the_order_in_which_they_were_started() -> None:
    """A message that waited comes after the turn that ran before it; what still waits is last."""
    entries = stamped(
        User(content="a", turn="A"),
        TurnStart(turn="A"),
        User(content="b", turn="B"),
        User(content="c", turn="C"),
        Assistant(content="ra", turn="A"),
        TurnEnd(turn="A", status="answered"),
        TurnStart(turn="C"),
        Assistant(content="rc", turn="C"),
    )
    seen = view(entries)
    assert shown(seen) == ["a", "ra", "c", "rc", "b"]
    assert [turn.waiting for turn in seen.turns] == [False, False, True]


def test_a_message_that_was_given_up_stands_where_it_was() -> None:
    """A message that is closed without an answer does not move back before what was said meanwhile."""
    entries = stamped(
        User(content="a", turn="A"),
        User(content="b", turn="B"),
        TurnStart(turn="B"),
        Assistant(content="rb", turn="B"),
        TurnEnd(turn="A", status="interrupted"),
    )
    assert shown(view(entries)) == ["b", "rb", "a"]
    assert shown(view(entries[:-1])) == ["b", "rb", "a"]


def test_what_was_withdrawn_is_not_seen() -> None:
    """A message, a reply or the system's words that a later note names are not shown; an earlier note names
    nothing, and a call whose result is withdrawn says that it has none."""
    said = stamped(
        System(content="s"),
        User(content="1"),
        ToolCall(call_id="c", name="t"),
        ToolResult(call_id="c", content="r"),
        Assistant(content="2"),
        User(content="3"),
    )
    note = msgspec.structs.replace(withdrawal(said[:2] + said[3:5]), seq=7, id="e7")
    assert note.data == {"entries": ["e1", "e2", "e4", "e5"], "system": ["e1"]}
    seen = view([*said, note])
    assert shown(seen) == ["call c", "c: ?", "3"]
    assert seen.system == ()
    assert shown(view([note, *said])) == ["1", "call c", "c: r", "2", "3"]
    with pytest.raises(InvalidInput):
        withdrawal([User(content="not in a log")])
    with pytest.raises(InvalidInput):
        withdrawal([note])


def test_a_message_that_waited_and_was_withdrawn_waits_no_more() -> None:
    """Its turn is not in the view, and what belongs to no turn goes on as it was."""
    said = stamped(User(content="1"), User(content="w", turn="W"), Assistant(content="2"))
    seen = view([*said, msgspec.structs.replace(withdrawal(said[1:2]), seq=4, id="e4")])
    assert [(turn.turn, turn.waiting) for turn in seen.turns] == [("", False)]
    assert shown(seen) == ["1", "2"]


def test_a_round_parts_no_response() -> None:
    """Reasoning that was logged apart is in the round of what it led to."""
    said = stamped(
        User(content="q"),
        Assistant(content=(Reasoning(signature="s"),), response="r1"),
        ToolCall(call_id="c", name="t", response="r1"),
        ToolResult(call_id="c", content="r"),
        Assistant(content=(Reasoning(signature="s"),), response="r2"),
        Assistant(content="a", response="r2"),
        Assistant(content="b"),
    )
    rounds = split_rounds(said)[1]
    assert [[entry.id for entry in each] for each in rounds] == [["e2", "e3", "e4"], ["e5", "e6"], ["e7"]]


def test_entries_without_a_turn_are_grouped_by_the_users_messages() -> None:
    """Plain messages form turns of their own, each begun by the user."""
    seen = view(
        stamped(Assistant(content="hi"), User(content="1"), Assistant(content="2"), User(content="3"))
    )
    assert [
        [entry.text for entry in turn.entries] for turn in seen.turns if not isinstance(turn, ToolCall)
    ] == [  # type: ignore[union-attr] # messages only
        ["hi"],
        ["1", "2"],
        ["3"],
    ]
    assert all(turn.turn == "" for turn in seen.turns)


# --- compactions ---


def test_the_last_compaction_stands_for_what_it_covers() -> None:
    """Earlier compactions are part of what the last one covers; what it kept is whole."""
    entries = stamped(
        User(content="1"),
        Compaction(summary="one", first_kept="e1"),
        User(content="3"),
        User(content="4"),
        Compaction(summary="all", first_kept="e4"),
        User(content="6"),
    )
    seen = view(entries)
    assert seen.summary is not None
    assert seen.summary.summary == "all"
    assert shown(seen) == ["4", "6"]


def test_a_compaction_that_keeps_nothing() -> None:
    """With nothing kept before it, the view begins after it."""
    seen = view(stamped(User(content="1"), Compaction(summary="s"), User(content="3")))
    assert shown(seen) == ["3"]


def test_a_second_cut_that_parts_a_pair_is_mended() -> None:
    """When a cut falls between a call and its result, the result is not shown without its call."""
    entries = stamped(
        User(content="q", turn="A"),
        call("c1"),
        Compaction(summary="s1", first_kept="e1"),
        result("c1"),
        call("c2"),
        Compaction(summary="s2", first_kept="e4"),
        result("c2"),
        Assistant(content="a", turn="A"),
    )
    assert shown(view(entries)) == ["call c2", "c2: ok", "a"]
    assert shown(view(starts_at(reversed(entries)))) == ["call c2", "c2: ok", "a"]


def test_the_summary_does_not_depend_on_how_much_follows() -> None:
    """However many entries follow a compaction, its summary stays."""
    entries = stamped(
        User(content="1"), Compaction(summary="s"), *(User(content=str(number)) for number in range(300))
    )
    seen = view(starts_at(reversed(entries)))
    assert seen.summary is not None
    assert len(seen.turns) == 300


def test_a_compaction_that_names_no_entry_hides_nothing() -> None:
    """A first entry kept that is not in the log leaves everything in view."""
    entries = stamped(User(content="1"), Compaction(summary="s", first_kept="nowhere"), User(content="3"))
    assert shown(view(entries)) == ["1", "3"]
    assert starts_at(reversed(entries)) == entries


def test_what_the_system_said_stays() -> None:
    """System messages are in the view's system part in order, and notes are in none."""
    seen = view(
        stamped(
            System(content="s1"),
            User(content="q"),
            Note(kind="x"),
            System(content="s2"),
            Compaction(summary="s"),
        )
    )
    assert [entry.content for entry in seen.system] == ["s1", "s2"]


def test_a_turn_of_many_calls_takes_linear_time() -> None:
    """Ten times as many calls in one turn take about ten times as long, not a hundred times."""

    def seconds(count: int) -> float:
        entries: list[AnyEntry] = [User(content="q", turn="A")]
        for number in range(count):
            entries += [call(f"c{number}"), result(f"c{number}")]
        entries = stamped(*entries)
        best = float("inf")
        for _ in range(3):
            start = time.process_time()
            view(entries)
            best = min(best, time.process_time() - start)
        return best

    assert seconds(5_000) < 40 * max(seconds(500), 0.0005)
