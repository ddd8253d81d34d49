"""How well the index finds what MemoryBank's 200 probing questions ask for, in Chinese and in English.

The labels in data/memorybank_gold.json were made by reading the dialogues, not by searching them. The
dialogues stand outside the project (../shared/data); without them these tests are skipped. A label names the
turns that hold a part of the answer, each by its day and its place in the day, from 0. A question without
turns is one that the dialogues do not answer: its note begins with "unanswerable" and says why.
"""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from statistics import fmean

import msgspec
import pytest

from stratalog.keys import session_key
from stratalog.recall.lexical import LexicalIndex
from stratalog.types import AnyEntry, Assistant, User

DATA = Path(__file__).parents[3] / "shared" / "data" / "memorybank"
KEY = session_key("helper", "web", "1")
DEPTH = 10


class Probe(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A probing question and the turns (day, place in the day) that answer it."""

    question: str
    turns: tuple[tuple[str, int], ...]
    note: str

    @property
    def gold(self) -> list[str]:
        return [named(day, place) for day, place in self.turns]


class Exchange(msgspec.Struct, frozen=True):
    """What was said in one turn of a dialogue."""

    query: str
    response: str


class Friend(msgspec.Struct, frozen=True):
    """One user of MemoryBank: the turns of each day."""

    history: dict[str, list[Exchange]]


class Found(msgspec.Struct, frozen=True):
    """The turns of the first `DEPTH` entries found for a question, best first, and those that answer it."""

    question: str
    gold: list[str]
    turns: list[str]

    def recall(self, depth: int) -> float:
        return len(set(self.gold).intersection(self.turns[:depth])) / len(self.gold)

    def hit(self, depth: int) -> bool:
        return self.recall(depth) > 0


def named(day: str, place: int) -> str:
    return f"{day}/{place}"


def gold_of(language: str) -> dict[str, list[Probe]]:
    """The labelled questions of each user."""
    path = Path(__file__).parent / "data" / "memorybank_gold.json"
    return msgspec.json.decode(path.read_bytes(), type=dict[str, dict[str, list[Probe]]])[language]


def friends_of(language: str) -> dict[str, Friend]:
    """The dialogues of each user; some names have spaces around them there, and none here."""
    found = msgspec.json.decode((DATA / f"memory_bank_{language}.json").read_bytes(), type=dict[str, Friend])
    return {name.strip(): friend for name, friend in found.items()}


def entries_of(friend: Friend) -> list[AnyEntry]:
    """A user's dialogues as entries, two a turn; all that was said on a day has the time it began at."""
    entries: list[AnyEntry] = []
    for day, exchanges in friend.history.items():
        ts = int(datetime.fromisoformat(day).replace(tzinfo=UTC).timestamp() * 1000)
        for place, said in enumerate(exchanges):
            turn, seq = named(day, place), len(entries) + 1
            entries.append(User(seq=seq, id=str(seq), ts=ts, turn=turn, content=said.query))
            entries.append(Assistant(seq=seq + 1, id=str(seq + 1), ts=ts, turn=turn, content=said.response))
    return entries


def searched(path: Path, language: str) -> list[Found]:
    """What is found for every question that has an answer, each in an index of its user's dialogues alone."""
    found = []
    friends = friends_of(language)
    for at, (name, probes) in enumerate(gold_of(language).items()):
        entries = entries_of(friends[name])
        with LexicalIndex(path / f"{at}.sqlite3") as index:
            index.add(KEY, entries, upto_seq=len(entries), generation=1)
            for probe in probes:
                if probe.gold:
                    hits = index.search(probe.question, limit=DEPTH)
                    found.append(Found(probe.question, probe.gold, [hit.turn for hit in hits]))
    return found


@pytest.mark.skipif(not DATA.is_dir(), reason=f"MemoryBank is not at {DATA}")
@pytest.mark.parametrize(
    ("language", "hit", "recall"),
    [("cn", 0.94, 0.91), ("en", 0.91, 0.90)],  # docs/recipes.md has the figures
)
def test_first_five(tmp_path: Path, language: str, hit: float, recall: float) -> None:
    """For most questions one of the first five entries is of a turn that answers them."""
    found = searched(tmp_path, language)
    hits, recalls = fmean(one.hit(5) for one in found), fmean(one.recall(5) for one in found)
    print(f"{language}: hit@5 {hits:.3f}, recall@5 {recalls:.3f} of {len(found)} questions")
    assert hits >= hit
    assert recalls >= recall


@pytest.mark.skipif(not DATA.is_dir(), reason=f"MemoryBank is not at {DATA}")
@pytest.mark.parametrize("language", ["cn", "en"])
def test_labels_are_of_the_data(language: str) -> None:
    """The questions are those of MemoryBank, and every labelled turn is one of the asked user's dialogues."""
    lines = (DATA / f"probing_questions_{language}.jsonl").read_bytes().splitlines()
    asked = [msgspec.json.decode(line, type=dict[str, list[str]]) for line in lines if line.strip()]
    gold = gold_of(language)
    assert {name: [probe.question for probe in probes] for name, probes in gold.items()} == {
        name: questions for one in asked for name, questions in one.items()
    }
    friends = friends_of(language)
    for name, probes in gold.items():
        turns = {entry.turn for entry in entries_of(friends[name])}
        assert [turn for probe in probes for turn in probe.gold if turn not in turns] == []


@pytest.mark.parametrize("language", ["cn", "en"])
def test_labels_are_whole(language: str) -> None:
    """There are 100 questions, each with turns that differ or with the reason why there are none."""
    probes = [probe for of_one in gold_of(language).values() for probe in of_one]
    assert len(probes) == 100
    for probe in probes:
        assert bool(probe.turns) != probe.note.startswith("unanswerable: "), probe.question
        assert len(set(probe.turns)) == len(probe.turns), probe.question
