"""What the engine's tests share: a data directory, a memory in it, and a session."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from stratalog.engine.core import Stratalog
from stratalog.engine.session import Session
from stratalog.log.contract import Verifies


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.fixture
def memory(data: Path) -> Iterator[Stratalog]:
    """A memory whose logs are verified when the test is done."""
    with Stratalog(data) as made:
        yield made
        assert isinstance(made.store, Verifies)
        for key in list(made.store.sessions()):
            assert made.store.verify(key).problems == ()


@pytest.fixture
def chat(memory: Stratalog) -> Session:
    return memory.session("a:cli:me")
