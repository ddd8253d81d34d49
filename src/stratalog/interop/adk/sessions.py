"""The sessions of the Agent Development Kit, each a session of Stratalog.

An event is one append: a carrier with its JSON, what it says as entries of the log, and the start of a turn.
That start is what makes an append safe: the store refuses it unless the session's fence is still the one that
the caller's session object was read at, so that of two who append to the same state the second is told.

State. What an event changes of a session's own state are changes of that session's working memory, in the
same append. The state of an app, and that of a user in an app, is the working memory of a session of its own.
Such a change is in the event first. It is applied after that, with the id of the event's carrier, and not
twice: by who appended it, or, if that one was killed in between, by whoever uses the session next and before
anything else. So only the newest event of a session can have a change that is not applied yet, and the
carrier says from which number on its application has to be looked for.
"""

from __future__ import annotations

import asyncio
import copy
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple, TypeVar
from weakref import WeakValueDictionary

import msgspec
from google.adk.errors import StaleSessionError
from google.adk.errors.already_exists_error import AlreadyExistsError
from google.adk.errors.session_not_found_error import SessionNotFoundError
from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions
from google.adk.platform import time as platform_time
from google.adk.platform import uuid as platform_uuid
from google.adk.sessions import Session, State
from google.adk.sessions.base_session_service import (
    BaseSessionService,
    GetSessionConfig,
    ListSessionsResponse,
)

from stratalog.engine import Head, Problem, SessionMeta
from stratalog.engine import Session as Log
from stratalog.engine.core import Stratalog
from stratalog.errors import Conflict, SessionExists, StaleFence
from stratalog.ids import derived_ulid, new_ulid
from stratalog.interop.adk.weaving import (
    ADK,
    CARRIER,
    Group,
    Json,
    filled,
    groups,
    told_by,
    with_memory,
    woven,
)
from stratalog.interop.naming import named, owner
from stratalog.interop.records import storable
from stratalog.interop.waiting import Memory, engine_of, finished
from stratalog.keys import SessionKey, session_key
from stratalog.types import AnyEntry, Assistant, Note, Title, TurnEnd, TurnStart, User, WorkingMemory

R = TypeVar("R")
CHANNEL: Final = "adk"
STATES: Final = "adk-state"
STATE: Final = "adk_state"  # in its metadata: whose it is
_AT = "adk_at"  # in a session's metadata: when it was last updated, seconds
_HOLDER = "adk"
_EMPTY: Final = ("artifact_delta", "requested_auth_configs", "requested_tool_confirmations")
_KNOWN: Final = 256  # sessions of which the ids of events are kept
_STALE = "another process or object has appended to the session; get it anew, and append then"


class _Known(NamedTuple):
    """What is known of a session at this fence: the ids of its events, and that its changes are applied."""

    fence: int
    ids: set[str]


