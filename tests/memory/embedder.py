"""A server of embeddings for tests: OpenAI's `/v1/embeddings` over real HTTP without a model; and mem0 on it.

Each word has a dimension of its own, the next free one, as long as there are any: texts are as alike as the
words that they share.
"""

from __future__ import annotations

import json
import os
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from stratalog.conformance.records import Lab
from stratalog.memory.contract import RecordStore
from stratalog.memory.mem0 import Mem0, open_mem0

_WORD = re.compile(r"\w+")


class Embedder:
    """Use it in a `with` block. `paths` and `texts` are what was asked; a text with a word of `refused` gets
    400."""

    def __init__(self, dims: int = 64) -> None:
        self.dims = dims
        self.paths: list[str] = []
        self.texts: list[str] = []
        self.refused: set[str] = set()
        self._words: dict[str, int] = {}
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}/v1"

    def config(self) -> dict[str, Any]:
        """mem0's configuration, whose embedder and whose language model are here."""
        here = {"api_key": "test", "openai_base_url": self.url, "model": "words"}
        return {
            "embedder": {"provider": "openai", "config": {**here, "embedding_dims": self.dims}},
            "llm": {"provider": "openai", "config": here},
        }

    def start_over(self) -> None:
        """As new: it knows no words and refuses none."""
        self.refused.clear()
        self._words.clear()

    def vector(self, text: str) -> list[int]:
        found = [0] * self.dims
        for word in _WORD.findall(text.lower()) or [""]:
            found[self._words.setdefault(word, len(self._words)) % self.dims] += 1
        return found

    def __enter__(self) -> Embedder:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *raised: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def _answer(self, path: str, asked: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        texts = asked.get("input", [])
        self.paths.append(path)
        self.texts += texts
        if path != "/v1/embeddings" or any(self.refused.intersection(text.split()) for text in texts):
            return 400, {"error": {"message": "refused", "type": "invalid_request_error"}}
        data = [
            {"object": "embedding", "index": index, "embedding": self.vector(text)}
            for index, text in enumerate(texts)
        ]
        return 200, {"object": "list", "model": "words", "usage": {}, "data": data}

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        answer = self._answer

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            wbufsize = -1  # an answer in one packet: none waits for the acknowledgement of its head

            def do_POST(self) -> None:
                asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
                status, told = answer(self.path, asked)
                body = json.dumps(told).encode()
                self.send_response(status)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *given: object) -> None:
                pass

        return Handler


class Mem0Lab(Lab):
    """The records of one tenant in mem0, in `path`; reopening closes mem0 and its vector store too."""

    def __init__(self, embedder: Embedder, path: Path) -> None:
        open_: Callable[[], Mem0] = lambda: open_mem0(embedder.config(), path)  # noqa: E731
        self._open = open_
        self._home = open_()
        super().__init__(lambda: self._home.records("tenant"))

    def reopen(self) -> RecordStore:
        self._home.close()
        self._home = self._open()
        return super().reopen()

    def close(self) -> None:
        self._home.close()


@contextmanager
def quick_directory(path: Path) -> Iterator[Path]:
    """A directory in memory where there is one, else `path`: a local Qdrant waits for the disk at each write,
    and what survives a crash of the machine is not what these tests ask."""
    memory = Path("/dev/shm")
    if not os.access(memory, os.W_OK):
        yield path
        return
    with TemporaryDirectory(dir=memory, prefix="stratalog-") as made:
        yield Path(made)


def need_mem0() -> None:
    """Skips a test where mem0 is not installed. It is not imported to find out: it writes when it is."""
    if find_spec("mem0") is None:
        pytest.skip("mem0ai is not installed: pip install 'stratalog[mem0]'")
