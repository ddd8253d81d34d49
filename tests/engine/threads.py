"""Threads for tests: what goes wrong in one fails the test."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

PATIENCE = 60.0


def together(*calls: Callable[[], object]) -> None:
    """Runs the calls at once, each in a thread, and waits for them; raises what the first of them raised."""
    gate = threading.Barrier(len(calls))

    def run(call: Callable[[], object]) -> None:
        gate.wait(PATIENCE)
        call()

    with ThreadPoolExecutor(len(calls)) as pool:
        for done in [pool.submit(run, call) for call in calls]:
            done.result(PATIENCE)
