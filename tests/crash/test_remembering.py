"""A process killed between a reply and its memory: the turn is remembered later, and once."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.children import child
from stratalog.config import Settings
from stratalog.engine.agent_memory import AgentMemory
from stratalog.engine.core import Stratalog
from stratalog.engine.minding import due
from stratalog.engine.remembering import Records
from stratalog.engine.upkeep import runner_of
from stratalog.ids import now_ms
from stratalog.testing.model_server import ModelServer

pytestmark = pytest.mark.crash
KEY = "a:cli:me"

# Stands still where it is told to: before anything is remembered of the reply, when its preview is written
# and its drawing is put, while the model draws, or before it is noted that the turn is remembered.
SCRIPT = """
import asyncio, json
from stratalog.engine.agents import Agent
from stratalog.engine.agent_memory import AgentMemory
from stratalog.engine.aio import AsyncStratalog
from stratalog.engine.remembering import Records
from stratalog.engine.running import ask
from stratalog.models.configured import Configured
from stratalog.testing.scripted import ScriptedModel
where = sys.argv[2]
def hold(place):
    if place == where:
        say("held")
        hear()
def drawing(request):
    hold("drawing")
    return json.dumps({"facts": [], "summary": ""})
class Held(AgentMemory):
    def after(self, session, turn):
        hold("before")
        told = super().after(session, turn)
        hold("after")
        return told
async def work():
    async with AsyncStratalog(sys.argv[1]) as memory:
        with Records(memory.sync) as records:
            put = records.jobs.put
            def held(*args, **more):
                made = put(*args, **more)
                hold("put")
                return made
            records.jobs.put = held
            mind = Held(records, user="ana", model=Configured(ScriptedModel(drawing), "m"))
            agent = Agent(model=Configured(ScriptedModel(["Nice."]), "m"), mind=mind)
            await ask(memory.session("a:cli:me"), agent, "I live in Lisbon.")
asyncio.run(work())
"""


@pytest.mark.parametrize("where", ["before", "put", "drawing", "after"])
def test_killed_between_a_reply_and_its_memory(where: str, tmp_path: Path) -> None:
    """The background of another process remembers the turn; its preview is there once, and its drawing is a
    job that is done, or that is taken again when the lease of the killed one is over."""
    data = tmp_path / "data"
    with child(SCRIPT, data, where) as killed:
        assert killed.hear() == "held"
        killed.kill()
    with ModelServer(lambda request: '{"facts": [], "summary": ""}') as server:
        settings = Settings(model="openai:m", base_url=server.openai_url)
        again(data, settings, where)


def again(data: Path, settings: Settings, where: str) -> None:
    with Stratalog(data, settings=settings) as memory:
        session = memory.session(KEY)
        (end,) = due(session)
        with runner_of(memory, clock=lambda: now_ms() + 3_600_000) as runner:
            ran = {job.kind: job.state for job in runner.run_due()}
        assert ran["remember"] == "done"
        assert due(session) == []
        assert session.meta.remembered == end.seq
        with Records(memory) as records:
            who = AgentMemory(records, user="ana").caller(session)
            (record,) = records.service.list(who).records
            assert record.key.startswith("pair")
            assert record.text.startswith("I live in Lisbon.")
            assert record.evidence == 1
            drawings = records.jobs.list(kind="draw").jobs
        assert [job.state for job in drawings] == ["done"]
        assert memory.doctor(repair=True).healthy  # its unfinished files are swept
