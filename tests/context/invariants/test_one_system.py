"""context/invariants/one_system.py: the system's words stand beside the entries, never among them."""

from __future__ import annotations

from typing import Any

from hypothesis import given

from context.invariants.soups import holds, short, soups, user
from stratalog.context.invariants import Entries, OneSystem
from stratalog.types import Compaction, Note, System

RULE = OneSystem()


@given(soups(strangers=True))
def test_any_list(entries: Entries) -> None:
    """The rule keeps its promises on any list, with entries in it that no list may have."""
    holds(RULE, entries)


def test_what_is_no_conversation_is_left_out() -> None:
    """System messages, summaries and notes are named and left out; the rest stays in order."""
    given: Any = (System(content="s"), user("1"), Compaction(summary="c"), user("2"), Note(kind="n"))
    assert RULE.violations(given) == [
        f"{kind} stands among the entries that a model is sent" for kind in ("System", "Compaction", "Note")
    ]
    assert short(RULE.mended(given)) == ["1", "2"]
