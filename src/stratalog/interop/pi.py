"""Sessions of the pi coding agent: a header line, then entries, in later versions a tree by `parentId`.

The first version is a plain list and its lines have no ids; from the second on every entry has an `id` and
a `parentId`, the main line ends at the newest entry, and branches that were left become sessions of their
own, `<session>:branch-<first entry>`.

What pi shows its model in the user's place (commands a person ran by hand, summaries of branches, messages
of extensions) is a user entry marked as injected; changes of model and thinking level, labels and states
of extensions are notes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

from stratalog.interop.build import Builder, chat_id, count, table, text, usage_of
from stratalog.interop.content import content, parts_of
from stratalog.interop.contract import ImportedSession, Importer, Source, Transcript
from stratalog.interop.records import Record, Tally, records, utc_ms
from stratalog.interop.tree import unravel
from stratalog.types import Compaction, Note, Part, ToolCall, ToolResult

AGENT = "pi"
# Puts one record, given the newest entry of each place and the place of each id.
Put: TypeAlias = Callable[[Builder, Record, dict[int, str], dict[str, int]], None]
_HEADER = re.compile(rb'\s*\{[^\n]{0,40}"type"\s*:\s*"session"')


def _pieces(value: Any) -> Iterator[Part | ToolCall]:
    for block in value if isinstance(value, list) else [value]:
        if isinstance(block, dict) and block.get("type") == "toolCall":
            yield ToolCall(
                call_id=text(block.get("id")), name=text(block.get("name")), args=block.get("arguments")
            )
        else:
            yield from parts_of(block)


def put(builder: Builder, record: Record, made: dict[int, str], places: dict[str, int]) -> None:
    value = record.value
    kind = text(value.get("type"))
    message = table(value.get("message"))
    ts = utc_ms(value.get("timestamp")) or utc_ms(message.get("timestamp"))
    builder.at(record, text(value.get("id")), ts)
    if kind == "message":
        _put_message(builder, message)
    elif kind == "compaction":
        # The first version counts entries after the header, which is where our places begin.
        kept = places.get(text(value.get("firstKeptEntryId")), value.get("firstKeptEntryIndex"))
        builder.put(
            Compaction(
                summary=text(value.get("summary")),
                first_kept=made.get(kept, "") if isinstance(kept, int) else "",
                covers=(builder.first_id, builder.last_id),
                tokens_before=count(value.get("tokensBefore")),
            )
        )
    elif kind == "session_info":
        builder.title(text(value.get("name")), by_person=True)
    elif kind == "branch_summary":
        builder.user(text(value.get("summary")), by_program=True, meta={"kind": kind})
    elif kind == "custom_message":
        marks = {"kind": text(value.get("customType")) or kind}
        builder.user(content(value.get("content")), by_program=True, meta=marks)
    else:
        rest = {name: item for name, item in value.items() if name not in ("type", "timestamp", "parentId")}
        builder.put(Note(kind=kind or "record", data=rest or None))


def _put_message(builder: Builder, message: dict[str, Any]) -> None:
    role, said = message.get("role"), message.get("content")
    if role == "user":
        builder.user(content(said))
    elif role == "assistant":
        _put_assistant(builder, message)
    elif role == "toolResult":
        builder.put(
            ToolResult(
                call_id=text(message.get("toolCallId")),
                name=text(message.get("toolName")),
                content=content(said),
                error=message.get("isError") is True,
            )
        )
    elif role == "bashExecution":
        _put_bash(builder, message)
    elif role in ("branchSummary", "compactionSummary"):
        builder.user(text(message.get("summary")), by_program=True, meta={"kind": role})
    elif role in ("custom", "hookMessage"):
        builder.user(
            content(said), by_program=True, meta={"kind": text(message.get("customType")) or str(role)}
        )
    else:
        builder.put(Note(kind=f"message:{role}", data=message))


def _put_assistant(builder: Builder, message: dict[str, Any]) -> None:
    counted = table(message.get("usage"))
    read, write = counted.get("cacheRead"), counted.get("cacheWrite")
    whole = count(counted.get("input")) + count(read) + count(write)
    reason, error = text(message.get("stopReason")), text(message.get("errorMessage"))
    builder.output(
        _pieces(message.get("content")),
        model=text(message.get("model")),
        response=builder.response(fresh=True),
        usage=usage_of(input=whole, output=counted.get("output"), cache_read=read, cache_write=write),
        meta={"stop_reason": reason} if reason in ("aborted", "error", "length") else None,
    )
    if reason in ("aborted", "error"):
        builder.put(Note(kind=reason, text=error))
    if reason == "aborted":
        builder.interrupt(error or reason)


def _put_bash(builder: Builder, message: dict[str, Any]) -> None:
    """A command that a person ran; pi shows it to its model unless it was told not to."""
    command, output = text(message.get("command")), text(message.get("output"))
    facts = {name: message[name] for name in ("exitCode", "cancelled", "truncated") if message.get(name)}
    said = f"Ran `{command}`\n{output}" if output else f"Ran `{command}`"
    if message.get("excludeFromContext") is True:
        builder.put(Note(kind="bash", text=said, data=facts or None))
    else:
        builder.user(said, by_program=True, meta={"kind": "bash"} | facts)


def sessions(
    source: Source, tally: Tally, agent: str = AGENT, put: Put = put
) -> Iterator[ImportedSession | None]:
    """The main line and the branches of a file of this form, for programs that are built on pi too."""
    header: dict[str, Any] = {}
    found: list[Record] = []
    taken: set[str] = set()
    for record in records(source, tally):
        node = text(record.value.get("id"))
        if record.value.get("type") == "session" and not header:
            header = record.value
            tally.merge(record)
        elif node and node in taken:
            # Of two entries with one id, the later goes without.
            found.append(record._replace(value=record.value | {"id": ""}))
        else:
            taken.add(node)
            found.append(record)
    named = text(header.get("id"))
    session = named or source.path.stem
    base = chat_id(session)
    places = {text(record.value.get("id")): place for place, record in enumerate(found)}
    places.pop("", None)
    parents: list[int | None] = []
    bridged = 0
    for place, record in enumerate(found):
        link = text(record.value.get("parentId"))
        bridged += bool(link) and link not in places
        rooted = "parentId" in record.value and not link
        parents.append(places.get(link, place - 1 if place and not rooted else None))
    if bridged:
        tally.note(f"{base}: {bridged} entries follow one that is not there, and now the entry before them")
    made: dict[int, str] = {}
    for number, line in enumerate(unravel(parents, lambda members: members[-1])):
        first = found[line.members[0]]
        chat = f"{base}:branch-{chat_id(text(first.value.get('id')) or first.key())}" if number else ""
        builder = Builder(tally, source, agent, session, chat, named_by_file=not named)
        model = {"model": header.get("modelId"), "provider": header.get("provider")}
        facts = {"cwd": header.get("cwd"), **model, "forked_from": header.get("parentSession")}
        builder.meta |= {name: value for name, value in facts.items() if value}
        if number:
            builder.branches(base, made.get(line.fork, "") if line.fork is not None else "")
            tally.note(f"{base}: line {first.line} begins a branch, kept as {chat}")
        for place in line.members:
            put(builder, found[place], made, places)
            made[place] = builder.last_id
        yield builder.finish()


def matches(head: bytes, path: Path) -> bool:
    return _HEADER.match(head) is not None


def _read(source: Source) -> Transcript:
    tally = Tally("pi", source)
    return tally.transcript(sessions(source, tally))


PI = Importer("pi", matches, _read)
