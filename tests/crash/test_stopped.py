"""A writer stopped in the middle (SIGSTOP) and woken later: one author at a time, and nothing is lost."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from crash.processes import PATIENCE, Child, Say, child, run
from stratalog import points
from stratalog.errors import StaleFence
from stratalog.keys import SessionKey, session_key, session_paths
from stratalog.log.jsonl import JsonlStore
from stratalog.types import AnyEntry, TurnStart, User

pytestmark = pytest.mark.crash

KEY = session_key("agent", "channel", "chat")
LOG = "log"


def _stop() -> None:
    os.kill(os.getpid(), signal.SIGSTOP)


def _fence(store: JsonlStore, holder: str) -> int:
    (start,) = store.append(KEY, [TurnStart(holder=holder)])
    assert isinstance(start, TurnStart)
    return start.fence


def _texts(root: Path) -> list[str]:
    """What the session holds in order; a turn's start stands for its holder."""
    store = JsonlStore(root)
    verified = store.verify(KEY)
    assert verified.problems == ()
    entries = list(store.read(KEY))
    assert [entry.seq for entry in entries] == list(range(1, len(entries) + 1))
    return [_text(entry) for entry in entries]


def _text(entry: AnyEntry) -> str:
    if isinstance(entry, TurnStart):
        return f"turn of {entry.holder}"
    assert isinstance(entry, User)
    return entry.text


def _take_over(root: Path) -> None:
    """Another process takes the session and writes under its own fence."""

    def work(say: Say) -> None:
        store = JsonlStore(root, lock_timeout=0.3)
        fence = _fence(store, "second")
        store.append(KEY, [User(content="second 1"), User(content="second 2")], fence=fence)

    assert run(work) == 0


def _first(root: Path, arm: Callable[[int], None], say: Say) -> None:
    """Writes under its fence as fast as it can, until it is refused; `arm` may stop it at a call."""
    calls = 0

    def on_write(key: SessionKey) -> None:
        nonlocal calls
        calls += 1
        arm(calls)

    store = JsonlStore(root, on_write=on_write)
    fence = _fence(store, "first")
    number = 0
    while True:
        number += 1
        try:
            store.append(KEY, [User(content=f"first {number}")], fence=fence)
        except StaleFence:
            say("stale")
            return
        say(f"first {number}")


def _check_takeover(root: Path, heard: list[str]) -> None:
    assert heard[-1] == "stale"
    texts = _texts(root)
    taken = texts.index("turn of second")
    assert texts[taken:] == ["turn of second", "second 1", "second 2"]
    assert texts[0] == "turn of first"
    mine = texts[1:taken]
    # All that was acknowledged, in order; at most the one append under way besides.
    assert mine == [f"first {number}" for number in range(1, len(mine) + 1)]
    assert len(mine) == len(heard) - 1


STOPS: dict[str, Callable[[int], None]] = {
    "before the bytes": lambda call: _stop() if call == 5 else None,
    "append.written": lambda call: points.arm("append.written", act=_stop) if call == 5 else points.disarm(),
    "append.synced": lambda call: points.arm("append.synced", act=_stop) if call == 5 else points.disarm(),
}


@pytest.mark.parametrize("stop", STOPS)
def test_a_stopped_holder_is_refused_when_it_wakes(stop: str, tmp_path: Path) -> None:
    """Stopped inside an append: another takes over, and the first gets StaleFence; nothing interleaves."""
    with child(lambda say: _first(tmp_path, STOPS[stop], say)) as first:
        first.stopped()
        _take_over(tmp_path)
        first.signal(signal.SIGCONT)
        heard = first.hear_all()
        assert first.wait() == 0
    _check_takeover(tmp_path, heard)
    store = JsonlStore(tmp_path)
    store.sweep()
    assert list(store.unfinished_files()) == []


@pytest.mark.parametrize("seed", range(12))
def test_a_holder_stopped_at_random(seed: int, tmp_path: Path) -> None:
    """Stopped anywhere in a tight loop of appends: the same."""
    with child(lambda say: _first(tmp_path, lambda call: None, say)) as first:
        heard = [first.hear() for _ in range(3)]
        time.sleep(random.random() * 0.005)
        first.signal(signal.SIGSTOP)
        first.stopped()
        _take_over(tmp_path)
        first.signal(signal.SIGCONT)
        heard += first.hear_all()
        assert first.wait() == 0
    _check_takeover(tmp_path, [text for text in heard if text is not None])


def _unfenced(root: Path, stop: str, lock_timeout: float, say: Say) -> None:
    """Three appends without a fence; it stops itself within the second."""
    calls = 0

    def on_write(key: SessionKey) -> None:
        nonlocal calls
        calls += 1
        STOPS[stop](5 if calls == 2 else 0)

    store = JsonlStore(root, on_write=on_write, lock_timeout=lock_timeout)
    for number in (1, 2, 3):
        (stored,) = store.append(KEY, [User(content=f"arrival {number}")])
        say(f"{stored.seq} {stored.id} {_text(stored)}")


