"""The terms of dates and numbers: what has the same and what none, and that no text is too strange."""

from __future__ import annotations

import random
import time
from datetime import UTC, date, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stratalog.recall.documents import date_terms
from stratalog.recall.numbers import is_date, number_terms
from stratalog.recall.terms import MAX_TERM, query_terms, terms

MONTHS = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)
FULL = ["2023-05-04", "2023-05", "--05-04"]
DIGITS = "〇一二三四五六七八九"

_PIECES = ["May", "sept", "4th", "2023", "12", "of ", "1,000", *" 05,./-_:年月日월三十百零〇万亿上é\0\ud800"]
_ANY_TEXT = st.text(st.characters(codec=None), max_size=200) | st.lists(
    st.sampled_from(_PIECES), max_size=40
).map("".join)


def said(number: int) -> str:
    """A number under 100 as Chinese says it."""
    tens, ones = divmod(number, 10)
    if not tens:
        return DIGITS[ones]
    return ("" if tens == 1 else DIGITS[tens]) + "十" + (DIGITS[ones] if ones else "")


def renderings(day: date) -> list[str]:
    """A day in the ways in which it is written in full."""
    name, year = MONTHS[day.month - 1], day.year
    ordinal = (
        f"{day.day}{'th' if 4 <= day.day <= 20 else ('th', 'st', 'nd', 'rd', *['th'] * 6)[day.day % 10]}"
    )
    return [
        f"{name} {day.day}, {year}",
        f"{name[:3]} {day.day} {year}",
        f"{name[:3]}. {ordinal}, {year}",
        f"{name.lower()} the {ordinal}, {year}",
        f"{day.day} {name} {year}",
        f"the {ordinal} of {name}, {year}",
        f"{day.day:02}-{name[:3]}-{year}",
        f"{day.day:02}/{name[:3]}/{year}:13:55:36",
        day.isoformat(),
        f"{day.isoformat()}T13:55:36Z",
        f"report_{day.isoformat()}.pdf",
        f"{year}/{day.month}/{day.day}",
        f"https://example.org/{year}/{day.month:02}/{day.day:02}/",
        f"{year}.{day.month}.{day.day}",
        f"{day.day}.{day.month}.{year}",
        f"{day.day:02}/{day.month:02}/{year}",
        f"{day.month}/{day.day}/{year}",
        f"{year}年{day.month}月{day.day}日",
        f"{year} 年 {day.month} 月 {day.day} 号",
        f"{''.join(DIGITS[int(digit)] for digit in str(year))}年{said(day.month)}月{said(day.day)}日",
        f"{year}년 {day.month}월 {day.day}일",
        "".join(chr(ord(digit) + 0xFEE0) for digit in day.isoformat()),  # in full width
    ]


@settings(deadline=None)
@given(st.dates(date(1000, 1, 1)), st.sampled_from(["{}", "on {}.", "({})", "在{}，", "x {} 7"]))
def test_a_day_has_the_same_terms_however_it_is_written(day: date, around: str) -> None:
    """In a text as in a question, alone or within a sentence, and in the day of a message."""
    iso = day.isoformat()
    wanted = {iso, iso[:7], f"-{iso[4:]}"}
    for written in renderings(day):
        text = around.format(written)
        assert wanted <= set(terms(text)), text
        assert wanted <= set(query_terms(text)), text
    if day.year > 1970:
        moment = datetime(day.year, day.month, day.day, 12, tzinfo=UTC)
        assert wanted <= set(date_terms(int(moment.timestamp() * 1000)))


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("May 2023", ["2023-05"]),
        ("in May, 2023", ["2023-05"]),
        ("2023年5月", ["2023-05"]),
        ("May 4th", ["--05-04"]),
        ("the 4th of May", ["--05-04"]),
        ("5月4日", ["--05-04"]),
        ("五月四号", ["--05-04"]),
        ("23年5月4日", ["--05-04"]),
        ("十二月二十五日", ["--12-25", "12", "25"]),
        ("Feb 29", ["--02-29"]),
        ("May 4-6, 2023", ["--05-04"]),
        ("04.05.2023", FULL),
        ("25/04/2023", ["2023-04-25", "2023-04", "--04-25"]),
        ("05/04/2023", ["2023-04-05", "2023-04", "--04-05", *FULL]),
        ("1,000,000", ["1000000"]),
        ("$1,000,000!", ["1000000"]),
        ("1_000_000", ["1000000"]),
        ("１,０００", ["1000"]),
        ("1,234.56", ["1234", "1234.56"]),
        ("100万", ["1000000"]),
        ("一百万", ["1000000"]),
        ("3.5萬", ["35000"]),
        ("1.5亿", ["150000000"]),
        ("三百", ["300"]),
        ("三百零二", ["302"]),
        ("兩千", ["2000"]),
        ("一万二千", ["12000"]),
        ("一千零一夜", ["1001"]),
        ("一亿零五万", ["100050000"]),
        ("一百二十三万四千五百六十七", ["1234567"]),
        ("二〇二三年", ["2023"]),
    ],
)
def test_what_has_terms(text: str, found: list[str]) -> None:
    """Dates with and without a year, those that are two, and numbers in digits and in words."""
    assert [term for term in terms(text) if term in found or is_date(term)][: len(found)] == found


