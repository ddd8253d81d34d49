"""Records as a bundle: JSON lines that are taken out and put back."""

from __future__ import annotations

from io import BytesIO
from typing import Annotated, Any

import msgspec
from litestar import Request, get, post
from litestar.openapi.datastructures import ResponseSpec
from litestar.params import QueryParameter, RawBody
from litestar.response import Stream as Streamed

from stratalog.errors import AccessDenied
from stratalog.surfaces.http.asking import ASKING, FromAsking, ScopeNames
from stratalog.surfaces.http.bodies import body_of, kind_of
from stratalog.surfaces.http.errors import problems
from stratalog.surfaces.http.queries import strict
from stratalog.surfaces.http.streaming import in_batches

_KIND = "application/x-ndjson"
_TAKEN = (_KIND, "application/octet-stream")
_TAGS = ("memory",)


class ImportedView(msgspec.Struct, frozen=True, kw_only=True):
    """How the records of a bundle ended. `denied` are those that who asks may not write, or of another
    environment; `refused` those that were forgotten here since. `complete`: the bundle has its end, with the
    counts that it tells."""

    stored: int
    merged: int
    conflict: int
    unchanged: int
    refused: int
    denied: int
    tombstones: int
    complete: bool


@get(
    "/v1/memory/export",
    operation_id="exportRecords",
    tags=_TAGS,
    summary="Records of every status as a bundle",
    media_type=_KIND,
    responses=problems(404)
    | {200: ResponseSpec(str, description="JSON lines", media_type=_KIND, generate_examples=False)},
)
async def export_records(
    asking: FromAsking,
    named: ScopeNames = None,
    everyone: Annotated[
        bool, QueryParameter(description="Every scope of the environment; for who sees all of the tenant.")
    ] = False,
) -> Streamed:
    scopes = None if everyone and not named else asking.scopes(named)
    lines = await asking.desk.run(asking.service.export, asking.who, scopes=scopes, everyone=everyone)
    return Streamed(in_batches(asking.desk, lines), media_type=_KIND)


@post(
    "/v1/memory/import",
    operation_id="importRecords",
    tags=_TAGS,
    summary="Take in a bundle; the same again changes nothing",
    status_code=200,
    operation_class=body_of(_TAKEN, "What an export gave, whole and in its order."),
    responses=problems(404),
)
async def import_records(request: Request[Any, Any, Any], asking: FromAsking, body: RawBody) -> ImportedView:
    kind_of(request, _TAKEN)
    if asking.confined and asking.who.agent:
        raise AccessDenied("a bundle is taken in for a user alone", hint="leave out `session`")
    done = await asking.desk.run(lambda: asking.service.import_(asking.who, BytesIO(body)))
    return ImportedView(**msgspec.structs.asdict(done))


ROUTES = strict(export_records, import_records, dependencies=ASKING)
