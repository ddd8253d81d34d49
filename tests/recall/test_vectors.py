"""recall.vectors: exact search, and files that survive what happens to them."""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, rule

from crash.processes import PATIENCE, child
from stratalog.errors import Conflict, ForeignFile, InvalidInput, WrongDimension
from stratalog.recall import vector_catalog as catalog
from stratalog.recall.embed import Space, Vectors
from stratalog.recall.pruning import basis_of, bounds, first_of, head_of, promising, tighter
from stratalog.recall.vectors import FILE, Match, VectorStore

SPACE = Space(model="test", dimensions=8)
OTHER = Space(model="test", dimensions=8, version="2")
PLAIN = Space(model="test", dimensions=8, normalised=False)


def vectors(count: int, seed: int = 0, width: int = 8) -> Vectors:
    return np.random.default_rng(seed).standard_normal((count, width), dtype=np.float32)


def names(count: int, prefix: str = "d") -> list[str]:
    return [f"{prefix}{number}" for number in range(count)]


def files(root: Path) -> list[Path]:
    return sorted(root.glob("*/*.f32"))


@pytest.fixture
def store(tmp_path: Path) -> Iterator[VectorStore]:
    with VectorStore(tmp_path, segment_bytes=320) as opened:  # ten rows a segment
        yield opened


def found(matches: list[Match]) -> list[tuple[str, str]]:
    return [(match.scope, match.id) for match in matches]


def test_the_nearest_are_found_in_their_order(store: VectorStore) -> None:
    """Search is what a product of all vectors with the query says, over several segments."""
    rows, query = vectors(37), vectors(1, seed=1)[0]
    store.add(SPACE, "a", names(20), rows[:20])
    store.add(SPACE, "b", names(17), rows[20:])
    cosines = rows @ query / np.linalg.norm(rows, axis=1) / np.linalg.norm(query)
    best = np.argsort(-cosines)[:12]
    matches = store.search(SPACE, query, 12)
    expected = [("a", f"d{at}") if at < 20 else ("b", f"d{at - 20}") for at in best]
    assert found(matches) == expected
    assert [match.score for match in matches] == pytest.approx(cosines[best], abs=1e-6)
    assert len(files(store._database.path.parent)) == 4


def test_a_space_that_is_not_normalised_scores_by_the_product(store: VectorStore) -> None:
    """Lengths count where the space says so, and nowhere else."""
    rows = np.diag(np.arange(1, 9)).astype(np.float32)
    query = np.ones(8, dtype=np.float32)
    for space in (SPACE, PLAIN):
        store.add(space, "a", names(8), rows)
    assert [match.score for match in store.search(PLAIN, query, 8)] == [8, 7, 6, 5, 4, 3, 2, 1]
    assert [match.score for match in store.search(SPACE, query, 8)] == pytest.approx([8**-0.5] * 8)


def test_search_is_narrowed_to_scopes(store: VectorStore) -> None:
    """`scopes` allows what it names; an empty one allows nothing; more than there is is all."""
    rows, query = vectors(30), vectors(1, seed=1)[0]
    for at, scope in enumerate("abc"):
        store.add(SPACE, scope, names(10), rows[10 * at : 10 * at + 10])
    everything = found(store.search(SPACE, query, 99))
    assert len(everything) == 30
    assert found(store.search(SPACE, query, 99, scopes=["c", "a", "none"])) == [
        one for one in everything if one[0] in "ac"
    ]
    assert store.search(SPACE, query, 9, scopes=[]) == []
    assert store.search(SPACE, query, 0) == []


def test_likeness_is_the_score_of_what_is_named(store: VectorStore, tmp_path: Path) -> None:
    """For each pair in its order, twice if it comes twice, the score that a search has; None for what is not
    there, is of another space, was removed, is damaged, or is in a lost file."""
    rows, query = vectors(30), vectors(1, seed=1)[0]
    for at, scope in enumerate("abc"):
        store.add(SPACE, scope, names(10), rows[10 * at : 10 * at + 10])
    store.add(OTHER, "a", ["other"], rows[:1])
    scores = {(match.scope, match.id): match.score for match in store.search(SPACE, query, 99)}
    pairs = [
        ("c", "d9"),
        ("a", "d3"),
        ("b", "none"),
        ("b", "d3"),
        ("none", "d3"),
        ("a", "d3"),
        ("a", "other"),
    ]
    assert store.likeness(SPACE, query, pairs) == [
        scores["c", "d9"], scores["a", "d3"], None, scores["b", "d3"], None, scores["a", "d3"], None
    ]  # fmt: skip
    assert (store.likeness(SPACE, query, []), store.likeness(PLAIN, query, pairs[:2])) == ([], [None, None])
    with pytest.raises(WrongDimension):
        store.likeness(SPACE, query[:7], pairs)
    with pytest.raises(InvalidInput):
        store.likeness(SPACE, query, [("a", "\0")])
    store.remove("a", ["d3"])
    store.close()
    _, second, third = files(tmp_path)[:3]
    second.unlink()
    with third.open("r+b") as file:
        file.seek(9 * 32)
        file.write(b"damage")
    pairs = [("a", "d4"), ("a", "d3"), ("b", "d3"), ("c", "d9"), ("c", "d8")]
    assert store.likeness(SPACE, query, pairs) == [scores["a", "d4"], None, None, None, scores["c", "d8"]]


