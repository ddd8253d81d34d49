"""One durable append: ours, the bare system calls, and the peer's."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing, contextmanager

from lab import Lab
from loads import CONTENT, KEY, LINE, timed, whole_turn
from spec import Block, Goal, Opener, Row, Size, Spec, System, pick

from stratalog import Stratalog
from stratalog.ids import new_ulid
from stratalog.keys import session_paths
from stratalog.log.jsonl import JsonlStore
from stratalog.types import User

OURS = "ours"
BARE = "bare, 401 bytes"
BARE_LINE = "bare, our line's bytes"
TURN = "a whole turn"
BARE_TURN = "bare, three times 401 bytes"
PEER = "SQLiteSession"
PEER_FULL = "SQLiteSession, synchronous=FULL"


def spec(size: Size) -> Spec:
    count = pick(size, 20, 20, 3)
    return Spec(
        "append",
        "one durable append of a 400-byte message",
        "disk",
        pick(size, 60, 20, 2),
        (
            System(OURS, ours(count)),
            System(BARE, bare(count, len(LINE))),
            System(BARE_LINE, bare(count, None)),
            System(TURN, turn(count // 3)),
            System(BARE_TURN, bare(count // 3, len(LINE), times=3)),
            System(PEER, peer(count, full=False), peer=True),
            System(PEER_FULL, peer(count, full=True), peer=True),
        ),
        (
            Row("beside write + fdatasync of 401 bytes", OURS, BARE, goal=Goal("at most", 1.3)),
            Row("beside write + fdatasync of as many bytes", OURS, BARE_LINE),
            Row("a turn (message, reply, end) beside three bare appends", TURN, BARE_TURN),
            Row("beside openai-agents SQLiteSession", OURS, PEER, goal=Goal("under", 1)),
            Row("the same with synchronous=FULL", OURS, PEER_FULL, goal=Goal("under", 1)),
        ),
        "SQLiteSession sets no level of synchronous; where SQLite was built as usual that is FULL.",
    )


def ours(count: int) -> Opener:
    @contextmanager
    def opened(lab: Lab) -> Iterator[Block]:
        turn = new_ulid()
        with closing(JsonlStore(lab.disk)) as store:
            yield lambda: timed(lambda: store.append(KEY, [User(content=CONTENT, turn=turn)]), count)

    return opened


def turn(count: int) -> Opener:
    @contextmanager
    def opened(lab: Lab) -> Iterator[Block]:
        with Stratalog(lab.disk) as memory:
            chat = memory.session(KEY)
            yield lambda: timed(lambda: whole_turn(chat), count)

    return opened


def bare(count: int, length: int | None, times: int = 1) -> Opener:
    @contextmanager
    def opened(lab: Lab) -> Iterator[Block]:
        data = b"x" * (length if length is not None else lab.once("our line's bytes", lambda: our_line(lab)))
        fd = os.open(lab.disk / "bare.jsonl", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

        def append() -> None:
            for _ in range(times):
                os.write(fd, data)
                os.fdatasync(fd)

        try:
            yield lambda: timed(append, count)
        finally:
            os.close(fd)

    return opened


def peer(count: int, *, full: bool) -> Opener:
    @contextmanager
    def opened(lab: Lab) -> Iterator[Block]:
        assert lab.peers is not None
        with closing(lab.peers.worker()) as worker:
            worker.ask("open", name="bench", path=str(lab.disk / "peer.db"), full=full)
            yield lambda: worker.ask("append", name="bench", content=CONTENT, count=count)

    return opened


def our_line(lab: Lab) -> int:
    """How many bytes our log takes for one more message."""
    root = lab.memory
    path = session_paths(root, KEY).log
    with closing(JsonlStore(root)) as store:
        store.append(KEY, [User(content=CONTENT, turn=new_ulid())] * 100)
        before = path.stat().st_size
        store.append(KEY, [User(content=CONTENT, turn=new_ulid())])
    return path.stat().st_size - before
