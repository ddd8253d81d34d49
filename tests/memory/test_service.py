"""memory/service.py: the door to records, over the real stores."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from stratalog.errors import (
    AccessDenied,
    Conflict,
    InvalidInput,
    LaneDenied,
    NotFound,
    StorageFailed,
    StorageFull,
)
from stratalog.ids import derived_ulid, new_ulid, ulid_ts
from stratalog.memory.audit import AuditLine, MemoryAudit, mark_of
from stratalog.memory.bundle import End, Kept, encoded, lines_of
from stratalog.memory.caller import ADMIN, CURATOR, Caller, caller
from stratalog.memory.contract import (
    Capabilities,
    Layer,
    Record,
    RecordStore,
    Scope,
    Source,
    When,
    Where,
)
from stratalog.memory.inmemory import InMemoryRecords
from stratalog.memory.lanes import Lanes
from stratalog.memory.policy import Draft
from stratalog.memory.service import MemoryService, Selector
from stratalog.memory.sqlite import SqliteRecords
from stratalog.recall.terms import query_terms, terms

DAY = 86_400_000
ME = Scope("user", "ana")
ANA = caller("acme", user="ana", session="bot:cli:1", run="r1")
BO = caller("acme", user="bo", session="bot:cli:2")
BOSS = caller("acme", user="boss", roles=[ADMIN])
NATIVE = {"native": Capabilities(name="native")}


class Desk:
    """A service with a clock that stands still, and what it is made of."""

    def __init__(self, make: Callable[[str], RecordStore], lanes: Lanes | None = None) -> None:
        self.now = 1_000 * DAY
        self.audit = MemoryAudit()
        self.asked: list[tuple[str, str]] = []
        self.stores: dict[tuple[str, str], RecordStore] = {}
        self._make = make
        self.service = MemoryService(self._store, self.audit, lanes or Lanes(NATIVE), lambda: self.now)

    def _store(self, tenant: str, lane: str) -> RecordStore:
        self.asked.append((tenant, lane))
        if (tenant, lane) not in self.stores:
            self.stores[tenant, lane] = self._make(f"{tenant}-{lane}")
        return self.stores[tenant, lane]

    def say(self, who: Caller, payload: Any, *, key: str = "home", scope: Scope = ME, **more: Any) -> Record:
        self.now += 1
        done = self.service.remember(who, draft(payload, key=key, scope=scope, **more))
        assert done.record is not None
        return done.record

    @property
    def lines(self) -> list[AuditLine]:
        return list(self.audit.read("acme"))


def in_memory(name: str = "") -> InMemoryRecords:
    return InMemoryRecords(terms=terms, query_terms=query_terms)


@pytest.fixture(params=["inmemory", "sqlite"])
def desk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Desk]:
    def on_disk(name: str) -> SqliteRecords:
        return SqliteRecords(tmp_path / name, terms=terms, query_terms=query_terms)

    made = Desk(in_memory if request.param == "inmemory" else on_disk)
    yield made
    for store in made.stores.values():
        store.close()


def draft(payload: Any = "Lisbon", **more: Any) -> Draft:
    return Draft(**{"layer": Layer.LONG, "scope": ME, "key": "home", "payload": payload, **more})


# --- writing and reading ---


def test_what_is_remembered_is_recalled(desk: Desk) -> None:
    """A record is found by its words, by its id, in lists and views, with its history."""
    record = desk.say(ANA, "Ana lives in Lisbon", confidence=0.8)
    service = desk.service
    assert service.get(ANA, record.id) == record
    assert [each.record for each in service.recall(ANA, "where does Ana live?").found] == [record]
    assert service.list(ANA).records == (record,)
    assert service.current(ANA, keys=("HOME",)).records == (record,)
    (event,) = service.history(ANA, id=record.id).events
    assert (event.action, event.record, event.actor) == ("remember", record, ANA.actor)


def test_chinese_is_recalled(desk: Desk) -> None:
    """So is a record in Chinese."""
    record = desk.say(ANA, "她住在里斯本", key="住处")
    assert [each.record for each in desk.service.recall(ANA, "里斯本").found] == [record]
    assert desk.service.list(ANA, keys=("住处",)).records == (record,)


def test_current_as_of_and_history(desk: Desk) -> None:
    """What holds now, what held then, and every step to it."""
    desk.say(ANA, "Lisbon", valid_from=When(10 * DAY))
    desk.say(ANA, "Porto", valid_from=When(20 * DAY))
    desk.say(ANA, "Lisbon", valid_from=When(30 * DAY))
    service = desk.service

    def held(at: int) -> list[Any]:
        return [each.payload for each in service.as_of(ANA, at).records]

    assert [held(day * DAY) for day in (9, 10, 20, 30)] == [[], ["Lisbon"], ["Porto"], ["Lisbon"]]
    assert [each.payload for each in service.current(ANA).records] == ["Lisbon"]
    assert [each.record.payload for each in service.recall(ANA, "Porto").found] == []
    assert [each.record.payload for each in service.recall(ANA, "Porto", as_of=20 * DAY).found] == ["Porto"]
    steps = [(event.action, event.record.payload) for event in service.history(ANA, keys=("home",)).events]
    assert steps == [
        ("remember", "Lisbon"),
        ("supersede", "Lisbon"),
        ("remember", "Porto"),
        ("supersede", "Porto"),
        ("remember", "Lisbon"),
    ]


def test_contradiction_is_marked(desk: Desk) -> None:
    """Equal confidence keeps both, in every view, each marked with the other."""
    one, two = desk.say(ANA, "Lisbon"), desk.say(ANA, "Porto")
    found = {each.id: each.conflict_with for each in desk.service.current(ANA).records}
    assert found == {one.id: (two.id,), two.id: (one.id,)}


def test_a_call_that_is_repeated_is_done_once(desk: Desk) -> None:
    """With an idempotency key, again does nothing and returns the same; another draft is `Conflict`."""
    service = desk.service
    first = service.remember(ANA, draft(), idempotency="k")
    again = service.remember(ANA, draft(), idempotency="k")
    assert again == replace(first, again=True)
    assert len(service.history(ANA).events) == 1
    with pytest.raises(Conflict):
        service.remember(ANA, draft("Porto"), idempotency="k")
    assert first.record is not None
    service.forget(ANA, id=first.record.id)
    assert service.remember(ANA, draft(), idempotency="k") == replace(again, record=None)


def test_a_refusal_is_no_error(desk: Desk) -> None:
    """A late write of what was forgotten is told as refused, with its reason."""
    desk.say(ANA, "Lisbon")
    desk.service.forget(ANA, scope=ME, key="home")
    done = desk.service.remember(ANA, draft("Lisbon", said_at=desk.now - 5))
    assert (done.outcome, done.record) == ("refused", None)
    assert "forgotten" in done.reason
    assert desk.service.list(ANA).records == ()
    assert desk.lines[-2].counts == {"refused": 1}


def test_pages_go_on(desk: Desk) -> None:
    """Lists, views, history and recall say whether there is more, and lists go on from there."""
    records = [desk.say(ANA, f"green tea {n}", key=f"k{n}") for n in range(5)]
    service = desk.service
    found: list[Record] = []
    after = ""
    for _ in range(3):
        page = service.list(ANA, limit=2, after=after)
        found += page.records
        after = page.next
    assert (found, after) == (records, "")
    steps = service.history(ANA, limit=3)
    assert [event.record for event in steps.events] == records[:3]
    assert [event.record for event in service.history(ANA, after=steps.next).events] == records[3:]
    assert service.history(ANA, after=steps.next).next == 0
    assert (len(service.recall(ANA, "tea", limit=4).found), service.recall(ANA, "tea", limit=4).more) == (
        4,
        True,
    )
    assert (len(service.recall(ANA, "tea", limit=5).found), service.recall(ANA, "tea", limit=5).more) == (
        5,
        False,
    )


def test_layers_and_statuses_narrow(desk: Desk) -> None:
    """A list is of the layers and statuses that were asked for."""
    desk.say(ANA, "Lisbon", layer=Layer.SHORT)
    desk.say(ANA, "Porto", layer=Layer.LONG, replaces=True)
    service = desk.service
    assert [each.payload for each in service.list(ANA, layers=(Layer.SHORT,)).records] == []
    assert [each.payload for each in service.list(ANA, statuses=("superseded",)).records] == ["Lisbon"]
    assert [each.payload for each in service.recall(ANA, "Porto", layers=(Layer.MID,)).found] == []


def test_what_has_expired_is_not_there(desk: Desk) -> None:
    """After its time a record is in no answer but the history."""
    record = desk.say(ANA, "Lisbon", expires_at=desk.now + DAY)
    desk.now += DAY
    service = desk.service
    assert service.list(ANA).records == ()
    assert service.recall(ANA, "Lisbon").found == ()
    with pytest.raises(NotFound):
        service.get(ANA, record.id)
    assert len(service.history(ANA).events) == 1


@pytest.mark.parametrize(
    "ask",
    [
        lambda s: s.recall(ANA, "x", limit=0),
        lambda s: s.recall(ANA, "x", limit=101),
        lambda s: s.recall(ANA, "x" * 16_001),
        lambda s: s.list(ANA, limit=1_001),
        lambda s: s.list(ANA, keys=("k",) * 1_001),
        lambda s: s.history(ANA, limit=0),
        lambda s: s.remember(ANA, draft(), idempotency="x" * 1_001),
        lambda s: s.remember(ANA, draft(text="x" * 16_001)),
        lambda s: s.forget(ANA),
        lambda s: s.forget(ANA, id="x", scope=ME, key="home"),
        lambda s: s.forget(ANA, scope=ME),
        lambda s: s.forget(ANA, scope=ME, key="home", reason="x" * 1_001),
        lambda s: s.forget_source(ANA, (str(n) for n in range(1_001))),
        lambda s: s.forget_source(ANA, "entry"),
        lambda s: s.purge(ANA, Selector("user")),
        lambda s: s.purge(BOSS, Selector("environment", "x")),
        lambda s: s.purge(ANA, "user"),
    ],
)
def test_limits_are_told(ask: Callable[[MemoryService], Any]) -> None:
    """What is over a limit, or says too little, is `InvalidInput`; nothing is cut in silence."""
    desk = Desk(in_memory)
    with pytest.raises(InvalidInput):
        ask(desk.service)
    assert desk.asked == []


def test_what_is_not_known_is_refused() -> None:
    """A keyword that a method does not have is an error, so that no filter is silently without effect."""
    service: Any = Desk(in_memory).service
    for act in (service.recall, service.list, service.history, service.export):
        with pytest.raises(TypeError):
            act(ANA, tenant="other")


# --- forgetting ---


def test_forgetting_a_slot(desk: Desk) -> None:
    """All that a slot says is gone from every answer, past values too; its history keeps the steps."""
    desk.say(ANA, "Lisbon")
    record = desk.say(ANA, "Porto", replaces=True)
    desk.say(ANA, "tea", key="drink")
    service = desk.service
    done = service.forget(ANA, scope=ME, key="Home", reason="asked to")
    assert (done.forgotten, done.unsupported) == (2, ())
    assert [each.payload for each in service.list(ANA).records] == ["tea"]
    assert service.as_of(ANA, desk.now, keys=("home",)).records == ()
    assert service.recall(ANA, "Porto Lisbon").found == ()
    with pytest.raises(NotFound):
        service.get(ANA, record.id)
    last = service.history(ANA, id=record.id).events[-1]
    assert (last.action, last.reason, last.record.payload) == ("forget", "asked to", None)
    assert service.forget(ANA, scope=ME, key="home").forgotten == 0


def test_forgetting_one_of_two(desk: Desk) -> None:
    """Forgetting one side of a contradiction leaves the other without a mark."""
    one, two = desk.say(ANA, "Lisbon"), desk.say(ANA, "Porto")
    assert desk.service.forget(ANA, id=one.id).forgotten == 1
    assert desk.service.list(ANA).records == (replace(two, conflict_with=()),)


def test_a_slot_may_be_forgotten_before_it_is_filled(desk: Desk) -> None:
    """What is still on its way does not arrive."""
    desk.service.forget(ANA, scope=ME, key="home")
    assert desk.service.remember(ANA, draft(said_at=desk.now)).outcome == "refused"


def source(entry: str, session: str = "acme/bot:cli:1") -> Source:
    return Source(session, entry)


def test_forgetting_a_source(desk: Desk) -> None:
    """What came from an entry alone is gone, another source is kept, nothing comes from it again."""
    first, second = new_ulid(1), new_ulid(2)
    alone = desk.say(ANA, "Lisbon", origin="model", sources=(source(first),))
    both = desk.say(ANA, "tea", key="drink", origin="model", sources=(source(first), source(second)))
    by_hand = desk.say(ANA, "blue", key="colour")
    service = desk.service
    done = service.forget_source(ANA, [first], reason="taken back")
    assert (done.forgotten, done.repaired) == (1, 1)
    with pytest.raises(NotFound):
        service.get(ANA, alone.id)
    assert service.get(ANA, both.id).sources == (source(second),)
    assert service.get(ANA, by_hand.id) == by_hand
    late = draft("large", key="shoes", origin="model", sources=(source(first),), said_at=desk.now + DAY)
    assert service.remember(ANA, late).outcome == "refused"
    assert service.forget_source(ANA, [first]) == replace(done, forgotten=0, repaired=0)


def test_forgetting_what_changed_a_fact_undoes_the_change(desk: Desk) -> None:
    """The value that a forgotten saying had closed is current again."""
    entry = new_ulid(1)
    desk.say(ANA, "Lisbon")
    desk.now += DAY
    desk.say(ANA, "Porto", confidence=0.9, origin="model", sources=(source(entry),))
    desk.service.forget_source(ANA, [entry])
    (record,) = desk.service.current(ANA).records
    assert (record.payload, record.valid_to, record.status) == ("Lisbon", None, "current")


def test_a_source_reaches_what_is_shared(desk: Desk) -> None:
    """In the tenant's scope a caller takes back what its own session said, and only that."""
    mine, theirs = new_ulid(1), new_ulid(2)
    shared = Scope("tenant")
    curator = caller("acme", user="cy", roles=[CURATOR])
    own = desk.say(curator, "Lisbon", scope=shared, key="office", origin="model", sources=(source(mine),))
    other = desk.say(
        curator,
        "Porto",
        scope=shared,
        key="store",
        origin="model",
        sources=(source(theirs, "acme/bot:cli:2"),),
    )
    both = desk.say(
        curator,
        "Rome",
        scope=shared,
        key="plant",
        origin="model",
        sources=(source(mine), source(theirs, "acme/bot:cli:2")),
    )
    service = desk.service
    done = service.forget_source(ANA, [mine, theirs])
    assert (done.forgotten, done.repaired) == (1, 1)
    assert service.get(ANA, other.id) == other
    assert service.get(ANA, both.id).sources == (source(theirs, "acme/bot:cli:2"),)
    more = draft("Oslo", scope=shared, key="new", sources=(source(theirs, "acme/bot:cli:2"),))
    assert service.remember(curator, more).outcome == "stored"
    assert service.remember(curator, replace(more, sources=(source(mine),))).outcome == "refused"
    with pytest.raises(NotFound):
        service.get(ANA, own.id)


