"""What an agent keeps in mind: its own dictionary, and the facts that were pinned for it.

    working = WorkingDict(append, lambda: session.meta.working_memory, limit=16_384)
    working.set("task", {"step": 3})

Both are folds of the log: each change is one entry, and nothing is kept here. Values are JSON, so that what
is read back is what was given, in whichever process. Limits are checked against what is in the log at the
time of the call: two who write at the same moment may together exceed them; then only taking away goes on.

A model tends the dictionary by `TOOLS`, whose calls `answer` performs. Such changes are marked, for a model
need not be told of what it did itself.
"""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, TypeAlias

import msgspec

from stratalog.context.memory_words import BY_MODEL
from stratalog.context.shapes.contract import Tool
from stratalog.errors import InvalidInput, NotFound, WorkingMemoryFull
from stratalog.sessions.meta import FACT
from stratalog.types import AnyEntry, Note, WorkingMemory

# Appends entries, all or none; what it returns does not matter here.
Append: TypeAlias = Callable[[list[AnyEntry]], object]

LONGEST_KEY: Final = 128
LONGEST_FACT: Final = 500
MOST_FACTS: Final = 4_000  # characters of all facts together
_DEEPEST = 64
_SMALLEST, _LARGEST = -(2**63), 2**64 - 1
_TOLD = 3  # keys that an error names
_LISTED = 50
_ONE_LINE = ("Cc", "Cs", "Zl", "Zp")
_encode = msgspec.json.Encoder().encode
_sorted = msgspec.json.Encoder(order="sorted").encode


class WorkingDict:
    """The agent's dictionary of one session, of at most `limit` bytes of JSON.

    `append` writes entries, `memory` gives the dictionary as the log has it now. Its entries carry `meta` and
    belong to `turn`. All that write raise what `append` raises.
    """

    def __init__(
        self,
        append: Append,
        memory: Callable[[], Mapping[str, Any]],
        limit: int,
        *,
        meta: Mapping[str, Any] | None = None,
        turn: str = "",
    ) -> None:
        self.limit = limit
        self._append = append
        self._memory = memory
        self._meta = meta
        self._turn = turn

    def set(self, key: str, value: Any) -> None:
        """Keeps a JSON value under a key of 1 to 128 characters; one that is there already is not written.

        Raises `InvalidInput` for what is no JSON, saying where, and `WorkingMemoryFull`; nothing is written.
        """
        _check_key(key)
        _check_value(value, "value", 0)
        value = _copy(value)
        memory = self._memory()
        if key in memory and _sorted(memory[key]) == _sorted(value):
            return
        # A key that is set again comes last, as in the fold of the log.
        after = {name: kept for name, kept in memory.items() if name != key} | {key: value}
        _check_size(after, self.limit, key)
        self._write(WorkingMemory(op="set", key=key, value=value))

    def get(self, key: str) -> Any:
        """The value, the caller's own copy. Raises `NotFound`, which names the keys that there are."""
        memory = self._memory()
        if key not in memory:
            raise _no_such(key, memory)
        return _copy(memory[key])

    def delete(self, key: str) -> None:
        """Forgets a key. Raises `NotFound`."""
        memory = self._memory()
        if key not in memory:
            raise _no_such(key, memory)
        self._write(WorkingMemory(op="delete", key=key))

    def clear(self) -> None:
        """Forgets every key."""
        if self._memory():
            self._write(WorkingMemory(op="clear"))

    def keys(self) -> list[str]:
        """The keys, that which was set last at the end."""
        return list(self._memory())

    def all(self) -> dict[str, Any]:
        """The whole dictionary, the caller's own copy."""
        return {key: _copy(value) for key, value in self._memory().items()}

    @property
    def size(self) -> int:
        """Bytes of JSON now."""
        return len(_encode(self._memory()))

    def by_model(self) -> WorkingDict:
        """The same dictionary for a model's own calls: its entries say that a model made them."""
        meta = {**(self._meta or {}), **BY_MODEL}
        return WorkingDict(self._append, self._memory, self.limit, meta=meta, turn=self._turn)

    def __len__(self) -> int:
        return len(self._memory())

    def __contains__(self, key: object) -> bool:
        return key in self._memory()

    def _write(self, entry: WorkingMemory) -> None:
        meta = dict(self._meta) if self._meta else None
        self._append([msgspec.structs.replace(entry, meta=meta, turn=self._turn)])


