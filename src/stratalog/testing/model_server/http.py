"""HTTP/1.1 as far as a model's client speaks it, over asyncio: requests in, responses out, and who has
left."""

from __future__ import annotations

import asyncio
import json
from http import HTTPStatus
from typing import Any, NamedTuple

_LARGEST_HEAD = 65_536


class Asked(NamedTuple):
    """A request as it came; the names of headers are in lower case."""

    method: str
    path: str
    headers: dict[str, str]
    raw: bytes


class Connection(asyncio.StreamReaderProtocol):
    """Tells by `gone` that the other side has closed, even while nobody reads."""

    def __init__(self, reader: asyncio.StreamReader, serve: Any) -> None:
        super().__init__(reader, serve)
        self.gone = asyncio.Event()

    def eof_received(self) -> bool | None:
        self.gone.set()
        return super().eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        self.gone.set()
        super().connection_lost(exc)


async def read_request(reader: asyncio.StreamReader) -> Asked | None:
    """The next request of a connection; None when there is none any more."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
        line, *fields = head.decode("latin-1").rstrip("\r\n").split("\r\n")
        method, path, _ = line.split(" ", 2)
        headers = {}
        for field in fields:
            name, _, value = field.partition(":")
            headers[name.strip().lower()] = value.strip()
        if "chunked" in headers.get("transfer-encoding", ""):
            body = await _chunked(reader)
        else:
            body = await reader.readexactly(int(headers.get("content-length", 0)))
    except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, ConnectionError, ValueError):
        return None
    return Asked(method, path.partition("?")[0], headers, body)


async def _chunked(reader: asyncio.StreamReader) -> bytes:
    body = b""
    while True:
        size = int((await reader.readuntil(b"\r\n")).partition(b";")[0], 16)
        body += (await reader.readexactly(size + 2))[:-2]
        if not size:
            return body


class Response:
    """Writes one response: a head, then pieces or a whole body."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self._writer = writer
        self._chunked = True

    async def head(self, status: int, headers: dict[str, str], *, framed: bool = True) -> None:
        """Begins a response of unknown length; its end is marked only when `framed`."""
        self._chunked = framed
        length = {"transfer-encoding": "chunked"} if framed else {"connection": "close"}
        await self._send(_head(status, {**headers, **length}))

    async def piece(self, data: bytes) -> None:
        if data:
            await self._send(b"%x\r\n%s\r\n" % (len(data), data) if self._chunked else data)

    async def end(self) -> bool:
        """Marks the end; True when the connection may serve another request."""
        if self._chunked:
            await self._send(b"0\r\n\r\n")
        return self._chunked

    async def whole(self, status: int, headers: dict[str, str], body: Any) -> None:
        """A whole response: JSON, or text as it is."""
        data = (body if isinstance(body, str) else json.dumps(body, ensure_ascii=False)).encode(
            "utf-8", "replace"
        )
        await self._send(_head(status, {**headers, "content-length": str(len(data))}) + data)

    async def _send(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()


def _head(status: int, headers: dict[str, str]) -> bytes:
    known = {code.value: code.phrase for code in HTTPStatus}
    lines = [
        f"HTTP/1.1 {status} {known.get(status, 'Unknown')}",
        *(f"{name}: {value}" for name, value in headers.items()),
    ]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1", "replace")
