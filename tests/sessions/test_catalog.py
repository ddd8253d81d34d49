"""sessions/catalog.py: the list of sessions, its order and its pages, and what becomes of a damaged one."""

from __future__ import annotations

import base64
import sqlite3
import unicodedata
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.children import Child
from engine.threads import together
from stratalog.errors import DamagedLog, InvalidInput, LogBusy, NewerFormat
from stratalog.keys import session_key
from stratalog.sessions.catalog import FILE, Catalog, whose
from stratalog.sessions.meta import SessionMeta

WHOSE = (None, "ana", ["ana"], ["ben"], ["ana", "ben"], [7], {"ana": 1})
VERSION_3 = """
CREATE TABLE sessions (
    key TEXT NOT NULL, agent TEXT NOT NULL, channel TEXT NOT NULL, pinned INTEGER NOT NULL,
    updated_at INTEGER NOT NULL, seq INTEGER NOT NULL, stale INTEGER NOT NULL, meta BLOB NOT NULL,
    PRIMARY KEY (pinned DESC, updated_at DESC, key)) WITHOUT ROWID;
CREATE UNIQUE INDEX by_key ON sessions (key);
CREATE TABLE facts (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
INSERT INTO sessions VALUES ('local/a:cli:old', 'a', 'cli', 0, 1, 1, 0, '{"key": "local/a:cli:old"}');
INSERT INTO facts VALUES ('boot', 'one');
PRAGMA user_version = 3
"""


def meta(
    chat: str, updated: int = 0, *, agent: str = "a", channel: str = "cli", **more: object
) -> SessionMeta:
    key = session_key(agent, channel, chat)
    made = SessionMeta(key=str(key), updated_at=updated, seq=1, last="x", title=chat)
    return msgspec.structs.replace(made, **more)


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[Catalog]:
    made = Catalog(tmp_path / "tenant")
    yield made
    made.close()


def titles(catalog: Catalog, **how: object) -> list[str]:
    return [each.title for each in catalog.page(**how).sessions]  # type: ignore[arg-type] # of each kind


def test_pinned_come_first_then_the_newest(catalog: Catalog) -> None:
    """Pinned sessions, then the others, each by their last message, newest first; equal ones by key."""
    catalog.put(
        [meta("b", 2), meta("c", 3), meta("a", 3), meta("old", 1, pinned=True), meta("new", 9, pinned=True)]
    )
    assert titles(catalog) == ["new", "old", "a", "c", "b"]


def test_what_was_removed_leaves_the_file(catalog: Catalog) -> None:
    """After `scrub` no byte of a removed session is in the files; a reader in the way is told of."""
    catalog.put([meta(f"kept{number}") for number in range(200)])
    catalog.put([meta("quince")])
    reader = sqlite3.connect(catalog.path, isolation_level=None)
    reader.execute("BEGIN")
    reader.execute("SELECT * FROM sessions").fetchall()
    catalog.remove([session_key("a", "cli", "quince")])
    catalog._connected().execute("PRAGMA busy_timeout = 10")
    with pytest.raises(LogBusy):
        catalog.scrub()
    reader.close()
    catalog.scrub()
    files = list(catalog.path.parent.iterdir())
    assert not any(b"quince" in file.read_bytes() for file in files)
    assert len(catalog.keys()) == 200


