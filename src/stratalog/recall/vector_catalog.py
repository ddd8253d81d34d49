"""The catalog of vectors: its tables, and what is asked and changed in them within a transaction."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterable, Sequence
from typing import Any, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from stratalog.errors import InvalidInput
from stratalog.recall.embed import Space
from stratalog.recall.nearest import Place

APPLICATION: Final = 0x53747678  # "Stvx"
_LONGEST_ID: Final = 4096
# The counters begin by chance, so that those of a catalog that was made anew are others.
MIGRATIONS: Final = (
    """
CREATE TABLE state (changes INTEGER NOT NULL, removals INTEGER NOT NULL);
INSERT INTO state VALUES (random() / 4, random() / 4);
CREATE TABLE spaces (
    id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL UNIQUE,
    model TEXT NOT NULL, version TEXT NOT NULL, dimensions INTEGER NOT NULL, normalised INTEGER NOT NULL,
    complete INTEGER NOT NULL
);
CREATE TABLE scopes (id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL UNIQUE);
CREATE TABLE segments (
    id INTEGER PRIMARY KEY AUTOINCREMENT, space INTEGER NOT NULL, rows INTEGER NOT NULL
);
CREATE TABLE rows (
    segment INTEGER NOT NULL, position INTEGER NOT NULL,
    space INTEGER NOT NULL, scope INTEGER NOT NULL, id TEXT NOT NULL, crc INTEGER NOT NULL,
    PRIMARY KEY (segment, position)
) WITHOUT ROWID;
CREATE UNIQUE INDEX row_of_id ON rows (space, scope, id);
CREATE TABLE holes (
    segment INTEGER NOT NULL, position INTEGER NOT NULL, PRIMARY KEY (segment, position)
) WITHOUT ROWID;
CREATE TABLE refused (
    space INTEGER NOT NULL, scope INTEGER NOT NULL, id TEXT NOT NULL, PRIMARY KEY (space, scope, id)
) WITHOUT ROWID;
CREATE TABLE marks (
    space INTEGER NOT NULL, scope INTEGER NOT NULL, mark TEXT NOT NULL, PRIMARY KEY (space, scope)
) WITHOUT ROWID""",
)


def spaces(db: sqlite3.Connection) -> list[tuple[Space, dict[str, Any]]]:
    """The spaces, the oldest first, each with its `rows` and whether it is `complete`."""
    found = db.execute(
        "SELECT model, version, dimensions, normalised, complete,"
        " (SELECT total(rows) FROM segments WHERE space = spaces.id) -"  # to count its rows takes longer
        " (SELECT count(*) FROM segments JOIN holes ON segment = segments.id WHERE space = spaces.id)"
        " FROM spaces ORDER BY id"
    )
    return [
        (
            Space(model=model, version=version, dimensions=width, normalised=bool(normalised)),
            {"rows": int(rows), "complete": bool(complete)},
        )
        for model, version, width, normalised, complete, rows in found
    ]


def space_id(db: sqlite3.Connection, space: Space) -> int | None:
    row = db.execute("SELECT id FROM spaces WHERE name = ?", (space.name,)).fetchone()
    return row[0] if row else None


def space_made(db: sqlite3.Connection, space: Space) -> int:
    """The space's number, made when there is none."""
    db.execute(
        "INSERT OR IGNORE INTO spaces (name, model, version, dimensions, normalised, complete)"
        " VALUES (?, ?, ?, ?, ?, 0)",
        (space.name, space.model, space.version, space.dimensions, space.normalised),
    )
    made = space_id(db, space)
    assert made is not None
    return made


def space_gone(db: sqlite3.Connection, space: Space) -> None:
    """Forgets a space and all that is in it."""
    at = (space_id(db, space),)
    db.execute("DELETE FROM holes WHERE segment IN (SELECT id FROM segments WHERE space = ?)", at)
    for table in ("rows", "segments", "refused", "marks"):
        db.execute(f"DELETE FROM {table} WHERE space = ?", at)
    db.execute("DELETE FROM spaces WHERE id = ?", at)


def scope_id(db: sqlite3.Connection, scope: str) -> int | None:
    row = db.execute("SELECT id FROM scopes WHERE name = ?", (scope,)).fetchone()
    return row[0] if row else None


