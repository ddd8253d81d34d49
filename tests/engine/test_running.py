"""engine/running.py: one turn with a model, whatever the model, its tools, its server and its user do."""

from __future__ import annotations

import asyncio
import gc
import itertools
import json
import threading
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from pathlib import Path
from typing import Any

import msgspec
import pytest

from context.histories import chat_is_strict
from engine.children import child
from engine.test_compaction import talk
from models.asking import SHAPES, model_at
from stratalog.config import CompactionSettings, Settings
from stratalog.context.compact import INSTRUCTIONS
from stratalog.context.invariants import NO_RESULT, violations
from stratalog.context.shapes.contract import Tool
from stratalog.engine import seeing
from stratalog.engine.agents import Agent, agent_of, policy_of
from stratalog.engine.aio import AsyncStratalog
from stratalog.engine.compaction import Compacted
from stratalog.engine.running import Answered, Called, Event, Replied, Warned, ask, resume, run
from stratalog.engine.seeing import room_of
from stratalog.engine.session import Session
from stratalog.engine.tools import AgentTool, tool
from stratalog.errors import (
    ContextOverflow,
    InvalidConfig,
    InvalidInput,
    ModelError,
    ModelInputTooLong,
    ModelRejected,
    ModelReplyUnusable,
    ModelUnavailable,
    NotFound,
    SessionBusy,
    StorageFull,
    TurnClosed,
)
from stratalog.log.contract import Verifies
from stratalog.models.configured import Configured
from stratalog.models.contract import Completed, Request, Retrying, TextDelta
from stratalog.testing.model_server import Break, Drop, Hang, ModelServer, Refuse
from stratalog.testing.scripted import Call, Gate, Reply, ScriptedModel, rough_tokens
from stratalog.types import (
    AnyEntry,
    Assistant,
    Compaction,
    Content,
    Image,
    Text,
    ToolResult,
    TurnEnd,
    Usage,
    User,
    WorkingMemory,
)

KEY = "a:cli:me"
NAME = "scripted"
PATIENCE = 60.0
Work = Callable[[AsyncStratalog], Awaitable[None]]


def in_memory(data: Path, work: Work, **settings: Any) -> None:
    """Runs the work with a memory; then every log is verified, and every view is well-formed."""
    settings = {"sync": "never", "windows": {NAME: 100_000}, **settings}

    async def whole() -> None:
        async with AsyncStratalog(data, settings=Settings(**settings)) as memory:
            await asyncio.wait_for(work(memory), PATIENCE)
            assert isinstance(memory.sync.store, Verifies)
            for key in list(memory.sync.store.sessions()):
                assert memory.sync.store.verify(key).problems == ()
                view = memory.sync.session(key).view()
                assert violations(tuple(entry for turn in view.turns for entry in turn.entries)) == []

    asyncio.run(whole())


def scripted(script: Any, **how: Any) -> ScriptedModel:
    """A model that takes only well-formed requests."""

    def check(request: Request) -> None:
        chat_is_strict(request.body["messages"])

    return ScriptedModel(script, check=check, **how)


def agent_with(model: Any, *functions: Callable[..., Any], name: str = NAME, **more: Any) -> Agent:
    more.setdefault("remembers", False)
    return Agent(model=Configured(model, name), tools=tuple(map(tool, functions)), **more)


async def all_of(events: AsyncGenerator[Event, None]) -> list[Event]:
    async with aclosing(events) as reading:
        return [event async for event in reading]


async def first(events: AsyncGenerator[Event, None], kind: type[Any]) -> Any:
    """Reads on to the next event of that kind."""
    async for event in events:
        if isinstance(event, kind):
            return event
    raise AssertionError(f"there was no {kind.__name__}")


async def until(condition: Callable[[], object]) -> None:
    while not condition():
        await asyncio.sleep(0.002)


def of(events: list[Event], kind: type[Any]) -> list[Any]:
    return [event for event in events if isinstance(event, kind)]


def raw(memory: AsyncStratalog, key: str = KEY) -> list[AnyEntry]:
    return list(memory.sync.session(key).entries())


def kinds(entries: list[AnyEntry]) -> list[str]:
    return [str(entry.__struct_config__.tag) for entry in entries]


def ends(memory: AsyncStratalog) -> list[str]:
    return [entry.status for entry in raw(memory) if isinstance(entry, TurnEnd)]


def words(request: Request) -> list[str]:
    return [str(message.get("content")) for message in request.body["messages"]]


def is_summary(request: Request) -> bool:
    return INSTRUCTIONS[:40] in str(request.body["messages"][-1]["content"])


# --- the order of things ---


def test_each_step_is_logged_before_the_next(data: Path) -> None:
    """Message, reply, calls, and each result as it comes: the quick tool's is first in the log, and second in
    the next request, as it was called. The events come after the log."""

    async def work(memory: AsyncStratalog) -> None:
        gate = Gate()

        async def slow() -> str:
            await gate.passed()
            return "slow is done"

        def quick() -> str:
            return "quick is done"

        seen: list[list[str]] = []

        def script(request: Request) -> Any:
            seen.append(kinds(raw(memory)))
            if len(seen) == 1:
                return Reply(text="Let me see.", calls=(Call("slow", id="s"), Call("quick", id="q")))
            return "Both are."

        model = scripted(script)
        events: list[Event] = []
        async with aclosing(run(memory.session(KEY), agent_with(model, slow, quick), "Go.")) as reading:
            async for event in reading:
                events.append(event)
                if isinstance(event, Called):
                    assert kinds(raw(memory))[:5] == [*begun, "assistant", "tool_call", "tool_call"]
                elif isinstance(event, Answered):
                    assert event.result in raw(memory)
                    gate.open()
                elif isinstance(event, Replied):
                    assert ends(memory) == ["answered"]
                    assert memory.sync.session(KEY).status == "idle"
        begins = [*begun, "assistant", "tool_call", "tool_call", "tool_result", "tool_result"]
        assert seen == [begun, begins]
        entries = raw(memory)
        assert kinds(entries) == [*begins, "assistant", "turn_end"]
        assert len({entry.turn for entry in entries}) == 1
        assert [entry.text for entry in entries if isinstance(entry, ToolResult)] == [
            "quick is done",
            "slow is done",
        ]
        asked = model.requests[1].body["messages"]
        assert [message.get("tool_call_id") for message in asked[-2:]] == ["s", "q"]
        assert [type(event).__name__ for event in events if not isinstance(event, TextDelta)] == [
            "Called",
            "Called",
            "Answered",
            "Answered",
            "Replied",
        ]
        assert (
            "".join(event.text for event in events if isinstance(event, TextDelta)) == "Let me see.Both are."
        )

    begun = ["user", "turn_start"]
    in_memory(data, work)


def test_the_reply_carries_what_it_cost(data: Path) -> None:
    """Model, usage and the provider's id are with the reply, or with the empty words before its calls."""

    async def work(memory: AsyncStratalog) -> None:
        def add(a: int, b: int) -> int:
            return a + b

        script = [
            Reply(calls=(Call("add", {"a": 1, "b": 2}),), usage=Usage(input=50, output=5, cache_read=7)),
            Reply(text="3", usage=Usage(input=60, output=1)),
        ]
        reply = await ask(memory.session(KEY), agent_with(scripted(script), add, system="Be brief."), "1+2?")
        assert reply.text == "3"
        assert (reply.model, reply.usage) == (NAME, Usage(input=60, output=1))
        assert reply.meta == {"response_id": "scripted-1"}
        first_reply = next(entry for entry in raw(memory) if isinstance(entry, Assistant))
        assert (first_reply.text, first_reply.usage) == ("", Usage(input=50, output=5, cache_read=7))
        (result,) = [entry for entry in raw(memory) if isinstance(entry, ToolResult)]
        assert (result.content, result.error, result.name) == ("3", False, "add")

    in_memory(data, work)


def test_a_turn_on_the_wire(data: Path) -> None:
    """Over real HTTP with the official SDKs: a tool loop in each provider's own JSON, under its own rules, in
    one session that changes between them."""

    async def work(memory: AsyncStratalog) -> None:
        def add(a: int, b: int) -> int:
            """Adds."""
            return a + b

        for number, shape in enumerate(SHAPES):
            calls = (Call("add", {"a": number, "b": 2}), Call("add", {"a": 1, "b": "x"}))
            steps = [Reply(text="Adding.", reasoning="hm", calls=calls), f"It is {number + 2}."]
            with ModelServer(steps) as server:
                model = model_at(server, shape)
                made = agent_with(model, add, remembers=True, system="Be brief.")
                events = await all_of(run(memory.session(KEY), made, f"Add {number}."))
                await model.close()
                assert server.refusals == []
                assert server.facts.requests == 2
            assert of(events, Replied)[0].reply.text == f"It is {number + 2}."
            results = sorted((each.result for each in of(events, Answered)), key=lambda each: each.error)
            assert [result.error for result in results] == [False, True]
            assert "do not fit" in results[1].text
        assert ends(memory) == ["answered"] * 3

    in_memory(data, work)


# --- tools ---


