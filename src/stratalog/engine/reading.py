"""Reading logs for a fold: what was damaged is heard of, and what the fold needs is whole."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, Final

import msgspec

from stratalog.context.view import standing as standing
from stratalog.context.view import withdrawal as withdrawal
from stratalog.context.view import withdrawn_by as withdrawn_by
from stratalog.errors import DamagedLog
from stratalog.keys import SessionKey
from stratalog.log import codec
from stratalog.log.contract import HoldsBlobs, LogStore, OnProblem, Problem, Reading
from stratalog.types import AnyEntry, Compaction, WorkingMemory

_NEAR: Final = 64  # entries


def heard(reading: Reading, on_problem: OnProblem) -> Iterator[AnyEntry]:
    """The entries; what had to be skipped is told when they end, or are left."""
    try:
        yield from reading
    finally:
        for problem in reading.problems:
            on_problem(problem)


def since(
    store: LogStore, key: SessionKey, seq: int, last: str, on_problem: OnProblem
) -> Iterator[AnyEntry] | None:
    """The entries after number `seq`, which had the id `last`, for a fold of the meta; None when the log has
    no such entry there: then it was made anew, or what was its last entry was undone."""
    if not seq:
        return folded(store, key, 0, on_problem)
    # What is new is most often a few entries, which are nearer to the end than to any other place.
    newest: list[AnyEntry] = []
    reading = store.read(key, reverse=True, blobs=False, generations="all")
    for entry in islice(heard(reading, on_problem), _NEAR):
        if entry.seq <= seq:
            same = entry.seq == seq and entry.id == last
            return _with_folded_payloads(store, key, reversed(newest), on_problem) if same else None
        newest.append(entry)
    before = entry_at(store, key, seq)
    return folded(store, key, seq, on_problem) if before is not None and before.id == last else None


def entry_at(store: LogStore, key: SessionKey, seq: int) -> AnyEntry | None:
    """The entry with this number, of whichever generation; its payloads may be references."""
    if seq < 1:
        return None
    reading = store.read(key, after=seq - 1, before=seq + 1, blobs=False, generations="all")
    return next(reading, None)


def folded(store: LogStore, key: SessionKey, after: int, on_problem: OnProblem) -> Iterator[AnyEntry]:
    """All entries after this number, with the payloads that a fold of the meta needs."""
    reading = store.read(key, after=after, blobs=False, generations="all")
    return _with_folded_payloads(store, key, heard(reading, on_problem), on_problem)


def _with_folded_payloads(
    store: LogStore, key: SessionKey, entries: Iterable[AnyEntry], on_problem: OnProblem
) -> Iterator[AnyEntry]:
    for entry in entries:
        if isinstance(entry, WorkingMemory | Compaction) and entry.blob is not None:
            yield from whole(store, key, [entry], on_problem)
        else:
            yield entry


def whole(
    store: LogStore, key: SessionKey, entries: Iterable[AnyEntry], on_problem: OnProblem
) -> list[AnyEntry]:
    """The entries with their payloads in place; one that is damaged stays a reference, and is told."""
    found: list[AnyEntry] = []
    for entry in entries:
        if isinstance(store, HoldsBlobs) and codec.blobs_of(entry):
            try:
                entry = codec.resolve(entry, lambda blob: store.blob(key, blob))
            except DamagedLog as error:
                on_problem(Problem(str(error), path=str(error.where.get("path", "")), key=str(key)))
        found.append(entry)
    return found


def withdrawn(entries: Sequence[AnyEntry]) -> list[bool]:
    """Of each of the entries, in their order, whether a later one of them withdraws it from what is seen."""
    return [left is not entry for entry, left in zip(entries, standing(entries), strict=True)]


def without_references(entry: AnyEntry) -> AnyEntry:
    """The entry as it can be written to another log: of a payload that is damaged, what is at hand stays."""
    if not codec.blobs_of(entry):
        return entry
    content = getattr(entry, "content", None)
    changes: dict[str, Any] = {"meta": {**(entry.meta or {}), "damaged": True}}
    if getattr(entry, "blob", None) is not None:
        changes["blob"] = None
    if isinstance(content, tuple):
        changes["content"] = tuple(msgspec.structs.replace(part, blob=None) for part in content)
    return msgspec.structs.replace(entry, **changes)
