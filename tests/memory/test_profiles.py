"""memory/profiles.py: pages that a pass writes and a person edits, their limits, their versions and undo."""

from __future__ import annotations

import os
import signal
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from crash.processes import Say, child
from stratalog import osfiles
from stratalog.conformance.records import record
from stratalog.errors import Conflict, InvalidInput, NotFound, StorageFailed
from stratalog.ids import new_ulid, now_ms
from stratalog.memory import profiles as module
from stratalog.memory.contract import Record
from stratalog.memory.profiles import (
    MAX_WORDS,
    SNAPSHOTS,
    Profile,
    ProfileFiles,
    Traces,
    Update,
    parse,
    render,
    shown,
    stamped,
    updated,
)


def fact(number: int, text: str = "", **more: Any) -> Record:
    return record(number, text=text or f"Fact {number}.", **more)


def facts(count: int) -> list[Record]:
    return [fact(number) for number in range(count)]


def page(*records: Record, text: str = "") -> Profile:
    return updated(parse(text), records).profile


def visible(profile: Profile) -> list[str]:
    return [line for line in shown(profile).split("\n") if line.strip()]


# --- reading ---

BITS = [
    "# Ann",
    "## Facts ##",
    "\n",
    "\r\n",
    "```\n",
    "~~~",
    "---\n",
    "<!-- ",
    " -->",
    "- Lives in Lisbon",
    " <!-- from: 01HF7YAT00AAAAAAAAAAAAAAAA #0123456789ab -->\n",
    "<!-- stratalog: watermark 17 written 0123abcd -->",
]
TEXTS = st.text() | st.lists(st.sampled_from(BITS) | st.text(max_size=5)).map("".join)


@given(TEXTS)
def test_what_is_read_is_written(text: str) -> None:
    """Any text is a page, and the page is that text."""
    assert render(parse(text)) == text


@given(TEXTS, st.lists(st.text(min_size=1), max_size=4))
def test_a_pass_keeps_every_line_of_a_person(text: str, told: list[str]) -> None:
    """Whatever the page and the records hold: what a person wrote stays, in its order, and the same pass
    again changes nothing."""
    records = [fact(number, words) for number, words in enumerate(told)]
    before = parse(text)
    update = updated(before, records)
    assert parse(render(update.profile)) == update.profile
    new = [line.raw.rstrip("\r") for section in update.profile.sections for line in section.lines]
    rest = iter(new)
    old = [
        line.raw.rstrip("\r")
        for section in before.sections
        for line in section.lines
        if line.kind != "state" and line.raw.strip()
    ]
    assert all(line in rest for line in old)
    assert updated(update.profile, records) == Update(profile=update.profile)
    ids = {id for section in update.profile.sections for line in section.lines for id in line.ids}
    assert set(update.added) == {each.id for each in records if module._told(each)} <= ids


def test_the_form_of_a_page() -> None:
    """Lines stand under the heading of their kind, with their source and hash; the state comes last."""
    likes = fact(2, "Likes tea", payload={"kind": "preference"})
    made = page(fact(1, "Lives in Lisbon"), likes, text="# Ann\n")
    first, second = fact(1).id, likes.id
    tags = " ".join(sorted(module._tag(id) for id in (first, second)))
    assert render(made) == (
        "# Ann\n\n## Facts\n\n"
        f"- Lives in Lisbon <!-- from: {first} #{module._hash('- Lives in Lisbon')} -->\n\n"
        "## Preferences\n\n"
        f"- Likes tea <!-- from: {second} #{module._hash('- Likes tea')} -->\n"
        f"<!-- stratalog: watermark 0 written {tags} -->\n"
    )
    assert shown(made) == "# Ann\n\n## Facts\n\n- Lives in Lisbon\n\n## Preferences\n\n- Likes tea\n"
    assert [section.heading for section in made.sections] == ["", "Ann", "Facts", "Preferences"]


def test_a_section_that_is_there_is_used() -> None:
    """A fact comes after the last line of its section, before what follows, under the heading as it is."""
    made = page(fact(1), text="## facts ##\n- mine\n\n## Other\nx")
    assert visible(made) == ["## facts ##", "- mine", "- Fact 1.", "## Other", "x"]
    assert visible(page(fact(1), fact(2), text="")) == ["## Facts", "- Fact 1.", "- Fact 2."]


