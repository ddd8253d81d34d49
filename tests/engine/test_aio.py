"""engine/aio.py: the same engine for asyncio, where tasks are cancelled, many, and must not hold threads."""

from __future__ import annotations

import asyncio
import gc
import os
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from stratalog.engine.aio import AsyncSession, AsyncStratalog
from stratalog.errors import InvalidInput, SessionBusy, TurnClosed
from stratalog.types import AnyEntry, Assistant, TurnEnd, TurnStart, User

PATIENCE = 60.0
KEY = "a:cli:me"


def run(data: Path, work: Callable[[AsyncStratalog], Awaitable[None]], **how: int) -> None:
    """Runs `work` with a memory in `data`, and closes that."""

    async def main() -> None:
        async with AsyncStratalog(data, **how) as memory:
            await asyncio.wait_for(work(memory), PATIENCE)

    asyncio.run(main())


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not condition():
            await asyncio.sleep(0.001)


def kinds(entries: list[AnyEntry]) -> list[str]:
    return [str(entry.__struct_config__.tag) for entry in entries]


def test_every_call_there_is(data: Path) -> None:
    """Turns, messages, list, search, context, title, pin, restart, abort and deletion, awaited."""

    async def work(memory: AsyncStratalog) -> None:
        chat = memory.session(KEY)
        async with chat.turn("harbour?", meta={"x": 1}) as turn:
            call = await turn.call("t", {"a": 1})
            await turn.result(call, "found")
            assert len((await turn.context()).messages()) == 3
            await turn.reply("ferry", model="m")
        assert kinds(await chat.entries()) == [
            "user", "turn_start", "tool_call", "tool_result", "assistant", "turn_end",
        ]  # fmt: skip
        assert (await memory.sessions(limit=1)).sessions[0].title == "harbour?"
        assert (await memory.search("ferry"))[0].hit.snippet == "ferry"
        assert (await chat.set_title("Mine")).title == "Mine"
        assert (await chat.pin()).pinned
        assert (await chat.context(1000)).tokens > 0
        assert not await chat.abort()
        await chat.submit("waits")
        assert [turn.message.text for turn in await chat.unfinished()] == ["waits"]
        assert (await chat.restart()).done
        assert (await chat.meta()).title == "Mine"
        await chat.append(User(content="plain"))
        assert await chat.delete()

    run(data, work)


def test_many_tasks_on_one_session_with_few_threads(data: Path) -> None:
    """Fifty tasks that want one session, on two threads: none is lost or stuck, the turns follow one another
    whole, in the order in which the tasks came."""

    async def work(memory: AsyncStratalog) -> None:
        chat = memory.session(KEY)

        async def one(number: int) -> None:
            async with chat.turn(f"m{number}") as turn:
                await asyncio.sleep(0)
                await turn.reply(f"r{number}")

        await asyncio.gather(*(one(number) for number in range(50)))
        entries = await chat.entries()
        assert [e.text for e in entries if isinstance(e, User)] == [f"m{number}" for number in range(50)]
        assert [e.text for e in entries if isinstance(e, Assistant)] == [f"r{number}" for number in range(50)]
        running = ""
        for entry in entries:
            if isinstance(entry, TurnStart):
                assert not running
                running = entry.turn
            elif isinstance(entry, TurnEnd):
                assert (entry.turn, entry.status) == (running, "answered")
                running = ""
        assert await chat.unfinished() == []

    run(data, work, threads=2)


def test_sessions_do_not_wait_for_one_another(data: Path) -> None:
    """While tasks wait for a busy session, another session is served though there is one thread."""

    async def work(memory: AsyncStratalog) -> None:
        chat = memory.session(KEY)
        async with chat.turn("holds"):
            waiting = [asyncio.create_task(take(chat, f"w{number}")) for number in range(10)]
            await until(lambda: len(chat._line.waiting) == 10)
            async with memory.session("a:cli:other").turn("x") as turn:
                await turn.reply("served")
        await asyncio.gather(*waiting)

    run(data, work, threads=1)


