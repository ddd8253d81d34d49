"""The real `stratalog` in a process of its own: exit codes, streams, where the data are."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import pytest

from stratalog import Stratalog
from stratalog.demo import transcript_path
from surfaces.terminals import COMMAND, environment, process


def test_first_use(tmp_path: Path) -> None:
    """Import, list, search, read and see the context: each step works on what the one before left."""
    data = str(tmp_path / "d")
    for args in (
        ["import", transcript_path()],
        ["sessions"],
        ["search", "谁对花生过敏"],
        ["show", "7c1f0a52", "--last", "5"],
        ["context", "7c1f0a52"],
        ["doctor"],
    ):
        done = process(*args, STRATALOG_DATA=data)
        assert done.returncode == 0, done.stderr
        assert done.stdout
        assert b"\x1b" not in done.stdout + done.stderr
        assert done.stderr == b""


def test_times_are_local_with_their_offset(imported: Path) -> None:
    """S83: times are kept in UTC; the zone of the environment is used to show them, and named."""
    east = process(
        "search", "BT-20931", "-n", 1, "--role", "user", STRATALOG_DATA=str(imported)
    ).stdout.decode()
    west = process("sessions", STRATALOG_DATA=str(imported), TZ="America/St_Johns").stdout.decode()
    assert "+08:00" in east
    assert "-02:30" in west


def test_where_the_data_are(small: Path, imported: Path, tmp_path: Path) -> None:
    """--data wins over STRATALOG_DATA, after the command over before it, and the platform's place is last."""

    def count(*args: object, **changes: str) -> int:
        done = process(*args, "sessions", "--json", **changes)
        return len(msgspec.json.decode(done.stdout)["sessions"])

    home = {"HOME": str(tmp_path / "home"), "XDG_DATA_HOME": str(tmp_path / "xdg")}
    assert count("--data", small, STRATALOG_DATA=str(imported)) == 3
    assert count(STRATALOG_DATA=str(imported)) == 1
    assert count(**home) == 0
    done = process("--data", imported, "sessions", "--data", small, "--json")
    assert len(msgspec.json.decode(done.stdout)["sessions"]) == 3
    with Stratalog(tmp_path / "home" / "tilde") as memory:
        memory.session("a:b:c").append()
        with memory.session("a:b:c").turn("x") as turn:
            turn.reply("y")
    assert count("--data=~/tilde", **home) == 1


@pytest.mark.parametrize(
    ("place", "command", "code"),
    [
        ("/etc/passwd", "sessions", 2),
        ("", "sessions", 2),
        ("/proc/nowhere", "demo", 5),
        ("/proc/nowhere", "search x", 1),
        ("/proc/nowhere", "doctor", 0),
        ("/proc/nowhere", f"import {transcript_path()}", 5),
    ],
)
def test_a_data_directory_that_cannot_be(place: str, command: str, code: int) -> None:
    """A file, nothing, a place that cannot be made: clear words, no traceback; readers find nothing there."""
    done = process("--data", place, *command.split())
    assert done.returncode == code, done.stderr
    assert b"Traceback" not in done.stderr
    if code == 2:
        assert done.stderr.startswith(b"error: ")


def test_settings_that_are_wrong(small: Path) -> None:
    """A slip in stratalog.toml is exit code 2 and names the file."""
    (small / "stratalog.toml").write_text("tilte_length = 3\n")
    done = process("sessions", STRATALOG_DATA=str(small))
    assert done.returncode == 2
    assert b"stratalog.toml" in done.stderr


def test_demo_removes_its_data(tmp_path: Path) -> None:
    """The temporary directory is gone at the end; --keep leaves it where it says."""
    done = process("demo", TMPDIR=str(tmp_path))
    assert done.returncode == 0, done.stderr
    text = done.stdout.decode()
    for step in ("import ", "sessions", "search ", "context "):
        assert f"$ stratalog {step}" in text
    assert "花生" in text
    assert list(tmp_path.iterdir()) == []
    kept = process("demo", "--keep", TMPDIR=str(tmp_path))
    (data,) = tmp_path.iterdir()
    assert str(data) in kept.stdout.decode()
    assert process("show", "7c1f0a52", "--last", 1, STRATALOG_DATA=str(data)).returncode == 0


def test_demo_does_not_touch_the_user_s_data(small: Path, tmp_path: Path) -> None:
    """STRATALOG_DATA is left alone; only --data says to keep the demo's data somewhere."""
    before = sorted(small.rglob("*"))
    (tmp_path / "tmp").mkdir()
    assert process("demo", STRATALOG_DATA=str(small), TMPDIR=str(tmp_path / "tmp")).returncode == 0
    assert sorted(small.rglob("*")) == before
    assert process("demo", "--data", tmp_path / "here", TMPDIR=str(tmp_path / "tmp")).returncode == 0
    assert (tmp_path / "here" / "local").is_dir()


