"""Texts that may not enter a prompt until somebody has looked at them: one SQLite file for a tenant.

    waiting -> released     it may enter from now on, wherever it is found again
            -> rejected     it never may
    released <-> rejected   who looked may change their mind

A text is held once, by its content, however often and wherever it is met: `seen` counts, and what is told of
it (where it was found, and why it was held) is what was told last. What somebody decided stands until they
decide otherwise. The text is as the gate gives it: without secrets, and what does not show is spelt out.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from sqlite3 import Connection
from typing import Any, Final, Literal, TypeAlias, get_args

import msgspec
from msgspec.structs import replace

from stratalog.errors import InvalidInput, NotFound
from stratalog.ids import now_ms
from stratalog.memory.database import Database

FILE: Final = "quarantine.sqlite3"
_APPLICATION: Final = 0x5374_6C51  # "StlQ"
_MOST: Final = 2**62

State: TypeAlias = Literal["waiting", "released", "rejected"]
STATES: Final[tuple[State, ...]] = get_args(State)

MIGRATIONS: Final = (
    """
CREATE TABLE held (
    id TEXT PRIMARY KEY, at INTEGER NOT NULL, origin TEXT NOT NULL, source TEXT NOT NULL,
    level INTEGER NOT NULL, reasons TEXT NOT NULL, text TEXT NOT NULL, state TEXT NOT NULL,
    seen INTEGER NOT NULL, session TEXT NOT NULL, user TEXT NOT NULL, environment TEXT NOT NULL,
    decided_at INTEGER NOT NULL, decided_by TEXT NOT NULL) WITHOUT ROWID;
