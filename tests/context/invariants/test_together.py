"""context/invariants: the rules together, in their order."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import pytest
from hypothesis import given

from context.invariants.soups import call, keeps_its_promises, reply, result, short, soups, user
from stratalog.context.invariants import (
    ALL,
    EVERYWHERE,
    WITHIN,
    Entries,
    Invariant,
    mend,
    safe_cuts,
    violations,
)


@pytest.mark.parametrize("rules", [WITHIN, EVERYWHERE, ALL], ids=["within", "everywhere", "all"])
@given(entries=soups(strangers=True))
def test_any_list(rules: Sequence[Invariant], entries: Entries) -> None:
    """Whatever the entries: mended once by all rules, none is broken, and no safe cut breaks one."""
    keeps_its_promises(
        entries, partial(mend, rules=rules), partial(violations, rules=rules), partial(safe_cuts, rules=rules)
    )


@given(soups())
def test_what_is_mended_stays_mended_after_a_cut(entries: Entries) -> None:
    """Both halves of a mended list at a safe cut need no mending, and make the whole again."""
    whole = mend(entries)
    for cut in safe_cuts(whole):
        assert mend(whole[:cut]) + mend(whole[cut:]) == whole


def test_the_rules_have_names_of_their_own() -> None:
    """A violation names the rule that it breaks."""
    assert len({rule.name for rule in ALL}) == len(ALL) == 6
    assert violations((result("c"),)) == [
        "pair_safety: result of 'c' answers no call of the round before it",
        "first_from_user: the first message is not the user's but result of 'c'",
    ]


def test_a_whole_history_is_mended() -> None:
    """Reasoning, parallel calls, a late result, an orphan and an assistant that opens, all at once."""
    given = (
        result("gone"),
        reply("", "r1", thought="hm"),
        call("c1", "r1"),
        user("hurry"),
        result("c1"),
        call("c2", "r1"),
        reply("done", "r2"),
    )
    assert short(mend(given)) == [
        "[The conversation before this point is summarised. It goes on here.]",
        "-",
        "c1",
        "c2",
        "c1!",
        "c2?",
        "hurry",
        "done",
    ]
