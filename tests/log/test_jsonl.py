"""Each promise of the log on disk, as docs/format.md states them, with the damage that it is there for."""

from __future__ import annotations

import errno
import os
import re
import stat
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from stratalog import osfiles
from stratalog.errors import (
    DamagedLog,
    ForeignFile,
    InvalidConfig,
    InvalidEntry,
    NewerFormat,
    StorageFailed,
    StorageFull,
)
from stratalog.ids import new_ulid
from stratalog.keys import SessionKey, SessionPaths, session_key, session_paths
from stratalog.log import archive, codec
from stratalog.log.contract import Problem
from stratalog.log.jsonl import JsonlStore
from stratalog.log.segment import TORN
from stratalog.testing.temporary import temporary_store, unsound
from stratalog.types import (
    AnyEntry,
    Blob,
    Image,
    Note,
    System,
    Text,
    TurnEnd,
    TurnStart,
    User,
)

KEY = session_key("agent", "channel", "chat")
OTHER = session_key("agent", "channel", "other")


def _texts(store: JsonlStore, key: SessionKey = KEY, **how: Any) -> list[str]:
    return [_text(entry) for entry in store.read(key, **how)]


def _text(entry: AnyEntry) -> str:
    if isinstance(entry, Note):
        return f"note {entry.kind}"
    assert isinstance(entry, User)
    return entry.text


def _say(store: JsonlStore, *texts: str, key: SessionKey = KEY) -> list[AnyEntry]:
    """Appends each text on its own."""
    return [store.append(key, [User(content=text)])[0] for text in texts]


@pytest.fixture
def paths(tmp_path: Path) -> SessionPaths:
    return session_paths(tmp_path, KEY)


class Calls:
    """Counts what the store asks of the system."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.events: list[str] = []
        sync, sync_dir, rename, mkdir = osfiles.sync, osfiles.sync_dir, os.rename, os.mkdir

        def synced(fd: int) -> None:
            self.events.append("sync")
            sync(fd)

        def synced_dir(path: Path) -> None:
            self.events.append(f"sync {Path(path).name}/")
            sync_dir(path)

        def renamed(source: Any, target: Any) -> None:
            self.events.append(f"rename {Path(target).name}")
            rename(source, target)

        def made(path: Any, mode: int = 0o777) -> None:
            self.events.append(f"mkdir {Path(path).name}")
            mkdir(path, mode)

        patch.setattr(osfiles, "sync", synced)
        patch.setattr(osfiles, "sync_dir", synced_dir)
        patch.setattr(os, "rename", renamed)
        patch.setattr(os, "mkdir", made)

    def during(self, act: Callable[[], Any]) -> list[str]:
        self.events.clear()
        act()
        return list(self.events)


# --- when it is on the disk ---


def test_always_syncs_before_an_append_returns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With `always`: one sync an append, however many entries; the name too at the first after an open."""
    calls = Calls(monkeypatch)
    with temporary_store(JsonlStore(tmp_path)) as store:
        _say(store, "made")
        assert calls.during(lambda: _say(store, "1")) == ["sync", "sync sessions/"]
        assert calls.during(lambda: _say(store, "2")) == ["sync"]
        assert calls.during(lambda: store.append(KEY, [User(content=str(n)) for n in range(50)])) == ["sync"]


def test_turn_syncs_when_a_turn_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With `turn`: nothing until a TurnEnd, whose append syncs all before it; closing syncs too."""
    calls = Calls(monkeypatch)
    with temporary_store(JsonlStore(tmp_path, sync="turn")) as store:
        _say(store, "made")
        assert calls.during(lambda: _say(store, "1", "2")) == []
        end = [User(content="3"), TurnEnd(status="answered")]
        assert calls.during(lambda: store.append(KEY, end)) == ["sync", "sync sessions/"]
        _say(store, "4")
        assert calls.during(store.close) == ["sync"]


def test_interval_syncs_when_its_time_has_passed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With `interval`: at the first append, and then when so many seconds have passed; closing syncs too."""
    now = 1000.0
    monkeypatch.setattr("stratalog.log.writer.time.monotonic", lambda: now)
    calls = Calls(monkeypatch)
    with temporary_store(JsonlStore(tmp_path, sync="interval", interval=5.0)) as store:
        _say(store, "made")
        assert "sync" in calls.during(lambda: _say(store, "1"))
        now += 4.9
        assert calls.during(lambda: _say(store, "2")) == []
        now += 0.2
        assert calls.during(lambda: _say(store, "3")) == ["sync"]
        assert calls.during(store.close) == ["sync"]


def test_never_syncs_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With `never`: no sync of an append, not even when closing."""
    calls = Calls(monkeypatch)
    with temporary_store(JsonlStore(tmp_path, sync="never")) as store:
        _say(store, "made")
        assert calls.during(lambda: store.append(KEY, [TurnEnd(status="answered")])) == []
        assert calls.during(store.close) == []


def test_an_unknown_policy_is_refused(tmp_path: Path) -> None:
    """A misspelt policy is no silent `never`."""
    with pytest.raises(InvalidConfig):
        JsonlStore(tmp_path, sync="allways")  # type: ignore[arg-type] - on purpose


def test_names_are_synced_after_create_and_rename(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each directory's parent is synced when it is made, and the directory of each file after its rename."""
    calls = Calls(monkeypatch)
    with temporary_store(JsonlStore(tmp_path / "data", blob_threshold=100)) as store:
        log = session_paths(tmp_path / "data", KEY).log.name
        made = calls.during(lambda: _say(store, "made"))
        parents = {"data": tmp_path.name, "local": "data", "agents": "local", "agent": "agents"}
        for name, parent in {**parents, "sessions": "agent"}.items():
            assert made[made.index(f"mkdir {name}") + 1] == f"sync {parent}/"
        assert made[-3:] == ["sync", f"rename {log}", "sync sessions/"]

        blob = calls.during(lambda: _say(store, "x" * 200))
        (renamed,) = [at for at, event in enumerate(blob) if event.startswith("rename")]
        assert blob[renamed - 1] == "sync"
        assert blob[renamed + 1].endswith(".blobs/")
        assert blob[renamed + 2] == "sync"

        kept = _say(store, "kept")[0].id
        sealed = calls.during(lambda: store.seal(KEY, kept))
        assert [event for event in sealed if event.startswith(("rename", "sync "))][-4:] == [
            "rename 00000001-1.jsonl",
            "sync channel~chat.archive/",
            f"rename {log}",
            "sync sessions/",
        ]
        packed = calls.during(lambda: store.compress(KEY))
        assert packed == ["sync", "rename 00000001-1.jsonl.zst", "sync channel~chat.archive/"]
        assert calls.during(lambda: store.delete(KEY))[:2] == [
            "rename channel~chat.deleted",
            "sync sessions/",
        ]


