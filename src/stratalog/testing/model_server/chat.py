"""How OpenAI's chat completions reply."""

from __future__ import annotations

from typing import Any

from stratalog.models.contract import Shape
from stratalog.testing.model_server.chat_rules import check
from stratalog.testing.model_server.dialect import Frame, Memory, Refused, Strictness, bearer
from stratalog.testing.scripted import Reply, message_of, split
from stratalog.types import Usage

_FINISH = {
    "end": "stop",
    "tools": "tool_calls",
    "length": "length",
    "refusal": "stop",
    "other": "insufficient_system_resource",
}


class Chat:
    """See `dialect.Dialect`."""

    shape: Shape = "openai_chat"
    path = "/v1/chat/completions"

    def key(self, headers: dict[str, str]) -> str:
        return bearer(headers)

    def check(
        self, body: dict[str, Any], headers: dict[str, str], strict: Strictness, memory: Memory
    ) -> None:
        check(body, strict)

    def over_window(self, tokens: int, output: int, window: int) -> Refused:
        parts = f" ({tokens} in the messages, {output} in the completion)" if output else ""
        asked = "you requested" if output else "your messages resulted in"
        return Refused(
            f"This model's maximum context length is {window} tokens. However, {asked} {tokens + output}"
            f" tokens{parts}. Please reduce the length of the messages{' or completion' if output else ''}.",
            code="context_length_exceeded",
            param="messages",
        )

    def frames(
        self, reply: Reply, usage: Usage, body: dict[str, Any], memory: Memory, response_id: str
    ) -> list[Frame]:
        def chunk(delta: dict[str, Any], finish: str | None = None, *, counts: bool = False) -> Frame:
            choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
            return Frame("", {**head, "choices": [choice]}, counts)

        head = _head(response_id, body, "chat.completion.chunk")
        frames = [chunk({"role": "assistant", "content": "" if reply.text else None})]
        for field, words in (
            ("reasoning_content", reply.reasoning),
            ("content", reply.text),
            ("refusal", reply.refusal),
        ):
            frames += [chunk({field: piece}, counts=True) for piece in split(words, reply.pieces)]
        for index, call in enumerate(reply.calls):
            function = {"name": call.name, "arguments": ""}
            begun = {"index": index, "id": call.id, "type": "function", "function": function}
            frames.append(chunk({"tool_calls": [begun]}, counts=True))
            for piece in split(call.written, reply.pieces):
                more = {"index": index, "function": {"arguments": piece}}
                frames.append(chunk({"tool_calls": [more]}, counts=True))
        frames.append(chunk({}, _FINISH[reply.why]))
        if (body.get("stream_options") or {}).get("include_usage"):
            frames.append(Frame("", {**head, "choices": [], "usage": _usage(usage)}))
        return frames

    def whole(
        self, reply: Reply, usage: Usage, body: dict[str, Any], memory: Memory, response_id: str
    ) -> dict[str, Any]:
        message = {"refusal": None, **message_of(reply, "openai_chat")}
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": _FINISH[reply.why]}
        return {
            **_head(response_id, body, "chat.completion"),
            "choices": [choice],
            "usage": _usage(usage),
        }

    def error(self, status: int, message: str, code: str, param: str) -> dict[str, Any]:
        return openai_error(status, message, code, param)

    def broken(self, message: str, code: str) -> Frame:
        return Frame("", openai_error(500, message, code, ""))

    def end(self) -> bytes:
        return b"data: [DONE]\n\n"


def openai_error(status: int, message: str, code: str, param: str) -> dict[str, Any]:
    """The body of OpenAI's errors."""
    kinds = {401: "invalid_request_error", 429: "requests", 500: "server_error", 503: "server_error"}
    codes = {401: "invalid_api_key", 404: "model_not_found", 429: "rate_limit_exceeded"}
    kind = kinds.get(status, "invalid_request_error")
    return {
        "error": {
            "message": message,
            "type": kind,
            "param": param or None,
            "code": code or codes.get(status),
        }
    }


def _head(response_id: str, body: dict[str, Any], kind: str) -> dict[str, Any]:
    return {"id": response_id, "object": kind, "created": 0, "model": body["model"]}


def _usage(usage: Usage) -> dict[str, Any]:
    return {
        "prompt_tokens": usage.input,
        "completion_tokens": usage.output,
        "total_tokens": usage.input + usage.output,
        "prompt_tokens_details": {"cached_tokens": usage.cache_read, "cache_write_tokens": usage.cache_write},
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning},
    }
