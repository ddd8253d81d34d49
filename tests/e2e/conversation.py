"""A conversation without end, made of nothing but a number: what the user says, what the model answers and
which tools it calls, and the facts that must outlive every compaction.

Turn `n` is the same in every process. `Scripted` is the model's side of it, behind a `ModelServer`; it counts
every request with the vocabulary itself, so that the engine's own counting is not what it is measured by.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import random
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Sequence
from contextlib import aclosing
from functools import cache
from typing import Any, Final

import msgspec

from stratalog.engine.agents import Agent
from stratalog.engine.aio import AsyncSession
from stratalog.engine.compaction import Compacted
from stratalog.engine.running import Replied, Warned, run
from stratalog.engine.session import Session
from stratalog.engine.tools import AgentTool, tool
from stratalog.ids import new_ulid
from stratalog.models.contract import Event, Model, Request, Shape
from stratalog.testing.model_server import Received
from stratalog.testing.scripted import Call, Reply
from stratalog.tokens.contract import Counter
from stratalog.tokens.exact import exact_counter
from stratalog.types import AnyEntry, Assistant, ToolCall, ToolResult, TurnEnd, TurnStart, User

MODEL: Final = "gpt-4o-scripted"
SUMMARISER: Final = "gpt-4o-summariser"
SYSTEM: Final = "You are the assistant of a small harbour office. Answer briefly, and look things up."
A_MESSAGE: Final = 3  # tokens besides its words, as OpenAI documents it

# Each with the words by which it is known again.
FACTS: Final[tuple[tuple[str, str], ...]] = (
    ("Please remember: my passport number is X1234567.", "X1234567"),
    ("Always answer in metric units.", "metric units"),
    ("My sister Ines lives in Tromsø and works for the customs.", "Ines lives in Tromsø"),
    ("请记住：我的门牌号是海棠路四百一十二号。", "海棠路四百一十二号"),
    ("Never deploy anything on Fridays.", "on Fridays"),
    ("Our vault is called kestrel-vault.", "kestrel-vault"),
    ("我对花生过敏，订餐时请务必避开。", "花生过敏"),
    ("Please remember: the staging server is at 10.42.7.19.", "10.42.7.19"),
    ("We decided to ship the release on 14 March.", "14 March"),
    ("我的女儿叫林晓岚，生日是六月九日。", "林晓岚"),
    ("From now on call me Captain Oyelaran.", "Captain Oyelaran"),
    ("以后代码注释一律用英文。", "代码注释一律用英文"),
    ("Our budget for the year is 73,500 euros.", "73,500 euros"),
    ("I am allergic to penicillin.", "penicillin"),
    ("Please remember: the spare key hangs in boathouse 9.", "boathouse 9"),
)


# --- what is said ---


class Asked(msgspec.Struct, frozen=True):
    """A call of a tool, and what the tool answers."""

    name: str
    args: dict[str, Any]
    result: str

    @property
    def id(self) -> str:
        """The same each time, and as long and as random as a provider's."""
        return f"call_{hashlib.sha256(json.dumps(self.args).encode()).hexdigest()[:24]}"


class Planned(msgspec.Struct, frozen=True):
    """One turn: the user's message, the rounds of calls that the model makes, and its reply."""

    number: int
    message: str
    rounds: tuple[tuple[Asked, ...], ...]
    reply: str

    @property
    def calls(self) -> list[Asked]:
        return [asked for calls in self.rounds for asked in calls]


def planned(number: int, over: int = 300, *, large: int = 20_000) -> Planned:
    """Turn `number`, from 0. The facts are said in the first `over` turns; now and then a result has about
    `large` tokens."""
    chance = random.Random(f"turn {number}")
    said = [_sentence(chance) for _ in range(chance.randint(1, 6))]
    facts = [fact for place, (fact, _) in enumerate(FACTS) if _turn_of(place, over) == number]
    if facts:
        said = [said[0], *facts]
    if chance.random() < 0.2:
        said.append(f"\n```python\n{_code(chance, 3)}\n```")
    rounds: list[tuple[Asked, ...]] = []
    if number % 3:
        shape = chance.choice(((1,), (1,), (2,), (1, 1)))
        size = large if number % 37 == 19 else 0
        for count in shape:
            at = sum(map(len, rounds))
            rounds.append(tuple(_asked(chance, number, at + each, size) for each in range(count)))
            size = 0
    reply = " ".join(_sentence(chance, asks=False) for _ in range(chance.randint(1, 6)))
    return Planned(number, " ".join(said), tuple(rounds), reply)


