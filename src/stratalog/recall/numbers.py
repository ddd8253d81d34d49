"""The terms of the dates and numbers in a text: the same for each way in which one is written.

    May 4, 2023 · 4th of May 2023 · 2023/5/4 · 2023年5月4日 · 二〇二三年五月四日    2023-05-04 2023-05 --05-04
    May 2023 · 2023年5月                                                          2023-05
    May 4th · 5月4日                                                              --05-04
    1,000,000 · 1_000_000 · 100万 · 一百万                                        1000000

They stand beside the words of the text, which stay as they are. A date has its day, its month and its day in
any year, so that one in full and one without its year find each other. `05/04/2023` is two days: some write
the month first and some the day, and who looks for either is to find it. `25/04/2023` is one, and so is
`05.04.2023`, which has the day first wherever it is written. What has two digits of a year is no date, nor
what the calendar does not have.

Commas and underscores that part a number by three are taken out of it; `10,20`, `1.2.3` and `10.0.0.1` have
none. Signs of money and of per cent are no part of a number. A Chinese number has a unit after a digit (三百,
十二) or is four digits and more (二〇二三): 十分, 万一 and 千万 are words.

Time and terms are linear in the text: beside the name of a month only a few characters are looked at.
"""

from __future__ import annotations

import re
from calendar import monthrange
from collections.abc import Iterator
from typing import Final

_LONGEST: Final = 64  # characters of a term
_BESIDE: Final = 16  # characters before a month in which its day or its year stands
_MOST_NUMERALS: Final = 20

_MONTHS: Final = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DIGIT: Final = re.compile(r"\d", re.ASCII)
_NAME: Final = re.compile(
    r"(?<![a-z])(?:jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?"
    r"|sept?(?:ember)?|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)(?![a-z])",
    re.IGNORECASE | re.ASCII,
)
_DAY_BEFORE: Final = re.compile(
    r"(?<![\w.,:])(\d{1,2})(?:st|nd|rd|th)?(?:[\s/-]{1,2}|\s{1,2}of\s{1,2})\Z", re.IGNORECASE | re.ASCII
)
_DAY_AFTER: Final = re.compile(
    r"[.,]?[\s/-]{1,2}(?:the\s)?(\d{1,2})(?:st|nd|rd|th)?(?![\w:%]|\.\d|,\d{3}(?!\d))",
    re.IGNORECASE | re.ASCII,
)
_YEAR_AFTER: Final = re.compile(
    r"[.,]?[\s,/-]{0,2}(?:of\s)?(?<![\da-z])([1-9]\d{3})(?![\w%]|[.,]\d)", re.IGNORECASE | re.ASCII
)
_YEAR_FIRST: Final = re.compile(
    r"(?<![\da-zA-Z.,])([1-9]\d{3})([-/.])(\d{1,2})\2(\d{1,2})(?!\d|[-/.]\d)", re.ASCII
)
_YEAR_LAST: Final = re.compile(
    r"(?<![\w.,/-])(\d{1,2})([-/.])(\d{1,2})\2([1-9]\d{3})(?!\w|[-/.]\d)", re.ASCII
)
_GROUPED: Final = re.compile(
    r"(?<![\w.,])([1-9]\d{0,2}(?:(?:,\d{3})+|(?:_\d{3})+))(\.\d+)?(?!\w|[.,]\d)", re.ASCII
)

_NUMERAL_OF: Final = {char: str(at % 10) for at, char in enumerate("〇一二三四五六七八九零")} | {"两": "2"}
_DIGITS: Final = "".join(_NUMERAL_OF)
_ONE: Final = "[一二三四五六七八九两]"
_GREAT: Final = {"亿": 10**8, "万": 10**4}
_SIMPLE: Final = str.maketrans("萬億兩", "万亿两")
_NUMERALS: Final = f"{_DIGITS}兩十百千万萬亿億"
# 三百二 is 320 as it is said, and no number here.
_UNDER_A_MYRIAD: Final = re.compile(
    rf"(?:({_ONE})千)?(?:零?({_ONE})百)?(?:零?({_ONE}?)(十)({_ONE}?)|零({_ONE}))?"
)
_RUN: Final = re.compile(rf"[{_NUMERALS}]{{2,}}")
_MYRIADS: Final = re.compile(r"(?<![\w.,])(\d{1,12})(?:\.(\d{1,8}))?\s?([万萬亿億])", re.ASCII)
_MONTH: Final = re.compile(r"[月월]")
_BEFORE_MONTH: Final = re.compile(
    rf"(?:(?<!\d)(\d{{4}}|[{_DIGITS}]{{4}})\s?[年년]\s?)?(?<![\d.])(\d{{1,2}}|[{_NUMERALS}]{{1,2}})\s?\Z",
    re.ASCII,
)
_DAY_OF_MONTH: Final = re.compile(rf"\s?(\d{{1,2}}|[{_NUMERALS}]{{1,3}})\s?[日号號일]", re.ASCII)
_DATE: Final = re.compile(r"(?:\d{4}-|--)(?:0[1-9]|1[0-2])(?:-[0-3]\d)?", re.ASCII)


