"""Whatever a file of a known format holds, reading it gives an account or a refusal, never a crash."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from interop import (
    test_aider,
    test_chatgpt,
    test_claude_ai,
    test_claude_code,
    test_codex,
    test_detect,
    test_gemini_cli,
    test_hermes,
    test_mem0_export,
    test_nanobot,
    test_openclaw,
    test_openhands,
    test_pi,
    test_sharegpt,
    test_swe_agent,
)
from interop.samples import check, ids, jsonl
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
    ("claude_ai", {"talks": 1} | test_claude_ai.CONVERSATION),
    ("openclaw", test_openclaw.SESSION),
    ("openhands", test_openhands.FIRST),
    ("openhands", test_openhands.SECOND),
    ("openhands", {"history": test_openhands.FIRST}),
    ("swe_agent", test_swe_agent.RUN),
    ("nanobot", test_nanobot.SESSION),
    ("hermes", test_hermes.LINES),
    ("hermes", test_hermes.WHOLE),
    ("sharegpt", [test_sharegpt.HERMES, test_sharegpt.PLAIN]),
    ("mem0", test_mem0_export.MEMORIES),
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


_FILES = [
    ("hermes", test_detect.database(test_detect.STATE)),
    ("langgraph", test_detect.database(test_detect.THREAD + test_detect.ITEMS)),
    ("mem0", test_detect.database(test_detect.STEPS)),
    ("aider", test_aider.HISTORY.encode()),
]


@pytest.mark.parametrize(("format", "data"), _FILES)
@given(rand=st.randoms(use_true_random=True), flips=st.integers(0, 20), cut=st.booleans())
@settings(max_examples=60)
def test_no_crash_of_bytes(format: str, data: bytes, rand: random.Random, flips: int, cut: bool) -> None:
    """Databases and Markdown with flipped bytes, or cut short, give an account or a refusal."""
    made = bytearray(data[: rand.randrange(len(data))] if cut else data)
    for _ in range(flips if made else 0):
        made[rand.randrange(len(made))] = rand.randrange(256)
    try:
        transcript = FORMATS[format].read(Source(Path("a"), bytes(made), 5))
    except ImportFailed:
        return
    check(transcript)


_LINES = [
    ("openclaw", test_openclaw.SESSION),
    ("openhands", test_openhands.FIRST),
    ("openhands", test_openhands.SECOND),
    ("nanobot", test_nanobot.SESSION),
    ("hermes", test_hermes.LINES),
    ("sharegpt", [test_sharegpt.HERMES, test_sharegpt.PLAIN]),
    ("mem0", test_mem0_export.MEMORIES),
]


@pytest.mark.parametrize(("format", "values"), _LINES)
def test_torn(format: str, values: list[Any]) -> None:
    """Wherever a file of lines is torn, what stands before has the ids of the whole, and the tear is told."""
    data = jsonl(*values)
    whole = ids(FORMATS[format].read(Source(Path("a.jsonl"), data, 5)))
    for end in range(0, len(data), 7):
        part = FORMATS[format].read(Source(Path("a.jsonl"), data[:end], 5))
        check(part)
        assert ids(part) <= whole
        torn = end and data[end - 1] != 10 and data[end] != 10
        assert any(skip.kind == "damage" for skip in part.report.skipped) == bool(torn)
