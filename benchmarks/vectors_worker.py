"""Runs in the peers' environment, as `peer_worker.py` does: qdrant-client's local mode."""

from __future__ import annotations

import json
import sys
import time
import warnings

import numpy
from qdrant_client import QdrantClient
from qdrant_client.models import Distance, VectorParams

warnings.filterwarnings("ignore")  # it warns of more than 20,000 points


class Worker:
    def open(self, rows: str, queries: str) -> int:
        """Keeps the vectors of one file and asks with those of the other; answers how many there are."""
        vectors = numpy.load(rows)
        self.queries = numpy.load(queries)
        self.number = 0
        self.client = QdrantClient(":memory:")
        width = VectorParams(size=vectors.shape[1], distance=Distance.COSINE)
        self.client.create_collection("bench", vectors_config=width)
        self.client.upload_collection("bench", vectors=vectors, ids=range(len(vectors)))
        self.find(1, 1)
        return len(vectors)

    def find(self, count: int, limit: int) -> list[float]:
        """Answers the seconds of each query."""
        costs = []
        for _ in range(count):
            query = self.queries[self.number % len(self.queries)]
            self.number += 1
            start = time.perf_counter()
            found = self.client.query_points("bench", query=query, limit=limit).points
            costs.append(time.perf_counter() - start)
            assert len(found) == limit
        return costs


def main() -> None:
    worker = Worker()
    for line in sys.stdin:
        asked = json.loads(line)
        print(json.dumps(getattr(worker, asked.pop("what"))(**asked)), flush=True)


if __name__ == "__main__":
    main()
