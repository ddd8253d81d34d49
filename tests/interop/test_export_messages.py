"""Sessions as messages: what providers' official clients take, and what importers bring back the same."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from interop.samples import read
from interop.test_native import ENTRIES
from stratalog.context.view import withdrawal
from stratalog.errors import InvalidInput
from stratalog.interop.detect import detect
from stratalog.interop.export_formats import EXPORTS, exported
from stratalog.keys import session_key
from stratalog.testing.model_server import DIALECTS, refusal_of
from stratalog.types import (
    AnyEntry,
    Assistant,
    Compaction,
    File,
    Image,
    Note,
    Reasoning,
    System,
    Text,
    ToolCall,
    ToolResult,
    TurnEnd,
    TurnStart,
    User,
)

KEY = session_key("helper", "cli", "chat-1")
PNG = b"\x89PNG\r\n\x1a\n12345678"
MESSAGES = ("openai", "anthropic", "sharegpt")


def export(format: str, *entries: AnyEntry, title: str = "A talk") -> dict[str, Any]:
    (line,) = exported(format, KEY, title, entries)
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    found: dict[str, Any] = msgspec.json.decode(line)
    return found


def numbered(*entries: AnyEntry) -> list[AnyEntry]:
    """The entries as a log has them."""
    return [
        msgspec.structs.replace(entry, seq=seq, id=f"{seq:026}", ts=seq)
        for seq, entry in enumerate(entries, 1)
    ]


TALK = numbered(
    System(content="Be brief."),
    User(turn="a", content="look"),
    TurnStart(turn="a"),
    Assistant(turn="a", response="r", content=(Reasoning(text="hm"), Text(text="looking"))),
    ToolCall(turn="a", response="r", call_id="c1", name="look", args={"at": "sky"}),
    ToolCall(turn="a", response="r", call_id="c2", name="look", args={"at": "sea"}),
    ToolResult(turn="a", call_id="c2", content="blue too"),
    ToolResult(turn="a", call_id="c1", content="blue"),
    Assistant(turn="a", content="Both are blue."),
    TurnEnd(turn="a", status="answered"),
    Compaction(summary="We looked."),
    Note(kind="fact", text="not a message"),
    User(turn="b", content=(Text(text="and this?"), Image(media_type="image/png", data=PNG))),
    Assistant(turn="b", content="A picture."),
)


def test_openai() -> None:
    """The system's words first, calls with their results in their order, all turns though there was a
    compaction, and the picture's own bytes."""
    made = export("openai", *TALK)
    assert {name: made[name] for name in ("id", "title")} == {"id": "chat-1", "title": "A talk"}
    asked = made["messages"].pop(6)
    assert asked["content"][1]["image_url"]["url"].startswith("data:image/png;base64,iVBOR")
    assert [(each["role"], each["content"]) for each in made["messages"]] == [
        ("system", "Be brief."),
        ("user", "look"),
        ("assistant", "looking"),
        ("tool", "blue"),
        ("tool", "blue too"),
        ("assistant", "Both are blue."),
        ("assistant", "A picture."),
    ]
    assert [call["id"] for call in made["messages"][2]["tool_calls"]] == ["c1", "c2"]


def test_anthropic() -> None:
    """Blocks, with the system's beside them, and no marks for a cache."""
    made = export("anthropic", *TALK)
    assert made["system"] == [{"type": "text", "text": "Be brief."}]
    kinds = [[block["type"] for block in message["content"]] for message in made["messages"]]
    assert kinds == [
        ["text"],
        ["text", "tool_use", "tool_use"],
        ["tool_result", "tool_result"],
        ["text"],
        ["text", "image"],
        ["text"],
    ]
    assert "cache_control" not in str(made)


def test_a_calls_own_cache_control_stays() -> None:
    """What only looks like such a mark is an argument as any other."""
    args = {"cache_control": 1, "content": [{"cache_control": 2}]}
    made = export("anthropic", User(content="x"), ToolCall(call_id="1", name="t", args=args))
    assert made["messages"][1]["content"][0]["input"] == args


def test_sharegpt() -> None:
    """Sides by turns, each call followed by what it came to."""
    assert export("sharegpt", *TALK)["conversations"] == [
        {"from": "system", "value": "Be brief."},
        {"from": "human", "value": "look"},
        {"from": "gpt", "value": "looking"},
        {"from": "function_call", "value": '{"name":"look","arguments":{"at":"sky"}}'},
        {"from": "observation", "value": "blue"},
        {"from": "function_call", "value": '{"name":"look","arguments":{"at":"sea"}}'},
        {"from": "observation", "value": "blue too"},
        {"from": "gpt", "value": "Both are blue."},
        {"from": "human", "value": "and this?\n\n[image]"},
        {"from": "gpt", "value": "A picture."},
    ]


@pytest.mark.parametrize("format", MESSAGES)
def test_a_log_that_begins_with_a_summary(format: str) -> None:
    """The summary of what another log holds is told by the system."""
    made = export(format, *numbered(Compaction(summary="Ana likes tea."), User(content="hi")))
    assert "Ana likes tea." in str(made)
    assert "Ana likes tea." not in str(
        export(format, *numbered(User(content="hi"), Compaction(summary="Ana likes tea.")))
    )