def test_tenants_share_the_threads_and_see_their_own(data: Path) -> None:
    """A front of another tenant has its sessions alone; who wants one of them waits in the same line."""

    async def work(memory: AsyncStratalog) -> None:
        acme = memory.as_tenant("acme")
        for front, words in ((memory, "one"), (acme, "two")):
            async with front.session(KEY).turn(words) as turn:
                await turn.reply("yes")
        for front, words in ((memory, "one"), (acme, "two")):
            listed = (await front.sessions()).sessions
            assert [(each.key, each.title) for each in listed] == [(f"{front.sync.tenant}/{KEY}", words)]
        assert memory.as_tenant("acme").session(KEY)._line is acme.session(KEY)._line

    run(data, work, threads=1)


async def take(chat: AsyncSession, message: str, **how: float) -> None:
    async with chat.turn(message, **how) as turn:
        await turn.reply("r")


def test_a_write_is_finished_though_its_task_is_cancelled(data: Path) -> None:
    """A reply whose task is cancelled right after it was asked for is in the log, and the turn is aborted."""

    async def work(memory: AsyncStratalog) -> None:
        chat = memory.session(KEY)
        begun = threading.Event()
        go = threading.Event()
        append = memory.sync.store.append

        def slow(*args: object, **how: object) -> object:
            if any(isinstance(entry, Assistant) for entry in args[1]):  # type: ignore[attr-defined] # entries
                begun.set()
                assert go.wait(PATIENCE)
            return append(*args, **how)  # type: ignore[arg-type] # passed on as they came

        memory.sync.store.append = slow  # type: ignore[method-assign, assignment] # to hold it up
        task = asyncio.create_task(take(chat, "q"))
        await until(begun.is_set)
        task.cancel()
        await asyncio.sleep(0)
        go.set()
        with pytest.raises(asyncio.CancelledError):
            await task
        await until(lambda: chat.sync.status == "idle")
        entries = await chat.entries()
        assert kinds(entries) == ["user", "turn_start", "assistant", "turn_end"]
        assert isinstance(entries[-1], TurnEnd)
        assert entries[-1].status == "aborted"

    run(data, work)


@pytest.mark.parametrize("when", ["head", "append"])
def test_a_task_that_is_cancelled_while_its_turn_begins_holds_nothing(data: Path, when: str) -> None:
    """Whenever the cancellation comes, the session is free afterwards: a turn that began all the same is
    ended as aborted."""

    async def work(memory: AsyncStratalog) -> None:
        chat = memory.session(KEY)
        await chat.append(User(content="there"))
        begun, go = threading.Event(), threading.Event()
        original = getattr(memory.sync.store, when)

        def slow(*args: object, **how: object) -> object:
            begun.set()
            assert go.wait(PATIENCE)
            return original(*args, **how)

        setattr(memory.sync.store, when, slow)
        task = asyncio.create_task(take(chat, "q"))
        await until(begun.is_set)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        go.set()
        await until(lambda: chat.sync.status == "idle" and not list(data.rglob("*.lock")))
        entries = await chat.entries()
        assert [entry.text for entry in entries if isinstance(entry, User)] == ["there", "q"]
        assert isinstance(entries[-1], TurnEnd)
        assert entries[-1].status == "aborted"
        await take(chat, "next", wait=0)

    run(data, work)


def test_a_task_that_is_cancelled_while_it_waits_leaves_the_line(data: Path) -> None:
    """Its message stays queued, and those behind it are served."""

    async def work(memory: AsyncStratalog) -> None:
        chat = memory.session(KEY)
        async with chat.turn("holds") as turn:
            first = asyncio.create_task(take(chat, "first"))
            await until(lambda: len(chat._line.waiting) == 1)
            second = asyncio.create_task(take(chat, "second"))
            await until(lambda: len(chat._line.waiting) == 2)
            first.cancel()
            with pytest.raises(asyncio.CancelledError):
                await first
            await turn.reply("r")
        await second
        assert not chat._line.waiting
        assert [turn.message.text for turn in await chat.unfinished()] == ["first"]

    run(data, work)


