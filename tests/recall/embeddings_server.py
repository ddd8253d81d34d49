"""A server of embeddings for tests: OpenAI's `/v1/embeddings` over real HTTP, with what may go wrong."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

from stratalog.testing.embedding import HashEmbedder


class Answer(NamedTuple):
    """What is answered to one request instead of vectors."""

    status: int
    body: Any
    wait: str = ""  # its header Retry-After


class EmbeddingsServer:
    """Use it in a `with` block. `script` are answers to the next requests, before all others get vectors;
    `refused` a word that no text may have; `scale` how long its vectors are; `requests` is what came."""

    def __init__(
        self, dimensions: int = 32, script: Sequence[Answer] = (), refused: str = "", scale: float = 1.0
    ) -> None:
        self.dimensions = dimensions
        self.scale = scale
        self.script = list(script)
        self.refused = refused
        self.requests: list[dict[str, Any]] = []
        self.keys: list[str] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}/v1"

    @property
    def texts(self) -> list[str]:
        return [text for request in self.requests for text in request["input"]]

    def __enter__(self) -> EmbeddingsServer:
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *raised: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def vectors(self, texts: Sequence[str]) -> list[list[float]]:
        rows = HashEmbedder(self.dimensions).embed_passages(texts)
        made: list[list[float]] = (rows * self.scale).tolist()
        return made

    def _answer(self, path: str, asked: dict[str, Any]) -> Answer:
        self.requests.append(asked)
        if path != "/v1/embeddings":
            return Answer(404, {"error": {"message": f"there is no {path}"}})
        if self.script:
            return self.script.pop(0)
        texts = asked["input"]
        if not texts or not all(isinstance(text, str) and text for text in texts):
            return Answer(400, {"error": {"message": "input cannot be empty"}})
        if self.refused and any(self.refused in text for text in texts):
            return Answer(400, {"error": {"message": "this text is refused"}})
        data = [
            {"object": "embedding", "index": index, "embedding": vector}
            for index, vector in enumerate(self.vectors(texts))
        ]
        # The order is the index's, not that of the list.
        return Answer(200, {"object": "list", "model": asked["model"], "data": data[::-1]})

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        answer: Callable[[str, dict[str, Any]], Answer] = self._answer
        keys = self.keys

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            wbufsize = -1  # an answer in one packet: none waits for the acknowledgement of its head

            def do_POST(self) -> None:
                asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
                keys.append(self.headers["authorization"])
                found = answer(self.path, asked)
                body = found.body if isinstance(found.body, bytes) else json.dumps(found.body).encode()
                self.send_response(found.status)
                for name, value in {
                    "content-type": "application/json",
                    "content-length": str(len(body)),
                    **({"retry-after": found.wait} if found.wait else {}),
                }.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *given: object) -> None:
                pass

        return Handler
