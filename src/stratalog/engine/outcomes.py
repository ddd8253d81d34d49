"""Running code that is anybody's: what it raises is told, and costs nobody else anything."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

R = TypeVar("R")


async def outcome_of(work: Awaitable[R]) -> R | Exception:
    """What the work comes to, or the exception that it raised. What is no `Exception`, such as a
    cancellation, goes on upwards."""
    (found,) = await asyncio.gather(work, return_exceptions=True)
    if isinstance(found, Exception):
        return found
    if isinstance(found, BaseException):
        raise found
    return found
