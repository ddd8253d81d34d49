"""interop/langgraph: the checkpointer, by LangGraph's own suite, beside its own, and under real graphs."""

from __future__ import annotations

import asyncio
import enum
import operator
import os
import random
import tracemalloc
from collections.abc import AsyncIterator, Iterator
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any, TypedDict

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.messages import (
    AIMessage,
    AnyMessage,
    ChatMessage,
    HumanMessage,
    RemoveMessage,
    ToolMessage,
)
from langchain_core.runnables import RunnableConfig
from langgraph.channels.delta import DeltaChannel
from langgraph.checkpoint.base import CheckpointTuple, empty_checkpoint
from langgraph.checkpoint.base.id import uuid6
from langgraph.checkpoint.conformance import checkpointer_test, validate
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.types import Command, interrupt

from stratalog import Stratalog
from stratalog.aio import AsyncStratalog
from stratalog.engine.graphs import checkpoints_of
from stratalog.engine.purging import purge
from stratalog.engine.remembering import ADMIN, Records, Selector
from stratalog.errors import Conflict, InvalidInput
from stratalog.interop.langgraph import StratalogSaver
from stratalog.types import Image, Note, ToolCall, User

SESSION = "local/agent:langgraph:t"


class Cipher:
    """Gives other bytes each time, as a real one does, and never those that it was given."""

    def encrypt(self, plaintext: bytes) -> tuple[str, bytes]:
        key = 0x80 | os.urandom(1)[0]
        return "xor", bytes([key, *[each ^ key for each in plaintext]])

    def decrypt(self, ciphername: str, ciphertext: bytes) -> bytes:
        assert ciphername == "xor"
        return bytes([each ^ ciphertext[0] for each in ciphertext[1:]])


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Stratalog]:
    with Stratalog(tmp_path) as opened:
        yield opened


@pytest.fixture
def saver(memory: Stratalog) -> Iterator[StratalogSaver]:
    with StratalogSaver(memory) as made:
        yield made


def thread(name: str = "t", **more: Any) -> RunnableConfig:
    return {"configurable": {"thread_id": name, "checkpoint_ns": "", **more}}


class Writer:
    """Puts checkpoints as a graph does: each value that is given has a new version."""

    def __init__(self, *savers: Any) -> None:
        self.savers = savers
        self.versions = 0

    def put(self, parent: RunnableConfig, had: dict[str, Any], new: dict[str, Any], **metadata: Any) -> Any:
        """Under `parent`, whose checkpoint is `had` (None for none), and `new` values, `...` for none."""
        before = had["checkpoint"] if had else None
        versions = dict(before["channel_versions"]) if before else {}
        values = dict(before["channel_values"]) if before else {}
        bumped = {}
        for channel, value in new.items():
            self.versions += 1
            versions[channel] = bumped[channel] = f"{self.versions:032}.{random.random():016}"
            values.pop(channel, None)
            if value is not ...:
                values[channel] = value
        made = empty_checkpoint() | {"channel_values": values, "channel_versions": versions}
        for each in self.savers:
            config = each.put(parent, made, {"source": "loop", "step": 1, **metadata}, bumped)
        return config, {"checkpoint": made}


def test_langgraphs_own_suite(tmp_path: Path) -> None:
    """All that its conformance suite asks of a checkpointer, of every capability, and none is missing."""

    @checkpointer_test(name="StratalogSaver")
    async def made() -> AsyncIterator[StratalogSaver]:
        async with AsyncStratalog(tmp_path) as memory, StratalogSaver(memory) as saver:
            yield saver

    report = asyncio.run(validate(made))
    assert {name: each.failures for name, each in report.results.items() if each.failures} == {}
    assert [name for name, each in report.results.items() if each.passed is not True] == []
    assert len(report.results) == 8


# --- the same answers as LangGraph's own ---

leaves = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**63),
    st.floats(allow_nan=False),
    st.text(max_size=80),
    st.binary(),
)
elements = st.one_of(
    leaves, st.text(min_size=60, max_size=90), st.lists(leaves, max_size=3), st.sets(st.integers(0, 9))
)
edits = st.sampled_from(["append", "edit", "drop", "first", "insert", "reverse", "same", "other", "gone"])


