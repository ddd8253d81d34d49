"""From records to entries: turns, ids, times, usage and titles, the same way for every format.

An importer says `at` for each record and then `put`s what is in it; the builder stamps the rest. An id is
derived from the source's session, the record's own id (or its place and content) and a number within the
record, and from its time only when the record itself states one, so neither a copied file nor a grown one
changes the ids of what it already had.

A turn opens with a user's own words and its entries carry its id; a tool's result belongs to the turn that
called the tool, however late it comes. What can be known only at the end is done in `finish`: a turn's end
is answered or interrupted, tokens are counted once for a response, entries before the first stated time
take that time.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Iterable
from typing import Any, TypeVar

import msgspec

from stratalog.ids import derived_ulid, ulid_ts
from stratalog.interop.content import content_of, injected
from stratalog.interop.contract import ImportedSession, Source
from stratalog.interop.records import Record, Tally
from stratalog.types import (
    AnyEntry,
    Assistant,
    Content,
    Data,
    Note,
    Part,
    Reasoning,
    Title,
    ToolCall,
    ToolResult,
    TurnEnd,
    Usage,
    User,
)

CHANNEL = "import"
_MAX_CHAT = 600
_MAX_TITLE = 200
_SPACE = re.compile(r"\s+")
_E = TypeVar("_E", bound=AnyEntry)


class Builder:
    """Makes one session.

    `session` is the source's own name for the conversation: ids derive from it, and `chat` (by default
    `chat_id(session)`) is its name here. Branches of one conversation share the first and differ in the
    second. `named_by_file` says that the source gave no name and `session` is the file's.
    """

    def __init__(
        self,
        tally: Tally,
        source: Source,
        agent: str,
        session: str,
        chat: str = "",
        *,
        named_by_file: bool = False,
    ) -> None:
        self.chat = chat or chat_id(session)
        self.meta: dict[str, Any] = {}
        if self.chat != session and not chat:
            self.meta["source_id"] = session
            tally.note(f"the id {session!a} cannot stand in a key; its chat is {self.chat}")
        self._tally = tally
        self._agent = agent
        self._session = session
        self._named_by_file = named_by_file
        self._mtime = source.mtime
        self._entries: list[AnyEntry] = []
        self._record: Record | None = None
        self._key = ""
        self._stated: int | None = None
        self._sub = 0
        self._source: dict[str, Any] = {}
        self._facts: dict[str, Any] = {}
        self._turn = ""
        self._group = ""
        self._calls: dict[str, ToolCall] = {}
        self._usage: dict[str, tuple[Usage, str]] = {}
        self._stopped: dict[str, str] = {}
        self._titles = {False: "", True: ""}

    @property
    def last_id(self) -> str:
        """The id of the newest entry, "" before the first."""
        return self._entries[-1].id if self._entries else ""

    @property
    def first_id(self) -> str:
        return self._entries[0].id if self._entries else ""

    def at(
        self, record: Record, key: str = "", ts: int | None = None, place: int | None = None, **facts: Any
    ) -> None:
        """What is put from here on comes from `record`.

        `key` is the record's own id, `ts` the time it states, `place` its number where the one in the file
        may change. `facts` (working directory, branch …) go into
        the meta of the session the first time and of an entry when they have changed since.
        """
        self._record, self._key, self._stated, self._sub = record, key or record.key(place), ts, 0
        known = {name: value for name, value in facts.items() if value not in (None, "")}
        changed = {name: value for name, value in known.items() if self._facts.get(name, value) != value}
        for name, value in known.items():
            self.meta.setdefault(name, value)
        self._facts.update(known)
        # A key made of a record's place names nothing in the source.
        self._source = ({"source": key} if key and not key.startswith("#") else {}) | changed

    def put(self, entry: AnyEntry, *, opens: bool = False) -> str:
        """Appends `entry` with its id, time, turn and source; returns its id. `opens` begins a turn."""
        made_id = self._id(str(self._sub))
        self._sub += 1
        if opens:
            self._turn = made_id
        made = self._stamp(entry, made_id, self._turn)
        if isinstance(made, ToolCall):
            self._calls[made.call_id] = made
        elif isinstance(made, ToolResult) and made.call_id in self._calls:
            call = self._calls[made.call_id]
            made = msgspec.structs.replace(made, name=made.name or call.name, turn=call.turn)
        if not isinstance(made, Assistant | ToolCall | Note | Title):
            self._group = ""
        self._entries.append(made)
        if self._record is not None:
            self._tally.use(self._record)
        return made_id

    def user(self, content: Content, *, by_program: bool = False, meta: dict[str, Any] | None = None) -> None:
        """Puts what stands in the user's place: a prompt opens a turn, what a program wrote does not."""
        program = by_program or injected(content)
        marks = (meta or {}) | ({"injected": True} if program else {})
        self.put(User(content=content, meta=marks or None), opens=not program)

    def output(
        self,
        pieces: Iterable[Part | ToolCall],
        *,
        model: str = "",
        response: str = "",
        usage: Usage | None = None,
        meta: dict[str, Any] | None = None,
    ) -> None:
        """Puts what a model gave, in its order: runs of parts become messages, calls stay calls.

        Without a `response` of its own, all output up to the next input is one response.
        """
        response = response or self.response()
        run: list[Part] = []
        for piece in (*pieces, None):
            if piece is not None and not isinstance(piece, ToolCall):
                run.append(piece)
                continue
            if run:
                said = Assistant(content=content_of(run), model=model, response=response, meta=meta)
                self.put(said)
                run = []
            if piece is not None:
                self.put(msgspec.structs.replace(piece, response=response))
        if usage is not None:
            self.spent(response, usage, model)

    def response(self, *, fresh: bool = False) -> str:
        """The id of the response that is being given, a new one after any input or when `fresh`."""
        if fresh or not self._group:
            self._group = self._id("response")
        return self._group

    def spent(self, response: str, usage: Usage, model: str = "") -> None:
        """Tokens of a response; the newest word counts, since streams repeat it as it grows."""
        self._usage[response] = (usage, model)

    def interrupt(self, detail: str) -> None:
        """The turn at hand was stopped."""
        if self._turn:
            self._stopped[self._turn] = detail

    def branches(self, parent: str, after: str) -> None:
        """Says that the session leaves the chat `parent` after the entry `after` ("" where not known).

        It stands in the session's meta and not in an entry, since a branch that is taken up again becomes
        the main line and must not lose an entry by it.
        """
        self.meta |= {"parent": parent} | ({"after": after} if after else {})

    def title(self, text: str, *, by_person: bool = False) -> None:
        """Puts a title from the source; one that a person gave stands against all others."""
        line = _one_line(text)
        if not line:
            return
        self._titles[by_person] = line
        self.put(Title(title=line, by="import", meta={"full": text} if line.endswith("…") else None))

    def finish(self) -> ImportedSession | None:
        """The session, or None when nothing was put."""
        if not self._entries:
            return None
        entries = self._with_usage(self._dated(self._entries))
        entries = self._with_ends(entries)
        called = {entry.call_id for entry in entries if isinstance(entry, ToolCall)}
        results = [entry for entry in entries if isinstance(entry, ToolResult)]
        orphans = sum(result.call_id not in called for result in results)
        open_calls = len(called - {result.call_id for result in results})
        if orphans:
            self._tally.note(f"{self.chat}: {orphans} tool results answer no call in this session")
        if open_calls:
            self._tally.note(f"{self.chat}: calls without a result: {open_calls}")
        return ImportedSession(
            agent=self._agent,
            channel=CHANNEL,
            chat=self.chat,
            entries=tuple(entries),
            title=self._titles[True] or self._titles[False],
            meta=self.meta,
            named_by_file=self._named_by_file,
        )

    def _id(self, *sub: str) -> str:
        return derived_ulid(self._stated or 0, self._tally.format, self._session, self._key, *sub)

    def _stamp(self, entry: _E, made_id: str, turn: str) -> _E:
        meta = self._source | (entry.meta or {})
        return msgspec.structs.replace(
            entry, id=made_id, ts=entry.ts or self._stated or 0, turn=turn, meta=meta or None
        )

    def _dated(self, entries: list[AnyEntry]) -> list[AnyEntry]:
        """Entries without a time take the one before; those at the front the first there is."""
        last = next((entry.ts for entry in entries if entry.ts), self._mtime)
        dated: list[AnyEntry] = []
        for entry in entries:
            last = entry.ts or last
            dated.append(entry if entry.ts else msgspec.structs.replace(entry, ts=last))
        return dated

    def _with_usage(self, entries: list[AnyEntry]) -> list[AnyEntry]:
        """Each response's tokens on its first entry, or on an empty message before it if that is a call.

        The first entry decides, not the first message: a response that goes on in a later part of a growing
        file must not lose an entry that an earlier import made.
        """
        waiting = dict(self._usage)
        done: list[AnyEntry] = []
        for entry in entries:
            spent = waiting.pop(entry.response, None) if isinstance(entry, Assistant | ToolCall) else None
            if spent is None:
                done.append(entry)
            elif isinstance(entry, Assistant):
                done.append(msgspec.structs.replace(entry, usage=spent[0]))
            elif isinstance(entry, ToolCall):
                made_id = derived_ulid(ulid_ts(entry.id), self._session, entry.id, "usage")
                done.append(
                    Assistant(
                        id=made_id,
                        ts=entry.ts,
                        turn=entry.turn,
                        model=spent[1],
                        response=entry.response,
                        usage=spent[0],
                    )
                )
                done.append(entry)
        if waiting:
            self._tally.note(f"{self.chat}: tokens of {len(waiting)} responses that have no entry")
        return done

    def _with_ends(self, entries: list[AnyEntry]) -> list[AnyEntry]:
        turns: dict[str, _Turn] = {}
        for position, entry in enumerate(entries):
            if entry.turn:
                turns.setdefault(entry.turn, _Turn()).take(position, entry)
        ends = {turn.last: (turn_id, turn) for turn_id, turn in turns.items()}
        done: list[AnyEntry] = []
        for position, entry in enumerate(entries):
            done.append(entry)
            if position in ends:
                turn_id, turn = ends[position]
                done.append(turn.end(turn_id, entry.ts, self._stopped.get(turn_id, "")))
        return done