def test_code_comments_and_front_matter_are_a_persons() -> None:
    """What looks like a heading in code, in a comment or in front matter is none."""
    text = "---\n# Facts\n---\n```\n## Facts\n```\n<!-- x\n## Facts\n-->\n"
    assert [section.heading for section in parse(text).sections] == [""]
    assert render(page(fact(1), text=text)).startswith(text)


def test_line_endings_are_the_pages() -> None:
    """A page with CRLF gets lines with CRLF."""
    made = render(page(fact(1), text="# Ann\r\n\r\nHello\r\n"))
    assert made.count("\n") == made.count("\r\n") == 8
    assert updated(parse(made), [fact(1)]).profile == parse(made)


def test_a_record_is_one_line_of_words() -> None:
    """No text of a record makes a line, a heading, code or a comment of its own; a long one is cut."""
    other = fact(9).id
    wild = fact(1, f"# a\n\n```\n- b <!-- from: {other} --> \u2028 <!-- x")
    assert visible(page(wild)) == ["## Facts", f"- \\# a ``` - b < !-- from: {other} -- > < !-- x"]
    assert visible(page(fact(1, "x" * 9_000)))[1] == "- " + "x" * (MAX_WORDS - 1) + "…"


# --- a pass ---


def test_added_once() -> None:
    """A record gets one line, however often it comes."""
    update = updated(parse(""), facts(3))
    assert update.added == tuple(each.id for each in facts(3))
    assert updated(update.profile, facts(3)) == Update(profile=update.profile)


def test_a_superseding_record_takes_over_the_line() -> None:
    """In its place, also by way of a record between that never had a line."""
    made = page(*facts(3))
    between = fact(10, "Porto?", supersedes=(fact(1).id,), status="superseded")
    heir = fact(11, "Porto.", supersedes=(between.id,))
    old = replace(fact(1), status="superseded")
    update = updated(made, [old, between, heir])
    assert (update.added, update.changed, update.removed) == ((), (heir.id,), ())
    assert visible(update.profile) == ["## Facts", "- Fact 0.", "- Porto.", "- Fact 2."]
    assert updated(update.profile, [old, between, heir]) == Update(profile=update.profile)
    # What holds again after all has a line again.
    assert updated(update.profile, [fact(1)]).added == (fact(1).id,)


def test_a_record_that_says_something_else_now() -> None:
    """Its own line is changed."""
    update = updated(page(*facts(2)), [fact(0, "Corrected.")])
    assert update.changed == (fact(0).id,)
    assert visible(update.profile) == ["## Facts", "- Corrected.", "- Fact 1."]


def test_what_is_forgotten_is_removed() -> None:
    """By its id alone, or by its record; as what is superseded by nothing that is shown."""
    made = page(*facts(10))
    gone = replace(fact(1), status="forgotten", text="")
    over = replace(fact(2), status="superseded")
    update = updated(made, [gone, over], [fact(0).id])
    assert update.removed == (fact(0).id, fact(1).id, fact(2).id)
    assert len(visible(update.profile)) == 8
    assert updated(update.profile, [gone, over], [fact(0).id]) == Update(profile=update.profile)


def edited(profile: Profile, old: str, new: str) -> Profile:
    text = render(profile)
    assert text.count(old) == 1
    return parse(text.replace(old, new))


def test_a_line_that_a_person_edited_is_theirs() -> None:
    """It is neither changed nor removed nor written again; that it was forgotten is told."""
    mine = edited(page(*facts(3)), "- Fact 1.", "- Fact 1, as I see it.")
    assert updated(mine, [fact(1, "Corrected.")]) == Update(profile=mine)
    assert updated(mine, [], [fact(1).id]) == Update(profile=mine, kept=(fact(1).id,))
    heir = fact(9, "New.", supersedes=(fact(1).id,))
    update = updated(mine, [replace(fact(1), status="superseded"), heir])
    assert visible(update.profile) == [
        "## Facts",
        "- Fact 0.",
        "- Fact 1, as I see it.",
        "- Fact 2.",
        "- New.",
    ]


def test_a_line_that_a_person_deleted_stays_away() -> None:
    """Its record is not written again; what supersedes it is."""
    made = page(*facts(3))
    raw = next(line.raw for line in made.sections[1].lines if fact(1).id in line.ids)
    mine = edited(made, raw + "\n", "")
    assert updated(mine, facts(3)) == Update(profile=mine)
    assert updated(mine, [fact(9, supersedes=(fact(1).id,))]).added == (fact(9).id,)


