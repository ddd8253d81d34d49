"""What is done with sessions that are served: beginning and deleting one, pages of entries."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal

import msgspec

from stratalog.engine.remembering import PRODUCTION, Records
from stratalog.engine.session import Session
from stratalog.errors import InvalidInput, NotFound
from stratalog.sessions.meta import METADATA, SessionMeta
from stratalog.types import AnyEntry, Note, System, Title

__all__ = ["EntryPage", "SessionMeta", "begun", "deleted", "entries_page"]

MOST_ENTRIES: Final = 500


class EntryPage(msgspec.Struct, frozen=True):
    """Entries in the order of the log, and the numbers to go on `before` and `after`; None where there are
    none on that side."""

    entries: tuple[AnyEntry, ...]
    before: int | None = None
    after: int | None = None


def begun(session: Session, metadata: Mapping[str, Any], *, title: str = "", system: str = "") -> SessionMeta:
    """Begins a session with what is said of it, whole or not at all. Raises `SessionExists`."""
    first: list[AnyEntry] = [Note(kind=METADATA, data=dict(metadata))]
    first += [System(content=system)] if system else []
    first += [Title(title=title)] if title else []
    session.begin_with(first)
    return session.meta


def deleted(session: Session, records: Records) -> None:
    """Deletes the session with its records. Raises `NotFound`."""
    if not session.exists:
        raise NotFound("there is no such session", key=str(session.key))
    environment = str(session.meta.metadata.get("environment") or PRODUCTION)
    session.delete()
    records.drop_session(session.key, environment)


def entries_page(
    session: Session,
    *,
    before: int | None = None,
    after: int | None = None,
    limit: int = 50,
    payloads: bool = False,
    generations: Literal["current", "all"] = "current",
) -> EntryPage:
    """Entries next to a number: the first after `after`, or else the last before `before` (or the end).

    Raises `InvalidInput` for both, or a limit that is not from 1 to 500.
    """
    if not 1 <= limit <= MOST_ENTRIES:
        raise InvalidInput("a page has from 1 to 500 entries", limit=limit)
    if after is not None and before is not None:
        raise InvalidInput("a page goes on `before` or `after` a number", hint="give one of them")
    forward = after is not None
    reading = session.entries(
        after=after or 0, before=before, reverse=not forward, blobs=payloads, generations=generations
    )
    found: list[AnyEntry] = []
    more = False
    for entry in reading:
        if len(found) == limit:
            more = True
            break
        found.append(entry)
    if not forward:
        found.reverse()
    if not found:
        return EntryPage(())
    older = found[0].seq > 1 if forward else more
    newer = more if forward else found[-1].seq < session.end
    return EntryPage(
        tuple(found), before=found[0].seq if older else None, after=found[-1].seq if newer else None
    )
