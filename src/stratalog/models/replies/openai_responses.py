"""A response of OpenAI's responses API from its events.

The message is `{"output": [items]}`, the items as the provider made them, so that they can be sent back.
They are those of the final event; servers that leave them out there have sent each one when it was done.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

from stratalog.models.contract import Completed, ReasoningDelta, TextDelta
from stratalog.models.faults import Faulted, told
from stratalog.models.replies.contract import Delta, cut, require, table, text, usage

_WORDS = ("response.output_text.delta", "response.refusal.delta")
_THOUGHTS = ("response.reasoning_summary_text.delta", "response.reasoning_text.delta")
_FINAL = ("response.completed", "response.incomplete", "response.done")


class ResponsesReply:
    """See `replies.contract.Reply`."""

    def __init__(self, model: str) -> None:
        self._model = model
        self._items: dict[int, dict[str, Any]] = {}
        self._final: dict[str, Any] | None = None

    def take(self, data: object) -> Iterator[Delta]:
        event = table(data)
        kind, delta = text(event.get("type")), text(event.get("delta"))
        if kind in _WORDS and delta:
            yield TextDelta(delta)
        elif kind in _THOUGHTS and delta:
            yield ReasoningDelta(delta)
        elif kind == "response.reasoning_summary_part.added" and event.get("summary_index"):
            yield ReasoningDelta("\n\n")
        elif kind == "response.output_item.done":
            place = event.get("output_index")
            self._items[place if isinstance(place, int) else len(self._items)] = table(event.get("item"))
        elif kind in _FINAL:
            self._final = table(event.get("response"))
        elif kind == "response.failed":
            raise Faulted(told(table(event.get("response")).get("error")))
        elif kind == "error":
            raise Faulted(told(event.get("error") or {**event, "type": ""}))

    def whole(self, data: object) -> Iterator[Delta]:
        response = table(data)
        if response.get("error"):
            raise Faulted(told(response["error"]))
        self._final = response
        for item in _items(response):
            for part in _parts(item, "summary"):
                yield ReasoningDelta(text(part.get("text")))
            for part in _parts(item, "content"):
                words = text(part.get("text")) or text(part.get("refusal"))
                if words:
                    yield TextDelta(words)

    def rest(self) -> Iterator[Delta]:
        yield from ()

    def completed(self, *, framed: bool) -> Completed:
        if self._final is None:
            raise cut()
        items = _items(self._final) or [self._items[place] for place in sorted(self._items)]
        calls = [item for item in items if text(item.get("type")).endswith("_call")]
        parts = [part for item in items if item.get("type") == "message" for part in _parts(item, "content")]
        refusal = "".join(text(part.get("refusal")) for part in parts)
        words = "".join(text(part.get("text")) for part in parts)
        why = text(table(self._final.get("incomplete_details")).get("reason"))
        stop: Literal["end", "tools", "length", "refusal", "other"] = "end"
        if why:
            stop = {"max_output_tokens": "length", "content_filter": "refusal"}.get(why, "other")  # type: ignore[assignment] # mypy takes the values for any str
        elif refusal:
            stop = "refusal"
        elif any(item.get("type") in ("function_call", "custom_tool_call") for item in calls):
            stop = "tools"
        require(text=words + refusal, calls=bool(calls), stop=stop, reason=why)
        counted = table(self._final.get("usage"))
        asked, made = table(counted.get("input_tokens_details")), table(counted.get("output_tokens_details"))
        return Completed(
            message={"output": items},
            stop=stop,
            model=text(self._final.get("model")) or self._model,
            response_id=text(self._final.get("id")),
            usage=usage(
                input=counted.get("input_tokens"),
                output=counted.get("output_tokens"),
                cache_read=asked.get("cached_tokens"),
                cache_write=asked.get("cache_write_tokens"),
                reasoning=made.get("reasoning_tokens"),
            ),
        )


def _items(response: dict[str, Any]) -> list[dict[str, Any]]:
    output = response.get("output")
    return [item for item in output if isinstance(item, dict)] if isinstance(output, list) else []


def _parts(item: dict[str, Any], field: str) -> list[dict[str, Any]]:
    parts = item.get(field)
    return [part for part in parts if isinstance(part, dict)] if isinstance(parts, list) else []
