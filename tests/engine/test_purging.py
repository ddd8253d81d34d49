"""engine/purging.py: what each selector destroys in every store, what it leaves, and what it says of it."""

from __future__ import annotations

import stat
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from engine.children import child
from engine.estates import (
    EVAL,
    HOSTILE,
    Names,
    build,
    chats,
    every_byte,
    every_record,
    holding,
    key_of,
    marker,
    opened,
    seen,
)
from stratalog import points
from stratalog.engine.core import Stratalog
from stratalog.engine.profiling import PageOf, page_files, refresh
from stratalog.engine.purge_parts import LOCK
from stratalog.engine.purging import (
    PurgeReceipt,
    purge,
    resume_purges,
    unfinished,
)
from stratalog.engine.remembering import (
    ADMIN,
    PRODUCTION,
    Draft,
    Layer,
    Records,
    Scope,
    Selector,
    Source,
)
from stratalog.errors import (
    AccessDenied,
    DamagedLog,
    InvalidInput,
    NewerFormat,
    StaleFence,
    StorageFailed,
    TurnClosed,
)
from stratalog.ids import ULID
from stratalog.keys import purge_note_path, tenant_path
from stratalog.memory.contract import Capabilities, Where
from stratalog.memory.inmemory import InMemoryRecords
from stratalog.recall.terms import terms
from stratalog.types import User

STORES = ("jsonl", "sqlite")
Kind = Callable[[Names], tuple[Selector, str, set[str]]]

# What is purged in which environment, and the chats that are gone after it.
KINDS: dict[str, Kind] = {
    "session": lambda who: (Selector("session", key_of(who, "ana1")), PRODUCTION, {"ana1"}),
    "user": lambda who: (Selector("user", who.ana), PRODUCTION, {"ana1", "ana2"}),
    "user of an evaluation": lambda who: (Selector("user", who.ana), EVAL, {"e1"}),
    "agent": lambda who: (Selector("agent", who.bot), PRODUCTION, {"ana1", "bo1", "both"}),
    "run": lambda who: (Selector("run", who.run), PRODUCTION, {"ana2"}),
    "environment": lambda who: (Selector("environment"), EVAL, {"e1"}),
    "production": lambda who: (Selector("environment"), PRODUCTION, set(chats(who)) - {"e1"}),
    "tenant": lambda who: (Selector("tenant"), PRODUCTION, set(chats(who))),
}


def purged(
    data: Path,
    selector: Selector,
    environment: str = PRODUCTION,
    *,
    store: str = "jsonl",
    tenant: str = "local",
    dry_run: bool = False,
) -> PurgeReceipt:
    with opened(data, store, tenant) as memory, Records(memory) as records:
        who = records.caller(environment=environment, roles=(ADMIN,))
        return purge(memory, records, who, selector, dry_run=dry_run)


def before(receipt: PurgeReceipt) -> dict[str, dict[str, int]]:
    return {each.store: each.before for each in receipt.stores}


def left(receipt: PurgeReceipt) -> int:
    return sum(sum(each.after.values()) for each in receipt.stores)


def goes(who: Names, selector: Selector, environment: str, gone: set[str]) -> Callable[[str, Any], bool]:
    """Whether a thing that can be seen goes with the purge."""
    keys = {key_of(who, chat) for chat in gone}
    scope = (selector.kind, selector.id)

    def of(name: str, value: Any) -> bool:
        what, _, rest = name.partition(" ")
        if what == "search":
            return False
        if selector.kind == "tenant":
            return True
        if what in ("log", "listed"):
            return rest in keys
        if what == "job":
            user = selector.kind == "user" and value["user"] == selector.id
            here = value["environment"] == environment
            return here and (value["session"] in keys or user or selector.kind == "environment")
        if what == "record":
            record = value[0]
            if record.environment != environment:
                return False
            drawn = record.origin == "model" and {each.session for each in record.sources} <= keys
            whole = selector.kind == "environment" or (record.scope.kind, record.scope.id) == scope
            return drawn or whole or (record.scope.kind == "session" and record.scope.id in keys)
        return False

    return of


