"""The values that everything else speaks of: entries of a log, their parts, and nothing that acts.

An entry is one line of a session's log. The union of entries is closed: a line whose `type` this version
does not know becomes `Unknown`, which keeps the line's bytes as they were. All values are frozen; a store
returns stamped copies rather than filling in what it was given.

Units: `ts` is milliseconds since the epoch in UTC, sizes are bytes, `seq` counts from 1 within a session.
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal, TypeAlias

import msgspec


class Blob(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A payload kept beside the log because it is too large for a line.

    `sha256` is its name and its checksum, `size` its length in bytes, `chars` its length in characters when
    it is text, `field` the entry's field that it stands for ("" inside a part).
    """

    sha256: str
    size: int
    chars: int = 0
    field: str = ""


class _Part(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True, tag_field="type"):
    pass


class Text(_Part, frozen=True, tag="text"):
    text: str
    blob: Blob | None = None


class Image(_Part, frozen=True, tag="image"):
    """An image given as bytes or as a URL. `data` is base64 in the log, or out of line when `blob` is set."""

    media_type: str = ""
    data: bytes = b""
    url: str = ""
    blob: Blob | None = None


class Audio(_Part, frozen=True, tag="audio"):
    media_type: str = ""
    data: bytes = b""
    url: str = ""
    blob: Blob | None = None


class File(_Part, frozen=True, tag="file"):
    media_type: str = ""
    name: str = ""
    data: bytes = b""
    url: str = ""
    blob: Blob | None = None


class Reasoning(_Part, frozen=True, tag="reasoning"):
    """What a model thought. `signature` and `redacted` are the provider's own, to be sent back unchanged."""

    text: str = ""
    signature: str = ""
    redacted: str = ""
    blob: Blob | None = None


class Data(_Part, frozen=True, tag="data"):
    """A part of a kind that has no class here: `kind` is its name at the provider, `value` its JSON."""

    kind: str
    value: Any = None
    blob: Blob | None = None


Part: TypeAlias = Text | Image | Audio | File | Reasoning | Data
Content: TypeAlias = str | tuple[Part, ...]


class Usage(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """Tokens as the provider reported them. `input` includes those read from and written to its cache."""

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    reasoning: int = 0


class Entry(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True, tag_field="type"):
    """What every entry has. A store stamps `seq` always, `id` and `ts` when they are empty.

    `id` is a ULID, unique in its session; `turn` is the id of the turn it belongs to ("" for none);
    `meta` is free JSON for whoever wrote the entry.
    """

    seq: int = 0
    id: str = ""
    ts: int = 0
    turn: str = ""
    meta: dict[str, Any] | None = None


class _Message(Entry, frozen=True, kw_only=True):
    content: Content = ""
    blob: Blob | None = None

    @property
    def text(self) -> str:
        """The message's words: its text parts joined by a blank line, other parts left out."""
        return text_of(self.content)


class User(_Message, frozen=True, kw_only=True, tag="user"):
    role: ClassVar[str] = "user"


class System(_Message, frozen=True, kw_only=True, tag="system"):
    role: ClassVar[str] = "system"


class Assistant(_Message, frozen=True, kw_only=True, tag="assistant"):
    """A model's reply. `response` groups the text and the tool calls that came in one response."""

    role: ClassVar[str] = "assistant"
    model: str = ""
    response: str = ""
    usage: Usage | None = None


class ToolCall(Entry, frozen=True, kw_only=True, tag="tool_call"):
    """A tool that the model asked for. `args` is JSON; a string when the model's own text was not JSON."""

    call_id: str
    name: str
    args: Any = None
    response: str = ""
    blob: Blob | None = None


class ToolResult(Entry, frozen=True, kw_only=True, tag="tool_result"):
    """What a tool answered. `synthetic` marks a result that nobody's tool gave (an interrupted call)."""

    call_id: str
    name: str = ""
    content: Content = ""
    error: bool = False
    synthetic: bool = False
    blob: Blob | None = None

    @property
    def text(self) -> str:
        return text_of(self.content)


class Compaction(Entry, frozen=True, kw_only=True, tag="compaction"):
    """What is covered is now seen as `summary`; the entries themselves stay.

    `first_kept` is the id of the entry from which on all are still seen ("": all after the last one covered,
    or after this one); `kept` are the ids of those before it that are seen too. `covers` names the first and
    last entry that the summary stands for. `working_memory` is the state at this point, for a log that begins
    here. `by` is the model that wrote it, or `extractive`.
    """

    summary: str
    first_kept: str = ""
    kept: tuple[str, ...] = ()
    covers: tuple[str, str] = ("", "")
    by: str = ""
    tokens_before: int = 0
    tokens_after: int = 0
    working_memory: dict[str, Any] | None = None
    blob: Blob | None = None


class WorkingMemory(Entry, frozen=True, kw_only=True, tag="working_memory"):
    """One change of the agent's own dictionary."""

    op: Literal["set", "delete", "clear"]
    key: str = ""
    value: Any = None
    blob: Blob | None = None


class Title(Entry, frozen=True, kw_only=True, tag="title"):
    """A name for the session. One given by a `user` is never replaced by any other."""

    title: str
    by: Literal["user", "auto", "model", "import"] = "user"


class Pin(Entry, frozen=True, kw_only=True, tag="pin"):
    pinned: bool


class TurnStart(Entry, frozen=True, kw_only=True, tag="turn_start"):
    """A holder took the session. The store stamps `fence`, higher than the last; older ones are refused."""

    fence: int = 0
    holder: str = ""


class TurnEnd(Entry, frozen=True, kw_only=True, tag="turn_end"):
    status: Literal["answered", "aborted", "interrupted", "timed_out"]
    detail: str = ""


class Note(Entry, frozen=True, kw_only=True, tag="note"):
    """Something worth keeping: `kind` says what (import, fork, restart, …). A model sees those of `fact`."""

    kind: str
    text: str = ""
    data: Any = None
    blob: Blob | None = None


class Unknown(Entry, frozen=True, kw_only=True, tag="?"):
    """An entry written by a later version: `kind` is its type, `raw` the line's JSON, byte for byte."""

    kind: str = ""
    raw: bytes = b""


Message: TypeAlias = User | Assistant | System
AnyEntry: TypeAlias = (
    User
    | Assistant
    | System
    | ToolCall
    | ToolResult
    | Compaction
    | WorkingMemory
    | Title
    | Pin
    | TurnStart
    | TurnEnd
    | Note
    | Unknown
)


def text_of(content: Content) -> str:
    """The words in `content`, in order; reasoning, images and other parts have none."""
    if isinstance(content, str):
        return content
    return "\n\n".join(part.text for part in content if isinstance(part, Text) and part.text)


def is_injected(entry: Entry) -> bool:
    """Whether a program put the entry in (`meta.injected`): neither a person nor a model said it."""
    return bool(entry.meta is not None and entry.meta.get("injected"))
