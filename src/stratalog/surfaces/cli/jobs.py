"""`jobs`: the work in the background, what became of it, and trying again what failed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Annotated, Any

import msgspec
import typer
from rich.text import Text

from stratalog.engine.background import Job, JobPage, Jobs, jobs_of
from stratalog.engine.background import State as JobState
from stratalog.errors import InvalidInput
from stratalog.surfaces.cli.loading import work
from stratalog.surfaces.cli.output import Output, plain_table
from stratalog.surfaces.cli.plain import counted
from stratalog.surfaces.cli.state import State
from stratalog.surfaces.cli.times import minute

_ERROR_ROOM = 20  # cells that the error gets before columns are given up for it
_CUT = 30  # cells of what a job is about, in a table
_COLOURS = {"failed": "red", "stopped": "yellow", "running": "cyan", "done": "dim"}

IdArgument = Annotated[str, typer.Argument(metavar="ID", help="The id of the job.", show_default=False)]


def list_command(
    state: State,
    of_state: Annotated[JobState | None, typer.Option("--state", help="Only in this state.")] = None,
    kind: Annotated[str | None, typer.Option("--kind", metavar="KIND", help="Only of this kind.")] = None,
    limit: Annotated[
        int, typer.Option("--limit", "-n", metavar="N", min=1, max=1000, help="How many to list.")
    ] = 50,
    cursor: Annotated[
        str, typer.Option("--cursor", metavar="TEXT", help="Go on where the list before this ended.")
    ] = "",
) -> None:
    """List the jobs: those that are not done, then those that are, the newest first."""
    out = state.output
    with _opened(state) as jobs:
        page = jobs.list(state=of_state, kind=kind, limit=limit, after=cursor)
        counts, spent = jobs.counts(), jobs.today()
    if not out.json:
        _print_jobs(out, page.jobs)
        _tell(out, page, [f"{number:,} {name}" for name, number in counts.items() if number])
        if spent.calls:
            calls, tokens = counted(spent.calls, "call"), counted(spent.tokens, "token")
            out.tell(f"models today (UTC): {calls}, {tokens}")
    state.finish(
        {
            "jobs": [_value(job) for job in page.jobs],
            "cursor": page.next,
            "counts": counts,
            "today": {"calls": spent.calls, "tokens": spent.tokens},
        }
    )


def show_command(state: State, id: IdArgument) -> None:
    """Show a job with all that is known of it."""
    with _opened(state) as jobs:
        job = jobs.get(id)
    _print_job(state.output, job)
    state.finish(_value(job))


def retry_command(
    state: State,
    id: Annotated[
        str, typer.Argument(metavar="ID", help="The id of the job. Else --all.", show_default=False)
    ] = "",
    every: Annotated[bool, typer.Option("--all", metavar="", help="All that failed or stopped.")] = False,
) -> None:
    """Let a job that failed or was stopped be done again, as soon as the background comes to it."""
    if bool(id) == every:
        raise InvalidInput("say which job to retry", hint="give its ID, or --all")
    with _opened(state) as jobs:
        if every:
            number = jobs.retry_all()
        else:
            jobs.retry(id)
            number = 1
    state.output.tell(f"{counted(number, 'job')} will be done again" if number else "there is none to retry")
    state.finish({"retried": number})


def run_command(
    state: State,
    forever: Annotated[
        bool, typer.Option("--forever", metavar="", help="Go on, every so often, until Ctrl-C.")
    ] = False,
) -> None:
    """Do what is due, for every tenant of the data directory. Exit code 1 when some of it failed."""
    raise typer.Exit(work(state, forever=forever))


ABOUT = "Work in the background: what is due, what failed and why. Without a command, the list."
COMMANDS = (
    ("list", list_command),
    ("show", show_command),
    ("retry", retry_command),
    ("run", run_command),
)


@contextmanager
def _opened(state: State) -> Iterator[Jobs]:
    """The jobs that the options name."""
    with state.memory() as memory:
        jobs = jobs_of(memory)
        try:
            yield jobs
        finally:
            jobs.close()


def _value(job: Job) -> dict[str, Any]:
    return msgspec.structs.asdict(job)


# --- showing ---


def _print_jobs(out: Output, jobs: Sequence[Job]) -> None:
    """A table of jobs. On a terminal what is about them goes before the error does; an id is never cut."""
    if not jobs:
        return
    columns: dict[str, list[str]] = {
        "id": [job.id for job in jobs],
        "kind": [out.line(job.kind) for job in jobs],
        "about": [out.clip(out.line(job.key or job.session), _CUT) for job in jobs],
        "state": [job.state for job in jobs],
        "tries": [f"{job.attempts:,}" for job in jobs],
        "next": [_next(job) for job in jobs],
    }
    for name in ("about", "next"):
        if not any(columns[name]):
            del columns[name]
    errors = [out.line(job.error) for job in jobs]
    if out.tty:
        wanted = min(_ERROR_ROOM, max(map(len, errors)))
        for given_up in ("tries", "next", "about"):
            if _room(out, columns) < wanted:
                columns.pop(given_up, None)
    room = max(8, _room(out, columns))
    table = plain_table()
    for name in columns:
        table.add_column(name, no_wrap=True, justify="right" if name == "tries" else "left")
    if any(errors):
        table.add_column("error", no_wrap=True)
    for job, error, *cells in zip(jobs, errors, *columns.values(), strict=True):
        shown = [Text(cell, _style(name, job)) for name, cell in zip(columns, cells, strict=True)]
        table.add_row(*shown, *([Text(out.clip(error, room))] if any(errors) else []))
    out.table(table)


def _style(column: str, job: Job) -> str:
    return _COLOURS.get(job.state, "") if column == "state" else "cyan" if column == "id" else ""


def _next(job: Job) -> str:
    """When it will be taken; of a running one that is the end of its lease, which nobody waits for."""
    return minute(job.next_at) if job.next_at and job.state != "running" else ""


def _room(out: Output, columns: dict[str, list[str]]) -> int:
    """The cells that the columns leave for the error."""
    return out.width - sum(
        max(Text(cell).cell_len for cell in (name, *cells)) + 2 for name, cells in columns.items()
    )


def _tell(out: Output, page: JobPage, counts: Sequence[str]) -> None:
    """What stands beside the table: how many there are in each state, and how to go on."""
    out.tell(", ".join(counts) if counts else "no jobs yet")
    if counts and not page.jobs:
        out.tell("no such jobs")
    if page.next:
        out.tell(f"there are more: --cursor {page.next}")


def _print_job(out: Output, job: Job) -> None:
    facts = [
        ("id", job.id),
        ("kind", job.kind),
        ("about", job.key),
        ("session", job.session),
        ("user", job.user),
        ("environment", job.environment),
        ("state", job.state),
        ("tries", f"{job.attempts:,}"),
        ("put", minute(job.created_at)),
        ("changed", minute(job.updated_at)),
        ("next", _next(job)),
        ("error", job.error),
        ("asked", _json(job.args)),
        ("result", _json(job.result)),
    ]
    for name, value in facts:
        if value:
            out.print(Text.assemble((f"{name:<12}", "dim"), out.line(value)))


def _json(value: dict[str, Any]) -> str:
    return msgspec.json.encode(value).decode() if value else ""
