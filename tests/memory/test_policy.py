"""memory/policy.py: what remembering, forgetting and importing do to a slot."""

from __future__ import annotations

import itertools
import unicodedata
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from stratalog.errors import Conflict, InvalidInput
from stratalog.ids import derived_ulid, new_ulid
from stratalog.memory.contract import Change, Layer, Record, Scope, Source, Tombstone, When
from stratalog.memory.policy import (
    MAX_KEY,
    Decision,
    Draft,
    arrived,
    checked,
    content_of,
    decide,
    expired,
    forgotten,
    imported,
    normal_key,
    repaired,
    same,
    span_of,
    without_entries,
)

ME = Scope("user", "ana")
DAY = 86_400_000
NOW = 1_000 * DAY


def draft(payload: Any = "Lisbon", **more: Any) -> Draft:
    return Draft(**{"layer": Layer.LONG, "scope": ME, "key": "home", "payload": payload, **more})


class Slot:
    """A slot that is written to as a store would: the latest form of each record, and tombstones."""

    def __init__(self) -> None:
        self.records: dict[str, Record] = {}
        self.tombstones: list[Tombstone] = []
        self.now = NOW
        self.number = 0

    @property
    def current(self) -> list[Record]:
        return [each for each in self.records.values() if each.status == "current"]

    def take(self, change: Change) -> None:
        self.records |= {event.record.id: event.record for event in change.events}
        self.tombstones += change.tombstones

    def say(self, said: Draft, *, after: int = 1) -> Decision:
        self.now += after
        self.number += 1
        decision = decide(
            said,
            environment="production",
            slot=[each for each in self.records.values() if each.status != "forgotten"],
            tombstones=self.tombstones,
            now=self.now,
            new_id=derived_ulid(self.now, str(self.number)),
            actor="test",
        )
        self.take(decision.change)
        return decision

    def held_at(self, at: int) -> list[Any]:
        return [
            each.payload
            for each in self.records.values()
            if each.status != "forgotten"
            and (each.valid_from is None or each.valid_from.at <= at)
            and (each.valid_to is None or at < each.valid_to.at)
        ]


def source(entry: str = "", at: int = NOW, session: str = "local/a:b:c") -> Source:
    return Source(session, derived_ulid(at, entry))


# --- keys and contents ---


@given(st.text(max_size=300))
def test_a_normal_key_is_its_own(text: str) -> None:
    """Normalising again changes nothing, nor does the case, the form of Unicode or the space around it."""
    key = normal_key(text)
    assert normal_key(key) == key
    assert len(key) <= MAX_KEY
    assert key == key.strip()
    assert normal_key(f"  {text}\n") == key
    assert normal_key(unicodedata.normalize("NFC", text)) == normal_key(unicodedata.normalize("NFD", text))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Favourite-Colour", "favourite colour"),
        ("favourite_colour", "FAVOURITE\tCOLOUR."),
        ("用户，姓名", "用户 姓名"),
        ("ｆａｖ", "fav"),
        ("Straße", "STRASSE"),
        ("na\u200bme", "name"),
    ],
)
def test_keys_of_one_slot(one: str, other: str) -> None:
    """Case, width, punctuation and what is invisible make no other slot."""
    assert normal_key(one) == normal_key(other)


@given(st.text(st.characters(codec="ascii"), max_size=40))
def test_a_plain_key_is_the_same_in_full_width(text: str) -> None:
    """ASCII takes a shorter way to the same key: that of its full-width form, which takes the long one."""
    wide = text.translate({0x20: 0x3000, **{code: code + 0xFEE0 for code in range(0x21, 0x7F)}})
    assert normal_key(text) == normal_key(wide)


@pytest.mark.parametrize(
    ("one", "other"),
    [("C", "C++"), ("C", "C#"), ("1.5", "15"), ("姓名", "姓"), ("x" * 300, "x" * 301), ("a", "а")],
)
def test_keys_of_two_slots(one: str, other: str) -> None:
    """What tells names apart stays, in a long key too."""
    assert normal_key(one) != normal_key(other)


def test_chinese_stays_as_it_is() -> None:
    """A Chinese key is kept whole."""
    assert normal_key("用户的姓名") == "用户的姓名"


