"""A message of Anthropic's API from its events: content blocks begun, added to and ended, then why it
stopped.

The message is `{"role": "assistant", "content": [blocks]}` with every block as it came: thinking with its
signature, and kinds that are not known here. The input of a tool that was not written as JSON stays the
text that it was.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

import msgspec

from stratalog.models.contract import Completed, ReasoningDelta, TextDelta
from stratalog.models.faults import Faulted, told
from stratalog.models.replies.contract import Delta, cut, require, table, text, usage

Stop = Literal["end", "tools", "length", "refusal", "other"]

_STOPS: dict[str, Stop] = {
    "end_turn": "end",
    "stop_sequence": "end",
    "tool_use": "tools",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "refusal",
}
_THINKING = ("thinking", "redacted_thinking")
# A kind of delta: its field, the block's field that it adds to, and the kind of a block that was never begun.
_FIELDS = {
    "text_delta": ("text", "text", "text"),
    "thinking_delta": ("thinking", "thinking", "thinking"),
    "signature_delta": ("signature", "signature", "thinking"),
    "input_json_delta": ("partial_json", "input", "tool_use"),
}


class MessagesReply:
    """See `replies.contract.Reply`."""

    def __init__(self, model: str) -> None:
        self._model = model
        self._id = ""
        self._blocks: dict[int, dict[str, Any]] = {}
        self._added: dict[tuple[int, str], list[str]] = {}
        self._reason = ""
        self._usage: dict[str, Any] = {}

    def take(self, data: object) -> Iterator[Delta]:
        event = table(data)
        match event.get("type"):
            case "message_start":
                message = table(event.get("message"))
                self._id = text(message.get("id"))
                self._model = text(message.get("model")) or self._model
                self._count(message.get("usage"))
            case "content_block_start":
                block = dict(table(event.get("content_block")))
                self._blocks[_index(event)] = block
                yield from _shown(block)
            case "content_block_delta":
                yield from self._delta(_index(event), table(event.get("delta")))
            case "message_delta":
                self._reason = text(table(event.get("delta")).get("stop_reason")) or self._reason
                self._count(event.get("usage"))
            case "error":
                raise Faulted(told(event.get("error")))

    def whole(self, data: object) -> Iterator[Delta]:
        message = table(data)
        if message.get("error"):
            raise Faulted(told(message["error"]))
        yield from self.take({"type": "message_start", "message": message})
        self._reason = text(message.get("stop_reason"))
        content = message.get("content")
        for index, block in enumerate(content if isinstance(content, list) else ()):
            yield from self.take({"type": "content_block_start", "index": index, "content_block": block})

    def rest(self) -> Iterator[Delta]:
        yield from ()

    def completed(self, *, framed: bool) -> Completed:
        if not self._reason:
            raise cut()
        stop = _STOPS.get(self._reason, "other")
        content = [self._block(index) for index in sorted(self._blocks)]
        words = "".join(text(block.get("text")) for block in content if block.get("type") == "text")
        others = any(block.get("type") not in ("text", *_THINKING) for block in content)
        require(text=words, calls=others, stop=stop, reason=self._reason)
        counted = self._usage
        read, written = counted.get("cache_read_input_tokens"), counted.get("cache_creation_input_tokens")
        found = usage(
            input=counted.get("input_tokens"),
            output=counted.get("output_tokens"),
            cache_read=read,
            cache_write=written,
            reasoning=table(counted.get("output_tokens_details")).get("thinking_tokens"),
        )
        if found is not None:  # this provider's input is only what its cache had no part in
            total = found.input + found.cache_read + found.cache_write
            found = msgspec.structs.replace(found, input=total)
        return Completed(
            message={"role": "assistant", "content": content},
            stop=stop,
            model=self._model,
            response_id=self._id,
            usage=found,
        )

    def _count(self, counted: object) -> None:
        """The counts add up over the stream; the later ones stand."""
        self._usage.update({name: value for name, value in table(counted).items() if value is not None})

    def _delta(self, index: int, delta: dict[str, Any]) -> Iterator[Delta]:
        block = self._blocks.setdefault(index, {})
        kind = text(delta.get("type"))
        if kind == "citations_delta":
            kept = block.get("citations")
            block["citations"] = [*(kept if isinstance(kept, list) else ()), delta.get("citation")]
        elif kind in _FIELDS:
            delta_field, field, block_kind = _FIELDS[kind]
            more = text(delta.get(delta_field))
            block.setdefault("type", block_kind)
            self._added.setdefault((index, field), []).append(more)
            yield from _shown({"type": block_kind, field: more})

    def _block(self, index: int) -> dict[str, Any]:
        block = dict(self._blocks[index])
        for (place, field), pieces in self._added.items():
            if place != index:
                continue
            written = "".join(pieces)
            if field != "input":
                block[field] = text(block.get(field)) + written
            elif written:
                try:
                    block[field] = msgspec.json.decode(written)
                except msgspec.DecodeError:
                    block[field] = written
        return block


def _shown(block: dict[str, Any]) -> Iterator[Delta]:
    if block.get("type") == "text" and text(block.get("text")):
        yield TextDelta(block["text"])
    elif block.get("type") == "thinking" and text(block.get("thinking")):
        yield ReasoningDelta(block["thinking"])


def _index(event: dict[str, Any]) -> int:
    index = event.get("index")
    return index if isinstance(index, int) else 0