def test_a_payload_that_is_there_already_is_synced_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever wrote the same payload first may have died before syncing its name: the next one does it."""
    with temporary_store(JsonlStore(tmp_path, blob_threshold=100)) as store:
        _say(store, "x" * 200)
        calls = Calls(monkeypatch)
        events = calls.during(lambda: _say(store, "x" * 200))
        assert "sync channel~chat.blobs/" in events
        assert [event for event in events if event.startswith("rename")] == []


def test_threads_share_a_sync(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Appends that wait while another is being synced are written together, with one sync."""
    store = JsonlStore(tmp_path)
    _say(store, "made", "opened")
    inside, go = threading.Event(), threading.Event()
    syncs: list[int] = []
    sync = osfiles.sync

    def slow(fd: int) -> None:
        syncs.append(fd)
        inside.set()
        assert go.wait(60)
        sync(fd)

    monkeypatch.setattr(osfiles, "sync", slow)
    first = threading.Thread(target=_say, args=(store, "first"))
    first.start()
    assert inside.wait(60)
    others = [threading.Thread(target=_say, args=(store, f"other {n}")) for n in range(10)]
    for thread in others:
        thread.start()
    log = store._log(KEY)
    while len(log.queue) < 10:
        pass
    go.set()
    for thread in [first, *others]:
        thread.join()
    with temporary_store(store):
        assert len(_texts(store)) == 13
    assert len(syncs) == 2


# --- what fails is undone ---


def _failing(patch: pytest.MonkeyPatch, error: int, *, after: int = 0) -> None:
    """The next write puts `after` bytes on the disk, and then fails."""
    write = os.write
    left = after

    def short(fd: int, data: Any) -> int:
        nonlocal left
        if left:
            done = write(fd, bytes(data)[:left])
            left -= done
            return done
        raise OSError(error, os.strerror(error))

    patch.setattr(os, "write", short)


@pytest.mark.parametrize("after", [0, 1, 100, 300])
@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EDQUOT, errno.EIO])
def test_a_short_write_is_undone(error: int, after: int, tmp_path: Path, paths: SessionPaths) -> None:
    """Whatever part was written: a typed error, the file as it was, and the next append works."""
    with temporary_store(JsonlStore(tmp_path)) as store:
        _say(store, "1", "2")
        before = paths.log.read_bytes()
        with pytest.MonkeyPatch.context() as patch:
            _failing(patch, error, after=after)
            with pytest.raises(StorageFailed) as raised:
                store.append(KEY, [User(content="lost " * 20), User(content="lost " * 20)])
        assert isinstance(raised.value, StorageFull) == (error != errno.EIO)
        assert raised.value.where["path"] == str(paths.log)
        assert paths.log.read_bytes() == before
        assert [entry.seq for entry in _say(store, "3")] == [3]
        assert _texts(store) == ["1", "2", "3"]


def test_a_failed_sync_is_undone(tmp_path: Path, paths: SessionPaths) -> None:
    """What could not be synced is not in the log either."""
    with temporary_store(JsonlStore(tmp_path)) as store:
        _say(store, "1")
        before = paths.log.read_bytes()
        with pytest.MonkeyPatch.context() as patch:

            def fail(fd: int) -> None:
                raise OSError(errno.EIO, "broken")

            patch.setattr(osfiles, "sync", fail)
            with pytest.raises(StorageFailed):
                _say(store, "lost")
        assert paths.log.read_bytes() == before
        _say(store, "2")
        assert _texts(store) == ["1", "2"]


def test_an_interrupted_append_is_undone(tmp_path: Path) -> None:
    """Ctrl-C between the write and the sync: nothing of it stays, and other threads' appends are not lost."""
    with temporary_store(JsonlStore(tmp_path)) as store:
        _say(store, "1")
        with pytest.MonkeyPatch.context() as patch:

            def interrupted(fd: int) -> None:
                raise KeyboardInterrupt

            patch.setattr(osfiles, "sync", interrupted)
            with pytest.raises(KeyboardInterrupt):
                _say(store, "lost")
        _say(store, "2")
        assert _texts(store) == ["1", "2"]


