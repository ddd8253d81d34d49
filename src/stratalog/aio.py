"""Stratalog for asyncio: `AsyncStratalog` and what it hands out.

Apart from `stratalog` itself because importing asyncio takes as long as importing all the rest.
"""

from stratalog.engine.aio import AsyncSession, AsyncStratalog, AsyncTurn

__all__ = ["AsyncSession", "AsyncStratalog", "AsyncTurn"]
