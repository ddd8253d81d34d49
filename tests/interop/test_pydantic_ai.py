"""interop/pydantic_ai.py: Pydantic AI's own agents, whose messages are in a log and fitted into a budget."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel
from pydantic_ai import Agent, ModelRetry, PydanticAIDeprecationWarning
from pydantic_ai.capabilities import ProcessHistory
from pydantic_ai.messages import (
    BinaryContent,
    CompactionPart,
    DocumentUrl,
    FilePart,
    ImageUrl,
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelResponse,
    NativeToolCallPart,
    NativeToolReturnPart,
    RetryPromptPart,
    SystemPromptPart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, FunctionModel
from pydantic_ai.models.test import TestModel
from pydantic_ai.usage import RequestUsage

from stratalog import Stratalog
from stratalog.aio import AsyncStratalog
from stratalog.engine.compaction import Compacted, Policy, compact
from stratalog.errors import ContextOverflow, InvalidInput, SessionBusy
from stratalog.interop.pydantic_ai import FitHistory, StratalogHistory
from stratalog.types import Assistant, Image, Reasoning, System, ToolCall, ToolResult, TurnEnd, Usage, User

LONG = "The hotel in Bergen has a view of the harbour. " * 3
SMALL = Policy(window=1_500, keep_turns=2)
PNG = b"\x89PNG" * 10


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Stratalog]:
    with Stratalog(tmp_path / "data") as made:
        yield made


@pytest.fixture
def history(memory: Stratalog) -> StratalogHistory:
    return StratalogHistory(memory, "chat")


def wire(messages: list[ModelMessage]) -> bytes:
    """The messages byte for byte as the SDK's adapter writes them."""
    return ModelMessagesTypeAdapter.dump_json(messages)


def every_part() -> list[ModelMessage]:
    """Messages with parts of every kind."""
    picture = BinaryContent(PNG, media_type="image/png")
    files = [LONG, ImageUrl("https://x.org/y.png"), picture, DocumentUrl("https://x.org/d.pdf")]
    return [
        ModelRequest([SystemPromptPart("Be brief."), UserPromptPart(files)], instructions="More."),
        ModelResponse(
            [
                ThinkingPart("Look first.", id="rs_1", signature="sealed", provider_name="openai"),
                TextPart(LONG),
                ToolCallPart("look", {"city": "Bergen"}, "c1"),
                ToolCallPart("look", '{"city": "Oslo"}', "c2"),
                ToolCallPart("look", "no json", "c3"),
                NativeToolCallPart("web_search", {"q": 1}, "n1", provider_name="openai"),
                NativeToolReturnPart("web_search", {"r": [LONG]}, "n1", provider_name="openai"),
                FilePart(picture),
            ],
            usage=RequestUsage(input_tokens=10, output_tokens=3, details={"x": 1}),
            model_name="m",
            provider_details={"a\ud800": [1.5]},
        ),
        ModelRequest(
            [
                ToolReturnPart("look", {"degrees": [1, 2.0], "note": LONG}, "c1"),
                ToolReturnPart("look", [LONG, picture], "c2", metadata={"kept": True}),
                ToolReturnPart("look", "again, please", "c3", outcome="retried"),
                UserPromptPart("and?"),
            ]
        ),
        ModelResponse([]),
        ModelRequest([]),
        ModelRequest([UserPromptPart([])]),
    ]


def test_messages_come_back_exactly(memory: Stratalog, history: StratalogHistory) -> None:
    """Every kind of part, byte for byte by the SDK's adapter, under either front."""

    async def body() -> None:
        messages = every_part()
        assert await history.append(messages) == 6
        assert wire(await history.load()) == wire(messages)
        async with AsyncStratalog(memory.data) as other:
            assert wire(await StratalogHistory(other, "chat").load()) == wire(messages)
            assert await StratalogHistory(other, "another").load() == []

    asyncio.run(body())


