"""context/invariants/pair_safety.py: a call is answered by exactly its result, right after its round."""

from __future__ import annotations

import time

import pytest
from hypothesis import given

from context.invariants.soups import call, holds, reply, result, short, soups, user
from stratalog.context.invariants import NO_RESULT, Entries, PairSafety
from stratalog.types import ToolResult

RULE = PairSafety()


@given(soups())
def test_any_list(entries: Entries) -> None:
    """The rule keeps its promises on any list."""
    holds(RULE, entries)


def test_a_call_without_a_result_gets_one_that_says_so() -> None:
    """It is marked synthetic and an error, belongs to the call's turn and has no place in the log."""
    given = (user(), call("c", turn="A", ts=5), user("next"))
    assert RULE.violations(given) == ["call 'c' has no result right after its round"]
    mended = RULE.mended(given)
    assert short(mended) == ["q", "c", "c?", "next"]
    assert mended[2] == ToolResult(
        call_id="c", name="t", content=NO_RESULT, error=True, synthetic=True, turn="A", ts=5
    )


def test_an_orphan_result_is_left_out() -> None:
    """A result whose call is gone is named and not shown."""
    given = (user(), result("c"), reply())
    assert RULE.violations(given) == ["result of 'c' answers no call of the round before it"]
    assert short(RULE.mended(given)) == ["q", "a"]


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("c c c! c! c", "c c!"),  # logged twice: a call that nothing answers, with an id that was used
        ("c c! c c!", "c c! c c!"),  # an id used again in its turn, answered again, is another call
        ("c c! c! q", "c c! q"),  # of two results the first counts
        ("c! c", "c c!"),  # a result that was logged too early
        ("c d d! c!", "c d c! d!"),  # results follow in the order of the calls
        ("c d d!", "c d c? d!"),  # each call has its own
        ("c q c!", "c c! q"),  # the user spoke while the tool ran
        ("c a c!", "c c! a"),
        ("c q c q c!", "c c? q c c! q"),  # a late result is the last waiting call's
        ("c c! d d!", "c c! d d!"),
        ("c c! d", "c c! d d?"),
    ],
)
def test_pairs(given: str, shown: str) -> None:
    """The table of what is shown for what was logged: `c` a call, `c!` its result, `c?` a marked one."""

    made = {"q": user(), "a": reply(), "c": call("c"), "d": call("d"), "c!": result("c"), "d!": result("d")}
    assert short(RULE.mended(tuple(made[word] for word in given.split()))) == shown.split()


def test_an_id_used_in_every_turn_is_paired_within_its_turn() -> None:
    """A result of its own turn is taken before one of another."""
    given = (
        call("c", turn="A"),
        call("c", turn="B"),
        result("c", "of B", turn="B"),
        result("c", "of A", turn="A"),
    )
    assert [entry.text for entry in RULE.mended(given) if isinstance(entry, ToolResult)] == ["of A", "of B"]


def test_a_late_result_follows_its_call_in_the_log() -> None:
    """The turn that has the result may stand before that of the call, which was begun later."""
    given = (result("c", turn="A", seq=3), user(seq=1), call("c", seq=2))
    assert short(RULE.mended(given)) == ["q", "c", "c!"]
    given = (result("c", turn="A", seq=1), user(seq=2), call("c", seq=3))
    assert short(RULE.mended(given)) == ["q", "c", "c?"]


def test_the_same_id_in_another_response_is_another_call() -> None:
    """A call that nothing answers is kept when it says that it is of another response."""
    given = (call("c", "r1"), result("c"), call("c", "r2"), call("c", "r2"))
    assert short(RULE.mended(given)) == ["c", "c!", "c", "c?"]


def test_calls_of_two_responses_are_two_rounds() -> None:
    """Each round has its results before the next begins, though the calls stood side by side."""
    given = (call("c1", "r1"), call("c2", "r2"), result("c1"), result("c2"))
    assert RULE.violations(given)
    assert short(RULE.mended(given)) == ["c1", "c1!", "c2", "c2!"]


def test_the_words_of_a_response_stand_before_its_calls() -> None:
    """Words logged between a call and its result do not part them."""
    given = (call("c", "r"), reply("look", "r"), result("c"), reply("done"))
    assert short(RULE.mended(given)) == ["look", "c", "c!", "done"]


def test_no_cut_parts_a_call_from_its_result() -> None:
    """Not even from one that is yet to be moved to it, nor from one that is yet to be made."""
    assert RULE.safe_cuts((user(), call("c"), user(), result("c"), user())) == {0, 1, 4, 5}
    assert RULE.safe_cuts((user(), call("c"), user())) == {0, 1, 3}


def test_many_calls_take_linear_time() -> None:
    """Ten times as many calls take about ten times as long, with ids that are all the same too."""

    def seconds(count: int) -> float:
        entries: Entries = tuple(
            entry
            for number in range(count)
            for entry in (call(f"c{number}"), user(), call("c"), result("c"), result(f"c{number}"))
        )
        best = float("inf")
        for _ in range(3):
            start = time.process_time()
            assert RULE.violations(RULE.mended(entries)) == []
            RULE.safe_cuts(entries)
            best = min(best, time.process_time() - start)
        return best

    assert seconds(4_000) < 40 * max(seconds(400), 0.0005)
