"""Moments as they are told about the world: as much of a date as is known, and in which zone it was meant."""

from __future__ import annotations

import os
import re
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Final
from zoneinfo import ZoneInfo

from stratalog.engine.remembering import Precision, When
from stratalog.errors import InvalidInput
from stratalog.surfaces.cli.times import offset, parse_time

_FORM: Final = re.compile(
    r"(\d{4})(?:-(\d\d)(?:-(\d\d)(?:[T ](\d\d)(?::(\d\d)(?::(\d\d))?)?(Z|[+-]\d\d:?[0-5]\d)?)?)?)?", re.ASCII
)
_PRECISIONS: Final[tuple[Precision, ...]] = ("year", "month", "day", "hour", "minute", "second")
_SHOWN: Final[dict[Precision, int]] = dict(zip(_PRECISIONS, (4, 7, 10, 13, 16, 19), strict=True))
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_LOCALTIME: Final = Path("/etc/localtime")


def parse_when(text: str) -> When:
    """The moment that is written `2026`, `2026-09`, `2026-09-14`, `2026-09-14T10`, to the minute or to the
    second, these with an offset or in the local zone. It keeps how much of it was said. Raises
    `InvalidInput`."""
    found = _FORM.fullmatch(text)
    try:
        if found is None:
            raise ValueError(text)
        said = [int(each) for each in found.groups()[:6] if each is not None]
        year, month, day, hour, minute, second = (*said, *(0, 1, 1, 0, 0, 0)[len(said) :])
        naive = datetime(year, month, day, hour, minute, second)  # its zone comes next
        moment = naive.replace(tzinfo=_zone(found[7])) if found[7] else naive.astimezone()
        at = (moment - _EPOCH) // timedelta(milliseconds=1)
        return When(at, _PRECISIONS[len(said) - 1], _zone_name(moment))
    except (ValueError, OverflowError, OSError) as error:
        raise InvalidInput(
            "this is not a date", date=ascii(text), hint="write 2026, 2026-09, 2026-09-14 or 2026-09-14T10:30"
        ) from error


def parse_moment(text: str) -> int:
    """Milliseconds UTC of the beginning of what `parse_when` reads, or of `7d` ago. Raises `InvalidInput`."""
    return parse_when(text).at if _FORM.fullmatch(text) else parse_time(text)


def told(when: When) -> str:
    """As much of the moment as was said, in the zone in which it was meant: what `parse_when` reads."""
    try:
        moment = (_EPOCH + timedelta(milliseconds=when.at)).astimezone(_zone_of(when.zone))
    except (OverflowError, OSError, ValueError):
        return f"{when.at} ms"
    shown = moment.replace(tzinfo=None).isoformat()[: _SHOWN[when.precision]]
    return shown + (offset(moment) if len(shown) > _SHOWN["day"] else "")


def _zone(text: str) -> timezone:
    if text == "Z":
        return UTC
    minutes = int(text[1:3]) * 60 + int(text[-2:])
    return timezone(timedelta(minutes=minutes if text[0] == "+" else -minutes))


def _zone_name(moment: datetime) -> str:
    """The IANA name of a zone that has the moment's offset then: the local one, UTC, or one of whole hours.
    Where there is none, UTC: the moment is right all the same."""
    wanted = moment.utcoffset() or timedelta()
    hours, rest = divmod(wanted, timedelta(hours=1))
    fixed = f"Etc/GMT{-hours:+d}" if hours and not rest else ""
    for name in (_local_name(), "UTC", fixed):
        zone = _zone_of(name) if name else None
        if zone is not None and moment.astimezone(zone).utcoffset() == wanted:
            return name
    return "UTC"


def _local_name() -> str:
    """What the local zone is called; "" where nothing says so."""
    named = os.environ.get("TZ", "").removeprefix(":")
    if named:
        return named
    try:
        return str(_LOCALTIME.resolve()).partition("/zoneinfo/")[2]
    except OSError:
        return ""


def _zone_of(name: str) -> ZoneInfo | None:
    """The zone of that name; None, which is the local one, where this machine does not know it."""
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        return None
