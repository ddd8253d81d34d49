"""Who holds a session, across the processes of one machine.

The kernel's lock on `<name>.lock` says whether the holder lives: it ends with its process, however that ends.
What is written in the file says until when the holder may hold. A holder past that, hung or stopped, keeps
the kernel's lock but loses the name: the next one puts a file of its own in its place. That the old holder
then writes nothing more is not this room's affair but the fence's. The file is there only while it is held.

The name changes hands under the lock of the directory, all but its first making. So between looking whose it
is and acting on that, it stays so.
"""

from __future__ import annotations

import os
import time
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec

from stratalog import osfiles
from stratalog.errors import LogBusy
from stratalog.osfiles import failed

_UNWRITTEN = 10.0  # seconds after which a file that says nothing is taken for its maker's last act
_DIR_WAIT = 1.0


class Held(msgspec.Struct, frozen=True):
    """What a lock file says of its holder. `until` is in seconds on the clock that `clock` reads."""

    pid: int
    holder: str
    until: float
    boot: str


class Hold:
    """A session that this process holds; `took_over` when its holder before was past its time."""

    def __init__(self, path: Path, fd: int, took_over: bool = False) -> None:
        self.path = path
        self.took_over = took_over
        self._fd = fd
        _holds.add(self)

    @property
    def in_place(self) -> bool:
        """Whether the name is still this hold's."""
        return self._fd >= 0 and _same(self._fd, self.path)

    def renew(self, holder: str, deadline: float) -> bool:
        """Lets `holder` hold for `deadline` seconds from now; False when the name is another's by now.

        Raises `LogBusy`, `StorageFailed`.
        """
        if self._fd < 0:
            return False
        try:
            with osfiles.locked_dir(self.path.parent, _DIR_WAIT):
                if not _same(self._fd, self.path):
                    return False
                self.say(holder, deadline)
                return True
        except OSError as error:
            raise failed(error, "keeping a session's lock", self.path) from error

    def say(self, holder: str, deadline: float) -> None:
        """Writes who holds and until when. Raises `OSError`."""
        record = Held(os.getpid(), holder, clock() + deadline, osfiles.boot_id())
        data = msgspec.json.encode(record)
        os.pwrite(self._fd, data, 0)
        os.ftruncate(self._fd, len(data))

    def release(self) -> None:
        """Gives the session back; the second time does nothing."""
        if self._fd < 0:
            return
        try:
            # A file that stays is free all the same: the kernel's lock goes with `drop`.
            with suppress(OSError, LogBusy), osfiles.locked_dir(self.path.parent, _DIR_WAIT):
                if _same(self._fd, self.path):
                    osfiles.remove(self.path)
        finally:
            self.drop()

    def drop(self) -> None:
        """Closes the file. In a forked child, which must not keep its parent's locks alive."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    __del__ = drop


class Outsider:
    """Somebody in another process who holds the session now."""

    def __init__(self, path: Path, fd: int, held: Held) -> None:
        self.path = path
        self.held = held
        self._fd = fd

    def oust(self) -> None:
        """Frees the name, if it is still this holder's; to be called once its fence is void.

        Raises `LogBusy`, `StorageFailed`.
        """
        try:
            with osfiles.locked_dir(self.path.parent, _DIR_WAIT):
                if _same(self._fd, self.path):
                    osfiles.remove(self.path)
        except OSError as error:
            raise failed(error, "taking away a session's lock", self.path) from error


_holds: weakref.WeakSet[Hold] = weakref.WeakSet()


def take(path: Path, holder: str, deadline: float) -> Hold | Held:
    """Holds the session whose lock file is `path` for at most `deadline` seconds, or says who does.

    Raises `StorageFailed`.
    """
    try:
        osfiles.make_dir(path.parent)
        while True:
            hold = Hold(path, os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
            kept = False
            try:
                if osfiles.try_lock(hold._fd):
                    kept = _enter(hold, holder, deadline)
                    if kept:
                        return hold
                    continue
                held = _read(hold._fd)
            except LogBusy:
                return _read(hold._fd)
            finally:
                if not kept:
                    hold.drop()
            if not overdue(held):
                return held
            try:
                taken = _take_over(path, holder, deadline)
            except LogBusy:
                return held
            if taken is not None:
                return taken
    except OSError as error:
        raise failed(error, "taking a session's lock", path) from error


@contextmanager
def outsider(path: Path) -> Iterator[Outsider | None]:
    """Who else holds the session whose lock file is `path`, if anybody does; for as long as the block lasts
    the answer can be told from one who comes later. Raises `StorageFailed`."""
    try:
        fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        yield None
        return
    except OSError as error:
        raise failed(error, "looking at a session's lock", path) from error
    try:
        free = osfiles.try_lock(fd)
        if free:
            osfiles.unlock(fd)
        yield None if free else Outsider(path, fd, _read(fd))
    finally:
        os.close(fd)


def _enter(hold: Hold, holder: str, deadline: float) -> bool:
    """Makes the file that was just locked its holder's; False when it is not the one at the path."""
    if not _same(hold._fd, hold.path):
        return False
    if os.fstat(hold._fd).st_size:
        # A dead holder's words are in it, by which another may just be judging it overdue.
        return hold.renew(holder, deadline)
    hold.say(holder, deadline)
    return True


def _take_over(path: Path, holder: str, deadline: float) -> Hold | None:
    """Puts a lock of our own in the place of one that is overdue; None when that is not so any more."""
    with osfiles.locked_dir(path.parent, _DIR_WAIT):
        try:
            fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:
            return None
        try:
            if not overdue(_read(fd)) or osfiles.try_lock(fd):
                return None
        finally:
            os.close(fd)
        scratch = osfiles.temporary(path)
        hold = Hold(path, osfiles.open_new(scratch), took_over=True)
        kept = False
        try:
            if osfiles.try_lock(hold._fd):
                hold.say(holder, deadline)
                os.rename(scratch, path)
                kept = True
        finally:
            if not kept:
                hold.drop()
                osfiles.remove(scratch)
        return hold if kept else None


def overdue(held: Held) -> bool:
    """Whether the holder is past its time. One of before the last boot is dead, so its lock is free."""
    return held.boot == osfiles.boot_id() and clock() > held.until


def clock() -> float:
    """Seconds that go on while the machine sleeps and that every process reads the same."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


def drop_all() -> None:
    """Drops every hold of this process; for a forked child, whose parent has them."""
    for hold in list(_holds):
        hold.drop()


def _read(fd: int) -> Held:
    try:
        return msgspec.json.decode(os.pread(fd, 4096, 0), type=Held)
    except msgspec.MsgspecError:
        # Its holder is just writing it; or was stopped before that, long ago.
        young = abs(time.time() - os.fstat(fd).st_mtime) < _UNWRITTEN
        return Held(0, "", clock() + (1.0 if young else -1.0), osfiles.boot_id())


def _same(fd: int, path: Path) -> bool:
    try:
        now = os.stat(path)
    except FileNotFoundError:
        return False
    mine = os.fstat(fd)
    return (now.st_dev, now.st_ino) == (mine.st_dev, mine.st_ino)
