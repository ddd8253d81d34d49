"""context/budget.py: the context fits its budget by its own counter, or a typed error says why it cannot."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from context.histories import chat_is_strict, histories
from stratalog.context.budget import fit
from stratalog.context.view import View, view
from stratalog.errors import ContextOverflow
from stratalog.tokens.rough import count_entry
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


def length(entry: AnyEntry) -> int:
    """A counter that is easy to predict: 10 for each entry, and what its text is long."""
    return 10 + len(getattr(entry, "text", getattr(entry, "summary", "")))


def seen(*entries: AnyEntry) -> View:
    return view(msgspec.structs.replace(entry, seq=seq, id=f"e{seq}") for seq, entry in enumerate(entries, 1))


@given(histories(), st.integers(-5, 400))
def test_a_context_never_exceeds_its_budget(entries: list[AnyEntry], budget: int) -> None:
    """For any history and budget: within it by its own counter, the system and summary intact, the newest
    message whole, turns taken from the end, and what strict providers ask for; or a typed error."""
    whole = view(entries)
    try:
        context = fit(whole, budget, length)
    except ContextOverflow as error:
        named = error.what.removesuffix(" cannot fit")
    else:
        named = ""
    if named:
        assert named in ("the system's words", "the summary", "the newest message", "the latest results")
        return
    assert context.tokens == sum(map(length, context.shown())) <= budget
    assert sum(section.tokens for section in context.sections) == context.tokens
    assert (context.system, context.summary) == (whole.system, whole.summary)
    assert context.turns_left_out == len(whole.turns) - len(context.turns)
    if whole.turns:
        newest, shown = whole.turns[-1], context.turns[-1]
        head = [entry for entry in newest.entries if isinstance(entry, User)][:1]
        assert not head or newest.entries[0] is not head[0] or shown.entries[0] is head[0]
        assert context.turns[:-1] == whole.turns[len(whole.turns) - len(context.turns) : -1]
    everything = sum(length(entry) for turn in whole.turns for entry in turn.entries)
    shown_tokens = sum(length(entry) for entry in context.entries)
    left_out = sum(section.left_out for section in context.sections)
    assert shown_tokens + left_out == everything
    chat_is_strict(context.messages())


@given(histories())
def test_with_room_nothing_is_left_out(entries: list[AnyEntry]) -> None:
    """A budget of what there is suffices for all of it, by the rough counter too."""
    whole = view(entries)
    total = sum(
        count_entry(entry)
        for entry in (*whole.system, *(entry for turn in whole.turns for entry in turn.entries))
    )
    total += count_entry(whole.summary) if whole.summary is not None else 0
    context = fit(whole, total, count_entry)
    assert context.turns == whole.turns
    assert all(section.left_out == 0 for section in context.sections)
    assert context.tokens == total


@given(histories(), st.integers(0, 400), st.integers(0, 100))
def test_more_budget_never_shows_less(entries: list[AnyEntry], budget: int, more: int) -> None:
    """With a larger budget everything that was shown is still shown."""
    whole = view(entries)
    try:
        small = fit(whole, budget, length)
    except ContextOverflow:
        return
    large = fit(whole, budget + more, length)
    assert {entry.seq for entry in small.entries} <= {entry.seq for entry in large.entries}


@pytest.mark.parametrize(
    ("budget", "part"),
    [
        (19, "the system's words"),
        (39, "the summary"),
        (59, "the newest message"),
        (79, "the latest results"),
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
        fit(whole, budget, length)
    assert caught.value.what == f"{part} cannot fit"
    assert int(str(caught.value.where["tokens"])) > int(str(caught.value.where["room"]))
    assert caught.value.hint
    assert fit(whole, 80, length).tokens == 80


def test_whole_turns_are_taken_from_the_end() -> None:
    """The oldest turns are dropped first, each whole."""
    whole = seen(
        *(entry for number in range(5) for entry in (User(content=f"{number}"), Assistant(content="r")))
    )
    context = fit(whole, 60, length)
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
    context = fit(seen(User(content="q", turn="A"), *rounds), 100, length)
    assert [getattr(entry, "call_id", "q") for entry in context.entries] == ["q", "c4", "c4", "c5", "c5"]
    chat_is_strict(context.messages())


def test_an_old_answer_that_is_too_long_may_go() -> None:
    """When the model has answered, an answer that does not fit is left out rather than refused."""
    context = fit(seen(User(content="q", turn="A"), Assistant(content="x" * 500, turn="A")), 100, length)
    assert [entry.text for entry in context.entries if isinstance(entry, User | Assistant)] == ["q"]
    assert context.sections[0].left_out == 510


def test_the_chat_has_one_system_message_with_all_that_belongs_in_it() -> None:
    """The system's words come first and unchanged, the summary after them, in one message."""
    context = fit(
        seen(System(content="S1"), System(content="S2"), Compaction(summary="SUM"), User(content="q")),
        500,
        length,
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
    messages = fit(whole, 500, length).messages()
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
    chat_is_strict(fit(whole, 500, length).messages())
