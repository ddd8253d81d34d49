"""LangGraph's databases: the checkpoints of `SqliteSaver` and the items of `SqliteStore`.

A thread is a session made of its checkpoints: a message is of the checkpoint that has it first, and takes
that one's time. So messages stay that a later state has trimmed or summarised. The main line ends at the
newest checkpoint; checkpoints of a run that was forked from an earlier one are a branch, if it has messages
of its own. The channel is `messages`, or else the first one that holds a list of messages; where a saver
keeps only what was added to it, that is read from `writes`. States of subgraphs are skipped: what they say
is in the thread, or was never said to it.

An item of a store is a note in the session of its namespace and a record from it, of the agent, in a slot
named by namespace and key.

Values are decoded here, without LangGraph: nothing in a file is called or made, and of an object its fields
are kept. What is encrypted or pickled cannot be read so and is skipped.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from stratalog.interop.build import Builder, chat_id, items, table, text, usage_of
from stratalog.interop.content import content, parts_of
from stratalog.interop.contract import ImportedMemory, ImportedSession, Importer, Source, Transcript
from stratalog.interop.database import Database
from stratalog.interop.opening import DATABASE
from stratalog.interop.records import Record, Tally, parse, storable, utc_ms
from stratalog.interop.tree import unravel
from stratalog.types import Note, Part, System, ToolCall, ToolResult

AGENT = "langgraph"
_CHANNEL = "messages"
_TYPES = ("human", "ai", "system", "tool", "function", "chat", "remove", "AIMessageChunk")
# The kinds of object in LangGraph's msgpack, by where in the array the object's fields stand.
_FIELDS = {0: 2, 1: 2, 2: 2, 3: 2, 4: 2, 5: 2}
_SNAPSHOT = 7


class _State:
    """A checkpoint: its row, and what is in it."""

    def __init__(self, record: Record, value: dict[str, Any]) -> None:
        self.record = record
        self.id = text(record.value.get("checkpoint_id"))
        self.parent = text(record.value.get("parent_checkpoint_id"))
        self.ts = utc_ms(value.get("ts"))
        self.channels = table(value.get("channel_values"))
        # Where a channel has a version but no value, only what was added to it is kept, and elsewhere.
        self.partial = _CHANNEL in table(value.get("channel_versions")) and _CHANNEL not in self.channels

    @property
    def messages(self) -> list[dict[str, Any]]:
        if _CHANNEL in self.channels:
            return _messages(self.channels[_CHANNEL])
        return next(filter(None, map(_messages, self.channels.values())), [])


def _messages(value: Any) -> list[dict[str, Any]]:
    return [
        item
        for item in items(value)
        if isinstance(item, dict) and item.get("type") in _TYPES and "content" in item
    ]


def _decoded(kind: str, data: Any) -> Any:
    """The value; None when it cannot be read here. Raises `msgspec.MsgspecError` and `ValueError`."""
    raw = data.encode() if isinstance(data, str) else data
    if kind == "msgpack" and isinstance(raw, bytes):
        return storable(_plain(msgspec.msgpack.decode(raw, ext_hook=_object)))
    if kind == "json" and isinstance(raw, bytes):
        return storable(_constructed(msgspec.json.decode(raw)))
    return None


def _object(code: int, data: memoryview) -> Any:
    value = msgspec.msgpack.decode(data, ext_hook=_object)
    if code == _SNAPSHOT:
        return value
    place = _FIELDS.get(code)
    return value[place] if place is not None and isinstance(value, list) and len(value) > place else value


def _plain(value: Any) -> Any:
    """The value with nothing in it but what JSON has."""
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if value is None or isinstance(value, str | int | float | bool):
        return value
    return f"{len(value)} bytes" if isinstance(value, bytes) else str(value)


def _constructed(value: Any) -> Any:
    """LangChain's JSON with the fields of each object in its place."""
    if isinstance(value, dict):
        if "lc" in value and isinstance(value.get("kwargs"), dict):
            return _constructed(value["kwargs"])
        return {key: _constructed(item) for key, item in value.items()}
    return [_constructed(item) for item in value] if isinstance(value, list) else value


