"""The default log: one file of JSON lines per session, opened by any editor, durable when an append returns.

The store keeps a bounded number of logs open. Threads of one process that append to the same session share
the write and the sync: whoever gets the log's mutex commits all that wait for it.
"""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Literal, get_args

from stratalog import osfiles
from stratalog.errors import DamagedLog, ForeignFile, InvalidConfig, StorageFailed, StratalogError
from stratalog.keys import SessionKey, SessionPaths, parse_key, paths_of_stem, session_paths, tenant_path
from stratalog.log import archive, codec, repair
from stratalog.log.contract import Head, OnProblem, OnWrite, Problem, Reading, Sync, Verification
from stratalog.log.fences import gone, refuse_stale
from stratalog.log.reading import LogReader, open_log
from stratalog.log.segment import header_of
from stratalog.log.writer import DELETED, LogFile, Options, Request, belongings, finish_delete
from stratalog.osfiles import failed
from stratalog.points import reach
from stratalog.types import AnyEntry, Blob


class _Open:
    """What one process has open. A forked child starts with nothing: locks belong to the open files, and a
    mutex may have been held at the fork by a thread that the child does not have."""

    def __init__(self) -> None:
        self.mutex = threading.Lock()
        self.logs: OrderedDict[SessionKey, LogFile] = OrderedDict()


