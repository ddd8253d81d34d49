"""What the commands of `eval` do; `measuring` has their options."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final, Literal

import msgspec
from rich.text import Text

from stratalog.engine.evaluating import KS, Measured, Row, Talk, locomo, measured, squad
from stratalog.errors import InvalidInput
from stratalog.osfiles import failed
from stratalog.surfaces.cli.output import Output, plain_table
from stratalog.surfaces.cli.plain import counted
from stratalog.surfaces.cli.state import State

_READ: Final[dict[str, Callable[[bytes], list[Talk]]]] = {"locomo": locomo, "squad": squad}


def run(state: State, kind: Literal["locomo", "squad"], embedder: str) -> None:
    """Reads the file that --data names, measures, and shows what came of it."""
    if state.data is None:
        raise InvalidInput("no data set is named", hint="--data names its file")
    out = state.output
    talks = _READ[kind](_content(state.data))
    with out.progress("measuring") as told:
        done = measured(talks, embedder=embedder, progress=told)
    if not state.json:
        _print(out, done)
    state.finish({"set": kind, "embedder": embedder, **msgspec.to_builtins(done, str_keys=True)})


def _content(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except FileNotFoundError as error:
        raise InvalidInput("there is no such file", path=str(file), hint="--data names a data set") from error
    except OSError as error:
        raise failed(error, "reading the data set", file) from error


def _print(out: Output, done: Measured) -> None:
    table = plain_table(*(["split"] if any(row.split for row in done.rows) else []), "level", "category")
    names = [f"recall@{k}" for k in KS] + [f"hit@{KS[1]}", f"ndcg@{KS[1]}"]
    for name in ("questions", *names):
        table.add_column(name, justify="right")
    for row in done.rows:
        first = [row.split] if any(each.split for each in done.rows) else []
        table.add_row(*map(Text, (*first, row.level, row.category, f"{row.questions:,}", *_figures(row))))
    out.table(table)
    embedding = f", embedded in {done.embed_s:,.1f} s" if done.embed_s else ""
    out.tell(f"{counted(done.turns, 'turn')} indexed in {done.index_s:,.1f} s{embedding}")
    out.tell(f"a search takes {done.search_ms:.1f} ms, and {done.search_ms_p95:.1f} ms for 95 of 100 at most")
    out.tell(f"the first 10 hits have {done.tokens:,.0f} tokens")


def _figures(row: Row) -> list[str]:
    found = [*(row.recall[k] for k in KS), row.hit[KS[1]], row.ndcg[KS[1]]]
    return [f"{value:.3f}".removeprefix("0") for value in found]
