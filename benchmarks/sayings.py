"""What records say and what is asked of them: made-up words, some far more common than others, the same in
every process. Nothing is imported, for the peers use it too."""

from __future__ import annotations

import random
from functools import lru_cache
from itertools import accumulate
from typing import Final

VOCABULARY: Final = 2_000
WORDS: Final = 15
ASKED: Final = 3
_SYLLABLES: Final = [consonant + vowel for consonant in "bdfgklmnprstvz" for vowel in "aeiou"]


@lru_cache(maxsize=1)
def words() -> tuple[list[str], list[float]]:
    """The vocabulary, and how often its words stand beside one another, summed up: as in a language without
    its function words (Zipf and Mandelbrot)."""
    chance = random.Random("words")
    made: dict[str, None] = {}
    while len(made) < VOCABULARY:
        made["".join(chance.choices(_SYLLABLES, k=chance.choice((2, 3, 3, 4))))] = None
    return list(made), list(accumulate(1 / (rank + 10) for rank in range(VOCABULARY)))


def saying(number: int) -> str:
    """The words of record `number`."""
    return _drawn(f"saying {number}", WORDS)


def question(number: int) -> str:
    """The words of query `number`."""
    return _drawn(f"question {number}", ASKED)


def _drawn(seed: str, count: int) -> str:
    vocabulary, weights = words()
    return " ".join(random.Random(seed).choices(vocabulary, cum_weights=weights, k=count))
