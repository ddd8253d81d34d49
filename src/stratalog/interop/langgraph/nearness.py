"""How near texts are to one another, by their vectors: rows of float32, one after another."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from stratalog.errors import WrongDimension

_TYPE: Final = np.dtype("<f4")


def row_of(vector: Sequence[float], dimensions: int) -> bytes:
    """The vector as it is stored. Raises `WrongDimension`."""
    if len(vector) != dimensions:
        raise WrongDimension(
            "a vector is not as long as the index says; nothing was changed",
            hint="`dims` is the length of what `embed` gives",
            expected=dimensions,
            given=len(vector),
        )
    return np.asarray(vector, dtype=_TYPE).tobytes()


def cosines(query: Sequence[float], rows: Sequence[bytes], dimensions: int) -> list[float]:
    """How near each of the rows is to the query, from -1 to 1; 0 where one of both is nothing but zeros.
    Raises `WrongDimension`."""
    lengths = {len(row) // _TYPE.itemsize for row in rows} - {dimensions}
    if lengths:
        raise WrongDimension(
            "items have vectors that are not as long as the index says",
            hint="they were put under another index: put them again under this one",
            expected=dimensions,
            there=sorted(lengths),
        )
    asked = np.frombuffer(row_of(query, dimensions), dtype=_TYPE).astype(np.float64)
    there = np.frombuffer(b"".join(rows), dtype=_TYPE).reshape(len(rows), dimensions)
    norms: NDArray[np.float64] = np.linalg.norm(there.astype(np.float64), axis=1) * np.linalg.norm(asked)
    found = np.divide(there @ asked, norms, out=np.zeros(len(rows)), where=norms > 0)
    return [float(each) for each in found]