class StratalogSessionService(BaseSessionService):
    """Sessions in the data directory of `memory`, which its user opens and closes.

    Raises `InvalidKey` for an id that is empty or no text; other ids are kept as they are. Appending with a
    session object that is behind what is stored raises `StaleSessionError`, and nothing is written. An event
    that is stored already, with the same id and content, is not stored again; with other content it is a
    `Conflict`. Safe for several threads, event loops and processes.
    """

    def __init__(self, memory: Memory) -> None:
        self._front = memory
        self._memory = engine_of(memory)
        self._lines: WeakValueDictionary[tuple[int, SessionKey], asyncio.Lock] = WeakValueDictionary()
        self._known: OrderedDict[SessionKey, _Known] = OrderedDict()
        self._mutex = threading.Lock()

    async def create_session(
        self,
        *,
        app_name: str,
        user_id: str,
        state: dict[str, Any] | None = None,
        session_id: str | None = None,
    ) -> Session:
        """See the base class. Raises `AlreadyExistsError`."""
        id = platform_uuid.new_uuid() if session_id is None else session_id
        return await self._run(self._create, app_name, user_id, id, _as_json(state or {}))

    async def get_session(
        self,
        *,
        app_name: str,
        user_id: str,
        session_id: str,
        config: GetSessionConfig | None = None,
    ) -> Session | None:
        """See the base class. With a config the log is read from its end, no farther than is asked for."""
        return await self._run(self._get, app_name, user_id, session_id, config or GetSessionConfig())

    async def list_sessions(self, *, app_name: str, user_id: str | None = None) -> ListSessionsResponse:
        """See the base class. Reads the list of sessions, and no log."""
        return ListSessionsResponse(sessions=await self._run(self._list, app_name, user_id))

    async def delete_session(self, *, app_name: str, user_id: str, session_id: str) -> None:
        """Deletes the session with all that belongs to it; the states of app and user stay."""
        await self._run(lambda: self._log(app_name, user_id, session_id).delete())

    async def get_user_state(self, *, app_name: str, user_id: str) -> dict[str, Any]:
        """See the base class."""
        return await self._run(lambda: copy.deepcopy(dict(self._user_state(app_name, user_id))))

    async def append_event(self, session: Session, event: Event) -> Event:
        """See the base class. When this returns, the event is on the disk. Whatever it raises, neither the
        event nor the session object is changed. Raises `SessionNotFoundError` and what the class says."""
        if event.partial:
            return event
        key = self._log(session.app_name, session.user_id, session.id).key
        async with self._line(key):
            marker = await self._run(self._append, session, event)
            if marker:
                self._apply_temp_state(session, event)
                event = self._trim_temp_delta_state(event)
                session.last_update_time = event.timestamp
                session._storage_update_marker = marker
                self._commit_event_to_session(session, event)
        return event

    # --- how ---

    async def _run(self, call: Callable[..., R], *args: Any) -> R:
        return await finished(self._front, lambda: call(*args))

    def _line(self, key: SessionKey) -> asyncio.Lock:
        """Parallel branches of an agent share one session object: their appends go one by one."""
        place = (id(asyncio.get_running_loop()), key)
        return self._lines.setdefault(place, asyncio.Lock())

    def _log(self, app: str, user: str, id: str) -> Log:
        return self._memory.session(key_of(self._memory, app, user, id))

    def _state_log(self, app: str, user: str) -> Log:
        """The session whose working memory is the state of a user of the app; of the app itself for ""."""
        chat = f"user:{named('the user', user)}" if user else "app"  # the app's own is of no user
        return self._memory.session(session_key(named("the app", app), STATES, chat, self._memory.tenant))

    def _state(self, app: str, user: str) -> Mapping[str, Any]:
        return self._state_log(app, user).meta.working_memory

    def _user_state(self, app: str, user: str) -> Mapping[str, Any]:
        named("the user", user)  # which is not ""
        return self._state(app, user)

    def _create(self, app: str, user: str, id: str, state: Json) -> Session:
        log = self._log(app, user, id)
        app_delta, user_delta, own = split(state)
        told: Json = {"n": len(own), "created": {**app_delta, **user_delta}}
        told |= self._places(app, user, app_delta, user_delta)
        facts = {
            ADK: {"app": app, "user": user, "session": id},
            "users": [owner(user)],
            _AT: platform_time.get_time(),
        }
        carrier = Note(id=new_ulid(), kind=CARRIER, data=facts, meta={ADK: told})
        try:
            log.begin_with([carrier, *_changes(own, None)])
        except SessionExists as error:
            raise AlreadyExistsError(f"Session with id {id} already exists.") from error
        made = self._get(app, user, id, GetSessionConfig())  # which applies what it says of app and user
        if made is None:
            raise SessionNotFoundError(f"Session {id} was deleted while it was created.")
        return made

    def _get(self, app: str, user: str, id: str, config: GetSessionConfig) -> Session | None:
        log = self._log(app, user, id)
        head = self._memory.store.head(log.key)
        if head is None:
            return None
        events: list[Event] = []
        ids: set[str] = set()
        newest = None
        whole = False
        for group in groups(log.entries(before=head.seq + 1, reverse=True)):
            newest = newest or group
            if "event" not in group.told:
                continue
            if config.num_recent_events is not None and len(events) >= config.num_recent_events:
                break
            event = self._event(log, group)
            if event is not None:
                if config.after_timestamp is not None and event.timestamp < config.after_timestamp:
                    break
                events.append(event)
            ids.add(group.told["event"]["id"])
        else:
            whole = True
        known = self._noted(log.key)
        if newest is not None and (known is None or known.fence != head.fence):
            self._apply(app, user, newest.carrier)
            if whole:
                self._note(log.key, _Known(head.fence, ids))
        meta = log.meta
        found = Session(
            id=id,
            app_name=app,
            user_id=user,
            state=_merged(meta.working_memory, self._state(app, ""), self._state(app, user)),
            events=events[::-1],
            last_update_time=_updated(meta),
        )
        found._storage_update_marker = _marker(head.fence, head.seq)
        return found

    def _list(self, app: str, user: str | None) -> list[Session]:
        if user is not None:
            named("the user", user)
        agent = named("the app", app)
        of_app = self._state(app, "")
        of_users = self._states(agent) if user is None else {user: self._state(app, user)}
        found = [
            Session(
                id=ids["session"],
                app_name=app,
                user_id=ids["user"],
                state=_merged(meta.working_memory, of_app, of_users.get(ids["user"], {})),
                last_update_time=_updated(meta),
            )
            for meta, ids in sessions_of(self._memory, app, user)
        ]
        return sorted(found, key=lambda each: (each.last_update_time, each.user_id, each.id))

    def _states(self, agent: str) -> dict[str, Mapping[str, Any]]:
        """The states of all users of an app."""
        listed = self._memory.sessions(agent=agent, channel=STATES).sessions
        return {meta.metadata.get(STATE, {}).get("user", ""): meta.working_memory for meta in listed}

    def _append(self, handle: Session, event: Event) -> str | None:
        """Appends the event and gives the session object's new marker; None where it is stored already."""
        log = self._log(handle.app_name, handle.user_id, handle.id)
        head = self._memory.store.head(log.key)
        if head is None:
            raise SessionNotFoundError(f"Session {handle.id} not found.")
        fence, seq = self._read_at(handle, log, head)
        if fence != head.fence:
            if self._stored(log, event, after=seq):
                return None
            raise StaleSessionError(_STALE)
        known = self._known_of(log, head.fence, handle)
        if event.id in known.ids and self._stored(log, event):
            return None
        dump = dumped(event)
        carrier, after = self._entries(handle, event, dump, log)
        try:
            stored = log.append(*_given_up(log, carrier.turn, after), carrier, *after, fence=head.fence)
        except StaleFence as error:
            raise StaleSessionError(_STALE) from error
        fence = next(entry.fence for entry in stored if isinstance(entry, TurnStart))
        self._apply(handle.app_name, handle.user_id, carrier)
        known.ids.add(event.id)
        self._note(log.key, _Known(fence, known.ids))
        return _marker(fence, stored[-1].seq)

    def _entries(self, handle: Session, event: Event, dump: Json, log: Log) -> tuple[Note, list[AnyEntry]]:
        """The carrier of an event and the entries after it."""
        turn = derived_ulid(0, "adk", event.invocation_id) if event.invocation_id else ""
        ts = max(0, int(event.timestamp * 1000))
        made = woven(dump, of_user=event.author == "user", turn=turn, ts=ts, response=event.id)
        app_delta, user_delta, own = split(dump.get("actions", {}).get("state_delta", {}))
        made = with_memory(made, own, ["actions", "state_delta"], turn)
        after = [*made.entries, TurnStart(turn=turn, holder=_HOLDER)]
        if event.author != "user" and _answers(event, made.entries):
            after.append(TurnEnd(turn=turn, status="answered"))
        told: Json = {"n": len(after), "event": made.rest, "from": made.places}
        told |= self._places(handle.app_name, handle.user_id, app_delta, user_delta)
        meta = {ADK: told}
        at = {_AT: event.timestamp}
        return Note(id=new_ulid(), ts=ts, turn=turn, kind=CARRIER, data=at, meta=meta), after

    def _places(self, app: str, user: str, app_delta: Json, user_delta: Json) -> Json:
        """From which number on the application of these changes is to be looked for, where there are any."""
        at = {}
        if app_delta:
            at["app"] = self._state_log(app, "").end
        if user_delta:
            at["user"] = self._state_log(app, user).end
        return {"at": at} if at else {}

    def _apply(self, app: str, user: str, carrier: Note) -> None:
        """Applies what a carrier says of the states of app and user, unless that was done."""
        told = told_by(carrier)
        if "at" not in told:
            return
        delta = told["created"] if "created" in told else told["event"]["actions"]["state_delta"]
        of_app, of_user, _ = split(delta)
        for of, log, changes in (
            ("app", self._state_log(app, ""), of_app),
            ("user", self._state_log(app, user), of_user),
        ):
            if of in told["at"]:
                facts = {"app": app, "user": user} if of == "user" else {"app": app}
                _change(log, facts, changes, carrier.id, told["at"][of])

    def _noted(self, key: SessionKey) -> _Known | None:
        with self._mutex:
            return self._known.get(key)

    def _note(self, key: SessionKey, known: _Known) -> None:
        with self._mutex:
            self._known[key] = known
            self._known.move_to_end(key)
            if len(self._known) > _KNOWN:
                self._known.popitem(last=False)

    def _known_of(self, log: Log, fence: int, handle: Session) -> _Known:
        """What is known of the session at its latest fence; read from the log where that is nothing."""
        known = self._noted(log.key)
        if known is not None and known.fence == fence:
            return known
        ids: set[str] = set()
        newest = None
        for group in groups(log.entries(reverse=True, blobs=False)):
            newest = newest or group
            if "event" in group.told:
                ids.add(group.told["event"]["id"])
        if newest is not None:
            self._apply(handle.app_name, handle.user_id, newest.carrier)
        known = _Known(fence, ids)
        self._note(log.key, known)
        return known

    def _read_at(self, handle: Session, log: Log, head: Head) -> tuple[int, int]:
        """The fence and the number at which a session object was read. One that was not made here is taken
        for current when it ends with the newest event."""
        fence, _, seq = (handle._storage_update_marker or "").partition(":")
        if fence.isdecimal() and seq.isdecimal():
            return int(fence), int(seq)
        stored = (group.told for group in groups(log.entries(reverse=True, blobs=False)))
        newest = next((told["event"]["id"] for told in stored if "event" in told), None)
        last = handle.events[-1].id if handle.events else None
        return (head.fence, head.seq) if newest == last else (0, 0)

    def _stored(self, log: Log, event: Event, *, after: int = 0) -> bool:
        """Whether the log has this event after this number. Raises `Conflict` where it has another that is
        called the same."""
        for group in groups(log.entries(after=after, reverse=True)):
            if "event" in group.told and group.told["event"]["id"] == event.id:
                raw = filled(group, "event")
                if raw is not None and msgspec.json.decode(raw) != dumped(event):
                    raise Conflict(
                        "the session has another event of this id",
                        key=str(log.key),
                        event=event.id,
                        hint="give each event an id of its own",
                    )
                return True
        return False

    def _event(self, log: Log, group: Group) -> Event | None:
        raw = filled(group, "event")
        if raw is None:
            problem = Problem("an event of the ADK has lost entries; it is left out", key=str(log.key))
            self._memory.note(problem)
            return None
        return Event.model_validate_json(raw)


