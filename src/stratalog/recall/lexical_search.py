"""One search of the lexical index, within a transaction: which documents are candidates, and the hits.

Full text names the documents that have the rarest of the words, within the filters; what is read of them, and
so what a search costs, is bounded but by how many hits are wanted. `ranking` orders them.
"""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from stratalog.keys import SessionKey, parse_key
from stratalog.recall import lexical_tables as tables
from stratalog.recall.contract import Hit, Meaning
from stratalog.recall.documents import Document, day_of, document_id, talk_of
from stratalog.recall.numbers import is_date
from stratalog.recall.ranking import (
    DATES,
    ENDS,
    MOST_WORDS,
    REACH,
    Brief,
    Parts,
    Recent,
    Row,
    alone,
    around,
    asked_of,
    by_prefix,
    counted,
    firsts,
    idf_of,
    ranked,
    spread,
    telling,
    with_lent,
)
from stratalog.recall.ranking import named as named_parts
from stratalog.recall.scopes import named, role_terms, session_term, time_terms

BUDGET: Final = 1500  # documents that have one of the words and are looked at, rarest words first
WIDE: Final = 128  # of these, those whose neighbours' words, length and speaker are looked at
POOL: Final = 38  # of these, the candidates, which are read with their neighbours
_WIDE_FOR: Final = 10  # at least so many of them for each hit
_POOL_FOR: Final = 4  # and so many candidates
_NAMED_FOR: Final = 4  # of what was ranked first, so many for each hit are enough mostly
NEAREST: Final = 16  # candidates by meaning, for a question that shares no word with its answer
_OTHERS: Final = 4  # of so many hits one is of another session than the others, where there is one
_ROUNDS: Final = 4  # in which more are looked for, when few sessions have all that was found
_MOST_WITHOUT: Final = 64  # sessions that these rounds leave out
_FEW: Final = 16  # sessions that are asked for by their terms; through those of more, it takes longer
_MOST: Final = 0.25  # of all documents, beyond which the terms of a time are not asked for


class Filters(NamedTuple):
    """What a hit must be; None allows all."""

    agent: str | None
    channel: str | None
    session: SessionKey | None
    roles: frozenset[str] | None
    after: int | None
    before: int | None
    sessions: frozenset[SessionKey] | None = None

    def of_row(self, row: Row) -> bool:
        """Whether the document is one that is wanted, of whatever session."""
        return (
            (self.roles is None or row.role in self.roles)
            and (self.after is None or row.ts >= self.after)
            and (self.before is None or row.ts < self.before)
        )

    def of_session(self, key: SessionKey) -> bool:
        """Whether the session is one that is wanted."""
        return (
            (self.agent is None or self.agent == key.agent)
            and (self.channel is None or self.channel == key.channel)
            and (self.session is None or self.session == key)
            and (self.sessions is None or key in self.sessions)
        )


