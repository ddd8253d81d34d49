"""A data directory that is served to many tenants at once: what each has open, and who answers for it.

    serving = Serving("data")
    acme = serving.of("acme")
    async with aclosing(run(acme.front.session("a:http:1"), await acme.agent("a", user="ana"), "Hello")):
        ...
    await serving.close()

All tenants share one pool of threads; none sees another's records, sessions or agents.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from stratalog.config import Settings
from stratalog.engine.agent_memory import AgentMemory, memory_of
from stratalog.engine.agents import Agent, agent_of, policy_of
from stratalog.engine.aio import AsyncStratalog
from stratalog.engine.background import Background
from stratalog.engine.compaction import Compacted, Nothing, compact, summariser_of
from stratalog.engine.core import Stratalog
from stratalog.engine.remembering import PRODUCTION, Records
from stratalog.engine.seeing import room_of
from stratalog.engine.session import Session
from stratalog.engine.upkeep import upkeep
from stratalog.errors import Conflict, InvalidConfig
from stratalog.log.contract import Problem
from stratalog.models.extractive import NAME as EXTRACTIVE

_MINDS: Final = 1_000  # of a tenant, that are kept; one made anew knows what it knew, but what it showed last


class Tenancy:
    """What is open of one tenant. `front` is its memory; its records are opened when first asked for. What a
    model draws from turns is done `later`, in the background, or else after each."""

    def __init__(self, front: AsyncStratalog, *, later: bool = False) -> None:
        self.front = front
        self._later = later
        self._mutex = threading.Lock()
        self._records: Records | None = None
        self._agents: dict[int, tuple[Settings, Agent]] = {}
        self._minds: OrderedDict[tuple[str, str, str, str], AgentMemory] = OrderedDict()

    @property
    def tenant(self) -> str:
        return self.front.sync.tenant

    @property
    def records(self) -> Records:
        """The tenant's memory records. For one who is in a thread."""
        with self._mutex:
            if self._records is None:
                self._records = Records(self.front.sync)
            return self._records

    async def agent(self, name: str, *, session: Session | None = None, user: str = "") -> Agent:
        """Who answers as this agent, for the user: its settings' model, with what is remembered where they
        have memory. `session` is the one in which it answers, where there is one.

        Raises `InvalidConfig` where no model can be had.
        """
        return await self.front.run(self.agent_now, name, session=session, user=user)

    def agent_now(self, name: str, *, session: Session | None = None, user: str = "") -> Agent:
        """`agent`, for one who is in a thread."""
        settings = self.front.sync.settings_of(name)
        agent = self._agent_of(settings)
        if session is None or not settings.memory.enabled:
            return agent
        told = session.meta.metadata
        run, environment = str(told.get("run", "")), str(told.get("environment", PRODUCTION))
        made: Agent = replace(agent, mind=self._mind(name, settings, (user, run, environment)))
        return made

    async def close(self) -> None:
        """Ends the models' connections and closes the records; the memory stays open."""
        for _, agent in self._agents.values():
            await agent.close()
        if self._records is not None:
            await self.front.run(self._records.close)

    def _agent_of(self, settings: Settings) -> Agent:
        """One for all agents of the same settings, so that names which anybody thinks up cost nothing."""
        with self._mutex:
            found = self._agents.get(id(settings))
            if found is None:
                found = self._agents[id(settings)] = (settings, agent_of(settings))
            return found[1]

    def _mind(self, name: str, settings: Settings, whose: tuple[str, str, str]) -> AgentMemory:
        records = self.records
        user, run, environment = whose
        with self._mutex:
            found = self._minds.pop((name, *whose), None)
            if found is None:
                # The setting names who talks on a machine of one's own; here it is who was recognised.
                own = replace(settings, memory=replace(settings.memory, user=""))
                found = memory_of(records, own, user=user, run=run, environment=environment)
            found.later = self._later
            self._minds[name, *whose] = found
            if len(self._minds) > _MINDS:
                self._minds.popitem(last=False)
        return found


class Serving:
    """The data directory, for one event loop. With `background` what is due is done too, for all tenants,
    unless another process does it. `threads` is how many calls of the engine run at the same time."""

    def __init__(self, data: Path | str, *, threads: int = 32, background: bool = False) -> None:
        self._front = AsyncStratalog(data, threads=threads)
        self._tenancies: dict[str, Tenancy] = {}
        self._background, self._later = _begun(self.memory) if background else (None, False)

    @property
    def memory(self) -> Stratalog:
        """The directory itself, as the tenant `local` has it."""
        return self._front.sync

    @property
    def front(self) -> AsyncStratalog:
        """The same for asyncio."""
        return self._front

    def of(self, tenant: str) -> Tenancy:
        """What is open of the tenant. Raises `InvalidKey`."""
        found = self._tenancies.get(tenant)
        if found is None:
            found = self._tenancies[tenant] = Tenancy(self._front.as_tenant(tenant), later=self._later)
        return found

    async def let_go(self) -> None:
        """Takes every session from its turn without a word of it in the log: these turns are unfinished, as
        after a crash, and can be resumed."""
        await self._front.run(self.memory._shared.manager.close)

    async def close(self) -> None:
        """Finishes what was asked for, then closes everything."""
        if self._background is not None:
            await self._front.run(self._background.close)
        for tenancy in self._tenancies.values():
            await tenancy.close()
        await self._front.close()


async def compacted(session: Session, agent: Agent) -> Compacted | Nothing:
    """Compacts the session for this agent's model, also below its trigger. Raises as `compact` does."""
    settings = session.settings
    room = room_of(agent.model.name, settings)
    who = agent.summariser or agent.model
    if who.name == EXTRACTIVE:
        return await compact(session, policy=policy_of(settings, room), force=True)
    return await compact(
        session,
        policy=policy_of(settings, room),
        summarise=summariser_of(who.model, who.name, silence=settings.silence, reach=who.reach),
        by=who.name,
        summariser_window=room_of(who.name, settings).tokens,
        force=True,
    )


def _begun(memory: Stratalog) -> tuple[Background | None, bool]:
    """The work in the background, and whether somebody does it; where that cannot be, it is a problem."""
    try:
        return upkeep(memory), True
    except Conflict:  # another process does it
        return None, True
    except InvalidConfig as error:
        memory.note(Problem(f"nothing is done in the background: {error}"))
        return None, False
