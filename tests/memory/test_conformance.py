"""Every store of records keeps the contract: the suite that Stratalog ships, run on each of ours."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest

from memory.embedder import Embedder, Mem0Lab, need_mem0, quick_directory
from stratalog.conformance.records import CASES, NEEDS, Lab, lacking
from stratalog.memory.contract import Capabilities, RecordStore
from stratalog.memory.inmemory import InMemoryRecords
from stratalog.memory.mem0 import Mem0Records
from stratalog.memory.sqlite import FILE, SqliteRecords
from stratalog.recall.terms import query_terms, terms


def _sqlite(path: Path) -> RecordStore:
    return SqliteRecords(path / "tenant" / FILE, terms=terms, query_terms=query_terms)


def _inmemory(path: Path) -> RecordStore:
    return InMemoryRecords(terms=terms, query_terms=query_terms)


STORES: dict[str, Callable[[Path], Lab]] = {
    "sqlite": lambda path: Lab(lambda: _sqlite(path)),
    "inmemory": lambda path: Lab(lambda: _inmemory(path), durable=False),
    "plain words": lambda path: Lab(lambda: SqliteRecords(path / FILE, terms=str.split)),
}


@pytest.mark.parametrize("store", STORES)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_contract(case: Callable[[Lab], None], store: str, tmp_path: Path) -> None:
    """The case's docstring states the promise."""
    lab = STORES[store](tmp_path)
    if missing := lacking(case, lab.store.capabilities):
        pytest.skip(f"declared: no {', '.join(missing)}")
    case(lab)


@pytest.fixture
def mem0_lab(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Mem0Lab]:
    """mem0 over a local Qdrant, with an embedder that tells as many words apart as the case has."""
    need_mem0()
    dims = 1536 if "many_scopes" in request.node.name else 64
    with Embedder(dims) as embedder, quick_directory(tmp_path) as path:
        lab = Mem0Lab(embedder, path)
        yield lab
        lab.close()


# A local Qdrant reads all that it has for each question.
LONG = ("many_scopes", "pages_are_complete", "a_purge_has_no_limit")


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, marks=pytest.mark.long) if case.__name__ in LONG else case
        for case in CASES
        if not lacking(case, Mem0Records.capabilities)
    ],
    ids=lambda case: case.__name__,
)
def test_contract_in_mem0(case: Callable[[Lab], None], mem0_lab: Mem0Lab) -> None:
    """The case's docstring states the promise."""
    case(mem0_lab)


@pytest.mark.parametrize(
    "case",
    [case for case in CASES if lacking(case, Mem0Records.capabilities)],
    ids=lambda case: case.__name__,
)
def test_more_than_mem0_declares(case: Callable[[Lab], None], mem0_lab: Mem0Lab) -> None:
    """What needs transactions holds too while one process writes and mem0 does not fail: the declared lack is
    of what happens otherwise. So no case is skipped."""
    assert lacking(case, mem0_lab.store.capabilities) == ("transactions",)
    case(mem0_lab)


def test_our_stores_can_do_all() -> None:
    """Neither of our own declares a lack, so no case is skipped for ours."""
    for store in (SqliteRecords, InMemoryRecords):
        can = store.capabilities
        assert (can.transactions, can.history, can.tombstones, can.validity, can.search) == (True,) * 5
        assert not can.external


@pytest.mark.parametrize("name", ["transactions", "history", "tombstones", "validity", "search"])
def test_what_is_declared_missing_is_not_held_against_a_store(name: str) -> None:
    """Each capability that a store may lack takes cases out, and `lacking` names it."""
    without = msgspec.structs.replace(Capabilities(name="x"), **{name: False})
    skipped = [case for case in CASES if lacking(case, without)]
    assert skipped
    assert all(lacking(case, without) == (name,) for case in skipped)
    assert set(NEEDS) <= set(CASES)