class _Turn:
    """What was seen of one turn."""

    def __init__(self) -> None:
        self.last = 0
        self._open: set[str] = set()
        self._replied = False

    def take(self, position: int, entry: AnyEntry) -> None:
        self.last = position
        if isinstance(entry, ToolCall):
            self._open.add(entry.call_id)
        elif isinstance(entry, ToolResult):
            self._open.discard(entry.call_id)
            self._replied = False
        elif isinstance(entry, Assistant) and _says(entry.content):
            self._replied = True

    def end(self, turn_id: str, ts: int, stopped: str) -> TurnEnd:
        detail = stopped
        if not stopped and self._open:
            detail = f"{len(self._open)} tool calls without a result"
        elif not stopped and not self._replied:
            detail = "no reply"
        return TurnEnd(
            id=derived_ulid(ulid_ts(turn_id), "turn_end", turn_id),
            ts=ts,
            turn=turn_id,
            status="interrupted" if detail else "answered",
            detail=detail,
        )


def chat_id(text: str) -> str:
    """A source's id as the chat of a key, reversible by `source_id`.

    Letters, digits and most signs stand for themselves. `/`, `\\`, `%`, `=`, control characters and lone
    surrogates become `=` and two hexadecimal digits for each byte of their UTF-8 form, and so does every
    letter outside ASCII in an id that is not NFC, and `.` and `..` whole. An id of more than 600 characters
    is cut and ends in `~~` and its SHA-256; only this is not reversible.
    """
    every = text in (".", "..")
    wide = unicodedata.normalize("NFC", text) != text
    made = "".join(
        "".join(f"={byte:02x}" for byte in char.encode("utf-8", "surrogatepass"))
        if every
        or char in "/\\%="
        or unicodedata.category(char) in ("Cc", "Cs")
        or (wide and not char.isascii())
        else char
        for char in text
    )
    if len(made) > _MAX_CHAT:
        digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]
        made = f"{made[:_MAX_CHAT].rstrip('=')}~~{digest}"
    return made or "=empty"


