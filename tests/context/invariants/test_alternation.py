"""context/invariants/alternation.py: neighbours of one role are one message, with every part in it."""

from __future__ import annotations

from hypothesis import given

from context.invariants.soups import call, holds, reply, result, short, soups, user
from stratalog.context.invariants import Alternation, Entries
from stratalog.types import Assistant, Image, Text, User

RULE = Alternation()


@given(soups())
def test_any_list(entries: Entries) -> None:
    """The rule keeps its promises on any list."""
    holds(RULE, entries)


def test_neighbours_of_one_role_are_merged() -> None:
    """All parts stay, in order; the merged message is marked and names those it was made of."""
    picture = Image(url="https://x/y.png")
    given = (
        user("1", seq=1),
        User(content=(Text(text="2"), picture), seq=2, id="e2", turn="B"),
        user("", seq=3),
        reply("a", seq=4),
    )
    assert RULE.violations(given) == [
        "user message e2 follows another of its role",
        "user message 3 follows another of its role",
    ]
    merged, last = RULE.mended(given)
    assert isinstance(merged, User)
    assert merged.content == (Text(text="1"), Text(text="2"), picture)
    assert (merged.seq, merged.id, merged.meta) == (0, "", {"merged": [1, "e2", 3]})
    assert last is given[3]


def test_a_merged_reply_is_of_the_response_that_thought() -> None:
    """So that reasoning stays with its calls; without reasoning the last response counts."""
    (merged,) = RULE.mended((reply("", "r1", thought="hm"), reply("x", "r2")))
    assert isinstance(merged, Assistant)
    assert merged.response == "r1"
    (merged,) = RULE.mended((reply("x", "r1"), reply("y", "r2"), reply("z")))
    assert isinstance(merged, Assistant)
    assert merged.response == "r2"


def test_calls_and_results_are_no_messages() -> None:
    """What stands around a round of calls is not merged over it."""
    given = (user(), call("c"), result("c"), reply(), call("d"), result("d"), reply())
    assert RULE.violations(given) == []


def test_results_are_replied_to() -> None:
    """A marked reply stands between results and the user's next message."""
    given = (call("c"), result("c"), user("1", seq=3), user("2", seq=4))
    assert RULE.violations(given) == [
        "user message 4 follows another of its role",
        "user message 3 follows results that nobody replied to",
    ]
    mended = RULE.mended(given)
    assert short(mended) == ["c", "c!", "[no reply: the turn was interrupted]", "1\n\n2"]
    assert mended[2].meta
