"""Who holds a session, across the processes of one machine.

The kernel's lock on `<name>.lock` says whether the holder lives: it ends with its process, however that ends.
What is written in the file says until when the holder may hold. A holder past that, hung or stopped, keeps
the kernel's lock but loses the name: the next one puts a file of its own in its place. That the old holder
then writes nothing more is not this room's affair but the fence's. The file is there only while it is held.
"""

from __future__ import annotations

import os
import time
import weakref
from pathlib import Path

import msgspec

from stratalog import osfiles
from stratalog.errors import LogBusy
from stratalog.osfiles import failed


class Held(msgspec.Struct, frozen=True):
    """What a lock file says of its holder. `until` is in seconds on the clock that `clock` reads."""

    pid: int
    holder: str
    until: float
    boot: str


class Hold:
    """A session that this process holds; `took_over` when its holder before was past its time."""

    def __init__(self, path: Path, fd: int, took_over: bool) -> None:
        self.path = path
        self.took_over = took_over
        self._fd = fd
        _holds.add(self)

    def extend(self, holder: str, deadline: float) -> None:
        """Lets `holder` hold for another `deadline` seconds."""
        record = Held(os.getpid(), holder, clock() + deadline, osfiles.boot_id())
        data = msgspec.json.encode(record)
        os.pwrite(self._fd, data, 0)
        os.ftruncate(self._fd, len(data))

    def release(self) -> None:
        """Gives the session back; the second time does nothing."""
        if self._fd < 0:
            return
        try:
            if _same(self._fd, self.path):
                osfiles.remove(self.path)
        finally:
            self.drop()

    def drop(self) -> None:
        """Closes the file. In a forked child, which must not keep its parent's locks alive."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


_holds: weakref.WeakSet[Hold] = weakref.WeakSet()


def take(path: Path, holder: str, deadline: float, wait: float) -> Hold | Held:
    """Holds the session whose lock file is `path` for at most `deadline` seconds, or says who does.

    `wait`, seconds, bounds only the wait for another taker. Raises `StorageFailed`, `LogBusy`.
    """
    try:
        osfiles.make_dir(path.parent)
        while True:
            fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            if osfiles.try_lock(fd):
                if not _same(fd, path):
                    os.close(fd)
                    continue
                hold = Hold(path, fd, False)
                hold.extend(holder, deadline)
                return hold
            held = _read(fd)
            os.close(fd)
            if held is None or not overdue(held):
                return held or Held(0, "", 0.0, "")
            taken = _take_over(path, holder, deadline, wait)
            if taken is not None:
                return taken
    except OSError as error:
        raise failed(error, "taking a session's lock", path) from error


def _take_over(path: Path, holder: str, deadline: float, wait: float) -> Hold | None:
    """Puts a lock of our own in the place of one that is overdue; None when that is not so any more."""
    with osfiles.locked_dir(path.parent, wait):
        try:
            fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:
            return None
        try:
            held = _read(fd)
            if held is None or not overdue(held) or osfiles.try_lock(fd):
                return None
        finally:
            os.close(fd)
        scratch = osfiles.temporary(path)
        fd = osfiles.open_new(scratch)
        if not osfiles.try_lock(fd):
            os.close(fd)
            raise LogBusy("a file that was just made is locked", path=str(scratch))
        hold = Hold(path, fd, True)
        hold.extend(holder, deadline)
        os.rename(scratch, path)
        return hold


def overdue(held: Held) -> bool:
    """Whether the holder is past its time. One of before the last boot is dead, so its lock is free."""
    return held.boot == osfiles.boot_id() and clock() > held.until


def clock() -> float:
    """Seconds that go on while the machine sleeps and that every process reads the same."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


def watch_forks() -> None:
    """Lets a forked child drop the locks it inherited. Called once, when the first manager is made."""
    if not _watching:
        _watching.append(True)
        os.register_at_fork(after_in_child=_drop_all)


_watching: list[bool] = []


def _drop_all() -> None:
    for hold in list(_holds):
        hold.drop()


def _read(fd: int) -> Held | None:
    try:
        return msgspec.json.decode(os.pread(fd, 4096, 0), type=Held)
    except msgspec.MsgspecError:
        return None  # its holder is just writing it


def _same(fd: int, path: Path) -> bool:
    try:
        now = os.stat(path)
    except FileNotFoundError:
        return False
    mine = os.fstat(fd)
    return (now.st_dev, now.st_ino) == (mine.st_dev, mine.st_ino)
