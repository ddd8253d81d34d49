"""The chat itself: where lines come from, and how each is done until it ends or Ctrl-C ends it.

Lines are read in the main thread between two runs of the one event loop. So Ctrl-C in a line is Python's own,
and Ctrl-C while something is done cancels just that, once, so that it can end in good order.
"""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Callable, Coroutine
from contextlib import ExitStack, suppress
from typing import Any, Literal

import msgspec

from stratalog import SessionKey, parse_key, session_key
from stratalog.config import Settings, load_settings
from stratalog.engine import Problem
from stratalog.engine.agent_memory import memory_of
from stratalog.engine.agents import Agent
from stratalog.engine.aio import AsyncStratalog
from stratalog.engine.continuing import resolve
from stratalog.engine.core import default_data
from stratalog.engine.remembering import Records
from stratalog.engine.seeing import room_of
from stratalog.engine.upkeep import upkeep
from stratalog.errors import (
    Conflict,
    InvalidConfig,
    InvalidKey,
    NotFound,
    StorageFailed,
    StratalogError,
)
from stratalog.ids import new_ulid
from stratalog.surfaces.cli.choosing import agent_for
from stratalog.surfaces.cli.failures import INTERRUPTED, OK, WRONG
from stratalog.surfaces.cli.keys import new_key
from stratalog.surfaces.cli.output import Output
from stratalog.surfaces.cli.showing import error_value, tell_error
from stratalog.surfaces.cli.slashes import Chat, continued
from stratalog.surfaces.cli.state import State, place_of

_AGENT, _CHANNEL = "assistant", "cli"  # of a chat without a name


class Wished(msgspec.Struct, frozen=True, kw_only=True):
    """What the command line says; "" and None for nothing."""

    key: str = ""
    model: str = ""
    base_url: str = ""
    system: str = ""
    old: str = ""
    window: int | None = None
    user: str = ""
    memory: bool = True


def wished(**fields: str | int | bool | None) -> Wished:
    """`Wished`, with nothing for what is None."""
    return msgspec.convert({name: value for name, value in fields.items() if value is not None}, Wished)


def converse(state: State, wish: Wished, edit_lines: Callable[[], None]) -> int:
    """Holds a chat until it is left, and returns the exit code. `edit_lines` is called before lines are read
    that a person types. Raises what opening the chat raises."""
    with asyncio.Runner() as runner, ExitStack() as closing:
        memory = _memory_of(state, wish, settings=None)
        agent: Agent | None = None
        try:
            key, old = _keys(memory, wish)
            settings = memory.sync.settings_of(key.agent)
            agent = agent_for(settings, model=wish.model, base_url=wish.base_url, system=wish.system)
            if wish.window is not None:
                runner.run(memory.close())
                memory = _memory_of(state, wish, settings=_windowed(state, agent, wish.window))
            if wish.memory and settings.memory.enabled:
                agent = _minded(memory, agent, settings, wish.user, closing)
            chat = Chat(state.output, memory, agent, memory.session(key))
            return _Conversation(runner, chat, _Lines(state.output, edit_lines)).held(wish.window, old)
        finally:
            closing.close()
            runner.run(_closed(memory, agent))


def _minded(memory: AsyncStratalog, agent: Agent, settings: Settings, user: str, closing: ExitStack) -> Agent:
    """The agent with what is remembered of the user. Where a model draws from what is said, it does so in the
    background, or, where that cannot be, after each reply."""
    records = closing.enter_context(Records(memory.sync))
    mind = memory_of(records, settings, user=user)
    if mind.draws:
        try:
            closing.enter_context(upkeep(memory.sync))
            mind.later = True
        except Conflict:  # another process does it, and will do this too
            mind.later = True
        except InvalidConfig:
            mind.later = False
    minded: Agent = msgspec.structs.replace(agent, mind=mind)
    return minded


def _memory_of(state: State, wish: Wished, *, settings: Settings | None) -> AsyncStratalog:
    return AsyncStratalog(state.data, tenant=state.tenant or "local", settings=settings)


def _windowed(state: State, agent: Agent, window: int) -> Settings:
    """The settings with this window for the agent's model."""
    settings = load_settings(state.data or default_data())
    windows = {**settings.windows, agent.model.name: window}
    changed: Settings = msgspec.structs.replace(settings, windows=windows)
    return changed


async def _closed(memory: AsyncStratalog, agent: Agent | None) -> None:
    if agent is not None:
        await agent.close()
    await memory.close()


