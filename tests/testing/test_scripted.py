"""The scripted model: what a test wrote down is what comes, in the JSON of each shape, and what was asked
is kept."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from models.asking import SHAPES, calls_of, completed, events_of, request, words
from stratalog.errors import ModelInputTooLong, ModelUnavailable
from stratalog.models.contract import Model, ReasoningDelta, Request, TextDelta
from stratalog.testing.model_server import refusal_of
from stratalog.testing.scripted import Call, Gate, Reply, ScriptedModel, rough_tokens
from stratalog.types import Usage

shapes = pytest.mark.parametrize("shape", SHAPES)


def ask(model: Model, asked: Request) -> Any:
    return asyncio.run(events_of(model, asked))


@shapes
def test_it_says_its_script(shape: Any) -> None:
    """Words, replies and exceptions come in order; the requests are kept."""
    model = ScriptedModel(
        ["One.", ModelUnavailable("down"), Reply(text="Two.", usage=Usage(input=5))], shape=shape
    )
    assert words(ask(model, request(shape, "a"))) == "One."
    with pytest.raises(ModelUnavailable):
        ask(model, request(shape, "b"))
    reply = completed(ask(model, request(shape, "c")))
    assert reply.usage == Usage(input=5)
    assert model.requests == [request(shape, text) for text in "abc"]
    assert model.shape == shape


@shapes
def test_a_function_as_script(shape: Any) -> None:
    """It sees the request and returns the step."""
    model = ScriptedModel(lambda asked: asked.model, shape=shape)
    assert words(ask(model, request(shape))) == "test-model"


@shapes
def test_a_reply_that_can_be_sent_back(shape: Any) -> None:
    """Thought, words and calls stand in the message as its provider has them; ids are never the same
    twice."""
    call = Call("add", {"a": 1})
    model = ScriptedModel(lambda asked: Reply(text="Well.", reasoning="Hm.", calls=(call, call)), shape=shape)
    events = ask(model, request(shape))
    assert [type(event) for event in events[:2]] == [ReasoningDelta, ReasoningDelta]
    first, second = completed(events), completed(ask(model, request(shape)))
    ids = [call_id for reply in (first, second) for call_id, _, _ in calls_of(shape, reply)]
    assert len(set(ids)) == 4
    assert first.stop == "tools"


def test_the_end_of_the_script() -> None:
    """A request more than the script has steps is an error of the test, not of a model."""
    with pytest.raises(AssertionError, match="no step"):
        ask(ScriptedModel([]), request("openai_chat"))


@shapes
def test_a_window(shape: Any) -> None:
    """A request over it is refused before it takes a step; the output that it allows counts."""
    model = ScriptedModel(["ok"], shape=shape, window=1200)
    with pytest.raises(ModelInputTooLong):
        ask(model, request(shape, "word " * 1000))
    assert words(ask(model, request(shape))) == "ok"


def test_a_check_sees_every_request() -> None:
    """The rules of an API can be asked in process."""

    def check(asked: Request) -> None:
        assert refusal_of("anthropic", asked.body) == ""

    model = ScriptedModel(lambda asked: "ok", shape="anthropic", check=check)
    ask(model, request("anthropic"))
    with pytest.raises(AssertionError):
        ask(model, request("anthropic", ""))


def test_gates_hold_and_leaving_is_seen() -> None:
    """A reply waits where the test says, without any clock; a stream that is left early is told apart."""

    async def run() -> None:
        early, late = Gate(), Gate()
        model = ScriptedModel([Reply(text="abc", gate=early, late_gate=late), "done"])
        stream = model.stream(request("openai_chat"))
        first = asyncio.ensure_future(anext(stream))
        await asyncio.to_thread(early.wait_reached)
        assert not first.done()
        await asyncio.to_thread(early.open)
        assert await first == TextDelta("a")
        assert await anext(stream) == TextDelta("b")
        third = asyncio.ensure_future(anext(stream))
        await asyncio.to_thread(late.wait_reached)
        third.cancel()
        with pytest.raises(asyncio.CancelledError):
            await third
        assert model.abandoned == [0]
        assert words(await events_of(model, request("openai_chat"))) == "done"
        assert model.abandoned == [0]

    asyncio.run(run())


def test_media_cost_a_flat_number() -> None:
    """An image counts the same whatever its size (S86)."""
    small, large = ({"url": "data:image/png;base64," + "A" * size} for size in (10, 10**6))
    assert rough_tokens(small) == rough_tokens(large)
    assert rough_tokens({"a": "x" * 399}) == 100
    assert rough_tokens({"a": ["x" * 4, {"b": "y" * 4}, 5, None], "cc": True}) == 3
    assert rough_tokens([{"type": "base64", "data": "A" * 9999}, {"file_data": "A" * 9999}]) == 2000


def test_the_latest_requests_alone() -> None:
    """A long run keeps so many, and the replies are numbered on."""
    model = ScriptedModel(lambda asked: "ok", keep=2)
    replies = [completed(ask(model, request("openai_chat", text))) for text in "abcd"]
    assert model.requests == [request("openai_chat", text) for text in "cd"]
    assert [reply.response_id for reply in replies] == [f"scripted-{number}" for number in range(4)]
