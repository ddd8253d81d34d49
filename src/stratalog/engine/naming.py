"""Sessions by the piece of their name that a person types.

A whole key, chat or title is taken as it is; else the text must begin the chat, the key or the title of
exactly one session. Titles are compared without regard to case.
"""

from __future__ import annotations

import unicodedata
from bisect import bisect_left
from collections.abc import Iterable
from contextlib import suppress
from datetime import UTC, datetime
from itertools import islice
from operator import itemgetter
from typing import Protocol

from stratalog.engine.core import Stratalog
from stratalog.errors import Ambiguous, InvalidInput, InvalidKey, NotFound
from stratalog.keys import SessionKey, parse_key

_LISTED = 8


class Listed(Protocol):
    """What a list says of a session, as far as it is needed to name it; `updated_at` is milliseconds UTC."""

    @property
    def key(self) -> str: ...
    @property
    def title(self) -> str: ...
    @property
    def updated_at(self) -> int: ...


def resolve(
    memory: Stratalog, text: str, *, agent: str | None = None, channel: str | None = None
) -> SessionKey:
    """The key of the session that `text` means, among those of this agent and channel where they are given.

    Raises `NotFound`, and `Ambiguous` where it could be several.
    """
    with suppress(InvalidKey):
        session = memory.session(text)
        if agent in (None, session.key.agent) and channel in (None, session.key.channel) and session.exists:
            return session.key
    return match(text, memory.sessions(agent=agent, channel=channel).sessions)


def match(text: str, sessions: Iterable[Listed]) -> SessionKey:
    """The key of the one of `sessions` that `text` names, as in `resolve`."""
    if not text:
        raise InvalidInput("the key is empty", hint="`stratalog sessions` lists the keys")
    names = Names(sessions)
    found = sorted(names.meant(text))
    if len(found) == 1:
        return names.keys[found[0]]
    if not found:
        raise NotFound("there is no such session", key=text, hint="`stratalog sessions` lists them")
    listed = [names.told(at) for at in found[:_LISTED]]
    if len(found) > _LISTED:
        listed.append(f"and {len(found) - _LISTED} more")
    raise Ambiguous(
        f"this could be any of {len(found)} sessions",
        key=text,
        candidates=listed,
        hint="write more of its key or its title",
    )


class Names:
    """What sessions are called, to find whom a text means. Sessions are places in a list."""

    def __init__(self, sessions: Iterable[Listed]) -> None:
        self._metas = list(sessions)
        self.keys = [parse_key(meta.key) for meta in self._metas]
        whole_keys: dict[str, set[int]] = {}
        chats: dict[str, set[int]] = {}
        titles: dict[str, set[int]] = {}
        for at, (key, meta) in enumerate(zip(self.keys, self._metas, strict=True)):
            whole_keys.setdefault(str(key), set()).add(at)
            whole_keys.setdefault(key.local, set()).add(at)
            chats.setdefault(key.chat, set()).add(at)
            titles.setdefault(_folded(meta.title), set()).add(at)
        self._whole = (whole_keys, chats)
        self._titles = titles
        self._names = sorted((*whole_keys.items(), *chats.items()), key=itemgetter(0))
        self._folded = sorted(titles.items(), key=itemgetter(0))

    def meant(self, text: str) -> set[int]:
        """The sessions that `text` may mean."""
        text, folded = unicodedata.normalize("NFC", text), _folded(text)
        for names, name in ((self._whole[0], text), (self._whole[1], text), (self._titles, folded)):
            if name in names:
                return set(names[name])
        return _beginning(self._names, text) | _beginning(self._folded, folded)

    def told(self, at: int) -> str:
        """A session in words: its key, its title, and when it was last written to."""
        return f'{self.keys[at].local} "{self._metas[at].title}"{_when(self._metas[at].updated_at)}'


def _when(ts: int) -> str:
    """The moment in UTC; nothing for none, or for one past year 9999."""
    try:
        return f" {datetime.fromtimestamp(ts / 1000, UTC):%Y-%m-%d %H:%M} UTC" if ts > 0 else ""
    except (OverflowError, OSError, ValueError):
        return ""


def _beginning(names: list[tuple[str, set[int]]], text: str) -> set[int]:
    """The sessions with a name that begins with `text`."""
    first = bisect_left(names, text, key=itemgetter(0))
    found: set[int] = set()
    for name, sessions in islice(names, first, None):
        if not name.startswith(text):
            break
        found |= sessions
    return found


def _folded(text: str) -> str:
    return unicodedata.normalize("NFC", text).casefold()
