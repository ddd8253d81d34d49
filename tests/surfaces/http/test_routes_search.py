"""Searching over HTTP: what was said in the sessions in sight, with records and documents beside it."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from stratalog import Stratalog
from surfaces.http.conftest import Running

SESSIONS = "/v1/agents/helper/sessions"


def _say(client: httpx.Client, chat: str, words: str, agent: str = "helper") -> None:
    answer = client.post(f"/v1/agents/{agent}/sessions/{chat}/messages", json={"content": words})
    assert answer.status_code == 200, answer.text


def _search(client: httpx.Client, query: str, **more: Any) -> dict[str, Any]:
    answer = client.get("/v1/search", params={"query": query, "role": "user", **more})
    assert answer.status_code == 200, answer.text
    return answer.json()


def _chats(client: httpx.Client, query: str, **more: Any) -> set[str]:
    return {each["chat"] for each in _search(client, query, **more)["hits"]}


def test_a_hit_says_where_it_is_and_why(service: Running) -> None:
    """Its session with the title, its number, its passage, what is around it, and parts that add up."""
    ana = service.of("user", user="ana")
    _say(ana, "trip", "We sail to Porto")
    _say(ana, "trip", "The harbour is full")
    ana.patch(f"{SESSIONS}/trip", json={"title": "The trip"})
    hit = _search(ana, "harbour", neighbours=2)["hits"][0]
    assert (hit["kind"], hit["agent"], hit["channel"], hit["chat"]) == ("turn", "helper", "http", "trip")
    assert (hit["title"], hit["snippet"], hit["terms"]) == ("The trip", "The harbour is full", ["harbour"])
    assert sum(hit["parts"].values()) == pytest.approx(hit["score"])
    entries = ana.get(f"{SESSIONS}/trip/entries", params={"after": hit["seq"] - 1, "limit": 1}).json()
    assert (entries["entries"][0]["id"], entries["entries"][0]["turn"]) == (hit["entry"], hit["turn"])
    assert [each["seq"] for each in hit["before"]] == [hit["seq"] - 2, hit["seq"] - 1]
    assert [each["seq"] for each in hit["after"]] == [hit["seq"] + 1, hit["seq"] + 2]


def test_only_what_is_in_sight_is_found(service: Running) -> None:
    """A user finds its own sessions, also among many of others; an admin all of the tenant's."""
    ana, ben, admin = service.of("user", user="ana"), service.of("user", user="ben"), service.of("admin")
    _say(ana, "mine", "the boat of Ana")
    for number in range(4):
        _say(ben, f"b{number}", "boat boat boat")
    _say(service.of("admin", tenant="zeta"), "far", "a boat elsewhere")
    assert _chats(ana, "boat", limit=1) == {"mine"}
    assert _chats(ben, "boat") == {"b0", "b1", "b2", "b3"}
    assert len(_chats(admin, "boat")) == 5
    assert _chats(service.of("agent"), "boat") == set()
    named = service.of("agent").get("/v1/search", params={"query": "boat"}, headers={"stratalog-user": "ana"})
    assert {each["chat"] for each in named.json()["hits"]} == {"mine"}
    params = {"query": "boat", "session": "helper:http:b0"}
    assert ana.get("/v1/search", params=params).status_code == 404
    assert _chats(ben, "boat", session="helper:http:b0") == {"b0"}
    with Stratalog(service.data, tenant="acme") as memory:
        assert len(memory.search("boat", roles=("user",))) == 5


def test_filters_are_exact_and_a_limit_is_told(service: Running) -> None:
    """By agent, channel, time and kind of entry; `more` says that a limit left something out."""
    ana = service.of("user", user="ana")
    _say(ana, "one", "a red boat")
    _say(ana, "two", "a blue boat", agent="other")
    assert _chats(ana, "boat", agent="other") == {"two"}
    assert _chats(ana, "boat", channel="mail") == set()
    told = _search(ana, "boat", limit=1)
    assert (len(told["hits"]), told["more"]) == (1, True)
    assert not _search(ana, "boat", limit=2)["more"]
    times = sorted(each["ts"] for each in _search(ana, "boat")["hits"])
    assert len(_search(ana, "boat", until=times[0])["hits"]) == 0
    assert len(_search(ana, "boat", since=times[-1])["hits"]) >= 1
    assert _search(ana, "boat", role="note")["hits"] == []
    assert ana.get("/v1/search", params={"query": "boat", "role": "boss"}).status_code == 400
    assert ana.get("/v1/search", params={"query": "boat", "since": "yesterday"}).status_code == 400


def test_records_and_documents_stand_beside(service: Running) -> None:
    """The first of each kind before the second of any; records are those of who asks."""
    ana, admin = service.of("user", user="ana"), service.of("admin")
    _say(ana, "old", "My boat lies in Porto")
    for client, name in ((ana, "Alma"), (service.of("user", user="ben"), "Bruma")):
        client.post("/v1/memory/records", json={"key": "boat", "text": f"The boat is called {name}"})
    admin.post(
        "/v1/kb/documents",
        params={"name": "boats.md"},
        content="# Boats\n\nEvery boat needs a licence.",
        headers={"content-type": "text/markdown"},
    )
    told = _search(ana, "boat", records=True, documents=True)
    kinds = [each["kind"] for each in told["hits"]]
    assert kinds == ["turn", "record", "document"]
    assert told["hits"][1]["record"]["text"] == "The boat is called Alma"
    assert told["hits"][2]["passage"]["document"]["name"] == "boats.md"
    for each in told["hits"]:
        assert sum(each["parts"].values()) == pytest.approx(each["score"])
    assert not told["more"]
    assert {each["kind"] for each in _search(admin, "boat", records=True)["hits"]} == {"turn"}
    whole = _search(admin, "boat", records=True, everyone=True)["hits"]
    records = {each["record"]["text"] for each in whole if each["kind"] == "record"}
    assert records == {"The boat is called Alma", "The boat is called Bruma"}
    denied = ana.get("/v1/search", params={"query": "boat", "everyone": True})
    assert denied.status_code == 403
    lines = admin.get("/v1/audit", params={"call": "search_everyone"}).json()["lines"]
    assert [(each["ending"], each["roles"]) for each in lines] == [("refused", []), ("done", ["admin"])]
    short = _search(ana, "boat", records=True, documents=True, limit=2)
    assert ([each["kind"] for each in short["hits"]], short["more"]) == (["turn", "record"], True)
