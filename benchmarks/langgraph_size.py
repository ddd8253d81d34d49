"""What a message costs under LangGraph's checkpointers: bytes on disk and CPU time a put.

    python benchmarks/langgraph_size.py [MESSAGES]

A conversation of messages of 400 bytes, a checkpoint each; then the same through a real graph, two messages a
turn. Beside `StratalogSaver` stand `InMemorySaver`, whose bytes are those of its values in memory, and
`SqliteSaver` where it is installed. The time is the process's own (`time.process_time`).
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph

from stratalog import Stratalog
from stratalog.interop.langgraph import StratalogSaver

TEXT = "x" * 390


class Cost(NamedTuple):
    bytes: float  # a message
    put: float  # microseconds of CPU
    read: float  # milliseconds of CPU, for the last checkpoint


@contextmanager
def ours(directory: Path) -> Iterator[Any]:
    with Stratalog(directory) as memory, StratalogSaver(memory) as saver:
        yield saver


@contextmanager
def in_memory(directory: Path) -> Iterator[Any]:
    saver = InMemorySaver()
    yield saver
    blobs = [data for _, data in saver.blobs.values()]
    states = [data for each in saver.storage["t"][""].values() for _, data in each[:2]]
    writes = [data for each in saver.writes.values() for _, _, (_, data), _ in each.values()]
    (directory / "size").write_bytes(bytes(sum(map(len, [*blobs, *states, *writes]))))


@contextmanager
def official(directory: Path) -> Iterator[Any]:
    saver = importlib.import_module("langgraph.checkpoint.sqlite").SqliteSaver
    with saver.from_conn_string(str(directory / "checkpoints.sqlite")) as opened:
        yield opened


def conversation(saver: Any, count: int) -> float:
    """A checkpoint a message; the seconds that the puts took."""
    config: Any = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}
    said: list[Any] = []
    version, took = None, 0.0
    for at in range(count):
        said = [*said, HumanMessage(f"{at:010}{TEXT}", id=str(at))]
        version = saver.get_next_version(version, None)
        made = empty_checkpoint() | {
            "channel_values": {"messages": said},
            "channel_versions": {"messages": version},
        }
        began = time.process_time()
        metadata = {"source": "loop", "step": at, "parents": {}}
        config = saver.put(config, made, metadata, {"messages": version})
        took += time.process_time() - began
    return took


def graph(saver: Any, count: int) -> float:
    """Turns of a graph that answers, two messages each; the seconds that they took."""
    builder = StateGraph(MessagesState)
    builder.add_node("model", lambda state: {"messages": [AIMessage(f"{len(state['messages']):010}{TEXT}")]})
    builder.add_edge(START, "model")
    builder.add_edge("model", END)
    compiled = builder.compile(checkpointer=saver)
    began = time.process_time()
    for at in range(count // 2):
        asked: Any = {"messages": [HumanMessage(f"{at:010}{TEXT}")]}
        compiled.invoke(asked, {"configurable": {"thread_id": "t"}})
    return time.process_time() - began


def cost(opened: Callable[[Path], Any], load: Callable[[Any, int], float], count: int) -> Cost:
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        with opened(directory) as saver:
            took = load(saver, count)
            began = time.process_time()
            found = saver.get_tuple({"configurable": {"thread_id": "t"}})
            read = time.process_time() - began
            assert len(found.checkpoint["channel_values"]["messages"]) == count
        size = sum(path.stat().st_size for path in directory.rglob("*") if path.is_file())
    return Cost(size / count, took / count * 1e6, read * 1e3)


def main(count: int) -> None:
    savers: dict[str, Callable[[Path], Any]] = {"StratalogSaver": ours, "InMemorySaver": in_memory}
    if importlib.util.find_spec("langgraph.checkpoint.sqlite") is not None:
        savers["SqliteSaver"] = official
    for what, load, some in (("saver alone", conversation, count), ("through a graph", graph, count)):
        own = None
        for name, opened in savers.items():
            found = cost(opened, load, some)
            own = own or found
            ratio = found.bytes / own.bytes, found.put / own.put
            print(
                f"{what:16}{name:16}{found.bytes:10.0f} B a message ({ratio[0]:.1f})"
                f"{found.put:10.0f} µs a message ({ratio[1]:.2f}){found.read:8.1f} ms to read"
            )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1_000)
