"""A model that says what a test wrote down, in process.

    model = ScriptedModel(["Hello.", Reply(calls=(Call("add", {"a": 1, "b": 2}),)), ModelUnavailable("down")])
    model = ScriptedModel(lambda request: "the same every time", shape="anthropic", window=8_000)

Each request takes the next step of the script: the words of a reply, a `Reply`, or an exception, which is
raised. A function is given the request and returns the step. What was asked stands in `requests`. Nothing
waits for a clock: a reply that is to be slow has a `Gate`, which the test opens.

The steps here are also those of `stratalog.testing.model_server`, which says the same over HTTP.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import threading
from base64 import b64encode
from collections.abc import AsyncGenerator, Callable, Iterable
from math import ceil
from typing import Any, Literal, TypeAlias

import msgspec

from stratalog.errors import ModelInputTooLong
from stratalog.ids import new_ulid
from stratalog.models.contract import Completed, Event, ReasoningDelta, Request, Shape, TextDelta
from stratalog.types import Usage

IMAGE_TOKENS = 1_000
_MEDIA = ("base64", "input_audio")


class Gate:
    """Holds a reply until the test opens it; works between threads and event loops.

    `wait_reached` and `reached` tell that the reply has come to the gate."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._opened = False
        self._waiting: list[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = []
        self._reached = threading.Event()

    def open(self) -> None:
        """Lets through what waits and all that comes later."""
        with self._lock:
            self._opened, waiting, self._waiting = True, self._waiting, []
        for loop, event in waiting:
            loop.call_soon_threadsafe(event.set)

    @property
    def reached(self) -> bool:
        return self._reached.is_set()

    def wait_reached(self, timeout: float = 10.0) -> None:
        """Blocks until a reply is held here. Raises `TimeoutError`."""
        if not self._reached.wait(timeout):
            raise TimeoutError("no reply came to the gate")

    async def passed(self) -> None:
        """Waits until the gate is open."""
        event = asyncio.Event()
        with self._lock:
            if not self._opened:
                self._waiting.append((asyncio.get_running_loop(), event))
            else:
                event.set()
        self._reached.set()
        await event.wait()


class Call(msgspec.Struct, frozen=True):
    """A tool call. `args` is any JSON, or a string to be written as it is, JSON or not. An id is made for "",
    never the same twice, as a provider does."""

    name: str
    args: Any = {}
    id: str = ""

    @property
    def written(self) -> str:
        """The arguments as text."""
        return self.args if isinstance(self.args, str) else msgspec.json.encode(self.args).decode()


class Reply(msgspec.Struct, frozen=True, kw_only=True):
    """What the model says. It comes in up to `pieces` deltas; `gate` holds it before the first and
    `late_gate` before the last. `stop` "" is told by what it holds; `usage` None is estimated."""

    text: str = ""
    reasoning: str = ""
    calls: tuple[Call, ...] = ()
    refusal: str = ""
    stop: Literal["", "end", "tools", "length", "refusal", "other"] = ""
    usage: Usage | None = None
    pieces: int = 3
    gate: Gate | None = None
    late_gate: Gate | None = None

    @property
    def why(self) -> Literal["end", "tools", "length", "refusal", "other"]:
        return self.stop or ("refusal" if self.refusal else "tools" if self.calls else "end")

    @property
    def size(self) -> int:
        """About how many tokens it takes."""
        words = [self.text, self.reasoning, self.refusal, *(call.name + call.written for call in self.calls)]
        return ceil(sum(map(len, words)) / 4)

    def named(self) -> Reply:
        """The same with an id for every call."""
        calls = tuple(
            msgspec.structs.replace(call, id=call.id or f"call_{new_ulid()}") for call in self.calls
        )
        return msgspec.structs.replace(self, calls=calls)


Step: TypeAlias = str | Reply | BaseException
Script: TypeAlias = Iterable[Step] | Callable[[Request], Step]


class ScriptedModel:
    """Keeps `models.contract.Model`. With a `window`, a request over it by `count` raises
    `ModelInputTooLong`, and takes no step. `check` sees every request first and raises what it will.

    `requests` are all that were made, or the latest `keep` of them; `abandoned` the places in the order of
    all of those whose stream was left early."""

    def __init__(
        self,
        script: Script,
        *,
        shape: Shape = "openai_chat",
        window: int | None = None,
        count: Callable[[dict[str, Any]], int] | None = None,
        check: Callable[[Request], None] | None = None,
        keep: int | None = None,
    ) -> None:
        self.shape: Shape = shape
        self.requests: list[Request] = []
        self._made = 0
        self._keep = keep
        self.abandoned: list[int] = []
        self._next = script if callable(script) else _taker(script)
        self._window = window
        self._count = count or rough_tokens
        self._check = check

    async def stream(self, request: Request) -> AsyncGenerator[Event, None]:
        """See `models.contract.Model`. Raises `AssertionError` when the script has come to its end."""
        place, self._made = self._made, self._made + 1
        self.requests.append(request)
        keep_latest(self.requests, self._keep)
        if self._check is not None:
            self._check(request)
        asked = self._count(request.body)
        if self._window is not None and asked + output_limit(request.body) > self._window:
            raise ModelInputTooLong(
                "the input is too long for the model", model=request.model, tokens=asked, window=self._window
            )
        step = self._next(request)
        if isinstance(step, BaseException):
            raise step
        reply = (Reply(text=step) if isinstance(step, str) else step).named()
        done = False
        try:
            async for event in _deltas(reply):
                yield event
            done = True
        finally:
            if not done:
                self.abandoned.append(place)
        yield Completed(
            message=message_of(reply, self.shape),
            stop=reply.why,
            model=request.model,
            usage=reply.usage or Usage(input=asked, output=reply.size),
            response_id=f"scripted-{place}",
        )


def message_of(reply: Reply, shape: Shape) -> dict[str, Any]:
    """The reply in a provider's own JSON, as `Completed.message` has it. Its calls have their ids already."""
    match shape:
        case "openai_chat":
            return _chat(reply)
        case "openai_responses":
            return {"output": _items(reply)}
        case "anthropic":
            return {"role": "assistant", "content": _blocks(reply)}


def signature_of(thinking: str) -> str:
    """The signature under which thinking is given out, and without which it is refused when it comes back."""
    return b64encode(hashlib.sha256(f"scripted:{thinking}".encode("utf-8", "replace")).digest()).decode()


def rough_tokens(body: Any) -> int:
    """A quarter of the characters of all keys and strings in the body; media cost a flat number each."""
    return ceil(_weight(body) / 4)


def output_limit(body: dict[str, Any]) -> int:
    """The output tokens that a request of any shape allows, 0 when it says nothing."""
    for name in ("max_completion_tokens", "max_output_tokens", "max_tokens"):
        value = body.get(name)
        if isinstance(value, int):
            return value
    return 0


def keep_latest(kept: list[Any], most: int | None) -> None:
    """Takes out the earliest, so that at most so many are left; None is no limit."""
    if most is not None:
        del kept[: max(0, len(kept) - most)]


def split(text: str, pieces: int) -> list[str]:
    """The text in at most so many pieces, none empty."""
    size = max(1, ceil(len(text) / max(1, pieces)))
    return [text[start : start + size] for start in range(0, len(text), size)]


async def _deltas(reply: Reply) -> AsyncGenerator[Event, None]:
    if reply.gate is not None:
        await reply.gate.passed()
    deltas: list[Event] = [ReasoningDelta(piece) for piece in split(reply.reasoning, reply.pieces)]
    deltas += [TextDelta(piece) for piece in split(reply.text + reply.refusal, reply.pieces)]
    for place, delta in enumerate(deltas):
        if reply.late_gate is not None and place == len(deltas) - 1:
            await reply.late_gate.passed()
        yield delta


def _taker(script: Iterable[Step]) -> Callable[[Request], Step]:
    steps = iter(script)
    end = object()

    def take(request: Request) -> Step:
        step = next(steps, end)
        assert isinstance(step, str | Reply | BaseException), "the script has no step for this request"
        return step

    return take


def _chat(reply: Reply) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": reply.text or None}
    if reply.refusal:
        message["refusal"] = reply.refusal
    if reply.reasoning:
        message["reasoning_content"] = reply.reasoning
    if reply.calls:
        message["tool_calls"] = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.written}}
            for call in reply.calls
        ]
    return message