def test_a_filter_is_exact(catalog: Catalog) -> None:
    """An agent or channel is matched whole and as it is written: no prefix, no wildcard, no case."""
    for agent in ("a", "ab", "A", "%", "_", "a%", "'; DROP TABLE sessions; --", "漢", "?"):
        catalog.put([meta(agent, agent=agent)])
    for agent in ("a", "ab", "A", "%", "_", "a%", "'; DROP TABLE sessions; --", "漢", "?"):
        assert titles(catalog, agent=agent) == [agent]
    assert titles(catalog, agent="nobody") == []
    assert titles(catalog, agent="\ud800") == []
    assert titles(catalog, agent="a", channel="cl") == []
    assert titles(catalog, agent="a", channel="cli") == ["a"]


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 3)), max_size=25), st.integers(1, 7))
def test_pages_together_are_the_list(rows: list[tuple[bool, int]], size: int) -> None:
    """Page by page one sees every session once, in the order of the whole list."""
    with TemporaryDirectory() as directory, closing(Catalog(Path(directory))) as catalog:
        catalog.put([meta(f"c{at}", when, pinned=pinned) for at, (pinned, when) in enumerate(rows)])
        seen: list[str] = []
        cursor = ""
        while True:
            page = catalog.page(limit=size, cursor=cursor)
            seen += [each.title for each in page.sessions]
            assert len(page.sessions) == size or not page.cursor
            cursor = page.cursor
            if not cursor:
                break
        assert seen == titles(catalog)
        assert len(seen) == len(rows)


@given(
    rows=st.lists(st.tuples(st.booleans(), st.integers(0, 3), st.sampled_from(WHOSE), st.text(max_size=3))),
    user=st.sampled_from(["", "ana", "ben", "\ud800", None]),
    title=st.sampled_from(["", "a", "SS", "ﬁ"]),
    size=st.integers(1, 4),
)
@settings(max_examples=60, deadline=None)
def test_whose_and_titled_is_a_query(
    rows: list[tuple[bool, int, object, str]], user: str | None, title: str, size: int
) -> None:
    """Page by page, in the order of the list, those that are this user's alone and have the words in their
    title: the same that Python finds."""
    metas = [
        meta(f"c{at}", when, pinned=pinned, metadata={"users": users} if users else {}, title=name)
        for at, (pinned, when, users, name) in enumerate(rows)
    ]
    with TemporaryDirectory() as directory, closing(Catalog(Path(directory))) as catalog:
        catalog.put(metas)
        seen: list[str] = []
        cursor = ""
        while True:
            page = catalog.page(user=user, title=title, limit=size, cursor=cursor)
            seen += [each.key for each in page.sessions]
            cursor = page.cursor
            assert len(page.sessions) == size or not cursor
            if not cursor:
                break

        def folded(text: str) -> str:
            return unicodedata.normalize("NFKC", text).casefold()

        wanted = [
            each.key
            for each in catalog.page().sessions
            if user in (None, whose(each.metadata)) and folded(title) in folded(each.title)
        ]
        assert seen == wanted
        own = [each for each in metas if user in (None, whose(each.metadata))]
        assert catalog.counted(user) == ({("a", "cli"): len(own)} if own else {})


def test_whose_a_session_is_may_change(catalog: Catalog) -> None:
    """What is said later of a session and its title are what it is found by."""
    catalog.put([meta("a", title="Trip"), meta("b", metadata={"users": ["ben"]})])
    catalog.put([meta("a", seq=2, metadata={"users": ["ana"]}, title="Sailing")])
    assert titles(catalog, user="ana", title="sail") == ["Sailing"]
    assert titles(catalog, user="") == titles(catalog, title="trip") == []
    assert titles(catalog, user="ben") == ["b"]
    assert catalog.counted() == {("a", "cli"): 2}


def test_a_users_page_looks_at_no_other_users_rows(catalog: Catalog) -> None:
    """The index answers, in the order of the list."""
    catalog.put([meta("a")])
    told = catalog._connected().execute(
        "EXPLAIN QUERY PLAN SELECT meta FROM sessions WHERE whose = ?"
        " ORDER BY pinned DESC, updated_at DESC, key LIMIT 50",
        (b"ana",),
    )
    plan = " ".join(row[3] for row in told)
    assert "USING INDEX by_whose (whose=?)" in plan
    assert "TEMP B-TREE" not in plan


