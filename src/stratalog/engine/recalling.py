"""What may matter for a message out of all that is kept: records, turns of earlier sessions, documents.

Each source gives a few of its best, by words and, where an embedder is configured, by meaning too; the lists
are brought together by rank, for their scores cannot be compared. All of it passes the gate (`recall.gate`);
what the gate keeps out waits in the tenant's quarantine for somebody to look at it, and is told as nothing.

Turns come from sessions of the same user alone, and where none is known from the agent's own of which no
user is known. A session of several users is nobody's here. Of a session whose residency forbids what the
asking one allows nothing comes, for it would leave with the prompt.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple, TypeVar

from msgspec.structs import replace

from stratalog.config import Origin, Trust
from stratalog.engine.asking import times_in
from stratalog.engine.core import Found, Stratalog
from stratalog.engine.embedding import scope_of
from stratalog.engine.holding import quarantine_of
from stratalog.engine.knowing import knowledge_of
from stratalog.engine.notes import is_whose
from stratalog.engine.remembering import Records
from stratalog.engine.seeing import Recalled
from stratalog.engine.session import Session
from stratalog.errors import NotFound
from stratalog.keys import SessionKey, parse_key, tenant_path
from stratalog.memory.caller import Caller, scopes_of
from stratalog.memory.contract import PRODUCTION, Layer, Record, Scope
from stratalog.memory.residency import allowed_reach, permits
from stratalog.memory.service import MAX_NAMED, MAX_PAGE
from stratalog.recall.documents import words_of
from stratalog.recall.excerpt import excerpt
from stratalog.recall.gate import Admitted, Limits, Material, admit, content_of
from stratalog.recall.injection import quarantines, verdict
from stratalog.recall.knowledge import FILE as DOCUMENTS
from stratalog.recall.knowledge_values import Passage
from stratalog.sessions.meta import SessionMeta
from stratalog.types import AnyEntry, Assistant, ToolResult, User

MOST_QUERY: Final = 4_000  # characters of a message by which is sought
RRF: Final = 60  # of reciprocal rank fusion, as its authors have it: the first few places are near alike
SAID: Final = ("user", "assistant", "tool_result")  # the entries of which something is recalled
_MANY: Final = 200  # sessions
_SHOWN: Final = 1_500  # characters of a passage; of a longer one the words around what was found
IMPORT: Final = "import"  # the channel of imported sessions
T = TypeVar("T")


class Most(NamedTuple):
    """How many each source gives at most."""

    records: int = 8
    turns: int = 6
    documents: int = 4


MOST: Final = Most()


class Piece(NamedTuple):
    """A material for the gate, whose it is (for a purge of the quarantine), and the record or the chunk of a
    document that it is; for a turn's the log of its session as it was: its length and its last entry's id."""

    material: Material
    session: str = ""
    user: str = ""
    environment: str = ""
    record: Record | None = None
    chunk: str = ""
    log: tuple[int, str] = (0, "")


def gathered(
    memory: Stratalog,
    records: Records,
    session: Session,
    who: Caller,
    text: str,
    *,
    layers: Sequence[Layer] = (),
    most: Most = MOST,
    scopes: Sequence[Scope] | None = None,
) -> list[Piece]:
    """What may matter, the best first; of records those of these `scopes`, None: all that the caller has.
    Raises what the stores do, and `LaneDenied`."""
    # What is asked about a pasted text stands before it or after it.
    asked = text if len(text) <= MOST_QUERY else f"{text[: MOST_QUERY // 2]}\n{text[-MOST_QUERY // 2 :]}"
    if not asked.strip():
        return []
    sources = [
        _records(memory, records, session, who, asked, layers, most.records, scopes),
        _turns(memory, session, who, asked, most.turns),
        _documents(memory, session, asked, most.documents),
    ]
    scored = [
        each._replace(material=replace(each.material, score=1 / (RRF + place)))
        for found in sources
        for place, each in enumerate(found, 1)
    ]
    return sorted(scored, key=lambda each: -each.material.score)


def passed(
    memory: Stratalog,
    pieces: Sequence[Piece],
    *,
    agent: str = "",
    limits: Limits,
    count: Callable[[str], int],
    shown: frozenset[str] = frozenset(),
) -> Admitted:
    """What the gate lets through, by the settings of this agent, or of the data directory for none. What it
    keeps out is put into quarantine."""
    with quarantine_of(memory) as quarantine:
        admitted = admit(
            [each.material for each in pieces],
            limits=limits,
            count=count,
            shown=shown,
            released=quarantine.released(),
            trust=trust_in(memory, agent),
        )
        whose = {each.material.id: each for each in pieces}
        for held in admitted.quarantined:
            piece = whose[held.material]
            quarantine.put(
                held.content,
                text=held.text,
                origin=held.origin,
                level=held.level,
                reasons=held.reasons,
                source=held.source,
                session=piece.session,
                user=piece.user,
                environment=piece.environment,
            )
    return admitted


def trust_in(memory: Stratalog, agent: str) -> dict[Origin, Trust]:
    """Whom this agent's settings trust how far, over the gate's own table."""
    return memory.settings_of(agent).gate.trust


def piece_of(record: Record) -> Piece:
    """A record as the gate takes it."""
    said = f"{day_of(record.updated_at)}, record {record.key}"
    scope = record.scope
    session = scope.id if scope.kind == "session" else record.sources[0].session if record.sources else ""
    return Piece(
        Material(id=record.id, text=record.text, origin=_speaker(record), source=said),
        session=session,
        user=scope.id if scope.kind == "user" else "",
        environment=record.environment,
        record=record,
    )


def _speaker(record: Record) -> Origin:
    """Who says what is in a record. A preview is made by a program, of words of the user and of its reply."""
    preview = record.layer == Layer.SHORT and record.origin == "tool" and record.key.startswith("pair ")
    return "agent" if preview else record.origin


def day_of(ts: int) -> str:
    """The day of a time, UTC; "" for an unknown one and for one past the year 9999."""
    try:
        return datetime.fromtimestamp(ts / 1000, UTC).date().isoformat() if ts > 0 else ""
    except (OverflowError, ValueError):
        return ""


def fused(*lists: Iterable[T], key: Callable[[T], object]) -> list[T]:
    """The lists as one, by reciprocal rank fusion; of equals the one that came first."""
    scores: dict[object, float] = {}
    first: dict[object, T] = {}
    for each in lists:
        for place, item in enumerate(each, 1):
            first.setdefault(key(item), item)
            scores[key(item)] = scores.get(key(item), 0.0) + 1 / (RRF + place)
    return sorted(first.values(), key=lambda item: -scores[key(item)])


def standing(
    memory: Stratalog, records: Records, session: Session, who: Caller, told: Mapping[str, Recalled]
) -> dict[str, Recalled]:
    """Those of the turns' blocks of which all may still be shown to this caller: records that hold, turns of
    sessions that are there, are theirs and allowed, passages that are still in their documents."""
    pieces = [piece for each in told.values() for piece in each.of]
    held = _holding(records, who, [each.record for each in pieces if each.record is not None])
    there = _passages(memory, [each.chunk for each in pieces if each.chunk])
    turns = {each.session for each in pieces if each.record is None and not each.chunk}
    keys = {each: parse_key(each, memory.tenant) for each in turns}
    metas = memory.strata.told(keys.values()) if keys else {}
    allowed = allowed_reach(session.meta.metadata)

    def stands(piece: Piece) -> bool:
        if piece.record is not None:
            return piece.record.id in held
        if piece.chunk:
            return piece.chunk in there
        meta = metas.get(keys[piece.session])
        if meta is None or not _is_whose(meta, who) or not permits(meta.metadata, allowed):
            return False
        return _is_that_log(memory, meta, piece.log)

    return {turn: each for turn, each in told.items() if all(map(stands, each.of))}


# --- records ---


def _records(
    memory: Stratalog,
    records: Records,
    session: Session,
    who: Caller,
    text: str,
    layers: Sequence[Layer],
    most: int,
    scopes: Sequence[Scope] | None,
) -> list[Piece]:
    if most < 1:
        return []
    told = records.service.recall(who, text, scopes=scopes, layers=layers, limit=most)
    found = [each.record for each in told.found]
    asked = scopes_of(who).read if scopes is None else scopes
    places = [scope_of(who.environment, each.kind, each.id) for each in asked]
    question = memory.strata.vectors.question("records", text, metadata=session.meta.metadata, scopes=places)
    near: list[Record] = []
    for _, id in question.nearest(most) if question is not None else ():
        record = next((each for each in found if each.id == id.partition(":")[0]), None)
        if record is None:
            record = _held(records, who, id.partition(":")[0], layers)
        near += [record] if record is not None and record.scope in asked else []
    return [piece_of(each) for each in fused(found, near, key=lambda each: each.id)[:most]]


def _holding(records: Records, who: Caller, wanted: Sequence[Record]) -> set[str]:
    """The ids of those records that hold now, as the caller may see them."""
    ids = {each.id for each in wanted}
    keys = sorted({each.key for each in wanted})
    found: set[str] = set()
    for start in range(0, len(keys), MAX_NAMED):
        some = keys[start : start + MAX_NAMED]
        page = records.service.current(who, keys=some, limit=MAX_PAGE)
        found |= {each.id for each in page.records}
        while page.next:
            page = records.service.current(who, keys=some, limit=MAX_PAGE, after=page.next)
            found |= {each.id for each in page.records}
    return ids & found


def _held(records: Records, who: Caller, id: str, layers: Sequence[Layer]) -> Record | None:
    """The record of this id, if it is one that the caller's search by words could have found."""
    try:
        record = records.service.get(who, id)
    except NotFound:
        return None
    holding = records.service.current(who, keys=(record.key,), layers=layers, scopes=(record.scope,)).records
    return next((each for each in holding if each.id == id), None)


