"""How much a text looks like an attempt to give orders to whoever reads it as data.

Known phrasing (`phrasing`) is sought by family in the text as a model could read it: without what does not
show, in one case, with look-alike letters made plain, letters that stand apart brought together, and once
more in what is encoded in it. Several families are more than one. A phrase that stands alone in quotation
marks, or that is told of ("asked it to ignore previous instructions"), is a hint.

It is a filter of what is known, and no proof: what it lets pass is still quoted, attributed data.
"""

from __future__ import annotations

import base64
import binascii
import codecs
import html
from collections.abc import Mapping
from typing import Final, NamedTuple
from urllib.parse import unquote

import msgspec
import regex

from stratalog.config import Origin as Origin
from stratalog.config import Trust
from stratalog.recall.cleaning import cleaned, markers, smuggled
from stratalog.recall.phrasing import COMPACT, TALK, TOLD, relevant
from stratalog.recall.plain import plain


class Tier(NamedTuple):
    """How texts of an origin are taken: quarantined from a level on; whether orders that last and words to an
    assistant count (a user may give such orders); whether talk of attacks excuses a phrase."""

    quarantined_from: int
    orders_count: bool
    talk_excuses: bool


TIERS: Final[dict[Origin, Tier]] = {
    "user": Tier(3, False, True),
    "agent": Tier(3, False, True),
    "model": Tier(2, True, True),
    "import": Tier(2, True, True),
    "tool": Tier(2, True, False),
    "web": Tier(2, True, False),
}


class Verdict(msgspec.Struct, frozen=True):
    """`level` 0: nothing known; 1: a hint, or talk of one; 2: likely; 3: several at once, or hidden.
    `reasons` are the families that were found, in the order of the alphabet."""

    level: int = 0
    reasons: tuple[str, ...] = ()


_LEET: Final = tuple(str.maketrans("0134578@$!", letters) for letters in ("oleastbasi", "oieastbasi"))
_APART: Final = regex.compile(r"(?<!\w)(?:[a-z][ .·_*|-]{1,3}){7,200}[a-z](?!\w)")
_MIXED: Final = regex.compile(r"[a-z][0134578@$]{1,2}[a-z]|\b[13]g?n[o0]r")
_BASE64: Final = regex.compile(r"[A-Za-z0-9+/_-]{24,}")
_LONG: Final = 24  # characters of a word that may be encoded
_HEX: Final = regex.compile(r"(?:[0-9A-Fa-f]{2}[ :]?){12,}")
_ESCAPED: Final = regex.compile(r"(?:\\u00[0-9a-fA-F]{2}|\\x[0-9a-fA-F]{2}){6,}")
_PERCENT: Final = regex.compile(r"(?:%[0-9A-Fa-f]{2}\w?){5,}")
_UNSEEN: Final = regex.compile("[\u200b\u2060-\u2064\u202a-\u202e\u180e]")
_TURNED: Final = regex.compile("[\u202e\u202d\u2066-\u2068]([^\u202c\u2069\n]{8,2000})")
_FEW: Final = 6  # of these a text has without meaning anything, as a page that breaks long words
_OPENS: Final = "\"'([{<「『《【"
_CLOSES: Final = regex.compile(r"[.!?。！？,]{0,3}[\"'\])}>」』》】]")


def verdict(text: str, origin: Origin) -> Verdict:
    """What the text looks like, and why. The text is as it came: what does not show counts too."""
    tier = TIERS[origin]
    seen = cleaned(text)
    words = _plain(seen)
    found = _families(words, tier)
    for name, hidden in _hidden(text, seen):
        within = _families(_plain(cleaned(hidden)), tier)
        found = {family: max(weight, found.get(family, 0)) for family, weight in (found | within).items()}
        if within:
            found[name] = 3 if max(within.values()) > 1 else 1
    if len(_UNSEEN.findall(text)) > _FEW:
        found.setdefault("unseen characters", 1)
    if markers(seen):
        found.setdefault("role marker", 1)
    level = _level(found)
    if level > 1 and tier.talk_excuses and regex.search(TALK, words):
        level -= 1
    return Verdict(level, tuple(sorted(found)))


