"""context/budget.py: the context fits its budget by its own counter, or a typed error says why it cannot."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from context.histories import chat_is_strict, histories
from stratalog.context.budget import NOTICE, Context, Limits, fit, quotation, stay
from stratalog.context.shapes.contract import Tool
from stratalog.context.shapes.openai_chat import OpenAIChatShape
from stratalog.context.view import View, view
from stratalog.errors import ContextOverflow
from stratalog.tokens.contract import Level
from stratalog.tokens.exact import exact_counter
from stratalog.tokens.families import family_of
from stratalog.tokens.rough import Rough
from stratalog.types import (
    AnyEntry,
    Assistant,
    Compaction,
    Image,
    Reasoning,
    System,
    Text,
    ToolCall,
    ToolResult,
    User,
)


class Length:
    """A counter that is easy to predict: 10 for each entry, and what its text is long."""

    name = "length"
    level: Level = "exact"
    is_estimate = False

    def count_text(self, text: str) -> int:
        return len(text)

    def count_entry(self, entry: AnyEntry) -> int:
        return 10 + len(getattr(entry, "text", getattr(entry, "summary", "")))

    def count_tools(self, tools: Iterable[Mapping[str, Any]]) -> int:
        return sum(len(tool["description"]) for tool in tools)


LENGTH = Length()
EXACT = exact_counter("gpt-4o")


def seen(*entries: AnyEntry) -> View:
    return view(msgspec.structs.replace(entry, seq=seq, id=f"e{seq}") for seq, entry in enumerate(entries, 1))


def fitted(whole: View, hard: int, **limits: Any) -> Context:
    return fit(whole, Limits(hard=hard, **limits), LENGTH)


def tokens_of(context: Context) -> dict[str, int]:
    return {section.name: section.tokens for section in context.sections}


LIMITS = st.fixed_dictionaries(
    {"hard": st.integers(-5, 400)},
    optional={
        "soft": st.integers(1, 400),
        "keep_turns": st.integers(1, 4),
        "over": st.sampled_from(["degrade", "raise"]),
        **{
            name: st.integers(0, 200)
            for name in ("system", "memory", "summary", "recent", "recalled", "message")
        },
    },
)
TEXTS = st.lists(st.text("ab \n", max_size=60), max_size=3)


@given(histories(), LIMITS, TEXTS, TEXTS, st.integers(0, 60))
def test_a_context_never_exceeds_its_limits(
    entries: list[AnyEntry], limits: dict[str, Any], memory: list[str], recalled: list[str], schema: int
) -> None:
    """For any history and limits: within the hard limit and each section's own by the counter, the system
    whole, the newest message whole, turns taken from the end in order, and what strict providers ask for; or
    a typed error that names what cannot fit."""
    whole = view(entries)
    tools = [Tool("t", "d" * schema, {})] if schema else []
    asked = Limits(**limits)
    try:
        context = fit(whole, asked, LENGTH, memory=memory, recalled=recalled, tools=tools)
    except ContextOverflow as error:
        named = error.what
    else:
        named = ""
    if named:
        assert named.removesuffix(" cannot fit").split(" (")[0] in (
            "the system's words",
            "the tools",
            "the new message",
            "the latest results",
            *(["what is kept of the turns"] if asked.over == "raise" else []),
        )
        return
    counted = sum(map(LENGTH.count_entry, context.shown())) + schema
    assert context.tokens == counted == sum(section.tokens for section in context.sections) <= asked.hard
    assert context.system == whole.system
    got = tokens_of(context)
    for name in ("system", "memory", "summary", "recalled"):
        own = getattr(asked, name)
        assert own is None or got.get(name, 0) <= own, name
    assert asked.recent is None or got.get("recent turns", 0) <= asked.recent
    assert asked.message is None or got.get("new message", 0) <= asked.message
    if whole.turns:
        newest = whole.turns[-1]
        head = [entry for entry in newest.entries if isinstance(entry, User)][:1]
        if head and newest.entries[0] is head[0]:
            assert head[0] in context.turns[-1].entries
        own = [turn for turn in context.turns[:-1] if getattr(turn.entries[0], "content", "") != NOTICE]
        kept = [turn for turn in whole.turns[:-1] if turn in own]
        assert own == kept == list(whole.turns[len(whole.turns) - 1 - len(own) : -1])
        assert context.turns_left_out == len(whole.turns) - 1 - len(own)
    chat_is_strict(context.messages())


@given(histories())
def test_with_room_nothing_is_left_out(entries: list[AnyEntry]) -> None:
    """A budget of what there is suffices for all of it, by the rough counter too."""
    whole = view(entries)
    rough = Rough(family_of("gpt-4o"))
    total = sum(
        rough.count_entry(entry)
        for entry in (*whole.system, *(entry for turn in whole.turns for entry in turn.entries))
    )
    total += rough.count_entry(whole.summary) if whole.summary is not None else 0
    context = fit(whole, Limits(hard=total), rough)
    assert context.turns == whole.turns
    assert all(section.left_out == 0 for section in context.sections)
    assert (context.tokens, context.degraded) == (total, False)


@given(histories(), st.integers(0, 400), st.integers(0, 100))
def test_more_budget_shows_more(entries: list[AnyEntry], budget: int, more: int) -> None:
    """With a budget that is larger by a step, everything that was shown is still shown."""
    whole = view(entries)
    more += (budget + more) // 7 + 1
    try:
        small = fitted(whole, budget)
    except ContextOverflow:
        return
    large = fitted(whole, budget + more)
    told = {entry.seq for entry in large.entries}
    assert {entry.seq for entry in small.entries} <= told


@pytest.mark.parametrize(
    ("budget", "part"),
    [
        (19, "the system's words"),
        (29, "the new message"),
        (49, "the latest results"),
    ],
)
def test_what_cannot_fit_is_named(budget: int, part: str) -> None:
    """The error names the part, what it needs, and the room that there was."""
    whole = seen(
        Compaction(summary="s" * 10),
        System(content="x" * 10),
        User(content="q" * 10, turn="A"),
        ToolCall(call_id="c", name="t", turn="A"),
        ToolResult(call_id="c", content="", turn="A"),
    )
    with pytest.raises(ContextOverflow) as caught:
        fitted(whole, budget)
    assert caught.value.what == f"{part} cannot fit"
    assert int(str(caught.value.where["tokens"])) > int(str(caught.value.where["room"]))
    assert caught.value.hint
    assert fitted(whole, 80).tokens == 80


@pytest.mark.parametrize(("section", "limit"), [("system", 19), ("message", 19)])
def test_a_section_that_may_not_be_shortened_is_an_error_over_its_own_limit(section: str, limit: int) -> None:
    """The system's words and the new message are whole or an error that names the limit."""
    whole = seen(System(content="x" * 10), User(content="q" * 10))
    with pytest.raises(ContextOverflow, match="cannot fit") as caught:
        fitted(whole, 1_000, **{section: limit})
    assert caught.value.where["limit"] == limit
    assert fitted(whole, 1_000, **{section: limit + 1}).tokens == 40


