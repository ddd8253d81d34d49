"""Claude.ai's data export: `conversations.json`, a list of conversations with their `chat_messages`.

Messages have a `parent_message_uuid`, at the root one of zeros; the main line ends at
`current_leaf_message_uuid`, else at the last message, and prompts that were edited or answers that were tried
again are branches, each a session `<conversation>:branch-<first message>`. Exports of the first years have
no parents: there the list is the line.

The words of a message are in its blocks (`content`), of the first years in its `text` alone. An assistant's
message holds the calls of tools that ran at Anthropic together with their results, in order. Text that was
taken from an attachment is a file of the message; of other files the export has the name only. Which model
answered most exports do not say.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from stratalog.interop.build import Builder, chat_id, items, table, text
from stratalog.interop.content import content, content_of, parts_of
from stratalog.interop.contract import ImportedSession, Importer, Source, Transcript
from stratalog.interop.records import Record, Tally, document, utc_ms
from stratalog.interop.tree import unravel
from stratalog.types import Data, File, Note, Part, Text, ToolCall, ToolResult

AGENT = "claude-ai"
_MESSAGES = re.compile(rb'"chat_messages"\s*:\s*\[')
_ROOT = "00000000-0000-"
_BOOKKEEPING = ("token_budget", "flag")


def _blocks(message: dict[str, Any]) -> list[Any]:
    found = [
        block
        for block in items(message.get("content"))
        if table(block).get("type") not in _BOOKKEEPING and block != {"type": "text", "text": ""}
    ]
    words = text(message.get("text"))
    return found or ([words] if words else [])


def _attached(message: dict[str, Any]) -> Iterator[Part]:
    for item in items(message.get("attachments")):
        facts = table(item)
        name, words = text(facts.get("file_name")), text(facts.get("extracted_content"))
        if words and name:
            kind = text(facts.get("file_type"))
            media = kind if "/" in kind else "text/plain"
            yield File(media_type=media, name=name, data=words.encode())
        elif words:
            # What is too long to be pasted becomes an attachment without a name.
            yield Text(text=words)
        elif facts:
            yield Data(kind="attachment", value=facts)
    for item in items(message.get("files")) or items(message.get("files_v2")):
        if isinstance(item, dict):
            yield Data(kind="file", value=item)


def _put(builder: Builder, record: Record, key: str) -> None:
    message = record.value
    sender = text(message.get("sender"))
    builder.at(record, key, utc_ms(message.get("created_at")))
    if sender == "assistant":
        _put_reply(builder, message, key)
        return
    parts = [part for block in _blocks(message) for part in parts_of(block)]
    parts += _attached(message)
    if sender in ("human", "user") and parts:
        builder.user(content_of(parts))
    elif parts:
        builder.put(Note(kind=f"message:{sender}", data=message))


def _put_reply(builder: Builder, message: dict[str, Any], key: str) -> None:
    model = text(message.get("model"))
    run: list[Part | ToolCall] = []
    calls = 0
    for block in _blocks(message):
        kind = table(block).get("type")
        if kind == "tool_use":
            calls += 1
            call_id = text(block.get("id")) or f"{key}-{calls}"
            run.append(ToolCall(call_id=call_id, name=text(block.get("name")), args=block.get("input")))
        elif kind == "tool_result":
            builder.output(run, model=model)
            run = []
            builder.put(
                ToolResult(
                    call_id=text(block.get("tool_use_id")) or f"{key}-{calls}",
                    name=text(block.get("name")),
                    content=content(block.get("content")),
                    error=block.get("is_error") is True,
                )
            )
        else:
            run += parts_of(block)
    builder.output((*run, *_attached(message)), model=model)


def _sessions(source: Source, tally: Tally) -> Iterator[ImportedSession | None]:
    value = document(source)
    talks = value if isinstance(value, list) else [value]
    used: set[str] = set()
    for number, talk in enumerate(talks, 1):
        if isinstance(talk, dict) and isinstance(talk.get("chat_messages"), list):
            stem = source.path.stem if len(talks) == 1 else f"{source.path.stem}:{number}"
            yield from _conversation(source, tally, talk, stem, used)
        else:
            tally.damage("not a conversation with chat_messages")


def _conversation(
    source: Source, tally: Tally, talk: dict[str, Any], stem: str, used: set[str]
) -> Iterator[ImportedSession | None]:
    holder = tally.record({name: item for name, item in talk.items() if name != "chat_messages"})
    named = text(talk.get("uuid"))
    if named in used:
        tally.skip(holder, f"the conversation {named} stands in this file before")
        return
    used.add(named or stem)
    tally.merge(holder, "conversation")
    session = named or stem
    base = chat_id(session)
    found, keys = _messages(talk["chat_messages"], tally)
    current = text(talk.get("current_leaf_message_uuid"))

    def leaf(members: Sequence[int]) -> int:
        marked = [place for place in members if keys[place] == current]
        return marked[0] if marked else members[-1]

    made: dict[int, str] = {}
    for number, line in enumerate(unravel(_parents(found, keys), leaf)):
        first = keys[line.members[0]]
        chat = f"{base}:branch-{chat_id(first)}" if number else ""
        builder = Builder(tally, source, AGENT, session, chat, named_by_file=not named)
        facts = {"model": talk.get("model"), "summary": talk.get("summary")}
        project = text(table(talk.get("project")).get("uuid")) or talk.get("project_uuid")
        builder.meta |= {name: fact for name, fact in (facts | {"project": project}).items() if text(fact)}
        if number:
            builder.branches(base, made.get(line.fork, "") if line.fork is not None else "")
            tally.note(f"{base}: the message {first} begins a branch, kept as {chat}")
        else:
            builder.at(holder, "title", utc_ms(talk.get("created_at")))
            builder.title(text(talk.get("name")))
        for place in line.members:
            _put(builder, found[place], keys[place])
            made[place] = builder.last_id
        yield builder.finish()


def _messages(values: list[Any], tally: Tally) -> tuple[list[Record], list[str]]:
    """The messages, each with a key of its own."""
    found: list[Record] = []
    keys: dict[str, None] = {}
    for value in values:
        if not isinstance(value, dict):
            tally.damage(f"a {type(value).__name__}, not an object")
            continue
        record = tally.record(value)
        uuid = text(value.get("uuid"))
        keys[uuid if uuid and uuid not in keys else record.key(len(found))] = None
        found.append(record)
    return found, list(keys)


def _parents(found: list[Record], keys: list[str]) -> list[int | None]:
    places = {key: place for place, key in enumerate(keys)}
    parents: list[int | None] = []
    for place, record in enumerate(found):
        link = text(record.value.get("parent_message_uuid"))
        before = place - 1 if place and not link.startswith(_ROOT) else None
        parents.append(places.get(link, before))
    return parents


def _matches(head: bytes, path: Path) -> bool:
    return _MESSAGES.search(head) is not None and path.suffix.lower() != ".jsonl"


def _read(source: Source) -> Transcript:
    tally = Tally("claude_ai", source)
    return tally.transcript(_sessions(source, tally))


CLAUDE_AI = Importer("claude_ai", _matches, _read)
