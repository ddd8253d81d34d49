"""Tokens over HTTP: an admin's, of its own tenant."""

from __future__ import annotations

from surfaces.http.conftest import Running
from surfaces.http.paging import every


def test_an_admin_makes_and_revokes_tokens(service: Running) -> None:
    """The text is told once; it holds until it is revoked."""
    admin = service.of("admin")
    made = admin.post("/v1/tokens", json={"roles": ["user"], "user": "ana", "name": "phone"})
    assert made.status_code == 201
    view = made.json()
    phone = service.client(view["token"])
    assert phone.get("/v1/agents/a/sessions").status_code == 200
    listed = admin.get("/v1/tokens").json()["tokens"]
    assert [each["name"] for each in listed if each["id"] == view["id"]] == ["phone"]
    assert all(each["token"] == "" for each in listed)
    assert admin.delete(f"/v1/tokens/{view['id']}").json()["revoked_at"] > 0
    assert phone.get("/v1/agents/a/sessions").status_code == 401
    assert admin.delete("/v1/tokens/nonesuch").status_code == 404


def test_tokens_are_for_admins_of_their_tenant(service: Running) -> None:
    """Nobody else makes one, none is made for another tenant, and another tenant's is not there."""
    body = {"roles": ["admin"]}
    for client in (service.of("user", user="ana"), service.of("agent"), service.of("metrics")):
        assert client.post("/v1/tokens", json=body).status_code == 403
        assert client.get("/v1/tokens").status_code == 403
    other = service.tokens.make("zeta", roles=["admin"])
    admin = service.of("admin")
    assert admin.delete(f"/v1/tokens/{other.token.id}").status_code == 404
    assert admin.post("/v1/tokens", json={**body, "tenant": "zeta"}).status_code == 400
    made = admin.post("/v1/tokens", json=body).json()
    assert [each.tenant for each in service.tokens.list("zeta")] == ["zeta"]
    assert made["id"] in [each.id for each in service.tokens.list("acme")]
    assert admin.post("/v1/tokens", json={"roles": ["user"]}).status_code == 400
    assert admin.post("/v1/tokens", json={"roles": ["root"]}).status_code == 400


def test_tokens_are_listed_in_pages(service: Running) -> None:
    """Each once, the newest first, also of those that were made at the same moment; a place that no page told
    is refused."""
    admin = service.of("admin")
    ids = {service.tokens.make("acme", roles=["agent"]).token.id for _ in range(12)}
    listed = every(admin, "/v1/tokens", "tokens")
    assert ids < {each["id"] for each in listed}
    assert len(listed) == len({each["id"] for each in listed}) == 13
    assert [each["id"] for each in listed] == [each.id for each in service.tokens.list("acme")]
    for cursor in ("x", "-1:000000000000", "1:", "1:" + "g" * 12, "9" * 30 + ":" + "0" * 12):
        assert admin.get("/v1/tokens", params={"cursor": cursor}).status_code == 400
