"""What a request passes before a route sees it."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest

from stratalog.errors import InvalidConfig
from stratalog.surfaces.access.tokens import FILE
from stratalog.surfaces.access.wire import loopback
from stratalog.surfaces.http.edge import host_refusal, origin_refusal
from stratalog.surfaces.http.settings import http_settings
from surfaces.http.conftest import Running, running


def _is_problem(answer: httpx.Response, status: int) -> dict[str, object]:
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    problem = answer.json()
    assert problem["status"] == status
    assert problem["request"] == answer.headers["x-request-id"]
    return problem


def test_whether_it_runs_is_told_to_anybody(service: Running) -> None:
    """Health and readiness ask for no token."""
    client = service.client()
    told = client.get("/health").json()
    assert (told["status"], told["token"]) == ("ok", True)
    assert client.get("/ready").json() == {"status": "ready"}


@pytest.mark.parametrize("path", ["/v1/agents/a/sessions", "/metrics", "/nowhere", "/health/../metrics"])
@pytest.mark.parametrize(
    "header",
    [None, "", "Bearer", "Bearer strata_0_0", "Basic YTpi", "strata_0_0", "Bearer \xff\xfe"],
)
def test_nobody_without_a_token_learns_anything(service: Running, path: str, header: str | None) -> None:
    """Every path, also one that there is not, answers 401 and how to authenticate."""
    headers = {} if header is None else {"authorization": header.encode("latin-1")}
    problem = _is_problem(service.client().get(path, headers=headers), 401)
    assert "token" in str(problem["detail"])


def test_a_revoked_token_is_refused_at_once(service: Running) -> None:
    """The request after the revocation is refused."""
    made = service.tokens.make("acme", roles=["admin"])
    client = service.client(made.text)
    assert client.get("/v1/agents/a/sessions").status_code == 200
    service.tokens.revoke("acme", made.token.id)
    assert client.get("/v1/agents/a/sessions").status_code == 401


def test_a_list_of_tokens_that_cannot_be_read_lets_nobody_in(service: Running) -> None:
    """The request is refused with a problem that says nothing of the file."""
    client = service.of("admin")
    service.service.tokens.close()
    service.tokens.close()
    (service.data / FILE).write_bytes(b"not a database at all, but long enough to look like one" * 50)
    problem = _is_problem(client.get("/v1/agents/a/sessions"), 500)
    assert problem["error"] == "DamagedLog"
    assert str(service.data) not in str(problem)


def test_a_role_opens_its_own_doors(service: Running) -> None:
    """Metrics need `metrics` or `admin`, and that role does nothing else."""
    path = "/v1/agents/a/sessions"
    assert service.of("user", user="ana").get("/metrics").status_code == 403
    assert service.of("agent").get("/metrics").status_code == 403
    assert service.of("metrics").get("/metrics").status_code == 200
    assert service.of("admin").get("/metrics").status_code == 200
    _is_problem(service.of("metrics").get(path), 403)
    _is_problem(service.of("user", user="ana").get(path, headers={"stratalog-user": "ben"}), 403)


def test_a_page_of_another_origin_may_not_ask(service: Running, data: Path) -> None:
    """An `Origin` that is not the service's own is refused, no CORS header is sent, and one that was named
    is answered."""
    path, origin = "/v1/agents/a/sessions", "https://evil.example"
    client = service.of("admin")
    _is_problem(client.get(path, headers={"origin": origin}), 403)
    _is_problem(client.get(path, headers={"origin": "null"}), 403)
    own = client.get(path, headers={"origin": service.url})
    assert own.status_code == 200
    assert not [name for name in own.headers if name.startswith("access-control")]
    asked = {"origin": origin, "access-control-request-method": "POST"}
    assert service.client().options(path, headers=asked).status_code == 403
    with running(data, origins=[origin]) as other:
        named = other.of("admin").get(path, headers={"origin": origin})
        assert (named.status_code, named.headers["access-control-allow-origin"]) == (200, origin)
        assert other.client().options(path, headers=asked).status_code == 204


def test_another_name_is_not_answered(service: Running) -> None:
    """A `Host` that is not the service's is refused before all else, as a name bent to this machine is."""
    _is_problem(service.client().get("/health", headers={"host": "evil.example"}), 421)
    assert service.client().get("/health", headers={"host": "localhost:99"}).status_code == 200


