"""memory/pieces.py: contents share pieces, are read as they were given, and leave nothing when they go."""

from __future__ import annotations

import sqlite3

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stratalog.errors import DamagedLog
from stratalog.memory import pieces
from stratalog.memory.pieces import Draft, Fresh, Kept

slices = st.lists(st.tuples(st.integers(0, 40), st.integers(1, 9)), max_size=6)


def covered(some: list[tuple[int, int]]) -> set[int]:
    return {each for first, count in some for each in range(first, first + count)}


def opened() -> sqlite3.Connection:
    db = sqlite3.connect(":memory:", isolation_level=None)
    for statement in pieces.TABLES.split(";\n"):
        db.execute(statement)
    return db


@given(slices, slices)
def test_what_slices_cover_without_others(some: list[tuple[int, int]], others: list[tuple[int, int]]) -> None:
    """`without` covers what the one covers and the other does not, each number once; `slices_of` all."""
    left = pieces.without(some, others)
    assert covered(left) == covered(some) - covered(others)
    assert sum(count for _, count in left) == len(covered(left))
    once = pieces.slices_of(some)
    assert covered(once) == covered(some)
    assert sum(count for _, count in once) == len(covered(some))


@given(slices, st.integers(0, 60), st.integers(1, 30))
def test_a_part_of_slices(some: list[tuple[int, int]], start: int, count: int) -> None:
    """`within` is what a list of all the numbers would have at these places."""
    flat = [each for first, length in some for each in range(first, first + length)]
    found = pieces.within(some, start, count)
    assert [each for first, length in found for each in range(first, first + length)] == flat[
        start : start + count
    ]


@st.composite
def histories(draw: st.DrawFn) -> list[tuple[int, list[tuple[bool, int, int]]]]:
    """Contents, each made of stretches of an earlier one, by its place, and of new pieces."""
    stretch = st.tuples(st.booleans(), st.integers(0, 12), st.integers(1, 9))
    return draw(
        st.lists(st.tuples(st.integers(0, 9), st.lists(stretch, min_size=1, max_size=4)), max_size=12)
    )


@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(histories(), st.booleans())
def test_contents_are_read_as_they_were_given(
    monkeypatch: pytest.MonkeyPatch, history: list[tuple[int, list[tuple[bool, int, int]]]], calm: bool
) -> None:
    """Whatever a content is built on, in whatever order, and however small the regions are, all contents are
    read as they were given, then and after others were made; no piece is stored twice that is kept, and none
    that no content has."""
    monkeypatch.setattr(pieces, "REGION", 4)
    monkeypatch.setattr(pieces, "_CALM", 1 if calm else 64)
    db = opened()
    made: list[tuple[int, list[bytes]]] = []
    number = 0
    for base, stretches in history:
        row, had = made[base % len(made)] if made else (0, [])
        parts: list[Kept | Fresh] = []
        wanted: list[bytes] = []
        for keeps, start, count in stretches:
            kept = had[start : start + count] if keeps else []
            if kept:
                parts.append(Kept(start, len(kept)))
                wanted += kept
            else:
                new = [b"%d" % (number + each) for each in range(count)]
                number += count
                parts.append(Fresh(tuple(new)))
                wanted += new
        draft = Draft("c", "1", "k", tuple(parts), "list", 1, row)
        made.append((pieces.store(db, draft), wanted))
    for row, wanted in made:
        found = pieces.pieces_of(db, row)
        assert found is not None
        assert list(found) == wanted
    stored_rows = {row for (row,) in db.execute("SELECT row FROM pieces")}
    laid = [pieces._slices(data) for (data,) in db.execute("SELECT data FROM contents")]
    assert stored_rows == covered([each for slices_ in laid for each in slices_])
    if not calm:
        (stored,) = db.execute("SELECT count(*) FROM pieces").fetchone()
        assert stored == number


def test_a_list_that_grows_is_one_slice() -> None:
    """A content that goes on from the last of its region names one stretch, however often it grew."""
    db = opened()
    row = pieces.store(db, Draft("c", "0", "k", (Fresh((b"0",)),), "list", 1))
    for length in range(1, 200):
        draft = Draft("c", str(length), "k", (Kept(0, length), Fresh((b"%d" % length,))), "list", 1, row)
        row = pieces.store(db, draft)
    (longest,) = db.execute("SELECT max(length(data)) FROM contents").fetchone()
    assert longest < 12
    assert pieces.pieces_of(db, row) == tuple([b"%d" % each for each in range(200)])


def test_a_piece_that_is_gone_is_damage() -> None:
    """A content whose pieces are not all there is not read as if it were shorter."""
    db = opened()
    row = pieces.store(db, Draft("c", "0", "k", (Fresh((b"0", b"1")),), "list", 1))
    db.execute("DELETE FROM pieces WHERE data = ?", (b"1",))
    with pytest.raises(DamagedLog):
        pieces.pieces_of(db, row)
