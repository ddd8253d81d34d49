"""`watch`: the transcripts of agents that run, imported as they grow."""

from __future__ import annotations

import os
import select
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from stratalog.interop.following import Following
from stratalog.interop.ingest import FileImport
from stratalog.surfaces.cli.failures import WRONG
from stratalog.surfaces.cli.importing import import_value
from stratalog.surfaces.cli.state import State

_ENDS = (signal.SIGINT, signal.SIGTERM)


def watch_command(
    state: State,
    folders: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="FOLDER...", help="Where to look. Else where Claude Code and Codex keep their sessions."
        ),
    ] = None,
    interval: Annotated[
        float, typer.Option("--interval", metavar="SECONDS", min=0.1, help="How often to look.")
    ] = 2.0,
    once: Annotated[
        bool, typer.Option("--once", metavar="", help="Look once, import what has changed, and end.")
    ] = False,
) -> None:
    """Import the transcripts of running agents as they grow, until Ctrl-C or SIGTERM."""
    places = folders or agents_folders(os.environ)
    failed = False
    with (
        _ending() as ended,
        state.memory() as memory,
        Following(memory, [place.expanduser() for place in places], interval=interval) as following,
    ):
        out = state.output
        if not once:
            listed = ", ".join(map(str, places))
            out.tell(f"following {listed}; Ctrl-C ends it")
        unlisted: Mapping[str, str] = {}
        while True:
            for result in following.look(settled=once, ended=lambda: ended(0)):
                _tell(state, result)
                failed |= result.error is not None
            for folder, why in following.unlisted.items():
                if folder not in unlisted:
                    out.tell(f"{folder}: {why}" + ("" if once else "; it is looked for again"))
            unlisted = following.unlisted
            if once or ended(following.pause):
                break
    if once and failed:
        raise typer.Exit(WRONG)


def agents_folders(environment: Mapping[str, str]) -> list[Path]:
    """Where Claude Code and Codex keep their sessions, as their own variables say, else in the home."""
    home = Path.home()
    claude = Path(environment.get("CLAUDE_CONFIG_DIR") or home / ".claude")
    codex = Path(environment.get("CODEX_HOME") or home / ".codex")
    return [claude / "projects", codex / "sessions"]


def _tell(state: State, result: FileImport) -> None:
    """One line, of people's words or of JSON, at once."""
    out = state.output
    state.finish(import_value([result])["files"][0])
    for session in result.sessions:
        if session.added:
            line = Text.assemble((out.line(session.key.local), "bold cyan"), f"  {session.added:,} new")
            out.print(Text.assemble(line, (f"  {out.line(str(result.path))}", "dim")))
    if result.error is not None:
        out.warn(f"not imported: {out.line(str(result.path))}: {result.error.what}")
    out.flush()


@contextmanager
def _ending() -> Iterator[Callable[[float], bool]]:
    """Waits up to so many seconds for Ctrl-C or SIGTERM, and says whether one came: what is being imported
    then is finished first."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)

    def came(number: int, frame: object) -> None:
        try:
            os.write(writer, b".")
        except BlockingIOError:
            return  # it is full of them

    before = [signal.signal(each, came) for each in _ENDS]
    try:
        yield lambda seconds: bool(select.select([reader], [], [], seconds)[0])
    finally:
        for each, handler in zip(_ENDS, before, strict=True):
            signal.signal(each, handler)
        os.close(reader)
        os.close(writer)