def scope_made(db: sqlite3.Connection, scope: str) -> int:
    """The scope's number, made when there is none."""
    db.execute("INSERT OR IGNORE INTO scopes (name) VALUES (?)", (scope,))
    made = scope_id(db, scope)
    assert made is not None
    return made


def ids(db: sqlite3.Connection, space: Space, scope: str) -> list[str]:
    """The ids that have a row, in their order."""
    found = db.execute(
        "SELECT id FROM rows WHERE space = ? AND scope = ? ORDER BY id",
        (space_id(db, space), scope_id(db, scope)),
    )
    return [row[0] for row in found]


def known(db: sqlite3.Connection, space: Space, scope: str, asked: Collection[str]) -> set[str]:
    """Those of the ids that have a row, or were refused one."""
    at, where, found = space_id(db, space), scope_id(db, scope), set()
    for table in ("rows", "refused"):
        query = (
            f"SELECT there.id FROM json_each(?) AS asked CROSS JOIN {table} AS there"
            " ON there.space = ? AND there.scope = ? AND there.id = asked.value"
        )
        found |= {row[0] for row in db.execute(query, (as_json(asked), at, where))}
    return found


def chosen(db: sqlite3.Connection, space: int, scopes: Collection[str] | None) -> NDArray[np.int64] | None:
    """The places of what is of these scopes, a segment and a position a row, in their order; None for all."""
    if scopes is None:
        return None
    found = db.execute(
        "SELECT segment, position FROM json_each(?) AS asked CROSS JOIN scopes CROSS JOIN rows"
        " ON scopes.name = asked.value AND space = ? AND rows.scope = scopes.id",
        (as_json(checked(set(scopes))), space),
    ).fetchall()
    made = np.array(found, dtype=np.int64).reshape(-1, 2)
    return made[np.lexsort((made[:, 1], made[:, 0]))]


def of_pairs(
    db: sqlite3.Connection, space: int, pairs: Sequence[tuple[str, str]]
) -> list[tuple[int, int, int, int]]:
    """Of each of these pairs of a scope and an id that has a row: the pair's number, the row's segment,
    position and CRC-32."""
    checked(text for pair in pairs for text in pair)
    return db.execute(
        "SELECT asked.key, segment, position, crc"
        " FROM json_each(?) AS asked CROSS JOIN scopes CROSS JOIN rows"
        " ON scopes.name = json_extract(asked.value, '$[0]') AND space = ? AND rows.scope = scopes.id"
        " AND rows.id = json_extract(asked.value, '$[1]')",
        (as_json(pairs), space),
    ).fetchall()


def places(
    db: sqlite3.Connection, where: str, values: tuple[int | None, ...], asked: Collection[str] | None = None
) -> list[Place]:
    """Where the rows are for which `where` holds, of these ids if any are given."""
    query = f"SELECT segment, position FROM rows WHERE {where}"
    if asked is None:
        return [Place(*row) for row in db.execute(query, values)]
    narrowed = f"{query} AND id IN (SELECT value FROM json_each(?))"
    return [Place(*row) for row in db.execute(narrowed, (*values, as_json(asked)))]


def name(db: sqlite3.Connection, rows: Sequence[tuple[int, int, int, int, str, int]]) -> None:
    """Gives names to rows: segment, position, space, scope, id, CRC-32."""
    db.executemany("INSERT INTO rows VALUES (?, ?, ?, ?, ?, ?)", rows)


def named(db: sqlite3.Connection, place: Place) -> tuple[str, str, int] | None:
    """The scope, the id and the CRC-32 of the row there; None when it has no name."""
    found: tuple[str, str, int] | None = db.execute(
        "SELECT scopes.name, rows.id, crc FROM rows JOIN scopes ON scopes.id = scope"
        " WHERE segment = ? AND position = ?",
        place,
    ).fetchone()
    return found


def forget(db: sqlite3.Connection, gone: Sequence[Place]) -> int:
    """Takes the names from these rows; says how many."""
    db.executemany("DELETE FROM rows WHERE segment = ? AND position = ?", gone)
    db.executemany("INSERT INTO holes VALUES (?, ?)", gone)
    return len(gone)


