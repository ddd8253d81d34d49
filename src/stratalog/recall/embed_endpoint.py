"""An embedder behind an endpoint: what `models.embeddings` answers, as vectors of one space."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Sequence
from typing import Final, Protocol

import msgspec
import numpy as np

from stratalog.models.contract import Reach
from stratalog.recall.embed import Space, Vectors, cleaned, usable

LONGEST: Final = 8_000  # characters: as a passage of the index is, and within the 8,191 tokens of OpenAI's
_AT_ONCE: Final = 64
_PROBE: Final = "dimensions"


class Asked(Protocol):
    """A model of numbers for texts, such as `models.embeddings.Embeddings`."""

    model: str
    reach: Reach

    def ask(self, texts: Sequence[str]) -> list[list[float]]: ...
    def close(self) -> None: ...


class EndpointEmbedder:
    """See `Embedder`. Safe for threads.

    How many dimensions the model has is asked once, with one word, unless `dimensions` says it: so a store
    that knows the space needs no server to be opened. A later reply of another length is
    `ModelReplyUnusable`. `version` tells apart what has one name and gives other vectors.

    `query_prefix` and `passage_prefix` are put before each question and each passage, as the model was
    trained to have them; with others its vectors are of another space (`version_of`).
    """

    def __init__(
        self,
        asked: Asked,
        *,
        dimensions: int | None = None,
        version: str = "",
        query_prefix: str = "",
        passage_prefix: str = "",
    ) -> None:
        self._asked = asked
        self._query, self._passage = cleaned(query_prefix, LONGEST), cleaned(passage_prefix, LONGEST)
        self._version = version_of(version, query_prefix, passage_prefix)
        self._turn = threading.Lock()
        self._space = None if dimensions is None else self._of(dimensions)

    @property
    def reach(self) -> Reach:
        return self._asked.reach

    @property
    def space(self) -> Space:
        found = self._space
        if found is None:
            with self._turn:
                found = self._space = self._space or self._of(len(self._asked.ask([_PROBE])[0]))
        return found

    def embed_passages(self, texts: Sequence[str]) -> Vectors:
        space = self.space
        found = [np.empty((0, space.dimensions), dtype=np.float32)]
        for at in range(0, len(texts), _AT_ONCE):
            found.append(self._embed(self._passage, texts[at : at + _AT_ONCE], space))
        return np.concatenate(found)

    def embed_query(self, text: str) -> Vectors:
        made: Vectors = self._embed(self._query, [text], self.space)[0]
        return made

    def close(self) -> None:
        self._asked.close()

    def _embed(self, prefix: str, texts: Sequence[str], space: Space) -> Vectors:
        # Most servers refuse an empty text.
        rows = self._asked.ask([prefix + (cleaned(text, LONGEST).strip() or " . ") for text in texts])
        odd = next((row for row in rows if len(row) != space.dimensions), None)
        shaped = np.array(rows if odd is None else [odd] * len(rows), dtype=np.float64)
        with np.errstate(over="ignore"):
            return usable(shaped.astype(np.float32), space, len(texts))

    def _of(self, dimensions: int) -> Space:
        return Space(model=self._asked.model, version=self._version, dimensions=dimensions)


def version_of(version: str, query_prefix: str, passage_prefix: str) -> str:
    """The version of a space whose texts have these prefixes; `version` itself without any."""
    if not query_prefix and not passage_prefix:
        return version
    told = msgspec.json.encode([cleaned(each, LONGEST) for each in (query_prefix, passage_prefix)])
    return f"{version}+{hashlib.sha256(told).hexdigest()[:12]}"
