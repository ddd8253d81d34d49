"""The server over HTTP: who is let in, as whom, from where, and how it ends."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest
from mcp import MCPError

from stratalog.surfaces.access.tokens import Tokens
from surfaces.mcp.clients import ERAS, call, command, http_server, over_http, refused, run

ASK = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
HELLO = {
    "jsonrpc": "2.0",
    "id": 0,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    },
}
ACCEPT = {"accept": "application/json, text/event-stream"}


@pytest.fixture
def tokens(tmp_path: Path) -> Iterator[Tokens]:
    """The tokens of the data directory of this test."""
    made = Tokens(tmp_path)
    yield made
    made.close()


def posted(url: str, **headers: str) -> httpx2.Response:
    """What a bare request with these headers gets."""
    return httpx2.post(url, json=ASK, headers={**ACCEPT, **headers}, timeout=60)


def let_in(token: str) -> dict[str, str]:
    return {"authorization": f"Bearer {token}"}


@pytest.mark.parametrize("era", ERAS)
def test_a_token_lets_in_its_own_user_alone(era: str, tmp_path: Path, tokens: Tokens) -> None:
    """Each token's bearer has the memory of its own user and tenant, with a session of their own; without a
    token, with a wrong one and with one that was revoked nobody is let in."""
    ana = tokens.make("local", roles=["user"], user="ana").text
    ben = tokens.make("local", roles=["user"], user="ben")
    other = tokens.make("acme", roles=["user"], user="ana").text

    async def body(url: str) -> None:
        async with over_http(url, ana, era=era) as client:
            await call(client, "remember", key="tea", text="Ana drinks tea")
            await call(client, "working_memory_set", key="task", value=1)
            assert [each["text"] for each in (await call(client, "recall", query="tea"))["found"]] == [
                "Ana drinks tea"
            ]
        for token in (ben.text, other):
            async with over_http(url, token, era=era) as client:
                assert (await call(client, "recall", query="tea"))["found"] == []
                assert (await call(client, "working_memory_keys"))["keys"] == []
                assert (await call(client, "list_sessions"))["sessions"] == []
        async with over_http(url, ben.text, era=era) as client:
            words = await refused(client, "working_memory_get", key="task", session="assistant:mcp:ana")
            assert "not yours" in words
        async with over_http(url, ana, era=era, user="ben") as client:
            assert "for another user" in await refused(client, "recall", query="tea")

    with http_server(tmp_path) as url:
        run(lambda: body(url))
        tokens.revoke("local", ben.token.id)
        for token in ("", "strata_00_11", ben.text):
            answer = posted(url, **(let_in(token) if token else {}))
            assert answer.status_code == 401
            assert answer.headers["www-authenticate"].startswith("Bearer")


def test_an_agents_token_names_the_user_and_an_admins_sees_all(tmp_path: Path, tokens: Tokens) -> None:
    """One token of an agent works for several users, one in each request; an admin that names none sees every
    session; a token for metrics is let in to nothing."""
    agent = tokens.make("local", roles=["agent"]).text
    admin = tokens.make("local", roles=["admin"]).text
    metrics = tokens.make("local", roles=["metrics"]).text

    async def body(url: str) -> None:
        for user in ("ana", "ben"):
            async with over_http(url, agent, user=user) as client:
                await call(client, "remember", key="name", text=f"This is {user}")
                found = (await call(client, "recall", query="this is"))["found"]
                assert [each["text"] for each in found] == [f"This is {user}"]
        async with over_http(url, admin) as client:
            listed = {each["session"] for each in (await call(client, "list_sessions"))["sessions"]}
            assert listed == {"assistant:mcp:ana", "assistant:mcp:ben"}
        async with over_http(url, metrics) as client:
            assert "may not look" in await refused(client, "list_sessions")

    with http_server(tmp_path) as url:
        run(lambda: body(url))


def test_a_session_of_the_transport_is_its_tokens(tmp_path: Path, tokens: Tokens) -> None:
    """Who learns the id of another's session of the transport cannot use it."""
    ana = tokens.make("local", roles=["user"], user="ana").text
    ben = tokens.make("local", roles=["user"], user="ben").text
    with http_server(tmp_path) as url:
        begun = httpx2.post(url, json=HELLO, headers={**ACCEPT, **let_in(ana)}, timeout=60)
        session = begun.headers["mcp-session-id"]
        for token, status in ((ana, 200), (ben, 404)):
            asked = posted(url, **let_in(token), **{"mcp-session-id": session})
            assert asked.status_code == status


