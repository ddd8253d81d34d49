"""memory/dates.py: dates as they are said, by the calendar of who said them."""

from __future__ import annotations

import re
from datetime import datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stratalog.errors import InvalidInput
from stratalog.memory.contract import When
from stratalog.memory.dates import resolved, resolved_whole

SHANGHAI = "Asia/Shanghai"


def at(zone: str, *moment: int) -> int:
    return int(datetime(*moment, tzinfo=ZoneInfo(zone)).timestamp() * 1000)  # type: ignore[misc,arg-type]


# A Wednesday, half an hour into it; by UTC it is still Tuesday.
SAID = at(SHANGHAI, 2026, 9, 16, 0, 30)


def shown(moment: int, zone: str) -> str:
    """The moment by the clocks of the zone; only its day where that begins with it."""
    return datetime.fromtimestamp(moment / 1000, ZoneInfo(zone)).isoformat()[:16].removesuffix("T00:00")


def told(text: str, said_at: int = SAID, zone: str = SHANGHAI) -> list[tuple[str, str, str]]:
    """What was read, where it begins by the clocks of the zone, and the precision."""
    return [
        (
            text[each.start : each.stop],
            datetime.fromtimestamp(each.when.at / 1000, ZoneInfo(zone))
            .isoformat()[:16]
            .removesuffix("T00:00"),
            each.when.precision,
        )
        for each in resolved(text, said_at, zone)
    ]


@pytest.mark.parametrize(
    ("text", "begins", "precision"),
    [
        ("today", "2026-09-16", "day"),
        ("Yesterday", "2026-09-15", "day"),
        ("tomorrow", "2026-09-17", "day"),
        ("the day before yesterday", "2026-09-14", "day"),
        ("the day after tomorrow", "2026-09-18", "day"),
        ("3 days ago", "2026-09-13", "day"),
        ("a day ago", "2026-09-15", "day"),
        ("two weeks ago", "2026-08-31", "month"),
        ("9 months ago", "2025-12-01", "month"),
        ("five years ago", "2021-01-01", "year"),
        ("in 3 days", "2026-09-19", "day"),
        ("in two months", "2026-11-01", "month"),
        ("last week", "2026-09-07", "month"),
        ("this week", "2026-09-14", "month"),
        ("next month", "2026-10-01", "month"),
        ("last year", "2025-01-01", "year"),
        ("last Monday", "2026-09-14", "day"),
        ("last Wednesday", "2026-09-09", "day"),
        ("next Friday", "2026-09-18", "day"),
        ("next Wednesday", "2026-09-23", "day"),
        ("this Tuesday", "2026-09-15", "day"),
        ("今天", "2026-09-16", "day"),
        ("昨天", "2026-09-15", "day"),
        ("前天", "2026-09-14", "day"),
        ("大前天", "2026-09-13", "day"),
        ("明天", "2026-09-17", "day"),
        ("后天", "2026-09-18", "day"),
        ("3天前", "2026-09-13", "day"),
        ("两周前", "2026-08-31", "month"),
        ("十二个月前", "2025-09-01", "month"),
        ("二十五年前", "2001-01-01", "year"),
        ("上周三", "2026-09-09", "day"),
        ("上上周三", "2026-09-02", "day"),
        ("这周五", "2026-09-18", "day"),
        ("下周一", "2026-09-21", "day"),
        ("上星期天", "2026-09-13", "day"),
        ("上周", "2026-09-07", "month"),
        ("上个月", "2026-08-01", "month"),
        ("上个月5号", "2026-08-05", "day"),
        ("去年", "2025-01-01", "year"),
        ("去年9月", "2025-09-01", "month"),
        ("去年九月", "2025-09-01", "month"),
        ("去年九月十四日", "2025-09-14", "day"),
        ("上週三", "2026-09-09", "day"),
        ("兩週前", "2026-08-31", "month"),
        ("上個月5號", "2026-08-05", "day"),
        ("後天", "2026-09-18", "day"),
        ("明年", "2027-01-01", "year"),
        ("2026-09-14", "2026-09-14", "day"),
        ("2026/9/4", "2026-09-04", "day"),
        ("2026-09-14 10:30", "2026-09-14T10:30", "minute"),
        ("2026-09-14T02:30:05Z", "2026-09-14T10:30", "second"),
        ("14 September 2026", "2026-09-14", "day"),
        ("September 14th, 2026", "2026-09-14", "day"),
        ("Sept 14", "2026-09-14", "day"),
        ("Sept 14 last year", "2025-09-14", "day"),
        ("September 2026", "2026-09-01", "month"),
        ("September of last year", "2025-09-01", "month"),
        ("May 5", "2026-05-05", "day"),
        ("2026年9月14日", "2026-09-14", "day"),
        ("2026年9月", "2026-09-01", "month"),
        ("2026年九月十四日", "2026-09-14", "day"),
        ("九月二十四号", "2026-09-24", "day"),
        ("2019年", "2019-01-01", "year"),
        ("9月14日", "2026-09-14", "day"),
        ("in 2019", "2019-01-01", "year"),
        ("since 2019", "2019-01-01", "year"),
    ],
)
def test_each_way_of_saying_a_date_is_read_with_what_it_says_and_no_more(
    text: str, begins: str, precision: str
) -> None:
    """A saying, alone and among other words, is its day, month or year by the speaker's calendar."""
    assert told(text) == [(text, begins, precision)]
    assert told(f"({text}), ok") == [(text, begins, precision)]


