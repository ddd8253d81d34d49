"""How well a search finds, on questions whose answers are known: data sets read, and what is counted.

Read are LoCoMo (dated conversations; a question names the turns that answer it) and the form of SQuAD, which
CMRC 2018 and DRCD have (a question's passage answers it). Counted are, at k: `recall`, the share of what
answers that is among the first k; `hit`, whether any is; `ndcg`, the same by how far up it stands, 1 where
all of it comes first.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec

from stratalog.errors import InvalidInput

KS: Final = (5, 10, 20)
TUNED: Final = 7  # conversations of LoCoMo on which weights are chosen; the others are reported
_WHOLE: Final = 10  # conversations that LoCoMo has
_DAY_MS: Final = 86_400_000
_CATEGORIES: Final = {1: "multi-hop", 2: "temporal", 3: "open-domain", 4: "single-hop", 5: "adversarial"}
_UNANSWERABLE: Final = "adversarial"
ALL: Final = "all"
ANSWERABLE: Final = "all but adversarial"
_EVIDENCE: Final = re.compile(r"D:?(\d+):0*(\d+)")
_SESSION: Final = re.compile(r"session_(\d+)")


class Said(NamedTuple):
    """A turn or a passage; `ts` is milliseconds UTC, `first` whether the speaker is the first of the two."""

    id: str
    session: str
    speaker: str
    text: str
    ts: int
    first: bool = True


class Asked(NamedTuple):
    """A question, its category, and the ids of what answers it."""

    text: str
    category: str
    answers: frozenset[str]


class Talk(NamedTuple):
    """What is searched at once, and what is asked of it. `split` is `tuned`, `reported` or ""."""

    name: str
    said: tuple[Said, ...]
    asked: tuple[Asked, ...]
    split: str = ""


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """The means over the questions of one kind; `level` is `turn` or `session`."""

    split: str
    level: str
    category: str
    questions: int
    recall: dict[int, float]
    hit: dict[int, float]
    ndcg: dict[int, float]


def locomo(data: bytes) -> list[Talk]:
    """The conversations of LoCoMo's JSON. A question without a turn that answers it is left out. Raises
    `InvalidInput` for what is not in its form."""
    samples = _json(data)
    try:
        talks = [_conversation(sample) for sample in samples]
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise InvalidInput("this is not in the form of LoCoMo", reason=repr(error)) from error
    if len(talks) != _WHOLE:
        return talks
    splits = ["tuned" if at < TUNED else "reported" for at in range(len(talks))]
    return [talk._replace(split=split) for talk, split in zip(talks, splits, strict=True)]


def squad(data: bytes) -> list[Talk]:
    """All passages of a file in the form of SQuAD, as one talk in which each stands alone. Raises
    `InvalidInput` for what is not in its form."""
    said: list[Said] = []
    asked: list[Asked] = []
    whole = _json(data)
    try:
        for at, article in enumerate(whole["data"]):
            for place, passage in enumerate(article["paragraphs"]):
                id = f"{at}:{place}"
                # A day apart, so that none is another's neighbour.
                said.append(Said(id, str(at), "", passage["context"], (len(said) + 1) * _DAY_MS))
                asked += [Asked(each["question"], ALL, frozenset((id,))) for each in passage["qas"]]
    except (KeyError, TypeError, AttributeError) as error:
        raise InvalidInput("this is not in the form of SQuAD", reason=repr(error)) from error
    return [Talk("passages", tuple(said), tuple(asked))]


def recall_at(ranked: Sequence[str], answers: Collection[str], k: int) -> float:
    """The share of the answers that is among the first `k`."""
    return len(set(ranked[:k]).intersection(answers)) / len(answers)


def ndcg_at(ranked: Sequence[str], answers: Collection[str], k: int) -> float:
    """The gain of the answers among the first `k`, each less the further down, of what would be best."""
    gains = [1 / math.log2(place + 2) for place in range(k)]
    got = sum(gain for gain, id in zip(gains, ranked, strict=False) if id in answers)
    return got / sum(gains[: len(answers)])


_Seen: TypeAlias = tuple[Sequence[str], Collection[str]]
"""What was found, and what answers."""


class Sheet:
    """What the questions came to so far."""

    def __init__(self) -> None:
        self._seen: dict[tuple[str, str, str], list[_Seen]] = defaultdict(list)

    def add(self, talk: Talk, question: Asked, ranked: Sequence[str]) -> None:
        """A question, and the ids of the turns that were found for it, the best first."""
        session_of = {each.id: each.session for each in talk.said}
        sessions = list(dict.fromkeys(session_of[id] for id in ranked))
        wanted = frozenset(session_of[id] for id in question.answers)
        answerable = question.category not in (ALL, _UNANSWERABLE)
        for kind in (question.category, *((ANSWERABLE,) if answerable else ())):
            self._seen[talk.split, "turn", kind].append((tuple(ranked), question.answers))
            self._seen[talk.split, "session", kind].append((sessions, wanted))

    def rows(self, ks: Iterable[int] = KS) -> list[Row]:
        """A row for each split, level and category, in the order in which they are read."""
        ks = tuple(ks)
        order = [*_CATEGORIES.values(), ANSWERABLE, ALL]
        kinds = sorted(
            self._seen, key=lambda kind: (kind[0] != "tuned", kind[1] != "turn", order.index(kind[2]))
        )
        return [_row(*kind, self._seen[kind], ks) for kind in kinds]


def _row(split: str, level: str, category: str, seen: Sequence[_Seen], ks: tuple[int, ...]) -> Row:
    recalls = {k: [recall_at(ranked, answers, k) for ranked, answers in seen] for k in ks}
    gains = {k: [ndcg_at(ranked, answers, k) for ranked, answers in seen] for k in ks}
    return Row(
        split=split,
        level=level,
        category=category,
        questions=len(seen),
        recall={k: _mean(values) for k, values in recalls.items()},
        hit={k: _mean([float(value > 0) for value in values]) for k, values in recalls.items()},
        ndcg={k: _mean(values) for k, values in gains.items()},
    )


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)


def _conversation(sample: Mapping[str, Any]) -> Talk:
    whole = sample["conversation"]
    said: list[Said] = []
    numbers = sorted(int(found[1]) for name in whole if (found := _SESSION.fullmatch(name)))
    for number in numbers:
        begun = _moment(whole.get(f"session_{number}_date_time", ""))
        for place, turn in enumerate(whole[f"session_{number}"]):
            shared = turn.get("blip_caption")
            text = turn["text"] + (f" [shares {shared}]" if shared else "")
            first = turn["speaker"] == whole.get("speaker_a", turn["speaker"])
            ts = begun + place * 1000 if begun else 0
            said.append(Said(turn["dia_id"], f"D{number}", turn["speaker"], text, ts, first))
    known = {each.id for each in said}
    asked = []
    for question in sample["qa"]:
        told = [found for each in question.get("evidence") or [] for found in _EVIDENCE.findall(each)]
        answers = frozenset(f"D{int(session)}:{int(turn)}" for session, turn in told) & known
        if answers:
            asked.append(Asked(question["question"], _CATEGORIES[question["category"]], answers))
    return Talk(sample["sample_id"], tuple(said), tuple(asked))


def _moment(text: str) -> int:
    """Such as "1:56 pm on 8 May, 2023", in milliseconds; 0 where there is none."""
    if not text:
        return 0
    return int(datetime.strptime(text, "%I:%M %p on %d %B, %Y").replace(tzinfo=UTC).timestamp() * 1000)


def _json(data: bytes) -> Any:
    try:
        return msgspec.json.decode(data)
    except msgspec.DecodeError as error:
        raise InvalidInput("this is not JSON", reason=str(error)) from error
