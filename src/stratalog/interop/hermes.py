"""Hermes Agent's sessions: its database `state.db`, what `hermes sessions export` writes, and older files.

In the database a session is a row of `sessions` and its messages are rows of `messages`, in OpenAI's form.
When Hermes makes a session shorter it keeps the old messages as inactive and writes those that stay again;
a message that stands there twice counts once. Messages that were taken back are skipped. A session that goes
on from another after a compression, or that another began, names it as its parent.

An export has a session with its messages on each line. The older files are `sessions/<id>.jsonl`, which
begins with a `session_meta`, and `sessions/session_<id>.json`, which holds the whole and is read as it is
remembered, for no description of it was at hand. A session that is in the database, or an export of it, and
in a file too becomes one, by its id (see `forms`). Trajectories are in ShareGPT's form, which has its own
importer. Tokens are counted for a session only and are not kept, nor are definitions of tools.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from stratalog.interop.build import Builder, chat_id, text
from stratalog.interop.content import content
from stratalog.interop.contract import ImportedSession, Importer, Source, Transcript
from stratalog.interop.database import Database
from stratalog.interop.openai import put_message
from stratalog.interop.opening import DATABASE
from stratalog.interop.records import Record, Tally, document, parse, records, utc_ms
from stratalog.types import Compaction, System, text_of

AGENT = "hermes"
_LINES = re.compile(rb'\s*\{"role"\s*:\s*"session_meta"')
# Fields that stand together in what is exported, and in the older documents.
_WHOLE = ((b'"parent_session_id"', b'"started_at"', b'"source"'), (b'"session_id"', b'"session_start"'))
_ID = re.compile(r"(?:session_)?(\d{8}_\d{6}_\w+)")
_JSON = ("\x00json:", "\x01json:")  # before content that is JSON and not text
_SUMMARY = re.compile(r"\[CONTEXT (COMPACTION|SUMMARY)")
_FACTS = ("model", "platform", "source", "user_id", "cwd", "end_reason", "base_url")


def _message(value: dict[str, Any]) -> dict[str, Any]:
    """A row or a message in OpenAI's form."""
    said, calls = value.get("content"), value.get("tool_calls")
    if isinstance(said, str) and said.startswith(_JSON):
        said = parse(said[len(_JSON[0]) :])
    return value | {
        "content": said,
        "tool_calls": parse(calls) if isinstance(calls, str) else calls,
        "name": value.get("name") or value.get("tool_name"),
    }


def _same(value: dict[str, Any]) -> tuple[str, ...]:
    """What two writings of one message have in common."""
    fields = ("role", "content", "tool_call_id", "tool_calls", "timestamp")
    return tuple(repr(value.get(field)) for field in fields)


class _Session:
    """Puts one session from its head and its messages, whichever form they came in."""

    def __init__(self, source: Source, tally: Tally, head: dict[str, Any], named: str, own: bool) -> None:
        self._tally, self._head = tally, head
        self._builder = Builder(tally, source, AGENT, named, named_by_file=not own)
        self._builder.meta |= {fact: head[fact] for fact in _FACTS if text(head.get(fact))}
        self._counts: Counter[str] = Counter()
        self._seen: set[tuple[str, ...]] = set()
        self._own = own

    def put(self, holder: Record | None, messages: Iterable[Record]) -> ImportedSession | None:
        head, builder = self._head, self._builder
        began = utc_ms(head.get("started_at")) or utc_ms(head.get("session_start"))
        if holder is not None:
            self._tally.merge(holder, "session")
            builder.at(holder, "head", began or utc_ms(head.get("timestamp")))
            if text(head.get("system_prompt")):
                builder.put(System(content=head["system_prompt"]))
            if text(head.get("title")):
                builder.at(holder, f"title/{head['title']}", began)
                builder.title(head["title"])
        for record in messages:
            self._one(record)
        if text(head.get("parent_session_id")):
            builder.branches(chat_id(head["parent_session_id"]), "")
        made = builder.finish()
        return made and msgspec.structs.replace(made, in_forms=self._own)

    def _one(self, record: Record) -> None:
        value = record.value
        if "active" in value:
            if value["active"] == 0 and not value.get("compacted"):
                self._tally.skip(record, "the message was taken back")
                return
            same = _same(value)
            if same in self._seen:
                self._tally.merge(record, "message that stayed after a compaction")
                return
            self._seen.add(same)
        row = value.get("id") if "session_id" in value else None
        digest = record.key(0)
        key = f"message-{row}" if isinstance(row, int) else ""
        self._builder.at(record, key, utc_ms(value.get("timestamp")), self._counts[digest])
        self._counts[digest] += 1
        message = _message(value)
        words = text_of(content(message["content"])) if message.get("role") in ("user", "assistant") else ""
        if value.get("role") == "session_meta":
            self._tally.merge(record, "session")
        elif words and (value.get("_compressed_summary") or _SUMMARY.match(words)):
            covers = (self._builder.first_id, self._builder.last_id)
            self._builder.put(Compaction(summary=words, covers=covers))
        else:
            put_message(self._builder, message, record)


