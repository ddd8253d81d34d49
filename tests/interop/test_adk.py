"""Google's Agent Development Kit on Stratalog: its real runner with a scripted model, and its own in-memory
service as the measure of what a session service does."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from google.adk.agents import LlmAgent, RunConfig
from google.adk.agents.run_config import StreamingMode
from google.adk.apps import App
from google.adk.apps._configs import EventsCompactionConfig
from google.adk.apps.llm_event_summarizer import LlmEventSummarizer
from google.adk.errors import StaleSessionError
from google.adk.errors.already_exists_error import AlreadyExistsError
from google.adk.errors.session_not_found_error import SessionNotFoundError
from google.adk.events.event import Event
from google.adk.memory.memory_entry import MemoryEntry
from google.adk.runners import Runner
from google.adk.sessions import InMemorySessionService, Session
from google.adk.sessions.base_session_service import BaseSessionService, GetSessionConfig
from google.adk.tools import ToolContext, load_memory
from google.genai import types
from hypothesis import given, settings
from hypothesis import strategies as st

from interop.adk_samples import (
    EVENTS,
    OF_ANA,
    STEPS,
    Scripted,
    ask,
    call,
    dumps,
    dumps_of,
    loaded,
    piece,
    run,
    said,
    state,
    texts,
)
from stratalog import Stratalog
from stratalog.engine.aio import AsyncStratalog
from stratalog.errors import Conflict, InvalidKey
from stratalog.interop.adk import StratalogMemoryService, StratalogSessionService
from stratalog.interop.naming import named
from stratalog.keys import SessionKey
from stratalog.log.contract import Reading
from stratalog.types import Assistant, Note, ToolCall, ToolResult, TurnEnd, User


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Stratalog]:
    with Stratalog(tmp_path / "data") as opened:
        yield opened


def test_a_conversation_with_tools_and_state(memory: Stratalog) -> None:
    """The runner's turns are in the log as messages, calls and results; each prefix of state goes where the
    ADK says, and another service finds all of it again."""

    def order(what: str, tool_context: ToolContext) -> dict[str, str]:
        """Orders something."""
        tool_context.state["basket"] = [what]
        tool_context.state["user:likes"] = what
        tool_context.state["app:sold"] = 1
        tool_context.state["temp:seen"] = what
        return {"result": f"{what} is ordered"}

    model = Scripted.of("Hello Ana.", call("order", what="tea"), "Your tea is on its way.", "Tea.")
    agent = LlmAgent(name="seller", model=model, tools=[order], output_key="last")

    async def body() -> None:
        service = StratalogSessionService(memory)
        runner = Runner(app_name="shop", agent=agent, session_service=service)
        await service.create_session(**OF_ANA, session_id="s", state={"open": True, "app:name": "Shop"})
        await ask(runner, "Hi, I am Ana.")
        await ask(runner, "I want green tea.")
        await ask(runner, "What did I want?")
        assert "I want green tea." in model.asked[-1]

    run(body)
    entries = list(memory.session("shop:adk:ana:s").entries())
    spoken = [entry for entry in entries if isinstance(entry, User | Assistant | ToolCall | ToolResult)]
    assert [(type(each).__name__, getattr(each, "text", "")) for each in spoken] == [
        ("User", "Hi, I am Ana."),
        ("Assistant", "Hello Ana."),
        ("User", "I want green tea."),
        ("ToolCall", ""),
        ("ToolResult", "tea is ordered"),
        ("Assistant", "Your tea is on its way."),
        ("User", "What did I want?"),
        ("Assistant", "Tea."),
    ]
    called, result = spoken[3], spoken[4]
    assert isinstance(called, ToolCall)
    assert isinstance(result, ToolResult)
    assert (called.name, called.args, called.call_id) == ("order", {"what": "tea"}, result.call_id)
    assert len({each.turn for each in spoken}) == 3
    assert [entry.status for entry in entries if isinstance(entry, TurnEnd)] == ["answered"] * 3
    assert memory.session("shop:adk:ana:s").unfinished() == []
    assert memory.search("green tea", roles=("user",))[0].hit.seq == spoken[2].seq

    with Stratalog(memory.data) as other:
        service = StratalogSessionService(other)
        found = run(lambda: loaded(service))
        assert found.state == {
            "open": True,
            "basket": ["tea"],
            "last": "Tea.",
            "app:name": "Shop",
            "app:sold": 1,
            "user:likes": "tea",
        }
        assert run(lambda: service.get_user_state(**OF_ANA)) == {"likes": "tea"}
        new = run(lambda: service.create_session(**OF_ANA, session_id="other"))
        assert new.state == {"app:name": "Shop", "app:sold": 1, "user:likes": "tea"}
        ben = run(lambda: service.create_session(app_name="shop", user_id="ben"))
        assert ben.state == {"app:name": "Shop", "app:sold": 1}


def test_no_words_are_stored_twice(memory: Stratalog) -> None:
    """What an entry says is not in the event's JSON beside it."""
    long = "A sentence that is told once. " * 50

    async def body() -> None:
        service = StratalogSessionService(memory)
        session = await service.create_session(**OF_ANA, session_id="s")
        event = said(long, "agent", actions=state(story=long[::-1]))
        assert event.content is not None
        assert event.content.parts is not None
        event.content.parts.append(
            types.Part(function_response=types.FunctionResponse(name="f", response={"result": long.upper()}))
        )
        await service.append_event(session, event)
        assert dumps(await loaded(service)) == dumps(session)

    run(body)
    log = b"".join(path.read_bytes() for path in memory.data.rglob("*.jsonl"))
    for text in (long, long[::-1], long.upper()):
        assert log.count(text.encode()) == 1


