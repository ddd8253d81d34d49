"""What OpenAI's chat completions refuse, in the provider's words.

Refused, in the provider's words: a body without model or messages, or with fields or values that are not
known; a role that is not known; content that the role may not have, or none; an assistant message with
neither content nor calls; calls without id, with the same id twice, or with arguments that are no string; a
tool message that answers no call of the assistant message before it; a call that is not answered before the
next message that is no tool's; tools that are named badly or twice; a tool choice without that tool;
numbers out of their range; over the window.

`Strictness` adds what chat templates demand: one system message and that first, user and assistant in turn;
and what DeepSeek's thinking models do: the reasoning of every message with calls.
"""

from __future__ import annotations

from typing import Any

from stratalog.testing.model_server.dialect import (
    TOOL_NAME,
    Strictness,
    data_url,
    kind_of,
    known_fields,
    refuse,
    words,
)

_FIELDS = words(
    "audio frequency_penalty function_call functions logit_bias logprobs max_completion_tokens "
    "max_tokens messages metadata modalities model moderation n parallel_tool_calls prediction "
    "presence_penalty prompt_cache_key prompt_cache_options prompt_cache_retention reasoning_effort "
    "response_format safety_identifier seed service_tier stop store stream stream_options temperature "
    "tool_choice tools top_logprobs top_p user verbosity web_search_options"
)
_ROLES = ("system", "assistant", "user", "function", "tool", "developer")
_PARTS = {
    "system": ("text",),
    "developer": ("text",),
    "tool": ("text",),
    "user": ("text", "image_url", "input_audio", "file"),
    "assistant": ("text", "refusal"),
}
_MESSAGE_FIELDS = words("role content name tool_calls tool_call_id refusal audio function_call")
_LONGEST_ID = 40


def check(body: dict[str, Any], strict: Strictness) -> None:
    """Raises `Refused` for a body that breaks a rule."""
    if not isinstance(body.get("model"), str) or not body["model"]:
        refuse("you must provide a model parameter")
    unknown = known_fields(body, _FIELDS)
    if unknown and not strict.unknown_fields:
        refuse(f"Unrecognized request argument supplied: {unknown}", code="unknown_parameter", param=unknown)
    _check_messages(body, strict)
    check_tools(body, _tool_function)
    _check_numbers(body)
    if body.get("stream_options") is not None and body.get("stream") is not True:
        what = "The 'stream_options' parameter is only allowed when 'stream' is enabled."
        refuse(what, param="stream_options")


def check_tools(body: dict[str, Any], function: Any) -> None:
    """The rules of tools and tool choice. `function` reads the function out of a tool, or refuses it."""
    tools = body.get("tools")
    names = []
    if tools is not None:
        if not isinstance(tools, list) or not tools:
            refuse("[] is too short - 'tools'", param="tools")
        if len(tools) > 128:
            refuse(f"Invalid 'tools': array too long. Expected at most 128, got {len(tools)}.", param="tools")
        for place, tool in enumerate(tools):
            names.append(_check_function(function(tool, f"tools[{place}]"), f"tools[{place}].function"))
        if len(set(names)) < len(names):
            refuse("Invalid 'tools': function names must be unique.", param="tools")
    choice = body.get("tool_choice")
    if choice is None:
        return
    if not names:
        refuse("'tool_choice' is only allowed when 'tools' are specified.", param="tool_choice")
    if isinstance(choice, dict):
        wanted = choice.get("name") or (choice.get("function") or {}).get("name")
        if wanted not in names:
            refuse("Tool choice 'function' not found in 'tools' parameter.", param="tool_choice")
    elif choice not in ("none", "auto", "required"):
        refuse(
            f"Invalid value: {choice!r}. Supported values are: 'none', 'auto', and 'required'.",
            param="tool_choice",
        )


def _tool_function(tool: Any, place: str) -> Any:
    if not isinstance(tool, dict) or tool.get("type") != "function":
        refuse(f"Missing or unknown value for {place}.type; supported: 'function'.", param=f"{place}.type")
    return tool.get("function")


