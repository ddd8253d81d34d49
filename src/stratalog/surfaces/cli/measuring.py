"""`eval`: how well the search finds, measured on questions whose answers are known."""

from __future__ import annotations

from typing import Annotated

import typer

from stratalog.surfaces.cli.loading import measure
from stratalog.surfaces.cli.state import State

EmbedderOption = Annotated[
    str,
    typer.Option("--embedder", metavar="NAME", help="By meaning too: `local` or `openai:MODEL`. Else words."),
]


def locomo_command(state: State, embedder: EmbedderOption = "") -> None:
    """Measure on the conversations of LoCoMo, in the file that `--data` names."""
    measure(state, "locomo", embedder)


def squad_command(state: State, embedder: EmbedderOption = "") -> None:
    """Measure on passages in the form of SQuAD (CMRC 2018, DRCD), in the file that `--data` names."""
    measure(state, "squad", embedder)


ABOUT = "How well the search finds, on a data set. `--data` names its file here."
COMMANDS = (("locomo", locomo_command), ("squad", squad_command))
