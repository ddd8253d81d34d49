"""Random histories on the stores, beside a model that is a list: whatever is asked, both answer the same."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from log.strategies import entries
from stratalog.errors import InvalidEntry, StaleFence
from stratalog.keys import session_key, session_paths
from stratalog.log.jsonl import JsonlStore
from stratalog.log.sqlite import SqliteStore
from stratalog.types import AnyEntry, Note, TurnStart, User

KEY = session_key("agent", "channel", "chat")
THRESHOLD = 60  # small, so that much goes out of line

_batches = st.lists(
    st.one_of(
        entries, st.builds(TurnStart, holder=st.just("h")), st.builds(User, content=st.just("x" * 200))
    ),
    min_size=1,
    max_size=4,
)


@st.composite
def batch_of(draw: st.DrawFn, least: int = 1) -> list[AnyEntry]:
    """What one append is given."""
    return draw(_batches)[: None if least else draw(st.integers(0, 4))]


class Histories(RuleBasedStateMachine):
    """What every store does. `log` is the model: every entry as it was returned; `first` where this
    generation begins."""

    def __init__(self) -> None:
        super().__init__()
        self.root = Path(tempfile.mkdtemp())
        self.log: list[AnyEntry] = []
        self.first = 1
        self.generation = 1
        self.fence: int | None = None  # the latest that was taken, while it holds
        self.old: list[int] = []
        self.there = False
        self.ids: set[str] = set()
        self.store: Any = None

    def make(self) -> Any:
        raise NotImplementedError

    @initialize()
    def start(self) -> None:
        self.store = self.make()

    def teardown(self) -> None:
        if self.store is not None:
            if self.there:
                verified = self.store.verify(KEY)
                assert verified.problems == ()
                assert verified.entries == len(self.log)
            self.store.close()
        shutil.rmtree(self.root)

    def _fresh(self, batch: list[AnyEntry]) -> list[AnyEntry]:
        """The entries of the batch whose ids were not used yet."""
        kept = []
        for entry in batch:
            if entry.id not in self.ids:
                kept.append(entry)
                self.ids |= {entry.id} if entry.id else set()
        return kept

    def _took(self, stored: list[AnyEntry]) -> None:
        for entry in stored:
            if isinstance(entry, TurnStart):
                if self.fence is not None:
                    assert entry.fence > self.fence
                    self.old.append(self.fence)
                self.fence = entry.fence

    # --- changes ---

    @rule(batch=batch_of(), fenced=st.booleans())
    def append(self, batch: list[AnyEntry], fenced: bool) -> None:
        batch = self._fresh(batch)
        fence = self.fence if fenced else None
        stored = self.store.append(KEY, batch, fence=fence)
        assert [entry.seq for entry in stored] == list(
            range(len(self.log) + 1, len(self.log) + len(batch) + 1)
        )
        self.log += stored
        self.there = self.there or bool(batch)
        self._took(stored)

    @rule(batch=batch_of(), data=st.data())
    def append_late(self, batch: list[AnyEntry], data: st.DataObject) -> None:
        if self.old:
            with pytest.raises(StaleFence):
                self.store.append(KEY, batch, fence=data.draw(st.sampled_from(self.old)))

    @rule(batch=batch_of())
    def append_bad(self, batch: list[AnyEntry]) -> None:
        with pytest.raises(InvalidEntry):
            self.store.append(KEY, [*batch, Note(kind="n", data=b"no JSON")])

    @rule(batch=batch_of(0), fenced=st.booleans())
    def replace(self, batch: list[AnyEntry], fenced: bool) -> None:
        batch = self._fresh(batch)
        before = len(self.log)
        head = self.store.replace(KEY, iter(batch), fence=self.fence if fenced else None)
        if self.there:
            self.generation += 1
            self.first = before + 1
            if self.fence is not None:
                self.old.append(self.fence)
            self.fence = None
        self.there = True
        stored = list(self.store.read(KEY, after=before))
        self.log += stored
        self._took(stored)
        assert (head.seq, head.generation, head.first) == (len(self.log), self.generation, self.first)
        assert self.fence is None or head.fence == self.fence

    @rule()
    def delete(self) -> None:
        assert self.store.delete(KEY) is self.there
        if self.fence is not None:
            self.old.append(self.fence)
        self.log, self.first, self.generation, self.fence, self.there = [], 1, 1, None, False
        self.ids.clear()

    @rule()
    def reopen(self) -> None:
        self.store.close()
        self.store = self.make()

    # --- questions ---

    @rule(data=st.data(), reverse=st.booleans(), everything=st.booleans(), blobs=st.booleans())
    def read(self, data: st.DataObject, reverse: bool, everything: bool, blobs: bool) -> None:
        place = st.integers(-1, len(self.log) + 2)
        after, before = data.draw(place), data.draw(st.none() | place)
        first = 1 if everything else self.first
        want = [
            entry
            for entry in self.log
            if entry.seq >= first and entry.seq > after and (before is None or entry.seq < before)
        ]
        reading = self.store.read(
            KEY,
            after=after,
            before=before,
            reverse=reverse,
            blobs=blobs,
            generations="all" if everything else "current",
        )
        found = list(reading)
        assert reading.problems == []
        if blobs:
            assert found == (want[::-1] if reverse else want)
        else:
            assert [entry.id for entry in found] == [entry.id for entry in (want[::-1] if reverse else want)]

    @invariant()
    def the_head_is_known(self) -> None:
        if self.store is None:
            return
        head = self.store.head(KEY)
        if not self.there:
            assert head is None
            assert list(self.store.sessions()) == []
        else:
            assert (head.seq, head.generation, head.first) == (len(self.log), self.generation, self.first)
            assert self.fence is None or head.fence == self.fence
            assert list(self.store.sessions()) == [KEY]


class SqliteHistories(Histories):
    def make(self) -> SqliteStore:
        return SqliteStore(self.root, blob_threshold=THRESHOLD, sync="never")


class JsonlHistories(Histories):
    def __init__(self) -> None:
        super().__init__()
        self.problems: list[str] = []

    def make(self) -> JsonlStore:
        return JsonlStore(
            self.root,
            blob_threshold=THRESHOLD,
            sync="never",
            on_problem=lambda problem: self.problems.append(problem.reason),
        )

    @precondition(lambda self: self.log)
    @rule(data=st.data())
    def seal(self, data: st.DataObject) -> None:
        kept = data.draw(st.sampled_from(self.log))
        self.store.seal(KEY, kept.id)

    @rule()
    def compress(self) -> None:
        assert self.store.compress(KEY) >= -1000

    @precondition(lambda self: self.there)
    @rule(tail=st.binary(min_size=1, max_size=30) | st.just(b"\0" * 5000), whole=st.booleans())
    def tear(self, tail: bytes, whole: bool) -> None:
        """A crash in the middle of a write, with rubbish, or with an append of which a part was written."""
        self.store.close()
        tail = tail.replace(b"\n", b"")
        with session_paths(self.root, KEY).log.open("ab") as file:
            if whole:
                twin = JsonlStore(self.root / "twin", sync="never")
                twin.append(KEY, [User(content="a"), User(content="b")])
                file.write(session_paths(self.root / "twin", KEY).log.read_bytes().splitlines(True)[1])
                shutil.rmtree(self.root / "twin")
            file.write(tail)
        self.problems.clear()
        self.store = self.make()
        self.store.head(KEY)
        assert len(self.problems) == (1 if tail or whole else 0)

    @rule()
    def repair(self) -> None:
        assert self.store.repair(KEY) == []

    @invariant()
    def nothing_is_left_over(self) -> None:
        if self.store is not None:
            assert list(self.store.unfinished_files()) == []


_settings = settings(max_examples=40, stateful_step_count=30, deadline=None)
JsonlHistories.TestCase.settings = _settings
SqliteHistories.TestCase.settings = _settings
TestJsonlHistories = JsonlHistories.TestCase
TestSqliteHistories = SqliteHistories.TestCase
