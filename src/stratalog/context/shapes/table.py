"""The shape of each provider's JSON by the name that a model gives it."""

from __future__ import annotations

from typing import Final

from stratalog.context.shapes.anthropic import AnthropicShape
from stratalog.context.shapes.contract import ShapeOf
from stratalog.context.shapes.openai_chat import OpenAIChatShape
from stratalog.context.shapes.openai_responses import OpenAIResponsesShape
from stratalog.models.contract import Shape

SHAPES: Final[dict[Shape, ShapeOf]] = {
    "openai_chat": OpenAIChatShape(),
    "openai_responses": OpenAIResponsesShape(),
    "anthropic": AnthropicShape(),
}