def test_on_write_may_refuse(tmp_path: Path) -> None:
    """What `on_write` raises stops the write, whole, in append, replace, create and delete alike."""

    class Refused(Exception):
        pass

    heard: list[SessionKey] = []
    refuse = False

    def on_write(key: SessionKey) -> None:
        heard.append(key)
        if refuse:
            raise Refused

    with temporary_store(JsonlStore(tmp_path, on_write=on_write)) as store:
        _say(store, "1")
        store.replace(KEY, [User(content="2")])
        _say(store, "3")
        assert heard == [KEY] * 3
        refuse = True
        for act in (
            lambda: store.append(KEY, [User(content="x")]),
            lambda: store.replace(KEY, [User(content="x")]),
            lambda: store.delete(KEY),
            lambda: store.append(OTHER, [User(content="x")]),
            lambda: store.replace(OTHER, [User(content="x")]),
        ):
            with pytest.raises(Refused):
                act()
        assert _texts(store) == ["2", "3"]
        assert list(store.sessions()) == [KEY]
        refuse = False
        assert store.delete(KEY)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A real file system of 1 MB."""
    place = tmp_path / "disk"
    place.mkdir()
    made = (
        subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=1m,mode=700", "tmpfs", str(place)],
            capture_output=True,
            check=False,
        )
        if os.geteuid() == 0
        else None
    )
    if made is None or made.returncode:
        pytest.skip("only root can mount a small file system, and not everywhere")
    try:
        yield place
    finally:
        subprocess.run(["umount", str(place)], check=False)


def test_a_full_disk(small_disk: Path) -> None:
    """On a disk that is really full: StorageFull, the log as before; with space again, all works."""
    ballast = small_disk / "ballast"
    ballast.write_bytes(b"x" * 900_000)
    store = JsonlStore(small_disk / "data", blob_threshold=10_000)
    stored: list[AnyEntry] = []

    def fill() -> None:
        while True:
            stored.extend(store.append(KEY, [User(content="y" * 3000), User(content="z" * 3000)]))

    with pytest.raises(StorageFull):
        fill()
    assert list(store.read(KEY)) == stored
    for act in (
        lambda: store.append(KEY, [User(content="y" * 5000), User(content="y" * 5000)]),
        lambda: store.append(KEY, [User(content="payload" * 40_000)]),
        lambda: store.seal(KEY, stored[-2].id),
        lambda: store.replace(KEY, [User(content="y" * 5000)] * 30),
    ):
        with pytest.raises(StorageFull):
            act()
    assert list(store.read(KEY)) == stored
    assert unsound(store) == []
    ballast.unlink()
    with temporary_store(store):
        stored += store.append(KEY, [User(content="after"), User(content="payload" * 40_000)])
        assert store.seal(KEY, stored[-2].id)
        assert list(JsonlStore(small_disk / "data").read(KEY)) == stored
        assert list(store.unfinished_files()) == []


def test_a_disk_too_full_for_a_session(small_disk: Path) -> None:
    """A session that cannot be made leaves none behind, and can be made once there is space."""
    ballast = small_disk / "ballast"
    store = JsonlStore(small_disk / "data")
    _say(store, "there", key=OTHER)
    with pytest.raises(OSError, match="No space"):
        ballast.write_bytes(b"x" * 2_000_000)
    with pytest.raises(StorageFull):
        _say(store, "y" * 5000)
    assert list(store.sessions()) == [OTHER]
    ballast.unlink()
    with temporary_store(store):
        _say(store, "y" * 5000)
        assert set(store.sessions()) == {KEY, OTHER}


# --- a torn end ---


def _torn(path: Path, tail: bytes, cut: int = 0) -> bytes:
    """Damages the end of a log as a crash does; the bytes that are to go into quarantine."""
    data = path.read_bytes()
    kept = data[: len(data) - cut] if cut else data
    path.write_bytes(kept + tail)
    return kept[kept.rfind(b"\n") + 1 :] + tail


@pytest.mark.parametrize(
    ("tail", "cut"),
    [
        (b"", 2),
        (b"", 40),
        (b"", 90),
        (b'{"crc":"', 0),
        (b'{"crc":"00000000","type":"user","content":"half', 0),
        (b"\0" * 4096, 0),
        (b"\0" * 4096, 10),
        (b"\xff\xfe", 0),
        (b"x" * 300_000, 0),
    ],
)
def test_a_torn_end_is_quarantined(tail: bytes, cut: int, tmp_path: Path, paths: SessionPaths) -> None:
    """A torn last line is reported by a reading, moved to quarantine by the next write, and told."""
    store = JsonlStore(tmp_path)
    _say(store, "1", "2", "3")
    store.close()
    torn = _torn(paths.log, tail, cut)
    want = ["1", "2"] if cut else ["1", "2", "3"]

    before = paths.log.read_bytes()
    reading = JsonlStore(tmp_path).read(KEY)
    assert [_text(entry) for entry in reading] == want
    assert [(p.reason, p.length, p.offset) for p in reading.problems] == [
        (TORN, len(torn), len(before) - len(torn))
    ]
    assert [p.reason for p in store.verify(KEY).problems] == [TORN]
    assert paths.log.read_bytes() == before

    heard: list[Problem] = []
    with temporary_store(JsonlStore(tmp_path, on_problem=heard.append)) as store:
        assert [entry.seq for entry in _say(store, "next")] == [len(want) + 1]
        assert _texts(store) == [*want, "next"]
        (problem,) = heard
        assert (problem.path, problem.length, problem.key) == (str(paths.log), len(torn), str(KEY))
        assert Path(problem.quarantine).read_bytes() == torn
        note = msgspec.json.decode(Path(problem.quarantine).with_suffix(".json").read_bytes(), type=Problem)
        assert (note.offset, note.length) == (problem.offset, len(torn))
        assert store.verify(KEY).quarantined == 1


def test_an_append_of_several_is_there_whole_or_not(tmp_path: Path, paths: SessionPaths) -> None:
    """Torn anywhere within the lines of one append, also exactly between two: none of them is read."""
    store = JsonlStore(tmp_path)
    _say(store, "1")
    store.close()
    start = len(paths.log.read_bytes())
    store.append(KEY, [User(content="a"), User(content="b"), User(content="c")])
    store.close()
    whole = paths.log.read_bytes()
    breaks = [match.end() for match in re.finditer(b"\n", whole) if start < match.end() < len(whole)]
    assert len(breaks) == 2
    for cut in [*breaks, breaks[0] - 1, breaks[1] - 1, breaks[1] + 5, start + 1, len(whole) - 2]:
        paths.log.write_bytes(whole[:cut])
        reading = JsonlStore(tmp_path).read(KEY)
        assert [_text(entry) for entry in reading] == ["1"], cut
        assert [problem.offset for problem in reading.problems] == [start]
        backwards = JsonlStore(tmp_path).read(KEY, reverse=True)
        assert [_text(entry) for entry in backwards] == ["1"]
        with temporary_store(JsonlStore(tmp_path)) as again:
            assert _say(again, "2")[0].seq == 2
            assert _texts(again) == ["1", "2"]
        (kept,) = paths.quarantine.glob("*.bin")
        assert kept.read_bytes() == whole[start:cut]
        kept.unlink()


def test_a_whole_last_line_without_its_break_is_completed(tmp_path: Path, paths: SessionPaths) -> None:
    """An editor that dropped the last line break cost nothing: the entry is read, and the line completed."""
    store = JsonlStore(tmp_path)
    _say(store, "1", "2")
    store.close()
    data = paths.log.read_bytes()
    paths.log.write_bytes(data[:-1])
    reading = store.read(KEY)
    assert [_text(entry) for entry in reading] == ["1", "2"]
    assert reading.problems == []
    assert store.verify(KEY).problems == ()
    heard: list[Problem] = []
    with temporary_store(JsonlStore(tmp_path, on_problem=heard.append)) as store:
        _say(store, "3")
        assert _texts(store) == ["1", "2", "3"]
        assert paths.log.read_bytes().startswith(data)
        assert heard == []
    assert not paths.quarantine.exists()


def test_what_is_being_written_is_no_damage(tmp_path: Path, paths: SessionPaths) -> None:
    """A reader that meets the half-written line of a writer at work reads what is whole, without a word."""
    store = JsonlStore(tmp_path)
    _say(store, "1", "2")
    fd = os.open(paths.log, os.O_RDWR | os.O_APPEND)
    assert osfiles.try_lock(fd)
    os.write(fd, b'{"crc":"00000000","type":"us')
    reading = JsonlStore(tmp_path).read(KEY)
    assert [_text(entry) for entry in reading] == ["1", "2"]
    assert reading.problems == []
    os.close(fd)
    reading = JsonlStore(tmp_path).read(KEY)
    assert list(reading)
    assert [problem.reason for problem in reading.problems] == [TORN]


# --- damage in the middle ---


def _lines(path: Path) -> list[bytes]:
    return path.read_bytes().splitlines(keepends=True)


def _null(lines: list[bytes]) -> None:
    lines[3] = b"\0" * 300 + b"\n"


def _null_without_break(lines: list[bytes]) -> None:
    lines[3] = b"\0" * len(lines[3])


def _flip(lines: list[bytes]) -> None:
    lines[3] = lines[3].replace(b'"3"', b'"8"')


def _half(lines: list[bytes]) -> None:
    lines[3] = lines[3][:40]


def _rubbish(lines: list[bytes]) -> None:
    lines[3] = b"not json at all\xff\n"


def _split(lines: list[bytes]) -> None:
    lines[3] = lines[3][:60] + b"\n" + lines[3][60:]


def _without_checksum(lines: list[bytes]) -> None:
    lines[3] = b"{" + lines[3][18:]


MIDDLE = [_null, _null_without_break, _flip, _half, _rubbish, _split, _without_checksum]


@pytest.mark.parametrize("damage", MIDDLE)
def test_damage_in_the_middle_is_skipped_told_and_kept(
    damage: Callable[[list[bytes]], None], tmp_path: Path, paths: SessionPaths
) -> None:
    """One damaged line costs one entry, both ways; it is reported with its place, and stays as it is."""
    store = JsonlStore(tmp_path)
    _say(store, "1", "2", "3", "4", "5")
    store.close()
    lines = _lines(paths.log)
    damage(lines)
    paths.log.write_bytes(b"".join(lines))
    damaged = paths.log.read_bytes()

    store = JsonlStore(tmp_path)
    for reverse in (False, True):
        reading = store.read(KEY, reverse=reverse)
        found = [_text(entry) for entry in reading]
        assert found == (["5", "4", "2", "1"] if reverse else ["1", "2", "4", "5"])
        assert reading.problems
        for problem in reading.problems:
            assert problem.path == str(paths.log)
            assert len(b"".join(lines[:3])) <= problem.offset < damaged.index(b'"4"')
    assert {p.reason for p in store.verify(KEY).problems} >= {p.reason for p in reading.problems}
    assert _say(store, "6")[0].seq == 6
    assert paths.log.read_bytes().startswith(damaged)


@pytest.mark.parametrize("join", [b"", b" ", b"\0", b"}"])
def test_two_entries_on_one_line(join: bytes, tmp_path: Path, paths: SessionPaths) -> None:
    """A damaged line break costs no entry, but is reported."""
    store = JsonlStore(tmp_path)
    _say(store, "1", "2", "3", "4")
    store.close()
    lines = _lines(paths.log)
    lines[2] = lines[2][:-1] + join
    paths.log.write_bytes(b"".join(lines))
    for after, before in [(0, None), (1, None), (2, None), (1, 3), (0, 3), (2, 4)]:
        want = [str(n) for n in range(1, 5) if n > after and (before is None or n < before)]
        for reverse in (False, True):
            reading = store.read(KEY, after=after, before=before, reverse=reverse)
            assert [_text(entry) for entry in reading] == (want[::-1] if reverse else want)
    assert len(store.read(KEY).problems) == 0  # not read yet
    assert [p.length for p in store.verify(KEY).problems] == [len(join)]
    assert len(store.repair(KEY)) == 1
    with temporary_store(store):
        assert _texts(store) == ["1", "2", "3", "4"]


def test_damaged_lines_at_the_end_keep_their_numbers(tmp_path: Path, paths: SessionPaths) -> None:
    """A number that a damaged entry may have had is not given to another."""
    store = JsonlStore(tmp_path)
    _say(store, "1", "2", "3")
    store.close()
    lines = _lines(paths.log)
    lines[3] = lines[3].replace(b'"3"', b'"8"')
    paths.log.write_bytes(b"".join(lines))
    store = JsonlStore(tmp_path)
    assert _say(store, "4")[0].seq == 4
    assert _texts(store) == ["1", "2", "4"]


def test_blank_lines_at_the_end_are_no_entries(tmp_path: Path, paths: SessionPaths) -> None:
    """A blank line that an editor added takes no number."""
    store = JsonlStore(tmp_path)
    _say(store, "1", "2")
    store.close()
    with paths.log.open("ab") as file:
        file.write(b"\n\n")
    store = JsonlStore(tmp_path)
    assert _say(store, "3")[0].seq == 3
    assert _texts(store) == ["1", "2", "3"]


def test_lines_that_were_removed_are_missed(tmp_path: Path, paths: SessionPaths) -> None:
    """A whole line that is gone leaves no damaged bytes, but a reading says which numbers are missing."""
    store = JsonlStore(tmp_path)
    _say(store, *"12345678")
    store.close()
    lines = _lines(paths.log)
    paths.log.write_bytes(b"".join(lines[:3] + lines[5:]))
    for reverse in (False, True):
        reading = store.read(KEY, reverse=reverse)
        assert len(list(reading)) == 6
        assert [problem.reason for problem in reading.problems] == ["entries 3 to 4 are missing"]
    assert list(store.read(KEY, after=5)) != []
    assert [p.reason for p in store.verify(KEY).problems] == ["entry 3 should be here, not entry 5"]


# --- files that are not ours ---


def _header(**changes: Any) -> bytes:
    header = codec.Header(format=1, key=str(KEY), segment=1, generation=1, base=1, fence=0, created=0)
    return codec.header_line(msgspec.structs.replace(header, **changes))


FOREIGN: dict[str, tuple[bytes, type[Exception]]] = {
    "text": (b"hello\nworld\n", ForeignFile),
    "json lines": (b'{"type":"user","content":"a"}\n' * 3, ForeignFile),
    "binary": (bytes(range(256)) * 10, ForeignFile),
    "nul": (b"\0" * 4096, ForeignFile),
    "a line without end": (b"x" * 300_000, ForeignFile),
    "a header without end": (_header()[:-1], ForeignFile),
    "half a header": (_header()[:50], ForeignFile),
    "a damaged header": (_header().replace(b'"segment":1', b'"segment":2'), ForeignFile),
    "a newer format": (_header(format=2), NewerFormat),
    "a newer format of another form": (b'{"type":"stratalog","format":7,"k":[]}\n', NewerFormat),
    "another session's": (_header(key=str(OTHER)), ForeignFile),
    "a newline": (b"\n", ForeignFile),
}


@pytest.mark.parametrize("name", FOREIGN)
def test_a_file_that_is_not_ours_is_never_touched(name: str, tmp_path: Path, paths: SessionPaths) -> None:
    """Whatever is asked of it: a typed error that names the file, and every byte as it was."""
    data, error = FOREIGN[name]
    osfiles.make_dir(paths.log.parent)
    paths.log.write_bytes(data)
    heard: list[Problem] = []
    store = JsonlStore(tmp_path, on_problem=heard.append)
    acts: list[Callable[[], Any]] = [
        lambda: store.append(KEY, [User(content="a")]),
        lambda: store.append(KEY, [User(content="a")], fence=1),
        lambda: store.replace(KEY, [User(content="a")]),
        lambda: list(store.read(KEY)),
        lambda: store.head(KEY),
        lambda: store.seal(KEY, new_ulid()),
        lambda: store.compress(KEY),
        lambda: store.delete(KEY),
        lambda: store.repair(KEY),
    ]
    for act in acts:
        with pytest.raises(error) as raised:
            act()
        assert str(paths.log) in str(raised.value)
    assert list(store.sessions()) == []
    assert [problem.path for problem in heard] == [str(paths.log)]
    assert len(store.verify(KEY).problems) == 1
    store.sweep()
    store.close()
    assert paths.log.read_bytes() == data
    assert [path.name for path in paths.log.parent.iterdir()] == [paths.log.name]


def test_another_sessions_log_with_entries_is_never_touched(tmp_path: Path, paths: SessionPaths) -> None:
    """A whole log under the wrong name is not repaired into this session's."""
    store = JsonlStore(tmp_path)
    _say(store, "theirs", key=OTHER)
    store.close()
    session_paths(tmp_path, OTHER).log.rename(paths.log)
    data = paths.log.read_bytes()
    for act in (lambda: _say(store, "mine"), lambda: store.repair(KEY), lambda: store.delete(KEY)):
        with pytest.raises(ForeignFile):
            act()
    assert paths.log.read_bytes() == data


