"""engine/strata.py: list, search and meta follow the logs, through deletion, damage and races."""

from __future__ import annotations

import random
import shutil
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from engine.children import Child, child
from engine.threads import together
from stratalog.config import Settings
from stratalog.engine.core import Stratalog
from stratalog.engine.session import Session
from stratalog.errors import DamagedLog, InvalidKey, NewerFormat, NotFound
from stratalog.keys import session_paths
from stratalog.sessions.meta import SessionMeta
from stratalog.types import Compaction, Note, System, Title, User, WorkingMemory


def titles(memory: Stratalog) -> list[str]:
    return [meta.title for meta in memory.sessions().sessions]


def snippets(memory: Stratalog, query: str) -> list[str]:
    return [found.hit.snippet for found in memory.search(query)]


def talk(chat: Session, *messages: str) -> None:
    for message in messages:
        with chat.turn(message) as turn:
            turn.reply(f"about {message}")


# --- list and search follow ---


def test_an_empty_memory_makes_nothing(tmp_path: Path) -> None:
    """Reading where nothing was written gives empty answers and makes no file or directory."""
    data = tmp_path / "typo"
    with Stratalog(data) as memory:
        assert memory.sessions().sessions == ()
        assert memory.search("x") == []
        memory.bring_up_to_date()
        assert memory.rebuild() == (0, 0)
        assert memory.doctor().healthy
        assert list(memory.tenants()) == []
        chat = memory.session("a:b:c")
        assert not chat.exists
        assert not chat.delete()
        assert (chat.meta.seq, chat.unfinished(), chat.next(), chat.abort()) == (0, [], None, False)
        assert chat.context().messages() == []
        for act in (chat.pin, lambda: chat.set_title("x"), chat.restart, lambda: chat.fork("a:b:d")):
            with pytest.raises(NotFound):
                act()
    assert not data.exists()


def test_list_and_search_follow_at_once(memory: Stratalog) -> None:
    """What was just written is listed and found, a title and a pin show, and so after a restart."""
    one, two = memory.session("a:cli:one"), memory.session("a:cli:two")
    talk(one, "harbour")
    talk(two, "quarry")
    assert titles(memory) == ["quarry", "harbour"]
    one.pin()
    one.set_title("The sea")
    assert titles(memory) == ["The sea", "quarry"]
    assert memory.search("harbour")[0].title == "The sea"
    one.restart()
    assert titles(memory) == ["The sea", "quarry"]
    assert (one.meta.messages, one.meta.generation, one.meta.pinned) == (0, 2, True)
    assert "harbour" in snippets(memory, "harbour")
    assert [entry.seq for entry in memory.search("harbour", neighbours=1)[0].after] == [2]


def test_a_deleted_session_is_nowhere(memory: Stratalog, data: Path) -> None:
    """Deleting removes it from list, search and disk; made again it is new in every respect."""
    chat = memory.session("a:cli:me")
    talk(chat, "harbour", "x" * 100_000)
    chat.pin()
    memory.search("harbour")
    assert chat.delete()
    assert not chat.delete()
    assert (titles(memory), memory.search("harbour")) == ([], [])
    assert list(data.rglob("*~me*")) == []
    talk(chat, "quarry")
    assert (titles(memory), chat.meta.pinned) == (["quarry"], False)
    assert memory.search("harbour") == []
    assert snippets(memory, "quarry")[0] == "quarry"


