"""The terms of a text: one pure function for what is indexed and for what is asked.

Text is normalised (NFKC) and cut into runs. A run of a script without spaces (Han, Kana, Hangul, Thai …)
gives every character with its successor, the last one alone, so that one character can be asked for by
prefix. Anything else is a token: letters, digits and marks of other scripts, held together by the
connectors of identifiers (`src/foo_bar.py`, `1.2.3`, `ABC-123`, `a@b.org`, `ns::Name`). A plain word is
casefolded and, when it is Latin, freed of accents and stemmed, an irregular form of English as its base
(`went`: go); a compound gives itself whole, its names and the pieces of its names (`getUserName`:
getusername, get, user, name). Before the words come the terms of the dates and numbers in the text (see
`numbers`). Nothing here knows SQLite.

What `terms` gives of any text is a form of its own, `VERSION`, which indexes keep beside what they stored.

Hostile input costs linear time and little space. A term is cut to its first 64 characters, on both sides
alike, so a long token is still found by itself. A token whose runs of one character class are shorter than
2.5 on average is a hash or a blob: it is kept whole and never split, and dropped when it is longer than 64
characters (128 for hexadecimal), which is what base64 comes to. A token longer than 1,024 characters is not
split either. A token expands once and is remembered.
"""

from __future__ import annotations

import unicodedata
from functools import cache, lru_cache
from typing import Final

import regex

from stratalog.recall.numbers import number_terms
from stratalog.recall.stemming import stem

VERSION: Final = 2  # to be raised with every change after which a text has other terms
MAX_TERM: Final = 64
_MAX_HEX: Final = 128
_MAX_SPLIT: Final = 1024
_OPAQUE_FROM: Final = 7
_OPAQUE_RUN: Final = 2.5

# The last is the prolonged sound mark, which Kana shares with nobody but Unicode calls common.
_SCRIPTS: Final = (
    r"\p{Han}\p{Hiragana}\p{Katakana}\p{Hangul}\p{Bopomofo}"
    r"\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}"
    r"\u30FC"
)
_OTHER = rf"[[\p{{L}}\p{{M}}\p{{N}}_]--[{_SCRIPTS}]]"


def _token(word: str, first: str = "") -> regex.Pattern[str]:
    """Group 1 is a run or a token. An English tail (John's, we'll) is consumed and belongs to nothing."""
    compound = rf"{word}+(?:(?:://|::|[-._/\\:@\#&+]){word}+)*(?:\+\+|\#)?"
    return regex.compile(rf"({first}{compound})(?:'(?:s|t|d|m|ll|re|ve|S|T|D|M|LL|RE|VE)\b)?", regex.V1)


_TOKEN = _token(_OTHER, rf"[{_SCRIPTS}]+|")
_ASCII_TOKEN = _token("[A-Za-z0-9_]")
SPACELESS: Final = regex.compile(rf"[{_SCRIPTS}]")
# HTTPServer2 -> HTTP, Server, 2. One step back at most, so linear.
_PIECE = regex.compile(
    r"[\p{Lu}\p{Lt}]+(?!\p{Ll})|[\p{Lu}\p{Lt}]?[[\p{L}\p{M}]--[\p{Lu}\p{Lt}]]+|\p{N}+", regex.V1
)
_NAME = regex.compile(r"[^\w.\-]+")
_WORD = regex.compile(r"\W+")
_HEX = regex.compile(r"[0-9A-Fa-f]+")
# Reordering marks is quadratic in the length of their run: 80,000 of them take CPython 17 s. 30 is the bound
# of Unicode's stream-safe form. The two half-width sound marks are letters that decompose into marks.
_ZALGO = regex.compile(r"([\p{M}\uFF9E\uFF9F]{30})[\p{M}\uFF9E\uFF9F]+", regex.V1)
_APOSTROPHES = {0x2019: "'", 0x02BC: "'", 0xFF07: "'"}


# Function words, written as the terms they become.
_STOP_WORDS = """
    a about ain all also am an and ani are aren as at be becaus been befor both but by can could couldn did
    didn do doe doesn don for from had hadn has hasn have haven he her here hi him his how i if in into is isn
    it just let ll mani me much my no not of on or our out re she should shouldn so some such than that the
    their them then there these they this those to too us ve veri was wasn we were weren what when where which
    while who whom whose whi will with won would wouldn you your
    什么 什麼 甚么 甚麼 怎么 怎麼 怎样 怎樣 哪里 哪裡 哪些 哪个 哪個 为什 為什 为何 為何 多少 如何 是否
    我们 我們 你们 你們 他们 他們 她们 她們 它们 它們 这个 這個 那个 那個 这些 這些 那些 这里 這裡 那里 那裡
    一个 一個 可以 没有 沒有 是什 么是 麼是 有什 了什 的是 是的 了吗 了嗎 的吗 的嗎 是谁 是誰
    的 了 是 在 和 与 與 吗 嗎 呢 吧 我 你 他 她 它 谁 誰 年 月 日 号 號
    です ます した して いる ある この その あの こと から まで
"""
STOP: Final = frozenset(_STOP_WORDS.split())

