"""The server of one client that started it: the protocol on stdin and stdout, until stdin ends.

Any number of them may have one data directory. What was asked before stdin ended is answered before the
server ends. A signal ends it at once, as a kill does: what was acknowledged is on the disk.
"""

from __future__ import annotations

import asyncio
import json
import logging
import signal
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import anyio
import mcp_types as types
from mcp.server import Server
from mcp.server.stdio import stdio_server
from mcp.shared.message import SessionMessage
from pydantic import ValidationError

from stratalog.engine.aio import AsyncStratalog
from stratalog.surfaces.mcp.identity import owner
from stratalog.surfaces.mcp.server import server_of
from stratalog.surfaces.mcp.values import scalar

_GRACE: Final = 10.0  # seconds that requests have once stdin ended
_CANCELLED: Final = "notifications/cancelled"


def serve(data: Path, tenant: str, *, user: str = "", agent: str, session: str = "") -> None:
    """Serves until the client closes stdin. Without a `user` it is that of the settings. Raises
    `InvalidConfig` and `InvalidKey`, before anything is served."""
    log_to_stderr()
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # a thread that reads stdin would not let it end
    asyncio.run(_serve(data, tenant, user, agent, session))


def log_to_stderr() -> None:
    """What is logged as a warning or worse goes to stderr, for stdout is the protocol's."""
    logging.basicConfig(
        stream=sys.stderr, level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s"
    )


async def _serve(data: Path, tenant: str, user: str, agent: str, session: str) -> None:
    async with AsyncStratalog.open(data, tenant=tenant) as front:
        settings = front.sync.settings_of(agent)
        who = owner(front.sync.tenant, user=user or settings.memory.user, agent=agent, session=session)
        front.sync.session(who.session)  # it is wrong before anybody asks, not at each request
        try:
            await _answer_all(server_of(front, lambda request, what: who))
        except* BrokenPipeError:
            pass  # the client went without a word


class _Owed:
    """The requests that have no answer yet."""

    def __init__(self) -> None:
        self._ids: set[types.RequestId] = set()
        self._none = asyncio.Event()
        self._none.set()

    def asked(self, message: types.JSONRPCMessage) -> None:
        if isinstance(message, types.JSONRPCRequest):
            self._ids.add(message.id)
        elif isinstance(message, types.JSONRPCNotification) and message.method == _CANCELLED:
            self._ids.discard((message.params or {}).get("requestId", ""))  # it is never answered
        self._tell()

    def answered(self, message: types.JSONRPCMessage) -> None:
        if isinstance(message, types.JSONRPCResponse | types.JSONRPCError) and message.id is not None:
            self._ids.discard(message.id)
        self._tell()

    async def none(self) -> None:
        """Waits until there are none, or the time for it is over."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_GRACE):
                await self._none.wait()

    def _tell(self) -> None:
        if self._ids:
            self._none.clear()
        else:
            self._none.set()


async def _answer_all(server: Server[Any]) -> None:
    """Runs the server on stdin and stdout. It is told of the end of stdin once it has answered. The SDK tells
    nobody of a line that it cannot read: that is answered here."""
    to_server, inbox = anyio.create_memory_object_stream[SessionMessage | Exception]()
    outbox, from_server = anyio.create_memory_object_stream[SessionMessage]()
    owed = _Owed()
    async with stdio_server() as (reading, writing):

        async def inward() -> None:
            async with to_server:
                async for item in reading:
                    told = _message(item)
                    if isinstance(told, types.JSONRPCError):
                        await writing.send(SessionMessage(told))
                        continue
                    owed.asked(told)
                    await to_server.send(SessionMessage(told))
                await owed.none()

        async def outward() -> None:
            async with writing:
                async for item in from_server:
                    await writing.send(item)
                    owed.answered(item.message)

        async with asyncio.TaskGroup() as group:
            group.create_task(inward())
            group.create_task(outward())
            await server.run(inbox, outbox, server.create_initialization_options())


def _message(item: SessionMessage | Exception) -> types.JSONRPCMessage:
    """What came, or the answer to what cannot be read. A lone surrogate in it is read as U+FFFD."""
    if isinstance(item, SessionMessage):
        return item.message
    errors = item.errors() if isinstance(item, ValidationError) else []
    line = next((each["input"] for each in errors if each["type"] == "json_invalid"), None)
    if line is None:
        objects = [each["input"] for each in errors if isinstance(each["input"], dict)]
        id = next((each["id"] for each in objects if isinstance(each.get("id"), int | str)), None)
        return _refusal(id, types.INVALID_REQUEST, "this is no message of JSON-RPC")
    try:
        return types.jsonrpc_message_adapter.validate_python(scalar(json.loads(line)), by_name=False)
    except (ValueError, RecursionError):  # a pydantic error is one of values too
        return _refusal(None, types.PARSE_ERROR, "this is no JSON")


def _refusal(id: types.RequestId | None, code: int, words: str) -> types.JSONRPCError:
    return types.JSONRPCError(jsonrpc="2.0", id=id, error=types.ErrorData(code=code, message=words))
