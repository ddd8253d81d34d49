"""One log open for writing: its lock, what is known of it, and every way in which its file changes.

Each change takes the kernel's lock on the file, looks whether another process wrote meanwhile, and either
takes place or is undone. The file at the log's path may be replaced (a seal, a new generation, a rotation),
so an append checks before and after that the file it has open is still the one at the path. That also settles
what a process does that was stopped in the middle of an append: after `lock_timeout` the next writer copies
the log to a new file (`_rotate`), and the stopped one finds on waking that its file is no longer the log; it
then looks for its entries in the new one and, if they are not there, appends them anew or is refused for its
old fence. Before the copy, the old file gets the sticky bit, which means nothing on a file: what is written
under it is not acknowledged, so that nothing acknowledged can miss the copy.

A lock on a log is taken before that of its directory, never after.
"""

from __future__ import annotations

import os
import stat
import threading
import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import msgspec

from stratalog import osfiles
from stratalog.errors import ForeignFile, NewerFormat, StorageFailed, StratalogError
from stratalog.ids import now_ms
from stratalog.keys import SessionKey, SessionPaths
from stratalog.log import archive, codec, repair
from stratalog.log.contract import Head, OnProblem, OnWrite, Problem, Sync
from stratalog.log.fences import first_fence, gone, refuse_stale
from stratalog.log.reading import LogReader, open_log
from stratalog.log.segment import (
    entries_of,
    found_back,
    header_of,
    last_newline,
    latest_fence,
    lines,
    settled,
)
from stratalog.osfiles import failed
from stratalog.points import reach
from stratalog.types import AnyEntry, TurnEnd, TurnStart

DELETED = ".deleted"


class Options(NamedTuple):
    """How a store writes; see `JsonlStore`."""

    sync: Sync
    interval: float
    blob_threshold: int
    lock_timeout: float
    on_write: OnWrite
    on_problem: OnProblem


class Request:
    """One append that waits to be committed."""

    __slots__ = ("done", "entries", "error", "fence", "stored")

    def __init__(self, entries: Sequence[AnyEntry], fence: int | None) -> None:
        self.entries = entries
        self.fence = fence
        self.stored: list[AnyEntry] = []
        self.error: StratalogError | None = None
        self.done = False


class Plan(NamedTuple):
    """Entries as they will be stored, their lines and payloads, and the seq and fence they leave."""

    stored: list[AnyEntry]
    lines: list[bytes]
    blobs: dict[str, bytes]
    seq: int
    fence: int


