"""Every store keeps the contract: the suite that Stratalog ships, run on each of ours."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from stratalog.conformance.log import CASES, Lab
from stratalog.log.inmemory import InMemoryStore
from stratalog.log.jsonl import JsonlStore
from stratalog.log.sqlite import SqliteStore

STORES: dict[str, Callable[[Path], Lab]] = {
    "jsonl": lambda path: Lab(lambda: JsonlStore(path)),
    "sqlite": lambda path: Lab(lambda: SqliteStore(path)),
    "inmemory": lambda path: Lab(InMemoryStore, durable=False),
}


@pytest.mark.parametrize("store", STORES)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_contract(case: Callable[[Lab], None], store: str, tmp_path: Path) -> None:
    """The case's docstring states the promise."""
    case(STORES[store](tmp_path))
