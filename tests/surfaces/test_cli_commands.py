"""Each command does what it says, and leaves what it does not say alone."""

from __future__ import annotations

import re
import stat
from pathlib import Path

import pytest

from stratalog import Stratalog
from stratalog.demo import transcript_path
from stratalog.types import System, ToolCall, ToolResult, TurnEnd, User
from surfaces.conftest import CHAT
from surfaces.terminals import cli, cli_json


def test_import_tells_what_was_kept_and_skipped_and_why(tmp_path: Path) -> None:
    """The tables of an import count records by what became of them, and skips by reason."""
    result = cli("import", transcript_path(), data=tmp_path / "d")
    assert result.exit_code == 0
    assert "claude_code" in result.stdout
    assert "551" in result.stdout
    assert "backups of files, no part of the conversation" in result.stdout
    assert result.stderr == ""


def test_importing_twice_adds_nothing(data: Path) -> None:
    """The second import finds everything there."""
    value = cli_json("import", transcript_path(), data=data)
    assert (value["added"], value["present"]) == (0, 551)
    assert "Nothing new" in cli("import", transcript_path(), data=data).stdout


def test_import_takes_folders_and_lists_what_is_no_transcript(tmp_path: Path) -> None:
    """A folder is searched; a file in it that is no transcript is listed and is no failure."""
    folder = tmp_path / "in" / "deep"
    folder.mkdir(parents=True)
    (folder / "a.jsonl").write_bytes(transcript_path().read_bytes())
    (folder / "other.json").write_text('{"no": "transcript"}')
    (folder / "notes.txt").write_text("not looked at")
    result = cli("import", tmp_path / "in", data=tmp_path / "d")
    assert result.exit_code == 0
    assert "not imported: 1 file" in result.stdout
    assert "other.json" in result.stdout
    assert "notes.txt" not in result.stdout


def test_a_named_file_that_is_no_transcript_is_a_failure(tmp_path: Path) -> None:
    """What was named must be readable, or the exit code is 1; the rest is imported all the same."""
    bad = tmp_path / "bad.json"
    bad.write_text("{}")
    value = cli_json("import", bad, transcript_path(), data=tmp_path / "d", code=1)
    assert value["added"] == 551
    assert [file["error"] is None for file in value["files"]].count(False) == 1


def test_import_verbose_lists_each_skip(tmp_path: Path) -> None:
    """With --verbose each skipped record has its line."""
    result = cli("import", transcript_path(), "--verbose", data=tmp_path / "d")
    assert result.stdout.count("skipped line ") == 2


def test_import_as_another_agent(tmp_path: Path) -> None:
    """--agent says whose sessions they become; --format is taken with either dash."""
    result = cli("import", transcript_path(), "--agent", "me", "--format", "claude-code", data=tmp_path / "d")
    assert result.exit_code == 0
    assert cli_json("sessions", data=tmp_path / "d")["sessions"][0]["key"] == f"local/me:import:{CHAT}"


def test_sessions_lists_and_pages(small: Path) -> None:
    """A page ends with the cursor of the next; filters narrow the list."""
    first = cli_json("sessions", "--limit", 2, data=small)
    second = cli_json("sessions", "--limit", 2, "--cursor", first["cursor"], data=small)
    keys = [meta["key"] for page in (first, second) for meta in page["sessions"]]
    assert len(set(keys)) == 3
    assert second["cursor"] == ""
    assert cli_json("sessions", "--agent", "nobody", data=small)["sessions"] == []
    assert len(cli_json("sessions", "--channel", "cli", data=small)["sessions"]) == 3


def test_sessions_of_nothing(tmp_path: Path) -> None:
    """An empty memory lists nothing, and says on stderr how to begin."""
    result = cli("sessions", data=tmp_path / "d")
    assert (result.exit_code, result.stdout) == (0, "")
    assert "stratalog import" in result.stderr


