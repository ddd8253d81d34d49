"""What is shown of a hit has the word that was asked for."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from stratalog.recall.excerpt import excerpt, holds
from stratalog.recall.terms import query_terms, terms

LONG = "Nothing of note happened here. " * 40


def test_a_word_far_into_the_text_is_shown() -> None:
    """The piece begins a little before the word, whatever its form."""
    shown = excerpt(f"{LONG}The brakes were squeaking again. {LONG}", query_terms("squeak"))
    assert "squeaking" in shown
    assert shown.startswith("…")
    assert shown.endswith("…")
    assert len(shown) <= 300


def test_chinese_words_are_found_within_a_run() -> None:
    """A pair of characters in the middle of a long sentence is shown."""
    text = "今天天气很好我们去了公园。" * 30 + "老周对花生过敏，订餐要注意。"
    assert "花生过敏" in excerpt(text, query_terms("花生过敏"))


def test_without_the_word_the_beginning_is_shown() -> None:
    """A hit by its neighbours or its date shows how it begins, on one line."""
    assert excerpt("a\nb  c", ["zebra"]) == "a b c"


@given(st.text(max_size=2000), st.text(max_size=30), st.integers(min_value=20, max_value=400))
def test_any_text_gives_a_piece_that_fits(text: str, query: str, width: int) -> None:
    """Never longer than asked for, never a line break, and it has the term when the text begins with it."""
    shown = excerpt(text, query_terms(query), width)
    assert len(shown) <= width
    assert "\n" not in shown
    assert holds(text, terms(text)) or not terms(text)
