"""engine/notes.py: whose a session is."""

from __future__ import annotations

from typing import Any

import pytest

from stratalog.engine.notes import is_whose, users_in


@pytest.mark.parametrize(
    ("told", "users", "anas", "nobodys"),
    [
        (None, [], False, True),
        ([], [], False, True),
        ("", [], False, True),
        ("ana", ["ana"], True, False),
        (["ana"], ["ana"], True, False),
        (("ana",), ["ana"], True, False),
        (["ben"], ["ben"], False, False),
        (["ana", "ben"], ["ana", "ben"], False, False),
        (["ana", 7], ["ana"], False, False),
        ([7], [], False, False),
        (7, [], False, False),
        ({"ana": 1}, [], False, False),
    ],
)
def test_whose_a_session_is(told: Any, users: list[str], anas: bool, nobodys: bool) -> None:
    """A user's that is said to be theirs alone, nobody's where nothing is said, and else not to be seen."""
    metadata = {} if told is None else {"users": told}
    assert users_in(metadata) == users
    assert is_whose(metadata, "ana") is anas
    assert is_whose(metadata, "") is nobodys
