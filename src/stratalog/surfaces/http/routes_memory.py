"""Memory records: remembered, recalled, listed with their history and contradictions, and forgotten."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from litestar import Response, delete, get, post
from litestar.params import HeaderParameter, JSONBody, PathParameter, QueryParameter

from stratalog.engine.background import Job
from stratalog.engine.remembering import (
    Draft,
    Layer,
    Precision,
    Source,
    Status,
    When,
)
from stratalog.engine.remembering import RecordPage as Page
from stratalog.engine.searching import Recall, records_found
from stratalog.engine.serving_jobs import CONSOLIDATE, wanted
from stratalog.engine.serving_records import contradicted, places, record_place
from stratalog.errors import AccessDenied, InvalidInput
from stratalog.surfaces.http.asking import (
    ASKING,
    Asking,
    Everyone,
    FromAsking,
    ScopeName,
    ScopeNames,
    changing,
    session_in_sight,
)
from stratalog.surfaces.http.errors import problems
from stratalog.surfaces.http.fields import Cursor, Limit
from stratalog.surfaces.http.queries import strict
from stratalog.surfaces.http.record_views import (
    EventPage,
    ForgottenView,
    RecalledView,
    Recollection,
    RecordPage,
    RecordView,
    RememberedView,
    event_view,
    record_view,
)
from stratalog.surfaces.http.routes_jobs import JobView, job_view
from stratalog.surfaces.http.service import FromDesk, needs

_PATH = "/v1/memory"
_RECORDS = _PATH + "/records"
_ONE = _RECORDS + "/{record:str}"
_TAGS = ("memory",)
_FAR = 2**53
_Time = Annotated[int, msgspec.Meta(ge=-_FAR, le=_FAR)]
_Entry = (
    Annotated[str, msgspec.Meta(min_length=1, max_length=1024)] | Annotated[int, msgspec.Meta(ge=1, le=_FAR)]
)

RecordId = Annotated[str, PathParameter(description="The id of a record.", max_length=64)]
Layers = Annotated[list[Layer] | None, QueryParameter(description="Only these layers.", max_items=3)]
Keys = Annotated[
    list[str] | None, QueryParameter(description="Only what is under these keys.", max_items=100)
]
Reason = Annotated[str, QueryParameter(description="Why, for the history.", max_length=1_000)]
AsOf = Annotated[
    int | None, QueryParameter(description="What held then, milliseconds UTC.", ge=-_FAR, le=_FAR)
]


class NewWhen(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A moment: where it begins, how much of it is meant, and in which zone (its IANA name)."""

    at: _Time
    precision: Precision = "second"
    zone: Annotated[str, msgspec.Meta(max_length=100)] = "UTC"


