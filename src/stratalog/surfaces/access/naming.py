"""How a request names a user, or something else, in a header, which carries ASCII alone: percent-encoded, as
in an address.

    stratalog-user: ana
    stratalog-user: %E5%B0%8F%E7%8E%8B      (小王)

An id of ASCII without `%` means itself. A `%` begins two hexadecimal digits of a byte of UTF-8, so an id that
has one is written with `%25`; one that begins nothing is refused, and so are bytes beyond ASCII, which a
server would read as other letters than the client wrote.
"""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import unquote_to_bytes

from stratalog.errors import InvalidInput

_LOOSE: Final = re.compile(r"%(?![0-9A-Fa-f]{2})")
_HINT: Final = "percent-encode its UTF-8: %E5%B0%8F%E7%8E%8B is 小王, and %25 a percent sign"


def user_named(value: str) -> str:
    """The user that a header's value names, "" for nobody; whether it can be a user's id is for `asker` to
    check. Raises `InvalidInput` for what is no percent-encoded UTF-8."""
    return named(value, "a user")


def named(value: str, what: str) -> str:
    """The same for anything; `what` says in the error what the header does not name."""
    if not value.isascii() or _LOOSE.search(value):
        raise InvalidInput(f"the header does not name {what}", hint=_HINT)
    try:
        return unquote_to_bytes(value).decode("utf-8")
    except UnicodeDecodeError as error:
        raise InvalidInput(f"the header does not name {what}", hint=_HINT) from error
