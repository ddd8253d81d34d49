"""The model server over real HTTP: the official SDKs read what it says, and it keeps what it was asked."""

from __future__ import annotations

import http.client
import json
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

import pytest

from stratalog.models.contract import Shape
from stratalog.testing.model_server import DIALECTS, Drop, ModelServer, Received, Refuse, Strictness
from stratalog.testing.scripted import Call, Gate, Reply
from stratalog.types import Usage

SCHEMA: dict[str, Any] = {"type": "object", "properties": {"a": {"type": "integer"}}}
FULL = Reply(
    text="Grüße, 世界",
    reasoning="I think.",
    calls=(Call("add", {"a": 1}), Call("add", {"a": 2})),
    usage=Usage(input=100, output=7, cache_read=60, reasoning=3),
)


def openai(server: ModelServer) -> Any:
    sdk = pytest.importorskip("openai", reason="the SDK `openai` is not installed")
    return sdk.OpenAI(api_key="test", base_url=server.openai_url, max_retries=0)


def anthropic(server: ModelServer) -> Any:
    sdk = pytest.importorskip("anthropic", reason="the SDK `anthropic` is not installed")
    return sdk.Anthropic(api_key="test", base_url=server.anthropic_url, max_retries=0)


CHAT: dict[str, Any] = {
    "model": "m",
    "messages": [{"role": "user", "content": "Hello"}],
    "tools": [{"type": "function", "function": {"name": "add", "parameters": SCHEMA}}],
}
RESPONSES: dict[str, Any] = {
    "model": "m",
    "input": "Hello",
    "tools": [{"type": "function", "name": "add", "parameters": SCHEMA, "strict": False}],
}
MESSAGES: dict[str, Any] = {
    "model": "m",
    "max_tokens": 100,
    "messages": [{"role": "user", "content": "Hello"}],
    "tools": [{"name": "add", "input_schema": SCHEMA}],
}
ARGS = [{"a": 1}, {"a": 2}]


def test_chat_completions_as_the_sdk_reads_them() -> None:
    """The SDK's own classes and its own putting together of a stream find the whole reply, both ways."""
    with ModelServer(lambda received: FULL) as server, openai(server) as client:
        whole = client.chat.completions.create(**CHAT)
        with client.chat.completions.stream(**CHAT, stream_options={"include_usage": True}) as stream:
            for _ in stream:
                pass
            streamed = stream.get_final_completion()
    for found in (whole, streamed):
        message = found.choices[0].message
        assert message.content == FULL.text
        assert [json.loads(call.function.arguments) for call in message.tool_calls] == ARGS
        assert found.choices[0].finish_reason == "tool_calls"
        assert (found.usage.prompt_tokens, found.usage.completion_tokens) == (100, 7)
        assert found.usage.prompt_tokens_details.cached_tokens == 60


def test_responses_as_the_sdk_reads_them() -> None:
    """The same for responses."""
    with ModelServer(lambda received: FULL) as server, openai(server) as client:
        whole = client.responses.create(**RESPONSES)
        with client.responses.stream(**RESPONSES) as stream:
            kinds = [event.type for event in stream]
            streamed = stream.get_final_response()
    assert kinds[0] == "response.created"
    assert kinds[-1] == "response.completed"
    for found in (whole, streamed):
        assert found.output_text == FULL.text
        assert [item.type for item in found.output] == [
            "reasoning",
            "message",
            "function_call",
            "function_call",
        ]
        assert [json.loads(item.arguments) for item in found.output[2:]] == ARGS
        assert found.output[0].summary[0].text == FULL.reasoning
        assert found.usage.output_tokens_details.reasoning_tokens == 3


def test_messages_as_the_sdk_reads_them() -> None:
    """The same for messages."""
    with ModelServer(lambda received: FULL) as server, anthropic(server) as client:
        whole = client.messages.create(**MESSAGES)
        with client.messages.stream(**MESSAGES) as stream:
            for _ in stream:
                pass
            streamed = stream.get_final_message()
    for found in (whole, streamed):
        assert [block.type for block in found.content] == ["thinking", "text", "tool_use", "tool_use"]
        assert found.content[0].signature
        assert found.content[1].text == FULL.text
        assert [block.input for block in found.content[2:]] == ARGS
        assert found.stop_reason == "tool_use"
        assert (found.usage.input_tokens, found.usage.cache_read_input_tokens) == (40, 60)
        assert found.usage.output_tokens == 7