@pytest.mark.parametrize("who", [Names(), HOSTILE], ids=["plain", "hostile"])
@pytest.mark.parametrize("store", STORES)
@pytest.mark.parametrize("kind", KINDS)
def test_what_is_meant_is_gone_and_nothing_else(kind: str, store: str, who: Names, tmp_path: Path) -> None:
    """Every store has none of it, no file has a word of it, the receipt's numbers are zero after; all that is
    another's is as it was, and another tenant's bytes are the same."""
    selector, environment, gone = KINDS[kind](who)
    build(tmp_path, store, who)
    build(tmp_path, store, who, tenant="other")
    was, others = seen(tmp_path, store), every_byte(tmp_path / "other")
    meant = goes(who, selector, environment, gone)

    receipt = purged(tmp_path, selector, environment, store=store)

    assert left(receipt) == 0
    assert before(receipt)["logs"]["sessions"] == len(gone)
    if selector.kind == "tenant":
        assert [path.name for path in tenant_path(tmp_path, "local").iterdir()] == ["audit.jsonl"]
    for chat in chats(who):
        files = [file for file in holding(tmp_path / "local", marker(chat)) if file != "audit.jsonl"]
        assert (not files) == (chat in gone), (chat, files)
        assert holding(tmp_path / "local" / "audit.jsonl", marker(chat)) == []
    now = seen(tmp_path, store)
    for name, value in was.items():
        what = name.partition(" ")[0]
        if meant(name, value):
            assert name not in now, name
        elif what in ("log", "listed", "job"):
            assert now[name] == value, name
        elif what == "record":
            check_record(now[name], value, {key_of(who, chat) for chat in gone})
        elif what == "search" and name.removeprefix("search ") in gone:
            assert now[name] == []
        elif what == "search":
            assert now[name] == value, name
    assert {name for name in now if name not in was} == set()
    assert every_byte(tmp_path / "other") == others


def check_record(now: Any, was: Any, gone: set[str]) -> None:
    """A record that stays is as it was, but for sources that went and what they had closed."""
    after, record = now[0], was[0]
    assert after.sources == tuple(each for each in record.sources if each.session not in gone)
    assert (after.payload, after.text, after.scope, after.key) == (
        record.payload,
        record.text,
        record.scope,
        record.key,
    )
    assert now[1][: len(was[1])] == was[1]
    if after.sources == record.sources and record.status == "current":
        assert after == record


@pytest.mark.parametrize("store", STORES)
@pytest.mark.parametrize("kind", KINDS)
def test_a_dry_run_counts_the_same_and_changes_nothing(kind: str, store: str, tmp_path: Path) -> None:
    """Every file has the same bytes after it; what it says there is, is what the purge then destroys."""
    selector, environment, _ = KINDS[kind](Names())
    build(tmp_path, store)
    bytes_before = every_byte(tmp_path)
    dry = purged(tmp_path, selector, environment, store=store, dry_run=True)
    assert every_byte(tmp_path) == bytes_before
    assert dry.dry_run
    assert [each.after for each in dry.stores] == [each.before for each in dry.stores]
    real = purged(tmp_path, selector, environment, store=store)
    assert before(real) == before(dry)
    assert (real.kept, real.shared, real.forks) == (dry.kept, dry.shared, dry.forks)


