"""engine/working.py: a dictionary in the log that is as a plain one within its limit, and pinned facts."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from stratalog.context.memory_words import BY_MODEL, change_rendered, rendered
from stratalog.engine.core import Stratalog
from stratalog.engine.session import Session
from stratalog.engine.working import LONGEST_FACT, MOST_FACTS, TOOLS, PinnedFacts, WorkingDict, answer
from stratalog.errors import InvalidInput, NotFound, StratalogError, WorkingMemoryFull
from stratalog.keys import parse_key, session_paths, tenant_path
from stratalog.sessions.catalog import FILE
from stratalog.types import AnyEntry, Blob, Compaction, Note, WorkingMemory

KEY = "a:cli:me"


def dictionary(session: Session, limit: int = 16_384, **more: Any) -> WorkingDict:
    return WorkingDict(
        lambda entries: session.append(*entries), lambda: session.meta.working_memory, limit, **more
    )


def facts_of(session: Session) -> PinnedFacts:
    return PinnedFacts(lambda entries: session.append(*entries), lambda: session.meta.facts)


@pytest.fixture
def working(chat: Session) -> WorkingDict:
    return dictionary(chat)


def changes(session: Session) -> list[AnyEntry]:
    return [entry for entry in session.entries() if isinstance(entry, WorkingMemory | Note)]


# --- as a plain dictionary ---

TEXT = st.text(st.characters(blacklist_categories=("Cc", "Cs", "Zl", "Zp")), min_size=1, max_size=8)
KEYS = st.sampled_from(["task", "state", "好", "a b", "e\u0301", "x" * 128]) | TEXT
LEAVES = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(blacklist_categories=("Cs",)), max_size=20)
)
VALUES = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3), max_leaves=6
)
LIMIT = 300


class Twin(RuleBasedStateMachine):
    """The dictionary beside a plain one, through sets, deletions, compactions, restarts and reopenings."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = TemporaryDirectory()
        self.plain: dict[str, Any] = {}
        self.open()

    def open(self) -> None:
        self.memory = Stratalog(Path(self.folder.name))
        self.session = self.memory.session(KEY)
        self.working = dictionary(self.session, LIMIT)

    @rule(key=KEYS, value=VALUES)
    def set(self, key: str, value: Any) -> None:
        wanted = {name: kept for name, kept in self.plain.items() if name != key} | {key: value}
        same = key in self.plain and msgspec.json.encode(self.plain[key], order="sorted") == (
            msgspec.json.encode(value, order="sorted")
        )
        before = self.session.end
        if same:
            self.working.set(key, value)
            assert self.session.end == before
        elif len(msgspec.json.encode(wanted)) > LIMIT:
            with pytest.raises(WorkingMemoryFull):
                self.working.set(key, value)
            assert self.session.end == before
        else:
            self.working.set(key, value)
            self.plain = wanted

    @rule(key=KEYS)
    def delete(self, key: str) -> None:
        if key in self.plain:
            self.working.delete(key)
            del self.plain[key]
        else:
            with pytest.raises(NotFound):
                self.working.delete(key)

    @rule(key=KEYS)
    def get(self, key: str) -> None:
        if key in self.plain:
            assert self.working.get(key) == self.plain[key]
        else:
            with pytest.raises(NotFound):
                self.working.get(key)

    @rule()
    def clear(self) -> None:
        self.working.clear()
        self.plain = {}

    @rule()
    def compact(self) -> None:
        self.session.append(Compaction(summary="s", working_memory={"stale": True}))
        if not self.session.meta.remembers:
            self.plain = {"stale": True}

    @rule()
    def restart(self) -> None:
        if self.session.exists:
            self.session.restart()
            self.plain = {}

    @rule(lose_meta=st.booleans())
    def reopen(self, lose_meta: bool) -> None:
        self.memory.close()
        if lose_meta:
            session_paths(Path(self.folder.name), parse_key(KEY)).meta.unlink(missing_ok=True)
        self.open()

    @invariant()
    def equal(self) -> None:
        assert self.working.all() == self.plain
        assert self.working.keys() == list(self.plain)
        assert self.working.size == len(msgspec.json.encode(self.plain))

    def teardown(self) -> None:
        self.memory.close()
        self.folder.cleanup()


