"""What answers in a session, and how the settings shape it: the model, its tools, when it is compacted."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, Protocol, TypeAlias

import msgspec

from stratalog.config import Settings
from stratalog.context import shorten
from stratalog.context.compact import Policy, preset
from stratalog.context.shapes.contract import Tool
from stratalog.engine import working
from stratalog.engine.aio import AsyncTurn
from stratalog.engine.notes import Blocks
from stratalog.engine.seeing import Room
from stratalog.engine.session import Session
from stratalog.engine.tools import AgentTool, Run
from stratalog.errors import InvalidInput, NoModel
from stratalog.models.configured import Configured, model_from
from stratalog.types import Content, ToolResult

AfterWork: TypeAlias = Callable[[Session, str], object]
ResultRoom: TypeAlias = Callable[[], tuple[int, Callable[[str], int]]]


class Mind(Protocol):
    """What an agent knows beyond the conversation. Its calls are made in a thread; what `blocks`, `recall`
    and `after` raise costs nobody the turn, and what `answer` raises is told to the model."""

    @property
    def user(self) -> str:
        """For whom it is; "" for nobody in particular. Messages of its turns are noted as theirs."""
        ...

    @property
    def tools(self) -> Sequence[Tool]:
        """The tools by which the model looks into it."""
        ...

    def blocks(self, session: Session, shown: Blocks | None) -> Blocks | None:
        """Texts that stand before the conversation, frozen from one compaction to the next. Asked as a turn
        begins and after a compaction: with None to freeze them anew, else with those that are `shown`, to put
        others in their place when they tell of what was forgotten. None: they stay."""
        ...

    def stands(self, session: Session, turn: str) -> Mapping[str, str]:
        """Asked before `recall` in this turn: what was recalled for those before, by their ids, and may still
        be shown. It stands before their messages, so that the model still has what it answered by, and a
        request begins as the last one did. {}: nothing stays."""
        ...

    def recall(self, session: Session, text: str, standing: Collection[str] = ()) -> Sequence[str]:
        """Asked once a turn, and after a compaction in it, with the message's words: texts that may matter,
        the worthiest first. They are shown as data before the message, as far as they fit. `standing` are
        the turns of which what was recalled is shown already."""
        ...

    def answer(self, session: Session, turn: str, name: str, args: dict[str, Any]) -> str:
        """Performs a call of one of its tools, made in this turn."""
        ...

    def after(self, session: Session, turn: str) -> str:
        """Told of each turn that was answered, in order, when the session is let go; after a crash again. It
        tells what went wrong that it keeps to be tried again, "" for nothing. Where it raises, the turn stays
        to be told of."""
        ...


class Agent(msgspec.Struct, frozen=True, kw_only=True):
    """What answers in a session: the model, what the system says to it, and the tools that it has.

    `memory` are blocks of text that stand beside its working memory, which it tends by tools of its own if it
    `remembers`. `summariser` is the model that writes summaries, if not the one that answers. `mind` is what
    it knows beyond the conversation. `after` are called in a thread with the session and the turn's id when a
    turn was answered and the session let go; what they raise is told as a problem. Raises `InvalidInput` when
    two tools have one name.
    """

    model: Configured
    system: str = ""
    tools: tuple[AgentTool, ...] = ()
    memory: tuple[str, ...] = ()
    remembers: bool = True
    summariser: Configured | None = None
    mind: Mind | None = None
    after: tuple[AfterWork, ...] = ()

    async def close(self) -> None:
        """Ends the connections of its models in the running event loop; asked again, they open new ones."""
        for who in (self.model, self.summariser):
            if who is not None:
                await who.close()

    def __post_init__(self) -> None:
        names = [each.name for each in offered(self)]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise InvalidInput("two tools of an agent have one name", names=twice)


def policy_of(settings: Settings, room: Room) -> Policy:
    """When to compact a session for a model with this room, by the agent's settings."""
    policy = preset(settings.compaction.preset, room.tokens + room.reserve, room.reserve)
    own = {
        name: value
        for name, value in msgspec.structs.asdict(settings.compaction).items()
        if value is not None and name not in ("preset", "summariser")
    }
    changed: Policy = msgspec.structs.replace(policy, **own)
    return changed