def test_an_admin_forgets_a_source_everywhere(desk: Desk) -> None:
    """What several users' records have from one entry is gone by one call of an admin."""
    entry = new_ulid(1)
    desk.say(ANA, "Lisbon", origin="model", sources=(source(entry),))
    desk.say(BO, "Lisbon", scope=Scope("user", "bo"), origin="model", sources=(source(entry),))
    assert desk.service.forget_source(BOSS, [entry]).forgotten == 2
    assert desk.service.list(BOSS, everyone=True).records == ()


# --- who may ---


def test_a_refusal_is_audited_before_any_store(desk: Desk) -> None:
    """Another's scope is `AccessDenied`: no store is asked, and one line tells who wanted what."""
    with pytest.raises(AccessDenied):
        desk.service.recall(BO, "tea", scopes=(ME,))
    assert desk.asked == []
    (line,) = desk.lines
    assert line == AuditLine(
        at=desk.now,
        call="recall",
        ending="refused",
        environment="production",
        user="bo",
        agent="bot",
        session="acme/bot:cli:2",
        scopes=(ME,),
        reason="the scope is not the caller's",
    )


def test_each_call_is_audited(desk: Desk) -> None:
    """A line a call, with counts, and of what was asked only length and hash."""
    record = desk.say(ANA, "Lisbon")
    service = desk.service
    service.recall(ANA, "Lisbon")
    service.get(ANA, record.id)
    with pytest.raises(NotFound):
        service.get(ANA, "nothing")
    list(service.export(ANA))
    told = [(line.call, line.ending, line.counts, line.asked, line.reason) for line in desk.lines]
    assert told == [
        ("remember", "done", {"stored": 1}, {"key": mark_of("home")}, ""),
        ("recall", "done", {"found": 1}, {"query": mark_of("Lisbon")}, ""),
        ("get", "done", {}, {"id": mark_of(record.id)}, ""),
        ("get", "failed", {}, {"id": mark_of("nothing")}, "NotFound"),
        ("export", "done", {}, {}, "begun"),
        ("export", "done", {"records": 1, "tombstones": 0}, {}, "ended"),
    ]


