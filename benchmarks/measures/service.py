"""The HTTP service beside the engine that it calls, and beside a bare route of the same server."""

from __future__ import annotations

import asyncio
import http.client
import json
import multiprocessing
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from functools import partial
from itertools import count as counting
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Final, NamedTuple

import uvicorn
from lab import Lab
from litestar import Litestar, get
from loads import timed
from sayings import question, saying
from spec import Block, Goal, Opener, Row, Size, Spec, System, pick

from measures.listing import sessions
from stratalog.engine.remembering import Draft, Layer, Scope
from stratalog.engine.running import ask
from stratalog.engine.serving import Serving, Tenancy
from stratalog.surfaces.access.wire import listening
from stratalog.surfaces.http.app import create_app
from stratalog.surfaces.http.running import Server
from stratalog.surfaces.http.settings import HttpSettings, http_settings

CLIENTS: Final = 16
PAGE: Final = 50
TURNS: Final = 20  # of a session, before another is begun
ENGINE: Final = "the engine"
OURS: Final = "over HTTP"
CROWD: Final = f"over HTTP, {CLIENTS} clients"
FLOOR: Final = "a bare route"
FLOOR_CROWD: Final = f"a bare route, {CLIENTS} clients"
OVERHEAD: Final = Goal("at most", 3e-3)
KINDS: Final = ("say", "remember", "recall", "list")
Ask = Callable[[], object]


def spec(size: Size) -> Spec:
    count = pick(size, 20, 10, 2)
    filling = Filling(*pick(size, (10_000, 1_000), (1_000, 200), (60, 20)))
    each = [
        system
        for kind in KINDS
        for system in (
            System(f"{kind}, {ENGINE}", engine(kind, count, filling)),
            System(f"{kind}, {OURS}", ours(kind, count, filling)),
            System(f"{kind}, {CROWD}", ours(kind, count, filling, CLIENTS)),
        )
    ]
    return Spec(
        "service",
        f"the HTTP service: {filling.sessions:,} sessions, {filling.records:,} records, open connections",
        "disk",
        pick(size, 30, 10, 2),
        (*each, System(FLOOR, floor(count)), System(FLOOR_CROWD, floor(count, CLIENTS))),
        (
            *(
                Row(f"{kind}: what HTTP adds", f"{kind}, {OURS}", f"{kind}, {ENGINE}", "excess", OVERHEAD)
                for kind in KINDS
            ),
            *(Row(f"{kind} beside a bare route", f"{kind}, {OURS}", FLOOR) for kind in KINDS),
            *(Row(f"{kind}, {CLIENTS} clients", f"{kind}, {CROWD}", FLOOR_CROWD) for kind in KINDS),
        ),
        "The service runs in a process of its own, as `stratalog serve` runs it, without a limit of requests;"
        " the engine is called in this one. `say` is a turn without memory, answered by `extractive`, which"
        f" asks no model; `list` is a page of {PAGE}. The bare route is Litestar and uvicorn with one route,"
        f" which returns a constant, with nobody to recognise. Requests in a second with {CLIENTS} clients"
        f" are {CLIENTS} divided by the time of one.",
    )


class Filling:
    """What there is before anything is asked."""

    def __init__(self, sessions: int, records: int) -> None:
        self.sessions = sessions
        self.records = records

    def data(self, lab: Lab, users: Sequence[str]) -> Path:
        """A data directory of its own with it, the records for each of these users."""
        root = sessions(lab, self.sessions)
        (root / "stratalog.toml").write_text('model = "extractive"\n[memory]\nenabled = false\n')
        serving = Serving(root)
        try:
            records = serving.of("local").records
            for user in users:
                who = records.caller(user=user, agent="bench")
                for number in range(self.records):
                    records.service.remember(who, draft(number, user))
        finally:
            asyncio.run(serving.close())
        return root


def draft(number: int, user: str) -> Draft:
    return Draft(layer=Layer.LONG, scope=Scope("user", user), key=f"key {number}", text=saying(number))


def engine(kind: str, count: int, filling: Filling) -> Opener:
    """The same calls without HTTP, in the calling process."""

    @contextmanager
    def opened(lab: Lab) -> Iterator[Block]:
        root = filling.data(lab, [] if kind == "list" else [kind])
        with asyncio.Runner() as runner:
            serving = Serving(root)
            try:
                act = engine_call(kind, serving.of("local"), runner)
                act()
                yield lambda: timed(act, count)
            finally:
                runner.run(serving.close())

    return opened


def engine_call(kind: str, tenancy: Tenancy, runner: asyncio.Runner) -> Ask:
    """What is timed."""
    numbers = counting(1_000_000)
    records = tenancy.records
    who = records.caller(user=kind, agent="bench")

    async def say() -> None:
        number = next(numbers)
        session = tenancy.front.session(f"bench:http:said-{number // TURNS}")
        agent = await tenancy.agent("bench", session=session.sync, user=kind)
        assert (await ask(session, agent, question(number))).text

    match kind:
        case "say":
            return lambda: runner.run(say())
        case "remember":
            return lambda: records.service.remember(who, draft(next(numbers), kind))
        case "recall":
            return lambda: records.service.recall(who, question(next(numbers))).found
        case _:
            return lambda: tenancy.front.sync.sessions(agent="bench", channel="cli", limit=PAGE).sessions


