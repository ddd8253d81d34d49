"""The order of candidates: rows in, numbers out. A score is the sum of a few parts, each shown with its hit.

    words     idf-weighted share of the question's words that stand in the document, near it or in its date
    session   the same share, for all that was read of the conversation around it
    answer    the document follows a question that has the question's words
    speaker   the question names who said it
    asks      it asks itself, so it seldom answers (negative)
    length    many words say more than "Thanks!"; what tools were told and gave has none of it
    time      it was said in a time that the question speaks of, or soon after
    recency   it was said not long ago, where that is asked for
    meaning   its likeness to the question by their vectors, and that of its neighbours, among the candidates
    rerank    what a model of pairs made of it, less the other parts

A word counts by how near it stands: fully in the document, by half one document away, by a quarter two away.
Documents are neighbours when they are of one talk and their numbers are. Everything is computed from rows
that are kept document by document, so an index grows without being made anew.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias, TypeVar

from stratalog.recall.documents import day_of
from stratalog.recall.terms import is_spaceless

# Each was varied alone on conversations 1-7 of LoCoMo. The optima are flat: half or twice the value costs at
# most .01 of recall at 10, so the values are round.
REACH: Final = (0.5, 0.25)  # what a word counts one and two documents away
NEAR: Final = 0.25  # and what part of that in choosing candidates, whose neighbours are not read yet
DATES: Final = 0.25  # what a term of a date counts in a question, which has three of a day and its words too
K1: Final = 1.0  # a word that stands once has half of what it can have: counts matter little
B: Final = 0.5  # half of what BM25 could take off for length
SESSION: Final = 0.15
ANSWER: Final = 0.15
SPEAKER: Final = 0.3
ASKS: Final = -0.05
LENGTH: Final = 0.2
HALF_LENGTH: Final = 15  # words of which a turn has half of the bonus; near the mean of a chat
MEANING: Final = 0.07  # a standard deviation of likeness among the candidates; above it rows get worse
# These two have no data behind them. A listing of tools has a word many times and is 100 times as long as a
# turn: unbounded it would be found for nothing, or for the number of times alone.
LONG: Final = 10  # mean lengths, beyond which a document is not held to be longer, and has a word once
LENT: Final = REACH[0]  # what recall had put there counts as a neighbour's words do, a tool's at most so much
TIME: Final = 0.1  # neutral on LoCoMo's absolute dates, .2 costs; a question without a time has none of it
RECENCY: Final = 0.1  # only for who asks for it: on LoCoMo .02 to .1 give nothing and take up to .003
TOLD_MS: Final = (
    7 * 86_400_000
)  # what happened is told later: so much, or as long as it took, if that is less

MOST_WORDS: Final = 64  # of a question, those that are asked for
MOST_READ: Final = 512  # of a question, of which these are chosen
ENDS: Final = 16  # of these, those at each end; no document is to have more words than so many
BETWEEN: Final = 0.5  # what a word between counts

T = TypeVar("T")
_STEPS: Final = tuple((side * at, weight) for at, weight in enumerate(REACH, 1) for side in (-1, 1))
_NEAR_STEPS: Final = tuple((step, NEAR * weight) for step, weight in _STEPS)
_TOOLS: Final = ("tool_call", "tool_result")
PARTS: Final = ("words", "session", "answer", "speaker", "asks", "length", "time", "recency", "meaning")
_NONE: Final[Mapping[str, float]] = {}


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
    terms: str  # joined by spaces, with one before and one after


class Brief(NamedTuple):
    """Of a document what is enough to choose candidates by; see `Row`."""

    id: int
    size: int
    role: str
    injected: bool
    speaker: str
    session: int
    entry: str  # the entry's id, which its copies in forks have too
    start: int  # of the passage in it


class Recent(NamedTuple):
    """That what was said later is preferred: by half as much each `half_ms` before `now`, in milliseconds."""

    now: int
    half_ms: float


class Asked(NamedTuple):
    """A question, understood: see `asked_of`."""

    idf: Mapping[str, float]
    total: float  # of idf
    most: Mapping[str, float]  # what each word comes to, however often it stands
    needles: tuple[tuple[str, str], ...]  # each word, and what is counted in terms joined by spaces
    dated: frozenset[str]  # the words that may be in a date
    names: frozenset[str]
    times: tuple[tuple[int, int], ...]
    recent: Recent | None


Counts: TypeAlias = Mapping[int, Mapping[str, float]]
"""Of each row by id that has any of the asked words, how much of each is in it."""

Parts: TypeAlias = tuple[float, ...]
"""What each part gives a row, in the order of `PARTS`."""


def asked_of(
    idf: Mapping[str, float],
    names: Iterable[str] = (),
    times: Iterable[tuple[int, int]] = (),
    dated: Iterable[str] | None = None,
    recent: Recent | None = None,
    expected: int = MOST_WORDS,
) -> Asked:
    """A question of words with their idf, the names in it, the times [start, stop) that it speaks of, which
    of its words may be in a date, None for any, whether what is recent is preferred, and how many of its
    words a document that has all that is asked for has."""
    needles = tuple((word, f" {word}" if by_prefix(word) else f" {word} ") for word in idf)
    every = idf.values() if len(idf) <= expected else sorted(idf.values())[-expected:]
    total = sum(every) or 1.0
    may = frozenset(idf if dated is None else dated)
    most = {word: weight * (1 + K1) / total for word, weight in idf.items()}
    return Asked(idf, total, most, needles, may, frozenset(names), tuple(times), recent)


def idf_of(documents: int, having: float) -> float:
    """How rare a word is that stands in `having` of so many documents: above 0."""
    return math.log(1 + max(documents - having, 0) / (having + 0.5) + 0.5 / (having + 0.5))


def by_prefix(word: str) -> bool:
    """Whether a word is asked for as the beginning of terms: one character of a script without spaces."""
    return len(word) == 1 and is_spaceless(word)


def counted(rows: Iterable[Row], asked: Asked, mean_size: float) -> dict[int, dict[str, float]]:
    """How often each asked word stands in the rows, less in a long one: of each row that has any, those that
    it has."""
    found: dict[int, dict[str, float]] = {}
    for row in rows:
        text = row.terms  # to look for a few words in it is quicker than to go through its terms
        counts = None
        for word, needle in asked.needles:
            if needle in text:
                if counts is None:
                    counts = found[row.id] = {}
                    once = _once(row, mean_size)
                    most = LENT if row.role in _TOOLS else 1.0 if row.size > LONG * mean_size else math.inf
                counts[word] = min(text.count(needle) * once, most)
    return found


def around(row: Row, rows: Mapping[int, Row]) -> list[tuple[int, float]]:
    """The neighbours of a row that are among `rows`, as far as words reach, with what theirs count."""
    found = []
    for step, weight in _STEPS:
        near = rows.get(row.id + step)
        if near is not None and near.talk == row.talk:
            found.append((near.id, weight))
    return found


def nearness(counts: Counts, rows: Mapping[int, Row]) -> dict[int, dict[str, float]]:
    """How much of each asked word there is in each row and near it; a row that has none there is left out."""
    near = {at: dict(words) for at, words in counts.items()}
    for at, words in counts.items():
        talk = rows[at].talk
        for step, weight in _STEPS:
            to = rows.get(at + step)
            if to is not None and to.talk == talk:
                into = near.setdefault(to.id, {})
                for word, count in words.items():
                    into[word] = into.get(word, 0.0) + weight * count
    return near


def words_share(near: Mapping[str, float], ts: int, asked: Asked) -> float:
    """The idf-weighted share of the asked words that are near or of the day, each saturated; 1 for all of
    them once."""
    days = asked.dated.intersection(day_of(ts).split(" ")) if asked.dated else asked.dated
    if days:
        near = {**near, **{word: near.get(word, 0.0) + 1 for word in sorted(days)}}
    score = 0.0
    for word, much in near.items():
        score += asked.most[word] * much / (much + K1)
    return score


def cover(words: Iterable[str], asked: Asked) -> float:
    """The idf-weighted share of the asked words that are among `words`."""
    return sum(asked.idf[word] for word in words) / asked.total


def talk_shares(counts: Counts, rows: Mapping[int, Row], asked: Asked) -> dict[int, float]:
    """For each talk that has any of the asked words, the share of these that its rows have."""
    words: dict[int, dict[str, None]] = {}  # in their order, so that sums are the same each time
    for at in counts:
        words.setdefault(rows[at].talk, {}).update(dict.fromkeys(counts[at]))
    return {talk: cover(found, asked) for talk, found in words.items()}


def parts_of(
    row: Row, near: Mapping[str, float], asked: Asked, session: float, question: Iterable[str]
) -> Parts:
    """What each lexical part gives the row. `near` is what of the words is near it, `session` its talk's
    share of them, and `question` the words of the question that it follows, if it does."""
    return (
        words_share(near, row.ts, asked),
        SESSION * session,
        ANSWER * cover(question, asked) if question else 0.0,
        _speaks(row, asked) if asked.names else 0.0,
        ASKS if row.asks else 0.0,
        _length(row),
        _time(row, asked) if asked.times else 0.0,
        _recency(row, asked.recent) if asked.recent is not None else 0.0,
    )


def with_lent(at: int, covers: Mapping[int, float]) -> float:
    """What `covers` has for a row, and some of what it has for its neighbours."""
    get = covers.get
    return covers[at] + sum([weight * get(at + step, 0.0) for step, weight in _NEAR_STEPS])


def alone(row: Brief, covered: float, asked: Asked, mean_size: float) -> float:
    """What the row is worth before anything of it is read, to choose candidates; `covered` is the sum of the
    idf of the asked words in it, its date or near it. How often they stand there is not looked at: all of the
    row would have to be read, and no better ones would be chosen."""
    once = _once(row, mean_size)
    much = min(once, LENT) if row.role in _TOOLS else once
    share = covered / asked.total * (1 + K1) * much / (much + K1)
    return share + _length(row) + (_speaks(row, asked) if asked.names else 0.0)


def firsts(briefs: Iterable[Brief]) -> list[Brief]:
    """Of each passage one, where its first copy comes: that with the lowest number, the oldest."""
    found: dict[tuple[str, int], Brief] = {}
    for brief in briefs:
        name = brief.entry, brief.start
        known = found.get(name)
        if known is None or brief.id < known.id:
            found[name] = brief
    return list(found.values())


def spread(entries: Iterable[tuple[T, str, int]], limit: int, most: int) -> list[T]:
    """The first `limit` of them with no more than `most` of a session: of each its name, its entry's id and
    its session. An entry comes once."""
    found: list[T] = []
    seen: set[str] = set()
    of_session: Counter[int] = Counter()
    for name, entry, session in entries:
        if len(found) == limit:
            break
        if entry not in seen and of_session[session] < most:
            seen.add(entry)
            of_session[session] += 1
            found.append(name)
    return found


def telling(words: Sequence[str], having: Mapping[str, int]) -> dict[str, float]:
    """Of more than `MOST_WORDS` words so many, in their order, and what each counts: some at the start and at
    the end, for what is asked about a pasted text stands before it or after it, and of the others, which
    count less, those that the fewest documents have. `having` says how many do, of the words that any has.
    """
    if len(words) <= MOST_WORDS:
        return dict.fromkeys(words, 1.0)
    known = [word for word in words if having.get(word)]
    rest = sorted(known[ENDS:-ENDS], key=having.__getitem__)[: MOST_WORDS - 2 * ENDS]
    chosen = dict.fromkeys(rest, BETWEEN) | dict.fromkeys([*known[:ENDS], *known[-ENDS:]], 1.0)
    return {word: chosen[word] for word in known if word in chosen}


def ends(words: Sequence[str], most: int) -> list[str]:
    """At most so many of the words: the first and the last."""
    return list(words) if len(words) <= most else [*words[: most - most // 2], *words[-(most // 2) :]]


def ranked(
    pool: Iterable[int],
    rows: Mapping[int, Row],
    counts: Counts,
    asked: Asked,
    likeness: Mapping[int, float] | None = None,
) -> dict[int, Parts]:
    """The parts of each row of the pool, best first: by their sum, of equal ones the earlier id.

    `rows` has the neighbours of the pool too, `counts` are theirs. `likeness` are cosines of the question and
    the rows' own vectors, for those that have one.
    """
    shares, near = talk_shares(counts, rows, asked), nearness(counts, rows)
    found = {}
    for at in sorted(pool):
        row, before = rows[at], rows.get(at - 1)
        follows = before is not None and before.asks and before.talk == row.talk
        question = counts.get(at - 1, _NONE) if follows else _NONE
        found[at] = parts_of(row, near.get(at, _NONE), asked, shares.get(row.talk, 0.0), question)
    for at, value in meanings(found, rows, likeness or {}).items():
        found[at] = (*found[at], MEANING * value)
    return dict(sorted(found.items(), key=lambda each: -sum(each[1])))


def named(parts: Parts) -> dict[str, float]:
    """The parts by their names, those that give something."""
    return {name: part for name, part in zip(PARTS, parts, strict=False) if part}


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


def _once(row: Row | Brief, mean_size: float) -> float:
    """What a word counts that stands once in the row, among words alone."""
    size = min(row.size, LONG * mean_size)
    return (LENT if row.injected else 1.0) / (1 - B + B * (size + 1) / mean_size)


def _speaks(row: Row | Brief, asked: Asked) -> float:
    return SPEAKER if row.speaker and not asked.names.isdisjoint(row.speaker.split(" ")) else 0.0


def _length(row: Row | Brief) -> float:
    return LENGTH * row.size / (row.size + HALF_LENGTH) if row.role not in _TOOLS else 0.0


def _time(row: Row, asked: Asked) -> float:
    told = any(start <= row.ts < stop + min(TOLD_MS, stop - start) for start, stop in asked.times)
    return TIME if told else 0.0


def _recency(row: Row, recent: Recent) -> float:
    return RECENCY * math.exp2(-max(recent.now - row.ts, 0) / recent.half_ms)