# --- turns ---


def _turns(memory: Stratalog, session: Session, who: Caller, text: str, most: int) -> list[Piece]:
    if most < 1:
        return []
    own = session.meta
    related = {str(session.key), own.forked_from}
    every = memory.strata.page(agent=None if who.user else session.key.agent).sessions
    mine = {
        str(meta.key): (meta.seq, meta.last)
        for meta in every
        if _is_whose(meta, who)
        and not related & {str(meta.key), meta.forked_from or "-"}
        and permits(meta.metadata, allowed_reach(own.metadata))
    }
    if not mine:
        return []
    # To look for many sessions by name takes longer than to leave out what is of the few others.
    most_of_all = len(mine) > _MANY and 3 * len(mine) >= len(every)
    found = memory.search(
        text,
        limit=(4 if most_of_all else 2) * most,
        agent=None if who.user else session.key.agent,
        roles=SAID,
        sessions=None if most_of_all else mine,
        per_session=max(1, most - most // 3),
        times=times_in(text, memory.settings_of(session.key.agent).memory.zone),
        meaning=memory.strata.vectors.allows(own.metadata),
    )
    pieces = (
        said_piece(memory, each, who)
        for each in found
        if str(each.hit.session) in mine and not each.hit.injected
    )
    return [each._replace(log=mine[each.session]) for each in pieces if each is not None][:most]


def _is_that_log(memory: Stratalog, meta: SessionMeta, known: tuple[int, str]) -> bool:
    """Whether the session's log is the one that was so long, and ended so, and not another of its name."""
    seq, last = known
    if (meta.seq, meta.last) == known:
        return True
    at = memory.store.read(parse_key(meta.key), after=seq - 1, before=seq + 1, blobs=False, generations="all")
    return any(entry.id == last for entry in at)


def _is_whose(meta: SessionMeta, who: Caller) -> bool:
    """Whether a session is this user's alone, or nobody's where none is known, and of this environment."""
    return (
        is_whose(meta.metadata, who.user) and meta.metadata.get("environment", PRODUCTION) == who.environment
    )


def said_piece(memory: Stratalog, found: Found, who: Caller) -> Piece | None:
    """A passage of an entry as the gate takes it; None where the entry is not there any more."""
    hit = found.hit
    entry = next(
        iter(memory.store.read(hit.session, after=hit.seq - 1, before=hit.seq + 1, generations="all")), None
    )
    if entry is None or entry.id != hit.entry_id:
        return None
    origin = origin_of(hit.session, entry)
    passage = words_of(entry)[hit.start : hit.stop].strip()
    # The whole of it is judged: what is kept out must not enter in parts.
    trust = trust_in(memory, hit.session.agent)
    part = ""
    if len(passage) > _SHOWN and not quarantines(origin, verdict(passage, origin).level, trust):
        passage = excerpt(passage, hit.terms, _SHOWN)
        part = content_of(passage)  # other words are answered by another part of it
    return Piece(
        Material(
            id=f"{hit.session}#{hit.entry_id}:{hit.start}{part}",
            text=passage,
            origin=origin,
            source=", ".join(filter(None, (day_of(hit.ts), f"session {hit.session.local}"))),
        ),
        session=str(hit.session),
        user=who.user,
        environment=who.environment,
    )


def origin_of(key: SessionKey, entry: AnyEntry) -> Origin:
    """Who says what is in an entry of this session."""
    if isinstance(entry, ToolResult):
        return "tool"
    if key.channel == IMPORT or "source" in (entry.meta or {}):
        return "import"
    return "user" if isinstance(entry, User) else "agent" if isinstance(entry, Assistant) else "model"


# --- documents ---


def _documents(memory: Stratalog, session: Session, text: str, most: int) -> list[Piece]:
    if most < 1 or not (tenant_path(memory.data, memory.tenant) / DOCUMENTS).exists():
        return []
    return [_read(each) for each in passages_of(memory, text, most, metadata=session.meta.metadata)]


def passages_of(
    memory: Stratalog,
    text: str,
    most: int,
    *,
    metadata: dict[str, Any] | None = None,
    meaning: bool = True,
    collections: Collection[str] | None = None,
    neighbours: int = 0,
) -> list[Passage]:
    """The best passages of the tenant's documents, or of these collections, by words, and by meaning where
    that is to be had. Raises what `Knowledge.search` does."""
    with knowledge_of(memory) as knowledge:
        found = knowledge.search(text, collections=collections, limit=most, neighbours=neighbours)
        if not meaning:
            return found
        vectors = memory.strata.vectors
        question = vectors.question("documents", text, metadata=metadata or {}, scopes=collections)
        if question is None:
            return found
        ids = [id for _, id in question.nearest(most)]
        near = knowledge.passages(ids, neighbours=neighbours)
    return fused(found, near, key=lambda each: each.chunk.id)[:most]


def _passages(memory: Stratalog, ids: Sequence[str]) -> set[str]:
    """Those of the chunks that are still there."""
    if not ids:
        return set()
    with knowledge_of(memory) as knowledge:
        return knowledge.there(ids)


def _read(passage: Passage) -> Piece:
    chunk, document = passage.chunk, passage.document
    where = f"{document.unit} {chunk.first}" if document.unit and chunk.first else ""
    source = ", ".join(filter(None, (f"document {document.title or document.name}", where)))
    material = Material(id=f"document {chunk.id}", text=chunk.text, origin="import", source=source)
    return Piece(material, chunk=chunk.id)
