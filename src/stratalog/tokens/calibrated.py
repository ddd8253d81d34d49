"""The second of three levels: what the provider counted for what it was sent, and an estimate of only the
rest.

A request is a list of pieces (the model's name and tools first, then each entry); an `Anchor` is what the
provider reported for one request, bound to the fingerprint of its pieces. The next request that begins with
the same pieces takes that figure for them and the rough counts for what came after, scaled by the ratio that
was seen. A request that does not begin so (after a compaction, an edit, another model or other tools) has no
anchor: it is counted roughly until the provider has reported again.

Nothing here remembers: the caller keeps the last anchor, and gives it back.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Literal, TypeAlias

import msgspec

from stratalog.tokens.contract import Counter, Level
from stratalog.types import AnyEntry, Compaction, Usage

Basis: TypeAlias = Literal["reported", "rough"]

RATIO: Final = (0.5, 2.5)
"""The bounds of the ratio: outside them something else than text was counted, or not all of it."""
PRIOR: Final = 256
"""Tokens for which the ratio is taken to be 1, so that a first request of a few words decides little."""


class Piece(msgspec.Struct, frozen=True):
    """A part of a request: what identifies it, and its rough count. Equal parts have equal digests."""

    digest: bytes
    rough: int


class Anchor(msgspec.Struct, frozen=True):
    """What a provider reported: `tokens` for a request of `pieces` pieces, roughly counted as `rough`."""

    fingerprint: str
    tokens: int
    rough: int
    pieces: int


class Estimate(msgspec.Struct, frozen=True):
    """A count of a request. `after` are the tokens in it that were not reported, already scaled by `ratio`.

    `reason` tells why nothing reported could be used, and is empty when it was.
    """

    tokens: int
    after: int
    ratio: float
    basis: Basis
    reason: str = ""


def head_piece(model: str, tools: Sequence[Mapping[str, Any]], counter: Counter) -> Piece:
    """The piece for what every request begins with: whose tokens they are, and the tools."""
    return Piece(_digest(model.encode(), msgspec.json.encode(tools)), counter.count_tools(tools))


def entry_piece(entry: AnyEntry, counter: Counter) -> Piece:
    """The piece for an entry, by what a model sees of it: not when or in which turn it was stored.

    A compaction's piece differs from that of every entry it stands for, so that it ends an anchor.
    """
    kept = {
        name: getattr(entry, name)
        for name in entry.__struct_fields__
        if name not in ("seq", "id", "ts", "turn", "meta", "usage")
    }
    name = type(entry).__name__.encode()
    return Piece(_digest(name, msgspec.json.encode(kept, order="sorted")), counter.count_entry(entry))


def fingerprint(pieces: Iterable[Piece]) -> str:
    """One name for a list of pieces: other pieces, another order or another number give another."""
    chain = hashlib.sha256()
    for piece in pieces:
        chain.update(len(piece.digest).to_bytes(8, "big"))
        chain.update(piece.digest)
    return chain.hexdigest()


def anchor(sent: Sequence[Piece], usage: Usage | None) -> Anchor | None:
    """The anchor that a reply to these pieces gives; None when the provider reported no input.

    `usage.input` counts all that was sent, from the cache or not. The reply itself is not part of it: what
    was thought in it is mostly not sent again, so it is estimated like any other entry that came after.
    """
    if usage is None or usage.input <= 0 or not sent:
        return None
    return Anchor(fingerprint(sent), usage.input, sum(piece.rough for piece in sent), len(sent))


def calibrate(known: Anchor | None, pieces: Sequence[Piece]) -> Estimate:
    """The count of a request of these pieces by the last anchor, or roughly when that does not fit it."""
    rough = sum(piece.rough for piece in pieces)
    if known is None:
        return Estimate(rough, rough, 1.0, "rough", "nothing was reported yet")
    if known.pieces > len(pieces):
        return Estimate(rough, rough, 1.0, "rough", "less is sent than what was reported")
    if fingerprint(pieces[: known.pieces]) != known.fingerprint:
        return Estimate(rough, rough, 1.0, "rough", "what was sent has changed since it was reported")
    ratio = ratio_of(known)
    after = -(-sum(piece.rough for piece in pieces[known.pieces :]) * round(ratio * 1_000) // 1_000)
    return Estimate(known.tokens + after, after, ratio, "reported")


def ratio_of(known: Anchor) -> float:
    """How many tokens the provider counts for one of ours, within `RATIO`; 1 where little was seen."""
    low, high = RATIO
    return min(high, max(low, (known.tokens + PRIOR) / (known.rough + PRIOR)))


class Calibrated:
    """The counter for texts and entries that an anchor allows: `under`'s counts times the ratio seen."""

    level: Level = "calibrated"
    is_estimate = True

    def __init__(self, under: Counter, known: Anchor | None = None) -> None:
        self.under = under
        self.known = known
        self.ratio = ratio_of(known) if known is not None else 1.0
        self.name = f"calibrated × {self.ratio:.2f} over {under.name}"
        self._thousandths = round(self.ratio * 1_000)

    def count_text(self, text: str) -> int:
        return self._scaled(self.under.count_text(text))

    def count_entry(self, entry: AnyEntry) -> int:
        return self._scaled(self.under.count_entry(entry))

    def count_tools(self, tools: Iterable[Mapping[str, Any]]) -> int:
        return self._scaled(self.under.count_tools(tools))

    def _scaled(self, tokens: int) -> int:
        return -(-tokens * self._thousandths // 1_000)


def ends_anchor(after: Iterable[AnyEntry]) -> bool:
    """Whether one of the entries that came after an anchor makes it void before the next request is built."""
    return any(isinstance(entry, Compaction) for entry in after)


def _digest(*parts: bytes) -> bytes:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(len(part).to_bytes(8, "big"))
        digest.update(part)
    return digest.digest()
