"""The shape of each provider's JSON by the name that a model gives it, and the one that a model wants."""

from __future__ import annotations

from typing import Final

from stratalog.context.shapes.anthropic import AnthropicShape
from stratalog.context.shapes.contract import ShapeOf
from stratalog.context.shapes.openai_chat import OpenAIChatShape
from stratalog.context.shapes.openai_responses import OpenAIResponsesShape
from stratalog.models.contract import Model, Shape

SHAPES: Final[dict[Shape, ShapeOf]] = {
    "openai_chat": OpenAIChatShape(),
    "openai_responses": OpenAIResponsesShape(),
    "anthropic": AnthropicShape(),
}
_CHAT_WITH_REASONING: Final = OpenAIChatShape(sends_reasoning=True)


def shape_of(model: Model) -> ShapeOf:
    """The shape for a model's requests. One that has an attribute `sends_reasoning` which is true, as
    `OpenAIChat` may, is sent its own reasoning back."""
    if model.shape == "openai_chat" and getattr(model, "sends_reasoning", False):
        return _CHAT_WITH_REASONING
    return SHAPES[model.shape]