def test_what_goes_wrong_with_a_tool_is_told_to_the_model(data: Path) -> None:
    """Unknown, wrong arguments, none that are an object, raising, cancelled inside, answering what is no
    JSON: each call gets a result that says so, and the turn goes on."""

    async def work(memory: AsyncStratalog) -> None:
        def boom(x: int = 0) -> str:
            raise KeyError("no such thing")

        def refuses() -> str:
            raise InvalidInput("not so", hint="so")

        def busy() -> str:
            raise SessionBusy("another session is busy")

        def full() -> str:
            raise StorageFull("another disk is full")

        def strange() -> object:
            return object()

        def stops() -> None:
            next(iter(()))

        async def cancelled() -> None:
            raise asyncio.CancelledError

        calls = {
            "nosuch": Call("nosuch"),
            "wrong": Call("boom", {"x": "y"}),
            "list": Call("boom", [1]),
            "text": Call("boom", "{not json"),
            "boom": Call("boom"),
            "refuses": Call("refuses"),
            "busy": Call("busy"),
            "full": Call("full"),
            "strange": Call("strange"),
            "stops": Call("stops"),
            "cancelled": Call("cancelled"),
        }
        named = tuple(msgspec.structs.replace(call, id=name) for name, call in calls.items())
        model = scripted([Reply(calls=named), "I see."])
        functions = (boom, refuses, busy, full, strange, stops, cancelled)
        reply = await ask(memory.session(KEY), agent_with(model, *functions), "Try.")
        assert reply.text == "I see."
        results = {entry.call_id: entry for entry in raw(memory) if isinstance(entry, ToolResult)}
        assert set(results) == set(calls)
        assert all(result.error for result in results.values())
        said = {name: result.text for name, result in results.items()}
        assert "there is no such tool" in said["nosuch"]
        assert "boom, refuses" in said["nosuch"]
        assert "do not fit" in said["wrong"]
        assert "not a JSON object" in said["list"]
        assert "not a JSON object" in said["text"]
        assert said["boom"] == "KeyError: 'no such thing'"
        assert said["refuses"] == "not so. so"
        assert said["busy"] == "another session is busy"
        assert said["full"] == "another disk is full"
        assert said["strange"].startswith("TypeError")
        assert "StopIteration" in said["stops"]
        assert said["cancelled"].startswith("CancelledError")
        assert all(message["content"] for message in model.requests[1].body["messages"][-11:])

    in_memory(data, work)


def test_results_of_parts_and_of_tools_made_by_hand(data: Path) -> None:
    """Parts are logged as parts, and JSON as its text, also where a tool is no function."""

    async def work(memory: AsyncStratalog) -> None:
        async def by_hand(args: dict[str, Any]) -> Any:
            return {"given": args}

        def picture() -> list[Any]:
            return [Text(text="see"), Image(url="https://x/y.png")]

        hand = AgentTool(Tool("by_hand", "", {"type": "object"}), by_hand)
        calls = (Call("by_hand", {"a": 1}, id="h"), Call("picture", id="p"))
        made = Agent(
            model=Configured(scripted([Reply(calls=calls), "ok"]), NAME), tools=(hand, tool(picture))
        )
        await ask(memory.session(KEY), made, "Go.")
        results = {entry.call_id: entry.content for entry in raw(memory) if isinstance(entry, ToolResult)}
        parts: Content = (Text(text="see"), Image(url="https://x/y.png"))
        assert results == {"h": '{"given":{"a":1}}', "p": parts}

    in_memory(data, work)


def test_two_tools_of_one_name_are_refused_at_once() -> None:
    """Also a tool that is called as one of memory's, or as the one that reads results."""

    def weather() -> str:
        return ""

    model = scripted([])
    for name in ("weather", "working_memory_set", "read_result"):
        with pytest.raises(InvalidInput, match="one name"):
            Agent(model=Configured(model, NAME), tools=(tool(weather), tool(weather, name=name)))
    Agent(model=Configured(model, NAME), remembers=False, tools=(tool(weather, name="working_memory_set"),))


def test_calls_as_compatible_servers_make_them(data: Path) -> None:
    """No id, one id for two calls, the same ids in each round, no arguments, numbers that JSON cannot hold:
    each call is answered, and the next request is well-formed."""

    async def work(memory: AsyncStratalog) -> None:
        def echo(word: str = "none") -> str:
            return word

        def huge(x: float = 0.0) -> str:
            return f"{x}"

        rounds = [
            Reply(calls=(Call("echo", {"word": "a"}, id="c0"), Call("echo", {"word": "b"}, id="c0"))),
            Reply(calls=(Call("echo", {"word": "c"}, id="c0"), Call("echo", "", id="c1"))),
            Reply(calls=(Call("huge", '{"x": 1e999}', id="c0"), Call("echo", '{"word": NaN}', id="c1"))),
            Reply(calls=(Call("huge", '{"x": 1' + "0" * 400 + "}", id="c0"),)),
        ]
        model = scripted([*rounds, "done"])
        await ask(memory.session(KEY), agent_with(model, echo, huge), "Go.")
        said = [entry.text for entry in raw(memory) if isinstance(entry, ToolResult)]
        assert sorted(said[:2]) == ["a", "b"]
        assert sorted(said[2:4]) == ["c", "none"]
        assert len(said) == 7
        last = model.requests[-1].body["messages"]
        assert sorted(message["content"] for message in last if message["role"] == "tool") == sorted(said)

    in_memory(data, work)


def test_a_large_result_is_read_back_whole_by_the_model(data: Path) -> None:
    """300,000 characters, text or JSON, in line or in a payload of its own: shown shortened, and read piece
    by piece by the model's own calls until it has all."""

    async def work(memory: AsyncStratalog) -> None:
        lines = "".join(f"line {number:06} of the report, été 数据\n" for number in range(9_000))
        table = json.dumps([{"row": number, "name": f"n{number}"} for number in range(9_000)])
        for text in (lines, table):

            def report() -> str:
                return text  # noqa: B023 - it is called in this round

            pieces: list[str] = []

            def script(request: Request, pieces: list[str] = pieces, text: str = text) -> Any:
                last = request.body["messages"][-1]
                if last["role"] == "user":
                    return Reply(calls=(Call("report"),))
                shown = str(last["content"])
                assert len(shown) < len(text) / 3
                if not pieces and "read_result" in shown and "next" not in shown:
                    result = next(entry for entry in reversed(raw(memory)) if isinstance(entry, ToolResult))
                    assert result.id in shown
                    pieces.append("")
                    return Reply(calls=(Call("read_result", {"ref": result.id, "length": 14_000}),))
                piece = json.loads(shown)
                pieces.append(piece["text"])
                if piece["next"] is None:
                    return "I have read it."
                ref = next(
                    entry.id
                    for entry in reversed(raw(memory))
                    if isinstance(entry, ToolResult) and entry.name == "report"
                )
                args = {"ref": ref, "offset": piece["next"], "length": 14_000}
                return Reply(calls=(Call("read_result", args),))

            await ask(memory.session(KEY), agent_with(scripted(script), report), "Read the report.")
            assert "".join(pieces) == text
        assert any(
            isinstance(entry, ToolResult) and entry.blob is not None
            for entry in memory.sync.session(KEY).entries(blobs=False)
        )

    in_memory(data, work)


@pytest.mark.parametrize("window", [8_000, 32_000])
@pytest.mark.parametrize(
    "unit", ["数据库里的内容很多", "😀🎉", 'say "\\\\" and "x"; ', "a1b2c3d4e5f6"], ids=ascii
)
def test_pieces_are_shown_whole_whatever_they_are_of(data: Path, unit: str, window: int) -> None:
    """Following `next` from piece to piece gives every character, though each piece must fit what a result
    is shown with, and however much is asked for."""

    async def work(memory: AsyncStratalog) -> None:
        text = unit * (40_000 // len(unit))
        pieces: list[str] = []

        def report() -> str:
            return text

        def script(request: Request) -> Any:
            results = [entry for entry in raw(memory) if isinstance(entry, ToolResult)]
            if not results:
                return Reply(calls=(Call("report"),))
            offset = 0
            if len(results) > 1:
                shown = json.loads(request.body["messages"][-1]["content"])
                pieces.append(shown["text"])
                if shown["next"] is None:
                    return "I have read it."
                offset = shown["next"]
            args = {"ref": results[0].id, "offset": offset, "length": 200_000}
            return Reply(calls=(Call("read_result", args),))

        await ask(memory.session(KEY), agent_with(scripted(script), report), "Read the report.")
        assert "".join(pieces) == text

    in_memory(data, work, windows={NAME: window}, model_calls=400)


def test_wrong_calls_of_read_result_are_told(data: Path) -> None:
    """No such entry, one that is no result, an offset beyond the end or that is no number."""

    async def work(memory: AsyncStratalog) -> None:
        def short() -> str:
            return "short"

        def script(request: Request) -> Any:
            results = [entry for entry in raw(memory) if isinstance(entry, ToolResult)]
            if not results:
                return Reply(calls=(Call("short"),))
            if len(results) > 1:
                return "done"
            message = next(entry for entry in raw(memory) if isinstance(entry, User))
            wrong: list[dict[str, Any]] = [
                {"ref": "nothing"},
                {"ref": message.id},
                {"ref": results[0].id, "offset": 99},
                {"ref": results[0].id, "offset": "x"},
                {"ref": results[0].id, "length": 0},
                {},
            ]
            return Reply(calls=tuple(Call("read_result", args) for args in wrong))

        await ask(memory.session(KEY), agent_with(scripted(script), short), "Go.")
        results = [entry for entry in raw(memory) if isinstance(entry, ToolResult)]
        assert [result.error for result in results] == [False] + [True] * 6

    in_memory(data, work)


def test_a_model_tends_its_working_memory(data: Path) -> None:
    """Its tools write entries of the turn; it is told what went wrong; a later turn sees what it kept."""

    async def work(memory: AsyncStratalog) -> None:
        steps = [
            Reply(calls=(Call("working_memory_set", {"key": "task", "value": {"step": 1}}),)),
            Reply(calls=(Call("working_memory_get", {"key": "task"}, id="g"),)),
            Reply(calls=(Call("working_memory_get", {"key": "nosuch"}, id="n"),)),
            Reply(
                calls=(Call("working_memory_keys", id="k"), Call("working_memory_set", {"key": 1}, id="w"))
            ),
            "kept",
        ]
        model = scripted(steps)
        made = agent_with(model, remembers=True)
        await ask(memory.session(KEY), made, "Keep it.")
        (kept,) = [entry for entry in raw(memory) if isinstance(entry, WorkingMemory)]
        assert (kept.key, kept.value, bool(kept.turn)) == ("task", {"step": 1}, True)
        results = {entry.call_id: entry for entry in raw(memory) if isinstance(entry, ToolResult)}
        assert json.loads(results["g"].text)["value"] == {"step": 1}
        assert results["n"].error
        assert "task" in results["n"].text
        assert json.loads(results["k"].text)["keys"] == ["task"]
        assert results["w"].error
        assert (await memory.session(KEY).meta()).working_memory == {"task": {"step": 1}}
        offered = [each["function"]["name"] for each in model.requests[0].body["tools"]]
        assert offered == [
            *(f"working_memory_{name}" for name in ("set", "get", "delete", "keys")),
            "read_result",
        ]

    in_memory(data, work)


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit])
@pytest.mark.parametrize("threaded", [True, False])
def test_a_wish_to_end_the_program_is_not_swallowed(
    data: Path, kind: type[BaseException], threaded: bool
) -> None:
    """Ctrl-C and exit in a tool end the program, and the turn with it; the log says that it was ended."""

    def sync_tool() -> str:
        raise kind

    async def async_tool() -> str:
        raise kind

    async def work(memory: AsyncStratalog) -> None:
        function = sync_tool if threaded else async_tool
        model = scripted([Reply(calls=(Call(function.__name__),)), "never"])
        await ask(memory.session(KEY), agent_with(model, function), "Go.")

    with pytest.raises(kind):
        in_memory(data, work)

    async def after(memory: AsyncStratalog) -> None:
        assert ends(memory) in (["aborted"], ["interrupted"])
        assert memory.sync.session(KEY).unfinished() == []
        model = scripted(["hello"])
        await ask(memory.session(KEY), agent_with(model), "Again.")
        assert NO_RESULT in words(model.requests[0])

    in_memory(data, after)


