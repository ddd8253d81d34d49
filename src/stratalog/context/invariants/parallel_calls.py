"""Calls of one response are atomic: they stand together, in their order, and none is cut from the others.

A provider saw them as one message and wants them back as one. Calls are logged as they are made, so another
entry may have come between: a result, or a message of the user. The later calls are moved up to the first.
"""

from __future__ import annotations

from itertools import pairwise

from stratalog.context.invariants.contract import Entries, Seen, named, outside
from stratalog.context.invariants.responses import Response, joined, response_of
from stratalog.types import ToolCall


class ParallelCalls:
    """See `contract.Invariant`. No cut is made between the words of a response and its calls either."""

    name = "parallel_calls"

    def violations(self, entries: Entries) -> list[str]:
        found: list[str] = []
        begun: set[Response] = set()
        running: Response | None = None
        for entry in entries:
            response = response_of(entry) if isinstance(entry, ToolCall) else None
            if response is not None and response != running:
                if response in begun:
                    found.append(f"{named(entry)} is apart from the other calls of its response")
                begun.add(response)
            running = response
        return found

    def mended(self, entries: Entries) -> Entries:
        if not self.violations(entries):
            return entries
        calls: dict[Response, list[ToolCall]] = {}
        for entry in entries:
            response = response_of(entry)
            if isinstance(entry, ToolCall) and response is not None:
                calls.setdefault(response, []).append(entry)
        seen: list[Seen] = []
        for entry in entries:
            response = response_of(entry)
            if isinstance(entry, ToolCall) and response is not None:
                seen += calls.pop(response, [])
            else:
                seen.append(entry)
        return tuple(seen)

    def safe_cuts(self, entries: Entries) -> frozenset[int]:
        spans: dict[Response, tuple[int, int]] = {}
        called: set[Response] = set()
        for place, entry in enumerate(entries):
            response = response_of(entry)
            if response is not None:
                spans[response] = (spans.get(response, (place, place))[0], place)
                if isinstance(entry, ToolCall):
                    called.add(response)
        whole = [span for response, span in spans.items() if response in called]
        near = [(place, place + 1) for place, two in enumerate(pairwise(entries)) if joined(*two)]
        return outside(len(entries), [*whole, *near])
