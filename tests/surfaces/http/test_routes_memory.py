"""Memory records over HTTP: remembered, recalled, listed, forgotten, and whose they are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import pytest

from surfaces.http.conftest import Running, configure, running
from surfaces.http.paging import every

RECORDS = "/v1/memory/records"
SESSIONS = "/v1/agents/helper/sessions"


def _remember(client: httpx.Client, key: str, text: str, **more: Any) -> dict[str, Any]:
    query = more.pop("params", {})
    answer = client.post(RECORDS, json={"key": key, "text": text, **more}, params=query)
    assert answer.status_code == 200, answer.text
    return answer.json()


def _texts(client: httpx.Client, **query: Any) -> list[str]:
    return [each["text"] for each in every(client, RECORDS, "records", **query)]


def test_a_record_has_its_life(service: Running) -> None:
    """It is remembered, merged, superseded, looked at as it was, forgotten, and its history tells all."""
    ana = service.of("user", user="ana")
    first = _remember(ana, "home", "Ana lives in Lisbon", confidence=0.5)
    assert (first["outcome"], first["record"]["scope"]) == ("stored", {"kind": "user", "id": "ana"})
    assert _remember(ana, "home", "Ana lives in Lisbon.")["outcome"] == "merged"
    second = _remember(ana, "home", "Ana lives in Porto", replaces=True)
    assert second["outcome"] == "superseded"
    assert second["record"]["supersedes"] == [first["record"]["id"]]
    assert _texts(ana) == ["Ana lives in Porto"]
    assert _texts(ana, status=["current", "superseded"]) == ["Ana lives in Lisbon", "Ana lives in Porto"]
    before = first["record"]["created_at"]
    assert _texts(ana, as_of=second["record"]["created_at"]) == ["Ana lives in Porto"]
    one = f"{RECORDS}/{second['record']['id']}"
    assert ana.get(one).json() == second["record"]
    gone = ana.delete(one, params={"reason": "she moved"})
    assert gone.json() == {"forgotten": 1, "repaired": 0, "unsupported": []}
    assert ana.get(one).status_code == 404
    assert ana.delete(one).status_code == 404
    events = every(ana, "/v1/memory/history", "events", key="home")
    assert [each["action"] for each in events][:2] == ["remember", "merge"]
    assert events[-1]["action"] == "forget"
    assert (events[-1]["reason"], events[-1]["actor"]) == ("she moved", {"user": "ana"})
    assert events[0]["at"] == before
    kept = every(ana, f"{RECORDS}/{first['record']['id']}/history", "events")
    assert {each["record"]["id"] for each in kept} == {first["record"]["id"]}
    late = _remember(ana, "home", "Ana lives in Porto", said_at=before)
    assert (late["outcome"], late["record"]) == ("refused", None)


def test_contradictions_are_marked_and_found(service: Running) -> None:
    """Of two that contradict each other both say so, and the filter finds these alone, over pages."""
    ana = service.of("user", user="ana")
    for number in range(4):
        _remember(ana, f"plain {number}", f"thing {number}")
    for text in ("The boat is red", "The boat is blue", "The boat is white"):
        _remember(ana, "boat", text, confidence=0.5)
    found = every(ana, RECORDS, "records", conflicts=True)
    assert sorted(each["text"] for each in found) == [
        "The boat is blue",
        "The boat is red",
        "The boat is white",
    ]
    assert all(each["contradicted"] and len(each["conflict_with"]) == 2 for each in found)
    assert len(_texts(ana)) == 7
    assert ana.get(RECORDS, params={"conflicts": True, "status": "current"}).status_code == 400


def test_the_same_call_again_does_nothing(service: Running) -> None:
    """Under one idempotency key a draft is written once, and another draft is a conflict."""
    ana = service.of("user", user="ana")
    headers = {"idempotency-key": "k1"}
    body = {"key": "pet", "text": "Ana has a cat"}
    first = ana.post(RECORDS, json=body, headers=headers).json()
    again = ana.post(RECORDS, json=body, headers=headers).json()
    assert (first["again"], again["again"]) == (False, True)
    assert again["record"] == first["record"]
    other = ana.post(RECORDS, json={**body, "text": "Ana has a dog"}, headers=headers)
    assert other.status_code == 409


def test_a_source_leads_to_its_turn(service: Running) -> None:
    """One record tells the number and the turn of what it was drawn from; a session out of sight is no
    source."""
    ana, ben = service.of("user", user="ana"), service.of("user", user="ben")
    for client, chat in ((ana, "trip"), (ben, "other")):
        assert client.post(f"{SESSIONS}/{chat}/messages", json={"content": "I sail"}).status_code == 200
    entries = ana.get(f"{SESSIONS}/trip/entries").json()["entries"]
    said = next(each for each in entries if each["type"] == "user")
    source = {"session": "helper:http:trip", "entry": said["seq"], "start": 0, "stop": 6}
    made = _remember(ana, "hobby", "Ana sails", sources=[source])["record"]
    (told,) = ana.get(f"{RECORDS}/{made['id']}").json()["sources"]
    assert (told["agent"], told["channel"], told["chat"]) == ("helper", "http", "trip")
    assert (told["entry"], told["seq"], told["turn"]) == (said["id"], said["seq"], said["turn"])
    (listed,) = ana.get(RECORDS).json()["records"][0]["sources"]
    assert (listed["entry"], listed["seq"]) == (said["id"], None)
    for session in ("helper:http:other", "helper:http:none", "zeta/helper:http:trip"):
        wrong = {"key": "x", "text": "y", "sources": [{**source, "session": session}]}
        assert ana.post(RECORDS, json=wrong).status_code == 404, session
    assert (
        ana.post(RECORDS, json={"key": "x", "text": "y", "sources": [{**source, "entry": 999}]}).status_code
        == 404
    )
    assert len(_texts(ana)) == 1


def test_recall_tells_what_its_scores_are_made_of(service: Running) -> None:
    """The parts add up to the score, the best is first, a limit says that there is more, layers narrow."""
    ana = service.of("user", user="ana")
    _remember(ana, "boat", "The boat lies in Porto")
    _remember(ana, "cat", "The cat sleeps")
    _remember(ana, "boat name", "The boat is called Alma", layer="mid")
    ask = "/v1/memory/recall"
    told = ana.post(ask, json={"query": "boat"}).json()
    assert {each["record"]["key"] for each in told["found"]} == {"boat", "boat name"}
    assert all(sum(each["parts"].values()) == pytest.approx(each["score"]) for each in told["found"])
    assert told["found"][0]["score"] > told["found"][1]["score"]
    assert not told["more"]
    assert ana.post(ask, json={"query": "boat", "limit": 1}).json()["more"]
    narrowed = ana.post(ask, json={"query": "boat", "layers": ["mid"]}).json()["found"]
    assert [each["record"]["key"] for each in narrowed] == ["boat name"]
    assert service.of("user", user="ben").post(ask, json={"query": "boat"}).json()["found"] == []


def test_a_user_has_its_own_and_what_is_shared(service: Running) -> None:
    """It reads its own records, those of its session and the tenant's; it writes no other's, and names
    neither another user nor an agent."""
    admin, ana, ben = service.of("admin"), service.of("user", user="ana"), service.of("user", user="ben")
    agent = service.of("agent")
    _remember(admin, "hours", "Open from nine", scope="tenant")
    _remember(agent, "style", "Be brief", scope="agent", params={"agent": "helper"})
    bens = _remember(ben, "home", "Ben lives in Faro")["record"]
    _remember(ana, "home", "Ana lives in Lisbon")
    assert ana.post(f"{SESSIONS}/c/messages", json={"content": "Hi"}).status_code == 200
    _remember(ana, "topic", "Boats", scope="session", params={"session": "helper:http:c"})
    assert _texts(ana) == ["Open from nine", "Ana lives in Lisbon"]
    within = {"session": "helper:http:c"}
    assert _texts(ana, **within) == ["Open from nine", "Ana lives in Lisbon", "Boats"]
    assert [each["actor"] for each in every(ana, "/v1/memory/history", "events", key="hours")] == [{}]
    for scope in ("user:ben", "agent", "agent:helper", "run:r", "tenant"):
        answer = ana.post(RECORDS, json={"key": "k", "text": "t", "scope": scope}, params=within)
        assert answer.status_code == 403, scope
        if scope != "tenant":
            assert ana.get(RECORDS, params={"scope": scope}).status_code == 403, scope
            assert ana.delete(RECORDS, params={"scope": scope, "key": "style"}).status_code == 403, scope
    for query in ({"agent": "helper"}, {"run": "r"}, {"environment": "test"}, {"everyone": True}):
        assert ana.get(RECORDS, params=query).status_code == 403, query
    assert ana.get(RECORDS, params={"session": "helper:http:none"}).status_code == 404
    assert ana.get(f"{RECORDS}/{bens['id']}").status_code == 404
    assert ana.delete(f"{RECORDS}/{bens['id']}").status_code == 404
    style = admin.get(RECORDS, params={"everyone": True, "key": "style"}).json()["records"][0]["id"]
    assert ana.get(f"{RECORDS}/{style}", params=within).status_code == 404
    assert ana.delete(f"{RECORDS}/{style}", params=within).status_code == 404
    assert ana.post(RECORDS, json={"key": "k", "text": "t", "origin": "tool"}).status_code == 403
    assert len(_texts(admin, everyone=True)) == 5


def test_an_agent_asks_for_any_user_and_an_admin_for_all(service: Running) -> None:
    """The agent names the user; the admin sees every scope, and writes where it names one."""
    agent, admin = service.of("agent"), service.of("admin")
    for user in ("ana", "ben"):
        made = agent.post(
            RECORDS, json={"key": "home", "text": f"{user} is here"}, headers={"stratalog-user": user}
        )
        assert made.json()["record"]["scope"]["id"] == user
    assert agent.get(RECORDS, headers={"stratalog-user": "ben"}).json()["records"][0]["text"] == "ben is here"
    assert agent.get(RECORDS, params={"everyone": True}).status_code == 403
    assert _texts(admin, everyone=True) == ["ana is here", "ben is here"]
    assert _texts(admin, scope="user:ana") == ["ana is here"]
    _remember(admin, "pet", "a cat", scope="user:ana")
    assert admin.get(RECORDS, headers={"stratalog-user": "ana"}).json()["records"][1]["text"] == "a cat"
    assert _texts(admin, everyone=True, environment="test") == []


def test_an_admin_recalls_and_looks_back_over_everyone(service: Running) -> None:
    """One question finds all users' records of the tenant, one history has all their steps; who is no admin,
    or asks as one user, is refused, and the audit tells of each."""
    admin = service.of("admin")
    for user in ("ana", "ben"):
        client = service.of("user", user=user)
        _remember(client, "home", f"{user} lives by the sea")
    _remember(service.of("user", user="zoe", tenant="zeta"), "home", "zoe lives by the sea")
    recall, history = "/v1/memory/recall", "/v1/memory/history"
    asked = {"query": "sea", "everyone": True}
    told = admin.post(recall, json=asked).json()
    assert {each["record"]["text"] for each in told["found"]} == {
        "ana lives by the sea",
        "ben lives by the sea",
    }
    assert admin.post(recall, json={"query": "sea"}).json()["found"] == []
    assert admin.post(recall, json={**asked, "limit": 1}).json()["more"]
    assert admin.post(recall, json={**asked, "scopes": ["user:ana"]}).status_code == 400
    steps = every(admin, history, "events", everyone=True)
    assert [each["record"]["scope"]["id"] for each in steps] == ["ana", "ben"]
    assert every(admin, history, "events", everyone=True, id=steps[1]["record"]["id"]) == steps[1:]
    assert every(admin, history, "events", everyone=True, environment="test") == []
    as_ana = {"stratalog-user": "ana"}
    for client, headers in (
        (service.of("user", user="ana"), {}),
        (service.of("agent"), as_ana),
        (admin, as_ana),
    ):
        assert client.post(recall, json=asked, headers=headers).status_code == 403
        assert client.get(history, params={"everyone": True}, headers=headers).status_code == 403
    lines = every(admin, "/v1/audit", "lines", call="recall")
    assert [each["ending"] for each in lines[:3]] == ["refused"] * 3
    assert [each["reason"] for each in lines[:3]] == ["only an admin may ask for everyone"] * 3
    assert {each["reason"] for each in lines[3:]} == {"everyone", ""}


@pytest.mark.parametrize(
    ("method", "path", "query", "body", "named"),
    [
        ("GET", RECORDS, {"layr": "long"}, None, "layr"),
        ("GET", RECORDS, {"layer": "longer"}, None, "layer"),
        ("GET", RECORDS, {"limit": 0}, None, "limit"),
        ("GET", "/v1/search", {"query": "x", "tenant": "zeta"}, None, "tenant"),
        ("GET", "/v1/jobs", {"stat": "done"}, None, "stat"),
        ("GET", "/v1/audit", {"who": "ana"}, None, "who"),
        ("POST", RECORDS, {"tenant": "zeta"}, {"key": "k", "text": "t"}, "tenant"),
        ("POST", RECORDS, {}, {"key": "k", "text": "t", "tenant": "zeta"}, "tenant"),
        ("POST", "/v1/memory/recall", {}, {"query": "x", "limt": 1}, "limt"),
        ("POST", "/v1/purges", {}, {"target": {"kind": "user", "id": "a", "ids": []}}, "ids"),
        ("PUT", "/v1/profiles/user/ana", {}, {"text": "", "version": "x", "force": True}, "force"),
    ],
)
def test_what_a_route_has_not_is_named(
    service: Running, method: str, path: str, query: dict[str, Any], body: Any, named: str
) -> None:
    """A field that is unknown or wrong, of a query or a body, is told by its name."""
    answer = service.of("admin").request(method, path, params=query, json=body)
    assert answer.status_code == 400
    assert answer.headers["content-type"] == "application/problem+json"
    assert named in answer.text


def test_a_place_that_no_list_told_is_refused(service: Running) -> None:
    """Records after a place that is none are not the rest of a list: none of them are given."""
    ana = service.of("user", user="ana")
    ana.post("/v1/memory/records", json={"key": "tea", "text": "Ana drinks tea"})
    for query in ({}, {"conflicts": True}, {"as_of": 1}):
        for cursor in ("0", "garbage", "\0", "0" * 25, "Z" * 26):
            asked = ana.get("/v1/memory/records", params={**query, "cursor": cursor})
            assert asked.status_code == 400, cursor


def test_a_bundle_goes_out_and_comes_back(service: Running) -> None:
    """What is exported is imported, once; a cut one says so; a broken and another tenant's are refused."""
    admin, ana = service.of("admin"), service.of("user", user="ana")
    for number in range(5):
        _remember(ana, f"k{number}", f"thing {number}")
    _remember(service.of("user", user="ben"), "k", "bens")
    own = ana.get("/v1/memory/export")
    assert own.headers["content-type"].startswith("application/x-ndjson")
    assert len(own.text.splitlines()) == 7
    assert "bens" not in own.text
    whole = admin.get("/v1/memory/export", params={"everyone": True})
    assert "bens" in whole.text
    assert ana.get("/v1/memory/export", params={"everyone": True}).status_code == 403

    def import_(client: httpx.Client, content: bytes, kind: str = "application/x-ndjson") -> httpx.Response:
        return client.post("/v1/memory/import", content=content, headers={"content-type": kind})

    again = import_(ana, own.content).json()
    assert (again["unchanged"], again["stored"], again["complete"]) == (5, 0, True)
    ana.delete(RECORDS, params={"key": "k0"})
    assert import_(ana, own.content).json()["stored"] == 0
    assert "thing 0" not in _texts(ana)
    cut = import_(ana, own.content.rpartition(b'{"kind":"end"')[0]).json()
    assert not cut["complete"]
    denied = import_(ana, whole.content).json()
    assert denied["denied"] == 1
    assert import_(ana, b"{}\n").status_code == 400
    assert import_(ana, own.content, "text/plain").status_code == 400
    assert import_(service.of("admin", tenant="zeta"), whole.content).status_code == 403
    assert service.of("admin", tenant="zeta").get(RECORDS, params={"everyone": True}).json()["records"] == []


def test_consolidating_is_a_job(data: Path) -> None:
    """Asked for, it waits as a job, one however often it is asked for; done, the records are as it left
    them."""
    configure(data, "[background]\npromote_after = 0.001", model="extractive")
    with running(data) as service:
        admin, ana = service.of("admin"), service.of("user", user="ana")
        _remember(ana, "topic", "Boats", layer="short")
        asked = admin.post("/v1/memory/consolidate")
        assert (asked.status_code, asked.json()["state"]) == (202, "waiting")
        assert admin.post("/v1/memory/consolidate").json()["id"] == asked.json()["id"]
        assert ana.post("/v1/memory/consolidate").status_code == 403
        done = admin.post(f"{asked.headers['location']}/run").json()
        assert (done["state"], done["result"]["promoted"]) == ("done", 1)
        assert [each["layer"] for each in ana.get(RECORDS).json()["records"]] == ["mid"]