def test_spaces_never_mix(store: VectorStore) -> None:
    """The same id has a vector in each space; a search sees one space, and a space goes without the rest."""
    store.add(SPACE, "a", names(5), vectors(5))
    store.add(OTHER, "a", names(3), vectors(3, seed=7))
    assert [kept.rows for kept in store.spaces()] == [5, 3]
    assert len(store.search(OTHER, vectors(1)[0], 9)) == 3
    assert store.search(PLAIN, vectors(1)[0], 9) == []
    assert store.missing(OTHER, "a", names(5)) == ["d3", "d4"]
    store.drop_space(SPACE)
    assert [kept.space for kept in store.spaces()] == [OTHER]
    assert [path.parent.name for path in files(store._database.path.parent)] == [OTHER.name]
    assert store.search(SPACE, vectors(1)[0], 9) == []
    assert len(store.search(OTHER, vectors(1)[0], 9)) == 3


def test_every_part_of_a_space_is_in_its_name() -> None:
    """Spaces that differ in anything have other names, and the same space always has the same."""
    spaces = [
        SPACE,
        OTHER,
        PLAIN,
        Space(model="test", dimensions=9),
        Space(model="tes", dimensions=8, version="t"),
    ]
    assert len({space.name for space in spaces}) == 5
    assert SPACE.name == Space(model="test", dimensions=8).name == "2208be3f9e437b33"


@pytest.mark.parametrize("given", [vectors(2, width=9), vectors(2, width=7), vectors(2)[0]])
def test_a_wrong_dimension_is_an_error_and_deletes_nothing(store: VectorStore, given: Vectors) -> None:
    """It names what was expected and what came; what was there is there."""
    store.add(SPACE, "a", names(5), vectors(5))
    before = store.search(SPACE, vectors(1)[0], 9)
    with pytest.raises(WrongDimension) as raised:
        store.add(SPACE, "a", names(2), given)
    assert raised.value.where["expected"] == 8
    with pytest.raises(WrongDimension):
        store.search(SPACE, vectors(1, width=9)[0], 3)
    assert store.search(SPACE, vectors(1)[0], 9) == before


@pytest.mark.parametrize("bad", [0.0, np.nan, np.inf])
def test_what_is_no_vector_is_refused_whole(store: VectorStore, bad: float) -> None:
    """Zeros, NaN and infinity get in neither as a row nor as a query, nor does what came with them."""
    rows = vectors(3)
    rows[1] = bad
    with pytest.raises(InvalidInput):
        store.add(SPACE, "a", names(3), rows)
    with pytest.raises(InvalidInput):
        store.search(SPACE, rows[1], 3)
    assert store.spaces() == []


@pytest.mark.parametrize("bad", ["", "\0", "\ud800", "x" * 5000, 3])
def test_an_id_that_cannot_be_kept_is_refused(store: VectorStore, bad: str) -> None:
    """For each method that takes one."""
    calls: list[Callable[[], object]] = [
        lambda: store.add(SPACE, "a", [bad], vectors(1)),
        lambda: store.add(SPACE, bad, ["d"], vectors(1)),
        lambda: store.remove("a", [bad]),
        lambda: store.remove_scope(bad),
        lambda: store.missing(SPACE, "a", [bad]),
    ]
    for call in calls:
        with pytest.raises(InvalidInput):
            call()
    with pytest.raises(InvalidInput):
        store.add(SPACE, "a", ["d", "d"], vectors(2))
    with pytest.raises(InvalidInput):
        store.add(SPACE, "a", ["d"], vectors(2))


