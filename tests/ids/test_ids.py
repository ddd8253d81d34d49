"""ULIDs: sorted by their time, unique whatever the program does, the same for the same source."""

from __future__ import annotations

import os
import random

from hypothesis import given
from hypothesis import strategies as st

from stratalog.ids import ULID, derived_ulid, new_ulid, ulid_ts


@given(st.integers(min_value=0, max_value=2**48 - 1))
def test_a_ulid_holds_its_moment(ts: int) -> None:
    """The time comes back, and a later one sorts after."""
    made = new_ulid(ts)
    assert ULID.match(made)
    assert ulid_ts(made) == ts
    assert new_ulid(ts + 1)[:10] > made[:10] or ts == 2**48 - 1


def test_derived_ids_are_the_same_for_the_same_source() -> None:
    """Importing twice gives the same ids; another source, or another cut of the same text, gives others."""
    assert derived_ulid(5, "a", "b") == derived_ulid(5, "a", "b")
    assert len({derived_ulid(5, "a", "b"), derived_ulid(5, "ab"), derived_ulid(6, "a", "b")}) == 3


def test_a_seeded_program_does_not_repeat_its_ids() -> None:
    """`random.seed`, as tests and experiments use it, has no say here."""
    random.seed(1)
    first = {new_ulid(1) for _ in range(100)}
    random.seed(1)
    assert first.isdisjoint({new_ulid(1) for _ in range(100)})


def test_a_forked_child_makes_other_ids() -> None:
    """Parent and child do not go on from the same chance."""
    new_ulid()
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(write, "".join(new_ulid(1) for _ in range(10)).encode())
        os._exit(0)
    os.waitpid(child, 0)
    text = os.read(read, 4096).decode()
    os.close(read)
    os.close(write)
    theirs = {text[at : at + 26] for at in range(0, len(text), 26)}
    assert len(theirs) == 10
    assert theirs.isdisjoint({new_ulid(1) for _ in range(10)})
