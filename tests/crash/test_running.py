"""A turn with a model, its process killed in the middle: what was finished is kept, and not done again."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from context.histories import chat_is_strict
from engine.children import child
from stratalog.config import Settings
from stratalog.context.invariants import NO_RESULT
from stratalog.engine.agents import Agent
from stratalog.engine.aio import AsyncStratalog
from stratalog.engine.running import Replied, ask, resume
from stratalog.engine.tools import tool
from stratalog.log.contract import Verifies
from stratalog.models.configured import Configured
from stratalog.models.contract import Request
from stratalog.testing.scripted import ScriptedModel
from stratalog.types import AnyEntry, Assistant, Compaction, ToolResult, TurnEnd, User

pytestmark = pytest.mark.crash
KEY = "a:cli:me"

# Its second reply calls two tools, of which `waits` never answers; or it is held before its last word; or the
# compaction before it is held.
SCRIPT = """
import asyncio
from contextlib import aclosing
from stratalog.config import Settings
from stratalog.engine.aio import AsyncStratalog
from stratalog.engine.agents import Agent
from stratalog.engine.running import run
from stratalog.engine.tools import tool
from stratalog.models.configured import Configured
from stratalog.testing.scripted import Call, Gate, Reply, ScriptedModel
from stratalog.models.contract import TextDelta
where, gate = sys.argv[2], Gate()
def read(number: int) -> str:
    return f"file {number}"
async def waits() -> str:
    say("held")
    await gate.passed()
    return "never"
second = {
    "tool": Reply(calls=(Call("waits", id="w"), Call("read", {"number": 2}, id="r2"))),
    "stream": Reply(text="one two three", late_gate=gate),
    "replied": Reply(text="the reply"),
}
model = ScriptedModel([Reply(text="So.", calls=(Call("read", {"number": 1}, id="r1"),)), second[where]])
async def work():
    async with AsyncStratalog(sys.argv[1], settings=Settings(windows={"m": 100000})) as memory:
        chat = memory.session("a:cli:me")
        if where == "replied":
            append = memory.sync.store.append
            def held(key, entries, fence=None):
                if any(type(entry).__name__ == "TurnEnd" for entry in entries):
                    say("held")
                    hear()
                return append(key, entries, fence=fence)
            memory.sync.store.append = held
        agent = Agent(model=Configured(model, "m"), tools=(tool(read), tool(waits)), remembers=False)
        async with aclosing(run(chat, agent, "Read all.")) as events:
            heard = 0
            async for event in events:
                if where == "stream" and isinstance(event, TextDelta) and model.requests[1:]:
                    heard += 1
                    if heard == 2:
                        say("held")
                if where == "tool" and type(event).__name__ == "Answered":
                    say(event.result.call_id)
