"""interop/openai_agents.py: the OpenAI Agents SDK's own Runner over sessions that are logs."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import msgspec
import pytest
from agents import (
    Agent,
    GuardrailFunctionOutput,
    InputGuardrailTripwireTriggered,
    MaxTurnsExceeded,
    ModelSettings,
    OpenAIChatCompletionsModel,
    OpenAIResponsesModel,
    RunConfig,
    Runner,
    SQLiteSession,
    function_tool,
    input_guardrail,
)
from agents.memory import Session, SessionSettings, is_openai_responses_compaction_aware_session
from agents.retry import ModelRetrySettings, retry_policies
from agents.run_internal.session_persistence import rewind_session_items
from agents.testing import ScriptedModel, assistant_message, function_call
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from openai import AsyncOpenAI
from openai.types.responses import ResponseReasoningItem

from engine.children import Child
from stratalog import Settings, Stratalog
from stratalog.aio import AsyncStratalog
from stratalog.engine.compaction import Policy
from stratalog.errors import ContextOverflow, InvalidInput, NotFound, SessionBusy
from stratalog.ids import new_ulid
from stratalog.interop.openai_agents import StratalogSession, entries_of, item_of
from stratalog.log.contract import Reading
from stratalog.testing.model_server import ModelServer
from stratalog.testing.scripted import Call, Reply
from stratalog.types import (
    Assistant,
    Compaction,
    Data,
    Image,
    Reasoning,
    System,
    Text,
    ToolCall,
    ToolResult,
    User,
)

QUIET = RunConfig(tracing_disabled=True)
PNG = "data:image/png;base64,iVBORw0KGgo="
LONG = "The hotel in Bergen has a view of the harbour. " * 3


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Stratalog]:
    with Stratalog(tmp_path / "data") as made:
        yield made


@pytest.fixture
def session(memory: Stratalog) -> StratalogSession:
    return StratalogSession(memory, "chat")


@function_tool
def weather(city: str) -> str:
    """The weather in a city."""
    return f"{city}: rain, and wind from the west"


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def words(found: list[Any]) -> list[str]:
    """The items in short."""
    return [str(item.get("content", item.get("output", item.get("type")))) for item in found]


ITEMS: list[dict[str, Any]] = [
    user("hi"),
    {"type": "message", "role": "developer", "content": "Be brief."},
    {"role": "system", "content": [{"type": "input_text", "text": LONG}]},
    {
        "role": "user",
        "content": [
            {"type": "input_text", "text": LONG},
            {"type": "input_image", "detail": "low", "image_url": PNG},
            {"type": "input_image", "detail": "auto", "file_id": "file_1"},
            {"type": "input_file", "filename": "a.pdf", "file_data": "data:application/pdf;base64,JVBERi0="},
        ],
    },
    {
        "type": "reasoning",
        "id": "rs_1",
        "summary": [{"type": "summary_text", "text": "Look first."}, {"type": "summary_text", "text": LONG}],
        "encrypted_content": "gAAAAABsecretsecretsecret",
        "status": None,
    },
    {
        "type": "message",
        "id": "msg_1",
        "role": "assistant",
        "status": "completed",
        "content": [{"type": "output_text", "text": LONG, "annotations": [], "logprobs": []}],
    },
    {
        "type": "message",
        "role": "assistant",
        "id": "msg_2",
        "content": [{"type": "refusal", "refusal": "No, I will not."}],
    },
    {
        "type": "function_call",
        "id": "fc_1",
        "call_id": "c1",
        "name": "weather",
        "arguments": '{"city": "Bergen", "n": 1}',
    },
    {
        "type": "function_call",
        "call_id": "c2",
        "name": "weather",
        "arguments": '{"city":"Tromsø","days":[1,2]}',
    },
    {"type": "function_call", "call_id": "c3", "name": "weather", "arguments": '{ "a": 1,\n "a": 2 }'},
    {"type": "function_call", "call_id": "c4", "name": "weather", "arguments": "not json at all, but long"},
    {"type": "function_call_output", "call_id": "c1", "output": LONG},
    {"type": "function_call_output", "call_id": "c2", "output": [{"type": "input_image", "image_url": PNG}]},
    {"type": "custom_tool_call", "call_id": "c5", "name": "sql", "input": "select 1 from some_table"},
    {"type": "custom_tool_call_output", "call_id": "c5", "output": "1"},
    {
        "type": "computer_call",
        "id": "cu_1",
        "call_id": "c6",
        "action": {"type": "click", "x": 1, "y": 2.5},
        "pending_safety_checks": [],
    },
    {
        "type": "computer_call_output",
        "call_id": "c6",
        "output": {"type": "computer_screenshot", "image_url": PNG},
    },
    {"type": "shell_call", "call_id": "c7", "action": {"commands": ["ls -l /somewhere"], "timeout_ms": None}},
    {
        "type": "shell_call_output",
        "call_id": "c7",
        "output": [
            {"stdout": "twelve files here", "stderr": "", "outcome": {"type": "exit", "exit_code": 0}}
        ],
    },
    {
        "type": "mcp_call",
        "id": "mcp_1",
        "name": "find",
        "server_label": "s",
        "arguments": "{}",
        "output": LONG,
    },
    {"type": "mcp_approval_response", "approval_request_id": "a", "approve": True},
    {
        "type": "web_search_call",
        "id": "ws_1",
        "status": "completed",
        "action": {"type": "search", "query": LONG},
    },
    {"type": "image_generation_call", "id": "ig_1", "result": "iVBORw0KGgo" * 9000},
    {"type": "compaction", "id": "cmp_1", "encrypted_content": "sealed" * 10},
    {"type": "item_reference", "id": "msg_0"},
    {"type": "holo_call", "call_id": "c8", "beam": {"of": [1, 2.0, None, True, 10**30]}, "text": "a\ud800b"},
    {"type": "later_output", "call_id": "c8", "output": {"$of": 0}},
    {"role": "tool", "content": {"$of": LONG}},
    {},
]


def test_items_come_back_exactly(memory: Stratalog, session: StratalogSession) -> None:
    """Of every type, known or not, in the same order of keys, also by another process and past large
    payloads."""

    async def body() -> None:
        await session.add_items(ITEMS[:5])  # type: ignore[arg-type] # of types that the SDK does not know too
        await session.add_items(ITEMS[5:])  # type: ignore[arg-type]
        found = await session.get_items()
        assert [json.dumps(item) for item in found] == [json.dumps(item) for item in ITEMS]
        assert await session.get_items(3) == ITEMS[-3:]
        assert await session.get_items(0) == []
        assert await session.get_items(-1) == ITEMS
        async with AsyncStratalog(memory.data) as other:
            assert await StratalogSession(other, "chat").get_items() == ITEMS

    asyncio.run(body())


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=40),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["$of", "type", "text", "x"]), inner)
    ),
    max_leaves=8,
)
FIELDS = [
    "type",
    "role",
    "content",
    "call_id",
    "arguments",
    "output",
    "summary",
    "text",
    "$of",
    "name",
    "action",
]
TYPES = ["message", "reasoning", "function_call", "function_call_output", "input_text", "input_image", "user"]


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.dictionaries(
        st.sampled_from(FIELDS),
        JSON | st.sampled_from([*TYPES, LONG]) | st.just([{"type": "input_text", "text": LONG}]),
    )
)
def test_any_object_comes_back_exactly(item: dict[str, Any]) -> None:
    """Whatever JSON is in whatever field, and never by two entries."""
    (entry,) = entries_of([item])
    assert json.dumps(item_of(entry)) == json.dumps(item)


def test_what_is_no_json_is_refused(session: StratalogSession) -> None:
    """With nothing written."""
    for bad in ([user("fine"), {"role": "user", "content": {1, 2}}], [["a"]], [{"x": float("nan")}]):
        with pytest.raises(InvalidInput):
            asyncio.run(session.add_items(bad))  # type: ignore[arg-type] # that is the point
    assert asyncio.run(session.get_items()) == asyncio.run(session.get_items(2)) == []
    assert asyncio.run(session.pop_item()) is None
    asyncio.run(session.clear_session())
    assert not session.session.exists


def test_no_text_is_in_the_log_twice(memory: Stratalog, session: StratalogSession) -> None:
    """Where an item has its words in a known place, the log has them once."""
    marks = {item["type"]: f"zebra {n} " + "y" * 40 for n, item in enumerate(ITEMS) if item.get("type")}
    known = [
        {"role": "user", "content": marks["message"]},
        {"type": "reasoning", "id": "rs", "summary": [{"type": "summary_text", "text": marks["reasoning"]}]},
        {
            "type": "function_call",
            "call_id": "c",
            "name": "f",
            "arguments": json.dumps({"a": marks["function_call"]}),
        },
        {"type": "function_call_output", "call_id": "c", "output": marks["function_call_output"]},
        {"type": "web_search_call", "id": "w", "action": {"query": marks["web_search_call"]}},
    ]
    asyncio.run(session.add_items(known))  # type: ignore[arg-type] # plain dictionaries
    log = next(memory.data.rglob("*.jsonl")).read_text()
    for item in known:
        assert log.count(marks[item.get("type", "message")]) == 1  # type: ignore[index] # each has one


def test_the_conversation_is_stratalogs_too(memory: Stratalog, session: StratalogSession) -> None:
    """Items are messages, calls, results and reasoning, which are searched, shown and counted."""
    asyncio.run(session.add_items(ITEMS))  # type: ignore[arg-type] # of types that the SDK does not know too
    log = session.session
    entries = list(log.entries())
    kinds = [type(entry) for entry in entries]
    assert kinds[:4] == [User, System, System, User]
    assert kinds[7:13] == [ToolCall, ToolCall, ToolCall, ToolCall, ToolResult, ToolResult]
    thought, said = entries[4], entries[5]
    assert isinstance(thought, Assistant)
    assert isinstance(said, Assistant)
    assert thought.content[0] == Reasoning(
        text="Look first.", signature="rs_1", redacted="gAAAAABsecretsecretsecret"
    )
    assert thought.response == said.response != ""
    assert entries[7].args == {"city": "Bergen", "n": 1}  # type: ignore[union-attr] # a call
    shot = entries[16]
    assert isinstance(shot, ToolResult)
    assert isinstance(shot.content[0], Image)
    assert isinstance(entries[21], Assistant)
    assert isinstance(entries[21].content[0], Data)
    assert {found.hit.seq for found in memory.search("harbour", session=log.key)} >= {4, 6, 12}
    assert memory.search("some_table", session=log.key)[0].hit.seq == 14
    assert log.meta.title == "hi"
    assert [turn.entries[0].seq for turn in log.view().turns] == [1, 4]
    assert log.context(50_000).messages()[1]["content"] == "hi"


def test_pop_and_clear_are_entries(memory: Stratalog, session: StratalogSession) -> None:
    """What is taken away is in the log, and is seen by no model and no other process."""

    async def body() -> None:
        await session.add_items([user("one"), user("two"), user("three")])  # type: ignore[list-item]
        other = StratalogSession(memory, "chat")
        assert await session.pop_item() == user("three")
        assert await other.pop_item() == user("two")
        assert await session.get_items() == await other.get_items(5) == [user("one")]
        await other.add_items([user("four")])  # type: ignore[list-item]
        assert words(await session.get_items()) == ["one", "four"]
        assert [entry.text for turn in session.session.view().turns for entry in turn.entries] == [
            "one",
            "four",
        ]
        said = [entry.text for entry in session.session.entries() if isinstance(entry, User)]
        assert said == ["one", "two", "three", "four"]
        await session.clear_session()
        assert await other.get_items() == []
        assert await other.pop_item() is None
        assert session.session.view().turns == ()
        await session.add_items([user("anew")])  # type: ignore[list-item]
        assert words(await other.get_items()) == ["anew"]
        old = session.session.entries(generations="all")
        assert [entry.text for entry in old if isinstance(entry, User)] == [*said, "anew"]

    asyncio.run(body())


def test_each_item_is_popped_once(tmp_path: Path) -> None:
    """By two memories at the same time, as by two processes; a turn that holds the session is waited for."""

    async def body() -> None:
        with Stratalog(tmp_path) as one, Stratalog(tmp_path) as two:
            sessions = [StratalogSession(each, "chat", wait=20) for each in (one, two)]
            await sessions[0].add_items([user(str(n)) for n in range(8)])  # type: ignore[misc]
            popped = await asyncio.gather(*(sessions[n % 2].pop_item() for n in range(10)))
            assert sorted(words([item for item in popped if item])) == [str(n) for n in range(8)]
            await sessions[0].add_items([user("held")])  # type: ignore[list-item]
            with sessions[0].session.turn("mine"), pytest.raises(SessionBusy):
                await StratalogSession(two, "chat", wait=0.01).pop_item()

    asyncio.run(body())


def looked_at(memory: Stratalog, monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    """How many entries of logs were read from here on."""
    total = 0
    read = memory.store.read

    def counting(*args: Any, **options: Any) -> Reading:
        reading = read(*args, **options)

        def each() -> Iterator[Any]:
            nonlocal total
            for entry in reading:
                total += 1
                yield entry

        return Reading(each(), reading.problems)

    monkeypatch.setattr(memory.store, "read", counting)
    return lambda: total


def popped_by(*sessions: StratalogSession) -> list[str]:
    """What these sessions pop, one after the other in turn, until nothing is left."""

    async def body() -> list[str]:
        found: list[str] = []
        for number in count():
            item = await sessions[number % len(sessions)].pop_item()
            if item is None:
                return found
            found += words([item])
        raise AssertionError

    return asyncio.run(body())


@pytest.mark.parametrize("objects", [1, 2])
@pytest.mark.parametrize("compacted", [False, True])
def test_popping_all_looks_at_each_entry_a_few_times(
    memory: Stratalog, monkeypatch: pytest.MonkeyPatch, objects: int, compacted: bool
) -> None:
    """Popping one after another until nothing is left costs the session's length, not its square; also where
    two objects do, and where a summary stands before the items. One pop looks at a few entries."""
    sessions = [StratalogSession(memory, "chat") for _ in range(objects)]
    many = 150
    first = [user("before")] if compacted else []
    asyncio.run(sessions[0].add_items([*first, *(user(str(n)) for n in range(many))]))  # type: ignore[misc]
    log = sessions[0].session
    if compacted:
        entries = list(log.entries())
        log.append(
            Compaction(summary="Told.", covers=(entries[0].id, entries[0].id), first_kept=entries[1].id)
        )
    assert log.meta.seq  # the session itself has read its log
    seen = looked_at(memory, monkeypatch)
    assert asyncio.run(sessions[0].pop_item()) == user(str(many - 1))
    assert seen() < (4 * many if compacted else 20)
    assert popped_by(*sessions) == [str(n) for n in reversed(range(many - 1))]
    assert seen() < 20 * objects * many  # reading it all each time would be 150 times as many


_STEPS = st.lists(
    st.sampled_from(("add", "call", "answer", "pop", "pop", "pop other", "compact", "withdraw", "clear")),
    max_size=14,
)


@given(steps=_STEPS)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_what_is_popped_is_always_the_newest_that_is_given(memory: Stratalog, steps: list[str]) -> None:
    """Whatever happened to the session between two pops, by this object or another, the newest item that
    `get_items` gives is popped, and None when it gives none."""
    chat = new_ulid()
    mine, other = StratalogSession(memory, chat), StratalogSession(memory, chat)

    async def popped(session: StratalogSession) -> None:
        given = await StratalogSession(memory, chat).get_items()
        given = given[1:] if mine.session.meta.compacted else given
        assert await session.pop_item() == (given[-1] if given else None)

    async def body() -> None:
        for number, step in enumerate(steps):
            call = {"type": "function_call", "call_id": f"c{number % 3}", "name": "look", "arguments": "{}"}
            answer = {"type": "function_call_output", "call_id": f"c{number % 2}", "output": str(number)}
            said = [entry for entry in mine.session.entries() if isinstance(entry, User | ToolCall)]
            if step == "add":
                await other.add_items([user(str(number)), user(f"{number}b")])  # type: ignore[list-item]
            elif step in ("call", "answer"):
                await mine.add_items([call if step == "call" else answer])  # type: ignore[list-item]
            elif step == "compact" and said:
                covers = (said[0].id, said[len(said) // 2].id)
                mine.session.append(Compaction(summary="Told.", covers=covers))
            elif step == "withdraw" and said:
                other.session.withdraw(said[number % len(said)])
            elif step == "clear":
                await other.clear_session()
            elif step.startswith("pop"):
                await popped(other if step == "pop other" else mine)
        for session in (mine, other, mine, other):
            await popped(session)

    asyncio.run(body())


def test_a_cancelled_write_is_known(session: StratalogSession) -> None:
    """Who is cancelled in `add_items` is cancelled once the items are there, so no retry doubles them."""

    async def body() -> None:
        task = asyncio.ensure_future(session.add_items([user("kept")]))  # type: ignore[list-item]
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await session.get_items() == [user("kept")]

    asyncio.run(body())


def test_the_sdk_rewinds_it(session: StratalogSession) -> None:
    """The SDK's own rewind before a retry takes away what it had added, and no more; said again it is there
    once."""

    async def body() -> None:
        mine = [user("one"), user("two")]
        await session.add_items([user("before")])  # type: ignore[list-item]
        for _ in range(2):
            await session.add_items(mine)  # type: ignore[arg-type]
            await rewind_session_items(session, mine)  # type: ignore[arg-type]
            assert words(await session.get_items()) == ["before"]
        await rewind_session_items(session, [user("never added")])  # type: ignore[list-item]
        await session.add_items(mine)  # type: ignore[arg-type]
        assert words(await session.get_items()) == ["before", "one", "two"]

    asyncio.run(body())


# --- with the Runner ---


def thinking(number: int) -> ResponseReasoningItem:
    return ResponseReasoningItem(
        id=f"rs_{number}", summary=[], type="reasoning", encrypted_content=f"sealed {number}"
    )


async def conversation(session: Any) -> list[Any]:
    """A conversation by the Runner: tools, a handoff, a stream, a cancellation, failures, a guardrail."""
    model = ScriptedModel(
        [
            [thinking(1), function_call("weather", {"city": "Bergen"}, call_id="c1"),
             function_call("weather", {"city": "Oslo"}, call_id="c2")],
            [assistant_message("It rains.", item_id="m1")],
            [function_call("transfer_to_writer", {}, call_id="c3")],
            [thinking(2), assistant_message("A poem.", item_id="m2")],
            [function_call("weather", {"city": "Rome"}, call_id="c4")],
            [assistant_message("Streamed.", item_id="m3")],
            ValueError("the model failed"),
            [assistant_message("Recovered.", item_id="m4")],
            [function_call("weather", {"city": "Nice"}, call_id="c5")],
            [function_call("weather", {"city": "Nice"}, call_id="c6")],
            TimeoutError("try again"),
            [assistant_message("At the second try.", item_id="m5")],
        ]
    )  # fmt: skip

    @input_guardrail
    async def polite(context: Any, agent: Any, asked: Any) -> GuardrailFunctionOutput:
        last = asked if isinstance(asked, str) else asked[-1]["content"]
        return GuardrailFunctionOutput(None, tripwire_triggered="rude" in last)

    again = ModelRetrySettings(
        max_retries=1, policy=retry_policies.network_error(), backoff={"initial_delay": 0}
    )
    writer = Agent("writer", model=model)
    agent = Agent(
        "helper",
        model=model,
        tools=[weather],
        handoffs=[writer],
        input_guardrails=[polite],
        model_settings=ModelSettings(retry=again),
    )
    await Runner.run(agent, "Weather?", session=session, run_config=QUIET)
    await Runner.run(agent, "A poem.", session=session, run_config=QUIET)
    streamed = Runner.run_streamed(agent, "And Rome?", session=session, run_config=QUIET)
    async for _ in streamed.stream_events():
        pass
    with pytest.raises(ValueError, match="failed"):
        await Runner.run(agent, "Fail.", session=session, run_config=QUIET)
    await Runner.run(agent, "Go on.", session=session, run_config=QUIET)
    with pytest.raises(MaxTurnsExceeded):
        await Runner.run(agent, "For ever.", session=session, run_config=QUIET, max_turns=2)
    with pytest.raises(InputGuardrailTripwireTriggered):
        await Runner.run(agent, "Be rude.", session=session, run_config=QUIET)
    await session.pop_item()
    await Runner.run(agent, "Once more.", session=session, run_config=QUIET)
    model.assert_complete()
    return [call.input for call in model.calls]


def test_the_same_as_the_sdks_own_session(session: StratalogSession) -> None:
    """The same script leaves the same items in it as in `SQLiteSession`, and shows the model the same."""

    async def body() -> None:
        sqlite = SQLiteSession("chat")
        asked, theirs = await conversation(session), await conversation(sqlite)
        assert asked == theirs
        assert await session.get_items() == await sqlite.get_items()
        assert await session.get_items(4) == await sqlite.get_items(4)
        assert await session.pop_item() == await sqlite.pop_item()
        assert await session.get_items() == await sqlite.get_items()
        sqlite.close()

    asyncio.run(body())
    assert isinstance(session, Session)
    assert is_openai_responses_compaction_aware_session(session)


def test_a_run_that_is_cancelled_in_the_middle(session: StratalogSession) -> None:
    """While a tool runs, and while it streams: what was added stays, and the next run goes on."""

    async def body() -> None:
        begun = asyncio.Event()

        @function_tool
        async def slow() -> str:
            """Never ends."""
            begun.set()
            await asyncio.Event().wait()
            return ""

        model = ScriptedModel(
            [
                [function_call("slow", {}, call_id="c1")],
                [assistant_message("Here.")],
                [assistant_message("There.")],
            ]
        )
        agent = Agent("helper", model=model, tools=[slow])
        run = asyncio.ensure_future(Runner.run(agent, "Start.", session=session, run_config=QUIET))
        await begun.wait()
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run
        assert words(await session.get_items())[0] == "Start."
        streamed = Runner.run_streamed(agent, "Stream.", session=session, run_config=QUIET)
        async for event in streamed.stream_events():
            if event.type == "raw_response_event":
                streamed.cancel(mode="after_turn")
        await Runner.run(agent, "Go on.", session=session, run_config=QUIET)
        said = words(await session.get_items())
        assert [text for text in said if text in ("Start.", "Stream.", "Go on.")] == [
            "Start.",
            "Stream.",
            "Go on.",
        ]
        called = [
            item.get("call_id") for item in model.calls[-1].input if item.get("type") == "function_call"
        ]
        assert called == []  # the SDK leaves out a call that has no result

    asyncio.run(body())


@pytest.mark.parametrize("kind", [OpenAIChatCompletionsModel, OpenAIResponsesModel])
def test_through_the_official_client(session: StratalogSession, kind: Any) -> None:
    """Over real HTTP, each request is one that a strict provider takes; the second run sees the first."""

    async def body() -> None:
        steps = [Reply(calls=(Call("weather", {"city": "Bergen"}),)), "It rains.", "Yes, it does."]
        with ModelServer(steps) as server:
            client = AsyncOpenAI(api_key="test", base_url=server.openai_url)
            agent = Agent("helper", model=kind(model="gpt-4o", openai_client=client), tools=[weather])
            await Runner.run(agent, "Weather in Bergen?", session=session, run_config=QUIET)
            result = await Runner.run(agent, "Really?", session=session, run_config=QUIET)
            await client.close()
            assert result.final_output == "Yes, it does."
            assert server.refusals == []
            assert "wind from the west" in server.requests[-1].raw.decode()
        items = await session.get_items()
        assert [item.get("type", item.get("role")) for item in items] == [
            "user", "function_call", "function_call_output", "message", "user", "message",
        ]  # fmt: skip

    asyncio.run(body())


# --- compaction and budget ---


def filled(session: StratalogSession, turns: int = 12, size: int = 4) -> None:
    """Turns with two calls each of one response that reasons."""
    for n in range(turns):
        asyncio.run(
            session.add_items(
                [  # type: ignore[list-item] # plain dictionaries
                    user(f"question {n}: " + LONG),
                    {"type": "reasoning", "id": f"rs_{n}", "summary": [], "encrypted_content": f"gAAAA{n}"},
                    {"type": "function_call", "call_id": f"a{n}", "name": "f", "arguments": "{}"},
                    {"type": "function_call", "call_id": f"b{n}", "name": "f", "arguments": "{}"},
                    {"type": "function_call_output", "call_id": f"a{n}", "output": LONG},
                    {"type": "function_call_output", "call_id": f"b{n}", "output": LONG * size},
                    {"role": "assistant", "content": f"answer {n}: " + LONG},
                ]
            )
        )


def paired(items: list[Any]) -> None:
    """Every call has its result and the other way round, and reasoning is followed by what it led to."""
    calls = [item["call_id"] for item in items if item.get("type") == "function_call"]
    assert calls == [item["call_id"] for item in items if item.get("type") == "function_call_output"]
    assert len(set(calls)) == len(calls)
    thoughts = [at for at, item in enumerate(items) if item.get("type") == "reasoning"]
    assert [items[at + 1]["type"] for at in thoughts] == ["function_call"] * len(thoughts)


SMALL = Policy(window=3_000, keep_turns=2)


def test_a_compacted_session_is_its_summary_and_what_is_kept(memory: Stratalog) -> None:
    """After a run the SDK has it compacted; what is given is the summary and the newest turns, nothing twice,
    and what was folded is not popped."""
    session = StratalogSession(memory, "chat", policy=SMALL)
    filled(session)
    before = asyncio.run(session.get_items())

    async def body() -> None:
        model = ScriptedModel(
            [[assistant_message("Done.", item_id="m")], [assistant_message("Again.", item_id="m2")]]
        )
        agent = Agent("helper", model=model)
        await Runner.run(agent, "The last one.", session=session, run_config=QUIET)
        (compaction,) = [entry for entry in session.session.entries() if isinstance(entry, Compaction)]
        items = await session.get_items()
        assert items[0] == {
            "role": "system",
            "content": f"Summary of the conversation so far:\n{compaction.summary}",
        }
        assert items[1:-2] == before[len(before) - len(items) + 3 :]
        assert words(items)[-2] == "The last one."
        assert 3 < len(items) < len(before)
        paired(items)
        await Runner.run(agent, "And on.", session=session, run_config=QUIET)
        assert list(model.calls[-1].input) == [*items, user("And on.")]
        assert await session.get_items() == [*items, *(await session.get_items(2))]
        late = {"type": "function_call_output", "call_id": "a0", "output": "of a call that was folded"}
        await session.add_items([late])  # type: ignore[list-item]
        assert late not in await session.get_items()
        popped = 0
        while await session.pop_item() is not None:
            popped += 1
        assert popped == len(items) + 1
        assert await session.get_items() == items[:1]
        assert await session.get_items(0) == []

    asyncio.run(body())


def test_compaction_when_it_cannot_be(memory: Stratalog) -> None:
    """It fails no run; asked for by name it is an error. Without a policy only `force` compacts."""
    session = StratalogSession(memory, "chat", policy=SMALL)
    with pytest.raises(NotFound):
        asyncio.run(session.run_compaction())
    filled(session, 6)
    with session.session.turn("held"):
        asyncio.run(session.run_compaction({"response_id": "r"}))
        with pytest.raises(SessionBusy):
            asyncio.run(session.run_compaction())
    assert [problem.reason[:24] for problem in memory.problems] == ["not compacted after a run"[:24]]
    plain = StratalogSession(memory, "chat")
    asyncio.run(plain.run_compaction({"response_id": "r"}))
    assert session.session.meta.compacted == 0


def test_a_budget_is_kept(memory: Stratalog) -> None:
    """With one, what is given is what Stratalog's context shows a model: within it, in pairs, results
    shortened at need, facts and working memory too. A limit counts items instead."""
    session = StratalogSession(memory, "chat", budget=1_000)
    filled(session, 6, size=12)
    log = session.session
    items = asyncio.run(session.get_items())
    paired(items)
    assert 0 < len(items) < 42
    assert words(items)[-1].startswith("answer 5")
    outputs = [item["output"] for item in items if item.get("type") == "function_call_output"]
    assert outputs[0] == LONG
    assert 0 < len(outputs[1]) < len(LONG * 12)
    assert log.context(1_000).tokens <= 1_000
    asyncio.run(session.run_compaction({"force": True}))
    log.facts.pin("Ana lives in Lisbon.")
    given = words(asyncio.run(session.get_items()))
    assert given[-1] == "[pinned: Ana lives in Lisbon.]"
    assert len(asyncio.run(session.get_items(9))) == 9
    with pytest.raises(ContextOverflow):
        asyncio.run(StratalogSession(memory, "chat", budget=5).get_items())


def test_the_limit_of_the_settings(memory: Stratalog) -> None:
    """`session_settings` has the limit where a call names none, and the Runner's own names it too."""
    session = StratalogSession(memory, "chat", session_settings=SessionSettings(limit=2))

    async def body() -> None:
        await session.add_items([user(str(n)) for n in range(4)])  # type: ignore[misc]
        assert words(await session.get_items()) == ["2", "3"]
        assert words(await session.get_items(3)) == ["1", "2", "3"]
        model = ScriptedModel([[assistant_message("ok")]])
        await Runner.run(Agent("a", model=model), "now", session=session, run_config=QUIET)
        assert words(list(model.calls[-1].input)) == ["2", "3", "now"]

    asyncio.run(body())


