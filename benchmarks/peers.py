"""The peers' own environment, and a process in it that does blocks of work when told to.

Peers are installed beside the project, never into it, so that what they need cannot change what is measured.
The process answers one JSON line for each that it gets; see `peer_worker.py` and its neighbours.
"""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ENVIRONMENT = HERE / ".peers"
PACKAGES = (
    "openai-agents==0.24.0",
    "langgraph-checkpoint-sqlite==3.1.2",
    "mem0ai==2.2.1",
    "qdrant-client==1.20.0",
    "chromadb==1.5.9",
    # SqliteStore's index is an extension, which the SQLite of some Pythons does not load.
    *(() if hasattr(sqlite3.Connection, "enable_load_extension") else ("pysqlite3-binary==0.5.4.post2",)),
)


_QUIET = {
    "OPENAI_AGENTS_DISABLE_TRACING": "1",
    "MEM0_TELEMETRY": "False",
    "ANONYMIZED_TELEMETRY": "False",  # Chroma's
    "MEM0_DIR": str(ENVIRONMENT / "mem0"),
}


class PeersUnavailable(Exception):
    """The peers could not be installed; the message says why."""


class Peers:
    """The environment, made when it is missing or of other versions. Raises `PeersUnavailable`."""

    def __init__(self, progress: Callable[[str], None] = lambda text: None) -> None:
        self.python = ENVIRONMENT / "bin" / "python"
        stamp = ENVIRONMENT / "installed"
        wanted = "\n".join((sys.version, *PACKAGES))
        if stamp.exists() and stamp.read_text() == wanted:
            return
        progress(f"installing {', '.join(PACKAGES)} into {ENVIRONMENT}")
        _run(sys.executable, "-m", "venv", "--clear", str(ENVIRONMENT))
        _run(str(self.python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *PACKAGES)
        stamp.write_text(wanted)

    def worker(self, script: str = "peer_worker.py") -> Worker:
        return Worker(self.python, script)


class Worker:
    """One process with the peers imported. `close` ends it."""

    def __init__(self, python: Path, script: str) -> None:
        self._process = subprocess.Popen(
            [str(python), str(HERE / script)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, **_QUIET},
        )

    def ask(self, what: str, **how: Any) -> Any:
        """What the process answers when told to do `what`."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"what": what, **how}) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise PeersUnavailable(
                f"the peers' process ended with {self._process.wait()}; see its error above"
            )
        return json.loads(line)

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise PeersUnavailable(f"{' '.join(command[:4])} failed: {done.stderr.strip()[-600:]}")
