"""context/shapes: what every shape owes: strict providers accept it, a longer prompt begins with the bytes of
a shorter, and a reply comes back as it was given."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from context.invariants.soups import soups
from context.shapes.conversations import (
    SHAPES,
    TOOL,
    as_bytes,
    conversations,
    messages_of,
    prompts,
    reply_in,
    sealed,
    searches,
    signed,
)
from stratalog.context.invariants import ALL, WITHIN, Entries, Seen, mend, safe_cuts
from stratalog.context.shapes.contract import Prompt
from stratalog.context.shapes.table import SHAPES as TABLE
from stratalog.models.contract import Shape
from stratalog.testing.model_server import ModelServer, Strictness, refusal_of
from stratalog.testing.scripted import Call, Reply
from stratalog.types import Assistant, Content, Part, Reasoning, Text, ToolCall, ToolResult, Usage, User

STRICT = Strictness(one_system=True)
every_shape = pytest.mark.parametrize("shape", SHAPES)


def asked(server: ModelServer, shape: Shape, body: dict[str, Any]) -> dict[str, Any]:
    """Sends the body with the provider's own SDK; gives the reply as `Completed.message` has it."""
    if shape == "anthropic":
        sdk: Any = pytest.importorskip("anthropic")
        with sdk.Anthropic(api_key="k", base_url=server.anthropic_url, max_retries=0) as client:
            return dict(
                client.messages.create(model="m", **body).model_dump(exclude_none=True, warnings=False)
            )
    sdk = pytest.importorskip("openai")
    with sdk.OpenAI(api_key="k", base_url=server.openai_url, max_retries=0) as client:
        if shape == "openai_chat":
            made = client.chat.completions.create(model="m", **body).choices[0].message
        else:
            made = client.responses.create(model="m", **body)
        return dict(made.model_dump(exclude_none=True, warnings=False))


@every_shape
@given(prompt=prompts())
def test_the_rules_accept_any_prompt(shape: Shape, prompt: Prompt) -> None:
    """Whatever was logged, by whichever provider, the request keeps the rules of this one."""
    assert refusal_of(shape, TABLE[shape].body(prompt), STRICT) == ""


@every_shape
@given(entries=soups())
def test_the_rules_accept_any_soup(shape: Shape, entries: Entries) -> None:
    """Entries in any order are mended before they are sent."""
    assert refusal_of(shape, TABLE[shape].body(Prompt(entries=entries)), STRICT) == ""


@given(
    st.lists(
        st.sampled_from("qar").flatmap(lambda kind: st.tuples(st.just(kind), st.lists(searches, max_size=3))),
        max_size=8,
    )
)
def test_the_rules_accept_any_halves_of_searches(steps: list[tuple[str, list[Part]]]) -> None:
    """Calls of a provider's own tools and their results, wherever they were logged: alone, twice, in another
    round, beside other calls."""
    entries: list[Seen] = []
    for number, (kind, parts) in enumerate(steps):
        if kind == "q":
            entries.append(User(content="q"))
            continue
        entries.append(Assistant(content=tuple(parts), response=f"r{number}"))
        if kind == "r":
            entries.append(ToolCall(call_id=f"c{number}", name="add", response=f"r{number}"))
            entries.append(ToolResult(call_id=f"c{number}", content="3"))
    body = TABLE["anthropic"].body(Prompt(entries=tuple(entries)))
    assert refusal_of("anthropic", body, STRICT) == ""


@every_shape
@given(entries=conversations())
def test_user_and_assistant_take_turns_where_that_is_demanded(shape: Shape, entries: Entries) -> None:
    """Mended by `Alternation` too, a request is taken by a server that makes no message of two. (A reply of
    which nothing can be sent leaves a gap that is not closed.)"""
    telling = tuple(entry for entry in entries if not isinstance(entry, Assistant) or entry.text.strip())
    body = TABLE[shape].body(Prompt(entries=mend(telling, ALL)))
    assert refusal_of(shape, body, Strictness(one_system=True, alternate=True)) == ""