@pytest.mark.parametrize("store", ["jsonl", "sqlite"])
def test_either_store(tmp_path: Path, store: str) -> None:
    """Turns, list, search, restart, fork and deletion are the same whichever store holds the logs."""
    settings = Settings(store=store)  # type: ignore[arg-type] # one of the two
    with Stratalog(tmp_path, settings=settings) as memory:
        chat = memory.session("a:cli:me")
        talk(chat, "harbour")
        chat.set_title("Mine")
        assert memory.search("harbour")
        fork = chat.fork("a:cli:fork")
        assert fork.context().messages() == chat.context().messages()
        assert chat.restart().done
        assert chat.delete()
        assert titles(memory) == ["Mine"]
        assert list(tmp_path.rglob("*~me.*")) == []
    with Stratalog(tmp_path, settings=settings) as memory:
        assert titles(memory) == ["Mine"]
        talk(memory.session("a:cli:me"), "quarry")
        assert memory.session("a:cli:me").meta.title == "quarry"


# --- meta.json ---


def stale(path: Path) -> None:
    """Leaves meta.json as it was a while ago."""
    shutil.copy(path.with_name("old"), path)


META_DAMAGE: dict[str, Callable[[Path], object]] = {
    "missing": lambda path: path.unlink(),
    "empty": lambda path: path.write_bytes(b""),
    "garbage": lambda path: path.write_bytes(b"\0\xff garbage"),
    "another's": lambda path: path.write_text('{"key": "local/a:cli:other", "title": "Not mine", "seq": 3}'),
    "of the future": lambda path: path.write_text(
        '{"key": "local/a:cli:me", "title": "Not mine", "seq": 9999}'
    ),
    "of a deleted log": lambda path: path.write_text(
        '{"key": "local/a:cli:me", "title": "Not mine", "seq": 3, "last": "01M8NSS4CWJ3REB98415VS4Q1K"}'
    ),
    "stale": stale,
    "a directory": lambda path: (path.unlink(), path.mkdir()),
}


@pytest.mark.parametrize("damage", META_DAMAGE)
def test_meta_is_what_the_log_says(data: Path, damage: str) -> None:
    """Whatever became of meta.json, title, pin, counts and working memory are those of the log."""
    with Stratalog(data) as memory:
        chat = memory.session("a:cli:me")
        path = session_paths(data, chat.key).meta
        talk(chat, "hello")
        shutil.copy(path, path.with_name("old"))
        chat.append(WorkingMemory(op="set", key="k", value="v" * 100_000))
        talk(chat, "more")
        chat.set_title("Mine")
        chat.pin()
        expected = chat.meta
    META_DAMAGE[damage](path)
    with Stratalog(data) as memory:
        assert memory.session("a:cli:me").meta == expected
        assert memory.session("a:cli:me").meta.working_memory == {"k": "v" * 100_000}
    with Stratalog(data) as memory:
        memory.rebuild()
        assert memory.sessions().sessions == (expected,)


def test_meta_of_an_agents_own_settings(data: Path) -> None:
    """The list's title is as long as the agent's own settings say, as the session's is."""
    (data / "local" / "agents" / "a").mkdir(parents=True)
    (data / "local" / "agents" / "a" / "agent.toml").write_text("title_length = 5\n")
    with Stratalog(data) as memory:
        memory.session("a:cli:me").submit("abcdefgh")
        memory.session("b:cli:me").submit("abcdefgh")
        assert sorted(titles(memory)) == ["abcdefgh", "abcd…"]
        assert memory.session("a:cli:me").meta.title == "abcd…"


# --- what is derived is deleted or damaged ---


def files(data: Path, name: str) -> list[Path]:
    return sorted((data / "local").glob(f"{name}*"))


@pytest.mark.parametrize(
    "names", [["catalog"], ["index"], ["catalog", "index"], ["dirty"], ["catalog", "dirty"]]
)
def test_what_is_derived_comes_back_when_it_is_deleted(data: Path, names: list[str]) -> None:
    """Without the list, the index or the notes, everything is listed and found again."""
    with Stratalog(data) as memory:
        talk(memory.session("a:cli:one"), "harbour")
        memory.search("x")
        talk(memory.session("a:cli:two"), "quarry")
    for name in names:
        for path in files(data, name):
            path.unlink()
    if "dirty" in names and "catalog" not in names:
        return  # then the last write is seen after the machine's restart, or by a rebuild
    with Stratalog(data) as memory:
        assert sorted(titles(memory)) == ["harbour", "quarry"]
        assert "harbour" in snippets(memory, "harbour")
        assert "quarry" in snippets(memory, "quarry")


