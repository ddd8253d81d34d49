"""Which format a file is in, and reading it: the door of this room.

Formats are judged by the first bytes of a file, the most distinctive first, since several keep messages
with a role and some content. `FORMATS` is the table; an importer is found there by name.

A file is read whole, because a branch can only be told from the main line at its end. Files that cannot be
understood at all raise `ImportFailed`; folders are searched for candidates only, so that whoever asked can
say of each what came of it. What kinds of file there are is `opening`'s; archives and databases that a folder
holds are candidates only when their format is known, for most of them are no transcripts.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

from stratalog.errors import ImportFailed
from stratalog.interop.aider import AIDER
from stratalog.interop.aider import NAME as AIDER_FILE
from stratalog.interop.anthropic import ANTHROPIC
from stratalog.interop.chatgpt import CHATGPT
from stratalog.interop.claude_ai import CLAUDE_AI
from stratalog.interop.claude_code import CLAUDE_CODE
from stratalog.interop.codex import CODEX
from stratalog.interop.contract import Importer, Progress, Report, Source, Transcript
from stratalog.interop.gemini_cli import GEMINI_CLI
from stratalog.interop.hermes import HERMES
from stratalog.interop.langgraph_files import LANGGRAPH
from stratalog.interop.mem0_export import MEM0
from stratalog.interop.nanobot import NANOBOT
from stratalog.interop.native import STRATALOG
from stratalog.interop.openai import OPENAI
from stratalog.interop.openclaw import OPENCLAW
from stratalog.interop.openhands import OPENHANDS
from stratalog.interop.opening import Piece, heads, is_events, pieces
from stratalog.interop.pi import PI
from stratalog.interop.sharegpt import SHAREGPT
from stratalog.interop.swe_agent import SWE_AGENT

_SUFFIXES = (".jsonl", ".json", ".traj")
_IF_KNOWN = (".db", ".sqlite", ".sqlite3", ".zip", ".jsonl.gz")

FORMATS: dict[str, Importer] = {
    importer.name: importer
    for importer in (
        *(
            STRATALOG,
            CODEX,
            OPENCLAW,
            PI,
            GEMINI_CLI,
            CHATGPT,
            CLAUDE_AI,
            CLAUDE_CODE,
            HERMES,
            NANOBOT,
            AIDER,
        ),
        *(OPENHANDS, SWE_AGENT, SHAREGPT, LANGGRAPH, MEM0, ANTHROPIC, OPENAI),
    )
}


def detect(path: Path) -> str:
    """The name of the format of what is at `path`, a key of `FORMATS`. Raises `ImportFailed`."""
    try:
        return _judge(heads(path), path)
    except OSError as error:
        raise _unreadable(path, error) from error


def read_transcript(path: Path, format: str | None = None, progress: Progress | None = None) -> Transcript:
    """The sessions in the file at `path` with a report of every record; `path` may be an OpenHands folder of
    events.

    `format` is a key of `FORMATS`; by default it is detected. `progress` is called with the bytes done and
    the bytes in all. Raises `ImportFailed` when the file cannot be read, its format is unknown, or nothing
    in it is a record of that format; a bad record in a good file is a `Skip` in the report.
    """
    if format is not None and format not in FORMATS:
        raise ImportFailed(
            "there is no such format", format=format, hint=f"the formats are {', '.join(FORMATS)}"
        )
    try:
        importer = FORMATS[format or _judge(heads(path), path)]
        mtime = path.stat().st_mtime_ns // 1_000_000
        parts = [importer.read(Source(*piece, mtime, progress)) for piece in pieces(path)]
    except OSError as error:
        raise _unreadable(path, error) from error
    transcript = parts[0] if len(parts) == 1 else _together(importer.name, path, parts)
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


def nothing_at(path: Path) -> ImportFailed:
    """The error for a path at which there is neither a file nor a folder."""
    return ImportFailed("there is no such file or folder", path=path, hint="check the path")


def find_transcripts(paths: Iterable[Path]) -> list[Path]:
    """The files that may be transcripts, sorted, each once.

    A file that is named is taken whatever its suffix; a folder gives the `.jsonl`, `.json` and `.traj` files
    anywhere below it, aider's histories, databases and archives of a known format, and for the events of an
    OpenHands conversation the folder they are in. Links to folders are not followed. Raises `ImportFailed`
    for a path that is neither.
    """
    found: set[Path] = set()
    for path in paths:
        if path.is_file():
            found.add(path)
        elif path.is_dir():
            found.update(_below(path))
        else:
            raise nothing_at(path)
    return sorted(found)


def _below(root: Path) -> Iterator[Path]:
    for where, folders, names in os.walk(root):
        folder = Path(where)
        if is_events(folder):
            yield folder
            folders.clear()
            continue
        if is_events(folder / "events"):
            # Pages of the same events, which OpenHands keeps beside them.
            folders[:] = [name for name in folders if name != "event_cache"]
        for name in names:
            lowered = name.lower()
            if (
                lowered.endswith(_SUFFIXES)
                or lowered == AIDER_FILE
                or (lowered.endswith(_IF_KNOWN) and _known(folder / name))
            ):
                yield folder / name


def _known(path: Path) -> bool:
    try:
        detect(path)
    except ImportFailed:
        return False
    return True


def _judge(found: list[Piece], path: Path) -> str:
    for piece in found:
        head = piece.data.removeprefix(b"\xef\xbb\xbf")
        for name, importer in FORMATS.items():
            if importer.matches(head, piece.path):
                return name
    raise ImportFailed(
        "this is not a transcript of a known format"
        if any(piece.data.strip() for piece in found)
        else "the file is empty",
        path=path,
        hint=f"the formats are {', '.join(FORMATS)}",
    )


def _together(format: str, path: Path, parts: list[Transcript]) -> Transcript:
    """One transcript of several, such as the files of an archive."""
    merged, kept = Counter[str](), Counter[str]()
    for part in parts:
        merged.update(part.report.merged)
        kept.update(part.report.kept)
    report = Report(
        format=format,
        path=str(path),
        read=sum(part.report.read for part in parts),
        used=sum(part.report.used for part in parts),
        merged=dict(merged),
        kept=dict(kept),
        skipped=[skip for part in parts for skip in part.report.skipped],
        notes=[note for part in parts for note in part.report.notes],
    )
    return Transcript(sessions=tuple(session for part in parts for session in part.sessions), report=report)


def _unreadable(path: Path, error: OSError) -> ImportFailed:
    return ImportFailed(
        f"the file cannot be read: {error.strerror}", path=path, hint="check that it exists and is yours"
    )
