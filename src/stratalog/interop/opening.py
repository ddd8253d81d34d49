"""From a path to the bytes that importers judge and read, whatever the path holds them in.

Most files are read as they are. A zip archive gives its `conversations*.json`, a gzipped file what was
packed, a database its pages with what still stands in its write-ahead log, and a folder that has one JSON
file for each event gives the events as lines. Importers never see the difference but for a database, which
`database` opens from bytes. What is packed is refused when it is far larger than text can be, so that a small
file cannot fill the memory; pipes and devices, which may never end, are not opened.

For judging there is a head: the first 64 KiB of the text, or of a database its mark and the statements that
made its tables.
"""

from __future__ import annotations

import gzip
import io
import re
import sqlite3
import stat
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from stratalog.errors import ImportFailed
from stratalog.interop.database import DAMAGE

DATABASE = b"SQLite format 3\x00"
_HEAD = 1 << 16
_ZIP = b"PK\x03\x04"
_GZIP = b"\x1f\x8b"
_EVENT = re.compile(r"(?:event-)?(\d+)(?:-[\w-]+)?\.json")
_MEMBER = re.compile(r"(?:.*/)?conversations[^/]*\.json", re.IGNORECASE)
_CHUNK = 1 << 20
_ALWAYS = 1 << 28  # bytes that may come out of a file however small it is
_DENSEST = 100  # times as much as the file takes; transcripts take a tenth, zeros a thousandth
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)  # others unpack without a bound


class Piece(NamedTuple):
    """Something to be judged or read, under the path that says what it is called."""

    path: Path
    data: bytes


def is_events(path: Path) -> bool:
    """Whether `path` is a folder called `events` with a JSON file for each event."""
    return path.name == "events" and path.is_dir() and next(iter(_events(path)), None) is not None


def heads(path: Path) -> list[Piece]:
    """What the format of `path` is told by, in the order to try. Raises `OSError` and `ImportFailed`."""
    if _is_folder(path):
        return [Piece(path, _joined(path, _events(path)[:20])[:_HEAD])]
    with path.open("rb") as file:
        head = file.read(_HEAD)
    if head.startswith(DATABASE):
        return [Piece(path, DATABASE + _schema(path))]
    if head.startswith(_ZIP):
        return list(_members(path, _HEAD))
    if head.startswith(_GZIP):
        return [Piece(path.with_suffix(""), _unpacked(head, _HEAD))]
    return [Piece(path, head)]


def pieces(path: Path) -> list[Piece]:
    """All that is to be read of `path`, each piece a source of its own. Raises as `heads` does."""
    if _is_folder(path):
        return [Piece(path, _joined(path, _events(path)))]
    data = path.read_bytes()
    if data.startswith(DATABASE):
        return [Piece(path, _pages(path))]
    if data.startswith(_ZIP):
        return list(_members(path, None))
    if data.startswith(_GZIP):
        most = _most(len(data))
        unpacked = _unpacked(data, most + 1)
        if len(unpacked) > most:
            raise _too_large(path)
        return [Piece(path.with_suffix(""), unpacked)]
    return [Piece(path, data)]


def _is_folder(path: Path) -> bool:
    """Whether `path` is a folder and no file. Raises `OSError`, and `ImportFailed` for what is neither."""
    mode = path.stat().st_mode
    if not stat.S_ISDIR(mode) and not stat.S_ISREG(mode):
        hint = "write what it gives to a file, and import that"
        raise ImportFailed("this is neither a file nor a folder", path=path, hint=hint)
    return stat.S_ISDIR(mode)


def _most(size: int) -> int:
    """How many bytes may be packed in a file of this size."""
    return max(_ALWAYS, _DENSEST * size)


def _too_large(path: Path) -> ImportFailed:
    return ImportFailed(
        "what is packed here is far larger than a transcript of this size can be",
        path=path,
        hint="unpack it yourself, and import what is in it, if you trust it",
    )


def _events(folder: Path) -> list[str]:
    """The names of the folder's files of events, by their numbers."""
    found = [
        (int(match[1]), path.name)
        for path in folder.iterdir()
        if (match := _EVENT.fullmatch(path.name)) and path.is_file()
    ]
    return [name for _, name in sorted(found)]


def _joined(folder: Path, names: list[str]) -> bytes:
    # A line break of a JSON document stands between its values, never inside a string.
    return b"".join((folder / name).read_bytes().replace(b"\n", b" ") + b"\n" for name in names)


def _members(path: Path, limit: int | None) -> Iterator[Piece]:
    """The conversations in an archive, or the first `limit` bytes of each."""
    left = _most(path.stat().st_size)
    try:
        with zipfile.ZipFile(path) as archive:
            names = sorted(name for name in archive.namelist() if _MEMBER.fullmatch(name))
            for name in names:
                if archive.getinfo(name).compress_type not in _METHODS:
                    raise NotImplementedError(f"{name} is packed in an unusual way")
                with archive.open(name) as member:
                    most = left + 1 if limit is None else limit
                    # What an archive says of its sizes need not be so.
                    data = _all(lambda: member.read(_CHUNK), most)  # read before the next
                left -= len(data)
                if left < 0:
                    raise _too_large(path)
                yield Piece(path / name, data)
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError) as error:
        raise ImportFailed(
            f"this archive cannot be unpacked: {error}",
            path=path,
            hint="unpack it yourself, and import what is in it",
        ) from error
    if not names:
        raise ImportFailed(
            "there is no conversations.json in this archive",
            path=path,
            hint="unpack it, and import the files that are transcripts",
        )


def _unpacked(data: bytes, most: int) -> bytes:
    """What was packed, of all members, up to where they are torn; at most the first `most` bytes."""
    with gzip.GzipFile(fileobj=io.BytesIO(data)) as file:
        return _all(lambda: _more(file), most)


def _more(file: gzip.GzipFile) -> bytes:
    try:
        return file.read1(_CHUNK)
    except (EOFError, gzip.BadGzipFile, zlib.error):
        return b""


def _all(read: Callable[[], bytes], most: int) -> bytes:
    """What `read` gives until that is nothing; at most the first `most` bytes."""
    done: list[bytes] = []
    size = 0
    while size < most and (data := read()):
        done.append(data)
        size += len(data)
    return b"".join(done)[:most]


def _connected(path: Path) -> sqlite3.Connection:
    """The database, for reading only; where nothing is in its write-ahead log, without a lock."""
    log = path.with_name(f"{path.name}-wal")
    waiting = log.is_file() and log.stat().st_size > 0
    mode = "mode=ro" if waiting else "mode=ro&immutable=1"
    return sqlite3.connect(f"{path.resolve().as_uri()}?{mode}", uri=True)


def _schema(path: Path) -> bytes:
    try:
        with closing(_connected(path)) as database:
            rows = database.execute("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL").fetchall()
    except DAMAGE as error:
        raise _damaged(path, error) from error
    return "\n".join(str(sql) for (sql,) in rows).encode("utf-8", "replace")


def _pages(path: Path) -> bytes:
    try:
        with closing(_connected(path)) as database:
            return database.serialize()
    except DAMAGE as error:
        raise _damaged(path, error) from error


def _damaged(path: Path, error: Exception) -> ImportFailed:
    return ImportFailed(
        f"this database cannot be read: {error}",
        path=path,
        hint="close the program that writes it, or import a copy that `sqlite3 FILE .recover` made",
    )
