"""The rules that every list of entries given to a model keeps, and what they make together.

Each rule is one small class in a file of its own, with `violations`, `mended` and `safe_cuts` (see
`contract.Invariant`). They are mended in the order of `ALL`: first what is no conversation is left out, then
the responses are put together, then calls are paired with results, then what is said about messages.

`EVERYWHERE` are the rules that all providers have, and the ones used unless others are named. `Alternation`
is not among them: it is for providers that demand it, and costs the cached prefix. A fold that shows a log
as it is, and a search for a place to cut within one long turn, use `WITHIN`: the rules about what belongs
together, without the one about how a conversation begins.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Final

from stratalog.context.invariants.alternation import Alternation
from stratalog.context.invariants.contract import Entries, Invariant, Seen
from stratalog.context.invariants.first_from_user import OPENING, FirstFromUser
from stratalog.context.invariants.one_system import OneSystem
from stratalog.context.invariants.pair_safety import NO_RESULT, PairSafety
from stratalog.context.invariants.parallel_calls import ParallelCalls
from stratalog.context.invariants.reasoning_travels import ReasoningTravels

WITHIN: Final[tuple[Invariant, ...]] = (OneSystem(), ParallelCalls(), ReasoningTravels(), PairSafety())
EVERYWHERE: Final[tuple[Invariant, ...]] = (*WITHIN, FirstFromUser())
ALL: Final[tuple[Invariant, ...]] = (*WITHIN, Alternation(), FirstFromUser())

__all__ = [
    "ALL",
    "EVERYWHERE",
    "NO_RESULT",
    "OPENING",
    "WITHIN",
    "Alternation",
    "Entries",
    "FirstFromUser",
    "Invariant",
    "OneSystem",
    "PairSafety",
    "ParallelCalls",
    "ReasoningTravels",
    "Seen",
    "mend",
    "safe_cuts",
    "violations",
]


def mend(entries: Entries, rules: Sequence[Invariant] = EVERYWHERE) -> Entries:
    """The entries with all the rules kept; the same tuple when they are. Mending twice is mending once."""
    for rule in rules:
        entries = rule.mended(entries)
    return entries


def violations(entries: Entries, rules: Sequence[Invariant] = EVERYWHERE) -> list[str]:
    """What breaks the rules, each named after its rule."""
    return [f"{rule.name}: {broken}" for rule in rules for broken in rule.violations(entries)]


def safe_cuts(entries: Entries, rules: Sequence[Invariant] = EVERYWHERE) -> frozenset[int]:
    """The places before which one may cut by all the rules; 0 and `len(entries)` are always among them."""
    cuts = (rule.safe_cuts(entries) for rule in rules)
    return reduce(frozenset.intersection, cuts, frozenset(range(len(entries) + 1)))
