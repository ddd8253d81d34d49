"""MEMORY.md of each agent and USER.md of each user: made of the records, read by people and by models.

A page tells the lasting records of one scope, an agent's or a user's; see `memory.profiles` for what it may
and may not change. Where the last pass had read to stands in the page itself, as the number of an event of
the records' history: so a pass that was killed is finished by the next, and one that finds nothing new writes
nothing. Every environment but production has pages of its own.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Final

import msgspec

from stratalog.errors import InvalidInput
from stratalog.keys import agent_memory_path, user_memory_path
from stratalog.memory.contract import PRODUCTION, Event, Layer, Record, RecordStore, Scope, Status, Where
from stratalog.memory.profiles import Profile, ProfileFiles, Update, ids_of, render, shown, updated

__all__ = [
    "PageOf",
    "Pass",
    "Refreshed",
    "all_hold",
    "current_words",
    "page_files",
    "refresh",
    "render",
    "shown",
]

MOST_EVENTS: Final = 20_000  # that one pass looks at
_PAGE: Final = 500
_LASTING: Final = (Layer.MID, Layer.LONG)
_EVERY: Final[tuple[Status, ...]] = ("current", "superseded", "forgotten")


class PageOf(msgspec.Struct, frozen=True, order=True):
    """Whose page it is."""

    scope: Scope
    environment: str = PRODUCTION

    @property
    def name(self) -> str:
        return "MEMORY.md" if self.scope.kind == "agent" else "USER.md"


class Refreshed(msgspec.Struct, frozen=True, kw_only=True):
    """What a pass did to one page, in lines; `refused` says why nothing was done ("": it was not)."""

    page: PageOf
    added: int = 0
    changed: int = 0
    removed: int = 0
    left_out: int = 0
    kept: int = 0
    refused: str = ""


class Pass(msgspec.Struct, frozen=True, kw_only=True):
    """The pages that a pass changed or was refused, and the number of the event after which the next goes on.
    `more`: it stopped early."""

    pages: tuple[Refreshed, ...] = ()
    watermark: int = 0
    more: bool = False


def page_files(data: Path, tenant: str, page: PageOf) -> ProfileFiles:
    """The page's files, which need not be there. Raises `InvalidInput` for a scope that has no page, and
    `InvalidKey`."""
    path_of = {"agent": agent_memory_path, "user": user_memory_path}.get(page.scope.kind)
    if path_of is None or not page.scope.id:
        raise InvalidInput("only agents and users have a page", scope=page.scope.kind)
    return ProfileFiles(path_of(data, tenant, page.scope.id, page.environment))


def refresh(
    store: RecordStore,
    data: Path,
    tenant: str,
    *,
    after: int = 0,
    only: PageOf | None = None,
    anew: bool = False,
    most_removed: float = 0.3,
    may_empty: bool = False,
) -> Pass:
    """Brings the pages up to date with what happened to records after the event `after`; with `only` one, and
    with what happened since its own last pass. `anew` begins with the first event, as is to be done after
    records were put back from a backup, whose events have lower numbers than the pages know.

    A page that would lose more than the share `most_removed` of its lines, or all that it says unless it
    `may_empty`, is left as it is, and looked at again when there is more for it. What is forgotten leaves the
    kept versions too. Raises what the store and `ProfileFiles` raise; the pages before that are written.
    """
    seen: dict[PageOf, int] = {}
    if only is not None and not anew:
        after = page_files(data, tenant, only).read().watermark
    last = after
    events = _events(store, after, only)
    for event in itertools.islice(events, MOST_EVENTS):
        last = event.seq
        page = PageOf(event.record.scope, event.record.environment)
        if page.scope.kind in ("agent", "user"):
            seen[page] = event.seq
    more = next(events, None) is not None
    done = [
        _refreshed(store, page_files(data, tenant, page), page, seen[page], anew, most_removed, may_empty)
        for page in sorted(seen)
    ]
    return Pass(pages=tuple(each for each in done if each is not None), watermark=last, more=more)


def _events(store: RecordStore, after: int, only: PageOf | None) -> Iterator[Event]:
    where = Where(environment=PRODUCTION, scopes=(), whole="tenant")
    if only is not None:
        where = Where(environment=only.environment, scopes=(only.scope,))
    while batch := store.history(where, limit=_PAGE, after=after):
        yield from batch
        after = batch[-1].seq


def _refreshed(
    store: RecordStore,
    files: ProfileFiles,
    page: PageOf,
    upto: int,
    anew: bool,
    most_removed: float,
    may_empty: bool,
) -> Refreshed | None:
    """One page with what happened up to the event `upto`; None when there was nothing to do."""
    before = files.read()
    begin = 0 if anew else before.watermark
    events = itertools.takewhile(lambda event: event.seq <= upto, _events(store, begin, page))
    new = list(dict.fromkeys(event.record.id for event in events))
    if not new:
        return None
    found = list(_found(store, page, new, _EVERY))
    records = [each for each in found if each.layer in _LASTING or each.status != "current"]
    gone = set(new) - {each.id for each in found}
    if not before.watermark and not ids_of(before) and not any(each.status == "current" for each in records):
        return None  # a page that would say nothing is not begun
    update = files.refresh(
        partial(updated, records=records, gone=gone, limit_removed=most_removed, may_empty=may_empty),
        watermark=upto,
    )
    forgotten = gone | {each.id for each in records if each.status == "forgotten"}
    if forgotten and not update.refused:
        files.forget(forgotten)
    return _told(page, update)


def _found(
    store: RecordStore, page: PageOf, ids: Sequence[str], statuses: tuple[Status, ...]
) -> Iterator[Record]:
    for start in range(0, len(ids), _PAGE):
        some = tuple(ids[start : start + _PAGE])
        where = Where(environment=page.environment, scopes=(page.scope,), ids=some, statuses=statuses)
        yield from store.find(where, limit=_PAGE).records


def _told(page: PageOf, update: Update) -> Refreshed | None:
    if update.refused:
        return Refreshed(page=page, refused=update.refused)
    told = Refreshed(
        page=page,
        added=len(update.added),
        changed=len(update.changed),
        removed=len(update.removed),
        left_out=len(update.left_out),
        kept=len(update.kept),
    )
    return None if told == Refreshed(page=page) else told


def current_words(store: RecordStore, page: PageOf, profile: Profile) -> tuple[str, frozenset[str]]:
    """What the page says without its comments, and the ids of the records that it says it of. A line whose
    record does not hold any more is left out, also where no pass came by since."""
    ids = ids_of(profile)
    hold = frozenset(each.id for each in _found(store, page, sorted(ids), ("current",)))
    return shown(profile, ids - hold).strip(), hold


def all_hold(store: RecordStore, pages: Iterable[PageOf], ids: Iterable[str]) -> bool:
    """Whether each of these records, of these pages, is current."""
    left = set(ids)
    for page in pages:
        left -= {each.id for each in _found(store, page, sorted(left), ("current",))}
    return not left
