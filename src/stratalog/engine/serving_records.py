"""Records that are served: which contradict one another, and where in a session their sources stand."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, NamedTuple

from stratalog.engine.core import Stratalog
from stratalog.engine.remembering import MAX_PAGE, Caller, MemoryService, Record, RecordPage, Source
from stratalog.errors import InvalidInput, InvalidKey, LogError, NotFound
from stratalog.ids import ULID
from stratalog.keys import SessionKey

_PAGES: Final = 20  # of 1,000 records, that are looked at for one page of contradictions


class Place(NamedTuple):
    """Where a source stands: the session, the number of the entry in its present history and its turn; None
    and "" where it is not there, or not to be told."""

    source: Source
    key: SessionKey
    seq: int | None = None
    turn: str = ""


def record_place(cursor: str) -> str:
    """The place in a list of records that a cursor names; "" is the beginning. Raises `InvalidInput` for one
    that no list gave: what would come after it is not the rest of any list."""
    if cursor and not ULID.match(cursor):
        raise InvalidInput("this place was not given by a list of records", hint="begin without a cursor")
    return cursor


def contradicted(
    service: MemoryService, who: Caller, *, limit: int, after: str = "", **which: Any
) -> RecordPage:
    """A page of the current records that others contradict, as `MemoryService.list` pages and filters. It may
    have fewer than asked for and go on all the same: it ends after 20,000 records that were looked at."""
    found: list[Record] = []
    for _ in range(_PAGES):
        page = service.list(who, limit=MAX_PAGE, after=after, **which)
        for each in page.records:
            if each.conflict_with:
                found.append(each)
                if len(found) == limit:
                    last = each.id == page.records[-1].id and not page.next
                    return RecordPage(tuple(found), "" if last else each.id)
        after = page.next
        if not after:
            break
    return RecordPage(tuple(found), after)


def places(
    memory: Stratalog, sources: Sequence[Source], sees: Callable[[Mapping[str, Any]], bool]
) -> list[Place]:
    """Where these sources stand; of a session that is not in sight, which `sees` tells by its metadata, only
    that it is one. What names no session of the tenant is left out."""
    found = []
    for source in sources:
        with suppress(InvalidKey):
            session = memory.session(source.session)
            place = Place(source, session.key)
            with suppress(NotFound, LogError):
                if session.exists and sees(session.meta.metadata):
                    entry = session.entry(source.entry)
                    place = Place(source, session.key, entry.seq, entry.turn)
            found.append(place)
    return found
