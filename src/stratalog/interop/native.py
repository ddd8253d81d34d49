"""Our own entries as JSON lines: what `export.to_jsonl` writes comes back exactly as it was.

Ids, times, turns and sequence numbers are kept, not derived. A line whose type this version does not know
becomes `Unknown` with the line's bytes, so a file from a later version passes through unharmed.

The file does not say whose session it is; the agent is `stratalog` and the chat is the file's name.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import msgspec

from stratalog.interop.build import CHANNEL, chat_id, text
from stratalog.interop.contract import ImportedSession, Importer, Source, Transcript
from stratalog.interop.records import Tally, lines
from stratalog.types import AnyEntry, Title, Unknown

AGENT = "stratalog"
_LINE = re.compile(rb'\{"type":"[a-z_?]+"(,"seq":\d+)?,"id":"[0-7][0-9A-HJKMNP-TV-Z]{25}"')
_ENTRY: msgspec.json.Decoder[AnyEntry] = msgspec.json.Decoder(AnyEntry)
_TYPES = frozenset(
    str(kind.__struct_config__.tag) for kind in AnyEntry.__args__ if issubclass(kind, msgspec.Struct)
)


def from_jsonl(source: Source) -> Transcript:
    """The entries in a file of ours, as one session."""
    tally = Tally("stratalog", source)
    entries: list[AnyEntry] = []
    for number, offset, line in lines(source):
        if not line.strip():
            continue
        try:
            value = msgspec.json.decode(line)
            if not isinstance(value, dict) or not isinstance(value.get("type"), str):
                tally.damage("no entry: it has no type", number, offset)
                continue
            entry = _ENTRY.decode(line) if value["type"] in _TYPES else _unknown(value, line)
        except (msgspec.MsgspecError, RecursionError) as error:
            tally.damage(f"no entry: {error}", number, offset)
            continue
        tally.use(tally.record(value, number, offset))
        entries.append(entry)
    titles = [entry.title for entry in entries if isinstance(entry, Title)]
    session = ImportedSession(
        agent=AGENT,
        channel=CHANNEL,
        chat=chat_id(source.path.stem),
        entries=tuple(entries),
        title=titles[-1] if titles else "",
        meta={},
    )
    return tally.transcript([session] if entries else [])


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
    return _LINE.match(head) is not None


STRATALOG = Importer("stratalog", _matches, from_jsonl)
