"""OpenAI's chat completions: any client of them has memory once its base URL is `http://…/v1`.

What it may send, and what becomes of it, is in docs/openai.md. These routes are not in the document of the
service: theirs is OpenAI's, and so are their errors.
"""

from __future__ import annotations

import hashlib
import logging
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Annotated, Any, Final
from urllib.parse import quote, unquote

import msgspec
from litestar import Request, Response, get, post
from litestar.exceptions import HTTPException
from litestar.params import FromPath, PathParameter
from litestar.response import Stream as Streamed
from litestar.types import ExceptionHandlersMap

from stratalog.engine.choosing import Chosen, agents, chosen
from stratalog.engine.completing import Answer
from stratalog.engine.proxying import Completion, Completions
from stratalog.engine.running import Retrying, TextDelta
from stratalog.errors import InvalidInput, NotFound, SessionBusy, StratalogError
from stratalog.ids import new_ulid
from stratalog.surfaces.access.principals import Principal, asker
from stratalog.surfaces.access.wire import USER_HEADER
from stratalog.surfaces.http import openai_shapes as shapes
from stratalog.surfaces.http.errors import Problem, plain_problem, problem_of, request_id
from stratalog.surfaces.http.service import Desk, service_of

SESSION: Final = "x-stratalog-session"
USER: Final = "x-stratalog-user"
AGENT: Final = "x-stratalog-agent"
TOOLS: Final = "x-stratalog-tools"
TURN: Final = "x-stratalog-turn"
LEFT_OUT: Final = "x-stratalog-ignored"
HEADERS: Final = (
    *(SESSION, USER, AGENT, TOOLS),
    *(f"x-stainless-{each}" for each in ("arch", "lang", "os", "package-version", "retry-count")),
    *(f"x-stainless-{each}" for each in ("runtime", "runtime-version", "timeout", "helper-method")),
)
"""What a client may send, as the official ones do."""
TOLD: Final = (SESSION, TURN, LEFT_OUT)
"""What it is told beside the reply."""
_KEY: Final = 200  # characters that an Idempotency-Key may have
_BEAT: Final = b": still there\n\n"
_SAFE: Final = "~:@+,;=!$&'()*"  # in the name of a session, as a header has it
_log = logging.getLogger("stratalog.surfaces.http")
_AnyRequest = Request[Any, Any, Any]


# --- errors ---


def _answer(problem: Problem, headers: dict[str, str] | None = None) -> Response[Any]:
    return Response(shapes.error(problem), status_code=problem.status, headers=headers or {})


def _status(problem: Problem) -> Problem:
    """What does not fit is a bad request to a client of OpenAI."""
    return msgspec.structs.replace(problem, status=400) if problem.status == 413 else problem


def _on_error(request: _AnyRequest, error: StratalogError) -> Response[Any]:
    problem = _status(problem_of(error, request_id(request)))
    if problem.status >= 500:
        _log.error("%s %s: %s", problem.request, request.method, error, exc_info=error)
    headers = {"retry-after": "1"} if problem.status == 503 or isinstance(error, SessionBusy) else {}
    if problem.status == 409 and not headers:
        headers["x-should-retry"] = "false"  # its clients take every 409 for a lock
    return _answer(problem, headers)


def _on_http(request: _AnyRequest, error: HTTPException) -> Response[Any]:
    if error.status_code >= 500:
        return _on_defect(request, error)
    return _answer(plain_problem(error.status_code, error.detail, request_id(request)))


def _on_defect(request: _AnyRequest, error: Exception) -> Response[Any]:
    id = request_id(request)
    _log.error("%s %s failed", id, request.method, exc_info=error)
    return _answer(plain_problem(500, "this is a defect of the service", id, f"tell its operator {id}"))


_ERRORS: Final[ExceptionHandlersMap] = {
    StratalogError: _on_error,
    HTTPException: _on_http,
    Exception: _on_defect,
}


# --- routes ---


@post(
    "/v1/chat/completions",
    status_code=200,
    exception_handlers=_ERRORS,
    include_in_schema=False,
    operation_id="createChatCompletion",
    summary="A completion, in OpenAI's form",
)
async def complete(request: _AnyRequest) -> Response[Any]:
    body = await request.body()
    read = shapes.read(body)
    desk = _desk(request, read.request.user or "")
    named = _named(request, read.request)
    who = await desk.run(chosen, desk.tenancy.front.sync, read.request.model, _header(request, AGENT))
    chat = named or _derived(desk, who, read.request)
    asked = shapes.asked_of(
        read.request,
        body,
        model=await desk.model(who.agent, who.model),
        key=_key(request),
        again=_again(request),
        named=bool(named),
        memory="memory" in _header(request, TOOLS).replace(",", " ").split(),
    )
    accepted = await _completions(request).complete(
        desk.tenancy, lambda each: desk.begun(who.agent, each), chat, asked, user=desk.asker.user
    )
    if accepted is None:
        return _answer(_ending(request_id(request)), {"retry-after": "5"})
    lost = [*read.unknown, *accepted.left_out]
    return await _replied(request, read.request, accepted, _headers(accepted, lost))


@get(
    "/v1/models",
    exception_handlers=_ERRORS,
    include_in_schema=False,
    operation_id="listModels",
    summary="The agents, as models",
)
async def list_models(request: _AnyRequest) -> Response[Any]:
    desk = _desk(request)
    return Response(shapes.models(await desk.run(agents, desk.tenancy.front.sync, desk.asker.sees)))


