"""What of a session a model sees: its log, folded as it grows, and fitted into what the model can take.

Everything here is remembered only to be quick: it is told by the log what to forget.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, TypedDict

import msgspec

from stratalog.config import BudgetSettings, Settings
from stratalog.context.budget import Context, Limits, fit, quotation, quotes, stay
from stratalog.context.folding import Folding
from stratalog.context.memory_words import rendered
from stratalog.context.shapes.contract import Tool
from stratalog.context.shorten import shortened
from stratalog.context.view import Seen, TurnView, View, starts_at, view
from stratalog.engine.notes import blocks_of
from stratalog.engine.reading import entry_at, heard, whole
from stratalog.errors import ContextOverflow
from stratalog.keys import SessionKey
from stratalog.log import codec
from stratalog.log.contract import LogStore, OnProblem
from stratalog.sessions.manager import Live
from stratalog.sessions.meta import RESTART
from stratalog.tokens.calibrated import Anchor, Piece, entry_piece, head_piece
from stratalog.tokens.contract import Counter, Level
from stratalog.tokens.exact import best_counter
from stratalog.tokens.families import family_of
from stratalog.tokens.rough import Rough
from stratalog.tokens.windows import Window, window_of
from stratalog.types import AnyEntry, Compaction, Note, System, ToolResult, User

_MOST: Final = 16_000_000  # bytes of entries that one session may keep in memory
_COUNTED: Final = 20_000  # entries
_ENVELOPE: Final = 32  # tokens of a request besides its parts: what opens the reply, a message that opens it
_MARGIN: Final[Mapping[str, int]] = {"rough": 115, "estimate": 110, "exact": 100}  # percent
_TOOL_SHARE: Final = 4  # one result has at most one in so many of the budget's tokens
MEMORY: Final = (
    "Working memory, as it was when the conversation was last summarised (changes since follow in it):"
)


class ContextOptions(TypedDict, total=False):
    """What a context may be asked for besides its budget; see `Session.context`."""

    system: str | None
    model: str
    tools: Sequence[Tool]
    memory: Sequence[str]
    recalled: Sequence[str]


class Wants(msgspec.Struct, frozen=True, kw_only=True):
    """What a context is asked for. `stands` is what was recalled for turns before, by the turn's id."""

    budget: int | None = None
    system: str | None = None
    model: str = ""
    tools: Sequence[Tool] = ()
    memory: Sequence[str] = ()
    recalled: Sequence[str] = ()
    stands: Mapping[str, str] = {}


class Room(msgspec.Struct, frozen=True):
    """What a model takes: its window, the tokens kept for its reply, and those that a request may have as
    `counter` counts them, with a margin where that only estimates."""

    window: Window
    reserve: int
    tokens: int


class Prepared(msgspec.Struct, frozen=True):
    """The view with its results as they are shown, the limits it must fit, and what goes beside it."""

    seen: View
    limits: Limits
    counter: Counter
    memory: tuple[str, ...]
    wants: Wants
    quoted: Mapping[str, User] = {}

    def quoting(self) -> View:
        """The view with what was recalled for turns before in its place."""
        return self.seen.quoting(self.quoted) if self.quoted else self.seen

    def entries(self) -> list[AnyEntry]:
        """All of it, in the order in which it is sent when nothing is left out."""
        system = len(self.seen.system)
        said = self.said()
        blocks = [System(content=text) for text in self.memory if text.strip()]
        return [*said[:system], *blocks, *said[system:]]

    def said(self) -> list[AnyEntry]:
        """The system's words, the summary and the turns, with what was recalled for them."""
        summary = [self.seen.summary] if self.seen.summary is not None else []
        *before, newest = self.quoting().turns or (TurnView("", ()),)
        turns = [entry for turn in before for entry in turn.entries]
        texts = [text for text in self.wants.recalled if text.strip()]
        recalled = [quotation("\n\n".join(texts))] if texts else []
        return [*self.seen.system, *summary, *turns, *recalled, *newest.entries]

    def fixed(self) -> int:
        """The tokens of what is neither the system's words, nor the summary, nor of the turns."""
        schemas = [msgspec.structs.asdict(tool) for tool in self.wants.tools]
        blocks = sum(self.counter.count_entry(System(content=text)) for text in self.memory)
        return blocks + (self.counter.count_tools(schemas) if schemas else 0)


