"""Sessions: the list, one of them, and all that is done with it but talking."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Literal

import msgspec
from litestar import Response, delete, get, patch, post
from litestar.openapi.datastructures import ResponseSpec
from litestar.params import FromQuery, JSONBody, QueryParameter
from litestar.response import Stream as Streamed

from stratalog.engine import Restart, Session
from stratalog.engine.agents import Agent, offered
from stratalog.engine.compaction import Nothing
from stratalog.engine.serving import compacted
from stratalog.engine.serving_sessions import begun, deleted, entries_page
from stratalog.engine.serving_words import auto_title, welcome
from stratalog.errors import AccessDenied, InvalidInput, NoModel
from stratalog.ids import new_ulid
from stratalog.interop.export import to_jsonl
from stratalog.interop.export_formats import EXPORTS, exported
from stratalog.surfaces.http.errors import problems
from stratalog.surfaces.http.fields import AgentName, Channel, ChatId, Cursor, Limit
from stratalog.surfaces.http.service import CHANNEL, Desk, FromDesk
from stratalog.surfaces.http.streaming import in_batches
from stratalog.surfaces.http.views import SessionPage, SessionView, session_view

_PATH = "/v1/agents/{agent:str}/sessions"
_ONE = _PATH + "/{chat:str}"
_TAGS = ("sessions",)
_Title = Annotated[str, msgspec.Meta(min_length=1, max_length=1_000)]


class NewSession(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A session to begin. Without a `chat` it gets an id of its own. `system` and `metadata` are for the
    roles `agent` and `admin`: what the model is told before all else, and what is said of the session."""

    chat: str = ""
    title: Annotated[str, msgspec.Meta(max_length=1_000)] = ""
    system: Annotated[str, msgspec.Meta(max_length=100_000)] = ""
    metadata: dict[str, Any] = {}


