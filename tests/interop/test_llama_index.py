"""LlamaIndex's chats on Stratalog: its own store as the measure, and its memories and chat engine."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from llama_index.core.base.llms.types import (
    ChatMessage,
    ImageBlock,
    MessageRole,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
)
from llama_index.core.chat_engine import SimpleChatEngine
from llama_index.core.llms import MockLLM
from llama_index.core.memory import ChatMemoryBuffer
from llama_index.core.storage.chat_store import SimpleChatStore
from llama_index.core.storage.chat_store.base import BaseChatStore

from stratalog import Stratalog
from stratalog.errors import InvalidInput, InvalidKey
from stratalog.interop.llama_index import StratalogChatStore
from stratalog.types import Assistant, ToolCall, ToolResult, User


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Stratalog]:
    with Stratalog(tmp_path / "data") as opened:
        yield opened


def said(text: str, role: str = "user", **more: Any) -> ChatMessage:
    return ChatMessage(content=text, role=role, additional_kwargs=more)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=4,
)
BLOCKS = st.one_of(
    st.text(max_size=40).map(lambda text: TextBlock(text=text)),
    st.text(max_size=40).map(lambda text: ThinkingBlock(content=text, additional_information={"a": 1})),
    st.builds(
        ToolCallBlock,
        tool_call_id=st.none() | st.text(max_size=5),
        tool_name=st.text(max_size=5),
        tool_kwargs=st.text(max_size=20) | st.dictionaries(st.text(max_size=5), JSON, max_size=3),
    ),
    st.binary(min_size=1, max_size=20).map(lambda data: ImageBlock(image=data, image_mimetype="image/png")),
)
MESSAGES = st.builds(
    ChatMessage,
    role=st.sampled_from(list(MessageRole)),
    blocks=st.lists(BLOCKS, max_size=4),
    additional_kwargs=st.dictionaries(
        st.text(max_size=5).filter(lambda name: name != "images"), JSON, max_size=2
    ),
)
STEPS = st.one_of(
    st.tuples(st.just("add"), st.sampled_from("ab"), MESSAGES),
    st.tuples(st.just("add"), st.sampled_from("ab"), MESSAGES),
    st.tuples(st.just("set"), st.sampled_from("ab"), st.lists(MESSAGES, max_size=2)),
    st.tuples(st.just("set one"), st.sampled_from("ab"), MESSAGES),
    st.tuples(st.just("delete"), st.sampled_from("ab"), st.integers(0, 3)),
    st.tuples(st.just("pop"), st.sampled_from("ab"), st.none()),
    st.tuples(st.just("clear"), st.sampled_from("ab"), st.none()),
)


def perform(store: BaseChatStore, steps: list[Any]) -> list[Any]:
    """What each step gives, and what there is after it."""
    told: list[Any] = []
    for what, key, value in steps:
        before = list(store.get_messages(key))
        match what:
            case "add":
                store.add_message(key, value)
            case "set":
                store.set_messages(key, list(value))
            case "set one":
                store.set_messages(key, [*before[:2], value])
            case "delete":
                told.append(store.delete_message(key, value))
            case "pop":
                told.append(store.delete_last_message(key) if before else None)
            case _:
                told.append(store.delete_messages(key))
        told.append([list(store.get_messages(each)) for each in "ab"])
        told.append(sorted(store.get_keys()))
    return told


@settings(max_examples=15, deadline=None)
@given(st.lists(STEPS, max_size=8))
def test_the_same_steps_come_to_the_same(steps: list[Any]) -> None:
    """Any steps on this store and on LlamaIndex's own give the same messages, exactly, and the same keys."""
    with tempfile.TemporaryDirectory() as directory, Stratalog(Path(directory)) as memory:
        ours = perform(StratalogChatStore(memory), steps)
        with Stratalog(Path(directory)) as other:
            again = StratalogChatStore(other)
            last = [again.get_messages(key) for key in "ab"]
    measure = perform(SimpleChatStore(), steps)
    assert ours == measure
    assert not steps or last == measure[-2]


