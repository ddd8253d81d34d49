"""Following the folders of a running agent: what its files hold is imported as they grow.

    with Following(memory, [Path("~/.claude/projects").expanduser()]) as following:
        while running:
            for result in following.look(): ...
            sleep(following.pause)

A look lists the files and compares their stamps with those they were last read at; `plan` decides, `look`
performs. Importers read a file whole and add only what is new, so a line that is torn is imported when it is
whole, once, and nothing is lost when a process is killed: what was read is noted after it was imported. A
file that takes long is read so rarely that reading it takes one part in twenty of the time.

The stamps are kept in `watch.json` beside the tenant's sessions, so that the next one goes on; it may be
deleted, then every file is read once more. One process at a time follows for a tenant.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

import msgspec

from stratalog.engine.core import Stratalog
from stratalog.errors import ImportFailed, StoreBusy
from stratalog.interop.ingest import FileImport, import_files
from stratalog.keys import tenant_path
from stratalog.osfiles import failed, locked_file, replace_file

_SUFFIXES = (".jsonl", ".json")
_SHARE = 20  # reading one file takes at most one part in so many of the time
_LOOKING = 200  # and listing the files one part in so many
_AGAIN = 10.0  # seconds, until what the memory refused is tried again
_SAVED = 5.0  # seconds between two notes of what was read
_VERSION = 1


class Stamp(msgspec.Struct, frozen=True, array_like=True):
    """What tells that a file has changed: another file of its name, its size, when it was last touched."""

    inode: int
    size: int
    changed: int


class Known(NamedTuple):
    """What is known of a file: the stamp it was read at, and when it may be read again (seconds on the
    monotonic clock). `failure` is why it could not be, while that is not told; `due` says that it is to be
    read though it has not changed."""

    stamp: Stamp
    again: float = 0.0
    failure: FileImport | None = None
    due: bool = False


class Plan(NamedTuple):
    """What to do after a look: files to read, files to know no more, failures that have lasted and are to be
    told."""

    read: tuple[str, ...]
    gone: tuple[str, ...]
    tell: tuple[str, ...]


class Listing(NamedTuple):
    """The files below the folders with their stamps, and what could not be looked at, with why."""

    files: dict[str, Stamp]
    unlisted: dict[str, str]


def plan(files: Mapping[str, Stamp], known: Mapping[str, Known], now: float) -> Plan:
    """What follows from these stamps at the moment `now`.

    A file is read when it is new or its stamp is another, and long enough after it was last read; an empty
    one is not. A failure is told when the file is as it was then: one that is just being written fails in
    its middle.
    """
    read: list[str] = []
    tell: list[str] = []
    for path, stamp in files.items():
        before = known.get(path)
        if before is None:
            if stamp.size:
                read.append(path)
            continue
        changed = before.stamp != stamp
        if before.failure is not None and not changed:
            tell.append(path)
        if (changed or before.due) and stamp.size and now >= before.again:
            read.append(path)
    return Plan(tuple(read), tuple(path for path in known if path not in files), tuple(tell))


def listing(folders: Iterable[Path], outside: Path) -> Listing:
    """The `.jsonl` and `.json` files anywhere below the folders, without following links to folders, and
    those that are named themselves; nothing of the directory `outside`, which is given without links. A link
    to a file that cannot be followed is among what could not be listed."""
    found: dict[str, Stamp] = {}
    unlisted: dict[str, str] = {}
    left = [str(folder) for folder in folders]
    # A folder may be named by a link that leads above the directory.
    own = {os.path.join(each, os.path.relpath(outside, os.path.realpath(each))) for each in left}
    while left:
        folder = left.pop()
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        if entry.path not in own:
                            left.append(entry.path)
                    elif entry.name.lower().endswith(_SUFFIXES):
                        _stamp(entry.path, found, unlisted)
        except NotADirectoryError:
            _stamp(folder, found, unlisted)
        except OSError as error:
            unlisted[folder] = error.strerror or str(error)
    return Listing(found, unlisted)


def _stamp(path: str, found: dict[str, Stamp], unlisted: dict[str, str]) -> None:
    try:
        facts = os.stat(path)
    except FileNotFoundError:
        return  # it was there a moment ago
    except OSError as error:
        unlisted[path] = error.strerror or str(error)
        return
    if stat.S_ISREG(facts.st_mode):
        found[path] = Stamp(facts.st_ino, facts.st_size, facts.st_ctime_ns)


class _Saved(msgspec.Struct, frozen=True):
    version: int
    files: dict[str, Stamp]


class Following:
    """Follows folders until it is closed. `pause` is how long to wait before the next look, in seconds:
    `interval`, or longer where there are so many files that looking takes its share of the processor."""

    def __init__(
        self,
        memory: Stratalog,
        folders: Sequence[Path],
        *,
        interval: float = 2.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Raises `StoreBusy` while another process follows for this tenant, and `StorageFailed`."""
        self.pause = self._interval = interval
        self.unlisted: dict[str, str] = {}
        self._memory = memory
        self._folders = [Path(os.path.abspath(folder)) for folder in folders]
        self._clock = clock
        self._data = memory.data.resolve()
        self._known: dict[str, Known] = {}
        self._saved_at = -_SAVED
        self._dirty = False
        directory = tenant_path(memory.data, memory.tenant)
        self._path = directory / "watch.json"
        self._lock = self._locked(directory)
        self._load()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Notes what was read and lets another follow. The second time does nothing."""
        if self._lock >= 0:
            try:
                self._save()
            finally:
                os.close(self._lock)
                self._lock = -1

    def look(
        self, *, settled: bool = False, ended: Callable[[], bool] = lambda: False
    ) -> Iterator[FileImport]:
        """Imports what has changed since the last look; gives each file that was read and added something,
        and each failure that lasts. `settled` says that no other look follows: then every failure does.
        After each file it is asked whether all is `ended`; then the others are left for the next."""
        began = time.thread_time()
        files, self.unlisted = listing(self._folders, self._data)
        todo = plan(files, self._known, self._clock())
        self.pause = max(self._interval, (time.thread_time() - began) * _LOOKING)
        for path in todo.gone:
            if self._ours(path):
                del self._known[path]
                self._dirty = True
        for path in todo.tell:
            failure = self._known[path].failure
            assert failure is not None
            self._known[path] = self._known[path]._replace(failure=None)
            yield failure
        added = False
        for path in todo.read:
            result = self._read(path, files[path])
            news = any(session.added for session in result.sessions)
            added |= news
            if news or (settled and result.error is not None):
                yield result
            if self._clock() - self._saved_at >= _SAVED:
                self._save()
            if ended():
                break
        if added:
            self._memory.bring_up_to_date()
        if self._dirty and self._clock() - self._saved_at >= _SAVED:
            self._save()

    def _read(self, path: str, stamp: Stamp) -> FileImport:
        began = time.thread_time()
        (result,) = import_files(self._memory, [Path(path)])
        again = self._clock() + (time.thread_time() - began) * _SHARE
        error = result.error
        before = self._known.get(path)
        if error is None or _nothing_yet(result):
            self._known[path] = Known(stamp, again)
        elif isinstance(error, ImportFailed):
            self._known[path] = Known(stamp, again, result)
        else:
            # The memory refused it, which the file does not change: it is told once, and tried again.
            told = before is not None and before.due and before.failure is None
            self._known[path] = Known(stamp, self._clock() + _AGAIN, None if told else result, due=True)
        self._dirty = True
        return result

    def _ours(self, path: str) -> bool:
        return any(Path(path).is_relative_to(folder) for folder in self._folders)

    def _load(self) -> None:
        try:
            saved = msgspec.json.decode(self._path.read_bytes(), type=_Saved)
        except (OSError, msgspec.MsgspecError):
            return  # missing or of another version: all files are read once more, which adds nothing
        if saved.version == _VERSION:
            self._known = {path: Known(stamp) for path, stamp in saved.files.items()}

    def _save(self) -> None:
        """Notes what was read. What was refused is not noted, and read again by the next that follows."""
        if self._dirty:
            files = {
                path: each.stamp
                for path, each in self._known.items()
                # A name that is no UTF-8 has no place in JSON: its file is read again by the next.
                if not each.due and _is_text(path)
            }
            try:
                replace_file(self._path, msgspec.json.encode(_Saved(_VERSION, files)), durable=False)
            except OSError as error:
                raise failed(error, "noting what was read", self._path) from error
        self._dirty = False
        self._saved_at = self._clock()

    def _locked(self, directory: Path) -> int:
        try:
            fd = locked_file(directory / "watch.lock")
        except OSError as error:
            raise failed(error, "locking", directory) from error
        if fd >= 0:
            return fd
        raise StoreBusy(
            "another process follows folders for this memory already",
            tenant=self._memory.tenant,
            hint="end it, or give it all the folders",
        )


def _is_text(path: str) -> bool:
    return not any("\ud800" <= char <= "\udfff" for char in path)


def _nothing_yet(result: FileImport) -> bool:
    """Whether all of the file could be read and is no conversation, as before its first message."""
    report = result.report
    whole = report is not None and not any(skip.kind == "damage" for skip in report.skipped)
    return isinstance(result.error, ImportFailed) and whole
