"""What a search finds of turns, records and documents, each with what its score is made of, and as one list.

Turns are scored by `recall.ranking`. Records and documents are found by words and, where there are vectors,
by meaning; the two lists are one by reciprocal rank fusion, and what each gave to a score are its parts. The
three kinds are brought together by place, for their scores cannot be compared.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple, TypeAlias, TypeVar

from stratalog.engine.asking import times_in
from stratalog.engine.core import Found, Stratalog
from stratalog.engine.embedding import scope_of
from stratalog.engine.knowing import Passage, knowledge_of
from stratalog.engine.recalling import RRF, fused
from stratalog.engine.remembering import MAX_FOUND, Caller, Layer, Record, Records, Scope
from stratalog.errors import NotFound
from stratalog.keys import SessionKey
from stratalog.memory.caller import scopes_of

__all__ = [
    "Found",
    "FoundPassage",
    "FoundRecord",
    "Hit",
    "Recall",
    "documents_found",
    "ranked",
    "records_found",
    "together",
    "turns_found",
]

T = TypeVar("T")
Sees: TypeAlias = Callable[[Mapping[str, Any]], bool]


class FoundRecord(NamedTuple):
    """A record that was found. `parts` add up to `score`: "words", "meaning"."""

    record: Record
    score: float
    parts: dict[str, float]


class FoundPassage(NamedTuple):
    """A passage of a document that was found; as `FoundRecord`."""

    passage: Passage
    score: float
    parts: dict[str, float]


class Recall(NamedTuple):
    """Records, the best first; `more`: there were more than asked for."""

    found: list[FoundRecord]
    more: bool


Hit: TypeAlias = Found | FoundRecord | FoundPassage


def ranked(
    lists: Mapping[str, Iterable[T]], key: Callable[[T], object]
) -> list[tuple[T, float, dict[str, float]]]:
    """The named lists as one, by reciprocal rank fusion, each item with its score and what each list gave to
    it; of equals the one that came first."""
    first: dict[object, T] = {}
    parts: dict[object, dict[str, float]] = {}
    for name, items in lists.items():
        for place, item in enumerate(items, 1):
            first.setdefault(key(item), item)
            parts.setdefault(key(item), {}).setdefault(name, 1 / (RRF + place))
    found = [(item, sum(parts[id].values()), parts[id]) for id, item in first.items()]
    return sorted(found, key=lambda each: -each[1])


def together(
    turns: Iterable[Found], records: Iterable[FoundRecord], documents: Iterable[FoundPassage]
) -> list[Hit]:
    """The three lists as one: the first of each, then the second of each, and so on."""
    return fused(list[Hit](turns), list[Hit](records), list[Hit](documents), key=id)


def turns_found(
    memory: Stratalog,
    query: str,
    sees: Sees | None = None,
    *,
    limit: int = 10,
    agent: str | None = None,
    channel: str | None = None,
    user: str | None = None,
    session: SessionKey | None = None,
    **which: Any,
) -> list[Found]:
    """What was said about something, as `Stratalog.search` finds it (`which` are more of its filters), with
    the times that the query speaks of; in the sessions of this user, as `Stratalog.sessions` takes it. `sees`
    tells by a session's metadata whether it is the asker's to see; None: every one is."""
    among = None
    if session is None and not (sees is None and user is None):
        listed = memory.sessions(agent=agent, channel=channel, user=user).sessions
        among = [meta.key for meta in listed if sees is None or sees(meta.metadata)]
    return memory.search(
        query,
        limit=limit,
        agent=agent,
        channel=channel,
        session=session,
        sessions=among,
        times=times_in(query, memory.settings_of().memory.zone),
        **which,
    )


def records_found(
    records: Records,
    who: Caller,
    query: str,
    *,
    scopes: Sequence[Scope] | None = None,
    layers: Sequence[Layer] = (),
    limit: int = 10,
    as_of: int | None = None,
    everyone: bool = False,
    meaning: bool = True,
) -> Recall:
    """The records of `MemoryService.recall`, and those that are near in meaning, where there are vectors and
    the caller's session may be asked; of what held at `as_of` by words alone. Raises as that does."""
    told = records.service.recall(
        who, query, scopes=scopes, layers=layers, limit=limit, as_of=as_of, everyone=everyone
    )
    words = [each.record for each in told.found]
    near: list[Record] = []
    if meaning and as_of is None:
        asked = None if everyone else scopes_of(who).read if scopes is None else scopes
        near = _near(records, who, query, asked, layers, min(limit + 1, MAX_FOUND), words)
    found = ranked({"words": words, "meaning": near}, key=lambda each: each.id)
    return Recall([FoundRecord(*each) for each in found[:limit]], told.more or len(found) > limit)


def documents_found(
    memory: Stratalog,
    query: str,
    *,
    limit: int = 10,
    collections: Collection[str] | None = None,
    neighbours: int = 0,
    meaning: bool = True,
) -> list[FoundPassage]:
    """The best passages of the tenant's documents, by words, and by meaning where there are vectors. Raises
    `NotFound` for a collection that is not there."""
    with knowledge_of(memory) as knowledge:
        words = knowledge.search(query, collections=collections, limit=limit, neighbours=neighbours)
        vectors = memory.strata.vectors
        question = vectors.question("documents", query, scopes=collections) if meaning else None
        ids = [id for _, id in question.nearest(limit)] if question is not None else []
        near = knowledge.passages(ids, neighbours=neighbours)
    found = ranked({"words": words, "meaning": near}, key=lambda each: each.chunk.id)
    return [FoundPassage(*each) for each in found[:limit]]


def _near(
    records: Records,
    who: Caller,
    query: str,
    scopes: Sequence[Scope] | None,
    layers: Sequence[Layer],
    most: int,
    words: Sequence[Record],
) -> list[Record]:
    """The current records nearest in meaning, of those that the search by words could have found; of every
    scope with None, where some of the nearest may be of another environment, and are left out."""
    memory = records.memory
    metadata = memory.session(who.session).meta.metadata if who.session else {}
    places = None
    if scopes is not None:
        places = [scope_of(who.environment, each.kind, each.id) for each in scopes]
    question = memory.strata.vectors.question("records", query, metadata=metadata, scopes=places)
    if question is None:
        return []
    known = {each.id: each for each in words}
    found: dict[str, Record] = {}
    for _, name in question.nearest(most):
        id = name.partition(":")[0]
        record = known.get(id) or _holding(records, who, id, scopes, layers)
        if record is not None:
            found.setdefault(id, record)
    return list(found.values())


def _holding(
    records: Records, who: Caller, id: str, scopes: Sequence[Scope] | None, layers: Sequence[Layer]
) -> Record | None:
    """The record of this id, if it holds now, is the caller's to see, and is of these scopes and layers."""
    with suppress(NotFound):
        record = records.service.get(who, id)
        if scopes is None or record.scope in scopes:
            holding = records.service.current(
                who, keys=(record.key,), layers=layers, scopes=(record.scope,)
            ).records
            return next((each for each in holding if each.id == id), None)
    return None