@pytest.mark.parametrize("name", ["catalog.sqlite3", "index.sqlite3"])
@pytest.mark.parametrize("damage", [b"", b"garbage " * 2000])
def test_what_is_derived_is_rebuilt_when_it_is_damaged(data: Path, name: str, damage: bytes) -> None:
    """Damage is a typed error with a hint, or is mended at once; `rebuild` mends it in any case."""
    with Stratalog(data) as memory:
        talk(memory.session("a:cli:one"), "harbour")
        memory.session("a:cli:one").set_title("Mine")
        memory.search("x")
    for path in files(data, name):
        path.unlink()
    (data / "local" / name).write_bytes(damage)
    with Stratalog(data) as memory:
        if damage:
            with pytest.raises(DamagedLog) as caught:
                memory.search("harbour")
            assert "rebuild" in caught.value.hint
        else:
            assert memory.search("harbour")
        assert memory.rebuild() == (1, 5)
        assert titles(memory) == ["Mine"]
        assert "harbour" in snippets(memory, "harbour")


def test_a_rebuild_makes_what_was_there(memory: Stratalog) -> None:
    """A rebuild lists and finds the same as before, and drops what no log has."""
    for number in range(5):
        talk(memory.session(f"a:cli:{number}"), f"harbour {number}")
    memory.session("a:cli:3").pin()
    before = (memory.sessions(), sorted(snippets(memory, "harbour")))
    memory.strata.catalog.put([SessionMeta(key="local/a:cli:ghost", seq=10**9, title="ghost")])
    assert "ghost" in titles(memory)
    made = memory.rebuild()
    assert made == (5, 21)
    assert (memory.sessions(), sorted(snippets(memory, "harbour"))) == before


def test_a_rebuild_under_the_hands_of_others(data: Path) -> None:
    """Another process that has list and index open goes on with the new ones, and so do we."""
    script = """
    from stratalog import Stratalog
    with Stratalog(sys.argv[1]) as memory:
        memory.session("a:cli:one").submit("harbour")
        assert memory.search("harbour") and memory.sessions().sessions
        say("open")
        while (word := hear()) != "stop":
            memory.session("a:cli:two").submit(word)
            found = len(memory.search("harbour")), len(memory.search(word))
            say(*found, len(memory.sessions().sessions))
    say("closed")
    hear()
    """
    with Stratalog(data) as memory, child(script, data) as other:
        assert other.hear() == "open"
        for word in ("quarry", "granite"):
            memory.rebuild()
            other.tell(word)
            counts = other.hear().split()
            assert (counts[0], counts[2]) == ("1", "2")
            assert int(counts[1]) >= 1
            assert memory.search(word)
        other.tell("stop")
        assert other.hear() == "closed"
        assert memory.search("granite")
        assert len(memory.sessions().sessions) == 2


def test_an_index_that_lost_its_last_writes_is_brought_up_to_date(data: Path) -> None:
    """When a power cut takes the index's last writes but not the list's, they are found again."""
    with Stratalog(data) as memory:
        talk(memory.session("a:cli:me"), "harbour")
        memory.search("x")
    saved = data.parent / "saved"
    saved.mkdir()
    for path in files(data, "index"):
        shutil.copy(path, saved)
    with Stratalog(data) as memory:
        talk(memory.session("a:cli:me"), "quarry")
        assert memory.search("quarry")
    for path in files(data, "index"):
        path.unlink()
    for path in saved.iterdir():
        shutil.copy(path, data / "local")
    with Stratalog(data) as memory:
        assert "quarry" in snippets(memory, "quarry")


# --- one bad log ---


