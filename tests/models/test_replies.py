"""Streams put together again: what compatible servers make of the APIs, without SDK and without network."""

from __future__ import annotations

import json
from contextlib import suppress
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stratalog.context.shapes.openai_chat import OpenAIChatShape
from stratalog.models.contract import Completed, ReasoningDelta, TextDelta
from stratalog.models.faults import Faulted
from stratalog.models.replies.anthropic import MessagesReply
from stratalog.models.replies.contract import Reply as Under
from stratalog.models.replies.openai_chat import ChatReply
from stratalog.models.replies.openai_responses import ResponsesReply
from stratalog.testing.model_server import DIALECTS
from stratalog.testing.model_server.dialect import Memory
from stratalog.testing.scripted import Call, Reply, message_of
from stratalog.types import Assistant, Reasoning, Text, Usage

UNDER: dict[str, type[Under]] = {
    "openai_chat": ChatReply,
    "openai_responses": ResponsesReply,
    "anthropic": MessagesReply,
}


def put(events: list[Any], shape: str = "openai_chat", *, framed: bool = True) -> tuple[str, Completed]:
    """The text that was streamed, and the reply."""
    reply = UNDER[shape]("asked")
    said = "".join(
        delta.text for event in events for delta in reply.take(event) if isinstance(delta, TextDelta)
    )
    return said, reply.completed(framed=framed)


def chunk(finish: str | None = None, **delta: Any) -> dict[str, Any]:
    return {"id": "c", "model": "m", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}


def piece(arguments: Any = None, name: str | None = None, **more: Any) -> dict[str, Any]:
    """A chunk with a piece of a call."""
    return chunk(tool_calls=[{**more, "function": {"name": name, "arguments": arguments}}])


def calls(completed: Completed) -> list[tuple[str, str]]:
    found = completed.message["tool_calls"]
    assert all(call["id"] and call["type"] == "function" for call in found)
    assert len({call["id"] for call in found}) == len(found)
    return [(call["function"]["name"], call["function"]["arguments"]) for call in found]


END = chunk("stop")
TWO = [("add", '{"a":1}'), ("sub", '{"b":2}')]
SAME = [("add", '{"a":1}'), ("add", '{"b":2}')]
PIECES: dict[str, tuple[list[dict[str, Any]], list[tuple[str, str]]]] = {
    "as documented": (
        [
            piece("", "add", index=0, id="x"),
            piece('{"a"', index=0),
            piece("", "sub", index=1, id="y"),
            piece(":1}", index=0),
            piece('{"b":2}', index=1),
        ],
        TWO,
    ),
    "no index": (
        [
            piece('{"a"', "add", id="x"),
            piece(":1}"),
            piece('{"b"', "sub", id="y"),
            piece(":2}", id="y"),
        ],
        TWO,
    ),
    "no index, empty id repeated": (
        [
            piece('{"a"', "add", id="x"),
            piece(":1}", id=""),
            piece('{"b":2}', "sub", id="y"),
            piece("", id=""),
        ],
        TWO,
    ),
    "all with index 0": (
        [
            piece('{"a":1}', "add", index=0, id="x"),
            piece('{"b"', "sub", index=0, id="y"),
            piece(":2}", index=0),
        ],
        TWO,
    ),
    "index given, empty id repeated": (
        [
            piece('{"a"', "add", index=0, id="x"),
            piece(":1}", "", index=0, id=""),
            piece('{"b":2}', "sub", index=1, id="y"),
        ],
        TWO,
    ),
    "id and name repeated in each piece": (
        [
            piece('{"a"', "add", index=0, id="x"),
            piece(":1}", "add", index=0, id="x"),
            piece('{"b"', "sub", index=1, id="y"),
            piece(":2}", "sub", index=1, id="y"),
        ],
        TWO,
    ),
    "no ids at all": ([piece('{"a":1}', "add"), piece('{"b"', "sub"), piece(":2}")], TWO),
    "no ids, the same tool twice": (
        [piece('{"a":1}', "add"), piece('{"b"', "add"), piece(":2}", "add")],
        SAME,
    ),
    "no ids, without arguments": ([piece(None, "add"), piece(None, "sub")], [("add", ""), ("sub", "")]),
    "index null": (
        [piece('{"a":1}', "add", index=None, id="x"), piece('{"b":2}', "sub", index=None, id="y")],
        TWO,
    ),
    "arguments as an object": (
        [piece({"a": 1}, "add", index=0, id="x"), piece({"b": 2}, "sub", index=1, id="y")],
        TWO,
    ),
    "the name in pieces": (
        [
            piece("", "a", index=0, id="x"),
            piece("", "dd", index=0),
            piece('{"a":1}', index=0),
            piece('{"b":2}', "sub", index=1, id="y"),
        ],
        TWO,
    ),
    "whole calls in one chunk": (
        [
            chunk(
                tool_calls=[
                    {"id": "x", "function": {"name": "add", "arguments": '{"a":1}'}},
                    {"id": "y", "function": {"name": "sub", "arguments": '{"b":2}'}},
                ]
            )
        ],
        TWO,
    ),
}


