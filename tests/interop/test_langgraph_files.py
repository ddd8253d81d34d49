"""LangGraph's databases: threads from checkpoints, trimmed messages, forks, added parts, items of a store."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from interop.samples import chats, check, of, outline
from stratalog.interop.contract import Transcript
from stratalog.interop.detect import detect, read_transcript
from stratalog.types import Assistant, Note, ToolResult, Usage

# As the saver and the store of langgraph-checkpoint-sqlite make them.
SAVER = """
PRAGMA journal_mode=WAL;
CREATE TABLE checkpoints (thread_id TEXT NOT NULL, checkpoint_ns TEXT NOT NULL DEFAULT '',
    checkpoint_id TEXT NOT NULL, parent_checkpoint_id TEXT, type TEXT, checkpoint BLOB, metadata BLOB,
    PRIMARY KEY (thread_id, checkpoint_ns, checkpoint_id));
CREATE TABLE writes (thread_id TEXT NOT NULL, checkpoint_ns TEXT NOT NULL DEFAULT '',
    checkpoint_id TEXT NOT NULL, task_id TEXT NOT NULL, task_path TEXT NOT NULL DEFAULT '',
    idx INTEGER NOT NULL, channel TEXT NOT NULL,
    type TEXT, value BLOB, PRIMARY KEY (thread_id, checkpoint_ns, checkpoint_id, task_id, idx));
"""
STORE = """
CREATE TABLE store (prefix text NOT NULL, key text NOT NULL, value text NOT NULL,
    created_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP, updated_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP,
    PRIMARY KEY (prefix, key));
