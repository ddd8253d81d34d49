"""Talking over HTTP: replies, streams that are gone on with, queues, keys, aborts."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest

from stratalog import Stratalog
from stratalog.testing.model_server import Break, Hang, ModelServer, Refuse
from stratalog.testing.scripted import Gate, Reply
from stratalog.types import Assistant, TurnEnd, User
from surfaces.http.conftest import PATIENCE, Running

ONE = "/v1/agents/helper/sessions/c"
SAY = f"{ONE}/messages"
OFF = "[memory]\nenabled = false"
Modelled = Callable[..., tuple[Running, ModelServer]]


class Event(dict[str, Any]):
    """An event as it came: its `id`, its type, and its JSON."""

    id: str
    type: str


def events(answer: httpx.Response) -> Iterator[Event]:
    """The events of a stream, without what only keeps it open."""
    fields: dict[str, str] = {}
    for line in answer.iter_lines():
        if line:
            name, _, value = line.partition(": ")
            fields[name] = value
        elif "data" in fields:
            event = Event(json.loads(fields["data"]))
            event.id, event.type = fields["id"], fields["event"]
            assert event["type"] == event.type
            yield event
            fields = {}


def said(client: httpx.Client, words: str, path: str = SAY, **headers: str) -> list[Event]:
    """All events of a message."""
    with client.stream(
        "POST", path, json={"content": words}, params={"stream": 1}, headers=headers
    ) as answer:
        kind = answer.headers.get("content-type", "")
        assert answer.status_code == 204 or kind.startswith("text/event-stream")
        return list(events(answer))


def followed(client: httpx.Client, turn: str, last: str = "") -> list[Event]:
    headers = {"last-event-id": last} if last else {}
    with client.stream("GET", f"{ONE}/turns/{turn}/events", headers=headers) as answer:
        assert answer.status_code in (200, 204), answer.read()
        return list(events(answer))


def until(condition: Callable[[], bool]) -> None:
    """Waits until it holds."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def log_of(service: Running, key: str = "helper:http:c") -> list[Any]:
    with Stratalog(service.data, tenant="acme") as memory:
        return list(memory.session(key).entries())


def test_a_message_is_answered(service: Running) -> None:
    """The reply comes as JSON, and its entry is in the log."""
    client = service.of("user", user="ana")
    answer = client.post(SAY, json={"content": "My sister Ana lives in Lisbon."})
    assert answer.status_code == 200
    view = answer.json()
    assert view["status"] == "answered"
    assert view["text"]
    (reply,) = [entry for entry in log_of(service) if isinstance(entry, Assistant)]
    assert (reply.id, reply.text, reply.turn) == (view["entry"], view["text"], view["turn"])
    assert client.get(f"{ONE}/turns/{view['turn']}").json() == {**view, "usage": view["usage"]}
    assert client.get(ONE).json()["metadata"] == {"users": ["ana"]}


def test_a_reply_is_streamed(modelled: Modelled) -> None:
    """Events are typed and numbered, their words make the reply, and the last event has all of it."""
    service, _ = modelled([Reply(text="one two three", reasoning="hm")], toml=OFF)
    got = said(service.of("user", user="ana"), "Count.")
    assert got[0].type == "started"
    assert "".join(each["text"] for each in got if each.type == "text") == "one two three"
    assert got[-1].type == "done"
    assert got[-1]["text"] == "one two three"
    turn = got[-1]["turn"]
    assert [each.id for each in got] == [f"{turn}:{number}" for number in range(1, len(got) + 1)]


def test_a_stream_is_asked_for_by_its_kind_too(service: Running) -> None:
    """`Accept: text/event-stream` does as `?stream=1` does."""
    client = service.of("user", user="ana")
    with client.stream("POST", SAY, json={"content": "x"}, headers={"accept": "text/event-stream"}) as answer:
        assert [each.type for each in events(answer)][-1] == "done"


def test_who_leaves_is_no_reader_any_more(modelled: Modelled) -> None:
    """A connection that breaks while nothing comes is let go of, and the turn runs on."""
    service, _ = modelled([Hang(after=1)], toml=OFF, beat=0.05)
    client = service.of("user", user="ana")
    with client.stream("POST", SAY, json={"content": "hang"}, params={"stream": 1}) as answer:
        reading = events(answer)  # what is thrown away closes the connection
        next(reading)
        assert service.service.turns.open == 1
    until(lambda: service.service.turns.open == 0)
    assert service.service.turns.running == 1
    assert client.post(f"{ONE}/abort").json() == {"aborted": True}