def _check_arrivals(root: Path, heard: list[str]) -> list[str]:
    """Each arrival is there once, where its append said."""
    store = JsonlStore(root)
    entries = list(store.read(KEY))
    assert [line.split(" ", 2)[2] for line in heard] == ["arrival 1", "arrival 2", "arrival 3"]
    for line in heard:
        seq, entry_id, text = line.split(" ", 2)
        assert [entry.id for entry in entries if _text(entry) == text] == [entry_id]
        assert entries[int(seq) - 1].id == entry_id
    return _texts(root)


@pytest.mark.parametrize("stop", STOPS)
def test_a_stopped_arrival_is_appended_once(stop: str, tmp_path: Path) -> None:
    """An append without a fence that was stopped succeeds when it wakes, exactly once."""
    with child(lambda say: _unfenced(tmp_path, stop, 10.0, say)) as arrival:
        arrival.stopped()
        _take_over(tmp_path)
        arrival.signal(signal.SIGCONT)
        heard = arrival.hear_all()
        assert arrival.wait() == 0
    texts = _check_arrivals(tmp_path, heard)
    assert sorted(texts) == sorted(
        ["arrival 1", "arrival 2", "arrival 3", "turn of second", "second 1", "second 2"]
    )


def _rotator(root: Path, point: str, act: Callable[[], None] | None, say: Say) -> None:
    """Takes over, but is stopped or killed while it copies the log of the stopped writer."""
    points.arm(point, act=act)
    store = JsonlStore(root, lock_timeout=0.05)
    store.append(KEY, [User(content="second")])
    say("done")


def _grown(path: Path, size: int) -> None:
    deadline = time.monotonic() + PATIENCE
    while path.stat().st_size <= size:
        assert time.monotonic() < deadline
        time.sleep(0.001)


@pytest.mark.parametrize("dies", [False, True])
def test_nothing_written_during_the_copy_is_lost(dies: bool, tmp_path: Path) -> None:
    """A writer that wakes after its log was copied, and before the copy is in place, is in the copy too, or
    acknowledges nothing; also when the one that copies dies right after."""
    log = session_paths(tmp_path, KEY).log

    def rotate(say: Say) -> None:
        if dies:
            points.arm("rotate.renamed")
        _rotator(tmp_path, "rotate.written", _stop, say)

    with child(lambda say: _unfenced(tmp_path, "before the bytes", 30.0, say)) as arrival:
        arrival.stopped()
        size = log.stat().st_size
        with child(rotate) as second:
            second.stopped()
            arrival.signal(signal.SIGCONT)
            _grown(log, size)  # it has written to the file that is about to be left behind
            time.sleep(0.05)  # so that it would acknowledge it, if it were to
            second.signal(signal.SIGCONT)
            assert second.hear_all() == ([] if dies else ["done"])
            heard = arrival.hear_all()
            assert arrival.wait() == 0
    want = ["arrival 1", "arrival 2", "arrival 3"]
    assert sorted(_check_arrivals(tmp_path, heard)) == (want if dies else [*want, "second"])


@pytest.mark.parametrize("stop", STOPS)
@pytest.mark.parametrize("point", ["rotate.written", "rotate.renamed"])
def test_who_copies_a_log_may_die(point: str, stop: str, tmp_path: Path) -> None:
    """Whoever copies the log is killed: the stopped writer goes on as if nobody had come, or in the copy."""

    def dies(say: Say) -> None:
        _rotator(tmp_path, point, None, say)

    with child(lambda say: _unfenced(tmp_path, stop, 10.0, say)) as arrival:
        arrival.stopped()
        assert run(dies) == -signal.SIGKILL
        arrival.signal(signal.SIGCONT)
        heard = arrival.hear_all()
        assert arrival.wait() == 0
    assert _check_arrivals(tmp_path, heard) == ["arrival 1", "arrival 2", "arrival 3"]
    assert session_paths(tmp_path, KEY).log.stat().st_mode & 0o7777 == 0o600


@pytest.mark.parametrize("point", ["append.written", "append.synced"])
def test_a_killed_holder_frees_its_lock(point: str, tmp_path: Path) -> None:
    """The lock of a process that was killed in an append is free at once, not after `lock_timeout`."""

    def dies(say: Say) -> None:
        store = JsonlStore(tmp_path)
        store.append(KEY, [User(content="1")])
        points.arm(point)
        store.append(KEY, [User(content="2")])

    assert run(dies) == -signal.SIGKILL
    heard: list[str] = []
    store = JsonlStore(tmp_path, lock_timeout=60.0, on_problem=lambda problem: heard.append(problem.reason))
    began = time.monotonic()
    store.append(KEY, [User(content="3")])
    assert time.monotonic() - began < 1.0
    assert heard == []
    assert _texts(tmp_path) == ["1", "2", "3"]


def test_a_stopped_holder_killed_later(tmp_path: Path) -> None:
    """A holder that never wakes costs the others one `lock_timeout`, and they hear of it."""
    heard: list[str] = []
    stopped: Child
    with child(lambda say: _unfenced(tmp_path, "append.written", 10.0, say)) as stopped:
        stopped.stopped()
        store = JsonlStore(tmp_path, lock_timeout=0.1, on_problem=lambda p: heard.append(p.reason))
        store.append(KEY, [User(content="second")])
        store.append(KEY, [User(content="third")])
        assert len(heard) == 1
        assert "left behind" in heard[0]
    assert _texts(tmp_path) == ["arrival 1", "arrival 2", "second", "third"]
