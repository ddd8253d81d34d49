"""sessions/locks.py: who holds a session, across processes that are killed, stopped, forked and slow."""

from __future__ import annotations

import os
import time
from functools import partial
from pathlib import Path

import msgspec
import pytest

from engine.children import child
from engine.threads import together
from stratalog import osfiles
from stratalog.errors import StorageFailed
from stratalog.sessions import locks
from stratalog.sessions.locks import Held, Hold, take

HOLDER = """
from stratalog.sessions.locks import Hold, take
hold = take(Path(sys.argv[1]), "theirs", float(sys.argv[2]))
say("held" if isinstance(hold, Hold) else "busy")
hear()
hold.release()
say("released")
hear()
"""


def mine(path: Path, deadline: float = 60.0) -> Hold:
    hold = take(path, "mine", deadline)
    assert isinstance(hold, Hold)
    return hold


def soon(path: Path, seconds: float = 1.0) -> Hold:
    """The hold on `path`, asked for until it is had, for at most so many seconds."""
    until = time.monotonic() + seconds
    while True:
        got = take(path, "mine", 60.0)
        if isinstance(got, Hold):
            return got
        assert time.monotonic() < until, f"still held: {got}"
        time.sleep(0.01)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "sessions" / "a.lock"


def test_one_holds_and_the_others_are_told_who(path: Path) -> None:
    """While one holds the session a second is told who does and until when, and gets it after the release."""
    with child(HOLDER, path, 60) as other:
        assert other.hear() == "held"
        held = take(path, "mine", 60.0)
        assert isinstance(held, Held)
        assert (held.pid, held.holder) == (other.pid, "theirs")
        assert locks.clock() < held.until < locks.clock() + 61
        other.tell()
        assert other.hear() == "released"
        mine(path).release()


def test_the_file_is_there_only_while_it_is_held(path: Path) -> None:
    """A release leaves no lock file, and releasing again does nothing."""
    hold = mine(path)
    assert path.stat().st_mode & 0o777 == 0o600
    hold.release()
    hold.release()
    assert os.listdir(path.parent) == []


def test_killing_the_holder_frees_the_session_within_a_second(path: Path) -> None:
    """After kill -9 of the holder the next take succeeds at once, long before the deadline."""
    with child(HOLDER, path, 3600) as other:
        assert other.hear() == "held"
        other.kill()
        hold = soon(path)
        assert not hold.took_over
        hold.release()


def test_what_a_dead_holder_wrote_does_not_matter(path: Path) -> None:
    """A file left by a dead process is free, whosever pid is in it: recycled, ours, another boot's."""
    path.parent.mkdir()
    for record in (
        Held(os.getpid(), "x", locks.clock() + 999, osfiles.boot_id()),
        Held(1, "x", locks.clock() + 999, osfiles.boot_id()),
        Held(1, "x", 0.0, "another boot"),
    ):
        path.write_bytes(msgspec.json.encode(record))
        mine(path).release()
    path.write_bytes(b"\0\0 no record")
    mine(path).release()


def test_a_stopped_holder_loses_the_session_at_its_deadline(path: Path) -> None:
    """A SIGSTOPped holder keeps the session until its deadline; then another takes it, and its release on
    waking leaves the new holder's file alone."""
    with child(HOLDER, path, 0.3) as other:
        assert other.hear() == "held"
        other.stop()
        hold = soon(path, 10.0)
        assert hold.took_over
        other.go_on()
        other.tell()
        assert other.hear() == "released"
        assert hold.in_place
        assert isinstance(take(path, "third", 60.0), Held)
        hold.release()
        assert os.listdir(path.parent) == []


def test_a_holder_before_its_deadline_keeps_it(path: Path) -> None:
    """Being stopped is no reason to lose the session before its deadline."""
    with child(HOLDER, path, 3600) as other:
        assert other.hear() == "held"
        other.stop()
        assert isinstance(take(path, "mine", 60.0), Held)
        other.go_on()


def test_a_holder_of_the_same_process_loses_it_too(path: Path) -> None:
    """Past the deadline a hold of the same process is taken over like any other, and cannot be renewed."""
    first = mine(path, 0.01)
    second = soon(path)
    assert second.took_over
    assert not first.renew("first", 60.0)
    first.release()
    assert second.in_place
    second.release()


def test_a_renewed_hold_lasts_from_then_on(path: Path) -> None:
    """Renewing names another holder and gives it its own deadline."""
    hold = mine(path, 0.01)
    assert hold.renew("longer", 60.0)
    held = take(path, "x", 1.0)
    assert isinstance(held, Held)
    assert held.holder == "longer"
    assert hold.renew("s", 60.0)  # a shorter record leaves nothing of the longer one
    held = take(path, "x", 1.0)
    assert isinstance(held, Held)
    assert held.holder == "s"
    hold.release()
    assert not hold.renew("late", 60.0)