@every_shape
@settings(max_examples=25, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(data=st.data())
def test_the_strict_server_accepts_what_the_sdk_sends(shape: Shape, data: st.DataObject) -> None:
    """Over real HTTP with the provider's own SDK no request is refused."""
    bodies = [TABLE[shape].body(prompt) for prompt in data.draw(st.lists(prompts(), min_size=1, max_size=4))]
    with ModelServer(lambda request: "yes", strict=STRICT) as server:
        for body in bodies:
            assert TABLE[shape].entries(asked(server, shape, body), "r") == [
                Assistant(content="yes", response="r")
            ]
    assert server.refusals == []


@every_shape
def test_a_conversation_with_tools_goes_on(shape: Shape) -> None:
    """What the model said, thought and called comes back to it in a form that it takes, round after round;
    Anthropic's server knows its own thinking again."""
    replies = [
        Reply(reasoning="Two to add.", text="I add.", calls=(Call("add", {"a": 1}), Call("add", {"a": 2}))),
        Reply(reasoning="One more.", calls=(Call("add", "not json"),)),
        Reply(text="Three."),
        "Goodbye.",
    ]
    entries: list[Seen] = [User(content="Add.")]
    with ModelServer(replies, strict=STRICT) as server:
        for number in range(len(replies)):
            body = TABLE[shape].body(Prompt(system=("Be kind.",), entries=tuple(entries), tools=(TOOL,)))
            if shape == "anthropic":
                body["thinking"] = {"type": "adaptive"}
            if shape == "openai_responses":
                body["include"] = ["reasoning.encrypted_content"]
            given = TABLE[shape].entries(asked(server, shape, body), f"r{number}")
            entries += given
            calls = [entry for entry in given if isinstance(entry, ToolCall)]
            entries += [ToolResult(call_id=call.call_id, content="3") for call in calls]
            if not calls:
                entries.append(User(content="Thanks."))
    assert server.refusals == []
    assert [entry.args for entry in entries if isinstance(entry, ToolCall)] == [
        {"a": 1},
        {"a": 2},
        "not json",
    ]
    sent = [as_bytes(shape, request.body) for request in server.requests]
    assert all(later.startswith(earlier) for earlier, later in pairwise(sent))
    thoughts = [b"Two to add.", b"One more."]
    assert all((thought in sent[-1]) == (shape != "openai_chat") for thought in thoughts)


@every_shape
@given(entries=conversations(), more=conversations(most=6))
def test_a_longer_prompt_begins_with_the_bytes_of_a_shorter(
    shape: Shape, entries: Entries, more: Entries
) -> None:
    """At every safe cut: the messages before it are the same bytes, Anthropic's marks aside."""
    whole = mend((*entries, *more))
    bytes_of = [as_bytes(shape, TABLE[shape].body(Prompt(entries=whole)))]
    for cut in sorted(safe_cuts(whole, WITHIN) - {0}, reverse=True):
        bytes_of.append(as_bytes(shape, TABLE[shape].body(Prompt(entries=whole[:cut]))))
    assert all(longer.startswith(shorter) for longer, shorter in pairwise(bytes_of))


@every_shape
@given(prompt=prompts())
def test_the_same_prompt_is_the_same_body(shape: Shape, prompt: Prompt) -> None:
    """A body is JSON, depends on nothing but the prompt, and leaves it as it was."""
    before = repr(prompt)
    first = json.dumps(TABLE[shape].body(prompt))
    assert json.dumps(TABLE[shape].body(prompt)) == first
    assert repr(prompt) == before


@every_shape
def test_only_a_summary_is_a_prompt(shape: Shape) -> None:
    """S25: compacted until only the summary remains, the real system prompt stands whole in one block with
    the summary after it, and the conversation is opened by the user."""
    body = TABLE[shape].body(Prompt(system=("Be kind.",), summary="They talked."))
    assert refusal_of(shape, body, STRICT) == ""
    listed = messages_of(shape, body)
    roles = [message["role"] for message in listed]
    assert roles == (["system", "user"] if shape == "openai_chat" else ["user"])
    block = {
        "openai_chat": lambda: listed[0]["content"],
        "openai_responses": lambda: body["instructions"],
        "anthropic": lambda: "\n\n".join(each["text"] for each in body["system"]),
    }[shape]()
    assert block == "Be kind.\n\nSummary of the conversation so far:\nThey talked."


@every_shape
def test_a_summary_before_an_assistant(shape: Shape) -> None:
    """S25: what is kept begins with the assistant, so a marked message of the user opens it."""
    entries = (Assistant(content="Yes."), User(content="Go on."))
    listed = messages_of(shape, TABLE[shape].body(Prompt(summary="They talked.", entries=entries)))
    roles = [message["role"] for message in listed if message["role"] != "system"]
    assert roles == ["user", "assistant", "user"]


@every_shape
def test_nothing_blank_is_sent(shape: Shape) -> None:
    """No system block of nothing, no assistant that holds only reasoning, no empty text."""
    entries = (
        User(content=()),
        Assistant(content=(Reasoning(text="hm"), signed("hm"), sealed("hm"))),
        User(content=(Text(text=""), Text(text="x"))),
        Assistant(content=""),
        User(content="y"),
    )
    body = TABLE[shape].body(Prompt(system=("", " "), entries=entries))
    assert not {"system", "instructions"} & set(body)
    listed = messages_of(shape, body)
    assert [message["role"] for message in listed] == ["user"] * 3
    assert "hm" not in json.dumps(body)
    assert '""' not in json.dumps(body)


@every_shape
@pytest.mark.parametrize("content", ["", (), (Reasoning(text="hm"),), (Text(text=""),)])
def test_an_assistant_of_nothing_is_no_message(shape: Shape, content: Content) -> None:
    """One that says nothing, and stands for what its calls cost, is no message of its own: its calls are one,
    and where it has none there is none."""
    spent = Assistant(content=content, usage=Usage(input=5, output=1), response="r1")
    call, result = ToolCall(call_id="c1", name="add", response="r1"), ToolResult(call_id="c1", content="3")
    alone = msgspec.structs.replace(spent, response="r2")
    entries = (
        User(content="q"),
        spent,
        call,
        result,
        alone,
        User(content="more"),
        alone,
        User(content="end"),
    )
    body = TABLE[shape].body(Prompt(entries=entries))
    assert refusal_of(shape, body, STRICT) == ""
    kinds = [message.get("role") or message["type"] for message in messages_of(shape, body)]
    assert (
        kinds
        == {
            "openai_chat": ["user", "assistant", "tool", "user", "user"],
            "openai_responses": ["user", "function_call", "function_call_output", "user", "user"],
            "anthropic": ["user", "assistant", "user", "user", "user"],
        }[shape]
    )


# --- there and back ---

plain = st.text(min_size=1, max_size=10).filter(lambda text: text == text.strip() and text)
arguments = st.one_of(
    st.dictionaries(st.text(max_size=4), st.one_of(st.integers(-9, 9), plain, st.none()), max_size=3),
    st.sampled_from(["{not json", "[1", "nothing"]),
    st.lists(st.integers(0, 9), max_size=3),
)


def thought_of(shape: Shape, text: str) -> Reasoning | None:
    """Reasoning as the provider gives it, where it takes it back."""
    make: dict[Shape, Callable[[str], Reasoning]] = {"openai_responses": sealed, "anthropic": signed}
    return make[shape](text) if shape in make else None


@every_shape
@given(data=st.data())
def test_a_reply_comes_back_as_it_was(shape: Shape, data: st.DataObject) -> None:
    """What a shape can hold: reasoning of its own, texts (one, for chat), and calls with any arguments; put
    into a request and read as a reply, it is the same entries."""
    thought = thought_of(shape, data.draw(plain)) if data.draw(st.booleans()) else None
    said = data.draw(st.lists(plain, max_size=1 if shape == "openai_chat" else 3))
    calls = [
        ToolCall(call_id=f"c{number}", name="add", args=data.draw(arguments), response="r")
        for number in range(data.draw(st.integers(0 if said else 1, 3)))
    ]
    parts = (*([thought] if thought else []), *(Text(text=each) for each in said))
    content: Content = said[0] if len(parts) == 1 and said else parts
    given = [*([Assistant(content=content, response="r")] if parts else []), *calls]
    results = [ToolResult(call_id=call.call_id, content="3") for call in calls]
    body = TABLE[shape].body(Prompt(entries=(User(content="q"), *given, *results)))
    assert TABLE[shape].entries(reply_in(shape, body), "r") == given


@every_shape
@given(name=st.sampled_from(["c", "c_2", "x" * 100, "a.b", "", "呼"]), count=st.integers(2, 12))
def test_an_id_used_again_and_again(shape: Shape, name: str, count: int) -> None:
    """A model that calls everything alike in every turn is answered turn by turn."""
    entries: list[Seen] = []
    for number in range(count):
        turn = f"t{number}"
        entries += [
            User(content="q", turn=turn),
            ToolCall(call_id=name, name="add", turn=turn),
            ToolResult(call_id=name, content=turn, turn=turn),
        ]
    body = TABLE[shape].body(Prompt(entries=tuple(entries)))
    assert refusal_of(shape, body, STRICT) == ""
    written = json.dumps(body)
    assert all(f'"t{number}"' in written for number in range(count))
