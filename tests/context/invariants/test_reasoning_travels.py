"""context/invariants/reasoning_travels.py: reasoning stays with its response and is never split."""

from __future__ import annotations

from hypothesis import given

from context.invariants.soups import call, holds, reply, result, short, soups, user
from stratalog.context.invariants import Entries, ReasoningTravels, mend, safe_cuts
from stratalog.types import Assistant, Reasoning

RULE = ReasoningTravels()


@given(soups())
def test_any_list(entries: Entries) -> None:
    """The rule keeps its promises on any list."""
    holds(RULE, entries)


@given(soups())
def test_reasoning_is_kept_whole_by_all_rules_together(entries: Entries) -> None:
    """Mending by every rule keeps each piece of reasoning, in its order, unchanged."""

    def thoughts(listed: Entries) -> list[Reasoning]:
        return [
            part
            for entry in listed
            if isinstance(entry, Assistant) and not isinstance(entry.content, str)
            for part in entry.content
            if isinstance(part, Reasoning)
        ]

    assert sorted(map(repr, thoughts(mend(entries)))) == sorted(map(repr, thoughts(entries)))


def test_a_response_is_gathered_where_it_began() -> None:
    """Reasoning and words come first, then the calls, with nothing between."""
    given = (
        user(),
        reply("", "r", thought="hm"),
        user("hurry"),
        call("c1", "r"),
        reply("look", "r"),
        call("c2", "r"),
    )
    assert RULE.violations(given) == ["the reasoning of response 'r' is parted from the rest of it"]
    assert short(RULE.mended(given)) == ["q", "-", "look", "c1", "c2", "hurry"]


def test_a_response_without_reasoning_may_stand_apart() -> None:
    """Words that hold no reasoning stay where they were said."""
    assert RULE.violations((reply("x", "r"), user(), reply("y", "r"))) == []


def test_no_cut_within_a_response_that_holds_reasoning() -> None:
    """Nor between reasoning that does not say its response and what comes right after it."""
    given = (reply("", "r", thought="hm"), reply("x", "r"), user(), reply("", thought="hm"), reply("y"))
    assert RULE.safe_cuts(given) == {0, 2, 3, 5}


def test_reasoning_is_not_cut_from_its_calls_and_their_results() -> None:
    """By all rules together a round with its reasoning is on one side of a cut."""
    given = (user(), reply("", "r", thought="hm"), call("c1", "r"), result("c1"), user())
    assert safe_cuts(given) == {0, 4, 5}
