"""How the service ends, and what is true when it runs again: a real process, twenty streams, real signals."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from stratalog import Stratalog
from stratalog.log.contract import Verifies
from stratalog.surfaces.access.tokens import Tokens
from stratalog.surfaces.access.wire import listening
from stratalog.testing.model_server import ModelServer
from stratalog.testing.scripted import Gate, Reply
from stratalog.types import Assistant, TurnEnd, User
from surfaces.http.conftest import PATIENCE, configure
from surfaces.http.test_chat import events

pytestmark = pytest.mark.crash
STREAMS = 20
PATH = "/v1/agents/helper/sessions"


class Process:
    """`stratalog serve` in a process of its own, and a client with a token of the user `ana`."""

    def __init__(self, data: Path, port: int, *options: str) -> None:
        self._process = subprocess.Popen(
            [
                *(sys.executable, "-m", "stratalog", "serve", "--data", str(data), "--port", str(port)),
                *("--no-background", *options),
            ],
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "OPENAI_API_KEY": "none"},
        )
        assert self._process.stderr is not None
        line = self._process.stderr.readline()
        found = re.search(r"http://\S+", line)
        assert found, line + self._process.stderr.read()
        self.url = found[0]
        self._rest: list[str] = []
        self._reader = threading.Thread(target=lambda: self._rest.extend(self._process.stderr or ()))
        self._reader.start()
        token = Tokens(data).make("acme", roles=["user"], user="ana").text
        self.client = httpx.Client(
            base_url=self.url,
            headers={"authorization": f"Bearer {token}"},
            timeout=PATIENCE,
            limits=httpx.Limits(max_connections=200),
        )

    def signal(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def wait(self) -> int:
        """Its exit code, once it has ended."""
        code = self._process.wait(PATIENCE)
        self._reader.join(PATIENCE)
        self.client.close()
        return code

    @property
    def told(self) -> str:
        """What it wrote to stderr after its first line."""
        return "".join(self._rest)

    def kill(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self.wait()


@contextmanager
def process(data: Path, port: int, *options: str) -> Iterator[Process]:
    made = Process(data, port, *options)
    try:
        yield made
    finally:
        made.kill()


class Talk(threading.Thread):
    """One stream of a message, read in a thread; `events` are those that came, in order."""

    def __init__(self, client: httpx.Client, chat: str, words: str, **headers: str) -> None:
        super().__init__()
        self._ask = (client, chat, words, headers)
        self.events: list[Any] = []
        self.began = threading.Event()
        self.start()

    def run(self) -> None:
        client, chat, words, headers = self._ask
        path = f"{PATH}/{chat}/messages"
        try:
            with client.stream(
                "POST", path, json={"content": words}, params={"stream": 1}, headers=headers
            ) as answer:
                for event in events(answer):
                    self.events.append(event)
                    self.began.set()
        except httpx.TransportError:
            pass  # it was killed
        finally:
            self.began.set()


@pytest.fixture
def port() -> int:
    """A port that is free now."""
    with listening("127.0.0.1", 0) as where:
        return int(where.getsockname()[1])


class Slow:
    """A script that holds every reply before its last piece, until it is let go."""

    def __init__(self) -> None:
        self.gate = Gate()

    def __call__(self, request: Any) -> Reply:
        words = str(request.body["messages"][-1]["content"])
        return Reply(text=f"I heard: {words}. And so on.", late_gate=self.gate)


def made(data: Path, model: ModelServer) -> Path:
    configure(data, "[memory]\nenabled = false", model="openai:gpt-5", base_url=model.openai_url)
    return data


def checked(data: Path) -> dict[str, list[Any]]:
    """The entries of every session, whose logs are sound."""
    with Stratalog(data, tenant="acme") as memory:
        store = memory.store
        assert isinstance(store, Verifies)
        found = {}
        for key in list(store.sessions("acme")):
            assert store.verify(key).problems == ()
            found[key.chat] = list(memory.session(key).entries())
    return found


def answers(entries: list[Any]) -> dict[str, list[str]]:
    """For each message the whole replies to it."""
    words = {entry.turn: entry.text for entry in entries if isinstance(entry, User)}
    assert len(set(words.values())) == len(words), "a message is there twice"
    replies: dict[str, list[str]] = {text: [] for text in words.values()}
    for entry in entries:
        if isinstance(entry, Assistant) and not (entry.meta or {}).get("partial"):
            replies[words[entry.turn]].append(entry.text)
    return replies


def test_told_to_end_it_finishes_what_runs(tmp_path: Path, port: int) -> None:
    """SIGTERM under twenty streams: no connection is taken more, a message that comes by an open one is
    refused, every turn is answered to its end, and the process ends well."""
    slow = Slow()
    with ModelServer(slow) as model, process(made(tmp_path / "data", model), port) as service:
        talks = [Talk(service.client, f"c{number}", f"message {number}") for number in range(STREAMS)]
        model.wait(lambda: model.facts.requests == STREAMS, PATIENCE)
        slow.gate.wait_reached(PATIENCE)
        service.signal(signal.SIGTERM)
        _until_refused(service.url)
        slow.gate.open()
        for number, talk in enumerate(talks):
            talk.join(PATIENCE)
            assert talk.events[-1].type == "done"
            assert talk.events[-1]["text"] == f"I heard: message {number}. And so on."
        assert service.wait() == 0
        assert "Traceback" not in service.told
    logs = checked(tmp_path / "data")
    assert len(logs) == STREAMS
    for entries in logs.values():
        assert [each.status for each in entries if isinstance(each, TurnEnd)] == ["answered"]


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_what_was_accepted_is_answered_by_the_next(tmp_path: Path, port: int, how: signal.Signals) -> None:
    """A grace that is too short, or none at all: twenty running turns and five that wait are all in the log,
    unfinished, and the next service answers each once, without being asked; a retry with its key gets the
    same turn, and a stream goes on after its last event."""
    slow = Slow()
    data = tmp_path / "data"
    with ModelServer(slow) as model:
        with process(made(data, model), port, "--grace", "0.2") as service:
            talks = [
                Talk(service.client, f"c{number}", f"message {number}", **{"idempotency-key": f"k{number}"})
                for number in range(STREAMS)
            ]
            model.wait(lambda: model.facts.requests == STREAMS, PATIENCE)
            for talk in talks:
                assert talk.began.wait(PATIENCE)
            waiting = [
                service.client.post(f"{PATH}/c{number}/messages", json={"content": f"waits {number}"})
                for number in range(5)
            ]
            assert [answer.status_code for answer in waiting] == [202] * 5
            service.signal(how)
            assert service.wait() == (0 if how is signal.SIGTERM else -signal.SIGKILL)
            assert "Traceback" not in service.told
            for talk in talks:
                talk.join(PATIENCE)
                if how is signal.SIGTERM:
                    assert talk.events[-1].type == "paused"
                    assert talk.events[-1]["status"] == "started"
        ends = [each for entries in checked(data).values() for each in entries if isinstance(each, TurnEnd)]
        assert ends == []
        slow.gate.open()
        with process(data, port) as service:
            for number, talk in enumerate(talks):
                chat, last = f"{PATH}/c{number}", talk.events[0]
                turn = last.id.partition(":")[0]
                with service.client.stream(
                    "GET", f"{chat}/turns/{turn}/events", headers={"last-event-id": last.id}
                ) as answer:
                    got = list(events(answer))
                assert got[-1].type == "done"
                assert got[-1]["text"] == f"I heard: message {number}. And so on."
                again = service.client.post(
                    f"{chat}/messages",
                    json={"content": f"message {number}"},
                    headers={"idempotency-key": f"k{number}"},
                )
                assert again.json()["turn"] == turn
            for number, answer in enumerate(waiting):
                url = answer.json()["url"]
                with service.client.stream("GET", url) as stream:
                    assert list(events(stream))[-1]["text"] == f"I heard: waits {number}. And so on."
            service.signal(signal.SIGTERM)
            assert service.wait() == 0
    found = {chat: answers(entries) for chat, entries in checked(data).items()}
    assert len(found) == STREAMS
    for number in range(STREAMS):
        wanted = [f"message {number}", *([f"waits {number}"] if number < 5 else [])]
        assert found[f"c{number}"] == {words: [f"I heard: {words}. And so on."] for words in wanted}


def test_turns_that_were_cut_short_may_be_closed_instead(tmp_path: Path, port: int) -> None:
    """With `--unfinished close` they end as interrupted, and no model is asked for them."""
    slow = Slow()
    data = tmp_path / "data"
    with ModelServer(slow) as model:
        with process(made(data, model), port) as service:
            talk = Talk(service.client, "c", "message")
            assert talk.began.wait(PATIENCE)
            service.kill()
            talk.join(PATIENCE)
        slow.gate.open()
        turn = talk.events[0]["turn"]
        with process(data, port, "--unfinished", "close") as service:
            with service.client.stream("GET", f"{PATH}/c/turns/{turn}/events") as answer:
                (ending,) = events(answer)
            assert (ending.type, ending["status"]) == ("failed", "interrupted")
            assert service.client.post(f"{PATH}/c/messages", json={"content": "next"}).status_code == 200
        assert model.facts.requests == 2


def test_nothing_is_lost_or_doubled_when_it_is_killed_under_load(tmp_path: Path, port: int) -> None:
    """Twenty clients send three messages each, again and again until they are accepted, while the service is
    killed and told to end under them: in the end each message is in the log once, with one reply."""
    data = tmp_path / "data"
    over = threading.Event()

    def script(request: Any) -> Reply:
        return Reply(text=f"I heard: {request.body['messages'][-1]['content']}.", pieces=5)

    def talk(client: httpx.Client, number: int) -> None:
        for each in range(3):
            words, key = f"message {number}.{each}", f"k{number}.{each}"
            while not over.is_set():
                try:
                    answer = client.post(
                        f"{PATH}/c{number}/messages",
                        json={"content": words},
                        headers={"idempotency-key": key},
                    )
                except httpx.TransportError:
                    over.wait(0.02)
                    continue
                if answer.status_code in (200, 202):
                    break
                assert answer.status_code == 503, answer.text
                over.wait(0.02)

    with ModelServer(script) as model:
        made(data, model)
        token = Tokens(data).make("acme", roles=["user"], user="ana").text
        client = httpx.Client(
            base_url=f"http://127.0.0.1:{port}",
            headers={"authorization": f"Bearer {token}"},
            timeout=PATIENCE,
            limits=httpx.Limits(max_connections=100),
        )
        threads = [threading.Thread(target=talk, args=(client, number)) for number in range(STREAMS)]
        try:
            with process(data, port, "--grace", "0.1") as service:
                for each in threads:
                    each.start()
                model.wait(lambda: model.facts.requests >= 12, PATIENCE)
                service.kill()
            with process(data, port, "--grace", "0.1") as service:
                model.wait(lambda: model.facts.requests >= 30, PATIENCE)
                service.signal(signal.SIGTERM)
                assert service.wait() == 0
                assert "Traceback" not in service.told
            with process(data, port) as service:
                for each in threads:
                    each.join(PATIENCE * 2)
                    assert not each.is_alive()
                _until_answered(service.client)
                service.signal(signal.SIGTERM)
                assert service.wait() == 0
        finally:
            over.set()
            client.close()
    found = {chat: answers(entries) for chat, entries in checked(data).items()}
    wanted = {
        f"c{number}": {
            f"message {number}.{each}": [f"I heard: message {number}.{each}."] for each in range(3)
        }
        for number in range(STREAMS)
    }
    assert found == wanted


def _until_refused(url: str) -> None:
    """Waits until no connection is taken."""
    for _ in range(int(PATIENCE * 50)):
        try:
            httpx.get(f"{url}/health", timeout=0.5)
        except httpx.TransportError:
            return
        threading.Event().wait(0.02)
    raise AssertionError("it takes connections still")


def _until_answered(client: httpx.Client) -> None:
    """Waits until every turn of every session has ended."""
    for number in range(STREAMS):
        entries = client.get(f"{PATH}/c{number}/entries", params={"after": 0, "limit": 500}).json()["entries"]
        for turn in [each["turn"] for each in entries if each["type"] == "user"]:
            with client.stream("GET", f"{PATH}/c{number}/turns/{turn}/events") as answer:
                assert json.dumps(list(events(answer))[-1])