def test_a_vector_is_replaced_by_a_later_one(store: VectorStore) -> None:
    """An id has one vector in a space: the last."""
    store.add(SPACE, "a", ["d"], vectors(1))
    store.add(SPACE, "a", ["d"], vectors(1, seed=5))
    (match,) = store.search(SPACE, vectors(1, seed=5)[0], 9)
    assert match == Match("a", "d", pytest.approx(1.0))


def test_what_is_removed_is_found_no_more_at_once_and_by_nobody(store: VectorStore, tmp_path: Path) -> None:
    """In all spaces, by another store that was open before too."""
    with VectorStore(tmp_path) as other:
        for space in (SPACE, OTHER):
            store.add(space, "a", names(25), vectors(25))
            store.add(space, "b", names(5), vectors(5, seed=3))
            assert len(other.search(space, vectors(1)[0], 99)) == 30
        assert store.remove("a", ["d3", "d4", "none"]) == 4
        assert store.remove("none", ["d3"]) == 0
        for space in (SPACE, OTHER):
            assert not {("a", "d3"), ("a", "d4")} & set(found(other.search(space, vectors(1)[0], 99)))
            assert len(other.search(space, vectors(1)[0], 99)) == 28
        assert store.remove_scope("a") == 46
        for reader in (store, other):
            assert {scope for scope, _ in found(reader.search(SPACE, vectors(1)[0], 99))} == {"b"}
            assert reader.missing(SPACE, "a", names(2)) == names(2)


def test_scrub_leaves_no_byte_of_what_was_removed(store: VectorStore, tmp_path: Path) -> None:
    """Neither the vectors nor the ids nor the scope's name are in any file after it; the rest is."""
    gone, kept = vectors(15, seed=8), vectors(15, seed=9)
    wide = gone.astype(np.float64)
    unit = (wide / np.linalg.norm(wide, axis=1, keepdims=True)).astype(np.float32)
    store.add(SPACE, "secret scope", names(15, "secret id"), gone)
    store.add(SPACE, "kept", names(15), kept)
    before = store.search(SPACE, kept[0], 99, scopes=["kept"])

    def remains() -> int:
        everything = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
        needles = [row.tobytes()[4:12] for row in unit] + [b"secret"]
        return sum(needle in everything for needle in needles)

    assert remains() == 16
    store.remove_scope("secret scope")
    store.scrub()
    assert remains() == 0
    assert store.search(SPACE, kept[0], 99) == before


def test_tidy_writes_anew_what_is_mostly_holes(store: VectorStore, tmp_path: Path) -> None:
    """Only segments over a quarter of which was removed; rows of a scope lie side by side then."""
    for number in range(10):
        store.add(SPACE, "ab"[number % 2], [f"d{number}"], vectors(1, seed=number))
    store.add(SPACE, "c", names(10), vectors(10, seed=99))
    store.remove("a", ["d0", "d2"])
    assert store.tidy(SPACE) == 0
    store.remove("a", ["d4"])
    assert store.tidy(SPACE) == 1
    assert [path.stat().st_size for path in files(tmp_path)] == [320, 7 * 32]
    for number in (6, 8, 1, 3, 5, 7, 9):
        (match,) = store.search(SPACE, vectors(1, seed=number)[0], 1)
        assert (match.id, match.score) == (f"d{number}", pytest.approx(1.0))
    state, chosen = store._look(SPACE, lambda db, at: catalog.chosen(db, at, ["a"]))
    assert chosen is not None
    assert chosen[:, 1].tolist() == [0, 1]
    store.add(SPACE, "d", names(3), vectors(3))
    assert len(files(tmp_path)) == 2  # the room that came of it is used
    assert not state.lost


def test_a_torn_append_is_overwritten_and_scrubbed(store: VectorStore, tmp_path: Path) -> None:
    """What follows the named rows is neither found nor kept."""
    store.add(SPACE, "a", names(3), vectors(3))
    (path,) = files(tmp_path)
    with path.open("ab") as file:
        file.write(b"torn" * 50)
    assert len(store.search(SPACE, vectors(1)[0], 9)) == 3
    store.add(SPACE, "a", ["more"], vectors(1, seed=4))
    assert store.search(SPACE, vectors(1, seed=4)[0], 1)[0].id == "more"
    store.scrub()
    assert not any(b"torn" in path.read_bytes() for path in files(tmp_path))
    assert store.mend(deep=True) == 0
    assert store.count(SPACE) == 4


