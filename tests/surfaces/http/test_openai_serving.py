"""Completions as turns of the service: counted, ended with it, and not read by a token that holds no more."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import openai
import pytest
from prometheus_client.parser import text_string_to_metric_families

from stratalog.engine import serving_turns
from stratalog.testing.model_server import ModelServer, Refuse
from stratalog.testing.scripted import Call, Gate, Reply
from stratalog.types import TurnEnd
from surfaces.http.conftest import PATIENCE, TENANT, Running, running
from surfaces.http.test_chat import until
from surfaces.http.test_openai import OFF, WEATHER, Client, log_of, result, said

Modelled = Callable[..., tuple[Running, ModelServer]]


def ends(service: Running, chat: str = "trip") -> list[str]:
    return [each.status for each in log_of(service, chat) if isinstance(each, TurnEnd)]


def samples(service: Running) -> dict[tuple[str, ...], float]:
    """What is counted, by its name and its labels' values."""
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(service.service.metrics.text().decode())
        for sample in family.samples
    }


def counted(service: Running, status: str, number: int) -> dict[tuple[str, ...], float]:
    """What is counted once so many turns of this status are."""
    until(lambda: samples(service).get(("stratalog_turns_total", status), 0) == number)
    return samples(service)


# --- counted ---


def test_completions_are_counted_as_turns(modelled: Modelled) -> None:
    """By how they ended, with their time, and the tokens of all replies of a turn, also of those that called
    the client's tools; a turn that waits for their results is not ended yet."""
    script = [
        Reply(calls=(Call("weather", {}, id="a"),)),
        Reply(text="Rain."),
        Refuse(400, message="no"),
        Reply(text="two"),
    ]
    service, _ = modelled(script, toml=OFF)
    client = Client(service)
    first = client.ask("go", tools=[WEATHER])
    got = samples(service)
    assert not [each for each in got if each[0] == "stratalog_turns_total"]
    second = client.ask(result(first.choices[0].message.tool_calls[0], "rain"), tools=[WEATHER])
    got = counted(service, "answered", 1)
    assert got["stratalog_turn_seconds_count",] == 1
    for kind, field in (("input", "prompt_tokens"), ("output", "completion_tokens")):
        both = getattr(first.usage, field) + getattr(second.usage, field)
        assert got["stratalog_tokens_total", kind] == both > 0
    with pytest.raises(openai.InternalServerError):
        client.ask("fail", headers={"x-stratalog-session": "other"})
    counted(service, "interrupted", 1)
    assert ends(service, "other") == []  # it is left for the same request
    assert client.text("fail", headers={"x-stratalog-session": "other"}) == "two"
    got = counted(service, "answered", 2)
    assert got["stratalog_turns_running",] == got["stratalog_turns_queued",] == 0


def test_a_turn_that_nobody_goes_on_with_is_counted(modelled: Modelled) -> None:
    """As one that ran out of time."""
    service, _ = modelled([Reply(calls=(Call("weather", {}, id="a"),))], toml=OFF)
    service.service.completions.patience = 0.0
    Client(service).ask("go", tools=[WEATHER])
    counted(service, "timed_out", 1)
    assert ends(service) == ["timed_out"]


def test_what_runs_and_waits_is_seen(modelled: Modelled) -> None:
    """A turn that runs, a request that waits for it, a stream that is read; an abort is counted as one."""
    gate = Gate()
    service, _ = modelled([Reply(text="one two", late_gate=gate), Reply(text="on")], toml=OFF)
    client = Client(service)
    with ThreadPoolExecutor(2) as pool:
        reading = pool.submit(lambda: list(client.raw("x", stream=True).parse()))
        gate.wait_reached()
        until(lambda: samples(service)["stratalog_streams_open",] == 1)
        waiting = pool.submit(client.text, "y")
        until(lambda: samples(service)["stratalog_turns_queued",] == 1)
        assert samples(service)["stratalog_turns_running",] == 1
        assert service.client(client.sdk.api_key).post("/v1/agents/helper/sessions/trip/abort").json() == {
            "aborted": True
        }
        with pytest.raises(openai.APIError):
            reading.result()
        gate.open()
        assert waiting.result() == "on"
    got = counted(service, "answered", 1)
    assert got["stratalog_turns_total", "aborted"] == 1
    until(lambda: samples(service)["stratalog_streams_open",] == 0)


