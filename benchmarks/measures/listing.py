"""Listing every session of a tenant, newest first."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import msgspec
from lab import Lab
from loads import CONTENT, timed
from spec import Block, Goal, Opener, Row, Size, Spec, System, pick

from stratalog import Settings, Stratalog
from stratalog.keys import SessionKey, session_key, sessions_dir
from stratalog.sessions.meta import SessionMeta
from stratalog.types import User

WARM = "ours"
AFTER = "ours, after one append"
PAGE = "ours, a page of 50"
FILES = "reading each meta.json"
PEER = "raw SQL on SQLiteSession's table"
COST = Goal("at most", 10e-3)


def spec(size: Size) -> Spec:
    count = pick(size, 10_000, 1_000, 20)
    return Spec(
        "list",
        f"listing {count:,} sessions",
        "disk",
        pick(size, 40, 20, 2),
        (
            System(WARM, ours(count, changed=False)),
            System(AFTER, ours(count, changed=True)),
            System(PAGE, ours(count, changed=False, page=min(50, count))),
            System(FILES, files(count)),
            System(PEER, peer(count), peer=True),
        ),
        (
            Row("all, the list being warm", WARM, how="cost", goal=COST),
            Row("all, the first time after one append", AFTER, how="cost", goal=COST),
            Row("a page of 50", PAGE, how="cost"),
            Row("all, beside reading every meta.json", WARM, FILES, goal=Goal("under", 1)),
            Row("all, beside raw SQL on SQLiteSession's table", WARM, PEER),
        ),
        "SQLiteSession has no call that lists; its raw rows are three columns, without title or pin.",
    )


def key(number: int) -> SessionKey:
    return session_key("bench", "cli", f"chat-{number}")


def sessions(lab: Lab, count: int) -> Path:
    """A data directory with so many sessions of one answered turn each, copied from one made in memory."""

    def make() -> Path:
        root = lab.memory
        with Stratalog(root, settings=Settings(sync="never")) as memory:
            for number in range(count):
                with memory.session(key(number)).turn(f"Question {number} on the harbour ferry") as turn:
                    turn.reply(CONTENT)
            assert len(memory.sessions().sessions) == count
        return root

    root = lab.disk / "data"
    shutil.copytree(lab.once(f"{count} sessions", make), root)
    return root


def ours(count: int, *, changed: bool, page: int | None = None) -> Opener:
    @contextmanager
    def opened(lab: Lab) -> Iterator[Block]:
        with Stratalog(sessions(lab, count)) as memory:
            chat = memory.session(key(count // 2))

            def block() -> list[float]:
                if changed:
                    chat.append(User(content=CONTENT))
                return timed(lambda: _expect(len(memory.sessions(limit=page).sessions), page or count), 1)

            yield block

    return opened


def _expect(found: int, wanted: int) -> None:
    assert found == wanted, (found, wanted)


def files(count: int) -> Opener:
    @contextmanager
    def opened(lab: Lab) -> Iterator[Block]:
        directory = sessions_dir(sessions(lab, count), "local", "bench")
        decode = msgspec.json.Decoder(SessionMeta).decode

        def scan() -> None:
            metas = [decode(path.read_bytes()) for path in directory.glob("*.meta.json")]
            metas.sort(key=lambda meta: (meta.pinned, meta.updated_at), reverse=True)
            _expect(len(metas), count)

        yield lambda: timed(scan, 1)

    return opened


def peer(count: int) -> Opener:
    @contextmanager
    def opened(lab: Lab) -> Iterator[Block]:
        assert lab.peers is not None
        path = str(lab.disk / "peer.db")
        with closing(lab.peers.worker()) as worker:
            worker.ask("many", path=path, count=count, content=CONTENT)
            yield lambda: worker.ask("listing", path=path, count=count)

    return opened