def _items(reply: Reply) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = []
    if reply.reasoning:
        summary = [{"type": "summary_text", "text": reply.reasoning}]
        sealed = signature_of(reply.reasoning)
        items.append(
            {"id": f"rs_{new_ulid()}", "type": "reasoning", "summary": summary, "encrypted_content": sealed}
        )
    if reply.text or reply.refusal:
        content: list[dict[str, Any]] = []
        if reply.text:
            content.append({"type": "output_text", "text": reply.text, "annotations": []})
        if reply.refusal:
            content.append({"type": "refusal", "refusal": reply.refusal})
        items.append(
            {
                "id": f"msg_{new_ulid()}",
                "type": "message",
                "role": "assistant",
                "status": "completed",
                "content": content,
            }
        )
    items += [
        {
            "id": f"fc_{new_ulid()}",
            "type": "function_call",
            "call_id": call.id,
            "name": call.name,
            "arguments": call.written,
            "status": "completed",
        }
        for call in reply.calls
    ]
    return items


def _blocks(reply: Reply) -> list[dict[str, Any]]:
    blocks: list[dict[str, Any]] = []
    if reply.reasoning:
        signature = signature_of(reply.reasoning)
        blocks.append({"type": "thinking", "thinking": reply.reasoning, "signature": signature})
    if reply.text or reply.refusal:
        blocks.append({"type": "text", "text": reply.text + reply.refusal})
    blocks += [
        {"type": "tool_use", "id": call.id, "name": call.name, "input": _parsed(call)} for call in reply.calls
    ]
    return blocks


def _parsed(call: Call) -> Any:
    """What the adapter makes of the arguments: JSON, or the text when they are none."""
    if not isinstance(call.args, str):
        return call.args
    try:
        return json.loads(call.args)
    except json.JSONDecodeError:
        return call.args


def _weight(body: Any) -> int:
    weight, left = 0, [body]
    while left:  # no recursion: this is run on hundreds of kilobytes for every request of a long run
        value = left.pop()
        if isinstance(value, str):
            weight += IMAGE_TOKENS * 4 if value.startswith("data:") else len(value)
        elif isinstance(value, dict):
            if value.get("type") in _MEDIA or "file_data" in value:
                weight += IMAGE_TOKENS * 4
            else:
                weight += sum(map(len, value))
                left += value.values()
        elif isinstance(value, list | tuple):
            left += value
    return weight
