"""The three schemes of seed 002: A a JSON array rewritten whole, B SQLite, C JSON lines (ours)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Protocol

from lab import Lab
from loads import CONTENT, KEY, messages, timed
from scheme_a import ArrayStore
from spec import Block, Goal, Opener, Row, Size, Spec, System, pick

from measures.opening import LAST, read_last
from stratalog.ids import new_ulid
from stratalog.log.contract import LogStore
from stratalog.log.jsonl import JsonlStore
from stratalog.log.sqlite import SqliteStore
from stratalog.types import User


class Closable(LogStore, Protocol):
    def close(self) -> None: ...


Make = Callable[[Path], Closable]
C = "C, ours"
SCHEMES: dict[str, Make] = {"A, JSON array": ArrayStore, "B, SQLite": SqliteStore, C: JsonlStore}
CHEAPER = Goal("under", 1)


def spec(size: Size) -> Spec:
    count = pick(size, 5, 5, 1)
    lengths = pick(size, (10, 1_000, 10_000), (10, 1_000), (10, 60))
    long = lengths[-1]
    systems, rows = [], []
    for name, make in SCHEMES.items():
        systems += [System(appends(name, length), append(make, count, length)) for length in lengths]
        systems.append(System(opens(name, long), opening(make, count, long)))
    for other in SCHEMES:
        if other != C:
            rows += [
                Row(f"append at {n:,}, beside {other}", appends(C, n), appends(other, n), goal=CHEAPER)
                for n in lengths
            ]
            rows.append(
                Row(
                    f"last {LAST} of {long:,}, beside {other}",
                    opens(C, long),
                    opens(other, long),
                    goal=CHEAPER,
                )
            )
    return Spec(
        "schemes",
        "the schemes of seed 002, all durable",
        "disk",
        pick(size, 20, 10, 2),
        tuple(systems),
        tuple(rows),
    )


def appends(scheme: str, length: int) -> str:
    return f"{scheme}: append at {length:,}"


def opens(scheme: str, length: int) -> str:
    return f"{scheme}: last {LAST} of {length:,}"


def append(make: Make, count: int, length: int) -> Opener:
    @contextmanager
    def opened(lab: Lab) -> Iterator[Block]:
        turn = new_ulid()
        with closing(make(lab.disk)) as store:
            store.replace(KEY, messages(length))
            yield lambda: timed(lambda: store.append(KEY, [User(content=CONTENT, turn=turn)]), count)

    return opened


def opening(make: Make, count: int, length: int) -> Opener:
    @contextmanager
    def opened(lab: Lab) -> Iterator[Block]:
        root = lab.disk
        with closing(make(root)) as store:
            store.replace(KEY, messages(length))
        yield lambda: timed(lambda: read_last(make(root)), count)

    return opened
