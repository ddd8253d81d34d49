"""Long work: how far it is is told to who asked for it, and it stops when it is cancelled."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import CancelledError
from pathlib import Path

import pytest

from stratalog import Stratalog
from stratalog.engine.remembering import Records
from stratalog.surfaces.mcp.desk import Desk
from stratalog.surfaces.mcp.identity import owner
from stratalog.types import User
from surfaces.mcp.clients import call, over_stdio, run, within

SESSIONS = 60


@pytest.fixture
def unindexed(tmp_path: Path) -> Path:
    """A data directory with sessions that no search has indexed yet."""
    with Stratalog(tmp_path) as memory:
        for number in range(SESSIONS):
            memory.session(f"helper:cli:{number}").append(
                *(User(content=f"The harbour, message {each} of {number}") for each in range(20))
            )
    return tmp_path


def test_a_search_that_must_index_first_says_how_far_it_is(unindexed: Path) -> None:
    """The first search tells of every step, in order, up to all; the next has nothing to tell."""
    told: list[tuple[float, float | None]] = []

    async def hear(progress: float, total: float | None, message: str | None) -> None:
        assert message is not None
        assert message.startswith("indexing")
        told.append((progress, total))

    async def body() -> None:
        async with over_stdio(unindexed) as client:
            asked = {"query": "harbour"}
            done = await client.call_tool("search_sessions", asked, progress_callback=hear)
            assert done.structured_content["hits"]
            assert told == sorted(told)
            assert 10 <= len(told) <= 51
            assert told[-1] == (SESSIONS, SESSIONS)
            told.clear()
            await client.call_tool("search_sessions", asked, progress_callback=hear)
            assert told == []

    run(body)


def test_a_cancelled_search_stops_and_harms_nothing(unindexed: Path) -> None:
    """A client that gives up is told nothing more; the server answers on, and a later search finds all."""

    async def body() -> None:
        begun = asyncio.Event()

        async def hear(progress: float, total: float | None, message: str | None) -> None:
            begun.set()

        async with over_stdio(unindexed) as client:
            search = asyncio.create_task(
                client.call_tool("search_sessions", {"query": "harbour"}, progress_callback=hear)
            )
            await begun.wait()
            search.cancel()
            with pytest.raises(asyncio.CancelledError):
                await search
            done = await call(client, "search_sessions", query="harbour message", limit=50)
            assert len(done["hits"]) == 50
            await call(client, "remember", key="tea", text="There is tea")

    run(body)
    with Stratalog(unindexed) as memory:
        assert memory.doctor().healthy
        with memory.strata.index() as index:
            indexed = [size for key, size in index.sessions().items() if key.agent == "helper"]
            assert indexed == [20] * SESSIONS


def test_what_is_cancelled_is_not_done_to_its_end(unindexed: Path) -> None:
    """A search that nobody waits for any more leaves what it had not come to."""

    async def body() -> None:
        begun = asyncio.Event()

        async def hear(progress: float, total: float | None, message: str | None) -> None:
            begun.set()

        async with within(unindexed) as client:
            search = asyncio.create_task(
                client.call_tool("search_sessions", {"query": "harbour"}, progress_callback=hear)
            )
            await begun.wait()
            search.cancel()
            with pytest.raises(asyncio.CancelledError):
                await search

    run(body)
    with Stratalog(unindexed) as memory:
        assert 0 < len(memory.strata.catalog.stale()) < SESSIONS


def test_indexing_stops_where_it_is_told_to(unindexed: Path) -> None:
    """Between two sessions the work ends; what was indexed before stays, and the rest is done next time."""
    stop = threading.Event()
    seen: list[int] = []

    def report(done: int, total: int) -> None:
        seen.append(done)
        if done >= 5:
            stop.set()

    with Stratalog(unindexed) as memory, Records(memory) as records:
        desk = Desk(memory, records, owner("local", agent="assistant"), report=report, stop=stop)
        with pytest.raises(CancelledError):
            desk.prepare()
        assert max(seen) < SESSIONS
        left = len(memory.strata.catalog.stale())
        assert 0 < left < SESSIONS
        Desk(memory, records, owner("local", agent="assistant")).prepare()
        assert memory.strata.catalog.stale() == []
