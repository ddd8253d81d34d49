"""Earlier sessions and what is remembered, as somebody else's model may look them up, one page at a time.

    sight = Sight(memory, session, who, sees)
    read(sight, memory.session(found.hit.session), around=found.hit.seq)

The model is at the other end of a protocol, and nothing is known of it: all that it is given passes the gate,
and of a session whose residency forbids what that of the asking one allows nothing is given. Which sessions
are whose a surface knows (`sees`), by what it was shown. Nothing is cut off in silence: what is long has a
cursor to go on with.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Final, NamedTuple

import msgspec
from msgspec.structs import replace

from stratalog.engine.core import Found, Stratalog
from stratalog.engine.reading import heard
from stratalog.engine.recalling import (
    IMPORT,
    RRF,
    SAID,
    Most,
    Piece,
    day_of,
    gathered,
    origin_of,
    passed,
    said_piece,
)
from stratalog.engine.remembering import MAX_FOUND, PRODUCTION, Records, Scope
from stratalog.engine.searching import turns_found
from stratalog.engine.session import Session
from stratalog.errors import InvalidInput, NotFound
from stratalog.keys import SessionKey, parse_key
from stratalog.memory.caller import Caller, scopes_of
from stratalog.memory.residency import allowed_reach, permits
from stratalog.recall.documents import words_of
from stratalog.recall.gate import Admitted, Limits, Material, attributed, content_of, presentable
from stratalog.recall.injection import Origin
from stratalog.sessions.catalog import Page
from stratalog.sessions.meta import SessionMeta
from stratalog.types import AnyEntry, is_injected

DEEPEST: Final = 200  # hits of one search, over all its pages
LONGEST: Final = 4_000  # characters of one entry on a page
ROOM: Final = 40_000  # characters of a page
WITHHELD: Final = "(withheld)"
_ANY: Final = Limits(most=10**6, tokens=10**9)  # what is asked for is bounded where it is sought
_BATCH: Final = 50
_SHARED: Final = ("agent", "run")  # whose records other users meet
_NEAR: Final = 31
_CURSOR: Final = re.compile(r"([<>])(\d{1,18})|(\d{1,18})@(\d{1,18})")


class Sight:
    """What one who asks may look up. `session` is that in which is asked, which need not exist; `sees` tells
    by a session's metadata whether it is the asker's to see. Who is `confined` has what is its user's and its
    session's, and reads what the tenant shares: nothing of an agent or a run, which other users meet."""

    def __init__(
        self,
        memory: Stratalog,
        session: Session,
        who: Caller,
        sees: Callable[[Mapping[str, Any]], bool],
        *,
        confined: bool = False,
    ) -> None:
        self.memory = memory
        self.session = session
        self.who = who
        self._confined = confined
        self.scopes: tuple[Scope, ...] = tuple(each for each in scopes_of(who).read if self.may(each.kind))
        self._sees = sees
        self._own = session.meta.metadata

    def may(self, kind: str) -> bool:
        """Whether what is its own of this kind of scope is for it at all."""
        return not self._confined or kind not in _SHARED

    def holds(self, metadata: Mapping[str, Any]) -> bool:
        """Whether a session of which this was said may be looked at."""
        environment = metadata.get("environment", PRODUCTION)
        return (
            self._sees(metadata)
            and environment == self.who.environment
            and permits(metadata, allowed_reach(self._own))
        )

    def find(self, key: str) -> Session:
        """The session of this key. Raises `InvalidKey`, and `NotFound` in the same words whether there is
        none or it may not be looked at."""
        session = self.memory.session(key)
        if not session.exists or not self.holds(session.meta.metadata):
            raise NotFound("there is no such session", key=session.key.local)
        return session


