"""Hermes Agent: its database with compactions and what was taken back, its exports, its older files."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from interop.samples import chats, check, grows, ids, jsonl, of, outline, read
from stratalog.interop.contract import Transcript
from stratalog.interop.detect import detect, find_transcripts, read_transcript
from stratalog.types import Assistant, Compaction, Image, Reasoning, System, Text, User

SCHEMA = """
CREATE TABLE sessions (
    id TEXT PRIMARY KEY, source TEXT NOT NULL, user_id TEXT, model TEXT, system_prompt TEXT,
    parent_session_id TEXT, started_at REAL NOT NULL, title TEXT
);
CREATE TABLE messages (
    id INTEGER PRIMARY KEY AUTOINCREMENT, session_id TEXT NOT NULL, role TEXT NOT NULL, content TEXT,
    tool_call_id TEXT, tool_calls TEXT, tool_name TEXT, timestamp REAL NOT NULL, reasoning TEXT,
    active INTEGER NOT NULL DEFAULT 1, compacted INTEGER NOT NULL DEFAULT 0
);
"""
ID = "20260418_192600_ab12cd34"
CALL = {"id": "c1", "type": "function", "function": {"name": "terminal", "arguments": '{"command": "ls"}'}}


def row(second: int, role: str, content: str | None, **more: Any) -> dict[str, Any]:
    return {"session_id": ID, "role": role, "content": content, "timestamp": 1_776_540_360.0 + second} | more


ROWS = [
    row(0, "user", "look", active=0, compacted=1),
    row(1, "assistant", "ok", tool_calls=json.dumps([CALL]), reasoning="hm", active=0, compacted=1),
    row(2, "tool", "a.py", tool_call_id="c1", tool_name="terminal", active=0, compacted=1),
    row(3, "user", "no, wait", active=0),
    row(4, "assistant", "[CONTEXT COMPACTION] They looked."),
    row(2, "tool", "a.py", tool_call_id="c1", tool_name="terminal"),
    row(
        5,
        "user",
        '\x00json:[{"type": "text", "text": "this"}, {"type": "image_url", "image_url": {"url": "https://x/p.png"}}]',
    ),
    row(6, "assistant", "seen"),
]


def database(path: Path, rows: list[dict[str, Any]] = ROWS) -> Path:
    with closing(sqlite3.connect(path)) as made:
        made.execute("PRAGMA journal_mode=WAL")
        made.executescript(SCHEMA)
        head = (
            ID,
            "telegram",
            "ana",
            "hermes-4",
            "Be brief.",
            "20260417_000000_aa",
            1_776_540_350.0,
            "Files",
        )
        made.execute("INSERT INTO sessions VALUES (?, ?, ?, ?, ?, ?, ?, ?)", head)
        for one in rows:
            names = ", ".join(one)
            marks = ", ".join("?" * len(one))
            made.execute(f"INSERT INTO messages ({names}) VALUES ({marks})", list(one.values()))
        made.commit()
    return path


def test_database(tmp_path: Path) -> None:
    """A compacted session is whole and each message once; what was taken back is told."""
    path = database(tmp_path / "state.db")
    assert detect(path) == "hermes"
    assert find_transcripts([tmp_path]) == [path]
    transcript = read_transcript(path)
    check(transcript)
    (session,) = transcript.sessions
    assert outline(session) == [
        ("system", "Be brief."),
        ("title", "Files"),
        ("user", "look"),
        ("assistant", "ok"),
        ("tool_call", "terminal"),
        ("tool_result", "a.py"),
        ("compaction", "[CONTEXT COMPACTION] They looked."),
        ("turn_end", "interrupted"),
        ("user", "this"),
        ("assistant", "seen"),
        ("turn_end", "answered"),
    ]
    assert of(Assistant, session)[0].content == (Reasoning(text="hm"), Text(text="ok"))
    assert of(User, session)[1].content == (Text(text="this"), Image(url="https://x/p.png"))
    assert (session.chat, session.title, session.meta["parent"]) == (ID, "Files", "20260417_000000_aa")
    assert of(Compaction, session)[0].covers == (of(System, session)[0].id, session.entries[5].id)
    assert [skip.reason for skip in transcript.report.skipped] == ["record 5: the message was taken back"]
    assert transcript.report.merged["message that stayed after a compaction"] == 1


def test_a_prompt_of_many_sessions(tmp_path: Path) -> None:
    """Where prompts of the system are kept apart, a session has its own."""
    path = database(tmp_path / "state.db", ROWS[:1])
    with closing(sqlite3.connect(path)) as made:
        made.executescript(
            """
            CREATE TABLE system_prompts (hash TEXT PRIMARY KEY, prompt TEXT);
            INSERT INTO system_prompts VALUES ('h', 'Be kind.'), ('i', 'Be quick.');
            ALTER TABLE sessions ADD COLUMN system_prompt_hash TEXT;
            UPDATE sessions SET system_prompt = NULL, system_prompt_hash = 'h';
            """
        )
        made.commit()
    transcript = read_transcript(path)
    check(transcript)
    assert [one.text for one in of(System, transcript)] == ["Be kind."]


def test_database_grows(tmp_path: Path) -> None:
    """Ids are those of the rows, so what came later changes none; a write-ahead log is read with the rest."""
    whole = ids(read_transcript(database(tmp_path / "whole.db")))
    part = ids(read_transcript(database(tmp_path / "part.db", ROWS[:3])))
    assert part <= whole
    path = database(tmp_path / "state.db", ROWS[:3])
    with closing(sqlite3.connect(path)) as writer:
        writer.execute(
            "INSERT INTO messages (session_id, role, content, timestamp) VALUES (?, 'user', 'new', 2e9)",
            (ID,),
        )
        writer.commit()
        assert (tmp_path / "state.db-wal").stat().st_size
        assert of(User, read_transcript(path))[-1].text == "new"


LINES: list[dict[str, Any]] = [
    {
        "role": "session_meta",
        "model": "hermes-4",
        "platform": "slack",
        "tools": [],
        "timestamp": "2026-04-18T19:26:00",
    },
    {"role": "user", "content": "look", "timestamp": "2026-04-18T19:26:05"},
    {
        "role": "assistant",
        "content": "ok",
        "reasoning": "hm",
        "tool_calls": [CALL],
        "timestamp": "2026-04-18T19:26:06",
    },
    {"role": "tool", "content": "a.py", "tool_call_id": "c1", "timestamp": "2026-04-18T19:26:07"},
]
WHOLE = {
    "session_id": ID,
    "model": "hermes-4",
    "platform": "cli",
    "session_start": "2026-04-18T19:26:00",
    "last_updated": "2026-04-18T19:27:00",
    "system_prompt": "Be brief.",
    "message_count": 3,
    "messages": LINES[1:],
}


def load(value: Any, name: str) -> Transcript:
    return read("hermes", value, name)


def test_older_files() -> None:
    """Lines after a session_meta, and one document: the same conversation, named by its id."""
    (lines,) = load(jsonl(*LINES), f"{ID}.jsonl").sessions
    (whole,) = load(WHOLE, f"session_{ID}.json").sessions
    assert outline(whole)[0] == ("system", "Be brief.")
    assert outline(lines) == outline(whole)[1:]
    assert lines.chat == whole.chat == ID
    assert lines.meta == {"model": "hermes-4", "platform": "slack"}
    grows("hermes", LINES)


def test_export() -> None:
    """An export has a session on each line, with the ids that the database gives them."""
    messages = [{"id": n} | one for n, one in enumerate(ROWS[:3], 1)]
    head = {
        "id": ID,
        "source": "cli",
        "parent_session_id": None,
        "started_at": 1_776_540_350.0,
        "title": "Files",
    }
    transcript = load(
        jsonl(head | {"messages": messages}, {"id": "b", "source": "cli", "messages": messages[:1]}),
        "e.jsonl",
    )
    assert chats(transcript) == [ID, "b"]
    assert [one.text for one in of(User, transcript.sessions[0])] == ["look"]
