"""Events as Server-Sent Events, and bytes that are read in threads."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import aclosing
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

import msgspec
from litestar.openapi.spec import OpenAPIMediaType, OpenAPIResponse, OpenAPIType, Operation, Schema
from litestar.response import Stream as Streamed

from stratalog.engine.serving_streams import Ending, Numbered, Stream
from stratalog.errors import InvalidInput
from stratalog.surfaces.http.service import Desk

EVENTS: Final = "text/event-stream"
_RETRY: Final = b"retry: 2000\n\n"  # milliseconds after which a browser connects again
_BEAT: Final = b": still there\n\n"
_BATCH: Final = 64


@dataclass
class StreamsToo(Operation):
    """The `operation_class` of a route that answers with JSON or, where it is asked to, with events."""

    def __post_init__(self) -> None:
        for status in ("200", "202"):
            response = (self.responses or {}).get(status)
            if isinstance(response, OpenAPIResponse) and response.content is not None:
                response.content[EVENTS] = OpenAPIMediaType(schema=Schema(type=OpenAPIType.STRING))


def frame(turn: str, event: Numbered) -> bytes:
    """One event on the wire: its id, its type and its JSON, which has no line breaks."""
    return b"id: %s:%d\nevent: %s\ndata: %s\n\n" % (
        turn.encode(),
        event.number,
        event.type.encode(),
        event.json,
    )


def position_of(last: str | None) -> tuple[str, int] | None:
    """The turn and the number that a `Last-Event-ID` names; None for none. Raises `InvalidInput`."""
    if not last:
        return None
    turn, _, number = last.rpartition(":")
    if not turn or not (number.isascii() and number.isdecimal()) or len(number) > 15:
        raise InvalidInput("`Last-Event-ID` is the id of an event", hint="send that of the last one")
    return turn, int(number)


def streamed(desk: Desk, stream: Stream, after: int | None, status: int = 200) -> Streamed:
    """The events of a turn as they come. Who leaves does not end the turn. About every `beat` seconds it is
    looked whether the token holds still: where not, nothing more is told."""
    beat = desk.service.settings.beat

    async def frames() -> AsyncGenerator[bytes, None]:
        looked = time.monotonic()
        yield _RETRY
        async with aclosing(stream.follow(after, beat=beat)) as events:
            async for batch in events:
                if time.monotonic() - looked >= beat:
                    if not await desk.holds():
                        return
                    looked = time.monotonic()
                yield b"".join(frame(stream.turn, event) for event in batch) or _BEAT

    return _events(frames(), status)


def streamed_ending(turn: str, ending: Ending, after: int | None) -> Streamed:
    """The last event of a turn whose others are not kept any more."""
    number = max(1, (after or 0) + 1)
    event = Numbered(number, str(ending.__struct_config__.tag), msgspec.json.encode(ending))

    async def frames() -> AsyncGenerator[bytes, None]:
        yield _RETRY + frame(turn, event)

    return _events(frames(), 200)


async def in_batches(desk: Desk, pieces: Iterator[bytes]) -> AsyncIterator[bytes]:
    """The pieces, read in a thread some at a time."""
    while batch := await desk.run(lambda: b"".join(islice(pieces, _BATCH))):
        yield batch


def _events(frames: AsyncGenerator[bytes, None], status: int) -> Streamed:
    headers: dict[str, Any] = {"x-accel-buffering": "no", "cache-control": "no-store"}
    return Streamed(frames, media_type=EVENTS, status_code=status, headers=headers)
