"""How ids of other frameworks, which may be any text, stand in a session's key, which may not.

    named("app", "shop/eu")     shop=2feu
    named("user", " Ana ")      =20Ana=20
    named("user", "小王")        小王

Two ids never have the same name. ASCII letters and digits, `-`, `_`, `.`, `@` and `+` stand for themselves,
and so do letters beyond ASCII where normalising the key would not change them; every other byte of UTF-8 is
`=` and two hexadecimal digits. What would be too long ends in `~` and its SHA-256, so a name cannot be read
back: who lists sessions keeps the ids in the sessions' metadata.
"""

from __future__ import annotations

import hashlib
import string
import unicodedata
from typing import Final

from stratalog.errors import InvalidKey
from stratalog.keys import session_key

_PLAIN: Final = frozenset(string.ascii_letters + string.digits + "-_.@+")
_LONGEST: Final = 400  # two of them fit a key's part
_DIGEST: Final = 65


def named(what: str, id: object) -> str:
    """The name of an id, to be a part of a key, or one of two that a colon joins. `what` is what the id is
    of, for the error. Raises `InvalidKey` for what is no text, empty, or has a lone surrogate."""
    if not isinstance(id, str) or not id:
        raise InvalidKey(
            f"the id of {what} is empty" if id == "" else f"the id of {what} is no text",
            hint="give a text of at least one character",
            id=ascii(id)[:80],
        )
    try:
        id.encode()
    except UnicodeEncodeError as error:
        raise InvalidKey(f"the id of {what} has a lone surrogate", id=ascii(id)[:80]) from error
    name = _escaped(id, beyond_ascii=True)
    if not unicodedata.is_normalized("NFC", name):
        name = _escaped(id, beyond_ascii=False)
    if not name.strip("."):
        name = name.replace(".", "=2e")
    if len(name) > _LONGEST:
        return f"{name[: _LONGEST - _DIGEST]}~{hashlib.sha256(id.encode()).hexdigest()}"
    return name


def owner(id: str) -> str:
    """An id of a user as a session's metadata names it: itself, or its name where it could not be a key."""
    try:
        session_key("any", "any", id)
    except InvalidKey:
        return named("the user", id)
    return id


def _escaped(id: str, *, beyond_ascii: bool) -> str:
    return "".join(
        char
        if char in _PLAIN or (beyond_ascii and not char.isascii() and char.isprintable())
        else "".join(f"={byte:02x}" for byte in char.encode())
        for char in id
    )
