"""Profiles over HTTP: read, edited without overwriting anybody, and undone."""

from __future__ import annotations

from stratalog import Stratalog
from stratalog.engine.profiling import PageOf, page_files, refresh
from stratalog.engine.remembering import Draft, Layer, Records, Scope
from surfaces.http.conftest import Running
from surfaces.http.paging import every

ANA = "/v1/profiles/user/ana"


def _known(service: Running, *texts: str, user: str = "ana") -> None:
    """Records of the user, and a page that tells them."""
    with Stratalog(service.data, tenant="acme") as memory, Records(memory) as records:
        for text in texts:
            scope = Scope("user", user)
            draft = Draft(layer=Layer.LONG, scope=scope, key=text, text=text, confidence=0.9)
            records.service.remember(records.caller(user=user), draft)
        refresh(records.store, records.data, records.tenant)


def test_a_page_is_edited_and_undone(service: Running) -> None:
    """What a person writes stays, what they delete stays away, and undoing twice changes nothing."""
    _known(service, "Likes boats", "Lives in Porto")
    ana = service.of("user", user="ana")
    page = ana.get(ANA).json()
    assert page["there"]
    assert "Likes boats" in page["shown"]
    assert "<!-- from:" not in page["shown"]
    assert "<!-- from:" in page["text"]
    lines = [line for line in page["text"].split("\n") if "Porto" not in line and "stratalog:" not in line]
    text = "\n".join(["# Ana", *lines])
    edited = ana.put(ANA, json={"text": text, "version": page["version"]})
    assert edited.status_code == 200, edited.text
    assert edited.json()["shown"].startswith("# Ana\n")
    assert edited.json()["version"] != page["version"]
    assert ana.get(ANA).json() == edited.json()
    _known(service, "Has a cat")
    after = ana.get(ANA).json()["shown"]
    assert "Has a cat" in after
    assert "# Ana" in after
    assert "Porto" not in after
    assert "Has a cat" not in ana.post(f"{ANA}/undo").json()["shown"]
    assert "Has a cat" in ana.post(f"{ANA}/undo").json()["shown"]
    kept = ana.get(f"{ANA}/versions").json()["versions"]
    assert len(kept) == 3  # the empty one that was first, the first page, the edit
    assert all(each["replaced_at"] > 0 for each in kept)


def test_a_stale_edit_overwrites_nothing(service: Running) -> None:
    """An edit of a version that is not the present one is a conflict, and the page is as it was."""
    ana = service.of("user", user="ana")
    new = ana.get(ANA).json()
    assert (new["there"], new["text"]) == (False, "")
    assert ana.post(f"{ANA}/undo").status_code == 404
    first = ana.put(ANA, json={"text": "one", "version": new["version"]}).json()
    stale = ana.put(ANA, json={"text": "two", "version": new["version"]})
    assert stale.status_code == 409
    assert "version" in stale.json()["detail"]
    assert ana.get(ANA).json() == first
    assert ana.put(ANA, json={"text": "three"}).status_code == 400


def test_bytes_that_are_no_text_do_no_harm(service: Running) -> None:
    """A page that somebody saved in another encoding is read."""
    files = page_files(service.data, "acme", PageOf(Scope("user", "ana")))
    files.path.parent.mkdir(parents=True)
    files.path.write_bytes(b"caf\xe9\n")
    ana = service.of("user", user="ana")
    assert ana.get(ANA).json()["text"] == "caf\ufffd\n"
    edited = ana.put(ANA, json={"text": "café\n", "version": ana.get(ANA).json()["version"]})
    assert edited.json()["text"] == "café\n"


def test_a_page_is_its_owners(service: Running) -> None:
    """A user has its own alone; an agent those of agents and of the user it names; an admin all. They are
    listed in pages."""
    admin, agent, ana = service.of("admin"), service.of("agent"), service.of("user", user="ana")
    paths = [f"/v1/profiles/user/{user}" for user in ("ana", "ben", "c:d", "x" * 200)]
    for path in (*paths, "/v1/profiles/agent/helper"):
        version = admin.get(path).json()["version"]
        assert admin.put(path, json={"text": f"page {path}", "version": version}).status_code == 200
    test = {"environment": "test"}
    version = admin.get(ANA, params=test).json()["version"]
    assert admin.put(ANA, json={"text": "t", "version": version}, params=test).status_code == 200
    for path in (paths[1], "/v1/profiles/agent/helper"):
        for call in (ana.get(path), ana.post(f"{path}/undo"), ana.get(f"{path}/versions")):
            assert call.status_code == 403
        assert ana.put(path, json={"text": "mine", "version": version}).status_code == 403
        assert admin.get(path).json()["text"] == f"page {path}"
    assert ana.get(ANA, params=test).status_code == 403
    assert agent.get(paths[1]).status_code == 403  # it asks for nobody
    assert agent.put(paths[1], json={"text": "mine", "version": version}).status_code == 403
    assert agent.get(paths[1], headers={"stratalog-user": "ben"}).status_code == 200
    assert agent.get(paths[1], headers={"stratalog-user": "ana"}).status_code == 403

    def listed(client: object, **query: object) -> list[tuple[str, str, str]]:
        found = every(client, "/v1/profiles", "profiles", **query)  # type: ignore[arg-type]  # for brevity
        return [(each["kind"], each["id"], each["environment"]) for each in found]

    users = [("user", "ana", "production"), ("user", "ana", "test"), ("user", "ben", "production")]
    assert listed(admin) == [("agent", "helper", "production"), *users, ("user", "c:d", "production")]
    assert admin.get("/v1/profiles").json()["unnamed"] == 1
    assert listed(admin, kind="agent") == [("agent", "helper", "production")]
    named = {"stratalog-user": "ben"}
    told = admin.get("/v1/profiles", headers=named, params={"kind": "user"}).json()["profiles"]
    assert [each["id"] for each in told] == ["ben"]
    assert listed(ana) == users[:1]
    assert listed(agent) == [("agent", "helper", "production")]
    assert admin.get("/v1/profiles/team/x").status_code in (400, 404)
    assert admin.get("/v1/profiles/user/a%2Fb").status_code == 404
    assert admin.get("/v1/profiles/user/%2e%2e").status_code in (400, 404)
