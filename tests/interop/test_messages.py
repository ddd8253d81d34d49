"""The forms of plain message lists: array, object, array of objects, JSON lines of either."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interop.samples import MTIME, chats, grows, ids, jsonl, notes, of, read
from stratalog.errors import ImportFailed
from stratalog.types import System, User

HI = {"role": "user", "content": "hi"}
YO = {"role": "assistant", "content": "yo"}


@pytest.mark.parametrize("format", ["openai", "anthropic"])
@pytest.mark.parametrize(
    ("data", "name", "expected"),
    [
        ([HI, YO], "a.json", ["a"]),
        ({"messages": [HI, YO]}, "a.json", ["a"]),
        ({"messages": [HI, YO], "id": "x1"}, "a.json", ["x1"]),
        ([{"messages": [HI]}, {"messages": [YO], "conversation_id": "x1"}], "a.json", ["a:1", "x1"]),
        ([{"messages": [HI], "id": "x"}, {"messages": [YO], "id": "x"}], "a.json", ["x", "x:2"]),
        (jsonl(HI, YO), "a.jsonl", ["a"]),
        (jsonl({"messages": [HI, YO]}, {"messages": [HI]}), "a.jsonl", ["a:1", "a:2"]),
        (jsonl({"messages": [HI]}, YO), "a.jsonl", ["a:1", "a:2"]),
    ],
)
def test_forms(format: str, data: Any, name: str, expected: list[str]) -> None:
    """Messages alone are one session named after the file; each object with messages is its own."""
    assert chats(read(format, data, name)) == expected


def test_object() -> None:
    """What stands beside the messages is used: the prompt, the title, the time, the model."""
    value = {
        "messages": [HI],
        "system": "Be kind.",
        "title": "T",
        "created": 1_700_000_001,
        "model": "m",
        "tools": [{}],
    }
    transcript = read("anthropic", value, "a.json")
    (session,) = transcript.sessions
    assert (session.title, session.meta) == ("T", {"model": "m"})
    assert of(System, session)[0].text == "Be kind."
    assert {entry.ts for entry in session.entries} == {1_700_000_001_000}
    assert "definitions of 1 tools are not kept" in notes(transcript)


def test_no_time() -> None:
    """Messages without any time have the file's, and their ids do not depend on it."""
    early, late = (read("openai", [HI], "a.json", mtime) for mtime in (1, MTIME))
    assert of(User, late)[0].ts == MTIME
    assert ids(early) == ids(late)


def test_not_messages() -> None:
    """What is no message is skipped with a reason; a document without messages is refused."""
    transcript = read("openai", [HI, 7, {"x": 1}], "a.json")
    assert [skip.reason for skip in transcript.report.skipped] == [
        "record 2: a int, not an object",
        "record 3: neither a message with a role nor an object with messages",
    ]
    with pytest.raises(ImportFailed, match="no list of messages"):
        read("openai", {"x": 1}, "a.json")


@given(st.lists(st.tuples(st.sampled_from(["user", "assistant", "system"]), st.text(max_size=3)), max_size=8))
def test_growth(said: list[tuple[str, str]]) -> None:
    """Lines that were there before keep their ids, equal lines having different ones."""
    for format in ("openai", "anthropic"):
        grows(format, [{"role": role, "content": words} for role, words in said])
