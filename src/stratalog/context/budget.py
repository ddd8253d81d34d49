"""Fitting a view into a budget of tokens, section by section.

What never changes comes first and is never left out: the system's words and the tools. Then the memory
blocks, the summary, as many whole recent turns as fit, what was recalled, and the new message, which is whole
or an error. Each section may have a limit of its own.

Past the soft limit whole oldest turns are left out, in steps, so that what is sent keeps its beginning from
one request to the next; the newest few stay. Past the hard limit it degrades, or raises if it is told to: a
notice and the summary's first lines stand for what is left out, results are shown shorter, and of the newest
turn stay its message and the latest rounds of calls and results. What cannot fit even so is a typed error
that names it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Literal

import msgspec

from stratalog.context.cutting import capped
from stratalog.context.shapes.contract import Prompt, Tool
from stratalog.context.shapes.openai_chat import chat_messages
from stratalog.context.shorten import shortened
from stratalog.context.view import Seen, TurnView, View, split_rounds
from stratalog.errors import ContextOverflow
from stratalog.tokens.contract import Counter
from stratalog.types import Compaction, System, ToolResult, User, is_injected

_STEPS: Final = 8  # in which the room for turns is given up
_SHARE: Final = 4  # of a degraded context at most one in so many is memory, and so with the summary
_SHORTEST: Final = 64  # tokens of a result
_STANDING: Final = 8  # what was recalled for earlier messages is at most one in so many
NOTICE: Final = "[Earlier turns of this conversation are left out here: they do not fit into the context.]"


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """Tokens. `hard` is for all together; None is no limit of its own. `tool_result` is for each result, and
    `standing` for what was recalled before earlier messages (see `stay`)."""

    hard: int
    soft: int | None = None
    keep_turns: int = 1
    over: Literal["degrade", "raise"] = "degrade"
    system: int | None = None
    memory: int | None = None
    summary: int | None = None
    recent: int | None = None
    recalled: int | None = None
    standing: int | None = None
    message: int | None = None
    tool_result: int | None = None


class Section(msgspec.Struct, frozen=True):
    """A part of the context: how many tokens it takes, and how many it had to leave out."""

    name: str
    tokens: int
    left_out: int = 0


class Context(msgspec.Struct, frozen=True):
    """What a model is to see. `tokens`, those of `tools` included, are at most `budget`.

    `turns_left_out` counts turns wholly unseen; `degraded` says that the hard limit was met; `warning` that
    the model's window is a guess.
    """

    system: tuple[System, ...]
    memory: tuple[System, ...]
    summary: Compaction | None
    turns: tuple[TurnView, ...]
    sections: tuple[Section, ...]
    tokens: int
    budget: int
    tools: tuple[Tool, ...] = ()
    turns_left_out: int = 0
    degraded: bool = False
    warning: str = ""

    @property
    def entries(self) -> tuple[Seen, ...]:
        """The turns' entries in order."""
        return tuple(entry for turn in self.turns for entry in turn.entries)

    def shown(self) -> list[System | Compaction | Seen]:
        """Everything that is in it, but the tools."""
        summary = [self.summary] if self.summary is not None else []
        return [*self.system, *self.memory, *summary, *self.entries]

    def messages(self) -> list[dict[str, Any]]:
        """The context as the messages of an OpenAI chat request."""
        return chat_messages((*self.system, *self.memory), self.summary, self.entries)

    def prompt(self, *, max_output: int = 0) -> Prompt:
        """The context for a provider's shape."""
        return Prompt(
            system=tuple(entry.text for entry in (*self.system, *self.memory)),
            summary=self.summary.summary if self.summary is not None else "",
            entries=self.entries,
            tools=self.tools,
            max_output=max_output,
        )


def quotation(text: str) -> User:
    """What was recalled, as the message that stands before the one that it was recalled for."""
    return User(content=text, meta={"injected": True})


