"""What the rest asks of a way to count tokens. Three levels keep it: rough, calibrated and exact.

`is_estimate` tells whether a count may be wrong. An exact counter of a model whose vocabulary is not public
is an estimate too; so is any count of an image or of a payload that is kept beside the log.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal, Protocol, TypeAlias

from stratalog.types import AnyEntry

Level: TypeAlias = Literal["rough", "calibrated", "exact"]


class Counter(Protocol):
    """Counts are tokens, never negative. Two calls with the same argument give the same count."""

    @property
    def name(self) -> str:
        """What counts, for a report: the level, the vocabulary, the factor on it."""
        ...

    @property
    def level(self) -> Level: ...

    @property
    def is_estimate(self) -> bool: ...

    def count_text(self, text: str) -> int:
        """The tokens of a text by itself; 0 only for no text."""
        ...

    def count_entry(self, entry: AnyEntry) -> int:
        """The tokens of an entry with its envelope in what a model is sent; 0 for one that no model sees."""
        ...

    def count_tools(self, tools: Iterable[Mapping[str, Any]]) -> int:
        """The tokens of the schemas of the tools a model is offered; 0 for none."""
        ...
