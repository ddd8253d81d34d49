"""`export`: a session out of the memory, for another program, a person or a model."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from stratalog.engine import Problem
from stratalog.surfaces.cli import loading
from stratalog.surfaces.cli.failures import WRONG
from stratalog.surfaces.cli.keys import find
from stratalog.surfaces.cli.plain import unicode_text
from stratalog.surfaces.cli.reading import AllOption
from stratalog.surfaces.cli.state import KeyArgument, State, place_of
from stratalog.surfaces.cli.writing import write_file


def export_command(
    state: State,
    key: KeyArgument,
    format: Annotated[
        Literal["jsonl", "markdown", "html", "openai", "anthropic", "sharegpt"],
        typer.Option("--format", help="What `import` takes again, for people to read, or for a model."),
    ] = "jsonl",
    file: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="FILE", help="Write there, readable by you alone. Else stdout."
        ),
    ] = None,
    all_generations: AllOption = False,
) -> None:
    """Export a session: as JSON lines, which `import` takes again exactly, to be read, or as messages."""
    with state.memory() as memory:
        session = find(memory, key)
        meta = session.meta
        reading = session.entries(generations="all" if all_generations else "current")
        chunks = loading.exported(format, session.key, meta.title, reading, meta.metadata)
        value: dict[str, Any] = {"key": str(session.key), "format": format}
        if file is not None and str(file) != "-":
            size = write_file(memory, file, chunks)
            value |= {"file": unicode_text(file), "bytes": size}
            state.output.tell(f"{size:,} bytes written to {file}")
        elif state.json:
            value |= {"content": b"".join(chunks).decode()}
        else:
            state.output.raw(chunks)
        problems = list(dict.fromkeys(reading.problems))
        state.finish({**value, "problems": problems} if problems else value)
        _tell_damage(state, problems, memory.problems)
    if problems:
        raise typer.Exit(WRONG)


def _tell_damage(state: State, problems: Sequence[Problem], known: Sequence[Problem]) -> None:
    """Warns of what the export lacks; of what is `known` the memory warns itself when it is closed."""
    for problem in problems:
        if problem not in known:
            state.output.warn(f"{problem.reason} [{place_of(problem)}]")
    if problems:
        state.output.warn("the export lacks what is damaged; `stratalog doctor` says more")
