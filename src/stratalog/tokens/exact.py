"""The third of three levels: with a model's own vocabulary, by quicktok (the extra `exact`).

quicktok is imported when the first counter is made, not with this module, and keeps each vocabulary once it
is loaded (0.1 to 0.4 s). A counter may be used from any thread: quicktok only reads, and leaves the
interpreter free while it counts.

What it is given is made safe first. Lone surrogates, which it refuses, become U+FFFD, as they do in a
request. Special tokens (`<|endoftext|>`) are counted as the plain text that a provider takes them for. A text
is cut into pieces of `PIECE` characters, at a space where there is one, so that no call is long: it is linear
also on one character repeated (2 MB/s at worst, 50 MB/s on prose), and a cut elsewhere may cost a token.

Of models without a public vocabulary the count is that of another times a factor: see `families`.
"""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, Protocol

from stratalog.errors import InvalidConfig
from stratalog.tokens import entries
from stratalog.tokens.contract import Counter, Level
from stratalog.tokens.families import Encoding, Family, family_of
from stratalog.tokens.rough import Rough
from stratalog.types import AnyEntry

PIECE: Final = 1_048_576
_NAMES: Final[Mapping[Encoding, str]] = {
    "o200k": "o200k_base",
    "cl100k": "cl100k_base",
    "llama3": "llama3",
    "qwen3": "qwen3",
}
_SURROGATES = re.compile("[\ud800-\udfff]")
_CUT = re.compile(r"\S(?= \S)")


class Encoder(Protocol):
    """What is used of quicktok's tokenizer."""

    def count(self, text: str, /) -> int: ...


class Exact:
    """The exact counter of a family of models. Raises `InvalidConfig` when quicktok is not there or broken.

    `encoder` stands in for quicktok's in tests.
    """

    def __init__(self, family: Family, encoder: Encoder | None = None) -> None:
        self.family = family
        self._encoder = encoder if encoder is not None else _load(family.encoding)

    @property
    def name(self) -> str:
        return f"{'exact' if self.family.exact else 'estimate'}, {self.family.name}"

    @property
    def level(self) -> Level:
        return "exact"

    @property
    def is_estimate(self) -> bool:
        """Whether the vocabulary is only likened to the model's. Media are estimates in any case."""
        return not self.family.exact

    def count_text(self, text: str) -> int:
        if not text:
            return 0
        counted = sum(map(self._encoder.count, _pieces(_whole(text))))
        return counted if self.family.factor == 1.0 else -(-counted * round(self.family.factor * 100) // 100)

    def count_entry(self, entry: AnyEntry) -> int:
        return entries.entry_tokens(entry, self.count_text, self.family.images)

    def count_tools(self, tools: Iterable[Mapping[str, Any]]) -> int:
        return entries.tools_tokens(tools, self.count_text, self.family.tools)


def exact_counter(model: str) -> Exact:
    """The exact counter for the model; an estimate by o200k for one of a name we do not know.

    Raises `InvalidConfig` when the extra `exact` is not installed.
    """
    return Exact(family_of(model))


def best_counter(model: str) -> Counter:
    """The exact counter for the model where quicktok is installed, the rough one where it is not."""
    return exact_counter(model) if available() else Rough(family_of(model))


def available() -> bool:
    """Whether quicktok is installed; it is not loaded."""
    return importlib.util.find_spec("quicktok") is not None


def _load(encoding: Encoding) -> Encoder:
    try:
        import quicktok
    except ImportError as error:
        raise InvalidConfig(
            f"exact counts need quicktok, which cannot be imported: {error}",
            hint="pip install 'stratalog[exact]', or count roughly",
        ) from error
    try:
        encoder: Encoder = quicktok.get_encoding(_NAMES[encoding])
    except (RuntimeError, OSError) as error:
        raise InvalidConfig(
            f"quicktok cannot load a vocabulary: {error}",
            encoding=encoding,
            hint="install 'stratalog[exact]' again",
        ) from error
    return encoder


def _whole(text: str) -> str:
    """The text without halves of characters: pairs joined, lone ones replaced."""
    if text.isascii() or _SURROGATES.search(text) is None:
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _pieces(text: str) -> Iterator[str]:
    """The text in pieces of at most `PIECE` characters, cut before a single space where there is one."""
    start = 0
    while len(text) - start > PIECE:
        end = start + PIECE
        for found in _CUT.finditer(text, end - 4_096, end):
            end = found.end()
        yield text[start:end]
        start = end
    yield text[start:]
