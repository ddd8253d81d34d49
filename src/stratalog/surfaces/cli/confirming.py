"""Asking before something is destroyed."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from stratalog.surfaces.cli.output import Output

YesOption = Annotated[bool, typer.Option("--yes", "-y", metavar="", help="Do not ask.")]


def asks(output: Output) -> bool:
    """Whether there is a person to ask."""
    return sys.stdin is not None and sys.stdin.isatty() and output.err.is_terminal


def confirmed(output: Output, question: str) -> bool:
    return typer.confirm(output.text(question), default=False, err=True)