def test_errors_as_the_sdks_type_them() -> None:
    """The SDKs find their own errors in what the server refuses."""
    with ModelServer(lambda received: Refuse(429), window=50) as server, openai(server) as client:
        sdk = pytest.importorskip("openai")
        with pytest.raises(sdk.RateLimitError):
            client.chat.completions.create(**CHAT)
        with pytest.raises(sdk.BadRequestError) as caught:
            client.chat.completions.create(model="m", messages=[{"role": "user", "content": "word " * 100}])
        assert caught.value.code == "context_length_exceeded"
        call = {"id": "a", "type": "function", "function": {"name": "add", "arguments": "{}"}}
        unanswered = [{"role": "assistant", "content": None, "tool_calls": [call]}]
        with pytest.raises(sdk.BadRequestError, match="did not have response messages"):
            client.chat.completions.create(model="m", messages=unanswered)
    with ModelServer(lambda received: Refuse(529), window=200) as server, anthropic(server) as client:
        sdk = pytest.importorskip("anthropic")
        with pytest.raises(sdk.OverloadedError):
            client.messages.create(**MESSAGES)
        with pytest.raises(sdk.BadRequestError, match="prompt is too long: 2"):
            client.messages.create(
                model="m", max_tokens=9, messages=[{"role": "user", "content": "word " * 200}]
            )


PATHS = [(shape, dialect.path) for shape, dialect in DIALECTS.items()]
HEADERS = {
    "authorization": "Bearer test",
    "anthropic-version": "2023-06-01",
    "content-type": "application/json",
}
BODIES: dict[Shape, dict[str, Any]] = {
    "openai_chat": CHAT,
    "openai_responses": RESPONSES,
    "anthropic": MESSAGES,
}


def post(
    server: ModelServer, path: str, body: bytes, headers: dict[str, str] | None = None
) -> tuple[int, bytes]:
    """A request without any SDK, on a connection of its own."""
    connection = http.client.HTTPConnection(urlsplit(server.url).netloc, timeout=10)
    try:
        connection.request("POST", path, body, HEADERS if headers is None else headers)
        response = connection.getresponse()
        return response.status, response.read()
    finally:
        connection.close()


@pytest.mark.parametrize(("shape", "path"), PATHS)
def test_what_was_asked_is_kept(shape: Shape, path: str) -> None:
    """A request's bytes, body, headers and path stay as they came."""
    raw = json.dumps(BODIES[shape], indent=3).encode()
    with ModelServer(["ok"]) as server:
        assert post(server, path, raw)[0] == 200
    (received,) = server.requests
    assert (received.raw, received.body, received.path) == (raw, BODIES[shape], path)
    assert received.headers["content-type"] == "application/json"
    assert (received.status, received.finished, received.disconnected) == (200, True, False)


@pytest.mark.parametrize(("shape", "path"), PATHS)
def test_what_is_no_request(shape: Shape, path: str) -> None:
    """No key, no JSON, no object, no such path: refused in the API's JSON, and no step of the script is
    taken."""
    with ModelServer([]) as server:
        assert post(server, path, b"{}", {})[0] == 401
        for raw in (b"", b"{", b"[]", b'"a"', b"\xff"):
            status, body = post(server, path, raw)
            assert status == 400
            assert json.loads(body)["error"]["message"]
        assert post(server, path + "/more", b"{}")[0] == 404
    assert len(server.refusals) == 7


@pytest.mark.parametrize(("shape", "path"), PATHS)
def test_the_window_is_counted_as_told(shape: Shape, path: str) -> None:
    """Any counter of the body decides, together with the output that the request allows."""
    limit = "max_output_tokens" if shape == "openai_responses" else "max_tokens"
    raw = json.dumps({**BODIES[shape], limit: 100}).encode()
    for counted, status in ((900, 200), (901, 400)):
        with ModelServer(
            lambda received: "ok", window=1000, count=lambda body, counted=counted: counted
        ) as server:  # type: ignore[misc] # mypy cannot infer a lambda with a default
            assert post(server, path, raw)[0] == status
            assert server.requests[0].tokens == counted


