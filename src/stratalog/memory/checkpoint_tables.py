"""The tables of checkpoints, and what is asked and changed in them within a transaction."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from sqlite3 import Connection
from typing import Final, NamedTuple, TypeAlias

from stratalog.memory import pieces
from stratalog.memory.pieces import Content, name_of, named

Typed: TypeAlias = tuple[str, bytes]

MIGRATIONS: Final = (
    f"""
CREATE TABLE threads (row INTEGER PRIMARY KEY, name BLOB NOT NULL UNIQUE);
CREATE TABLE spaces (
    row INTEGER PRIMARY KEY, thread INTEGER NOT NULL, name BLOB NOT NULL, UNIQUE (thread, name));
CREATE TABLE checkpoints (
    row INTEGER PRIMARY KEY, space INTEGER NOT NULL, id BLOB NOT NULL, parent BLOB, run BLOB,
    state_kind TEXT, state BLOB, metadata_kind TEXT, metadata BLOB, UNIQUE (space, id));
CREATE TABLE held (
    checkpoint INTEGER NOT NULL, content INTEGER NOT NULL, PRIMARY KEY (checkpoint, content)) WITHOUT ROWID;
CREATE TABLE writes (
    row INTEGER PRIMARY KEY, checkpoint INTEGER NOT NULL, task BLOB NOT NULL, number INTEGER NOT NULL,
    path BLOB NOT NULL, channel BLOB NOT NULL, kind TEXT NOT NULL, data BLOB NOT NULL,
    UNIQUE (checkpoint, task, number));
CREATE TABLE users (thread INTEGER NOT NULL, name BLOB NOT NULL, PRIMARY KEY (thread, name)) WITHOUT ROWID;
CREATE TABLE mirrors (
    thread INTEGER PRIMARY KEY, session TEXT NOT NULL, seq INTEGER NOT NULL);
CREATE TABLE mirrored (
    thread INTEGER NOT NULL, message BLOB NOT NULL, PRIMARY KEY (thread, message)) WITHOUT ROWID;
{pieces.TABLES}""",
)


class Space(NamedTuple):
    """Where checkpoints are: a thread, and a graph within it ("" for the outermost)."""

    thread: str
    name: str


class Head(NamedTuple):
    """A checkpoint without its contents. `run` is the run that made it, where that is known."""

    id: str
    parent: str | None
    run: str | None
    state: Typed
    metadata: Typed


class Write(NamedTuple):
    """What a task wrote to a channel. In the order in which a graph applies the writes of one step."""

    path: str
    task: str
    number: int
    channel: str
    value: Typed


class Stored(NamedTuple):
    """A checkpoint with all that it has."""

    space: Space
    head: Head
    contents: list[Content]
    writes: list[Write]


# --- rows ---


def maybe_named(text: str | None) -> bytes | None:
    return None if text is None else named(text)


def find_thread(db: Connection, name: str) -> int | None:
    found = db.execute("SELECT row FROM threads WHERE name = ?", (named(name),)).fetchone()
    return found[0] if found else None


def make_thread(db: Connection, name: str) -> int:
    db.execute("INSERT OR IGNORE INTO threads (name) VALUES (?)", (named(name),))
    made = find_thread(db, name)
    assert made is not None
    return made


def find_space(db: Connection, space: Space) -> int | None:
    found = db.execute(
        "SELECT spaces.row FROM threads JOIN spaces ON spaces.thread = threads.row"
        " WHERE threads.name = ? AND spaces.name = ?",
        (named(space.thread), named(space.name)),
    ).fetchone()
    return found[0] if found else None


def spaces_of(db: Connection, thread: str) -> list[tuple[int, str]]:
    found = db.execute(
        "SELECT spaces.row, spaces.name FROM threads JOIN spaces ON spaces.thread = threads.row"
        " WHERE threads.name = ?",
        (named(thread),),
    )
    return [(row, name_of(name)) for row, name in found]


def make_space(db: Connection, space: Space) -> tuple[int, int]:
    """The numbers of the thread and of the space."""
    thread = make_thread(db, space.thread)
    values = (thread, named(space.name))
    db.execute("INSERT OR IGNORE INTO spaces (thread, name) VALUES (?, ?)", values)
    return thread, db.execute("SELECT row FROM spaces WHERE thread = ? AND name = ?", values).fetchone()[0]


def make_checkpoint(db: Connection, space: int, id: str) -> tuple[int, bool]:
    """The number of the checkpoint, and whether there was one that has a state."""
    db.execute("INSERT OR IGNORE INTO checkpoints (space, id) VALUES (?, ?)", (space, named(id)))
    found: tuple[int, bool] = db.execute(
        "SELECT row, state_kind IS NOT NULL FROM checkpoints WHERE space = ? AND id = ?", (space, named(id))
    ).fetchone()
    return found[0], bool(found[1])


def find_row(db: Connection, space: int, id: str) -> int | None:
    asked = "SELECT row FROM checkpoints WHERE space = ? AND id = ? AND state_kind IS NOT NULL"
    found = db.execute(asked, (space, named(id))).fetchone()
    return found[0] if found else None


def last_row(db: Connection, space: int) -> int | None:
    asked = "SELECT row FROM checkpoints WHERE space = ? AND state_kind IS NOT NULL ORDER BY id DESC LIMIT 1"
    found = db.execute(asked, (space,)).fetchone()
    return found[0] if found else None


def parent_row(db: Connection, space: int, row: int) -> int | None:
    """The checkpoint's parent; None when there is none."""
    (parent,) = db.execute("SELECT parent FROM checkpoints WHERE row = ?", (row,)).fetchone()
    return find_row(db, space, name_of(parent)) if parent is not None else None


