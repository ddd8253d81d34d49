"""What Anthropic's messages refuse, in the provider's words.

Refused, in the provider's words: no key or version in the headers; a body without model, max_tokens or
messages, or with fields that are not known; a first message that is not the user's; a role other than user
and assistant (the system prompt stands beside the messages); content that is empty or blank, and a last
assistant message that ends in white space; a tool_use that the next message does not answer at its
beginning; a tool_result that answers no tool_use of the message before; two of one id; a tool_use whose
input is no object; tool blocks where no tools are given; a block of the provider's own tools with a foreign
id, a result without its call before it, and a call without its result outside the last round; thinking
without its signature, with another's, left out within a round of tools, or last in a message; more than four
cache breakpoints; tools that are named badly or twice; numbers out of their range; over the window.

Consecutive messages of one role are one message, as the documentation says; `Strictness.alternate` refuses
them.
"""

from __future__ import annotations

import re
from typing import Any

from stratalog.testing.model_server.dialect import Memory, Strictness, known_fields, refuse, words
from stratalog.testing.scripted import signature_of

_FIELDS = words(
    "cache_control container context_management inference_geo max_tokens mcp_servers messages metadata "
    "model output_config service_tier speed stop_sequences stream system temperature thinking "
    "tool_choice tools top_k top_p"
)
_USER_BLOCKS = ("text", "image", "document", "search_result", "tool_result", "container_upload")
_SERVER_RESULTS = words(
    "web_search_tool_result web_fetch_tool_result code_execution_tool_result "
    "bash_code_execution_tool_result text_editor_code_execution_tool_result tool_search_tool_result"
)
_ASSISTANT_BLOCKS = (
    *("text", "thinking", "redacted_thinking", "tool_use", "server_tool_use", "container_upload"),
    *_SERVER_RESULTS,
)
_THINKING = ("thinking", "redacted_thinking")
_RESULT_BLOCKS = ("text", "image", "document", "search_result")
_TOOL_NAME = re.compile(r"[a-zA-Z0-9_-]{1,128}\Z")
_TOOL_ID = re.compile(r"[a-zA-Z0-9_-]+\Z")
_SERVER_ID = re.compile(r"srvtoolu_[a-zA-Z0-9_]+\Z")
_IMAGES = ("image/jpeg", "image/png", "image/gif", "image/webp")
Blocks = list[dict[str, Any]]


def check(body: dict[str, Any], strict: Strictness, memory: Memory) -> None:
    """Raises `Refused` for a body that breaks a rule."""
    for name in ("model", "max_tokens", "messages"):
        if body.get(name) is None:
            refuse(f"{name}: Field required")
    unknown = known_fields(body, _FIELDS)
    if unknown and not strict.unknown_fields:
        refuse(f"{unknown}: Extra inputs are not permitted")
    _check_numbers(body)
    _check_system(body.get("system"))
    tools = _check_tools(body)
    turns = _turns(body["messages"], strict)
    for place, (role, blocks) in enumerate(turns):
        for index, block in enumerate(blocks):
            _check_block(block, role, f"messages.{place}.content.{index}")
    _check_pairs(turns, tools)
    _check_server_tools(turns)
    _check_end(turns)
    _check_thinking(turns, body.get("thinking"), memory)
    _check_last_blocks(turns)
    marks = _marks(body, turns)
    if marks > 4:
        refuse(f"A maximum of 4 blocks with cache_control may be provided. Found {marks}.")


def _turns(messages: Any, strict: Strictness) -> list[tuple[str, Blocks]]:
    """The messages, those of one role in a row made one, with their content as blocks."""
    if not isinstance(messages, list):
        refuse("messages: Input should be a valid list")
    if not messages:
        refuse("messages: at least one message is required")
    turns: list[tuple[str, Blocks]] = []
    for place, message in enumerate(messages):
        role = message.get("role") if isinstance(message, dict) else None
        if role == "system":
            what = 'Unexpected role "system". The Messages API accepts a top-level `system` parameter, not'
            refuse(f'messages: {what} "system" as an input message role.')
        if role not in ("user", "assistant"):
            refuse(f"messages.{place}.role: Input should be 'user' or 'assistant'")
        extra = known_fields(message, ("role", "content"))
        if extra:
            refuse(f"messages.{place}.{extra}: Extra inputs are not permitted")
        blocks = _blocks(message.get("content"), place, role, last=place == len(messages) - 1)
        if turns and turns[-1][0] == role:
            if strict.alternate:
                what = 'roles must alternate between "user" and "assistant", but found multiple'
                refuse(f'messages: {what} "{role}" roles in a row')
            turns[-1][1].extend(blocks)
        else:
            turns.append((role, blocks))
    if turns[0][0] != "user":
        refuse('messages: first message must use the "user" role')
    return turns