def _check_function(function: Any, place: str) -> str:
    name = function.get("name") if isinstance(function, dict) else None
    if not isinstance(name, str) or not TOOL_NAME.match(name):
        what = f"Invalid '{place}.name': string does not match pattern '^[a-zA-Z0-9_-]+$'."
        refuse(what, code="invalid_value", param=f"{place}.name")
    schema = function.get("parameters")
    if schema is not None and (not isinstance(schema, dict) or schema.get("type", "object") != "object"):
        what = f"Invalid schema for function '{name}': schema must be a JSON Schema of 'type: \"object\"'."
        refuse(what, code="invalid_function_parameters", param=f"{place}.parameters")
    return name


def _check_messages(body: dict[str, Any], strict: Strictness) -> None:
    messages = body.get("messages")
    if not isinstance(messages, list):
        refuse("Missing required parameter: 'messages'.", code="missing_required_parameter", param="messages")
    if not messages:
        refuse("[] is too short - 'messages'", param="messages")
    open_calls: list[str] = []  # of the last assistant message, still to be answered
    answered: set[str] = set()
    fields = _MESSAGE_FIELDS | {"reasoning_content"} if strict.wants_reasoning else _MESSAGE_FIELDS
    for place, message in enumerate(messages):
        at = f"messages.[{place}]"
        role = message.get("role") if isinstance(message, dict) else None
        if role not in _ROLES:
            supported = "'system', 'assistant', 'user', 'function', 'tool', and 'developer'"
            what = f"Invalid value: {role!r}. Supported values are: {supported}."
            refuse(what, code="invalid_value", param=f"messages[{place}].role")
        unknown = known_fields(message, fields)
        if unknown and not strict.unknown_fields:
            what = f"Additional properties are not allowed ('{unknown}' was unexpected) - 'messages.{place}'"
            refuse(what, code="unknown_parameter", param=f"messages[{place}].{unknown}")
        if role == "tool":
            call_id = message.get("tool_call_id")
            if call_id in answered:
                refuse(f"Duplicate value for 'tool_call_id' of '{call_id}'.", param=f"{at}.tool_call_id")
            if call_id not in open_calls:
                what = (
                    "Invalid parameter: messages with role 'tool' must be a response to a preceeding message"
                    " with 'tool_calls'."
                )
                refuse(what, param=f"{at}.role")
            open_calls.remove(call_id)
            answered.add(call_id)
        else:
            if open_calls:
                _refuse_unanswered(open_calls, place)
            answered.clear()
        _check_content(message, role, at)
        if role == "assistant":
            open_calls = _calls(message, at)
            if (
                open_calls
                and strict.wants_reasoning
                and not isinstance(message.get("reasoning_content"), str)
            ):
                # The words: github.com/hotovo/aider-desk/issues/529; the rule: api-docs.deepseek.com,
                # guides/thinking_mode, "tool calls".
                refuse(
                    f"Missing `reasoning_content` field in the assistant message at message index {place}.",
                    code="invalid_request_error",
                )
    if open_calls:
        _refuse_unanswered(open_calls, len(messages))
    if strict.one_system:
        later = [m for m in messages[1:] if m["role"] in ("system", "developer")]
        if later:
            refuse("System message must be at the beginning.")
    if strict.alternate:
        _check_turns([m for m in messages if m["role"] not in ("system", "developer")])


def _check_turns(messages: list[dict[str, Any]]) -> None:
    """User and assistant in turn, as chat templates demand; calls and their results stand between."""
    before = "assistant"
    for message in messages:
        role = message["role"]
        if role in ("user", "assistant") and (role == before or (before == "tool" and role == "user")):
            what = "After the optional system message, conversation roles must alternate"
            refuse(f"{what} user/assistant/user/assistant/...")
        before = role


