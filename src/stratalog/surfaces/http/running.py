"""The server: where it listens, and how it ends.

SIGTERM or Ctrl-C: it accepts no connection more, turns that run have the grace to finish, and every stream
gets its ending before its connection is closed. A second Ctrl-C does not wait; nothing is lost by that, for
what was accepted is in the log.
"""

from __future__ import annotations

import asyncio
import ctypes
import logging
import os
import resource
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any, Final, cast

import uvicorn
from litestar import Litestar
from uvicorn.protocols.http.h11_impl import H11Protocol

from stratalog.config import FILE, load_settings
from stratalog.errors import StorageFailed
from stratalog.surfaces.access.wire import in_url, listening
from stratalog.surfaces.http.app import create_app
from stratalog.surfaces.http.service import Service
from stratalog.surfaces.http.settings import HttpSettings
from stratalog.surfaces.http.tracing import exporting, tracing

_PATIENCE: Final = 15.0  # seconds beyond the grace, in which turns are let go and streams are ended
_KEEP_ALIVE: Final = 30
_M_ARENA_MAX: Final = -8  # of glibc's malloc.h
_HEAD: Final = 30.0  # seconds in which the head of a request comes
_OTHERS: Final = 256  # files that are open besides connections


class Connection(H11Protocol):
    """uvicorn's, which has `head` seconds to say what it asks, and of which there are at most `most`."""

    def __init__(self, *arguments: Any, most: int, head: float = _HEAD, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._most, self._head = most, head
        self._late: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > self._most:
            transport.abort()
        self._wait()

    def data_received(self, data: bytes) -> None:
        self._wait()
        super().data_received(data)
        if not self._idle():
            self._stop_waiting()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.conn.trailing_data[0]:  # the beginning of the next request came with this one
            self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        super().connection_lost(exc)

    def _idle(self) -> bool:
        """Whether no request is being answered."""
        return self.cycle is None or self.cycle.response_complete

    def _wait(self) -> None:
        if self._late is None and self._idle():
            self._late = self.loop.call_later(self._head, self.transport.close)

    def _stop_waiting(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None


class Server(uvicorn.Server):
    """uvicorn's, which ends the turns before it waits for connections."""

    def __init__(self, app: Litestar, settings: HttpSettings) -> None:
        self._app, self._settings = app, settings
        super().__init__(
            uvicorn.Config(
                app,
                http=cast("Any", partial(Connection, most=_room_for(settings.connections))),
                lifespan="on",
                log_config=None,
                access_log=False,
                server_header=False,
                proxy_headers=False,  # nobody's word is taken for who asks
                ws="none",
                date_header=True,
                timeout_keep_alive=_KEEP_ALIVE,
                timeout_graceful_shutdown=int(settings.grace + _PATIENCE),
            )
        )

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        service = self._app.state.get("service")
        if not isinstance(service, Service):  # it did not get so far
            await super().shutdown(sockets)
            return
        draining = asyncio.create_task(service.turns.drain(self._settings.grace))
        await super().shutdown(sockets)
        await draining


def _room_for(connections: int) -> int:
    """How many connections the process may have, of so many that are wanted: it lets itself open the files
    that they need, as far as it may."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return connections
    wanted = connections + _OTHERS
    if soft < wanted:
        soft = wanted if hard == resource.RLIM_INFINITY else max(soft, min(hard, wanted))
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return max(1, min(connections, soft - _OTHERS))


def serve(data: Path, settings: HttpSettings, told: Callable[[str], None]) -> None:
    """Serves the data directory until it is told to end."""
    own = load_settings(data)  # what is wrong in them is told before anything is opened
    _log_to_stderr()
    spans = tracing(exporting(os.environ))
    _share_freed_memory()
    with listening(settings.host, settings.port) as where:
        host, port = where.getsockname()[:2]
        at = f"http://{in_url(host)}:{port}"
        told(f"serving {data} at {at}")
        told(f"the console is at {at}/console")
        if not own.model:
            told(f"no model answers: set `model` in {data / FILE}, such as openai:gpt-5, and start again")
        if settings.dev:
            told("no token is asked for: everybody on this machine is an admin of the tenant `local`")
        server = Server(create_app(data, settings, traces=spans), settings)
        with _caught():
            server.run(sockets=[where])
    if not server.started:
        raise StorageFailed("the service could not begin", hint="what it told before says why")


def _share_freed_memory() -> None:
    """Lets all threads have their memory of two arenas. With one for each thread, as glibc makes them, what a
    thread freed is of no use to another, and the process only grows."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # other C libraries have none
    if mallopt is not None and not os.environ.get("MALLOC_ARENA_MAX"):
        mallopt(_M_ARENA_MAX, 2)


def _log_to_stderr() -> None:
    """What goes wrong is told, with the id of its request; the command line keeps logs to itself else."""
    told = logging.StreamHandler()
    told.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    logging.getLogger("stratalog").addHandler(told)


@contextmanager
def _caught() -> Iterator[None]:
    """uvicorn raises the signal that ended it once more, when all is done: then it changes nothing."""
    before = {number: signal.signal(number, _ignore) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _ignore(number: int, frame: FrameType | None) -> None:
    pass
