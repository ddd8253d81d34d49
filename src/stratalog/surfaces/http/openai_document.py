"""What the document of the service says of the routes for OpenAI's clients, beyond what litestar finds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, cast

from litestar.openapi.datastructures import ResponseSpec
from litestar.openapi.spec import (
    OpenAPIHeader,
    OpenAPIMediaType,
    OpenAPIResponse,
    OpenAPIType,
    Operation,
    Parameter,
    RequestBody,
    Schema,
)

from stratalog.surfaces.access.wire import USER_HEADER
from stratalog.surfaces.http.openai_replies import ChatCompletion, ChatCompletionChunk
from stratalog.surfaces.http.openai_shapes import ChatRequest
from stratalog.surfaces.http.streaming import EVENTS

JSON: Final = "application/json"
SESSION: Final = "x-stratalog-session"
USER: Final = "x-stratalog-user"
AGENT: Final = "x-stratalog-agent"
TOOLS: Final = "x-stratalog-tools"
TURN: Final = "x-stratalog-turn"
LEFT_OUT: Final = "x-stratalog-ignored"
KEY: Final = "idempotency-key"
AGAIN: Final = "x-stainless-retry-count"

_ASKED: Final = {
    SESSION: "The chat of the session; else the conversation itself tells it. Percent-encoded UTF-8.",
    USER: "The user for whom is asked, where the token may name one. Percent-encoded UTF-8; "
    f"`{USER_HEADER}` may be sent instead.",
    AGENT: "The agent that answers, where `model` names none. Percent-encoded UTF-8.",
    TOOLS: "`memory`: the model is offered the tools of its memory too.",
    KEY: "The same key within a day is the same request; at most 200 characters.",
    AGAIN: "How often the same request was sent before, as OpenAI's clients count.",
}
_TOLD: Final = {
    SESSION: "The chat of the session. Percent-encoded UTF-8.",
    TURN: "The id of the turn.",
    LEFT_OUT: "The parameters that were left out.",
}


@dataclass
class Completes(Operation):
    """The `operation_class` of the completions. `COMPLETION` names for litestar what is sent and answered, as
    one: here each gets its place."""

    def __post_init__(self) -> None:
        response = (self.responses or {}).get("200")
        assert isinstance(response, OpenAPIResponse)
        assert response.content is not None
        named = response.content[JSON].schema
        assert isinstance(named, Schema)
        assert named.one_of is not None
        sent, whole, chunk = named.one_of
        events = Schema(
            type=OpenAPIType.STRING,
            description="Each event is `data: ` and a chunk, the last `data: [DONE]`. Where the reply fails "
            "under way the last is `data: ` and an error. Lines that begin with `:` say nothing.",
            content_media_type=JSON,
            content_schema=chunk,
        )
        response.content = {JSON: OpenAPIMediaType(schema=whole), EVENTS: OpenAPIMediaType(schema=events)}
        response.headers = {name: _header(words) for name, words in _TOLD.items()}
        self.request_body = RequestBody(required=True, content={JSON: OpenAPIMediaType(schema=sent)})
        self.parameters = [_parameter(name, words) for name, words in _ASKED.items()]


@dataclass
class Lists(Operation):
    """The `operation_class` of the models."""

    def __post_init__(self) -> None:
        self.parameters = [*(self.parameters or ()), _parameter(USER, _ASKED[USER])]


COMPLETION: Final = {
    200: ResponseSpec(
        cast("Any", ChatRequest | ChatCompletion | ChatCompletionChunk),
        description="The reply; with `stream` as it comes",
        generate_examples=False,
    )
}


def _parameter(name: str, description: str) -> Parameter:
    schema = Schema(type=OpenAPIType.STRING)
    return Parameter(name=name, param_in="header", description=description, required=False, schema=schema)


def _header(description: str) -> OpenAPIHeader:
    return OpenAPIHeader(description=description, required=False, schema=Schema(type=OpenAPIType.STRING))
