"""Purges over HTTP: looked at first, then confirmed, with a receipt."""

from __future__ import annotations

import pytest

from stratalog import Stratalog, points
from stratalog.engine.purging import purge
from stratalog.engine.remembering import ADMIN, Records, Selector
from stratalog.errors import StorageFailed
from surfaces.http.conftest import Running

SESSIONS = "/v1/agents/helper/sessions"


def _fill(service: Running) -> None:
    for user in ("ana", "ben"):
        client = service.of("user", user=user)
        assert client.post(f"{SESSIONS}/{user}/messages", json={"content": "quokka"}).status_code == 200
        client.post("/v1/memory/records", json={"key": "pet", "text": f"{user} has a quokka"})


def _bytes(service: Running) -> int:
    return sum(path.read_bytes().count(b"ana has") for path in service.data.rglob("*") if path.is_file())


def test_a_purge_is_looked_at_then_confirmed(service: Running) -> None:
    """Without `confirm` nothing changes; with it all of the user's is gone, and the receipt says so."""
    _fill(service)
    admin, ana = service.of("admin"), service.of("user", user="ana")
    body = {"target": {"kind": "user", "id": "ana"}}
    look = admin.post("/v1/purges", json=body).json()
    assert look["dry_run"]
    records = next(each for each in look["stores"] if each["store"] == "records")
    assert records["before"]["records"] == records["after"]["records"] == 1
    assert len(ana.get("/v1/memory/records").json()["records"]) == 1
    done = admin.post("/v1/purges", json={**body, "confirm": True}).json()
    assert not done["dry_run"]
    assert [each["before"] for each in done["stores"]] == [each["before"] for each in look["stores"]]
    assert all(number == 0 for each in done["stores"] for number in each["after"].values())
    assert ana.get("/v1/memory/records").json()["records"] == []
    assert ana.get(SESSIONS).json()["sessions"] == []
    assert ana.get("/v1/search", params={"query": "quokka"}).json()["hits"] == []
    assert _bytes(service) == 0
    ben = service.of("user", user="ben")
    assert len(ben.get(SESSIONS).json()["sessions"]) == 1
    assert ben.get("/v1/search", params={"query": "quokka"}).json()["hits"]
    told = admin.get("/v1/audit", params={"call": "purge"}).json()["lines"]
    assert [line["reason"] for line in told] == ["user", "user, as a dry run"]
    again = admin.post("/v1/purges", json={**body, "confirm": True}).json()
    assert all(number == 0 for each in again["stores"] for number in each["before"].values())


def test_who_may_purge_what(service: Running) -> None:
    """Admins alone, of their own tenant; what selects nothing is refused."""
    _fill(service)
    body = {"target": {"kind": "user", "id": "ana"}, "confirm": True}
    for client in (service.of("user", user="ana"), service.of("agent")):
        assert client.post("/v1/purges", json=body).status_code == 403
        assert client.get("/v1/purges/unfinished").status_code == 403
        assert client.post("/v1/purges/resume").status_code == 403
    admin, other = service.of("admin"), service.of("admin", tenant="zeta")
    theirs = {"target": {"kind": "session", "id": "acme/helper:http:ana"}, "confirm": True}
    assert other.post("/v1/purges", json=theirs).status_code == 404
    whole = {"target": {"kind": "tenant"}, "confirm": True}
    assert other.post("/v1/purges", json=whole).status_code == 200
    assert len(admin.get(SESSIONS).json()["sessions"]) == 2
    for target in ({"kind": "user"}, {"kind": "tenant", "id": "acme"}, {"kind": "all"}):
        assert admin.post("/v1/purges", json={"target": target, "confirm": True}).status_code == 400
    assert admin.post("/v1/purges", json=whole).status_code == 200
    assert admin.get(SESSIONS).json()["sessions"] == []
    assert admin.get("/v1/memory/records", params={"everyone": True}).json()["records"] == []


def test_a_purge_that_was_cut_short_is_finished(service: Running) -> None:
    """It is told of until it is finished, and its receipt says that it was resumed."""
    _fill(service)
    admin = service.of("admin")
    assert admin.get("/v1/purges/unfinished").json()["target"] is None
    assert admin.post("/v1/purges/resume").json() == {"receipts": []}

    def cut() -> None:
        raise StorageFailed("the disk is away")

    with Stratalog(service.data, tenant="acme") as memory, Records(memory) as records:
        points.arm("purging.intended", act=cut)
        try:
            with pytest.raises(StorageFailed):
                purge(memory, records, records.caller(roles=(ADMIN,)), Selector("user", "ana"))
        finally:
            points.disarm()
    left = admin.get("/v1/purges/unfinished").json()
    assert (left["target"], left["environment"]) == ({"kind": "user", "id": "ana"}, "production")
    (receipt,) = admin.post("/v1/purges/resume").json()["receipts"]
    assert receipt["resumed"]
    assert admin.get("/v1/purges/unfinished").json()["target"] is None
    assert _bytes(service) == 0
