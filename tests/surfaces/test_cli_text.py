"""The small pure parts: safe text, wrapping, the bar's cells, times."""

from __future__ import annotations

import time
import unicodedata
from collections.abc import Iterator

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from stratalog.errors import InvalidInput
from stratalog.surfaces.cli.bar import cells
from stratalog.surfaces.cli.plain import one_line, plain, safe_json, wrapped
from stratalog.surfaces.cli.times import minute, parse_time


@given(st.text())
def test_plain_text_has_nothing_that_a_terminal_acts_on(text: str) -> None:
    """Of control characters only the newline is left; every word is still there for the eye."""
    safe = plain(text)
    assert all(char == "\n" or unicodedata.category(char) not in ("Cc", "Cs") for char in safe)
    assert "\n" not in one_line(text)
    assert plain(text, "ascii").isascii()


def test_joiners_stay() -> None:
    """A family is one emoji, and scripts that join keep their joiners."""
    assert plain("👨\u200d👩\u200d👧") == "👨\u200d👩\u200d👧"
    assert plain("می\u200cخواهم") == "می\u200cخواهم"
    assert plain("a\u202eb\tc\x1b") == "a\\u202eb    c\\x1b"


@given(st.recursive(st.text() | st.integers(), lambda inner: st.lists(inner)))
def test_safe_json_is_the_same_value(value: object) -> None:
    """Escaping for the terminal, or for ASCII, does not change what the JSON says."""
    try:
        text = msgspec.json.encode(value).decode()
    except UnicodeEncodeError:  # a lone surrogate has no JSON at all
        return
    for encoding in ("utf-8", "ascii"):
        safe = safe_json(text, encoding)
        assert msgspec.json.decode(safe) == value
        assert all(unicodedata.category(char) != "Cc" for char in safe)
    assert safe_json(text, "ascii").isascii()


@given(st.text("ab 中文,。，-", max_size=200), st.integers(8, 40))
def test_wrapping_keeps_the_words_and_the_width(text: str, width: int) -> None:
    """No line is wider than asked for unless one word is, and nothing but spaces at a cut is lost."""
    lines = wrapped(text, width).split("\n")
    assert "".join("".join(lines).split()) == "".join(text.split())
    for line in lines:
        assert cell_len(line) <= width or " " not in line.strip()


def test_wrapping_chinese() -> None:
    """Chinese is cut between characters, never before the mark that closes a phrase."""
    assert wrapped("今天天气很好。我们去", 12) == "今天天气很\n好。我们去"


@given(st.lists(st.integers(0, 10_000), max_size=6), st.integers(8, 120))
def test_the_bar_is_full_at_most(tokens: list[int], width: int) -> None:
    """Every section that has tokens is seen, and the bar is never longer than its place."""
    given_cells = cells(tokens, max(1, sum(tokens)), width)
    assert sum(given_cells) <= width
    assert all((cell > 0) == (count > 0) for cell, count in zip(given_cells, tokens, strict=True))


@pytest.fixture
def shanghai(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "Asia/Shanghai")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.usefixtures("shanghai")
def test_times_are_local() -> None:
    """A time without an offset is in the local zone; a day is its beginning, or as an end its end."""
    assert minute(1789348448834) == "2026-09-14 09:14 +08:00"
    day = parse_time("2026-09-14")
    assert parse_time("2026-09-14T00:00+08:00") == day
    assert parse_time("2026-09-13T16:00Z") == day
    assert parse_time("2026-09-14", end=True) == day + 86_400_000
    assert abs(parse_time("2h") - (time.time() - 7200) * 1000) < 60_000


@pytest.mark.parametrize("text", ["", "soon", "2026-13-01", "5y", "９d"])
def test_what_is_no_time(text: str) -> None:
    """It is refused with the forms that are taken."""
    with pytest.raises(InvalidInput):
        parse_time(text)


@pytest.mark.parametrize("ts", [0, -5, 10**18])
def test_times_that_no_calendar_has(ts: int) -> None:
    """An unknown time, or one past the year 9999, is a dash."""
    assert minute(ts) == "-"
