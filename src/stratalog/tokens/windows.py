"""How much a model can see and say: a table, with where each row is from, and what configuration says over
it.

A row is found by the longest prefix of the model's name, so that dated and hosted names need no row of their
own. A family's newest models, which have no row, take its row marked `guess`, the smallest of what its
present models have; a name that begins like none takes `DEFAULT`. Both come with a warning, returned and not
printed: the caller knows whether it was told already. Nothing is remembered, so that another model is another
window at once.

`window` is all a model sees and says in one request; `input`, where it is less, what it may be sent.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeAlias

import msgspec

from stratalog.errors import InvalidConfig
from stratalog.tokens.families import longest_prefix

DEFAULT_WINDOW: Final = 32_768
DEFAULT_OUTPUT: Final = 4_096

Override: TypeAlias = int | Mapping[str, int]


class Window(msgspec.Struct, frozen=True, kw_only=True):
    """A model's limits in tokens. `row` is what of its name was known, "" for the default.

    `source` and `checked` tell where the figures are from and when they were read there. `warning` is not
    empty when they are a guess.
    """

    window: int
    input: int
    output: int
    row: str = ""
    source: str = ""
    checked: str = ""
    warning: str = ""

    def room(self, reply: int = 0) -> int:
        """What may be sent so that `reply` tokens of an answer still fit; never negative."""
        return max(0, min(self.input, self.window - reply))


class Row(msgspec.Struct, frozen=True):
    window: int
    output: int
    source: str
    checked: str
    input: int = 0
    guess: bool = False


_2026 = "2026-11-30"
_CLAUDE = "platform.claude.com/docs/en/models"
_CLAUDE_OLD = "platform.claude.com/docs, models overview of 2025; docs.rs/mixtape-core"
_OPENAI = "developers.openai.com/api/docs/models/compare"
_GPT_5 = (
    "vercel.com/ai-gateway/models (openai); uipath.com Autopilot limits; input by OpenAI's model page of 2025"
)
_OPENAI_OLD = "platform.openai.com/docs/models of 2025, from memory; not read again"
_GEMINI = "ai.google.dev/gemini-api/docs/models"
_GEMINI_OLD = "ai.google.dev/gemini-api/docs/models of 2025, from memory; not read again"
_DEEPSEEK = "api-docs.deepseek.com/quick_start/pricing"
_QWEN = "vercel.com/ai-gateway/models (alibaba)"
_CARD = "the model's card on huggingface.co, from memory; not read again"
_ROO = "github.com/RooCodeInc/Roo-Code packages/types/src/providers"
_KIMI = "platform.kimi.com/docs/pricing; github.com/linxule/vox-mcp for the output"

_GUESS = "the smallest of the family's present models"

# Google documents the limit of what is sent, and that of the answer beside it: the window is both.
_MEGA: Final = 1_048_576
_GEMINI_OUT: Final = 65_536

ROWS: Final[Mapping[str, Row]] = {
    # None at all: it has no window, and nobody waits for a larger one.
    "extractive": Row(128_000, 4_096, "models/extractive_chat.py", _2026),
    # OpenAI
    "gpt": Row(128_000, 16_384, _GUESS, _2026, guess=True),
    "gpt-6": Row(
        1_050_000, 128_000, "vercel.com/ai-gateway/models/gpt-6-astra, docs.venice.ai", _2026, 922_000
    ),
    "gpt-5.6": Row(1_050_000, 128_000, _OPENAI, _2026, 922_000),
    "gpt-5.5": Row(1_050_000, 128_000, _OPENAI, _2026, 922_000),
    "gpt-5.4": Row(1_050_000, 128_000, "wavespeed.ai/llm/openai/gpt-5.4", _2026, 922_000),
    "gpt-5.4-mini": Row(400_000, 128_000, _GUESS, _2026, 272_000, guess=True),
    "gpt-5.4-nano": Row(400_000, 128_000, _GUESS, _2026, 272_000, guess=True),
    "gpt-5": Row(400_000, 128_000, _GPT_5, _2026, 272_000),
    "gpt-5-chat": Row(128_000, 16_384, "github.com/labring/fastgpt-plugin/pull/297", _2026),
    "gpt-5.1-chat": Row(128_000, 16_384, "github.com/labring/fastgpt-plugin/pull/297", _2026),
    "gpt-5.2-chat": Row(128_000, 16_384, "OpenRouter's list, by starascendin/lifeos-plugin", _2026),
    "gpt-4.5": Row(128_000, 16_384, _OPENAI_OLD, "2025"),
    "gpt-4.1": Row(
        1_047_576, 32_768, "OpenRouter's list; github.com/agentstation/starmap for the output", _2026
    ),
    "gpt-4o": Row(128_000, 16_384, "uipath.com Autopilot limits", _2026),
    "chatgpt-4o": Row(128_000, 16_384, _OPENAI_OLD, "2025"),
    "gpt-4-turbo": Row(128_000, 4_096, _OPENAI_OLD, "2025"),
    "gpt-4-1106": Row(128_000, 4_096, _OPENAI_OLD, "2025"),
    "gpt-4-0125": Row(128_000, 4_096, _OPENAI_OLD, "2025"),
    "gpt-4-32k": Row(32_768, 4_096, _OPENAI_OLD, "2025"),
    "gpt-4": Row(8_192, 4_096, _OPENAI_OLD, "2025"),
    "gpt-3.5-turbo": Row(16_385, 4_096, _OPENAI_OLD, "2025"),
    "gpt-35-turbo": Row(16_385, 4_096, _OPENAI_OLD, "2025"),
    "gpt-oss": Row(131_072, 32_768, _CARD, "2025"),
    "o1": Row(200_000, 100_000, _OPENAI_OLD, "2025"),
    "o1-mini": Row(128_000, 65_536, _OPENAI_OLD, "2025"),
    "o1-preview": Row(128_000, 32_768, _OPENAI_OLD, "2025"),
    "o3": Row(200_000, 100_000, _OPENAI_OLD, "2025"),
    "o4-mini": Row(200_000, 100_000, _OPENAI_OLD, "2025"),
    # Anthropic
    "claude": Row(200_000, 64_000, _GUESS, _2026, guess=True),
    "claude-fable-5": Row(1_000_000, 128_000, _CLAUDE, _2026),
    "claude-opus-5": Row(1_000_000, 128_000, _CLAUDE, _2026),
    "claude-sonnet-5": Row(1_000_000, 128_000, _CLAUDE, _2026),
    "claude-haiku-5": Row(1_000_000, 128_000, _CLAUDE + "/overview", _2026),
    "claude-opus-4-8": Row(1_000_000, 128_000, "github.com/Effect-TS/effect, ai-anthropic beta.106", _2026),
    "claude-opus-4-7": Row(1_000_000, 128_000, "github.com/Effect-TS/effect, ai-anthropic beta.106", _2026),
    "claude-opus-4-6": Row(1_000_000, 128_000, _CLAUDE + "/opus-4-6/overview", _2026),
    "claude-sonnet-4-6": Row(1_000_000, 128_000, _CLAUDE + "/sonnet-4-6/overview", _2026),
    "claude-opus-4-5": Row(200_000, 64_000, _CLAUDE_OLD, _2026),
    "claude-sonnet-4-5": Row(200_000, 64_000, _CLAUDE + "/sonnet-4-5/overview", _2026),
    "claude-haiku-4-5": Row(200_000, 64_000, _CLAUDE, _2026),
    "claude-opus-4": Row(200_000, 32_000, _CLAUDE_OLD, _2026),
    "claude-sonnet-4": Row(200_000, 64_000, _CLAUDE_OLD, _2026),
    "claude-3-7-sonnet": Row(200_000, 64_000, _CLAUDE_OLD, _2026),
    "claude-3-5": Row(200_000, 8_192, _CLAUDE_OLD, _2026),
    "claude-3": Row(200_000, 4_096, _CLAUDE_OLD, _2026),
    # Google
    "gemini": Row(_MEGA, 8_192, _GUESS, _2026, guess=True),
    "gemini-3": Row(_MEGA + _GEMINI_OUT, _GEMINI_OUT, _GEMINI + "/gemini-3-pro-preview", _2026, _MEGA),
    "gemini-3.1": Row(_MEGA + _GEMINI_OUT, _GEMINI_OUT, _GEMINI + "/gemini-3.1-pro-preview", _2026, _MEGA),
    "gemini-3.5": Row(_MEGA + _GEMINI_OUT, _GEMINI_OUT, _GEMINI + "/gemini-3.5-flash", _2026, _MEGA),
    "gemini-3.8": Row(
        _MEGA, 65_535, "vercel.com/ai-gateway/models/google/gemini-3.8-flash", _2026, 1_000_000
    ),
    "gemini-2.5": Row(_MEGA + 65_535, 65_535, "uipath.com Autopilot limits", _2026, _MEGA),
    "gemini-2.0": Row(_MEGA + 8_192, 8_192, _GEMINI_OLD, "2025", _MEGA),
    "gemini-1.5-pro": Row(2_097_152 + 8_192, 8_192, _GEMINI_OLD, "2025", 2_097_152),
    "gemini-1.5": Row(_MEGA + 8_192, 8_192, _GEMINI_OLD, "2025", _MEGA),
    "gemma-3": Row(131_072, 8_192, _CARD, "2025"),
    # Open models, as their makers serve them; a host may allow less.
    "deepseek": Row(65_536, 8_192, _GUESS, _2026, guess=True),
    "deepseek-flash": Row(1_000_000, 384_000, _DEEPSEEK, _2026),
    "deepseek-v4": Row(1_000_000, 384_000, _DEEPSEEK, _2026),
    "qwen": Row(32_768, 8_192, _GUESS, _2026, guess=True),
    "qwen3-max": Row(262_144, 65_536, _QWEN + "/qwen3-max", _2026),
    "qwen3.6-plus": Row(1_000_000, 65_536, _QWEN + "/qwen3.6-plus; the output is qwen3-max's", _2026),
    "qwen3.7-max": Row(991_000, 65_536, _QWEN + "/qwen3.7-max; the output is qwen3-max's", _2026),
    "qwen3.8-max": Row(991_000, 128_000, _QWEN + "/qwen3.8-max-0902", _2026),
    "qwen2.5": Row(32_768, 8_192, _CARD, "2025"),
    "qwen3": Row(32_768, 32_768, _CARD, "2025"),
    "llama": Row(8_192, 4_096, _GUESS, _2026, guess=True),
    "llama-3": Row(8_192, 4_096, _CARD, "2025"),
    "llama3": Row(8_192, 4_096, _CARD, "2025"),
    "meta-llama-3": Row(8_192, 4_096, _CARD, "2025"),
    **{
        f"{name}3.{minor}": Row(131_072, 4_096, _CARD, "2025")
        for name in ("llama-", "llama", "meta-llama-")
        for minor in (1, 2, 3)
    },
    "llama-4-scout": Row(10_485_760, 8_192, "github.com/vava-nessa/free-coding-models v0.1.41", _2026),
    "llama-4-maverick": Row(_MEGA, 8_192, "github.com/vava-nessa/free-coding-models v0.1.41", _2026),
    "mistral": Row(32_768, 8_192, _GUESS, _2026, guess=True),
    "mistral-large": Row(131_072, 8_192, _ROO + "/mistral.ts", _2026),
    "mistral-medium": Row(131_072, 8_192, _ROO + "/mistral.ts", _2026),
    "mistral-small": Row(32_768, 8_192, _ROO + "/mistral.ts", _2026),
    "ministral": Row(131_072, 8_192, _ROO + "/mistral.ts", _2026),
    "magistral": Row(128_000, 8_192, _ROO + "/mistral.ts", _2026),
    "codestral": Row(256_000, 8_192, _ROO + "/mistral.ts", _2026),
    "devstral": Row(256_000, 8_192, _ROO + "/mistral.ts", _2026),
    "kimi": Row(131_072, 16_384, _GUESS, _2026, guess=True),
    "kimi-k2": Row(131_072, 16_384, "github.com/qiniu/dify-plugin/pull/4", _2026),
    "kimi-k2.6": Row(262_144, 65_536, _KIMI, _2026),
    "glm": Row(131_072, 98_304, _GUESS, _2026, guess=True),
    "glm-4.5": Row(131_072, 98_304, _ROO + "/zai.ts", _2026),
    "glm-4.6": Row(200_000, 98_304, _ROO + "/zai.ts", _2026),
    "glm-4.7": Row(200_000, 98_304, _ROO + "/zai.ts", _2026),
}


def window_of(model: str, overrides: Mapping[str, Override] | None = None) -> Window:
    """The model's window: by `overrides`, or the table, or the default with a warning.

    `overrides` is configuration: a model's name, or a prefix of names, to its window in tokens or to a table
    with any of `window`, `input` and `output`; what it leaves out is the table's. `"*"` is for names that
    nothing else fits. Raises `InvalidConfig` when a figure is not a whole number over 0, or they contradict
    one another.
    """
    over = {} if overrides is None else overrides
    name = longest_prefix(model, over) or (
        "*" if "*" in over and longest_prefix(model, ROWS) is None else None
    )
    found = _tabled(model)
    return found if name is None else _overridden(found, name, over[name])


def _tabled(model: str) -> Window:
    name = longest_prefix(model, ROWS)
    if name is None:
        return Window(
            window=DEFAULT_WINDOW,
            input=DEFAULT_WINDOW,
            output=DEFAULT_OUTPUT,
            warning=f"the model {model!a} is not known: taken for {DEFAULT_WINDOW:,} tokens; {_HINT}",
        )
    row = ROWS[name]
    return Window(
        window=row.window,
        input=row.input or row.window,
        output=row.output,
        row=name,
        source=row.source,
        checked=row.checked,
        warning=f"the model {model!a} has no row of its own: taken for {row.window:,} tokens; {_HINT}"
        if row.guess
        else "",
    )


_HINT = "say it in the setting `windows`"
_FIGURES = ("window", "input", "output")


def _overridden(found: Window, name: str, over: Override) -> Window:
    """`found` with the figures of configuration; what they leave out is made to fit into them."""
    figures = over if isinstance(over, Mapping) else {"window": over}
    for figure, value in figures.items():
        if figure not in _FIGURES or isinstance(value, bool) or not isinstance(value, int) or value <= 0:
            raise InvalidConfig(
                "a model's window is wrong",
                model=name,
                figure=figure,
                value=repr(value),
                hint="give `window`, `input` or `output` in tokens, a whole number over 0",
            )
    window = figures.get("window", found.window)
    given = figures.get("input", window if "window" in figures else found.input)
    output = figures.get("output", min(found.output, window))
    if given > window or output > window:
        raise InvalidConfig(
            "a model cannot be sent, or say, more than its window holds",
            model=name,
            window=window,
            input=given,
            output=output,
            hint="raise `window`, or lower the other",
        )
    return Window(window=window, input=given, output=output, row=name, source="configuration")
