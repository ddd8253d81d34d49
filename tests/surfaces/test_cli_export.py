"""An export says whose it is, and is not silent about what it lacks."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from stratalog import Stratalog
from stratalog.interop.export_formats import EXPORTS
from stratalog.types import User
from surfaces.terminals import cli, cli_json

_FORMATS = pytest.mark.parametrize("format", list(EXPORTS))


@pytest.fixture(params=["line", "payload"])
def damaged(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A data directory with one session, of which a line has a flipped byte or a payload is missing."""
    data = tmp_path / "damaged"
    with Stratalog(data) as memory:
        memory.session("helper:cli:beta").append(
            User(content="begin"), User(content="x" * 400_000), User(content="end")
        )
    if request.param == "payload":
        next(path for path in data.rglob("*.blobs/**/*") if path.is_file()).unlink()
    else:
        log = next(data.rglob("*.jsonl"))
        log.write_bytes(log.read_bytes().replace(b'"begin"', b'"begun"'))
    return data


def test_an_export_comes_back_to_its_own_session(small: Path, tmp_path: Path) -> None:
    """Imported into the same memory it adds nothing; into another it has the same key and title."""
    file = tmp_path / "some name.jsonl"
    cli("title", "beta", "Hello", data=small)
    assert cli("export", "beta", "-o", file, data=small).exit_code == 0
    head = msgspec.json.decode(file.read_bytes().splitlines()[0])
    assert head == {
        "type": "stratalog_export",
        "version": 1,
        "key": "local/helper:cli:beta",
        "title": "Hello",
    }
    assert cli_json("import", file, data=small)["added"] == 0
    made = cli_json("import", file, data=tmp_path / "other")["files"][0]["sessions"][0]["key"]
    assert made == "local/helper:cli:beta"
    other = tmp_path / "again.jsonl"
    assert cli("export", "beta", "-o", other, data=tmp_path / "other").exit_code == 0
    assert len(other.read_bytes().splitlines()) == len(file.read_bytes().splitlines())


@_FORMATS
def test_damage_is_told_and_fails(damaged: Path, tmp_path: Path, format: str) -> None:
    """What can be read is exported, each thing that cannot is warned of once, and the exit code is 1."""
    shown = cli("export", "beta", "--format", format, data=damaged)
    assert shown.exit_code == 1
    assert "end" in shown.stdout
    assert "warning" not in shown.stdout
    reasons = [line for line in shown.stderr.splitlines() if str(damaged)[-20:] in line.replace("\n", "")]
    assert len(reasons) == 1
    assert "lacks what is damaged" in shown.stderr
    file = tmp_path / "out"
    written = cli("export", "beta", "--format", format, "-o", file, data=damaged)
    assert written.exit_code == 1
    assert "warning: " in written.stderr
    assert file.read_text() == shown.stdout


@_FORMATS
def test_damage_is_in_the_json(damaged: Path, tmp_path: Path, format: str) -> None:
    """With --json the problems are in the value, with and without a file."""
    for rest in ([], ["-o", tmp_path / "out"]):
        value = cli_json("export", "beta", "--format", format, *rest, data=damaged, code=1)
        assert [set(problem) >= {"reason", "path"} for problem in value["problems"]] == [True]


def test_a_damaged_export_can_be_imported(damaged: Path, tmp_path: Path) -> None:
    """What there is of it comes back."""
    file = tmp_path / "beta.jsonl"
    assert cli("export", "beta", "-o", file, data=damaged).exit_code == 1
    assert cli("import", file, data=tmp_path / "other").exit_code == 0
    entries = cli_json("show", "beta", data=tmp_path / "other")["entries"]
    assert entries[-1]["content"] == "end"


@_FORMATS
def test_a_sound_export_says_nothing(small: Path, format: str) -> None:
    """Without damage there is no warning and no list of problems."""
    assert cli("export", "beta", "--format", format, data=small).stderr == ""
    assert "problems" not in cli_json("export", "beta", "--format", format, data=small)


def test_a_named_file_without_a_session_is_a_failure(tmp_path: Path) -> None:
    """Read as a format that it is not, a file that was named is no success."""
    file = tmp_path / "codex.jsonl"
    file.write_text('{"type": "session_meta", "payload": {"id": "c"}}\n')
    result = cli("import", "--format", "openai", file, data=tmp_path / "d")
    assert result.exit_code == 1
    assert "nothing in this file is a record of openai" in result.stdout


def test_a_format_that_is_not_there(small: Path) -> None:
    """Is refused with those that are: exactly those that can be written."""
    refused = cli("export", "beta", "--format", "pdf", data=small)
    assert refused.exit_code == 2
    assert all(f"'{name}'" in refused.stderr for name in EXPORTS)


def test_payloads_are_in_every_format(tmp_path: Path) -> None:
    """A text that is kept beside the log is exported whole."""
    data, large = tmp_path / "data", "x" * 400_000
    with Stratalog(data) as memory:
        memory.session("helper:cli:beta").append(User(content="begin"), User(content=large))
    for format in EXPORTS:
        assert large in cli("export", "beta", "--format", format, data=data).stdout


@pytest.mark.parametrize("format", ["jsonl", "openai", "anthropic", "sharegpt"])
def test_messages_can_be_imported(small: Path, tmp_path: Path, format: str) -> None:
    """What is exported for programs is taken by `import` without being told what it is."""
    file = tmp_path / "beta.jsonl"
    assert cli("export", "beta", "--format", format, "-o", file, data=small).exit_code == 0
    (made,) = cli_json("import", file, data=tmp_path / "other")["files"]
    assert made["format"] == ("stratalog" if format == "jsonl" else format)
    key = made["sessions"][0]["key"]
    assert key.endswith(":beta")
    again = cli("export", key, "--format", "sharegpt", data=tmp_path / "other").stdout
    said = cli("export", "beta", "--format", "sharegpt", data=small).stdout
    assert msgspec.json.decode(again)["conversations"] == msgspec.json.decode(said)["conversations"]
