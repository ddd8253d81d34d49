"""A document in chunks, cut by its structure: a pure function of what a reader made of it.

Of the text nothing but white space is in no chunk, and nothing is in two. A heading's part of the document is
one chunk with the parts below it when it is small enough; else its own blocks are packed together, and each
part below it on its own. A heading with nothing of its own goes with what follows it, so that a chunk never
crosses into a heading of its own level or a higher one. Blocks stay whole up to `MOST`; a longer one is cut
between lines (code, tables, lists) or sentences, then clauses, words, and where there is none of these, by
length.

Sizes are in characters of Latin script; one of a script without spaces counts as three of them, for so it is
in a model's tokens.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

import regex

from stratalog.recall.reading.contract import Block, Parsed, line_starts
from stratalog.recall.terms import SPACELESS

TARGET: Final = 1200
MOST: Final = 2000
_SMALL: Final = 300
_WIDE: Final = 3
_NAME: Final = 120  # characters of a title or a heading in a prefix
_ARROW: Final = " › "

_LINE: Final = regex.compile(r"\n+")
_SENTENCE: Final = regex.compile(r"[.!?…]+[\"'”’)\]]*\s+|[。！？；…｡]+[」』”’）】》]*\s*|\n{2,}")
_CLAUSE: Final = regex.compile(r"[,;:]\s+|[，、；：]\s*|\n+")
_WORD: Final = regex.compile(r"\s+")
_PROSE: Final = (_SENTENCE, _CLAUSE, _WORD)
_LINES: Final = (_LINE, _SENTENCE, _CLAUSE, _WORD)


class Piece(NamedTuple):
    """A chunk: `text[start:stop]` under the headings `path`. `first` and `last` are the lines or pages that
    it is of, counted from 1; both 0 where a document has neither."""

    path: tuple[str, ...]
    start: int
    stop: int
    first: int
    last: int


class _Part:
    """A heading's part of a document: blocks and the parts below it, in order."""

    def __init__(self, depth: int) -> None:
        self.depth = depth
        self.items: list[Block | _Part] = []
        self.weight = 0


def weight(text: str) -> int:
    """How long a text counts."""
    return len(text) if text.isascii() else len(text) + (_WIDE - 1) * len(SPACELESS.findall(text))


def chunked(parsed: Parsed) -> list[Piece]:
    """The chunks of the document, in order."""
    lines = line_starts(parsed.text) if parsed.unit == "line" else []
    found = []
    for run in _packed(_parts(parsed), parsed.text):
        start, stop = _trimmed(parsed.text, run[0].start, run[-1].stop)
        if start == stop:
            continue
        if parsed.unit == "line":
            first, last = bisect_right(lines, start), bisect_right(lines, stop - 1)
        else:
            first, last = run[0].page, run[-1].page
        found.append(Piece(_path(run), start, stop, first, last))
    return found


def prefix_of(title: str, path: Sequence[str]) -> str:
    """Where a chunk stands: the title and the headings above it, on one line."""
    names = [title, *path[1:]] if path and path[0] == title else [title, *path]
    return _ARROW.join(_shortened(name) for name in names if name)


def _shortened(name: str) -> str:
    line = " ".join(name.split())
    return line if len(line) <= _NAME else line[: _NAME - 1].rstrip() + "…"


def _parts(parsed: Parsed) -> _Part:
    """The parts of the document, in the one that is all of it."""
    open_parts = [_Part(0)]
    for block in parsed.blocks:
        depth = len(block.path)
        # What opens a part is no part of its equals; anything else closes what is deeper than it stands.
        while open_parts[-1].depth > (depth - 1 if block.opens else depth):
            open_parts.pop()
        if block.opens:
            part = _Part(depth)
            open_parts[-1].items.append(part)
            open_parts.append(part)
        open_parts[-1].items.append(block)
        heavy = weight(parsed.text[block.start : block.stop])
        for each in open_parts:
            each.weight += heavy
    return open_parts[0]


