"""What OpenAI's responses refuse, in the provider's words.

Refused: a body without model or input, or with fields that are not known; an item whose kind or role is not
known; content parts of the other side (`input_text` of the assistant, `output_text` of the user); a call
without call_id, name or arguments; an output to no earlier call, or the second one; a call without an
output; the same item id twice; reasoning that nothing follows; a call whose reasoning is left out;
reasoning without its sealed content when nothing is stored; things to include that are not known; sealed
reasoning asked of a model that does not reason (`Strictness.no_reasoning`); tools and numbers as in `chat`;
over the window.
"""

from __future__ import annotations

from typing import Any

from stratalog.testing.model_server.chat_rules import check_tools
from stratalog.testing.model_server.dialect import (
    TOOL_NAME,
    Memory,
    Strictness,
    data_url,
    kind_of,
    known_fields,
    refuse,
    words,
)

_FIELDS = words(
    "background context_management conversation include input instructions max_output_tokens "
    "max_tool_calls metadata model moderation parallel_tool_calls previous_response_id prompt "
    "prompt_cache_key prompt_cache_options prompt_cache_retention reasoning safety_identifier "
    "service_tier store stream stream_options temperature text tool_choice tools top_logprobs top_p "
    "truncation user"
)
SEALS = "reasoning.encrypted_content"
_INCLUDES = words(
    "code_interpreter_call.outputs computer_call_output.output.image_url file_search_call.results "
    "message.input_image.image_url message.output_text.logprobs web_search_call.action.sources "
    "web_search_call.results"
) | {SEALS}
_ROLES = ("assistant", "system", "developer", "user")


def check(body: dict[str, Any], strict: Strictness, memory: Memory) -> None:
    """Raises `Refused` for a body that breaks a rule."""
    if not isinstance(body.get("model"), str) or not body["model"]:
        refuse("Missing required parameter: 'model'.", code="missing_required_parameter", param="model")
    unknown = known_fields(body, _FIELDS)
    if unknown and not strict.unknown_fields:
        refuse(f"Unknown parameter: '{unknown}'.", code="unknown_parameter", param=unknown)
    if body.get("previous_response_id") is not None or body.get("conversation") is not None:
        refuse(
            "Previous response not found.",
            code="previous_response_not_found",
            param="previous_response_id",
        )
    if body.get("instructions") is not None and not isinstance(body["instructions"], str):
        refuse(
            "Invalid type for 'instructions': expected a string.",
            code="invalid_type",
            param="instructions",
        )
    for place, wanted in enumerate(body.get("include") or ()):
        if wanted not in _INCLUDES:
            refuse(f"Invalid value: {wanted!r}.", code="invalid_value", param=f"include[{place}]")
        if wanted == SEALS and strict.no_reasoning:
            # The words: github.com/pydantic/pydantic-ai/issues/3326.
            refuse("Encrypted content is not supported with this model.", param="include")
    given = body.get("input")
    if isinstance(given, list):
        _check_items(given, body, memory)
    elif not isinstance(given, str) or not given:
        refuse("Missing required parameter: 'input'.", code="missing_required_parameter", param="input")
    check_tools(body, _tool_function)
    limit = body.get("max_output_tokens")
    if limit is not None and (not isinstance(limit, int) or limit < 16):
        what = "Invalid 'max_output_tokens': integer below minimum value. Expected a value >= 16."
        refuse(what, code="integer_below_min_value", param="max_output_tokens")


def _tool_function(tool: Any, place: str) -> Any:
    if not isinstance(tool, dict) or tool.get("type") != "function":
        refuse(f"Missing or unknown value for '{place}.type'.", param=f"{place}.type")
    return tool


def _check_items(items: list[Any], body: dict[str, Any], memory: Memory) -> None:
    if not items:
        refuse("Invalid 'input': empty array.", code="empty_array", param="input")
    asked: list[str] = []
    answered: list[str] = []
    ids: list[str] = []
    for place, item in enumerate(items):
        at = f"input[{place}]"
        if not isinstance(item, dict):
            refuse(
                f"Invalid type for '{at}': expected an object, got {kind_of(item)}.",
                code="invalid_type",
                param=at,
            )
        if item.get("id") in ids:
            what = f"Duplicate item found with id {item['id']}."
            refuse(f"{what} Remove duplicate items from your input and try again.", param="input")
        match item.get("type", "message"):
            case "message":
                _check_message(item, at)
            case "function_call":
                asked.append(_check_call(item, at))
                thought = memory.thought.get(item.get("id", ""), "")
                if thought and thought not in ids:
                    what = f"Item '{item['id']}' of type 'function_call' was provided without its required"
                    refuse(f"{what} 'reasoning' item: '{thought}'.", param="input")
            case "function_call_output":
                _check_output(item, at, asked, answered)
            case "reasoning":
                _check_reasoning(item, at, items[place + 1 :], stored=body.get("store") is not False)
            case kind:
                refuse(f"Invalid value: {kind!r}.", code="invalid_value", param=f"{at}.type")
        if item.get("id"):
            ids.append(item["id"])
    missing = [call for call in asked if call not in answered]
    if missing:
        refuse(f"No tool output found for function call {missing[0]}.", param="input")