def test_messages_are_entries(memory: Stratalog) -> None:
    """Messages are in the log as what they are, a long text once; what is taken away a model sees no more."""
    store = StratalogChatStore(memory)
    long = "The ferry leaves at noon. " * 40
    call = ToolCallBlock(tool_call_id="c1", tool_name="ferry", tool_kwargs={"to": "Bergen"})
    store.add_message("ana", said("When does it leave?"))
    store.add_message("ana", ChatMessage(role="assistant", blocks=[TextBlock(text="I look."), call]))
    store.add_message("ana", said(long, "tool", tool_call_id="c1", name="ferry"))
    log = memory.session("llama_index:llama-index:ana")
    kinds = [(type(each), getattr(each, "text", "")) for each in log.entries() if not hasattr(each, "kind")]
    assert kinds == [
        (User, "When does it leave?"),
        (Assistant, "I look."),
        (ToolCall, ""),
        (ToolResult, long),
    ]
    assert b"".join(path.read_bytes() for path in memory.data.rglob("*.jsonl")).count(long.encode()) == 1
    assert memory.search("ferry noon")[0].hit.session == log.key
    assert store.delete_last_message("ana") == said(long, "tool", tool_call_id="c1", name="ferry")
    assert store.delete_message("ana", 1) is not None
    (turn,) = log.view().turns
    assert [entry.text for entry in turn.entries if isinstance(entry, User)] == ["When does it leave?"]
    assert len(turn.entries) == 1


def test_setting_what_is_there_writes_only_what_is_new(memory: Stratalog) -> None:
    """Setting a history that begins as the present one appends the rest and withdraws nothing."""
    store = StratalogChatStore(memory)
    store.set_messages("ana", [said("one"), said("two", "assistant")])
    log = memory.session("llama_index:llama-index:ana")
    end = log.end
    store.set_messages("ana", [said("one"), said("two", "assistant")])
    assert log.end == end
    store.set_messages("ana", [said("one"), said("two", "assistant"), said("three")])
    assert [type(entry) for entry in log.entries(after=end)] == [User]


def test_keys_of_any_kind(memory: Stratalog) -> None:
    """A key of any characters is kept and nobody else's; an empty one, and what has no JSON, are refused."""
    store, other = StratalogChatStore(memory), StratalogChatStore(memory, agent="other")
    keys = ["a", "A", " a", "a/b", "..", "a:b", "a\0", "é", "e\u0301", "x" * 3000]
    for key in keys:
        store.add_message(key, said("of " + key))
    other.add_message("a", said("elsewhere"))
    assert sorted(store.get_keys()) == sorted(keys)
    assert [store.get_messages(key) for key in keys] == [[said("of " + key)] for key in keys]
    assert other.get_keys() == ["a"]
    with pytest.raises(InvalidKey):
        store.get_messages("")
    with pytest.raises(InvalidInput):
        store.add_message("new", said("x", thing=object()))
    assert "new" not in store.get_keys()
    assert store.delete_message("none", 0) is store.delete_last_message("none") is None
    assert store.delete_messages("none") is None


def test_a_chat_engine_goes_on_in_another_process(memory: Stratalog) -> None:
    """A chat engine with a memory on this store remembers under another store; reset forgets."""
    buffer = ChatMemoryBuffer.from_defaults(chat_store=StratalogChatStore(memory), chat_store_key="ana")
    engine = SimpleChatEngine.from_defaults(llm=MockLLM(), memory=buffer, system_prompt="Be brief.")
    engine.chat("My name is Ana.")
    asyncio.run(engine.achat("Hello again."))
    with Stratalog(memory.data) as opened:
        store = StratalogChatStore(opened)
        again = ChatMemoryBuffer.from_defaults(chat_store=store, chat_store_key="ana")
        assert [each.content for each in again.get_all() if each.role == MessageRole.USER] == [
            "My name is Ana.",
            "Hello again.",
        ]
        assert again.get_all() == buffer.get_all()
        other = SimpleChatEngine.from_defaults(llm=MockLLM(), memory=again)
        assert "My name is Ana." in str(other.chat("Who am I?"))
        other.reset()
        assert store.get_keys() == []
    assert buffer.get_all() == []


def test_the_asynchronous_methods(memory: Stratalog) -> None:
    """Each method has its twin for asyncio, and tasks that append at once lose nothing."""

    async def body() -> None:
        store = StratalogChatStore(memory)
        await store.aset_messages("k", [said("first")])
        await asyncio.gather(*(store.async_add_message("k", said(str(n))) for n in range(10)))
        assert {each.content for each in await store.aget_messages("k")} == {"first", *map(str, range(10))}
        assert await store.adelete_message("k", 0) == said("first")
        assert await store.adelete_last_message("k") is not None
        assert await store.aget_keys() == ["k"]
        assert len(await store.adelete_messages("k") or []) == 9

    asyncio.run(body())


def test_deep_arguments(memory: Stratalog) -> None:
    """Arguments that are nested deeper than a log's may be come back exactly."""
    value: Any = "x"
    for _ in range(150):
        value = [value]
    call = ToolCallBlock(tool_call_id="c", tool_name="look", tool_kwargs={"at": value})
    message = ChatMessage(role="assistant", blocks=[call], additional_kwargs={"raw": value})
    store = StratalogChatStore(memory)
    store.add_message("ana", message)
    assert store.get_messages("ana") == [message]