def test_without_an_audit_nothing_is_answered() -> None:
    """A call whose line cannot be written fails."""
    desk = Desk(in_memory)
    desk.say(ANA, "Lisbon")

    def full(tenant: str, line: AuditLine) -> None:
        raise StorageFailed("no")

    desk.audit.write = full  # type: ignore[method-assign] # a disk that refuses
    with pytest.raises(StorageFailed):
        desk.service.recall(ANA, "Lisbon")
    with pytest.raises(StorageFailed):
        desk.service.recall(BO, "Lisbon", scopes=(ME,))


def test_what_is_shared_is_read_by_all_and_written_by_few(desk: Desk) -> None:
    """The tenant's scope: everybody reads, admins and curators write and forget."""
    shared = Scope("tenant")
    with pytest.raises(AccessDenied):
        desk.service.remember(ANA, draft(scope=shared))
    record = desk.say(caller("acme", roles=[CURATOR]), "Lisbon", scope=shared)
    assert desk.service.get(ANA, record.id) == record
    with pytest.raises(AccessDenied):
        desk.service.forget(ANA, id=record.id)
    with pytest.raises(AccessDenied):
        desk.service.forget(ANA, scope=shared, key="home")
    assert desk.service.get(BO, record.id) == record
    assert [line.ending for line in desk.lines].count("refused") == 3