def test_the_receipt_says_what_there_was(tmp_path: Path) -> None:
    """By store and kind; sessions that are others' too are told and left."""
    build(tmp_path)
    receipt = purged(tmp_path, Selector("user", "ana"))
    counts = before(receipt)
    assert list(counts)[:4] == ["logs", "jobs", "graphs", "profiles"]
    assert list(counts)[4:] == ["records", "quarantine", "list", "index", "vectors"]
    assert counts["graphs"]["items"] == 1
    assert counts["logs"]["sessions"] == 2
    assert counts["logs"]["entries"] > 10
    assert counts["logs"]["files"] > 6  # logs, metas, archives, payloads
    assert counts["jobs"] == {"jobs": 3, "spending": 0}  # one of the session that is Bo's too
    assert counts["profiles"]["pages"] == 3  # USER.md whole, and a line in each agent's page
    # Of her scope, of her sessions' scopes and of the run's, the agents' and the tenant's that they said.
    assert counts["records"]["records"] == 4 + 2 + 1 + 2 + 3
    assert counts["records"]["repaired"] == 1
    assert counts["list"] == {"rows": 2}
    assert counts["index"]["rows"] > 2
    assert receipt.shared == (key_of(Names(), "both"),)
    assert (receipt.kept, receipt.forks, receipt.unsupported, receipt.resumed) == ((), (), (), False)


def test_the_audit_has_the_receipt(tmp_path: Path) -> None:
    """One line with the counts of every store, and none of the words."""
    build(tmp_path)
    receipt = purged(tmp_path, Selector("user", "ana"))
    with opened(tmp_path) as memory, Records(memory) as records:
        line = list(records.audit())[-1]
    assert (line.call, line.ending, line.reason, line.roles) == ("purge", "done", "user", (ADMIN,))
    assert line.counts["logs.sessions.before"] == 2
    assert line.counts["records.records.before"] == before(receipt)["records"]["records"]
    assert {number for name, number in line.counts.items() if name.endswith(".after")} == {0}


def test_a_second_purge_finds_nothing(tmp_path: Path) -> None:
    """All zeros before, too; and of a data directory that is not there nothing is made but the audit."""
    build(tmp_path)
    purged(tmp_path, Selector("user", "ana"))
    again = purged(tmp_path, Selector("user", "ana"))
    assert sum(sum(each.before.values()) for each in again.stores) == 0
    for kind in KINDS.values():
        selector, environment, _ = kind(Names())
        assert left(purged(tmp_path / "nowhere", selector, environment)) == 0
    assert [path.name for path in (tmp_path / "nowhere" / "local").iterdir()] == ["audit.jsonl"]


# --- records that were drawn ---


def test_what_a_purged_record_had_closed_holds_again(tmp_path: Path) -> None:
    """Forgetting a source repairs what was derived from it: the season of before is current once more."""
    build(tmp_path)
    with opened(tmp_path) as memory, Records(memory) as records:
        statuses = {each.text: each.status for each in every_record(records) if each.key == "season"}
        assert statuses["it is spring"] == "superseded"
    purged(tmp_path, Selector("user", "ana"))
    with opened(tmp_path) as memory, Records(memory) as records:
        by_key = {record.key: record for record in every_record(records)}
        assert (by_key["season"].text, by_key["season"].status) == ("it is spring", "current")
        assert [each.session for each in by_key["capital"].sources] == [key_of(Names(), "bo1")]
        assert by_key["capital"].evidence == 1


def test_a_fork_and_what_was_drawn_from_it_stay(tmp_path: Path) -> None:
    """A fork has the same entry ids; it is told, and neither it nor its records are touched."""
    build(tmp_path)
    with opened(tmp_path) as memory, Records(memory) as records:
        source = memory.session(key_of(Names(), "ana1"))
        fork = source.fork("bot:cli:fork")
        said = next(each for each in fork.entries() if isinstance(each, User))
        admin = records.caller(roles=(ADMIN,))
        for key, sources in (
            ("of the fork", (Source(str(fork.key), said.id),)),
            ("of both", (Source(str(source.key), said.id), Source(str(fork.key), said.id))),
        ):
            draft = Draft(
                layer=Layer.LONG, scope=Scope("tenant"), key=key, text=key, origin="model", sources=sources
            )
            records.service.remember(admin, draft)
        receipt = purge(memory, records, admin, Selector("session", str(source.key)))
        assert receipt.forks == (str(fork.key),)
        assert fork.exists
        by_key = {record.key: record for record in every_record(records)}
        assert by_key["of the fork"].status == "current"
        assert by_key["of both"].sources == (Source(str(fork.key), said.id),)


