"""Sessions over HTTP: whose they are, and what is done with them."""

from __future__ import annotations

import json
from pathlib import Path
from urllib.parse import quote

import httpx
import pytest

from stratalog import Stratalog
from surfaces.http.conftest import Running, running

PATH = "/v1/agents/helper/sessions"


def _say(client: httpx.Client, chat: str, words: str) -> str:
    answer = client.post(f"{PATH}/{chat}/messages", json={"content": words})
    assert answer.status_code == 200, answer.text
    return answer.json()["turn"]


def _chats(client: httpx.Client, **query: object) -> list[str]:
    return [each["chat"] for each in client.get(PATH, params=query).json()["sessions"]]


def test_a_session_is_begun_listed_changed_and_deleted(service: Running) -> None:
    """Its life, as a list of sessions shows it; nothing is left of it in the end."""
    client = service.of("user", user="ana")
    made = client.post(PATH, json={"title": "Trips"})
    assert made.status_code == 201
    view = made.json()
    chat = view["chat"]
    assert (view["title"], view["pinned"], view["key"]) == ("Trips", False, f"acme/helper:http:{chat}")
    assert view["metadata"] == {"users": ["ana"]}
    one = f"{PATH}/{chat}"
    assert client.get(one).json() == view
    changed = client.patch(one, json={"title": "Voyages", "pinned": True}).json()
    assert (changed["title"], changed["title_by"], changed["pinned"]) == ("Voyages", "user", True)
    _say(client, "other", "Hello")
    assert _chats(client) == [chat, "other"]
    assert client.patch(one, json={"pinned": False}).json()["title"] == "Voyages"
    assert _chats(client) == ["other", chat]
    assert client.delete(one).status_code == 204
    assert client.get(one).status_code == 404
    assert client.delete(one).status_code == 404
    assert _chats(client) == ["other"]
    assert client.post(PATH, json={"chat": "other"}).status_code == 409


def test_a_list_is_paged(service: Running) -> None:
    """Following the cursor shows each session in sight once, also where most are another's."""
    ana, ben, admin = service.of("user", user="ana"), service.of("user", user="ben"), service.of("admin")
    for number in range(7):
        ana.post(PATH, json={"chat": f"a{number}"})
        ben.post(PATH, json={"chat": f"b{number}"})
    for client, wanted in ((ana, 7), (ben, 7), (admin, 14)):
        seen: list[str] = []
        cursor = ""
        while True:
            page = client.get(PATH, params={"limit": 3, "cursor": cursor}).json()
            assert len(page["sessions"]) <= 3
            seen += [each["chat"] for each in page["sessions"]]
            cursor = page["cursor"]
            if not cursor:
                break
        assert len(seen) == len(set(seen)) == wanted
    assert ana.get(PATH, params={"cursor": "made-up"}).status_code == 400


@pytest.mark.parametrize("method", ["get", "patch", "delete"])
def test_nobody_reaches_anothers_session(service: Running, method: str) -> None:
    """Another user's, another tenant's and nobody's session are not there, and neither is one that there is
    not: the answers are the same."""
    ana = service.of("user", user="ana")
    _say(ana, "mine", "A secret")
    others = [
        service.of("user", user="ben"),
        service.of("agent"),
        service.of("user", user="ana", tenant="zeta"),
        service.of("admin", tenant="zeta"),
    ]
    how = {"json": {"title": "x"}} if method == "patch" else {}
    for other in others:
        got = other.request(method, f"{PATH}/mine", **how)
        none = other.request(method, f"{PATH}/none", **how)
        assert got.status_code == none.status_code == 404
        assert got.json()["detail"] == none.json()["detail"]
    assert ana.get(f"{PATH}/mine").status_code == 200


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("post", "messages", {"content": "x"}),
        ("get", "entries", None),
        ("get", "export", None),
        ("get", "context", None),
        ("post", "fork", {}),
        ("post", "compact", None),
        ("post", "restart", None),
        ("post", "abort", None),
        ("post", "auto-title", None),
        ("get", "turns/01J00000000000000000000000", None),
        ("get", "turns/01J00000000000000000000000/events", None),
    ],
)
def test_nothing_is_done_in_anothers_session(
    service: Running, method: str, path: str, body: dict[str, str] | None
) -> None:
    """Every route of a session looks whose it is, and changes nothing of another's."""
    ana, ben = service.of("user", user="ana"), service.of("user", user="ben")
    turn = _say(ana, "mine", "A secret")
    before = ana.get(f"{PATH}/mine/entries").text
    path = path.replace("01J00000000000000000000000", turn)
    answer = ben.request(method, f"{PATH}/mine/{path}", json=body)
    assert answer.status_code == 404
    assert "secret" not in answer.text
    assert ana.get(f"{PATH}/mine/entries").text == before


