"""Searching what was said, with records and documents beside it."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from litestar import get
from litestar.params import QueryParameter

from stratalog.engine.remembering import MAX_FOUND
from stratalog.engine.searching import (
    Found,
    FoundPassage,
    FoundRecord,
    Hit,
    documents_found,
    records_found,
    together,
    turns_found,
)
from stratalog.engine.session import Session
from stratalog.errors import AccessDenied
from stratalog.interop.export import to_jsonl
from stratalog.surfaces.http.asking import Asking, Everyone, asking_of, changing, session_in_sight
from stratalog.surfaces.http.errors import problems
from stratalog.surfaces.http.fields import Best, Words, WordsAlone
from stratalog.surfaces.http.queries import strict
from stratalog.surfaces.http.record_views import RecordView, record_view
from stratalog.surfaces.http.routes_documents import PassageView, passage_view
from stratalog.surfaces.http.service import Desk, FromDesk

_Time = Annotated[int | None, QueryParameter(ge=0, le=2**53)]
_Role = Literal["user", "assistant", "tool_call", "tool_result", "compaction", "note"]


class TurnHit(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="turn"):
    """An entry that was found: where it stands, the best passage of its words, the entries around it, and
    what the session's last compaction says about what was asked ("" for nothing). `parts` add up to the
    score; `injected` marks words that recall itself had put there."""

    session: str
    agent: str
    channel: str
    chat: str
    title: str
    entry: str
    seq: int
    turn: str
    ts: int
    role: str
    score: float
    parts: dict[str, float]
    snippet: str
    terms: list[str]
    start: int
    stop: int
    injected: bool
    before: list[dict[str, Any]]
    after: list[dict[str, Any]]
    summary: str


class RecordHit(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="record"):
    """A record that was found; `parts` add up to the score."""

    record: RecordView
    score: float
    parts: dict[str, float]


class DocumentHit(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="document"):
    """A passage of a document that was found."""

    passage: PassageView
    score: float
    parts: dict[str, float]


class Hits(msgspec.Struct, frozen=True, kw_only=True):
    """What was found, the best first: of several kinds the first of each, then the second of each. Scores of
    two kinds cannot be compared. `more`: there was more than asked for."""

    hits: list[TurnHit | RecordHit | DocumentHit]
    more: bool


@get(
    "/v1/search",
    operation_id="search",
    tags=("search",),
    summary="What was said in the sessions in sight, and records and documents beside it",
    responses=problems(404),
)
async def search(
    desk: FromDesk,
    text: Words,
    limit: Best = 10,
    agent: Annotated[str | None, QueryParameter(description="Only its sessions.", max_length=1024)] = None,
    channel: Annotated[
        str | None, QueryParameter(description="Only sessions of this channel.", max_length=1024)
    ] = None,
    session: Annotated[
        str | None, QueryParameter(description="Only this one: `agent:channel:chat`.", max_length=4096)
    ] = None,
    role: Annotated[
        list[_Role] | None, QueryParameter(description="Only these kinds of entries.", max_items=6)
    ] = None,
    since: _Time = None,
    until: _Time = None,
    neighbours: Annotated[
        int, QueryParameter(description="With so many entries around each.", ge=0, le=20)
    ] = 0,
    per_session: Annotated[
        int | None, QueryParameter(description="At most so many of one session.", ge=1, le=100)
    ] = None,
    records: Annotated[bool, QueryParameter(description="Records too.")] = False,
    documents: Annotated[bool, QueryParameter(description="Documents too.")] = False,
    everyone: Everyone = False,
    words: WordsAlone = False,
) -> Hits:
    found = await session_in_sight(desk, session) if session is not None else None
    return await desk.run(
        _hits,
        desk,
        text,
        limit,
        found,
        records=records,
        documents=documents,
        everyone=everyone,
        meaning=not words,
        agent=agent,
        channel=channel,
        roles=tuple(role) if role else None,
        after_ts=since,
        before_ts=until,
        neighbours=neighbours,
        per_session=per_session,
    )


ROUTES = strict(search)


def _hits(
    desk: Desk,
    query: str,
    limit: int,
    session: Session | None,
    *,
    records: bool,
    documents: bool,
    everyone: bool,
    meaning: bool,
    **which: Any,
) -> Hits:
    """One more of each kind than is asked for is sought, so that it is known whether there is more."""
    asking, most = asking_of(desk, session), limit + 1
    if everyone:
        with changing(desk, "search_everyone", query=query):
            if not desk.asker.sees_all:
                raise AccessDenied("only an admin that names no user may ask for everyone")
    turns = turns_found(
        asking.memory,
        query,
        user=desk.asker.sight,
        limit=most,
        session=session.key if session is not None else None,
        meaning=meaning,
        **which,
    )
    told: list[FoundRecord] = []
    more = False
    if records:
        recall = records_found(
            asking.records,
            asking.who,
            query,
            scopes=asking.scopes(None, everyone=everyone),
            limit=min(most, MAX_FOUND),
            everyone=everyone,
            meaning=meaning,
        )
        told, more = recall.found, recall.more
    read = documents_found(asking.memory, query, limit=most, meaning=meaning) if documents else []
    hits = together(turns, told, read)
    return Hits(hits=[_hit(asking, each) for each in hits[:limit]], more=more or len(hits) > limit)


def _hit(asking: Asking, hit: Hit) -> TurnHit | RecordHit | DocumentHit:
    match hit:
        case FoundRecord():
            view = record_view(asking, hit.record)
            return RecordHit(record=view, score=hit.score, parts=hit.parts)
        case FoundPassage():
            return DocumentHit(passage=passage_view(hit), score=hit.score, parts=hit.parts)
    return _turn(hit)


def _turn(found: Found) -> TurnHit:
    hit = found.hit
    return TurnHit(
        session=str(hit.session),
        agent=hit.session.agent,
        channel=hit.session.channel,
        chat=hit.session.chat,
        title=found.title,
        entry=hit.entry_id,
        seq=hit.seq,
        turn=hit.turn,
        ts=hit.ts,
        role=hit.role,
        score=hit.score,
        parts=hit.parts,
        snippet=hit.snippet,
        terms=list(hit.terms),
        start=hit.start,
        stop=hit.stop,
        injected=hit.injected,
        before=[msgspec.json.decode(line) for line in to_jsonl(found.before)],
        after=[msgspec.json.decode(line) for line in to_jsonl(found.after)],
        summary=found.summary,
    )
