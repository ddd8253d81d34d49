"""What a reader makes of a document: its text, in blocks that cover it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Literal, NamedTuple, TypeAlias

import msgspec

Kind: TypeAlias = Literal["heading", "text", "list", "table", "code"]
Unit: TypeAlias = Literal["line", "page", ""]


class Block(NamedTuple):
    """A piece of a document's text that is better not cut: `text[start:stop]`.

    `path` are the headings that it stands under, the outermost first; those that it is itself, or begins, are
    in it. `opens` says that a heading's part of the document begins here. `page` counts from 1, 0 where there
    are none.
    """

    kind: Kind
    path: tuple[str, ...]
    start: int
    stop: int
    opens: bool = False
    page: int = 0


class Parsed(msgspec.Struct, frozen=True, kw_only=True):
    """A document that was read. `blocks` follow one another, and what of `text` is in none of them is white
    space. `title` is "" when the document does not say; `notes` are what could not be read, in words. Places
    are told in `unit`s: lines of `text`, or pages."""

    title: str
    text: str
    blocks: tuple[Block, ...]
    notes: tuple[str, ...] = ()
    unit: Unit = "line"


def line_starts(text: str) -> list[int]:
    """Where each line of the text begins, and at last where the text ends."""
    starts, at = [0], text.find("\n")
    while at >= 0:
        starts.append(at + 1)
        at = text.find("\n", at + 1)
    return [*starts, len(text)] if starts[-1] < len(text) else starts


def paragraphs(text: str, start: int, stop: int) -> list[tuple[int, int]]:
    """The spans between blank lines within `text[start:stop]`, each with its last line break."""
    found: list[tuple[int, int]] = []
    begun = -1
    while start < stop:
        end = text.find("\n", start, stop)
        end = stop if end < 0 else end + 1
        blank = not text[start:end].strip()
        if blank and begun >= 0:
            found.append((begun, start))
            begun = -1
        elif not blank and begun < 0:
            begun = start
        start = end
    return [*found, (begun, stop)] if begun >= 0 else found


def covers(parsed: Parsed) -> bool:
    """Whether the blocks are as `Parsed` promises."""
    ends = [(0, 0), *((block.start, block.stop) for block in parsed.blocks)]
    edges: Sequence[tuple[int, int]] = [*ends, (len(parsed.text), len(parsed.text))]
    return all(one[1] <= other[0] for one, other in pairwise(edges)) and not any(
        parsed.text[one[1] : other[0]].strip() for one, other in pairwise(edges)
    )
