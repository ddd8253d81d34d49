"""What the channels of a graph hold, as pieces that versions of it share.

A content is one version of a channel's value: whole, or as slices of pieces, in the order of the value. A
piece is bytes that somebody else made and can read. Pieces have numbers, and those of one region (2**20 of
them) lie side by side, so that a list that only grows is one slice however long it is. A content that no
checkpoint has is destroyed with the pieces that no other of its thread has; no number of a content is given
twice.

All functions are asked within a transaction.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from sqlite3 import Connection
from typing import Final, NamedTuple, TypeAlias

import msgspec

from stratalog.errors import DamagedLog

REGION: Final = 1 << 20
_CALM: Final = 64  # slices, up to which a content is never gathered
_WHOLE: Final = ""

Slice: TypeAlias = tuple[int, int]  # the first piece, and how many

TABLES: Final = """
CREATE TABLE contents (
    row INTEGER PRIMARY KEY AUTOINCREMENT, channel BLOB NOT NULL, version TEXT NOT NULL, form TEXT NOT NULL,
    step INTEGER NOT NULL, kind TEXT NOT NULL, data BLOB NOT NULL);
CREATE TABLE pieces (row INTEGER PRIMARY KEY, data BLOB NOT NULL)"""


class Kept(NamedTuple):
    """Pieces of another content: the place of the first in it, and how many."""

    start: int
    length: int


class Fresh(NamedTuple):
    """Pieces that are new."""

    pieces: tuple[bytes, ...]


class Draft(NamedTuple):
    """A content that is to be stored. `kind` says how its bytes are read, `form` what its pieces make and
    `step` how they were cut; all are its maker's own. Of a whole one `form` is "", and its bytes are the
    only piece. What is `Kept` is of the content numbered `base`."""

    channel: str
    version: str
    kind: str
    parts: tuple[Kept | Fresh, ...]
    form: str = _WHOLE
    step: int = 0
    base: int = 0


class Content(NamedTuple):
    """A content that is stored, by its number. `pieces` are empty where they were not asked for."""

    row: int
    channel: str
    version: str
    form: str
    step: int
    kind: str
    pieces: tuple[bytes, ...] = ()


def named(text: str) -> bytes:
    """A name as it is stored: any text, ordered as text is."""
    return text.encode("utf-8", "surrogatepass")


def name_of(stored: bytes) -> str:
    return stored.decode("utf-8", "surrogatepass")


# --- reading ---


def held_by(
    db: Connection, checkpoint: int, channels: Collection[str] | None = None, *, pieces: bool = True
) -> list[Content]:
    """The contents of a checkpoint, of some channels or of all."""
    data = "data" if pieces else "x''"  # which may be large
    condition, values = "", []
    if channels is not None:
        condition = f" AND channel IN ({', '.join('?' * len(channels))})"
        values = [named(each) for each in channels]
    found = db.execute(
        f"SELECT contents.row, channel, version, form, step, kind, {data} FROM held"
        f" CROSS JOIN contents ON contents.row = held.content WHERE held.checkpoint = ?{condition}",
        (checkpoint, *values),
    ).fetchall()
    return [
        Content(row, name_of(channel), version, form, step, kind, _read(db, form, data) if pieces else ())
        for row, channel, version, form, step, kind, data in found
    ]


def pieces_of(db: Connection, content: int) -> tuple[bytes, ...] | None:
    """The pieces of a content; None when it is gone."""
    found = db.execute("SELECT form, data FROM contents WHERE row = ?", (content,)).fetchone()
    return _read(db, *found) if found else None


def are_there(db: Connection, contents: Iterable[int]) -> bool:
    """Whether all of these contents are there."""
    asked = "SELECT 1 FROM contents WHERE row = ?"
    return all(db.execute(asked, (row,)).fetchone() for row in set(contents))


def _read(db: Connection, form: str, data: bytes) -> tuple[bytes, ...]:
    if form == _WHOLE:
        return (data,)
    pieces: list[bytes] = []
    for first, count in _slices(data):
        asked = "SELECT data FROM pieces WHERE row >= ? AND row < ? ORDER BY row"
        found = db.execute(asked, (first, first + count)).fetchall()
        if len(found) != count:
            raise DamagedLog(
                "pieces of a checkpoint's value are missing", first=first, hint="restore a backup"
            )
        pieces += [piece for (piece,) in found]
    return tuple(pieces)


def _slices(data: bytes) -> list[Slice]:
    return msgspec.msgpack.decode(data, type=list[tuple[int, int]])


# --- writing ---


def store(db: Connection, draft: Draft) -> int:
    """Stores the content; its number. Its base must be there."""
    if draft.form == _WHOLE:
        (only,) = draft.parts
        assert isinstance(only, Fresh)
        (data,) = only.pieces
    else:
        data = msgspec.msgpack.encode(_laid(db, draft))
    row = db.execute(
        "INSERT INTO contents (channel, version, form, step, kind, data) VALUES (?, ?, ?, ?, ?, ?)",
        (named(draft.channel), draft.version, draft.form, draft.step, draft.kind, data),
    ).lastrowid
    assert row is not None
    return row


def _laid(db: Connection, draft: Draft) -> list[Slice]:
    """Where the pieces of the draft are, once the new ones are stored."""
    base: list[Slice] = []
    if draft.base:
        (data,) = db.execute("SELECT data FROM contents WHERE row = ?", (draft.base,)).fetchone()
        base = _slices(data)
    slices: list[Slice] = []
    new: list[Slice] = []
    for part in draft.parts:
        if isinstance(part, Kept):
            found = within(base, part.start, part.length)
        else:
            found = _written(db, part.pieces, sum(slices[-1]) if slices else 0)
            new += found
        for each in found:
            _join(slices, each)
    return _gathered(db, slices, new) if len(slices) > _CALM else slices


def within(slices: Sequence[Slice], start: int, count: int) -> list[Slice]:
    """The slices of `count` pieces from the place `start` on."""
    found: list[Slice] = []
    for first, length in slices:
        skipped = min(start, length)
        start -= skipped
        taken = min(count, length - skipped)
        if taken:
            found.append((first + skipped, taken))
            count -= taken
    return found


def _join(slices: list[Slice], more: Slice) -> None:
    """Adds a slice; where it goes on from the last one, in its region, they are one."""
    if slices and sum(slices[-1]) == more[0] and more[0] % REGION:
        slices[-1] = (slices[-1][0], slices[-1][1] + more[1])
    else:
        slices.append(more)


def _written(db: Connection, pieces: Sequence[bytes], after: int) -> list[Slice]:
    """Stores the pieces from `after` on where its region is free from there; else in regions of their own."""
    slices: list[Slice] = []
    at, rest = after, pieces
    while rest:
        if not _is_free(db, at):
            at = new_region(db)
        some = rest[: REGION - at % REGION]
        db.executemany("INSERT INTO pieces VALUES (?, ?)", enumerate(some, at))
        slices.append((at, len(some)))
        at, rest = at + len(some), rest[len(some) :]
    return slices


def _is_free(db: Connection, at: int) -> bool:
    """Whether what comes after the pieces before this number may be stored from it on."""
    end = at + REGION - at % REGION
    taken = "SELECT 1 FROM pieces WHERE row >= ? AND row < ? LIMIT 1"
    return at % REGION > 0 and db.execute(taken, (at, end)).fetchone() is None


def new_region(db: Connection) -> int:
    """The first number of a region that nobody has."""
    (last,) = db.execute("SELECT max(row) FROM pieces").fetchone()
    return ((last or 0) // REGION + 1) * REGION


def _gathered(db: Connection, slices: list[Slice], new: list[Slice]) -> list[Slice]:
    """The same pieces side by side, once there are so many slices that naming them, version for version,
    costs more than storing the pieces again. Those of them that are new are then in no other content."""
    size = 0
    for first, count in slices:
        asked = "SELECT sum(length(data)) FROM pieces WHERE row >= ? AND row < ?"
        size += db.execute(asked, (first, first + count)).fetchone()[0]
    if 2 * len(slices) ** 2 < size:
        return slices
    gathered = _written(db, _read(db, "gathered", msgspec.msgpack.encode(slices)), 0)
    _destroy(db, new)
    return gathered


def _destroy(db: Connection, slices: Iterable[Slice]) -> None:
    for first, count in slices:
        db.execute("DELETE FROM pieces WHERE row >= ? AND row < ?", (first, first + count))


# --- a thread's ---


def of_thread(db: Connection, thread: int) -> dict[int, list[Slice]]:
    """The contents that a thread's checkpoints have, with their slices."""
    found = db.execute(
        "SELECT row, form, CASE form WHEN ? THEN x'' ELSE data END FROM contents WHERE row IN ("
        "SELECT held.content FROM spaces CROSS JOIN checkpoints ON checkpoints.space = spaces.row"
        " CROSS JOIN held ON held.checkpoint = checkpoints.row WHERE spaces.thread = ?)",
        (_WHOLE, thread),
    )
    return {row: [] if form == _WHOLE else _slices(data) for row, form, data in found}


