"""Our own entries as JSON lines: what `export.to_jsonl` writes comes back exactly as it was.

Ids, times, turns and sequence numbers are kept, not derived. A line whose type this version does not know
becomes `Unknown` with the line's bytes, so a file from a later version passes through unharmed.

A line of the type `stratalog_export` says whose session the entries after it are, so several exports in one
file are several sessions. Entries under no such line are of the agent `stratalog`, and their chat is the
file's name.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import msgspec

from stratalog.errors import ImportFailed, InvalidKey
from stratalog.interop.build import CHANNEL, chat_id, text
from stratalog.interop.contract import ImportedSession, Importer, Source, Transcript
from stratalog.interop.export import HEAD_TYPE, HEAD_VERSION, ExportHead
from stratalog.interop.records import Tally, lines
from stratalog.keys import SessionKey, parse_key
from stratalog.types import AnyEntry, Title, Unknown

AGENT = "stratalog"
_LINE = re.compile(rb'\{"type":"[a-z_?]+"(,"seq":\d+)?,"id":"[0-7][0-9A-HJKMNP-TV-Z]{25}"')
_HEAD = re.compile(rb'\s*\{\s*"type"\s*:\s*"stratalog_export"')
_ENTRY: msgspec.json.Decoder[AnyEntry] = msgspec.json.Decoder(AnyEntry)
_TYPES = frozenset(
    str(kind.__struct_config__.tag) for kind in AnyEntry.__args__ if issubclass(kind, msgspec.Struct)
)


def from_jsonl(source: Source) -> Transcript:
    """The entries in a file of ours, one session a key. Raises `ImportFailed` for a later version's."""
    tally = Tally("stratalog", source)
    nobody = _Session(None)
    found: dict[SessionKey | None, _Session] = {None: nobody}
    current = nobody
    for number, offset, line in lines(source):
        if not line.strip():
            continue
        try:
            value = msgspec.json.decode(line)
            if not isinstance(value, dict) or not isinstance(value.get("type"), str):
                tally.damage("no entry: it has no type", number, offset)
                continue
            if value["type"] == HEAD_TYPE:
                # Of whose entries follow a line that says it wrongly nothing is known.
                current = nobody
                head = _head(value, source, number)
                key = parse_key(head.key)._replace(tenant="")
                current = found.setdefault(key, _Session(key))
                current.title = head.title or current.title
                current.metadata |= head.metadata or {}
                tally.merge(tally.record(value, number, offset))
                continue
            entry = _ENTRY.decode(line) if value["type"] in _TYPES else _unknown(value, line)
        except (msgspec.MsgspecError, RecursionError) as error:
            tally.damage(f"no entry: {error}", number, offset)
            continue
        except InvalidKey as error:
            tally.damage(f"no key of a session: {error.what}", number, offset)
            continue
        tally.use(tally.record(value, number, offset))
        current.entries.append(entry)
    return tally.transcript(session.made(source) for session in found.values())


class _Session:
    """The entries of one key, or of none."""

    def __init__(self, key: SessionKey | None) -> None:
        self.key = key
        self.title = ""
        self.metadata: dict[str, Any] = {}
        self.entries: list[AnyEntry] = []

    def made(self, source: Source) -> ImportedSession | None:
        if not self.entries:
            return None
        titles = [entry.title for entry in self.entries if isinstance(entry, Title)]
        return ImportedSession(
            agent=self.key.agent if self.key else AGENT,
            channel=self.key.channel if self.key else CHANNEL,
            chat=self.key.chat if self.key else chat_id(source.path.stem),
            entries=tuple(self.entries),
            title=titles[-1] if titles else self.title,
            meta={},
            metadata=self.metadata,
            named_by_file=self.key is None,
        )


def _head(value: dict[str, Any], source: Source, number: int) -> ExportHead:
    version = value.get("version")
    if isinstance(version, int) and version > HEAD_VERSION:
        raise ImportFailed(
            f"this export is of version {version}; this Stratalog reads up to {HEAD_VERSION}",
            path=source.path,
            line=number,
            hint="import it with the version that wrote it, or a later one",
        )
    return msgspec.convert(value, ExportHead)


def _unknown(value: dict[str, Any], line: bytes) -> Unknown:
    seq, ts, meta = value.get("seq"), value.get("ts"), value.get("meta")
    return Unknown(
        seq=seq if isinstance(seq, int) else 0,
        id=text(value.get("id")),
        ts=ts if isinstance(ts, int) else 0,
        turn=text(value.get("turn")),
        meta=meta if isinstance(meta, dict) else None,
        kind=value["type"],
        raw=line,
    )


def _matches(head: bytes, path: Path) -> bool:
    return _LINE.match(head) is not None or _HEAD.match(head) is not None


STRATALOG = Importer("stratalog", _matches, from_jsonl)
