"""Aider's chat history, `.aider.chat.history.md`: Markdown, a new session at each `# aider chat started at`.

Lines that begin with `#### ` are what a person typed, lines that begin with `> ` what aider itself said, and
all others are the model's: the rule by which aider reads its own file. A reply with such lines in it is cut
there; nothing in the file tells them apart. What was typed as a command (`/add`, `!ls`) stands in the user's
place and is marked as injected, but for those that put a question (`/ask`, `/code`, `/architect`).

Of aider's lines, the model and the tokens go to the replies, the version to the session, and the others
become notes. A session is named by the time at which it began, which is the only time there is; it is of
the clock of the machine and is read as UTC. Edits are in the words of the replies. The log of whole requests
(`.aider.llm.history`) repeats this file and is not read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from stratalog.interop.build import Builder, text, usage_of
from stratalog.interop.contract import ImportedSession, Importer, Source, Transcript
from stratalog.interop.records import Record, Tally, lines, utc_ms
from stratalog.types import Note, Text

AGENT = "aider"
NAME = ".aider.chat.history.md"
_START = re.compile(r"# aider chat started at (\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)\s*")
_HEAD = re.compile(rb"\s*# aider chat started at \d{4}-")
_ASKS = re.compile(r"/(ask|code|architect|context)\s+\S")
_MODEL = re.compile(r"(?:Main model|Model): (\S+) with ")
_VERSION = re.compile(r"Aider v(\S+)")
_TOKENS = re.compile(r"Tokens: (?P<sent>[\d.,]+k?) sent(?P<cache>.*?), (?P<received>[\d.,]+k?) received")
_CACHE = re.compile(r"([\d.,]+k?) cache (write|hit)")


def _blocks(source: Source, tally: Tally) -> Iterator[Record]:
    """What stands together: a start, what was typed, a line of aider's, a reply."""
    kind, held, number, offset = "", list[str](), 0, 0
    for line, at, raw in lines(source):
        if b"\x00" in raw:
            tally.damage(f"{raw.count(0)} NUL bytes", line, at + raw.index(0))
        words = raw.replace(b"\x00", b"").decode("utf-8", "replace").rstrip("\r")
        if _START.fullmatch(words):
            now = "start"
        elif words.startswith("#### ") or words == "####":
            now = "user"
        elif words.startswith("> ") or words == ">":
            now = "aider"
        else:
            now = "assistant"
        # Aider writes its lines one by one, so each stays by itself and none changes when the file grows.
        if now != kind or now in ("start", "aider"):
            if "".join(held).strip():
                yield tally.record({"type": kind, "text": "\n".join(held).strip()}, number, offset)
            kind, held, number, offset = now, [], line, at
        held.append(words[5:].removesuffix("  ") if now == "user" else words[2:] if now == "aider" else words)
    if "".join(held).strip():
        yield tally.record({"type": kind, "text": "\n".join(held).strip()}, number, offset)


class _Chat:
    """Puts the blocks of one session."""

    def __init__(self, builder: Builder, tally: Tally, began: int | None) -> None:
        self._builder, self._tally, self._began = builder, tally, began
        self._model, self._response = "", ""
        self._place = 0

    def put(self, record: Record) -> None:
        kind, words = record.value["type"], record.value["text"]
        self._builder.at(record, "", self._began, self._place)
        self._place += 1
        if kind == "user" and words != "<blank>":
            command = words.startswith(("/", "!")) and not _ASKS.match(words)
            self._builder.user(words, by_program=command, meta={"kind": "command"} if command else None)
        elif kind == "assistant":
            self._response = self._builder.response(fresh=True)
            self._builder.output((Text(text=words),), model=self._model, response=self._response)
        elif kind == "aider":
            self._told(record, words)

    def _told(self, record: Record, words: str) -> None:
        tokens, model, version = _TOKENS.match(words), _MODEL.match(words), _VERSION.match(words)
        if tokens and self._response:
            cached = {what: _count(amount) for amount, what in _CACHE.findall(tokens["cache"])}
            used = usage_of(
                input=_count(tokens["sent"]),
                output=_count(tokens["received"]),
                cache_read=cached.get("hit"),
                cache_write=cached.get("write"),
            )
            if used is not None:
                self._builder.spent(self._response, used, self._model)
            self._tally.merge(record, "tokens")
        elif model:
            self._model = model[1]
            self._builder.meta.setdefault("model", self._model)
            self._tally.merge(record, "model")
        elif version:
            self._builder.meta["version"] = version[1]
            self._tally.merge(record, "version")
        else:
            self._builder.put(Note(kind="aider", text=words))


def _count(amount: str) -> int:
    """`2.1k` as 2,100; aider rounds from 1,000 on."""
    plain = amount.replace(",", "").rstrip(".")
    try:
        return round(float(plain.removesuffix("k")) * (1000 if plain.endswith("k") else 1))
    except ValueError:
        return 0


def _sessions(source: Source, tally: Tally) -> Iterator[ImportedSession | None]:
    used: set[str] = set()
    builder: Builder | None = None
    chat: _Chat | None = None
    for record in _blocks(source, tally):
        start = _START.fullmatch(text(record.value.get("text"))) if record.value["type"] == "start" else None
        if start or builder is None or chat is None:
            if builder is not None:
                yield builder.finish()
            began = utc_ms(start[1]) if start else None
            name = start[1].replace(" ", "T") if start else source.path.stem
            count = sum(other.partition("#")[0] == name for other in used)
            name = f"{name}#{count + 1}" if count else name
            used.add(name)
            builder = Builder(tally, source, AGENT, name, named_by_file=True)
            chat = _Chat(builder, tally, began)
        if start:
            tally.merge(record)
        else:
            chat.put(record)
    if builder is not None:
        yield builder.finish()


def _matches(head: bytes, path: Path) -> bool:
    return _HEAD.match(head) is not None


def _read(source: Source) -> Transcript:
    tally = Tally("aider", source)
    return tally.transcript(_sessions(source, tally))


AIDER = Importer("aider", _matches, _read)
