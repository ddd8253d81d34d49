"""`import`: a folder with files of many programs, and memories that become records."""

from __future__ import annotations

import json
from pathlib import Path

from typer.testing import CliRunner

from interop import test_aider, test_claude_ai, test_mem0_export, test_openhands
from stratalog.surfaces.cli.app import app


def _run(data: Path, *words: str) -> str:
    result = CliRunner().invoke(app, [*words, "--data", str(data)])
    assert result.exit_code == 0, result.output
    return result.output


def _folder(home: Path) -> Path:
    events = home / "conversations" / "abc" / "events"
    events.mkdir(parents=True)
    for number, one in enumerate(test_openhands.SECOND):
        (events / f"event-{number:05}-{one['id']}.json").write_text(json.dumps(one))
    (home / "README.md").write_text("# Nothing")
    (home / ".aider.chat.history.md").write_text(test_aider.HISTORY)
    (home / "conversations.json").write_text(json.dumps([test_claude_ai.CONVERSATION]))
    (home / "memories.json").write_text(json.dumps({"results": test_mem0_export.MEMORIES}))
    return home


def test_a_folder_of_many(tmp_path: Path) -> None:
    """Each file goes by its own format; again nothing is added, and memories are records that are merged."""
    home = _folder(tmp_path / "home")
    told = json.loads(_run(tmp_path / "data", "import", str(home), "--json"))
    assert sorted(one["format"] for one in told["files"]) == ["aider", "claude_ai", "mem0", "openhands"]
    assert not [one["error"] for one in told["files"] if one["error"]]
    memories = {
        one["key"]: one["memories"] for file in told["files"] for one in file["sessions"] if one["memories"]
    }
    assert memories == {
        "local/mem0:import:user:ana": {"stored": 2},
        "local/mem0:import:agent:helper": {"stored": 1},
    }
    shown = _run(tmp_path / "data", "import", str(home))
    assert "Memories: 3 merged" in shown
    assert "Nothing new" in shown
    records = json.loads(_run(tmp_path / "data", "memory", "list", "--user", "ana", "--json"))
    assert "Ana lives in Lisbon" in json.dumps(records)


def test_a_folder_without_any(tmp_path: Path) -> None:
    """A folder in which nothing may be a transcript says so."""
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "README.md").write_text("# Nothing")
    result = CliRunner().invoke(app, ["import", str(tmp_path / "home"), "--data", str(tmp_path / "data")])
    assert "no file that may be a transcript is there" in result.output


def test_a_path_that_is_not_there_keeps_nothing_from_coming_in(tmp_path: Path) -> None:
    """What is there is imported, what is not is told, and the command has failed; where nothing is there,
    nothing is done."""
    home = _folder(tmp_path / "home")
    words = ["import", str(tmp_path / "nowhere"), str(home), "--json", "--data", str(tmp_path / "data")]
    result = CliRunner().invoke(app, words)
    told = json.loads(result.stdout)
    assert result.exit_code == 1
    assert told["added"] > 0
    assert [one["path"] for one in told["files"] if one["error"]] == [str(tmp_path / "nowhere")]
    alone = ["import", str(tmp_path / "nowhere"), "--data", str(tmp_path / "d")]
    assert CliRunner().invoke(app, alone).exit_code == 2
    assert not (tmp_path / "d").exists()
