"""What follows from the stamps of files: what to read, to tell and to forget; and the looks themselves."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stratalog import Stratalog
from stratalog.errors import ImportFailed, StoreBusy
from stratalog.interop.following import Following, Known, Plan, Stamp, listing, plan
from stratalog.interop.growing import changed_ends
from stratalog.interop.ingest import FileImport
from stratalog.types import AnyEntry, Assistant, TurnEnd, User

ONE, TWO = Stamp(1, 10, 100), Stamp(1, 20, 200)
FAILED = FileImport(Path("a"), error=ImportFailed("no"))


@pytest.mark.parametrize(
    ("files", "known", "expected"),
    [
        ({"a": ONE}, {}, Plan(("a",), (), ())),
        ({"a": Stamp(1, 0, 100)}, {}, Plan((), (), ())),
        ({"a": ONE}, {"a": Known(ONE)}, Plan((), (), ())),
        ({"a": TWO}, {"a": Known(ONE)}, Plan(("a",), (), ())),
        ({"a": Stamp(2, 10, 100)}, {"a": Known(ONE)}, Plan(("a",), (), ())),
        ({"a": Stamp(1, 5, 300)}, {"a": Known(ONE)}, Plan(("a",), (), ())),
        ({"a": Stamp(1, 0, 300)}, {"a": Known(ONE)}, Plan((), (), ())),
        ({"a": TWO}, {"a": Known(ONE, again=50.5)}, Plan((), (), ())),
        ({"a": TWO}, {"a": Known(ONE, again=50.0)}, Plan(("a",), (), ())),
        ({"b": ONE}, {"a": Known(ONE)}, Plan(("b",), ("a",), ())),
        ({"a": ONE}, {"a": Known(ONE, failure=FAILED)}, Plan((), (), ("a",))),
        ({"a": TWO}, {"a": Known(ONE, failure=FAILED)}, Plan(("a",), (), ())),
        ({"a": ONE}, {"a": Known(ONE, 60.0, FAILED, due=True)}, Plan((), (), ("a",))),
        ({"a": ONE}, {"a": Known(ONE, 40.0, due=True)}, Plan(("a",), (), ())),
    ],
)
def test_plan(files: dict[str, Stamp], known: dict[str, Known], expected: Plan) -> None:
    """New, grown, replaced, cut, emptied, read a moment ago, gone, failed, and refused by the memory."""
    assert plan(files, known, 50.0) == expected


_STAMPS = st.builds(Stamp, st.integers(1, 2), st.integers(0, 2), st.integers(1, 2))


@given(st.dictionaries(st.sampled_from("abc"), _STAMPS), st.dictionaries(st.sampled_from("abc"), _STAMPS))
def test_what_was_read_is_not_read_again(before: dict[str, Stamp], files: dict[str, Stamp]) -> None:
    """Exactly the files that are not empty and not as they were are read, and never one that is gone."""
    made = plan(files, {path: Known(stamp) for path, stamp in before.items()}, 0.0)
    assert set(made.read) == {
        path for path, stamp in files.items() if stamp.size and before.get(path) != stamp
    }
    assert set(made.gone) == before.keys() - files.keys()


def line(number: int, role: str = "user", session: str = "s") -> str:
    said = {"role": role, "content": f"words {number}"}
    told = {"type": role, "uuid": f"{session}-{number}", "sessionId": session, "message": said}
    after = f"{session}-{number - 1}" if number else None
    return json.dumps({"parentUuid": after, "isSidechain": False, "cwd": "/x", **told}) + "\n"


class Clock:
    """A clock that a test sets forward."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Stratalog]:
    with Stratalog(tmp_path / "data") as opened:
        yield opened


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "sessions"
    made.mkdir()
    return made


def words(memory: Stratalog, session: str = "s") -> list[str]:
    entries = memory.session(f"claude-code:import:{session}").entries()
    return [entry.text for entry in entries if isinstance(entry, User | Assistant)]


class Looks:
    """Looks at one folder, each a minute after the other, so that nothing is too early to be read again."""

    def __init__(self, memory: Stratalog, folder: Path) -> None:
        self.clock = Clock()
        self.following = Following(memory, [folder], clock=self.clock)

    def __call__(self) -> list[FileImport]:
        self.clock.now += 60
        return list(self.following.look())


@pytest.fixture
def look(memory: Stratalog, folder: Path) -> Iterator[Looks]:
    made = Looks(memory, folder)
    yield made
    made.following.close()


