"""Importing adds what is new, once, and stops for nothing."""

from __future__ import annotations

import json
import os
from collections import defaultdict
from pathlib import Path

import msgspec
import pytest

from stratalog import Stratalog
from stratalog.errors import ImportFailed
from stratalog.ids import derived_ulid
from stratalog.interop.export import to_jsonl
from stratalog.interop.ingest import import_files
from stratalog.types import Blob, System, TurnStart, User, text_of

# What is the store's own, and need not come back.
_STORES: defaultdict[type, dict[str, int]] = defaultdict(
    lambda: {"seq": 0}, {TurnStart: {"seq": 0, "fence": 0}}
)


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


def _imported(memory: Stratalog, *files: Path) -> list[tuple[str, int]]:
    """Imports the files: of each the chat it went to and how many entries were new."""
    results = list(import_files(memory, files))
    assert not [result.error for result in results if result.error]
    return [(made.key.chat, made.added) for result in results for made in result.sessions]


def _texts(memory: Stratalog, chat: str, agent: str = "openai") -> list[str]:
    entries = memory.session(f"{agent}:import:{chat}").entries()
    return [text_of(entry.content) for entry in entries if hasattr(entry, "content")]


@pytest.mark.parametrize(
    ("one", "two"),
    [
        (["Plan a trip", "Where to?"], ["Plant beans", "In May."]),
        (["hello", "hi", "Plan a trip"], ["hello", "hi", "Plant beans"]),
        (["hello", "hi"], ["hello", "Good day!"]),
        (["a"], ["b"]),
    ],
)
def test_strangers_of_one_file_name_stay_apart(tmp_path: Path, one: list[str], two: list[str]) -> None:
    """Files of one name in two folders are two sessions, in whichever order they come, and when they grow."""
    for name in ("x", "y", "z"):
        (tmp_path / name).mkdir()
    first, second = _chat(tmp_path / "x" / "chat.json", *one), _chat(tmp_path / "y" / "chat.json", *two)
    with Stratalog(tmp_path / "data") as memory:
        made = _imported(memory, first, second)
        assert [chat for chat, _ in made] == ["chat", "chat-2"]
        assert _imported(memory, first, second) == [("chat", 0), ("chat-2", 0)]
        assert _imported(memory, second, first) == [("chat-2", 0), ("chat", 0)]
        _chat(second, *two, *"xyz")
        assert [chat for chat, added in _imported(memory, second, first) if added] == ["chat-2"]
        _chat(first, *one, *"uvw")
        assert [chat for chat, added in _imported(memory, first, second) if added] == ["chat"]
        third = _chat(tmp_path / "z" / "chat.json", "Something else")
        assert [chat for chat, _ in _imported(memory, third, first, second)] == ["chat-3", "chat", "chat-2"]
        assert _texts(memory, "chat") == [*one, *"uvw"]
        assert _texts(memory, "chat-2") == [*two, *"xyz"]
        assert _texts(memory, "chat-3") == ["Something else"]


def test_a_session_of_the_memory_is_no_place_for_a_file(tmp_path: Path) -> None:
    """A conversation that was held here is not added to; one that was imported and went on here is found."""
    file = _chat(tmp_path / "chat.json", "hello", "hi")
    with Stratalog(tmp_path / "data") as memory:
        with memory.session("openai:import:chat").turn("mine") as turn:
            turn.reply("yours")
        assert _imported(memory, file)[0][0] == "chat-2"
        with memory.session("openai:import:chat-2").turn("and on") as turn:
            turn.reply("so")
        assert _imported(memory, file) == [("chat-2", 0)]
        assert _texts(memory, "chat") == ["mine", "yours"]


def test_files_with_only_instructions_are_told_apart(tmp_path: Path) -> None:
    """Where nothing was said yet the first entries count, and the conversation that follows finds them."""
    files = [tmp_path / name / "chat.json" for name in "xy"]
    for file in files:
        file.parent.mkdir()
        file.write_text(json.dumps([{"role": "system", "content": f"Be {file.parent.name}."}]))
    with Stratalog(tmp_path / "data") as memory:
        assert [chat for chat, _ in _imported(memory, *files)] == ["chat", "chat-2"]
        grown = [{"role": "system", "content": "Be y."}, {"role": "user", "content": "hello"}]
        files[1].write_text(json.dumps(grown))
        assert [chat for chat, _ in _imported(memory, *files)] == ["chat", "chat-2"]
        assert _texts(memory, "chat-2") == ["Be y.", "hello"]


def test_another_name_is_noted(tmp_path: Path) -> None:
    """The report says which session a file went to when it is not the one of its name."""
    files = [tmp_path / name / "chat.json" for name in "xy"]
    for file in files:
        file.parent.mkdir()
        _chat(file, f"hello {file.parent.name}")
    with Stratalog(tmp_path / "data") as memory:
        first, second = import_files(memory, files)
    assert first.report is not None
    assert second.report is not None
    assert first.report.notes == []
    assert second.report.notes == ["chat: another conversation has this name; the chat of this one is chat-2"]


