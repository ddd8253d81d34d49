"""`demo`: what Stratalog does, shown on the transcript that ships with it."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text

from stratalog.demo import transcript_path
from stratalog.osfiles import failed
from stratalog.surfaces.cli.importing import import_value, run_import
from stratalog.surfaces.cli.listing import list_sessions
from stratalog.surfaces.cli.plain import unicode_text
from stratalog.surfaces.cli.reading import show_context
from stratalog.surfaces.cli.searching import search
from stratalog.surfaces.cli.state import State

ENGLISH = "why were delivery times wrong"
CHINESE = "谁对花生过敏"
_HITS = 2


def demo_command(
    state: State,
    keep: Annotated[bool, typer.Option("--keep", metavar="", help="Keep the data.")] = False,
) -> None:
    """Import the transcript that ships with Stratalog, list, search, and show a context."""
    if state.data is not None:
        state.finish(_run(state, state.data, "kept"))
        return
    try:
        data = Path(tempfile.mkdtemp(prefix="stratalog-demo-"))
    except OSError as error:
        raise failed(error, "making a temporary directory", tempfile.gettempdir()) from error
    try:
        state.finish(_run(state, data, "kept" if keep else "removed"))
    finally:
        if not keep:
            shutil.rmtree(data)


def _run(state: State, data: Path, fate: str) -> dict[str, Any]:
    out = state.output
    transcript = transcript_path()
    out.print(
        "Two days of a developer's work with an agent, in English and Chinese, go into a\n"
        "fresh memory. Each step is a command that you can give yourself."
    )
    with state.memory(data) as memory:
        _step(state, f"export STRATALOG_DATA={data}")
        _step(state, f"stratalog import {transcript}")
        imported = run_import(state, memory, [transcript])
        if imported[0].error is not None:
            raise imported[0].error
        _step(state, "stratalog sessions")
        listed = list_sessions(state, memory)
        searches = []
        for query in (ENGLISH, CHINESE):
            _step(state, f'stratalog search "{query}" --limit {_HITS}')
            searches.append({"query": query, "hits": search(state, memory, query, limit=_HITS)})
        key = imported[0].sessions[0].key
        _step(state, f"stratalog context {state.named(memory)(key)}")
        context = show_context(state, memory, str(key), messages=state.json)
    _end(state, data, transcript, fate)
    return {
        "data": unicode_text(data),
        "kept": fate == "kept",
        "import": import_value(imported),
        "sessions": listed.sessions,
        "searches": searches,
        "context": context,
    }


def _step(state: State, line: str) -> None:
    state.output.print()
    state.output.print(Text.assemble(("$ ", "dim"), (line, "bold")))


def _end(state: State, data: Path, transcript: Path, fate: str) -> None:
    out = state.output
    out.print()
    if fate == "kept":
        out.print(f"The data are in {data}.")
    else:
        out.print(f"The data were in {data} and are removed now.")
        out.print("To go on with them: stratalog demo --keep")
    out.print()
    out.print(
        Text.assemble(
            ("A conversation, without any model: ", ""), ("stratalog chat --model extractive", "bold")
        )
    )
    out.print(
        Text.assemble(
            ("Your own next: ", ""), ("stratalog import ~/.claude/projects ~/.codex/sessions", "bold")
        )
    )
