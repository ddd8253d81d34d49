"""`sessions` and `search`: finding one's way to a session."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Annotated, Any, Protocol

import msgspec
import typer
from rich.cells import cell_len
from rich.text import Text

from stratalog import Stratalog
from stratalog.engine.core import Found
from stratalog.errors import InvalidInput
from stratalog.interop.export import to_jsonl
from stratalog.surfaces.cli.failures import WRONG
from stratalog.surfaces.cli.keys import Listed, complete, find
from stratalog.surfaces.cli.output import plain_table
from stratalog.surfaces.cli.plain import unicode_text
from stratalog.surfaces.cli.state import State
from stratalog.surfaces.cli.times import local, minute, offset, parse_time
from stratalog.surfaces.cli.transcript import COLOURS, words_on_a_line
from stratalog.types import AnyEntry

_TITLE_ROOM = 20  # cells that the title gets before columns are given up for it
_TITLE_LEAST = 10
_KEY_LEAST = 12
_LAST, _LAST_DAY = "last message", "last on"


class Role(StrEnum):
    """The entries that can be searched."""

    USER = "user"
    ASSISTANT = "assistant"
    TOOL_CALL = "tool_call"
    TOOL_RESULT = "tool_result"
    COMPACTION = "compaction"
    NOTE = "note"


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


def search_command(
    state: State,
    query: Annotated[list[str], typer.Argument(metavar="QUERY...", help="Words, in any language.")],
    limit: Annotated[int, typer.Option("--limit", "-n", metavar="N", min=1, help="How many hits.")] = 10,
    agent: AgentOption = None,
    channel: ChannelOption = None,
    session: Annotated[
        str | None,
        typer.Option("--session", metavar="KEY", autocompletion=complete, help="Only this session's."),
    ] = None,
    role: Annotated[
        list[Role] | None, typer.Option("--role", help="Only this kind of entry; may be said again.")
    ] = None,
    since: Annotated[
        str | None,
        typer.Option(
            "--since", metavar="TIME", help="Not older: 2026-09-14, 2026-09-14T10:30, or 7d for ago."
        ),
    ] = None,
    until: Annotated[
        str | None, typer.Option("--until", metavar="TIME", help="Older than this; a day counts whole.")
    ] = None,
    neighbours: Annotated[
        int,
        typer.Option(
            "--neighbours", "-C", metavar="N", min=0, help="Entries to show before and after each hit."
        ),
    ] = 0,
) -> None:
    """Search what was said, in all sessions, best hits first. Exit code 1 when there is none."""
    if not " ".join(query).strip():
        raise InvalidInput(
            "there are no words to search for", hint="write one, as in `stratalog search clock`"
        )
    with state.memory() as memory:
        hits = search(
            state,
            memory,
            " ".join(query),
            limit=limit,
            agent=agent,
            channel=channel,
            session=session,
            roles=tuple(each.value for each in role) if role else None,
            since=since,
            until=until,
            neighbours=neighbours,
        )
        state.finish({"query": unicode_text(" ".join(query)), "hits": hits})
    if not hits:
        raise typer.Exit(WRONG)


def search(
    state: State,
    memory: Stratalog,
    query: str,
    *,
    limit: int = 10,
    agent: str | None = None,
    channel: str | None = None,
    session: str | None = None,
    roles: tuple[str, ...] | None = None,
    since: str | None = None,
    until: str | None = None,
    neighbours: int = 0,
) -> list[dict[str, Any]]:
    """Prints the hits and returns them."""
    after = parse_time(since) if since is not None else None
    before = parse_time(until, end=True) if until is not None else None
    key = find(memory, session).key if session is not None else None
    with state.output.progress("indexing") as told:
        memory.bring_up_to_date(told)
    found = memory.search(
        query,
        limit=limit,
        agent=agent,
        channel=channel,
        session=key,
        roles=roles,
        after_ts=after,
        before_ts=before,
        neighbours=neighbours,
    )
    if not found:
        state.output.tell("nothing found")
    elif not state.json:
        named = state.named(memory)
        for number, each in enumerate(found, 1):
            _print_hit(state, number, each, named(each.hit.session))
    return [_value(each) for each in found]


def highlighted(text: str, terms: Iterable[str], style: str = "bold yellow") -> Text:
    """`text` with the words that the terms of a hit stand for made to stand out."""
    shown = Text(text)
    for term in terms:
        stem = re.escape(term[:-1]) + "[iy]" if term.endswith("i") and term.isascii() else re.escape(term)
        pattern = rf"(?<![A-Za-z0-9]){stem}\w*" if term.isascii() else stem
        shown.highlight_regex(re.compile(pattern, re.IGNORECASE | re.ASCII), style)
    return shown


def _print_hit(state: State, number: int, found: Found, name: str) -> None:
    out, hit = state.output, found.hit
    dot = f" {out.glyphs.dot} "
    role = hit.role.replace("_", " ")
    colour = COLOURS.get(hit.role, COLOURS["tool" if hit.role.startswith("tool") else "summary"])
    head = Text.assemble(
        (f"{number}. ", "bold"), (role, f"bold {colour}"), (f"{dot}{minute(hit.ts)}{dot}", "dim")
    )
    head.append(out.clip(out.title(found.title), out.width - head.cell_len))
    if number > 1:
        out.print()
    out.print(head)
    for entry in found.before:
        _print_neighbour(state, entry)
    out.print(highlighted(out.wrap(out.line(hit.snippet), 3), hit.terms), indent=3)
    for entry in found.after:
        _print_neighbour(state, entry)
    out.print(Text(f"stratalog show {out.line(name)} --around {hit.seq}", "dim"), indent=3)


def _print_neighbour(state: State, entry: AnyEntry) -> None:
    out = state.output
    words = words_on_a_line(entry)
    if words:
        out.print(Text(out.clip(f"#{entry.seq} {out.line(words)}", out.width - 6), "dim"), indent=5)


def _value(found: Found) -> dict[str, Any]:
    hit = msgspec.structs.asdict(found.hit)
    return {
        **hit,
        "session": str(found.hit.session),
        "title": found.title,
        "before": json_entries(found.before),
        "after": json_entries(found.after),
    }


def json_entries(entries: Iterable[AnyEntry]) -> list[msgspec.Raw]:
    """Entries as they stand in an export, each a JSON value."""
    return [msgspec.Raw(line.rstrip(b"\n")) for line in to_jsonl(entries)]
