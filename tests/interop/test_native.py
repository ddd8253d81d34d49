"""Our own JSON lines come back exactly."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from interop.samples import MTIME
from stratalog.errors import ImportFailed
from stratalog.ids import derived_ulid
from stratalog.interop.contract import Source, Transcript
from stratalog.interop.export import to_jsonl
from stratalog.interop.native import STRATALOG, from_jsonl
from stratalog.keys import session_key
from stratalog.types import (
    AnyEntry,
    Assistant,
    Blob,
    Compaction,
    Data,
    File,
    Image,
    Note,
    Pin,
    Reasoning,
    System,
    Text,
    Title,
    ToolCall,
    ToolResult,
    TurnEnd,
    TurnStart,
    Unknown,
    Usage,
    User,
    WorkingMemory,
)

_WORDS = st.text(max_size=20)
_JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | _WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_WORDS, inner, max_size=3),
    max_leaves=5,
)
_BLOB = st.none() | st.builds(Blob, sha256=_WORDS, size=st.integers(0, 9), field=_WORDS)
_PART = st.one_of(
    st.builds(Text, text=_WORDS, blob=_BLOB),
    st.builds(Image, media_type=_WORDS, data=st.binary(max_size=9), url=_WORDS, blob=_BLOB),
    st.builds(File, name=_WORDS, data=st.binary(max_size=9)),
    st.builds(Reasoning, text=_WORDS, signature=_WORDS, redacted=_WORDS),
    st.builds(Data, kind=_WORDS, value=_JSON),
)
_HEAD: dict[str, Any] = {
    "seq": st.integers(0, 2**60),
    "id": st.just("") | st.builds(derived_ulid, st.integers(0, 2**48 - 1), _WORDS),
    "ts": st.integers(0, 2**48),
    "turn": _WORDS,
    "meta": st.none() | st.dictionaries(_WORDS, _JSON, max_size=2),
}
_CONTENT = _WORDS | st.lists(_PART, max_size=3).map(tuple)
_USAGE = st.none() | st.builds(Usage, input=st.integers(0, 9), output=st.integers(0, 9))
ENTRIES: st.SearchStrategy[AnyEntry] = st.one_of(
    st.builds(User, content=_CONTENT, blob=_BLOB, **_HEAD),
    st.builds(System, content=_CONTENT, **_HEAD),
    st.builds(Assistant, content=_CONTENT, model=_WORDS, response=_WORDS, usage=_USAGE, **_HEAD),
    st.builds(ToolCall, call_id=_WORDS, name=_WORDS, args=_JSON, blob=_BLOB, **_HEAD),
    st.builds(ToolResult, call_id=_WORDS, content=_CONTENT, error=st.booleans(), **_HEAD),
    st.builds(Compaction, summary=_WORDS, first_kept=_WORDS, covers=st.tuples(_WORDS, _WORDS), **_HEAD),
    st.builds(
        WorkingMemory, op=st.sampled_from(["set", "delete", "clear"]), key=_WORDS, value=_JSON, **_HEAD
    ),
    st.builds(Title, title=_WORDS, by=st.sampled_from(["user", "auto", "model", "import"]), **_HEAD),
    st.builds(Pin, pinned=st.booleans(), **_HEAD),
    st.builds(TurnStart, fence=st.integers(0, 9), holder=_WORDS, **_HEAD),
    st.builds(TurnEnd, status=st.sampled_from(["answered", "aborted", "timed_out"]), detail=_WORDS, **_HEAD),
    st.builds(Note, kind=_WORDS, text=_WORDS, data=_JSON, **_HEAD),
)


def load(data: bytes) -> Transcript:
    return from_jsonl(Source(Path("mine.jsonl"), data, MTIME))


@given(st.lists(ENTRIES, min_size=1, max_size=5))
def test_round_trip(entries: list[AnyEntry]) -> None:
    """What was exported is imported again, equal in every field, and exports to the same bytes."""
    data = b"".join(to_jsonl(entries))
    assert data.count(b"\n") == len(entries)
    (session,) = load(data).sessions
    assert session.entries == tuple(entries)
    assert b"".join(to_jsonl(session.entries)) == data


def test_later_version() -> None:
    """A line of a type we do not know passes through byte for byte."""
    line = b'{"type":"dream", "id":"01ARZ3NDEKTSV4RRFFQ69G5FAV","ts":5,"seq":3,"turn":"t","vivid":1.0}'
    (session,) = load(line + b"\n").sessions
    (entry,) = session.entries
    assert entry == Unknown(seq=3, id="01ARZ3NDEKTSV4RRFFQ69G5FAV", ts=5, turn="t", kind="dream", raw=line)
    assert b"".join(to_jsonl([entry])) == line + b"\n"


def test_bad_lines() -> None:
    """A line that is no entry is reported with its place; the others load."""
    good = msgspec.json.encode(User(id="x", content="hi"))
    transcript = load(good + b"\n{torn\n[1]\n" + b'{"type":"pin"}\n\n' + good)
    assert len(transcript.sessions[0].entries) == 2
    report = transcript.report
    assert [(skip.line, skip.kind) for skip in report.skipped] == [
        (2, "damage"),
        (3, "damage"),
        (4, "damage"),
    ]
    assert report.read == 5


def test_session() -> None:
    """The chat is the file's name and the title the last one given."""
    entries = [Title(id="a", title="old"), Title(id="b", title="new")]
    (session,) = load(b"".join(to_jsonl(entries))).sessions
    assert (session.agent, session.chat, session.title) == ("stratalog", "mine", "new")