def test_every_section_has_its_own_limit() -> None:
    """Memory and summary are cut at the ends of lines, recalled texts are taken as they are while they fit,
    turns from the end."""
    whole = seen(
        Compaction(summary="one\ntwo\nthree"),
        *(entry for number in range(9) for entry in (User(content=f"{number}"), Assistant(content="r"))),
    )
    memory = ["first line\nsecond line", "other"]
    recalled = ["worthiest", "second", "third"]
    asked = Limits(hard=1_000, memory=22, summary=17, recalled=29, recent=60)
    context = fit(whole, asked, LENGTH, memory=memory, recalled=recalled)
    assert [block.content for block in context.memory] == ["first line"]
    assert context.summary is not None
    assert context.summary.summary == "one"
    extra = context.turns[-1].entries[0]
    assert isinstance(extra, User)
    assert extra.content == "worthiest\n\nsecond"
    texts = [entry.text for entry in context.entries if isinstance(entry, User) and entry is not extra]
    assert texts == ["6", "7", "8"]
    everything = fit(whole, Limits(hard=1_000), LENGTH, memory=memory, recalled=recalled)
    assert [block.content for block in everything.memory] == memory
    assert everything.turns_left_out == 0


def test_a_small_limit_for_turns_leaves_out_turns_and_nothing_else() -> None:
    """Turns over their own limit go, also of the newest few; the context is not degraded, and what was
    recalled stays. What memory and recalled texts lost is told."""
    whole = seen(
        *(
            entry
            for number in range(5)
            for entry in (User(content=f"{number}" * 20), Assistant(content="r" * 20))
        )
    )
    asked = Limits(hard=2_000, recent=70, keep_turns=3, memory=20, recalled=80)
    context = fit(whole, asked, LENGTH, memory=["one\ntwo\nthree four five"], recalled=["a", "b" * 90])
    assert not context.degraded
    assert [entry.text[0] for entry in context.entries if isinstance(entry, User)] == ["a", "4"]
    told = {section.name: section for section in context.sections}
    assert told["recent turns"].tokens <= 70
    assert told["recalled"].left_out > 90
    assert told["memory"].left_out > 10


