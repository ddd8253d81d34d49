"""The door: the format of a file, reading it, finding candidates, and refusals that say what to do."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from interop.samples import jsonl
from stratalog.errors import ImportFailed
from stratalog.interop.detect import FORMATS, detect, find_transcripts, read_transcript
from stratalog.interop.export import to_jsonl
from stratalog.types import User

CLAUDE = {"parentUuid": None, "isSidechain": False, "type": "user", "uuid": "a", "sessionId": "s"}
SAID = {"message": {"role": "user", "content": "hi"}}
SAMPLES: list[tuple[str, str, bytes | Any]] = [
    ("stratalog", "a.jsonl", b"".join(to_jsonl([User(id="01ARZ3NDEKTSV4RRFFQ69G5FAV", ts=1, content="hi")]))),
    ("codex", "a.jsonl", jsonl({"timestamp": "2026-01-01", "type": "session_meta", "payload": {"id": "c"}})),
    (
        "codex",
        "a.jsonl",
        jsonl({"id": "c", "timestamp": "2025-05-01T00:00:00Z", "instructions": "Be brief."}),
    ),
    (
        "pi",
        "a.jsonl",
        jsonl(
            {"type": "session", "id": "p"}, {"type": "message", "message": {"role": "user", "content": "hi"}}
        ),
    ),
    (
        "gemini_cli",
        "a.json",
        {"sessionId": "g", "projectHash": "f", "messages": [{"type": "user", "content": "hi"}]},
    ),
    ("chatgpt", "a.json", {"title": "t", "mapping": {"a": {"message": None}}, "current_node": "a"}),
    ("chatgpt", "a.json", [{"title": "t", "mapping": {"a": {"message": None}}}]),
    ("claude_code", "a.jsonl", jsonl(CLAUDE | SAID)),
    ("pi", "a.jsonl", b"\xef\xbb\xbf" + jsonl({"type": "session", "id": "p"})),
    ("claude_code", "a.jsonl", jsonl({"type": "summary", "summary": "x", "leafUuid": "b"}, CLAUDE | SAID)),
    ("claude_code", "a.jsonl", jsonl({"type": "user", "sessionId": "s"} | SAID)),
    ("claude_code", "a.json", {"loglines": [{"type": "user"} | SAID]}),
    ("anthropic", "a.json", [{"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t"}]}]),
    ("anthropic", "a.json", {"system": "Be kind.", "messages": [{"role": "user", "content": "hi"}]}),
    ("openai", "a.json", [{"role": "user", "content": "hi"}]),
    ("openai", "a.json", {"messages": [{"role": "system", "content": "Be kind."}]}),
    ("openai", "a.jsonl", jsonl({"messages": [{"role": "user", "content": 'about parentUuid: "isMeta":'}]})),
]


@pytest.mark.parametrize(("format", "name", "data"), SAMPLES)
def test_detect(format: str, name: str, data: Any, tmp_path: Path) -> None:
    """Each format is known by its own marks, and read without being told which it is."""
    path = tmp_path / name
    path.write_bytes(data if isinstance(data, bytes) else json.dumps(data).encode())
    assert detect(path) == format
    assert read_transcript(path).report.format == format


def test_every_format_is_tried() -> None:
    """The samples above have every format of the table."""
    assert {format for format, _, _ in SAMPLES} == set(FORMATS)
    assert all(name == importer.name for name, importer in FORMATS.items())


@pytest.mark.parametrize("data", [b"", b"  \n", b"hello\n", b"\x00" * 500, b'{"x": 1}', b"\xff\xfe{"])
def test_not_a_transcript(data: bytes, tmp_path: Path) -> None:
    """A file of no known format is refused with its path and the formats there are."""
    path = tmp_path / "a.jsonl"
    path.write_bytes(data)
    with pytest.raises(ImportFailed) as caught:
        read_transcript(path)
    assert caught.value.where["path"] == path
    assert "claude_code" in caught.value.hint


def test_wrong_format(tmp_path: Path) -> None:
    """A file read as what it is not is refused with the line where that shows."""
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"{torn\n{torn\n")
    with pytest.raises(ImportFailed) as caught:
        read_transcript(path, format="codex")
    assert caught.value.where["line"] == 1
    with pytest.raises(ImportFailed, match="no such format"):
        read_transcript(path, format="word")


def test_missing(tmp_path: Path) -> None:
    """A path that is not there is refused by detecting, reading and finding alike."""
    path = tmp_path / "none.jsonl"
    for ask in (detect, read_transcript, lambda path: find_transcripts([path])):
        with pytest.raises(ImportFailed):
            ask(path)


def test_progress(tmp_path: Path) -> None:
    """Progress ends with all bytes done, for lines and for documents."""
    for name, data in (
        ("a.jsonl", jsonl(CLAUDE | SAID) * 3),
        ("a.json", b'[{"role":"user","content":"hi"}]'),
    ):
        path = tmp_path / name
        path.write_bytes(data)
        told: list[tuple[int, int]] = []
        read_transcript(path, progress=lambda done, total, told=told: told.append((done, total)))  # type: ignore[misc]
        assert told[-1] == (len(data), len(data))


def test_find(tmp_path: Path) -> None:
    """Folders give their JSON files, sorted and each once; a named file is taken as it is."""
    for name in ("b/x.jsonl", "a/deep/y.JSON", "a/z.txt", "named.log"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("{}")
    found = find_transcripts([tmp_path, tmp_path / "b", tmp_path / "named.log"])
    assert [str(path.relative_to(tmp_path)) for path in found] == ["a/deep/y.JSON", "b/x.jsonl", "named.log"]