@pytest.mark.parametrize("key", ["", " ", "…", "\u200b", "x" * 1_001])
def test_a_key_that_says_nothing_is_refused(key: str) -> None:
    """A key without anything in it, or too long, is `InvalidInput`."""
    with pytest.raises(InvalidInput):
        checked(draft(key=key))


def test_an_empty_slot_is_as_one_whose_records_are_over() -> None:
    """What is said into an empty slot ends as it does beside records that do not count any more."""
    said = [
        draft(),
        draft(valid_from=When(at=NOW - DAY)),
        draft(valid_from=When(at=NOW), valid_to=When(at=NOW + 1)),
    ]
    over = Slot()
    over.say(draft("Porto", expires_at=over.now + DAY))
    for one in said:
        empty, beside = (
            decide(
                one,
                environment="production",
                slot=slot,
                tombstones=(),
                now=NOW + 2 * DAY,
                new_id=derived_ulid(NOW, "new"),
                actor="test",
            )
            for slot in ((), tuple(over.records.values()))
        )
        assert empty == beside
        assert empty.outcome == "stored"


SAME = [
    ("The user likes green tea.", "user likes green tea"),
    ("Doesn't eat meat", "does not eat meat"),
    ("I can't swim", "I cannot swim"),
    ("likes   tea", "Likes tea!"),
    ("她喜欢茶。", "她喜欢茶"),
    ({"city": "Lisbon", "n": 1}, {"n": 1.0, "city": "lisbon."}),
]
DIFFERENT = [
    ("likes tea", "does not like tea"),
    ("likes tea", "likes coffee"),
    ("Ana knows Bo", "Bo knows Ana"),
    ("runs version 1.2", "runs version 12"),
    ("paid 100 euros for a bicycle in the old town of Lisbon on a rainy day in May with her sister",
     "paid 101 euros for a bicycle in the old town of Lisbon on a rainy day in May with her sister"),
    ("No, dogs are allowed", "No dogs are allowed"),
    ("不是他", "不，是他"),
    ("她喜欢茶", "她不喜欢茶"),
    ("is token aBc", "is token abc"),
    ("likes tea", "likes tea?"),
    (1, True),
    (None, ""),
    ({"a": 1}, {"a": 2}),
    ({"a": 1}, {"b": 1}),
    ([1, 2], [2, 1]),
]  # fmt: skip


@pytest.mark.parametrize(("one", "other"), SAME)
def test_near_duplicates(one: Any, other: Any) -> None:
    """What differs in case, spaces, the full stop and empty words says the same."""
    assert content_of(one) == content_of(other)


@pytest.mark.parametrize(("one", "other"), DIFFERENT)
def test_what_only_looks_alike(one: Any, other: Any) -> None:
    """A number, a name, a negation, an order of words, a question: another payload."""
    assert content_of(one) != content_of(other)


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text("ab . "),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab"), inner, max_size=3),
    max_leaves=8,
)


@given(JSON)
def test_a_checked_draft_is_checked(payload: Any) -> None:
    """Checking again changes nothing, and the content is that of what was given."""
    once = checked(draft(payload, text="words"))
    assert checked(once) == once
    if payload is not None:
        assert content_of(once.payload) == content_of(payload)


@pytest.mark.parametrize(
    "change",
    [
        {"payload": "x" * 70_000, "text": "short"},
        {"text": "x" * 16_001},
        {"payload": "x" * 16_001},
        {"sources": tuple(Source("s", str(n)) for n in range(101))},
        {"sources": (Source("s", "x" * 5_000),)},
        {"sources": (Source("s", ""),)},
        {"payload": float("nan")},
        {"payload": {1: 2}},
        {"payload": object()},
        {"payload": "\ud800"},
        {"payload": b"bytes"},
        {"payload": None, "text": " "},
        {"confidence": 1.1},
        {"confidence": float("nan")},
        {"layer": "forever"},
        {"scope": Scope("user")},
        {"scope": Scope("tenant", "x")},
        {"valid_from": When(5), "valid_to": When(5)},
        {"valid_from": When(2**63)},
        {"said_at": -1},
    ],
    ids=lambda change: next(iter(change)),
)
def test_what_cannot_be_remembered(change: dict[str, Any]) -> None:
    """What is too large, of a wrong type or says nothing is `InvalidInput`."""
    with pytest.raises(InvalidInput):
        checked(draft(**change))


def test_a_deep_payload_is_refused() -> None:
    """A payload nested a hundred thousand deep is refused, not a crash."""
    deep: Any = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(InvalidInput):
        checked(draft(deep))