@pytest.mark.parametrize("oddity", PIECES)
def test_calls_in_pieces(oddity: str) -> None:
    """Calls come out whole and apart, however a server cuts them up."""
    events, expected = PIECES[oddity]
    _, reply = put([*events, END])
    assert calls(reply) == expected
    assert reply.stop == "tools"


def test_what_is_not_known_of_a_call_is_kept() -> None:
    """A server's own fields of a call, such as a signature of its thought, stay with it."""
    signed = {"google": {"thought_signature": "abc"}}
    _, reply = put([piece("{}", "add", index=0, id="x", extra_content=signed), END])
    assert reply.message["tool_calls"][0]["extra_content"] == signed


CHAT: dict[str, tuple[list[Any], str, str]] = {
    "no usage": ([chunk(content="Hi"), END], "Hi", "end"),
    "content null": ([chunk(content=None), chunk(content="Hi", tool_calls=None), END], "Hi", "end"),
    "content with the finish": ([chunk("stop", content="Hi")], "Hi", "end"),
    "no finish": ([chunk(content="Hi")], "Hi", "other"),
    "no choices": ([{"choices": []}, {"choices": None}, {}, chunk(content="Hi"), END], "Hi", "end"),
    "nothing but noise between": ([None, "ping", 3, [], chunk(content="Hi"), END], "Hi", "end"),
    "another choice": (
        [chunk(content="Hi"), {"choices": [{"index": 1, "delta": {"content": "Ho"}}]}, END],
        "Hi",
        "end",
    ),
    "a list of parts": (
        [
            chunk(
                content=[{"type": "thinking", "thinking": [{"text": "Hm"}]}, {"type": "text", "text": "Hi"}]
            ),
            END,
        ],
        "Hi",
        "end",
    ),
    "its own word for the end": ([chunk("eos", content="Hi")], "Hi", "end"),
    "its own word for the limit": ([chunk("max_tokens", content="Hi")], "Hi", "length"),
    "filtered": ([chunk("content_filter", content="Hi")], "Hi", "refusal"),
}


@pytest.mark.parametrize("oddity", CHAT)
def test_oddities_of_chunks(oddity: str) -> None:
    """What compatible servers leave out or add does not disturb the reply."""
    events, text, stop = CHAT[oddity]
    said, reply = put(events)
    assert (said, reply.message["content"], reply.stop) == (text, text, stop)


@pytest.mark.parametrize("name", ["reasoning_content", "reasoning"])
def test_reasoning_of_compatible_servers(name: str) -> None:
    """It is streamed as reasoning and stays in the message under the server's own name."""
    reply = ChatReply("asked")
    events = [chunk(**{name: "Let "}), chunk(**{name: "me."}), chunk(content="Hi"), END]
    deltas = [delta for event in events for delta in reply.take(event)]
    assert deltas == [ReasoningDelta("Let "), ReasoningDelta("me."), TextDelta("Hi")]
    assert reply.completed(framed=True).message == {"role": "assistant", "content": "Hi", name: "Let me."}