def quarantines(origin: Origin, level: int, trust: Mapping[Origin, Trust] | None = None) -> bool:
    """Whether a text of this origin and level may not enter a prompt until somebody has looked at it. `trust`
    is said over what `TIERS` has."""
    start = (trust or {}).get(origin, TIERS[origin].quarantined_from)
    return start != "never" and level >= start


def _level(found: dict[str, int]) -> int:
    """1 for hints; 2 for a phrase, or hints of three families; 3 for two phrases, or what was hidden."""
    if not found:
        return 0
    sure = sum(weight > 1 for weight in found.values())
    if sure > 1 or max(found.values()) > 2:
        return 3
    return 2 if sure or len(found) > 2 else 1


def _families(text: str, tier: Tier) -> dict[str, int]:
    """The families found in a plain text, and how sure each is."""
    found: dict[str, int] = {}
    for family, weight, pattern, order, _ in relevant(text):
        if (order and not tier.orders_count) or found.get(family, 0) >= weight:
            continue
        for match in pattern.finditer(text):
            found[family] = max(found.get(family, 0), 1 if _is_told(text, match) else weight)
            if found[family] == weight:
                break
    if any(regex.search(COMPACT, "".join(filter(str.isalpha, each[0]))) for each in _APART.finditer(text)):
        found["override"] = 2
    return found


def _is_told(text: str, match: regex.Match[str]) -> bool:
    """Whether the phrase is all that stands in quotation marks, or is spoken of."""
    start, stop = match.span()
    quoted = start > 0 and text[start - 1] in _OPENS and _CLOSES.match(text, stop) is not None
    return quoted or regex.search(TOLD, text[max(0, start - 24) : start]) is not None


def _plain(text: str) -> str:
    """The text for comparing, and after it what it says if its digits and signs stand for letters."""
    words = plain(text)
    if not _MIXED.search(words):
        return words
    return " \n ".join((words, *(words.translate(letters) for letters in _LEET)))


def _hidden(text: str, seen: str) -> list[tuple[str, str]]:
    """What is hidden in a text, each with the name of its family; `seen` is the text cleaned."""
    found = [("unseen characters", smuggled(text))]
    found += [("unseen characters", turned[::-1]) for turned in _TURNED.findall(text)]
    found += [("encoded", _unbase64(run)) for run in _runs(seen)]
    found += [("encoded", _unhex(run)) for run in _HEX.findall(seen)]
    found += [("encoded", _unescape(run)) for run in _ESCAPED.findall(seen)]
    found += [("encoded", unquote(seen))] if _PERCENT.search(seen) else []
    found += [("encoded", html.unescape(seen))] if seen.count("&#") > 5 else []
    if regex.search("rot-?13", seen, regex.IGNORECASE):
        found.append(("encoded", codecs.decode(seen, "rot13")))
    return [(name, words) for name, words in found if words]


def _runs(seen: str) -> list[str]:
    return [run for word in seen.split() if len(word) >= _LONG for run in _BASE64.findall(word)]


def _unbase64(run: str) -> str:
    standard = run.replace("-", "+").replace("_", "/")
    try:
        return _readable(base64.b64decode(standard + "=" * (-len(standard) % 4)))
    except binascii.Error:
        return ""


def _unhex(run: str) -> str:
    try:
        return _readable(bytes.fromhex(run.replace(":", " ")))
    except ValueError:
        return ""


def _unescape(run: str) -> str:
    return bytes.fromhex(run.replace("\\u00", "").replace("\\x", "")).decode("utf-8", "replace")


def _readable(data: bytes) -> str:
    """The text that the bytes are; "" when they are none."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return ""
    return text if text.replace("\n", "").isprintable() else ""
