"""The lexical index: what is found, that batches do not matter, and what happens on a bad day."""

from __future__ import annotations

import os
import shutil
import sqlite3
import stat
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stratalog.errors import (
    Conflict,
    DamagedLog,
    ForeignFile,
    InvalidInput,
    LogBusy,
    NewerFormat,
    StorageFailed,
    StratalogError,
)
from stratalog.keys import SessionKey, session_key
from stratalog.recall import lexical, lexical_tables
from stratalog.recall.contract import DocKey, Hit
from stratalog.recall.documents import Document, date_terms, numbered, passages, talk_of, words_of
from stratalog.recall.lexical import LexicalIndex
from stratalog.recall.scopes import named, scope_terms
from stratalog.recall.terms import query_terms, terms
from stratalog.types import (
    AnyEntry,
    Assistant,
    Compaction,
    Note,
    Pin,
    Reasoning,
    System,
    Text,
    Title,
    ToolCall,
    ToolResult,
    TurnStart,
    User,
)

FIXTURES = Path(__file__).parent.parent / "fixtures" / "recall"
KEY = session_key("helper", "web", "1")
DAY = 86_400_000
NOON = 1_683_547_200_000  # 8 May 2023, 12:00 UTC


@pytest.fixture
def index(tmp_path: Path) -> Iterator[LexicalIndex]:
    with LexicalIndex(tmp_path / "recall.sqlite3") as opened:
        yield opened
        check(opened)


def check(index: LexicalIndex) -> None:
    """The full-text index is sound, it holds the terms of the stored documents and no others, and what is
    counted of them is right."""
    db = index._db
    assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    db.execute("INSERT INTO lex (lex) VALUES ('integrity-check')")
    db.execute("CREATE VIRTUAL TABLE temp.held USING fts5vocab (main, lex, instance)")
    held = sorted(db.execute("SELECT DISTINCT doc, term FROM temp.held"))
    db.execute("DROP TABLE temp.held")
    wanted, said, dated, sizes = set(), Counter[str](), Counter[str](), []
    for key in index.sessions():
        sid = lexical_tables.session_id(db, key) or 0
        stored = stored_of(index, key)
        assert index.rows_of(key) == len(stored)
        assert len(index.document_keys(key)) == len(stored)
        for document in stored:
            words = document.terms.split()
            scope = scope_terms(sid, key, document.role, document.ts)
            wanted |= {(document.id, term) for term in [*words, *date_terms(document.ts), *scope]}
            said.update({*words, *scope, *(f"=n{word}" for word in document.speaker.split())})
            dated.update(date_terms(document.ts))
            if document.role in ("user", "assistant") and not document.injected:
                sizes.append(document.size)
    assert held == sorted(wanted)
    counted = {term: (a, b) for term, a, b in db.execute("SELECT term, said, dated FROM words")}
    assert counted == {term: (said[term], dated[term]) for term in {*said, *dated}}
    documents = sum(index.rows_of(key) for key in index.sessions())
    assert tuple(lexical_tables.totals(db)) == (documents, len(sizes), sum(sizes))


def stored_of(index: LexicalIndex, key: SessionKey) -> list[Document]:
    sid = lexical_tables.session_id(index._db, key)
    found = index._db.execute(
        f"SELECT {lexical_tables.DOC} FROM docs WHERE session = ? ORDER BY seq, start", (sid,)
    )
    return [Document(*row) for row in found]


@contextmanager
def temporary() -> Iterator[LexicalIndex]:
    """An index for one example: hypothesis would share a fixture among them all."""
    with tempfile.TemporaryDirectory() as root, LexicalIndex(Path(root) / "recall.sqlite3") as opened:
        yield opened
        check(opened)


def talk(*texts: str, start: int = 1, ts: int = NOON) -> list[AnyEntry]:
    """Messages of a conversation, a minute apart."""
    return [
        (User if seq % 2 else Assistant)(
            seq=seq, id=f"e{seq}", turn=f"t{seq // 2}", ts=ts + 60_000 * seq, content=text
        )
        for seq, text in enumerate(texts, start)
    ]


def add(index: LexicalIndex, entries: list[AnyEntry], key: SessionKey = KEY) -> int:
    """Adds them; in other sessions than `KEY` with ids of their own, as two entries never have the same."""
    if key != KEY:
        entries = [msgspec.structs.replace(each, id=f"{each.id} of {key!s}") for each in entries]
    return index.add(key, entries, upto_seq=max((e.seq for e in entries), default=0), generation=1)


def seqs(hits: list[Hit]) -> list[int]:
    return [hit.seq for hit in hits]


def test_hit_says_where_and_why(index: LexicalIndex) -> None:
    """A hit points to its entry and explains its score."""
    add(index, talk("hello there", "The cat\n sat   on the mat", "bye then"))
    (hit,) = index.search("cats in May 2023", limit=1)
    assert (hit.session, hit.entry_id, hit.seq, hit.turn) == (KEY, "e2", 2, "t1")
    assert (hit.ts, hit.role, hit.injected) == (NOON + 120_000, "assistant", False)
    assert hit.snippet == "The cat sat on the mat"
    assert (hit.start, hit.stop) == (0, len("The cat\n sat   on the mat"))
    assert hit.terms == ("2023-05", "cat", "may", "2023")
    assert set(hit.parts) == {"words", "session", "length"}
    assert hit.score == pytest.approx(sum(hit.parts.values()))
    assert all(part > 0 for part in hit.parts.values())


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("笔记本电脑", "我昨天在上海买了一台笔记本电脑"),
        ("上海", "我昨天在上海买了一台笔记本电脑"),
        ("脑", "我昨天在上海买了一台笔记本电脑"),
        ("笔", "我昨天在上海买了一台笔记本电脑"),
        ("deploy 到上海", "我们把服务 deploy 到上海机房"),
        ("Kubernetes集群", "今天升级了 kubernetes 集群"),
        ("run", "they were running"),
        ("running", "a long run"),
        ("user name", "call getUserName() first"),
        ("src/foo_bar.py", "edit src/foo_bar.py please"),
        ("foo_bar", "edit src/foo_bar.py please"),
        ("E1234", "it failed with E1234."),
        (r"C:\temp\log.txt", r"see C:\temp\log.txt"),
        ("c++", "written in C++"),
    ],
)
def test_query_finds_text(index: LexicalIndex, query: str, text: str) -> None:
    """What a person would type finds what was written, and not its neighbours before it."""
    add(index, talk("something else", "另外一件事情", text, "还有别的", "and so on"))
    assert seqs(index.search(query))[0] == 3


