"""What the tests of this room share: writing a sample file, reading it, and the account of it."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from stratalog.engine.reading import withdrawal
from stratalog.interop.contract import ImportedSession, Source, Transcript
from stratalog.interop.detect import FORMATS
from stratalog.keys import session_key
from stratalog.types import (
    AnyEntry,
    Assistant,
    Note,
    System,
    Title,
    ToolCall,
    ToolResult,
    User,
    text_of,
)

MTIME = 1_700_000_000_000
_E = TypeVar("_E")


def jsonl(*values: Any) -> bytes:
    return b"".join(json.dumps(value).encode() + b"\n" for value in values)


def read(format: str, data: bytes | Any, name: str = "sample.jsonl", mtime: int = MTIME) -> Transcript:
    """What an importer makes of `data`, checked for what holds of every transcript."""
    raw = data if isinstance(data, bytes) else json.dumps(data).encode()
    transcript = FORMATS[format].read(Source(Path(name), raw, mtime))
    check(transcript)
    return transcript


def check(transcript: Transcript) -> None:
    """Every record is accounted for, ids are unique, keys are valid, entries can be stored."""
    report = transcript.report
    assert report.read == report.used + sum(report.merged.values()) + len(report.skipped)
    assert all(skip.reason and skip.kind for skip in report.skipped)
    assert sum(report.kept.values()) == sum(len(session.entries) for session in transcript.sessions)
    keys = [session_key(session.agent, session.channel, session.chat) for session in transcript.sessions]
    assert len(set(keys)) == len(keys)
    for session in transcript.sessions:
        ids = [entry.id for entry in session.entries]
        assert len(set(ids)) == len(ids)
        turns = {entry.id for entry in session.entries}
        for entry in session.entries:
            assert entry.ts > 0
            assert not entry.turn or entry.turn in turns
            raw = msgspec.json.encode(entry)
            assert msgspec.json.encode(msgspec.json.decode(raw, type=AnyEntry)) == raw


def ids(transcript: Transcript) -> set[str]:
    return {entry.id for session in transcript.sessions for entry in session.entries}


def withdrawn_talk(ts: int = 1_736_935_200_123) -> list[AnyEntry]:
    """A log's entries: all that says `gone` is withdrawn by the third from the end, before which another note
    names what is no message."""
    said: list[AnyEntry] = [
        System(content="gone rule"),
        User(content="gone words"),
        ToolCall(call_id="1", name="look", args={"at": "gone place"}),
        ToolResult(call_id="1", name="look", content="gone sight", error=True),
        Assistant(content="gone reply"),
        Title(title="A talk"),
    ]
    numbered = [msgspec.structs.replace(each, seq=n, id=f"{n:026}", ts=ts) for n, each in enumerate(said, 1)]
    others = [
        Note(kind="withdrawn", data={"entries": [f"{6:026}", f"{9:026}"]}),
        withdrawal(numbered[:5]),
        User(content="said again"),
        Assistant(content="and answered"),
    ]
    return numbered + [
        msgspec.structs.replace(each, seq=n, id=f"{n:026}", ts=ts) for n, each in enumerate(others, 7)
    ]


def of(kind: type[_E], source: Transcript | ImportedSession) -> list[_E]:
    """The entries of one type, in order."""
    sessions = source.sessions if isinstance(source, Transcript) else (source,)
    return [entry for session in sessions for entry in session.entries if isinstance(entry, kind)]


def outline(session: ImportedSession) -> list[tuple[str, str]]:
    """Each entry's type with its words, its tool or its status: a session at a glance."""
    return [(str(entry.__struct_config__.tag), _gist(entry)) for entry in session.entries]


def chats(transcript: Transcript) -> list[str]:
    return [session.chat for session in transcript.sessions]


def notes(transcript: Transcript) -> str:
    return "\n".join(transcript.report.notes)


def grows(format: str, values: Iterable[Any]) -> None:
    """Asserts that every part of a file from its start has ids that the whole file has too."""
    lines = [jsonl(value) for value in values]
    whole = ids(read(format, b"".join(lines)))
    for count in range(len(lines)):
        part = ids(read(format, b"".join(lines[:count]), mtime=MTIME + count))
        assert part <= whole, f"after {count} lines"


def _gist(entry: AnyEntry) -> str:
    if isinstance(entry, ToolResult):
        return text_of(entry.content)
    if isinstance(entry, ToolCall):
        return entry.name
    for field in ("content", "summary", "title", "status", "kind"):
        value = getattr(entry, field, None)
        if value is not None:
            return text_of(value)
    return ""
