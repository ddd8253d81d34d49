"""What an embedder is: texts in, vectors out, all of them of one space.

A space says what makes vectors comparable: the model, its version, how many dimensions there are, and whether
vectors are brought to length one. Two vectors of different spaces are never compared, and nothing here turns
one into another: another model is another space, and its texts are embedded anew.

This module needs numpy; `embedders` is the door for who must not import it.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from typing import Protocol, TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray

from stratalog.errors import ModelReplyUnusable
from stratalog.models.contract import Reach

Vectors: TypeAlias = NDArray[np.float32]
# NUL ends a string in C; half a surrogate pair is no character and has no bytes in UTF-8.
_UNSENDABLE = re.compile("[\0\ud800-\udfff]")


class Space(msgspec.Struct, frozen=True, kw_only=True):
    """Where vectors can be compared. `normalised`: they are of length one, and a score is a cosine;
    otherwise they stay as the model gave them, and it is their dot product."""

    model: str
    dimensions: int
    version: str = ""
    normalised: bool = True

    @property
    def name(self) -> str:
        """Sixteen hexadecimal digits that no other space has."""
        told = msgspec.json.encode([self.model, self.version, self.dimensions, self.normalised])
        return hashlib.sha256(told).hexdigest()[:16]


class Embedder(Protocol):
    """Turns texts into vectors of its space. Calls block, for seconds where a model runs: never on an event
    loop. They may come from any thread.

    All of it raises `ModelUnavailable` after bounded retries or past its deadline, `ModelRejected` for what
    the model refuses, and `ModelReplyUnusable` for what are no vectors of its space. Any text has a vector:
    it is cleaned, and cut to what the model reads.
    """

    @property
    def space(self) -> Space:
        """The space of its vectors; may ask the model for it once."""
        ...

    @property
    def reach(self) -> Reach:
        """How far what it is given goes."""
        ...

    def embed_passages(self, texts: Sequence[str]) -> Vectors:
        """One row a text, in their order."""
        ...

    def embed_query(self, text: str) -> Vectors:
        """The vector of what is asked; some models want it marked as that."""
        ...

    def close(self) -> None:
        """Ends what it runs. Closing twice is allowed; asked again, it begins anew."""
        ...


def cleaned(text: str, longest: int) -> str:
    """What of `text` can be sent: its first `longest` characters; what has no place in UTF-8 is replaced."""
    return _UNSENDABLE.sub("\ufffd", text[:longest])


def usable(vectors: Vectors, space: Space, count: int) -> Vectors:
    """The vectors, brought to length one where the space says so, if they are `count` rows of it. Raises
    `ModelReplyUnusable`."""
    if vectors.ndim != 2 or vectors.shape[0] != count:
        found = vectors.shape[0] if vectors.ndim else 0
        raise ModelReplyUnusable(
            "the embedder gave another number of vectors", expected=count, given=found, model=space.model
        )
    if vectors.shape[1] != space.dimensions:
        raise ModelReplyUnusable(
            "the embedder gave vectors of another length than before; nothing was changed",
            hint="is it still the same model? Another one needs a name or a version of its own",
            expected=space.dimensions,
            given=vectors.shape[1],
            model=space.model,
        )
    if not np.isfinite(vectors).all() or not vectors.any(axis=1).all():
        raise ModelReplyUnusable(
            "the embedder gave a vector of nothing but zeros, or one with a number that is none",
            model=space.model,
        )
    if not space.normalised:
        return vectors
    wide = vectors.astype(np.float64)
    made: Vectors = (wide / np.linalg.norm(wide, axis=1, keepdims=True)).astype(np.float32)
    return made