@pytest.mark.parametrize("buffered", ["", "1"])
@pytest.mark.parametrize(
    "args", [["show", "7c1f", "--full"], ["export", "7c1f"], ["show", "7c1f", "--json"], ["--help"]]
)
def test_a_pipe_that_closes_early(imported: Path, args: list[str], buffered: str) -> None:
    """As in `| head`: no message and no traceback, and an exit code that says so."""
    ours, theirs = os.pipe()
    child = subprocess.Popen(
        [*COMMAND, *args],
        env=environment(STRATALOG_DATA=str(imported), PYTHONUNBUFFERED=buffered),
        stdout=theirs,
        stderr=subprocess.PIPE,
    )
    os.close(theirs)
    if args != ["--help"]:  # all of which fits into a pipe
        assert os.read(ours, 1)
    os.close(ours)
    _, errors = child.communicate(timeout=60)
    assert (child.returncode, errors) == (141, b"")


def test_messages_that_nobody_reads(small: Path) -> None:
    """A closed stderr is no crash."""
    done = subprocess.run(
        ["sh", "-c", f'"{sys.executable}" -m stratalog --data "{small}" pin beta 2>&-'],
        env=environment(),
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize("args", [["sessions"], ["show", "7c1f", "--json"], ["export", "7c1f"]])
def test_a_full_disk_under_the_output(imported: Path, args: list[str]) -> None:
    """Output that could not be written is exit code 5, not silence."""
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [*COMMAND, *args],
            env=environment(STRATALOG_DATA=str(imported)),
            stdout=full,
            stderr=subprocess.PIPE,
            timeout=60,
            check=False,
        )
    assert done.returncode == 5
    assert done.stderr.startswith(b"error: the output cannot be written: No space left")


@pytest.mark.parametrize(
    "args", [["sessions"], ["search", "花生"], ["show", "7c1f", "--last", "40"], ["context", "7c1f"]]
)
def test_an_encoding_without_the_characters(imported: Path, args: list[str]) -> None:
    """Under ASCII nothing fails, and what cannot be shown is an escape; --json is ASCII and says the same."""
    environ = {"STRATALOG_DATA": str(imported), "LC_ALL": "C", "PYTHONIOENCODING": "ascii"}
    done = process(*args, **environ)
    assert done.returncode == 0, done.stderr
    assert done.stdout.isascii()
    there = process(*args, "--json", **environ)
    assert there.stdout.isascii()
    assert msgspec.json.decode(there.stdout) == msgspec.json.decode(
        process(*args, "--json", STRATALOG_DATA=str(imported)).stdout
    )


def test_help_and_errors_under_ascii() -> None:
    """Help, usage errors and arguments that are no UTF-8 pass through an ASCII stream."""
    environ = {"LC_ALL": "C", "PYTHONIOENCODING": "ascii"}
    assert process("--help", **environ).returncode == 0
    assert process("show", "名", **environ, STRATALOG_DATA="/proc/none").returncode in (3, 5)


def test_bytes_that_are_no_text(small: Path, tmp_path: Path) -> None:
    """File names and arguments that are no UTF-8 are shown escaped, and --json stays valid."""
    odd = os.fsencode(tmp_path) + b"/\xff.jsonl"
    Path(os.fsdecode(odd)).write_bytes(transcript_path().read_bytes())
    done = subprocess.run(
        [*COMMAND, "import", odd, "--json"],
        env=environment(STRATALOG_DATA=str(tmp_path / "d")),
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert msgspec.json.decode(done.stdout)["files"][0]["path"].endswith(r"\udcff.jsonl")
    for args in ([b"show", b"\xff"], [b"search", b"\xff"], [b"export", b"beta", b"-o", odd + b".out"]):
        for more in ([], [b"--json"]):
            done = subprocess.run(
                [*COMMAND, *args, *more],
                env=environment(STRATALOG_DATA=str(small)),
                capture_output=True,
                timeout=60,
                check=False,
            )
            assert b"Traceback" not in done.stderr, done.stderr
            if more:
                msgspec.json.decode(done.stdout)


def test_ctrl_c(tmp_path: Path) -> None:
    """An interrupted import is exit code 130 without a traceback; importing again goes on where it was."""
    folder = tmp_path / "in"
    folder.mkdir()
    for number in range(20):
        text = transcript_path().read_text("utf-8").replace("7c1f0a52", f"{number:08x}")
        (folder / f"{number:02}.jsonl").write_text(text, "utf-8")
    child = subprocess.Popen(
        [*COMMAND, "import", str(folder), "--json"],
        env=environment(STRATALOG_DATA=str(tmp_path / "d")),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    deadline = time.monotonic() + 30
    while len(list((tmp_path / "d").rglob("*.jsonl"))) < 3 and time.monotonic() < deadline:
        time.sleep(0.01)
    child.send_signal(signal.SIGINT)
    out, errors = child.communicate(timeout=60)
    assert child.returncode == 130, errors
    assert errors.startswith(b"error: interrupted")
    assert b"Traceback" not in errors
    assert msgspec.json.decode(out)["exit_code"] == 130
    again = process("import", folder, "--json", STRATALOG_DATA=str(tmp_path / "d"))
    value = msgspec.json.decode(again.stdout)
    assert value["added"] + value["present"] == 20 * 551
    assert value["present"] > 0


def test_the_command_that_is_installed() -> None:
    """`stratalog` of the environment is this command line, and starts in a moment."""
    command = Path(sys.executable).with_name("stratalog")
    if not command.exists():
        pytest.skip("not installed with its command")
    done = subprocess.run([command, "--version"], capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout.startswith("stratalog ")