def _blocks(content: Any, place: int, role: str, *, last: bool) -> Blocks:
    if isinstance(content, str):
        content = [{"type": "text", "text": content}] if content else []
    if not isinstance(content, list):
        refuse(f"messages.{place}.content: Input should be a valid list")
    if not content and not (last and role == "assistant"):
        what = "all messages must have non-empty content except for the optional final assistant message"
        refuse(f"messages.{place}: {what}")
    return list(content)


def _check_block(block: Any, role: str, at: str) -> None:
    kind = block.get("type") if isinstance(block, dict) else None
    allowed = _USER_BLOCKS if role == "user" else _ASSISTANT_BLOCKS
    if kind not in allowed:
        if kind in ("tool_use", "tool_result"):
            other = "assistant" if kind == "tool_use" else "user"
            refuse(f"{at}: `{kind}` blocks can only be in `{other}` messages")
        refuse(f"{at}.type: Input tag {kind!r} found does not match any of the expected tags")
    if kind != "text" and "thinking" in str(kind) and "cache_control" in block:
        refuse(f"{at}.{kind}.cache_control: Extra inputs are not permitted")
    match kind:
        case "text":
            _check_text(block, at)
        case "image":
            _check_image(block.get("source"), at)
        case "thinking":
            for field in ("thinking", "signature"):
                if not isinstance(block.get(field), str):
                    refuse(f"{at}.thinking.{field}: Field required")
            if block["signature"] != signature_of(block["thinking"]):
                refuse(f"{at}: Invalid `signature` in `thinking` block")
        case "redacted_thinking":
            if not isinstance(block.get("data"), str) or not block["data"]:
                refuse(f"{at}.redacted_thinking.data: Field required")
        case "tool_use":
            if not isinstance(block.get("id"), str) or not _TOOL_ID.match(block["id"]):
                refuse(f"{at}.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'")
            if not isinstance(block.get("name"), str) or not _TOOL_NAME.match(block["name"]):
                refuse(f"{at}.tool_use.name: String should match pattern '^[a-zA-Z0-9_-]{{1,128}}$'")
            if not isinstance(block.get("input"), dict):
                refuse(f"{at}.tool_use.input: Input should be a valid dictionary")
        case "tool_result":
            _check_result(block, at)
        case "server_tool_use":
            # The words: github.com/decolua/9router/issues/3685, ding113/claude-code-hub/issues/470.
            if not isinstance(block.get("id"), str) or not _SERVER_ID.match(block["id"]):
                refuse(f"{at}.server_tool_use.id: String should match pattern '^srvtoolu_[a-zA-Z0-9_]+$'")
            if not isinstance(block.get("name"), str):
                refuse(f"{at}.server_tool_use.name: Field required")
            if not isinstance(block.get("input"), dict):
                refuse(f"{at}.server_tool_use.input: Input should be a valid dictionary")
        case str() if kind in _SERVER_RESULTS:
            for field in ("tool_use_id", "content"):
                if block.get(field) is None:
                    refuse(f"{at}.{kind}.{field}: Field required")


def _check_text(block: dict[str, Any], at: str) -> None:
    said = block.get("text")
    if not isinstance(said, str):
        refuse(f"{at}.text.text: Field required")
    if not said:
        refuse("messages: text content blocks must be non-empty")
    if not said.strip():
        refuse("messages: text content blocks must contain non-whitespace text")


def _check_image(source: Any, at: str) -> None:
    kind = source.get("type") if isinstance(source, dict) else None
    if kind == "base64":
        if source.get("media_type") not in _IMAGES:
            refuse(f"{at}.image.source.base64.media_type: Input should be {' or '.join(map(repr, _IMAGES))}")
        if not source.get("data"):
            refuse(f"{at}.image.source.base64: image cannot be empty")
    elif kind == "url":
        if not str(source.get("url", "")).startswith(("https://", "http://")):
            refuse(f"{at}.image.source.url.url: Only HTTPS URLs are supported")
    elif kind != "file":
        refuse(f"{at}.image.source: Field required")


def _check_result(block: dict[str, Any], at: str) -> None:
    if not isinstance(block.get("tool_use_id"), str):
        refuse(f"{at}.tool_result.tool_use_id: Field required")
    content = block.get("content", "")
    if isinstance(content, str):
        return
    if not isinstance(content, list):
        refuse(f"{at}.tool_result.content: Input should be a valid list")
    for index, part in enumerate(content):
        here = f"{at}.tool_result.content.{index}"
        kind = part.get("type") if isinstance(part, dict) else None
        if kind not in _RESULT_BLOCKS:
            refuse(f"{here}: Input tag {kind!r} found does not match any of the expected tags")
        if kind == "text":
            _check_text(part, here)
        elif kind == "image":
            _check_image(part.get("source"), here)


