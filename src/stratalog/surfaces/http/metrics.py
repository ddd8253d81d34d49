"""What the service counts, for Prometheus. No label names a tenant, a user, an agent or a session."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from stratalog.engine.serving_streams import Done, Failed
from stratalog.engine.serving_turns import Ended

__all__ = ["CONTENT_TYPE", "Metrics"]

CONTENT_TYPE: Final = "text/plain; version=0.0.4"  # Litestar adds the charset; twice, Prometheus refuses it
_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300)


class Metrics:
    """The counts of one application, in a registry of their own."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._requests = Counter(
            "stratalog_requests", "Requests.", ("method", "route", "status"), registry=self._registry
        )
        self._latency = Histogram(
            "stratalog_request_seconds",
            "From a request to the end of its response.",
            ("method", "route"),
            buckets=_SECONDS,
            registry=self._registry,
        )
        self._turns = Counter(
            "stratalog_turns", "Turns that ended here.", ("status",), registry=self._registry
        )
        self._turn_seconds = Histogram(
            "stratalog_turn_seconds",
            "From a turn's start to its end.",
            buckets=_SECONDS,
            registry=self._registry,
        )
        self._tokens = Counter(
            "stratalog_tokens", "Tokens that models reported.", ("kind",), registry=self._registry
        )

    def watch(self, name: str, help: str, value: Callable[[], float]) -> None:
        """A gauge that is asked for its value."""
        Gauge(f"stratalog_{name}", help, registry=self._registry).set_function(value)

    def request(self, method: str, route: str, status: int, seconds: float) -> None:
        """A request of the route with this template, answered."""
        method = method if method in ("GET", "POST", "PATCH", "PUT", "DELETE", "HEAD", "OPTIONS") else "other"
        self._requests.labels(method, route, str(status)).inc()
        self._latency.labels(method, route).observe(seconds)

    def turn(self, ended: Ended) -> None:
        """A turn that ended."""
        ending = ended.ending
        status = "answered" if isinstance(ending, Done) else ending.status
        self._turns.labels(status).inc()
        if isinstance(ending, Done | Failed):
            self._turn_seconds.observe(ended.seconds)
        usage = ending.usage if isinstance(ending, Done) else None
        if usage is not None:
            self._tokens.labels("input").inc(usage.input)
            self._tokens.labels("output").inc(usage.output)

    def text(self) -> bytes:
        """All of it, as Prometheus reads it."""
        return generate_latest(self._registry)
