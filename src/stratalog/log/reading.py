"""Reading a session's log: the archive's segments that are needed, then the active one.

The active segment is opened first and read as long as it was then; a seal that happens meanwhile only moves
what is already open. Damage is skipped and told in `problems`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from itertools import chain

from stratalog.errors import DamagedLog
from stratalog.keys import SessionKey, SessionPaths
from stratalog.log import archive, codec
from stratalog.log.contract import Problem
from stratalog.log.segment import (
    Line,
    entry_in,
    header_of,
    last_newline,
    lines,
    lines_back,
    lines_of,
    offset_of,
)
from stratalog.osfiles import failed
from stratalog.types import AnyEntry, Blob


class OpenLog:
    """A log open for reading, as large as it was at that moment; closed at the latest with its last user."""

    def __init__(self, key: SessionKey, paths: SessionPaths, fd: int) -> None:
        self.key = key
        self.paths = paths
        self.fd = fd
        self.size = os.fstat(fd).st_size
        self.header = codec.NO_HEADER
        self.body = 0

    def close(self) -> None:
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1

    __del__ = close


def open_log(key: SessionKey, paths: SessionPaths) -> OpenLog | None:
    """The log of `key` open for reading; None when there is none. Raises as `header_of`, and `StorageFailed`."""
    try:
        fd = os.open(paths.log, os.O_RDONLY | os.O_CLOEXEC)
        opened = OpenLog(key, paths, fd)
        if opened.size == 0:  # nobody here makes such a file, and nothing is in it
            return None
        opened.header, opened.body = header_of(fd, str(paths.log), str(key))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise failed(error, "opening a log", paths.log) from error
    return opened


class LogReader:
    """Reads the entries with `after < seq < before` of one open log, once."""

    def __init__(
        self, opened: OpenLog, after: int, before: int | None, reverse: bool, all_generations: bool
    ) -> None:
        self.opened = opened
        self.after = max(after, 0 if all_generations else opened.header.first - 1)
        self.before = before
        self.reverse = reverse
        self.problems: list[Problem] = []

    def entries(self) -> Iterator[AnyEntry]:
        """The entries as stored; closes the log at the end."""
        log, after, before = self.opened, self.after, self.before
        try:
            active = self._entries_in(self._active_lines(), str(log.paths.log))
            sealed = chain.from_iterable(map(self._piece, self._pieces()))
            for entry in chain(active, sealed) if self.reverse else chain(sealed, active):
                if after < entry.seq and (before is None or entry.seq < before):
                    yield entry
        except OSError as error:
            raise failed(error, "reading a log", log.paths.log) from error
        finally:
            log.close()

    def resolved(self, entries: Iterator[AnyEntry], load: Callable[[Blob], bytes]) -> Iterator[AnyEntry]:
        """The same entries with their payloads in place; one that is damaged stays a reference."""
        for entry in entries:
            if codec.blobs_of(entry):
                try:
                    entry = codec.resolve(entry, load)
                except DamagedLog as error:
                    path = str(error.where.get("path", ""))
                    self.problems.append(Problem(str(error), path=path, key=str(self.opened.key)))
            yield entry

    def _active_lines(self) -> Iterator[Line]:
        log = self.opened
        whole = last_newline(log.fd, log.body, log.size)
        if whole < log.size:
            self.problems.append(
                Problem(
                    "the last line is not finished",
                    path=str(log.paths.log),
                    offset=whole,
                    length=log.size - whole,
                )
            )
        start, stop = log.body, whole
        if self.after >= log.header.base:
            start = offset_of(log.fd, start, stop, self.after + 1)
        if self.before is not None:
            stop = offset_of(log.fd, start, stop, self.before)
        return (lines_back if self.reverse else lines)(log.fd, start, stop)

    def _pieces(self) -> list[archive.Piece]:
        """The sealed segments that hold some of the entries, in reading order."""
        log = self.opened
        if self.after + 1 >= log.header.base:
            return []
        known = [piece for piece in archive.pieces(log.paths.archive) if piece.segment < log.header.segment]
        ends = [piece.base for piece in known[1:]] + [log.header.base]
        needed = [
            piece
            for piece, end in zip(known, ends, strict=True)
            if end > self.after + 1 and (self.before is None or piece.base < self.before)
        ]
        return needed[::-1] if self.reverse else needed

    def _piece(self, piece: archive.Piece) -> Iterator[AnyEntry]:
        try:
            found = lines_of(archive.load(piece))[1:]
        except (codec.BadLine, OSError) as error:
            self.problems.append(Problem(f"a sealed segment cannot be read: {error}", path=str(piece.path)))
            return
        yield from self._entries_in(reversed(found) if self.reverse else found, str(piece.path))

    def _entries_in(self, source: Iterable[Line], path: str) -> Iterator[AnyEntry]:
        for line in source:
            found = entry_in(line)
            if found.reason:
                length = found.start - line.offset if found.entry is not None else len(line.data)
                self.problems.append(Problem(found.reason, path=path, offset=line.offset, length=length))
            if found.entry is not None:
                yield found.entry