def test_reasoning_under_two_names_is_shown_once() -> None:
    """A server that sends it twice does not make the reader read it twice."""
    reply = ChatReply("asked")
    events = [
        chunk(reasoning="a", reasoning_content="a"),
        chunk(reasoning="b", reasoning_content="b"),
        chunk(content="c"),
    ]
    thoughts = [
        delta.text for event in events for delta in reply.take(event) if isinstance(delta, ReasoningDelta)
    ]
    assert thoughts == ["a", "b"]


USAGE = {"prompt_tokens": 9, "completion_tokens": 2}


@pytest.mark.parametrize(
    "events",
    [
        [chunk(content="Hi"), END, {"choices": [], "usage": USAGE}],
        [
            {**chunk(content="Hi"), "usage": {"prompt_tokens": 9, "completion_tokens": 1}},
            {**END, "usage": USAGE},
        ],
        [chunk(content="Hi"), {**END, "usage": USAGE}, {"choices": [], "usage": None}],
        [
            chunk(content="Hi"),
            {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop", "usage": USAGE}]},
        ],
        [chunk(content="Hi"), {**END, "usage": USAGE}, {"choices": [], "usage": {"prompt_tokens": 0}}],
    ],
)
def test_usage_wherever_it_comes(events: list[Any]) -> None:
    """Usage last in a chunk of its own, in every chunk, in the choice, or followed by none: the last that
    counts."""
    assert put(events)[1].usage == Usage(input=9, output=2)


def test_usage_that_is_missing_or_is_no_number() -> None:
    """No usage is `None`, not zeros; a cache that another server names otherwise is found."""
    assert put([chunk(content="Hi"), END])[1].usage is None
    odd = {
        "prompt_tokens": 9,
        "completion_tokens": None,
        "prompt_cache_hit_tokens": 4,
        "prompt_tokens_details": None,
    }
    assert put([chunk(content="Hi"), {**END, "usage": odd}])[1].usage == Usage(input=9, cache_read=4)


CUT: dict[str, tuple[str, list[Any], bool]] = {
    "nothing": ("openai_chat", [], True),
    "no finish, the end not marked": ("openai_chat", [chunk(content="Hi")], False),
    "no finish, a call half written": ("openai_chat", [piece('{"a"', "add", index=0, id="x")], True),
    "no final event": ("openai_responses", [{"type": "response.output_text.delta", "delta": "Hi"}], True),
    "no reason": (
        "anthropic",
        [
            {"type": "message_start", "message": {"id": "m"}},
            {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hi"}},
        ],
        True,
    ),
}


@pytest.mark.parametrize("case", CUT)
def test_a_cut_stream(case: str) -> None:
    """A stream that ended before its reply did is a passing fault, not a short reply."""
    shape, events, framed = CUT[case]
    with pytest.raises(Faulted) as caught:
        put(events, shape, framed=framed)
    assert caught.value.fault.kind == "passing"


def test_a_whole_call_without_a_finish() -> None:
    """When the end was marked and the call is whole, it is taken."""
    assert calls(put([piece('{"a":1}', "add", index=0, id="x")])[1]) == [("add", '{"a":1}')]


def test_responses_items_only_as_they_were_done() -> None:
    """A final event without its items is filled from those that were done, in their order."""
    first, second = {"type": "reasoning", "id": "r"}, {"type": "function_call", "call_id": "c", "name": "add"}
    events = [
        {"type": "response.output_item.done", "output_index": 1, "item": second},
        {"type": "response.output_item.done", "output_index": 0, "item": first},
        {"type": "response.completed", "response": {"id": "resp", "output": []}},
    ]
    _, reply = put(events, "openai_responses")
    assert (reply.message, reply.stop) == ({"output": [first, second]}, "tools")


def test_an_unknown_block_is_kept() -> None:
    """A block of a kind that is not known comes back as it was, in its place."""
    searched = {"type": "web_search_tool_result", "tool_use_id": "s", "content": [{"url": "u"}]}
    events = [
        {"type": "message_start", "message": {"id": "m", "model": "c", "usage": {"input_tokens": 3}}},
        {"type": "content_block_start", "index": 0, "content_block": searched},
        {"type": "content_block_start", "index": 1, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 1, "delta": {"type": "text_delta", "text": "Hi"}},
        {
            "type": "content_block_delta",
            "index": 1,
            "delta": {"type": "citations_delta", "citation": {"n": 1}},
        },
        {"type": "content_block_delta", "index": 1, "delta": {"type": "new_delta", "x": 1}},
        {"type": "message_delta", "delta": {"stop_reason": "pause_turn"}, "usage": {"output_tokens": 2}},
        {"type": "message_stop"},
    ]
    _, reply = put(events, "anthropic")
    assert reply.message["content"] == [searched, {"type": "text", "text": "Hi", "citations": [{"n": 1}]}]
    assert (reply.stop, reply.usage) == ("other", Usage(input=3, output=2))


THINKS = {
    "think": ("<think>\nA sum.\n</think>\n\nIt is 3.", "A sum.", "It is 3."),
    "thinking": ("<thinking>A sum.</thinking>It is 3.", "A sum.", "It is 3."),
    "reasoning": (" \n<reasoning>A sum.</reasoning> It is 3. ", "A sum.", "It is 3. "),
    "another tag does not close it": ("<think>a</thinking> b</think>c", "a</thinking> b", "c"),
    "no thought, as with thinking off": ("<think>\n\n</think>\n\nIt is 3.", "", "It is 3."),
    "a tag later is text": ("Write <think>x</think>.", "", "Write <think>x</think>."),
    "a second thought is text": ("<think>a</think>b<think>c</think>", "a", "b<think>c</think>"),
    "a closing tag alone is text": ("A sum.</think>3", "", "A sum.</think>3"),
    "almost a tag": ("<thinker>x", "", "<thinker>x"),
    "the beginning of a tag": (" <thi", "", " <thi"),
    "white space in front of text": ("\n 3", "", "\n 3"),
}


def streamed(pieces: list[str], finish: str | None = "stop", **more: Any) -> tuple[str, str, Any]:
    """Thought and text as they were streamed, and the message; None for a reply that cannot be used."""
    reply = ChatReply("asked")
    deltas = [each for piece in pieces for each in reply.take(chunk(content=piece))]
    deltas += [*reply.take(chunk(finish, **more)), *reply.rest()]
    thought = "".join(each.text for each in deltas if isinstance(each, ReasoningDelta))
    said = "".join(each.text for each in deltas if isinstance(each, TextDelta))
    try:
        return thought, said, reply.completed(framed=True).message
    except Faulted as faulted:
        return thought, said, faulted.fault.kind


@pytest.mark.parametrize("case", THINKS)
@given(cuts=st.lists(st.integers(0, 40), max_size=8))
def test_a_thought_in_tags(case: str, cuts: list[int]) -> None:
    """At the very beginning of the text it is reasoning, wherever the stream is cut; later it is text."""
    whole, thought, said = THINKS[case]
    places = sorted({0, len(whole), *(cut for cut in cuts if cut < len(whole))})
    pieces = [whole[start:end] for start, end in pairwise(places)]
    message: dict[str, Any] = {"role": "assistant", "content": said}
    if thought:
        message["reasoning_content"] = thought
    assert streamed(pieces) == (thought, said, message)


@given(
    words=st.lists(
        st.sampled_from(
            ["<think>", "</think>", "<thinking>", "</thinking>", "<", "/", "think", ">", " ", "a"]
        ),
        max_size=10,
    ),
    finish=st.sampled_from(["stop", "length", None]),
)
def test_a_thought_in_tags_in_any_pieces(words: list[str], finish: str | None) -> None:
    """Whole, in words or character by character: the same deltas joined, and the same reply or fault. The
    deltas are what the message holds."""
    whole = "".join(words)
    thought, said, reply = streamed([whole], finish)
    assert streamed(words, finish) == streamed(list(whole), finish) == (thought, said, reply)
    if isinstance(reply, dict):
        assert (reply["content"] or "", reply.get("reasoning_content", "")) == (said, thought)


def test_only_a_thought_in_tags() -> None:
    """S28: a thought that is not closed is all thought, and a reply without a word is empty: asked for once
    more, then an error. One cut at its limit is not asked for again; one with calls is whole."""
    assert streamed(["<think>A sum", ".\n"]) == ("A sum.", "", "empty")
    assert streamed(["<think>A sum", ".</th"], "length") == ("A sum.</th", "", "unusable")
    assert streamed(["<think>A sum.</think>\n"]) == ("A sum.", "", "empty")
    call = {"index": 0, "id": "x", "function": {"name": "add", "arguments": "{}"}}
    thought, said, message = streamed(["<think>A sum."], tool_calls=[call])
    assert (thought, said, message["content"]) == ("A sum.", "", None)
    assert message["reasoning_content"] == "A sum."


def test_tags_where_the_server_tells_thoughts_apart() -> None:
    """A thought that came in its own field was the thought, so a tag in the text is text."""
    said, reply = put([chunk(reasoning="Hm."), chunk(content="<think>x</think>"), END])
    assert said == reply.message["content"] == "<think>x</think>"
    assert reply.message["reasoning"] == "Hm."


def test_a_thought_in_tags_becomes_reasoning() -> None:
    """From a stream, from parts and from a whole reply the shape makes reasoning and text of it."""
    wanted = [Assistant(content=(Reasoning(text="A sum."), Text(text="3")), response="r")]
    text = "<think>A sum.</think>3"
    for event in (chunk(content=text), chunk(content=[{"type": "text", "text": text}])):
        assert OpenAIChatShape().entries(put([event, END])[1].message, "r") == wanted
    reply = ChatReply("asked")
    choice = {"message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
    assert list(reply.whole({"choices": [choice]})) == [ReasoningDelta("A sum."), TextDelta("3")]
    assert OpenAIChatShape().entries(reply.completed(framed=True).message, "r") == wanted


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**40), 2**40) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=8,
)
scripted = st.builds(
    Reply,
    text=st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=40).map(
        lambda text: f"x{text}"
    ),
    reasoning=st.text(st.characters(exclude_categories=["Cs"]), max_size=30),
    calls=st.lists(
        st.builds(
            Call,
            name=st.sampled_from(["add", "sub"]),
            args=st.dictionaries(st.text(max_size=5), json_values, max_size=3),
        ),
        max_size=4,
    ).map(tuple),
    pieces=st.integers(1, 12),
)