def lose(db: sqlite3.Connection, lost: Sequence[tuple[int, int, int, int, str, int]]) -> None:
    """Takes the names from rows that are damaged: their scopes and their space are not done any more."""
    forget(db, [Place(row[0], row[1]) for row in lost])
    db.executemany("DELETE FROM marks WHERE space = ? AND scope = ?", {(row[2], row[3]) for row in lost})
    db.executemany("UPDATE spaces SET complete = 0 WHERE id = ?", {(row[2],) for row in lost})


def live(db: sqlite3.Connection, segment: int) -> list[tuple[int, int, int, str, int]]:
    """Position, space, scope, id and CRC-32 of the segment's rows, those of a scope side by side."""
    return db.execute(
        "SELECT position, space, scope, id, crc FROM rows WHERE segment = ? ORDER BY scope, position",
        (segment,),
    ).fetchall()


def segment_made(db: sqlite3.Connection, space: int) -> int:
    """The number of a new segment, which none had before."""
    made = db.execute("INSERT INTO segments (space, rows) VALUES (?, 0)", (space,)).lastrowid
    assert made is not None
    return made


def segment_gone(db: sqlite3.Connection, segment: int) -> None:
    db.execute("DELETE FROM holes WHERE segment = ?", (segment,))
    db.execute("DELETE FROM segments WHERE id = ?", (segment,))


def segments(db: sqlite3.Connection, space: int) -> list[tuple[int, int]]:
    """The space's segments and how many rows each has, the oldest first."""
    return db.execute("SELECT id, rows FROM segments WHERE space = ? ORDER BY id", (space,)).fetchall()


def with_room(db: sqlite3.Connection, space: int, capacity: int) -> list[tuple[int, int]]:
    """Those of the segments that have fewer rows than `capacity`."""
    return [one for one in segments(db, space) if one[1] < capacity]


def filled(db: sqlite3.Connection, space: Space) -> list[tuple[int, int, int]]:
    """The space's segments: number, rows, and how many of them are holes."""
    return db.execute(
        "SELECT id, rows, (SELECT count(*) FROM holes WHERE segment = segments.id) FROM segments"
        " WHERE space = ? ORDER BY id",
        (space_id(db, space),),
    ).fetchall()


def files(db: sqlite3.Connection) -> list[tuple[str, int]]:
    """Every segment, by its space's name and its number."""
    return db.execute("SELECT name, segments.id FROM segments JOIN spaces ON spaces.id = space").fetchall()


def rows_in(db: sqlite3.Connection, segment: int) -> int | None:
    """How many rows a segment has; None when it is gone."""
    row = db.execute("SELECT rows FROM segments WHERE id = ?", (segment,)).fetchone()
    return row[0] if row else None


def holes(db: sqlite3.Connection, segment: int) -> list[int]:
    """The positions in a segment that have no name any more."""
    query = "SELECT position FROM holes WHERE segment = ? ORDER BY position"
    return [row[0] for row in db.execute(query, (segment,))]


def marks(db: sqlite3.Connection, space: Space) -> dict[str, str]:
    """The marks of the space's scopes."""
    query = "SELECT name, mark FROM marks JOIN scopes ON scopes.id = scope WHERE space = ?"
    return dict(db.execute(query, (space_id(db, space),)).fetchall())


def changes(db: sqlite3.Connection) -> int:
    """A number that grows with every change of rows."""
    found: int = db.execute("SELECT changes FROM state").fetchone()[0]
    return found


def removals(db: sqlite3.Connection) -> int:
    """A number that grows with every removal."""
    found: int = db.execute("SELECT removals FROM state").fetchone()[0]
    return found


def changed(db: sqlite3.Connection, *, removed: bool = False) -> None:
    """Notes a change of rows, or a removal."""
    db.execute("UPDATE state SET changes = changes + 1, removals = removals + ?", (removed,))


def checked(names: Iterable[str]) -> list[str]:
    """The names, each fit to be kept. Raises `InvalidInput`."""
    found = list(names)
    for name in found:
        if not isinstance(name, str) or not 0 < len(name) <= _LONGEST_ID or not _keepable(name):
            raise InvalidInput(
                "an id or a scope of a vector is text that can be stored", given=ascii(name)[:80]
            )
    return found


def _keepable(name: str) -> bool:
    try:
        return b"\0" not in name.encode()
    except UnicodeEncodeError:
        return False


def as_json(value: object) -> str:
    return msgspec.json.encode(value).decode()
