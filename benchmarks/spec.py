"""What a benchmark is: systems that do the same work, and the rows that compare them. Nothing here runs.

A system opens in a `Lab` and gives a block: a function that does some operations and returns what each cost,
in seconds (or in bytes, where a row says so). The runner calls the blocks of all systems in turn, in a random
order each round, so that what the machine does meanwhile falls on all alike.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Literal, NamedTuple, TypeVar

from lab import Lab

Block = Callable[[], Sequence[float]]
Opener = Callable[[Lab], AbstractContextManager[Block]]
Unit = Literal["s", "B"]
Size = Literal["full", "quick", "tiny"]
_T = TypeVar("_T")


def pick(size: Size, full: _T, quick: _T, tiny: _T) -> _T:
    """The one that belongs to this size of a run."""
    return {"full": full, "quick": quick, "tiny": tiny}[size]


class System(NamedTuple):
    """One way to do the work. `peer` says that it needs the peers' environment."""

    name: str
    open: Opener
    peer: bool = False


class Goal(NamedTuple):
    """What a row's figure should be: at most, or at least, `bound` (in the row's unit, or a ratio)."""

    kind: Literal["at most", "at least", "under"]
    bound: float

    def met(self, figure: float) -> bool:
        match self.kind:
            case "at most":
                return figure <= self.bound
            case "at least":
                return figure >= self.bound
            case "under":
                return figure < self.bound


class Row(NamedTuple):
    """One line of the table.

    `ratio` divides what `subject` took by what `beside` took in the same round; `share` is the inverse, the
    speed of `subject` as a part of that of `beside`; `excess` subtracts; `cost` is of `subject` alone.
    """

    what: str
    subject: str
    beside: str = ""
    how: Literal["ratio", "share", "excess", "cost"] = "ratio"
    goal: Goal | None = None
    unit: Unit = "s"


class Spec(NamedTuple):
    """A benchmark: `rounds` after one that does not count, `where` it works, what a reader should know."""

    name: str
    title: str
    where: str
    rounds: int
    systems: tuple[System, ...]
    rows: tuple[Row, ...]
    note: str = ""
