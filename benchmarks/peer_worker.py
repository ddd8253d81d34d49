"""Runs in the peers' environment: reads one JSON command a line, does it, answers one JSON line.

Nothing of Stratalog is imported here, and the peers nowhere else.
"""

from __future__ import annotations

import asyncio
import json
import sqlite3
import sys
import time
from pathlib import Path
from typing import Any

from agents import SQLiteSession


class Worker:
    def __init__(self) -> None:
        self.sessions: dict[str, SQLiteSession] = {}

    async def open(self, name: str, path: str, full: bool) -> int:
        """Opens a session in the database at `path`; answers the level of `PRAGMA synchronous` that it has.

        `full` asks for FULL explicitly on each connection that the session makes.
        """
        session = SQLiteSession(name, path)
        if full:
            configure = session._configure_connection

            def with_full(connection: sqlite3.Connection) -> None:
                configure(connection)
                connection.execute("PRAGMA synchronous = FULL")

            session.__dict__["_configure_connection"] = with_full  # there is no setting for it
        await session.add_items([{"role": "user", "content": "first"}])

        def level() -> int:
            (found,) = session._get_connection().execute("PRAGMA synchronous").fetchone()
            return int(found)

        self.sessions[name] = session
        return await asyncio.to_thread(level)

    async def append(self, name: str, content: str, count: int) -> list[float]:
        """Adds `count` messages, one call each; answers the seconds of each."""
        session = self.sessions[name]
        costs = []
        for _ in range(count):
            start = time.perf_counter()
            await session.add_items([{"role": "user", "content": content}])
            costs.append(time.perf_counter() - start)
        return costs

    async def fill(self, name: str, content: str, count: int) -> int:
        """Adds `count` messages in one call."""
        await self.sessions[name].add_items([{"role": "user", "content": content}] * count)
        return count

    async def last(self, name: str, path: str, count: int) -> list[float]:
        """Opens the session anew and gets its last messages; answers the seconds."""
        start = time.perf_counter()
        session = SQLiteSession(name, path)
        items = await session.get_items(limit=count)
        cost = time.perf_counter() - start
        assert len(items) == count
        session.close()
        return [cost]

    async def many(self, path: str, count: int, content: str) -> int:
        """Makes `count` sessions of one message each, in the peer's own tables."""
        session = SQLiteSession("first", path)
        session.close()
        database = sqlite3.connect(path)
        names = [f"session-{number}" for number in range(count)]
        database.executemany(
            "INSERT INTO agent_sessions (session_id) VALUES (?)", [(name,) for name in names]
        )
        data = json.dumps({"role": "user", "content": content})
        database.executemany(
            "INSERT INTO agent_messages (session_id, message_data) VALUES (?, ?)",
            [(name, data) for name in names],
        )
        database.commit()
        database.close()
        return count

    async def listing(self, path: str, count: int) -> list[float]:
        """Lists all sessions by their last change with raw SQL, there being no call for it."""
        start = time.perf_counter()
        database = sqlite3.connect(path)
        rows = database.execute(
            "SELECT session_id, created_at, updated_at FROM agent_sessions ORDER BY updated_at DESC"
        ).fetchall()
        cost = time.perf_counter() - start
        assert len(rows) == count
        database.close()
        return [cost]

    async def close(self, name: str, path: str) -> int:
        """Closes the session; answers the bytes of its files."""
        self.sessions.pop(name).close()
        return sum(file.stat().st_size for file in Path(path).parent.glob(Path(path).name + "*"))


async def main() -> None:
    worker = Worker()
    for line in sys.stdin:
        command: dict[str, Any] = json.loads(line)
        answer = await getattr(worker, command.pop("what"))(**command)
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    asyncio.run(main())
