"""The server over streamable HTTP: who asks is proved by a bearer token, and one process serves all tenants.

A request's `Host` must be a name that the server is asked by, and its `Origin`, where a browser says one, a
page that may ask: so no page that somebody happens to open can reach a server on their own machine. With
`dev` nobody is asked for a token, which only an address of this machine allows. How much a token may ask for
is in `limits`.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final

import msgspec
import uvicorn
from mcp.server import Server
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser, RequireAuthMiddleware
from mcp.server.auth.provider import AccessToken
from mcp.server.streamable_http_manager import StreamableHTTPASGIApp, StreamableHTTPSessionManager
from starlette.applications import Starlette
from starlette.authentication import AuthCredentials, AuthenticationBackend
from starlette.datastructures import Headers
from starlette.middleware import Middleware
from starlette.middleware.authentication import AuthenticationMiddleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import HTTPConnection
from starlette.requests import Request as StarletteRequest
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from stratalog.engine.aio import AsyncStratalog
from stratalog.errors import AccessDenied
from stratalog.surfaces.access.principals import asker
from stratalog.surfaces.access.refusals import Refusals
from stratalog.surfaces.access.tokens import Tokens
from stratalog.surfaces.access.wire import (
    USER_HEADER,
    in_url,
    is_asked,
    listening,
    may_ask,
    must_be_here,
    named_user,
    names,
    pages,
)
from stratalog.surfaces.mcp.identity import Identity, identity, owner
from stratalog.surfaces.mcp.limits import SESSION, Bounded, Rated, Transports
from stratalog.surfaces.mcp.server import Recognise, Request, server_of
from stratalog.surfaces.mcp.stdio import log_to_stderr

PATH: Final = "/mcp"
_HEADERS: Final = (
    *("authorization", "content-type", "last-event-id", USER_HEADER),
    *("mcp-protocol-version", "mcp-session-id", "mcp-method", "mcp-name"),
)
_GRACE: Final = 5  # seconds that requests may go on once it is told to end
_IDLE: Final = 1_800.0  # seconds that a quiet session of the transport is kept


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """How it is run; make it with `settings`, which checks it. `hosts` are names that it is asked by, with
    any port; `origins` the pages that may ask it. A token may make `rate` requests in a minute, `burst` at
    once, and have `clients` sessions of the transport; `body` bounds a message, in bytes."""

    host: str
    port: int
    dev: bool
    hosts: tuple[str, ...]
    origins: tuple[str, ...]
    rate: float
    burst: int
    clients: int
    body: int


def settings(
    *,
    host: str,
    port: int,
    dev: bool,
    hosts: Iterable[str] = (),
    origins: Iterable[str] = (),
    rate: float = 600.0,
    burst: int = 120,
    clients: int = 100,
    body: int = 4 * 1024 * 1024,
) -> Settings:
    """The settings, checked; `hosts` are besides the machine's own names and `host`. Raises
    `InvalidConfig`."""
    if dev:
        must_be_here(host)
    return Settings(
        host=host,
        port=port,
        dev=dev,
        hosts=names(host, hosts),
        origins=pages(origins),
        rate=rate,
        burst=burst,
        clients=clients,
        body=body,
    )


def serve(
    data: Path,
    how: Settings,
    *,
    tenant: str,
    user: str = "",
    agent: str,
    session: str = "",
    told: Callable[[str], None],
) -> None:
    """Serves until SIGTERM or Ctrl-C; `told` gets the address once it is listened at. With `dev` everybody is
    the owner of the data directory, of this tenant and user. Raises `InvalidConfig`, `InvalidKey` and
    `StorageFailed`, before anything is served."""
    log_to_stderr()
    asyncio.run(_serve(data, how, tenant, user, agent, session, told))


async def _serve(
    data: Path, how: Settings, tenant: str, user: str, agent: str, session: str, told: Callable[[str], None]
) -> None:
    async with AsyncStratalog.open(data, tenant=tenant) as front:
        anybody = owner(
            front.sync.tenant,
            user=user or front.sync.settings_of(agent).memory.user,
            agent=agent,
            session=session,
        )
        front.sync.session(anybody.session)  # it is wrong before anybody asks, not at each request
        tokens = Tokens(data)
        try:
            if how.dev:
                app = app_of(server_of(front, lambda request, what: anybody), how)
            else:
                refusals = Refusals(data)
                server = server_of(front, recognised(agent, refusals), refusals)
                app = app_of(server, how, _Bearer(front, tokens, refusals))
            where = listening(how.host, how.port)
            told(f"serving MCP at http://{in_url(how.host)}:{where.getsockname()[1]}{PATH}")
            for each in (signal.SIGINT, signal.SIGTERM):  # uvicorn raises them again when it has ended
                signal.signal(each, lambda number, frame: None)
            config = uvicorn.Config(
                app, log_config=None, access_log=False, timeout_graceful_shutdown=_GRACE, server_header=False
            )
            await uvicorn.Server(config).serve(sockets=[where])
        finally:
            tokens.close()


def app_of(server: Server[Any], how: Settings, backend: AuthenticationBackend | None = None) -> Starlette:
    """The application, with a token needed where there is who recognises one."""
    manager = StreamableHTTPSessionManager(  # which doors there are is told by `_Door`
        app=server, session_idle_timeout=_IDLE, max_request_body_size=how.body
    )
    endpoint: Any = Bounded(StreamableHTTPASGIApp(manager), Transports(how.clients, _IDLE))
    middleware = [Middleware(_Door, how=how)]
    if how.origins:
        middleware.append(
            Middleware(
                CORSMiddleware,
                allow_origins=how.origins,
                allow_methods=["GET", "POST", "DELETE"],
                allow_headers=_HEADERS,
                expose_headers=[SESSION, "retry-after"],
            )
        )
    if backend is not None:
        endpoint = RequireAuthMiddleware(endpoint, [])
        middleware.append(Middleware(AuthenticationMiddleware, backend=backend))
    middleware.append(Middleware(Rated, rate=how.rate, burst=how.burst))
    return Starlette(
        routes=[Route(PATH, endpoint=endpoint)], middleware=middleware, lifespan=lambda app: manager.run()
    )


def recognised(agent: str, refusals: Refusals) -> Recognise:
    """Who asks, by the token that the request was let in with, for the user that it names, if it may."""

    def recognise(request: Request, what: str) -> Identity:
        asked: StarletteRequest | None = request.request
        user = asked.user if asked is not None else None
        token = user.access_token if isinstance(user, AuthenticatedUser) else None
        if asked is None or not isinstance(token, _Token):
            raise AccessDenied("a token is needed")
        named = named_user(asked.headers.getlist(USER_HEADER))
        try:
            return identity(asker(token.principal, named), agent=agent)
        except AccessDenied as error:
            refusals.denied(token.principal, error, what, named)
            raise

    return recognise


class _Door:
    """Refuses, before all else, what is asked by another name or from another page."""

    def __init__(self, app: ASGIApp, how: Settings) -> None:
        self._app = app
        self._how = how

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            headers = Headers(scope=scope)
            host, origin = headers.get("host", ""), headers.get("origin", "")
            refused = None
            if not is_asked(host, self._how.hosts):
                refused = PlainTextResponse("the server is not asked by this name", 421)
            elif not may_ask(origin, host, self._how.origins):
                refused = PlainTextResponse("a page of another origin may not ask", 403)
            if refused is not None:
                await refused(scope, receive, send)
                return
        await self._app(scope, receive, send)


class _Token(AccessToken):
    """What the SDK knows of a token, and whom it proves. A session of the transport is its token's alone."""

    principal: Any


class _Bearer(AuthenticationBackend):
    """Recognises the token that a request is sent with."""

    def __init__(self, front: AsyncStratalog, tokens: Tokens, refusals: Refusals) -> None:
        self._front = front
        self._tokens = tokens
        self._refusals = refusals

    async def authenticate(self, conn: HTTPConnection) -> tuple[AuthCredentials, AuthenticatedUser] | None:
        scheme, _, text = conn.headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not text.strip():
            return None
        address = conn.client.host if conn.client is not None else ""
        asked = (self._tokens, text.strip(), f"{conn.scope['method']} {conn.scope['path']}", address)
        who = await self._front.run(self._refusals.recognised, *asked)
        if who is None:
            return None
        known = _Token(token="", client_id=who.id, subject=who.user, scopes=[], principal=who)
        return AuthCredentials(), AuthenticatedUser(known)
