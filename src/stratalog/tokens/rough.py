"""The first of three levels of counting: from the characters alone, at once, for any model.

The characters are made into a string of their classes, one byte each, and what matters of it is counted:
words, long words, humps of camelCase, groups of three digits, runs of marks, lines, indents, Chinese
characters by how common they are. Each has a weight, and the sum is the count. It is a sum of what is there,
so text that is appended never makes it less, and every pass is one of C over the whole text, so that it is
linear.

There is one set of weights for each public vocabulary, as they are too unlike in Chinese to share one. They
are fitted (`python benchmarks/token_counts.py --fit`) on other texts than those on which the error is told;
over a text of a few hundred tokens it is meant to be within 15 % of o200k and of cl100k, and in Chinese never
under by more than 10 %. A model whose vocabulary is not public is counted by the family it is likened to.

What it cannot see: which words are in the vocabulary. A single word may be off by half, one character
repeated a thousand times by half too, encoded bytes (base64) by a third, and languages that are rare in the
vocabulary (Finnish, Thai, Amharic) by more.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from stratalog.tokens import entries, media
from stratalog.tokens.contract import Level
from stratalog.tokens.families import Encoding, Family, family_of
from stratalog.types import AnyEntry

IMAGE: Final = media.IMAGE
AUDIO: Final = media.AUDIO
FILE: Final = media.FILE
ENVELOPE: Final = entries.ENVELOPE


class Weights(msgspec.Struct, frozen=True):
    """Tokens for each of a kind. A text's `shape`, which counts the kinds, has the same names."""

    word: float  # a run of Latin letters
    word8: float  # for each whole 8 letters of it, and
    word16: float  # for each whole 16: a long run is rather encoded bytes than a word
    hump: float  # an inner capital
    capitals: float  # a pair of capitals
    accented: float  # a Latin letter that is not ASCII
    digits: float  # three digits
    digit: float  # one that is left over
    spaced: float  # a space before a digit
    mark: float  # a run of ASCII punctuation
    mark4: float  # for each whole 4 of it, until
    mark16: float  # for each whole 16: a ruler, and
    mixed: float  # for each change of mark in a long run: it is none
    border: float  # a Latin letter right after a Chinese character
    line: float  # a run of line breaks, as pairs
    indent: float  # a run of spaces, and
    space64: float  # for each whole 64
    tab: float  # tabs, as pairs, and
    tab4: float  # for each whole 4
    control: float  # a control character
    han_common: float  # a Chinese character of the hundred commonest
    han: float  # another of the 3,755 of GB 2312's first level
    han_rare: float  # of its second level
    han_other: float  # of neither: a traditional form, or a rare one
    han_mark: float  # U+3000 to U+303F: 。、「」
    kana: float
    hangul: float
    wide: float  # a full-width form: ，！（
    letter2: float  # a letter of two bytes in UTF-8: Greek, Cyrillic, Hebrew, Arabic
    letter3: float  # one of three: Indic, Thai, Georgian
    symbol: float  # dashes, quotes, arrows, boxes
    emoji: float  # a character of four bytes


