"""HTML, by the standard library's parser, as the text that a reader sees.

An event parser, and no tree: building one as HTML5 says takes time that grows with the square of the depth
(100,000 nested lists: minutes), and can take memory that does. What the standard parser is slow at, or fails
on, in some versions (declarations, comments and tags that never end) is decided here instead.
"""

from __future__ import annotations

import re
from html.parser import HTMLParser
from typing import Final

from stratalog.recall.reading.contract import Block, Kind, Parsed
from stratalog.recall.reading.text import decoded, unified

_HEADINGS: Final = {f"h{level}": level for level in range(1, 7)}
_UNSEEN: Final = frozenset(("script", "style", "template", "noscript", "svg", "math"))
_BLOCK_NAMES: Final = """
    address article aside blockquote body caption center dd details dialog dir div dl dt fieldset figcaption
    figure footer form header hgroup hr html legend li main menu nav ol optgroup option p search section
    summary ul
"""
_BLOCKS: Final = frozenset(_BLOCK_NAMES.split())
_CHARSET: Final = re.compile(rb"charset\s*=\s*[\"']?\s*([\w.:-]+)", re.IGNORECASE)
_DECLARED_IN: Final = 4096  # bytes
# What a page says, and what browsers take it for.
_TAKEN_FOR: Final = {
    **dict.fromkeys(("iso-8859-1", "latin-1", "latin1", "us-ascii"), "cp1252"),
    **dict.fromkeys(("gb2312", "gbk"), "gb18030"),
    **dict.fromkeys(("utf-16", "utf-16le", "utf-16be"), "utf-8"),
}


def read_html(data: bytes) -> Parsed:
    """What is seen of the page, in blocks under its headings. Scripts and the like are left out; a row of a
    table is a line. Raises `InvalidInput` for bytes that are not in the encoding that is declared."""
    declared = _CHARSET.search(data[:_DECLARED_IN])
    name = declared.group(1).decode().lower() if declared else ""
    page = _Page(decoded(data, _TAKEN_FOR.get(name, name)))
    return page.parsed()


class _Page(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self._out: list[str] = []
        self._length = 0
        self._blocks: list[Block] = []
        self._path: list[tuple[int, str]] = []
        self._words: list[str] = []
        self._title: list[str] = []
        self._in_title = False
        self._unseen = ""
        self._depth = 0  # of elements of the kind `_unseen`
        self._pre = 0
        self._tables = 0
        self._kind: Kind = "text"
        self._level = 0
        self._last = text.rfind(">")
        self._last_comment = text.rfind("-->")
        self.feed(text)
        self.close()
        self._end_block()

    def parsed(self) -> Parsed:
        title = " ".join("".join(self._title).split())
        first = next((block.path[-1] for block in self._blocks if block.opens), "")
        notes = (f"<{self._unseen}> is never closed: what follows it is not read",) if self._unseen else ()
        text = "".join(self._out)
        return Parsed(
            title=unified(title) or first, text=text, blocks=tuple(self._blocks), notes=notes, unit=""
        )

    # --- what comes ---

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if self._unseen:
            self._depth += tag == self._unseen
        elif tag in _UNSEEN:
            self._unseen, self._depth = tag, 1
        elif tag == "title":
            self._in_title = True
        elif tag == "br":
            self._words.append("\n")
        elif tag == "img":
            self._words.append(f" {dict(attrs).get('alt') or ''} ")
        elif tag == "table":
            if not self._tables:
                self._end_block("table")
            self._tables += 1
        elif self._tables:
            if tag == "tr":
                self._words.append("\n")
            elif tag in ("td", "th"):
                self._words.append(" | ")
            elif tag in _BLOCKS or tag in _HEADINGS:
                self._words.append(" ")
        elif tag in _HEADINGS:
            self._end_block("heading")
            self._level = _HEADINGS[tag]
        elif tag == "pre":
            self._end_block("code")
            self._pre += 1
        elif tag in _BLOCKS:
            self._end_block("list" if tag in ("li", "dt", "dd") else "text")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in _UNSEEN:  # else it is closed with itself
            self.handle_starttag(tag, attrs)

    def handle_endtag(self, tag: str) -> None:
        if self._unseen:
            self._depth -= tag == self._unseen
            self._unseen = self._unseen if self._depth else ""
        elif tag == "title":
            self._in_title = False
        elif tag == "table" and self._tables:
            self._tables -= 1
            if not self._tables:
                self._end_block()
        elif self._tables:
            return
        elif tag == "pre":
            self._end_block()
            self._pre = max(0, self._pre - 1)
        elif tag in _HEADINGS or tag in _BLOCKS:
            self._end_block()

    def handle_data(self, data: str) -> None:
        if self._unseen:
            return
        if self._in_title:
            self._title.append(data)
        elif self._pre and not self._tables:
            self._words.append(data)
        else:
            self._words.append(data.replace("\n", " "))

    # --- what the parser below does otherwise, or not at all ---

    def parse_comment(self, i: int, report: int = 1) -> int:
        if i > self._last_comment:  # it never ends, and what follows is no comment
            return i + 4
        return self.rawdata.find("-->", i + 2) + 3

    def parse_html_declaration(self, i: int) -> int:
        return self._until_closed(i)

    def parse_pi(self, i: int) -> int:
        return self._until_closed(i)

    def parse_starttag(self, i: int) -> int:
        return self._whole(i, super().parse_starttag(i)) if i < self._last else self._rest(i)

    def parse_endtag(self, i: int) -> int:
        return self._whole(i, super().parse_endtag(i)) if i < self._last else self._rest(i)

    def _until_closed(self, i: int) -> int:
        return self.rawdata.find(">", i) + 1 if i < self._last else self._rest(i)

    def _whole(self, i: int, end: int) -> int:
        if end >= 0:
            return end
        self.handle_data("<")  # of a tag that never ends
        return i + 1

    def _rest(self, i: int) -> int:
        self.handle_data(self.rawdata[i:])
        return len(self.rawdata)

    # --- what is made of it ---

    def _end_block(self, kind: Kind = "text") -> None:
        """Ends the block that was begun, and begins one of this kind."""
        raw, was, level = "".join(self._words), self._kind, self._level
        self._words.clear()
        self._kind, self._level = kind, 0
        words = raw.strip("\n").rstrip() if was == "code" else _tidied(raw, table=was == "table")
        words = unified(words)
        if not words.strip():
            return
        if was == "heading":
            words = " ".join(words.split())
            self._path = [*(each for each in self._path if each[0] < level), (level, words)]
        if self._out:
            self._add("\n" if was == "list" and self._blocks[-1].kind == "list" else "\n\n")
        start = self._length
        self._add(words)
        path = tuple(name for _, name in self._path)
        self._blocks.append(Block(was, path, start, self._length, opens=was == "heading"))

    def _add(self, text: str) -> None:
        self._out.append(text)
        self._length += len(text)


def _tidied(raw: str, *, table: bool) -> str:
    lines = (" ".join(line.split()) for line in raw.split("\n"))
    if table:
        lines = (line.removeprefix("| ").removesuffix(" |") for line in lines)
    return "\n".join(line for line in lines if line)
