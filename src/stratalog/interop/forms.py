"""One conversation that its program keeps in two forms: a database whose messages have ids, and files whose
messages have none.

Whichever form was imported first, what the other says again is known by its kind and its words, in order: the
second "ok" of a file is the second that the database had. An entry that is known so takes the id of the one
in the log, and whatever refers to it follows, so that an import adds only what that form alone has. Of a
message that both have the log keeps what came first. Entries of one form are told apart by their ids alone.
"""

from __future__ import annotations

import re
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec

from stratalog.ids import derived_ulid, ulid_ts
from stratalog.interop.contract import ImportedSession
from stratalog.types import (
    AnyEntry,
    Assistant,
    Compaction,
    Content,
    Part,
    Reasoning,
    System,
    Text,
    Title,
    ToolCall,
    ToolResult,
    TurnEnd,
    TurnStart,
    User,
)

_MADE_UP = re.compile(r"\d+-\d+")  # the id of a call that has none in its source


def as_logged(imported: ImportedSession, logged: Sequence[AnyEntry]) -> ImportedSession:
    """The session with the ids that its entries have in the log, where they came there from another form.
    `logged` are all entries of the log, whole."""
    there = {entry.id for entry in logged}
    own = {entry.id for entry in imported.entries}
    # A turn that was taken here, as imported ones were not: its words only happen to be the same.
    taken = {entry.turn for entry in logged if isinstance(entry, TurnStart)}
    waiting: defaultdict[tuple[Any, ...], deque[AnyEntry]] = defaultdict(deque)
    for entry in logged:
        if entry.id not in own and entry.turn not in taken and _said(entry):
            waiting[_form(entry), *_said(entry)].append(entry)
    ids = {"": ""}
    calls: dict[str, str] = {}
    for entry in imported.entries:
        same = waiting[_other_form(entry), *_said(entry)] if entry.id not in there and _said(entry) else None
        if not same:
            continue
        known = same.popleft()
        ids[entry.id] = known.id
        if isinstance(entry, Assistant | ToolCall) and isinstance(known, Assistant | ToolCall):
            ids.setdefault(entry.response, known.response)
        if isinstance(entry, ToolCall) and isinstance(known, ToolCall):
            calls[entry.call_id] = known.call_id
    entries = tuple(_renamed(entry, lambda id: ids.get(id, id), calls) for entry in imported.entries)
    return msgspec.structs.replace(imported, entries=entries)


def _renamed(entry: AnyEntry, name: Callable[[str], str], calls: dict[str, str]) -> AnyEntry:
    changes: dict[str, Any] = {"id": name(entry.id), "turn": name(entry.turn)}
    if isinstance(entry, TurnEnd) and changes["turn"] != entry.turn:
        turn = changes["turn"]
        changes["id"] = derived_ulid(ulid_ts(turn), "turn_end", turn)
    elif isinstance(entry, Assistant | ToolCall):
        changes["response"] = name(entry.response)
    elif isinstance(entry, Compaction):
        changes["covers"] = (name(entry.covers[0]), name(entry.covers[1]))
    if isinstance(entry, ToolCall | ToolResult):
        changes["call_id"] = calls.get(entry.call_id, entry.call_id)
    return msgspec.structs.replace(entry, **changes)


def _form(entry: AnyEntry) -> str:
    """Which form an entry came from; what stands once in every form is of none."""
    if isinstance(entry, System | Title):
        return ""
    return "with ids" if "source" in (entry.meta or {}) else "without"


def _other_form(entry: AnyEntry) -> str:
    return {"with ids": "without", "without": "with ids"}.get(_form(entry), "")


def _said(entry: AnyEntry) -> tuple[Any, ...]:
    """What two writings of one message have in common; () for what is not known by it."""
    match entry:
        case User() | System():
            return (type(entry), _words(entry.content))
        case Assistant():
            return (Assistant, _words(entry.content))
        case ToolCall():
            return (
                ToolCall,
                _given(entry.call_id),
                entry.name,
                msgspec.json.encode(entry.args, order="sorted"),
            )
        case ToolResult():
            return (ToolResult, _given(entry.call_id), _words(entry.content))
        case Compaction():
            return (Compaction, entry.summary.strip())
        case Title():
            return (Title, entry.title)
        case _:
            return ()


def _given(call_id: str) -> str:
    return "" if _MADE_UP.fullmatch(call_id) else call_id


def _words(content: Content) -> tuple[str, ...]:
    """What the parts say, without the reasoning, which not every form has, unless there is nothing else."""
    parts: Iterable[Part] = (Text(text=content),) if isinstance(content, str) else content
    said = [part for part in parts if not isinstance(part, Reasoning)] or parts
    return tuple(
        part.text.strip() if isinstance(part, Text | Reasoning) else f"[{type(part).__name__}]"
        for part in said
    )
