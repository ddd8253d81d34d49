"""What somebody who comes to the service asks first: who they are, which agents and sessions there are, and
what stands around an entry."""

from __future__ import annotations

from typing import Annotated

import msgspec
from litestar import get
from litestar.params import PathParameter, QueryParameter

from stratalog import __version__
from stratalog.engine.serving_overview import agents_seen, entries_around
from stratalog.interop.export import to_jsonl
from stratalog.surfaces.access.principals import Role
from stratalog.surfaces.http.errors import problems
from stratalog.surfaces.http.fields import AgentName, Channel, ChatId, Cursor, Limit
from stratalog.surfaces.http.queries import strict
from stratalog.surfaces.http.routes_sessions import EntriesView
from stratalog.surfaces.http.service import CHANNEL, FromDesk
from stratalog.surfaces.http.views import SessionPage, session_view

_Only = Annotated[str | None, QueryParameter(description="Only of this.", min_length=1, max_length=1024)]
_Around = Annotated[int, QueryParameter(description="How many entries at most.", ge=0, le=249)]


class MeView(msgspec.Struct, frozen=True, kw_only=True):
    """Who asks. `user` is whom this request is for, "" for nobody in particular; `name` is what the token is
    called, `expires` milliseconds UTC, 0 for never; `version` is the service's."""

    tenant: str
    user: str
    roles: list[Role]
    name: str
    expires: int
    version: str


class ChannelView(msgspec.Struct, frozen=True):
    """A channel of an agent, and how many of its sessions are in sight."""

    name: str
    sessions: int


class AgentView(msgspec.Struct, frozen=True, kw_only=True):
    """An agent with sessions in sight, how many, in which channels. `has_model`: its settings name a model
    that answers."""

    name: str
    sessions: int
    channels: list[ChannelView]
    has_model: bool


class AgentList(msgspec.Struct, frozen=True):
    """Agents, by name."""

    agents: list[AgentView]


@get("/v1/me", operation_id="getMe", tags=["about"], summary="Who asks", responses=problems())
async def get_me(desk: FromDesk) -> MeView:
    who = desk.asker.principal
    return MeView(
        tenant=who.tenant,
        user=desk.asker.user,
        roles=sorted(who.roles),
        name=who.name,
        expires=who.expires,
        version=__version__,
    )


@get(
    "/v1/agents",
    operation_id="listAgents",
    tags=["about"],
    summary="The agents with sessions in sight, and the channels of these",
    responses=problems(),
)
async def list_agents(desk: FromDesk) -> AgentList:
    found = await desk.run(agents_seen, desk.front.sync, desk.asker.sight)
    return AgentList(
        [
            AgentView(
                name=each.name,
                sessions=sum(each.channels.values()),
                channels=[ChannelView(name, number) for name, number in each.channels.items()],
                has_model=each.has_model,
            )
            for each in found
        ]
    )


@get(
    "/v1/sessions",
    operation_id="listAllSessions",
    tags=["sessions"],
    summary="The sessions in sight of all agents and channels, pinned first, then the newest",
    responses=problems(),
)
async def list_all_sessions(
    desk: FromDesk,
    agent: _Only = None,
    channel: _Only = None,
    title: Annotated[
        str, QueryParameter(description="Words that the title has in it, in any case.", max_length=1_000)
    ] = "",
    limit: Limit = 50,
    cursor: Cursor = "",
) -> SessionPage:
    user = desk.asker.sight
    page = await desk.front.sessions(
        agent=agent, channel=channel, user=user, title=title, limit=limit, cursor=cursor
    )
    return SessionPage(sessions=[session_view(meta) for meta in page.sessions], cursor=page.cursor)


@get(
    "/v1/agents/{agent:str}/sessions/{chat:str}/entries/{entry:str}/around",
    operation_id="listEntriesAround",
    tags=["sessions"],
    summary="An entry of the history, by its id or number, and those around it",
    responses=problems(404),
)
async def list_entries_around(
    desk: FromDesk,
    agent: AgentName,
    chat: ChatId,
    entry: Annotated[str, PathParameter(description="Its id or its number.", max_length=1024)],
    channel: Channel = CHANNEL,
    before: _Around = 25,
    after: _Around = 25,
    payloads: Annotated[bool, QueryParameter(description="With what is kept beside the log.")] = False,
) -> EntriesView:
    session = await desk.session(agent, chat, channel)
    page = await desk.run(entries_around, session.sync, entry, before=before, after=after, payloads=payloads)
    entries = [msgspec.json.decode(line) for line in to_jsonl(page.entries)]
    return EntriesView(entries=entries, before=page.before, after=page.after)


ROUTES = strict(get_me, list_agents, list_all_sessions, list_entries_around)
