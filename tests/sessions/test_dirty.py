"""sessions/dirty.py: what changed is noted before it changes, and no note is ever lost."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from engine.children import Child
from stratalog.errors import StorageFull
from stratalog.keys import SessionKey, session_key
from stratalog.sessions.dirty import FILE, DirtyJournal


def key(name: object) -> SessionKey:
    return session_key("a", "cli", str(name))


def test_what_is_marked_is_taken_once_it_is_done(tmp_path: Path) -> None:
    """A mark is taken, again and again until it is done, and then no more."""
    journal = DirtyJournal(tmp_path)
    journal.mark(key(1))
    journal.mark(key(1))
    journal.mark(key("漢 字"))
    assert journal.take().keys == {key(1), key("漢 字")}
    taken = journal.take()
    assert taken.keys == {key(1), key("漢 字")}
    taken.done()
    assert journal.take().keys == set()
    assert os.listdir(tmp_path) == []
    journal.mark(key(1))
    assert journal.take().keys == {key(1)}
    journal.close()


def test_the_file_is_private_and_does_not_grow_with_every_mark(tmp_path: Path) -> None:
    """One line a session however often it is written to; nobody else may read it."""
    journal = DirtyJournal(tmp_path / "tenant")
    for _ in range(100):
        journal.mark(key(1))
    file = tmp_path / "tenant" / FILE
    assert file.read_text().split() == [str(key(1))]
    assert file.stat().st_mode & 0o777 == 0o600
    journal.close()


def test_a_mark_after_a_take_is_for_the_next(tmp_path: Path) -> None:
    """One who marked before is not taken to have marked since."""
    writer, reader = DirtyJournal(tmp_path), DirtyJournal(tmp_path)
    writer.mark(key(1))
    taken = reader.take()
    writer.mark(key(1))
    taken.done()
    assert reader.take().keys == {key(1)}
    writer.close()


def test_one_who_takes_and_dies_loses_nothing(tmp_path: Path) -> None:
    """What was taken and not finished is taken by the next, together with what is new."""
    journal = DirtyJournal(tmp_path)
    journal.mark(key(1))
    DirtyJournal(tmp_path).take()
    journal.mark(key(2))
    assert DirtyJournal(tmp_path).take().keys == {key(1), key(2)}
    journal.close()


def test_lines_that_are_no_keys_are_passed_over(tmp_path: Path) -> None:
    """A torn line, NULs or nonsense hide no other line."""
    (tmp_path / FILE).write_bytes(b"local/a:cl\0\0\n\xff\xfe\n\nnonsense\nlocal/a:cli:1\nlocal/a:cli:2")
    journal = DirtyJournal(tmp_path)
    journal.mark(key(3))
    assert {key(1), key(3)} <= journal.take().keys
    journal.close()


def test_half_a_line_of_a_full_disk_spoils_no_mark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A mark that could not be written is a typed error; the next one stands on a line of its own."""
    journal = DirtyJournal(tmp_path)
    write = os.write

    def half(fd: int, data: bytes) -> int:
        if len(data) > 5:
            return write(fd, data[:5])
        raise OSError(28, "No space left on device")

    journal.mark(key(0))
    monkeypatch.setattr(os, "write", half)
    with pytest.raises(StorageFull):
        journal.mark(key(1))
    monkeypatch.undo()
    journal.mark(key(1))
    assert {key(0), key(1)} <= journal.take().keys
    journal.close()


def test_threads_that_mark_and_take_miss_nothing(tmp_path: Path) -> None:
    """Every mark that returned is in a take that began after it, however marks and takes race."""
    journal = DirtyJournal(tmp_path)
    seen: set[SessionKey] = set()
    stop = threading.Event()

    def taker() -> None:
        while not stop.is_set():
            taken = journal.take()
            seen.update(taken.keys)
            taken.done()

    def marker(name: int) -> None:
        for number in range(200):
            journal.mark(key(f"{name}-{number}"))

    takers = [threading.Thread(target=taker) for _ in range(2)]
    markers = [threading.Thread(target=marker, args=(name,)) for name in range(3)]
    for thread in takers + markers:
        thread.start()
    for thread in markers:
        thread.join()
    stop.set()
    for thread in takers:
        thread.join()
    seen |= journal.take().keys
    assert seen == {key(f"{name}-{number}") for name in range(3) for number in range(200)}
    journal.close()


@pytest.mark.crash
def test_processes_that_mark_and_take_miss_nothing(tmp_path: Path) -> None:
    """The same between processes: each mark is seen by a take that began after it."""
    script = """
    from stratalog.keys import session_key
    from stratalog.sessions.dirty import DirtyJournal
    journal = DirtyJournal(Path(sys.argv[1]))
    say("up")
    hear()
    for number in range(400):
        journal.mark(session_key("a", "cli", f"{sys.argv[2]}-{number}"))
        if number % 7 == 0: time.sleep(0.0005)
    say("done")
    """
    markers = [Child(script, tmp_path, name) for name in "xyz"]
    try:
        for marker in markers:
            assert marker.hear() == "up"
        for marker in markers:
            marker.tell()
        journal = DirtyJournal(tmp_path)
        seen: set[SessionKey] = set()
        left = list(markers)
        while left:
            taken = journal.take()
            seen |= taken.keys
            taken.done()
            left = [marker for marker in left if marker.process.poll() is None]
        seen |= journal.take().keys
        assert seen == {key(f"{name}-{number}") for name in "xyz" for number in range(400)}
    finally:
        for marker in markers:
            marker.kill()
