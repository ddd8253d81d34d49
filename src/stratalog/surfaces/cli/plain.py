"""Text from logs made safe to show: nothing in it can move a cursor, colour a line or hide a word.

Control characters, marks that reorder or hide text (bidirectional overrides, tags, joiners of words) and lone
surrogates are shown as escapes such as `\\x1b`; joiners that emoji and scripts need stay. What the stream's
encoding cannot hold is escaped too, before anything is aligned, so that columns stay straight.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import regex
from rich.cells import cell_len

from stratalog.errors import InvalidInput

_HIDDEN = (
    "\x7f-\x9f\u00ad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\U000e0000-\U000e007f"
)
_UNSAFE = re.compile(f"[\x00-\x08\x0b-\x1f{_HIDDEN}\ud800-\udfff]")
_UNSAFE_IN_JSON = re.compile(f"[{_HIDDEN}]")
_TAB = "    "
# Where a line may be cut: a space, or beside a character of a script that has none, but not before the marks
# that close a phrase. Hangul is written with spaces.
_CLOSING = "、。，．：；？！）」』】〉》〕”’…·％ー"
_UNIT = re.compile(
    rf" +|[\u2e80-\u30ff\u3400-\u9fff\uf900-\ufaff\uff00-\uff60\U00020000-\U0003ffff][{_CLOSING}]*"
    r"|[^ \u2e80-\u30ff\u3400-\u9fff\uf900-\ufaff\uff00-\uff60\U00020000-\U0003ffff]+"
)


def plain(text: str, encoding: str = "utf-8") -> str:
    """`text` with its lines, and nothing else that a terminal would act on."""
    text = text.replace("\r\n", "\n").replace("\t", _TAB)
    text = _UNSAFE.sub(_escaped, text)
    return text if encoding.startswith("utf") else text.encode(encoding, "backslashreplace").decode(encoding)


def one_line(text: str, encoding: str = "utf-8") -> str:
    """`text` on one line, each run of white space a single space."""
    return plain(" ".join(text.split()), encoding)


def wrapped(text: str, cells: int) -> str:
    """`text` in lines of at most `cells` cells, cut between words or, where a script has no spaces, between
    its characters; a longer word is left whole."""
    return "\n".join(part for line in text.split("\n") for part in _wrapped_line(line, cells))


def clipped(text: str, graphemes: int, more: str = "…") -> str:
    """At most so many graphemes of the text, the last of them `more` where something was cut."""
    kept = regex.findall(r"\X", text)
    return text if len(kept) <= graphemes else "".join(kept[: graphemes - 1]).rstrip() + more


def counted(number: int, one: str, many: str = "") -> str:
    """The number with what it counts, in the singular or the plural: `1 session`, `1,204 entries`."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def parts_line(parts: Mapping[str, float]) -> str:
    """What a score is made of: `words +1.204, session +0.120`."""
    return ", ".join(f"{name} {value:+.3f}" for name, value in parts.items())


def safe_json(text: str, encoding: str = "utf-8") -> str:
    """The same JSON value in characters that a terminal does not act on and the encoding can hold."""
    if not encoding.startswith("utf"):
        return re.sub(r"[^\x00-\x7e]", _json_escaped, text)
    return _UNSAFE_IN_JSON.sub(_json_escaped, text)


def unicode_text(value: object) -> str:
    """`str(value)`; bytes of a file name or an argument that are no UTF-8 are escaped."""
    return str(value).encode("utf-8", "backslashreplace").decode()


def _wrapped_line(line: str, cells: int) -> list[str]:
    if cell_len(line) <= cells:
        return [line]
    lines, length = [""], 0
    for unit in _UNIT.findall(line):
        size = cell_len(unit)
        if length + size > cells and lines[-1].strip():
            lines[-1] = lines[-1].rstrip(" ")
            lines.append("")
            length = 0
            if unit.isspace():
                continue
        lines[-1] += unit
        length += size
    return lines


def _escaped(match: re.Match[str]) -> str:
    return match[0].encode("ascii", "backslashreplace").decode() if match[0] > "\x7f" else _low(match[0])


def _low(char: str) -> str:
    return f"\\x{ord(char):02x}"


def _json_escaped(match: re.Match[str]) -> str:
    units = match[0].encode("utf-16-be")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))


def utf8(text: str) -> str:
    """The text that was typed. Raises `InvalidInput` for bytes that are none."""
    if unicode_text(text) != text:
        raise InvalidInput(
            "this is no UTF-8", text=ascii(text), hint="write it in the encoding of the terminal"
        )
    return text
