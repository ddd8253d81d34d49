"""Talking: a message and its turn, as one answer or as a stream of events, and ending what runs."""

from __future__ import annotations

from typing import Annotated, Any, Literal
from urllib.parse import quote

import msgspec
from litestar import Request, Response, get, post
from litestar.openapi.datastructures import ResponseSpec
from litestar.params import FromQuery, HeaderParameter, JSONBody

from stratalog.engine.aio import AsyncSession
from stratalog.engine.serving_streams import Done, Failed, Paused
from stratalog.engine.serving_turns import Accepted
from stratalog.surfaces.http.errors import (
    Problem,
    answer,
    failed_problem,
    plain_problem,
    problems,
    request_id,
)
from stratalog.surfaces.http.fields import AgentName, Channel, ChatId, LastEventId, TurnId
from stratalog.surfaces.http.service import CHANNEL, Desk, FromDesk
from stratalog.surfaces.http.streaming import EVENTS, StreamsToo, position_of, streamed, streamed_ending
from stratalog.types import Content, Image, Text, Usage

_ONE = "/v1/agents/{agent:str}/sessions/{chat:str}"
_TAGS = ("turns",)
_EVENTS = ResponseSpec(
    str,
    description="Server-Sent Events: `queued`, `started`, `text`, `reasoning`, `retrying`, `tool_call`, "
    "`tool_result`, `compacted`, `warning`, `snapshot`, and last `done`, `failed` or `paused`",
    media_type=EVENTS,
    generate_examples=False,
)
_OVER = ResponseSpec(None, description="That was the last event", generate_examples=False)


class TextPart(
    msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="text", forbid_unknown_fields=True
):
    """Words."""

    text: str


class ImagePart(
    msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="image", forbid_unknown_fields=True
):
    """An image; `data` is base64."""

    media_type: Literal["image/png", "image/jpeg", "image/gif", "image/webp"]
    data: bytes


