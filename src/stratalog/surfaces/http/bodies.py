"""Bodies: what the document says of those that are no JSON, and what is answered where one cannot be read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from litestar import Request, Response
from litestar.openapi.spec import OpenAPIMediaType, Operation, RequestBody, Schema

from stratalog.errors import InvalidInput
from stratalog.surfaces.http.errors import on_defect, on_stratalog_error


def body_of(kinds: Sequence[str], description: str) -> type[Operation]:
    """The `operation_class` of a route whose `body: RawBody` is of one of these media types."""

    @dataclass
    class WithBody(Operation):
        body: ClassVar[RequestBody] = RequestBody(
            description=description,
            required=True,
            content={kind: OpenAPIMediaType(schema=Schema(content_media_type=kind)) for kind in kinds},
        )

        def __post_init__(self) -> None:
            self.request_body = self.body

    return WithBody


def kind_of(request: Request[Any, Any, Any], kinds: Sequence[str]) -> str:
    """The media type of the body, without its parameters. Raises `InvalidInput` for another than these."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind not in kinds:
        raise InvalidInput(
            "the body is of a kind that is not taken here",
            kind=ascii(kind)[:80],
            hint=f"send {', '.join(kinds)}",
        )
    return kind


def on_recursion(request: Request[Any, Any, Any], error: RecursionError) -> Response[Any]:
    """JSON that is nested deeper than it can be read is the request's fault; all else that goes too deep is
    ours."""
    if "deserializing" not in str(error):  # what msgspec says of it, which has no class of its own for that
        return on_defect(request, error)
    return on_stratalog_error(request, InvalidInput("the JSON is nested too deeply"))
