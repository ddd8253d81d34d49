"""OpenAI's chat completions: any client of them has memory once its base URL is `http://…/v1`.

What it may send, and what becomes of it, is in docs/openai.md. What it is answered, errors too, has OpenAI's
form.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Annotated, Any, Final
from urllib.parse import quote

import msgspec
from litestar import Request, Response, get, post
from litestar.params import FromPath, PathParameter
from litestar.response import Stream as Streamed

from stratalog.engine.choosing import Chosen, agents, chosen
from stratalog.engine.completing import Answer
from stratalog.engine.proxying import Completion
from stratalog.engine.running import Retrying, TextDelta
from stratalog.errors import InvalidInput, NotFound, StratalogError
from stratalog.ids import new_ulid
from stratalog.surfaces.access.naming import named
from stratalog.surfaces.access.principals import Principal, asker
from stratalog.surfaces.access.wire import USER_HEADER, named_user
from stratalog.surfaces.http import openai_replies as replies
from stratalog.surfaces.http import openai_shapes as shapes
from stratalog.surfaces.http.errors import (
    Problem,
    answer,
    openai_problem,
    openai_problems,
    plain_problem,
    problem_of,
    request_id,
)
from stratalog.surfaces.http.openai_document import (
    AGAIN,
    AGENT,
    COMPLETION,
    KEY,
    LEFT_OUT,
    SESSION,
    TOOLS,
    TURN,
    USER,
    Completes,
    Lists,
)
from stratalog.surfaces.http.service import Desk, service_of
from stratalog.surfaces.http.streaming import EVENTS

HEADERS: Final = (
    *(SESSION, USER, AGENT, TOOLS),
    *(f"x-stainless-{each}" for each in ("arch", "lang", "os", "package-version", "retry-count")),
    *(f"x-stainless-{each}" for each in ("runtime", "runtime-version", "timeout", "helper-method")),
)
"""What a client may send, as the official ones do."""
TOLD: Final = (SESSION, TURN, LEFT_OUT)
"""What it is told beside the reply."""
_LONGEST: Final = 200  # characters that an Idempotency-Key may have
_BEAT: Final = b": still there\n\n"
_SAFE: Final = "~:@+,;=!$&'()*"  # in the name of a session, as a header has it
_TAGS: Final = ("openai",)
_AnyRequest = Request[Any, Any, Any]


# --- routes ---


@post(
    "/v1/chat/completions",
    status_code=200,
    operation_id="createChatCompletion",
    operation_class=Completes,
    tags=_TAGS,
    summary="A completion, in OpenAI's form",
    responses=openai_problems(404, 409, 502, 507) | COMPLETION,
)
async def complete(request: _AnyRequest) -> Response[Any]:
    """The newest message of a conversation is answered, with what is remembered of its user. Other fields
    than these may be sent; they are left out, and named in `X-Stratalog-Ignored`."""
    body = await request.body()
    read = shapes.read(body)
    desk = _desk(request, read.request.user or "")
    who = await desk.run(
        chosen, desk.tenancy.front.sync, read.request.model, _named(request, AGENT, "an agent")
    )
    own = _session(request, read.request)
    chat = own or _derived(desk, who, read.request)
    asked = shapes.asked_of(
        read.request,
        body,
        model=await desk.model(who.agent, who.model),
        key=_key(request),
        again=_again(request),
        named=bool(own),
        memory="memory" in _header(request, TOOLS).replace(",", " ").split(),
    )
    accepted = await desk.service.completions.complete(
        desk.tenancy, lambda each: desk.begun(who.agent, each), chat, asked, user=desk.asker.user
    )
    if accepted is None:
        return _ended(request, {})
    lost = [*read.unknown, *accepted.left_out]
    return await _replied(request, desk, read.request, accepted, _headers(accepted, lost))


@get(
    "/v1/models",
    operation_id="listModels",
    operation_class=Lists,
    tags=_TAGS,
    summary="The agents, as models",
    responses=openai_problems(),
)
async def list_models(request: _AnyRequest) -> replies.ModelList:
    desk = _desk(request)
    return replies.models(await desk.run(agents, desk.tenancy.front.sync, desk.asker.sight))


@get(
    "/v1/models/{model:str}",
    operation_id="getModel",
    operation_class=Lists,
    tags=_TAGS,
    summary="One agent, as a model",
    responses=openai_problems(404),
)
async def get_model(
    request: _AnyRequest,
    model: FromPath[Annotated[str, PathParameter(description="`agent:NAME`, or `NAME`.", max_length=1_024)]],
) -> replies.ModelView:
    desk = _desk(request)
    found = await desk.run(agents, desk.tenancy.front.sync, desk.asker.sight)
    name = model.removeprefix("agent:")
    if name not in found:
        raise NotFound("there is no such model", model=ascii(model)[:80], hint="GET /v1/models lists them")
    return replies.model(name, found[name])


ROUTES = (complete, list_models, get_model)


# --- who asks, and for what ---


def _desk(request: _AnyRequest, field: str = "") -> Desk:
    """Who asks: for the user that a header names, or else the field `user` where the token may name one; of
    others that field is no more than a remark. Raises `AccessDenied`, and `InvalidInput`."""
    who = request.user
    assert isinstance(who, Principal)
    user = named_user([*request.headers.getall(USER, []), *request.headers.getall(USER_HEADER, [])])
    if not user and who.has("agent", "admin"):
        user = field
    return Desk(service_of(request), asker(who, user))


def _header(request: _AnyRequest, name: str) -> str:
    """What a header says; "" where it is not sent. Raises `InvalidInput` where it is sent twice."""
    given = request.headers.getall(name, [])
    if len(given) > 1:
        raise InvalidInput("this header is sent once", header=name)
    return "".join(given)


def _named(request: _AnyRequest, name: str, what: str) -> str:
    """What a header names. Raises `InvalidInput`."""
    return named(_header(request, name), what)


def _session(request: _AnyRequest, body: shapes.ChatRequest) -> str:
    """The session that the client names; "" for none."""
    return _named(request, SESSION, "a session") or (body.metadata or {}).get("session", "")


def _derived(desk: Desk, who: Chosen, body: shapes.ChatRequest) -> str:
    """The session of a client that names none: by who asks and how the conversation began."""
    whose = desk.asker.user or f"token {desk.asker.principal.id}"
    told = "\n".join((whose, who.agent, shapes.opening_of(body)))
    return f"c-{hashlib.sha256(told.encode('utf-8', 'surrogatepass')).hexdigest()[:24]}"


def _key(request: _AnyRequest) -> str:
    key = _header(request, KEY)
    if len(key) > _LONGEST:
        raise InvalidInput("an Idempotency-Key has at most 200 characters")
    return key


def _again(request: _AnyRequest) -> bool:
    """Whether the client says that it sent this request before, as OpenAI's own does."""
    count = _header(request, AGAIN)
    return count.isdecimal() and int(count[:9]) > 0


