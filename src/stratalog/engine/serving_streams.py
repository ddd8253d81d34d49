"""What a turn that is served tells, numbered and kept for a while, so that who lost the connection goes on
where it was.

Each event is encoded once and read by any number. A turn has one stream; when it is taken up again after the
process ended, its numbers go on at the next multiple of `RESUMED`, so that nobody who saw the first attempt
takes an event of the second for one of those.
"""

from __future__ import annotations

import asyncio
import re
from collections import deque
from collections.abc import AsyncGenerator, Sequence
from itertools import islice
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec

from stratalog.engine.running import (
    Answered,
    Called,
    Compacted,
    Event,
    ReasoningDelta,
    Replied,
    Retrying,
    TextDelta,
)
from stratalog.types import Usage

RESUMED: Final = 1_000_000
_BARE: Final = 2_000  # bytes of memory that a stream takes without events,
_BESIDE: Final = 200  # and an event besides its JSON
_BATCH: Final = 64  # events that a reader is given together
_PLACE: Final = re.compile(r" \[[^\]]*\]")  # where something went wrong: files, variables


class _Told(msgspec.Struct, frozen=True, kw_only=True, tag_field="type"):
    pass


class Queued(_Told, frozen=True, kw_only=True, tag="queued"):
    """The message is in the log and waits; `position` turns are before its own."""

    turn: str
    position: int


class Started(_Told, frozen=True, kw_only=True, tag="started"):
    """The turn is being answered."""

    turn: str


class Words(_Told, frozen=True, kw_only=True, tag="text"):
    """Words of the reply, to be put after those before."""

    text: str


class Thought(_Told, frozen=True, kw_only=True, tag="reasoning"):
    text: str


class Again(_Told, frozen=True, kw_only=True, tag="retrying"):
    """The model is asked again after `pause` seconds: the words of this reply that came so far are void."""

    attempt: int
    pause: float


class Calling(_Told, frozen=True, kw_only=True, tag="tool_call"):
    """A tool is called. What words come after it are those of another reply."""

    call_id: str
    name: str
    args: Any = None


class Result(_Told, frozen=True, kw_only=True, tag="tool_result"):
    call_id: str
    name: str
    text: str
    error: bool = False


class Folded(_Told, frozen=True, kw_only=True, tag="compacted"):
    """What is old was folded into a summary."""

    tokens_before: int
    tokens_after: int
    by: str


class Warning(_Told, frozen=True, kw_only=True, tag="warning"):
    reason: str


class Snapshot(_Told, frozen=True, kw_only=True, tag="snapshot"):
    """Events were missed that are not kept any more: the words of the present reply so far, instead of all
    that came before."""

    text: str


class Done(_Told, frozen=True, kw_only=True, tag="done"):
    """The turn was answered. `text` is the whole reply, `entry` its id in the log, `tokens` those that the
    last request was counted for (0: not known any more)."""

    turn: str
    text: str
    entry: str
    model: str = ""
    usage: Usage | None = None
    tokens: int = 0


class Failed(_Told, frozen=True, kw_only=True, tag="failed"):
    """The turn ended without an answer. `status` is how, `text` what words had come; `error` is the name of
    what went wrong, and `reason` says it, as far as that is for who asked to know."""

    turn: str
    status: str
    error: str = ""
    reason: str = ""
    text: str = ""


class Paused(_Told, frozen=True, kw_only=True, tag="paused"):
    """Nothing more comes here. The turn is in the log and not finished: it is `queued` or `started`, and is
    gone on with when the service runs again, or by whoever runs it."""

    turn: str
    status: str


Told: TypeAlias = (
    Queued
    | Started
    | Words
    | Thought
    | Again
    | Calling
    | Result
    | Folded
    | Warning
    | Snapshot
    | Done
    | Failed
    | Paused
)
Ending: TypeAlias = Done | Failed | Paused


class Numbered(NamedTuple):
    """An event as it is sent: its number within the turn, its type, and its JSON."""

    number: int
    type: str
    json: bytes


class Stream:
    """The events of one turn. Those beyond `most` bytes of memory are given up, the oldest first."""

    def __init__(self, turn: str, *, attempt: int = 0, most: int = 1_000_000) -> None:
        self.turn = turn
        self.text = ""  # of the reply that is under way
        self.ending: Ending | None = None
        self.readers = 0
        self._last = attempt * RESUMED
        self._events: deque[Numbered] = deque()
        self._size, self._most = 0, most
        self._changed, self._over = asyncio.Event(), asyncio.Event()

    @property
    def last(self) -> int:
        """The number of the last event."""
        return self._last

    @property
    def size(self) -> int:
        """About the bytes of memory that it takes."""
        return self._size + _BARE

    def tell(self, told: Told) -> None:
        """Adds an event. After an ending there is none."""
        if self.ending is not None:
            return
        match told:
            case Words():
                self.text += told.text
            case Again() | Calling():
                self.text = ""
            case Done() | Failed() | Paused():
                self.ending = told
                self._over.set()
            case _:
                pass
        self._last += 1
        self._events.append(Numbered(self._last, str(told.__struct_config__.tag), msgspec.json.encode(told)))
        self._size += len(self._events[-1].json) + _BESIDE
        while self._size > self._most and len(self._events) > 1:
            self._size -= len(self._events.popleft().json) + _BESIDE
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    async def ended(self) -> Ending:
        """How it ends."""
        await self._over.wait()
        assert self.ending is not None
        return self.ending

    async def follow(
        self, after: int | None = None, *, beat: float = 15.0
    ) -> AsyncGenerator[Sequence[Numbered], None]:
        """The events after the one with this number, to the ending, those that are there already together;
        none whenever nothing came for `beat` seconds. Who names a number that is not kept, or is none of
        these, first gets a snapshot."""
        self.readers += 1
        try:
            at = self._first - 1 if after is None else after
            while True:
                if not self._first - 1 <= at <= self._last:
                    at = self._last if self.ending is None else self._last - 1
                    yield [Numbered(at, "snapshot", msgspec.json.encode(Snapshot(text=self.text)))]
                while self._first - 1 <= at < self._last:
                    begin = at + 1 - self._first
                    batch = list(islice(self._events, begin, begin + _BATCH))
                    at = batch[-1].number
                    yield batch
                if self.ending is not None and at >= self._last:
                    return
                if at == self._last:
                    changed = self._changed
                    try:
                        async with asyncio.timeout(beat):
                            await changed.wait()
                    except TimeoutError:
                        yield ()
        finally:
            self.readers -= 1

    @property
    def _first(self) -> int:
        return self._events[0].number if self._events else self._last + 1


def told_of(event: Event, turn: str) -> Told:
    """What is told of an event of a turn that runs."""
    match event:
        case TextDelta():
            return Words(text=event.text)
        case ReasoningDelta():
            return Thought(text=event.text)
        case Retrying():
            return Again(attempt=event.attempt, pause=event.pause)
        case Called(call=call):
            return Calling(call_id=call.call_id, name=call.name, args=call.args)
        case Answered(result=result):
            return Result(call_id=result.call_id, name=result.name, text=result.text, error=result.error)
        case Compacted(entry=entry):
            return Folded(tokens_before=entry.tokens_before, tokens_after=entry.tokens_after, by=entry.by)
        case Replied(reply=reply):
            return Done(
                turn=turn,
                text=reply.text,
                entry=reply.id,
                model=reply.model,
                usage=reply.usage,
                tokens=event.tokens,
            )
        case _:
            return Warning(reason=_PLACE.sub("", event.reason))