class Search:
    """One question to the tables, and the candidates that have its words."""

    def __init__(
        self,
        db: sqlite3.Connection,
        words: Sequence[str],
        times: tuple[tuple[int, int], ...],
        filters: Filters,
        recent: Recent | None = None,
    ) -> None:
        self._db = db
        self._filters = filters
        among = [[filters.session]] if filters.session is not None else []
        among += [list(filters.sessions)] if filters.sessions is not None else []
        self._sids = [tables.ids_of(db, keys) for keys in among]
        self.totals = tables.totals(db)
        known = tables.having(db, [*words, *(tables.NAME + word for word in words)])
        said = {word: sum(count) for word, count in known.items()}
        long = len(words) > MOST_WORDS
        weights = telling(words, said | {word: 1 for word in words if by_prefix(word)})
        self._words = words = list(weights)
        # A speaker's name says who, not what: it is no word, unless there is no other.
        names = frozenset(word for word in words if tables.NAME + word in known)
        rest = [word for word in words if word not in names] or words
        counts = {
            word: tables.beginning(db, word) if by_prefix(word) else known.get(word, tables.Having(0, 0))
            for word in rest
        }
        every = self.totals.docs
        idf = {
            word: idf_of(every, min(count.said, every)) * (DATES if is_date(word) else 1.0) * weights[word]
            for word, count in counts.items()
        }
        dated = (word for word, count in counts.items() if count.dated)
        self.asked = asked_of(idf, names, times, dated, recent, ENDS if long else MOST_WORDS)
        self._rows_with = {word: min(sum(count), every) for word, count in counts.items() if sum(count)}

    def hits(self, limit: int, per_session: int | None, meaning: Meaning | None) -> list[Hit]:
        """The best entries; see `LexicalIndex.search`."""
        db = self._db
        alike = any(len(sids) <= 1 for sids in self._sids)  # all hits are of one session anyway
        fair = limit if alike else most_of(limit)
        most = fair if per_session is None else per_session
        pool = self.by_words(limit, most)
        if meaning is not None:
            pool |= _by_meaning(db, meaning)
        # What lends words to the neighbours from further away is not read: it costs as much again, and finds
        # no more.
        rows = tables.with_near(db, pool, len(REACH))
        keys = tables.keys_of(db, {row.session for row in rows.values()})
        wanted = {sid for sid, key in keys.items() if self._filters.of_session(key)}
        allowed = [at for at, row in rows.items() if row.session in wanted and self._filters.of_row(row)]
        likeness = _likeness(db, meaning, rows, keys) if meaning is not None and allowed else {}
        counts = counted(rows.values(), self.asked, self.totals.mean_size)
        found = ranked(allowed, rows, counts, self.asked, likeness)
        told = self._with_entries(list(found)[: _NAMED_FOR * limit], rows)
        if len(spread(told, limit, most)) < limit:
            told = self._with_entries(list(found), rows)
        best = _told(told, limit, per_session)
        documents = tables.documents_at(db, best)
        return [
            _hit(documents[at], keys[rows[at].session], found[at], _terms(self._words, at, rows))
            for at in best
        ]

    def _with_entries(self, found: Sequence[int], rows: Mapping[int, Row]) -> list[tuple[int, str, int]]:
        """The documents with their entries' ids and their sessions."""
        named = tables.named_at(self._db, found)
        return [(at, named[at][0], rows[at].session) for at in found]

    def by_words(self, limit: int, most: int) -> set[int]:
        """The numbers of the documents that are worth most by themselves, and of so many that there are
        `limit` entries of which no session has more than `most`, if there are.

        What may be a hit because of its neighbours is not looked for, but where only its role keeps these
        out: the answer is found by its question.
        """
        scope = self._scope()
        pool = self._chosen(scope, limit, most)
        if self._filters.roles is not None:
            pool |= self._chosen([*scope, role_terms(self._filters.roles)], limit, most)
        return pool

    def _chosen(self, scope: Sequence[Sequence[str]], limit: int, most: int) -> set[int]:
        covers, whole = self._covers(scope, max(BUDGET, limit))
        wide = self._wide(covers, limit, most)
        without: set[int] = set()
        for _ in range(_ROUNDS):
            fair = _fair(wide, limit, most)
            if whole or len(fair) == limit:
                break
            # What is left of the budget's documents is of sessions that have enough, or copies.
            having = Counter(row.session for row in fair)
            seen = {row.session for row in wide}.union(tables.sessions_of(self._db, covers).values())
            full = {sid for sid in seen if having[sid] >= most or not having[sid]} - without
            if not full:
                break
            without |= full
            more, whole = self._covers(scope, max(BUDGET, limit), sorted(without)[:_MOST_WITHOUT])
            covers |= more
            wide = firsts([*wide, *self._wide(more, limit, most)])
        covered = {row.id: with_lent(row.id, covers) for row in wide}
        worth = {row.id: alone(row, covered[row.id], self.asked, self.totals.mean_size) for row in wide}
        # Of equal ones the newest: each sort keeps the order in which they were found.
        wide.sort(key=lambda row: worth[row.id], reverse=True)
        return {row.id for row in _cut(wide, max(POOL, _POOL_FOR * limit), limit, most)}

    def _wide(self, covers: Mapping[int, float], limit: int, most: int) -> list[Brief]:
        """The documents that have most of the words, as many as are needed, each once."""
        order = sorted(covers, key=covers.__getitem__, reverse=True)
        enough = max(WIDE, _WIDE_FOR * limit)
        read = tables.briefs(self._db, order[:enough])
        found, left = firsts(read), order[enough:]
        if left and len(_fair(found, limit, most)) < limit:
            # Copies take the places, or few sessions have them all: what those have more of is not read.
            having = Counter(row.session for row in _fair(found, limit, most))
            of_talk = tables.sessions_of(self._db, left)
            left = [at for at in left if having[of_talk[talk_of(at)]] < most]
        while left and (len(found) < enough or len(_fair(found, limit, most)) < limit):
            many = len(read)
            read += tables.briefs(self._db, left[:many])
            found, left = firsts(read), left[many:]
        return _cut(found, enough, limit, most)

    def _covers(
        self, scope: Sequence[Sequence[str]], left: int, without: Sequence[int] = ()
    ) -> tuple[dict[int, float], bool]:
        """The documents with the rarest words that are not of the sessions `without`, and the sum of the idf
        of those; and whether these are all that have any word. As many words are asked for as stand in `left`
        documents together, and one always: of that one the newest documents, if it stands in more."""
        covers: dict[int, float] = {}
        conditions = self._conditions()
        known = tables.having(self._db, [term for terms in scope for term in terms]) if scope else {}
        sizes = [sum(known[term].said for term in terms if term in known) for terms in scope]
        if not all(sizes):
            return covers, True
        # A condition that all documents meet is none; to go through it takes longer than the words do.
        scope = [terms for terms, size in zip(scope, sizes, strict=True) if size < self.totals.docs]
        share = min([*sizes, self.totals.docs]) / max(self.totals.docs, 1)
        for word in sorted(self._rows_with, key=self._rows_with.__getitem__):
            if covers and self._rows_with[word] * share > left:
                return covers, False
            found = tables.matching(self._db, _match(word, scope, without), conditions, left + 1)
            if covers and len(found) > left:
                return covers, False
            left -= len(found)
            idf = self.asked.idf[word]
            for at in found:
                covers[at] = covers.get(at, 0.0) + idf
            if left <= 0:
                return covers, False
        return covers, True

    def _conditions(self) -> list[tuple[str, int | str]]:
        """What of the filters the tables are asked for, since there are no terms for it, or too many."""
        filters = self._filters
        dated = (("docs.ts >= ?", filters.after), ("docs.ts < ?", filters.before))
        conditions: list[tuple[str, int | str]] = [
            (sql, _int64(value)) for sql, value in dated if value is not None
        ]
        for sids in self._sids:
            if len(sids) > _FEW:
                conditions.append(("docs.session IN (SELECT value FROM json_each(?))", json.dumps(sids)))
        return conditions

    def _scope(self) -> list[list[str]]:
        """Terms of each of which lists a hit has one, but for its role."""
        filters = self._filters
        scope = [[term] for term in (*named("a", filters.agent), *named("c", filters.channel))]
        for sids in self._sids:
            if len(sids) <= _FEW:
                scope.append([session_term(sid) for sid in sids])
        if filters.after is not None or filters.before is not None:
            spans = tables.having(self._db, time_terms(filters.after, filters.before))
            # The time is a condition of the tables too. Where the spans hold much, that alone is quicker.
            if sum(count.said for count in spans.values()) < self.totals.docs * _MOST or not spans:
                scope.append(list(spans))
        return scope


