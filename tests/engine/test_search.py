"""engine/core.py: what a search makes of the times in a question, and of a model of pairs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from stratalog.engine.core import Stratalog
from stratalog.types import AnyEntry, ToolResult, User

DAY = 86_400_000
NOON = 1_683_547_200_000  # 8 May 2023, 12:00 UTC, a Monday
KEY = "a:cli:main"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A directory with one session of three dinners, ten days apart."""
    with Stratalog(tmp_path / "data") as memory:
        said: list[AnyEntry] = [
            User(content=f"dinner with {name}", ts=NOON + 10 * DAY * number)
            for number, name in enumerate(("Ana", "Bob", "Eva"))
        ]
        memory.session(KEY).append(*said)
    return tmp_path / "data"


def snippets(memory: Stratalog, query: str, now: int | None = None) -> list[str]:
    return [found.hit.snippet for found in memory.search(query, now_ms=now)]


@pytest.mark.parametrize("query", ["dinner 3 weeks ago", "dinner on May 8, 2023", "3周前 dinner"])
def test_a_time_is_counted_from_now(data: Path, query: str) -> None:
    """What is of the time comes first, and says so; the rest stays."""
    with Stratalog(data) as memory:
        found = memory.search(query, now_ms=NOON + 21 * DAY)
        assert found[0].hit.snippet == "dinner with Ana"
        assert len(found) == 3
    if "ago" in query or "前" in query:
        with Stratalog(data) as memory:
            assert snippets(memory, query, NOON + 31 * DAY)[0] == "dinner with Bob"
            assert "time" in memory.search(query, now_ms=NOON + 31 * DAY)[0].hit.parts


def test_a_wrong_zone_leaves_search_alone(data: Path) -> None:
    """Where the settings' zone is none, times are words."""
    (data / "stratalog.toml").write_text('[memory]\nzone = "Nowhere/At_all"\n')
    with Stratalog(data) as memory:
        assert len(snippets(memory, "dinner yesterday")) == 3


def test_a_model_of_pairs_orders(data: Path) -> None:
    """It gets the whole passages, its scores are the hits' scores, and their order."""
    asked: list[tuple[str, Sequence[str]]] = []

    def rerank(query: str, texts: Sequence[str]) -> Sequence[float]:
        asked.append((query, texts))
        return [float(len(text)) for text in texts]

    with Stratalog(data) as memory:
        long = "dinner " + "x" * 2_000
        memory.session(KEY).append(ToolResult(call_id="x", content=long, ts=NOON + 50 * DAY))
        found = memory.search("dinner", limit=2, rerank=rerank)
    assert [each.hit.score for each in found] == [len(long), len("dinner with Ana")]
    assert all(each.hit.score == pytest.approx(sum(each.hit.parts.values())) for each in found)
    assert "rerank" in found[0].hit.parts
    ((query, texts),) = asked
    assert query == "dinner"
    assert sorted(texts) == ["dinner with Ana", "dinner with Bob", "dinner with Eva", long]