# --- what is answered ---


def _headers(accepted: Completion, lost: list[str]) -> dict[str, str]:
    headers = {SESSION: quote(accepted.session.key.chat, safe=_SAFE), TURN: accepted.turn}
    return headers | ({LEFT_OUT: ", ".join(lost)} if lost else {})


async def _replied(
    request: _AnyRequest,
    desk: Desk,
    body: shapes.ChatRequest,
    accepted: Completion,
    headers: dict[str, str],
) -> Response[Any]:
    if body.stream:
        await accepted.run.begun(desk.service.settings.beat)
        if not accepted.run.failed:  # what fails before its first word has a status
            frames = _frames(desk, accepted, body, request_id(request))
            sent = {**headers, "x-accel-buffering": "no", "cache-control": "no-store"}
            return Streamed(frames, media_type=EVENTS, headers=sent)
    reply = await accepted.run.ended()
    if reply is None:
        return _ended(request, headers)
    return Response(replies.completion(reply, _beside(accepted)), headers=headers)


async def _frames(
    desk: Desk, accepted: Completion, body: shapes.ChatRequest, id: str
) -> AsyncGenerator[bytes, None]:
    """The reply as it comes. About every `beat` seconds it is looked whether the token holds still: where
    not, the stream ends with an error, for its reader would take less for the end of the reply."""
    counted = bool(body.stream_options is not None and body.stream_options.include_usage)
    chunks = replies.Chunks(new_ulid(), int(time.time()), body.model, _beside(accepted), counted=counted)
    telling = replies.Telling()
    beat, looked = desk.service.settings.beat, time.monotonic()
    yield chunks.first()
    async with aclosing(accepted.run.follow(beat)) as events:
        async for event in events:
            if time.monotonic() - looked >= beat:
                if not await desk.holds():
                    yield _error(plain_problem(401, "the token does not hold any more", id))
                    return
                looked = time.monotonic()
            match event:
                case TextDelta():
                    piece = telling.take(event.text)
                    if piece:
                        yield chunks.words(piece)
                case Retrying():
                    telling.anew()
                case None:
                    telling.over()
                case _:
                    yield _BEAT
    try:
        reply = await accepted.run.ended()
    except StratalogError as error:
        yield _error(problem_of(error, id))
        return
    for frame in _rest(reply, chunks, telling, id):
        yield frame


def _rest(reply: Answer | None, chunks: replies.Chunks, telling: replies.Telling, id: str) -> list[bytes]:
    """What ends a stream."""
    if reply is None:
        return [_error(_ending(id))]
    rest = telling.end(reply.text)
    if telling.broken:
        problem = plain_problem(502, "the model began its reply anew", id, "ask again for the whole of it")
        return [_error(problem)]
    return [*([chunks.words(rest)] if rest else []), *chunks.last(reply)]


def _error(problem: Problem) -> bytes:
    """An error as the last event of a stream."""
    return replies.line(openai_problem(problem))


def _beside(accepted: Completion) -> replies.Beside:
    """What is told beside the reply."""
    made = replies.Beside(session=accepted.session.key.chat, turn=accepted.turn)
    if accepted.run.warnings:
        made = msgspec.structs.replace(made, warnings=list(accepted.run.warnings))
    return made


def _ended(request: _AnyRequest, headers: dict[str, str]) -> Response[Any]:
    """There is no reply, and another service may have one."""
    path = request.scope["path"]
    return answer(_ending(request_id(request)), {**headers, "retry-after": "5"}, path=path)


def _ending(id: str) -> Problem:
    return plain_problem(503, "the service has no answer now", id, "ask again in a moment")
