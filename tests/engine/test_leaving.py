"""engine/leaving.py: no path sends a session's words to a model that its residency forbids.

Models are real, over HTTP, and asked at servers of this machine; how far one reaches is said. What a server
that is forbidden got is counted: it must be nothing, on every path.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import aclosing
from pathlib import Path
from typing import Any

import msgspec
import pytest

from stratalog.config import Settings
from stratalog.engine.agent_memory import AgentMemory
from stratalog.engine.agents import Agent
from stratalog.engine.aio import AsyncStratalog
from stratalog.engine.compaction import Compacted, Reaching, compact, compact_now, preset, summariser_of
from stratalog.engine.continuing import continue_async
from stratalog.engine.core import Stratalog
from stratalog.engine.idle import compact_idle
from stratalog.engine.leaving import check, reason
from stratalog.engine.remembering import Records
from stratalog.engine.running import Event, Replied, Warned, ask, resume, run
from stratalog.engine.session import Session
from stratalog.engine.tools import tool
from stratalog.errors import LaneDenied, ModelRejected
from stratalog.models.configured import Configured, model_from
from stratalog.models.contract import Reach
from stratalog.testing.model_server import ModelServer, Refuse
from stratalog.testing.scripted import Call, Reply
from stratalog.types import Compaction, TurnEnd, User

KEY = "a:cli:me"
NAME = "m"
PATIENCE = 60.0
SUMMARY = "They spoke of Lisbon and of parcels, and decided to ship on Friday."
Work = Callable[[AsyncStratalog], Awaitable[None]]


def at(server: ModelServer, reach: Reach | str = "", name: str = NAME) -> Configured:
    """The server's model; it is of this machine unless its reach is said."""
    return model_from(f"openai:{name}", base_url=server.openai_url, reach=reach)  # type: ignore[arg-type]


@pytest.fixture
def far() -> Iterator[ModelServer]:
    """A server that would answer anything; that it is far away is said by `at(far, "world")`."""
    with ModelServer(lambda request: "Told to the world.") as server:
        yield server


@pytest.fixture
def near() -> Iterator[ModelServer]:
    with ModelServer(lambda request: "Told at home.") as server:
        yield server


def in_memory(data: Path, work: Work) -> None:
    async def whole() -> None:
        settings = Settings(sync="never", windows={"*": 100_000})
        async with AsyncStratalog(data, settings=settings) as memory:
            await asyncio.wait_for(work(memory), PATIENCE)

    asyncio.run(whole())


async def all_of(events: AsyncGenerator[Event, None]) -> list[Event]:
    async with aclosing(events) as reading:
        return [event async for event in reading]


def talk(session: Session, turns: int = 6, **metadata: Any) -> None:
    """Turns that are worth a summary, and what is said of the session."""
    for number in range(turns):
        with session.turn(
            f"{number}: " + "My sister Ana lives in Lisbon and waits for a parcel. " * 20
        ) as turn:
            turn.reply("I noted it. " * 40)
    if metadata:
        session.set_metadata(**metadata)


# --- turns ---


@pytest.mark.parametrize(
    ("residency", "reach", "allowed"),
    [
        (None, "world", True),
        ("cloud", "world", True),
        ("on_prem", "world", False),
        ("on_prem", "premises", True),
        ("on_prem", "", True),
        ("local_only", "world", False),
        ("local_only", "premises", False),
        ("local_only", "", True),
        ("nobody knows", "world", False),
        ("nobody knows", "premises", False),
        ("nobody knows", "machine", True),
    ],
)
def test_a_turn_asks_a_model_that_it_may(
    data: Path, far: ModelServer, residency: str | None, reach: str, allowed: bool
) -> None:
    """Allowed, the model answers; forbidden, it gets nothing, the error says what to do, and the message is
    in the log, in a turn that was interrupted."""

    async def work(memory: AsyncStratalog) -> None:
        chat, made = memory.session(KEY), Agent(model=at(far, reach))
        await memory.run(chat.sync.set_metadata, residency=residency)
        if allowed:
            assert (await ask(chat, made, "Hello.")).text == "Told to the world."
            assert far.facts.requests == 1
        else:
            with pytest.raises(LaneDenied) as raised:
                await ask(chat, made, "Hello.")
            assert raised.value.where["key"] == f"local/{KEY}"
            assert (raised.value.where["model"], raised.value.where["reach"]) == (NAME, reach)
            assert residency in str(raised.value.where["residency"])
            assert "reach" in raised.value.hint
            assert far.facts.requests == 0
        entries = list(chat.sync.entries())
        assert [each.text for each in entries if isinstance(each, User)] == ["Hello."]
        ended = [each.status for each in entries if isinstance(each, TurnEnd)]
        assert ended == ["answered" if allowed else "interrupted"]
        await made.close()

    in_memory(data, work)


