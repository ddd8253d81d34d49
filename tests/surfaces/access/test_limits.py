"""How often one may ask."""

from __future__ import annotations

import pytest

from stratalog.surfaces.access.limits import Buckets


def test_a_bucket_is_refilled_as_time_goes_by() -> None:
    """A burst at once, then one whenever its part of a minute has passed, never more than the burst."""
    now = [0.0]
    buckets = Buckets(30, 2, clock=lambda: now[0])
    assert [buckets.take("a") for _ in range(3)] == [0, 0, 2]
    now[0] = 1.5
    assert buckets.take("a") == pytest.approx(0.5)
    now[0] = 2.0
    assert buckets.take("a") == 0
    now[0] = 1000.0
    assert [bool(buckets.take("a")) for _ in range(3)] == [False, False, True]
    assert buckets.take("b") == 0
