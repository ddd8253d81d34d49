"""How far a server reaches, by its address alone: nothing is looked up, and what is not certain is the world.

    reach_of("http://localhost:11434/v1")   machine
    reach_of("http://10.0.0.7:8000/v1")     premises
    reach_of("https://api.openai.com/v1")   world

A proxy reads what is sent through it, so that a server behind one reaches at least as far as its proxy.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import Final
from urllib.parse import urlsplit

from stratalog.models.contract import Reach

REACHES: Final[tuple[Reach, ...]] = ("machine", "premises", "world")  # the nearest first
# RFC 1918, link-local and unique local addresses.
_PRIVATE: Final = tuple(
    map(
        ip_network,
        ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "169.254.0.0/16", "fe80::/10", "fc00::/7"),
    )
)
_INSIDE: Final = (".internal", ".local", ".lan")
# A name as it is asked for. Others may be taken for another name on their way: by a full stop in another
# script, an escape, or as an address written as one number.
_NAME: Final = re.compile(r"(?!\d+$|0x)[a-z0-9_-]+(\.[a-z0-9_-]+)*")


def farther(one: Reach, other: Reach) -> Reach:
    """The one of the two that reaches farther."""
    return max(one, other, key=REACHES.index)


def reach_of(base_url: str, proxy: str = "") -> Reach:
    """How far what is sent to this URL reaches, through the proxy at that URL if there is one."""
    if proxy:
        return farther(reach_of(base_url), reach_of(proxy))
    try:
        host = urlsplit(base_url).hostname or ""
    except ValueError:
        return "world"
    if "\\" in base_url:  # what some take for the end of a host, and others for a part of it
        return "world"
    try:
        return _of_address(ip_address(host))
    except ValueError:
        return _of_name(host.removesuffix("."))


def proxy_for(base_url: str, proxies: Mapping[str, str]) -> str:
    """The proxy by which this URL is asked; "" for none. `proxies` are as `urllib.request.getproxies` gives
    them. Of what goes past proxies only whole hosts and ends of names are read; networks are not, and a
    server in one counts as behind the proxy."""
    try:
        parts = urlsplit(base_url)
        host = (parts.hostname or "").removesuffix(".")
    except ValueError:
        return ""
    past = [name.strip().lower().strip("[]") for name in proxies.get("no", "").split(",")]
    if "*" in past or host in past:
        return ""
    if any(name and not _is_address(host) and host.endswith(f".{name.lstrip('*.')}") for name in past):
        return ""
    proxy = proxies.get(parts.scheme) or proxies.get("all") or ""
    return proxy if "://" in proxy or not proxy else f"http://{proxy}"


def _of_address(address: IPv4Address | IPv6Address) -> Reach:
    if isinstance(address, IPv6Address):
        address = address.ipv4_mapped or address
    if address.is_loopback or address.is_unspecified:  # who asks the unspecified address asks itself
        return "machine"
    return "premises" if any(address in network for network in _PRIVATE) else "world"


def _of_name(host: str) -> Reach:
    if host == "localhost":
        return "machine"
    if not _NAME.fullmatch(host):
        return "world"
    return "premises" if "." not in host or host.endswith(_INSIDE) else "world"


def _is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True
