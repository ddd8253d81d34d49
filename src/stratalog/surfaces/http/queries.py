"""What a request may have: in its query the fields of its route and no others, so that no misspelt filter is
ignored, and in its body JSON that can be read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from litestar import Router
from litestar.connection import ASGIConnection
from litestar.di import Provide
from litestar.exceptions import ValidationException
from litestar.handlers import BaseRouteHandler
from litestar.params import QueryParameter
from litestar.typing import FieldDefinition

from stratalog.surfaces.http.bodies import on_recursion


def strict(
    *routes: BaseRouteHandler, dependencies: Mapping[str, Provide] | None = None
) -> tuple[Router, ...]:
    """The routes, which refuse queries with fields that they do not have and JSON that is nested too deeply,
    with dependencies of their own."""
    return (
        Router(
            "/",
            route_handlers=routes,
            guards=[only_its_own],
            dependencies=dependencies,
            exception_handlers={RecursionError: on_recursion},
        ),
    )


async def only_its_own(connection: ASGIConnection[Any, Any, Any, Any], handler: BaseRouteHandler) -> None:
    """Refuses a query with fields that are none of the route's. A guard, and asynchronous, for litestar runs
    others in a thread. Raises `ValidationException`."""
    if not connection.scope.get("query_string"):
        return
    known = set(_names(handler))
    unknown = sorted(set(connection.query_params) - known)
    if unknown:
        reason = f"there is no such field; there are {', '.join(sorted(known)) or 'none'}"
        raise ValidationException(
            "the query has fields that this route has not",
            extra=[{"key": name[:100], "source": "query", "message": reason} for name in unknown[:20]],
        )


def _names(handler: BaseRouteHandler) -> Iterator[str]:
    """The fields of the route and of what it depends on."""
    yield from _of(handler.parsed_fn_signature.parameters)
    for provided in handler.resolve_dependencies().values():
        yield from _of(provided.parsed_fn_signature.parameters)


def _of(fields: dict[str, FieldDefinition]) -> Iterator[str]:
    for name, field in fields.items():
        if isinstance(field.kwarg_definition, QueryParameter):
            yield field.kwarg_definition.name or name
