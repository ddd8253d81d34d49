"""Values that several groups of routes answer with, as the document describes them."""

from __future__ import annotations

from typing import Any

import msgspec

from stratalog import parse_key
from stratalog.engine import SessionMeta


class SessionView(msgspec.Struct, frozen=True, kw_only=True):
    """A session as a list shows it. `key` is its whole key, `title_by` who gave the title, `updated_at` when
    somebody last said something, `messages` how many were said."""

    key: str
    agent: str
    channel: str
    chat: str
    title: str
    title_by: str
    pinned: bool
    created_at: int
    updated_at: int
    messages: int
    forked_from: str = ""
    metadata: dict[str, Any] = {}


class SessionPage(msgspec.Struct, frozen=True, kw_only=True):
    """Sessions, pinned first, then the newest; `cursor` goes on after them, "" at the end."""

    sessions: list[SessionView]
    cursor: str = ""


def session_view(meta: SessionMeta) -> SessionView:
    """What a list shows of the session."""
    key = parse_key(meta.key)
    return SessionView(
        key=meta.key,
        agent=key.agent,
        channel=key.channel,
        chat=key.chat,
        title=meta.title,
        title_by=meta.title_by,
        pinned=meta.pinned,
        created_at=meta.created_at,
        updated_at=meta.updated_at,
        messages=meta.messages,
        forked_from=meta.forked_from,
        metadata=meta.metadata,
    )
