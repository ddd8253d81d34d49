"""The files that `kb add` is given: which are looked at, which are passed over and why, and their bytes.

Only here is a path opened. Within a directory, what is hidden, what leads out of it by a link, and what is no
file is passed over; a path that was named itself is taken as it is.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import NamedTuple

from stratalog.engine.knowing import MAX_BYTES, is_binary
from stratalog.errors import InvalidInput
from stratalog.osfiles import failed


class Named(NamedTuple):
    """A file to be added. `asked` says that it was named itself."""

    path: Path
    asked: bool


class Passed(NamedTuple):
    """What is passed over, and why."""

    path: Path
    reason: str


def looked_up(
    paths: Sequence[Path], *, recursive: bool, glob: str
) -> Iterator[Named | Passed | InvalidInput]:
    """What the paths come to, in order, each file once. A path that is not there is an error."""
    seen: set[Path] = set()
    for path in paths:
        if path.is_dir():
            found = _within(path, path.resolve(), recursive=recursive, glob=glob)
        elif path.exists():
            found = iter((Named(path, True),))
        else:
            yield InvalidInput("there is no such file", path=str(path))
            continue
        for each in found:
            if isinstance(each, Passed) or (at := each.path.resolve()) not in seen:
                yield each
                if isinstance(each, Named):
                    seen.add(at)


def content(named: Named) -> bytes | Passed:
    """The bytes of the file; of one that was not named itself, that it is passed over when it is no text.
    Raises `InvalidInput` for what is no file or too large, and `StorageFailed`."""
    try:
        # Not to wait for a pipe that was named.
        fd = os.open(named.path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise failed(error, "reading a document", named.path) from error
    with open(fd, "rb") as file:
        told = os.fstat(fd)
        if not stat.S_ISREG(told.st_mode):
            raise InvalidInput("this is no file", path=str(named.path))
        if told.st_size > MAX_BYTES:
            raise InvalidInput(
                "this document is too large; nothing of it was added",
                path=str(named.path), bytes=told.st_size, most=MAX_BYTES, hint="split it",
            )  # fmt: skip
        try:
            data = file.read()
        except OSError as error:
            raise failed(error, "reading a document", named.path) from error
    if not named.asked and is_binary(data) and not data.startswith(b"%PDF-"):
        return Passed(named.path, "no text")
    return data


def _within(directory: Path, root: Path, *, recursive: bool, glob: str) -> Iterator[Named | Passed]:
    try:
        entries = sorted(directory.iterdir())
    except OSError as error:
        yield Passed(directory, f"it cannot be read: {error.strerror}")
        return
    for path in entries:
        folder = path.is_dir()
        if path.name.startswith("."):
            yield Passed(path, "hidden")
        elif path.is_symlink() and (folder or not path.resolve().is_relative_to(root)):
            yield Passed(path, "a link" if folder else "a link that leads out of the directory")
        elif folder:
            if recursive:
                yield from _within(path, root, recursive=True, glob=glob)
            else:
                yield Passed(path, "a directory, without --recursive")
        elif not path.is_file():
            yield Passed(path, "no file")
        elif _matches(path, glob):
            yield Named(path, False)


def _matches(path: Path, glob: str) -> bool:
    return not glob or fnmatchcase(path.name, glob)
