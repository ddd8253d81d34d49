"""Bodies that cannot be read."""

from __future__ import annotations

import pytest

from surfaces.http.conftest import Running

JSON = {"content-type": "application/json"}


@pytest.mark.parametrize("depth", [300, 1_100, 5_000, 1_000_000])
@pytest.mark.parametrize(
    ("method", "path", "field"),
    [
        ("POST", "/v1/memory/records", '"key":"k","payload"'),
        ("POST", "/v1/memory/recall", '"query"'),
        ("PUT", "/v1/profiles/user/ana", '"version":"v","text"'),
        ("POST", "/v1/purges", '"target"'),
        ("POST", "/v1/tokens", '"roles"'),
    ],
)
def test_json_that_is_nested_too_deeply_is_refused(
    service: Running, method: str, path: str, field: str, depth: int
) -> None:
    """However deep it is, it is the request that is wrong, and no defect of the service."""
    body = f"{{{field}:{'[' * depth}{']' * depth}}}"
    answer = service.of("admin").request(method, path, content=body, headers=JSON)
    assert answer.status_code == 400, answer.text
    assert answer.headers["content-type"] == "application/problem+json"


def test_a_defect_that_goes_too_deep_stays_one(service: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    """A recursion of ours is answered as a defect, not as a fault of the request."""

    def deep(*given: object) -> None:
        deep(*given)

    monkeypatch.setattr("stratalog.surfaces.http.routes_memory.records_found", deep)
    assert service.of("admin").post("/v1/memory/recall", json={"query": "a"}).status_code == 500
