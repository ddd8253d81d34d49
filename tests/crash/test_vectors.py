"""Vectors and a process that is killed: each operation has taken place or has not, and all goes on."""

from __future__ import annotations

import random
import resource
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from crash.processes import child, run
from stratalog import points
from stratalog.errors import StorageFull
from stratalog.recall.embed import Space, Vectors
from stratalog.recall.vectors import VectorStore

pytestmark = pytest.mark.crash

SPACE = Space(model="test", dimensions=8)
OTHER = Space(model="test", dimensions=8, version="2")
ROUNDS = 30


def vectors(count: int, seed: int) -> Vectors:
    return np.random.default_rng(seed).standard_normal((count, 8), dtype=np.float32)


def opened(root: Path) -> VectorStore:
    return VectorStore(root, segment_bytes=320)


def ids(count: int, first: int = 0) -> list[str]:
    return [f"d{number}" for number in range(first, first + count)]


def _filled(store: VectorStore) -> None:
    store.add(SPACE, "a", ids(15), vectors(15, 1))
    store.add(OTHER, "a", ids(5), vectors(5, 2))
    store.remove("a", ["d7"])


def _nothing(store: VectorStore) -> None:
    pass


def _add(store: VectorStore) -> None:
    store.add(SPACE, "b", ids(25), vectors(25, 3))


def _replace(store: VectorStore) -> None:
    store.add(SPACE, "a", ids(15), vectors(15, 4))


def _remove(store: VectorStore) -> None:
    store.remove("a", ["d1", "d2"])


def _remove_scope(store: VectorStore) -> None:
    store.remove_scope("a")


def _scrub(store: VectorStore) -> None:
    store.scrub()


def _drop(store: VectorStore) -> None:
    store.drop_space(OTHER)


class Case(NamedTuple):
    """At which arrival at which point of which operation a process dies, and whether it has taken place."""

    point: str
    nth: int
    before: Callable[[VectorStore], None]
    act: Callable[[VectorStore], None]
    after: bool

    def __str__(self) -> str:
        return f"{self.act.__name__[1:]}-{self.point}-{self.nth}"


CASES = [
    Case("vectors.written", 1, _nothing, _add, False),
    Case("vectors.written", 3, _nothing, _add, False),
    Case("vectors.added", 1, _nothing, _add, True),
    Case("vectors.written", 1, _filled, _add, False),
    Case("vectors.written", 2, _filled, _add, False),
    Case("vectors.added", 1, _filled, _add, True),
    Case("vectors.written", 2, _filled, _replace, False),
    Case("vectors.added", 1, _filled, _replace, True),
    Case("vectors.removed", 1, _filled, _remove, True),
    Case("vectors.removed", 1, _filled, _remove_scope, True),
    Case("vectors.written", 1, _filled, _scrub, True),  # what is found is the same before and after
    Case("vectors.rewritten", 1, _filled, _scrub, True),
    Case("vectors.swapped", 1, _filled, _scrub, True),
    Case("vectors.dropped", 1, _filled, _drop, True),
]


def state(root: Path) -> list[list[tuple[str, str, bytes]]]:
    """What is found, with the vector of each, by space."""
    query = np.ones(8, dtype=np.float32)
    with opened(root) as store:
        assert store.mend(deep=True) == 0
        looked = [store.search(space, query, 1000) for space in (SPACE, OTHER)]
    return [
        sorted((match.scope, match.id, np.float32(match.score).round(4).tobytes()) for match in one)
        for one in looked
    ]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_kill_at_a_point_leaves_the_state_before_or_after(case: Case, tmp_path: Path) -> None:
    """And the operation can be done again, after which no file is left that has no name."""
    wanted = {}
    for name, acts in {"before": [case.before], "after": [case.before, case.act]}.items():
        with opened(tmp_path / name) as store:
            for act in acts:
                act(store)
        wanted[name] = state(tmp_path / name)
    root = tmp_path / "killed"
    with opened(root) as store:
        case.before(store)

    def work(say: object) -> None:
        points.arm(case.point, case.nth)
        case.act(opened(root))

    assert run(work) == -signal.SIGKILL
    assert state(root) == wanted["after" if case.after else "before"]
    with opened(root) as store:
        case.act(store)
        assert state(root) == wanted["after"]
        store.scrub()
        assert state(root) == wanted["after"]
        named = {
            (kept.space.name, number) for kept in store.spaces() for number, _, _ in store._filled(kept.space)
        }
    assert {(path.parent.name, int(path.stem)) for path in root.glob("*/*.f32")} == named


def test_kills_at_any_moment_lose_nothing_that_was_told(tmp_path: Path) -> None:
    """What a call that returned had added is there, what it had removed is not, and every row is whole."""
    chance = random.Random(5)
    there: set[str] = set()
    step = 0
    for _ in range(ROUNDS):
        first = step

        def work(say: Callable[[str], None], first: int = first) -> None:
            with opened(tmp_path) as store:
                for number in range(first, first + 10_000):
                    store.add(SPACE, "a", [f"{number}-{at}" for at in range(3)], vectors(3, number))
                    say(f"+{number}")
                    store.remove("a", [f"{number}-1"])
                    say(f"-{number}")
                    if number % 5 == 0:
                        store.tidy(SPACE)

        with child(work) as process:
            assert process.hear()
            time.sleep(chance.uniform(0, 0.03))
            process.signal(signal.SIGKILL)
            told = [f"+{first}", *process.hear_all()]
            process.wait()
        for line in told:
            number = int(line[1:])
            if line[0] == "+":
                there |= {f"{number}-0", f"{number}-1", f"{number}-2"}
            else:
                there.discard(f"{number}-1")
            step = number + 2  # the one under way may have taken place: it is told of below
        with opened(tmp_path) as store:
            assert store.mend(deep=True) == 0
            kept = set(store.ids(SPACE, "a"))
            assert there - kept <= {f"{step - 2}-1"}
            extra = kept - there
            assert extra <= {f"{step - 1}-{at}" for at in range(3)}
            there = kept
            for number in range(max(0, step - 4), step):
                for at, row in enumerate(vectors(3, number)):
                    if f"{number}-{at}" in kept:
                        assert store.search(SPACE, row, 1)[0].id == f"{number}-{at}"
    assert step > ROUNDS


def test_a_full_disk_is_told_and_changes_nothing(tmp_path: Path) -> None:
    """What was there answers as before, and once there is room the same call works."""
    many = vectors(10_000, 9)

    def work(say: Callable[[str], None]) -> None:
        with VectorStore(tmp_path) as store:
            store.add(SPACE, "a", ids(20), vectors(20, 1))
            before = store.search(SPACE, vectors(1, 2)[0], 50)
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
            resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, hard))
            with pytest.raises(StorageFull):
                store.add(SPACE, "b", ids(10_000), many)
            assert store.search(SPACE, vectors(1, 2)[0], 50) == before
            resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
            store.add(SPACE, "b", ids(10_000), many)
            say(str(store.count(SPACE)))

    with child(work) as process:
        assert process.hear_all() == ["10020"]
        assert process.wait() == 0
    with VectorStore(tmp_path) as store:
        assert store.search(SPACE, many[77], 1)[0].id == "d77"
        assert store.mend(deep=True) == 0


def test_every_point_of_the_vectors_is_tested() -> None:
    """Each point that `points.POINTS` names for them has a case here."""
    assert {case.point for case in CASES} == {
        point for point in points.POINTS if point.startswith("vectors.")
    }