def _check_pairs(turns: list[tuple[str, Blocks]], tools: set[str]) -> None:
    seen: set[str] = set()
    for place, (role, blocks) in enumerate(turns):
        if role == "assistant":
            for block in blocks:
                if block["type"] == "tool_use":
                    if block["id"] in seen:
                        refuse(f"messages.{place}.content: `tool_use` ids must be unique")
                    seen.add(block["id"])
            asked = [block["id"] for block in blocks if block["type"] == "tool_use"]
            after = turns[place + 1][1] if place + 1 < len(turns) else []
            first = _leading_results(after)
            missing = [call for call in asked if call not in first]
            if missing:
                refuse(
                    f"messages.{place}: `tool_use` ids were found without `tool_result` blocks immediately"
                    f" after: {', '.join(missing)}. Each `tool_use` block must have a corresponding"
                    " `tool_result` block in the next message."
                )
        else:
            before = turns[place - 1][1] if place else []
            asked = [block["id"] for block in before if block["type"] == "tool_use"]
            _check_results(blocks, asked, place)
    if seen and not tools:
        refuse("Requests which include `tool_use` or `tool_result` blocks must define tools")


def _check_results(blocks: Blocks, asked: list[str], place: int) -> None:
    found: list[str] = []
    for index, block in enumerate(blocks):
        if block["type"] != "tool_result":
            continue
        call = block["tool_use_id"]
        if call not in asked:
            refuse(
                f"messages.{place}.content.{index}: unexpected `tool_use_id` found in `tool_result` blocks:"
                f" {call}. Each `tool_result` block must have a corresponding `tool_use` block in the"
                " previous message."
            )
        if call in found:
            what = "each tool_use must have a single result. Found multiple `tool_result` blocks with id"
            refuse(f"messages.{place}.content.{index}: {what}: {call}")
        found.append(call)


def _leading_results(blocks: Blocks) -> list[str]:
    """The results at the beginning of a message; one after other content does not count."""
    found = []
    for block in blocks:
        if not isinstance(block, dict) or block.get("type") != "tool_result":
            break
        found.append(block["tool_use_id"])
    return found


def _check_server_tools(turns: list[tuple[str, Blocks]]) -> None:
    """The provider's own tools: a result follows its call, in the same message or a later one of the round.
    Only in the last round may a call still be without: the turn paused, or waits for other results too
    (platform.claude.com/docs/en/agents-and-tools/tool-use/server-tools). The words of the refusals:
    github.com/anthropics/claude-code/issues/95406, AnswerDotAI/lisette/issues/108."""
    asked: dict[str, tuple[int, str]] = {}  # calls without a result yet: their place and tool
    for place, (role, blocks) in enumerate(turns):
        if role == "user" and asked and not _leading_results(blocks):
            call, (where, name) = next(iter(asked.items()))
            refuse(
                f"messages.{where}: `{name}` tool use with id `{call}` was found without a corresponding"
                f" `{name}_tool_result` block"
            )
        for index, block in enumerate(blocks):
            kind = block["type"]
            if kind == "server_tool_use":
                asked[block["id"]] = (place, block["name"])
            elif kind in _SERVER_RESULTS and asked.pop(block["tool_use_id"], None) is None:
                refuse(
                    f"messages.{place}.content.{index}: unexpected `tool_use_id` found in `{kind}` blocks:"
                    f" {block['tool_use_id']}. Each `{kind}` block must have a corresponding"
                    " `server_tool_use` block before it."
                )


def _check_last_blocks(turns: list[tuple[str, Blocks]]) -> None:
    """The words: github.com/tailcallhq/forgecode/issues/2107; sealed thinking too is refused
    (NousResearch/hermes-agent/pull/16921)."""
    for place, (role, blocks) in enumerate(turns):
        if role == "assistant" and blocks and blocks[-1]["type"] in _THINKING:
            refuse(f"messages.{place}: The final block in an assistant message cannot be `thinking`.")


def _check_end(turns: list[tuple[str, Blocks]]) -> None:
    role, blocks = turns[-1]
    if role == "assistant" and blocks and blocks[-1]["type"] == "text":
        said = blocks[-1]["text"]
        if said != said.rstrip():
            refuse("messages: final assistant content cannot end with trailing whitespace")


