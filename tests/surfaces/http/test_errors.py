"""Errors as problems: one table, and nothing of the inside in them."""

from __future__ import annotations

import httpx
import pytest

from stratalog import errors
from stratalog.errors import StratalogError
from stratalog.surfaces.http.errors import STATUSES, failed_problem, kind_named, problem_of, status_of
from surfaces.http.conftest import Running

EVERY = [
    each for each in vars(errors).values() if isinstance(each, type) and issubclass(each, StratalogError)
]


@pytest.mark.parametrize("kind", [each for each in EVERY if each is not StratalogError])
def test_every_error_has_a_status(kind: type[StratalogError]) -> None:
    """Each class of the tree is in the table, by itself or by one above it; no row hides behind another."""
    status, title = status_of(kind)
    assert 400 <= status < 600
    assert title != "Something went wrong here"
    first = next(known for known, _, _ in STATUSES if issubclass(kind, known))
    assert kind not in [known for known, _, _ in STATUSES] or first is kind
    assert kind_named(kind.__name__) is kind


def test_an_unknown_name_is_the_roots() -> None:
    """What is no class of the tree is an error of the service."""
    for name in ("", "annotations", "words_of", "nonesuch"):
        assert kind_named(name) is StratalogError
    assert failed_problem("Defect", "", "interrupted", "t").status == 500


def test_what_is_wrong_inside_stays_inside() -> None:
    """Of an error of the service neither words nor places are told; of one of the request no files are."""
    inside = errors.StorageFailed("cannot open /data/x.jsonl", path="/data/x.jsonl", hint="chmod it")
    told = problem_of(inside, "r1")
    assert (told.status, told.error, told.request) == (500, "StorageFailed", "r1")
    assert (told.detail, told.hint, told.where) == ("", "", {})
    outside = errors.NotFound("no such entry", key="acme/a:b:c", path="/data/x", entry=7, hint="look again")
    told = problem_of(outside)
    assert (told.status, told.detail, told.hint) == (404, "no such entry", "look again")
    assert told.where == {"key": "acme/a:b:c", "entry": 7}


def test_litestars_own_errors_are_problems_too(service: Running) -> None:
    """Paths, methods, fields and bodies that are wrong, each with what is wrong of it."""
    client = service.of("admin")
    path = "/v1/agents/a/sessions"
    said = {"content-type": "application/json"}
    cases: list[tuple[httpx.Response, int]] = [
        (client.get("/nowhere"), 404),
        (client.put(path), 405),
        (client.get(path, params={"limit": "many"}), 400),
        (client.get(path, params={"limit": 100_000}), 400),
        (client.post(path, content=b"{", headers=said), 400),
        (client.post(path, json={"chat": 5}), 400),
        (client.post(path, json={"tenant": "zeta"}), 400),
        (client.post(f"{path}/c/messages", json={}), 400),
    ]
    for answer, status in cases:
        assert answer.status_code == status, answer.text
        assert answer.headers["content-type"] == "application/problem+json"
        problem = answer.json()
        assert problem["status"] == status
        assert problem["request"] == answer.headers["x-request-id"]
        assert "Traceback" not in answer.text
        assert "/src/" not in answer.text
    assert "GET" in cases[1][0].headers["allow"]
    assert cases[2][0].json()["wrong"][0]["field"] == "limit"


def test_a_damaged_log_is_a_problem_without_its_path(service: Running) -> None:
    """A log that cannot be read answers 500, names its kind alone, and the service goes on."""
    client = service.of("admin")
    assert client.post("/v1/agents/a/sessions/c/messages", json={"content": "x"}).status_code == 200
    service.do(service.service.serving.let_go())
    (log,) = (service.data / "acme" / "agents" / "a" / "sessions").glob("*.jsonl")
    log.write_bytes(b"not a log\n")
    answer = client.get("/v1/agents/a/sessions/c/entries")
    assert answer.status_code == 500
    assert str(service.data) not in answer.text
    assert answer.json()["error"] == "ForeignFile"
    assert client.get("/health").status_code == 200


def test_a_defect_is_told_by_its_request_alone(service: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    """An error that is nobody's says nothing of itself."""

    def broken(*given: object, **named: object) -> None:
        raise ZeroDivisionError("a secret of the inside")

    monkeypatch.setattr(service.service.tokens, "page", broken)
    answer = service.of("admin").get("/v1/tokens")
    assert answer.status_code == 500
    assert "secret" not in answer.text
    assert "ZeroDivision" not in answer.text
    assert answer.json()["request"] == answer.headers["x-request-id"]
