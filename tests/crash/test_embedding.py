"""The job that embeds and a process that is killed: nothing is lost, and no vector is made a second time."""

from __future__ import annotations

import random
import signal
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from crash.processes import Say, child, run
from recall.embeddings_server import Answer, EmbeddingsServer
from stratalog import points
from stratalog.config import BackgroundSettings, RecallSettings, Settings
from stratalog.engine.core import Stratalog
from stratalog.engine.knowing import knowledge_of
from stratalog.engine.remembering import Records
from stratalog.engine.upkeep import runner_of
from stratalog.ids import now_ms

pytestmark = pytest.mark.crash

BATCH = 16  # texts that are asked for at once
HOUR = 3_600_000


class Slow(EmbeddingsServer):
    """Takes its time, so that a kill finds it at work."""

    def _answer(self, path: str, asked: dict[str, Any]) -> Answer:
        time.sleep(0.005)
        return super()._answer(path, asked)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.fixture
def server() -> Iterator[EmbeddingsServer]:
    with Slow() as made:
        yield made


def opened(data: Path, server: EmbeddingsServer) -> Stratalog:
    recall = RecallSettings(embedder="openai:hash", base_url=server.url, dimensions=32)
    quiet = BackgroundSettings(promote_after=1e9, calls_per_day=100_000)
    return Stratalog(data, settings=Settings(sync="never", recall=recall, background=quiet))


def filled(data: Path, server: EmbeddingsServer) -> set[str]:
    """Two sessions of twenty turns and fifty documents; what is to be embedded of them."""
    with opened(data, server) as memory, knowledge_of(memory) as knowledge:
        for chat in ("one", "two"):
            session = memory.session(f"a:cli:{chat}")
            for number in range(20):
                with session.turn(f"Question {number} of {chat}.") as turn:
                    turn.reply(f"Answer {number} of {chat}.")
        for number in range(50):
            knowledge.put("notes", f"{number}.txt", b"What note %d says." % number)
        said = {f"{who} {number} of {chat}." for chat in ("one", "two") for number in range(20)
                for who in ("Question", "Answer")}  # fmt: skip
        return said | {text for _, text in knowledge.texts("notes")}


def due(data: Path, server: EmbeddingsServer, hours: int) -> None:
    """Does the work that is due so many hours from now: later than any lease that a dead process left."""
    at = now_ms() + hours * HOUR
    with opened(data, server) as memory, closing(runner_of(memory, clock=lambda: at)) as runner:
        runner.run_due()


def rows(data: Path, server: EmbeddingsServer) -> dict[str, int]:
    with opened(data, server) as memory:
        stores = {what: memory.strata.vectors.store(what) for what in ("turns", "documents")}  # type: ignore[arg-type]
        assert all(store.mend(deep=True) == 0 for store in stores.values())
        assert all(kept.complete for store in stores.values() for kept in store.spaces())
        return {what: sum(kept.rows for kept in store.spaces()) for what, store in stores.items()}


def states(data: Path, server: EmbeddingsServer) -> list[str]:
    with opened(data, server) as memory, Records(memory) as records:
        return [job.state for job in records.jobs.list(kind="embed", limit=100).jobs]


@pytest.mark.parametrize(
    ("point", "nth", "again"),
    [
        ("vectors.written", 1, BATCH),  # asked for and not yet named: once more
        ("vectors.written", 5, BATCH),
        ("vectors.added", 1, 0),
        ("vectors.added", 4, 0),
        ("vectors.added", 8, 0),
    ],
)
def test_a_kill_costs_the_batch_under_way(
    data: Path, server: EmbeddingsServer, point: str, nth: int, again: int
) -> None:
    """The job is taken up once its lease is over; everything gets its vector, what had one is not asked for
    again."""
    texts = filled(data, server)

    def work(say: object) -> None:
        points.arm(point, nth)
        due(data, server, 0)

    assert run(work) == -signal.SIGKILL
    assert states(data, server) == ["running"]
    due(data, server, 1)
    due(data, server, 2)
    asked = Counter(server.texts)
    assert set(asked) == texts
    assert sum(asked.values()) - len(asked) == again
    assert rows(data, server) == {"turns": 80, "documents": 50}
    assert set(states(data, server)) == {"done"}


def test_kills_at_any_moment_lose_nothing(data: Path, server: EmbeddingsServer) -> None:
    """However often it is killed, wherever: at last all of it is embedded, each kill having cost one batch at
    most."""
    chance = random.Random(7)
    texts = filled(data, server)
    kills = 0
    for hour in range(12):

        def work(say: Say, hour: int = hour) -> None:
            say("begun")
            due(data, server, hour)

        with child(work) as process:
            process.hear()
            time.sleep(chance.uniform(0.0, 0.25))
            process.signal(signal.SIGKILL)
            kills += process.wait() == -signal.SIGKILL
    due(data, server, 20)
    due(data, server, 21)
    asked = Counter(server.texts)
    assert set(asked) == texts
    assert sum(asked.values()) - len(asked) <= kills * BATCH
    assert rows(data, server) == {"turns": 80, "documents": 50}