def test_streaming_stores_what_is_whole(memory: Stratalog) -> None:
    """Partial events are given out and not stored; the whole one is, and the next turn sees it."""
    pieces = [piece("It ", partial=True), piece("rains.", partial=True), piece("It rains.", partial=False)]
    model = Scripted.of(pieces, "Bye.")
    agent = LlmAgent(name="weather", model=model)

    async def body() -> None:
        service = StratalogSessionService(memory)
        runner = Runner(app_name="shop", agent=agent, session_service=service, auto_create_session=True)
        how = {"run_config": RunConfig(streaming_mode=StreamingMode.SSE)}
        given = await ask(runner, "The weather?", **how)
        assert [event.partial for event in given] == [True, True, None]
        assert texts(await loaded(service)) == ["The weather?", "It rains."]
        await ask(runner, "Bye", **how)
        assert model.asked[-1] == "The weather?\nIt rains.\nBye"

    run(body)


def test_a_transfer_to_another_agent(memory: Stratalog) -> None:
    """A sub-agent that was transferred to goes on in the next turn, also under another service."""
    model = Scripted.of(call("transfer_to_agent", agent_name="helper"), "Helper here.", "Still me.")

    def agents() -> LlmAgent:
        helper = LlmAgent(name="helper", model=model, description="helps")
        return LlmAgent(name="root", model=model, sub_agents=[helper])

    async def turn(text: str) -> list[str]:
        async with AsyncStratalog(memory.data) as opened:
            service = StratalogSessionService(opened)
            runner = Runner(
                app_name="shop", agent=agents(), session_service=service, auto_create_session=True
            )
            return [event.author for event in await ask(runner, text)]

    assert run(lambda: turn("Help!")) == ["root", "root", "helper"]
    assert run(lambda: turn("And now?")) == ["helper"]
    replies = [each for each in memory.session("shop:adk:ana:s").entries() if isinstance(each, Assistant)]
    assert [(each.text, each.meta) for each in replies] == [
        ("Helper here.", {"name": "helper"}),
        ("Still me.", {"name": "helper"}),
    ]


