"""Items: JSON that programs keep under a namespace and a key, in one SQLite file, which is the only copy.

A namespace is a path of segments, any text each. It is stored so that the paths below another are one range
of the index and nothing else is: each segment ends in a mark that no segment can contain. An item may have an
end of its life, after which it is there until it is swept. It may have vectors, which somebody else makes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from sqlite3 import Connection
from typing import Any, Final, NamedTuple, TypeAlias

from stratalog.memory.database import Database
from stratalog.memory.pieces import name_of, named

FILE: Final = "items.sqlite3"
_APPLICATION: Final = 0x5374_6C49  # "StlI"
_WHAT: Final = "the file of items"
_END: Final = b"\0\1"
_ONE: Final = "namespaces.path = ? AND items.key = ?"

Namespace: TypeAlias = tuple[str, ...]

MIGRATIONS: Final = (
    """
CREATE TABLE namespaces (row INTEGER PRIMARY KEY, path BLOB NOT NULL UNIQUE);
CREATE TABLE items (
    row INTEGER PRIMARY KEY, namespace INTEGER NOT NULL, key BLOB NOT NULL, value BLOB NOT NULL,
    created_at INTEGER NOT NULL, updated_at INTEGER NOT NULL, ttl INTEGER, ends_at INTEGER,
    UNIQUE (namespace, key));