def test_what_others_said_in_the_session_is_given_too(session: StratalogSession) -> None:
    """A turn of Stratalog's own, and entries of an import, are items of the SDK's."""
    log = session.session
    with log.turn("from the console") as turn:
        call = turn.call("weather", {"city": "Oslo"}, call_id="n1")
        turn.result(call, "snow")
        turn.reply("It snows.")
    log.append(
        System(content="obey"),
        User(
            content=(Image(media_type="image/png", data=b"\x89PNG"),),
            meta={"openai_agents": {"rest": {"$of": 9}}},
        ),
        Assistant(content=(Reasoning(text="hm"),)),
    )
    assert asyncio.run(session.get_items()) == [
        user("from the console"),
        {"type": "function_call", "call_id": "n1", "name": "weather", "arguments": '{"city":"Oslo"}'},
        {"type": "function_call_output", "call_id": "n1", "output": "snow"},
        {"role": "assistant", "content": "It snows."},
        {"role": "system", "content": "obey"},
        {
            "role": "user",
            "content": [
                {"type": "input_image", "detail": "auto", "image_url": "data:image/png;base64,iVBORw=="}
            ],
        },
    ]


def test_two_processes_and_a_kill(memory: Stratalog, session: StratalogSession) -> None:
    """Two processes add to one session and neither loses or doubles an item; after kill -9 everything that
    was acknowledged is there, in order."""
    script = """
        import asyncio
        from stratalog import Stratalog
        from stratalog.interop.openai_agents import StratalogSession

        async def main():
            session = StratalogSession(Stratalog(sys.argv[1]), "chat")
            say("ready")
            hear()
            for number in range(100_000):
                await session.add_items([{"role": "user", "content": f"theirs {number}"}])
                say(number)

        asyncio.run(main())
    """
    child = Child(script, memory.data)
    try:
        assert child.hear() == "ready"
        child.tell()
        last = -1
        for number in range(20):
            asyncio.run(session.add_items([user(f"mine {number}")]))  # type: ignore[list-item]
            last = int(child.hear())
    finally:
        child.kill()
    found = words(asyncio.run(session.get_items()))
    assert [each for each in found if each.startswith("mine")] == [f"mine {n}" for n in range(20)]
    theirs = [each for each in found if each.startswith("theirs")]
    assert theirs == [f"theirs {n}" for n in range(len(theirs))]
    assert len(theirs) > last
    asyncio.run(session.add_items([user("after")]))  # type: ignore[list-item]
    assert words(asyncio.run(session.get_items(1))) == ["after"]


