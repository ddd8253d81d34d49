"""Bringing read transcripts into a memory: what is new in them is appended, what is there already is not.

Entries of the same source have the same ids each time, so importing again adds nothing and importing a file
that has grown adds its new part. Where a program keeps a conversation in two forms, `forms` tells what is
there already. A file that cannot be read stops nothing; its error is its result.

A source that has no id for its conversation is called by its file's name, and files of one name may have
nothing to do with one another. Such a conversation goes into the session of that name only when one begins
as the other does (with the same first three messages or calls); else into the first of `name-2`, `name-3` …
that is its own or nobody's.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import NamedTuple, TypeAlias

import msgspec

from stratalog.engine.core import Stratalog
from stratalog.engine.reading import without_references
from stratalog.engine.session import Session
from stratalog.errors import ImportFailed, InvalidInput, StratalogError
from stratalog.interop.contract import ImportedMemory, ImportedSession, Report
from stratalog.interop.detect import read_transcript
from stratalog.interop.forms import as_logged
from stratalog.interop.growing import alone, changed_ends
from stratalog.keys import SessionKey, session_key
from stratalog.types import AnyEntry, Assistant, Title, ToolCall, User

_BATCH = 500
_OPENING = 3
FileProgress = Callable[[Path, int, int], None]
Remember: TypeAlias = Callable[[Stratalog, SessionKey, Sequence[ImportedMemory]], Mapping[str, int]]


class SessionImport(msgspec.Struct, frozen=True):
    """What one session of a file came to: its key, entries added, and entries that were there already;
    of memories, how many had which outcome (`stored`, `merged`, `superseded`, `conflict`, `refused`)."""

    key: SessionKey
    added: int
    present: int
    memories: Mapping[str, int] = {}


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
    remember: Remember | None = None,
) -> Iterator[FileImport]:
    """Imports each file and yields what it came to, in order.

    `format` is a key of `detect.FORMATS`, detected by default; `agent` replaces the agent that the format
    names. `progress` gets the file, bytes done and bytes in all. `remember` makes records of the memories
    that a session holds (`memories.remember`); without it they are entries only, which the report says.
    Errors of a file or of a session's log are in its result; what was imported before them stays. A file
    that gives no session is an error.
    """
    openings: _Openings = {}
    for path in paths:
        told = (lambda done, total, path=path: progress(path, done, total)) if progress is not None else None
        done: list[SessionImport] = []
        report: Report | None = None
        try:
            _must_be_outside(path, memory)
            transcript = read_transcript(path, format, told)
            report = transcript.report
            if not transcript.sessions:
                raise _no_session(path, report)
            for imported in transcript.sessions:
                made = _bring(memory, imported, agent, openings)
                if imported.memories and remember is not None:
                    outcomes = remember(memory, made.key, imported.memories)
                    made = msgspec.structs.replace(made, memories=outcomes)
                done.append(made)
                report = _noted(report, imported, made)
        except StratalogError as error:
            yield FileImport(path, tuple(done), report, error)
        else:
            yield FileImport(path, tuple(done), report)


def _must_be_outside(path: Path, memory: Stratalog) -> None:
    """A memory does not take in its own logs."""
    # Unlike `Path.resolve` this takes a link that leads to itself.
    if Path(os.path.realpath(path)).is_relative_to(memory.data.resolve()):
        raise ImportFailed(
            "this file is part of the memory that it would be imported into",
            path=str(path),
            hint="export it first, or import it into another data directory",
        )


def _no_session(path: Path, report: Report) -> ImportFailed:
    foreign = not report.merged and not report.used
    if foreign:
        what, hint = (
            f"nothing in this file is a record of {report.format}",
            "name its format if it is another",
        )
    else:
        what, hint = "there is no conversation in this file", "it may have ended before anything was said"
    return ImportFailed(what, path=path, hint=hint)


def _noted(report: Report, imported: ImportedSession, made: SessionImport) -> Report:
    """The report with a note, if another conversation has the session's name, and one of its memories."""
    notes: list[str] = []
    chat = imported.chat
    if made.key.chat != chat and imported.named_by_file:
        notes.append(f"{chat}: another conversation has this name; the chat of this one is {made.key.chat}")
    if made.memories:
        told = ", ".join(f"{count} {outcome}" for outcome, count in sorted(made.memories.items()))
        notes.append(f"{chat}: memories: {told}")
    elif imported.memories:
        notes.append(f"{chat}: of {len(imported.memories)} memories no records were made")
    return msgspec.structs.replace(report, notes=[*report.notes, *notes])