def test_an_empty_file_is_told_and_made_anew(tmp_path: Path, paths: SessionPaths) -> None:
    """A file of 0 bytes, as a full disk leaves: reported, and the next append makes the log."""
    osfiles.make_dir(paths.log.parent)
    paths.log.touch()
    heard: list[Problem] = []
    with temporary_store(JsonlStore(tmp_path, on_problem=heard.append)) as store:
        reading = store.read(KEY)
        assert list(reading) == []
        assert [problem.reason for problem in reading.problems] == ["the log is empty, without a header"]
        assert list(store.sessions()) == []
        assert [problem.path for problem in heard] == [str(paths.log)]
        assert len(store.verify(KEY).problems) == 1
        assert store.head(KEY) is None
        assert store.compress(KEY) == 0
        assert store.repair(KEY) == []
        assert paths.log.stat().st_size == 0
        _say(store, "1")
        assert _texts(store) == ["1"]


def test_an_empty_file_can_be_deleted(tmp_path: Path, paths: SessionPaths) -> None:
    """It is there, so deleting it says so."""
    osfiles.make_dir(paths.log.parent)
    paths.log.touch()
    store = JsonlStore(tmp_path)
    assert store.delete(KEY) is True
    assert list(paths.log.parent.iterdir()) == []


def test_a_directory_in_the_logs_place(tmp_path: Path, paths: SessionPaths) -> None:
    """What is no file at all is a typed error too."""
    osfiles.make_dir(paths.log)
    store = JsonlStore(tmp_path)
    for act in (lambda: _say(store, "a"), lambda: list(store.read(KEY)), lambda: store.delete(KEY)):
        with pytest.raises(StorageFailed):
            act()
    assert list(store.sessions()) == []


