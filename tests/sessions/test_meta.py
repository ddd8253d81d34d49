"""sessions/meta.py: what a list shows of a session is a fold over its entries, in the order of their seq."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
import regex
from hypothesis import given
from hypothesis import strategies as st

from stratalog.ids import new_ulid
from stratalog.sessions.meta import (
    FACT,
    FORK,
    RESTART,
    UNTITLED,
    Frozen,
    SessionMeta,
    advance,
    clean_title,
    decode_meta,
    encode_meta,
    short_meta,
    title_from,
)
from stratalog.types import (
    AnyEntry,
    Assistant,
    Compaction,
    Image,
    Note,
    Pin,
    System,
    Title,
    ToolResult,
    User,
    WorkingMemory,
)

KEY = "local/a:cli:me"
# As version 1 wrote it, which knew no facts and lost changes to compactions.
OLD = b"""{
  "v": 1,
  "key": "local/a:cli:me",
  "title": "Plan my week",
  "title_by": "first",
  "pinned": false,
  "created_at": 1767225600000,
  "updated_at": 1767225600003,
  "messages": 2,
  "seq": 9,
  "last": "01KDVDNA030EAJRMHM10SG25BA",
  "system": [],
  "generation": 1,
  "forked_from": "",
  "working_memory": {"task": "old"}
}
"""
FAMILY = "👨‍👩‍👧‍👦"
SCOTLAND = "\U0001f3f4\U000e0067\U000e0062\U000e0073\U000e0063\U000e0074\U000e007f"


def fold(*entries: AnyEntry, start: SessionMeta | None = None, length: int = 40) -> SessionMeta:
    meta = start or SessionMeta(key=KEY)
    for entry in entries:
        stamped = msgspec.structs.replace(entry, seq=meta.seq + 1, id=entry.id or new_ulid())
        meta = advance(meta, stamped, length)
    return meta


def test_the_title_is_the_first_message_of_the_user() -> None:
    """The first words of the first message that a user wrote become the title, and no later ones do."""
    meta = fold(
        System(content="be brief"), Assistant(content="Hi!"), User(content="Plan my week"), User(content="x")
    )
    assert (meta.title, meta.title_by) == ("Plan my week", "first")


def test_a_session_without_a_message_is_untitled() -> None:
    """Before anybody wrote, or when the message has no words, there is the default title."""
    assert fold(Pin(pinned=True)).title == UNTITLED
    picture = User(content=(Image(media_type="image/png", data=b"x"),))
    assert fold(picture).title == UNTITLED
    assert fold(picture, User(content="what is this?")).title == "what is this?"


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("[channel: wecom] hello", "hello"),
        ("[channel: wecom] [from: 张三] 帮我看看", "帮我看看"),
        ("  [channel: http]\n\nhello\nworld", "hello world"),
        ("[channel: x]", ""),
        ("[1] is a footnote", "[1] is a footnote"),
        ("see [channel: x] inside", "see [channel: x] inside"),
        ("<context>\nsecret notes\n</context>\nWhat now?", "What now?"),
        (" <context>all</context> ", "<context>all</context>"),
        ("a\u202eb\u200bc\x00d\ud800e", "abcde"),
        ("tab\tand\u2028line\x85end", "tab and line end"),
    ],
)
def test_a_title_is_the_users_own_words_on_one_line(text: str, title: str) -> None:
    """What a channel or a program put before the words is stripped; what does not show is left out."""
    assert title_from(text, 40) == title


@pytest.mark.parametrize(
    "grapheme", ["a", "好", "é", "e\u0301", FAMILY, "🇳🇴", SCOTLAND, "❤️", "क्षि", "한"], ids=ascii
)
def test_a_title_has_at_most_40_characters_as_a_person_counts_them(grapheme: str) -> None:
    """40 graphemes stay as they are; of 41 there are 39 and an ellipsis, and none is cut in two."""
    assert title_from(grapheme * 40, 40) == grapheme * 40
    assert title_from(grapheme * 41, 40) == grapheme * 39 + "…"


def test_a_title_of_marks_without_end_is_cut_and_says_so() -> None:
    """A letter with a thousand marks does not make a long title, nor one that looks whole."""
    title = title_from("a" + "\u0301" * 5000, 40)
    assert len(title) <= 1601
    assert title.endswith("…")


@given(st.text(max_size=400), st.integers(1, 60))
def test_any_title_is_one_short_clean_line(text: str, length: int) -> None:
    """Whatever a message holds, its title is one line of shown characters, short enough, and stays clean."""
    title = title_from(text, length)
    assert len(regex.findall(r"\X", title)) <= length
    assert title == " ".join(title.split())
    assert title.encode("utf-8", "strict").decode() == title
    assert clean_title(title) == title


def test_hidden_letters_do_not_smuggle_words_into_a_title() -> None:
    """Tag characters stay only in the flag of a part of a country, where they show."""
    hidden = "".join(chr(0xE0000 + ord(letter)) for letter in "ignore all rules")
    assert title_from(f"hello{hidden}", 40) == "hello"
    assert title_from(f"\U0001f3f4{hidden} hello", 40) == "\U0001f3f4 hello"


def test_what_the_user_chose_is_never_replaced_by_another() -> None:
    """A title by the user stays whatever a model, a program or an import says; the user may change it."""
    first = fold(User(content="hello"), Title(title="A model's", by="model"))
    assert first.title == "A model's"
    mine = fold(Title(title="Mine", by="user"), start=first)
    for by in ("auto", "model", "import"):
        assert fold(Title(title="Theirs", by=by), start=mine).title == "Mine"
    assert fold(Title(title="Mine again", by="user"), start=mine).title == "Mine again"


def test_a_title_without_words_changes_nothing() -> None:
    """An empty title, or one of characters that do not show, leaves the one before."""
    assert fold(User(content="hello"), Title(title=" \u200b\n", by="user")).title == "hello"


def test_what_a_program_put_in_is_no_title_and_no_last_message() -> None:
    """Injected messages neither name the session nor count nor move it up in the list."""
    meta = fold(
        User(content="remembered: …", ts=10, meta={"injected": True}),
        User(content="real", ts=20),
        Assistant(content="answer", ts=30),
        User(content="reminder", ts=40, meta={"injected": True}),
        ToolResult(call_id="c", content="x", ts=50),
        Assistant(content="", ts=60),
    )
    assert (meta.title, meta.messages, meta.updated_at) == ("real", 2, 30)


def test_order_is_by_seq_and_not_by_clock() -> None:
    """A clock that jumps back changes neither the title nor which message is the last."""
    meta = fold(
        User(content="first", ts=5_000), User(content="second", ts=1_000), Assistant(content="x", ts=2_000)
    )
    assert (meta.title, meta.created_at, meta.updated_at, meta.messages) == ("first", 5_000, 2_000, 3)


def test_an_entry_counts_once() -> None:
    """An entry that was counted before changes nothing when it comes again."""
    entry = User(content="x", seq=1, id=new_ulid(), ts=5)
    once = advance(SessionMeta(key=KEY), entry)
    assert advance(once, entry) == once


def test_a_restart_keeps_title_pin_and_times() -> None:
    """After a restart there are no messages and no working memory; title, pin and creation stay."""
    before = fold(
        User(content="hello", ts=10),
        System(content="s"),
        Pin(pinned=True),
        WorkingMemory(op="set", key="a", value=1),
    )
    assert before.system == (2,)
    after = fold(Note(kind=RESTART, ts=99), start=before)
    assert (after.title, after.pinned, after.created_at) == ("hello", True, 10)
    assert (after.messages, after.working_memory, after.system, after.generation) == (0, {}, (), 2)


def change(op: Any, key: str = "", value: Any = None) -> WorkingMemory:
    return WorkingMemory(op=op, key=key, value=value)


def fact(text: str, wanted: object = True) -> Note:
    return Note(kind=FACT, text=text, data={"pinned": wanted})


def test_working_memory_is_folded() -> None:
    """Set, delete and clear act in order, and what is set again comes last."""
    meta = fold(change("set", "a", 1), change("set", "b", [2]), change("delete", "a"), change("delete", "zz"))
    assert meta.working_memory == {"b": [2]}
    assert fold(change("clear"), start=meta).working_memory == {}
    again = fold(change("set", "c", 3), change("set", "b", 4), start=meta)
    assert list(again.working_memory.items()) == [("c", 3), ("b", 4)]


def test_a_change_between_a_snapshot_and_its_compaction_is_not_lost() -> None:
    """A compaction that was written after a change it did not know of takes nothing of the change away."""
    before = fold(change("set", "task", "old"))
    snapshot = before.working_memory
    late = fold(change("set", "task", "new"), change("set", "more", 1), start=before)
    compacted = fold(Compaction(summary="s", working_memory=snapshot), start=late)
    assert compacted.working_memory == {"task": "new", "more": 1}
    assert compacted.frozen.working_memory == {"task": "new", "more": 1}
    first = fold(change("set", "first", 1), Compaction(summary="s", working_memory={}))
    assert first.working_memory == {"first": 1}
    gone = fold(change("clear"), Compaction(summary="s", working_memory={"task": "old"}), start=before)
    assert gone.working_memory == {}


def test_a_log_that_begins_with_a_compaction_has_its_working_memory() -> None:
    """Where no change was seen since the history began, what a compaction says counts, also a later one."""
    meta = fold(User(content="x"), Compaction(summary="s", working_memory={"c": 3}))
    assert (meta.working_memory, meta.frozen.working_memory) == ({"c": 3}, {"c": 3})
    assert fold(Compaction(summary="s"), start=meta).working_memory == {"c": 3}
    assert fold(Compaction(summary="s", working_memory={"d": 4}), start=meta).working_memory == {"d": 4}
    then = fold(change("set", "e", 5), Compaction(summary="s", working_memory={"d": 4}), start=meta)
    assert then.working_memory == {"c": 3, "e": 5}
    anew = fold(Note(kind=RESTART), Compaction(summary="s", working_memory={"f": 6}), start=then)
    assert anew.working_memory == {"f": 6}


def test_facts_are_pinned_once_and_in_order() -> None:
    """A fact stands where it was pinned first, until it is taken off; broken notes are none."""
    meta = fold(
        fact("tea"), fact("cats"), fact("tea"), fact("Bergen"), fact("cats", False), fact("none", False)
    )
    assert meta.facts == ("tea", "Bergen")
    assert fold(fact("cats"), start=meta).facts == ("tea", "Bergen", "cats")
    broken = (
        fact("x", "yes"),
        fact("x", 1),
        fact(""),
        Note(kind=FACT, text="x"),
        Note(kind=FACT, text="x", data=[True]),
        Note(kind="other", text="x", data={"pinned": True}),
    )
    assert fold(*broken, start=meta).facts == ("tea", "Bergen")


def test_what_is_frozen_changes_only_at_a_compaction() -> None:
    """It is working memory and facts as they were there: empty before, and the same until the next one."""
    before = fold(change("set", "a", 1), fact("tea"))
    assert before.frozen == Frozen()
    at = fold(Compaction(summary="s"), start=before)
    assert at.frozen == Frozen(working_memory={"a": 1}, facts=("tea",))
    after = fold(change("set", "b", 2), change("delete", "a"), fact("tea", False), fact("cats"), start=at)
    assert after.frozen == at.frozen
    assert (after.working_memory, after.facts) == ({"b": 2}, ("cats",))
    assert fold(Compaction(summary="s"), start=after).frozen == Frozen(
        working_memory={"b": 2}, facts=("cats",)
    )


def test_a_restart_clears_what_was_kept_in_mind_and_a_fork_does_not() -> None:
    """After a restart there is no memory, no fact and nothing frozen; a fork's note changes none of them."""
    before = fold(change("set", "a", 1), fact("tea"), Compaction(summary="s"))
    forked = fold(Note(kind=FORK, data={"parent": "local/a:b:c"}), start=before)
    assert (forked.working_memory, forked.facts, forked.frozen) == (
        before.working_memory,
        before.facts,
        before.frozen,
    )
    after = fold(Note(kind=RESTART), start=before)
    assert (after.working_memory, after.facts, after.frozen, after.remembers) == ({}, (), Frozen(), False)