class NewMessage(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A message. `model` answers this turn instead of the agent's, where it can be had."""

    content: (
        Annotated[str, msgspec.Meta(min_length=1)]
        | Annotated[list[TextPart | ImagePart], msgspec.Meta(min_length=1, max_length=100)]
    )
    model: Annotated[str, msgspec.Meta(max_length=200)] = ""


class TurnView(msgspec.Struct, frozen=True, kw_only=True):
    """A turn. `text` is the reply, whole once the status is `answered`; `position` is how many turns are
    before one that is queued; `url` is where its events are."""

    turn: str
    status: Literal["queued", "started", "answered", "aborted", "interrupted", "timed_out"]
    text: str = ""
    entry: str = ""
    model: str = ""
    usage: Usage | None = None
    position: int = 0
    url: str = ""


class AbortView(msgspec.Struct, frozen=True):
    """Whether a turn was running, which is ended now."""

    aborted: bool


@post(
    _ONE + "/messages",
    operation_id="say",
    operation_class=StreamsToo,
    tags=_TAGS,
    summary="Say something: the reply, or with `stream` its events as they come",
    status_code=200,
    responses=problems(404, 409, 502, 507)
    | {
        200: ResponseSpec(TurnView, description="The turn was answered", generate_examples=False),
        202: ResponseSpec(TurnView, description="It waits for its turn", generate_examples=False),
        204: _OVER,
    },
)
async def say(
    request: Request[Any, Any, Any],
    desk: FromDesk,
    agent: AgentName,
    chat: ChatId,
    data: JSONBody[NewMessage],
    channel: Channel = CHANNEL,
    stream: FromQuery[bool] = False,
    idempotency_key: Annotated[
        str | None,
        HeaderParameter(
            name="idempotency-key",
            description="The same key within a day is the same turn.",
            min_length=1,
            max_length=200,
        ),
    ] = None,
    last_event_id: LastEventId = None,
) -> Response[Any]:
    events = stream or EVENTS in request.headers.get("accept", "")
    last = position_of(last_event_id)
    if last is not None:  # a client that sends its request again after the connection broke
        session = await desk.session(agent, chat, channel)
        return await _resumed(desk, session, *last)
    model = await desk.model(agent, data.model)
    session = await desk.begun(agent, chat, channel)
    accepted = await desk.turns.say(
        desk.tenancy,
        session,
        _content(data),
        user=desk.asker.user,
        model=model,
        key=idempotency_key or "",
    )
    if accepted is None:
        return answer(_ending(request_id(request)), {"retry-after": "5"})
    if events:
        if accepted.stream is None:
            return await _resumed(desk, session, accepted.turn, None)
        return streamed(desk, accepted.stream, None, 202 if accepted.position else 200)
    return await _answered(desk, session, accepted, request)


@get(
    _ONE + "/turns/{turn:str}",
    operation_id="getTurn",
    tags=_TAGS,
    summary="What became of a turn",
    responses=problems(404),
)
async def get_turn(
    desk: FromDesk, agent: AgentName, chat: ChatId, turn: TurnId, channel: Channel = CHANNEL
) -> TurnView:
    session = await desk.session(agent, chat, channel)
    return await _view(desk, session, turn)


@get(
    _ONE + "/turns/{turn:str}/events",
    operation_id="followTurn",
    tags=_TAGS,
    summary="The events of a turn, from the one after `Last-Event-ID`",
    media_type=EVENTS,
    responses=problems(404) | {200: _EVENTS, 204: _OVER},
)
async def follow_turn(
    desk: FromDesk,
    agent: AgentName,
    chat: ChatId,
    turn: TurnId,
    channel: Channel = CHANNEL,
    last_event_id: LastEventId = None,
) -> Response[Any]:
    last = position_of(last_event_id)
    session = await desk.session(agent, chat, channel)
    return await _resumed(desk, session, turn, last[1] if last is not None and last[0] == turn else None)


@post(
    _ONE + "/abort",
    operation_id="abort",
    tags=_TAGS,
    summary="End the running turn; what it wrote is kept, and those that wait go on",
    status_code=200,
    responses=problems(404),
)
async def abort(desk: FromDesk, agent: AgentName, chat: ChatId, channel: Channel = CHANNEL) -> AbortView:
    session = await desk.session(agent, chat, channel)
    return AbortView(await desk.turns.abort(session))


ROUTES = (say, get_turn, follow_turn, abort)


async def _resumed(desk: Desk, session: AsyncSession, turn: str, after: int | None) -> Response[Any]:
    """The events of a turn after the one of this number, or its ending as the log has it."""
    kept = desk.turns.stream(session.key, turn)
    if kept is None and not desk.turns.draining:
        await desk.turns.taken_up(desk.tenancy, session)
        kept = desk.turns.stream(session.key, turn)
    if kept is not None and kept.ending is not None and after == kept.last:
        return Response(None, status_code=204)  # a browser does not connect again after this
    if kept is not None:
        return streamed(desk, kept, after)
    state = await desk.turns.state(session, turn)
    return streamed_ending(turn, state.ending, after)


async def _answered(
    desk: Desk, session: AsyncSession, accepted: Accepted, request: Request[Any, Any, Any]
) -> Response[Any]:
    """The turn once it ended, or where it stands when it has to wait."""
    waits = accepted.position > 0
    if waits or accepted.stream is None:
        ending = (await desk.turns.state(session, accepted.turn)).ending
    else:
        ending = await accepted.stream.ended()
    match ending:
        case Paused() if waits or accepted.stream is None:
            view = await _view(desk, session, accepted.turn)
            view = msgspec.structs.replace(view, position=accepted.position)
            return Response(view, status_code=202, headers={"location": view.url})
        case Done():
            return Response(_done(ending, _url(session, accepted.turn)))
        case Failed():
            return answer(
                failed_problem(ending.error, ending.reason, ending.status, ending.turn, request_id(request))
            )
        case _:
            return answer(_ending(request_id(request), ending.turn), {"retry-after": "5"})


async def _view(desk: Desk, session: AsyncSession, turn: str) -> TurnView:
    state = await desk.turns.state(session, turn)
    return TurnView(
        turn=turn,
        status=state.status,
        text=state.text,
        entry=state.entry,
        model=state.model,
        usage=state.usage,
        position=desk.turns.position(session.key, turn),
        url=_url(session, turn),
    )


def _done(ending: Done, url: str) -> TurnView:
    return TurnView(
        turn=ending.turn,
        status="answered",
        text=ending.text,
        entry=ending.entry,
        model=ending.model,
        usage=ending.usage,
        url=url,
    )


def _url(session: AsyncSession, turn: str) -> str:
    """Where the events of the turn are."""
    _, agent, channel, chat = session.key
    where = f"/v1/agents/{quote(agent, safe='')}/sessions/{quote(chat, safe='')}/turns/{turn}/events"
    return where if channel == CHANNEL else f"{where}?channel={quote(channel, safe='')}"


def _ending(request: str, turn: str = "") -> Problem:
    """The service ends before the turn did, or takes no message more."""
    detail = "the turn goes on when the service runs again" if turn else "no message is taken now"
    problem = plain_problem(503, detail, request, "ask again in a moment")
    return msgspec.structs.replace(problem, where={"turn": turn} if turn else {})


def _content(message: NewMessage) -> Content:
    if isinstance(message.content, str):
        return message.content
    return tuple(
        Text(text=part.text)
        if isinstance(part, TextPart)
        else Image(media_type=part.media_type, data=part.data)
        for part in message.content
    )
