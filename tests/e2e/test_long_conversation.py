"""A conversation goes on for ever inside any window: the real engine, the official SDKs, real HTTP, and a
server that counts every request exactly and refuses what does not fit.

`benchmarks/long_conversation.py` runs the same for thousands of turns at every window.
"""

from __future__ import annotations

import asyncio
import gc
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from e2e.conversation import (
    FACTS,
    MODEL,
    SUMMARISER,
    SYSTEM,
    Scripted,
    Told,
    counting,
    lost,
    planned,
    prefill,
    sent,
    shared,
    talk,
    tools,
)
from models.asking import model_at
from stratalog.aio import AsyncStratalog
from stratalog.config import Settings
from stratalog.engine.agents import Agent
from stratalog.log.contract import Verifies
from stratalog.models import extractive
from stratalog.models.configured import Configured
from stratalog.testing.model_server import ModelServer

pytest.importorskip("quicktok", reason="requests are counted with the model's own vocabulary")
_MEMORY = 15_000_000  # bytes


class Held(msgspec.Struct):
    """A talk that was held: what the runner heard, what the model's side saw, and how many bytes the process
    took after 40 % of the turns and at the end."""

    told: Told
    script: Scripted
    memory: tuple[int, int]


def hold(data: Path, window: int, turns: int, **how: Any) -> Held:
    """`holding`, in an event loop of its own."""
    return asyncio.run(holding(data, window, turns, **how))