def test_no_more_turns_run_at_once_than_may(modelled: Modelled) -> None:
    """Beyond the bound a session waits for another's turn to end, and is answered then."""
    gate = Gate()

    def script(request: Any) -> Reply:
        first = request.body["messages"][-1]["content"] == "first"
        return Reply(text="well", gate=gate if first else None)

    service, model = modelled(script, toml=OFF, turns=1)
    client = service.of("user", user="ana")
    got: list[httpx.Response] = []
    paths = {name: f"/v1/agents/helper/sessions/{name}/messages" for name in ("first", "second")}
    threads = [
        threading.Thread(
            target=lambda name=name: got.append(client.post(paths[name], json={"content": name}))
        )
        for name in paths
    ]
    threads[0].start()
    gate.wait_reached(PATIENCE)
    threads[1].start()
    until(lambda: service.service.turns.running == 2)
    assert model.facts.requests == 1
    gate.open()
    for each in threads:
        each.join(PATIENCE)
    assert [answer.json()["text"] for answer in got] == ["well", "well"]


def test_another_process_is_waited_for(service: Running) -> None:
    """A message to a session that somebody else holds is queued, and answered when that one is done."""
    client = service.of("user", user="ana")
    assert client.post("/v1/agents/helper/sessions", json={"chat": "c"}).status_code == 201
    holding = (
        "import sys; from stratalog import Stratalog;"
        "memory = Stratalog(sys.argv[1], tenant='acme');"
        "turn = memory.session('helper:http:c').turn('Mine first');"
        "print('held', flush=True); sys.stdin.readline(); turn.reply('Done.'); turn.end(); memory.close()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", holding, str(service.data)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "held\n"
        answer = client.post(SAY, json={"content": "And I?"})
        assert (answer.status_code, answer.json()["position"]) == (202, 1)
        other.communicate("let go\n", timeout=PATIENCE)
        assert followed(client, answer.json()["turn"])[-1].type == "done"
    ends = [entry.status for entry in log_of(service) if isinstance(entry, TurnEnd)]
    assert ends == ["answered", "answered"]


@pytest.mark.parametrize("way", ["get", "post"])
def test_a_stream_goes_on_where_the_connection_broke(modelled: Modelled, way: str) -> None:
    """From each of its events on exactly those that follow come, by the turn's own address and by the same
    request sent again, which says nothing twice."""
    service, model = modelled([Reply(text="one two three four five")], toml=OFF)
    client = service.of("user", user="ana")
    whole = said(client, "Count.")
    turn = whole[-1]["turn"]
    for at, event in enumerate(whole):
        if way == "get":
            rest = followed(client, turn, event.id)
        else:
            rest = said(client, "Count.", **{"last-event-id": event.id})
        assert [(each.id, dict(each)) for each in rest] == [(each.id, dict(each)) for each in whole[at + 1 :]]
    assert followed(client, turn) == whole
    assert model.facts.requests == 1


def test_who_leaves_does_not_end_the_turn(modelled: Modelled) -> None:
    """The client is gone after the first word; the turn is answered, and the rest can be had."""
    service, _ = modelled([Reply(text="one " * 200)], toml=OFF)
    client = service.of("user", user="ana")
    with client.stream("POST", SAY, json={"content": "Count."}, params={"stream": 1}) as answer:
        first = next(events(answer))
    turn = first["turn"]
    rest = followed(client, turn, first.id)
    assert rest[-1].type == "done"
    assert rest[-1]["text"] == "one " * 200
    assert client.get(f"{ONE}/turns/{turn}").json()["status"] == "answered"


def test_what_is_not_kept_any_more_is_told_by_a_snapshot(modelled: Modelled) -> None:
    """A buffer too small for all events gives the words so far, then what follows; once it is gone, the log
    has the ending."""
    service, _ = modelled([Reply(text="word " * 400)], toml=OFF, buffer=2_000)
    client = service.of("user", user="ana")
    first = client.post(SAY, json={"content": "Count."}).json()
    got = followed(client, first["turn"], f"{first['turn']}:1")
    assert [each.type for each in got] == ["snapshot", "done"]
    assert got[0]["text"] == got[1]["text"] == "word " * 400
    assert [each.type for each in followed(client, first["turn"], f"{first['turn']}:999999")] == [
        "snapshot",
        "done",
    ]


def test_once_the_buffer_is_gone_the_log_answers(service: Running) -> None:
    """After the time that events are kept, a stream has the last of them."""
    client = service.of("user", user="ana")
    turn = client.post(SAY, json={"content": "Hello"}).json()
    service.service.turns._keep = 0.0
    got = followed(client, turn["turn"], f"{turn['turn']}:1")
    assert [each.type for each in got] == ["done"]
    assert (got[0]["text"], got[0]["entry"]) == (turn["text"], turn["entry"])
    assert client.get(f"{ONE}/turns/nonesuch").status_code == 404
    assert client.get(f"{ONE}/turns/nonesuch/events").status_code == 404


@pytest.mark.parametrize("last", ["x", ":", "a:b", "a:-1", "a:" + "9" * 40])
def test_a_last_event_is_that_of_an_event(service: Running, last: str) -> None:
    """Anything else is refused."""
    client = service.of("user", user="ana")
    assert client.post(SAY, json={"content": "x"}).status_code == 200
    again = client.post(SAY, json={"content": "x"}, headers={"last-event-id": last})
    assert again.status_code == 400


def test_a_message_to_a_busy_session_waits_its_turn(modelled: Modelled) -> None:
    """It is in the log at once, is told its place, and is answered in order when the others are; other
    sessions do not wait."""
    script = iter([Hang(after=1), *(Reply(text=f"reply {number}") for number in range(9))])
    service, _ = modelled(lambda request: _taken(request, script), toml=OFF)
    client = service.of("user", user="ana")
    with client.stream("POST", SAY, json={"content": "hang"}, params={"stream": 1}) as first:
        stream = events(first)
        assert next(stream).type == "started"
        queued = [client.post(SAY, json={"content": f"message {number}"}) for number in (1, 2)]
        assert [answer.status_code for answer in queued] == [202, 202]
        assert [answer.json()["position"] for answer in queued] == [1, 2]
        assert [answer.json()["status"] for answer in queued] == ["queued", "queued"]
        assert queued[0].headers["location"] == queued[0].json()["url"]
        other = service.of("user", user="ana").post(
            "/v1/agents/helper/sessions/other/messages", json={"content": "quick"}
        )
        assert other.status_code == 200
        words = [entry.text for entry in log_of(service) if isinstance(entry, User)]
        assert words == ["hang", "message 1", "message 2"]
        with client.stream("POST", SAY, json={"content": "message 3"}, params={"stream": 1}) as third:
            assert third.status_code == 202
            waiting = events(third)
            event = next(waiting)
            assert (event.type, event["position"]) == ("queued", 3)
            assert client.post(f"{ONE}/abort").json() == {"aborted": True}
            ending = list(stream)[-1]
            assert (ending.type, ending["status"]) == ("failed", "aborted")
            rest = list(waiting)
    assert [each["position"] for each in rest if each.type == "queued"] == [2, 1]
    assert rest[-1].type == "done"
    for answer in queued:
        turn = answer.json()["turn"]
        assert followed(client, turn)[-1].type == "done"
    log = log_of(service)
    ends = [entry for entry in log if isinstance(entry, TurnEnd)]
    assert [entry.status for entry in ends] == ["aborted", "answered", "answered", "answered"]
    order = [entry.turn for entry in log if isinstance(entry, User)]
    assert [entry.turn for entry in ends] == order


def _taken(request: Any, script: Iterator[Any]) -> Any:
    words = str(request.body["messages"][-1]["content"])
    return Reply(text="at once") if "quick" in words else next(script)


def test_an_abort_keeps_the_words_that_came(modelled: Modelled) -> None:
    """The partial reply is in the log and in the last event; with nothing running there is nothing to end."""
    service, _ = modelled([Hang(reply=Reply(text="one two three four"), after=2)], toml=OFF)
    client = service.of("user", user="ana")
    with client.stream("POST", SAY, json={"content": "hang"}, params={"stream": 1}) as answer:
        stream = events(answer)
        while next(stream).type != "text":
            pass
        assert client.post(f"{ONE}/abort").json() == {"aborted": True}
        ending = list(stream)[-1]
    assert ending.type == "failed"
    assert ending["status"] == "aborted"
    assert ending["text"]
    (partial,) = [entry for entry in log_of(service) if isinstance(entry, Assistant)]
    assert partial.meta == {"partial": True}
    assert partial.text == ending["text"]
    assert client.post(f"{ONE}/abort").json() == {"aborted": False}


def test_a_busy_session_restarts_when_asked_twice(modelled: Modelled) -> None:
    """The first request only asks; the second ends the turn, drops what waits and begins anew."""
    service, _ = modelled([Hang(after=1), Reply(text="fresh")], toml=OFF)
    client = service.of("user", user="ana")
    with client.stream("POST", SAY, json={"content": "hang"}, params={"stream": 1}) as answer:
        stream = events(answer)
        next(stream)
        waiting = client.post(SAY, json={"content": "waits"}).json()["turn"]
        asked = client.post(f"{ONE}/restart").json()
        assert asked == {"done": False, "confirm_within": 30.0}
        assert client.post(f"{ONE}/restart").json()["done"] is True
        assert list(stream)[-1].type == "failed"
    assert followed(client, waiting)[-1].type == "failed"
    assert client.post(SAY, json={"content": "again"}).json()["text"] == "fresh"
    assert [entry.text for entry in log_of(service) if isinstance(entry, User)] == ["again"]


def test_the_same_key_is_the_same_turn(modelled: Modelled) -> None:
    """A retry says nothing twice, as JSON or as a stream, by a service that has just begun too; the same key
    for other words is refused; another session's key is its own."""
    service, model = modelled(lambda request: Reply(text="once"), toml=OFF)
    client = service.of("user", user="ana")
    key = {"idempotency-key": "k-1"}
    first = client.post(SAY, json={"content": "Pay"}, headers=key)
    again = client.post(SAY, json={"content": "Pay"}, headers=key)
    assert first.json() == again.json()
    assert said(client, "Pay", **key)[-1]["turn"] == first.json()["turn"]
    other = client.post(SAY, json={"content": "Pay more"}, headers=key)
    assert (other.status_code, other.json()["error"]) == (409, "Conflict")
    elsewhere = client.post("/v1/agents/helper/sessions/d/messages", json={"content": "Pay"}, headers=key)
    assert elsewhere.json()["turn"] != first.json()["turn"]
    assert model.facts.requests == 2
    service.service.turns._lines.clear()  # as a service that has just begun
    late = client.post(SAY, json={"content": "Pay"}, headers=key)
    assert late.json()["turn"] == first.json()["turn"]
    assert client.post(f"{ONE}/restart").json()["done"] is True
    assert client.post(SAY, json={"content": "Pay"}, headers=key).json()["turn"] == first.json()["turn"]
    assert model.facts.requests == 2


def test_a_key_of_a_deleted_session_is_free(modelled: Modelled) -> None:
    """Another session of the same name has its own messages, whatever was asked in the first."""
    service, _ = modelled(lambda request: Reply(text="once"), toml=OFF)
    client = service.of("user", user="ana")
    key = {"idempotency-key": "k-1"}
    first = client.post(SAY, json={"content": "Pay"}, headers=key).json()["turn"]
    assert client.delete(ONE).status_code == 204
    again = client.post(SAY, json={"content": "Pay"}, headers=key)
    assert again.status_code == 200
    assert again.json()["turn"] != first
    assert client.post(SAY, json={"content": "Pay"}, headers=key).json()["turn"] == again.json()["turn"]


def test_retries_at_the_same_moment_are_one_turn(service: Running) -> None:
    """Ten requests with one key, at once, are one message."""
    client = service.of("user", user="ana")
    got: list[str] = []

    def ask() -> None:
        answer = client.post(SAY, json={"content": "Pay"}, headers={"idempotency-key": "k"})
        got.append(answer.json()["turn"])

    threads = [threading.Thread(target=ask) for _ in range(10)]
    for each in threads:
        each.start()
    for each in threads:
        each.join(PATIENCE)
    assert len(got) == 10
    assert len(set(got)) == 1
    assert len([entry for entry in log_of(service) if isinstance(entry, User)]) == 1


def test_two_users_beginning_one_session_do_not_share_it(service: Running) -> None:
    """One of them has it, for the other it is not there."""
    clients = [service.of("user", user=name) for name in ("ana", "ben")]
    got: dict[int, int] = {}

    def ask(number: int) -> None:
        got[number] = clients[number].post(SAY, json={"content": "Mine"}).status_code

    threads = [threading.Thread(target=ask, args=(number,)) for number in (0, 1)]
    for each in threads:
        each.start()
    for each in threads:
        each.join(PATIENCE)
    assert sorted(got.values()) == [200, 404]
    assert len([entry for entry in log_of(service) if isinstance(entry, User)]) == 1


def test_another_model_answers_one_turn(modelled: Modelled) -> None:
    """The model that is named is asked this once; one that there is not is replaced, with a warning."""
    toml = f'models = ["openai:gpt-5-*", "nonesuch:*"]\n{OFF}'
    service, _ = modelled(lambda request: Reply(text=str(request.body["model"])), toml=toml)
    client = service.of("user", user="ana")
    once = client.post(SAY, json={"content": "x", "model": "openai:gpt-5-mini"})
    assert once.json()["text"] == "gpt-5-mini"
    assert client.post(SAY, json={"content": "x"}).json()["text"] == "gpt-5"
    with client.stream(
        "POST", SAY, json={"content": "x", "model": "nonesuch:1"}, params={"stream": 1}
    ) as answer:
        got = list(events(answer))
    assert "warning" in [each.type for each in got]
    assert got[-1]["text"] == "gpt-5"


def test_a_user_names_the_models_that_the_settings_allow(modelled: Modelled) -> None:
    """Another one costs the operator nothing and leaves nothing in the log; an agent's token names any."""
    service, model = modelled(lambda request: Reply(text=str(request.body["model"])), toml=OFF)
    told = {"content": "x", "model": "openai:gpt-5-pro"}
    refused = service.of("user", user="ana").post(SAY, json=told)
    assert refused.status_code == 403
    assert "`models`" in refused.text
    assert model.facts.requests == 0
    assert service.of("user", user="ana").post(SAY, json={**told, "model": "openai:gpt-5"}).status_code == 200
    theirs = SAY.replace("/messages", "-2/messages")
    assert service.of("agent").post(theirs, json=told).json()["text"] == "gpt-5-pro"


@pytest.mark.parametrize(
    ("step", "status", "error"),
    [
        (Refuse(400, message="secret-of-the-provider"), 502, "ModelRejected"),
        (Reply(text=""), 502, "ModelReplyUnusable"),
    ],
)
def test_a_model_that_fails_is_a_problem(modelled: Modelled, step: Any, status: int, error: str) -> None:
    """Its own words stay inside, the turn is named, and the session is free for the next message."""

    def script(request: Any) -> Any:
        return Reply(text="well again") if request.body["messages"][-1]["content"] == "y" else step

    service, _ = modelled(script, toml=OFF)
    client = service.of("user", user="ana")
    answer = client.post(SAY, json={"content": "x"})
    assert answer.status_code == status
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["error"] == error
    assert "secret" not in answer.text
    assert answer.json()["where"]["status"] == "interrupted"
    assert client.post(SAY, json={"content": "y"}).json()["text"] == "well again"
    ending = said(client, "z")[-1]
    assert (ending.type, ending["error"]) == ("failed", error)
    assert "secret" not in json.dumps(ending)


def test_a_retry_makes_void_what_came(modelled: Modelled) -> None:
    """A stream that breaks is asked for again: the words before are told to be void."""
    service, _ = modelled([Break(reply=Reply(text="wrong words"), after=1), Reply(text="right")], toml=OFF)
    got = said(service.of("user", user="ana"), "x")
    kinds = [each.type for each in got]
    assert "retrying" in kinds
    after = got[kinds.index("retrying") :]
    assert "".join(each["text"] for each in after if each.type == "text") == "right"
    assert got[-1]["text"] == "right"


def test_a_failed_turn_stays_failed_when_it_is_asked_again(modelled: Modelled) -> None:
    """A retry with the same key is told the same, also from the log alone, and asks no model."""
    service, model = modelled([Refuse(400)], toml=OFF)
    client = service.of("user", user="ana")
    key = {"idempotency-key": "k"}
    first = client.post(SAY, json={"content": "x"}, headers=key)
    assert first.status_code == 502
    assert client.post(SAY, json={"content": "x"}, headers=key).json()["where"] == first.json()["where"]
    service.service.turns._keep = 0.0
    late = client.post(SAY, json={"content": "x"}, headers=key)
    assert (late.status_code, late.json()["where"]) == (409, first.json()["where"])
    assert model.facts.requests == 1


def test_without_a_model_nothing_is_accepted(tmp_path: Any, service: Running) -> None:
    """The operator's mistake is told without its words, and no message is in the log."""
    (service.data / "acme" / "agents" / "broken").mkdir(parents=True)
    (service.data / "acme" / "agents" / "broken" / "agent.toml").write_text('model = "nonesuch:1"\n')
    client = service.of("user", user="ana")
    answer = client.post("/v1/agents/broken/sessions/c/messages", json={"content": "x"})
    assert (answer.status_code, answer.json()["error"]) == (500, "InvalidConfig")
    assert "nonesuch" not in answer.text
    assert [entry for entry in log_of(service, "broken:http:c") if isinstance(entry, User)] == []


def test_images_are_said(modelled: Modelled) -> None:
    """A message of parts has its image in the request to the model, and a part of another kind is refused."""
    service, model = modelled([Reply(text="a dot")], toml=OFF)
    client = service.of("user", user="ana")
    data = base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(40)).decode()
    parts = [
        {"type": "text", "text": "What is it?"},
        {"type": "image", "media_type": "image/png", "data": data},
    ]
    assert client.post(SAY, json={"content": parts}).json()["text"] == "a dot"
    assert data[:40].encode() in model.requests[0].raw
    for wrong in ([], [{"type": "file", "data": data}], [{"type": "image", "url": "http://x"}], 5, None, ""):
        answer = client.post(SAY, json={"content": wrong})
        assert answer.status_code == 400, wrong
        assert answer.headers["content-type"] == "application/problem+json"


