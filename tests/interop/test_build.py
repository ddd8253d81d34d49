"""Turns, ids, times, usage, titles and names, whatever the format."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interop.samples import MTIME, of, outline
from stratalog.interop.build import Builder, chat_id, source_id, usage_of
from stratalog.interop.contract import ImportedSession, Source
from stratalog.interop.records import Tally
from stratalog.keys import session_key
from stratalog.types import (
    AnyEntry,
    Assistant,
    Note,
    Reasoning,
    Text,
    Title,
    ToolCall,
    ToolResult,
    TurnEnd,
    Usage,
)

SOURCE = Source(Path("a.jsonl"), b"", MTIME)


class Desk:
    """A builder with one record for each thing that is put."""

    def __init__(self, session: str = "s", chat: str = "") -> None:
        self.tally = Tally("test", SOURCE)
        self.builder = Builder(self.tally, SOURCE, "agent", session, chat)
        self.made = 0

    def at(self, ts: int | None = None, key: str = "", **facts: Any) -> Builder:
        self.made += 1
        self.builder.at(self.tally.record({"n": self.made}), key, ts, **facts)
        return self.builder

    def done(self) -> ImportedSession:
        session = self.builder.finish()
        assert session is not None
        return session


def call(call_id: str) -> ToolCall:
    return ToolCall(call_id=call_id, name="look")


def test_turns() -> None:
    """A prompt opens a turn and what follows carries it; what a program wrote opens none."""
    desk = Desk()
    desk.at(5).put(Note(kind="early"))
    desk.at(6).user("<system-reminder>x</system-reminder>")
    desk.at(7).user("hello")
    desk.at(8).output([Text(text="hi")])
    desk.at(9).user("said by a program", by_program=True)
    desk.at(10).user("more")
    session = desk.done()
    assert outline(session) == [
        ("note", "early"),
        ("user", "<system-reminder>x</system-reminder>"),
        ("user", "hello"),
        ("assistant", "hi"),
        ("user", "said by a program"),
        ("turn_end", "answered"),
        ("user", "more"),
        ("turn_end", "interrupted"),
    ]
    first = session.entries[2]
    assert [entry.turn for entry in session.entries] == [
        "",
        "",
        *[first.id] * 4,
        *[session.entries[6].id] * 2,
    ]
    assert (session.entries[1].meta or {})["injected"] is True
    assert of(TurnEnd, session)[1].detail == "no reply"


@pytest.mark.parametrize(
    ("entries", "status"),
    [
        ([Assistant(content="done")], "answered"),
        ([call("1"), ToolResult(call_id="1"), Assistant(content="done")], "answered"),
        ([Assistant(content="looking"), call("1")], "interrupted"),
        ([Assistant(content="looking"), call("1"), ToolResult(call_id="1")], "interrupted"),
        ([Assistant(content=(Reasoning(text="hm"),))], "interrupted"),
        ([Assistant(content="")], "interrupted"),
        ([], "interrupted"),
    ],
)
def test_status(entries: list[AnyEntry], status: str) -> None:
    """A turn is answered when it ends with words of the model and no call is open."""
    desk = Desk()
    desk.at(1).user("go")
    for entry in entries:
        desk.at(2).put(entry)
    assert of(TurnEnd, desk.done())[0].status == status


def test_stopped() -> None:
    """A turn that was stopped is interrupted even if something was said."""
    desk = Desk()
    desk.at(1).user("go")
    desk.at(2).output([Text(text="well")])
    desk.builder.interrupt("by hand")
    end = of(TurnEnd, desk.done())[0]
    assert (end.status, end.detail) == ("interrupted", "by hand")


def test_late_result() -> None:
    """A result belongs to the turn of its call, which ends after it, and takes the call's name."""
    desk = Desk()
    desk.at(1).user("one")
    desk.at(2).put(call("1"))
    desk.at(3).user("two")
    desk.at(4).put(ToolResult(call_id="1", content="late"))
    session = desk.done()
    result = of(ToolResult, session)[0]
    assert (result.turn, result.name) == (session.entries[0].id, "look")
    assert outline(session)[-2:] == [("tool_result", "late"), ("turn_end", "interrupted")]


def test_turn_end_depends_on_the_turn_only() -> None:
    """The end of a turn has the same id however much of the turn is there."""
    ends = []
    for said in ([], ["a"], ["a", "b"]):
        desk = Desk()
        desk.at(1).user("go")
        for words in said:
            desk.at(2).output([Text(text=words)])
        ends.append(of(TurnEnd, desk.done())[0].id)
    assert len(set(ends)) == 1


def test_times() -> None:
    """An entry without a time takes the one before, at the front the first; else the file's."""
    desk = Desk()
    for ts in (None, 50, None, 40, None):
        desk.at(ts).put(Note(kind="n"))
    assert [entry.ts for entry in desk.done().entries] == [50, 50, 50, 40, 40]
    bare = Desk()
    bare.at().put(Note(kind="n"))
    assert bare.done().entries[0].ts == MTIME