def test_any_id_is_a_session(tmp_path: Path) -> None:
    """Ids with slashes and colons name sessions of their own, in either store and under either front."""

    async def body() -> None:
        async with AsyncStratalog(tmp_path, settings=Settings(store="sqlite")) as memory:
            for name in ("users/42:main", "users=2f42:main", "日本"):
                session = StratalogSession(memory, name, agent="support")
                assert session.session_id == name
                await session.add_items([user(name)])  # type: ignore[list-item]
                assert await session.get_items() == [user(name)]
                assert session.session.key.agent == "support"
            assert len((await memory.sessions()).sessions) == 3

    asyncio.run(body())


def result(call_id: str, output: Any, kind: str = "function_call") -> list[dict[str, Any]]:
    call = {"type": kind, "call_id": call_id, "name": "look", "arguments": "{}"}
    return [call, {"type": f"{kind}_output", "call_id": call_id, "output": output}]


@pytest.mark.parametrize("word", ["word ", "w\ud800rd "])
def test_shortened_results_stay_what_they_are(memory: Stratalog, word: str) -> None:
    """With a budget a long result is shortened whatever its text, and a shell's stays one of a shell."""
    session = StratalogSession(memory, "chat", budget=400)
    ran = {"type": "exit", "exit_code": 0}
    chunks = [{"stdout": word * 999, "stderr": word * 999, "outcome": ran} for _ in range(9)]
    items = [user("go"), *result("c1", word * 9_000), *result("c2", chunks, "shell_call")]
    asyncio.run(session.add_items(items))  # type: ignore[arg-type]
    given: list[Any] = asyncio.run(session.get_items())
    assert [item.get("type") for item in given] == [item.get("type") for item in items]
    assert len(json.dumps(given)) < 5_000
    assert "read_result" in given[2]["output"]
    (chunk,) = given[4]["output"]
    assert "read_result" in chunk["stdout"]
    assert chunk["outcome"] == ran
    assert asyncio.run(session.get_items(99)) == items