def test_payload_and_text_stand_for_one_another() -> None:
    """Of text alone the payload is the text; of a payload alone the text is made."""
    assert checked(draft(None, text=" likes tea ")).payload == "likes tea"
    assert checked(draft("tea")).text == "tea"
    assert checked(draft({"n": 1}, key="Shoe size")).text == 'Shoe size: {"n":1}'


# --- remembering ---


def test_something_new_is_stored() -> None:
    """The first record of a slot has what the draft says."""
    slot = Slot()
    done = slot.say(draft(valid_from=When(5), sources=(source(),), confidence=0.7))
    record = done.record
    assert done.outcome == "stored"
    assert record is not None
    assert slot.current == [record]
    assert (record.payload, record.text, record.confidence, record.evidence) == ("Lisbon", "Lisbon", 0.7, 1)
    assert (record.valid_from, record.sources, record.created_at) == (When(5), (source(),), slot.now)
    assert [event.action for event in done.change.events] == ["remember"]


def test_the_same_again_is_merged() -> None:
    """Evidence counts, sources are united, the higher confidence and the longer layer stay."""
    slot = Slot()
    slot.say(
        draft(layer=Layer.SHORT, sources=(source("1"),), confidence=0.5, origin="model", expires_at=NOW + DAY)
    )
    done = slot.say(draft("lisbon.", sources=(source("2"),), confidence=0.8))
    (record,) = slot.current
    assert done.outcome == "merged"
    assert (record.payload, record.evidence, record.confidence) == ("Lisbon", 2, 0.8)
    assert record.sources == (source("1"), source("2"))
    assert (record.layer, record.origin, record.expires_at) == (Layer.LONG, "user", 0)
    assert [event.action for event in done.change.events] == ["merge"]


def test_the_same_source_counts_once() -> None:
    """Telling a saying twice, as a redelivery does, changes nothing at all."""
    slot = Slot()
    slot.say(draft(sources=(source("1"),)))
    again = slot.say(draft(sources=(source("1"),)))
    assert again.outcome == "merged"
    assert again.change == Change()
    assert slot.current[0].evidence == 1


def test_a_correction_to_the_spelling_is_taken() -> None:
    """The same, said as a correction, is kept as it is said now."""
    slot = Slot()
    slot.say(draft("lisbon"))
    slot.say(draft("Lisbon", replaces=True))
    assert [each.payload for each in slot.current] == ["Lisbon"]


@pytest.mark.parametrize(
    "better",
    [{"confidence": 0.9}, {"replaces": True, "confidence": 0.1}, {"valid_from": When(NOW + 1 + DAY)}],
)
def test_what_is_beaten_is_closed(better: dict[str, Any]) -> None:
    """Higher confidence, a correction, or a later beginning closes the old one and names it."""
    slot = Slot()
    old = slot.say(draft("Lisbon")).record
    done = slot.say(draft("Porto", **better), after=2 * DAY)
    assert old is not None
    assert done.record is not None
    assert done.outcome == "superseded"
    assert [each.payload for each in slot.current] == ["Porto"]
    assert done.record.supersedes == (old.id,)
    closed = slot.records[old.id]
    begins = better.get("valid_from", When(slot.now))
    assert (closed.status, closed.valid_to, closed.payload) == ("superseded", begins, "Lisbon")
    assert done.record.valid_from == begins
    assert [event.action for event in done.change.events] == ["supersede", "remember"]


@pytest.mark.parametrize("confidence", [0.5, 0.4])
def test_what_beats_nothing_is_marked(confidence: float) -> None:
    """Equal or lower confidence keeps both, each with the other's id."""
    slot = Slot()
    old = slot.say(draft("Lisbon", confidence=0.5)).record
    done = slot.say(draft("Porto", confidence=confidence))
    assert old is not None
    assert done.record is not None
    assert done.outcome == "conflict"
    assert {each.id: each.conflict_with for each in slot.current} == {
        old.id: (done.record.id,),
        done.record.id: (old.id,),
    }
    assert slot.records[old.id].valid_to is None


def test_a_correction_settles_a_conflict() -> None:
    """A correction that says what one of two says closes the other, and no mark is left."""
    slot = Slot()
    slot.say(draft("Lisbon"))
    slot.say(draft("Porto"))
    done = slot.say(draft("Lisbon", replaces=True))
    (record,) = slot.current
    assert done.outcome == "merged"
    assert (record.payload, record.conflict_with, record.evidence) == ("Lisbon", (), 2)


