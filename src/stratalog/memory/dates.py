"""Dates as they are said, in English and Chinese, resolved by the calendar of who said them.

    resolved("I moved yesterday", said_at, "Asia/Shanghai")  # the day before, as it was in Shanghai

What is relative counts from the local day on which it was said. Nothing asks a clock. What is told is no
finer than what was said: `in 2019` is a year, never its first of January.

- The week begins on Monday. `last Monday` is the latest one before that day, `next Friday` the first after
  it; `this Friday`, 上周三 and 下周一 are days of that week, the one before and the one after.
- A week has no precision of its own. It is told by the day it begins with, to the month: a day would be finer
  than what was said.
- A date without a year is of the year in which it was said, or of the year beside it where it is within 92
  days there: `Dec 28`, said in January.
- Left out is what could be several dates (`5/6`, `on Monday`, `3 or 4 days ago`), what is vague (`a few days
  ago`, 大约三年前), and what is no date of the calendar.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, timedelta, timezone
from functools import cache
from typing import Final, Literal, NamedTuple, TypeAlias
from zoneinfo import ZoneInfo

import msgspec

from stratalog.errors import InvalidInput
from stratalog.memory.contract import Precision, When


class Dated(msgspec.Struct, frozen=True):
    """The characters [start, stop) of a text say `when`; it is over at `ends` (milliseconds UTC)."""

    start: int
    stop: int
    when: When
    ends: int


_Unit: TypeAlias = Literal["day", "week", "month", "year"]


class _Period(NamedTuple):
    """A day, week, month or year of the calendar, by the first of its days."""

    first: date
    unit: _Unit


class _Moment(NamedTuple):
    """A time of day to the minute or second; `offset` is the zone that was said with it, if one was."""

    at: datetime
    precision: Precision
    offset: timezone | None


_Told: TypeAlias = _Period | _Moment | None
_Reading: TypeAlias = Callable[["re.Match[str]", date], _Told]

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_NEAR: Final = timedelta(days=92)
_TOLD_AS: Final[dict[_Unit, Precision]] = {"day": "day", "week": "month", "month": "month", "year": "year"}

_MONTHS: Final = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_WEEKDAYS: Final = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_WORDS: Final = [
    "zero",
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
]
_DIGITS: Final = "零一二三四五六七八九"
_CHINESE_DAYS: Final = "一二三四五六日"
_SIMPLIFIED: Final = str.maketrans(
    "週個後這號禮兩幾約過數間內報記曆樣氣線鋒衛臺誌",
    "周个后这号礼两几约过数间内报记历样气线锋卫台志",
)


def resolved(text: str, said_at: int, zone: str) -> list[Dated]:
    """The dates in the text, in their order, none within another. `said_at` is milliseconds UTC, `zone` an
    IANA name. Raises `InvalidInput` for a zone or a moment that does not exist, for no text."""
    place = zone_of(zone)
    today = local(said_at, zone).date()
    found = []
    for match, read in _chosen(simplified(text)):
        made = _made(match, read, today, place, zone)
        if made is not None:
            found.append(made)
    return found


def resolved_whole(text: str, said_at: int, zone: str) -> When | None:
    """The date that the text is, or that alone is in it: here `2019` and `2019-09` are dates too. None when
    it is not one. Raises as `resolved`."""
    bare = _BARE.fullmatch(text.strip())
    if bare:
        place = zone_of(zone)
        made = _made(bare, _bare, local(said_at, zone).date(), place, zone)
        return made.when if made else None
    found = resolved(text, said_at, zone)
    return found[0].when if len(found) == 1 else None


def simplified(text: str) -> str:
    """The text with the traditional signs of Chinese dates as simplified ones, as long as it was."""
    return text if text.isascii() else text.translate(_SIMPLIFIED)


def zone_of(name: str) -> ZoneInfo:
    """The zone of that IANA name. Raises `InvalidInput` when there is none."""
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError) as error:
        raise InvalidInput(
            "there is no such time zone", zone=ascii(name), hint="give an IANA name, as Europe/Lisbon"
        ) from error


def local(at: int, zone: str) -> datetime:
    """The moment as the clocks of the zone showed it. Raises `InvalidInput` outside of the years 1 to
    9999."""
    try:
        return (_EPOCH + timedelta(milliseconds=at)).astimezone(zone_of(zone))
    except OverflowError as error:
        raise InvalidInput("this moment has no date", at=at) from error


def _chosen(text: str) -> Iterator[tuple[re.Match[str], _Reading]]:
    """The matches, from the left, of those that begin together the longest, none within another. What cannot
    be resolved is among them, so that no part of it is read as something else."""
    matches = [(match, read) for pattern, read in _readings() for match in pattern.finditer(text)]
    matches.sort(key=lambda each: (each[0].start(), -each[0].end()))
    end = 0
    for match, read in matches:
        if match.start() >= end:
            end = match.end()
            yield match, read


def _made(match: re.Match[str], read: _Reading, today: date, place: ZoneInfo, zone: str) -> Dated | None:
    try:
        told = read(match, today)
        if told is None:
            return None
        if isinstance(told, _Moment):
            return _at_moment(match, told, place, zone)
        begins, ends = _begins(told.first, place), _begins(_after(told), place)
    except (ValueError, OverflowError):  # no date of the calendar, or none that it reaches
        return None
    return Dated(match.start(), match.end(), When(begins, _TOLD_AS[told.unit], zone), ends)


def _at_moment(match: re.Match[str], told: _Moment, place: ZoneInfo, zone: str) -> Dated:
    moment = told.at.replace(tzinfo=told.offset or place)
    length = timedelta(minutes=1) if told.precision == "minute" else timedelta(seconds=1)
    same = told.offset is None or moment.astimezone(place).utcoffset() == moment.utcoffset()
    at = _ms(moment)
    return Dated(
        match.start(),
        match.end(),
        When(at, told.precision, zone if same else "UTC"),
        at + length // timedelta(milliseconds=1),
    )


def _begins(day: date, place: ZoneInfo) -> int:
    # Where clocks skip midnight, this is the moment at which they skip it: the day's first.
    return _ms(datetime(day.year, day.month, day.day, tzinfo=place))


def _ms(moment: datetime) -> int:
    return (moment - _EPOCH) // timedelta(milliseconds=1)


# --- the calendar ---


def _moved(today: date, unit: _Unit, count: int) -> _Period:
    """The period `count` units after the one of today; before it when negative."""
    match unit:
        case "day":
            return _Period(today + timedelta(days=count), unit)
        case "week":
            return _Period(today + timedelta(days=7 * count - today.weekday()), unit)
        case "month":
            year, month = divmod(today.year * 12 + today.month - 1 + count, 12)
            return _Period(date(year, month + 1, 1), unit)
        case "year":
            return _Period(date(today.year + count, 1, 1), unit)


def _after(period: _Period) -> date:
    return _moved(period.first, period.unit, 1).first


def _weekday_of_week(today: date, weekday: int, weeks: int) -> _Period:
    return _Period(_moved(today, "week", weeks).first + timedelta(days=weekday), "day")


def _without_year(today: date, month: int, day: int) -> _Period | None:
    """The date in the year of `today`, or in the year beside it where it is near there."""
    near = []
    for year in (today.year - 1, today.year, today.year + 1):
        try:
            each = date(year, month, day)
        except ValueError:  # the 29th of February of another year
            continue
        if year == today.year or abs(each - today) <= _NEAR:
            near.append(each)
    return _Period(min(near, key=lambda each: abs(each - today)), "day") if near else None


# --- numbers and names ---


def number_of(text: str) -> int:
    """A number in digits, English words up to twelve, or Chinese up to 99. Raises `ValueError`."""
    text = text.lower()
    if text in ("a", "an"):
        return 1
    if text in _WORDS:
        return _WORDS.index(text)
    if text.isdecimal():
        return int(text)
    tens, ten, ones = text.replace("两", "二").rpartition("十")
    if len(tens) > 1 or len(ones) > 1:
        raise ValueError(text)
    return (_DIGITS.index(tens) if tens else 1) * 10 * bool(ten) + (_DIGITS.index(ones) if ones else 0)


def month_of(text: str) -> int:
    """The month, 1 to 12, of its name or the beginning of this."""
    return _MONTHS.index(text[:3].lower()) + 1


def _unit(text: str) -> _Unit:
    text = text.lower()
    for unit, begin in _UNITS:
        if text.startswith(begin):
            return unit
    raise ValueError(text)


_UNITS: Final[tuple[tuple[_Unit, str], ...]] = (
    ("day", "day"),
    ("week", "week"),
    ("month", "month"),
    ("year", "year"),
    ("day", "天"),
    ("week", "周"),
    ("week", "星期"),
    ("week", "礼拜"),
    ("week", "个星期"),
    ("week", "个礼拜"),
    ("month", "个月"),
    ("month", "月"),
    ("year", "年"),
)


# --- how each way of saying it is read ---


def _nothing(match: re.Match[str], today: date) -> _Told:
    return None


def _near_day(match: re.Match[str], today: date) -> _Told:
    return _moved(today, "day", _NEAR_DAYS[" ".join(match[0].lower().split())])


def _near_year(match: re.Match[str], today: date) -> _Told:
    """去年, and the month or the day of it that follows."""
    year = _moved(today, "year", NEAR_YEARS[match["year"]])
    if not match["m"]:
        return year
    return _Period(
        date(year.first.year, number_of(match["m"]), number_of(match["d"] or "1")),
        "day" if match["d"] else "month",
    )


def _ago(match: re.Match[str], today: date) -> _Told:
    return None if match["vague"] else _moved(today, _unit(match["unit"]), -number_of(match["n"]))


def _ahead(match: re.Match[str], today: date) -> _Told:
    return _moved(today, _unit(match["unit"]), number_of(match["n"]))


def _period_beside(match: re.Match[str], today: date) -> _Told:
    return _moved(today, _unit(match["unit"]), BESIDE[match["which"].lower()])


def _weekday_beside(match: re.Match[str], today: date) -> _Told:
    weekday = _WEEKDAYS.index(match["day"][:3].lower())
    match match["which"].lower():
        case "last":
            return _Period(today - timedelta(days=(today.weekday() - weekday - 1) % 7 + 1), "day")
        case "next":
            return _Period(today + timedelta(days=(weekday - today.weekday() - 1) % 7 + 1), "day")
        case _:
            return _weekday_of_week(today, weekday, 0)


def _chinese_beside(match: re.Match[str], today: date) -> _Told:
    which = match["which"]
    count = len(which) * BESIDE[which[0]]
    unit = _unit(match["unit"])
    if unit == "month" and match["d"]:
        return _Period(_moved(today, unit, count).first.replace(day=int(match["d"])), "day")
    day = match["day"]
    if not day:
        return _moved(today, unit, count)
    return _weekday_of_week(today, _CHINESE_DAYS.index(day.replace("天", "日")), count)


def _calendar(match: re.Match[str], today: date) -> _Told:
    """A date of which `y`, `m` and `d` are numbers, or `name` the month's; each may be missing. The year may
    be one `beside`."""
    said = match.groupdict()
    if said.get("vague"):
        return None
    month = number_of(said.get("m") or "0") or (month_of(said["name"]) if said.get("name") else 0)
    day = number_of(said.get("d") or "0")
    if said.get("beside"):
        first = date(today.year + BESIDE[said["beside"].lower()], month, day or 1)
        return _Period(first, "day" if day else "month")
    if not said.get("y"):
        return _without_year(today, month, day)
    first = date(int(said["y"]), month or 1, day or 1)
    return _Period(first, "day" if said.get("d") else "month" if month else "year")


def _bare(match: re.Match[str], today: date) -> _Told:
    return _Period(date(int(match["y"]), int(match["m"] or 1), 1), "month" if match["m"] else "year")


def _moment(match: re.Match[str], today: date) -> _Told:
    second = match["second"]
    at = datetime(
        int(match["y"]),
        int(match["m"]),
        int(match["d"]),
        int(match["hour"]),
        int(match["minute"]),
        int(second or 0),
    )
    return _Moment(at, "second" if second else "minute", _offset(match["offset"]))


def _offset(text: str | None) -> timezone | None:
    if not text:
        return None
    if text in "zZ":
        return UTC
    minutes = int(text[1:3]) * 60 + int(text[-2:])
    return timezone(timedelta(minutes=minutes if text[0] == "+" else -minutes))


BESIDE: Final = {"last": -1, "this": 0, "next": 1, "上": -1, "这": 0, "本": 0, "下": 1}
_NEAR_DAYS: Final = {
    "the day before yesterday": -2,
    "day before yesterday": -2,
    "yesterday": -1,
    "today": 0,
    "tomorrow": 1,
    "day after tomorrow": 2,
    "the day after tomorrow": 2,
    "大前天": -3,
    "前天": -2,
    "昨天": -1,
    "今天": 0,
    "明天": 1,
    "后天": 2,
    "大后天": 3,
}
NEAR_YEARS: Final = {"前年": -2, "去年": -1, "今年": 0, "明年": 1, "后年": 2}

MONTH_NAME: Final = (
    r"(?P<name>(?:jan(?:uary)?|feb(?:ruary)?|apr(?:il)?|june?|july?|aug(?:ust)?|sept?(?:ember)?|oct(?:ober)?"
    # `may` and `march` are words too: as months they have their capital.
    r"|nov(?:ember)?|dec(?:ember)?)|(?-i:M(?:ay|AY|ar(?:ch)?|AR(?:CH)?)))"
)
YEAR: Final = r"(?P<y>(?:19|20)\d\d)(?![\d])"
BESIDE_YEAR: Final = r"(?:of\s+)?(?P<beside>last|this|next)\s+year"
_VAGUE: Final = r"(?P<vague>(?:last|next|every|each)\s+)?"
_DAY: Final = r"(?P<d>[0-3]?\d)(?:st|nd|rd|th)?"
_COUNT: Final = rf"(?P<n>\d{{1,3}}|an?|{'|'.join(_WORDS[1:])})"
_UNIT: Final = r"(?P<unit>days?|weeks?|months?|years?)"
_CHINESE_COUNT: Final = (
    r"(?P<n>(?<!\d)\d{1,3}|[一二两三四五六七八九]?十[一二三四五六七八九]?|[一二两三四五六七八九])"
)
_CHINESE_YEAR: Final = r"(?<!\d)(?P<y>(?:19|20)\d\d)\s*年"
CHINESE_MONTH: Final = r"(?P<m>(?<!\d)\d{1,2}|十[一二]?|[一二三四五六七八九])"
_CHINESE_DATE: Final = r"(?P<d>\d{1,2}|[二三]?十[一二三四五六七八九]?|[一二三四五六七八九])"
_CHINESE_WEEK: Final = r"周|个?星期|个?礼拜"
# 上周一直, 上周天气 and 上周三个人 do not speak of a day.
_CHINESE_DAY: Final = (
    r"(?P<day>一(?![直起样共些个次定]|下(?!午))|[二三四五六](?![个次位名人十百])"
    r"|日(?![程报常志记历本子])|天(?!气))"
)
_ISO_DAY: Final = r"(?P<y>\d{4})(?P<sep>[-/])(?P<m>\d{1,2})(?P=sep)(?P<d>\d{1,2})"
_THINGS: Final = (
    r"lines?|words?|people|cases?|users?|items?|rows?|files?|tokens?|char(?:acter)?s?|pages?|steps?|places?"
    r"|days?|hours?|minutes?|seconds?|ms|countries|cities|euros?|dollars?|km|kg|miles?|metres?|meters?|copies"
)


def english(pattern: str) -> re.Pattern[str]:
    """The pattern, of whole words whatever their capitals."""
    # By ASCII a word ends where Chinese begins.
    return re.compile(rf"(?<![\w'])(?<!\d[.,])(?:{pattern})(?![\w])", re.IGNORECASE | re.ASCII)


_BARE: Final = re.compile(r"(?P<y>\d{4})(?:-(?P<m>\d\d))?", re.ASCII)


@cache
def _readings() -> tuple[tuple[re.Pattern[str], _Reading], ...]:
    """What is read, and how; made when it is first wanted, for it takes milliseconds."""
    return (
        (
            english(r"(?:the\s+)?day\s+(?:before\s+yesterday|after\s+tomorrow)|yesterday|today|tomorrow"),
            _near_day,
        ),
        (
            english(
                r"(?P<vague>(?:half|about|around|roughly|approximately|almost|nearly|over|than|least|some|or|to|and"
                r"|every|once|days?|weeks?|months?|years?)\s+|\d+(?:\s*[-–—~]\s*|[/.,]))?"
                rf"{_COUNT}\s+{_UNIT}\s+ago"
            ),
            _ago,
        ),
        (
            english(rf"(?<!once )(?<!twice )(?<!times )in\s+{_COUNT}\s+{_UNIT}(?!\s+ago|')"),
            _ahead,
        ),
        (english(r"(?P<which>last|this|next)\s+(?P<unit>week|month|year)(?!\s+of\b|-)"), _period_beside),
        (
            english(
                r"(?P<which>last|this|next)\s+(?P<day>(?:mon|tues|wednes|thurs|fri|satur|sun)day|mon|tues?|wed"
                r"|thu(?:rs?)?|fri)(?!\s+(?:of|in)\b)"
            ),
            _weekday_beside,
        ),
        (re.compile(rf"(?<![\w/.-]){_ISO_DAY}(?![\w/-]|\.\d|[ T]\d)", re.ASCII), _calendar),
        (
            re.compile(
                rf"(?<![\w/.-]){_ISO_DAY}[ T](?P<hour>\d\d):(?P<minute>\d\d)"
                r"(?::(?P<second>\d\d)(?:[.,]\d+)?)?"
                r"(?P<offset>Z|[+-]\d\d:?\d\d)?(?![\w:])",
                re.ASCII | re.IGNORECASE,
            ),
            _moment,
        ),
        (
            english(rf"{_VAGUE}{_DAY}\s+(?:of\s+)?{MONTH_NAME}\.?(?:,?\s+(?:{YEAR}|{BESIDE_YEAR}))?"),
            _calendar,
        ),
        (
            english(
                rf"{_VAGUE}{MONTH_NAME}\.?\s+(?:the\s+)?{_DAY}(?![\d:])(?:,?\s+(?:{YEAR}(?!:)|{BESIDE_YEAR}))?"
            ),
            _calendar,
        ),
        (english(rf"{MONTH_NAME}\.?,?\s+(?:(?:of\s+)?{YEAR}|{BESIDE_YEAR})"), _calendar),
        (
            english(rf"(?:in|since|during|until|till)\s+{YEAR}(?!\s*[-–—/%]|[.,]\d|\s+(?:{_THINGS})\b)"),
            _calendar,
        ),
        # What could be the day and the month either way, or a fraction.
        (re.compile(r"(?<![\w])\d{1,2}[/.]\d{1,2}(?:[/.]\d{2,4})?(?![\w])", re.ASCII), _nothing),
        (re.compile(r"大?前天|昨天|今天|明天|大?后天(?!性)"), _near_day),
        (
            re.compile(
                r"(?<![\d年])(?P<year>前年|去年|今年|明年|后年)的?"
                r"(?:\s*" + rf"{CHINESE_MONTH}\s*月(?:份|\s*{_CHINESE_DATE}\s*[日号])?)?"
            ),
            _near_year,
        ),
        (
            re.compile(
                r"(?P<vague>大约|大概|约|近|差不多|超过|至少|[几数第半年月零]|\d(?:\s*[-~—–到至]\s*|[.,]))?"
                + _CHINESE_COUNT
                + r"\s*"
                # 三年前端 is three years of something.
                rf"(?P<unit>天|{_CHINESE_WEEK}|个月|年)(?:以?前)(?![端台线锋排卫置提])"
            ),
            _ago,
        ),
        (
            re.compile(
                rf"(?<![上下])(?P<which>上{{1,3}}|下{{1,3}}|[这本])(?:(?P<unit>{_CHINESE_WEEK}|个?月)"
                rf"(?:{_CHINESE_DAY}|(?<=月)\s*(?P<d>\d{{1,2}})\s*[日号]|(?![一二三四五六日天末亮])))"
            ),
            _chinese_beside,
        ),
        (re.compile(rf"{_CHINESE_YEAR}\s*{CHINESE_MONTH}\s*月\s*{_CHINESE_DATE}\s*[日号]"), _calendar),
        (re.compile(rf"{_CHINESE_YEAR}\s*{CHINESE_MONTH}\s*月(?!\s*\d)份?"), _calendar),
        (re.compile(rf"{_CHINESE_YEAR}(?!\s*\d|以?[前后]|[内间])"), _calendar),
        (
            re.compile(
                rf"(?<![\d年一二三四五六七八九十])(?<!年 ){CHINESE_MONTH}\s*月\s*{_CHINESE_DATE}\s*[日号]"
            ),
            _calendar,
        ),
    )
