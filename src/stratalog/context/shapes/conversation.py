"""What all shapes make of a prompt before any provider's JSON: one system block, and the conversation as the
messages that providers tell apart.

A message once begun is not added to by entries that come after a safe cut: so a prompt that goes on from
another begins with the same bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from stratalog.context.invariants import OPENING, Entries, Seen, mend
from stratalog.context.invariants.responses import joined
from stratalog.context.shapes.contract import Prompt
from stratalog.types import Assistant, Content, Part, Text, ToolCall, ToolResult, User

NO_WORDS: Final = "[empty message]"
"""Stands for a user's message in which nothing can be sent, for providers refuse an empty one."""


class Reply(msgspec.Struct, frozen=True):
    """One message of the assistant: what is said, then the calls."""

    said: tuple[Assistant, ...]
    calls: tuple[ToolCall, ...]


class Results(msgspec.Struct, frozen=True):
    """The results of the calls of the message before."""

    results: tuple[ToolResult, ...]


def system_block(prompt: Prompt) -> tuple[list[str], str]:
    """The system's words that are not blank, and the summary as it stands after them; "" for none."""
    summary = summary_words(prompt.summary) if prompt.summary.strip() else ""
    return [words for words in prompt.system if words.strip()], summary


def summary_words(summary: str) -> str:
    return f"Summary of the conversation so far:\n{summary}"


def conversation(prompt: Prompt) -> Entries:
    """The entries, mended by the rules that every provider has. Where there are none, or the assistant would
    open, a marked message stands in the user's place."""
    return mend(prompt.entries) or (OPENING,)


def messages(entries: Iterable[Seen]) -> Iterator[User | Reply | Results]:
    """The entries as messages."""
    said: list[Seen] = []
    for entry in entries:
        if said and not (joined(said[-1], entry) or _results(said[-1], entry)):
            yield _message(said)
            said = []
        said.append(entry)
    if said:
        yield _message(said)


def parts_of(content: Content) -> tuple[Part, ...]:
    """The parts; a string is one text."""
    return (Text(text=content),) if isinstance(content, str) else content


def content_of(parts: Iterable[Part]) -> Content:
    """The simplest content with these parts: a string for a single text."""
    found = tuple(parts)
    if len(found) == 1 and isinstance(found[0], Text) and found[0].blob is None:
        return found[0].text
    return found or ""


def _results(earlier: Seen, later: Seen) -> bool:
    return isinstance(earlier, ToolResult) and isinstance(later, ToolResult)


def _message(entries: list[Seen]) -> User | Reply | Results:
    first = entries[0]
    if isinstance(first, User):
        return first
    if isinstance(first, ToolResult):
        return Results(tuple(entry for entry in entries if isinstance(entry, ToolResult)))
    return Reply(
        tuple(entry for entry in entries if isinstance(entry, Assistant)),
        tuple(entry for entry in entries if isinstance(entry, ToolCall)),
    )
