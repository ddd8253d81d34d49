"""config.py: settings are what was said, else the default; a slip of the pen names its file."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from stratalog.config import AGENT_FILE, FILE, Settings, agent_settings, load_settings
from stratalog.errors import InvalidConfig, StratalogError


def write(directory: Path, name: str, text: str | bytes) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def test_without_files_there_are_the_defaults(tmp_path: Path) -> None:
    """No file, an empty one and one of comments all mean the defaults; nothing is made."""
    assert load_settings(tmp_path / "nowhere") == Settings()
    assert not (tmp_path / "nowhere").exists()
    write(tmp_path, FILE, "# nothing\n")
    assert load_settings(tmp_path) == Settings()


def test_the_defaults_are_what_the_design_says() -> None:
    """120 s to hold a session, 60 minutes in memory, 30 s to confirm, titles of 40 characters."""
    made = Settings()
    assert (made.lock_deadline, made.idle_ttl, made.restart_window, made.title_length) == (120, 3600, 30, 40)
    assert (made.sync, made.store) == ("always", "jsonl")


def test_what_is_said_counts_and_an_agents_own_file_comes_last(tmp_path: Path) -> None:
    """The data directory's file over the defaults, the agent's over that, field by field."""
    write(tmp_path, FILE, 'sync = "turn"\nlock_deadline = 10\ntitle_length = 20\n')
    base = load_settings(tmp_path)
    assert (base.sync, base.lock_deadline, base.title_length, base.idle_ttl) == ("turn", 10, 20, 3600)
    write(tmp_path / "agent", AGENT_FILE, "title_length = 5\nidle_ttl = 0.5\n")
    own = agent_settings(base, tmp_path / "agent")
    assert (own.sync, own.lock_deadline, own.title_length, own.idle_ttl) == ("turn", 10, 5, 0.5)
    assert agent_settings(base, tmp_path / "other") == base


@pytest.mark.parametrize(
    "text",
    [
        "lock_dedline = 5",
        'lock_deadline = "5"',
        "lock_deadline = 0",
        "lock_deadline = -1",
        "lock_deadline = nan",
        "lock_deadline = inf",
        "idle_ttl = -inf",
        "title_length = 1.5",
        "title_length = true",
        "context_budget = 0",
        'store = "postgres"',
        'sync = "sometimes"',
        "[section]\nx = 1",
        "not toml",
        b"\xff\xfe",
        "x = 1\nx = 2",
    ],
)
@pytest.mark.parametrize("name", [FILE, AGENT_FILE])
def test_wrong_settings_name_the_file(tmp_path: Path, text: str | bytes, name: str) -> None:
    """A field that does not exist, a value of the wrong kind or out of range, or no TOML at all."""
    path = write(tmp_path, name, text)
    with pytest.raises(InvalidConfig) as caught:
        load_settings(tmp_path) if name == FILE else agent_settings(Settings(), tmp_path)
    assert caught.value.where["path"] == str(path)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("[compaction]\ntrigger = 0.3", "compaction.target"),
        ("[compaction]\ntrigger = 1.5", "compaction.target"),
        ("[compaction]\ntarget = 0.9", "compaction.target"),
        ('[compaction]\npreset = "wat"', "preset"),
        ("[windows]\nfoo = {window = 5, input = 50}", "windows.foo"),
        ("[windows]\nfoo = {windw = 5}", "windows.foo"),
        ("[budget]\nsoft = 0", "budget.soft"),
    ],
)
def test_settings_that_contradict_one_another_name_the_file(tmp_path: Path, text: str, name: str) -> None:
    """What no model could be asked with is an error when it is loaded, for all and for one agent."""
    (tmp_path / "stratalog.toml").write_text(text)
    with pytest.raises(InvalidConfig, match=re.escape(name)) as caught:
        load_settings(tmp_path)
    assert "stratalog.toml" in str(caught.value)
    (tmp_path / "agent.toml").write_text(text)
    with pytest.raises(InvalidConfig, match=re.escape(name)):
        agent_settings(Settings(), tmp_path)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("tick = 0", "background.tick"),
        ("calls_per_day = 0", "background.calls_per_day"),
        ("tokens_per_day = 1.5", "tokens_per_day"),
        ("most_removed = 1.1", "background.most_removed"),
        ("most_remved = 0.1", "most_remved"),
    ],
)
def test_settings_of_the_background_are_checked(tmp_path: Path, text: str, name: str) -> None:
    """What would never run, or has no effect, is an error that names the setting."""
    write(tmp_path, FILE, f"[background]\n{text}\n")
    with pytest.raises(InvalidConfig, match=re.escape(name)):
        load_settings(tmp_path)


def test_the_background_has_its_table(tmp_path: Path) -> None:
    """What is said there counts, the rest keeps its default; all of a profile's lines may be removed."""
    write(tmp_path, FILE, "[background]\ncalls_per_day = 5\nmost_removed = 1\n")
    made = load_settings(tmp_path).background
    assert (made.calls_per_day, made.most_removed, made.tokens_per_day, made.tick) == (
        5,
        1.0,
        2_000_000,
        30.0,
    )