def test_a_list_of_an_older_form_is_made_anew(catalog: Catalog) -> None:
    """One that does not know whose a session is becomes an empty one of today's form."""
    catalog.path.parent.mkdir(mode=0o700)
    with closing(sqlite3.connect(catalog.path, isolation_level=None)) as database:
        for statement in VERSION_3.split(";"):
            database.execute(statement)
    assert titles(catalog) == []
    assert catalog.fact("boot") == ""
    catalog.put([meta("a", metadata={"users": ["ana"]})])
    assert titles(catalog, user="ana") == ["a"]


def test_rows_that_change_between_pages(catalog: Catalog) -> None:
    """A session that moves up while one reads on is not in the way: those that stay are seen once each."""
    catalog.put([meta(f"c{number:02}", 100 - number) for number in range(20)])
    seen: list[str] = []
    cursor = ""
    for step in range(10):
        page = catalog.page(limit=3, cursor=cursor)
        seen += [each.title for each in page.sessions]
        cursor = page.cursor
        if not cursor:
            break
        catalog.put([meta(f"c{15 + step % 5:02}", 1000 + step, seq=step + 2), meta(f"n{step}", 2000)])
    stay = [f"c{number:02}" for number in range(15)]
    assert [title for title in seen if title in stay] == stay


@pytest.mark.parametrize(
    "cursor",
    [
        "x",
        "é",
        "\ud800",
        base64.urlsafe_b64encode(b"[1, 2]").decode(),
        base64.urlsafe_b64encode(b"[1, 2, 3]").decode(),
        base64.urlsafe_b64encode(b'[1, 99999999999999999999999, "k"]').decode(),
        base64.urlsafe_b64encode(b'{"a": 1}').decode(),
    ],
    ids=ascii,
)
def test_a_cursor_that_was_not_given_is_refused(catalog: Catalog, cursor: str) -> None:
    """Nonsense for a cursor is a typed error, whatever it is."""
    with pytest.raises(InvalidInput):
        catalog.page(limit=1, cursor=cursor)


def test_limits(catalog: Catalog) -> None:
    """A limit is at least 1 and as large as you like."""
    catalog.put([meta("a")])
    for limit in (0, -1):
        with pytest.raises(InvalidInput):
            catalog.page(limit=limit)
    assert len(catalog.page(limit=10**30).sessions) == 1


def test_an_older_state_does_not_replace_a_newer_one(catalog: Catalog) -> None:
    """Whoever is late with what was true before changes nothing."""
    catalog.put([meta("a", seq=5, messages=5)])
    catalog.put([meta("a", seq=4, messages=4)])
    found = catalog.get(session_key("a", "cli", "a"))
    assert found is not None
    assert found.messages == 5


def test_what_changed_is_stale_until_that_is_indexed(catalog: Catalog) -> None:
    """Marking as indexed what was there before a change does not hide the change."""
    key = session_key("a", "cli", "a")
    catalog.put([meta("a", seq=1)])
    ((stale, before),) = catalog.stale()
    assert stale == key
    catalog.put([meta("a", seq=2)])
    catalog.indexed(key, before)
    ((_, after),) = catalog.stale()
    catalog.indexed(key, after)
    assert catalog.stale() == []
    catalog.only_indexed({key: 2})
    assert catalog.stale() == []
    catalog.only_indexed({key: 1})
    assert len(catalog.stale()) == 1
    catalog.indexed(key, catalog.stale()[0][1])
    catalog.only_indexed({})
    assert len(catalog.stale()) == 1


def test_facts_and_keys(catalog: Catalog) -> None:
    """Notes are kept and replaced; the keys are those of the rows; removing forgets."""
    assert catalog.fact("boot") == ""
    catalog.note("boot", "one")
    catalog.note("boot", "two")
    assert catalog.fact("boot") == "two"
    catalog.put([meta("a"), meta("b")])
    key = session_key("a", "cli", "a")
    catalog.remove([key])
    assert catalog.keys() == {session_key("a", "cli", "b")}
    assert catalog.get(key) is None


