"""memory/times.py: the times a question speaks of, by the calendar of who asks."""

from __future__ import annotations

import re
import time
from datetime import datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stratalog.errors import InvalidInput
from stratalog.memory.dates import resolved
from stratalog.memory.times import spans

SHANGHAI = "Asia/Shanghai"


def at(zone: str, *moment: int) -> int:
    return int(datetime(*moment, tzinfo=ZoneInfo(zone)).timestamp() * 1000)  # type: ignore[misc,arg-type]


SAID = at(SHANGHAI, 2026, 9, 16, 0, 30)  # a Wednesday; by UTC it is still Tuesday
JANUARY = at(SHANGHAI, 2027, 1, 1, 0, 30)  # a Friday; by UTC it is still the year before
DECEMBER = at(SHANGHAI, 2026, 12, 31, 23, 30)


def told(text: str, said_at: int = SAID, zone: str = SHANGHAI) -> list[str]:
    """Each span by the clocks of the zone, its hours where it does not begin or end with a day."""
    return ["/".join(shown(moment, zone) for moment in span) for span in spans(text, said_at, zone)]


def shown(moment: int, zone: str) -> str:
    told_at = datetime.fromtimestamp(moment / 1000, ZoneInfo(zone))
    return told_at.isoformat()[:13].removesuffix("T00").removesuffix("-01")


@pytest.mark.parametrize(
    ("text", "span"),
    [
        ("last May", "2026-05/2026-06"),
        ("last may", "2026-05/2026-06"),
        ("last September", "2025-09/2025-10"),
        ("last October", "2025-10/2025-11"),
        ("this May", "2026-05/2026-06"),
        ("next May", "2027-05/2027-06"),
        ("next September", "2027-09/2027-10"),
        ("next October", "2026-10/2026-11"),
        ("in May", "2026-05/2026-06"),
        ("in september", "2026-09/2026-10"),
        ("in early October", "2025-10/2025-11"),
        ("mid-June", "2026-06/2026-07"),
        ("May of last year", "2025-05/2025-06"),
        ("March last year", "2025-03/2025-04"),
        ("between March and May 2023", "2023-03/2023-06"),
        ("from November to February 2023", "2022-11/2023-03"),
        ("March-May of 2023", "2023-03/2023-06"),
        ("between March 2022 and May 2023", "2022-03/2023-06"),
        ("between October and November", "2025-10/2025-12"),
        ("from March to May last year", "2025-03/2025-06"),
        ("in March and April", "2026-03/2026-05"),
        ("between 2019 and 2021", "2019-01/2022-01"),
        ("between yesterday and tomorrow", "2026-09-15/2026-09-18"),
        ("last summer", "2026-06/2026-09"),
        ("last autumn", "2025-09/2025-12"),
        ("this fall", "2026-09/2026-12"),
        ("next summer", "2027-06/2027-09"),
        ("last winter", "2025-12/2026-03"),
        ("in the winter of 2023", "2023-12/2024-03"),
        ("spring 2022", "2022-03/2022-06"),
        ("in the summer", "2026-06/2026-09"),
        ("Q3 2023", "2023-07/2023-10"),
        ("last weekend", "2026-09-12/2026-09-14"),
        ("this weekend", "2026-09-19/2026-09-21"),
        ("next weekend", "2026-09-26/2026-09-28"),
        ("last night", "2026-09-15T17/2026-09-16T06"),
        ("tonight", "2026-09-16T17/2026-09-17T06"),
        ("this morning", "2026-09-16T05/2026-09-16T12"),
        ("yesterday evening", "2026-09-15T17/2026-09-16"),
        ("the week before last", "2026-08-31/2026-09-07"),
        ("the month before last", "2026-07/2026-08"),
        ("the year after next", "2028-01/2029-01"),
        ("the night before last", "2026-09-14T17/2026-09-15T06"),
        ("last week", "2026-09-07/2026-09-14"),
        ("上周", "2026-09-07/2026-09-14"),
        ("上週", "2026-09-07/2026-09-14"),
        ("上個月", "2026-08/2026-09"),
        ("後天", "2026-09-18/2026-09-19"),
        ("兩個月前", "2026-07/2026-08"),
        ("上周末", "2026-09-12/2026-09-14"),
        ("上上週末", "2026-09-05/2026-09-07"),
        ("下个周末", "2026-09-26/2026-09-28"),
        ("昨晚", "2026-09-15T17/2026-09-16T06"),
        ("昨天下午", "2026-09-15T12/2026-09-15T18"),
        ("今早", "2026-09-16T05/2026-09-16T12"),
        ("後天晚上", "2026-09-18T17/2026-09-19T06"),
        ("五月", "2026-05/2026-06"),
        ("5月份", "2026-05/2026-06"),
        ("十二月", "2025-12/2026-01"),
        ("去年五月", "2025-05/2025-06"),
        ("去年5月", "2025-05/2025-06"),
        ("今年十月", "2026-10/2026-11"),
        ("2023年五月", "2023-05/2023-06"),
        ("五月四號", "2026-05-04/2026-05-05"),
        ("三月到五月", "2026-03/2026-06"),
        ("2023年3月到5月", "2023-03/2023-06"),
        ("2022年11月至次年", "2022-11/2022-12"),
        ("2022年11月到2023年2月", "2022-11/2023-03"),
        ("去年十一月到二月", "2025-11/2026-03"),
        ("去年夏天", "2025-06/2025-09"),
        ("2022年冬天", "2022-12/2023-03"),
        ("上个夏天", "2026-06/2026-09"),
        ("2023年第三季度", "2023-07/2023-10"),
    ],
)
def test_each_way_of_saying_a_time_is_its_span(text: str, span: str) -> None:
    """A saying, alone and among other words, is the span that it means."""
    assert told(text) == [span]
    if text.isascii():
        assert told(f"what did we say ({text})? nothing") == [span]
    else:
        assert told(f"我们{text}，说了什么") == [span]