def test_pinned_sessions_come_first(small: Path) -> None:
    """A pin moves a session to the top, --off moves it back."""
    assert cli_json("sessions", data=small)["sessions"][0]["title"] == "你好世界"
    cli("pin", "alpha-one", data=small)
    assert cli_json("sessions", data=small)["sessions"][0]["title"] == "Plan a trip"
    assert "★" in cli("sessions", data=small).stdout
    cli("pin", "alpha-one", "--off", data=small)
    assert cli_json("sessions", data=small)["sessions"][0]["title"] == "你好世界"


@pytest.mark.parametrize(("query", "words"), [("postnord limit", "PostNord"), ("谁对花生过敏", "花生")])
def test_search_finds_in_both_languages(imported: Path, query: str, words: str) -> None:
    """A hit has its title, time, role, words, and the command that shows its place."""
    result = cli("search", query, data=imported)
    assert result.exit_code == 0
    assert words in result.stdout
    assert "Parcel times stored on the wrong clock" in result.stdout
    assert f"stratalog show claude-code:import:{CHAT} --around " in result.stdout


def test_search_narrows(imported: Path) -> None:
    """Role, session and time are exact; a day of --until counts whole."""

    def roles(*options: object) -> set[str]:
        return {hit["role"] for hit in cli_json("search", "clock", *options, data=imported)["hits"]}

    assert roles("--role", "user") == {"user"}
    assert roles("--role", "user", "--role", "assistant", "--limit", 50) == {"user", "assistant"}
    assert roles("--session", "7c1f", "--limit", 50) >= {"tool_result"}
    assert roles("--since", "2026-09-14", "--until", "2026-09-15")
    cli_json("search", "clock", "--until", "2026-09-12", data=imported, code=1)
    cli_json("search", "clock", "--agent", "nobody", data=imported, code=1)


def test_search_brings_neighbours(imported: Path) -> None:
    """--neighbours shows the entries around a hit."""
    hit = cli_json("search", "谁对花生过敏", "--limit", 1, "--neighbours", 2, data=imported)["hits"][0]
    assert [entry["seq"] for entry in hit["before"]] == [hit["seq"] - 2, hit["seq"] - 1]
    assert [entry["seq"] for entry in hit["after"]] == [hit["seq"] + 1, hit["seq"] + 2]
    assert f"#{hit['seq'] - 1} " in cli("search", "谁对花生过敏", "-n", 1, "-C", 2, data=imported).stdout


def test_nothing_found_is_exit_code_1(imported: Path) -> None:
    """As with grep."""
    result = cli("search", "zyzzyva", data=imported)
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == "nothing found\n"


@pytest.mark.parametrize("words", [[""], ["  "], ["", " "]])
def test_a_search_for_no_words_is_a_wrong_use(imported: Path, words: list[str]) -> None:
    """Exit code 2: nothing was looked for, and so nothing can be missing."""
    result = cli("search", *words, data=imported)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "no words to search for" in result.stderr


def test_show_shortens_what_tools_said(imported: Path) -> None:
    """Messages are whole; a long result is a few lines and how many more, unless --full."""
    short = cli("show", "7c1f", "--around", 122, data=imported).stdout
    full = cli("show", "7c1f", "--around", 122, "--full", data=imported).stdout
    assert "more lines" in short
    assert "more line" not in full
    assert len(full) > len(short)
    assert "#122" in short


def test_show_takes_a_stretch(imported: Path) -> None:
    """--after, --before, --last, --reverse and --around choose entries and their order."""

    def seqs(*options: object) -> list[int]:
        return [entry["seq"] for entry in cli_json("show", "7c1f", *options, data=imported)["entries"]]

    assert seqs("--after", 10, "--before", 14) == [11, 12, 13]
    assert seqs("--last", 3) == [549, 550, 551]
    assert seqs("--last", 3, "--reverse") == [551, 550, 549]
    assert seqs("--before", 3, "--reverse") == [2, 1]
    assert seqs("--around", 2) == [1, 2, 3, 4, 5, 6]
    assert len(seqs()) == 551


