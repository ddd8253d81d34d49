"""Many processes at once: every append is there once, and no number is missing."""

from __future__ import annotations

import multiprocessing
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from crash.processes import Say, child
from stratalog.keys import session_key
from stratalog.log.jsonl import JsonlStore
from stratalog.log.sqlite import SqliteStore
from stratalog.testing.temporary import VerifiedStore, temporary_store
from stratalog.types import AnyEntry, User

pytestmark = pytest.mark.crash

PROCESSES = 4
STORES = {"jsonl": JsonlStore, "sqlite": SqliteStore}
KEY = session_key("agent", "channel", "chat")


def _store(kind: str, root: Path) -> VerifiedStore:
    return STORES[kind](root)


def _text(entry: AnyEntry) -> str:
    assert isinstance(entry, User)
    return entry.text


def _together(work: list[Callable[[Say], object]]) -> list[list[str]]:
    """Runs all of them at once, each in a process; what each said."""
    heard: list[list[str]] = []

    def start(left: list[Callable[[Say], object]]) -> None:
        if not left:
            return
        with child(left[0]) as started:
            start(left[1:])
            heard.append(started.hear_all())
            assert started.wait() == 0

    start(work)
    return heard


@pytest.mark.parametrize("kind", STORES)
def test_one_session(kind: str, tmp_path: Path) -> None:
    """4 processes append 250 times each to one session: all 1,000 there, each process's in its order."""

    def writer(worker: int, say: Say) -> None:
        store = _store(kind, tmp_path)
        for number in range(250):
            (stored,) = store.append(KEY, [User(content=f"{worker} {number}")])
            say(f"{stored.seq} {worker} {number}")

    heard = _together([lambda say, w=worker: writer(w, say) for worker in range(PROCESSES)])
    with temporary_store(_store(kind, tmp_path)) as store:
        reading = store.read(KEY)
        found = [f"{entry.seq} {_text(entry)}" for entry in reading]
        assert reading.problems == []
    assert [int(line.split()[0]) for line in found] == list(range(1, PROCESSES * 250 + 1))
    assert sorted(line for lines in heard for line in lines) == sorted(found)
    for worker in range(PROCESSES):
        mine = [int(line.split()[2]) for line in found if line.split()[1] == str(worker)]
        assert mine == list(range(250))


@pytest.mark.parametrize("kind", STORES)
def test_many_sessions(kind: str, tmp_path: Path) -> None:
    """4 processes append to the same 64 sessions in turn, each made by whoever comes first: all there."""
    keys = [session_key(f"agent{number % 3}", "channel", f"chat {number}") for number in range(64)]

    def writer(worker: int, say: Say) -> None:
        store = _store(kind, tmp_path)
        mine = [(key, number) for number in range(4) for key in keys]
        random.Random(worker).shuffle(mine)
        for key, number in mine:
            store.append(key, [User(content=f"{worker} {number}"), User(content="and")])

    _together([lambda say, w=worker: writer(w, say) for worker in range(PROCESSES)])
    with temporary_store(_store(kind, tmp_path)) as store:
        assert set(store.sessions()) == set(keys)
        for key in keys:
            entries = list(store.read(key))
            assert [entry.seq for entry in entries] == list(range(1, PROCESSES * 8 + 1))
            texts = [_text(entry) for entry in entries]
            assert texts[1::2] == ["and"] * (PROCESSES * 4), "an append of two was parted"
            assert sorted(texts[::2]) == sorted(f"{w} {n}" for w in range(PROCESSES) for n in range(4))


def test_writers_sealers_and_readers(tmp_path: Path) -> None:
    """While some append, others seal, compress, begin generations and read: no gap, no problem, all there."""

    def writer(worker: int, say: Say) -> None:
        store = JsonlStore(tmp_path)
        for number in range(100):
            store.append(KEY, [User(content=f"{worker} {number}")])

    def sealer(say: Say) -> None:
        store = JsonlStore(tmp_path)
        for _ in range(30):
            entries = list(store.read(KEY))
            if entries:
                store.seal(KEY, random.choice(entries).id)
            store.compress(KEY)

    def reader(say: Say) -> None:
        store = JsonlStore(tmp_path)
        for number in range(60):
            reading = store.read(KEY, reverse=bool(number % 2), generations="all")
            seqs = [entry.seq for entry in reading]
            assert reading.problems == [], reading.problems
            assert sorted(seqs) == list(range(1, len(seqs) + 1))
            assert [p.reason for p in store.verify(KEY).problems if p.reason != "there is no log"] == []

    _together([lambda say: writer(1, say), lambda say: writer(2, say), sealer, reader])
    with temporary_store(JsonlStore(tmp_path)) as store:
        texts = [_text(entry) for entry in store.read(KEY)]
        assert sorted(texts) == sorted(f"{w} {n}" for w in (1, 2) for n in range(100))


@pytest.mark.parametrize("kind", STORES)
def test_a_forked_child_appends_too(kind: str, tmp_path: Path) -> None:
    """A store that was used before a fork is used by both sides: neither has the other's locks or files."""
    store = _store(kind, tmp_path)
    store.append(KEY, [User(content="parent")])
    context = multiprocessing.get_context("fork")

    def work(number: int) -> None:
        for part in range(10):
            store.append(KEY, [User(content=f"{number} {part}")])

    children = [context.Process(target=work, args=(number,)) for number in range(3)]
    for process in children:
        process.start()
    work(3)
    for process in children:
        process.join(60)
        assert process.exitcode == 0
    store.append(KEY, [User(content="parent")])
    with temporary_store(store):
        entries = list(store.read(KEY))
        assert [entry.seq for entry in entries] == list(range(1, 43))
        for number in range(4):
            mine = [_text(entry) for entry in entries if _text(entry).startswith(f"{number} ")]
            assert mine == [f"{number} {part}" for part in range(10)]
