"""Sessions by the piece of their name that a person types, and the shortest such piece to show.

A whole key, chat or title is taken as it is; else the text must begin the chat, the key or the title of
exactly one session. Titles are compared without regard to case.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from itertools import islice
from operator import itemgetter
from pathlib import Path
from typing import Protocol

import typer

from stratalog import SessionKey, Stratalog, StratalogError, default_data, parse_key
from stratalog.engine.session import Session
from stratalog.errors import InvalidInput, InvalidKey, NotFound

_SHORTEST = 8
_WHOLE = 12
_LISTED = 10
_JOINTS = "-.: "
# Completed words are put on the command line as they are, so they must need no quoting.
_UNQUOTED = re.compile(r"[\w.@%+=:,/-]+")


class Listed(Protocol):
    """What a list says of a session, as far as this file needs it."""

    @property
    def key(self) -> str: ...
    @property
    def title(self) -> str: ...


def find(memory: Stratalog, text: str) -> Session:
    """The session that `text` names. Raises `NotFound`, and `InvalidInput` where it could be several."""
    with suppress(InvalidKey):
        session = memory.session(text)
        if session.exists:
            return session
    return memory.session(match(text, memory.sessions().sessions))


def match(text: str, sessions: Iterable[Listed]) -> SessionKey:
    """The key of the one of `sessions` that `text` names, as in `find`."""
    if not text:
        raise InvalidInput("the key is empty", hint="`stratalog sessions` lists the keys")
    names = _Names(sessions)
    found = names.meant(text)
    if len(found) == 1:
        return names.keys[found.pop()]
    if not found:
        raise NotFound("there is no such session", key=text, hint="`stratalog sessions` lists them")
    listed = [f'{names.keys[at].local} "{names.titles[at]}"' for at in sorted(found)[:_LISTED]]
    if len(found) > _LISTED:
        listed.append(f"and {len(found) - _LISTED} more")
    raise InvalidInput(
        f"this could be any of {len(found)} sessions",
        key=text,
        candidates=listed,
        hint="write more of its key or its title",
    )


def shortener(sessions: Iterable[Listed]) -> Callable[[SessionKey], str]:
    """Gives for the key of one of `sessions` the shortest text that names it: of its chat at least eight
    characters, or its key where the chat does not do."""
    names = _Names(sessions)
    place = {key: at for at, key in enumerate(names.keys)}

    def short(key: SessionKey) -> str:
        shortest = len(key.chat) if len(key.chat) <= _WHOLE else _SHORTEST
        pieces = (key.chat[:length] for length in range(shortest, len(key.chat) + 1))
        for piece in (*(piece for piece in pieces if piece[-1] not in _JOINTS), key.chat, key.local):
            if names.meant(piece) == {place.get(key)}:
                return piece
        return str(key)

    return short


class _Names:
    """What sessions are called, to find whom a text means. Sessions are places in a list."""

    def __init__(self, sessions: Iterable[Listed]) -> None:
        metas = list(sessions)
        self.keys = [parse_key(meta.key) for meta in metas]
        self.titles = [meta.title for meta in metas]
        whole_keys: dict[str, set[int]] = {}
        chats: dict[str, set[int]] = {}
        titles: dict[str, set[int]] = {}
        for at, (key, title) in enumerate(zip(self.keys, self.titles, strict=True)):
            whole_keys.setdefault(str(key), set()).add(at)
            whole_keys.setdefault(key.local, set()).add(at)
            chats.setdefault(key.chat, set()).add(at)
            titles.setdefault(_folded(title), set()).add(at)
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


def complete(context: typer.Context, incomplete: str) -> list[tuple[str, str]]:
    """Keys for the shell to complete, with their titles."""
    root = context.find_root().params
    params = {**root, **{name: value for name, value in context.params.items() if value}}
    data: Path | None = params.get("data")
    try:
        with Stratalog(data or default_data(), tenant=params.get("tenant") or "local") as memory:
            sessions = memory.sessions().sessions if memory.data.is_dir() else ()
    except StratalogError:
        return []
    chats = [parse_key(meta.key) for meta in sessions]
    count = Counter(key.chat for key in chats)
    names = [key.chat if count[key.chat] == 1 else key.local for key in chats]
    return [
        (name, meta.title)
        for name, meta in zip(names, sessions, strict=True)
        if name.startswith(incomplete) and _UNQUOTED.fullmatch(name)
    ]


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
