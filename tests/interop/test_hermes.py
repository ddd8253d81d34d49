"""Hermes Agent: its database with compactions and what was taken back, its exports, its older files."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from interop.samples import chats, check, grows, ids, jsonl, of, outline, read
from stratalog import Stratalog
from stratalog.interop.contract import Transcript
from stratalog.interop.detect import detect, find_transcripts, read_transcript
from stratalog.interop.ingest import import_files
from stratalog.types import (
    AnyEntry,
    Assistant,
    Compaction,
    Image,
    Reasoning,
    System,
    Text,
    ToolCall,
    TurnEnd,
    User,
)

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


def in_memory(memory: Stratalog, *files: Path) -> list[AnyEntry]:
    """The session after these files were imported one after another, each time adding nothing the second
    time."""
    for _ in range(2):
        added = [made.added for result in import_files(memory, files) for made in result.sessions]
    assert added == [0] * len(files)
    assert [one.key for one in memory.sessions().sessions] == [f"local/hermes:import:{ID}"]
    return list(memory.session(f"hermes:import:{ID}").entries())


@pytest.mark.parametrize("first", ["database", "lines", "document"])
def test_the_same_session_in_two_forms_is_one(tmp_path: Path, first: str) -> None:
    """Whichever is imported first, each message is there once, in the turn that it was said in, with its call
    and its result; what only one form has is there too, and what either grows by."""
    rows = [
        row(5, "user", "look"),
        row(6, "assistant", "ok", tool_calls=json.dumps([CALL]), reasoning="hm"),
        row(7, "tool", "a.py", tool_call_id="c1", tool_name="terminal"),
        row(8, "assistant", "one file"),
        row(9, "user", "look"),
        row(10, "assistant", "only in the database"),
    ]
    said = [*LINES[1:], {"role": "assistant", "content": "one file"}, {"role": "user", "content": "look"}]
    folder = tmp_path / "sessions"
    folder.mkdir()
    forms = {
        "database": database(tmp_path / "state.db", rows),
        "lines": folder / f"{ID}.jsonl",
        "document": folder / f"session_{ID}.json",
    }
    other = "lines" if first == "database" else "database"
    files = [forms[first], forms[other]]
    forms["lines"].write_bytes(jsonl(LINES[0], *said))
    forms["document"].write_text(json.dumps(WHOLE | {"messages": said}))
    with Stratalog(tmp_path / "data") as memory:
        entries = in_memory(memory, *files)
        users = [entry for entry in entries if isinstance(entry, User)]
        assert [entry.text for entry in users] == ["look", "look"]
        replies = ["ok", "one file", "only in the database"]
        assert [entry.text for entry in entries if isinstance(entry, Assistant)] == replies
        assert [entry.text for entry in entries if isinstance(entry, System)] == ["Be brief."]
        assert len({entry.response for entry in entries if isinstance(entry, ToolCall)}) == 1
        turns = memory.session(f"hermes:import:{ID}").view().turns
        assert [[type(entry).__name__ for entry in turn.entries] for turn in turns] == [
            ["User", "Assistant", "ToolCall", "ToolResult", "Assistant"],
            ["User", "Assistant"],
        ]
        assert {entry.turn: entry.status for entry in entries if isinstance(entry, TurnEnd)} == {
            users[0].turn: "answered",
            users[1].turn: "answered",
        }
        # Both go on, and the file says what the database does not.
        grown = [
            *said,
            {"role": "assistant", "content": "only in the file"},
            {"role": "user", "content": "look"},
        ]
        forms["lines"].write_bytes(jsonl(LINES[0], *grown))
        forms["document"].write_text(json.dumps(WHOLE | {"messages": grown}))
        (tmp_path / "state.db").unlink()
        database(tmp_path / "state.db", [*rows, row(11, "user", "look"), row(12, "user", "and on")])
        later = in_memory(memory, *files[::-1])
        assert [entry.text for entry in later if isinstance(entry, User)] == [
            "look",
            "look",
            "look",
            "and on",
        ]
        assert later[: len(entries)] == entries
        told = sorted(entry.text for entry in later if isinstance(entry, Assistant))
        assert told == sorted([*replies, "only in the file"])


@given(
    said=st.lists(st.tuples(st.sampled_from("ab"), st.booleans(), st.booleans()), max_size=10),
    cuts=st.lists(st.tuples(st.sampled_from(("database", "lines")), st.integers(0, 10)), max_size=4),
)
@settings(max_examples=25, deadline=None)
def test_nothing_is_lost_and_nothing_comes_twice(
    said: list[tuple[str, bool, bool]], cuts: list[tuple[str, int]]
) -> None:
    """However often the same words were said, of which each form has some, and in whichever order both are
    imported while they grow: the log has them as often as the form that has them more often."""
    rows = [row(n, "user", word) for n, (word, here, _) in enumerate(said) if here]
    lines = [
        {"role": "user", "content": word, "timestamp": 1e9 + n}
        for n, (word, _, here) in enumerate(said)
        if here
    ]
    with TemporaryDirectory() as folder, Stratalog(Path(folder) / "data") as memory:
        place = Path(folder)
        for form, size in sorted(cuts, key=lambda cut: cut[1]) + [("database", 10), ("lines", 10)] * 2:
            if form == "database":
                for old in place.glob("state.db*"):
                    old.unlink()
                list(import_files(memory, [database(place / "state.db", rows[:size])]))
            else:
                (place / f"{ID}.jsonl").write_bytes(jsonl(LINES[0], *lines[:size]))
                list(import_files(memory, [place / f"{ID}.jsonl"]))
        session = memory.session(f"hermes:import:{ID}")
        found = [entry.text for entry in session.entries() if isinstance(entry, User)]
        for word in "ab":
            most = max(sum(one["content"] == word for one in each) for each in (rows, lines))
            assert found.count(word) == most


def test_what_was_said_here_is_not_taken_for_the_sources(tmp_path: Path) -> None:
    """The same words in a turn that was taken in the imported session are another message."""
    path = tmp_path / f"{ID}.jsonl"
    path.write_bytes(jsonl(*LINES))
    with Stratalog(tmp_path / "data") as memory:
        list(import_files(memory, [path]))
        session = memory.session(f"hermes:import:{ID}")
        with session.turn("and on") as turn:
            turn.reply("Yes.")
        rows = [row(5, "user", "look"), row(20, "user", "and on"), row(21, "assistant", "Yes.")]
        entries = in_memory(memory, path, database(tmp_path / "state.db", rows))
        assert [entry.text for entry in entries if isinstance(entry, User)] == ["look", "and on", "and on"]


def test_a_summary_that_comes_later_covers_what_is_there(tmp_path: Path) -> None:
    """Where the file was first, the database's summary stands for the file's entries and no others."""
    path = tmp_path / f"{ID}.jsonl"
    path.write_bytes(jsonl(*LINES, {"role": "user", "content": "after"}))
    rows = [*ROWS[:3], row(4, "assistant", "[CONTEXT COMPACTION] They looked."), row(5, "user", "after")]
    with Stratalog(tmp_path / "data") as memory:
        entries = in_memory(memory, path, database(tmp_path / "state.db", rows))
        (made,) = (entry for entry in entries if isinstance(entry, Compaction))
        known = {entry.id: entry for entry in entries}
        assert [type(known[each]).__name__ for each in made.covers] == ["System", "ToolResult"]
        (turn,) = memory.session(f"hermes:import:{ID}").view().turns
        assert [entry.text for entry in turn.entries if isinstance(entry, User)] == ["after"]


def test_long_messages_are_known_again(tmp_path: Path) -> None:
    """Also those that the log keeps beside itself, of which an entry has the name only."""
    long = "word " * 400_000
    (tmp_path / f"{ID}.jsonl").write_bytes(jsonl(LINES[0], {"role": "user", "content": long}))
    with Stratalog(tmp_path / "data") as memory:
        entries = in_memory(
            memory,
            tmp_path / f"{ID}.jsonl",
            database(tmp_path / "state.db", [row(1, "user", long)]),
        )
        assert [entry.text for entry in entries if isinstance(entry, User)] == [long]


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
