"""Which sessions were written to since the strata above their logs were last brought up to date.

A file of keys, one a line, per tenant. A writer adds its key before it writes and while it holds the log's
lock; a key that is there already is not added again. Who brings the strata up to date takes the whole file by
renaming it, and then asks each log for its head, which waits for a write that is under way. So an entry is
either seen then, or its writer found the file gone and wrote its key into a new one. The file is not synced:
after the machine restarted, every log is looked at once.
"""

from __future__ import annotations

import os
import threading
from contextlib import suppress
from pathlib import Path

from stratalog import osfiles
from stratalog.errors import InvalidKey
from stratalog.ids import new_ulid
from stratalog.keys import SessionKey, parse_key
from stratalog.osfiles import failed

FILE = "dirty.log"
_TAKEN = ".taken-"


class Taken:
    """Keys that were taken, and the files they came from, which are removed by `done`."""

    def __init__(self, keys: set[SessionKey], files: list[Path]) -> None:
        self.keys = keys
        self._files = files

    def done(self) -> None:
        """To be called when every stratum has what these logs hold."""
        for path in self._files:
            osfiles.remove(path)


class DirtyJournal:
    """The file of one tenant's directory. Safe for threads and processes."""

    def __init__(self, tenant_dir: Path) -> None:
        self._path = tenant_dir / FILE
        self._mutex = threading.Lock()
        self._fd = -1
        self._ino = (0, 0)
        self._marked: set[SessionKey] = set()

    def mark(self, key: SessionKey) -> None:
        """Makes sure that the key is in the file. Raises `StorageFailed`."""
        with self._mutex:
            try:
                while not self._is_current() or key not in self._marked:
                    if not self._is_current():
                        self._open()
                    # The first newline ends a line that a full disk left unfinished.
                    osfiles.write_all(self._fd, f"\n{key}\n".encode())
                    self._marked.add(key)
            except OSError as error:
                raise failed(error, "noting a change", self._path) from error

    def take(self) -> Taken:
        """Takes all keys, also those that somebody took and did not finish. Raises `StorageFailed`."""
        try:
            target = self._path.with_name(f"{FILE}{_TAKEN}{new_ulid()}")
            with suppress(FileNotFoundError):
                os.rename(self._path, target)
            files = sorted(self._path.parent.glob(f"{FILE}{_TAKEN}*"))
            lines = {line for path in files for line in _lines(path)}
        except OSError as error:
            raise failed(error, "reading what changed", self._path) from error
        return Taken({key for key in map(_key, lines) if key is not None}, files)

    def close(self) -> None:
        with self._mutex:
            self._close()

    def _is_current(self) -> bool:
        if self._fd < 0:
            return False
        try:
            now = os.stat(self._path)
        except FileNotFoundError:
            return False
        return (now.st_dev, now.st_ino) == self._ino

    def _open(self) -> None:
        self._close()
        osfiles.make_dir(self._path.parent)
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
        self._fd = os.open(self._path, flags, 0o600)
        info = os.fstat(self._fd)
        self._ino = (info.st_dev, info.st_ino)

    def _close(self) -> None:
        self._marked.clear()
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def _lines(path: Path) -> list[str]:
    try:
        return path.read_bytes().decode(errors="replace").split("\n")
    except FileNotFoundError:  # another process finished it
        return []


def _key(line: str) -> SessionKey | None:
    try:
        return parse_key(line) if line else None
    except InvalidKey:  # a line torn by a crash: its writer wrote nothing to the log
        return None
