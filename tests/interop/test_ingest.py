"""Importing adds what is new, once, and stops for nothing."""

from __future__ import annotations

import json
from pathlib import Path

from stratalog import Stratalog
from stratalog.errors import ImportFailed
from stratalog.interop.ingest import import_files


def _chat(path: Path, *texts: str) -> Path:
    roles = ("user", "assistant")
    path.write_text(json.dumps([{"role": roles[n % 2], "content": text} for n, text in enumerate(texts)]))
    return path


def test_importing_twice_adds_nothing_and_growth_adds_the_new_part(tmp_path: Path) -> None:
    """The second import finds every entry present; a grown file brings only what it grew by."""
    file = _chat(tmp_path / "chat.json", "hello", "hi")
    with Stratalog(tmp_path / "data") as memory:
        (first,) = import_files(memory, [file])
        (again,) = import_files(memory, [file])
        assert first.sessions[0].added > 0
        assert (again.sessions[0].added, again.sessions[0].present) == (0, first.sessions[0].added)
        _chat(file, "hello", "hi", "what now?", "this")
        (grown,) = import_files(memory, [file])
        texts = [
            entry.text for entry in memory.session(grown.sessions[0].key).entries() if hasattr(entry, "text")
        ]
        assert texts == ["hello", "hi", "what now?", "this"]


def test_a_file_that_cannot_be_read_stops_nothing(tmp_path: Path) -> None:
    """Its error is its result, and the next file is imported."""
    bad = tmp_path / "bad.json"
    bad.write_text("{")
    good = _chat(tmp_path / "good.json", "hello")
    with Stratalog(tmp_path / "data") as memory:
        first, second = import_files(memory, [bad, good])
    assert isinstance(first.error, ImportFailed)
    assert second.error is None
    assert second.sessions[0].added > 0


def test_a_memory_does_not_take_in_its_own_logs(tmp_path: Path) -> None:
    """A log of the same data directory is refused by name; nothing is added."""
    with Stratalog(tmp_path / "data") as memory:
        with memory.session("a:b:c").turn("hello") as turn:
            turn.reply("hi")
        (log,) = (tmp_path / "data").rglob("*.jsonl")
        (result,) = import_files(memory, [log])
        assert isinstance(result.error, ImportFailed)
        assert len(memory.sessions().sessions) == 1
