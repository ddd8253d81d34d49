"""What the tools take and what they give, and the JSON schemas of both.

What is taken has no field that is not named here: an unknown argument is an error. What is given and may go
on says so (`truncated`) and how (`cursor`).
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Annotated, Any, Literal, TypeAlias, TypeVar

import msgspec
from msgspec import Meta

from stratalog.engine.consulting import Known
from stratalog.errors import InvalidInput

T = TypeVar("T")

_Session: TypeAlias = Annotated[
    str, Meta(description="The key of the session in which you ask, agent:channel:chat. Else your own.")
]
_Key: TypeAlias = Annotated[
    str, Meta(min_length=1, max_length=1_000, description="A short name of what it is about: home_city.")
]
_Query: TypeAlias = Annotated[
    str, Meta(min_length=1, max_length=4_000, description="What to look for, in words of any language.")
]
_Cursor: TypeAlias = Annotated[
    str, Meta(max_length=1_000, description="The cursor of the page before, to go on with.")
]
_Few: TypeAlias = Annotated[int, Meta(ge=1, le=50, description="At most so many on this page.")]
_Many: TypeAlias = Annotated[int, Meta(ge=1, le=100, description="At most so many on this page.")]
_About: TypeAlias = Annotated[
    Literal["", "user", "agent", "session"],
    Meta(
        description="Whose it is: of the user, of your own work, or of this session alone. Else of the user,"
        " or of your own work where no user is known."
    ),
]
_Name: TypeAlias = Annotated[str, Meta(min_length=1, max_length=128, description="The name of the value.")]
_Moment: TypeAlias = Annotated[
    str, Meta(max_length=64, description="ISO 8601, as 2026-09-01 or 2026-09-01T10:30+02:00. Else UTC.")
]


class Takes(msgspec.Struct, forbid_unknown_fields=True, kw_only=True, frozen=True):
    """What a tool takes."""


class Nothing(Takes, frozen=True):
    pass


class Remember(Takes, frozen=True):
    key: _Key
    text: Annotated[
        str, Meta(min_length=1, max_length=16_000, description="One fact, in a sentence that stands alone.")
    ]
    about: _About = ""
    confidence: Annotated[float, Meta(ge=0, le=1, description="How sure it is.")] = 0.8
    idempotency: Annotated[
        str, Meta(max_length=1_000, description="The same again with this is done once.")
    ] = ""
    session: _Session = ""


class Recall(Takes, frozen=True):
    query: _Query
    limit: _Few = 10
    cursor: _Cursor = ""
    session: _Session = ""


class Forget(Takes, frozen=True):
    id: Annotated[str, Meta(max_length=100, description="The id of the record, as recall tells it.")] = ""
    key: Annotated[str, Meta(max_length=1_000, description="All under this key, instead of an id.")] = ""
    about: _About = ""
    reason: Annotated[str, Meta(max_length=1_000, description="Why, for the history.")] = ""
    session: _Session = ""


class ListSessions(Takes, frozen=True):
    agent: Annotated[str, Meta(description="Only this agent's.")] = ""
    channel: Annotated[str, Meta(description="Only this channel's.")] = ""
    limit: _Many = 20
    cursor: _Cursor = ""


class SearchSessions(Takes, frozen=True):
    query: _Query
    within: Annotated[str, Meta(description="Only what was said in the session of this key.")] = ""
    agent: Annotated[str, Meta(description="Only this agent's sessions.")] = ""
    channel: Annotated[str, Meta(description="Only this channel's sessions.")] = ""
    since: Annotated[_Moment, Meta(description="Only what was said from then on. ISO 8601, else UTC.")] = ""
    until: Annotated[_Moment, Meta(description="Only what was said before. ISO 8601, else UTC.")] = ""
    limit: _Few = 10
    cursor: _Cursor = ""


class ReadSession(Takes, frozen=True):
    session: Annotated[str, Meta(min_length=1, description="The session's key, as it was found.")]
    around: Annotated[
        int,
        Meta(ge=0, le=2**53, description="The number of an entry to read around. Else the session's end."),
    ] = 0
    limit: _Many = 20
    cursor: _Cursor = ""


class SetValue(Takes, frozen=True):
    key: _Name
    value: Annotated[Any, Meta(description="Any JSON value.")]
    session: _Session = ""


class NamedValue(Takes, frozen=True):
    key: _Name
    session: _Session = ""


class OfSession(Takes, frozen=True):
    session: _Session = ""


class ReadMemory(Takes, frozen=True):
    page: Annotated[
        Literal["", "user", "agent"],
        Meta(description="What is known of the user, or from your own earlier work."),
    ] = ""
    key: Annotated[str, Meta(max_length=1_000, description="What is under this key, instead of a page.")] = ""
    limit: _Many = 20
    cursor: _Cursor = ""
    session: _Session = ""


class WriteMemory(Takes, frozen=True):
    key: _Key
    text: Annotated[str, Meta(max_length=16_000, description="What shall stand there; empty: nothing.")]
    about: _About = ""
    session: _Session = ""


class Gives(msgspec.Struct, kw_only=True, frozen=True, omit_defaults=True):
    """What a tool gives."""


class Remembered(Gives, frozen=True):
    """`outcome` is stored, merged, superseded, conflict or refused; `id` that of the record that says it now;
    `page` why the page about its owner was left as it was."""

    outcome: str
    id: str = ""
    reason: str = ""
    page: str = ""


class Recalled(Gives, frozen=True):
    found: tuple[Known, ...]
    truncated: bool
    cursor: str = ""


class Forgotten(Gives, frozen=True):
    """How many records say nothing any more."""

    forgotten: int


class SessionOf(Gives, frozen=True):
    """`updated_at` is when somebody last said something, UTC."""

    session: str
    title: str
    messages: int
    updated_at: str
    pinned: bool
    uri: str


class SessionList(Gives, frozen=True):
    sessions: tuple[SessionOf, ...]
    truncated: bool
    cursor: str = ""


class Passage(Gives, frozen=True):
    """What was said, with the number of the entry that it is of: `read_session` reads around it."""

    session: str
    title: str
    entry: int
    role: str
    at: str
    text: str
    source: str


class Passages(Gives, frozen=True):
    hits: tuple[Passage, ...]
    truncated: bool
    cursor: str = ""


class EntryOf(Gives, frozen=True):
    """One entry. `withheld`: it may not be shown. `rest`: the cursor to its next part."""

    entry: int
    role: str
    at: str
    text: str
    withheld: bool = False
    rest: str = ""


class Transcript(Gives, frozen=True):
    """Entries in order, and the cursors to those before and after."""

    session: str
    title: str
    entries: tuple[EntryOf, ...]
    truncated: bool
    earlier: str = ""
    later: str = ""


class ValueSet(Gives, frozen=True):
    """`bytes` of JSON are in use, of `limit`."""

    session: str
    key: str
    bytes: int
    limit: int


class Value(msgspec.Struct, kw_only=True, frozen=True):
    session: str
    key: str
    value: Any


class Deleted(msgspec.Struct, kw_only=True, frozen=True):
    session: str
    key: str
    deleted: bool


class Keys(Gives, frozen=True):
    session: str
    keys: tuple[str, ...]


class MemoryRead(Gives, frozen=True):
    """A page's text, or the records under a key."""

    truncated: bool
    page: str = ""
    text: str | None = None
    key: str = ""
    records: tuple[Known, ...] = ()
    cursor: str = ""


