"""A request that is left early ends on the wire: the server sees the client go."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from models.asking import SHAPES, Time, model_at, request
from stratalog.models.contract import Retrying, TextDelta
from stratalog.testing.model_server import Hang, ModelServer, Refuse
from stratalog.testing.scripted import Reply

shapes = pytest.mark.parametrize("shape", SHAPES)
SAID = Reply(text="abcdef", pieces=3)


async def closed(model: Any, shape: str) -> None:
    """`aclose` after the first delta."""
    stream = model.stream(request(shape))
    async for event in stream:
        assert isinstance(event, TextDelta)
        break
    await stream.aclose()


async def cancelled(model: Any, shape: str) -> None:
    """The task is cancelled while it waits for the next delta."""
    began = asyncio.Event()

    async def read() -> None:
        async for _ in model.stream(request(shape)):
            began.set()

    task = asyncio.create_task(read())
    await asyncio.wait_for(began.wait(), 10)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


@shapes
@pytest.mark.parametrize("leave", [closed, cancelled])
def test_left_within_the_reply(shape: str, leave: Callable[[Any, str], Awaitable[None]]) -> None:
    """Within the reply the connection is closed, and nothing is asked again."""

    async def run() -> None:
        await leave(model, shape)
        await asyncio.to_thread(server.wait, lambda: server.requests[0].disconnected)

    with ModelServer([Hang(SAID, after=1)]) as server:
        model = model_at(server, shape)
        asyncio.run(run())
    assert len(server.requests) == 1


@shapes
def test_cancelled_before_the_first_byte(shape: str) -> None:
    """While the provider has not begun to answer, a cancelled task ends the request too."""

    async def run() -> None:
        task = asyncio.create_task(anext(model.stream(request(shape))))
        await asyncio.to_thread(server.wait, lambda: len(server.requests) == 1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.to_thread(server.wait, lambda: server.requests[0].disconnected)

    with ModelServer([Hang()]) as server:
        model = model_at(server, shape)
        asyncio.run(run())


@shapes
def test_left_between_two_attempts(shape: str) -> None:
    """A stream that is closed while it would wait makes no further attempt."""

    async def run() -> None:
        stream = model.stream(request(shape))
        assert isinstance(await anext(stream), Retrying)
        await stream.aclose()
        await model.close()

    time = Time()
    with ModelServer(lambda received: Refuse(503)) as server:
        model = model_at(server, shape, time=time)
        asyncio.run(run())
    assert len(server.requests) == 1
    assert time.slept == []


@shapes
def test_the_next_request_after_one_that_was_left(shape: str) -> None:
    """A model whose stream was left is as good as before."""

    async def run() -> str:
        await closed(model, shape)
        said = [event.text async for event in model.stream(request(shape)) if isinstance(event, TextDelta)]
        await model.close()
        return "".join(said)

    with ModelServer([Hang(SAID, after=1), "Still here."]) as server:
        model = model_at(server, shape)
        assert asyncio.run(run()) == "Still here."
