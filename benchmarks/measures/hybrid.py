"""Search by words and meaning together, beside words alone and meaning alone, and what such a process holds.

The turns and questions are those of `search`; each turn has a vector, and each question one that is known
already, as that of a question that was asked before is.
"""

from __future__ import annotations

import itertools
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import numpy as np
from lab import Lab
from spec import Block, Goal, Opener, Row, Size, Spec, System, pick

from measures.search import WARMED, filled, made
from measures.vectors import SPACE
from measures.vectors import made as vectors_made
from stratalog.config import RecallSettings
from stratalog.engine.meaning import Embedding, TenantVectors
from stratalog.log.contract import Problem
from stratalog.models.contract import Reach
from stratalog.recall.documents import document_id
from stratalog.recall.embed import Space, Vectors
from stratalog.recall.lexical import LexicalIndex
from stratalog.recall.vectors import Kept, VectorStore

HYBRID = "words and meaning"
COLD = "words and meaning, not warmed"
WORDS = "words alone"
MEANING = "meaning alone, what it takes of both"
MEMORY = "resident after searches"
LIMIT = 10
LIKENED = 200  # documents that a search of words asks the likeness of


class Place(NamedTuple):
    """Where both are kept."""

    index: Path
    tenant: Path


class Known(Embedding):
    """An embedder that has embedded all of these questions before."""

    def __init__(self, questions: Sequence[str]) -> None:
        super().__init__(RecallSettings(embedder="known"))
        self._known = dict(zip(questions, vectors_made(len(questions), "as embedded", 2), strict=True))

    @property
    def reach(self) -> Reach:
        return "machine"

    def answering(self, kept: Sequence[Kept]) -> Space | None:
        return next((one.space for one in kept if one.complete), None)

    def asked(self, text: str, space: Space) -> Vectors:
        return self._known[text]


def spec(size: Size) -> Spec:
    length = pick(size, 100_000, 20_000, 400)
    count = pick(size, 20, 10, 3)
    full = size == "full"
    return Spec(
        "hybrid",
        f"search of {length:,} turns by words and meaning, questions of eight words, the ten best",
        "disk",
        pick(size, 20, 8, 2),
        (
            System(HYBRID, search(count, length)),
            System(COLD, search(count, length, warm=False)),
            System(WORDS, search(count, length, meaning=False)),
            System(MEANING, search(count, length, words=False)),
            System(MEMORY, memory(length)),
        ),
        (
            Row("search", HYBRID, how="cost", goal=Goal("at most", 30e-3) if full else None),
            Row("not warmed", COLD, how="cost", goal=Goal("at most", 30e-3) if full else None),
            Row("beside words alone", HYBRID, WORDS),
            Row("beside meaning alone", HYBRID, MEANING),
            Row("memory of a process", MEMORY, how="cost", unit="B", goal=Goal("at most", 300e6)),
        ),
        f"Meaning alone is the 32 nearest of all vectors and the likeness of {LIKENED} named ones. The vector"
        " of the question is known. The files are warm.",
    )


def search(count: int, length: int, *, warm: bool = True, words: bool = True, meaning: bool = True) -> Opener:
    @contextmanager
    def opened(lab: Lab) -> Iterator[Block]:
        place, questions = both(lab, length), made(lab, length).questions
        vectors = TenantVectors(place.tenant, Known(questions), fail)
        if warm:
            vectors.store("turns").warm(SPACE)
        with LexicalIndex(place.index) as index:
            keys = [
                (str(hit.session), document_id(hit.entry_id, hit.start))
                for hit in index.search(questions[0], limit=LIKENED)
            ]

            def find(text: str) -> None:
                question = vectors.question("turns", text) if meaning else None
                if words:
                    assert len(index.search(text, limit=LIMIT, meaning=question)) == LIMIT
                elif question is not None:
                    question.nearest(32)
                    question.likeness(keys)

            yield asking(find, questions, count)
        vectors.close()

    return opened


def asking(find: Callable[[str], None], questions: Sequence[str], count: int) -> Block:
    asked = itertools.cycle(questions)
    for question in itertools.islice(asked, WARMED):
        find(question)

    def block() -> list[float]:
        costs = []
        for question in itertools.islice(asked, count):
            start = time.perf_counter()
            find(question)
            costs.append(time.perf_counter() - start)
        return costs

    return block


def memory(length: int) -> Opener:
    """The most that a process of its own held in memory: warmed, and asked by words and meaning."""

    @contextmanager
    def opened(lab: Lab) -> Iterator[Block]:
        place, questions = both(lab, length), made(lab, length).questions[:50]
        asked = lab.disk / "asked.npy"
        np.save(asked, vectors_made(len(questions), "as embedded", 2))
        program = (
            "import sys\n"
            "from pathlib import Path\n"
            "import numpy as np\n"
            "from stratalog.engine.meaning import Question\n"
            "from stratalog.recall.lexical import LexicalIndex\n"
            "from stratalog.recall.vectors import VectorStore\n"
            "index, vectors, asked, *questions = sys.argv[1:]\n"
            "with LexicalIndex(Path(index)) as index, VectorStore(Path(vectors)) as store:\n"
            "    space = store.spaces()[0].space\n"
            "    store.warm(space)\n"
            "    for text, vector in zip(questions, np.load(asked)):\n"
            "        question = Question(store, space, vector, None, print)\n"
            "        assert index.search(text, meaning=question)\n"
            "status = Path('/proc/self/status').read_text()\n"
            "print(int(status.partition('VmHWM:')[2].split()[0]) * 1024)\n"
        )
        vectors = place.tenant / "vectors" / "turns"

        def block() -> list[float]:
            done = subprocess.run(
                [sys.executable, "-c", program, str(place.index), str(vectors), str(asked), *questions],
                capture_output=True, text=True, check=True,
            )  # fmt: skip
            return [float(done.stdout)]

        yield block

    return opened


def both(lab: Lab, length: int) -> Place:
    """The index of `search`, and a vector for each of its turns."""

    def make() -> Place:
        place = Place(filled(lab, length), lab.disk)
        rows, at = vectors_made(length, "as embedded"), 0
        with VectorStore(place.tenant / "vectors" / "turns") as store:
            for key, entries in made(lab, length).sessions:
                ids = [document_id(entry.id, 0) for entry in entries]
                store.add(SPACE, str(key), ids, rows[at : at + len(ids)])
                at += len(ids)
            store.set_complete(SPACE)
        return place

    return lab.once(f"index and vectors of {length} turns", make)


def fail(problem: Problem) -> None:
    raise AssertionError(problem.reason)
