"""The piece of a text to show for a hit: around the first word that was asked for, on one line."""

from __future__ import annotations

from collections.abc import Collection

import regex

from stratalog.recall.terms import terms

_WORD = regex.compile(r"[\p{Han}\p{Hiragana}\p{Katakana}]{1,8}|[\p{L}\p{N}_./:@-]+")
_SEARCHED = 40_000


def holds(text: str, wanted: Collection[str]) -> bool:
    """Whether one of the terms `wanted` is in the text."""
    return not set(wanted).isdisjoint(terms(text))


def excerpt(text: str, wanted: Collection[str], width: int = 300) -> str:
    """At most `width` characters of `text`, from a little before the first word with one of the terms
    `wanted`; from its beginning where there is none. Cut ends show an ellipsis."""
    asked = set(wanted)
    found = 0
    for word in _WORD.finditer(text[:_SEARCHED]):
        if not asked.isdisjoint(terms(word.group())):
            found = word.start()
            break
    start = max(0, found - width // 4)
    if start:
        space = text.find(" ", start, found)
        start = space + 1 if space >= 0 else start
    piece = " ".join(text[start : start + 2 * width].split())
    piece = ("…" if start else "") + piece
    return piece if len(piece) <= width else piece[: width - 1].rstrip() + "…"
