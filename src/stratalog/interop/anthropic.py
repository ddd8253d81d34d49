"""Message lists of the Anthropic API: `[{role, content}]`, bare or as `messages` beside a `system` prompt.

Content is text or blocks. Thinking and text become messages, `tool_use` becomes a call; a user's
`tool_result` blocks become results and only what else the user sent is a user message. The blocks of a
tool that ran at the vendor (`server_tool_use` and its results) stay inside the message as data, since
nobody here has to answer them.

The functions on blocks are used by other formats that keep the same blocks in records of their own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from stratalog.interop.build import Builder, count, items, table, text, usage_of
from stratalog.interop.content import content, content_of, parts_of
from stratalog.interop.contract import Importer, Source, Transcript
from stratalog.interop.messages import read_messages
from stratalog.interop.records import Record
from stratalog.types import Part, System, ToolCall, ToolResult, Usage

_BLOCKS = re.compile(rb'"type"\s*:\s*"(tool_use|tool_result|thinking|redacted_thinking|server_tool_use)"')
_SHAPE = re.compile(rb'"(system|source)"\s*:')
_ROLES = re.compile(rb'"role"\s*:\s*"(user|assistant)"')


def pieces(value: Any) -> Iterator[Part | ToolCall]:
    """An assistant's content as parts and calls, in order."""
    for block in value if isinstance(value, list) else [value]:
        if isinstance(block, dict) and block.get("type") == "tool_use":
            name = text(block.get("name"))
            yield ToolCall(call_id=text(block.get("id")), name=name, args=block.get("input"))
        else:
            yield from parts_of(block)


def result_ids(value: Any) -> set[str]:
    """The calls that a user's content answers."""
    return {text(block.get("tool_use_id")) for block in _results(value)}


def put_user(
    builder: Builder, value: Any, *, by_program: bool = False, result_meta: dict[str, Any] | None = None
) -> None:
    """Puts a user's content: first the results of tools, then the user's message, if there is one."""
    results = _results(value)
    for block in results:
        builder.put(
            ToolResult(
                call_id=text(block.get("tool_use_id")),
                content=content(block.get("content")),
                error=block.get("is_error") is True,
                meta=result_meta,
            )
        )
    rest = [block for block in value if block not in results] if results else value
    said = content_of(parts_of(rest))
    if said:
        builder.user(said, by_program=by_program)


def usage(value: Any) -> Usage | None:
    """Anthropic counts tokens read from and written to the cache apart from `input_tokens`; we do not."""
    given = table(value)
    read, write = given.get("cache_read_input_tokens"), given.get("cache_creation_input_tokens")
    whole = count(given.get("input_tokens")) + count(read) + count(write)
    return usage_of(input=whole, output=given.get("output_tokens"), cache_read=read, cache_write=write)


def _results(value: Any) -> list[dict[str, Any]]:
    return [block for block in items(value) if isinstance(block, dict) and block.get("type") == "tool_result"]


def _put(builder: Builder, message: dict[str, Any], record: Record) -> None:
    role, value = message.get("role"), message.get("content")
    if role == "assistant":
        builder.output(
            pieces(value),
            model=text(message.get("model")),
            response=text(message.get("id")) or builder.response(fresh=True),
            usage=usage(message.get("usage")),
        )
    elif role == "user":
        put_user(builder, value)
    elif role in ("system", "developer") and value:
        builder.put(System(content=content(value)))


def _matches(head: bytes, path: Path) -> bool:
    shaped = _BLOCKS.search(head) or (_SHAPE.search(head) and b'"tool_calls"' not in head)
    return bool(_ROLES.search(head) and shaped)


def _read(source: Source) -> Transcript:
    return read_messages("anthropic", source, _put)


ANTHROPIC = Importer("anthropic", _matches, _read)