def test_what_a_person_wrote_of_a_session_loses_the_source_only(tmp_path: Path) -> None:
    """A record of a person's own hand stays when the session that it names is purged."""
    build(tmp_path)
    with opened(tmp_path) as memory, Records(memory) as records:
        session = memory.session(key_of(Names(), "ana1"))
        source = Source(str(session.key), session.entry(session.end).id)
        me = records.caller(user="bo", roles=(ADMIN,))
        draft = Draft(layer=Layer.LONG, scope=Scope("user", "bo"), key="note", text="mine", sources=(source,))
        kept = records.service.remember(me, draft).record
        assert kept is not None
        purge(memory, records, me, Selector("session", str(session.key)))
        now = records.service.get(me, kept.id)
        assert (now.text, now.sources) == ("mine", ())


def test_forgotten_records_go_with_their_history(tmp_path: Path) -> None:
    """What was forgotten still has its words in its history, until the session is purged."""
    build(tmp_path)
    with opened(tmp_path) as memory, Records(memory) as records:
        me = records.caller(agent="bot", roles=(ADMIN,))
        records.service.forget(me, scope=Scope("agent", "bot"), key="about ana1")
        key = key_of(Names(), "ana1")
        receipt = purge(memory, records, me, Selector("session", key))
        assert left(receipt) == 0
        assert all(source.session != key for each in every_record(records) for source in each.sources)
    assert holding(tmp_path, marker("ana1")) == []


def test_session_records_of_an_agents_lost_sessions_go(tmp_path: Path) -> None:
    """A session that was deleted leaves its records, which go with the agent."""
    build(tmp_path)
    with opened(tmp_path) as memory, Records(memory) as records:
        memory.session(key_of(Names(), "ana1")).delete()
        assert any(each.scope.id == key_of(Names(), "ana1") for each in every_record(records))
    purged(tmp_path, Selector("agent", "bot"))
    with opened(tmp_path) as memory, Records(memory) as records:
        assert all(each.scope.id != key_of(Names(), "ana1") for each in every_record(records))


class Elsewhere(InMemoryRecords):
    """A memory of somebody else's, which cannot write all or nothing."""

    capabilities = Capabilities(name="elsewhere", external=True, transactions=False, history=False)


def test_every_lane_is_purged_and_what_one_cannot_is_told(tmp_path: Path) -> None:
    """The records of a session that lives elsewhere go as those at home do, in a store of its own name."""
    build(tmp_path)
    with opened(tmp_path) as memory:
        far = memory.session("bot:cli:far")
        far.set_metadata(memory_plugin="elsewhere", users=["ana"])
        far.submit("from afar")
        store = Elsewhere(terms=terms)
        with Records(memory, lanes={"elsewhere": lambda tenant: store}) as records:
            me = records.caller(user="ana", session=str(far.key))
            for scope in (Scope("user", "ana"), Scope("session", str(far.key)), Scope("agent", "bot")):
                source = Source(str(far.key), far.entry(far.end).id)
                draft = Draft(
                    layer=Layer.LONG, scope=scope, key="k", text="far", origin="model", sources=(source,)
                )
                records.service.remember(me, draft)
            receipt = purge(memory, records, records.caller(user="ana"), Selector("user", "ana"))
            assert before(receipt)["elsewhere"]["records"] == 3
            assert left(receipt) == 0
            assert receipt.unsupported == (
                "elsewhere has no transactions: what was on its way may still arrive",
                "elsewhere has no history: what it keeps of earlier words is not known",
                "elsewhere is external: its files are its own",
            )
            assert store.find(Where(environment="", scopes=(), whole="tenant")).records == ()
            admin = records.caller(roles=(ADMIN,))
            assert left(purge(memory, records, admin, Selector("tenant"))) == 0
            assert records.service.list(me).records == ()  # it may be used on
            assert records.service.list(records.caller(user="bo")).records == ()


