"""Which vocabulary a model cuts text by, and its provider's other rules of counting: by the model's name.

A family without a factor is exact where its vocabulary is public. The others are estimates: their
vocabularies are not published, so they are taken for `factor` times a public one.

Claude stands on cl100k rather than o200k, for o200k joins Chinese characters into words (0.8 tokens a
character against 1.2) and Claude's are reported to behave like cl100k's (devhubsolutions.net/blog,
masonailab.com, 2026). The factors come from what others measured by Anthropic's endpoint: English of 4.33
characters a token before Opus 4.7 and 3.60 from it, code and prose 1.15 to 1.46 times as many from it,
Chinese unchanged (sol.ava.dev/writings/2026-04-17-opus-4-7-tokenizer,
pithwire.com/en/articles/measuring-claude-47s-tokenizer-costs), where cl100k has 4.8. Nothing of it is
measured here: they are estimates, and rather over than under.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, Literal, TypeAlias, TypeVar

import msgspec

from stratalog.tokens import media

Encoding: TypeAlias = Literal["o200k", "cl100k", "llama3", "qwen3"]

_T = TypeVar("_T")


class Family(msgspec.Struct, frozen=True):
    """How a kind of models counts. `tools` is what its provider adds once when tools are offered.

    `exact` is True where the vocabulary is the model's own, and is known to be.
    """

    encoding: Encoding
    factor: float = 1.0
    images: media.ImageRule = media.FLAT
    tools: int = 0
    exact: bool = True

    @property
    def name(self) -> str:
        """The vocabulary and the factor on it, as `cl100k × 1.1`."""
        return self.encoding if self.factor == 1.0 else f"{self.encoding} × {self.factor:g}"


UNKNOWN: Final = Family("o200k", exact=False)

# Anthropic documents the words it adds for tools as 290 to 804 tokens by model, 346 for most of the fourth
# generation (platform.claude.com/docs/en/agents-and-tools/tool-use/overview, "Pricing"); OpenAI's cookbook,
# 12.
_CLAUDE_OLD: Final = Family("cl100k", 1.1, media.CLAUDE, 346, exact=False)
_CLAUDE: Final = Family("cl100k", 1.45, media.CLAUDE_HIGH, 346, exact=False)


def _openai(images: media.ImageRule, encoding: Encoding = "o200k", exact: bool = True) -> Family:
    return Family(encoding, 1.0, images, 12, exact)


FAMILIES: Final[Mapping[str, Family]] = {
    # OpenAI: github.com/openai/tiktoken, tiktoken/model.py. That GPT-5.4 and later cut as GPT-5 is not told
    # there.
    "gpt-3.5": _openai(media.FLAT, "cl100k"),
    "gpt-35": _openai(media.FLAT, "cl100k"),
    "gpt-4": _openai(media.GPT_4O, "cl100k"),
    "gpt-4o": _openai(media.GPT_4O),
    "chatgpt-4o": _openai(media.GPT_4O),
    "gpt-4.1": _openai(media.GPT_4O),
    "gpt-4.1-mini": _openai(media.GPT_MINI),
    "gpt-4.1-nano": _openai(media.GPT_NANO),
    "gpt-4.5": _openai(media.GPT_4O),
    "gpt-5": _openai(media.GPT_5),
    "gpt-5-mini": _openai(media.GPT_MINI),
    "gpt-5-nano": _openai(media.GPT_NANO),
    "gpt-5.4": _openai(media.GPT_PATCHES, exact=False),
    "gpt-5.5": _openai(media.GPT_PATCHES, exact=False),
    "gpt-5.6": _openai(media.GPT_PATCHES, exact=False),
    "gpt": _openai(media.GPT_PATCHES, exact=False),
    "gpt-oss": _openai(media.FLAT),
    "codex": _openai(media.GPT_5, exact=False),
    "o1": _openai(media.GPT_O),
    "o3": _openai(media.GPT_O),
    "o4-mini": _openai(media.GPT_O4_MINI),
    "text-embedding-3": Family("cl100k"),
    "text-embedding-ada": Family("cl100k"),
    # Anthropic
    "claude": _CLAUDE,
    "claude-2": _CLAUDE_OLD,
    "claude-3": _CLAUDE_OLD,
    "claude-instant": _CLAUDE_OLD,
    "claude-4": _CLAUDE_OLD,
    "claude-opus-4": _CLAUDE_OLD,
    "claude-opus-4-7": _CLAUDE,
    "claude-opus-4-8": _CLAUDE,
    "claude-sonnet-4": _CLAUDE_OLD,
    "claude-haiku-4": _CLAUDE_OLD,
    # Google: a token is "about 4 characters" (ai.google.dev/gemini-api/docs/tokens); not measured here.
    "gemini": Family("o200k", 1.15, media.GEMINI_3, exact=False),
    "gemini-1": Family("o200k", 1.15, media.GEMINI_2, exact=False),
    "gemini-2": Family("o200k", 1.15, media.GEMINI_2, exact=False),
    "gemma": Family("o200k", 1.15, media.FLAT, exact=False),
    # Open models whose vocabularies quicktok brings.
    "llama-3": Family("llama3"),
    "llama3": Family("llama3"),
    "meta-llama-3": Family("llama3"),
    "qwen2": Family("qwen3"),
    "qwen2.5": Family("qwen3"),
    "qwen3": Family("qwen3"),
    "qwen3.5": Family("qwen3", 1.1, exact=False),
    "qwen": Family("qwen3", 1.1, exact=False),
    "qwq": Family("qwen3"),
    # Others are near to o200k in English, and have Chinese words of their own: not measured here.
    "llama": Family("o200k", 1.1, exact=False),
    "deepseek": Family("qwen3", 1.1, exact=False),
    "kimi": Family("qwen3", 1.1, exact=False),
    "glm": Family("qwen3", 1.1, exact=False),
    "minimax": Family("o200k", 1.1, exact=False),
    "mistral": Family("o200k", 1.15, exact=False),
    "grok": Family("o200k", 1.15, exact=False),
}

# What hosts put before a model's own name: `openai/`, `models/`, `us.anthropic.`, `accounts/x/models/`.
_HOSTS = re.compile(
    r"(?:^|/)(?:[a-z]{2,6}\.)?"
    r"(?:anthropic|openai|google|meta|mistral|deepseek|qwen|moonshot|zai|minimax|xai)\."
)


def family_of(model: str) -> Family:
    """The family of the longest known prefix of the model's name; `UNKNOWN` when there is none."""
    return FAMILIES.get(longest_prefix(model, FAMILIES) or "", UNKNOWN)


def longest_prefix(model: str, table: Mapping[str, object]) -> str | None:
    """The longest key of `table` that begins the model's name and ends where a word of it ends.

    Case does not matter, nor what hosts put before the name (`openai/gpt-5`, `us.anthropic.claude-…`); a key
    that holds the host too is matched first.
    """
    full = model.strip().lower()
    for name in (full, bare(full)):
        fits = [key for key in table if _begins(name, key.lower())]
        if fits:
            return max(fits, key=len)
    return None


def bare(model: str) -> str:
    """The model's name without what hosts put before it."""
    name = _HOSTS.sub("/", model.strip().lower())
    return name.rsplit("/", 1)[-1]


def _begins(name: str, key: str) -> bool:
    return bool(key) and name.startswith(key) and not name[len(key) : len(key) + 1].isalnum()
