"""Fitting a conversation that somebody else holds: the context of its entries, of which no log is read."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from stratalog.config import BudgetSettings
from stratalog.context.budget import Context, fit
from stratalog.context.shorten import shortened
from stratalog.context.view import view
from stratalog.engine.seeing import counter_of, limits_of
from stratalog.types import AnyEntry, ToolResult


def fitted(entries: Iterable[AnyEntry], budget: int, *, settings: BudgetSettings, model: str = "") -> Context:
    """What of these entries, in order, fits `budget` tokens, counted as for `model` and fitted as
    `Session.context` does it. In what is shown `seq` is the entry's place, from 1, and 0 for what was made
    up. Raises `ContextOverflow`."""
    counter = counter_of(model)
    limits = limits_of(settings, budget)
    listed = [
        msgspec.structs.replace(entry, seq=place, id=entry.id or f"#{place}")
        for place, entry in enumerate(entries, 1)
    ]
    most = limits.tool_result
    shorter: dict[int, AnyEntry] = {
        entry.seq: shortened(entry, most, counter.count_text)
        for entry in listed
        if most is not None and isinstance(entry, ToolResult) and counter.count_entry(entry) > most
    }
    return fit(view(listed).with_entries(shorter), limits, counter)
