"""`title`, `pin`, `fork`, `restart` and `delete`: what changes one session."""

from __future__ import annotations

from typing import Annotated

import typer

from stratalog import parse_key
from stratalog.errors import InvalidInput, SessionBusy
from stratalog.surfaces.cli.confirming import YesOption, asks, confirmed
from stratalog.surfaces.cli.failures import WRONG
from stratalog.surfaces.cli.keys import Listed, find, new_key
from stratalog.surfaces.cli.loading import drop_records
from stratalog.surfaces.cli.output import Output
from stratalog.surfaces.cli.plain import counted
from stratalog.surfaces.cli.state import KeyArgument, State


def title_command(
    state: State,
    key: KeyArgument,
    title: Annotated[str, typer.Argument(metavar="TITLE", help="Its new name.")],
) -> None:
    """Name a session. No program replaces a name that you gave."""
    if not title.strip():
        raise InvalidInput("the title is empty", hint="write at least one character that shows")
    with state.memory() as memory:
        meta = find(memory, key).set_title(title)
        state.output.tell(f"titled {_name(state.output, meta)}")
        state.finish(meta)


def pin_command(
    state: State,
    key: KeyArgument,
    off: Annotated[bool, typer.Option("--off", metavar="", help="Take the pin off.")] = False,
) -> None:
    """Pin a session, so that it is listed before the others."""
    with state.memory() as memory:
        meta = find(memory, key).pin(not off)
        state.output.tell(f"{'unpinned' if off else 'pinned'} {_name(state.output, meta)}")
        state.finish(meta)


def fork_command(
    state: State,
    key: KeyArgument,
    new: Annotated[
        str,
        typer.Argument(
            metavar="NEWKEY", help="A new key, or just a new chat for the same agent and channel."
        ),
    ],
    at: Annotated[
        str | None,
        typer.Option(
            "--at", metavar="ENTRY", help="The last entry to take along: its seq or its id. Else all."
        ),
    ] = None,
) -> None:
    """Begin a new session with the history of another."""
    with state.memory() as memory:
        session = find(memory, key)
        to = new_key(session.key, new)
        made = session.fork(to, at=int(at) if at is not None and at.isdecimal() else at)
        meta = made.meta
        state.output.tell(f"forked into {made.key.local}, {counted(meta.messages, 'message')}")
        state.finish(meta)


def restart_command(state: State, key: KeyArgument, yes: YesOption = False) -> None:
    """Begin a session's history anew. Title and pin stay; `show --all` still shows what was before."""
    with state.memory() as memory:
        session = find(memory, key)
        done = session.restart(force=yes)
        if not done.done:
            busy = "a turn of this session is running"
            if not asks(state.output):
                raise SessionBusy(busy, key=str(session.key), hint="--yes ends it and restarts the session")
            if not confirmed(
                state.output, f"{_name(state.output, session.meta)}: {busy}. End it and restart?"
            ):
                state.finish({"key": str(session.key), "restarted": False})
                raise typer.Exit(WRONG)
            session.restart(force=True)
        state.output.tell(f"restarted {_name(state.output, session.meta)}")
        state.finish({"key": str(session.key), "restarted": True})


def delete_command(state: State, key: KeyArgument, yes: YesOption = False) -> None:
    """Delete a session with all that belongs to it, for good."""
    with state.memory() as memory:
        session = find(memory, key)
        meta = session.meta
        if not yes:
            if not asks(state.output):
                raise InvalidInput(
                    "deleting needs a yes",
                    key=str(session.key),
                    hint="there is no terminal to ask on: use --yes",
                )
            whole = f"{_name(state.output, meta)} with its {counted(meta.messages, 'message')}"
            if not confirmed(state.output, f"Delete {whole} for good?"):
                state.output.tell("nothing was deleted")
                state.finish({"key": str(session.key), "deleted": False})
                raise typer.Exit(WRONG)
        session.delete()
        drop_records(memory, session.key, str(meta.metadata.get("environment") or ""))
        state.output.tell(f"deleted {_name(state.output, meta)}")
        state.finish({"key": str(session.key), "deleted": True})


def _name(output: Output, meta: Listed) -> str:
    """The key, which is one session's alone, and the title, which need not be."""
    return f'{output.line(parse_key(meta.key).local)} "{output.title(meta.title)}"'
