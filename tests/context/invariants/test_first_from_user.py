"""context/invariants/first_from_user.py: the first message is the user's."""

from __future__ import annotations

from hypothesis import given

from context.invariants.soups import call, holds, reply, result, soups, user
from stratalog.context.invariants import OPENING, Entries, FirstFromUser

RULE = FirstFromUser()


@given(soups(strangers=True))
def test_any_list(entries: Entries) -> None:
    """The rule keeps its promises on any list."""
    holds(RULE, entries)


def test_a_marked_message_opens_what_the_assistant_would_open() -> None:
    """It says that what was before is summarised, and is marked synthetic."""
    given = (reply("hi", id="e1"), user())
    assert RULE.violations(given) == ["the first message is not the user's but assistant message e1"]
    assert RULE.mended(given) == (OPENING, *given)
    assert OPENING.meta
    assert OPENING.seq == 0


def test_an_empty_list_is_left_empty() -> None:
    """Nothing is invented where nothing was said."""
    assert RULE.mended(()) == ()
    assert RULE.safe_cuts(()) == {0}


def test_a_cut_is_safe_before_the_user() -> None:
    """Anywhere else the second half would be opened by another."""
    given = (user(), call("c"), result("c"), user(), reply())
    assert RULE.safe_cuts(given) == {0, 3, 5}
