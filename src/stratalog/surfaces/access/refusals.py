"""Who was turned away: the lines in the audit of requests that are refused before the engine is asked.

A refusal is told in the audit of the tenant whose token it was; one of an unknown token, of which no tenant
is known, in that of nobody's (`engine.auditing.nobodys_audit`). What a line has of the request is its route,
or its path where no route was looked for, and nothing that was sent with it.

Who asks without end leaves a trace, and no flood: of refusals that are alike, of one token for one reason at
one route, the 1st, the 10th, the 100th and so on within an hour have a line, and it says how many there were.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, TypeAlias

from stratalog.engine.auditing import refusal_in, refused
from stratalog.engine.remembering import Scope
from stratalog.errors import InvalidKey, LogError, StratalogError
from stratalog.surfaces.access.principals import Principal, user_id
from stratalog.surfaces.access.tokens import Tokens

Alike: TypeAlias = tuple[str, ...]
_log = logging.getLogger("stratalog.surfaces.access")
_HOUR: Final = 3_600.0
_MOST: Final = 10_000  # kinds of refusals that are remembered; of a forgotten one the next is the 1st again
_LONGEST: Final = 200  # characters of a path


class Tally:
    """How often each of the things that are alike happened, anew each hour. `clock` gives seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._mutex = threading.Lock()
        self._counted: OrderedDict[Alike, tuple[float, int]] = OrderedDict()

    def told(self, alike: Alike) -> int:
        """Counts one more. How many there were, where that is 1, 10, 100 or so on and to be told; else 0."""
        with self._mutex:
            now = self._clock()
            since, times = self._counted.pop(alike, (now, 0))
            since, times = (since, times + 1) if now - since < _HOUR else (now, 1)
            self._counted[alike] = (since, times)
            if len(self._counted) > _MOST:
                self._counted.popitem(last=False)
        return times if str(times).rstrip("0") == "1" else 0


class Refusals:
    """The refusals of one data directory, for one service. Its methods block, and may be called from several
    threads. A line that cannot be written is an error in the log: the request is refused all the same."""

    def __init__(self, data: Path) -> None:
        self._data = data
        self._tally = Tally()

    def recognised(self, tokens: Tokens, text: str, call: str, address: str) -> Principal | None:
        """Who the text proves its bearer to be, as `Tokens.recognise`; with a line where that is nobody.
        `call` is what was asked, `address` from where."""
        seen = tokens.look(text)
        if not seen.fault:
            return seen.who
        who, call = seen.who, call[:_LONGEST]
        if who is None:
            self._note(("unknown",), "", call, f"no such token, from {address}")
        else:
            why = f"the token is {seen.fault}"
            self._note((who.id, why), who.tenant, call, why, by=who.id, user=who.user, roles=tuple(who.roles))
        return None

    def denied(self, who: Principal, error: StratalogError, call: str, named: str = "") -> None:
        """Writes the line of a request of `who`, with a good token, that ended in this error, if that is a
        refusal and has no line yet. `named` is the user that the request named."""
        found = refusal_in(error)
        if found is None:
            return
        may, named = who.has("agent", "admin"), _usable(named)
        self._note(
            (who.tenant, who.id or who.user, call, found.what),
            who.tenant,
            call,
            found.what,
            by=who.id,
            user=(named or who.user) if may else who.user,
            roles=tuple(who.roles),
            scopes=() if may or named in ("", who.user) else (Scope("user", named),),
        )
        found.noted = True

    def _note(self, alike: Alike, tenant: str, call: str, why: str, **whose: Any) -> None:
        times = self._tally.told(alike)
        try:
            if times:
                refused(self._data, tenant, call, why, times=times, **whose)
        except LogError as error:
            _log.error("a refusal has no line in the audit: %s", error)


def _usable(named: str) -> str:
    """The user that was named; "" for what is none's id."""
    with suppress(InvalidKey):
        return user_id(named)
    return ""