CREATE INDEX held_in_order ON held ((state <> 'waiting'), at DESC, id);
CREATE INDEX held_by_state ON held (state);
""",
)


class Held(msgspec.Struct, frozen=True, kw_only=True):
    """A text in quarantine. `id` is that of its content (`recall.gate.content_of`); `at` is when it was met
    first, milliseconds UTC. `session` (its key in writing), `user` and `environment` say whose it is, for a
    purge. `decided_by` is who released or rejected it at `decided_at`; 0 and "" while it waits."""

    id: str
    at: int
    origin: str
    source: str
    level: int
    reasons: tuple[str, ...]
    text: str
    state: State = "waiting"
    seen: int = 1
    session: str = ""
    user: str = ""
    environment: str = ""
    decided_at: int = 0
    decided_by: str = ""


class HeldPage(msgspec.Struct, frozen=True):
    """Some of what is held, and the `after` for what follows ("": there is no more)."""

    held: tuple[Held, ...]
    next: str = ""


class Quarantine:
    """What is held in the file `path`, of one tenant. Safe for threads, processes and forks.

    The file is made, 0600, when something is first held; reading makes nothing. `clock` gives milliseconds
    UTC. Every method raises what `database.Database` does, and `InvalidInput` for text that UTF-8 cannot
    hold.
    """

    def __init__(self, path: Path | str, *, clock: Callable[[], int] = now_ms) -> None:
        self.path = Path(path)
        self._clock = clock
        self._database = Database(self.path, "the quarantine", _APPLICATION, MIGRATIONS)

    def put(
        self,
        id: str,
        *,
        text: str,
        origin: str,
        level: int,
        reasons: tuple[str, ...],
        source: str = "",
        session: str = "",
        user: str = "",
        environment: str = "",
    ) -> Held:
        """Holds a text; one of this id that is held already was met once more, and keeps its state, its first
        time, its text, and whose it is."""
        fresh = Held(
            id=_storable(id),
            at=self._clock(),
            origin=_storable(origin),
            source=_storable(source),
            level=level,
            reasons=tuple(map(_storable, reasons)),
            text=_storable(text),
            session=_storable(session),
            user=_storable(user),
            environment=_storable(environment),
        )
        with self._database.writing() as database:
            known = _first(database, id)
            if known is None:
                database.execute(f"INSERT INTO held VALUES ({', '.join('?' * _COLUMNS)})", _values(fresh))
                return fresh
            met = replace(
                known,
                seen=known.seen + 1,
                origin=fresh.origin,
                source=fresh.source,
                level=level,
                reasons=fresh.reasons,
            )
            _update(database, met)
            return met

    def get(self, id: str) -> Held:
        """Raises `NotFound`."""
        with self._database.reading() as database:
            return _by_id(database, id)

    def list(self, *, state: State | None = None, limit: int = 100, after: str = "") -> HeldPage:
        """What waits, then what was decided; of each the newest first. `after` is the `next` of the page
        before. Raises `InvalidInput` for a limit under 1 and an `after` that is none."""
        if limit < 1:
            raise InvalidInput("a limit must be at least 1", limit=limit)
        conditions, values = ["1"], list[Any]()
        if state is not None:
            conditions.append("state = ?")
            values.append(_storable(state))
        if after:
            conditions.append("((state <> 'waiting'), -at, id) > (?, ?, ?)")
            values += _open_cursor(after)
        most = min(limit, _MOST)
        order = " ORDER BY (state <> 'waiting'), at DESC, id LIMIT ?"
        with self._database.reading() as database:
            if database is None:
                return HeldPage(())
            found = _held(database, " AND ".join(conditions) + order, *values, most + 1)
        return HeldPage(found[:most], _cursor(found[most - 1]) if len(found) > most else "")

    def counts(self) -> dict[State, int]:
        """How many are in each state."""
        counts = dict.fromkeys(STATES, 0)
        with self._database.reading() as database:
            if database is not None:
                counts |= dict(database.execute("SELECT state, count(*) FROM held GROUP BY state"))
        return counts

    def released(self) -> frozenset[str]:
        """The ids of what may enter a prompt again: what the gate is told as `released`."""
        with self._database.reading() as database:
            if database is None:
                return frozenset()
            rows = database.execute("SELECT id FROM held WHERE state = 'released'").fetchall()
        return frozenset(id for (id,) in rows)

    def release(self, id: str, *, by: str = "") -> Held:
        """Lets the text enter prompts from now on. Raises `NotFound`."""
        return self._decided(id, "released", by)

    def reject(self, id: str, *, by: str = "") -> Held:
        """Keeps the text out for good. Raises `NotFound`."""
        return self._decided(id, "rejected", by)

    def purge(
        self,
        *,
        ids: tuple[str, ...] = (),
        session: str = "",
        user: str = "",
        environment: str = "",
        whole: bool = False,
        dry_run: bool = False,
    ) -> dict[str, int]:
        """Deletes what is held for which all of what is said holds, whatever its state, and leaves nothing of
        it in the file; `whole` all of it, of every environment if none is named. The number of rows; with
        `dry_run` only that.

        Raises `InvalidInput` when nothing is said, and `StoreBusy` when another reads the file so long that
        the bytes stay: then the same call tries again."""
        named = {"session": session, "user": user, "environment": environment}
        said = {name: _storable(value) for name, value in named.items() if value}
        if not said and not ids and not whole:
            raise InvalidInput(
                "a purge names what it is about", hint="ids, a session, a user, an environment, or the whole"
            )
        conditions = ["1", *(f"{name} = ?" for name in said)]
        values: tuple[str, ...] = tuple(said.values())
        if ids:
            conditions.append("id IN (SELECT value FROM json_each(?))")
            values = (*values, msgspec.json.encode([_storable(id) for id in ids]).decode())
        condition = " AND ".join(conditions)
        if not self.path.exists():
            return {"quarantined": 0}
        with self._database.writing() as database:
            (count,) = database.execute(f"SELECT count(*) FROM held WHERE {condition}", values).fetchone()
            if not dry_run:
                database.execute(f"DELETE FROM held WHERE {condition}", values)
        if not dry_run:
            self._database.rewrite()
        return {"quarantined": count}

    def close(self) -> None:
        """Closes the file. It may be used again."""
        self._database.close()

    def _decided(self, id: str, state: State, by: str) -> Held:
        by = _storable(by)
        if not self.path.exists():
            raise _missing(id)
        with self._database.writing() as database:
            decided = replace(_by_id(database, id), state=state, decided_at=self._clock(), decided_by=by)
            _update(database, decided)
        return decided


# --- rows ---

_COLUMNS: Final = len(Held.__struct_fields__)


def _held(database: Connection, condition: str, *values: Any) -> tuple[Held, ...]:
    rows = database.execute(f"SELECT * FROM held WHERE {condition}", values).fetchall()
    return tuple([_row(row) for row in rows])


def _row(row: tuple[Any, ...]) -> Held:
    held = dict(zip(Held.__struct_fields__, row, strict=True))
    held["reasons"] = msgspec.json.decode(held["reasons"])
    return msgspec.convert(held, Held)


def _values(held: Held) -> tuple[Any, ...]:
    return tuple(
        msgspec.json.encode(value).decode() if name == "reasons" else value
        for name, value in msgspec.structs.asdict(held).items()
    )


def _update(database: Connection, held: Held) -> None:
    names = Held.__struct_fields__[1:]
    changes = ", ".join(f"{name} = ?" for name in names)
    database.execute(f"UPDATE held SET {changes} WHERE id = ?", (*_values(held)[1:], held.id))


def _first(database: Connection, id: str) -> Held | None:
    found = _held(database, "id = ?", _storable(id))
    return found[0] if found else None


def _by_id(database: Connection | None, id: str) -> Held:
    found = _first(database, id) if database is not None else None
    if found is None:
        raise _missing(id)
    return found


def _missing(id: str) -> NotFound:
    return NotFound("nothing of this id is in quarantine", id=ascii(id)[1:-1])


# --- values ---


def _storable(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InvalidInput("a text has characters that UTF-8 cannot hold", text=ascii(text[:60])) from error
    return text


def _cursor(last: Held) -> str:
    return f"{int(last.state != 'waiting')}:{last.at}:{last.id}"


def _open_cursor(after: str) -> tuple[int, int, str]:
    decided, _, rest = after.partition(":")
    at, _, id = rest.partition(":")
    if decided not in ("0", "1") or not at.isdecimal() or not at.isascii() or len(at) > 18 or not id:
        raise InvalidInput("`after` is not from a page of this list", after=ascii(after)[1:-1])
    return int(decided), -int(at), _storable(id)
