"""How OpenAI's responses reply. Reasoning is sealed only when that is asked for, as it long was, and as it
still is with compatible servers."""

from __future__ import annotations

from itertools import count
from typing import Any

from stratalog.models.contract import Shape
from stratalog.testing.model_server.chat import openai_error
from stratalog.testing.model_server.dialect import Frame, Memory, Refused, Strictness, bearer
from stratalog.testing.model_server.responses_rules import SEALS, check
from stratalog.testing.scripted import Reply, message_of, split
from stratalog.types import Usage


class Responses:
    """See `dialect.Dialect`."""

    shape: Shape = "openai_responses"
    path = "/v1/responses"

    def key(self, headers: dict[str, str]) -> str:
        return bearer(headers)

    def check(
        self, body: dict[str, Any], headers: dict[str, str], strict: Strictness, memory: Memory
    ) -> None:
        check(body, strict, memory)

    def over_window(self, tokens: int, output: int, window: int) -> Refused:
        what = "Your input exceeds the context window of this model. Please adjust your input and try again."
        return Refused(what, code="context_length_exceeded", param="input")

    def frames(
        self, reply: Reply, usage: Usage, body: dict[str, Any], memory: Memory, response_id: str
    ) -> list[Frame]:
        response = _response(reply, usage, body, memory, response_id)
        begun = {**response, "status": "in_progress", "output": [], "usage": None, "incomplete_details": None}
        events: list[tuple[dict[str, Any], bool]] = [
            ({"type": "response.created", "response": begun}, False),
            ({"type": "response.in_progress", "response": begun}, False),
        ]
        for index, item in enumerate(response["output"]):
            at = {"item_id": item["id"], "output_index": index}
            empty = {"summary": [], "content": [], "arguments": ""}
            started = {key: empty.get(key, value) for key, value in item.items()}
            events.append(
                ({"type": "response.output_item.added", "output_index": index, "item": started}, False)
            )
            events += _parts(item, at, reply.pieces)
            events.append(({"type": "response.output_item.done", "output_index": index, "item": item}, False))
        final = "response.incomplete" if response["status"] == "incomplete" else "response.completed"
        events.append(({"type": final, "response": response}, False))
        number = count()
        return [
            Frame(event["type"], {**event, "sequence_number": next(number)}, delta) for event, delta in events
        ]

    def whole(
        self, reply: Reply, usage: Usage, body: dict[str, Any], memory: Memory, response_id: str
    ) -> dict[str, Any]:
        return _response(reply, usage, body, memory, response_id)

    def error(self, status: int, message: str, code: str, param: str) -> dict[str, Any]:
        return openai_error(status, message, code, param)

    def broken(self, message: str, code: str) -> Frame:
        error = {"code": code or "server_error", "message": message}
        return Frame(
            "response.failed",
            {
                "type": "response.failed",
                "sequence_number": 99,
                "response": {
                    "id": "resp_failed",
                    "object": "response",
                    "status": "failed",
                    "error": error,
                    "output": [],
                },
            },
        )

    def end(self) -> bytes:
        return b""


def _response(
    reply: Reply, usage: Usage, body: dict[str, Any], memory: Memory, response_id: str
) -> dict[str, Any]:
    items = message_of(reply, "openai_responses")["output"]
    thought = next((item["id"] for item in items if item["type"] == "reasoning"), "")
    for item in items:
        if item["type"] == "reasoning" and SEALS not in (body.get("include") or ()):
            item["encrypted_content"] = None
        if item["type"] == "function_call" and thought:
            memory.thought[item["id"]] = thought
    reasons = {"length": "max_output_tokens", "other": "content_filter"}
    return {
        "id": response_id,
        "object": "response",
        "created_at": 0,
        "status": "incomplete" if reply.why in reasons else "completed",
        "error": None,
        "incomplete_details": {"reason": reasons[reply.why]} if reply.why in reasons else None,
        "instructions": body.get("instructions"),
        "metadata": {},
        "model": body["model"],
        "output": items,
        "parallel_tool_calls": True,
        "temperature": 1.0,
        "tool_choice": body.get("tool_choice") or "auto",
        "tools": body.get("tools") or [],
        "top_p": 1.0,
        "usage": {
            "input_tokens": usage.input,
            "input_tokens_details": {
                "cached_tokens": usage.cache_read,
                "cache_write_tokens": usage.cache_write,
            },
            "output_tokens": usage.output,
            "output_tokens_details": {"reasoning_tokens": usage.reasoning},
            "total_tokens": usage.input + usage.output,
        },
    }


def _parts(item: dict[str, Any], at: dict[str, Any], pieces: int) -> list[tuple[dict[str, Any], bool]]:
    """The events between the beginning and the end of an item."""
    events: list[tuple[dict[str, Any], bool]] = []
    match item["type"]:
        case "reasoning":
            for index, part in enumerate(item["summary"]):
                here = {**at, "summary_index": index}
                kind = "response.reasoning_summary"
                events.append(({"type": f"{kind}_part.added", **here, "part": {**part, "text": ""}}, False))
                events += [
                    ({"type": f"{kind}_text.delta", **here, "delta": piece}, True)
                    for piece in split(part["text"], pieces)
                ]
                events.append(({"type": f"{kind}_text.done", **here, "text": part["text"]}, False))
                events.append(({"type": f"{kind}_part.done", **here, "part": part}, False))
        case "message":
            for index, part in enumerate(item["content"]):
                here = {**at, "content_index": index}
                field = "refusal" if part["type"] == "refusal" else "text"
                kind = "response.refusal" if field == "refusal" else "response.output_text"
                extra: dict[str, Any] = {} if field == "refusal" else {"logprobs": []}
                events.append(
                    ({"type": "response.content_part.added", **here, "part": {**part, field: ""}}, False)
                )
                events += [
                    ({"type": f"{kind}.delta", **here, "delta": piece, **extra}, True)
                    for piece in split(part[field], pieces)
                ]
                events.append(({"type": f"{kind}.done", **here, field: part[field], **extra}, False))
                events.append(({"type": "response.content_part.done", **here, "part": part}, False))
        case "function_call":
            kind = "response.function_call_arguments"
            events += [
                ({"type": f"{kind}.delta", **at, "delta": piece}, True)
                for piece in split(item["arguments"], pieces)
            ]
            done = {"type": f"{kind}.done", **at, "name": item["name"], "arguments": item["arguments"]}
            events.append((done, False))
    return events