class _Writer:
    """Puts messages, each once: told by its id, one without by what it says and how often that was said."""

    def __init__(self, builder: Builder, seen: set[str]) -> None:
        self._builder, self._seen = builder, seen

    def put_all(self, state: _State, messages: list[dict[str, Any]]) -> None:
        counts: Counter[str] = Counter()
        for message in messages:
            digest = Record(message, 0).key()
            key = text(message.get("id")) or Record(message, counts[digest]).key()
            counts[digest] += 1
            if key not in self._seen:
                self._seen.add(key)
                self._put(state, message, key)

    def _put(self, state: _State, message: dict[str, Any], key: str) -> None:
        self._builder.at(state.record, key, state.ts)
        kind, said = text(message.get("type")), message.get("content")
        kind = text(message.get("role")) if kind == "chat" else kind
        if kind in ("human", "user"):
            if content(said):
                name = text(message.get("name"))
                self._builder.user(content(said), meta={"name": name} if name else None)
        elif kind in ("ai", "AIMessageChunk", "assistant"):
            self._reply(message, key)
        elif kind == "system":
            self._builder.put(System(content=content(said)))
        elif kind in ("tool", "function"):
            name = text(message.get("name"))
            failed = message.get("status") == "error"
            call_id = text(message.get("tool_call_id")) or name
            self._builder.put(ToolResult(call_id=call_id, name=name, content=content(said), error=failed))
        elif kind != "remove":
            self._builder.put(Note(kind=f"message:{kind}", data=message))

    def _reply(self, message: dict[str, Any], key: str) -> None:
        said = message.get("content")
        blocks = [
            block
            for block in (said if isinstance(said, list) else [said])
            if table(block).get("type") not in ("tool_use", "tool_call", "function_call")
        ]
        calls = [
            ToolCall(
                call_id=text(call.get("id")) or f"{key}-{place}",
                name=text(call.get("name")),
                args=call.get("args"),
            )
            for place, call in enumerate(map(table, items(message.get("tool_calls"))))
        ]
        counted = table(message.get("usage_metadata"))
        cached = table(counted.get("input_token_details"))
        facts = table(message.get("response_metadata"))
        given: list[Part | ToolCall] = [*parts_of(blocks), *calls]
        self._builder.output(
            given,
            model=text(facts.get("model_name")) or text(facts.get("model")),
            response=self._builder.response(fresh=True),
            usage=usage_of(
                input=counted.get("input_tokens"),
                output=counted.get("output_tokens"),
                cache_read=cached.get("cache_read"),
                cache_write=cached.get("cache_creation"),
                reasoning=table(counted.get("output_token_details")).get("reasoning"),
            ),
        )


def _threads(database: Database, tally: Tally) -> dict[str, list[_State]]:
    threads: dict[str, list[_State]] = {}
    for record in database.rows("checkpoints", "thread_id, checkpoint_ns, checkpoint_id"):
        row = record.value
        if text(row.get("checkpoint_ns")):
            tally.skip(record, "the state of a subgraph")
            continue
        kind = text(row.get("type"))
        try:
            value = _decoded(kind, row.get("checkpoint"))
        except (msgspec.MsgspecError, ValueError, RecursionError) as error:
            tally.skip(record, f"a checkpoint that cannot be decoded: {error}")
            continue
        if not isinstance(value, dict):
            tally.skip(record, f"a checkpoint of the kind {kind or 'none'}, which is not decoded")
            continue
        tally.merge(record, "checkpoint")
        threads.setdefault(text(row.get("thread_id")), []).append(_State(record, value))
    return threads


