"""The order of candidates: rows in, numbers out. A score is the sum of a few parts, each shown with its hit.

    words     idf-weighted share of the question's words that stand in the document, near it or in its date
    session   the same share, for all that was read of the conversation around it
    answer    the document follows a question that has the question's words
    speaker   the question names who said it
    asks      it asks itself, so it seldom answers (negative)
    length    many words say more than "Thanks!"; what tools were told and gave has none of it
    time      it was said in a time that the question speaks of, or soon after
    meaning   its likeness to the question by their vectors, and that of its neighbours, among the candidates
    rerank    what a model of pairs made of it, less the other parts

A word counts by how near it stands: fully in the document, by half one document away, by a quarter two away.
Documents are neighbours when they are of one talk and their numbers are. Everything is computed from rows
that are kept document by document, so an index grows without being made anew.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from stratalog.recall.terms import is_spaceless

# Each was varied alone on conversations 1-7 of LoCoMo. The optima are flat: half or twice the value costs at
# most .01 of recall at 10, so the values are round.
REACH: Final = (0.5, 0.25)  # what a word counts one and two documents away
K1: Final = 1.0  # a word that stands once has half of what it can have: counts matter little
B: Final = 0.5  # half of what BM25 could take off for length
SESSION: Final = 0.15
ANSWER: Final = 0.15
SPEAKER: Final = 0.3
ASKS: Final = -0.05
LENGTH: Final = 0.2
HALF_LENGTH: Final = 15  # words of which a turn has half of the bonus; near the mean of a chat
MEANING: Final = 0.08  # a standard deviation of likeness among the candidates; .05 to .1 are alike
# These two have no data behind them. A listing of tools has a word many times and is 100 times as long as a
# turn: unbounded it would be found for nothing, or for the number of times alone.
LONG: Final = 10  # mean lengths, beyond which a document is not held to be longer, and has a word once
LENT: Final = REACH[0]  # what recall had put there counts as a neighbour's words do, a tool's at most so much
TIME: Final = 0.1  # neutral on LoCoMo's absolute dates, .2 costs; a question without a time has none of it
TOLD_MS: Final = (
    7 * 86_400_000
)  # what happened is told later: so much, or as long as it took, if that is less

_STEPS: Final = tuple((side * at, weight) for at, weight in enumerate(REACH, 1) for side in (-1, 1))
_TOOLS: Final = ("tool_call", "tool_result")


class Row(NamedTuple):
    """What is ranked of a document. Neighbours have the same `talk` and consecutive `id`s."""

    id: int
    session: int
    seq: int
    role: str
    talk: int
    speaker: str  # terms, joined by spaces; "" for a nameless one
    asks: bool
    size: int  # terms that are not stop words
    injected: bool
    ts: int
    day: str  # terms, joined by spaces
    terms: str  # the same


class Asked(NamedTuple):
    """A question, understood: see `asked_of`."""

    idf: Mapping[str, float]
    total: float  # of idf
    needles: tuple[tuple[str, str], ...]  # each word, and what is counted in terms joined by spaces
    dated: frozenset[str]  # the words that may be in a date
    names: frozenset[str]
    times: tuple[tuple[int, int], ...]


Counts = Mapping[int, Mapping[str, float]]
"""Of each row by id, how much of each asked word is in it."""


def asked_of(
    idf: Mapping[str, float],
    names: Iterable[str] = (),
    times: Iterable[tuple[int, int]] = (),
    dated: Iterable[str] | None = None,
) -> Asked:
    """A question of words with their idf, the names in it, the times [start, stop) that it speaks of, and
    which of its words may be in a date, None for any."""
    needles = tuple((word, f" {word}" if by_prefix(word) else f" {word} ") for word in idf)
    total = sum(idf.values()) or 1.0
    may = frozenset(idf if dated is None else dated)
    return Asked(idf, total, needles, may, frozenset(names), tuple(times))


def idf_of(documents: int, having: float) -> float:
    """How rare a word is that stands in `having` of so many documents: above 0."""
    return math.log(1 + max(documents - having, 0) / (having + 0.5) + 0.5 / (having + 0.5))


def by_prefix(word: str) -> bool:
    """Whether a word is asked for as the beginning of terms: one character of a script without spaces."""
    return len(word) == 1 and is_spaceless(word)


def counts_of(row: Row, asked: Asked, mean_size: float) -> dict[str, float]:
    """How often each asked word stands in the row, less in a long one; one that is not there is not named."""
    text = f" {row.terms} "  # to look for a few words in it is quicker than to go through its terms
    needles = [(word, needle) for word, needle in asked.needles if needle in text]
    if not needles:
        return {}
    size = min(row.size, LONG * mean_size)
    once = (LENT if row.injected else 1.0) / (1 - B + B * (size + 1) / mean_size)
    most = LENT if row.role in _TOOLS else 1.0 if row.size > size else math.inf
    return {word: min(text.count(needle) * once, most) for word, needle in needles}


def around(row: Row, rows: Mapping[int, Row]) -> list[tuple[int, float]]:
    """The neighbours of a row that are among `rows`, as far as words reach, with what theirs count."""
    found = []
    for step, weight in _STEPS:
        near = rows.get(row.id + step)
        if near is not None and near.talk == row.talk:
            found.append((near.id, weight))
    return found


def nearness(row: Row, counts: Counts, rows: Mapping[int, Row]) -> dict[str, float]:
    """How much of each asked word there is in the row and near it."""
    near = dict(counts[row.id])
    for at, weight in around(row, rows):
        for word, count in counts[at].items():
            near[word] = near.get(word, 0.0) + weight * count
    return near


def words_share(near: Mapping[str, float], day: str, asked: Asked) -> float:
    """The idf-weighted share of the asked words that are near, each saturated; 1 for all of them once."""
    score = 0.0
    days = asked.dated.intersection(day.split(" ")) if asked.dated else asked.dated
    if days:
        near = {**near, **{word: near.get(word, 0.0) + 1 for word in sorted(days)}}
    for word, much in near.items():
        score += asked.idf[word] * much * (1 + K1) / (much + K1)
    return score / asked.total


def cover(words: Iterable[str], asked: Asked) -> float:
    """The idf-weighted share of the asked words that are among `words`."""
    return sum(asked.idf[word] for word in words) / asked.total


def talk_shares(counts: Counts, rows: Mapping[int, Row], asked: Asked) -> dict[int, float]:
    """For each talk of which there are rows, the share of the asked words that these have."""
    words: dict[int, dict[str, None]] = {}  # in their order, so that sums are the same each time
    for at, row in rows.items():
        words.setdefault(row.talk, {}).update(dict.fromkeys(counts[at]))
    return {talk: cover(found, asked) for talk, found in words.items()}


def parts_of(
    row: Row, counts: Counts, rows: Mapping[int, Row], asked: Asked, session: float
) -> dict[str, float]:
    """What each lexical part gives the row, those that give something; `session` is its talk's share."""
    before = rows.get(row.id - 1)
    follows = before is not None and before.asks and before.talk == row.talk
    parts = {
        "words": words_share(nearness(row, counts, rows), row.day, asked),
        "session": SESSION * session,
        "answer": ANSWER * cover(counts[row.id - 1], asked) if follows else 0.0,
        "speaker": _speaks(row, asked),
        "asks": ASKS * row.asks,
        "length": _length(row),
        "time": _time(row, asked),
    }
    return {name: part for name, part in parts.items() if part}