def test_every_kind_of_words_is_found(index: LexicalIndex) -> None:
    """Messages, tool calls and results and summaries are documents; nothing else is."""
    far = {kind: NOON + DAY * kind for kind in range(12)}
    entries: list[AnyEntry] = [
        User(seq=1, id="a", ts=far[0], content=(Text(text="walnut"), Reasoning(text="nowhere"))),
        Assistant(seq=2, id="b", ts=far[1], content="hazel"),
        ToolCall(seq=3, id="c", ts=far[2], call_id="x", name="read_file", args={"path": ["almond", 7, None]}),
        ToolResult(seq=4, id="d", ts=far[3], call_id="x", content="cashew"),
        Compaction(seq=5, id="e", ts=far[4], summary="pecan"),
        Note(seq=6, id="f", ts=far[5], kind="summary", text="pistachio"),
        Note(seq=7, id="g", ts=far[6], kind="import", text="nowhere"),
        System(seq=8, id="h", ts=far[7], content="nowhere"),
        Title(seq=9, id="i", ts=far[8], title="nowhere"),
        Pin(seq=10, id="j", ts=far[9], pinned=True),
        TurnStart(seq=11, id="k", ts=far[10], holder="nowhere"),
        ToolCall(seq=12, id="l", ts=far[11], call_id="y", name="shell", args="chestnut not json"),
    ]
    assert add(index, entries) == 7
    roles = {}
    for word in ("walnut", "hazel", "almond", "cashew", "pecan", "pistachio", "chestnut"):
        (hit,) = index.search(word)
        roles[hit.seq] = hit.role
    assert roles == {
        1: "user",
        2: "assistant",
        3: "tool_call",
        4: "tool_result",
        5: "compaction",
        6: "note",
        12: "tool_call",
    }
    assert index.search("nowhere") == []
    assert seqs(index.search("read file path")) == [3]


def test_words_of_tool_arguments() -> None:
    """Arguments are read as names and values, at any depth, not as JSON's escapes."""
    deep: object = "bottom"
    for _ in range(100_000):
        deep = [deep]
    assert words_of(ToolCall(call_id="x", name="f", args={"a": {"b": "one\ntwo"}, "c": True})) == (
        "f\nb: one\ntwo\nc: True"
    )
    assert words_of(ToolCall(call_id="x", name="f", args=deep)) == "f\nbottom"


def test_neighbours_lend_their_words(index: LexicalIndex) -> None:
    """An answer is found by its question's words, below the question, and the more the nearer it stands;
    what is three away is not."""
    add(index, talk("the espresso machine is where", "kitchen", "thanks", "bye"))
    hits = index.search("espresso")
    assert seqs(hits) == [1, 2, 3]
    assert hits[0].parts["words"] > hits[1].parts["words"] > hits[2].parts["words"] > 0
    assert hits[2].terms == ("espresso",)


def test_answer_follows_its_question(index: LexicalIndex) -> None:
    """What follows a question is found before what it follows, if the two say as much."""
    add(index, talk("where is the espresso machine?", "it is in the kitchen, near the window", "thanks"))
    hits = index.search("espresso machine")
    assert seqs(hits)[:2] == [1, 2]
    assert "answer" in hits[1].parts
    assert hits[0].parts["asks"] < 0


def test_speaker_is_found_by_name(index: LexicalIndex) -> None:
    """A name in the question means who said it; that it is a word too, where there is no other."""
    said: list[AnyEntry] = [
        User(seq=1, id="a", ts=NOON, content="I went sailing", meta={"name": "Ana Costa"}),
        User(seq=2, id="b", ts=NOON + DAY, content="I went sailing", meta={"speaker": "Bob"}),
        User(seq=3, id="c", ts=NOON + 2 * DAY, content="Ana called", meta={"name": 7}),
    ]
    add(index, said)
    assert seqs(index.search("did Ana go sailing"))[:2] == [1, 2]
    assert seqs(index.search("did Bob go sailing"))[:2] == [2, 1]
    assert "speaker" in index.search("did Ana go sailing")[0].parts
    assert seqs(index.search("Ana")) == [3]
    index.remove(KEY)
    assert index._db.execute("SELECT count(*) FROM words").fetchone() == (0,)


def test_neighbours_are_near_in_time(index: LexicalIndex) -> None:
    """Messages of different days are no neighbours."""
    add(index, [*talk("espresso please"), *talk("good morning", start=2, ts=NOON + DAY)])
    assert seqs(index.search("espresso")) == [1]


