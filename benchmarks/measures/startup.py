"""What `import stratalog` adds to a fresh interpreter."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from lab import Lab
from loads import timed
from spec import Block, Goal, Opener, Row, Size, Spec, System, pick

OURS = "import stratalog"
BARE = "pass"
PEER = "from agents import SQLiteSession"


def spec(size: Size) -> Spec:
    return Spec(
        "startup",
        "a fresh interpreter, wall time",
        "disk",
        pick(size, 30, 10, 2),
        (
            System(OURS, interpreter(OURS)),
            System(BARE, interpreter(BARE)),
            System(PEER, interpreter(PEER, peer=True), peer=True),
        ),
        (
            Row("what the import adds", OURS, BARE, how="excess", goal=Goal("at most", 0.150)),
            Row("whole process", OURS, how="cost"),
            Row("whole process, beside the peer's", OURS, PEER),
        ),
        "Byte code is cached, as after any first run.",
    )


def interpreter(code: str, *, peer: bool = False) -> Opener:
    @contextmanager
    def opened(lab: Lab) -> Iterator[Block]:
        python = str(lab.peers.python) if peer and lab.peers is not None else sys.executable
        environment = {**os.environ, "PYTHONPYCACHEPREFIX": str(lab.disk)}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        yield lambda: timed(lambda: subprocess.run([python, "-c", code], env=environment, check=True), 1)

    return opened
