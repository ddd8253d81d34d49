"""How the service is run."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import msgspec

from stratalog.errors import InvalidConfig
from stratalog.surfaces.access.wire import OWN, must_be_here, names, pages


class HttpSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Durations are seconds, sizes bytes. Make it with `http_settings`, which checks it.

    `hosts` are the names that the service is asked by, `origins` the pages of other origins that may ask it.
    `dev` asks for no token. `rate` is how many requests a token may make in a minute, `burst` how many at
    once. `body` bounds a request's body, which has `patience` to come; `connections` are how many there may
    be at the same time, as far as the process may open as many files; `threads` are the calls of the engine
    that run at the same time, and `turns` the turns.
    `grace` is how long turns may go on once the service is told to end; `unfinished` what becomes of those
    that it did not finish before. `kept` is how long the events of a turn that ended can be had again, and
    `buffer` how many bytes of them at most for each turn. `beat` is how often a quiet stream says that it is
    still there. With `background` it does what is due, as `stratalog jobs run --forever`.
    """

    host: str = "127.0.0.1"
    port: int = 8_420
    dev: bool = False
    hosts: tuple[str, ...] = OWN
    origins: tuple[str, ...] = ()
    rate: float = 600.0
    burst: int = 120
    body: int = 8_000_000
    patience: float = 120.0
    connections: int = 4_000
    threads: int = 32
    turns: int = 256
    grace: float = 30.0
    unfinished: Literal["resume", "close"] = "resume"
    kept: float = 300.0
    buffer: int = 1_000_000
    beat: float = 15.0
    background: bool = True


def http_settings(
    *, host: str = "127.0.0.1", hosts: Iterable[str] = (), origins: Iterable[str] = (), **others: object
) -> HttpSettings:
    """The settings, checked; `hosts` are besides the machine's own names and `host`.

    Raises `InvalidConfig` for what is none, and for `dev` where others than this machine could ask.
    """
    fields = {"host": host, "hosts": names(host, hosts), "origins": pages(origins), **others}
    try:
        made = msgspec.convert(fields, HttpSettings)
    except msgspec.ValidationError as error:
        raise InvalidConfig(f"the service cannot be run so: {error}") from error
    if made.dev:
        must_be_here(host)
    return made
