"""Jobs, audit and quarantine over HTTP: what an admin watches over."""

from __future__ import annotations

from contextlib import closing

from stratalog import Stratalog
from stratalog.engine.background import jobs_of
from stratalog.engine.holding import quarantine_of
from surfaces.http.conftest import Running
from surfaces.http.paging import every


def test_jobs_are_listed_retried_and_done(service: Running) -> None:
    """In pages, by state and kind; one that failed waits again, or is done at once."""
    admin = service.of("admin")
    with Stratalog(service.data, tenant="acme") as memory, closing(jobs_of(memory)) as jobs:
        made = [jobs.put("profile", f"p{number}") for number in range(4)]
        due = jobs.put("consolidate", "")
        for each in made[:2]:
            taken = jobs.claim(each.id, lease_ms=1_000)
            assert taken is not None
            jobs.failed(taken, "it broke", retry_at=None)
        odd = jobs.put("unheard of", "")
    listed = every(admin, "/v1/jobs", "jobs")
    assert len(listed) == 6
    assert [each["id"] for each in every(admin, "/v1/jobs", "jobs", state="failed")] == [
        made[1].id,
        made[0].id,
    ]
    assert len(every(admin, "/v1/jobs", "jobs", kind="profile")) == 4
    first = admin.get("/v1/jobs").json()
    assert (first["counts"]["failed"], first["counts"]["waiting"]) == (2, 4)
    assert first["today"] == {"calls": 0, "tokens": 0}
    assert admin.get(f"/v1/jobs/{made[0].id}").json()["error"] == "it broke"
    assert admin.post(f"/v1/jobs/{made[0].id}/retry").json()["state"] == "waiting"
    assert admin.post(f"/v1/jobs/{made[0].id}/retry").status_code == 409
    assert admin.post("/v1/jobs/retry").json() == {"retried": 1}
    assert admin.post(f"/v1/jobs/{due.id}/run").json()["state"] == "done"
    assert admin.post(f"/v1/jobs/{due.id}/run").status_code == 409
    assert admin.post(f"/v1/jobs/{odd.id}/run").status_code == 409
    assert admin.get("/v1/jobs/nonesuch").status_code == 404
    assert admin.get("/v1/jobs", params={"cursor": "x"}).status_code == 400


def test_a_job_that_failed_is_done_at_once(service: Running) -> None:
    """What failed before is done when an admin says so, and fails again in its own row, not in the answer."""
    admin = service.of("admin")
    with Stratalog(service.data, tenant="acme") as memory, closing(jobs_of(memory)) as jobs:
        job = jobs.put("profile", "bad", args={"scope": 7})
        taken = jobs.claim(job.id, lease_ms=1_000)
        assert taken is not None
        jobs.failed(taken, "it broke", retry_at=None)
    ended = admin.post(f"/v1/jobs/{job.id}/run")
    assert ended.status_code == 200
    assert ended.json()["state"] == "failed"
    assert "it broke" not in ended.json()["error"]


def test_the_audit_is_paged_and_filtered(service: Running) -> None:
    """Newest first, each line once, also while it grows; it has nobody's words."""
    admin, ana = service.of("admin"), service.of("user", user="ana")
    for number in range(6):
        ana.post("/v1/memory/records", json={"key": f"secret {number}", "text": "hush"})
    service.of("user", user="ben").get("/v1/memory/records", params={"scope": "user:ana"})
    lines = every(admin, "/v1/audit", "lines")
    assert [line["call"] for line in lines] == ["list", *["remember"] * 6]
    times = [line["at"] for line in lines]
    assert times == sorted(times, reverse=True)
    assert (lines[0]["ending"], lines[0]["user"]) == ("refused", "ben")
    assert lines[1]["counts"] == {"stored": 1}
    assert lines[1]["scopes"] == [{"kind": "user", "id": "ana"}]
    assert "secret" not in str(lines)
    assert "hush" not in str(lines)
    assert len(every(admin, "/v1/audit", "lines", user="ana")) == 6
    assert len(every(admin, "/v1/audit", "lines", ending="refused", call="list")) == 1
    assert every(admin, "/v1/audit", "lines", until=times[-1]) == []
    assert len(every(admin, "/v1/audit", "lines", since=times[0])) >= 1
    page = admin.get("/v1/audit", params={"limit": 3}).json()
    ana.post("/v1/memory/records", json={"key": "later", "text": "hush"})
    rest = admin.get("/v1/audit", params={"limit": 100, "cursor": page["cursor"]}).json()
    assert page["lines"] + rest["lines"] == lines
    assert rest["cursor"] == ""
    assert admin.get("/v1/audit", params={"cursor": "-1"}).status_code == 400


