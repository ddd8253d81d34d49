"""Records that point at their parents, unravelled into lines.

A transcript with rewinds is a tree; a log is a line. The main line is the chain from the chosen leaf to the
root, and what hangs off it becomes lines of their own, each from the place where it leaves the other, until
every record is in exactly one line. Records keep the order they were given in. Parents that run in a circle
end the walk, they do not hang it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple


class Line(NamedTuple):
    """`members` are positions in ascending order; `fork` is the position it leaves from, None for none."""

    members: list[int]
    fork: int | None


def unravel(
    parents: Sequence[int | None],
    leaf: Callable[[Sequence[int]], int],
    joins: Callable[[int, set[int]], bool] = lambda position, line: False,
) -> list[Line]:
    """All lines of the tree, the main line first.

    `leaf` chooses the end of the main line among positions in ascending order. `joins` says whether a
    position beside a line belongs in it all the same, such as the result of the second of two parallel
    calls.
    """
    found: list[Line] = []
    todo: list[tuple[Sequence[int], int | None]] = [(range(len(parents)), None)] if parents else []
    while todo:
        members, fork = todo.pop(0)
        line = _chain(parents, leaf(members), set(members))
        rest = _join([position for position in members if position not in line], line, joins)
        found.append(Line(sorted(line), fork))
        todo += [(group, parents[root]) for root, group in _families(parents, rest).items()]
    return found


def _chain(parents: Sequence[int | None], leaf: int, within: set[int]) -> set[int]:
    chain: set[int] = set()
    at: int | None = leaf
    while at is not None and at in within and at not in chain:
        chain.add(at)
        at = parents[at]
    return chain


def _join(rest: list[int], line: set[int], joins: Callable[[int, set[int]], bool]) -> list[int]:
    """Adds to `line` what joins it, until nothing does; returns the others."""
    while True:
        others: list[int] = []
        for position in rest:
            if joins(position, line):
                line.add(position)
            else:
                others.append(position)
        if len(others) == len(rest):
            return others
        rest = others


def _families(parents: Sequence[int | None], rest: list[int]) -> dict[int, list[int]]:
    """The connected parts of `rest`, by the member at the top (the earliest, in a circle)."""
    inside, top = set(rest), dict[int, int]()
    families: dict[int, list[int]] = {}
    for position in rest:
        path: dict[int, None] = {}
        at = position
        while at not in top:
            path[at] = None
            up = parents[at]
            if up is None or up not in inside:
                top[at] = at
            elif up in path:
                around = list(path)
                top[at] = min(around[around.index(up) :])
            else:
                at = up
        top.update(dict.fromkeys(path, top[at]))
        families.setdefault(top[position], []).append(position)
    return families
