"""engine/agent_memory.py: what an agent knows beyond the conversation comes into its turns as data, is its
own user's alone, and each turn leaves its preview once."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from stratalog.context.budget import RECALLED
from stratalog.engine.agent_memory import SEARCH, AgentMemory
from stratalog.engine.agents import Agent
from stratalog.engine.aio import AsyncStratalog
from stratalog.engine.remembering import Records
from stratalog.engine.running import Warned, ask, run
from stratalog.engine.session import Session
from stratalog.errors import InvalidInput, NotFound
from stratalog.memory.contract import Layer, Scope
from stratalog.memory.policy import Draft
from stratalog.models.configured import Configured
from stratalog.testing.scripted import Call, Reply, ScriptedModel
from stratalog.types import User

KEY = "assistant:cli:me"


def working(data: Path, work: Callable[[AsyncStratalog, Records], Awaitable[None]]) -> None:
    async def main() -> None:
        async with AsyncStratalog(data) as memory:
            with Records(memory.sync) as records:
                await work(memory, records)

    asyncio.run(main())


def agent(model: ScriptedModel, mind: Any) -> Agent:
    return Agent(model=Configured(model, "gpt-4o"), mind=mind, remembers=False)


def know(records: Records, user: str, key: str, text: str, layer: Layer = Layer.LONG) -> None:
    who = records.caller(user=user)
    records.service.remember(who, Draft(layer=layer, scope=Scope("user", user), key=key, text=text))


def shown(model: ScriptedModel, number: int = -1) -> list[str]:
    """What the user's side of a request says."""
    messages = model.requests[number].body["messages"]
    return [message["content"] for message in messages if message["role"] == "user"]


def test_what_is_known_comes_before_the_message_as_data(data: Path) -> None:
    """In English and Chinese, on one line each, without what cannot be seen, of this user alone; and it is in
    no log."""

    async def work(memory: AsyncStratalog, records: Records) -> None:
        know(records, "ana", "home", "Ana lives in\nLisbon\u202e\x00")
        know(records, "ana", "allergy", "安娜对花生过敏")
        know(records, "bob", "home", "Bob lives in Lisbon too")
        model = ScriptedModel(lambda request: "Noted.")
        mind = AgentMemory(records, user="ana")
        await ask(memory.session(KEY), agent(model, mind), "Where in Lisbon does Ana live?")
        recalled, asked = shown(model)
        assert recalled == f"{RECALLED}\n- Ana lives in Lisbon"
        assert asked == "Where in Lisbon does Ana live?"
        await ask(memory.session(KEY), agent(model, mind), "谁对花生过敏？")
        assert "- 安娜对花生过敏" in shown(model)[-2]
        assert not any("Bob" in text for number in range(2) for text in shown(model, number))
        said = [entry.text for entry in await memory.session(KEY).entries() if isinstance(entry, User)]
        assert said == ["Where in Lisbon does Ana live?", "谁对花生过敏？"]

    working(data, work)


def test_a_turn_leaves_its_preview_once(data: Path) -> None:
    """SHORT, of the session, with the ids of what was said; done again it changes nothing."""

    async def work(memory: AsyncStratalog, records: Records) -> None:
        model = ScriptedModel(["Then take a boat."])
        mind = AgentMemory(records, user="ana")
        chat = memory.session(KEY)
        reply = await ask(chat, agent(model, mind), "How do I get to Bergen?")
        who = mind.caller(chat.sync)
        (record,) = records.service.list(who, limit=10).records
        assert (record.layer, record.scope.kind) == (Layer.SHORT, "session")
        assert "Bergen" in record.text
        assert reply.id in {source.entry for source in record.sources}
        mind.after(chat.sync, reply.turn)
        assert records.service.list(who, limit=10).records == (record,)

    working(data, work)


def test_a_model_looks_for_itself(data: Path) -> None:
    """`search_memory` finds in all layers; wrong arguments are told to the model."""

    async def work(memory: AsyncStratalog, records: Records) -> None:
        know(records, "ana", "boat", "The boat Alma is moored at pier 7", Layer.SHORT)
        calls = (Call(SEARCH, {"query": "where is the boat"}), Call(SEARCH, {"query": " "}))
        model = ScriptedModel([Reply(calls=calls), "At pier 7."])
        await ask(memory.session(KEY), agent(model, AgentMemory(records, user="ana")), "Hm.")
        results = [m["content"] for m in model.requests[-1].body["messages"] if m["role"] == "tool"]
        found = json.loads(results[0])
        assert [each["text"] for each in found["found"]] == ["The boat Alma is moored at pier 7"]
        assert not found["more"]
        assert "give `query` as text" in results[1]

    working(data, work)


