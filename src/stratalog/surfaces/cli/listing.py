"""`sessions`: finding one's way to a session."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Annotated, Any, Protocol

import msgspec
import typer
from rich.cells import cell_len
from rich.text import Text

from stratalog import Stratalog
from stratalog.interop.export import to_jsonl
from stratalog.surfaces.cli.keys import Listed
from stratalog.surfaces.cli.output import plain_table
from stratalog.surfaces.cli.state import State
from stratalog.surfaces.cli.times import local, minute, offset
from stratalog.types import AnyEntry

_TITLE_ROOM = 20  # cells that the title gets before columns are given up for it
_TITLE_LEAST = 10
_KEY_LEAST = 12
_LAST, _LAST_DAY = "last message", "last on"


class _Session(Listed, Protocol):
    """What a list says of a session."""

    @property
    def pinned(self) -> bool: ...
    @property
    def messages(self) -> int: ...
    @property
    def updated_at(self) -> int: ...


AgentOption = Annotated[str | None, typer.Option("--agent", metavar="NAME", help="Only this agent's.")]
ChannelOption = Annotated[str | None, typer.Option("--channel", metavar="NAME", help="Only this channel's.")]


def sessions_command(
    state: State,
    agent: AgentOption = None,
    channel: ChannelOption = None,
    limit: Annotated[int, typer.Option("--limit", "-n", metavar="N", min=1, help="How many to list.")] = 50,
    cursor: Annotated[
        str, typer.Option("--cursor", metavar="TEXT", help="Go on where the list before this ended.")
    ] = "",
) -> None:
    """List sessions: pinned ones first, then the newest by their last message."""
    with state.memory() as memory:
        state.finish(list_sessions(state, memory, agent=agent, channel=channel, limit=limit, cursor=cursor))


def list_sessions(
    state: State,
    memory: Stratalog,
    *,
    agent: str | None = None,
    channel: str | None = None,
    limit: int = 50,
    cursor: str = "",
) -> Any:
    """Prints the list and returns it."""
    out = state.output
    page = memory.sessions(agent=agent, channel=channel, limit=limit, cursor=cursor)
    if out.json:
        return page
    if not page.sessions:
        filtered = agent is not None or channel is not None or cursor
        out.tell("no such sessions" if filtered else "no sessions yet: `stratalog import PATH` makes some")
        return page
    _print_sessions(state, memory, page.sessions)
    if page.cursor:
        options = "".join(
            f" --{name} {value}" for name, value in (("agent", agent), ("channel", channel)) if value
        )
        out.tell(f"there are more: stratalog sessions{options} --limit {limit} --cursor {page.cursor}")
    return page


def _print_sessions(state: State, memory: Stratalog, sessions: Sequence[_Session]) -> None:
    out = state.output
    offsets = {offset(moment) for meta in sessions if (moment := local(meta.updated_at))}
    same = offsets.pop() if len(offsets) == 1 else ""
    named = state.named(memory)
    columns: dict[str, list[Text]] = {
        name: [] for name in ("", "key", "agent", "messages", f"{_LAST}\n{same}".rstrip(), "title")
    }
    for meta in sessions:
        key = memory.session(meta.key).key
        moment = local(meta.updated_at)
        cells = (
            Text(out.glyphs.pin if meta.pinned else "", "yellow"),
            Text(out.line(named(key)), "cyan"),
            Text(out.clip(out.line(key.agent), 14)),
            Text(f"{meta.messages:,}"),
            Text(f"{moment:%Y-%m-%d %H:%M}" if moment and same else minute(meta.updated_at)),
            Text(out.title(meta.title)),
        )
        for column, cell in zip(columns.values(), cells, strict=True):
            column.append(cell)
    if not any(meta.pinned for meta in sessions):
        del columns[""]
    if out.tty:
        columns = _fitted(columns, out.width)
    room = max(_TITLE_LEAST, _room(columns, out.width))
    widest = _width("key", columns["key"])
    key_room = min(widest, max(_KEY_LEAST, widest + min(0, _room(columns, out.width) - room)))
    table = plain_table()
    for head in columns:
        if head == "key" and out.tty:
            # A key that must be cut is cut into lines, so that all of it can still be copied.
            table.add_column(head, overflow="fold", width=key_room)
        else:
            table.add_column(head, no_wrap=True, justify="right" if head == "messages" else "left")
    for *row, title in zip(*columns.values(), strict=True):
        table.add_row(*row, Text(out.clip(title.plain, room)))
    out.table(table)


def _fitted(columns: dict[str, list[Text]], width: int) -> dict[str, list[Text]]:
    """The columns that leave the title its room: first the agent goes, then the time of day, and only where
    that does not do the count of messages and the day."""
    wanted = min(_TITLE_ROOM, _width("title", columns["title"]))
    if _room(columns, width) < wanted:
        columns = {head: cells for head, cells in columns.items() if head != "agent"}
    if _room(columns, width) < wanted:
        columns = dict(
            (_LAST_DAY, [Text(cell.plain.partition(" ")[0]) for cell in cells])
            if head.startswith(_LAST)
            else (head, cells)
            for head, cells in columns.items()
        )
    for given_up in ("messages", _LAST_DAY):
        if _room(columns, width) < min(_TITLE_LEAST, wanted):
            columns = {head: cells for head, cells in columns.items() if head != given_up}
    return columns


def _room(columns: dict[str, list[Text]], width: int) -> int:
    """The cells that the other columns leave for the title."""
    others = [_width(head, cells) + 2 for head, cells in columns.items() if head != "title"]
    return width - sum(others)


def _width(head: str, cells: Sequence[Text]) -> int:
    return max(*map(cell_len, head.split("\n")), *(cell.cell_len for cell in cells), 0)


def json_entries(entries: Iterable[AnyEntry]) -> list[msgspec.Raw]:
    """Entries as they stand in an export, each a JSON value."""
    return [msgspec.Raw(line.rstrip(b"\n")) for line in to_jsonl(entries)]
