"""Reading a session's log: the archive's segments that are needed, then the active one.

The active segment is opened first and read as long as it was then; a seal that happens meanwhile only moves
what is already open. Damage is skipped and told in `problems`; so are entries that are not where their
neighbours say that they should be.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from itertools import chain

from stratalog import osfiles
from stratalog.errors import DamagedLog
from stratalog.keys import SessionKey, SessionPaths
from stratalog.log import archive, codec
from stratalog.log.contract import Problem
from stratalog.log.segment import (
    TORN,
    Line,
    found_in,
    header_of,
    lines,
    lines_back,
    lines_of,
    offset_of,
    settled,
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
    """The log of `key` open for reading; None when there is none.

    Raises as `header_of`, and `StorageFailed`.
    """
    try:
        fd = os.open(paths.log, os.O_RDONLY | os.O_CLOEXEC)
        opened = OpenLog(key, paths, fd)
        if opened.size:  # an empty file is none that we made, and nothing is in it
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
        if opened.size == 0:
            self._report("the log is empty, without a header", str(opened.paths.log))

    def entries(self) -> Iterator[AnyEntry]:
        """The entries as stored; closes the log at the end."""
        log, after, before = self.opened, self.after, self.before
        try:
            active = self._entries_in(self._active_lines(), str(log.paths.log))
            sealed = self._sealed_entries()
            found = chain(active, sealed) if self.reverse else chain(sealed, active)
            yield from self._without_gaps(
                entry for entry in found if after < entry.seq and (before is None or entry.seq < before)
            )
        except OSError as error:
            raise failed(error, "reading a log", log.paths.log) from error
        finally:
            log.close()

    def _without_gaps(self, entries: Iterator[AnyEntry]) -> Iterator[AnyEntry]:
        """The same entries; what is missing between them, and was not reported as damaged, is a problem."""
        low, high = self.after, self.opened.header.base  # what lies between must be there
        if self.before is not None:
            high = min(high, self.before)
        told = len(self.problems)
        last = None
        for entry in entries:
            if last is None:
                gap = (entry.seq, high) if self.reverse else (low, entry.seq)
            else:
                gap = (entry.seq, last) if self.reverse else (last, entry.seq)
            self._gap(*gap, told)
            last = entry.seq
            yield entry
            told = len(self.problems)
        if self.reverse:
            self._gap(low, high if last is None else last, told)
        else:
            self._gap(low if last is None else last, high, told)

    def _gap(self, low: int, high: int, told: int) -> None:
        if high - low > 1 and len(self.problems) == told:
            self._report(f"entries {low + 1} to {high - 1} are missing", str(self.opened.paths.log))

    def _report(self, reason: str, path: str, offset: int = 0, length: int = 0) -> None:
        self.problems.append(
            Problem(reason, path=path, offset=offset, length=length, key=str(self.opened.key))
        )

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
        start, stop = log.body, settled(log.fd, log.body, log.size)
        if stop < log.size and self._nobody_writes():
            self._report(TORN, str(log.paths.log), stop, log.size - stop)
        if self.after >= log.header.base:
            start = offset_of(log.fd, start, stop, self.after + 1)
        if self.before is not None:
            stop = offset_of(log.fd, start, stop, self.before, beyond=True)
        return (lines_back if self.reverse else lines)(log.fd, start, stop)

    def _nobody_writes(self) -> bool:
        """Whether what is unfinished was left so by a crash, and is not just being written."""
        log = self.opened
        if not osfiles.try_lock(log.fd):
            return False
        try:
            return os.fstat(log.fd).st_size == log.size
        finally:
            osfiles.unlock(log.fd)

    def _pieces(self) -> list[archive.Piece]:
        """The sealed segments that hold some of the entries, in reading order."""
        log = self.opened
        if self.after + 1 >= log.header.base:
            return []
        known = [piece for piece in archive.pieces(log.paths.archive) if piece.segment < log.header.segment]
        if not known:  # the archive is gone, by hand or by a deletion meanwhile: the gap is told
            return []
        ends = [piece.base for piece in known[1:]] + [log.header.base]
        needed = [
            piece
            for piece, end in zip(known, ends, strict=True)
            if end > self.after + 1 and (self.before is None or piece.base < self.before)
        ]
        return needed[::-1] if self.reverse else needed

    def _sealed_entries(self) -> Iterator[AnyEntry]:
        """Those of the sealed segments, whose directory is looked at only by one who gets so far."""
        for piece in self._pieces():
            yield from self._piece(piece)

    def _piece(self, piece: archive.Piece) -> Iterator[AnyEntry]:
        try:
            found = lines_of(archive.load(piece))[1:]
        except (codec.BadLine, OSError) as error:
            self._report(f"a sealed segment cannot be read: {error}", str(piece.path))
            return
        yield from self._entries_in(reversed(found) if self.reverse else found, str(piece.path))

    def _entries_in(self, source: Iterable[Line], path: str) -> Iterator[AnyEntry]:
        for line in source:
            for found in reversed(found_in(line)) if self.reverse else found_in(line):
                if found.entry is not None:
                    yield found.entry
                else:
                    self._report(found.reason, path, found.start, found.stop - found.start)
