"""Which entries a model gave in one response: what its entries say, or how they stand to one another.

`response` is unique within a turn at least. Where entries do not say theirs, only neighbours can be told to
be of one response.
"""

from __future__ import annotations

from typing import TypeAlias

from stratalog.types import Assistant, Reasoning, ToolCall, text_of

Response: TypeAlias = tuple[str, str]


def response_of(entry: object) -> Response | None:
    """The turn and the response that the entry says it is of; None when it says none."""
    if isinstance(entry, Assistant | ToolCall) and entry.response:
        return entry.turn, entry.response
    return None


def one_response(earlier: ToolCall, later: ToolCall) -> bool:
    """Whether two calls with nothing between them came in one response: by what they say; if they say
    nothing, they did when they are of one turn."""
    return (earlier.turn, earlier.response) == (later.turn, later.response)


def thinks(entry: object) -> bool:
    """Whether the entry holds reasoning."""
    return (
        isinstance(entry, Assistant)
        and not isinstance(entry.content, str)
        and any(isinstance(part, Reasoning) for part in entry.content)
    )


def joined(earlier: object, later: object) -> bool:
    """Whether two neighbours are one message of the assistant to a provider: what is said before calls goes
    with them, and so do the parts of one response. Reasoning alone that says no response is of what comes
    next, for a response is more than its reasoning."""
    if not isinstance(earlier, Assistant | ToolCall):
        return False
    if isinstance(later, ToolCall):
        return isinstance(earlier, Assistant) or one_response(earlier, later)
    if not isinstance(later, Assistant) or not isinstance(earlier, Assistant):
        return False
    if earlier.response or later.response:
        return (earlier.turn, earlier.response) == (later.turn, later.response)
    return thinks(earlier) and not text_of(earlier.content) and earlier.turn == later.turn