# --- a turn that is taken away ---


async def take_away(memory: AsyncStratalog, how: str) -> None:
    """Ends whatever turn runs, from another thread."""
    chat = memory.sync.session(KEY)

    def taken() -> None:
        match how:
            case "abort":
                assert chat.abort()
            case "restart":
                assert not chat.restart().done
                assert chat.restart().done
            case "delete":
                assert chat.delete()
            case _:
                with chat.turn("second", wait=PATIENCE) as turn:
                    turn.reply("taken")

    await asyncio.to_thread(taken)


def after_it(how: str, before: list[AnyEntry], entries: list[AnyEntry]) -> None:
    """What the log holds after a turn, which had logged `before`, was taken away."""
    match how:
        case "abort":
            assert entries[: len(before)] == before
            assert kinds(entries[len(before) :]) == ["turn_start", "turn_end"]
            assert isinstance(entries[-1], TurnEnd)
            assert entries[-1].status == "aborted"
        case "restart":
            assert kinds(entries) == ["note"]
        case "delete":
            assert entries == []
        case _:
            assert entries[: len(before)] == before
            more = entries[len(before) :]
            assert sorted(kinds(more)) == ["assistant", "turn_end", "turn_end", "turn_start", "user"]
            assert [entry.status for entry in more if isinstance(entry, TurnEnd)] == ["timed_out", "answered"]


HOW = ("abort", "restart", "delete", "deadline")


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("where", ["stream", "tool", "compaction", "flood"])
def test_a_turn_that_is_taken_away_stops(data: Path, how: str, where: str) -> None:
    """Aborted, restarted, deleted, or past its deadline and the session taken: in a stream, one that floods
    too, in a tool and in a compaction. It raises, the request ends, the tool is cancelled, nothing is written
    after; finished rounds stay; the next turn works."""

    async def work(memory: AsyncStratalog) -> None:
        gate = Gate()
        over: list[str] = []

        def first_round() -> str:
            return "first round"

        async def waits() -> str:
            try:
                await gate.passed()
            finally:
                over.append("tool")
            return "never"

        calls_first = Reply(calls=(Call("first_round", id="c1"),))
        last: dict[str, Reply] = {
            "stream": Reply(text="one two three", late_gate=gate),
            "flood": Reply(text="x" * 200_000, pieces=200_000),
            "tool": Reply(calls=(Call("waits", id="c2"),)),
            "compaction": Reply(text="never"),
        }
        model = scripted([calls_first, last[where]])
        summariser = ScriptedModel([Reply(text="never", gate=gate)])
        made = agent_with(model, first_round, waits, summariser=Configured(summariser, "s"))
        chat = memory.session(KEY)
        if where == "compaction":
            talk(chat.sync, 10, words=900)
        deadline = 0.001 if how == "deadline" else None
        events = run(chat, made, "Go.", deadline=deadline)
        async with aclosing(events):
            reading = asyncio.ensure_future(anext(events))
            if where == "compaction":
                await until(lambda: gate.reached)
            else:
                await reading
                reading = asyncio.ensure_future(first(events, Answered))
                await reading
                kind = TextDelta if where in ("stream", "flood") else Called
                await first(events, kind)
                reading = asyncio.ensure_future(first(events, Replied))
                if where != "flood":
                    await until(lambda: gate.reached)
            before = raw(memory)
            await take_away(memory, how)
            with pytest.raises(TurnClosed):
                await reading
        if where == "tool":
            assert over == ["tool"]
        elif where == "compaction":
            assert summariser.abandoned == [0]
            assert model.requests == []
        else:
            assert model.abandoned == [1]
        gate.open()
        after_it(how, before, raw(memory))
        memory.sync.session(KEY).append(User(content="between"))
        again = scripted(lambda request: "They spoke." if is_summary(request) else "fine")
        reply = await ask(chat, agent_with(again), "Still there?")
        assert reply.text == "fine"
        if how in ("abort", "deadline") and where != "compaction":
            assert "first round" in words(again.requests[0])
        if how in ("abort", "deadline") and where == "tool":
            assert NO_RESULT in words(again.requests[0])

    in_memory(data, work, windows={NAME: 16_000, "s": 100_000})


@pytest.mark.crash
@pytest.mark.parametrize("how", ["abort", "restart", "delete"])
@pytest.mark.parametrize("steady", [True, False])
def test_another_process_takes_the_turn_away(data: Path, how: str, steady: bool) -> None:
    """It is noticed while the model says nothing, and while it never stops speaking."""
    script = """
from stratalog import Stratalog
chat = Stratalog(sys.argv[1]).session("a:cli:me")
hear()
{"abort": lambda: chat.abort(), "restart": lambda: (chat.restart(), chat.restart()),
 "delete": lambda: chat.delete()}[sys.argv[2]]()
say("done")
"""
    closed = []

    class Endless:
        shape = "openai_chat"

        async def stream(self, request: Request) -> AsyncGenerator[Any, None]:
            try:
                yield TextDelta("word ")
                while True:
                    await asyncio.sleep(0.005 if steady else PATIENCE)
                    yield TextDelta("word ")
            finally:
                closed.append(True)

    async def work(memory: AsyncStratalog) -> None:
        chat = memory.session(KEY)
        with child(script, data, how) as other:
            async with aclosing(run(chat, agent_with(Endless()), "Go.")) as events:
                await anext(events)
                other.tell()
                assert await asyncio.to_thread(other.hear) == "done"
                before = raw(memory)
                with pytest.raises(TurnClosed):
                    await first(events, Replied)
        assert closed == [True]
        assert raw(memory) == before
        assert (await ask(chat, agent_with(scripted(["fine"])), "Again.")).text == "fine"

    in_memory(data, work)


# --- somebody stops reading ---


@pytest.mark.parametrize("by", ["aclose", "cancel"])
@pytest.mark.parametrize("shape", SHAPES)
def test_words_that_were_read_are_kept(data: Path, by: str, shape: str) -> None:
    """Closing the generator, or cancelling its task, in the middle of a reply ends the request on the wire;
    the words that had come are logged as partial, the turn is aborted, and the next one works."""

    async def work(memory: AsyncStratalog) -> None:
        gate = Gate()
        with ModelServer([Reply(text="one two three", late_gate=gate), "fine"]) as server:
            model = model_at(server, shape)
            chat = memory.session(KEY)
            heard: list[str] = []

            async def reading() -> None:
                async with aclosing(run(chat, agent_with(model), "Count.")) as events:
                    async for event in events:
                        assert isinstance(event, TextDelta)
                        heard.append(event.text)
                        if len(heard) == 2 and by == "aclose":
                            return

            task = asyncio.create_task(reading())
            if by == "cancel":
                await until(lambda: len(heard) == 2)
                task.cancel()
            await asyncio.wait({task})
            assert task.cancelled() == (by == "cancel")
            await asyncio.to_thread(server.wait, lambda: server.requests[0].disconnected)
            entries = raw(memory)
            assert kinds(entries) == ["user", "turn_start", "assistant", "turn_end"]
            assert isinstance(entries[2], Assistant)
            assert (entries[2].text, entries[2].meta) == ("".join(heard), {"partial": True})
            assert ends(memory) == ["aborted"]
            assert chat.sync.status == "idle"
            assert (await ask(chat, agent_with(model), "Go on.")).text == "fine"
            assert server.refusals == []
            assert "".join(heard).strip() in server.requests[1].raw.decode()
            await model.close()

    in_memory(data, work)


