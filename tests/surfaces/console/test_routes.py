"""The console over HTTP: who gets it, with which headers."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

pytest.importorskip("litestar", reason="the HTTP service is not installed")

from stratalog.surfaces.console import asset, policy
from surfaces.http.conftest import Running, configure, running


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A server that asks for tokens."""
    data = tmp_path_factory.mktemp("console") / "data"
    configure(data, model="extractive")
    with running(data) as made:
        yield made


@pytest.fixture
def nobody(service: Running) -> httpx.Client:
    """Who has no token."""
    return service.client()


@pytest.mark.parametrize("path", ["/console", "/console/", "/console/index.html"])
def test_the_page_is_for_everybody_with_its_own_policy(nobody: httpx.Client, path: str) -> None:
    """It holds nothing of anybody; the policy is the page's, and none of the answers of the API has it."""
    answer = nobody.get(path)
    found = asset("")
    assert found is not None
    assert (answer.status_code, answer.content) == (200, found.content)
    assert answer.headers["content-security-policy"] == policy()
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["x-frame-options"] == "DENY"
    assert answer.headers["referrer-policy"] == "no-referrer"
    assert answer.headers["cross-origin-opener-policy"] == "same-origin"
    assert "set-cookie" not in answer.headers
    assert nobody.get("/v1/agents/a/sessions").status_code == 401


def test_a_file_is_asked_for_again_and_not_sent_again(nobody: httpx.Client) -> None:
    """Its hash is its version: who has it gets 304, so that a new release is seen at once."""
    first = nobody.get("/console/views/session.js")
    assert first.headers["content-type"] == "text/javascript; charset=utf-8"
    assert first.headers["cache-control"] == "no-cache"
    again = nobody.get("/console/views/session.js", headers={"if-none-match": first.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    other = nobody.get("/console/views/session.js", headers={"if-none-match": '"other"'})
    assert other.content == first.content


@pytest.mark.parametrize(
    "path", ["..%2f..%2f__init__.py", "%2e%2e/app.py", "nope.js", "views", "vendor/..%2fapp.js"]
)
def test_no_path_leads_out(nobody: httpx.Client, path: str) -> None:
    """What is no file of the console is 404, as a problem."""
    answer = nobody.get(f"/console/{path}")
    assert answer.status_code in (401, 404)  # a client that folds the path itself asks elsewhere
    assert answer.headers["content-type"] == "application/problem+json"


def test_the_console_is_not_of_the_api(nobody: httpx.Client) -> None:
    """The OpenAPI document is for programs."""
    document = nobody.get("/schema/openapi.json").json()
    assert not [path for path in document["paths"] if path.startswith("/console")]