@pytest.mark.parametrize(
    ("format", "line"),
    [
        ("codex", {"type": "response_item", "payload": {"type": "message", "role": "user", "content": "%s"}}),
        ("claude_code", {"type": "user", "uuid": "%s", "message": {"role": "user", "content": "%s"}}),
        ("pi", {"type": "message", "id": "%s", "message": {"role": "user", "content": "%s"}}),
        ("gemini_cli", {"type": "user", "id": "%s", "content": "%s"}),
    ],
)
def test_every_format_that_lost_its_id_is_named_with_care(
    tmp_path: Path, format: str, line: dict[str, object]
) -> None:
    """Records of other programs without their session's id are no more merged than plain messages are."""
    files = [tmp_path / name / "log.jsonl" for name in "xy"]
    for file in files:
        file.parent.mkdir()
        file.write_text(json.dumps(line).replace("%s", f"hello {file.parent.name}") + "\n")
    with Stratalog(tmp_path / "data") as memory:
        results = list(import_files(memory, files, format=format))
        made = [result.sessions[0].key.chat for result in results]
    assert made == ["log", "log-2"]


def test_an_id_of_the_source_stands_against_the_name_of_the_file(tmp_path: Path) -> None:
    """Two files that say they are one conversation are one, whatever they begin with."""
    files = [tmp_path / f"{name}.json" for name in "xy"]
    for file in files:
        talk = {"id": "c1", "messages": [{"role": "user", "content": file.name}]}
        file.write_text(json.dumps(talk))
    with Stratalog(tmp_path / "data") as memory:
        assert [chat for chat, _ in _imported(memory, *files)] == ["c1", "c1"]


def test_an_export_finds_its_session_again(tmp_path: Path) -> None:
    """Into the same memory nothing is added; into another comes the same key with the same entries."""
    with Stratalog(tmp_path / "data") as memory:
        session = memory.session("helper:cli:trip")
        with session.turn("Plan a trip") as turn:
            turn.reply("Where to?")
        session.set_title("Rome")
        entries = list(session.entries())
        file = tmp_path / "any name.jsonl"
        file.write_bytes(b"".join(to_jsonl(entries, key=session.key, title=session.meta.title)))
        (again,) = import_files(memory, [file])
        assert [(made.key, made.added) for made in again.sessions] == [(session.key, 0)]
        assert len(memory.sessions().sessions) == 1
    with Stratalog(tmp_path / "other", tenant="acme") as other:
        (there,) = import_files(other, [file])
        assert str(there.sessions[0].key) == "acme/helper:cli:trip"
        back = list(other.session("helper:cli:trip").entries())
        assert other.session("helper:cli:trip").meta.title == "Rome"
    assert [msgspec.structs.replace(entry, **_STORES[type(entry)]) for entry in back] == [
        msgspec.structs.replace(entry, **_STORES[type(entry)]) for entry in entries
    ]


def test_a_payload_that_an_export_lacks_loses_only_itself(tmp_path: Path) -> None:
    """The entry comes without what is not there, marked as damaged, and the others come whole."""
    file = tmp_path / "mine.jsonl"
    blob = Blob(sha256="0" * 64, size=9, field="content")
    entries = [
        User(id=derived_ulid(1, "a"), ts=1, content="the begin", blob=blob),
        System(id=derived_ulid(2, "b"), ts=2, content="whole"),
    ]
    file.write_bytes(b"".join(to_jsonl(entries)))
    with Stratalog(tmp_path / "data") as memory:
        (result,) = import_files(memory, [file], format="stratalog")
        assert result.error is None
        assert _texts(memory, "mine", "stratalog") == ["the begin", "whole"]
        assert next(memory.session("stratalog:import:mine").entries()).meta == {"damaged": True}


def test_a_file_without_a_session_is_an_error(tmp_path: Path) -> None:
    """A file read as what it is not is refused, with the account of its records beside the error."""
    file = tmp_path / "codex.jsonl"
    file.write_text('{"type": "session_meta", "payload": {"id": "c"}}\n' * 3)
    with Stratalog(tmp_path / "data") as memory:
        (wrong,) = import_files(memory, [file], format="openai")
        file.write_text('{"type": "session_meta", "payload": {"id": "c"}}\n')
        (right,) = import_files(memory, [file])
    assert isinstance(wrong.error, ImportFailed)
    assert "nothing in this file is a record of openai" in wrong.error.what
    assert wrong.report is not None
    assert len(wrong.report.skipped) == 3
    assert isinstance(right.error, ImportFailed)
    assert right.error.what == "there is no conversation in this file"


def test_no_file_stops_the_others(tmp_path: Path) -> None:
    """A link to itself, a pipe and a document nested beyond reading are errors of their own."""
    (tmp_path / "a.json").symlink_to("a.json")
    os.mkfifo(tmp_path / "b.json")
    deep = '[{"role": "user", "content": "hi", "x": ' + "[" * 960 + "]" * 960 + "}]"
    (tmp_path / "c.json").write_text(deep)
    good = _chat(tmp_path / "d.json", "hi")
    with Stratalog(tmp_path / "data") as memory:
        results = list(import_files(memory, [*(tmp_path / f"{name}.json" for name in "abc"), good]))
    assert [isinstance(result.error, ImportFailed) for result in results] == [True, True, True, False]
    assert results[3].sessions[0].added > 0