def _writes(database: Database, tally: Tally) -> dict[tuple[str, str], list[dict[str, Any]]]:
    """The messages that were added at each checkpoint of a thread."""
    added: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for record in database.rows("writes", "thread_id, checkpoint_id, task_id, idx"):
        row = record.value
        tally.merge(record, "write")
        if row.get("channel") != _CHANNEL or text(row.get("checkpoint_ns")):
            continue
        try:
            value = _decoded(text(row.get("type")), row.get("value"))
        except (msgspec.MsgspecError, ValueError, RecursionError) as error:
            tally.skip(record, f"a write that cannot be decoded: {error}")
            continue
        place = (text(row.get("thread_id")), text(row.get("checkpoint_id")))
        added.setdefault(place, []).extend(_messages(value if isinstance(value, list) else [value]))
    return added


def _thread(
    source: Source,
    tally: Tally,
    thread: str,
    states: list[_State],
    added: dict[tuple[str, str], list[dict[str, Any]]],
) -> Iterator[ImportedSession | None]:
    places = {state.id: place for place, state in enumerate(states)}
    parents = [places.get(state.parent) for state in states]
    base = chat_id(thread)
    seen: set[str] = set()
    made: dict[int, str] = {}
    for number, line in enumerate(unravel(parents, lambda members: members[-1])):
        first = states[line.members[0]]
        chat = f"{base}:branch-{chat_id(first.id)}" if number else ""
        builder = Builder(tally, source, AGENT, thread or source.path.stem, chat, named_by_file=not thread)
        writer = _Writer(builder, seen)
        partial = any(states[place].partial for place in line.members)
        if number:
            builder.branches(base, made.get(line.fork, "") if line.fork is not None else "")
        for place in line.members:
            state = states[place]
            writer.put_all(state, state.messages)
            if partial:
                writer.put_all(state, added.get((thread, state.id), []))
            made[place] = builder.last_id
        session = builder.finish()
        if session is not None and number:
            tally.note(f"{base}: the checkpoint {first.id} begins a branch, kept as {chat}")
        yield session


def _stored(source: Source, tally: Tally, found: list[Record]) -> Iterator[ImportedSession | None]:
    spaces: dict[str, list[Record]] = {}
    for record in found:
        spaces.setdefault(text(record.value.get("prefix")), []).append(record)
    for space, rows in spaces.items():
        name = f"store:{space}"
        builder = Builder(tally, source, AGENT, name)
        memories: list[ImportedMemory] = []
        for record in rows:
            row = record.value
            raw = row.get("value")
            given = raw.decode("utf-8", "replace") if isinstance(raw, bytes) else text(raw)
            value, key = parse(given), text(row.get("key"))
            since = utc_ms(row.get("updated_at")) or utc_ms(row.get("created_at")) or 0
            digest = Record({"value": value}, 0).key().removeprefix("#0:")
            builder.at(record, f"{key}/{digest}", since or None)
            entry = builder.put(Note(kind="memory", text=given, data={"namespace": space, "key": key}))
            memory = ImportedMemory(entry=entry, key=f"{space} {key}", payload=value, said_at=since)
            memories.append(memory)
        session = builder.finish()
        yield session and msgspec.structs.replace(session, memories=tuple(memories))


def _sessions(source: Source, tally: Tally) -> Iterator[ImportedSession | None]:
    with Database(source, tally) as database:
        threads = _threads(database, tally)
        added = _writes(database, tally)
        found = list(database.rows("store", "prefix, created_at, key"))
    for thread, states in threads.items():
        yield from _thread(source, tally, thread, states, added)
    yield from _stored(source, tally, found)


def _matches(head: bytes, path: Path) -> bool:
    if not head.startswith(DATABASE):
        return False
    saver = re.search(rb"\bcheckpoints\b", head) is not None and b"checkpoint_ns" in head
    return saver or re.search(rb"\bstore\b[^;]*?\bprefix\b[^;]*?\bkey\b[^;]*?\bvalue\b", head) is not None


def _read(source: Source) -> Transcript:
    tally = Tally("langgraph", source)
    return tally.transcript(_sessions(source, tally))


LANGGRAPH = Importer("langgraph", _matches, _read)