@pytest.mark.parametrize("deep", [85, 100, 300, 600])
def test_deep_items(memory: Stratalog, deep: int) -> None:
    """Items that are nested deeper than a log's meta may be come back exactly, or are refused before."""
    value: Any = "x"
    for _ in range(deep):
        value = [value]
    said = [{"role": "user", "content": [{"type": "input_text", "text": LONG, "more": value}]}]
    ran = {"type": "local_shell_call", "call_id": "c", "action": {"env": value}}
    for number, items in enumerate((said, [ran])):
        session = StratalogSession(memory, f"chat-{number}")
        asyncio.run(session.add_items(items))  # type: ignore[arg-type]
        assert asyncio.run(session.get_items()) == items


def test_what_says_nothing_is_no_item(session: StratalogSession) -> None:
    """Entries of others that are no items are neither counted by a limit nor popped: None is the end."""
    asyncio.run(session.add_items([user("a"), user("b")]))  # type: ignore[list-item]
    session.session.append(Assistant(content=""), Assistant(content=(Reasoning(text="hm"),)))
    assert words(asyncio.run(session.get_items(1))) == ["b"]
    popped = [asyncio.run(session.pop_item()) for _ in range(3)]
    assert popped == [user("b"), user("a"), None]


def test_equal_texts_are_shortened_apart() -> None:
    """Of two equal texts of a result each is given as it is shown, not both as the first."""
    parts = [{"type": "input_text", "text": LONG}] * 2
    (_, entry) = entries_of(result("c", parts))
    assert isinstance(entry, ToolResult)
    assert item_of(entry) == result("c", parts)[1]
    shown = msgspec.structs.replace(entry, content=(Text(text="one"), Text(text="two")))
    item = item_of(shown)
    assert item is not None
    assert [part["text"] for part in item["output"]] == ["one", "two"]
