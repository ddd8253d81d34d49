"""Who asks, which agents and sessions there are, and what stands around an entry: for whoever asks, and of
nobody else."""

from __future__ import annotations

from urllib.parse import quote

import httpx
import pytest

from stratalog import Stratalog, __version__
from stratalog.types import Title, User
from surfaces.http.conftest import Running, configure, running
from surfaces.http.paging import every

WANG = "%E5%B0%8F%E7%8E%8B"  # 小王


def _write(
    service: Running, key: str, title: str, *, user: str = "", tenant: str = "acme", at: int = 1
) -> None:
    with Stratalog(service.data, tenant=tenant) as memory:
        session = memory.session(key)
        if user:
            session.set_metadata(users=[user])
        session.append(User(content="words", ts=at), Title(title=title))


def _titles(client: httpx.Client, **query: object) -> list[str]:
    answer = client.get("/v1/sessions", params=query)
    assert answer.status_code == 200, answer.text
    return [each["title"] for each in answer.json()["sessions"]]


@pytest.fixture
def many(service: Running) -> Running:
    """Sessions of two agents, three channels, two users and nobody, and of another tenant."""
    _write(service, "helper:http:1", "Trip to Lisbon", user="ana", at=5)
    _write(service, "helper:wecom:2", "西湖骑行计划", user="小王", at=4)
    _write(service, "writer:http:3", "A letter to LISBON", user="小王", at=3)
    _write(service, "writer:cli:4", "Straße nach Porto", at=2)
    _write(service, "helper:http:5", "A secret of Lisbon", user="ana", tenant="zeta", at=9)
    with Stratalog(service.data, tenant="acme") as memory:
        memory.session("writer:cli:4").pin()
    return service


def test_who_asks_is_told(service: Running) -> None:
    """The token's tenant, roles, name and end, whom it asks for, and the version of the service."""
    made = service.tokens.make("acme", roles=["agent", "user"], user="ana", name="phone", days=1)
    me = service.client(made.text).get("/v1/me").json()
    assert me == {
        "tenant": "acme",
        "user": "ana",
        "roles": ["agent", "user"],
        "name": "phone",
        "expires": made.token.expires_at,
        "version": __version__,
    }
    admin = service.of("admin")
    assert admin.get("/v1/me").json()["user"] == ""
    assert admin.get("/v1/me", headers={"stratalog-user": WANG}).json()["user"] == "小王"
    assert service.of("metrics").get("/v1/me").status_code == 403


@pytest.mark.parametrize(
    "named", [b"100%", b"%E5%B0", b"%2e%2e", b"a%2Fb", b"%00", b"a%252fb", "小王".encode()]
)
def test_a_user_that_cannot_be_named_is_refused(service: Running, named: bytes) -> None:
    """Loose percent signs, bytes that are no UTF-8, paths, letters that were not encoded: 400, never somebody
    else."""
    answer = service.of("admin").get("/v1/me", headers={b"stratalog-user": named})
    assert answer.status_code == 400, answer.text


def test_a_chinese_user_is_named_in_a_header(many: Running) -> None:
    """Percent-encoded it is the user of that token's own sessions, and for a user's token still another's."""
    agent = many.of("agent")
    assert _titles(agent) == ["Straße nach Porto"]
    named = agent.get("/v1/sessions", headers={"stratalog-user": WANG}).json()["sessions"]
    assert [each["title"] for each in named] == ["西湖骑行计划", "A letter to LISBON"]
    ana = many.of("user", user="ana")
    assert ana.get("/v1/sessions", headers={"stratalog-user": WANG}).status_code == 403
    own = many.of("user", user="小王")
    assert own.get("/v1/sessions", headers={"stratalog-user": WANG}).status_code == 200


def test_agents_are_those_of_sessions_in_sight(many: Running) -> None:
    """With their channels and how many sessions each has; nothing of other users or tenants is counted."""
    assert many.of("admin").get("/v1/agents").json()["agents"] == [
        {
            "name": "helper",
            "sessions": 2,
            "channels": [{"name": "http", "sessions": 1}, {"name": "wecom", "sessions": 1}],
            "has_model": True,
        },
        {
            "name": "writer",
            "sessions": 2,
            "channels": [{"name": "cli", "sessions": 1}, {"name": "http", "sessions": 1}],
            "has_model": True,
        },
    ]
    (only,) = many.of("user", user="ana").get("/v1/agents").json()["agents"]
    assert (only["name"], only["channels"]) == ("helper", [{"name": "http", "sessions": 1}])
    assert many.of("user", user="ben").get("/v1/agents").json() == {"agents": []}


