"""Real processes for the crash tests: forked, so that none waits for an interpreter, and always ended."""

from __future__ import annotations

import os
import random
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NoReturn

Say = Callable[[str], None]
PATIENCE = 60.0


class Child:
    """A forked process that runs `work(say)`; what it says is read here, line by line."""

    def __init__(self, work: Callable[[Say], object]) -> None:
        self._read, write = os.pipe()
        sys.stdout.flush()
        sys.stderr.flush()
        self.pid = os.fork()
        if self.pid == 0:
            os.close(self._read)
            _run(work, write)
        os.close(write)
        self._rest = b""
        self.status: int | None = None

    def hear(self) -> str | None:
        """The next line it says; None when it has ended."""
        while b"\n" not in self._rest:
            chunk = os.read(self._read, 65_536)
            if not chunk:
                return None
            self._rest += chunk
        line, _, self._rest = self._rest.partition(b"\n")
        return line.decode()

    def hear_all(self) -> list[str]:
        """What it says until it ends."""
        return list(iter(self.hear, None))

    def signal(self, number: signal.Signals) -> None:
        os.kill(self.pid, number)

    def stopped(self) -> None:
        """Waits until it is stopped."""
        _, status = os.waitpid(self.pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status), f"it was to stop, but ended with {status}"

    def wait(self) -> int:
        """Waits until it has ended; its exit code, negative when a signal ended it."""
        if self.status is None:
            deadline = time.monotonic() + PATIENCE
            while True:
                pid, status = os.waitpid(self.pid, os.WNOHANG)
                if pid:
                    break
                if time.monotonic() > deadline:
                    os.kill(self.pid, signal.SIGKILL)
                time.sleep(0.001)
            self.status = os.waitstatus_to_exitcode(status)
            os.close(self._read)
        return self.status


def _run(work: Callable[[Say], object], write: int) -> NoReturn:
    status = 70
    random.seed()
    try:
        work(lambda text: _say(write, text))
        status = 0
    finally:
        if status:
            traceback.print_exc()
            sys.stderr.flush()
        os._exit(status)


def _say(write: int, text: str) -> None:
    os.write(write, text.encode() + b"\n")


@contextmanager
def child(work: Callable[[Say], object]) -> Iterator[Child]:
    """A child for a `with` block, killed at its end if it still runs."""
    started = Child(work)
    try:
        yield started
    finally:
        if started.status is None:
            started.signal(signal.SIGKILL)
            started.wait()


def run(work: Callable[[Say], object]) -> int:
    """Runs `work` in a child; its exit code."""
    with child(work) as started:
        started.hear_all()
        return started.wait()
