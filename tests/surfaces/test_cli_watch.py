"""`watch` in a process of its own: torn lines, kills at any moment, restarts, Ctrl-C, and one pass."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest

from stratalog import Stratalog
from stratalog.surfaces.cli.watching import agents_folders
from stratalog.types import Assistant, User
from surfaces.terminals import COMMAND, cli, environment

_PATIENCE = 60.0


def line(number: int, session: str = "s") -> str:
    role = "assistant" if number % 2 else "user"
    said = {"role": role, "content": f"words {number}"}
    told = {"type": role, "uuid": f"{session}-{number}", "sessionId": session, "message": said}
    after = f"{session}-{number - 1}" if number else None
    return json.dumps({"parentUuid": after, "isSidechain": False, "cwd": "/x", **told}) + "\n"


def words(data: Path, session: str = "s") -> list[str]:
    with Stratalog(data) as memory:
        entries = memory.session(f"claude-code:import:{session}").entries()
        return [entry.text for entry in entries if isinstance(entry, User | Assistant)]


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _PATIENCE
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


class Watch:
    """`stratalog watch` over one folder."""

    def __init__(self, data: Path, folder: Path, *options: str) -> None:
        given = ["--data", str(data), "watch", str(folder), "--interval", "0.1", *options]
        self.process = subprocess.Popen(
            [*COMMAND, *given], env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )

    def begun(self) -> None:
        """Waits until it follows, and can be told to end."""
        assert self.process.stderr is not None
        assert b"Ctrl-C ends it" in self.process.stderr.readline()

    def end(self, how: int) -> tuple[int, str, str]:
        self.process.send_signal(how)
        out, err = self.process.communicate(timeout=_PATIENCE)
        return self.process.returncode, out.decode(), err.decode()


@pytest.fixture
def watch(tmp_path: Path) -> Iterator[Callable[..., Watch]]:
    """Starts one over `tmp_path / "sessions"`; what still runs at the end is killed."""
    begun: list[Watch] = []

    def start(*options: str) -> Watch:
        begun.append(Watch(tmp_path / "data", tmp_path / "sessions", *options))
        return begun[-1]

    yield start
    for each in begun:
        if each.process.poll() is None:
            each.end(signal.SIGKILL)


@pytest.mark.crash
def test_every_whole_line_is_there_once(tmp_path: Path, watch: Callable[..., Watch]) -> None:
    """A file is written in torn pieces while watches are killed in the middle of one and begun again: in the
    end each of its lines is in the log, once, in their order."""
    data, folder = tmp_path / "data", tmp_path / "sessions"
    folder.mkdir()
    chance = random.Random(7)
    whole = "".join(line(number) for number in range(120)).encode()
    pieces = [whole[at : at + 333] for at in range(0, len(whole), 333)]
    running = watch()
    with (folder / "a.jsonl").open("ab", buffering=0) as file:
        for number, piece in enumerate(pieces, 1):
            file.write(piece)
            if number % 15 == 0:
                seen = (number - 5) * 333 // (len(whole) // 120)
                until(lambda least=seen: len(words(data)) >= least)  # type: ignore[misc]
                running.end(signal.SIGKILL)
                running = watch()
            time.sleep(chance.random() * 0.03)
    until(lambda: len(words(data)) >= 120)
    running.begun()
    assert running.end(signal.SIGTERM)[0] == 0
    assert words(data) == [f"words {number}" for number in range(120)]
    assert cli("watch", folder, "--once", data=data).stdout == ""


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_it_ends_when_it_is_told_to(tmp_path: Path, watch: Callable[..., Watch], how: int) -> None:
    """A folder that comes later is followed; each import is a line at once; the end is a clean one."""
    running = watch()
    running.begun()
    assert running.process.stderr is not None
    assert b"No such file or directory; it is looked for again" in running.process.stderr.readline()
    (tmp_path / "sessions").mkdir()
    (tmp_path / "sessions" / "a.jsonl").write_text(line(0) + line(1))
    assert running.process.stdout is not None
    told = running.process.stdout.readline().decode()
    assert told == f"claude-code:import:s  3 new  {tmp_path}/sessions/a.jsonl\n"
    code, out, err = running.end(how)
    assert (code, out) == (0, "")
    assert err == ""


def test_lines_of_json(tmp_path: Path, watch: Callable[..., Watch]) -> None:
    """With --json each import is one line of JSON, as `import` tells of a file."""
    (tmp_path / "sessions").mkdir()
    (tmp_path / "sessions" / "a.jsonl").write_text(line(0))
    running = watch("--json")
    assert running.process.stdout is not None
    told = msgspec.json.decode(running.process.stdout.readline())
    assert told["sessions"] == [
        {"key": "local/claude-code:import:s", "added": 2, "present": 0, **_rest(told["sessions"][0])}
    ]
    assert told["error"] is None
    assert running.end(signal.SIGINT)[:2] == (0, "")


def _rest(session: dict[str, object]) -> dict[str, object]:
    return {name: value for name, value in session.items() if name not in ("key", "added", "present")}


def test_once(tmp_path: Path) -> None:
    """One pass imports what has changed since the last one, of any run, and fails for what cannot be read."""
    data, folder = tmp_path / "data", tmp_path / "sessions"
    folder.mkdir()
    (folder / "a.jsonl").write_text(line(0))
    assert cli("watch", folder, "--once", data=data).stdout.startswith("claude-code:import:s  2 new")
    assert cli("watch", folder, "--once", data=data).stdout == ""
    (folder / "b.jsonl").write_text("nothing\n")
    failed = cli("watch", folder, "--once", data=data)
    assert failed.exit_code == 1
    assert "not a transcript of a known format" in failed.stderr
    assert cli("watch", folder, "--once", data=data).exit_code == 0
    assert cli("search", "words", data=data).exit_code == 0


def test_a_second_watch_is_refused(tmp_path: Path, watch: Callable[..., Watch]) -> None:
    """While one follows for a memory another does not begin."""
    (tmp_path / "sessions").mkdir()
    running = watch()
    running.begun()
    refused = cli("watch", tmp_path / "sessions", "--once", data=tmp_path / "data")
    assert refused.exit_code == 4
    assert "follows folders for this memory already" in refused.stderr


def test_the_folders_of_agents(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are in the home, or where the agents' own variables say."""
    monkeypatch.setenv("HOME", str(tmp_path))
    assert agents_folders({}) == [tmp_path / ".claude" / "projects", tmp_path / ".codex" / "sessions"]
    named = {"CLAUDE_CONFIG_DIR": "/c", "CODEX_HOME": "/x"}
    assert agents_folders(named) == [Path("/c/projects"), Path("/x/sessions")]
