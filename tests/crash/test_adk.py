"""The ADK's sessions when a process is killed, and with two processes at once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from google.adk.agents import LlmAgent
from google.adk.errors import StaleSessionError
from google.adk.runners import Runner
from google.adk.sessions.base_session_service import GetSessionConfig

from engine.children import child
from interop.adk_samples import (
    OF_ANA,
    Scripted,
    ask,
    loaded,
    run,
    said,
    state,
)
from stratalog import Stratalog
from stratalog.interop.adk import StratalogSessionService
from stratalog.types import TurnEnd, WorkingMemory

pytestmark = pytest.mark.crash


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Stratalog]:
    with Stratalog(tmp_path / "data") as opened:
        yield opened


CRASH = """
import asyncio
from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions
from stratalog import Stratalog
from stratalog.interop.adk import StratalogSessionService
from stratalog.points import arm
async def work():
    service = StratalogSessionService(Stratalog(sys.argv[1]))
    session = await service.get_session(app_name="shop", user_id="ana", session_id="s")
    arm("append.synced", int(sys.argv[2]))
    delta = {"app:n": 2, "user:n": 2, "n": 2}
    await service.append_event(session, Event(author="a", actions=EventActions(state_delta=delta)))
asyncio.run(work())
"""


@pytest.mark.parametrize("at", [1, 2])
def test_killed_between_an_event_and_its_state(memory: Stratalog, at: int) -> None:
    """An event whose process died before the states of app and user had its change: whoever reads the session
    next sees both, and the change is applied once, also after others changed the same."""

    async def body() -> None:
        service = StratalogSessionService(memory)
        session = await service.create_session(**OF_ANA, session_id="s")
        other = await service.create_session(**OF_ANA, session_id="other")
        await service.append_event(session, said("one", actions=state(app__n=1, user__n=1, n=1)))
        with child(CRASH, memory.data, at) as killed:
            assert killed.end() == -9
        for _ in range(2):
            found = await loaded(service)
            assert found.state == {"n": 2, "app:n": 2, "user:n": 2}
            assert len(found.events) == 2
        await service.append_event(other, said("three", actions=state(app__n=3)))
        with Stratalog(memory.data) as again:
            anew = StratalogSessionService(again)
            assert (await loaded(anew)).state == {"n": 2, "app:n": 3, "user:n": 2}
            with pytest.raises(StaleSessionError):
                await service.append_event(session, said("two"))
            found = await loaded(anew, config=GetSessionConfig(num_recent_events=0))
            await anew.append_event(found, said("two"))
            assert (await loaded(anew)).state == {"n": 2, "app:n": 3, "user:n": 2}

    run(body)
    applied = [
        entry.value
        for entry in memory.session("shop:adk-state:user:ana").entries()
        if isinstance(entry, WorkingMemory)
    ]
    assert applied == [1, 2]


RUNNING = """
import asyncio
from google.adk.agents import LlmAgent
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_response import LlmResponse
from google.adk.runners import Runner
from google.genai import types
from stratalog import Stratalog
from stratalog.interop.adk import StratalogSessionService
class Model(BaseLlm):
    async def generate_content_async(self, llm_request, stream=False):
        part = types.Part(function_call=types.FunctionCall(name="pay", args={}))
        yield LlmResponse(content=types.Content(role="model", parts=[part]))
def pay(tool_context):
    "Pays."
    say("held")
    hear()
async def work():
    service = StratalogSessionService(Stratalog(sys.argv[1]))
    agent = LlmAgent(name="payer", model=Model(model="m"), tools=[pay])
    runner = Runner(app_name="shop", agent=agent, session_service=service, auto_create_session=True)
    message = types.Content(role="user", parts=[types.Part(text="Pay now.")])
    async for event in runner.run_async(user_id="ana", session_id="s", new_message=message):
        pass
asyncio.run(work())
"""


def test_a_killed_turn_goes_on_in_another_process(memory: Stratalog) -> None:
    """What the runner had appended when it was killed is there; its turn is unfinished, and the next message
    ends it as interrupted and is answered."""
    with child(RUNNING, memory.data) as killed:
        assert killed.hear() == "held"
        killed.kill()
    log = memory.session("shop:adk:ana:s")
    (cut,) = log.unfinished()
    assert cut.started
    assert cut.message.text == "Pay now."

    async def body() -> None:
        service = StratalogSessionService(memory)
        events = (await loaded(service)).events
        assert [event.author for event in events] == ["user", "payer"]
        assert events[1].get_function_calls()[0].name == "pay"
        agent = LlmAgent(name="payer", model=Scripted.of("I do not know whether it was paid."))
        runner = Runner(app_name="shop", agent=agent, session_service=service)
        await ask(runner, "Was it paid?")
        assert len((await loaded(service)).events) == 4

    run(body)
    assert [entry.status for entry in log.entries() if isinstance(entry, TurnEnd)] == [
        "interrupted",
        "answered",
    ]


COUNTING = """
import asyncio
from google.adk.errors import StaleSessionError
from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions
from stratalog import Stratalog
from stratalog.interop.adk import StratalogSessionService
async def work():
    service = StratalogSessionService(Stratalog(sys.argv[1]))
    for n in range(20):
        delta = {"theirs": n, "app:theirs": n, f"app:t{n}": n}
        event = Event(author="a", actions=EventActions(state_delta=delta))
        while True:
            session = await service.get_session(app_name="shop", user_id="ana", session_id="s")
            try:
                await service.append_event(session, event)
                break
            except StaleSessionError:
                pass
say("ready")
hear()
asyncio.run(work())
"""


def test_two_processes_append_to_one_session(memory: Stratalog) -> None:
    """Two processes that append at once, and read again when they are refused, lose no event and no state."""

    async def body() -> None:
        service = StratalogSessionService(memory)
        await service.create_session(**OF_ANA, session_id="s")
        with child(COUNTING, memory.data) as other:
            assert other.hear() == "ready"
            other.tell()
            for n in range(20):
                event = said(str(n), actions=state(mine=n, app__mine=n))
                while True:
                    session = await loaded(service)
                    try:
                        await service.append_event(session, event)
                        break
                    except StaleSessionError:
                        pass
            assert other.end() == 0
        found = await loaded(service)
        deltas = [event.actions.state_delta for event in found.events]
        assert [delta["mine"] for delta in deltas if "mine" in delta] == list(range(20))
        assert [delta["theirs"] for delta in deltas if "theirs" in delta] == list(range(20))
        shared = {"app:mine": 19, "app:theirs": 19} | {f"app:t{n}": n for n in range(20)}
        assert found.state == {"mine": 19, "theirs": 19} | shared

    run(body)