def test_neighbours_are_of_one_session(index: LexicalIndex) -> None:
    """However sessions are mixed in time, neighbours are those of the same one."""
    other = session_key("helper", "web", "2")
    for entry, apart in zip(talk("espresso", "one", "two"), talk("far", "away", "off"), strict=True):
        add(index, [entry])
        add(index, [apart], other)
    assert {(hit.session, hit.seq) for hit in index.search("espresso")} == {(KEY, 1), (KEY, 2), (KEY, 3)}


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 9)), max_size=12), st.integers(0, 12))
def test_numbers_follow_in_a_talk(said: list[tuple[bool, int]], cut: int) -> None:
    """Documents have distinct numbers; those of a talk follow one another, and each thing injected is alone.
    In two steps they are the same but for the numbers of talks."""
    new, ts = [], NOON
    for seq, (injected, hours) in enumerate(said, 1):
        ts += hours * 3_600_000
        new.append(
            Document(0, seq, ts, "user", injected, f"e{seq}", "", 0, 1, "", "", False, 1, "a")
        )  # fmt: skip
    made = numbered(new, None, 0)
    assert made == sorted(made)
    assert len({document.id for document in made}) == len(new)
    plain = sorted((d for d in made if not d.injected), key=lambda d: d.seq)
    for one, other in pairwise(plain):
        assert (other.id == one.id + 1) == (other.ts - one.ts <= 6 * 3_600_000)
    for document in made:
        assert not document.injected or [d.id for d in made if d.talk == document.talk] == [document.id]
    first = numbered(new[:cut], None, 0)
    last = max((d for d in first if not d.injected), key=lambda d: d.seq, default=None)
    both = first + numbered(new[cut:], last, max((d.id for d in first), default=0))
    assert sorted(both) == made


def test_a_full_talk_goes_on_in_another() -> None:
    """A talk has a million places; what comes after is of another talk."""
    last = Document((7 << 20) + (1 << 20) - 1, 1, NOON, "user", False, "a", "", 0, 1, "", "", False, 1, "a")
    (made,) = numbered([last._replace(id=0, seq=2)], last, last.id + (5 << 20))
    assert talk_of(last.id) == 7
    assert talk_of(made.id) == 13


def test_neighbour_arrives_later(index: LexicalIndex) -> None:
    """The last message of one call gets its neighbour from the next call."""
    first, second, third = talk("in the kitchen", "where was the espresso machine", "bye")
    for entry in (first, second, third):
        add(index, [entry])
    assert sorted(seqs(index.search("espresso"))) == [1, 2, 3]
    assert seqs(index.search("espresso"))[0] == 2


def test_day_is_found(index: LexicalIndex) -> None:
    """A message is found by its day, written in words or as ISO."""
    add(index, [*talk("dinner with Ana"), *talk("dinner with Bob", start=2, ts=NOON + 30 * DAY)])
    assert seqs(index.search("dinner 8 May")) == [1, 2]
    assert seqs(index.search("dinner in June")) == [2, 1]
    assert seqs(index.search("2023-05-08"))[0] == 1


def test_days_beyond_the_calendar() -> None:
    """An unknown time has no day; a time beyond the calendar is no reason to fail."""
    assert date_terms(NOON) == ["2023-05-08", "2023-05", "--05-08", "8", "may", "2023"]
    assert date_terms(0) == date_terms(-1) == date_terms(2**62) == []
    assert date_terms(253_402_300_799_999)[0] == "9999-12-31"


def test_injected_words_count_less(index: LexicalIndex) -> None:
    """What recall put there is found after what was said, and lends nothing to its neighbours."""
    told = User(seq=1, id="a", ts=NOON, meta={"injected": True}, content="Ana keeps a parrot in the garden")
    said = User(seq=2, id="b", ts=NOON + DAY, content="Ana keeps a parrot in the garden")
    near = Assistant(seq=3, id="c", ts=NOON + 1, content="noted")
    add(index, [told, said, near])
    hits = index.search("parrot")
    assert [(hit.seq, hit.injected) for hit in hits] == [(2, False), (1, True)]


def test_long_text_is_found_to_its_end(index: LexicalIndex) -> None:
    """A long entry is searched whole, comes once, and says which passage was meant."""
    text = "\n".join(f"line {number} of the listing" for number in range(20_000)) + "\nneedle at the end"
    entry = ToolResult(seq=1, id="a", call_id="x", content=text)
    assert add(index, [entry]) == 1
    (hit,) = index.search("needle listing")
    assert "needle" in words_of(entry)[hit.start : hit.stop]
    assert len(hit.snippet) <= 300


@given(st.text(st.sampled_from("ab 。\n中"), max_size=50), st.integers(0, 5000))
def test_passages_cover_the_text(piece: str, times: int) -> None:
    """Passages follow one another without a gap and are short enough, whatever the text."""
    text = piece * times
    spans = list(passages(text))
    assert "".join(text[start:stop] for start, stop in spans) == text
    assert all(0 < stop - start <= 8000 for start, stop in spans)


def test_adding_twice_changes_nothing(index: LexicalIndex) -> None:
    """Entries at or below the watermark are ignored, and the watermark never goes back."""
    entries = talk("alpha", "beta", "gamma")
    assert index.add(KEY, entries, upto_seq=2, generation=1) == 2
    assert index.watermark(KEY) == (1, 2)
    assert index.search("gamma") == []
    assert index.add(KEY, entries, upto_seq=3, generation=2) == 1
    assert index.add(KEY, entries, upto_seq=3, generation=2) == 0
    assert index.add(KEY, entries, upto_seq=1, generation=9) == 0
    assert index.watermark(KEY) == (2, 3)
    assert seqs(index.search("alpha", limit=1)) == [1]


def test_watermark_passes_entries_without_words(index: LexicalIndex) -> None:
    """The watermark says what was seen, not what had words."""
    assert index.watermark(KEY) == (0, 0)
    assert index.add(KEY, [Pin(seq=1, id="a", pinned=True)], upto_seq=7, generation=3) == 0
    assert index.watermark(KEY) == (3, 7)
    assert index.sessions() == {KEY: 7}