def test_what_comes_next_month_closes_nothing_yet() -> None:
    """Until a later value begins, the old one holds and is current."""
    slot = Slot()
    slot.say(draft("Lisbon"))
    slot.say(draft("Porto", valid_from=When(NOW + 30 * DAY)))
    assert [each.status for each in slot.records.values()] == ["current", "current"]
    assert all(not each.conflict_with for each in slot.current)
    assert slot.held_at(slot.now) == ["Lisbon"]
    assert slot.held_at(NOW + 30 * DAY) == ["Porto"]


def test_an_old_value_can_come_back() -> None:
    """Three intervals, the first and last of the same value, stay three."""
    slot = Slot()
    slot.say(draft("Lisbon", valid_from=When(10)))
    slot.say(draft("Porto", valid_from=When(20)))
    slot.say(draft("Lisbon", valid_from=When(30)))
    assert [slot.held_at(at) for at in (5, 10, 20, 30, NOW)] == [
        [], ["Lisbon"], ["Porto"], ["Lisbon"], ["Lisbon"],
    ]  # fmt: skip
    assert len(slot.records) == 3


def test_what_was_only_for_a_time_leaves_the_rest() -> None:
    """A better value with an end is cut out of the old one, which holds again after it."""
    slot = Slot()
    slot.say(draft("Lisbon", valid_from=When(10)))
    slot.say(draft("Rome", valid_from=When(20), valid_to=When(30)))
    assert [slot.held_at(at) for at in (10, 20, 30, NOW)] == [["Lisbon"], ["Rome"], ["Lisbon"], ["Lisbon"]]


def test_the_past_contradicts_nothing() -> None:
    """What ended before the present value was known stands beside it."""
    slot = Slot()
    slot.say(draft("Porto"))
    done = slot.say(draft("Lisbon", valid_from=When(10), valid_to=When(20)))
    assert done.outcome == "stored"
    assert all(not each.conflict_with for each in slot.current)


def test_a_late_correction_does_not_cut_into_what_came_before_it() -> None:
    """A correction that dates before the old value's beginning leaves it no time at all."""
    slot = Slot()
    slot.say(draft("Porto", valid_from=When(20)))
    slot.say(draft("Lisbon", valid_from=When(10), replaces=True))
    assert [slot.held_at(at) for at in (9, 10, 20, NOW)] == [[], ["Lisbon"], ["Lisbon"], ["Lisbon"]]


def test_what_has_expired_is_no_rival() -> None:
    """A record whose time is over neither merges nor conflicts."""
    slot = Slot()
    slot.say(draft("Lisbon", expires_at=NOW + 5))
    assert slot.say(draft("Porto"), after=10).outcome == "stored"


def test_dated_sayings_may_come_in_any_order() -> None:
    """Three dated values give the same three intervals in whatever order they are written."""
    said = [draft(city, valid_from=When(day)) for city, day in (("Lisbon", 10), ("Porto", 20), ("Rome", 30))]
    for order in itertools.permutations(said):
        slot = Slot()
        for each in order:
            slot.say(each)
        assert [slot.held_at(at) for at in (9, 10, 20, 30)] == [[], ["Lisbon"], ["Porto"], ["Rome"]]
        assert [each.payload for each in slot.current] == ["Rome"]
        assert all(not each.conflict_with for each in slot.records.values())


