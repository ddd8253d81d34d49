"""The door: the format of a file, reading it, finding candidates, and refusals that say what to do."""

from __future__ import annotations

import gzip
import json
import os
import sqlite3
import tracemalloc
import zipfile
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from interop import (
    test_aider,
    test_claude_ai,
    test_hermes,
    test_mem0_export,
    test_nanobot,
    test_openclaw,
    test_openhands,
    test_sharegpt,
    test_swe_agent,
)
from interop.samples import check, jsonl
from stratalog.errors import ImportFailed
from stratalog.interop import opening
from stratalog.interop.detect import FORMATS, detect, find_transcripts, read_transcript
from stratalog.interop.export import to_jsonl
from stratalog.types import User

CLAUDE = {"parentUuid": None, "isSidechain": False, "type": "user", "uuid": "a", "sessionId": "s"}
SAID = {"message": {"role": "user", "content": "hi"}}


def database(script: str) -> bytes:
    with closing(sqlite3.connect(":memory:")) as made:
        made.executescript(script)
        return made.serialize()


THREAD = """
CREATE TABLE checkpoints (thread_id TEXT, checkpoint_ns TEXT, checkpoint_id TEXT, parent_checkpoint_id TEXT,
    type TEXT, checkpoint BLOB, metadata BLOB, PRIMARY KEY (thread_id, checkpoint_ns, checkpoint_id));
INSERT INTO checkpoints VALUES ('t', '', '1', NULL, 'json',
    '{"channel_values": {"messages": [{"type": "human", "content": "hi"}]}}', '{}');
"""
ITEMS = """
CREATE TABLE store (prefix text NOT NULL, key text NOT NULL, value text NOT NULL, created_at TIMESTAMP,
    updated_at TIMESTAMP, PRIMARY KEY (prefix, key));
INSERT INTO store VALUES ('a', 'b', '{}', '2026-01-01 10:00:00', '2026-01-01 10:00:00');
"""
STATE = f"""{test_hermes.SCHEMA}
INSERT INTO sessions (id, source, started_at) VALUES ('s', 'cli', 1.7e9);
INSERT INTO messages (session_id, role, content, timestamp) VALUES ('s', 'user', 'hi', 1.7e9);
"""
STEPS = """
CREATE TABLE history (id TEXT PRIMARY KEY, memory_id TEXT, old_memory TEXT, new_memory TEXT, event TEXT,
    created_at DATETIME, updated_at DATETIME, is_deleted INTEGER);
INSERT INTO history VALUES ('e', 'm', NULL, 'Ana', 'ADD', '2026-01-01', NULL, 0);
"""
EXPORTED = {
    "id": "a",
    "source": "cli",
    "parent_session_id": None,
    "started_at": 1,
    "messages": test_hermes.LINES,
}
SAMPLES: list[tuple[str, str, bytes | Any]] = [
    ("claude_ai", "a.json", [test_claude_ai.CONVERSATION]),
    ("claude_ai", "a.json", test_claude_ai.CONVERSATION),
    ("openclaw", "a.jsonl", jsonl(*test_openclaw.SESSION)),
    ("hermes", "a.jsonl", jsonl(*test_hermes.LINES)),
    ("hermes", "a.json", test_hermes.WHOLE),
    (
        "hermes",
        "a.jsonl",
        jsonl(
            {
                "id": test_hermes.ID,
                "source": "cli",
                "parent_session_id": None,
                "started_at": 1,
                "messages": test_hermes.LINES,
            }
        ),
    ),
    ("hermes", "a.db", database(STATE)),
    ("nanobot", "a.jsonl", jsonl(*test_nanobot.SESSION)),
    ("aider", "a.md", test_aider.HISTORY.encode()),
    ("openhands", "a.json", test_openhands.FIRST),
    ("openhands", "a.json", {"history": test_openhands.FIRST}),
    ("openhands", "a.jsonl", jsonl(*test_openhands.SECOND)),
    ("swe_agent", "a.traj", test_swe_agent.RUN),
    ("swe_agent", "a.json", test_swe_agent.TEXT_RUN),
    ("sharegpt", "a.jsonl", jsonl(test_sharegpt.HERMES)),
    ("sharegpt", "a.json", [test_sharegpt.PLAIN]),
    ("mem0", "a.json", {"results": test_mem0_export.MEMORIES}),
    ("mem0", "a.jsonl", jsonl(*test_mem0_export.MEMORIES)),
    ("mem0", "a.db", database(STEPS)),
    ("langgraph", "a.sqlite", database(THREAD)),
    ("langgraph", "a.sqlite", database(ITEMS)),
    ("stratalog", "a.jsonl", b"".join(to_jsonl([User(id="01ARZ3NDEKTSV4RRFFQ69G5FAV", ts=1, content="hi")]))),
    ("codex", "a.jsonl", jsonl({"timestamp": "2026-01-01", "type": "session_meta", "payload": {"id": "c"}})),
    (
        "codex",
        "a.jsonl",
        jsonl({"id": "c", "timestamp": "2025-05-01T00:00:00Z", "instructions": "Be brief."}),
    ),
    (
        "pi",
        "a.jsonl",
        jsonl(
            {"type": "session", "id": "p"}, {"type": "message", "message": {"role": "user", "content": "hi"}}
        ),
    ),
    (
        "gemini_cli",
        "a.json",
        {"sessionId": "g", "projectHash": "f", "messages": [{"type": "user", "content": "hi"}]},
    ),
    ("chatgpt", "a.json", {"title": "t", "mapping": {"a": {"message": None}}, "current_node": "a"}),
    ("chatgpt", "a.json", [{"title": "t", "mapping": {"a": {"message": None}}}]),
    ("claude_code", "a.jsonl", jsonl(CLAUDE | SAID)),
    ("pi", "a.jsonl", b"\xef\xbb\xbf" + jsonl({"type": "session", "id": "p"})),
    ("claude_code", "a.jsonl", jsonl({"type": "summary", "summary": "x", "leafUuid": "b"}, CLAUDE | SAID)),
    ("claude_code", "a.jsonl", jsonl({"type": "user", "sessionId": "s"} | SAID)),
    ("claude_code", "a.json", {"loglines": [{"type": "user"} | SAID]}),
    ("anthropic", "a.json", [{"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t"}]}]),
    ("anthropic", "a.json", {"system": "Be kind.", "messages": [{"role": "user", "content": "hi"}]}),
    ("openai", "a.json", [{"role": "user", "content": "hi"}]),
    ("openai", "a.json", {"messages": [{"role": "system", "content": "Be kind."}]}),
    # What a tool was called with may look like other formats.
    (
        "anthropic",
        "a.json",
        [
            {
                "role": "assistant",
                "content": [
                    {
                        "type": "tool_use",
                        "id": "t",
                        "input": {"action": "x", "source": "user", "memory": "m", "hash": "h"},
                    }
                ],
            }
        ],
    ),
    ("openai", "a.jsonl", jsonl({"messages": [{"role": "user", "content": 'about parentUuid: "isMeta":'}]})),
]


