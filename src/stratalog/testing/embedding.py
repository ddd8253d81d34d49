"""An embedder for tests: without a model, the same vectors everywhere and always."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np

from stratalog.models.contract import Reach
from stratalog.recall.embed import Space, Vectors
from stratalog.recall.terms import terms


class HashEmbedder:
    """Texts are as alike as the terms that they share: each has a direction of its own, by its hash.

    A text without terms has a direction of its own too. Another `version` is another space, whose vectors
    are others. `asked` is what was embedded, in order.
    """

    def __init__(self, dimensions: int = 384, *, version: str = "1", reach: Reach = "machine") -> None:
        self.space = Space(model="hash", version=version, dimensions=dimensions)
        self.reach: Reach = reach
        self.asked: list[str] = []

    def embed_passages(self, texts: Sequence[str]) -> Vectors:
        self.asked += texts
        found = [self._vector(text) for text in texts]
        return np.array(found, dtype=np.float32).reshape(len(texts), self.space.dimensions)

    def embed_query(self, text: str) -> Vectors:
        self.asked.append(text)
        return self._vector(text)

    def close(self) -> None:
        """Nothing is open."""

    def _vector(self, text: str) -> Vectors:
        found = np.zeros(self.space.dimensions)
        for term in terms(text) or ["", text]:
            told = f"{self.space.version} {term}".encode("utf-8", "surrogatepass")
            # Four places each, so that two terms seldom have all of them in common.
            for place in np.frombuffer(hashlib.blake2b(told, digest_size=16).digest(), dtype="<u4"):
                found[int(place) % self.space.dimensions] += 1.0
        made: Vectors = (found / np.linalg.norm(found)).astype(np.float32)
        return made
