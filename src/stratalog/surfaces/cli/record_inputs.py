"""What is typed for the commands of `memory`, and the file of a bundle, checked and read."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from stratalog import SessionKey, Stratalog, parse_key
from stratalog.engine.naming import resolve
from stratalog.engine.remembering import MAX_LINE
from stratalog.errors import InvalidInput, InvalidKey, NotFound
from stratalog.osfiles import failed


def session_named(memory: Stratalog, text: str) -> SessionKey:
    """The session that `text` names, or, by its whole key, one that is not there or not any more."""
    try:
        return resolve(memory, text)
    except NotFound:
        with suppress(InvalidKey):
            return parse_key(text, memory.tenant)
        raise


def json_value(text: str) -> Any:
    """The value that was typed as JSON. Raises `InvalidInput`."""
    try:
        return msgspec.json.decode(text.encode("utf-8", "surrogatepass"))
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise InvalidInput(
            "the payload is no JSON",
            hint='quote it for the shell, as in --json-payload \'{"city": "Lisbon"}\'',
        ) from error


@contextmanager
def opened(file: Path) -> Iterator[BinaryIO]:
    """The file, to be read. Raises `InvalidInput` where there is none, and `StorageFailed`."""
    try:
        stream = file.expanduser().open("rb")
    except (FileNotFoundError, IsADirectoryError, ValueError) as error:
        raise InvalidInput("there is no such file", path=str(file), hint="name a bundle") from error
    except OSError as error:
        raise failed(error, "reading the bundle", file) from error
    with stream:
        yield stream


def lines_of(stream: BinaryIO, file: Path) -> Iterator[bytes]:
    """The lines, of which none takes more memory than a bundle's may, and one byte."""
    try:
        while line := stream.readline(MAX_LINE + 1):
            yield line
    except OSError as error:
        raise failed(error, "reading the bundle", file) from error