@pytest.mark.parametrize(
    "text",
    [
        *("5/6", "05/06/2026", "on Monday", "周三", "recently", "a few days ago", "几天前", "十几天前"),
        *(
            "3 or 4 days ago",
            "3-5 days ago",
            "1.5 years ago",
            "half a year ago",
            "about 3 years ago",
            "半年前",
        ),
        *("1 year 3 months ago", "1年3个月前", "大约三年前", "Feb 30", "2026-13-01", "2026年9月31日"),
        *("in 2000 lines", "may 5 people come", "every Sept 14", "每年9月14日", "last weekend", "上周末"),
        *(
            "last week of term",
            "做了3年前端",
            "上周三个人",
            "上周一直",
            "2019年前",
            "后天性",
            "v2026-09-14",
            "",
        ),
        *("once in a week", "9999年前", "about 3 years ago", "v2026-09-14", ""),
    ],
)
def test_what_could_be_several_dates_or_none_is_left_out(text: str) -> None:
    """Nothing is read in what is ambiguous, vague, or no date."""
    assert told(text) == []


def test_dates_are_found_where_they_stand_in_a_text_of_both_languages() -> None:
    """Places are characters of the text, in order, none within another."""
    text = "我昨天搬家了; I signed on Sept. 14, 2026, 三天前天气很好, and leave next Friday."
    assert [each[0] for each in told(text)] == ["昨天", "Sept. 14, 2026", "三天前", "next Friday"]


def test_a_day_is_the_speakers_day() -> None:
    """The same moment is another day elsewhere."""
    assert told("yesterday")[0][1] == "2026-09-15"
    assert told("yesterday", zone="America/Los_Angeles")[0][1] == "2026-09-14"


def test_a_day_on_which_clocks_are_changed_begins_and_ends_by_them() -> None:
    """A day of 23 hours is told as one of 23 hours, and one without a midnight begins after it."""
    said = at("Europe/Lisbon", 2026, 3, 30, 9)
    (day,) = resolved("yesterday", said, "Europe/Lisbon")
    assert day.when == When(at("Europe/Lisbon", 2026, 3, 29), "day", "Europe/Lisbon")
    assert day.ends - day.when.at == 23 * 3_600_000
    # In Cairo clocks went from 23:59 to 01:00.
    (day,) = resolved("2023-04-28", said, "Africa/Cairo")
    assert day.when.at == at("Africa/Cairo", 2023, 4, 28, 1)


def test_a_date_without_a_year_is_the_near_one_around_new_year() -> None:
    """`Dec 28` said in January was last year, `Jan 5` said in December is next year."""
    assert told("Dec 28", at(SHANGHAI, 2026, 1, 3)) == [("Dec 28", "2025-12-28", "day")]
    assert told("1月5日", at(SHANGHAI, 2026, 12, 20)) == [("1月5日", "2027-01-05", "day")]
    assert told("Sept 14", at(SHANGHAI, 2026, 2, 1)) == [("Sept 14", "2026-09-14", "day")]
    assert told("Feb 29", at(SHANGHAI, 2026, 6, 1)) == []


def test_a_moment_with_an_offset_keeps_a_zone_in_which_it_is_true() -> None:
    """The speaker's zone where its clocks agree with the offset, else UTC."""
    assert resolved("2026-09-14T10:30+08:00", SAID, SHANGHAI)[0].when == When(
        at(SHANGHAI, 2026, 9, 14, 10, 30), "minute", SHANGHAI
    )
    assert resolved("2026-09-14T10:30-0500", SAID, SHANGHAI)[0].when == When(
        at("UTC", 2026, 9, 14, 15, 30), "minute", "UTC"
    )


def test_a_text_that_is_a_date_may_be_a_bare_year_or_month() -> None:
    """`2019` alone is a year there; two dates, or none, are not one."""
    assert resolved_whole("2019", SAID, SHANGHAI) == When(at(SHANGHAI, 2019, 1, 1), "year", SHANGHAI)
    assert resolved_whole(" 2019-05 ", SAID, SHANGHAI) == When(at(SHANGHAI, 2019, 5, 1), "month", SHANGHAI)
    assert resolved_whole("since yesterday", SAID, SHANGHAI) == When(
        at(SHANGHAI, 2026, 9, 15), "day", SHANGHAI
    )
    for text in ("today or tomorrow", "soon", "2019-13", "0000"):
        assert resolved_whole(text, SAID, SHANGHAI) is None


@pytest.mark.parametrize("zone", ["Mars/Olympus", "", "../etc/passwd", "America"])
def test_a_zone_that_does_not_exist_is_refused(zone: str) -> None:
    """`InvalidInput`, whatever the text."""
    with pytest.raises(InvalidInput, match="no such time zone"):
        resolved("", SAID, zone)


def test_a_moment_that_no_calendar_has_is_refused() -> None:
    """Beyond the year 9999 there is no day to count from; a date beyond it is left out."""
    with pytest.raises(InvalidInput, match="has no date"):
        resolved("today", 10**18, SHANGHAI)
    assert told("in 2 days", at(SHANGHAI, 9999, 12, 31)) == []


WORDS = st.lists(
    st.sampled_from(
        re.findall(
            r"\S+",
            "last next this week month year monday in on 3 31 2019 2026-09-14 T10:30 Sept May , . / "
            "- days years "
            "ago the of day before yesterday 上 下 周 三 一 个 月 9 日 年 前 去年 天 大 后天 十 两",
        )
    ),
    max_size=12,
)


@given(st.text() | WORDS.map(" ".join) | WORDS.map("".join), st.integers(-6 * 10**13, 2 * 10**14))
def test_no_text_breaks_it(text: str, said_at: int) -> None:
    """Whatever the text, dates are in it, in order, apart, not empty, and end after they begin."""
    found = resolved(text, said_at, "America/Sao_Paulo")
    end = 0
    for each in found:
        assert end <= each.start < each.stop <= len(text)
        assert each.when.at < each.ends
        end = each.stop
    assert found == resolved(text, said_at, "America/Sao_Paulo")
