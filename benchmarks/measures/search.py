"""Full-text search of turns beside a plain FTS5 index of the same, and what the index costs.

The turns are made: words by Zipf's law, in sessions that keep to a few words of their own. A question is
eight words, five of them from one turn.
"""

from __future__ import annotations

import itertools
import random
import re
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import NamedTuple

from lab import Lab
from spec import Block, Goal, Opener, Row, Size, Spec, System, pick

from stratalog import session_key
from stratalog.keys import SessionKey
from stratalog.recall.lexical import LexicalIndex
from stratalog.types import AnyEntry, Assistant, User

WARMED = 30  # questions before any is timed
MINUTE, DAY = 60_000, 86_400_000
STOP = ["the", "a", "of", "to", "and", "is", "it", "that", "i", "you", "was", "we", "in", "for", "on"]
SYLLABLES = [
    "ba",
    "ko",
    "ri",
    "ten",
    "mu",
    "sal",
    "dor",
    "vi",
    "pe",
    "lan",
    "gu",
    "tre",
    "os",
    "fi",
    "na",
    "zel",
]
_WORD = re.compile(r"\w+")


class Talks(NamedTuple):
    sessions: list[tuple[SessionKey, list[AnyEntry]]]
    questions: list[str]


def spec(size: Size) -> Spec:
    many, few = pick(size, (100_000, 10_000), (20_000, 5_000), (400, 200))
    count = pick(size, 40, 20, 3)
    ours, plain = "search ({:,})".format, "FTS5, any of the words ({:,})".format
    slowest = "slowest of a hundred ({:,})".format
    full = size == "full"
    return Spec(
        "search",
        f"search of {many:,} and {few:,} turns, questions of eight words, the ten best",
        "disk",
        pick(size, 20, 8, 2),
        (
            System(ours(many), search(count, many)),
            System(ours(few), search(count, few)),
            System(plain(many), naive(count, many)),
            System(plain(few), naive(count, few)),
            System(slowest(many), search(100 if full else 10, many, worst=True)),
            System("index one turn", indexing(pick(size, 4_000, 2_000, 100))),
            System("resident after searches", memory(many)),
        ),
        (
            Row(f"search, {many:,} turns", ours(many), how="cost", goal=at_most(10e-3, full)),
            Row(f"the 99th of a hundred, {many:,}", slowest(many), how="cost", goal=at_most(40e-3, full)),
            Row(f"beside any of the words in FTS5, {many:,}", ours(many), plain(many)),
            Row(f"search, {few:,} turns", ours(few), how="cost", goal=at_most(3e-3, full)),
            Row(f"beside any of the words in FTS5, {few:,}", ours(few), plain(few)),
            Row("index one turn", "index one turn", how="cost", goal=at_most(200e-6, full)),
            Row(
                f"memory of a process, {many:,} turns", "resident after searches",
                how="cost", unit="B", goal=Goal("at most", 300e6),
            ),
        ),
        "FTS5 beside it has the turns under its own tokenizer with stems, and ranks by BM25 what has any of"
        " the words: it finds less of what answers a question. The file is warm.",
    )  # fmt: skip


def at_most(bound: float, full: bool) -> Goal | None:
    return Goal("at most", bound) if full else None


def search(count: int, length: int, *, worst: bool = False) -> Opener:
    """So many questions in a block; with `worst` the block is the 99th of a hundred of them alone."""

    @contextmanager
    def opened(lab: Lab) -> Iterator[Block]:
        path, talks = filled(lab, length), made(lab, length)
        with LexicalIndex(path) as index:
            yield asking(lambda question: len(index.search(question)), talks.questions, count, worst)

    return opened


def naive(count: int, length: int) -> Opener:
    @contextmanager
    def opened(lab: Lab) -> Iterator[Block]:
        talks = made(lab, length)
        with closing(sqlite3.connect(lab.disk / "plain.sqlite3")) as db:
            db.execute("CREATE VIRTUAL TABLE turns USING fts5 (text, tokenize='porter unicode61')")
            entries = itertools.chain.from_iterable(entries for _, entries in talks.sessions)
            db.executemany("INSERT INTO turns VALUES (?)", ((text_of(entry),) for entry in entries))
            db.commit()

            def find(question: str) -> int:
                words = " OR ".join(f'"{word}"' for word in _WORD.findall(question))
                statement = "SELECT rowid FROM turns WHERE turns MATCH ? ORDER BY rank LIMIT 10"
                return len(db.execute(statement, (words,)).fetchall())

            yield asking(find, talks.questions, count, False)

    return opened


