"""Bytes of files for each memory record. They are the same on any filesystem."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager

from lab import Lab
from loads import size_of
from sayings import saying
from spec import Block, Goal, Opener, Row, Size, Spec, System, pick

from measures.records import LANGGRAPH, MEM0, Peer, asking, draft
from stratalog import Stratalog
from stratalog.engine.remembering import Records

OURS = "ours"
WORDS = "the words alone"
STORE = "SqliteStore"
MEMORY = "mem0"


def spec(size: Size) -> Spec:
    count = pick(size, 1_000, 1_000, 20)
    return Spec(
        "record-size",
        f"bytes for each of {count:,} memory records, remembered one by one, closed",
        "memory",
        1,
        (
            System(OURS, ours(count)),
            System(WORDS, words(count)),
            System(STORE, peer(LANGGRAPH, count), peer=True),
            System(MEMORY, peer(MEM0, count), peer=True),
        ),
        (
            Row("a record, its history, index and audit", OURS, how="cost", unit="B"),
            Row("beside its words alone", OURS, WORDS, unit="B"),
            Row("beside LangGraph SqliteStore with an index", OURS, STORE, unit="B", goal=Goal("under", 1)),
            Row("beside mem0", OURS, MEMORY, unit="B", goal=Goal("under", 1)),
        ),
        "The peers keep a vector of 384 dimensions for each, and no history of records.",
    )


def ours(count: int) -> Opener:
    @contextmanager
    def opened(lab: Lab) -> Iterator[Block]:
        def block() -> list[float]:
            root = lab.memory
            with Stratalog(root) as memory, Records(memory) as records:
                who = asking(records)
                for number in range(count):
                    records.service.remember(who, draft(number))
            return [size_of(root) / count]

        yield block

    return opened


def words(count: int) -> Opener:
    @contextmanager
    def opened(lab: Lab) -> Iterator[Block]:
        yield lambda: [sum(len(saying(number)) for number in range(count)) / count]

    return opened


def peer(kind: Peer, count: int) -> Opener:
    @contextmanager
    def opened(lab: Lab) -> Iterator[Block]:
        assert lab.peers is not None
        with closing(lab.peers.worker("records_worker.py")) as worker:

            def block() -> list[float]:
                worker.ask("open", kind=kind, path=str(lab.memory / "peer"), tenants=0, count=0)
                worker.ask("add", count=count)
                return [worker.ask("close") / count]

            yield block

    return opened
