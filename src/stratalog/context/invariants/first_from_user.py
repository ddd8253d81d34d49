"""The first message is the user's.

Strict providers refuse a conversation that the assistant opens, as one does whose beginning is folded into a
summary. A message that is marked synthetic then stands in the user's place.
"""

from __future__ import annotations

from stratalog.context.invariants.contract import Entries, named
from stratalog.types import Assistant, ToolCall, ToolResult, User

OPENING = User(
    content="[The conversation before this point is summarised. It goes on here.]",
    meta={"synthetic": "first_from_user"},
)


class FirstFromUser:
    """See `contract.Invariant`. An empty list keeps the rule. A cut is safe before the user's messages."""

    name = "first_from_user"

    def violations(self, entries: Entries) -> list[str]:
        for entry in entries:
            if isinstance(entry, User):
                break
            if isinstance(entry, Assistant | ToolCall | ToolResult):
                return [f"the first message is not the user's but {named(entry)}"]
        return []

    def mended(self, entries: Entries) -> Entries:
        return (OPENING, *entries) if self.violations(entries) else entries

    def safe_cuts(self, entries: Entries) -> frozenset[int]:
        users = {place for place, entry in enumerate(entries) if isinstance(entry, User)}
        return frozenset({0, len(entries)} | users)