def _check_message(item: dict[str, Any], at: str) -> None:
    role = item.get("role")
    if role not in _ROLES:
        supported = ", ".join(map(repr, _ROLES))
        what = f"Invalid value: {role!r}. Supported values are: {supported}."
        refuse(what, code="invalid_value", param=f"{at}.role")
    content = item.get("content")
    if isinstance(content, str):
        return
    if not isinstance(content, list) or not content:
        what = f"Invalid type for '{at}.content': expected one of an array of objects or string, got"
        refuse(f"{what} {kind_of(content)}.", code="invalid_type", param=f"{at}.content")
    known = ("output_text", "refusal") if role == "assistant" else ("input_text", "input_image", "input_file")
    for place, part in enumerate(content):
        here = f"{at}.content[{place}]"
        kind = part.get("type") if isinstance(part, dict) else None
        if kind not in known:
            supported = " and ".join(map(repr, known))
            what = f"Invalid value: {kind!r}. Supported values are: {supported}."
            refuse(what, code="invalid_value", param=f"{here}.type")
        if kind in ("input_text", "output_text") and not isinstance(part.get("text"), str):
            refuse(
                f"Missing required parameter: '{here}.text'.", code="missing_required_parameter", param=here
            )
        if kind == "input_image" and not data_url(part.get("image_url")) and not part.get("file_id"):
            refuse("Invalid 'image_url'.", code="invalid_image_url", param=f"{here}.image_url")


def _check_call(item: dict[str, Any], at: str) -> str:
    for field in ("call_id", "name", "arguments"):
        if not isinstance(item.get(field), str) or (field != "arguments" and not item[field]):
            what = f"Missing required parameter: '{at}.{field}'."
            refuse(what, code="missing_required_parameter", param=f"{at}.{field}")
    if not TOOL_NAME.match(item["name"]):
        what = f"Invalid '{at}.name': string does not match pattern. Expected '^[a-zA-Z0-9_-]+$'."
        refuse(what, code="invalid_value", param=f"{at}.name")
    if item.get("id") is not None and not str(item["id"]).startswith("fc_"):
        what = f"Invalid '{at}.id': '{item['id']}'. Expected an ID that begins with 'fc'."
        refuse(what, code="invalid_value", param=f"{at}.id")
    return str(item["call_id"])


def _check_output(item: dict[str, Any], at: str, asked: list[str], answered: list[str]) -> None:
    call_id = item.get("call_id")
    if call_id not in asked:
        refuse(f"No tool call found for function call output with call_id {call_id}.", param="input")
    if call_id in answered:
        refuse(f"Duplicate function call output for call_id {call_id}.", param="input")
    if not isinstance(item.get("output"), str | list):
        what = f"Missing required parameter: '{at}.output'."
        refuse(what, code="missing_required_parameter", param=f"{at}.output")
    answered.append(call_id)


def _check_reasoning(item: dict[str, Any], at: str, rest: list[Any], *, stored: bool) -> None:
    if not isinstance(item.get("summary"), list):
        what = f"Missing required parameter: '{at}.summary'."
        refuse(what, code="missing_required_parameter", param=f"{at}.summary")
    if not stored and not item.get("encrypted_content"):
        what = f"Item with id '{item.get('id')}' not found."
        why = "Items are not persisted when `store` is set to false."
        refuse(f"{what} {why}", status=404, param="input")
    following = next(
        (other for other in rest if isinstance(other, dict) and other.get("type") != "reasoning"), {}
    )
    own = following.get("type") == "function_call" or following.get("role") == "assistant"
    if not own:
        what = (
            f"Item '{item.get('id')}' of type 'reasoning' was provided without its required following item."
        )
        refuse(what, param="input")
