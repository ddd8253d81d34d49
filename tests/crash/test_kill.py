"""A writer in a real process, killed at random: what it said was written is there, once, in order."""

from __future__ import annotations

import os
import random
import signal
import time
from pathlib import Path

import pytest

from crash.processes import Say, child
from stratalog.keys import session_key, session_paths
from stratalog.log.contract import Sync
from stratalog.log.jsonl import JsonlStore
from stratalog.log.segment import TORN
from stratalog.types import AnyEntry, User

pytestmark = pytest.mark.crash

KILLS = int(os.environ.get("STRATALOG_CRASH_KILLS", "200"))
KEY = session_key("agent", "channel", "chat")
LIVES: tuple[Sync, ...] = ("always", "always", "turn", "never")  # each is a data directory of its own


def _entry(number: int) -> User:
    # Every seventh has a payload out of line; the others differ in length.
    return User(content=f"{number} " + "x" * (5000 if number % 7 == 0 else number % 300))


def _number(entry: AnyEntry) -> int:
    assert isinstance(entry, User)
    text = entry.text
    number = int(text.partition(" ")[0])
    assert text == _entry(number).content
    return number


def _write(root: Path, sync: Sync, number: int, say: Say) -> None:
    """Appends, and now and then seals, compresses and replaces, until it is killed."""
    store = JsonlStore(root, sync=sync, blob_threshold=4000)
    chance = random.Random()
    while True:
        count = chance.choice([1, 1, 1, 2, 5])
        entries = [_entry(number + offset) for offset in range(count)]
        what = chance.random()
        say(f"? {number} {count}")
        if what < 0.9:
            stored = store.append(KEY, entries)
        else:
            head = store.replace(KEY, entries)
            stored = list(store.read(KEY, after=head.seq - count))
        say(f"{number} {count} {stored[0].seq} {stored[0].id}")
        number += count
        if what < 0.2:
            kept = list(store.read(KEY, after=stored[0].seq - 1 - chance.randrange(10)))
            store.seal(KEY, kept[0].id)
        if what < 0.1:
            store.compress(KEY)


@pytest.mark.parametrize("life", range(len(LIVES)))
def test_kill(life: int, tmp_path: Path) -> None:
    """After each SIGKILL: every acknowledged entry once and in order, appends whole, all of it verifies."""
    said: dict[int, tuple[int, int, str]] = {}
    meant: dict[int, int] = {}
    number = 1
    for _ in range(-(-KILLS // len(LIVES))):
        first = number
        with child(lambda say: _write(tmp_path, LIVES[life], first, say)) as writer:  # noqa: B023 - runs at once
            heard = [writer.hear() for _ in range(random.randrange(12))]
            time.sleep(random.random() * 0.004)
            writer.signal(signal.SIGKILL)
            heard += writer.hear_all()
            assert writer.wait() == -signal.SIGKILL
        for line in heard:
            assert line is not None
            if line.startswith("?"):
                meant[int(line.split()[1])] = int(line.split()[2])
            else:
                start, count, seq, entry_id = line.split()
                said[int(start)] = (int(count), int(seq), entry_id)

        store = JsonlStore(tmp_path, blob_threshold=4000)
        verified = store.verify(KEY)
        if not session_paths(tmp_path, KEY).log.exists():
            assert not said
            continue
        assert [
            p for p in verified.problems if p.reason != TORN and "seal that did not" not in p.reason
        ] == []
        reading = store.read(KEY, generations="all")
        entries = list(reading)
        assert [problem for problem in reading.problems if problem.reason != TORN] == []
        assert [entry.seq for entry in entries] == list(range(1, len(entries) + 1))
        numbers = [_number(entry) for entry in entries]
        assert numbers == list(range(1, len(entries) + 1))
        last = max(meant)
        assert len(entries) + 1 in (last, last + meant[last]), "an append is there in part"
        for begin, (size, seq, entry_id) in said.items():
            assert (entries[begin - 1].seq, entries[begin - 1].id) == (seq, entry_id)
            assert begin + size - 1 <= len(entries)
        number = len(entries) + 1
        assert store.head(KEY) is not None  # which repairs a torn end
        assert [p for p in store.verify(KEY).problems if "seal that did not" not in p.reason] == []
        store.close()

    store = JsonlStore(tmp_path)
    store.append(KEY, [_entry(number)])
    store.seal(KEY, list(store.read(KEY))[-1].id)
    store.sweep()
    assert store.verify(KEY).problems == ()
    assert list(store.unfinished_files()) == []
    assert said
