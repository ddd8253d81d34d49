"""The adapters: the official SDKs over real HTTP, against a server as strict as the providers."""

from __future__ import annotations

import asyncio
import json
import traceback
from typing import Any

import pytest

from models.asking import KEY, SHAPES, answered, ask, calls_of, completed, events_of, model_at, request, words
from stratalog.errors import InvalidInput, ModelRejected, ModelReplyUnusable
from stratalog.models.contract import ReasoningDelta, TextDelta
from stratalog.models.openai import BASE_URL, OpenAIResponses, seals_asked
from stratalog.testing.model_server import DIALECTS, ModelServer, Raw, Received, Strictness
from stratalog.testing.model_server.dialect import Memory
from stratalog.testing.scripted import Call, Reply
from stratalog.types import Usage

shapes = pytest.mark.parametrize("shape", SHAPES)
TEXT = "Grüß Gott, 世界! \u2028\u2029\x85 \U0001f600 end"


@shapes
def test_text(shape: str) -> None:
    """Text comes in pieces that make up the whole, and the last event has the provider's own message."""
    with ModelServer([Reply(text=TEXT, pieces=5)]) as server:
        events = ask(model_at(server, shape), request(shape))
    assert words(events) == TEXT
    assert sum(isinstance(event, TextDelta) for event in events) > 1
    reply = completed(events)
    assert (reply.stop, reply.model, reply.response_id) == ("end", "test-model", "response-0")
    assert TEXT in _texts(reply.message)


