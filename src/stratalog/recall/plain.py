"""A text for comparing: however its letters are drawn, the same words are the same characters."""

from __future__ import annotations

import unicodedata
from typing import Final

import regex

_ALIKE: Final = str.maketrans(
    "аеорсухіѕјԁӏквмнтгαοερτνκιυχԛԝһ’‘`´“”«»„", "aeopcyxisjdlkbmhtraoeptvkiuxqwh''''" + '"' * 5
)
# The characters of `phrasing` that are written otherwise where characters are traditional.
_SIMPLER: Final = str.maketrans(
    "無視記這說話們設規則請對於為與書員統級發給將個並應從現後開啟關閉執運調轉傳輸帳號碼鑰憑證戶導顯複覆須絕論約編譯變進"
    "終結過濾審協議訊詞讓當會擋頭歷內創權緊團隊實際銀錢點擊訪問網頁鏈圖郵箱務體機構處觸庫檔據僅儲匯"
    "丟優傷倫寫別刪辦參雙臺學棄錄憶總惡懲護報換拋數來樣檢歡毀畢沒洩測滿獄環蓋著瞞確祕類紅線綫經繞罰薦營慮"
    "裝認許評訴試詢該語誤誘諸讀謂賬貼資載還遠違釣銷錯門隱預馬驗魚廢義卽妳爲啓註迴",
    "无视记这说话们设规则请对于为与书员统级发给将个并应从现后开启关闭执运调转传输帐号码钥凭证户导显复覆须绝论约编译变进"
    "终结过滤审协议讯词让当会挡头历内创权紧团队实际银钱点击访问网页链图邮箱务体机构处触库档据仅储汇"
    "丢优伤伦写别删办参双台学弃录忆总恶惩护报换抛数来样检欢毁毕没泄测满狱环盖着瞒确秘类红线线经绕罚荐营虑"
    "装认许评诉试询该语误诱诸读谓账贴资载还远违钓销错门隐预马验鱼废义即你为启注回",
)
_SPACE: Final = regex.compile(r"\s+")
_MARK: Final = regex.compile(r"[\u0300-\u036f]+")


def plain(text: str) -> str:
    """One case, one width, one script for look-alikes, simplified characters, no accents, one space between
    words."""
    text = unicodedata.normalize("NFKC", text).casefold()
    if not text.isascii():
        text = _MARK.sub("", unicodedata.normalize("NFD", text)).translate(_ALIKE)
        text = unicodedata.normalize("NFC", text).translate(_SIMPLER)
    return str(_SPACE.sub(" ", text))
