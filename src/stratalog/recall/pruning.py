"""Leaving out rows that cannot be among the best, without scoring them: exact, for vectors of length one.

Most of what embedders give lies in few directions. A head has each row's parts in the strongest of them, two
fifths of its numbers, and the length of the rest. By Cauchy and Schwarz the product of two rests is at most
that of their lengths: so a head says how high a row can score at most, and a row is scored itself only when
that could be enough. Where the vectors lie in all directions alike this saves nothing, and all are scored.
"""

from __future__ import annotations

import _thread
import os
import sys
from collections import deque
from contextlib import suppress
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stratalog.recall.embed import Vectors

LEAST: Final = 8_192  # rows; fewer are scored as fast as they are looked at
_THREADS: Final = 4  # more read memory no faster
_PART: Final = 1 << 18  # numbers: a tenth of a millisecond
_WORTH: Final = 8  # parts, which take longer than a thread takes to start
_SAMPLE: Final = 4_096
_CHUNK: Final = 4_096
_SHARE: Final = 5 / 12  # of the dimensions: more is more to read, fewer leave more rows to be scored
_FIRST: Final = 256  # rows that are scored to know what is enough
_LOOSE: Final = 0.4  # of a length of one; so long rests say nothing of their product
_ROUNDING: Final = 1e-4  # far more than float32 errs in such sums
_TOO_MANY: Final = 4  # when a fourth could be among the best, scoring all is as fast


class Head(NamedTuple):
    """Of the first `len(rows)` rows of a segment: their parts in the directions of `basis`, and, in the last
    column, the length of the rest."""

    basis: Vectors
    rows: Vectors


def scored(rows: Vectors, query: Vectors) -> Vectors:
    """The product of each row with the query: the same for a row wherever it stands.

    Of many rows several threads take a part each, as long as there are any, and nobody is waited for: what
    a helper has begun and not ended, for it got no CPU, is done here once more. BLAS, which gives each
    thread its share beforehand, waits, on busy CPUs for ten times as long as the product takes.
    """
    step = max(1, _PART // rows.shape[1])
    starts = range(0, len(rows), step)
    pending = deque(enumerate(starts))
    made: list[Vectors | None] = [None] * len(starts)

    def work() -> None:
        with suppress(IndexError):
            while True:
                at, start = pending.popleft()
                made[at] = np.vecdot(rows[start : start + step], query)

    for _ in range(min(_THREADS, _cpus(), len(starts) // _WORTH) - 1):
        _thread.start_new_thread(work, ())  # not `Thread`, whose start waits for it
    work()
    parts = list(made)
    for at, start in enumerate(starts):
        if parts[at] is None:
            parts[at] = np.vecdot(rows[start : start + step], query)
    return np.concatenate([part for part in parts if part is not None] or [np.empty(0, dtype=np.float32)])


def basis_of(rows: Vectors) -> Vectors:
    """The strongest directions of the rows, judged by a sample: orthonormal, a row each."""
    sample = rows[:: max(1, len(rows) // _SAMPLE)].astype(np.float64)
    sample = sample[np.isfinite(sample).all(axis=1)]
    _, directions = np.linalg.eigh(sample.T @ sample)
    strongest = directions[:, ::-1][:, : max(1, round(rows.shape[1] * _SHARE) - 1)]
    return np.ascontiguousarray(strongest.T, dtype=np.float32)


def worth_it(rows: Vectors, basis: Vectors) -> bool:
    """Whether so little of the rows lies in other directions that bounds leave much out."""
    rest = head_of(rows[:: max(1, len(rows) // _SAMPLE)], basis).rows[:, -1]
    return float(rest.mean()) < _LOOSE


def head_of(rows: Vectors, basis: Vectors) -> Head:
    """The head of these rows; 0.2 s for 100,000 of 384 dimensions."""
    made = np.empty((len(rows), len(basis) + 1), dtype=np.float32)
    for at in range(0, len(rows), _CHUNK):
        parts, part = made[at : at + _CHUNK], rows[at : at + _CHUNK]
        np.matmul(part, basis.T, out=parts[:, :-1])
        rest = np.einsum("ij,ij->i", part, part) - np.einsum("ij,ij->i", parts[:, :-1], parts[:, :-1])
        parts[:, -1] = np.sqrt(np.maximum(rest, 0.0))
        parts[~np.isfinite(parts).all(axis=1)] = 0.0  # damaged; nobody is to find it
    return Head(basis, made)


def bounds(head: Head, query: Vectors) -> Vectors:
    """How high each row can score at most, but for rounding."""
    parts = head.basis @ query
    rest = np.sqrt(max(0.0, float(query @ query) - float(parts @ parts)))
    return scored(head.rows, np.append(parts, np.float32(rest)))


def promising(
    rows: Vectors, highest: Vectors, query: Vectors, k: int, least: float
) -> NDArray[np.int64] | None:
    """The positions, in their order, of rows among which are the `k` best of those that score `least` or
    more; None when they are so many that all rows had better be scored. `highest` are the bounds of the
    rows, minus infinity for one that does not count."""
    count = max(_FIRST, 2 * k)
    if count * _TOO_MANY >= len(highest):
        return None
    if least == -np.inf:
        first = np.sort(np.argpartition(highest, -count)[-count:])
        scores = scored(rows[first], query)
        scores[~np.isfinite(scores) | np.isneginf(highest[first])] = -np.inf
        least = float(np.partition(scores, -k)[-k])
    found = np.flatnonzero(highest >= least - _ROUNDING)
    return None if len(found) * _TOO_MANY >= len(highest) else found


def _cpus() -> int:
    """How many CPUs this process may use."""
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