class NewSource(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where it was said: a session in sight (`agent:channel:chat`) and its entry, by id or number; `start`
    and `stop` are characters of the entry's words (0 and 0: all of them)."""

    session: Annotated[str, msgspec.Meta(min_length=1, max_length=4096)]
    entry: _Entry
    start: Annotated[int, msgspec.Meta(ge=0, le=_FAR)] = 0
    stop: Annotated[int, msgspec.Meta(ge=0, le=_FAR)] = 0


class NewRecord(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What to remember, as a text, as JSON (`payload`), or both. `scope` is `user`, `agent`, `session`, `run`
    or `tenant`, that of who asks, or `KIND:ID`. `replaces` corrects all that is under the key now.
    `expires_at` 0 is never. Only the roles `agent` and `admin` may say that it is not the user who says it.
    """

    key: Annotated[str, msgspec.Meta(min_length=1, max_length=1_000)]
    text: Annotated[str, msgspec.Meta(max_length=16_000)] = ""
    payload: Any = None
    layer: Layer = Layer.LONG
    scope: Annotated[str, msgspec.Meta(min_length=1, max_length=4096)] = "user"
    confidence: Annotated[float, msgspec.Meta(ge=0, le=1)] = 0.5
    origin: Literal["user", "agent", "tool", "import"] = "user"
    valid_from: NewWhen | None = None
    valid_to: NewWhen | None = None
    replaces: bool = False
    expires_at: Annotated[int, msgspec.Meta(ge=0, le=_FAR)] = 0
    said_at: Annotated[int, msgspec.Meta(ge=0, le=_FAR)] = 0
    sources: Annotated[list[NewSource], msgspec.Meta(max_length=100)] = []


class Question(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What to recall. `as_of` asks for what held then; `words` leaves meaning out, also where there are
    vectors. `everyone` is every scope of the environment, for an admin that names no user."""

    query: Annotated[str, msgspec.Meta(min_length=1, max_length=16_000)]
    layers: Annotated[list[Layer], msgspec.Meta(max_length=3)] = []
    scopes: Annotated[list[str], msgspec.Meta(max_length=20)] = []
    limit: Annotated[int, msgspec.Meta(ge=1, le=100)] = 10
    as_of: _Time | None = None
    everyone: bool = False
    words: bool = False


@post(
    _RECORDS,
    operation_id="remember",
    tags=_TAGS,
    summary="Remember something; what became of it",
    status_code=200,
    responses=problems(404, 409),
)
async def remember(
    asking: FromAsking,
    data: JSONBody[NewRecord],
    idempotency_key: Annotated[
        str | None,
        HeaderParameter(
            name="idempotency-key",
            description="The same key for the same draft is the same call, and does nothing again.",
            min_length=1,
            max_length=200,
        ),
    ] = None,
) -> RememberedView:
    if asking.confined and data.origin != "user":
        raise AccessDenied("this token speaks for its user alone", hint="leave out `origin`")
    draft = Draft(
        layer=data.layer,
        scope=asking.scope(data.scope),
        key=data.key,
        payload=data.payload,
        text=data.text,
        confidence=data.confidence,
        origin=data.origin,
        sources=tuple([await _source(asking, each) for each in data.sources]),
        valid_from=_when(data.valid_from),
        valid_to=_when(data.valid_to),
        expires_at=data.expires_at,
        said_at=data.said_at,
        replaces=data.replaces,
    )
    who, service = asking.who, asking.service
    done = await asking.desk.run(service.remember, who, draft, idempotency=idempotency_key or "")
    view = record_view(asking, done.record) if done.record is not None else None
    return RememberedView(outcome=done.outcome, record=view, reason=done.reason, again=done.again)


@get(
    _RECORDS,
    operation_id="listRecords",
    tags=_TAGS,
    summary="Records, the oldest first",
    responses=problems(404),
)
async def list_records(
    asking: FromAsking,
    named: ScopeNames = None,
    layer: Layers = None,
    key: Keys = None,
    status: Annotated[
        list[Status] | None, QueryParameter(description="Only these; else `current`.", max_items=3)
    ] = None,
    as_of: AsOf = None,
    conflicts: Annotated[
        bool,
        QueryParameter(
            description="Only current records that others contradict. A page may be short and go on."
        ),
    ] = False,
    everyone: Everyone = False,
    limit: Limit = 50,
    cursor: Cursor = "",
) -> RecordPage:
    if (as_of is not None) + bool(status) + conflicts > 1 or (everyone and as_of is not None):
        raise InvalidInput(
            "these filters do not go together",
            hint="one of as_of, status and conflicts; everyone without as_of",
        )
    after = record_place(cursor)
    which: dict[str, Any] = {
        "scopes": asking.scopes(named, everyone=everyone),
        "layers": tuple(layer or ()),
        "keys": tuple(key or ()),
    }

    def page() -> Page:
        service, who = asking.service, asking.who
        if as_of is not None:
            return service.as_of(who, as_of, limit=limit, after=after, **which)
        if conflicts:
            return contradicted(service, who, limit=limit, after=after, everyone=everyone, **which)
        statuses = tuple(status or ("current",))
        return service.list(who, limit=limit, after=after, statuses=statuses, everyone=everyone, **which)

    found = await asking.desk.run(page)
    return RecordPage(records=[record_view(asking, each) for each in found.records], cursor=found.next)


@get(
    _ONE,
    operation_id="getRecord",
    tags=_TAGS,
    summary="One record, with the places of its sources",
    responses=problems(404),
)
async def get_record(asking: FromAsking, record: RecordId) -> RecordView:
    def found() -> RecordView:
        got = asking.get(record)
        sees = asking.desk.asker.sees
        return record_view(asking, got, places(asking.memory, got.sources, sees))

    return await asking.desk.run(found)


@get(
    _ONE + "/history",
    operation_id="getRecordHistory",
    tags=_TAGS,
    summary="What happened to one record",
    responses=problems(404),
)
async def record_history(
    asking: FromAsking, record: RecordId, limit: Limit = 50, cursor: Cursor = ""
) -> EventPage:
    after = _number(cursor)

    def page() -> EventPage:
        got = asking.get(record)
        return _events(asking, id=got.id, scopes=(got.scope,), limit=limit, after=after)

    return await asking.desk.run(page)


@get(
    _PATH + "/history",
    operation_id="listHistory",
    tags=_TAGS,
    summary="What happened to records, also to those that were forgotten",
    responses=problems(404),
)
async def list_history(
    asking: FromAsking,
    named: ScopeNames = None,
    key: Keys = None,
    id: Annotated[str, QueryParameter(description="Only of this record.", max_length=64)] = "",
    everyone: Everyone = False,
    limit: Limit = 50,
    cursor: Cursor = "",
) -> EventPage:
    which = {
        "scopes": asking.scopes(named, everyone=everyone),
        "everyone": everyone,
        "keys": tuple(key or ()),
        "after": _number(cursor),
    }
    return await asking.desk.run(_events, asking, id=id, limit=limit, **which)


@delete(
    _ONE,
    operation_id="forgetRecord",
    tags=_TAGS,
    summary="Forget one record",
    status_code=200,
    responses=problems(404),
)
async def forget_record(asking: FromAsking, record: RecordId, reason: Reason = "") -> ForgottenView:
    def forgotten() -> ForgottenView:
        got = asking.get(record)
        done = asking.service.forget(asking.who, id=got.id, reason=reason)
        return ForgottenView(
            forgotten=done.forgotten, repaired=done.repaired, unsupported=list(done.unsupported)
        )

    return await asking.desk.run(forgotten)


@delete(
    _RECORDS,
    operation_id="forgetKey",
    tags=_TAGS,
    summary="Forget all that is under a key",
    status_code=200,
    responses=problems(404),
)
async def forget_key(
    asking: FromAsking,
    key: Annotated[str, QueryParameter(description="What it is about.", min_length=1, max_length=1_000)],
    named: ScopeName = "user",
    reason: Reason = "",
) -> ForgottenView:
    whose = asking.scope(named)
    done = await asking.desk.run(asking.service.forget, asking.who, scope=whose, key=key, reason=reason)
    return ForgottenView(forgotten=done.forgotten, repaired=done.repaired, unsupported=list(done.unsupported))


@post(
    _PATH + "/recall",
    operation_id="recall",
    tags=_TAGS,
    summary="Records that matter for a question, with what each score is made of",
    status_code=200,
    responses=problems(404),
)
async def recall(asking: FromAsking, data: JSONBody[Question]) -> Recollection:
    scopes = asking.scopes(data.scopes, everyone=data.everyone)

    def found() -> Recall:
        return records_found(
            asking.records,
            asking.who,
            data.query,
            scopes=scopes,
            layers=tuple(data.layers),
            limit=data.limit,
            as_of=data.as_of,
            everyone=data.everyone,
            meaning=not data.words,
        )

    told = await asking.desk.run(found)
    return Recollection(
        found=[
            RecalledView(record=record_view(asking, each.record), score=each.score, parts=each.parts)
            for each in told.found
        ],
        more=told.more,
    )


@post(
    _PATH + "/consolidate",
    operation_id="consolidate",
    tags=_TAGS,
    guards=[needs("admin")],
    summary="Have records merged, promoted, marked and ended, as a job",
    status_code=202,
    responses=problems(),
)
async def consolidate(desk: FromDesk) -> Response[JobView]:
    def put() -> Job:
        with changing(desk, "consolidate"):
            return wanted(desk.tenancy.records.jobs, CONSOLIDATE)

    job = await desk.run(put)
    return Response(job_view(job), status_code=202, headers={"location": f"/v1/jobs/{job.id}"})


_ASKING = (
    remember,
    list_records,
    get_record,
    record_history,
    list_history,
    forget_record,
    forget_key,
    recall,
)
ROUTES = (*strict(*_ASKING, dependencies=ASKING), *strict(consolidate))


async def _source(asking: Asking, source: NewSource) -> Source:
    session = await session_in_sight(asking.desk, source.session)
    entry = await asking.desk.run(session.entry, source.entry)
    return Source(session=str(session.key), entry=entry.id, start=source.start, stop=source.stop)


def _when(when: NewWhen | None) -> When | None:
    return When(at=when.at, precision=when.precision, zone=when.zone) if when is not None else None


def _events(asking: Asking, **which: Any) -> EventPage:
    page = asking.service.history(asking.who, **which)
    return EventPage(
        events=[event_view(asking, each) for each in page.events if asking.shows(each.record)],
        cursor=str(page.next or ""),
    )


def _number(cursor: str) -> int:
    """The place that a cursor tells. Raises `InvalidInput`."""
    if cursor and not (cursor.isascii() and cursor.isdecimal() and len(cursor) < 18):
        raise InvalidInput("this place was not given by a history", hint="begin without a cursor")
    return int(cursor or 0)