Twin.TestCase.settings = settings(max_examples=25, stateful_step_count=25, deadline=None)
TestTwin = Twin.TestCase


def test_an_equal_value_writes_nothing_and_another_kind_does(chat: Session, working: WorkingDict) -> None:
    """Equal is equal as JSON: the order of an object's keys does not count, but 1, 1.0 and true differ."""
    working.set("k", {"a": 1, "b": [1]})
    end = chat.end
    working.set("k", {"b": (1,), "a": 1})
    assert chat.end == end
    for value in (1, 1.0, True, "1"):
        working.set("k", value)
        assert working.get("k") == value
        assert type(working.get("k")) is type(value)
    assert chat.end == end + 4


def test_what_is_given_and_got_is_the_callers_own(working: WorkingDict) -> None:
    """Changing a value after it was set, or one that was got, changes nothing that is kept."""
    value = {"steps": [1]}
    working.set("k", value)
    value["steps"].append(2)
    working.get("k")["steps"].append(3)
    working.all()["k"]["steps"].append(4)
    assert working.get("k") == {"steps": [1]}


def test_clearing_what_is_empty_writes_nothing(chat: Session, working: WorkingDict) -> None:
    """An empty dictionary is clear already, and so no session is made of it."""
    working.clear()
    assert not chat.exists
    assert (working.keys(), working.all(), len(working), "k" in working) == ([], {}, 0, False)


def test_not_found_names_the_keys_that_there_are(working: WorkingDict) -> None:
    """The error for a key that is not there tells those that are, so that the next call can be right."""
    with pytest.raises(NotFound, match="it has: nothing"):
        working.get("x")
    working.set("task", 1)
    working.set("open questions", 2)
    for use in (working.get, working.delete):
        with pytest.raises(NotFound, match='it has: "task", "open questions"'):
            use("x")


# --- what may be kept ---


@pytest.mark.parametrize("key", ["", "x" * 129, "a\nb", "a\x00", "\x7f", "a\u2028b", "\ud800", 1, None, b"k"])
def test_a_key_is_one_short_line(chat: Session, working: WorkingDict, key: Any) -> None:
    """A key that is empty, too long, no text, or would break a line is refused, with nothing written."""
    with pytest.raises(InvalidInput):
        working.set(key, 1)
    assert not chat.exists


