"""English and German stems, by snowballstemmer, imported with the first word of the language."""

from __future__ import annotations

import threading
from functools import cache
from typing import Protocol


class _Stemmer(Protocol):
    def stemWord(self, word: str) -> str: ...


_mutex = threading.Lock()


def stem(word: str) -> str:
    """The stem of an English word in small letters."""
    with _mutex:  # a stemmer keeps its word in itself
        return _english().stemWord(word)


def german_stem(word: str) -> str:
    """The stem of a German word in small letters, without its umlauts."""
    with _mutex:
        return _german().stemWord(word)


@cache
def _english() -> _Stemmer:
    from snowballstemmer.english_stemmer import EnglishStemmer

    made: _Stemmer = EnglishStemmer()
    return made


@cache
def _german() -> _Stemmer:
    from snowballstemmer.german_stemmer import GermanStemmer

    made: _Stemmer = GermanStemmer()
    return made
