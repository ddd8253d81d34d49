"""What every request passes before a route sees it, and every response before it leaves.

In this order: the host that it was sent to, the origin of the page that sent it, who asks, how often, whether
it can be read in one way only. What is refused here reaches no route, also where there is none, so that
nobody without a token learns which there are. It stands around the whole application, for litestar's own
middleware is not asked for unknown paths.
"""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any, Final, TypeAlias
from urllib.parse import unquote_to_bytes

import msgspec

from stratalog.errors import StratalogError
from stratalog.ids import new_ulid
from stratalog.surfaces.access.limits import Buckets
from stratalog.surfaces.access.principals import Principal, principal
from stratalog.surfaces.access.tokens import PREFIX
from stratalog.surfaces.access.wire import is_asked, may_ask
from stratalog.surfaces.http.errors import BROKEN, Problem, plain_problem, problem_of, written
from stratalog.surfaces.http.metrics import Metrics
from stratalog.surfaces.http.settings import HttpSettings
from stratalog.surfaces.http.tracing import Tracing

Scope: TypeAlias = MutableMapping[str, Any]
Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
App: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]
Recognise: TypeAlias = Callable[[str, Scope], Awaitable[Principal | None]]

OPEN: Final = (
    "/health",
    "/ready",
    "/schema",
    "/console",
)  # paths, and what is below them, that ask for no token
LOCAL: Final = principal("local", roles=["admin", "metrics"], name="--dev")
_log = logging.getLogger("stratalog.surfaces.http")
_ID: Final = re.compile(rb"[A-Za-z0-9._-]{8,64}\Z")
_HEADERS: Final = {
    b"x-content-type-options": b"nosniff",
    b"x-frame-options": b"DENY",
    b"referrer-policy": b"no-referrer",
    b"cache-control": b"no-store",
    b"content-security-policy": b"default-src 'none'; frame-ancestors 'none'",
}


class Refused(msgspec.Struct, frozen=True):
    """Why a request goes no further, and the headers of the answer."""

    problem: Problem
    headers: tuple[tuple[bytes, bytes], ...] = ()


