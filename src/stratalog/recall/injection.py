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
import unicodedata
from typing import Final, Literal, NamedTuple, TypeAlias
from urllib.parse import unquote

import msgspec
import regex

from stratalog.recall.cleaning import cleaned, markers, smuggled
from stratalog.recall.phrasing import COMPACT, TALK, TOLD, rules

Origin: TypeAlias = Literal["user", "agent", "model", "import", "tool", "web"]


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


_ALIKE: Final = str.maketrans(
    "аеорсухіѕјԁӏквмнтгαοερτνκιυχԛԝһ’‘`´“”«»„", "aeopcyxisjdlkbmhtraoeptvkiuxqwh''''" + '"' * 5
)
_SIMPLER: Final = str.maketrans(
    "無視記這說話們設規則請對於為與書員統級發給將個並應從現後開啟關閉執運調轉傳輸帳號碼鑰憑證戶導顯複覆須絕論約編譯變進"
    "終結過濾審協議訊詞讓當會擋頭歷內創權緊團隊實際銀錢點擊訪問網頁鏈圖郵箱務體機構處觸庫檔據僅儲匯",
    "无视记这说话们设规则请对于为与书员统级发给将个并应从现后开启关闭执运调转传输帐号码钥凭证户导显复覆须绝论约编译变进"
    "终结过滤审协议讯词让当会挡头历内创权紧团队实际银钱点击访问网页链图邮箱务体机构处触库档据仅储汇",
)
_LEET: Final = str.maketrans("0134578@$", "oleastbas")
_SPACE: Final = regex.compile(r"\s+")
_MARK: Final = regex.compile(r"[\u0300-\u036f]+")
_APART: Final = regex.compile(r"(?<!\w)(?:[a-z][ .·_*|-]{1,3}){7,200}[a-z](?!\w)")
_MIXED: Final = regex.compile(r"[a-z][0134578@$]{1,2}[a-z]|\b[13]g?n[o0]r")
_BASE64: Final = regex.compile(r"[A-Za-z0-9+/_-]{24,}")
_HEX: Final = regex.compile(r"(?:[0-9A-Fa-f]{2}[ :]?){12,}")
_ESCAPED: Final = regex.compile(r"(?:\\u00[0-9a-fA-F]{2}|\\x[0-9a-fA-F]{2}){6,}")
_PERCENT: Final = regex.compile(r"(?:%[0-9A-Fa-f]{2}\w?){5,}")
_UNSEEN: Final = regex.compile("[\u200b\u2060-\u2064\u202a-\u202e\u180e]")
_FEW: Final = 6  # of these a text has without meaning anything, as a page that breaks long words
_OPENS: Final = "\"'([{<「『《【"
_CLOSES: Final = regex.compile(r"[.!?。！？,]{0,3}[\"'\])}>」』》】]")


def verdict(text: str, origin: Origin) -> Verdict:
    """What the text looks like, and why. The text is as it came: what does not show counts too."""
    tier = TIERS[origin]
    seen = cleaned(text)
    plain = _plain(seen)
    found = _families(plain, tier)
    for name, words in _hidden(text, seen):
        within = _families(_plain(cleaned(words)), tier)
        found = {family: max(weight, found.get(family, 0)) for family, weight in (found | within).items()}
        if within:
            found[name] = 3 if max(within.values()) > 1 else 1
    if len(_UNSEEN.findall(text)) > _FEW:
        found.setdefault("unseen characters", 1)
    if markers(seen):
        found.setdefault("role marker", 1)
    level = _level(found)
    if level > 1 and tier.talk_excuses and regex.search(TALK, plain):
        level -= 1
    return Verdict(level, tuple(sorted(found)))


def quarantines(origin: Origin, level: int) -> bool:
    """Whether a text of this origin and level may not enter a prompt until somebody has looked at it."""
    return level >= TIERS[origin].quarantined_from


def _level(found: dict[str, int]) -> int:
    """1 for hints; 2 for a phrase, or hints of three families; 3 for two phrases, or what was hidden."""
    if not found:
        return 0
    sure = sum(weight > 1 for weight in found.values())
    if sure > 1 or max(found.values()) > 2:
        return 3
    return 2 if sure or len(found) > 2 else 1


def _families(plain: str, tier: Tier) -> dict[str, int]:
    """The families found in a plain text, and how sure each is."""
    found: dict[str, int] = {}
    for family, weight, pattern, order in rules():
        if (order and not tier.orders_count) or found.get(family, 0) >= weight:
            continue
        for match in pattern.finditer(plain):
            found[family] = max(found.get(family, 0), 1 if _is_told(plain, match) else weight)
            if found[family] == weight:
                break
    if any(regex.search(COMPACT, "".join(filter(str.isalpha, each[0]))) for each in _APART.finditer(plain)):
        found["override"] = 2
    return found


def _is_told(text: str, match: regex.Match[str]) -> bool:
    """Whether the phrase is all that stands in quotation marks, or is spoken of."""
    start, stop = match.span()
    quoted = start > 0 and text[start - 1] in _OPENS and _CLOSES.match(text, stop) is not None
    return quoted or regex.search(TOLD, text[max(0, start - 24) : start]) is not None


def _plain(text: str) -> str:
    """The text for comparing: one case, one width, one script for look-alikes, one space between words."""
    text = unicodedata.normalize("NFKC", text).casefold()
    if not text.isascii():
        text = _MARK.sub("", unicodedata.normalize("NFD", text)).translate(_ALIKE)
        text = unicodedata.normalize("NFC", text).translate(_SIMPLER)
    plain = _SPACE.sub(" ", text)
    return f"{plain} \n {plain.translate(_LEET)}" if _MIXED.search(plain) else plain


def _hidden(text: str, seen: str) -> list[tuple[str, str]]:
    """What is hidden in a text, each with the name of its family; `seen` is the text cleaned."""
    found = [("unseen characters", smuggled(text))]
    found += [("encoded", _unbase64(run)) for run in _BASE64.findall(seen)]
    found += [("encoded", _unhex(run)) for run in _HEX.findall(seen)]
    found += [("encoded", _unescape(run)) for run in _ESCAPED.findall(seen)]
    found += [("encoded", unquote(seen))] if _PERCENT.search(seen) else []
    found += [("encoded", html.unescape(seen))] if seen.count("&#") > 5 else []
    if regex.search("rot-?13", seen, regex.IGNORECASE):
        found.append(("encoded", codecs.decode(seen, "rot13")))
    return [(name, words) for name, words in found if words]


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
