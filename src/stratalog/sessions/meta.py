"""What a list of sessions shows of one: a fold over its log, kept beside it in `<name>.meta.json`.

The file is a stratum: written after a turn and after a change of title or pin, never believed beyond its
`seq`, and made anew from the log when it is missing, unreadable or of another version. A restart keeps
title, pin and times, and nothing of working memory and facts.

Working memory is the sum of its changes. What a compaction says of it was read before the compaction was
written, so that a change in between would be lost with it: it counts only where no change was seen since the
history began, as in a log that begins with a compaction.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from typing import Any, Literal

import msgspec
import regex

from stratalog.errors import StratalogError
from stratalog.types import (
    AnyEntry,
    Assistant,
    Compaction,
    Note,
    Pin,
    System,
    Title,
    TurnEnd,
    User,
    WorkingMemory,
    is_injected,
)

VERSION = 3
RESTART = "restart"
FORK = "fork"
FACT = "fact"
METADATA = "metadata"
REMEMBERED = "remembered"
BLOCKS = "memory_blocks"
WITHDRAWN = "withdrawn"
UNTITLED = "New session"
_RANK = {"": 0, "first": 1, "auto": 2, "import": 2, "model": 2, "user": 3}

# `[channel: wecom] [from: x] hello`: what a channel puts before the user's own words.
_PREFIX = regex.compile(r"(?:\s*\[[\w .-]{1,40}:[^\[\]\n]{0,200}\])+\s*")
_TAG = regex.compile(r"<([a-z][\w-]{1,40})>.*?</\1>\s*", regex.DOTALL)

# The flag of a part of a country: a black flag and letters that do not show by themselves.
_FLAG = regex.compile("\U0001f3f4[\U000e0030-\U000e0039\U000e0061-\U000e007a]{3,6}\U000e007f")
# What holds an emoji family together, and what Persian and the scripts of India need between letters.
_JOINERS = "\u200c\u200d"
_HIDDEN = ("Cc", "Cf", "Cs", "Co", "Cn")


class Frozen(msgspec.Struct, kw_only=True, frozen=True, gc=False):
    """Working memory and pinned facts as they were at the last compaction, in the order of the log; empty
    where there was none. What a model is shown of them before the conversation stays the same until the next.
    """

    working_memory: dict[str, Any] = {}
    facts: tuple[str, ...] = ()


class SessionMeta(msgspec.Struct, kw_only=True, frozen=True, gc=False):
    """Times are milliseconds UTC. `updated_at` is that of the last message a person or a model wrote;
    `messages` counts these since the last restart. `seq` and `last` are the number and the id of the last
    entry that is counted in here: a log that has another entry there was made anew. `system` are the numbers
    of the system's messages since the last restart, which a context shows however old they are, but for those
    whose ids are in `withdrawn`. `facts` are those pinned, in that order; `remembers` says whether a change
    of working memory was seen since the last restart.

    `metadata` is what was said of the session itself, such as where its records may live; a restart keeps it.
    `answered` is the number of the last end of an answered turn, `remembered` that up to which turns are in
    the records (0: none are to be), also from before a restart. `blocks` is that of the memory blocks that
    were frozen last, and `compacted` that of the last compaction; 0 where there is none since then."""

    v: int = VERSION
    key: str
    title: str = UNTITLED
    title_by: Literal["", "first", "auto", "model", "import", "user"] = ""
    pinned: bool = False
    created_at: int = 0
    updated_at: int = 0
    messages: int = 0
    seq: int = 0
    last: str = ""
    system: tuple[int, ...] = ()
    withdrawn: tuple[str, ...] = ()
    generation: int = 1
    forked_from: str = ""
    working_memory: dict[str, Any] = {}
    remembers: bool = False
    facts: tuple[str, ...] = ()
    frozen: Frozen = Frozen()
    metadata: dict[str, Any] = {}
    answered: int = 0
    remembered: int = 0
    blocks: int = 0
    compacted: int = 0


def advance(meta: SessionMeta, entry: AnyEntry, title_length: int = 40) -> SessionMeta:
    """`meta` with one more entry. An entry that is already counted changes nothing."""
    if entry.seq <= meta.seq:
        return meta
    changes: dict[str, Any] = {"seq": entry.seq, "last": entry.id}
    if not meta.created_at:
        changes["created_at"] = entry.ts
        changes["updated_at"] = entry.ts
    match entry:
        case User() | Assistant():
            if is_real(entry):
                changes["messages"] = meta.messages + 1
                changes["updated_at"] = entry.ts
                if meta.title_by == "" and isinstance(entry, User):
                    title = title_from(entry.text, title_length)
                    if title:
                        changes["title"], changes["title_by"] = title, "first"
        case System():
            changes["system"] = (*meta.system, entry.seq)
        case Title():
            if _RANK[entry.by] >= _RANK[meta.title_by] and clean_title(entry.title):
                changes["title"], changes["title_by"] = clean_title(entry.title), entry.by
        case Pin():
            changes["pinned"] = entry.pinned
        case WorkingMemory():
            changes["working_memory"] = remembered(meta.working_memory, entry)
            changes["remembers"] = True
        case TurnEnd():
            if entry.status == "answered":
                changes["answered"] = entry.seq
        case Compaction():
            changes["compacted"] = entry.seq
            told = entry.working_memory
            memory = meta.working_memory if meta.remembers or told is None else told
            changes["working_memory"] = memory
            changes["frozen"] = Frozen(working_memory=memory, facts=meta.facts)
        case Note():
            changes |= _noted(meta, entry)
        case _:
            pass
    return msgspec.structs.replace(meta, **changes)


def _noted(meta: SessionMeta, note: Note) -> dict[str, Any]:
    """What a note changes."""
    data = note.data if isinstance(note.data, dict) else {}
    if note.kind == RESTART:
        blank = {name: _BLANK[name] for name in _OF_A_HISTORY}
        return {**blank, "generation": meta.generation + 1}
    if note.kind == FORK:
        # Whose turns they were has them in its records, or will.
        remembered = note.seq if meta.remembered else 0
        return {"forked_from": str(data.get("parent", "")), "remembered": remembered}
    if note.kind == FACT:
        return {"facts": pinned(meta.facts, note)}
    if note.kind == METADATA:
        told = meta.metadata | data
        return {"metadata": {name: value for name, value in told.items() if value is not None}}
    if note.kind == REMEMBERED and isinstance(data.get("seq"), int):
        return {"remembered": max(meta.remembered, data["seq"])}
    if note.kind == WITHDRAWN:
        named = data.get("system")
        ids = [each for each in named if isinstance(each, str)] if isinstance(named, list | tuple) else []
        return {"withdrawn": (*meta.withdrawn, *ids)} if ids else {}
    return {"blocks": note.seq} if note.kind == BLOCKS else {}


def remembered(memory: dict[str, Any], change: WorkingMemory) -> dict[str, Any]:
    """The working memory after one change."""
    if change.op == "clear":
        return {}
    rest = {name: value for name, value in memory.items() if name != change.key}
    return rest if change.op == "delete" else {**rest, change.key: change.value}


def pinned(facts: tuple[str, ...], change: Note) -> tuple[str, ...]:
    """The facts after one was pinned, or taken off; each is there once, where it was pinned first."""
    wanted = change.data.get("pinned") if isinstance(change.data, dict) else None
    if wanted is True and change.text and change.text not in facts:
        return (*facts, change.text)
    return tuple(fact for fact in facts if fact != change.text) if wanted is False else facts


def is_real(entry: User | Assistant) -> bool:
    """Whether somebody said it: not put in by a program, and not empty."""
    if is_injected(entry):
        return False
    return bool(entry.content)


def title_from(text: str, length: int) -> str:
    """A title of the first words of a message: without what the channel put before them, on one line,
    at most `length` characters as a person counts them. Empty when there are no words."""
    match = _PREFIX.match(text)
    if match:
        text = text[match.end() :]
    return clip(clean_title(_TAG.sub("", text[:4000])) or clean_title(text[:4000]), length)


def clean_title(text: str) -> str:
    """One line without control, format or unassigned characters."""
    kept: list[str] = []
    at = 0
    for flag in _FLAG.finditer(text):
        kept += [*_shown(text[at : flag.start()]), flag.group()]
        at = flag.end()
    return " ".join("".join([*kept, *_shown(text[at:])]).split()).strip(_JOINERS)


def _shown(text: str) -> Iterator[str]:
    for char in text:
        if char.isspace():
            yield " "
        elif char in _JOINERS or unicodedata.category(char) not in _HIDDEN:
            yield char


def clip(text: str, length: int) -> str:
    """The first `length` graphemes, with an ellipsis as the last when something was cut."""
    most = length * 40  # a grapheme may have any number of marks
    graphemes = regex.findall(r"\X", text[:most])
    if len(graphemes) <= length and len(text) <= most:
        return text
    return "".join(graphemes[: length - 1]).rstrip() + "…"


def encode_meta(meta: SessionMeta) -> bytes:
    """The content of `meta.json`."""
    return msgspec.json.format(msgspec.json.encode(meta), indent=2) + b"\n"


def short_meta(meta: SessionMeta) -> bytes:
    """The meta without the fields that have their default, which decodes to the same in half the time."""
    fields = {name: getattr(meta, name) for name in meta.__struct_fields__}
    return msgspec.json.encode({name: value for name, value in fields.items() if value != _BLANK[name]})


def decode_meta(data: bytes, key: str) -> SessionMeta | None:
    """The meta in a file; None when it is not this session's, of another version, or damaged."""
    try:
        meta = msgspec.json.decode(data, type=SessionMeta)
    except (msgspec.MsgspecError, StratalogError):
        return None
    return meta if meta.v == VERSION and meta.key == key else None


_BLANK = {name: getattr(SessionMeta(key=""), name) for name in SessionMeta.__struct_fields__}
_OF_A_HISTORY = (
    "messages",
    "system",
    "withdrawn",
    "working_memory",
    "remembers",
    "facts",
    "frozen",
    "blocks",
    "compacted",
)