"""
SERDE = JsonPlusSerializer()
USED = {
    "input_tokens": 10,
    "output_tokens": 3,
    "total_tokens": 13,
    "input_token_details": {"cache_read": 4},
}
ASKED = HumanMessage("When?", id="h1")
CALLED = AIMessage(
    "Let me see.",
    id="a1",
    tool_calls=[{"name": "look", "args": {"q": 1}, "id": "c1"}],
    usage_metadata=USED,
    response_metadata={"model_name": "gpt-x"},
)
SEEN = ToolMessage("nine", tool_call_id="c1", name="look", id="t1", status="error")
TOLD = AIMessage("At nine.", id="a2")


def put(
    made: sqlite3.Connection, second: int, parent: int | None, messages: Any, ns: str = "", **channels: Any
) -> None:
    values = channels if messages is None else {"messages": messages} | channels
    checkpoint = {
        "v": 4,
        "id": f"{second:04}",
        "ts": f"2026-01-01T10:00:{second:02}+00:00",
        "channel_values": values,
        "channel_versions": {"messages": "1"},
    }
    kind, data = SERDE.dumps_typed(checkpoint)
    row = ("t/1", ns, f"{second:04}", f"{parent:04}" if parent is not None else None, kind, data, b"{}")
    made.execute("INSERT INTO checkpoints VALUES (?, ?, ?, ?, ?, ?, ?)", row)


def write(made: sqlite3.Connection, second: int, value: Any) -> None:
    kind, data = SERDE.dumps_typed(value)
    row = ("t/1", "", f"{second:04}", "task", "", 0, "messages", kind, data)
    made.execute("INSERT INTO writes VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", row)


def made_at(path: Path, schema: str = SAVER) -> sqlite3.Connection:
    made = sqlite3.connect(path)
    made.executescript(schema)
    return made


def load(path: Path) -> Transcript:
    assert detect(path) == "langgraph"
    transcript = read_transcript(path)
    check(transcript)
    return transcript


def test_thread(tmp_path: Path) -> None:
    """Messages take the time of the checkpoint that has them first, and stay when a later state lost them."""
    path = tmp_path / "checkpoints.sqlite"
    with closing(made_at(path)) as made:
        put(made, 1, None, [ASKED])
        put(made, 2, 1, [ASKED, CALLED], "tools:1")
        put(made, 3, 1, [ASKED, CALLED, SEEN], todo=[1])
        put(made, 4, 3, [SystemMessage("Summary", id="s"), TOLD])
        made.commit()
    transcript = load(path)
    (session,) = transcript.sessions
    assert outline(session) == [
        ("user", "When?"),
        ("assistant", "Let me see."),
        ("tool_call", "look"),
        ("tool_result", "nine"),
        ("system", "Summary"),
        ("assistant", "At nine."),
        ("turn_end", "answered"),
    ]
    assert (session.chat, session.meta["source_id"]) == ("t=2f1", "t/1")
    first = of(Assistant, session)[0]
    assert (first.model, first.usage) == ("gpt-x", Usage(input=10, output=3, cache_read=4))
    assert first.ts == 1_767_261_603_000
    assert of(ToolResult, session)[0].error
    assert [skip.reason for skip in transcript.report.skipped] == ["record 4: the state of a subgraph"]


def test_fork(tmp_path: Path) -> None:
    """A run from an earlier checkpoint is the main line when it is the newest; the other is a branch."""
    path = tmp_path / "checkpoints.db"
    with closing(made_at(path)) as made:
        put(made, 1, None, [ASKED])
        put(made, 2, 1, [ASKED, AIMessage("left", id="x")])
        put(made, 3, 1, [ASKED, TOLD])
        made.commit()
    transcript = load(path)
    assert chats(transcript) == ["t=2f1", "t=2f1:branch-0002"]
    assert [one.text for one in of(Assistant, transcript)] == ["At nine.", "left"]
    assert transcript.sessions[1].meta["after"] == transcript.sessions[0].entries[0].id


def test_added_parts(tmp_path: Path) -> None:
    """Where only what was added is kept, it is read from the writes, in order."""
    path = tmp_path / "checkpoints.sqlite"
    with closing(made_at(path)) as made:
        put(made, 1, None, None)
        write(made, 1, [ASKED])
        put(made, 2, 1, None)
        write(made, 2, TOLD)
        put(made, 3, 2, None)
        made.commit()
    assert [text for _, text in outline(load(path).sessions[0])] == ["When?", "At nine.", "answered"]


@pytest.mark.parametrize("kind", ["msgpack+aes", "pickle", "msgpack"])
def test_what_is_not_decoded(tmp_path: Path, kind: str) -> None:
    """A checkpoint that is encrypted, pickled or damaged is skipped with its reason and never run."""
    path = tmp_path / "checkpoints.sqlite"
    with closing(made_at(path)) as made:
        put(made, 1, None, [ASKED])
        put(made, 2, 1, [ASKED, TOLD])
        made.execute(
            "UPDATE checkpoints SET type = ?, checkpoint = x'c1c1' WHERE checkpoint_id = '0002'", (kind,)
        )
        made.commit()
    transcript = load(path)
    assert [text for _, text in outline(transcript.sessions[0])] == ["When?", "interrupted"]
    assert "decoded" in transcript.report.skipped[0].reason


def test_messages_without_ids(tmp_path: Path) -> None:
    """Equal messages of a list are each one, also when later states repeat the list."""
    path = tmp_path / "checkpoints.sqlite"
    with closing(made_at(path)) as made:
        said = [HumanMessage("more"), AIMessage("a"), HumanMessage("more")]
        put(made, 1, None, said)
        put(made, 2, 1, [*said, AIMessage("b")])
        made.commit()
    words = [text for kind, text in outline(load(path).sessions[0]) if kind in ("user", "assistant")]
    assert words == ["more", "a", "more", "b"]


def test_store(tmp_path: Path) -> None:
    """Items are notes of their namespace's session, and what records are made of."""
    path = tmp_path / "store.sqlite"
    with closing(made_at(path, STORE)) as made:
        row = ("memories.ana", "home", '{"city": "Lisbon"}', "2026-01-01 10:00:00", "2026-01-02 10:00:00")
        made.execute("INSERT INTO store VALUES (?, ?, ?, ?, ?)", row)
        made.commit()
    transcript = load(path)
    (note,) = of(Note, transcript)
    assert (note.text, note.data) == ('{"city": "Lisbon"}', {"namespace": "memories.ana", "key": "home"})
    (kept,) = transcript.sessions[0].memories
    assert (kept.key, kept.payload, kept.entry) == ("memories.ana home", {"city": "Lisbon"}, note.id)
    assert kept.said_at == 1_767_348_000_000
    assert chats(transcript) == ["store:memories.ana"]