def edited(value: Any, how: str, one: Any, at: int) -> Any:
    """A value made of another, as a reducer does."""
    if how == "gone":
        return ...
    if how == "other" or not isinstance(value, (list, dict, str)):
        return [one, *[f"{'x' * 60}{each}" for each in range(at % 9)]] if at % 2 else one
    if isinstance(value, str):
        return value + "y" * (at * 97) if how == "append" else value[at:]
    items: list[Any] = list(value.items()) if isinstance(value, dict) else list(value)
    one = (f"key {at}", one) if isinstance(value, dict) else one
    place = at % (len(items) + 1)
    match how:
        case "append":
            items.append(one)
        case "edit":
            items[place : place + 1] = [one]
        case "drop":
            del items[place : place + 1]
        case "first":
            items = [*items[1:], one]
        case "insert":
            items.insert(place, one)
        case "reverse":
            items.reverse()
    return dict(items) if isinstance(value, dict) else items


steps = st.tuples(st.integers(0, 30), st.sampled_from("ab"), edits, elements, st.integers(0, 30))
starts = st.one_of(
    st.just({"a": ["z" * 70] * 3, "b": {f"key {at}": "z" * 70 for at in range(4)}}),
    st.just({"a": "text" * 600, "b": list(range(100))}),
    st.fixed_dictionaries({"a": elements, "b": elements}),
)


def serde_of(encrypted: bool) -> Any:
    plain = JsonPlusSerializer(pickle_fallback=True)
    return EncryptedSerializer(Cipher(), plain) if encrypted else plain


def same(one: Any, other: Any) -> bool:
    """Whether both are equal, and of the same types all the way down."""
    if type(one) is not type(other) or one != other:
        return False
    if isinstance(one, dict):
        return list(one) == list(other) and all(same(one[key], other[key]) for key in one)
    if isinstance(one, (list, tuple)):
        return all(same(each, two) for each, two in zip(one, other, strict=True))
    return True


def told(found: CheckpointTuple | None) -> dict[str, Any] | None:
    return None if found is None else found._asdict()


@settings(deadline=None, max_examples=40)
@given(starts, st.lists(steps, max_size=14), st.booleans())
def test_any_history_is_read_as_the_reference_reads_it(
    start: Any, history: list[Any], encrypted: bool
) -> None:
    """Whatever is put on whichever checkpoint, forks and all, every checkpoint then has what `InMemorySaver`
    says that it has, type for type; so has a copy, and what pruning keeps."""
    with (
        TemporaryDirectory() as directory,
        Stratalog(directory) as memory,
        StratalogSaver(memory, serde=serde_of(encrypted)) as ours,
    ):
        reference = InMemorySaver(serde=serde_of(False))
        writer = Writer(ours, reference)
        made = [writer.put(thread(), {}, start)]
        for parent, channel, how, one, at in history:
            config, had = made[parent % len(made)]
            value = had["checkpoint"]["channel_values"].get(channel)
            made.append(writer.put(config, had, {channel: edited(value, how, one, at)}))
        ours.copy_thread("t", "copy")
        wanted = [told(each) for each in reference.list(thread())]
        assert same([told(each) for each in ours.list(thread())], wanted)
        for config, _ in made:
            assert same(told(ours.get_tuple(config)), told(reference.get_tuple(config)))
        ours.prune(["t"])
        (last,) = ours.list(thread())
        assert same(told(last), wanted[0])
        ours.delete_thread("t")
        copied = [each.checkpoint for each in ours.list(thread("copy"))]
        assert same(copied, [each["checkpoint"] for each in wanted if each])


def test_what_only_pickle_takes_is_the_same_object_within(memory: Stratalog) -> None:
    """A list with something that only pickle can take is kept whole, and comes back as pickle gives it."""
    with StratalogSaver(memory, serde=JsonPlusSerializer(pickle_fallback=True)) as saver:
        both = [1, 2]
        value = [range(3), both, both, *["x" * 100] * 9]
        config, _ = Writer(saver).put(thread(), {}, {"c": value})
        found = saver.get_tuple(config)
        assert found is not None
        read = found.checkpoint["channel_values"]["c"]
        assert read == value
        assert read[1] is read[2]