def test_a_compaction_is_used(memory: Stratalog) -> None:
    """A compaction of the ADK survives: the next request, of another service, has its summary and not what
    it covers; the summary is found by a search."""
    model = Scripted.of("One.", "Two.", "Three.")
    summariser = Scripted.of("They counted with zebras.")
    app = App(
        name="shop",
        root_agent=LlmAgent(name="counter", model=model),
        events_compaction_config=EventsCompactionConfig(
            compaction_interval=2, overlap_size=0, summarizer=LlmEventSummarizer(llm=summariser)
        ),
    )

    async def turns(*asked: str) -> None:
        service = StratalogSessionService(memory)
        runner = Runner(app=app, session_service=service, auto_create_session=True)
        for text in asked:
            await ask(runner, text)

    run(lambda: turns("count once", "count twice"))
    assert len(summariser.asked) == 1
    run(lambda: turns("count thrice"))
    assert "They counted with zebras." in model.asked[-1]
    assert "count once" not in model.asked[-1]
    assert memory.search("zebras")[0].hit.role == "note"


# --- conflicts, crashes, processes ---


def test_a_stale_append_is_refused(memory: Stratalog) -> None:
    """Of two session objects that were read at the same state the second is refused; it has changed neither
    log nor object, and after reading again it goes on."""

    async def body() -> None:
        service = StratalogSessionService(memory)
        with Stratalog(memory.data) as second:
            other = StratalogSessionService(second)
            await service.create_session(**OF_ANA, session_id="s")
            mine, theirs = await loaded(service), await loaded(other)
            await service.append_event(mine, said("first"))
            event = said("second", actions=state(n=1, temp__t=2))
            before = dumps(theirs), dumps_of(event)
            with pytest.raises(StaleSessionError):
                await other.append_event(theirs, event)
            assert (dumps(theirs), dumps_of(event)) == before
            theirs = await loaded(other)
            await other.append_event(theirs, event)
            assert theirs.state == {"n": 1, "temp:t": 2}
            assert texts(await loaded(service)) == ["first", "second"]
            with pytest.raises(StaleSessionError):
                await service.append_event(mine, said("third"))
            bare = Session.model_validate(dumps(await loaded(service)))  # from elsewhere, with no mark
            await service.append_event(bare, said("third"))
            assert texts(await loaded(other)) == ["first", "second", "third"]
            with pytest.raises(StaleSessionError):
                await service.append_event(Session.model_validate(dumps(mine)), said("fourth"))

    run(body)


def test_an_event_is_stored_once(memory: Stratalog) -> None:
    """An event that is stored is not stored again, whichever object it comes with; another of its id is a
    conflict."""

    async def body() -> None:
        service = StratalogSessionService(memory)
        session = await service.create_session(**OF_ANA, session_id="s")
        stale = await loaded(service)
        # A log has U+FFFD for a lone surrogate, which makes it no other event.
        event = said("once", actions=state(app__n=1, app__odd="\ud800"))
        await service.append_event(session, event)
        await service.append_event(session, said("more"))
        config = GetSessionConfig(num_recent_events=0)
        for each in (session, stale, await loaded(service, config=config)):
            await service.append_event(each, event.model_copy(deep=True))
        with Stratalog(memory.data) as other:
            anew = StratalogSessionService(other)
            await anew.append_event(await loaded(anew, config=config), event)
        assert texts(await loaded(service)) == ["once", "more"]
        with pytest.raises(Conflict, match="another event of this id"):
            await service.append_event(session, said("else", id=event.id))

    run(body)


def test_branches_that_append_at_once(memory: Stratalog) -> None:
    """Tasks that share one session object append all of their events."""

    async def body() -> None:
        service = StratalogSessionService(memory)
        session = await service.create_session(**OF_ANA, session_id="s")
        await asyncio.gather(*(service.append_event(session, said(str(n))) for n in range(20)))
        assert sorted(map(int, texts(session))) == list(range(20))
        assert texts(await loaded(service)) == texts(session)

    run(body)


# --- the measure: the ADK's own service ---