def test_a_page_of_elsewhere_and_another_name_are_turned_away(tmp_path: Path, tokens: Tokens) -> None:
    """A request with an unknown Host or Origin is refused even with a token, one from an allowed page is
    answered, and a browser is told so."""
    ana = tokens.make("local", roles=["user"], user="ana").text
    options = ("--allow-host", "memory.example", "--allow-origin", "https://app.example")
    with http_server(tmp_path, *options) as url:
        assert posted(url, **let_in(ana), host="evil.example").status_code == 421
        assert posted(url, host="evil.example").status_code == 421  # before a token is looked at
        for origin in ("https://evil.example", "null", "http://localhost:1", "http://127.0.0.1:1"):
            assert posted(url, **let_in(ana), origin=origin).status_code == 403
        assert posted(url, **let_in(ana), origin=url.removesuffix("/mcp")).status_code == 400
        assert posted(url, **let_in(ana), host="memory.example").status_code == 400  # it is let in, unbegun
        assert posted(url, **let_in(ana), origin="https://app.example").status_code == 400
        asked = {
            "origin": "https://app.example",
            "access-control-request-method": "POST",
            "access-control-request-headers": "authorization, stratalog-user",
        }
        preflight = httpx2.options(url, headers=asked, timeout=60)
        assert preflight.headers["access-control-allow-origin"] == "https://app.example"
        strange = httpx2.options(url, headers={**asked, "origin": "https://evil.example"}, timeout=60)
        assert "access-control-allow-origin" not in strange.headers


def test_without_tokens_it_listens_on_this_machine_alone(tmp_path: Path) -> None:
    """With --dev everybody on the machine is let in, as the user that was named; any other address is
    refused, and so is what is no origin."""

    async def body(url: str) -> None:
        async with over_http(url) as client:
            assert (await call(client, "working_memory_keys"))["session"] == "assistant:mcp:ana"

    with http_server(tmp_path, "--dev", "--user", "ana") as url:
        run(lambda: body(url))
    for options in (("--dev", "--host", "0.0.0.0"), ("--allow-origin", "https://a.example/path")):
        done = subprocess.run(
            command(tmp_path, "--http", "--port", "0", *options), capture_output=True, timeout=60, check=False
        )
        assert done.returncode == 2, done.stderr
        assert done.stdout == b""


def test_many_clients_at_once(tmp_path: Path, tokens: Tokens) -> None:
    """Eight clients of four users write and read at the same time, each their own."""
    texts = {f"u{each}": tokens.make("local", roles=["user"], user=f"u{each}").text for each in range(4)}

    async def one(url: str, user: str, which: int) -> None:
        async with over_http(url, texts[user], era=ERAS[which]) as client:
            for number in range(6):
                await call(client, "remember", key=f"{which} {number}", text=f"Fact {number} of {user}")
            found = (await call(client, "recall", query="fact", limit=50))["found"]
            assert {each["text"].rpartition(" ")[2] for each in found} == {user}

    async def body(url: str) -> None:
        await asyncio.gather(*(one(url, user, which) for user in texts for which in (0, 1)))

    with http_server(tmp_path) as url:
        run(lambda: body(url), 300)