class PinnedFacts:
    """What is pinned in one session: lines that a model always sees, 4,000 characters of them at most."""

    def __init__(self, append: Append, facts: Callable[[], tuple[str, ...]]) -> None:
        self._append = append
        self._facts = facts

    def all(self) -> tuple[str, ...]:
        """The facts, in the order in which they were pinned."""
        return self._facts()

    def pin(self, text: str) -> None:
        """Pins one line of at most 500 characters; one that is pinned already is not written again.

        Raises `InvalidInput`, `WorkingMemoryFull` and what an append raises; nothing is written then.
        """
        fact = _checked_fact(text)
        facts = self._facts()
        if fact in facts:
            return
        size = sum(map(len, facts)) + len(fact)
        if size > MOST_FACTS:
            raise WorkingMemoryFull(
                f"the pinned facts would have {size:,} characters; {MOST_FACTS:,} are allowed",
                size=size,
                limit=MOST_FACTS,
                largest=[f"{len(each)} characters: {each[:60]}" for each in _longest(facts)],
                hint="unpin what is no longer needed",
            )
        self._append([Note(kind=FACT, text=fact, data={"pinned": True})])

    def unpin(self, text: str) -> None:
        """Takes a fact off. Raises `NotFound`, which names the facts that there are."""
        facts = self._facts()
        fact = text if text in facts else text.strip()
        if fact not in facts:
            raise NotFound(
                "no such fact is pinned", fact=ascii(text)[:80], hint=f"pinned are: {_quoted(facts)}"
            )
        self._append([Note(kind=FACT, text=fact, data={"pinned": False})])


# --- a model's tools ---


def _tool(name: str, description: str, **properties: dict[str, Any]) -> Tool:
    schema = {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }
    return Tool(f"working_memory_{name}", description, schema)


_KEY: dict[str, Any] = {"type": "string", "minLength": 1, "maxLength": LONGEST_KEY}

TOOLS: Final[tuple[Tool, ...]] = (
    _tool(
        "set",
        "Keep a value in your working memory, which you see in every later turn: the task, its state, "
        "decisions, what is open. Replaces the value that the key had.",
        key={**_KEY, "description": "A short name for it."},
        value={"description": "Any JSON value."},
    ),
    _tool("get", "Read one value from your working memory.", key={**_KEY, "description": "Its name."}),
    _tool(
        "delete",
        "Remove a value that is no longer needed from your working memory.",
        key={**_KEY, "description": "Its name."},
    ),
    _tool("keys", "List the names of all values in your working memory."),
)
_TAKES = {tool.name: tool.parameters["required"] for tool in TOOLS}


def answer(working: WorkingDict, name: str, args: Any) -> str:
    """Performs a model's call of one of `TOOLS`; the JSON to answer with.

    Raises `InvalidInput` for a wrong call, in words that a model can act on, `NotFound`, `WorkingMemoryFull`
    and what an append raises.
    """
    takes = _TAKES.get(name)
    if takes is None:
        raise InvalidInput("there is no such tool", tool=ascii(name)[:80], hint=f"one of {', '.join(_TAKES)}")
    given = _checked_args(name, args, takes)
    mine = working.by_model()
    match name.removeprefix("working_memory_"):
        case "set":
            mine.set(given["key"], given["value"])
            result: dict[str, Any] = {"key": given["key"], "bytes": mine.size, "limit": mine.limit}
        case "get":
            result = {"key": given["key"], "value": mine.get(given["key"])}
        case "delete":
            mine.delete(given["key"])
            result = {"key": given["key"], "deleted": True}
        case _:
            result = {"keys": mine.keys()}
    return _encode(result).decode()


def _checked_args(name: str, args: Any, takes: list[str]) -> dict[str, Any]:
    hint = f"{name} takes an object with {' and '.join(takes)}" if takes else f"{name} takes an empty object"
    if args is None and not takes:
        return {}
    if not isinstance(args, dict):
        raise InvalidInput("the arguments are not a JSON object", tool=name, hint=hint)
    missing = [each for each in takes if each not in args]
    if missing:
        raise InvalidInput(f"{' and '.join(missing)} must be given", tool=name, hint=hint)
    unknown = [ascii(each)[:80] for each in args if each not in takes]
    if unknown:
        raise InvalidInput(f"there is no argument {', '.join(unknown)}", tool=name, hint=hint)
    if "key" in takes:
        _check_key(args["key"])
    return args


