"""What is served, over all agents and channels: which agents there are, and the entries around one."""

from __future__ import annotations

import msgspec

from stratalog.engine.core import Stratalog
from stratalog.engine.serving_sessions import MOST_ENTRIES, EntryPage, entries_page
from stratalog.engine.session import Session
from stratalog.errors import InvalidConfig, InvalidInput


class AgentSeen(msgspec.Struct, frozen=True):
    """An agent with sessions in sight: how many in each channel, and whether its settings name a model."""

    name: str
    channels: dict[str, int]
    has_model: bool


def agents_seen(memory: Stratalog, user: str | None) -> tuple[AgentSeen, ...]:
    """The agents of this user's sessions ("": nobody's; None: of all), by name, each with its channels by
    name. It reads no log."""
    found: dict[str, dict[str, int]] = {}
    for (agent, channel), number in memory.strata.counted(user).items():
        found.setdefault(agent, {})[channel] = number
    return tuple(AgentSeen(agent, channels, _has_model(memory, agent)) for agent, channels in found.items())


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


def _has_model(memory: Stratalog, agent: str) -> bool:
    try:
        return bool(memory.settings_of(agent).model)
    except InvalidConfig:  # asked, it answers with what is wrong in its settings
        return False
