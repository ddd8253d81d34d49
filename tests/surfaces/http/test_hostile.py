"""Clients that mean harm, or do not know what they do: what the service answers, and what it keeps."""

from __future__ import annotations

import gzip
import resource
import socket
import threading
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from stratalog.surfaces.http.running import Connection
from stratalog.testing.model_server import ModelServer
from stratalog.testing.scripted import Gate, Reply
from stratalog.types import Assistant, User
from surfaces.http.conftest import PATIENCE, Running, running
from surfaces.http.test_chat import OFF, ONE, SAY, events, followed, log_of, said, until

Modelled = Callable[..., tuple[Running, ModelServer]]
BODY = b'{"content": "hello"}'


@pytest.fixture
def ana(service: Running) -> httpx.Client:
    return service.of("user", user="ana")


def connected(service: Running) -> socket.socket:
    return socket.create_connection(("127.0.0.1", service.port), PATIENCE)


def head(service: Running, *lines: str, path: str = SAY, method: str = "POST") -> bytes:
    """The head of a request with a token, as it is written on the wire."""
    token = service.tokens.make("acme", roles=["user"], user="ana").text
    told = (f"{method} {path} HTTP/1.1", "Host: 127.0.0.1", f"Authorization: Bearer {token}", *lines)
    return "\r\n".join((*told, "", "")).encode()


def answered(where: socket.socket) -> bytes:
    """All that comes until the other side closes."""
    found = b""
    try:
        while piece := where.recv(65_536):
            found += piece
    except ConnectionResetError:
        pass
    return found


# --- what is sent ---


