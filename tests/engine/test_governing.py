"""engine/governing.py: calls of models within the tenant's budget, at a server over real HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from models.asking import SHAPES, ask, completed, events_of, model_at, request
from stratalog.engine.governing import Governed, governed
from stratalog.errors import ModelRejected, SpendLimit
from stratalog.memory.governor import DAY_MS, Limits, Spent, day_of
from stratalog.memory.jobs import FILE, Jobs
from stratalog.models.configured import Configured, model_from
from stratalog.models.contract import Model, Retrying
from stratalog.models.endpoint import encoded
from stratalog.testing.model_server import Drop, Hang, ModelServer, Raw, Refuse
from stratalog.testing.scripted import Reply
from stratalog.tokens.rough import count_text
from stratalog.types import Usage

MUCH = Limits(calls_per_day=1_000, tokens_per_day=10**9)
MOMENT = 1_800_000_000_000
DAY = day_of(MOMENT)
SAID = Reply(text="one two three", pieces=3, usage=Usage(input=70, output=5))
shapes = pytest.mark.parametrize("shape", SHAPES)


@pytest.fixture
def jobs(tmp_path: Path) -> Iterator[Jobs]:
    made = Jobs(tmp_path / FILE)
    yield made
    made.close()


def within(model: Model, jobs: Jobs, limits: Limits = MUCH, now: int = MOMENT) -> Any:
    return Governed(model, jobs, limits, tenant="acme", clock=lambda: now)


def estimate(shape: str) -> int:
    """What the body of a request comes to before it is made."""
    return count_text(encoded(request(shape).body).decode())


@shapes
def test_a_call_costs_what_the_provider_reports(shape: str, jobs: Jobs) -> None:
    """The reply is the same as without; the day has one call, and its tokens in and out."""
    with ModelServer([SAID, SAID]) as server:
        model = model_at(server, shape)
        plain = ask(model, request(shape))
        assert within(model, jobs).shape == shape
        events = ask(within(model, jobs), request(shape))
        assert server.requests[0].raw == server.requests[1].raw
    assert events[:-1] == plain[:-1]
    assert completed(events).usage == SAID.usage
    assert jobs.spent(DAY) == Spent(1, 75)
    assert jobs.spent(day_of(MOMENT + DAY_MS)) == Spent()


def test_without_a_report_it_is_counted_roughly(jobs: Jobs) -> None:
    """A server that tells no usage: the body and what was said."""
    chunk = {"id": "r", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    said = {"index": 0, "delta": {"role": "assistant", "content": "one two three"}, "finish_reason": None}
    end = {"index": 0, "delta": {}, "finish_reason": "stop"}
    raw = Raw(({**chunk, "choices": [said]}, {**chunk, "choices": [end]}, "[DONE]"))
    with ModelServer([raw]) as server:
        events = ask(within(model_at(server, "openai_chat"), jobs), request("openai_chat"))
    assert completed(events).usage is None
    assert jobs.spent(DAY) == Spent(1, estimate("openai_chat") + count_text("one two three"))


@shapes
def test_past_the_budget_no_call_is_made(shape: str, jobs: Jobs) -> None:
    """The error names the tenant, the day, what was spent and the setting; the server hears nothing; the next
    day it goes on."""
    limits = Limits(calls_per_day=1, tokens_per_day=10**9)
    with ModelServer([SAID, SAID]) as server:
        model = model_at(server, shape)
        ask(within(model, jobs, limits), request(shape))
        with pytest.raises(SpendLimit) as caught:
            ask(within(model, jobs, limits), request(shape))
        assert len(server.requests) == 1
        ask(within(model, jobs, limits, MOMENT + DAY_MS), request(shape))
    for words in ("acme", DAY, "1 calls", "background.calls_per_day"):
        assert words in str(caught.value)
    assert jobs.spent(DAY) == Spent(1, 75)


def test_a_call_that_is_larger_than_what_is_left_is_not_made(jobs: Jobs) -> None:
    """It is the estimate of its body that counts, before anything is sent."""
    limits = Limits(calls_per_day=9, tokens_per_day=estimate("openai_chat") - 1)
    with ModelServer([]) as server, pytest.raises(SpendLimit, match="tokens_per_day"):
        ask(within(model_at(server, "openai_chat"), jobs, limits), request("openai_chat"))
    assert jobs.spent(DAY) == Spent()


def test_a_call_that_is_made_again_counts_again(jobs: Jobs) -> None:
    """Each attempt after a passing fault is a call; one that was cut has its tokens counted too."""
    with ModelServer([Refuse(503), SAID, Drop(after=3), SAID]) as server:
        model = within(model_at(server, "openai_chat"), jobs)
        events = ask(model, request("openai_chat"))
        assert any(isinstance(event, Retrying) for event in events)
        assert jobs.spent(DAY) == Spent(2, 75)
        ask(model, request("openai_chat"))
        assert len(server.requests) == 4
    spent = jobs.spent(DAY)
    assert spent.calls == 4
    assert 150 + estimate("openai_chat") < spent.tokens < 150 + estimate("openai_chat") + 10


def test_a_call_is_not_made_again_past_the_budget(jobs: Jobs) -> None:
    """A fault that would be tried again ends there when the budget has no call left."""
    limits = Limits(calls_per_day=2, tokens_per_day=10**9)
    with ModelServer([Refuse(503), Refuse(503), SAID]) as server:
        with pytest.raises(SpendLimit):
            ask(within(model_at(server, "openai_chat"), jobs, limits), request("openai_chat"))
        assert len(server.requests) == 2
    assert jobs.spent(DAY).calls == 2


def test_a_call_that_fails_has_been_counted(jobs: Jobs) -> None:
    """What a provider refuses stays at its estimate."""
    with ModelServer([Refuse(400)]) as server, pytest.raises(ModelRejected):
        ask(within(model_at(server, "openai_chat"), jobs), request("openai_chat"))
    assert jobs.spent(DAY) == Spent(1, estimate("openai_chat"))


def test_a_call_that_is_left_has_been_counted(jobs: Jobs) -> None:
    """Cancelled in the middle of its reply it ends on the wire, and what was said until then is counted."""

    async def run() -> None:
        model = within(model_at(server, "openai_chat"), jobs)
        began = asyncio.Event()

        async def read() -> None:
            async for _ in model.stream(request("openai_chat")):
                began.set()

        task = asyncio.create_task(read())
        await asyncio.wait_for(began.wait(), 10)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.to_thread(server.wait, lambda: server.requests[0].disconnected)
        await model.close()

    with ModelServer([Hang(Reply(text="one two three", pieces=3), after=1)]) as server:
        asyncio.run(run())
    spent = jobs.spent(DAY)
    assert spent.calls == 1
    assert spent.tokens > estimate("openai_chat")


def test_calls_at_once_are_no_more_than_allowed(jobs: Jobs) -> None:
    """Of twenty in one event loop, as many are made as the budget has calls."""
    limits = Limits(calls_per_day=7, tokens_per_day=10**9)

    async def run() -> list[Any]:
        model = within(model_at(server, "openai_chat"), jobs, limits)
        calls = [events_of(model, request("openai_chat")) for _ in range(20)]
        try:
            return await asyncio.gather(*calls, return_exceptions=True)
        finally:
            await model.close()

    with ModelServer(lambda received: SAID) as server:
        ended = asyncio.run(run())
        assert len(server.requests) == 7
    assert sum(isinstance(each, SpendLimit) for each in ended) == 13
    assert jobs.spent(DAY) == Spent(7, 7 * 75)


def test_a_configured_model_stays_what_it_is(jobs: Jobs) -> None:
    """Its name and how far it reaches stay; what costs nothing is not governed."""
    free = model_from("extractive")
    assert governed(free, jobs, MUCH, tenant="acme") is free
    with ModelServer([SAID]) as server:
        plain = Configured(model_at(server, "openai_chat"), "test-model")
        made = governed(plain, jobs, MUCH, lambda: MOMENT, tenant="acme")
        assert made._replace(model=plain.model) == plain
        assert isinstance(made.model, Governed)
        assert made.model.sends_reasoning is False
        assert governed(made, jobs, MUCH, tenant="acme") is made

        async def run() -> None:
            await events_of(made.model, request("openai_chat"))
            await made.close()

        asyncio.run(run())
    assert jobs.spent(DAY) == Spent(1, 75)