def _check_thinking(turns: list[tuple[str, Blocks]], thinking: Any, memory: Memory) -> None:
    if not isinstance(thinking, dict) or thinking.get("type") not in ("enabled", "adaptive"):
        return
    for place in range(len(turns) - 1, -1, -1):
        role, blocks = turns[place]
        if role == "user":
            if not _leading_results(blocks):
                return  # here the round of tools began; what is before may leave its thinking out
            continue
        first = blocks[0]["type"] if blocks else ""
        calls = [block["id"] for block in blocks if block["type"] == "tool_use"]
        if thinking["type"] == "enabled" and first not in _THINKING:
            refuse(
                f"messages.{place}.content.0.type: Expected `thinking` or `redacted_thinking`, but found"
                f" `{first}`. When `thinking` is enabled, a final `assistant` message must start with a"
                " thinking block"
            )
        thoughts = [block["thinking"] for block in blocks if block["type"] == "thinking"]
        for call in calls:
            thought = memory.thought.get(call)
            if thought is not None and thought not in thoughts:
                what = "`thinking` blocks in the latest assistant message cannot be modified or left out"
                refuse(f"messages.{place}.content.0: {what}")


def _check_system(system: Any) -> None:
    if system is None or isinstance(system, str):
        return
    if not isinstance(system, list):
        refuse("system: Input should be a valid list")
    for index, block in enumerate(system):
        if (
            not isinstance(block, dict)
            or block.get("type") != "text"
            or not isinstance(block.get("text"), str)
        ):
            refuse(f"system.{index}: Input should be a text block")
        if not block["text"].strip():
            refuse("system: text content blocks must be non-empty")


def _check_tools(body: dict[str, Any]) -> set[str]:
    names: list[str] = []
    tools = body.get("tools") or []
    if not isinstance(tools, list):
        refuse("tools: Input should be a valid list")
    for index, tool in enumerate(tools):
        at = f"tools.{index}.custom"
        name = tool.get("name") if isinstance(tool, dict) else None
        if not isinstance(name, str) or not _TOOL_NAME.match(name):
            refuse(f"{at}.name: String should match pattern '^[a-zA-Z0-9_-]{{1,128}}$'")
        if tool.get("type", "custom") == "custom":
            schema = tool.get("input_schema")
            if not isinstance(schema, dict):
                refuse(f"{at}.input_schema: Field required")
            if schema.get("type") != "object":
                refuse(f"{at}.input_schema.type: Input should be 'object'")
        names.append(name)
    if len(set(names)) < len(names):
        refuse("tools: Tool names must be unique.")
    choice = body.get("tool_choice")
    if choice is not None:
        kind = choice.get("type") if isinstance(choice, dict) else None
        if kind not in ("auto", "any", "tool", "none"):
            what = "Input tag does not match any of the expected tags: 'auto', 'any', 'tool', 'none'"
            refuse(f"tool_choice: {what}")
        if not names:
            refuse("tool_choice: may only be specified while providing tools")
        if kind == "tool" and choice.get("name") not in names:
            refuse(f"tool_choice: Tool '{choice.get('name')}' not found in provided tools")
    return set(names)


def _check_numbers(body: dict[str, Any]) -> None:
    limit = body["max_tokens"]
    if not isinstance(limit, int) or isinstance(limit, bool):
        refuse("max_tokens: Input should be a valid integer")
    if limit < 1:
        refuse("max_tokens: must be greater than or equal to 1")
    thinking = body.get("thinking")
    if not isinstance(thinking, dict):
        thinking = {}
    enabled = thinking.get("type") == "enabled"
    if enabled:
        budget = thinking.get("budget_tokens")
        if not isinstance(budget, int) or budget < 1024:
            refuse("thinking.enabled.budget_tokens: Input should be greater than or equal to 1024")
        if budget >= limit:
            refuse("`max_tokens` must be greater than `thinking.budget_tokens`.")
    warmth = body.get("temperature")
    if warmth is not None:
        if not isinstance(warmth, int | float) or not 0 <= warmth <= 1:
            refuse("temperature: range: 0..1")
        if enabled and warmth != 1:
            refuse("`temperature` may only be set to 1 when thinking is enabled.")


def _marks(body: dict[str, Any], turns: list[tuple[str, Blocks]]) -> int:
    """How many cache breakpoints there are."""
    blocks = [block for _, content in turns for block in content]
    inner = [block["content"] for block in blocks if isinstance(block.get("content"), list)]
    system = body["system"] if isinstance(body.get("system"), list) else []
    places = [
        body,
        *system,
        *(body.get("tools") or []),
        *blocks,
        *(part for content in inner for part in content),
    ]
    return sum(place.get("cache_control") is not None for place in places)
