"""One system block: the system's words and the summary stand beside the entries, never among them.

Providers take one system prompt, and strict ones refuse a second, or any that is not first. So a list of
entries has none; `Prompt.system` and `Prompt.summary` carry them, and a shape makes one block of both.
"""

from __future__ import annotations

from stratalog.context.invariants.contract import Entries, named
from stratalog.types import Assistant, ToolCall, ToolResult, User


class OneSystem:
    """See `contract.Invariant`. Mending leaves out what is no part of a conversation."""

    name = "one_system"

    def violations(self, entries: Entries) -> list[str]:
        return [
            f"{named(entry)} stands among the entries that a model is sent"
            for entry in entries
            if not _conversation(entry)
        ]

    def mended(self, entries: Entries) -> Entries:
        if all(map(_conversation, entries)):
            return entries
        return tuple(entry for entry in entries if _conversation(entry))

    def safe_cuts(self, entries: Entries) -> frozenset[int]:
        return frozenset(range(len(entries) + 1))


def _conversation(entry: object) -> bool:
    return isinstance(entry, User | Assistant | ToolCall | ToolResult)
