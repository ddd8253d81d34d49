"""Memories of mem0: entries and records, by owner; the history of the database; a later export."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from interop.samples import chats, check, notes, of, read
from stratalog import Stratalog
from stratalog.engine.purging import purge
from stratalog.engine.remembering import ADMIN, Draft, Layer, Records, Scope, Selector
from stratalog.interop.contract import ImportedMemory, Transcript
from stratalog.interop.detect import detect, read_transcript
from stratalog.interop.ingest import import_files
from stratalog.interop.memories import remember
from stratalog.types import Note, User

MEMORIES = [
    {
        "id": "m1",
        "memory": "Ana lives in Lisbon",
        "hash": "h",
        "metadata": {"topic": "home"},
        "created_at": "2026-01-01T00:00:00+00:00",
        "updated_at": None,
        "user_id": "ana",
        "role": "user",
    },
    {
        "id": "m2",
        "memory": "Ana has a cat",
        "hash": "h",
        "created_at": "2026-01-02T00:00:00Z",
        "user_id": "ana",
    },
    {
        "id": "m3",
        "memory": "Be brief",
        "hash": "h",
        "created_at": "2026-01-02T00:00:00Z",
        "agent_id": "helper",
    },
]
MOVED = [
    MEMORIES[0] | {"memory": "Ana lives in Porto", "updated_at": "2026-03-01T00:00:00+00:00"},
    *MEMORIES[1:],
]


def load(value: Any) -> Transcript:
    return read("mem0", value, "memories.json")


def test_export() -> None:
    """Each owner's memories are notes of a session, and what records are made of."""
    transcript = load({"results": MEMORIES})
    assert chats(transcript) == ["user:ana", "agent:helper"]
    first = of(Note, transcript)[0]
    assert (first.text, first.data) == (
        "Ana lives in Lisbon",
        {"metadata": {"topic": "home"}, "user_id": "ana", "role": "user"},
    )
    assert transcript.sessions[0].memories[0] == ImportedMemory(
        entry=first.id, key="mem0 m1", text="Ana lives in Lisbon", user="ana", said_at=1_767_225_600_000
    )
    assert [one.user for one in transcript.sessions[1].memories] == [""]


def _current(memory: Stratalog, scope: Scope) -> list[tuple[str, tuple[str, ...]]]:
    with Records(memory) as records:
        who = records.caller(user=scope.id if scope.kind == "user" else "", agent="mem0")
        page = records.service.current(who, scopes=[scope])
        return sorted((one.text, tuple(source.entry for source in one.sources)) for one in page.records)


def test_records(tmp_path: Path) -> None:
    """A memory becomes a record whose source is its entry; again nothing changes, and a later one goes on."""
    file = tmp_path / "memories.json"
    ana, agent = Scope("user", "ana"), Scope("agent", "mem0")
    with Stratalog(tmp_path / "data") as memory:
        file.write_text(json.dumps(MEMORIES))
        (first,) = import_files(memory, [file], remember=remember)
        assert [dict(made.memories) for made in first.sessions] == [{"stored": 2}, {"stored": 1}]
        assert first.report is not None
        assert "user:ana: memories: 2 stored" in first.report.notes
        entries = {one.text: one.id for one in of(Note, read_transcript(file))}
        assert _current(memory, ana) == [
            (words, (entries[words],)) for words in ("Ana has a cat", "Ana lives in Lisbon")
        ]
        assert [words for words, _ in _current(memory, agent)] == ["Be brief"]

        (again,) = import_files(memory, [file], remember=remember)
        assert [dict(made.memories) for made in again.sessions] == [{"merged": 2}, {"merged": 1}]
        assert [made.added for made in again.sessions] == [0, 0]

        file.write_text(json.dumps(MOVED))
        (later,) = import_files(memory, [file], remember=remember)
        assert dict(later.sessions[0].memories) == {"merged": 1, "superseded": 1}
        assert [words for words, _ in _current(memory, ana)] == ["Ana has a cat", "Ana lives in Porto"]

        file.write_text(json.dumps(MEMORIES))
        list(import_files(memory, [file], remember=remember))
        assert [words for words, _ in _current(memory, ana)] == ["Ana has a cat", "Ana lives in Porto"]


