"""Nanobot's sessions, `sessions/<channel>_<chat>.jsonl`: a line of metadata, then messages of OpenAI's form.

The session is named by its key, `<channel>:<chat>`. Nanobot writes the file anew and drops the oldest
messages when it grows, so a message is told by what it says and when, not by its place: what was imported
before stays, what is new is added. Times have no zone and are read as UTC. Messages that are marked as the
program's commands are marked as injected, and so is the context that nanobot puts around a prompt at run
time, which becomes a message of its own.
"""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

from stratalog.interop.build import Builder, table, text
from stratalog.interop.content import content
from stratalog.interop.contract import ImportedSession, Importer, Source, Transcript
from stratalog.interop.openai import put_message
from stratalog.interop.records import Record, Tally, records, utc_ms

AGENT = "nanobot"
_HEAD = re.compile(rb'\s*\{[^\n]*"_type"\s*:\s*"metadata"')
_CONTEXT = re.compile(r"\s*\[Runtime Context\b[^\]]*\].*?(?:\[/Runtime Context\]\s*|\Z)", re.DOTALL)


def _put(builder: Builder, record: Record, counts: Counter[str]) -> None:
    value = record.value
    digest = record.key(0)
    builder.at(record, "", utc_ms(value.get("timestamp")), counts[digest])
    counts[digest] += 1
    said = content(value.get("content"))
    if value.get("role") == "user" and said:
        name = text(value.get("name")) or text(value.get("sender_id"))
        around = _CONTEXT.search(said) if isinstance(said, str) else None
        own = _CONTEXT.sub("", said) if isinstance(said, str) else said
        if own:
            by_program = value.get("_command") is True
            builder.user(own, by_program=by_program, meta={"name": name} if name else None)
        if around:
            builder.user(around[0].strip(), by_program=True, meta={"kind": "context"})
    else:
        put_message(builder, value, record)


def _session(source: Source, tally: Tally) -> ImportedSession | None:
    holder: Record | None = None
    found: list[Record] = []
    for record in records(source, tally):
        if record.value.get("_type") == "metadata":
            holder = record
            tally.merge(record, "metadata")
        else:
            found.append(record)
    head = holder.value if holder else {}
    named = text(head.get("key"))
    builder = Builder(tally, source, AGENT, named or source.path.stem, named_by_file=not named)
    title = text(table(head.get("metadata")).get("title"))
    if holder is not None and title:
        builder.at(holder, f"title/{title}", utc_ms(head.get("created_at")))
        builder.title(title)
    counts: Counter[str] = Counter()
    for record in found:
        _put(builder, record, counts)
    return builder.finish()


def _matches(head: bytes, path: Path) -> bool:
    return _HEAD.match(head) is not None


def _read(source: Source) -> Transcript:
    tally = Tally("nanobot", source)
    return tally.transcript([_session(source, tally)])


NANOBOT = Importer("nanobot", _matches, _read)