def agent_of(settings: Settings, **what: Any) -> Agent:
    """The agent whose model, summariser and words of the system the settings name; `what` are further fields
    of `Agent`, and a `system` that is not empty is said instead.

    Raises `NoModel` when they name none, and `InvalidConfig` for one that cannot be had.
    """
    if not settings.model:
        raise NoModel(
            "no model is configured", hint="set `model` in stratalog.toml, such as openai:gpt-5, or name one"
        )
    model = configured(settings.model, settings)
    summariser = settings.compaction.summariser
    other = configured(summariser, settings) if summariser else None
    system = what.pop("system", "") or settings.system
    return Agent(model=model, summariser=other, system=system, **what)


def may_answer(model: str, settings: Settings) -> bool:
    """Whether a user's request may name this model, at the cost of whose agent it is."""
    patterns = (settings.model, *settings.models)
    return any(fnmatchcase(model.strip(), pattern) for pattern in patterns if pattern)


def configured(spec: str, settings: Settings) -> Configured:
    """The model; where the settings' own is, if it is of the same provider."""
    provider, _, _ = spec.partition(":")
    if settings.model and settings.model.partition(":")[0].strip() != provider.strip():
        return model_from(spec)
    return model_from(
        spec,
        base_url=settings.base_url,
        api_key_env=settings.api_key_env,
        sends_reasoning=settings.sends_reasoning,
        reach=settings.reach,
    )


def offered(agent: Agent) -> tuple[Tool, ...]:
    """The tools that the model is offered: the agent's own, its memory's, and what reads results back."""
    own = (*(each.tool for each in agent.tools), *(working.TOOLS if agent.remembers else ()))
    own = (*own, *(agent.mind.tools if agent.mind is not None else ()))
    return (*own, shorten.TOOL) if own else ()


def tools_of(agent: Agent, session: Session, turn: AsyncTurn, room: ResultRoom) -> dict[str, AgentTool]:
    """The agent's tools and its memory's, by name. `room` tells the tokens that a result is shown with."""
    own = list(agent.tools)
    if agent.remembers:
        limit = session.settings.working_memory_limit
        mine = working.WorkingDict(
            lambda entries: turn.sync.append(*entries), lambda: session.meta.working_memory, limit
        )
        own += [AgentTool(each, _remembering(mine, each.name, turn)) for each in working.TOOLS]
    if agent.mind is not None:
        own += [AgentTool(each, _knowing(agent.mind, session, each.name, turn)) for each in agent.mind.tools]
    if own:
        own.append(AgentTool(shorten.TOOL, _reading(session, turn, room)))
    return {each.name: each for each in own}


def _remembering(mine: working.WorkingDict, name: str, turn: AsyncTurn) -> Run:
    async def run(args: dict[str, Any]) -> Content:
        return await turn.call_sync(working.answer, mine, name, args)

    return run


def _knowing(mind: Mind, session: Session, name: str, turn: AsyncTurn) -> Run:
    async def run(args: dict[str, Any]) -> Content:
        return await turn.call_sync(mind.answer, session, turn.sync.id, name, args)

    return run


def _reading(session: Session, turn: AsyncTurn, room: ResultRoom) -> Run:
    def read(args: dict[str, Any]) -> str:
        found = session.entry(str(args.get("ref", "")))
        if not isinstance(found, ToolResult):
            raise InvalidInput("that is no tool's result", ref=found.id)
        offset, length = args.get("offset", 0), args.get("length", shorten.DEFAULT_PIECE)
        if not (isinstance(offset, int) and isinstance(length, int)):
            raise InvalidInput("`offset` and `length` are whole numbers", tool=shorten.READ_TOOL)
        limit, count = room()
        length = min(length, shorten.LONGEST_PIECE)
        # A piece that is over what a result is shown with would be shown without its middle.
        while True:
            piece = msgspec.json.encode(shorten.piece_of(found, offset, length)).decode()
            if length == 1 or count(piece) <= limit:
                return piece
            length = max(1, length * 2 // 3)

    async def run(args: dict[str, Any]) -> Content:
        return await turn.call_sync(read, args)

    return run
