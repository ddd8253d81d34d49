"""What is served, over all agents and channels: which agents there are, a list of sessions by their titles,
and the entries around one."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from typing import Final

import msgspec

from stratalog.engine.core import Stratalog
from stratalog.engine.serving_sessions import MOST_ENTRIES, EntryPage, Sees, entries_page
from stratalog.engine.session import Session
from stratalog.errors import InvalidConfig, InvalidInput
from stratalog.keys import parse_key
from stratalog.sessions.catalog import Page
from stratalog.sessions.meta import SessionMeta

_AT_ONCE: Final = 2_000


class AgentSeen(msgspec.Struct, frozen=True):
    """An agent with sessions in sight: how many in each channel, and whether its settings name a model."""

    name: str
    channels: dict[str, int]
    has_model: bool


def agents_seen(memory: Stratalog, sees: Sees) -> tuple[AgentSeen, ...]:
    """The agents of the sessions in sight, by name, each with its channels by name. It reads the whole list
    of sessions, and no log."""
    counted: dict[str, Counter[str]] = {}
    for meta, _ in _all(memory, None, None, ""):
        if sees(meta.metadata):
            key = parse_key(meta.key)
            counted.setdefault(key.agent, Counter())[key.channel] += 1
    return tuple(
        AgentSeen(agent, dict(sorted(channels.items())), _has_model(memory, agent))
        for agent, channels in sorted(counted.items())
    )


def titled(
    memory: Stratalog,
    sees: Sees,
    *,
    title: str = "",
    agent: str | None = None,
    channel: str | None = None,
    limit: int = 50,
    cursor: str = "",
) -> Page:
    """The sessions in sight whose title has these words in it, in any case, as `Stratalog.sessions` lists
    them. Raises `InvalidInput` as that does."""
    if limit < 1:
        raise InvalidInput("a limit must be at least 1", limit=limit)
    words = _folded(title.strip())
    fitting = (
        (meta, here)
        for meta, here in _all(memory, agent, channel, cursor)
        if sees(meta.metadata) and words in _folded(meta.title)
    )
    found = list(islice(fitting, limit + 1))
    metas = tuple(meta for meta, _ in found[:limit])
    if len(found) <= limit:
        return Page(metas)
    # A page that ends with the last of these gives the cursor after it.
    start, place = found[limit - 1][1]
    last = memory.sessions(agent=agent, channel=channel, limit=place + 1, cursor=start)
    return Page(metas, last.cursor)


def entries_around(
    session: Session,
    at: str,
    *,
    before: int = 25,
    after: int = 25,
    payloads: bool = False,
) -> EntryPage:
    """The entry with this id or number, and so many before and after it. Raises `NotFound` where the history
    has none, and `InvalidInput` for more than a page has."""
    if not (before >= 0 and after >= 0 and before + after < MOST_ENTRIES):
        raise InvalidInput("a page has from 1 to 500 entries", before=before, after=after)
    here = session.entry(int(at) if at.isdecimal() and at.isascii() else at).seq
    later = entries_page(session, after=here - 1, limit=after + 1, payloads=payloads)
    if not before:
        return later
    earlier = entries_page(session, before=here, limit=before, payloads=payloads)
    return EntryPage(
        earlier.entries + later.entries,
        before=earlier.before if earlier.entries else None,
        after=later.after,
    )


def _all(
    memory: Stratalog, agent: str | None, channel: str | None, cursor: str
) -> Iterator[tuple[SessionMeta, tuple[str, int]]]:
    """Each session of the list, with the cursor of its page and its place in that."""
    while True:
        page = memory.sessions(agent=agent, channel=channel, limit=_AT_ONCE, cursor=cursor)
        for place, meta in enumerate(page.sessions):
            yield meta, (cursor, place)
        if not page.cursor:
            return
        cursor = page.cursor


def _has_model(memory: Stratalog, agent: str) -> bool:
    try:
        return bool(memory.settings_of(agent).model)
    except InvalidConfig:  # asked, it answers with what is wrong in its settings
        return False


def _folded(text: str) -> str:
    return unicodedata.normalize("NFKC", text).casefold()
