"""Records, their history and what became of them, as the document describes them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

import msgspec

from stratalog.engine.remembering import Event, Layer, Outcome, Precision, Record, ScopeKind, Source, When
from stratalog.engine.serving_records import Place
from stratalog.errors import InvalidKey
from stratalog.keys import parse_key
from stratalog.surfaces.http.asking import Asking


class ScopeView(msgspec.Struct, frozen=True):
    """Whose a record is; `id` is "" for what the tenant shares."""

    kind: ScopeKind
    id: str = ""


class WhenView(msgspec.Struct, frozen=True, kw_only=True):
    """A moment as it was told: where it begins, how much of it was said, and the zone it was meant in."""

    at: int
    precision: Precision
    zone: str


class SourceView(msgspec.Struct, frozen=True, kw_only=True):
    """Where it was said: the session, the entry, and the characters of its words (0 and 0: all of them).
    `seq` is the number of the entry and `turn` its turn, for one record that is asked for; null and "" where
    that is not told or not known."""

    session: str
    agent: str
    channel: str
    chat: str
    entry: str
    start: int
    stop: int
    seq: int | None = None
    turn: str = ""


class RecordView(msgspec.Struct, frozen=True, kw_only=True):
    """A record. `text` is its payload in words; `conflict_with` are ids of those that contradict it, and
    `contradicted` whether any does now; `evidence` counts how often it was said. Of `expires_at` 0 is never.
    """

    id: str
    environment: str
    layer: Layer
    scope: ScopeView
    key: str
    payload: Any
    text: str
    confidence: float
    origin: Literal["user", "agent", "tool", "import", "model"]
    sources: list[SourceView]
    valid_from: WhenView | None
    valid_to: WhenView | None
    supersedes: list[str]
    conflict_with: list[str]
    contradicted: bool
    evidence: int
    status: Literal["current", "superseded", "forgotten"]
    created_at: int
    updated_at: int
    expires_at: int


class RecordPage(msgspec.Struct, frozen=True, kw_only=True):
    """Records, the oldest first; `cursor` goes on after them, "" at the end."""

    records: list[RecordView]
    cursor: str = ""


class RememberedView(msgspec.Struct, frozen=True, kw_only=True):
    """What became of it. `record` says now what was said, null when it was refused or forgotten since;
    `again`: this very call was made before, and nothing was done now."""

    outcome: Outcome
    record: RecordView | None
    reason: str = ""
    again: bool = False


class RecalledView(msgspec.Struct, frozen=True, kw_only=True):
    """A record that was found. `parts` are what words and meaning gave to its score, and add up to it."""

    record: RecordView
    score: float
    parts: dict[str, float]


class Recollection(msgspec.Struct, frozen=True, kw_only=True):
    """What was found, the best first; `more`: there were more than asked for."""

    found: list[RecalledView]
    more: bool


class EventView(msgspec.Struct, frozen=True, kw_only=True):
    """A step in a record's life: the record as it was after it. `actor` says who did it, by user, agent,
    session and run."""

    seq: int
    at: int
    action: str
    actor: dict[str, str]
    reason: str
    record: RecordView


class EventPage(msgspec.Struct, frozen=True, kw_only=True):
    """Steps, the oldest first; `cursor` goes on after them, "" at the end."""

    events: list[EventView]
    cursor: str = ""


class ForgottenView(msgspec.Struct, frozen=True, kw_only=True):
    """How many records say nothing any more, how many others were put right, and what the place where they
    are kept cannot do about it."""

    forgotten: int
    repaired: int
    unsupported: list[str]


def record_view(asking: Asking, record: Record, places: Iterable[Place] | None = None) -> RecordView:
    """The record; of `places` where its sources stand, as far as they were looked for."""
    if places is None:
        places = [Place(each, parse_key(each.session)) for each in record.sources if _is_key(each)]
    return RecordView(
        id=record.id,
        environment=record.environment,
        layer=record.layer,
        scope=ScopeView(record.scope.kind, record.scope.id),
        key=record.key,
        payload=record.payload,
        text=record.text,
        confidence=record.confidence,
        origin=record.origin,
        sources=[source_view(each) for each in places if asking.private(record)],
        valid_from=_when(record.valid_from),
        valid_to=_when(record.valid_to),
        supersedes=list(record.supersedes),
        conflict_with=list(record.conflict_with),
        contradicted=bool(record.conflict_with) and record.status == "current",
        evidence=record.evidence,
        status=record.status,
        created_at=record.created_at,
        updated_at=record.updated_at,
        expires_at=record.expires_at,
    )


def source_view(place: Place) -> SourceView:
    """A source, with its place."""
    source, key = place.source, place.key
    return SourceView(
        session=source.session,
        agent=key.agent,
        channel=key.channel,
        chat=key.chat,
        entry=source.entry,
        start=source.start,
        stop=source.stop,
        seq=place.seq,
        turn=place.turn,
    )


def event_view(asking: Asking, event: Event) -> EventView:
    """A step of the history."""
    return EventView(
        seq=event.seq,
        at=event.at,
        action=event.action,
        actor=_actor(event.actor) if asking.private(event.record) else {},
        reason=event.reason,
        record=record_view(asking, event.record),
    )


def _when(when: When | None) -> WhenView | None:
    return WhenView(at=when.at, precision=when.precision, zone=when.zone) if when is not None else None


def _actor(text: str) -> dict[str, str]:
    """Who it was; of what no service of ours wrote, nothing."""
    try:
        return msgspec.json.decode(text, type=dict[str, str])
    except msgspec.MsgspecError:
        return {}


def _is_key(source: Source) -> bool:
    """Whether the source names a session that could be there; a record that was imported may name any."""
    try:
        parse_key(source.session)
    except InvalidKey:
        return False
    return True
