"""Exact search among vectors in memory: values in, values out.

Every row is scored, but for those that provably are not among the best (see `pruning`). Nothing is
approximated: what is found depends on nothing but the vectors.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stratalog.errors import InvalidInput, WrongDimension
from stratalog.recall.embed import Space, Vectors
from stratalog.recall.pruning import Head, bounds, first_of, promising, scored

TYPE: Final = np.dtype("<f4")


class Place(NamedTuple):
    """Where a row is: the number of its segment, and the row's within that."""

    segment: int
    position: int


class Segment(NamedTuple):
    """Rows, of which those at `holes` do not count, and the inode of their file; with a head, fewer of them
    need to be scored."""

    id: int
    rows: Vectors
    holes: NDArray[np.int64]
    ino: int = -1
    head: Head | None = None


def rows_of(space: Space, count: int, vectors: Vectors | Sequence[Vectors]) -> Vectors:
    """The vectors as the space keeps them. Raises `WrongDimension` and `InvalidInput`."""
    try:
        found = np.asarray(vectors, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidInput("vectors are numbers, as many in each of them", reason=error) from error
    if found.ndim != 2 or (count and found.shape[1] != space.dimensions):
        raise WrongDimension(
            "a vector is not as long as those of its space; nothing was changed",
            hint="vectors of another model belong to a space of their own",
            expected=space.dimensions,
            given=found.shape[1] if found.ndim == 2 else f"an array of {found.ndim} dimensions",
            model=space.model,
        )
    if len(found) != count:
        raise InvalidInput("there are not as many vectors as ids", ids=count, vectors=len(found))
    lengths = np.linalg.norm(found, axis=1, keepdims=True)
    if not np.isfinite(lengths).all() or not lengths.all():
        raise InvalidInput("a vector is nothing but zeros, or has a number in it that is none")
    made = np.ascontiguousarray(found / lengths if space.normalised else found, dtype=TYPE)
    if not np.isfinite(made).all():
        raise InvalidInput("a vector has a number in it that is too large")
    return made


def best(
    segments: Sequence[Segment], query: Vectors, k: int, chosen: NDArray[np.int64] | None
) -> list[tuple[float, Place]]:
    """The `k` best rows, the best first; of equals, the older first. `chosen` are the places that count, a
    segment and a position a row, in their order; None for all."""
    found: list[tuple[float, Place]] = []
    if not k:
        return found
    warmed = [(one, one.head) for one in segments if one.head is not None and chosen is None]
    highest = {one.id: _highest(one, head, query) for one, head in warmed}
    least = _enough(segments, highest, query, k)
    for segment in segments:
        if chosen is None:
            some = _whole(segment, highest.get(segment.id), query, k, least)
        else:
            begin, end = np.searchsorted(chosen[:, 0], [segment.id, segment.id + 1])
            some = _some(segment, chosen[begin:end, 1], query, k)
        found += [(score, Place(segment.id, position)) for score, position in some]
        found = sorted(found, key=lambda one: (-one[0], one[1]))[:k]
    return found


def _highest(segment: Segment, head: Head, query: Vectors) -> Vectors:
    """How high each row of the head can score; minus infinity for those that do not count."""
    highest = bounds(head, query)
    highest[segment.holes[: np.searchsorted(segment.holes, len(highest))]] = -np.inf
    return highest


def _enough(segments: Sequence[Segment], highest: Mapping[int, Vectors], query: Vectors, k: int) -> float:
    """What `k` rows or more score at least."""
    first = [first_of(one.rows, highest[one.id], query, k) for one in segments if one.id in highest]
    scores = np.concatenate(first) if first else np.empty(0)
    return float(np.partition(scores, -k)[-k]) if len(scores) >= k else -np.inf


def _whole(
    segment: Segment, highest: Vectors | None, query: Vectors, k: int, least: float
) -> list[tuple[float, int]]:
    """The `k` best rows of the segment, of those that score `least` or more if it has a head, whose bounds
    `highest` are."""
    rows, holes = segment.rows, segment.holes
    if segment.head is not None and highest is not None:
        few = promising(segment.head, highest, query, least)
        if few is not None:
            rest = np.setdiff1d(np.arange(len(highest), len(rows)), holes, assume_unique=True)
            return _some(segment, np.concatenate([few, rest]), query, k)
    scores = scored(rows, query)
    scores[holes] = -np.inf
    return _top(scores, k)


def _some(segment: Segment, positions: NDArray[np.int64], query: Vectors, k: int) -> list[tuple[float, int]]:
    """The `k` best rows of those at these positions, which are in their order."""
    scores = scored(_taken(segment.rows, positions), query)
    return [(score, int(positions[at])) for score, at in _top(scores, k)]


def _taken(rows: Vectors, positions: NDArray[np.int64]) -> Vectors:
    """The rows at sorted positions; not copied when they lie side by side."""
    if len(positions) and positions[-1] - positions[0] + 1 == len(positions):
        return rows[positions[0] : positions[-1] + 1]
    return rows[positions]


def _top(scores: Vectors, k: int) -> list[tuple[float, int]]:
    """The `k` best scores with their places; what is no number comes never."""
    if not len(scores):
        return []
    if np.isnan(scores.max()):  # a damaged row
        scores = np.where(np.isnan(scores), -np.inf, scores)
    least = np.partition(scores, -k)[-k] if k < len(scores) else -np.inf
    places = np.flatnonzero((scores >= least) & (scores > -np.inf))
    order = places[np.argsort(-scores[places], kind="stable")][:k]
    return [(float(scores[place]), int(place)) for place in order]
