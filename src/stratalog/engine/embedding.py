"""What is to be embedded of a tenant, and one pass over it: for a worker in the background.

A session whose residency forbids the embedder's reach gives nothing, and neither do records that stay with it
or were drawn from it. It is looked at again before each request, so that a residency that is set meanwhile
counts from the next one on.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol

from stratalog.engine.core import Stratalog
from stratalog.engine.knowing import knowledge_of
from stratalog.engine.meaning import WHATS, What
from stratalog.engine.reading import heard
from stratalog.engine.remembering import Records
from stratalog.errors import InvalidKey, LaneDenied, LogError, SpendLimit
from stratalog.ids import now_ms
from stratalog.keys import parse_key
from stratalog.log.contract import Problem
from stratalog.memory.contract import Layer, Record, Where
from stratalog.memory.governor import day_of
from stratalog.memory.residency import RESIDENCY, permits
from stratalog.models.contract import Reach
from stratalog.recall.documents import words_of
from stratalog.recall.embed_due import Document, Done, Source, embed_due, plan
from stratalog.recall.knowledge import Knowledge
from stratalog.tokens.rough import count_text

if TYPE_CHECKING:
    from stratalog.recall.embed import Embedder, Space, Vectors

MOST: Final = 512  # texts in one pass
_PAGE: Final = 500


class _Checked(Source, Protocol):
    """A source that says whether a scope may still be sent."""

    def check(self, scope: str) -> None:
        """Raises `LaneDenied` where it may not."""
        ...


def embed(
    memory: Stratalog, records: Records, *, charge: Callable[[Sequence[str]], None], most: int = MOST
) -> Done:
    """One pass over what was said, then over records and documents: some `most` texts of what is due.
    `charge` is told of the texts of each request before it is made, and may raise.

    Raises `InvalidConfig` where the embedder cannot be had, and what it and the stores raise; what was
    embedded before stays.
    """
    vectors = memory.strata.vectors
    embedder = vectors.embedding.passages()
    total = Done(embedded=0, refused=0, left=False)
    with knowledge_of(memory) as knowledge:
        for what in WHATS:
            if total.embedded + total.refused >= most:
                return Done(embedded=total.embedded, refused=total.refused, left=True)
            source = _source(memory, records, knowledge, what, embedder.reach)
            if what != "turns" and not (vectors.directory / what).is_dir() and not source.marks():
                continue
            done = _pass(memory, what, embedder, source, charge, most - total.embedded - total.refused)
            total = Done(
                embedded=total.embedded + done.embedded,
                refused=total.refused + done.refused,
                left=total.left or done.left,
            )
    return total


def _pass(
    memory: Stratalog,
    what: What,
    embedder: Embedder,
    source: _Checked,
    charge: Callable[[Sequence[str]], None],
    most: int,
) -> Done:
    store = memory.strata.vectors.store(what)
    watched = _Watched(source)
    careful = _Careful(embedder, watched, charge)
    try:
        done = embed_due(careful, store, watched, most)
    except LaneDenied as error:
        memory.note(Problem(f"a session is not embedded: {error.what}", key=str(error.where.get("key", ""))))
        done = Done(embedded=careful.sent, refused=0, left=True)
    if not done.left:
        for scope in set(store.marks(embedder.space)) - set(source.marks()) if what != "turns" else ():
            store.remove_scope(scope)  # of sessions, who deletes one removes its own
    for space in plan(store.spaces(), embedder.space).drop:
        store.drop_space(space)
    if not done.left:
        store.warm(embedder.space)
    return done


class _Watched:
    """A source, and which of its scopes was read last: that is the one which is being embedded."""

    def __init__(self, under: _Checked) -> None:
        self._under = under
        self._scope = ""
        self.marks = under.marks

    def documents(self, scope: str) -> Iterable[Document]:
        self._scope = scope
        return self._under.documents(scope)

    def check(self) -> None:
        if self._scope:
            self._under.check(self._scope)


class _Careful:
    """An embedder that is asked only for what may still be sent and paid for. `sent` counts texts."""

    def __init__(self, under: Embedder, watched: _Watched, charge: Callable[[Sequence[str]], None]) -> None:
        self._under, self._watched, self._charge = under, watched, charge
        self.sent = 0
        self.embed_query = under.embed_query
        self.close = under.close

    @property
    def space(self) -> Space:
        return self._under.space

    @property
    def reach(self) -> Reach:
        return self._under.reach

    def embed_passages(self, texts: Sequence[str]) -> Vectors:
        self._watched.check()
        self._charge(texts)
        found = self._under.embed_passages(texts)
        self.sent += len(texts)
        return found


def _source(memory: Stratalog, records: Records, knowledge: Knowledge, what: What, reach: Reach) -> _Checked:
    if what == "turns":
        return _Turns(memory, reach)
    return _Lasting(memory, records, reach) if what == "records" else _Documents(knowledge)


class _Turns:
    """What was said, by session: the passages that the index of words has, read from the logs."""

    def __init__(self, memory: Stratalog, reach: Reach) -> None:
        self._memory = memory
        self._reach = reach

    def marks(self) -> Mapping[str, str]:
        with self._memory.strata.index() as index:
            seen = index.marks()
        return {
            scope: mark
            for scope, mark in seen.items()
            if (meta := self._memory.strata.catalog.get(parse_key(scope))) is not None
            and permits(meta.metadata, self._reach)
        }

    def documents(self, scope: str) -> Iterator[Document]:
        key = parse_key(scope)
        note = self._memory.note
        if not self._allowed(scope) or self._memory.store.head(key) is None:
            return
        places: dict[int, list[tuple[str, int, int]]] = {}
        with self._memory.strata.index() as index:
            for id, start, stop, seq in index.document_keys(key):
                places.setdefault(seq, []).append((id, start, stop))
        try:
            for entry in heard(self._memory.store.read(key, generations="all"), note):
                # What recall itself had put there would be found in place of what it was taken from.
                if entry.seq in places and (entry.meta or {}).get("injected") is not True:
                    text = words_of(entry)
                    for id, start, stop in places[entry.seq]:
                        yield Document(id, text[start:stop])
        except LogError as error:
            note(Problem(f"not all of it is embedded: {error}", key=scope))

    def check(self, scope: str) -> None:
        if not self._allowed(scope):
            raise LaneDenied("the session's residency forbids an embedder that reaches so far", key=scope)

    def _allowed(self, scope: str) -> bool:
        return permits(self._memory.strata.meta_now(parse_key(scope)).metadata, self._reach)


class _Lasting:
    """The records of the layers MID and LONG that are current, by whose they are."""

    def __init__(self, memory: Stratalog, records: Records, reach: Reach) -> None:
        self._memory = memory
        self._records = records
        self._reach = reach
        self._found: dict[str, dict[str, Record]] | None = None

    def marks(self) -> Mapping[str, str]:
        self._found = self._look()
        return {scope: _digest(*sorted(found)) for scope, found in self._found.items()}

    def documents(self, scope: str) -> Iterator[Document]:
        found = self._found if self._found is not None else self._look()
        for id, record in found.get(scope, {}).items():
            yield Document(id, record.text)

    def check(self, scope: str) -> None:
        for record in (self._found or {}).get(scope, {}).values():
            if not self._allowed(record, {}):
                self._found = None
                raise LaneDenied("a record's session forbids an embedder that reaches so far", scope=scope)

    def _look(self) -> dict[str, dict[str, Record]]:
        found: dict[str, dict[str, Record]] = {}
        known: dict[str, bool] = {}
        where = Where(environment="", scopes=(), layers=(Layer.MID, Layer.LONG), whole="tenant")
        after, more = "", True
        while more:
            page = self._records.store.find(where, limit=_PAGE, after=after)
            for record in page.records:
                if record.text.strip() and self._allowed(record, known):
                    found.setdefault(scope_of(record.environment, record.scope.kind, record.scope.id), {})[
                        f"{record.id}:{_digest(record.text)}"
                    ] = record
            after, more = page.next, bool(page.next)
        return found

    def _allowed(self, record: Record, known: dict[str, bool]) -> bool:
        own = (record.scope.id,) if record.scope.kind == "session" else ()
        for session in {*own, *(source.session for source in record.sources)}:
            if session not in known:
                known[session] = permits(self._told(session), self._reach)
            if not known[session]:
                return False
        return True

    def _told(self, session: str) -> Mapping[str, Any]:
        try:
            key = parse_key(session, self._memory.tenant)
        except InvalidKey:  # a bundle may name what no session can be called
            return {RESIDENCY: "not known"}
        return self._memory.strata.meta_now(key).metadata


class _Documents:
    """Documents, by collection. They are nobody's session's, and may be sent to whom the settings name."""

    def __init__(self, knowledge: Knowledge) -> None:
        self._knowledge = knowledge
        self.marks = knowledge.marks

    def documents(self, scope: str) -> Iterator[Document]:
        for id, text in self._knowledge.texts(scope):
            yield Document(id, text)

    def check(self, scope: str) -> None:
        """They may."""


def charging(records: Records, clock: Callable[[], int] = now_ms) -> Callable[[Sequence[str]], None]:
    """What counts each request against the tenant's budget for the day. It raises `SpendLimit`."""

    def charge(texts: Sequence[str]) -> None:
        day = day_of(clock())
        reason = records.jobs.charge(day, records.limits, tokens=sum(map(count_text, texts)))
        if reason:
            raise SpendLimit(
                f"the tenant's budget for the day is spent: {reason}",
                tenant=records.tenant,
                day=day,
                hint="it goes on the next day (UTC); a larger budget is set in stratalog.toml",
            )

    return charge


def scope_of(environment: str, kind: str, id: str) -> str:
    """The scope of vectors of the records that are somebody's."""
    return f"{environment} {kind} {id}"


def _digest(*texts: str) -> str:
    told = hashlib.sha256()
    for text in texts:
        told.update(text.encode("utf-8", "surrogatepass") + b"\0")
    return told.hexdigest()[:16]
