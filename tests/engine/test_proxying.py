"""Turns that stop for who asked: engine/running.py and turn.py; and engine/choosing.py, what a name means."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from stratalog.context.shapes.contract import Tool
from stratalog.context.view import NO_RESULT
from stratalog.engine.agents import Agent
from stratalog.engine.aio import AsyncSession, AsyncStratalog
from stratalog.engine.choosing import Chosen, agents, chosen
from stratalog.engine.core import Stratalog
from stratalog.engine.running import ELSEWHERE, Answered, Called, Handed, Replied, elsewhere, resume, run
from stratalog.engine.tools import AgentTool, tool
from stratalog.errors import ModelRejected
from stratalog.keys import sessions_dir
from stratalog.models.configured import Configured
from stratalog.testing.scripted import Call, Reply, ScriptedModel
from stratalog.types import ToolCall, ToolResult, TurnEnd, TurnStart, User

KEY = "assistant:cli:me"
THEIRS = AgentTool(Tool("theirs", "", {"type": "object"}), elsewhere)


def add(a: int, b: int) -> int:
    return a + b


def agent(model: ScriptedModel) -> Agent:
    return Agent(model=Configured(model, "gpt-4o"), tools=(THEIRS, tool(add)), remembers=False)


def talking(data: Path, work: Callable[[AsyncSession], Awaitable[None]]) -> None:
    async def main() -> None:
        async with AsyncStratalog(data) as memory:
            await work(memory.session(KEY))

    asyncio.run(main())


async def all_of(events: Any) -> list[Any]:
    return [event async for event in events]


def test_a_turn_stops_for_the_tools_of_who_asked(data: Path) -> None:
    """Those of the agent are performed; then the turn is left unfinished with the last event, its session
    free; the results are logged in it, and it goes on."""
    script = [Reply(calls=(Call("theirs", id="t"), Call("add", {"a": 1, "b": 2}))), Reply(text="done")]
    model = ScriptedModel(script)

    async def work(session: AsyncSession) -> None:
        events = await all_of(run(session, agent(model), "go"))
        kinds = [type(event) for event in events]
        assert kinds == [Called, Called, Answered, Handed]
        (call,) = events[-1].calls
        assert (call.call_id, call.meta) == ("t", {ELSEWHERE: True})
        (left,) = await session.unfinished()
        assert left.turn == call.turn
        assert not session.sync.busy
        await session.append(ToolResult(turn=left.turn, call_id="t", content="theirs"))
        events = await all_of(resume(session, agent(model), left.turn))
        assert [type(event) for event in events][-1] is Replied
        results = [each for each in model.requests[-1].body["messages"] if each["role"] == "tool"]
        assert [each["content"] for each in results] == ["theirs", "3"]
        assert not await session.unfinished()

    talking(data, work)


def test_another_message_ends_a_turn_that_was_left(data: Path) -> None:
    """It is interrupted, its call has a result that says so, and only calls of who asked are marked."""
    model = ScriptedModel([Reply(calls=(Call("theirs", id="t"),)), Reply(text="on")])

    async def work(session: AsyncSession) -> None:
        await all_of(run(session, agent(model), "go"))
        await all_of(run(session, agent(model), "never mind"))
        entries = await session.entries()
        assert [each.status for each in entries if isinstance(each, TurnEnd)] == ["interrupted", "answered"]
        assert [each["content"] for each in model.requests[-1].body["messages"]][-2] == NO_RESULT

    talking(data, work)


def test_a_turn_that_failed_may_be_gone_on_with(data: Path) -> None:
    """`again`: it is not ended, its session is free, and the message is in the log once."""
    model = ScriptedModel([ModelRejected("no"), ModelRejected("no"), Reply(text="yes")])

    async def work(session: AsyncSession) -> None:
        arrival = await session.submit("go")
        for _ in range(2):
            with pytest.raises(ModelRejected):
                await all_of(resume(session, agent(model), arrival.turn, again=True))
            assert not session.sync.busy
        events = await all_of(resume(session, agent(model), arrival.turn, again=True))
        assert events[-1].reply.text == "yes"
        entries = await session.entries()
        assert len([each for each in entries if isinstance(each, User)]) == 1
        assert len([each for each in entries if isinstance(each, TurnStart)]) == 3
        assert [each.status for each in entries if isinstance(each, TurnEnd)] == ["answered"]

    talking(data, work)


def test_a_turn_that_is_left_writes_nothing_more(data: Path) -> None:
    """Leaving it ends it for its holder, and not in the log; a second time, or an end, does nothing."""
    with Stratalog(data) as memory:
        session = memory.session(KEY)
        turn = session.turn("go")
        turn.call("theirs", {}, call_id="t")
        turn.leave()
        turn.leave()
        turn.end()
        assert [each.turn for each in session.unfinished()] == [turn.id]
        with session.start(turn.id) as again:
            again.result("t", "r")
            again.reply("done")
        kinds = [type(each) for each in session.entries() if not isinstance(each, TurnStart)]
        assert kinds[:3] == [User, ToolCall, ToolResult]


@pytest.mark.parametrize(
    ("name", "agent", "meant"),
    [
        ("agent:coach", "", Chosen("coach", "")),
        ("agent:coach", "other", Chosen("coach", "")),
        ("coach", "", Chosen("coach", "")),
        ("assistant", "", Chosen("assistant", "")),
        ("talker", "", Chosen("talker", "")),
        ("gpt-5", "", Chosen("assistant", "")),
        ("gpt-4o", "", Chosen("assistant", "openai:gpt-4o")),
        ("gpt-4o", "coach", Chosen("coach", "openai:gpt-4o")),
        ("coach", "coach", Chosen("coach", "")),
        ("anthropic:x", "coach", Chosen("coach", "anthropic:x")),
        ("extractive", "", Chosen("assistant", "extractive")),
        ("llama3:8b", "", Chosen("assistant", "openai:llama3:8b")),
    ],
)
def test_what_a_models_name_means(data: Path, name: str, agent: str, meant: Chosen) -> None:
    """An agent that there is, by settings or sessions; a model with its provider, or of the agent's own."""
    data.mkdir(exist_ok=True)
    (data / "stratalog.toml").write_text('model = "openai:gpt-5"\n')
    with Stratalog(data) as memory:
        memory.session("talker:cli:1").append(User(content="x"))
        own = sessions_dir(data, "local", "coach").parent
        own.mkdir(parents=True)
        (own / "agent.toml").write_text("")
        assert chosen(memory, name, agent) == meant
        assert list(agents(memory, None)) == ["assistant", "coach", "talker"]
        assert list(agents(memory, "ana")) == ["assistant", "coach"]
