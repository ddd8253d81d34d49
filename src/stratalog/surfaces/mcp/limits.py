"""How much one may ask for over HTTP: requests in a minute, and sessions of the transport at the same time.

A session of the transport is a client's that speaks by handshake; it lasts until the client deletes it, or
until no request of it was under way for as long as the SDK keeps it. `Transports` knows of both from the
requests alone. A client of the later protocol has none.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import count
from typing import Final

from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS
from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from stratalog.surfaces.access.limits import Buckets

SESSION: Final = "mcp-session-id"
_VERSION: Final = "mcp-protocol-version"


class _Held:
    """A session: how many of its requests are under way, and since when there are none."""

    def __init__(self) -> None:
        self.under_way = 0
        self.quiet = 0.0


class Transports:
    """The sessions of the transport of each who asks, at most `most` of them, which end when they are quiet
    for `idle` seconds. For one event loop. `clock` gives seconds."""

    def __init__(self, most: int, idle: float, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._most = most
        self._idle = idle
        self._clock = clock
        self._held: dict[str, dict[str, _Held]] = {}

    def wait(self, who: str) -> float:
        """0 where `who` may begin one more; else the seconds until one of its own may have ended."""
        now = self._clock()
        own = self._held.get(who, {})
        left = {id: self._idle - (now - each.quiet) for id, each in own.items() if not each.under_way}
        for id in [id for id, seconds in left.items() if seconds <= 0]:
            del own[id], left[id]
        return 0.0 if len(own) < self._most else min(left.values(), default=self._idle)

    def holds(self, who: str, id: str) -> bool:
        """Whether this is a session of `who`."""
        return id in self._held.get(who, {})

    def began(self, who: str, id: str) -> None:
        """A request of the session, or one that is to begin it, is under way."""
        self._held.setdefault(who, {}).setdefault(id, _Held()).under_way += 1

    def named(self, who: str, id: str, name: str) -> None:
        """The session that was begun has this name."""
        self._held[who][name] = self._held[who].pop(id)

    def ended(self, who: str, id: str, *, gone: bool) -> None:
        """A request of the session is done; with `gone` so is the session."""
        own = self._held.get(who, {})
        if id in own:
            own[id].under_way -= 1
            own[id].quiet = self._clock()
            if gone:
                del own[id]
        if not own:
            self._held.pop(who, None)


class Rated:
    """Refuses with 429 what is asked too often; of a request with no good token the address is who asks."""

    def __init__(self, app: ASGIApp, rate: float, burst: int) -> None:
        self._app = app
        self._buckets = Buckets(rate, burst)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        wait = self._buckets.take(_who(scope)) if scope["type"] == "http" else 0.0
        if wait:
            await _later("too many requests", wait)(scope, receive, send)
        else:
            await self._app(scope, receive, send)


class Bounded:
    """Refuses with 429 to begin more sessions of the transport than one may have."""

    def __init__(self, app: ASGIApp, transports: Transports) -> None:
        self._app = app
        self._transports = transports
        self._number = count()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = Headers(scope=scope)
        if headers.get(_VERSION, HANDSHAKE_PROTOCOL_VERSIONS[0]) not in HANDSHAKE_PROTOCOL_VERSIONS:
            await self._app(scope, receive, send)
            return
        who, id, transports = _who(scope), headers.get(SESSION, ""), self._transports
        wait = transports.wait(who) if not id else 0.0
        if wait:
            await _later("too many sessions of this token are open", wait)(scope, receive, send)
            return
        id = id or f"to begin, {next(self._number)}"
        known, status = transports.holds(who, id), 0

        async def sent(message: Message) -> None:
            nonlocal id, known, status
            if message["type"] == "http.response.start":
                status = message["status"]
                name = Headers(raw=message["headers"]).get(SESSION, "")
                if status < 400 and name and not known and name != id:
                    transports.named(who, id, name)
                    id, known = name, True
            await send(message)

        transports.began(who, id)
        try:
            await self._app(scope, receive, sent)
        finally:
            deleted = scope["method"] == "DELETE" and 0 < status < 400
            transports.ended(who, id, gone=deleted or status == 404 or (not known and not 0 < status < 400))


def _who(scope: Scope) -> str:
    """Whose bucket it is: the token's, or the address's."""
    user = scope.get("user")
    if isinstance(user, AuthenticatedUser):
        return user.access_token.client_id
    return f"address {(scope.get('client') or ('',))[0]}"


def _later(words: str, wait: float) -> PlainTextResponse:
    seconds = int(wait) + 1
    return PlainTextResponse(f"{words}; ask again in {seconds} s", 429, {"retry-after": str(seconds)})
