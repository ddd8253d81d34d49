"""What a log store promises. `stratalog.conformance.log` is this contract as a suite that runs.

A log is a sequence of entries for one session, numbered from 1 without gaps. `append` adds to it durably,
`replace` starts a new generation of it, and nothing else changes it; both stamp `seq`, and `id` and `ts`
where these are empty. A log is made by the first append or replace.

Fences. Appending a `TurnStart` takes the session: the store stamps it with a fence greater than any before.
An append or replace that names a fence is refused with `StaleFence` unless it is the latest. A replace ends
the latest fence too. Fences start at the creation time of the log, so that those of a deleted log are stale.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Literal, Protocol, runtime_checkable

import msgspec

from stratalog.keys import SessionKey
from stratalog.types import AnyEntry, Blob

Sync = Literal["always", "turn", "interval", "never"]


class Problem(msgspec.Struct, frozen=True, omit_defaults=True):
    """Something wrong in a log: where it is, and what became of it."""

    reason: str
    path: str = ""
    line: int = 0
    offset: int = 0
    length: int = 0
    key: str = ""
    quarantine: str = ""


class Head(msgspec.Struct, frozen=True):
    """Where a log stands: last `seq` (0: empty), latest fence, generation, and the first `seq` of that."""

    seq: int
    fence: int
    generation: int
    first: int


class Verification(msgspec.Struct, frozen=True):
    """What reading a whole log again found. `problems` is empty when all is well."""

    key: str
    entries: int
    segments: int
    size: int
    problems: tuple[Problem, ...]
    quarantined: int = 0


class Reading(Iterator[AnyEntry]):
    """Entries as they are read. What had to be skipped is in `problems`, complete once the iteration ends."""

    def __init__(self, entries: Iterator[AnyEntry], problems: list[Problem]) -> None:
        self._entries = entries
        self.problems = problems

    def __iter__(self) -> Reading:
        return self

    def __next__(self) -> AnyEntry:
        return next(self._entries)


OnWrite = Callable[[SessionKey], None]
OnProblem = Callable[[Problem], None]


class LogStore(Protocol):
    """Six methods; the rest is sugar over them."""

    def append(
        self, key: SessionKey, entries: Sequence[AnyEntry], *, fence: int | None = None
    ) -> list[AnyEntry]:
        """Adds the entries in order, all or none, and returns them as stamped; they are durable on return.

        Raises `InvalidEntry`, `StaleFence`, `StorageFailed`, `LogBusy`, `ForeignFile`, `NewerFormat`.
        """
        ...

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
        """Entries with `after < seq < before`, streaming, oldest first unless `reverse`.

        With `blobs` false, large payloads stay references and text keeps only its beginning.
        A session that does not exist reads as empty. Damage is skipped and reported in `.problems`.
        """
        ...

    def head(self, key: SessionKey) -> Head | None:
        """Where the log stands after every write that has returned or is under way; None: no such log."""
        ...

    def replace(self, key: SessionKey, entries: Iterable[AnyEntry], *, fence: int | None = None) -> Head:
        """Starts a new generation with these entries; the old one is sealed and stays readable.

        On a session that does not exist this creates it, whole or not at all.
        """
        ...

    def delete(self, key: SessionKey) -> bool:
        """Removes the log and all that belongs to it. False when there was none."""
        ...

    def sessions(self, tenant: str | None = None) -> Iterator[SessionKey]:
        """The sessions that have a log, of one tenant or of all, in no particular order."""
        ...


@runtime_checkable
class Verifies(Protocol):
    """Capability: the log can be checked against its own promises."""

    def verify(self, key: SessionKey) -> Verification: ...


@runtime_checkable
class Seals(Protocol):
    """Capability: what lies before an entry can be moved out of the way of reopening."""

    def seal(self, key: SessionKey, first_kept: str) -> bool:
        """Moves the entries before the one with this id into the archive; False if there are none."""
        ...

    def compress(self, key: SessionKey) -> int:
        """Compresses what the archive has uncompressed; returns the bytes saved."""
        ...


@runtime_checkable
class HoldsBlobs(Protocol):
    """Capability: one payload can be fetched by its reference."""

    def blob(self, key: SessionKey, blob: Blob) -> bytes:
        """The payload, checked against its hash. Raises `DamagedLog`."""
        ...
