"""`chat`: talking with a model in a session."""

from __future__ import annotations

from typing import Annotated

import typer

from stratalog.surfaces.cli.keys import complete
from stratalog.surfaces.cli.loading import converse
from stratalog.surfaces.cli.state import State


def chat_command(
    state: State,
    key: Annotated[
        str | None,
        typer.Argument(
            metavar="KEY",
            autocompletion=complete,
            help="The session to go on with, or the whole key of a new one. Else a new chat.",
            show_default=False,
        ),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option("--model", metavar="SPEC", help="The model, as openai:gpt-5. Else the setting."),
    ] = None,
    base_url: Annotated[
        str | None,
        typer.Option("--base-url", metavar="URL", help="Where the model is. Else the setting."),
    ] = None,
    system: Annotated[
        str | None, typer.Option("--system", metavar="TEXT", help="A system message to begin with.")
    ] = None,
    old: Annotated[
        str | None,
        typer.Option(
            "--continue",
            metavar="OLD",
            autocompletion=complete,
            help="Begin where this session is. KEY is then that of the new one.",
        ),
    ] = None,
    window: Annotated[
        int | None,
        typer.Option(
            "--window", metavar="TOKENS", min=1, help="The model's window, unless agent.toml says it."
        ),
    ] = None,
    user: Annotated[
        str | None,
        typer.Option("--user", metavar="NAME", help="Who talks, for what is remembered. Else the setting."),
    ] = None,
    memory: Annotated[
        bool,
        typer.Option(
            "--memory/--no-memory", help="Whether it knows what is remembered, and remembers what is said."
        ),
    ] = True,
) -> None:
    """Talk with a model. All that is said is in the log; /help lists what else can be done."""
    code = converse(
        state,
        key=key,
        model=model,
        base_url=base_url,
        system=system,
        old=old,
        window=window,
        user=user,
        memory=memory,
    )
    raise typer.Exit(code)
