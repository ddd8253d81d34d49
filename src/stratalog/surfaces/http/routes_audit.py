"""Who asked the records for what, how it ended, and what was refused. It has no words of anybody, only their
marks."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from litestar import get
from litestar.params import QueryParameter

from stratalog.engine.auditing import AuditLine, audit_page
from stratalog.errors import InvalidInput
from stratalog.surfaces.http.errors import problems
from stratalog.surfaces.http.fields import Cursor, Limit
from stratalog.surfaces.http.queries import strict
from stratalog.surfaces.http.record_views import ScopeView
from stratalog.surfaces.http.service import FromDesk, needs

_Name = Annotated[str | None, QueryParameter(max_length=4096)]
_Time = Annotated[int | None, QueryParameter(ge=0, le=2**53)]


class AuditView(msgspec.Struct, frozen=True, kw_only=True):
    """One call: who asked for what in which scopes, how it ended, what came of it in `counts`. Of what was
    asked, `asked` has lengths and the beginnings of hashes. `token` is the id of the token that asked, "" for
    none. A request that was refused before the records were asked has its route for a `call`, and in `counts`
    how many `times` the like was refused within an hour."""

    at: int
    call: str
    ending: Literal["done", "refused", "failed"]
    environment: str
    user: str
    agent: str
    session: str
    run: str
    roles: list[str]
    scopes: list[ScopeView]
    counts: dict[str, int]
    asked: dict[str, str]
    reason: str
    token: str


class AuditPage(msgspec.Struct, frozen=True, kw_only=True):
    """Lines, the newest first; `cursor` goes on after them, "" at the end. A page may have fewer lines than
    asked for and go on all the same, where few fit the filters."""

    lines: list[AuditView]
    cursor: str = ""


@get(
    "/v1/audit",
    operation_id="listAudit",
    tags=("audit",),
    guards=[needs("admin")],
    summary="What was asked of the tenant's records and what was refused, the newest first",
    responses=problems(),
)
async def list_audit(
    desk: FromDesk,
    call: _Name = None,
    ending: Annotated[Literal["done", "refused", "failed"] | None, QueryParameter()] = None,
    user: _Name = None,
    agent: _Name = None,
    session: _Name = None,
    run: _Name = None,
    environment: _Name = None,
    token: _Name = None,
    since: _Time = None,
    until: _Time = None,
    limit: Limit = 50,
    cursor: Cursor = "",
) -> AuditPage:
    if cursor and not (cursor.isascii() and cursor.isdecimal() and 0 < len(cursor) < 18):
        raise InvalidInput("this place was not given by the audit", hint="begin without a cursor")
    named = {
        "call": call,
        "ending": ending,
        "user": user,
        "agent": agent,
        "session": session,
        "run": run,
        "environment": environment,
        "token": token,
    }
    wanted = [(name, value) for name, value in named.items() if value is not None]

    def fits(line: AuditLine) -> bool:
        return (
            all(getattr(line, name) == value for name, value in wanted)
            and (since is None or line.at >= since)
            and (until is None or line.at < until)
        )

    page = await desk.run(audit_page, desk.front.sync, fits, limit=limit, before=int(cursor or 0))
    return AuditPage(lines=[_view(each) for each in page.lines], cursor=str(page.next or ""))


ROUTES = strict(list_audit)


def _view(line: AuditLine) -> AuditView:
    told = msgspec.structs.asdict(line)
    told["scopes"] = [ScopeView(each.kind, each.id) for each in line.scopes]
    return AuditView(**(told | {"roles": list(line.roles)}))