async def perform(service: BaseSessionService, steps: list[Any]) -> list[Any]:
    """What the steps come to: what each raised, every session whole and in part, lists and user states."""
    told: list[Any] = []
    for number, (what, user, id, delta) in enumerate(steps):
        who = {"app_name": "shop", "user_id": user, "session_id": id}
        session = await service.get_session(**who)
        try:
            if what == "create":
                await service.create_session(**who, state=dict(delta))
            elif what == "delete":
                await service.delete_session(**who)
            elif what == "again" and session is not None and session.events:
                await service.append_event(session, session.events[number % len(session.events)])
            elif what == "append" and session is not None:
                partial = number % 5 == 4
                event = said(f"n{number}", partial=partial, id=f"e{number}", timestamp=1000.5 + number)
                event.actions.state_delta = dict(delta)
                await service.append_event(session, event)
                told.append(session.state | {"n": len(session.events)})
        except AlreadyExistsError as error:
            told.append(str(error))
    for user in ("ana", "ben"):
        told.append(await service.get_user_state(app_name="shop", user_id=user))
        for id in ("s", "t"):
            for config in (
                None,
                GetSessionConfig(num_recent_events=0),
                GetSessionConfig(num_recent_events=2),
                GetSessionConfig(after_timestamp=1003.5),
                GetSessionConfig(num_recent_events=3, after_timestamp=1004),
            ):
                found = await service.get_session(app_name="shop", user_id=user, session_id=id, config=config)
                told.append(without_time(found))
    for who in (None, "ana", "ben"):
        listed = (await service.list_sessions(app_name="shop", user_id=who)).sessions
        told.append(sorted((each.user_id, each.id, repr(normal(without_time(each)))) for each in listed))
    return told


def without_time(session: Session | None) -> Any:
    """A session without the time of its creation, which is another at each service."""
    if session is None:
        return None
    dump = dumps(session)
    at = dump.pop("last_update_time")
    return dump | ({"at": at} if at < 1e9 else {})


@settings(max_examples=12, deadline=None)
@given(st.lists(STEPS, max_size=14))
def test_the_same_steps_come_to_the_same(steps: list[Any]) -> None:
    """Any steps on this service and on the ADK's in-memory one give the same sessions, states and lists."""
    with tempfile.TemporaryDirectory() as directory, Stratalog(Path(directory)) as memory:
        ours = run(lambda: perform(StratalogSessionService(memory), steps))
    assert normal(ours) == normal(run(lambda: perform(InMemorySessionService(), steps)))


def normal(told: Any) -> Any:
    """Dictionaries in the order of their keys, and all in writing, so that 1, 1.0 and true differ."""
    if isinstance(told, dict):
        return sorted((key, normal(value)) for key, value in told.items())
    return [normal(each) for each in told] if isinstance(told, list | tuple) else repr(told)


@settings(max_examples=12, deadline=None)
@given(st.lists(EVENTS, max_size=6, unique_by=lambda event: event.id))
def test_any_event_comes_back_exactly(events: list[Event]) -> None:
    """Whatever is in events, other services read what this one was given, but for temporary state."""

    async def body() -> None:
        with tempfile.TemporaryDirectory() as directory, Stratalog(Path(directory)) as memory:
            service = StratalogSessionService(memory)
            session = await service.create_session(**OF_ANA, session_id="s")
            for event in events:
                await service.append_event(session, event)
            with Stratalog(Path(directory)) as other:
                found = await loaded(StratalogSessionService(other))
            assert found.events == [Event.model_validate_json(each.model_dump_json()) for each in events]
            assert found.events == session.events

    run(body)


# --- ids, lists, damage ---

HOSTILE = [
    *("a", "A", " a", "a ", "a\n", "a/b", "a\\b", "..", ".", "a:b", "a%2fb", "a%b", "a=2fb", "a~b"),
    *("a\0b", "\u0301a", "é", "e\u0301", "小王", "=\u0338", "x" * 5000, "x" * 5001, "é" * 700, "\u202e"),
]


@settings(max_examples=40, deadline=None)
@given(st.lists(st.text(min_size=1, max_size=6), min_size=2, max_size=2, unique=True))
def test_names_never_collide(ids: list[str]) -> None:
    """Two ids never have the same name, nor two that differ only in how they are normalised."""
    assert named("x", ids[0]) != named("x", ids[1])