class Colour(enum.Enum):
    RED = "red"


@pytest.mark.parametrize("value", [{1, 2}, Colour.RED, b"x" * 2000, {1: "x" * 300}, None])
def test_a_value_of_any_type_is_of_that_type_again(saver: StratalogSaver, value: Any) -> None:
    """By itself, and as an element of a list and of a dict."""
    for held in (value, [value] * 20, {f"key {at}": value for at in range(20)}):
        config, _ = Writer(saver).put(thread(), {}, {"c": held})
        found = saver.get_tuple(config)
        assert found is not None
        assert same(found.checkpoint["channel_values"]["c"], held)


def test_an_array_is_a_value(saver: StratalogSaver) -> None:
    """One whose truth is ambiguous, which numpy does not tell; by itself and as an element."""
    array = np.arange(600.0).reshape(2, 300)
    config, had = Writer(saver).put(thread(), {}, {"c": array, "list": [array] * 3})
    config, _ = Writer(saver).put(config, had, {"list": [array] * 4})
    found = saver.get_tuple(config)
    assert found is not None
    values = found.checkpoint["channel_values"]
    assert [each.tolist() for each in (values["c"], *values["list"])] == [array.tolist()] * 5


def test_encrypted_pieces_are_shared_and_nothing_is_in_the_clear(tmp_path: Path) -> None:
    """Under a cipher that gives other bytes each time a list costs what it grew by, and no word of it is in
    the files."""
    with Stratalog(tmp_path) as memory, StratalogSaver(memory, serde=serde_of(True)) as saver:
        writer = Writer(saver)
        config, had = writer.put(thread(), {}, {"c": ["secret" * 20]})
        for at in range(50):
            config, had = writer.put(
                config, had, {"c": [*had["checkpoint"]["channel_values"]["c"], f"secret {at}" * 20]}
            )
    data = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert b"secret" not in data
    assert len(data) < 200_000


# --- size ---


@pytest.mark.parametrize("form", ["messages", "dicts"])
def test_a_message_costs_two_kilobytes_at_most(tmp_path: Path, form: str) -> None:
    """Of a conversation of 400 messages of 400 bytes, put one by one, each costs 2 KB or less on disk."""
    with Stratalog(tmp_path) as memory, StratalogSaver(memory) as saver:
        writer = Writer(saver)
        config, had, said = thread(), {}, list[Any]()
        for at in range(400):
            text = f"{at:010}" + "x" * 390
            one = HumanMessage(text, id=str(at)) if form == "messages" else {"role": "user", "content": text}
            said = [*said, one]
            config, had = writer.put(config, had, {"messages": said})
        last = saver.get_tuple(thread())
        assert last is not None
        assert last.checkpoint["channel_values"]["messages"] == said
    size = sum(path.stat().st_size for path in tmp_path.rglob("*") if path.is_file())
    assert size / 400 <= 2_000


@pytest.mark.parametrize("how", ["edit the last", "window", "edit one", "a text", "a dict"])
def test_a_change_costs_what_it_changes(tmp_path: Path, how: str) -> None:
    """A value of 100 KB that is changed 100 times, a little each, takes a fraction of the 10 MB of its
    versions."""
    value: Any = [f"{at:06}" + "x" * 494 for at in range(200)]
    if how == "a text":
        value = "".join(value)
    elif how == "a dict":
        value = {f"key {at}": each for at, each in enumerate(value)}
    with Stratalog(tmp_path) as memory, StratalogSaver(memory) as saver:
        writer = Writer(saver)
        config, had = writer.put(thread(), {}, {"c": value})
        for at in range(100):
            new = f"new {at}" + "y" * 490
            match how:
                case "edit the last":
                    value = [*value[:-1], new]
                case "window":
                    value = [*value[1:], new]
                case "edit one":
                    value = [*value[: at * 2], new, *value[at * 2 + 1 :]]
                case "a text":
                    value = value + new
                case _:
                    value = {**value, f"key {at * 2}": new}
            config, had = writer.put(config, had, {"c": value})
        last = saver.get_tuple(thread())
        assert last is not None
        assert last.checkpoint["channel_values"]["c"] == value
    assert sum(path.stat().st_size for path in tmp_path.rglob("*") if path.is_file()) < 450_000