def _of_database(source: Source, tally: Tally) -> Iterator[ImportedSession | None]:
    with Database(source, tally) as database:
        holders = list(database.rows("sessions", "started_at, id"))
        prompts = {one.value.get("hash"): one.value.get("prompt") for one in _prompts(database, tally)}
        messages: dict[str, list[Record]] = {}
        for record in database.rows("messages", "id"):
            messages.setdefault(text(record.value.get("session_id")), []).append(record)
    for holder in holders:
        named = text(holder.value.get("id"))
        found = messages.pop(named, [])
        prompt = holder.value.get("system_prompt") or prompts.get(holder.value.get("system_prompt_hash"))
        head = holder.value | {"system_prompt": prompt}
        yield _Session(source, tally, head, named, True).put(holder, found)
    for named, found in messages.items():
        yield _Session(source, tally, {}, named or source.path.stem, bool(named)).put(None, found)


def _prompts(database: Database, tally: Tally) -> Iterator[Record]:
    """Prompts of the system, which later versions keep once for all sessions that had them."""
    for record in database.rows("system_prompts", "rowid"):
        tally.merge(record, "system prompt")
        yield record


def _of_files(source: Source, tally: Tally) -> Iterator[ImportedSession | None]:
    """Lines that each hold a session, or messages after a `session_meta`; or one document."""
    if source.path.suffix.lower() == ".json":
        value = document(source)
        wholes = value if isinstance(value, list) else [value]
        found = [tally.record(one) for one in wholes if isinstance(one, dict)]
        for one in wholes:
            if not isinstance(one, dict):
                tally.damage(f"a {type(one).__name__}, not an object")
    else:
        found = list(records(source, tally))
    used: set[str] = set()
    loose: list[Record] = []
    for record in found:
        if not isinstance(record.value.get("messages"), list):
            loose.append(record)
            continue
        named = text(record.value.get("session_id")) or text(record.value.get("id"))
        if named in used:
            tally.skip(record, f"the session {named} stands in this file before")
            continue
        used.add(named)
        messages = [
            tally.record(one, record.line, record.offset)
            for one in record.value["messages"]
            if isinstance(one, dict)
        ]
        made = _Session(source, tally, record.value, named or source.path.stem, bool(named))
        yield made.put(record, messages)
    if loose:
        head = loose[0] if loose[0].value.get("role") == "session_meta" else None
        match = _ID.fullmatch(source.path.stem)
        name = match[1] if match else source.path.stem
        if name not in used:
            made = _Session(source, tally, head.value if head else {}, name, match is not None)
            yield made.put(head, loose[1:] if head else loose)


def _matches(head: bytes, path: Path) -> bool:
    if head.startswith(DATABASE):
        return b"parent_session_id" in head and re.search(rb"\bmessages\b", head) is not None
    if _LINES.match(head):
        return True
    return any(all(field in head for field in fields) for fields in _WHOLE)


def _read(source: Source) -> Transcript:
    tally = Tally("hermes", source)
    made = _of_database if source.data.startswith(DATABASE) else _of_files
    return tally.transcript(made(source, tally))


HERMES = Importer("hermes", _matches, _read)