def _texts(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    items = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [text for item in items for text in _texts(item)]


@shapes
def test_parallel_calls_go_there_and_back(shape: str) -> None:
    """Two calls in one reply keep their order, ids and arguments, and the message can be sent back as it
    is."""
    calls = (Call("add", {"a": 1, "b": [True, None, "ü"]}), Call("add", {"a": 2}), Call("now"))
    with ModelServer([Reply(text="One moment.", calls=calls), "3"]) as server:
        model, first = model_at(server, shape), request(shape, tools=("add", "now"))
        reply = completed(ask(model, first))
        assert reply.stop == "tools"
        found = calls_of(shape, reply)
        assert [name for _, name, _ in found] == ["add", "add", "now"]
        parsed = [json.loads(args) if isinstance(args, str) else args for _, _, args in found]
        assert parsed == [{"a": 1, "b": [True, None, "ü"]}, {"a": 2}, {}]
        second = answered(shape, first, reply, {call_id: "done" for call_id, _, _ in found})
        assert words(ask(model, second)) == "3"
        assert not server.refusals


@shapes
def test_reasoning_travels_with_its_call(shape: str) -> None:
    """Reasoning is streamed apart from the text and stays in the message with what its provider needs of
    it."""
    more: dict[str, Any] = {}
    if shape == "openai_responses":
        more = {"store": False, "include": ["reasoning.encrypted_content"]}
    if shape == "anthropic":
        more = {"thinking": {"type": "enabled", "budget_tokens": 1024}, "max_tokens": 2000}
    reply = Reply(reasoning="First I add.", text="Well,", calls=(Call("add", {"a": 1}),))
    with ModelServer([reply, "2"]) as server:
        model, first = model_at(server, shape), request(shape, tools=("add",), **more)
        events = ask(model, first)
        assert "".join(event.text for event in events if isinstance(event, ReasoningDelta)) == "First I add."
        assert words(events) == "Well,"
        said = completed(events)
        if shape == "openai_chat":
            # OpenAI's own API does not take it back.
            assert said.message.pop("reasoning_content") == "First I add."
        second = answered(shape, first, said, {calls_of(shape, said)[0][0]: "1"})
        assert words(ask(model, second)) == "2"


@shapes
def test_a_thought_in_tags(shape: str) -> None:
    """Of chat completions it is reasoning, streamed apart; of the others, which have a place of their own for
    it, text. What might have begun a tag comes at the end."""
    told = "<think>First I add.</think>\n\n3"
    with ModelServer([Reply(text=told, pieces=20), Reply(text="<thi", pieces=2)]) as server:
        model = model_at(server, shape)
        events = ask(model, request(shape))
        thought = "".join(event.text for event in events if isinstance(event, ReasoningDelta))
        chat = shape == "openai_chat"
        assert (thought, words(events)) == (("First I add.", "3") if chat else ("", told))
        if chat:
            message = {"role": "assistant", "content": "3", "reasoning_content": "First I add."}
            assert completed(events).message == message
        assert words(ask(model, request(shape))) == "<thi"


def test_only_a_thought_in_tags_is_an_empty_reply() -> None:
    """S28: it is asked for once more, and then is an error."""
    with ModelServer(lambda received: "<think>First I add.") as server:
        with pytest.raises(ModelReplyUnusable, match="it is empty"):
            ask(model_at(server, "openai_chat"), request("openai_chat"))
        assert len(server.requests) == 2


def test_seals_are_asked_for() -> None:
    """Reasoning is sent back with its call to a server that keeps nothing, without a word in the request; a
    server whose model does not reason is not asked."""
    pytest.importorskip("openai", reason="the SDK `openai` is not installed")
    reply = Reply(reasoning="First I add.", calls=(Call("add", {"a": 1}),))
    first = request("openai_responses", tools=("add",), store=False)
    with ModelServer([reply, "2"]) as server:
        model = OpenAIResponses(api_key="k", base_url=server.openai_url, seals=True)
        said = completed(ask(model, first))
        second = answered("openai_responses", first, said, {calls_of("openai_responses", said)[0][0]: "1"})
        assert words(ask(model, second)) == "2"
        assert server.requests[1].body["input"][1]["encrypted_content"]
    with ModelServer(lambda received: "ok", strict=Strictness(no_reasoning=True)) as server:
        assert words(ask(OpenAIResponses(api_key="k", base_url=server.openai_url), first)) == "ok"
        with pytest.raises(ModelRejected, match="Encrypted content is not supported"):
            ask(OpenAIResponses(api_key="k", base_url=server.openai_url, seals=True), first)


def test_what_a_request_includes_is_its_own() -> None:
    """A request that says what is to be included is not added to."""
    pytest.importorskip("openai", reason="the SDK `openai` is not installed")
    wanted = ["message.output_text.logprobs"]
    with ModelServer(["ok"]) as server:
        model = OpenAIResponses(api_key="k", base_url=server.openai_url, seals=True)
        ask(model, request("openai_responses", include=wanted))
    assert server.requests[0].body["include"] == wanted


@pytest.mark.parametrize(
    ("base_url", "model", "asked"),
    [
        (BASE_URL, "gpt-5", True),
        (BASE_URL + "/", "gpt-5.2-codex", True),
        (BASE_URL, "o4-mini-2025-04-16", True),
        (BASE_URL, "ft:o4-mini:acme", True),
        (BASE_URL, "gpt-5-chat-latest", False),
        (BASE_URL, "gpt-4o", False),
        (BASE_URL, "omni-moderation", False),
        ("https://openrouter.ai/api/v1", "gpt-5", False),
        ("https://api.openai.com.example.org/v1", "gpt-5", False),
        ("http://127.0.0.1:8080/v1", "o3", False),
    ],
)
def test_of_whom_seals_are_asked(base_url: str, model: str, asked: bool) -> None:
    """Of OpenAI's own reasoning models at its own address."""
    assert seals_asked(base_url, model) is asked


@shapes
def test_arguments_that_are_not_json_stay(shape: str) -> None:
    """What the model wrote as arguments is kept as it wrote it."""
    with ModelServer([Reply(calls=(Call("add", '{"a": 1, "b"'),))]) as server:
        reply = completed(ask(model_at(server, shape), request(shape, tools=("add",))))
    assert calls_of(shape, reply)[0][2] == '{"a": 1, "b"'
    assert reply.stop == "tools"


@shapes
def test_usage(shape: str) -> None:
    """The counts that the provider reports, with its cache within the input."""
    spent = Usage(input=1000, output=50, cache_read=700, cache_write=200, reasoning=20)
    with ModelServer([Reply(text="a", usage=spent)]) as server:
        assert completed(ask(model_at(server, shape), request(shape))).usage == spent


@shapes
@pytest.mark.parametrize(("stop", "seen"), [("length", "length"), ("end", "end"), ("other", "other")])
def test_stops(shape: str, stop: Any, seen: str) -> None:
    """Why the reply ended, in our words."""
    with ModelServer([Reply(text="So far", stop=stop)]) as server:
        reply = completed(ask(model_at(server, shape), request(shape)))
    assert reply.stop == ("refusal" if shape == "openai_responses" and stop == "other" else seen)


@shapes
def test_refusal(shape: str) -> None:
    """A refusal in words is a reply whose stop says so."""
    with ModelServer([Reply(refusal="I will not.")]) as server:
        events = ask(model_at(server, shape), request(shape))
    assert words(events) == "I will not."
    assert completed(events).stop == "refusal"


@shapes
def test_the_body_goes_out_as_it_is(shape: str) -> None:
    """The same body is the same bytes, in its own order; a field that the SDK does not know goes out too."""
    asked = request(shape, "ü", zeta=1, alpha={"thinking": False})
    with ModelServer(lambda received: "ok", strict=Strictness(unknown_fields=True)) as server:
        model = model_at(server, shape)
        ask(model, asked)
        ask(model, asked)
    first, second = server.requests
    assert first.raw == second.raw
    assert json.dumps(asked.body, ensure_ascii=False, separators=(",", ":"))[1:-1].encode() in first.raw
    assert (first.body["stream"], first.body["model"]) == (True, "test-model")


@shapes
def test_lone_surrogates(shape: str) -> None:
    """A lone surrogate, which no UTF-8 can hold, is sent as U+FFFD and stops nothing."""
    with ModelServer(["ok"]) as server:
        assert words(ask(model_at(server, shape), request(shape, "a\ud800b \U0001f600"))) == "ok"
    assert "a\ufffdb \U0001f600".encode() in server.requests[0].raw


@shapes
def test_a_body_that_is_no_json(shape: str) -> None:
    """It is refused before anything is sent."""
    with ModelServer([]) as server, pytest.raises(InvalidInput):
        ask(model_at(server, shape), request(shape, metadata={"at": object()}))
    assert not server.requests


@shapes
def test_one_model_in_two_event_loops(shape: str) -> None:
    """A model may be used from one event loop after another, and in both its connections are its own."""
    with ModelServer(lambda received: "ok") as server:
        model = model_at(server, shape)
        for _ in range(3):
            assert words(asyncio.run(events_of(model, request(shape)))) == "ok"


@shapes
def test_requests_at_once(shape: str) -> None:
    """Requests of one model run beside one another and do not mix."""

    def said(received: Received) -> Reply:
        asked = _texts(received.body.get("messages") or received.body["input"])
        return Reply(text=f"re: {max(asked, key=len)}", pieces=7)

    async def run() -> list[str]:
        many = [events_of(model, request(shape, f"question number {number}")) for number in range(20)]
        said = [words(events) for events in await asyncio.gather(*many)]
        await model.close()
        return said

    with ModelServer(said) as server:
        model = model_at(server, shape)
        assert asyncio.run(run()) == [f"re: question number {number}" for number in range(20)]


@shapes
def test_the_key_goes_out_and_shows_nowhere(shape: str) -> None:
    """The key reaches the provider, and no `repr` or error shows it, even where the provider repeats it."""
    wrong = "sk-wrong-9876543210fedcba"
    with ModelServer(["ok"], api_key=KEY) as server:
        assert words(ask(model_at(server, shape), request(shape))) == "ok"
        model = model_at(server, shape, key=wrong)
        with pytest.raises(ModelRejected) as caught:
            ask(model, request(shape))
    shown = "".join(traceback.format_exception(caught.value)) + repr(model) + repr(caught.value.where)
    assert wrong in server.refusals[0]
    assert wrong not in shown
    assert "check the API key" in str(caught.value)
    assert caught.value.__context__ is None


@shapes
def test_a_server_that_does_not_stream(shape: str) -> None:
    """A whole reply to a request to stream is taken as one."""

    def said(received: Received) -> Raw:
        shape = received.shape
        assert shape is not None
        reply = Reply(text="All at once.", reasoning="Hm.", calls=(Call("add", {"a": 1}),)).named()
        whole = DIALECTS[shape].whole(reply, Usage(input=5, output=6), received.body, Memory(), "whole-1")
        return Raw((whole,), content_type="application/json")

    with ModelServer(said) as server:
        events = ask(model_at(server, shape), request(shape, tools=("add",)))
    assert words(events) == "All at once."
    assert [event.text for event in events if isinstance(event, ReasoningDelta)] == ["Hm."]
    reply = completed(events)
    assert (reply.stop, reply.response_id) == ("tools", "whole-1")
    assert reply.usage == Usage(input=5, output=6)
    assert json.loads(calls_of(shape, reply)[0][2]) == {"a": 1} if shape != "anthropic" else True