def foreign(path: Path) -> None:
    path.write_bytes(b"not a log\n")


def newer(path: Path) -> None:
    path.write_bytes(path.read_bytes().replace(b'"format":1', b'"format":9', 1))


@pytest.mark.parametrize("damage", [foreign, newer])
def test_a_log_that_cannot_be_read_stands_in_nobodys_way(data: Path, damage: Callable[[Path], None]) -> None:
    """The others are listed and found; the problem is told once; when the log is back, so is the session."""
    with Stratalog(data) as memory:
        for name in ("good", "bad"):
            talk(memory.session(f"a:cli:{name}"), f"harbour {name}")
        memory.search("x")
        talk(memory.session("a:cli:bad"), "quarry")
    path = session_paths(data, memory.session("a:cli:bad").key).log
    whole = path.read_bytes()
    damage(path)
    assert path.read_bytes() != whole
    with Stratalog(data) as memory:
        for _ in range(3):
            assert "harbour good" in snippets(memory, "harbour")
            assert "harbour good" in titles(memory)
        told = [problem for problem in memory.problems if "bad" in problem.path]
        assert told
        assert len(told) == len(set(told))
        assert not memory.doctor().healthy
        assert not memory.doctor().healthy
        memory.rebuild()
        assert titles(memory) == ["harbour good"]
    path.write_bytes(whole)
    with Stratalog(data) as memory:
        memory.rebuild()
        assert len(titles(memory)) == 2
        assert "quarry" in snippets(memory, "quarry")


def test_damage_within_a_log_is_told_by_whoever_reads_it(data: Path) -> None:
    """A line that had to be skipped is a problem that `problems` shows, after a context as after a list."""
    with Stratalog(data) as memory:
        talk(memory.session("a:cli:me"), "one", "two", "three")
    path = next(data.rglob("*.jsonl"))
    lines = path.read_bytes().split(b"\n")
    lines[2] = b"\0" * len(lines[2])
    path.write_bytes(b"\n".join(lines))
    for read in (lambda memory: memory.session("a:cli:me").context(), lambda memory: memory.rebuild()):
        with Stratalog(data) as memory:
            read(memory)
            assert [problem.path for problem in memory.problems] == [str(path)]


def test_an_agents_bad_settings_are_told_and_stop_only_that_agent(data: Path) -> None:
    """One agent's wrong settings do not hide the sessions of the others."""
    with Stratalog(data) as memory:
        talk(memory.session("good:cli:me"), "harbour")
        talk(memory.session("bad:cli:me"), "harbour")
    (data / "local" / "agents" / "bad" / "agent.toml").write_text("lock_deadline = -1\n")
    for path in files(data, "catalog"):
        path.unlink()
    with Stratalog(data) as memory:
        assert [meta.key for meta in memory.sessions().sessions] == ["local/good:cli:me"]
        assert any("lock_deadline" in problem.reason for problem in memory.problems)


# --- tenants ---

HOSTILE = [
    "a",
    "ab",
    "A",
    "%",
    "_",
    "a%",
    "a_",
    "..a",
    "con",
    "a'b",
    'a"b',
    "漢",
    "local",
    "aa/".strip("/") + "~",
]


def test_tenants_see_nothing_of_each_other(data: Path) -> None:
    """Sessions, search, list and rebuilds of a tenant are its own, whatever the tenants are called."""
    with Stratalog(data, tenant="a") as memory:
        tenants = {name: memory.as_tenant(name) for name in HOSTILE}
        for name, tenant in tenants.items():
            tenant.session("x:cli:me").submit(f"harbour of {name}")
            tenant.session("x:cli:me").set_title(f"title of {name}")
        for name, tenant in tenants.items():
            assert titles(tenant) == [f"title of {name}"]
            assert snippets(tenant, "harbour") == [f"harbour of {name}"]
            first = next(tenant.session("x:cli:me").entries())
            assert isinstance(first, User)
            assert first.text == f"harbour of {name}"
            assert tenant.rebuild().sessions == 1
        with pytest.raises(InvalidKey):
            tenants["ab"].session("a/x:cli:me")
        with pytest.raises(InvalidKey):
            tenants["a"].session("x:cli:me").fork("ab/x:cli:stolen")
        tenants["a"].session("x:cli:me").delete()
        assert titles(tenants["a"]) == []
        assert titles(tenants["ab"]) == ["title of ab"]
        assert set(memory.tenants()) == set(HOSTILE) - {"a"}