def test_a_service_account_acts_for_whom_it_names(service: Running) -> None:
    """Its sessions for a user are that user's own."""
    agent = service.of("agent")
    named = {"stratalog-user": "ana"}
    assert agent.post(PATH, json={"chat": "c"}, headers=named).status_code == 201
    assert agent.get(f"{PATH}/c").status_code == 404
    assert agent.get(f"{PATH}/c", headers=named).status_code == 200
    assert service.of("user", user="ana").get(f"{PATH}/c").status_code == 200
    twice = httpx.Headers([("stratalog-user", "ana"), ("stratalog-user", "ben")])
    assert agent.get(f"{PATH}/c", headers=twice).status_code == 400


def test_a_user_does_not_take_the_session_of_anothers_client(service: Running) -> None:
    """Sessions of MCP clients are named after users: none is begun for another by a user's token."""
    ana, mcp = service.of("user", user="ana"), {"channel": "mcp"}
    assert ana.post(PATH, json={"chat": "zoe"}, params=mcp).status_code == 403
    assert ana.post(f"{PATH}/zoe/messages", json={"content": "x"}, params=mcp).status_code == 403
    assert service.of("agent").post(PATH, json={"chat": "zoe"}, params=mcp).status_code == 201


def test_what_a_user_may_not_say_of_a_session(service: Running) -> None:
    """What the model is told and metadata are an admin's to say; whose it is, nobody's."""
    ana, admin = service.of("user", user="ana"), service.of("admin")
    assert ana.post(PATH, json={"system": "Obey."}).status_code == 403
    assert ana.post(PATH, json={"metadata": {"residency": "anywhere"}}).status_code == 403
    assert admin.post(PATH, json={"metadata": {"users": ["ana"]}}).status_code == 400
    made = admin.post(PATH, json={"system": "Be brief.", "metadata": {"residency": "on_prem"}, "chat": "s"})
    assert made.status_code == 201
    assert admin.get(f"{PATH}/s/context").json()["messages"][0]["content"] == "Be brief."
    assert admin.patch(f"{PATH}/s", json={"metadata": {"residency": None}}).json()["metadata"] == {}


@pytest.mark.parametrize(
    "chat", ["..%2Fx", "..", "a%2Fb", "a%5Cb", "a%00b", "%2e%2e", "..%252F..%252Fx", "x%0Ay"]
)
def test_no_name_is_a_path(service: Running, chat: str) -> None:
    """Names that would be paths, or cannot be written, are refused and make no file."""
    admin = service.of("admin")
    before = sorted(service.data.rglob("*"))
    answer = admin.post(f"{PATH}/{chat}/messages", json={"content": "x"})
    assert answer.status_code in (400, 404, 405)
    assert answer.headers["content-type"] == "application/problem+json"
    assert sorted(service.data.rglob("*")) == before
    assert not list(service.data.parent.glob("x*"))


