"""Runs in the peers' environment, as `peer_worker.py` does, for the peers that keep records.

Both find by vectors. The embedder is the same for both: hashed words, in a millisecond's fraction.
"""

from __future__ import annotations

import json
import logging
import sys
import time
import zlib
from collections.abc import Callable, Sequence
from importlib import import_module, util
from pathlib import Path
from typing import Any

import numpy
from langgraph.store.base import PutOp
from langgraph.store.sqlite import SqliteStore
from mem0 import Memory
from sayings import question, saying

logging.disable(logging.WARNING)  # mem0 tells of each package that it could use and that is not there

# SqliteStore's index is an extension of SQLite, which the one of some Pythons does not load.
sqlite = import_module("pysqlite3" if util.find_spec("pysqlite3") else "sqlite3")
WIDTH = 384
FOUND = 10
BATCH = 1_000
NOBODY = {"provider": "openai", "config": {"api_key": "none", "openai_base_url": "http://127.0.0.1:9"}}
_of_words: dict[str, Any] = {}


def embed(text: str) -> list[float]:
    """The mean of its words' vectors, each made by chance from the word, of length one."""
    for word in text.split():
        if word not in _of_words:
            chance = numpy.random.default_rng(zlib.crc32(word.encode()))
            _of_words[word] = chance.standard_normal(WIDTH, dtype=numpy.float32)
    found = sum(_of_words[word] for word in text.split())
    vector: list[float] = (found / numpy.linalg.norm(found)).tolist()
    return vector


class Embedder:
    """`embed`, as mem0 calls it."""

    def embed(self, text: str, memory_action: str | None = None) -> list[float]:
        return embed(text)

    def embed_batch(self, texts: Sequence[str], memory_action: str | None = None) -> list[list[float]]:
        return [embed(text) for text in texts]


class LangGraph:
    """LangGraph's SqliteStore with an index, opened as `from_conn_string` does; a namespace is a tenant."""

    def __init__(self, path: str) -> None:
        index = {"dims": WIDTH, "embed": _each, "fields": ["text"], "text_fields": ["text"]}
        self._database = sqlite.connect(f"{path}.db", check_same_thread=False, isolation_level=None)
        self._store = SqliteStore(self._database, index=index)
        self._store.setup()

    def durability(self) -> list[str]:
        return [_durability(self._database)]

    def fill(self, tenant: int, count: int) -> None:
        puts = [_put(tenant, f"filled {number}", saying(number)) for number in range(count)]
        for at in range(0, count, BATCH):
            self._store.batch(puts[at : at + BATCH])

    def add(self, tenant: int, key: str, text: str) -> None:
        self._store.put((f"t{tenant}",), key, {"text": text})

    def find(self, tenant: int, query: str) -> int:
        return len(self._store.search((f"t{tenant}",), query=query, limit=FOUND))

    def close(self) -> None:
        self._database.close()


class Mem0:
    """mem0 over a local Qdrant store; a user is a tenant. It adds without a model (`infer=False`)."""

    def __init__(self, path: str) -> None:
        store = {"path": f"{path}.qdrant", "embedding_model_dims": WIDTH, "on_disk": True}
        embedder = {"provider": "openai", "config": {"api_key": "none", "embedding_dims": WIDTH}}
        self._memory = Memory.from_config(
            {
                "llm": NOBODY,
                "embedder": embedder,
                "vector_store": {"provider": "qdrant", "config": store},
                "history_db_path": f"{path}.history.db",
            }
        )
        self._memory.embedding_model = Embedder()
        vectors = self._memory.vector_store
        self._points = vectors.client._client.collections[vectors.collection_name].storage.storage

    def durability(self) -> list[str]:
        return [_durability(self._points), _durability(self._memory.db.connection)]

    def fill(self, tenant: int, count: int) -> None:
        """Into the vector store itself, and without waiting for the disk: each point is a transaction."""
        self._points.execute("PRAGMA synchronous = OFF")
        texts = [saying(number) for number in range(count)]
        self._memory.vector_store.insert(
            vectors=[embed(text) for text in texts],
            payloads=[{"user_id": f"t{tenant}", "role": "user", "data": text} for text in texts],
            ids=[tenant * 1_000_000 + number for number in range(count)],
        )
        self._points.execute("PRAGMA synchronous = FULL")

    def add(self, tenant: int, key: str, text: str) -> None:
        self._memory.add(text, user_id=f"t{tenant}", infer=False)

    def find(self, tenant: int, query: str) -> int:
        found = self._memory.search(query, filters={"user_id": f"t{tenant}"}, top_k=FOUND)
        return len(found["results"])

    def close(self) -> None:
        self._memory.vector_store.client.close()
        self._memory.close()


KINDS: dict[str, type[LangGraph] | type[Mem0]] = {"langgraph": LangGraph, "mem0": Mem0}


def _put(tenant: int, key: str, text: str) -> PutOp:
    return PutOp((f"t{tenant}",), key, {"text": text})


def _durability(database: Any) -> str:
    (level,) = database.execute("PRAGMA synchronous").fetchone()
    (journal,) = database.execute("PRAGMA journal_mode").fetchone()
    return f"journal {journal}, synchronous {level}"


def _each(texts: Sequence[str]) -> list[list[float]]:
    return [embed(text) for text in texts]


class Worker:
    def __init__(self) -> None:
        self.number = 0

    def open(self, kind: str, path: str, tenants: int, count: int) -> list[str]:
        """Opens a store with so many records for each of so many tenants; answers how durable a write is
        in each of its databases."""
        self.path = path
        self.kind = KINDS[kind]
        self.store = self.kind(path)
        for tenant in range(tenants):
            self.store.fill(tenant, count)
        return self.store.durability()

    def add(self, count: int) -> list[float]:
        """Adds records to the first tenant's, one call each; answers the seconds of each."""
        return [self._timed(self._add) for _ in range(count)]

    def find(self, tenants: int, count: int) -> list[float]:
        """Asks tenants in turn; answers the seconds of each query."""
        return [self._timed(lambda: self._find(tenants)) for _ in range(count)]

    def cold(self, tenants: int) -> list[float]:
        """Opens the store anew and asks once; answers the seconds of both together."""
        self.store.close()

        def opened() -> None:
            self.store = self.kind(self.path)
            self._find(tenants)

        return [self._timed(opened)]

    def close(self) -> int:
        """Closes the store; answers the bytes of its files."""
        self.store.close()
        path = Path(self.path)
        files = [found for top in path.parent.glob(f"{path.name}*") for found in (top, *top.rglob("*"))]
        return sum(found.stat().st_size for found in files if found.is_file())

    def _add(self) -> None:
        self.store.add(0, f"key {self.number}", self.saying)

    def _find(self, tenants: int) -> None:
        assert self.store.find(self.number % tenants, self.question) > 0

    def _timed(self, act: Callable[[], object]) -> float:
        self.number += 1
        self.saying, self.question = saying(self.number), question(self.number)
        start = time.perf_counter()
        act()
        return time.perf_counter() - start


def main() -> None:
    worker = Worker()
    for line in sys.stdin:
        command: dict[str, Any] = json.loads(line)
        answer = getattr(worker, command.pop("what"))(**command)
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