def test_what_is_held_is_released_and_rejected(service: Running) -> None:
    """In pages; who decides is noted, and may change their mind."""
    admin = service.of("admin", user="root")
    with Stratalog(service.data, tenant="acme") as memory, quarantine_of(memory) as quarantine:
        for number in range(5):
            quarantine.put(f"{number:064x}", text=f"text {number}", origin="tool", level=2, reasons=("odd",))
    listed = every(admin, "/v1/quarantine", "held")
    assert {each["text"] for each in listed} == {f"text {number}" for number in range(5)}
    one = f"/v1/quarantine/{listed[0]['id']}"
    assert admin.get(one).json() == listed[0]
    released = admin.post(f"{one}/release").json()
    assert (released["state"], released["decided_by"]) == ("released", "root")
    assert released["decided_at"] > 0
    assert admin.post(f"{one}/reject").json()["state"] == "rejected"
    assert [each["id"] for each in every(admin, "/v1/quarantine", "held", state="rejected")] == [
        listed[0]["id"]
    ]
    assert admin.get("/v1/quarantine").json()["counts"] == {"waiting": 4, "released": 0, "rejected": 1}
    for path in ("/v1/quarantine/none", "/v1/quarantine/none/x"):
        assert admin.get(path).status_code == 404
    assert admin.post("/v1/quarantine/none/release").status_code == 404


def test_whoever_changes_something_is_in_the_audit(service: Running) -> None:
    """What was done to pages, documents, tokens, jobs, held texts and by purges, and what of it failed, has a
    line with the token's id, and nobody's words."""
    made = service.tokens.make("acme", roles=["admin"])
    admin = service.client(made.text)
    reader = service.of("admin")
    page = "/v1/profiles/user/ana"
    version = admin.get(page).json()["version"]
    text = {"content-type": "text/plain"}
    with Stratalog(service.data, tenant="acme") as memory, quarantine_of(memory) as quarantine:
        held = quarantine.put("0" * 64, text="hush", origin="tool", level=2, reasons=("odd",)).id
    document = admin.post("/v1/kb/documents?name=hush.txt", content="hush", headers=text).json()["document"]
    job = admin.post("/v1/memory/consolidate").json()["id"]
    other = admin.post("/v1/tokens", json={"roles": ["agent"], "name": "hush"}).json()["id"]
    admin.put(page, json={"text": "hush", "version": version})
    assert admin.put(page, json={"text": "hush, hush", "version": version}).status_code == 409
    admin.post(f"{page}/undo")
    admin.delete(f"/v1/kb/documents/{document['id']}")
    assert admin.delete("/v1/kb/collections?collection=hush").status_code == 404
    admin.post(f"/v1/jobs/{job}/run")
    assert admin.post(f"/v1/jobs/{job}/retry").status_code == 409
    admin.post("/v1/jobs/retry")
    admin.post(f"/v1/quarantine/{held}/release")
    admin.post(f"/v1/quarantine/{held}/reject")
    admin.delete(f"/v1/tokens/{other}")
    purge = {"target": {"kind": "user", "id": "ana"}}
    admin.post("/v1/purges", json=purge)
    admin.post("/v1/purges", json={**purge, "confirm": True})
    admin.post("/v1/purges/resume")
    lines = [each for each in every(reader, "/v1/audit", "lines") if each["token"] == made.token.id]
    assert [(each["call"], each["ending"]) for each in reversed(lines)] == [
        ("add_document", "done"),
        ("consolidate", "done"),
        ("make_token", "done"),
        ("edit_page", "done"),
        ("edit_page", "failed"),
        ("undo_page", "done"),
        ("remove_document", "done"),
        ("remove_collection", "failed"),
        ("run_job", "done"),
        ("retry_job", "failed"),
        ("retry_jobs", "done"),
        ("release", "done"),
        ("reject", "done"),
        ("revoke_token", "done"),
        ("purge", "done"),
        ("purge", "done"),
        ("confirm_purge", "done"),
        ("resume_purge", "done"),
    ]
    assert "hush" not in str(lines)
    edits = [each for each in lines if each["call"] == "edit_page"]
    assert edits[0]["scopes"] == [{"kind": "user", "id": "ana"}]
    assert edits[0]["reason"] == "Conflict"