@pytest.mark.parametrize("words", ["\ud800", "a\u2028b\u0085c", "\x00\x1b[31m", "🏴󠁧󠁢󠁥󠁮󠁧󠁿" * 50, "x" * 100_000])
def test_any_words_come_back(service: Running, words: str) -> None:
    """What was said is in the entries as it was, but for lone surrogates, of which JSON has none."""
    client = service.of("user", user="ana")
    answer = client.post(
        SAY, content=json.dumps({"content": words}), headers={"content-type": "application/json"}
    )
    if words == "\ud800":
        assert answer.status_code == 400
        return
    assert answer.status_code == 200
    entries = client.get(f"{ONE}/entries", params={"payloads": True, "after": 0}).json()["entries"]
    assert [each["content"] for each in entries if each["type"] == "user"] == [words]


def test_a_turn_is_remembered_for_its_user(modelled: Modelled) -> None:
    """With memory, what one session was told is recalled in another session of the same user, and in none of
    another's."""
    service, model = modelled(lambda request: Reply(text="Noted."))
    ana, ben = service.of("user", user="ana"), service.of("user", user="ben")
    assert ana.post(SAY, json={"content": "My parrot is called Figaro."}).status_code == 200
    for client, knows in ((ana, True), (ben, False)):
        path = f"/v1/agents/helper/sessions/next-{knows}/messages"
        assert client.post(path, json={"content": "What is my parrot called?"}).status_code == 200
        asked = next(each for each in reversed(model.requests) if b"What is my parrot" in each.raw)
        assert (b"Figaro" in asked.raw) == knows
    assert ana.post("/v1/agents/helper/sessions", json={"chat": "fresh"}).status_code == 201
    path = "/v1/agents/helper/sessions/fresh/messages"
    answer = service.of("admin").post(path, json={"content": "And what parrot is it?"})
    assert answer.status_code == 200  # whoever says it, the session is Ana's, and what is known there is hers
    asked = next(each for each in reversed(model.requests) if b"And what parrot" in each.raw)
    assert b"Figaro" in asked.raw
