"""What the tests of models share: a model of each shape at a server, a request it takes, and time that is
made."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from stratalog.models.anthropic import Anthropic
from stratalog.models.contract import Completed, Event, Model, Request, Retrying, TextDelta
from stratalog.models.openai import OpenAIChat, OpenAIResponses
from stratalog.models.retry import Policy, Retry
from stratalog.testing.model_server import ModelServer

KEY = "sk-test-0123456789abcdef"
SHAPES = ("openai_chat", "openai_responses", "anthropic")
_CLASSES: dict[str, tuple[str, Callable[..., Any]]] = {
    "openai_chat": ("openai", OpenAIChat),
    "openai_responses": ("openai", OpenAIResponses),
    "anthropic": ("anthropic", Anthropic),
}
_SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}}


class Time:
    """A clock that only sleeping moves; `slept` are the pauses."""

    def __init__(self) -> None:
        self.now = 0.0
        self.slept: list[float] = []

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds
        await asyncio.sleep(0)

    def retry(self, **policy: Any) -> Retry:
        return Retry(
            policy=Policy(**policy), sleep=self.sleep, clock=lambda: self.now, chance=lambda: 1 - 2**-53
        )


def model_at(
    server: ModelServer, shape: str, *, time: Time | None = None, key: str = KEY, **policy: Any
) -> Any:
    """The real adapter over the real SDK, at the server; skips the test where the SDK is not installed."""
    package, make = _CLASSES[shape]
    pytest.importorskip(package, reason=f"the SDK `{package}` is not installed")
    url = server.anthropic_url if shape == "anthropic" else server.openai_url
    return make(api_key=key, base_url=url, retry=(time or Time()).retry(**policy))


def request(shape: str, text: str = "Hello?", *, tools: tuple[str, ...] = (), **more: Any) -> Request:
    """A request in the shape's own JSON."""
    timeout = more.pop("timeout", 20.0)
    body: dict[str, Any]
    match shape:
        case "openai_chat":
            body = {"messages": [{"role": "user", "content": text}]}
            made = [{"type": "function", "function": {"name": name, "parameters": _SCHEMA}} for name in tools]
        case "openai_responses":
            body = {"input": [{"role": "user", "content": text}]}
            made = [{"type": "function", "name": name, "parameters": _SCHEMA} for name in tools]
        case _:
            body = {"max_tokens": 1000, "messages": [{"role": "user", "content": text}]}
            made = [{"name": name, "input_schema": _SCHEMA} for name in tools]
    if made:
        body["tools"] = made
    return Request(model="test-model", body={**body, **more}, timeout=timeout)


async def events_of(model: Model, asked: Request) -> list[Event]:
    return [event async for event in model.stream(asked)]


def ask(model: Any, asked: Request) -> list[Event]:
    """All events of one request, in an event loop of its own, with the connections closed."""

    async def run() -> list[Event]:
        try:
            return await events_of(model, asked)
        finally:
            await model.close()

    return asyncio.run(run())


def completed(events: list[Event]) -> Completed:
    last = events[-1]
    assert isinstance(last, Completed)
    return last


def words(events: list[Event]) -> str:
    """The text as a reader sees it in the end: what was streamed before a retry is void."""
    said = ""
    for event in events:
        if isinstance(event, Retrying):
            said = ""
        elif isinstance(event, TextDelta):
            said += event.text
    return said


def answered(
    shape: str, asked: Request, reply: Completed, results: dict[str, str], more: str = ""
) -> Request:
    """The next request: the reply sent back as it is, its calls answered, and maybe another message."""
    body = dict(asked.body)
    match shape:
        case "openai_chat":
            after = [
                {"role": "tool", "tool_call_id": call, "content": said} for call, said in results.items()
            ]
            last = [{"role": "user", "content": more}] if more else []
            body["messages"] = [*body["messages"], reply.message, *after, *last]
        case "openai_responses":
            after = [
                {"type": "function_call_output", "call_id": call, "output": said}
                for call, said in results.items()
            ]
            last = [{"role": "user", "content": more}] if more else []
            body["input"] = [*body["input"], *reply.message["output"], *after, *last]
        case _:
            blocks: list[dict[str, Any]] = [
                {"type": "tool_result", "tool_use_id": call, "content": said}
                for call, said in results.items()
            ]
            if more:
                blocks.append({"type": "text", "text": more})
            body["messages"] = [*body["messages"], reply.message, {"role": "user", "content": blocks}]
    return msgspec.structs.replace(asked, body=body)


def calls_of(shape: str, reply: Completed) -> list[tuple[str, str, Any]]:
    """Id, name and arguments of each call, the arguments as they are in the message."""
    message = reply.message
    match shape:
        case "openai_chat":
            found = message.get("tool_calls", [])
            return [(call["id"], call["function"]["name"], call["function"]["arguments"]) for call in found]
        case "openai_responses":
            found = [item for item in message["output"] if item["type"] == "function_call"]
            return [(item["call_id"], item["name"], item["arguments"]) for item in found]
        case _:
            found = [block for block in message["content"] if block["type"] == "tool_use"]
            return [(block["id"], block["name"], block["input"]) for block in found]
