"""Tools that a model may call, made of functions: what they take is told by their annotations.

    @tool
    def weather(city: str, days: int = 1) -> str:
        \"\"\"The weather forecast for a city.\"\"\"

The arguments of a call are checked against the annotations, and what a function raises is told to the model
as the call's result: it may try again. A function may be asynchronous; one that is not runs in a thread of
its own, which goes on to its end though nobody waits for it any more.
"""

from __future__ import annotations

import asyncio
import inspect
import re
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from functools import partial
from typing import Any, Final, TypeAlias

import msgspec

from stratalog.context.shapes.contract import Tool
from stratalog.errors import InvalidInput
from stratalog.types import Audio, Content, Data, File, Image, Reasoning, Text

Run: TypeAlias = Callable[[dict[str, Any]], Awaitable[Content]]


class AgentTool(msgspec.Struct, frozen=True):
    """A tool as a model sees it, and what is done when it is called: given the arguments, a JSON object, it
    answers with the result's content."""

    tool: Tool
    run: Run

    @property
    def name(self) -> str:
        return self.tool.name


def tool(function: Callable[..., Any], *, name: str = "", description: str = "") -> AgentTool:
    """The tool that a function is. Its parameters need annotations that JSON can hold; what it returns is
    text, parts of a message, or any JSON. Raises `InvalidInput` for a function that cannot be one."""
    named = name or getattr(function, "__name__", "")
    if not _NAME.fullmatch(named):
        hint = "give it a `name` of 1 to 64 letters, digits, _ and -"
        raise InvalidInput("a tool cannot be called so", name=ascii(named)[:80], hint=hint)
    try:
        taken = _taken(function, named)
        schema = _schema(taken)
    except _UNFIT as error:
        what = f"the function cannot be a tool: {error}"
        raise InvalidInput(what, tool=named, hint=_HINT) from error
    waits = inspect.iscoroutinefunction(function)

    async def run(args: dict[str, Any]) -> Content:
        given = msgspec.structs.asdict(_converted(args, taken, named))
        answer = function(**given) if waits else await _in_thread(named, partial(_called, function, given))
        return content_of(await answer if inspect.isawaitable(answer) else answer)

    return AgentTool(Tool(named, description or inspect.getdoc(function) or "", schema), run)


def content_of(answer: Any) -> Content:
    """What a tool returned as the content of its result."""
    if isinstance(answer, str):
        return answer
    if isinstance(answer, _PARTS):
        return (answer,)
    if isinstance(answer, tuple | list) and answer and all(isinstance(part, _PARTS) for part in answer):
        return tuple(answer)
    return msgspec.json.encode(answer).decode()


def _taken(function: Callable[..., Any], name: str) -> type[msgspec.Struct]:
    """A class with the function's parameters as its fields."""
    fields: list[Any] = []
    for parameter in inspect.signature(function, eval_str=True).parameters.values():
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            raise InvalidInput(
                "a tool's parameters are named ones", tool=name, parameter=str(parameter), hint=_HINT
            )
        if parameter.annotation is parameter.empty:
            raise InvalidInput(
                "a tool's parameter has no annotation", tool=name, parameter=parameter.name, hint=_HINT
            )
        default = () if parameter.default is parameter.empty else (_default(parameter.default),)
        fields.append((parameter.name, parameter.annotation, *default))
    return msgspec.defstruct(name, fields, kw_only=True, forbid_unknown_fields=True)


def _default(value: Any) -> Any:
    """The default of a field. One that is not plain is the function's own object, as Python has it."""
    plain = value is None or isinstance(value, str | int | float)
    return value if plain else msgspec.field(default_factory=lambda: value)


def _schema(taken: type[msgspec.Struct]) -> dict[str, Any]:
    """The JSON Schema of the arguments, in one piece: some providers resolve no references at the top."""
    (schema,), components = msgspec.json.schema_components([taken], ref_template=f"{_DEFS}{{name}}")
    own = dict(components.pop(schema["$ref"].removeprefix(_DEFS)))
    own.pop("title", None)
    own.setdefault("properties", {})
    return own | ({"$defs": components} if components else {})


def _converted(args: dict[str, Any], taken: type[msgspec.Struct], name: str) -> msgspec.Struct:
    try:
        return msgspec.convert(args, taken, str_keys=True)
    except msgspec.ValidationError as error:
        raise InvalidInput(f"the arguments do not fit: {error}", tool=name) from error


async def _in_thread(name: str, call: Callable[[], Any]) -> Any:
    """What the call returns, made in a thread of its own, so that one that hangs holds up no other."""
    pool = ThreadPoolExecutor(1, thread_name_prefix=f"stratalog-tool-{name}")
    try:
        return await asyncio.wrap_future(pool.submit(copy_context().run, call))
    finally:
        pool.shutdown(wait=False)


def _called(function: Callable[..., Any], given: Mapping[str, Any]) -> Any:
    try:
        return function(**given)
    except StopIteration as error:
        # No future can hold it: who waits for the thread would wait for ever.
        raise RuntimeError("the function raised StopIteration") from error


_HINT: Final = "give each parameter a name and a type that JSON can hold"
_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
_DEFS: Final = "#/$defs/"
_PARTS: Final = (Text, Image, Audio, File, Reasoning, Data)
# What is raised for a signature that cannot be had, an annotation that cannot be resolved, a type that JSON
# cannot hold.
_UNFIT: Final = (AttributeError, NameError, SyntaxError, TypeError, ValueError)
