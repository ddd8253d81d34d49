"""What an operator sees: readiness, metrics, spans."""

from __future__ import annotations

from pathlib import Path

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from prometheus_client.parser import text_string_to_metric_families

from stratalog.surfaces.http.app import create_app
from stratalog.surfaces.http.running import Server
from stratalog.surfaces.http.settings import http_settings
from stratalog.surfaces.http.tracing import exporter_of, exporting, tracing
from surfaces.http.conftest import Running, running


def _samples(service: Running) -> dict[tuple[str, ...], float]:
    """What is counted, by its name and its labels' values."""
    text = service.of("metrics").get("/metrics")
    assert text.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(text.text)
        for sample in family.samples
    }


def test_what_happens_is_counted(service: Running) -> None:
    """Requests by the template of their route, turns by how they ended, tokens, and nothing that names
    anybody."""
    client = service.of("user", user="ana-who-is-secret")
    for chat in ("one-secret", "two-secret"):
        path = f"/v1/agents/helper-secret/sessions/{chat}/messages"
        assert client.post(path, json={"content": "Hello"}).status_code == 200
    client.get("/nowhere-secret")
    service.client().get("/nowhere-secret")
    got = _samples(service)
    route = "/v1/agents/{agent}/sessions/{chat}/messages"
    assert got["stratalog_requests_total", "POST", route, "200"] == 2
    assert got["stratalog_request_seconds_count", "POST", route] == 2
    assert got["stratalog_turns_total", "answered"] == 2
    assert got["stratalog_turn_seconds_count",] == 2
    assert got["stratalog_turns_running",] == got["stratalog_turns_queued",] == 0
    assert got["stratalog_streams_open",] == 0
    assert [each for each in got if each[0].endswith("_total") and each[-1] in ("401", "404")] == [
        ("stratalog_requests_total", "GET", "(none)", "404"),
        ("stratalog_requests_total", "GET", "(none)", "401"),
    ]
    assert not [labels for labels in got if "secret" in "".join(labels)]


def test_it_is_not_ready_once_it_ends(service: Running) -> None:
    """A service that drains says so, takes no message, and what is read is read still."""
    client = service.of("user", user="ana")
    path = "/v1/agents/helper/sessions/c"
    assert client.post(f"{path}/messages", json={"content": "x"}).status_code == 200
    service.do(service.service.turns.drain(1.0))
    ready = service.client().get("/ready")
    assert (ready.status_code, ready.json()) == (503, {"status": "ending"})
    refused = client.post(f"{path}/messages", json={"content": "y"})
    assert (refused.status_code, refused.headers["retry-after"]) == (503, "5")
    assert client.get(path).json()["messages"] == 2
    assert service.client().get("/health").status_code == 200


def test_spans_are_made_where_opentelemetry_is(data: Path) -> None:
    """One for each request, named by its route and within the caller's trace, and one for each turn."""
    spans = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(spans))
    with running(data, traces=tracing(provider)) as service:
        parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
        client = service.of("user", user="ana")
        path = "/v1/agents/helper/sessions/c/messages"
        answer = client.post(path, json={"content": "x"}, headers={"traceparent": parent})
        assert answer.status_code == 200
    found = {span.name: span for span in spans.get_finished_spans()}
    request = found["POST /v1/agents/{agent}/sessions/{chat}/messages"]
    assert request.attributes is not None
    assert request.attributes["http.response.status_code"] == 200
    assert format(request.context.trace_id, "032x") == "0af7651916cd43dd8448eb211c80319c"
    turn = found["turn"]
    assert turn.attributes is not None
    assert turn.attributes["stratalog.status"] == "answered"
    assert turn.attributes["stratalog.turn"] == answer.json()["turn"]


@pytest.mark.parametrize(
    ("variables", "name"),
    [
        ({}, ""),
        ({"OTEL_TRACES_EXPORTER": "none", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://a.example"}, ""),
        ({"OTEL_TRACES_EXPORTER": "console", "OTEL_SDK_DISABLED": "true"}, ""),
        ({"OTEL_TRACES_EXPORTER": "console"}, "console"),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://a.example"}, "otlp"),
        (
            {"OTEL_TRACES_EXPORTER": "otlp", "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf"},
            "otlp_proto_http",
        ),
    ],
)
def test_opentelemetrys_variables_choose_the_exporter(variables: dict[str, str], name: str) -> None:
    """As its own documentation says: none unless one is asked for, and that of the protocol."""
    assert exporter_of(variables) == name


def test_an_exporter_that_is_not_installed_keeps_nothing_from_running(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The log says that no spans are sent."""
    assert exporting({"OTEL_TRACES_EXPORTER": "nonesuch"}) is None
    assert "nonesuch" in caplog.text
    assert exporting({}) is None


def test_an_application_may_be_served_by_another_server() -> None:
    """Nothing happens before it is served: making one opens no file."""
    where = Path("/nowhere/at/all")
    app = create_app(where, http_settings())
    assert Server(app, http_settings()).config.app is app
    assert not where.exists()
