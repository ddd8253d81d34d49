"""Building the context for a model of 200,000 tokens, near the point where the session would be compacted.

Sessions of different ages have the same entries in view: a compaction folded all but the last turns.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from lab import Lab
from loads import CONTENT, KEY, filled, timed, turns
from spec import Block, Goal, Opener, Row, Size, Spec, System, pick

from stratalog import Settings, Stratalog
from stratalog.context.budget import Context
from stratalog.engine.session import Session
from stratalog.ids import new_ulid
from stratalog.types import AnyEntry, Assistant, Compaction, ToolCall, ToolResult, TurnEnd, TurnStart, User

MODEL: Final = "gpt-4o-bench"
WINDOW: Final = 200_000
A_TURN: Final = 6  # entries
OFTEN = "next context, often compacted"
COST = Goal("at most", 5e-3)
EQUAL = Goal("at most", 1.2)


def spec(size: Size) -> Spec:
    count = pick(size, 5, 5, 1)  # few, for each adds a turn to what is in view
    seen = pick(size, 150, 150, 5)
    young, old = pick(size, (1_000, 100_000), (1_000, 20_000), (100, 200))
    often = pick(size, 500, 100, 3)
    again = "next context ({:,})".format
    first = "first context ({:,})".format
    return Spec(
        "context",
        f"building a context of {seen} turns, about {seen * 850:,} tokens of a window of {WINDOW:,}",
        "memory",
        pick(size, 25, 15, 2),
        (
            System(again(young), growing(count, lambda lab: aged(lab, young, seen))),
            System(again(old), growing(count, lambda lab: aged(lab, old, seen))),
            System(OFTEN, growing(count, lambda lab: folded(lab, often, seen))),
            System(first(young), cold(1, young, seen)),
            System(first(old), cold(1, old, seen)),
        ),
        (
            Row(f"after one more turn, {old:,} in the log", again(old), how="cost", goal=COST),
            Row(f"{old:,} in the log beside {young:,}", again(old), again(young), goal=EQUAL),
            Row(f"{often} compactions in the log beside one", OFTEN, again(young), goal=EQUAL),
            Row(f"the first after opening, {old:,} in the log", first(old), how="cost"),
            Row(f"the first, {old:,} in the log beside {young:,}", first(old), first(young)),
            Row("the first beside one after one more turn", first(old), again(old)),
        ),
        "Nothing is flushed: the log is in memory. The first context counts the tokens of all its entries.",
    )


def growing(count: int, made: Callable[[Lab], Path]) -> Opener:
    """Contexts of one open session, in which a few words are said and answered before each."""

    @contextmanager
    def opened(lab: Lab) -> Iterator[Block]:
        with stratalog(made(lab)) as memory:
            chat = memory.session(KEY)

            def block() -> list[float]:
                costs = []
                for _ in range(count):
                    chat.append(*a_turn("And then?"))
                    start = time.perf_counter()
                    context = built(chat)
                    costs.append(time.perf_counter() - start)
                    assert context.summary is not None
                return costs

            yield block

    return opened


def cold(count: int, length: int, seen: int) -> Opener:
    """The first context of a session, its memory just opened."""

    @contextmanager
    def opened(lab: Lab) -> Iterator[Block]:
        root = aged(lab, length, seen)

        def block() -> list[float]:
            used: list[Stratalog] = []
            costs = timed(lambda: used.append(first_of(root)), count)
            for memory in used:
                memory.close()
            return costs

        yield block

    return opened


def first_of(root: Path) -> Stratalog:
    """Opens the memory, builds the session's context, and returns the memory still open."""
    memory = stratalog(root)
    assert built(memory.session(KEY)).summary is not None
    return memory


def built(chat: Session) -> Context:
    return chat.context(model=MODEL, system="Answer briefly.")


def stratalog(root: Path) -> Stratalog:
    return Stratalog(root, settings=Settings(sync="never", windows={MODEL: WINDOW}))


def aged(lab: Lab, length: int, seen: int) -> Path:
    """A data directory with one session of `length` entries, of which a model sees the last `seen` turns."""

    def fill(count: int) -> Iterator[AnyEntry]:
        yield from turns(count - seen * A_TURN)
        yield from large_turns(seen)

    root = filled(lab, lab.memory, fill, length)
    with stratalog(root) as memory:
        chat = memory.session(KEY)
        kept = next(chat.entries(after=length - seen * A_TURN)).id
        chat.append(Compaction(summary=CONTENT, first_kept=kept))
        context = built(chat)
        assert (len(context.turns), context.turns_left_out) == (seen, 0)
    return root


def folded(lab: Lab, compactions: int, seen: int) -> Path:
    """The same view of a session that was compacted so many times, a turn each, before it had these turns."""
    root = lab.memory
    with stratalog(root) as memory:
        chat = memory.session(KEY)
        for _ in range(compactions):
            opening, *_ = chat.append(*a_turn("And then?"))
            chat.append(Compaction(summary=CONTENT, first_kept=opening.id))
        opening, *_ = chat.append(*large_turns(seen))
        chat.append(Compaction(summary=CONTENT, first_kept=opening.id))
        assert len(built(chat).turns) == seen
    return root


def a_turn(words: str) -> list[AnyEntry]:
    turn = new_ulid()
    return [
        User(content=words, turn=turn),
        TurnStart(turn=turn, holder="bench"),
        Assistant(content=words, turn=turn),
        TurnEnd(turn=turn, status="answered"),
    ]


def large_turns(count: int) -> Iterator[AnyEntry]:
    """So many turns of `A_TURN` entries, about 1,000 tokens each, most of them a tool's result."""
    for number in range(count):
        turn = new_ulid()
        yield User(content=f"{number}: {CONTENT}", turn=turn)
        yield TurnStart(turn=turn, holder="bench")
        yield ToolCall(call_id=f"call_{turn}", name="look_up", args={"page": number}, turn=turn)
        yield ToolResult(
            call_id=f"call_{turn}", name="look_up", content=f"{number}: {CONTENT * 9}", turn=turn
        )
        yield Assistant(content=f"{number}: {CONTENT}", turn=turn)
        yield TurnEnd(turn=turn, status="answered")