_NONE = (
    "May 4:30 · maybe 4 · May · 5/4/23 · 5/4 · Feb 30, 2023 · 2023-02-29 · 13/13/2023 · 2023-13-01 · 1.2.3"
    " · 1.2.2023.4 · 10.0.0.1 · 10,20 · 1,00 · foo_1_000 · 1,234,567.89.1 · 0,123 · 12,3456 · 十分 · 万一"
    " · 千万 · 一二三 · 三百二 · 一万二 · 百 · 三月 · 13月 · 12个月 · nothing"
)


@pytest.mark.parametrize("text", [*_NONE.split(" · "), "一" * 30, ""])
def test_what_has_none(text: str) -> None:
    """Times, versions, addresses, lists, fractions, words with numerals in them, and what is no date."""
    assert number_terms(text) == []


def test_words_stay() -> None:
    """Terms of dates and numbers are added: what found a text before finds it still."""
    assert terms("May 4th, 2023: 1,000") == [*FULL, "1000", "may", "4th", "th", "2023", "1", "000"]


@given(_ANY_TEXT)
def test_any_text_has_few_or_none(text: str) -> None:
    """Nothing raises, every term is short, and there are at most twice as many as characters."""
    found = number_terms(text)
    assert len(found) <= 2 * len(text)
    for term in found:
        assert 1 <= len(term) <= MAX_TERM
        assert set(term) <= set("0123456789-.")


_HOSTILE = {
    "months": "May " * 250_000,
    "days": "4 May " * 160_000,
    "digits": "1" * 10**6,
    "groups": "1,000" + ",000" * 250_000,
    "broken groups": "1" + ",000" * 250_000 + "x",
    "underscores": "1_000" + "_000" * 250_000 + ".1.1",
    "signs": "月" * 10**6,
    "months without end": "5月" * 500_000,
    "numerals": "一" * 10**6,
    "units": "一十" * 500_000,
    "great units": "一万" * 500_000,
    "hyphens": "2023-" * 200_000,
    "spaces": "May" + " " * 10**6,
    "spaces before": " " * 10**6 + "May",
    "ordinals": "1st" * 300_000,
}


@pytest.mark.parametrize("kind", _HOSTILE)
def test_a_megabyte_of_anything_is_quick(kind: str) -> None:
    """Time is linear in the length; the bound is generous for slow machines."""
    start = time.process_time()
    found = number_terms(_HOSTILE[kind])
    assert time.process_time() - start < 5
    assert len(found) <= 10**6


def test_dates_are_told_from_other_terms() -> None:
    """A term of a date is known as one; tickets, numbers and words are not taken for it."""
    chance = random.Random(1)
    days = [date.fromordinal(chance.randrange(400_000, 3_000_000)) for _ in range(50)]
    assert all(is_date(term) for day in days for term in number_terms(day.isoformat()))
    assert not any(map(is_date, ["2023", "abc-123", "2023-13", "1234-567", "may", "--5-4", "1,000", ""]))
