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
from stratalog.recall.documents import Document, day_of, document_id
from stratalog.recall.numbers import is_date
from stratalog.recall.ranking import (
    DATES,
    REACH,
    Parts,
    Recent,
    Row,
    alone,
    around,
    asked_of,
    by_prefix,
    counted,
    idf_of,
    ranked,
    with_lent,
)
from stratalog.recall.ranking import named as named_parts
from stratalog.recall.scopes import named, role_terms, session_term, time_terms

BUDGET: Final = 1500  # documents that have one of the words and are looked at, rarest words first
WIDE: Final = 128  # of these, those whose neighbours' words are looked at
LOOKED_AT: Final = 80  # of these, those whose length and speaker are looked at
POOL: Final = 38  # of these, the candidates, which are read with their neighbours
NEAREST: Final = 16  # candidates by meaning, for a question that shares no word with its answer
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
        self._words = words
        self._filters = filters
        among = [[filters.session]] if filters.session is not None else []
        among += [list(filters.sessions)] if filters.sessions is not None else []
        self._sids = [tables.ids_of(db, keys) for keys in among]
        self.totals = tables.totals(db)
        known = tables.having(db, [*words, *(tables.NAME + word for word in words)])
        # A speaker's name says who, not what: it is no word, unless there is no other.
        names = frozenset(word for word in words if tables.NAME + word in known)
        rest = [word for word in words if word not in names] or words
        counts = {
            word: tables.beginning(db, word) if by_prefix(word) else known.get(word, tables.Having(0, 0))
            for word in rest
        }
        every = self.totals.docs
        idf = {
            word: idf_of(every, min(count.said, every)) * (DATES if is_date(word) else 1.0)
            for word, count in counts.items()
        }
        dated = (word for word, count in counts.items() if count.dated)
        self.asked = asked_of(idf, names, times, dated, recent)
        self._rows_with = {word: min(sum(count), every) for word, count in counts.items() if sum(count)}

    def hits(self, limit: int, per_session: int | None, meaning: Meaning | None) -> list[Hit]:
        """The best entries; see `LexicalIndex.search`."""
        db = self._db
        pool = self.by_words(max(POOL, limit))
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
        best = _best(found, rows, limit, per_session)
        documents = tables.documents_at(db, best)
        return [
            _hit(documents[at], keys[rows[at].session], found[at], _terms(self._words, at, rows))
            for at in best
        ]

    def by_words(self, most: int) -> set[int]:
        """The numbers of the `most` documents that are worth most by themselves.

        What may be a hit because of its neighbours is not looked for, but where only its role keeps these
        out: the answer is found by its question.
        """
        scope = self._scope()
        pool = self._chosen(scope, most)
        if self._filters.roles is not None:
            pool |= self._chosen([*scope, role_terms(self._filters.roles)], most)
        return pool

    def _chosen(self, scope: Sequence[Sequence[str]], most: int) -> set[int]:
        covers = self._covers(scope, max(BUDGET, most))
        # Of equal ones the newest: each sort keeps the order in which they were found.
        wide = sorted(covers, key=covers.__getitem__, reverse=True)[: max(WIDE, most)]
        if len(wide) <= most:
            return set(wide)
        covered = {at: with_lent(at, covers) for at in wide}
        wide = sorted(wide, key=covered.__getitem__, reverse=True)[: max(LOOKED_AT, most)]
        worth = {
            row.id: alone(row, covered[row.id], self.asked, self.totals.mean_size)
            for row in tables.briefs(self._db, wide)
        }
        return set(sorted(worth, key=worth.__getitem__, reverse=True)[:most])

    def _covers(self, scope: Sequence[Sequence[str]], left: int) -> dict[int, float]:
        """The documents with the rarest words, and the sum of the idf of those. As many words are asked for
        as stand in `left` documents together, and one always: of that one the newest documents, if it stands
        in more."""
        covers: dict[int, float] = {}
        conditions = self._conditions()
        known = tables.having(self._db, [term for terms in scope for term in terms]) if scope else {}
        sizes = [sum(known[term].said for term in terms if term in known) for terms in scope]
        if not all(sizes):
            return covers
        # A condition that all documents meet is none; to go through it takes longer than the words do.
        scope = [terms for terms, size in zip(scope, sizes, strict=True) if size < self.totals.docs]
        share = min([*sizes, self.totals.docs]) / max(self.totals.docs, 1)
        for word in sorted(self._rows_with, key=self._rows_with.__getitem__):
            if covers and self._rows_with[word] * share > left:
                break
            found = tables.matching(self._db, _match(word, scope), conditions, left + 1)
            if covers and len(found) > left:
                break
            left -= len(found)
            idf = self.asked.idf[word]
            for at in found:
                covers[at] = covers.get(at, 0.0) + idf
            if left <= 0:
                break
        return covers

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


def _best(found: Iterable[int], rows: Mapping[int, Row], limit: int, per_session: int | None) -> list[int]:
    """The first passage of each entry, as many as are wanted."""
    best: dict[tuple[int, int], int] = {}
    of_session: Counter[int] = Counter()
    for at in found:
        session, seq = rows[at].session, rows[at].seq
        if (session, seq) in best or (per_session is not None and of_session[session] >= per_session):
            continue
        best[session, seq] = at
        of_session[session] += 1
        if len(best) == limit:
            break
    return list(best.values())


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


def _match(word: str, scope: Sequence[Sequence[str]]) -> str:
    """The FTS5 query. Terms have no quotes, and in quotes nothing is an operator."""
    asked = f'"{word}"*' if by_prefix(word) else f'"{word}"'
    narrowed = (" OR ".join(f'"{term}"' for term in terms) for terms in scope)
    return " AND ".join([asked, *(f"({terms})" for terms in narrowed)])


def _int64(value: int) -> int:
    return max(-(2**63), min(value, 2**63 - 1))
