"""Every fault on the way to a model, over real HTTP: what is asked again, how often, and what error is
left."""

from __future__ import annotations

import socket
from typing import Any

import pytest

from models.asking import KEY, SHAPES, Time, ask, completed, model_at, request, words
from stratalog.errors import ModelInputTooLong, ModelRejected, ModelReplyUnusable, ModelUnavailable
from stratalog.models.contract import Retrying, TextDelta
from stratalog.models.openai import OpenAIChat
from stratalog.testing.model_server import Break, Drop, Hang, ModelServer, Raw, Received, Refuse, ServerStep
from stratalog.testing.scripted import Reply

shapes = pytest.mark.parametrize("shape", SHAPES)

PASSING: dict[str, ServerStep] = {
    "408": Refuse(408),
    "409": Refuse(409),
    "429": Refuse(429),
    "500": Refuse(500),
    "502 of a proxy": Refuse(502, text="<html>Bad gateway</html>"),
    "503": Refuse(503),
    "529 overloaded": Refuse(529, code="overloaded_error"),
    "dropped before the head": Drop(after=-1),
    "dropped before the first word": Drop(after=0),
    "dropped within the reply": Drop(after=2),
    "an error within the reply": Break("Overloaded", code="overloaded_error"),
    "an end before the end": Raw(()),
    "not JSON": Raw(("event: message_start\ndata: {not json\n\n",)),
    "asked to come again": Refuse(400, headers={"x-should-retry": "true"}),
}


@shapes
@pytest.mark.parametrize("fault", PASSING)
def test_a_passing_fault_is_asked_again(shape: str, fault: str) -> None:
    """After it the reply comes whole; what was streamed before is void."""
    time = Time()
    with ModelServer([PASSING[fault], "Here it is."]) as server:
        events = ask(model_at(server, shape, time=time), request(shape))
    assert words(events) == "Here it is."
    retried = [event for event in events if isinstance(event, Retrying)]
    assert [event.attempt for event in retried] == [1]
    assert retried[0].reason
    assert time.slept == [retried[0].pause]
    assert completed(events).stop == "end"


@shapes
@pytest.mark.parametrize("after", [-1, 0, 1])
def test_silence_is_a_passing_fault(shape: str, after: int) -> None:
    """Where nothing comes for the request's timeout, before the head or within the reply, it is asked
    again."""

    def said(received: Received) -> ServerStep:
        return "Here it is." if received.number else Hang(after=after)

    with ModelServer(said) as server:
        # However slow this machine is at times, one of so many attempts is answered in time.
        model = model_at(server, shape, attempts=100, total=1e9)
        events = ask(model, request(shape, timeout=0.3))
        server.wait(lambda: server.requests[0].disconnected)
    assert words(events) == "Here it is."
    retried = [event for event in events if isinstance(event, Retrying)]
    assert retried[0].reason == "nothing came for 0.3 seconds"


@shapes
@pytest.mark.parametrize("fault", ["503", "dropped within the reply", "an end before the end", "not JSON"])
def test_it_ends(shape: str, fault: str) -> None:
    """A fault that does not pass is asked again so many times and then raised, with what happened."""
    time = Time()
    with ModelServer(lambda received: PASSING[fault]) as server, pytest.raises(ModelUnavailable) as caught:
        ask(model_at(server, shape, time=time, attempts=3), request(shape))
    assert len(server.requests) == 3
    assert len(time.slept) == 2
    assert caught.value.where["attempts"] == 3
    assert caught.value.where["model"] == "test-model"
    assert str(caught.value.where["endpoint"]).startswith(server.url)


@shapes
def test_text_that_was_streamed_before_a_cut_is_void(shape: str) -> None:
    """The reader is told so by `Retrying`, after which the whole text comes again."""
    with ModelServer(
        [Drop(Reply(text="abcdef", pieces=3), after=2), Reply(text="abcdef", pieces=3)]
    ) as server:
        events = ask(model_at(server, shape), request(shape))
    kinds = [event.text if isinstance(event, TextDelta) else type(event).__name__ for event in events]
    assert kinds == ["ab", "cd", "Retrying", "ab", "cd", "ef", "Completed"]