class LogFile:
    """What this process knows of one log, and the file when it is open. Everything is used under `mutex`."""

    def __init__(self, key: SessionKey, paths: SessionPaths, options: Options) -> None:
        self.key = key
        self.paths = paths
        self.options = options
        self.mutex = threading.Lock()
        self.queue: deque[Request] = deque()
        self.evicted = False
        self.header = codec.NO_HEADER
        self.end = 0
        self.seq = 0
        self._fd = -1
        self._ino = (0, 0)
        self._body = 0
        self._fence: int | None = None  # not looked up yet
        self._named = False  # whether its name is known to be on the disk
        self._synced = 0.0

    def close(self) -> None:
        """Closes the file, synced, which also gives its lock back. The next use opens it again."""
        try:
            if self._fd >= 0 and self.options.sync in ("turn", "interval"):
                osfiles.sync(self._fd)
        except OSError as error:
            raise failed(error, "closing a log", self.paths.log) from error
        finally:
            self.forget()

    def forget(self) -> None:
        """Closes the file whatever state it is in."""
        if self._fd >= 0:
            # Forgotten first: a Ctrl-C in between must not have it closed twice.
            fd, self._fd, self._ino = self._fd, -1, (0, 0)
            repair.release(fd)

    def abandon(self) -> None:
        """Closes the file in a forked child: its lock is the parent's."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def unlock(self) -> None:
        """Gives the lock back; the file stays open."""
        if self._fd >= 0:
            try:
                osfiles.unlock(self._fd)
            except OSError:  # closing does it too
                self.forget()

    def head(self) -> Head:
        """Where the log stands. The lock is held."""
        return Head(self.seq, self.latest_fence(), self.header.generation, self.header.first)

    def latest_fence(self) -> int:
        """The fence of the last turn that began. The lock is held."""
        if self._fence is None:
            try:
                self._fence = latest_fence(self._fd, self._body, self.end, self.header.fence)
            except OSError as error:
                raise failed(error, "reading a log", self.paths.log) from error
        return self._fence

    def offset_of(self, entry_id: str) -> int | None:
        """Where the entry's line begins; None when it is not here, or is the first. The lock is held."""
        try:
            for line, found in found_back(self._fd, self._body, self.end):
                if found.entry is not None and found.entry.id == entry_id:
                    return line.offset if line.offset > self._body else None
        except OSError as error:
            raise failed(error, "reading a log", self.paths.log) from error
        return None

    def lock(self) -> bool:
        """Opens the log, locks it and learns what others wrote; False when there is none."""
        try:
            while True:
                if self._fd < 0 and not self._open():
                    return False
                if not osfiles.wait_lock(self._fd, self.options.lock_timeout):
                    self._rotate()
                    self.forget()
                    continue
                try:
                    now = os.stat(self.paths.log)
                except FileNotFoundError:
                    self.forget()
                    return False
                if (now.st_dev, now.st_ino) != self._ino or (
                    now.st_mode & stat.S_ISVTX and not self._finish_rotation()
                ):
                    self.forget()
                    continue
                if now.st_size != self.end:
                    self._learn(now.st_size)
                return True
        except OSError as error:
            self.forget()
            raise failed(error, "opening a log", self.paths.log) from error

    def _open(self) -> bool:
        try:
            fd = os.open(self.paths.log, os.O_RDWR | os.O_APPEND | os.O_CLOEXEC)
        except FileNotFoundError:
            return False
        try:
            info = os.fstat(fd)
            if info.st_size == 0:  # no header: there is nothing in it to lose, `create` replaces it
                os.close(fd)
                return False
            header, body = header_of(fd, str(self.paths.log), str(self.key))
        except (OSError, ForeignFile, NewerFormat):
            os.close(fd)
            raise
        self._fd, self._ino = fd, (info.st_dev, info.st_ino)
        self.header, self._body = header, body
        self.end, self.seq, self._fence = -1, header.base - 1, None
        self._named = False
        return True

    def _learn(self, size: int) -> None:
        """Brings what is known up to the file as it is; the lock is held, so an unfinished tail is torn."""
        known = self.end
        end = settled(self._fd, self._body, size)
        if end < size:
            self._cut_tail(end, size)
        elif end > self._body and os.pread(self._fd, 1, end - 1) != b"\n":
            # Whole but for its line break, which an editor may have taken: it is completed, not cut.
            osfiles.write_all(self._fd, b"\n")
            osfiles.sync(self._fd)
            end += 1
        # What is damaged at the end stays where it is and keeps its numbers.
        damaged = 0
        self.seq = self.header.base - 1
        for _, found in found_back(self._fd, self._body, end):
            if found.entry is not None:
                self.seq = found.entry.seq
                break
            damaged += found.stop > found.start
        self.seq += damaged
        self.end = end
        if known < 0 or end < known:
            self._fence = None
        elif self._fence is not None:
            self._fence = latest_fence(self._fd, known, end, self._fence)

    def _cut_tail(self, end: int, size: int) -> None:
        torn = os.pread(self._fd, size - end, end)
        problem = Problem(
            "the end of the log was torn (a crash in the middle of a write); moved to quarantine",
            path=str(self.paths.log),
            offset=end,
            length=len(torn),
            key=str(self.key),
        )
        where = repair.quarantine(self.paths, torn, problem)
        os.ftruncate(self._fd, end)
        osfiles.sync(self._fd)
        self.options.on_problem(msgspec.structs.replace(problem, quarantine=str(where)))

    def _rotate(self) -> None:
        """Makes a copy of the log the log, because somebody keeps the old file locked and does not move.

        Nothing acknowledged is lost: who holds the old file acknowledges only after seeing that it is still
        the log and has no sticky bit, so all such entries are in it before the copy begins.
        """
        path = self.paths.log
        with osfiles.locked_dir(path.parent, self.options.lock_timeout):
            if not self.at_path():
                return
            scratch = osfiles.temporary(path)
            fd = osfiles.open_new(scratch)
            renamed = False
            try:
                os.fchmod(self._fd, 0o600 | stat.S_ISVTX)
                _copy(self._fd, fd, 0, settled(self._fd, self._body, os.fstat(self._fd).st_size))
                osfiles.sync(fd)
                reach("rotate.written")
                os.rename(scratch, path)
                renamed = True
                reach("rotate.renamed")
                osfiles.sync_dir(path.parent)
            finally:
                if not renamed:
                    os.fchmod(self._fd, 0o600)
                    osfiles.remove(scratch)
                os.close(fd)
        self.options.on_problem(
            Problem(
                f"a writer kept the log locked for over {self.options.lock_timeout:g} s and was left behind",
                path=str(path),
                key=str(self.key),
            )
        )

    def _finish_rotation(self) -> bool:
        """Waits for who copies the log; True if it died before the end, and this file is still the log."""
        with osfiles.locked_dir(self.paths.log.parent, self.options.lock_timeout):
            if not self.at_path():
                return False
            os.fchmod(self._fd, 0o600)
            return True

    def at_path(self) -> bool:
        """Whether the open file is the one at the log's path. Raises `OSError`."""
        try:
            now = os.stat(self.paths.log)
        except FileNotFoundError:
            return False
        return (now.st_dev, now.st_ino) == self._ino

    def commit(self, batch: list[Request]) -> None:
        """Writes the requests of `batch`, each wholly or with its error set."""
        while True:
            waiting = [request for request in batch if request.error is None and not request.done]
            try:
                if not self.lock():
                    for request in waiting:
                        if request.fence is not None:
                            request.error = gone(self.key, request.fence)
                    waiting = [request for request in waiting if request.error is None]
                    if waiting and self.create((), waiting) is None:
                        continue
                    break
                try:
                    self._settle(waiting)
                    if self._write([request for request in waiting if not request.done]):
                        break
                finally:
                    self.unlock()
                self.forget()
            except StratalogError as error:
                for request in waiting:
                    if not request.done:
                        request.error = request.error or error
                break
        for request in batch:
            request.done = True

    def _write(self, requests: list[Request]) -> bool:
        """Writes the requests; False if meanwhile the file was replaced as the log."""
        chunks: list[bytes] = []
        blobs: dict[str, bytes] = {}
        seq, wants_sync = self.seq, self.options.sync == "always"
        # Looking the fence up reads the log's tail: only for what depends on it.
        fenced = any(
            request.fence is not None or any(isinstance(entry, TurnStart) for entry in request.entries)
            for request in requests
        )
        fence = self.latest_fence() if fenced else 0
        for request in requests:
            try:
                if request.fence is not None:
                    refuse_stale(self.key, request.fence, fence)
                plan = self._plan(request.entries, seq, fence)
            except StratalogError as error:
                request.error = error
                continue
            request.stored = plan.stored
            chunks += plan.lines
            blobs |= plan.blobs
            seq, fence = plan.seq, plan.fence
            wants_sync = wants_sync or (
                self.options.sync == "turn" and any(isinstance(e, TurnEnd) for e in plan.stored)
            )
        if not chunks:
            return True
        end = self.end
        written = False
        try:
            self.options.on_write(self.key)
            self._write_blobs(blobs)
            data = b"".join(chunks)
            osfiles.write_all(self._fd, data)
            reach("append.written")
            if self.options.sync == "interval":
                wants_sync = time.monotonic() - self._synced > self.options.interval
            if wants_sync:
                osfiles.sync(self._fd)
                if not self._named:  # who made or replaced the file may have died before it synced this
                    osfiles.sync_dir(self.paths.log.parent)
                    self._named = True
                self._synced = time.monotonic()
            reach("append.synced")
            still = self._still_the_log()
            self.end = end + len(data)
            self.seq = seq
            if fenced:
                self._fence = fence
            written = True
        except OSError as error:
            raise failed(error, "appending to a log", self.paths.log) from error
        finally:
            if not written:
                self._undo(end)
        return still

    def _plan(self, entries: Iterable[AnyEntry], seq: int, fence: int) -> Plan:
        stored: list[AnyEntry] = []
        bodies: list[bytes] = []
        blobs: dict[str, bytes] = {}
        now = now_ms()
        for entry in entries:
            seq += 1
            if isinstance(entry, TurnStart):
                fence += 1
            whole, body = codec.encode(codec.stamp(entry, seq, now, fence))
            if len(body) > self.options.blob_threshold:
                short, payloads = codec.externalise(whole, self.options.blob_threshold)
                if payloads:
                    blobs |= payloads
                    body = codec.encode(short)[1]
            stored.append(whole)
            bodies.append(body)
        return Plan(stored, codec.lines_of_append(bodies), blobs, seq, fence)

    def _undo(self, end: int) -> None:
        """Cuts the file back after a write that failed; should that fail too, the next open sees to it."""
        try:
            os.ftruncate(self._fd, end)
        except OSError:
            self.forget()

    def _still_the_log(self) -> bool:
        """Whether what was written can be acknowledged; see `_rotate`. Raises `OSError`."""
        try:
            now = os.stat(self.paths.log)
        except FileNotFoundError:
            return False
        return (now.st_dev, now.st_ino) == self._ino and not now.st_mode & stat.S_ISVTX

    def _settle(self, requests: list[Request]) -> None:
        """Of requests that were written once, but to a file that was being replaced: which are in the log?"""
        tried = [request for request in requests if request.stored]
        if not tried:
            return
        after = min(request.stored[0].seq for request in tried) - 1
        opened = open_log(self.key, self.paths)
        reader = LogReader(opened, after, None, False, True) if opened is not None else None
        present = {entry.id for entry in reader.entries()} if reader is not None else set()
        for request in tried:
            request.done = all(entry.id in present for entry in request.stored)
            request.entries = request.stored  # with the same ids, should they be written again

    def _write_blobs(self, blobs: dict[str, bytes]) -> None:
        if not blobs:
            return
        directory = self.paths.blobs
        osfiles.make_dir(directory)
        found = False
        for digest, payload in blobs.items():
            target = directory / digest
            if _holds(target, payload):
                found = True
            else:
                osfiles.replace_file(target, payload)
            reach("append.blob")
        if found:  # who wrote it may have died before it synced the name
            osfiles.sync_dir(directory)

    def _write_each(self, fd: int, entries: Iterable[AnyEntry], seq: int, fence: int) -> tuple[int, int]:
        """Writes entries one by one, however many there are, to a file that is not yet the log; returns the
        seq and the fence that they leave."""
        for entry in entries:
            plan = self._plan((entry,), seq, fence)
            self._write_blobs(plan.blobs)
            osfiles.write_all(fd, plan.lines[0])
            seq, fence = plan.seq, plan.fence
        return seq, fence

    def create(self, entries: Iterable[AnyEntry], requests: Sequence[Request] = ()) -> Head | None:
        """Makes the log with its first entries, whole or not at all; None when somebody else was first."""
        paths = self.paths
        scratch: Path | None = None
        renamed = False
        fd = -1
        try:
            osfiles.make_dir(paths.log.parent)
            with osfiles.locked_dir(paths.log.parent, self.options.lock_timeout):
                finish_delete(paths)
                if paths.log.exists() and paths.log.stat().st_size:
                    return None
                header = self._first_header()
                scratch = osfiles.temporary(paths.log)
                fd = osfiles.open_new(scratch)
                osfiles.try_lock(fd)  # until it is certain, nobody writes to it
                osfiles.write_all(fd, codec.header_line(header))
                seq, fence = header.base - 1, header.fence
                for request in requests:
                    try:
                        plan = self._plan(request.entries, seq, fence)
                    except StratalogError as error:
                        request.error = error
                        continue
                    request.stored = plan.stored
                    self._write_blobs(plan.blobs)
                    osfiles.write_all(fd, b"".join(plan.lines))
                    seq, fence = plan.seq, plan.fence
                seq, fence = self._write_each(fd, entries, seq, fence)
                head = Head(seq, fence, header.generation, header.first)
                if requests and all(request.error for request in requests):
                    return head  # of nothing: all were refused
                if self.options.sync != "never":
                    osfiles.sync(fd)
                reach("create.written")
                self.options.on_write(self.key)
                os.rename(scratch, paths.log)
                renamed = True
                reach("create.renamed")
                osfiles.sync_dir(paths.log.parent)
                renamed = False
                return head
        except OSError as error:
            raise failed(error, "making a log", paths.log) from error
        finally:
            with suppress(OSError):  # the next sweep does it
                if scratch is not None:
                    osfiles.remove(scratch)
                if renamed:  # its name may not be on the disk: it is as if it had not been made
                    osfiles.remove(paths.log)
            if fd >= 0:
                repair.release(fd)

    def _first_header(self) -> codec.Header:
        header = codec.Header(
            format=codec.FORMAT,
            key=str(self.key),
            segment=1,
            generation=1,
            base=1,
            fence=first_fence(),
            created=now_ms(),
            first=1,
        )
        sealed = archive.pieces(self.paths.archive)
        if not sealed:
            return header
        # The log itself was lost, its archive was not: go on after it.
        last, own = repair.last_of(sealed[-1])
        return msgspec.structs.replace(
            header,
            segment=sealed[-1].segment + 1,
            generation=own.generation + 1,
            base=last + 1,
            first=last + 1,
        )

    def reseal(self, cut: int, *, new_generation: bool, entries: Iterable[AnyEntry]) -> Head | None:
        """Moves the lines before `cut` into the archive and makes a new active segment of the rest.

        The archive gets its copy first, then the new segment takes the log's name: at any moment every entry
        is in one of them. None if the file was replaced meanwhile, with nothing done. The caller holds the
        log's lock and closes the file.
        """
        paths, old = self.paths, self.header
        scratch: Path | None = None
        made: list[Path] = []
        renamed = False
        fd = -1
        try:
            with osfiles.locked_dir(paths.log.parent, self.options.lock_timeout):
                if not self.at_path():
                    return None
                repair.clear_leftovers(self._fd, self.header, self._body, self.end, paths)
                base, segment = old.base, old.segment
                if cut > self._body:
                    osfiles.make_dir(paths.archive)
                for start, stop, first in _cuts(self._fd, self._body, cut, old.base):
                    target = archive.piece_path(paths.archive, segment, first)
                    piece_header = msgspec.structs.replace(old, segment=segment, base=first)
                    data = codec.header_line(piece_header) + os.pread(self._fd, stop - start, start)
                    made.append(target)
                    osfiles.replace_file(target, data)
                    segment += 1
                reach("seal.archived")
                if cut > self._body:
                    kept = next((entries_of(line) for line in lines(self._fd, cut, self.end)), [])
                    base = kept[0].seq if kept else self.seq + 1
                fence = self.latest_fence()
                header = msgspec.structs.replace(old, segment=segment, base=base, fence=fence)
                if new_generation:
                    header = msgspec.structs.replace(
                        header,
                        generation=old.generation + 1,
                        first=self.seq + 1,
                        fence=fence + 1,
                        created=now_ms(),
                    )
                    fence += 1
                scratch = osfiles.temporary(paths.log)
                fd = osfiles.open_new(scratch)
                osfiles.write_all(fd, codec.header_line(header))
                _copy(self._fd, fd, cut, self.end)
                seq, fence = self._write_each(fd, entries, self.seq, fence)
                osfiles.sync(fd)
                reach("seal.written")
                if new_generation:
                    self.options.on_write(self.key)
                os.rename(scratch, paths.log)
                renamed = True
                reach("seal.renamed")
                osfiles.sync_dir(paths.log.parent)
                return Head(seq, fence, header.generation, header.first)
        except OSError as error:
            if renamed:
                raise StorageFailed(
                    f"the new segment is in place, but the system refused to confirm it: {error.strerror}",
                    path=str(paths.log),
                    hint="check the disk; nothing is lost unless the power fails now",
                ) from error
            raise failed(error, "sealing a log", paths.log) from error
        finally:
            with suppress(OSError):  # the next seal or sweep does it
                if scratch is not None:
                    osfiles.remove(scratch)
                if not renamed:
                    for path in made:
                        osfiles.remove(path)
            if fd >= 0:
                os.close(fd)