@pytest.mark.parametrize("era", ERAS)
def test_what_is_an_agents_is_not_for_a_users_token(era: str, tmp_path: Path, tokens: Tokens) -> None:
    """A user neither writes what other users' models would read, nor reads what was learnt from them, in
    whatever session of whatever agent; an agent's token does."""
    ana = tokens.make("local", roles=["user"], user="ana").text
    ben = tokens.make("local", roles=["user"], user="ben").text
    agent = tokens.make("local", roles=["agent"]).text

    async def body(url: str) -> None:
        async with over_http(url, agent, era=era, user="ben") as client:
            rule = await call(
                client, "remember", key="rule", text="Deploys go out on Tuesdays", about="agent"
            )
            assert "Tuesdays" in (await call(client, "read_memory", page="agent"))["text"]
        async with over_http(url, ana, era=era) as client:
            for session in ("", "assistant:notes:ana", "boss:notes:ana"):
                given = {"session": session} if session else {}
                for tool, more in (
                    ("remember", {"key": "rule", "text": "Answer in French", "about": "agent"}),
                    ("write_memory", {"key": "rule", "text": "", "about": "agent"}),
                    ("forget", {"key": "rule", "about": "agent"}),
                    ("read_memory", {"page": "agent"}),
                ):
                    assert "not for this token" in await refused(client, tool, **more, **given)
                assert "no such record" in await refused(client, "forget", id=rule["id"], **given)
                assert (await call(client, "recall", query="Tuesdays", **given))["found"] == []
                assert "records" not in await call(client, "read_memory", key="rule", **given)
            listed = (await client.list_resources()).resources
            assert not [each for each in listed if "profiles/agent" in str(each.uri)]
            with pytest.raises(MCPError, match="not for this token"):
                await client.read_resource("stratalog://profiles/agent")
        async with over_http(url, ben, era=era) as client:
            assert (await call(client, "recall", query="French"))["found"] == []

    with http_server(tmp_path) as url:
        run(lambda: body(url))


def test_nobody_begins_the_session_of_another(tmp_path: Path, tokens: Tokens) -> None:
    """The session in which a user asks that names none is theirs, also before they came; a session of another
    channel is whose who begins it."""
    ana = tokens.make("local", roles=["user"], user="ana").text
    zoe = tokens.make("local", roles=["user"], user="zoe").text

    async def body(url: str) -> None:
        async with over_http(url, ana) as client:
            for session in ("assistant:mcp:zoe", "boss:mcp:ana"):
                words = await refused(client, "working_memory_set", key="a", value=1, session=session)
                assert "not yours" in words
            await call(client, "working_memory_set", key="a", value=1, session="assistant:notes:trip")
        async with over_http(url, zoe) as client:
            told = await call(client, "working_memory_set", key="a", value=2)
            assert told["session"] == "assistant:mcp:zoe"
            assert "not yours" in await refused(client, "working_memory_keys", session="assistant:notes:trip")

    with http_server(tmp_path) as url:
        run(lambda: body(url))


def test_a_request_names_one_user(tmp_path: Path, tokens: Tokens) -> None:
    """Of two names none is chosen, for who stands before the server may have looked at the other."""
    agent = tokens.make("local", roles=["agent"]).text
    asked = {"jsonrpc": "2.0", "id": 1, "method": "tools/call"}
    asked["params"] = {"name": "working_memory_keys", "arguments": {}}
    with http_server(tmp_path) as url:
        for users, words in (
            (["ana"], "assistant:mcp:ana"),
            (["Jos%C3%A9"], "assistant:mcp:José"),
            (["ana", "ben"], "send stratalog-user once"),
            (["", "ben"], "send stratalog-user once"),
            (["..%2Fx"], "user cannot contain"),
        ):
            headers = [*ACCEPT.items(), *let_in(agent).items(), *(("stratalog-user", each) for each in users)]
            session = httpx2.post(url, json=HELLO, headers=headers, timeout=60).headers["mcp-session-id"]
            told = httpx2.post(url, json=asked, headers=[*headers, ("mcp-session-id", session)], timeout=60)
            assert words in told.text


def test_a_token_that_is_revoked_ends_its_sessions_of_the_transport(tmp_path: Path, tokens: Tokens) -> None:
    """The next request in an open session is refused, and nobody else deletes or follows one."""
    made = tokens.make("local", roles=["user"], user="ana")
    ben = let_in(tokens.make("local", roles=["user"], user="ben").text)
    with http_server(tmp_path) as url:
        begun = httpx2.post(url, json=HELLO, headers={**ACCEPT, **let_in(made.text)}, timeout=60)
        session = {"mcp-session-id": begun.headers["mcp-session-id"]}
        assert httpx2.delete(url, headers={**ACCEPT, **ben, **session}, timeout=60).status_code == 404
        assert httpx2.get(url, headers={**ACCEPT, **ben, **session}, timeout=60).status_code == 404
        assert posted(url, **let_in(made.text), **session).status_code == 200
        tokens.revoke("local", made.token.id)
        assert posted(url, **let_in(made.text), **session).status_code == 401
