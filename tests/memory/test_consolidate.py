"""memory/consolidate.py: what is merged, promoted, marked and ended, once, whatever happens in between."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crash.processes import Say, child
from stratalog.conformance.records import ANN, EVERY, record, where, write
from stratalog.errors import InvalidInput
from stratalog.memory import consolidate as module
from stratalog.memory.consolidate import LIVED_MS, Consolidated, consolidate, steps
from stratalog.memory.contract import (
    PRODUCTION,
    Change,
    Layer,
    Record,
    RecordStore,
    Scope,
    Source,
    Transaction,
    When,
)
from stratalog.memory.inmemory import InMemoryRecords
from stratalog.memory.policy import content_of, marks, span_of
from stratalog.memory.sqlite import FILE, SqliteRecords

T0 = 1_700_000_000_000
NOW = T0 + 1_000
LATER = T0 + LIVED_MS


def short(number: int, payload: Any = "Lisbon", **more: Any) -> Record:
    given: dict[str, Any] = {"layer": Layer.SHORT, "key": "city", "payload": payload, "text": str(payload)}
    return record(number, **(given | more))


def after(records: list[Record], *, now: int = NOW) -> dict[str, Record]:
    """The records, once their changes are written."""
    state = {each.id: each for each in records}
    for change in steps(records, now=now):
        state |= {event.record.id: event.record for event in change.events}
    return state


def actions(changes: list[Change]) -> list[tuple[str, str]]:
    return [(event.action, event.record.id) for change in changes for event in change.events]


def state(store: RecordStore) -> list[Record]:
    return list(store.find(where(statuses=EVERY), limit=10_000).records)


def memory(*records: Record) -> InMemoryRecords:
    store = InMemoryRecords(terms=str.split)
    if records:
        write(store, *records)
    return store


def test_the_same_is_merged_and_counted() -> None:
    """Two SHORT records of the same become the older one, with what both have of evidence and sources."""
    one = short(1, evidence=2, confidence=0.4, origin="model", sources=(Source("s", "a"), Source("s", "b")))
    two = short(2, "lisbon.", evidence=3, confidence=0.4, origin="user", sources=(Source("s", "b"),))
    found = after([one, two])
    kept, gone = found[one.id], found[two.id]
    assert (kept.evidence, kept.confidence, kept.origin) == (4, 0.4, "user")
    assert kept.sources == (Source("s", "a"), Source("s", "b"))
    assert (kept.status, kept.supersedes, kept.updated_at) == ("current", (two.id,), NOW)
    assert (gone.status, gone.valid_from, gone.valid_to) == ("superseded", When(at=T0), When(at=T0))
    assert gone.payload == "lisbon."
    assert actions(steps([one, two], now=NOW)) == [("merge", one.id), ("supersede", two.id)]


def test_what_is_surer_or_lasts_longer_stays() -> None:
    """The record that stays is the surer one, and one of a longer lasting layer before that."""
    weak, sure = short(1, confidence=0.3), short(2, confidence=0.9)
    assert after([weak, sure])[sure.id].status == "current"
    assert after([weak, sure])[weak.id].status == "superseded"
    long = short(3, layer=Layer.LONG, confidence=0.1)
    found = after([weak, sure, long])
    assert {id: each.status for id, each in found.items()} == {
        weak.id: "superseded",
        sure.id: "superseded",
        long.id: "current",
    }
    assert (found[long.id].layer, found[long.id].confidence, found[long.id].evidence) == (Layer.LONG, 0.9, 3)


def test_what_a_closed_record_had_closed_is_its_heirs() -> None:
    """The heir supersedes what the closed one did, so that forgetting it lets that hold again."""
    one, two, old = short(1), short(2, supersedes=(record(9).id,)), record(9).id
    assert after([one, two])[one.id].supersedes == (old, two.id)


def test_only_short_records_are_closed() -> None:
    """Records of longer lasting layers that say the same are left as two."""
    pair = [short(1, layer=Layer.MID), short(2, layer=Layer.LONG)]
    assert all(each.status == "current" for each in after(pair).values())


def test_times_apart_are_not_merged() -> None:
    """What held twice, at times apart, stays two; with one end, the earlier beginning is kept."""
    was = short(1, valid_from=When(at=10), valid_to=When(at=20))
    again = short(2, valid_from=When(at=30))
    assert steps([was, again], now=NOW) == []
    older = short(3, valid_from=When(at=25, precision="year"))
    found = after([was, again, older])
    assert found[again.id].valid_from == older.valid_from
    assert found[was.id] == was
    # A beginning that is not known counts from when it was written down.
    undated, dated = short(4, created_at=T0 + 5), short(5, confidence=0.9, valid_from=When(at=T0 + 100))
    assert span_of(after([undated, dated])[dated.id])[0] == T0 + 5


def test_what_lived_long_enough_is_promoted_once() -> None:
    """At 300 s, not before, a SHORT record becomes MID under its id and in its slot; then nothing is done."""
    one = short(1)
    assert steps([one], now=LATER - 1) == []
    (change,) = steps([one], now=LATER)
    (event,) = change.events
    assert (event.action, event.actor, event.at) == ("promote", "consolidator", LATER)
    assert event.record.id == one.id
    assert event.record.layer == Layer.MID
    assert (event.record.scope, event.record.key, event.record.payload) == (ANN, "city", "Lisbon")
    assert steps([event.record], now=LATER * 2) == []
    assert steps([one], now=T0 + 10, older_than_ms=10)[0].events[0].action == "promote"


def test_contradictions_are_marked_and_nothing_is_overwritten() -> None:
    """Current records of a slot that say different things stay, whatever their confidence, and are marked."""
    sure, weak = short(1, confidence=0.9, layer=Layer.LONG), short(2, "Porto", confidence=0.1)
    found = after([sure, weak], now=LATER)
    assert found[sure.id].conflict_with == (weak.id,)
    assert found[weak.id].conflict_with == (sure.id,)
    assert found[weak.id].layer == Layer.MID
    assert {each.status for each in found.values()} == {"current"}
    assert found[sure.id].payload == "Lisbon"


def test_what_has_expired_is_closed() -> None:
    """An expired record ends, is not merged or promoted any more, and marks that named it are taken off."""
    one, two = marks([short(1, expires_at=NOW), short(2, "Porto")])
    (change,) = steps([one, two], now=NOW)
    assert actions([change]) == [("expire", one.id), ("conflict", two.id)]
    assert change.events[0].record.status == "forgotten"
    assert change.events[0].record.payload is None
    assert change.events[1].record.conflict_with == ()
    twins = [short(1, expires_at=NOW), short(2)]
    assert after(twins)[twins[1].id] == twins[1]


def test_slots_are_apart() -> None:
    """The same under another key, in another scope or environment is another slot; each is a change."""
    records = [
        short(1),
        short(2, key="town"),
        short(3, scope=Scope("agent", "a")),
        short(4, environment="staging"),
    ]
    assert steps(records, now=NOW) == []
    assert [len(change.events) for change in steps(records, now=LATER)] == [1, 1, 1, 1]


@st.composite
def slots(draw: st.DrawFn) -> list[Record]:
    time = st.none() | st.integers(0, 5).map(lambda at: When(at=T0 + 100 * at))
    made = []
    for number in range(draw(st.integers(1, 8))):
        begin, end = draw(time), draw(time)
        if begin and end and end.at <= begin.at:
            end = None
        made.append(
            short(
                number,
                draw(st.sampled_from(["Lisbon", "lisbon", "Porto"])),
                layer=draw(st.sampled_from(list(Layer))),
                confidence=draw(st.sampled_from([0.2, 0.5, 0.9])),
                evidence=draw(st.integers(1, 4)),
                valid_from=begin,
                valid_to=end,
                created_at=T0 + 100 * draw(st.integers(0, 5)),
                expires_at=draw(st.sampled_from([0, 0, 0, NOW, NOW + 1])),
            )
        )
    return made


@given(slots(), st.sampled_from([NOW, LATER, LATER + 1_000]))
def test_consolidated_is_consolidated(records: list[Record], now: int) -> None:
    """Done once, nothing is left to do; each thing said still holds when it did, as surely, and as often."""
    found = after(records, now=now)
    assert steps(found.values(), now=now) == []
    live = [each for each in records if not 0 < each.expires_at <= now]
    current = [each for each in found.values() if each.status == "current"]
    for each in live:
        start, stop = span_of(each)
        heirs = [heir for heir in current if content_of(heir.payload) == content_of(each.payload)]
        assert any(
            span_of(heir)[0] <= start and stop <= span_of(heir)[1] and heir.confidence >= each.confidence
            for heir in heirs
        )
    assert sum(each.evidence for each in current) == sum(each.evidence for each in live)
    assert all(each.layer != Layer.SHORT or each.created_at + LIVED_MS > now for each in current)


def many(slot_count: int) -> list[Record]:
    """Slots with two of the same and one that contradicts them."""
    return [
        short(3 * slot + part, ["Lisbon", "Lisbon", "Porto"][part], key=f"key {slot}")
        for slot in range(slot_count)
        for part in range(3)
    ]


def test_twice_is_once() -> None:
    """A second pass writes nothing: the history is as it was."""
    store = memory(*many(5))
    assert consolidate(store, PRODUCTION, [ANN], now=LATER) == Consolidated(
        steps=5, merged=5, promoted=10, marked=10
    )
    history = store.history(where(statuses=EVERY), limit=1_000)
    assert consolidate(store, PRODUCTION, [ANN], now=LATER) == Consolidated()
    assert consolidate(store, PRODUCTION, now=LATER + 1_000_000) == Consolidated()
    assert store.history(where(statuses=EVERY), limit=1_000) == history


def test_only_what_was_asked_for() -> None:
    """A pass over scopes leaves the others alone, one over an environment the other environments."""
    agent = Scope("agent", "a")
    store = memory(short(1), short(2, scope=agent), short(3, environment="staging"))
    assert consolidate(store, PRODUCTION, [agent], now=LATER).promoted == 1
    assert consolidate(store, PRODUCTION, [], now=LATER).promoted == 0
    assert consolidate(store, PRODUCTION, now=LATER).promoted == 1
    assert consolidate(store, "staging", now=LATER).promoted == 1


@pytest.mark.parametrize("resume", [True, False])
def test_stopped_and_gone_on_with(resume: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """In portions of any size, with the cursor or without, the end is that of one pass."""
    monkeypatch.setattr(module, "_PAGE", 4)
    whole = memory(*many(7))
    consolidate(whole, PRODUCTION, now=LATER)
    store = memory(*many(7))
    calls, cursor, more = 0, "", True
    while more:
        done = consolidate(store, PRODUCTION, now=LATER, most=2, after=cursor)
        assert done.steps <= 2
        cursor, more = done.next if resume else "", done.more
        calls += 1
    assert calls == 4
    assert state(store) == state(whole)


def test_reading_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pass that finds nothing to do stops too, and says from where to go on."""
    monkeypatch.setattr(module, "_PAGE", 2)
    monkeypatch.setattr(module, "MOST_READ", 4)
    store = memory(*[short(number, key=f"key {number}", layer=Layer.LONG) for number in range(7)])
    first = consolidate(store, PRODUCTION, now=LATER)
    assert (first.steps, first.more) == (0, True)
    assert consolidate(store, PRODUCTION, now=LATER, after=first.next) == Consolidated()