@pytest.mark.parametrize(
    "text", ['store = "jsonl"', 'sync = "never"', "blob_threshold = 5", "[background]\ntick = 1"]
)
def test_an_agent_has_no_say_in_how_logs_are_kept(tmp_path: Path, text: str) -> None:
    """What is the log's, or the background's, is set for all agents at once, and the error says where."""
    write(tmp_path, AGENT_FILE, text)
    with pytest.raises(InvalidConfig) as caught:
        agent_settings(Settings(), tmp_path)
    assert FILE in caught.value.hint


def test_a_file_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    """A directory where the file should be is told, not passed over."""
    (tmp_path / FILE).mkdir()
    with pytest.raises(StratalogError) as caught:
        load_settings(tmp_path)
    assert caught.value.where["path"] == str(tmp_path / FILE)


def test_how_far_a_server_reaches_is_said_of_one_address(tmp_path: Path) -> None:
    """`reach` needs the `base_url` that it is said of, and does not go over to another that an agent has."""
    write(tmp_path, FILE, 'reach = "machine"\n')
    with pytest.raises(InvalidConfig, match="base_url"):
        load_settings(tmp_path)
    write(tmp_path, FILE, 'base_url = "http://gpu/v1"\nreach = "machine"\n')
    base = load_settings(tmp_path)
    assert base.reach == "machine"
    for text, reach in (
        ('model = "openai:m"', "machine"),
        ('base_url = "http://other.com"', ""),
        ('base_url = "http://other.com"\nreach = "premises"', "premises"),
        ('base_url = ""', ""),
    ):
        write(tmp_path / "agent", AGENT_FILE, text)
        assert agent_settings(base, tmp_path / "agent").reach == reach


def test_no_agent_says_which_tenants_are_for_evaluations(tmp_path: Path) -> None:
    """The data directory's file says it, by patterns."""
    assert Settings().evaluation_tenants == ("eval-*",)
    write(tmp_path, FILE, 'evaluation_tenants = ["bench", "eval-*"]\n')
    base = load_settings(tmp_path)
    assert base.evaluation_tenants == ("bench", "eval-*")
    write(tmp_path / "agent", AGENT_FILE, "evaluation_tenants = []\n")
    with pytest.raises(InvalidConfig, match="evaluation_tenants"):
        agent_settings(base, tmp_path / "agent")


@pytest.mark.parametrize(
    "text",
    [
        '[recall]\nembedder = "local"\nquery_prefix = "query: "',
        '[recall]\npassage_prefix = "passage: "',
        f'[recall]\nembedder = "openai:e5"\nquery_prefix = "{"x" * 1001}"',
    ],
)
def test_prefixes_are_for_an_endpoint(tmp_path: Path, text: str) -> None:
    """Where they would be without effect, or larger than what they stand before, they are an error."""
    write(tmp_path, FILE, text)
    with pytest.raises(InvalidConfig, match=r"recall\.query_prefix"):
        load_settings(tmp_path)


def test_prefixes_are_kept_as_they_are_said(tmp_path: Path) -> None:
    """With their spaces and line breaks."""
    said = 'query_prefix = "Instruct: answer\\nQuery: "\npassage_prefix = " "'
    write(tmp_path, FILE, f'[recall]\nembedder = "openai:e5"\n{said}')
    recall = load_settings(tmp_path).recall
    assert (recall.query_prefix, recall.passage_prefix) == ("Instruct: answer\nQuery: ", " ")