def test_a_tenants_problems_are_its_own(data: Path) -> None:
    """What went wrong in one tenant's logs, and their names, no other is told."""
    with Stratalog(data, tenant="a") as memory:
        for name in ("a", "ab"):
            memory.as_tenant(name).session("x:cli:secret").submit("x")
    for path in data.rglob("*~secret.jsonl"):
        path.write_bytes(b"not a log\n")
    for path in data.rglob("catalog*"):
        path.unlink()
    with Stratalog(data, tenant="a") as memory:
        other = memory.as_tenant("ab")
        assert other.sessions().sessions == ()
        assert memory.problems == []
        assert not other.doctor().healthy
        assert {problem.path for problem in other.problems} == {str(next((data / "ab").rglob("*.jsonl")))}
        assert memory.sessions().sessions == ()
        assert all("/ab/" not in problem.path for problem in memory.problems)


# --- races ---


@pytest.mark.crash
@pytest.mark.parametrize("seed", range(3))
def test_nothing_is_ever_missed(data: Path, seed: int) -> None:
    """While processes write, restart, delete and make sessions, and others list and search, nothing is
    missed: in the end list and index are what a rebuild makes, without any more writing."""
    script = """
    import random
    from stratalog import Stratalog, StratalogError
    from stratalog.config import Settings
    memory = Stratalog(sys.argv[1], settings=Settings(sync="never"))
    rng = random.Random(sys.argv[2])
    say("up")
    hear()
    for step in range(120):
        chat = memory.session(f"a:cli:{rng.randrange(4)}")
        try:
            match rng.randrange(12):
                case 0: chat.delete()
                case 1: chat.restart(force=True)
                case 2: chat.set_title(f"t{step}")
                case 3: chat.pin(rng.random() < 0.5)
                case 4 | 5: memory.search("word")
                case 6 | 7: memory.sessions()
                case _: chat.submit(f"word w{sys.argv[2]}x{step}")
        except StratalogError as error:
            if type(error).__name__ not in ("NotFound", "StaleFence", "SessionBusy"): raise
    memory.close()
    say("done")
    """
    children = [Child(script, data, f"{seed}{number}") for number in range(4)]
    try:
        for each in children:
            assert each.hear() == "up"
        for each in children:
            each.tell()
        for each in children:
            assert each.hear() == "done"
    finally:
        for each in children:
            each.kill()
    with Stratalog(data) as memory:

        def state() -> tuple[object, object]:
            found = memory.search("word", limit=10_000)
            return memory.sessions(), sorted((str(each.hit.session), each.hit.entry_id) for each in found)

        before = state()
        memory.rebuild()
        assert before == state()
        assert memory.doctor().healthy
        listed = {meta.key for meta in memory.sessions().sessions}
        assert listed == {str(key) for key in memory.store.sessions()}
        kept = {path.name.split(".")[0] for path in data.rglob("*.meta.json")}
        assert kept <= {key.file_name for key in memory.store.sessions()}


def test_threads_that_write_and_list_miss_nothing(memory: Stratalog) -> None:
    """The same between threads of one process, on one object."""
    rng = random.Random(1)

    def write(name: int) -> None:
        for number in range(30):
            memory.session(f"a:cli:{rng.randrange(5)}").submit(f"word {name} {number}")

    def look() -> None:
        for _ in range(15):
            memory.search("word")
            memory.sessions()

    together(*(partial(write, name) for name in range(3)), look, look)
    assert len(memory.search("word", limit=1000)) == 90
    assert sum(meta.messages for meta in memory.sessions().sessions) == 90


