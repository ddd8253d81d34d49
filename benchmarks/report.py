"""What a run says: a table for people, JSON for programs, and on what machine it was measured."""

from __future__ import annotations

import os
import platform
import sqlite3
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from rich.table import Table
from runner import Outcome, Result
from spec import Goal, Row, Unit

import stratalog

HEADINGS = ("benchmark", "what", "ours", "beside", "figure", "quartiles", "goal", "")


class Line(NamedTuple):
    """A row of the table, as text."""

    benchmark: str
    what: str
    subject: str
    beside: str
    figure: str
    spread: str
    goal: str
    verdict: str


def lines(results: Sequence[Result]) -> list[Line]:
    """The table's rows, each benchmark's name on its first one only."""
    found = []
    for result in results:
        for number, outcome in enumerate(result.outcomes):
            row = outcome.row
            subject = result.samples[row.subject]
            beside = amount(result.samples[row.beside].p50, row.unit) if row.beside else ""
            found.append(
                Line(
                    result.spec.name if number == 0 else "",
                    row.what,
                    amount(subject.p50, row.unit),
                    beside,
                    _figure(row, outcome.figure),
                    f"{_figure(row, outcome.low)} – {_figure(row, outcome.high)}",
                    _goal(row, row.goal) if row.goal is not None else "",
                    {True: "met", False: "NOT MET", None: ""}[outcome.met],
                )
            )
    return found


def table(results: Sequence[Result]) -> Table:
    """The table for a terminal."""
    shown = Table(title="Ratios are of each round, ours by the other's; the median of the rounds is shown")
    for number, heading in enumerate(HEADINGS):
        shown.add_column(heading, justify="left" if number in (0, 1, 7) else "right", overflow="fold")
    for line in lines(results):
        style = {"met": "green", "NOT MET": "bold red"}.get(line.verdict, "")
        shown.add_row(*line[:-1], f"[{style}]{line.verdict}[/]" if style else "", end_section=False)
    return shown


def markdown(results: Sequence[Result], facts: dict[str, str]) -> str:
    """The table and what is needed to understand it, as a page."""
    page = ["# What `make bench` measured", ""]
    page += [f"- {name}: {value}" for name, value in facts.items()]
    page += ["", f"| {' | '.join(HEADINGS)} |", f"|{'---|' * len(HEADINGS)}"]
    page += [f"| {' | '.join(line)} |" for line in lines(results)]
    for result in results:
        page += ["", f"## {result.spec.name}: {result.spec.title}", ""]
        page += [f"On {result.spec.where}; {_rounds(result)} rounds. {result.spec.note}".rstrip(), ""]
        if result.left_out:
            page += [f"Not measured: {', '.join(result.left_out)}.", ""]
        units = {name: row.unit for row in result.spec.rows for name in (row.subject, row.beside)}
        page += ["| system | p50 | p99 | operations |", "|---|---|---|---|"]
        page += [
            f"| {name} | {amount(sample.p50, unit)} | {amount(sample.p99, unit)} | {sample.operations} |"
            for name, sample in result.samples.items()
            for unit in [units.get(name, "s")]
        ]
    return "\n".join(page) + "\n"


def as_json(results: Sequence[Result], facts: dict[str, str]) -> dict[str, Any]:
    """Everything that was measured. Times are seconds, sizes bytes."""
    return {
        "facts": facts,
        "benchmarks": [
            {
                "name": result.spec.name,
                "title": result.spec.title,
                "where": result.spec.where,
                "rounds": _rounds(result),
                "left_out": result.left_out,
                "rows": [_row(outcome) for outcome in result.outcomes],
                "systems": {name: sample._asdict() for name, sample in result.samples.items()},
            }
            for result in results
        ],
    }


def machine(disk: Path, memory: Path, size: str) -> dict[str, str]:
    """What the figures depend on."""
    return {
        "when": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "size": size,
        "machine": f"{os.cpu_count()} × {_cpu()}, {_memory()}",
        "load": f"{os.getloadavg()[0]:.1f} when it began; what else runs makes times in µs and ms too high",
        "system": platform.platform(),
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "sqlite": sqlite3.sqlite_version,
        "stratalog": stratalog.__version__,
        "disk": f"{_filesystem(disk)} at {disk}",
        "memory": f"{_filesystem(memory)} at {memory}",
    }


def amount(value: float, unit: Unit) -> str:
    """A time or a size as people write it."""
    if unit == "B":
        return f"{value:,.0f} B"
    for scale, name in ((1, "s"), (1e-3, "ms")):
        if abs(value) >= scale:
            return f"{value / scale:.3g} {name}"
    return f"{value / 1e-6:.3g} µs"


def _figure(row: Row, value: float) -> str:
    return amount(value, row.unit) if row.how in ("cost", "excess") else f"{value:.3g}×"


def _goal(row: Row, goal: Goal) -> str:
    sign = {"at most": "≤", "at least": "≥", "under": "<"}[goal.kind]
    return f"{sign} {_figure(row, goal.bound)}"


def _row(outcome: Outcome) -> dict[str, Any]:
    row = outcome.row
    return {
        "what": row.what,
        "subject": row.subject,
        "beside": row.beside,
        "how": row.how,
        "unit": row.unit,
        "figure": outcome.figure,
        "quartiles": (outcome.low, outcome.high),
        "goal": row.goal._asdict() if row.goal is not None else None,
        "met": outcome.met,
    }


def _rounds(result: Result) -> int:
    return max(len(sample.rounds) for sample in result.samples.values())


def _cpu() -> str:
    return _field("/proc/cpuinfo", "model name") or platform.processor() or platform.machine()


def _memory() -> str:
    total = _field("/proc/meminfo", "MemTotal").split()
    return f"{int(total[0]) / 2**20:.0f} GiB" if total else "memory unknown"


def _field(path: str, name: str) -> str:
    try:
        text = Path(path).read_text()
    except OSError:
        return ""
    return next((line.partition(":")[2].strip() for line in text.splitlines() if line.startswith(name)), "")


def _filesystem(path: Path) -> str:
    """The type of the filesystem that `path` is on, and what it is mounted from."""
    path = path.resolve()
    best, found = "", "unknown filesystem"
    try:
        mounts = Path("/proc/mounts").read_text()
    except OSError:
        return found
    for mount in mounts.splitlines():
        source, at, kind = mount.split()[:3]
        if path.is_relative_to(at) and len(at) >= len(best):
            best, found = at, f"{kind} on {source}"
    return found