def test_a_graph_within_begins_with_what_is_there(tmp_path: Path) -> None:
    """The first checkpoint of a namespace shares the values of the one that it is in."""
    said = [f"{at:06}" + "x" * 994 for at in range(200)]
    with Stratalog(tmp_path) as memory, StratalogSaver(memory) as saver:
        writer = Writer(saver)
        writer.put(thread(), {}, {"messages": said})
        for at in range(10):
            inner = {"configurable": {"thread_id": "t", "checkpoint_ns": f"node:{at}"}}
            writer.put(inner, {}, {"messages": [*said, f"from {at}"]})
        saver.prune(["t"])
        last = saver.get_tuple({"configurable": {"thread_id": "t", "checkpoint_ns": "node:3"}})
        assert last is not None
        assert last.checkpoint["channel_values"]["messages"] == [*said, "from 3"]
    assert sum(path.stat().st_size for path in tmp_path.rglob("*") if path.is_file()) < 400_000


def test_what_did_not_change_is_not_read(saver: StratalogSaver) -> None:
    """A large value of another channel is in memory neither when a checkpoint is put nor when others go."""
    writer = Writer(saver)
    config, had = writer.put(thread(), {}, {"large": b"x" * 4_000_000, "c": 0})
    for at in range(3):
        config, had = writer.put(config, had, {"c": at})
    tracemalloc.start()
    try:
        writer.put(config, had, {"c": 3})
        saver.prune(["t"])
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()
    (last,) = saver.list(thread())
    assert last.checkpoint["channel_values"] == {"large": b"x" * 4_000_000, "c": 3}


# --- what the base class says ---


def test_writes_are_ordered_and_written_once(saver: StratalogSaver) -> None:
    """Writes come in the order in which a graph applies them; a second time changes nothing, but for errors,
    interrupts and the like, of which the last one counts."""
    config, _ = Writer(saver).put(thread(), {}, {"c": 1})
    saver.put_writes(config, [("c", 1), ("c", 2)], "b", "path 1")
    saver.put_writes(config, [("c", 3)], "a", "path 2")
    saver.put_writes(config, [("c", 9)], "b", "path 1")
    saver.put_writes(config, [("__error__", "one"), ("c", 8)], "c", "")
    saver.put_writes(config, [("__error__", "two"), ("c", 7)], "c", "")
    found = saver.get_tuple(config)
    assert found is not None
    assert found.pending_writes == [
        ("c", "__error__", "two"),
        ("c", "c", 8),
        ("b", "c", 1),
        ("b", "c", 2),
        ("a", "c", 3),
    ]


def test_a_list_is_filtered_by_values_and_by_nothing_else(saver: StratalogSaver) -> None:
    """Metadata is compared, never made part of a statement; `limit`, `before` and a hostile key hold."""
    writer = Writer(saver)
    config, had = thread(), {}
    for at in range(120):
        config, had = writer.put(config, had, {"c": at}, score=at % 3, **{"a'b": {"deep": at}})
    hostile = {"score') OR 1=1 --": 1}
    assert list(saver.list(thread(), filter=hostile)) == []
    assert [each.metadata["score"] for each in saver.list(thread(), filter={"score": 2}, limit=3)] == [
        2,
        2,
        2,
    ]
    assert len(list(saver.list(thread(), filter={"a'b": {"deep": 7}}))) == 1
    assert len(list(saver.list(thread()))) == 120
    before = list(saver.list(thread(), before=config, limit=60))
    assert [each.checkpoint["channel_values"]["c"] for each in before] == list(range(118, 58, -1))
    assert list(saver.list(thread(), limit=0)) == []
    assert len(list(saver.list(None, filter={"score": 0}))) == 40
    for each in saver.list(thread(), limit=5):  # what is read does not stand in the way of what is written
        saver.put_writes(each.config, [("c", 1)], "task")