class Recalled(msgspec.Struct, frozen=True):
    """What was recalled for a turn: the block, "" for none; for which user and words; and the texts that are
    in it, as who recalled them knows them."""

    text: str
    whose: str = ""
    asked: str = ""
    of: tuple[Any, ...] = ()


class Memo:
    """What is remembered of one session while it is in memory."""

    def __init__(self) -> None:
        self.folding: Folding | None = None
        self.anchors: dict[str, Anchor] = {}  # by the model that reported
        self.systems: dict[int, System] = {}
        self.blocks: tuple[int, tuple[str, ...]] = (0, ())  # the number of their note, and the texts
        self.results: dict[tuple[str, str, int], ToolResult] = {}
        self.recalled: Mapping[str, Recalled] = {}  # by the turn for which it was
        self.quoted: Mapping[str, User] = {}
        self.learned: dict[str, int] = {}  # the window that a model was found to have, where it is smaller
        self.warned: set[str] = set()
        self._counted: dict[tuple[str, str], tuple[AnyEntry, int]] = {}
        self._pieces: dict[tuple[str, str], tuple[AnyEntry, Piece]] = {}

    @property
    def size(self) -> int:
        """The bytes of the log that are remembered, and of what was recalled: a block and the texts in it."""
        folded = self.folding.size if self.folding is not None else 0
        return folded + sum(2 * len(each.text) for each in self.recalled.values())

    def start(self, entries: Iterable[AnyEntry]) -> None:
        """The entries that a view needs, as far as the log goes."""
        self.folding = Folding(entries)
        self._bound()

    def advance(self, entry: AnyEntry) -> None:
        if self.folding is None:
            return
        if isinstance(entry, Note) and entry.kind == RESTART:
            self.folding = Folding([entry])
            self.recalled = {}
        elif not self.folding.add(entry):
            self.folding = None
        if isinstance(entry, Compaction):
            self.anchors.clear()
            self.recalled = {}
            self.results.clear()
            self._counted.clear()
            self._pieces.clear()
        self._bound()

    def pieces(
        self, model: str, tools: Sequence[Tool], entries: Iterable[AnyEntry], counter: Counter
    ) -> list[Piece]:
        """The pieces of a request, to be likened to those of the last one."""
        head = head_piece(model, [msgspec.structs.asdict(tool) for tool in tools], counter)
        return [head, *(self._piece(entry, counter) for entry in entries)]

    def _piece(self, entry: AnyEntry, counter: Counter) -> Piece:
        key = (counter.name, entry.id)
        known = self._pieces.get(key)
        if known is not None and known[0] is entry:
            return known[1]
        piece = entry_piece(entry, counter)
        if entry.id:
            if len(self._pieces) >= _COUNTED:
                self._pieces.clear()
            self._pieces[key] = (entry, piece)
        return piece

    def quotations(self, stands: Mapping[str, str]) -> dict[str, User]:
        """The texts that stand before turns, as messages: the same from one request to the next, so that they
        are counted once."""
        known, made = self.quoted, {}
        for turn, text in stands.items():
            said = known.get(turn)
            if said is None or said.content != text:
                said = msgspec.structs.replace(quotation(text), id=f"recalled {turn}")
            made[turn] = said
        if made:
            self.quoted = made
        return made

    def counter(self, counter: Counter) -> Counter:
        """The same counter, which counts an entry once, for an entry never changes."""
        return _Counted(counter, self._counted)

    def _bound(self) -> None:
        if self.folding is not None and self.folding.size > _MOST:
            self.folding = None


class _Counted:
    """See `tokens.contract.Counter`. An entry is known by its id, and as the same object: one that is shown
    shortened is another."""

    def __init__(self, under: Counter, counted: dict[tuple[str, str], tuple[AnyEntry, int]]) -> None:
        self.under = under
        self.name = under.name
        self.level: Level = under.level
        self.is_estimate = under.is_estimate
        self.count_text = under.count_text
        self.count_tools = under.count_tools
        self._counted = counted

    def count_entry(self, entry: AnyEntry) -> int:
        key = (self.name, entry.id)
        known = self._counted.get(key)
        if known is not None and known[0] is entry:
            return known[1]
        tokens = self.under.count_entry(entry)
        if entry.id:
            if len(self._counted) >= _COUNTED:
                self._counted.clear()
            self._counted[key] = (entry, tokens)
        return tokens


