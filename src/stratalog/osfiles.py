"""The few things the log asks of the operating system, with errors that say what it refused and where.

Directories are 0700 and files 0600. A file is replaced by writing a new one beside it, syncing it, renaming
it and syncing the directory, so that after a crash there is the old one or the new one.
"""

from __future__ import annotations

import errno
import fcntl
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import TypeAlias

from stratalog.errors import LogBusy, StorageFailed, StorageFull
from stratalog.ids import new_ulid
from stratalog.points import reach

_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
TEMPORARY = ".tmp-"
Locked: TypeAlias = AbstractContextManager[None]


def failed(error: OSError, doing: str, path: Path | str) -> StorageFailed:
    """The typed error for what the system refused."""
    facts = {"path": str(path), "errno": errno.errorcode.get(error.errno or 0, str(error.errno))}
    if error.errno in _FULL:
        return StorageFull(
            f"no space left while {doing}; nothing was changed",
            hint="free some space and try again",
            **facts,
        )
    return StorageFailed(
        f"the system refused {doing}: {error.strerror}; nothing was changed",
        hint="check the disk and the permissions, then try again",
        **facts,
    )


def sync(fd: int) -> None:
    """Waits until the file's data are on the disk."""
    if sys.platform == "darwin":
        fcntl.fcntl(fd, fcntl.F_FULLFSYNC)
    else:
        os.fdatasync(fd)


def sync_dir(path: Path) -> None:
    """Waits until the directory's names are on the disk."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def write_all(fd: int, data: bytes) -> None:
    """Writes all of `data`; a short write goes on with the rest."""
    done = os.write(fd, data)
    while done < len(data):
        done += os.write(fd, memoryview(data)[done:])


def make_dir(path: Path) -> None:
    """Makes the directory and its parents, 0700, each made durable by syncing the one it is in."""
    missing = []
    while not path.is_dir():
        missing.append(path)
        path = path.parent
    for directory in reversed(missing):
        try:
            os.mkdir(directory, 0o700)
        except FileExistsError:
            continue
        sync_dir(directory.parent)


def open_new(path: Path) -> int:
    """A new file, 0600, open for writing at its end."""
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o600)


def temporary(path: Path) -> Path:
    """A name beside `path` for a file that is not finished."""
    return path.with_name(f"{path.name}{TEMPORARY}{new_ulid()[-8:].lower()}")


def replace_file(
    path: Path,
    data: bytes,
    *,
    durable: bool = True,
    point: str = "",
    still: Callable[[], bool] = lambda: True,
) -> bool:
    """Puts `data` where `path` is, all of it or nothing, unless just before it is not `still` to be done;
    whether it was. `point` names the crash points. Raises `OSError`.

    What is not `durable` can be made anew: it is not synced, and is missing for a moment.
    """
    scratch = temporary(path)
    fd = open_new(scratch)
    try:
        try:
            write_all(fd, data)
            if durable:
                sync(fd)
        finally:
            os.close(fd)
        reach(f"{point}.written")
        if not still():
            remove(scratch)
            return False
        if not durable:
            # A rename over a file makes some filesystems flush the new one; onto a free name it does not.
            remove(path)
        os.rename(scratch, path)
        reach(f"{point}.renamed")
    except OSError:
        remove(scratch)
        raise
    if durable:
        sync_dir(path.parent)
    return True


def remove(path: Path) -> None:
    """Unlinks the file if it is there."""
    path.unlink(missing_ok=True)


def remove_dir(path: Path) -> None:
    """Removes a directory of files."""
    try:
        names = os.listdir(path)
    except FileNotFoundError:
        return
    for name in names:
        remove(path / name)
    path.rmdir()


def try_lock(fd: int) -> bool:
    """Takes the kernel's lock on the open file if nobody has it. It ends when the file is closed, or its
    process dies."""
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def wait_lock(fd: int, seconds: float) -> bool:
    """Takes the kernel's lock on the open file, waiting for it up to `seconds`."""
    if try_lock(fd):
        return True
    deadline = time.monotonic() + seconds
    pause = 0.0002
    while time.monotonic() < deadline:
        time.sleep(pause)
        pause = min(pause * 1.5, 0.005)
        if try_lock(fd):
            return True
    return False


def locked_file(path: Path, seconds: float = 0.0) -> int:
    """The file, made if need be, open and locked; -1 when another has it for longer than so many seconds. The
    lock ends when it is closed. Raises `OSError`."""
    make_dir(path.parent)
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    locked = False
    try:
        locked = wait_lock(fd, seconds)
    finally:
        if not locked:
            os.close(fd)
    return fd if locked else -1


def unlock(fd: int) -> None:
    fcntl.flock(fd, fcntl.LOCK_UN)


@contextmanager
def locked_dir(path: Path, seconds: float) -> Iterator[None]:
    """Holds the lock of a directory, under which its files are made, replaced and deleted."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        if not wait_lock(fd, seconds):
            raise LogBusy(
                f"another process keeps this directory locked for more than {seconds:g} s",
                path=str(path),
                hint="look for a stopped or hung process",
            )
        try:
            yield
        finally:
            # A child that was forked meanwhile has the file open too. Refused, the lock ends with the file.
            with suppress(OSError):
                unlock(fd)
    finally:
        os.close(fd)


@cache
def boot_id() -> str:
    """What this run of the machine is called; empty where the system does not say."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""