class Edge:
    """The application with its edge. `recognise` tells who a token is of that a request was sent with."""

    def __init__(
        self, app: App, settings: HttpSettings, recognise: Recognise, metrics: Metrics, tracing: Tracing
    ) -> None:
        self._app = app
        self._settings = settings
        self._recognise = recognise
        self._metrics = metrics
        self._tracing = tracing
        self._buckets = Buckets(settings.rate, settings.burst)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":  # nothing here speaks by websocket
            await send({"type": "websocket.close", "code": 1008})
            return
        headers = {name.lower(): value for name, value in scope["headers"]}
        id = _request_id(headers)
        scope["stratalog_request"] = id
        began, status = time.perf_counter(), 500

        async def sent(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = _completed(message.get("headers", ()), id)
            await send(message)

        with self._tracing.request(scope, headers) as span:
            try:
                refused = await self._refused(scope, headers)
                if refused is None:
                    await self._app(scope, self._hurried(scope, receive), sent)
                else:
                    await _answer(sent, refused, scope)
            finally:
                route = str(scope.get("path_template") or "(none)")
                self._metrics.request(scope["method"], route, status, time.perf_counter() - began)
                span.end(route, status)

    async def _refused(self, scope: Scope, headers: Mapping[bytes, bytes]) -> Refused | None:
        """Why the request goes no further; else the scope says who asks, where somebody must."""
        host = headers.get(b"host", b"").decode("latin-1")
        wrong = host_refusal(host, self._settings.hosts) or origin_refusal(
            headers.get(b"origin", b"").decode("latin-1"), host, self._settings.origins
        )
        if wrong is not None:
            return Refused(wrong)
        refused = await self._unknown(scope, headers)
        if refused is not None:
            return refused
        unclear = unclear_in(scope.get("raw_path", b""), headers)
        return Refused(unclear) if unclear is not None else None

    async def _unknown(self, scope: Scope, headers: Mapping[bytes, bytes]) -> Refused | None:
        """Why who asks goes no further."""
        path = scope["path"]
        if any(path == each or path.startswith(f"{each}/") for each in OPEN) or _preflight(scope, headers):
            return None
        try:
            who = await self._who(scope, headers)
        except StratalogError as error:  # the list of tokens cannot be read
            _log.error("%s: %s", scope["stratalog_request"], error)
            return Refused(problem_of(error))
        bucket = who.id if who is not None else f"address {(scope.get('client') or ('',))[0]}"
        wait = self._buckets.take(bucket)
        if wait:
            seconds = str(int(wait) + 1)
            problem = plain_problem(429, "too many requests", hint=f"ask again in {seconds} s")
            return Refused(problem, ((b"retry-after", seconds.encode()),))
        if who is None:
            problem = plain_problem(401, "a token is needed", hint="send `Authorization: Bearer strata_…`")
            return Refused(problem, ((b"www-authenticate", b'Bearer realm="stratalog"'),))
        scope["user"], scope["auth"] = who, who.id
        return None

    def _hurried(self, scope: Scope, receive: Receive) -> Receive:
        """`receive`, which waits only so long for the whole body, and marks a request of which none came."""
        give_up = asyncio.get_running_loop().time() + self._settings.patience
        whole = False

        async def received() -> Message:
            nonlocal whole
            if whole:
                return await receive()
            try:
                async with asyncio.timeout_at(give_up):
                    message = await receive()
            except TimeoutError:
                scope[BROKEN] = 408
                return {"type": "http.disconnect"}
            if message["type"] == "http.disconnect":
                scope[BROKEN] = 400
            whole = not message.get("more_body", False)
            return message

        return received

    async def _who(self, scope: Scope, headers: Mapping[bytes, bytes]) -> Principal | None:
        scheme, _, token = headers.get(b"authorization", b"").decode("latin-1").partition(" ")
        token = token.strip()
        if scheme.lower() not in ("", "bearer"):
            return None
        if self._settings.dev and not token.startswith(f"{PREFIX}_"):  # OpenAI's clients must send something
            return LOCAL
        return await self._recognise(token, scope) if token else None


def host_refusal(host: str, allowed: tuple[str, ...]) -> Problem | None:
    """What is wrong with the `Host` of a request: another name may be one that was bent to this address."""
    if is_asked(host, allowed):
        return None
    return plain_problem(421, "the service is not asked by this name", hint="it is named with --allow-host")


def origin_refusal(origin: str, host: str, allowed: tuple[str, ...]) -> Problem | None:
    """What is wrong with the `Origin` of a request, which browsers send: only the service's own pages and
    those that were named may ask."""
    if may_ask(origin, host, allowed):
        return None
    return plain_problem(403, "a page of another origin may not ask", hint="it is named with --allow-origin")


def unclear_in(path: bytes, headers: Mapping[bytes, bytes]) -> Problem | None:
    """What of a request others than this service may read in another way: a path that is no UTF-8, a body
    with two lengths, or one that is packed."""
    if b"%" in path:
        try:
            unquote_to_bytes(path).decode()
        except UnicodeDecodeError:
            return plain_problem(400, "the path is not UTF-8")
    if b"transfer-encoding" in headers and b"content-length" in headers:
        return plain_problem(400, "the body has two lengths", hint="send Content-Length or be chunked")
    if headers.get(b"content-encoding", b"identity").strip().lower() != b"identity":
        return plain_problem(415, "the body is packed", hint="send it as it is, without Content-Encoding")
    return None


def _preflight(scope: Scope, headers: Mapping[bytes, bytes]) -> bool:
    """Whether a browser only asks what a page may ask; it never says who asks."""
    return (
        scope["method"] == "OPTIONS" and b"origin" in headers and b"access-control-request-method" in headers
    )


def _request_id(headers: Mapping[bytes, bytes]) -> str:
    given = headers.get(b"x-request-id", b"")
    return given.decode() if _ID.match(given) else new_ulid()


def _completed(headers: Any, id: str) -> list[tuple[bytes, bytes]]:
    """The headers of a response with those that every one has."""
    own = [(bytes(name).lower(), bytes(value)) for name, value in headers]
    names = {name for name, _ in own}
    added = [(name, value) for name, value in _HEADERS.items() if name not in names]
    return [*own, *added, (b"x-request-id", id.encode())]


async def _answer(send: Send, refused: Refused, scope: Scope) -> None:
    problem = msgspec.structs.replace(refused.problem, request=scope["stratalog_request"])
    told = written(problem, scope["path"])
    headers = [
        (b"content-type", told.media_type.encode()),
        (b"content-length", str(len(told.body)).encode()),
        *((name.encode(), value.encode()) for name, value in told.headers.items()),
        *refused.headers,
    ]
    body = b"" if scope["method"] == "HEAD" else told.body
    await send({"type": "http.response.start", "status": told.status, "headers": headers})
    await send({"type": "http.response.body", "body": body, "more_body": False})
