"""The vectors of one tenant: exact search over them, in files that can be deleted and made anew.

    <tenant>/vectors/catalog.sqlite3        which vector is where, and how far each scope is embedded
    <tenant>/vectors/<space>/00000001.f32   rows of little-endian float32, one after another, without a header

A segment only grows, up to 64 MiB, and is mapped into memory to be read. The catalog is the truth: rows are
written and synced first, then named in one transaction, so that what a crash leaves half done has no name and
is overwritten by the next append. A row that is removed loses its name in a transaction too, and is found no
more once that has ended; its bytes go with `scrub`, which writes segments anew, the rows of a scope side by
side. No place is used twice for rows that had names: a reader who looks at an older state finds too little,
sees that the state has changed, and looks again.

A scope is what vectors are removed and searched by: a session, a user, a collection of documents. Only one
process writes at a time, by SQLite's lock; any number read. The catalog has the CRC-32 of every row.
"""

from __future__ import annotations

import sqlite3
import zlib
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, NamedTuple, Self, TypeVar

import msgspec
import numpy as np

from stratalog.errors import Conflict, InvalidInput
from stratalog.memory.database import Database
from stratalog.points import reach
from stratalog.recall import pruning
from stratalog.recall import vector_catalog as catalog
from stratalog.recall.embed import Space, Vectors
from stratalog.recall.nearest import Place, Segment, best, rows_of
from stratalog.recall.pruning import scored
from stratalog.recall.segments import File, Segments

FILE: Final = "catalog.sqlite3"
_T = TypeVar("_T")
_WASTE: Final = 0.25  # of a segment's rows, from which on `tidy` writes it anew
_ENOUGH: Final = 0.9  # of a segment's rows in its head, below which `warm` makes it anew
_LOOKS: Final = 5  # at a state that others keep changing


class Match(NamedTuple):
    """A vector that was found, by what it is of. `score` is a cosine in a normalised space."""

    scope: str
    id: str
    score: float


class Kept(msgspec.Struct, frozen=True, kw_only=True):
    """A space and how many vectors are in it. `complete`: all that there was to embed was in it once."""

    space: Space
    rows: int
    complete: bool


class _State(NamedTuple):
    """What a search looks at: one state of the catalog, and its segments."""

    changes: int
    segments: tuple[Segment, ...]
    lost: bool  # whether a segment's file is not there, or too short


_NOTHING: Final = _State(0, (), False)