def test_show_around_what_is_not_there(imported: Path) -> None:
    """An entry that does not exist is exit code 3; --around with --after is exit code 2."""
    missing = cli("show", "7c1f", "--around", 9999, data=imported)
    assert missing.exit_code == 3
    assert "no such entry; the last is #551" in missing.stderr
    assert "--all" not in missing.stderr
    for option in ("--after", "--before", "--last"):
        refused = cli("show", "7c1f", "--around", 9, option, 3, data=imported)
        assert refused.exit_code == 2
        assert "--around goes with none of" in refused.stderr


def test_show_around_looks_before_a_restart_by_itself(small: Path) -> None:
    """The command under a hit works on after a restart, and says where the entry is from."""
    hit = cli_json("search", "trip", data=small)["hits"][0]
    cli("restart", "alpha-one", data=small)
    found = cli("show", hit["session"], "--around", hit["seq"], data=small)
    assert found.exit_code == 0
    assert "Plan a trip" in found.stdout
    assert f"#{hit['seq']} is from before a restart" in found.stderr


def test_show_marks_what_was_withdrawn(small: Path) -> None:
    """What a note withdraws says so, in short and whole, also when the note is not shown; JSON does not."""
    with Stratalog(small) as memory:
        session = memory.session("helper:cli:gone")
        rule, asked, *_ = session.append(System(content="rule"), User(content="words"), User(content="stays"))
        called, result = session.append(
            ToolCall(call_id="c", name="look", args={"at": "sky"}),
            ToolResult(call_id="c", name="look", content="blue"),
        )
        before = cli_json("show", "gone", data=small)["entries"]
        session.withdraw(rule, asked, called, result)
    for options in ([], ["--full"], ["--before", 6], ["--around", 2], ["--reverse"], ["--full", "--last", 9]):
        shown = cli("show", "gone", *options, data=small).stdout.splitlines()
        marked = [re.search(r"#(\d+)", line) for line in shown if "(withdrawn)" in line]
        assert sorted(found[1] for found in marked if found) == ["1", "2", "4", "5"], options
        assert len(marked) == 4
        assert any("blue" in line for line in shown)
    assert cli_json("show", "gone", data=small)["entries"][: len(before)] == before


def test_show_all_goes_back_before_a_restart(small: Path) -> None:
    """A restart empties the history; --all still shows it."""
    assert cli_json("restart", "beta", data=small)["restarted"] is True
    assert "你好世界" not in cli_json_text("show", "beta", data=small)
    assert "你好世界" in cli_json_text("show", "beta", "--all", data=small)


def cli_json_text(*args: object, data: Path) -> str:
    return str(cli_json(*args, data=data)["entries"])


def test_context_shows_the_budget(imported: Path) -> None:
    """The bar has a legend with each section's tokens, and what was left out is told."""
    text = cli("context", "7c1f", "--budget", 4000, "--system", "Be brief.", data=imported).stdout
    for words in ("system", "summary", "recent turns", "free", "4,000", "left out: ", "Be brief."):
        assert words in text
    value = cli_json("context", "7c1f", "--budget", 4000, data=imported)
    assert (
        value["tokens"] == sum(section["tokens"] for section in value["sections"]) <= value["budget"] == 4000
    )
    assert value["messages"][0]["role"] == "system"


def test_context_messages_is_an_openai_request(imported: Path) -> None:
    """--messages prints the array of messages alone."""
    result = cli("context", "7c1f", "--messages", "--budget", 4000, data=imported)
    assert result.stdout.startswith('[{"role":"system"')
    assert cli_json("context", "7c1f", "--messages", "--budget", 4000, data=imported)[0]["role"] == "system"