def test_an_agent_without_a_model_says_so(service: Running) -> None:
    """Also one whose settings cannot be read, which costs nobody the list."""
    configure(service.data.parent / "bare")
    with running(service.data.parent / "bare") as bare:
        _write(bare, "plain:http:1", "One")
        _write(bare, "broken:http:1", "Two")
        with Stratalog(bare.data, tenant="acme") as memory:
            assert len(memory.sessions().sessions) == 2  # listed, before its settings are broken
        (bare.data / "acme" / "agents" / "broken" / "agent.toml").write_text("model = [")
        agents = bare.of("admin").get("/v1/agents").json()["agents"]
    told = {each["name"]: each["has_model"] for each in agents}
    assert told == {"broken": False, "plain": False}


def test_sessions_of_all_agents_and_channels_are_one_list(many: Running) -> None:
    """Pinned first, then the newest, a page at a time, and only those of one agent, of one channel."""
    admin = many.of("admin")
    all_of_them = ["Straße nach Porto", "Trip to Lisbon", "西湖骑行计划", "A letter to LISBON"]
    assert _titles(admin) == all_of_them
    for limit in (1, 2, 3, 4):
        assert [each["title"] for each in every(admin, "/v1/sessions", "sessions", limit)] == all_of_them
    assert _titles(admin, agent="writer") == ["Straße nach Porto", "A letter to LISBON"]
    assert _titles(admin, channel="http") == ["Trip to Lisbon", "A letter to LISBON"]
    assert _titles(admin, agent="writer", channel="http") == ["A letter to LISBON"]
    assert _titles(admin, agent="nobody") == []


@pytest.mark.parametrize(
    ("words", "titles"),
    [
        ("lisbon", ["Trip to Lisbon", "A letter to LISBON"]),
        ("LETTER TO", ["A letter to LISBON"]),
        ("骑行", ["西湖骑行计划"]),
        ("STRASSE", ["Straße nach Porto"]),
        (" trip ", ["Trip to Lisbon"]),
        ("nobody's", []),
        ("%", []),
    ],
)
def test_titles_are_searched(many: Running, words: str, titles: list[str]) -> None:
    """A part of the title, in any case and any script; the words are no pattern."""
    admin = many.of("admin")
    assert _titles(admin, title=words) == titles
    assert [each["title"] for each in every(admin, "/v1/sessions", "sessions", 1, title=words)] == titles


def test_another_sees_nothing(many: Running) -> None:
    """A user sees its own alone, whatever it filters by, and a tenant nothing of another."""
    ana = many.of("user", user="ana")
    assert _titles(ana) == ["Trip to Lisbon"]
    assert _titles(ana, title="secret") == []
    assert _titles(ana, agent="writer") == []
    assert _titles(many.of("user", user="ben"), title="lisbon") == []
    zeta = many.of("admin", tenant="zeta")
    assert _titles(zeta) == ["A secret of Lisbon"]
    assert _titles(zeta, title="骑行") == []
    assert _titles(many.of("admin", tenant="empty")) == []
    assert ana.get("/v1/sessions", params={"cursor": "nonsense"}).status_code == 400


def test_entries_around_one(service: Running) -> None:
    """By its id or its number, with so many on both sides, and where it goes on."""
    ana = service.of("user", user="ana")
    with Stratalog(service.data, tenant="acme") as memory:
        session = memory.session("helper:http:long")
        session.set_metadata(users=["ana"])
        session.append(*(User(content=f"word {number}") for number in range(20)))
        entries = list(session.entries())
    path = "/v1/agents/helper/sessions/long/entries"
    middle = entries[10]
    for name in (middle.id, str(middle.seq)):
        page = ana.get(f"{path}/{quote(name)}/around", params={"before": 2, "after": 3}).json()
        assert [each["seq"] for each in page["entries"]] == list(range(middle.seq - 2, middle.seq + 4))
        assert (page["before"], page["after"]) == (middle.seq - 2, middle.seq + 3)
    alone = ana.get(f"{path}/{middle.id}/around", params={"before": 0, "after": 0}).json()
    assert [each["id"] for each in alone["entries"]] == [middle.id]
    assert (alone["before"], alone["after"]) == (middle.seq, middle.seq)
    whole = ana.get(f"{path}/{middle.id}/around", params={"before": 249, "after": 249}).json()
    assert [each["id"] for each in whole["entries"]] == [each.id for each in entries]
    assert (whole["before"], whole["after"]) == (None, None)
    first = ana.get(f"{path}/{entries[0].id}/around", params={"before": 3, "after": 0}).json()
    assert ([each["seq"] for each in first["entries"]], first["before"]) == ([entries[0].seq], None)
    for name in ("nobody", "999", "0"):
        assert ana.get(f"{path}/{name}/around").status_code == 404
    others = (service.of("user", user="ben"), service.of("agent"), service.of("admin", tenant="zeta"))
    for other in others:
        answer = other.get(f"{path}/{middle.id}/around")
        assert answer.status_code == 404
        assert "word" not in answer.text