# Forms that no stemmer takes together, each group with its base last; not `won`, which is in `won't` too.
_IRREGULAR: Final = """
    became become begun began begin|bought buy|broke broken break|brought bring|built build|came come
    caught catch|chose chosen choose|children child|drank drunk drink|drawn drew draw|driven drove drive
    eaten ate eat|fallen fell fall|feet foot|felt feel|flew flown fly|forgot forgotten forget|fought fight
    found find|froze frozen freeze|gave given give|gone went go|got gotten get|grew grown grow|heard hear
    held hold|hid hidden hide|kept keep|knew known know|led lead|left leave|lent lend|lost lose|made make
    meant mean|men man|met meet|mice mouse|paid pay|people person|ran run|ridden rode ride|risen rise
    said say|sang sung sing|sat sit|saw seen see|sent send|shot shoot|shown show|slept sleep|sold sell
    sought seek|spent spend|spoke spoken speak|stole stolen steal|stood stand|swam swum swim|taken took take
    taught teach|teeth tooth|thought think|threw thrown throw|told tell|understood understand|wives wife
    woke woken wake|women woman|wore worn wear|written wrote write
"""


def terms(text: str) -> list[str]:
    """The terms of `text`: those of its dates and numbers, then those of its words, in order, with
    repetitions; the same for `text` and its NFKC form.

    Each is 1 to 64 characters long and has no space, quote or control character. Text of any kind has terms
    or none; nothing is raised, and the time is linear in its length.
    """
    if text.isascii():
        words = [term for token in _ASCII_TOKEN.findall(text) for term in _expanded(token)]
        return number_terms(text) + words
    safe = unicodedata.normalize("NFKC", _ZALGO.sub(r"\1", text)).translate(_APOSTROPHES)
    found = number_terms(safe)
    for token in _TOKEN.findall(safe):
        if SPACELESS.match(token):
            found += [token[at : at + 2] for at in range(len(token))]
        else:
            found += _expanded(token)
    return found


def query_terms(text: str) -> list[str]:
    """The distinct terms to ask for: those of `text` without stop words, in order.

    Stop words are English and Chinese function words; they stay when there is nothing else. The single
    character that ends a longer run is left out, since its bigram says more.
    """
    found = terms(text)
    asked = dict.fromkeys(
        term
        for before, term in zip(["", *found], found, strict=False)
        if not (len(term) == 1 and len(before) == 2 and before[1] == term and is_spaceless(term))
    )
    return [term for term in asked if term not in STOP] or list(asked)


def is_spaceless(term: str) -> bool:
    """Whether `term` comes from a script written without spaces."""
    return not term.isascii() and SPACELESS.match(term) is not None


def _expanded(token: str) -> tuple[str, ...]:
    # A token longer than any that recurs would only push others out of the cache.
    return _expand(token) if len(token) <= _MAX_HEX else _expand.__wrapped__(token)


@lru_cache(maxsize=32768)
def _expand(token: str) -> tuple[str, ...]:
    """The terms of one token: one for a plain word; whole, names and pieces for a compound."""
    if token.isalpha() and (token[1:].islower() or token.isupper()):
        return (_term(token),)
    whole = token.strip("_")
    if len(whole) < 2:
        return _distinct(whole)
    pieces = _PIECE.findall(whole)
    size = sum(map(len, pieces))
    if size >= _OPAQUE_FROM and size < _OPAQUE_RUN * len(pieces):
        longest = _MAX_HEX if _HEX.fullmatch(whole) else MAX_TERM
        return _distinct(whole) if len(whole) <= longest else ()
    if len(whole) > _MAX_SPLIT:
        return _distinct(whole)
    words = (word.strip("_") for word in _WORD.split(whole))
    return _distinct(*(name for name in (whole, *_NAME.split(whole), *words, *pieces) if len(name) > 1))


def _distinct(*names: str) -> tuple[str, ...]:
    # A token of marks alone has a term without characters: none.
    return tuple(dict.fromkeys(filter(None, map(_term, names))))


def _term(word: str) -> str:
    folded = word[:_MAX_SPLIT].casefold()
    if not folded.isascii():
        # Accents go where that leaves plain Latin; й or が are letters of their own and stay.
        bare = "".join(c for c in unicodedata.normalize("NFKD", folded) if not unicodedata.combining(c))
        folded = bare if bare.isascii() else unicodedata.normalize("NFC", folded)
    if folded.isascii() and folded.isalpha() and len(folded) <= MAX_TERM:
        folded = stem(folded)
        folded = _bases().get(folded, folded)
    return folded[:MAX_TERM]


@cache
def _bases() -> dict[str, str]:
    """The stem of each irregular form, with its base's."""
    groups = (group.split() for line in _IRREGULAR.strip().split("\n") for group in line.split("|"))
    return {stem(form): stem(group[-1]) for group in groups for form in group[:-1]}