# --- soft, hard, degrade ---


def talk(turns: int) -> View:
    return seen(
        System(content="S"),
        *(entry for number in range(turns) for entry in (User(content=f"{number}"), Assistant(content="r"))),
    )


def users(context: Context) -> list[str]:
    return [entry.text for entry in context.entries if isinstance(entry, User)]


def test_past_the_soft_limit_the_oldest_turns_go() -> None:
    """Down to the soft limit, but never the system's words, and never the newest few."""
    whole = talk(10)
    assert users(fitted(whole, 300)) == [str(number) for number in range(10)]
    context = fitted(whole, 300, soft=100, keep_turns=2)
    assert users(context) == ["6", "7", "8", "9"]
    assert (context.system, context.degraded) == (whole.system, False)
    assert users(fitted(whole, 300, soft=5, keep_turns=4)) == ["6", "7", "8", "9"]


def test_past_the_hard_limit_it_degrades_or_raises() -> None:
    """System, a notice, and the last turns; or a typed error, as the limits say."""
    whole = talk(10)
    context = fitted(whole, 145, keep_turns=8)
    assert context.degraded
    assert users(context) == [NOTICE, "9"]
    assert context.system == whole.system
    with pytest.raises(ContextOverflow, match=r"what is kept of the turns \(8\)"):
        fitted(whole, 145, keep_turns=8, over="raise")


def test_a_degraded_context_has_the_summarys_beginning() -> None:
    """A long summary is cut to a quarter of what is left, at the ends of its lines."""
    whole = seen(Compaction(summary="\n".join(["x" * 9] * 50)), User(content="q"))
    context = fitted(whole, 200)
    assert context.summary is not None
    assert context.summary.summary == "\n".join(["x" * 9] * 3)
    assert context.degraded
    assert users(context) == ["q"]


def test_the_latest_results_are_shortened_rather_than_refused() -> None:
    """A result that does not fit is shown shorter, says so, and names what reads the whole."""
    whole = view(
        [
            User(seq=1, id="u", content="q", turn="A"),
            ToolCall(seq=2, id="c", call_id="c", name="t", turn="A"),
            ToolResult(seq=3, id="r", call_id="c", content="x" * 5_000, turn="A"),
        ]
    )
    context = fitted(whole, 400)
    (result,) = [entry for entry in context.entries if isinstance(entry, ToolResult)]
    assert "characters left out" in result.text
    assert "read_result" in result.text
    assert context.tokens <= 400
    assert context.degraded


def test_what_is_sent_keeps_its_beginning() -> None:
    """S87: past the soft limit turns go in steps, so that most requests begin as the one before."""
    starts = []
    for turns in range(20, 60):
        context = fitted(talk(turns), 500, keep_turns=2)
        assert context.tokens <= 500
        starts.append(context.entries[0])
    changed = sum(one.seq != other.seq for one, other in pairwise(starts))
    assert changed <= len(starts) // 2


# --- by the exact counter ---

WORDS = st.one_of(
    st.text(max_size=200),
    st.text("漢字的是了我不人在他有这", max_size=200),
    st.sampled_from(["def f(x):\n    return x\n" * 20, "word " * 100, "a" * 300, "\n" * 50, "<|endoftext|>"]),
)