def test_removed_session_is_gone(index: LexicalIndex, tmp_path: Path) -> None:
    """What was removed is not found, may be added again, and leaves the disk with `scrub`."""
    other = session_key("helper", "web", "2")
    add(index, talk("the xylophone waltz", "yes"))
    add(index, talk("a xylophone polka", "no"), other)
    assert (index.rows_of(KEY), index.rows_of(other)) == (2, 2)
    index.remove(KEY)
    index.remove(KEY)
    assert (index.rows_of(KEY), index.rows_of(other)) == (0, 2)
    assert {hit.session for hit in index.search("xylophone waltz yes")} == {other}
    assert index.sessions() == {other: 2}
    index.scrub()
    assert not any(b"waltz" in file.read_bytes() for file in tmp_path.iterdir())
    assert add(index, talk("the xylophone waltz", "yes")) == 2
    assert index.search("waltz")[0].session == KEY


def test_a_reader_keeps_the_words_and_is_told_of(index: LexicalIndex, tmp_path: Path) -> None:
    """While another reads what was removed, its bytes stay: that is an error, not a promise."""
    add(index, talk("the xylophone waltz", "yes"))
    (path,) = tmp_path.glob("*.sqlite3")
    reader = sqlite3.connect(path, isolation_level=None)
    reader.execute("BEGIN")
    reader.execute("SELECT * FROM docs").fetchall()
    index.remove(KEY)
    index._db.execute("PRAGMA busy_timeout = 10")
    with pytest.raises(LogBusy):
        index.scrub()
    reader.close()
    index.scrub()
    assert not any(b"waltz" in file.read_bytes() for file in tmp_path.iterdir())


def test_removed_while_adding(index: LexicalIndex) -> None:
    """An add that the session's removal overtakes writes nothing, since it would leave a gap."""

    def entries() -> Iterator[AnyEntry]:
        index.remove(KEY)
        yield from talk("second", start=2)

    add(index, talk("first"))
    with pytest.raises(Conflict, match="removed"):
        index.add(KEY, entries(), upto_seq=2, generation=1)
    assert index.sessions() == {}
    assert index.search("second") == []


def test_filters_are_exact(index: LexicalIndex) -> None:
    """A filter means an id, not a prefix or a pattern of it."""
    names = [("a", "c", "1"), ("ab", "c", "1"), ("a%", "c", "1"), ("a_", "c_", "1"), ("A", "c", "2")]
    keys = [session_key(*name) for name in [*names, ("é日 本", "c", "'")]]
    for key in keys:
        add(index, talk("zebra"), key)
    for key in keys:
        assert {hit.session for hit in index.search("zebra", session=key)} == {key}
        assert {hit.session for hit in index.search("zebra", agent=key.agent)} == {key}
    assert len(index.search("zebra", channel="c")) == 5
    assert len(index.search("zebra", channel="c_")) == 1
    for nothing in ("%", "_", "", "a' OR 1=1 --", "\ud800", "\0", "c:1"):
        assert index.search("zebra", agent=nothing) == []
        assert index.search("zebra", channel=nothing) == []
        assert index.search("zebra", roles=[nothing]) == []
    assert index.search("zebra", session=session_key("a", "c", "9")) == []
    assert index.search("zebra", session=session_key("a", "c", "1"), agent="ab") == []
    assert index.search("zebra", session=keys[0]._replace(tenant="other")) == []


def test_filters_of_role_and_time(index: LexicalIndex) -> None:
    """Roles are entry type tags, no role allows nothing, and time includes its start and not its end."""
    add(index, talk("zebra", "zebra", "zebra", "zebra"))
    stamp = NOON + 120_000
    assert set(seqs(index.search("zebra", roles={"user"}))) == {1, 3}
    assert set(seqs(index.search("zebra", roles=("user", "assistant")))) == {1, 2, 3, 4}
    assert index.search("zebra", roles=[]) == []
    assert set(seqs(index.search("zebra", after_ts=stamp))) == {2, 3, 4}
    assert set(seqs(index.search("zebra", before_ts=stamp))) == {1}
    assert seqs(index.search("zebra", after_ts=stamp, before_ts=stamp + 1)) == [2]
    assert len(index.search("zebra", after_ts=-(10**30), before_ts=10**30)) == 4


def test_filters_come_before_the_candidates(index: LexicalIndex) -> None:
    """However many others have the words, what the filter leaves is found, in each of its kinds."""
    flood = session_key("other", "mail", "1")
    index.add(flood, talk(*["zebra crossing"] * 6000, ts=NOON), upto_seq=6000, generation=1)
    far = NOON + 400 * DAY
    one: list[AnyEntry] = [ToolResult(seq=1, id="a", ts=far, call_id="x", content="a zebra on page 3")]
    add(index, one)
    for narrowed in (
        index.search("zebra", agent="helper"),
        index.search("zebra", channel="web"),
        index.search("zebra", session=KEY),
        index.search("zebra", sessions=[KEY]),
        index.search("zebra", roles=["tool_result"]),
        index.search("zebra", after_ts=far),
        index.search("zebra", after_ts=far - 40 * DAY, before_ts=far + 1),
        index.search("zebra crossing page", agent="helper", roles=["tool_result"], before_ts=far + 1),
    ):
        assert [(hit.session, hit.seq) for hit in narrowed] == [(KEY, 1)]
    assert index.search("zebra", session=KEY, sessions=[flood]) == []
    assert index.search("zebra", sessions=[]) == []
    assert index.search("zebra", agent="helper", before_ts=far) == []


def test_answer_of_another_role_is_found(index: LexicalIndex) -> None:
    """With a filter of roles, an answer is found by the question that it leaves out."""
    add(index, talk("where is the espresso machine?", "in the kitchen"))
    assert seqs(index.search("espresso", roles=["assistant"])) == [2]