def test_a_residency_that_comes_during_a_turn_counts_from_the_next_request_on(
    data: Path, far: ModelServer
) -> None:
    """A tool, or another process, sets it: what the tool answered goes nowhere any more."""

    async def work(memory: AsyncStratalog) -> None:
        chat = memory.session(KEY)

        async def stays() -> str:
            await memory.run(memory.sync.session(KEY).set_metadata, residency="local_only")
            return "a secret"

        with ModelServer([Reply(calls=(Call("stays", {}),)), "never"]) as server:
            made = Agent(model=at(server, "world"), tools=(tool(stays),), summariser=at(far, "world"))
            with pytest.raises(LaneDenied):
                await ask(chat, made, "Hello.")
            assert server.facts.requests == 1
            assert far.facts.requests == 0
            await made.close()

    in_memory(data, work)


def test_a_forbidden_turn_is_not_resumed(data: Path, near: ModelServer, far: ModelServer) -> None:
    """A message that waits goes on waiting, and an allowed model answers it."""

    async def work(memory: AsyncStratalog) -> None:
        chat = memory.session(KEY)
        await memory.run(chat.sync.set_metadata, residency="local_only")
        arrival = await chat.submit("Hello.")
        away, home = Agent(model=at(far, "world")), Agent(model=at(near))
        with pytest.raises(LaneDenied):
            await all_of(resume(chat, away, arrival.turn))
        assert [turn.turn for turn in await chat.unfinished()] == [arrival.turn]
        events = await all_of(resume(chat, home, arrival.turn))
        assert isinstance(events[-1], Replied)
        assert events[-1].reply.text == "Told at home."
        assert far.facts.requests == 0
        await home.close()

    in_memory(data, work)


# --- another model for a turn ---


def test_another_model_that_is_forbidden_is_replaced(data: Path, near: ModelServer, far: ModelServer) -> None:
    """The agent's answers, with a warning that says why."""

    async def work(memory: AsyncStratalog) -> None:
        chat, made = memory.session(KEY), Agent(model=at(near))
        await memory.run(chat.sync.set_metadata, residency="local_only")
        events = await all_of(run(chat, made, "Hello.", model=at(far, "world")))
        (warned,) = [event for event in events if isinstance(event, Warned)]
        assert "the agent's own model answers instead" in warned.reason
        assert "residency" in warned.reason
        assert (near.facts.requests, far.facts.requests) == (1, 0)
        await made.close()

    in_memory(data, work)


def test_where_no_model_is_allowed_none_is_asked(data: Path, near: ModelServer, far: ModelServer) -> None:
    """Neither the turn's own nor the agent's; and an allowed one does not make way for a forbidden one."""

    async def work(memory: AsyncStratalog) -> None:
        chat, made = memory.session(KEY), Agent(model=at(far, "premises"))
        await memory.run(chat.sync.set_metadata, residency="local_only")
        with pytest.raises(LaneDenied):
            await ask(chat, made, "Hello.", model=at(far, "world"))
        assert (await ask(chat, made, "Hello.", model=at(near))).text == "Told at home."
        unknown = Refuse(404, code="model_not_found", message="The model `m` does not exist")
        with ModelServer([unknown]) as server, pytest.raises(ModelRejected):
            await ask(chat, made, "Hello.", model=at(server))
        assert far.facts.requests == 0

    in_memory(data, work)


# --- summaries ---


def test_a_summariser_that_is_forbidden_is_stood_in_for(data: Path, far: ModelServer) -> None:
    """In a turn, the compaction is the extractive summariser's and its entry says why; the turn goes on."""

    async def work(memory: AsyncStratalog) -> None:
        chat = memory.session(KEY)
        await memory.run(talk, chat.sync, 30, residency="local_only")
        with ModelServer(lambda request: "Noted.", window=8_000) as server:
            made = Agent(model=at(server), summariser=at(far, "world", "s"))
            events = await all_of(run(chat, made, "And now?"))
            (folded,) = [event for event in events if isinstance(event, Compacted)]
            assert "residency" in folded.stood_in
            assert folded.entry.by == "extractive"
            assert far.facts.requests == 0
            await made.close()

    async def whole() -> None:
        settings = Settings(sync="never", windows={"*": 8_000})
        async with AsyncStratalog(data, settings=settings) as memory:
            await asyncio.wait_for(work(memory), PATIENCE)

    asyncio.run(whole())


def summariser(server: ModelServer, reach: Reach) -> Any:
    who = at(server, reach)
    ask = summariser_of(who.model, who.name, reach=who.reach)

    async def once(text: str) -> str:
        try:
            return await ask(text)
        finally:
            await who.close()

    return Reaching(once, reach)


