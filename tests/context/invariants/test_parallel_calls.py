"""context/invariants/parallel_calls.py: the calls of one response stand together."""

from __future__ import annotations

from hypothesis import given

from context.invariants.soups import call, holds, reply, result, short, soups, user
from stratalog.context.invariants import Entries, ParallelCalls

RULE = ParallelCalls()


@given(soups())
def test_any_list(entries: Entries) -> None:
    """The rule keeps its promises on any list."""
    holds(RULE, entries)


def test_calls_of_one_response_are_put_together() -> None:
    """A later call of a response is moved up to its first, over results and over the user's words."""
    given = (user(), call("c1", "r"), result("c1"), user("hurry"), call("c2", "r"), result("c2"))
    assert RULE.violations(given) == ["call 'c2' is apart from the other calls of its response"]
    assert short(RULE.mended(given)) == ["q", "c1", "c2", "c1!", "hurry", "c2!"]


def test_calls_that_do_not_say_their_response_stay() -> None:
    """Nothing is known of calls without a response, so each stays where it is."""
    given = (call("c1"), result("c1"), call("c2"), result("c2"))
    assert RULE.violations(given) == []


def test_a_response_is_one_within_its_turn() -> None:
    """Two turns may use the same name for a response."""
    assert RULE.violations((call("c1", "r", turn="A"), user(), call("c2", "r", turn="B"))) == []


def test_no_cut_within_a_response() -> None:
    """Neither between its calls nor between its words and its calls, though something stands between."""
    given = (user(), reply("x", "r"), user("hurry"), call("c1", "r"), call("c2", "r"), user())
    assert RULE.safe_cuts(given) == {0, 1, 5, 6}


def test_no_cut_between_words_and_the_call_after_them() -> None:
    """Providers take both as one message, whatever the entries say of their response."""
    assert RULE.safe_cuts((user(), reply("x"), call("c1"))) == {0, 1, 3}