class _Opening(NamedTuple):
    """How a conversation begins: the ids of its first messages and calls, and of its first entries."""

    said: tuple[str, ...]
    first: tuple[str, ...]

    def agrees(self, other: _Opening) -> bool:
        """Whether one may be the other as it was earlier, or the same."""
        one, two = (self.said, other.said) if self.said and other.said else (self.first, other.first)
        return all(left == right for left, right in zip(one, two, strict=False))


_Openings: TypeAlias = dict[SessionKey, _Opening]


def _bring(
    memory: Stratalog, imported: ImportedSession, agent: str | None, openings: _Openings
) -> SessionImport:
    key = session_key(agent or imported.agent, imported.channel, imported.chat, memory.tenant)
    with alone(memory):
        if imported.named_by_file:
            key = _own(memory, key, _opening(imported.entries), openings)
        session = memory.session(key)
        logged = list(session.entries(blobs=imported.in_forms, generations="all"))
        if imported.in_forms:
            imported = as_logged(imported, logged)
        present = {entry.id for entry in logged}
        _describe(session, imported)
        # A payload that the file only refers to is not to be had; what the entry says itself is kept.
        new = [without_references(entry) for entry in imported.entries if entry.id not in present]
        new += (end for end in changed_ends(imported.entries, logged) if end.id not in present)
        for start in range(0, len(new), _BATCH):
            session.append(*new[start : start + _BATCH])
        _name(session, imported, bool(new))
    known = sum(entry.id in present for entry in imported.entries)
    return SessionImport(key, len(new), known)


def _own(memory: Stratalog, key: SessionKey, opening: _Opening, openings: _Openings) -> SessionKey:
    """The first of `chat`, `chat-2`, `chat-3` … that does not exist or begins as this conversation does."""
    for number in count(1):
        tried = key._replace(chat=f"{key.chat}-{number}") if number > 1 else key
        there = openings.get(tried)
        if there is None:
            there = _opening(memory.session(tried).entries(blobs=False, generations="all"))
            # One that is complete stays as it is, so that many files of one name are soon told apart.
            if len(there.said) == _OPENING:
                openings[tried] = there
        if there.agrees(opening):
            break
    return tried


def _opening(entries: Iterable[AnyEntry]) -> _Opening:
    said: list[str] = []
    first: list[str] = []
    for entry in entries:
        if len(first) < _OPENING:
            first.append(entry.id)
        if isinstance(entry, User | Assistant | ToolCall):
            said.append(entry.id)
            if len(said) == _OPENING:
                break
    return _Opening(tuple(said), tuple(first))


def _describe(session: Session, imported: ImportedSession) -> None:
    """Says of the session what the source says of it and nobody said here, before it has any of its words."""
    known = session.meta.metadata
    new = {name: value for name, value in imported.metadata.items() if name not in known}
    if new:
        session.set_metadata(**new)


def _name(session: Session, imported: ImportedSession, new: bool) -> None:
    """Gives the session the source's title, where no entry of it did."""
    titled = any(isinstance(entry, Title) for entry in imported.entries)
    if new and imported.title and not titled and session.meta.title != imported.title:
        with suppress(InvalidInput):  # a title of which nothing shows is none
            session.set_title(imported.title, by="import")
