"""Data directories: one with the demo's transcript, copied for each test, and one with hostile text."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from stratalog import Stratalog
from stratalog.demo import transcript_path
from surfaces.terminals import cli

CHAT = "7c1f0a52-3b9e-4d1e-9a57-61c0de2b8f14"


@pytest.fixture(scope="session")
def imported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data directory with the demo's transcript. Not to be changed."""
    data = tmp_path_factory.mktemp("imported") / "data"
    result = cli("import", transcript_path(), data=data)
    assert result.exit_code == 0, result.output
    return data


@pytest.fixture
def data(imported: Path, tmp_path: Path) -> Path:
    """The same, for this test alone."""
    copy = tmp_path / "data"
    shutil.copytree(imported, copy)
    return copy


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """A data directory with three short sessions."""
    data = tmp_path / "small"
    with Stratalog(data) as memory:
        for chat, message in (
            ("alpha-one", "Plan a trip"),
            ("alpha-two", "Planting beans"),
            ("beta", "你好世界"),
        ):
            with memory.session(f"helper:cli:{chat}").turn(message) as turn:
                turn.reply(f"About {message}: yes.")
    return data
