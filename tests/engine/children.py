"""Real processes for tests: a script that says and hears one word a line, and can be stopped and killed."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager

PATIENCE = 30.0
_PRELUDE = """
import os, sys, time
from pathlib import Path
def say(*words): print(*words, flush=True)
def hear(): return sys.stdin.readline().strip()
"""


class Child:
    """A process that runs `script`; its arguments are in `sys.argv[1:]`."""

    def __init__(self, script: str, *args: object) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", _PRELUDE + textwrap.dedent(script), *map(str, args)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
        )
        self._rest = b""

    @property
    def pid(self) -> int:
        return self.process.pid

    def hear(self) -> str:
        """The next line that the child says; fails when it says none in good time."""
        out = self.process.stdout
        assert out is not None
        while b"\n" not in self._rest:
            ready, _, _ = select.select([out], [], [], PATIENCE)
            assert ready, "the child says nothing"
            more = os.read(out.fileno(), 65_536)
            assert more, f"the child ended with {self.process.wait()}"
            self._rest += more
        line, _, self._rest = self._rest.partition(b"\n")
        return line.decode()

    def tell(self, word: str = "go") -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{word}\n".encode())

    def kill(self) -> None:
        """Kill -9, if it still runs; the child cannot be spoken to any more."""
        self.process.kill()
        self.process.wait(PATIENCE)
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                pipe.close()

    def stop(self) -> None:
        """SIGSTOP; returns once the process has stopped."""
        os.kill(self.pid, signal.SIGSTOP)
        os.waitid(os.P_PID, self.pid, os.WSTOPPED | os.WNOWAIT)

    def go_on(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def end(self) -> int:
        """Waits for the child's own end and returns its exit status."""
        return self.process.wait(PATIENCE)


@contextmanager
def child(script: str, *args: object) -> Iterator[Child]:
    """The child for a `with` block; it does not outlive it."""
    made = Child(script, *args)
    try:
        yield made
    finally:
        made.kill()
