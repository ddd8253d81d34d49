"""Text as a person sees it, and text that cannot speak for anybody else.

`cleaned` takes away what does not show: control and bidirectional characters, zero-width ones, tags,
variation selectors, what has no meaning in Unicode. What a script or an emoji needs stays: one joiner after a
letter of a script that joins, the parts of an emoji family, the flags of England, Scotland and Wales.

`neutralised` changes one character of what a model's template or our own fence could take for a turn of
somebody else, so that it is text: `<|im_start|>` becomes `＜|im_start|>`. It stays readable, and says that it
was changed.
"""

from __future__ import annotations

import unicodedata
from typing import Final

import regex

# A black flag, "gb", three letters that do not show by themselves, and their end.
_PARTS: Final = "|".join(
    "".join(chr(0xE0000 + ord(letter)) for letter in part) for part in ("eng", "sct", "wls")
)
_FLAG: Final = f"\U0001f3f4\U000e0067\U000e0062(?:{_PARTS})\U000e007f"
# The scripts in which a joiner or a non-joiner changes the letters beside it.
_JOINING: Final = "".join(
    rf"\p{{scx={script}}}"
    for script in (
        *("Arabic", "Syriac", "Mongolian", "Nko", "Mandaic", "Phags_Pa", "Devanagari", "Bengali", "Gurmukhi"),
        *("Gujarati", "Oriya", "Tamil", "Telugu", "Kannada", "Malayalam", "Sinhala", "Khmer", "Myanmar"),
    )
)
_UNSEEN: Final = regex.compile(
    rf"""
    (?P<kept>
        {_FLAG}
      | (?<=[\p{{Extended_Pictographic}}\p{{EMod}}])\uFE0F?\u200D(?=\p{{Extended_Pictographic}})
      | (?<=\p{{Extended_Pictographic}})[\uFE0E\uFE0F]
      | (?<=[0-9\#*])\uFE0F(?=\u20E3)
      | (?<=[[{_JOINING}]&&[\p{{L}}\p{{M}}]])[\u200C\u200D]
      | (?<=\p{{Script=Mongolian}})[\u180B-\u180D\u180F]
    )
    | [[\p{{Cc}}--[\n\t]]\p{{Default_Ignorable_Code_Point}}\uFFF9-\uFFFB\p{{Cs}}\p{{Co}}\p{{Cn}}]
    """,
    regex.VERBOSE | regex.V1,
)
_CONTROL: Final = {code: None for code in (*range(32), 127) if chr(code) not in "\n\t"}
_LINE_END: Final = regex.compile("\r\n?|[\u0085\u2028\u2029\v\f]")

_ROLES: Final = "system|assistant|user|human|developer"
_ZH_ROLES: Final = "系统|系統|助手|助理|用户|用戶|人类|人類|开发者"
_TITLES: Final = rf"(?:{_ROLES}|instructions?|input|response|{_ZH_ROLES}|指令)"
_TAGS: Final = (
    rf"{_ROLES}|s|bos|eos|pad|unk|sop|eop|sys|inst|start_of_turn|end_of_turn|think|thinking|instructions?"
    r"|prompt|system[_-](?:prompt|reminder|message|instructions?)|tools?|tool_(?:call|calls|result|results"
    r"|response|use|code|output)|function|function_(?:call|calls|result|results|response)|invoke|parameter"
    r"|recalled|quoted|untrusted|conversation|turn|message"
)
# What is changed, and how: one character of each, by a table for `str.translate`.
_MARKERS: Final = (
    (regex.compile(r"<(?=\s?/?\s?[|｜])|<(?=<\s?/?\s?SYS\s?>)", regex.IGNORECASE), str.maketrans("<", "＜")),
    (
        regex.compile(rf"<(?=\s?/?\s?(?:\w{{1,12}}:)?(?:{_TAGS})(?:[\s>/:]|$))", regex.IGNORECASE),
        str.maketrans("<", "＜"),
    ),
    (
        regex.compile(
            rf"\[(?=\s?/?\s?(?:inst|sys|gmask|available_tools|tool_calls|tool_results|tool_content"
            rf"|(?:{_ROLES}|{_ZH_ROLES})(?:[\s_](?:prompt|message))?)\s?\])",
            regex.IGNORECASE,
        ),
        str.maketrans("[", "［"),
    ),
    (
        regex.compile(
            rf"^[ \t]{{0,8}}\#(?=\#{{0,5}}[ \t]{{0,3}}{_TITLES}(?:[ \t](?:prompt|message|instructions?))?"
            r"[ \t]?(?:[:：]|$))",
            regex.IGNORECASE | regex.MULTILINE,
        ),
        str.maketrans("#", "＃"),
    ),
    (
        regex.compile(
            rf"^[ \t>*_\-]{{0,8}}(?:{_ROLES}|ai|{_ZH_ROLES})[*_]{{0,3}}[ \t]?"
            r"(?:\([^()\n]{0,20}\))?[ \t]?[:：]",
            regex.IGNORECASE | regex.MULTILINE,
        ),
        str.maketrans(":：", "∶∶"),
    ),
)
_TAG: Final = range(0xE0020, 0xE007F)  # a printable ASCII character each, none of which shows
_SELECTED: Final = regex.compile("[\ufe00-\ufe0f\U000e0100-\U000e01ef]{4,}")  # a byte each


def cleaned(text: str) -> str:
    """The text in NFC without what cannot be seen, its lines ended by a line break."""
    text = _LINE_END.sub("\n", text)
    if text.isascii():
        return text.translate(_CONTROL)
    return unicodedata.normalize("NFC", _UNSEEN.sub(lambda found: found["kept"] or "", text))


def neutralised(text: str) -> str:
    """The text without anything that marks a role, a tool's call or a fence; the same the second time."""
    for pattern, table in _MARKERS:
        text = pattern.sub(lambda found, table=table: found[0].translate(table), text)
    return text


def markers(text: str) -> int:
    """How many places `neutralised` would change."""
    return sum(len(pattern.findall(text)) for pattern, _ in _MARKERS)


def smuggled(text: str) -> str:
    """What tags and variation selectors spell that nobody sees; "" where they spell nothing."""
    if text.isascii():
        return ""
    shown = regex.sub(_FLAG, "", text)
    letters = "".join(chr(ord(char) - 0xE0000) for char in shown if ord(char) in _TAG)
    data = (bytes(map(_byte, run)).decode("utf-8", "replace") for run in _SELECTED.findall(text))
    return " ".join(filter(None, [letters, *data]))


def revealed(text: str) -> str:
    """The text with what `cleaned` would take away as escapes, for a person who reviews it."""
    return str(_UNSEEN.sub(lambda found: found["kept"] or f"\\u{{{ord(found[0]):x}}}", text))


def _byte(selector: str) -> int:
    code = ord(selector)
    return code - 0xFE00 if code < 0xE0100 else code - 0xE0100 + 16