def sweep(db: Connection, thread: int, before: dict[int, list[Slice]]) -> None:
    """Destroys those of the contents of `before` that none of the thread's checkpoints has any more."""
    left = of_thread(db, thread)
    used = [each for slices in left.values() for each in slices]
    gone = [each for row in before.keys() - left.keys() for each in before[row]]
    _destroy(db, without(gone, used))
    db.executemany("DELETE FROM contents WHERE row = ?", [(row,) for row in before.keys() - left.keys()])


def without(slices: Iterable[Slice], others: Iterable[Slice]) -> list[Slice]:
    """What the slices cover and the others do not, in order."""
    edges = sorted(
        [edge for first, count in slices for edge in ((first, 1, 0), (first + count, -1, 0))]
        + [edge for first, count in others for edge in ((first, 0, 1), (first + count, 0, -1))]
    )
    found: list[Slice] = []
    inside = outside = begin = 0
    for at, one, other in edges:
        if inside and not outside and at > begin:
            _join(found, (begin, at - begin))
        inside, outside, begin = inside + one, outside + other, at
    return found


def slices_of(slices: Iterable[Slice]) -> list[Slice]:
    """The slices, each part of them once, in order."""
    found: list[Slice] = []
    for first, count in sorted(slices):
        if found and sum(found[-1]) >= first:
            begin, length = found[-1]
            found[-1] = (begin, max(length, first + count - begin))
        else:
            found.append((first, count))
    return found


def copied(db: Connection, contents: dict[int, list[Slice]]) -> dict[int, int]:
    """Copies the contents with their pieces; the number of each one's copy."""
    moved: dict[int, int] = {}
    for first, count in slices_of(each for slices in contents.values() for each in slices):
        for region in range(first // REGION, (first + count - 1) // REGION + 1):
            if region not in moved:
                moved[region] = new_region(db) - region * REGION
                # The region is taken from the first piece on; the others come to their places in it.
            begin, end = max(first, region * REGION), min(first + count, (region + 1) * REGION)
            db.execute(
                "INSERT INTO pieces SELECT row + ?, data FROM pieces WHERE row >= ? AND row < ?",
                (moved[region], begin, end),
            )
    copies: dict[int, int] = {}
    for row, slices in contents.items():
        new = db.execute(
            "INSERT INTO contents (channel, version, form, step, kind, data)"
            " SELECT channel, version, form, step, kind, data FROM contents WHERE row = ?",
            (row,),
        ).lastrowid
        assert new is not None
        copies[row] = new
        if slices:
            laid = [(first + moved[first // REGION], count) for first, count in slices]
            db.execute("UPDATE contents SET data = ? WHERE row = ?", (msgspec.msgpack.encode(laid), new))
    return copies
