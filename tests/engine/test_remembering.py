"""engine/remembering.py: one tenant's records in a real data directory."""

from __future__ import annotations

import stat
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

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
from stratalog.errors import AccessDenied, InvalidKey, LaneDenied
from stratalog.memory.caller import caller

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
    """`import stratalog` loads neither the service nor a store of records."""
    code = "import sys, stratalog; print('\\n'.join(sys.modules))"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    loaded = out.split()
    assert "stratalog.engine.core" in loaded
    assert [each for each in loaded if each.startswith("stratalog.memory")] == []
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
