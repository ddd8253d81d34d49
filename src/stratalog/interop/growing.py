"""What a file that is imported again while it grows needs besides its new entries.

How a turn ended is known only when the file goes on after it, so an import of a running agent's file says of
its last turn what is so by then: interrupted, with calls that wait. When the file has grown and says
otherwise, another end is appended; of several ends of one turn the last one holds.

Two imports of one file at once would both add what is new, so each session is brought in under a lock.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

import msgspec

from stratalog.engine.core import Stratalog
from stratalog.errors import StoreBusy
from stratalog.ids import derived_ulid, ulid_ts
from stratalog.keys import tenant_path
from stratalog.osfiles import failed, locked_file
from stratalog.types import AnyEntry, TurnEnd

_PATIENCE = 60.0  # seconds


def changed_ends(source: Sequence[AnyEntry], logged: Iterable[AnyEntry]) -> list[TurnEnd]:
    """The ends of turns that ended otherwise in the log than in the source, as entries to append.

    Only of turns of which the source has all that the log has: an older copy of a file corrects nothing.
    """
    ends = {entry.turn: entry for entry in source if isinstance(entry, TurnEnd)}
    last = {entry.turn: entry.id for entry in source if not isinstance(entry, TurnEnd)}
    known = {entry.id for entry in source}
    before: dict[str, TurnEnd] = {}
    ahead: set[str] = set()
    for entry in logged:
        if isinstance(entry, TurnEnd):
            before[entry.turn] = entry
        elif entry.turn in ends and entry.id not in known:
            ahead.add(entry.turn)
    return [
        msgspec.structs.replace(
            end, id=derived_ulid(ulid_ts(end.id), end.id, end.status, end.detail, last.get(turn, ""))
        )
        for turn, end in ends.items()
        if turn in before
        and turn not in ahead
        and (before[turn].status, before[turn].detail) != (end.status, end.detail)
    ]


@contextmanager
def alone(memory: Stratalog) -> Iterator[None]:
    """Keeps other imports into this tenant's memory, of any process, waiting for the block. Raises
    `StoreBusy` after a minute, and `StorageFailed`."""
    directory = tenant_path(memory.data, memory.tenant)
    try:
        fd = locked_file(directory / "import.lock", _PATIENCE)
    except OSError as error:
        raise failed(error, "locking the import", directory) from error
    if fd < 0:
        raise StoreBusy(
            "another import into this memory has gone on for a minute",
            path=str(directory),
            hint="wait for it, or look for a stopped process",
        )
    try:
        yield
    finally:
        os.close(fd)
