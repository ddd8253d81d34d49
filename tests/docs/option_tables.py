"""The tables of options in docs/cli.md, made from the command line itself.

    .venv/bin/python tests/docs/option_tables.py

writes them below their `<!-- options: NAME -->` marks.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import typer

from stratalog.surfaces.cli.app import app
from stratalog.surfaces.cli.asking import PANEL

PAGE = Path(__file__).parents[2] / "docs" / "cli.md"
_MARK = re.compile(r"<!-- options: ([\w -]+) -->\n(?:\n\|.*\n(?:\|.*\n)+)?")
_COMMON = ("--data", "--tenant", "--json")
_WHO = "memory who"


def commands() -> dict[str, Any]:
    """The commands by name; the group itself is `stratalog`. Those of a group in it have its name before
    theirs, as they are typed."""
    group: Any = typer.main.get_command(app)
    found = {"stratalog": group}
    for name, command in group.commands.items():
        within = getattr(command, "commands", None)
        found |= {f"{name} {each}": below for each, below in within.items()} if within else {name: command}
    return found


def parameters(name: str) -> list[Any]:
    """The arguments and options of a command without those that all have, or all of `memory`; `common` and
    `memory who` have those."""
    if name == "common":
        return [each for each in commands()["stratalog"].params if each.opts[0] in _COMMON]
    if name == _WHO:
        return [each for each in commands()["memory add"].params if _says_who(each)]
    own = [each for each in commands()[name].params if not set(each.opts) & set(_COMMON)]
    return [each for each in own if not _says_who(each)]


def _says_who(parameter: Any) -> bool:
    return bool(getattr(parameter, "rich_help_panel", None) == PANEL)


def table(name: str) -> str:
    """The table as it stands in the page, with the blank line before it; nothing for no parameters."""
    rows = [_row(each) for each in parameters(name)]
    return "\n".join(["", "| option | what it does |", "|---|---|", *rows, ""]) if rows else ""


def page(text: str) -> str:
    """The page with its tables as they should be."""
    return _MARK.sub(lambda mark: f"<!-- options: {mark[1]} -->\n{table(mark[1])}", text)


def _row(parameter: Any) -> str:
    if parameter.param_type_name == "argument":
        name = f"`{parameter.metavar}`"
    else:
        names = ", ".join(f"`{each}`" for each in parameter.opts)
        value = _value(parameter)
        name = f"{names} `{value}`" if value else names
    default = parameter.default
    shown = default not in (None, False, "", 0) and not callable(default) and parameter.show_default
    words = " ".join((parameter.help or "").replace("|", "\\|").split())
    return f"| {name} | {words}{f' Default: `{default}`.' if shown else ''} |"


def _value(parameter: Any) -> str:
    if parameter.is_flag:
        return ""
    choices = parameter.type_descriptor.choices
    return (
        "\\|".join(getattr(each, "value", each) for each in choices) if choices else parameter.metavar or ""
    )


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text("utf-8")), "utf-8")