def test_hostile_ids(memory: Stratalog) -> None:
    """An id of any characters and length is kept as it is and is nobody else's; an empty one is refused."""

    async def body() -> None:
        service = StratalogSessionService(memory)
        for id in HOSTILE:
            made = await service.create_session(app_name=id, user_id=id, session_id=id)
            assert (made.app_name, made.user_id, made.id) == (id, id, id)
            await service.append_event(made, said("of " + id, actions=state(user__who=id, app__what=id)))
            await service.create_session(app_name="shop", user_id=id, session_id="s")
            await service.create_session(app_name="shop", user_id="ana", session_id=id)
        for id in HOSTILE:
            (found,) = (await service.list_sessions(app_name=id)).sessions
            assert (found.app_name, found.user_id, found.id) == (id, id, id)
            assert found.state == {"user:who": id, "app:what": id}
            assert texts(await loaded(service, id, app_name=id, user_id=id)) == ["of " + id]
        listed = (await service.list_sessions(app_name="shop")).sessions
        assert {each.user_id for each in listed} == {*HOSTILE, "ana"}
        assert {each.id for each in listed if each.user_id == "ana"} == set(HOSTILE)
        for ids in (("", "u", "s"), ("p", "", "s"), ("p", "u", ""), ("p", "u", "\ud800")):
            app, user, session = ids
            with pytest.raises(InvalidKey):
                await service.create_session(app_name=app, user_id=user, session_id=session)
        with pytest.raises(InvalidKey):
            await service.get_user_state(app_name="shop", user_id="")

    run(body)


