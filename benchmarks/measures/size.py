"""Bytes of files for each message, in every form. They are the same on any filesystem."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager

from lab import Lab
from loads import BYTES, CONTENT, KEY, messages, size_of
from spec import Block, Goal, Opener, Row, Size, Spec, System, pick

from measures.schemes import SCHEMES, C, Make
from stratalog import Stratalog

STRATA = "ours with the strata"
PEER = "SQLiteSession"


def spec(size: Size) -> Spec:
    count = pick(size, 1_000, 1_000, 50)
    systems = [System(name, store(make, count)) for name, make in SCHEMES.items()]
    return Spec(
        "size",
        f"bytes for each of {count:,} messages of {BYTES} bytes, closed",
        "memory",
        1,
        (*systems, System(STRATA, engine(count)), System(PEER, peer(count), peer=True)),
        (
            Row("the log", C, how="cost", unit="B", goal=Goal("at most", 520)),
            Row("the log, the list and the search index", STRATA, how="cost", unit="B"),
            *(Row(f"the log, beside {name}", C, name, unit="B") for name in SCHEMES if name != C),
            Row("the log, beside SQLiteSession", C, PEER, unit="B"),
        ),
    )


def store(make: Make, count: int) -> Opener:
    @contextmanager
    def opened(lab: Lab) -> Iterator[Block]:
        def block() -> list[float]:
            root = lab.memory
            with closing(make(root)) as store:
                for entry in messages(count):
                    store.append(KEY, [entry])
            return [size_of(root) / count]

        yield block

    return opened


def engine(count: int) -> Opener:
    @contextmanager
    def opened(lab: Lab) -> Iterator[Block]:
        def block() -> list[float]:
            root = lab.memory
            with Stratalog(root) as memory:
                for entry in messages(count):
                    memory.session(KEY).append(entry)
                assert memory.search("harbour ferry")
                assert memory.sessions().sessions
            return [size_of(root) / count]

        yield block

    return opened


def peer(count: int) -> Opener:
    @contextmanager
    def opened(lab: Lab) -> Iterator[Block]:
        assert lab.peers is not None
        with closing(lab.peers.worker()) as worker:

            def block() -> list[float]:
                path = str(lab.memory / "peer.db")
                worker.ask("open", name="bench", path=path, full=False)
                worker.ask("append", name="bench", content=CONTENT, count=count)
                return [worker.ask("close", name="bench", path=path) / count]

            yield block

    return opened
