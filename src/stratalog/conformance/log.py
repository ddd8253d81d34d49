"""The contract of a log store as cases that run: give each a `Lab` around your store.

    @pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
    def test_my_store(case, tmp_path):
        case(Lab(lambda: MyStore(tmp_path)))

A case raises `AssertionError` where a promise is broken. `Lab.make` opens the same data again each time it is
called; a store that keeps nothing (in memory) is declared with `durable=False`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from stratalog.errors import InvalidEntry, StaleFence, StratalogError
from stratalog.ids import ULID, new_ulid
from stratalog.keys import SessionKey, session_key
from stratalog.log.contract import LogStore, Verifies
from stratalog.types import (
    AnyEntry,
    Assistant,
    Audio,
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

KEY: Final = session_key("agent", "channel", "chat")


class Lab:
    """A store under test. `make` opens it; `reopen` closes it and opens the same data again."""

    def __init__(self, make: Callable[[], LogStore], *, durable: bool = True) -> None:
        self._make = make
        self._durable = durable
        self.store = make()

    def reopen(self) -> LogStore:
        if self._durable:
            close: Callable[[], None] = getattr(self.store, "close", lambda: None)
            close()
            self.store = self._make()
        return self.store

    def again(self) -> LogStore:
        """Another store on the same data, as another process has it."""
        return self._make() if self._durable else self.store


def _refused(error: type[StratalogError], act: Callable[[], Any]) -> StratalogError:
    try:
        act()
    except error as raised:
        return raised
    raise AssertionError(f"{error.__name__} should have been raised")


def _all(store: LogStore, key: SessionKey = KEY, **how: Any) -> list[AnyEntry]:
    reading = store.read(key, **how)
    entries = list(reading)
    assert reading.problems == [], reading.problems
    return entries


def one_of_each() -> list[AnyEntry]:
    """An entry of every type, with every field set."""
    turn = new_ulid()
    parts = (
        Text(text="see"),
        Image(media_type="image/png", data=b"\x89PNG\x00\xff"),
        Image(url="https://example.org/a.png"),
        Audio(media_type="audio/wav", data=b"RIFF"),
        File(media_type="text/csv", name="a.csv", data=b"a,b\n"),
        Reasoning(text="hm", signature="sig", redacted="zzz"),
        Data(kind="citation", value={"at": [1, 2.5, None, True]}),
    )
    return [
        System(content="be brief"),
        User(content="hello", turn=turn, meta={"channel": "cli", "n": [1, {"a": None}]}),
        TurnStart(turn=turn, holder="test"),
        Assistant(content=parts, model="m-1", response="r1", usage=Usage(input=9, output=2, cache_read=3)),
        ToolCall(call_id="c1", name="read", args={"path": "a", "deep": [[1], {"b": 2**70}]}, response="r1"),
        ToolResult(call_id="c1", name="read", content=(Text(text="x"),), error=True, synthetic=True),
        Compaction(summary="so far", first_kept=new_ulid(), covers=(new_ulid(), new_ulid()), by="extractive"),
        WorkingMemory(op="set", key="task", value={"n": 1}),
        Title(title="A name", by="user"),
        Pin(pinned=True),
        Note(kind="import", text="from there", data=[1]),
        TurnEnd(turn=turn, status="answered", detail="fine"),
    ]


# --- append and read ---


def what_is_appended_is_read(lab: Lab) -> None:
    """Every type of entry comes back equal to what append returned, also after reopening."""
    given = one_of_each()
    stored = lab.store.append(KEY, given)
    assert _all(lab.store) == stored
    assert _all(lab.reopen()) == stored
    for before, after in zip(given, stored, strict=True):
        for field in before.__struct_fields__:
            if field not in ("seq", "id", "ts", "fence"):
                assert getattr(after, field) == getattr(before, field), field


def entries_are_stamped(lab: Lab) -> None:
    """seq counts from 1 without gaps, over reopening too; id is a new ULID and ts now, unless given."""
    mine = User(content="b", id=new_ulid(5), ts=5)
    first = lab.store.append(KEY, [User(content="a"), mine])
    second = lab.reopen().append(KEY, [User(content="c")])
    assert [entry.seq for entry in first + second] == [1, 2, 3]
    assert (first[1].id, first[1].ts) == (mine.id, 5)
    assert all(ULID.match(entry.id) and entry.ts > 1_600_000_000_000 for entry in (first[0], second[0]))
    assert len({entry.id for entry in first + second}) == 3


def appending_nothing_makes_nothing(lab: Lab) -> None:
    """An empty append returns nothing and leaves no session behind."""
    assert lab.store.append(KEY, []) == []
    assert lab.store.head(KEY) is None
    assert list(lab.store.sessions()) == []


def a_missing_session_reads_as_empty(lab: Lab) -> None:
    """Reading, deleting or asking the head of a session that does not exist is no error."""
    assert _all(lab.store) == []
    assert lab.store.head(KEY) is None
    assert lab.store.delete(KEY) is False


def reading_from_points_and_backwards(lab: Lab) -> None:
    """`after` and `before` are exclusive, `reverse` gives the same entries last first, at any size."""
    store = lab.store
    for number in range(6):
        store.append(KEY, [User(content=f"{number}-{i} " + "x" * 700) for i in range(50)])
    for after, before in [
        (0, None),
        (7, None),
        (299, None),
        (300, None),
        (900, None),
        (0, 1),
        (0, 120),
        (95, 105),
    ]:
        want = [seq for seq in range(1, 301) if seq > after and (before is None or seq < before)]
        for reverse in (False, True):
            found = [entry.seq for entry in _all(store, after=after, before=before, reverse=reverse)]
            assert found == (want[::-1] if reverse else want), (after, before, reverse)


def reading_streams(lab: Lab) -> None:
    """A reading may be left in the middle, and entries appended meanwhile do not disturb it."""
    lab.store.append(KEY, [User(content=str(number)) for number in range(2000)])
    reading = lab.store.read(KEY)
    assert next(reading).seq == 1
    lab.store.append(KEY, [User(content="later")])
    rest = [entry.seq for entry in reading]
    assert rest[:1999] == list(range(2, 2001))
    del reading


def sessions_are_apart(lab: Lab) -> None:
    """Keys that differ only in case, separators or look-alikes name different logs."""
    chats = ["a", "A", "a_b", "a:b", "a-b", "a b", "a.", "а", "con", "x" * 1000, "x" * 999 + "y"]
    keys = [session_key("agent", "ch", chat) for chat in chats]
    keys += [session_key("agent2", "ch", "a"), session_key("agent", "ch", "a", tenant="other")]
    for number, key in enumerate(keys):
        lab.store.append(key, [User(content=f"mine {number}")])
    store = lab.reopen()
    for number, key in enumerate(keys):
        (entry,) = _all(store, key)
        assert isinstance(entry, User)
        assert entry.content == f"mine {number}"
    assert set(store.sessions()) == set(keys)
    assert list(store.sessions("other")) == [keys[-1]]
    assert list(store.sessions("oth")) == []


# --- what can be said ---


def any_text_is_kept(lab: Lab) -> None:
    """NUL, line separators of all kinds, every plane, long and empty text: the same after reopening."""
    texts = [
        "",
        "\0",
        "a\0b",
        "\n",
        "\r\n",
        "a\u2028b\u2029c\x85d\x0be\x0cf",
        "\x1b[31m",
        "\ufeff",
        "é 中文 🎉 \U0010ffff",
    ]
    texts += ["\\ud800", '"}\n{"crc":"00000000","type":"user"', "ا" * 5000, "\u202e", "\x7f\x80"]
    stored = lab.store.append(KEY, [User(content=text, meta={text: text}) for text in texts])
    assert [entry.text for entry in stored if isinstance(entry, User)] == texts
    assert _all(lab.reopen()) == stored


def lone_surrogates_become_replacement_characters(lab: Lab) -> None:
    """The one value that is changed: a lone surrogate is stored as U+FFFD, and counted in meta."""
    stored = lab.store.append(
        KEY, [User(content="a\ud800b\udfff"), ToolCall(call_id="c", name="n", args={"x": ["\udc00"]})]
    )
    first, second = _all(lab.reopen())
    assert [first, second] == stored
    assert isinstance(first, User)
    assert isinstance(second, ToolCall)
    assert first.content == "a\ufffdb\ufffd"
    assert first.meta == {"replaced_surrogates": 2}
    assert second.args == {"x": ["\ufffd"]}


def _note(data: Any) -> AnyEntry:
    return Note(kind="n", data=data)


def what_json_cannot_hold_is_refused(lab: Lab) -> None:
    """NaN, infinities, bytes, keys that are no text, wrong types: refused whole, with nothing written."""
    deep: Any = 0
    for _ in range(101):
        deep = [deep]
    bad: list[Any] = [float("nan"), float("inf"), b"x", {1: 2}, {"a": {None: 1}}, object(), {1, 2}, deep]
    for value in bad:
        error = _refused(InvalidEntry, partial(lab.store.append, KEY, [User(content="ok"), _note(value)]))
        assert "data" in str(error), error
    for wrong in ({"content": 5}, {"ts": "now"}, {"id": "mine"}, {"content": ("x",)}, {"turn": 7}):
        given: dict[str, Any] = {"content": "a", **wrong}
        _refused(InvalidEntry, partial(lab.store.append, KEY, [User(content="ok"), User(**given)]))
    assert lab.store.head(KEY) is None
    assert lab.store.append(KEY, [User(content="fine")])[0].seq == 1


def large_payloads_are_kept(lab: Lab) -> None:
    """Megabytes of text, images and data come back the same; without blobs, text keeps its start."""
    image, text = bytes(range(256)) * 4096, "长" * 400_000
    args = {"content": ["line\n" * 10] * 5000}
    given: list[AnyEntry] = [
        User(content=text),
        User(
            content=(Text(text=text), Image(media_type="image/png", data=image), Data(kind="k", value=args))
        ),
        ToolCall(call_id="c", name="write", args=args),
        ToolResult(call_id="c", content=text),
        Note(kind="n", data=args),
        WorkingMemory(op="set", key="k", value=args),
        Compaction(summary=text),
    ]
    stored = lab.store.append(KEY, given)
    assert _all(lab.reopen()) == stored
    light = _all(lab.store, blobs=False)
    assert [entry.id for entry in light] == [entry.id for entry in stored]
    assert isinstance(light[0], User)
    assert text.startswith(light[0].text[:100])


def what_was_given_may_change_afterwards(lab: Lab) -> None:
    """A store keeps no reference to what the caller may still change."""
    args = {"list": [1]}
    (stored,) = lab.store.append(KEY, [ToolCall(call_id="c", name="n", args=args)])
    args["list"].append(2)
    assert isinstance(stored, ToolCall)
    assert stored.args == {"list": [1]}
    assert _all(lab.store) == [stored]


def unknown_entries_keep_their_bytes(lab: Lab) -> None:
    """An entry of a later version is kept byte for byte, and stamped when it is appended elsewhere."""
    raw = b'{"type":"hologram","seq":7,"id":"01ARZ3NDEKTSV4RRFFQ69G5FAV","ts":5,"x":1.50,"y":{"z": [ 1 ]}}'
    given = Unknown(kind="hologram", raw=raw, seq=7, id="01ARZ3NDEKTSV4RRFFQ69G5FAV", ts=5)
    (stored,) = lab.store.append(KEY, [given])
    assert isinstance(stored, Unknown)
    assert stored.raw == raw.replace(b'"seq":7', b'"seq":1')
    (found,) = _all(lab.reopen())
    assert found == stored


# --- generations ---


def replace_starts_a_generation(lab: Lab) -> None:
    """After replace only the new entries are current; the old ones stay readable; seq goes on."""
    old = lab.store.append(KEY, [User(content="old 1"), User(content="old 2")])
    head = lab.store.replace(KEY, [Title(title="kept"), User(content="new")])
    assert (head.seq, head.generation, head.first) == (4, 2, 3)
    store = lab.reopen()
    assert store.head(KEY) == head
    assert [entry.seq for entry in _all(store)] == [3, 4]
    assert _all(store, generations="all")[:2] == old
    assert [entry.seq for entry in _all(store, generations="all", reverse=True)] == [4, 3, 2, 1]
    assert store.append(KEY, [User(content="newer")])[0].seq == 5


def clearing_is_replacing_with_nothing(lab: Lab) -> None:
    """A cleared session exists, reads as empty, and is appended to as before; twice is no harm."""
    lab.store.append(KEY, [User(content="a")])
    lab.store.replace(KEY, [])
    head = lab.store.replace(KEY, [])
    assert _all(lab.reopen()) == []
    assert list(lab.store.sessions()) == [KEY]
    assert (head.seq, head.first) == (1, 2)
    assert lab.store.append(KEY, [User(content="b")])[0].seq == 2
    assert len(_all(lab.store, generations="all")) == 2


def replace_may_create(lab: Lab) -> None:
    """Replacing what does not exist creates it, from a stream of entries."""
    head = lab.store.replace(KEY, (User(content=str(number)) for number in range(1000)))
    assert head.seq == 1000
    assert len(_all(lab.reopen())) == 1000


def a_failed_replace_changes_nothing(lab: Lab) -> None:
    """When one of the new entries is refused, the old generation stays."""
    stored = lab.store.append(KEY, [User(content="a")])
    _refused(InvalidEntry, lambda: lab.store.replace(KEY, [User(content="b"), Note(kind="x", data=b"")]))
    assert _all(lab.reopen()) == stored
    other = session_key("agent", "channel", "other")
    _refused(InvalidEntry, lambda: lab.store.replace(other, [User(content="b"), Note(kind="x", data=b"")]))
    assert lab.store.head(other) is None


def delete_leaves_nothing(lab: Lab) -> None:
    """A deleted session is gone with its archive and payloads, and may be made again from seq 1."""
    lab.store.append(KEY, [User(content="x" * 200_000)])
    lab.store.replace(KEY, [User(content="b")])
    other = session_key("agent", "channel", "other")
    lab.store.append(other, [User(content="stay")])
    assert lab.store.delete(KEY) is True
    store = lab.reopen()
    assert list(store.sessions()) == [other]
    assert _all(store, generations="all") == []
    assert store.append(KEY, [User(content="c")])[0].seq == 1
    assert len(_all(store, generations="all")) == 1
    assert len(_all(store, other)) == 1


# --- fences ---


def turns_take_ever_higher_fences(lab: Lab) -> None:
    """Each TurnStart gets a higher fence than any before, also after reopening and a new generation."""
    fences: list[int] = []

    def take(store: LogStore) -> None:
        (start,) = store.append(KEY, [TurnStart(holder="h")])
        assert isinstance(start, TurnStart)
        fences.append(start.fence)
        head = store.head(KEY)
        assert head is not None
        assert head.fence == start.fence

    take(lab.store)
    take(lab.store)
    take(lab.reopen())
    head = lab.store.replace(KEY, [])
    assert head.fence > fences[-1]
    take(lab.reopen())
    assert fences == sorted(set(fences))


def an_older_fence_is_refused(lab: Lab) -> None:
    """Who lost the session writes nothing more, by whatever store; unfenced arrivals are always let in."""
    mine, theirs = lab.store, lab.again()
    (first,) = mine.append(KEY, [TurnStart(holder="a")])
    assert isinstance(first, TurnStart)
    mine.append(KEY, [User(content="1")], fence=first.fence)
    (second,) = theirs.append(KEY, [TurnStart(holder="b")])
    assert isinstance(second, TurnStart)
    error = _refused(StaleFence, lambda: mine.append(KEY, [User(content="late")], fence=first.fence))
    assert error.where["latest"] == second.fence
    _refused(StaleFence, lambda: mine.append(KEY, [User(content="early")], fence=second.fence + 1))
    _refused(StaleFence, lambda: mine.replace(KEY, [], fence=first.fence))
    mine.append(KEY, [User(content="arrival")])
    theirs.append(KEY, [User(content="2")], fence=second.fence)
    assert [entry.text for entry in _all(mine) if isinstance(entry, User)] == ["1", "arrival", "2"]


def a_new_generation_ends_the_fence(lab: Lab) -> None:
    """After replace, the holder of before is refused; the one that replaced under its fence too."""
    (start,) = lab.store.append(KEY, [TurnStart(holder="a")])
    assert isinstance(start, TurnStart)
    lab.store.replace(KEY, [], fence=start.fence)
    _refused(StaleFence, lambda: lab.store.append(KEY, [User(content="late")], fence=start.fence))
    assert _all(lab.store) == []


def a_fence_does_not_outlive_its_log(lab: Lab) -> None:
    """After a delete the old holder is refused, also when the session was made again and taken again."""
    (start,) = lab.store.append(KEY, [TurnStart(holder="a")])
    assert isinstance(start, TurnStart)
    lab.store.delete(KEY)
    _refused(StaleFence, lambda: lab.store.append(KEY, [User(content="late")], fence=start.fence))
    assert lab.store.head(KEY) is None
    (again,) = lab.store.append(KEY, [TurnStart(holder="b")])
    assert isinstance(again, TurnStart)
    assert again.fence != start.fence
    _refused(StaleFence, lambda: lab.store.append(KEY, [User(content="late")], fence=start.fence))


# --- at the same time ---


def threads_append_together(lab: Lab) -> None:
    """Appends from many threads, through two stores: all there once, each batch together, no gap."""
    stores = [lab.store, lab.again()]
    failed: list[BaseException] = []

    def work(worker: int) -> None:
        try:
            for number in range(20):
                entries: list[AnyEntry] = [User(content=f"{worker}/{number}/{part}") for part in range(3)]
                stored = stores[worker % 2].append(KEY, entries)
                assert [entry.seq for entry in stored] == list(range(stored[0].seq, stored[0].seq + 3))
        except (StratalogError, AssertionError) as error:
            failed.append(error)

    threads = [threading.Thread(target=work, args=(worker,)) for worker in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    entries = _all(lab.reopen())
    assert [entry.seq for entry in entries] == list(range(1, 481))
    texts = [entry.text for entry in entries if isinstance(entry, User)]
    assert len(set(texts)) == 480
    for start in range(0, 480, 3):
        assert [text.rsplit("/", 1)[1] for text in texts[start : start + 3]] == ["0", "1", "2"]


def a_whole_log_verifies(lab: Lab) -> None:
    """After all kinds of changes, verify finds nothing wrong."""
    if not isinstance(lab.store, Verifies):
        return
    lab.store.append(KEY, one_of_each())
    lab.store.append(KEY, [User(content="x" * 300_000)])
    lab.store.replace(KEY, one_of_each())
    lab.store.append(KEY, one_of_each())
    store = lab.reopen()
    assert isinstance(store, Verifies)
    assert store.verify(KEY).problems == ()


CASES: Final[tuple[Callable[[Lab], None], ...]] = (
    what_is_appended_is_read,
    entries_are_stamped,
    appending_nothing_makes_nothing,
    a_missing_session_reads_as_empty,
    reading_from_points_and_backwards,
    reading_streams,
    sessions_are_apart,
    any_text_is_kept,
    lone_surrogates_become_replacement_characters,
    what_json_cannot_hold_is_refused,
    large_payloads_are_kept,
    what_was_given_may_change_afterwards,
    unknown_entries_keep_their_bytes,
    replace_starts_a_generation,
    clearing_is_replacing_with_nothing,
    replace_may_create,
    a_failed_replace_changes_nothing,
    delete_leaves_nothing,
    turns_take_ever_higher_fences,
    an_older_fence_is_refused,
    a_new_generation_ends_the_fence,
    a_fence_does_not_outlive_its_log,
    threads_append_together,
    a_whole_log_verifies,
)