@shapes
def test_retry_after_is_honoured(shape: str) -> None:
    """The pause is at least what the provider asks; more than is left of the time is not waited for."""
    time = Time()
    with ModelServer([Refuse(429, retry_after=17), "ok", Refuse(429, retry_after=1000)]) as server:
        model = model_at(server, shape, time=time)
        assert words(ask(model, request(shape))) == "ok"
        assert time.slept == [17]
        with pytest.raises(ModelUnavailable) as caught:
            ask(model, request(shape))
    assert time.slept == [17]
    assert caught.value.where["retry_after"] == 1000


@shapes
@pytest.mark.parametrize("reply", [Reply(), Reply(text="  \n"), Reply(reasoning="Only a thought.")])
def test_an_empty_reply_is_no_reply(shape: str, reply: Reply) -> None:
    """A reply with neither words nor calls is asked for once more, and then is an error (S28, S35)."""
    with ModelServer(lambda received: reply) as server, pytest.raises(ModelReplyUnusable):
        ask(model_at(server, shape), request(shape))
    assert len(server.requests) == 2
    with ModelServer([reply, "Now."]) as server:
        assert words(ask(model_at(server, shape), request(shape))) == "Now."


@shapes
def test_a_limit_reached_before_the_first_word(shape: str) -> None:
    """It is not asked for again, for it would end so again; the error says what to do."""
    reply = Reply(reasoning="Long thoughts", stop="length")
    with (
        ModelServer(lambda received: reply) as server,
        pytest.raises(ModelReplyUnusable, match="output tokens"),
    ):
        ask(model_at(server, shape), request(shape))
    assert len(server.requests) == 1


REJECTED = [
    (400, "", ""),
    (401, "", "check the API key"),
    (403, "", "may not use this model"),
    (404, "", "the model's name"),
    (422, "", ""),
    (429, "insufficient_quota", "credit"),
]


@shapes
@pytest.mark.parametrize(("status", "code", "hint"), REJECTED)
def test_a_refusal_is_not_asked_again(shape: str, status: int, code: str, hint: str) -> None:
    """It says why in the provider's words, with its status and the request's id."""
    refusal = Refuse(status, "Because of this.", code=code)
    with ModelServer(lambda received: refusal) as server, pytest.raises(ModelRejected) as caught:
        ask(model_at(server, shape), request(shape))
    assert len(server.requests) == 1
    assert not isinstance(caught.value, ModelInputTooLong)
    assert "Because of this." in str(caught.value)
    assert hint in str(caught.value)
    assert caught.value.where["status"] == status
    assert caught.value.where["request_id"] == "req_0"


@shapes
def test_an_input_over_the_window(shape: str) -> None:
    """The provider's own refusal of too long an input has its own error, and is not asked again."""
    with ModelServer([], window=500) as server, pytest.raises(ModelInputTooLong) as caught:
        ask(model_at(server, shape), request(shape, "word " * 1000, **_small(shape)))
    assert len(server.requests) == 1
    if shape != "openai_responses":  # which does not tell
        assert caught.value.where["window"] == 500


@shapes
def test_an_output_that_no_longer_fits(shape: str) -> None:
    """Input and allowed output together are over the window: the same error."""
    limit = "max_output_tokens" if shape == "openai_responses" else "max_tokens"
    with ModelServer([], window=500) as server, pytest.raises(ModelInputTooLong):
        ask(model_at(server, shape), request(shape, "word", **{limit: 499}))
    assert len(server.requests) == 1


def _small(shape: str) -> dict[str, Any]:
    return {"max_tokens": 10} if shape == "anthropic" else {}