@pytest.mark.parametrize("by", ["aclose", "cancel"])
def test_leaving_in_the_middle_of_tools(data: Path, by: str) -> None:
    """What a tool has answered is logged, though nobody read of it; the others are cancelled, and the next
    request says that they have no result."""

    async def work(memory: AsyncStratalog) -> None:
        gate, over = Gate(), []

        async def waits() -> str:
            try:
                await gate.passed()
            finally:
                over.append(True)
            return "never"

        def quick() -> str:
            return "quick"

        def logged() -> int:
            return kinds(raw(memory)).count("tool_result")

        chat = memory.session(KEY)
        calls = (Call("waits", id="w"), Call("quick", id="q1"), Call("quick", id="q2"))
        model = scripted([Reply(text="So.", calls=calls), "fine"])

        async def reading() -> None:
            async with aclosing(run(chat, agent_with(model, waits, quick), "Go.")) as events:
                await first(events, Answered)
                await until(lambda: logged() == 2)
                if by == "cancel":
                    await first(events, Replied)

        task = asyncio.create_task(reading())
        await until(lambda: logged() == 2)
        if by == "cancel":
            await until(lambda: gate.reached)
            task.cancel()
        await asyncio.wait({task})
        assert task.cancelled() == (by == "cancel")
        assert over == [True]
        assert kinds(raw(memory))[-3:] == ["tool_result", "tool_result", "turn_end"]
        assert ends(memory) == ["aborted"]
        await ask(chat, agent_with(model, waits, quick), "Go on.")
        answered = [each for each in model.requests[1].body["messages"] if each["role"] == "tool"]
        assert {each["tool_call_id"]: each["content"] for each in answered} == {
            "w": NO_RESULT,
            "q1": "quick",
            "q2": "quick",
        }

    in_memory(data, work)


def test_leaving_before_the_first_event(data: Path) -> None:
    """A generator that is never read does nothing. A task that is cancelled before the first word leaves the
    message, and an aborted turn."""

    async def work(memory: AsyncStratalog) -> None:
        chat, gate = memory.session(KEY), Gate()
        model = scripted([Reply(text="never", gate=gate), "fine"])
        unread = run(chat, agent_with(model), "Unread.")
        await unread.aclose()
        assert not chat.sync.exists
        task = asyncio.create_task(ask(chat, agent_with(model), "Go."))
        await until(lambda: gate.reached)
        task.cancel()
        await asyncio.wait({task})
        assert kinds(raw(memory)) == ["user", "turn_start", "turn_end"]
        assert ends(memory) == ["aborted"]
        assert model.abandoned == [0]
        assert (await ask(chat, agent_with(model), "Again.")).text == "fine"

    in_memory(data, work)


def test_leaving_while_the_session_is_compacted(data: Path) -> None:
    """Nothing of the summary is written; the log is as it was but for the turn's end."""

    async def work(memory: AsyncStratalog) -> None:
        chat, gate = memory.session(KEY), Gate()
        talk(chat.sync, 10, words=900)
        summariser = ScriptedModel([Reply(text="never", gate=gate)])
        made = agent_with(scripted(["never"]), summariser=Configured(summariser, "s"))
        task = asyncio.create_task(ask(chat, made, "Go."))
        await until(lambda: gate.reached)
        before = raw(memory)
        task.cancel()
        await asyncio.wait({task})
        assert summariser.abandoned == [0]
        assert kinds(raw(memory)) == [*kinds(before), "turn_end"]
        again = scripted(lambda request: "They spoke." if is_summary(request) else "fine")
        events = await all_of(run(chat, agent_with(again), "Again."))
        assert of(events, Replied)[0].reply.text == "fine"
        assert len(of(events, Compacted)) == 1

    in_memory(data, work, windows={NAME: 16_000, "s": 100_000})


# --- what a server does ---


def test_words_before_a_retry_are_void(data: Path) -> None:
    """A stream that breaks is asked for anew; what is kept of one that is left then are the words since."""

    async def work(memory: AsyncStratalog) -> None:
        cut, gate = Reply(text="one two three four"), Gate()
        held = Reply(text="five six seven", late_gate=gate)
        with ModelServer([Drop(cut, after=2), "whole", Drop(cut, after=2), held, "fine"]) as server:
            model = model_at(server, "openai_chat")
            chat = memory.session(KEY)
            events = await all_of(run(chat, agent_with(model), "Count."))
            assert [type(event) for event in events].count(Retrying) == 1
            assert of(events, Replied)[0].reply.text == "whole"
            async with aclosing(run(chat, agent_with(model), "Again.")) as reading:
                await first(reading, Retrying)
                heard = (await first(reading, TextDelta)).text
            partial = [entry for entry in raw(memory) if isinstance(entry, Assistant)][-1]
            assert partial.text == heard
            assert heard in "five six seven"
            await model.close()

    in_memory(data, work)


@pytest.mark.parametrize(
    ("steps", "kind", "requests"),
    [
        ([Hang()] * 3, ModelUnavailable, 3),
        ([Hang(after=1)] * 3, ModelUnavailable, 3),
        ([Refuse(503)] * 3, ModelUnavailable, 3),
        ([Drop(after=-1)] * 3, ModelUnavailable, 3),
        ([Break("broken", "server_error")] * 3, ModelUnavailable, 3),
        ([Reply(text="")] * 2, ModelReplyUnusable, 2),
        ([Reply(text="", reasoning="hm, hm")] * 2, ModelReplyUnusable, 2),
        ([Refuse(401)], ModelRejected, 1),
        ([Refuse(404, code="model_not_found")], ModelRejected, 1),
    ],
)
def test_a_server_that_fails(data: Path, steps: list[Any], kind: type[ModelError], requests: int) -> None:
    """S28: silent, cut off, refusing, empty: a bounded number of requests, then a typed error. The turn is
    interrupted and lets go; the message is kept, and asked with the next one."""

    async def work(memory: AsyncStratalog) -> None:
        with ModelServer([*steps, "fine"]) as server:
            model = model_at(server, "openai_chat", attempts=3)
            chat = memory.session(KEY)
            with pytest.raises(kind):
                await ask(chat, agent_with(model), "The first message.")
            assert server.facts.requests == requests
            assert kinds(raw(memory)) == ["user", "turn_start", "turn_end"]
            assert ends(memory) == ["interrupted"]
            assert chat.sync.status == "idle"
            assert (await ask(chat, agent_with(model), "The second.")).text == "fine"
            assert "The first message." in server.requests[-1].raw.decode()
            await model.close()

    in_memory(data, work, silence=0.2)


@pytest.mark.parametrize("message", [{"role": "assistant"}, {"role": "assistant", "content": ""}])
def test_an_empty_reply_of_any_model_is_an_error(data: Path, message: dict[str, Any]) -> None:
    """S28: also of a model that is no adapter of ours, and of one that ends without a reply."""

    class Empty:
        shape = "openai_chat"

        def __init__(self, completes: bool) -> None:
            self.completes = completes

        async def stream(self, request: Request) -> AsyncGenerator[Any, None]:
            yield TextDelta("")
            if self.completes:
                yield Completed(message=message, stop="end", model="m")

    async def work(memory: AsyncStratalog) -> None:
        for completes in (True, False):
            with pytest.raises(ModelReplyUnusable):
                await ask(memory.session(KEY), agent_with(Empty(completes)), "Go.")
        assert "assistant" not in kinds(raw(memory))
        assert ends(memory) == ["interrupted"] * 2

    in_memory(data, work)


def test_a_model_that_never_stops_calling(data: Path) -> None:
    """`model_calls` bounds the rounds of one turn; they are kept, and the next turn sees them."""

    async def work(memory: AsyncStratalog) -> None:
        def ping() -> str:
            return "pong"

        model = scripted(lambda request: Reply(calls=(Call("ping"),)))
        with pytest.raises(ModelReplyUnusable, match="after 4 replies"):
            await ask(memory.session(KEY), agent_with(model, ping), "Go.")
        assert len(model.requests) == 4
        assert Counter(kinds(raw(memory)))["tool_result"] == 4
        assert ends(memory) == ["interrupted"]
        after = scripted(["fine"])
        await ask(memory.session(KEY), agent_with(after, ping), "And?")
        assert words(after.requests[0]).count("pong") == 4

    in_memory(data, work, model_calls=4)


def test_cut_replies_and_refusals(data: Path) -> None:
    """A reply that reached the limit is a reply, with a warning; so is a refusal in words. Why it stopped is
    in the log. A call that was cut is told to the model."""

    async def work(memory: AsyncStratalog) -> None:
        def ping(word: str) -> str:
            return word

        cut_call = Reply(calls=(Call("ping", '{"word": "uncl'),), stop="length")
        model = scripted(
            [Reply(text="half a", stop="length"), Reply(refusal="I will not."), cut_call, "whole"]
        )
        made, chat = agent_with(model, ping), memory.session(KEY)
        events = await all_of(run(chat, made, "Write."))
        assert "max_output" in of(events, Warned)[0].reason
        assert of(events, Replied)[0].reply.meta["stop"] == "length"
        events = await all_of(run(chat, made, "Bad things."))
        assert of(events, Warned) == []
        assert of(events, Replied)[0].reply.text == "I will not."
        assert of(events, Replied)[0].reply.meta["stop"] == "refusal"
        events = await all_of(run(chat, made, "Ping."))
        assert of(events, Answered)[0].result.error
        assert len(of(events, Warned)) == 1
        assert of(events, Replied)[0].reply.text == "whole"
        assert ends(memory) == ["answered"] * 3

    in_memory(data, work)


