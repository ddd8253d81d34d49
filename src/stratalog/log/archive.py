"""Sealed segments: files of entries that no append touches any more, compressed when there is time.

A sealed segment is named by its number and the seq of its first entry, so that a reader knows without opening
it whether it is needed. It is cut into pieces of at most `PIECE` bytes, so that reading one, also backwards,
takes little memory. A piece whose number is not below the active segment's is left over from a seal that did
not finish: the active segment still has its entries, so it is not read.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import NamedTuple

from stratalog.log.codec import BadLine

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

PIECE = 16 * 1_048_576
_NAME = re.compile(r"(\d{8})-(\d+)\.jsonl(\.zst)?\Z")


class Piece(NamedTuple):
    """One sealed segment: its number, the seq of its first entry, and its file."""

    segment: int
    base: int
    path: Path

    @property
    def compressed(self) -> bool:
        return self.path.suffix == ".zst"


def piece_path(archive: Path, segment: int, base: int) -> Path:
    return archive / f"{segment:08d}-{base}.jsonl"


def packed_path(path: Path) -> Path:
    """Where the compressed form of a plain segment is."""
    return path.with_name(path.name + ".zst")


def pieces(archive: Path) -> list[Piece]:
    """The sealed segments in order; of a compressed and a plain form of the same one, the plain."""
    found: dict[int, Piece] = {}
    try:
        names = sorted(path.name for path in archive.iterdir())
    except FileNotFoundError:
        return []
    for name in names:
        matched = _NAME.match(name)
        if matched:
            piece = Piece(int(matched[1]), int(matched[2]), archive / name)
            if not (piece.compressed and piece.segment in found):
                found[piece.segment] = piece
    return [found[number] for number in sorted(found)]


def load(piece: Piece) -> bytes:
    """The segment's lines. Raises `BadLine` when the compressed form is damaged, `OSError`."""
    try:
        data = piece.path.read_bytes()
    except FileNotFoundError:
        # It was compressed, and the plain file removed, since the directory was read.
        if piece.compressed:
            raise
        piece = piece._replace(path=packed_path(piece.path))
        data = piece.path.read_bytes()
    if not piece.compressed:
        return data
    try:
        return zstd.decompress(data)
    except zstd.ZstdError as error:
        raise BadLine(f"the compressed segment is damaged: {error}") from None


def compress(data: bytes) -> bytes:
    return zstd.compress(data, level=6)


def decompress(data: bytes) -> bytes:
    return zstd.decompress(data)
