"""HTML, by the standard library's parser, as the text that a reader sees.

What an element says itself to be hidden is not read, by the attribute `hidden` or in its `style`: text that
nobody sees is there for who reads the page by machine. What a style sheet hides is read, for none is looked
at.

An event parser, and no tree: building one as HTML5 says takes time that grows with the square of the depth
(100,000 nested lists: minutes), and can take memory that does. What the standard parser is slow at, or fails
on, in some versions (declarations, comments and tags that never end) is decided here instead.
"""

from __future__ import annotations

import re
from collections import Counter
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
_ROWS: Final = frozenset(("tr", "thead", "tbody", "tfoot"))
# What ends without an end tag of its own: before one of these.
_ENDS_BEFORE: Final[dict[str, frozenset[str]]] = {
    "p": _BLOCKS | _HEADINGS.keys() | {"table", "pre"},
    "li": frozenset(("li",)),
    **dict.fromkeys(("dt", "dd"), frozenset(("dt", "dd"))),
    **dict.fromkeys(("td", "th"), _ROWS | {"td", "th"}),
    **dict.fromkeys(_ROWS, _ROWS),
    "option": frozenset(("option", "optgroup")),
    "optgroup": frozenset(("optgroup",)),
}
_VOID: Final = frozenset(
    ("area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr")
)
# Scripts hide these until a page is loaded; without them there would be nothing to see.
_ALWAYS_SEEN: Final = frozenset(("html", "body"))
_HIDING: Final = re.compile(
    r"(?:^|;)\s*(?:display\s*:\s*none|visibility\s*:\s*(?:hidden|collapse))\b", re.IGNORECASE
)
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


class _Unseen:
    """An element that is not seen, while it is open, with what is open in it."""

    def __init__(self, tag: str) -> None:
        self.tag = tag
        self._open = [tag]
        self._counts = Counter((tag,))

    @property
    def ended(self) -> bool:
        return not self._open

    def begins(self, tag: str) -> None:
        """Notes a start tag; the element has ended when that stands after it."""
        while self._open and tag in _ENDS_BEFORE.get(self._open[-1], ()):
            self._pop()
        if self._open and tag not in _VOID:
            self._open.append(tag)
            self._counts[tag] += 1

    def ends(self, tag: str) -> bool:
        """Notes an end tag; whether it is of the element or in it, and not of one around it."""
        if self._counts[tag]:
            while self._pop() != tag:
                pass
            return True
        if self.tag in _ENDS_BEFORE:  # and it ends with what is around it
            self._open.clear()
            return False
        return True

    def _pop(self) -> str:
        tag = self._open.pop()
        self._counts[tag] -= 1
        return tag


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
        self._titled = False
        self._unseen: _Unseen | None = None
        self._hidden = 0
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
        notes = []
        if self._hidden:
            notes.append(f"hidden elements that are not read: {self._hidden:,}")
        if self._unseen is not None and self._unseen.tag not in _ENDS_BEFORE:
            notes.append(f"<{self._unseen.tag}> is never closed: what follows it is not read")
        text = "".join(self._out)
        return Parsed(
            title=unified(title) or first, text=text, blocks=tuple(self._blocks), notes=tuple(notes), unit=""
        )

    # --- what comes ---

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if self._unseen is not None:
            self._unseen.begins(tag)
            if not self._unseen.ended:
                return
            self._unseen = None
        if tag in _UNSEEN:
            self._unseen = _Unseen(tag)
        elif tag not in _ALWAYS_SEEN and _is_hidden(attrs):
            self._hide(tag)
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
        if tag not in _UNSEEN and not _is_hidden(attrs):  # else it is closed with itself
            self.handle_starttag(tag, attrs)

    def handle_endtag(self, tag: str) -> None:
        if self._unseen is not None:
            within = self._unseen.ends(tag)
            self._unseen = None if self._unseen.ended else self._unseen
            if within:
                return
        if tag == "title":
            self._in_title, self._titled = False, True
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
        if self._unseen is not None:
            return
        if self._in_title:
            if not self._titled:  # the first one counts
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

    def _hide(self, tag: str) -> None:
        self._hidden += 1
        if self._tables:
            self._words.append(" ")
        elif tag in _HEADINGS or tag in _BLOCKS:
            self._end_block()
        if tag not in _VOID:
            self._unseen = _Unseen(tag)

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


def _is_hidden(attrs: list[tuple[str, str | None]]) -> bool:
    """Whether an element says itself that it is not seen."""
    return any(
        (name == "hidden" and (value or "").strip().lower() != "until-found")
        or (name == "style" and _HIDING.search(value or "") is not None)
        for name, value in attrs
    )


def _tidied(raw: str, *, table: bool) -> str:
    lines = (" ".join(line.split()) for line in raw.split("\n"))
    if table:
        lines = (line.removeprefix("| ").removesuffix(" |") for line in lines)
    return "\n".join(line for line in lines if line)
