"""What holds work in the background back: a budget for each day, pauses after failures, an end to passes that
get nowhere. Decisions alone, over values; days are those of UTC.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

import msgspec

MOST_ATTEMPTS: Final = 5
FIRST_PAUSE_S: Final = 30.0
LONGEST_PAUSE_S: Final = 3_600.0
DAY_MS: Final = 86_400_000
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class Limits(msgspec.Struct, frozen=True):
    """The most calls of models, and the most tokens that they take in and give out, in one day."""

    calls_per_day: int
    tokens_per_day: int


class Spent(msgspec.Struct, frozen=True):
    """What a day has cost so far."""

    calls: int = 0
    tokens: int = 0


def verdict(spent: Spent, limits: Limits, *, wanted_tokens: int) -> str:
    """Why a call of about `wanted_tokens` may not be made after what the day has cost, in words that name the
    setting; "" when it may."""
    if spent.calls >= limits.calls_per_day:
        return (
            f"{spent.calls:,} calls are made, and `background.calls_per_day` allows {limits.calls_per_day:,}"
        )
    if spent.tokens + wanted_tokens > limits.tokens_per_day:
        return (
            f"{spent.tokens:,} tokens are spent, one more call takes about {wanted_tokens:,},"
            f" and `background.tokens_per_day` allows {limits.tokens_per_day:,}"
        )
    return ""


def backoff(attempts: int) -> float:
    """Seconds to wait after so many failed attempts in a row: 30 after the first, doubling up to an hour."""
    doublings = min(max(0, attempts - 1), 60)
    return min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2.0**doublings)


def may_retry(attempts: int) -> bool:
    """Whether work that failed in so many attempts is attempted once more by itself."""
    return attempts < MOST_ATTEMPTS


def stalled(before: str, after: str, more: bool) -> bool:
    """Whether a pass that began at the watermark `before` and came to `after` got nowhere: it says that there
    is `more` to do, and yet its watermark is where it was."""
    return more and before == after


def day_of(ms: int) -> str:
    """The day of a moment, such as `2026-09-14`. Raises `OverflowError` past the year 9999."""
    return (_EPOCH + timedelta(milliseconds=ms)).date().isoformat()


def next_day(ms: int) -> int:
    """When the day of a moment is over, in milliseconds."""
    return (ms // DAY_MS + 1) * DAY_MS