@get(
    "/v1/models/{model:str}",
    exception_handlers=_ERRORS,
    include_in_schema=False,
    operation_id="getModel",
    summary="One agent, as a model",
)
async def get_model(
    request: _AnyRequest, model: FromPath[Annotated[str, PathParameter(max_length=1_024)]]
) -> Response[Any]:
    desk = _desk(request)
    found = await desk.run(agents, desk.tenancy.front.sync, desk.asker.sees)
    name = model.removeprefix("agent:")
    if name not in found:
        raise NotFound("there is no such model", hint="GET /v1/models lists them")
    return Response(shapes.model(name, found[name]))


ROUTES = (complete, list_models, get_model)


# --- who asks, and for what ---


def _completions(request: _AnyRequest) -> Completions:
    """Those of the service, made when they are first asked for."""
    state = request.app.state
    if "completions" not in state:
        state.completions = Completions(service_of(request).turns)
    found = state.completions
    assert isinstance(found, Completions)
    return found


def _desk(request: _AnyRequest, field: str = "") -> Desk:
    """Who asks: for the user that a header names, or else the field `user` where the token may name one; of
    others that field is no more than a remark. Raises `AccessDenied`."""
    who = request.user
    assert isinstance(who, Principal)
    named = _header(request, USER) or _header(request, USER_HEADER)
    if not named and who.has("agent", "admin"):
        named = field
    return Desk(service_of(request), asker(who, named))


def _header(request: _AnyRequest, name: str) -> str:
    """What a header says, percent-encoded where it is not ASCII. Raises `InvalidInput` where it is sent
    twice."""
    given = request.headers.getall(name, [])
    if len(given) > 1:
        raise InvalidInput("this header is sent once", header=name)
    return unquote(given[0], errors="strict") if given and _is_encoded(given[0]) else "".join(given)


def _is_encoded(text: str) -> bool:
    try:
        unquote(text, errors="strict")
    except UnicodeDecodeError:
        return False
    return True


def _named(request: _AnyRequest, body: shapes.ChatRequest) -> str:
    """The session that the client names; "" for none."""
    return _header(request, SESSION) or (body.metadata or {}).get("session", "")


def _derived(desk: Desk, who: Chosen, body: shapes.ChatRequest) -> str:
    """The session of a client that names none: by who asks and how the conversation began."""
    whose = desk.asker.user or f"token {desk.asker.principal.id}"
    told = "\n".join((whose, who.agent, shapes.opening_of(body)))
    return f"c-{hashlib.sha256(told.encode('utf-8', 'surrogatepass')).hexdigest()[:24]}"


def _key(request: _AnyRequest) -> str:
    key = _header(request, "idempotency-key")
    if len(key) > _KEY:
        raise InvalidInput("an Idempotency-Key has at most 200 characters")
    return key


def _again(request: _AnyRequest) -> bool:
    """Whether the client says that it sent this request before, as OpenAI's own does."""
    count = _header(request, "x-stainless-retry-count")
    return count.isdecimal() and int(count[:9]) > 0


# --- what is answered ---


def _headers(accepted: Completion, lost: list[str]) -> dict[str, str]:
    headers = {SESSION: quote(accepted.session.key.chat, safe=_SAFE), TURN: accepted.turn}
    return headers | ({LEFT_OUT: ", ".join(lost)} if lost else {})


async def _replied(
    request: _AnyRequest, body: shapes.ChatRequest, accepted: Completion, headers: dict[str, str]
) -> Response[Any]:
    if body.stream:
        beat = service_of(request).settings.beat
        await accepted.run.begun(beat)
        if not accepted.run.failed:  # what fails before its first word has a status
            frames = _frames(accepted, body, request_id(request), beat)
            sent = {**headers, "x-accel-buffering": "no", "cache-control": "no-store"}
            return Streamed(frames, media_type="text/event-stream", headers=sent)
    answer = await accepted.run.ended()
    if answer is None:
        return _answer(_ending(request_id(request)), {**headers, "retry-after": "5"})
    return Response(shapes.completion(answer, _told(accepted)), headers=headers)


async def _frames(
    accepted: Completion, body: shapes.ChatRequest, id: str, beat: float
) -> AsyncGenerator[bytes, None]:
    counted = bool(body.stream_options is not None and body.stream_options.include_usage)
    chunks = shapes.Chunks(new_ulid(), int(time.time()), body.model, _told(accepted), counted=counted)
    telling = shapes.Telling()
    yield chunks.first()
    async with aclosing(accepted.run.follow(beat)) as events:
        async for event in events:
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
        answer = await accepted.run.ended()
    except StratalogError as error:
        yield shapes.line(shapes.error(_status(problem_of(error, id))))
        return
    for frame in _rest(answer, chunks, telling, id):
        yield frame


def _rest(answer: Answer | None, chunks: shapes.Chunks, telling: shapes.Telling, id: str) -> list[bytes]:
    """What ends a stream."""
    if answer is None:
        return [shapes.line(shapes.error(_ending(id)))]
    rest = telling.end(answer.text)
    if telling.broken:
        problem = plain_problem(502, "the model began its reply anew", id, "ask again for the whole of it")
        return [shapes.line(shapes.error(problem))]
    return [*([chunks.words(rest)] if rest else []), *chunks.last(answer)]


def _told(accepted: Completion) -> dict[str, Any]:
    """What is told beside the reply."""
    told: dict[str, Any] = {"session": accepted.session.key.chat, "turn": accepted.turn}
    return told | ({"warnings": accepted.run.warnings} if accepted.run.warnings else {})


def _ending(id: str) -> Problem:
    return plain_problem(503, "the service has no answer now", id, "ask again in a moment")
