"""`quarantine`: texts that the gate kept out of prompts, listed, shown, released and rejected."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import msgspec
import typer
from rich.text import Text

from stratalog.engine.holding import Held, HeldPage, quarantine_of
from stratalog.engine.holding import State as HeldState
from stratalog.surfaces.cli.output import Output, plain_table
from stratalog.surfaces.cli.plain import utf8
from stratalog.surfaces.cli.state import State
from stratalog.surfaces.cli.times import minute

_LEAST = 16  # cells that the text gets in a table, however narrow
_COLOURS = {"waiting": "yellow", "released": "green", "rejected": "red"}

IdArgument = Annotated[str, typer.Argument(metavar="ID", help="The id of the text.", show_default=False)]
ByOption = Annotated[str, typer.Option("--by", metavar="NAME", help="Who decides it.")]


def list_command(
    state: State,
    of_state: Annotated[HeldState | None, typer.Option("--state", help="Only in this state.")] = None,
    limit: Annotated[
        int, typer.Option("--limit", "-n", metavar="N", min=1, max=1000, help="How many to list.")
    ] = 50,
    cursor: Annotated[
        str, typer.Option("--cursor", metavar="TEXT", help="Go on where the list before this ended.")
    ] = "",
) -> None:
    """List what is held: what waits, then what was decided, the newest first."""
    out = state.output
    with state.memory() as memory, quarantine_of(memory) as quarantine:
        page = quarantine.list(state=of_state, limit=limit, after=cursor)
        counts = quarantine.counts()
    if not out.json:
        _print_held(out, page.held)
        _tell(out, page, [f"{number:,} {name}" for name, number in counts.items() if number])
    state.finish({"held": [_value(each) for each in page.held], "cursor": page.next, "counts": counts})


def show_command(state: State, id: IdArgument) -> None:
    """Show a text that is held, and why. What does not show in it is spelt out."""
    with state.memory() as memory, quarantine_of(memory) as quarantine:
        held = quarantine.get(utf8(id))
    if not state.json:
        _print_one(state.output, held)
    state.finish(_value(held))


def release_command(state: State, id: IdArgument, by: ByOption = "") -> None:
    """Let a text enter prompts from now on, quoted as all that is recalled is."""
    with state.memory() as memory, quarantine_of(memory) as quarantine:
        held = quarantine.release(utf8(id), by=utf8(by))
    state.output.tell("released: it may be recalled from now on")
    state.finish(_value(held))


def reject_command(state: State, id: IdArgument, by: ByOption = "") -> None:
    """Keep a text out for good."""
    with state.memory() as memory, quarantine_of(memory) as quarantine:
        held = quarantine.reject(utf8(id), by=utf8(by))
    state.output.tell("rejected: it is not recalled")
    state.finish(_value(held))


ABOUT = "Texts that may not enter a prompt until somebody has looked. Without a command, the list."
COMMANDS = (
    ("list", list_command),
    ("show", show_command),
    ("release", release_command),
    ("reject", reject_command),
)


def _value(held: Held) -> dict[str, Any]:
    return msgspec.structs.asdict(held)


def _print_held(out: Output, held: Sequence[Held]) -> None:
    """A table; an id is never cut, the text is."""
    if not held:
        return
    columns: dict[str, list[str]] = {
        "id": [each.id for each in held],
        "state": [str(each.state) for each in held],
        "from": [each.origin for each in held],
        "why": [out.line(", ".join(each.reasons)) for each in held],
    }
    taken = sum(max(map(len, (name, *cells))) + 2 for name, cells in columns.items())
    table = plain_table(*columns, "text")
    for each, *cells in zip(held, *columns.values(), strict=True):
        shown = [Text(cell, _style(name, each)) for name, cell in zip(columns, cells, strict=True)]
        text = out.line(each.text)
        table.add_row(*shown, Text(out.clip(text, max(_LEAST, out.width - taken)) if out.tty else text))
    out.table(table)


def _style(column: str, held: Held) -> str:
    return _COLOURS[held.state] if column == "state" else "cyan" if column == "id" else ""


def _print_one(out: Output, held: Held) -> None:
    facts = [
        *(("id", held.id), ("state", held.state), ("from", held.origin), ("where", held.source)),
        *(("why", ", ".join(held.reasons)), ("level", str(held.level)), ("met", minute(held.at))),
        *(("times", f"{held.seen:,}"), ("session", held.session), ("user", held.user)),
        ("environment", held.environment),
        ("decided", minute(held.decided_at) if held.decided_at else ""),
        ("by", held.decided_by),
    ]
    for name, value in facts:
        if value:
            out.print(Text.assemble((f"{name:<12}", "dim"), out.line(value)))
    out.print()
    out.print(out.wrap(out.text(held.text)))


def _tell(out: Output, page: HeldPage, counts: Sequence[str]) -> None:
    out.tell(", ".join(counts) if counts else "nothing is held")
    if page.next:
        out.tell(f"there are more: --cursor {page.next}")
