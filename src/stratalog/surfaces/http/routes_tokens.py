"""Tokens of the admin's own tenant."""

from __future__ import annotations

from typing import Annotated

import msgspec
from litestar import Response, delete, get, post
from litestar.params import JSONBody

from stratalog.surfaces.access.principals import Role
from stratalog.surfaces.access.tokens import Made, Token
from stratalog.surfaces.http.asking import changing
from stratalog.surfaces.http.errors import problems
from stratalog.surfaces.http.fields import Cursor, Limit, TokenId
from stratalog.surfaces.http.queries import strict
from stratalog.surfaces.http.service import FromDesk, needs

_PATH = "/v1/tokens"
_TAGS = ("tokens",)
_GUARDS = (needs("admin"),)


class NewToken(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A token to make. It holds for so many days, 0 until it is revoked."""

    roles: Annotated[list[Role], msgspec.Meta(min_length=1, max_length=4)]
    user: Annotated[str, msgspec.Meta(max_length=1024)] = ""
    name: Annotated[str, msgspec.Meta(max_length=200)] = ""
    days: Annotated[int, msgspec.Meta(ge=0, le=36_500)] = 90


class TokenView(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a token; times are 0 for none. `token` is its text, told once, when it is made."""

    id: str
    roles: list[Role]
    user: str
    name: str
    created_at: int
    expires_at: int
    revoked_at: int
    used_at: int
    token: str = ""


class TokenList(msgspec.Struct, frozen=True, kw_only=True):
    """Tokens of the tenant, the newest first; `cursor` goes on after them, "" at the end."""

    tokens: list[TokenView]
    cursor: str = ""


@get(
    _PATH,
    operation_id="listTokens",
    tags=_TAGS,
    guards=_GUARDS,
    summary="The tenant's tokens, without their secrets",
    responses=problems(),
)
async def list_tokens(desk: FromDesk, limit: Limit = 50, cursor: Cursor = "") -> TokenList:
    found = await desk.run(desk.service.tokens.page, desk.asker.tenant, limit=limit, after=cursor)
    return TokenList(tokens=[_view(each) for each in found.tokens], cursor=found.next)


@post(
    _PATH,
    operation_id="makeToken",
    tags=_TAGS,
    guards=_GUARDS,
    summary="Make a token of the tenant",
    responses=problems(),
)
async def make_token(desk: FromDesk, data: JSONBody[NewToken]) -> Response[TokenView]:
    def make() -> Made:
        with changing(desk, "make_token", for_user=data.user, for_roles=" ".join(data.roles)):
            return desk.service.tokens.make(
                desk.asker.tenant, roles=data.roles, user=data.user, name=data.name, days=data.days
            )

    made = await desk.run(make)
    return Response(msgspec.structs.replace(_view(made.token), token=made.text), status_code=201)


@delete(
    _PATH + "/{token:str}",
    operation_id="revokeToken",
    tags=_TAGS,
    guards=_GUARDS,
    summary="End a token of the tenant at once",
    status_code=200,
    responses=problems(404),
)
async def revoke_token(desk: FromDesk, token: TokenId) -> TokenView:
    def revoked() -> Token:
        with changing(desk, "revoke_token", id=token):
            return desk.service.tokens.revoke(desk.asker.tenant, token)

    return _view(await desk.run(revoked))


ROUTES = strict(list_tokens, make_token, revoke_token)


def _view(token: Token) -> TokenView:
    return TokenView(
        id=token.id,
        roles=list(token.roles),
        user=token.user,
        name=token.name,
        created_at=token.created_at,
        expires_at=token.expires_at,
        revoked_at=token.revoked_at,
        used_at=token.used_at,
    )
