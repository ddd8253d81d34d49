"""engine/profiling.py: MEMORY.md and USER.md are made of records, by passes that can be repeated."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from stratalog.engine.core import Stratalog
from stratalog.engine.profiling import PageOf, current_words, page_files, refresh
from stratalog.engine.remembering import Records
from stratalog.errors import InvalidInput, NotFound
from stratalog.memory.contract import Layer, Record, Scope
from stratalog.memory.policy import Draft
from stratalog.memory.profiles import render

ANA = Scope("user", "ana")
BOT = Scope("agent", "bot")


@pytest.fixture
def records(memory: Stratalog) -> Iterator[Records]:
    with Records(memory) as made:
        yield made


def say(
    records: Records,
    key: str,
    text: str,
    *,
    scope: Scope = ANA,
    layer: Layer = Layer.LONG,
    replaces: bool = False,
    environment: str = "production",
) -> Record:
    user, agent = (scope.id, "") if scope.kind == "user" else ("", scope.id)
    who = records.caller(user=user, agent=agent, environment=environment)
    draft = Draft(layer=layer, scope=scope, key=key, text=text, replaces=replaces)
    done = records.service.remember(who, draft)
    assert done.record is not None
    return done.record


def forget(records: Records, record: Record) -> None:
    records.service.forget(records.caller(user=record.scope.id), id=record.id)


def end(records: Records, record: Record) -> None:
    """Closes it with what is on no page."""
    say(records, record.key, f"not {record.text}", layer=Layer.SHORT, replaces=True)


def page(records: Records, scope: Scope = ANA, environment: str = "production") -> str:
    """The file's text; "" where there is none."""
    return render(page_files(records.data, records.tenant, PageOf(scope, environment)).read())


def pass_over(records: Records, after: int = 0, **how: float) -> int:
    return refresh(records.store, records.data, records.tenant, after=after, **how).watermark


def test_each_scope_has_a_page_of_its_own(records: Records) -> None:
    """Of users and agents, with lasting records alone, each line with its record; a second pass over the same
    writes nothing."""
    home = say(records, "home", "Ana lives in Lisbon")
    say(records, "deploy", "Deploys go out on Tuesdays", scope=BOT, layer=Layer.MID)
    say(records, "glance", "hello → hello", layer=Layer.SHORT)
    say(records, "home", "Ben lives in Bergen", scope=Scope("user", "ben"))
    done = refresh(records.store, records.data, records.tenant)
    assert [(each.page.name, each.page.scope.id, each.added) for each in done.pages] == [
        ("MEMORY.md", "bot", 1),
        ("USER.md", "ana", 1),
        ("USER.md", "ben", 1),
    ]
    assert f"- Ana lives in Lisbon <!-- from: {home.id}" in page(records)
    assert "hello" not in page(records)
    assert "Bergen" not in page(records)
    assert "Tuesdays" in page(records, BOT)
    assert (records.data / "local/users/ana/USER.md").read_text() == page(records)
    assert (records.data / "local/agents/bot/memory/MEMORY.md").read_text() == page(records, BOT)
    before = page(records)
    assert refresh(records.store, records.data, records.tenant).pages == ()
    assert refresh(records.store, records.data, records.tenant, after=done.watermark).pages == ()
    assert page(records) == before


def test_what_changes_is_followed(records: Records) -> None:
    """A correction takes over its line, what is forgotten goes, in the kept versions too."""
    say(records, "home", "Ana lives in Lisbon")
    say(records, "tea", "Ana drinks tea")
    cat = say(records, "cat", "Ana has a cat called Pim")
    upto = pass_over(records)
    say(records, "home", "Ana lives in Porto", replaces=True)
    forget(records, cat)
    pass_over(records, upto, most_removed=0.5)
    assert "Porto" in page(records)
    assert "Lisbon" not in page(records)
    assert "Pim" not in page(records)
    files = page_files(records.data, records.tenant, PageOf(ANA))
    assert files.snapshots()
    assert not any("Pim" in text for _, text in files.snapshots())


def test_a_pass_that_would_remove_too_much_leaves_the_page(records: Records) -> None:
    """It says why; with more allowed it is done, from where the page itself was, and can be undone."""
    made = [say(records, f"k{number}", f"Fact {number} of Ana") for number in range(4)]
    upto = pass_over(records)
    before = page(records)
    for each in made[:3]:
        end(records, each)
    done = refresh(records.store, records.data, records.tenant, after=upto)
    assert [each.refused for each in done.pages] == ["it would remove 3 of 4 lines; 30% may go"]
    assert page(records) == before
    say(records, "k9", "Fact 9 of Ana")
    again = refresh(records.store, records.data, records.tenant, after=done.watermark)
    assert again.pages[0].refused
    forced = refresh(records.store, records.data, records.tenant, only=PageOf(ANA), most_removed=1.0)
    assert (forced.pages[0].removed, forced.pages[0].added) == (3, 1)
    files = page_files(records.data, records.tenant, PageOf(ANA))
    assert "Fact 3" in render(files.undo())
    assert "Fact 9" not in page(records)


def test_what_is_forgotten_leaves_the_page_however_much_it_is(records: Records) -> None:
    """It is no loss that a limit is for, also where nothing is left; the kept versions lose it too."""
    made = [say(records, f"k{number}", f"Fact {number} of Ana") for number in range(3)]
    upto = pass_over(records)
    for each in made[:2]:
        forget(records, each)
    upto = pass_over(records, upto)
    assert "Fact 2" in page(records)
    assert "Fact 0" not in page(records)
    forget(records, made[2])
    pass_over(records, upto)
    assert "Fact 2" not in page(records)
    files = page_files(records.data, records.tenant, PageOf(ANA))
    assert not any("Fact 0" in text or "Fact 2" in text for _, text in files.snapshots())


def test_environments_have_pages_apart(records: Records) -> None:
    """What is tried out is on no page of production."""
    say(records, "home", "Ana lives on the moon", environment="eval")
    pass_over(records)
    assert page(records) == ""
    assert "moon" in page(records, environment="eval")
    assert not (records.data / "local/users/ana/USER.md").exists()


def test_what_does_not_hold_any_more_is_not_shown(records: Records) -> None:
    """Also where no pass came by since, and only that."""
    home = say(records, "home", "Ana lives in Lisbon")
    tea = say(records, "tea", "Ana drinks tea")
    pass_over(records)
    forget(records, home)
    profile = page_files(records.data, records.tenant, PageOf(ANA)).read()
    words, ids = current_words(records.store, PageOf(ANA), profile)
    assert words == "## Facts\n\n- Ana drinks tea"
    assert ids == {tea.id}


def test_only_agents_and_users_have_a_page(tmp_path: Path) -> None:
    """Asking for another is an error; undoing where nothing was is `NotFound`."""
    with pytest.raises(InvalidInput):
        page_files(tmp_path, "local", PageOf(Scope("tenant")))
    with pytest.raises(NotFound):
        page_files(tmp_path, "local", PageOf(ANA)).undo()
