"""The audit of one tenant: read a page at a time, the newest line first, and told what besides records is
changed, and what is refused before they are asked.

The file is read from its end in blocks, for it has a line of every call and only grows. So the place where a
line begins stays its place: the cursor of a page is the place of its last line.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple

import msgspec

from stratalog.engine.core import Stratalog
from stratalog.errors import AccessDenied, InvalidInput, StratalogError
from stratalog.ids import now_ms
from stratalog.keys import tenant_path
from stratalog.memory.audit import FILE, AuditLine, Ending, FileAudit, mark_of
from stratalog.memory.contract import PRODUCTION, Scope
from stratalog.osfiles import failed

__all__ = [
    "MOST_LOOKED_AT",
    "AuditLine",
    "AuditPage",
    "audit_page",
    "nobodys_audit",
    "noted",
    "refusal_in",
    "refused",
]

MOST_LOOKED_AT: Final = 50_000
_BLOCK: Final = 64 * 1024


class AuditPage(NamedTuple):
    """Lines, newest first; `next` goes on after them, 0 at the end. A page may have fewer lines than asked
    for, or none, and go on all the same: where few lines fit, it ends after 50,000 that it looked at."""

    lines: list[AuditLine]
    next: int = 0


def audit_page(
    memory: Stratalog,
    fits: Callable[[AuditLine], bool] = lambda line: True,
    *,
    limit: int = 50,
    before: int = 0,
) -> AuditPage:
    """The newest lines that fit, of those `before` the `next` of an earlier page (0: all). What is damaged is
    left out. It is for who may see all of the tenant: nobody's rights are looked at.

    Raises `InvalidInput` for a limit under 1, and `StorageFailed`.
    """
    if limit < 1 or before < 0:
        raise InvalidInput("a limit must be at least 1, and a place is none before the file", limit=limit)
    path = tenant_path(memory.data, memory.tenant) / FILE
    found: list[AuditLine] = []
    try:
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            for looked, (place, raw) in enumerate(_backwards(file, min(before or size, size)), 1):
                line = _decoded(raw)
                if line is not None and fits(line):
                    found.append(line)
                if place and (len(found) == limit or looked == MOST_LOOKED_AT):
                    return AuditPage(found, place)
    except FileNotFoundError:
        pass
    except OSError as error:
        raise failed(error, "reading the audit", path) from error
    return AuditPage(found)


@contextmanager
def noted(
    memory: Stratalog,
    call: str,
    *,
    by: str,
    user: str = "",
    roles: Sequence[str] = (),
    environment: str = PRODUCTION,
    scopes: Sequence[Scope] = (),
    **asked: str,
) -> Iterator[None]:
    """Writes a line when the block ends: who did `call`, and how it ended. `by` is the id of the token (""
    for none), `user` for whom it was asked; of `asked` there are marks. The records' service writes its own
    lines. Raises `StorageFailed` where there can be no line, though it is done."""

    def write(ending: Ending, why: str = "") -> None:
        line = AuditLine(
            at=now_ms(),
            call=call,
            ending=ending,
            environment=environment,
            user=user,
            roles=tuple(sorted(roles)),
            scopes=tuple(scopes),
            asked={name: mark_of(text) for name, text in asked.items() if text},
            reason=why,
            token=by,
        )
        FileAudit(memory.data).write(memory.tenant, line)

    try:
        yield
    except AccessDenied as error:
        write("refused", type(error).__name__)
        error.noted = True
        raise
    except StratalogError as error:
        write("failed", type(error).__name__)
        raise
    write("done")


def refusal_in(error: StratalogError) -> AccessDenied | None:
    """The refusal that the audit has no line of yet: the error itself, or the cause of one that must not tell
    that there is anything to be refused."""
    found = error if isinstance(error, AccessDenied) else error.__cause__
    return found if isinstance(found, AccessDenied) and not found.noted else None


def refused(
    data: Path,
    tenant: str,
    call: str,
    why: str,
    *,
    by: str = "",
    user: str = "",
    roles: Sequence[str] = (),
    scopes: Sequence[Scope] = (),
    times: int = 1,
) -> None:
    """Writes a line of a request that went no further: to the tenant's audit, or with "" to that of nobody's,
    which `nobodys_audit` reads. `by` is the id of its token, `times` how often the same was refused. Raises
    `StorageFailed`."""
    line = AuditLine(
        at=now_ms(),
        call=call,
        ending="refused",
        environment=PRODUCTION,
        user=user,
        roles=tuple(sorted(roles)),
        scopes=tuple(scopes),
        counts={"times": times},
        reason=why,
        token=by,
    )
    FileAudit(data).write(tenant, line)


def nobodys_audit(data: Path) -> Iterator[AuditLine]:
    """What was refused of those of whom no tenant is known, the oldest first. For who keeps the directory."""
    return FileAudit(data).read("")


def _backwards(file: BinaryIO, end: int) -> Iterator[tuple[int, bytes]]:
    """Each line before `end`, the last first, with the place where it begins."""
    tail = b""
    while end:
        start = max(0, end - _BLOCK)
        file.seek(start)
        block = file.read(end - start) + tail
        lines = block.split(b"\n")
        place = start + len(block)
        for raw in reversed(lines[1:]):
            place -= len(raw)
            if raw:
                yield place, raw
            place -= 1
        tail, end = lines[0], start
    if tail:
        yield 0, tail


def _decoded(raw: bytes) -> AuditLine | None:
    try:
        return msgspec.json.decode(raw, type=AuditLine)
    except msgspec.MsgspecError:
        return None
