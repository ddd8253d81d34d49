"""engine/remembering.py: one tenant's records in a real data directory."""

from __future__ import annotations

import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from stratalog.config import Settings
from stratalog.engine import remembering
from stratalog.engine.core import Stratalog
from stratalog.engine.remembering import (
    Caller,
    Draft,
    Layer,
    Records,
    Remembered,
    Scope,
    Selector,
)
from stratalog.errors import AccessDenied, InvalidInput, InvalidKey, LaneDenied, StorageFailed
from stratalog.keys import tenant_path
from stratalog.memory.caller import caller
from stratalog.memory.contract import Capabilities
from stratalog.memory.inmemory import InMemoryRecords
from stratalog.recall.terms import query_terms, terms

ANA = Scope("user", "ana")


@pytest.fixture
def records(memory: Stratalog) -> Iterator[Records]:
    with Records(memory) as made:
        yield made


@pytest.fixture
def ana(records: Records) -> Caller:
    return records.caller(user="ana", agent="assistant")


def say(records: Records, who: Caller, text: str, *, key: str = "home") -> Remembered:
    draft = Draft(layer=Layer.LONG, scope=Scope("user", who.user), key=key, text=text)
    return records.service.remember(who, draft)


def recalled(records: Records, who: Caller, query: str) -> list[str]:
    return [each.record.text for each in records.service.recall(who, query).found]


def test_what_is_remembered_is_there_when_it_is_opened_again(data: Path) -> None:
    """Records, their history and what was forgotten outlive the process's last `close`."""
    with Stratalog(data) as memory, Records(memory) as records:
        me = records.caller(user="ana")
        kept = say(records, me, "Ana lives in Lisbon").record
        say(records, me, "Ana has a cat", key="pet")
        records.service.forget(me, scope=ANA, key="pet")
    with Stratalog(data) as memory, Records(memory) as records:
        me = records.caller(user="ana")
        assert records.service.list(me).records == (kept,)
        assert recalled(records, me, "where does Ana live?") == ["Ana lives in Lisbon"]
        actions = [event.action for event in records.service.history(me).events]
        assert actions == ["remember", "remember", "forget"]


def test_two_languages_are_found_by_their_words(records: Records, ana: Caller) -> None:
    """Chinese needs no spaces, English is stemmed, and each finds its own."""
    say(records, ana, "安娜对花生过敏", key="allergy")
    say(records, ana, "Ana is travelling to Porto in autumn", key="trip")
    assert recalled(records, ana, "谁对花生过敏") == ["安娜对花生过敏"]
    assert recalled(records, ana, "travels") == ["Ana is travelling to Porto in autumn"]


def test_two_tenants_have_files_of_their_own(data: Path) -> None:
    """What one tenant keeps is in no file of the other's, and the other finds nothing."""
    words = {"acme": "quince", "bolt": "medlar"}
    for tenant, word in words.items():
        with Stratalog(data, tenant=tenant) as memory, Records(memory) as records:
            say(records, records.caller(user="ana"), f"likes {word}")
    for tenant, word in words.items():
        (other,) = set(words.values()) - {word}
        content = b"".join(path.read_bytes() for path in (data / tenant).rglob("*") if path.is_file())
        assert word.encode() in content
        assert other.encode() not in content
        with Stratalog(data, tenant=tenant) as memory, Records(memory) as records:
            assert recalled(records, records.caller(user="ana"), f"{word} {other}") == [f"likes {word}"]


def test_the_files_are_for_their_owner_alone(data: Path, records: Records, ana: Caller) -> None:
    """Every file that remembering and asking make is 0600."""
    say(records, ana, "Ana lives in Lisbon")
    recalled(records, ana, "Lisbon")
    files = [path for path in (data / "local").iterdir() if path.is_file()]
    assert {"memory.sqlite3", "audit.jsonl"} <= {path.name for path in files}
    assert {path.name for path in files if stat.S_IMODE(path.stat().st_mode) != 0o600} == set()


def test_asking_makes_no_store(data: Path, records: Records, ana: Caller) -> None:
    """Where nothing was remembered, reading finds nothing and leaves only its line in the audit."""
    assert recalled(records, ana, "Lisbon") == []
    assert records.service.history(ana).events == ()
    assert [path.name for path in (data / "local").iterdir() if path.is_file()] == ["audit.jsonl"]


def test_a_caller_of_another_tenant_gets_nowhere(data: Path, records: Records) -> None:
    """Callers are made of this tenant; one made elsewhere is refused, and no place is made for it."""
    assert records.caller(user="ana").tenant == "local"
    with pytest.raises(InvalidKey):
        records.caller(session="bolt/bot:cli:1")
    stranger = caller("bolt", user="ana", roles=["admin"])
    with pytest.raises(AccessDenied, match="another tenant"):
        say(records, stranger, "mine now")
    for ask in (
        lambda: records.service.list(stranger),
        lambda: records.service.recall(stranger, "Lisbon"),
        lambda: records.service.history(stranger),
        lambda: records.service.purge(stranger, Selector("tenant")),
        lambda: list(records.service.export(stranger)),
    ):
        with pytest.raises(AccessDenied, match="another tenant"):
            ask()
    assert not (data / "bolt").exists()


