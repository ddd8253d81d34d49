"""Markdown, by markdown-it-py: CommonMark with tables.

Only blocks are parsed, and told by their lines, so that what is kept is the text as it was written. What
belongs to no block (definitions of links) is a block of text, and the front matter one of code.
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Final

from stratalog.recall.reading.contract import Block, Kind, Parsed, line_starts

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

_FRONT: Final = re.compile(r"---[ \t]*\n(?:.*\n)*?(?:---|\.\.\.)[ \t]*(?:\n|\Z)")
_TITLE: Final = re.compile(r"^title:[ \t]*(.+?)[ \t]*$", re.MULTILINE)
_KINDS: Final[dict[str, Kind]] = {
    "heading_open": "heading",
    "fence": "code",
    "code_block": "code",
    "table_open": "table",
    "bullet_list_open": "list",
    "ordered_list_open": "list",
}
_LINK: Final = re.compile(r"!?\[([^\[\]]*)\](?:\([^()]*\)|\[[^\[\]]*\])")
_EMPHASIS: Final = re.compile(r"(\*\*|__|~~|`+)(?=\S)(.+?)(?<=\S)\1")
_ESCAPE: Final = re.compile(r"\\([!-/:-@\[-`{-~])")
_LONGEST: Final = 400


def read_markdown(text: str) -> Parsed:
    """The text in blocks under its headings; the title is the front matter's, else the first `#` heading."""
    front = _FRONT.match(text)
    begin = front.end() if front else 0
    named = _TITLE.search(front.group()) if front else None
    title = named.group(1).strip("\"'") if named else ""
    blocks: list[Block] = [Block("code", (), 0, begin)] if begin else []
    starts = [begin + at for at in line_starts(text[begin:])]
    path: list[tuple[int, str]] = []
    done = begin
    for kind, level, words, first, last in _tokens(text[begin:]):
        start, stop = starts[first], starts[min(last, len(starts) - 1)]
        if text[done:start].strip():
            blocks.append(Block("text", _names(path), done, start))
        if level:
            path = [*(each for each in path if each[0] < level), (level, words)]
            title = title or (words if level == 1 else "")
        blocks.append(Block(kind, _names(path), start, stop, opens=bool(level)))
        done = stop
    if text[done:].strip():
        blocks.append(Block("text", _names(path), done, len(text)))
    return Parsed(title=title, text=text, blocks=tuple(blocks))


def _tokens(text: str) -> list[tuple[Kind, int, str, int, int]]:
    """The outermost blocks: kind, level of a heading and its words, first line and the one after the last."""
    found: list[tuple[Kind, int, str, int, int]] = []
    tokens: list[Token] = _parser().parse(text)
    for at, token in enumerate(tokens):
        if token.level or token.nesting < 0 or token.map is None:
            continue
        first, last = token.map
        if token.type == "heading_open":
            words = _plain(tokens[at + 1].content)
            found.append(
                ("heading" if words else "text", int(token.tag[1]) if words else 0, words, first, last)
            )
        else:
            found.append((_KINDS.get(token.type, "text"), 0, "", first, last))
    return found


@cache
def _parser() -> MarkdownIt:
    from markdown_it import MarkdownIt

    # What stands within a line is not looked at, and what could be slow in hostile text is mostly there.
    return MarkdownIt("commonmark").enable("table").disable("inline")


def _plain(words: str) -> str:
    """A heading without its marks."""
    words = _LINK.sub(r"\1", words[:_LONGEST])
    words = _EMPHASIS.sub(r"\2", _EMPHASIS.sub(r"\2", words))
    return " ".join(_ESCAPE.sub(r"\1", words).split())


def _names(path: list[tuple[int, str]]) -> tuple[str, ...]:
    return tuple(name for _, name in path)
