"""Reasoning stays with its response: it stands before the calls that came of it, with nothing between.

Providers refuse reasoning without what it led to, and calls without the reasoning that led to them, and they
sign it, so no part of it may be left out. A response that holds reasoning is therefore one piece: never
split, dropped only whole. Its entries that were logged apart are gathered where the first of them stands.
"""

from __future__ import annotations

from itertools import pairwise

from stratalog.context.invariants.contract import Entries, Seen, outside
from stratalog.context.invariants.responses import Response, joined, response_of, thinks
from stratalog.types import Assistant, ToolCall


class ReasoningTravels:
    """See `contract.Invariant`."""

    name = "reasoning_travels"

    def violations(self, entries: Entries) -> list[str]:
        return [
            f"the reasoning of response {response[1]!r} is parted from the rest of it"
            for response, places in _responses(entries).items()
            if not _one_piece(entries, places)
        ]

    def mended(self, entries: Entries) -> Entries:
        responses = _responses(entries)
        parted = {name: places for name, places in responses.items() if not _one_piece(entries, places)}
        if not parted:
            return entries
        seen: list[Seen] = []
        for entry in entries:
            response = response_of(entry)
            if response is None or response not in parted:
                seen.append(entry)
            elif parted[response]:
                given = [entries[place] for place in parted[response]]
                seen += [each for each in given if isinstance(each, Assistant)]
                seen += [each for each in given if isinstance(each, ToolCall)]
                parted[response] = []
        return tuple(seen)

    def safe_cuts(self, entries: Entries) -> frozenset[int]:
        spans = [(places[0], places[-1]) for places in _responses(entries).values()]
        near = [
            (place, place + 1)
            for place, (earlier, later) in enumerate(pairwise(entries))
            if thinks(earlier) and joined(earlier, later)
        ]
        return outside(len(entries), [*spans, *near])


def _responses(entries: Entries) -> dict[Response, list[int]]:
    """The places of the entries of each response that holds reasoning."""
    places: dict[Response, list[int]] = {}
    thinking: set[Response] = set()
    for place, entry in enumerate(entries):
        response = response_of(entry)
        if response is not None:
            places.setdefault(response, []).append(place)
            if thinks(entry):
                thinking.add(response)
    return {response: found for response, found in places.items() if response in thinking}


def _one_piece(entries: Entries, places: list[int]) -> bool:
    together = places[-1] - places[0] + 1 == len(places)
    called = [isinstance(entries[place], ToolCall) for place in places]
    return together and called == sorted(called)
