"""MEMORY.md and USER.md as they are served: which there are, reading one, and an edit that overwrites nobody.

A page has a version, made of its bytes. Who edits it says which version was read; another is a conflict, and
nothing is written.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from stratalog.engine.core import Stratalog
from stratalog.engine.profiling import PageOf, page_files, render, shown
from stratalog.errors import Conflict
from stratalog.keys import dir_name, tenant_path
from stratalog.memory.contract import PRODUCTION, Scope, ScopeKind
from stratalog.memory.profiles import Profile, Update, parse, stamped

__all__ = ["Page", "PageOf", "Pages", "Version", "edited", "pages", "read", "undone", "versions"]

_ENCODED: Final = re.compile("=([0-9a-f]{2})")


class Page(NamedTuple):
    """A page as it stands (`text`), as a reader sees it (`words`), and its version. Bytes that are no UTF-8
    are told as U+FFFD."""

    text: str
    words: str
    version: str
    there: bool


class Pages(NamedTuple):
    """The pages that there are, by kind, id and environment. `unnamed` is how many more there are whose names
    are too long for their directories to tell; they are read by their owners' ids."""

    pages: list[PageOf]
    unnamed: int = 0


class Version(NamedTuple):
    """A version that was kept: when it was replaced (milliseconds UTC), and its text."""

    replaced_at: int
    text: str


def pages(memory: Stratalog, *, user: str = "", agents: bool = True) -> Pages:
    """The pages of the tenant's users, or of this one, and of its agents where it is asked for them."""
    root = tenant_path(memory.data, memory.tenant)
    found: list[PageOf] = []
    unnamed = 0
    places: tuple[tuple[ScopeKind, str, str], ...] = (
        ("agent", "agents/*/memory", "MEMORY.md"),
        ("user", f"users/{dir_name(user) if user else '*'}", "USER.md"),
    )
    for kind, pattern, name in places if agents else places[1:]:
        for place in root.glob(pattern):
            owner = _named(place.parent.name if kind == "agent" else place.name)
            for environment in _environments(place, name):
                if owner is None or environment is None:
                    unnamed += 1
                else:
                    found.append(PageOf(Scope(kind, owner), environment))
    return Pages(sorted(found), unnamed)


def read(memory: Stratalog, page: PageOf) -> Page:
    """The page; an empty one where there is none."""
    files = page_files(memory.data, memory.tenant, page)
    return _page(files.read(), files.there)


def edited(memory: Stratalog, page: PageOf, text: str, version: str) -> Page:
    """Puts `text` in the page's place, if the page is still of this version, and keeps what it was. Lines
    that are not there any more stay away, also from the passes that write the page. Raises `Conflict`."""
    files = page_files(memory.data, memory.tenant, page)
    before = files.read()

    def decide(old: Profile) -> Update:
        if version_of(old) != version:
            return Update(profile=old, refused="stale")
        new = parse(text)
        return Update(profile=stamped(new, old.watermark, new.written | old.written))

    done = files.refresh(decide, watermark=before.watermark)
    if done.refused:
        raise Conflict(
            f"{page.name} is not of this version any more", hint="read it again, and put the edit into that"
        )
    return _page(done.profile, True)


def undone(memory: Stratalog, page: PageOf) -> Page:
    """Puts back what the page said before its last change; undone again, all is as it was. Raises
    `NotFound` where nothing is kept."""
    return _page(page_files(memory.data, memory.tenant, page).undo(), True)


def versions(memory: Stratalog, page: PageOf) -> list[Version]:
    """The kept versions, at most 20, the newest first."""
    kept = page_files(memory.data, memory.tenant, page).snapshots()
    return [Version(at, _unicode(text)) for at, text in kept]


def version_of(profile: Profile) -> str:
    """The version of a page that says this."""
    return hashlib.sha256(render(profile).encode("utf-8", "surrogateescape")).hexdigest()[:32]


def _page(profile: Profile, there: bool) -> Page:
    return Page(_unicode(render(profile)), _unicode(shown(profile)), version_of(profile), there)


def _unicode(text: str) -> str:
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _environments(place: Path, name: str) -> Iterator[str | None]:
    """The environments of which there is a page of this name; None for one that its directory does not
    tell."""
    if (place / name).is_file():
        yield PRODUCTION
    with os.scandir(place) as entries:
        for each in entries:
            if each.is_dir(follow_symlinks=False) and (place / each.name / name).is_file():
                yield _named(each.name)


def _named(directory: str) -> str | None:
    """Whose directory it is; None where the name does not tell, for it was too long."""
    try:
        name = _ENCODED.sub(lambda byte: chr(int(byte[1], 16)), directory).encode("latin-1").decode()
    except UnicodeError:
        return None
    return name if dir_name(name) == directory else None
