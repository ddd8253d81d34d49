"""The terms that a document has for where, by whom and when it was said, and the condition a filter is.

A filter is one more condition of the full-text query, so that a search costs what it may find and not what
the tenant has. These terms begin with `=`, which no word of a text does.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection
from typing import Final

from stratalog.keys import SessionKey

_DAY_MS: Final = 86_400_000
_LAST_DAY: Final = 2_932_896  # of the year 9999
_BITS: Final = 5  # each span of days has 32 of the next smaller ones
_LEVELS: Final = 4


def scope_terms(sid: int, session: SessionKey, role: str, ts: int) -> list[str]:
    """The terms of a document of the session with the row id `sid`."""
    day = _day(ts)
    spans = [_span(level, day >> _BITS * level) for level in range(_LEVELS)]
    return [session_term(sid), *named("a", session.agent), *named("c", session.channel), f"=r{role}", *spans]


def session_term(sid: int) -> str:
    return f"=s{sid}"


def named(kind: str, value: str | None) -> list[str]:
    """A term for an id, none for None: a digest, since an id may hold what ends a term."""
    if value is None:
        return []
    return [f"={kind}" + hashlib.blake2b(value.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()]


def role_terms(roles: Collection[str]) -> list[str]:
    """The terms of which a document has one when its entry is of one of these types."""
    return [f"=r{role}" for role in sorted(set(roles)) if role.isascii() and role.isidentifier()]


def time_terms(after: int | None, before: int | None) -> list[str]:
    """The terms of which a document has one when its day is in the time [after, before), in milliseconds:
    some 280 at most. The first and the last day may reach beyond it."""
    first = _day(after) if after is not None else 0
    last = _day(before - 1) if before is not None else _LAST_DAY
    found = []
    while first <= last:
        level = 0
        while level + 1 < _LEVELS and _fits(first, last, 1 << _BITS * (level + 1)):
            level += 1
        found.append(_span(level, first >> _BITS * level))
        first += 1 << _BITS * level
    return found


def _fits(first: int, last: int, days: int) -> bool:
    return first % days == 0 and first + days - 1 <= last


def _span(level: int, number: int) -> str:
    return f"=t{level}.{number}"


def _day(ts: int) -> int:
    return max(0, min(ts // _DAY_MS, _LAST_DAY))