DRAWN = {
    "facts": [
        {
            "about": "user",
            "key": "home",
            "text": "Ana lives in Lisbon",
            "confidence": 0.9,
            "quote": "I live in Lisbon",
        },
        {
            "about": "user",
            "key": "moon",
            "text": "Ana lives on the moon",
            "confidence": 0.9,
            "quote": "the moon",
        },
    ],
    "summary": "They spoke of Lisbon.",
}


def drawing(*replies: str) -> Configured:
    return Configured(ScriptedModel(replies), "gpt-4o-mini")


def test_a_model_draws_facts_from_an_answered_turn(data: Path) -> None:
    """Facts that were said, with their sources, for later sessions; what was not said is no fact. Done again
    nothing changes."""

    async def work(memory: AsyncStratalog, records: Records) -> None:
        reply = f"Here you are:\n```json\n{json.dumps(DRAWN)}\n```"
        mind = AgentMemory(records, user="ana", model=drawing(reply, reply))
        chat = memory.session(KEY)
        answer = await ask(chat, agent(ScriptedModel(["Nice."]), mind), "I live in Lisbon.")
        assert memory.sync.problems == []
        who = records.caller(user="ana")
        (fact,) = records.service.list(who, layers=(Layer.LONG,), limit=10).records
        assert (fact.text, fact.origin, fact.sources[0].entry) == (
            "Ana lives in Lisbon",
            "model",
            answer.turn,
        )
        await memory.run(mind.draw, chat.sync, answer.turn)
        assert records.service.list(who, layers=(Layer.LONG,), limit=10).records == (fact,)
        model = ScriptedModel(["In Lisbon."])
        later = memory.session("assistant:cli:later")
        await ask(later, agent(model, AgentMemory(records, user="ana")), "Where do I live in Lisbon?")
        assert "- Ana lives in Lisbon" in shown(model)[0]

    working(data, work)


def test_a_model_that_draws_nothing_usable_is_told_and_tried_again(data: Path) -> None:
    """After one repair it is a problem; the turn keeps its preview, and can be drawn from later."""

    async def work(memory: AsyncStratalog, records: Records) -> None:
        mind = AgentMemory(records, user="ana", model=drawing("no", "still no", json.dumps(DRAWN)))
        chat = memory.session(KEY)
        answer = await ask(chat, agent(ScriptedModel(["Nice."]), mind), "I live in Lisbon.")
        (problem,) = memory.sync.problems
        assert "nothing was drawn from a turn" in problem.reason
        who = mind.caller(chat.sync)
        assert [each.layer for each in records.service.list(who, limit=10).records] == [Layer.SHORT]
        done = await memory.run(mind.draw, chat.sync, answer.turn)
        assert "stored" in {each.outcome for each in done}

    working(data, work)


def test_nothing_is_sent_for_a_session_that_stays_at_home(data: Path) -> None:
    """Where residency forbids, no model is asked."""

    async def main() -> None:
        async with AsyncStratalog(data) as memory:
            with Records(memory.sync, metadata_of=lambda who: {"residency": "local_only"}) as records:
                model = ScriptedModel([json.dumps(DRAWN)])
                mind = AgentMemory(records, user="ana", model=Configured(model, "gpt-4o-mini"))
                await ask(memory.session(KEY), agent(ScriptedModel(["Nice."]), mind), "I live in Lisbon.")
                assert model.requests == []

    asyncio.run(main())


class Broken:
    """A mind of which nothing works."""

    tools = ()

    def recall(self, session: Session, text: str) -> list[str]:
        raise KeyError("lost")

    def answer(self, session: Session, name: str, args: dict[str, Any]) -> str:
        raise NotFound("nothing")

    def after(self, session: Session, turn: str) -> None:
        raise NotFound("nothing to keep", turn=turn)


def test_what_goes_wrong_beside_a_turn_costs_nobody_the_turn(data: Path) -> None:
    """A recall that fails is a warning, and what fails after the turn is told as a problem."""

    async def work(memory: AsyncStratalog, records: Records) -> None:
        made = agent(ScriptedModel(["fine"]), Broken())
        events = [event async for event in run(memory.session(KEY), made, "Go.")]
        assert Warned("nothing was recalled: KeyError: 'lost'") in events
        (problem,) = memory.sync.problems
        assert problem.reason.startswith("after a turn: nothing to keep")

    working(data, work)


def test_names_of_tools_are_apart(data: Path) -> None:
    """A mind whose tool has a name that the agent has already is refused when the agent is made."""

    async def work(memory: AsyncStratalog, records: Records) -> None:
        mind = AgentMemory(records)
        with pytest.raises(InvalidInput, match="one name"):
            Agent(
                model=Configured(ScriptedModel([]), "gpt-4o"),
                mind=type("Twice", (), {"tools": (*mind.tools, *mind.tools)})(),
            )

    working(data, work)