def belongings(paths: SessionPaths) -> bool:
    """Whether there is something of a session besides its log."""
    return any(path.exists() for path in (paths.archive, paths.blobs, paths.quarantine))


def finish_delete(paths: SessionPaths) -> bool:
    """Removes the rest of a deleted session; False if there is none. The directory's lock is held."""
    grave = paths.log.with_suffix(DELETED)
    if not grave.exists():
        return False
    osfiles.remove_dir(paths.archive)
    reach("delete.archive")
    osfiles.remove_dir(paths.blobs)
    osfiles.remove_dir(paths.quarantine)
    osfiles.remove(paths.meta)
    osfiles.remove(paths.lock)
    osfiles.remove(grave)
    osfiles.sync_dir(grave.parent)
    return True


def _holds(path: Path, payload: bytes) -> bool:
    """Whether the file has this payload; one that is damaged is written anew."""
    try:
        return path.stat().st_size == len(payload) and path.read_bytes() == payload
    except FileNotFoundError:
        return False


def _copy(source: int, target: int, start: int, end: int) -> None:
    while start < end:
        chunk = os.pread(source, min(1_048_576, end - start), start)
        if not chunk:
            break
        osfiles.write_all(target, chunk)
        start += len(chunk)


def _cuts(fd: int, start: int, end: int, base: int) -> Iterator[tuple[int, int, int]]:
    """`[start, end)` in pieces that end at line ends: where each starts and stops, and its first seq."""
    while start < end:
        stop = end
        if end - start > archive.PIECE:
            stop = last_newline(fd, start, start + archive.PIECE)
            if stop == start:
                stop = next((line.offset + len(line.data) + 1 for line in lines(fd, start, end)), end)
        yield start, stop, base
        last = next((found.entry for _, found in found_back(fd, start, stop) if found.entry), None)
        base = last.seq + 1 if last is not None else base
        start = stop