def test_a_file_that_grows(memory: Stratalog, folder: Path, look: Looks) -> None:
    """Lines come once, when they are whole; a torn one is no failure."""
    path = folder / "p" / "a.jsonl"
    path.parent.mkdir()
    assert look() == []
    third = line(2)
    path.write_text(line(0) + line(1, "assistant") + third[:40])
    (result,) = look()
    assert words(memory) == ["words 0", "words 1"]
    assert result.sessions[0].added == 3
    assert look() == []
    with path.open("a") as file:
        file.write(third[40:] + line(3, "assistant"))
    look()
    assert words(memory) == [f"words {number}" for number in range(4)]
    assert look() == []


def test_a_file_that_is_cut_replaced_moved_and_deleted(memory: Stratalog, folder: Path, look: Looks) -> None:
    """What was imported stays, and is not imported again; what is new in the file that came instead is."""
    path = folder / "a.jsonl"
    path.write_text(line(0) + line(1, "assistant"))
    look()
    path.write_text(line(0))
    assert look() == []
    fresh = folder / "fresh"
    fresh.write_text(line(0) + line(1, "assistant") + line(2))
    fresh.rename(path)
    look()
    path.rename(folder / "b.jsonl")
    assert look() == []
    (folder / "b.jsonl").unlink()
    assert look() == []
    (folder / "b.jsonl").write_text(line(0, session="other"))
    look()
    assert words(memory) == ["words 0", "words 1", "words 2"]
    assert words(memory, "other") == ["words 0"]


def test_an_unreadable_file_is_told_once(folder: Path, look: Looks) -> None:
    """Not when it is seen first, for it may be half written, and then not again until it changes."""
    path = folder / "a.jsonl"
    path.write_text("no transcript\n")
    assert look() == []
    (told,) = look()
    assert told.path == path
    assert told.error is not None
    assert look() == []
    path.write_text("still none\n")
    assert look() == []
    assert len(look()) == 1
    path.write_text(line(0))
    assert look()[0].error is None


def test_a_file_without_a_word_is_no_failure(folder: Path, look: Looks) -> None:
    """A session that was begun and in which nothing was said is not told of, and comes when something is."""
    path = folder / "a.jsonl"
    path.write_text(json.dumps({"type": "summary", "summary": "x", "leafUuid": "s-0"}) + "\n")
    assert [look(), look()] == [[], []]
    with path.open("a") as file:
        file.write(line(0))
    assert look()[0].sessions[0].added


def test_a_large_file_is_not_read_for_each_line(memory: Stratalog, folder: Path) -> None:
    """After a reading that took its time, the file is left alone for twenty times as long."""
    clock = Clock()
    path = folder / "a.jsonl"
    path.write_text("".join(line(number) for number in range(300)))
    with Following(memory, [folder], clock=clock) as following:
        assert list(following.look())
        again = following._known[str(path)].again
        assert again > clock.now
        with path.open("a") as file:
            file.write(line(300))
        assert list(following.look()) == []
        clock.now = again
        (result,) = following.look()
        assert result.sessions[0].added


def test_another_goes_on_where_one_was_killed(memory: Stratalog, folder: Path) -> None:
    """What was read is known to the next; what was not noted is read again, and adds nothing."""
    for name in "ab":
        (folder / f"{name}.jsonl").write_text(line(0, session=name))
    with Following(memory, [folder]) as first:
        assert len(list(first.look())) == 2
    with Following(memory, [folder]) as second:
        assert plan(listing([folder], memory.data).files, second._known, 0.0) == Plan((), (), ())
    noted = memory.data / "local" / "watch.json"
    for broken in ("", "{}", '{"version":9,"files":{}}'):
        noted.write_text(broken)
        with Following(memory, [folder]) as third:
            assert len(plan(listing([folder], memory.data).files, third._known, 0.0).read) == 2
            assert list(third.look()) == []
    assert memory.doctor().healthy


def test_one_follows_at_a_time(memory: Stratalog, folder: Path) -> None:
    """A second one for the same tenant is refused until the first has ended; another tenant's is not."""
    with Following(memory, [folder]):
        with pytest.raises(StoreBusy, match="follows folders"):
            Following(memory, [folder])
        Following(memory.as_tenant("acme"), [folder]).close()
    Following(memory, [folder]).close()


def test_folders_that_are_not_there(memory: Stratalog, tmp_path: Path) -> None:
    """A folder is waited for; one that may not be read is told; a file may be named itself."""
    later, named = tmp_path / "later", tmp_path / "one.txt"
    named.write_text(line(0))
    with Following(memory, [later, named]) as following:
        assert [each.path for each in following.look()] == [named]
        assert following.unlisted == {str(later): "No such file or directory"}
        later.mkdir()
        (later / "a.jsonl").write_text(line(0, session="later"))
        assert [each.path.name for each in following.look()] == ["a.jsonl"]
        assert following.unlisted == {}


