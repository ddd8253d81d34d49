"""What an append costs besides the flush, in logs of every length: the store's, a session's, a whole turn."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager

from lab import Lab
from loads import CONTENT, KEY, filled, timed, turns, whole_turn
from spec import Block, Goal, Opener, Row, Size, Spec, System, pick

from stratalog import Stratalog
from stratalog.engine.session import Session
from stratalog.ids import new_ulid
from stratalog.log.jsonl import JsonlStore
from stratalog.types import User

STORE = "store.append"
SESSION = "session.append"
TURN = "turn, reply, end"
COST = Goal("at most", 25e-6)
FLAT = Goal("at most", 1.2)


def spec(size: Size) -> Spec:
    count = pick(size, 200, 100, 5)
    lengths = pick(size, (10, 1_000, 100_000, 1_000_000), (10, 1_000, 100_000), (10, 100))
    short, *_, long = lengths
    appends = {SESSION: session_append, TURN: whole_turn}
    systems = [System(named(STORE, length), store(count, length)) for length in lengths]
    rows = [Row(f"{STORE} at {length:,}", named(STORE, length), how="cost", goal=COST) for length in lengths]
    rows.append(Row(f"{STORE}, {long:,} beside {short}", named(STORE, long), named(STORE, short), goal=FLAT))
    for name, act in appends.items():
        systems += [
            System(named(name, length), session(act, count // 4 or 1, length)) for length in (short, long)
        ]
        rows += [Row(f"{name} at {length:,}", named(name, length), how="cost") for length in (short, long)]
        rows.append(Row(f"{name}, {long:,} beside {short}", named(name, long), named(name, short), goal=FLAT))
    return Spec(
        "software",
        "software cost of an append, flushes being free",
        "memory",
        pick(size, 40, 20, 2),
        tuple(systems),
        tuple(rows),
        "Logs grow by what is measured, so 10 is where the short one begins. Sessions are in memory before.",
    )


def named(what: str, length: int) -> str:
    return f"{what} ({length:,})"


def store(count: int, length: int) -> Opener:
    @contextmanager
    def opened(lab: Lab) -> Iterator[Block]:
        turn = new_ulid()
        with closing(JsonlStore(filled(lab, lab.memory, turns, length))) as store:
            yield lambda: timed(lambda: store.append(KEY, [User(content=CONTENT, turn=turn)]), count)

    return opened


def session(act: Callable[[Session], object], count: int, length: int) -> Opener:
    @contextmanager
    def opened(lab: Lab) -> Iterator[Block]:
        with Stratalog(filled(lab, lab.memory, turns, length)) as memory:
            chat = memory.session(KEY)
            assert chat.meta.seq == length
            yield lambda: timed(lambda: act(chat), count)

    return opened


def session_append(chat: Session) -> None:
    chat.append(User(content=CONTENT))