@pytest.mark.parametrize(
    ("text", "january", "december"),
    [
        ("last May", "2026-05/2026-06", "2026-05/2026-06"),
        ("last December", "2026-12/2027-01", "2025-12/2026-01"),
        ("next January", "2028-01/2028-02", "2027-01/2027-02"),
        ("in January", "2027-01/2027-02", "2026-01/2026-02"),
        ("in December", "2026-12/2027-01", "2026-12/2027-01"),
        ("May of last year", "2026-05/2026-06", "2025-05/2025-06"),
        ("last winter", "2025-12/2026-03", "2025-12/2026-03"),
        ("this winter", "2026-12/2027-03", "2026-12/2027-03"),
        ("this autumn", "2027-09/2027-12", "2026-09/2026-12"),
        ("last summer", "2026-06/2026-09", "2026-06/2026-09"),
        ("between November and January", "2026-11/2027-02", "2026-11/2027-02"),
        ("the month before last", "2026-11/2026-12", "2026-10/2026-11"),
        ("last night", "2026-12-31T17/2027-01-01T06", "2026-12-30T17/2026-12-31T06"),
        ("去年五月", "2026-05/2026-06", "2025-05/2025-06"),
        ("十二月", "2026-12/2027-01", "2026-12/2027-01"),
        ("一月", "2027-01/2027-02", "2026-01/2026-02"),
        ("上个周末", "2026-12-26/2026-12-28", "2026-12-26/2026-12-28"),
    ],
)
def test_around_the_end_of_a_year_it_is_the_right_year(text: str, january: str, december: str) -> None:
    """On its first day and on its last."""
    assert (told(text, JANUARY), told(text, DECEMBER)) == ([january], [december])


@pytest.mark.parametrize(
    "text",
    [
        *("I may last", "the last may be first", "May told me", "June and April went", "April is here"),
        *("at last May said so", "This May be wrong", "in May's opinion", "what may I do this may I"),
        *("we march on", "the last march on Rome", "Spring Boot", "last spring boot", "may", "fall in"),
        *(
            "五月天的歌",
            "三个月",
            "每年五月",
            "一月一次",
            "10.5月",
            "13月",
            "recently",
            "最近",
            "",
        ),
    ],
)
def test_words_and_names_are_no_times(text: str) -> None:
    """Verbs, people, bands and lengths of time are not read."""
    assert told(text) == []


def test_a_question_may_speak_of_several_times() -> None:
    """Each is a span, in the order in which they are said, none within another."""
    assert told("last May or 上周末? and yesterday") == [
        "2026-05/2026-06",
        "2026-09-12/2026-09-14",
        "2026-09-15/2026-09-16",
    ]


def test_what_is_remembered_as_a_date_is_not_read_so_loosely() -> None:
    """Only here are a weekend, a season and the part of a day times."""
    for text in ("last weekend", "last summer", "last night", "上周末", "五月", "last May"):
        assert resolved(text, SAID, SHANGHAI) == []


def test_clocks_that_change_in_the_night_are_followed() -> None:
    """A night in which an hour is left out is an hour shorter."""
    ((begins, ends),) = spans("last night", at("Europe/Lisbon", 2026, 3, 29, 9), "Europe/Lisbon")
    assert (begins, ends - begins) == (at("Europe/Lisbon", 2026, 3, 28, 17), 12 * 3_600_000)


def test_a_zone_that_does_not_exist_is_refused() -> None:
    """`InvalidInput`, whatever the text."""
    with pytest.raises(InvalidInput, match="no such time zone"):
        spans("", SAID, "Mars/Olympus")


_SAID_WORDS = st.lists(
    st.sampled_from(
        re.findall(
            r"\S+",
            "last next this before after week weekend month year night morning monday in between from and "
            "to of 3 31 2019 May march summer winter Q3 tonight yesterday the end , . - 上 下 周 末 三 一 "
            "个 月 9 日 年 去年 到 夏 天 昨 晚 上午 季 第 十 份",
        )
    ),
    max_size=12,
)


@given(
    st.text() | _SAID_WORDS.map(" ".join) | _SAID_WORDS.map("".join),
    st.integers(-6 * 10**13, 2 * 10**14) | st.just(253402214400000),
)
def test_no_text_breaks_it(text: str, said_at: int) -> None:
    """Whatever the text and the day, spans end after they begin, and are the same again."""
    found = spans(text, said_at, "America/Sao_Paulo")
    assert all(begins < ends for begins, ends in found)
    assert found == spans(text, said_at, "America/Sao_Paulo")


@pytest.mark.parametrize(
    "text",
    [
        *("in" + " " * 10**5, "between March and " * 6_000, "summer" + " " * 10**5, "from 2019 to " * 8_000),
        *("五月到" * 30_000, "三月到" + " " * 10**5, "去年的" * 20_000, "1" * 10**5, "end of " * 15_000),
    ],
)
def test_a_long_text_is_quick(text: str) -> None:
    """Time is linear in the length; the bound is generous for slow machines."""
    start = time.process_time()
    spans(text, SAID, SHANGHAI)
    assert time.process_time() - start < 4