CREATE INDEX items_ending ON items (ends_at) WHERE ends_at IS NOT NULL;
CREATE TABLE vectors (
    row INTEGER PRIMARY KEY, item INTEGER NOT NULL, path BLOB NOT NULL, vector BLOB NOT NULL,
    UNIQUE (item, path))""",
)


class Item(NamedTuple):
    """An item that is stored, by its number. Times are microseconds since 1970 UTC; `ttl` is how many it
    lives after it was last read or written, None for as long as it is not deleted."""

    row: int
    namespace: Namespace
    key: str
    value: bytes
    created_at: int
    updated_at: int
    ttl: int | None


class Put(NamedTuple):
    """An item that is to be stored in place of what is there, with its vectors by their names; without a
    value what is there is deleted."""

    namespace: Namespace
    key: str
    value: bytes | None
    ttl: int | None = None
    vectors: tuple[tuple[str, bytes], ...] = ()


class Items:
    """The items in the file `path`. Errors are those of `memory.database.Database`."""

    def __init__(self, path: Path) -> None:
        self._database = Database(path, _WHAT, _APPLICATION, MIGRATIONS)

    def close(self) -> None:
        self._database.close()

    def get(self, namespace: Namespace, key: str, living: int = 0) -> Item | None:
        """The item, if it lives at the moment `living`."""
        found = self._select(_ONE, (path_of(namespace), named(key)), living)
        return found[0] if found else None

    def below(self, prefix: Namespace, living: int = 0, *, offset: int = 0, limit: int = -1) -> list[Item]:
        """The items of a namespace and of all those below it, that live at the moment; in the order in which
        namespaces, and within them items, were made. Of these `limit` (-1: all) after the first `offset`."""
        return self._select(*_below(prefix), living, offset, limit)

    def vectors(self, items: Sequence[int]) -> dict[int, list[bytes]]:
        """The vectors of each of the items that has any."""
        found: dict[int, list[bytes]] = {}
        with self._database.reading() as db:
            if db is None:
                return found
            for item in items:
                rows = db.execute(
                    "SELECT vector FROM vectors WHERE item = ? ORDER BY row", (item,)
                ).fetchall()
                if rows:
                    found[item] = [vector for (vector,) in rows]
        return found

    def namespaces(self, prefix: Namespace = (), living: int = 0) -> list[Namespace]:
        """The namespace and those below it in which there is an item that lives at the moment, in order."""
        condition, values = _below(prefix)
        with self._database.reading() as db:
            if db is None:
                return []
            found = db.execute(
                f"SELECT path FROM namespaces WHERE {condition} AND EXISTS (SELECT 1 FROM items"
                " WHERE namespace = namespaces.row AND (ends_at IS NULL OR ends_at > ?)) ORDER BY path",
                (*values, living),
            )
            return [namespace_of(path) for (path,) in found]

    def touch(self, items: Iterable[Item], now: int) -> None:
        """Lets the items that have a time to live begin it anew."""
        mortal = [(now + item.ttl, item.row, item.updated_at) for item in items if item.ttl is not None]
        if mortal:
            with self._database.writing() as db:
                db.executemany("UPDATE items SET ends_at = ? WHERE row = ? AND updated_at = ?", mortal)

    def write(self, puts: Iterable[Put], now: int) -> None:
        """Stores and deletes, all or nothing. An item that was there keeps the time of its making."""
        with self._database.writing() as db:
            for put in puts:
                if put.value is None:
                    _delete(
                        db, "namespaces.path = ? AND items.key = ?", (path_of(put.namespace), named(put.key))
                    )
                else:
                    _store(db, put, put.value, now)

    def sweep(self, now: int) -> int:
        """Deletes the items whose life has ended; how many."""
        with self._database.reading() as db:
            due = "SELECT 1 FROM items WHERE ends_at <= ? LIMIT 1"
            if db is None or not db.execute(due, (now,)).fetchone():
                return 0
        with self._database.writing() as db:
            return _delete(db, "items.ends_at <= ?", (now,))

    def purge(
        self, *, users: Collection[str] = (), whole: bool = False, dry_run: bool = False
    ) -> dict[str, int]:
        """Destroys, bytes and all, the items in whose namespace one of these users is a segment, or all. How
        many there are. Killed in the middle, the same call does the rest."""
        with self._database.reading() as db:
            if db is None:
                return {"items": 0}
            found = db.execute("SELECT row, path FROM namespaces").fetchall()
            chosen = [row for row, path in found if whole or not set(users).isdisjoint(namespace_of(path))]
            counted = "SELECT count(*) FROM items WHERE namespace = ?"
            count = sum(db.execute(counted, (row,)).fetchone()[0] for row in chosen)
        if not dry_run:
            with self._database.writing() as db:
                for row in chosen:
                    _delete(db, "items.namespace = ?", (row,))
            self._database.rewrite()
        return {"items": count}

    def _select(
        self, condition: str, values: Sequence[Any], living: int, offset: int = 0, limit: int = -1
    ) -> list[Item]:
        with self._database.reading() as db:
            if db is None:
                return []
            found = db.execute(
                "SELECT items.row, path, key, value, created_at, updated_at, ttl FROM namespaces"
                f" JOIN items ON items.namespace = namespaces.row WHERE {condition}"
                " AND (ends_at IS NULL OR ends_at > ?) ORDER BY namespaces.row, items.row LIMIT ? OFFSET ?",
                (*values, living, limit, offset),
            )
            return [
                Item(row, namespace_of(path), name_of(key), *rest)
                for row, path, key, *rest in found.fetchall()
            ]


def path_of(namespace: Namespace) -> bytes:
    """The namespace as it is stored."""
    return b"".join([named(segment).replace(b"\0", b"\0\xff") + _END for segment in namespace])


def namespace_of(path: bytes) -> Namespace:
    """The namespace that is stored so."""
    return tuple([name_of(segment.replace(b"\0\xff", b"\0")) for segment in path.split(_END)[:-1]])


def _below(prefix: Namespace) -> tuple[str, tuple[bytes, ...]]:
    """The condition for the paths that begin with the prefix, segment for segment."""
    if not prefix:
        return "1", ()
    path = path_of(prefix)
    return "path >= ? AND path < ?", (path, path[:-1] + b"\2")


def _store(db: Connection, put: Put, value: bytes, now: int) -> None:
    path = path_of(put.namespace)
    db.execute("INSERT OR IGNORE INTO namespaces (path) VALUES (?)", (path,))
    (namespace,) = db.execute("SELECT row FROM namespaces WHERE path = ?", (path,)).fetchone()
    ends_at = None if put.ttl is None else now + put.ttl
    (row,) = db.execute(
        "INSERT INTO items (namespace, key, value, created_at, updated_at, ttl, ends_at)"
        " VALUES (?1, ?2, ?3, ?4, ?4, ?5, ?6) ON CONFLICT (namespace, key) DO UPDATE"
        " SET value = ?3, updated_at = ?4, ttl = ?5, ends_at = ?6 RETURNING row",
        (namespace, named(put.key), value, now, put.ttl, ends_at),
    ).fetchone()
    db.execute("DELETE FROM vectors WHERE item = ?", (row,))
    db.executemany(
        "INSERT INTO vectors (item, path, vector) VALUES (?, ?, ?)",
        [(row, named(path), vector) for path, vector in put.vectors],
    )


def _delete(db: Connection, condition: str, values: Sequence[Any]) -> int:
    """Deletes items with their vectors, and namespaces that are empty then; how many items."""
    found = db.execute(
        "SELECT items.row, namespaces.row FROM items JOIN namespaces ON namespaces.row = items.namespace"
        f" WHERE {condition}",
        values,
    ).fetchall()
    db.executemany("DELETE FROM vectors WHERE item = ?", [(row,) for row, _ in found])
    db.executemany("DELETE FROM items WHERE row = ?", [(row,) for row, _ in found])
    db.executemany(
        "DELETE FROM namespaces WHERE row = ? AND NOT EXISTS (SELECT 1 FROM items WHERE namespace = ?)",
        sorted({(namespace, namespace) for _, namespace in found}),
    )
    return len(found)
