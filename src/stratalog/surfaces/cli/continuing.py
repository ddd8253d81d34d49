"""`continue`: a new session that goes on where another is."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from stratalog.engine import SessionMeta
from stratalog.engine.continuing import Continued, Inherit, continue_from
from stratalog.ids import new_ulid
from stratalog.surfaces.cli.keys import complete, find, new_key
from stratalog.surfaces.cli.plain import counted
from stratalog.surfaces.cli.state import State

_KINDS: dict[str, Inherit] = {
    "auto": "auto",
    "working-memory": "working_memory",
    "summary": "summary",
    "history": "history",
}
_WORDS = {
    "history": "the whole history",
    "summary": "a summary, working memory and facts",
    "working_memory": "working memory and facts alone",
}


def continue_command(
    state: State,
    old: Annotated[
        str,
        typer.Argument(
            metavar="OLD",
            autocompletion=complete,
            help="The session to go on from, named as KEY elsewhere.",
            show_default=False,
        ),
    ],
    new: Annotated[
        str | None,
        typer.Argument(
            metavar="NEW", help="A new key, or a new chat for the same agent and channel. Else one is made."
        ),
    ] = None,
    inherit: Annotated[
        Literal["auto", "working-memory", "summary", "history"],
        typer.Option("--inherit", help="What to take along. By itself the time since then decides."),
    ] = "auto",
) -> None:
    """Begin a new session that goes on where another is."""
    with state.memory() as memory:
        source = find(memory, old).key
        to = new_key(source, new if new is not None else new_ulid().lower())
        made = continue_from(memory, source, to, inherit=_KINDS[inherit])
        meta = made.session.meta
        _tell(state, made, meta)
        state.finish(
            {
                "key": str(to),
                "continued_from": str(source),
                "inherit": made.inherit,
                "why": made.why,
                "gap": made.gap,
                "messages": meta.messages,
                "summary": made.summary,
                "working_memory": meta.working_memory,
                "facts": meta.facts,
            }
        )


def _tell(state: State, made: Continued, meta: SessionMeta) -> None:
    out = state.output
    out.print(f"{made.session.key.local} goes on with {_WORDS[made.inherit]}")
    out.print(f"because {made.why}")
    has = [counted(meta.messages, "message")] if made.inherit == "history" else []
    if made.inherit == "summary":
        has.append("a summary" if made.summary else "no summary, for nothing was said")
    has.append(counted(len(meta.working_memory), "value"))
    has.append(counted(len(meta.facts), "fact"))
    out.print(f"it has {', '.join(has)}")