@pytest.mark.parametrize(("format", "name", "data"), SAMPLES)
def test_detect(format: str, name: str, data: Any, tmp_path: Path) -> None:
    """Each format is known by its own marks, and read without being told which it is."""
    path = tmp_path / name
    path.write_bytes(data if isinstance(data, bytes) else json.dumps(data).encode())
    assert detect(path) == format
    transcript = read_transcript(path)
    assert transcript.report.format == format
    check(transcript)


def test_every_format_is_tried() -> None:
    """The samples above have every format of the table."""
    assert {format for format, _, _ in SAMPLES} == set(FORMATS)
    assert all(name == importer.name for name, importer in FORMATS.items())


@pytest.mark.parametrize("data", [b"", b"  \n", b"hello\n", b"\x00" * 500, b'{"x": 1}', b"\xff\xfe{"])
def test_not_a_transcript(data: bytes, tmp_path: Path) -> None:
    """A file of no known format is refused with its path and the formats there are."""
    path = tmp_path / "a.jsonl"
    path.write_bytes(data)
    with pytest.raises(ImportFailed) as caught:
        read_transcript(path)
    assert caught.value.where["path"] == path
    assert "claude_code" in caught.value.hint


@pytest.mark.parametrize(
    ("name", "data", "why"),
    [
        ("a.zip", b"PK\x03\x04 torn", "cannot be unpacked"),
        ("a.db", b"SQLite format 3\x00 torn", "cannot be read"),
        ("a.db", database("CREATE TABLE other (a)"), "known format"),
        ("a.jsonl.gz", b"\x1f\x8b torn", "empty"),
    ],
)
def test_what_cannot_be_opened(name: str, data: bytes, why: str, tmp_path: Path) -> None:
    """Archives and databases that are torn or of another program are refused, and no folder offers them."""
    path = tmp_path / name
    path.write_bytes(data)
    with pytest.raises(ImportFailed, match=why):
        read_transcript(path)
    assert find_transcripts([tmp_path]) == []


def test_archives(tmp_path: Path) -> None:
    """An export in several files is one transcript, and what is gzipped is read up to where it is torn."""
    talks = [{"conversation_id": f"k{n}", "mapping": {"a": {"message": None}}} for n in range(3)]
    said = {"author": {"role": "user"}, "content": {"content_type": "text", "parts": ["hi"]}}
    for talk in talks:
        talk["mapping"] = {"a": {"message": said, "parent": None, "children": []}}
    path = tmp_path / "export.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("user.json", "{}")
        archive.writestr("conversations-000.json", json.dumps(talks[:2]))
        archive.writestr("conversations-001.json", json.dumps(talks[2:]))
    transcript = read_transcript(path)
    check(transcript)
    assert transcript.report.format == "chatgpt"
    assert [session.chat for session in transcript.sessions] == ["k0", "k1", "k2"]
    packed = gzip.compress(jsonl(test_sharegpt.HERMES)) + gzip.compress(jsonl(test_sharegpt.PLAIN))
    path = tmp_path / "samples.jsonl.gz"
    path.write_bytes(packed[:-30])
    assert detect(path) == "sharegpt"
    assert len(read_transcript(path).sessions) == 1
    assert find_transcripts([tmp_path]) == [tmp_path / "export.zip", path]


