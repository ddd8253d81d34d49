"""Which format a file is in, and reading it: the door of this room.

Formats are judged by the first bytes of a file, the most distinctive first, since several keep messages
with a role and some content. `FORMATS` is the table; an importer is found there by name.

A file is read whole, because a branch can only be told from the main line at its end. Files that cannot be
understood at all raise `ImportFailed`; folders are searched for candidates only, so that whoever asked can
say of each what came of it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from stratalog.errors import ImportFailed
from stratalog.interop.anthropic import ANTHROPIC
from stratalog.interop.chatgpt import CHATGPT
from stratalog.interop.claude_code import CLAUDE_CODE
from stratalog.interop.codex import CODEX
from stratalog.interop.contract import Importer, Progress, Source, Transcript
from stratalog.interop.gemini_cli import GEMINI_CLI
from stratalog.interop.native import STRATALOG
from stratalog.interop.openai import OPENAI
from stratalog.interop.pi import PI

_HEAD = 1 << 16
_SUFFIXES = (".jsonl", ".json")

FORMATS: dict[str, Importer] = {
    importer.name: importer
    for importer in (STRATALOG, CODEX, PI, GEMINI_CLI, CHATGPT, CLAUDE_CODE, ANTHROPIC, OPENAI)
}


def detect(path: Path) -> str:
    """The name of the format of the file at `path`, a key of `FORMATS`. Raises `ImportFailed`."""
    try:
        with path.open("rb") as file:
            head = file.read(_HEAD)
    except OSError as error:
        raise _unreadable(path, error) from error
    return _judge(head, path)


def read_transcript(path: Path, format: str | None = None, progress: Progress | None = None) -> Transcript:
    """The sessions in the file at `path` with a report of every record.

    `format` is a key of `FORMATS`; by default it is detected. `progress` is called with the bytes done and
    the bytes in all. Raises `ImportFailed` when the file cannot be read, its format is unknown, or nothing
    in it is a record of that format; a bad record in a good file is a `Skip` in the report.
    """
    if format is not None and format not in FORMATS:
        raise ImportFailed(
            "there is no such format", format=format, hint=f"the formats are {', '.join(FORMATS)}"
        )
    try:
        data = path.read_bytes()
        mtime = path.stat().st_mtime_ns // 1_000_000
    except OSError as error:
        raise _unreadable(path, error) from error
    importer = FORMATS[format or _judge(data[:_HEAD], path)]
    transcript = importer.read(Source(path, data, mtime, progress))
    report = transcript.report
    damaged = all(skip.kind == "damage" for skip in report.skipped)
    if not transcript.sessions and not report.merged and damaged:
        first = report.skipped[0] if report.skipped else None
        raise ImportFailed(
            f"nothing in this file is a record of {importer.name}" + (f": {first.reason}" if first else ""),
            path=path,
            line=first.line if first else None,
            hint="name its format if the detected one is wrong",
        )
    return transcript


def find_transcripts(paths: Iterable[Path]) -> list[Path]:
    """The files that may be transcripts, sorted, each once.

    A file that is named is taken whatever its suffix; a folder gives the `.jsonl` and `.json` files
    anywhere below it, without following links to folders. Raises `ImportFailed` for a path that is neither.
    """
    found: set[Path] = set()
    for path in paths:
        if path.is_file():
            found.add(path)
        elif path.is_dir():
            for folder, _, names in os.walk(path):
                found.update(Path(folder, name) for name in names if name.lower().endswith(_SUFFIXES))
        else:
            raise ImportFailed("there is no such file or folder", path=path, hint="check the path")
    return sorted(found)


def _judge(head: bytes, path: Path) -> str:
    head = head.removeprefix(b"\xef\xbb\xbf")
    for name, importer in FORMATS.items():
        if importer.matches(head, path):
            return name
    raise ImportFailed(
        "the file is empty" if not head.strip() else "this is not a transcript of a known format",
        path=path,
        hint=f"the formats are {', '.join(FORMATS)}",
    )


def _unreadable(path: Path, error: OSError) -> ImportFailed:
    return ImportFailed(
        f"the file cannot be read: {error.strerror}", path=path, hint="check that it exists and is yours"
    )
