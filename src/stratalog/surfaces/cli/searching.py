"""`search`: what was said, and records and documents beside it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Annotated, Any

import msgspec
import typer
from rich.text import Text

from stratalog import Stratalog
from stratalog.engine.asking import times_in
from stratalog.engine.core import Found
from stratalog.errors import InvalidInput
from stratalog.surfaces.cli.failures import WRONG
from stratalog.surfaces.cli.keys import complete, find
from stratalog.surfaces.cli.listing import AgentOption, ChannelOption, json_entries
from stratalog.surfaces.cli.loading import beside
from stratalog.surfaces.cli.plain import parts_line, unicode_text
from stratalog.surfaces.cli.state import State
from stratalog.surfaces.cli.times import minute, parse_time
from stratalog.surfaces.cli.transcript import COLOURS, words_on_a_line
from stratalog.types import AnyEntry


class Role(StrEnum):
    """The entries that can be searched."""

    USER = "user"
    ASSISTANT = "assistant"
    TOOL_CALL = "tool_call"
    TOOL_RESULT = "tool_result"
    COMPACTION = "compaction"
    NOTE = "note"


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
    per_session: Annotated[
        int | None, typer.Option("--per-session", metavar="N", min=1, help="At most so many of one session.")
    ] = None,
    recency: Annotated[
        float | None,
        typer.Option("--recency", metavar="DAYS", help="Prefer what is new, half as much each so many days."),
    ] = None,
    records: Annotated[
        bool, typer.Option("--records", metavar="", help="Records too, of the user whom the settings name.")
    ] = False,
    documents: Annotated[bool, typer.Option("--documents", metavar="", help="Documents too.")] = False,
    words: Annotated[
        bool, typer.Option("--words", metavar="", help="By words alone, also where there are vectors.")
    ] = False,
    explain: Annotated[
        bool, typer.Option("--explain", metavar="", help="Show what each score is made of.")
    ] = False,
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
            per_session=per_session,
            recency=recency,
            records=records,
            documents=documents,
            meaning=not words,
            explain=explain,
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
    per_session: int | None = None,
    recency: float | None = None,
    records: bool = False,
    documents: bool = False,
    meaning: bool = True,
    explain: bool = False,
) -> list[dict[str, Any]]:
    """Prints the hits and returns them."""
    after = parse_time(since) if since is not None else None
    before = parse_time(until, end=True) if until is not None else None
    key = find(memory, session).key if session is not None else None
    with state.output.progress("indexing") as told:
        memory.bring_up_to_date(told)
    turns = memory.search(
        query,
        limit=limit,
        agent=agent,
        channel=channel,
        session=key,
        roles=roles,
        after_ts=after,
        before_ts=before,
        neighbours=neighbours,
        times=times_in(query, memory.settings_of().memory.zone),
        per_session=per_session,
        recency=recency,
        meaning=meaning,
    )
    found: Sequence[Found | dict[str, Any]] = turns
    if records or documents:
        found, show = beside(
            state, memory, query, turns, limit=limit, explain=explain, records=records, documents=documents
        )
    if not found:
        state.output.tell("nothing found")
    elif not state.json:
        named = state.named(memory)
        for number, each in enumerate(found, 1):
            if isinstance(each, Found):
                _print_hit(state, number, each, named(each.hit.session), explain)
            else:
                show(number, number - 1)
    return [_value(each) if isinstance(each, Found) else each for each in found]


def highlighted(text: str, terms: Iterable[str], style: str = "bold yellow") -> Text:
    """`text` with the words that the terms of a hit stand for made to stand out."""
    shown = Text(text)
    for term in terms:
        stem = re.escape(term[:-1]) + "[iy]" if term.endswith("i") and term.isascii() else re.escape(term)
        pattern = rf"(?<![A-Za-z0-9]){stem}\w*" if term.isascii() else stem
        shown.highlight_regex(re.compile(pattern, re.IGNORECASE | re.ASCII), style)
    return shown


def _print_hit(state: State, number: int, found: Found, name: str, explain: bool) -> None:
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
    if found.summary and (explain or found.before or found.after):
        summary = out.wrap(f"Summary: {out.line(found.summary)}", 5)
        out.print(Text(summary, "dim"), indent=5)
    if explain:
        out.print(Text(f"{hit.score:.3f} = {parts_line(hit.parts)}", "dim"), indent=3)
    out.print(Text(f"stratalog show {out.line(name)} --around {hit.seq}", "dim"), indent=3)


def _print_neighbour(state: State, entry: AnyEntry) -> None:
    out = state.output
    words = words_on_a_line(entry)
    if words:
        out.print(Text(out.clip(f"#{entry.seq} {out.line(words)}", out.width - 6), "dim"), indent=5)


def _value(found: Found) -> dict[str, Any]:
    hit = msgspec.structs.asdict(found.hit)
    return {
        "kind": "turn",
        **hit,
        "session": str(found.hit.session),
        "title": found.title,
        "before": json_entries(found.before),
        "after": json_entries(found.after),
        "summary": found.summary,
    }