@pytest.mark.parametrize("shape", sorted(UNDER))
@settings(deadline=None)
@given(scripted)
def test_any_reply_comes_out_as_it_went_in(shape: Any, reply: Reply) -> None:
    """Cut into any pieces, the stream is put together to the same message and the same text."""
    reply = reply.named()
    body = {"model": "m", "include": ["reasoning.encrypted_content"]}
    frames = DIALECTS[shape].frames(reply, Usage(input=1, output=1), body, Memory(), "id")
    events = [json.loads(json.dumps(frame.data)) for frame in frames]
    said, found = put(events, shape)
    assert said == reply.text
    expected = message_of(reply, shape)
    assert _without_ids(found.message) == _without_ids(json.loads(json.dumps(expected)))
    assert found.stop == reply.why


@settings(deadline=None)
@given(
    st.lists(
        json_values
        | st.dictionaries(
            st.sampled_from(
                [
                    "type",
                    "choices",
                    "delta",
                    "index",
                    "item",
                    "response",
                    "message",
                    "content_block",
                    "error",
                    "usage",
                ]
            ),
            json_values,
            max_size=6,
        ),
        max_size=6,
    ),
    st.booleans(),
)
def test_no_event_is_too_strange(events: list[Any], framed: bool) -> None:
    """Whatever JSON a server sends, it is a reply or a fault, and nothing else is raised."""
    for shape, under in UNDER.items():
        reply = under(shape)
        with suppress(Faulted):
            for event in events:
                list(reply.take(event))
            reply.completed(framed=framed)


def _without_ids(message: dict[str, Any]) -> Any:
    """Items of the responses API have ids of their own, made anew each time."""
    items = message.get("output")
    return message if items is None else [{k: v for k, v in item.items() if k != "id"} for item in items]