class Written(Gives, frozen=True):
    """`outcome` is as that of remember, or forgotten; `records` how many were forgotten; `page` why the page
    about its owner was left as it was."""

    outcome: str
    reason: str = ""
    records: int = 0
    page: str = ""


def schema_of(kind: type[msgspec.Struct]) -> dict[str, Any]:
    """The JSON schema of a value, an object at its root as the protocol wants it."""
    made: dict[str, Any] = msgspec.json.schema(kind)
    below = dict(made.pop("$defs"))
    root = dict(below.pop(kind.__name__))
    return {**root, "$defs": below} if below else root


def scalar(value: Any) -> Any:
    """The JSON value with U+FFFD for what is no character by itself: half of a pair of surrogates."""
    text = json.dumps(value, ensure_ascii=False)
    whole = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return value if whole == text else json.loads(whole)


def taken(arguments: Any, kind: type[T]) -> T:
    """The arguments. Raises `InvalidInput`, which names what there is."""
    try:
        return msgspec.convert(scalar(arguments), kind)
    except msgspec.ValidationError as error:
        names = [each.name for each in msgspec.structs.fields(kind)]  # type: ignore[arg-type]  # T is a struct
        hint = f"it takes {', '.join(names)}" if names else "it takes nothing"
        raise InvalidInput(f"the arguments are wrong: {error}", hint=hint) from error


def moment(ts: int) -> str:
    """The moment, UTC; "" for an unknown one and for one past the year 9999."""
    try:
        return datetime.fromtimestamp(ts / 1000, UTC).isoformat(timespec="seconds") if ts > 0 else ""
    except (OverflowError, OSError, ValueError):
        return ""


def millis(text: str) -> int | None:
    """The moment in milliseconds, None for "". Raises `InvalidInput`."""
    if not text:
        return None
    try:
        told = datetime.fromisoformat(text)
    except ValueError as error:
        raise InvalidInput(
            "this is no moment", given=ascii(text)[:80], hint="such as 2026-09-01 or 2026-09-01T10:30Z"
        ) from error
    return int((told if told.tzinfo else told.replace(tzinfo=UTC)).timestamp() * 1000)