@pytest.mark.parametrize(
    ("shape", "output", "error"),
    [
        (
            "openai_chat",
            {"max_tokens": 100},
            {
                "message": "This model's maximum context length is 1000 tokens. However, you requested 1050"
                " tokens (950 in the messages, 100 in the completion). Please reduce the length of the"
                " messages or completion.",
                "type": "invalid_request_error",
                "param": "messages",
                "code": "context_length_exceeded",
            },
        ),
        (
            "openai_responses",
            {"max_output_tokens": 100},
            {
                "message": "Your input exceeds the context window of this model. Please adjust your input"
                " and try again.",
                "type": "invalid_request_error",
                "param": "input",
                "code": "context_length_exceeded",
            },
        ),
        (
            "anthropic",
            {"max_tokens": 100},
            {
                "type": "invalid_request_error",
                "message": "input length and `max_tokens` exceed context limit: 950 + 100 > 1000, decrease"
                " input length or `max_tokens` and try again",
            },
        ),
    ],
)
def test_a_request_over_the_window(shape: Shape, output: dict[str, int], error: dict[str, Any]) -> None:
    """Each API refuses it in its own words, and the step of the script is not taken."""
    raw = json.dumps({**BODIES[shape], **output}).encode()
    with ModelServer([], window=1000, count=lambda body: 950) as server:
        status, body = post(server, dict(PATHS)[shape], raw)
    assert (status, json.loads(body)["error"]) == (400, error)


@pytest.mark.parametrize(("shape", "path"), PATHS)
def test_only_what_requests_come_to(shape: Shape, path: str) -> None:
    """A server for a long run keeps the latest requests alone, numbers all, and counts what they were."""
    sizes = (10, 500, 30)
    raws = [json.dumps({**BODIES[shape], "model": "m" * size}).encode() for size in sizes]
    taken: list[int] = []

    def script(received: Received) -> str:
        taken.append(received.number)
        return "ok"

    with ModelServer(script, keep=1, count=lambda body: len(body["model"])) as server:
        for raw in raws:
            assert post(server, path, raw)[0] == 200
        assert post(server, path, b"{")[0] == 400
        server.wait(lambda: server.facts.statuses.total() == 4)
    facts, (kept,) = server.facts, server.requests
    assert (taken, kept.number, kept.raw) == ([0, 1, 2], 3, b"{")
    assert (facts.requests, facts.size, facts.largest) == (4, sum(map(len, raws)) + 1, len(raws[1]))
    assert (facts.tokens, facts.most_tokens) == (540, 500)
    assert facts.statuses == {200: 3, 400: 1}
    assert server.refusals == ["We could not parse the JSON body of your request."]


def test_nothing_is_kept_and_waiting_still_works() -> None:
    """Without any request kept, a test waits for what they come to."""
    with ModelServer(["ok"], keep=0) as server:
        post(server, "/v1/chat/completions", json.dumps(CHAT).encode())
        server.wait(lambda: server.facts.statuses[200] == 1)
    assert (server.requests, server.facts.requests) == ([], 1)


@pytest.mark.parametrize(("shape", "path"), PATHS[1:])  # chat completions take no thoughts back
def test_thought_that_was_left_out(shape: Shape, path: str) -> None:
    """The server knows the calls that it gave out after a thought, and misses the thought when they come
    back."""
    body = dict(BODIES[shape])
    if shape == "anthropic":
        body |= {"thinking": {"type": "adaptive"}}
    with ModelServer(lambda received: FULL) as server:
        first = json.loads(post(server, path, json.dumps(body).encode())[1])
        said = first["output"] if shape == "openai_responses" else first["content"]
        for kept, status in (
            (said, 200),
            ([part for part in said if part["type"] not in ("reasoning", "thinking")], 400),
        ):
            if shape == "openai_responses":
                outputs = [
                    {"type": "function_call_output", "call_id": item["call_id"], "output": "1"}
                    for item in said
                    if "call_id" in item
                ]
                after = {"input": [{"role": "user", "content": "Hello"}, *kept, *outputs]}
            else:
                results = [
                    {"type": "tool_result", "tool_use_id": block["id"]}
                    for block in said
                    if block["type"] == "tool_use"
                ]
                after = {
                    "messages": [
                        *body["messages"],
                        {"role": "assistant", "content": kept},
                        {"role": "user", "content": results},
                    ]
                }
            assert post(server, path, json.dumps({**body, **after}).encode())[0] == status
    assert "reasoning" in server.refusals[0] or "thinking" in server.refusals[0]