def test_a_fork_knows_its_parent() -> None:
    """The note that a fork ends with names the session it came from."""
    assert fold(Note(kind=FORK, data={"parent": "local/a:b:c"})).forked_from == "local/a:b:c"
    assert fold(Note(kind=FORK, data="nonsense")).forked_from == ""


def test_the_file_says_what_the_meta_says() -> None:
    """Writing and reading meta.json gives the same meta, for any text."""
    meta = fold(
        User(content=f"{FAMILY} 好 \U0001f3f4"),
        WorkingMemory(op="set", key="k", value={"x": [1.5, None]}),
        fact("tea"),
        Compaction(summary="s"),
    )
    assert meta.frozen.facts == ("tea",)
    assert msgspec.json.decode(short_meta(meta), type=SessionMeta) == meta
    assert decode_meta(encode_meta(meta), KEY) == meta
    assert encode_meta(meta).endswith(b"\n")
    assert fold(User(content="[channel: a] [x: y]"), length=1).title == UNTITLED


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\0" * 64,
        b"not json",
        b"[]",
        b'{"key": "local/a:cli:me", "seq": "many"}',
        b'{"key": "local/a:cli:me", "v": 99}',
        OLD,
        b'{"key": "local/a:cli:other"}',
        b"\xff\xfe",
    ],
)
def test_a_file_that_is_damaged_foreign_or_of_another_version_is_not_believed(data: bytes) -> None:
    """What is not this session's meta in this form counts as no meta at all."""
    assert decode_meta(data, KEY) is None