def facts_said(number: int, over: int = 300) -> list[str]:
    """The marks of the facts that were said in turns up to this one."""
    return [mark for place, (_, mark) in enumerate(FACTS) if _turn_of(place, over) <= number]


def entries(turn: Planned) -> list[AnyEntry]:
    """The turn as the engine would have logged it."""
    name = new_ulid()
    found: list[AnyEntry] = [User(content=turn.message, turn=name), TurnStart(turn=name, holder="made")]
    for calls in turn.rounds:
        response = new_ulid()
        made = [
            ToolCall(call_id=each.id, name=each.name, args=each.args, response=response, turn=name)
            for each in calls
        ]
        found += made
        found += [
            ToolResult(call_id=call.call_id, name=call.name, content=each.result, turn=name)
            for call, each in zip(made, calls, strict=True)
        ]
    found.append(Assistant(content=turn.reply, response=new_ulid(), model=MODEL, turn=name))
    return [*found, TurnEnd(turn=name, status="answered")]


def prefill(session: Session, turns: Iterable[Planned]) -> None:
    """Logs the turns at once, without any model."""
    session.append(*(entry for turn in turns for entry in entries(turn)))


def tools(over: int = 300, *, large: int = 20_000) -> tuple[AgentTool, ...]:
    """The tools that the model calls. Each answers what was planned."""

    def answer(topic: str, page: int) -> str:
        number, place = divmod(page, 10)
        return planned(number, over, large=large).calls[place].result

    return (
        tool(answer, name="look_up", description="Looks a topic up in the office's records."),
        tool(answer, name="read_page", description="Reads one page of a file."),
    )


def _turn_of(place: int, over: int) -> int:
    return (2 * place + 1) * over // (2 * len(FACTS))


_THINGS = [
    "crane",
    "ferry",
    "pilot boat",
    "lantern",
    "north pier",
    "tide gauge",
    "customs form",
    "berth plan",
    "fuel dock",
    "radio mast",
    "weather buoy",
    "cargo list",
    "mooring line",
    "dredger",
    "night shift",
    "invoice run",
    "parser",
    "login page",
    "backup job",
]
_DOES = [
    "stops in the rain",
    "is late again",
    "needs new paint",
    "shows the wrong time",
    "fails at the second step",
    "has no owner any more",
    "was moved to the east side",
    "costs more than it did",
    "does not answer",
    "works only when it is cold",
    "looks different from the drawing",
    "is used by three crews",
]
_ASKS = [
    "Can you find out why the {0} {1}?",
    "Look at the {0} and tell me what you see",
    "What do you think of the {0}, which {1}?",
    "Somebody says that the {0} {1}",
    "Compare the {0} with the {2} for me",
    "I would like a short note about the {0}, for it {1}",
    "Is it true that the {0} {1}, and that the {2} is next?",
]
_SAYS = [
    "The {0} {1}, as far as the records go",
    "It seems that the {0} {1} since week {3}",
    "I looked at the {0} and at the {2}, and they are alike",
    "Nothing is known about the {0}, but the {2} {1}",
    "There were {3} notes on it",
]
_HAN = [
    "码头",
    "渡船",
    "吊车",
    "灯塔",
    "潮汐表",
    "油库",
    "货单",
    "泊位图",
    "天气浮标",
    "夜班",
    "发票",
    "解析器",
    "登录页",
    "备份任务",
    "航标",
    "缆绳",
    "验货员",
    "仓库",
]
_HAN_DOES = [
    "又晚点了",
    "在下雨时停机",
    "要重新刷漆",
    "显示的时间不对",
    "搬到了东边",
    "比去年贵了",
    "没有人负责",
    "只在冷天好用",
]
_HAN_ASKS = [
    "帮我看看{0}为什么{1}？",
    "听说{0}{1}，{2}呢？",
    "{0}和{2}比一比",
    "写一段关于{0}的说明",
    "{0}{1}，怎么回事？",
]
_HAN_SAYS = [
    "{0}{1}，记录里是这样写的",
    "查过了{0}和{2}，差不多",
    "从第{3}周起{0}{1}",
    "{2}没有问题",
]


def _sentence(chance: random.Random, *, asks: bool = True) -> str:
    if chance.random() < 0.3:
        shape = chance.choice(_HAN_ASKS if asks else _HAN_SAYS)
        said = shape.format(
            chance.choice(_HAN), chance.choice(_HAN_DOES), chance.choice(_HAN), chance.randint(2, 52)
        )
        return said if said[-1] in "？" else said + "。"
    shape = chance.choice(_ASKS if asks else _SAYS)
    said = shape.format(
        chance.choice(_THINGS), chance.choice(_DOES), chance.choice(_THINGS), chance.randint(2, 52)
    )
    return said if said[-1] in "?" else said + "."