def test_a_forked_child_does_not_keep_its_parents_lock(path: Path, tmp_path: Path) -> None:
    """When the holder dies, its forked child that lives on does not hold the session."""
    script = """
    from stratalog.sessions.locks import take
    from stratalog.sessions.manager import SessionManager
    manager = SessionManager(lock_path=None)
    hold = take(Path(sys.argv[1]), "theirs", 3600)
    pid = os.fork()
    if pid == 0:
        say("forked")
        time.sleep(60)
        os._exit(0)
    hear()
    """
    with child(script, path) as other:
        assert other.hear() == "forked"
        assert isinstance(take(path, "mine", 60.0), Held)
        other.kill()
        soon(path).release()


def test_a_process_started_by_the_holder_does_not_keep_the_lock(path: Path) -> None:
    """Programs that the holder starts do not inherit its lock."""
    script = """
    import subprocess
    from stratalog.sessions.locks import take
    hold = take(Path(sys.argv[1]), "theirs", 3600)
    started = subprocess.Popen(["sleep", "60"])
    say(started.pid)
    hear()
    """
    with child(script, path) as other:
        pid = int(other.hear())
        other.kill()
        try:
            soon(path).release()
        finally:
            os.kill(pid, 9)


def test_of_many_takers_one_gets_it(path: Path) -> None:
    """However many threads take an overdue session at once, exactly one has it in the end."""
    stale = mine(path, 0.001)
    time.sleep(0.01)
    holds: list[Hold] = []

    def run() -> None:
        got = take(path, "x", 60.0)
        if isinstance(got, Hold):
            holds.append(got)

    together(*[run] * 8)
    assert [hold.in_place for hold in holds] == [True]
    stale.release()
    holds[0].release()


def test_takers_and_releasers_never_hold_it_twice(path: Path) -> None:
    """Threads that take and release as fast as they can, some of them overdue at once, are never in it
    together while both are within their time."""
    inside: list[str] = []
    clashes: list[str] = []

    def run(name: str) -> None:
        for _ in range(150):
            got = take(path, name, 60.0)
            if isinstance(got, Hold):
                inside.append(name)
                if len(inside) > 1:
                    clashes.append(name)
                inside.remove(name)
                got.release()

    together(*(partial(run, f"t{number}") for number in range(6)))
    assert clashes == []
    assert os.listdir(path.parent) == []


def test_a_release_that_cannot_unlink_still_frees(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """When the system refuses to remove the file, the session is free all the same, and its owner is not
    disturbed."""

    def refuse(path: Path) -> None:
        raise PermissionError("no")

    hold = mine(path)
    monkeypatch.setattr(osfiles, "remove", refuse)
    hold.release()
    monkeypatch.undo()
    assert path.exists()
    mine(path).release()
    assert not path.exists()


def test_a_take_that_cannot_write_leaves_nothing_behind(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A full disk while the lock is written is a typed error, leaks no file and locks nobody out."""
    before = len(os.listdir("/proc/self/fd"))

    def full(fd: int, data: bytes, offset: int) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "pwrite", full)
    for _ in range(3):
        with pytest.raises(StorageFailed) as caught:
            take(path, "mine", 60.0)
        assert caught.value.where["path"] == str(path)
    monkeypatch.undo()
    assert len(os.listdir("/proc/self/fd")) == before
    mine(path).release()


def test_a_take_over_that_cannot_write_leaves_nothing_behind(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same when the session is taken from one that is overdue: no scratch file is left."""
    stale = mine(path, 0.001)
    time.sleep(0.01)

    def full(fd: int, data: bytes, offset: int) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "pwrite", full)
    with pytest.raises(StorageFailed):
        take(path, "mine", 60.0)
    monkeypatch.undo()
    assert os.listdir(path.parent) == [path.name]
    hold = mine(path)
    stale.release()
    hold.release()


def test_a_holder_stopped_before_it_said_anything_is_not_for_ever(path: Path) -> None:
    """A file that is locked but was not written for long is taken over; a young one is waited for."""
    script = """
    import fcntl
    fd = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
    fcntl.flock(fd, fcntl.LOCK_EX)
    say("locked")
    hear()
    """
    path.parent.mkdir()
    with child(script, path) as other:
        assert other.hear() == "locked"
        assert isinstance(take(path, "mine", 60.0), Held)
        old = time.time() - 60
        os.utime(path, (old, old))
        hold = mine(path)
        assert hold.took_over
        hold.release()


def test_an_outsider_is_seen_and_can_be_ousted(path: Path) -> None:
    """Who holds the session in another process can be looked at, and its name be freed; a later holder's
    is not."""
    with locks.outsider(path) as nobody:
        assert nobody is None
    with child(HOLDER, path, 3600) as other:
        assert other.hear() == "held"
        with locks.outsider(path) as found:
            assert found is not None
            assert found.held.pid == other.pid
            found.oust()
            hold = mine(path)
            found.oust()
            assert hold.in_place
        hold.release()
        other.tell()
        assert other.hear() == "released"


def test_what_a_dead_process_left_is_no_outsider(path: Path) -> None:
    """A lock file whose holder was killed is held by nobody."""
    with child(HOLDER, path, 3600) as other:
        assert other.hear() == "held"
        other.kill()
        until = time.monotonic() + 1.0
        while True:
            with locks.outsider(path) as found:
                if found is None:
                    break
            assert time.monotonic() < until