@pytest.mark.parametrize(("count", "gone", "limit", "refused"), [
    (10, 3, 0.3, False),
    (10, 4, 0.3, True),
    (100, 29, 0.29, False),
    (2, 1, 0.3, False),
    (2, 1, 0.0, True),
    (10, 9, 1.0, False),
    (1, 1, 1.0, True),
    (10, 10, 1.0, True),
])  # fmt: skip
def test_how_much_may_go(count: int, gone: int, limit: float, refused: bool) -> None:
    """More than the share, or all that the page says, and the pass is refused as a whole."""
    made = page(*facts(count))
    ids = [each.id for each in facts(gone)]
    update = updated(made, [fact(500)] if limit < 1 else [], ids, limit_removed=limit)
    assert bool(update.refused) is refused
    if refused:
        assert update == Update(profile=made, refused=update.refused)
    else:
        assert len(update.removed) == gone


def test_a_page_may_be_emptied_when_told_so() -> None:
    """Then its headings stay."""
    update = updated(page(fact(1)), [], [fact(1).id], limit_removed=1, may_empty=True)
    assert (update.refused, visible(update.profile)) == ("", ["## Facts"])
    alone = parse(next(line.raw for line in page(fact(1)).sections[1].lines if line.ids))
    update = updated(alone, [], [fact(1).id], limit_removed=1, may_empty=True)
    assert (update.removed, visible(update.profile)) == ((fact(1).id,), [])


def test_a_full_page() -> None:
    """What finds no room is told, the least sure first, and comes in later."""
    sure, unsure = fact(2, confidence=0.9), fact(1, confidence=0.2)
    update = updated(page(fact(0)), [unsure, sure], limit_lines=2)
    assert (update.added, update.left_out) == ((sure.id,), (unsure.id,))
    assert updated(update.profile, [unsure], limit_lines=3).added == (unsure.id,)


def test_refused_limits() -> None:
    """Limits that are none and headings of two lines raise."""
    for how in (
        {"limit_removed": 1.1},
        {"limit_lines": 0},
        {"sections": {"": "a\n# b"}},
        {"sections": {"": ""}},
    ):
        with pytest.raises(InvalidInput):
            updated(parse(""), [], **how)  # type: ignore[arg-type]
    with pytest.raises(InvalidInput):
        stamped(parse(""), -1)


def test_stamped() -> None:
    """The watermark is read back, replaced in its place, and nothing else is touched."""
    once = stamped(parse("a\n"), 17)
    assert (once.watermark, render(once)) == (17, "a\n<!-- stratalog: watermark 17 written -->\n")
    after = parse(render(once) + "b")
    assert render(stamped(after, 18)) == "a\n<!-- stratalog: watermark 18 written -->\nb"
    assert stamped(after, 17) is after
    assert parse("a").watermark == 0


# --- the file ---


@pytest.fixture
def files(tmp_path: Path) -> ProfileFiles:
    return ProfileFiles(tmp_path / "memory" / "MEMORY.md")


def adding(*records: Record, gone: tuple[str, ...] = (), **how: Any) -> Callable[[Profile], Update]:
    return lambda profile: updated(profile, records, gone, **how)


def test_written_and_read(files: ProfileFiles) -> None:
    """A pass writes page and watermark, for its owner alone; reading makes nothing."""
    assert files.read() == parse("")
    assert not files.path.parent.exists()
    update = files.refresh(adding(fact(1)), watermark=5)
    assert (update.added, update.profile.watermark) == ((fact(1).id,), 5)
    assert ProfileFiles(files.path).read() == update.profile
    files.refresh(adding(fact(2)), watermark=6)
    for path in [files.path, *files.history.iterdir()]:
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(files.history.stat().st_mode) == 0o700


def test_bytes_that_are_no_text(files: ProfileFiles) -> None:
    """A person's file in another encoding stays as it is, around what is added."""
    files.path.parent.mkdir()
    files.path.write_bytes(b"# caf\xe9\n\xff\x00\n")
    files.refresh(adding(fact(1)), watermark=1)
    assert files.path.read_bytes().startswith(b"# caf\xe9\n\xff\x00\n\n## Facts\n")


def test_a_pass_with_nothing_new(files: ProfileFiles) -> None:
    """It moves the watermark and keeps no version; with the same watermark it does not write at all."""
    files.refresh(adding(fact(1)), watermark=1)
    kept = files.snapshots()
    files.refresh(adding(fact(1)), watermark=2)
    assert (files.read().watermark, files.snapshots()) == (2, kept)
    before = files.path.stat()
    files.refresh(adding(fact(1)), watermark=2)
    assert files.path.stat() == before


