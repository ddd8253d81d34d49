"""`stratalog search` beside what was said: records, documents, what a score is made of, and by meaning."""

from __future__ import annotations

from pathlib import Path

import pytest

from recall.embeddings_server import EmbeddingsServer
from stratalog import Stratalog
from stratalog.engine.remembering import Draft, Layer, Records, Scope
from surfaces.terminals import cli, cli_json


@pytest.fixture
def three(tmp_path: Path) -> Path:
    """A data directory that knows of a boat in a turn, a record and a document."""
    data = tmp_path / "data"
    data.mkdir()
    (data / "stratalog.toml").write_text('[memory]\nuser = "ana"\n')
    with Stratalog(data) as memory, Records(memory) as records:
        with memory.session("a:cli:old").turn("My boat lies in Porto.") as turn:
            turn.reply("Noted.")
        for user, name in (("ana", "Alma"), ("bob", "Bruma")):
            text = f"The boat is called {name}."
            draft = Draft(layer=Layer.LONG, scope=Scope("user", user), key="boat", text=text)
            records.service.remember(records.caller(user=user), draft)
    page = tmp_path / "boats.md"
    page.write_text("# Boats\n\nEvery boat needs a licence.")
    assert cli("kb", "add", page, data=data).exit_code == 0
    return data


def test_one_list_of_three(three: Path) -> None:
    """Each with its kind and its parts, the first of each list before the second of any; records of the user
    whom the settings name."""
    hits = cli_json("search", "boat", "--records", "--documents", data=three)["hits"]
    assert [each["kind"] for each in hits[:3]] == ["turn", "record", "document"]
    assert hits[1]["text"] == "The boat is called Alma."
    assert "licence" in hits[2]["snippet"]
    assert all(each["parts"] for each in hits)
    assert not any("Bruma" in str(each) for each in hits)
    assert [each["kind"] for each in cli_json("search", "boat", data=three)["hits"]] == ["turn"] * len(
        cli_json("search", "boat", data=three)["hits"]
    )
    assert len(cli_json("search", "boat", "--records", "--documents", "-n", 2, data=three)["hits"]) == 2


def test_what_a_score_is_made_of(three: Path) -> None:
    """The parts stand under each hit, and add up to its score."""
    done = cli("search", "boat", "--explain", "--records", "--documents", data=three)
    assert done.stdout.count("words +") >= 3
    assert "stratalog kb show" in done.stdout
    assert "stratalog memory show" in done.stdout
    hit = cli_json("search", "boat", data=three)["hits"][0]
    assert sum(hit["parts"].values()) == pytest.approx(hit["score"])
    assert "words +" not in cli("search", "boat", data=three).stdout


def test_by_meaning_after_the_jobs_have_run(three: Path) -> None:
    """`jobs run` embeds; then a search has the part `meaning`, and with --words it has not."""
    with EmbeddingsServer() as server:
        (three / "stratalog.toml").write_text(f'[recall]\nembedder = "openai:m"\nbase_url = "{server.url}"\n')
        assert "meaning" not in cli_json("search", "boat Porto", data=three)["hits"][0]["parts"]
        done = cli("jobs", "run", data=three)
        assert "embed: done" in done.stdout, done.output
        parts = cli_json("search", "boat Porto", data=three)["hits"][0]["parts"]
        assert "meaning" in parts
        asked = len(server.requests)
        assert "meaning" not in cli_json("search", "boat Porto", "--words", data=three)["hits"][0]["parts"]
        assert len(server.requests) == asked