class VectorStore:
    """The vectors of one tenant, in `directory`. Safe for threads, processes and forks; a context manager.

    Reading makes nothing, but for `removals`. Every method raises what `Database` does, `StorageFull` and
    `StorageFailed` for files, and `InvalidInput` for ids and scopes that are no text of 1 to 4,096
    characters. When the catalog is gone, everything is missing, to be embedded anew. `segment_bytes` is how
    large a segment grows.
    """

    def __init__(self, directory: Path, *, segment_bytes: int = 64 * 1024 * 1024) -> None:
        self._database = Database(
            directory / FILE, "the catalog of vectors", catalog.APPLICATION, catalog.MIGRATIONS
        )
        self._files = Segments(directory, segment_bytes)
        self._states: dict[str, _State] = {}
        self._heads: dict[int, tuple[int, pruning.Head]] = {}  # with the inode of the file that it is of

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Lets go of the files. It may be used again."""
        self._states.clear()
        self._heads.clear()
        self._files.keep_mapped(())
        self._database.close()

    def spaces(self) -> list[Kept]:
        """The spaces that there are, the oldest first."""
        with self._database.reading() as db:
            return [] if db is None else [Kept(space=space, **facts) for space, facts in catalog.spaces(db)]

    def count(self, space: Space) -> int:
        """How many vectors there are in the space."""
        return next((kept.rows for kept in self.spaces() if kept.space == space), 0)

    def ids(self, space: Space, scope: str) -> list[str]:
        """The ids of a scope that have a vector in the space, in their order."""
        with self._database.reading() as db:
            return [] if db is None else catalog.ids(db, space, scope)

    def missing(self, space: Space, scope: str, ids: Sequence[str]) -> list[str]:
        """Those of `ids` that have no vector in the space and were not refused one, in their order."""
        catalog.checked([scope, *ids])
        with self._database.reading() as db:
            known = set() if db is None else catalog.known(db, space, scope, ids)
        return [one for one in ids if one not in known]

    def removals(self) -> int:
        """A number that grows with every removal; to be read before the texts are, for `add`. Makes the
        catalog when there is none."""
        with self._database.reading() as db:
            if db is not None:
                return catalog.removals(db)
        with self._database.writing() as db:
            return catalog.removals(db)

    def add(
        self, space: Space, scope: str, ids: Sequence[str], vectors: Vectors, *, since: int | None = None
    ) -> None:
        """Keeps one vector for each id, in place of what it had in this space; durable when it returns, all
        or nothing.

        Raises `WrongDimension` for vectors that are not as long as the space's, and `InvalidInput` for
        another number of them, for an id that comes twice, and for a vector of zeros or with a number that
        is none. Raises `Conflict` when anything was removed after `removals()` gave `since`, for it may have
        been these.
        """
        catalog.checked([scope, *ids])
        if len(set(ids)) != len(ids):
            raise InvalidInput("an id comes twice among those to be added", scope=scope)
        rows = rows_of(space, len(ids), vectors)
        if not ids:
            return
        with self._database.writing() as db:
            _not_removed(db, since, scope)
            at, where = catalog.space_made(db, space), catalog.scope_made(db, scope)
            catalog.forget(db, catalog.places(db, "space = ? AND scope = ?", (at, where), ids))
            places = self._append(db, space, at, rows)
            crcs = [zlib.crc32(row) for row in rows]
            catalog.name(
                db,
                [(*place, at, where, one, crc) for place, one, crc in zip(places, ids, crcs, strict=True)],
            )
            catalog.changed(db)
        reach("vectors.added")

    def refuse(self, space: Space, scope: str, ids: Sequence[str]) -> None:
        """Notes that these get no vector in this space, so that they are not missing."""
        catalog.checked([scope, *ids])
        with self._database.writing() as db:
            at, where = catalog.space_made(db, space), catalog.scope_made(db, scope)
            refused = [(at, where, one) for one in ids]
            db.executemany("INSERT OR IGNORE INTO refused VALUES (?, ?, ?)", refused)

    def remove(self, scope: str, ids: Collection[str]) -> int:
        """Forgets the vectors of these ids in every space; says how many there were. None is found once it
        returns."""
        catalog.checked([scope, *ids])
        if not self._exists():
            return 0
        with self._database.writing() as db:
            where = catalog.scope_id(db, scope)
            gone = catalog.forget(db, catalog.places(db, "scope = ?", (where,), ids))
            values = [(where, one) for one in ids]
            db.executemany("DELETE FROM refused WHERE scope = ? AND id = ?", values)
            catalog.changed(db, removed=True)
        reach("vectors.removed")
        return gone

    def remove_scope(self, scope: str) -> int:
        """Forgets all of a scope in every space, its name too; says how many vectors there were."""
        catalog.checked([scope])
        if not self._exists():
            return 0
        with self._database.writing() as db:
            where = catalog.scope_id(db, scope)
            gone = catalog.forget(db, catalog.places(db, "scope = ?", (where,)))
            for table in ("refused", "marks"):
                db.execute(f"DELETE FROM {table} WHERE scope = ?", (where,))
            db.execute("DELETE FROM scopes WHERE id = ?", (where,))
            catalog.changed(db, removed=True)
        reach("vectors.removed")
        return gone

    def drop_space(self, space: Space) -> None:
        """Forgets a space with all that is in it, and unlinks its files."""
        if not self._exists():
            return
        with self._database.writing() as db:
            catalog.space_gone(db, space)
            catalog.changed(db)
            self._states.pop(space.name, None)
        reach("vectors.dropped")
        self._sweep()

    def marks(self, space: Space) -> Mapping[str, str]:
        """How far each scope is embedded in the space, as `set_mark` was told."""
        with self._database.reading() as db:
            return {} if db is None else catalog.marks(db, space)

    def set_mark(self, space: Space, scope: str, mark: str, *, since: int) -> None:
        """Notes that all of a scope up to `mark` is in the space. Raises `Conflict` as `add` does."""
        catalog.checked([scope])
        with self._database.writing() as db:
            _not_removed(db, since, scope)
            at, where = catalog.space_made(db, space), catalog.scope_made(db, scope)
            db.execute("INSERT OR REPLACE INTO marks VALUES (?, ?, ?)", (at, where, mark))

    def set_complete(self, space: Space) -> None:
        """Notes that all that there is to embed is in the space."""
        with self._database.writing() as db:
            db.execute("UPDATE spaces SET complete = 1 WHERE id = ?", (catalog.space_made(db, space),))

    def search(
        self, space: Space, query: Vectors, k: int, *, scopes: Collection[str] | None = None
    ) -> list[Match]:
        """The `k` vectors of the space nearest to `query`, the best first; every one is looked at.

        `scopes` narrows it to those; an empty one allows none. A row that is found damaged is left out.
        Raises `WrongDimension`, and `InvalidInput` for a query that `add` would refuse as a vector, and for a
        negative `k`.
        """
        if k < 0:
            raise InvalidInput("k cannot be negative", k=k)
        asked = rows_of(space, 1, [query])[0]
        matches: list[Match] = []
        wanted = k
        for _ in range(_LOOKS):
            state, chosen = self._look(space, lambda db, at: catalog.chosen(db, at, scopes))
            found = best(state.segments, asked, wanted, chosen)
            matches, same = self._named(state, found)
            lost = len(found) - len(matches)
            if len(matches) >= k or not lost or (same and len(found) < wanted):
                break
            wanted *= 8  # a damaged row may score anything, and others are to be found in its place
        return matches[:k]

    def likeness(self, space: Space, query: Vectors, pairs: Sequence[tuple[str, str]]) -> list[float | None]:
        """The score of each of these pairs of a scope and an id, in their order; None for one that has no
        vector in the space, or a damaged one. Raises what `search` does."""
        asked = rows_of(space, 1, [query])[0]
        scores: list[float | None] = [None] * len(pairs)
        if not pairs:
            return scores
        state, found = self._look(space, lambda db, at: catalog.of_pairs(db, at, pairs))
        for segment in state.segments:
            here = [
                (number, position)
                for number, of, position, crc in found or ()
                if of == segment.id and zlib.crc32(segment.rows[position]) == crc
            ]
            values = scored(segment.rows[[position for _, position in here]], asked).tolist()
            for (number, _), value in zip(here, values, strict=True):
                scores[number] = value
        return scores

    def warm(self, space: Space) -> bool:
        """Makes later searches of this process in all of the space some three times as fast, for a third more
        memory; says whether it has. It is worth it for vectors of length one most of which lies in few
        directions, and for 8,192 of them or more; for others nothing is done.

        It takes a second for 100,000 of 384 dimensions, and what is added later is not in it before it
        is called again: call it in the background, now and then.
        """
        state, _ = self._look(space, lambda db, at: None)
        behind = [one for one in state.segments if _covered(one) < _ENOUGH * len(one.rows)]
        rows = sum(len(segment.rows) for segment in state.segments)
        if not behind or not space.normalised or rows < pruning.LEAST:
            return False
        basis = next((one.head.basis for one in state.segments if one.head is not None), None)
        if basis is None:
            largest = max((one.rows for one in state.segments), key=len)
            basis = pruning.basis_of(largest)
            if not pruning.worth_it(largest, basis):
                return False
        for segment in behind:
            self._heads[segment.id] = (segment.ino, pruning.head_of(segment.rows, basis))
        self._states.pop(space.name, None)
        return True

    def tidy(self, space: Space) -> int:
        """Writes those segments of the space anew in which over a quarter of the rows were removed; says how
        many. Each is one transaction."""
        wasteful = [segment for segment, rows, holes in self._filled(space) if holes > _WASTE * rows]
        return sum(self._rewrite(space, segment) for segment in wasteful)

    def scrub(self) -> None:
        """Leaves nothing in the files of what was removed or was never finished: seconds for many vectors.

        Raises `StoreBusy` when another reads the catalog so long that bytes stay in it.
        """
        if not self._exists():
            return
        for kept in self.spaces():
            for segment, rows, holes in self._filled(kept.space):
                if holes or self._files.longer(kept.space, segment, rows):
                    self._rewrite(kept.space, segment)
        self._sweep()
        self._database.rewrite()

    def mend(self, *, deep: bool = False) -> int:
        """Forgets rows whose segment is gone or too short, and, when `deep`, those that are not as they were
        written: they are missing then, and their space is not complete any more. Says how many."""
        return sum(
            self._mend(kept.space, segment)
            for kept in self.spaces()
            for segment, rows, _ in self._filled(kept.space)
            if deep or self._files.size(kept.space, segment) < rows
        )

    def _exists(self) -> bool:
        return self._database.path.exists()

    def _filled(self, space: Space) -> list[tuple[int, int, int]]:
        """The space's segments: number, rows, and how many of them are holes."""
        with self._database.reading() as db:
            return [] if db is None else catalog.filled(db, space)

    def _append(self, db: sqlite3.Connection, space: Space, at: int, rows: Vectors) -> list[Place]:
        """Writes and syncs the rows, into segments with room and new ones; says where each is."""
        capacity = self._files.capacity(space)
        places: list[Place] = []
        for segment, begin in catalog.with_room(db, at, capacity):
            if self._files.size(space, segment) >= begin and len(places) < len(rows):
                places += self._fill(db, space, (segment, begin), rows[len(places) :])
        while len(places) < len(rows):
            new = catalog.segment_made(db, at)
            places += self._fill(db, space, (new, 0), rows[len(places) :])
        return places

    def _fill(
        self, db: sqlite3.Connection, space: Space, place: tuple[int, int], rows: Vectors
    ) -> list[Place]:
        """Writes as many of the rows as the segment has room for, from the place on."""
        segment, begin = place
        part = rows[: self._files.capacity(space) - begin]
        self._files.write(space, segment, begin, part)
        db.execute("UPDATE segments SET rows = ? WHERE id = ?", (begin + len(part), segment))
        return [Place(segment, begin + nth) for nth in range(len(part))]

    def _look(self, space: Space, read: Callable[[sqlite3.Connection, int], _T]) -> tuple[_State, _T | None]:
        """One state of the space, and what `read` finds in it, given the space's number; None without one."""
        state, found = _NOTHING, None
        for _ in range(_LOOKS):
            before = state
            with self._database.reading() as db:
                at = None if db is None else catalog.space_id(db, space)
                if db is None or at is None:
                    return _NOTHING, None
                state = self._state(db, space, at)
                found = read(db, at)
            # A file may be gone because its rows were just written anew, or because it was lost.
            if not state.lost or state.changes == before.changes:
                break
        return state, found

    def _state(self, db: sqlite3.Connection, space: Space, at: int) -> _State:
        changes = catalog.changes(db)
        known = self._states.get(space.name)
        if known is not None and known.changes == changes and not known.lost and self._whole(space, known):
            return known
        segments, lost = [], False
        for segment, count in catalog.segments(db, at):
            rows = self._files.map(space, segment, count)
            lost = lost or rows is None
            if rows is not None:
                holes = np.array(catalog.holes(db, segment), dtype=np.int64)
                ino = self._files.inode(segment)
                segments.append(Segment(segment, rows, holes, ino, self._head(segment, ino)))
        state = self._states[space.name] = _State(changes, tuple(segments), lost)
        kept = {one.id for state in list(self._states.values()) for one in state.segments}
        self._files.keep_mapped(kept)
        for gone in set(self._heads) - kept:
            self._heads.pop(gone, None)
        return state

    def _whole(self, space: Space, state: _State) -> bool:
        return all(self._files.whole(space, one.id, one.ino, len(one.rows)) for one in state.segments)

    def _head(self, segment: int, ino: int) -> pruning.Head | None:
        of, head = self._heads.get(segment, (None, None))
        return head if of == ino else None

    def _named(self, state: _State, found: list[tuple[float, Place]]) -> tuple[list[Match], bool]:
        """What was found, by name, without what is damaged or was removed meanwhile; and whether the catalog
        is still as it was."""
        rows = {segment.id: segment.rows for segment in state.segments}
        matches = []
        with self._database.reading() as db:
            if db is None:
                return [], state is _NOTHING
            for score, place in found:
                named = catalog.named(db, place)
                if named is not None and zlib.crc32(rows[place.segment][place.position]) == named[2]:
                    matches.append(Match(named[0], named[1], score))
            return matches, state is _NOTHING or catalog.changes(db) == state.changes

    def _rewrite(self, space: Space, segment: int) -> bool:
        """Writes what is left of a segment into a new one, ordered by scope, and unlinks the old one. What is
        damaged in it is left out, and missing then. False when it is gone already."""
        self._mend(space, segment)
        with self._database.writing() as db:
            count = catalog.rows_in(db, segment)
            if count is None:
                return False
            live = catalog.live(db, segment)
            if live:
                rows = self._files.map(space, segment, count)
                assert rows is not None, "it was whole, and none but who holds this lock unlinks it"
                at = live[0][1]
                new = catalog.segment_made(db, at)
                self._fill(db, space, (new, 0), rows[[row[0] for row in live]])
                db.execute("DELETE FROM rows WHERE segment = ?", (segment,))
                catalog.name(db, [(new, place, *row[1:]) for place, row in enumerate(live)])
            catalog.segment_gone(db, segment)
            catalog.changed(db)
            reach("vectors.rewritten")
        reach("vectors.swapped")
        self._files.unlink([File(space.name, segment)])
        return True

    def _mend(self, space: Space, segment: int) -> int:
        """Forgets the rows of a segment that are not as they were written; says how many."""
        with self._database.writing() as db:
            count = catalog.rows_in(db, segment)
            if count is None:
                return 0
            rows = self._files.map(space, segment, count)
            live = catalog.live(db, segment)
            lost = [row for row in live if rows is None or zlib.crc32(rows[row[0]]) != row[4]]
            if lost:
                catalog.lose(db, [(segment, *row) for row in lost])
            if rows is None:
                catalog.segment_gone(db, segment)
            if lost or rows is None:
                catalog.changed(db)
        return len(lost)

    def _sweep(self) -> None:
        with self._database.writing() as db:
            self._files.sweep({File(*row) for row in catalog.files(db)})


def _covered(segment: Segment) -> int:
    return 0 if segment.head is None else len(segment.head.near)


def _not_removed(db: sqlite3.Connection, since: int | None, scope: str) -> None:
    if since is not None and since != catalog.removals(db):
        raise Conflict(
            "something was removed while these were embedded; nothing was added",
            scope=scope,
            hint="look again at what is there, then embed what is missing",
        )
