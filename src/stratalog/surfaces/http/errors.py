"""Every error as `application/problem+json` (RFC 9457), by one table from the tree of errors to statuses; on
the routes for OpenAI's clients, as those know it.

What went wrong here, and not with what was asked, is told by its title alone: files, addresses and the words
of others stay in the service's own log, under the id of the request.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Final, NamedTuple

import msgspec
from litestar import Request, Response
from litestar.exceptions import HTTPException
from litestar.openapi.datastructures import ResponseSpec

from stratalog import errors
from stratalog.errors import StratalogError

PROBLEM: Final = "application/problem+json"
OPENAI: Final = ("/v1/chat/completions", "/v1/models")  # paths, and what is below them, that are as OpenAI's
BROKEN: Final = "stratalog_broken"  # in the scope of a request whose body did not come: the status of that
_HIDDEN: Final = frozenset(("path", "variable", "holder", "offset", "line", "given", "candidates"))
_log = logging.getLogger("stratalog.surfaces.http")


class Wrong(msgspec.Struct, frozen=True):
    """A field of the request that is wrong: where it stands (`body`, `query`, `path`, `header`), and why."""

    field: str
    source: str
    reason: str


class Problem(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What went wrong. `error` is its name in the tree of errors, `hint` what to do, `request` the id of the
    request, `where` what it is about, `wrong` the fields that are."""

    status: int
    title: str
    type: str = "about:blank"
    detail: str = ""
    hint: str = ""
    error: str = ""
    request: str = ""
    where: dict[str, str | int | float] = {}
    wrong: list[Wrong] = []


# The first that an error is one of counts.
STATUSES: Final[tuple[tuple[type[StratalogError], int, str], ...]] = (
    (errors.NoModel, 500, "No model is configured"),
    (errors.InvalidConfig, 500, "The service is not set up for this"),
    (errors.Ambiguous, 409, "That could be several"),
    (errors.WorkingMemoryFull, 413, "That is more than fits"),
    (errors.InvalidInput, 400, "The request cannot be used"),
    (errors.NotFound, 404, "There is no such thing"),
    (errors.AccessDenied, 403, "This is not for you"),
    (errors.LaneDenied, 403, "The session's residency forbids this"),
    (errors.SessionBusy, 409, "Another turn holds the session"),
    (errors.SessionExists, 409, "There is one already"),
    (errors.Conflict, 409, "Something else stands in the way"),
    (errors.StorageFull, 507, "There is no space left"),
    (errors.LogBusy, 503, "The storage is busy"),
    (errors.StoreBusy, 503, "The storage is busy"),
    (errors.LogError, 500, "The storage failed"),
    (errors.ModelInputTooLong, 413, "That is too long for the model"),
    (errors.ModelUnavailable, 503, "The model cannot be reached"),
    (errors.ModelError, 502, "The model failed"),
    (errors.SpendLimit, 429, "The budget for today is spent"),
    (errors.ContextOverflow, 413, "That does not fit into the model's window"),
    (errors.CompactionStuck, 409, "Compaction makes no progress"),
)


def status_of(kind: type[StratalogError]) -> tuple[int, str]:
    """The status and the title for an error of this class."""
    return next(
        ((status, title) for known, status, title in STATUSES if issubclass(kind, known)),
        (500, "Something went wrong here"),
    )


def kind_named(name: str) -> type[StratalogError]:
    """The class of an error by its name; the root for a name that is none's."""
    found = getattr(errors, name, None)
    return found if isinstance(found, type) and issubclass(found, StratalogError) else StratalogError


def problem_of(error: StratalogError, request: str = "") -> Problem:
    """What is told of an error of the tree."""
    status, title = status_of(type(error))
    name = type(error).__name__
    if status >= 500:
        hint = error.hint if isinstance(error, errors.NoModel) else ""
        return Problem(status=status, title=title, hint=hint, error=name, request=request)
    where = {key: _fact(value) for key, value in error.where.items() if key not in _HIDDEN}
    return Problem(
        status=status,
        title=title,
        detail=error.what,
        hint=error.hint,
        error=name,
        request=request,
        where=where,
    )


def words_of(error: StratalogError) -> str:
    """What of an error may be told in words."""
    problem = problem_of(error)
    return problem.detail or problem.title


def failed_problem(name: str, reason: str, status: str, turn: str, request: str = "") -> Problem:
    """What is told of a turn that ended without an answer; see `engine.serving_streams.Failed`."""
    code, title = status_of(kind_named(name)) if name else (409, "The turn was ended")
    return Problem(
        status=code,
        title=title,
        detail=reason or f"the turn ended as {status}",
        error=name,
        request=request,
        where={"turn": turn, "status": status},
    )


def plain_problem(status: int, detail: str = "", request: str = "", hint: str = "") -> Problem:
    """A problem that is none of the tree: its title is the status's own."""
    return Problem(status=status, title=HTTPStatus(status).phrase, detail=detail, hint=hint, request=request)


# --- as OpenAI's clients know it ---


class OpenAIError(msgspec.Struct, frozen=True):
    """What went wrong. `type` is its kind, `code` its name, `param` the field that is wrong."""

    message: str
    type: str
    param: str | None
    code: str | None


class OpenAIProblem(msgspec.Struct, frozen=True):
    """An error in OpenAI's form."""

    error: OpenAIError


class _Kind(NamedTuple):
    type: str
    code: str | None = None