def ours(kind: str, count: int, filling: Filling, clients: int = 1) -> Opener:
    """The service in a process of its own, asked by so many connections at once."""

    @contextmanager
    def opened(lab: Lab) -> Iterator[Block]:
        port = lab.once("service", lambda: begun(lab, serve, filling.data(lab, KINDS[:3])))
        numbers = counting()

        def next_request(client: int) -> Request:
            return request_of(kind, next(numbers), client, clients)

        with asked(port, clients, next_request, count) as block:
            yield block

    return opened


def floor(count: int, clients: int = 1) -> Opener:
    """A bare route of the same framework and server."""

    @contextmanager
    def opened(lab: Lab) -> Iterator[Block]:
        port = lab.once("floor", lambda: begun(lab, serve_floor))
        with asked(port, clients, lambda client: Request("GET", "/floor"), count) as block:
            yield block

    return opened


class Request(NamedTuple):
    """What is sent, by its user where that matters."""

    method: str
    path: str
    body: dict[str, Any] | None = None
    user: str = ""


def request_of(kind: str, number: int, client: int = 0, clients: int = 1) -> Request:
    """The request of this number, by this one of so many clients.

    What one writes is not recalled for another: each is a user, and one that asks alone is `kind`, as where
    the engine is called.
    """
    at = "/v1/agents/bench/sessions"
    user = kind if clients == 1 or kind == "recall" else f"{kind}-{client}"
    match kind:
        case "say":
            path = f"{at}/{user}-{number // (TURNS * clients)}/messages"
            return Request("POST", path, {"content": question(number)}, user)
        case "remember":
            body = {"key": f"key {number + 1_000_000}", "text": saying(number)}
            return Request("POST", "/v1/memory/records?agent=bench", body, user)
        case "recall":
            return Request("POST", "/v1/memory/recall?agent=bench", {"query": question(number)}, user)
        case _:
            return Request("GET", f"{at}?channel=cli&limit={PAGE}")


@contextmanager
def asked(port: int, clients: int, next_request: Callable[[int], Request], count: int) -> Iterator[Block]:
    """A block of requests by so many connections, `count` of each after the one that opens it."""
    choosing = threading.Lock()

    def one(number: int) -> list[float]:
        costs: list[float] = []
        with closing(Connected(port)) as client:
            for at in range(-1, count):
                with choosing:
                    request = next_request(number)
                cost = timed(partial(client.ask, request), 1)
                costs += cost if at >= 0 else []  # the first connects
        return costs

    with ThreadPoolExecutor(clients) as pool:
        yield lambda: [cost for costs in pool.map(one, range(clients)) for cost in costs]


class Connected:
    """A connection that stays open, of a client that does little."""

    def __init__(self, port: int) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port)

    def ask(self, request: Request) -> None:
        sent = json.dumps(request.body).encode() if request.body is not None else None
        headers = {"content-type": "application/json"}
        if request.user:
            headers["stratalog-user"] = request.user
        self._connection.request(request.method, request.path, sent, headers)
        answer = self._connection.getresponse()
        told = answer.read()
        assert answer.status == 200, (answer.status, told)

    def close(self) -> None:
        self._connection.close()


# --- the processes ---


def begun(lab: Lab, work: Callable[..., None], *arguments: object) -> int:
    """The port at which a new process listens that does this work until the lab closes."""
    context = multiprocessing.get_context("spawn")
    mine, theirs = context.Pipe()
    process = context.Process(target=work, args=(theirs, *arguments))
    process.start()

    def end() -> None:
        mine.send(None)
        process.join()

    lab.at_end(end)
    port: int = mine.recv()
    return port


def serve(pipe: Connection, data: Path) -> None:
    """The service, without a limit of requests."""
    settings = http_settings(port=0, dev=True, background=False, rate=1e9, burst=10**9)
    _serve(pipe, settings, Server(create_app(data, settings), settings))


def serve_floor(pipe: Connection) -> None:
    """The bare route."""

    @get("/floor", sync_to_thread=False)
    def bare() -> dict[str, str]:
        return {"status": "ok"}

    config = uvicorn.Config(
        Litestar([bare], logging_config=None, openapi_config=None), log_config=None, access_log=False
    )
    _serve(pipe, http_settings(port=0), uvicorn.Server(config))


def _serve(pipe: Connection, settings: HttpSettings, server: uvicorn.Server) -> None:
    with listening(settings.host, settings.port) as where:
        thread = threading.Thread(target=server.run, kwargs={"sockets": [where]})
        thread.start()
        pipe.send(where.getsockname()[1])
        pipe.recv()
        server.should_exit = True
        thread.join()
