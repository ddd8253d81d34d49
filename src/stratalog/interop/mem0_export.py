"""Memories of mem0: what `get_all` returns, as JSON, and its `history.db`.

They are memories and no transcripts, so each becomes two things: an entry in a session of what was imported,
a note with its words and metadata, and from it a record whose source is that entry. A memory keeps one slot
by its id, so that a later export of it, changed, goes on from the earlier one. It is its `user_id`'s; one of
an agent or a run alone is kept for the agent.

From JSON, memories are in a session for each owner. The database has the history of each memory, step by
step, and nowhere whose it is: every step is a note, and what a memory says last is the record, of the agent;
one that was deleted gives none. The last messages that mem0 keeps there become sessions by their scope.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from stratalog.errors import ImportFailed
from stratalog.interop.build import Builder, items, table, text
from stratalog.interop.contract import ImportedMemory, ImportedSession, Importer, Source, Transcript
from stratalog.interop.database import Database
from stratalog.interop.openai import put_message
from stratalog.interop.opening import DATABASE
from stratalog.interop.records import Record, Tally, document, records, utc_ms
from stratalog.types import Note

AGENT = "mem0"
_MEMORY = re.compile(rb'"memory"\s*:\s*"')
_OWNED = re.compile(rb'"(hash|user_id|agent_id|run_id|app_id)"\s*:')
_SAID = re.compile(rb'"content"\s*:')  # of a message, which may be about memories
_OWNERS = ("user_id", "agent_id", "run_id")
_LISTS = ("results", "memories")
_KEPT = ("memory", "data", "id", "hash", "created_at", "updated_at", "score", "embedding")


def _key(memory_id: str, words: str) -> str:
    """Names a memory as it reads now, so that a changed one is an entry of its own."""
    return f"{memory_id}/{hashlib.sha256(words.encode('utf-8', 'replace')).hexdigest()[:16]}"


def _owner(value: dict[str, Any]) -> str:
    found = next((name for name in _OWNERS if text(value.get(name))), "")
    return f"{found.removesuffix('_id')}:{value[found]}" if found else ""


def _of_files(source: Source, tally: Tally) -> Iterator[ImportedSession | None]:
    owned: dict[str, list[Record]] = {}
    for record in _found(source, tally):
        if text(record.value.get("memory")) and text(record.value.get("id")):
            owned.setdefault(_owner(record.value), []).append(record)
        else:
            tally.skip(record, "no memory with an id")
    for owner, found in owned.items():
        builder = Builder(tally, source, AGENT, owner or source.path.stem, named_by_file=not owner)
        made: dict[str, ImportedMemory] = {}
        for record in found:
            value = record.value
            words, memory_id = value["memory"], value["id"]
            since = utc_ms(value.get("updated_at")) or utc_ms(value.get("created_at")) or 0
            facts = {name: item for name, item in value.items() if name not in _KEPT and item}
            builder.at(record, _key(memory_id, words), since or None)
            entry = builder.put(Note(kind="memory", text=words, data=facts or None))
            made[memory_id] = ImportedMemory(
                entry=entry,
                key=f"mem0 {memory_id}",
                text=words,
                user=text(value.get("user_id")),
                said_at=since,
            )
        yield _with_memories(builder.finish(), made)


def _found(source: Source, tally: Tally) -> Iterator[Record]:
    if source.path.suffix.lower() == ".jsonl":
        yield from records(source, tally)
        return
    value = document(source)
    held = next((items(table(value).get(name)) for name in _LISTS if table(value).get(name)), None)
    listed = value if isinstance(value, list) else held
    if listed is None:
        raise ImportFailed(
            "there are no memories in this file", path=source.path, hint="expected {results: [{id, memory}]}"
        )
    for item in listed:
        if isinstance(item, dict):
            yield tally.record(item)
        else:
            tally.damage(f"a {type(item).__name__}, not an object")


def _of_database(source: Source, tally: Tally) -> Iterator[ImportedSession | None]:
    with Database(source, tally) as database:
        steps = list(database.rows("history", "created_at, updated_at, rowid"))
        messages = list(database.rows("messages", "created_at, rowid"))
    builder = Builder(tally, source, AGENT, source.path.stem, named_by_file=True)
    made: dict[str, ImportedMemory] = {}
    for record in steps:
        step = record.value
        memory_id, event = text(step.get("memory_id")), text(step.get("event"))
        since = utc_ms(step.get("updated_at")) or utc_ms(step.get("created_at")) or 0
        words = text(step.get("new_memory")) or text(step.get("old_memory"))
        facts = {name: step.get(name) for name in ("event", "actor_id", "role") if step.get(name)}
        builder.at(record, text(step.get("id")), since or None)
        entry = builder.put(Note(kind="memory", text=words, data=facts or None))
        if event == "DELETE" or step.get("is_deleted"):
            made.pop(memory_id, None)
        elif memory_id and words:
            memory = ImportedMemory(entry=entry, key=f"mem0 {memory_id}", text=words, said_at=since)
            made[memory_id] = memory
    yield _with_memories(builder.finish(), made)
    scopes: dict[str, list[Record]] = {}
    for record in messages:
        scopes.setdefault(text(record.value.get("session_scope")), []).append(record)
    for scope, found in scopes.items():
        builder = Builder(tally, source, AGENT, scope or "messages", named_by_file=not scope)
        for record in found:
            builder.at(record, text(record.value.get("id")), utc_ms(record.value.get("created_at")))
            put_message(builder, record.value, record)
        yield builder.finish()


def _with_memories(
    session: ImportedSession | None, made: dict[str, ImportedMemory]
) -> ImportedSession | None:
    return session and msgspec.structs.replace(session, memories=tuple(made.values()))


def _matches(head: bytes, path: Path) -> bool:
    if head.startswith(DATABASE):
        return re.search(rb"\bhistory\b", head) is not None and b"memory_id" in head
    found = _MEMORY.search(head) is not None and _OWNED.search(head) is not None
    return found and _SAID.search(head) is None


def _read(source: Source) -> Transcript:
    tally = Tally("mem0", source)
    made = _of_database if source.data.startswith(DATABASE) else _of_files
    return tally.transcript(made(source, tally))


MEM0 = Importer("mem0", _matches, _read)