def quotes(turn: TurnView) -> bool:
    """Whether what was recalled stands before the turn (`View.quoting`)."""
    first = turn.entries[0] if turn.entries else None
    return isinstance(first, User) and not first.seq and is_injected(first)


def stay(recalled: Mapping[str, User], limits: Limits, count: Callable[[User], int]) -> dict[str, User]:
    """What of the quotations, the oldest first, goes on standing: from the oldest on, as many as have an
    eighth of the tokens together, or `limits.standing`; and the newest, if it has no more than twice that. So
    what is sent keeps its beginning, and a question that follows has what the last one was answered by."""
    room = limits.hard // _STANDING if limits.standing is None else limits.standing
    kept: dict[str, User] = {}
    left = room
    for turn, said in recalled.items():
        cost = count(said)
        if cost <= left:
            kept[turn] = said
        left = left - cost if cost <= left else 0
    for turn, said in [*recalled.items()][-1:]:
        if count(said) <= 2 * room:
            kept[turn] = said
    return kept


def fit(
    whole: View,
    limits: Limits,
    counter: Counter,
    *,
    memory: Sequence[str] = (),
    recalled: Sequence[str] = (),
    tools: Sequence[Tool] = (),
) -> Context:
    """The context within the limits as `counter` counts. Raises `ContextOverflow`.

    `memory` are blocks of text for the system's part; `recalled` are texts, the worthiest first, shown before
    the newest message. They stand there as they are, whole or not at all: what is in them that is not the
    caller's own words has passed the gate (`recall.gate`), and they say themselves what they are. What stands
    before turns of the view (`View.quoting`) counts as recalled too.
    """
    return _Fitting(whole, limits, counter, tuple(tools)).fitted(memory, recalled)


