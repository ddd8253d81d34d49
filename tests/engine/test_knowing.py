"""engine/knowing.py: what was made of documents goes with them, with real stores and a real server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from recall.embeddings_server import EmbeddingsServer
from stratalog.config import RecallSettings, Settings
from stratalog.engine.core import Stratalog
from stratalog.engine.embedding import embed
from stratalog.engine.knowing import Knowledge, knowledge_of
from stratalog.engine.recalling import passages_of
from stratalog.engine.remembering import Records

WALRUS = b"# Walrus\n\nWalruses have tusks."
NARWHAL = b"# Narwhal\n\nNarwhals have one."


@pytest.fixture
def server() -> Iterator[EmbeddingsServer]:
    with EmbeddingsServer() as made:
        yield made


@pytest.fixture
def memory(data: Path, server: EmbeddingsServer) -> Iterator[Stratalog]:
    recall = RecallSettings(embedder="openai:hash", base_url=server.url)
    with Stratalog(data, settings=Settings(sync="never", recall=recall)) as made:
        yield made


@pytest.fixture
def knowledge(memory: Stratalog) -> Iterator[Knowledge]:
    with knowledge_of(memory) as made:
        yield made


def embedded(memory: Stratalog) -> None:
    with Records(memory) as records:
        while embed(memory, records, charge=lambda texts: None).left:
            pass


def vectors(memory: Stratalog, collection: str) -> set[str]:
    """The ids that have a vector."""
    store = memory.strata.vectors.store("documents")
    return {id for kept in store.spaces() for id in store.ids(kept.space, collection)}


def bytes_of(data: Path) -> bytes:
    return b"".join(path.read_bytes() for path in data.rglob("*") if path.is_file())


def row(server: EmbeddingsServer, text: str) -> bytes:
    """The bytes of a text's vector, as it is kept."""
    return np.array(server.vectors([text])[0], dtype="<f4").tobytes()


def test_a_removed_document_has_no_vector(
    memory: Stratalog, knowledge: Knowledge, server: EmbeddingsServer, data: Path
) -> None:
    """At once, whether or not anything is embedded later; scrubbed, its bytes are gone too, and another's
    are not."""
    put = knowledge.put("sea", "walrus.md", WALRUS)
    other = knowledge.put("sea", "narwhal.md", NARWHAL)
    embedded(memory)
    (gone,) = knowledge.chunks(put.document.id)
    (kept,) = knowledge.chunks(other.document.id)
    assert vectors(memory, "sea") == {gone.id, kept.id}
    assert row(server, gone.whole) in bytes_of(data)
    knowledge.remove(put.document.id)
    assert vectors(memory, "sea") == {kept.id}
    assert [each.document.name for each in passages_of(memory, "walrus tusks", 10)] == ["narwhal.md"]
    knowledge.scrub()
    left = bytes_of(data)
    assert gone.id.encode() not in left
    assert row(server, gone.whole) not in left
    assert row(server, kept.whole) in left


def test_a_changed_document_has_no_vector_of_what_it_said(memory: Stratalog, knowledge: Knowledge) -> None:
    """What says the same keeps its own and is not asked for again."""
    parts = [f"## Part {number}\n\n{f'Sentence {number}. ' * 80}\n\n" for number in range(3)]
    put = knowledge.put("sea", "long.md", "".join(parts).encode())
    embedded(memory)
    before = [chunk.id for chunk in knowledge.chunks(put.document.id)]
    knowledge.put("sea", "long.md", "".join([parts[0], "## New\n\nOther words.\n\n", parts[2]]).encode())
    kept = {chunk.id for chunk in knowledge.chunks(put.document.id)} & set(before)
    assert 0 < len(kept) < len(before)
    assert vectors(memory, "sea") == kept


def test_a_removed_collection_has_no_vectors(memory: Stratalog, knowledge: Knowledge) -> None:
    """And no other's are touched."""
    knowledge.put("sea", "walrus.md", WALRUS)
    knowledge.put("sea ", "walrus.md", WALRUS)
    embedded(memory)
    knowledge.remove_collection("sea")
    assert vectors(memory, "sea") == set()
    assert len(vectors(memory, "sea ")) == 1


def test_vectors_that_cannot_be_removed_at_once_are_told(memory: Stratalog, knowledge: Knowledge) -> None:
    """The document is gone all the same, and the next pass of embedding takes them."""
    put = knowledge.put("sea", "walrus.md", WALRUS)
    knowledge.put("sea", "narwhal.md", NARWHAL)
    embedded(memory)
    catalog = memory.strata.vectors.directory / "documents" / "catalog.sqlite3"
    whole = catalog.read_bytes()
    memory.strata.vectors.close()
    catalog.write_bytes(b"another program's file" * 100)
    knowledge.remove(put.document.id)
    assert any("vectors of removed documents" in problem.reason for problem in memory.problems)
    assert [each.name for each in knowledge.documents()] == ["narwhal.md"]
    memory.strata.vectors.close()
    catalog.write_bytes(whole)
    embedded(memory)
    assert len(vectors(memory, "sea")) == 1


def test_without_vectors_nothing_is_made_by_removing(data: Path) -> None:
    """Where nothing was embedded there is no directory for it."""
    with Stratalog(data) as memory, knowledge_of(memory) as knowledge:
        put = knowledge.put("sea", "walrus.md", WALRUS)
        knowledge.remove(put.document.id)
        knowledge.scrub()
        assert not memory.strata.vectors.directory.exists()