def test_an_admin_sees_and_forgets_all_of_its_tenant(desk: Desk) -> None:
    """An admin lists everyone's, gets and forgets by id and scope; another asking for everyone is refused."""
    mine, theirs = desk.say(ANA, "Lisbon"), desk.say(BO, "Porto", scope=Scope("user", "bo"))
    service = desk.service
    assert service.list(BOSS, everyone=True).records == (mine, theirs)
    assert service.list(BOSS).records == ()
    assert service.list(BOSS, scopes=(ME,)).records == (mine,)
    assert service.get(BOSS, theirs.id) == theirs
    found = service.recall(BOSS, "Lisbon Porto", everyone=True, limit=1)
    assert ([each.record for each in found.found], found.more) == ([theirs], True)
    assert service.recall(BOSS, "Lisbon Porto").found == ()
    service.forget(BOSS, id=theirs.id)
    service.forget(BOSS, scope=ME, key="home")
    assert service.list(BOSS, everyone=True).records == ()
    assert service.recall(BOSS, "Lisbon Porto", everyone=True).found == ()
    page = service.history(BOSS, everyone=True, limit=3)
    rest = service.history(BOSS, everyone=True, after=page.next)
    assert [(each.record.id, each.action) for each in (*page.events, *rest.events)] == [
        (mine.id, "remember"),
        (theirs.id, "remember"),
        (theirs.id, "forget"),
        (mine.id, "forget"),
    ]
    assert service.history(BOSS).events == ()
    assert len(service.history(BOSS, id=mine.id, everyone=True).events) == 2