def test_what_is_asked_wrongly_is_refused(saver: StratalogSaver) -> None:
    """A strategy that there is not, writes of no checkpoint, a copy onto a thread that is there."""
    Writer(saver).put(thread(), {}, {"c": 1})
    Writer(saver).put(thread("other"), {}, {"c": 1})
    with pytest.raises(InvalidInput):
        saver.prune(["t"], strategy="all")
    with pytest.raises(InvalidInput):
        saver.put_writes(thread(), [("c", 1)], "task")
    with pytest.raises(Conflict):
        saver.copy_thread("t", "other")


def test_versions_go_on_in_their_form(saver: StratalogSaver) -> None:
    """Numbers count up; a thread that another saver began keeps its form, in which later is greater."""
    assert [saver.get_next_version(each, None) for each in (None, 1, 41)] == [1, 2, 42]
    theirs = InMemorySaver().get_next_version(None, None)
    ours = saver.get_next_version(theirs, None)
    assert theirs < ours < InMemorySaver().get_next_version(ours, None)


def test_a_copied_checkpoint_has_its_own_values(saver: StratalogSaver) -> None:
    """Where two branches have a version of the same number, a checkpoint that is put under another parent has
    what it was given, not what the branch beside it has."""
    writer = Writer(saver)
    root, had = writer.put(thread(), {}, {"c": ["root" * 30] * 5})

    def branch(value: str) -> tuple[RunnableConfig, Any]:
        made = empty_checkpoint() | {
            "channel_values": {"c": [*had["checkpoint"]["channel_values"]["c"], value]},
            "channel_versions": {"c": 7},
        }
        return saver.put(root, made, {"source": "loop", "step": 1}, {"c": 7}), made

    (_, one), _ = branch("one" * 40), branch("two" * 40)
    copied = saver.put(root, {**one, "id": str(uuid6())}, {"source": "fork", "step": 2}, {})
    found = saver.get_tuple(copied)
    assert found is not None
    assert found.checkpoint["channel_values"]["c"][-1] == "one" * 40


# --- real graphs ---


class State(TypedDict):
    messages: Annotated[list[AnyMessage], add_messages]


class Delta(TypedDict):
    items: Annotated[list[str], DeltaChannel(lambda had, writes: [*had, *[x for w in writes for x in w]])]
    plain: Annotated[list[str], operator.add]


def chat() -> StateGraph[Any, Any, Any, Any]:
    """A graph that answers, asks a person, and says what the person said."""

    def answer(state: State) -> dict[str, Any]:
        return {"messages": [AIMessage(f"answer to {state['messages'][-1].content}")]}

    def confirm(state: State) -> dict[str, Any]:
        return {"messages": [AIMessage(f"confirmed by {interrupt('sure?')}")]}

    builder = StateGraph(State)
    builder.add_node("answer", answer)
    builder.add_node("confirm", confirm)
    builder.add_edge(START, "answer")
    builder.add_edge("answer", "confirm")
    builder.add_edge("confirm", END)
    return builder


SAID = ["hello", "answer to hello", "confirmed by ana"]


def words(state: Any) -> list[str]:
    return [each.content for each in state["messages"]]


def test_a_person_is_asked_and_a_run_goes_on(memory: Stratalog) -> None:
    """A graph that was interrupted is gone on with by another saver, as of another process; time travel goes
    back to any of its checkpoints, and a branch leaves the other as it was."""
    with StratalogSaver(memory) as saver:
        graph = chat().compile(checkpointer=saver)
        graph.invoke({"messages": [HumanMessage("hello")]}, thread())
        assert graph.get_state(thread()).next == ("confirm",)
    with StratalogSaver(memory) as saver:
        graph = chat().compile(checkpointer=saver)
        done = graph.invoke(Command(resume="ana"), thread())
        assert words(done) == SAID
        history = list(graph.get_state_history(thread()))
        (asked,) = [each for each in history if each.next == ("confirm",)]
        changed = graph.update_state(asked.config, {"messages": [HumanMessage("wait")]}, as_node="answer")
        other = graph.invoke(None, changed)
        assert words(other) == ["hello", "answer to hello", "wait"]
        assert words(graph.invoke(Command(resume="bo"), thread())) == [*SAID[:2], "wait", "confirmed by bo"]
        assert words(graph.get_state(history[0].config).values) == SAID
        again = graph.invoke(None, asked.config)  # replays: it asks again
        assert "__interrupt__" in again