@shapes
@pytest.mark.parametrize(
    "message",
    [
        "This model's maximum context length is 8192 tokens. However, you requested 9000 tokens.",
        "the request exceeds the available context size (8192 tokens), try increasing it",
        "prompt is too long: 208310 tokens > 200000 maximum",
        "Your input exceeds the context window of this model.",
        "The input token count (1196265) exceeds the maximum number of tokens allowed (1048575)",
        "`inputs` tokens + `max_new_tokens` must be <= 4096",
        "Please reduce the length of the messages or completion.",
        "This model's maximum prompt length is 131072 but the request contains 537812 tokens.",
        "Input is too long for requested model.",
        "The decoder prompt (length 9000) is longer than the maximum model length of 8192.",
        "Invalid request: Your request exceeded model token limit: 8192",
        "Range of input length should be [1, 129024]",
    ],
)
def test_a_too_long_input_told_only_in_words(shape: str, message: str) -> None:
    """Servers without a code for it say it in many ways, refused at once or within the stream."""
    with ModelServer([Refuse(400, message)]) as server, pytest.raises(ModelInputTooLong):
        ask(model_at(server, shape), request(shape))
    broken = Break(message, code="invalid_request_error", after=0)
    with ModelServer([broken]) as server, pytest.raises(ModelInputTooLong):
        ask(model_at(server, shape), request(shape))


@shapes
@pytest.mark.parametrize(
    "refusal",
    [
        Refuse(413, "Request exceeds the maximum size", code="request_too_large"),
        Refuse(400, "x", code="context_length_exceeded"),
        Refuse(400, "x", code="exceed_context_size_error"),
        Refuse(
            429,
            "Request too large for gpt-4o on tokens per min (TPM): Limit 30000, Requested 35000.",
            code="tokens",
        ),
    ],
)
def test_a_too_long_input_told_by_code(shape: str, refusal: Refuse) -> None:
    """A code, a type or a status tells it without words; so does a request that alone is over the rate."""
    with ModelServer([refusal]) as server, pytest.raises(ModelInputTooLong):
        ask(model_at(server, shape), request(shape))


@shapes
def test_a_busy_provider_is_not_an_input_too_long(shape: str) -> None:
    """Words about tokens in a passing fault do not make it one."""
    busy = Refuse(429, "Rate limit reached for tokens per min. Limit: 30000. Too many tokens per minute.")
    with ModelServer([busy, "ok"]) as server:
        assert words(ask(model_at(server, shape), request(shape))) == "ok"


@pytest.mark.parametrize("shape", ["openai_chat", "openai_responses"])
def test_an_error_of_a_gateway_within_a_stream(shape: str) -> None:
    """Gateways put a number where a code should be; it counts as the status."""
    passing = Raw(({"error": {"code": 502, "message": "Provider returned error"}},))
    lasting = Raw(({"error": {"code": 403, "message": "No access"}},))
    with ModelServer([passing, "ok", lasting]) as server:
        model = model_at(server, shape)
        assert words(ask(model, request(shape))) == "ok"
        with pytest.raises(ModelRejected, match="No access"):
            ask(model, request(shape))


def test_nobody_there() -> None:
    """A refused connection is a passing fault, and its error names the endpoint without what is secret in
    it."""
    pytest.importorskip("openai", reason="the SDK `openai` is not installed")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound and not listening: nobody answers, and nobody else gets the port
        port = taken.getsockname()[1]
        time = Time()
        model = OpenAIChat(
            api_key=KEY,
            base_url=f"http://user:hunter22@127.0.0.1:{port}/v1?key=hunter23",
            retry=time.retry(attempts=2),
        )
        with pytest.raises(ModelUnavailable) as caught:
            ask(model, request("openai_chat"))
    assert caught.value.where["endpoint"] == f"http://127.0.0.1:{port}/v1"
    assert "hunter" not in str(caught.value)
    assert "connection failed" in str(caught.value)