@pytest.mark.parametrize("call", ["list", "recall", "history", "export"])
def test_what_an_admin_asks_of_everyone_is_in_the_audit(desk: Desk, call: str) -> None:
    """With the token that asked, and that it was of everyone; who is no admin is refused, with a line and
    before any store is asked, and so is one that names scopes too."""
    boss = replace(BOSS, token="0a")
    words = ("Lisbon",) if call == "recall" else ()
    ask = getattr(desk.service, call)
    list(ask(boss, *words, everyone=True) if call == "export" else [ask(boss, *words, everyone=True)])
    assert [each.token for each in desk.lines] == ["0a"] * len(desk.lines)
    assert [each.ending for each in desk.lines] == ["done"] * len(desk.lines)
    assert "everyone" in desk.lines[0].reason
    asked = len(desk.asked)
    for who, more in ((ANA, {}), (BOSS, {"scopes": (ME,)})):
        with pytest.raises(AccessDenied) as raised:
            ask(who, *words, everyone=True, **more)
        assert raised.value.noted
        assert (desk.lines[-1].ending, desk.lines[-1].reason) == (
            "refused",
            "only an admin may ask for everyone",
        )
    assert len(desk.asked) == asked


def test_sessions_and_runs_are_tight(desk: Desk) -> None:
    """What belongs to a session or a run is not seen from another of the same user."""
    record = desk.say(ANA, "a plan", scope=Scope("session", ANA.session))
    step = desk.say(ANA, "a step", scope=Scope("run", "r1"))
    elsewhere = caller("acme", user="ana", session="bot:cli:2", run="r2")
    assert desk.service.list(elsewhere).records == ()
    assert desk.service.list(ANA).records == (record, step)


# --- purging ---


