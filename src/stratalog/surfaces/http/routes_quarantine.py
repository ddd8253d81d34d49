"""Texts that the gate kept out of prompts, until somebody has looked at them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

import msgspec
from litestar import get, post
from litestar.params import PathParameter, QueryParameter

from stratalog.engine.holding import Held, Quarantine, State, quarantine_of
from stratalog.surfaces.http.asking import changing
from stratalog.surfaces.http.errors import problems
from stratalog.surfaces.http.fields import Cursor, Limit
from stratalog.surfaces.http.queries import strict
from stratalog.surfaces.http.service import Desk, FromDesk, needs

_PATH = "/v1/quarantine"
_ONE = _PATH + "/{held:str}"
_TAGS = ("quarantine",)
_GUARDS = (needs("admin"),)

HeldId = Annotated[str, PathParameter(description="The id of a text in quarantine.", max_length=128)]


class HeldView(msgspec.Struct, frozen=True, kw_only=True):
    """A text that is held: from where, why, how often it was met, whose it is, and who decided what of it
    (0 and "" while it waits). Its text is without secrets, and what does not show in it is spelt out."""

    id: str
    at: int
    origin: str
    source: str
    level: int
    reasons: list[str]
    text: str
    state: State
    seen: int
    session: str
    user: str
    environment: str
    decided_at: int
    decided_by: str


class HeldPage(msgspec.Struct, frozen=True, kw_only=True):
    """What waits, then what was decided, the newest first; `cursor` goes on after them, "" at the end.
    `counts` are those of all, by state."""

    held: list[HeldView]
    cursor: str = ""
    counts: dict[str, int]


@get(
    _PATH,
    operation_id="listQuarantine",
    tags=_TAGS,
    guards=_GUARDS,
    summary="Texts that are held",
    responses=problems(),
)
async def list_quarantine(
    desk: FromDesk,
    of_state: Annotated[State | None, QueryParameter(description="Only in this state.", name="state")] = None,
    limit: Limit = 50,
    cursor: Cursor = "",
) -> HeldPage:
    def page() -> HeldPage:
        with quarantine_of(desk.front.sync) as quarantine:
            found = quarantine.list(state=of_state, limit=limit, after=cursor)
            counts = {str(name): number for name, number in quarantine.counts().items()}
        return HeldPage(held=[_view(each) for each in found.held], cursor=found.next, counts=counts)

    return await desk.run(page)


@get(
    _ONE,
    operation_id="getQuarantined",
    tags=_TAGS,
    guards=_GUARDS,
    summary="One text that is held",
    responses=problems(404),
)
async def get_held(desk: FromDesk, held: HeldId) -> HeldView:
    def found() -> HeldView:
        with quarantine_of(desk.front.sync) as quarantine:
            return _view(quarantine.get(held))

    return await desk.run(found)


@post(
    _ONE + "/release",
    operation_id="release",
    tags=_TAGS,
    guards=_GUARDS,
    summary="Let a text enter prompts from now on",
    status_code=200,
    responses=problems(404),
)
async def release(desk: FromDesk, held: HeldId) -> HeldView:
    return await _done(desk, lambda quarantine: quarantine.release(held, by=_by(desk)), "release", held)


@post(
    _ONE + "/reject",
    operation_id="reject",
    tags=_TAGS,
    guards=_GUARDS,
    summary="Keep a text out for good",
    status_code=200,
    responses=problems(404),
)
async def reject(desk: FromDesk, held: HeldId) -> HeldView:
    return await _done(desk, lambda quarantine: quarantine.reject(held, by=_by(desk)), "reject", held)


ROUTES = strict(list_quarantine, get_held, release, reject)


async def _done(desk: Desk, act: Callable[[Quarantine], Held], call: str, id: str) -> HeldView:
    def done() -> HeldView:
        with changing(desk, call, id=id), quarantine_of(desk.front.sync) as quarantine:
            return _view(act(quarantine))

    return await desk.run(done)


def _by(desk: Desk) -> str:
    """Who decides: what the token is called, else whose it is, else its id."""
    who = desk.asker.principal
    return who.name or who.user or who.id


def _view(held: Held) -> HeldView:
    return HeldView(**(msgspec.structs.asdict(held) | {"reasons": list(held.reasons)}))
