"""No route of memory reaches another tenant, whatever ids it is given."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from stratalog import Stratalog
from stratalog.engine.background import jobs_of
from stratalog.engine.holding import quarantine_of
from surfaces.http.conftest import Running

_TAGS = {"memory", "search", "profiles", "documents", "jobs", "audit", "quarantine", "purges"}
KEY = "zeta/helper:http:c"
BUNDLE = {"content-type": "application/x-ndjson"}
TEXT = {"content-type": "text/plain"}

# What a token of another tenant asks, by the names of the operations, and what it gets; `{…}` are ids of
# zeta. A name alone, which is no id, is its own tenant's: nothing of that name is there.
ASKED: dict[str, list[tuple[str, str, dict[str, Any], int]]] = {
    "remember": [
        ("POST", "/v1/memory/records?session=" + KEY, {"json": {"key": "k", "text": "t"}}, 404),
        (
            "POST",
            "/v1/memory/records",
            {"json": {"key": "k", "text": "t", "scope": "user:x", "sources": [{"session": KEY, "entry": 1}]}},
            404,
        ),
        ("POST", "/v1/memory/records", {"json": {"key": "k", "text": "t", "scope": "session:" + KEY}}, 404),
    ],
    "listRecords": [
        ("GET", "/v1/memory/records?everyone=true", {}, 200),
        ("GET", "/v1/memory/records?scope=user:zoe", {}, 200),
        ("GET", "/v1/memory/records?scope=session:" + KEY, {}, 404),
        ("GET", "/v1/memory/records?session=" + KEY, {}, 404),
    ],
    "getRecord": [("GET", "/v1/memory/records/{record}", {}, 404)],
    "getRecordHistory": [("GET", "/v1/memory/records/{record}/history", {}, 404)],
    "listHistory": [
        ("GET", "/v1/memory/history?id={record}", {}, 200),
        ("GET", "/v1/memory/history?scope=user:zoe", {}, 200),
    ],
    "forgetRecord": [("DELETE", "/v1/memory/records/{record}", {}, 404)],
    "forgetKey": [
        ("DELETE", "/v1/memory/records?key=pet&scope=session:" + KEY, {}, 404),
        ("DELETE", "/v1/memory/records?key=pet&scope=user:zoe", {}, 200),
    ],
    "recall": [
        ("POST", "/v1/memory/recall", {"json": {"query": "quokka"}}, 200),
        ("POST", "/v1/memory/recall?session=" + KEY, {"json": {"query": "quokka"}}, 404),
    ],
    "consolidate": [("POST", "/v1/memory/consolidate", {}, 202)],
    "exportRecords": [
        ("GET", "/v1/memory/export?everyone=true", {}, 200),
        ("GET", "/v1/memory/export?session=" + KEY, {}, 404),
    ],
    "importRecords": [("POST", "/v1/memory/import", {"content": "{bundle}", "headers": BUNDLE}, 403)],
    "search": [
        ("GET", "/v1/search?query=quokka&records=true&documents=true", {}, 200),
        ("GET", "/v1/search?query=quokka&session=" + KEY, {}, 404),
    ],
    "listProfiles": [("GET", "/v1/profiles", {}, 200)],
    "getProfile": [("GET", "/v1/profiles/user/zoe", {}, 200)],
    "editProfile": [("PUT", "/v1/profiles/user/zoe", {"json": {"text": "x", "version": "{version}"}}, 409)],
    "undoProfile": [("POST", "/v1/profiles/user/zoe/undo", {}, 404)],
    "listProfileVersions": [("GET", "/v1/profiles/user/zoe/versions", {}, 200)],
    "listCollections": [("GET", "/v1/kb/collections", {}, 200)],
    "removeCollection": [("DELETE", "/v1/kb/collections?collection=default", {}, 404)],
    "listDocuments": [
        ("GET", "/v1/kb/documents", {}, 200),
        ("GET", "/v1/kb/documents?collection=default", {}, 404),
    ],
    "addDocument": [
        ("POST", "/v1/kb/documents?collection=own&name=..%2Fzeta%2Fx", {"content": "y", "headers": TEXT}, 200)
    ],
    "getDocument": [("GET", "/v1/kb/documents/{document}", {}, 404)],
    "listChunks": [("GET", "/v1/kb/documents/{document}/chunks", {}, 404)],
    "removeDocument": [("DELETE", "/v1/kb/documents/{document}", {}, 404)],
    "searchDocuments": [
        ("GET", "/v1/kb/search?query=quokka", {}, 200),
        ("GET", "/v1/kb/search?query=quokka&collection=default", {}, 404),
    ],
    "listJobs": [("GET", "/v1/jobs", {}, 200)],
    "getJob": [("GET", "/v1/jobs/{job}", {}, 404)],
    "retryJob": [("POST", "/v1/jobs/{job}/retry", {}, 404)],
    "retryJobs": [("POST", "/v1/jobs/retry", {}, 200)],
    "runJob": [("POST", "/v1/jobs/{job}/run", {}, 404)],
    "listAudit": [("GET", "/v1/audit", {}, 200)],
    "listQuarantine": [("GET", "/v1/quarantine", {}, 200)],
    "getQuarantined": [("GET", "/v1/quarantine/{held}", {}, 404)],
    "release": [("POST", "/v1/quarantine/{held}/release", {}, 404)],
    "reject": [("POST", "/v1/quarantine/{held}/reject", {}, 404)],
    "purge": [
        ("POST", "/v1/purges", {"json": {"target": {"kind": "session", "id": KEY}, "confirm": True}}, 404),
        ("POST", "/v1/purges", {"json": {"target": {"kind": "user", "id": "zoe"}, "confirm": True}}, 200),
        ("POST", "/v1/purges", {"json": {"target": {"kind": "tenant"}, "confirm": True}}, 200),
    ],
    "getUnfinishedPurge": [("GET", "/v1/purges/unfinished", {}, 200)],
    "resumePurge": [("POST", "/v1/purges/resume", {}, 200)],
}


@pytest.fixture
def ids(service: Running) -> dict[str, str]:
    """Ids of everything that the tenant `zeta` has; its words speak of a quokka."""
    zoe, admin = service.of("user", user="zoe", tenant="zeta"), service.of("admin", tenant="zeta")
    said = zoe.post("/v1/agents/helper/sessions/c/messages", json={"content": "a quokka"})
    assert said.status_code == 200
    record = zoe.post("/v1/memory/records", json={"key": "pet", "text": "a quokka"}).json()["record"]
    page = zoe.get("/v1/profiles/user/zoe").json()
    for text in ("a quokka", "the quokka"):
        page = zoe.put("/v1/profiles/user/zoe", json={"text": text, "version": page["version"]}).json()
    document = admin.post(
        "/v1/kb/documents", params={"name": "q.txt"}, content="a quokka", headers=TEXT
    ).json()["document"]
    with Stratalog(service.data, tenant="zeta") as memory:
        with closing(jobs_of(memory)) as jobs:
            job = jobs.put("consolidate", "")
            taken = jobs.claim(job.id, lease_ms=1_000)
            assert taken is not None
            jobs.failed(taken, "a quokka", retry_at=None)
        with quarantine_of(memory) as quarantine:
            held = quarantine.put("0" * 64, text="a quokka", origin="tool", level=2, reasons=("odd",))
    bundle = admin.get("/v1/memory/export", params={"everyone": True}).text
    return {
        "record": record["id"],
        "version": page["version"],
        "document": document["id"],
        "job": job.id,
        "held": held.id,
        "bundle": bundle,
    }


def _files(directory: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted(directory.rglob("*")) if path.is_file()}


def _put(value: Any, ids: dict[str, str]) -> Any:
    if isinstance(value, dict):
        return {name: _put(each, ids) for name, each in value.items()}
    for name, id in ids.items():
        value = value.replace(f"{{{name}}}", id) if isinstance(value, str) else value
    return value


def _operations(service: Running) -> Iterator[str]:
    document = service.client().get("/schema/openapi.json").json()
    for operations in document["paths"].values():
        for operation in operations.values():
            if _TAGS & set(operation["tags"]):
                yield operation["operationId"]


def test_another_tenants_ids_are_nothing(service: Running, ids: dict[str, str]) -> None:
    """Whoever is admin elsewhere gets for them what it gets for ids that nobody has, sees no word of that
    tenant, and changes none of its bytes. Every route is asked."""
    admin = service.of("admin")
    before = _files(service.data / "zeta")
    assert any(b"quokka" in data for data in before.values())
    for asked in ASKED.values():
        for method, path, body, status in asked:
            answer = admin.request(method, _put(path, ids), **_put(body, ids))
            assert answer.status_code == status, f"{method} {path}: {answer.text}"
            assert "a quokka" not in answer.text, path
    assert _files(service.data / "zeta") == before
    assert sorted(ASKED) == sorted(_operations(service))


def test_a_tenant_is_named_by_its_token_alone(service: Running, ids: dict[str, str]) -> None:
    """No header and no field names another."""
    admin = service.of("admin")
    for headers in ({"stratalog-tenant": "zeta"}, {"tenant": "zeta"}, {"x-tenant": "zeta"}):
        assert admin.get("/v1/kb/documents", headers=headers).json()["documents"] == []
    assert admin.get("/v1/kb/documents", params={"tenant": "zeta"}).status_code == 400
    assert admin.get("/v1/memory/records", headers={"stratalog-user": "zeta/zoe"}).status_code == 400