def test_per_session(index: LexicalIndex) -> None:
    """At most so many entries of each session, when that is asked."""
    other = session_key("helper", "web", "2")
    add(index, talk(*["zebra"] * 5))
    add(index, talk(*["zebra"] * 5), other)
    hits = index.search("zebra", limit=8, per_session=2)
    assert Counter(hit.session for hit in hits) == {KEY: 2, other: 2}


@pytest.mark.parametrize("per_session", [None, 4, 2, 1])
def test_one_session_does_not_flood(index: LexicalIndex, per_session: int | None) -> None:
    """However much one session has, and however much better, there are as many hits as are wanted, and the
    others' are among them; where nobody else has any, it has all that it may."""
    others = [session_key("helper", "web", f"other {number}") for number in range(9)]
    for key in others:
        add(index, talk("why is there a rate limiter in the shop?", "a quota"), key)
    add(index, talk(*["parcel tracker rate limiter"] * 3000))
    hits = index.search("parcel tracker rate limiter", limit=10, per_session=per_session)
    having = Counter(hit.session for hit in hits)
    assert len(hits) == 10
    assert having[KEY] == (8 if per_session is None else per_session)
    assert max(having[key] for key in others) <= (per_session or 8)
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
    alone = index.search("parcel", limit=10, per_session=per_session)
    assert [hit.session for hit in alone] == [KEY] * (per_session or 10)


def test_copies_in_forks_crowd_nothing_out(index: LexicalIndex) -> None:
    """What many sessions have the same comes once, and what others have of it is found beside it; a search
    in one of the forks finds what it has."""
    for number in range(9):
        add(index, talk("a rate limiter in a shop"), session_key("helper", "web", f"other {number}"))
    entries = talk(*["rate limiter"] * 100)
    for number in range(12):
        index.add(session_key("helper", "web", f"fork {number}"), entries, upto_seq=100, generation=1)
    hits = index.search("rate limiter", limit=10)
    assert len({hit.entry_id for hit in hits}) == 10
    assert sum(hit.session.chat.startswith("other") for hit in hits) >= 2
    found = index.search("rate limiter", limit=20, per_session=1)
    assert len({hit.entry_id for hit in found}) == len(found)
    assert {f"other {number}" for number in range(9)} <= {hit.session.chat for hit in found}
    fork = session_key("helper", "web", "fork 7")
    assert {hit.session for hit in index.search("rate limiter", limit=20, session=fork)} == {fork}


def test_a_copy_is_told_where_it_was_said_first(index: LexicalIndex) -> None:
    """Of an entry and its copies the oldest comes."""
    add(index, talk("a zebra", "no"))
    for number in range(3):
        index.add(session_key("helper", "web", f"fork {number}"), talk("a zebra"), upto_seq=1, generation=1)
    (hit,) = index.search("zebra", limit=1)
    assert hit.session == KEY


_LOG = "\n".join(
    f"2026-11-{n % 28 + 1:02d} 12:{n:02d} worker{n} pid {1000 + n} GET /api/v{n}/items/{n * 37} -> {200 + n}"
    for n in range(30)
)
_QUESTION = "where is the spare key of the zeppelin hangar?"


@pytest.mark.parametrize("query", [_QUESTION, f"{_LOG}\n{_QUESTION}", f"{_QUESTION}\n{_LOG}"])
def test_a_question_beside_a_pasted_text(index: LexicalIndex, query: str) -> None:
    """What is asked is found, before the pasted text or after it, although much has words of that text."""
    add(index, talk("The spare key of the zeppelin hangar is under the flowerpot", "ok"))
    for number in range(30):
        text = f"log worker{number} pid {1000 + number} GET items"
        add(index, talk(text, "ok"), session_key("helper", "web", f"log {number}"))
    assert index.search(query)[0].snippet.startswith("The spare key")


def test_tools_do_not_drown_talk(index: LexicalIndex) -> None:
    """What a person said once is found before the output of tools that says it a hundred times, of whatever
    length; a word that only the output has is found in it."""
    listing = "\n".join(f"src/espresso_{n}.py: espresso machine" for n in range(300)) + " needle"
    entries: list[AnyEntry] = [
        ToolResult(seq=1, id="a", ts=NOON, call_id="x", content=listing),
        ToolResult(seq=2, id="b", ts=NOON + DAY, call_id="y", content="espresso machine " * 3),
        *talk("our espresso machine is from Milan", "good to know", start=3, ts=NOON + 2 * DAY),
    ]
    add(index, entries)
    assert seqs(index.search("espresso machine"))[0] == 3
    assert seqs(index.search("needle")) == [1]
    assert "length" not in index.search("needle")[0].parts


def test_time_is_preferred(index: LexicalIndex) -> None:
    """Of two alike the one of the time that was asked for comes first, and no other is left out."""
    add(index, [*talk("dinner"), *talk("dinner", start=2, ts=NOON + 30 * DAY)])
    for ts, order in ((NOON, [1, 2]), (NOON + 30 * DAY, [2, 1])):
        hits = index.search("dinner", times=[(ts, ts + DAY)])
        assert seqs(hits) == order
        assert ["time" in hit.parts for hit in hits] == [True, False]


class Likeness:
    """Meaning that is written down: the cosine of each document, by its session and entry."""

    def __init__(self, cosines: dict[DocKey, float]) -> None:
        self.cosines = cosines
        self.asked: list[DocKey] = []

    def nearest(self, count: int) -> Sequence[DocKey]:
        return sorted(self.cosines, key=lambda key: -self.cosines[key])[:count]

    def likeness(self, keys: Sequence[DocKey]) -> Sequence[float | None]:
        self.asked = list(keys)
        return [self.cosines.get(key) for key in keys]


