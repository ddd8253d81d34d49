"""Clients of the MCP server: the SDK's own, to a server in this process or to one that was started."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, TypeVar

import httpx2
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

from stratalog.engine.aio import AsyncStratalog
from stratalog.surfaces.mcp.identity import owner
from stratalog.surfaces.mcp.server import server_of

T = TypeVar("T")
ERAS = ("legacy", "auto")


def command(data: Path, *options: str) -> list[str]:
    """How a server of this data directory is started."""
    return [sys.executable, "-m", "stratalog", "--data", str(data), "mcp", *options]


def over_stdio(data: Path, *options: str, era: str = "auto") -> Client:
    """A client to a server that it starts."""
    program, *args = command(data, *options)
    return Client(StdioServerParameters(command=program, args=args, env=dict(os.environ)), mode=era)


@asynccontextmanager
async def within(data: Path, *, user: str = "", session: str = "") -> AsyncIterator[Client]:
    """A client to a server in this process, of the owner of the data directory."""
    async with AsyncStratalog.open(data) as front:
        who = owner("local", user=user, agent="assistant", session=session)
        async with Client(server_of(front, lambda request, what: who)) as client:
            yield client


def run(body: Callable[[], Coroutine[Any, Any, T]], seconds: float = 120) -> T:
    """Runs it in a loop of its own; a server that hangs fails the test."""

    async def bounded() -> T:
        async with asyncio.timeout(seconds):
            return await body()

    return asyncio.run(bounded())


async def call(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    """What the tool gives. It must give something."""
    done = await client.call_tool(tool, arguments)
    assert not done.is_error, done.content[0].text
    return dict(done.structured_content)


async def refused(client: Client, tool: str, **arguments: Any) -> str:
    """In which words the tool says that it cannot."""
    done = await client.call_tool(tool, arguments)
    assert done.is_error, done.structured_content
    assert done.structured_content is None
    return str(done.content[0].text)


@contextmanager
def http_server(data: Path, *options: str) -> Iterator[str]:
    """The address of a server over HTTP, which ends with 0 when it is told to end."""
    process = subprocess.Popen(
        command(data, "--http", "--port", "0", *options), stderr=subprocess.PIPE, text=True
    )
    assert process.stderr is not None
    try:
        told = process.stderr.readline()
        found = re.search(r"http://\S+", told)
        assert found, told + process.stderr.read()
        yield found[0]
        process.send_signal(signal.SIGTERM)
        rest = process.stderr.read()
        assert process.wait(60) == 0, rest
        assert "Traceback" not in rest
    finally:
        process.kill()
        process.wait()
        process.stderr.close()


@asynccontextmanager
async def over_http(url: str, token: str = "", *, era: str = "auto", user: str = "") -> AsyncIterator[Client]:
    """A client to a server at this address, with a token and the user that it names."""
    headers = {"authorization": f"Bearer {token}"} if token else {}
    headers |= {"stratalog-user": user} if user else {}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=60) as http,
        Client(streamable_http_client(url, http_client=http), mode=era) as client,
    ):
        yield client