class Seeing:
    """One session's views and contexts."""

    def __init__(
        self,
        key: SessionKey,
        store: LogStore,
        settings: Settings,
        on_problem: OnProblem,
        caught_up: Callable[[], Live],
    ) -> None:
        self._key = key
        self._store = store
        self._settings = settings
        self._on_problem = on_problem
        self._caught_up = caught_up

    def view(self, turn: str | None = None) -> View:
        """See `Session.view`."""
        live = self._caught_up()
        with live.changed:
            memo = memo_of(live)
            if memo.folding is not None:
                seen = memo.folding.view()
                first = memo.folding.entries[0].seq if len(memo.folding) else 0
            else:
                reading = self._store.read(self._key, reverse=True, blobs=False)
                entries = starts_at(heard(reading, self._on_problem))
                seen, first = view(entries), entries[0].seq if entries else 0
            if seen.summary is not None:
                earlier = [self._system(memo, seq) for seq in live.meta.system if seq < first]
                said = [each for each in earlier if each is not None and each.id not in live.meta.withdrawn]
                system = (*said, *seen.system)
                seen = msgspec.structs.replace(seen, system=system)
        if turn is not None:
            turns = tuple(each for each in seen.turns if not each.waiting or each.turn == turn)
            seen = msgspec.structs.replace(seen, turns=turns)
        return seen

    def prepared(self, turn: str | None, wants: Wants) -> Prepared:
        """What a context is made of, before it is fitted. For no `turn`, messages that wait are in it too."""
        seen = self.view(turn)
        if wants.system:
            seen = msgspec.structs.replace(seen, system=(System(content=wants.system), *seen.system))
        counter = self.counter(wants.model)
        limits = limits_of(self._settings.budget, self._hard(wants, counter))
        seen = self._shortened(seen, limits.tool_result, counter)
        blocks = (*self.memory_blocks(), *wants.memory)
        return Prepared(seen, limits, counter, blocks, wants, self.memo.quotations(wants.stands))

    def context(self, turn: str | None, wants: Wants) -> Context:
        """See `Session.context`."""
        context = self.fitted(self.prepared(turn, wants))
        if wants.budget is None and wants.model:
            warning = window_of(wants.model, self._settings.windows).warning
            context = msgspec.structs.replace(context, warning=warning)
        return context

    def fitted(self, prepared: Prepared) -> Context:
        """The context of what was prepared. Payloads are fetched for what is shown alone. What was recalled
        for turns before stands there as long as no turn is left out for it."""
        context = self._fitted(prepared, prepared.quoting())
        if prepared.quoted and (context.turns_left_out or context.degraded):
            bare = self._fitted(prepared, prepared.seen)
            if bare.turns_left_out < context.turns_left_out or bare.degraded < context.degraded:
                return bare
        return context

    def standing(self, turn: str, wants: Wants) -> dict[str, str]:
        """What of `wants.stands` is shown in the turn's next request."""
        if not wants.stands:
            return {}
        first = self.prepared(turn, wants)
        order = {each.turn: place for place, each in enumerate(first.seen.turns)}
        known = {
            each: first.quoted[each] for each in sorted(first.quoted.keys() & order, key=order.__getitem__)
        }
        tried = msgspec.structs.replace(first, quoted=stay(known, first.limits, first.counter.count_entry))
        try:
            shown = {each.turn for each in self.fitted(tried).turns if quotes(each)}
        except ContextOverflow:  # who fits the turn's request is told
            return {}
        return {each: wants.stands[each] for each in known if each in shown}

    def _fitted(self, prepared: Prepared, seen: View) -> Context:
        wants = prepared.wants
        fetched: dict[int, AnyEntry] = {}
        while True:
            context = fit(
                seen,
                prepared.limits,
                prepared.counter,
                memory=prepared.memory,
                recalled=wants.recalled,
                tools=wants.tools,
            )
            missing = [each for each in context.shown() if codec.has_blobs(each) and each.seq not in fetched]
            if not missing:
                return context
            for entry in whole(self._store, self._key, missing, self._on_problem):
                fetched[entry.seq] = entry
            seen = seen.with_entries(fetched)

    def counter(self, model: str) -> Counter:
        """The best counter for the model, which remembers what it counted."""
        return self.memo.counter(counter_of(model))

    @property
    def memo(self) -> Memo:
        """What is remembered of the session now."""
        return memo_of(self._caught_up())

    def memory_blocks(self, *, now: bool = False) -> tuple[str, ...]:
        """What is known beyond the conversation, as it was frozen, and what the agent keeps in mind, as it
        was at the last compaction, or as it is `now`."""
        live = self._caught_up()
        meta = live.meta
        known = self._known(memo_of(live), meta.blocks) if meta.blocks else ()
        words = rendered(
            meta.working_memory if now else meta.frozen.working_memory,
            meta.facts if now else meta.frozen.facts,
        )
        return (*known, f"{MEMORY}\n{words}") if words else known

    def _known(self, memo: Memo, seq: int) -> tuple[str, ...]:
        """The texts of the note with this number."""
        if memo.blocks[0] != seq:
            note = entry_at(self._store, self._key, seq)
            memo.blocks = seq, blocks_of(note).texts if isinstance(note, Note) else ()
        return memo.blocks[1]

    def _hard(self, wants: Wants, counter: Counter) -> int:
        if wants.budget is not None:
            return wants.budget
        if wants.model:
            return room_of(wants.model, self._settings, counter).tokens
        return self._settings.context_budget

    def _system(self, memo: Memo, seq: int) -> System | None:
        """The system's message with this number; it is shown however old it is."""
        if seq not in memo.systems:
            entry = entry_at(self._store, self._key, seq)
            if not isinstance(entry, System):
                return None
            memo.systems[seq] = entry
        return memo.systems[seq]

    def _shortened(self, seen: View, limit: int | None, counter: Counter) -> View:
        """The view with the results that are over the limit shown shorter."""
        if limit is None:
            return seen
        large = [entry for turn in seen.turns for entry in turn.entries if _is_large(entry, limit, counter)]
        if not large:
            return seen
        known = memo_of(self._caught_up()).results
        shorter: dict[int, AnyEntry] = {}
        for entry in large:
            key = (entry.id, counter.name, limit)
            if key not in known:
                (full,) = whole(self._store, self._key, [entry], self._on_problem)
                assert isinstance(full, ToolResult)
                known[key] = shortened(full, limit, counter.count_text)
            shorter[entry.seq] = known[key]
        return seen.with_entries(shorter)