@pytest.mark.parametrize("harm", ["cut", "gone"])
def test_a_lost_segment_is_missing_and_embedded_again(store: VectorStore, tmp_path: Path, harm: str) -> None:
    """Searching goes on without it; `mend` says what is missing, and nothing else is."""
    store.add(SPACE, "a", names(10), vectors(10))
    store.add(SPACE, "b", names(10), vectors(10, seed=1))
    store.set_mark(SPACE, "a", "1", since=store.removals())
    store.set_mark(SPACE, "b", "1", since=store.removals())
    store.set_complete(SPACE)
    store.close()
    first = files(tmp_path)[0]
    if harm == "gone":
        first.unlink()
    else:
        os.truncate(first, 300)
    assert {scope for scope, _ in found(store.search(SPACE, vectors(1)[0], 99))} == {"b"}
    assert store.missing(SPACE, "a", names(10)) == []
    assert store.mend() == 10
    assert store.missing(SPACE, "a", names(10)) == names(10)
    assert store.marks(SPACE) == {"b": "1"}
    assert not store.spaces()[0].complete
    store.add(SPACE, "a", names(10), vectors(10))
    assert len(store.search(SPACE, vectors(1)[0], 99)) == 20
    assert store.mend(deep=True) == 0


@pytest.mark.parametrize("harm", ["cut", "gone", "another"])
def test_a_segment_that_is_lost_while_it_is_mapped(tmp_path: Path, harm: str) -> None:
    """A search after that neither ends the process nor finds what was in it; the rest is found."""

    def body(say: Callable[[str], None]) -> None:
        with VectorStore(tmp_path, segment_bytes=4096 * 32) as store:
            store.add(SPACE, "a", names(4096), vectors(4096))
            store.add(SPACE, "b", names(4), vectors(4, seed=1))
            say(store.search(SPACE, vectors(1)[0], 1)[0].scope)
            path = files(tmp_path)[0]
            if harm == "cut":
                os.truncate(path, 0)
            else:
                path.unlink()
            if harm == "another":
                path.write_bytes(bytes(4096 * 32))
            say(" ".join(match.scope for match in store.search(SPACE, vectors(1)[0], 4)))
            (one, other) = store.likeness(SPACE, vectors(1)[0], [("a", "d0"), ("b", "d0")])
            say(f"{one} {other is None}")
            say(str(store.mend(deep=True)))

    with child(body) as process:
        assert process.hear_all() == ["a", "b b b b", "None False", "4096"]
        assert process.wait() == 0


def test_nothing_is_appended_to_a_segment_that_is_cut(store: VectorStore, tmp_path: Path) -> None:
    """New rows go into a segment of their own, and are found."""
    store.add(SPACE, "a", names(5), vectors(5))
    store.close()
    os.truncate(files(tmp_path)[0], 40)
    store.add(SPACE, "b", ["new"], vectors(1, seed=4))
    assert found(store.search(SPACE, vectors(1, seed=4)[0], 9)) == [("b", "new")]
    assert store.mend() == 5
    assert found(store.search(SPACE, vectors(1, seed=4)[0], 9)) == [("b", "new")]


@pytest.mark.parametrize("value", [np.nan, np.inf, 1e30, 0.1])
def test_a_damaged_row_is_not_returned_and_is_found_by_a_deep_look(
    store: VectorStore, tmp_path: Path, value: float
) -> None:
    """Whatever number its bytes now say; the others are found as ever."""
    store.add(SPACE, "a", names(5), vectors(5))
    store.close()
    with files(tmp_path)[0].open("r+b") as file:
        file.seek(2 * 32)
        file.write(np.full(8, value, dtype="<f4").tobytes())
    for k in (1, 2, 4, 5):
        matches = store.search(SPACE, vectors(1)[0], k)
        assert len(matches) == min(k, 4)
        assert {match.id for match in matches} <= {"d0", "d1", "d3", "d4"}
    assert store.mend() == 0
    assert store.mend(deep=True) == 1
    assert store.missing(SPACE, "a", names(5)) == ["d2"]


def test_a_lost_catalog_is_everything_missing(store: VectorStore, tmp_path: Path) -> None:
    """All is to be embedded again; what is left of the old files is neither found nor kept for ever."""
    store.add(SPACE, "a", names(12), vectors(12))
    assert store.search(SPACE, vectors(1)[0], 1)
    since = store.removals()
    for path in tmp_path.glob(f"{FILE}*"):
        path.unlink()
    assert store.missing(SPACE, "a", names(2)) == names(2)
    assert store.search(SPACE, vectors(1)[0], 9) == []
    with pytest.raises(Conflict):
        store.add(SPACE, "a", ["d"], vectors(1), since=since)
    store.add(SPACE, "a", names(10), vectors(10, seed=2))
    assert store.search(SPACE, vectors(10, seed=2)[4], 1)[0].id == "d4"
    store.scrub()
    assert len(files(tmp_path)) == 1


