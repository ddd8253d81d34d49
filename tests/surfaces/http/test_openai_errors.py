"""Errors on the routes for OpenAI's clients, wherever they come from: the client raises its own."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import openai
import pytest
from openai import OpenAI

from stratalog.errors import ContextOverflow, InvalidInput, NotFound, SessionBusy, SpendLimit, TurnClosed
from stratalog.surfaces.access.tokens import FILE
from stratalog.surfaces.http.errors import Problem, is_openai, openai_problem, problem_of, written
from stratalog.testing.model_server import ModelServer
from stratalog.testing.scripted import Reply
from surfaces.http.conftest import Running, running
from surfaces.http.test_hostile import answered, connected, head
from surfaces.http.test_openai import OFF, Client, said

Modelled = Callable[..., tuple[Running, ModelServer]]
COMPLETIONS = "/v1/chat/completions"
ASK: Any = {"model": "agent:helper", "messages": [{"role": "user", "content": "x"}]}


def refused(error: openai.APIStatusError) -> tuple[int, str | None, str | None]:
    """The status, the type and the code of an error that is in OpenAI's form, and names its request."""
    response = error.response
    assert response.headers["content-type"] == "application/json"
    assert set(response.json()) == {"error"}
    assert set(response.json()["error"]) == {"message", "type", "param", "code"}
    assert error.request_id == response.headers["x-request-id"]
    assert response.json()["error"]["message"]
    return error.status_code, error.type, error.code


def sdk(service: Running, token: str) -> OpenAI:
    return OpenAI(base_url=f"{service.url}/v1", api_key=token, max_retries=0)


def test_nobody_is_told_so(service: Running) -> None:
    """Without a token that lets in, whatever is asked there, also where there is nothing."""
    nobody = sdk(service, "strata_0_0")
    asked: list[Callable[[], object]] = [
        lambda: nobody.chat.completions.create(**ASK),
        lambda: nobody.chat.completions.create(**ASK, stream=True),
        lambda: nobody.models.list(),
        lambda: nobody.models.retrieve("agent:helper"),
        lambda: nobody.get("/chat/completions/none", cast_to=object),
    ]
    for each in asked:
        with pytest.raises(openai.AuthenticationError) as error:
            each()
        assert refused(error.value) == (401, "invalid_request_error", "invalid_api_key")
        assert error.value.response.headers["www-authenticate"].startswith("Bearer")


@pytest.mark.parametrize(
    ("headers", "kind", "told"),
    [
        ({"origin": "https://evil.example"}, openai.PermissionDeniedError, (403, "permission_error")),
        ({"host": "evil.example"}, openai.APIStatusError, (421, "invalid_request_error")),
        ({"content-encoding": "gzip"}, openai.APIStatusError, (415, "invalid_request_error")),
        ({"x-stratalog-user": "ben"}, openai.PermissionDeniedError, (403, "permission_error")),
        ({"x-stratalog-session": "100%"}, openai.BadRequestError, (400, "invalid_request_error")),
        ({"x-stratalog-agent": "%ff"}, openai.BadRequestError, (400, "invalid_request_error")),
        ({"x-stratalog-user": "%zz"}, openai.BadRequestError, (400, "invalid_request_error")),
        ({"stratalog-user": "ana", "x-stratalog-user": "ana"}, openai.BadRequestError, (400,)),
        ({"idempotency-key": "k" * 201}, openai.BadRequestError, (400, "invalid_request_error")),
    ],
)
def test_what_the_request_itself_is_refused_for(
    service: Running, headers: dict[str, str], kind: type[openai.APIStatusError], told: tuple[Any, ...]
) -> None:
    """Its page, its host, how it is packed, whom it names: with the status of the other routes."""
    client = Client(service)
    with pytest.raises(kind) as error:
        client.ask("x", headers=headers)
    assert refused(error.value)[: len(told)] == told
    assert said(service) == []


def test_a_role_that_may_not_talk(service: Running) -> None:
    """It asks neither for a completion nor for models."""
    with pytest.raises(openai.PermissionDeniedError) as error:
        Client(service, "metrics").ask("x")
    assert refused(error.value) == (403, "permission_error", "permission_denied")
    with pytest.raises(openai.PermissionDeniedError):
        Client(service, "metrics").sdk.models.list()


def test_who_asks_too_often(data: Path) -> None:
    """The client has its own error, and the seconds to wait, with a token and without."""
    with running(data, rate=1.0, burst=1) as service:
        client, nobody = Client(service).sdk, sdk(service, "strata_0_0")
        client.models.list()
        with pytest.raises(openai.AuthenticationError):
            nobody.models.list()
        for each in (client, nobody):
            with pytest.raises(openai.RateLimitError) as error:
                each.chat.completions.create(**ASK)
            assert refused(error.value) == (429, "requests", "rate_limit_exceeded")
            assert int(error.value.response.headers["retry-after"]) > 0


def test_a_body_that_is_too_large(data: Path) -> None:
    """It is refused before it is read."""
    with running(data, body=10_000) as service:
        with pytest.raises(openai.APIStatusError) as error:
            Client(service).ask("x" * 20_000)
        assert refused(error.value)[0] == 413
        assert said(service) == []


