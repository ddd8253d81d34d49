"""Runs in the peers' environment, as `peer_worker.py` does, for the peers that find by vectors.

All get the same vectors, and the same ones to ask with; none makes any. A text is the number of its vector.
"""

from __future__ import annotations

import json
import logging
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from importlib import import_module, util
from typing import Any

import chromadb
import numpy
from langgraph.store.base import PutOp
from langgraph.store.sqlite import SqliteStore
from mem0 import Memory
from qdrant_client import QdrantClient
from qdrant_client.models import Distance, VectorParams

warnings.filterwarnings("ignore")  # qdrant-client warns of more than 20,000 points
logging.disable(logging.WARNING)  # mem0 tells of each package that it could use and that is not there

# SqliteStore's index is an extension of SQLite, which the one of some Pythons does not load.
sqlite = import_module("pysqlite3" if util.find_spec("pysqlite3") else "sqlite3")
BATCH = 1_000
NOBODY = {"provider": "openai", "config": {"api_key": "none", "openai_base_url": "http://127.0.0.1:9"}}
Vectors = Any  # an array of numpy, a row each
Find = Callable[[int, int], int]
"""Finds so many for the query of this number; how many there were."""


def qdrant(path: str, rows: Vectors, queries: Vectors) -> Find:
    """qdrant-client in memory, which is exact: a product in numpy."""
    client = QdrantClient(":memory:")
    width = VectorParams(size=rows.shape[1], distance=Distance.COSINE)
    client.create_collection("bench", vectors_config=width)
    client.upload_collection("bench", vectors=rows, ids=range(len(rows)))
    return lambda number, limit: len(client.query_points("bench", query=queries[number], limit=limit).points)


def chroma(path: str, rows: Vectors, queries: Vectors) -> Find:
    """Chroma on the disk with its own index, which is approximate."""
    client = chromadb.PersistentClient(path)
    collection = client.create_collection("bench", configuration={"hnsw": {"space": "cosine"}})
    for numbers in batches(len(rows)):
        texts = [str(number) for number in numbers]
        collection.add(ids=texts, embeddings=rows[numbers.start : numbers.stop], documents=texts)

    def find(number: int, limit: int) -> int:
        found = collection.query(query_embeddings=queries[number : number + 1], n_results=limit)
        return len(found["ids"][0])

    return find


def mem0(path: str, rows: Vectors, queries: Vectors) -> Find:
    """mem0 over qdrant-client on the disk, all of it one user's; filled through its vector store."""

    class Embedder:
        def embed(self, text: str, memory_action: str | None = None) -> list[float]:
            vector: list[float] = queries[int(text)].tolist()
            return vector

    width = rows.shape[1]
    store = {"path": f"{path}.qdrant", "embedding_model_dims": width, "on_disk": True}
    memory = Memory.from_config(
        {
            "llm": NOBODY,
            "embedder": {
                "provider": "openai",
                "config": {"api_key": "none", "embedding_dims": rows.shape[1]},
            },
            "vector_store": {"provider": "qdrant", "config": store},
            "history_db_path": f"{path}.history.db",
        }
    )
    memory.embedding_model = Embedder()
    vectors = memory.vector_store
    points = vectors.client._client.collections[vectors.collection_name].storage.storage
    points.execute("PRAGMA synchronous = OFF")  # each point is a transaction
    for numbers in batches(len(rows)):
        vectors.insert(
            vectors=rows[numbers.start : numbers.stop].tolist(),
            payloads=[{"user_id": "all", "role": "user", "data": str(number)} for number in numbers],
            ids=list(numbers),
        )
    return lambda number, limit: len(
        memory.search(str(number), filters={"user_id": "all"}, top_k=limit, threshold=0.0)["results"]
    )


def langgraph(path: str, rows: Vectors, queries: Vectors) -> Find:
    """LangGraph's SqliteStore with its index, all of it in one namespace; it is exact."""

    def embed(texts: Sequence[str]) -> list[list[float]]:
        of = {"row": rows, "query": queries}
        return [of[kind][int(number)].tolist() for kind, number in (text.split() for text in texts)]

    database = sqlite.connect(f"{path}.db", check_same_thread=False, isolation_level=None)
    index = {"dims": rows.shape[1], "embed": embed, "fields": ["text"], "text_fields": ["text"]}
    store = SqliteStore(database, index=index)
    store.setup()
    for numbers in batches(len(rows)):
        store.batch([PutOp(("all",), str(number), {"text": f"row {number}"}) for number in numbers])
    return lambda number, limit: len(store.search(("all",), query=f"query {number}", limit=limit))


KINDS: dict[str, Callable[[str, Vectors, Vectors], Find]] = {
    "qdrant": qdrant,
    "chroma": chroma,
    "mem0": mem0,
    "langgraph": langgraph,
}


def batches(length: int) -> list[range]:
    return [range(at, min(at + BATCH, length)) for at in range(0, length, BATCH)]


class Worker:
    def open(self, kind: str, path: str, rows: str, queries: str) -> int:
        """Keeps the vectors of one file, to be asked with those of the other; answers how many there are."""
        vectors, asked = numpy.load(rows), numpy.load(queries)
        self.number, self.queries = 0, len(asked)
        self.ask = KINDS[kind](path, vectors, asked)
        self.find(1, 1)
        return len(vectors)

    def find(self, count: int, limit: int) -> list[float]:
        """Answers the seconds of each query."""
        costs = []
        for _ in range(count):
            number = self.number % self.queries
            self.number += 1
            start = time.perf_counter()
            found = self.ask(number, limit)
            costs.append(time.perf_counter() - start)
            assert found == limit
        return costs


def main() -> None:
    worker = Worker()
    for line in sys.stdin:
        asked = json.loads(line)
        print(json.dumps(getattr(worker, asked.pop("what"))(**asked)), flush=True)


if __name__ == "__main__":
    main()