def test_the_longest_key_is_opened_again(tmp_path: Path) -> None:
    """With ids of 1,024 characters of four bytes each the first line has 16 KB: made and reopened."""
    long = "\U00020000" * 1024
    key = session_key(long, long, long, tenant=long)
    with temporary_store(JsonlStore(tmp_path)) as store:
        _say(store, "1", key=key)
        store.close()
        _say(store, "2", key=key)
        assert _texts(store, key) == ["1", "2"]
        assert list(store.sessions()) == [key]


# --- payloads ---


def test_payloads_are_files_by_hash(tmp_path: Path, paths: SessionPaths) -> None:
    """One file a hash, however often it is used, named by its SHA-256; the line has a reference."""
    image = bytes(range(256)) * 400
    with temporary_store(JsonlStore(tmp_path)) as store:
        given = [
            User(content="y" * 70_000),
            User(content=(Text(text="see"), Image(data=image), Image(data=image))),
            System(content="y" * 70_000),
            User(content=(Image(data=image),)),
        ]
        stored = store.append(KEY, given)
        assert len(list(paths.blobs.iterdir())) == 2
        assert paths.log.stat().st_size < 10_000
        assert list(store.read(KEY)) == stored
        (first, *_) = store.read(KEY, blobs=False)
        assert isinstance(first, User)
        assert first.blob is not None
        assert (paths.blobs / first.blob.sha256).read_bytes() == b"y" * 70_000
        assert store.blob(KEY, first.blob) == b"y" * 70_000
        assert (first.blob.size, first.blob.chars) == (70_000, 70_000)


@pytest.mark.parametrize("damage", ["missing", "flipped", "short", "empty"])
def test_a_damaged_payload_costs_only_itself(damage: str, tmp_path: Path, paths: SessionPaths) -> None:
    """It is reported, its entry comes with the reference and the others whole, and verify names the file."""
    store = JsonlStore(tmp_path, blob_threshold=1000)
    _say(store, "1", "a" * 5000, "b" * 5000, "4")
    (_, first, _, _) = store.read(KEY, blobs=False)
    assert isinstance(first, User)
    assert first.blob is not None
    path = paths.blobs / first.blob.sha256
    if damage == "missing":
        path.unlink()
    else:
        path.write_bytes({"flipped": b"a" * 4999 + b"x", "short": b"a" * 4999, "empty": b""}[damage])
    reading = store.read(KEY)
    entries = list(reading)
    assert [_text(entry)[:1] for entry in entries] == ["1", "a", "b", "4"]
    assert len(_text(entries[1])) == 2000
    assert len(_text(entries[2])) == 5000
    assert [problem.path for problem in reading.problems] == [str(path)]
    with pytest.raises(DamagedLog):
        store.blob(KEY, first.blob)
    (problem,) = store.verify(KEY).problems
    assert str(path) in problem.reason
    # Whoever appends the same payload again heals it.
    with temporary_store(store):
        _say(store, "a" * 5000)
        assert [len(text) for text in _texts(store)] == [1, 5000, 5000, 1, 5000]


@pytest.mark.parametrize("name", ["../other.jsonl", "/etc/passwd", "", "x"])
def test_a_reference_is_no_path(name: str, tmp_path: Path) -> None:
    """A reference that a caller made up is refused by append, and opens no file."""
    store = JsonlStore(tmp_path)
    blob = Blob(sha256=name, size=1, field="content")
    with pytest.raises(InvalidEntry):
        store.append(KEY, [User(content="a", blob=blob)])
    with pytest.raises(DamagedLog):
        store.blob(KEY, blob)


def test_listing_and_light_reading_open_no_payload(tmp_path: Path, paths: SessionPaths) -> None:
    """Without `blobs` no payload is touched: they may even be gone."""
    store = JsonlStore(tmp_path)
    _say(store, "x" * 100_000, "2")
    for path in paths.blobs.iterdir():
        path.unlink()
    reading = store.read(KEY, blobs=False)
    assert [len(_text(entry)) for entry in reading] == [2000, 1]
    assert reading.problems == []
    assert list(store.sessions()) == [KEY]


# --- sealed segments ---


def _sealed(tmp_path: Path, *, compress: bool = False) -> JsonlStore:
    """30 entries in three sealed segments and the active one."""
    store = JsonlStore(tmp_path)
    for start in (1, 9, 17, 25):
        stored = _say(store, *(str(number) for number in range(start, min(start + 8, 31))))
        if start > 1:
            assert store.seal(KEY, stored[0].id)
    if compress:
        assert store.compress(KEY) > 0
    return store


@pytest.mark.parametrize("compress", [False, True])
def test_sealing_changes_nothing_that_is_read(compress: bool, tmp_path: Path, paths: SessionPaths) -> None:
    """Any range, both ways, across sealed, compressed and active segments."""
    with temporary_store(_sealed(tmp_path, compress=compress)) as store:
        suffix = ".jsonl.zst" if compress else ".jsonl"
        assert sorted(path.name for path in paths.archive.iterdir()) == [
            f"0000000{number}-{base}{suffix}" for number, base in [(1, 1), (2, 9), (3, 17)]
        ]
        for after in range(0, 32, 3):
            for before in [None, *range(0, 33, 4)]:
                want = [str(n) for n in range(1, 31) if n > after and (before is None or n < before)]
                for reverse in (False, True):
                    reading = store.read(KEY, after=after, before=before, reverse=reverse)
                    assert [_text(entry) for entry in reading] == (want[::-1] if reverse else want)
                    assert reading.problems == []
        assert store.verify(KEY).segments == 4


def _plain(paths: SessionPaths) -> list[Path]:
    return sorted(paths.archive.glob("*.jsonl"))


def test_compress_tells_what_it_saved(tmp_path: Path, paths: SessionPaths) -> None:
    """The bytes saved, and nothing to do the second time."""
    with temporary_store(_sealed(tmp_path)) as store:
        before = sum(path.stat().st_size for path in paths.archive.iterdir())
        saved = store.compress(KEY)
        assert before - saved == sum(path.stat().st_size for path in paths.archive.iterdir())
        assert store.compress(KEY) == 0
        assert store.compress(OTHER) == 0


def test_seal_says_when_there_is_nothing_to_seal(tmp_path: Path) -> None:
    """The first entry, an unknown id, one of the archive, a missing session: False, and nothing changes."""
    with temporary_store(_sealed(tmp_path)) as store:
        entries = list(store.read(KEY))
        assert store.seal(KEY, entries[24].id) is False
        assert store.seal(KEY, new_ulid()) is False
        assert store.seal(KEY, entries[3].id) is False
        assert store.seal(OTHER, entries[3].id) is False
        assert store.verify(KEY).segments == 4


