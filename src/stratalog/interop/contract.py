"""What an importer promises: sessions made of entries, and a report that accounts for every source record.

Reading is pure. An importer gets the bytes of one file and returns a `Transcript`; it writes nothing, and
whoever called it decides what becomes of the sessions. The same file gives the same ids each time, and a
file that has grown gives the old ids for its old part, so importing again adds only what is new.

Nothing is dropped in silence. Every record of the file is used (entries were made from it), merged (its
facts went into the entries of other records) or skipped with a reason; `read` is the sum of the three.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import msgspec

from stratalog.types import AnyEntry

Progress: TypeAlias = Callable[[int, int], None]


class Skip(msgspec.Struct, frozen=True, kw_only=True):
    """A record that gave nothing. `line` counts from 1, `offset` is in bytes; both 0 inside a JSON document.

    `kind` is `damage` for bytes that are no record, else the record's own type; `reason` is one sentence.
    """

    path: str
    line: int
    offset: int
    reason: str
    kind: str


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """The account of one file: `read == used + sum(merged.values()) + len(skipped)`.

    `kept` counts entries by type over all sessions, `merged` counts records by type, `notes` says in
    sentences what was decided: bridged parents, branches, unanswered calls, names that were rewritten.
    """

    format: str
    path: str
    read: int
    used: int
    merged: dict[str, int]
    kept: dict[str, int]
    skipped: list[Skip]
    notes: list[str]


class ImportedMemory(msgspec.Struct, frozen=True, kw_only=True):
    """Something another program remembered, to be kept as a record whose source is `entry` of its session.

    `key` names its slot, `user` whose it is ("" when the source does not say: then it is the agent's).
    A `payload` of None is the `text`. `said_at` is since when it says so, milliseconds UTC, 0 if unknown.
    """

    entry: str
    key: str
    text: str = ""
    payload: Any = None
    user: str = ""
    said_at: int = 0


class ImportedSession(msgspec.Struct, frozen=True, kw_only=True):
    """One conversation. `agent`, `channel` and `chat` pass `keys.session_key`.

    `title` is the title the source gave it, "" if none. `meta` has facts of the whole session; a branch or
    a sidechain names the chat it belongs to as `parent`, a branch also the entry it goes on from as `after`.
    `metadata` is what the session is to say of itself (`Session.set_metadata`). `named_by_file` says that
    `chat` is only the file's name, for want of an id in the source: an unrelated conversation may have the
    same. `in_forms` says that the source may keep the conversation in another form too, with other ids: what
    the log has of it is known by its words (`forms`). `memories` are what records are to be made of.
    """

    agent: str
    channel: str
    chat: str
    entries: tuple[AnyEntry, ...]
    title: str = ""
    meta: dict[str, Any]
    metadata: dict[str, Any] = {}
    named_by_file: bool = False
    in_forms: bool = False
    memories: tuple[ImportedMemory, ...] = ()


class Transcript(msgspec.Struct, frozen=True, kw_only=True):
    sessions: tuple[ImportedSession, ...]
    report: Report


class Source(NamedTuple):
    """The bytes of one file. `mtime` (milliseconds, UTC) dates entries when nothing in the file does."""

    path: Path
    data: bytes
    mtime: int
    progress: Progress | None = None


class Importer(NamedTuple):
    """`matches` judges by the first bytes of a file and its path; `read` may raise `ImportFailed`."""

    name: str
    matches: Callable[[bytes, Path], bool]
    read: Callable[[Source], Transcript]
