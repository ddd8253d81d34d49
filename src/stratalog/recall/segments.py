"""The files of vectors: rows appended and synced, mapped to be read, unlinked. The catalog says what counts.

A file may hold more than it should, for an append may have been cut: that is overwritten by the next one. It
is never cut shorter, for somebody may have it mapped.
"""

from __future__ import annotations

import mmap
import os
import re
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np

from stratalog import osfiles
from stratalog.points import reach
from stratalog.recall.embed import Space, Vectors
from stratalog.recall.nearest import TYPE

_BYTES: Final = 64 * 1024 * 1024
_SEGMENT_NAME: Final = re.compile(r"\d{8,}\.f32")
_SPACE_NAME: Final = re.compile(r"[0-9a-f]{16}")


class File(NamedTuple):
    """A segment's file: of which space it is, and its number."""

    space: str
    segment: int


class _Mapped(NamedTuple):
    ino: int
    rows: Vectors


class Segments:
    """The files below `directory`, a directory a space. Raises `StorageFull` and `StorageFailed`."""

    def __init__(self, directory: Path, capacity: int = _BYTES) -> None:
        self._directory = directory
        self._bytes = capacity
        self._mapped: dict[int, _Mapped] = {}

    def capacity(self, space: Space) -> int:
        """How many rows a segment of the space takes."""
        return max(1, self._bytes // row_bytes(space))

    def size(self, space: Space, segment: int) -> int:
        """How many whole rows the file has; -1 when it is not there."""
        try:
            return self._path(File(space.name, segment)).stat().st_size // row_bytes(space)
        except FileNotFoundError:
            return -1

    def longer(self, space: Space, segment: int, rows: int) -> bool:
        """Whether the file holds anything after so many rows."""
        path = self._path(File(space.name, segment))
        return path.exists() and path.stat().st_size > rows * row_bytes(space)

    def write(self, space: Space, segment: int, begin: int, rows: Vectors) -> None:
        """Writes the rows from the row `begin` on; they are on the disk when it returns."""
        path = self._path(File(space.name, segment))
        try:
            osfiles.make_dir(path.parent)
            if not begin:
                osfiles.remove(path)  # of a transaction that did not end
            fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                os.lseek(fd, begin * row_bytes(space), os.SEEK_SET)
                osfiles.write_all(fd, rows.tobytes())
                osfiles.sync(fd)
            finally:
                os.close(fd)
            if not begin:
                osfiles.sync_dir(path.parent)
        except OSError as error:
            raise osfiles.failed(error, "writing vectors", path) from error
        reach("vectors.written")

    def map(self, space: Space, segment: int, count: int) -> Vectors | None:
        """The segment's first rows, mapped; None when the file is not there, or too short."""
        known = self._mapped.get(segment)
        path, size = self._path(File(space.name, segment)), count * row_bytes(space)
        try:
            with open(path, "rb") as file:
                found = os.fstat(file.fileno())
                if found.st_size < size:
                    return None
                # What is mapped keeps its inode, so that no other file has the same one.
                if known is not None and known.ino == found.st_ino and len(known.rows) == count:
                    return known.rows
                data = mmap.mmap(file.fileno(), size, prot=mmap.PROT_READ)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise osfiles.failed(error, "reading vectors", path) from error
        rows = np.frombuffer(data, dtype=TYPE).reshape(count, space.dimensions)
        self._mapped[segment] = _Mapped(found.st_ino, rows)
        return rows

    def whole(self, space: Space, segment: int, ino: int, count: int) -> bool:
        """Whether the file is still this one, and has as many rows: to read what is mapped of one that was
        cut ends the process."""
        try:
            found = self._path(File(space.name, segment)).stat()
        except OSError:
            return False
        return found.st_ino == ino and found.st_size >= count * row_bytes(space)

    def inode(self, segment: int) -> int:
        """The inode of the mapped file, which no other has as long as it is mapped; -1 for none."""
        known = self._mapped.get(segment)
        return -1 if known is None else known.ino

    def keep_mapped(self, segments: Collection[int]) -> None:
        """Lets go of the others."""
        for gone in set(self._mapped).difference(segments):
            self._mapped.pop(gone, None)

    def unlink(self, files: Collection[File]) -> None:
        for file in files:
            path = self._path(file)
            try:
                osfiles.remove(path)
                osfiles.sync_dir(path.parent)
            except OSError as error:
                raise osfiles.failed(error, "deleting vectors", path) from error

    def sweep(self, kept: Collection[File]) -> None:
        """Unlinks all other segments, and the directories that are empty then. Call it under the catalog's
        lock: a segment that is being made has no name there yet."""
        spaces = {file.space for file in kept}
        with suppress(FileNotFoundError):
            for directory in sorted(self._directory.iterdir()):
                if not _SPACE_NAME.fullmatch(directory.name):
                    continue
                names = [path.name for path in directory.iterdir() if _SEGMENT_NAME.fullmatch(path.name)]
                there = {File(directory.name, int(name.removesuffix(".f32"))) for name in names}
                self.unlink(sorted(there.difference(kept)))
                if directory.name not in spaces:
                    with suppress(OSError):  # there is somebody else's file in it
                        directory.rmdir()

    def _path(self, file: File) -> Path:
        return self._directory / file.space / f"{file.segment:08d}.f32"


def row_bytes(space: Space) -> int:
    """The bytes of one row."""
    return space.dimensions * TYPE.itemsize
