"""`stratalog compact`: says what it folds, folds it once, and never more than it says."""

from __future__ import annotations

from pathlib import Path

from stratalog import Stratalog
from stratalog.types import Compaction, User
from surfaces.conftest import CHAT
from surfaces.terminals import cli, cli_json

KEYS = {
    "key",
    "compacted",
    "tokens_before",
    "tokens_after",
    "trigger",
    "covers",
    "entries",
    "first_kept",
    "kept",
    "by",
    "reason",
}


def compactions(data: Path) -> list[Compaction]:
    with Stratalog(data) as memory:
        session = memory.session(memory.sessions().sessions[0].key)
        return [entry for entry in session.entries() if isinstance(entry, Compaction) and entry.by]


def test_a_dry_run_changes_nothing_and_the_run_does_what_it_said(data: Path) -> None:
    """The plan has the range and the tokens before; the run has the same, and fewer after than the most."""
    before = len(compactions(data))
    said = cli_json("compact", CHAT[:8], "--dry-run", data=data)
    assert set(said) == KEYS
    assert not said["compacted"]
    assert len(compactions(data)) == before
    made = cli_json("compact", CHAT[:8], data=data)
    assert set(made) == KEYS
    assert made["compacted"]
    for name in ("tokens_before", "covers", "entries", "first_kept", "kept", "by", "trigger"):
        assert made[name] == said[name]
    assert made["tokens_after"] <= said["tokens_after"] < made["tokens_before"]
    assert len(compactions(data)) == before + 1
    assert cli_json("context", CHAT[:8], "--budget", "30000", data=data)["tokens"] == made["tokens_after"]


def test_in_words(data: Path) -> None:
    """Tokens before and after, the range, and by whom; the second time there is nothing to do."""
    said = cli("compact", CHAT[:8], "--dry-run", data=data)
    assert said.exit_code == 0
    assert "would fold" in said.stdout
    result = cli("compact", CHAT[:8], data=data)
    assert result.exit_code == 0
    assert "by extractive" in result.stdout
    assert "tokens before" in result.stdout
    again = cli("compact", CHAT[:8], data=data)
    assert (again.exit_code, again.stdout) == (0, "")
    assert "nothing to compact: everything is recent" in again.stderr
    assert cli_json("compact", CHAT[:8], data=data)["reason"] == "everything is recent"


def test_windows_and_presets(data: Path) -> None:
    """Both say when it would begin by itself."""
    said = cli_json("compact", CHAT[:8], "--dry-run", "--window", "200000", data=data)
    assert said["trigger"] == 160_000
    args = ("--dry-run", "--window", "200000", "--preset", "fixed-80k")
    assert cli_json("compact", CHAT[:8], *args, data=data)["trigger"] == 80_000


def test_what_cannot_be_folded_is_an_exit_code_of_its_own(data: Path, tmp_path: Path) -> None:
    """1 when a session is too long for the window and nothing of it can be folded."""
    with Stratalog(tmp_path / "d") as memory:
        memory.session("a:cli:one").append(User(content="word " * 900))
    result = cli("compact", "one", "--window", "1000", data=tmp_path / "d")
    assert (result.exit_code, result.stdout) == (1, "")
    assert "nothing to compact" in result.stderr


def test_wrong_uses(small: Path) -> None:
    """The exit codes of docs/cli.md: 2 for what cannot be used, 3 for no session, 4 while a turn runs."""
    assert cli("compact", "beta", "--preset", "generous", data=small).exit_code == 2
    assert cli("compact", "beta", "--window", "0", data=small).exit_code == 2
    assert cli("compact", "nobody", data=small).exit_code == 3
    with Stratalog(small) as memory, memory.session("helper:cli:beta").turn("wait") as turn:
        assert cli("compact", "beta", data=small).exit_code == 4
        assert cli("compact", "beta", "--dry-run", data=small).exit_code == 0
        turn.reply("yes")