asyncio.run(work())
"""


async def gone_on(data: Path, model: ScriptedModel) -> tuple[list[AnyEntry], list[AnyEntry], list[Any]]:
    """Resumes what a crash left. The log before and after, and the events."""

    def read(number: int) -> str:
        raise AssertionError("what was done is not done again")

    async with AsyncStratalog(data, settings=Settings(windows={"m": 100_000})) as memory:
        chat = memory.session(KEY)
        before = await chat.entries()
        (left,) = await chat.unfinished()
        assert left.started
        assert left.message.text == "Read all."
        agent = Agent(model=Configured(model, "m"), tools=(tool(read),), remembers=False)
        events = [event async for event in resume(chat, agent, left.turn)]
        after = await chat.entries()
        assert await chat.unfinished() == []
        again = ScriptedModel(["yes"], check=lambda request: chat_is_strict(request.body["messages"]))
        reply = await ask(chat, Agent(model=Configured(again, "m")), "And now?")
        assert reply.text == "yes"
        assert isinstance(memory.sync.store, Verifies)
        assert memory.sync.store.verify(chat.key).problems == ()
    return before, after, events


def killed(data: Path, where: str, *heard: str) -> None:
    with child(SCRIPT, data, where) as other:
        for words in heard:
            assert other.hear() == words
        other.kill()


def test_killed_in_a_tool(data: Path) -> None:
    """Both rounds so far are kept, the result that had come too; the call that was cut is told as such, and
    none is made again."""
    killed(data, "tool", "r1", "held", "r2")
    model = ScriptedModel(["Done."], check=lambda request: chat_is_strict(request.body["messages"]))
    before, after, events = asyncio.run(gone_on(data, model))
    assert after[: len(before)] == before
    results = [entry.call_id for entry in before if isinstance(entry, ToolResult)]
    assert results == ["r1", "r2"]
    answered = {
        message["tool_call_id"]: message["content"]
        for message in model.requests[0].body["messages"]
        if message["role"] == "tool"
    }
    assert answered == {"r1": "file 1", "w": NO_RESULT, "r2": "file 2"}
    assert isinstance(events[-1], Replied)
    assert [entry.status for entry in after if isinstance(entry, TurnEnd)] == ["answered"]
    assert len({entry.turn for entry in after}) == 1


def test_killed_in_a_stream(data: Path) -> None:
    """The finished round is kept; of the reply that was under way nothing is, and it is asked for anew."""
    killed(data, "stream", "held")
    model = ScriptedModel(["Done."], check=lambda request: chat_is_strict(request.body["messages"]))
    before, after, events = asyncio.run(gone_on(data, model))
    assert after[: len(before)] == before
    assert [entry.text for entry in before if isinstance(entry, Assistant)] == ["So."]
    contents = [message["content"] for message in model.requests[0].body["messages"]]
    assert contents == ["Read all.", "So.", "file 1"]
    assert isinstance(events[-1], Replied)
    assert [entry.text for entry in after if isinstance(entry, Assistant)] == ["So.", "Done."]


def test_killed_between_the_reply_and_the_end(data: Path) -> None:
    """The reply is kept; resumed, the turn is ended with it, and the model is not asked."""
    killed(data, "replied", "held")
    before, after, events = asyncio.run(gone_on(data, ScriptedModel([])))
    assert [entry.text for entry in before if isinstance(entry, Assistant)] == ["So.", "the reply"]
    assert not any(isinstance(entry, TurnEnd) for entry in before)
    assert [event.reply.text for event in events if isinstance(event, Replied)] == ["the reply"]
    assert [entry.text for entry in after if isinstance(entry, Assistant)] == ["So.", "the reply"]


def test_killed_in_a_compaction(data: Path) -> None:
    """In a long tool loop, a summary in hand is lost with the process, and nothing else: resumed, the turn is
    compacted and answered, with its message in view."""
    script = """
import asyncio
from stratalog.config import Settings
from stratalog.engine.aio import AsyncStratalog
from stratalog.engine.agents import Agent
from stratalog.engine.running import ask
from stratalog.engine.tools import tool
from stratalog.models.configured import Configured
from stratalog.testing.scripted import Call, Gate, Reply, ScriptedModel
def read(number: int) -> str:
    return f"file {number}: " + "quite ordinary words " * 190
numbers = iter(range(100))
model = ScriptedModel(lambda request: Reply(text="So.", calls=(Call("read", {"number": next(numbers)}),)))
class Held(Gate):
    async def passed(self):
        say("held")
        await super().passed()
summariser = ScriptedModel([Reply(text="They read.", late_gate=Held())])
async def work():
    async with AsyncStratalog(sys.argv[1], settings=Settings(windows={"m": 8192, "s": 100000})) as memory:
        who, by = Configured(model, "m"), Configured(summariser, "s")
        agent = Agent(model=who, summariser=by, tools=(tool(read),), remembers=False)
        await ask(memory.session("a:cli:me"), agent, "Read all.")
asyncio.run(work())
"""

    def answer(request: Request) -> Any:
        chat_is_strict(request.body["messages"])
        summary = "<transcript>" in str(request.body["messages"][-1]["content"])
        if not summary:
            assert "Read all." in [message["content"] for message in request.body["messages"]]
        return "They read." if summary else "Done."

    async def work() -> None:
        settings = Settings(windows={"m": 8_192})
        async with AsyncStratalog(data, settings=settings) as memory:
            chat = memory.session(KEY)
            before = await chat.entries()
            assert not any(isinstance(entry, Compaction | TurnEnd) for entry in before)
            (left,) = await chat.unfinished()
            agent = Agent(model=Configured(ScriptedModel(answer, window=8_192), "m"), remembers=False)
            events = [event async for event in resume(chat, agent, left.turn)]
            assert isinstance(events[-1], Replied)
            after = await chat.entries()
            assert after[: len(before)] == before
            assert sum(isinstance(entry, Compaction) for entry in after) == 1
            assert sum(isinstance(entry, User) for entry in after) == 1

    with child(script, data) as other:
        assert other.hear() == "held"
        other.kill()
    asyncio.run(work())


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return tmp_path / "data"
