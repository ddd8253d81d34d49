"""What a search finds, with what its scores are made of."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recall.embeddings_server import EmbeddingsServer
from stratalog import Stratalog
from stratalog.engine.embedding import embed
from stratalog.engine.knowing import knowledge_of
from stratalog.engine.recalling import fused
from stratalog.engine.remembering import ADMIN, Draft, Layer, Records, Scope
from stratalog.engine.searching import documents_found, ranked, records_found, turns_found


@given(st.lists(st.lists(st.integers(0, 9), unique=True, max_size=8), max_size=3))
def test_parts_add_up_and_the_order_is_that_of_fusion(lists: list[list[int]]) -> None:
    """Each item is there once, with a part of every list that has it, in the order of `fused`."""
    named = {f"list {number}": items for number, items in enumerate(lists)}
    found = ranked(named, key=lambda each: each)
    assert [item for item, _, _ in found] == fused(*lists, key=lambda each: each)
    for item, score, parts in found:
        assert set(parts) == {name for name, items in named.items() if item in items}
        assert sum(parts.values()) == pytest.approx(score)


def _remember(records: Records, user: str, text: str, layer: Layer = Layer.LONG) -> None:
    draft = Draft(layer=layer, scope=Scope("user", user), key=text, text=text)
    records.service.remember(records.caller(user=user), draft)


def test_meaning_is_a_part(tmp_path: Path) -> None:
    """With an embedder records and passages are found by words and by meaning, and each says by which; never
    somebody else's, another layer's, or by meaning where words are asked for alone."""
    with EmbeddingsServer() as server:
        (tmp_path / "stratalog.toml").write_text(
            f'[recall]\nembedder = "openai:m"\nbase_url = "{server.url}"\n'
        )
        with Stratalog(tmp_path) as memory, Records(memory) as records:
            for user in ("ana", "ben"):
                _remember(records, user, f"{user} owns a boat")
                _remember(records, user, f"{user} has a cat", Layer.MID)
            with knowledge_of(memory) as knowledge:
                knowledge.put("default", "boats.md", b"# Boats\n\nEvery boat needs a licence.")
                knowledge.put("other", "cats.md", b"# Cats\n\nEvery cat needs a basket.")
            assert not embed(memory, records, charge=lambda texts: None).left
            ana = records.caller(user="ana")
            told = records_found(records, ana, "boat")
            assert told.found[0].record.text == "ana owns a boat"
            assert set(told.found[0].parts) == {"words", "meaning"}
            assert {each.record.scope.id for each in told.found} == {"ana"}
            assert records_found(records, ana, "boat", limit=1).more
            narrowed = records_found(records, ana, "boat", layers=(Layer.MID,)).found
            assert [each.record.text for each in narrowed] == ["ana has a cat"]
            alone = records_found(records, ana, "boat", meaning=False).found
            assert [set(each.parts) for each in alone] == [{"words"}]
            boss = records.caller(roles=[ADMIN])
            of_all = records_found(records, boss, "boat", everyone=True).found
            assert {each.record.scope.id for each in of_all[:2]} == {"ana", "ben"}
            assert set(of_all[0].parts) == {"words", "meaning"}
            assert records_found(records, boss, "boat").found == []
            test = records.caller(roles=[ADMIN], environment="test")
            assert records_found(records, test, "boat", everyone=True).found == []
            passages = documents_found(memory, "boat licence")
            assert set(passages[0].parts) == {"words", "meaning"}
            others = documents_found(memory, "boat licence", collections=["other"])
            assert {each.passage.document.collection for each in others} <= {"other"}


def test_turns_are_of_sessions_in_sight(tmp_path: Path) -> None:
    """By what is said of a session; where none is in sight nothing is found."""
    with Stratalog(tmp_path) as memory:
        for chat in ("one", "two"):
            session = memory.session(f"a:cli:{chat}")
            session.set_metadata(users=[chat])
            with session.turn("a boat") as turn:
                turn.reply("Noted.")
        found = turns_found(memory, "boat", lambda told: told.get("users") == ["two"])
        assert {each.hit.session.chat for each in found} == {"two"}
        assert turns_found(memory, "boat", lambda told: False) == []
        assert {each.hit.session.chat for each in turns_found(memory, "boat", user="one")} == {"one"}
        assert turns_found(memory, "boat", lambda told: True, user="") == []
        assert {each.hit.session.chat for each in turns_found(memory, "boat")} == {"one", "two"}