def test_ids_do_not_depend_on_the_file() -> None:
    """An id comes from the source's session and record, not from the file's time or the chat."""
    made = []
    for mtime, chat in ((1, ""), (2, "s:branch-x")):
        source = Source(Path("x"), b"", mtime)
        tally = Tally("test", source)
        builder = Builder(tally, source, "agent", "s", chat)
        builder.at(tally.record({}), "r")
        made.append(builder.put(Note(kind="n")))
    assert made[0] == made[1]


def test_usage_once() -> None:
    """Tokens of a response stand once, on its first entry, with the last count that was given."""
    desk = Desk()
    for words, output in (("a", 1), ("b", 9)):
        desk.at(1).output([Text(text=words)], response="r", usage=Usage(input=5, output=output))
    desk.at(2).output([call("1")], response="q", usage=Usage(input=6), model="m")
    said = of(Assistant, desk.done())
    assert [(one.content, one.response, one.usage) for one in said] == [
        ("a", "r", Usage(input=5, output=9)),
        ("b", "r", None),
        ("", "q", Usage(input=6)),
    ]
    assert said[2].model == "m"


def test_responses_without_a_name() -> None:
    """Output up to the next input is one response."""
    desk = Desk()
    desk.at(1).output([Text(text="a")])
    desk.at(1).output([call("1"), call("2")])
    desk.at(1).put(ToolResult(call_id="1"))
    desk.at(1).output([Text(text="b")])
    named = [entry.response for entry in desk.done().entries if isinstance(entry, Assistant | ToolCall)]
    assert named[0] == named[1] == named[2] != named[3]


def test_order_within_output() -> None:
    """Parts and calls keep their order; parts that touch are one message."""
    desk = Desk()
    desk.at(1).output([Reasoning(text="hm"), Text(text="a"), call("1"), Text(text="b")])
    assert outline(desk.done()) == [("assistant", "a"), ("tool_call", "look"), ("assistant", "b")]


def test_pairs_are_reported() -> None:
    """Results without a call and calls without a result are counted in the report."""
    desk = Desk()
    desk.at(1).put(call("1"))
    desk.at(1).put(ToolResult(call_id="other"))
    notes = desk.tally.transcript([desk.done()]).report.notes
    assert notes == ["s: 1 tool results answer no call in this session", "s: calls without a result: 1"]


def test_titles() -> None:
    """The last title counts, a person's above all, on one line; a long one is kept whole in meta."""
    desk = Desk()
    desk.at(1).title("first")
    desk.at(1).title("by\na\u200bperson", by_person=True)
    desk.at(1).title("later")
    desk.at(1).title("  ")
    long = desk.at(1)
    long.title("x" * 300)
    session = desk.done()
    assert session.title == "by a person"
    assert [(one.title[:9], one.by) for one in of(Title, session)] == [
        ("first", "import"),
        ("by a pers", "import"),
        ("later", "import"),
        ("xxxxxxxxx", "import"),
    ]
    last = of(Title, session)[-1]
    assert len(last.title) == 200
    assert (last.meta or {})["full"] == "x" * 300


def test_facts() -> None:
    """Facts go to the session's meta, and to an entry's when they change."""
    desk = Desk()
    for cwd in ("/a", "/a", "/b", None):
        desk.at(1, key=f"k{cwd}", cwd=cwd).put(Note(kind="n"))
    session = desk.done()
    assert session.meta == {"cwd": "/a"}
    assert [(entry.meta or {}).get("cwd") for entry in session.entries] == [None, None, "/b", None]


def test_nothing() -> None:
    """A builder that was given nothing makes no session."""
    assert Desk().builder.finish() is None


@given(st.text(st.characters(), max_size=40))
def test_chat_is_a_key_and_reversible(text: str) -> None:
    """Any id, whatever is in it, becomes a valid chat from which it can be had back."""
    chat = chat_id(text)
    assert session_key("agent", "import", chat).chat == chat
    assert source_id(chat) == text


@pytest.mark.parametrize("text", ["a/b", "..", "a\\b", "%2f", "\x00", "\ud800", "e\u0301", "a=b"])
def test_rewritten_chat_is_reported(text: str) -> None:
    """An id that had to be rewritten is in the meta of the session and in the report."""
    desk = Desk(text)
    desk.at(1).put(Note(kind="n"))
    session = desk.done()
    assert session.meta["source_id"] == text
    assert session.chat in desk.tally.transcript([]).report.notes[0]


def test_long_chat() -> None:
    """Two long ids that begin alike stay two."""
    one, two = chat_id("x" * 5000 + "a"), chat_id("x" * 5000 + "b")
    assert one != two
    assert session_key("agent", "import", one)


def test_usage_of() -> None:
    """Counts that are no positive numbers are 0, and no counts at all are no usage."""
    assert usage_of(input="7", output=-1, cache_read=None) is None
    assert usage_of(input=3, output=None) == Usage(input=3)