def memo_of(live: Live) -> Memo:
    """What is remembered with this live session."""
    if not isinstance(live.memo, Memo):
        live.memo = Memo()
    memo: Memo = live.memo
    return memo


def counter_of(model: str) -> Counter:
    """The best counter for the model; the rough one, of a common vocabulary, where none is named."""
    return best_counter(model) if model else Rough(family_of("gpt-4o"))


def room_of(model: str, settings: Settings, counter: Counter | None = None) -> Room:
    """What the model takes, by the table of windows and the settings over it, as `counter` counts, or else
    the best for it. Raises `InvalidConfig`."""
    counter = counter or counter_of(model)
    window = window_of(model, settings.windows)
    reserve = max(1, min(settings.max_output, window.output, window.window // 4))
    kind = "rough" if counter.level == "rough" else "estimate" if counter.is_estimate else "exact"
    return Room(window, reserve, max(1, (window.room(reserve) - _ENVELOPE) * 100 // _MARGIN[kind]))


def limits_of(settings: BudgetSettings, hard: int) -> Limits:
    """The limits that the settings give a context of `hard` tokens."""
    told: dict[str, Any] = msgspec.structs.asdict(settings)
    told["tool_result"] = max(64, min(settings.tool_result, hard // _TOOL_SHARE))
    return Limits(hard=hard, **told)


def _is_large(entry: Seen, limit: int, counter: Counter) -> bool:
    return isinstance(entry, ToolResult) and bool(entry.id) and counter.count_entry(entry) > limit
