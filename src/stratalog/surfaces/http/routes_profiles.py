"""MEMORY.md of agents and USER.md of users: listed, read, edited, undone. A user has its own page alone; the
pages of agents are for the roles `agent` and `admin`."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Annotated, Literal

import msgspec
from litestar import get, post, put
from litestar.params import JSONBody, PathParameter, QueryParameter

from stratalog.engine import serving_pages as pages
from stratalog.engine.remembering import PRODUCTION, Scope
from stratalog.engine.serving_pages import Page, PageOf
from stratalog.errors import AccessDenied, InvalidInput
from stratalog.surfaces.http.asking import Environment, changing
from stratalog.surfaces.http.errors import problems
from stratalog.surfaces.http.fields import Cursor, Limit
from stratalog.surfaces.http.queries import strict
from stratalog.surfaces.http.service import Desk, FromDesk

_PATH = "/v1/profiles"
_ONE = _PATH + "/{kind:str}/{owner:str}"
_TAGS = ("profiles",)

Kind = Annotated[Literal["user", "agent"], PathParameter(description="Whose page: a user's or an agent's.")]
Owner = Annotated[str, PathParameter(description="The user, or the agent.", max_length=1024)]


class ProfileItem(msgspec.Struct, frozen=True, kw_only=True):
    """A page that there is."""

    kind: Literal["user", "agent"]
    id: str
    environment: str


class ProfilePage(msgspec.Struct, frozen=True, kw_only=True):
    """Pages by kind, id and environment; `cursor` goes on after them, "" at the end. `unnamed` is how many
    more there are whose owners have ids too long to be listed."""

    profiles: list[ProfileItem]
    cursor: str = ""
    unnamed: int = 0


class ProfileView(msgspec.Struct, frozen=True, kw_only=True):
    """A page. `text` is what is edited, with the comments that say whence each line is; `shown` is the page
    for a reader. `version` is what an edit must name. `there`: there is a page; else it is empty."""

    kind: Literal["user", "agent"]
    id: str
    environment: str
    text: str
    shown: str
    version: str
    there: bool


class ProfileEdit(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the page is to say instead, and the version that was read."""

    text: Annotated[str, msgspec.Meta(max_length=1_000_000)]
    version: Annotated[str, msgspec.Meta(min_length=1, max_length=64)]


class ProfileVersion(msgspec.Struct, frozen=True, kw_only=True):
    """What the page said until it was replaced."""

    replaced_at: int
    text: str


class ProfileVersions(msgspec.Struct, frozen=True):
    """The versions that are kept, at most 20, the newest first."""

    versions: list[ProfileVersion]


@get(_PATH, operation_id="listProfiles", tags=_TAGS, summary="The pages in sight", responses=problems())
async def list_profiles(
    desk: FromDesk,
    kind: Annotated[Literal["user", "agent"] | None, QueryParameter(description="Only of these.")] = None,
    limit: Limit = 50,
    cursor: Cursor = "",
) -> ProfilePage:
    after = _opened(cursor)
    found = await desk.run(pages.pages, desk.front.sync, user=desk.asker.user, agents=not desk.asker.confined)
    seen = [each for each in found.pages if _may(desk, each) and kind in (None, each.scope.kind)]
    rest = [each for each in seen if after is None or _place(each) > after]
    return ProfilePage(
        profiles=[
            ProfileItem(kind=_kind(each), id=each.scope.id, environment=each.environment)
            for each in rest[:limit]
        ],
        cursor=msgspec.json.encode(_place(rest[limit - 1])).decode() if len(rest) > limit else "",
        unnamed=found.unnamed if desk.asker.sees_all else 0,
    )


@get(_ONE, operation_id="getProfile", tags=_TAGS, summary="One page", responses=problems(404))
async def get_profile(desk: FromDesk, kind: Kind, owner: Owner, environment: Environment = "") -> ProfileView:
    page = await _page(desk, kind, owner, environment)
    return _view(page, await desk.run(pages.read, desk.front.sync, page))


@put(
    _ONE,
    operation_id="editProfile",
    tags=_TAGS,
    summary="Edit a page; 409 when it is not of the version that was read",
    responses=problems(404, 409),
)
async def edit_profile(
    desk: FromDesk, kind: Kind, owner: Owner, data: JSONBody[ProfileEdit], environment: Environment = ""
) -> ProfileView:
    page = await _page(desk, kind, owner, environment)

    def edited() -> Page:
        with _changing(desk, page, "edit_page", text=data.text):
            return pages.edited(desk.front.sync, page, data.text, data.version)

    return _view(page, await desk.run(edited))


@post(
    _ONE + "/undo",
    operation_id="undoProfile",
    tags=_TAGS,
    summary="Take back the last change of a page; once more takes that back",
    status_code=200,
    responses=problems(404, 409),
)
async def undo_profile(
    desk: FromDesk, kind: Kind, owner: Owner, environment: Environment = ""
) -> ProfileView:
    page = await _page(desk, kind, owner, environment)

    def undone() -> Page:
        with _changing(desk, page, "undo_page"):
            return pages.undone(desk.front.sync, page)

    return _view(page, await desk.run(undone))


@get(
    _ONE + "/versions",
    operation_id="listProfileVersions",
    tags=_TAGS,
    summary="What a page said before",
    responses=problems(404),
)
async def list_versions(
    desk: FromDesk, kind: Kind, owner: Owner, environment: Environment = ""
) -> ProfileVersions:
    page = await _page(desk, kind, owner, environment)
    kept = await desk.run(pages.versions, desk.front.sync, page)
    return ProfileVersions([ProfileVersion(replaced_at=at, text=text) for at, text in kept])


ROUTES = strict(list_profiles, get_profile, edit_profile, undo_profile, list_versions)


def _may(desk: Desk, page: PageOf) -> bool:
    """Whether the page is for who asks."""
    asker = desk.asker
    if asker.confined:
        return page == PageOf(Scope("user", asker.user))
    return page.scope.kind == "agent" or asker.sees_all or page.scope.id == asker.user


async def _page(desk: Desk, kind: Literal["user", "agent"], owner: str, environment: str) -> PageOf:
    """The page that a request names. Raises `AccessDenied` where it is not for who asks, and `InvalidKey`."""
    own = {kind: owner, "environment": environment or PRODUCTION}
    who = await desk.run(lambda: desk.tenancy.records.caller(**own))  # which checks the ids
    page = PageOf(Scope(kind, getattr(who, kind)), who.environment)
    if not _may(desk, page):
        raise AccessDenied("this page is not for this token", hint="a user has its own USER.md")
    return page


def _changing(desk: Desk, page: PageOf, call: str, **asked: str) -> AbstractContextManager[None]:
    return changing(desk, call, environment=page.environment, scopes=(page.scope,), **asked)


def _view(of: PageOf, page: Page) -> ProfileView:
    return ProfileView(
        kind=_kind(of),
        id=of.scope.id,
        environment=of.environment,
        text=page.text,
        shown=page.words,
        version=page.version,
        there=page.there,
    )


def _kind(page: PageOf) -> Literal["user", "agent"]:
    return "agent" if page.scope.kind == "agent" else "user"


def _place(page: PageOf) -> tuple[str, str, str]:
    return page.scope.kind, page.scope.id, page.environment


def _opened(cursor: str) -> tuple[str, str, str] | None:
    if not cursor:
        return None
    try:
        return msgspec.json.decode(cursor.encode("utf-8", "surrogatepass"), type=tuple[str, str, str])
    except (msgspec.MsgspecError, UnicodeError) as error:
        raise InvalidInput("this place was not given by a list", hint="begin without a cursor") from error
