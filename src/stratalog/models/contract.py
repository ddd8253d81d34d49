"""What a language model is to Stratalog: one method that streams events.

A request carries the provider's own JSON, made by `context.shapes` for the shape that the model names, so
that no model adapter knows what a turn is and no shape knows how to reach a provider. The last event of a
stream is `Completed` with the reply in the provider's own JSON; the shape turns it back into entries. A
stream that is closed early, or whose task is cancelled, ends the request on the wire.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any, Literal, Protocol, TypeAlias

import msgspec

from stratalog.types import Usage

Shape = Literal["openai_chat", "openai_responses", "anthropic"]
# How far what a model is sent goes: not beyond this machine, not beyond the premises, or anywhere.
Reach = Literal["machine", "premises", "world"]


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """`body` is the provider's JSON without `model` and `stream`; `timeout` is seconds without any event."""

    model: str
    body: dict[str, Any]
    timeout: float = 120.0


class TextDelta(msgspec.Struct, frozen=True):
    """Some more of the reply's text."""

    text: str


class ReasoningDelta(msgspec.Struct, frozen=True):
    """Some more of what the model thinks."""

    text: str


class Retrying(msgspec.Struct, frozen=True):
    """A passing fault: the request is made again after `pause` seconds. What was streamed before is void."""

    attempt: int
    pause: float
    reason: str


class Completed(msgspec.Struct, frozen=True, kw_only=True):
    """The whole reply: `message` in the provider's own JSON, why it stopped, and what it cost.

    `message` is the assistant's message for `openai_chat`, `{"output": [items]}` for `openai_responses`,
    and `{"role", "content"}` for `anthropic`.

    `stop` is `end`, `tools` (it wants tools called), `length` (cut at the output limit), `refusal`, `other`.
    """

    message: dict[str, Any]
    stop: Literal["end", "tools", "length", "refusal", "other"]
    model: str
    usage: Usage | None = None
    response_id: str = ""


Event: TypeAlias = TextDelta | ReasoningDelta | Retrying | Completed


class Model(Protocol):
    """A model, or a family of them behind one endpoint."""

    @property
    def shape(self) -> Shape:
        """The provider's JSON that it takes and gives."""
        ...

    def stream(self, request: Request) -> AsyncGenerator[Event, None]:
        """The reply as it comes, `Completed` last.

        Raises `ModelUnavailable` after bounded retries, `ModelRejected`, `ModelInputTooLong`,
        `ModelReplyUnusable` (no `Completed` could be made).
        """
        ...
