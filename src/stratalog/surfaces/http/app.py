"""The application: its routes, its OpenAPI document at `/schema`, how it begins and ends."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final, cast

from litestar import Litestar
from litestar.config.cors import CORSConfig
from litestar.di import Provide
from litestar.exceptions import HTTPException
from litestar.openapi import OpenAPIConfig
from litestar.openapi.plugins import JsonRenderPlugin
from litestar.openapi.spec import Components, SecurityScheme
from litestar.types import ControllerRouterHandler, Scope

from stratalog import __version__
from stratalog.errors import StratalogError
from stratalog.surfaces.access.principals import Principal
from stratalog.surfaces.access.wire import USER_HEADER
from stratalog.surfaces.http import (
    routes_about,
    routes_audit,
    routes_bundles,
    routes_chat,
    routes_console,
    routes_documents,
    routes_health,
    routes_jobs,
    routes_memory,
    routes_openai,
    routes_profiles,
    routes_purges,
    routes_quarantine,
    routes_search,
    routes_sessions,
    routes_tokens,
)
from stratalog.surfaces.http.bodies import on_recursion
from stratalog.surfaces.http.edge import App, Edge
from stratalog.surfaces.http.edge import Scope as EdgeScope
from stratalog.surfaces.http.errors import on_defect, on_http_exception, on_stratalog_error
from stratalog.surfaces.http.metrics import Metrics
from stratalog.surfaces.http.queries import only_its_own
from stratalog.surfaces.http.service import Service, desk_of
from stratalog.surfaces.http.settings import HttpSettings
from stratalog.surfaces.http.tracing import Tracing, tracing

ROUTES: Final[tuple[ControllerRouterHandler, ...]] = (
    *routes_health.ROUTES,
    *routes_about.ROUTES,
    *routes_sessions.ROUTES,
    *routes_chat.ROUTES,
    *routes_tokens.ROUTES,
    *routes_memory.ROUTES,
    *routes_openai.ROUTES,
    *routes_bundles.ROUTES,
    *routes_search.ROUTES,
    *routes_profiles.ROUTES,
    *routes_documents.ROUTES,
    *routes_jobs.ROUTES,
    *routes_audit.ROUTES,
    *routes_quarantine.ROUTES,
    *routes_purges.ROUTES,
    *routes_console.ROUTES,
)

_ABOUT: Final = f"""\
Sessions, turns and memory of agents. A token is sent as `Authorization: Bearer strata_…`; its tenant is the
only one that a request reaches. Who serves several users (roles `agent` and `admin`) names one with
`{USER_HEADER}`. Every error is `application/problem+json`, but on the routes for OpenAI's clients, where it
is in their form. Times are milliseconds UTC."""


def create_app(data: Path, settings: HttpSettings, *, traces: Tracing | None = None) -> Litestar:
    """The application over a data directory. It opens the directory when it begins, and closes it when it
    ends, after the turns that run, within the grace of the settings."""
    metrics, spans = Metrics(), traces or tracing()

    @asynccontextmanager
    async def served(app: Litestar) -> AsyncIterator[None]:
        service = app.state.service = Service(data, settings, metrics, spans)
        recovering = asyncio.create_task(service.turns.recover())
        try:
            yield
        finally:
            await service.close()
            await asyncio.wait({recovering})

    async def recognise(token: str, scope: EdgeScope) -> Principal | None:
        return await cast("Service", app.state.service).recognise(token, scope)

    async def denied(error: Exception, scope: Scope) -> None:
        if isinstance(error, StratalogError):
            await cast("Service", app.state.service).denied(error, scope)

    app = Litestar(
        ROUTES,
        lifespan=[served],
        dependencies={"desk": Provide(desk_of, sync_to_thread=False)},
        guards=[only_its_own],
        after_exception=[denied],
        exception_handlers={
            StratalogError: on_stratalog_error,
            HTTPException: on_http_exception,
            RecursionError: on_recursion,
            Exception: on_defect,
        },
        request_max_body_size=settings.body,
        openapi_config=_document(),
        cors_config=_cors(settings),
        logging_config=None,
        debug=False,
    )
    app.asgi_handler = cast("Any", Edge(cast("App", app.asgi_handler), settings, recognise, metrics, spans))
    return app


def _document() -> OpenAPIConfig:
    return OpenAPIConfig(
        title="Stratalog",
        version=__version__,
        description=_ABOUT,
        path="/schema",
        render_plugins=[JsonRenderPlugin()],
        use_handler_docstrings=True,
        security=[{"token": []}],
        components=Components(
            security_schemes={
                "token": SecurityScheme(
                    type="http", scheme="bearer", description="Made by `stratalog token make`."
                )
            }
        ),
    )


def _cors(settings: HttpSettings) -> CORSConfig | None:
    """What pages of other origins may ask; None for nothing."""
    if not settings.origins:
        return None
    return CORSConfig(
        allow_origins=list(settings.origins),
        allow_methods=["GET", "POST", "PUT", "PATCH", "DELETE"],
        allow_headers=[
            *("authorization", "content-type", "idempotency-key", "last-event-id", USER_HEADER),
            *routes_openai.HEADERS,
        ],
        expose_headers=["location", "retry-after", "x-request-id", *routes_openai.TOLD],
        max_age=600,
    )
