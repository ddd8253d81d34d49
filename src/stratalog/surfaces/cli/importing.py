"""`import`: transcripts in, and an account of what became of every record."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text

from stratalog import SessionKey, Stratalog
from stratalog.errors import Conflict, ImportFailed, LogError, StratalogError
from stratalog.interop.detect import FORMATS, find_transcripts, nothing_at
from stratalog.interop.ingest import FileImport, import_files
from stratalog.surfaces.cli.failures import WRONG, exit_code
from stratalog.surfaces.cli.loading import remember_imported
from stratalog.surfaces.cli.output import Output, plain_table
from stratalog.surfaces.cli.plain import unicode_text
from stratalog.surfaces.cli.state import State

_NAMED = 5


def _formats() -> list[str]:
    return list(FORMATS)


def import_command(
    state: State,
    paths: Annotated[
        list[Path], typer.Argument(metavar="PATH...", help="Transcripts, and folders to look for them in.")
    ],
    format: Annotated[
        str | None,
        typer.Option(
            "--format",
            metavar="NAME",
            autocompletion=_formats,
            help=f"The format of the files, if detection is wrong: {', '.join(FORMATS)}.",
        ),
    ] = None,
    agent: Annotated[
        str | None,
        typer.Option(
            "--agent", metavar="NAME", help="The agent whose sessions they become. Else the format's."
        ),
    ] = None,
    verbose: Annotated[
        bool,
        typer.Option("--verbose", "-v", metavar="", help="List each file, skip and decision."),
    ] = False,
) -> None:
    """Import transcripts of other programs. What is there already is not imported again."""
    if format is not None:
        format = format.replace("-", "_")
        if format not in FORMATS:
            raise ImportFailed(
                "there is no such format", format=format, hint=f"the formats are {', '.join(FORMATS)}"
            )
    with state.memory() as memory:
        results = run_import(state, memory, paths, format=format, agent=agent, verbose=verbose)
        state.finish(import_value(results))
    code = _code(results, paths)
    if code:
        raise typer.Exit(code)


def run_import(
    state: State,
    memory: Stratalog,
    paths: Sequence[Path],
    *,
    format: str | None = None,
    agent: str | None = None,
    verbose: bool = False,
) -> list[FileImport]:
    """Imports the files at `paths`, brings the index up to date, and prints what came of it. A path that is
    not there is an error of its own, unless none is."""
    there = [path for path in paths if path.exists()]
    files = find_transcripts(there or paths)
    results = [FileImport(path, error=nothing_at(path)) for path in paths if path not in there]
    sizes = {path: path.stat().st_size for path in files}
    whole = sum(sizes.values())
    with state.output.progress(f"importing {len(files)} file{'s' * (len(files) != 1)}") as told:
        before = 0

        def reading(path: Path, done: int, total: int) -> None:
            if told is not None:
                told(before + done, max(1, whole))

        made = import_files(
            memory, files, format=format, agent=agent, progress=reading, remember=remember_imported
        )
        for result in made:
            results.append(result)
            before += sizes[result.path]
            if told is not None:
                told(before, max(1, whole))
    with state.output.progress("indexing") as told:
        memory.bring_up_to_date(told)
    _print(state, memory, results, verbose)
    return results


def import_value(results: Sequence[FileImport]) -> dict[str, Any]:
    """The account as JSON."""
    return {
        "added": sum(session.added for result in results for session in result.sessions),
        "present": sum(session.present for result in results for session in result.sessions),
        "files": [_file_value(result) for result in results],
    }


def _file_value(result: FileImport) -> dict[str, Any]:
    report = result.report
    return {
        "path": unicode_text(result.path),
        "format": report.format if report else None,
        "error": unicode_text(result.error) if result.error else None,
        "sessions": [
            {
                "key": str(session.key),
                "added": session.added,
                "present": session.present,
                "memories": dict(session.memories),
            }
            for session in result.sessions
        ],
        "read": report.read if report else 0,
        "used": report.used if report else 0,
        "merged": report.merged if report else {},
        "kept": report.kept if report else {},
        "skipped": [
            {"line": skip.line, "kind": skip.kind, "reason": unicode_text(skip.reason)}
            for skip in (report.skipped if report else ())
        ],
        "notes": [unicode_text(note) for note in (report.notes if report else ())],
    }


def _code(results: Sequence[FileImport], paths: Sequence[Path]) -> int:
    """A log that cannot be written is the worst; a file that was named must be readable, and one of all."""
    errors = [result.error for result in results if result.error is not None]
    serious = [error for error in errors if isinstance(error, LogError | Conflict)]
    if serious:
        return max(map(exit_code, serious))
    named = set(paths)
    failed = any(result.error is not None and result.path in named for result in results)
    return WRONG if failed or not any(result.error is None for result in results) else 0


def _print(state: State, memory: Stratalog, results: Sequence[FileImport], verbose: bool) -> None:
    out = state.output
    if out.json:
        return
    if verbose:
        for result in results:
            _print_file(out, result)
    if not results:
        out.print("no file that may be a transcript is there")
        return
    if any(result.report for result in results):
        _print_formats(out, results)
    skipped = Counter(
        (skip.reason if len(skip.reason) < 100 else skip.kind, skip.kind)
        for result in results
        if result.report
        for skip in result.report.skipped
    )
    if skipped:
        table = plain_table()
        table.add_column("skipped", justify="right")
        table.add_column("kind", overflow="fold")
        table.add_column("why", overflow="fold")
        for (reason, kind), count in skipped.most_common(None if verbose else 12):
            table.add_row(f"{count:,}", Text(out.line(kind)), Text(out.line(reason)))
        out.print()
        out.table(table)
        if not verbose:
            out.print(Text("--verbose lists each", "dim"))
    _print_failures(out, results)
    _print_sessions(state, memory, results)


def _print_formats(out: Output, results: Sequence[FileImport]) -> None:
    table = plain_table("format")
    for name in ("files", "sessions", "records", "kept", "merged", "skipped", "added", "known"):
        table.add_column(name, justify="right")
    rows: dict[str, list[int]] = {}
    for result in results:
        report = result.report
        if report is None:
            continue
        row = rows.setdefault(report.format, [0] * 8)
        numbers = (
            1,
            len(result.sessions),
            report.read,
            report.used,
            sum(report.merged.values()),
            len(report.skipped),
            sum(session.added for session in result.sessions),
            sum(session.present for session in result.sessions),
        )
        rows[report.format] = [a + b for a, b in zip(row, numbers, strict=True)]
    for format, row in sorted(rows.items()):
        table.add_row(format, *(f"{number:,}" for number in row))
    if len(rows) > 1:
        total = [sum(column) for column in zip(*rows.values(), strict=True)]
        table.add_section()
        table.add_row("all", *(f"{number:,}" for number in total), style="bold")
    out.table(table)


def _print_failures(out: Output, results: Sequence[FileImport]) -> None:
    failed = [result for result in results if result.error is not None]
    if not failed:
        return
    if len(failed) < len(results):
        out.print()
    out.print(Text(f"not imported: {len(failed)} file{'s' * (len(failed) > 1)}", "bold red"))
    for result in failed:
        out.print(
            Text.assemble(out.line(str(result.path)), (f"  {out.line(_why(result.error))}", "dim")), indent=2
        )


def _why(error: StratalogError | None) -> str:
    return error.what if error is not None else ""


def _print_sessions(state: State, memory: Stratalog, results: Sequence[FileImport]) -> None:
    out = state.output
    keys = list(dict.fromkeys(session.key for result in results for session in result.sessions))
    if not keys:
        return
    outcomes: Counter[str] = Counter()
    for result in results:
        for session in result.sessions:
            outcomes.update(session.memories)
    if outcomes:
        told = ", ".join(f"{count:,} {outcome}" for outcome, count in sorted(outcomes.items()))
        out.print()
        out.print(f"Memories: {told}")
    new = sum(session.added for result in results for session in result.sessions)
    named = state.named(memory)
    shown = [key for key in keys if _added(results, key)][:_NAMED]
    out.print()
    if not new:
        there = "the session was" if len(keys) == 1 else f"all {len(keys):,} sessions were"
        out.print(f"Nothing new: {there} there already.")
        return
    for key in shown:
        title, name = memory.session(key).meta.title, out.line(named(key))
        room = out.width - len(name) - 2
        out.print(Text.assemble((name, "bold cyan"), f"  {out.clip(out.line(title), room)}"))
    more = len([key for key in keys if _added(results, key)]) - len(shown)
    if more > 0:
        out.print(Text(f"{out.glyphs.more} and {more} more; `stratalog sessions` lists all", "dim"))


def _added(results: Sequence[FileImport], key: SessionKey) -> bool:
    return any(session.key == key and session.added for result in results for session in result.sessions)


def _print_file(out: Output, result: FileImport) -> None:
    out.print(Text(out.line(str(result.path)), "bold"))
    if result.error is not None:
        out.print(Text(out.line(str(result.error)), "red"), indent=2)
    for session in result.sessions:
        out.print(
            f"{out.line(session.key.local)}: {session.added:,} new, {session.present:,} known",
            indent=2,
        )
    if result.report is not None:
        for skip in result.report.skipped:
            where = f"line {skip.line}: " if skip.line else ""
            out.print(Text(f"skipped {where}{out.line(skip.kind)}: {out.line(skip.reason)}", "dim"), indent=2)
        for note in result.report.notes:
            out.print(Text(out.line(note), "dim"), indent=2)
    out.print()