@pytest.mark.parametrize(("shape", "path"), PATHS)
def test_the_end_of_the_script(shape: Shape, path: str) -> None:
    """A request more than the script has steps is refused for good, and is the test's error when it ends."""
    raw = json.dumps(BODIES[shape]).encode()

    def run() -> list[int]:
        with ModelServer(["ok"]) as server:
            return [post(server, path, raw)[0] for _ in range(2)]

    with pytest.raises(AssertionError, match="no step for request 1"):
        run()


def test_an_error_in_the_script() -> None:
    """It is raised when the test ends, unless the test fails by itself."""

    def script(received: Received) -> str:
        raise ZeroDivisionError("in the script")

    def run(also: BaseException | None = None) -> None:
        with ModelServer(script) as server:
            status, body = post(server, "/v1/chat/completions", json.dumps(CHAT).encode())
            assert (status, b"in the script" in body) == (400, True)
            if also is not None:
                raise also

    with pytest.raises(ZeroDivisionError):
        run()
    with pytest.raises(KeyError):
        run(KeyError("the test's own"))


def test_a_gate_holds_the_reply() -> None:
    """A reply at a gate comes when the test opens it, and the server answers others meanwhile."""
    gate = Gate()
    with ModelServer(
        lambda received: "second" if received.number else Reply(text="first", gate=gate)
    ) as server:
        connection = http.client.HTTPConnection(urlsplit(server.url).netloc, timeout=10)
        connection.request("POST", "/v1/chat/completions", json.dumps(CHAT), HEADERS)
        gate.wait_reached()
        assert b"second" in post(server, "/v1/chat/completions", json.dumps(CHAT).encode())[1]
        assert not server.requests[0].finished
        gate.open()
        assert b"first" in connection.getresponse().read()
        connection.close()


def test_a_dropped_stream_is_a_cut_one() -> None:
    """Its end is not marked, so that a client sees the cut."""
    with ModelServer([Drop(after=1)]) as server, pytest.raises(http.client.IncompleteRead) as caught:
        post(server, "/v1/chat/completions", json.dumps({**CHAT, "stream": True}).encode())
    assert b"one two" in caught.value.partial


def test_many_on_one_connection() -> None:
    """A connection serves one request after another, refused ones too."""
    with ModelServer(lambda received: "ok") as server:
        connection = http.client.HTTPConnection(urlsplit(server.url).netloc, timeout=10)
        for body, status in ((CHAT, 200), ({}, 400), (CHAT, 200)):
            connection.request("POST", "/v1/chat/completions", json.dumps(body), HEADERS)
            response = connection.getresponse()
            response.read()
            assert response.status == status
        connection.close()


def test_strictness_reaches_the_rules() -> None:
    """What the server is told to let pass is let pass."""
    body = json.dumps({**CHAT, "top_k": 4}).encode()
    with ModelServer(lambda received: "ok", strict=Strictness(unknown_fields=True)) as server:
        assert post(server, "/v1/chat/completions", body)[0] == 200
    with ModelServer(lambda received: "ok") as server:
        assert post(server, "/v1/chat/completions", body)[0] == 400


def test_waiting_has_an_end() -> None:
    """What does not come to be is an error, not a test that hangs."""
    never: Callable[[], bool] = lambda: False  # noqa: E731 # a name says what it is
    with ModelServer([]) as server, pytest.raises(TimeoutError):
        server.wait(never, timeout=0.01)
