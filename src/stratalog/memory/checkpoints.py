"""The checkpoints of a tenant's graphs: one SQLite file, which is the only copy of what it holds.

A thread has spaces (the graph itself, and each graph within it), a space has checkpoints, and a checkpoint
has a state, metadata, the contents of its channels (see `pieces`) and the writes of the tasks that ran on it.
What a state, a content or a write says is bytes with a `kind` that says how to read them, made by somebody
else; names and ids are any text. A write may come before its checkpoint does.

Of the checkpoints of a space the last is the one whose id is greatest. Two writers on one thread make two
checkpoints beside one another, each with the parent that its maker had read; none takes the place of another.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from sqlite3 import Connection
from typing import Any, Final, NamedTuple

from stratalog.errors import Conflict
from stratalog.memory import checkpoint_tables as tables
from stratalog.memory import pieces
from stratalog.memory.checkpoint_tables import MIGRATIONS, Head, Space, Stored, Typed, Write
from stratalog.memory.database import Database
from stratalog.memory.pieces import Content, Draft, name_of, named

FILE: Final = "graphs.sqlite3"
_APPLICATION: Final = 0x5374_6C47  # "StlG"
_WHAT: Final = "the file of graphs"


class Known(NamedTuple):
    """What can be built on, without pieces, by channel: what the parent holds, and what else is near."""

    held: dict[str, Content]
    near: dict[str, Content]


class Found(NamedTuple):
    """A checkpoint in a list."""

    row: int
    id: str
    metadata: Typed


class Checkpoints:
    """The checkpoints in the file `path`. Errors are those of `memory.database.Database`."""

    def __init__(self, path: Path) -> None:
        self._database = Database(path, _WHAT, _APPLICATION, MIGRATIONS)

    def close(self) -> None:
        self._database.close()

    # --- writing ---

    def put(
        self, space: Space, head: Head, kept: Collection[int], drafts: Sequence[Draft], users: Iterable[str]
    ) -> bool:
        """Stores a checkpoint, in place of one with its id. `kept` are contents that it has from others.
        False, and nothing is stored, when one of those, or a base of the drafts, is there no more."""
        with self._database.writing() as db:
            if not pieces.are_there(db, [*kept, *[draft.base for draft in drafts if draft.base]]):
                return False
            thread, within = tables.make_space(db, space)
            row, replaced = tables.make_checkpoint(db, within, head.id)
            before = pieces.of_thread(db, thread) if replaced else {}
            db.execute("DELETE FROM held WHERE checkpoint = ?", (row,))
            db.execute(
                "UPDATE checkpoints SET parent = ?, run = ?, state_kind = ?, state = ?, metadata_kind = ?,"
                " metadata = ? WHERE row = ?",
                (
                    tables.maybe_named(head.parent),
                    tables.maybe_named(head.run),
                    *head.state,
                    *head.metadata,
                    row,
                ),
            )
            contents = {*kept, *[pieces.store(db, draft) for draft in drafts]}
            db.executemany("INSERT INTO held VALUES (?, ?)", [(row, each) for each in sorted(contents)])
            if replaced:
                pieces.sweep(db, thread, before)
            for user in users:
                db.execute("INSERT OR IGNORE INTO users VALUES (?, ?)", (thread, named(user)))
        return True

    def put_writes(self, space: Space, id: str, writes: Sequence[Write]) -> None:
        """Stores the writes. One whose number is not negative is written once; one of a negative number takes
        the place of the one before."""
        with self._database.writing() as db:
            row, _ = tables.make_checkpoint(db, tables.make_space(db, space)[1], id)
            for write in writes:
                how = "REPLACE" if write.number < 0 else "IGNORE"
                db.execute(
                    f"INSERT OR {how} INTO writes (checkpoint, task, number, path, channel, kind, data)"
                    " VALUES (?, ?, ?, ?, ?, ?, ?)",
                    (
                        *(row, named(write.task), write.number, named(write.path)),
                        *(named(write.channel), *write.value),
                    ),
                )

    # --- reading ---

    def get(self, space: Space, id: str | None) -> Stored | None:
        """The checkpoint, or with no id the last one."""
        with self._database.reading() as db:
            if db is None or (within := tables.find_space(db, space)) is None:
                return None
            row = tables.find_row(db, within, id) if id else tables.last_row(db, within)
            return tables.stored_at(db, row) if row is not None else None

    def at(self, row: int) -> Stored | None:
        """The checkpoint of a list; None when it is gone."""
        with self._database.reading() as db:
            return tables.stored_at(db, row) if db is not None else None

    def known(self, space: Space, parent: str | None, near: Iterable[str]) -> Known:
        """What the next checkpoint after `parent` can be built on. `near` are names of spaces of the thread
        whose last checkpoints are looked at too, the nearest first."""
        known = Known({}, {})
        with self._database.reading() as db:
            if db is None:
                return known
            within = tables.find_space(db, space)
            row = tables.find_row(db, within, parent) if within is not None and parent else None
            if row is not None:
                known.held.update((each.channel, each) for each in pieces.held_by(db, row, pieces=False))
            for name in near:
                other = tables.find_space(db, Space(space.thread, name))
                last = tables.last_row(db, other) if other is not None else None
                for content in pieces.held_by(db, last, pieces=False) if last is not None else ():
                    known.near.setdefault(content.channel, content)
        return known

    def pieces_of(self, content: int) -> tuple[bytes, ...] | None:
        """The pieces of a content; None when it is gone."""
        with self._database.reading() as db:
            return pieces.pieces_of(db, content) if db is not None else None

    def find(
        self,
        thread: str | None,
        space: str | None,
        *,
        id: str | None = None,
        before: str | None = None,
        after: tuple[str, int] | None = None,
        limit: int = 100,
    ) -> list[Found]:
        """Checkpoints, those with the greatest ids first: of a thread and a space, or of all; with this id;
        with lower ones than `before`; those that come after the id and the row of `after`."""
        conditions, values = ["state_kind IS NOT NULL"], list[Any]()
        for condition, value in (
            ("threads.name = ?", thread),
            ("spaces.name = ?", space),
            ("checkpoints.id = ?", id),
            ("checkpoints.id < ?", before),
        ):
            if value is not None:
                conditions.append(condition)
                values.append(named(value))
        if after is not None:
            conditions.append("(checkpoints.id, checkpoints.row) < (?, ?)")
            values += [named(after[0]), after[1]]
        with self._database.reading() as db:
            if db is None:
                return []
            found = db.execute(
                "SELECT checkpoints.row, id, metadata_kind, metadata FROM threads"
                " JOIN spaces ON spaces.thread = threads.row"
                " JOIN checkpoints ON checkpoints.space = spaces.row"
                f" WHERE {' AND '.join(conditions)} ORDER BY id DESC, checkpoints.row DESC LIMIT ?",
                (*values, limit),
            )
            return [Found(row, name_of(each), (kind, data)) for row, each, kind, data in found]

    def history(
        self, space: Space, id: str | None, channels: Collection[str]
    ) -> dict[str, tuple[list[Write], Content | None]]:
        """For each channel the writes to it on the way to the checkpoint (the last one with no id) from the
        nearest before it that has a content of it, oldest first, and that content."""
        found: dict[str, tuple[list[Write], Content | None]] = {each: ([], None) for each in channels}
        with self._database.reading() as db:
            within = tables.find_space(db, space) if db is not None else None
            if db is None or within is None:
                return found
            row = tables.find_row(db, within, id) if id else tables.last_row(db, within)
            left, seen = set(channels), {row}
            while left and row is not None:
                row = tables.parent_row(db, within, row)
                if row is None or row in seen:
                    break
                seen.add(row)
                for write in reversed(tables.writes_of(db, row)):
                    if write.channel in left:
                        found[write.channel][0].append(write)
                for content in pieces.held_by(db, row, left):
                    found[content.channel] = (found[content.channel][0], content)
                    left.discard(content.channel)
        return {each: (writes[::-1], seed) for each, (writes, seed) in found.items()}

    # --- destroying ---

    def delete_thread(self, thread: str) -> None:
        """Deletes all that a thread has."""
        with self._database.writing() as db:
            tables.delete_thread(db, thread)

    def delete_runs(self, runs: Iterable[str]) -> None:
        """Deletes the checkpoints that these runs made, with their writes."""
        with self._database.writing() as db:
            for run in runs:
                found = db.execute(
                    "SELECT spaces.thread, checkpoints.row FROM checkpoints"
                    " JOIN spaces ON spaces.row = checkpoints.space WHERE run = ?",
                    (named(run),),
                ).fetchall()
                for thread in sorted({thread for thread, _ in found}):
                    tables.delete_checkpoints(db, thread, [row for other, row in found if other == thread])

    def lasts(self, thread: str) -> dict[str, Head]:
        """The last checkpoint of each space of a thread."""
        with self._database.reading() as db:
            if db is None:
                return {}
            lasts = {name: tables.last_row(db, row) for row, name in tables.spaces_of(db, thread)}
            return {name: tables.head_of(db, row) for name, row in lasts.items() if row is not None}

    def prune(self, thread: str, lasts: Mapping[str, tuple[str, Collection[str]]]) -> None:
        """Deletes what is before the last checkpoints of the spaces, which are given with channels that are
        made of writes: ancestors down to the nearest that has a content of each of these stay too."""
        with self._database.writing() as db:
            gone: list[int] = []
            for within, name in tables.spaces_of(db, thread):
                if name in lasts:
                    id, channels = lasts[name]
                    kept = tables.needed_rows(db, within, id, set(channels))
                    older = "SELECT row FROM checkpoints WHERE space = ? AND id <= ?"
                    gone += [row for (row,) in db.execute(older, (within, named(id))) if row not in kept]
            row = tables.find_thread(db, thread)
            if row is not None:
                tables.delete_checkpoints(db, row, gone)

    def copy(self, source: str, target: str) -> None:
        """Copies all that a thread has to another, which has nothing yet. Raises `Conflict` when it has."""
        with self._database.writing() as db:
            if tables.find_thread(db, target) is not None:
                raise Conflict("the thread to copy to has checkpoints already", thread=ascii(target)[:80])
            thread = tables.find_thread(db, source)
            if thread is not None:
                tables.copy_thread(db, thread, target)

    # --- a session that follows a thread ---

    @contextmanager
    def mirroring(self, thread: str, session: str) -> Iterator[Mirror]:
        """What a session has of a thread's messages, for who is to add to it: nobody else does meanwhile."""
        with self._database.writing() as db:
            row = tables.make_thread(db, thread)
            db.execute("INSERT OR IGNORE INTO mirrors VALUES (?, ?, 0)", (row, session))
            yield Mirror(db, row)

    def unmirrored(self, thread: str, messages: Iterable[str]) -> list[str]:
        """Those of the messages, by their ids, of which it is not known that a session has them."""
        with self._database.reading() as db:
            row = tables.find_thread(db, thread) if db is not None else None
            if db is None or row is None:
                return list(messages)
            known = {each for (each,) in db.execute("SELECT message FROM mirrored WHERE thread = ?", (row,))}
            return [each for each in messages if named(each) not in known]

    # --- purging ---

    def purge(
        self,
        *,
        users: Collection[str] = (),
        sessions: Collection[str] = (),
        whole: bool = False,
        dry_run: bool = False,
    ) -> dict[str, int]:
        """Destroys, bytes and all, the threads that name these users and nobody else, and those that these
        sessions follow; or all. How many there are. Killed in the middle, the same call does the rest."""
        with self._database.reading() as db:
            if db is None:
                return {"threads": 0, "checkpoints": 0}
            chosen = tables.chosen_threads(db, users, sessions, whole)
            counts = {
                "threads": len(chosen),
                "checkpoints": sum(
                    db.execute(
                        "SELECT count(*) FROM checkpoints JOIN spaces ON spaces.row = space"
                        " WHERE thread = ? AND state_kind IS NOT NULL",
                        (row,),
                    ).fetchone()[0]
                    for row, _ in chosen
                ),
            }
        if not dry_run:
            for _, name in chosen:
                self.delete_thread(name)
            self._database.rewrite()
        return counts


class Mirror:
    """Which messages of a thread its session has: `seq` is the entry up to which that is known."""

    def __init__(self, db: Connection, thread: int) -> None:
        self._db = db
        self._thread = thread
        (self.seq,) = db.execute("SELECT seq FROM mirrors WHERE thread = ?", (thread,)).fetchone()

    def note(self, messages: Iterable[str], seq: int) -> None:
        """Notes messages that the session has, and that all up to `seq` is known."""
        rows = [(self._thread, named(each)) for each in messages]
        self._db.executemany("INSERT OR IGNORE INTO mirrored VALUES (?, ?)", rows)
        self._db.execute("UPDATE mirrors SET seq = ? WHERE thread = ?", (seq, self._thread))
        self.seq = seq

    def has(self, message: str) -> bool:
        asked = "SELECT 1 FROM mirrored WHERE thread = ? AND message = ?"
        return self._db.execute(asked, (self._thread, named(message))).fetchone() is not None