class _Fitting:
    """One fit; its figures are tokens."""

    def __init__(self, whole: View, limits: Limits, counter: Counter, tools: tuple[Tool, ...]) -> None:
        self.limits = limits
        self.counter = counter
        self.count = counter.count_entry
        self.tools = tools
        self.whole = whole
        self.turns = whole.turns
        self.turn_tokens = [sum(map(self.count, turn.entries)) for turn in whole.turns]
        self.all_turns = sum(self.turn_tokens)

    def fitted(self, memory: Sequence[str], recalled: Sequence[str]) -> Context:
        self.memory, self.recalled = memory, [text for text in recalled if text.strip()]
        limits, hard = self.limits, self.limits.hard
        self.system = sum(map(self.count, self.whole.system))
        schemas = [msgspec.structs.asdict(tool) for tool in self.tools]
        self.schemas = self.counter.count_tools(schemas) if schemas else 0
        _check("the system's words", self.system, hard, own=limits.system)
        _check("the tools", self.schemas, hard - self.system, self.system)
        newest = split_rounds(self.turns[-1].entries)[0] if self.turns else []
        self.message = sum(map(self.count, newest))
        before = self.system + self.schemas
        _check("the new message", self.message, hard - before, before, own=limits.message)
        blocks = self._memory(memory, limits.memory)
        summary = self._summary(limits.summary)
        extra = self._recalled(recalled, limits.recalled) if newest else None
        fixed = before + self._of(blocks, summary, extra)
        soft = min(hard, limits.soft if limits.soft is not None else hard)
        room = soft - fixed
        if limits.recent is not None:
            room = min(room, limits.recent + self.message)
        cut = self._cut(room)
        kept = sum(self.turn_tokens[cut:])
        most = kept if limits.recent is None else limits.recent + self.message
        while kept > most and cut < len(self.turns) - 1:
            kept -= self.turn_tokens[cut]  # a limit of its own is not exceeded for the sake of the newest few
            cut += 1
        if fixed + kept <= hard and kept <= most:
            return self._made(blocks, summary, extra, self.turns[cut:], len(self.turns) - cut, kept)
        if limits.over == "raise":
            part = f"what is kept of the turns ({len(self.turns) - cut})"
            own = limits.recent + self.message if limits.recent is not None else None
            _check(part, kept, hard - fixed, fixed, own=own)
        return self._degraded(memory)

    def _cut(self, room: int) -> int:
        """How many of the oldest turns are left out so that the others fit the room, if they can."""
        over = self.all_turns - room
        if over <= 0:
            return 0
        step = max(1, room // _STEPS)
        wanted = -(-over // step) * step
        most = max(0, len(self.turns) - max(1, self.limits.keep_turns))
        gone = cut = 0
        while cut < most and gone < wanted:
            gone += self.turn_tokens[cut]
            cut += 1
        return cut

    def _degraded(self, memory: Sequence[str]) -> Context:
        """The system, what memory and summary have room beside the newest message, a notice, and of the turns
        the newest, with shorter results where that is needed."""
        limits = self.limits
        left = limits.hard - self.system - self.schemas - self.message
        recent = left if limits.recent is None else min(left, limits.recent)
        turn, every_round, cost = self._newest(recent)
        left, recent = left - cost, recent - cost
        shown = [turn] if turn is not None else []
        notice = User(content=NOTICE, meta={"injected": True})
        noted = (len(self.turns) > 1 or not every_round) and self.count(notice) <= left
        if noted:
            left -= self.count(notice)
        share = left // _SHARE
        blocks = self._memory(memory, min(share, _or(limits.memory, share)))
        summary = self._summary(min(share, _or(limits.summary, share)))
        recent = min(recent, left - self._of(blocks, summary, None))
        for older, cost in zip(reversed(self.turns[:-1]), reversed(self.turn_tokens[:-1]), strict=True):
            if cost > recent:
                break
            shown.insert(0, older)
            recent -= cost
        told = notice if noted else None
        tokens = sum(self.count(entry) for each in shown for entry in each.entries)
        return self._made(blocks, summary, None, tuple(shown), len(shown), tokens, degraded=True, notice=told)

    def _newest(self, left: int) -> tuple[TurnView | None, bool, int]:
        """The newest turn: its message, and the latest rounds that fit into what is left beside it; whether
        that is all of them, and their tokens. A result that a model has yet to see is shortened to fit."""
        if not self.turns:
            return None, True, 0
        turn = self.turns[-1]
        head, rounds = split_rounds(turn.entries)
        kept: list[list[Seen]] = []
        total = 0
        for entries in reversed(rounds):
            cost = sum(map(self.count, entries))
            if cost > left and not kept and isinstance(entries[-1], ToolResult):
                entries, cost = self._squeezed(entries, left)
            if cost > left:
                break
            kept.append(entries)
            left -= cost
            total += cost
        shown = (*head, *(entry for entries in reversed(kept) for entry in entries))
        return msgspec.structs.replace(turn, entries=shown), len(kept) == len(rounds), total

    def _squeezed(self, entries: list[Seen], room: int) -> tuple[list[Seen], int]:
        """The round with its results as short as it takes. Raises `ContextOverflow`."""
        results = sum(isinstance(entry, ToolResult) for entry in entries)
        limit = max(_SHORTEST, room // max(1, results))
        while True:
            limit = max(_SHORTEST, limit * 3 // 4)
            shorter = [self._shortened(entry, limit) for entry in entries]
            cost = sum(map(self.count, shorter))
            if cost <= room:
                return shorter, cost
            if limit == _SHORTEST:
                before = self.limits.hard - room
                _check("the latest results", cost, room, before)

    def _shortened(self, entry: Seen, limit: int) -> Seen:
        if not isinstance(entry, ToolResult):
            return entry
        return shortened(entry, limit, self.counter.count_text)

    def _memory(self, blocks: Sequence[str], limit: int | None) -> tuple[System, ...]:
        """The blocks, cut at the ends of their lines where together they are over the limit."""
        shown: list[System] = []
        left = limit
        for text in filter(str.strip, blocks):
            block = System(content=text)
            if left is not None:
                block = System(content=self._cut_text(text, left - self.count(System(content=""))))
                left -= self.count(block) if block.content else 0
            if block.content:
                shown.append(block)
        return tuple(shown)

    def _summary(self, limit: int | None) -> Compaction | None:
        summary = self.whole.summary
        if summary is None or limit is None or self.count(summary) <= limit:
            return summary
        bare = self.count(msgspec.structs.replace(summary, summary="", blob=None))
        text = self._cut_text(summary.summary, limit - bare)
        return msgspec.structs.replace(summary, summary=text, id="", blob=None) if text else None

    def _recalled(self, texts: Sequence[str], limit: int | None) -> User | None:
        """One message of as many of the texts as fit, the first ones."""
        shown: list[str] = []
        for text in filter(str.strip, texts):
            more = _joined([*shown, text])
            if limit is not None and self.count(more) > limit:
                break
            shown.append(text)
        return _joined(shown) if shown else None

    def _cut_text(self, text: str, limit: int) -> str:
        count = self.counter.count_text
        if limit < 1 or count(text) <= limit:
            return text if limit >= 1 else ""
        cut = capped(text, limit, count)
        return cut if count(cut) <= limit else ""

    def _of(self, memory: tuple[System, ...], summary: Compaction | None, extra: User | None) -> int:
        rest = (each for each in (summary, extra) if each is not None)
        return sum(map(self.count, memory)) + sum(map(self.count, rest))

    def _made(
        self,
        memory: tuple[System, ...],
        summary: Compaction | None,
        extra: User | None,
        turns: tuple[TurnView, ...],
        seen: int,
        recent: int,
        *,
        degraded: bool = False,
        notice: User | None = None,
    ) -> Context:
        """The context of these turns, which have `recent` tokens, of which `seen` are the view's."""
        told = self.count(extra) if extra is not None else 0
        noted = self.count(notice) if notice is not None else 0
        blocks, short = self._of(memory, None, None), self._of((), summary, None)
        stood = sum(self.count(each.entries[0]) for each in turns if quotes(each))
        cost = self.count(self.whole.summary) if self.whole.summary is not None else 0
        every = sum(self.count(System(content=text)) for text in self.memory if text.strip())
        quoted = self.count(_joined(self.recalled)) if self.recalled else 0
        sections = [
            Section("system", self.system),
            Section("tools", self.schemas),
            Section("memory", blocks, max(0, every - blocks)),
            Section("summary", short, max(0, cost - short)),
            Section("notice", noted),
            Section("recent turns", recent - self.message - stood, max(0, self.all_turns - recent)),
            Section("recalled", told + stood, max(0, quoted - told)),
            Section("new message", self.message),
        ]
        if notice is not None:
            turns = (TurnView("", (notice,)), *turns)
        if extra is not None:
            last = turns[-1]
            turns = (*turns[:-1], msgspec.structs.replace(last, entries=(extra, *last.entries)))
        return Context(
            self.whole.system,
            memory,
            summary,
            turns,
            tuple(section for section in sections if section.tokens or section.left_out),
            sum(section.tokens for section in sections),
            self.limits.hard,
            self.tools,
            len(self.turns) - seen,
            degraded,
        )


def _joined(texts: Sequence[str]) -> User:
    return quotation("\n\n".join(texts))


def _or(limit: int | None, other: int) -> int:
    return other if limit is None else limit


def _check(part: str, tokens: int, room: int, before: int = 0, own: int | None = None) -> None:
    if own is not None and tokens > own:
        raise ContextOverflow(
            f"{part} cannot fit",
            tokens=tokens,
            limit=own,
            hint="raise that section's limit in the settings, or shorten it",
        )
    if tokens > room:
        raise ContextOverflow(
            f"{part} cannot fit",
            tokens=tokens,
            room=room,
            before=before or None,
            hint="give a larger budget, or shorten that part",
        )