def test_a_purge_and_its_receipt(desk: Desk) -> None:
    """A user's records are destroyed with their history; the receipt counts before and after."""
    desk.say(ANA, "Lisbon")
    desk.say(ANA, "Porto")
    kept = desk.say(BO, "tea", scope=Scope("user", "bo"))
    tried = desk.service.purge(ANA, Selector("user", "ana"), dry_run=True)
    assert tried.stores[0].before == tried.stores[0].after
    assert len(desk.service.list(ANA).records) == 2
    receipt = desk.service.purge(ANA, Selector("user", "ana"))
    (counted,) = receipt.stores
    assert (counted.store, counted.before["records"]) == ("native", 2)
    assert set(counted.after.values()) == {0}
    assert desk.service.list(ANA).records == ()
    assert desk.service.history(ANA).events == ()
    assert desk.service.list(BO).records == (kept,)
    line = next(line for line in desk.lines if line.reason == "user")
    assert line.counts["native.records.before"] == 2
    assert line.counts["native.records.after"] == 0


@pytest.mark.parametrize(
    ("who", "selector", "may"),
    [
        (ANA, Selector("user", "ana"), True),
        (ANA, Selector("session", "bot:cli:1"), True),
        (ANA, Selector("session", "acme/bot:cli:1"), True),
        (ANA, Selector("run", "r1"), True),
        (ANA, Selector("user", "bo"), False),
        (ANA, Selector("session", "bot:cli:2"), False),
        (ANA, Selector("session", "other/bot:cli:1"), False),
        (ANA, Selector("session", "no key"), False),
        (ANA, Selector("agent", "bot"), False),
        (ANA, Selector("environment"), False),
        (ANA, Selector("tenant"), False),
        (BOSS, Selector("user", "bo"), True),
        (BOSS, Selector("agent", "bot"), True),
        (BOSS, Selector("session", "other/bot:cli:1"), False),
        (BOSS, Selector("environment"), True),
        (BOSS, Selector("tenant"), True),
        (caller("acme", environment="eval:1", roles=[ADMIN]), Selector("environment"), True),
        (caller("acme", environment="eval:1", roles=[ADMIN]), Selector("tenant"), False),
    ],
)
def test_who_may_purge_what(who: Caller, selector: Selector, may: bool) -> None:
    """Its own user, session and run; an admin all of its environment; one of production the tenant."""
    desk = Desk(in_memory)
    if may:
        assert desk.service.purge(who, selector).selector == selector
        return
    with pytest.raises(AccessDenied):
        desk.service.purge(who, selector)
    assert desk.asked == []
    assert [line.ending for line in desk.lines] == ["refused"]


def test_a_purge_of_the_tenant_takes_every_environment(desk: Desk) -> None:
    """The environment alone, or all of them, and never another tenant."""
    ana_in_eval = replace(ANA, environment="eval:1")
    other = caller("other", user="ana")
    desk.say(ANA, "Lisbon")
    desk.say(ana_in_eval, "Porto")
    desk.say(other, "Rome")
    desk.service.purge(BOSS, Selector("environment"))
    assert desk.service.list(ANA).records == ()
    assert len(desk.service.list(ana_in_eval).records) == 1
    desk.say(ANA, "Lisbon")
    receipt = desk.service.purge(BOSS, Selector("tenant"))
    assert receipt.stores[0].before["records"] == 2
    assert set(receipt.stores[0].after.values()) == {0}
    assert len(desk.service.list(other).records) == 1


# --- lanes ---


def with_lanes(available: dict[str, Capabilities], metadata: dict[str, str]) -> Desk:
    return Desk(in_memory, Lanes(available, lambda who: metadata, lambda line: None))


def test_records_live_in_the_lane_of_their_session() -> None:
    """Each call asks the store of the lane that the session's metadata chose."""
    desk = with_lanes({**NATIVE, "other": Capabilities(name="other")}, {"memory_plugin": "other"})
    desk.say(ANA, "Lisbon")
    desk.service.recall(ANA, "Lisbon")
    assert set(desk.asked) == {("acme", "other")}


def test_a_denied_lane_is_no_fallback() -> None:
    """Without a native lane, a session that must stay is refused on every path; no store is asked."""
    desk = with_lanes({"mem0": Capabilities(name="mem0", external=True)}, {"residency": "local_only"})
    service = desk.service
    asks: list[Callable[[], object]] = [
        lambda: service.remember(ANA, draft()),
        lambda: service.recall(ANA, "x"),
        lambda: service.get(ANA, "x"),
        lambda: service.list(ANA),
        lambda: service.history(ANA),
        lambda: service.forget(ANA, id="x"),
        lambda: service.forget(ANA, scope=ME, key="home"),
        lambda: service.forget_source(ANA, ["x"]),
        lambda: service.export(ANA),
        lambda: service.import_(ANA, ()),
    ]
    for ask in asks:
        with pytest.raises(LaneDenied):
            ask()
    assert desk.asked == []
    assert [(line.ending, line.reason) for line in desk.lines] == [("refused", "LaneDenied")] * len(asks)