def test_a_body_that_does_not_come(data: Path) -> None:
    """It is refused in time, and is no defect of the service."""
    with running(data, patience=0.1) as service, closing(connected(service)) as where:
        where.sendall(head(service, "Content-Length: 1000", path=COMPLETIONS) + b"{")
        told, _, body = answered(where).partition(b"\r\n\r\n")
    assert told.startswith(b"HTTP/1.1 408")
    assert b"application/json" in told
    assert json.loads(body)["error"]["type"] == "invalid_request_error"


def test_there_is_no_such_thing(service: Running) -> None:
    """A path below these, a method, a model, a field of the query."""
    client = Client(service).sdk
    with pytest.raises(openai.NotFoundError) as missing:
        client.get("/chat/completions/stored", cast_to=object)
    assert refused(missing.value) == (404, "invalid_request_error", "not_found")
    with pytest.raises(openai.APIStatusError) as method:
        client.delete("/models/agent:helper", cast_to=object)
    assert refused(method.value)[:2] == (405, "invalid_request_error")
    assert "GET" in method.value.response.headers["allow"]
    with pytest.raises(openai.NotFoundError) as model:
        client.models.retrieve("agent:nobody")
    assert refused(model.value) == (404, "invalid_request_error", "model_not_found")
    with pytest.raises(openai.BadRequestError, match="limit") as query:
        client.models.list(extra_query={"limit": 5})
    assert (refused(query.value)[0], query.value.param) == (400, "limit")


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"\xff", b"[" * 100_000, b'"x"', b'{"model": "x"}'])
def test_what_is_no_request(service: Running, body: bytes) -> None:
    """JSON that is none, is nested too deeply, or is another thing."""
    client = Client(service)
    answer = service.client(client.sdk.api_key).post(COMPLETIONS, content=body)
    assert answer.status_code == 400
    assert answer.headers["content-type"] == "application/json"
    assert answer.json()["error"]["type"] == "invalid_request_error"


def test_a_defect_says_nothing_of_itself(service: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither where a route fails nor where the tokens cannot be read."""
    client = Client(service)

    async def broken(*given: object, **named: object) -> None:
        raise ZeroDivisionError("a secret of the inside")

    monkeypatch.setattr(service.service.completions, "complete", broken)
    with pytest.raises(openai.InternalServerError) as error:
        client.ask("x")
    assert refused(error.value) == (500, "server_error", None)
    service.service.tokens.close()
    service.tokens.close()
    (service.data / FILE).write_bytes(b"not a database at all, but long enough to look like one" * 50)
    with pytest.raises(openai.InternalServerError) as closed:
        client.sdk.models.list()
    assert refused(closed.value) == (500, "server_error", None)
    for each in (error, closed):
        assert "secret" not in str(each.value)
        assert str(service.data) not in str(each.value)


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (SessionBusy("x"), (409, "conflict", "session_busy", {"retry-after": "1"})),
        (TurnClosed("x"), (409, "conflict", None, {"x-should-retry": "false"})),
        (ContextOverflow("x"), (400, "invalid_request_error", "context_length_exceeded", {})),
        (SpendLimit("x"), (429, "insufficient_quota", "insufficient_quota", {})),
        (NotFound("x", model="m"), (404, "invalid_request_error", "model_not_found", {})),
        (NotFound("x"), (404, "invalid_request_error", "not_found", {})),
        (InvalidInput("x", param="n"), (400, "invalid_request_error", None, {})),
    ],
)
def test_errors_have_their_kinds(error: Any, told: tuple[Any, ...]) -> None:
    """By the tree's classes and the status, with what tells a client whether to ask again; the other routes
    have the status of the tree."""
    problem = problem_of(error, "r")
    made = written(problem, COMPLETIONS)
    kind = openai_problem(problem).error
    assert (made.status, kind.type, kind.code, made.headers) == told
    assert json.loads(made.body) == {
        "error": {"message": kind.message, "type": kind.type, "param": kind.param, "code": kind.code}
    }
    assert kind.param == error.where.get("param")
    other = written(problem, "/v1/agents/a/sessions")
    assert (other.media_type, json.loads(other.body)["status"]) == (
        "application/problem+json",
        problem.status,
    )


@pytest.mark.parametrize(
    ("path", "ours"),
    [
        ("/v1/models", True),
        ("/v1/models/", True),
        ("/v1/models/a/b", True),
        ("/v1/modelsx", False),
        ("/v1/chat/completions", True),
        ("/v1/chat/completions/", True),
        ("/v1/chat", False),
        ("/v1/agents/a/sessions/v1/models", False),
    ],
)
def test_whose_errors_they_are(path: str, ours: bool) -> None:
    """Of the two paths and what is below them."""
    assert is_openai(path) == ours
    kind = "application/json" if ours else "application/problem+json"
    assert written(Problem(status=404, title="x"), path).media_type == kind


def test_other_routes_are_as_they_were(modelled: Modelled) -> None:
    """A completion that fails is told as OpenAI does, and the same of a turn as a problem."""
    service, _ = modelled(lambda request: Reply(text="r"), toml=OFF)
    client = Client(service)
    client.ask("x")
    raw = service.client(client.sdk.api_key)
    beside = raw.get("/v1/agents/helper/sessions/trip/turns/none")
    assert (beside.status_code, beside.headers["content-type"]) == (404, "application/problem+json")