# --- what may be kept ---


def _check_key(key: object) -> None:
    if not isinstance(key, str):
        raise InvalidInput(f"a key is text, not {type(key).__name__}", hint="give it as a string")
    if not 1 <= len(key) <= LONGEST_KEY:
        raise InvalidInput(
            f"a key has 1 to {LONGEST_KEY} characters, this one {len(key)}", key=ascii(key[:80])
        )
    if not _is_one_line(key):
        raise InvalidInput("a key cannot have control characters or line breaks", key=ascii(key[:80]))


def _checked_fact(text: object) -> str:
    if not isinstance(text, str):
        raise InvalidInput(f"a fact is text, not {type(text).__name__}", hint="give it as a string")
    fact = text.strip()
    if not 1 <= len(fact) <= LONGEST_FACT:
        raise InvalidInput(
            f"a fact has 1 to {LONGEST_FACT} characters, this one {len(fact):,}",
            fact=ascii(fact[:80]),
            hint="pin a shorter one, or several",
        )
    if not _is_one_line(fact):
        raise InvalidInput(
            "a fact is one line without control characters", fact=ascii(fact[:80]), hint="pin each line alone"
        )
    return fact


def _is_one_line(text: str) -> bool:
    return not any(unicodedata.category(char) in _ONE_LINE for char in text)


def _check_value(value: Any, place: str, depth: int) -> None:
    """Raises `InvalidInput` for what would not be read back as it is; `place` is where it stands."""
    if depth > _DEEPEST:
        raise InvalidInput(f"the value is nested deeper than {_DEEPEST} levels", at=place[:120])
    match value:
        case None | bool():
            pass
        case str():
            if any(unicodedata.category(char) == "Cs" for char in value):
                raise InvalidInput("text with a lone surrogate is no JSON", at=place[:120])
        case int():
            if not _SMALLEST <= value <= _LARGEST:
                raise InvalidInput("an integer must fit 64 bits", at=place[:120], hint="give it as text")
        case float():
            if not math.isfinite(value):
                raise InvalidInput(f"{value} is no JSON", at=place[:120], hint="give null, or text")
        case list() | tuple():
            for number, each in enumerate(value):
                _check_value(each, f"{place}[{number}]", depth + 1)
        case dict():
            for name, each in value.items():
                if not isinstance(name, str):
                    what = f"a key of an object must be text, not {type(name).__name__}"
                    raise InvalidInput(what, at=place[:120])
                _check_value(name, f"{place}[{name[:40]!a}]", depth + 1)
                _check_value(each, f"{place}[{name[:40]!r}]", depth + 1)
        case _:
            raise InvalidInput(
                f"{type(value).__name__} is no JSON",
                at=place[:120],
                hint="null, true, false, numbers, text, lists and objects are",
            )


def _check_size(after: Mapping[str, Any], limit: int, key: str) -> None:
    size = len(_encode(after))
    if size > limit:
        largest = sorted(_sizes(after), key=lambda each: (-each[1], each[0]))[:_TOLD]
        raise WorkingMemoryFull(
            f"working memory would have {size:,} bytes of JSON; {limit:,} are allowed",
            key=key,
            size=size,
            limit=limit,
            largest=[f"{name}: {bytes_} bytes" for name, bytes_ in largest],
            hint="delete what is no longer needed, or keep less under a key",
        )


def _sizes(memory: Mapping[str, Any]) -> Iterator[tuple[str, int]]:
    return ((key, len(_encode(value))) for key, value in memory.items())


def _copy(value: Any) -> Any:
    """The same JSON value, sharing nothing that could be changed."""
    return msgspec.json.decode(_encode(value))


def _longest(facts: tuple[str, ...]) -> list[str]:
    return sorted(facts, key=len, reverse=True)[:_TOLD]


def _no_such(key: object, memory: Mapping[str, Any]) -> NotFound:
    return NotFound("working memory has no such key", key=ascii(key)[:80], hint=f"it has: {_quoted(memory)}")


def _quoted(names: Mapping[str, Any] | tuple[str, ...]) -> str:
    listed = list(names)
    more = f" and {len(listed) - _LISTED} more" if len(listed) > _LISTED else ""
    return ", ".join(f'"{name}"' for name in listed[:_LISTED]) + more if listed else "nothing"