# --- pages ---


def test_lines_leave_pages_and_kept_versions_and_do_not_come_back(tmp_path: Path) -> None:
    """The other lines stay; the next pass writes nothing anew; an undo does not bring the words back."""
    build(tmp_path)
    page = PageOf(Scope("agent", "bot"))
    purged(tmp_path, Selector("session", key_of(Names(), "ana1")))
    with opened(tmp_path) as memory, Records(memory) as records:
        files = page_files(tmp_path, "local", page)
        text = files.path.read_text()
        assert (marker("ana1") in text, marker("bo1") in text) == (False, True)
        refresh(records.store, tmp_path, memory.tenant)
        assert marker("ana1") not in files.path.read_text()
        assert all(marker("ana1") not in version for _, version in files.snapshots())


def test_a_line_that_a_person_edited_stays_and_is_told(tmp_path: Path) -> None:
    """What a person wrote is theirs; the receipt names the page and the record."""
    build(tmp_path)
    path = page_files(tmp_path, "local", PageOf(Scope("agent", "bot"))).path
    path.write_text(path.read_text().replace(f"likes {marker('ana1')}", f"adores {marker('ana1')}"))
    receipt = purged(tmp_path, Selector("session", key_of(Names(), "ana1")))
    (told,) = receipt.kept
    place, _, id = told.rpartition(": ")
    assert place == path.relative_to(tmp_path / "local").as_posix()
    assert ULID.match(id)
    assert f"adores {marker('ana1')}" in path.read_text()


def test_what_a_killed_pass_had_begun_to_write_goes(tmp_path: Path) -> None:
    """Half made files of pages, metas and logs are destroyed with what they are of."""
    build(tmp_path)
    words = marker("ana1")
    page = page_files(tmp_path, "local", PageOf(Scope("agent", "bot"))).path
    log = next((tmp_path / "local" / "agents" / "bot" / "sessions").glob("*ana1.jsonl"))
    for path in (page, log, log.with_suffix(".meta.json")):
        path.with_name(f"{path.name}.tmp-abcdefgh").write_text(words)
    purged(tmp_path, Selector("session", key_of(Names(), "ana1")))
    assert holding(tmp_path, words) == []


def test_what_has_lost_its_log_is_told_or_goes_with_the_agent(tmp_path: Path) -> None:
    """Nobody can say whose an archive without a log is, or a log that is none: a user's purge leaves and
    names it, that of the agent or of production destroys it; a person's own file stays."""
    build(tmp_path)
    sessions = tmp_path / "local" / "agents" / "bot" / "sessions"
    (log,) = sessions.glob("*ana1.jsonl")
    log.unlink()
    (sessions / "cli~broken.jsonl").write_text("no log: zqbrokenxq\n")
    (sessions / "notes.txt").write_text("mine")
    (sessions / ".hidden.jsonl").write_text("mine too")
    receipt = purged(tmp_path, Selector("user", "ana"))
    assert receipt.unread == ("agents/bot/sessions/cli~broken",)  # the list still knew of the other
    assert holding(tmp_path, marker("ana1")) == []
    build(tmp_path / "again")
    again = tmp_path / "again" / "local" / "agents" / "bot" / "sessions"
    (log,) = again.glob("*ana1.jsonl")
    log.unlink()
    for path in (tmp_path / "again" / "local").glob("catalog*"):
        path.unlink()
    receipt = purged(tmp_path / "again", Selector("user", "ana"))
    assert receipt.unread == ("agents/bot/sessions/cli~ana1",)
    assert purged(tmp_path / "again", Selector("environment"), EVAL).unread == receipt.unread
    receipt = purged(tmp_path / "again", Selector("agent", "bot"))
    assert (receipt.unread, left(receipt)) == ((), 0)
    assert list(again.glob("*")) == []
    assert purged(tmp_path, Selector("environment")).unread == ()
    assert holding(tmp_path / "local", "zqbrokenxq") == []
    assert (sessions / "notes.txt").read_text() == "mine"
    assert (sessions / ".hidden.jsonl").read_text() == "mine too"


