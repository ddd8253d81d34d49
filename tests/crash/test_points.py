"""A process killed at each named point of the log: the disk has the state before, or the one after."""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from crash.processes import run
from stratalog import points
from stratalog.ids import derived_ulid
from stratalog.keys import session_key, session_paths
from stratalog.log.jsonl import JsonlStore
from stratalog.types import AnyEntry, TurnStart, User

_ELSEWHERE = ("meta.", "purge.", "purging.", "vectors.", "knowledge.")  # each room tests its own

pytestmark = pytest.mark.crash

KEY = session_key("agent", "channel", "chat")
BIG = 3000


def _store(root: Path) -> JsonlStore:
    return JsonlStore(root, blob_threshold=2000, lock_timeout=0.05)


def _entry(number: int, text: str = "") -> User:
    return User(content=text or f"entry {number}", id=derived_ulid(number, "points"), ts=number)


def _none(store: JsonlStore) -> None:
    pass


def _some(store: JsonlStore) -> None:
    store.append(KEY, [_entry(1), _entry(2), _entry(3, "y" * BIG)])
    store.append(KEY, [TurnStart(holder="h", id=derived_ulid(4, "points"), ts=4), _entry(5)])


def _sealed(store: JsonlStore) -> None:
    _some(store)
    store.seal(KEY, _entry(3).id)
    store.replace(KEY, [_entry(6), _entry(7)])


def _append(store: JsonlStore) -> None:
    store.append(KEY, [_entry(20), _entry(21)])


def _append_blobs(store: JsonlStore) -> None:
    store.append(KEY, [_entry(20, "a" * BIG), _entry(21, "b" * BIG)])


def _replace(store: JsonlStore) -> None:
    store.replace(KEY, [_entry(20), _entry(21, "b" * BIG)])


def _seal(store: JsonlStore) -> None:
    assert store.seal(KEY, _entry(2).id)


def _compress(store: JsonlStore) -> None:
    assert store.compress(KEY) > 0


def _delete(store: JsonlStore) -> None:
    assert store.delete(KEY)


class Case(NamedTuple):
    """At which arrival at which point of which operation a process dies, and what it must leave."""

    point: str
    nth: int
    before: Callable[[JsonlStore], None]
    act: Callable[[JsonlStore], None]
    after: bool  # whether the operation has taken place
    held: bool = False  # whether a stopped writer holds the log

    def __str__(self) -> str:
        return f"{self.act.__name__[1:]}-{self.point}-{self.nth}"


CASES = [
    Case("create.written", 1, _none, _append, False),
    Case("create.renamed", 1, _none, _append, True),
    Case("create.written", 1, _none, _replace, False),
    Case("create.renamed", 1, _none, _replace, True),
    Case("append.blob", 1, _none, _append_blobs, False),
    Case("append.written", 1, _some, _append, True),
    Case("append.synced", 1, _some, _append, True),
    Case("append.blob", 1, _some, _append_blobs, False),
    Case("append.blob", 2, _some, _append_blobs, False),
    Case("append.written", 1, _some, _append_blobs, True),
    Case("append.blob", 1, _sealed, _replace, False),
    Case("seal.archived", 1, _some, _seal, False),
    Case("seal.written", 1, _some, _seal, False),
    Case("seal.renamed", 1, _some, _seal, True),
    Case("seal.archived", 1, _sealed, _replace, False),
    Case("seal.written", 1, _sealed, _replace, False),
    Case("seal.renamed", 1, _sealed, _replace, True),
    Case("compress.written", 1, _sealed, _compress, False),
    Case("compress.renamed", 1, _sealed, _compress, False),
    Case("compress.written", 2, _sealed, _compress, False),
    Case("compress.renamed", 2, _sealed, _compress, True),
    Case("rotate.written", 1, _sealed, _append, False, held=True),
    Case("rotate.renamed", 1, _sealed, _append, False, held=True),
    Case("delete.renamed", 1, _sealed, _delete, True),
    Case("delete.archive", 1, _sealed, _delete, True),
    Case("delete.done", 1, _sealed, _delete, True),
]


class State(NamedTuple):
    """What a reader sees; fences differ from one log to another, so they are left out."""

    everything: list[AnyEntry]
    current: list[AnyEntry]
    sessions: list[object]


def _state(root: Path) -> State:
    store = _store(root)
    readings = [store.read(KEY, generations="all"), store.read(KEY)]
    entries = [[_unfenced(entry) for entry in reading] for reading in readings]
    backwards = [_unfenced(entry) for entry in store.read(KEY, generations="all", reverse=True)]
    assert backwards[::-1] == entries[0]
    assert [reading.problems for reading in readings] == [[], []]
    return State(entries[0], entries[1], list(store.sessions()))


def _unfenced(entry: AnyEntry) -> AnyEntry:
    if isinstance(entry, TurnStart):
        return TurnStart(holder=entry.holder, id=entry.id, ts=entry.ts, seq=entry.seq)
    return entry


def _die_at(case: Case, root: Path) -> None:
    held = os.open(session_paths(root, KEY).log, os.O_RDWR) if case.held else -1
    if case.held:
        fcntl.flock(held, fcntl.LOCK_EX)

    def work(say: object) -> None:
        points.arm(case.point, case.nth)
        case.act(_store(root))

    assert run(work) == -signal.SIGKILL, "the point was not reached"
    if case.held:
        os.close(held)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_point(case: Case, tmp_path: Path) -> None:
    """Killed there, the operation has wholly taken place or not at all; the log verifies; all goes on."""
    root, twin = tmp_path / "data", tmp_path / "twin"
    store = _store(root)
    case.before(store)
    store.close()
    if root.exists():
        shutil.copytree(root, twin)
    before = _state(root)
    case.act(_store(twin))
    after = _state(twin)

    _die_at(case, root)

    assert _state(root) == (after if case.after else before)
    store = _store(root)
    if store.head(KEY) is not None:
        bad = [p for p in store.verify(KEY).problems if "seal that did not" not in p.reason]
        assert bad == []
    # All goes on: the operation works when it has not taken place, and so does an append.
    if not case.after:
        case.act(store)
        assert _state(root) == after
    store.append(KEY, [_entry(50)])
    assert list(store.read(KEY))[-1].id == _entry(50).id
    # What was left over is gone after the next seal and a sweep.
    store.replace(KEY, [])
    store.sweep()
    assert list(store.unfinished_files()) == []
    assert [str(path) for path in root.rglob("*") if ".tmp-" in path.name or ".deleted" in path.name] == []
    assert store.verify(KEY).problems == ()
    store.close()


def test_every_point_of_the_log_is_tested() -> None:
    """Each point that `points.POINTS` names for the log has a case here."""
    of_the_log = {point for point in points.POINTS if not point.startswith(_ELSEWHERE)}
    assert {case.point for case in CASES} == of_the_log