KEY = session_key("helper", "cli", "trip: Rome", "acme")
SAID = User(id="01ARZ3NDEKTSV4RRFFQ69G5FAV", ts=1, content="hi")


def test_an_export_says_whose_it_is() -> None:
    """The first line names agent, channel, chat and title; the tenant is the business of the memory."""
    data = b"".join(to_jsonl([SAID], key=KEY, title="Rome"))
    head = data.splitlines()[0]
    assert head == (
        b'{"type":"stratalog_export","version":1,"key":"acme/helper:cli:trip: Rome","title":"Rome"}'
    )
    transcript = load(data)
    (session,) = transcript.sessions
    assert (session.agent, session.channel, session.chat) == ("helper", "cli", "trip: Rome")
    assert (session.title, session.named_by_file, session.entries) == ("Rome", False, (SAID,))
    assert transcript.report.merged == {"stratalog_export": 1}
    assert STRATALOG.matches(data, Path("x"))


def test_an_export_says_what_was_said_of_the_session() -> None:
    """Its metadata stands in the first line, for a restart may have left it in older entries."""
    data = b"".join(to_jsonl([SAID], key=KEY, metadata={"residency": "local_only"}))
    assert b'"metadata":{"residency":"local_only"}}' in data.splitlines()[0]
    (session,) = load(data).sessions
    assert session.metadata == {"residency": "local_only"}


def test_without_a_first_line_the_file_names_the_session() -> None:
    """Entries alone are a session of the file's name, and said to be."""
    (session,) = load(b"".join(to_jsonl([SAID]))).sessions
    assert (session.agent, session.chat, session.named_by_file) == ("stratalog", "mine", True)


def test_exports_in_one_file_stay_apart() -> None:
    """Each such line begins a session of its own, and entries before the first are the file's."""
    other = session_key("helper", "cli", "b")
    data = b"".join((*to_jsonl([SAID]), *to_jsonl([SAID], key=KEY), *to_jsonl([SAID], key=other)))
    assert [session.chat for session in load(data).sessions] == ["mine", "trip: Rome", "b"]


def test_a_later_export_is_refused() -> None:
    """A first line of a later version is an error with its line, not a guess."""
    with pytest.raises(ImportFailed, match="version 2") as caught:
        load(b'{"type":"stratalog_export","version":2,"whose":"?"}\n' + b"".join(to_jsonl([SAID])))
    assert caught.value.where["line"] == 1


@pytest.mark.parametrize(
    "rest", [b'"version":1', b'"version":1,"key":"a/../b"', b'"version":"x","key":"a:b:c"']
)
def test_a_broken_first_line_names_nothing(rest: bytes) -> None:
    """It is reported as damage, and the entries are those of a file without an id."""
    transcript = load(b'{"type":"stratalog_export",' + rest + b"}\n" + b"".join(to_jsonl([SAID])))
    assert [(skip.line, skip.kind) for skip in transcript.report.skipped] == [(1, "damage")]
    assert [session.named_by_file for session in transcript.sessions] == [True]
