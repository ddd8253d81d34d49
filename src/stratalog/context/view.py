"""What a model sees of a log: a pure fold of its entries.

The last compaction stands for what it covers; the turns after it are whole, in the order in which they were
started, the unanswered messages that wait last. Within a turn a call and its result are never parted: a call
without a result gets one that says so, a result without a call is left out. Only the view is mended; the log
keeps what was said.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

import msgspec

from stratalog.types import (
    AnyEntry,
    Assistant,
    Compaction,
    System,
    ToolCall,
    ToolResult,
    TurnEnd,
    TurnStart,
    User,
)

Seen: TypeAlias = User | Assistant | ToolCall | ToolResult
NO_RESULT = "[no result: the call was interrupted]"


class TurnView(msgspec.Struct, frozen=True):
    """One turn as a model sees it. `turn` is its id, "" for entries that belong to none."""

    turn: str
    entries: tuple[Seen, ...]


class View(msgspec.Struct, frozen=True):
    """A log as a model may see it: the system's words, the summary of what is folded, and the turns after."""

    system: tuple[System, ...]
    summary: Compaction | None
    turns: tuple[TurnView, ...]


def view(entries: Iterable[AnyEntry]) -> View:
    """The view of entries given in order, from the log's beginning or from where `starts_at` says."""
    listed = list(entries)
    summary, kept = _after_compaction(listed)
    system = tuple(entry for entry in listed if isinstance(entry, System))
    return View(system, summary, tuple(_turns(kept)))


def starts_at(newest_first: Iterable[AnyEntry]) -> list[AnyEntry]:
    """The entries that a view needs, in order, read from the end only as far back as that is."""
    needed: list[AnyEntry] = []
    first_kept: str | None = None
    for entry in newest_first:
        if isinstance(entry, Compaction) and first_kept is None:
            first_kept = entry.first_kept or entry.id
        needed.append(entry)
        if first_kept is not None and entry.id == first_kept:
            break
    return needed[::-1]


def _after_compaction(entries: list[AnyEntry]) -> tuple[Compaction | None, list[AnyEntry]]:
    """The latest compaction and what it left whole. Earlier ones are part of what it covers."""
    last = next((entry for entry in reversed(entries) if isinstance(entry, Compaction)), None)
    if last is None:
        return None, entries
    first = last.first_kept or last.id
    start = next((at for at, entry in enumerate(entries) if entry.id == first), 0)
    return last, [entry for entry in entries[start:] if not isinstance(entry, Compaction)]


def _turns(entries: list[AnyEntry]) -> list[TurnView]:
    """The entries by turn. A turn stands where it was started, or else where its first entry is."""
    groups: dict[str, list[AnyEntry]] = {}
    order: dict[str, int] = {}
    waiting: set[str] = set()
    alone = ""
    for entry in entries:
        if entry.turn:
            alone = ""
            name = entry.turn
        elif isinstance(entry, User) or not alone:
            # Entries without a turn: each message of the user begins a group.
            alone = name = f"-{entry.seq}"
        else:
            name = alone
        if name not in groups:
            groups[name] = []
            order[name] = entry.seq
            if isinstance(entry, User) and entry.turn:
                waiting.add(name)
        if name in waiting and not isinstance(entry, User):
            waiting.discard(name)
            if isinstance(entry, TurnStart):
                order[name] = entry.seq
        if isinstance(entry, User | Assistant | ToolCall | ToolResult | TurnEnd):
            groups[name].append(entry)
    ordered = sorted(groups, key=lambda name: (name in waiting, order[name]))
    turns = [TurnView("" if name.startswith("-") else name, _paired(groups[name])) for name in ordered]
    return [turn for turn in turns if turn.entries]


def _paired(entries: list[AnyEntry]) -> tuple[Seen, ...]:
    """The turn's entries with each round of calls followed by exactly its results."""
    results: dict[str, ToolResult] = {}
    for entry in entries:
        if isinstance(entry, ToolResult):
            results.setdefault(entry.call_id, entry)
    seen: list[Seen] = []
    round_calls: list[ToolCall] = []
    called: set[str] = set()

    def close_round() -> None:
        for call in round_calls:
            answer = results.get(call.call_id)
            seen.append(answer if answer is not None else _unanswered(call))
        round_calls.clear()

    for entry in entries:
        match entry:
            case ToolCall():
                if entry.call_id in called:
                    continue
                if round_calls and not _one_response(round_calls[-1], entry, entries):
                    close_round()
                called.add(entry.call_id)
                round_calls.append(entry)
                seen.append(entry)
            case Assistant():
                if round_calls and not (entry.response and entry.response == round_calls[-1].response):
                    close_round()
                if entry.content:
                    seen.append(entry)
            case User():
                close_round()
                seen.append(entry)
            case _:
                pass
    close_round()
    return tuple(seen)


def _one_response(earlier: ToolCall, later: ToolCall, entries: list[AnyEntry]) -> bool:
    """Whether two calls came in one response: by what they say, or by no result between them."""
    if earlier.response or later.response:
        return earlier.response == later.response
    between = entries[entries.index(earlier) + 1 : entries.index(later)]
    return not any(isinstance(entry, ToolResult) for entry in between)


def _unanswered(call: ToolCall) -> ToolResult:
    return ToolResult(
        call_id=call.call_id,
        name=call.name,
        content=NO_RESULT,
        error=True,
        synthetic=True,
        turn=call.turn,
        ts=call.ts,
    )