def key_of(memory: Stratalog, app: str, user: str, session: str) -> SessionKey:
    """The key of a session of the ADK. Raises `InvalidKey`."""
    chat = f"{named('the user', user)}:{named('the session', session)}"
    return session_key(named("the app", app), CHANNEL, chat, memory.tenant)


def sessions_of(
    memory: Stratalog, app: str, user: str | None
) -> Iterator[tuple[SessionMeta, dict[str, str]]]:
    """The sessions of an app, of one of its users or of all, and the ids of each."""
    for meta in memory.sessions(agent=named("the app", app), channel=CHANNEL).sessions:
        ids = meta.metadata.get(ADK)
        if not isinstance(ids, dict) or ids.get("app") != app or user not in (None, ids["user"]):
            continue
        if meta.key == str(key_of(memory, app, ids["user"], ids["session"])):  # and no fork of one
            yield meta, ids


def split(delta: Mapping[str, Any]) -> tuple[Json, Json, Json]:
    """A change of state by its prefixes: what is the app's, the user's, and the session's, the first two with
    their prefix; what is temporary is in none."""
    app = {key: value for key, value in delta.items() if key.startswith(State.APP_PREFIX)}
    user = {key: value for key, value in delta.items() if key.startswith(State.USER_PREFIX)}
    shared = (State.APP_PREFIX, State.USER_PREFIX, State.TEMP_PREFIX)
    return app, user, {key: value for key, value in delta.items() if not key.startswith(shared)}