def test_found_by_meaning(index: LexicalIndex) -> None:
    """What shares no word is found by its meaning, with filters as they are; what the index lacks is passed
    over."""
    add(index, [*talk("a parrot"), *talk("the weather", start=2, ts=NOON + DAY)])
    other = session_key("other", "web", "1")
    add(index, talk("my cockatoo"), other)
    gone = str(session_key("helper", "web", "9"))
    meaning = Likeness(
        {
            (str(other), f"e1 of {other}:0"): 0.9,
            (str(KEY), "e1:0"): 0.8,
            (str(KEY), "e2:0"): 0.1,
            (gone, "e1:0"): 1.0,
        }
    )
    meaning.cosines[str(KEY), "e7:0"] = 0.9
    hits = index.search("bird", meaning=meaning)
    assert [(hit.session, hit.seq) for hit in hits] == [(other, 1), (KEY, 1), (KEY, 2)]
    assert all(hit.score == pytest.approx(sum(hit.parts.values())) for hit in hits)
    assert seqs(index.search("bird", meaning=meaning, agent="helper")) == [1, 2]
    assert index.search("bird", meaning=Likeness({})) == []
    assert seqs(index.search("parrot", meaning=Likeness({}))) == [1]


def test_documents_have_marks(index: LexicalIndex) -> None:
    """A session's mark is another when its documents are, also when it is made again; its documents are
    named by entry and place, as they stand in the log."""
    assert index.marks() == {}
    text = "\n".join(f"line {number} of the listing" for number in range(1000))
    index.add(KEY, [ToolResult(seq=1, id="a:b", call_id="x", content=text)], upto_seq=1, generation=1)
    first = index.marks()
    found = index.document_keys(KEY)
    assert [(name, seq) for name, _, _, seq in found] == [(f"a:b:{start}", 1) for _, start, _, _ in found]
    assert "".join(text[start:stop] for _, start, stop, _ in found) == text
    assert len(found) > 1
    index.add(KEY, [Pin(seq=2, id="c", pinned=True)], upto_seq=2, generation=1)
    assert index.marks() == first
    add(index, talk("more", start=3))
    second = index.marks()
    assert second.keys() == first.keys() == {str(KEY)}
    assert second != first
    index.remove(KEY)
    assert index.document_keys(KEY) == []
    index.add(KEY, [ToolResult(seq=1, id="a:b", call_id="x", content=text)], upto_seq=1, generation=1)
    assert index.marks() not in (first, second)
    add(index, talk("more", start=3))
    assert index.marks() != second
    meaning = Likeness({(str(KEY), found[1][0]): 1.0})
    (hit,) = [hit for hit in index.search("nothing", meaning=meaning) if hit.seq == 1]
    assert hit.entry_id == "a:b"


def test_limit_is_what_was_asked(index: LexicalIndex) -> None:
    """No hidden cap above it, nothing below zero."""
    add(index, talk(*["zebra"] * 3000))
    assert len(index.search("zebra", limit=10**12)) == 3000
    assert len(index.search("zebra", limit=2)) == 2
    assert index.search("zebra", limit=0) == []
    with pytest.raises(InvalidInput, match="limit"):
        index.search("zebra", limit=-1)


@pytest.mark.parametrize("query", ["", "   ", "?!", "\0", "\ud800", '"', "*", "^", "()", "🙂"])
def test_query_without_terms_finds_nothing(index: LexicalIndex, query: str) -> None:
    """There is nothing to look for, so nothing is found."""
    add(index, talk("zebra"))
    assert index.search(query) == []


@pytest.mark.parametrize(
    "query",
    [
        *('zebra"', '"zebra', "zebra AND nothing", "NOT zebra", "NEAR(zebra lion, 2)", "zebra*", "^zebra"),
        *("-zebra", "terms:zebra", "{terms} : zebra", "=s1 zebra", "zebra OR", "(zebra", "zebra)"),
        *("zebra' --", "zebra; DROP TABLE docs", "zebra\0lion", "zebra\ud800", "bm25(zebra)"),
        *("zebra + lion", "zebra\\", "lex MATCH zebra"),
    ],
)
def test_query_has_no_syntax(index: LexicalIndex, query: str) -> None:
    """Every character is only a character: the word in the query is found whatever stands around it."""
    add(index, [*talk("a zebra here"), *talk("something else", start=2, ts=NOON + DAY)])
    assert seqs(index.search(query)) == [1]


def test_scope_cannot_be_asked_for(index: LexicalIndex) -> None:
    """The terms that name sessions are not words of the text."""
    add(index, talk("zebra"))
    for term in ("=s1", "=ruser", "=t0.1", *named("a", KEY.agent)):
        assert index.search(term) == []


def test_very_long_query(index: LexicalIndex) -> None:
    """A pasted page is a query like any other; the terms at its ends count."""
    add(index, talk("zebra"))
    page = " ".join(f"word{n}" for n in range(20_000))
    assert seqs(index.search(f"zebra {page}")) == seqs(index.search(f"{page} zebra")) == [1]


@given(query=st.text(max_size=40), text=st.text(max_size=40))
@settings(max_examples=60, deadline=None)
def test_any_query_on_any_text(query: str, text: str) -> None:
    """No pair of texts makes the index fail: the text is found if it shares a term with the query."""
    with temporary() as index:
        add(index, [User(seq=1, id="a", content=text, meta={"name": query})])
        shared = set(query_terms(query)) & set(terms(text))
        assert seqs(index.search(query))[: len(shared)] == [1][: len(shared)]


WORDS = ["apple", "pear", "plum", "fig", "上海", "北京", "run_all.py"]
KEYS = [KEY, session_key("helper", "mail", "1"), session_key("other", "web", "1")]