def test_another_programs_database_is_left_alone(tmp_path: Path) -> None:
    """A file that is not ours is an error and stays as it is."""
    shutil.copyfile(
        Path(__file__).parents[1] / "fixtures" / "memory" / "jobs-version-1.sqlite3", tmp_path / FILE
    )
    before = (tmp_path / FILE).read_bytes()
    with VectorStore(tmp_path) as store, pytest.raises(ForeignFile):
        store.add(SPACE, "a", ["d"], vectors(1))
    assert (tmp_path / FILE).read_bytes() == before


def test_reading_makes_nothing(tmp_path: Path) -> None:
    """Nor does removing what is not there."""
    with VectorStore(tmp_path / "none") as store:
        assert store.search(SPACE, vectors(1)[0], 3) == []
        assert (store.spaces(), store.marks(SPACE), store.count(SPACE)) == ([], {}, 0)
        assert (store.remove("a", ["d"]), store.remove_scope("a"), store.mend()) == (0, 0, 0)
        store.scrub()
        store.drop_space(SPACE)
    assert not (tmp_path / "none").exists()


def test_what_was_removed_meanwhile_is_not_added(store: VectorStore) -> None:
    """Vectors of texts that were read before a removal are refused, and so is the mark."""
    since = store.removals()
    store.add(SPACE, "a", names(3), vectors(3), since=since)
    store.remove_scope("a")
    for call in (
        lambda: store.add(SPACE, "a", names(3), vectors(3), since=since),
        lambda: store.set_mark(SPACE, "a", "1", since=since),
    ):
        with pytest.raises(Conflict):
            call()
    assert store.ids(SPACE, "a") == []


def test_what_was_refused_is_not_missing_until_its_scope_is_removed(store: VectorStore) -> None:
    """Per space: another model may take it."""
    store.refuse(SPACE, "a", ["d1"])
    assert store.missing(SPACE, "a", names(3)) == ["d0", "d2"]
    assert store.missing(OTHER, "a", names(3)) == names(3)
    store.remove_scope("a")
    assert store.missing(SPACE, "a", names(3)) == names(3)


def test_processes_add_and_remove_while_others_search(tmp_path: Path) -> None:
    """Four processes write the same store: all their rows are there, each found by its own vector; a reader
    meanwhile sees only vectors that somebody added."""

    def work(number: int) -> Callable[[Callable[[str], None]], None]:
        def body(say: Callable[[str], None]) -> None:
            with VectorStore(tmp_path, segment_bytes=320) as store:
                for step in range(8):
                    store.add(SPACE, f"s{number}", names(4, f"{step}-"), vectors(4, seed=100 * number + step))
                    store.remove(f"s{number}", [f"{step}-3"])
                    store.tidy(SPACE)

        return body

    with child(work(0)) as one, child(work(1)) as two, child(work(2)) as three:
        with VectorStore(tmp_path) as store:
            until = time.monotonic() + PATIENCE
            while store.count(SPACE) < 60 and time.monotonic() < until:
                for match in store.search(SPACE, vectors(1)[0], 9):
                    assert match.score <= 1.0001
        assert [process.wait() for process in (one, two, three)] == [0, 0, 0]
    with VectorStore(tmp_path) as store:
        assert store.count(SPACE) == 3 * 8 * 3
        for number in range(3):
            for step in range(8):
                for at, row in enumerate(vectors(4, seed=100 * number + step)[:3]):
                    (match,) = store.search(SPACE, row, 1)
                    assert (match.scope, match.id) == (f"s{number}", f"{step}-{at}")
        assert store.mend(deep=True) == 0


