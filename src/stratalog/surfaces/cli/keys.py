"""Sessions by the piece of their name that a person types, and the shortest such piece to show.

What a piece means is said in `stratalog.engine.naming`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path

import typer

from stratalog import SessionKey, Stratalog, StratalogError, default_data, parse_key, session_key
from stratalog.engine.naming import Listed, Names, resolve
from stratalog.engine.session import Session

__all__ = ["Listed", "complete", "find", "new_key", "shortener"]

_SHORTEST = 8
_WHOLE = 12
_JOINTS = "-.: "
# Completed words are put on the command line as they are, so they must need no quoting.
_UNQUOTED = re.compile(r"[\w.@%+=:,/-]+")


def find(memory: Stratalog, text: str) -> Session:
    """The session that `text` names. Raises `NotFound`, and `Ambiguous` where it could be several."""
    return memory.session(resolve(memory, text))


def new_key(parent: SessionKey, text: str) -> SessionKey:
    """The key that `text` writes: a whole one, or a chat of the parent's agent and channel."""
    if ":" in text or "/" in text:
        return parse_key(text, parent.tenant)
    return session_key(parent.agent, parent.channel, text, parent.tenant)


def shortener(sessions: Iterable[Listed]) -> Callable[[SessionKey], str]:
    """Gives for the key of one of `sessions` the shortest text that names it: of its chat at least eight
    characters, or its key where the chat does not do."""
    names = Names(sessions)
    place = {key: at for at, key in enumerate(names.keys)}

    def short(key: SessionKey) -> str:
        shortest = len(key.chat) if len(key.chat) <= _WHOLE else _SHORTEST
        pieces = (key.chat[:length] for length in range(shortest, len(key.chat) + 1))
        for piece in (*(piece for piece in pieces if piece[-1] not in _JOINTS), key.chat, key.local):
            if names.meant(piece) == {place.get(key)}:
                return piece
        return str(key)

    return short


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
