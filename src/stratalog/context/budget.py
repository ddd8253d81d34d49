"""Fitting a view into a budget of tokens.

The system's words and the summary always, then as many whole recent turns as fit, newest first. A turn is
taken whole or not at all, but the newest, which may lose its middle: it keeps its first message and the
latest rounds of calls and results that fit, of which the last must while the model has yet to answer it. What
cannot fit is a typed error that names it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from stratalog.context.shapes.openai_chat import chat_messages
from stratalog.context.view import Seen, TurnView, View, split_rounds
from stratalog.errors import ContextOverflow
from stratalog.types import AnyEntry, Compaction, System, ToolResult

Count = Callable[[AnyEntry], int]


class Section(msgspec.Struct, frozen=True):
    """A part of the context: how many tokens it takes, and how many it had to leave out."""

    name: str
    tokens: int
    left_out: int = 0


class Context(msgspec.Struct, frozen=True):
    """What a model is to see. `tokens` is at most `budget`; `turns_left_out` counts turns wholly unseen."""

    system: tuple[System, ...]
    summary: Compaction | None
    turns: tuple[TurnView, ...]
    sections: tuple[Section, ...]
    tokens: int
    budget: int
    turns_left_out: int = 0

    @property
    def entries(self) -> tuple[Seen, ...]:
        """The turns' entries in order."""
        return tuple(entry for turn in self.turns for entry in turn.entries)

    def shown(self) -> list[AnyEntry]:
        """Every entry that is in it."""
        return [*self.system, *([self.summary] if self.summary is not None else []), *self.entries]

    def messages(self) -> list[dict[str, Any]]:
        """The context as the messages of an OpenAI chat request."""
        return chat_messages(self.system, self.summary, self.entries)


def fit(whole: View, budget: int, count: Count) -> Context:
    """The context for `budget` tokens as `count` counts them. Raises `ContextOverflow`."""
    system = sum(map(count, whole.system))
    summary = count(whole.summary) if whole.summary is not None else 0
    _check("the system's words", system, budget)
    _check("the summary", summary, budget - system, system)
    left = budget - system - summary
    chosen: list[TurnView] = []
    dropped = 0
    for turn in reversed(whole.turns):
        cost = sum(map(count, turn.entries))
        if cost > left and not chosen:
            turn, cost, dropped = _shortened(turn, left, count, budget)
        if cost > left:
            break
        chosen.append(turn)
        left -= cost
    chosen.reverse()
    recent = budget - system - summary - left
    unseen = whole.turns[: len(whole.turns) - len(chosen)]
    dropped += sum(count(entry) for turn in unseen for entry in turn.entries)
    sections = [
        Section("system", system),
        Section("summary", summary),
        Section("recent turns", recent, dropped),
    ]
    return Context(
        whole.system,
        whole.summary,
        tuple(chosen),
        tuple(section for section in sections if section.tokens or section.left_out),
        budget - left,
        budget,
        len(unseen),
    )


def _shortened(turn: TurnView, left: int, count: Count, budget: int) -> tuple[TurnView, int, int]:
    """The newest turn without the rounds of its middle that do not fit, its cost, and what they cost."""
    head, rounds = split_rounds(turn.entries)
    cost = sum(map(count, head))
    _check("the newest message", cost, left, budget - left)
    total = cost + sum(count(entry) for entries in rounds for entry in entries)
    kept: list[list[Seen]] = []
    for entries in reversed(rounds):
        more = sum(map(count, entries))
        if not kept and isinstance(entries[-1], ToolResult):
            _check("the latest results", more, left - cost, budget - left + cost)
        if cost + more > left:
            break
        kept.append(entries)
        cost += more
    shown = [*head, *(entry for entries in reversed(kept) for entry in entries)]
    return msgspec.structs.replace(turn, entries=tuple(shown)), cost, total - cost


def _check(part: str, tokens: int, room: int, before: int = 0) -> None:
    if tokens > room:
        raise ContextOverflow(
            f"{part} cannot fit",
            tokens=tokens,
            room=room,
            before=before or None,
            hint="give a larger budget, or shorten that part",
        )
