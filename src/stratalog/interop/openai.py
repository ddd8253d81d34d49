"""Message lists of the OpenAI chat API: `[{role, content, tool_calls, tool_call_id}]`.

`system` and `developer` messages become system entries, an assistant's `tool_calls` (and the older
`function_call`) become calls, `tool` and `function` messages become results. Arguments are JSON in a
string; when they are not JSON the string is kept. Reasoning that compatible servers send beside the
content goes before it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from stratalog.interop.build import Builder, items, table, text, usage_of
from stratalog.interop.content import content, parts_of, thought
from stratalog.interop.contract import Importer, Source, Transcript
from stratalog.interop.messages import read_messages
from stratalog.interop.records import Record, parse
from stratalog.types import Part, System, ToolCall, ToolResult

_ROLES = re.compile(rb'"role"\s*:\s*"(user|assistant|system|developer|tool|function)"')


def _pieces(message: dict[str, Any], record: Record) -> Iterator[Part | ToolCall]:
    reasoning = message.get("reasoning_content") or message.get("reasoning")
    if isinstance(reasoning, str) and reasoning:
        yield thought(reasoning)
    yield from parts_of(message.get("content"))
    yield from parts_of(message.get("refusal"))
    for place, call in enumerate(items(message.get("tool_calls"))):
        function = table(call.get("function") or call.get("custom")) if isinstance(call, dict) else {}
        given = text(table(call).get("id")) or f"{record.ordinal}-{place}"
        yield _call(given, function)
    if isinstance(message.get("function_call"), dict):
        function = message["function_call"]
        yield _call(text(function.get("name")), function)


def _call(call_id: str, function: dict[str, Any]) -> ToolCall:
    given = function.get("arguments", function.get("input"))
    return ToolCall(
        call_id=call_id,
        name=text(function.get("name")),
        args=parse(given) if isinstance(given, str) else given,
    )


def put_message(builder: Builder, message: dict[str, Any], record: Record) -> None:
    """Puts one message of this form; one without content, or of an unknown role, gives nothing."""
    role, value = message.get("role"), message.get("content")
    if role == "assistant":
        counted = table(message.get("usage"))
        builder.output(
            _pieces(message, record),
            model=text(message.get("model")),
            response=builder.response(fresh=True),
            usage=usage_of(
                input=counted.get("prompt_tokens"),
                output=counted.get("completion_tokens"),
                cache_read=table(counted.get("prompt_tokens_details")).get("cached_tokens"),
                reasoning=table(counted.get("completion_tokens_details")).get("reasoning_tokens"),
            ),
        )
    elif role in ("tool", "function"):
        name = text(message.get("name"))
        call_id = text(message.get("tool_call_id")) or name
        builder.put(ToolResult(call_id=call_id, name=name, content=content(value)))
    elif role in ("system", "developer") and value:
        builder.put(System(content=content(value), meta={"role": role} if role == "developer" else None))
    elif role == "user" and value:
        name = text(message.get("name"))
        builder.user(content(value), meta={"name": name} if name else None)


def _matches(head: bytes, path: Path) -> bool:
    return _ROLES.search(head) is not None


def _read(source: Source) -> Transcript:
    return read_messages("openai", source, put_message)


OPENAI = Importer("openai", _matches, _read)