def test_several_threads_lose_nothing(records: Records, ana: Caller) -> None:
    """Each of many sayings at once is kept, and the same one is counted each time."""
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda n: say(records, ana, f"number {n}", key=f"key {n}"), range(20)))
        list(pool.map(lambda _: say(records, ana, "always the same", key="one"), range(20)))
    page = records.service.list(ana)
    assert {each.key for each in page.records} == {*(f"key {n}" for n in range(20)), "one"}
    (one,) = records.service.list(ana, keys=["one"]).records
    assert one.evidence == 20


def test_two_openings_of_one_directory_share_it(data: Path, records: Records, ana: Caller) -> None:
    """What is remembered through one is found through the other, at once."""
    say(records, ana, "Ana lives in Lisbon")
    with Stratalog(data) as other, Records(other) as again:
        assert recalled(again, again.caller(user="ana"), "Lisbon") == ["Ana lives in Lisbon"]
        say(again, again.caller(user="ana"), "Ana has a cat", key="pet")
    assert recalled(records, ana, "cat") == ["Ana has a cat"]


def test_closing_twice_does_nothing(records: Records, ana: Caller) -> None:
    """The second time is no error, before and after anything was kept."""
    records.close()
    say(records, ana, "Ana lives in Lisbon")
    records.close()
    records.close()


def test_the_audit_tells_who_asked_and_not_what(data: Path, records: Records, ana: Caller) -> None:
    """A line a call, a refusal too, oldest first, without a word of text, key or query."""
    say(records, ana, "Ana lives in Lisbon", key="whereabouts")
    recalled(records, ana, "Lisbon")
    with pytest.raises(AccessDenied):
        records.service.list(ana, scopes=[Scope("user", "bo")])
    told = [(line.call, line.ending, line.user) for line in records.audit()]
    assert told == [("remember", "done", "ana"), ("recall", "done", "ana"), ("list", "refused", "ana")]
    text = (data / "local" / "audit.jsonl").read_text("utf-8")
    assert text.count("\n") == 3
    assert "Lisbon" not in text
    assert "whereabouts" not in text


def test_a_session_that_may_not_be_kept_here(memory: Stratalog) -> None:
    """`metadata_of` is asked, and a lane that is not there is refused, not replaced."""
    records = Records(memory, metadata_of=lambda who: {"memory_plugin": "elsewhere"})
    with records, pytest.raises(LaneDenied):
        say(records, records.caller(user="ana"), "Ana lives in Lisbon")


def test_what_it_names_is_there() -> None:
    """Everything in `__all__` can be imported from it."""
    assert [name for name in remembering.__all__ if not hasattr(remembering, name)] == []


def test_conversations_alone_do_not_load_it() -> None:
    """`import stratalog` loads neither the service nor a store of records, but what says how far words go."""
    code = "import sys, stratalog; print('\\n'.join(sys.modules))"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    loaded = out.split()
    assert "stratalog.engine.core" in loaded
    memory = {each for each in loaded if each.startswith("stratalog.memory")}
    assert memory <= {"stratalog.memory", "stratalog.memory.residency"}
    assert "stratalog.engine.remembering" not in loaded


def test_a_pass_promotes_what_lasted_once(data: Path, records: Records) -> None:
    """A SHORT record older than the limit becomes MID; the next pass has nothing to do."""
    who = records.caller(user="ana")
    said = Draft(layer=Layer.SHORT, scope=Scope("user", "ana"), key="boat", text="The boat is at pier 7")
    made = records.service.remember(who, said).record
    assert made is not None
    assert records.consolidate(now=made.created_at + 299_000).promoted == 0
    assert records.consolidate(now=made.created_at + 301_000).promoted == 1
    assert records.consolidate(now=made.created_at + 302_000).steps == 0
    assert records.service.get(who, made.id).layer is Layer.MID


# --- lanes ---


class Elsewhere(InMemoryRecords):
    """Records that leave the machine, as far as anybody is told."""

    capabilities = Capabilities(name="mem0", external=True)

    def __init__(self) -> None:
        super().__init__(terms=terms, query_terms=query_terms)
        self.closed = 0

    def close(self) -> None:
        self.closed += 1
        super().close()


class AtHome(Elsewhere):
    capabilities = Capabilities(name="home")


class Makers:
    """Makes stores, and keeps count of them."""

    def __init__(self, make: Callable[[], Elsewhere], capabilities: Capabilities | None = None) -> None:
        self._make = make
        self.made: list[tuple[str, Elsewhere]] = []
        self.capabilities = capabilities

    def __call__(self, tenant: str) -> Elsewhere:
        self.made.append((tenant, self._make()))
        return self.made[-1][1]


def in_session(records: Records, chat: str) -> Caller:
    return records.caller(user="ana", session=f"assistant:cli:{chat}")