@pytest.mark.parametrize("wait", [0, 0.05])
def test_who_waits_long_enough_is_told(data: Path, wait: float) -> None:
    """A wait that is over is `SessionBusy`, whether one is first in line or behind another; the messages stay
    queued."""

    async def work(memory: AsyncStratalog) -> None:
        chat = memory.session(KEY)
        async with chat.turn("holds") as turn:
            patient = asyncio.create_task(take(chat, "patient"))
            await until(lambda: len(chat._line.waiting) == 1)
            with pytest.raises(SessionBusy):
                await take(chat, "impatient", wait=wait)
            patient.cancel()
            await asyncio.wait([patient])
            with pytest.raises(SessionBusy):
                await take(chat, "first in line", wait=wait)
            await turn.reply("r")
        assert [turn.message.text for turn in await chat.unfinished()] == [
            "patient",
            "impatient",
            "first in line",
        ]

    run(data, work)


def test_an_exception_in_the_block(data: Path) -> None:
    """It ends the turn as interrupted and goes on upwards; a turn taken away ends in the typed error."""

    async def work(memory: AsyncStratalog) -> None:
        chat = memory.session(KEY)
        with pytest.raises(ValueError, match="mine"):
            async with chat.turn("x"):
                raise ValueError("mine")

        async def aborted() -> None:
            async with chat.turn("y") as turn:
                assert await chat.abort()
                await turn.reply("late")

        with pytest.raises(TurnClosed):
            await aborted()
        ends = [entry.status for entry in await chat.entries() if isinstance(entry, TurnEnd)]
        assert ends == ["interrupted", "aborted"]

    run(data, work)


def test_what_a_turn_does_not_take(data: Path) -> None:
    """A misspelt option, or a deadline that is none, is refused before anything is written."""

    async def work(memory: AsyncStratalog) -> None:
        chat = memory.session(KEY)
        with pytest.raises(TypeError):
            async with chat.turn("x", dealine=3):
                pass
        with pytest.raises(InvalidInput):
            async with chat.turn("x", deadline=0):
                pass
        assert await chat.entries() == []

    run(data, work)


def test_closing_finishes_what_was_asked_and_leaves_no_thread(data: Path) -> None:
    """After close every write that was asked for is in the log, and no thread or file is left; closing again
    does nothing."""

    async def main() -> None:
        gc.collect()  # what other tests left must not close its files meanwhile
        files = len(os.listdir("/proc/self/fd"))
        memory = AsyncStratalog(data)
        chat = memory.session(KEY)
        await chat.append(User(content="first"))
        writes = [asyncio.ensure_future(chat.append(User(content=f"{number}"))) for number in range(40)]
        await asyncio.sleep(0)
        await memory.close()
        await asyncio.gather(*writes)
        await memory.close()
        async with AsyncStratalog(data) as again:
            assert len(await again.session(KEY).entries()) == 41
        assert len(os.listdir("/proc/self/fd")) == files

    before = {thread.name for thread in threading.enumerate()}
    asyncio.run(main())
    assert {thread.name for thread in threading.enumerate() if "stratalog" in thread.name} <= before


def test_cancelling_the_whole_program(data: Path) -> None:
    """When the program is cancelled in the middle of turns, what was written is there and the sessions are
    free for the next program."""

    async def main() -> None:
        async with AsyncStratalog(data) as memory:
            chat = memory.session(KEY)
            started = asyncio.Event()

            async def hang() -> None:
                async with chat.turn("hangs") as turn:
                    await turn.reply("half")
                    started.set()
                    await asyncio.sleep(3600)

            task = asyncio.create_task(hang())
            await started.wait()
            task.cancel()

    asyncio.run(main())

    async def work(memory: AsyncStratalog) -> None:
        await take(memory.session(KEY), "next", wait=0)
        assert await memory.session(KEY).unfinished() == []

    run(data, work)
