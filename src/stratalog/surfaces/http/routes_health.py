"""Whether the service runs, whether it may be asked, and what it counts."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from litestar import Request, Response, get
from litestar.openapi.datastructures import ResponseSpec

from stratalog import __version__
from stratalog.surfaces.http.errors import problems
from stratalog.surfaces.http.metrics import CONTENT_TYPE
from stratalog.surfaces.http.service import needs, service_of


class Health(msgspec.Struct, frozen=True):
    """The process answers. `token` says whether it asks for one."""

    version: str
    token: bool
    status: Literal["ok"] = "ok"


class Readiness(msgspec.Struct, frozen=True):
    """Whether the service takes messages: it can read its data directory, and is not about to end."""

    status: Literal["ready", "ending", "failing"]


@get("/health", operation_id="health", tags=["service"], summary="Whether the service runs", security=[{}])
async def health(request: Request[Any, Any, Any]) -> Health:
    return Health(__version__, not service_of(request).settings.dev)


@get(
    "/ready",
    operation_id="ready",
    tags=["service"],
    summary="Whether the service takes messages",
    security=[{}],
    responses={503: ResponseSpec(Readiness, description="Not now", generate_examples=False)},
)
async def ready(request: Request[Any, Any, Any]) -> Response[Readiness]:
    service = service_of(request)
    if service.turns.draining:
        return Response(Readiness("ending"), status_code=503)
    good = await service.serving.front.run(_usable, service.serving.memory.data)
    return Response(Readiness("ready" if good else "failing"), status_code=200 if good else 503)


@get(
    "/metrics",
    operation_id="metrics",
    tags=["service"],
    summary="What the service counts, for Prometheus",
    guards=[needs("admin", "metrics")],
    media_type="text/plain",
    responses=problems(),
)
async def metrics(request: Request[Any, Any, Any]) -> Annotated[Response[bytes], "Prometheus text format"]:
    return Response(service_of(request).metrics.text(), media_type=CONTENT_TYPE)


def _usable(data: Path) -> bool:
    """Whether the directory can be written to; one that is not there yet is made when it is."""
    return not data.exists() or (data.is_dir() and os.access(data, os.R_OK | os.W_OK | os.X_OK))


ROUTES = (health, ready, metrics)