def _keys(memory: AsyncStratalog, wish: Wished) -> tuple[SessionKey, SessionKey | None]:
    """The chat's key, and that of the session that it goes on from, if it does."""
    fresh = new_ulid().lower()
    if wish.old:
        old = resolve(memory.sync, wish.old)
        return new_key(old, wish.key or fresh), old
    if not wish.key:
        return session_key(_AGENT, _CHANNEL, fresh, memory.sync.tenant), None
    try:
        return resolve(memory.sync, wish.key), None
    except NotFound:
        with suppress(InvalidKey):
            return parse_key(wish.key, memory.sync.tenant), None  # a whole key is that of a new chat
        raise


class _Lines:
    """Where messages come from: a terminal, with a prompt, or a pipe."""

    def __init__(self, out: Output, edit_lines: Callable[[], None]) -> None:
        self._out = out
        self.asked = sys.stdin is not None and sys.stdin.isatty()
        self._edited = self.asked and out.tty and not out.json
        if hasattr(sys.stdin, "reconfigure"):
            sys.stdin.reconfigure(errors="replace")
        if self._edited:
            edit_lines()

    def next(self) -> str | None:
        """The next message, of as many lines as end in a backslash and one; None at the end."""
        parts: list[str] = []
        while (line := self._line("... " if parts else "> ")) is not None:
            if not line.endswith("\\"):
                return "\n".join([*parts, line])
            parts.append(line[:-1])
        return "\n".join(parts) if parts else None

    def _line(self, prompt: str) -> str | None:
        if self._edited:
            try:
                return input(prompt)
            except EOFError:
                self._out.tell("")
                return None
        if self.asked:
            self._out.err.print(prompt, end="")
        line = sys.stdin.readline() if sys.stdin is not None else ""
        return line.rstrip("\r\n") if line else None


class _Conversation:
    def __init__(self, runner: asyncio.Runner, chat: Chat, lines: _Lines) -> None:
        self._runner = runner
        self._chat = chat
        self._out = chat.out
        self._lines = lines
        self._told: set[Problem] = set()
        self._failed = False

    def held(self, window: int | None, old: SessionKey | None) -> int:
        """Does one line after the other; the exit code."""
        chat, out = self._chat, self._out
        if old is not None:
            self._runner.run(continued(chat, old, chat.session.key))
        self._check_window(window)
        self._runner.run(chat.opened())
        self._tell_problems()
        if self._lines.asked:
            out.tell(f"{chat.agent.model.name} answers; /help lists the commands")
        hinted = False
        while not chat.left:
            try:
                line = self._lines.next()
            except KeyboardInterrupt:
                if hinted or not self._lines.asked:
                    return INTERRUPTED
                hinted = True
                out.tell("\nCtrl-C once more leaves; so do Ctrl-D and /quit")
                continue
            hinted = False
            if line is None:
                break
            if line.strip() and self._done(line) == "stopped" and not self._lines.asked:
                return INTERRUPTED
        if self._lines.asked and chat.session.sync.exists:
            out.tell(f"`stratalog chat {out.line(chat.session.key.local)}` goes on with it")
        return WRONG if self._failed and not self._lines.asked else OK

    def _done(self, line: str) -> Literal["done", "failed", "stopped"]:
        """Does what the line says. An error is told, and the chat goes on."""
        try:
            self._runner.run(_stoppable(self._chat.take(line)))
        except (asyncio.CancelledError, KeyboardInterrupt):
            # On a terminal `^C` stands where the cursor is.
            self._out.tell(f"{chr(10) if self._lines.asked else ''}stopped; what came before is kept")
            return "stopped"
        except StratalogError as error:
            if isinstance(error, StorageFailed) and "path" not in error.where:
                raise  # it is the output that cannot be written
            self._failed = True
            tell_error(self._out, error)
            if self._out.json:
                self._chat.line({"key": str(self._chat.session.key), **error_value(error)})
            return "failed"
        finally:
            self._tell_problems()
        return "done"

    def _tell_problems(self) -> None:
        for problem in self._chat.memory.sync.problems:
            if problem not in self._told:
                self._told.add(problem)
                self._out.warn(f"{problem.reason} [{place_of(problem)}]")

    def _check_window(self, wanted: int | None) -> None:
        name, settings = self._chat.agent.model.name, self._chat.session.sync.settings
        has = room_of(name, settings).window.window
        if wanted is not None and has != wanted:
            self._out.warn(f"agent.toml says another window for {name}, which counts: {has:,}")


async def _stoppable(work: Coroutine[Any, Any, None]) -> None:
    """Does the work; the first Ctrl-C cancels it, and those after it change nothing."""
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None
    pressed: list[None] = []

    def stop() -> None:
        if not pressed:
            pressed.append(None)
            task.cancel()

    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # a job in the background is not for Ctrl-C
        await work
        return
    loop.add_signal_handler(signal.SIGINT, stop)
    try:
        await work
    finally:
        loop.remove_signal_handler(signal.SIGINT)