def test_lists_are_in_order_and_read_no_log(memory: Stratalog, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sessions are listed by their last update, oldest first, with their states and without events; no log is
    read for that, and a fork is not listed as its parent."""

    async def body() -> None:
        service = StratalogSessionService(memory)
        for number in range(3):
            session = await service.create_session(**OF_ANA, session_id=f"s{number}")
            at = 3e9 - number + 0.000001
            await service.append_event(session, said("x", timestamp=at, actions=state(n=number)))
        memory.session("shop:adk:ana:s1").fork("shop:adk:copy")
        memory.sessions()
        read: list[str] = []
        with monkeypatch.context() as patch:
            real = memory.store.read

            def reading(key: SessionKey, **how: Any) -> Reading:
                read.append(key.channel)
                return real(key, **how)

            patch.setattr(memory.store, "read", reading)
            listed = (await service.list_sessions(**OF_ANA)).sessions
        assert "adk" not in read  # but the states of app and user
        assert [each.id for each in listed] == ["s2", "s1", "s0"]
        assert [each.state for each in listed] == [{"n": 2}, {"n": 1}, {"n": 0}]
        assert listed[0].last_update_time == (await loaded(service, "s2")).last_update_time
        await service.delete_session(**OF_ANA, session_id="s1")
        assert await service.get_session(**OF_ANA, session_id="s1") is None
        assert not memory.session("shop:adk:ana:s1").exists
        with pytest.raises(SessionNotFoundError):
            await service.append_event(listed[1], said("late"))
        await service.create_session(**OF_ANA, session_id="s1")
        session.id = "s1"
        with pytest.raises(StaleSessionError):
            await service.append_event(session, said("of another life"))

    run(body)


def test_a_damaged_event_is_left_out(memory: Stratalog) -> None:
    """An event whose words were damaged on the disk is left out and told; the others are there."""

    async def body() -> None:
        service = StratalogSessionService(memory)
        session = await service.create_session(**OF_ANA, session_id="s")
        for text in ("first words", "second words", "third words"):
            await service.append_event(session, said(text))

    run(body)
    (path,) = memory.data.rglob("adk~*.jsonl")
    path.write_bytes(path.read_bytes().replace(b"second words", b"sec\xffnd words"))
    with Stratalog(memory.data) as other:
        found = run(lambda: loaded(StratalogSessionService(other)))
        assert texts(found) == ["first words", "third words"]
        assert any("lost entries" in each.reason for each in other.problems)


def test_other_entries_are_passed_over(memory: Stratalog) -> None:
    """What Stratalog itself writes to a session, such as a title, neither shows nor makes anybody stale."""

    async def body() -> None:
        service = StratalogSessionService(memory)
        session = await service.create_session(**OF_ANA, session_id="s")
        await service.append_event(session, said("one"))
        log = memory.session("shop:adk:ana:s")
        log.set_title("Shopping")
        log.append(User(content="from the console"), Note(kind="mine"))
        await service.append_event(session, said("two"))
        assert texts(await loaded(service)) == ["one", "two"]
        assert log.meta.title == "Shopping"

    run(body)


# --- memory ---


def test_memory_of_a_user(memory: Stratalog) -> None:
    """A search finds what was added of this app and this user alone, each event once, as it was said."""

    async def body() -> None:
        service, remembers = StratalogSessionService(memory), StratalogMemoryService(memory)

        async def found(query: str, app: str = "shop", user: str = "ana") -> list[MemoryEntry]:
            told = await remembers.search_memory(app_name=app, user_id=user, query=query)
            return told.memories

        session = await service.create_session(**OF_ANA, session_id="s")
        first = said("My sister lives in Lisbon.", timestamp=1.7e9)
        await service.append_event(session, first)
        assert await found("sister Lisbon") == []
        await remembers.add_session_to_memory(session)
        (hit,) = await found("sister Lisbon")
        assert (hit.id, hit.author, hit.content) == (first.id, "user", first.content)
        assert hit.timestamp == "2023-11-14T22:13:20+00:00"
        assert await found("sister Lisbon", user="ben") == await found("sister Lisbon", app="other") == []
        assert await found("zebra") == await found("") == []

        await service.append_event(session, said("My sister moved to Bergen."))
        assert [each.id for each in await found("sister Bergen")] == [first.id]
        await remembers.add_session_to_memory(session)
        assert len(await found("sister Bergen")) == 2
        await service.append_event(session, said("It goes on."))  # the mark made nobody stale

        delta = said("My brother has a boat.")
        for _ in range(2):
            await remembers.add_events_to_memory(**OF_ANA, events=[delta, Event(author="a")])
        await remembers.add_events_to_memory(app_name="shop", user_id="ben", events=[said("A boat of Ben.")])
        assert next(each.id for each in await found("boat")) == delta.id
        kept = MemoryEntry(content=types.Content(parts=[types.Part(text="Ana rows at dawn.")]))
        await remembers.add_memory(**OF_ANA, memories=[kept], custom_metadata={"by": "hand"})
        hit = (await found("dawn"))[0]
        assert (hit.content, hit.custom_metadata) == (kept.content, {"by": "hand"})

        elsewhere = Session(id="far", **OF_ANA, events=[said("The parrot is green.")])
        for _ in range(2):
            await remembers.add_session_to_memory(elsewhere)
        assert [each.id for each in await found("parrot")].count(elsewhere.events[0].id) == 1
        many = [said(f"Fact {n} of the lighthouse.") for n in range(15)]
        await remembers.add_events_to_memory(**OF_ANA, events=many)
        assert len(await found("lighthouse")) == 10

    run(body)


def test_an_agent_that_remembers(memory: Stratalog) -> None:
    """The ADK's own tool for memory finds a past session through the runner."""
    model = Scripted.of("Noted.", call("load_memory", query="favourite colour"), "It is teal.")
    agent = LlmAgent(name="friend", model=model, tools=[load_memory])

    async def body() -> None:
        service, remembers = StratalogSessionService(memory), StratalogMemoryService(memory)
        runner = Runner(
            app_name="shop",
            agent=agent,
            session_service=service,
            memory_service=remembers,
            auto_create_session=True,
        )
        await ask(runner, "My favourite colour is teal.", "monday")
        await remembers.add_session_to_memory(await loaded(service, "monday"))
        await ask(runner, "What is my favourite colour?", "tuesday")
        answers = (await loaded(service, "tuesday")).events[2].get_function_responses()
        assert "teal" in str(answers[0].response)

    run(body)
