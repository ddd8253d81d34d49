"""Writing a file that the user named: whole or not at all, and for the user alone."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from stratalog import Stratalog
from stratalog.errors import InvalidInput
from stratalog.osfiles import failed, open_new, remove, temporary, write_all
from stratalog.surfaces.cli.output import ReaderGone


def write_file(memory: Stratalog, file: Path, chunks: Iterable[bytes]) -> int:
    """Puts the chunks where `file` is, all or nothing, 0600. What is no plain file is written to as it is."""
    try:
        file = file.expanduser()
        if file.exists() and not file.is_dir() and not file.is_file():
            with file.open("wb", buffering=0) as stream:
                return sum(stream.write(chunk) or 0 for chunk in chunks)
        target = file.resolve()
        if target.is_relative_to(memory.data.resolve()):
            raise InvalidInput("this is within the data directory", path=str(file), hint="export elsewhere")
        if target.is_dir():
            raise InvalidInput("this is a directory", path=str(file), hint="name a file")
        scratch = temporary(target)
        fd = open_new(scratch)
        done = False
        try:
            size = 0
            for chunk in chunks:
                write_all(fd, chunk)
                size += len(chunk)
            scratch.rename(target)
            done = True
        finally:
            os.close(fd)
            if not done:
                remove(scratch)
        return size
    except BrokenPipeError as error:
        raise ReaderGone from error
    except OSError as error:
        raise failed(error, "writing the export", file) from error
