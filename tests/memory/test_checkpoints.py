"""memory/checkpoints.py: what is stored of threads, what is found, and what goes with them."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from stratalog.errors import Conflict, ForeignFile, NewerFormat
from stratalog.memory.checkpoint_tables import Head, Space, Write
from stratalog.memory.checkpoints import Checkpoints
from stratalog.memory.pieces import Draft, Fresh, Kept

HOSTILE = ("", "a\0b", "../../etc", "a/b", "%", "_", "'; DROP TABLE threads; --", "\ud800", "é" * 3000, "\n")


def head(id: str, parent: str | None = None, run: str | None = None) -> Head:
    return Head(id, parent, run, ("k", b"state of " + id.encode("utf-8", "replace")), ("k", b"metadata"))


def whole(channel: str, value: bytes, version: str = "1") -> Draft:
    return Draft(channel, version, "k", (Fresh((value,)),))


def grown(made: Checkpoints, space: Space, count: int, users: tuple[str, ...] = ()) -> None:
    """A list that grows by a piece a checkpoint."""
    for at in range(count):
        base = made.known(space, str(at - 1), ()).held.get("list")
        parts = (Kept(0, at), Fresh((b"piece %d" % at,))) if base else (Fresh((b"piece 0",)),)
        draft = Draft("list", str(at), "k", parts, "list", 1, base.row if base else 0)
        assert made.put(space, head(str(at), str(at - 1) if at else None), (), [draft], users)


@pytest.fixture
def made(tmp_path: Path) -> Checkpoints:
    return Checkpoints(tmp_path / "graphs.sqlite3")


def counted(made: Checkpoints, path: Path) -> dict[str, int]:
    made.close()
    with sqlite3.connect(path) as db:
        names = [name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        return {
            name: db.execute(f"SELECT count(*) FROM {name}").fetchone()[0]
            for name in names
            if not name.startswith("sqlite_")
        }


def test_any_text_is_a_name(made: Checkpoints) -> None:
    """Threads, spaces, ids, tasks and channels may be any text; each is found by itself alone."""
    for name in HOSTILE:
        made.put(Space(name, name), head(name or "x", name), (), [whole(name, b"1")], [name])
        made.put_writes(Space(name, name), name or "x", [Write(name, name, 0, name, ("k", b"2"))])
    for name in HOSTILE:
        stored = made.get(Space(name, name), None)
        assert stored is not None
        assert (stored.space, stored.head.id, stored.head.parent) == (Space(name, name), name or "x", name)
        assert [each.channel for each in stored.contents] == [name]
        assert [each.task for each in stored.writes] == [name]
        assert len(made.find(name, None)) == 1
    assert len(made.find(None, None)) == len(HOSTILE)


def test_a_write_may_come_before_its_checkpoint(made: Checkpoints) -> None:
    """Writes of a checkpoint that is not there yet are no checkpoint, and are there when it comes."""
    space = Space("t", "")
    made.put_writes(space, "1", [Write("", "task", 0, "c", ("k", b"1"))])
    assert made.get(space, "1") is None
    assert made.find("t", None) == []
    assert made.put(space, head("1"), (), [], ())
    stored = made.get(space, "1")
    assert stored is not None
    assert [each.value for each in stored.writes] == [("k", b"1")]


def test_a_checkpoint_that_is_put_again_leaves_nothing_of_before(made: Checkpoints, tmp_path: Path) -> None:
    """What only the replaced one had is destroyed; what others have stays."""
    space = Space("t", "")
    grown(made, space, 3)
    made.put(space, head("2", "1"), (), [whole("list", b"other")], ())
    for id, wanted in (("1", (b"piece 0", b"piece 1")), ("2", (b"other",))):
        stored = made.get(space, id)
        assert stored is not None
        assert [each.pieces for each in stored.contents] == [wanted]
    assert counted(made, tmp_path / "graphs.sqlite3")["pieces"] == 2


def test_what_is_built_on_must_be_there(made: Checkpoints) -> None:
    """A checkpoint that keeps, or is built on, a content that is gone is not stored."""
    space = Space("t", "")
    grown(made, space, 2)
    base = made.known(space, "1", ()).held["list"].row
    made.delete_thread("t")
    grown(made, space, 2)
    assert not made.put(space, head("9"), [base], [], ())
    draft = Draft("list", "9", "k", (Kept(0, 1),), "list", 1, base)
    assert not made.put(space, head("9"), (), [draft], ())
    assert made.get(space, "9") is None


def test_a_thread_that_is_deleted_leaves_no_row(made: Checkpoints, tmp_path: Path) -> None:
    """Deleting threads, in whatever order, leaves the others whole and in the end nothing."""
    for name in ("a", "b"):
        grown(made, Space(name, ""), 5, ("ana",))
        grown(made, Space(name, "sub:1"), 2)
        made.put_writes(Space(name, ""), "4", [Write("", "task", 0, "c", ("k", b"1"))])
        with made.mirroring(name, f"local/agent:langgraph:{name}") as mirror:
            mirror.note(["m1"], 7)
    made.copy("a", "c")
    made.delete_thread("a")
    for name in ("b", "c"):
        stored = made.get(Space(name, ""), None)
        assert stored is not None
        assert stored.contents[0].pieces == tuple([b"piece %d" % each for each in range(5)])
        assert len(stored.writes) == 1
        made.delete_thread(name)
    assert set(counted(made, tmp_path / "graphs.sqlite3").values()) == {0}


def test_what_was_gathered_leaves_no_byte(made: Checkpoints, tmp_path: Path) -> None:
    """Pieces that were stored, and at once gathered with others, are purged with their thread."""
    space = Space("t", "")
    first = Fresh(tuple([b"secret %d" % at for at in range(200)]))
    made.put(space, head("0"), (), [Draft("list", "0", "k", (first,), "list", 1)], ())
    base = made.known(space, "0", ()).held["list"].row
    parts = (*[Kept(at, 1) for at in range(199, -1, -1)], Fresh((b"secret last",)))
    made.put(space, head("1", "0"), (), [Draft("list", "1", "k", parts, "list", 1, base)], ())
    stored = made.get(space, "1")
    assert stored is not None
    assert stored.contents[0].pieces == (*first.pieces[::-1], b"secret last")
    made.purge(whole=True)
    assert set(counted(made, tmp_path / "graphs.sqlite3").values()) == {0}
    assert not any(b"secret" in path.read_bytes() for path in tmp_path.iterdir())


def test_a_copy_has_a_place_of_its_own(made: Checkpoints) -> None:
    """A thread is not copied to one that has checkpoints."""
    grown(made, Space("a", ""), 1)
    grown(made, Space("b", ""), 1)
    with pytest.raises(Conflict):
        made.copy("a", "b")
    made.copy("nobody", "c")
    assert made.lasts("c") == {}


def test_pruning_keeps_what_is_still_needed(made: Checkpoints) -> None:
    """The last checkpoint of each space stays, and its ancestors down to one with a content of the channels
    that are named; one that came meanwhile stays too."""
    space = Space("t", "")
    for at in range(6):
        drafts = [whole("delta", b"seed")] if at == 2 else []
        made.put(space, head(str(at), str(at - 1) if at else None), (), drafts, ())
    made.prune("t", {"": ("4", ["delta"])})
    assert [each.id for each in made.find("t", "")] == ["5", "4", "3", "2"]
    made.prune("t", {"": ("5", [])})
    assert [each.id for each in made.find("t", "")] == ["5"]


def test_runs_are_deleted_by_their_name(made: Checkpoints) -> None:
    """What a run made goes in every thread and space, and nothing else."""
    for thread, name, id, run in (
        ("a", "", "1", "r"),
        ("a", "s", "2", "r"),
        ("b", "", "3", "r"),
        ("b", "", "4", "q"),
    ):
        made.put(Space(thread, name), head(id, None, run), (), [whole("c", b"1")], ())
    made.delete_runs(["r", "none"])
    assert [each.id for each in made.find(None, None)] == ["4"]


def test_a_page_goes_on_where_the_last_one_ended(made: Checkpoints) -> None:
    """Pages, the greatest id first, have each checkpoint once; two of the same id are told apart."""
    for thread in ("a", "b"):
        for at in range(5):
            made.put(Space(thread, ""), head(str(at)), (), [], ())
    seen: list[tuple[str, int]] = []
    while page := made.find(None, None, after=seen[-1] if seen else None, limit=3):
        seen += [(each.id, each.row) for each in page]
    assert len(set(seen)) == 10
    assert [id for id, _ in seen] == sorted([id for id, _ in seen], reverse=True)
    assert [each.id for each in made.find("a", "", before="3", limit=2)] == ["2", "1"]


def test_a_purge_takes_whose_it_is_alone(made: Checkpoints, tmp_path: Path) -> None:
    """A user's purge takes the threads that name nobody else, a session's the one that it follows; the bytes
    are gone from the files."""
    made.put(Space("own", ""), head("1"), (), [whole("c", b"secret of ana")], ["ana"])
    made.put(Space("shared", ""), head("1"), (), [whole("c", b"shared")], ["ana", "bo"])
    made.put(Space("followed", ""), head("1"), (), [whole("c", b"secret followed")], ())
    with made.mirroring("followed", "local/agent:langgraph:followed"):
        pass
    wanted = {"threads": 2, "checkpoints": 2}
    sessions = ["local/agent:langgraph:followed"]
    assert made.purge(users=["ana"], sessions=sessions, dry_run=True) == wanted
    assert made.purge(users=["ana"], sessions=sessions) == wanted
    assert made.purge(users=["ana"], sessions=sessions) == {"threads": 0, "checkpoints": 0}
    assert [each.id for each in made.find("shared", None)] == ["1"]
    made.close()
    assert not any(b"secret" in path.read_bytes() for path in tmp_path.iterdir())
    assert made.purge(whole=True)["threads"] == 1
    assert made.find(None, None) == []


def test_a_file_of_another_program_or_a_later_version_is_left_alone(tmp_path: Path) -> None:
    """Neither is written to, nor read as if it were ours."""
    path = tmp_path / "graphs.sqlite3"
    made = Checkpoints(path)
    grown(made, Space("t", ""), 1)
    made.close()
    with sqlite3.connect(path) as db:
        db.execute("PRAGMA user_version = 99")
    before = path.read_bytes()
    with pytest.raises(NewerFormat):
        made.get(Space("t", ""), None)
    assert path.read_bytes() == before
    other = tmp_path / "other.sqlite3"
    with sqlite3.connect(other) as db:
        db.execute("CREATE TABLE theirs (x)")
    with pytest.raises(ForeignFile):
        Checkpoints(other).put_writes(Space("t", ""), "1", [])


def test_reading_makes_no_file(made: Checkpoints, tmp_path: Path) -> None:
    """Who only asks leaves nothing behind."""
    assert made.get(Space("t", ""), None) is None
    assert made.find(None, None) == []
    assert made.history(Space("t", ""), None, ["c"]) == {"c": ([], None)}
    assert made.purge(whole=True) == {"threads": 0, "checkpoints": 0}
    assert list(tmp_path.iterdir()) == []
