"""The server itself: a thread with an event loop of its own, on a free port of this machine alone."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Any, Self

import msgspec

from stratalog.testing.model_server.dialect import Dialect, Frame, Memory, Refused, Strictness
from stratalog.testing.model_server.dialects import DIALECTS
from stratalog.testing.model_server.http import Asked, Connection, Response, read_request
from stratalog.testing.model_server.steps import Break, Drop, Facts, Hang, Raw, Received, Refuse, ServerStep
from stratalog.testing.scripted import Reply, keep_latest, output_limit, rough_tokens
from stratalog.types import Usage

_PATIENCE = 10.0
_LARGEST = 64 * 1024 * 1024


class ModelServer:
    """A context manager; inside it the server answers at `openai_url` and `anthropic_url`.

    `script` is the steps in order, or a function from the request to its step, which runs in the server's
    thread. `window` and `count` (of the parsed body) bound the input, refused beyond as the API refuses it.
    `keep` is how many of the latest requests are kept (None: all); `facts` are of all. `api_key`, when
    given, is asked for; a request with another is refused in words that repeat it, as some servers do. An
    exception in the script is raised on leaving.
    """

    def __init__(
        self,
        script: Iterable[ServerStep] | Callable[[Received], ServerStep],
        *,
        window: int | None = None,
        count: Callable[[dict[str, Any]], int] = rough_tokens,
        strict: Strictness | None = None,
        api_key: str = "",
        keep: int | None = None,
    ) -> None:
        self.requests: list[Received] = []
        self.facts = Facts()
        self._keep = keep
        self.url = ""
        self._next = script if callable(script) else _taker(script)
        self._window = window
        self._count = count
        self._strict = strict or Strictness()
        self._api_key = api_key
        self._memory = Memory()
        self._changed = threading.Condition()
        self._failures: list[BaseException] = []
        self._ready = threading.Event()
        self._thread = threading.Thread(
            target=lambda: asyncio.run(self._run()), name="model-server", daemon=True
        )
        self._loop: asyncio.AbstractEventLoop
        self._stop: asyncio.Event

    @property
    def openai_url(self) -> str:
        return f"{self.url}/v1"

    @property
    def anthropic_url(self) -> str:
        return self.url

    @property
    def refusals(self) -> list[str]:
        """Why requests were refused by the rules, in order."""
        return list(self.facts.refusals)

    def wait(self, condition: Callable[[], bool], timeout: float = _PATIENCE) -> None:
        """Blocks until the condition on this server holds; it is looked at whenever something happened.
        Raises `TimeoutError`."""
        with self._changed:
            if not self._changed.wait_for(condition, timeout):
                raise TimeoutError(f"it did not come to be within {timeout:g} seconds; seen: {self.requests}")

    def __enter__(self) -> Self:
        self._thread.start()
        if not self._ready.wait(_PATIENCE):
            raise TimeoutError("the model server did not start")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(_PATIENCE)
        if self._failures and error is None:
            raise self._failures[0]

    async def _run(self) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        tasks: set[asyncio.Task[None]] = set()

        def connect() -> Connection:
            reader = asyncio.StreamReader(limit=_LARGEST)

            def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
                task = asyncio.ensure_future(self._serve(connection, reader, writer))
                tasks.add(task)
                task.add_done_callback(tasks.discard)

            connection = Connection(reader, serve)
            return connection

        server = await self._loop.create_server(connect, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        self._ready.set()
        await self._stop.wait()
        server.close()
        left = list(tasks)
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)

    async def _serve(
        self, connection: Connection, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        try:
            more = True
            while more:
                asked = await read_request(reader)
                more = asked is not None and await self._answer_watched(connection, asked, writer)
        finally:
            writer.close()

    async def _answer_watched(
        self, connection: Connection, asked: Asked, writer: asyncio.StreamWriter
    ) -> bool:
        """Answers unless the client leaves first; True when the connection may serve another request."""
        received = self._received(asked)
        answer = asyncio.ensure_future(self._finished(received, asked, Response(writer)))
        gone = asyncio.ensure_future(connection.gone.wait())
        try:
            await asyncio.wait({answer, gone}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (answer, gone):
                task.cancel()
            await asyncio.gather(answer, gone, return_exceptions=True)
        with self._changed:
            failure = None if answer.cancelled() else answer.exception()
            left = answer.cancelled() or isinstance(failure, ConnectionError)
            received.disconnected = left
            self.facts.statuses[received.status] += 1
            if failure is not None and not left:
                self._failures.append(failure)
            self._changed.notify_all()
        if left:
            return False
        if failure is not None:
            await _own_up(failure, received, Response(writer))
            return False
        return bool(answer.result())

    async def _finished(self, received: Received, asked: Asked, response: Response) -> bool | None:
        """`_answer`, marked as finished in the very step that sends its last byte."""
        more = await self._answer(received, asked, response)
        with self._changed:
            received.finished = more is not None
            self._changed.notify_all()
        return more

    def _received(self, asked: Asked) -> Received:
        shape = next((shape for shape, dialect in DIALECTS.items() if dialect.path == asked.path), None)
        with self._changed:
            received = Received(self.facts.requests, shape, asked.path, asked.headers, asked.raw)
            self.facts.came(len(asked.raw))
            self.requests.append(received)
            keep_latest(self.requests, self._keep)
            self._changed.notify_all()
        return received

    async def _answer(self, received: Received, asked: Asked, response: Response) -> bool | None:
        """True and False as in `_answer_watched`; None when the connection is to be dropped."""
        dialect = DIALECTS[received.shape or "openai_chat"]
        try:
            self._check(received, asked, dialect)
        except Refused as refusal:
            received.refusal, received.status = refusal.message, refusal.status
            self.facts.refusals.append(refusal.message)
            body = dialect.error(refusal.status, refusal.message, refusal.code, refusal.param)
            await response.whole(refusal.status, _headers(received), body)
            return True
        step = self._next(received)
        match step:
            case Refuse():
                return await _refuse(step, received, dialect, response)
            case Raw():
                return await _raw(step, received, dialect, response)
            case str():
                return await self._reply(Reply(text=step), received, dialect, response)
            case Reply():
                return await self._reply(step, received, dialect, response)
            case Drop() | Hang() | Break():
                return await self._stumble(step, received, dialect, response)

    def _check(self, received: Received, asked: Asked, dialect: Dialect) -> None:
        if received.shape is None or asked.method != "POST":
            raise Refused(f"Invalid URL ({asked.method} {asked.path})", status=404)
        key = dialect.key(asked.headers)
        if not key or (self._api_key and key != self._api_key):
            raise Refused(f"Incorrect API key provided: {key}.", status=401)
        try:
            body = msgspec.json.decode(asked.raw)
        except ValueError as error:
            raise Refused("We could not parse the JSON body of your request.") from error
        if not isinstance(body, dict):
            raise Refused("The body of the request is not a JSON object.")
        received.body, received.tokens = body, self._count(body)
        self.facts.counted(received.tokens)
        dialect.check(body, asked.headers, self._strict, self._memory)
        output = output_limit(body)
        if self._window is not None and received.tokens + output > self._window:
            raise dialect.over_window(received.tokens, output, self._window)

    async def _reply(self, reply: Reply, received: Received, dialect: Dialect, response: Response) -> bool:
        received.status = 200
        if reply.gate is not None:
            await reply.gate.passed()
        frames, whole = self._made(reply, received, dialect)
        if received.body.get("stream") is not True:
            if reply.late_gate is not None:
                await reply.late_gate.passed()
            await response.whole(200, _headers(received), whole)
            return True
        await response.head(200, _headers(received, "text/event-stream"))
        last = max((place for place, frame in enumerate(frames) if frame.delta), default=0)
        for place, frame in enumerate(frames):
            if reply.late_gate is not None and place == last:
                await reply.late_gate.passed()
            await response.piece(frame.sse())
        await response.piece(dialect.end())
        return await response.end()

    async def _stumble(
        self, step: Drop | Hang | Break, received: Received, dialect: Dialect, response: Response
    ) -> bool | None:
        received.status = 200 if step.after >= 0 else 0
        if step.after >= 0:
            await response.head(200, _headers(received, "text/event-stream"))
            frames, _ = self._made(step.reply, received, dialect)
            for frame in _until(frames, step.after):
                await response.piece(frame.sse())
        match step:
            case Drop():
                return None
            case Hang():
                await asyncio.Event().wait()
                return None
            case Break():
                await response.piece(dialect.broken(step.message, step.code).sse())
                return await response.end()

    def _made(self, reply: Reply, received: Received, dialect: Dialect) -> tuple[list[Frame], dict[str, Any]]:
        named = reply.named()
        usage = reply.usage or Usage(input=received.tokens, output=reply.size)
        given = (named, usage, received.body, self._memory, f"response-{received.number}")
        return dialect.frames(*given), dialect.whole(*given)


async def _own_up(failure: BaseException, received: Received, response: Response) -> None:
    """Tells the client that the script failed, with a status that nobody asks again after."""
    if received.status == 0:
        received.status = 400
        error = DIALECTS[received.shape or "openai_chat"].error(
            400, f"the script failed: {failure!r}", "", ""
        )
        await response.whole(400, _headers(received), error)


async def _refuse(step: Refuse, received: Received, dialect: Dialect, response: Response) -> bool:
    received.status = step.status
    headers = {**_headers(received), **step.headers}
    if step.retry_after is not None:
        headers["retry-after"] = str(step.retry_after)
    if step.text:
        headers["content-type"] = "text/html"
    await response.whole(
        step.status, headers, step.text or dialect.error(step.status, step.message, step.code, "")
    )
    return True


async def _raw(step: Raw, received: Received, dialect: Dialect, response: Response) -> bool:
    received.status = 200
    await response.head(200, _headers(received, step.content_type), framed=step.framed)
    for event in step.events:
        if isinstance(event, str):
            await response.piece(event.encode("utf-8", "surrogatepass"))
        elif step.content_type != "text/event-stream":
            await response.piece(json.dumps(event).encode())
        else:
            named = event.get("type", "") if received.shape != "openai_chat" else ""
            await response.piece(Frame(named, event).sse())
    return await response.end()


def _until(frames: list[Frame], deltas: int) -> list[Frame]:
    """The frames up to the last of so many deltas."""
    found: list[Frame] = []
    for frame in frames:
        if frame.delta:
            deltas -= 1
        if deltas < 0:
            break
        found.append(frame)
    return found


def _headers(received: Received, content_type: str = "application/json") -> dict[str, str]:
    request_id = f"req_{received.number}"
    return {"content-type": content_type, "x-request-id": request_id, "request-id": request_id}


def _taker(script: Iterable[ServerStep]) -> Callable[[Received], ServerStep]:
    steps = iter(script)

    def take(received: Received) -> ServerStep:
        step = next(steps, None)
        assert step is not None, f"the script has no step for request {received.number}"
        return step

    return take
