"""The times that a question speaks of: the dates of `dates`, and what is said more loosely.

    spans("what did we talk about last May?", now, "UTC")  # that May
    spans("昨晚", now, "Asia/Shanghai")                     # from 17:00 yesterday to 06:00 today

What is remembered as a date is to be right (see `dates`); here a span only says what is preferred, so that a
season, a weekend, the part of a day, a month without a year and a range are read too, by the calendar of who
asks. A month without a year is the latest that has begun, for a question looks back; `last May` is the latest
before this month, `next May` the first after it. Seasons are those of the north, a winter that of the year in
which it begins. A day's parts meet where people would say either.

`may`, `march`, `spring` and `fall` are words and `April` is a name: a month or season stands beside
something that makes it a time.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from functools import cache
from typing import Final, NamedTuple, TypeAlias
from zoneinfo import ZoneInfo

from stratalog.memory.dates import (
    BESIDE,
    BESIDE_YEAR,
    CHINESE_MONTH,
    MONTH_NAME,
    NEAR_YEARS,
    YEAR,
    english,
    local,
    month_of,
    number_of,
    resolved,
    simplified,
    zone_of,
)

_Times: TypeAlias = tuple[datetime, datetime]  # by the clocks of the zone
_Reading: TypeAlias = Callable[["re.Match[str]", date], _Times]


class _Found(NamedTuple):
    start: int
    stop: int
    begins: int
    ends: int


_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_SEASONS: Final = {  # their first month
    "spring": 3,
    "summer": 6,
    "autumn": 9,
    "fall": 9,
    "winter": 12,
    "春": 3,
    "夏": 6,
    "秋": 9,
    "冬": 12,
}
_PARTS: Final = {  # hours of the day, or of the next one
    "morning": (5, 12),
    "afternoon": (12, 18),
    "evening": (17, 24),
    "night": (17, 30),
    "凌": (0, 6),
    "早": (5, 12),
    "清": (5, 12),
    "上": (5, 12),
    "中": (11, 14),
    "下": (12, 18),
    "傍": (16, 20),
    "晚": (17, 30),
    "夜": (17, 30),
}
_DAYS: Final = {"前": -2, "昨": -1, "今": 0, "明": 1, "后": 2, "yesterday": -1, "this": 0, "tomorrow": 1}
_BETWEEN: Final = re.compile(r"\b(between|from)\s+\Z", re.IGNORECASE)
_TO: Final = re.compile(r"\s+(?:and|to|until|till)\s+|\s*(?:到|至|[-–—~～])\s*", re.IGNORECASE)
_EAST: Final = re.compile(r"\s*[到至]")


def spans(text: str, said_at: int, zone: str) -> list[tuple[int, int]]:
    """The spans [start, stop) that the text speaks of, in milliseconds UTC and in the order in which it does.
    `said_at` is milliseconds UTC, `zone` an IANA name. Raises `InvalidInput` for a zone or a moment that does
    not exist, for no text."""
    place = zone_of(zone)
    today = local(said_at, zone).date()
    found = [_Found(each.start, each.stop, each.when.at, each.ends) for each in resolved(text, said_at, zone)]
    plain = simplified(text)
    for pattern, read in _readings():
        found += (made for match in pattern.finditer(plain) if (made := _made(match, read, today, place)))
    found.sort(key=lambda each: (each.start, -each.stop))
    apart: list[_Found] = []
    for each in found:
        if not apart or each.start >= apart[-1].stop:
            apart.append(each)
    return [(each.begins, each.ends) for each in _ranges(plain, apart)]


def _made(match: re.Match[str], read: _Reading, today: date, place: ZoneInfo) -> _Found | None:
    try:
        begins, ends = (
            (each.replace(tzinfo=place) - _EPOCH) // timedelta(milliseconds=1) for each in read(match, today)
        )
    except (ValueError, OverflowError):  # none that the calendar reaches
        return None
    return _Found(match.start(), match.end(), begins, ends) if begins < ends else None


def _ranges(text: str, found: list[_Found]) -> list[_Found]:
    """What was found, two that are said as the ends of a range as one."""
    made: list[_Found] = []
    for each in found:
        last = made[-1] if made else None
        if last and each.begins >= last.begins and _is_range(text, last, each):
            made[-1] = _Found(last.start, each.stop, last.begins, max(last.ends, each.ends))
        else:
            made.append(each)
    return made


def _is_range(text: str, one: _Found, other: _Found) -> bool:
    if not _TO.fullmatch(text, one.stop, other.start):
        return False
    return bool(_BETWEEN.search(text, max(one.start - 16, 0), one.start) or _EAST.match(text, one.stop))


# --- the calendar; a month is counted from that of the year 0 ---


def _month_at(day: date) -> int:
    return day.year * 12 + day.month - 1


def _months(first: int, count: int = 1) -> _Times:
    return _month_begins(first), _month_begins(first + count)


def _month_begins(month: int) -> datetime:
    return datetime(month // 12, month % 12 + 1, 1)


def _days(first: date, count: int = 1) -> _Times:
    begins = datetime(first.year, first.month, first.day)
    return begins, begins + timedelta(days=count)


def _hours(today: date, days: int, part: str) -> _Times:
    begins, _ = _days(today + timedelta(days=days))
    first, last = _PARTS[part]
    return begins + timedelta(hours=first), begins + timedelta(hours=last)


def _week(today: date, weeks: int) -> date:
    return today + timedelta(days=7 * weeks - today.weekday())


def _beside(which: str, month: int, here: int, length: int = 1) -> int:
    """Where in the years around `here` what begins with this month of a year and has this many months begins:
    the last that was over before `here`, the next that is to begin, or the one of this year."""
    first = here - here % 12 + month - 1
    if which == "last":
        first -= 12 if first >= here else 0
        return first if first + length <= here else first - 12
    if which == "next":
        return first if first > here else first + 12
    return first - 12 if month == 12 and length > 1 and first - here > 6 else first  # said in January


def _begun(month: int, here: int) -> int:
    first = here - here % 12 + month - 1
    return first if first <= here else first - 12


# --- how each way of saying it is read ---


def _month_beside(match: re.Match[str], today: date) -> _Times:
    name = match["name"] or match["verb"]
    return _months(_beside(match["which"].lower(), month_of(name), _month_at(today)))


def _month_alone(match: re.Match[str], today: date) -> _Times:
    said = match.groupdict()
    month = month_of(said["name"]) if said.get("name") else number_of(said["m"])
    if not 1 <= month <= 12:
        raise ValueError(month)
    return _months(_begun(month, _month_at(today)))


def _month_range(match: re.Match[str], today: date) -> _Times:
    """The months from one to another, of the year of the other or else of the latest that has begun."""
    said = match.groupdict()
    if said.get("m"):
        one, other = number_of(said["m"]), number_of(said["n"])
    else:
        one, other = month_of(said["name"]), month_of(said["until"])
    if not (1 <= one <= 12 and 1 <= other <= 12):
        raise ValueError(one, other)
    length = (other - one) % 12
    year = int(said["y"]) if said.get("y") else 0
    if said.get("beside"):
        year = today.year + BESIDE[said["beside"].lower()]
    if said.get("year"):
        year = today.year + NEAR_YEARS[said["year"]]
    if not year:
        return _months(_begun(one, _month_at(today)), length + 1)
    # In Chinese the year stands before the first of them.
    return _months(year * 12 + (one - 1 if said.get("m") else other - 1 - length), length + 1)


def _season(match: re.Match[str], today: date) -> _Times:
    said = match.groupdict()
    first, here = _SEASONS[said["season"].lower()], _month_at(today)
    year = said.get("y") or said.get("beside") or said.get("year") or ""
    if year.isdecimal():
        return _months(int(year) * 12 + first - 1, 3)
    if year:
        return _months((today.year + (BESIDE | NEAR_YEARS)[year.lower()]) * 12 + first - 1, 3)
    if said.get("which"):
        return _months(_beside(_WHICH.get(said["which"], said["which"].lower()), first, here, 3), 3)
    return _months(_begun(first, here), 3)


def _year_range(match: re.Match[str], today: date) -> _Times:
    first, last = int(match["y"]), int(match["z"])
    return _months(first * 12, 12 * (last - first + 1))


def _quarter(match: re.Match[str], today: date) -> _Times:
    said = match.groupdict()
    quarter = number_of(said.get("q") or said.get("k") or "")
    year = int(said["y"]) if said.get("y") else today.year + NEAR_YEARS[said["year"]]
    return _months(year * 12 + 3 * quarter - 3, 3)


def _weekend(match: re.Match[str], today: date) -> _Times:
    which = match["which"].lower()
    weeks = BESIDE[which] if which in BESIDE else len(which) * BESIDE[which[0]]
    return _days(_week(today, weeks) + timedelta(days=5), 2)


def _before_last(match: re.Match[str], today: date) -> _Times:
    count = -2 if match["which"].lower().startswith("before") else 2
    match match["unit"].lower():
        case "night":
            return _hours(today, count, "night")
        case "week":
            return _days(_week(today, count), 7)
        case "weekend":
            return _days(_week(today, count) + timedelta(days=5), 2)
        case "month":
            return _months(_month_at(today) + count)
        case _:
            return _months((today.year + count) * 12, 12)


def _part_of_day(match: re.Match[str], today: date) -> _Times:
    day, part = (said.lower() if said.isascii() else said[0] for said in (match["day"], match["part"]))
    return _hours(today, _DAYS[day], part)


def _last_night(match: re.Match[str], today: date) -> _Times:
    return _hours(today, 0 if match[0].lower() == "tonight" else -1, "night")


_WHICH: Final = {"上": "last", "这": "this", "本": "this", "下": "next"}
_UNTIL: Final = MONTH_NAME.replace("?P<name>", "?P<until>")
_NAME_OF_SEASON: Final = r"(?P<season>spring|summer|autumn|fall|winter)"
_CHINESE_SEASON: Final = r"(?:的)?(?P<season>[春夏秋冬])[天季日]"
_NEAR_YEAR: Final = r"(?P<year>前年|去年|今年|明年|后年)"
_CHINESE_YEAR: Final = rf"(?<!\d)(?:(?P<y>(?:19|20)\d\d)\s*年|{_NEAR_YEAR})的?\s*"
_ONE: Final = r"[一二三四五六七八九十]"


@cache
def _readings() -> tuple[tuple[re.Pattern[str], _Reading], ...]:
    """What is read, and how; made when it is first wanted, for it takes milliseconds."""
    return (
        (
            # `at last May said`, `This May be`: a name and a verb. In small letters a verb follows.
            english(
                r"(?<!\bat )(?P<which>last|this|next)\s+"
                rf"(?:{MONTH_NAME}(?!\s+(?:\d|be\b|have\b|not\b|also\b|well\b))"
                r"|(?<!this )(?P<verb>may|march)(?=\s*(?:[?!.,;)]|\Z)))"
            ),
            _month_beside,
        ),
        (
            english(
                r"(?:in|during|early|mid|late|(?:beginning|start|middle|end)\s+of)[\s-]+"
                rf"{MONTH_NAME}(?!['’]|\.?,?\s+(?:the\s+)?\d)"
            ),
            _month_alone,
        ),
        (
            english(
                rf"(?:between|from|in|during)\s+{MONTH_NAME}\.?\s+(?:and|to|until|till|through)\s+{_UNTIL}"
                rf"(?:,?\s+(?:(?:of\s+)?{YEAR}|{BESIDE_YEAR}))?(?!['’]|\s+(?:the\s+)?\d)"
            ),
            _month_range,
        ),
        (
            english(rf"(?:between|from)\s+{YEAR}\s+(?:and|to|until|till|through)\s+(?P<z>(?:19|20)\d\d)"),
            _year_range,
        ),
        (
            english(
                rf"{MONTH_NAME}\.?(?:\s+(?:to|until|till|through)\s+|\s*[-–—]\s*){_UNTIL}"
                rf",?\s+(?:(?:of\s+)?{YEAR}|{BESIDE_YEAR})"
            ),
            _month_range,
        ),
        (english(rf"(?P<which>last|this|next)\s+{_NAME_OF_SEASON}(?!\s+boot\b)"), _season),
        (english(rf"{_NAME_OF_SEASON},?\s+(?:(?:of\s+)?{YEAR}|{BESIDE_YEAR})"), _season),
        (
            english(r"(?:in|during)\s+(?:the\s+)?(?P<season>summer|autumn|winter)(?!,?\s+(?:of|last|\d))"),
            _season,
        ),
        (english(rf"Q(?P<q>[1-4])\s*(?:of\s+)?{YEAR}"), _quarter),
        (english(r"(?P<which>last|this|next)\s+weekend"), _weekend),
        (
            english(
                r"(?:the\s+)?(?P<unit>night|week|weekend|month|year)\s+(?P<which>before\s+last|after\s+next)"
            ),
            _before_last,
        ),
        (english(r"last\s+night|tonight"), _last_night),
        (
            english(r"(?P<day>this|yesterday|tomorrow)\s+(?P<part>morning|afternoon|evening|night)"),
            _part_of_day,
        ),
        (
            re.compile(
                rf"(?<![\d年每个/.-])(?<!{_ONE}){CHINESE_MONTH}\s*月(?:份|中旬|[上下]旬|[底初末])?"
                rf"(?!\s*(?:\d|{_ONE}{{1,3}}[日号]|[一两三]次)|[天饼光亮球薪票租色季])"
            ),
            _month_alone,
        ),
        (
            re.compile(
                rf"(?:{_CHINESE_YEAR})?(?<![\d.]){CHINESE_MONTH}\s*月?份?\s*[到至~～—–-]\s*"
                rf"(?P<n>\d{{1,2}}|十[一二]?|{_ONE})\s*月(?!\s*\d)"
            ),
            _month_range,
        ),
        (re.compile(rf"{_CHINESE_YEAR}{_CHINESE_SEASON}"), _season),
        (re.compile(rf"(?P<which>[上这本下])个?{_CHINESE_SEASON}"), _season),
        (re.compile(rf"{_CHINESE_YEAR}(?:第?(?P<q>[一二三四1-4])季度?|[Qq](?P<k>[1-4]))"), _quarter),
        (re.compile(r"(?<![上下])(?P<which>上{1,3}|下{1,3}|[这本])个?周末"), _weekend),
        (
            re.compile(
                r"(?P<day>[前昨今明后][天日]|[昨今明])\s*(?P<part>凌晨|早[上晨]?|清晨|上午|中午|下午|傍晚|晚[上间]?|夜[里晚间]?)"
            ),
            _part_of_day,
        ),
    )
