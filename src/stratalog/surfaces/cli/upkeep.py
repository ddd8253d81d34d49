"""`doctor` and `rebuild`: whether the logs are sound, and making anew what is derived from them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text

from stratalog import parse_key
from stratalog.engine.core import Checkup
from stratalog.keys import session_paths
from stratalog.surfaces.cli.failures import WRONG
from stratalog.surfaces.cli.output import Output, plain_table
from stratalog.surfaces.cli.plain import counted, unicode_text
from stratalog.surfaces.cli.state import Problem, State, place_of

_RUN_DOCTOR = re.compile(r"(?:\.|,? or)(?: run)? `stratalog doctor[^`]*`[^.`]*$")


def doctor_command(
    state: State,
    repair: Annotated[
        bool,
        typer.Option("--repair", metavar="", help="Move damage to quarantine; nothing is lost."),
    ] = False,
) -> None:
    """Read every log again and say what is wrong. Exit code 1 when something is."""
    with state.memory(warn=False) as memory:
        with state.output.progress("checking") as told:
            checkup = memory.doctor(repair=repair, progress=told)
        _print(state.output, memory.data, checkup, repair)
        _warn(state.output, memory.problems, checkup)
        state.finish(_value(checkup))
    if not checkup.healthy:
        raise typer.Exit(WRONG)


def rebuild_command(state: State) -> None:
    """Delete the session list, the titles' files and the index, and make them anew from the logs."""
    with state.memory() as memory:
        with state.output.progress("rebuilding") as told:
            made = memory.rebuild(told)
        state.output.print(
            f"{counted(made.sessions, 'session')} listed, {counted(made.indexed, 'entry', 'entries')} indexed"
        )
        state.finish({"sessions": made.sessions, "indexed": made.indexed})


def _print(out: Output, data: Path, checkup: Checkup, repaired: bool) -> None:
    glyphs = out.glyphs
    if checkup.moved:
        out.print(Text("moved to quarantine", "bold"))
        for problem in checkup.moved:
            out.print(_told(out, problem.reason, place_of(problem)), indent=2)
            if problem.quarantine:
                kept = _quarantine(data, problem.key) / problem.quarantine
                out.print(Text(f"kept in {out.line(str(kept))}", "dim"), indent=4)
        out.print()
    for log in checkup.logs:
        if log.problems:
            out.print(Text.assemble((f"{glyphs.failed} ", "red"), (out.line(log.key), "bold")))
            for problem in log.problems:
                out.print(_told(out, problem.reason, place_of(problem)), indent=2)
    for problem in (*checkup.foreign, *checkup.derived):
        out.print(Text.assemble((f"{glyphs.failed} ", "red"), _told(out, problem.reason, place_of(problem))))
    for path in checkup.undeleted:
        what = "deleted, but not all of it is gone: "
        out.print(Text.assemble((f"{glyphs.failed} ", "red"), what, out.line(str(path))))
    entries = sum(log.entries for log in checkup.logs)
    size = sum(log.size for log in checkup.logs)
    table = plain_table()
    table.show_header = False
    table.box = None
    table.padding = (0, 2, 0, 0)
    table.add_column()
    table.add_column(justify="right")
    table.add_row("logs read again", f"{len(checkup.logs):,}")
    table.add_row("entries", f"{entries:,}")
    table.add_row("bytes", f"{size:,}")
    out.table(table)
    for log in checkup.logs:
        if log.quarantined:
            out.print(f"{counted(log.quarantined, 'piece')} in quarantine:")
            out.print(Text(out.line(str(_quarantine(data, log.key))), "dim"), indent=2)
    _print_unfinished(out, [path for path in checkup.leftovers if path not in checkup.undeleted])
    if checkup.healthy:
        out.print(Text(f"{glyphs.ok} all is well", "bold green"))
    for line in _advice(checkup, repaired):
        out.print(Text(line, "bold red"))


def _print_unfinished(out: Output, paths: Sequence[Path]) -> None:
    """Names the files that were never finished, which is nothing that is wrong."""
    if not paths:
        return
    files = counted(len(paths), "file")
    out.print(f"{files} that a process left unfinished: harmless, for nothing reads such files")
    for path in paths:
        out.print(Text(out.line(str(path)), "dim"), indent=2)
    out.print("`stratalog doctor --repair` removes such files; run it while nothing else writes here")


def _advice(checkup: Checkup, repaired: bool) -> list[str]:
    """What to do about what is wrong, a line for each kind of it."""
    lines = []
    if checkup.undeleted:
        lines.append("something is wrong; `stratalog doctor --repair` finishes what was deleted")
    if any(log.problems for log in checkup.logs):
        lines.append(
            "something is still wrong; what is said above was left as it is"
            if repaired
            else "something is wrong; `stratalog doctor --repair` moves damage to quarantine"
        )
    if checkup.foreign:
        lines.append("something is wrong; files that are no logs are left alone: move them away")
    if checkup.derived:
        lines.append("something is wrong; `stratalog rebuild` makes the list and the index anew")
    if checkup.purging:
        lines.append("a purge was cut short, or runs just now; `stratalog purge --resume` finishes it")
    return lines


def _warn(out: Output, problems: Iterable[Problem], checkup: Checkup) -> None:
    """Tells what was met on the way and is not part of the checkup."""
    shown = (
        *checkup.moved,
        *checkup.foreign,
        *checkup.derived,
        *(p for log in checkup.logs for p in log.problems),
    )
    known = {(problem.reason, problem.path) for problem in shown}
    for problem in dict.fromkeys(problems):
        if (problem.reason, problem.path) not in known:
            out.warn(f"{_reason(problem.reason)} [{place_of(problem)}]")


def _quarantine(data: Path, key: str) -> Path:
    return session_paths(data, parse_key(key)).quarantine


def _told(out: Output, reason: str, place: str) -> Text:
    return Text.assemble(out.line(_reason(reason)), (f"\n{out.line(place)}", "dim"))


def _reason(reason: str) -> str:
    """The reason without the hint to run the command that tells it."""
    return _RUN_DOCTOR.sub("", reason)


def _value(checkup: Checkup) -> dict[str, Any]:
    return {
        "healthy": checkup.healthy,
        "logs": checkup.logs,
        "moved": checkup.moved,
        "leftovers": [unicode_text(path) for path in checkup.leftovers],
        "foreign": checkup.foreign,
        "derived": checkup.derived,
        "purging": checkup.purging,
    }
