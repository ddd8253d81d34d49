"""A budget of tokens as one bar, a stretch for each section, and its legend."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from rich.table import Table
from rich.text import Text

from stratalog.surfaces.cli.output import Output, plain_table

_COLOURS = {"system": "magenta", "summary": "yellow", "recent turns": "cyan"}
_OTHER = ("green", "blue", "red")
_WIDEST = 100
# Without colour the stretches differ by what they are drawn with.
_TEXTURES = "█▓▒▚▞"
_ASCII = "#=+%o"


class Stretch(NamedTuple):
    """One section of the budget: its tokens, and those of it that did not fit."""

    name: str
    tokens: int
    left_out: int = 0


def cells(tokens: Sequence[int], budget: int, width: int) -> list[int]:
    """How many of `width` cells each count gets: in proportion, at least one for what is not 0, and never
    more than `width` in all as long as there are no more counts than cells."""
    given = [0 if not count else max(1, count * width // max(1, budget)) for count in tokens]
    while sum(given) > width and max(given) > 1:
        given[given.index(max(given))] -= 1
    return given


def print_bar(out: Output, stretches: Sequence[Stretch], budget: int, turns_left_out: int) -> None:
    """The bar, and below it what each stretch is, what is free and what was left out."""
    width = min(out.width, _WIDEST) - 2
    used = sum(stretch.tokens for stretch in stretches)
    signs = [_sign(out, at, stretch) for at, stretch in enumerate(stretches)]
    lengths = cells([stretch.tokens for stretch in stretches], budget, width)
    bar = Text()
    for (glyph, style), length in zip(signs, lengths, strict=True):
        bar.append(glyph * length, style)
    bar.append(out.glyphs.free * (width - sum(lengths)), "bright_black")
    out.print(bar)
    out.table(_legend(out, stretches, signs, budget, used))
    left_out = sum(stretch.left_out for stretch in stretches)
    if left_out:
        turns = f"{turns_left_out} older turn{'s' * (turns_left_out != 1)}, " if turns_left_out else ""
        out.print(Text(f"left out: {turns}{left_out:,} tokens", "dim"))


def _legend(
    out: Output, stretches: Sequence[Stretch], signs: list[tuple[str, str]], budget: int, used: int
) -> Table:
    table = plain_table()
    table.show_header = False
    table.box = None
    table.padding = (0, 2, 0, 0)
    table.add_column()
    table.add_column()
    table.add_column(justify="right")
    table.add_column(justify="right", style="dim")
    for (glyph, style), stretch in zip(signs, stretches, strict=True):
        table.add_row(
            Text(glyph * 2, style), stretch.name, f"{stretch.tokens:,}", _share(stretch.tokens, budget)
        )
    free = budget - used
    table.add_row(Text(out.glyphs.free * 2, "bright_black"), "free", f"{free:,}", _share(free, budget))
    table.add_row("", Text("budget", "bold"), Text(f"{budget:,}", "bold"), "tokens")
    return table


def _sign(out: Output, place: int, stretch: Stretch) -> tuple[str, str]:
    colour = _COLOURS.get(stretch.name, _OTHER[place % len(_OTHER)])
    if out.colour:
        return out.glyphs.full, colour
    textures = _TEXTURES if out.encoding.startswith("utf") else _ASCII
    return textures[place % len(textures)], ""


def _share(part: int, whole: int) -> str:
    share = 100 * part / max(1, whole)
    return f"{share:.0f} %" if share >= 1 or not part else "<1 %"