WEIGHTS: Final[Mapping[Encoding, Weights]] = {
    "o200k": Weights(
        word=1.01,
        word8=0.13,
        word16=1.63,
        hump=0.36,
        capitals=0.33,
        accented=0.19,
        digits=1.00,
        digit=0.89,
        spaced=0.41,
        mark=0.88,
        mark4=0.39,
        mark16=0.02,
        mixed=0.60,
        border=0.25,
        line=0.15,
        indent=0.93,
        space64=0.53,
        tab=0.71,
        tab4=1.27,
        control=1.00,
        han_common=0.50,
        han=0.97,
        han_rare=2.50,
        han_other=1.74,
        han_mark=0.60,
        kana=0.57,
        hangul=0.66,
        wide=1.51,
        letter2=0.33,
        letter3=0.30,
        symbol=1.07,
        emoji=1.63,
    ),
    "cl100k": Weights(
        word=1.04,
        word8=0.14,
        word16=1.63,
        hump=0.28,
        capitals=0.35,
        accented=0.53,
        digits=0.99,
        digit=0.89,
        spaced=0.55,
        mark=0.83,
        mark4=0.41,
        mark16=0.03,
        mixed=0.60,
        border=0.00,
        line=0.10,
        indent=0.80,
        space64=0.60,
        tab=0.77,
        tab4=0.60,
        control=1.00,
        han_common=0.91,
        han=1.51,
        han_rare=2.50,
        han_other=2.65,
        han_mark=0.60,
        kana=0.83,
        hangul=1.12,
        wide=2.00,
        letter2=0.65,
        letter3=1.05,
        symbol=1.19,
        emoji=2.75,
    ),
    "llama3": Weights(
        word=1.03,
        word8=0.14,
        word16=1.63,
        hump=0.28,
        capitals=0.35,
        accented=0.53,
        digits=0.99,
        digit=0.89,
        spaced=0.53,
        mark=0.83,
        mark4=0.41,
        mark16=0.03,
        mixed=0.60,
        border=0.00,
        line=0.10,
        indent=0.79,
        space64=0.61,
        tab=0.77,
        tab4=0.60,
        control=1.00,
        han_common=0.50,
        han=1.00,
        han_rare=2.50,
        han_other=1.41,
        han_mark=0.60,
        kana=0.56,
        hangul=0.72,
        wide=1.97,
        letter2=0.38,
        letter3=0.52,
        symbol=1.13,
        emoji=2.75,
    ),
    "qwen3": Weights(
        word=1.06,
        word8=0.04,
        word16=1.84,
        hump=0.29,
        capitals=0.30,
        accented=0.43,
        digits=2.96,
        digit=1.27,
        spaced=0.79,
        mark=0.78,
        mark4=0.42,
        mark16=0.04,
        mixed=0.60,
        border=0.00,
        line=0.10,
        indent=0.90,
        space64=0.55,
        tab=0.89,
        tab4=0.56,
        control=1.00,
        han_common=0.50,
        han=0.73,
        han_rare=2.50,
        han_other=1.42,
        han_mark=0.60,
        kana=0.52,
        hangul=0.80,
        wide=1.21,
        letter2=0.45,
        letter3=0.64,
        symbol=0.94,
        emoji=1.25,
    ),
}

_COMMON = re.compile(
    "[的一是不了人我在有他這这為为之大來来以個个中上們们到說说國国和地也子時时道出而要于於就下得可你年生自會会那后後"
    "能對对著着事其裡里所去行過过家十用發发天如然作方成者多日都三小軍军二無无同麼么經经法當当起與与好看學学進进種种"
    "將将還还分此心前面又定見见只主沒没公從从嗎吗呢吧很什她]"
)


_LONG_RUN: Final = 8
_RUNS: Final = re.compile(rb"[!-/:-@\[-`{-~]{%d,}" % _LONG_RUN)
_REPEATED: Final = re.compile(rb"(.)\1+")


def _table(other: str, *classes: tuple[str, Iterable[int]]) -> bytes:
    """A table for `bytes.translate`: the byte of each class for its members, `other` for all else."""
    table = bytearray(other.encode() * 256)
    for name, members in classes:
        for member in members:
            table[member] = ord(name)
    return bytes(table)


# The classes by the first byte of a character's UTF-8; the bytes that follow it are dropped on the way.
_FOLLOWING: Final = bytes(range(0x80, 0xC0))
_CLASSES: Final = _table(
    "c",
    ("a", range(0x61, 0x7B)),
    ("A", range(0x41, 0x5B)),
    ("0", range(0x30, 0x3A)),
    ("p", [byte for byte in range(0x21, 0x7F) if not chr(byte).isalnum()]),
    ("s", b" "),
    ("t", b"\t"),
    ("n", b"\r\n"),
    ("m", [0xC2, 0xE2, 0xEE]),
    ("l", [0xC3]),
    ("x", range(0xC4, 0xE0)),
    ("i", [0xE0, 0xE1]),
    ("k", [0xE3]),
    ("h", range(0xE4, 0xEA)),
    ("g", range(0xEA, 0xEE)),
    ("f", [0xEF]),
    ("e", range(0xF0, 0x100)),
)
_WORDS: Final = _table(" ", ("w", b"aAl"))
_MARKS: Final = _table(" ", ("p", b"p"))
_SPACES: Final = _table(".", ("s", b"s"))

# The first bytes of GB 2312's pairs: its first level of characters, and its second.
_ASCII: Final = bytes(range(0x80))
_NOT_LEVEL1: Final = bytes([*range(0xB0), *range(0xD8, 0x100)])
_NOT_LEVEL2: Final = bytes([*range(0xD8), *range(0xF8, 0x100)])