_REQUEST: Final = "invalid_request_error"
_KINDS: Final[Mapping[int, _Kind]] = {
    401: _Kind(_REQUEST, "invalid_api_key"),
    403: _Kind("permission_error", "permission_denied"),
    404: _Kind(_REQUEST, "not_found"),
    409: _Kind("conflict"),
    429: _Kind("requests", "rate_limit_exceeded"),
}
_CODES: Final[Mapping[str, _Kind]] = {
    "ContextOverflow": _Kind(_REQUEST, "context_length_exceeded"),
    "ModelInputTooLong": _Kind(_REQUEST, "context_length_exceeded"),
    "SpendLimit": _Kind("insufficient_quota", "insufficient_quota"),
    "SessionBusy": _Kind("conflict", "session_busy"),
}


def is_openai(path: str) -> bool:
    """Whether a request for this path is answered as OpenAI does."""
    return any(path == each or path.startswith(f"{each}/") for each in OPENAI)


def openai_problem(problem: Problem) -> OpenAIProblem:
    """The problem in OpenAI's form."""
    other = "server_error" if problem.status >= 500 else _REQUEST
    kind = _CODES.get(problem.error) or _KINDS.get(problem.status) or _Kind(other)
    code = "model_not_found" if problem.error == "NotFound" and "model" in problem.where else kind.code
    wrong = [f"`{each.field}`: {each.reason}" for each in problem.wrong]
    words = ". ".join(filter(None, (problem.detail or problem.title, *wrong, problem.hint)))
    fields = [problem.where.get(each) for each in ("param", "option")] + [
        each.field for each in problem.wrong
    ]
    param = next((str(each) for each in fields if each), None)
    return OpenAIProblem(OpenAIError(words, kind.type, param, code))


def _for_openai(problem: Problem) -> tuple[int, dict[str, str]]:
    """The status, and the headers that tell its clients whether to ask again: they take every 409 for a lock.
    What does not fit into a model is a bad request to them."""
    if problem.status == 413 and problem.error:
        return 400, {}
    if problem.error == "SessionBusy":
        return problem.status, {"retry-after": "1"}
    return problem.status, {"x-should-retry": "false"} if problem.status == 409 else {}


# --- what is answered ---


class Written(NamedTuple):
    """A problem as it is sent."""

    status: int
    headers: dict[str, str]
    media_type: str
    body: bytes


def written(problem: Problem, path: str) -> Written:
    """The problem as a request for this path is answered."""
    if not is_openai(path):
        return Written(problem.status, {}, PROBLEM, msgspec.json.encode(problem))
    return Written(*_for_openai(problem), "application/json", msgspec.json.encode(openai_problem(problem)))


def answer(problem: Problem, headers: Mapping[str, str] | None = None, *, path: str = "") -> Response[Any]:
    """The problem as the response to a request for this path."""
    told = written(problem, path)
    return Response(
        told.body,
        status_code=told.status,
        media_type=told.media_type,
        headers={**told.headers, **(headers or {})},
    )


def on_stratalog_error(request: Request[Any, Any, Any], error: StratalogError) -> Response[Any]:
    problem = problem_of(error, request_id(request))
    if problem.status >= 500:
        _log.error("%s %s: %s", problem.request, request.method, error, exc_info=error)
    headers = {"retry-after": "1"} if problem.status == 503 else None
    return answer(problem, headers, path=request.scope["path"])


def on_http_exception(request: Request[Any, Any, Any], error: HTTPException) -> Response[Any]:
    """Litestar's own: a path, a method or a field that is wrong."""
    broken = request.scope.get(BROKEN)
    if error.status_code >= 500 and isinstance(broken, int):
        problem = plain_problem(broken, "the body did not come whole", request_id(request))
        return answer(problem, {"connection": "close"}, path=request.scope["path"])
    if error.status_code >= 500:
        return on_defect(request, error)
    problem = msgspec.structs.replace(
        plain_problem(error.status_code, error.detail, request_id(request)), wrong=_wrong(error.extra)
    )
    headers = {name: value for name, value in (error.headers or {}).items() if name.lower() != "content-type"}
    return answer(problem, headers, path=request.scope["path"])


def on_defect(request: Request[Any, Any, Any], error: Exception) -> Response[Any]:
    """A defect of ours: it is in the log, and not in the answer."""
    id = request_id(request)
    _log.error("%s %s failed", id, request.method, exc_info=error)
    problem = plain_problem(500, "this is a defect of the service", id, "tell its operator the request's id")
    return answer(problem, path=request.scope["path"])


def request_id(request: Request[Any, Any, Any]) -> str:
    """The id of the request; see `edge`."""
    return str(request.scope.get("stratalog_request", ""))


def _fact(value: object) -> str | int | float:
    whole = isinstance(value, int) or (isinstance(value, float) and math.isfinite(value))
    return value if whole and isinstance(value, int | float) else str(value)


def _wrong(extra: Any) -> list[Wrong]:
    found = extra if isinstance(extra, list) else []
    return [
        Wrong(str(each.get("key", "")), str(each.get("source", "")), str(each.get("message", "")))
        for each in found
        if isinstance(each, dict)
    ]


def problems(*statuses: int) -> dict[int, ResponseSpec]:
    """The responses of a route for the document, besides those that every route has."""
    return _documented(statuses, Problem, PROBLEM)


def openai_problems(*statuses: int) -> dict[int, ResponseSpec]:
    """The same for a route of `OPENAI`."""
    return _documented(statuses, OpenAIProblem, "application/json")


def _documented(statuses: tuple[int, ...], shape: type[msgspec.Struct], kind: str) -> dict[int, ResponseSpec]:
    every = {400, 401, 403, 408, 413, 415, 421, 429, 500, 503, *statuses}
    return {
        status: ResponseSpec(
            data_container=shape,
            description=HTTPStatus(status).phrase,
            media_type=kind,
            generate_examples=False,
        )
        for status in sorted(every)
    }