def test_there_are_no_more_at_once_than_may_be(modelled: Modelled) -> None:
    """They wait for one another as other turns do, whichever sessions they are of."""
    gate = Gate()
    service, model = modelled(
        lambda request: Reply(text="r", gate=gate if not request.number else None), toml=OFF, turns=1
    )
    client = Client(service, session="")
    with ThreadPoolExecutor(2) as pool:
        slow = pool.submit(client.text, "one")
        gate.wait_reached()
        other = pool.submit(client.text, "two")
        until(lambda: service.service.turns.running == 2)
        assert model.facts.requests == 1
        gate.open()
        assert [slow.result(), other.result()] == ["r", "r"]


# --- ended with the service ---


def test_the_grace_is_theirs_too(modelled: Modelled, monkeypatch: pytest.MonkeyPatch) -> None:
    """A turn that is under way when the service is told to end has the grace of the settings, and what waits
    behind it is sent away at once it is its turn, and is in no log."""
    monkeypatch.setattr(serving_turns, "_NOTICE", 0.01)
    gate = Gate()
    service, model = modelled([Reply(text="whole", gate=gate)], toml=OFF, grace=PATIENCE)
    client = Client(service)
    with ThreadPoolExecutor(3) as pool:
        asked = pool.submit(client.text, "go")
        gate.wait_reached()
        behind = pool.submit(client.ask, "and?")
        until(lambda: service.service.completions.waiting == 1)
        ended = pool.submit(service.stop)
        until(lambda: service.service.turns.draining)
        threading.Event().wait(0.1)
        gate.open()
        assert asked.result() == "whole"
        with pytest.raises(openai.InternalServerError) as away:
            behind.result()
        ended.result()
    assert (away.value.status_code, away.value.response.headers["retry-after"]) == (503, "5")
    assert said(service) == ["go", "whole"]
    assert model.facts.requests == 1


@pytest.mark.parametrize("stream", [False, True])
def test_what_the_grace_is_too_short_for_is_gone_on_with(modelled: Modelled, stream: bool) -> None:
    """It is unfinished in the log, its client is told to ask again, and the next service answers the same
    request, whose message is there once."""
    gate = Gate()
    service, model = modelled(
        [Reply(text="one two", late_gate=gate), Reply(text="whole")], toml=OFF, grace=0.1
    )
    client = Client(service)

    def ask() -> object:
        done = client.raw("go", stream=stream).parse()
        return list(done) if stream else done

    with ThreadPoolExecutor(2) as pool:
        asked = pool.submit(ask)
        gate.wait_reached()
        ended = pool.submit(service.stop)
        with pytest.raises(openai.APIError, match="no answer now") as away:
            asked.result()
        ended.result()
    gate.open()
    if not stream:
        assert isinstance(away.value, openai.InternalServerError)
        assert (away.value.status_code, away.value.response.headers["retry-after"]) == (503, "5")
    assert ends(service) == []
    with running(service.data) as other:
        assert Client(other).text("go", headers={"x-stainless-retry-count": "1"}) == "whole"
        assert said(other) == ["go", "whole"]
    assert model.facts.requests == 2


# --- whose token it is ---


@pytest.mark.parametrize("how", ["revoked", "expired"])
def test_a_stream_ends_with_its_token(modelled: Modelled, how: str) -> None:
    """Soon after, with the error that the client knows; nothing more is told, and the turn goes on."""
    gate = Gate()
    service, _ = modelled([Reply(text="one two", late_gate=gate)], toml=OFF, beat=0.05)
    client = Client(service, days=1)
    stream = client.raw("go", stream=True).parse()
    got: list[str] = []
    with ThreadPoolExecutor(1) as pool:
        reading = pool.submit(lambda: got.extend(each.choices[0].delta.content or "" for each in stream))
        gate.wait_reached()
        if how == "revoked":
            service.tokens.revoke(TENANT, client.token.id)
        else:
            service.service.tokens._clock = lambda: client.token.expires_at + 1
        with pytest.raises(openai.APIError) as ended:
            reading.result(PATIENCE)
    assert ended.value.code == "invalid_api_key"
    assert "".join(got) != "one two"
    gate.open()
    until(lambda: said(service) == ["go", "one two"])
