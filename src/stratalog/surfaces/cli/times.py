"""Times as a person writes and reads them: in the local zone, with its offset."""

from __future__ import annotations

import re
import time
from datetime import datetime, timedelta

from stratalog.errors import InvalidInput

_AGO = re.compile(r"([0-9]{1,6})([smhdw])")
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")


def local(ts: int) -> datetime | None:
    """The moment `ts` (milliseconds UTC) in the local zone; None for an unknown one or one past year 9999."""
    if ts <= 0:
        return None
    try:
        return datetime.fromtimestamp(ts / 1000).astimezone()
    except (OverflowError, OSError, ValueError):
        return None


def offset(moment: datetime) -> str:
    """Its zone's offset, such as `+08:00`."""
    text = moment.strftime("%z")
    return f"{text[:3]}:{text[3:5]}"


def minute(ts: int) -> str:
    """Date, time to the minute and offset."""
    moment = local(ts)
    return f"{moment:%Y-%m-%d %H:%M} {offset(moment)}" if moment else "-"


def parse_time(text: str, *, end: bool = False) -> int:
    """Milliseconds UTC of `2026-09-14`, `2026-09-14T10:30`, the same with an offset, or `7d` ago.

    What names no offset is in the local zone. A day alone is its beginning or, with `end`, its end.
    Raises `InvalidInput`.
    """
    ago = _AGO.fullmatch(text)
    if ago:
        return int((time.time() - int(ago[1]) * _UNITS[ago[2]]) * 1000)
    try:
        moment = datetime.fromisoformat(text)
        if _DAY.fullmatch(text) and end:
            moment += timedelta(days=1)
        return int(moment.astimezone().timestamp() * 1000)
    except (ValueError, OverflowError, OSError) as error:
        raise InvalidInput(
            "this is not a time", time=ascii(text), hint="write 2026-09-14, 2026-09-14T10:30, or 7d for ago"
        ) from error
