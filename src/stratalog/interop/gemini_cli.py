"""Gemini CLI's chats: `{sessionId, projectHash, messages}`, or the same as JSON lines after a header.

A `gemini` message holds its thoughts, its words and its tool calls, and each call holds its result; they
become one response, calls first and then the results. A message that is written again under its id, as it
grows, counts once, with its last form. `info`, `warning` and `error` messages are the program's own and
become notes.

Gemini counts thoughts apart from the output, and tokens of tool use apart from the input.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from stratalog.errors import ImportFailed
from stratalog.interop.build import Builder, count, items, table, text, usage_of
from stratalog.interop.content import content, content_of, parts_of, thought
from stratalog.interop.contract import ImportedSession, Importer, Source, Transcript
from stratalog.interop.records import Record, Tally, document, records, utc_ms
from stratalog.types import Content, Data, Note, Part, ToolCall, ToolResult, Usage

AGENT = "gemini-cli"
_HEAD = re.compile(rb'"projectHash"\s*:')
_FAILED = ("error", "cancelled")


def _thoughts(value: Any) -> Iterator[Part]:
    for item in items(value):
        subject, description = text(table(item).get("subject")), text(table(item).get("description"))
        yield thought("\n".join(filter(None, (f"**{subject}**" if subject else "", description))))


def _usage(value: Any) -> Usage | None:
    counted = table(value)
    return usage_of(
        input=count(counted.get("input")) + count(counted.get("tool")),
        output=count(counted.get("output")) + count(counted.get("thoughts")),
        cache_read=counted.get("cached"),
        reasoning=counted.get("thoughts"),
    )


def _result(call: dict[str, Any]) -> tuple[Content, bool] | None:
    """What a tool answered and whether it failed; None when it did not answer."""
    failed = call.get("status") in _FAILED
    given = call.get("result")
    if given is None:
        shown = text(call.get("resultDisplay"))
        return (shown, failed) if shown or failed else None
    parts: list[Part] = []
    for item in given if isinstance(given, list) else [given]:
        answer = table(item).get("functionResponse")
        if not isinstance(answer, dict):
            parts += parts_of(item)
            continue
        response = table(answer.get("response"))
        failed = failed or "error" in response
        said = response.get("output", response.get("error"))
        parts += parts_of(said) if isinstance(said, str) else [Data(kind="response", value=response)]
    return content_of(parts), failed


def _put(builder: Builder, record: Record) -> None:
    value = record.value
    kind, key, ts = text(value.get("type")), text(value.get("id")), utc_ms(value.get("timestamp"))
    builder.at(record, key, ts)
    said = value.get("content")
    if kind == "user":
        shown = content(said)
        if shown:
            builder.user(shown)
    elif kind == "gemini":
        _put_reply(builder, record, key or record.key(), ts)
    else:
        rest = None if isinstance(said, str) else said
        builder.put(Note(kind=kind or "message", text=text(said), data=rest))


def _put_reply(builder: Builder, record: Record, key: str, ts: int | None) -> None:
    value = record.value
    model, response = text(value.get("model")), builder.response(fresh=True)
    builder.output(
        (*_thoughts(value.get("thoughts")), *parts_of(value.get("content"))),
        model=model,
        response=response,
        usage=_usage(value.get("tokens")),
    )
    calls = [
        (text(call.get("id")) or f"{key}-{place}", call)
        for place, call in enumerate(items(value.get("toolCalls")))
        if isinstance(call, dict)
    ]
    # Each call is keyed by itself, so that one more call does not change the ids of the results.
    for call_id, call in calls:
        builder.at(record, f"{key}/{call_id}", ts)
        made = ToolCall(call_id=call_id, name=text(call.get("name")), args=call.get("args"))
        builder.output((made,), model=model, response=response)
    for call_id, call in calls:
        answer = _result(call)
        if answer is not None:
            builder.at(record, f"{key}/{call_id}/result", utc_ms(call.get("timestamp")) or ts)
            builder.put(ToolResult(call_id=call_id, content=answer[0], error=answer[1]))


def _found(source: Source, tally: Tally) -> Iterator[Record]:
    """The header, then the messages."""
    if source.path.suffix.lower() == ".jsonl":
        yield from records(source, tally)
        return
    value = document(source)
    if not isinstance(value, dict) or not isinstance(value.get("messages"), list):
        raise ImportFailed(
            "there are no messages in this file", path=source.path, hint="expected {sessionId, messages}"
        )
    yield tally.record({name: item for name, item in value.items() if name != "messages"})
    for message in value["messages"]:
        if isinstance(message, dict):
            yield tally.record(message)
        else:
            tally.damage(f"a {type(message).__name__}, not an object")


def _session(source: Source, tally: Tally) -> ImportedSession | None:
    header: dict[str, Any] = {}
    found: dict[str, Record] = {}
    for record in _found(source, tally):
        if "projectHash" in record.value or "$set" in record.value:
            header |= table(record.value.get("$set")) or record.value
            tally.merge(record, "header")
            continue
        key = text(record.value.get("id")) or record.key()
        if key in found:
            tally.merge(found[key], "earlier form of a message")
        found[key] = record
    named = text(header.get("sessionId"))
    builder = Builder(tally, source, AGENT, named or source.path.stem, named_by_file=not named)
    project = text(header.get("projectHash"))
    builder.meta |= {"project": project} if project else {}
    for record in found.values():
        _put(builder, record)
    return builder.finish()


def _matches(head: bytes, path: Path) -> bool:
    return _HEAD.search(head) is not None


def _read(source: Source) -> Transcript:
    tally = Tally("gemini_cli", source)
    return tally.transcript([_session(source, tally)])


GEMINI_CLI = Importer("gemini_cli", _matches, _read)
