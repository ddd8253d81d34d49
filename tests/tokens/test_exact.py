"""Counting with a model's own vocabulary, and what is done so that no text can harm it."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stratalog.errors import InvalidConfig
from stratalog.tokens import exact as module
from stratalog.tokens.exact import PIECE, Exact, available, best_counter, exact_counter
from stratalog.tokens.families import FAMILIES, UNKNOWN, Encoding, Family, bare, family_of
from stratalog.tokens.rough import Rough
from stratalog.types import (
    Assistant,
    Compaction,
    Data,
    File,
    Note,
    Reasoning,
    System,
    Text,
    Title,
    ToolCall,
    ToolResult,
    User,
)

needs_quicktok = pytest.mark.skipif(
    not available(), reason="quicktok is not installed: pip install 'stratalog[exact]'"
)


class Letters:
    """Counts a token a character, and remembers what it was given."""

    def __init__(self) -> None:
        self.given: list[str] = []

    def count(self, text: str, /) -> int:
        text.encode()  # refuses what quicktok refuses
        self.given.append(text)
        return len(text)


@needs_quicktok
@pytest.mark.parametrize(
    ("text", "o200k", "cl100k"),
    [
        ("", 0, 0),
        ("hello world", 2, 2),
        ("The quick brown fox jumps over the lazy dog.", 10, 10),
        ("你好，世界", 3, 6),
        ("def f(x):\n    return x + 1\n", 11, 11),
        ('{"a": [1, 2.5, null]}', 13, 13),
        ("1234567890", 4, 4),
        ("😀", 1, 2),
        ("a\0b", 3, 3),
        ("\ud800", 1, 1),  # as U+FFFD
        ("\ud83d\ude00", 1, 2),  # two halves are the whole
        ("<|endoftext|>", 7, 7),  # plain text, not the special token
        ("    ", 1, 1),
    ],
    ids=ascii,
)
def test_exact_values(text: str, o200k: int, cl100k: int) -> None:
    """Small texts take what they are known to take (quicktok 0.4.0, whose project holds it to tiktoken)."""
    assert exact_counter("gpt-5").count_text(text) == o200k
    assert exact_counter("gpt-4").count_text(text) == cl100k


@pytest.mark.parametrize(
    ("model", "encoding", "is_exact"),
    [
        ("gpt-4o", "o200k", True),
        ("gpt-4o-mini-2024-07-18", "o200k", True),
        ("gpt-4.1-nano", "o200k", True),
        ("GPT-5", "o200k", True),
        ("openai/gpt-5-mini", "o200k", True),
        ("o3-mini", "o200k", True),
        ("gpt-oss:20b", "o200k", True),
        ("gpt-4", "cl100k", True),
        ("gpt-4-turbo-2024-04-09", "cl100k", True),
        ("gpt-35-turbo", "cl100k", True),
        ("gpt-6-astra", "o200k", False),
        ("claude-3-5-sonnet-20241022", "cl100k", False),
        ("anthropic.claude-opus-4-6-v1:0", "cl100k", False),
        ("claude-opus-4-7", "cl100k", False),
        ("claude-sonnet-5", "cl100k", False),
        ("meta-llama/Llama-3.1-8B-Instruct", "llama3", True),
        ("qwen3:32b", "qwen3", True),
        ("models/gemini-2.5-pro", "o200k", False),
        ("o1000", "o200k", False),  # no o1
        ("", "o200k", False),
    ],
)
def test_families(model: str, encoding: Encoding, is_exact: bool) -> None:
    """The vocabulary follows from the model's name; what is only likened to it is marked."""
    family = family_of(model)
    assert (family.encoding, family.exact) == (encoding, is_exact)


def test_unknown_family() -> None:
    """A name that begins like none is counted by o200k, and marked an estimate."""
    assert family_of("our-own-model") is UNKNOWN
    assert not UNKNOWN.exact


@pytest.mark.parametrize("name", FAMILIES)
def test_factors_are_estimates(name: str) -> None:
    """Nothing with a factor passes for exact."""
    family = FAMILIES[name]
    assert family.factor == 1.0 or not family.exact
    assert family_of(name) == family


@pytest.mark.parametrize(
    ("model", "name"),
    [
        ("openai/gpt-5", "gpt-5"),
        ("us.anthropic.claude-opus-4-6-v1:0", "claude-opus-4-6-v1:0"),
        ("accounts/fireworks/models/qwen3-8b", "qwen3-8b"),
        ("bedrock/eu.anthropic.claude-3-haiku", "claude-3-haiku"),
        (" GPT-4o ", "gpt-4o"),
    ],
)
def test_bare(model: str, name: str) -> None:
    """What hosts put before a name is not part of it."""
    assert bare(model) == name


def test_factor() -> None:
    """An estimate is the factor times the vocabulary's count, rounded up."""
    counter = Exact(Family("cl100k", 1.45, exact=False), Letters())
    assert counter.count_text("abc") == 5
    assert counter.count_text("") == 0
    assert counter.is_estimate
    assert counter.name == "estimate, cl100k × 1.45"


