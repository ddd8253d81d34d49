"""The resources: the pages about the user and the agent, and every session in sight, by pages."""

from __future__ import annotations

from typing import Final, NamedTuple

import msgspec

from stratalog.engine import consulting, keeping
from stratalog.errors import NotFound
from stratalog.surfaces.mcp.desk import Desk
from stratalog.surfaces.mcp.places import PROFILES, place_of, profile_uri, session_uri
from stratalog.surfaces.mcp.tools import read_session
from stratalog.surfaces.mcp.values import ReadSession

_ON_A_PAGE: Final = 100
_NAMES: Final = {"user": "USER.md", "agent": "MEMORY.md"}
_ABOUT: Final = {"user": "What is known of the user.", "agent": "What the agent knows from earlier work."}


class Resource(NamedTuple):
    """A resource as it is listed."""

    uri: str
    name: str
    title: str
    about: str
    mime: str


class Text(NamedTuple):
    """What a resource says."""

    text: str
    mime: str


def listed(desk: Desk, cursor: str) -> tuple[list[Resource], str]:
    """A page of resources, the pages of memory that there are first, and the cursor to go on with. Raises
    `InvalidInput`."""
    sight = desk.sight()
    found = []
    if not cursor:
        found += [
            Resource(profile_uri(kind), _NAMES[kind], _NAMES[kind], _ABOUT[kind], "text/markdown")
            for kind in PROFILES
            if sight.may(kind) and keeping.page(desk.records, sight, kind)
        ]
    page = consulting.sessions(sight, limit=_ON_A_PAGE, cursor=cursor)
    found += [
        Resource(
            session_uri(each.session),
            each.session,
            each.title,
            f"A session of {each.messages} messages.",
            "application/json",
        )
        for each in page.sessions
    ]
    return found, page.cursor


def read(desk: Desk, uri: str) -> Text:
    """What the resource says: a page of memory as Markdown, a page of a session as the tool `read_session`
    gives it. Raises `NotFound` and `AccessDenied`."""
    place = place_of(uri)
    if place.profile:
        text = keeping.page(desk.records, desk.sight(), place.profile)
        if not text:
            raise NotFound("there is no such resource", uri=uri)
        return Text(text, "text/markdown")
    done = read_session(desk, ReadSession(session=place.session, cursor=place.cursor))
    return Text(msgspec.json.encode(done).decode(), "application/json")
