"""`stratalog purge`: what it asks, shows and gives as JSON, and its exit codes."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from crash.processes import run
from engine.estates import EVAL, PLAIN, build, chats, every_byte, holding, key_of, marker, opened
from stratalog import Stratalog, points
from stratalog.engine.purging import purge
from stratalog.engine.remembering import ADMIN, Records, Selector
from surfaces.terminals import cli, cli_json, terminal

RECEIPT = {
    "tenant",
    "environment",
    "selector",
    "dry_run",
    "at",
    "stores",
    "unsupported",
    "kept",
    "shared",
    "forks",
    "unread",
    "resumed",
    "purged",
}


@pytest.fixture
def estate(tmp_path: Path) -> Path:
    build(tmp_path / "data")
    return tmp_path / "data"


def counts(value: dict[str, Any], when: str) -> dict[str, dict[str, int]]:
    return {each["store"]: each[when] for each in value["stores"]}


def test_it_needs_a_yes(estate: Path) -> None:
    """Without a terminal it is exit code 2 and nothing is destroyed; with --yes there is a receipt."""
    before = every_byte(estate)
    assert cli("purge", "--user", "ana", data=estate).exit_code == 2
    assert every_byte(estate) == before
    value = cli_json("purge", "--user", "ana", "--yes", data=estate)
    assert set(value) == RECEIPT
    assert (value["selector"], value["purged"]) == ({"kind": "user", "id": "ana"}, True)
    assert counts(value, "before")["logs"]["sessions"] == 2
    assert sum(sum(each.values()) for each in counts(value, "after").values()) == 0
    assert value["shared"] == [key_of(PLAIN, "both")]
    assert holding(estate, marker("ana1")) == []


def test_a_dry_run_only_says_what_there_is(estate: Path) -> None:
    """The table has what there is, with no column for after, and nothing is changed."""
    before = every_byte(estate)
    done = cli("purge", "--session", key_of(PLAIN, "ana1"), "--dry-run", data=estate)
    assert (done.exit_code, done.stderr) == (0, "")
    assert done.stdout.startswith("would destroy session local/bot:cli:ana1")
    assert "sessions" in done.stdout
    assert "after" not in done.stdout
    assert every_byte(estate) == before
    value = cli_json("purge", "--everything", "--dry-run", data=estate)
    assert (value["purged"], value["dry_run"]) == (False, True)
    assert counts(value, "before")["logs"]["sessions"] == len(chats(PLAIN))


@pytest.mark.parametrize(("answer", "code", "left"), [("y\n", 0, 0), ("n\n", 1, 2)])
def test_it_asks_on_a_terminal(answer: str, code: int, left: int, estate: Path) -> None:
    """The numbers are shown before the question; a no is exit code 1."""
    shown = terminal("purge", "--user", "ana", "--data", estate, answer=answer)
    assert shown.code == code
    assert shown.text.index("would destroy user ana") < shown.text.index(
        "Destroy all this of the user ana for good?"
    )
    assert ("destroyed user ana" in shown.text) == (not left)
    with opened(estate) as memory:
        said = [str(key) for key in memory.store.sessions()]
    assert sum(key_of(PLAIN, chat) in said for chat in ("ana1", "ana2")) == left


@pytest.mark.parametrize(
    ("options", "gone"),
    [
        (("--session", "ana1"), {"ana1"}),
        (("--user", "ana", "--environment", EVAL), {"e1"}),
        (("--agent", "bot"), {"ana1", "bo1", "both"}),
        (("--run", "r1"), {"ana2"}),
        (("--environment", EVAL), {"e1"}),
        (("--everything",), set(chats(PLAIN))),
    ],
    ids=lambda each: " ".join(each) if isinstance(each, tuple) else "",
)
def test_what_each_option_names(options: tuple[str, ...], gone: set[str], estate: Path) -> None:
    """A session by the piece of its name that a person types; an environment alone, or as where."""
    value = cli_json("purge", *options, "--yes", data=estate)
    assert value["purged"]
    with opened(estate) as memory:
        left = {key.chat for key in memory.store.sessions()}
    assert set(chats(PLAIN)) - left == gone


def test_a_line_that_is_kept_is_told(estate: Path) -> None:
    """On stderr, with the page, so that a person can look."""
    (page,) = (estate / "local" / "agents" / "bot" / "memory").glob("MEMORY.md")
    page.write_text(page.read_text().replace("likes", "adores"))
    done = cli("purge", "--session", "ana1", "--yes", data=estate)
    assert done.exit_code == 0
    assert "1 line that a person edited may still say it: agents/bot/memory/MEMORY.md" in done.stderr


def test_what_was_cut_short_is_finished(estate: Path) -> None:
    """`--resume` finishes it and prints its receipt; then there is nothing to do."""

    def work(say: object) -> None:
        with opened(estate) as memory, Records(memory) as records:
            points.arm("purging.logs")
            purge(memory, records, records.caller(roles=(ADMIN,)), Selector("user", "ana"))

    assert run(work) == -signal.SIGKILL
    checked = cli("doctor", data=estate)
    assert checked.exit_code == 1
    assert "`stratalog purge --resume` finishes it" in checked.output
    assert cli_json("doctor", data=estate, code=1)["purging"]
    done = cli("purge", "--resume", data=estate)
    assert done.exit_code == 0
    assert "cut short then and finished now" in done.stdout
    assert holding(estate, marker("ana2")) == []
    assert cli_json("purge", "--resume", data=estate) == {"receipts": []}
    assert "no purge was cut short" in cli("purge", "--resume", data=estate).stderr


@pytest.mark.parametrize(
    ("args", "code"),
    [
        ([], 2),
        (["--user", "ana", "--agent", "bot", "--yes"], 2),
        (["--everything", "--user", "ana", "--yes"], 2),
        (["--resume", "--user", "ana"], 2),
        (["--resume", "--dry-run"], 2),
        (["--user", "a/b", "--yes"], 6),
        (["--user", "a\udcff", "--yes"], 6),
        (["--session", "nobody-knows-it", "--yes"], 3),
        (["--session", "other/bot:cli:ana1", "--yes"], 6),
        (["--everything", "--environment", EVAL, "--yes"], 6),
        (["--session", "e1", "--yes"], 2),
    ],
    ids=lambda each: ascii(" ".join(each)) if isinstance(each, list) else "",
)
def test_an_error_is_told_and_is_an_object(args: list[str], code: int, estate: Path) -> None:
    """In words on stderr, and as one object on stdout; nothing is destroyed."""
    done = cli("purge", *args, "--json", data=estate)
    assert done.exit_code == code, done.output
    assert set(msgspec.json.decode(done.stdout)) == {"error", "kind", "hint", "where", "exit_code"}
    assert "Traceback" not in done.stderr
    with opened(estate) as memory:
        assert len(list(memory.store.sessions())) == len(chats(PLAIN))


def test_hostile_names_are_harmless(tmp_path: Path) -> None:
    """What a channel put into a session's key reaches no terminal as it is."""
    with Stratalog(tmp_path) as memory:
        session = memory.session("bot:cli:x\u202e")
        session.set_metadata(users=["ana", "bo\u202e"])
    done = cli("purge", "--user", "ana", "--yes", data=tmp_path)
    assert done.exit_code == 0
    assert "\u202e" not in done.output
    assert "of others too was left" in done.stderr


def test_the_command_line_starts_without_it() -> None:
    """Importing the command line loads nothing of purging."""
    code = "import sys, stratalog.surfaces.cli.app; sys.exit('stratalog.engine.purging' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=60).returncode == 0
