"""Leaving out rows that cannot be among the best, without scoring them: exact, for vectors of length one.

Most of what embedders give lies in few directions. A head has each row's parts in the strongest of them, a
fourth of its numbers, and the length of the rest. By Cauchy and Schwarz the product of two rests is at most
that of their lengths: so a head says how high a row can score at most. Rows for which that could be enough
are looked at again, with their parts in a third of the directions more, a byte each, whose rounding is part
of the bound; and what is left then is scored itself. Where the vectors lie in all directions alike this saves
nothing, and all are scored.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stratalog.recall.embed import Vectors

LEAST: Final = 8_192  # rows; fewer are scored as fast as they are looked at
_SAMPLE: Final = 4_096
_CHUNK: Final = 4_096
_AGAIN: Final = 512  # rows, whose numbers stay in the cache
_NEAR: Final = 1 / 4  # of the dimensions: more is more to read, fewer leave more rows to be looked at again
_FAR: Final = 1 / 3  # of the dimensions
_STEPS: Final = 127  # of a byte, to each side
_FIRST: Final = 128  # rows of each segment that are scored to know what is enough
_LOOSE: Final = 0.4  # of a length of one; so long rests say nothing of their product
_ROUNDING: Final = 1e-4  # far more than float32 errs in such sums
_SQUARES: Final = 1e-5  # the same, in the square of a length of one
_TOO_MANY: Final = 2  # when half could be among the best, scoring all is as fast


class Head(NamedTuple):
    """Of the first `len(near)` rows of a segment: their parts in the directions of `basis`, the first of them
    in `near`, the others in `far`, in units of `unit`; `rest` has, for each row, the length of what is left
    after the first, and of what is left after all. No row's parts in `far` together are further than `error`
    from what they were."""

    basis: Vectors
    near: Vectors
    far: NDArray[np.int8]
    unit: Vectors
    rest: tuple[Vectors, Vectors]
    error: float


def scored(rows: Vectors, query: Vectors) -> Vectors:
    """The product of each row with the query: the same for a row wherever it stands.

    One thread reads memory about as fast as several do. BLAS, which a product of the matrix would be, has its
    threads wait for one another, and burn their CPUs for some time after that.
    """
    with np.errstate(over="ignore", invalid="ignore"):  # in a damaged row
        found: Vectors = np.vecdot(rows, query)
    return found


def basis_of(rows: Vectors) -> Vectors:
    """The strongest directions of the rows, judged by a sample: orthonormal, a row each."""
    sample = rows[:: max(1, len(rows) // _SAMPLE)].astype(np.float64)
    sample = sample[_of_length_one(np.vecdot(sample, sample))]
    _, directions = np.linalg.eigh(sample.T @ sample)
    width = rows.shape[1]
    strongest = directions[:, ::-1][:, : _of(width, _NEAR) + _of(width, _FAR)]
    return np.ascontiguousarray(strongest.T, dtype=np.float32)


def worth_it(rows: Vectors, basis: Vectors) -> bool:
    """Whether so little of the rows lies in other directions that bounds leave much out."""
    rest, _ = head_of(rows[:: max(1, len(rows) // _SAMPLE)], basis).rest
    return float(rest.mean()) < _LOOSE


def head_of(rows: Vectors, basis: Vectors) -> Head:
    """The head of these rows; a second for 100,000 of 384 dimensions."""
    count = _of(rows.shape[1], _NEAR)
    near = np.empty((len(rows), count), dtype=np.float32)
    far = np.empty((len(rows), len(basis) - count), dtype=np.int8)
    rest, last = np.empty((2, len(rows)), dtype=np.float32)
    most, error = np.zeros(far.shape[1], dtype=np.float32), 0.0
    for at in range(0, len(rows), _CHUNK):
        parts, _ = _parts(rows[at : at + _CHUNK], basis)
        most = np.maximum(most, np.abs(parts[:, count:]).max(axis=0))
    unit = (np.maximum(most, 1e-9) / _STEPS).astype(np.float32)
    for at in range(0, len(rows), _CHUNK):
        chunk = slice(at, at + _CHUNK)
        parts, length = _parts(rows[chunk], basis)
        near[chunk] = parts[:, :count]
        left = length - _squares(parts[:, :count])
        rest[chunk] = np.sqrt(np.maximum(left, 0.0) + _SQUARES)
        last[chunk] = np.sqrt(np.maximum(left - _squares(parts[:, count:]), 0.0) + _SQUARES)
        steps = np.rint(parts[:, count:] / unit).astype(np.float32)
        far[chunk] = steps
        error = max(error, float(_squares(parts[:, count:] - steps * unit).max()) ** 0.5)
    return Head(basis, near, far, unit, (rest, last), error)


def first_of(rows: Vectors, highest: Vectors, query: Vectors, k: int) -> Vectors:
    """The scores of some rows that are likely among the `k` best, `k` of them or more if there are, to know
    what is enough. `highest` are the bounds of the rows, minus infinity for one that does not count."""
    count = min(max(_FIRST, 2 * k), len(highest))
    first = np.sort(np.argpartition(highest, -count)[-count:])
    scores = scored(rows[first], query)
    return scores[scores <= highest[first] + _ROUNDING]  # others do not count, or are damaged


def promising(head: Head, highest: Vectors, query: Vectors, least: float) -> NDArray[np.int64] | None:
    """The positions, in their order, of rows of the head among which are all that score `least` or more; None
    when they are so many that all rows had better be scored. `highest` are the bounds of the rows, minus
    infinity for one that does not count."""
    found = np.flatnonzero(highest >= least - _ROUNDING)
    if len(found) * _TOO_MANY >= len(highest):
        return None
    found = found[tighter(head, query, found, highest[found]) >= least - _ROUNDING]
    return None if len(found) * _TOO_MANY >= len(highest) else found


def bounds(head: Head, query: Vectors) -> Vectors:
    """How high each row can score at most, but for rounding, by what `near` has of it."""
    parts = scored(head.basis[: head.near.shape[1]], query)
    return scored(head.near, parts) + _left(query, parts) * head.rest[0]


def tighter(head: Head, query: Vectors, positions: NDArray[np.int64], highest: Vectors) -> Vectors:
    """The same for the rows at these positions, for which `bounds` gave `highest`, by `far` too."""
    count = head.near.shape[1]
    parts = scored(head.basis, query)
    made: Vectors = highest - _left(query, parts[:count]) * head.rest[0][positions]
    made += _left(query, parts) * head.rest[1][positions]
    made += np.linalg.norm(parts[count:]) * np.float32(head.error)
    steps = parts[count:] * head.unit
    some = np.empty((_AGAIN, len(steps)), dtype=np.int8)  # one for all: new memory takes longer than the sums
    wide = np.empty(some.shape, dtype=np.float32)
    for at in range(0, len(positions), _AGAIN):
        few = positions[at : at + _AGAIN]
        head.far.take(few, axis=0, out=some[: len(few)], mode="clip")  # the default makes a copy of `out`
        wide[: len(few)] = some[: len(few)]
        made[at : at + _AGAIN] += scored(wide[: len(few)], steps)
    return made


def _of(width: int, share: float) -> int:
    """So many of the dimensions."""
    return max(1, round(width * share))


def _parts(rows: Vectors, basis: Vectors) -> tuple[Vectors, Vectors]:
    """The parts of the rows in the directions, and the squares of their lengths; zeros for a row that is not
    of length one, for it is damaged, and nobody is to find it."""
    with np.errstate(over="ignore", invalid="ignore"):
        parts, length = rows @ basis.T, _squares(rows)
    damaged = ~_of_length_one(length)
    parts[damaged], length[damaged] = 0.0, 0.0
    return parts, length


def _of_length_one(squares: NDArray[np.floating]) -> NDArray[np.bool_]:
    close: NDArray[np.bool_] = np.abs(squares - 1) < 1e-3  # no number is close to none
    return close


def _squares(rows: Vectors) -> Vectors:
    found: Vectors = np.vecdot(rows, rows)
    return found


def _left(query: Vectors, parts: Vectors) -> np.float32:
    """The length of what of the query lies in other directions than these."""
    return np.float32(np.sqrt(max(0.0, float(query @ query) - float(parts @ parts)) + _SQUARES))