def test_the_file_is_private(catalog: Catalog) -> None:
    """Nobody else may read the list, nor what SQLite keeps beside it."""
    catalog.put([meta("a")])
    for path in catalog.path.parent.iterdir():
        assert path.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("data", [b"not a database, but long enough to look" * 50, b"\0" * 8192])
def test_a_damaged_list_is_a_typed_error_and_can_be_made_anew(catalog: Catalog, data: bytes) -> None:
    """Damage is told with what to do; clearing makes a new, empty list in its place."""
    catalog.path.parent.mkdir(mode=0o700)
    catalog.path.write_bytes(data)
    with pytest.raises(DamagedLog) as caught:
        catalog.page()
    assert "rebuild" in caught.value.hint
    catalog.clear()
    catalog.put([meta("a")])
    assert titles(catalog) == ["a"]


def test_a_row_that_is_no_meta_is_damage(catalog: Catalog) -> None:
    """A row that cannot be understood is told as damage, not as a bug."""
    catalog.put([meta("a")])
    with closing(sqlite3.connect(catalog.path, isolation_level=None)) as database:
        database.execute("UPDATE sessions SET meta = 'nonsense'")
    with pytest.raises(DamagedLog):
        catalog.page()
    catalog.clear()
    assert titles(catalog) == []


def test_a_list_of_a_later_version_is_left_alone(catalog: Catalog) -> None:
    """A newer form is refused and not touched."""
    catalog.put([meta("a")])
    catalog.close()
    with closing(sqlite3.connect(catalog.path, isolation_level=None)) as database:
        database.execute("PRAGMA user_version = 99")
    for use in (catalog.page, catalog.clear):
        with pytest.raises(NewerFormat):
            use()
    with closing(sqlite3.connect(catalog.path)) as database:
        assert database.execute("SELECT count(*) FROM sessions").fetchone() == (1,)


def test_a_list_deleted_under_ones_hands(catalog: Catalog) -> None:
    """After somebody deleted the file the next use makes it anew, rather than writing where nobody looks."""
    catalog.put([meta("a")])
    for suffix in ("", "-wal", "-shm"):
        catalog.path.with_name(FILE + suffix).unlink(missing_ok=True)
    other = Catalog(catalog.path.parent)
    other.put([meta("b")])
    catalog.put([meta("c")])
    assert titles(other) == titles(catalog) == ["b", "c"]
    other.close()


def test_two_of_one_process_do_not_undo_each_others_locks(tmp_path: Path) -> None:
    """Opening a second time in one process does not drop the locks that the first one holds."""
    one, two = Catalog(tmp_path), Catalog(tmp_path)
    one.put([meta("seed")])

    def work(catalog: Catalog, name: str) -> None:
        for number in range(50):
            catalog.put([meta(f"{name}{number}")])
            catalog.close()

    together(partial(work, one, "x"), partial(work, two, "y"))
    assert len(titles(one)) == 101
    one.close()
    two.close()


@pytest.mark.crash
def test_processes_write_at_once(tmp_path: Path) -> None:
    """Rows from several processes, and from a forked child, are all there."""
    script = """
    from stratalog.sessions.catalog import Catalog
    from stratalog.sessions.meta import SessionMeta
    catalog = Catalog(Path(sys.argv[1]))
    def put(name, count):
        for number in range(count):
            catalog.put([SessionMeta(key=f"local/a:cli:{name}-{number}", seq=1)])
    put(sys.argv[2], 40)
    pid = os.fork()
    if pid == 0:
        put(sys.argv[2] + "-child", 20)
        os._exit(0)
    put(sys.argv[2] + "-parent", 20)
    os.waitpid(pid, 0)
    say("done")
    """
    children = [Child(script, tmp_path, name) for name in "abc"]
    try:
        for each in children:
            assert each.hear() == "done"
    finally:
        for each in children:
            each.kill()
    with closing(Catalog(tmp_path)) as catalog:
        assert len(catalog.keys()) == 240
