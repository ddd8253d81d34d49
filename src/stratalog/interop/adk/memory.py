"""What users said before, for agents of the Agent Development Kit: found by Stratalog's search.

A session that this data directory has is not copied: its metadata says up to which number it was added. What
comes from elsewhere, and what is added by itself, is in one log for each user of an app.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, TypeVar

from google.adk.events.event import Event
from google.adk.memory.base_memory_service import BaseMemoryService, SearchMemoryResponse
from google.adk.memory.memory_entry import MemoryEntry
from google.adk.platform import uuid as platform_uuid
from google.adk.sessions import Session

from stratalog.engine import Hit
from stratalog.engine import Session as Log
from stratalog.errors import SessionExists, StaleFence
from stratalog.ids import new_ulid
from stratalog.interop.adk.sessions import key_of, sessions_of
from stratalog.interop.adk.weaving import ADK, CARRIER, Json, filled, groups, woven
from stratalog.interop.naming import named, owner
from stratalog.interop.waiting import Memory, engine_of, finished
from stratalog.keys import session_key
from stratalog.types import AnyEntry, Note, Title, TurnStart

R = TypeVar("R")
MEMORIES: Final = "adk-memory"
_ADDED: Final = "adk_memory"  # in a session's metadata: the last number that was added
_MOST: Final = 10  # as many as the ADK's own service gives
_LOOKED: Final = 640
_ROLES: Final = ("user", "assistant")


class StratalogMemoryService(BaseMemoryService):
    """A memory in the data directory of `memory`, which its user opens and closes.

    What is found is of this app and this user alone, and only what was added. `custom_metadata` is kept with
    memories that are added by themselves, and else ignored; deleting one memory is not supported.
    """

    def __init__(self, memory: Memory) -> None:
        self._front = memory
        self._memory = engine_of(memory)

    async def add_session_to_memory(self, session: Session) -> None:
        """Adds the session up to its newest event; a stored one with all that is before it."""
        await self._run(self._add_session, session)

    async def add_events_to_memory(
        self,
        *,
        app_name: str,
        user_id: str,
        events: Sequence[Event],
        session_id: str | None = None,
        custom_metadata: Mapping[str, object] | None = None,
    ) -> None:
        """Adds events that have content; one that was added this way before is not added again."""
        await self._run(self._add, app_name, user_id, [_memory_of(each) for each in _with_words(events)])

    async def add_memory(
        self,
        *,
        app_name: str,
        user_id: str,
        memories: Sequence[MemoryEntry],
        custom_metadata: Mapping[str, object] | None = None,
    ) -> None:
        """Adds memories; one without an id gets one."""
        more = dict(custom_metadata or {})
        made = [
            each.model_copy(
                update={
                    "id": each.id or platform_uuid.new_uuid(),
                    "custom_metadata": {**more, **each.custom_metadata},
                }
            )
            for each in memories
        ]
        await self._run(self._add, app_name, user_id, made)

    async def search_memory(self, *, app_name: str, user_id: str, query: str) -> SearchMemoryResponse:
        """The ten best of what this user said in this app, or was told; each event once."""
        return SearchMemoryResponse(memories=await self._run(self._search, app_name, user_id, query))

    # --- how ---

    async def _run(self, call: Callable[..., R], *args: Any) -> R:
        return await finished(self._front, lambda: call(*args))

    def _add_session(self, session: Session) -> None:
        events = _with_words(session.events)
        log = self._memory.session(key_of(self._memory, session.app_name, session.user_id, session.id))
        if not events:
            return
        newest = session.events[-1].id
        for group in groups(log.entries(reverse=True, blobs=False)):
            if group.told.get("event", {}).get("id") == newest:
                if log.meta.metadata.get(_ADDED, 0) < group.end:
                    log.set_metadata(**{_ADDED: group.end})
                return
        self._add(session.app_name, session.user_id, [_memory_of(each) for each in events])

    def _log(self, app: str, user: str) -> Log:
        name = named("the user", user)
        return self._memory.session(session_key(named("the app", app), MEMORIES, name, self._memory.tenant))

    def _add(self, app: str, user: str, memories: list[MemoryEntry]) -> None:
        log = self._log(app, user)
        while True:
            fence = log.fence
            known = {group.told["memory"]["id"] for group in groups(log.entries(reverse=True, blobs=False))}
            new = {str(each.id): each for each in memories if each.id not in known}
            entries = [entry for each in new.values() for entry in _entries(each)]
            if not entries:
                return
            entries.append(TurnStart(holder=ADK))
            try:
                if fence:
                    log.append(*entries, fence=fence)
                else:
                    facts = {"adk_memory_of": {"app": app, "user": user}, "users": [owner(user)]}
                    title = Title(title=f"Memories of {user} in {app}"[:200], by="auto")
                    log.begin_with([Note(kind=CARRIER, data=facts), title, *entries])
                return
            except (StaleFence, SessionExists):
                continue  # somebody else added just now, perhaps the same

    def _search(self, app: str, user: str, query: str) -> list[MemoryEntry]:
        added = {
            meta.key: int(meta.metadata[_ADDED])
            for meta, _ in sessions_of(self._memory, app, user)
            if _ADDED in meta.metadata
        }
        own = self._log(app, user)
        among = [*added, str(own.key)]
        looked = 2 * _MOST
        while True:
            hits = self._memory.search(query, limit=looked, sessions=among, roles=_ROLES)
            found: dict[str | None, MemoryEntry] = {}
            for hit in (each.hit for each in hits):
                if hit.seq <= added.get(str(hit.session), hit.seq):
                    for memory in self._memories(hit):
                        found.setdefault(memory.id, memory)
            if len(found) >= _MOST or len(hits) < looked or looked >= _LOOKED:
                return list(found.values())[:_MOST]
            looked *= 2

    def _memories(self, hit: Hit) -> Iterator[MemoryEntry]:
        """The memory that a hit is of, as long as it is in the log."""
        log = self._memory.session(hit.session)
        before = next(groups(log.entries(before=hit.seq + 1, reverse=True, blobs=False)), None)
        if before is None or hit.seq > before.end:
            return
        whole = log.entries(after=before.carrier.seq - 1, before=before.end + 1)
        for group in groups(reversed(list(whole))):
            name = "memory" if "memory" in group.told else "event"
            raw = filled(group, name)
            if raw is not None and name == "memory":
                yield MemoryEntry.model_validate_json(raw)
            elif raw is not None:
                yield _memory_of(Event.model_validate_json(raw))


def _entries(memory: MemoryEntry) -> list[AnyEntry]:
    dump: Json = memory.model_dump(mode="json", exclude_none=True)
    ts = _ms(memory.timestamp)
    made = woven(dump, of_user=memory.author in (None, "user"), ts=ts)
    told = {"n": len(made.entries), "memory": made.rest, "from": made.places}
    return [Note(id=new_ulid(), ts=ts, kind="adk_memory", meta={ADK: told}), *made.entries]


def _memory_of(event: Event) -> MemoryEntry:
    assert event.content is not None
    when = datetime.fromtimestamp(event.timestamp, UTC).isoformat()
    return MemoryEntry(id=event.id, content=event.content, author=event.author, timestamp=when)


def _with_words(events: Sequence[Event]) -> list[Event]:
    return [event for event in events if event.content and event.content.parts]


def _ms(timestamp: str | None) -> int:
    try:
        return max(0, int(datetime.fromisoformat(timestamp or "").timestamp() * 1000))
    except ValueError:
        return 0