def test_a_deletion_that_was_cut_short_is_finished(tmp_path: Path) -> None:
    """What a crash left of a session that was being deleted goes with whatever purge comes next."""
    build(tmp_path)
    sessions = tmp_path / "local" / "agents" / "bot" / "sessions"
    (log,) = sessions.glob("*ana1.jsonl")
    log.rename(log.with_suffix(".deleted"))
    receipt = purged(tmp_path, Selector("user", "ana"))
    assert (receipt.unread, left(receipt)) == ((), 0)
    assert list(sessions.glob("*ana1*")) == []


# --- who may ---


@pytest.mark.parametrize(
    "selector",
    [
        Selector("user", "bo"),
        Selector("agent", "bot"),
        Selector("tenant"),
        Selector("environment"),
        Selector("session", "local/bot:cli:bo1"),
    ],
    ids=lambda each: each.kind,
)
def test_what_is_not_ones_own_is_refused(selector: Selector, tmp_path: Path) -> None:
    """Only an admin may; a refusal is a line in the audit, and nothing is changed, dry or not."""
    build(tmp_path)
    with opened(tmp_path) as memory, Records(memory) as records:
        ana = records.caller(user="ana", session="local/bot:cli:ana1")
        for dry_run in (True, False):
            with pytest.raises(AccessDenied):
                purge(memory, records, ana, selector, dry_run=dry_run)
        assert [each.ending for each in records.audit()][-2:] == ["refused", "refused"]
        assert len(list(memory.store.sessions())) == len(chats(Names()))
        assert unfinished(memory) is None


def test_a_user_purges_what_is_theirs(tmp_path: Path) -> None:
    """Without being an admin: their scope, their sessions, and what these alone said to others."""
    build(tmp_path)
    with opened(tmp_path) as memory, Records(memory) as records:
        receipt = purge(memory, records, records.caller(user="ana"), Selector("user", "ana"))
    assert before(receipt)["logs"]["sessions"] == 2
    assert left(receipt) == 0
    assert set(holding(tmp_path, marker("ana2"))) == set()


def test_a_session_of_another_environment_is_not_reached(tmp_path: Path) -> None:
    """By a production caller, an admin too: it is refused by its name, and left by all other selectors."""
    build(tmp_path)
    with pytest.raises(InvalidInput, match="another environment"):
        purged(tmp_path, Selector("session", key_of(Names(), "e1")))
    purged(tmp_path, Selector("session", key_of(Names(), "e1")), EVAL)
    assert holding(tmp_path, marker("e1")) == []


# --- others at work ---


def test_a_turn_that_runs_loses_the_session(tmp_path: Path) -> None:
    """What it would write later is refused, and makes no log."""
    build(tmp_path)
    with opened(tmp_path) as memory, Records(memory) as records:
        session = memory.session(key_of(Names(), "ana1"))
        turn = session.turn("one more")
        purge(memory, records, records.caller(roles=(ADMIN,)), Selector("user", "ana"))
        with pytest.raises((TurnClosed, StaleFence)):
            turn.reply("too late")
        with pytest.raises(StaleFence):
            session.append(User(content="too late"), fence=turn.fence)
        assert not session.exists
        session.submit("a new beginning")
        assert [each.text for each in session.entries() if isinstance(each, User)] == ["a new beginning"]