def shape(text: str) -> Weights:
    """How many of each kind the text has: what its count is made of. Never negative."""
    raw = text.encode("utf-8", "surrogatepass")
    classes = b"." + raw.translate(_CLASSES, _FOLLOWING)
    count = classes.count
    words = classes.translate(_WORDS).count
    marks = classes.translate(_MARKS).count
    triples, marks16 = count(b"000"), marks(b"p" * 16)
    han_marks = raw.count(b"\xe3\x80")
    common, first, second, other = _han(text, count(b"h"))
    return Weights(
        word=words(b" w"),
        word8=words(b"w" * 8),
        word16=words(b"w" * 16),
        hump=count(b"aA"),
        capitals=count(b"AA"),
        accented=count(b"l"),
        digits=triples,
        digit=count(b"0") - 3 * triples,
        spaced=count(b"s0"),
        mark=marks(b" p"),
        mark4=marks(b"pppp") - 4 * marks16,
        mark16=marks16,
        mixed=_mixed(raw) if marks(b"p" * _LONG_RUN) else 0,
        border=count(b"ha") + count(b"hA"),
        line=count(b"n") - count(b"nn"),
        indent=classes.translate(_SPACES).count(b".ss"),
        space64=count(b"s" * 64),
        tab=count(b"t") - count(b"tt"),
        tab4=count(b"tttt"),
        control=count(b"c"),
        han_common=common,
        han=first,
        han_rare=second,
        han_other=other,
        han_mark=han_marks,
        kana=count(b"k") - han_marks,
        hangul=count(b"g"),
        wide=count(b"f"),
        letter2=count(b"x"),
        letter3=count(b"i"),
        symbol=count(b"m"),
        emoji=count(b"e"),
    )


def _mixed(raw: bytes) -> int:
    """How often the mark changes in runs of `_LONG_RUN` marks and more, beyond their first few."""
    changes = (len(_REPEATED.sub(rb"\1", run)) for run in _RUNS.findall(raw))
    return sum(max(0, each - _LONG_RUN // 2) for each in changes)


def _han(text: str, total: int) -> tuple[int, int, int, int]:
    """The Chinese characters: the commonest, then of GB 2312's first level, of its second, of neither."""
    if not total:
        return 0, 0, 0, 0
    rest = _COMMON.sub("", text)
    common = len(text) - len(rest)
    leads = rest.encode("gb2312", "ignore").translate(None, _ASCII)[::2]
    first = len(leads.translate(None, _NOT_LEVEL1))
    second = len(leads.translate(None, _NOT_LEVEL2))
    return common, first, second, total - common - first - second


def weigh(text: str, weights: Weights) -> float:
    """The count of the text by these weights, not rounded."""
    counts: tuple[float, ...] = msgspec.structs.astuple(shape(text))
    each: tuple[float, ...] = msgspec.structs.astuple(weights)
    return sum(weight * count for weight, count in zip(each, counts, strict=True))


def count_text(text: str, family: Family | None = None) -> int:
    """About how many tokens the text takes in o200k, or in the family's vocabulary; 0 only for no text."""
    if not text:
        return 0
    if family is None:
        return max(1, round(weigh(text, WEIGHTS["o200k"])))
    return max(1, round(weigh(text, WEIGHTS[family.encoding]) * family.factor))


def count_entry(entry: AnyEntry) -> int:
    """About how many tokens the entry takes in what a model is sent; 0 for one that no model sees."""
    return entries.entry_tokens(entry, count_text, media.FLAT)


def count_tools(tools: Iterable[Mapping[str, Any]]) -> int:
    """About how many tokens the schemas of the tools take; 0 for none."""
    return entries.tools_tokens(tools, count_text)


class Rough(msgspec.Struct, frozen=True):
    """The rough counter of a family of models."""

    family: Family

    @property
    def name(self) -> str:
        return f"rough, {self.family.name}"

    @property
    def level(self) -> Level:
        return "rough"

    @property
    def is_estimate(self) -> bool:
        return True

    def count_text(self, text: str) -> int:
        return count_text(text, self.family)

    def count_entry(self, entry: AnyEntry) -> int:
        return entries.entry_tokens(entry, self.count_text, self.family.images)

    def count_tools(self, tools: Iterable[Mapping[str, Any]]) -> int:
        return entries.tools_tokens(tools, self.count_text, self.family.tools)


def rough_counter(model: str) -> Rough:
    """The rough counter for the model; by o200k and flat images for one of a name we do not know."""
    return Rough(family_of(model))
