"""context/shapes/calls.py: ids, names and arguments as a provider takes them."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stratalog.context.shapes.calls import (
    UNPARSED,
    CallIds,
    as_object,
    as_text,
    from_object,
    from_text,
    tool_name,
)


@given(st.lists(st.text(max_size=30), max_size=30), st.integers(20, 40))
def test_ids_are_safe_short_and_unique(names: list[str], longest: int) -> None:
    """Whatever the log has, each call gets an id of its own; and those of a longer list begin alike."""
    ids = CallIds(longest, safe=True, unique=True)
    given_ids = [ids.of_call(name) for name in names]
    assert len(set(given_ids)) == len(given_ids)
    assert all(re.fullmatch(f"[a-zA-Z0-9_-]{{1,{longest}}}", each) for each in given_ids)
    again = CallIds(longest, safe=True, unique=True)
    assert [again.of_call(name) for name in names[: len(names) // 2]] == given_ids[: len(names) // 2]


def test_ids_that_are_taken_stay() -> None:
    """An id is changed only where it would be refused; a result has that of the last call of its name."""
    ids = CallIds(40)
    assert [ids.of_call(name) for name in ("functions.add:0", "c", "c", "")] == [
        "functions.add:0",
        "c",
        "c",
        "call",
    ]
    unique = CallIds(40, unique=True)
    assert [unique.of_call("c"), unique.of_result("c")] == ["c", "c"]
    assert [unique.of_call("c"), unique.of_result("c"), unique.of_call("c_2")] == ["c_2", "c_2", "c_2_2"]
    assert unique.of_result("unknown") == "unknown"
    assert len({CallIds(20).of_call("x" * 30), CallIds(20).of_call("x" * 31)}) == 2


def test_names() -> None:
    """Characters that a provider refuses are replaced; a name is never empty."""
    assert [tool_name(name, 8) for name in ("add", "mcp.a/b", "", "much too long")] == [
        "add",
        "mcp_a_b",
        "tool",
        "much_too",
    ]


@pytest.mark.parametrize(
    ("args", "sent", "back"),
    [
        ({"a": 1}, {"a": 1}, {"a": 1}),
        ("{a", {UNPARSED: "{a"}, "{a"),
        ([1], {UNPARSED: [1]}, [1]),
        ("[1]", {UNPARSED: "[1]"}, "[1]"),
        ('{"a": 1}', {"a": 1}, {"a": 1}),
        (None, {}, {}),
        ("", {}, {}),
        (0, {UNPARSED: 0}, 0),
    ],
)
def test_arguments_as_an_object(args: Any, sent: Any, back: Any) -> None:
    """What is no object is put under a key, and taken from there on the way back."""
    assert as_object(args) == sent
    assert from_object(sent) == back


@pytest.mark.parametrize(
    ("args", "sent", "back"),
    [
        ({"a": 1}, '{"a":1}', {"a": 1}),
        ("{a", "{a", "{a"),
        ([1], "[1]", [1]),
        ('"x"', '"x"', '"x"'),
        (None, "{}", {}),
        ("", "{}", {}),
        (0, "0", 0),
    ],
)
def test_arguments_as_text(args: Any, sent: str, back: Any) -> None:
    """Text goes as it is; what comes is JSON, or the text."""
    assert as_text(args) == sent
    assert from_text(sent) == back
