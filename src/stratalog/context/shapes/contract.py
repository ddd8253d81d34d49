"""What every shape takes and gives: a prompt in our words, a provider's JSON, and the way back."""

from __future__ import annotations

from typing import Any, Protocol

import msgspec

from stratalog.context.view import Seen
from stratalog.types import Assistant, ToolCall


class Tool(msgspec.Struct, frozen=True):
    """A tool that the model may call; `parameters` is a JSON Schema of type object."""

    name: str
    description: str
    parameters: dict[str, Any]


class Prompt(msgspec.Struct, frozen=True, kw_only=True):
    """What a model is to be sent, in order: `system` blocks, the `summary` of what is folded, the `entries`.

    `system` and `summary` change only at a compaction, so that a provider's prompt cache holds their prefix.
    """

    system: tuple[str, ...] = ()
    summary: str = ""
    entries: tuple[Seen, ...] = ()
    tools: tuple[Tool, ...] = ()
    max_output: int = 0


class ShapeOf(Protocol):
    """One provider's JSON. Both directions are pure."""

    def body(self, prompt: Prompt) -> dict[str, Any]:
        """The request's JSON without `model` and `stream`; strict providers accept it."""
        ...

    def entries(self, message: dict[str, Any], response: str) -> list[Assistant | ToolCall]:
        """The reply (`Completed.message`) as entries, `response` their common `response` id."""
        ...
