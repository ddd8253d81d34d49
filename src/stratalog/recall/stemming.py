"""English stems, by snowballstemmer, imported with the first word to be stemmed: it loads all it has."""

from __future__ import annotations

import threading
from functools import cache
from typing import Protocol


class _Stemmer(Protocol):
    def stemWord(self, word: str) -> str: ...


_mutex = threading.Lock()


def stem(word: str) -> str:
    """The stem of an English word in small letters."""
    with _mutex:  # it keeps its word in itself
        return _stemmer().stemWord(word)


@cache
def _stemmer() -> _Stemmer:
    from snowballstemmer.english_stemmer import EnglishStemmer

    made: _Stemmer = EnglishStemmer()
    return made
