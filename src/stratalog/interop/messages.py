"""The forms in which a plain list of messages is kept, whichever vendor's messages they are.

A file is a JSON array of messages, an object with `messages`, an array of such objects, or JSON lines of
either kind. Messages alone make one session, named after the file; each object with `messages` makes one of
its own, named by its id, else after the file with its number.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, TypeAlias

from stratalog.errors import ImportFailed
from stratalog.interop.build import Builder, items, text
from stratalog.interop.content import content
from stratalog.interop.contract import ImportedSession, Source, Transcript
from stratalog.interop.records import Record, Tally, document, records, utc_ms
from stratalog.types import System

Put: TypeAlias = Callable[[Builder, dict[str, Any], Record], None]
_TIMES = ("timestamp", "created_at", "created", "create_time", "ts", "time", "date")
_NAMES = ("conversation_id", "session_id", "thread_id", "chat_id", "id")
_FACTS = ("model", "user", "metadata")


class _Talk(NamedTuple):
    """A conversation: the record that holds it, if one does, and its messages."""

    holder: Record | None
    messages: list[Record]


def read_messages(format: str, source: Source, put: Put) -> Transcript:
    """The transcript of a file of messages; `put` puts one message. Raises `ImportFailed`."""
    tally = Tally(format, source)
    talks = list(_talks(source, tally))
    used: set[str] = set()
    sessions = [
        _session(format, source, tally, put, talk, *_name(source, talk, number, len(talks), used))
        for number, talk in enumerate(talks, 1)
    ]
    return tally.transcript(sessions)


def _talks(source: Source, tally: Tally) -> Iterator[_Talk]:
    if source.path.suffix.lower() == ".json":
        value = document(source)
        if isinstance(value, dict) and isinstance(value.get("messages"), list):
            value = [value]
        if not isinstance(value, list):
            raise ImportFailed(
                "there is no list of messages in this file",
                path=source.path,
                hint="expected [{role, content}, …] or {messages: [...]}",
            )
        found: Iterator[Record] = _elements(value, tally)
    else:
        found = records(source, tally)
    loose: list[Record] = []
    for record in found:
        if isinstance(record.value.get("messages"), list):
            yield _Talk(record, list(_elements(record.value["messages"], tally, record)))
        elif isinstance(record.value.get("role"), str):
            loose.append(record)
        else:
            tally.skip(record, "neither a message with a role nor an object with messages")
    if loose:
        yield _Talk(None, loose)


def _elements(values: list[Any], tally: Tally, holder: Record | None = None) -> Iterator[Record]:
    line, offset = (holder.line, holder.offset) if holder else (0, 0)
    for value in values:
        if isinstance(value, dict):
            yield tally.record(value, line, offset)
        else:
            tally.damage(f"a {type(value).__name__}, not an object", line, offset)


def _name(source: Source, talk: _Talk, number: int, count: int, used: set[str]) -> tuple[str, bool]:
    """The session's name, and whether it is the file's: its own id, else that, numbered among several."""
    holder = talk.holder.value if talk.holder else {}
    own = name = next((text(holder.get(field)) for field in _NAMES if text(holder.get(field))), "")
    if not name or name in used:
        base = name or source.path.stem
        name = base if count == 1 else f"{base}:{number}"
    used.add(name)
    return name, not own


def _session(
    format: str, source: Source, tally: Tally, put: Put, talk: _Talk, name: str, by_file: bool
) -> ImportedSession | None:
    builder = Builder(tally, source, format, name, named_by_file=by_file)
    began = None
    if talk.holder is not None:
        value = talk.holder.value
        began = _time(value)
        builder.at(talk.holder, "", began)
        builder.meta |= {fact: value[fact] for fact in _FACTS if value.get(fact)}
        tally.merge(talk.holder, "conversation")
        if value.get("system"):
            builder.put(System(content=content(value["system"])))
        builder.title(text(value.get("title")))
        if items(value.get("tools")):
            tally.note(f"{builder.chat}: definitions of {len(value['tools'])} tools are not kept")
    for place, record in enumerate(talk.messages):
        builder.at(record, text(record.value.get("uuid")), _time(record.value) or began, place)
        put(builder, record.value, record)
    return builder.finish()


def _time(value: dict[str, Any]) -> int | None:
    return next((ts for field in _TIMES if (ts := utc_ms(value.get(field)))), None)
