"""What the application holds while it runs, and what each request has of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, ParamSpec, TypeAlias, TypeVar

from litestar import Request
from litestar.connection import ASGIConnection
from litestar.datastructures import Headers
from litestar.di import NamedDependency
from litestar.handlers import BaseRouteHandler
from litestar.types import Guard, Scope

from stratalog.engine.agents import may_answer
from stratalog.engine.aio import AsyncSession
from stratalog.engine.auditing import refusal_in
from stratalog.engine.proxying import Completions
from stratalog.engine.remembering import Caller
from stratalog.engine.serving import Serving, Tenancy
from stratalog.engine.serving_sessions import begun
from stratalog.engine.serving_turns import Ended, Turns
from stratalog.engine.session import Session
from stratalog.errors import AccessDenied, InvalidInput, NotFound, SessionExists, StratalogError
from stratalog.keys import session_key
from stratalog.surfaces.access.principals import Asker, Principal, Role, asker
from stratalog.surfaces.access.refusals import Refusals
from stratalog.surfaces.access.tokens import Tokens
from stratalog.surfaces.access.wire import USER_HEADER, named_user
from stratalog.surfaces.http.errors import words_of
from stratalog.surfaces.http.metrics import Metrics
from stratalog.surfaces.http.settings import HttpSettings
from stratalog.surfaces.http.tracing import Tracing

P = ParamSpec("P")
R = TypeVar("R")
CHANNEL = "http"  # of a session where a request names none


class Service:
    """The data directory as it is served. Made in the event loop that serves."""

    def __init__(self, data: Path, settings: HttpSettings, metrics: Metrics, tracing: Tracing) -> None:
        self.settings = settings
        self.metrics = metrics
        self.tokens = Tokens(data)
        self.refusals = Refusals(data)
        self.serving = Serving(data, threads=settings.threads, background=settings.background)

        def ended(ended: Ended) -> None:
            metrics.turn(ended)
            tracing.turn(ended)

        self.turns = Turns(
            self.serving,
            keep=settings.kept,
            most=settings.buffer,
            at_once=settings.turns,
            unfinished=settings.unfinished,
            words=words_of,
            ended=ended,
        )
        self.completions = Completions(self.turns)
        metrics.watch("turns_running", "Turns that are being answered.", lambda: self.turns.running)
        metrics.watch("turns_queued", "Messages that wait behind another.", self._queued)
        metrics.watch("streams_open", "Streams that somebody reads.", self._open)

    def _queued(self) -> int:
        return self.turns.queued + self.completions.waiting

    def _open(self) -> int:
        return self.turns.open + self.completions.open

    async def recognise(self, token: str, scope: Mapping[str, Any]) -> Principal | None:
        """Who a token is of that a request was sent with; where it lets nobody in, the audit has a line."""
        address = (scope.get("client") or ("",))[0]
        asked = (self.tokens, token, _asked(scope), address)
        return await self.serving.front.run(self.refusals.recognised, *asked)

    async def denied(self, error: StratalogError, scope: Scope) -> None:
        """Has the audit tell of a request that ended in this error, if that is a refusal."""
        who = scope.get("user")
        if refusal_in(error) is not None and isinstance(who, Principal):
            named = ""
            with suppress(InvalidInput):
                named = named_user(Headers.from_scope(scope).getall(USER_HEADER, []))
            await self.serving.front.run(self.refusals.denied, who, error, _asked(scope), named)

    async def close(self) -> None:
        """Lets turns finish within the grace, then closes everything. The second time does nothing."""
        await self.turns.drain(self.settings.grace)
        await self.serving.close()
        self.tokens.close()


class Desk:
    """One request's: who asks, and what is its tenant's."""

    def __init__(self, service: Service, asker: Asker) -> None:
        self.service = service
        self.asker = asker
        self.tenancy: Tenancy = service.serving.of(asker.tenant)
        self.front = self.tenancy.front

    @property
    def turns(self) -> Turns:
        return self.service.turns

    async def run(self, call: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Runs any call of the engine in a thread."""
        return await self.front.run(call, *args, **kwargs)

    def at(self, agent: str, chat: str, channel: str = CHANNEL) -> AsyncSession:
        """The session of this name, whether or not there is one, and whosever it is. Raises `InvalidKey`."""
        return self.front.session(session_key(agent, channel, chat, self.asker.tenant))

    async def session(self, agent: str, chat: str, channel: str = CHANNEL) -> AsyncSession:
        """The session, if there is one in sight of who asks. Raises `NotFound`, `InvalidKey`."""
        found = self.at(agent, chat, channel)
        await self.run(self._must_see, found.sync)
        return found

    def new(self, agent: str, chat: str, channel: str = CHANNEL) -> AsyncSession:
        """The session of this name, for one that is to be begun. Raises `AccessDenied` and `InvalidKey`."""
        if not self.asker.may_begin(channel):
            raise AccessDenied("a session of this channel is not for this token to begin", channel=channel)
        return self.at(agent, chat, channel)

    async def begun(self, agent: str, chat: str, channel: str = CHANNEL) -> AsyncSession:
        """The session in sight of who asks, begun where there is none of its name. Raises `NotFound` where
        there is one that is not in its sight, `AccessDenied` where it may not begin it, and `InvalidConfig`
        where there would be nobody to answer in it."""
        found = self.at(agent, chat, channel)
        await self.run(self._begin, found.sync)
        return found

    def _begin(self, session: Session) -> None:
        if not session.exists:
            self.new(session.key.agent, session.key.chat, session.key.channel)
            self.tenancy.agent_now(session.key.agent)
            with suppress(SessionExists):  # somebody was faster, and it is seen whose it is
                begun(session, self.asker.signature())
        self._must_see(session)

    def _must_see(self, session: Session) -> None:
        """Raises `NotFound` where there is none, or none in sight of who asks."""
        if not (session.exists and self.asker.sees(session.meta.metadata)):
            raise NotFound("there is no such session", chat=session.key.chat)

    async def holds(self) -> bool:
        """Whether the token of this request holds still; for what goes on for long."""
        id = self.asker.principal.id
        return not id or await self.run(self.service.tokens.holds, id)

    async def model(self, agent: str, named: str) -> str:
        """The model that a request names for one turn, "" for none. Raises `AccessDenied` for one that this
        token may not name."""
        if not named or self.asker.principal.has("agent", "admin"):
            return named
        if not may_answer(named, await self.run(self.front.sync.settings_of, agent)):
            raise AccessDenied(
                "this model is not for a user to name", hint="leave out `model`, or allow it by `models`"
            )
        return named

    async def caller(self, *, agent: str = "", session: str = "", run: str = "") -> Caller:
        """Who asks of the memory records. A `session` must have been got from here."""
        return await self.run(
            lambda: self.tenancy.records.caller(
                user=self.asker.user,
                agent=agent,
                session=session,
                run=run,
                roles=self.asker.record_roles,
                token=self.asker.principal.id,
            )
        )


FromDesk: TypeAlias = NamedDependency[Desk]


def desk_of(request: Request[Any, Any, Any]) -> Desk:
    """The dependency `desk`. Raises `AccessDenied` for a token that may not talk, or not for this user."""
    named = named_user(request.headers.getall(USER_HEADER, []))
    return Desk(service_of(request), asker(request.user, named))


def _asked(scope: Mapping[str, Any]) -> str:
    """What a request asks for: its route, or its path where there is none."""
    return f"{scope['method']} {scope.get('path_template') or scope['path']}"


def service_of(connection: ASGIConnection[Any, Any, Any, Any]) -> Service:
    """What the application holds."""
    service = connection.app.state.service
    assert isinstance(service, Service)
    return service


def needs(*roles: Role) -> Guard:
    """Lets through whose token has one of these roles."""

    async def guard(connection: ASGIConnection[Any, Any, Any, Any], _: BaseRouteHandler) -> None:
        if not connection.user.has(*roles):
            raise AccessDenied(f"this needs the role {' or '.join(roles)}", hint="use another token")

    return guard