AT_WORK = """
    from stratalog import Stratalog
    from stratalog.config import Settings
    from stratalog.engine.remembering import Draft, Layer, Records, Scope
    from stratalog.errors import StaleFence, TurnClosed

    with Stratalog(sys.argv[1], settings=Settings(store=sys.argv[2])) as memory, Records(memory) as records:
        turn = memory.session("bot:cli:ana1").turn("from there")
        memory.search("anything")
        ana = records.caller(user="ana")
        records.service.recall(ana, "anything")
        say("open")
        hear()
        try:
            turn.reply("too late")
        except (StaleFence, TurnClosed):
            say("refused")
        memory.session("bot:cli:new").submit("made after it")
        draft = Draft(layer=Layer.LONG, scope=Scope("user", "ana"), key="new", text="learnt after it")
        records.service.remember(ana, draft)
    say("done")
"""


@pytest.mark.parametrize("store", STORES)
def test_another_process_with_everything_open(store: str, tmp_path: Path) -> None:
    """A turn of another process is refused after a purge of the tenant; what it begins anew is kept."""
    build(tmp_path, store)
    with child(AT_WORK, tmp_path, store) as other:
        assert other.hear() == "open"
        assert left(purged(tmp_path, Selector("tenant"), store=store)) == 0
        other.tell()
        assert (other.hear(), other.hear()) == ("refused", "done")
    with opened(tmp_path, store) as memory, Records(memory) as records:
        assert [str(key) for key in memory.store.sessions()] == ["local/bot:cli:new"]
        assert [hit.hit.session.chat for hit in memory.search("made after")] == ["new"]
        assert [each.text for each in every_record(records)] == ["learnt after it"]


def test_one_purge_of_a_tenant_at_a_time(tmp_path: Path) -> None:
    """While one runs, another waits for it; then both are done, and no lock is left."""
    build(tmp_path)
    with ThreadPoolExecutor(2) as pool:
        both = [pool.submit(purged, tmp_path, Selector("user", "ana")) for _ in range(2)]
        receipts = [each.result() for each in both]
    assert [left(each) for each in receipts] == [0, 0]
    assert sorted(before(each)["logs"]["sessions"] for each in receipts) == [0, 2]
    assert not (tmp_path / "local" / LOCK).exists()
    assert not purge_note_path(tmp_path, "local").exists()


def test_one_that_runs_is_not_resumed(tmp_path: Path) -> None:
    """Who looks after what was cut short leaves a purge that another is at to that."""
    build(tmp_path)
    with opened(tmp_path) as memory, Records(memory) as records:
        found: list[object] = []

        def watch() -> None:
            found.append((unfinished(memory) is not None, resume_purges(memory, records)))

        points.arm("purging.logs", act=watch)
        try:
            purge(memory, records, records.caller(roles=(ADMIN,)), Selector("user", "ana"))
        finally:
            points.disarm()
        assert found == [(True, [])]
        assert unfinished(memory) is None


# --- the note ---


def test_the_note_of_a_purge(tmp_path: Path) -> None:
    """It is readable by its owner alone, has no word that was said, and one that cannot be read is told."""
    build(tmp_path)
    path = purge_note_path(tmp_path, "local")
    with opened(tmp_path) as memory, Records(memory) as records:
        admin = records.caller(roles=(ADMIN,))

        def fail() -> None:
            raise StorageFailed("the disk is gone")

        points.arm("purging.logs", act=fail)
        try:
            with pytest.raises(StorageFailed):
                purge(memory, records, admin, Selector("user", "ana"))
        finally:
            points.disarm()
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert all(marker(chat).encode() not in path.read_bytes() for chat in chats(Names()))
        checkup = memory.doctor()
        assert (checkup.purging, checkup.healthy) == (True, False)
        noted = path.read_bytes()
        path.write_bytes(b"{")
        with pytest.raises(DamagedLog):
            unfinished(memory)
        path.write_bytes(msgspec.json.encode(msgspec.json.decode(noted) | {"version": 2}))
        with pytest.raises(NewerFormat):
            purge(memory, records, admin, Selector("user", "ana"))
        path.write_bytes(noted)
        (receipt,) = resume_purges(memory, records)
        assert receipt.resumed
        assert left(receipt) == 0
        assert before(receipt)["logs"]["sessions"] == 2
        assert not path.exists()
        assert memory.doctor().healthy


