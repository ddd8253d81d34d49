"""What was said, as HTML that cannot act: Markdown without HTML and without pictures, each block in its own
direction, and the language where the script tells it."""

from __future__ import annotations

import html
import re
import unicodedata
from collections.abc import Sequence
from typing import Any, Final

from markdown_it import MarkdownIt
from markdown_it.token import Token

_LONGEST = 200_000  # characters; longer texts are shown as they are
_JUDGED = 2_000  # characters
# What no reader sees, and what turns the order of letters around, is shown as a sign.
UNSEEN: Final[dict[int, str]] = {
    **{code: chr(0x2400 + code) for code in range(32) if code not in (9, 10, 13)},
    0x7F: "\u2421",
    **dict.fromkeys(range(0x80, 0xA0), "\ufffd"),
    **dict.fromkeys(range(0xD800, 0xE000), "\ufffd"),
    **dict.fromkeys((0x202D, 0x202E, 0xFFFE, 0xFFFF), "\ufffd"),
}
# Scripts that one language is known by, the surest first: Japanese has Chinese signs too.
_SCRIPTS: Final = tuple(
    (language, re.compile(f"[{signs}]"))
    for language, signs in (
        ("ja", "\u3041-\u30ff\uff66-\uff9d"),
        ("ko", "\uac00-\ud7a3\u1100-\u11ff"),
        ("zh", "\u3400-\u4dbf\u4e00-\u9fff"),
        ("he", "\u05d0-\u05ea"),
        ("fa", "\u067e\u0686\u0698\u06af\u06cc\u06a9"),
        ("ar", "\u0621-\u064a"),
        ("th", "\u0e01-\u0e5b"),
        ("el", "\u0370-\u03ff"),
    )
)
_LETTER = re.compile(r"[^\W\d_]")
_SHARE = 5  # one in so many letters is of the script, for it is often among English words and code


def language_of(words: str) -> str:
    """The language that the script tells; "" where it is one of many languages, as Latin is."""
    told = words[:_JUDGED]
    if told.isascii():
        return ""
    letters = len(_LETTER.findall(told))
    for language, signs in _SCRIPTS:
        count = len(signs.findall(told))
        if count and count * (_SHARE if language != "fa" else 4 * _SHARE) >= letters:
            return language
    return ""


def markdown(words: str) -> str:
    """Words of a message as HTML."""
    language = language_of(words)
    words = words.translate(UNSEEN)
    if len(words) > _LONGEST:
        made = f'<pre class="plain">{html.escape(words)}</pre>\n'
    else:
        tokens = _MARKDOWN.parse(words)
        _adapt(tokens)
        made = _MARKDOWN.renderer.render(tokens, _MARKDOWN.options, {})
    return f'<div class="body" lang="{language}">\n{made}</div>\n' if language else made


def _adapt(tokens: Sequence[Token]) -> None:
    """Lets headings follow those of the page without a gap, says of links that nothing is told to whom they
    lead to, and sets directions."""
    _direct(tokens)
    level = 2
    for place, token in enumerate(tokens):
        # The parser aligns cells by a style of their own, which the page's policy forbids.
        side = str(token.attrs.pop("style", "")).removeprefix("text-align:")
        if side in ("center", "right"):
            token.attrSet("class", side)
        if token.type == "heading_open":
            level = min(level + 1, int(token.tag[1]) + 2, 6)
            token.tag = tokens[place + 2].tag = f"h{level}"
        for child in token.children or ():
            if child.type == "link_open":
                child.attrSet("rel", "noopener noreferrer nofollow")


def _direct(tokens: Sequence[Token]) -> None:
    """Gives each block the direction of the first words in it, where its surroundings have another. (What
    `dir="auto"` finds is not that of a list whose items say their own.)"""
    blocks: list[tuple[Token, str]] = []
    for token in tokens:
        if token.nesting == 1:
            blocks.append((token, ""))
        elif token.nesting == -1:
            blocks.pop()
        elif token.type == "inline":
            found = direction_of(token.content)
            around = "ltr"
            for place, (block, known) in enumerate(blocks):
                if not known and found:
                    blocks[place] = (block, found)
                    if found != around:
                        block.attrSet("dir", found)
                around = blocks[place][1] or around


def direction_of(words: str) -> str:
    """`rtl` or `ltr`, as the first letter that has a direction says; "" when none has."""
    for char in words:
        kind = unicodedata.bidirectional(char)
        if kind in ("R", "AL"):
            return "rtl"
        if kind == "L":
            return "ltr"
    return ""


def _table(renderer: Any, tokens: Sequence[Token], place: int, options: Any, env: Any) -> str:
    table = f"<table{renderer.renderAttrs(tokens[place])}>\n"
    return f'<div class="scroll" role="group" aria-label="Table" tabindex="0">{table}'


def _table_end(renderer: Any, tokens: Sequence[Token], place: int, options: Any, env: Any) -> str:
    return "</table></div>\n"


class _Markdown(MarkdownIt):
    """Links lead to the web, to mail and within the page; others stay the text that they are."""

    def validateLink(self, url: str) -> bool:
        return url.strip().lower().startswith(("https://", "http://", "mailto:", "#"))


def _made() -> MarkdownIt:
    made = _Markdown("commonmark", {"html": False, "breaks": True})
    made.enable(["table", "strikethrough"]).disable("image")
    made.add_render_rule("table_open", _table)
    made.add_render_rule("table_close", _table_end)
    return made


_MARKDOWN: Final = _made()
