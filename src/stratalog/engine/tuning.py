"""A model that is asked with a client's own options: how its JSON says them, provider by provider.

Options have the names of OpenAI's chat completions. One whose loss would change what the reply is, and that
the provider has no word for, is refused; another is left out and told of.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import Any, Final

import msgspec

from stratalog.errors import InvalidInput
from stratalog.models.configured import Configured
from stratalog.models.contract import Completed, Event, Model, Request, Shape

MOST: Final = "max_completion_tokens"
OPTIONS: Final = (
    "frequency_penalty",
    "logit_bias",
    MOST,
    "parallel_tool_calls",
    "presence_penalty",
    "reasoning_effort",
    "response_format",
    "seed",
    "service_tier",
    "stop",
    "temperature",
    "tool_choice",
    "top_p",
    "verbosity",
)
_OUTPUT: Final[Mapping[Shape, str]] = {
    "openai_chat": MOST,
    "openai_responses": "max_output_tokens",
    "anthropic": "max_tokens",
}
_KNOWN: Final[Mapping[Shape, frozenset[str]]] = {
    "openai_chat": frozenset(OPTIONS),
    "openai_responses": frozenset(OPTIONS)
    - {"stop", "seed", "frequency_penalty", "presence_penalty", "logit_bias"},
    "anthropic": frozenset((MOST, "temperature", "top_p", "stop", "tool_choice", "parallel_tool_calls")),
}
_NEEDED: Final = frozenset(("stop", "response_format", "logit_bias"))


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """`values` by their names; `functions` are the client's tools as it wrote them, by name."""

    values: Mapping[str, Any] = {}
    functions: Mapping[str, Mapping[str, Any]] = {}


class Tuned:
    """A model for the requests of one turn. What is `forced` by the tool choice is so for one reply: with the
    results of tools that are performed here the model goes on freely. See `models.contract.Model`."""

    def __init__(self, under: Model, options: Options) -> None:
        self.under = under
        self.shape: Shape = under.shape
        self.sends_reasoning = bool(getattr(under, "sends_reasoning", False))
        self._options = options
        self._free = False

    async def stream(self, request: Request) -> AsyncGenerator[Event, None]:
        body = tuned(request.body, self.shape, self._options, free=self._free)
        async with aclosing(self.under.stream(msgspec.structs.replace(request, body=body))) as events:
            async for event in events:
                self._free = self._free or isinstance(event, Completed)
                yield event


def with_options(who: Configured, options: Options) -> Configured:
    """The same model, asked so."""
    return who._replace(model=Tuned(who.model, options))


def left_out(shape: Shape, options: Options) -> list[str]:
    """The options that a provider of this shape is not told. Raises `InvalidInput` for one that may not be
    left out."""
    lost = sorted(set(options.values) - _KNOWN[shape])
    if shape == "anthropic" and options.values.get("response_format") == {"type": "text"}:
        lost.remove("response_format")
    for name in lost:
        if name in _NEEDED:
            raise InvalidInput("the model that answers cannot be asked so", option=name)
    return lost


def tuned(body: Mapping[str, Any], shape: Shape, options: Options, *, free: bool = False) -> dict[str, Any]:
    """The request's JSON with the options that its provider has words for; `free` without what forces a tool.
    The reply is at most as long as the request had it."""
    given = {name: value for name, value in options.values.items() if name in _KNOWN[shape]}
    asked = dict(body)
    output = _OUTPUT[shape]
    most = given.pop(MOST, None)
    if most is not None:
        asked[output] = min(most, asked.get(output, most))
    choice = given.pop("tool_choice", None)
    if free and choice not in (None, "auto", "none"):
        choice = None
    parallel = given.pop("parallel_tool_calls", None)
    match shape:
        case "openai_chat":
            asked |= given
        case "openai_responses":
            asked |= _for_responses(given)
        case "anthropic":
            asked |= _for_anthropic(given)
    if asked.get("tools"):
        asked |= _choice(shape, choice, parallel)
        asked["tools"] = [_tool(shape, each, options.functions) for each in asked["tools"]]
    return asked


def _for_responses(given: dict[str, Any]) -> dict[str, Any]:
    said: dict[str, Any] = {
        name: value for name, value in given.items() if name in ("temperature", "top_p", "service_tier")
    }
    if "reasoning_effort" in given:
        said["reasoning"] = {"effort": given["reasoning_effort"]}
    text: dict[str, Any] = {}
    form = given.get("response_format")
    if form is not None:
        inner = form.get("json_schema")
        text["format"] = {"type": form["type"], **(inner if isinstance(inner, dict) else {})}
    if "verbosity" in given:
        text["verbosity"] = given["verbosity"]
    return {**said, **({"text": text} if text else {})}


def _for_anthropic(given: dict[str, Any]) -> dict[str, Any]:
    said: dict[str, Any] = {name: value for name, value in given.items() if name in ("temperature", "top_p")}
    stop = given.get("stop")
    if stop:
        said["stop_sequences"] = [stop] if isinstance(stop, str) else list(stop)
    return said


def _choice(shape: Shape, choice: Any, parallel: bool | None) -> dict[str, Any]:
    named = choice["function"]["name"] if isinstance(choice, dict) else ""
    if shape != "anthropic":
        other = {"type": "function", "name": named} if shape == "openai_responses" and named else choice
        said = {} if choice is None else {"tool_choice": other}
        return said if parallel is None else {**said, "parallel_tool_calls": parallel}
    kinds = {"auto": "auto", "none": "none", "required": "any"}
    told: dict[str, Any] = {"type": "tool", "name": named} if named else {"type": kinds.get(choice, "auto")}
    if parallel is False and told["type"] != "none":
        told["disable_parallel_tool_use"] = True
    return {"tool_choice": told} if choice is not None or parallel is False else {}


def _tool(shape: Shape, tool: dict[str, Any], functions: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """The tool as the client wrote it, where it is the client's."""
    name = tool.get("name") or (tool.get("function") or {}).get("name")
    own = functions.get(str(name))
    if own is None or shape == "anthropic":
        return tool
    if shape == "openai_chat":
        return {"type": "function", "function": dict(own)}
    return {**tool, "strict": bool(own.get("strict"))}
