"""Whatever a file of a known format holds, reading it gives an account or a refusal, never a crash."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from interop import test_chatgpt, test_claude_code, test_codex, test_gemini_cli, test_pi
from interop.samples import check, jsonl
from stratalog.errors import ImportFailed
from stratalog.interop.contract import Source
from stratalog.interop.detect import FORMATS
from stratalog.interop.export import to_markdown
from stratalog.keys import session_key

_ODD: list[Any] = [
    None,
    True,
    0,
    -1,
    1.5,
    10**30,
    "",
    "x",
    "/",
    "\ud800",
    [],
    ["a"],
    [None],
    [1],
    {},
    {"type": "text"},
    [{}],
]
_PICTURE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}}
_MESSAGES: list[Any] = [
    {"role": "system", "content": "s"},
    {"role": "user", "content": ["a", _PICTURE, {"inlineData": {"mimeType": "a/b", "data": "aGk="}}]},
    {
        "role": "assistant",
        "content": [{"type": "tool_use", "id": "t", "name": "f", "input": {}}],
        "tool_calls": [{"id": "c", "function": {"name": "f", "arguments": "{}"}}],
        "usage": {"prompt_tokens": 1, "input_tokens": 2, "prompt_tokens_details": {"cached_tokens": 1}},
    },
    {"role": "tool", "tool_call_id": "c", "content": "x"},
    {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": [{"type": "file"}]}]},
]
_TALK = test_chatgpt.talk(
    test_chatgpt.node("u", "root", "user", "a"),
    test_chatgpt.node("b", "u", "assistant", "left"),
    test_chatgpt.node("c", "u", "assistant", {"content_type": "code", "text": "{}"}, recipient="python"),
    test_chatgpt.node("o", "c", "tool", {"content_type": "execution_output", "text": "1"}, name="python"),
    test_chatgpt.node("t", "o", "assistant", {"content_type": "thoughts", "thoughts": [{"summary": "p"}]}),
)
_GEMINI = [test_gemini_cli.ASKED, test_gemini_cli.REPLIED, test_gemini_cli.INFO]
CASES: list[tuple[str, Any]] = [
    ("claude_code", test_claude_code.CONVERSATION),
    ("claude_code", {"loglines": test_claude_code.CONVERSATION}),
    ("codex", test_codex.ROLLOUT),
    ("pi", test_pi.FLAT),
    ("pi", test_pi.TREE),
    ("gemini_cli", test_gemini_cli.HEADER | {"messages": _GEMINI}),
    ("gemini_cli", [test_gemini_cli.HEADER, *_GEMINI]),
    ("chatgpt", {"conversations": [_TALK]} | _TALK),
    ("openai", _MESSAGES),
    ("anthropic", {"messages": _MESSAGES, "system": "s", "title": "t", "created": 5}),
]


def changed(value: Any, rand: random.Random, share: float) -> Any:
    """`value` with a share of what is in it replaced by something odd or left out."""
    if rand.random() < share:
        return rand.choice(_ODD)
    if isinstance(value, dict):
        return {key: changed(one, rand, share) for key, one in value.items() if rand.random() > share / 2}
    if isinstance(value, list):
        return [changed(one, rand, share) for one in value]
    return value


@pytest.mark.parametrize(("format", "value"), CASES)
@given(
    rand=st.randoms(use_true_random=True), share=st.sampled_from([0.01, 0.03, 0.1]), flips=st.integers(0, 3)
)
@settings(max_examples=60)
def test_no_crash(format: str, value: Any, rand: random.Random, share: float, flips: int) -> None:
    """Fields of wrong types, fields that are missing, flipped bytes: all are accounted for."""
    made = changed(value, rand, share)
    as_lines = isinstance(made, list)
    data = bytearray(jsonl(*made) if as_lines else json.dumps(made).encode())
    for _ in range(flips if data else 0):
        data[rand.randrange(len(data))] = rand.randrange(256)
    try:
        transcript = FORMATS[format].read(Source(Path("a.jsonl" if as_lines else "a.json"), bytes(data), 5))
    except ImportFailed:
        return
    check(transcript)
    for session in transcript.sessions:
        key = session_key(session.agent, session.channel, session.chat)
        assert list(to_markdown(key, session.title, session.entries))