def test_refused() -> None:
    """A pass of no steps never ends, and an age is not negative."""
    with pytest.raises(InvalidInput):
        consolidate(memory(), PRODUCTION, now=NOW, most=0)
    with pytest.raises(InvalidInput):
        consolidate(memory(), PRODUCTION, now=NOW, older_than_ms=-1)


class Meanwhile(InMemoryRecords):
    """A store in which somebody else consolidates between the look and the step."""

    @contextmanager
    def writing(self) -> Iterator[Any]:
        rival = InMemoryRecords.__new__(InMemoryRecords)
        rival.__dict__ = self.__dict__
        consolidate(rival, PRODUCTION, now=LATER)
        with super().writing() as transaction:
            yield transaction


def test_a_step_decides_by_what_is_there_then() -> None:
    """What another pass did in between is not done again, and not counted."""
    store = Meanwhile(terms=str.split)
    write(store, *many(3))
    assert consolidate(store, PRODUCTION, now=LATER) == Consolidated()
    assert len(store.history(where(), limit=1_000)) == len(many(3)) + 3 * 6


class Dying(SqliteRecords):
    """A store whose process is killed in its nth transaction, before or after it is written."""

    left = 0
    written = False

    @contextmanager
    def writing(self) -> Iterator[Transaction]:  # type: ignore[override]
        self.left -= 1
        with super().writing() as transaction:
            yield transaction
            if self.left == 0 and not self.written:
                os.kill(os.getpid(), signal.SIGKILL)
        if self.left == 0:
            os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.crash
@pytest.mark.parametrize("written", [False, True])
@pytest.mark.parametrize("nth", [1, 2, 5])
def test_killed_between_steps(nth: int, written: bool, tmp_path: Path) -> None:
    """After kill -9 before or after any commit, the next pass comes to the end of one that was not killed."""
    with_all = memory(*many(5))
    consolidate(with_all, PRODUCTION, now=LATER)
    first = SqliteRecords(tmp_path / FILE, terms=str.split)
    write(first, *many(5))
    first.close()

    def work(say: Say) -> None:
        store = Dying(tmp_path / FILE, terms=str.split)
        store.left, store.written = nth, written
        consolidate(store, PRODUCTION, now=LATER)
        say("not killed")

    with child(work) as killed:
        assert killed.hear_all() == []
        assert killed.wait() == -signal.SIGKILL
    store = SqliteRecords(tmp_path / FILE, terms=str.split)
    done = consolidate(store, PRODUCTION, now=LATER)
    assert done.steps == 5 - nth + (not written)
    assert state(store) == state(with_all)
    assert len(store.history(where(), limit=1_000)) == len(with_all.history(where(), limit=1_000))
    store.close()