def test_a_session_made_while_one_lists_is_not_missed(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A first append that is between its note and its file, when the list takes the notes, is waited for."""
    with Stratalog(data) as memory:
        memory.session("a:cli:other").submit("x")
        memory.sessions()
        listed: list[int] = []
        lister: list[threading.Thread] = []
        mark = memory._shared.mark

        def note(key: object) -> None:
            mark(memory.session("a:cli:new").key)
            if not lister:
                lister.append(threading.Thread(target=lambda: listed.append(len(memory.sessions().sessions))))
                lister[0].start()
                lister[0].join(0.3)  # it takes the note now, and then waits for this write

        store = memory.store
        options = store._options._replace(on_write=note)  # type: ignore[attr-defined] # of the JSONL store
        monkeypatch.setattr(store, "_options", options)
        memory.session("a:cli:new").submit("y")
        lister[0].join(20)
        assert listed == [2]
        assert len(memory.sessions().sessions) == 2


# --- doctor ---


def test_a_doctor_finds_and_repairs(data: Path) -> None:
    """Damage makes it unhealthy; repairing moves what is damaged, and removes what a crash left."""
    with Stratalog(data) as memory:
        talk(memory.session("a:cli:me"), "one", "two")
        assert memory.doctor().healthy
    path = next(data.rglob("*.jsonl"))
    lines = path.read_bytes().split(b"\n")
    lines[2] = b"garbage"
    path.write_bytes(b"\n".join(lines))
    (path.parent / "me.jsonl.tmp-abc").write_bytes(b"half")
    with Stratalog(data) as memory:
        found = memory.doctor()
        assert not found.healthy
        assert found.leftovers
        assert found.logs[0].problems
        mended = memory.doctor(repair=True)
        assert mended.moved
        assert mended.leftovers == []
        assert memory.doctor().healthy


def test_what_was_never_finished_is_no_illness(data: Path) -> None:
    """A half-made file is told and harms nobody; a deletion that was cut short does until it is finished."""
    with Stratalog(data) as memory:
        talk(memory.session("a:cli:me"), "one", "two")
        talk(memory.session("a:cli:you"), "three")
        log = next(data.rglob("*~me.jsonl"))
        half = log.with_name("cli~me.jsonl.tmp-abcdefgh")
        half.write_bytes(b"half")
        found = memory.doctor()
        assert (found.healthy, found.leftovers, found.undeleted) == (True, [half], [])
        grave = log.with_name("cli~gone.deleted")
        grave.write_bytes(next(data.rglob("*~you.jsonl")).read_bytes())
        found = memory.doctor()
        assert (found.healthy, found.leftovers, found.undeleted) == (False, [half, grave], [grave])
        mended = memory.doctor(repair=True)
        assert (mended.healthy, mended.leftovers) == (True, [])
        assert [path.name for path in (half, grave) if path.exists()] == []


def test_a_doctor_is_not_stopped_by_one_log(data: Path) -> None:
    """A log of a later version is told as a problem, and the others are verified."""
    with Stratalog(data) as memory:
        talk(memory.session("a:cli:one"), "x")
        talk(memory.session("a:cli:two"), "x")
    newer(next(data.rglob("*~one.jsonl")))
    with Stratalog(data) as memory:
        found = memory.doctor(repair=True)
        assert not found.healthy
        assert [log.key for log in found.logs if not log.problems] == ["local/a:cli:two"]
        with pytest.raises(NewerFormat):
            memory.session("a:cli:one").submit("y")


def test_closing_twice(data: Path) -> None:
    """Closing again does nothing; a memory that is used after all opens its files again."""
    memory = Stratalog(data)
    turn = memory.session("a:cli:me").turn("x")
    memory.search("x")
    memory.close()
    memory.close()
    assert turn.lost == "aborted"
    assert not list(data.rglob("*.lock"))
    memory.as_tenant("b").close()
    assert titles(memory) == ["x"]
    memory.close()


def test_entries_that_say_nothing_are_listed_too(memory: Stratalog) -> None:
    """A session of notes alone has a row, and one with a title by another source has that."""
    memory.session("a:cli:one").append(Note(kind="x"))
    memory.session("a:cli:two").append(
        System(content="s"), Title(title="Named", by="import"), Compaction(summary="s")
    )
    assert sorted(titles(memory)) == ["Named", "New session"]


def test_doctor_sees_that_the_list_is_damaged(tmp_path: Path) -> None:
    """Garbage in place of the list of sessions is told by doctor, and a rebuild mends it."""
    with Stratalog(tmp_path) as memory:
        memory.session("a:b:c").append(User(content="hello"))
        memory.sessions()
    catalog = tmp_path / "local" / "catalog.sqlite3"
    catalog.write_bytes(b"no database at all" * 100)
    for extra in ("-wal", "-shm"):
        catalog.with_name(catalog.name + extra).unlink(missing_ok=True)
    with Stratalog(tmp_path) as memory:
        checkup = memory.doctor()
        assert [problem.path for problem in checkup.derived] == [str(catalog)]
        assert not checkup.healthy
        memory.rebuild()
        assert memory.doctor().healthy


def test_repair_leaves_no_trace_of_what_was_lost(tmp_path: Path) -> None:
    """After a repair, list and search know only what is still in the log."""
    with Stratalog(tmp_path) as memory:
        session = memory.session("a:b:c")
        session.append(User(content="first"), User(content="xylophone"), User(content="last"))
        assert memory.search("xylophone")[0].hit.snippet == "xylophone"
        path = session_paths(tmp_path, session.key).log
        path.write_bytes(path.read_bytes().replace(b"xylophone", b"xylophonE"))
        assert memory.doctor(repair=True).healthy
        assert memory.search("xylophone") == []
        assert session.meta.messages == 2
        assert [meta.messages for meta in memory.sessions().sessions] == [2]


def test_another_kind_of_store_has_its_own_list(tmp_path: Path) -> None:
    """The list is of the store in use, in both directions."""
    for store, chat in (("jsonl", "one"), ("sqlite", "two")):
        with Stratalog(tmp_path, settings=Settings(store=store)) as memory:  # type: ignore[arg-type]
            memory.session(f"a:b:{chat}").append(User(content=f"word{chat}"))
            assert [meta.key for meta in memory.sessions().sessions] == [f"local/a:b:{chat}"]
    with Stratalog(tmp_path) as memory:
        assert [meta.key for meta in memory.sessions().sessions] == ["local/a:b:one"]
        assert memory.search("wordtwo") == []
        assert len(memory.search("wordone")) == 1


def test_a_fork_does_not_crowd_out_other_hits(tmp_path: Path) -> None:
    """An entry that several sessions have is found once."""
    with Stratalog(tmp_path) as memory:
        session = memory.session("a:b:c")
        session.append(User(content="peanut butter"), User(content="peanut oil"))
        for number in range(3):
            session.fork(f"a:b:fork{number}")
        found = memory.search("peanut", limit=2)
        assert sorted(each.hit.snippet for each in found) == ["peanut butter", "peanut oil"]


def test_a_snippet_shows_the_word(tmp_path: Path) -> None:
    """A word far into a long message is in what is shown of it."""
    with Stratalog(tmp_path) as memory:
        memory.session("a:b:c").append(User(content="so on and so forth " * 60 + "the zeppelin landed"))
        (found,) = memory.search("zeppelin")
        assert "zeppelin" in found.hit.snippet
