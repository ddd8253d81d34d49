"""Destroying all that somebody or something has, in every store: what it would be, the receipt, and a purge
that was cut short. The receipts of earlier purges are in the audit."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from litestar import get, post
from litestar.params import JSONBody

from stratalog.engine.purging import PurgeReceipt, purge, resume_purges, unfinished
from stratalog.engine.remembering import ADMIN, PRODUCTION, Selector
from stratalog.surfaces.http.asking import changing, own_key
from stratalog.surfaces.http.errors import problems
from stratalog.surfaces.http.queries import strict
from stratalog.surfaces.http.service import Desk, FromDesk, needs

_PATH = "/v1/purges"
_TAGS = ("purges",)
_GUARDS = (needs("admin"),)


class Target(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What to purge: a user, session, agent or run by its `id`; the environment; or the tenant, in all its
    environments. The last two have no id."""

    kind: Literal["tenant", "environment", "user", "session", "agent", "run"]
    id: Annotated[str, msgspec.Meta(max_length=4096)] = ""


class NewPurge(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A purge, in this environment. Without `confirm` nothing is destroyed, and the answer is what would
    be."""

    target: Target
    environment: Annotated[str, msgspec.Meta(min_length=1, max_length=1024)] = PRODUCTION
    confirm: bool = False


class StoreView(msgspec.Struct, frozen=True, kw_only=True):
    """The rows of each kind in one store, before and after."""

    store: str
    before: dict[str, int]
    after: dict[str, int]


class ReceiptView(msgspec.Struct, frozen=True, kw_only=True):
    """What a purge destroyed, or, as a `dry_run`, would have.

    `unsupported` is what a store cannot promise. `kept` are lines of pages that a person edited and that may
    still say it; `shared` sessions that are others' too, `forks` those that began with the history of a
    purged one, `unread` what cannot be read: none of these was purged. `resumed`: it was cut short before.
    """

    tenant: str
    environment: str
    target: Target
    dry_run: bool
    at: int
    stores: list[StoreView]
    unsupported: list[str]
    kept: list[str]
    shared: list[str]
    forks: list[str]
    unread: list[str]
    resumed: bool


class Unfinished(msgspec.Struct, frozen=True, kw_only=True):
    """The purge that is under way, or was cut short; null for none."""

    target: Target | None
    environment: str = ""
    at: int = 0


class Receipts(msgspec.Struct, frozen=True):
    """The receipt of the purge that was finished now; none where there was none."""

    receipts: list[ReceiptView]


@post(
    _PATH,
    operation_id="purge",
    tags=_TAGS,
    guards=_GUARDS,
    summary="What a purge would destroy, or, confirmed, did",
    status_code=200,
    responses=problems(404),
)
async def make_purge(desk: FromDesk, data: JSONBody[NewPurge]) -> ReceiptView:
    selector = _selector(desk, data.target)

    def done() -> PurgeReceipt:
        records = desk.tenancy.records
        token = desk.asker.principal.id
        who = records.caller(environment=data.environment, roles=(ADMIN,), token=token)
        if not data.confirm:
            return purge(desk.front.sync, records, who, selector, dry_run=True)
        # The purge has its own line, with what it came to; of which target that was, it does not tell.
        target = f"{selector.kind}:{selector.id}"
        with changing(desk, "confirm_purge", environment=data.environment, target=target):
            return purge(desk.front.sync, records, who, selector)

    return _view(await desk.run(done))


@get(
    _PATH + "/unfinished",
    operation_id="getUnfinishedPurge",
    tags=_TAGS,
    guards=_GUARDS,
    summary="The purge that is under way, or was cut short",
    responses=problems(),
)
async def get_unfinished(desk: FromDesk) -> Unfinished:
    intent = await desk.run(unfinished, desk.front.sync)
    if intent is None:
        return Unfinished(target=None)
    selector = intent.plan.selector
    target = Target(selector.kind, selector.id)
    return Unfinished(target=target, environment=intent.caller.environment, at=intent.at)


@post(
    _PATH + "/resume",
    operation_id="resumePurge",
    tags=_TAGS,
    guards=_GUARDS,
    summary="Finish a purge that was cut short",
    status_code=200,
    responses=problems(),
)
async def resume(desk: FromDesk) -> Receipts:
    def resumed() -> list[PurgeReceipt]:
        with changing(desk, "resume_purge"):
            return resume_purges(desk.front.sync, desk.tenancy.records)

    found = await desk.run(resumed)
    return Receipts([_view(each) for each in found])


ROUTES = strict(make_purge, get_unfinished, resume)


def _selector(desk: Desk, target: Target) -> Selector:
    """What is meant. Raises `NotFound` for a session of another tenant, and `InvalidKey`."""
    if target.kind != "session" or not target.id:
        return Selector(target.kind, target.id)
    return Selector("session", str(own_key(target.id, desk.asker.tenant)))


def _view(receipt: PurgeReceipt) -> ReceiptView:
    return ReceiptView(
        tenant=receipt.tenant,
        environment=receipt.environment,
        target=Target(receipt.selector.kind, receipt.selector.id),
        dry_run=receipt.dry_run,
        at=receipt.at,
        stores=[StoreView(**msgspec.structs.asdict(each)) for each in receipt.stores],
        unsupported=list(receipt.unsupported),
        kept=list(receipt.kept),
        shared=list(receipt.shared),
        forks=list(receipt.forks),
        unread=list(receipt.unread),
        resumed=receipt.resumed,
    )
