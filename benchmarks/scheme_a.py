"""Scheme A of seed 002 as a log store: one JSON array a session, in memory whole, written whole each time.

The yardstick for what a log costs that is rewritten rather than appended to, done as well as the scheme
allows: the array is read again only when the file changed, the codec is ours, and the new file takes the old
one's name after it is flushed, so a crash loses nothing that was acknowledged. The first element of the array
is a header, as the first line of our log is.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

import msgspec

from stratalog import osfiles
from stratalog.errors import DamagedLog, ForeignFile
from stratalog.ids import now_ms
from stratalog.keys import SessionKey, parse_key, session_paths, tenant_path
from stratalog.log import codec
from stratalog.log.contract import Head, Problem, Reading, Verification
from stratalog.log.fences import first_fence, gone, refuse_stale
from stratalog.types import AnyEntry, Blob, TurnStart, Unknown

SUFFIX = ".array.json"


class Header(msgspec.Struct, frozen=True):
    """The array's first element. `first` is the seq at which the current generation begins."""

    key: str
    fence: int
    generation: int = 1
    first: int = 1


class Array(msgspec.Struct):
    """A file's content, and the file it was read from, by which one knows that it is still the same."""

    header: Header
    entries: list[AnyEntry]
    file: tuple[int, int, int] = (0, 0, 0)


_encode = msgspec.json.Encoder().encode
_split = msgspec.json.Decoder(list[msgspec.Raw]).decode
_header = msgspec.json.Decoder(Header).decode


class ArrayStore:
    """Logs under `root`. Safe for threads and processes, which take turns by the lock of the directory."""

    def __init__(self, root: Path | str) -> None:
        self.root = Path(root)
        self._arrays: dict[SessionKey, Array] = {}
        self._mutex = threading.RLock()

    # --- the contract ---

    def append(
        self, key: SessionKey, entries: Sequence[AnyEntry], *, fence: int | None = None
    ) -> list[AnyEntry]:
        if not entries:
            return []
        with self._writing(key):
            array = self._checked(key, fence)
            header = array.header if array is not None else Header(str(key), first_fence())
            before = array.entries if array is not None else []
            stored, latest = _stamped(entries, len(before), header.fence)
            self._write(key, msgspec.structs.replace(header, fence=latest), [*before, *stored])
            return stored

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
        with self._mutex:
            array = self._array(key)
        if array is None:
            return Reading(iter(()), [])
        start = max(after, array.header.first - 1 if generations == "current" else 0)
        found = array.entries[start : max(start, before - 1) if before is not None else None]
        return Reading(iter(found[::-1] if reverse else found), [])

    def head(self, key: SessionKey) -> Head | None:
        with self._mutex:
            array = self._array(key)
        if array is None:
            return None
        return Head(len(array.entries), array.header.fence, array.header.generation, array.header.first)

    def replace(self, key: SessionKey, entries: Iterable[AnyEntry], *, fence: int | None = None) -> Head:
        with self._writing(key):
            array = self._checked(key, fence)
            if array is None:
                header, before = Header(str(key), first_fence()), list[AnyEntry]()
            else:
                before, old = array.entries, array.header
                header = Header(old.key, old.fence + 1, old.generation + 1, len(before) + 1)
            stored, latest = _stamped(entries, len(before), header.fence)
            whole = [*before, *stored]
            self._write(key, msgspec.structs.replace(header, fence=latest), whole)
            return Head(len(whole), latest, header.generation, header.first)

    def delete(self, key: SessionKey) -> bool:
        if not self._path(key).exists():
            return False
        with self._writing(key):
            there = self._path(key).exists()
            osfiles.remove(self._path(key))
            osfiles.sync_dir(self._path(key).parent)
            self._arrays.pop(key, None)
            return there

    def sessions(self, tenant: str | None = None) -> Iterator[SessionKey]:
        roots = [tenant_path(self.root, tenant)] if tenant is not None else sorted(self.root.glob("*"))
        for root in roots:
            for path in sorted(root.glob(f"agents/*/sessions/*{SUFFIX}")):
                yield parse_key(_header(_split(path.read_bytes())[0]).key)

    # --- capabilities ---

    def verify(self, key: SessionKey) -> Verification:
        """The array is read again; there is no checksum to tell more."""
        array = _read(self._path(key), key)
        problems = (Problem("there is no log", key=str(key)),) if array is None else ()
        entries = array.entries if array is not None else []
        if [entry.seq for entry in entries] != list(range(1, len(entries) + 1)):
            problems = (Problem("the entries are not numbered without gaps", key=str(key)),)
        return Verification(str(key), len(entries), 1, array.file[2] if array is not None else 0, problems)

    def blob(self, key: SessionKey, blob: Blob) -> bytes:
        """No payload is ever out of line here."""
        raise DamagedLog("this store keeps no payloads out of line", key=str(key), sha256=blob.sha256)

    def close(self) -> None:
        with self._mutex:
            self._arrays.clear()

    # --- how ---

    def _path(self, key: SessionKey) -> Path:
        return session_paths(self.root, key).log.with_suffix(SUFFIX)

    @contextmanager
    def _writing(self, key: SessionKey) -> Iterator[None]:
        directory = self._path(key).parent
        with self._mutex:
            osfiles.make_dir(directory)
            with osfiles.locked_dir(directory, 10.0):
                yield

    def _array(self, key: SessionKey) -> Array | None:
        path, known = self._path(key), self._arrays.get(key)
        try:
            if known is not None and _identity(os.stat(path)) == known.file:
                return known
        except FileNotFoundError:
            pass
        found = _read(path, key)
        if found is None:
            self._arrays.pop(key, None)
        else:
            self._arrays[key] = found
        return found

    def _checked(self, key: SessionKey, fence: int | None) -> Array | None:
        array = self._array(key)
        if fence is not None:
            if array is None:
                raise gone(key, fence)
            refuse_stale(key, fence, array.header.fence)
        return array

    def _write(self, key: SessionKey, header: Header, entries: list[AnyEntry]) -> None:
        path = self._path(key)
        elements = [msgspec.Raw(e.raw) if isinstance(e, Unknown) else e for e in entries]
        osfiles.replace_file(path, _encode([header, *elements]))
        self._arrays[key] = Array(header, entries, _identity(os.stat(path)))


def _read(path: Path, key: SessionKey) -> Array | None:
    try:
        with path.open("rb") as file:
            data, info = file.read(), os.fstat(file.fileno())
    except FileNotFoundError:
        return None
    header, *elements = _split(data)
    found = _header(header)
    if found.key != str(key):
        raise ForeignFile("this file holds the log of another session", path=path, holds=found.key)
    # The codec checks a line; here is only the JSON in it, so it is given the checksum that it wants to see.
    entries = [codec.decode(codec.line_of(bytes(element))[:-1]) for element in elements]
    return Array(found, entries, _identity(info))


def _identity(info: os.stat_result) -> tuple[int, int, int]:
    return info.st_ino, info.st_mtime_ns, info.st_size


def _stamped(entries: Iterable[AnyEntry], seq: int, fence: int) -> tuple[list[AnyEntry], int]:
    stored: list[AnyEntry] = []
    now = now_ms()
    for entry in entries:
        seq += 1
        if isinstance(entry, TurnStart):
            fence += 1
        stored.append(codec.encode(codec.stamp(entry, seq, now, fence))[0])
    return stored, fence
