"""Who asks for records: the options that every command of `memory` has besides the common ones.

Whoever has the data directory may ask as anybody; an admin only by saying so.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Annotated, Any, Concatenate, NamedTuple, ParamSpec

import typer

from stratalog.surfaces.cli.keys import complete
from stratalog.surfaces.cli.state import State

P = ParamSpec("P")
PANEL = "Who asks"


class Who(NamedTuple):
    """Who asks, as it was typed; "" is nobody. `environment` "" is production."""

    user: str = ""
    agent: str = ""
    session: str = ""
    run: str = ""
    environment: str = ""
    admin: bool = False


def asking(run: Callable[Concatenate[State, Who, P], None]) -> Callable[..., None]:
    """`run` for `state.command`: with the options that make its second argument."""
    state, _, *own = inspect.signature(run, eval_str=True).parameters.values()
    who = list(inspect.signature(_who, eval_str=True).parameters.values())

    def call(state: State, **given: Any) -> None:
        asked = Who(**{name: given.pop(name) for name in Who._fields})
        run(state, asked, **given)  # type: ignore[call-arg]  # typer fills in what the signature below says

    options = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in (*own, *who)]
    call.__dict__["__signature__"] = inspect.Signature([state, *options])
    call.__name__, call.__doc__ = run.__name__, run.__doc__
    return call


def _who(
    user: Annotated[
        str, typer.Option("--user", metavar="NAME", help="The user who asks.", rich_help_panel=PANEL)
    ] = "",
    agent: Annotated[
        str, typer.Option("--agent", metavar="NAME", help="The agent that asks.", rich_help_panel=PANEL)
    ] = "",
    session: Annotated[
        str,
        typer.Option(
            "--session",
            metavar="KEY",
            autocompletion=complete,
            help="The session in which it is asked; its agent asks too.",
            rich_help_panel=PANEL,
        ),
    ] = "",
    run: Annotated[
        str,
        typer.Option("--run", metavar="NAME", help="The run in which it is asked.", rich_help_panel=PANEL),
    ] = "",
    environment: Annotated[
        str,
        typer.Option(
            "--environment",
            metavar="NAME",
            help="Whose records are apart from all others'. Else `production`.",
            rich_help_panel=PANEL,
        ),
    ] = "",
    admin: Annotated[
        bool,
        typer.Option(
            "--admin",
            metavar="",
            help="Ask as an admin, who may use every scope of the environment.",
            rich_help_panel=PANEL,
        ),
    ] = False,
) -> None:
    """The signature of the options."""