def test_the_same_under_asyncio(tmp_path: Path) -> None:
    """A graph over `AsyncStratalog`, interrupted and gone on with; its history; eight threads at once."""

    async def body() -> None:
        async with AsyncStratalog(tmp_path) as memory, StratalogSaver(memory) as saver:
            graph = chat().compile(checkpointer=saver)
            await graph.ainvoke({"messages": [HumanMessage("hello")]}, thread())
            assert words(await graph.ainvoke(Command(resume="ana"), thread())) == SAID
            history = [each async for each in graph.aget_state_history(thread())]
            assert [each.next for each in history] == [(), ("confirm",), ("answer",), ("__start__",)]
            await asyncio.gather(
                *[graph.ainvoke({"messages": [HumanMessage("hello")]}, thread(f"t{at}")) for at in range(8)]
            )
            for at in range(8):
                assert words((await graph.aget_state(thread(f"t{at}"))).values) == SAID[:2]

    asyncio.run(body())


def test_a_delta_channel_is_rebuilt_and_survives_pruning(saver: StratalogSaver) -> None:
    """A channel that is stored as writes has what it has under `InMemorySaver`, after pruning too."""

    def graph(checkpointer: Any) -> Any:
        builder = StateGraph(Delta)
        builder.add_node("add", lambda state: {"items": [f"answer {len(state['items'])}"], "plain": ["x"]})
        builder.add_edge(START, "add")
        return builder.compile(checkpointer=checkpointer)

    ours, reference = graph(saver), graph(InMemorySaver())
    for at in range(12):
        given_ = {"items": [f"said {at}"], "plain": []}
        assert ours.invoke(given_, thread()) == reference.invoke(given_, thread())
    states = [each.values for each in ours.get_state_history(thread())]
    assert states == [each.values for each in reference.get_state_history(thread())]
    wanted = ours.get_state(thread()).values
    saver.prune(["t"])
    assert ours.get_state(thread()).values == wanted
    saver.copy_thread("t", "copy")
    saver.delete_thread("t")
    assert ours.get_state(thread("copy")).values == wanted


# --- the session that follows ---


def test_a_session_follows_a_thread(memory: Stratalog) -> None:
    """Each message is in the log once, whatever becomes of it in the graph; it is found by searching."""
    said = [
        HumanMessage("what is in the heronry", id="1"),
        AIMessage("", id="2", tool_calls=[{"name": "look", "args": {"at": "trees"}, "id": "c1"}]),
        ToolMessage("nests", id="3", tool_call_id="c1", name="look"),
        AIMessage([{"type": "text", "text": "nests"}], id="4"),
    ]
    with StratalogSaver(memory, messages=("messages",)) as saver:
        writer = Writer(saver)
        config, had = thread(), dict[str, Any]()
        for at in range(1, 5):
            config, had = writer.put(config, had, {"messages": said[:at]}, user_id="ana")
        edited = [HumanMessage("changed", id="1"), RemoveMessage("2"), HumanMessage("no id"), *said[2:]]
        writer.put(config, had, {"messages": edited})
    session = memory.session("agent:langgraph:t")
    entries = [each for each in session.entries() if (each.meta or {}).get("langgraph")]
    assert [(type(each).__name__, (each.meta or {})["langgraph"]) for each in entries] == [
        ("User", "1"),
        ("ToolCall", "2"),
        ("ToolResult", "3"),
        ("Assistant", "4"),
    ]
    assert session.unfinished() == []
    assert session.meta.metadata["users"] == ["ana"]
    first = next(iter(session.entries()))  # so that no crash leaves what is said without its user
    assert isinstance(first, Note)
    assert first.data == {"users": ["ana"]}
    assert {str(found.hit.session) for found in memory.search("heronry")} == {SESSION}