@pytest.mark.parametrize(
    ("lines", "body", "status"),
    [
        (("Content-Length: 100",), BODY, b""),  # and then it leaves
        (("Content-Length: 5",), BODY, b"400"),
        (("Content-Length: 20", "Content-Length: 21"), BODY, b"400"),
        (("Content-Length: -1",), BODY, b"400"),
        (("Content-Length: 5", "Transfer-Encoding: chunked"), b"14\r\n" + BODY + b"\r\n0\r\n\r\n", b"400"),
        (("Transfer-Encoding: chunked",), b"f" * 30 + b"\r\n" + BODY, b"400"),
    ],
)
def test_a_length_that_is_a_lie_says_nothing(
    service: Running, lines: tuple[str, ...], body: bytes, status: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    """Nothing is in the log, nobody's next request is answered with the rest, and it is no defect of ours."""
    with closing(connected(service)) as where:
        where.sendall(head(service, *lines, "Connection: close") + body)
        if not status:
            where.shutdown(socket.SHUT_WR)
        assert answered(where).split(b" ")[1:2] == ([status] if status else [])
    until(lambda: not service.server.server_state.tasks)
    assert service.of("user", user="ana").get(ONE).status_code == 404
    assert "Traceback" not in caplog.text
    assert not [each for each in caplog.records if each.levelname == "ERROR"]


def test_what_is_packed_is_refused(ana: httpx.Client) -> None:
    """A body with a Content-Encoding is not unpacked, and not taken for what it is not."""
    for body in (gzip.compress(BODY), BODY):
        refused = ana.post(SAY, content=body, headers={"content-encoding": "gzip"})
        assert refused.status_code == 415
        assert refused.headers["content-type"] == "application/problem+json"
    assert ana.get(ONE).status_code == 404
    assert ana.post(SAY, content=BODY, headers={"content-encoding": "identity"}).status_code == 200


def test_what_is_nested_too_deeply_is_refused(ana: httpx.Client) -> None:
    """It is the request's fault, whatever it is that cannot be read so deep."""
    deep = b"[" * 100_000 + b"]" * 100_000
    for path, body in (
        (SAY, b'{"content": "x", "model": ' + deep + b"}"),
        ("/v1/agents/helper/sessions", b'{"metadata": {"x": ' + deep + b"}}"),
        ("/v1/memory/records", b'{"key": "x", "payload": ' + deep + b"}"),
    ):
        refused = ana.post(path, content=body)
        assert refused.status_code == 400, refused.text


@pytest.mark.parametrize(
    ("path", "statuses"),
    [
        ("/v1/agents/a/sessions/" + "x" * 10_000, {400}),
        ("/v1/agents/a/sessions/..%2f..%2fetc%2fpasswd", {404}),
        ("/v1/agents/a%2fb/sessions/x", {404}),
        ("/v1/agents/a/sessions/%2e%2e", {400}),
        ("/v1/agents/%2e%2e/sessions/x", {400}),
        ("/v1/agents/a/sessions/x%00y", {400}),
        ("/v1/agents/a/sessions/x%0d%0aSet-Cookie:%20a=b", {400}),
        ("/v1/agents/a/sessions/%ff%fe", {400}),
        ("/v1/agents/a/sessions/%F0%9F%92%A5", {404}),
        ("/v1/agents/a/sessions/x?channel=%00", {400}),
        ("/v1/agents/a/sessions/x?channel=" + "y" * 5_000, {400}),
        ("/v1/agents//sessions", {404}),
        ("/health/%2e%2e/v1/tokens", {404}),
        ("/console/..%2f..%2fpyproject.toml", {404}),
    ],
)
def test_a_path_leads_nowhere_else(service: Running, path: str, statuses: set[int]) -> None:
    """Neither out of the data directory nor past the token, and what it says is in no header."""
    with closing(connected(service)) as where:
        where.sendall(head(service, "Connection: close", path=path, method="GET"))
        told, _, _ = answered(where).partition(b"\r\n\r\n")
    assert int(told.split(b" ")[1]) in statuses
    assert b"set-cookie" not in told.lower()
    anonymous = service.client()
    url = httpx.URL(service.url).copy_with(raw_path=path.encode())
    refused = anonymous.send(httpx.Request("GET", url))
    assert refused.status_code == (404 if path.startswith(("/health", "/console")) else 401)


def test_words_of_any_language_name_a_session(ana: httpx.Client) -> None:
    """An id is what it was, composed as Unicode composes it."""
    names = ("日記", "caf\u00e9", "\U0001f4a5", "a:b", "a b", "%41", "A")
    for name in names:
        at = f"/v1/agents/helper/sessions/{quote(name)}"
        assert ana.post(f"{at}/messages", json={"content": name}).status_code == 200
        assert ana.get(at).json()["chat"] == name
    listed = ana.get("/v1/agents/helper/sessions").json()["sessions"]
    assert sorted(each["chat"] for each in listed) == sorted(names)
    composed = ana.get(f"/v1/agents/helper/sessions/{quote('cafe' + chr(0x301))}").json()["chat"]
    assert composed == "caf\u00e9"


def test_an_id_of_a_request_is_a_plain_word(ana: httpx.Client) -> None:
    """Another one is replaced, so that nothing of it is in a header or a line of a log."""
    for given in ("short", "a" * 65, "with space", "tab\tbed-and-long", 'quote"quote"quote', "ünsinn-unsinn"):
        told = ana.get("/health", headers={"x-request-id": given.encode()}).headers["x-request-id"]
        assert told != given
        assert len(told) == 26


def test_requests_may_follow_each_other_unread(service: Running) -> None:
    """Two hundred that are sent at once by one connection are answered in their order."""
    one = head(service, path="/health", method="GET")
    last = head(service, "Connection: close", path="/ready", method="GET")
    with closing(connected(service)) as where:
        where.sendall(one * 200 + last)
        told = answered(where)
    assert told.count(b"HTTP/1.1 200 OK") == 201
    assert told.endswith(b'{"status":"ready"}')


@pytest.mark.parametrize("method", ["HEAD", "OPTIONS", "TRACE", "PUT", "SPLIT"])
def test_a_method_that_is_not_there(ana: httpx.Client, method: str) -> None:
    """It changes nothing, and says what is."""
    answer = ana.request(method, SAY, content=BODY if method == "PUT" else None)
    assert answer.status_code == (204 if method == "OPTIONS" else 405)
    assert "POST" in answer.headers["allow"]
    assert ana.get(ONE).status_code == 404


# --- how it is sent ---


def test_a_body_that_dawdles_is_given_up(data: Path) -> None:
    """A request whose body does not come in time is refused, and the connection closed."""
    with running(data, patience=0.3) as service, closing(connected(service)) as where:
        where.sendall(head(service, "Content-Length: 1000") + b"{")
        told = answered(where)
        assert told.startswith(b"HTTP/1.1 408")
        assert b'"the body did not come whole"' in told


def test_a_head_that_dawdles_is_given_up(service: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether nothing comes at all, half of a request, or half of another after one that was answered."""
    made = service.server.config.http_protocol_class
    made.keywords["head"] = 0.3
    begun = head(service, path="/health", method="GET")
    for first in (b"", begun[:30], begun + begun[:30]):
        with closing(connected(service)) as where:
            where.sendall(first)
            assert answered(where).count(b"200 OK") == (first.count(begun))
    assert issubclass(made.func, Connection)


def test_an_answer_that_takes_long_is_not_given_up(modelled: Modelled) -> None:
    """The time for the head of a request is not that for its answer."""
    gate = Gate()
    service, _ = modelled([Reply(text="late", gate=gate)], toml=OFF)
    service.server.config.http_protocol_class.keywords["head"] = 0.2
    client = service.of("user", user="ana")
    timer = threading.Timer(0.6, gate.open)
    timer.start()
    assert client.post(SAY, json={"content": "x"}).json()["text"] == "late"
    timer.join()


def test_there_are_no_more_connections_than_may_be(data: Path) -> None:
    """Those beyond are closed at once, and what is open goes on."""
    with running(data, connections=5) as service:
        client = service.client()
        assert client.get("/health").status_code == 200
        crowd = [connected(service) for _ in range(4)]
        beyond = connected(service)
        assert answered(beyond) == b""
        assert client.get("/health").status_code == 200
        for each in (*crowd, beyond):
            each.close()
        until(lambda: len(service.server.server_state.connections) == 1)
        assert connected(service).close() is None


def test_the_process_lets_itself_open_the_files_that_connections_need(service: Running) -> None:
    """As far as it may."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = service.settings.connections
    assert resource.RLIM_INFINITY in (soft, hard) or soft >= min(hard, wanted)
    assert service.server.config.http_protocol_class.keywords["most"] <= wanted


# --- streams ---


def test_streams_that_are_opened_and_dropped_leave_nothing(modelled: Modelled) -> None:
    """A thousand readers come and go while the turn hangs: none is left, and the turn ends for the last."""
    gate = Gate()
    service, _ = modelled([Reply(text="one two", late_gate=gate)], toml=OFF, rate=1e9, burst=10**9)
    client = service.of("user", user="ana")
    turn = _begun(client)
    ask = head(service, path=f"{ONE}/turns/{turn}/events", method="GET")
    for _ in range(20):
        crowd = [connected(service) for _ in range(50)]
        for each in crowd:
            each.sendall(ask)
        until(lambda: service.service.turns.open >= 1)
        for each in crowd:
            each.close()
    until(lambda: service.service.turns.open == 0 and not service.server.server_state.tasks)
    gate.open()
    assert followed(client, turn)[-1]["text"] == "one two"


def test_fifty_follow_one_turn(modelled: Modelled) -> None:
    """Each reads every event once, in order, whenever it came."""
    gate = Gate()
    text = "word " * 400
    service, _ = modelled([Reply(text=text, pieces=400, late_gate=gate)], toml=OFF, rate=1e9, burst=10**9)
    client = service.of("user", user="ana")
    turn = _begun(client)
    found: list[list[Any]] = []
    threads = [threading.Thread(target=lambda: found.append(followed(client, turn))) for _ in range(50)]
    for each in threads:
        each.start()
    until(lambda: service.service.turns.open == 50)
    gate.open()
    for each in threads:
        each.join(PATIENCE)
    assert len(found) == 50
    for got in found:
        assert [int(event.id.partition(":")[2]) for event in got] == list(range(1, len(got) + 1))
        assert "".join(event["text"] for event in got if event.type == "text") == text == got[-1]["text"]


def test_who_never_reads_holds_up_nobody(modelled: Modelled) -> None:
    """Twenty readers that take nothing of a long reply: the turn is answered, and what is kept for them has
    its bound."""
    text = "x" * 4_000_000
    service, _ = modelled([Reply(text=text, pieces=2_000)], toml=OFF, rate=1e9, burst=10**9)
    client = service.of("user", user="ana")
    gone: list[socket.socket] = []
    with closing(connected(service)) as first:
        first.sendall(head(service, "Content-Length: 20", path=f"{SAY}?stream=1") + BODY)
        until(lambda: service.service.turns.open >= 1)
        (line,) = service.service.turns._lines.values()
        stream = line.waiting[0].stream
        ask = head(service, path=f"{ONE}/turns/{stream.turn}/events", method="GET")
        for _ in range(20):
            gone.append(connected(service))
            gone[-1].sendall(ask)
        until(lambda: stream.ending is not None)
        assert stream.size <= service.settings.buffer + len(text) + 1_000  # its last event has the whole text
        waiting = [each.transport.get_write_buffer_size() for each in service.server.server_state.connections]
        assert max(waiting) < 1_000_000
        for each in gone:
            each.close()
    assert followed(client, stream.turn)[-1]["text"] == text
    (reply,) = [entry for entry in log_of(service) if isinstance(entry, Assistant)]
    assert reply.text == text


def test_a_stream_ends_with_its_token(modelled: Modelled) -> None:
    """Soon after a token was revoked its open streams tell nothing more; the turn goes on, and who may reads
    the rest."""
    gate = Gate()
    service, _ = modelled([Reply(text="one two", late_gate=gate)], toml=OFF, beat=0.05)
    made = service.tokens.make("acme", roles=["user"], user="ana")
    client = service.client(made.text)
    got: list[Any] = []
    reading = threading.Thread(target=lambda: got.extend(said(client, "hello")))
    reading.start()
    until(lambda: service.service.turns.open == 1)
    service.tokens.revoke("acme", made.token.id)
    reading.join(PATIENCE)
    assert not reading.is_alive()
    assert "done" not in [each.type for each in got]
    gate.open()
    other = service.of("user", user="ana")
    turn = next(entry.turn for entry in log_of(service) if isinstance(entry, User))
    assert followed(other, turn)[-1]["text"] == "one two"


def test_a_token_that_expires_ends_whatever_the_clock_does(service: Running) -> None:
    """It is the machine's own clock that counts: put forward it ends tokens, put back it ends none."""
    clock = [time.time_ns() // 1_000_000]
    service.service.tokens._clock = lambda: clock[0]
    made = service.tokens.make("acme", roles=["user"], user="ana", days=1)
    client = service.client(made.text)
    assert client.get("/v1/agents/a/sessions").status_code == 200
    assert service.service.tokens.holds(made.token.id)
    clock[0] += 2 * 86_400_000
    assert client.get("/v1/agents/a/sessions").status_code == 401
    assert not service.service.tokens.holds(made.token.id)
    clock[0] -= 4 * 86_400_000
    assert client.get("/v1/agents/a/sessions").status_code == 200


@pytest.mark.parametrize("number", ["0", "1", "2", "999", "999999999999999"])
def test_any_number_of_an_event_leads_to_the_last(ana: httpx.Client, number: str) -> None:
    """One that there never was is answered with what the reply is, and how the turn ended."""
    turn = said(ana, "hello")[0]["turn"]
    got = followed(ana, turn, f"{turn}:{number}")
    assert got[-1].type == "done"
    assert [each.type for each in got].count("snapshot") == (number not in ("0", "1", "2"))


# --- two services ---


def test_two_services_may_have_one_directory(data: Path) -> None:
    """Messages to one session by way of both, at the same time, are each in the log once with one reply; what
    one accepted the other knows by its key."""
    often = {"rate": 1e9, "burst": 10**9}
    with running(data, **often) as first, running(data, **often) as second:
        token = first.tokens.make("acme", roles=["user"], user="ana").text
        clients = [each.client(token) for each in (first, second)]
        urls: dict[str, str] = {}

        def talk(number: int) -> None:
            client = clients[number % 2]
            for at in range(10):
                words = f"message {number}.{at}"
                answer = client.post(SAY, json={"content": words}, headers={"idempotency-key": words})
                assert answer.status_code in (200, 202), answer.text
                urls[words] = answer.json()["turn"]

        threads = [threading.Thread(target=talk, args=(number,)) for number in range(4)]
        for each in threads:
            each.start()
        for each in threads:
            each.join(PATIENCE)
        assert len(urls) == 40
        until(lambda: all(_status(clients[0], turn) == "answered" for turn in urls.values()))
        for words, turn in urls.items():
            for client in clients:
                again = client.post(SAY, json={"content": words}, headers={"idempotency-key": words})
                assert again.json().get("turn") == turn, (again.status_code, again.text)
        logged = log_of(first)
    assert sorted(each.text for each in logged if isinstance(each, User)) == sorted(urls)
    assert len({each.turn for each in logged if isinstance(each, Assistant)}) == 40
    assert sum(isinstance(each, Assistant) for each in logged) == 40


def _status(client: httpx.Client, turn: str) -> str:
    return str(client.get(f"{ONE}/turns/{turn}").json()["status"])


def _begun(client: httpx.Client) -> str:
    """The turn of a message that was accepted, whose client left."""
    with client.stream("POST", SAY, json={"content": "hello"}, params={"stream": 1}) as answer:
        return str(next(events(answer))["turn"])