@pytest.fixture
def scribe() -> Iterator[ModelServer]:
    with ModelServer(lambda request: SUMMARY) as server:
        yield server


@pytest.mark.parametrize("path", ["compact", "compact_now", "idle", "continue"])
@pytest.mark.parametrize("reach", ["machine", "world", "unknown"])
def test_every_summary_is_made_by_one_who_may(
    memory: Stratalog, scribe: ModelServer, path: str, reach: Any
) -> None:
    """Compaction, by hand and of the idle, and the summary that a session continues with: made at home by a
    near model, and by the extractive summariser where the model is far, or anybody's of unknown reach."""
    session = memory.session(KEY)
    talk(session, residency="local_only")
    made = summariser(scribe, "machine" if reach == "unknown" else reach)
    summarise = made.ask if reach == "unknown" else made
    told = summarised(memory, session, path, summarise)
    if reach == "machine":
        assert told == ""
        assert scribe.facts.requests > 0
    else:
        assert "residency" in told
        assert scribe.facts.requests == 0


def summarised(memory: Stratalog, session: Session, path: str, summarise: Any) -> str:
    """Has the session summarised; why another stood in. The entry in the log says the same."""
    policy = msgspec.structs.replace(preset("default", 100_000), keep_turns=1)
    if path == "continue":
        continued = asyncio.run(
            continue_async(
                memory, session.key, "a:cli:new", inherit="summary", summarise=summarise, policy=policy
            )
        )
        session, told = continued.session, continued.stood_in
    elif path == "idle":
        (done,) = compact_idle(memory, idle=-1, messages=2, policy=policy, summarise=summarise)
        told = done.stood_in
    else:
        made = (
            compact_now(session, policy=policy, summarise=summarise, force=True)
            if path == "compact_now"
            else asyncio.run(compact(session, policy=policy, summarise=summarise, force=True))
        )
        assert isinstance(made, Compacted)
        told = made.stood_in
    (entry,) = [each for each in session.entries() if isinstance(each, Compaction)]
    assert (entry.meta or {}).get("stood_in", "") == told
    assert entry.by == ("extractive" if told else "model")
    return told


def test_a_summary_of_many_parts_stops_where_a_residency_comes(memory: Stratalog) -> None:
    """Set while the first part is summarised, it keeps the second at home."""
    session = memory.session(KEY)
    talk(session, 12)
    asked: list[str] = []

    async def summarise(text: str) -> str:
        asked.append(text)
        session.set_metadata(residency="local_only")
        return SUMMARY

    policy = msgspec.structs.replace(preset("default", 100_000), keep_turns=1)
    made = asyncio.run(
        compact(session, policy=policy, summarise=summarise, summariser_window=6_000, force=True)
    )
    assert isinstance(made, Compacted)
    assert "residency" in made.stood_in
    assert len(asked) == 1


# --- what is drawn from a turn ---


def test_nothing_is_drawn_by_a_model_that_is_forbidden(
    data: Path, near: ModelServer, far: ModelServer
) -> None:
    """What the session's own log says counts, and nobody need pass it on."""

    async def work(memory: AsyncStratalog) -> None:
        chat = memory.session(KEY)
        await memory.run(chat.sync.set_metadata, residency="local_only")
        with Records(memory.sync) as records:
            mind = AgentMemory(records, user="ana", model=at(far, "world"))
            made = Agent(model=at(near), mind=mind)
            reply = await ask(chat, made, "I live in Lisbon.")
            assert await memory.run(mind.draw, chat.sync, reply.turn) == []
            await made.close()
        assert (near.facts.requests, far.facts.requests) == (1, 0)

    in_memory(data, work)


# --- the one place that decides ---


def test_each_answer_is_a_line(memory: Stratalog, caplog: pytest.LogCaptureFixture) -> None:
    """JSON on the logger of the module: who, what, how far, and why; a warning where it is no."""
    caplog.set_level(logging.INFO, "stratalog.engine.leaving")
    session = memory.session(KEY)
    session.set_metadata(residency="on_prem")
    near, far = Configured(None, "near", "premises"), Configured(None, "far")  # type: ignore[arg-type]  # not asked
    assert reason(session, near) == ""
    check(session, near)
    assert "residency" in reason(session, far)
    with pytest.raises(LaneDenied, match="residency"):
        check(session, far)
    lines = [json.loads(message) for message in caplog.messages]
    common = {"event": "model.lane", "tenant": "local", "session": f"local/{KEY}", "residency": "on_prem"}
    yes = {**common, "model": "near", "reach": "premises", "outcome": "allowed"}
    no = {**common, "model": "far", "reach": "world", "outcome": "denied"}
    assert all(line.pop("reason") for line in lines)
    assert lines == [yes, yes, no, no]
    assert [record.levelname for record in caplog.records] == ["INFO", "INFO", "WARNING", "WARNING"]
