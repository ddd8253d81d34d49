"""Thousands of turns of one conversation inside each window, over real HTTP, and what they cost in the end.

    python benchmarks/long_conversation.py [--turns 5000] [--windows 8000,32000,200000,1000000] [--jobs 2]

Each window is run twice, in processes of its own: with a scripted model for summaries, and with none
(`extractive`). The server runs in another process; it counts every request with the vocabulary and refuses
what does not fit. Columns: model calls and compactions; the largest request; requests refused; facts that the
last request had, and the fewest that any had of those said by then; the log's faults (messages that are
missing, `verify`); memory after 40 % of the turns and at the end; milliseconds of a model call that are the
engine's (all of a turn's time but what passes in `Model.stream`); of one `Session.context`, p50, the median
late in the talk as a multiple of that early in it, and the tokens of those contexts; the engine's part of a
turn, and of one in which the session was compacted, in the first and in the last fifth.
`--profile WINDOW` runs one window and prints where the time of the engine and the SDK goes.
"""

from __future__ import annotations

import argparse
import asyncio
import cProfile
import gc
import io
import multiprocessing
import os
import pstats
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import msgspec
from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from e2e.conversation import (
    FACTS,
    MODEL,
    SUMMARISER,
    SYSTEM,
    Scripted,
    Told,
    Watched,
    counting,
    lost,
    planned,
    talk,
    tools,
)
from stratalog.aio import AsyncStratalog
from stratalog.config import Settings
from stratalog.engine.agents import Agent
from stratalog.log.contract import Verifies
from stratalog.models import extractive
from stratalog.models.configured import Configured
from stratalog.models.openai import OpenAIChat
from stratalog.testing.model_server import ModelServer

OVER = 300  # turns, in which the facts are said
EARLY = 0.1  # part of the turns, about which a context is measured; and at the end
SPAN = 0.1  # of all turns: what is measured early and late
EVERY = 5  # turns between two measurements of a context


class Seen(msgspec.Struct):
    """What the server saw."""

    most: int
    refused: int
    refusals: list[str]
    kept: tuple[int, int]
    least: tuple[int, int, int]


class Ran(msgspec.Struct):
    """One window, run with one way to make summaries. Times are seconds, sizes bytes."""

    window: int
    by: str
    told: Told
    calls: int
    seen: Seen
    faults: list[str]
    memory: tuple[int, int]
    engine: float
    cpu: float
    took: float
    contexts: list[tuple[int, int, float]]  # turn, tokens, seconds
    turns: list[float]  # the engine's part of each turn
    pauses: list[float]  # the same of those in which the session was compacted


def main(arguments: Sequence[str] | None = None) -> int:
    chosen = _parser().parse_args(arguments)
    if chosen.profile:
        print(profiled(chosen.profile, chosen.turns, chosen.data))
        return 0
    windows = [int(window) for window in chosen.windows.split(",")]
    asked = [(window, by) for window in windows for by in chosen.summaries.split(",")]
    context = multiprocessing.get_context("spawn")
    ran: list[Ran] = []
    with ProcessPoolExecutor(chosen.jobs, mp_context=context, max_tasks_per_child=1) as pool:
        doing = [pool.submit(run_one, window, by, chosen.turns, chosen.data) for window, by in asked]
        for each in doing:
            ran.append(each.result())
            _tell(ran[-1])
    Console(width=250).print(table(ran))
    return int(any(each.seen.refused or each.faults or each.told.wrong for each in ran))


def run_one(window: int, by: str, turns: int, data: Path | None) -> Ran:
    """One talk, in this process, with its server in another."""
    with tempfile.TemporaryDirectory(prefix="stratalog-long-", dir=data) as directory:
        return asyncio.run(_run_one(Path(directory), window, by, turns))


