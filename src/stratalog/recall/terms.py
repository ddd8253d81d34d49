"""The terms of a text: one pure function for what is indexed and for what is asked.

Text is normalised (NFKC), freed of characters that do not show, and cut into runs. A run of a script without
spaces (Han, Kana, Hangul, Thai …) gives every character with its successor, the last one alone, so that one
character can be asked for by prefix. An emoji is a term, its skin tone aside; a joined one is its parts.
Anything else is a token: letters, digits and marks of other scripts, held together by the connectors of
identifiers (`src/foo_bar.py`, `1.2.3`, `ABC-123`, `a@b.org`, `ns::Name`).

A plain word is casefolded and its letters folded (see `_folded`); what is then plain Latin is stemmed as
English, an irregular form as its base (`went`: go), and a word with an umlaut or ß as German too (`Häuser`:
hauser, haus). A compound gives itself whole, its names and the pieces of its names (`getUserName`:
getusername, get, user, name), a short one of words also what it is without its connectors (`wi-fi`: wifi),
a version what it is without its `v`. Before the words come the terms of the dates and numbers in the text
(see `numbers`). Nothing here knows SQLite.

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
from stratalog.recall.stemming import german_stem, stem

VERSION: Final = 3  # to be raised with every change after which a text has other terms
MAX_TERM: Final = 64
_MAX_HEX: Final = 128
_MAX_SPLIT: Final = 1024
_OPAQUE_FROM: Final = 7
_OPAQUE_RUN: Final = 2.5
_SHORT: Final = 2  # letters of a part that is often written together with the next; of more is found worse

# The last is the prolonged sound mark, which Kana shares with nobody but Unicode calls common.
_SCRIPTS: Final = (
    r"\p{Han}\p{Hiragana}\p{Katakana}\p{Hangul}\p{Bopomofo}"
    r"\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}"
    r"\u30FC"
)
_OTHER = rf"[[\p{{L}}\p{{M}}\p{{N}}_]--[{_SCRIPTS}]]"
# Not the signs, arrows and bullets of texts, some of which Unicode counts as pictures. A flag is two letters.
_EMOJI: Final = r"[\p{Extended_Pictographic}--[©®\u2190-\u21FF\u25A0-\u25FF]]|\p{Regional_Indicator}{2}"


def _token(word: str, first: str = "") -> regex.Pattern[str]:
    """Group 1 is a run or a token. An English tail (John's, we'll) is consumed and belongs to nothing."""
    compound = rf"{word}+(?:(?:://|::|[-._/\\:@\#&+]){word}+)*(?:\+\+|\#)?"
    return regex.compile(rf"({first}{compound})(?:'(?:s|t|d|m|ll|re|ve|S|T|D|M|LL|RE|VE)\b)?", regex.V1)


_TOKEN = _token(_OTHER, rf"[{_SCRIPTS}]+|{_EMOJI}|")
_ASCII_TOKEN = _token("[A-Za-z0-9_]")
SPACELESS: Final = regex.compile(rf"[{_SCRIPTS}]")
# HTTPServer2 -> HTTP, Server, 2. One step back at most, so linear.
_PIECE = regex.compile(
    r"[\p{Lu}\p{Lt}]+(?!\p{Ll})|[\p{Lu}\p{Lt}]?[[\p{L}\p{M}]--[\p{Lu}\p{Lt}]]+|\p{N}+", regex.V1
)
_NAME = regex.compile(r"[^\w.\-]+")
_WORD = regex.compile(r"\W+")
_HEX = regex.compile(r"[0-9A-Fa-f]+")
_NUMBERED = regex.compile(r"[vV]\d+\.[\w.\-]*")
_JOINED = regex.compile(r"(?=.{3,32}\Z)\p{L}+([-._])\p{L}+(?:\1\p{L}+)?")
# Reordering marks is quadratic in the length of their run: 80,000 of them take CPython 17 s. 30 is the bound
# of Unicode's stream-safe form. The two half-width sound marks are letters that decompose into marks.
_ZALGO = regex.compile(r"([\p{M}\uFF9E\uFF9F]{30})[\p{M}\uFF9E\uFF9F]+", regex.V1)
# Soft hyphens, joiners, marks of direction, selectors of a shape; tones of skin; Arabic's stretching line.
_HIDDEN = regex.compile(r"[\p{Default_Ignorable_Code_Point}\p{Emoji_Modifier}\u0640]+")
# The stretching line is also in the presentation forms of Arabic.
_ALIKE: Final = (("\u2019", "'"), ("\u02bc", "'"), ("\u2010", "-"), ("\u0640", ""))

# Marks that are no part of a letter, of decomposed text: of Latin and Greek, of stress on a vowel and over ё
# in Cyrillic, of vowels in Hebrew, of vowels and over or under an alef in Arabic, around a symbol.
# й, ї and ў are letters of their own, and in other scripts marks are vowels.
_MARKS = regex.compile(
    r"(?<=[аеєиіоуыэюя])[\u0300\u0301]|(?<=е)\u0308[\u0300\u0301]?"
    r"|(?<!\p{Cyrillic}\p{M}*)[\u0300-\u036F\u1AB0-\u1AFF\u1DC0-\u1DFF]"
    r"|[\u0591-\u05BD\u05BF\u05C1\u05C2\u05C4\u05C5\u05C7]"
    r"|[\u0610-\u061A\u064B-\u0652\u0670\u06D6-\u06DC\u06DF-\u06E4\u06E7\u06E8\u06EA-\u06ED]"
    r"|(?<=\u0627)[\u0653-\u0655]|[\u20D0-\u20FF\uFE20-\uFE2F]",
    regex.V1,
)
_GERMAN = regex.compile("[äöüßÄÖÜ]")
# Letters that have no decomposition, and those of Arabic that are written for one another.
_LETTERS: Final = str.maketrans(
    {"ł": "l", "ø": "o", "đ": "d", "ð": "d", "þ": "th", "ħ": "h", "ı": "i", "æ": "ae", "œ": "oe"}
    | {"ŧ": "t", "ŋ": "n", "ə": "e", "ƒ": "f", "ى": "ي", "ی": "ي", "ک": "ك", "ة": "ه"}
)


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
    safe = _normal(text)
    found = number_terms(safe)
    for token in _TOKEN.findall(safe):
        if SPACELESS.match(token):
            found += [token[at : at + 2] for at in range(len(token))]
        else:
            found += _expanded(token)
    return found


def _normal(text: str) -> str:
    bare = _ZALGO.sub(r"\1", _HIDDEN.sub("", text))
    safe = unicodedata.normalize("NFKC", bare)
    for sign, plain in _ALIKE:  # a table for `translate` takes ten times as long
        safe = safe.replace(sign, plain)
    return safe


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
        return (_term(token),) if token.isascii() else _distinct(token)
    whole = token.strip("_")
    if len(whole) < 2:
        return _distinct(whole)
    pieces = _PIECE.findall(whole)
    size = sum(map(len, pieces))
    if size >= _OPAQUE_FROM and size < _OPAQUE_RUN * len(pieces):
        longest = _MAX_HEX if _HEX.fullmatch(whole) else MAX_TERM
        return _distinct(whole, *_unnumbered(whole)) if len(whole) <= longest else ()
    if len(whole) > _MAX_SPLIT:
        return _distinct(whole)
    names = (whole, *_NAME.split(whole), *(word.strip("_") for word in _WORD.split(whole)))
    also = (other for name in dict.fromkeys(names) for other in (*_unnumbered(name), *_joined(name)))
    return _distinct(*(name for name in (*names, *pieces, *also) if len(name) > 1))


def _unnumbered(name: str) -> tuple[str, ...]:
    """A version (`v1.2.3`) without its letter, if it is one."""
    return (name[1:],) if _NUMBERED.fullmatch(name) else ()


def _joined(name: str) -> tuple[str, ...]:
    """Two or three words that one sign connects without it, where they are often written so."""
    found = _JOINED.fullmatch(name)
    if not found:
        return ()
    parts = name.split(found[1])
    often = found[1] == "_" or min(map(len, parts)) <= _SHORT
    return ("".join(parts),) if often else ()


def _distinct(*names: str) -> tuple[str, ...]:
    found: dict[str, None] = {}
    for name in names:
        found[_term(name)] = None
        if not name.isascii() and (german := _german(name)):
            found[german] = None
    found.pop("", None)  # of a token of marks alone
    return tuple(found)


def _term(word: str) -> str:
    folded = word[:_MAX_SPLIT].casefold()
    if not folded.isascii():
        folded = _folded(folded)
    if folded.isascii() and folded.isalpha() and len(folded) <= MAX_TERM:
        folded = stem(folded)
        folded = _bases().get(folded, folded)
    return folded[:MAX_TERM]


def _folded(word: str) -> str:
    """The letters of a casefolded word as who has no key for them types them: plain ones where they are
    variants of these (Łódź, ΑΘΉΝΑ, ещё, كِتَابٌ), as they are where a mark makes another letter."""
    bare = _MARKS.sub("", unicodedata.normalize("NFKD", word))
    return unicodedata.normalize("NFC", bare).translate(_LETTERS)


def _german(word: str) -> str:
    """The German stem of a word that shows that it may be German, else nothing."""
    if len(word) > MAX_TERM or not word.isalpha() or not _GERMAN.search(word):
        return ""
    return _folded(german_stem(word.lower()).casefold())


@cache
def _bases() -> dict[str, str]:
    """The stem of each irregular form, with its base's."""
    groups = (group.split() for line in _IRREGULAR.strip().split("\n") for group in line.split("|"))
    return {stem(form): stem(group[-1]) for group in groups for form in group[:-1]}