def test_a_budget_that_is_too_small_is_exit_code_2(imported: Path) -> None:
    """It says which part cannot fit."""
    result = cli("context", "7c1f", "--budget", 3, data=imported)
    assert result.exit_code == 2
    assert "the new message cannot fit" in result.stderr
    assert "hint: give a larger budget" in result.stderr


def test_title(small: Path) -> None:
    """A title is taken as it is, but not without a character that shows."""
    assert cli_json("title", "beta", "[bold]Greetings[/]", data=small)["title"] == "[bold]Greetings[/]"
    assert "[bold]Greetings[/]" in cli("sessions", data=small).stdout
    assert cli("title", "beta", " ", data=small).exit_code == 2


def test_what_is_changed_is_named_by_its_key_too(small: Path) -> None:
    """Titles are not unique, so every message has the key."""
    cli("title", "alpha-one", "你好世界", data=small)
    for args, said in (
        (["title", "beta", "你好世界"], "titled"),
        (["pin", "beta"], "pinned"),
        (["pin", "beta", "--off"], "unpinned"),
        (["restart", "beta"], "restarted"),
        (["delete", "beta", "--yes"], "deleted"),
    ):
        assert cli(*args, data=small).stderr == f'{said} helper:cli:beta "你好世界"\n'


def test_a_long_title_is_shown_in_part(small: Path) -> None:
    """Into a pipe too, tables and headings have 80 characters of it; --json has all."""
    title = "👨‍👩‍👧" * 200
    assert cli_json("title", "alpha-one", title, data=small)["title"] == title
    shown = "👨‍👩‍👧" * 79 + "…"
    for args in (["sessions"], ["show", "alpha-one"], ["search", "trip"]):
        text = cli(*args, data=small).stdout.partition("── ")[0]  # the entry that gave it is whole in `show`
        assert shown in text
        assert title not in text
    cli("title", "alpha-one", "x" * 200, data=small)
    assert max(map(len, cli("sessions", data=small).stdout.splitlines())) < 160


def test_numbers_agree_with_their_nouns(small: Path, tmp_path: Path) -> None:
    """One of a thing is said in the singular."""
    assert "1 message\n" in cli("fork", "beta", "gamma", "--at", 1, data=small).stderr
    cli("import", transcript_path(), data=tmp_path / "d")
    again = cli("import", transcript_path(), data=tmp_path / "d").stdout
    assert "Nothing new: the session was there already." in again
    assert cli("rebuild", data=tmp_path / "d").stdout.startswith("1 session listed, 551 entries")


def test_a_turn_that_timed_out(small: Path) -> None:
    """Its end is told in words that are a sentence."""
    with Stratalog(small) as memory:
        memory.session("helper:cli:beta").append(TurnEnd(turn="t", status="timed_out"))
    assert "the turn timed out" in cli("show", "beta", data=small).stdout


def test_fork(small: Path) -> None:
    """A bare chat stays with the same agent and channel; a taken key is a conflict."""
    made = cli_json("fork", "beta", "gamma", "--at", 1, data=small)
    assert (made["key"], made["messages"]) == ("local/helper:cli:gamma", 1)
    assert cli_json("fork", "beta", "other:web:x", data=small)["key"] == "local/other:web:x"
    assert cli("fork", "beta", "alpha-one", data=small).exit_code == 4
    assert cli("fork", "beta", "delta", "--at", 999, data=small).exit_code == 3
    assert cli("fork", "beta", "a:b", data=small).exit_code == 2


def test_restart_of_a_running_turn_needs_a_yes(small: Path) -> None:
    """Without a terminal to ask on a busy session is exit code 4, and --yes is not asked."""
    with Stratalog(small) as memory:
        memory.session("helper:cli:beta").turn("still thinking")  # held, or cut short: never ended
        result = cli("restart", "beta", data=small)
        assert result.exit_code == 4
        assert "--yes" in result.stderr
        assert cli("restart", "beta", "--yes", data=small).exit_code == 0
    assert cli_json("sessions", data=small)["sessions"][0]["title"] == "你好世界"


