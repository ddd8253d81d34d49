"""`memory`: the records that are kept beside what was said. What its commands take; `records` does it."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Literal, TypeAlias

import typer

from stratalog.surfaces.cli.asking import Who, asking
from stratalog.surfaces.cli.loading import desk
from stratalog.surfaces.cli.state import State


class Lasting(StrEnum):
    """The layers, told here once more so that what keeps records is loaded only to be used."""

    SHORT = "short"
    MID = "mid"
    LONG = "long"


_Scope: TypeAlias = Literal["user", "agent", "session", "run", "tenant"]

IdArgument = Annotated[str, typer.Argument(metavar="ID", help="The id of the record.", show_default=False)]
ScopeOption = Annotated[_Scope, typer.Option("--scope", help="Whose it is: of the one who asks.")]
LayersOption = Annotated[
    list[Lasting] | None, typer.Option("--layer", help="Only this layer; may be said again.")
]
KeysOption = Annotated[
    list[str] | None,
    typer.Option("--key", metavar="KEY", help="Only what is under this key; may be said again."),
]
AsOfOption = Annotated[
    str | None,
    typer.Option("--as-of", metavar="DATE", help="What held when it began: 2026-09, or 7d for ago."),
]
EveryoneOption = Annotated[
    bool, typer.Option("--everyone", metavar="", help="Of every scope of the environment; with --admin.")
]
LimitOption = Annotated[
    int, typer.Option("--limit", "-n", metavar="N", min=1, max=1000, help="How many to list.")
]
ReasonOption = Annotated[str, typer.Option("--reason", metavar="TEXT", help="Why, for the history.")]


@asking
def add_command(
    state: State,
    who: Who,
    key: Annotated[str, typer.Option("--key", metavar="KEY", help="What it is about.")],
    text: Annotated[
        str, typer.Argument(metavar="TEXT", help="What to remember. Else it is made of the payload.")
    ] = "",
    scope: ScopeOption = "user",
    layer: Annotated[
        Lasting, typer.Option("--layer", help="For a turn, for a session's matters, or for good.")
    ] = Lasting.LONG,
    confidence: Annotated[
        float, typer.Option("--confidence", metavar="X", min=0, max=1, help="How sure it is, 0 to 1.")
    ] = 0.5,
    payload: Annotated[
        str | None, typer.Option("--json-payload", metavar="JSON", help="The same as data. Else the text.")
    ] = None,
    begins: Annotated[
        str | None,
        typer.Option("--from", metavar="DATE", help="Since when it holds: 2026, 2026-09, 2026-09-14T10:30."),
    ] = None,
    ends: Annotated[
        str | None, typer.Option("--until", metavar="DATE", help="From when on it does not hold any more.")
    ] = None,
    replaces: Annotated[
        bool, typer.Option("--replaces", metavar="", help="Correct all that is under the key now.")
    ] = False,
    sources: Annotated[
        list[str] | None,
        typer.Option(
            "--source",
            metavar="SESSION#ENTRY",
            help="Where it was said, the entry by its seq or its id; may be said again.",
        ),
    ] = None,
) -> None:
    """Remember something, and say what became of it. Exit code 1 when it was refused."""
    with desk(state, who) as records:
        code = records.add(
            text,
            key=key,
            scope=scope,
            layer=layer,
            confidence=confidence,
            payload=payload,
            begins=begins,
            ends=ends,
            replaces=replaces,
            sources=sources or (),
        )
    raise typer.Exit(code)


@asking
def search_command(
    state: State,
    who: Who,
    query: Annotated[list[str], typer.Argument(metavar="QUERY...", help="Words, in any language.")],
    limit: Annotated[int, typer.Option("--limit", "-n", metavar="N", min=1, max=100, help="How many.")] = 10,
    layer: LayersOption = None,
    as_of: AsOfOption = None,
) -> None:
    """Search what holds now, best first. Exit code 1 when nothing is found."""
    with desk(state, who) as records:
        code = records.search(" ".join(query), layers=layer or (), limit=limit, as_of=as_of)
    raise typer.Exit(code)


@asking
def list_command(
    state: State,
    who: Who,
    layer: LayersOption = None,
    key: KeysOption = None,
    as_of: AsOfOption = None,
    all_statuses: Annotated[
        bool, typer.Option("--all-statuses", metavar="", help="What is superseded or forgotten too.")
    ] = False,
    everyone: EveryoneOption = False,
    limit: LimitOption = 100,
    cursor: Annotated[
        str, typer.Option("--cursor", metavar="TEXT", help="Go on where the list before this ended.")
    ] = "",
) -> None:
    """List the current records, oldest first."""
    with desk(state, who) as records:
        records.list(
            layers=layer or (),
            keys=key or (),
            as_of=as_of,
            all_statuses=all_statuses,
            everyone=everyone,
            limit=limit,
            cursor=cursor,
        )


@asking
def show_command(state: State, who: Who, id: IdArgument) -> None:
    """Show a record with its sources and its history."""
    with desk(state, who) as records:
        records.show(id)


@asking
def history_command(
    state: State,
    who: Who,
    key: KeysOption = None,
    id: Annotated[
        str, typer.Option("--id", metavar="ID", help="Only of this record, forgotten or not.")
    ] = "",
    limit: LimitOption = 100,
    cursor: Annotated[
        int, typer.Option("--cursor", metavar="N", min=0, help="Go on where the list before this ended.")
    ] = 0,
) -> None:
    """List every step that was taken with records, oldest first."""
    with desk(state, who) as records:
        records.history(id=id, keys=key or (), limit=limit, cursor=cursor)


@asking
def forget_command(
    state: State,
    who: Who,
    id: Annotated[
        str, typer.Argument(metavar="ID", help="The id of the record. Else --key.", show_default=False)
    ] = "",
    key: Annotated[str, typer.Option("--key", metavar="KEY", help="All that is under this key.")] = "",
    scope: ScopeOption = "user",
    reason: ReasonOption = "",
) -> None:
    """Forget a record, or all that is under a key. What was said before does not come back."""
    with desk(state, who) as records:
        records.forget(id, key=key, scope=scope, reason=reason)


@asking
def forget_source_command(
    state: State,
    who: Who,
    entries: Annotated[
        list[str], typer.Argument(metavar="ENTRY...", help="Entries by their ids, or as SESSION#ENTRY.")
    ],
    reason: ReasonOption = "",
) -> None:
    """Forget what was drawn from entries of logs alone, and draw nothing from them again."""
    with desk(state, who) as records:
        records.forget_source(entries, reason=reason)


@asking
def export_command(
    state: State,
    who: Who,
    file: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="FILE", help="Write there, readable by you alone. Else stdout."
        ),
    ] = None,
    everyone: EveryoneOption = False,
) -> None:
    """Export records of every status as a bundle, which `memory import` takes again."""
    with desk(state, who) as records:
        records.export(file, everyone=everyone)


@asking
def import_command(
    state: State, who: Who, file: Annotated[Path, typer.Argument(metavar="FILE", help="A bundle.")]
) -> None:
    """Take in a bundle. Exit code 1 when it was cut, or some of it may not be written."""
    with desk(state, who) as records:
        code = records.import_(file)
    raise typer.Exit(code)


@asking
def audit_command(
    state: State,
    who: Who,
    last: Annotated[int, typer.Option("--last", metavar="N", min=1, help="How many lines.")] = 50,
) -> None:
    """Show who asked for what, and how it ended. Who is named asks nothing: only its lines are shown."""
    with desk(state, who) as records:
        records.audit(who, last)


@asking
def profiles_command(
    state: State,
    who: Who,
    force: Annotated[
        bool,
        typer.Option(
            "--force", metavar="", help="Also where a page would lose more lines than the settings allow."
        ),
    ] = False,
    anew: Annotated[
        bool,
        typer.Option("--anew", metavar="", help="From the first record on, as after a backup was put back."),
    ] = False,
) -> None:
    """Bring USER.md and MEMORY.md up to date, of who asks or of everybody. Exit code 1 if one was left."""
    with desk(state, who) as records:
        code = records.profiles(force=force, anew=anew)
    raise typer.Exit(code)


@asking
def page_command(
    state: State,
    who: Who,
    sources: Annotated[
        bool,
        typer.Option("--sources", metavar="", help="With the comments that say whence each line is."),
    ] = False,
) -> None:
    """Show the USER.md of --user, or the MEMORY.md of --agent."""
    with desk(state, who) as records:
        code = records.page(sources=sources)
    raise typer.Exit(code)


@asking
def undo_command(state: State, who: Who) -> None:
    """Take back the last change of the USER.md of --user, or of the MEMORY.md of --agent."""
    with desk(state, who) as records:
        records.undo()


@asking
def consolidate_command(
    state: State,
    who: Who,
    older_than: Annotated[
        float | None,
        typer.Option(
            "--older-than", metavar="SECONDS", min=0, help="How old what is promoted is. Else the setting."
        ),
    ] = None,
) -> None:
    """Merge what is said twice, promote what lasted, mark what contradicts, end what has expired."""
    with desk(state, who) as records:
        records.consolidate(older_than)


ABOUT = "Records: what is worth knowing later, beside what was said."
COMMANDS = (
    ("add", add_command),
    ("search", search_command),
    ("list", list_command),
    ("show", show_command),
    ("history", history_command),
    ("forget", forget_command),
    ("forget-source", forget_source_command),
    ("export", export_command),
    ("import", import_command),
    ("profiles", profiles_command),
    ("page", page_command),
    ("undo", undo_command),
    ("consolidate", consolidate_command),
    ("audit", audit_command),
)
