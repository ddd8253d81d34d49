"""Where benchmarks work: their directories, and what several of them share.

`disk` is on the filesystem that is measured, `memory` on one whose flushes cost nothing. Both are deleted
when the lab closes.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from peers import Peers

_T = TypeVar("_T")


class Lab:
    """`peers` is None where peers are not to be measured."""

    def __init__(self, disk: Path, memory: Path, peers: Peers | None) -> None:
        self.peers = peers
        self._roots = {"disk": disk, "memory": memory}
        self._dirs: list[Path] = []
        self._made: dict[str, Any] = {}
        self._stack = ExitStack()

    @property
    def disk(self) -> Path:
        """A new directory on the filesystem that is measured."""
        return self._new("disk")

    @property
    def memory(self) -> Path:
        """A new directory on a filesystem in memory."""
        return self._new("memory")

    def once(self, name: str, make: Callable[[], _T]) -> _T:
        """What `make` returns, made the first time only."""
        if name not in self._made:
            self._made[name] = make()
        found: _T = self._made[name]
        return found

    def at_end(self, act: Callable[[], object]) -> None:
        """Has `act` called when the lab closes, last one first."""
        self._stack.callback(act)

    def close(self) -> None:
        self._stack.close()
        for path in self._dirs:
            shutil.rmtree(path, ignore_errors=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _new(self, where: str) -> Path:
        root = self._roots[where]
        root.mkdir(parents=True, exist_ok=True)
        path = Path(tempfile.mkdtemp(prefix="stratalog-bench-", dir=root))
        self._dirs.append(path)
        return path