def test_delete_needs_a_yes(small: Path) -> None:
    """Without a terminal and without --yes nothing is deleted."""
    refused = cli("delete", "beta", data=small)
    assert refused.exit_code == 2
    assert "--yes" in refused.stderr
    assert cli("delete", "beta", "--yes", data=small).exit_code == 0
    assert cli("delete", "beta", "--yes", data=small).exit_code == 3
    assert len(cli_json("sessions", data=small)["sessions"]) == 2


def test_export_comes_back_by_import(small: Path, tmp_path: Path) -> None:
    """JSON lines, imported elsewhere, show the same entries."""
    file = tmp_path / "beta.jsonl"
    assert cli("export", "beta", "-o", file, data=small).exit_code == 0
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert cli("import", file, data=tmp_path / "d").exit_code == 0
    ids = [entry["id"] for entry in cli_json("show", "beta", data=small)["entries"]]
    key = cli_json("sessions", data=tmp_path / "d")["sessions"][0]["key"]
    back = [entry["id"] for entry in cli_json("show", key, data=tmp_path / "d")["entries"]]
    assert [each for each in back if each in ids] == ids


def test_export_to_stdout(small: Path) -> None:
    """Without -o, or with `-o -`, the content is on stdout and nothing else."""
    markdown = cli("export", "beta", "--format", "markdown", data=small)
    assert markdown.stdout.startswith("# 你好世界\n")
    assert markdown.stderr == ""
    assert cli("export", "beta", "--format", "markdown", "-o", "-", data=small).stdout == markdown.stdout


def test_export_overwrites_whole_or_not_at_all(small: Path, tmp_path: Path) -> None:
    """An older export is replaced and becomes private; a log is never a target; nothing is left over."""
    file = tmp_path / "old.md"
    file.write_text("old")
    file.chmod(0o644)
    assert cli("export", "beta", "-o", file, data=small).exit_code == 0
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    log = next(small.rglob("*.jsonl"))
    before = log.read_bytes()
    assert cli("export", "beta", "-o", log, data=small).exit_code == 2
    assert log.read_bytes() == before
    assert cli("export", "beta", "-o", tmp_path, data=small).exit_code == 2
    assert cli("export", "beta", "-o", tmp_path / "no" / "such" / "dir.md", data=small).exit_code == 5
    assert {each.name for each in tmp_path.iterdir()} == {"old.md", "small"}


def test_tenants_do_not_see_one_another(small: Path) -> None:
    """--tenant, before the command or after it, is another memory in the same directory."""
    assert cli_json("sessions", "--tenant", "acme", data=small)["sessions"] == []
    assert cli("--tenant", "acme", "show", "beta", data=small).exit_code == 3
    assert cli("show", "beta", "--tenant", "local", data=small).exit_code == 0


def test_version_and_help() -> None:
    """The version is one line; no command is the help; each command has a help."""
    assert cli("--version").stdout == "stratalog 0.1.0\n"
    assert cli_json("--version") == {"version": "0.1.0"}
    assert "Usage: stratalog" in cli().stdout
    assert "search" in cli("-h").stdout
    assert "--neighbours" in cli("search", "-h").stdout
    assert "<bool>" not in cli("-h").stdout + cli("search", "-h").stdout


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["search", "x", "--role", "king"], "'--role': 'king' is not one of 'user', "),
        (["search", "x", "--limit", "0"], "it must be at least 1"),
        (["search", "x", "--limit", "few"], "a whole number is needed"),
        (["show", "x", "--around", "1.5"], "a whole number is needed"),
        (["show", "x", "y"], "Too many words: y"),
    ],
)
def test_wrong_values_are_told_in_plain_words(args: list[str], words: str) -> None:
    """Not in those of the library that checks them."""
    told = cli(*args).stderr
    assert words in told
    for leaked in ("Value error", "Input should", "parse", "argument(s)"):
        assert leaked not in told
