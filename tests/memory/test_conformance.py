"""Every store of records keeps the contract: the suite that Stratalog ships, run on each of ours."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from stratalog.conformance.records import CASES, NEEDS, Lab, lacking
from stratalog.memory.contract import Capabilities, RecordStore
from stratalog.memory.inmemory import InMemoryRecords
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


def test_our_stores_can_do_all() -> None:
    """Neither declares a lack, so no case is skipped for ours."""
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
