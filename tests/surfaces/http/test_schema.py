"""The OpenAPI document: it is served, it is complete, and the service does what it says."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis.errors import Unsatisfiable
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from stratalog.surfaces.http.app import create_app
from stratalog.surfaces.http.errors import is_openai
from stratalog.surfaces.http.openai_shapes import ChatRequest
from stratalog.surfaces.http.settings import HttpSettings
from surfaces.http.conftest import Running, configure, running

_EVERYWHERE = {"400", "401", "403", "413", "421", "429", "500", "503"}
_OPEN = {"/health", "/ready"}
EXAMPLES = 12 if "STRATALOG_LONG" in os.environ else 4  # of each route, fitting and not
_PROBLEM = {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}}
_AS_OPENAI = {"application/json": {"schema": {"$ref": "#/components/schemas/OpenAIProblem"}}}


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """One server for all that is asked here, with no limit on how often."""
    data = tmp_path_factory.mktemp("schema") / "data"
    configure(data, model="extractive")
    with running(data, rate=1e9, burst=1_000_000) as made:
        yield made


@schemathesis.serializer("application/x-ndjson")
def _lines(context: Any, value: Any) -> bytes:
    return value if isinstance(value, bytes) else str(value).encode()


# The application opens nothing before it is served: its document can be read without.
_SCHEMA = schemathesis.openapi.from_dict(
    create_app(Path("unused"), HttpSettings()).openapi_schema.to_schema()
)
_OPERATIONS = [each.ok() for each in _SCHEMA.get_all_operations()]
_CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]


@pytest.mark.parametrize("operation", _OPERATIONS, ids=lambda each: each.label)
@pytest.mark.parametrize("mode", [GenerationMode.POSITIVE, GenerationMode.NEGATIVE])
def test_every_route_does_what_the_document_says(operation: Any, mode: Any, asked: Running) -> None:
    """Whatever is sent, fitting or not: a status, a type and a body that the document has, and never a defect
    of the service."""
    headers = {"authorization": f"Bearer {asked.tokens.make('acme', roles=['admin']).text}"}

    @settings(max_examples=EXAMPLES, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
    @given(case=operation.as_strategy(generation_mode=mode))
    def ask(case: Any) -> None:
        case.call_and_validate(base_url=asked.url, headers=headers, checks=_CHECKS, timeout=60)

    try:
        ask()
    except Unsatisfiable:
        assert mode is GenerationMode.NEGATIVE  # a route without fields, for which all fits


def test_the_document_is_whole(service: Running) -> None:
    """It asks for no token; every operation has a name, a summary, its security, and all the problems that
    any route may answer, with a schema, as problem+json or as OpenAI's clients know them."""
    made = service.client().get("/schema/openapi.json")
    assert made.status_code == 200
    document = made.json()
    assert document["components"]["securitySchemes"]["token"]["scheme"] == "bearer"
    names: list[str] = []
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            where = f"{method} {path}"
            names.append(operation["operationId"])
            assert operation["summary"], where
            assert operation["tags"], where
            if path in _OPEN:
                assert operation["security"] == [{}], where
                continue
            assert operation.get("security", document["security"]) == [{"token": []}], where
            assert set(operation["responses"]) >= _EVERYWHERE, where
            for status, response in operation["responses"].items():
                for kind, content in response.get("content", {}).items():
                    assert content["schema"], f"{where} {status} {kind}"
                if status >= "400":
                    assert response["content"] == (_AS_OPENAI if is_openai(path) else _PROBLEM), where
    assert len(set(names)) == len(names)


def test_completions_are_in_the_document(service: Running) -> None:
    """What is sent, with further fields allowed, and both forms of what is answered; the models as well."""
    document = service.client().get("/schema/openapi.json").json()
    shapes = document["components"]["schemas"]
    operation = document["paths"]["/v1/chat/completions"]["post"]
    sent = operation["requestBody"]
    assert sent == {
        "content": {"application/json": {"schema": {"$ref": "#/components/schemas/ChatRequest"}}},
        "required": True,
    }
    assert set(shapes["ChatRequest"]["properties"]) == set(ChatRequest.__struct_fields__)
    assert shapes["ChatRequest"]["required"] == ["messages", "model"]
    assert "additionalProperties" not in shapes["ChatRequest"]
    kinds = operation["responses"]["200"]["content"]
    assert kinds["application/json"]["schema"] == {"$ref": "#/components/schemas/ChatCompletion"}
    events = kinds["text/event-stream"]["schema"]
    assert events["contentSchema"] == {"$ref": "#/components/schemas/ChatCompletionChunk"}
    assert {"404", "409", "502", "507"} <= set(operation["responses"])
    assert {each["name"] for each in operation["parameters"]} >= {"x-stratalog-session", "idempotency-key"}
    assert set(operation["responses"]["200"]["headers"]) >= {"x-stratalog-session", "x-stratalog-turn"}
    for path, shape in (("/v1/models", "ModelList"), ("/v1/models/{model}", "ModelView")):
        answered = document["paths"][path]["get"]["responses"]["200"]["content"]
        assert answered == {"application/json": {"schema": {"$ref": f"#/components/schemas/{shape}"}}}


def test_nothing_is_loaded_from_elsewhere(service: Running) -> None:
    """The document is JSON alone: there is no page that would fetch scripts from other hosts."""
    client = service.client()
    assert client.get("/schema").status_code in (200, 404)
    for path in ("/schema/swagger", "/schema/redoc", "/schema/elements", "/schema/rapidoc"):
        assert client.get(path).status_code == 404


def test_what_serves_is_loaded_by_nothing_else(tmp_path: Path) -> None:
    """`import stratalog` and the command line load no web server."""
    code = (
        "import sys, stratalog, stratalog.aio, stratalog.agent, stratalog.surfaces.cli.app;"
        "print([name for name in ('litestar', 'uvicorn', 'prometheus_client', 'opentelemetry')"
        " if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