class JsonlStore:
    """Logs under the data directory `root`, which is made when first written to.

    `sync` says when an append is on the disk: `always` before it returns; `turn` when it ends a turn;
    `interval` when `interval` seconds have passed since the last time; `never` leaves it to the system.
    With all but `always`, a power cut takes what was not synced yet; a killed process loses nothing.
    `blob_threshold` is the size in bytes from which a payload goes into a file of its own.
    `on_write(key)` runs inside each write's lock, before the bytes; `on_problem` hears of what a write had
    to repair. `lock_timeout`, seconds, is how long to wait for a writer before it is taken for stopped.
    """

    def __init__(
        self,
        root: Path | str,
        *,
        sync: Sync = "always",
        interval: float = 1.0,
        blob_threshold: int = codec.BLOB_THRESHOLD,
        lock_timeout: float = 10.0,
        max_open: int = 256,
        on_write: OnWrite | None = None,
        on_problem: OnProblem | None = None,
    ) -> None:
        if sync not in get_args(Sync):
            raise InvalidConfig(f"sync is one of {', '.join(get_args(Sync))}", sync=ascii(sync))
        self.root = Path(root)
        self.max_open = max_open
        self._options = Options(
            sync,
            interval,
            blob_threshold,
            lock_timeout,
            on_write or (lambda key: None),
            on_problem or (lambda problem: None),
        )
        self._open: dict[int, _Open] = {}

    # --- the contract ---

    def append(
        self, key: SessionKey, entries: Sequence[AnyEntry], *, fence: int | None = None
    ) -> list[AnyEntry]:
        if not entries:
            return []
        request = Request(entries, fence)
        while not request.done:
            log = self._log(key)
            log.queue.append(request)
            with log.mutex:
                if request.done or log.evicted:
                    continue
                batch = [waiting for waiting in log.queue if not waiting.done]
                log.queue.clear()
                # A leader that was interrupted leaves the others of its batch neither done nor queued.
                log.commit(batch if request in batch else [*batch, request])
        if request.error is not None:
            raise request.error
        return request.stored

    def read(
        self,
        key: SessionKey,
        *,
        after: int = 0,
        before: int | None = None,
        reverse: bool = False,
        blobs: bool = True,
        generations: Literal["current", "all"] = "current",
    ) -> Reading:
        paths = session_paths(self.root, key)
        opened = open_log(key, paths)
        if opened is None:
            lost = archive.pieces(paths.archive) and not paths.log.with_suffix(DELETED).exists()
            problem = Problem("the log is gone; its archive is there", path=str(paths.log), key=str(key))
            return Reading(iter(()), [problem] if lost else [])
        reader = LogReader(opened, after, before, reverse, generations == "all")
        entries = reader.entries()
        if blobs:
            entries = reader.resolved(entries, lambda blob: self.blob(key, blob))
        return Reading(entries, reader.problems)

    def head(self, key: SessionKey) -> Head | None:
        with self._held(key) as log:
            if not log.lock():
                return None
            try:
                return log.head()
            finally:
                log.unlock()

    def replace(self, key: SessionKey, entries: Iterable[AnyEntry], *, fence: int | None = None) -> Head:
        with self._held(key) as log:
            head: Head | None = None
            while head is None:
                if log.lock():
                    try:
                        if fence is not None:
                            refuse_stale(key, fence, log.latest_fence())
                        head = log.reseal(log.end, new_generation=True, entries=entries)
                    finally:
                        log.forget()
                elif fence is not None:
                    raise gone(key, fence)
                else:
                    head = log.create(entries)
            return head

    def delete(self, key: SessionKey) -> bool:
        paths = session_paths(self.root, key)
        if not paths.log.parent.is_dir():
            return False
        with self._held(key) as log:
            done: bool | None = None
            while done is None:
                try:
                    log.lock()
                    with self._locked_dir(paths):
                        done = self._delete(key, paths, log)
                except FileNotFoundError:  # the directory went meanwhile
                    return False
                except OSError as error:
                    raise failed(error, "deleting a session", paths.log) from error
                finally:
                    log.forget()
        return done

    def _delete(self, key: SessionKey, paths: SessionPaths, log: LogFile) -> bool | None:
        """Deletes what is there, under both locks; None if the log was replaced since it was locked."""
        try:
            finished = finish_delete(paths)
            grave = paths.log.with_suffix(DELETED)
            size = paths.log.stat().st_size if paths.log.exists() else None
            if size and not log.at_path():
                return None
            if size is None and not belongings(paths):
                return finished
            self._options.on_write(key)
            if size is None:
                os.close(osfiles.open_new(grave))
            else:
                os.rename(paths.log, grave)
        except OSError as error:
            raise failed(error, "deleting a session", paths.log) from error
        try:
            osfiles.sync_dir(paths.log.parent)
            reach("delete.renamed")
            finish_delete(paths)
            reach("delete.done")
        except OSError as error:
            raise StorageFailed(
                f"the session is deleted, but the system refused to remove all of it: {error.strerror}",
                path=str(grave),
                hint="delete it once more, or run `stratalog doctor --repair`",
            ) from error
        return True

    def sessions(self, tenant: str | None = None) -> Iterator[SessionKey]:
        for path in self._files(tenant, "*.jsonl"):
            try:
                fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            except FileNotFoundError:  # deleted since the directory was read
                continue
            except OSError as error:
                self._options.on_problem(Problem(f"cannot be opened: {error.strerror}", path=str(path)))
                continue
            try:
                header, _ = header_of(fd, str(path), None)
                key = parse_key(header.key)
                if session_paths(self.root, key).log != path:
                    raise ForeignFile("this file holds the log of another session", path=path, holds=key)
            except (StratalogError, OSError) as error:
                self._options.on_problem(Problem(str(error), path=str(path), line=1))
                continue
            finally:
                os.close(fd)
            yield key

    # --- capabilities ---

    def seal(self, key: SessionKey, first_kept: str) -> bool:
        """Moves what lies before the entry `first_kept` into the archive; what is read does not change."""
        with self._held(key) as log:
            while log.lock():
                try:
                    cut = log.offset_of(first_kept)
                    if cut is None:
                        return False
                    if log.reseal(cut, new_generation=False, entries=()) is not None:
                        return True
                finally:
                    log.forget()
        return False

    def compress(self, key: SessionKey) -> int:
        """Compresses the archive's plain segments, one after another; returns the bytes saved."""
        paths = session_paths(self.root, key)
        opened = open_log(key, paths)
        if opened is None:
            return 0
        active, saved = opened.header.segment, 0
        opened.close()
        try:
            for piece in archive.pieces(paths.archive):
                if not piece.compressed and piece.segment < active:
                    saved += self._compress(paths, piece)
        except OSError as error:
            raise failed(error, "compressing a segment", paths.archive) from error
        return saved

    def _compress(self, paths: SessionPaths, piece: archive.Piece) -> int:
        try:
            before = piece.path.stat()
            data = piece.path.read_bytes()
        except FileNotFoundError:  # compressed or deleted by another
            return 0
        packed = archive.compress(data)
        if archive.decompress(packed) != data:
            raise DamagedLog("a segment did not survive compression; it was kept", path=str(piece.path))
        with self._locked_dir(paths):
            # Meanwhile it may have been repaired, or deleted with its session, and another made.
            try:
                now = piece.path.stat()
            except FileNotFoundError:
                return 0
            if (now.st_ino, now.st_mtime_ns) != (before.st_ino, before.st_mtime_ns):
                return 0
            osfiles.replace_file(archive.packed_path(piece.path), packed, point="compress")
            osfiles.remove(piece.path)
        return len(data) - len(packed)

    def blob(self, key: SessionKey, blob: Blob) -> bytes:
        """The payload that `blob` names, checked. Raises `DamagedLog`."""
        path = session_paths(self.root, key).blobs / codec.blob_name(blob)
        try:
            return codec.check_blob(blob, path.read_bytes(), str(path))
        except OSError as error:
            raise DamagedLog(
                f"a payload kept beside the log cannot be read: {error.strerror}", path=str(path)
            ) from error

    def verify(self, key: SessionKey) -> Verification:
        """Reads everything of the session again and says what is wrong; changes nothing."""
        with self._held(key):
            return repair.verify(key, session_paths(self.root, key), self._options.lock_timeout)

    def repair(self, key: SessionKey) -> list[Problem]:
        """Moves every damaged byte of the session's log into its quarantine, and marks the place in the log.

        Returns what was moved. Raises `ForeignFile` and `NewerFormat` for what is not this version's log.
        """
        paths = session_paths(self.root, key)
        if not paths.log.parent.is_dir():
            return []
        with self._held(key) as log:
            log.close()
            return repair.repair(key, paths, self._options.lock_timeout)

    def unfinished_files(self, tenant: str | None = None) -> Iterator[Path]:
        """Files that a crash left half made or half deleted; nothing reads them."""
        yield from self._files(tenant, f"**/*{osfiles.TEMPORARY}*")
        yield from self._files(tenant, f"*{DELETED}")

    def sweep(self, tenant: str | None = None) -> int:
        """Removes what `unfinished_files` names; returns how many. Only while no other process writes."""
        count = 0
        for path in list(self._files(tenant, f"**/*{osfiles.TEMPORARY}*")):
            osfiles.remove(path)
            count += 1
        return count + self.finish_deletions(tenant)

    def finish_deletions(self, tenant: str | None = None) -> int:
        """Removes what is left of sessions whose deletion a crash cut short; returns of how many."""
        count = 0
        for path in list(self._files(tenant, f"*{DELETED}")):
            paths = paths_of_stem(path.with_suffix(""))
            with self._locked_dir(paths):
                count += finish_delete(paths)
        return count

    def close(self) -> None:
        """Closes every file, synced. The store may be used again."""
        here = self._here()
        with here.mutex:
            logs = list(here.logs.values())
            here.logs.clear()
        error: StorageFailed | None = None
        for log in logs:
            with log.mutex:
                log.evicted = True
                try:
                    log.close()
                except StorageFailed as raised:
                    error = raised
        if error is not None:
            raise error

    # --- what is open ---

    def _here(self) -> _Open:
        """What this process has open."""
        pid = os.getpid()
        found = self._open.get(pid)
        if found is None:
            found = self._open.setdefault(pid, _Open())
            for other in [other for other in self._open if other != pid]:
                parents = self._open.pop(other, None)
                for log in parents.logs.values() if parents is not None else ():
                    log.abandon()
        return found

    def _log(self, key: SessionKey) -> LogFile:
        here = self._here()
        with here.mutex:
            found = here.logs.get(key)
            if found is not None:
                here.logs.move_to_end(key)
                return found
            log = LogFile(key, session_paths(self.root, key), self._options)
            here.logs[key] = log
            if len(here.logs) > self.max_open:
                self._evict(here.logs)
            return log

    @contextmanager
    def _held(self, key: SessionKey) -> Iterator[LogFile]:
        """The open log of `key`, with its mutex."""
        while True:
            log = self._log(key)
            with log.mutex:
                if not log.evicted:
                    yield log
                    return

    def _evict(self, logs: OrderedDict[SessionKey, LogFile]) -> None:
        """Closes the logs that were not used for longest, but never one that somebody uses."""
        for key, log in list(logs.items())[: len(logs) - self.max_open]:
            if log.mutex.acquire(blocking=False):
                try:
                    if not log.queue:
                        log.evicted = True
                        del logs[key]
                        log.close()
                except StorageFailed as error:
                    self._options.on_problem(Problem(str(error), path=str(log.paths.log), key=str(key)))
                finally:
                    log.mutex.release()

    def _locked_dir(self, paths: SessionPaths) -> osfiles.Locked:
        return osfiles.locked_dir(paths.log.parent, self._options.lock_timeout)

    def _files(self, tenant: str | None, pattern: str) -> Iterator[Path]:
        roots = [tenant_path(self.root, tenant)] if tenant is not None else sorted(self.root.glob("*"))
        for root in roots:
            for directory in sorted(root.glob("agents/*/sessions")):
                yield from sorted(path for path in directory.glob(pattern) if path.is_file())