def dumped(event: Event) -> Json:
    """The JSON of an event as it is stored: without temporary state, without what has its default, and with
    U+FFFD for a lone surrogate, as a log has it."""
    dump: Json = event.model_dump(mode="json", exclude_none=True)
    actions = dump["actions"]
    delta = actions["state_delta"]
    actions["state_delta"] = {key: delta[key] for key in delta if not key.startswith(State.TEMP_PREFIX)}
    for name in _EMPTY:
        if not actions[name]:
            del actions[name]
    if dump["node_info"] == {"path": ""}:
        del dump["node_info"]
    try:
        msgspec.json.encode(dump)
    except UnicodeEncodeError:
        clean: Json = storable(dump)
        return clean
    return dump


def _as_json(state: dict[str, Any]) -> Json:
    """A state as JSON, by the rules that the ADK has for events."""
    delta: Json = EventActions(state_delta=state).model_dump(mode="json")["state_delta"]
    return delta


def _given_up(log: Log, turn: str, after: list[AnyEntry]) -> list[AnyEntry]:
    """The ends of turns that were cut short, before a new one that a message of the user opens."""
    if not turn or not any(isinstance(entry, User) for entry in after):
        return []
    cut = [each.turn for each in log.unfinished() if each.started and each.turn != turn]
    return [TurnEnd(turn=each, status="interrupted") for each in cut]