def head_of(db: Connection, row: int) -> Head:
    id, parent, run, *rest = db.execute(
        "SELECT id, parent, run, state_kind, state, metadata_kind, metadata FROM checkpoints WHERE row = ?",
        (row,),
    ).fetchone()
    names = [None if each is None else name_of(each) for each in (parent, run)]
    return Head(name_of(id), names[0], names[1], (rest[0], rest[1]), (rest[2], rest[3]))


def writes_of(db: Connection, row: int) -> list[Write]:
    found = db.execute(
        "SELECT path, task, number, channel, kind, data FROM writes WHERE checkpoint = ?", (row,)
    )
    return sorted(
        Write(name_of(path), name_of(task), number, name_of(channel), (kind, data))
        for path, task, number, channel, kind, data in found
    )


def stored_at(db: Connection, row: int) -> Stored | None:
    found = db.execute(
        "SELECT threads.name, spaces.name FROM checkpoints JOIN spaces ON spaces.row = checkpoints.space"
        " JOIN threads ON threads.row = spaces.thread WHERE checkpoints.row = ?",
        (row,),
    ).fetchone()
    if not found:
        return None
    space = Space(*map(name_of, found))
    return Stored(space, head_of(db, row), pieces.held_by(db, row), writes_of(db, row))


# --- destroying ---


def delete_checkpoints(db: Connection, thread: int, rows: Sequence[int]) -> None:
    """Deletes checkpoints of a thread, and the thread when that leaves nothing of it."""
    before = pieces.of_thread(db, thread)
    for table, column in (("writes", "checkpoint"), ("held", "checkpoint"), ("checkpoints", "row")):
        db.executemany(f"DELETE FROM {table} WHERE {column} = ?", [(row,) for row in rows])
    pieces.sweep(db, thread, before)
    left = (
        "SELECT 1 FROM checkpoints JOIN spaces ON spaces.row = checkpoints.space"
        " WHERE spaces.thread = ? LIMIT 1"
    )
    if not db.execute(left, (thread,)).fetchone():
        for table in ("spaces", "users", "mirrors", "mirrored"):
            db.execute(f"DELETE FROM {table} WHERE thread = ?", (thread,))
        db.execute("DELETE FROM threads WHERE row = ?", (thread,))


def delete_thread(db: Connection, name: str) -> None:
    thread = find_thread(db, name)
    if thread is None:
        return
    found = db.execute(
        "SELECT checkpoints.row FROM checkpoints JOIN spaces ON spaces.row = checkpoints.space"
        " WHERE spaces.thread = ?",
        (thread,),
    ).fetchall()
    delete_checkpoints(db, thread, [row for (row,) in found])


def needed_rows(db: Connection, space: int, id: str, channels: set[str]) -> set[int]:
    """The checkpoint, and its ancestors down to the nearest that has a content of each of the channels."""
    needed: set[int] = set()
    row = find_row(db, space, id)
    while row is not None and row not in needed:
        needed.add(row)
        if channels:
            channels -= {each.channel for each in pieces.held_by(db, row, channels, pieces=False)}
        row = parent_row(db, space, row) if channels else None
    return needed


def copy_thread(db: Connection, thread: int, target: str) -> None:
    new = make_thread(db, target)
    contents = pieces.copied(db, pieces.of_thread(db, thread))
    db.execute("INSERT INTO users SELECT ?, name FROM users WHERE thread = ?", (new, thread))
    spaces = db.execute("SELECT row, name FROM spaces WHERE thread = ?", (thread,)).fetchall()
    for space, name in spaces:
        made = db.execute("INSERT INTO spaces (thread, name) VALUES (?, ?)", (new, name)).lastrowid
        for (row,) in db.execute("SELECT row FROM checkpoints WHERE space = ?", (space,)).fetchall():
            copy = db.execute(
                "INSERT INTO checkpoints (space, id, parent, run, state_kind, state, metadata_kind, metadata)"
                " SELECT ?, id, parent, run, state_kind, state, metadata_kind, metadata FROM checkpoints"
                " WHERE row = ?",
                (made, row),
            ).lastrowid
            held = db.execute("SELECT content FROM held WHERE checkpoint = ?", (row,)).fetchall()
            db.executemany("INSERT INTO held VALUES (?, ?)", [(copy, contents[each]) for (each,) in held])
            db.execute(
                "INSERT INTO writes (checkpoint, task, number, path, channel, kind, data)"
                " SELECT ?, task, number, path, channel, kind, data FROM writes WHERE checkpoint = ?",
                (copy, row),
            )


def chosen_threads(
    db: Connection, users: Collection[str], sessions: Collection[str], whole: bool
) -> list[tuple[int, str]]:
    """The threads that a purge means, with their names."""
    theirs: dict[int, set[str]] = {}
    for thread, name in db.execute("SELECT thread, name FROM users"):
        theirs.setdefault(thread, set()).add(name_of(name))
    following = dict(db.execute("SELECT thread, session FROM mirrors"))
    return [
        (row, name_of(name))
        for row, name in db.execute("SELECT row, name FROM threads").fetchall()
        if whole or (row in theirs and theirs[row] <= set(users)) or following.get(row) in sessions
    ]