@pytest.mark.parametrize("chat", ["a:b", "你好", "CON", "x y", "a~b", "é", "%", "x" * 1024])
def test_every_other_name_is_a_session_of_its_own(service: Running, chat: str) -> None:
    """Colons, any letters and reserved names come back as they were sent."""
    admin = service.of("admin")
    assert admin.post(PATH, json={"chat": chat}).status_code == 201
    assert admin.get(f"{PATH}/{quote(chat, safe='')}").json()["chat"] == chat


def test_entries_are_paged_both_ways(service: Running) -> None:
    """From the end backwards and from the beginning forwards the pages are the whole log, in its order."""
    client = service.of("user", user="ana")
    for number in range(6):
        _say(client, "c", f"Message {number}")
    path = f"{PATH}/c/entries"
    whole = [each["seq"] for each in client.get(path, params={"after": 0, "limit": 500}).json()["entries"]]
    assert whole == list(range(1, len(whole) + 1))
    assert len(whole) >= 24
    seen: list[int] = []
    page = client.get(path, params={"limit": 5}).json()
    assert page["after"] is None
    while True:
        seen = [each["seq"] for each in page["entries"]] + seen
        if page["before"] is None:
            break
        page = client.get(path, params={"limit": 5, "before": page["before"]}).json()
    assert seen == whole
    seen, page = [], client.get(path, params={"limit": 7, "after": 0}).json()
    assert page["before"] is None
    while True:
        seen += [each["seq"] for each in page["entries"]]
        if page["after"] is None:
            break
        page = client.get(path, params={"limit": 7, "after": page["after"]}).json()
    assert seen == whole
    back = client.get(path, params={"before": page["entries"][0]["seq"], "limit": 3}).json()
    assert back["after"] == back["entries"][-1]["seq"]
    for wrong in ({"limit": 0}, {"limit": 501}, {"before": 1, "after": 1}, {"before": "x"}, {"after": -1}):
        assert client.get(path, params=wrong).status_code == 400


def test_a_fork_has_the_history_up_to_an_entry(service: Running) -> None:
    """The fork is the same user's, says what was said up to there, and goes its own way."""
    client = service.of("user", user="ana")
    _say(client, "c", "First")
    at = client.get(f"{PATH}/c/entries").json()["entries"][-1]["seq"]
    _say(client, "c", "Second")
    made = client.post(f"{PATH}/c/fork", json={"chat": "d", "at": at})
    assert made.status_code == 201
    assert made.json()["forked_from"] == "acme/helper:http:c"
    text = client.get(f"{PATH}/d/export", params={"format": "markdown"}).text
    assert "First" in text
    assert "Second" not in text
    assert service.of("user", user="ben").get(f"{PATH}/d").status_code == 404
    assert client.post(f"{PATH}/c/fork", json={"chat": "d"}).status_code == 409
    assert client.post(f"{PATH}/c/fork", json={"chat": "e", "at": "nonesuch"}).status_code == 404


def test_the_context_is_shown_where_no_model_is_configured(tmp_path: Path) -> None:
    """What was imported can be looked at, within the budget of the settings."""
    with running(tmp_path / "data") as service:
        client = service.of("user", user="ana")
        assert client.post("/v1/agents/a/sessions", json={"chat": "c"}).status_code == 201
        shown = client.get("/v1/agents/a/sessions/c/context").json()
        assert (shown["budget"], shown["degraded"]) == (8_000, False)


def test_the_context_is_shown_with_its_budget(service: Running) -> None:
    """The messages that a model would see, the tokens of each section, within a budget that is given."""
    client = service.of("user", user="ana")
    _say(client, "c", "My sister Ana lives in Lisbon.")
    made = client.get(f"{PATH}/c/context", params={"budget": 3000}).json()
    assert made["budget"] == 3000
    assert made["tokens"] == sum(each["tokens"] for each in made["sections"]) <= 3000
    assert any("Lisbon" in str(each["content"]) for each in made["messages"])
    assert client.get(f"{PATH}/c/context", params={"budget": 1}).status_code == 413


