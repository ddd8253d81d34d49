"""The console's page and its files, which ask for no token: what they show is asked for with one."""

from __future__ import annotations

from typing import Any, Final

from litestar import Request, Response, get
from litestar.exceptions import NotFoundException
from litestar.params import FromPath

from stratalog.surfaces.console import Asset, asset, policy

_KEPT: Final = "no-cache"  # is asked for each time, and answered with 304 as long as it is the same


@get("/console", include_in_schema=False)
async def console_page(request: Request[Any, Any, Any]) -> Response[bytes]:
    return _handed(request, asset(""))


@get("/console/{path:path}", include_in_schema=False)
async def console_file(request: Request[Any, Any, Any], path: FromPath[str]) -> Response[bytes]:
    return _handed(request, asset(path.removeprefix("/")))


ROUTES = (console_page, console_file)


def _handed(request: Request[Any, Any, Any], found: Asset | None) -> Response[bytes]:
    if found is None:
        raise NotFoundException("the console has no such file")
    same = found.etag in request.headers.get("if-none-match", "")
    return Response(
        b"" if same else found.content,
        status_code=304 if same else 200,
        media_type=found.media_type,
        headers={
            "content-security-policy": policy(),
            "cache-control": _KEPT,
            "etag": found.etag,
            "cross-origin-opener-policy": "same-origin",
            "cross-origin-resource-policy": "same-origin",
        },
    )
