"""User and assistant take turns: neighbours of one role are one message, and results are replied to.

Most providers take several messages of one role in a row, or make one of them; some refuse them. The rule is
for those alone, since a message that grows by the next one is not the prefix that a prompt cache has. The
same ones refuse a user's message right after the results of tools, as when a turn was interrupted; a marked
reply then stands between.
"""

from __future__ import annotations

from itertools import groupby, pairwise
from typing import Final, TypeVar

import msgspec

from stratalog.context.invariants.contract import Entries, Seen, named
from stratalog.context.invariants.responses import thinks
from stratalog.types import Assistant, Content, Part, Text, ToolResult, User

_M = TypeVar("_M", User, Assistant)
NO_REPLY: Final = Assistant(content="[no reply: the turn was interrupted]", meta={"synthetic": "alternation"})


class Alternation:
    """See `contract.Invariant`. A merged message has every part of those it was made of, in order, and is
    marked: it has no `seq` and no `id`, and `meta["merged"]` has theirs. A reply keeps the `response` of the
    one among them that holds reasoning, else of the last that has one."""

    name = "alternation"

    def violations(self, entries: Entries) -> list[str]:
        return [
            f"{named(later)} follows another of its role"
            for earlier, later in pairwise(entries)
            if _role(later) and _role(earlier) == _role(later)
        ] + [
            f"{named(later)} follows results that nobody replied to"
            for earlier, later in pairwise(entries)
            if _interrupted(earlier, later)
        ]

    def mended(self, entries: Entries) -> Entries:
        if not self.violations(entries):
            return entries
        seen: list[Seen] = []
        for role, group in groupby(entries, _role):
            found = list(group)
            if seen and _interrupted(seen[-1], found[0]):
                seen.append(NO_REPLY)
            users = [entry for entry in found if isinstance(entry, User)]
            replies = [entry for entry in found if isinstance(entry, Assistant)]
            if not role or len(found) == 1:
                seen += found
            elif users:
                seen.append(_merged(users, users[-1]))
            else:
                seen.append(_merged(replies, _main(replies)))
        return tuple(seen)

    def safe_cuts(self, entries: Entries) -> frozenset[int]:
        return frozenset(range(len(entries) + 1))


def _role(entry: object) -> str:
    return entry.role if isinstance(entry, User | Assistant) else ""


def _interrupted(earlier: object, later: object) -> bool:
    return isinstance(earlier, ToolResult) and isinstance(later, User)


def _main(replies: list[Assistant]) -> Assistant:
    """The reply whose response the merged one is of."""
    last = replies[-1]
    thinking = [reply for reply in replies if thinks(reply)]
    stating = [reply for reply in replies if reply.response]
    return (thinking or stating or [last])[-1]


def _merged(messages: list[_M], main: _M) -> _M:
    merged = [message.id or message.seq for message in messages]
    content = tuple(part for message in messages for part in _parts(message.content))
    return msgspec.structs.replace(
        main, content=content, seq=0, id="", blob=None, meta={**(main.meta or {}), "merged": merged}
    )


def _parts(content: Content) -> tuple[Part, ...]:
    if isinstance(content, str):
        return (Text(text=content),) if content else ()
    return content