@pytest.mark.parametrize("format", MESSAGES)
def test_what_was_withdrawn_is_not_sent(format: str) -> None:
    """Words, the system's too, and calls that a later note takes out of what a model sees are not messages,
    also when a compaction stands between; what was said beside them is."""
    said = numbered(
        System(content="gone rule"),
        User(content="gone words"),
        ToolCall(call_id="1", name="look", args={"at": "gone"}),
        ToolResult(call_id="1", content="gone sight"),
        Assistant(content="a reply that stays"),
        Compaction(summary="told"),
    )
    note = msgspec.structs.replace(withdrawal(said[:4]), seq=7, id="7", ts=7)
    made = str(export(format, *said, note, User(content="and on")))
    assert "gone" not in made
    assert "a reply that stays" in made
    assert "and on" in made


@pytest.mark.parametrize("format", MESSAGES)
def test_the_format_is_known_again(format: str, tmp_path: Any) -> None:
    """An export is told from other formats by its beginning, in both kinds of file."""
    for name in ("a.json", "a.jsonl"):
        for entries in (TALK, [User(content="hi"), Assistant(content="yo")]):
            path = tmp_path / name
            path.write_bytes(b"".join(exported(format, KEY, "", entries)))
            assert detect(path) == format


def test_unknown_format() -> None:
    """A format that is not there is refused with those that are."""
    with pytest.raises(InvalidInput, match="no such format"):
        exported("pdf", KEY, "", [])
    assert list(EXPORTS) == ["jsonl", "markdown", "html", *MESSAGES]


# --- round trips ---

_WORD = st.text('abc äß你好 \n"\\{}<>`', min_size=1, max_size=12).map(str.strip).filter(bool)
_PARTS = st.lists(
    st.one_of(
        st.builds(Text, text=_WORD),
        st.just(Image(media_type="image/png", data=PNG)),
        st.builds(Image, url=st.just("https://a.example/x.png")),
        st.builds(File, name=_WORD, media_type=st.just("application/pdf"), data=st.just(b"%PDF-1.4")),
    ),
    min_size=1,
    max_size=3,
).map(tuple)
# One text alone is a string in every log that a turn wrote.
_SAID = _WORD | _PARTS.filter(lambda parts: len(parts) > 1 or not isinstance(parts[0], Text))
_ARGS = st.dictionaries(st.text("abc", min_size=1, max_size=3), st.integers(-5, 5) | _WORD, max_size=2)
_CALLS = st.lists(st.tuples(st.text("abc_", min_size=1, max_size=5), _ARGS, _SAID), max_size=3)
_TURNS = st.lists(
    st.tuples(_SAID, st.lists(st.tuples(st.none() | _WORD, _CALLS), max_size=3), _WORD), max_size=4
)


def talk(turns: Any, system: list[str]) -> list[AnyEntry]:
    """A conversation as an agent logs it: questions, rounds of words and calls, and a last reply."""
    entries: list[AnyEntry] = [System(content=words) for words in system]
    for at, (asked, rounds, answer) in enumerate(turns):
        entries.append(User(turn=f"t{at}", content=asked))
        for number, (words, calls) in enumerate(rounds):
            response = f"r{number}"
            if words:
                entries.append(Assistant(turn=f"t{at}", response=response, content=words))
            entries += [
                ToolCall(
                    turn=f"t{at}", response=response, call_id=f"c{at}-{number}-{place}", name=name, args=args
                )
                for place, (name, args, _) in enumerate(calls)
            ]
            entries += [
                ToolResult(turn=f"t{at}", call_id=f"c{at}-{number}-{place}", content=result)
                for place, (_, _, result) in enumerate(calls)
            ]
        entries.append(Assistant(turn=f"t{at}", response="last", content=answer))
        entries.append(TurnEnd(turn=f"t{at}", status="answered"))
    return numbered(*entries)


@pytest.mark.parametrize("format", MESSAGES)
@given(st.lists(_WORD, max_size=2), _TURNS)
@settings(max_examples=25, deadline=None)
def test_what_is_exported_comes_back(format: str, system: list[str], turns: Any) -> None:
    """A conversation's messages are the same when they were exported, imported and exported again."""
    made = export(format, *talk(turns, system))
    (session,) = read(format, made, "x.json").sessions or (None,)
    if not made.get("conversations", made.get("messages")):
        assert session is None
        return
    assert (session.chat, session.title) == ("chat-1", "A talk")
    assert export(format, *session.entries) == made


@pytest.mark.parametrize("format", ["openai", "anthropic"])
@given(st.lists(ENTRIES, max_size=5))
@settings(max_examples=60, deadline=None)
def test_providers_take_any_log(format: str, entries: list[AnyEntry]) -> None:
    """Whatever a log holds, the provider's own rules have nothing against its messages."""
    made = export(format, *entries)
    del made["id"], made["title"]
    body = {"model": "m", "max_tokens": 9, **made} if format == "anthropic" else {"model": "m", **made}
    names = {
        block["name"]
        for message in made["messages"]
        for block in message["content"] or ()
        if "input" in block
    }
    if format == "anthropic" and names:
        body["tools"] = [{"name": name, "input_schema": {"type": "object"}} for name in names]
    refused = refusal_of("openai_chat" if format == "openai" else "anthropic", body)
    assert refused == ""


@pytest.mark.parametrize("format", [*EXPORTS])
@given(st.lists(ENTRIES, max_size=4))
@settings(max_examples=25, deadline=None)
def test_any_entries(format: str, entries: list[AnyEntry]) -> None:
    """Whatever a log holds can be exported, in every format."""
    assert b"".join(exported(format, KEY, "T", entries))


def test_each_dialect_is_checked() -> None:
    """The rules that are used here are those of the servers for tests."""
    assert {"openai_chat", "anthropic"} <= set(DIALECTS)
