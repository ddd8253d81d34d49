"""The addresses of resources: `stratalog://sessions/<key>` and `stratalog://profiles/<user or agent>`."""

from __future__ import annotations

from typing import Final, NamedTuple
from urllib.parse import parse_qsl, quote, unquote, urlsplit

from stratalog.errors import NotFound

SCHEME: Final = "stratalog"
PROFILES: Final = ("user", "agent")
TEMPLATE: Final = f"{SCHEME}://sessions/{{session}}{{?cursor}}"


class Place(NamedTuple):
    """What an address names: the key of a session and the cursor to go on with, or a profile."""

    session: str = ""
    cursor: str = ""
    profile: str = ""


def session_uri(key: str) -> str:
    """The address of a session of this key."""
    return f"{SCHEME}://sessions/{quote(key, safe=':')}"


def profile_uri(kind: str) -> str:
    """The address of the page about the user or the agent."""
    return f"{SCHEME}://profiles/{kind}"


def place_of(uri: str) -> Place:
    """What the address names. Raises `NotFound` for one that names nothing here."""
    nothing = NotFound("there is no such resource", uri=ascii(uri)[:200], hint="resources/list lists them")
    try:
        parts = urlsplit(uri)
        asked = parse_qsl(parts.query, keep_blank_values=True, strict_parsing=True) if parts.query else []
    except ValueError as error:
        raise nothing from error
    name = unquote(parts.path.removeprefix("/"))
    if parts.scheme != SCHEME or parts.fragment or not name:
        raise nothing
    if parts.netloc == "profiles" and name in PROFILES and not asked:
        return Place(profile=name)
    if parts.netloc == "sessions" and [each for each, _ in asked] in ([], ["cursor"]):
        return Place(session=name, cursor=asked[0][1] if asked else "")
    raise nothing
