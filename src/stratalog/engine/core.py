"""The engine: opens a data directory and hands out its sessions. It decides the order of steps, and is the
only writer of logs; what it does in between is in the rooms below.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self, TypeVar

import msgspec

from stratalog import osfiles
from stratalog.config import Settings, agent_settings, load_settings
from stratalog.engine.meaning import Embedding
from stratalog.engine.seeing import Memo
from stratalog.engine.session import Session
from stratalog.engine.strata import Progress, Rebuilt, Strata
from stratalog.errors import AccessDenied, InvalidInput, InvalidKey, LogError, StratalogError
from stratalog.keys import (
    SessionKey,
    parse_key,
    purge_note_path,
    session_paths,
    sessions_dir,
    tenant_id,
    tenant_path,
)
from stratalog.log.contract import LogStore, Problem, Verification, Verifies
from stratalog.log.jsonl import JsonlStore
from stratalog.log.sqlite import SqliteStore
from stratalog.recall.contract import Hit, Rerank
from stratalog.recall.documents import words_of
from stratalog.recall.excerpt import excerpt, holds
from stratalog.recall.ranking import Recent, reranked
from stratalog.sessions.catalog import Page
from stratalog.sessions.manager import Live, SessionManager
from stratalog.types import AnyEntry, Compaction

DATA_VARIABLE = "STRATALOG_DATA"
_PROBLEMS = 1000
_RERANKED = 30
_SUMMARY = 600  # characters
_DAY_MS = 86_400_000
_OPEN_TENANTS = 64
_REMEMBERED = 10_000  # names that callers gave
_Key = TypeVar("_Key")
_Value = TypeVar("_Value")


class Found(msgspec.Struct, frozen=True):
    """A hit of a search, the title of its session, and the entries around it that were asked for.

    `summary` is what the session's last compaction says, at most 600 characters of it, from where it speaks
    of what was asked; "" for a session that was not compacted since it began."""

    hit: Hit
    title: str
    before: tuple[AnyEntry, ...] = ()
    after: tuple[AnyEntry, ...] = ()
    summary: str = ""


class Checkup(NamedTuple):
    """What `doctor` found: each log's verification, what it moved to quarantine, files that a crash left,
    files that are no logs, what is wrong with what is derived from the logs, and whether a purge is not
    finished.

    Of the leftovers most are files that were never finished, which nothing reads: they are harmless, and a
    memory with them is healthy. Those of `undeleted` are sessions whose deletion was cut short, with words
    that are to be gone. `doctor` with `repair` removes both."""

    logs: list[Verification]
    moved: list[Problem]
    leftovers: list[Path]
    foreign: list[Problem]
    derived: list[Problem]
    purging: bool = False

    @property
    def undeleted(self) -> list[Path]:
        return [path for path in self.leftovers if osfiles.TEMPORARY not in path.name]

    @property
    def healthy(self) -> bool:
        wrong = self.undeleted or self.foreign or self.derived or self.purging
        return not (wrong or any(log.problems for log in self.logs))


def default_data() -> Path:
    """`STRATALOG_DATA`, else the platform's place for an application's data.

    Two lines of our own, for the library that knows such places takes a tenth of the time of importing this.
    """
    named = os.environ.get(DATA_VARIABLE)
    if named:
        return Path(named)
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Application Support" / "stratalog"
    return Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share") / "stratalog"


class Lately(OrderedDict[_Key, _Value]):
    """What was put in lately: of more than `most`, those that were put in first are gone."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self._most = most
        self._mutex = threading.Lock()

    def __setitem__(self, key: _Key, value: _Value) -> None:
        with self._mutex:
            super().__setitem__(key, value)
            while len(self) > self._most:
                self.popitem(last=False)