def _packed(part: _Part, text: str) -> list[list[Block]]:
    """The chunks of a part, each as the blocks, or pieces of one, that are in it."""
    if part.weight <= TARGET:
        return [blocks] if (blocks := list(_blocks(part))) else []
    runs: list[list[Block]] = []
    own: list[Block] = []
    for item in part.items:
        if isinstance(item, Block):
            own.append(item)
            continue
        below = _packed(item, text)
        if own and all(block.kind == "heading" for block in own) and _fits([*own, *below[0]], text, MOST):
            below[0] = [*own, *below[0]]
        else:
            runs += _filled(own, text)
        own = []
        runs += below
    return runs + _filled(own, text)


def _blocks(part: _Part) -> Iterator[Block]:
    for item in part.items:
        if isinstance(item, Block):
            yield item
        else:
            yield from _blocks(item)


def _filled(blocks: Iterable[Block], text: str) -> list[list[Block]]:
    """Blocks that follow one another under one heading, packed up to `TARGET`; what is small goes with its
    neighbour up to `MOST`."""
    runs: list[list[Block]] = []
    sizes: list[int] = []
    for block in (piece for whole in blocks for piece in _cut(whole, text)):
        more = weight(text[block.start : block.stop])
        short = bool(runs) and (sizes[-1] < _SMALL or runs[-1][-1].kind == "heading")
        if runs and sizes[-1] + more <= (MOST if short else TARGET):
            runs[-1].append(block)
            sizes[-1] += more
        else:
            runs.append([block])
            sizes.append(more)
    if len(runs) > 1 and sizes[-1] < _SMALL and sizes[-2] + sizes[-1] <= MOST:
        tail = runs.pop()
        runs[-1] += tail
    return runs


def _cut(block: Block, text: str) -> list[Block]:
    """The block whole, or in pieces when it is longer than `MOST`."""
    if weight(text[block.start : block.stop]) <= MOST:
        return [block]
    pieces: list[Block] = []
    size = 0
    how = _PROSE if block.kind in ("text", "heading") else _LINES
    for start, stop in _atoms(text, block.start, block.stop, how):
        more = weight(text[start:stop])
        if pieces and size + more <= TARGET:
            pieces[-1] = pieces[-1]._replace(stop=stop)
            size += more
        else:
            pieces.append(block._replace(start=start, stop=stop, opens=block.opens and not pieces))
            size = more
    return pieces


def _atoms(text: str, start: int, stop: int, how: Sequence[regex.Pattern[str]]) -> Iterator[tuple[int, int]]:
    """The spans of a text between the ends that the first pattern finds; those that are longer than `MOST`
    cut by the next."""
    if not how:
        step = TARGET if text[start:stop].isascii() else TARGET // _WIDE
        yield from ((at, min(at + step, stop)) for at in range(start, stop, step))
        return
    pattern, *finer = how
    ends = [found.end() for found in pattern.finditer(text, start, stop)]
    for end in ends if ends and ends[-1] == stop else [*ends, stop]:
        if weight(text[start:end]) <= MOST:
            yield start, end
        else:
            yield from _atoms(text, start, end, finer)
        start = end


def _fits(blocks: Sequence[Block], text: str, room: int) -> bool:
    return sum(weight(text[block.start : block.stop]) for block in blocks) <= room


def _path(run: Sequence[Block]) -> tuple[str, ...]:
    """The headings that all of it stands under, looking at what is no heading if there is any. One that is
    opened within it is not among these, though it may have the same name as another."""
    paths = [block.path for block in run if block.kind != "heading"] or [run[-1].path]
    shared = 0
    for names in zip(*paths, strict=False):
        if any(name != names[0] for name in names):
            break
        shared += 1
    begun = next((at for at, block in enumerate(run) if block.kind != "heading"), len(run))
    opened = [len(block.path) - 1 for block in run[begun + 1 :] if block.opens]
    return paths[0][: min([shared, *opened])]


def _trimmed(text: str, start: int, stop: int) -> tuple[int, int]:
    """The span without white space at its end, and without blank lines before it."""
    found = text[start:stop]
    stop = start + len(found.rstrip())
    blank = found[: len(found) - len(found.lstrip())].rfind("\n") + 1
    return min(start + blank, stop), stop