def _answers(event: Event, entries: list[AnyEntry]) -> bool:
    return event.is_final_response() and any(isinstance(entry, Assistant) for entry in entries)


def _change(log: Log, facts: Json, changes: Json, carrier: str, after: int) -> None:
    """Changes a state as a carrier of this id says, unless an entry after this number did."""
    title = f"State of {' in '.join(reversed([str(fact) for fact in facts.values()]))}"
    told = {STATE: facts} | ({"users": [owner(facts["user"])]} if "user" in facts else {})
    first: list[AnyEntry] = [Note(kind=CARRIER, data=told), Title(title=title[:200], by="auto")]
    entries = _changes({key.partition(":")[2]: value for key, value in changes.items()}, {ADK: carrier})
    while True:
        fence = log.fence
        done = log.entries(after=after, blobs=False)
        if any(entry.meta is not None and entry.meta.get(ADK) == carrier for entry in done):
            return
        try:
            if fence:
                log.append(*entries, TurnStart(holder=_HOLDER), fence=fence)
            else:
                log.begin_with([*first, *entries, TurnStart(holder=_HOLDER)])
            return
        except (StaleFence, SessionExists):
            continue  # somebody else changed it just now, perhaps with this very change


def _changes(delta: Json, meta: Json | None) -> list[AnyEntry]:
    return [WorkingMemory(op="set", key=key, value=value, meta=meta) for key, value in delta.items()]


def _merged(own: Mapping[str, Any], app: Mapping[str, Any], user: Mapping[str, Any]) -> Json:
    merged = dict(own)
    merged |= {State.APP_PREFIX + key: value for key, value in app.items()}
    merged |= {State.USER_PREFIX + key: value for key, value in user.items()}
    return copy.deepcopy(merged)


def _updated(meta: SessionMeta) -> float:
    at = meta.metadata.get(_AT)
    return float(at) if isinstance(at, int | float) else meta.updated_at / 1000


def _marker(fence: int, seq: int) -> str:
    return f"{fence}:{seq}"
