"""64 sessions at once, each appended to by its own thread: in one process, and in four."""

from __future__ import annotations

import json
import multiprocessing
import os
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Literal, NamedTuple

from lab import Lab
from loads import CONTENT, MESSAGE, timed
from spec import Block, Goal, Opener, Row, Size, Spec, System, pick

from stratalog import session_key
from stratalog.ids import new_ulid
from stratalog.log.jsonl import JsonlStore
from stratalog.types import User

Kind = Literal["ours", "bare"]
SPEED = Goal("at least", 0.7)


def spec(size: Size) -> Spec:
    count = pick(size, 10, 5, 2)
    shapes = pick(size, ((1, 64), (4, 16)), ((1, 64), (4, 16)), ((1, 4), (2, 2)))
    kinds: tuple[Kind, ...] = ("ours", "bare")
    return Spec(
        "sessions",
        "many sessions at once, each durable append by the session's own thread",
        "disk",
        pick(size, 30, 15, 2),
        tuple(System(named(kind, *shape), crowd(kind, *shape, count)) for shape in shapes for kind in kinds),
        tuple(
            Row(
                f"speed of {processes} × {threads} beside bare synced JSONL",
                named("ours", processes, threads),
                named("bare", processes, threads),
                how="share",
                goal=SPEED,
            )
            for processes, threads in shapes
        ),
        "What one append takes when all run together, that is the time of a round by the appends in it.",
    )


def named(kind: Kind, processes: int, threads: int) -> str:
    return f"{kind}, {processes} × {threads}"


class Span(NamedTuple):
    """When the first thread began and the last one ended, in seconds of the machine's clock."""

    start: float
    end: float


class Crew:
    """Threads that each append to a file or session of their own, all beginning together."""

    def __init__(self, kind: Kind, root: Path, threads: int) -> None:
        self._pool = ThreadPoolExecutor(threads)
        self._barrier = threading.Barrier(threads)
        self._store = JsonlStore(root)
        make = self._ours if kind == "ours" else _bare
        self._acts = [make(root, number) for number in range(threads)]

    def work(self, count: int) -> Span:
        """Has each thread append `count` times."""
        spans = list(self._pool.map(lambda act: self._one(act, count), self._acts))
        return Span(min(span.start for span in spans), max(span.end for span in spans))

    def close(self) -> None:
        self._pool.shutdown()
        self._store.close()

    def _one(self, act: Callable[[], object], count: int) -> Span:
        self._barrier.wait()
        start = time.monotonic()
        timed(act, count)
        return Span(start, time.monotonic())

    def _ours(self, root: Path, number: int) -> Callable[[], object]:
        key, turn = session_key("bench", "cli", f"{os.getpid()}-{number}"), new_ulid()
        return lambda: self._store.append(key, [User(content=CONTENT, turn=turn)])


def _bare(root: Path, number: int) -> Callable[[], object]:
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    fd = os.open(root / f"{os.getpid()}-{number}.jsonl", flags, 0o600)

    def append() -> None:
        os.write(fd, json.dumps(MESSAGE, separators=(",", ":")).encode() + b"\n")
        os.fdatasync(fd)

    return append


def crowd(kind: Kind, processes: int, threads: int, count: int) -> Opener:
    """Crews in processes of their own, also when it is one, so that nothing else runs in theirs."""

    @contextmanager
    def opened(lab: Lab) -> Iterator[Block]:
        root = lab.disk
        context = multiprocessing.get_context("spawn")
        pipes = [context.Pipe() for _ in range(processes)]
        workers = [context.Process(target=serve, args=(theirs, kind, root, threads)) for _, theirs in pipes]
        for worker in workers:
            worker.start()

        def block() -> list[float]:
            for mine, _ in pipes:
                mine.send(count)
            spans: list[Span] = [mine.recv() for mine, _ in pipes]
            wall = max(span.end for span in spans) - min(span.start for span in spans)
            return [wall / (processes * threads * count)]

        try:
            yield block
        finally:
            for mine, _ in pipes:
                mine.send(0)
            for worker in workers:
                worker.join()

    return opened


def serve(pipe: Connection, kind: Kind, root: Path, threads: int) -> None:
    """Works whenever a number comes through the pipe, until it is 0."""
    with closing(Crew(kind, root, threads)) as crew:
        while count := pipe.recv():
            pipe.send(crew.work(count))
