"""Many sessions that stream turns of one real `stratalog serve`, all at the same time, and what became of it.

    python benchmarks/service_load.py [--sessions 200] [--seconds 60] [--break kill|term] [--no-memory]
        [--turns N] [--live-bytes N] [--live-sessions N]

Three processes on this machine: the service, a scripted model behind real HTTP, and the clients, which are
this one. Each session is one client with a token of its own. It says a numbered message under an
`Idempotency-Key`, reads the events to the last one, and says the next. Now and then a client drops its
connection in the middle and goes on after its last event. With `--break` the service is killed (SIGKILL), or
told to end (SIGTERM, with a short grace), at moments that nobody chose, and begun again: clients send what
was not finished once more, with the same key.

Afterwards the logs are read with the library. Told are: what is wrong (messages missing, twice or out of
order; replies that are not those that were streamed; logs that are not sound; answers that should not be),
turns in a second, how long a turn and its first word took, the processor's time of the service for a turn,
and its memory and open files: every 10 s, and as slopes over the second half.

What may grow is bounded: the events of turns that ended by 8 MB, and what is remembered of logs by the
settings `live_bytes` and `live_sessions`. A short run ends before any of it is full; with `--live-bytes`
and `--live-sessions` these are full soon.
But what a turn that runs has to see is in memory in any case, and grows with each turn of its session: for
how much all else takes, have `--turns` end them.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import os
import random
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

import httpx

from stratalog import Stratalog
from stratalog.log.contract import Verifies
from stratalog.surfaces.access.tokens import Tokens
from stratalog.surfaces.access.wire import listening
from stratalog.testing.model_server import ModelServer
from stratalog.testing.model_server.steps import Received
from stratalog.testing.scripted import Reply
from stratalog.types import Assistant, TurnEnd, User

Break = Literal["", "kill", "term"]
TENANT: Final = "load"
PATIENCE: Final = 120.0
DROPPED: Final = 0.05  # of all streams, that are left in the middle
PIECES: Final = 20
EVERY: Final = 10.0  # seconds, from one moment at which the memory is told to the next
_NUMBER: Final = re.compile(r"message (\d+\.\d+)")
_FILLING: Final = "The harbour ferry leaves at seven in the morning and comes back after dark. " * 4


class Plan(NamedTuple):
    """So many sessions for so many seconds, the service broken off so often; `memory` is on as it is by
    default, and then each user is remembered. After so many `turns` a client begins another session (0:
    never). `live_bytes` and `live_sessions` are the settings of those names, 0 for their defaults."""

    sessions: int
    seconds: float
    how: Break = ""
    breaks: int = 0
    memory: bool = True
    seed: int = 0
    turns: int = 0
    live_bytes: int = 0
    live_sessions: int = 0


class Said(NamedTuple):
    """A message that was answered: its turn, the text that its stream came to, that of its last event, the
    seconds until then and until its first word, and how often it was sent."""

    words: str
    turn: str
    streamed: str
    told: str
    seconds: float
    first: float
    sent: int


class Sample(NamedTuple):
    """The service at a moment: seconds since the beginning, bytes of memory, open files, seconds of the
    processor."""

    at: float
    memory: int
    files: int
    cpu: float


class Outcome(NamedTuple):
    """What was said by each session, what is wrong, and the samples of the process that ran last."""

    said: dict[str, list[Said]]
    wrong: list[str]
    samples: list[Sample]
    seconds: float

    @property
    def turns(self) -> list[Said]:
        return [each for talk in self.said.values() for each in talk]


def reply_to(words: str) -> str:
    """What the model says to a message."""
    found = _NUMBER.search(words)
    return f"I heard message {found[1] if found else '?'}. {_FILLING}"


def load(plan: Plan, root: Path) -> Outcome:
    """Runs it in `root`, an empty directory, and looks at what is left."""
    with ExitStack() as stack:
        data, model = root / "data", stack.enter_context(model_server())
        configure(data, model, plan)
        service = Service(data, plan.how)
        stack.callback(service.kill)
        outcome = asyncio.run(Load(plan, service, tokens(data, plan.sessions)).run())
        wrong = service.stop()
    return outcome._replace(wrong=[*outcome.wrong, *wrong, *faults(data, outcome.said)])


class Service:
    """`stratalog serve` in a process of its own, at one port for as long as this is used."""

    def __init__(self, data: Path, how: Break) -> None:
        with listening("127.0.0.1", 0) as free:
            self._port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{self._port}"
        self._told = data.parent / "service.log"
        self._command = [sys.executable, "-m", "stratalog", "serve", "--data", str(data)]
        self._command += ["--port", str(self._port), "--grace", "0.3" if how == "term" else "30"]
        self._process = self._begun()

    @property
    def pid(self) -> int:
        return self._process.pid

    def again(self, how: Break) -> None:
        """Breaks it off and begins it anew."""
        self._process.send_signal(signal.SIGTERM if how == "term" else signal.SIGKILL)
        self._process.wait(PATIENCE)
        self._process = self._begun()

    def stop(self) -> list[str]:
        """Tells it to end, and what is wrong with how it did."""
        self._process.send_signal(signal.SIGTERM)
        code = self._process.wait(PATIENCE)
        wrong = [f"the service ended with {code}"] if code else []
        told = self._told.read_text()
        return wrong + (
            [f"the service told of {told[-2_000:]}"] if "ERROR" in told or "Trace" in told else []
        )

    def kill(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()

    def sample(self, began: float) -> Sample | None:
        """How the process is now; None while it begins or ends."""
        try:
            at = Path(f"/proc/{self.pid}")
            pages = int((at / "statm").read_text().split()[1])
            fields = (at / "stat").read_text().rpartition(")")[2].split()
            files = len(os.listdir(at / "fd"))
        except OSError:
            return None
        cpu = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
        return Sample(time.monotonic() - began, pages * os.sysconf("SC_PAGE_SIZE"), files, cpu)

    def _begun(self) -> subprocess.Popen[bytes]:
        with self._told.open("ab") as told:
            return subprocess.Popen(
                self._command, stdout=told, stderr=told, env={**os.environ, "OPENAI_API_KEY": "none"}
            )


class Load:
    """The clients, in one event loop."""

    def __init__(self, plan: Plan, service: Service, tokens: Sequence[str]) -> None:
        self._plan = plan
        self._service = service
        self._tokens = tokens
        self._chance = random.Random(plan.seed)
        self._said: dict[str, list[Said]] = {}
        self._wrong: list[str] = []
        self._samples: list[Sample] = []
        self._began = time.monotonic()

    async def run(self) -> Outcome:
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=None)
        async with httpx.AsyncClient(base_url=self._service.url, timeout=PATIENCE, limits=limits) as client:
            await self._ready(client)
            self._began = time.monotonic()
            sampling = asyncio.create_task(self._sample())
            breaking = asyncio.create_task(self._break())
            talks = [self._talk(client, number) for number in range(self._plan.sessions)]
            await asyncio.gather(*talks)
            took = time.monotonic() - self._began
            for task in (breaking, sampling):
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task
        return Outcome(self._said, self._wrong, self._samples, took)

    async def _ready(self, client: httpx.AsyncClient) -> None:
        give_up = time.monotonic() + PATIENCE
        while True:
            with suppress(httpx.TransportError):
                if (await client.get("/ready")).status_code == 200:
                    return
            assert time.monotonic() < give_up, "the service does not begin"
            await asyncio.sleep(0.05)

    async def _talk(self, client: httpx.AsyncClient, number: int) -> None:
        """One session, message after message, until the time is over."""
        chat, at = f"c{number}", 0
        turns = self._plan.turns
        headers = {"authorization": f"Bearer {self._tokens[number]}"}
        while time.monotonic() - self._began < self._plan.seconds:
            if turns:
                chat = f"c{number}-{at // turns}"
            words = f"This is message {number}.{at}, and the ferry is late."
            talk = Talk(client, chat, words, {**headers, "idempotency-key": f"k{number}.{at}"}, self._chance)
            said = await talk.said()
            self._wrong += talk.wrong
            if said is None:
                return
            self._said.setdefault(chat, []).append(said)
            at += 1

    async def _break(self) -> None:
        if not self._plan.how:
            return
        span = self._plan.seconds / (self._plan.breaks + 1)
        for _ in range(self._plan.breaks):
            await asyncio.sleep(span * self._chance.uniform(0.7, 1.1))
            await asyncio.to_thread(self._service.again, self._plan.how)
            self._samples.clear()

    async def _sample(self) -> None:
        while True:
            found = self._service.sample(self._began)
            if found is not None:
                self._samples.append(found)
            await asyncio.sleep(0.5)


class Talk:
    """One message, sent until it is answered. `wrong` is what no client should see."""

    def __init__(
        self,
        client: httpx.AsyncClient,
        chat: str,
        words: str,
        headers: dict[str, str],
        chance: random.Random,
    ) -> None:
        self.wrong: list[str] = []
        self._client = client
        self._path = f"/v1/agents/assistant/sessions/{chat}"
        self._words, self._headers, self._chance = words, headers, chance
        self._turn = self._text = self._last = self._told = ""
        self._first = 0.0
        self._sent = 0

    async def said(self) -> Said | None:
        """The message once it is answered; None where it was not."""
        began = time.monotonic()
        while not self._told and not self.wrong:
            if time.monotonic() - began > PATIENCE:
                self.wrong.append(f"{self._words}: not answered within {PATIENCE:g} s")
                break
            self._sent += 1
            try:
                await self._read(began)
            except httpx.TransportError:
                await asyncio.sleep(0.1)
        if self.wrong:
            return None
        seconds = time.monotonic() - began
        return Said(self._words, self._turn, self._text, self._told, seconds, self._first, self._sent)

    async def _read(self, began: float) -> None:
        """Reads a stream of the turn to its end, or to where the client drops it."""
        drop = self._chance.randrange(2, PIECES) if self._chance.random() < DROPPED else 0
        async with self._asked() as answer:
            if answer.status_code == 503:
                await asyncio.sleep(0.2)
                return
            if answer.status_code not in (200, 202):
                await answer.aread()
                self.wrong.append(f"{self._words}: {answer.status_code} {answer.text}")
                return
            async for id, event in _events(answer):
                self._heard(id, event)
                if self._text and not self._first:
                    self._first = time.monotonic() - began
                drop -= 1
                if drop == 0 or event["type"] in ("done", "failed", "paused"):
                    return

    def _asked(self) -> Any:
        """The message, or what follows the last event of its turn, by either of the two ways."""
        last = {"last-event-id": self._last} if self._last else {}
        if self._turn and self._chance.random() < 0.5:
            path = f"{self._path}/turns/{self._turn}/events"
            return self._client.stream("GET", path, headers={**self._headers, **last})
        return self._client.stream(
            "POST",
            f"{self._path}/messages",
            params={"stream": 1},
            json={"content": self._words},
            headers={**self._headers, **last},
        )

    def _heard(self, id: str, event: dict[str, Any]) -> None:
        turn, _, number = id.partition(":")
        before = int(self._last.partition(":")[2] or 0)
        if self._turn not in ("", turn):
            self.wrong.append(f"{self._words}: its turn was {self._turn}, and is {turn}")
        elif event["type"] != "snapshot" and before and int(number) != before + 1:
            self.wrong.append(f"{self._words}: after event {before} comes {number}")
        self._turn, self._last = turn, id
        match event["type"]:
            case "text":
                self._text += event["text"]
            case "snapshot":
                self._text = event["text"]
            case "retrying":
                self._text = ""
            case "done":
                self._told = event["text"]
            case "failed":
                self.wrong.append(f"{self._words}: {event}")
            case _:
                pass


async def _events(answer: httpx.Response) -> AsyncIterator[tuple[str, dict[str, Any]]]:
    """The events of a stream, each with its id."""
    id = ""
    async for line in answer.aiter_lines():
        name, _, value = line.partition(": ")
        if name == "id":
            id = value
        elif name == "data":
            yield id, json.loads(value)


# --- what it is made of ---


@contextmanager
def model_server() -> Iterator[str]:
    """The address of a scripted model in a process of its own."""
    context = multiprocessing.get_context("spawn")
    mine, theirs = context.Pipe()
    process = context.Process(target=answer_as_model, args=(theirs,))
    process.start()
    try:
        yield mine.recv()
    finally:
        mine.send(None)
        process.join()


def answer_as_model(pipe: Connection) -> None:
    """Answers what `reply_to` says, until something comes through the pipe."""

    def script(request: Received) -> Reply:
        messages = request.body["messages"]
        asked = next(str(each["content"]) for each in reversed(messages) if each["role"] == "user")
        return Reply(text=reply_to(asked), pieces=PIECES)

    with ModelServer(script, keep=1) as server:
        pipe.send(server.openai_url)
        pipe.recv()


def configure(data: Path, model: str, plan: Plan) -> None:
    """A data directory whose agents ask the model, and remember by words alone."""
    data.mkdir(parents=True)
    bounds = {"live_bytes": plan.live_bytes, "live_sessions": plan.live_sessions}
    bound = "".join(f"{name} = {value}\n" for name, value in bounds.items() if value)
    kept = "enabled = true\nmodel = 'extractive'" if plan.memory else "enabled = false"
    told = f'model = "openai:gpt-5"\nbase_url = "{model}"\n{bound}[memory]\n{kept}\n'
    (data / "stratalog.toml").write_text(told)


def tokens(data: Path, count: int) -> list[str]:
    """A token for each of so many users."""
    made = Tokens(data)
    try:
        return [made.make(TENANT, roles=["user"], user=f"user-{at}").text for at in range(count)]
    finally:
        made.close()


def faults(data: Path, said: dict[str, list[Said]]) -> list[str]:
    """What is wrong with the logs beside what the clients said and saw."""
    wrong: list[str] = []
    with Stratalog(data, tenant=TENANT) as memory:
        store = memory.store
        assert isinstance(store, Verifies)
        for key in list(store.sessions(TENANT)):
            wrong += [f"{key}: {each}" for each in store.verify(key).problems]
        for chat, talk in said.items():
            entries = list(memory.session(f"assistant:http:{chat}").entries())
            wrong += [f"{chat}: {each}" for each in different(entries, talk)]
    return wrong


def different(entries: Sequence[Any], talk: Sequence[Said]) -> list[str]:
    """Where the log of a session is another than its client saw."""
    messages = [entry for entry in entries if isinstance(entry, User)]
    if [each.text for each in messages] != [each.words for each in talk]:
        return [f"the log has {len(messages)} messages, or others, where {len(talk)} were answered"]
    if [each.turn for each in messages] != [each.turn for each in talk]:
        return ["a message is of another turn than was told"]
    wrong = []
    for each in talk:
        mine = [entry for entry in entries if entry.turn == each.turn]
        replies = [
            entry.text
            for entry in mine
            if isinstance(entry, Assistant) and not (entry.meta or {}).get("partial")
        ]
        ends = [entry.status for entry in mine if isinstance(entry, TurnEnd)]
        if replies != [reply_to(each.words)] or ends != ["answered"]:
            wrong.append(f"{each.words}: {len(replies)} replies, ended as {ends}")
        elif each.told != replies[0] or (each.streamed not in (each.told, "") and each.sent == 1):
            wrong.append(f"{each.words}: what was streamed is not what is in the log")
    return wrong


# --- what is told ---


def slope(samples: Sequence[Sample], what: Literal["memory", "files"]) -> float:
    """By how much it grows in a minute, over the second half of the samples."""
    late = samples[len(samples) // 2 :]
    if len(late) < 3:
        return 0.0
    line = statistics.linear_regression([each.at for each in late], [getattr(each, what) for each in late])
    return line.slope * 60


def spaced(samples: Sequence[Sample]) -> list[Sample]:
    """Those of the samples that are `EVERY` seconds apart, the first of them at the end of warming up."""
    found: list[Sample] = []
    for each in samples:
        if each.at >= (found[-1].at if found else 0.0) + EVERY:
            found.append(each)
    return found


def told(plan: Plan, outcome: Outcome) -> Iterator[str]:
    """The lines that say what came of it."""
    turns = outcome.turns
    broken = f", {plan.breaks} times {plan.how}" if plan.how else ""
    yield f"{plan.sessions} sessions, {outcome.seconds:.0f} s{broken}"
    yield f"turns answered  {len(turns)}, {len(turns) / outcome.seconds:.1f} in a second"
    yield f"sent again      {sum(each.sent > 1 for each in turns)}"
    yield f"a turn          {_spread([each.seconds for each in turns])}"
    yield f"first word      {_spread([each.first for each in turns])}"
    yield from _seen(outcome)
    yield f"wrong           {len(outcome.wrong)}"
    yield from outcome.wrong[:20]


def _seen(outcome: Outcome) -> Iterator[str]:
    """What the samples say of the process that ran last."""
    if len(outcome.samples) < 2:
        return
    first, last = outcome.samples[0], outcome.samples[-1]
    middle = outcome.samples[len(outcome.samples) // 2]
    turns = len(outcome.turns) * (last.at - first.at) / outcome.seconds
    memory, files = slope(outcome.samples, "memory") / 1e6, slope(outcome.samples, "files")
    yield f"processor       {(last.cpu - first.cpu) / max(1, turns) * 1e3:.1f} ms of the service for a turn"
    yield (
        f"memory          {middle.memory / 1e6:.0f} MB halfway, {last.memory / 1e6:.0f} MB at the end, "
        f"{memory:+.1f} MB a minute"
    )
    moments = ", ".join(f"{each.memory / 1e6:.0f} MB at {each.at:.0f} s" for each in spaced(outcome.samples))
    yield f"                {moments}"
    yield f"open files      {last.files}, {files:+.0f} a minute"


def _spread(costs: Sequence[float]) -> str:
    ordered = sorted(costs) or [0.0]
    p99 = ordered[min(len(ordered) - 1, len(ordered) * 99 // 100)]
    return f"p50 {statistics.median(ordered):.2f} s, p99 {p99:.2f} s"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sessions", type=int, default=200, help="at the same time")
    parser.add_argument("--seconds", type=float, default=60.0, help="for which they begin turns")
    parser.add_argument("--break", dest="how", choices=["kill", "term"], default="", help="break it off")
    parser.add_argument("--breaks", type=int, default=2, help="how often")
    parser.add_argument("--no-memory", dest="memory", action="store_false", help="remember nothing")
    parser.add_argument("--turns", type=int, default=0, help="of a session, before its client begins another")
    parser.add_argument("--live-bytes", type=int, default=0, help="the setting of that name")
    parser.add_argument("--live-sessions", type=int, default=0, help="the setting of that name")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--data", type=Path, default=None, help="where the data directory is made")
    plan = parser.parse_args(arguments)
    where = vars(plan).pop("data")
    with tempfile.TemporaryDirectory(dir=where) as root:
        chosen = Plan(**vars(plan))
        outcome = load(chosen, Path(root))
        for line in told(chosen, outcome):
            print(line)
    return 1 if outcome.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
