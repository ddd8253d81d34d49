"""The door of the command line: its commands, its options before them, and how a run ends."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Sequence
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from stratalog import __version__
from stratalog.surfaces.cli import (
    changing,
    chatting,
    compacting,
    continuing,
    demo,
    exporting,
    importing,
    jobs,
    kb,
    listing,
    mcp,
    measuring,
    metadata,
    purging,
    quarantine,
    reading,
    remembering,
    searching,
    serving,
    tokens,
    upkeep,
    watching,
)
from stratalog.surfaces.cli.failures import guarded
from stratalog.surfaces.cli.state import DataOption, JsonOption, State, TenantOption, command

NAME = "stratalog"


class _Command(TyperCommand):
    """A command whose help does not say that a flag such as `--help` takes a `<bool>`."""

    def get_params(self, ctx: Any) -> list[Any]:
        return _without_types(super().get_params(ctx))


class _Group(TyperGroup):
    """The commands, with an end for each run that is one of `failures`."""

    def get_params(self, ctx: Any) -> list[Any]:
        return _without_types(super().get_params(ctx))

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        windows_expand_args: bool = True,
        **extra: Any,
    ) -> Any:
        given = list(sys.argv[1:] if args is None else args)
        before = given[: given.index("--")] if "--" in given else given

        def run() -> Any:
            return super(_Group, self).main(
                given, NAME, complete_var, standalone_mode=False, windows_expand_args=False, **extra
            )

        sys.exit(guarded(run, "--json" in before))


def _without_types(parameters: list[Any]) -> list[Any]:
    for each in parameters:
        if getattr(each, "is_flag", False):
            each.metavar = ""
    return parameters


app = typer.Typer(
    name=NAME,
    cls=_Group,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback(invoke_without_command=True)
def root(
    context: typer.Context,
    data: DataOption = None,
    tenant: TenantOption = None,
    json: JsonOption = False,
    version: Annotated[bool, typer.Option("--version", metavar="", help="Print the version.")] = False,
) -> None:
    """The memory of an agent: what was said, kept, searched, and fitted into a model's context."""
    state = context.obj = State(data, tenant, json)
    if version:
        state.output.print(f"{NAME} {__version__}")
        state.finish({"version": __version__})
        raise typer.Exit
    if context.invoked_subcommand is None:
        if json:
            raise typer.BadParameter("a command is missing", ctx=context)
        typer.echo(context.get_help())


for _name, _run in (
    ("chat", chatting.chat_command),
    ("import", importing.import_command),
    ("watch", watching.watch_command),
    ("sessions", listing.sessions_command),
    ("search", searching.search_command),
    ("show", reading.show_command),
    ("context", reading.context_command),
    ("title", changing.title_command),
    ("pin", changing.pin_command),
    ("metadata", metadata.metadata_command),
    ("fork", changing.fork_command),
    ("continue", continuing.continue_command),
    ("compact", compacting.compact_command),
    ("restart", changing.restart_command),
    ("delete", changing.delete_command),
    ("purge", purging.purge_command),
    ("export", exporting.export_command),
    ("doctor", upkeep.doctor_command),
    ("rebuild", upkeep.rebuild_command),
    ("demo", demo.demo_command),
    ("serve", serving.serve_command),
    ("mcp", mcp.mcp_command),
):
    app.command(_name, cls=_Command)(command(_run))


def _grouped(
    name: str,
    about: str,
    commands: Sequence[tuple[str, Callable[..., None]]],
    bare: Callable[[State], None] | None = None,
) -> None:
    """Adds a group of commands, which alone does what `bare` does, or shows its help."""
    group = typer.Typer(cls=_Group)

    def begin(
        context: typer.Context,
        data: DataOption = None,
        tenant: TenantOption = None,
        json: JsonOption = False,
    ) -> None:
        root = context.find_root()
        root.obj = root.obj.or_else(data, tenant, json)
        if context.invoked_subcommand is not None:
            return
        if bare is not None:
            bare(root.obj)
        elif root.obj.json:
            raise typer.BadParameter("a command is missing", ctx=context)
        else:
            typer.echo(context.get_help())

    group.callback(invoke_without_command=True, help=about)(begin)
    for each, run in commands:
        group.command(each, cls=_Command)(command(run))
    app.add_typer(group, name=name)


_grouped("memory", remembering.ABOUT, remembering.COMMANDS)
_grouped("jobs", jobs.ABOUT, jobs.COMMANDS, jobs.list_command)
_grouped("kb", kb.ABOUT, kb.COMMANDS, kb.list_command)
_grouped("quarantine", quarantine.ABOUT, quarantine.COMMANDS, quarantine.list_command)
_grouped("eval", measuring.ABOUT, measuring.COMMANDS)
_grouped("token", tokens.ABOUT, tokens.COMMANDS, tokens.list_command)


def main() -> None:
    """Runs the command line and exits. What is logged is for programs; here it is told in words."""
    logging.getLogger(NAME).addHandler(logging.NullHandler())
    app()