def test_threads_and_forks_share_a_store(store: VectorStore) -> None:
    """Searches in threads while rows are written anew find what is there; so does a forked child."""
    store.add(SPACE, "a", names(30), vectors(30))
    wrong: list[int] = []

    def look() -> None:
        for number in range(60):
            got = store.search(SPACE, vectors(30)[number % 20], 1)
            if [match.id for match in got] != [f"d{number % 20}"]:
                wrong.append(number)

    threads = [threading.Thread(target=look) for _ in range(3)]
    for thread in threads:
        thread.start()
    for number in range(20, 30):
        store.remove("a", [f"d{number}"])
        store.scrub()
    for thread in threads:
        thread.join()
    assert wrong == []

    def body(say: Callable[[str], None]) -> None:
        say(store.search(SPACE, vectors(30)[7], 1)[0].id)
        store.add(SPACE, "b", ["child"], vectors(1, seed=4))

    with child(body) as process:
        assert process.hear_all() == ["d7"]
        assert process.wait() == 0
    assert store.search(SPACE, vectors(1, seed=4)[0], 1)[0].id == "child"


def test_what_is_removed_during_searches_is_in_none_that_begins_after(tmp_path: Path) -> None:
    """While others search, ask for likenesses, tidy and warm, nothing of a scope is found once its removal
    has returned; what is kept is found in every one of these searches."""
    space = Space(model="test", dimensions=24)
    with VectorStore(tmp_path, segment_bytes=3000 * 96) as store:
        rows = clustered(9000, 24, 2)
        for number in range(30):
            store.add(space, f"s{number}", names(300), rows[300 * number : 300 * number + 300])
        store.warm(space)
        gone: list[str] = []
        wrong: list[object] = []
        ended = threading.Event()

        def look(own: VectorStore) -> None:
            while not ended.is_set():
                removed = list(gone)
                matches = own.search(space, rows[8999], 50)
                wrong.extend(match for match in matches if match.scope in removed)
                wrong.extend([len(matches)] if matches[0].id != "d299" or len(matches) < 50 else [])
                pairs = [*((scope, "d0") for scope in removed), ("s29", "d299")]
                *none, one = own.likeness(space, rows[8999], pairs)
                wrong.extend([none, one] if any(none) or one is None else [])

        def keep() -> None:
            while not ended.is_set():
                store.tidy(space)
                store.warm(space)

        with VectorStore(tmp_path) as other:
            threads = [threading.Thread(target=look, args=(own,)) for own in (store, store, other)]
            threads.append(threading.Thread(target=keep))
            for thread in threads:
                thread.start()
            for number in range(25):
                store.remove_scope(f"s{number}")
                gone.append(f"s{number}")
            ended.set()
            for thread in threads:
                thread.join()
    assert wrong == []


@pytest.mark.parametrize("given", [[["a"] * 8], [[1.0] * 8, [1.0]], [[None] * 8], [[{}] * 8]])
def test_what_are_no_numbers_is_refused(store: VectorStore, given: object) -> None:
    """With an error of ours, whatever was given in place of vectors."""
    with pytest.raises(InvalidInput):
        store.add(SPACE, "a", names(len(given)), given)  # type: ignore[arg-type]
    with pytest.raises((InvalidInput, WrongDimension)):
        store.search(SPACE, given[-1], 3)  # type: ignore[index]


