"""What is refused leaves a line in the audit, and no flood of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from stratalog.engine.auditing import nobodys_audit
from surfaces.http.conftest import Running, running
from surfaces.http.paging import every

RECORDS = "/v1/memory/records"


def _refused(admin: httpx.Client, **query: Any) -> list[dict[str, Any]]:
    return every(admin, "/v1/audit", "lines", ending="refused", **query)


@pytest.fixture
def freely(data: Path) -> Iterator[Running]:
    """A server that may be asked as often as one likes."""
    with running(data, burst=1_000) as made:
        yield made


def test_each_refusal_has_a_line(service: Running) -> None:
    """Of a role, another user, another tenant, what is not for a token, and a token that holds no more: which
    token, whose, what was asked and why."""
    admin = service.of("admin")
    made = service.tokens.make("acme", roles=["user"], user="ana")
    ana = service.client(made.text)
    assert ana.get("/v1/tokens").status_code == 403
    assert ana.get(RECORDS, headers={"stratalog-user": "ben"}).status_code == 403
    assert ana.get(RECORDS, params={"session": "zeta/helper:http:c"}).status_code == 404
    assert ana.get(RECORDS, params={"scope": "session:zeta/helper:http:c"}).status_code == 404
    assert ana.get(RECORDS, params={"agent": "helper"}).status_code == 403
    assert ana.get(RECORDS, params={"scope": "user:ben"}).status_code == 403
    service.tokens.revoke("acme", made.token.id)
    assert ana.get("/v1/agents/a/sessions/secret").status_code == 401
    lines = list(reversed(_refused(admin)))
    assert [(each["call"], each["reason"]) for each in lines] == [
        ("GET /v1/tokens", "this needs the role admin"),
        (f"GET {RECORDS}", "this token is for another user"),
        (f"GET {RECORDS}", "a session of another tenant was named"),
        (f"GET {RECORDS}", "this token asks for its user alone"),
        ("list", "the scope is not the caller's"),
        ("GET /v1/agents/a/sessions/secret", "the token is revoked"),
    ]
    assert {(each["token"], each["user"]) for each in lines} == {(made.token.id, "ana")}
    assert lines[1]["scopes"] == [{"kind": "user", "id": "ben"}]
    assert lines[0]["roles"] == ["user"]
    assert made.text.rpartition("_")[2] not in str(lines)


def test_what_is_not_there_is_no_refusal(service: Running) -> None:
    """Neither an id that nobody has, nor a session of another user, nor a request that cannot be read."""
    admin, ana = service.of("admin"), service.of("user", user="ana")
    ben = service.of("user", user="ben")
    ben.post("/v1/agents/a/sessions", json={"chat": "bens"})
    assert ana.get("/v1/agents/a/sessions/bens").status_code == 404
    assert ana.get(f"{RECORDS}/{'0' * 26}").status_code == 404
    assert ana.get("/v1/nowhere").status_code == 404
    assert ana.get(RECORDS, params={"limit": 0}).status_code == 400
    assert service.client().get(RECORDS).status_code == 401  # it brought no token
    assert _refused(admin) == []
    assert list(nobodys_audit(service.data)) == []


def test_who_asks_without_end_leaves_a_trace_and_no_flood(freely: Running) -> None:
    """A hundred refusals that are alike have three lines; the users that are named make them no others; those
    of another tenant's token are that tenant's, and unknown tokens nobody's."""
    admin = freely.of("admin")
    ana, zoe = freely.of("user", user="ana"), freely.of("user", user="zoe", tenant="zeta")
    for number in range(100):
        assert ana.get(RECORDS, headers={"stratalog-user": f"u{number}"}).status_code == 403
        assert freely.client(f"strata_{number:012x}_00").get(RECORDS).status_code == 401
    zoe.get("/v1/tokens")
    assert [each["counts"]["times"] for each in _refused(admin)] == [100, 10, 1]
    assert [each.counts["times"] for each in nobodys_audit(freely.data)] == [1, 10, 100]
    assert [each["call"] for each in _refused(freely.of("admin", tenant="zeta"))] == ["GET /v1/tokens"]


def test_what_is_done_names_the_token_too(service: Running) -> None:
    """Records and what is changed beside them are told with the token that asked, and found by it."""
    made = service.tokens.make("acme", roles=["admin"], name="root")
    admin, ana = service.client(made.text), service.of("user", user="ana")
    draft = {"key": "home", "text": "hush"}
    ana.post(RECORDS, json=draft)
    admin.post(RECORDS, json=draft, headers={"stratalog-user": "ben"})
    admin.post("/v1/tokens", json={"roles": ["metrics"]})
    admin.post("/v1/purges", json={"target": {"kind": "user", "id": "ben"}, "confirm": True})
    told = every(admin, "/v1/audit", "lines", token=made.token.id)
    assert [each["call"] for each in told] == ["confirm_purge", "purge", "make_token", "remember"]
    assert {each["token"] for each in every(admin, "/v1/audit", "lines", user="ana")} != {made.token.id}
    assert made.token.id not in str([each["reason"] for each in told])