def deep(levels: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(levels):
        value = [value]
    return value


ENDLESS: list[Any] = []
ENDLESS.append(ENDLESS)


@pytest.mark.parametrize(
    ("value", "place"),
    [
        (float("nan"), "value"),
        ({"a": [1, float("inf")]}, "value['a'][1]"),
        ([b"x"], "value[0]"),
        ({"a": {1, 2}}, "value['a']"),
        ({"a": {1: 2}}, "value['a']"),
        ({"a": [{None: 2}]}, "value['a'][0]"),
        (2**64, "value"),
        (-(2**63) - 1, "value"),
        ("a\ud800", "value"),
        ({"\ud800": 1}, "value['\\ud800']"),
        (datetime(2026, 1, 1), "value"),
        (object(), "value"),
        (deep(65), "value" + "[0]" * 38),
        (ENDLESS, "value" + "[0]" * 38),
    ],
)
def test_what_is_no_json_is_refused_and_where_it_is_told(
    chat: Session, working: WorkingDict, value: Any, place: str
) -> None:
    """NaN, bytes, sets, keys that are no text and the like are refused with their place, unwritten."""
    with pytest.raises(InvalidInput) as caught:
        working.set("k", value)
    assert str(caught.value.where["at"]).startswith(place)
    assert not chat.exists


def test_the_deepest_value_that_is_kept_is_read_back(working: WorkingDict) -> None:
    """A value of as many levels as are allowed goes through the log."""
    working.set("k", deep(64))
    assert working.get("k") == deep(64)


def test_the_limit_is_of_the_whole_dictionary_in_bytes(chat: Session) -> None:
    """At the limit it is kept; one byte more is refused with size, limit, key and the largest, unwritten."""
    working = dictionary(chat, limit=40)
    working.set("a", "x" * 8)
    working.set("b", "好" * 5)
    assert working.size == 38
    end = chat.end
    with pytest.raises(WorkingMemoryFull) as caught:
        working.set("a", "x" * 11)
    assert caught.value.where == {
        "key": "a",
        "size": 41,
        "limit": 40,
        "largest": ["b: 17 bytes", "a: 13 bytes"],
    }
    assert isinstance(caught.value, InvalidInput)
    assert chat.end == end
    working.set("a", "x" * 10)
    assert working.size == 40
    smaller = dictionary(chat, limit=10)  # as after a setting was lowered: only taking away goes on
    with pytest.raises(WorkingMemoryFull):
        smaller.set("a", "x")
    smaller.delete("a")
    smaller.clear()
    assert smaller.all() == {}


# --- facts ---


def test_facts_are_pinned_and_unpinned(chat: Session) -> None:
    """Each fact once, in order, stripped; pinning again writes nothing; unpinning another raises."""
    facts = facts_of(chat)
    facts.pin("  Ana lives in Lisbon ")
    facts.pin("tea, not coffee")
    end = chat.end
    facts.pin("Ana lives in Lisbon")
    assert (chat.end, facts.all()) == (end, ("Ana lives in Lisbon", "tea, not coffee"))
    with pytest.raises(NotFound, match='pinned are: "Ana lives in Lisbon", "tea, not coffee"'):
        facts.unpin("Ana")
    facts.unpin("Ana lives in Lisbon ")
    assert facts.all() == ("tea, not coffee",)


@pytest.mark.parametrize("text", ["", "  \n", "a\nb", "a\u2028b", "a\x1b[0m", "x" * (LONGEST_FACT + 1), 5])
def test_a_fact_is_one_line(chat: Session, text: Any) -> None:
    """An empty, broken or too long fact is refused, with nothing written."""
    with pytest.raises(InvalidInput):
        facts_of(chat).pin(text)
    assert not chat.exists


def test_all_facts_together_have_a_limit(chat: Session) -> None:
    """Eight facts of 500 characters fit; one character more does not, until one is taken off."""
    facts = facts_of(chat)
    for number in range(MOST_FACTS // LONGEST_FACT):
        facts.pin(str(number) * LONGEST_FACT)
    end = chat.end
    with pytest.raises(WorkingMemoryFull) as caught:
        facts.pin("x")
    assert (caught.value.where["size"], caught.value.where["limit"], chat.end) == (4_001, 4_000, end)
    facts.unpin("0" * LONGEST_FACT)
    facts.pin("x")
    assert facts.all()[-1] == "x"


# --- a model's tools ---


def test_tools_are_strict_schemas() -> None:
    """Four tools, each an object that requires what it knows and allows nothing else."""
    assert [tool.name for tool in TOOLS] == [
        "working_memory_set",
        "working_memory_get",
        "working_memory_delete",
        "working_memory_keys",
    ]
    for tool in TOOLS:
        assert tool.parameters["type"] == "object"
        assert tool.parameters["additionalProperties"] is False
        assert tool.parameters["required"] == list(tool.parameters["properties"])


def test_a_models_calls_are_answered_with_json_and_marked(chat: Session) -> None:
    """Every tool does what it says; its entries carry who made them, and the turn that they belong to."""
    with chat.turn("hello") as turn:
        working = WorkingDict(
            lambda entries: turn.append(*entries), lambda: chat.meta.working_memory, 100, turn=turn.id
        )
        said = answer(working, "working_memory_set", {"key": "task", "value": {"好": 1}})
        assert msgspec.json.decode(said) == {"key": "task", "bytes": 18, "limit": 100}
        assert answer(working, "working_memory_get", {"key": "task"}) == '{"key":"task","value":{"好":1}}'
        assert answer(working, "working_memory_keys", {}) == '{"keys":["task"]}'
        assert answer(working, "working_memory_keys", None) == '{"keys":["task"]}'
        assert answer(working, "working_memory_delete", {"key": "task"}) == '{"key":"task","deleted":true}'
        turn.reply("done")
    made = changes(chat)
    assert [(entry.meta, entry.turn) for entry in made] == [({"by": "model"}, turn.id)] * 2
    dictionary(chat, meta={"by": "me"}, turn=turn.id).set("mine", 1)
    assert (changes(chat)[-1].meta, changes(chat)[-1].turn) == ({"by": "me"}, turn.id)


@pytest.mark.parametrize(
    ("name", "args", "words"),
    [
        ("working_memory_set", {"key": "a"}, "value must be given"),
        ("working_memory_set", {}, "key and value must be given"),
        ("working_memory_set", "key=a", "takes an object with key and value"),
        ("working_memory_set", {"key": 1, "value": 1}, "a key is text, not int"),
        ("working_memory_set", {"key": "a", "value": 1, "ttl": 3}, "there is no argument 'ttl'"),
        ("working_memory_get", None, "takes an object with key"),
        ("working_memory_get", {"key": "x"}, 'it has: "there"'),
        ("working_memory_get", {"key": ["x"]}, "a key is text, not list"),
        ("working_memory_delete", {"key": "x"}, 'it has: "there"'),
        ("working_memory_keys", {"key": "x"}, "takes an empty object"),
        ("working_memory_keys", [], "takes an empty object"),
        ("working_memory_drop", {}, "one of working_memory_set, working_memory_get"),
        ("get", {"key": "there"}, "one of working_memory_set"),
    ],
)
def test_a_wrong_call_says_what_would_be_right(
    working: WorkingDict, name: str, args: Any, words: str
) -> None:
    """The message for a wrong call names what is missing, unknown or there, so that a model can mend it."""
    working.set("there", 1)
    with pytest.raises(StratalogError) as caught:
        answer(working, name, args)
    assert words in str(caught.value)
    assert working.all() == {"there": 1}


# --- in words ---


def test_memory_is_rendered_facts_first() -> None:
    """Facts, then a line for each key in order; nothing for nothing."""
    memory = {"task": {"step": [1, None]}, "a": "two\nlines", "好": "茶"}
    block = rendered(memory, ("tea, not coffee", "two\nlines"))
    assert block == ('- tea, not coffee\n- two lines\ntask: {"step":[1,null]}\na: "two\\nlines"\n好: "茶"')
    assert (rendered({}, ()), rendered({}, ("f",)), rendered({"k": 1}, ())) == ("", "- f", "k: 1")


@given(st.dictionaries(KEYS, VALUES, max_size=4), st.lists(TEXT, max_size=3))
def test_a_block_of_memory_is_one_line_for_each_thing(memory: dict[str, Any], facts: list[str]) -> None:
    """Whatever is kept, there are as many lines as facts and keys, the same each time."""
    block = rendered(memory, facts)
    assert block.count("\n") + 1 == max(1, len(memory) + len(facts))
    assert block == rendered(dict(memory), tuple(facts))


@pytest.mark.parametrize(
    ("entry", "line"),
    [
        (WorkingMemory(op="set", key="task", value="x\ny"), '[working memory: task = "x\\ny"]'),
        (WorkingMemory(op="set", key="task", value=None), "[working memory: task = null]"),
        (
            WorkingMemory(op="set", key="task", blob=Blob(sha256="0" * 64, size=9_000, field="value")),
            "[working memory: task changed, 9000 bytes]",
        ),
        (WorkingMemory(op="delete", key="task"), "[working memory: task deleted]"),
        (WorkingMemory(op="clear"), "[working memory: cleared]"),
        (Note(kind="fact", text="tea", data={"pinned": True}), "[pinned: tea]"),
        (Note(kind="fact", text="tea", data={"pinned": False}), "[unpinned: tea]"),
        (Note(kind="fact", text="tea"), ""),
        (Note(kind="fact", data={"pinned": True}), ""),
        (Note(kind="fork", text="tea", data={"pinned": True}), ""),
    ],
)
def test_a_change_is_one_line(entry: WorkingMemory | Note, line: str) -> None:
    """Each change that somebody else made is told in one line; other notes are not."""
    assert change_rendered(entry) == line
    assert BY_MODEL == {"by": "model"}


# --- on disk ---


@pytest.fixture
def told(data: Path) -> Path:
    """The meta file of a session with working memory, a fact, and a compaction after them."""
    with Stratalog(data) as memory:
        chat = memory.session(KEY)
        dictionary(chat).set("task", "new")
        facts_of(chat).pin("tea")
        chat.append(Compaction(summary="s", working_memory={"task": "old"}))
        with chat.turn("hello") as turn:
            dictionary(chat).set("step", 2)
            turn.reply("yes")
    return session_paths(data, chat.key).meta


def test_the_meta_file_shows_working_memory_after_a_turn(told: Path) -> None:
    """Once a turn has ended, meta.json has the dictionary, the facts, and what was frozen."""
    shown = msgspec.json.decode(told.read_bytes())
    assert shown["v"] == 3
    assert shown["working_memory"] == {"task": "new", "step": 2}
    assert shown["facts"] == ["tea"]
    assert shown["frozen"] == {"working_memory": {"task": "new"}, "facts": ["tea"]}


def test_what_version_1_derived_is_thrown_away_and_folded_anew(data: Path, told: Path) -> None:
    """A meta file and a list of the old form, which had lost a change, are replaced from the log."""
    with Stratalog(data) as memory:
        meta = memory.session(KEY).meta
        assert memory.sessions().sessions == (meta,)
        found = memory.search("hello")
    old = msgspec.json.decode(told.read_bytes())
    for name in ("facts", "frozen", "remembers"):
        del old[name]
    old |= {"v": 1, "working_memory": {"task": "old", "step": 2}}
    told.write_bytes(msgspec.json.encode(old))
    del old["v"]  # a row of the list had no field with its default
    with closing(sqlite3.connect(tenant_path(data, "local") / FILE, isolation_level=None)) as database:
        database.execute("UPDATE sessions SET meta = ?", (msgspec.json.encode(old),))
        database.execute("PRAGMA user_version = 1")
    with Stratalog(data) as memory:
        assert memory.sessions().sessions == (meta,)
        assert memory.session(KEY).meta == meta
        assert memory.search("hello") == found
    with Stratalog(data) as memory:
        assert memory.sessions().sessions == (meta,)


def test_a_small_threshold_for_payloads_changes_no_fold(data: Path) -> None:
    """Values and facts that are kept out of line are folded all the same."""
    data.mkdir(parents=True)
    (data / "stratalog.toml").write_text("blob_threshold = 60\n")
    with Stratalog(data) as memory:
        chat = memory.session(KEY)
        dictionary(chat).set("long", "x" * 500)
        facts_of(chat).pin("y" * 500)
    session_paths(data, chat.key).meta.unlink(missing_ok=True)
    with Stratalog(data) as memory:
        meta = memory.session(KEY).meta
        assert (meta.working_memory, meta.facts) == ({"long": "x" * 500}, ("y" * 500,))