def test_a_large_segment_is_sealed_in_pieces(
    tmp_path: Path, paths: SessionPaths, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A seal of much is cut into pieces, so that reading one takes little; one longer line is one piece."""
    monkeypatch.setattr(archive, "PIECE", 5000)
    store = JsonlStore(tmp_path)
    texts = [f"{number} " + "x" * (12_000 if number == 20 else 700) for number in range(1, 41)]
    store.append(KEY, [User(content=text) for text in texts])
    with temporary_store(store):
        assert store.seal(KEY, list(store.read(KEY))[38].id)
        assert len(_plain(paths)) > 6
        assert sorted(path.stat().st_size for path in _plain(paths))[-2] < 6000
        assert _texts(store) == texts
        assert _texts(store, reverse=True) == texts[::-1]
        assert _texts(store, after=18, before=22) == texts[18:21]


def test_leftovers_of_an_unfinished_seal(tmp_path: Path, paths: SessionPaths) -> None:
    """A sealed copy whose seal never finished is not read twice; the next seal removes it."""
    store = _sealed(tmp_path)
    active = paths.log.read_bytes()
    left = archive.piece_path(paths.archive, 4, 25)
    left.write_bytes(active[: active.index(b'"27"')].rsplit(b"\n", 1)[0] + b"\n")
    assert _texts(store) == [str(number) for number in range(1, 31)]
    assert [p.path for p in store.verify(KEY).problems] == [str(left)]
    with temporary_store(store):
        assert store.seal(KEY, list(store.read(KEY))[-1].id)
        assert _texts(store) == [str(number) for number in range(1, 31)]
        assert not paths.quarantine.exists()


def test_an_archive_newer_than_the_log_is_not_thrown_away(tmp_path: Path, paths: SessionPaths) -> None:
    """After an old copy of the log was put back, what the archive alone has goes to quarantine, not away."""
    store = JsonlStore(tmp_path)
    _say(store, "1", "2")
    old = paths.log.read_bytes()
    kept = _say(store, "3", "4")
    store.seal(KEY, kept[1].id)
    store.close()
    (newer,) = _plain(paths)
    data = newer.read_bytes()
    paths.log.write_bytes(old)
    with temporary_store(JsonlStore(tmp_path)) as store:
        stored = _say(store, "5")
        assert stored[0].seq == 3
        assert store.seal(KEY, stored[0].id)
        assert _texts(store) == ["1", "2", "5"]
    assert [path.read_bytes() for path in paths.quarantine.glob("*.bin")] == [data]


@pytest.mark.parametrize("compress", [False, True])
def test_the_archive_outlives_the_log_file(compress: bool, tmp_path: Path, paths: SessionPaths) -> None:
    """When the log file itself is lost: told by a reading; the next append goes on after the archive."""
    store = _sealed(tmp_path, compress=compress)
    store.close()
    paths.log.unlink()
    store = JsonlStore(tmp_path)
    reading = store.read(KEY)
    assert list(reading) == []
    assert ["archive" in problem.reason for problem in reading.problems] == [True]
    with temporary_store(store):
        assert _say(store, "next")[0].seq == 25
        assert _texts(store) == ["next"]
        assert _texts(store, generations="all") == [*(str(number) for number in range(1, 25)), "next"]
        head = store.head(KEY)
        assert head is not None
        assert (head.generation, head.first) == (2, 25)


def test_deleting_when_the_log_file_is_lost(tmp_path: Path, paths: SessionPaths) -> None:
    """What is left of a session can be deleted, also without its log."""
    store = _sealed(tmp_path)
    store.close()
    paths.log.unlink()
    assert store.delete(KEY) is True
    assert list(paths.log.parent.iterdir()) == []
    assert store.delete(KEY) is False


@pytest.mark.parametrize("damage", ["missing", "first missing", "zst", "empty", "cut", "line"])
def test_a_damaged_archive_is_told(damage: str, tmp_path: Path, paths: SessionPaths) -> None:
    """A sealed segment that is missing, empty or damaged: the others are read, the loss is reported."""
    store = _sealed(tmp_path, compress=damage == "zst")
    second = sorted(paths.archive.iterdir())[0 if damage == "first missing" else 1]
    data = second.read_bytes()
    lost = range(1, 9) if damage == "first missing" else range(9, 17)
    if damage.endswith("missing"):
        second.unlink()
    elif damage == "zst":
        second.write_bytes(data[:30] + b"\0" + data[31:])
    elif damage == "empty":
        second.write_bytes(b"")
    elif damage == "cut":
        second.write_bytes(data[: data.index(b'"15"') - 150])
        lost = range(14, 17) if b'"13"' in second.read_bytes() else lost
    else:
        second.write_bytes(data.replace(b'"12"', b'"99"'))
        lost = range(12, 13)
    for reverse in (False, True):
        reading = store.read(KEY, reverse=reverse)
        found = sorted(int(_text(entry)) for entry in reading)
        assert reading.problems, damage
        missing = sorted(set(range(1, 31)) - set(found))
        assert missing
        assert set(missing) <= set(lost)
        assert set(found) >= set(range(17, 31))
    assert store.verify(KEY).problems
    # Where the damage is not asked for, nothing is said.
    reading = store.read(KEY, after=16)
    assert len(list(reading)) == 14
    assert reading.problems == []


def test_compressing_does_not_bring_back_what_was_deleted(
    tmp_path: Path, paths: SessionPaths, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A session deleted, and made again, while its archive was being compressed stays as it is."""
    store = _sealed(tmp_path)
    compress = archive.compress

    def meanwhile(data: bytes) -> bytes:
        monkeypatch.setattr(archive, "compress", compress)
        other = JsonlStore(tmp_path)
        other.delete(KEY)
        _sealed(tmp_path)
        return compress(data)

    monkeypatch.setattr(archive, "compress", meanwhile)
    with temporary_store(store):
        store.compress(KEY)
        assert _texts(store) == [str(number) for number in range(1, 31)]


# --- reopening ---


def test_reopening_reads_the_tail_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The bytes read to open, append and read the last 20 entries do not grow with the log."""
    reads: list[int] = []
    pread = os.pread

    def counted(fd: int, size: int, offset: int) -> bytes:
        data = pread(fd, size, offset)
        reads.append(len(data))
        return data

    costs = []
    for number in (1000, 40_000):
        key = session_key("agent", "channel", str(number))
        store = JsonlStore(tmp_path, sync="never")
        store.replace(key, (User(content="x" * 200) for _ in range(number)))
        store.append(key, [TurnStart(), User(content="last")])
        store.close()
        store = JsonlStore(tmp_path)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(os, "pread", counted)
            reads.clear()
            head = store.head(key)
            store.append(key, [User(content="next")])
            assert head is not None
            assert head.seq == number + 2
            assert len(list(store.read(key, reverse=True, after=head.seq - 20))) == 21
        costs.append(sum(reads))
    assert costs[1] < 2 * costs[0]
    assert costs[1] < 0.06 * session_paths(tmp_path, key).log.stat().st_size


# --- modes ---


def test_every_file_is_its_owners_alone(tmp_path: Path) -> None:
    """Under umask 022: directories 0700, files 0600; segments, payloads, quarantine and leftovers too."""
    before = os.umask(0o022)
    seen: dict[str, int] = {}
    try:
        root = tmp_path / "data"
        paths = session_paths(root, KEY)
        rename = os.rename

        def watched(source: Any, target: Any) -> None:
            seen[str(source)] = stat.S_IMODE(os.stat(source).st_mode)
            rename(source, target)

        with (
            pytest.MonkeyPatch.context() as patch,
            temporary_store(JsonlStore(root, blob_threshold=500)) as store,
        ):
            patch.setattr(os, "rename", watched)
            _say(store, "1", "x" * 1000, "3")
            store.seal(KEY, list(store.read(KEY))[2].id)
            store.compress(KEY)
            store.replace(KEY, [User(content="y" * 1000), User(content="z")])
            store.close()
            _torn(paths.log, b"torn")
            _say(store, "4")
            store.close()
            _torn(paths.log, b"torn\n")
            store.repair(KEY)
        for path in [root, *root.rglob("*")]:
            mode = stat.S_IMODE(path.stat().st_mode)
            assert mode == (0o700 if path.is_dir() else 0o600), path
        names = {path.name.rpartition(".")[2] for path in root.rglob("*")}
        assert {"jsonl", "zst", "bin", "json", "archive", "blobs", "quarantine"} <= names
        assert set(seen.values()) == {0o600}
    finally:
        os.umask(before)


# --- verify and repair ---


def _damaged(tmp_path: Path, paths: SessionPaths) -> tuple[JsonlStore, list[bytes]]:
    """A log with damage of every kind, and its lines that are whole."""
    store = _sealed(tmp_path)
    store.compress(KEY)
    _say(store, *(str(number) for number in range(31, 41)))
    kept = list(store.read(KEY))
    store.seal(KEY, kept[32].id)
    store.append(KEY, [User(content="41"), User(content="42")])
    store.close()
    first = sorted(paths.archive.iterdir())[0]
    first.write_bytes(first.read_bytes()[:-4])
    (plain,) = _plain(paths)
    lines = _lines(plain)
    lines[3] = b"\0" * 50 + b"\n"
    plain.write_bytes(b"".join(lines))
    lines = _lines(paths.log)
    lines[2] = lines[2][:50] + lines[3]
    lines[3] = b"\n"
    lines[5] = lines[5][:-1]
    lines.insert(7, b"rubbish\n")
    paths.log.write_bytes(b"".join(lines) + b'{"crc":"torn')
    whole = []
    for piece in archive.pieces(paths.archive)[1:]:
        whole += [line for line in archive.load(piece).splitlines()[1:] if _is_entry(line)]
    whole += [
        line
        for line in re.findall(rb'\{"crc":"[^\n]*?"\}(?=[\n{])', paths.log.read_bytes())
        if _is_entry(line)
    ]
    return store, whole


def _is_entry(line: bytes) -> bool:
    try:
        codec.decode(line)
    except codec.BadLine:
        return False
    return True


def test_repair_only_moves(tmp_path: Path, paths: SessionPaths) -> None:
    """After repair verify is clean, each lost number is a `damage` note, every whole line is as it was."""
    store, whole = _damaged(tmp_path, paths)
    before = list(store.read(KEY, generations="all"))
    assert len(store.verify(KEY).problems) >= 5
    moved = store.repair(KEY)
    assert len(moved) >= 5
    with temporary_store(store):
        reading = store.read(KEY, generations="all")
        after = list(reading)
        assert reading.problems == []
        assert [entry.seq for entry in after] == list(range(1, 43))
        notes = [entry for entry in after if isinstance(entry, Note)]
        assert {note.kind for note in notes} == {"damage"}
        assert [entry for entry in after if not isinstance(entry, Note)] == before
        lost = set(range(1, 43)) - {entry.seq for entry in before}
        assert {note.seq for note in notes} == lost
        assert lost >= {*range(1, 9)}
        lines = b"\n".join(archive.load(piece) for piece in archive.pieces(paths.archive))
        lines += b"\n" + paths.log.read_bytes()
        for line in whole:
            assert line in lines.split(b"\n")
        # Every note says where the bytes are that it stands for, and they are there.
        for note in notes:
            assert (paths.quarantine / note.data["quarantine"]).exists()
        assert store.repair(KEY) == []
        assert _say(store, "43")[0].seq == 43


@pytest.mark.parametrize("which", [0, 1, 2])
def test_repair_fills_a_missing_segment(which: int, tmp_path: Path, paths: SessionPaths) -> None:
    """Notes take the numbers of a sealed segment that is gone, so that the log has no gap again."""
    store = _sealed(tmp_path)
    gone = _plain(paths)[which]
    gone.unlink()
    assert store.verify(KEY).problems[0].reason == f"segment {which + 1} is missing"
    assert store.repair(KEY) != []
    with temporary_store(store):
        lost = set(range(which * 8 + 1, which * 8 + 9))
        for reverse in (False, True):
            entries = list(store.read(KEY, reverse=reverse))
            assert sorted(entry.seq for entry in entries) == list(range(1, 31))
            assert {entry.seq for entry in entries if isinstance(entry, Note)} == lost


def test_repair_saves_a_log_whose_header_is_damaged(tmp_path: Path, paths: SessionPaths) -> None:
    """The header is written anew from what the entries and the archive say, and the old one kept."""
    store = _sealed(tmp_path)
    before = list(store.read(KEY))
    store.close()
    data = paths.log.read_bytes()
    paths.log.write_bytes(data.replace(b'"segment":4', b'"segment":5', 1))
    with pytest.raises(ForeignFile):
        list(store.read(KEY))
    assert len(store.repair(KEY)) == 1
    with temporary_store(store):
        assert list(store.read(KEY)) == before
        (kept,) = paths.quarantine.glob("*.bin")
        assert b'"segment":5' in kept.read_bytes()
        assert _say(store, "31")[0].seq == 31


def test_repair_of_a_header_with_its_first_entries(tmp_path: Path, paths: SessionPaths) -> None:
    """Also when the first entries are damaged with it, the numbers before the first whole one are marked."""
    store = _sealed(tmp_path)
    store.close()
    lines = _lines(paths.log)
    paths.log.write_bytes(b"\0" * 100 + b"\n" + b"rubbish\n" + b"".join(lines[3:]))
    assert store.repair(KEY) != []
    with temporary_store(store):
        entries = list(store.read(KEY))
        assert [entry.seq for entry in entries] == list(range(1, 31))
        assert [entry.seq for entry in entries if isinstance(entry, Note)] == [25, 26]


def test_a_line_that_is_there_twice(tmp_path: Path, paths: SessionPaths) -> None:
    """A copied line is reported by verify and moved away by repair."""
    store = JsonlStore(tmp_path)
    _say(store, "1", "2", "3")
    store.close()
    lines = _lines(paths.log)
    paths.log.write_bytes(b"".join([*lines[:3], lines[1], lines[3]]))
    assert len(store.verify(KEY).problems) == 3
    assert len(store.repair(KEY)) == 1
    with temporary_store(store):
        assert _texts(store) == ["1", "2", "3"]


def test_repair_of_nothing(tmp_path: Path) -> None:
    """A whole log is not written anew, and a session that does not exist is not made."""
    store = _sealed(tmp_path)
    paths = session_paths(tmp_path, KEY)
    before = paths.log.stat()
    assert store.repair(KEY) == []
    assert store.repair(OTHER) == []
    assert store.repair(session_key("nobody", "channel", "chat")) == []
    assert paths.log.stat() == before
    assert list(store.sessions()) == [KEY]


VERIFIED: dict[str, Callable[[SessionPaths], Any]] = {
    "flipped byte": lambda p: _edit(p.log, lambda d: d.replace(b'"27"', b'"72"')),
    "NULs": lambda p: _edit(p.log, lambda d: d.replace(b'"27"', b"\0\0\0\0")),
    "torn": lambda p: _edit(p.log, lambda d: d[:-5]),
    "blank line": lambda p: _edit(p.log, lambda d: d + b"\n"),
    "line removed": lambda p: _edit(
        p.log, lambda d: b"".join(d.splitlines(True)[:2] + d.splitlines(True)[3:])
    ),
    "line twice": lambda p: _edit(p.log, lambda d: d + d.splitlines(True)[-1]),
    "lines swapped": lambda p: _edit(
        p.log, lambda d: b"".join([*d.splitlines(True)[:2], *reversed(d.splitlines(True)[2:4])])
    ),
    "header": lambda p: _edit(p.log, lambda d: d.replace(b'"base":25', b'"base":26')),
    "log gone": lambda p: p.log.unlink(),
    "sealed line": lambda p: _edit(_plain(p)[0], lambda d: d.replace(b'"3"', b'"4"')),
    "sealed cut": lambda p: _edit(_plain(p)[0], lambda d: b"".join(d.splitlines(True)[:-1])),
    "sealed header": lambda p: _edit(_plain(p)[0], lambda d: d.replace(b'"base":1', b'"base":2')),
    "sealed empty": lambda p: _plain(p)[1].write_bytes(b""),
    "first sealed gone": lambda p: _plain(p)[0].unlink(),
    "middle sealed gone": lambda p: _plain(p)[1].unlink(),
    "last sealed gone": lambda p: _plain(p)[2].unlink(),
    "all sealed gone": lambda p: [path.unlink() for path in _plain(p)],
    "another's segment": lambda p: _edit(
        _plain(p)[1], lambda d: _header(key=str(OTHER), segment=2, base=9) + d.split(b"\n", 1)[1]
    ),
    "payload gone": lambda p: next(p.blobs.iterdir()).unlink(),
    "payload damaged": lambda p: _edit(next(p.blobs.iterdir()), lambda d: d[:-1] + b"?"),
}


def _edit(path: Path, change: Callable[[bytes], bytes]) -> None:
    before = path.read_bytes()
    after = change(before)
    assert after != before
    path.write_bytes(after)


@pytest.mark.parametrize("damage", VERIFIED)
def test_verify_finds(damage: str, tmp_path: Path, paths: SessionPaths) -> None:
    """Each kind of damage is found, changes nothing by being looked for, and is gone after a repair."""
    store = _sealed(tmp_path)
    _say(store, "x" * 70_000)
    store.close()
    assert store.verify(KEY).problems == ()
    VERIFIED[damage](paths)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    verified = store.verify(KEY)
    assert verified.problems != ()
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before
    store.repair(KEY)
    left = store.verify(KEY).problems
    if damage not in ("log gone", "payload gone", "payload damaged"):
        assert left == ()
        assert [entry.seq for entry in store.read(KEY, generations="all")][:24] == list(range(1, 25))


def test_the_same_ids_in_a_new_generation_are_no_damage(tmp_path: Path) -> None:
    """Beginning again with some of the old entries is sound; an id twice in one generation is told."""
    store = JsonlStore(tmp_path)
    with temporary_store(store):
        old = _say(store, "1", "2", "3")
        store.replace(KEY, old[:2])
        assert _texts(store) == ["1", "2"]
    store.append(KEY, old[:1])
    assert ["used before" in problem.reason for problem in store.verify(KEY).problems] == [True]


# --- many at once ---


def test_many_sessions_through_few_open_files(tmp_path: Path) -> None:
    """Threads use 40 sessions with at most 5 open: all is there, and no more than a few files stay open."""
    store = JsonlStore(tmp_path, max_open=5, sync="turn")
    keys = [session_key("agent", "channel", f"chat {number}") for number in range(40)]
    failed: list[BaseException] = []

    def work(worker: int) -> None:
        try:
            for number in range(3):
                for key in keys[worker:] + keys[:worker]:
                    store.append(key, [User(content=f"{worker} {number}")])
                    assert len(list(store.read(key, reverse=True))) >= 1
        except (AssertionError, StorageFailed) as error:
            failed.append(error)

    threads = [threading.Thread(target=work, args=(worker * 5,)) for worker in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    _say(store, "one more")
    opened = [os.readlink(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd") if _is_open(fd)]
    assert len([path for path in opened if path.startswith(str(tmp_path))]) <= 5
    with temporary_store(store):
        for key in keys:
            assert sorted(_texts(store, key)) == sorted(f"{w * 5} {n}" for w in range(8) for n in range(3))


def _is_open(fd: str) -> bool:
    return os.path.lexists(f"/proc/self/fd/{fd}")


def test_a_fork_in_the_middle_of_a_lock(tmp_path: Path) -> None:
    """A child forked while a thread holds the store's mutexes can use the store all the same."""
    store = JsonlStore(tmp_path, lock_timeout=20.0)
    _say(store, "1")
    inside, go = threading.Event(), threading.Event()

    log = store._log(KEY)

    def holder() -> None:
        with store._here().mutex, log.mutex:
            inside.set()
            go.wait(60)

    thread = threading.Thread(target=holder)
    thread.start()
    assert inside.wait(60)
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            _say(store, "child")
            status = 0
        finally:
            os._exit(status)
    _, status = os.waitpid(pid, 0)
    go.set()
    thread.join()
    assert status == 0
    with temporary_store(store):
        _say(store, "2")
        assert _texts(store) == ["1", "child", "2"]


def test_a_child_that_never_uses_the_store_keeps_no_lock(tmp_path: Path) -> None:
    """A lock that the parent gives back is free, although a child has inherited its open files."""
    heard: list[Problem] = []
    store = JsonlStore(tmp_path, lock_timeout=30.0, on_problem=heard.append)
    stored = _say(store, "1", "2", "3")
    log = store._log(KEY)
    assert log.lock()
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(write)
        os.read(read, 1)
        os._exit(0)
    try:
        log.forget()
        with temporary_store(JsonlStore(tmp_path, lock_timeout=0.05, on_problem=heard.append)) as other:
            _say(other, "4")
            assert other.seal(KEY, stored[1].id)
        assert heard == []
    finally:
        os.close(read)
        os.close(write)
        os.waitpid(pid, 0)


def test_closing_reports_what_could_not_be_synced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A sync that fails when the store is closed is an error, and the file is closed all the same."""
    store = JsonlStore(tmp_path, sync="turn")
    _say(store, "1", "2")
    with pytest.MonkeyPatch.context() as patch:

        def fail(fd: int) -> None:
            raise OSError(errno.EIO, "broken")

        patch.setattr(osfiles, "sync", fail)
        with pytest.raises(StorageFailed):
            store.close()
    with temporary_store(store):
        assert _texts(store) == ["1", "2"]
        _say(store, "3")


def test_sweep_removes_what_a_crash_left(tmp_path: Path, paths: SessionPaths) -> None:
    """Unfinished files of any kind are listed and removed; nothing else is."""
    store = _sealed(tmp_path)
    _say(store, "x" * 70_000)
    whole = {path for path in tmp_path.rglob("*") if path.is_file()}
    left = [
        osfiles.temporary(paths.log),
        osfiles.temporary(paths.archive / "00000009-1.jsonl"),
        osfiles.temporary(next(paths.blobs.iterdir())),
        session_paths(tmp_path, OTHER).log.with_suffix(".deleted"),
    ]
    for path in left:
        path.write_bytes(b"left")
    assert set(store.unfinished_files()) == set(left)
    assert store.sweep() == 4
    assert {path for path in tmp_path.rglob("*") if path.is_file()} == whole
    store.close()
