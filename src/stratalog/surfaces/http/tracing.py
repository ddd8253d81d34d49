"""Spans of OpenTelemetry, where it is installed: one for each request and one for each turn.

Only its interface is used. Where spans go is the operator's to say, by the SDK's own settings.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from importlib.metadata import entry_points
from typing import Any, Protocol

from stratalog.engine.serving_streams import Done
from stratalog.engine.serving_turns import Ended

_log = logging.getLogger(__name__)
_OTLP = {"": "otlp", "grpc": "otlp_proto_grpc", "http/protobuf": "otlp_proto_http"}  # exporters by protocol


class Span(Protocol):
    """A request under way."""

    def end(self, route: str, status: int) -> None:
        """Says by which route it went, and how it was answered."""
        ...


class Tracing(Protocol):
    """Where spans are made."""

    @contextmanager
    def request(self, scope: MutableMapping[str, Any], headers: Mapping[bytes, bytes]) -> Iterator[Span]:
        """A request, for a `with` block."""
        ...

    def turn(self, ended: Ended) -> None:
        """A turn that ended."""
        ...


class Untraced:
    """Makes none."""

    @contextmanager
    def request(self, scope: MutableMapping[str, Any], headers: Mapping[bytes, bytes]) -> Iterator[Span]:
        yield self

    def end(self, route: str, status: int) -> None:
        pass

    def turn(self, ended: Ended) -> None:
        pass


def tracing(provider: Any = None) -> Tracing:
    """OpenTelemetry's, by this provider of tracers or the process's own; else what makes no spans."""
    try:
        from opentelemetry import context, propagate, trace
    except ModuleNotFoundError:
        return Untraced()
    tracer = trace.get_tracer("stratalog", tracer_provider=provider)

    class _Span:
        def __init__(self, span: trace.Span, method: str) -> None:
            self._span, self._method = span, method

        def end(self, route: str, status: int) -> None:
            self._span.update_name(f"{self._method} {route}")
            self._span.set_attributes({"http.route": route, "http.response.status_code": status})
            if status >= 500:
                self._span.set_status(trace.StatusCode.ERROR)

    class _Traced:
        @contextmanager
        def request(self, scope: MutableMapping[str, Any], headers: Mapping[bytes, bytes]) -> Iterator[Span]:
            carrier = {name.decode("latin-1"): value.decode("latin-1") for name, value in headers.items()}
            token = context.attach(propagate.extract(carrier))
            try:
                with tracer.start_as_current_span(
                    f"{scope['method']}",
                    kind=trace.SpanKind.SERVER,
                    attributes={"http.request.method": scope["method"]},
                ) as span:
                    yield _Span(span, scope["method"])
            finally:
                context.detach(token)

        def turn(self, ended: Ended) -> None:
            now = time.time_ns()
            ending = ended.ending
            span = tracer.start_span(
                "turn",
                context=context.Context(),
                start_time=now - int(ended.seconds * 1e9),
                attributes={
                    "stratalog.turn": ending.turn,
                    "stratalog.agent": ended.key.agent,
                    "stratalog.status": "answered" if isinstance(ending, Done) else ending.status,
                },
            )
            usage = ending.usage if isinstance(ending, Done) else None
            if usage is not None:
                span.set_attribute("gen_ai.usage.input_tokens", usage.input)
                span.set_attribute("gen_ai.usage.output_tokens", usage.output)
            span.end(end_time=now)

    return _Traced()


def exporter_of(variables: Mapping[str, str]) -> str:
    """Which exporter the variables of OpenTelemetry ask for, as its packages name it; "" for none."""
    sent = any(variables.get(f"OTEL_EXPORTER_OTLP_{name}") for name in ("ENDPOINT", "TRACES_ENDPOINT"))
    name = variables.get("OTEL_TRACES_EXPORTER") or ("otlp" if sent else "none")
    if name == "none" or variables.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return ""
    told = (variables.get(f"OTEL_EXPORTER_OTLP_{which}") for which in ("TRACES_PROTOCOL", "PROTOCOL"))
    protocol = next(filter(None, told), "")
    return _OTLP.get(protocol, name) if name == "otlp" else name


def exporting(variables: Mapping[str, str]) -> Any:
    """A provider of tracers that sends spans where these variables say; None where they say nothing, where
    what they ask for is not installed, which the log tells, or where the process has a provider."""
    name = exporter_of(variables)
    if not name:
        return None
    try:
        from opentelemetry import trace
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ModuleNotFoundError:
        _log.warning("no spans are sent: opentelemetry-sdk is not installed, and OTEL_… asks for %s", name)
        return None
    if isinstance(trace.get_tracer_provider(), TracerProvider):
        return None
    found = tuple(entry_points(group="opentelemetry_traces_exporter", name=name))
    if not found:
        _log.warning("no spans are sent: no exporter %s, which OTEL_… asks for, is installed", name)
        return None
    provider = TracerProvider()
    provider.add_span_processor(BatchSpanProcessor(found[0].load()()))
    return provider
