"""What an invariant is: one rule that every list of entries given to a model keeps.

A rule tells what breaks it, mends what is broken, and says where a list may be cut without breaking it. It
is about the entries, before any provider's JSON: so the same rules serve every shape.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol, TypeAlias

from stratalog.types import Assistant, ToolCall, ToolResult, User

Seen: TypeAlias = User | Assistant | ToolCall | ToolResult
Entries: TypeAlias = tuple[Seen, ...]


class Invariant(Protocol):
    """All three are pure, and take time in proportion to the entries."""

    name: str

    def violations(self, entries: Entries) -> list[str]:
        """What breaks the rule, each once; empty when it holds. They name entries, not places."""
        ...

    def mended(self, entries: Entries) -> Entries:
        """The entries with the rule kept: themselves when it holds already. What is added is marked as
        synthetic; what is kept is kept unchanged, moved no further than the rule asks."""
        ...

    def safe_cuts(self, entries: Entries) -> frozenset[int]:
        """The places, 0 and `len(entries)` among them, before which one may cut: neither half then has a
        violation that the whole did not have."""
        ...


def named(entry: object) -> str:
    """The entry as a violation names it."""
    match entry:
        case ToolCall():
            return f"call {entry.call_id!r}"
        case ToolResult():
            return f"result of {entry.call_id!r}"
        case User() | Assistant():
            return f"{entry.role} message {entry.id or entry.seq}"
        case _:
            return type(entry).__name__


def outside(length: int, spans: Iterable[tuple[int, int]]) -> frozenset[int]:
    """The places 0 to `length` before which a cut parts none of the spans. A span is given by the places of
    its first and its last entry."""
    depth = [0] * (length + 2)
    for first, last in spans:
        depth[first + 1] += 1
        depth[last + 1] -= 1
    found, inside = [], 0
    for place in range(length + 1):
        inside += depth[place]
        if not inside:
            found.append(place)
    return frozenset(found)