def test_a_sessions_records_live_where_its_log_says(data: Path, memory: Stratalog) -> None:
    """In the lane that its metadata asks for, made once and only when it is needed; native for one who is in
    no session, in one that says nothing, and in one whose residency forbids the lane. Closing closes all."""
    memory.session("assistant:cli:away").set_metadata(memory_plugin="mem0")
    memory.session("assistant:cli:home").set_metadata(memory_plugin="mem0", residency="local_only")
    mem0 = Makers(Elsewhere)
    with Records(memory, lanes={"mem0": mem0}) as records:
        for who in (records.caller(user="ana"), in_session(records, "other"), in_session(records, "home")):
            say(records, who, "Ana lives in Lisbon")
        assert mem0.made == []
        away = in_session(records, "away")
        say(records, away, "Ana has a cat", key="pet")
        assert recalled(records, away, "cat Lisbon") == ["Ana has a cat"]
        assert [tenant for tenant, _ in mem0.made] == ["local"]
        assert recalled(records, in_session(records, "home"), "cat Lisbon") == ["Ana lives in Lisbon"]
        memory.session("assistant:cli:away").set_metadata(residency="on_prem")
        assert recalled(records, away, "cat Lisbon") == ["Ana lives in Lisbon"]
        assert records.forbids_remote(away)
    assert [store.closed for _, store in mem0.made] == [1]


def test_a_lane_counts_as_external_unless_it_says_otherwise(memory: Stratalog) -> None:
    """Where residency forbids, a lane of which nothing is known is not taken, and one at home is."""
    for name in ("known", "unknown"):
        told = {"memory_plugin": name, "residency": "local_only"}
        memory.session(f"assistant:cli:{name}").set_metadata(**told)
    known, unknown = Makers(AtHome, AtHome.capabilities), Makers(AtHome)
    with Records(memory, lanes={"known": known, "unknown": unknown}) as records:
        for name in ("known", "unknown"):
            say(records, in_session(records, name), "Ana lives in Lisbon")
    assert (len(known.made), len(unknown.made)) == (1, 0)


def test_a_lane_that_is_not_configured_is_denied(memory: Stratalog) -> None:
    """One that was asked for is not replaced; and without native, what must have it goes nowhere."""
    memory.session("assistant:cli:zep").set_metadata(memory_plugin="zep")
    memory.session("assistant:cli:away").set_metadata(memory_plugin="mem0")
    memory.session("assistant:cli:home").set_metadata(memory_plugin="mem0", residency="on_prem")
    mem0 = Makers(Elsewhere)
    with Records(memory, native=False, lanes={"mem0": mem0}) as records:
        for who in (records.caller(user="ana"), in_session(records, "zep"), in_session(records, "home")):
            with pytest.raises(LaneDenied):
                say(records, who, "Ana lives in Lisbon")
            with pytest.raises(LaneDenied):
                records.service.recall(who, "Lisbon")
        assert mem0.made == []
        with pytest.raises(LaneDenied):
            records.consolidate()
        say(records, in_session(records, "away"), "Ana has a cat", key="pet")
        assert {line.ending for line in records.audit()} == {"refused", "done"}
    with pytest.raises(InvalidInput):
        Records(memory, lanes={"native": mem0})
    with pytest.raises(StorageFailed):
        say(records, in_session(records, "away"), "Ana has a dog", key="pet")


# --- evaluations ---


@pytest.mark.parametrize(
    ("tenant", "environment", "allowed"),
    [
        ("eval-nightly", "production", False),
        ("eval-nightly", "eval:1", True),
        ("Eval-nightly", "production", True),
        ("evaluations", "production", True),
        ("bench", "production", False),
        ("local", "production", True),
        ("local", "eval:1", True),
    ],
)
def test_nobody_in_production_uses_a_tenant_for_evaluations(
    data: Path, tenant: str, environment: str, allowed: bool
) -> None:
    """Whatever its roles, on every path, and before a store is asked; each refusal is in the audit."""
    settings = Settings(evaluation_tenants=("eval-*", "bench"))
    with Stratalog(data, tenant=tenant, settings=settings) as memory, Records(memory) as records:
        who = records.caller(user="ana", environment=environment, roles=["admin"])
        service = records.service
        paths: list[Callable[[], object]] = [
            lambda: say(records, who, "Ana lives in Lisbon"),
            lambda: service.recall(who, "Lisbon"),
            lambda: service.list(who),
            lambda: service.current(who),
            lambda: service.as_of(who, 0),
            lambda: service.history(who),
            lambda: list(service.export(who)),
            lambda: service.forget(who, scope=ANA, key="home"),
            lambda: service.forget_source(who, ["x"]),
            lambda: service.purge(who, Selector("environment")),
            lambda: service.purge(who, Selector("user", "ana"), dry_run=True),
        ]
        for path in paths:
            if allowed:
                path()
            else:
                with pytest.raises(AccessDenied, match="evaluations"):
                    path()
        endings = [line.ending for line in records.audit()]
        assert set(endings) == {"done" if allowed else "refused"}
        assert len(endings) >= len(paths)
        assert (tenant_path(data, tenant) / "memory.sqlite3").exists() == allowed
