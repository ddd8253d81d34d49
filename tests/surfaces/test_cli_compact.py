"""`stratalog compact`: says what it folds, folds it once, and never more than it says."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from stratalog import Stratalog
from stratalog.testing.model_server import ModelServer, Refuse
from stratalog.types import Assistant, Compaction, User
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
    "stood_in",
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
    assert cli("compact", data=small).exit_code == 2
    for more in (["beta"], ["--dry-run"], ["--window", "9000"], ["--preset", "default"]):
        assert cli("compact", "--idle", *more, data=small).exit_code == 2
    assert cli("compact", "beta", "--model", "nobody:x", data=small).exit_code == 2
    with Stratalog(small) as memory, memory.session("helper:cli:beta").turn("wait") as turn:
        assert cli("compact", "beta", data=small).exit_code == 4
        assert cli("compact", "beta", "--dry-run", data=small).exit_code == 0
        turn.reply("yes")


def test_the_settings_say_how(data: Path) -> None:
    """Without options the model's window and what is kept are those of the settings."""
    text = 'model = "openai:mine"\n[windows]\nmine = 20000\n[compaction]\ntrigger = 0.5\nkeep_turns = 1\n'
    (data / "stratalog.toml").write_text(text)
    said = cli_json("compact", CHAT[:8], "--dry-run", data=data)
    assert said["trigger"] <= 10_000
    kept = cli_json("compact", CHAT[:8], "--dry-run", "--preset", "default", data=data)
    assert kept["entries"] < said["entries"], "a preset is taken as it is"
    assert kept["trigger"] > said["trigger"]


SUMMARY = "The parcels are late on Mondays, and the time zone was at fault."


@pytest.mark.parametrize("option", [True, False])
def test_a_model_writes_the_summary(data: Path, monkeypatch: pytest.MonkeyPatch, option: bool) -> None:
    """`--model`, or else the settings' summariser, is asked, and named in the log."""
    with ModelServer([SUMMARY] * 9) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.openai_url)
        if not option:
            (data / "stratalog.toml").write_text('[compaction]\nsummariser = "openai:gpt-4o"\n')
        named = ["--model", "openai:gpt-4o"] if option else []
        assert cli_json("compact", CHAT[:8], "--dry-run", *named, data=data)["by"] == "gpt-4o"
        assert server.requests == []
        made = cli_json("compact", CHAT[:8], *named, data=data)
        assert {each.body["model"] for each in server.requests} == {"gpt-4o"}
    assert (made["by"], made["stood_in"]) == ("gpt-4o", "")
    assert SUMMARY in compactions(data)[-1].summary


def test_a_model_that_fails_is_stood_in_for(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The summary is made all the same, and it is told why the model did not write it."""
    with ModelServer([Refuse(400, "not today")]) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.openai_url)
        result = cli("compact", CHAT[:8], "--model", "openai:gpt-4o", data=data)
    assert result.exit_code == 0
    assert "by extractive" in result.stdout
    assert "not today" in result.stderr


def test_idle_sessions(tmp_path: Path) -> None:
    """`--idle` compacts what is large and was not used for a while, by the settings, and nothing else."""
    (tmp_path / "stratalog.toml").write_text("[idle]\nafter = 600\nmessages = 6\nkeep_messages = 2\n")
    now = int(time.time() * 1000)
    with Stratalog(tmp_path) as memory:
        for chat, messages, ts in (("large", 10, now - 700_000), ("small", 6, 1), ("busy", 10, now)):
            for number in range(messages // 2):
                memory.session(f"a:cli:{chat}").append(
                    User(content=f"Question {number}. " * 30, ts=ts),
                    Assistant(content=f"Answer {number}. " * 30, ts=ts),
                )
    result = cli("compact", "--idle", data=tmp_path)
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith("compacted 1 session that nobody used\n")
    with Stratalog(tmp_path) as memory:
        found = {
            chat: [each for each in memory.session(f"a:cli:{chat}").entries() if isinstance(each, Compaction)]
            for chat in ("large", "small", "busy")
        }
    assert [len(each) for each in found.values()] == [1, 0, 0]
    again = cli_json("compact", "--idle", data=tmp_path)
    assert again == {"compacted": 0, "keys": [], "entries": 0, "tokens_before": 0, "tokens_after": 0}