def _code(chance: random.Random, lines: int) -> str:
    body = [
        f"    {chance.choice('abcxyz')}{at} = berth[{chance.randint(0, 99)}].move({chance.randint(1, 9)})"
        for at in range(lines)
    ]
    return "\n".join([f"def step_{chance.randint(1, 999)}(berth):", *body])


def _asked(chance: random.Random, number: int, place: int, size: int) -> Asked:
    name = chance.choice(("look_up", "read_page"))
    args = {"topic": chance.choice(_THINGS + _HAN), "page": number * 10 + place}
    kind = number // 37 % 2 if size else chance.randint(0, 2)
    lines = size // _A_LINE[kind] if size else chance.randint(2, 22)
    return Asked(name, args, _result(chance, kind, lines))


_A_LINE = (17, 20, 14)  # tokens


def _result(chance: random.Random, kind: int, lines: int) -> str:
    """JSON, plain lines, or code."""
    match kind:
        case 0:
            rows = [
                {"at": at, "what": chance.choice(_THINGS), "tons": chance.randint(1, 999)}
                for at in range(lines)
            ]
            return json.dumps({"rows": rows})
        case 1:
            return "\n".join(f"{at}: {_sentence(chance, asks=False)}" for at in range(lines))
        case _:
            return _code(chance, lines)


# --- the model ---


class Scripted:
    """The script of a `ModelServer`: the planned turns in order, under `MODEL`; under `SUMMARISER` summaries
    that hold every fact of what they are made of.

    `compacted` is set by who runs the turns when a compaction was written, and excepts the next request from
    `shares`: what part of a request's messages the next one begins with. `kept` are, of the last request, how
    many facts it has of those said; `least` the fewest that one had, with its turn. `requests` and `most`
    count the model's requests and the largest one's tokens; `summaries` those to the summariser.
    """

    def __init__(self, turns: Iterable[Planned], over: int = 300, *, shares: bool = False) -> None:
        self._steps = _steps(turns)
        self._over = over
        self._measures = shares
        self._before: tuple[bytes, bytes] = (b"", b"")
        self.shares: list[float] = []
        self.compacted = False
        self.requests = self.summaries = self.most = 0
        self.kept = (0, 0)
        self.least = (len(FACTS), len(FACTS), -1)

    def __call__(self, received: Received) -> Reply:
        if received.body["model"] == SUMMARISER:
            self.summaries += 1
            return Reply(text=_summary(received))
        number, reply = next(self._steps)
        self.requests += 1
        self.most = max(self.most, received.tokens)
        self._look(received, number)
        if self._measures:
            self._share(received.raw)
        return reply

    def _look(self, received: Received, number: int) -> None:
        text = "\n".join(strings([received.body.get("system"), received.body["messages"]]))
        said = facts_said(number, self._over)
        kept = sum(mark in text for mark in said)
        self.kept = (kept, len(said))
        if len(said) - kept > self.least[1] - self.least[0]:
            self.least = (kept, len(said), number)

    def _share(self, raw: bytes) -> None:
        now = sent(raw)
        if self._before[1] and not self.compacted:
            same = now[0] == self._before[0]
            self.shares.append(shared(self._before[1], now[1]) if same else 0.0)
        self.compacted, self._before = False, now


class _Sent(msgspec.Struct):
    messages: msgspec.Raw
    system: msgspec.Raw = msgspec.Raw(b"")


def sent(raw: bytes) -> tuple[bytes, bytes]:
    """The system's blocks, where they stand beside them, and the messages, as they are in the body, without
    the bracket that closes the list and without Anthropic's marks, which are no part of what is cached."""
    body = msgspec.json.decode(raw, type=_Sent)
    mark = b',"cache_control":{"type":"ephemeral"}'
    system, listed = (bytes(part).replace(mark, b"") for part in (body.system, body.messages))
    return system, listed.rstrip()[:-1]


def shared(before: bytes, after: bytes) -> float:
    """The part of `before` with which `after` begins."""
    low, high = 0, min(len(before), len(after))
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if before[:middle] == after[:middle] else (low, middle - 1)
    return low / len(before)


@cache
def _counter() -> Counter:
    return exact_counter("gpt-4o")