# --- another model for a turn ---


def test_a_model_for_one_turn(data: Path) -> None:
    """It answers that turn with its own name and window; the next is the agent's again."""

    async def work(memory: AsyncStratalog) -> None:
        mine, other = scripted(["mine", "mine again"]), scripted(["other"])
        made, chat = agent_with(mine), memory.session(KEY)
        await ask(chat, made, "1")
        reply = await ask(chat, made, "2", model=Configured(other, "other"))
        assert (reply.text, reply.model) == ("other", "other")
        assert other.requests[0].body["max_completion_tokens"] == 500
        assert (await ask(chat, made, "3")).text == "mine again"
        assert words(mine.requests[1]) == ["1", "mine", "2", "other", "3"]

    in_memory(data, work, windows={NAME: 100_000, "other": 2_000})


@pytest.mark.parametrize("spec", ["nosuch:model", "gpt-5", "", "openai:gpt-5"])
def test_a_model_that_cannot_be_had_is_replaced(
    data: Path, spec: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No such provider, no provider, nothing, no key: the agent's model answers, and it is told."""
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)

    async def work(memory: AsyncStratalog) -> None:
        events = await all_of(run(memory.session(KEY), agent_with(scripted(["mine"])), "Go.", model=spec))
        (warned,) = of(events, Warned)
        assert "the agent's own model answers instead" in warned.reason
        assert events[0] is warned
        assert of(events, Replied)[0].reply.text == "mine"

    in_memory(data, work)


def test_a_model_that_is_refused_is_replaced_before_its_first_reply(data: Path) -> None:
    """The server knows no such model: the agent's answers, with a warning. Refused later, the turn fails; so
    does it when the agent's own model is refused."""

    async def work(memory: AsyncStratalog) -> None:
        def ping() -> str:
            return "pong"

        unknown = Refuse(404, code="model_not_found", message="The model `x` does not exist")
        with ModelServer([unknown, "mine", Reply(calls=(Call("ping"),)), unknown, unknown]) as server:
            model = model_at(server, "openai_chat")
            made, other = agent_with(model, ping), Configured(model, "x")
            chat = memory.session(KEY)
            events = await all_of(run(chat, made, "Go.", model=other))
            (warned,) = of(events, Warned)
            assert "does not exist" in warned.reason
            assert of(events, Replied)[0].reply.text == "mine"
            assert [request.body["model"] for request in server.requests] == ["x", NAME]
            with pytest.raises(ModelRejected):
                await ask(chat, made, "Go.", model=other)
            assert server.facts.requests == 4
            with pytest.raises(ModelRejected):
                await ask(chat, made, "Go.")
            assert server.facts.requests == 5
            assert ends(memory) == ["answered", "interrupted", "interrupted"]
            await model.close()

    in_memory(data, work, windows={NAME: 100_000, "x": 100_000})


