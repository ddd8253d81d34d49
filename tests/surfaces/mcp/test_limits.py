"""How much one token may ask of the server over HTTP."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from stratalog.memory.audit import FileAudit
from stratalog.surfaces.access.tokens import Tokens
from stratalog.surfaces.mcp.limits import Transports
from surfaces.mcp.clients import call, http_server, over_http, refused, run
from surfaces.mcp.test_http import ACCEPT, ASK, HELLO, let_in, posted


@pytest.fixture
def tokens(tmp_path: Path) -> Iterator[Tokens]:
    """The tokens of the data directory of this test."""
    made = Tokens(tmp_path)
    yield made
    made.close()


def hello(url: str, token: str) -> httpx2.Response:
    """What a client gets that begins a session of the transport."""
    return httpx2.post(url, json=HELLO, headers={**ACCEPT, **let_in(token)}, timeout=60)


def test_sessions_of_the_transport_are_counted_until_they_end() -> None:
    """Each has its own count; one ends when it is deleted, or when it was quiet for long enough, and the wait
    is until the first of these is."""
    now = [0.0]
    held = Transports(2, 100, clock=lambda: now[0])
    for id in ("one", "two"):
        assert held.wait("a") == 0
        held.began("a", id)
    assert held.wait("a") == 100  # both are asking something: nobody knows for how long
    held.ended("a", "one", gone=False)
    now[0] = 30.0
    held.ended("a", "two", gone=False)
    assert held.wait("a") == 70
    assert held.wait("b") == 0
    held.began("a", "one")
    now[0] = 129.0
    assert held.wait("a") == 1
    held.ended("a", "one", gone=False)
    now[0] = 130.0
    assert held.wait("a") == 0  # the second was quiet for 100 s
    assert (held.holds("a", "one"), held.holds("a", "two")) == (True, False)
    held.began("a", "three")
    held.named("a", "three", "3")
    held.ended("a", "3", gone=True)
    assert (held.holds("a", "three"), held.holds("a", "3")) == (False, False)
    held.ended("b", "one", gone=True)  # another's is nothing to it
    assert held.holds("a", "one")


def test_who_asks_too_often_waits(tmp_path: Path, tokens: Tokens) -> None:
    """The token that used up its burst gets 429 with the time to wait; another is not held up by it, and who
    has none is held up by where it is."""
    ana = tokens.make("local", roles=["user"], user="ana").text
    ben = tokens.make("local", roles=["user"], user="ben").text
    with http_server(tmp_path, "--rate", "1", "--burst", "3") as url:
        got = [posted(url, **let_in(ana)) for _ in range(4)]
        assert [each.status_code for each in got] == [400, 400, 400, 429]
        assert 1 <= int(got[3].headers["retry-after"]) <= 60
        assert posted(url, **let_in(ben)).status_code == 400
        assert [posted(url).status_code for _ in range(4)] == [401, 401, 401, 429]


def test_a_token_has_so_many_clients_at_once(tmp_path: Path, tokens: Tokens) -> None:
    """One more is refused with 429, those that are there go on, one that is deleted makes room; a request
    that begins nothing, and a client of the later protocol, take none."""
    ana = tokens.make("local", roles=["user"], user="ana").text
    ben = tokens.make("local", roles=["user"], user="ben").text

    async def later(url: str) -> None:
        async with over_http(url, ana, era="auto") as client:
            assert (await call(client, "working_memory_keys"))["keys"] == []

    with http_server(tmp_path, "--clients", "2") as url:
        for _ in range(3):
            assert posted(url, **let_in(ana)).status_code == 400  # it said no hello
        one, two, three = (hello(url, ana) for _ in range(3))
        assert (one.status_code, two.status_code, three.status_code) == (200, 200, 429)
        assert int(three.headers["retry-after"]) > 1_700
        assert hello(url, ben).status_code == 200
        session = {"mcp-session-id": one.headers["mcp-session-id"]}
        assert posted(url, **let_in(ana), **session).status_code == 200
        assert posted(url, **let_in(ana), **{"mcp-session-id": "0" * 32}).status_code == 404
        assert posted(url, **let_in(ben), **session).status_code == 404
        assert hello(url, ana).status_code == 429
        run(lambda: later(url))
        assert httpx2.delete(url, headers={**ACCEPT, **let_in(ana), **session}, timeout=60).status_code == 200
        assert [hello(url, ana).status_code for _ in range(2)] == [200, 429]


def test_a_message_has_its_limit(tmp_path: Path, tokens: Tokens) -> None:
    """More than 4 MiB are refused with 413, whether or not the length is told."""
    ana = tokens.make("local", roles=["user"], user="ana").text
    body = b'{"jsonrpc": "2.0", "id": 1, "method": "' + b"x" * (4 * 1024 * 1024) + b'"}'
    headers = {**ACCEPT, **let_in(ana), "content-type": "application/json"}
    with http_server(tmp_path) as url:
        for content in (body, iter([body[:1000], body[1000:]])):
            assert httpx2.post(url, content=content, headers=headers, timeout=60).status_code == 413


def test_what_is_refused_is_in_the_audit(tmp_path: Path, tokens: Tokens) -> None:
    """A role, another user, another's session, another tenant and a token that holds no more: the token, what
    was asked and why, and no word of a secret; what records were asked names the token too."""
    ana = tokens.make("acme", roles=["user"], user="ana")
    metrics = tokens.make("acme", roles=["metrics"])
    gone = tokens.make("acme", roles=["agent"])
    tokens.revoke("acme", gone.token.id)

    async def body(url: str) -> None:
        async with over_http(url, ana.text) as client:
            await call(client, "remember", key="tea", text="Ana drinks tea")
            await refused(client, "working_memory_get", key="task", session="assistant:mcp:ben")
            await refused(client, "read_session", session="zeta/assistant:mcp:ana")
            await refused(client, "remember", key="rule", text="x", about="agent")
        async with over_http(url, ana.text, user="ben") as client:
            await refused(client, "recall", query="tea")
        async with over_http(url, metrics.text) as client:
            await refused(client, "list_sessions")

    with http_server(tmp_path) as url:
        run(lambda: body(url))
        assert httpx2.post(url, json=ASK, headers={**ACCEPT, **let_in(gone.text)}).status_code == 401
    found = list(FileAudit(tmp_path).read("acme"))
    assert {each.token for each in found if each.call == "remember"} == {ana.token.id}
    told = [(each.token, each.call, each.reason) for each in found if each.ending == "refused"]
    assert told == [
        (ana.token.id, "tools/call working_memory_get", "this session is not yours to ask in"),
        (ana.token.id, "tools/call read_session", "a session of another tenant was named"),
        (ana.token.id, "tools/call remember", "what is the agent's is not for this token"),
        (ana.token.id, "tools/call recall", "this token is for another user"),
        (metrics.token.id, "tools/call list_sessions", "this token may not look at sessions or memory"),
        (gone.token.id, "POST /mcp", "the token is revoked"),
    ]
    kept = FileAudit(tmp_path).path("acme").read_text()
    for made in (ana, metrics, gone):
        assert made.text.rpartition("_")[2] not in kept
