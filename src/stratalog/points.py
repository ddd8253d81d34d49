"""Named points at which a test may stop the process, at the very lines where a crash would hurt most.

Nothing is armed outside tests; an unarmed point costs one look at an empty dictionary.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable

POINTS = (
    "create.written",
    "create.renamed",
    "append.written",
    "append.synced",
    "append.blob",
    "seal.archived",
    "seal.written",
    "seal.renamed",
    "compress.written",
    "compress.renamed",
    "rotate.written",
    "rotate.renamed",
    "meta.written",
    "meta.renamed",
    "delete.renamed",
    "delete.archive",
    "delete.done",
    "purge.batch",
    "purge.deleted",
    "purge.merged",
    "purge.vacuumed",
    "purge.truncated",
    "purging.intended",
    "purging.session",
    "purging.logs",
    "purging.jobs",
    "purging.profiles",
    "purging.repaired",
    "purging.records",
    "purging.list",
    "purging.index",
    "purging.graphs",
    "purging.files",
    "purging.told",
    "vectors.written",
    "vectors.added",
    "vectors.removed",
    "vectors.rewritten",
    "vectors.swapped",
    "vectors.dropped",
    "knowledge.read",
    "knowledge.stored",
    "knowledge.purged",
)

_armed: dict[str, tuple[int, Callable[[], None]]] = {}


def reach(name: str) -> None:
    """Marks the point; acts only when a test armed it."""
    if _armed and name in _armed:
        left, act = _armed[name]
        _armed[name] = (left - 1, act)
        if left <= 1:
            act()


def arm(name: str, nth: int = 1, act: Callable[[], None] | None = None) -> None:
    """Lets the `nth` arrival at `name` (one of `POINTS`) run `act`, by default a SIGKILL of this process."""
    if name not in POINTS:
        raise ValueError(f"no crash point is called {name}")
    _armed[name] = (nth, act or _die)


def disarm() -> None:
    """Forgets every armed point."""
    _armed.clear()


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)