@st.composite
def conversations(draw: st.DrawFn) -> list[AnyEntry]:
    """Entries in order of `seq` with gaps: said or injected, near or far in time, some without words."""
    entries: list[AnyEntry] = []
    seq, ts = 0, NOON
    for words in draw(st.lists(st.lists(st.sampled_from(WORDS), max_size=5), max_size=8)):
        seq += draw(st.integers(1, 3))
        ts += draw(st.sampled_from([1000, DAY]))
        meta = {"injected": True} if draw(st.integers(0, 3)) == 0 else None
        entries.append(User(seq=seq, id=f"e{seq}", ts=ts, meta=meta, content=" ".join(words)))
    return entries


def everything(index: LexicalIndex) -> list[tuple[object, ...]]:
    found = [(word, hit) for word in WORDS for hit in index.search(word, limit=1000)]
    return sorted((word, hit.session, hit.seq, round(hit.score, 6), hit.terms) for word, hit in found)


@given(talks=st.tuples(*[conversations()] * 3), data=st.data())
@settings(max_examples=60, deadline=None)
def test_batches_do_not_matter(talks: tuple[list[AnyEntry], ...], data: st.DataObject) -> None:
    """Entries added in any batches, some twice, some sessions removed and added again: as if all at once."""
    with temporary() as once, temporary() as stepwise:
        for key, entries in zip(KEYS, talks, strict=True):
            add(once, entries, key)
        waiting = dict.fromkeys(KEYS, 0)
        for _ in range(data.draw(st.integers(0, 8))):
            key = data.draw(st.sampled_from(KEYS))
            if data.draw(st.integers(0, 5)) == 0:
                stepwise.remove(key)
                waiting[key] = 0
                continue
            entries = talks[KEYS.index(key)]
            upto = data.draw(st.integers(0, len(entries)))
            since = data.draw(st.integers(0, waiting[key]))  # from the watermark or before it
            add(stepwise, entries[since:upto], key)
            waiting[key] = max(waiting[key], upto)
        for key, entries in zip(KEYS, talks, strict=True):
            add(stepwise, entries, key)
        assert everything(stepwise) == everything(once)
        gone = data.draw(st.sampled_from(KEYS))
        once.remove(gone)
        assert {hit[1] for hit in everything(once)}.isdisjoint([gone])


@given(
    talks=conversations(), place=st.integers(0, 7), planted=st.sampled_from(["zyx", "E77", "龍龜", "a.zip"])
)
@settings(max_examples=60, deadline=None)
def test_planted_word_is_found(talks: list[AnyEntry], place: int, planted: str) -> None:
    """A word said once is found where it was said, first."""
    if not talks:
        return
    said = talks[place % len(talks)]
    talks[place % len(talks)] = User(seq=said.seq, id=said.id, ts=said.ts, content=f"fig {planted} plum")
    with temporary() as index:
        add(index, talks)
        assert index.search(planted)[0].seq == said.seq


def test_deleted_index_is_rebuilt_by_adding(tmp_path: Path) -> None:
    """Nothing is lost with the file: the same entries make the same index."""
    path = tmp_path / "recall.sqlite3"
    found = []
    for _ in range(2):
        with LexicalIndex(path) as index:
            assert index.sessions() == {}
            add(index, talk("the cat sat", "on the mat"))
            found.append(index.search("cat mat"))
        for file in tmp_path.iterdir():
            file.unlink()
    assert found[0] == found[1] != []


def test_index_stays(tmp_path: Path) -> None:
    """What was added is there when the index is opened again, in a file for its owner alone."""
    path = tmp_path / "new" / "recall.sqlite3"
    with LexicalIndex(path) as index:
        add(index, talk("the cat sat"))
        assert {stat.S_IMODE(file.stat().st_mode) for file in path.parent.iterdir()} == {0o600}
    with LexicalIndex(path) as index:
        assert index.sessions() == {KEY: 1}
        assert seqs(index.search("cat")) == [1]
        check(index)


def test_one_tenant_only(index: LexicalIndex) -> None:
    """An index refuses what belongs to another tenant."""
    add(index, talk("cat"))
    with pytest.raises(InvalidInput, match="tenant"):
        add(index, talk("cat"), KEY._replace(tenant="other"))
    assert index.sessions() == {KEY: 1}


def test_file_that_is_no_database(tmp_path: Path) -> None:
    """A damaged file is named, with what to do, and is left as it was."""
    path = tmp_path / "recall.sqlite3"
    path.write_bytes(b"not a database at all " * 500)
    with pytest.raises(DamagedLog, match="stratalog rebuild") as raised:
        LexicalIndex(path)
    assert raised.value.where["path"] == path
    assert path.read_bytes() == b"not a database at all " * 500


def test_damage_in_the_middle(tmp_path: Path) -> None:
    """Pages overwritten under the index are an error of ours, with the path, never of SQLite's."""
    path = tmp_path / "recall.sqlite3"
    with LexicalIndex(path) as index:
        add(index, talk(*["the cat sat on the mat"] * 500))
        index.scrub()
    data = path.read_bytes()
    path.write_bytes(data[:4096] + b"\xff" * (len(data) - 4096))
    with pytest.raises(DamagedLog, match="stratalog rebuild"), LexicalIndex(path) as index:
        index.search("cat")


def test_later_version_is_left_alone(tmp_path: Path) -> None:
    """An index of a later version is refused and keeps what it has."""
    path = tmp_path / "recall.sqlite3"
    with LexicalIndex(path) as index:
        add(index, talk("cat"))
        index._db.execute(f"PRAGMA user_version = {lexical.SCHEMA + 1}")
    with pytest.raises(NewerFormat, match="later version"):
        LexicalIndex(path)
    with sqlite3.connect(path) as db:
        assert db.execute("SELECT count(*) FROM docs").fetchone() == (1,)