@pytest.mark.parametrize("better", [{"confidence": 0.9}, {"replaces": True}])
def test_what_was_said_before_closes_nothing(better: dict[str, Any]) -> None:
    """A correction that was said before the record's own source is marked, and closes nothing."""
    slot = Slot()
    slot.say(draft("Porto", sources=(source(at=NOW - DAY),)))
    assert slot.say(draft("Lisbon", said_at=NOW - 2 * DAY, **better)).outcome == "conflict"
    assert slot.say(draft("Lisbon", said_at=NOW - DAY // 2, replaces=True)).outcome == "merged"
    assert [each.payload for each in slot.current] == ["Lisbon"]


def test_what_is_over_before_it_begins_closes_nothing() -> None:
    """A draft that has expired already is refused, correction or not."""
    slot = Slot()
    slot.say(draft("Lisbon"))
    assert slot.say(draft("Porto", expires_at=NOW, replaces=True)).outcome == "refused"
    assert [each.payload for each in slot.current] == ["Lisbon"]


def test_a_slot_can_be_full() -> None:
    """The hundred and first contradiction is refused; a correction still settles all."""
    slot = Slot()
    for number in range(100):
        slot.say(draft(number))
    with pytest.raises(Conflict):
        slot.say(draft("too many"))
    assert slot.say(draft("settled", replaces=True)).outcome == "superseded"
    assert [each.payload for each in slot.current] == ["settled"]


WHENS = st.none() | st.integers(1, 60).map(lambda day: When(NOW + (day - 30) * DAY))
DRAFTS = st.builds(
    draft,
    st.sampled_from(["Lisbon", "Porto", "Rome", "lisbon."]),
    confidence=st.sampled_from([0.2, 0.5, 0.9]),
    valid_from=WHENS,
    valid_to=WHENS,
    replaces=st.booleans(),
    origin=st.sampled_from(["user", "model"]),
    sources=st.lists(st.integers(0, 4), max_size=2).map(lambda ns: tuple(source(str(n)) for n in ns)),
).filter(lambda d: not (d.valid_from and d.valid_to) or d.valid_from.at < d.valid_to.at)


@given(st.lists(DRAFTS, max_size=8))
def test_every_slot_keeps_its_promises(said: list[Draft]) -> None:
    """After any sayings: something is current; no interval is negative; what holds together and differs is
    marked on both sides and nothing else is; nothing is lost; evidence is at least the sources."""
    slot = Slot()
    for each in said:
        before = dict(slot.records)
        done = slot.say(each, after=DAY)
        assert done.record is not None
        assert slot.current, "a slot ended without a current record"
        assert before.keys() <= slot.records.keys()
        for id, record in before.items():
            assert slot.records[id].evidence >= record.evidence
            assert set(record.sources) <= set(slot.records[id].sources)
            assert slot.records[id].confidence >= record.confidence
            if record.status == "superseded":
                # What is closed may be cut by what is dated within it, and is never opened or forgotten.
                after = slot.records[id]
                assert after.status == "superseded"
                assert span_of(after)[1] <= span_of(record)[1]
        assert done.record == slot.records[done.record.id]
        assert content_of(done.record.payload) == content_of(each.payload)
    for record in slot.records.values():
        assert (
            record.valid_from is None or record.valid_to is None or record.valid_from.at <= record.valid_to.at
        )
    spans = {each.id: span_of(each) for each in slot.current}
    for one in slot.current:
        meeting = {
            other.id
            for other in slot.current
            if other.id != one.id
            and spans[one.id][0] < spans[other.id][1]
            and spans[other.id][0] < spans[one.id][1]
        }
        assert set(one.conflict_with) == meeting
        assert list(one.conflict_with) == sorted(one.conflict_with)


@given(DRAFTS, st.lists(DRAFTS, max_size=4))
def test_a_saying_from_a_source_is_heard_once(said: Draft, before: list[Draft]) -> None:
    """The same draft from the same source, told again at once, changes nothing."""
    slot = Slot()
    for each in before:
        slot.say(each)
    said = replace(said, sources=(source("its own"),), replaces=False, valid_from=None, valid_to=None)
    slot.say(said)
    records = dict(slot.records)
    again = slot.say(said)
    assert again.outcome == "merged"
    assert slot.records == records


def test_same_is_by_what_is_said() -> None:
    """`same` compares what record and draft say, not who said it."""
    record = Slot().say(draft("The cat is black")).record
    assert record is not None
    assert same(record, draft("cat is black.", confidence=0.1, origin="model"))
    assert not same(record, draft("cat is not black"))


# --- forgetting ---


def test_a_late_write_does_not_come_back() -> None:
    """What was said before a slot was forgotten is refused; what is said after, or now, is not."""
    slot = Slot()
    record = slot.say(draft("Lisbon")).record
    assert record is not None
    slot.now += DAY
    at = slot.now
    slot.take(forgotten([record], (), at=at, actor="test", whole=True))
    assert slot.current == []
    for late in (
        draft("Lisbon", said_at=at),
        draft("Porto", said_at=at - 1),
        draft(sources=(source(at=at),)),
    ):
        done = slot.say(late)
        assert (done.outcome, done.record, done.change) == ("refused", None, Change())
    assert slot.say(draft("Lisbon", said_at=at + 1)).outcome == "stored"
    assert slot.say(draft("Lisbon")).outcome == "merged"


def test_a_time_in_the_future_opens_no_grave() -> None:
    """Saying that it was said tomorrow counts as now."""
    slot = Slot()
    stone = Tombstone(environment="production", scope=ME, key="home", at=NOW + 5)
    slot.tombstones.append(stone)
    assert slot.say(draft(said_at=NOW + DAY)).outcome == "refused"


def test_forgetting_one_record_leaves_the_others() -> None:
    """A record that is forgotten by itself bars what it said, in near words too, and no more."""
    slot = Slot()
    record = slot.say(draft("The cat is black")).record
    other = slot.say(draft("The cat is white")).record
    assert record is not None
    assert other is not None
    rest = [slot.records[other.id]]
    slot.take(forgotten([slot.records[record.id]], rest, at=slot.now, actor="test", reason="asked"))
    gone = slot.records[record.id]
    assert (gone.status, gone.payload, gone.text, gone.conflict_with) == ("forgotten", None, "", ())
    assert slot.records[other.id].conflict_with == ()
    assert slot.say(draft("cat is black.", said_at=slot.now - 1)).outcome == "refused"
    assert slot.say(draft("cat is grey", said_at=slot.now - 1)).outcome == "conflict"


def test_what_was_drawn_from_a_forgotten_entry_is_refused() -> None:
    """A draft without any source left is refused at whatever time; one with another source keeps that."""
    slot = Slot()
    gone = source("gone")
    slot.tombstones.append(Tombstone(environment="production", scope=ME, key="", at=NOW, content=gone.entry))
    assert slot.say(draft(sources=(gone,), said_at=NOW + 10 * DAY)).outcome == "refused"
    done = slot.say(draft(sources=(gone, source("kept"))))
    assert done.record is not None
    assert done.record.sources == (source("kept"),)


def record_of(*entries: str, origin: Any = "model", evidence: int = 1) -> Record:
    return Record(
        id=new_ulid(1),
        layer=Layer.LONG,
        scope=ME,
        key="home",
        payload="Lisbon",
        text="Lisbon",
        origin=origin,
        sources=tuple(source(each) for each in entries),
        evidence=evidence,
    )


def gone(*entries: str) -> frozenset[str]:
    return frozenset(source(each).entry for each in entries)


def test_repair() -> None:
    """What an agent, a model, a tool or an import drew from forgotten entries alone is forgotten; else it
    loses them and their evidence; what came from none of them is the same."""
    assert repaired(record_of("a"), gone("a"), 9).status == "forgotten"
    for origin in ("agent", "tool", "import"):
        assert repaired(record_of("a", origin=origin), gone("a", "b"), 9).status == "forgotten"
    kept = repaired(record_of("a", "b", evidence=3), gone("a"), 9)
    assert (kept.status, kept.sources, kept.evidence) == ("current", (source("b"),), 2)
    said = repaired(record_of("a", origin="user"), gone("a"), 9)
    assert (said.status, said.sources, said.evidence, said.payload) == ("current", (), 1, "Lisbon")
    untouched = record_of("a")
    assert repaired(untouched, gone("b"), 9) is untouched
    by_hand = record_of()
    assert repaired(by_hand, gone("a"), 9) is by_hand


@given(st.sets(st.sampled_from("abcd")), st.sets(st.sampled_from("abcd")), st.integers(1, 9))
def test_repairing_twice_is_repairing_once(has: set[str], lost: set[str], evidence: int) -> None:
    """Repair is idempotent, leaves none of the entries, and never evidence under 1."""
    once = repaired(record_of(*sorted(has), evidence=evidence), gone(*lost), 9)
    assert repaired(once, gone(*lost), 9) == once
    if once.status == "current":
        assert not gone(*lost) & {each.entry for each in once.sources}
    assert once.evidence >= 1


def test_what_a_forgotten_record_closed_holds_again() -> None:
    """When the only ground for a change is forgotten, the value before it goes on."""
    slot = Slot()
    slot.say(draft("Lisbon", origin="model", sources=(source("1"),), valid_from=When(10)))
    slot.say(draft("Porto", origin="model", sources=(source("2"),), valid_from=When(20)))
    slot.say(draft("Rome", origin="model", sources=(source("3"),), valid_from=When(30)))
    slot.take(without_entries(list(slot.records.values()), gone("2"), at=slot.now, actor="test"))
    assert [slot.held_at(at) for at in (10, 20, 30)] == [["Lisbon"], ["Lisbon"], ["Rome"]]
    slot.take(without_entries(list(slot.records.values()), gone("3"), at=slot.now, actor="test"))
    assert [slot.held_at(at) for at in (10, 30, NOW)] == [["Lisbon"], ["Lisbon"], ["Lisbon"]]
    assert [each.payload for each in slot.current] == ["Lisbon"]
    assert slot.say(draft("Porto", said_at=slot.now - 1)).outcome == "refused"


def test_what_came_late_is_forgotten_like_the_rest() -> None:
    """A dated value that was written last leaves no gap when its ground is forgotten."""
    slot = Slot()
    slot.say(draft("Lisbon", valid_from=When(10)))
    slot.say(draft("Rome", valid_from=When(30)))
    slot.say(draft("Porto", origin="model", sources=(source("2"),), valid_from=When(20)))
    assert [slot.held_at(at) for at in (10, 20, 30)] == [["Lisbon"], ["Porto"], ["Rome"]]
    slot.take(without_entries(list(slot.records.values()), gone("2"), at=slot.now, actor="test"))
    assert [slot.held_at(at) for at in (10, 20, 30)] == [["Lisbon"], ["Lisbon"], ["Rome"]]


def test_two_forgotten_at_once() -> None:
    """A chain of changes whose grounds are all forgotten goes back to what was before the first."""
    slot = Slot()
    slot.say(draft("Lisbon", valid_from=When(10)))
    slot.say(draft("Porto", origin="model", sources=(source("2"),), valid_from=When(20)))
    slot.say(draft("Rome", origin="model", sources=(source("3"),), valid_from=When(30)))
    slot.take(without_entries(list(slot.records.values()), gone("2", "3"), at=slot.now, actor="test"))
    assert [each.payload for each in slot.current] == ["Lisbon"]
    assert slot.held_at(NOW) == ["Lisbon"]


@given(st.lists(DRAFTS, max_size=6), st.sets(st.sampled_from("01234")))
def test_forgetting_entries_leaves_a_sound_slot(said: list[Draft], lost: set[str]) -> None:
    """Nothing that is left came from what was forgotten alone, marks fit, and once is enough."""
    slot = Slot()
    for each in said:
        slot.say(each)
    slot.take(without_entries(list(slot.records.values()), gone(*lost), at=slot.now, actor="test"))
    for record in slot.records.values():
        if record.status != "forgotten":
            assert not gone(*lost) & {each.entry for each in record.sources}
        assert set(record.conflict_with) <= {each.id for each in slot.records.values()}
    ids = {each.id for each in slot.current}
    assert all(set(each.conflict_with) <= ids - {each.id} for each in slot.current)
    again = without_entries(list(slot.records.values()), gone(*lost), at=slot.now + 1, actor="test")
    assert again == Change()


def test_expiry() -> None:
    """A record ends when its time comes, not before; it leaves no tombstone."""
    record = replace(record_of(), expires_at=100)
    assert expired(record, 99, "test") is None
    assert expired(replace(record, expires_at=0), 2**60, "test") is None
    event = expired(record, 100, "test")
    assert event is not None
    assert (event.action, event.record.status, event.record.payload) == ("expire", "forgotten", None)
    assert expired(event.record, 101, "test") is None


# --- importing ---


def take_in(slot: Slot, record: Record) -> Decision:
    done = imported(
        record,
        existing=slot.records.get(record.id),
        slot=slot.current,
        tombstones=slot.tombstones,
        now=slot.now,
        actor="test",
    )
    slot.take(done.change)
    return done


@given(st.lists(DRAFTS, max_size=6))
def test_a_slot_survives_its_bundle(said: list[Draft]) -> None:
    """A slot imported into an empty one is the same slot, and importing again changes nothing."""
    slot, other = Slot(), Slot()
    for each in said:
        slot.say(each)
    other.now = slot.now
    for _ in range(2):
        for record in sorted(slot.records.values(), key=lambda each: each.id):
            assert take_in(other, arrived(record, slot.now)).outcome != "refused"
        live = {id: each for id, each in slot.records.items() if each.status == "current"}
        assert {each.id: each for each in other.current} == live
        assert other.records.keys() == slot.records.keys()


def test_importing_closes_nothing() -> None:
    """What contradicts is marked, however sure it is; what says the same is merged."""
    slot = Slot()
    slot.say(draft("Lisbon", confidence=0.2))
    new = replace(record_of(), payload="Porto", confidence=1.0, created_at=5, updated_at=5)
    assert take_in(slot, new).outcome == "conflict"
    assert sorted(each.payload for each in slot.current) == ["Lisbon", "Porto"]
    twin = replace(record_of("a"), id=new_ulid(), payload="porto.", created_at=5, updated_at=5, evidence=4)
    done = take_in(slot, twin)
    assert done.outcome == "merged"
    assert done.record is not None
    assert (done.record.id, done.record.evidence, done.record.sources) == (new.id, 4, (source("a"),))
    assert take_in(slot, twin).change == Change()


def test_the_newer_of_two_of_one_id_stays() -> None:
    """An older form of a record that is here changes nothing; a newer one takes its place."""
    slot = Slot()
    older = slot.say(draft("Lisbon")).record
    assert older is not None
    newer = slot.say(draft("Lisbon", confidence=0.9)).record
    assert newer is not None
    assert take_in(slot, older).change == Change()
    newest = replace(newer, confidence=1.0, updated_at=newer.updated_at + 1)
    assert take_in(slot, newest).outcome == "stored"
    assert slot.current == [newest]


def test_an_id_of_another_slot_is_refused() -> None:
    """A record whose id is that of a record under another key is not taken in."""
    record = Slot().say(draft("Lisbon")).record
    assert record is not None
    moved = replace(record, key="elsewhere")
    done = imported(moved, existing=record, slot=(), tombstones=(), now=NOW, actor="test")
    assert (done.outcome, done.change) == ("refused", Change())


def test_importing_does_not_bring_back() -> None:
    """A record that was forgotten here after it was written stays forgotten."""
    slot = Slot()
    record = slot.say(draft("Lisbon")).record
    assert record is not None
    slot.take(forgotten([record], (), at=slot.now + 1, actor="test"))
    assert take_in(slot, record).change == Change()
    assert take_in(slot, replace(record, updated_at=slot.now + DAY)).change == Change()
    assert take_in(slot, replace(record, id=new_ulid(7))).outcome == "refused"
    assert slot.current == []


@pytest.mark.parametrize(
    "change",
    [
        {"id": "x"},
        {"evidence": 0},
        {"confidence": 7.0},
        {"created_at": -1},
        {"payload": None, "text": ""},
        {"scope": Scope("user")},
    ],
    ids=lambda change: next(iter(change)),
)
def test_what_arrives_is_checked(change: dict[str, Any]) -> None:
    """A record from outside is held to what a draft is held to, and cannot come from the future."""
    with pytest.raises(InvalidInput):
        arrived(replace(record_of(), **change), NOW)
    late = arrived(replace(record_of(), created_at=NOW * 2, updated_at=NOW * 2), NOW)
    assert (late.created_at, late.updated_at) == (NOW, NOW)


@pytest.mark.parametrize("field", ["text", "payload"])
def test_a_lone_surrogate_is_refused_wherever_it_stands(field: str) -> None:
    """With a typed error, not with one of the encoder's."""
    fields: dict[str, Any] = {"key": "k", "text": "t", field: "a\ud800b"}
    if field == "text":
        fields.pop("payload", None)
    with pytest.raises(InvalidInput):
        checked(Draft(layer=Layer.LONG, scope=Scope("user", "ana"), **fields))


def test_a_running_summary_is_forgotten_with_any_of_its_sources() -> None:
    """Its text may tell what was forgotten, whatever else it was made of; another keeps what is left."""
    fields: dict[str, Any] = {"layer": Layer.MID, "scope": Scope("session", "t/a:b:c"), "origin": "model"}
    sources = (Source("s", "e1"), Source("s", "e2"))
    for key, status, left in (("summary", "forgotten", ""), ("boat", "current", "b")):
        record = Record(id=derived_ulid(2, key), key=key, payload="b", text="b", sources=sources, **fields)
        (event,) = without_entries((record,), frozenset(("e2",)), at=3, actor="x").events
        assert (event.record.status, event.record.text) == (status, left)