def test_a_refused_pass_writes_nothing(files: ProfileFiles) -> None:
    """Page, versions and watermark are as they were."""
    files.refresh(adding(*facts(10)), watermark=1)
    before = (files.path.read_bytes(), files.snapshots())
    assert files.refresh(adding(gone=tuple(each.id for each in facts(9))), watermark=2).refused
    assert (files.path.read_bytes(), files.snapshots()) == before


def test_undo(files: ProfileFiles) -> None:
    """It puts back the page of before, byte for byte but for the watermark; again, the page of after. The
    next pass does not repeat what was undone."""
    files.refresh(adding(*facts(2)), watermark=1)
    one = shown(files.read())
    files.refresh(adding(fact(7), fact(0, "Corrected.")), watermark=2)
    two = files.path.read_bytes()
    assert shown(files.undo()) == one
    assert files.read().watermark == 2
    assert shown(files.undo()) == shown(module._decoded(two))
    assert files.path.read_bytes() == two
    assert len(files.snapshots()) == 2
    files.undo()
    assert len(files.snapshots()) == 2
    assert files.refresh(adding(fact(7)), watermark=3).added == ()
    assert shown(files.read()) == one


def test_nothing_to_undo(files: ProfileFiles) -> None:
    """Without a version there is nothing to put back."""
    with pytest.raises(NotFound):
        files.undo()


def test_undo_keeps_what_a_person_wrote_since(files: ProfileFiles) -> None:
    """An edit made after the pass is in the version that the undo keeps."""
    files.refresh(adding(*facts(2)), watermark=1)
    files.refresh(adding(fact(7)), watermark=2)
    files.path.write_bytes(files.path.read_bytes() + b"mine\n")
    assert "mine" not in shown(files.undo())
    assert shown(files.undo()).endswith("\nmine\n")


def test_the_last_versions_are_kept(files: ProfileFiles) -> None:
    """Twenty of them, newest first, whatever the clock says."""
    for number in range(SNAPSHOTS + 5):
        files.refresh(adding(fact(number)), watermark=number)
    counts = [text.count("- Fact") for _, text in files.snapshots()]
    assert counts == list(range(SNAPSHOTS + 4, 4, -1))
    newest = files.history / f"{new_ulid(now_ms() + 86_400_000)}.md"
    newest.write_text("of tomorrow")
    files.refresh(adding(fact(99)), watermark=99)
    assert [text.count("- Fact") for _, text in files.snapshots()][:3] == [SNAPSHOTS + 5, 0, SNAPSHOTS + 4]


def test_an_edit_in_the_middle_of_a_pass(files: ProfileFiles) -> None:
    """What a person saves while a pass works is kept, and the pass made on it; endless edits are refused."""
    files.refresh(adding(fact(1)), watermark=1)
    edits = iter([b"mine\n"])

    def slowly(profile: Profile) -> Update:
        update = updated(profile, [fact(2)])
        files.path.write_bytes(files.path.read_bytes() + next(edits, b""))
        return update

    files.refresh(slowly, watermark=2)
    assert visible(files.read()) == ["## Facts", "- Fact 1.", "- Fact 2.", "mine"]
    edits = iter([b"x\n"] * 10)
    with pytest.raises(Conflict):
        files.refresh(lambda profile: replace(slowly(profile), profile=parse("")), watermark=3)
    assert "- Fact 2." in shown(files.read())


def test_forgetting_reaches_the_versions(files: ProfileFiles) -> None:
    """No undo brings back a line that was forgotten; and a purge leaves nothing."""
    files.refresh(adding(*facts(5)), watermark=1)
    files.refresh(adding(gone=(fact(0).id,)), watermark=2)
    assert files.forget([fact(0).id]) == 1
    assert files.forget([fact(0).id]) == 0
    assert not any("Fact 0" in text for _, text in files.snapshots())
    files.purge()
    assert list(files.path.parent.iterdir()) == []


