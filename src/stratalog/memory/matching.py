"""Which records a `Where` means, as pure functions: what the stores do in their own languages, said once."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

import msgspec

from stratalog.errors import InvalidInput
from stratalog.memory.contract import Record, Scope, Where

Terms: TypeAlias = Callable[[str], Sequence[str]]
MAX_QUERY_TERMS: Final = 64
_CONTROL: Final = dict.fromkeys((*range(32), 127), " ")


def matches(where: Where, record: Record, *, any_status: bool = False) -> bool:
    """Whether all that `where` says holds for the record; with `any_status`, its statuses aside.

    What holds at a moment began at it or before and ends after it: [valid_from, valid_to). What expires at
    `now` has expired.
    """
    return (
        inside(where, record.environment, record.scope)
        and (any_status or record.status in where.statuses)
        and (not where.layers or record.layer in where.layers)
        and (not where.keys or record.key in where.keys)
        and (not where.ids or record.id in where.ids)
        and (not where.entries or any(source.entry in where.entries for source in record.sources))
        and (where.valid_at is None or _held(record, where.valid_at))
        and not (where.now and record.expires_at and record.expires_at <= where.now)
    )


def inside(where: Where, environment: str, scope: Scope) -> bool:
    """Whether `where` reaches the scope in the environment."""
    if where.whole == "tenant":
        return True
    return environment == where.environment and (where.whole == "environment" or scope in where.scopes)


def _held(record: Record, at: int) -> bool:
    begun = record.valid_from is None or record.valid_from.at <= at
    return begun and (record.valid_to is None or at < record.valid_to.at)


def all_of_slots(where: Where) -> bool:
    """Whether `where` means all that is in its slots, and so also what has no record: tombstones."""
    narrowed = where.layers or where.ids or where.entries or where.now
    return not narrowed and where.valid_at is None


def asks_what_lasts(where: Where) -> bool:
    """Whether all that `where` asks, statuses aside, never changes in a record's life."""
    return not (where.layers or where.entries or where.now) and where.valid_at is None


def askable(where: Where, *, any_status: bool = False) -> Where | None:
    """`where` without what no record can be called: lone surrogates, of which there is no UTF-8. None when
    nothing can match."""
    scopes = tuple(dict.fromkeys(scope for scope in where.scopes if is_text(scope.id)))
    reaches = where.whole == "tenant" or (is_text(where.environment) and (scopes or where.whole))
    lists = {name: tuple(filter(is_text, getattr(where, name))) for name in ("keys", "ids", "entries")}
    emptied = any(getattr(where, name) and not kept for name, kept in lists.items())
    if not reaches or not (where.statuses or any_status) or emptied:
        return None
    return msgspec.structs.replace(where, scopes=scopes, **lists)


def is_text(value: str) -> bool:
    """Whether UTF-8 can hold it."""
    return value.isascii() or not any("\ud800" <= char <= "\udfff" for char in value)


def positive(limit: int) -> int:
    """The limit. Raises `InvalidInput` when it is under 1, for a page of nothing never ends."""
    if limit < 1:
        raise InvalidInput("a limit must be at least 1", limit=limit)
    return limit


def asked(query: str, terms: Terms) -> list[str]:
    """The distinct terms to look for; of a long query 64, the first and the last, for what is asked about a
    text stands before it or after it."""
    every = list(dict.fromkeys(_tokens(query.encode("utf-8", "replace").decode(), terms)))
    half = MAX_QUERY_TERMS // 2
    return every if len(every) <= MAX_QUERY_TERMS else every[:half] + every[-half:]


def indexed(record: Record, terms: Terms) -> list[str]:
    """The terms under which a record is found: those of its key and its text."""
    return _tokens(f"{record.key} {record.text}", terms)


def _tokens(text: str, terms: Terms) -> list[str]:
    """The terms as words without spaces, control characters or capitals, whatever they were."""
    return " ".join(terms(text)).translate(_CONTROL).lower().split()


def by_prefix(term: str) -> bool:
    """Whether a term is asked for by its beginning: one East Asian character, of a script without spaces,
    whose terms are characters in pairs."""
    return len(term) == 1 and unicodedata.east_asian_width(term) in "WF"