def alone(row: Row, asked: Asked, mean_size: float) -> float:
    """What the row is worth by itself, to choose those whose neighbours are looked at."""
    return words_share(counts_of(row, asked, mean_size), row.day, asked) + _speaks(row, asked) + _length(row)


def grown(pool: Iterable[int], rows: Mapping[int, Row]) -> list[int]:
    """The ids of the pool and of its neighbours, as far as words reach and rows are there, in order."""
    there = [at for at in pool if at in rows]
    return sorted({*there, *(near for at in there for near, _ in around(rows[at], rows))})


def ranked(
    pool: Collection[int],
    rows: Mapping[int, Row],
    asked: Asked,
    mean_size: float,
    likeness: Mapping[int, float] | None = None,
) -> dict[int, dict[str, float]]:
    """The parts of each row of the pool, best first: by their sum, of equal ones the earlier id.

    `rows` has the neighbours of the pool too. `likeness` are cosines of the question and the rows' own
    vectors, for those that have one.
    """
    counts = {at: counts_of(row, asked, mean_size) for at, row in rows.items()}
    shares = talk_shares(counts, rows, asked)
    found = {at: parts_of(rows[at], counts, rows, asked, shares[rows[at].talk]) for at in sorted(pool)}
    for at, value in meanings(found, rows, likeness or {}).items():
        found[at]["meaning"] = MEANING * value
    return dict(sorted(found.items(), key=lambda each: -score_of(each[1])))


def meanings(pool: Iterable[int], rows: Mapping[int, Row], likeness: Mapping[int, float]) -> dict[int, float]:
    """For each of the pool that has one, its likeness with that of its neighbours, these weighted as words
    are, in standard deviations from the mean of the pool; nothing when all are alike."""
    windows = {}
    for at in pool:
        if at in likeness:
            near = [(likeness[at], 1.0)]
            near += [(likeness[one], weight) for one, weight in around(rows[at], rows) if one in likeness]
            windows[at] = sum(value * weight for value, weight in near) / sum(weight for _, weight in near)
    mean = math.fsum(windows.values()) / max(len(windows), 1)
    spread = math.sqrt(math.fsum((value - mean) ** 2 for value in windows.values()) / max(len(windows), 1))
    return {at: (value - mean) / spread for at, value in windows.items()} if spread > 1e-6 else {}


def score_of(parts: Mapping[str, float]) -> float:
    return sum(parts.values())


def reranked(
    parts: Sequence[Mapping[str, float]], scores: Sequence[float]
) -> list[tuple[int, dict[str, float]]]:
    """The places in the order of `scores`, highest first, of equal ones the earlier; each with its parts,
    made to add up to its score by one more."""
    order = sorted(range(len(parts)), key=lambda at: -scores[at])
    return [(at, {**parts[at], "rerank": scores[at] - score_of(parts[at])}) for at in order]


def _speaks(row: Row, asked: Asked) -> float:
    return SPEAKER if asked.names and not asked.names.isdisjoint(row.speaker.split(" ")) else 0.0


def _length(row: Row) -> float:
    return LENGTH * row.size / (row.size + HALF_LENGTH) if row.role not in _TOOLS else 0.0


def _time(row: Row, asked: Asked) -> float:
    told = any(start <= row.ts < stop + min(TOLD_MS, stop - start) for start, stop in asked.times)
    return TIME if told else 0.0
