"""The policy of asking again: bounded in number and in time whatever happens, and never hastier than
asked."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import suppress
from math import inf, nan

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models.asking import Time
from stratalog.errors import ModelError
from stratalog.models.contract import Completed, Event, Retrying, TextDelta
from stratalog.models.endpoint import Endpoint
from stratalog.models.faults import Fault, Faulted
from stratalog.models.retry import Policy, Retry, asked_again, asked_pause

AT = Endpoint(base_url="http://localhost/v1", api_key="sk-secret-secret")
DONE = Completed(message={}, stop="end", model="m")
waits = st.none() | st.floats(allow_nan=True, allow_infinity=True)
faults = st.builds(
    Fault,
    kind=st.sampled_from(["passing", "passing", "passing", "empty", "unusable", "too_long", "rejected"]),
    reason=st.just("r"),
    wait=waits,
)
seconds = st.floats(0, 1e6)
policies = st.builds(
    Policy,
    attempts=st.integers(0, 8),
    empties=st.integers(0, 4),
    first=seconds,
    longest=seconds,
    total=seconds,
)


@settings(deadline=None)
@given(policies, st.lists(st.tuples(faults, seconds), max_size=12), st.data())
def test_the_total_is_bounded(
    policy: Policy, happened: list[tuple[Fault, float]], data: st.DataObject
) -> None:
    """Whatever faults come, whatever they ask for and however long each attempt takes: no more attempts than
    allowed, and none begins after the total."""
    time = Time()
    began: list[float] = []
    left = iter(happened)

    async def once() -> AsyncGenerator[Event, None]:
        began.append(time.now)
        fault, took = next(left, (None, 0.0))
        time.now += took
        yield TextDelta("some")
        if fault is not None:
            raise Faulted(fault)
        yield DONE

    def chance() -> float:
        return data.draw(st.floats(0, 1, exclude_max=True))

    async def run() -> None:
        retry = Retry(policy=policy, sleep=time.sleep, clock=lambda: time.now, chance=chance)
        async for event in retry.run(once, model="m", endpoint=AT):
            if isinstance(event, Retrying):
                assert 0 <= event.pause <= policy.total

    with suppress(ModelError):
        asyncio.run(run())
    assert len(began) <= max(1, policy.attempts)
    assert all(start <= policy.total for start in began)
    assert sum(time.slept) <= policy.total


@settings(deadline=None)
@given(st.integers(1, 7), st.floats(0, 1, exclude_max=True))
def test_pauses_double(attempt: int, chance: float) -> None:
    """Each pause lies between half of the doubled one and all of it, and is never more than the longest."""
    policy = Policy(attempts=9, first=1, longest=10, total=1e9)
    pause = policy.pause(Fault(kind="passing", reason=""), attempt, 0, chance)
    doubled = min(10, 2 ** (attempt - 1))
    assert pause is not None
    assert doubled / 2 <= pause <= doubled


@settings(deadline=None)
@given(st.floats(0, 200), st.floats(0, 1, exclude_max=True))
def test_never_hastier_than_asked(asked: float, chance: float) -> None:
    """What the provider asks to wait is waited, or given up at once when it is more than is left."""
    pause = Policy(total=100).pause(Fault(kind="passing", reason="", wait=asked), 1, 0, chance)
    assert pause is None if asked > 100 else pause is not None and pause >= asked


@pytest.mark.parametrize("kind", ["unusable", "too_long", "rejected"])
def test_what_would_come_again_is_not_asked_again(kind: str) -> None:
    """Only what may pass is asked again."""
    assert Policy().pause(Fault(kind=kind, reason=""), 1, 0, 0.5) is None  # type: ignore[arg-type] # a literal


def test_a_long_row_of_attempts_does_not_overflow() -> None:
    """The doubling stops at the longest pause, however many attempts are allowed."""
    policy = Policy(attempts=10**6, total=inf)
    assert policy.pause(Fault(kind="passing", reason=""), 10**5, 0, 0.999) <= 30  # type: ignore[operator] # no None


@pytest.mark.parametrize(
    ("headers", "pause"),
    [
        ({}, None),
        ({"retry-after": "7"}, 7),
        ({"retry-after": "0.5"}, 0.5),
        ({"retry-after": "-3"}, 0),
        ({"retry-after-ms": "1500", "retry-after": "9"}, 1.5),
        ({"retry-after-ms": "soon", "retry-after": "9"}, 9),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "Wed, 21 Oct 2026 07:28:30 GMT", "date": "Wed, 21 Oct 2026 07:28:00 GMT"}, 30),
        ({"retry-after": "Wed, 21 Oct 2026 07:27:00 GMT", "date": "Wed, 21 Oct 2026 07:28:00 GMT"}, 0),
        ({"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"}, 0),
        ({"retry-after": "Wed, 99 Oct 2026 07:28:30 GMT"}, None),
    ],
)
def test_what_headers_ask(headers: dict[str, str], pause: float | None) -> None:
    """Seconds, milliseconds or a date, which counts from the response's own date; anything else asks
    nothing."""
    assert asked_pause(headers) == pause


def test_what_a_provider_says_about_asking_again() -> None:
    """`x-should-retry` is yes, no or nothing."""
    said = [asked_again(headers) for headers in ({"x-should-retry": "true"}, {"x-should-retry": "false"}, {})]
    assert said == [True, False, None]


def test_nan_is_no_wait() -> None:
    """A wait that is no number asks for nothing."""
    assert Policy().pause(Fault(kind="passing", reason="", wait=nan), 1, 0, 0) == 0.25
