"""How Anthropic's messages reply."""

from __future__ import annotations

from typing import Any

from stratalog.models.contract import Shape
from stratalog.testing.model_server.dialect import Frame, Memory, Refused, Strictness, bearer, refuse
from stratalog.testing.model_server.messages_rules import Blocks, check
from stratalog.testing.scripted import Reply, message_of, split
from stratalog.types import Usage

_STOPS = {
    "end": "end_turn",
    "tools": "tool_use",
    "length": "max_tokens",
    "refusal": "refusal",
    "other": "pause_turn",
}
_KINDS = {
    400: "invalid_request_error",
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    500: "api_error",
    504: "timeout_error",
    529: "overloaded_error",
}


class Messages:
    """See `dialect.Dialect`."""

    shape: Shape = "anthropic"
    path = "/v1/messages"

    def key(self, headers: dict[str, str]) -> str:
        return headers.get("x-api-key", "").strip() or bearer(headers)

    def check(
        self, body: dict[str, Any], headers: dict[str, str], strict: Strictness, memory: Memory
    ) -> None:
        if "anthropic-version" not in headers:
            refuse("anthropic-version: header is required")
        check(body, strict, memory)

    def over_window(self, tokens: int, output: int, window: int) -> Refused:
        if tokens > window:
            return Refused(f"prompt is too long: {tokens} tokens > {window} maximum")
        return Refused(
            f"input length and `max_tokens` exceed context limit: {tokens} + {output} > {window}, decrease"
            " input length or `max_tokens` and try again"
        )

    def frames(
        self, reply: Reply, usage: Usage, body: dict[str, Any], memory: Memory, response_id: str
    ) -> list[Frame]:
        message = self.whole(reply, usage, body, memory, response_id)
        begun = {
            **message,
            "content": [],
            "stop_reason": None,
            "usage": {**message["usage"], "output_tokens": 1},
        }
        frames = [_frame("message_start", message=begun), _frame("ping")]
        for index, block in enumerate(message["content"]):
            started, deltas = _block_deltas(block, reply, index)
            frames.append(_frame("content_block_start", index=index, content_block=started))
            frames += [_frame("content_block_delta", True, index=index, delta=delta) for delta in deltas]
            frames.append(_frame("content_block_stop", index=index))
        why = {"stop_reason": message["stop_reason"], "stop_sequence": None}
        frames.append(_frame("message_delta", delta=why, usage={"output_tokens": usage.output}))
        frames.append(_frame("message_stop"))
        return frames

    def whole(
        self, reply: Reply, usage: Usage, body: dict[str, Any], memory: Memory, response_id: str
    ) -> dict[str, Any]:
        if reply.reasoning:
            memory.thought.update({call.id: reply.reasoning for call in reply.calls})
        return {
            "id": response_id,
            "type": "message",
            "role": "assistant",
            "model": body["model"],
            "content": message_of(reply, "anthropic")["content"],
            "stop_reason": _STOPS[reply.why],
            "stop_sequence": None,
            "usage": {
                "input_tokens": max(0, usage.input - usage.cache_read - usage.cache_write),
                "cache_creation_input_tokens": usage.cache_write,
                "cache_read_input_tokens": usage.cache_read,
                "output_tokens": usage.output,
                "output_tokens_details": {"thinking_tokens": usage.reasoning},
            },
        }

    def error(self, status: int, message: str, code: str, param: str) -> dict[str, Any]:
        kind = code or _KINDS.get(status, "api_error" if status >= 500 else "invalid_request_error")
        return {"type": "error", "error": {"type": kind, "message": message}, "request_id": None}

    def broken(self, message: str, code: str) -> Frame:
        return Frame("error", self.error(529, message, code, ""))

    def end(self) -> bytes:
        return b""


def _frame(event: str, delta_frame: bool = False, /, **fields: Any) -> Frame:
    return Frame(event, {"type": event, **fields}, delta_frame)


def _block_deltas(block: dict[str, Any], reply: Reply, index: int) -> tuple[dict[str, Any], Blocks]:
    """The block as it begins, and what is added to it."""
    match block["type"]:
        case "text":
            pieces = split(block["text"], reply.pieces)
            return {"type": "text", "text": ""}, [{"type": "text_delta", "text": piece} for piece in pieces]
        case "thinking":
            pieces = split(block["thinking"], reply.pieces)
            deltas: Blocks = [{"type": "thinking_delta", "thinking": piece} for piece in pieces]
            deltas.append({"type": "signature_delta", "signature": block["signature"]})
            return {"type": "thinking", "thinking": "", "signature": ""}, deltas
        case _:
            written = next(call.written for call in reply.calls if call.id == block["id"])
            pieces = split(written, reply.pieces)
            deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in ["", *pieces]]
            return {**block, "input": {}}, deltas