def test_claude_is_over_rather_than_under() -> None:
    """Claude from Opus 4.7 is taken for more than before it, and both for more than cl100k."""
    old, new = family_of("claude-opus-4-6"), family_of("claude-opus-4-7")
    assert 1.0 < old.factor < new.factor


@pytest.mark.parametrize(
    ("entry", "tokens"),
    [
        (User(content="abcd"), 8),
        (System(content="abcd"), 8),
        (Assistant(content="abcd"), 8),
        (Assistant(content=(Reasoning(text="ab"), Text(text="abcd"))), 10),
        (Assistant(content=(Reasoning(redacted="x" * 40),)), 14),
        (ToolCall(call_id="1", name="get", args={"a": 1}), 7 + 3 + 1 + 8),
        (ToolCall(call_id="1", name="get", args='{"a":'), 5 + 3 + 1 + 8),
        (ToolResult(call_id="1", content="abcd"), 9),
        (Compaction(summary="abcd"), 16),
        (User(content=(File(name="a.pdf"),)), 2_004),
        (User(content=(Data(kind="x", value={"a": 1}),)), 11),
        (Note(kind="x", text="abcd"), 0),
        (Title(title="abcd"), 0),
    ],
    ids=lambda value: type(value).__name__,
)
def test_entries(entry, tokens: int) -> None:  # type: ignore[no-untyped-def]  # the parameters tell
    """An entry costs its text and its envelope; one that no model sees, nothing."""
    assert Exact(Family("o200k"), Letters()).count_entry(entry) == tokens


def test_large_text_in_pieces() -> None:
    """A text over a piece is counted in pieces that are cut before a space, and lose nothing."""
    letters = Letters()
    text = "word " * (PIECE // 2)
    assert Exact(Family("o200k"), letters).count_text(text) == len(text)
    assert "".join(letters.given) == text
    assert max(map(len, letters.given)) <= PIECE
    assert all(piece[0] == " " for piece in letters.given[1:])
    assert len(letters.given) == 3


@given(st.text(st.characters(exclude_categories=()), max_size=40), st.integers(0, 3))
def test_pieces_lose_nothing(text: str, repeats: int) -> None:
    """Whatever the text, the pieces are the text, with its halves of characters replaced."""
    letters = Letters()
    Exact(Family("o200k"), letters).count_text(text * 10**repeats)
    whole = (text * 10**repeats).encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    assert "".join(letters.given) == whole


@pytest.mark.parametrize("piece", ["-", "a", " ", "\0", "中", "ab-", "\n"], ids=ascii)
def test_linear(piece: str) -> None:
    """What the vocabulary is given grows as the text does, each character once."""
    letters = Letters()
    text = piece * (3 * PIECE // len(piece))
    Exact(Family("o200k"), letters).count_text(text)
    assert sum(map(len, letters.given)) == len(text)
    assert len(letters.given) <= 4


@needs_quicktok
@pytest.mark.parametrize("piece", ["-", "a", "中", "ab1 "], ids=ascii)
def test_cuts_cost_next_to_nothing(piece: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Counted in pieces, a text costs what it costs whole, but for a few tokens a cut."""
    text = piece * (20_000 // len(piece))
    whole = exact_counter("gpt-5").count_text(text)
    monkeypatch.setattr(module, "PIECE", 5_000)
    assert 0 <= exact_counter("gpt-5").count_text(text) - whole <= 12


@needs_quicktok
def test_threads() -> None:
    """One counter gives every thread what it gives one."""
    counter = exact_counter("gpt-5")
    texts = [f"{number} 个测试 tests, " * number for number in range(1, 60)]
    alone = list(map(counter.count_text, texts))
    with ThreadPoolExecutor(8) as pool:
        for _ in range(5):
            assert list(pool.map(counter.count_text, texts)) == alone


def test_missing_package(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without quicktok the error names the extra, and the rough counter stands in where that will do."""
    monkeypatch.setitem(sys.modules, "quicktok", None)
    with pytest.raises(InvalidConfig, match="stratalog\\[exact\\]"):
        exact_counter("gpt-5")
    monkeypatch.setattr(module, "available", lambda: False)
    assert isinstance(best_counter("gpt-5"), Rough)


@needs_quicktok
def test_best_counter() -> None:
    """With quicktok the best counter is the exact one."""
    counter = best_counter("gpt-5")
    assert (counter.level, counter.is_estimate, counter.name) == ("exact", False, "exact, o200k")
    assert best_counter("claude-opus-5").is_estimate


def test_loaded_late() -> None:
    """Importing the module loads neither quicktok nor numpy."""
    script = "import sys, stratalog.tokens.exact; print(sorted({'quicktok', 'numpy'} & set(sys.modules)))"
    told = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert told.stdout.strip() == "[]"