def is_date(term: str) -> bool:
    """Whether a term is that of a date."""
    return "-" in term and _DATE.fullmatch(term) is not None


def number_terms(text: str) -> list[str]:
    """The terms of the dates and numbers in `text`, with repetitions; `text` is in its NFKC form.

    Each is 1 to 64 characters long, of digits, hyphens and a point. Nothing is raised for any text.
    """
    found: list[str] = []
    if _DIGIT.search(text):
        found += _western(text)
    if not text.isascii():
        found += _eastern(text)
    return found


def _western(text: str) -> Iterator[str]:
    for name in _NAME.finditer(text):
        month = _MONTHS.index(name[0][:3].lower()) + 1
        day = _DAY_BEFORE.search(text, max(name.start() - _BESIDE, 0), name.start())
        after = None if day else _DAY_AFTER.match(text, name.end())
        year = _YEAR_AFTER.match(text, after.end() if after else name.end())
        yield from _date(int(year[1]) if year else 0, month, int((day or after or "00")[1]))
    for date in _YEAR_FIRST.finditer(text):
        yield from _date(int(date[1]), int(date[3]), int(date[4]))
    for date in _YEAR_LAST.finditer(text):
        one, other, told = int(date[1]), int(date[3]), int(date[4])
        yield from _date(told, other, one)
        if date[2] != "." and one != other:
            yield from _date(told, one, other)
    for number in _GROUPED.finditer(text):
        whole = number[1].replace(",", "").replace("_", "")
        yield whole[:_LONGEST]
        if number[2]:
            yield (whole + number[2])[:_LONGEST]


def _eastern(text: str) -> Iterator[str]:
    for sign in _MONTH.finditer(text):
        before = _BEFORE_MONTH.search(text, max(sign.start() - _BESIDE, 0), sign.start())
        if before:
            day = _DAY_OF_MONTH.match(text, sign.end())
            year = _value(before[1]) if before[1] else 0
            yield from _date(year, _value(before[2]), _value(day[1]) if day else 0)
    for run in _RUN.finditer(text):
        value = _value(run[0]) if len(run[0]) <= _MOST_NUMERALS else 0
        if value and (len(run[0]) > 3 or run[0].strip(_DIGITS)):
            yield str(value)
    for number in _MYRIADS.finditer(text):
        part = number[2] or ""
        times = _GREAT[number[3].translate(_SIMPLE)]
        value, rest = divmod(int(number[1] + part) * times, 10 ** len(part))
        if value and not rest:
            yield str(value)


def _date(year: int, month: int, day: int) -> Iterator[str]:
    """The terms of a date, in which the year or the day may be 0 for none; nothing for no date."""
    if not 1 <= month <= 12 or day > (monthrange(year, month)[1] if year else 29 if month == 2 else 31):
        return
    if year and day:
        yield f"{year:04}-{month:02}-{day:02}"
    if year:
        yield f"{year:04}-{month:02}"
    if day:
        yield f"--{month:02}-{day:02}"


def _value(text: str) -> int:
    """A number in digits or in Chinese numerals, 0 for what is none."""
    if text.isdecimal():
        return int(text)
    text = text.translate(_SIMPLE)
    return _said(text) if text.strip(_DIGITS) else int("".join(map(_NUMERAL_OF.__getitem__, text)))


def _said(text: str) -> int:
    """A number as it is said, of digits and units."""
    for sign, times in _GREAT.items():
        head, parted, tail = text.partition(sign)
        if parted:
            high, low = _said(head), _said(tail)
            said = high and low < times and (low if len(tail) > 1 else not tail)
            return high * times + low if said else 0
    if text in _NUMERAL_OF:
        return int(_NUMERAL_OF[text])
    found = _UNDER_A_MYRIAD.fullmatch(text)
    if not found:
        return 0
    thousands, hundreds, tens, ten, ones, alone = (
        _NUMERAL_OF.get(each or "", each) for each in found.groups()
    )
    digits = (thousands, hundreds, (tens or "1") if ten else "0", ones or alone)
    return int("".join(each or "0" for each in digits))
