"""Opening what is old: the last 50 entries, and the context after a compaction, whatever the log's age."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from itertools import islice
from pathlib import Path

from lab import Lab
from loads import CONTENT, KEY, filled, messages, timed
from spec import Block, Goal, Opener, Row, Size, Spec, System, pick

from stratalog import Stratalog
from stratalog.log.contract import LogStore
from stratalog.log.jsonl import JsonlStore
from stratalog.types import Compaction

LAST = 50
COST = Goal("at most", 2e-3)
EQUAL = Goal("at most", 1.3)


def spec(size: Size) -> Spec:
    count = pick(size, 5, 5, 1)
    lengths = pick(size, (1_000, 100_000, 1_000_000), (1_000, 100_000), (100, 200))
    *_, middle, long = lengths
    systems, rows = [], []
    for what, opener in (("open, last 50", last_50), ("open, context after compaction", context)):
        name = f"{what} ({{:,}})".format
        systems += [System(name(length), opener(count, length)) for length in lengths]
        rows += [Row(f"{what} of {length:,}", name(length), how="cost", goal=COST) for length in lengths]
        rows.append(Row(f"{what}, {long:,} beside {middle:,}", name(long), name(middle), goal=EQUAL))
    systems.append(System("head", head(count, long)))
    rows.append(Row(f"open, head of {long:,} without a turn's start", "head", how="cost"))
    systems.append(System("SQLiteSession", peer(middle), peer=True))
    rows.append(
        Row(f"{LAST} of {middle:,} beside SQLiteSession", f"open, last 50 ({middle:,})", "SQLiteSession")
    )
    return Spec(
        "open",
        "opening a session cold (a new store; the page cache is warm)",
        "disk",
        pick(size, 30, 15, 2),
        tuple(systems),
        tuple(rows),
    )


def last_50(count: int, length: int) -> Opener:
    @contextmanager
    def opened(lab: Lab) -> Iterator[Block]:
        root = filled(lab, lab.disk, messages, length)
        yield lambda: timed(lambda: read_last(JsonlStore(root)), count)

    return opened


def read_last(store: LogStore) -> None:
    """Reads the last entries by a store that was just made, and lets go of it."""
    entries = list(islice(store.read(KEY, reverse=True), LAST))
    assert len(entries) == LAST
    getattr(store, "close", lambda: None)()


def context(count: int, length: int) -> Opener:
    @contextmanager
    def opened(lab: Lab) -> Iterator[Block]:
        root = filled(lab, lab.disk, messages, length)
        with Stratalog(root) as memory:
            chat = memory.session(KEY)
            kept = next(chat.entries(after=length - LAST)).id
            chat.append(Compaction(summary=CONTENT, first_kept=kept))

        def block() -> list[float]:
            used: list[Stratalog] = []
            costs = timed(lambda: used.append(read_context(root)), count)
            for memory in used:
                memory.close()
            return costs

        yield block

    return opened


def read_context(root: Path) -> Stratalog:
    """Opens the memory, gets the session's context, and returns the memory still open."""
    memory = Stratalog(root)
    assert memory.session(KEY).context(budget=100_000).summary is not None
    return memory


def head(count: int, length: int) -> Opener:
    @contextmanager
    def opened(lab: Lab) -> Iterator[Block]:
        root = filled(lab, lab.disk, messages, length)

        def ask() -> None:
            with closing(JsonlStore(root)) as store:
                assert store.head(KEY) is not None

        yield lambda: timed(ask, min(count, 2))

    return opened


def peer(length: int) -> Opener:
    @contextmanager
    def opened(lab: Lab) -> Iterator[Block]:
        assert lab.peers is not None
        path = str(lab.disk / "peer.db")
        with closing(lab.peers.worker()) as worker:
            worker.ask("open", name="bench", path=path, full=False)
            worker.ask("fill", name="bench", content=CONTENT, count=length)
            yield lambda: worker.ask("last", name="bench", path=path, count=LAST)

    return opened