def test_a_purge_reaches_every_lane() -> None:
    """What was written while another lane was chosen is purged too, with a count for each store."""
    metadata = {"memory_plugin": "other"}
    desk = with_lanes({**NATIVE, "other": Capabilities(name="other")}, metadata)
    desk.say(ANA, "Lisbon")
    metadata["memory_plugin"] = "native"
    desk.say(ANA, "Porto")
    receipt = desk.service.purge(ANA, Selector("user", "ana"))
    assert [(each.store, each.before["records"], each.after["records"]) for each in receipt.stores] == [
        ("native", 1, 0),
        ("other", 1, 0),
    ]


class Simple(InMemoryRecords):
    """A store that can do little."""

    capabilities = Capabilities(
        name="simple", history=False, tombstones=False, validity=False, search=False, transactions=False
    )


def test_what_a_store_cannot_do_is_told() -> None:
    """A question that the store cannot answer is `InvalidInput`, and forgetting says what may come back."""
    desk = Desk(lambda name: Simple(terms=terms))
    record = desk.say(ANA, "Lisbon")
    service = desk.service
    for ask in (
        lambda: service.recall(ANA, "x"),
        lambda: service.current(ANA),
        lambda: service.as_of(ANA, 1),
        lambda: service.history(ANA),
    ):
        with pytest.raises(InvalidInput):
            ask()
    assert service.forget(ANA, id=record.id).unsupported == ("tombstones",)
    assert service.purge(ANA, Selector("user", "ana")).unsupported == ("native",)


# --- bundles ---


def filled(desk: Desk) -> list[bytes]:
    """Ana's bundle: a change, a contradiction, something forgotten, a source."""
    desk.say(ANA, "Lisbon", valid_from=When(10 * DAY), sources=(source(new_ulid(1)),))
    desk.say(ANA, "Porto", valid_from=When(20 * DAY))
    desk.say(ANA, "tea", key="drink")
    desk.say(ANA, "milk", key="drink")
    desk.say(ANA, "secret", key="gone")
    desk.service.forget(ANA, scope=ME, key="gone")
    desk.service.forget_source(ANA, ["entry"])
    return list(desk.service.export(ANA))


def test_a_bundle_makes_the_same_records(desk: Desk) -> None:
    """Exported by its owner and imported by an admin into an empty store: the same ids, times, sources,
    marks, and what was forgotten stays so."""
    lines = filled(desk)
    other = Desk(in_memory)
    other.now = desk.now
    report = other.service.import_(BOSS, lines)
    assert (report.denied, report.refused, report.complete) == (0, 0, True)
    assert other.service.list(ANA).records == desk.service.list(ANA).records
    assert other.service.list(ANA, statuses=("superseded",)).records == (
        desk.service.list(ANA, statuses=("superseded",)).records
    )
    assert other.service.remember(ANA, draft(key="gone", said_at=desk.now - 1)).outcome == "refused"
    assert other.service.remember(ANA, draft(sources=(source("entry"),))).outcome == "refused"
    assert b"secret" not in b"".join(lines)
    again = list(other.service.export(ANA))
    assert again[1:] == lines[1:]


def test_importing_again_changes_nothing(desk: Desk) -> None:
    """The same bundle, by its owner, into where it is and into an empty store twice."""
    lines = filled(desk)
    before = list(desk.service.export(ANA))
    report = desk.service.import_(ANA, lines)
    assert (report.unchanged, report.stored, report.merged, report.conflict) == (len(lines) - 2, 0, 0, 0)
    assert list(desk.service.export(ANA)) == before
    other = Desk(in_memory)
    other.now = desk.now
    first = other.service.import_(ANA, lines)
    payloads = [each.payload for each in desk.service.list(ANA).records]
    assert [each.payload for each in other.service.list(ANA).records] == payloads
    assert first.stored + first.conflict == 5
    second = other.service.import_(ANA, lines)
    assert (second.unchanged, second.stored, second.conflict) == (len(lines) - 2, 0, 0)


def test_an_import_is_held_to_the_callers_scopes(desk: Desk) -> None:
    """What the caller may not write is denied; another tenant's or environment's bundle is refused."""
    lines = filled(desk)
    report = desk.service.import_(BO, lines)
    assert report.denied == len(lines) - 2
    assert desk.service.list(BO).records == ()
    asked = len(desk.asked)
    for who in (caller("other", user="ana"), replace(ANA, environment="eval:1")):
        with pytest.raises(AccessDenied):
            desk.service.import_(who, lines)
    assert len(desk.asked) == asked


