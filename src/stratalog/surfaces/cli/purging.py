"""`purge`: destroying all that somebody or something has. What it takes; `purges` does it."""

from __future__ import annotations

from typing import Annotated

import typer

from stratalog.errors import InvalidInput
from stratalog.surfaces.cli.confirming import YesOption
from stratalog.surfaces.cli.keys import complete
from stratalog.surfaces.cli.loading import destroy, finish
from stratalog.surfaces.cli.state import State


def purge_command(
    state: State,
    session: Annotated[
        str,
        typer.Option(
            "--session",
            metavar="KEY",
            autocompletion=complete,
            help="A session, and what was drawn from it alone.",
        ),
    ] = "",
    user: Annotated[
        str, typer.Option("--user", metavar="NAME", help="A user, with the sessions that are theirs alone.")
    ] = "",
    agent: Annotated[
        str, typer.Option("--agent", metavar="NAME", help="An agent, with all its sessions.")
    ] = "",
    run: Annotated[str, typer.Option("--run", metavar="NAME", help="A run, with its sessions.")] = "",
    environment: Annotated[
        str,
        typer.Option(
            "--environment",
            metavar="NAME",
            help="Where, with one of those above; alone, all of it. Else `production`.",
        ),
    ] = "",
    everything: Annotated[
        bool, typer.Option("--everything", metavar="", help="All that the tenant has, in every environment.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", metavar="", help="Only say what would be destroyed.")
    ] = False,
    yes: YesOption = False,
    resume: Annotated[
        bool,
        typer.Option("--resume", metavar="", help="Finish a purge that was cut short; nothing else."),
    ] = False,
) -> None:
    """Destroy all that somebody or something has, in every store, and print the receipt."""
    named = {"session": session, "user": user, "agent": agent, "run": run}
    asked = [(kind, id) for kind, id in named.items() if id]
    if everything:
        asked.append(("tenant", ""))
    if environment and not asked:
        asked.append(("environment", ""))
    if resume:
        if asked or dry_run:
            raise InvalidInput("--resume goes with nothing else", hint="it finishes what was begun")
        raise typer.Exit(finish(state))
    if len(asked) != 1:
        raise InvalidInput(
            "say what to purge" if not asked else "a purge is of one thing",
            hint="one of --session, --user, --agent, --run, --environment and --everything",
        )
    raise typer.Exit(destroy(state, *asked[0], environment, dry_run=dry_run, yes=yes))