def test_forgetting_the_entry_takes_the_record(tmp_path: Path) -> None:
    """A record goes with the entry that it was made of, and what it had closed holds again; importing again
    does not bring it back. One that a person said too stays, without the entry."""
    file = tmp_path / "memories.json"
    ana = Scope("user", "ana")
    with Stratalog(tmp_path / "data") as memory:
        for exported in (MEMORIES, MOVED):
            file.write_text(json.dumps(exported))
            list(import_files(memory, [file], remember=remember))
        gone = [one.id for one in of(Note, read_transcript(file)) if one.text.startswith("Ana ")]
        with Records(memory) as records:
            who = records.caller(user="ana", agent="mem0")
            slot = next(one for one in records.service.current(who).records if one.text == "Ana has a cat")
            said = Draft(layer=Layer.LONG, scope=ana, key=slot.key, text=slot.text, said_at=slot.created_at)
            assert records.service.remember(who, said).outcome == "merged"
            done = records.service.forget_source(who, gone)
            assert (done.forgotten, done.repaired) == (1, 2)
        lisbon = next(
            one.id for one in memory.session("mem0:import:user:ana").entries() if "Lisbon" in one.text
        )
        assert _current(memory, ana) == [("Ana has a cat", ()), ("Ana lives in Lisbon", (lisbon,))]
        (again,) = import_files(memory, [file], remember=remember)
        assert dict(again.sessions[0].memories) == {"refused": 2}


def test_purging_the_session_takes_its_records(tmp_path: Path) -> None:
    """Records of an imported session are purged with it, in whichever scope; importing again is anew."""
    file = tmp_path / "memories.json"
    file.write_text(json.dumps(MEMORIES))
    with Stratalog(tmp_path / "data") as memory:
        list(import_files(memory, [file], remember=remember))
        with Records(memory) as records:
            key = "local/mem0:import:user:ana"
            purge(memory, records, records.caller(roles=(ADMIN,)), Selector("session", key))
        assert _current(memory, Scope("user", "ana")) == []
        assert [words for words, _ in _current(memory, Scope("agent", "mem0"))] == ["Be brief"]
        (again,) = import_files(memory, [file], remember=remember)
        assert [dict(made.memories) for made in again.sessions] == [{"stored": 2}, {"merged": 1}]


def test_what_cannot_be_kept(tmp_path: Path) -> None:
    """A memory that is too long is refused and told, the others are kept; without records it is told too."""
    file = tmp_path / "memories.json"
    file.write_text(json.dumps([MEMORIES[0] | {"memory": "x" * 20_000}, MEMORIES[1]]))
    with Stratalog(tmp_path / "data") as memory:
        (plain,) = import_files(memory, [file])
        assert plain.report is not None
        assert plain.report.notes == ["user:ana: of 2 memories no records were made"]
        (made,) = import_files(memory, [file], remember=remember)
        assert dict(made.sessions[0].memories) == {"refused": 1, "stored": 1}


def history(path: Path) -> Path:
    with closing(sqlite3.connect(path)) as made:
        made.executescript(
            """
            CREATE TABLE history (id TEXT PRIMARY KEY, memory_id TEXT, old_memory TEXT, new_memory TEXT,
                event TEXT, created_at DATETIME, updated_at DATETIME, is_deleted INTEGER, actor_id TEXT,
                role TEXT);
            CREATE TABLE messages (id TEXT PRIMARY KEY, session_scope TEXT, role TEXT, content TEXT,
                name TEXT, created_at DATETIME);
            """
        )
        steps = [
            ("e1", "m1", None, "Lives in Lisbon", "ADD", "2026-01-01T00:00:00", None, 0, None, "user"),
            ("e2", "m2", None, "Has a cat", "ADD", "2026-01-02T00:00:00", None, 0, None, None),
            (
                "e3",
                "m1",
                "Lives in Lisbon",
                "Lives in Porto",
                "UPDATE",
                "2026-01-03T00:00:00",
                None,
                0,
                None,
                None,
            ),
            ("e4", "m2", "Has a cat", None, "DELETE", "2026-01-04T00:00:00", None, 1, None, None),
        ]
        made.executemany("INSERT INTO history VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", steps)
        said = ("x", "user_id=ana", "user", "I moved to Porto", None, "2026-01-03T00:00:00")
        made.execute("INSERT INTO messages VALUES (?, ?, ?, ?, ?, ?)", said)
        made.commit()
    return path


def test_history(tmp_path: Path) -> None:
    """Every step is a note, the last of what is left is a memory, kept messages are a session."""
    path = history(tmp_path / "history.db")
    assert detect(path) == "mem0"
    transcript = read_transcript(path)
    check(transcript)
    assert chats(transcript) == ["history", "user_id=3dana"]
    steps = of(Note, transcript)
    assert [(one.text, one.data["event"]) for one in steps] == [
        ("Lives in Lisbon", "ADD"),
        ("Has a cat", "ADD"),
        ("Lives in Porto", "UPDATE"),
        ("Has a cat", "DELETE"),
    ]
    (kept,) = transcript.sessions[0].memories
    assert (kept.text, kept.entry) == ("Lives in Porto", steps[2].id)
    assert [one.text for one in of(User, transcript)] == ["I moved to Porto"]
    assert "cannot stand in a key" in notes(transcript)
