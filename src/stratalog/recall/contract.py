"""What recall returns: hits, which point into the log and never replace it."""

from __future__ import annotations

import msgspec

from stratalog.keys import SessionKey


class Hit(msgspec.Struct, frozen=True, kw_only=True):
    """One entry that was found.

    `score` is higher for a better hit, comparable within one search only. `parts` are the scores that single
    columns would have had alone ("body", "window", "date"); they explain `score` and do not add up to it.
    `terms` are the query's terms found in the entry, its date or its neighbours, in the query's order.
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
