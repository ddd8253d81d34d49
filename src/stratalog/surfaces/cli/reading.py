"""`show` and `context`: one session as a person or a model reads it."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from itertools import islice
from typing import Annotated, Any

import typer
from rich.text import Text

from stratalog import Stratalog
from stratalog.engine.reading import withdrawn
from stratalog.engine.session import Session
from stratalog.errors import InvalidInput, NotFound
from stratalog.surfaces.cli.bar import Stretch, print_bar
from stratalog.surfaces.cli.keys import find
from stratalog.surfaces.cli.listing import json_entries
from stratalog.surfaces.cli.state import KeyArgument, State
from stratalog.surfaces.cli.transcript import block_of, print_entries
from stratalog.types import AnyEntry

AROUND = 4
_CONTEXT_LINES = 3

AllOption = Annotated[
    bool,
    typer.Option("--all", metavar="", help="With what was before restarts."),
]
FullOption = Annotated[bool, typer.Option("--full", metavar="", help="Shorten nothing.")]


def show_command(
    state: State,
    key: KeyArgument,
    after: Annotated[
        int, typer.Option("--after", metavar="SEQ", min=0, help="Only entries after this one.")
    ] = 0,
    before: Annotated[
        int | None, typer.Option("--before", metavar="SEQ", min=1, help="Only entries before this one.")
    ] = None,
    around: Annotated[
        int | None,
        typer.Option("--around", metavar="SEQ", min=1, help=f"Only this entry and {AROUND} on either side."),
    ] = None,
    last: Annotated[
        int | None, typer.Option("--last", metavar="N", min=1, help="Only the last entries.")
    ] = None,
    reverse: Annotated[bool, typer.Option("--reverse", metavar="", help="Newest first.")] = False,
    full: FullOption = False,
    all_generations: AllOption = False,
) -> None:
    """Show the transcript of a session; tool calls and results are shortened."""
    if around is not None:
        if after or before is not None or last is not None:
            raise InvalidInput(
                "--around goes with none of --after, --before and --last", hint="give it alone, or the others"
            )
        after, before = max(0, around - AROUND - 1), around + AROUND + 1
    with state.memory() as memory:
        session = find(memory, key)
        read = partial(
            session.entries, after=after, before=before, reverse=reverse or last is not None, blobs=full
        )
        reading = read(generations="all" if all_generations else "current")
        # What the transcript does not show does not count as one of the last.
        counted = reading if state.json else (each for each in reading if block_of(each, full=full))
        entries = list(reading if last is None else islice(counted, last))
        if last is not None and not reverse:
            entries.reverse()
        if around is not None and not _has(entries, around):
            entries = list(read(generations="all"))
            if not _has(entries, around):
                raise _no_entry(session, around)
            state.output.tell(f"#{around} is from before a restart")
        if state.json:
            state.finish(
                {"key": str(session.key), "title": session.meta.title, "entries": json_entries(entries)}
            )
        else:
            _print_head(state, session)
            rest = session.entries(after=before - 1, blobs=False, generations="all") if before else ()
            print_entries(state.output, entries, full=full, withdrawn=_withdrawn(entries, rest))
            if not entries:
                state.output.tell("no entries there")


def _withdrawn(entries: Iterable[AnyEntry], rest: Iterable[AnyEntry]) -> frozenset[int]:
    """The numbers of the entries that one of them withdraws, or of the `rest`, which are those after them."""
    listed = [*sorted(entries, key=lambda entry: entry.seq), *rest]
    return frozenset(entry.seq for entry, gone in zip(listed, withdrawn(listed), strict=True) if gone)


def _has(entries: Iterable[AnyEntry], seq: int) -> bool:
    return any(entry.seq == seq for entry in entries)


def _no_entry(session: Session, seq: int) -> NotFound:
    last = session.meta.seq
    what = f"no such entry; the last is #{last}" if seq > last else "this entry cannot be read"
    hint = "" if seq > last else "`stratalog doctor` says what is damaged"
    return NotFound(what, key=str(session.key), entry=seq, hint=hint)


def context_command(
    state: State,
    key: KeyArgument,
    budget: Annotated[
        int | None,
        typer.Option("--budget", metavar="TOKENS", min=1, help="What may be used. Else the setting."),
    ] = None,
    system: Annotated[
        str | None, typer.Option("--system", metavar="TEXT", help="A system message to begin with.")
    ] = None,
    model: Annotated[
        str,
        typer.Option("--model", metavar="NAME", help="Count for this model, and use its window."),
    ] = "",
    messages: Annotated[
        bool,
        typer.Option("--messages", metavar="", help="Print OpenAI chat messages as JSON."),
    ] = False,
    full: FullOption = False,
) -> None:
    """Show what a model would be given of a session, within a budget of tokens."""
    with state.memory() as memory:
        if messages:
            state.output.value(find(memory, key).context(budget, system=system, model=model).messages())
            return
        state.finish(show_context(state, memory, key, budget=budget, system=system, model=model, full=full))


def show_context(
    state: State,
    memory: Stratalog,
    key: str,
    *,
    budget: int | None = None,
    system: str | None = None,
    model: str = "",
    full: bool = False,
    messages: bool = True,
) -> dict[str, Any]:
    """Prints the budget as a bar and, if wanted, the messages; returns both."""
    session = find(memory, key)
    context = session.context(budget, system=system, model=model)
    out = state.output
    if not state.json:
        _print_head(state, session)
        stretches = [Stretch(part.name, part.tokens, part.left_out) for part in context.sections]
        out.print()
        print_bar(out, stretches, context.budget, context.turns_left_out)
        if context.warning:
            out.warn(context.warning)
        if context.degraded:
            out.tell("not all that is recent fits: a notice stands for what is left out")
        if messages:
            print_entries(out, context.shown(), full=full, message_lines=_CONTEXT_LINES)
    return {
        "key": str(session.key),
        "tokens": context.tokens,
        "budget": context.budget,
        "sections": context.sections,
        "turns_left_out": context.turns_left_out,
        "degraded": context.degraded,
        "messages": context.messages() if messages else [],
    }


def _print_head(state: State, session: Session) -> None:
    out, meta = state.output, session.meta
    pin = f"{out.glyphs.pin} " if meta.pinned else ""
    out.print(Text.assemble((pin, "yellow"), (out.title(meta.title), "bold")))
    out.print(Text(out.line(session.key.local), "dim"))
    residency = meta.metadata.get("residency")
    if residency is not None:
        out.print(Text(out.line(f"residency {residency}"), "dim"))
