"""engine/asking.py: the times in a query."""

from __future__ import annotations

from stratalog.engine.asking import times_in

NOVEMBER_14 = 1_700_000_000_000  # 2023, 22:13 UTC


def test_a_query_gives_the_spans_it_names() -> None:
    """In milliseconds UTC, by the calendar of the zone: in Shanghai it is the day after already."""
    assert times_in("What did we talk about last May?", "UTC", NOVEMBER_14) == [
        (1682899200000, 1685577600000)
    ]
    assert times_in("昨天", "Asia/Shanghai", NOVEMBER_14) == [(1699891200000, 1699977600000)]


def test_a_zone_that_does_not_exist_gives_none() -> None:
    """A search is none the worse for it."""
    assert times_in("last May", "Mars/Olympus", NOVEMBER_14) == []


def test_without_a_moment_the_clock_counts() -> None:
    """`today` is a span of a day around now."""
    ((begins, ends),) = times_in("today", "UTC")
    assert ends - begins == 86_400_000