@st.composite
def spoken(draw: st.DrawFn) -> list[AnyEntry]:
    """Turns with words of any kind, tools of any size, and images."""
    entries: list[AnyEntry] = []
    if draw(st.booleans()):
        entries.append(System(content=draw(WORDS)))
    if draw(st.booleans()):
        entries.append(Compaction(summary=draw(WORDS)))
    for number in range(draw(st.integers(1, 6))):
        turn = f"T{number}"
        content: Any = draw(WORDS)
        if draw(st.booleans()):
            content = (Text(text=content), Image(media_type="image/png", data=b"\x89PNG" * 10))
        entries.append(User(content=content, turn=turn))
        for call in range(draw(st.integers(0, 2))):
            args = {"query": draw(WORDS)}
            entries.append(ToolCall(call_id=f"c{call}", name="look_up", args=args, turn=turn))
            size = draw(st.sampled_from([1, 1, 30]))
            entries.append(ToolResult(call_id=f"c{call}", content=draw(WORDS) * size, turn=turn))
        if draw(st.booleans()):
            entries.append(Assistant(content=draw(WORDS), turn=turn))
    return [msgspec.structs.replace(each, seq=at, id=f"e{at}") for at, each in enumerate(entries, 1)]


def tokens_of_body(body: dict[str, Any]) -> int:
    """What OpenAI counts for a chat request, by its own description: each message 3 and its strings, 3 for
    the reply, a flat cost for an image; and every tool as the JSON that it is."""
    total = 3
    for message in body["messages"]:
        total += 3 + EXACT.count_text(message["role"])
        content = message.get("content")
        for part in content if isinstance(content, list) else [{"type": "text", "text": content or ""}]:
            total += EXACT.count_text(part["text"]) if part["type"] == "text" else 765
        for call in message.get("tool_calls", []):
            total += EXACT.count_text(call["function"]["name"] + call["function"]["arguments"])
    return total + sum(EXACT.count_text(msgspec.json.encode(tool).decode()) for tool in body.get("tools", []))


@given(spoken(), st.integers(32, 3_000), st.integers(0, 40), WORDS)
def test_what_is_sent_is_under_the_limit_by_the_exact_counter(
    entries: list[AnyEntry], budget: int, schema: int, memory: str
) -> None:
    """S85, S86: for any history, sizes of tools, images: the request as it is sent is within the budget and
    the 32 tokens that an engine keeps for its envelope, the new message is whole and in its place."""
    tools = [Tool("look_up", "Finds things. " * schema, {"type": "object", "properties": {}})]
    whole = view(entries)
    try:
        context = fit(whole, Limits(hard=budget, tool_result=500), EXACT, memory=[memory], tools=tools)
    except ContextOverflow:
        fixed = sum(map(EXACT.count_entry, [*whole.system, *whole.turns[-1].entries]))
        fixed += EXACT.count_tools([msgspec.structs.asdict(tools[0])])
        assert budget < fixed
        return
    body = OpenAIChatShape().body(context.prompt())
    assert tokens_of_body(body) <= budget + 32
    shown = [entry.seq for entry in context.entries if entry.seq]
    everything = [entry.seq for turn in whole.turns for entry in turn.entries if entry.seq]
    assert shown == [seq for seq in everything if seq in shown]
    newest = [entry for entry in whole.turns[-1].entries if isinstance(entry, User)]
    assert newest[0] in context.entries


def test_whole_turns_are_taken_from_the_end() -> None:
    """The oldest turns are dropped first, each whole."""
    whole = seen(
        *(entry for number in range(5) for entry in (User(content=f"{number}"), Assistant(content="r")))
    )
    context = fitted(whole, 60)
    assert [entry.text for entry in context.entries if not isinstance(entry, ToolCall)] == [
        "3",
        "r",
        "4",
        "r",
    ]
    assert (context.turns_left_out, context.sections[0].left_out) == (3, 66)


def test_the_newest_turn_may_lose_its_middle() -> None:
    """Of a long turn the message and the latest rounds stay, no call parted from its result."""
    rounds = [
        entry
        for number in range(6)
        for entry in (
            ToolCall(call_id=f"c{number}", name="t", turn="A"),
            ToolResult(call_id=f"c{number}", content="x" * 10, turn="A"),
        )
    ]
    context = fitted(seen(User(content="q", turn="A"), *rounds), 100)
    assert [getattr(entry, "call_id", "q") for entry in context.entries] == ["q", "c4", "c4", "c5", "c5"]
    chat_is_strict(context.messages())