async def _run_one(data: Path, window: int, by: str, turns: int) -> Ran:
    every = [planned(number, OVER) for number in range(turns)]
    # A summariser that is another model, of a window in which its prompts and replies have room.
    other = max(window, 32_000)
    told = Told()
    contexts: list[tuple[int, int, float]] = []
    own: list[float] = []
    pauses: list[float] = []
    memory: list[int] = []
    settings = Settings(sync="never", windows={MODEL: window, SUMMARISER: other})
    with _serving(window, other, turns) as (url, ask):
        model = OpenAIChat(api_key="test", base_url=url)
        watched = Watched(model, time.perf_counter)
        summaries = Watched(model, time.perf_counter)
        name = SUMMARISER if by == "scripted" else extractive.NAME
        agent = Agent(
            model=Configured(watched, MODEL),
            summariser=Configured(summaries, name),
            system=SYSTEM,
            tools=tools(OVER),
        )
        offered = [each.tool for each in agent.tools]
        start, cpu = time.perf_counter(), time.process_time()
        async with AsyncStratalog(data, settings=settings) as stratalog:
            session = stratalog.session("bench:cli:long")
            for turn in every:
                before, elsewhere = time.perf_counter(), watched.seconds + summaries.seconds
                compactions = told.compactions
                await talk(session, agent, [turn], None, told)
                elsewhere = watched.seconds + summaries.seconds - elsewhere
                own.append(time.perf_counter() - before - elsewhere)
                if told.compactions > compactions:
                    pauses.append(own[-1])
                if turn.number % EVERY == 0:
                    before = time.perf_counter()
                    made = session.sync.context(model=MODEL, system=SYSTEM, tools=offered)
                    contexts.append((turn.number, made.tokens, time.perf_counter() - before))
                if turn.number in (turns * 2 // 5, turns - 1):
                    memory.append(_rss())
            took, cpu = time.perf_counter() - start, time.process_time() - cpu
            faults = lost(session.sync, every)
            assert isinstance(stratalog.sync.store, Verifies)
            faults += map(str, stratalog.sync.store.verify(session.key).problems)
            faults += map(str, stratalog.sync.problems)
        await model.close()
        seen = ask()
    return Ran(
        window,
        by,
        told,
        watched.made,
        seen,
        faults,
        (memory[0], memory[-1]),
        sum(own),
        cpu,
        took,
        contexts,
        own,
        pauses,
    )


# --- the server ---


@contextmanager
def _serving(window: int, other: int, turns: int) -> Iterator[tuple[str, Any]]:
    """A server in a process of its own: its address, and what asks it for what it saw."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_serve, args=(theirs, window, other, turns))
    process.start()

    def ask() -> Seen:
        ours.send("tell")
        seen: Seen = ours.recv()
        return seen

    try:
        yield ours.recv(), ask
    finally:
        ours.close()  # at which it leaves
        process.join(10)
        if process.is_alive():
            process.terminate()


def _serve(pipe: Connection, window: int, other: int, turns: int) -> None:
    script = Scripted((planned(number, OVER) for number in range(turns)), OVER)
    with ModelServer(script, window=window, count=counting(window, other), keep=1) as server:
        pipe.send(server.openai_url)
        while True:
            try:
                pipe.recv()
            except EOFError:
                return
            refused = [reason[:200] for reason in server.refusals]
            pipe.send(Seen(script.most, len(refused), refused[:3], script.kept, script.least))


# --- what is told ---


def table(ran: Sequence[Ran]) -> Table:
    made = Table(title=f"{len(FACTS)} facts in the first {OVER} turns")
    for name in (
        "window",
        "summaries",
        "turns",
        "model calls",
        "compactions",
        "largest request",
        "refused",
        "facts, last",
        "facts, least",
        "log faults",
        "RSS MB 40 %→end",
        "engine ms/call",
        "CPU ms/call",
        "context p50 ms",
        "late/early",
        "k tokens early→late",
        "turn ms early→late",
        "compacted turn ms early→late",
        "took s",
    ):
        made.add_column(name, justify="right")
    for each in ran:
        made.add_row(*_cells(each))
    return made


def _cells(ran: Ran) -> list[str]:
    early, late = _early_and_late(ran)
    times = [seconds for _, _, seconds in ran.contexts]
    ratio = _median(late, 2) / _median(early, 2) if early and late else float("nan")
    return [
        f"{ran.window:,}",
        ran.by,
        f"{ran.told.turns:,}",
        f"{ran.calls:,}",
        f"{ran.told.compactions:,}",
        f"{ran.seen.most:,}",
        f"{ran.seen.refused}",
        f"{ran.seen.kept[0]} of {ran.seen.kept[1]}",
        f"{ran.seen.least[0]} of {ran.seen.least[1]}" if ran.seen.least[2] >= 0 else "all",
        f"{len(ran.faults) + len(ran.told.wrong)}",
        f"{ran.memory[0] / 1e6:.0f}→{ran.memory[1] / 1e6:.0f}",
        f"{ran.engine / ran.calls * 1e3:.1f}",
        f"{ran.cpu / ran.calls * 1e3:.1f}",
        f"{statistics.median(times) * 1e3:.2f}",
        f"{ratio:.2f}",
        f"{_median(early, 1) / 1e3:.0f}→{_median(late, 1) / 1e3:.0f}",
        _first_and_last(ran.turns),
        _first_and_last(ran.pauses),
        f"{ran.took:.0f}",
    ]


def _early_and_late(ran: Ran) -> tuple[list[tuple[int, int, float]], list[tuple[int, int, float]]]:
    """The contexts measured about the tenth of the turns, and at the end."""
    turns = ran.told.turns
    early = [each for each in ran.contexts if abs(each[0] - turns * EARLY) <= turns * SPAN / 2]
    return early, [each for each in ran.contexts if each[0] >= turns * (1 - SPAN)]


def _first_and_last(seconds: Sequence[float]) -> str:
    """The medians of the first and the last fifth, in milliseconds."""
    part = -(-len(seconds) // 5)
    if not part:
        return ""
    first, last = statistics.median(seconds[:part]), statistics.median(seconds[-part:])
    return f"{first * 1e3:.0f}→{last * 1e3:.0f}"


def _median(samples: Sequence[tuple[int, int, float]], place: int) -> float:
    return statistics.median(each[place] for each in samples) if samples else float("nan")


def _tell(ran: Ran) -> None:
    """One line of a run that is over, and what went wrong in it."""
    print(" | ".join(_cells(ran)), flush=True)
    told = ran.told
    for what, found in (
        ("refused", ran.seen.refusals),
        ("faults", ran.faults),
        ("wrong", [str(each) for each in told.wrong]),
        ("stood in", told.stood_in),
        ("warned", told.warnings),
    ):
        if found:
            print(f"  {what}: {len(found)}, such as {found[0][:300]}", flush=True)


def _rss() -> int:
    gc.collect()
    statm = Path("/proc/self/statm")
    return int(statm.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") if statm.exists() else 0


# --- a profile ---


def profiled(window: int, turns: int, data: Path | None) -> str:
    """Where the time of one talk goes in this process, over all its threads."""
    profiles: list[cProfile.Profile] = []

    def begin(*_: object) -> None:
        mine = cProfile.Profile()
        profiles.append(mine)
        mine.enable()

    threading.setprofile(begin)
    begin()
    ran = run_one(window, "scripted", turns, data)
    profiles[0].disable()
    threading.setprofile(None)
    out = io.StringIO()
    stats = pstats.Stats(profiles[0], stream=out)
    for each in profiles[1:]:
        stats.add(each)
    out.write(f"{turns} turns, {ran.calls} calls, {ran.engine / ran.calls * 1e3:.1f} ms a call (profiled)\n")
    stats.sort_stats("tottime").print_stats(40)
    stats.sort_stats("cumtime").print_stats("stratalog", 60)
    return out.getvalue()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--turns", type=int, default=5_000)
    parser.add_argument("--windows", default="8000,32000,200000,1000000")
    parser.add_argument("--summaries", default=f"scripted,{extractive.NAME}", help="one of them or both")
    parser.add_argument("--jobs", type=int, default=1, help="so many windows at a time")
    parser.add_argument("--data", type=Path, default=None, help="where the logs are written")
    parser.add_argument("--profile", type=int, default=0, metavar="WINDOW")
    return parser


if __name__ == "__main__":
    sys.exit(main())