def asking(find: Callable[[str], int], questions: list[str], count: int, worst: bool) -> Block:
    asked = itertools.cycle(questions)
    for question in itertools.islice(asked, WARMED):
        assert find(question) == 10

    def block() -> list[float]:
        costs = []
        for question in itertools.islice(asked, count):
            start = time.perf_counter()
            find(question)
            costs.append(time.perf_counter() - start)
        return [sorted(costs)[len(costs) * 99 // 100 - 1]] if worst else costs

    return block


def indexing(length: int) -> Opener:
    """The time of a turn when so many are added, a session at a time, to an index that is empty."""

    @contextmanager
    def opened(lab: Lab) -> Iterator[Block]:
        talks = made(lab, length)

        def block() -> list[float]:
            with LexicalIndex(lab.disk / "index.sqlite3") as index:
                start = time.perf_counter()
                add(index, talks)
                return [(time.perf_counter() - start) / length]

        yield block

    return opened


def memory(length: int) -> Opener:
    """The most that a process of its own held in memory."""

    @contextmanager
    def opened(lab: Lab) -> Iterator[Block]:
        path, talks = filled(lab, length), made(lab, length)
        program = (
            "import sys\n"
            "from pathlib import Path\n"
            "from stratalog.recall.lexical import LexicalIndex\n"
            "with LexicalIndex(Path(sys.argv[1])) as index:\n"
            "    for question in sys.argv[2:]:\n"
            "        assert index.search(question)\n"
            "status = Path('/proc/self/status').read_text()\n"
            "print(int(status.partition('VmHWM:')[2].split()[0]) * 1024)\n"
        )

        def block() -> list[float]:
            done = subprocess.run(
                [sys.executable, "-c", program, str(path), *talks.questions[:50]],
                capture_output=True, text=True, check=True,
            )  # fmt: skip
            return [float(done.stdout)]

        yield block

    return opened


def filled(lab: Lab, length: int) -> Path:
    def make() -> Path:
        path = lab.disk / "index.sqlite3"
        with LexicalIndex(path) as index:
            add(index, made(lab, length))
        return path

    return lab.once(f"index of {length} turns", make)


def add(index: LexicalIndex, talks: Talks) -> None:
    for key, entries in talks.sessions:
        index.add(key, entries, upto_seq=entries[-1].seq, generation=1)


def made(lab: Lab, length: int) -> Talks:
    return lab.once(f"{length} turns", lambda: talks_of(length))


def talks_of(length: int) -> Talks:
    """So many turns of some nineteen words, the same each time, and questions about them."""
    chance = random.Random(1)
    words = list(dict.fromkeys(word(chance, number) for number in range(30_000)))
    weights = list(itertools.accumulate(1 / (rank + 2.7) for rank in range(len(words))))
    sessions: list[tuple[SessionKey, list[AnyEntry]]] = []
    left = length
    while left:
        key, count = session_key("bench", "cli", str(len(sessions))), chance.choice([10, 20, 40, 80, 200])
        topic, ts = chance.choices(words, cum_weights=weights, k=30), chance.randrange(1, 1_000) * DAY
        entries: list[AnyEntry] = []
        for seq in range(1, min(count, left) + 1):
            size = max(3, int(chance.lognormvariate(2.9, 0.7)))
            said = chance.choices(words, cum_weights=weights, k=size // 2)
            said += chance.choices(STOP, k=size // 3) + chance.choices(topic, k=size - size // 2 - size // 3)
            chance.shuffle(said)
            ts += MINUTE if chance.random() < 0.95 else DAY
            text = " ".join(said) + ("?" if chance.random() < 0.2 else "")
            entries.append((User if seq % 2 else Assistant)(seq=seq, id=f"e{seq}", ts=ts, content=text))
        sessions.append((key, entries))
        left -= len(entries)
    return Talks(sessions, [question(chance, sessions, words, weights) for _ in range(500)])


def word(chance: random.Random, number: int) -> str:
    return "".join(chance.choice(SYLLABLES) for _ in range(2 + number % 3))


def question(
    chance: random.Random,
    sessions: list[tuple[SessionKey, list[AnyEntry]]],
    words: list[str],
    weights: list[float],
) -> str:
    said = _WORD.findall(text_of(chance.choice(chance.choice(sessions)[1])))
    asked = chance.sample(said, min(5, len(said)))
    return " ".join([*asked, *chance.choices(words, cum_weights=weights, k=8 - len(asked))])


def text_of(entry: AnyEntry) -> str:
    assert isinstance(entry, User | Assistant)
    return entry.text
