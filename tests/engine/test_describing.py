"""engine/describing.py and knowing.py: sentences of a model for chunks, at a server over real HTTP."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from models.asking import model_at
from stratalog import Stratalog
from stratalog.engine.describing import describer
from stratalog.engine.knowing import knowledge_of
from stratalog.engine.remembering import Records
from stratalog.errors import InvalidConfig
from stratalog.models.configured import Configured, model_from
from stratalog.testing.model_server import ModelServer, Refuse
from stratalog.testing.scripted import Reply
from stratalog.types import Usage

BODY = "The quick brown fox jumps over the lazy dog. " * 25
TEXT = f"# Handbook\n\n## Leave\n\n{BODY}\n\n## Travel\n\n{BODY}Trains.\n"
SAID = Reply(text="What the handbook says.\n", usage=Usage(input=70, output=5))


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Stratalog]:
    with Stratalog(tmp_path) as opened:
        yield opened


def test_a_model_situates_each_chunk_within_the_budget(memory: Stratalog) -> None:
    """It is sent the passage within the document, and each call is charged to the tenant's day."""
    with ModelServer([SAID, SAID]) as server, Records(memory) as records, knowledge_of(memory) as knowledge:
        ask = describer(records, Configured(model_at(server, "openai_chat"), "m"))
        put = knowledge.put("c", "a.md", TEXT.encode(), describe=ask)
        assert put.notes == ()
        assert [each.sentence for each in knowledge.chunks(put.document.id)] == [
            "What the handbook says."
        ] * 2
        asked = server.requests[1].raw.decode()
        assert "<passage>" in asked
        assert "Trains." in asked
        assert records.jobs.today().calls == 2
        assert records.jobs.today().tokens == 150


def test_what_the_budget_stops_is_told_and_done_later(tmp_path: Path) -> None:
    """The document is added all the same, and no further call is tried."""
    (tmp_path / "stratalog.toml").write_text("[background]\ncalls_per_day = 1\n")
    with (
        ModelServer([SAID, SAID]) as server,
        Stratalog(tmp_path) as memory,
        Records(memory) as records,
        knowledge_of(memory) as knowledge,
    ):
        ask = describer(records, Configured(model_at(server, "openai_chat"), "m"))
        put = knowledge.put("c", "a.md", TEXT.encode(), describe=ask)
        assert put.added == 2
        assert [each.sentence != "" for each in knowledge.chunks(put.document.id)] == [True, False]
        (note,) = put.notes
        assert note.startswith("no sentence for 1 of the chunks: the tenant's budget for the day is spent")
        assert len(server.requests) == 1


def test_a_model_that_refuses_costs_no_document(memory: Stratalog) -> None:
    """What it refused is told."""
    refusal = Refuse(400)
    with (
        ModelServer([refusal, SAID]) as server,
        Records(memory) as records,
        knowledge_of(memory) as knowledge,
    ):
        ask = describer(records, Configured(model_at(server, "openai_chat"), "m"))
        put = knowledge.put("c", "a.md", TEXT.encode(), describe=ask)
        assert [each.sentence for each in knowledge.chunks(put.document.id)] == [
            "",
            "What the handbook says.",
        ]
        assert len(put.notes) == 1


def test_the_extractive_model_writes_none(memory: Stratalog) -> None:
    """It is refused at once."""
    with Records(memory) as records, pytest.raises(InvalidConfig):
        describer(records, model_from("extractive"))


def test_tenants_have_nothing_in_common(tmp_path: Path) -> None:
    """What one has is not found by another."""
    with Stratalog(tmp_path, tenant="one") as one, knowledge_of(one) as knowledge:
        knowledge.put("c", "a.md", b"xylophone")
    with Stratalog(tmp_path, tenant="two") as two, knowledge_of(two) as knowledge:
        assert knowledge.search("xylophone") == []
        assert knowledge.collections() == []
