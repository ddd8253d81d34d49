"""The three APIs by their shape, and their rules without any server."""

from __future__ import annotations

from typing import Any

from stratalog.models.contract import Shape
from stratalog.testing.model_server.chat import Chat
from stratalog.testing.model_server.dialect import Dialect, Memory, Refused, Strictness
from stratalog.testing.model_server.messages import Messages
from stratalog.testing.model_server.responses import Responses

DIALECTS: dict[Shape, Dialect] = {
    "openai_chat": Chat(),
    "openai_responses": Responses(),
    "anthropic": Messages(),
}


def refusal_of(shape: Shape, body: dict[str, Any], strict: Strictness | None = None) -> str:
    """Why the API would refuse a request with this body, or "" when it would not. A model that is not named
    is no reason, so that the body of a `models.contract.Request` can be given as it is."""
    try:
        headers = {"anthropic-version": "2023-06-01"}
        DIALECTS[shape].check({"model": "any", **body}, headers, strict or Strictness(), Memory())
    except Refused as refused:
        return refused.message
    return ""