def test_an_override_is_where_the_settings_say(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A model of the settings' provider is looked for at their address; one of another provider is not sent
    there."""
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    pytest.importorskip("openai")
    with ModelServer(["there"]) as server:

        async def work(memory: AsyncStratalog) -> None:
            chat = memory.session(KEY)
            made = agent_with(scripted(["mine"]))
            assert (await ask(chat, made, "Go.", model="openai:other")).text == "there"
            events = await all_of(run(chat, made, "Go.", model="anthropic:claude-sonnet-4-5"))
            assert of(events, Replied)[0].reply.text == "mine"
            assert "no API key" in of(events, Warned)[0].reason
            assert server.facts.requests == 1

        in_memory(data, work, model="openai:mine", base_url=server.openai_url)


# --- the window ---


class Watched(ScriptedModel):
    """A model whose server counts `factor` times what a quarter of the characters would be, and refuses, and
    fails the test, over its window. Its summaries are short."""

    def __init__(self, window: int, script: Callable[[Request], Any], factor: float = 1.0) -> None:
        def answer(request: Request) -> Any:
            chat_is_strict(request.body["messages"])
            self.summaries += is_summary(request)
            return "They spoke." if is_summary(request) else script(request)

        self.summaries = 0
        super().__init__(answer, window=window, count=lambda body: int(rough_tokens(body) * factor))


def test_twenty_rounds_in_a_small_window(data: Path) -> None:
    """S34: it is compacted before a call of the model, within the turn; no request is over the window, and
    the message of the turn is in each, word for word."""

    async def work(memory: AsyncStratalog) -> None:
        rounds = itertools.count()
        question = "Read all 20 files, and tell me of each what is strange about it."

        def read(number: int) -> str:
            return f"file {number}: " + "quite ordinary words " * 190

        def script(request: Request) -> Any:
            assert question in words(request)
            number = next(rounds)
            return Reply(calls=(Call("read", {"number": number}),)) if number < 20 else "All read."

        model = Watched(8_192, script)
        events = await all_of(run(memory.session(KEY), agent_with(model, read), question))
        assert of(events, Replied)[0].reply.text == "All read."
        assert len(of(events, Answered)) == 20
        assert len(of(events, Compacted)) >= 2
        assert of(events, Warned) == []
        assert Counter(kinds(raw(memory)))["tool_result"] == 20

    in_memory(data, work, windows={NAME: 8_192})


def test_calls_in_flight_over_two_compactions(data: Path) -> None:
    """S19, S21, S22: a turn is left in a tool, compacted, left again in a tool, compacted again: each request
    has every call with its result, and no result without its call."""

    async def work(memory: AsyncStratalog) -> None:
        chat, gate = memory.session(KEY), Gate()

        async def waits(number: int) -> str:
            await gate.passed()
            return "never"

        def read(number: int) -> str:
            return f"file {number}: " + "quite ordinary words " * 190

        for turn in range(3):
            numbers = itertools.count()

            def script(request: Request, numbers: Any = numbers) -> Any:
                number = next(numbers)
                if number < 8:
                    return Reply(text="Reading.", calls=(Call("read", {"number": number}),) * 2)
                return Reply(calls=(Call("waits", {"number": number}), Call("read", {"number": number})))

            made = agent_with(Watched(8_192, script), waits, read)
            seen: list[Event] = []
            async with aclosing(run(chat, made, f"Turn {turn}.")) as events:
                async for event in events:
                    seen.append(event)
                    in_flight = any(each.call.name == "waits" for each in of(seen, Called))
                    if in_flight and isinstance(event, Answered):
                        break
            assert len(of(seen, Compacted)) >= 1
        model = Watched(8_192, lambda request: "fine")
        events = await all_of(run(chat, agent_with(model, waits, read), "Go on."))
        assert of(events, Replied)[0].reply.text == "fine"
        assert ends(memory) == [*["aborted"] * 3, "answered"]

    in_memory(data, work, windows={NAME: 8_192})


def test_a_failing_summariser_leaves_the_log(data: Path) -> None:
    """S23, S35: down, silent, empty, blank, thinking only, a template, as long as its input: the extractive
    summariser stands in, says why, and what was said is all there. Cut off three times, nothing is
    written."""

    async def work(memory: AsyncStratalog) -> None:
        answers: list[Any] = [
            ModelUnavailable("down"),
            "",
            "  \n ",
            "<think>what should I write</think>",
            "# Summary\n- [goal]\n",
        ]
        for number, answer in enumerate(answers):
            chat = memory.session(f"a:cli:{number}")
            talk(chat.sync, 10, words=900)
            before = list(chat.sync.entries())
            summariser = ScriptedModel(lambda request, answer=answer: answer)
            made = agent_with(scripted(["fine"]), summariser=Configured(summariser, "s"))
            events = await all_of(run(chat, made, "Go on."))
            (compacted,) = of(events, Compacted)
            assert compacted.stood_in
            assert compacted.entry.by == "extractive"
            assert compacted.entry.summary.strip()
            assert len(summariser.requests) <= 2
            assert list(chat.sync.entries())[: len(before)] == before
        chat = memory.session(KEY)
        talk(chat.sync, 10, words=900)
        before = raw(memory)
        for _ in range(3):
            gate = Gate()
            summariser = ScriptedModel([Reply(text="half of it", late_gate=gate)])
            made = agent_with(scripted(["never"]), summariser=Configured(summariser, "s"))
            task = asyncio.create_task(ask(chat, made, "Go on."))
            await until(lambda gate=gate: gate.reached)
            task.cancel()
            await asyncio.wait({task})
        assert raw(memory)[: len(before)] == before
        assert kinds(raw(memory)[len(before) :]) == ["user", "turn_start", "turn_end"] * 3

    in_memory(data, work, windows={NAME: 16_000, "s": 100_000})


def test_tools_that_fill_the_window(data: Path) -> None:
    """S26: schemas that leave no room are a typed error, without one request. S31: where little room is left,
    or the trigger is below what is never folded, the turn is answered, with warnings, and a bounded number of
    requests, in an empty chat and in a long one."""

    async def work(memory: AsyncStratalog) -> None:
        def many(words: int) -> AgentTool:
            async def nothing(args: dict[str, Any]) -> Content:
                return ""

            return AgentTool(Tool("many", "word " * words, {"type": "object", "properties": {}}), nothing)

        model = Watched(32_000, lambda request: "fine")
        chat = memory.session(KEY)
        full = Agent(model=Configured(model, NAME), tools=(many(29_000),), remembers=False)
        with pytest.raises(ContextOverflow, match="the tools cannot fit"):
            await ask(chat, full, "Hello?")
        assert len(model.requests) == 0
        assert ends(memory) == ["interrupted"]
        tight = Agent(model=Configured(model, NAME), tools=(many(19_500),), remembers=False)
        for number in range(6):
            events = await all_of(run(chat, tight, f"Hello {number}?"))
            assert of(events, Replied)[0].reply.text == "fine"
        assert len(model.requests) <= 8
        talk(chat.sync, 40, words=300)
        asked = len(model.requests)
        for number in range(4):
            events = await all_of(run(chat, tight, f"Still {number}?"))
            assert of(events, Replied)[0].reply.text == "fine"
        assert len(model.requests) - asked <= 12

    in_memory(data, work, windows={NAME: 32_000})


def test_a_threshold_below_what_is_never_folded(data: Path) -> None:
    """S31: a trigger of 1,000 tokens with system's words of 3,000: warned, never looped, answered."""

    async def work(memory: AsyncStratalog) -> None:
        model = Watched(100_000, lambda request: "fine")
        made, chat = agent_with(model, system="Be kind. " * 1_500), memory.session(KEY)
        warned = 0
        for number in range(5):
            events = await all_of(run(chat, made, f"Hello {number}?"))
            assert of(events, Replied)[0].reply.text == "fine"
            assert all("compaction frees too little" in each.reason for each in of(events, Warned))
            warned += len(of(events, Warned))
        assert len(model.requests) == 5
        assert 1 <= warned <= 5
        assert "compaction" not in kinds(raw(memory))

    in_memory(data, work, compaction=CompactionSettings(cap=1_000))


def test_passes_that_free_little_end(data: Path) -> None:
    """S29: a message that fills the window leaves little to fold: two passes, a typed reason, and the turn is
    answered still."""

    async def work(memory: AsyncStratalog) -> None:
        model = Watched(16_000, lambda request: "fine")
        made, chat = agent_with(model), memory.session(KEY)
        for number in range(5):
            events = await all_of(run(chat, made, f"{number} " + "quite ordinary words " * 1_400))
            assert of(events, Replied)[0].reply.text == "fine"
        assert len(model.requests) <= 5 + 2 * 5

    in_memory(data, work, windows={NAME: 16_000})


def test_a_history_of_twice_the_window(data: Path) -> None:
    """S32: folded in chunks that fit the model, and answered in one turn."""

    async def work(memory: AsyncStratalog) -> None:
        chat = memory.session(KEY)
        talk(chat.sync, 40, words=250)
        model = Watched(8_192, lambda request: "fine")
        events = await all_of(run(chat, agent_with(model), "Go on."))
        assert of(events, Replied)[0].reply.text == "fine"
        (compacted,) = of(events, Compacted)
        assert compacted.entry.tokens_before > 2 * 8_192
        assert compacted.stood_in == ""
        assert model.summaries == len(model.requests) - 1 > 2

    in_memory(data, work, windows={NAME: 8_192})


def test_windows_that_change_from_turn_to_turn(data: Path) -> None:
    """S41: between 128k and 8k tokens, each request fits the model that it goes to, which is asked for no
    more output than it has."""

    async def work(memory: AsyncStratalog) -> None:
        chat = memory.session(KEY)
        large = Watched(128_000, lambda request: "large " + "says some words " * 50)
        small = Watched(8_192, lambda request: "small " + "says some words " * 50)
        made = agent_with(large, name="large")
        other = Configured(small, "small")
        for number in range(3):
            talk(chat.sync, 40, words=200, seed=number)
            events = await all_of(run(chat, made, f"Large {number}?"))
            assert (of(events, Warned), of(events, Compacted)) == ([], [])
            events = await all_of(run(chat, made, f"Small {number}?", model=other))
            assert of(events, Replied)[0].reply.text.startswith("small")
            assert len(of(events, Compacted)) == 1
            assert of(events, Warned) == []
            assert of(events, Compacted)[0].stood_in == ""
        assert {request.body["max_completion_tokens"] for request in large.requests} == {4_096}
        assert max(request.body["max_completion_tokens"] for request in small.requests) == 2_048

    in_memory(data, work, windows={"large": 128_000, "small": 8_192})


@pytest.mark.parametrize("tells", [True, False])
@pytest.mark.parametrize("size", [8_000, 30_000, 60_000])
def test_a_window_smaller_than_the_table_says(data: Path, tells: bool, size: int) -> None:
    """The server refuses what the table allows: the request is made smaller until it fits, whether the
    refusal tells the window or not, and the next turn is not refused again."""

    async def work(memory: AsyncStratalog) -> None:
        refused = []

        def count(body: dict[str, Any]) -> int:
            return rough_tokens(body)

        def check(request: Request) -> None:
            chat_is_strict(request.body["messages"])
            asked = count(request.body) + request.body["max_completion_tokens"]
            if asked > size:
                refused.append(asked)
                raise ModelInputTooLong("too long", window=size if tells else None)

        model = ScriptedModel(lambda request: "They spoke." if is_summary(request) else "fine", check=check)
        chat = memory.session(KEY)
        talk(chat.sync, 80, words=350)
        events = await all_of(run(chat, agent_with(model), "Go on."))
        assert of(events, Replied)[0].reply.text == "fine"
        assert refused
        assert len(of(events, Warned)) <= 5
        before = len(refused)
        for number in range(3):
            talk(chat.sync, 5, words=100, seed=number)
            events = await all_of(run(chat, agent_with(model), "And?"))
            assert of(events, Replied)[0].reply.text == "fine"
            assert of(events, Warned) == []
        assert len(refused) == before

    in_memory(data, work, windows={NAME: 128_000})


def test_five_compactions_do_not_grow(data: Path) -> None:
    """S38, S44: a summariser that always adds makes no summary longer than its cap; the summary is in every
    request after it, before the turns."""

    async def work(memory: AsyncStratalog) -> None:
        chat = memory.session(KEY)
        summaries: list[int] = []

        def script(request: Request) -> Any:
            if is_summary(request):
                earlier = words(request)[0].partition("<earlier-summary>")[2].partition("</earlier")[0]
                return earlier[-4_000:] + "and more happened " * 150
            summaries.append(sum("more happened" in text for text in words(request)))
            return "fine"

        model = scripted(script, window=16_000)
        for number in range(5):
            talk(chat.sync, 40, words=150, seed=number)
            events = await all_of(run(chat, agent_with(model), f"Go on, {number}."))
            (compacted,) = of(events, Compacted)
            room = room_of(NAME, chat.sync.settings, seeing.counter_of(NAME))
            policy = policy_of(chat.sync.settings, room)
            assert seeing.counter_of(NAME).count_text(compacted.entry.summary) <= policy.summary_limit
            assert compacted.entry.tokens_after <= policy.target_at
            assert of(events, Warned) == []
        assert summaries == [1] * 5

    in_memory(data, work, windows={NAME: 16_000})


def test_a_cap_below_a_large_window(data: Path) -> None:
    """S40: in a window of a million tokens it is compacted at the cap, or at the one that is set."""

    async def work(memory: AsyncStratalog) -> None:
        model = Watched(1_000_000, lambda request: "fine")
        chat = memory.session(KEY)
        talk(chat.sync, 60, words=250)
        events = await all_of(run(chat, agent_with(model), "Go on."))
        (compacted,) = of(events, Compacted)
        assert 20_000 <= compacted.entry.tokens_before <= 60_000
        assert compacted.entry.tokens_after <= 20_000 * 3 / 8
        settings = msgspec.structs.replace(chat.sync.settings, compaction=CompactionSettings())
        default = policy_of(settings, room_of(NAME, settings, seeing.counter_of(NAME)))
        assert default.trigger_at == 200_000

    in_memory(data, work, windows={NAME: 1_000_000}, compaction=CompactionSettings(cap=20_000))


# --- counting as the provider does ---


def test_what_the_provider_counted_is_used(data: Path) -> None:
    """The second request of a session is counted from the report on the first; a compaction voids it; a
    provider that counts half as much again has the session compacted earlier."""

    async def work(memory: AsyncStratalog) -> None:
        at: dict[float, int] = {}
        for factor in (1.0, 1.5):
            chat = memory.session(f"a:cli:{factor}")
            counter = seeing.counter_of(NAME)

            def usage(request: Request, factor: float = factor, counter: Any = counter) -> Usage:
                entries = [User(content=text) for text in words(request)]
                return Usage(input=round(factor * sum(map(counter.count_entry, entries))), output=1)

            def script(request: Request, usage: Any = usage) -> Any:
                return "They spoke." if is_summary(request) else Reply(text="fine", usage=usage(request))

            model = scripted(script)
            memo = chat.sync._seeing.memo
            assert not memo.anchors
            for number in range(60):
                talk(chat.sync, 1, words=150, seed=number)
                events = await all_of(run(chat, agent_with(model), f"Go on, {number}."))
                memo = chat.sync._seeing.memo
                known = memo.anchors[NAME]
                assert known.tokens == usage(model.requests[-1]).input
                if of(events, Compacted):
                    at[factor] = number
                    break
                assert known.pieces == len(words(model.requests[-1])) + 1
        assert at[1.5] < at[1.0]
        assert at[1.5] == pytest.approx(at[1.0] / 1.5, abs=3)

    in_memory(data, work, windows={NAME: 16_000})


def test_a_report_is_void_after_a_compaction(data: Path) -> None:
    """Once the session is compacted, nothing reported before it is believed of what is sent after."""

    async def work(memory: AsyncStratalog) -> None:
        chat = memory.session(KEY)
        talk(chat.sync, 20, words=50)
        await ask(chat, agent_with(scripted(["fine"])), "Go on.")
        assert chat.sync._seeing.memo.anchors
        chat.sync.append(Compaction(summary="They spoke.", by="x"))
        assert not chat.sync._seeing.memo.anchors

    in_memory(data, work)


def test_what_one_model_reported_is_not_believed_of_another(data: Path) -> None:
    """A provider that counts 2.5 times what we do has no say in when another model's context is compacted."""

    def counting(factor: float) -> ScriptedModel:
        def script(request: Request) -> Reply:
            tokens = int(rough_tokens(request.body) * factor)
            return Reply(text="fine", usage=Usage(input=tokens, output=1))

        return scripted(script)

    async def work(memory: AsyncStratalog) -> None:
        chat = memory.session(KEY)
        talk(chat.sync, 20, words=120)
        agent = agent_with(counting(2.5))
        await ask(chat, agent, "Go on.")
        events = await all_of(run(chat, agent, "And now?", model=Configured(counting(1.0), "gpt-4o-other")))
        assert not of(events, Compacted)
        assert set(chat.sync._seeing.memo.anchors) == {NAME, "gpt-4o-other"}

    in_memory(data, work, windows={NAME: 16_000, "gpt-4o-other": 16_000})


def test_what_is_sent_keeps_its_beginning(data: Path) -> None:
    """S87: between compactions each request begins with all of the one before, byte for byte."""

    async def work(memory: AsyncStratalog) -> None:
        def read(number: int) -> str:
            return f"file {number}: " + "quite ordinary words " * 90

        numbers = itertools.count()

        def script(request: Request) -> Any:
            number = next(numbers)
            return Reply(calls=(Call("read", {"number": number}),)) if number % 4 < 3 else "Read."

        model = scripted(script)
        made = agent_with(model, read, remembers=True, system="Be brief.")
        compacted = 0
        for turn in range(12):
            async with aclosing(run(memory.session(KEY), made, f"Turn {turn}.")) as events:
                async for event in events:
                    compacted += isinstance(event, Compacted)
        assert compacted == 0
        sent = [request.body["messages"] for request in model.requests]
        for earlier, later in itertools.pairwise(sent):
            assert json.dumps(later).startswith(json.dumps(earlier)[:-1])
        assert len({json.dumps(request.body["tools"]) for request in model.requests}) == 1

    in_memory(data, work)


# --- what comes meanwhile ---


def test_messages_that_come_meanwhile_are_answered_in_order(data: Path) -> None:
    """Submitted in a tool, in a stream and in a compaction, they are in the log at once, in no request of the
    turn that runs, and each is answered once, in its order."""

    async def work(memory: AsyncStratalog) -> None:
        chat = memory.session(KEY)
        talk(chat.sync, 10, words=900)
        submitted: list[str] = []

        def submit(word: str) -> None:
            chat.sync.submit(word)
            submitted.append(word)

        def read() -> str:
            submit("in a tool")
            return "read"

        asked: list[str] = []

        def script(request: Request) -> Any:
            if is_summary(request):
                if not submitted:
                    submit("in a compaction")
                return "They spoke."
            last = next(m for m in reversed(request.body["messages"]) if m["role"] == "user")["content"]
            asked.append(last)
            assert not [word for word in words(request) if word in submitted and word not in asked]
            return Reply(calls=(Call("read"),)) if len(asked) == 1 else Reply(text=f"to {last}")

        made = agent_with(scripted(script), read)
        async with aclosing(run(chat, made, "Go.")) as events:
            async for event in events:
                if isinstance(event, TextDelta) and len(submitted) == 2:
                    submit("in a stream")
        assert submitted == ["in a compaction", "in a tool", "in a stream"]
        for waits in await chat.unfinished():
            assert not waits.started
            await all_of(resume(chat, made, waits.turn))
        assert asked == ["Go.", "Go.", *submitted]
        assert await chat.unfinished() == []
        users = [entry for entry in raw(memory) if isinstance(entry, User)]
        assert [user.text for user in users[-4:]] == ["Go.", *submitted]
        assert ends(memory)[-4:] == ["answered"] * 4

    in_memory(data, work, windows={NAME: 16_000})


def test_tasks_on_one_session_stand_in_line(data: Path) -> None:
    """Each message is answered once, in order, none between another and its reply; who will not wait is
    refused, and its message stays."""

    async def work(memory: AsyncStratalog) -> None:
        gate = Gate()
        model = scripted([Reply(text="0", gate=gate), *map(str, range(1, 9))])
        made = agent_with(model)
        tasks = [asyncio.create_task(ask(memory.session(KEY), made, "message 0"))]
        await until(lambda: gate.reached)
        with pytest.raises(SessionBusy):
            await ask(memory.session(KEY), made, "impatient", wait=0)
        for number in range(1, 8):
            tasks.append(asyncio.create_task(ask(memory.session(KEY), made, f"message {number}")))
            await until(lambda n=number: kinds(raw(memory)).count("user") == n + 2)
        gate.open()
        replies = [reply.text for reply in await asyncio.gather(*tasks)]
        assert replies == [str(number) for number in range(8)]
        (left,) = await memory.session(KEY).unfinished()
        assert left.message.text == "impatient"
        (replied,) = of(await all_of(resume(memory.session(KEY), made, left.turn)), Replied)
        assert replied.reply.text == "8"
        assert words(model.requests[3]) == [
            *itertools.chain.from_iterable((f"message {number}", str(number)) for number in range(3)),
            "message 3",
        ]

    in_memory(data, work)


def test_fifty_sessions_at_once(data: Path) -> None:
    """They do not wait for one another: all have their tool running before one is answered."""

    async def work(memory: AsyncStratalog) -> None:
        gate, running = Gate(), []

        async def waits(number: int) -> str:
            running.append(number)
            if len(running) == 50:
                gate.open()
            await gate.passed()
            return f"{number} waited"

        def script(request: Request) -> Any:
            if request.body["messages"][-1]["role"] == "tool":
                return str(request.body["messages"][-1]["content"])
            return Reply(calls=(Call("waits", {"number": int(words(request)[-1])}),))

        made = agent_with(scripted(script), waits)
        keys = [f"a:cli:{number}" for number in range(50)]
        replies = await asyncio.gather(
            *(ask(memory.session(key), made, str(number)) for number, key in enumerate(keys))
        )
        assert [reply.text for reply in replies] == [f"{number} waited" for number in range(50)]
        assert sorted(running) == list(range(50))
        for key in keys:
            assert kinds(raw(memory, key)) == [
                *("user", "turn_start", "assistant", "tool_call", "tool_result", "assistant", "turn_end")
            ]

    in_memory(data, work)


# --- after the turn, and going on with one ---


def test_what_is_done_after_a_turn(data: Path) -> None:
    """It is called when the session is free and the reply logged, with the turn's id, in another thread; what
    it raises of ours is told as a problem, and the next of them is done still. Not after a turn that
    failed."""

    async def work(memory: AsyncStratalog) -> None:
        done: list[tuple[str, str, list[str]]] = []
        threads = []

        def note(session: Session, turn: str) -> None:
            threads.append(threading.current_thread())
            done.append((session.status, turn, kinds(list(session.entries()))))

        def fails(session: Session, turn: str) -> None:
            raise NotFound("nothing to be done", key=turn)

        def breaks(session: Session, turn: str) -> None:
            raise KeyError(turn)

        model = scripted(["fine", ModelUnavailable("down")])
        made = agent_with(model, after=(fails, breaks, note))
        reply = await ask(memory.session(KEY), made, "Go.")
        assert done == [("idle", reply.turn, ["user", "turn_start", "assistant", "turn_end"])]
        assert threading.main_thread() not in threads
        assert [problem.reason for problem in memory.sync.problems] == [
            f"after a turn: nothing to be done [key {reply.turn}]",
            f"after a turn: KeyError: {reply.turn!r}",
        ]
        with pytest.raises(ModelUnavailable):
            await ask(memory.session(KEY), made, "Go.")
        assert len(done) == 1

    in_memory(data, work)


def test_a_turn_that_lacks_only_its_end(data: Path) -> None:
    """A crash after the reply and before the end: resumed, it is ended with the reply that it has, and the
    model is not asked again; words that were broken off are no reply."""

    async def work(memory: AsyncStratalog) -> None:
        chat = memory.session(KEY)
        model = scripted(["the rest"])
        made = agent_with(model)
        message = (await chat.submit("Go.")).turn
        chat.sync.append(Assistant(turn=message, content="half", meta={"partial": True}))
        events = await all_of(resume(chat, made, message))
        assert of(events, Replied)[0].reply.text == "the rest"
        message = (await chat.submit("Again.")).turn
        chat.sync.append(Assistant(turn=message, content="the reply", response="r"))
        events = await all_of(resume(chat, made, message))
        assert [type(event) for event in events] == [Replied]
        assert of(events, Replied)[0].reply.text == "the reply"
        assert len(model.requests) == 1
        assert ends(memory) == ["answered"] * 2
        with pytest.raises(NotFound):
            await all_of(resume(chat, made, message))

    in_memory(data, work)


def test_the_agent_that_the_settings_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its model, its summariser, and what is said over the presets; none named is told."""
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    with pytest.raises(InvalidConfig, match="no model"):
        agent_of(Settings())
    with pytest.raises(InvalidConfig, match="no API key"):
        agent_of(Settings(model="anthropic:claude-sonnet-4-5"))
    own = CompactionSettings(trigger=0.5, target=0.2, keep_turns=3, summariser="extractive")
    settings = Settings(model="extractive", compaction=own)
    deep = Settings(model="openai:deepseek-reasoner", base_url="http://localhost:1/v1", sends_reasoning=True)
    assert getattr(agent_of(deep).model.model, "sends_reasoning", None) is True
    made = agent_of(settings, system="Be brief.")
    assert (made.model.name, made.system) == ("extractive", "Be brief.")
    said = Settings(model="extractive", system="Speak Chinese.")
    assert [agent_of(said).system, agent_of(said, system="Be brief.").system] == [
        "Speak Chinese.",
        "Be brief.",
    ]
    assert made.summariser is not None
    assert made.summariser.name == "extractive"
    policy = policy_of(settings, room_of("gpt-4o", settings, seeing.counter_of("gpt-4o")))
    assert (policy.trigger, policy.target, policy.keep_turns) == (0.5, 0.2, 3)


@pytest.mark.parametrize("reads_on", [True, False])
def test_nobody_waits_for_what_is_done_after(data: Path, reads_on: bool) -> None:
    """The reply is seen before what is done after the turn, and that is done also for one who stops there."""

    async def work(memory: AsyncStratalog) -> None:
        order: list[str] = []

        def note(session: Session, turn: str) -> None:
            order.append("after")

        made = agent_with(scripted(["fine"]), after=(note,))
        async with aclosing(run(memory.session(KEY), made, "Go.")) as events:
            async for event in events:
                if isinstance(event, Replied):
                    order.append("replied")
                    if not reads_on:
                        break
        assert order == ["replied", "after"]
        assert memory.session(KEY).sync.status == "idle"

    in_memory(data, work)


def test_a_reader_that_forgets_to_close(data: Path) -> None:
    """A loop that is left without closing the generator leaves the session free all the same, once Python has
    cleared it away."""

    async def work(memory: AsyncStratalog) -> None:
        gate, chat = Gate(), memory.session(KEY)
        model = scripted([Reply(text="one two three", late_gate=gate), "fine"])

        async def careless() -> None:
            async for event in run(chat, agent_with(model), "Go."):
                assert isinstance(event, TextDelta)
                break

        await careless()
        gc.collect()
        await until(lambda: ends(memory) == ["aborted"])
        assert model.abandoned == [0]
        assert (await ask(chat, agent_with(model), "Again.")).text == "fine"

    in_memory(data, work)


@pytest.mark.parametrize("kind", [Assistant, ToolResult, TurnEnd])
def test_a_log_that_cannot_be_written(data: Path, kind: type[AnyEntry]) -> None:
    """A full disk at any step is raised, and is no answer of a tool; the session is let go, and what was
    written is as it was."""

    async def work(memory: AsyncStratalog) -> None:
        append, full = memory.sync.store.append, True

        def limited(*args: Any, **how: Any) -> Any:
            if full and any(isinstance(entry, kind | TurnEnd) for entry in args[1]):
                raise StorageFull("the disk is full")
            return append(*args, **how)

        def ping() -> str:
            return "pong"

        memory.sync.store.append = limited  # type: ignore[method-assign] # to fill the disk
        chat = memory.session(KEY)
        model = scripted(lambda request: "fine" if "pong" in words(request) else Reply(calls=(Call("ping"),)))
        with pytest.raises(StorageFull):
            await ask(chat, agent_with(model, ping), "Go.")
        assert kind.__struct_config__.tag not in kinds(raw(memory))
        assert chat.sync.status == "idle"
        full = False
        (left,) = await chat.unfinished()
        events = await all_of(resume(chat, agent_with(model, ping), left.turn))
        assert of(events, Replied)[0].reply.text == "fine"
        assert ends(memory) == ["answered"]

    in_memory(data, work)


def test_a_model_that_is_not_in_the_table(data: Path) -> None:
    """It is taken for one of the usual size, and that is told once in a session."""

    async def work(memory: AsyncStratalog) -> None:
        made = agent_with(scripted(["a", "b", "c"]), name="nobody-knows-it")
        warned = [of(await all_of(run(memory.session(KEY), made, "Go.")), Warned) for _ in range(2)]
        assert [len(each) for each in warned] == [1, 0]
        assert "is not known" in warned[0][0].reason
        assert len(of(await all_of(run(memory.session("a:cli:other"), made, "Go.")), Warned)) == 1

    in_memory(data, work)


@pytest.mark.parametrize("times", [2, 3])
def test_cancelled_again_while_it_ends(data: Path, times: int) -> None:
    """Who is impatient, and cancels again while the request is being ended, is still cancelled, and no more:
    the words are kept, and the session is free once the request has ended."""

    async def work(memory: AsyncStratalog) -> None:
        begun, closing, gate = asyncio.Event(), asyncio.Event(), asyncio.Event()
        chat = memory.session(KEY)

        class SlowToClose:
            shape = "openai_chat"

            async def stream(self, request: Request) -> AsyncGenerator[Any, None]:
                try:
                    yield TextDelta("one ")
                    begun.set()
                    await asyncio.sleep(PATIENCE)
                finally:
                    closing.set()
                    await gate.wait()

        task = asyncio.create_task(ask(chat, agent_with(SlowToClose()), "Go."))
        await begun.wait()
        task.cancel()
        await closing.wait()
        for _ in range(times - 1):
            task.cancel()
            await asyncio.sleep(0)
        gate.set()
        await asyncio.wait({task})
        assert task.cancelled(), task.exception()
        await until(lambda: chat.sync.status == "idle")
        await until(lambda: ends(memory))
        assert ends(memory) == ["aborted"]
        assert [entry.text for entry in raw(memory) if isinstance(entry, Assistant)] == ["one "]
        assert (await ask(chat, agent_with(scripted(["fine"])), "Again.")).text == "fine"

    in_memory(data, work)


@pytest.mark.parametrize("shape", SHAPES)
def test_a_long_tool_loop_on_the_wire(data: Path, shape: str) -> None:
    """S19, S25, S34: over real HTTP, by each provider's own rules, with reasoning that travels along and
    parallel calls: compacted within the turn more than once, no request is refused, and none is over the
    window."""

    async def work(memory: AsyncStratalog) -> None:
        rounds = itertools.count()

        def read(number: int) -> str:
            return f"file {number}: " + "quite ordinary words " * 120

        def script(received: Any) -> Any:
            if INSTRUCTIONS[:40] in received.raw.decode():
                return Reply(text="They read some files.", reasoning="what matters")
            assert "Read everything, please." in received.raw.decode()
            number = next(rounds)
            if number % 16 == 15:
                return "All read."
            calls = tuple(Call("read", {"number": number}) for _ in range(1 + number % 2))
            return Reply(text="Next." if number % 3 else "", reasoning=f"now {number}", calls=calls)

        with ModelServer(script, window=8_192) as server:
            model = model_at(server, shape)
            made = agent_with(model, read, remembers=True, system="Be brief.")
            for _ in range(2):
                events = await all_of(run(memory.session(KEY), made, "Read everything, please."))
                assert of(events, Replied)[0].reply.text == "All read."
                assert len(of(events, Compacted)) >= 2
                assert {each.stood_in for each in of(events, Compacted)} == {""}
                assert of(events, Warned) == []
            assert server.refusals == []
            assert server.facts.statuses.keys() == {200}
            await model.close()

    in_memory(data, work, windows={NAME: 8_192})


def test_a_message_that_cannot_fit_does_not_spoil_the_session(data: Path) -> None:
    """It is a typed error without a request. The next messages are answered, and no request is over the
    window."""

    async def work(memory: AsyncStratalog) -> None:
        model = Watched(8_192, lambda request: "fine")
        chat = memory.session(KEY)
        await ask(chat, agent_with(model), "Hello.")
        with pytest.raises(ContextOverflow, match="the new message cannot fit"):
            await ask(chat, agent_with(model), "quite ordinary words " * 5_000)
        assert len([request for request in model.requests if not is_summary(request)]) == 1
        assert ends(memory) == ["answered", "interrupted"]
        for number in range(3):
            events = await all_of(run(chat, agent_with(model), f"Hello again, {number}."))
            assert of(events, Replied)[0].reply.text == "fine"
        assert ends(memory)[2:] == ["answered"] * 3

    in_memory(data, work, windows={NAME: 8_192})


def test_many_large_results_of_one_round(data: Path) -> None:
    """Thirty calls in one reply, each with a result that alone would fill a third of the window: they are
    shown as short as it takes, and the turn is answered."""

    async def work(memory: AsyncStratalog) -> None:
        def read(number: int) -> str:
            return f"file {number}: " + "quite ordinary words " * 900

        def script(request: Request) -> Any:
            if request.body["messages"][-1]["role"] != "tool":
                return Reply(calls=tuple(Call("read", {"number": number}) for number in range(30)))
            assert sum(message["role"] == "tool" for message in request.body["messages"]) == 30
            return "All read."

        model = Watched(16_000, script)
        events = await all_of(run(memory.session(KEY), agent_with(model, read), "Read all."))
        assert of(events, Replied)[0].reply.text == "All read."
        results = [entry for entry in raw(memory) if isinstance(entry, ToolResult)]
        assert all(len(result.text) > 15_000 for result in results)
        assert (await ask(memory.session(KEY), agent_with(model, read), "Again.")).text == "All read."

    in_memory(data, work, windows={NAME: 16_000})
