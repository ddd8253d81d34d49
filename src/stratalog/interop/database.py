"""The rows of a database that came as bytes: the counterpart of `records` for programs that keep SQLite.

The bytes are opened in memory, so nothing is written beside the file. Text that is not UTF-8 has U+FFFD where
it is not; a table that is damaged gives the rows before the damage and a skip.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from typing import Final

from stratalog.errors import ImportFailed
from stratalog.interop.contract import Source
from stratalog.interop.records import Record, Tally, storable

# Names and complaints of a damaged database may hold its bytes, which Python cannot read as text either.
DAMAGE: Final = (sqlite3.Error, UnicodeDecodeError)


class Database:
    """A database to read; close it, or use it in a `with` block."""

    def __init__(self, source: Source, tally: Tally) -> None:
        """Raises `ImportFailed` when the bytes are no database."""
        self._tally = tally
        self._database = sqlite3.connect(":memory:")
        self._database.text_factory = lambda raw: raw.decode("utf-8", "replace")
        data = source.data
        # A database in memory has no write-ahead log, and is refused while its header says it has one.
        data = data[:18] + b"\x01\x01" + data[20:] if len(data) > 20 else data
        try:
            self._database.deserialize(data)
            names = self._database.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
        except DAMAGE as error:
            self._database.close()
            raise ImportFailed(
                f"this is no database that can be read: {error}",
                path=source.path,
                hint="the file may be cut short; a copy from the program that wrote it may be whole",
            ) from error
        self._tables = {str(name) for (name,) in names}
        if source.progress is not None:
            source.progress(len(source.data), len(source.data))

    def __enter__(self) -> Database:
        return self

    def __exit__(self, *raised: object) -> None:
        self._database.close()

    def has(self, table: str) -> bool:
        return table in self._tables

    def rows(self, table: str, order: str) -> Iterator[Record]:
        """The rows of a table, each an object by the names of its columns; none of a table that is not there.

        `order` is an SQL expression; rows that are equal by it keep the order they were written in.
        """
        if table not in self._tables:
            return
        try:
            found = self._database.execute(f'SELECT * FROM "{table}" ORDER BY {order}')
            names = [column[0] for column in found.description]
            for row in found:
                yield self._tally.record(dict(zip(names, map(storable, row), strict=True)))
        except DAMAGE as error:
            self._tally.damage(f"the table {table}: {error}")
