"""A purge killed at each of its steps: it is noted, finished by the next, and takes nothing else with it."""

from __future__ import annotations

import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from crash.processes import run
from engine.estates import PLAIN, build, holding, key_of, marker, opened, seen
from stratalog import points
from stratalog.engine.purging import PurgeReceipt, purge, resume_purges, unfinished
from stratalog.engine.remembering import ADMIN, Records, Selector
from stratalog.keys import purge_note_path

pytestmark = pytest.mark.crash

USER = Selector("user", "ana")
TENANT = Selector("tenant")
STORES = ("jsonl", "sqlite")
OWN = [point for point in points.POINTS if point.startswith("purging.")]
OF_OTHERS = [f"delete.{step}" for step in ("renamed", "archive", "done")]
OF_OTHERS += [f"purge.{step}" for step in ("batch", "deleted", "vacuumed")]


@pytest.fixture(scope="module")
def estates(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A data directory of each kind of store. Not to be changed."""
    made = {}
    for store in STORES:
        made[store] = tmp_path_factory.mktemp(store) / "data"
        build(made[store], store)
        build(made[store], store, tenant="other")
    return made


def cases() -> Iterator[Any]:
    """At which arrival at which point a purge dies, with which store of logs."""
    for store in STORES:
        for point in OWN:
            selector = TENANT if point == "purging.files" else USER
            yield pytest.param(store, point, 1, selector, id=f"{store}-{point}")
        yield pytest.param(store, "purging.session", 2, USER, id=f"{store}-purging.session-2")
        yield pytest.param(store, "purging.list", 1, TENANT, id=f"{store}-purging.list-tenant")
        yield pytest.param(store, "purging.told", 1, TENANT, id=f"{store}-purging.told-tenant")
    for point in OF_OTHERS:
        yield pytest.param("jsonl", point, 1, USER, id=f"jsonl-{point}")


def die_at(data: Path, store: str, point: str, nth: int, selector: Selector) -> None:
    def work(say: object) -> None:
        with opened(data, store) as memory, Records(memory) as records:
            points.arm(point, nth)
            purge(memory, records, records.caller(roles=(ADMIN,)), selector)

    assert run(work) == -signal.SIGKILL, "the point was not reached"


def resumed(data: Path, store: str) -> list[PurgeReceipt]:
    with opened(data, store) as memory, Records(memory) as records:
        assert unfinished(memory) is not None
        return resume_purges(memory, records)


def by_the_next(data: Path, store: str) -> list[PurgeReceipt]:
    """Finished by a purge of something else, whose receipt is not of this."""
    with opened(data, store) as memory, Records(memory) as records:
        admin = records.caller(roles=(ADMIN,))
        purge(memory, records, admin, Selector("run", "nothing at all"))
        assert [line.reason for line in records.audit() if line.call == "purge"][-2:] == ["user", "run"]
    return []


@pytest.mark.parametrize(("store", "point", "nth", "selector"), list(cases()))
def test_a_killed_purge_is_finished(
    store: str, point: str, nth: int, selector: Selector, estates: dict[str, Path], tmp_path: Path
) -> None:
    """What it was about is gone from every store and every file, with the numbers of before it began; all
    else is what an undisturbed purge leaves."""
    data, twin = tmp_path / "data", tmp_path / "twin"
    shutil.copytree(estates[store], data)
    shutil.copytree(estates[store], twin)
    with opened(twin, store) as memory, Records(memory) as records:
        whole = purge(memory, records, records.caller(roles=(ADMIN,)), selector)

    die_at(data, store, point, nth, selector)
    (receipt,) = resumed(data, store)

    check(data, twin, store, receipt, whole)


@pytest.mark.parametrize("point", ["purging.intended", "purging.logs", "purging.records"])
def test_the_next_purge_finishes_it(point: str, estates: dict[str, Path], tmp_path: Path) -> None:
    """Also one of something else; the audit then has a line of each."""
    data, twin = tmp_path / "data", tmp_path / "twin"
    shutil.copytree(estates["jsonl"], data)
    shutil.copytree(estates["jsonl"], twin)
    with opened(twin) as memory, Records(memory) as records:
        purge(memory, records, records.caller(roles=(ADMIN,)), USER)
    die_at(data, "jsonl", point, 1, USER)
    by_the_next(data, "jsonl")
    assert same(seen(data), seen(twin))
    assert not purge_note_path(data, "local").exists()


@pytest.mark.parametrize("point", ["purging.session", "purging.logs", "purging.repaired"])
def test_killed_again_while_it_is_resumed(point: str, estates: dict[str, Path], tmp_path: Path) -> None:
    """The receipt at last still says what there was at first."""
    data, twin = tmp_path / "data", tmp_path / "twin"
    shutil.copytree(estates["jsonl"], data)
    shutil.copytree(estates["jsonl"], twin)
    with opened(twin) as memory, Records(memory) as records:
        whole = purge(memory, records, records.caller(roles=(ADMIN,)), USER)
    die_at(data, "jsonl", "purging.session", 1, USER)

    def work(say: object) -> None:
        with opened(data) as memory, Records(memory) as records:
            points.arm(point)
            resume_purges(memory, records)

    assert run(work) == -signal.SIGKILL
    (receipt,) = resumed(data, "jsonl")
    check(data, twin, "jsonl", receipt, whole)


def check(data: Path, twin: Path, store: str, receipt: PurgeReceipt, whole: PurgeReceipt) -> None:
    """Whether it came to what the undisturbed purge of the twin came to."""
    assert receipt.resumed
    assert receipt.selector == whole.selector
    for mine, its in zip(receipt.stores, whole.stores, strict=True):
        assert (mine.store, numbers(mine.before), mine.after) == (its.store, numbers(its.before), its.after)
    assert sum(sum(each.after.values()) for each in receipt.stores) == 0
    assert (receipt.kept, receipt.shared) == (whole.kept, whole.shared)
    local = data / "local"
    gone = ("ana1", "ana2") if receipt.selector == USER else ("ana1", "bo1", "both", "nobody", "e1")
    for chat in gone:
        assert holding(local, marker(chat)) == []
    if receipt.selector == TENANT:
        assert [path.name for path in local.iterdir()] == ["audit.jsonl"]
    assert not purge_note_path(data, "local").exists()
    for tenant in ("local", "other"):
        assert same(seen(data, store, tenant), seen(twin, store, tenant))
    with opened(data, store) as memory, Records(memory) as records:
        memory.session(key_of(PLAIN, "ana1")).submit("it goes on")
        assert resume_purges(memory, records) == []
        assert [hit.hit.session.chat for hit in memory.search("goes on")] == ["ana1"]


def numbers(counts: dict[str, int]) -> dict[str, int]:
    """Without the sizes of files, of which a database that is open has one more or less."""
    return {name: count for name, count in counts.items() if name not in ("bytes", "files")}


def same(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """Whether the two show the same, but for when what was left was put right."""
    timeless = _timeless(one), _timeless(other)
    assert timeless[0].keys() == timeless[1].keys()
    for name, value in timeless[0].items():
        assert value == timeless[1][name], name
    return True


def _timeless(shown: dict[str, Any]) -> dict[str, Any]:
    settle: dict[str, Callable[[Any], Any]] = {
        "record": lambda value: (str(value[0]).partition("updated_at")[0], value[1])
    }
    return {name: settle.get(name.partition(" ")[0], lambda v: v)(value) for name, value in shown.items()}