class Known(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """Something that was found, on one line, and who said it where. A record has its `id`, `key`, `layer` and
    `scope` too."""

    text: str
    source: str
    id: str = ""
    key: str = ""
    layer: str = ""
    scope: str = ""


class Said(msgspec.Struct, frozen=True, kw_only=True):
    """A passage of an earlier session that a search found, and the number of the entry that it is of."""

    session: str
    title: str
    seq: int
    role: str
    ts: int
    text: str
    source: str


class Line(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """What one entry says. `withheld`: the gate keeps it out, and `text` is not it. `rest` is the cursor to
    go on with, where there is more of this entry than fits a page."""

    seq: int
    role: str
    ts: int
    text: str
    withheld: bool = False
    rest: str = ""


class Lines(msgspec.Struct, frozen=True, kw_only=True):
    """Some of a session's entries, in order, and the cursors to those before and after them ("": none)."""

    lines: tuple[Line, ...]
    earlier: str = ""
    later: str = ""


class Listed(msgspec.Struct, frozen=True, kw_only=True):
    """One session of a list."""

    session: str
    title: str
    messages: int
    updated_at: int
    pinned: bool


class Sessions(msgspec.Struct, frozen=True, kw_only=True):
    """Some sessions of a list, and the cursor to go on with ("": there are no more)."""

    sessions: tuple[Listed, ...]
    cursor: str = ""


# --- lists ---


def sessions(
    sight: Sight, *, agent: str | None = None, channel: str | None = None, limit: int = 20, cursor: str = ""
) -> Sessions:
    """A page of the sessions in sight: pinned ones first, then the newest. Raises `InvalidInput` for a cursor
    that this did not give."""
    kept: list[SessionMeta] = []
    page = Page((), cursor)
    while True:
        page = sight.memory.sessions(
            agent=agent, channel=channel, limit=min(_BATCH, limit - len(kept)), cursor=page.cursor
        )
        kept += [meta for meta in page.sessions if sight.holds(meta.metadata)]
        if not page.cursor or len(kept) == limit:
            break
    titles = _titles(sight, {meta.key: meta.title for meta in kept})
    return Sessions(
        sessions=tuple(
            Listed(
                session=sight.memory.session(meta.key).key.local,
                title=titles[meta.key],
                messages=meta.messages,
                updated_at=meta.updated_at,
                pinned=meta.pinned,
            )
            for meta in kept
        ),
        cursor=page.cursor,
    )


def _titles(sight: Sight, titles: Mapping[str, str]) -> dict[str, str]:
    """What sessions are called, by their keys, as a model may see it; a title is what somebody said."""
    pieces = [
        Piece(
            Material(id=f"title of {key}", text=title, origin=_titled(key)),
            session=key,
            user=sight.who.user,
            environment=sight.who.environment,
        )
        for key, title in titles.items()
    ]
    held = _held(sight, pieces)
    return {key: WITHHELD if content_of(title) in held else line(title) for key, title in titles.items()}


def _titled(key: str) -> Origin:
    """Whose words a session's title is made of."""
    return "import" if parse_key(key).channel == IMPORT else "user"


def title_of(sight: Sight, session: Session) -> str:
    """What the session is called, as a model may see it."""
    meta = session.meta
    return _titles(sight, {meta.key: meta.title})[meta.key]


# --- searches ---


def said(
    sight: Sight,
    query: str,
    *,
    start: int = 0,
    limit: int = 10,
    agent: str | None = None,
    channel: str | None = None,
    session: str | None = None,
    after_ts: int | None = None,
    before_ts: int | None = None,
) -> tuple[list[Said], bool]:
    """What was said about something in the sessions in sight, best first, without the first `start` hits, and
    whether there are more. What the gate keeps out is told as nothing, so that a page may have fewer than
    `limit`. Raises as `Stratalog.search` does, `NotFound`, and `InvalidInput` past the 200th hit."""
    _not_deeper(start + limit, DEEPEST)
    sought = _sought(
        sight,
        query,
        start + limit + 1,
        agent=agent,
        channel=channel,
        session=sight.find(session).key if session is not None else None,
        after_ts=after_ts,
        before_ts=before_ts,
    )
    found = list(islice(sought, start, start + limit + 1))
    hits = {piece.material.id: (each, piece) for each, piece in found[:limit]}
    admitted = _passed(sight, [piece for _, piece in hits.values()])
    listed = [hits[id] for id in admitted.ids]
    metas = {str(each.hit.session): each.title for each, _ in listed}
    titles = _titles(sight, metas)
    return [
        Said(
            session=each.hit.session.local,
            title=titles[str(each.hit.session)],
            seq=each.hit.seq,
            role=each.hit.role,
            ts=each.hit.ts,
            text=line(piece.material.text),
            source=attributed(piece.material),
        )
        for each, piece in listed
    ], len(found) > limit


def recalled(
    sight: Sight, records: Records, query: str, *, start: int = 0, limit: int = 10
) -> tuple[list[Known], bool]:
    """What may matter for a text out of records, what was said in the sessions in sight, and documents; as
    `said` gives it. Raises as that, and as the records' service does."""
    _not_deeper(start + limit, MAX_FOUND - 1)
    pieces = matter(sight, records, query, most=start + limit + 1)
    return known(sight, pieces[start : start + limit]), len(pieces) > start + limit


def matter(sight: Sight, records: Records, query: str, *, most: int) -> list[Piece]:
    """The same as the gate takes it, which it has not passed; of each source at most so many."""
    told = gathered(
        sight.memory,
        records,
        sight.session,
        sight.who,
        query,
        most=Most(most, 0, most),
        scopes=sight.scopes,
    )
    turns = [
        piece._replace(material=replace(piece.material, score=1 / (RRF + place)))
        for place, (_, piece) in enumerate(islice(_sought(sight, query, most), most), 1)
    ]
    return sorted((*told, *turns), key=lambda each: -each.material.score)


def known(sight: Sight, pieces: Iterable[Piece]) -> list[Known]:
    """What the gate lets through of these, in their order."""
    listed = list(pieces)
    admitted = _passed(sight, listed)
    by_id = {each.material.id: each for each in listed}
    return [_known(by_id[id]) for id in admitted.ids]


def block(sight: Sight, pieces: Iterable[Piece], *, tokens: int) -> str:
    """What the gate lets through of these as one block for a prompt, of at most so many characters; "" for
    nothing."""
    return _passed(sight, list(pieces), Limits(most=10**6, tokens=tokens)).text


def line(text: str) -> str:
    """The text on one line, as a model may see it."""
    return " ".join(presentable(text)[0].split())


def _known(piece: Piece) -> Known:
    told = Known(text=line(piece.material.text), source=attributed(piece.material))
    record = piece.record
    if record is None:
        return told
    return replace(
        told, id=record.id, key=line(record.key), layer=record.layer.value, scope=record.scope.kind
    )


def _not_deeper(depth: int, most: int) -> None:
    if depth > most:
        raise InvalidInput(f"a search gives the {most} best", hint="ask for something narrower")


def _sought(
    sight: Sight, query: str, most: int, *, session: SessionKey | None = None, **which: Any
) -> Iterator[tuple[Found, Piece]]:
    """The hits in sight, of which `most` are wanted, and the pieces that they are for the gate."""
    if not query.strip():
        return
    found = turns_found(
        sight.memory,
        query,
        sight.holds,
        # One depth for several pages, so that they are pages of one list; twice, for some are no pieces.
        limit=2 * (_NEAR if most <= _NEAR else DEEPEST + 1),
        session=session,
        roles=SAID,
        meaning=sight.memory.strata.vectors.allows(sight.session.meta.metadata),
        **which,
    )
    for each in found:
        piece = None if each.hit.injected else said_piece(sight.memory, each, sight.who)
        if piece is not None:
            yield each, piece


# --- reading ---


def read(
    sight: Sight, session: Session, *, around: int | None = None, limit: int = 20, cursor: str = ""
) -> Lines:
    """A page of what a session says, of at most `limit` entries and 40,000 characters: its end, what is
    around the entry number `around`, or what a page before named by a cursor. Entries without words, and
    those that recall put in, are none. Raises `InvalidInput` for a cursor that this did not give, and
    `NotFound`."""
    place = _CURSOR.fullmatch(cursor) if cursor else None
    if cursor and (place is None or around is not None):
        raise InvalidInput("this is no cursor of a page of a session", cursor=ascii(cursor)[:40])
    if place is not None and place[3]:
        return Lines(lines=(_rest(sight, session, int(place[3]), int(place[4])),))
    if place is not None and place[1] == ">":
        after = int(place[2])
        later, more = _parts(_entries(sight, session, after=after), limit, ROOM)
        return _lines(sight, session, later, earlier=f"<{after + 1}", more_later=more)
    if around is None:
        before = int(place[2]) if place is not None else None
        found, more = _parts(_entries(sight, session, before=before, reverse=True), limit, ROOM)
        later_there = f">{before - 1}" if before is not None else ""
        return _lines(sight, session, found[::-1], more_earlier=more, later=later_there)
    half = limit - limit // 2
    later, more_later = _parts(_entries(sight, session, after=around - 1), half, ROOM // 2)
    earlier, more = _parts(
        _entries(sight, session, before=around, reverse=True), max(1, limit - len(later)), ROOM // 2
    )
    return _lines(sight, session, [*earlier[::-1], *later], more_earlier=more, more_later=more_later)


class _Part(NamedTuple):
    """The beginning of what an entry says, or a piece of it from `start` on; `stop` 0: to its end."""

    entry: AnyEntry
    text: str
    start: int = 0
    stop: int = 0


def _entries(sight: Sight, session: Session, **which: Any) -> Iterable[AnyEntry]:
    return heard(session.entries(generations="all", **which), sight.memory.note)


def _parts(entries: Iterable[AnyEntry], limit: int, room: int) -> tuple[list[_Part], bool]:
    """At most so many entries that say something, and whether there are more. One is taken in any case."""
    found: list[_Part] = []
    for entry in entries:
        words = "" if is_injected(entry) else words_of(entry)
        if not words.strip():
            continue
        text = words[:LONGEST]
        if len(found) == limit or (found and len(text) > room):
            return found, True
        found.append(_Part(entry, text, 0, LONGEST if len(words) > LONGEST else 0))
        room -= len(text)
    return found, False


def _rest(sight: Sight, session: Session, seq: int, start: int) -> Line:
    entry = next(iter(_entries(sight, session, after=seq - 1, before=seq + 1)), None)
    words = words_of(entry) if entry is not None and not is_injected(entry) else ""
    if entry is None or start >= len(words):
        raise NotFound("the session has no such entry", key=session.key.local, entry=seq)
    stop = start + LONGEST
    part = _Part(entry, words[start:stop], start, stop if stop < len(words) else 0)
    return _shown(sight, session, [part])[0]


def _lines(
    sight: Sight,
    session: Session,
    parts: list[_Part],
    *,
    earlier: str = "",
    later: str = "",
    more_earlier: bool = False,
    more_later: bool = False,
) -> Lines:
    """The page, with the cursors that are known or follow from its first and last entry."""
    if parts and more_earlier:
        earlier = f"<{parts[0].entry.seq}"
    if parts and more_later:
        later = f">{parts[-1].entry.seq}"
    return Lines(lines=tuple(_shown(sight, session, parts)), earlier=earlier, later=later)


def _pieces(sight: Sight, session: Session, parts: Iterable[_Part]) -> list[Piece]:
    """The parts as the gate takes them."""
    return [
        Piece(
            Material(
                id=f"{session.key}#{each.entry.id}:{each.start}",
                text=each.text,
                origin=origin_of(session.key, each.entry),
                source=", ".join(filter(None, (day_of(each.entry.ts), f"session {session.key.local}"))),
            ),
            session=str(session.key),
            user=sight.who.user,
            environment=sight.who.environment,
        )
        for each in parts
    ]


def closing(sight: Sight, session: Session, *, limit: int, tokens: int) -> str:
    """A session's working memory and what it says last, in order, as one block for a prompt as the gate makes
    it; "" for nothing."""
    parts, _ = _parts(_entries(sight, session, reverse=True), limit, ROOM)
    kept = session.meta.working_memory
    about = Piece(
        Material(
            id=f"working memory of {session.key}",
            text=msgspec.json.encode(kept).decode() if kept else "",
            origin="agent",
            source="working memory",
        ),
        session=str(session.key),
        user=sight.who.user,
        environment=sight.who.environment,
    )
    pieces = [about, *_pieces(sight, session, parts[::-1])]
    return _passed(sight, pieces, Limits(most=limit + 1, tokens=tokens)).text


def _shown(sight: Sight, session: Session, parts: list[_Part]) -> list[Line]:
    held = _held(sight, _pieces(sight, session, parts))
    lines = []
    for each in parts:
        withheld = content_of(each.text) in held
        lines.append(
            Line(
                seq=each.entry.seq,
                role=str(each.entry.__struct_config__.tag),
                ts=each.entry.ts,
                text=WITHHELD if withheld else presentable(each.text)[0],
                withheld=withheld,
                rest=f"{each.entry.seq}@{each.stop}" if each.stop else "",
            )
        )
    return lines


def _held(sight: Sight, pieces: Sequence[Piece]) -> frozenset[str]:
    """The contents of those that may not be shown; a text that is repeated has the content of the first."""
    admitted = _passed(sight, pieces)
    never = {each.id for each in admitted.left_out if each.why == "not let in"}
    held = {each.content for each in admitted.quarantined}
    texts = (each.material.text for each in pieces if each.material.id in never)
    return frozenset(held | {content_of(each) for each in texts})


def _passed(sight: Sight, pieces: Sequence[Piece], limits: Limits = _ANY) -> Admitted:
    """What the gate lets through to the agent that asks."""
    return passed(sight.memory, pieces, agent=sight.who.agent, limits=limits, count=len)
