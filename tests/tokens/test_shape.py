"""What rough counts are made of: a sum over the kinds of characters in a text."""

from __future__ import annotations

import gc
import sys
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stratalog.tokens.exact import exact_counter
from stratalog.tokens.families import Family
from stratalog.tokens.rough import (
    ENVELOPE,
    WEIGHTS,
    Rough,
    count_text,
    count_tools,
    rough_counter,
    shape,
)

anything = st.text(st.characters(exclude_categories=()), max_size=300)
PIECES = (
    "the ",
    "Größe",
    "我们",
    "後來",
    "龘",
    "。",
    "，",
    "かな",
    "한글",
    "Привет",
    "नमस्ते",
    "→",
    "😀",
    "\n\n",
    "    ",
)
common = st.lists(st.sampled_from([*PIECES, "x1", "12345", "camelCase", "====", "\t", "\0", "\ud800"])).map(
    "".join
)


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ("", {}),
        ("word", {"word": 1}),
        ("two words", {"word": 2}),
        ("internationalisation", {"word": 1, "word8": 2, "word16": 1}),
        ("camelCase", {"word": 1, "word8": 1, "hump": 1}),
        ("HTTP", {"word": 1, "capitals": 2}),
        ("naïve", {"word": 1, "accented": 1}),
        ("12345", {"digits": 1, "digit": 2}),
        (" 7", {"digit": 1, "spaced": 1}),
        ("();", {"mark": 1}),
        ("----", {"mark": 1, "mark4": 1}),
        ("-" * 20, {"mark": 1, "mark4": 1, "mark16": 1}),
        ("\n", {"line": 1}),
        ("\r\n", {"line": 1}),
        ("    ", {"indent": 1}),
        (" " * 64, {"indent": 1, "space64": 1}),
        ("\t\t", {"tab": 1}),
        ("\0", {"control": 1}),
        ("的", {"han_common": 1}),
        ("猫", {"han": 1}),
        ("蝠", {"han_rare": 1}),
        ("龍", {"han_other": 1}),
        ("。", {"han_mark": 1}),
        ("，", {"wide": 1}),
        ("か", {"kana": 1}),
        ("한", {"hangul": 1}),
        ("я", {"letter2": 1}),
        ("न", {"letter3": 1}),
        ("→", {"symbol": 1}),
        ("😀", {"emoji": 1}),
        ("\ud800", {"hangul": 1}),  # half a character: its bytes are of that range
    ],
    ids=ascii,
)
def test_kinds(text: str, kinds: dict[str, int]) -> None:
    """Every character is of one kind, and what it stands in adds to others."""
    found = msgspec.structs.asdict(shape(text))
    assert {name: number for name, number in found.items() if number} == kinds


@given(anything | common)
def test_never_negative(text: str) -> None:
    """No kind is ever counted below nought, whatever the text."""
    assert min(msgspec.structs.astuple(shape(text))) >= 0


@given(anything | common, st.sampled_from(sorted(WEIGHTS)))
def test_nought_only_for_nothing(text: str, encoding: Any) -> None:
    """A count is a whole number, and 0 for no text alone."""
    found = count_text(text, Family(encoding))
    assert isinstance(found, int)
    assert (found > 0) == bool(text)


@given(common, common)
def test_adds_up(one: str, other: str) -> None:
    """Two texts together cost what they cost apart, but for what touches where they meet."""
    assert abs(count_text(one + other) - count_text(one) - count_text(other)) <= 8


@given(common, common)
def test_more_is_not_less(one: str, other: str) -> None:
    """Appending text never makes the count notably less: only the piece that it touches may be joined."""
    assert count_text(one + other) >= count_text(one) - 3


@pytest.mark.parametrize("piece", ["word ", "中文，", "ab1-", "x", "-", " ", "\n", "的", "\ud800"], ids=ascii)
def test_linear(piece: str) -> None:
    """A text of a thousand times the length takes as many steps of Python: each pass is one call."""
    short, long = (steps(piece * times) for times in (100, 100_000))
    assert short == long


def steps(text: str) -> int:
    """How many calls, of Python and of C, counting the text makes."""
    made = 0

    def seen(frame: Any, event: str, argument: Any) -> None:
        nonlocal made
        made += event in ("call", "c_call")

    before = sys.getprofile()
    gc.disable()  # what others have called at a collection is no step of ours
    sys.setprofile(seen)
    try:
        count_text(text)
    finally:
        sys.setprofile(before)
        gc.enable()
    return made


@pytest.mark.parametrize("times", [1, 10, 1_000])
def test_grows_with_the_text(times: int) -> None:
    """A text repeated costs that many times as much."""
    text = "The quick brown fox, 敏捷的棕色狐狸。\n"
    assert count_text(text * times) == pytest.approx(times * count_text(text), rel=0.05)


def test_tools() -> None:
    """Tools cost their JSON and an envelope each; no tools cost nothing, whoever the provider is."""
    tool = {"name": "get", "parameters": {"type": "object", "properties": {"key": {"type": "string"}}}}
    text = msgspec.json.encode(tool).decode()
    assert count_tools([]) == 0
    assert count_tools([tool]) == count_text(text) + ENVELOPE
    assert count_tools([tool, tool]) == 2 * count_tools([tool])
    claude = rough_counter("claude-opus-4-6")
    assert claude.count_tools([]) == 0
    assert claude.count_tools([tool]) == claude.count_text(text) + ENVELOPE + claude.family.tools


@pytest.mark.parametrize(
    ("model", "name"),
    [
        ("gpt-5", "rough, o200k"),
        ("gpt-4", "rough, cl100k"),
        ("claude-sonnet-4-5-20250929", "rough, cl100k × 1.1"),
        ("something-else", "rough, o200k"),
    ],
)
def test_counter(model: str, name: str) -> None:
    """A rough counter tells whose vocabulary it goes by, and that it is an estimate."""
    counter = rough_counter(model)
    assert (counter.name, counter.level, counter.is_estimate) == (name, "rough", True)


def test_likened_models_cost_the_factor() -> None:
    """A model likened to a vocabulary costs the factor times as much."""
    text = "The quick brown fox jumps over the lazy dog. " * 50
    assert Rough(Family("o200k", 1.5)).count_text(text) == pytest.approx(1.5 * count_text(text), abs=1)


@pytest.mark.parametrize(
    "text",
    ["!@#$%^&*()_+-=[]{}" * 500, "[[[]]]{}{}" * 900, "[]()!+" * 2_000, "});\n" * 200],
    ids=lambda text: text[:6],
)
def test_long_runs_of_marks_are_no_rulers(text: str) -> None:
    """Punctuation of many kinds costs what it is long, within 30 % of o200k; a ruler next to nothing."""
    exact = exact_counter("gpt-4o").count_text(text)
    assert 0.7 * exact <= count_text(text) <= 1.3 * exact
    assert count_text("=" * 4_000) < 100