def test_a_record_of_another_environment_is_denied(desk: Desk) -> None:
    """A bundle with the right head and a record of an evaluation brings that nowhere."""
    record = desk.say(ANA, "Lisbon")
    head = next(iter(desk.service.export(ANA)))
    forged = replace(record, environment="eval:1", id=new_ulid())
    assert desk.service.import_(ANA, [head, encoded(Kept(record=forged))]).denied == 1
    assert desk.service.list(replace(ANA, environment="eval:1")).records == ()


def test_a_cut_bundle_is_known(desk: Desk) -> None:
    """Without its end, or with other counts, a bundle is taken in and told to be incomplete."""
    lines = filled(desk)
    assert not desk.service.import_(ANA, lines[:-1]).complete
    assert not desk.service.import_(ANA, [*lines[:-1], encoded(End(records=99, tombstones=0))]).complete


def test_a_damaged_line_keeps_what_came_before() -> None:
    """Whole batches before a damaged line stay, and the mended bundle goes on from there."""
    desk, other = Desk(in_memory), Desk(in_memory)
    for number in range(450):
        desk.say(ANA, number, key=f"k{number}")
    lines = list(desk.service.export(ANA))
    other.now = desk.now
    with pytest.raises(InvalidInput) as raised:
        other.service.import_(ANA, [*lines[:-2], b"{broken\n"])
    assert raised.value.where["line"] == len(lines) - 1
    assert len(other.service.list(ANA, limit=1_000).records) == 400
    report = other.service.import_(ANA, lines)
    assert (report.unchanged, report.stored, report.complete) == (400, 50, True)
    assert other.lines[0].ending == "failed"


def test_an_import_does_not_take_an_id_over(desk: Desk) -> None:
    """A record under an id that is another's gets an id of its own; the other's is untouched."""
    victim = desk.say(BO, "Porto", scope=Scope("user", "bo"))
    forged = replace(victim, scope=ME, payload="mine", text="mine", updated_at=desk.now + DAY)
    head = next(iter(desk.service.export(ANA)))
    assert desk.service.import_(ANA, [head, encoded(Kept(record=forged))]).stored == 1
    assert desk.service.get(BO, victim.id) == victim
    (record,) = desk.service.list(ANA).records
    assert record.payload == "mine"
    assert record.id != victim.id
    assert record.id == derived_ulid(ulid_ts(victim.id), "production", "user", "ana", victim.id)
    assert desk.service.import_(BOSS, [head, encoded(Kept(record=forged))]).unchanged == 1


def test_an_export_of_everyone(desk: Desk) -> None:
    """An admin exports the environment; others their own scopes, or those of them that they name."""
    mine = desk.say(ANA, "Lisbon")
    theirs = desk.say(BO, "Porto", scope=Scope("user", "bo"))

    def exported(lines: Iterator[bytes]) -> list[Record]:
        return [line.record for line in lines_of(lines) if isinstance(line, Kept)]

    assert exported(desk.service.export(BOSS, everyone=True)) == [mine, theirs]
    assert exported(desk.service.export(ANA)) == [mine]
    assert exported(desk.service.export(ANA, scopes=(Scope("run", "r1"),))) == []


def test_stores_may_be_opened_once() -> None:
    """The service asks for a store at each call, so that opening may be cached and closing is the owner's."""
    opened: list[str] = []

    @cache
    def store_of(tenant: str, lane: str) -> RecordStore:
        opened.append(tenant)
        return in_memory()

    service = MemoryService(store_of, MemoryAudit(), Lanes(NATIVE))
    service.remember(ANA, draft())
    assert service.list(ANA).records[0].payload == "Lisbon"
    assert opened == ["acme"]


def test_what_was_done_is_not_said_not_to_be() -> None:
    """Where only the audit's line cannot be written, the error says that the call is done."""

    class Full(MemoryAudit):
        def write(self, tenant: str, line: AuditLine) -> None:
            raise StorageFull("no space left while writing the audit; nothing was changed")

    store = InMemoryRecords(terms=terms)
    lanes = Lanes({"native": InMemoryRecords.capabilities})
    service = MemoryService(lambda tenant, lane: store, Full(), lanes)
    me = caller("acme", user="ana")
    with pytest.raises(StorageFailed, match="`remember`\\) is done"):
        service.remember(me, Draft(layer=Layer.LONG, scope=Scope("user", "ana"), key="k", text="v"))
    assert len(store.find(Where(environment="production", scopes=(), whole="tenant")).records) == 1
