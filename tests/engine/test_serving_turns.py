"""engine/serving_turns.py: how a message is accepted and answered, without a surface."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from stratalog.engine.agents import Agent
from stratalog.engine.aio import AsyncSession
from stratalog.engine.serving import Serving, Tenancy
from stratalog.engine.serving_streams import Done, Failed, Paused
from stratalog.engine.serving_turns import Turns, _Line
from stratalog.engine.session import Session
from stratalog.errors import StorageFailed
from stratalog.ids import new_ulid, now_ms
from stratalog.keys import session_paths
from stratalog.types import TurnEnd

Body = Callable[[Turns, Tenancy, AsyncSession], Awaitable[None]]


class Refusing(Tenancy):
    """A tenancy in which nobody can be got to answer, once a message is accepted."""

    async def agent(self, name: str, *, session: Session | None = None, user: str = "") -> Agent:
        raise StorageFailed("the disk is gone")


@pytest.fixture
def data(tmp_path: Path) -> Path:
    (tmp_path / "stratalog.toml").write_text('model = "extractive"\n[memory]\nenabled = false\n')
    return tmp_path


def served(data: Path, body: Body, *, at_once: int = 4) -> None:
    """Runs `body` with turns over the data directory, and a session that has one answered turn."""

    async def run() -> None:
        serving = Serving(data, threads=4)
        try:
            turns, tenancy = Turns(serving, at_once=at_once), serving.of("local")
            session = tenancy.front.session("a:http:c")
            await answered(turns, tenancy, session, "The ferry leaves at seven.")
            await body(turns, tenancy, session)
        finally:
            await serving.close()

    asyncio.run(run())


async def answered(turns: Turns, tenancy: Tenancy, session: AsyncSession, words: str) -> Done:
    accepted = await turns.say(tenancy, session, words)
    assert accepted is not None
    assert accepted.stream is not None
    ending = await accepted.stream.ended()
    assert isinstance(ending, Done)
    await quiet(turns)
    return ending


async def quiet(turns: Turns) -> None:
    while turns.running or turns._tasks:
        await asyncio.sleep(0.001)


def last_append(data: Path, session: AsyncSession, entry_type: str) -> bytes:
    """The last line of this type of entry in the log."""
    lines = session_paths(data, session.key).log.read_bytes().splitlines()
    return next(line for line in reversed(lines) if f'"type":"{entry_type}"'.encode() in line)


def test_a_message_to_a_free_session_is_logged_with_the_start_of_its_turn(data: Path) -> None:
    """One append makes both durable; a message that has to wait is logged alone."""

    async def body(turns: Turns, tenancy: Tenancy, session: AsyncSession) -> None:
        await answered(turns, tenancy, session, "When does the ferry leave?")
        assert b'"more":' in last_append(data, session, "user")
        first, second = await asyncio.gather(
            *(turns.say(tenancy, session, words) for words in ("one", "two"))
        )
        assert first is not None
        assert second is not None
        assert (first.position, second.position) == (0, 1)
        assert b'"more":' not in last_append(data, session, "user")
        assert second.stream is not None
        assert isinstance(await second.stream.ended(), Done)
        await quiet(turns)
        assert turns._room._value == 4

    served(data, body)


def test_a_message_while_the_room_is_full_waits_without_holding_its_session(data: Path) -> None:
    """With no place free a message is accepted, its turn not begun, and answered when there is one."""

    async def body(turns: Turns, tenancy: Tenancy, session: AsyncSession) -> None:
        await turns._room.acquire()
        accepted = await turns.say(tenancy, session, "Hello?")
        assert accepted is not None
        assert accepted.stream is not None
        assert (await turns.state(session, accepted.turn)).status == "queued"
        turns._room.release()
        assert isinstance(await accepted.stream.ended(), Done)

    served(data, body, at_once=1)


def test_a_turn_that_nobody_can_be_got_to_answer_ends_and_lets_its_session_go(data: Path) -> None:
    """What comes between a turn's start and who would answer it ends the turn as interrupted, and the next
    message is answered."""

    async def body(turns: Turns, tenancy: Tenancy, session: AsyncSession) -> None:
        accepted = await turns.say(Refusing(tenancy.front), tenancy.front.session(session.key), "Hello?")
        assert accepted is not None
        assert accepted.stream is not None
        # The line keeps the tenancy that it was made with.
        assert isinstance(await accepted.stream.ended(), Done)
        other = tenancy.front.session("a:http:other")
        refusing = Refusing(tenancy.front)
        for _ in range(2):  # the first of a session is begun after it was logged, the second with it
            accepted = await turns.say(refusing, other, "Hello?")
            assert accepted is not None
            assert accepted.stream is not None
            ending = await accepted.stream.ended()
            assert isinstance(ending, Failed)
            assert (ending.status, ending.error) == ("interrupted", "StorageFailed")
            await quiet(turns)
        ends = [each.status for each in other.sync.entries() if isinstance(each, TurnEnd)]
        assert ends == ["interrupted", "interrupted"]
        assert not other.sync.busy
        assert turns._room._value == 4

    served(data, body)


def test_a_turn_that_began_when_the_service_ends_is_left_to_the_next(data: Path) -> None:
    """A message accepted just before the end is told as paused, and answered by who serves next."""
    turn = ""

    async def body(turns: Turns, tenancy: Tenancy, session: AsyncSession) -> None:
        nonlocal turn
        asked = asyncio.create_task(turns.say(tenancy, session, "Hello?"))
        await asyncio.sleep(0)
        turns.draining = True  # while it is being logged
        accepted = await asked
        assert accepted is not None
        assert accepted.stream is not None
        assert accepted.stream.ending == Paused(turn=accepted.turn, status="started")
        turn = accepted.turn

    async def next_one() -> None:
        serving = Serving(data, threads=4)
        try:
            turns = Turns(serving)
            assert await turns.recover() == 1
            await quiet(turns)
            session = serving.of("local").front.session("a:http:c")
            assert (await turns.state(session, turn)).status == "answered"
        finally:
            await serving.close()

    served(data, body)
    asyncio.run(next_one())


def test_keys_of_more_than_a_day_ago_are_given_up(data: Path) -> None:
    """A line knows the requests of a day, and not all that its session ever had."""

    async def body(turns: Turns, tenancy: Tenancy, session: AsyncSession) -> None:
        line, day = _Line(tenancy, session), 86_400_000
        old = {f"old {number}": (new_ulid(now_ms() - 2 * day), "") for number in range(900)}
        line.remember(old)
        line.remember({"no turn of ours": ("t", "")})
        assert len(line.requests) == 901
        new = {f"new {number}": (new_ulid(), "") for number in range(600)}
        line.remember(new)
        assert line.requests == new
        assert line.most == 1_200

    served(data, body)
