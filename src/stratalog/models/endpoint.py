"""Where a provider is and how one is let in; a body as bytes; a client for each event loop.

The key is in no `repr`, and `hide` takes it, other secrets and whatever looks like one out of any text, for
some servers repeat the key in the error that refuses it.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from typing import Any, Generic, TypeVar
from urllib.parse import urlsplit
from weakref import WeakKeyDictionary

import msgspec

from stratalog.errors import InvalidConfig, InvalidInput

C = TypeVar("C")
_LOOKS_SECRET = re.compile(r"\b(?:sk|pk|key|gsk|xai|AIza)[-_][\w*-]{12,}|(?i:bearer)\s+[\w.~+/=-]{8,}")
_SHORTEST_SECRET = 6
_HIDDEN = "[hidden]"


class Endpoint(msgspec.Struct, frozen=True, kw_only=True):
    """Raises `InvalidConfig` for a base URL or a key that no request could be made with."""

    base_url: str
    api_key: str
    headers: dict[str, str] = {}

    def __post_init__(self) -> None:
        hint = "it begins with http:// or https:// and names a host"
        try:
            parts = urlsplit(self.base_url)
            usable = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
        except ValueError:
            usable = False
        if not usable or not self.base_url.isprintable() or " " in self.base_url:
            raise InvalidConfig("the model's base URL cannot be used", base_url=self.place, hint=hint)
        for name, value in {"API key": self.api_key, **self.headers}.items():
            if not value.isascii() or not value.isprintable():
                hint = "was it copied whole, and nothing else?"
                what = f"{name}: it has characters that HTTP cannot send"
                raise InvalidConfig(what, endpoint=self.place, hint=hint)
        if not self.api_key or " " in self.api_key:
            raise InvalidConfig("the API key is empty or has a space in it", endpoint=self.place)

    def __repr__(self) -> str:
        return f"Endpoint({self.place})"

    @property
    def place(self) -> str:
        """The base URL as an error may show it: without a user, a password or a query."""
        head, _, rest = self.base_url.partition("://")
        path = rest.partition("?")[0].partition("#")[0]
        host, slash, tail = path.partition("/")
        return f"{head}://{host.rpartition('@')[2]}{slash}{tail}" if rest else ""

    def hide(self, text: str) -> str:
        """`text` without the key, without the values of headers, and without what looks like a key."""
        for secret in sorted({self.api_key, *self.headers.values()}, key=len, reverse=True):
            if len(secret) >= _SHORTEST_SECRET:
                text = text.replace(secret, _HIDDEN)
        user = self.base_url.partition("://")[2].partition("/")[0].rpartition("@")[0]
        if user:
            text = text.replace(user, _HIDDEN)
        return _LOOKS_SECRET.sub(_HIDDEN, text)


class PerLoop(Generic[C]):
    """One client for each event loop: its connections belong to the loop that opened them."""

    def __init__(self, make: Callable[[], C]) -> None:
        self._make = make
        self._made: WeakKeyDictionary[asyncio.AbstractEventLoop, C] = WeakKeyDictionary()

    def get(self) -> C:
        """The running loop's client, made when it has none."""
        loop = asyncio.get_running_loop()
        found = self._made.get(loop)
        if found is None:
            found = self._made[loop] = self._make()
        return found

    def take(self) -> C | None:
        """The running loop's client, no longer kept here."""
        return self._made.pop(asyncio.get_running_loop(), None)


def encoded(body: dict[str, Any]) -> bytes:
    """The body as JSON in UTF-8, the same bytes for the same value. A lone surrogate, which UTF-8 cannot
    hold, becomes U+FFFD. Raises `InvalidInput` for what is no JSON."""
    try:
        return msgspec.json.encode(body)
    except UnicodeEncodeError:
        return msgspec.json.encode(_mended(body))
    except (TypeError, OverflowError) as error:
        raise InvalidInput(f"the request's body is not JSON: {error}") from error


def _mended(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    if isinstance(value, dict):
        return {_mended(key): _mended(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_mended(item) for item in value]
    return value