def test_they_are_entries(memory: Stratalog, history: StratalogHistory) -> None:
    """Prompts, replies, calls and returns, which are searched and shown, with no text in the log twice."""
    asyncio.run(history.append(every_part()[:3]))
    entries = list(history.session.entries())
    assert [type(entry) for entry in entries] == [
        *(System, User, Assistant, ToolCall, ToolCall, ToolCall),
        *(ToolResult, ToolResult, ToolResult, User),
    ]
    said = entries[2]
    assert isinstance(said, Assistant)
    assert said.content[0] == Reasoning(text="Look first.", signature="sealed")
    assert (said.model, said.usage) == ("m", Usage(input=10, output=3))
    assert isinstance(entries[3], ToolCall)
    assert entries[3].response == said.response
    result = entries[6]
    assert isinstance(result, ToolResult)
    assert (result.name, result.error) == ("look", False)
    assert '"degrees": [1, 2.0]' in result.text
    assert isinstance(entries[7], ToolResult)
    assert isinstance(entries[7].content[1], Image)
    assert isinstance(entries[8], ToolResult)
    assert entries[8].error
    hits = {found.hit.seq for found in memory.search("harbour")}
    assert {2, 3, 7, 8} <= hits
    log = next(memory.data.rglob("*.jsonl")).read_text()
    assert log.count(base64.b64encode(PNG).decode()) == 3  # it is in the messages three times
    assert log.count("degrees") == 1


def agent_of(*steps: Any, **how: Any) -> tuple[Agent[None, Any], list[list[ModelMessage]]]:
    """An agent whose model gives these steps in order, and the messages that it was sent."""
    left = list(steps)
    asked: list[list[ModelMessage]] = []

    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        asked.append(list(messages))
        step = left.pop(0)
        parts = step if isinstance(step, list) else [TextPart(step)]
        return ModelResponse(parts)

    agent: Agent[None, Any] = Agent(FunctionModel(answer), **how)

    @agent.tool_plain
    def weather(city: str) -> str:
        """The weather in a city."""
        if city == "Nowhere":
            raise ModelRetry("there is no such city")
        return f"{city}: rain " + LONG

    return agent, asked


def call(city: str, call_id: str) -> ToolCallPart:
    return ToolCallPart("weather", {"city": city}, call_id)


def test_runs_go_on_from_one_another(history: StratalogHistory) -> None:
    """Several runs with tools and a retry: each sees what the others said, and a run saved twice is there
    once."""

    async def body() -> None:
        agent, asked = agent_of(
            [TextPart("Let me look."), call("Nowhere", "c1"), call("Oslo", "c2")],
            [call("Bergen", "c3")],
            "Rain everywhere.",
            "As I said.",
            system_prompt="Be brief.",
        )
        first = await agent.run("Weather?", message_history=await history.load())
        assert await history.append(first.new_messages()) == 6
        assert await history.append(first.new_messages()) == 0
        second = await agent.run("Sure?", message_history=await history.load())
        assert wire(asked[-1][:-1]) == wire(first.all_messages())
        assert await history.append(second.all_messages()) == 2
        assert await StratalogHistory(history._memory, "chat").append(second.new_messages()) == 0
        assert wire(await history.load()) == wire(second.all_messages())
        entries = list(history.session.entries())
        assert [entry.status for entry in entries if isinstance(entry, TurnEnd)] == ["answered"] * 2
        assert len({entry.turn for entry in entries}) == 2
        assert history.session.unfinished() == []
        assert [entry.error for entry in entries if isinstance(entry, ToolResult)] == [True, False, False]
        assert history.session.meta.title == "Weather?"

    asyncio.run(body())


