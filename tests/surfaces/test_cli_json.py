"""With `--json`, stdout is exactly one JSON value, whatever happens."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from stratalog.demo import transcript_path
from surfaces.terminals import cli, cli_json

SHAPES: list[tuple[list[str], set[str]]] = [
    (["import", str(transcript_path())], {"added", "present", "files"}),
    (["sessions"], {"sessions", "cursor"}),
    (["search", "clock"], {"query", "hits"}),
    (["show", "7c1f"], {"key", "title", "entries"}),
    (["context", "7c1f"], {"key", "tokens", "budget", "sections", "turns_left_out", "degraded", "messages"}),
    (["export", "7c1f"], {"key", "format", "content"}),
    (["export", "7c1f", "--format", "markdown"], {"key", "format", "content"}),
    (["restart", "7c1f"], {"key", "restarted"}),
    (["delete", "7c1f", "--yes"], {"key", "deleted"}),
    (["doctor"], {"healthy", "logs", "moved", "leftovers", "foreign", "derived", "purging"}),
    (["doctor", "--repair"], {"healthy", "logs", "moved", "leftovers", "foreign", "derived", "purging"}),
    (["rebuild"], {"sessions", "indexed"}),
    (["--version"], {"version"}),
]
META = {"key", "title", "title_by", "pinned", "created_at", "updated_at", "messages", "seq", "generation"}


@pytest.mark.parametrize(("args", "keys"), SHAPES, ids=lambda each: each[0] if isinstance(each, list) else "")
def test_each_command_has_its_shape(data: Path, args: list[str], keys: set[str]) -> None:
    """The value is an object with the documented names, and it stands alone on stdout and on one line."""
    result = cli(*args, "--json", data=data)
    assert result.exit_code == 0, result.output
    assert set(msgspec.json.decode(result.stdout)) == keys
    assert result.stdout.count("\n") == 1


@pytest.mark.parametrize("args", [["title", "7c1f", "T"], ["pin", "7c1f"], ["fork", "7c1f", "new"]])
def test_commands_that_change_a_session_give_its_entry_in_the_list(data: Path, args: list[str]) -> None:
    """The same shape as in `sessions`, as it is now."""
    value = cli_json(*args, data=data)
    assert set(value) >= META
    assert value in cli_json("sessions", data=data)["sessions"]


def test_the_parts_of_the_shapes(data: Path) -> None:
    """Hits, entries, sections and files have the documented names; times are milliseconds UTC."""
    hit = cli_json("search", "clock", data=data)["hits"][0]
    assert set(hit) >= {"session", "title", "seq", "entry_id", "ts", "role", "score", "snippet", "terms"}
    entry = cli_json("show", "7c1f", data=data)["entries"][1]
    assert entry["ts"] == 1789348448834
    section = cli_json("context", "7c1f", data=data)["sections"][0]
    assert set(section) == {"name", "tokens", "left_out"}
    file = cli_json("import", transcript_path(), data=data)["files"][0]
    assert set(file) >= {
        "path",
        "format",
        "error",
        "sessions",
        "read",
        "used",
        "merged",
        "kept",
        "skipped",
        "notes",
    }
    log = cli_json("doctor", data=data)["logs"][0]
    assert set(log) >= {"key", "entries", "segments", "size", "problems", "quarantined"}


@pytest.mark.parametrize(
    ("args", "code"),
    [
        (["show", "nobody"], 3),
        (["show"], 2),
        (["nonsense"], 2),
        ([], 2),
        (["sessions", "--nonsense"], 2),
        (["sessions", "--limit", "0"], 2),
        (["sessions", "--cursor", "x"], 2),
        (["import", "/no/such/file"], 2),
        (["import", str(transcript_path()), "--format", "x"], 2),
        (["search", "x", "--since", "yesterday-ish"], 2),
        (["search", "x", "--role", "king"], 2),
        (["context", "7c1f", "--budget", "3"], 2),
        (["delete", "7c1f"], 2),
        (["fork", "7c1f", "7c1f0a52-3b9e-4d1e-9a57-61c0de2b8f14"], 4),
        (["title", "7c1f", ""], 2),
        (["sessions", "--tenant", "../up"], 2),
    ],
    ids=lambda each: " ".join(each) if isinstance(each, list) else "",
)
def test_an_error_is_an_object_too(imported: Path, args: list[str], code: int) -> None:
    """Told in words on stderr and as one object on stdout, with the process's exit code; no traceback."""
    result = cli("--json", *args, data=imported)
    assert result.exit_code == code
    value = msgspec.json.decode(result.stdout)
    assert set(value) == {"error", "kind", "hint", "where", "exit_code"}
    assert value["exit_code"] == code
    assert result.stderr.startswith("error: ")
    assert "Traceback" not in result.stderr
    plainly = cli(*args, data=imported)
    if args:
        assert (plainly.exit_code, plainly.stdout) == (code, "")


def test_json_after_the_end_of_options_is_a_word(imported: Path) -> None:
    """`-- --json` searches for that text."""
    assert cli("search", "clock", "--", "--json", data=imported).stdout.startswith("1. ")


def test_demo(tmp_path: Path) -> None:
    """The demo's value has each of its steps."""
    value = cli_json("demo", data=tmp_path / "d")
    assert set(value) == {"data", "kept", "import", "sessions", "searches", "context"}
    assert value["kept"] is True
    assert all(step["hits"] for step in value["searches"])
