"""How well chunks are found, on questions whose passages are known; beside the index of conversations.

The data stand outside the project (../shared/data) and may not be copied into it; without them these tests
are skipped.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from stratalog.recall.knowledge import Knowledge

DATA = Path(__file__).parents[3] / "shared" / "data" / "cjk"


def recall_at_10(path: Path, articles: list[Any]) -> float:
    """The share of questions whose passage is among the first ten, each passage a document."""
    asked: list[tuple[str, str]] = []
    with Knowledge(path) as knowledge:
        for at, article in enumerate(articles):
            for number, paragraph in enumerate(article["paragraphs"]):
                name = f"{at}/{number}.txt"
                knowledge.put("passages", name, paragraph["context"].encode())
                asked += [(each["question"], name) for each in paragraph["qas"]]
        right = 0
        for question, name in asked:
            found = [each.document.name for each in knowledge.search(question, limit=30)]
            right += name in list(dict.fromkeys(found))[:10]
    return right / len(asked)


@pytest.mark.long
@pytest.mark.skipif(not DATA.is_dir(), reason=f"the data sets are not at {DATA}")
def test_chinese_passages(tmp_path: Path) -> None:
    """Simplified Chinese: nearly every question finds its passage among the first ten."""
    articles = json.loads((DATA / "cmrc2018_trial.json").read_text("utf-8"))["data"]
    assert recall_at_10(tmp_path / "knowledge.sqlite3", articles) >= 0.99


@pytest.mark.long
@pytest.mark.skipif(not DATA.is_dir(), reason=f"the data sets are not at {DATA}")
def test_traditional_chinese_passages(tmp_path: Path) -> None:
    """Traditional Chinese: the same, on the first 40 articles."""
    articles = json.loads((DATA / "DRCD_dev.json").read_text("utf-8"))["data"][:40]
    assert recall_at_10(tmp_path / "knowledge.sqlite3", articles) >= 0.99
