"""The table of windows: found by the model's name, configuration over it, and a warning where it guesses."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stratalog.errors import InvalidConfig
from stratalog.tokens.windows import DEFAULT_OUTPUT, DEFAULT_WINDOW, ROWS, Override, window_of


@pytest.mark.parametrize(
    ("model", "window", "output"),
    [
        ("gpt-4", 8_192, 4_096),
        ("gpt-4-turbo-2024-04-09", 128_000, 4_096),
        ("gpt-4o-mini", 128_000, 16_384),
        ("gpt-4.1-mini-2025-04-14", 1_047_576, 32_768),
        ("gpt-5-mini", 400_000, 128_000),
        ("gpt-5-chat-latest", 128_000, 16_384),
        ("openai/gpt-5.5", 1_050_000, 128_000),
        ("gpt-6-astra", 1_050_000, 128_000),
        ("o3-mini", 200_000, 100_000),
        ("claude-3-5-sonnet-20241022", 200_000, 8_192),
        ("claude-opus-4-1-20250805", 200_000, 32_000),
        ("claude-opus-4-5-20251101", 200_000, 64_000),
        ("us.anthropic.claude-opus-4-6-v1:0", 1_000_000, 128_000),
        ("Claude-Sonnet-4-5", 200_000, 64_000),
        ("claude-haiku-5-5", 1_000_000, 128_000),
        ("models/gemini-2.5-pro", 1_048_576 + 65_535, 65_535),
        ("deepseek-v4-pro", 1_000_000, 384_000),
        ("qwen3:32b", 32_768, 32_768),
        ("meta-llama/Llama-3.1-70B-Instruct", 131_072, 4_096),
        ("llama3:8b", 8_192, 4_096),
    ],
)
def test_known(model: str, window: int, output: int) -> None:
    """A model's limits are those of the longest row that its name begins with, and come without a warning."""
    found = window_of(model)
    assert (found.window, found.output) == (window, output)
    assert found.warning == ""
    assert found.source
    assert found.checked


@pytest.mark.parametrize("model", ["", "our-own-model", "o1000", "gptx", "clauded"])
def test_unknown(model: str) -> None:
    """A name that begins like none has the stated default and a warning that says what to do."""
    found = window_of(model)
    assert (found.window, found.input, found.output) == (DEFAULT_WINDOW, DEFAULT_WINDOW, DEFAULT_OUTPUT)
    assert "32,768" in found.warning
    assert "windows" in found.warning


@pytest.mark.parametrize("model", ["claude-next-9", "gpt-99", "gemini-99", "mistral-new"])
def test_guessed(model: str) -> None:
    """A new model of a known family has its smallest window, and a warning."""
    found = window_of(model)
    assert found.row
    assert found.warning
    present = [row for name, row in ROWS.items() if name.startswith(f"{found.row}-") and row.checked > "2026"]
    assert found.window <= min(row.window for row in present)


def test_s41_the_window_follows_the_model() -> None:
    """S41: 32K and 1M are each their own, also right after a switch."""
    for model, window in [("qwen2.5-7b", 32_768), ("claude-opus-4-6", 1_000_000), ("qwen2.5-7b", 32_768)]:
        assert window_of(model).window == window


def test_s40_a_large_window_is_told_as_it_is() -> None:
    """S40: a million is a million here; it is the compaction's absolute cap that fires before its 80 %."""
    found = window_of("claude-opus-4-6")
    assert found.window * 8 // 10 > 250_000
    assert found.room(128_000) == 872_000


@pytest.mark.parametrize(
    ("reply", "room"), [(0, 272_000), (128_000, 272_000), (200_000, 200_000), (400_000, 0), (500_000, 0)]
)
def test_room(reply: int, room: int) -> None:
    """What may be sent is bounded by the input's own limit, and by what the reply needs."""
    assert window_of("gpt-5").room(reply) == room


@pytest.mark.parametrize(
    ("overrides", "window", "input", "output"),
    [
        ({"gpt-5": 100_000}, 100_000, 100_000, 100_000),
        ({"gpt-5-mini": 50_000, "gpt": 9}, 50_000, 50_000, 50_000),
        ({"gpt": {"output": 1_000}}, 400_000, 272_000, 1_000),
        ({"gpt-5": {"window": 1_000_000, "output": 2_000}}, 1_000_000, 1_000_000, 2_000),
        ({"gpt-5": {"input": 10_000}}, 400_000, 10_000, 128_000),
        ({"OpenAI/gpt-5-mini": 7_000}, 7_000, 7_000, 7_000),
        ({"claude": 1, "*": 2}, 400_000, 272_000, 128_000),
        ({}, 400_000, 272_000, 128_000),
    ],
)
def test_overrides(overrides: dict[str, Override], window: int, input: int, output: int) -> None:
    """Configuration goes over the table by the longest prefix; what it leaves out is the table's."""
    found = window_of("openai/gpt-5-mini", overrides)
    assert (found.window, found.input, found.output) == (window, input, output)
    assert found.warning == ""


def test_override_of_an_unknown_model() -> None:
    """A window that configuration gives is no guess, so there is no warning."""
    found = window_of("our-own-model", {"our-own": {"window": 16_000}})
    assert (found.window, found.output, found.warning) == (16_000, 4_096, "")
    assert found.source == "configuration"
    assert window_of("another", {"*": 8_000}).window == 8_000
    assert window_of("another", {"*": 8_000}).warning == ""


@pytest.mark.parametrize(
    "override",
    [
        0,
        -1,
        True,
        {"window": 0},
        {"window": "8k"},
        {"size": 5},
        {"window": 10, "output": 20},
        {"window": 10, "input": 20},
    ],
    ids=str,
)
def test_wrong_override(override) -> None:  # type: ignore[no-untyped-def]  # wrong on purpose
    """A figure that cannot be is an error that names the model."""
    with pytest.raises(InvalidConfig, match="ours"):
        window_of("ours-1", {"ours": override})


@pytest.mark.parametrize("name", ROWS)
def test_rows(name: str) -> None:
    """Every row is found by its own name, tells its source and its date, and does not contradict itself."""
    row = ROWS[name]
    assert name == name.lower()
    assert row.source
    assert row.checked.startswith("20")
    assert 0 < row.output <= row.window
    assert row.input <= row.window
    assert window_of(name).row == name
    assert bool(window_of(name).warning) == row.guess


@given(st.text(max_size=40))
def test_any_name(model: str) -> None:
    """Every name has a window, and what may be sent is within it."""
    found = window_of(model)
    assert 0 < found.input <= found.window
