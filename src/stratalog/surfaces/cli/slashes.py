"""What can be done in a chat: saying something, and the commands that begin with a slash."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import aclosing
from typing import Final, NamedTuple

import msgspec

from stratalog import SessionKey
from stratalog.engine import OpenTurn, SessionMeta
from stratalog.engine.agents import Agent, offered, policy_of
from stratalog.engine.aio import AsyncSession, AsyncStratalog
from stratalog.engine.compaction import Nothing
from stratalog.engine.continuing import continue_async, resolve
from stratalog.engine.leaving import reason
from stratalog.engine.running import Event, resume, run
from stratalog.engine.seeing import room_of
from stratalog.engine.serving import compacted
from stratalog.errors import Ambiguous, InvalidInput, NotFound, SessionBusy
from stratalog.ids import new_ulid
from stratalog.surfaces.cli.bar import Stretch, print_bar
from stratalog.surfaces.cli.choosing import asked_of
from stratalog.surfaces.cli.keys import new_key
from stratalog.surfaces.cli.output import Output
from stratalog.surfaces.cli.plain import clipped, counted, safe_json, unicode_text
from stratalog.surfaces.cli.showing import Shown, folded
from stratalog.surfaces.cli.times import minute
from stratalog.surfaces.cli.transcript import words_on_a_line
from stratalog.types import Assistant, User, is_injected

_LISTED: Final = 8
_BRIEF: Final = 240  # graphemes of a message


class Chat:
    """A chat under way: which session it is in, and who answers there."""

    def __init__(self, out: Output, memory: AsyncStratalog, agent: Agent, session: AsyncSession) -> None:
        self.out = out
        self.memory = memory
        self.agent = agent
        self.session = session
        self.left = False  # whether the user has left it

    async def take(self, line: str) -> None:
        """Does what a line says: a command, or a message. Raises what doing it raises."""
        if not line.startswith("/") or line.startswith("//"):
            await self.say(line[1:] if line.startswith("//") else line)
            return
        name, _, words = line[1:].partition(" ")
        command = COMMANDS.get(name)
        if command is None:
            raise InvalidInput(
                "there is no such command",
                command=f"/{name}",
                hint=f"/help lists them; //{name} says /{name}",
            )
        await command.run(self, words.strip())

    async def say(self, text: str) -> None:
        """Sends a message and shows the reply."""
        try:
            await self._shown(run(self.session, self.agent, text, wait=0))
        except SessionBusy:
            # The message is in the log already, the last of those that wait.
            unfinished = await self.session.unfinished()
            waiting = [turn for turn in unfinished if not turn.started and turn.message.text == text]
            if not waiting:
                raise
            self.out.tell("another turn of this session is running: this one waits for it, Ctrl-C stops that")
            await self._shown(resume(self.session, self.agent, waiting[-1].turn))

    async def opened(self) -> None:
        """Says of a session that is there already what it is, what was not finished in it, and whether the
        model may not answer there."""
        session = self.session.sync
        if not session.exists:
            self.out.tell(f"new chat {session.key.local}")
            return
        self.out.tell(f'{session.key.local} "{self.out.title(session.meta.title)}"')
        for line in self._last_exchange():
            self.out.tell(line)
        busy = session.busy
        for turn in session.unfinished():
            self.out.tell(self._unfinished(turn, busy))
        denied = reason(session, self.agent.model)
        if denied:
            self.out.warn(denied)

    async def _shown(self, events: AsyncGenerator[Event, None]) -> None:
        shown = Shown(self.out)
        try:
            async with aclosing(events):
                async for event in events:
                    shown.take(event)
        finally:
            shown.end()
        if self.out.json and shown.replied is not None:
            reply = shown.replied.reply
            self.line(
                {
                    "key": str(self.session.key),
                    "reply": unicode_text(shown.reply),
                    "usage": reply.usage,
                    "tokens": shown.replied.tokens,
                    "compacted": shown.compacted,
                }
            )

    def line(self, value: dict[str, object]) -> None:
        """One line of JSON, at once."""
        text = safe_json(msgspec.json.encode(value).decode(), self.out.encoding)
        self.out.raw([f"{text}\n".encode(self.out.encoding, "backslashreplace")])
        self.out.flush()

    def _last_exchange(self) -> list[str]:
        """The last message that somebody wrote, and what was last said to it, each on a line."""
        answer: list[str] = []
        for entry in self.session.sync.entries(reverse=True):
            if isinstance(entry, Assistant) and entry.text and not answer:
                answer = [self._brief(entry)]
            elif isinstance(entry, User) and not is_injected(entry):
                return [self._brief(entry), *answer]
        return answer

    def _brief(self, entry: User | Assistant) -> str:
        return f"  {clipped(self.out.line(words_on_a_line(entry)), _BRIEF, self.out.glyphs.more)}"

    def _unfinished(self, turn: OpenTurn, busy: bool) -> str:
        words = clipped(self.out.line(turn.message.text), 60, self.out.glyphs.more)
        if turn.started and busy:
            return f'being answered by another process: "{words}"; your next message waits for its end'
        if turn.started:
            what = "/resume goes on with it, your next message closes it as interrupted"
            return f'not finished: "{words}"; {what}'
        return f'not answered yet: "{words}"; it waits until /resume answers it'


class Command(NamedTuple):
    """What a command does, what may be said after it, and how it is explained."""

    run: Callable[[Chat, str], Awaitable[None]]
    takes: str
    help: str


async def _help(chat: Chat, words: str) -> None:
    for name, command in COMMANDS.items():
        chat.out.print(f"{f'/{name} {command.takes}'.strip():<16}  {command.help}")
    chat.out.print(f"{'//TEXT':<16}  Say /TEXT.")
    chat.out.print(f"{'TEXT ' + chr(92):<16}  Go on in the next line.")


async def _restart(chat: Chat, words: str) -> None:
    done = await chat.session.restart()
    if done.done:
        chat.out.tell("restarted: the history begins anew")
        return
    chat.out.tell(
        "a turn of this session is running elsewhere: "
        f"/restart once more within {done.confirm_within:g} seconds ends it and restarts"
    )


async def _continue(chat: Chat, words: str) -> None:
    memory, current = chat.memory.sync, chat.session.key
    old = resolve(memory, words) if words else _only_other(chat)
    fresh = current if not chat.session.sync.exists else new_key(current, new_ulid().lower())
    await continued(chat, old, fresh)


async def continued(chat: Chat, old: SessionKey, new: SessionKey) -> None:
    """Goes on in `new`, which begins where `old` is. Raises what `continue_async` raises."""
    settings = chat.memory.sync.settings_of(new.agent)
    name = chat.agent.model.name
    asked = asked_of(chat.agent, settings)
    made = await continue_async(
        chat.memory.sync,
        old,
        new,
        summarise=asked.summarise,
        by=asked.by,
        policy=policy_of(settings, room_of(name, settings)),
    )
    chat.session = chat.memory.session(new)
    what = made.inherit.replace("_", " ")
    chat.out.tell(f"{new.local} goes on from {old.local} with its {what}: {made.why}")
    if made.stood_in:
        chat.out.warn(f"the summary was made without the model: {made.stood_in}")


def _only_other(chat: Chat) -> SessionKey:
    """The one other session of this agent and channel to go on from.

    Those count that were written to so lately that more than working memory would be inherited; where there
    are none of them, all do. Raises `NotFound`, and `Ambiguous` where it could be several.
    """
    memory, current = chat.memory.sync, chat.session.key
    page = memory.sessions(agent=current.agent, channel=current.channel)
    others = [each for each in page.sessions if each.key != str(current) and _has_something(each)]
    since = time.time() * 1000 - memory.settings_of(current.agent).continuing.summary * 1000
    others = [each for each in others if each.updated_at >= since] or others
    if not others:
        raise NotFound("there is no other chat to go on from", agent=current.agent, channel=current.channel)
    if len(others) == 1:
        return memory.session(others[0].key).key
    others.sort(key=lambda each: each.updated_at, reverse=True)
    listed = [_listed(chat, each) for each in others[:_LISTED]]
    if len(others) > _LISTED:
        listed.append(f"and {len(others) - _LISTED} more")
    raise Ambiguous(
        f"this could go on from any of {len(others)} chats", candidates=listed, hint="name one: /continue OLD"
    )


def _has_something(meta: SessionMeta) -> bool:
    return bool(meta.messages or meta.working_memory or meta.facts)


def _listed(chat: Chat, meta: SessionMeta) -> str:
    key = chat.memory.sync.session(meta.key).key.local
    return f'{key} "{chat.out.title(meta.title)}" {minute(meta.updated_at)}'


async def _compact(chat: Chat, words: str) -> None:
    made = await compacted(chat.session.sync, chat.agent)
    if isinstance(made, Nothing):
        chat.out.tell(f"nothing to compact: {made.reason} ({made.tokens:,} tokens)")
    else:
        chat.out.tell(folded(chat.out, made))


async def _context(chat: Chat, words: str) -> None:
    out, session, name = chat.out, chat.session.sync, chat.agent.model.name
    room = room_of(name, session.settings)
    context = await chat.session.context(
        system=chat.agent.system or None,
        model=name,
        tools=offered(chat.agent),
        memory=chat.agent.memory,
    )
    stretches = [Stretch(part.name, part.tokens, part.left_out) for part in context.sections]
    print_bar(out, stretches, context.budget, context.turns_left_out)
    out.print(
        f"{name}: a window of {room.window.window:,} tokens, {room.reserve:,} of them kept for the reply"
    )
    if context.degraded:
        out.print("degraded: it would not fit whole")
    usage = next((each.usage for each in _replies(chat) if each.usage is not None), None)
    if usage is not None:
        out.print(f"the last reply reported {usage.input:,} tokens read and {usage.output:,} written")


def _replies(chat: Chat) -> Iterator[Assistant]:
    """What the model said, the newest first."""
    if chat.session.sync.exists:
        for entry in chat.session.sync.entries(reverse=True, blobs=False):
            if isinstance(entry, Assistant):
                yield entry


async def _memory(chat: Chat, words: str) -> None:
    meta = await chat.session.meta()
    for key, value in meta.working_memory.items():
        chat.out.print(chat.out.line(f"{key} = {msgspec.json.encode(value).decode()}"))
    for fact in meta.facts:
        chat.out.print(chat.out.line(f"- {fact}"))
    chat.out.tell(f"{counted(len(meta.working_memory), 'value')}, {counted(len(meta.facts), 'fact')}")


async def _title(chat: Chat, words: str) -> None:
    meta = await (chat.session.set_title(words) if words else chat.session.meta())
    chat.out.tell(f'titled "{chat.out.title(meta.title)}"')


async def _resume(chat: Chat, words: str) -> None:
    turns = await chat.session.unfinished()
    if not turns:
        raise NotFound("every message here was answered", key=str(chat.session.key))
    await chat._shown(resume(chat.session, chat.agent, turns[0].turn, wait=0))


async def _quit(chat: Chat, words: str) -> None:
    chat.left = True


COMMANDS: Final[dict[str, Command]] = {
    "help": Command(_help, "", "List the commands."),
    "restart": Command(_restart, "", "Begin the history anew."),
    "continue": Command(_continue, "[OLD]", "Go on in a new chat from another one."),
    "compact": Command(_compact, "", "Fold what is old into a summary."),
    "context": Command(_context, "", "Show what the model would be given."),
    "memory": Command(_memory, "", "Show working memory and facts."),
    "title": Command(_title, "[TEXT]", "Name the chat, or show its name."),
    "resume": Command(_resume, "", "Go on with what was not finished."),
    "quit": Command(_quit, "", "Leave. So does Ctrl-D."),
}
