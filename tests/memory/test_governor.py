"""memory/governor.py: budgets of a day, pauses, attempts, days and passes that get nowhere."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stratalog.memory.governor import (
    DAY_MS,
    Limits,
    Spent,
    backoff,
    day_of,
    may_retry,
    next_day,
    stalled,
    verdict,
)

LIMITS = Limits(calls_per_day=3, tokens_per_day=1_000)
_moments = st.integers(0, 253_402_300_799_999)  # up to the end of 9999


@pytest.mark.parametrize(
    ("spent", "wanted", "setting"),
    [
        (Spent(), 1_000, ""),
        (Spent(2, 999), 1, ""),
        (Spent(3, 0), 0, "calls_per_day"),
        (Spent(0, 0), 1_001, "tokens_per_day"),
        (Spent(2, 1_000), 1, "tokens_per_day"),
        (Spent(9, 9_999), 1, "calls_per_day"),
    ],
)
def test_a_call_is_allowed_up_to_the_limits(spent: Spent, wanted: int, setting: str) -> None:
    """The last call and the last token may be used; past them the reason names the setting."""
    reason = verdict(spent, LIMITS, wanted_tokens=wanted)
    assert bool(reason) == bool(setting)
    assert setting in reason


def test_the_reason_has_the_figures() -> None:
    """What is spent, what is wanted and what is allowed."""
    assert verdict(Spent(1, 900), LIMITS, wanted_tokens=200) == (
        "900 tokens are spent, one more call takes about 200, and `background.tokens_per_day` allows 1,000"
    )
    assert verdict(Spent(3, 0), LIMITS, wanted_tokens=1) == (
        "3 calls are made, and `background.calls_per_day` allows 3"
    )


def test_pauses_double_up_to_an_hour() -> None:
    """30 s, 60 s, … an hour, however many attempts."""
    assert [backoff(each) for each in (0, 1, 2, 3, 7, 8, 10**9)] == [30, 30, 60, 120, 1_920, 3_600, 3_600]


def test_five_attempts() -> None:
    """The fifth attempt is the last."""
    assert [may_retry(each) for each in (0, 1, 4, 5, 6)] == [True, True, True, False, False]


@pytest.mark.parametrize(
    ("before", "after", "more", "expected"),
    [("a", "a", True, True), ("", "", True, True), ("a", "b", True, False), ("a", "a", False, False)],
)
def test_a_pass_stalls_when_more_is_left_and_nothing_moved(
    before: str, after: str, more: bool, expected: bool
) -> None:
    """Only one that says there is more, and stands where it stood, stalls."""
    assert stalled(before, after, more) is expected


@given(_moments)
def test_a_day_is_that_of_utc_and_ends_at_its_end(ms: int) -> None:
    """The date is UTC's; the next day is the first moment with another date."""
    assert day_of(ms) == datetime.fromtimestamp(ms // 1000, UTC).date().isoformat()
    after = next_day(ms)
    assert 0 < after - ms <= DAY_MS
    assert day_of(after - 1) == day_of(ms)
    if after <= 253_402_300_799_999:
        assert day_of(after) != day_of(ms)
