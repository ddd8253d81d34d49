"""Running the command line: in this process, in one of its own, and in a terminal that keeps what it gets."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
import threading
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from typer.testing import CliRunner, Result

from stratalog.surfaces.cli.app import app

COMMAND = [sys.executable, "-m", "stratalog"]
CSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_CLEARED = ("STRATALOG_DATA", "COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR", "PYTHONIOENCODING")


def cli(*args: object, data: Path | None = None, stdin: str = "") -> Result:
    """Runs the command line in this process."""
    given = ["--data", str(data)] if data is not None else []
    return CliRunner().invoke(app, [*given, *map(str, args)], input=stdin, env=dict.fromkeys(_CLEARED))


def cli_json(*args: object, data: Path | None = None, code: int = 0) -> Any:
    """Runs it with `--json`, checks the exit code, and returns the one value on stdout."""
    result = cli(*args, "--json", data=data)
    assert result.exit_code == code, result.output
    return msgspec.json.decode(result.stdout)


def environment(**changes: str) -> dict[str, str]:
    base = {name: value for name, value in os.environ.items() if name not in _CLEARED}
    return {**base, "TZ": "Asia/Shanghai", "TERM": "xterm-256color", **changes}


def process(*args: object, **changes: str) -> subprocess.CompletedProcess[bytes]:
    """Runs it in a process of its own without a terminal."""
    return subprocess.run(
        [*COMMAND, *map(str, args)],
        env=environment(**changes),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=120,
        check=False,
    )


class Shown(NamedTuple):
    """What a terminal was sent, and how the run ended."""

    sent: str
    code: int

    @property
    def text(self) -> str:
        """Without the sequences that colour it."""
        return CSI.sub("", self.sent).replace("\r\n", "\n")


def terminal(*args: object, columns: int = 80, answer: str = "", **changes: str) -> Shown:
    """Runs it in a terminal of its own, where `answer` is typed."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    child = subprocess.Popen(
        [*COMMAND, *map(str, args)],
        env=environment(**changes),
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    )
    os.close(theirs)
    if answer:
        os.write(ours, answer.encode())
    pieces: list[bytes] = []

    def read() -> None:
        while True:
            try:
                piece = os.read(ours, 65536)
            except OSError:  # Linux says so when the other end is closed
                return
            if not piece:
                return
            pieces.append(piece)

    reader = threading.Thread(target=read)
    reader.start()
    code = child.wait(timeout=120)
    reader.join(timeout=10)
    os.close(ours)
    return Shown(b"".join(pieces).decode("utf-8", "replace"), code)
