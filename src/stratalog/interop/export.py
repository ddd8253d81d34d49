"""Entries as JSON lines, for programs, and as Markdown, for people.

JSON lines hold one entry each and come back exactly through the `stratalog` importer; an entry of an
unknown type is its own line, byte for byte. Before them may stand a line that says whose they are.

Markdown is for reading: roles and times, calls in code blocks whose fence is longer than any inside them,
results folded away, compactions quoted. Pictures and files are named, not inlined, and marks of the turn
(start, end) are left out because the roles show them. What was withdrawn says so; since that is known only
at the end, the session is held in memory.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from stratalog.engine.reading import withdrawn
from stratalog.keys import SessionKey
from stratalog.types import (
    AnyEntry,
    Assistant,
    Audio,
    Blob,
    Compaction,
    Content,
    Data,
    File,
    Image,
    Note,
    Part,
    Pin,
    Reasoning,
    System,
    Text,
    Title,
    ToolCall,
    ToolResult,
    TurnEnd,
    TurnStart,
    Unknown,
    User,
    WorkingMemory,
)

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_ENTRY = msgspec.json.Encoder()
_TICKS = re.compile(r"`+")
WITHDRAWN = " (withdrawn)"


class ExportHead(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="stratalog_export"):
    """The first line of an export: `key` is the session's whole key, `title` what it is called, `metadata`
    what was said of it, which may be older than the entries that follow.

    A `version` above `HEAD_VERSION` is of a later version of Stratalog.
    """

    version: int
    key: str
    title: str = ""
    metadata: dict[str, Any] | msgspec.UnsetType = msgspec.UNSET


HEAD_TYPE = str(ExportHead.__struct_config__.tag)
HEAD_VERSION = 1


def to_jsonl(
    entries: Iterable[AnyEntry],
    *,
    key: SessionKey | None = None,
    title: str = "",
    metadata: Mapping[str, Any] | None = None,
) -> Iterator[bytes]:
    """Each entry as a line of JSON, with its newline; with a `key` after a line that names the session."""
    if key is not None:
        told = dict(metadata) if metadata else msgspec.UNSET
        head = ExportHead(version=HEAD_VERSION, key=str(key), title=title, metadata=told)
        yield _ENTRY.encode(head) + b"\n"
    for entry in entries:
        raw = entry.raw if isinstance(entry, Unknown) else b""
        yield (raw.rstrip(b"\n") if raw else _ENTRY.encode(entry)) + b"\n"


def to_markdown(key: SessionKey, title: str, entries: Iterable[AnyEntry]) -> Iterator[str]:
    """The conversation as Markdown, in pieces that end in a newline. Times are UTC in ISO 8601."""
    yield f"# {_heading(title) or _heading(str(key))}\n\n`{key}`\n"
    listed = list(entries)
    for entry, gone in zip(listed, withdrawn(listed), strict=True):
        block = _block(entry, WITHDRAWN if gone else "")
        if block:
            yield f"\n{block}\n"


def _block(entry: AnyEntry, mark: str) -> str:
    """The entry; `mark` goes with who said it."""
    match entry:
        case User():
            who = "User (injected)" if (entry.meta or {}).get("injected") is True else "User"
            return _titled(who + mark, entry, _shown(entry.content, entry.blob))
        case Assistant():
            words = _shown(entry.content, entry.blob)
            return _titled(f"Assistant{mark}", entry, words, entry.model) if words else ""
        case System():
            return _titled(f"System{mark}", entry, _shown(entry.content, entry.blob))
        case ToolCall():
            given = _fenced(json_text(entry.args), "json")
            args = given if entry.blob is None else _named("arguments", entry.blob)
            return _titled(f"Call: {_inline(entry.name)}{mark}", entry, args)
        case ToolResult():
            what = "Error" if entry.error else "Result"
            name = html.escape(entry.name) or "tool"
            shown = _shown(entry.content, entry.blob, fence=True) or "(empty)"
            return _folded(f"{what} of {name}{mark}, {iso_time(entry.ts)}", shown)
        case Compaction():
            words = entry.summary if entry.blob is None else _named("summary", entry.blob)
            return f"> **Summary of what came before**, {iso_time(entry.ts)}\n>\n{_quoted(words)}"
        case Title():
            return f"*Titled* {_heading(entry.title)}"
        case WorkingMemory():
            value = f"\n\n{_fenced(json_text(entry.value), 'json')}" if entry.op == "set" else ""
            return f"*Working memory: {entry.op} {_inline(entry.key)}*{value}"
        case Note():
            words = entry.text if entry.blob is None else _named("note", entry.blob)
            head = f"*Note ({_heading(entry.kind)}), {iso_time(entry.ts)}*"
            return f"{head}\n\n{_quoted(words)}" if words else head
        case Pin():
            return "*Pinned*" if entry.pinned else "*Unpinned*"
        case Unknown():
            return f"*An entry of the unknown type {_inline(entry.kind)}*"
        case TurnEnd():
            return "" if entry.status == "answered" else f"*The turn was {entry.status.replace('_', ' ')}*"
        case TurnStart():
            return ""


def _titled(who: str, entry: AnyEntry, body: str, detail: str = "") -> str:
    facts = ", ".join(filter(None, (iso_time(entry.ts), _inline(detail) if detail else "")))
    return f"## {who}\n\n*{facts}*\n\n{body}"


def _shown(content: Content, blob: Blob | None, *, fence: bool = False) -> str:
    if blob is not None:
        return _named("content", blob)
    parts = (Text(text=content),) if isinstance(content, str) else content
    return "\n\n".join(filter(None, (_part(part, fence) for part in parts)))


def _part(part: Part, fence: bool) -> str:
    match part:
        case Text():
            words = _named("text", part.blob) if part.blob is not None else part.text
            return _fenced(words) if fence and words else words
        case Reasoning():
            words = _named("reasoning", part.blob) if part.blob is not None else part.text
            return _folded("Reasoning", words) if words else ""
        case Data():
            return _folded(f"Data: {html.escape(part.kind)}", _fenced(json_text(part.value), "json"))
        case Image() | Audio() | File():
            kind = type(part).__name__
            name = part.name if isinstance(part, File) else ""
            size = part.blob.size if part.blob is not None else len(part.data)
            # A data URL would be the payload itself.
            url = "" if part.url.startswith("data:") else part.url
            facts = (name, part.media_type, url, f"{size:,} bytes" if size else "")
            return f"[{kind}: {', '.join(filter(None, facts)) or 'empty'}]"


def _folded(summary: str, body: str) -> str:
    # A blank line lets Markdown within the element be read as Markdown; a closing tag in it would end it.
    safe = body.replace("</details>", "&lt;/details>") if not body.startswith("`") else body
    return f"<details><summary>{summary}</summary>\n\n{safe}\n\n</details>"


def _fenced(words: str, language: str = "") -> str:
    longest = max((len(run) for run in _TICKS.findall(words)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{words}\n{fence}"


def _inline(words: str) -> str:
    """Words as code within a line."""
    line = " ".join(words.split())
    longest = max((len(run) for run in _TICKS.findall(line)), default=0)
    ticks = "`" * (longest + 1)
    pad = " " if "`" in line else ""
    return f"{ticks}{pad}{line}{pad}{ticks}" if line else ""


def _quoted(words: str) -> str:
    return "\n".join(f"> {line}".rstrip() for line in words.split("\n"))


def _heading(words: str) -> str:
    return " ".join(words.split())


def _named(what: str, blob: Blob) -> str:
    return f"[{what} kept out of line: {blob.size:,} bytes, sha256 {blob.sha256}]"


def json_text(value: Any) -> str:
    """A value as JSON to be read; text as it is."""
    if isinstance(value, str):
        return value
    return msgspec.json.format(_ENTRY.encode(value), indent=2).decode()


def iso_time(ts: int) -> str:
    """ISO 8601 in UTC, to the millisecond; the number itself past the year 9999."""
    try:
        moment = _EPOCH + timedelta(milliseconds=ts)
    except OverflowError:
        return f"{ts} ms"
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