def test_streams_and_structured_output(history: StratalogHistory) -> None:
    """A stream that calls a tool, an output that is a model of Pydantic's, and the SDK's `TestModel`."""

    class Place(BaseModel):
        city: str
        days: int

    async def stream(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[Any]:
        if len(messages) == 1:
            yield {0: DeltaToolCall("weather", '{"city": ', tool_call_id="s1")}
            yield {0: DeltaToolCall(json_args='"Rome"}')}
        else:
            yield "It "
            yield "rains."

    async def body() -> None:
        streaming: Agent[None, str] = Agent(FunctionModel(stream_function=stream))
        streaming.tool_plain(lambda city: f"{city}: rain", name="weather")
        async with streaming.run_stream("Stream.") as run:
            assert await run.get_output() == "It rains."
        await history.append(run.new_messages())
        placed = Agent(TestModel(custom_output_args={"city": "Bergen", "days": 2}), output_type=Place)
        result = await placed.run("Structure.", message_history=await history.load())
        assert result.output == Place(city="Bergen", days=2)
        await history.append(result.new_messages())
        assert wire(await history.load()) == wire(result.all_messages())
        tested = Agent(TestModel())
        tested.tool_plain(lambda n: n + 1, name="more")
        third = await tested.run("Everything.", message_history=await history.load())
        assert await history.append(third.new_messages()) == len(third.new_messages())
        ends = [entry.status for entry in history.session.entries() if isinstance(entry, TurnEnd)]
        assert ends == ["answered"] * 3
        assert wire(await history.load()) == wire(third.all_messages())

    asyncio.run(body())


def parts_of(messages: list[ModelMessage]) -> list[Any]:
    return [part for message in messages for part in message.parts]


def paired(messages: list[ModelMessage]) -> None:
    """Every call is followed by its return, every return answers a call before it, and requests come last."""
    waiting: set[str] = set()
    for message in messages:
        for part in message.parts:
            if isinstance(part, ToolCallPart):
                waiting.add(part.tool_call_id)
            elif isinstance(part, ToolReturnPart):
                assert part.tool_call_id in waiting
                waiting.remove(part.tool_call_id)
        if isinstance(message, ModelRequest):
            assert not waiting
    assert isinstance(messages[-1], ModelRequest)


async def talked(history: StratalogHistory, runs: int) -> None:
    """Runs with a tool each."""
    steps = [
        step
        for n in range(runs)
        for step in ([ThinkingPart("hm"), call(f"City {n}", f"c{n}")], f"Answer {n}.")
    ]
    agent, _ = agent_of(*steps, system_prompt="Obey.")
    for n in range(runs):
        result = await agent.run(f"Question {n}. {LONG}", message_history=await history.load())
        await history.append(result.new_messages())


def test_a_compacted_history_is_its_summary_and_what_is_kept(
    memory: Stratalog, history: StratalogHistory
) -> None:
    """The summary, the system's prompt, and whole messages after it; the next run goes on from them, and a
    history that was loaded before is sent as the compacted one is."""

    async def body() -> None:
        await talked(history, 12)
        before = await history.load()
        done = await compact(history.session, policy=SMALL)
        assert isinstance(done, Compacted)
        after = await history.load()
        (told,) = after[1].parts
        assert isinstance(told, CompactionPart)
        assert told.content == done.entry.summary
        assert after[0].parts == [before[0].parts[0]]
        assert wire(after[2:]) == wire(before[len(before) - len(after) + 2 :])
        assert 4 < len(after) < len(before)
        agent, asked = agent_of("Yes.", "Still.", capabilities=[FitHistory(history, 10_000)])
        result = await agent.run("Go on.", message_history=after)
        paired(asked[-1])
        told_again = [
            part for message in asked[-1] for part in message.parts if isinstance(part, CompactionPart)
        ]
        assert [part.content for part in told_again] == [done.entry.summary]
        assert await history.append(result.all_messages()) == 2
        again = await agent.run("And?", message_history=[*before, *result.new_messages()])
        # The SDK makes one request of several in a row.
        assert parts_of(asked[-1])[:-1] == parts_of(await history.load())
        assert await history.append(again.new_messages()) == 2
        assert wire(await history.load()) == wire([*after, *result.new_messages(), *again.new_messages()])

    asyncio.run(body())


def test_a_budget_is_kept_and_the_runs_messages_are_whole(history: StratalogHistory) -> None:
    """What is sent is within it and in pairs, with long returns shortened; what is saved is all that was
    said."""

    async def body() -> None:
        await talked(history, 8)
        agent, asked = agent_of(
            [call("Bergen", "x1"), call("Oslo" + "!" * 8_000, "x2")],
            "Done.",
            capabilities=[FitHistory(history, 900, model="gpt-4o")],
        )
        stored = await history.load()
        result = await agent.run("The last.", message_history=stored)
        for messages in asked:
            paired(messages)
            assert len(messages) < len(stored)
        returns = [part for part in asked[-1][-1].parts if isinstance(part, ToolReturnPart)]
        assert [part.tool_call_id for part in returns] == ["x1", "x2"]
        assert len(str(returns[1].content)) < 4_000
        assert len(str(result.new_messages()[2].parts[1].content)) > 8_000  # type: ignore[union-attr] # a return
        assert await history.append(result.new_messages()) == 4
        assert wire(await history.load()) == wire([*stored, *result.new_messages()])
        with pytest.raises(ContextOverflow):
            await history.fit(result.all_messages(), 3)
        assert await history.fit(result.new_messages()[:1], 500) == result.new_messages()[:1]

    asyncio.run(body())


def test_as_a_history_processor(history: StratalogHistory) -> None:
    """It can be given to the SDK's own `ProcessHistory` as a function."""

    async def body() -> None:
        await talked(history, 6)

        async def fitted(messages: list[ModelMessage]) -> list[ModelMessage]:
            return await history.fit(messages, 400)

        agent, asked = agent_of("Yes.", capabilities=[ProcessHistory(fitted)])
        stored = await history.load()
        result = await agent.run("Go on.", message_history=stored)
        assert len(asked[-1]) < len(stored)
        paired(asked[-1])
        assert await history.append(result.new_messages()) == 2

    asyncio.run(body())


def test_clear_and_what_others_said(memory: Stratalog, history: StratalogHistory) -> None:
    """A cleared history is empty and can be given the same messages again; a turn of Stratalog's own is
    messages."""

    async def body() -> None:
        await history.clear()
        messages: list[ModelMessage] = [
            ModelRequest([UserPromptPart("hi")]),
            ModelResponse([TextPart("there")]),
        ]
        assert await history.append(messages) == 2
        await history.clear()
        assert await history.load() == []
        assert await history.append(messages) == 2
        with history.session.turn("from the console") as turn:
            noted = turn.call("weather", {"city": "Oslo"}, call_id="n1")
            turn.result(noted, "snow")
            turn.reply("It snows.")
            with pytest.raises(SessionBusy):
                await StratalogHistory(memory, "chat", wait=0).append(messages * 2)
        given = [part for message in await history.load() for part in message.parts]
        said = [getattr(part, "content", getattr(part, "args", None)) for part in given]
        assert said == ["hi", "there", "from the console", {"city": "Oslo"}, "snow", "It snows."]
        last = [entry for entry in history.session.entries() if isinstance(entry, Assistant)][-1]
        history.session.withdraw(last)
        given = [part for message in await history.load() for part in message.parts]
        assert getattr(given[-1], "content", "") == "snow"

    asyncio.run(body())


def test_many_save_at_once(tmp_path: Path) -> None:
    """The same run saved by two memories at the same time, as by two processes, is there once."""

    async def body() -> None:
        with Stratalog(tmp_path) as one, Stratalog(tmp_path) as two:
            agent, _ = agent_of("Hello.")
            result = await agent.run("Hi.")
            stores = [StratalogHistory(each, "chat", wait=20) for each in (one, two, one, two)]
            counts = await asyncio.gather(*(store.append(result.new_messages()) for store in stores))
            assert sorted(counts) == [0, 0, 0, 2]
            assert wire(await stores[1].load()) == wire(result.all_messages())

    asyncio.run(body())


def test_what_changes_on_the_way_is_not_doubled(history: StratalogHistory) -> None:
    """Parts of old kinds, lone surrogates and times without a zone: what comes back is known again."""
    old = datetime(2026, 1, 1, tzinfo=UTC)
    with pytest.warns(PydanticAIDeprecationWarning, match="RetryPromptPart"):
        no_city = RetryPromptPart("no such city", tool_name="look", tool_call_id="c1")
    told: list[ModelMessage] = [
        ModelRequest([UserPromptPart("a\ud800b " * 9, timestamp=old)]),
        ModelResponse([ToolCallPart("look", {"city": "\udc00"}, "c1")], timestamp=old),
        ModelRequest([no_city]),
        ModelResponse([TextPart("Sorry.")], timestamp=datetime(2099, 1, 1)),
        ModelRequest([UserPromptPart("so", timestamp=datetime(1, 1, 1))]),
    ]

    async def body() -> None:
        assert await history.append(told) == 5
        loaded = await history.load()
        assert [await history.append(each) for each in (told, loaded)] == [0, 0]
        prompt, _, retried, *_ = parts_of(loaded)
        assert prompt.content == "a\ufffdb " * 9
        assert (retried.tool_call_id, retried.content) == ("c1", "no such city")
        assert await history.fit(loaded, 5_000) == loaded
        with pytest.raises(InvalidInput):
            await history.append([ModelRequest([ToolReturnPart("look", object(), "c2")])])

    asyncio.run(body())
    results = [entry for entry in history.session.entries() if isinstance(entry, ToolResult)]
    assert [(entry.call_id, entry.error) for entry in results] == [("c1", True)]


def test_deep_arguments(history: StratalogHistory) -> None:
    """Arguments that are nested deeper than a log's may be come back exactly."""
    value: Any = "x"
    for _ in range(150):
        value = [value]
    told: list[ModelMessage] = [ModelResponse([ToolCallPart("look", {"at": value}, "c1")])]
    assert asyncio.run(history.append(told)) == 1
    assert wire(asyncio.run(history.load())) == wire(told)
