"""Ids, names and arguments of tool calls as a provider takes them, whoever made them.

A log holds calls of any provider: ids that another refuses, one id in several turns, arguments that are no
JSON. What a provider would refuse is changed the same way in every request; all else is sent as it was.
"""

from __future__ import annotations

import hashlib
import re
from typing import Any, Final

import msgspec

UNPARSED: Final = "_unparsed"
"""The one key of the object that stands for arguments which are no JSON object."""

_UNSAFE = re.compile(r"[^a-zA-Z0-9_-]")


class CallIds:
    """Gives the calls of one request their ids: those of the log, as far as the provider takes them.

    It takes at most `longest` characters; `safe` says that it takes only letters, digits, `_` and `-`, and
    `unique` that it takes an id once in a request, not once in a round.
    """

    def __init__(self, longest: int, *, safe: bool = False, unique: bool = False) -> None:
        self._longest = longest
        self._safe = safe
        self._unique = unique
        self._given: set[str] = set()
        self._next: dict[str, int] = {}
        self._current: dict[str, str] = {}

    def of_call(self, call_id: str) -> str:
        """The id to send for the next call, which has this one in the log."""
        base = (_UNSAFE.sub("_", call_id) if self._safe else call_id) or "call"
        if len(base) > self._longest or (call_id and base != call_id):
            mark = hashlib.sha256(call_id.encode("utf-8", "surrogatepass")).hexdigest()[:8]
            base = f"{base[: self._longest - 9]}_{mark}"
        found = base
        while self._unique and found in self._given:
            self._next[base] = self._next.get(base, 1) + 1
            ending = f"_{self._next[base]}"
            found = base[: self._longest - len(ending)] + ending
        self._given.add(found)
        self._current[call_id] = found
        return found

    def of_result(self, call_id: str) -> str:
        """The id that was given to the last call with this one."""
        return self._current.get(call_id, call_id)


def tool_name(name: str, longest: int) -> str:
    """The name of a called tool in the characters that providers take."""
    return _UNSAFE.sub("_", name)[:longest] or "tool"


def as_object(args: Any) -> dict[str, Any]:
    """Arguments as an object; what is none is put under `UNPARSED`."""
    if isinstance(args, dict):
        return args
    if args is None or args == "":
        return {}
    if isinstance(args, str):
        try:
            return msgspec.json.decode(args, type=dict[str, Any])
        except msgspec.MsgspecError:
            pass
    return {UNPARSED: args}


def from_object(value: Any) -> Any:
    """The arguments that `as_object` was given."""
    return value[UNPARSED] if isinstance(value, dict) and list(value) == [UNPARSED] else value


def as_text(args: Any) -> str:
    """Arguments as a model wrote them: a string as it is, anything else as JSON."""
    if isinstance(args, str) and args:
        return args
    return msgspec.json.encode({} if args is None or args == "" else args).decode()


def from_text(written: Any) -> Any:
    """The arguments that a model wrote: JSON, or the text itself when it is none. Nothing is no arguments."""
    if not isinstance(written, str):
        return written
    if not written.strip():
        return {}
    try:
        value = msgspec.json.decode(written)
    except msgspec.DecodeError:
        return written
    return written if isinstance(value, str) else value
