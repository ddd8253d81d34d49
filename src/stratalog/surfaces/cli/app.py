"""The door of the command line: its commands, its options before them, and how a run ends."""

from __future__ import annotations

import logging
import sys
from collections.abc import Sequence
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
    importing,
    jobs,
    kb,
    listing,
    measuring,
    metadata,
    purging,
    quarantine,
    reading,
    remembering,
    searching,
    upkeep,
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
    ("export", reading.export_command),
    ("doctor", upkeep.doctor_command),
    ("rebuild", upkeep.rebuild_command),
    ("demo", demo.demo_command),
):
    app.command(_name, cls=_Command)(command(_run))


_memory = typer.Typer(cls=_Group)


@_memory.callback(invoke_without_command=True)
def memory(
    context: typer.Context,
    data: DataOption = None,
    tenant: TenantOption = None,
    json: JsonOption = False,
) -> None:
    """Records: what is worth knowing later, beside what was said."""
    root = context.find_root()
    root.obj = root.obj.or_else(data, tenant, json)
    if context.invoked_subcommand is None:
        if root.obj.json:
            raise typer.BadParameter("a command is missing", ctx=context)
        typer.echo(context.get_help())


for _name, _run in remembering.COMMANDS:
    _memory.command(_name, cls=_Command)(command(_run))
app.add_typer(_memory, name="memory")

_jobs = typer.Typer(cls=_Group)
_jobs.callback(invoke_without_command=True)(jobs.jobs_group)
for _name, _job in jobs.COMMANDS:
    _jobs.command(_name, cls=_Command)(command(_job))
app.add_typer(_jobs, name="jobs")

_kb = typer.Typer(cls=_Group)
_kb.callback(invoke_without_command=True)(kb.kb_group)
for _name, _kept in kb.COMMANDS:
    _kb.command(_name, cls=_Command)(command(_kept))
app.add_typer(_kb, name="kb")

_quarantine = typer.Typer(cls=_Group)
_quarantine.callback(invoke_without_command=True)(quarantine.quarantine_group)
for _name, _held in quarantine.COMMANDS:
    _quarantine.command(_name, cls=_Command)(command(_held))
app.add_typer(_quarantine, name="quarantine")

_eval = typer.Typer(cls=_Group)
_eval.callback(invoke_without_command=True)(measuring.eval_group)
for _name, _measured in measuring.COMMANDS:
    _eval.command(_name, cls=_Command)(command(_measured))
app.add_typer(_eval, name="eval")


def main() -> None:
    """Runs the command line and exits. What is logged is for programs; here it is told in words."""
    logging.getLogger(NAME).addHandler(logging.NullHandler())
    app()
