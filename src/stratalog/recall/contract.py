"""What recall returns: hits, which point into the log and never replace it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeAlias

import msgspec

from stratalog.keys import SessionKey

DocKey: TypeAlias = tuple[str, str]
"""A document: its session's key in writing, and its id in the session (`documents.document_id`)."""

Rerank: TypeAlias = Callable[[str, Sequence[str]], Sequence[float]]
"""A question and texts in, a score for each text out, higher for a better answer: a model of pairs."""


class Meaning(Protocol):
    """How near documents are to one question in meaning."""

    def nearest(self, count: int) -> Sequence[DocKey]:
        """At most so many documents, nearest first, within the search's scopes as far as these go. Those
        that the index does not have, or a filter leaves out, are passed over."""
        ...

    def likeness(self, keys: Sequence[DocKey]) -> Sequence[float | None]:
        """For each document the cosine of its own vector and the question's; None when it has none."""
        ...


class Hit(msgspec.Struct, frozen=True, kw_only=True):
    """One entry that was found.

    `score` is higher for a better hit, comparable within one search only. `parts` say what it is made of and
    add up to it: "words", "session", "answer", "speaker", "asks", "length", "time", "recency", "meaning" and
    "rerank", those that gave something (see `ranking`).
    `terms` are the query's terms found in the entry, its date or its neighbours: dates and numbers, then
    words, in the query's order.
    `start` and `stop` delimit the best passage in `words_of(entry)`, in characters; `snippet` is how that
    passage begins, on one line of at most 300 characters. `role` is the entry's type tag, `ts` milliseconds
    since the epoch (UTC). `injected` marks words that recall itself had put there.
    """

    session: SessionKey
    entry_id: str
    seq: int
    turn: str
    ts: int
    role: str
    score: float
    parts: dict[str, float]
    snippet: str
    terms: tuple[str, ...]
    start: int
    stop: int
    injected: bool