class _Shared:
    """What the tenants of one data directory share."""

    def __init__(
        self, root: Path, settings: Settings, store: LogStore | None, clock: Callable[[], float]
    ) -> None:
        self.root = root
        self.settings = settings
        self.problems: deque[Problem] = deque(maxlen=_PROBLEMS)
        self._ears: list[list[Problem]] = []
        self._mutex = threading.Lock()
        self._strata: dict[str, Strata] = {}
        self._awake: OrderedDict[str, Strata] = OrderedDict()
        self._agents: dict[tuple[str, str], Settings] = {}  # those that have settings of their own
        self._plain: Lately[tuple[str, str], None] = Lately(_REMEMBERED)  # and those that do not
        self.stalls: dict[SessionKey, tuple[int, int]] = Lately(_REMEMBERED)
        self.embedding = Embedding(settings.recall)
        self.store = store if store is not None else self._store()
        self.manager = SessionManager(
            lock_path=lambda key: session_paths(root, key).lock,
            clock=clock,
            on_evict=self._evicted,
            most=settings.live_sessions,
            heaviest=settings.live_bytes,
            weigh=weight_of,
        )

    def of(self, tenant: str) -> Strata:
        """The tenant's strata. Those of tenants that were not asked for lately keep no files open."""
        with self._mutex:
            found = self._strata.get(tenant)
            if found is None:
                directory = tenant_path(self.root, tenant)
                found = self._strata[tenant] = Strata(
                    self.root,
                    tenant,
                    directory,
                    self.store,
                    partial(self.settings_of, tenant),
                    self.note,
                    self.embedding,
                )
            self._awake[tenant] = found
            self._awake.move_to_end(tenant)
            tired = self._awake.popitem(last=False)[1] if len(self._awake) > _OPEN_TENANTS else None
        if tired is not None:
            tired.rest()
        return found

    def settings_of(self, tenant: str, agent: str) -> Settings:
        """An agent's settings, read once where it has some of its own. Raises `InvalidConfig`.

        Anybody can think up names of agents: of those without settings only the newest are remembered.
        """
        found = self._agents.get((tenant, agent))
        if found is not None or (tenant, agent) in self._plain:
            return found or self.settings
        found = agent_settings(self.settings, sessions_dir(self.root, tenant, agent).parent)
        if found is self.settings:
            self._plain[tenant, agent] = None
            return found
        return self._agents.setdefault((tenant, agent), found)

    def note(self, problem: Problem) -> None:
        with self._mutex:
            for ear in self._ears:
                ear.append(problem)
            if problem not in self.problems:
                self.problems.append(problem)

    @contextmanager
    def hearing(self) -> Iterator[list[Problem]]:
        """A list of every problem that is noted within the block, known or new."""
        ear: list[Problem] = []
        with self._mutex:
            self._ears.append(ear)
        try:
            yield ear
        finally:
            with self._mutex:
                self._ears = [other for other in self._ears if other is not ear]

    def told(self) -> list[Problem]:
        with self._mutex:
            return list(self.problems)

    def mark(self, key: SessionKey) -> None:
        self.of(key.tenant).journal.mark(key)

    def close(self) -> None:
        self.manager.close()
        with self._mutex:
            every = list(self._strata.values())
        for strata in every:
            strata.close()
        self.embedding.close()
        close: Callable[[], None] = getattr(self.store, "close", lambda: None)
        close()

    def _store(self) -> LogStore:
        settings = self.settings
        if settings.store == "sqlite":
            return SqliteStore(
                self.root, sync=settings.sync, blob_threshold=settings.blob_threshold, on_write=self.mark
            )
        return JsonlStore(
            self.root,
            sync=settings.sync,
            blob_threshold=settings.blob_threshold,
            on_write=self.mark,
            on_problem=self.note,
        )

    def _evicted(self, live: Live) -> None:
        if not live.saved and live.meta.seq:
            self.of(live.key.tenant).save_meta(live.meta)