def tokens(body: dict[str, Any]) -> int:
    """A request's tokens by the vocabulary itself: every string in its messages, its tools as they are
    written, and a little for each message."""
    said = [body.get("system"), body.get("messages", [])]
    written = [json.dumps(each, ensure_ascii=False) for each in body.get("tools", [])]
    counted = sum(map(_counter().count_text, (*strings(said), *written)))
    return counted + A_MESSAGE * len(body.get("messages", []))


def counting(window: int, summariser: int) -> Callable[[dict[str, Any]], int]:
    """`tokens` for a server of the window, in which the summariser's own is another."""
    more = window - summariser
    return lambda body: tokens(body) + (more if body["model"] == SUMMARISER else 0)


def strings(value: Any) -> Iterator[str]:
    """Every string in a JSON value, but keys."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list | tuple):
        for each in value.values() if isinstance(value, dict) else value:
            yield from strings(each)


def _steps(turns: Iterable[Planned]) -> Iterator[tuple[int, Reply]]:
    for turn in turns:
        for calls in turn.rounds:
            yield turn.number, Reply(calls=tuple(Call(each.name, each.args, each.id) for each in calls))
        yield turn.number, Reply(text=turn.reply)


def _summary(received: Received) -> str:
    """The facts in the prompt, each a line, and a word on the rest."""
    text = "\n".join(strings(received.body["messages"]))
    lines = [f"* {fact}" for fact, mark in FACTS if mark in text]
    return "\n".join([*lines, "The user had things of the harbour looked up, and was answered."])


# --- the talk ---


class Told(msgspec.Struct):
    """What became of a talk; `wrong` are the turns that were not answered as planned."""

    turns: int = 0
    compactions: int = 0
    stood_in: list[str] = msgspec.field(default_factory=list)
    warnings: list[str] = msgspec.field(default_factory=list)
    wrong: list[int] = msgspec.field(default_factory=list)


async def talk(
    session: AsyncSession, agent: Agent, turns: Iterable[Planned], script: Scripted | None, told: Told
) -> None:
    """Runs the turns, one after another."""
    for turn in turns:
        said = ""
        async with aclosing(run(session, agent, turn.message)) as events:
            async for event in events:
                match event:
                    case Compacted():
                        told.compactions += 1
                        if event.stood_in:
                            told.stood_in.append(event.stood_in)
                        if script is not None:
                            script.compacted = True
                    case Warned():
                        told.warnings.append(event.reason)
                    case Replied():
                        said = event.reply.text
        told.turns += 1
        if said != turn.reply:
            told.wrong.append(turn.number)
        await asyncio.sleep(0)


def lost(session: Session, turns: Sequence[Planned]) -> list[str]:
    """What of the planned turns the log has not, word for word and in order, or has besides."""
    kinds = (User, Assistant, ToolCall, ToolResult)
    by_turn: dict[str, list[AnyEntry]] = {}
    for entry in session.entries():
        if isinstance(entry, kinds):
            by_turn.setdefault(entry.turn, []).append(entry)
    problems = [f"{len(by_turn)} turns for {len(turns)}"] if len(by_turn) != len(turns) else []
    for turn, found in zip(turns, by_turn.values(), strict=False):
        said = [entry.text for entry in found if isinstance(entry, User)]
        replies = [entry.text for entry in found if isinstance(entry, Assistant) and entry.content]
        calls = [entry.args for entry in found if isinstance(entry, ToolCall)]
        results = sorted(entry.text for entry in found if isinstance(entry, ToolResult))
        if said != [turn.message]:
            problems.append(f"turn {turn.number}: the message")
        if replies != [turn.reply]:
            problems.append(f"turn {turn.number}: the reply")
        if calls != [each.args for each in turn.calls]:
            problems.append(f"turn {turn.number}: the calls")
        # Parallel results are logged in the order in which they come.
        if results != sorted(each.result for each in turn.calls):
            problems.append(f"turn {turn.number}: the results")
    return problems


class Watched:
    """A model that tells how long its requests took, in `seconds`; `made` counts them."""

    def __init__(self, model: Model, clock: Callable[[], float]) -> None:
        self.shape: Shape = model.shape
        self._model = model
        self._clock = clock
        self.seconds = 0.0
        self.made = 0

    async def stream(self, request: Request) -> AsyncGenerator[Event, None]:
        self.made += 1
        start = self._clock()
        try:
            async with aclosing(self._model.stream(request)) as events:
                async for event in events:
                    yield event
        finally:
            self.seconds += self._clock() - start