def source_id(chat: str) -> str:
    """The source's id that `chat_id` made `chat` from."""
    if chat == "=empty":
        return ""
    raw = re.sub(rb"=([0-9a-f]{2})", lambda found: bytes.fromhex(found.group(1).decode()), chat.encode())
    return raw.decode("utf-8", "surrogatepass")


def usage_of(
    *, input: Any = 0, output: Any = 0, cache_read: Any = 0, cache_write: Any = 0, reasoning: Any = 0
) -> Usage | None:
    """Tokens as given, anything but a positive number being 0; None when there are none at all."""
    found = [count(value) for value in (input, output, cache_read, cache_write, reasoning)]
    if not any(found):
        return None
    return Usage(
        input=found[0], output=found[1], cache_read=found[2], cache_write=found[3], reasoning=found[4]
    )


def count(value: Any) -> int:
    """`value` when it is a positive number that a log can hold, else 0."""
    if isinstance(value, bool) or not isinstance(value, int):
        return 0
    return value if 0 < value < 2**63 else 0


def text(value: Any) -> str:
    """`value` when it is text, else ""."""
    return value if isinstance(value, str) else ""


def table(value: Any) -> dict[str, Any]:
    """`value` when it is an object, else an empty one."""
    return value if isinstance(value, dict) else {}


def items(value: Any) -> list[Any]:
    """`value` when it is a list, else an empty one."""
    return value if isinstance(value, list) else []


def _says(content: Content) -> bool:
    if isinstance(content, str):
        return bool(content.strip())
    return any(not isinstance(part, Reasoning | Data) for part in content)


def _one_line(title: str) -> str:
    plain = "".join(char if unicodedata.category(char) not in ("Cc", "Cf") else " " for char in title)
    line = _SPACE.sub(" ", plain).strip()
    return line if len(line) <= _MAX_TITLE else line[: _MAX_TITLE - 1].rstrip() + "…"