def test_earlier_version_is_made_anew(tmp_path: Path) -> None:
    """An index of an earlier version is emptied, so that its watermarks ask for everything again."""
    path = tmp_path / "recall.sqlite3"
    with LexicalIndex(path) as index:
        add(index, talk("cat"))
        index._db.execute("CREATE TABLE of_old (x)")
        index._db.execute(f"PRAGMA user_version = {lexical.SCHEMA - 1}")
    with LexicalIndex(path) as index:
        assert index.sessions() == {}
        assert index.search("cat") == []
        assert add(index, talk("cat")) == 1
        check(index)


def test_version_2_is_made_anew(tmp_path: Path) -> None:
    """An index that version 2 wrote, when dates had no terms, is emptied when it is opened; once its session
    is added again, it is searched by dates however they are written."""
    path = tmp_path / "recall.sqlite3"
    shutil.copy(FIXTURES / "lexical-version-2.sqlite3", path)
    with LexicalIndex(path) as index:
        assert index.sessions() == {}
        add(index, talk("We meet on May 4th, 2023", "Good.", "Nothing then", ts=NOON + 100 * DAY))
        assert seqs(index.search("2023年5月4日", limit=1)) == [1]
        check(index)


def test_dates_are_found_in_any_notation(index: LexicalIndex) -> None:
    """In the text and in the day on which it was said, in both languages."""
    add(index, talk("we went to the market", ts=1_683_158_400_000), KEY)
    later = 1_700_000_000_000
    for number, text in enumerate(
        ["出发是二〇二三年五月四日", "it begins 2023-05-04", "nothing of the kind"]
    ):
        add(index, talk(text, ts=later + number * 11 * DAY), session_key("helper", "web", f"of {number}"))
    for query in ("May 4, 2023", "2023年5月4日", "what did we say on 4th of May 2023?", "2023/5/4", "5月4日"):
        hits = index.search(query, limit=3)
        assert {hit.ts >= later for hit in hits[:3]} == {True, False}
        assert "kind" not in " ".join(hit.snippet for hit in hits)


def test_database_of_another_program(tmp_path: Path) -> None:
    """A database that is no index is refused and left as it was."""
    path = tmp_path / "recall.sqlite3"
    with sqlite3.connect(path) as db:
        db.execute("CREATE TABLE theirs (x)")
    before = path.read_bytes()
    with pytest.raises(ForeignFile):
        LexicalIndex(path)
    assert path.read_bytes() == before


def test_place_that_cannot_be_written(tmp_path: Path) -> None:
    """A path that leads nowhere is a typed error too."""
    (tmp_path / "file").write_bytes(b"")
    for path in (tmp_path / "file" / "recall.sqlite3", tmp_path):
        with pytest.raises(StorageFailed):
            LexicalIndex(path)


def test_use_after_close(tmp_path: Path) -> None:
    """Closing twice is nothing; using a closed index is a typed error."""
    index = LexicalIndex(tmp_path / "recall.sqlite3")
    index.close()
    index.close()
    with pytest.raises(StorageFailed):
        index.search("cat")


def test_locked_by_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A writer that does not let go is waited for, then reported; readers do not wait."""
    monkeypatch.setattr(lexical, "_BUSY_S", 0.1)
    path = tmp_path / "recall.sqlite3"
    with LexicalIndex(path) as index:
        add(index, talk("cat"))
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(LogBusy):
            add(index, talk("dog", start=2))
        assert seqs(index.search("cat")) == [1]
        other.close()
        assert add(index, talk("dog", start=2)) == 1


def test_failure_leaves_nothing_half_done(index: LexicalIndex, monkeypatch: pytest.MonkeyPatch) -> None:
    """An add that fails late has added nothing, and can be repeated."""
    add(index, talk("cat"))
    monkeypatch.setattr(lexical_tables, "_COUNT", "INSERT INTO nowhere VALUES (?, ?, ?)")
    with pytest.raises(StratalogError):
        add(index, talk("dog", start=2))
    monkeypatch.undo()
    assert index.watermark(KEY) == (1, 1)
    check(index)
    assert add(index, talk("dog", start=2)) == 1


def test_threads_share_an_index(index: LexicalIndex) -> None:
    """Threads add and search at once, each entry is indexed once, and nobody sees an error."""
    failures: list[BaseException] = []
    counts: list[int] = []

    def work(number: int) -> None:
        try:
            for seq in range(1, 31):
                said = talk(*[f"cat {n}" for n in range(1, seq + 1)])
                counts.append(add(index, said, KEYS[number % 2]))
                assert index.search("cat", session=KEYS[number % 2])
        except (StratalogError, sqlite3.Error, AssertionError) as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert sum(counts) == 60
    assert len(index.search("cat", limit=100)) == 60


_WRITER = """
import sys
from pathlib import Path
from stratalog.keys import session_key
from stratalog.recall.lexical import LexicalIndex
from stratalog.types import User

path, name = sys.argv[1:]
count = 0
with LexicalIndex(Path(path)) as index:
    for chat in (name, "shared"):
        key = session_key("helper", "web", chat)
        for seq in range(1, 101):
            said = User(seq=seq, id=f"e{seq} of {chat}", ts=seq, content=f"cat {chat} {seq}")
            added = index.add(key, [said], upto_seq=seq, generation=1)
            count += added if chat == "shared" else 0
print(count)
"""


def test_processes_share_an_index(tmp_path: Path) -> None:
    """Processes make, open and write one index at once; what two of them add is there once."""
    path = tmp_path / "recall.sqlite3"
    names = ["one", "two", "three"]
    running = [
        subprocess.Popen(
            [sys.executable, "-c", _WRITER, str(path), name],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for name in names
    ]
    ended = [process.communicate(timeout=60) for process in running]
    assert [error for _, error in ended] == ["", "", ""]
    assert sum(int(count) for count, _ in ended) == 100
    with LexicalIndex(path) as index:
        assert set(index.sessions().values()) == {100}
        assert len(index.sessions()) == 4
        assert len(index.search("cat", limit=1000)) == 400
        check(index)
