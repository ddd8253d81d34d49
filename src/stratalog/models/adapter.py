"""What every adapter over an official SDK does alike: one attempt, read as plain JSON, and the asking again.

The SDK makes the connection, lets itself in, reads the stream and types the errors. The request's body goes
out as the bytes that `endpoint.encoded` makes, and each event comes back as plain JSON: so a server may ask
for and send fields that the SDK's classes do not know, and the same body is the same bytes. The SDK's own
retries are off.

The timeout is the silence on the wire that is borne: before the first byte, and between two. A provider
that sends pings while it thinks is not silent.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import aclosing
from functools import partial
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from stratalog.models.contract import Event, Request, Shape
from stratalog.models.endpoint import Endpoint, PerLoop, encoded
from stratalog.models.faults import Fault, Faulted, broken, refused
from stratalog.models.replies.contract import Reply
from stratalog.models.retry import Retry, asked_again, asked_pause


class Client(Protocol):
    async def close(self) -> None: ...


C = TypeVar("C", bound=Client)


class Response(Protocol):
    """What is used of the response below a stream; both SDKs have the same kind."""

    @property
    def headers(self) -> Mapping[str, str]: ...
    @property
    def http_version(self) -> str: ...
    async def aread(self) -> bytes: ...


class Opened(Protocol):
    """A stream that an SDK opened."""

    response: Any  # a `Response`, of a class that only the SDK imports

    def __aiter__(self) -> AsyncIterator[object]: ...
    async def close(self) -> None: ...


class Adapter(ABC, Generic[C]):
    """A subclass names its shape, its path and its reply, opens streams with its SDK and reads its errors."""

    shape: ClassVar[Shape]
    _reply: ClassVar[type[Reply]]

    def __init__(self, endpoint: Endpoint, retry: Retry | None) -> None:
        self._endpoint = endpoint
        self._retry = retry or Retry()
        self._clients: PerLoop[C] = PerLoop(self._connector())

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._endpoint.place})"

    def stream(self, request: Request) -> AsyncGenerator[Event, None]:
        """See `models.contract.Model`. Close the generator (`aclose`) to end the request early."""
        content = encoded(self._body(request))
        once = partial(self._once, request, content)
        return self._retry.run(once, model=request.model, endpoint=self._endpoint)

    async def close(self) -> None:
        """Ends the connections of the running event loop; the next request opens new ones."""
        client = self._clients.take()
        if client is not None:
            await client.close()

    @abstractmethod
    def _connector(self) -> Callable[[], C]:
        """What makes a client. Raises `InvalidConfig` when the SDK is not installed."""

    @abstractmethod
    async def _open(self, client: C, content: bytes, timeout: float) -> Opened:
        """Sends the request; gives the stream of its events as plain JSON."""

    @abstractmethod
    def _errors(self) -> tuple[type[Exception], ...]:
        """All that the SDK, and the HTTP library below it, raise when a request fails."""

    @abstractmethod
    def _fault(self, error: Exception, timeout: float) -> Fault:
        """What one of those errors means."""

    def _body(self, request: Request) -> dict[str, Any]:
        return {"model": request.model, **request.body, "stream": True}

    async def _once(self, request: Request, content: bytes) -> AsyncGenerator[Event, None]:
        reply, fault, framed = self._reply(request.model), None, True
        try:
            stream = await self._open(self._clients.get(), content, request.timeout)
            try:
                framed = _framed(stream.response)
                async with aclosing(_events(stream)) as events:
                    async for whole, data in events:
                        for delta in reply.whole(data) if whole else reply.take(data):
                            yield delta
            finally:
                await stream.close()
        except (json.JSONDecodeError, UnicodeDecodeError):
            fault = broken("the reply is not the JSON that it should be")
        except self._errors() as error:
            fault = self._fault(error, request.timeout)
        if fault is not None:
            raise Faulted(fault)
        for delta in reply.rest():
            yield delta
        yield reply.completed(framed=framed)


async def _events(stream: Opened) -> AsyncGenerator[tuple[bool, object], None]:
    """The events of the stream, or the whole reply of a server that does not stream, told apart."""
    if "json" in stream.response.headers.get("content-type", ""):
        yield True, json.loads(await stream.response.aread())
        return
    async for data in stream:
        yield False, data


def _framed(response: Response) -> bool:
    """Whether the end of the response is marked on the wire, so that a cut is seen."""
    marks = ("content-length", "transfer-encoding")
    return not response.http_version.startswith("HTTP/1") or any(mark in response.headers for mark in marks)


def refusal(status: int, headers: Mapping[str, str], body: object, said: str) -> Fault:
    """The fault of an answer with an error status."""
    return refused(
        status,
        body,
        text=said,
        request_id=headers.get("x-request-id") or headers.get("request-id") or "",
        wait=asked_pause(headers),
        again=asked_again(headers),
    )


def lost(error: BaseException) -> Fault:
    """The fault of a connection that failed, with the innermost reason that says something."""
    said, kind = str(error), type(error).__name__
    while error.__cause__ is not None:
        error = error.__cause__
        said, kind = str(error) or said, type(error).__name__
    return broken(f"the connection failed: {said} ({kind})")


def silent(timeout: float) -> Fault:
    return broken(f"nothing came for {timeout:g} seconds")