def clustered(count: int, width: int, seed: int) -> Vectors:
    """Vectors most of which lies in few directions, as embedders make them."""
    chance = np.random.default_rng(seed)
    directions = np.random.default_rng(1).standard_normal((width // 6, width))
    strong = chance.standard_normal((count, width // 6)) @ directions + 2 * directions[0]
    return (strong + 0.3 * chance.standard_normal((count, width))).astype(np.float32)


@pytest.mark.parametrize("kind", ["clustered", "random", "same", "zero in most"])
def test_a_warm_store_finds_the_same(tmp_path: Path, kind: str) -> None:
    """Row for row, also what was added after it was warmed, and not what was removed."""
    width, count = 24, 9000
    space = Space(model="test", dimensions=width)
    rows = {
        "clustered": clustered(count, width, 2),
        "random": vectors(count, width=width),
        "same": np.repeat(vectors(3, width=width), count // 3, axis=0),
        "zero in most": np.pad(vectors(count, width=3), ((0, 0), (0, width - 3))),
    }[kind]
    late = clustered(300, width, 3)
    with (
        VectorStore(tmp_path, segment_bytes=4000 * width * 4) as cold,
        VectorStore(tmp_path, segment_bytes=4000 * width * 4) as warm,
    ):
        cold.add(space, "a", names(count), rows)
        assert warm.warm(space) == (kind != "random")
        assert not warm.warm(space)
        for _ in range(2):
            for number in range(25):
                query = (rows if number % 2 else late)[number]
                for k in (1, 20, 300):
                    one, other = cold.search(space, query, k), warm.search(space, query, k)
                    assert [match.score for match in one] == pytest.approx(
                        [match.score for match in other], abs=1e-6
                    )
                    if kind == "clustered":
                        assert found(one) == found(other)
            cold.add(space, "b", names(300), late)
            cold.remove("a", [match.id for match in cold.search(space, rows[1], 50, scopes=["a"])])
        state, _ = warm._look(space, lambda db, at: None)
        assert [segment.head is not None for segment in state.segments] == [kind != "random"] * 3


@pytest.mark.parametrize("value", [np.nan, np.inf, 1e30, -1e30, 0.9])
@pytest.mark.parametrize("before", [True, False])
def test_a_warm_store_passes_over_damage(tmp_path: Path, value: float, before: bool) -> None:
    """Of rows that are damaged before or after the store was warmed none is returned, and the others are."""
    space, rows = Space(model="test", dimensions=24), clustered(9000, 24, 2)
    with VectorStore(tmp_path, segment_bytes=4000 * 96) as store:
        store.add(space, "a", names(9000), rows)
        best = [match.id for match in store.search(space, rows[5], 30)]

        def damage() -> None:
            for name in best[:3]:
                segment, position = divmod(int(name[1:]), 4000)
                with files(tmp_path)[segment].open("r+b") as file:
                    file.seek(position * 96)
                    file.write(np.full(24, value, dtype="<f4").tobytes())

        if before:
            damage()
        assert store.warm(space)
        if not before:
            damage()
        for k in (1, 5, 20):
            assert [match.id for match in store.search(space, rows[5], k)] == best[3 : 3 + k]
        assert store.mend(deep=True) == 3


def test_warming_leaves_rows_out(tmp_path: Path) -> None:
    """Of clustered vectors a small part is scored; of what lies in all directions nothing is spared."""
    rows = clustered(9000, 48, 2)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    head = head_of(rows, basis_of(rows))
    assert (head.near.shape, head.far.shape) == ((9000, 12), (9000, 16))
    for query in rows[:50]:
        best = np.sort(rows @ query)[-20:]
        highest = bounds(head, query)
        assert np.sort(first_of(rows, highest, query, 20))[-20:].min() > best[0] - 0.05
        few = promising(head, highest, query, float(best[0]))
        assert few is not None
        assert len(few) < 500
        assert set(np.argsort(-(rows @ query))[:20]) <= {*few.tolist()}
    plain = vectors(9000, width=48)
    plain /= np.linalg.norm(plain, axis=1, keepdims=True)
    head, least = head_of(plain, basis_of(plain)), np.sort(plain @ plain[0])[-20]
    assert promising(head, bounds(head, plain[0]), plain[0], float(least)) is None


@pytest.mark.parametrize(
    "kind", ["clustered", "random", "same", "zero in most", "of another place", "damaged"]
)
def test_no_bound_is_too_low(kind: str) -> None:
    """Whatever the vectors, and whatever directions the bounds are taken in, no row scores higher than either
    bound by more than the margin that is left for rounding; the second bound is not the looser one by more
    than its own rounding."""
    rows = clustered(3000, 48, 2)
    basis = basis_of(rows)
    rows = {
        "clustered": rows,
        "random": vectors(3000, width=48),
        "same": np.repeat(rows[:3], 1000, axis=0),
        "zero in most": np.pad(vectors(3000, width=2), ((0, 0), (0, 46))),
        "of another place": np.concatenate([basis[20:28], rows[:2000], np.eye(48, dtype=np.float32)]),
        "damaged": rows,
    }[kind]
    rows = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    queries = [
        *rows[::97],
        *basis[::5],
        *(basis[:-1:3] + basis[1::3]) / 2**0.5,
        *np.eye(48, dtype=np.float32),
    ]
    whole = np.ones(len(rows), dtype=bool)
    if kind == "damaged":
        rows[[5, 900]] = np.array([[1e30], [np.nan]])
        whole[[5, 900]] = False
    for own in (basis, basis_of(rows)):
        head = head_of(rows, own)
        for query in queries:
            first = bounds(head, query)
            second = tighter(head, query, np.arange(len(rows)), first)
            exact = rows[whole].astype(np.float64) @ query
            assert (exact <= first[whole] + 2e-5).all()
            assert (exact <= second[whole] + 2e-5).all()
            assert (second <= first + 2 * head.error + 1e-4).all()


def test_a_store_that_was_made_anew_is_not_taken_for_the_old_one(tmp_path: Path) -> None:
    """Its files have the names of those before; what was known of these is of no use."""
    space = Space(model="test", dimensions=24)
    with VectorStore(tmp_path / "v") as store:
        store.add(space, "a", names(9000), clustered(9000, 24, 2))
        store.warm(space)
        store.search(space, vectors(1, width=24)[0], 3)
        with VectorStore(tmp_path / "w") as other:
            other.add(space, "b", names(9000), vectors(9000, width=24))
        shutil.rmtree(tmp_path / "v")
        (tmp_path / "w").rename(tmp_path / "v")
        for row in vectors(5, width=24):
            assert store.search(space, row, 1)[0].score == pytest.approx(1.0)
        assert store.mend(deep=True) == 0


class Machine(RuleBasedStateMachine):
    """Any order of steps finds what a dictionary says, by brute force."""

    ids = Bundle("ids")

    @rule()
    def warm(self) -> None:
        self.store.warm(SPACE)

    @initialize(size=st.sampled_from([32, 100, 320, 10_000]))
    def begin(self, size: int) -> None:
        self.root = tempfile.TemporaryDirectory()
        self.size = size
        self.model: dict[tuple[Space, str, str], Vectors] = {}
        self.store = VectorStore(Path(self.root.name), segment_bytes=size)

    def teardown(self) -> None:
        if hasattr(self, "store"):
            self.store.close()
            self.root.cleanup()

    @rule(
        space=st.sampled_from([SPACE, PLAIN]),
        scope=st.sampled_from("ab"),
        numbers=st.lists(st.integers(0, 12), unique=True, max_size=6),
        seed=st.integers(0, 1000),
    )
    def add(self, space: Space, scope: str, numbers: list[int], seed: int) -> None:
        rows = vectors(len(numbers), seed)
        ids = [f"d{number}" for number in numbers]
        self.store.add(space, scope, ids, rows)
        self.model.update({(space, scope, one): row for one, row in zip(ids, rows, strict=True)})

    @rule(scope=st.sampled_from("abc"), numbers=st.lists(st.integers(0, 12), max_size=5))
    def remove(self, scope: str, numbers: list[int]) -> None:
        ids = {f"d{number}" for number in numbers}
        gone = [key for key in self.model if key[1] == scope and key[2] in ids]
        assert self.store.remove(scope, ids) == len(gone)
        for key in gone:
            del self.model[key]

    @rule(scope=st.sampled_from("ab"))
    def remove_scope(self, scope: str) -> None:
        gone = [key for key in self.model if key[1] == scope]
        assert self.store.remove_scope(scope) == len(gone)
        for key in gone:
            del self.model[key]

    @rule(space=st.sampled_from([SPACE, PLAIN]))
    def drop(self, space: Space) -> None:
        self.store.drop_space(space)
        self.model = {key: row for key, row in self.model.items() if key[0] != space}

    @rule()
    def reopen(self) -> None:
        self.store.close()
        self.store = VectorStore(Path(self.root.name), segment_bytes=self.size)

    @rule()
    def scrub(self) -> None:
        self.store.scrub()

    @rule()
    def tidy(self) -> None:
        self.store.tidy(SPACE)

    @rule()
    def mend(self) -> None:
        assert self.store.mend(deep=True) == 0

    @rule(
        space=st.sampled_from([SPACE, PLAIN]),
        k=st.integers(0, 20),
        scopes=st.none() | st.lists(st.sampled_from("abc")),
        seed=st.integers(0, 1000),
    )
    def search(self, space: Space, k: int, scopes: list[str] | None, seed: int) -> None:
        query = vectors(1, seed)[0]
        scored = {}
        for (where, scope, one), row in self.model.items():
            if where == space and (scopes is None or scope in scopes):
                score = float(row @ query)
                if space.normalised:
                    score /= float(np.linalg.norm(row) * np.linalg.norm(query))
                scored[scope, one] = score
        matches = self.store.search(space, query, k, scopes=scopes)
        assert [match.score for match in matches] == pytest.approx(
            sorted(scored.values(), reverse=True)[:k], abs=1e-5
        )
        assert all(match.score == pytest.approx(scored[match.scope, match.id], abs=1e-5) for match in matches)
        assert len(set(found(matches))) == len(matches)

    @invariant()
    def counts(self) -> None:
        if hasattr(self, "store"):
            for kept in self.store.spaces():
                assert kept.rows == sum(key[0] == kept.space for key in self.model)


Machine.TestCase.settings = settings(
    max_examples=30, stateful_step_count=25, deadline=None, suppress_health_check=list(HealthCheck)
)
TestMachine = Machine.TestCase