class SessionChange(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is to be another; what is not said stays. In `metadata` null takes a name away."""

    title: _Title | msgspec.UnsetType = msgspec.UNSET
    pinned: bool | msgspec.UnsetType = msgspec.UNSET
    metadata: dict[str, Any] | msgspec.UnsetType = msgspec.UNSET


class NewFork(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The session that begins with this one's history, up to the entry `at` (its id or number; else all)."""

    chat: str = ""
    at: str | int | None = None


class EntriesView(msgspec.Struct, frozen=True, kw_only=True):
    """Entries as the log has them, in its order; `before` and `after` go on at either side, null where
    nothing is."""

    entries: list[dict[str, Any]]
    before: int | None = None
    after: int | None = None


class SectionView(msgspec.Struct, frozen=True, kw_only=True):
    """A part of the context: the tokens that it takes, and those that it had to leave out."""

    name: str
    tokens: int
    left_out: int


class ContextView(msgspec.Struct, frozen=True, kw_only=True):
    """What the model would see now. `messages` are those of an OpenAI chat request."""

    tokens: int
    budget: int
    sections: list[SectionView]
    messages: list[dict[str, Any]]
    turns_left_out: int
    degraded: bool
    warning: str = ""


class CompactionView(msgspec.Struct, frozen=True, kw_only=True):
    """What a compaction did; `reason` says why it did nothing."""

    compacted: bool
    tokens_before: int
    tokens_after: int
    entries: int = 0
    by: str = ""
    stood_in: str = ""
    reason: str = ""


class RestartView(msgspec.Struct, frozen=True, kw_only=True):
    """Whether the history begins anew. If not, a turn is running: the same request once more within
    `confirm_within` seconds ends it and restarts."""

    done: bool
    confirm_within: float = 0.0


class WelcomeView(msgspec.Struct, frozen=True, kw_only=True):
    """The words with which the agent welcomes; `model` wrote them, "" for none."""

    text: str
    model: str = ""


@get(
    _PATH,
    operation_id="listSessions",
    tags=_TAGS,
    summary="The sessions in sight, pinned first, then the newest",
    responses=problems(),
)
async def list_sessions(
    desk: FromDesk, agent: AgentName, channel: Channel = CHANNEL, limit: Limit = 50, cursor: Cursor = ""
) -> SessionPage:
    user = desk.asker.sight
    page = await desk.front.sessions(agent=agent, channel=channel, user=user, limit=limit, cursor=cursor)
    return SessionPage(sessions=[session_view(meta) for meta in page.sessions], cursor=page.cursor)


@post(
    _PATH,
    operation_id="beginSession",
    tags=_TAGS,
    summary="Begin a session",
    responses=problems(409),
)
async def begin_session(
    desk: FromDesk, agent: AgentName, data: JSONBody[NewSession], channel: Channel = CHANNEL
) -> Response[SessionView]:
    _check_metadata(desk, data.metadata)
    if data.system and not desk.asker.principal.has("agent", "admin"):
        raise AccessDenied("what the model is told is not for this token to say", hint="leave out `system`")
    session = desk.new(agent, data.chat or new_ulid().lower(), channel)
    meta = await desk.run(
        begun,
        session.sync,
        data.metadata | desk.asker.signature(),
        title=data.title,
        system=data.system,
    )
    return _made(session_view(meta))


@get(_ONE, operation_id="getSession", tags=_TAGS, summary="One session", responses=problems(404))
async def get_session(
    desk: FromDesk, agent: AgentName, chat: ChatId, channel: Channel = CHANNEL
) -> SessionView:
    session = await desk.session(agent, chat, channel)
    return session_view(await session.meta())


@patch(
    _ONE,
    operation_id="changeSession",
    tags=_TAGS,
    summary="Rename, pin or describe a session",
    responses=problems(404, 409),
)
async def change_session(
    desk: FromDesk, agent: AgentName, chat: ChatId, data: JSONBody[SessionChange], channel: Channel = CHANNEL
) -> SessionView:
    session = await desk.session(agent, chat, channel)
    if not isinstance(data.metadata, msgspec.UnsetType):
        _check_metadata(desk, data.metadata)
        await desk.run(session.sync.set_metadata, **data.metadata)
    if not isinstance(data.title, msgspec.UnsetType):
        await session.set_title(data.title)
    if not isinstance(data.pinned, msgspec.UnsetType):
        await session.pin(data.pinned)
    return session_view(await session.meta())


@delete(
    _ONE,
    operation_id="deleteSession",
    tags=_TAGS,
    summary="Delete a session with its log and its records",
    responses=problems(404, 409),
)
async def delete_session(desk: FromDesk, agent: AgentName, chat: ChatId, channel: Channel = CHANNEL) -> None:
    session = await desk.session(agent, chat, channel)
    await desk.run(lambda: deleted(session.sync, desk.tenancy.records))


@post(
    _ONE + "/auto-title",
    operation_id="titleSession",
    tags=_TAGS,
    summary="Have the model name the session",
    status_code=200,
    responses=problems(404),
)
async def title_session(
    desk: FromDesk, agent: AgentName, chat: ChatId, channel: Channel = CHANNEL
) -> SessionView:
    session = await desk.session(agent, chat, channel)
    return session_view(await auto_title(session, await desk.tenancy.agent(agent)))


@get(
    "/v1/agents/{agent:str}/welcome",
    operation_id="getWelcome",
    tags=_TAGS,
    summary="The agent's welcome, written once by its model",
    responses=problems(),
)
async def get_welcome(desk: FromDesk, agent: AgentName) -> WelcomeView:
    name = desk.at(agent, "welcome").key.agent  # checked
    made = await welcome(desk.front, await desk.tenancy.agent(name), name)
    return WelcomeView(text=made.text, model=made.model)


@post(
    _ONE + "/fork",
    operation_id="forkSession",
    tags=_TAGS,
    summary="Begin a session with this one's history",
    responses=problems(404, 409),
)
async def fork_session(
    desk: FromDesk, agent: AgentName, chat: ChatId, data: JSONBody[NewFork], channel: Channel = CHANNEL
) -> Response[SessionView]:
    session = await desk.session(agent, chat, channel)
    to = desk.new(agent, data.chat or new_ulid().lower(), channel)
    made = await desk.run(session.sync.fork, to.key, at=data.at)
    return _made(session_view(await desk.run(lambda: made.meta)))


@get(
    _ONE + "/context",
    operation_id="getContext",
    tags=_TAGS,
    summary="What the model would see now, with the budget by section",
    responses=problems(404),
)
async def get_context(
    desk: FromDesk,
    agent: AgentName,
    chat: ChatId,
    channel: Channel = CHANNEL,
    budget: Annotated[int | None, QueryParameter(ge=1, le=100_000_000)] = None,
) -> ContextView:
    session = await desk.session(agent, chat, channel)
    try:
        who = await desk.tenancy.agent(agent)
    except NoModel:  # and what is logged can be looked at all the same
        who = None
    return await desk.run(_context, session.sync, who, budget)


@post(
    _ONE + "/compact",
    operation_id="compactSession",
    tags=_TAGS,
    summary="Fold what is old into a summary",
    status_code=200,
    responses=problems(404, 409),
)
async def compact_session(
    desk: FromDesk, agent: AgentName, chat: ChatId, channel: Channel = CHANNEL
) -> CompactionView:
    session = await desk.session(agent, chat, channel)
    made = await compacted(session.sync, await desk.tenancy.agent(agent))
    if isinstance(made, Nothing):
        return CompactionView(
            compacted=False, tokens_before=made.tokens, tokens_after=made.tokens, reason=made.reason
        )
    return CompactionView(
        compacted=True,
        tokens_before=made.entry.tokens_before,
        tokens_after=made.entry.tokens_after,
        entries=made.covered,
        by=made.entry.by,
        stood_in="the model did not write it" if made.stood_in else "",
    )


@get(
    _ONE + "/export",
    operation_id="exportSession",
    tags=_TAGS,
    summary="The session as JSON lines, to be read, or as a model's messages",
    responses=problems(404)
    | {
        200: ResponseSpec(
            str,
            description="In the form that was asked for, with its own media type",
            media_type="application/x-ndjson",
            generate_examples=False,
        )
    },
)
async def export_session(
    desk: FromDesk,
    agent: AgentName,
    chat: ChatId,
    channel: Channel = CHANNEL,
    format: FromQuery[Literal["jsonl", "markdown", "html", "openai", "anthropic", "sharegpt"]] = "jsonl",
    all: FromQuery[bool] = False,
) -> Streamed:
    session = (await desk.session(agent, chat, channel)).sync
    pieces = await desk.run(_exported, session, format, all)
    how = EXPORTS[format]
    return Streamed(in_batches(desk, pieces), media_type=how.media_type, headers=dict(how.headers))


@get(
    _ONE + "/entries",
    operation_id="listEntries",
    tags=_TAGS,
    summary="The entries of the log, a page at a time in both directions",
    responses=problems(404),
)
async def list_entries(
    desk: FromDesk,
    agent: AgentName,
    chat: ChatId,
    channel: Channel = CHANNEL,
    before: Annotated[int | None, QueryParameter(ge=1, le=2**53)] = None,
    after: Annotated[int | None, QueryParameter(ge=0, le=2**53)] = None,
    limit: Limit = 50,
    payloads: FromQuery[bool] = False,
    all: FromQuery[bool] = False,
) -> EntriesView:
    session = await desk.session(agent, chat, channel)
    page = await desk.run(
        entries_page,
        session.sync,
        before=before,
        after=after,
        limit=limit,
        payloads=payloads,
        generations="all" if all else "current",
    )
    entries = [msgspec.json.decode(line) for line in to_jsonl(page.entries)]
    return EntriesView(entries=entries, before=page.before, after=page.after)


@post(
    _ONE + "/restart",
    operation_id="restartSession",
    tags=_TAGS,
    summary="Begin the history anew; while a turn runs only when it is asked for twice",
    status_code=200,
    responses=problems(404, 409),
)
async def restart_session(
    desk: FromDesk, agent: AgentName, chat: ChatId, channel: Channel = CHANNEL
) -> RestartView:
    session = await desk.session(agent, chat, channel)
    asked: Restart = await session.restart()
    return RestartView(done=asked.done, confirm_within=asked.confirm_within)


ROUTES = (
    list_sessions,
    begin_session,
    get_session,
    change_session,
    delete_session,
    title_session,
    get_welcome,
    fork_session,
    get_context,
    compact_session,
    export_session,
    list_entries,
    restart_session,
)


def _made(view: SessionView) -> Response[SessionView]:
    return Response(view, status_code=201)


def _check_metadata(desk: Desk, metadata: dict[str, Any]) -> None:
    """Raises `AccessDenied` for who may say nothing of a session, and `InvalidInput` for whose it is: that
    follows from who asks."""
    if metadata and not desk.asker.principal.has("agent", "admin"):
        raise AccessDenied("metadata is not for this token to say", hint="leave out `metadata`")
    if "users" in metadata:
        raise InvalidInput("whose a session is follows from who asks", hint="leave out `users`")


def _context(session: Session, agent: Agent | None, budget: int | None) -> ContextView:
    if agent is None:
        made = session.context(budget)
    else:
        made = session.context(
            budget,
            system=agent.system or None,
            model=agent.model.name,
            tools=offered(agent),
            memory=agent.memory,
        )
    return ContextView(
        tokens=made.tokens,
        budget=made.budget,
        sections=[
            SectionView(name=each.name, tokens=each.tokens, left_out=each.left_out) for each in made.sections
        ],
        messages=made.messages(),
        turns_left_out=made.turns_left_out,
        degraded=made.degraded,
        warning=made.warning,
    )


def _exported(session: Session, format: str, every: bool) -> Iterator[bytes]:
    meta = session.meta
    entries = session.entries(generations="all" if every else "current")
    return exported(format, session.key, meta.title, entries, meta.metadata)
