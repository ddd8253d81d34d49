"""Bringing read transcripts into a memory: what is new in them is appended, what is there already is not.

Entries of the same source have the same ids each time, so importing again adds nothing and importing a file
that has grown adds its new part. A file that cannot be read stops nothing; its error is its result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import msgspec

from stratalog.engine.core import Stratalog
from stratalog.engine.session import Session
from stratalog.errors import ImportFailed, StratalogError
from stratalog.interop.contract import ImportedSession, Report
from stratalog.interop.detect import read_transcript
from stratalog.keys import SessionKey, session_key
from stratalog.types import Title

_BATCH = 500
FileProgress = Callable[[Path, int, int], None]


class SessionImport(msgspec.Struct, frozen=True):
    """What one session of a file came to: its key, entries added, and entries that were there already."""

    key: SessionKey
    added: int
    present: int


class FileImport(msgspec.Struct, frozen=True):
    """What one file came to: its sessions and the account of its records, or why it could not be read."""

    path: Path
    sessions: tuple[SessionImport, ...] = ()
    report: Report | None = None
    error: StratalogError | None = None


def import_files(
    memory: Stratalog,
    paths: Iterable[Path],
    *,
    format: str | None = None,
    agent: str | None = None,
    progress: FileProgress | None = None,
) -> Iterator[FileImport]:
    """Imports each file and yields what it came to, in order.

    `format` is a key of `detect.FORMATS`, detected by default; `agent` replaces the agent that the format
    names. `progress` gets the file, bytes done and bytes in all. Errors of a file or of a session's log are
    in its result; what was imported before them stays.
    """
    for path in paths:
        told = (lambda done, total, path=path: progress(path, done, total)) if progress is not None else None
        done: list[SessionImport] = []
        report: Report | None = None
        try:
            _must_be_outside(path, memory)
            transcript = read_transcript(path, format, told)
            report = transcript.report
            for imported in transcript.sessions:
                done.append(import_session(memory, imported, agent=agent))
        except StratalogError as error:
            yield FileImport(path, tuple(done), report, error)
        else:
            yield FileImport(path, tuple(done), report)


def _must_be_outside(path: Path, memory: Stratalog) -> None:
    """A memory does not take in its own logs."""
    if path.resolve().is_relative_to(memory.data.resolve()):
        raise ImportFailed(
            "this file is part of the memory that it would be imported into",
            path=str(path),
            hint="export it first, or import it into another data directory",
        )


def import_session(
    memory: Stratalog, imported: ImportedSession, *, agent: str | None = None
) -> SessionImport:
    """Appends the entries of `imported` that its session does not have yet."""
    key = session_key(agent or imported.agent, imported.channel, imported.chat, memory.tenant)
    session = memory.session(key)
    present = {entry.id for entry in session.entries(blobs=False, generations="all")}
    new = [entry for entry in imported.entries if entry.id not in present]
    for start in range(0, len(new), _BATCH):
        session.append(*new[start : start + _BATCH])
    _name(session, imported, bool(new))
    return SessionImport(key, len(new), len(imported.entries) - len(new))


def _name(session: Session, imported: ImportedSession, new: bool) -> None:
    """Gives the session the source's title, where no entry of it did."""
    titled = any(isinstance(entry, Title) for entry in imported.entries)
    if new and imported.title and not titled and session.meta.title != imported.title:
        session.set_title(imported.title, by="import")