@pytest.mark.parametrize(
    ("host", "good"),
    [
        ("localhost", True),
        ("LOCALHOST:80", True),
        ("127.0.0.1:1", True),
        ("[::1]:8420", True),
        ("a.example:8420", True),
        ("", False),
        ("b.example", False),
        ("localhost.evil.example", False),
        ("[::2]", False),
        ("[localhost", False),
    ],
)
def test_hosts(host: str, good: bool) -> None:
    """A name is compared whole, without its port and its case."""
    allowed = http_settings(hosts=["a.example"]).hosts
    assert (host_refusal(host, allowed) is None) == good


@pytest.mark.parametrize(
    ("origin", "good"),
    [
        ("", True),
        ("http://localhost:80", True),
        ("https://b.example", True),
        ("https://b.example:444", False),
        ("http://localhost", False),
        ("null", False),
        ("file://localhost:80", False),
        ("http://[", False),
        ("http://evil\xe9", False),
    ],
)
def test_origins(origin: str, good: bool) -> None:
    """The service's own origin has its port too; another must be named to the letter."""
    assert (origin_refusal(origin, "localhost:80", ("https://b.example",)) is None) == good


def test_every_response_is_guarded(service: Running) -> None:
    """Nothing is sniffed, framed, cached or told to others, and an id names the request."""
    answers = [service.client().get("/health"), service.client().get("/x"), service.of("admin").get("/x")]
    for answer in answers:
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["cache-control"] == "no-store"
        assert answer.headers["referrer-policy"] == "no-referrer"
        assert "frame-ancestors 'none'" in answer.headers["content-security-policy"]
        assert answer.headers["x-request-id"]
    assert [answer.status_code for answer in answers] == [200, 401, 404]
    given = service.client().get("/health", headers={"x-request-id": "abcd-1234"})
    assert given.headers["x-request-id"] == "abcd-1234"
    bad = service.client().get("/health", headers={"x-request-id": "<script>!"})
    assert bad.headers["x-request-id"] != "<script>!"


def test_who_asks_too_often_waits(data: Path) -> None:
    """The token that used up its burst gets 429 with the time to wait; another is not held up by it, and
    neither is the look whether the service runs."""
    with running(data, rate=60.0, burst=3) as made:
        client = made.of("admin")
        got = [client.get("/v1/agents/a/sessions") for _ in range(4)]
        assert [answer.status_code for answer in got] == [200, 200, 200, 429]
        assert int(got[3].headers["retry-after"]) >= 1
        _is_problem(got[3], 429)
        assert made.of("admin").get("/v1/agents/a/sessions").status_code == 200
        assert client.get("/health").status_code == 200
        nobody = made.client()
        assert [nobody.get("/x").status_code for _ in range(4)] == [401, 401, 401, 429]


@pytest.mark.parametrize("chunked", [False, True])
def test_a_body_has_its_limit(data: Path, chunked: bool) -> None:
    """A body over the limit is refused with 413, whether or not it says its length; nothing is written."""
    with running(data, body=10_000) as made:
        body = b'{"content": "' + b"x" * 20_000 + b'"}'
        content = iter([body[:9_000], body[9_000:]]) if chunked else body
        headers = {"content-type": "application/json"}
        client = made.of("admin")
        answer = client.post("/v1/agents/a/sessions/c/messages", content=content, headers=headers)
        _is_problem(answer, 413)
        assert client.get("/v1/agents/a/sessions").json()["sessions"] == []


def test_only_this_machine_is_let_in_without_a_token(data: Path) -> None:
    """`--dev` makes everybody an admin of `local`, and is refused where others could ask."""
    with running(data, dev=True) as made:
        assert made.client().get("/v1/agents/a/sessions").status_code == 200
        assert made.client("strata_0_0").get("/v1/agents/a/sessions").status_code == 401
        assert (
            made.client("whatever").get("/v1/agents/a/sessions").status_code == 200
        )  # clients that must send one
        basic = {"authorization": "Basic eDp5"}
        assert made.client().get("/v1/agents/a/sessions", headers=basic).status_code == 401
    for host in ("0.0.0.0", "::", "192.0.2.1", "a.example"):
        with pytest.raises(InvalidConfig):
            http_settings(dev=True, host=host)
    assert [loopback(host) for host in ("localhost", "127.0.0.5", "::1", "10.0.0.1")] == [True] * 3 + [False]


@pytest.mark.parametrize(
    "wrong", [{"origins": ["a.example"]}, {"origins": ["https://a.example/"]}, {"port": "x"}]
)
def test_what_cannot_be_served_is_refused(wrong: dict[str, object]) -> None:
    """Origins that no browser says, and fields of a wrong kind."""
    with pytest.raises(InvalidConfig):
        http_settings(**wrong)  # type: ignore[arg-type]  # wrong on purpose
