"""A log store in memory: for tests, for agents that must leave no trace; the contract in its least form."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

from stratalog.errors import DamagedLog
from stratalog.ids import now_ms
from stratalog.keys import SessionKey, tenant_id
from stratalog.log import codec
from stratalog.log.contract import Head, OnWrite, Reading, Verification
from stratalog.log.fences import first_fence, gone, refuse_stale
from stratalog.types import AnyEntry, Blob, TurnStart


class _Log:
    def __init__(self) -> None:
        self.entries: list[AnyEntry] = []
        self.fence = first_fence()
        self.generation = 1
        self.first = 1


class InMemoryStore:
    """Logs that end with the process. `on_write(key)` runs before each write, under the store's lock."""

    def __init__(self, *, on_write: OnWrite | None = None) -> None:
        self._logs: dict[SessionKey, _Log] = {}
        self._mutex = threading.RLock()
        self._on_write = on_write or (lambda key: None)

    def append(
        self, key: SessionKey, entries: Sequence[AnyEntry], *, fence: int | None = None
    ) -> list[AnyEntry]:
        if not entries:
            return []
        with self._mutex:
            log = self._logs.get(key)
            if fence is not None:
                if log is None:
                    raise gone(key, fence)
                refuse_stale(key, fence, log.fence)
            log = log or _Log()
            stored, latest = _stamped(entries, len(log.entries), log.fence)
            self._on_write(key)
            self._logs[key] = log
            log.entries += stored
            log.fence = latest
            return stored

    def read(
        self,
        key: SessionKey,
        *,
        after: int = 0,
        before: int | None = None,
        reverse: bool = False,
        blobs: bool = True,
        generations: Literal["current", "all"] = "current",
    ) -> Reading:
        with self._mutex:
            log = self._logs.get(key)
            if log is None:
                return Reading(iter(()), [])
            start = max(after, log.first - 1 if generations == "current" else 0)
            found = log.entries[start : max(start, before - 1) if before is not None else None]
        return Reading(iter(found[::-1] if reverse else found), [])

    def head(self, key: SessionKey) -> Head | None:
        with self._mutex:
            log = self._logs.get(key)
            return None if log is None else Head(len(log.entries), log.fence, log.generation, log.first)

    def replace(self, key: SessionKey, entries: Iterable[AnyEntry], *, fence: int | None = None) -> Head:
        with self._mutex:
            log = self._logs.get(key)
            if fence is not None:
                if log is None:
                    raise gone(key, fence)
                refuse_stale(key, fence, log.fence)
            new = _Log()
            if log is not None:
                new.entries, new.fence = list(log.entries), log.fence + 1
                new.generation, new.first = log.generation + 1, len(log.entries) + 1
            stored, new.fence = _stamped(entries, len(new.entries), new.fence)
            self._on_write(key)
            new.entries += stored
            self._logs[key] = new
            return Head(len(new.entries), new.fence, new.generation, new.first)

    def delete(self, key: SessionKey) -> bool:
        with self._mutex:
            if key not in self._logs:
                return False
            self._on_write(key)
            del self._logs[key]
            return True

    def sessions(self, tenant: str | None = None) -> Iterator[SessionKey]:
        with self._mutex:
            keys = list(self._logs)
        wanted = tenant_id(tenant) if tenant is not None else None
        return (key for key in keys if wanted is None or key.tenant == wanted)

    def verify(self, key: SessionKey) -> Verification:
        """Nothing can be wrong with what nobody else can touch."""
        with self._mutex:
            log = self._logs.get(key)
            return Verification(str(key), len(log.entries) if log else 0, 1 if log else 0, 0, ())

    def blob(self, key: SessionKey, blob: Blob) -> bytes:
        """No payload is ever out of line here."""
        raise DamagedLog("this store keeps no payloads out of line", key=str(key), sha256=blob.sha256)

    def close(self) -> None:
        """Nothing to close; the logs stay as long as the store."""


def _stamped(entries: Iterable[AnyEntry], seq: int, fence: int) -> tuple[list[AnyEntry], int]:
    stored: list[AnyEntry] = []
    now = now_ms()
    for entry in entries:
        seq += 1
        if isinstance(entry, TurnStart):
            fence += 1
        stored.append(codec.encode(codec.stamp(entry, seq, now, fence))[0])
    return stored, fence
