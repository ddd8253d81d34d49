"""How a service that is asked over HTTP is reached, whatever it says there: where it listens, by which names
it is asked, which pages may ask it, and which user a request names.

A page that somebody happens to open can send requests to an address of their machine, also under a name of
its own that it has bent to that address. So the `Host` of a request must be a name that the service is asked
by, and the `Origin`, which only browsers send, must be the service's own or one that was named.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Iterable, Sequence
from ipaddress import ip_address
from typing import Final
from urllib.parse import urlsplit

from stratalog.errors import InvalidConfig, InvalidInput, StorageFailed
from stratalog.surfaces.access.naming import user_named

USER_HEADER: Final = "stratalog-user"  # whom a token asks for that may ask for several
OWN: Final = ("localhost", "127.0.0.1", "[::1]")  # names of the machine itself
ANY: Final = "*"
_BACKLOG: Final = 2_048
_EVERYWHERE: Final = ("0.0.0.0", "::", "")  # what listens there is asked by no name of it
_HOST: Final = re.compile(r"(\[[^\[\]]*\]|[^:\[\]]*)(:[0-9]*)?\Z")


def loopback(host: str) -> bool:
    """Whether only this machine reaches the address."""
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def must_be_here(host: str) -> None:
    """For a service that asks nobody for a token. Raises `InvalidConfig` where others than this machine could
    ask."""
    if not loopback(host):
        raise InvalidConfig(
            "--dev asks for no token, so it listens on this machine alone",
            host=host,
            hint="use --host 127.0.0.1, or `stratalog token make` and no --dev",
        )


def in_url(host: str) -> str:
    """The address as a URL has it."""
    return f"[{host}]" if ":" in host else host


def listening(host: str, port: int) -> socket.socket:
    """A socket at the address. Raises `StorageFailed` where it cannot be had."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        # The protocol is said, for asyncio lets what is sent go at once only where it is TCP by name.
        made = socket.socket(family, kind, protocol)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind(address)
        made.listen(_BACKLOG)
    except OSError as error:
        raise StorageFailed(
            f"the service cannot listen there: {error.strerror}",
            hint="choose another --host or --port",
            host=host,
            port=port,
        ) from error
    return made


def names(host: str, more: Iterable[str] = ()) -> tuple[str, ...]:
    """By which names a service that listens at `host` is asked: the machine's own, that of the address, and
    `more`, of which `*` is any."""
    own = () if host in _EVERYWHERE else (in_url(host).lower(),)
    return tuple(sorted({*OWN, *own, *(name.strip().lower() for name in more)}))


def pages(origins: Iterable[str]) -> tuple[str, ...]:
    """The origins of pages that may ask. Raises `InvalidConfig` for one that no browser says."""
    told = tuple(origins)
    for each in told:
        if not _is_origin(each):
            raise InvalidConfig(
                "an origin is written as a browser says it", origin=each, hint="such as https://a.example"
            )
    return told


def is_asked(host: str, allowed: Sequence[str]) -> bool:
    """Whether a request with this `Host` is sent to the service: its name, whatever the port, is allowed."""
    found = _HOST.match(host.lower())
    return ANY in allowed or (found is not None and found[1] in allowed)


def may_ask(origin: str, host: str, allowed: Sequence[str]) -> bool:
    """Whether a request with this `Origin` ("": none), sent to this `Host`, may be answered: the page is the
    service's own, with its port, or one of those that were named, to the letter."""
    own = host.lower()
    return not origin or origin in allowed or origin.lower() in (f"http://{own}", f"https://{own}")


def named_user(values: Sequence[str]) -> str:
    """The user that a request names by these values of its header, as `naming.user_named` reads one; "" for
    none. Raises as that does, and `InvalidInput` for several, of which a proxy may have checked another."""
    if len(values) > 1:
        raise InvalidInput("one request is for one user", hint=f"send {USER_HEADER} once")
    return user_named(values[0]) if values else ""


def _is_origin(text: str) -> bool:
    try:
        parts = urlsplit(text)
        parts.port  # noqa: B018  # raises where it is no number
    except ValueError:
        return False
    odd = text != text.lower() or "@" in parts.netloc or any(each.isspace() for each in text)
    return (
        parts.scheme in ("http", "https")
        and bool(parts.hostname)
        and not odd
        and text == f"{parts.scheme}://{parts.netloc}"
    )