def test_wrong_format(tmp_path: Path) -> None:
    """A file read as what it is not is refused with the line where that shows."""
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"{torn\n{torn\n")
    with pytest.raises(ImportFailed) as caught:
        read_transcript(path, format="codex")
    assert caught.value.where["line"] == 1
    with pytest.raises(ImportFailed, match="no such format"):
        read_transcript(path, format="word")


def test_missing(tmp_path: Path) -> None:
    """A path that is not there is refused by detecting, reading and finding alike."""
    path = tmp_path / "none.jsonl"
    for ask in (detect, read_transcript, lambda path: find_transcripts([path])):
        with pytest.raises(ImportFailed):
            ask(path)


def test_progress(tmp_path: Path) -> None:
    """Progress ends with all bytes done, for lines and for documents."""
    for name, data in (
        ("a.jsonl", jsonl(CLAUDE | SAID) * 3),
        ("a.json", b'[{"role":"user","content":"hi"}]'),
    ):
        path = tmp_path / name
        path.write_bytes(data)
        told: list[tuple[int, int]] = []
        read_transcript(path, progress=lambda done, total, told=told: told.append((done, total)))  # type: ignore[misc]
        assert told[-1] == (len(data), len(data))


def test_find(tmp_path: Path) -> None:
    """Folders give their JSON files, sorted and each once; a named file is taken as it is."""
    for name in ("b/x.jsonl", "a/deep/y.JSON", "a/z.txt", "named.log"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("{}")
    found = find_transcripts([tmp_path, tmp_path / "b", tmp_path / "named.log"])
    assert [str(path.relative_to(tmp_path)) for path in found] == ["a/deep/y.JSON", "b/x.jsonl", "named.log"]


def test_what_never_ends_is_not_opened(tmp_path: Path) -> None:
    """Pipes and devices, also behind a link or among events, are refused at once; so is a link to itself."""
    os.mkfifo(tmp_path / "pipe.jsonl")
    (tmp_path / "zeros.json").symlink_to("/dev/zero")
    (tmp_path / "self.json").symlink_to("self.json")
    (tmp_path / "x" / "events").mkdir(parents=True)
    os.mkfifo(tmp_path / "x" / "events" / "0.json")
    os.mkfifo(tmp_path / "x" / "a.db")
    found = find_transcripts([tmp_path])
    assert [path.name for path in found] == ["pipe.jsonl", "self.json", "0.json", "zeros.json"]
    for path in found:
        for ask in (detect, read_transcript, lambda path: read_transcript(path, "openai")):
            with pytest.raises(ImportFailed, match=r"neither a file|cannot be read"):
                ask(path)


def test_what_is_packed_cannot_fill_the_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of what is far larger unpacked than text can be no more is unpacked than the bound, whatever an archive
    says of its sizes; a method that knows no bound is not tried."""
    monkeypatch.setattr(opening, "_ALWAYS", 1 << 20)
    talk = b'[{"uuid": "a", "chat_messages": [{"sender": "human", "text": "hi"}]}' + b" " * (1 << 24) + b"]"
    with zipfile.ZipFile(tmp_path / "a.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("conversations.json", talk)
    size = (1 << 24).to_bytes(4, "little")[:2]  # in both headers the size is told as smaller than it is
    lying = (tmp_path / "a.zip").read_bytes().replace(len(talk).to_bytes(4, "little"), size + b"\x00\x00")
    (tmp_path / "b.zip").write_bytes(lying)
    with zipfile.ZipFile(tmp_path / "c.zip", "w", zipfile.ZIP_LZMA) as archive:
        archive.writestr("conversations.json", talk)
    (tmp_path / "d.jsonl.gz").write_bytes(gzip.compress(jsonl(test_sharegpt.PLAIN) + b"\n" * (1 << 24)))
    for name, why in (
        ("a.zip", "far larger"),
        ("b.zip", "far larger|cannot be unpacked"),
        ("c.zip", "unusual way"),
        ("d.jsonl.gz", "far larger"),
    ):
        tracemalloc.start()
        with pytest.raises(ImportFailed, match=why):
            read_transcript(tmp_path / name)
        assert tracemalloc.get_traced_memory()[1] < 1 << 23
        tracemalloc.stop()
    monkeypatch.setattr(opening, "_ALWAYS", 1 << 25)
    assert len(read_transcript(tmp_path / "a.zip").sessions) == 1