# --- anything by anybody ---


@hypothesis_settings(
    max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(order=st.lists(st.sampled_from(sorted(KINDS)), min_size=1, max_size=3))
def test_purges_in_any_order_leave_what_is_another_scopes(order: list[str], tmp_path_factory: Any) -> None:
    """After any purges: what none of them meant is there as it was, and what any of them meant is gone."""
    data = tmp_path_factory.mktemp("estate")
    who = Names()
    build(data)
    was = seen(data)
    meant = [goes(who, *KINDS[kind](who)) for kind in order]
    gone = {chat for kind in order for chat in KINDS[kind](who)[2]}
    keys = {key_of(who, chat) for chat in gone}
    for kind in order:
        selector, environment, _ = KINDS[kind](who)
        assert left(purged(data, selector, environment)) == 0
    now = seen(data)
    for name, value in was.items():
        what = name.partition(" ")[0]
        if any(means(name, value) for means in meant):
            assert name not in now
        elif what in ("log", "listed", "job"):
            assert now[name] == value
        elif what == "record" and not {each.session for each in value[0].sources} <= keys:
            check_record(now[name], value, keys)


def test_what_an_agent_wrote_goes_with_the_session_it_wrote_it_in(tmp_path: Path) -> None:
    """Into its own scope too: nothing of it is left without the session."""
    with Stratalog(tmp_path) as memory, Records(memory) as records:
        memory.session("bot:cli:a").append(User(content="hello"))
        who = records.caller(user="ana", agent="bot")
        source = Source("local/bot:cli:a", "E1")
        draft = Draft(
            layer=Layer.LONG,
            scope=Scope("agent", "bot"),
            key="k",
            text="the word zebrafinch",
            origin="agent",
            sources=(source,),
        )
        records.service.remember(who, draft)
    receipt = purged(tmp_path, Selector("session", "local/bot:cli:a"))
    assert left(receipt) == 0
    assert not any(b"zebrafinch" in path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())


def test_records_of_a_deleted_session_go_with_its_user(tmp_path: Path) -> None:
    """Whose it was nobody can say any more, so they go with any user's."""
    with Stratalog(tmp_path) as memory, Records(memory) as records:
        for chat in ("gone", "there"):
            session = memory.session(f"bot:cli:{chat}")
            session.append(User(content="hello"))
            session.set_metadata(users=["ana" if chat == "gone" else "ben"])
            who = records.caller(session=f"bot:cli:{chat}")
            scope = Scope("session", who.session)
            records.service.remember(who, Draft(layer=Layer.MID, scope=scope, key="k", text=f"the {chat}"))
        memory.session("bot:cli:gone").delete()
    purged(tmp_path, Selector("user", "ana"))
    with Stratalog(tmp_path) as memory, Records(memory) as records:
        everyone = records.service.list(records.caller(roles=(ADMIN,)), everyone=True).records
        assert [each.text for each in everyone] == ["the there"]


def test_a_lane_that_is_not_open_is_told(tmp_path: Path) -> None:
    """What a session has there stays, and the receipt says so."""
    with Stratalog(tmp_path) as memory:
        session = memory.session("bot:cli:a")
        session.append(User(content="hello"))
        session.set_metadata(memory_plugin="elsewhere")
    receipt = purged(tmp_path, Selector("session", "local/bot:cli:a"))
    assert "elsewhere is not open: what is there stays" in receipt.unsupported
