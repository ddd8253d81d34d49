"""OpenClaw's session files, `agents/<agent>/sessions/<id>.jsonl`: those of pi, with records of its own.

OpenClaw runs pi's agent behind chat channels and keeps pi's form: a header, then a tree by `parentId`. What
a file is told by is its folder, or a record that pi never writes: a `model-snapshot`, a `custom` type that
begins with `openclaw`, a message whose model is `delivery-mirror`.

Such a mirror is what a channel was sent by other means than the model's reply, and `gateway-injected` is a
notice of the gateway's; both are messages of the assistant without a model, marked with their `kind`. Prompts
that no person wrote (heartbeats, scheduled jobs, the greeting after a reset, lines of the system) are marked
as injected. What a channel puts around a person's words (who wrote, when) stays with them. Later versions of
OpenClaw keep sessions in a database of their own, which is not read.
"""

from __future__ import annotations

import re
from pathlib import Path

from stratalog.interop import pi
from stratalog.interop.build import Builder, table, text
from stratalog.interop.content import content, parts_of
from stratalog.interop.contract import Importer, Source, Transcript
from stratalog.interop.records import Record, Tally, utc_ms
from stratalog.types import text_of

AGENT = "openclaw"
_MIRRORS = ("delivery-mirror", "gateway-injected")
_HOMES = (".openclaw", ".clawdbot", ".moltbot")
_MARK = re.compile(
    rb'"customType"\s*:\s*"(model-snapshot|openclaw[^"]*)"|"provider"\s*:\s*"openclaw"'
    rb'|"model"\s*:\s*"(delivery-mirror|gateway-injected)"'
)
_PROGRAM = re.compile(
    r"\s*(Read HEARTBEAT\.md if it exists|\[cron:|A new session was started via /|System: \[\d{4}-"
    r"|Pre-compaction memory flush)"
)


def _put(builder: Builder, record: Record, made: dict[int, str], places: dict[str, int]) -> None:
    value = record.value
    message = table(value.get("message"))
    role, model, said = text(message.get("role")), text(message.get("model")), message.get("content")
    ts = utc_ms(value.get("timestamp")) or utc_ms(message.get("timestamp"))
    if role == "assistant" and model in _MIRRORS:
        builder.at(record, text(value.get("id")), ts)
        builder.output(parts_of(said), response=builder.response(fresh=True), meta={"kind": model})
    elif role == "user" and _PROGRAM.match(text_of(content(said))):
        builder.at(record, text(value.get("id")), ts)
        builder.user(content(said), by_program=True)
    else:
        pi.put(builder, record, made, places)


def _matches(head: bytes, path: Path) -> bool:
    folders = path.parts[:-1]
    housed = any(home in folders for home in _HOMES)
    placed = len(folders) > 2 and folders[-1] == "sessions" and folders[-3] == "agents"
    return pi.matches(head, path) and (housed or placed or _MARK.search(head) is not None)


def _read(source: Source) -> Transcript:
    tally = Tally("openclaw", source)
    return tally.transcript(pi.sessions(source, tally, AGENT, _put))


OPENCLAW = Importer("openclaw", _matches, _read)
