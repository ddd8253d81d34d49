"""`doctor` and `rebuild`: whether the logs are sound, and making anew what is derived from them."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from rich.text import Text

from stratalog.engine.core import Checkup
from stratalog.surfaces.cli.failures import WRONG
from stratalog.surfaces.cli.output import Output, plain_table
from stratalog.surfaces.cli.plain import unicode_text
from stratalog.surfaces.cli.state import State, place_of


def doctor_command(
    state: State,
    repair: Annotated[
        bool,
        typer.Option("--repair", metavar="", help="Move damage to quarantine; nothing is lost."),
    ] = False,
) -> None:
    """Read every log again and say what is wrong. Exit code 1 when something is."""
    with state.memory() as memory:
        with state.output.progress("checking") as told:
            checkup = memory.doctor(repair=repair, progress=told)
        _print(state.output, checkup, repair)
        state.finish(_value(checkup))
    if not checkup.healthy:
        raise typer.Exit(WRONG)


def rebuild_command(state: State) -> None:
    """Delete the session list, the titles' files and the index, and make them anew from the logs."""
    with state.memory() as memory:
        with state.output.progress("rebuilding") as told:
            made = memory.rebuild(told)
        state.output.print(f"{made.sessions:,} sessions listed, {made.indexed:,} entries indexed")
        state.finish({"sessions": made.sessions, "indexed": made.indexed})


def _print(out: Output, checkup: Checkup, repaired: bool) -> None:
    glyphs = out.glyphs
    if checkup.moved:
        out.print(Text("moved to quarantine", "bold"))
        for problem in checkup.moved:
            out.print(_told(out, problem.reason, place_of(problem)), indent=2)
            if problem.quarantine:
                out.print(Text(f"kept in {out.line(problem.quarantine)}", "dim"), indent=4)
        out.print()
    for log in checkup.logs:
        if log.problems:
            out.print(Text.assemble((f"{glyphs.failed} ", "red"), (out.line(log.key), "bold")))
            for problem in log.problems:
                out.print(_told(out, problem.reason, place_of(problem)), indent=2)
    for problem in (*checkup.foreign, *checkup.derived):
        out.print(Text.assemble((f"{glyphs.failed} ", "red"), _told(out, problem.reason, place_of(problem))))
    for path in checkup.leftovers:
        out.print(Text.assemble((f"{glyphs.failed} ", "red"), "left by a crash: ", out.line(str(path))))
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
    quarantined = sum(log.quarantined for log in checkup.logs)
    if quarantined:
        table.add_row("pieces in quarantine", f"{quarantined:,}")
    out.table(table)
    if checkup.healthy:
        out.print(Text(f"{glyphs.ok} all is well", "bold green"))
    elif not repaired:
        out.print(
            Text("something is wrong; `stratalog doctor --repair` moves damage to quarantine", "bold red")
        )
    else:
        out.print(Text("something is still wrong; what is said above was left as it is", "bold red"))


def _told(out: Output, reason: str, place: str) -> Text:
    return Text.assemble(out.line(reason), (f"\n{out.line(place)}", "dim"))


def _value(checkup: Checkup) -> dict[str, Any]:
    return {
        "healthy": checkup.healthy,
        "logs": checkup.logs,
        "moved": checkup.moved,
        "leftovers": [unicode_text(path) for path in checkup.leftovers],
        "foreign": checkup.foreign,
        "derived": checkup.derived,
    }
