"""engine/core.py and asking.py: what a search makes of the times in a question, and of a model of pairs."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from stratalog.engine.asking import times_in
from stratalog.engine.core import Stratalog
from stratalog.errors import InvalidInput
from stratalog.types import AnyEntry, Compaction, ToolResult, User

DAY = 86_400_000
NOON = 1_683_547_200_000  # 8 May 2023, 12:00 UTC, a Monday
KEY = "a:cli:main"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A directory with one session of three dinners, twenty days apart."""
    with Stratalog(tmp_path / "data") as memory:
        said: list[AnyEntry] = [
            User(content=f"dinner with {name}", ts=NOON + 20 * DAY * number)
            for number, name in enumerate(("Ana", "Bob", "Eva"))
        ]
        memory.session(KEY).append(*said)
    return tmp_path / "data"


@pytest.mark.parametrize("query", ["dinner 3 weeks ago", "dinner on May 8, 2023", "3周前 dinner"])
def test_a_time_is_preferred(data: Path, query: str) -> None:
    """What is of the time comes first, and says so; the rest stays."""
    with Stratalog(data) as memory:
        found = memory.search(query, times=times_in(query, "UTC", NOON + 21 * DAY))
    assert found[0].hit.snippet == "dinner with Ana"
    assert ["time" in each.hit.parts for each in found] == [True, False, False]


def test_times_are_of_the_zone_and_the_moment() -> None:
    """What is relative counts from now where it is asked; without a zone or a date there is no time."""
    day = NOON - NOON % DAY
    assert times_in("yesterday", "UTC", NOON) == [(day - DAY, day)]
    assert times_in("yesterday", "Asia/Shanghai", NOON) == [(day - DAY - 8 * DAY // 24, day - 8 * DAY // 24)]
    assert times_in("dinner", "UTC", NOON) == []
    assert times_in("yesterday", "Nowhere/At_all", NOON) == []
    ((start, stop),) = times_in("today", "UTC")
    assert stop - start == DAY


def test_a_hit_brings_the_summary_of_its_session(data: Path) -> None:
    """It is the last compaction's, from where it speaks of what was asked; a session without one has none."""
    with Stratalog(data) as memory:
        session = memory.session(KEY)
        assert memory.search("Ana")[0].summary == ""
        told = "A list of dinners. " * 60 + "Ana does not eat fish. " + "More of it. " * 60
        session.append(Compaction(summary="an older one"))
        session.append(Compaction(summary=told))
        found = memory.search("Ana", roles=("user",))[0]
        assert "Ana does not eat fish." in found.summary
        assert len(found.summary) <= 600
        session.restart()
        assert memory.search("Ana", roles=("user",))[0].summary == ""


def test_what_is_new_is_preferred_where_that_is_asked_for(data: Path) -> None:
    """It is a part of the score, which halves with each so many days; off, nothing has it."""
    now = time.time_ns() // 1_000_000
    with Stratalog(data) as memory:
        for number, name in enumerate(("Ida", "Leo", "Mia")):
            said = User(content=f"dinner with {name}", ts=now - (2 - number) * 30 * DAY)
            memory.session(f"a:cli:{name}").append(said)
        found = memory.search("dinner", recency=30)
        assert [each.hit.snippet[-3:] for each in found[:3]] == ["Mia", "Leo", "Ida"]
        given = [each.hit.parts["recency"] for each in found[:3]]
        assert given == pytest.approx([0.1, 0.05, 0.025], rel=1e-3)
        assert all("recency" not in each.hit.parts for each in memory.search("dinner"))
        with pytest.raises(InvalidInput):
            memory.search("dinner", recency=0)


def test_one_session_does_not_flood(data: Path) -> None:
    """With `per_session`, what another session says comes although one has more that is better."""
    with Stratalog(data) as memory:
        memory.session("a:cli:other").append(User(content="we spoke of a great many things and of a dinner"))
        sessions = [each.hit.session.chat for each in memory.search("dinner", limit=3, per_session=2)]
        assert sorted(sessions) == ["main", "main", "other"]
        assert sessions[0] == "main"


def test_without_a_bound_others_come_too(data: Path) -> None:
    """Of ten hits two are of other sessions, where these have any; a session that is alone has all ten."""
    with Stratalog(data) as memory:
        said = [User(content=f"parcel tracker {number}") for number in range(120)]
        memory.session("a:cli:big").append(*said)
        assert len(memory.search("parcel tracker")) == 10
        for number in range(3):
            memory.session(f"a:cli:{number}").append(User(content="what of the parcel that is lost?"))
        found = [each.hit.session.chat for each in memory.search("parcel tracker")]
        assert found.count("big") == 8
        assert len(found) == 10


def test_forks_crowd_nothing_out(data: Path) -> None:
    """However many forks have what was said, it is told once, of the session where it was said, and as many
    hits come as without them; a model of pairs gets none twice."""
    with Stratalog(data) as memory:
        base = memory.session("a:cli:base")
        base.append(*[User(content=f"parcel tracker rate limiter {number}") for number in range(5)])
        for number in range(9):
            memory.session(f"a:cli:o{number}").append(User(content=f"a parcel for shop {number}"))
        for number in range(12):
            base.fork(f"a:cli:f{number}")
        found = memory.search("parcel tracker rate limiter", limit=10)
        assert [each.hit.session.chat for each in found[:5]] == ["base"] * 5
        assert len({each.hit.entry_id for each in found}) == 10
        texts: list[str] = []

        def rerank(query: str, passages: Sequence[str]) -> Sequence[float]:
            texts.extend(passages)
            return [float(len(passages) - place) for place in range(len(passages))]

        assert memory.search("parcel tracker rate limiter", limit=10, rerank=rerank)
        assert len(set(texts)) == len(texts) == 14


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