def test_a_message_of_any_kind_is_followed(memory: Stratalog) -> None:
    """One of a class without an entry is a note; what is no JSON is told in the nearest that is, and the
    state has it as it was."""
    said = [
        ChatMessage("aside", role="narrator", id="1"),
        HumanMessage([{"type": "image", "data": b"\x89PNG", "mimeType": "image/png"}], id="2"),
        AIMessage("", id="3", tool_calls=[{"name": "f", "args": {"x": float("inf"), "y": {1}}, "id": "c"}]),
    ]
    serde = JsonPlusSerializer(pickle_fallback=True)
    with StratalogSaver(memory, serde=serde, messages="messages") as saver:  # a name is one, not its letters
        config, _ = Writer(saver).put(thread(), {}, {"messages": said})
        found = saver.get_tuple(config)
        assert found is not None
        assert found.checkpoint["channel_values"]["messages"] == said
    note, user, call = memory.session("agent:langgraph:t").entries()
    assert isinstance(note, Note)
    assert note.text == "aside"
    assert isinstance(user, User)
    assert user.content == (Image(media_type="image/png", data=b"\x89PNG"),)
    assert isinstance(call, ToolCall)
    assert call.args == {"x": "Infinity", "y": "{1}"}


def test_a_message_is_there_once_after_a_crash(memory: Stratalog) -> None:
    """Where it is in the log, and was not noted any more, it is not appended again; nor by a second saver."""
    with StratalogSaver(memory, messages=("messages",)) as saver:
        writer = Writer(saver)
        config, had = writer.put(thread(), {}, {"messages": [HumanMessage("one", id="1")]})
    with (
        closing(checkpoints_of(memory)) as tables,
        tables.mirroring("t", "local/agent:langgraph:t") as mirror,
    ):
        mirror._db.execute("DELETE FROM mirrored")
        mirror._db.execute("UPDATE mirrors SET seq = 0")
    with StratalogSaver(memory, messages=("messages",)) as saver:
        said = [HumanMessage("one", id="1"), HumanMessage("two", id="2")]
        Writer(saver).put(config, had, {"messages": said})
    entries = list(memory.session("agent:langgraph:t").entries())
    assert [(each.meta or {}).get("langgraph") for each in entries] == ["1", "2"]


def test_a_thread_that_no_session_can_be_called_after(memory: Stratalog) -> None:
    """Its session goes by a digest; two such threads have two."""
    with StratalogSaver(memory, messages=("messages",)) as saver:
        for name in ("a/b\0", "a/b\1"):
            Writer(saver).put(thread(name), {}, {"messages": [HumanMessage("hi", id="1")]})
    keys = {each.key for each in memory.sessions().sessions}
    assert len(keys) == 2
    assert all(key.startswith("local/agent:langgraph:thread-") for key in keys)


# --- purging ---


def test_a_purge_takes_what_graphs_have(memory: Stratalog, tmp_path: Path) -> None:
    """A user's purge takes the threads that name the user alone with the session that follows them, and a
    tenant's all; the receipt counts them, and the bytes are gone."""
    with StratalogSaver(memory, messages=("messages",)) as saver, Records(memory) as records:
        for name, user in (("hers", "ana"), ("his", "bo")):
            config = thread(name, user_id=user)
            Writer(saver).put(config, {}, {"messages": [HumanMessage(f"secret of {user}", id="1")]})
        receipt = purge(memory, records, records.caller(user="ana"), Selector("user", "ana"))
        (graphs,) = [each for each in receipt.stores if each.store == "graphs"]
        assert graphs.before == {"threads": 1, "checkpoints": 1, "items": 0}
        assert graphs.after == {"threads": 0, "checkpoints": 0, "items": 0}
        assert saver.get_tuple(thread("hers")) is None
        assert saver.get_tuple(thread("his")) is not None
        assert not memory.session("agent:langgraph:hers").exists
        data = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
        assert b"secret of ana" not in data
        assert b"secret of bo" in data
        purge(memory, records, records.caller(roles=(ADMIN,)), Selector("tenant"))
        assert list(saver.list(None)) == []
        Writer(saver).put(thread(), {}, {"c": 1})  # and it can be used again
        assert saver.get_tuple(thread()) is not None