def _refuse_unanswered(calls: list[str], place: int) -> None:
    what = (
        "An assistant message with 'tool_calls' must be followed by tool messages responding to each"
        f" 'tool_call_id'. The following tool_call_ids did not have response messages: {', '.join(calls)}"
    )
    refuse(what, param=f"messages.[{place}].role")


def _calls(message: dict[str, Any], at: str) -> list[str]:
    calls = message.get("tool_calls")
    if calls is None:
        return []
    if not isinstance(calls, list) or not calls:
        refuse(
            f"Invalid '{at}.tool_calls': empty array. Expected at least 1.",
            code="empty_array",
            param=f"{at}.tool_calls",
        )
    ids: list[str] = []
    for place, call in enumerate(calls):
        here = f"{at}.tool_calls[{place}]"
        call_id = call.get("id") if isinstance(call, dict) else None
        if not isinstance(call_id, str) or not call_id:
            refuse(f"Missing required parameter: '{here}.id'.", param=f"{here}.id")
        if len(call_id) > _LONGEST_ID:
            what = (
                f"Invalid '{here}.id': string too long. Expected at most {_LONGEST_ID}, got {len(call_id)}."
            )
            refuse(what, code="string_above_max_length", param=f"{here}.id")
        if call_id in ids:
            refuse(f"Duplicate value for 'tool_call_id' of '{call_id}'.", param=f"{here}.id")
        if call.get("type") != "function":
            refuse(f"Missing required parameter: '{here}.type'.", param=f"{here}.type")
        function = call.get("function")
        if not isinstance(function, dict) or not TOOL_NAME.match(str(function.get("name", ""))):
            refuse(f"Invalid '{here}.function.name'.", code="invalid_value", param=f"{here}.function.name")
        if not isinstance(function.get("arguments"), str):
            what = f"Invalid type for '{here}.function.arguments': expected a string."
            refuse(what, code="invalid_type", param=f"{here}.function.arguments")
        ids.append(call_id)
    return ids


def _check_content(message: dict[str, Any], role: str, at: str) -> None:
    content = message.get("content")
    if content is None and role == "assistant" and (message.get("tool_calls") or message.get("refusal")):
        return
    if isinstance(content, str):
        return
    if not isinstance(content, list):
        expected = "a string" if role in ("tool", "function") else "a string or an array of objects"
        what = f"Invalid value for 'content': expected {expected}, got {kind_of(content)}."
        refuse(what, param=f"{at}.content")
    if not content:
        refuse(f"Invalid '{at}.content': empty array.", code="empty_array", param=f"{at}.content")
    for place, part in enumerate(content):
        here = f"{at}.content[{place}]"
        kind = part.get("type") if isinstance(part, dict) else None
        if kind not in _PARTS.get(role, ()):
            refuse(f"Invalid value: {kind!r}.", code="invalid_value", param=f"{here}.type")
        if kind == "text" and not isinstance(part.get("text"), str):
            refuse(f"Missing required parameter: '{here}.text'.", param=f"{here}.text")
        if kind == "image_url" and not data_url((part.get("image_url") or {}).get("url")):
            what = "Invalid image data: expected a URL or a base64-encoded data URL with an image MIME type."
            refuse(what, code="invalid_image_url", param=f"{here}.image_url.url")


def _check_numbers(body: dict[str, Any]) -> None:
    ranges = {
        "temperature": (0, 2),
        "top_p": (0, 1),
        "frequency_penalty": (-2, 2),
        "presence_penalty": (-2, 2),
        "n": (1, 128),
        "max_tokens": (1, float("inf")),
        "max_completion_tokens": (1, float("inf")),
    }
    for name, (least, most) in ranges.items():
        value = body.get(name)
        if value is None:
            continue
        if not isinstance(value, int | float) or isinstance(value, bool) or not least <= value <= most:
            refuse(f"Invalid '{name}': expected a value from {least} to {most}.", param=name)
    if body.get("max_tokens") is not None and body.get("max_completion_tokens") is not None:
        refuse("Setting 'max_tokens' and 'max_completion_tokens' at the same time is not supported.")
