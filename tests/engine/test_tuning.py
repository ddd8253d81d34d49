"""engine/tuning.py: a client's options in each provider's words."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from stratalog.engine.tuning import Options, Tuned, left_out, tuned
from stratalog.errors import InvalidInput
from stratalog.models.contract import Request
from stratalog.testing.scripted import ScriptedModel

TOOL = {"name": "f", "description": "", "parameters": {"type": "object"}}
NAMED = {"type": "function", "function": {"name": "f"}}


def test_chat_completions_take_them_as_they_are() -> None:
    """The tools are those that the client wrote, and the reply is as long as the shorter of two lengths."""
    own = {**TOOL, "strict": True}
    body: dict[str, Any] = {
        "messages": [],
        "tools": [{"type": "function", "function": TOOL}],
        "max_completion_tokens": 50,
    }
    options = Options(
        values={"seed": 1, "stop": "x", "tool_choice": NAMED, "max_completion_tokens": 9},
        functions={"f": own},
    )
    made = tuned(body, "openai_chat", options)
    assert made["tools"] == [{"type": "function", "function": own}]
    assert (made["seed"], made["stop"], made["tool_choice"], made["max_completion_tokens"]) == (
        1,
        "x",
        NAMED,
        9,
    )
    assert "tool_choice" not in tuned(body, "openai_chat", options, free=True)
    assert "tool_choice" not in tuned({"messages": []}, "openai_chat", options)


def test_responses_have_words_of_their_own() -> None:
    """Formats, tool choices and efforts are said otherwise; what cannot be said and matters is refused."""
    form = {"type": "json_schema", "json_schema": {"name": "n", "schema": {}}}
    options = Options(
        values={
            "response_format": form,
            "tool_choice": NAMED,
            "reasoning_effort": "low",
            "verbosity": "low",
            "seed": 1,
        },
        functions={"f": {**TOOL, "strict": True}},
    )
    body = {"input": [], "tools": [{"type": "function", **TOOL, "strict": False}]}
    made = tuned(body, "openai_responses", options)
    assert made["text"] == {
        "format": {"type": "json_schema", "name": "n", "schema": {}},
        "verbosity": "low",
    }
    assert made["tool_choice"] == {"type": "function", "name": "f"}
    assert made["reasoning"] == {"effort": "low"}
    assert made["tools"][0]["strict"] is True
    assert left_out("openai_responses", options) == ["seed"]
    with pytest.raises(InvalidInput):
        left_out("openai_responses", Options(values={"stop": ["x"]}))


@pytest.mark.parametrize(
    ("choice", "parallel", "told"),
    [
        ("auto", None, {"type": "auto"}),
        ("none", False, {"type": "none"}),
        ("required", None, {"type": "any"}),
        (NAMED, False, {"type": "tool", "name": "f", "disable_parallel_tool_use": True}),
        (None, False, {"type": "auto", "disable_parallel_tool_use": True}),
    ],
)
def test_messages_have_too(choice: Any, parallel: bool | None, told: dict[str, Any]) -> None:
    """Tool choices, stops and lengths of Anthropic's."""
    given = {"tool_choice": choice, "parallel_tool_calls": parallel, "stop": "x", "max_completion_tokens": 9}
    options = Options(values={name: value for name, value in given.items() if value is not None})
    made = tuned({"messages": [], "tools": [TOOL], "max_tokens": 4}, "anthropic", options)
    assert made == {
        "messages": [],
        "tools": [TOOL],
        "max_tokens": 4,
        "stop_sequences": ["x"],
        "tool_choice": told,
    }
    assert left_out("anthropic", Options(values={"response_format": {"type": "text"}, "seed": 1})) == ["seed"]
    with pytest.raises(InvalidInput):
        left_out("anthropic", Options(values={"response_format": {"type": "json_object"}}))


def test_a_tool_is_forced_once() -> None:
    """After the reply that was forced the model goes on freely."""
    model = ScriptedModel(["a", "b"])
    made = Tuned(model, Options(values={"tool_choice": "required"}))
    body = {"messages": [], "tools": [{"type": "function", "function": TOOL}]}

    async def twice() -> None:
        for _ in range(2):
            async for _ in made.stream(Request(model="m", body=body)):
                pass

    asyncio.run(twice())
    assert [each.body.get("tool_choice") for each in model.requests] == ["required", None]