def test_what_is_destroyed_is_in_no_version(files: ProfileFiles) -> None:
    """The line leaves page and versions, and no version with it is kept; the watermark stays, and no pass
    brings it back. What a person edited stays, and is told."""
    files.refresh(adding(*facts(5)), watermark=1)
    files.refresh(adding(gone=(fact(4).id,)), watermark=2)
    assert files.traces([fact(0).id]) == Traces(pages=1, versions=1, lines=2)
    assert files.traces().pages == 1
    before = len(files.snapshots())
    files.path.with_name(f"{files.path.name}.tmp-left").write_text("Fact 0")
    files.destroy([fact(0).id])
    assert files.traces([fact(0).id]) == Traces()
    assert "Fact 0" not in "".join(
        file.read_text() for file in files.path.parent.rglob("*") if file.is_file()
    )
    assert (len(files.snapshots()), files.read().watermark) == (before, 2)
    files.refresh(adding(fact(0)), watermark=3)
    assert "Fact 0" not in files.path.read_text()
    files.path.write_text(files.path.read_text().replace("Fact 1", "My fact 1"))
    files.destroy([fact(1).id])
    assert files.traces([fact(1).id]).kept == (fact(1).id,)
    assert "My fact 1" in files.path.read_text()


def test_nothing_is_made_to_be_destroyed(tmp_path: Path) -> None:
    """Of a page that is not there nothing is found, and nothing is made."""
    files = ProfileFiles(tmp_path / "nowhere" / "USER.md")
    assert files.traces() == files.traces([fact(0).id]) == Traces()
    files.destroy([fact(0).id])
    files.purge()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs Linux")
def test_what_the_system_refuses(files: ProfileFiles) -> None:
    """It is a typed error, and the page is as it was."""
    files.refresh(adding(fact(1)), watermark=1)
    before = files.path.read_bytes()
    os.rename(files.history, files.path.parent / "away")
    files.history.write_text("no directory")
    with pytest.raises(StorageFailed):
        files.refresh(adding(fact(2)), watermark=2)
    assert files.path.read_bytes() == before


@pytest.mark.crash
@pytest.mark.parametrize("act", ["pass", "undo"])
@pytest.mark.parametrize("nth", [1, 2, 3, 4])
def test_killed_anywhere(nth: int, act: str, files: ProfileFiles) -> None:
    """After kill -9 around either replacing there is the page of before or of after, and what was done is
    done once: the pass made again adds each record once, and an undo leads back."""
    files.refresh(adding(*facts(2)), watermark=1)
    files.refresh(adding(fact(2)), watermark=2)
    before = files.path.read_bytes()

    def work(say: Say) -> None:
        left = [nth]

        def die(real: Callable[..., None]) -> Callable[..., None]:
            def replacing(*given: Any, **how: Any) -> None:
                for done in (False, True):
                    left[0] -= 1
                    if left[0] == 0:
                        os.kill(os.getpid(), signal.SIGKILL)
                    if not done:
                        real(*given, **how)

            return replacing

        osfiles.replace_file = die(osfiles.replace_file)
        if act == "pass":
            files.refresh(adding(fact(3)), watermark=3)
        else:
            files.undo()
        say("not killed")

    with child(work) as killed:
        assert killed.hear_all() == []
        assert killed.wait() == -signal.SIGKILL
    replaced = nth == 4
    assert (files.path.read_bytes() != before) is replaced
    if act == "pass":
        update = files.refresh(adding(fact(3)), watermark=3)
        assert update.added == (() if replaced else (fact(3).id,))
        assert visible(files.read())[1:] == [f"- Fact {number}." for number in range(4)]
        assert [text.count("- Fact") for _, text in files.snapshots()] == [3, 2, 0]
        assert visible(files.undo())[1:] == [f"- Fact {number}." for number in range(3)]
    else:
        assert len(visible(files.undo())) == (4 if replaced else 3)
        assert len(visible(files.undo())) == (3 if replaced else 4)


def test_an_edit_while_the_new_page_is_written_is_seen(files: ProfileFiles, monkeypatch: Any) -> None:
    """Also one that is saved after the pass looked and before it replaces the file."""
    files.refresh(adding(*facts(2)), watermark=1)
    sync, edits = osfiles.sync, iter(["mine\n"])

    def edited(fd: int) -> None:
        sync(fd)
        for words in edits:
            files.path.write_text(files.path.read_text() + words)

    monkeypatch.setattr(osfiles, "sync", edited)
    files.refresh(adding(*facts(3)), watermark=2)
    assert "mine" in files.path.read_text()
    assert "Fact 2." in files.path.read_text()


def test_what_is_closed_nowhere_is_looked_for_once() -> None:
    """So that a page of many beginnings is read in time that grows with its length alone."""
    text = "<!-- a\n```\n~~~~ b\n" * 20_000
    assert render(parse(text)) == text
