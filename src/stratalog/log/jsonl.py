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
from typing import Literal

from stratalog import osfiles
from stratalog.errors import DamagedLog, ForeignFile, StratalogError
from stratalog.keys import SessionKey, SessionPaths, parse_key, paths_of_stem, session_paths, tenant_path
from stratalog.log import archive, codec, repair
from stratalog.log.contract import Head, OnProblem, OnWrite, Problem, Reading, Sync, Verification
from stratalog.log.fences import gone, refuse_stale
from stratalog.log.reading import LogReader, open_log
from stratalog.log.segment import header_of
from stratalog.log.writer import DELETED, LogFile, Options, Request, finish_delete
from stratalog.osfiles import failed
from stratalog.points import reach
from stratalog.types import AnyEntry, Blob


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
        self._open: OrderedDict[SessionKey, LogFile] = OrderedDict()
        self._mutex = threading.Lock()
        self._pid = os.getpid()

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
        opened = open_log(key, session_paths(self.root, key))
        if opened is None:
            return Reading(iter(()), [])
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
                return Head(log.seq, log.latest_fence(), log.header.generation, log.header.first)
            finally:
                log.unlock()

    def replace(self, key: SessionKey, entries: Iterable[AnyEntry], *, fence: int | None = None) -> Head:
        with self._held(key) as log:
            made = False
            while not made:
                if log.lock():
                    try:
                        if fence is not None:
                            refuse_stale(key, fence, log.latest_fence())
                        log.reseal(log.end, new_generation=True, entries=entries)
                        made = True
                    finally:
                        log.forget()
                elif fence is not None:
                    raise gone(key, fence)
                else:
                    made = log.create(entries)  # False: somebody else made it, so a generation starts there
        head = self.head(key)
        if head is None:
            raise gone(key, fence or 0)
        return head

    def delete(self, key: SessionKey) -> bool:
        paths = session_paths(self.root, key)
        if not paths.log.parent.is_dir():
            return False
        with self._held(key) as log:
            log.close()
            try:
                with self._locked_dir(paths):
                    finish_delete(paths)
                    fd = os.open(paths.log, os.O_RDWR | os.O_CLOEXEC)
                    try:
                        if os.fstat(fd).st_size:
                            header_of(fd, str(paths.log), str(key))
                        self._options.on_write(key)
                        osfiles.wait_lock(fd, self._options.lock_timeout)
                        os.rename(paths.log, paths.log.with_suffix(DELETED))
                        osfiles.sync_dir(paths.log.parent)
                    finally:
                        os.close(fd)
                    reach("delete.renamed")
                    finish_delete(paths)
                    reach("delete.done")
            except FileNotFoundError:
                return False
            except OSError as error:
                raise failed(error, "deleting a session", paths.log) from error
        return True

    def sessions(self, tenant: str | None = None) -> Iterator[SessionKey]:
        for path in self._files(tenant, "*.jsonl"):
            try:
                fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            except OSError as error:
                self._options.on_problem(Problem(f"cannot be opened: {error.strerror}", path=str(path)))
                continue
            try:
                header, _ = header_of(fd, str(path), None)
                key = parse_key(header.key)
                if session_paths(self.root, key).log != path:
                    raise ForeignFile("this file holds the log of another session", path=path, holds=key)
            except StratalogError as error:
                self._options.on_problem(Problem(str(error), path=str(path), line=1))
                continue
            finally:
                os.close(fd)
            yield key

    # --- capabilities ---

    def seal(self, key: SessionKey, first_kept: str) -> bool:
        """Moves what lies before the entry `first_kept` into the archive; what is read does not change."""
        with self._held(key) as log:
            if not log.lock():
                return False
            try:
                cut = log.offset_of(first_kept)
                if cut is None:
                    return False
                log.reseal(cut, new_generation=False, entries=())
            finally:
                log.forget()
        return True

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
                if piece.compressed or piece.segment >= active:
                    continue
                try:
                    data = piece.path.read_bytes()
                except FileNotFoundError:  # another process compressed it
                    continue
                packed = archive.compress(data)
                if archive.decompress(packed) != data:
                    raise DamagedLog(
                        "a segment did not survive compression; it was kept", path=str(piece.path)
                    )
                osfiles.replace_file(archive.packed_path(piece.path), packed, point="compress")
                osfiles.remove(piece.path)
                saved += len(data) - len(packed)
        except OSError as error:
            raise failed(error, "compressing a segment", paths.archive) from error
        return saved

    def blob(self, key: SessionKey, blob: Blob) -> bytes:
        """The payload that `blob` names, checked. Raises `DamagedLog`."""
        path = session_paths(self.root, key).blobs / blob.sha256
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
        with self._held(key) as log:
            log.close()
            with self._locked_dir(paths):
                finish_delete(paths)
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
        for path in list(self._files(tenant, f"*{DELETED}")):
            paths = paths_of_stem(path.with_suffix(""))
            with self._locked_dir(paths):
                finish_delete(paths)
            count += 1
        return count

    def close(self) -> None:
        """Closes every file, synced. The store may be used again."""
        with self._mutex:
            logs = list(self._open.values())
            self._open.clear()
        for log in logs:
            with log.mutex:
                log.evicted = True
                log.close()

    # --- what is open ---

    def _log(self, key: SessionKey) -> LogFile:
        with self._mutex:
            if self._pid != os.getpid():
                # A forked child must not share the parent's locks, which belong to the open files.
                for log in self._open.values():
                    log.forget()
                self._open.clear()
                self._pid = os.getpid()
            found = self._open.get(key)
            if found is not None:
                self._open.move_to_end(key)
                return found
            log = LogFile(key, session_paths(self.root, key), self._options)
            self._open[key] = log
            if len(self._open) > self.max_open:
                self._evict()
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

    def _evict(self) -> None:
        """Closes the logs that were not used for longest, but never one that somebody uses."""
        for key, log in list(self._open.items())[: len(self._open) - self.max_open]:
            if log.mutex.acquire(blocking=False):
                try:
                    if not log.queue:
                        log.evicted = True
                        log.close()
                        del self._open[key]
                finally:
                    log.mutex.release()

    def _locked_dir(self, paths: SessionPaths) -> osfiles.Locked:
        return osfiles.locked_dir(paths.log.parent, self._options.lock_timeout)

    def _files(self, tenant: str | None, pattern: str) -> Iterator[Path]:
        roots = [tenant_path(self.root, tenant)] if tenant is not None else sorted(self.root.glob("*"))
        for root in roots:
            for directory in sorted(root.glob("agents/*/sessions")):
                yield from sorted(path for path in directory.glob(pattern) if path.is_file())
