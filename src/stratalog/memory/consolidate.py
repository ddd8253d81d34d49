"""Tidying records in the background: what is said twice is merged, what lasted is promoted, what contradicts
is marked, what is over is closed.

A step is one slot: it is read, decided by `steps` and written in one transaction, so there is no moment in
which a record is closed and its heir is not there. What is to be done is seen in the records alone. So a pass
that was killed is finished by the next, one that has nothing to do writes nothing, and two at once do no
harm.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, TypeAlias

import msgspec
from msgspec.structs import replace

from stratalog.errors import InvalidInput
from stratalog.memory.contract import (
    PRODUCTION,
    Action,
    Change,
    Event,
    Layer,
    Record,
    RecordStore,
    Scope,
    When,
    Where,
)
from stratalog.memory.policy import LASTING, MAX_SOURCES, TRUST, content_of, expired, marks, span_of

LIVED_MS: Final = 300_000
MOST_STEPS: Final = 1_000
MOST_READ: Final = 20_000
_PAGE: Final = 500

_Slot: TypeAlias = tuple[str, Scope, str]


class Consolidated(msgspec.Struct, frozen=True, kw_only=True):
    """What a pass did: `steps` transactions, in which `merged` records were closed for saying what another
    says, `promoted` became MID, `marked` had their marks of contradiction put right and `expired` ended.
    `more`: there is more to look at, from `next` on."""

    steps: int = 0
    merged: int = 0
    promoted: int = 0
    marked: int = 0
    expired: int = 0
    more: bool = False
    next: str = ""


def consolidate(
    store: RecordStore,
    environment: str | None,
    scopes: Sequence[Scope] | None = None,
    *,
    now: int,
    older_than_ms: int = LIVED_MS,
    actor: str = "consolidator",
    most: int = MOST_STEPS,
    after: str = "",
) -> Consolidated:
    """Consolidates the current records of the scopes, or with None of the whole environment, as of `now`
    (milliseconds); without an environment those of every one.

    It looks at the records in the order of their ids, after the id `after`, and stops after `most` steps, or
    when it has looked at 20,000 records; then `more` is set, and `next` is the `after` to go on with. Without
    it a pass begins anew, and finds what is done to be done.

    Raises `InvalidInput` for a `most` under 1 or a negative `older_than_ms`, and what the store raises; the
    steps before that are written.
    """
    if most < 1 or older_than_ms < 0:
        raise InvalidInput("a pass has at least one step and no negative age", most=most, age=older_than_ms)
    if environment is None:
        wanted = Where(environment=PRODUCTION, scopes=(), whole="tenant")
    elif scopes is None:
        wanted = Where(environment=environment, scopes=(), whole="environment")
    else:
        wanted = Where(environment=environment, scopes=tuple(scopes))
    done = Consolidated()
    for _ in range(MOST_READ // _PAGE):
        page = store.find(wanted, limit=_PAGE, after=after)
        for slot in dict.fromkeys(_slot_of(each) for each in page.records):
            if not steps(_read(store, slot), now=now, older_than_ms=older_than_ms, actor=actor):
                continue
            if done.steps == most:
                return replace(done, more=True, next=after)
            done = _added(done, _step(store, slot, now, older_than_ms, actor))
        after = page.next
        if not after:
            return done
    return replace(done, more=True, next=after)


def _step(store: RecordStore, slot: _Slot, now: int, older_than_ms: int, actor: str) -> Change:
    """Reads the slot anew, while nobody else writes, and writes what is to be done there."""
    with store.writing() as transaction:
        found = transaction.find(_where(slot))
        change = next(iter(steps(found, now=now, older_than_ms=older_than_ms, actor=actor)), Change())
        if change.events:
            transaction.write(change)
    return change


def _read(store: RecordStore, slot: _Slot) -> list[Record]:
    found: list[Record] = []
    after = ""
    while True:
        page = store.find(_where(slot), limit=_PAGE, after=after)
        found += page.records
        after = page.next
        if not after:
            return found


def _where(slot: _Slot) -> Where:
    environment, scope, key = slot
    return Where(environment=environment, scopes=(scope,), keys=(key,))


def _added(done: Consolidated, change: Change) -> Consolidated:
    def count(action: Action) -> int:
        return sum(event.action == action for event in change.events)

    return replace(
        done,
        steps=done.steps + bool(change.events),
        merged=done.merged + count("supersede"),
        promoted=done.promoted + count("promote"),
        marked=done.marked + count("conflict"),
        expired=done.expired + count("expire"),
    )


# --- deciding ---


def steps(
    records: Iterable[Record], *, now: int, older_than_ms: int = LIVED_MS, actor: str = "consolidator"
) -> list[Change]:
    """What is to be done about the current ones of these records: a change for each slot that needs one, in
    the order of the slots' first records. Whole slots must be given.

    In a slot, in this order: what has expired ends. A SHORT record that says what a longer lasting one, a
    surer one or an older one says, for the same time, is closed, and that one takes over its sources, its
    evidence and its confidence. A SHORT record as old as `older_than_ms` becomes MID. The rest is marked as
    far as it contradicts. Nothing is closed for saying something else, whatever its confidence.

    What is done leaves nothing to do: with these changes written, it returns none.
    """
    slots: dict[_Slot, list[Record]] = {}
    for record in records:
        if record.status == "current":
            slots.setdefault(_slot_of(record), []).append(record)
    changes = (_change(slot, now, older_than_ms, actor) for slot in slots.values())
    return [change for change in changes if change.events]


def _slot_of(record: Record) -> _Slot:
    return record.environment, record.scope, record.key


def _change(slot: Sequence[Record], now: int, older_than_ms: int, actor: str) -> Change:
    ended = [event for event in (expired(each, now, actor) for each in slot) if event]
    over = {event.record.id for event in ended}
    live = [each for each in slot if each.id not in over]
    merged, closed = _merged(live, now)
    promoted = [_promoted(each, now, older_than_ms) for each in merged]
    marked = marks(promoted)
    # What takes over is written first: the history never reads as if something had been lost in between.
    stages: tuple[tuple[Action, Sequence[Record]], ...] = (
        ("merge", merged),
        ("supersede", closed),
        ("promote", promoted),
        ("conflict", marked),
    )
    state = {each.id: each for each in live}
    events = ended
    for action, after in stages:
        news = [each for each in after if state[each.id] != each]
        events += [Event(at=now, action=action, actor=actor, record=each) for each in news]
        state |= {each.id: each for each in news}
    return Change(events=tuple(events))


def _merged(live: Sequence[Record], now: int) -> tuple[list[Record], list[Record]]:
    """The records that stay, having taken over what the others said, and those others, closed."""
    kept: dict[tuple[str, int | None], Record] = {}
    stay: dict[str, Record] = {}
    closed = []
    for record in sorted(live, key=_first):
        # Of two with one end both hold just before it, so together they are one stretch of time. With
        # different ends they disagree about how long it holds, and are left to be marked.
        said = content_of(record.payload), record.valid_to.at if record.valid_to else None
        heir = kept.setdefault(said, record)
        if heir is record or record.layer != Layer.SHORT:
            stay[record.id] = record
            continue
        kept[said] = stay[heir.id] = _united(heir, record, now)
        closed.append(_void(record, now))
    return [stay[each.id] for each in live if each.id in stay], closed


def _first(record: Record) -> tuple[int, float, int, str]:
    """The order in which records of the same come to stay: longest lasting, surest, oldest."""
    return -LASTING[record.layer], -record.confidence, record.created_at, record.id


def _united(heir: Record, other: Record, now: int) -> Record:
    """The heir with what the other adds. A source that both have was one saying, and counts once."""
    shared = len(set(heir.sources) & set(other.sources))
    sources = tuple(dict.fromkeys((*heir.sources, *other.sources)))[:MAX_SOURCES]
    both_end = heir.expires_at and other.expires_at
    return replace(
        heir,
        confidence=max(heir.confidence, other.confidence),
        origin=max(heir.origin, other.origin, key=TRUST.__getitem__),
        sources=sources,
        evidence=heir.evidence + max(0, other.evidence - shared),
        valid_from=_begin(heir, other),
        supersedes=tuple(dict.fromkeys((*heir.supersedes, *other.supersedes, other.id))),
        created_at=min(heir.created_at, other.created_at),
        expires_at=max(heir.expires_at, other.expires_at) if both_end else 0,
        updated_at=now,
    )


def _begin(heir: Record, other: Record) -> When | None:
    """Where the earlier of the two begins. Not known, it stays so: then the heir counts from the earlier
    `created_at`."""
    earlier = min(heir, other, key=lambda each: span_of(each)[0])
    undated = earlier.valid_from is None and earlier.created_at > min(heir.created_at, other.created_at)
    return When(at=span_of(earlier)[0]) if undated else earlier.valid_from


def _void(record: Record, now: int) -> Record:
    """The record, closed, as one that holds at no time: its heir holds whenever it did."""
    begin = record.valid_from or When(at=span_of(record)[0])
    return replace(
        record, valid_from=begin, valid_to=begin, conflict_with=(), status="superseded", updated_at=now
    )


def _promoted(record: Record, now: int, older_than_ms: int) -> Record:
    if record.layer != Layer.SHORT or record.created_at + older_than_ms > now:
        return record
    return replace(record, layer=Layer.MID, updated_at=now)
