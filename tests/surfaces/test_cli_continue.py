"""`stratalog continue`: begins a session that goes on where another is, and says with what and why."""

from __future__ import annotations

from pathlib import Path

import pytest

from stratalog import Stratalog, parse_key
from stratalog.types import Note, WorkingMemory
from surfaces.conftest import CHAT
from surfaces.terminals import cli, cli_json

KEYS = {
    "key",
    "continued_from",
    "inherit",
    "why",
    "gap",
    "messages",
    "summary",
    "working_memory",
    "facts",
}


def count(data: Path) -> int:
    return len(cli_json("sessions", data=data)["sessions"])


def test_a_session_just_written_to_is_continued_whole(small: Path) -> None:
    """Without a new key one is made beside the old; the history comes along, and the reason is told."""
    result = cli_json("continue", "alpha-one", data=small)
    assert set(result) == KEYS
    old, new = parse_key("helper:cli:alpha-one"), parse_key(result["key"])
    assert (new.agent, new.channel) == (old.agent, old.channel)
    assert new.chat == new.chat.lower() != old.chat
    assert result["continued_from"] == str(old)
    assert (result["inherit"], result["messages"], result["summary"]) == ("history", 2, "")
    assert "which is within 30 minutes" in result["why"]
    assert 0 <= result["gap"] < 1_800
    assert cli_json("show", result["key"], data=small)["title"] == "Plan a trip"


def test_an_old_session_leaves_working_memory_and_facts(data: Path) -> None:
    """After more than a day only these are inherited; the demo's transcript has none, and is told so."""
    with Stratalog(data) as memory:
        memory.session(memory.sessions().sessions[0].key).append(
            WorkingMemory(op="set", key="task", value=1),
            Note(kind="fact", text="tea", data={"pinned": True}),
        )
    result = cli_json("continue", CHAT[:8], "next", data=data)
    assert result["key"].endswith(":next")
    assert (result["inherit"], result["messages"]) == ("working_memory", 0)
    assert (result["working_memory"], result["facts"]) == ({"task": 1}, ["tea"])
    assert "which is more than 1 day" in result["why"]


def test_a_summary_when_asked_for(data: Path) -> None:
    """`--inherit summary` gives the summary as data, and the new session's context begins with it."""
    result = cli_json("continue", CHAT[:8], "next", "--inherit", "summary", data=data)
    assert result["inherit"] == "summary"
    assert result["why"] == "it was asked for"
    assert len(result["summary"]) > 100
    with Stratalog(data) as memory:
        seen = memory.session(result["key"]).view().summary
        assert seen is not None
        assert seen.summary == result["summary"]


def test_in_words(small: Path) -> None:
    """What is inherited, why, and how much of it; a chat as the new key, or a whole key."""
    result = cli("continue", "beta", "beta-2", data=small)
    assert result.exit_code == 0
    assert "helper:cli:beta-2 goes on with the whole history\n" in result.stdout
    assert "because the session was last written to" in result.stdout
    assert "it has 2 messages, 0 values, 0 facts\n" in result.stdout
    alone = cli("continue", "beta-2", "other:web:b", "--inherit", "working-memory", data=small)
    assert (
        "other:web:b goes on with working memory and facts alone\nbecause it was asked for\n" in alone.stdout
    )
    empty = cli("continue", "other:web:b", "c", "--inherit", "summary", data=small)
    assert "it has no summary, for nothing was said, 0 values, 0 facts\n" in empty.stdout


@pytest.mark.parametrize(
    ("args", "code"),
    [
        (["alpha"], 2),
        (["beta", "alpha-one"], 4),
        (["beta", "beta"], 2),
        (["nobody"], 3),
        (["beta", "other/helper:cli:x"], 2),
        (["beta", "x", "--inherit", "everything"], 2),
        ([], 2),
    ],
)
def test_wrong_uses(small: Path, args: list[str], code: int) -> None:
    """The exit codes of docs/cli.md, and nothing is made."""
    assert cli("continue", *args, data=small).exit_code == code
    assert count(small) == 3


def test_an_ambiguous_session_is_listed(small: Path) -> None:
    """Which sessions it could be is told with titles and times, in words and as data."""
    result = cli("continue", "alpha", data=small)
    assert result.exit_code == 2
    assert 'helper:cli:alpha-one "Plan a trip" ' in result.stderr
    error = cli_json("continue", "alpha", data=small, code=2)
    assert error["kind"] == "Ambiguous"
    assert len(error["where"]["candidates"]) == 2
    assert all(each.endswith(" UTC") for each in error["where"]["candidates"])