def _by_meaning(db: sqlite3.Connection, meaning: Meaning) -> set[int]:
    numbers = set()
    for key, name in meaning.nearest(NEAREST):
        sid = tables.session_id(db, parse_key(key))
        entry_id, _, start = name.rpartition(":")
        number = tables.number_of(db, sid, entry_id, int(start)) if sid is not None else None
        numbers |= {number} if number is not None else set()
    return numbers


def _likeness(
    db: sqlite3.Connection, meaning: Meaning, rows: Mapping[int, Row], keys: Mapping[int, SessionKey]
) -> dict[int, float]:
    named = tables.named_at(db, rows)
    asked = [(str(keys[rows[at].session]), document_id(*named[at])) for at in named]
    found = zip(named, meaning.likeness(asked), strict=True)
    return {at: value for at, value in found if value is not None}


def most_of(limit: int) -> int:
    """Of so many hits, those that may be of one session while there are others."""
    return limit - limit // _OTHERS


def _fair(rows: Iterable[Brief], limit: int, most: int) -> list[Brief]:
    return spread(((row, row.entry, row.session) for row in rows), limit, most)


def _told(found: Sequence[tuple[int, str, int]], limit: int, per_session: int | None) -> list[int]:
    """Those of what was found that are told, the best first; see `spread`. Where nobody says how many there
    may be of a session, the places that others leave are filled."""
    if per_session is not None:
        return spread(found, limit, per_session)
    kept = spread(found, limit, most_of(limit))
    left = [at for at in spread(found, limit, limit) if at not in set(kept)]
    chosen = {*kept, *left[: limit - len(kept)]}
    return [at for at, _, _ in found if at in chosen]


def _cut(rows: Sequence[Brief], many: int, limit: int, most: int) -> list[Brief]:
    """The first `many`, and those without which there would not be `limit` entries of which no session has
    more than `most`; in their order."""
    if len(rows) <= many:
        return list(rows)
    kept = {row.id for row in (*rows[:many], *_fair(rows, limit, most))}
    return [row for row in rows if row.id in kept]


def _terms(words: Sequence[str], at: int, rows: Mapping[int, Row]) -> tuple[str, ...]:
    """The words that stand in the row, near it, in its date or in its speaker's name."""
    near = [rows[at], *(rows[one] for one, _ in around(rows[at], rows))]
    text = " ".join(["", *(row.terms for row in near), day_of(rows[at].ts), rows[at].speaker, ""])
    return tuple(word for word in words if (f" {word}" if by_prefix(word) else f" {word} ") in text)


def _hit(document: Document, key: SessionKey, parts: Parts, terms: tuple[str, ...]) -> Hit:
    return Hit(
        session=key,
        entry_id=document.entry_id,
        seq=document.seq,
        turn=document.turn,
        ts=document.ts,
        role=document.role,
        score=sum(parts),
        parts=named_parts(parts),
        snippet=document.preview,
        terms=terms,
        start=document.start,
        stop=document.stop,
        injected=bool(document.injected),
    )


def _match(word: str, scope: Sequence[Sequence[str]], without: Sequence[int] = ()) -> str:
    """The FTS5 query. Terms have no quotes, and in quotes nothing is an operator."""
    asked = f'"{word}"*' if by_prefix(word) else f'"{word}"'
    narrowed = (" OR ".join(f'"{term}"' for term in terms) for terms in scope)
    wanted = " AND ".join([asked, *(f"({terms})" for terms in narrowed)])
    others = " OR ".join(f'"{session_term(sid)}"' for sid in without)
    return f"({wanted}) NOT ({others})" if others else wanted


def _int64(value: int) -> int:
    return max(-(2**63), min(value, 2**63 - 1))