def test_a_restart_begins_anew(service: Running) -> None:
    """Title and pin stay; the old history is in the entries of all generations."""
    client = service.of("user", user="ana")
    _say(client, "c", "Forget this")
    client.patch(f"{PATH}/c", json={"title": "Kept", "pinned": True})
    assert client.post(f"{PATH}/c/restart").json() == {"done": True, "confirm_within": 0.0}
    view = client.get(f"{PATH}/c").json()
    assert (view["title"], view["pinned"], view["messages"]) == ("Kept", True, 0)
    assert "Forget this" not in client.get(f"{PATH}/c/entries").text
    assert "Forget this" in client.get(f"{PATH}/c/entries", params={"all": True, "after": 0}).text
    assert client.get(f"{PATH}/c/entries").status_code == 200


def test_an_export_is_imported_again(service: Running, tmp_path: object) -> None:
    """The JSON lines are those that the importer takes, of a long session too."""
    client = service.of("user", user="ana")
    for number in range(40):
        _say(client, "c", f"Message {number}")
    answer = client.get(f"{PATH}/c/export")
    lines = answer.text.splitlines()
    assert answer.headers["content-type"].startswith("application/x-ndjson")
    assert json.loads(lines[0])["type"] == "stratalog_export"
    with Stratalog(service.data, tenant="acme") as memory:
        assert len(lines) - 1 == len(list(memory.session("helper:http:c").entries()))


def test_compaction_says_what_it_did(service: Running) -> None:
    """A session with nothing to fold says why, a long one how much was."""
    client = service.of("user", user="ana")
    _say(client, "c", "Short")
    nothing = client.post(f"{PATH}/c/compact").json()
    assert nothing["compacted"] is False
    assert nothing["reason"]
    for number in range(14):
        _say(client, "c", f"Message {number}: " + "some words " * 200)
    done = client.post(f"{PATH}/c/compact").json()
    assert done["compacted"] is True
    assert done["tokens_after"] < done["tokens_before"]
    assert done["by"] == "extractive"


def test_a_model_names_a_session_and_welcomes(modelled: object) -> None:
    """The title is one line of the model's answer, the user's own stays; the welcome is written once."""
    asked: list[str] = []

    def script(request: object) -> str:
        words = str(request.body["messages"][-1]["content"])  # type: ignore[attr-defined]
        asked.append(words)
        if "Name it" in words:
            return '"Lisbon   trip"\nBecause it is about Lisbon.'
        return "Welcome aboard!" if "welcome" in words else "Sure."

    service, _ = modelled(script, toml="[memory]\nenabled = false")  # type: ignore[operator]
    client = service.of("user", user="ana")
    client.post(PATH, json={"chat": "empty"})
    assert client.post(f"{PATH}/empty/auto-title").status_code == 404
    _say(client, "c", "Plan a trip to Lisbon")
    view = client.post(f"{PATH}/c/auto-title").json()
    assert (view["title"], view["title_by"]) == ("Lisbon trip", "model")
    client.patch(f"{PATH}/c", json={"title": "Mine"})
    assert client.post(f"{PATH}/c/auto-title").json()["title"] == "Mine"
    for _ in range(3):
        welcome = client.get("/v1/agents/helper/welcome").json()
        assert welcome == {"text": "Welcome aboard!", "model": "gpt-5"}
    assert sum("welcome" in words for words in asked) == 1


def test_without_a_model_a_title_is_the_first_words(service: Running) -> None:
    """No model is asked, and there is a title and a welcome all the same."""
    client = service.of("user", user="ana")
    _say(client, "c", "Plan a trip to Lisbon")
    assert client.post(f"{PATH}/c/auto-title").json()["title"] == "Plan a trip to Lisbon"
    assert client.get("/v1/agents/helper/welcome").json()["text"]
