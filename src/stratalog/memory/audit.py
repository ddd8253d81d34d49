"""Who asked the memory for what: one line a call, a refusal, a purge; one file a tenant, which only grows.

A line says who, what, where to and how it ended, in counts. It has no payload, no text, no key and no query:
of these their length and the beginning of a hash, by which somebody who knows the words can find the line.
A hash of few words can be guessed; the file is as private as the records are.
"""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Literal, Protocol, TypeAlias

import msgspec

from stratalog.errors import StorageFailed
from stratalog.keys import tenant_path
from stratalog.memory.contract import Scope
from stratalog.osfiles import failed, make_dir, wait_lock

FILE = "audit.jsonl"
_WAIT = 10.0

Ending: TypeAlias = Literal["done", "refused", "failed"]


class AuditLine(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`at` is milliseconds UTC. `scopes` are those that were asked for, `counts` what came of it, `asked` the
    lengths and hashes (`mark_of`) of what the caller wrote. `token` is the id of the token that asked, and
    never its secret; "" where none did, as in lines from before it was told."""

    at: int
    call: str
    ending: Ending
    environment: str
    user: str = ""
    agent: str = ""
    session: str = ""
    run: str = ""
    roles: tuple[str, ...] = ()
    scopes: tuple[Scope, ...] = ()
    counts: dict[str, int] = {}
    asked: dict[str, str] = {}
    reason: str = ""
    token: str = ""


class Audit(Protocol):
    """Where the lines go. What was written is never changed. The tenant "" is nobody's: its lines are of
    those of whom no tenant is known."""

    def write(self, tenant: str, line: AuditLine) -> None:
        """Adds a line to the tenant's. Raises `StorageFailed`, and then the call that it tells of fails."""
        ...

    def read(self, tenant: str) -> Iterator[AuditLine]:
        """The tenant's lines, oldest first; one that is damaged is left out."""
        ...


def mark_of(text: str) -> str:
    """How long a text is, and the first 12 digits of its SHA-256."""
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    return f"{len(text)}:{digest[:12]}"


class MemoryAudit:
    """An audit that ends with the process."""

    def __init__(self) -> None:
        self._lines: dict[str, list[AuditLine]] = {}
        self._mutex = threading.Lock()

    def write(self, tenant: str, line: AuditLine) -> None:
        with self._mutex:
            self._lines.setdefault(tenant, []).append(line)

    def read(self, tenant: str) -> Iterator[AuditLine]:
        with self._mutex:
            return iter(list(self._lines.get(tenant, ())))


class FileAudit:
    """`audit.jsonl` (0600) in each tenant's directory below `root`; in `root` itself for nobody's.

    Whole lines, whatever number of processes write: each is written under the file's lock, and one that the
    system did not take whole is taken back. It is not synced: a power failure may take the last lines.
    """

    def __init__(self, root: Path) -> None:
        self._root = root

    def path(self, tenant: str) -> Path:
        """The file of the tenant; of "" that of nobody's."""
        return _path(self._root, tenant)

    def write(self, tenant: str, line: AuditLine) -> None:
        path = self.path(tenant)
        try:
            fd = _opened(path)
        except OSError as error:
            raise failed(error, "opening the audit", path) from error
        try:
            if not wait_lock(fd, _WAIT):
                raise StorageFailed("another process keeps the audit locked", path=str(path))
            _append(fd, msgspec.json.encode(line) + b"\n")
        except OSError as error:
            raise failed(error, "writing the audit", path) from error
        finally:
            os.close(fd)  # and with it the lock

    def read(self, tenant: str) -> Iterator[AuditLine]:
        path = self.path(tenant)
        try:
            file = path.open("rb")
        except FileNotFoundError:
            return
        except OSError as error:
            raise failed(error, "reading the audit", path) from error
        with file:
            for line in file:
                decoded = _decoded(line)
                if decoded is not None:
                    yield decoded


@lru_cache(maxsize=1024)
def _path(root: Path, tenant: str) -> Path:
    return (tenant_path(root, tenant) if tenant else root) / FILE


def _opened(path: Path) -> int:
    """The file, open for adding to; made with its directory where there is none."""
    flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
    try:
        return os.open(path, flags, 0o600)
    except FileNotFoundError:
        make_dir(path.parent)
        return os.open(path, flags, 0o600)


def _append(fd: int, data: bytes) -> None:
    """Adds whole lines after whole lines. A torn end, left by a crash, gets its line break first."""
    size = os.fstat(fd).st_size
    if size and os.pread(fd, 1, size - 1) != b"\n":
        data = b"\n" + data
    try:
        written = os.write(fd, data)
        while written < len(data):
            written += os.write(fd, data[written:])
    except OSError:
        os.ftruncate(fd, size)
        raise


def _decoded(line: bytes) -> AuditLine | None:
    try:
        return msgspec.json.decode(line, type=AuditLine)
    except msgspec.MsgspecError:
        return None