def test_a_listing(memory: Stratalog, folder: Path) -> None:
    """Files with a transcript's ending at any depth; no links to folders, no pipes, nothing of the memory."""
    (folder / "deep" / "er").mkdir(parents=True)
    for name in ("a.jsonl", "deep/b.JSON", "deep/er/c.json", "d.txt"):
        (folder / name).write_text("x")
    (folder / "loop").symlink_to(folder)
    os.mkfifo(folder / "pipe.jsonl")
    (folder / "own").mkdir()
    (folder / "own" / "log.jsonl").write_text("x")
    (folder / "circle.jsonl").symlink_to("circle.jsonl")
    (folder / "nowhere.jsonl").symlink_to("not there")
    by_link = folder.parent / "link"
    by_link.symlink_to(folder)
    for named in (folder, by_link):
        found = listing([named], folder / "own")
        assert sorted(Path(path).name for path in found.files) == ["a.jsonl", "b.JSON", "c.json"]
        assert found.unlisted == {str(named / "circle.jsonl"): "Too many levels of symbolic links"}


def test_a_name_that_is_no_text(memory: Stratalog, folder: Path) -> None:
    """It is imported like any other, and read again by the next that follows, which adds nothing."""
    Path(os.fsdecode(os.fsencode(folder) + b"/\xff\xfe.jsonl")).write_text(line(0, session="odd"))
    (folder / "a.jsonl").write_text(line(0))
    with Following(memory, [folder]) as first:
        assert len(list(first.look())) == 2
    assert words(memory, "odd") == ["words 0"]
    with Following(memory, [folder]) as second:
        assert [Path(path).name for path in second._known] == ["a.jsonl"]
        assert list(second.look()) == []


def test_a_look_is_ended_between_two_files(memory: Stratalog, folder: Path) -> None:
    """Also where nothing is new in them, as after the note of what was read is lost; the rest comes later."""
    for name in "abc":
        (folder / f"{name}.jsonl").write_text(line(0, session=name))
    with Following(memory, [folder]) as first:
        assert len(list(first.look())) == 3
    (memory.data / "local" / "watch.json").unlink()
    with Following(memory, [folder]) as second:
        assert list(second.look(ended=lambda: True)) == []
        assert len(second._known) == 1
        assert list(second.look()) == []
        assert len(second._known) == 3


# --- the ends of turns ---


def ended(status: str, detail: str = "", id: str = "01ARZ3NDEKTSV4RRFFQ69G5FAV") -> TurnEnd:
    return TurnEnd(id=id, turn="t", status=status, detail=detail)  # type: ignore[arg-type]


ASKED, SAID = User(id="u", turn="t", content="x"), Assistant(id="a", turn="t", content="y")


def test_a_turn_that_went_on_ends_anew() -> None:
    """When the file says otherwise than the log, one more end is appended, once."""
    logged: list[AnyEntry] = [ASKED, ended("interrupted", "no reply")]
    source: list[AnyEntry] = [ASKED, SAID, ended("answered")]
    (made,) = changed_ends(source, logged)
    assert (made.status, made.turn) == ("answered", "t")
    assert made.id != ended("answered").id
    assert changed_ends(source, [*logged, SAID, made]) == []
    assert changed_ends(source, source) == []


def test_an_older_copy_corrects_nothing() -> None:
    """A source that lacks what the log has of the turn does not say how it ended."""
    logged: list[AnyEntry] = [ASKED, ended("interrupted"), SAID, ended("answered", id="")]
    assert changed_ends([ASKED, ended("interrupted")], logged) == []


def test_an_export_with_several_ends_is_as_it_was() -> None:
    """Of several ends in the source the last one counts, as in the log."""
    log: list[AnyEntry] = [
        ASKED,
        ended("interrupted"),
        SAID,
        ended("answered", id="01ARZ3NDEKTSV4RRFFQ69G5FAW"),
    ]
    assert changed_ends(log, log) == []


def test_the_log_says_how_a_turn_ended(memory: Stratalog, folder: Path, look: Looks) -> None:
    """A turn that was imported in its middle is answered in the end, and counts as such."""
    path = folder / "a.jsonl"
    path.write_text(line(0))
    look()
    session = memory.session("claude-code:import:s")
    assert session.meta.answered == 0
    with path.open("a") as file:
        file.write(line(1, "assistant"))
    look()
    assert [entry.status for entry in session.entries() if isinstance(entry, TurnEnd)] == [
        "interrupted",
        "answered",
    ]
    assert session.meta.answered == session.end
