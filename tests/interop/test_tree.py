"""A tree of records becomes lines, and every record is in one."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from stratalog.interop.tree import Line, unravel


def test_fork() -> None:
    """The main line ends at the chosen leaf; the other branch leaves from where they part."""
    parents = [None, 0, 1, 2, 1, 4]
    assert unravel(parents, lambda members: members[-1]) == [
        Line([0, 1, 4, 5], None),
        Line([2, 3], 1),
    ]


def test_fork_in_a_branch() -> None:
    """A branch that forks itself gives a line more."""
    parents = [None, 0, 1, 1, 0]
    assert unravel(parents, lambda members: members[-1]) == [
        Line([0, 4], None),
        Line([1, 3], 0),
        Line([2], 1),
    ]


def test_joins() -> None:
    """What belongs to a line without being on its chain is put into it, however many steps it takes."""
    parents = [None, 0, 1, 1, 2]
    lines = unravel(parents, lambda members: 3, lambda position, line: parents[position] in line)
    assert lines == [Line([0, 1, 2, 3, 4], None)]


def test_nothing() -> None:
    """No records give no line."""
    assert unravel([], lambda members: members[-1]) == []


@given(st.lists(st.none() | st.integers(0, 11), max_size=12))
def test_every_record_once(given_parents: list[int | None]) -> None:
    """Whatever the parents are, circles and forward links among them, each record is in one line."""
    parents = [up if up is None or up < len(given_parents) else None for up in given_parents]
    lines = unravel(parents, lambda members: members[-1])
    assert sorted(member for line in lines for member in line.members) == list(range(len(parents)))
    assert all(line.members == sorted(line.members) for line in lines)
