"""Graphs under `StratalogSaver` whose process is killed, and two processes on one thread."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from langgraph.checkpoint.base import CheckpointTuple, empty_checkpoint
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages

from crash.processes import Child, Say
from stratalog import Stratalog
from stratalog.interop.langgraph import StratalogSaver

THREAD: Any = {"configurable": {"thread_id": "t"}}
NODES = ("one", "two", "three")


class State(TypedDict):
    messages: Annotated[list[AnyMessage], add_messages]


def graph(saver: StratalogSaver, say: Say, die_in: str = "") -> Any:
    """Three nodes that each say something; the process dies in the one named."""

    def node(name: str) -> Any:
        def act(_: State) -> dict[str, Any]:
            if name == die_in:
                os.kill(os.getpid(), signal.SIGKILL)
            say(name)
            return {"messages": [AIMessage(name, id=name)]}

        return act

    builder = StateGraph(State)
    for name in NODES:
        builder.add_node(name, node(name))
    for before, after in zip((START, *NODES), (*NODES, END), strict=True):
        builder.add_edge(before, after)
    return builder.compile(checkpointer=saver)


@pytest.mark.parametrize("die_in", NODES)
def test_a_killed_run_goes_on_where_it_was(tmp_path: Path, die_in: str) -> None:
    """A process is killed in a node: the next one runs that node and those after it, and no other; each
    message is in the state once, and in the session that follows the thread."""

    def run(say: Say, die_in: str) -> None:
        with Stratalog(tmp_path) as memory, StratalogSaver(memory, messages=("messages",)) as saver:
            given = None if saver.get_tuple(THREAD) else {"messages": [HumanMessage("hello", id="0")]}
            graph(saver, say, die_in).invoke(given, THREAD, durability="sync")

    first = Child(lambda say: run(say, die_in))
    assert first.hear_all() == list(NODES[: NODES.index(die_in)])
    assert first.wait() == -signal.SIGKILL
    second = Child(lambda say: run(say, ""))
    assert second.hear_all() == list(NODES[NODES.index(die_in) :])
    assert second.wait() == 0
    with Stratalog(tmp_path) as memory, StratalogSaver(memory) as saver:
        state = graph(saver, print).get_state(THREAD)
        assert [each.content for each in state.values["messages"]] == ["hello", *NODES]
        entries = list(memory.session("agent:langgraph:t").entries())
        assert [(each.meta or {})["langgraph"] for each in entries] == ["0", *NODES]


def test_a_put_that_returned_is_there(tmp_path: Path) -> None:
    """Killed between puts, what was told is there, whole and in order, and nothing is damaged."""

    def work(say: Say) -> None:
        with Stratalog(tmp_path) as memory, StratalogSaver(memory) as saver:
            for at in range(10_000):
                put(saver, saver.get_tuple(THREAD), [f"{each}" * 40 for each in range(at + 1)])
                say(str(at))

    child = Child(work)
    for _ in range(60):
        told = child.hear()
    child.signal(signal.SIGKILL)
    last = [told, *child.hear_all()][-1]
    child.wait()
    with Stratalog(tmp_path) as memory, StratalogSaver(memory) as saver:
        found = list(saver.list(THREAD))
        assert len(found) >= int(last or 0) + 1
        for at, each in enumerate(reversed(found)):
            assert each.checkpoint["channel_values"]["c"] == [f"{one}" * 40 for one in range(at + 1)]


def test_two_processes_on_one_thread_lose_nothing(tmp_path: Path) -> None:
    """Each builds on what was last when it looked. Every checkpoint that was acknowledged is there, under the
    parent that its maker had read, with that one's values and its own."""

    def work(say: Say, name: str) -> None:
        with Stratalog(tmp_path) as memory, StratalogSaver(memory) as saver:
            for at in range(40):
                found = saver.get_tuple(THREAD)
                had = found.checkpoint["channel_values"]["c"] if found else []
                put(saver, found, [*had, f"{name} {at} {'x' * 100}"])
                say(f"{name} {at}")

    children = [Child(lambda say, name=name: work(say, name)) for name in "ab"]
    told = {line for child in children for line in child.hear_all()}
    assert [child.wait() for child in children] == [0, 0]
    assert len(told) == 80
    with Stratalog(tmp_path) as memory, StratalogSaver(memory) as saver:
        found = {each.config["configurable"]["checkpoint_id"]: each for each in saver.list(THREAD)}
        lasts = {each.checkpoint["channel_values"]["c"][-1] for each in found.values()}
        assert lasts == {f"{line} {'x' * 100}" for line in told}
        for each in found.values():
            value = each.checkpoint["channel_values"]["c"]
            parent = (
                found[each.parent_config["configurable"]["checkpoint_id"]] if each.parent_config else None
            )
            assert value[:-1] == (parent.checkpoint["channel_values"]["c"] if parent else [])


def put(saver: StratalogSaver, found: CheckpointTuple | None, value: list[str]) -> None:
    """Puts a checkpoint on the one that was found."""
    version = saver.get_next_version(found.checkpoint["channel_versions"]["c"] if found else None, None)
    made = empty_checkpoint() | {"channel_values": {"c": value}, "channel_versions": {"c": version}}
    config = found.config if found else {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}
    saver.put(config, made, {"source": "loop", "step": 1}, {"c": version})