async def holding(
    data: Path,
    window: int,
    turns: int,
    *,
    over: int,
    summariser: str = SUMMARISER,
    summariser_window: int = 0,
    before: int = 0,
    shape: str = "openai_chat",
    shares: bool = False,
) -> Held:
    """Holds a talk of so many turns over HTTP, after `before` that are in the log already, and checks what
    holds of any: every request fits and is well formed, every turn is answered as the model meant it, and
    the log has all of it and is sound. The facts are said in the first `over` turns."""
    summariser_window = summariser_window or window
    every = [planned(number, over) for number in range(before + turns)]
    script, told = Scripted(every[before:], over, shares=shares), Told()
    count = counting(window, summariser_window)
    settings = Settings(sync="never", windows={MODEL: window, SUMMARISER: summariser_window})
    early = before + turns * 2 // 5
    with ModelServer(script, window=window, count=count, keep=1) as server:
        model: Any = model_at(server, shape)
        agent = Agent(
            model=Configured(model, MODEL),
            system=SYSTEM,
            tools=tools(over),
            summariser=Configured(model, summariser),
        )
        async with AsyncStratalog(data, settings=settings) as memory:
            session = memory.session("a:cli:me")
            if before:
                prefill(session.sync, every[:before])
            await talk(session, agent, every[before:early], script, told)
            rss_early = _rss()
            await talk(session, agent, every[early:], script, told)
            rss_late = _rss()
            assert server.refusals == []
            assert set(server.facts.statuses) == {200}
            assert script.most <= window - min(4_096, window // 4)
            assert (told.turns, told.wrong, told.warnings, told.stood_in) == (turns, [], [], [])
            assert lost(session.sync, every) == []
            assert session.sync.working_memory.keys() == []
            assert isinstance(memory.sync.store, Verifies)
            assert memory.sync.store.verify(session.key).problems == ()
            assert memory.sync.problems == []
        await model.close()
    return Held(told, script, (rss_early, rss_late))


def _rss() -> int:
    """The bytes of memory that this process has now."""
    gc.collect()
    pages = Path("/proc/self/statm").read_text().split()[1] if Path("/proc/self/statm").exists() else "0"
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


# --- windows ---


def test_a_window_of_8k(tmp_path: Path) -> None:
    """In 8,000 tokens a talk goes on through tens of compactions. Every request has every fact that was said
    so far, and the process does not grow."""
    held = hold(tmp_path, 8_000, 200, over=60, summariser_window=32_000)
    assert held.told.compactions >= 15
    assert held.script.summaries >= held.told.compactions
    assert held.script.kept == (len(FACTS), len(FACTS))
    assert held.script.least[0] == held.script.least[1]
    early, late = held.memory
    assert late - early < _MEMORY


@pytest.mark.long
def test_a_summariser_of_8k(tmp_path: Path) -> None:
    """A summariser with the same small window is asked for no more than fits into it."""
    held = hold(tmp_path, 8_000, 60, over=20)
    assert held.script.summaries >= held.told.compactions >= 3


def test_without_a_summariser(tmp_path: Path) -> None:
    """In 8,000 tokens and without any model for summaries, most facts outlive ten compactions: as many as
    the few hundred tokens of a summary hold, whose lines name their entries."""
    held = hold(tmp_path, 8_000, 120, over=60, summariser=extractive.NAME)
    assert held.told.compactions >= 10
    assert held.script.summaries == 0
    assert held.script.kept[0] >= 12


@pytest.mark.long
def test_a_window_of_32k(tmp_path: Path) -> None:
    """In 32,000 tokens without a model for summaries, most facts outlive ten compactions, and each request
    begins with the one before, but for those after a compaction."""
    held = hold(tmp_path, 32_000, 440, over=200, summariser=extractive.NAME, shares=True)
    assert held.told.compactions >= 10
    assert held.script.kept[0] >= 12
    assert len(held.script.shares) == held.script.requests - held.told.compactions - 1
    assert min(held.script.shares) >= 0.99


@pytest.mark.long
@pytest.mark.parametrize(("window", "before"), [(200_000, 260), (1_000_000, 345)])
def test_a_large_window(window: int, before: int, tmp_path: Path) -> None:
    """A long log is gone on with in a large window: requests are large, the compaction that comes is chunked
    for its summariser, and every fact is in the requests before and after."""
    held = hold(tmp_path, window, 20, over=250, before=before)
    assert held.told.compactions >= 1
    assert held.script.most > 100_000
    assert held.script.kept == (len(FACTS), len(FACTS))
    assert held.script.least[0] == held.script.least[1]


@pytest.mark.long
def test_the_benchmark_runs() -> None:
    """The long run of the same, with its server in another process, ends well and prints its table."""
    script = Path(__file__).resolve().parents[2] / "benchmarks" / "long_conversation.py"
    how = ("--turns", "12", "--windows", "8000", "--summaries", "scripted")
    done = subprocess.run(
        [sys.executable, str(script), *how],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "8,000 | scripted | 12 |" in done.stdout


# --- the prompt's beginning ---


@pytest.mark.long
def test_anthropics_prompt_goes_on(tmp_path: Path) -> None:
    """For Anthropic, over 200 turns, each request's system blocks are those of the one before, and its
    messages begin with that one's, but for those after a compaction; cache marks are not counted."""
    held = hold(tmp_path, 16_000, 200, over=150, summariser=extractive.NAME, shape="anthropic", shares=True)
    assert held.told.compactions >= 6
    assert len(held.script.shares) == held.script.requests - held.told.compactions - 1
    assert min(held.script.shares) >= 0.99


def test_what_a_share_is() -> None:
    """The measure itself: where two requests part, and marks that are no difference."""
    assert shared(b"abcd", b"abcdef") == 1
    assert shared(b"abcd", b"abxd") == 0.5
    assert shared(b"abcd", b"") == 0
    mark = b',"cache_control":{"type":"ephemeral"}'
    first = sent(b'{"system":[{"text":"s"%s}],"messages":[{"text":"a"%s}]}' % (mark, mark))
    second = sent(b'{"messages":[{"text":"a"},{"text":"b"%s}],"system":[{"text":"s"}]}' % mark)
    assert first == (b'[{"text":"s"}]', b'[{"text":"a"}')
    assert second[0] == first[0]
    assert second[1].startswith(first[1])