class Stratalog:
    """The memory in one data directory, as one tenant has it.

    `data` is made when first written to; without it, `default_data()`. `tenant` is whose memory this is: no
    call reaches another's. Close it, or use it in a `with` block. Safe to use from several threads, and
    several processes may have the same directory open.
    """

    def __init__(
        self,
        data: Path | str | None = None,
        *,
        tenant: str = "local",
        settings: Settings | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        root = Path(data) if data is not None else default_data()
        self.tenant = tenant_id(tenant)
        self._shared = _Shared(root, settings or load_settings(root), None, clock)

    @classmethod
    def open(
        cls, data: Path | str | None = None, *, tenant: str = "local", settings: Settings | None = None
    ) -> Self:
        """The same as calling the class."""
        return cls(data, tenant=tenant, settings=settings)

    def as_tenant(self, tenant: str) -> Stratalog:
        """The same data directory for another tenant; closing either closes both."""
        other = object.__new__(Stratalog)
        other.tenant = tenant_id(tenant)
        other._shared = self._shared
        return other

    @property
    def data(self) -> Path:
        """The data directory."""
        return self._shared.root

    @property
    def store(self) -> LogStore:
        """The logs themselves."""
        return self._shared.store

    @property
    def problems(self) -> list[Problem]:
        """What this tenant's logs had to repair or leave aside, and what could not be derived from them,
        since this was opened: newest last, each once, at most the 1,000 newest of the data directory."""
        return [problem for problem in self._shared.told() if self._concerns(problem)]

    @property
    def strata(self) -> Strata:
        """What is derived from this tenant's logs."""
        return self._shared.of(self.tenant)

    def session(self, key: str | SessionKey) -> Session:
        """The session that `key` names: `agent:channel:chat`. It need not exist yet. Raises `InvalidKey`."""
        parsed = parse_key(key, self.tenant)
        if parsed.tenant != self.tenant:
            raise InvalidKey(
                f"this memory is of tenant {self.tenant!r}", key=str(parsed), hint="use `as_tenant`"
            ) from AccessDenied("a session of another tenant was named")
        return Session(
            parsed,
            self._shared.store,
            self._shared.manager,
            self.strata,
            partial(self._shared.settings_of, self.tenant),
            self._shared.note,
            self._shared.stalls,
        )

    def settings_of(self, agent: str = "") -> Settings:
        """The settings of this agent; without one those of the data directory. Raises `InvalidConfig`."""
        return self._shared.settings_of(self.tenant, agent) if agent else self._shared.settings

    def sessions(
        self,
        *,
        agent: str | None = None,
        channel: str | None = None,
        user: str | None = None,
        title: str = "",
        limit: int | None = None,
        cursor: str = "",
    ) -> Page:
        """The sessions, pinned first, then newest by their last message. `user` are those that are this
        user's alone, or nobody's where it is ""; `title` those that have these words in their title, in any
        case. `cursor` goes on after a page."""
        return self.strata.page(
            agent=agent, channel=channel, user=user, title=title, limit=limit, cursor=cursor
        )

    def search(
        self,
        query: str,
        *,
        limit: int = 10,
        agent: str | None = None,
        channel: str | None = None,
        session: str | SessionKey | None = None,
        roles: tuple[str, ...] | None = None,
        after_ts: int | None = None,
        before_ts: int | None = None,
        neighbours: int = 0,
        sessions: Collection[str | SessionKey] | None = None,
        meaning: bool = True,
        times: Sequence[tuple[int, int]] = (),
        per_session: int | None = None,
        recency: float | None = None,
        rerank: Rerank | None = None,
    ) -> list[Found]:
        """What was said about something, best first, over all of the tenant's sessions.

        The filters are exact; `roles` are entry types such as `user`, times are milliseconds UTC, `sessions`
        those of which one must be. `neighbours` is how many entries before and after each hit to bring.
        With `meaning` it is found by meaning too, where an embedder is configured and its vectors are there;
        one that fails is told in `problems`, and words answer. Of one session it is so only where its
        residency allows it to be asked.

        `times` are spans [start, stop) that the query speaks of, in milliseconds (`asking.times_in` finds
        them): what was said then is preferred. Of one session come at most `per_session`; without it
        three quarters of the hits, or more where no others are to be had. What forks share comes once. With
        `recency`, days above 0, what is new is preferred, by half as much each so many days before now.
        `rerank` scores the texts of the best 30 against the query, and these come in the order of its scores.
        """
        recent = None
        if recency is not None:
            if not recency > 0:
                raise InvalidInput("`recency` is a number of days above 0", recency=recency)
            recent = Recent(time.time_ns() // 1_000_000, recency * _DAY_MS)
        key = self.session(session).key if session is not None else None
        among = [self.session(each).key for each in sessions] if sessions is not None else None
        if not self.strata.exists or among == []:
            return []
        with self.strata.index() as index:
            scopes = self.strata.scopes(agent, channel, key, among)
            told = self.strata.catalog.get(key) if key is not None else None
            asked = (
                self.strata.vectors.question(
                    "turns", query, metadata=told.metadata if told is not None else {}, scopes=scopes
                )
                if meaning
                else None
            )
            hits = index.search(
                query,
                limit=limit if rerank is None else max(limit, _RERANKED),
                agent=agent,
                channel=channel,
                session=key,
                roles=roles,
                after_ts=after_ts,
                before_ts=before_ts,
                sessions=among,
                times=times,
                per_session=per_session,
                meaning=asked,
                recent=recent,
            )
        if rerank is not None:
            hits = self._reranked(query, hits[:_RERANKED], rerank) + hits[_RERANKED:]
        return [self._found(hit, neighbours) for hit in hits[:limit]]

    def bring_up_to_date(self, progress: Progress | None = None) -> None:
        """Indexes what is not indexed yet, as a search does; `progress` gets sessions done and in all."""
        if self.strata.exists:
            with self.strata.index(progress):
                pass

    def doctor(self, *, repair: bool = False, progress: Progress | None = None) -> Checkup:
        """Reads every log again. With `repair`, moves damage to quarantine, and verifies once more."""
        with self._shared.hearing() as heard:
            keys = list(self.store.sessions(self.tenant))
        foreign = [problem for problem in heard if self._concerns(problem)]
        moved: list[Problem] = []
        logs: list[Verification] = []
        jsonl = self.store if isinstance(self.store, JsonlStore) else None
        for number, key in enumerate(keys):
            if repair and jsonl is not None:
                mended = _repaired(jsonl, key)
                if mended:
                    self.strata.look_again(key)
                moved += mended
            if isinstance(self.store, Verifies):
                logs.append(_verified(self.store, key))
            if progress is not None:
                progress(number + 1, len(keys))
        derived = self.strata.check()
        purging = purge_note_path(self.data, self.tenant).exists()
        if jsonl is None:
            return Checkup(logs, moved, [], foreign, derived, purging)
        if repair:
            jsonl.sweep(self.tenant)
        return Checkup(logs, moved, list(jsonl.unfinished_files(self.tenant)), foreign, derived, purging)

    def rebuild(self, progress: Progress | None = None) -> Rebuilt:
        """Deletes everything derived and makes it anew from the logs."""
        return self.strata.rebuild(progress)

    def note(self, problem: Problem) -> None:
        """Adds to `problems` what went wrong in work that nobody waits for."""
        self._shared.note(problem)

    def tenants(self) -> Iterator[str]:
        """The tenants that have a session in this data directory."""
        seen: set[str] = set()
        for key in self.store.sessions():
            if key.tenant not in seen:
                seen.add(key.tenant)
                yield key.tenant

    def sweep(self) -> int:
        """Lets sessions that were idle for their time to live leave memory; returns how many. Happens of
        itself when sessions are used."""
        return self._shared.manager.sweep()

    def close(self) -> None:
        """Releases every session, writes what is due, closes every file. The second time does nothing."""
        self._shared.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _concerns(self, problem: Problem) -> bool:
        if problem.key:
            return problem.key.startswith(f"{self.tenant}/")
        return Path(problem.path).is_relative_to(tenant_path(self.data, self.tenant))

    def _reranked(self, query: str, hits: list[Hit], rerank: Rerank) -> list[Hit]:
        scores = rerank(query, [self._passage(hit) for hit in hits])
        order = reranked([hit.parts for hit in hits], scores)
        return [msgspec.structs.replace(hits[at], score=scores[at], parts=parts) for at, parts in order]

    def _passage(self, hit: Hit) -> str:
        found = self.store.read(
            hit.session, after=hit.seq - 1, before=hit.seq + 1, blobs=True, generations="all"
        )
        words = [words_of(entry)[hit.start : hit.stop] for entry in found if entry.id == hit.entry_id]
        return words[0] if words else hit.snippet

    def _found(self, hit: Hit, neighbours: int) -> Found:
        meta = self.strata.catalog.get(hit.session)
        around: list[AnyEntry] = []
        shown = holds(hit.snippet, hit.terms)
        if neighbours > 0 or not shown:
            around = list(
                self.store.read(
                    hit.session,
                    after=max(0, hit.seq - neighbours - 1),
                    before=hit.seq + neighbours + 1,
                    blobs=not shown,
                    generations="all",
                )
            )
        for entry in around:
            if not shown and entry.id == hit.entry_id:
                passage = words_of(entry)[hit.start : hit.stop]
                hit = msgspec.structs.replace(hit, snippet=excerpt(passage, hit.terms))
        before = tuple(entry for entry in around if entry.seq < hit.seq)
        after = tuple(entry for entry in around if entry.seq > hit.seq)
        if meta is None:
            return Found(hit, "", before, after)
        return Found(hit, meta.title, before, after, self._summary(hit, meta.compacted))

    def _summary(self, hit: Hit, compacted: int) -> str:
        if not compacted:
            return ""
        last = self.store.read(hit.session, after=compacted - 1, before=compacted + 1, blobs=True)
        said = [entry.summary for entry in last if isinstance(entry, Compaction)]
        return excerpt(said[0], hit.terms, _SUMMARY) if said else ""


def weight_of(live: Live) -> int:
    """The bytes of a session's log, and of what was recalled in it, that are remembered."""
    return live.memo.size if isinstance(live.memo, Memo) else 0


def _verified(store: Verifies, key: SessionKey) -> Verification:
    try:
        return store.verify(key)
    except LogError as error:
        path = str(error.where.get("path", ""))
        return Verification(str(key), 0, 0, 0, (Problem(f"not verified: {error}", path=path, key=str(key)),))


def _repaired(store: JsonlStore, key: SessionKey) -> list[Problem]:
    try:
        return store.repair(key)
    except StratalogError as error:
        return [Problem(f"not repaired: {error}", key=str(key))]