def test_an_old_answer_that_is_too_long_may_go() -> None:
    """When the model has answered, an answer that does not fit is left out rather than refused."""
    context = fitted(seen(User(content="q", turn="A"), Assistant(content="x" * 500, turn="A")), 100)
    assert [entry.text for entry in context.entries if isinstance(entry, User | Assistant)] == ["q"]
    assert context.sections[0].left_out == 510


def test_the_chat_has_one_system_message_with_all_that_belongs_in_it() -> None:
    """The system's words come first and unchanged, the summary after them, in one message."""
    context = fitted(
        seen(System(content="S1"), System(content="S2"), Compaction(summary="SUM"), User(content="q")),
        500,
    )
    first, second = context.messages()
    assert first["role"] == "system"
    assert first["content"].startswith("S1\n\nS2\n\n")
    assert first["content"].endswith("SUM")
    assert second == {"role": "user", "content": "q"}


def test_what_the_chat_makes_of_parts() -> None:
    """Text and images are parts, reasoning is left out, an empty message is no message."""
    whole = seen(
        User(
            content=(
                Text(text="look"),
                Image(media_type="image/png", data=b"\x01"),
                Image(url="http://x/y.png"),
            ),
            turn="A",
        ),
        Assistant(content=(Reasoning(text="hm"), Text(text="I see")), turn="A"),
        ToolCall(call_id="c", name="t", args={"a": [1, "漢"]}, turn="A"),
        ToolResult(call_id="c", content=(Text(text="r1"), Text(text="r2")), turn="A"),
        Assistant(content=(Reasoning(text="only thought"),), turn="A"),
    )
    messages = fitted(whole, 500).messages()
    assert messages[0]["content"] == [
        {"type": "text", "text": "look"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,AQ=="}},
        {"type": "image_url", "image_url": {"url": "http://x/y.png"}},
    ]
    assert messages[1]["content"] == "I see"
    assert messages[1]["tool_calls"][0]["function"]["arguments"] == '{"a":[1,"漢"]}'
    assert messages[2]["content"] == "r1\n\nr2"
    chat_is_strict(messages)


@pytest.mark.parametrize("args", [None, "not json", "[1]", 5, [1], "", "{}", {"a": 1}])
def test_arguments_are_always_a_json_object(args: object) -> None:
    """Whatever a model gave for arguments, the chat carries a JSON object, as providers ask."""
    whole = seen(User(content="q", turn="A"), ToolCall(call_id="c", name="t", args=args, turn="A"))
    chat_is_strict(fitted(whole, 500).messages())


@given(st.lists(st.integers(1, 90), max_size=20), st.integers(0, 400), st.integers(1, 20))
def test_what_was_recalled_stays_from_the_oldest_on(lengths: list[int], hard: int, more: int) -> None:
    """So that what is sent keeps its beginning: what has stayed before the newest stays when more comes, as
    far as the room goes; and the newest stays where it is not over a quarter of all."""
    limits = Limits(hard=hard)
    told = {str(place): quotation("x" * length) for place, length in enumerate(lengths)}
    stays = stay(told, limits, LENGTH.count_entry)
    cost = {turn: LENGTH.count_entry(said) for turn, said in told.items()}
    assert list(stays) == [turn for turn in told if turn in stays]
    older = [turn for turn in stays if turn != str(len(lengths) - 1)]
    assert older == list(told)[: len(older)]
    assert sum(cost[turn] for turn in older) <= hard // 8
    if lengths:
        newest = str(len(lengths) - 1)
        assert (newest in stays) == (cost[newest] <= 2 * (hard // 8))
    longer = stay({**told, "more": quotation("x" * more)}, limits, LENGTH.count_entry)
    assert list(longer)[: len(older)] == older
    assert stay(told, Limits(hard=hard, standing=0), LENGTH.count_entry) == {}
    if sum(cost.values()) <= 400:
        assert stay(told, Limits(hard=0, standing=400), LENGTH.count_entry) == told
